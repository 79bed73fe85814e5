"""Commands of a campaign: from tables in files to labels, and to a model."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from observal.cli.output import Force, Json, Seed, print_json, print_pairs, print_table, progress_bar, say, write_csv
from observal.errors import InvalidInput

MOST_COLUMNS = 6  # of the rows that ask shows on a terminal

Where = Annotated[str, typer.Argument(help="The campaign: a file, or postgresql://… where a team shares one.")]
Annotator = Annotated[
    str, typer.Option(help="Who labels; needed where several people do.", envvar="OBSERVAL_ANNOTATOR")
]
Chances = Annotated[
    list[str] | None,
    typer.Option(help="Column of the chance that the row's label was revealed; with several logs, one for each."),
]
EstimateChances = Annotated[
    bool, typer.Option("--estimate-propensity", help="Estimate that chance from which rows were revealed.")
]
Features = Annotated[str | None, typer.Option(help="Feature columns, A,B,C; all others by default.")]


def init(
    campaign: Where,
    logged: Annotated[list[Path], typer.Option(help="Table of the log; several times for several logs.")],
    pool: Annotated[Path, typer.Option(help="Table of the rows that can be asked about.")],
    label: Annotated[str, typer.Option(help="Column of the label, empty where it was not revealed.")],
    propensity: Chances = None,
    estimate_propensity: EstimateChances = False,
    id: Annotated[str | None, typer.Option(help="Column of the rows' ids; their positions by default.")] = None,
    budget: Annotated[int | None, typer.Option(help="The most rows to have labelled.", min=0)] = None,
    classes: Annotated[str | None, typer.Option(help="Both label values, NEGATIVE,POSITIVE.")] = None,
    features: Features = None,
    cost: Annotated[str | None, typer.Option(help="Column of what a mistake on the row costs, in [0, 1].")] = None,
    floor: Annotated[
        float | None,
        typer.Option("--propensity-floor", "--floor", help="Raise smaller propensities to this; counted and reported."),
    ] = None,
    kept_only_labelled: Annotated[
        bool, typer.Option("--kept-only-labelled", help="The log kept only its labelled rows.")
    ] = False,
    log_rows: Annotated[int | None, typer.Option(help="Rows behind such a log; estimated by default.", min=1)] = None,
    batch: Annotated[int | None, typer.Option(help="Rows of a round.", min=1)] = None,
    overlap: Annotated[int, typer.Option(help="People who label each row; the majority decides.", min=1)] = 1,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Make a campaign from tables: CSV, Parquet or Arrow files.

    Everything is copied into the campaign, which can then move to another machine. An existing one is never overwritten.
    Example: observal init campaign.db --logged logged.parquet --pool pool.parquet --label y --propensity q0 --id id
    --budget 300
    """
    if bool(propensity) == estimate_propensity:
        raise typer.BadParameter("give either --propensity COLUMN or --estimate-propensity.")
    chances: Any = "estimate" if estimate_propensity else propensity
    from observal.campaign import Campaign
    from observal.methods import NewtonVC

    with progress_bar("reading", hidden=as_json) as progress:
        made = Campaign.create(
            campaign,
            list(logged),
            pool,
            label=label,
            propensity=chances[0] if len(chances) == 1 else chances,
            id=id,
            label_budget=budget,
            features=listed(features),
            classes=None if classes is None else [_number(text) for text in listed(classes) or ()],
            cost=cost,
            propensity_floor=floor,
            kept_only_labelled=kept_only_labelled,
            n_logged_rows=log_rows,
            method=NewtonVC() if batch is None else NewtonVC(batch=batch),
            random_state=seed,
            overlap=overlap,
            progress=progress,
        )
    _show_status(made.status(), as_json)
    if not as_json:
        say(f"Next: observal ask {quote(campaign)} -n {batch or NewtonVC().batch} --csv -o labels.csv")


def ask(
    campaign: Where,
    n: Annotated[int, typer.Option("-n", help="The most rows.", min=1)] = 20,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV with an empty label column to fill in.")] = False,
    as_json: Json = False,
    annotator: Annotator = "anyone",
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write to this new file; CSV unless --json.")] = None,
) -> None:
    """Show rows to label now.

    Asking again gives the same rows until they are labelled; rows that someone else has are not given.
    Example: observal ask campaign.db -n 20 --csv -o labels.csv, then fill in the last column
    """
    if as_csv and as_json:
        raise typer.BadParameter("give --csv or --json, not both.")
    if out is not None and out.exists():
        raise InvalidInput(f"{out} is there already and may hold labels, so it was not replaced; give another name.")
    from observal.campaign import Campaign
    from observal.writing import check_target

    if out is not None:
        check_target(out)

    with progress_bar("choosing rows", hidden=as_json or as_csv):
        opened = Campaign.open(campaign)
        rows = opened.ask(n, annotator)
    names, records = rows.to_fill_in(opened.settings["label"])
    if as_json:
        content = {"round": rows.round, "finished": rows.finished, "note": rows.note, "rows": records}
        print_json(content, out)
    elif as_csv or out:
        if rows or not out:
            write_csv(out, names, records)
    elif rows:
        shown = [names[0], *names[1:-3][:MOST_COLUMNS], *names[-3:-1]]
        print_table(shown, [["" if r[name] is None else r[name] for name in shown] for r in records])
        if len(names) > len(shown) + 1:
            say(f"{len(names) - len(shown) - 1} more columns are not shown; --csv and --json have all.")
    if rows.note and not as_json:
        say(rows.note, error=as_csv and not out)
    elif out:
        say(f"{len(rows)} rows to label: {out}", error=as_json)
    if 0 < len(rows) < n:
        say(f"Not {n}: this round has no more free rows; the next opens when its rows are answered.", error=True)


def tell(
    campaign: Where,
    labels: Annotated[str, typer.Argument(help="CSV or JSON file with ids and labels; - reads CSV from the input.")],
    annotator: Annotator = "anyone",
    correct: Annotated[bool, typer.Option("--correct", help="Let other labels take the place of told ones.")] = False,
    as_json: Json = False,
) -> None:
    """Store labels; all of the file or, if a line is refused, nothing.

    The word "skip" skips a row; a blank label means "not yet". Telling the same file twice changes nothing.
    Example: observal tell campaign.db labels.csv --annotator ann
    """
    from observal.campaign import Campaign

    opened = Campaign.open(campaign)
    receipt = (
        opened.tell_file("the input", annotator, correct, text=sys.stdin.buffer.read())
        if labels == "-"
        else opened.tell_file(labels, annotator, correct)
    )
    status = opened.status()
    if as_json:
        print_json({**asdict(receipt), "bought": status.labels, "label_budget": status.label_budget})
        return
    if not receipt:
        say(f"No answers in {'the input' if labels == '-' else labels} yet; nothing was stored.")
        return
    budget = f" of {status.label_budget}" if status.label_budget is not None else ""
    say(f"{receipt} The campaign has {status.labels}{budget} labels, and {status.open_rows} rows are open.")


def status(
    campaign: Where,
    interval: Annotated[
        bool, typer.Option("--interval", help="Fit, and show the interval around the classifier's error.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show where a campaign stands.

    Example: observal status campaign.db --interval
    """
    from observal.campaign import Campaign

    opened = Campaign.open(campaign)
    error = None
    if interval:
        with progress_bar("fitting", hidden=as_json):
            error = opened.result().error_interval
    _show_status(opened.status(), as_json, error)


def history(campaign: Where, as_json: Json = False) -> None:
    """Show all that happened, in order.

    Example: observal history campaign.db
    """
    from observal.campaign import Campaign

    entries = Campaign.open(campaign).history()
    if as_json:
        print_json([{**vars(entry), "details": dict(entry.details)} for entry in entries])
        return
    print_table(["", "time (UTC)", "who", "what", ""], [_line(entry) for entry in entries])


def check(campaign: Where, as_json: Json = False) -> None:
    """Read the whole campaign and say whether anything was changed since it was written.

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
    annotator: Annotated[str, typer.Option(help="Whose rows go back.")],
    as_json: Json = False,
) -> None:
    """Take back the open rows that someone has, so that others can have them.

    What they tell later still counts. Example: observal release campaign.db --annotator ann
    """
    from observal.campaign import Campaign

    count = Campaign.open(campaign).release(annotator)
    if as_json:
        print_json({"released": count})
        return
    say(f"{count} rows that {annotator} had are free again.")


def export(
    campaign: Where,
    model: Annotated[Path, typer.Argument(help="The file to write, such as model.skops.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the classifier with what it needs to take raw rows.

    Load it with observal.campaign.load_model("model.skops"). Example: observal export campaign.db model.skops
    """
    from observal.campaign import Campaign

    with progress_bar("fitting", hidden=as_json):
        opened = Campaign.open(campaign)
        opened.export(model, force)
    labels = opened.status().labels
    if as_json:
        print_json({"model": str(model), "labels": labels})
        return
    say(f'Model from the log and {labels} labels: {model}. Load it with observal.campaign.load_model("{model}").')


def _show_status(found: Any, as_json: bool, error: Any = None) -> None:
    if as_json:
        content = found.to_dict() | ({"error_interval": asdict(error)} if error else {})
        print_json(content)
        return
    lines = found.lines()
    if error:
        said = f"between {error.low:.1%} and {error.high:.1%} ({error.confidence:.0%} interval), estimate {error.estimate:.1%}"
        lines.append(("error", said))
    print_pairs(lines)


def _line(entry: Any) -> tuple[Any, ...]:
    return entry.sequence, entry.time[:19].replace("T", " "), entry.actor, entry.kind, entry.text


def listed(text: str | None) -> list[str] | None:
    """Return the parts of A,B,C."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
