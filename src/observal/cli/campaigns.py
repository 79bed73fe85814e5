"""The commands of a campaign: init, ask, tell, status, history, check, release, extend and export."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import typer

from observal.cli.output import (
    Force,
    Json,
    Seed,
    paused,
    print_json,
    print_pairs,
    print_table,
    printable,
    progress_bar,
    say,
    spelled,
    write_csv,
    write_excel,
)
from observal.errors import InvalidInput

FIRST_ROUND = 10  # rows of a round where nobody says otherwise
TOLERANCE = 0.002  # as in observal.stopping, which --help must not wait for
MOST_COLUMNS = 6  # columns of the pool that ask shows on a terminal

Where = Annotated[str, typer.Argument(help="The campaign: a file, or a postgresql:// address.")]
Annotator = Annotated[
    str, typer.Option(help="Name of the person who labels; needed if there are several.", envvar="OBSERVAL_ANNOTATOR")
]
Chances = Annotated[
    list[str] | None,
    typer.Option(help="Column with the propensity, the chance that the label was revealed; one for each log."),
]
EstimateChances = Annotated[
    bool, typer.Option("--estimate-propensity", help="Estimate propensities from which labels were revealed.")
]
Dask = Annotated[
    str | None,
    typer.Option(
        help="Read and compute on a Dask cluster: a scheduler's address (tcp://…), or local for one on this machine."
    ),
]
Features = Annotated[
    list[str] | None, typer.Option(help="Feature columns, A,B,C; by default all columns without another role.")
]
Separator = Annotated[
    str | None, typer.Option("--sep", help="What separates columns in CSV files; detected by default.")
]
DecimalSign = Annotated[str | None, typer.Option("--decimal", help="Decimal sign, . or , ; detected by default.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of CSV files, such as cp1252; detected by default.")]
Missing = Annotated[
    list[str] | None, typer.Option(help="A word that means a missing value, such as '?'; may be repeated.")
]


def init(
    campaign: Where,
    logged: Annotated[list[Path], typer.Option(help="Table of the log; repeat the option for several logs.")],
    pool: Annotated[Path, typer.Option(help="Table of the pool: the rows you can ask about.")],
    label: Annotated[str, typer.Option(help="Column with the label, empty if it was not revealed.")],
    propensity: Chances = None,
    estimate_propensity: EstimateChances = False,
    id: Annotated[str | None, typer.Option(help="Column with the row ids; by default rows are numbered.")] = None,
    budget: Annotated[
        int | None, typer.Option(help="Label budget; by default the method decides when to stop.", min=0)
    ] = None,
    classes: Annotated[str | None, typer.Option(help="All label values, A,B,C; of two, NEGATIVE,POSITIVE.")] = None,
    positive: Annotated[
        str | None,
        typer.Option(help="The class that precision and recall are about; by default the obvious or the rarer one."),
    ] = None,
    features: Features = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Columns not to use, A,B,C.")] = None,
    cost: Annotated[str | None, typer.Option(help="Column with the cost of a mistake on the row, from 0 to 1.")] = None,
    floor: Annotated[
        float | None,
        typer.Option("--propensity-floor", "--floor", help="Raise smaller propensities to this, and say how many."),
    ] = None,
    kept_only_labelled: Annotated[
        bool, typer.Option("--kept-only-labelled", help="Unlabelled rows are missing from the log.")
    ] = False,
    log_rows: Annotated[
        int | None, typer.Option(help="With --kept-only-labelled: all rows logged; by default estimated.", min=1)
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Rows in a round; by default a few at first, more as labels come in.", min=1)
    ] = None,
    overlap: Annotated[int, typer.Option(help="How many people label each row; the majority decides.", min=1)] = 1,
    method: Annotated[
        Literal["auto", "newton"],
        typer.Option(help="How to choose rows: auto blends models, newton fits a linear one."),
    ] = "auto",
    priority: Annotated[
        Literal["accuracy", "balanced", "measure"],
        typer.Option(help="With --method auto, what labels are for: a good classifier, a narrow interval, or both."),
    ] = "accuracy",
    population: Annotated[
        Literal["both", "pool", "log"] | None,
        typer.Option(help="Whose error is measured; by default log and pool as one, unless they differ much."),
    ] = None,
    looks: Annotated[
        Literal["planned", "always", "once"],
        typer.Option(help="Rounds at which the intervals hold together: up to the budget, all, or a single one."),
    ] = "planned",
    tolerance: Annotated[
        float,
        typer.Option(help="Stop when more labels are unlikely to lower the error by more than this; 0: never.", min=0),
    ] = TOLERANCE,
    width: Annotated[float | None, typer.Option(help="Stop when the error's interval is narrower than this.")] = None,
    target: Annotated[
        str | None, typer.Option(help="What the classifier is for: recall=0.8, precision=0.8, balanced, or error.")
    ] = None,
    cost_of_missing: Annotated[
        str | None, typer.Option(help="What missing a row of a class costs, CLASS=10; other mistakes cost 1.")
    ] = None,
    sep: Separator = None,
    decimal: DecimalSign = None,
    encoding: Encoding = None,
    missing: Missing = None,
    images: Annotated[Path | None, typer.Option(help="Folder that the paths in --image-column start from.")] = None,
    image_column: Annotated[
        str | None,
        typer.Option(help="Column of image paths inside --images, or of images in base64; not used as a feature."),
    ] = None,
    pixels: Annotated[
        str | None,
        typer.Option(help="Size of a picture whose pixels are columns of numbers, HEIGHTxWIDTH such as 8x8."),
    ] = None,
    in_place: Annotated[
        bool | None,
        typer.Option(
            "--in-place/--copy",
            help="Leave Parquet tables where they are, even if they do not fit into memory; by default from 1 GB on.",
        ),
    ] = None,
    dask: Dask = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Make a campaign from tables: CSV, Excel, Parquet or Arrow files.

    The tables are copied into the campaign, so you can move it to another machine, unless they are large. An existing
    file is never replaced.
    Example: observal init campaign.db --logged logged.parquet --pool pool.parquet --label y --propensity q0 --id id
    --budget 300
    """
    if bool(propensity) == estimate_propensity:
        raise typer.BadParameter("give either --propensity COLUMN or --estimate-propensity.")
    chances: Any = "estimate" if estimate_propensity else propensity
    from observal.campaign import Campaign
    from observal.methods import AutoVC, NewtonVC

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
            exclude=listed(exclude) or (),
            classes=None if classes is None else [_number(text) for text in listed(classes) or ()],
            positive=positive or (partial(_asked_positive, progress) if sys.stdin.isatty() and not as_json else None),
            cost=cost,
            propensity_floor=floor,
            kept_only_labelled=kept_only_labelled,
            n_logged_rows=log_rows,
            method=AutoVC(batch=batch, priority=priority) if method == "auto" else NewtonVC(batch=batch or FIRST_ROUND),
            random_state=seed,
            overlap=overlap,
            population=population,
            looks=looks,
            tolerance=tolerance or None,
            width=width,
            objective=_objective(target, cost_of_missing),
            sep=sep,
            decimal=decimal,  # type: ignore[arg-type]  # checked when the tables are read
            encoding=encoding,
            missing=missing or (),
            images=images,
            image_column=image_column,
            pixels=None if pixels is None else _picture(pixels),
            in_place=in_place,
            executor=executor(dask, progress),
            progress=progress,
        )
    _show_status(made.status(), as_json)
    if not as_json:
        say(f"Next: observal ask {quote(campaign)} -n {batch or FIRST_ROUND} --csv -o labels.csv")


def ask(
    campaign: Where,
    n: Annotated[int, typer.Option("-n", help="How many rows to show at most.", min=1)] = 20,
    columns: Annotated[
        str | None, typer.Option(help="Columns of the pool to show, A,B,C; by default all of them.")
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

    Asking again gives the same rows until they are answered. Rows held by other annotators are not shown.
    Example: observal ask campaign.db -n 20 -o labels.xlsx (or labels.csv), then fill in the last column
    """
    if as_csv and as_json:
        raise typer.BadParameter("give --csv or --json, not both.")
    in_excel = out is not None and out.name.lower().endswith(".xlsx")
    if in_excel and (as_csv or as_json):
        raise typer.BadParameter("a file that ends in .xlsx is an Excel workbook; leave out --csv and --json.")
    if out is not None and out.exists():
        raise InvalidInput(f"{out} already exists and may contain labels; choose another path.")
    from observal.campaign import Campaign
    from observal.tables.formats import format_from
    from observal.writing import check_target

    if out is not None:
        check_target(out)

    with progress_bar("choosing rows", hidden=as_json or as_csv) as progress:
        opened = Campaign.open(campaign, executor(dask, progress))
        rows = opened.ask(n, annotator)
    names, records = rows.to_fill_in(opened.settings["label"], listed(columns))
    written = opened.settings.get("written")
    like = None if written is None else format_from(written)
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
    elif out:
        say(f"{len(rows)} rows to label: {out}", error=as_json)
    if 0 < len(rows) < n:
        say(
            f"Fewer than {n}: the round has no more rows to hand out; the next opens when all are answered.", error=True
        )


def tell(
    campaign: Where,
    labels: Annotated[
        str, typer.Argument(help="CSV, Excel or JSON file with ids and labels; - reads CSV from standard input.")
    ],
    annotator: Annotator = "anyone",
    correct: Annotated[bool, typer.Option("--correct", help="Let a label replace one told earlier.")] = False,
    sep: Separator = None,
    encoding: Encoding = None,
    missing: Missing = None,
    as_json: Json = False,
) -> None:
    """Store the labels in a file: all of them or, if a line is wrong, none.

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
    say(f"{receipt} The campaign has {status.labels}{budget} labels, and {status.open_rows} rows are open.")


def status(
    campaign: Where,
    interval: Annotated[
        bool, typer.Option("--interval", help="Fit the classifier and show the interval around its error.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the progress of a campaign.

    Example: observal status campaign.db --interval
    """
    from observal.campaign import Campaign

    opened = Campaign.open(campaign)
    found: dict[str, Any] = {}
    if interval:
        with progress_bar("fitting", hidden=as_json):
            found = opened.intervals()
    _show_status(opened.status(), as_json, found)


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
    say(f"{count} rows taken back from {annotator}; others can have them now.")


def extend(
    campaign: Where,
    budget: Annotated[int, typer.Option(help="The new label budget, in total.", min=1)],
    annotator: Annotator = "anyone",
    as_json: Json = False,
) -> None:
    """Raise the label budget of a campaign.

    Intervals then hold at all rounds, however many follow, which makes them somewhat wider.
    Example: observal extend campaign.db --budget 500
    """
    from observal.campaign import Campaign

    opened = Campaign.open(campaign)
    opened.extend(budget, annotator)
    status = opened.status()
    if as_json:
        print_json({"label_budget": status.label_budget, "labels": status.labels})
        return
    say(f"The label budget is now {status.label_budget}; the campaign has {status.labels} labels.")


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

    The classifier takes rows as they are in the tables; load it with observal.load_model("model.skops").
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

    from observal.compat.exchange import argilla_records, label_studio_config, label_studio_tasks
    from observal.writing import check_target, write_text

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


def _show_status(found: Any, as_json: bool, intervals: dict[str, Any] | None = None) -> None:
    """Print the status, with the measures of the classifier on top."""
    lines: list[tuple[str, str]] = found.lines()
    if intervals:
        from observal.methods.contradiction import contradiction
        from observal.methods.measures import beats_baseline

        contradicted = contradiction(intervals) is not None
        if as_json:
            measured = {
                "error_interval": asdict(intervals["error"]),
                "contradicted": contradicted,
                "beats_baseline": beats_baseline(intervals),
                "intervals": {name: asdict(one) for name, one in intervals.items()},
            }
            print_json(found.to_dict() | measured)
            return
        lines = [*_measured(found, intervals, contradicted), *lines]
    if as_json:
        print_json(found.to_dict())
    else:
        print_pairs(lines)


def _measured(found: Any, intervals: dict[str, Any], contradicted: bool) -> list[tuple[str, str]]:
    from observal.report.measures import advice, baseline_sentence, measures_of

    error = intervals["error"]
    said = (
        f"between {error.low:.1%} and {error.high:.1%} ({error.confidence:.0%} interval), estimate {error.estimate:.1%}"
    )
    lines = [("error", said)]
    if contradicted:
        lines.append(("warning", "rows picked at random contradict the log; do not trust the interval"))
    lines += [("", text) for text in (baseline_sentence(intervals, found.classes),) if text]
    lines += [
        (one.name, f"{one.words()}: {one.about}")
        for one in measures_of(intervals, found.classes, found.objective)
        if one.name != "error"
    ]
    return lines + [("", text) for text in (advice(intervals, found.classes, found.objective),) if text]


def _line(entry: Any) -> tuple[Any, ...]:
    return entry.sequence, entry.time[:19].replace("T", " "), entry.actor, entry.kind, entry.text


def listed(given: str | list[str] | None) -> list[str] | None:
    """Return the parts of A,B,C, also of an option that was given several times."""
    if given is None:
        return None
    texts = [given] if isinstance(given, str) else given
    return [part.strip() for text in texts for part in text.split(",") if part.strip()] if texts else None


def _picture(text: str) -> tuple[int, int]:
    height, _, width = text.lower().replace("×", "x").partition("x")
    if not (height.isdecimal() and width.isdecimal()):
        raise typer.BadParameter(f"--pixels must be HEIGHTxWIDTH such as 8x8, but is {text!r}.")
    return int(height), int(width)


def _objective(target: str | None, cost_of_missing: str | None) -> Any:
    """Return the objective that the options name."""
    if cost_of_missing is None:
        return target or "error"
    if target is not None:
        raise typer.BadParameter("give --target or --cost-of-missing, not both.")
    name, _, cost = cost_of_missing.rpartition("=")
    if not name:
        raise typer.BadParameter(
            f"--cost-of-missing must be CLASS=COST, such as default=10, but is {cost_of_missing!r}."
        )
    return {name: cost}


def _asked_positive(progress: Any, classes: Any) -> str:
    """Ask which class is the positive one, and suggest the rarer one, which is last."""
    names = [str(value) for value in classes]
    question = (
        f"Which class are you looking for, {printable(' or '.join(names))}? Precision and recall will be about it"
    )
    with paused(progress):
        while (answer := typer.prompt(question, default=names[-1], err=True).strip()) not in names:
            say(f"{answer!r} is not one of the classes.", error=True)
    return str(answer)


def executor(dask: str | None, progress: Any) -> Any:
    """Return who reads and computes on tables that stay in place, with progress where somebody sees it."""
    if dask is None and progress is None:
        return None
    from observal.parts import executor_of
    from observal.parts.executors import Watched

    if dask is not None and dask != "local" and "://" not in dask:
        raise typer.BadParameter(f"--dask needs local or an address such as tcp://10.0.0.1:8786, but is {dask!r}.")
    made = executor_of(dask)
    return made if progress is None else Watched(made, progress)


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
