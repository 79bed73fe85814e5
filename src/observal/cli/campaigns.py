"""The commands of a campaign: init, ask, tell, status, history, check, release and export."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import typer

from observal.cli.output import Force, Json, Seed, print_json, print_pairs, print_table, progress_bar, say, write_csv
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
    str | None, typer.Option(help="Feature columns, A,B,C; by default all columns without another role.")
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
    classes: Annotated[str | None, typer.Option(help="Both label values, NEGATIVE,POSITIVE.")] = None,
    features: Features = None,
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
    """Make a campaign from tables: CSV, Parquet or Arrow files.

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
            classes=None if classes is None else [_number(text) for text in listed(classes) or ()],
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
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV with an empty label column to fill in.")] = False,
    as_json: Json = False,
    annotator: Annotator = "anyone",
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write to this new file; CSV unless --json.")] = None,
    dask: Dask = None,
) -> None:
    """Show rows to label now.

    Asking again gives the same rows until they are answered. Rows held by other annotators are not shown.
    Example: observal ask campaign.db -n 20 --csv -o labels.csv, then fill in the last column
    """
    if as_csv and as_json:
        raise typer.BadParameter("give --csv or --json, not both.")
    if out is not None and out.exists():
        raise InvalidInput(f"{out} already exists and may contain labels; choose another path.")
    from observal.campaign import Campaign
    from observal.writing import check_target

    if out is not None:
        check_target(out)

    with progress_bar("choosing rows", hidden=as_json or as_csv) as progress:
        opened = Campaign.open(campaign, executor(dask, progress))
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
            say(f"{len(names) - len(shown) - 1} more columns are not shown; use --csv or --json to see them.")
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
        str, typer.Argument(help="CSV or JSON file with ids and labels; - reads CSV from standard input.")
    ],
    annotator: Annotator = "anyone",
    correct: Annotated[bool, typer.Option("--correct", help="Let a label replace one told earlier.")] = False,
    as_json: Json = False,
) -> None:
    """Store the labels in a file: all of them or, if a line is wrong, none.

    The word "skip" skips a row. A blank label means "not yet". Telling the same file twice changes nothing.
    Example: observal tell campaign.db labels.csv --annotator ann
    """
    from observal.campaign import Campaign

    opened = Campaign.open(campaign)
    receipt = (
        opened.tell_file("standard input", annotator, correct, text=sys.stdin.buffer.read())
        if labels == "-"
        else opened.tell_file(labels, annotator, correct)
    )
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
    from observal.methods.contradiction import contradiction

    opened = Campaign.open(campaign)
    error, contradicted = None, False
    if interval:
        with progress_bar("fitting", hidden=as_json):
            found = opened.intervals()
        error = found["error"]
        contradicted = contradiction(found) is not None
    _show_status(opened.status(), as_json, error, contradicted)


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


def export(
    campaign: Where,
    model: Annotated[Path, typer.Argument(help="The file to write, such as model.skops.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the classifier to a file. It takes rows as they are in the tables.

    Load it with observal.load_model("model.skops"). Example: observal export campaign.db model.skops
    """
    from observal.campaign import Campaign

    with progress_bar("fitting", hidden=as_json):
        opened = Campaign.open(campaign)
        opened.export(model, force)
    labels = opened.status().labels
    if as_json:
        print_json({"model": str(model), "labels": labels})
        return
    say(f'Model from the log and {labels} labels: {model}. Load it with observal.load_model("{model}").')


def _show_status(found: Any, as_json: bool, error: Any = None, contradicted: bool = False) -> None:
    if as_json:
        measured = {"error_interval": asdict(error), "contradicted": contradicted} if error else {}
        print_json(found.to_dict() | measured)
        return
    lines = found.lines()
    if error:
        said = f"between {error.low:.1%} and {error.high:.1%} ({error.confidence:.0%} interval), estimate {error.estimate:.1%}"
        lines.append(("error", said))
    if contradicted:
        lines.append(("warning", "rows picked at random contradict the log; do not trust the interval"))
    print_pairs(lines)


def _line(entry: Any) -> tuple[Any, ...]:
    return entry.sequence, entry.time[:19].replace("T", " "), entry.actor, entry.kind, entry.text


def listed(text: str | None) -> list[str] | None:
    """Return the parts of A,B,C."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


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
