"""The commands of a campaign that exists: ask, tell, history, check, release, extend and export."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from observal.cli.options import Annotator, Dask, Encoding, Missing, Separator, Where, listed, open_campaign
from observal.cli.output import (
    Force,
    Json,
    print_json,
    print_table,
    progress_bar,
    rows_in_words,
    say,
    spelled,
    write_csv,
    write_excel,
)
from observal.errors import InvalidInput

MOST_COLUMNS = 6  # columns of the pool that ask shows on a terminal


def ask(
    campaign: Where,
    n: Annotated[int, typer.Option("-n", help="Show at most this many rows.", min=1)] = 20,
    columns: Annotated[
        str | None, typer.Option(help="Columns of the pool to show, as A,B,C; by default all of them.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV with an empty label column to fill in.")] = False,
    as_json: Json = False,
    annotator: Annotator = "anyone",
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="Write to this new file: Excel if it ends in .xlsx, JSON with --json, otherwise CSV."
        ),
    ] = None,
    dask: Dask = None,
) -> None:
    """Show rows to label now.

    Asking again gives the same rows until they are answered. Rows that other annotators hold are not shown. If others hold all
    open rows, you get the next ones, chosen ahead.
    Example: observal ask campaign.db -n 20 -o labels.xlsx (or labels.csv), then fill in the last column
    """
    if as_csv and as_json:
        raise typer.BadParameter("give --csv or --json, not both.")
    in_excel = out is not None and out.name.lower().endswith(".xlsx")
    if in_excel and (as_csv or as_json):
        raise typer.BadParameter("a file that ends in .xlsx is an Excel workbook; leave out --csv and --json.")
    if out is not None and out.exists():
        raise InvalidInput(f"{out} already exists and may contain labels; choose another path.")
    from observal.files import check_target
    from observal.tables.formats import format_from

    if out is not None:
        check_target(out)

    with progress_bar("choosing rows", hidden=as_json or as_csv) as progress:
        rows = open_campaign(campaign, dask, progress).ask(n, annotator)
    names, records = rows.to_fill_in(listed(columns))
    like = None if rows.written is None else format_from(rows.written)
    if as_json:
        about = {"round": rows.round, "finished": rows.finished, "note": rows.note, "allowed": [*rows.classes, "skip"]}
        print_json({**about, "rows": [{k: v for k, v in r.items() if k != names[-2]} for r in records]}, out)
    elif in_excel and out is not None:
        if rows:
            write_excel(out, names, records, [*rows.classes, "skip"], like)
    elif as_csv or out:
        if rows or not out:
            write_csv(out, names, records, like)
    elif rows:
        raw = names[1:-4] if columns else names[1:-4][:MOST_COLUMNS]
        shown = [names[0], *raw, *names[-4:-2]]
        print_table(shown, [["" if v is None else v for v in row] for row in spelled(shown, records, like)])
        if len(names) > len(shown) + 2:
            say(
                f"{len(names) - len(shown) - 2} more columns are not shown; use --columns, --csv or --json to see them."
            )
        say(f"Allowed answers: {rows.allowed}")
    if rows.note and not as_json:
        say(rows.note, error=as_csv and not out)
    if out and rows:
        say(f"{rows_in_words(len(rows))} to label: {out}", error=as_json)
    if 0 < len(rows) < n:
        say(f"Fewer than {n}: the round has no more rows to hand out; answer these first.", error=True)


def tell(
    campaign: Where,
    labels: Annotated[
        str, typer.Argument(help="CSV, Excel or JSON file with ids and labels; - reads CSV from standard input.")
    ],
    annotator: Annotator = "anyone",
    correct: Annotated[
        bool, typer.Option("--correct", help="Let a new label replace one that was told before.")
    ] = False,
    sep: Separator = None,
    encoding: Encoding = None,
    missing: Missing = None,
    as_json: Json = False,
) -> None:
    """Store the labels from a file: all of them or, if a line is wrong, none.

    The word "skip" skips a row. A blank label means "not yet". Telling the same file twice changes nothing.
    Example: observal tell campaign.db labels.csv --annotator ann
    """
    from observal.campaign import Campaign

    opened = Campaign.open(campaign)
    source, text = ("standard input", sys.stdin.buffer.read()) if labels == "-" else (labels, None)
    receipt = opened.tell_file(source, annotator, correct, text, sep=sep, encoding=encoding, missing=missing or ())
    status = opened.status()
    if as_json:
        print_json({**asdict(receipt), "bought": status.labels, "label_budget": status.label_budget})
        return
    if not receipt:
        say(f"{'Standard input' if labels == '-' else labels} has no answers yet; nothing was stored.")
        return
    budget = f" of {status.label_budget}" if status.label_budget is not None else ""
    say(
        f"{receipt} The campaign has {status.labels}{budget} labels, and {status.open_rows} {'row is' if status.open_rows == 1 else 'rows are'} open."
    )


def history(campaign: Where, as_json: Json = False) -> None:
    """List everything that happened in a campaign, in order.

    Example: observal history campaign.db
    """
    from observal.campaign import Campaign

    entries = Campaign.open(campaign).history()
    if as_json:
        print_json([{**vars(entry), "details": dict(entry.details)} for entry in entries])
        return
    print_table(["", "time (UTC)", "who", "what", ""], [_line(entry) for entry in entries])


def check(campaign: Where, as_json: Json = False) -> None:
    """Read the whole campaign and say whether anything was changed after it was written.

    Example: observal check campaign.db
    """
    from observal.campaign import Campaign

    with progress_bar("reading", hidden=as_json):
        found = Campaign.open(campaign).check()
    if as_json:
        print_json(asdict(found))
        return
    print(found)


def release(
    campaign: Where,
    annotator: Annotated[str, typer.Option(help="Whose rows to take back.")],
    as_json: Json = False,
) -> None:
    """Take back the open rows that an annotator holds, so others can label them.

    If the annotator answers anyway, the answer counts. Example: observal release campaign.db --annotator ann
    """
    from observal.campaign import Campaign

    count = Campaign.open(campaign).release(annotator)
    if as_json:
        print_json({"released": count})
        return
    if count == 0:
        say(f"{annotator} holds no open rows; nothing was taken back.")
        return
    say(f"{rows_in_words(count)} taken back from {annotator}; others can have {'it' if count == 1 else 'them'} now.")


def extend(
    campaign: Where,
    budget: Annotated[int | None, typer.Option(help="The new label budget, in total.", min=1)] = None,
    pool: Annotated[
        Path | None, typer.Option(help="More rows to ask about, with the pool's columns: CSV, Excel, Parquet or Arrow.")
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            help="Propensity of the new rows: a column, or a number for all of them; by default as in the pool."
        ),
    ] = None,
    annotator: Annotator = "anyone",
    as_json: Json = False,
) -> None:
    """Raise the label budget of a campaign, or add rows to its pool.

    A higher budget makes intervals somewhat wider: they then hold at all rounds, however many follow. New rows become part of the
    population that intervals are about. Example: observal extend campaign.db --budget 500 --pool more.csv
    """
    if budget is None and pool is None:
        raise typer.BadParameter("give --budget N, --pool FILE or both.")
    from observal.campaign import Campaign

    opened = Campaign.open(campaign)
    before = opened.status()
    with progress_bar("adding rows", hidden=as_json or pool is None):
        opened.extend(budget, annotator, pool=pool, propensity=_number_or_name(propensity))
    status = opened.status()
    if as_json:
        print_json({"label_budget": status.label_budget, "labels": status.labels, "pool_rows": status.pool_rows})
        return
    if pool is not None:
        added = status.pool_rows - before.pool_rows
        say(f"{added} rows were added; the pool now has {status.pool_rows}.")
    if budget is not None:
        say(f"The label budget is now {status.label_budget}; the campaign has {status.labels} labels.")


def _number_or_name(propensity: str | None) -> str | float | None:
    try:
        return None if propensity is None else float(propensity)
    except ValueError:
        return propensity


def export(
    campaign: Where,
    model: Annotated[Path | None, typer.Argument(help="The file to write, such as model.skops.")] = None,
    label_studio: Annotated[
        Path | None,
        typer.Option(help="Write the open rows as Label Studio tasks instead, with the labelling config beside them."),
    ] = None,
    argilla: Annotated[Path | None, typer.Option(help="Write the open rows as Argilla records instead.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the classifier to a file, or the open rows for another labelling tool.

    The classifier takes raw rows, as they are in your tables; load it with observal.load_model("model.skops").
    Examples: observal export campaign.db model.skops; observal export campaign.db --label-studio tasks.json
    """
    if sum(path is not None for path in (model, label_studio, argilla)) != 1:
        raise typer.BadParameter("give one of MODEL, --label-studio FILE and --argilla FILE.")
    from observal.campaign import Campaign

    with progress_bar("fitting", hidden=as_json):
        opened = Campaign.open(campaign)
        if model is None:
            _export_rows(opened, label_studio, argilla, force, as_json)
            return
        opened.export(model, force)
    labels = opened.status().labels
    if as_json:
        print_json({"model": str(model), "labels": labels})
        return
    say(f'Model from the log and {labels} labels: {model}. Load it with observal.load_model("{model}").')


def _export_rows(opened: Any, label_studio: Path | None, argilla: Path | None, force: bool, as_json: bool) -> None:
    """Write the open rows for Label Studio or Argilla."""
    import json

    from observal.exchange.label_tools import argilla_records, label_studio_config, label_studio_tasks
    from observal.files import check_target, write_text

    path = label_studio or argilla
    assert path is not None
    config = path.with_suffix(".xml") if label_studio else None
    for target in filter(None, (path, config)):
        check_target(target, force)
    tool = "label-studio" if label_studio else "argilla"
    rows = opened.drawn(tool)
    made = label_studio_tasks(rows) if label_studio else argilla_records(rows)
    write_text(path, json.dumps(made, indent=1, default=str) + "\n")
    if config:
        write_text(config, label_studio_config([str(name) for name in opened.settings["classes"]]) + "\n")
    if as_json:
        print_json({"rows": len(rows), "file": str(path), "config": config and str(config)})
        return
    beside = f", labelling config: {config}" if config else ""
    say(f"{len(rows)} rows: {path}{beside}. {tool} holds them until they are answered or released.")


def _line(entry: Any) -> tuple[Any, ...]:
    return entry.sequence, entry.time[:19].replace("T", " "), entry.actor, entry.kind, entry.text
