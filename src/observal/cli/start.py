"""The commands that start a campaign: diagnose its log, and make it from tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from observal.cli.options import (
    PEOPLE,
    TABLES,
    Chances,
    ColumnsHelp,
    Dask,
    DecimalSign,
    Encoding,
    Exclude,
    Features,
    Group,
    Instructions,
    Json,
    KnownBefore,
    Missing,
    Notes,
    Seed,
    Separator,
    Where,
    make_executor,
    open_campaign,
    option,
    split_list,
)
from observal.cli.output import ProgressBar, next_command, print_json, printable, progress_bar, say
from observal.cli.results import print_notes, print_status
from observal.problem.objectives import CHECKING, TOLERANCE
from observal.problem.words import split_notes

if TYPE_CHECKING:
    from observal.problem.data import LoggedData, Pool
    from observal.tables import LoadedProblem, TableRoles
    from observal.tables.table_format import TableFormat

FIRST_ROUND = 10  # rows of a round where --batch is not given
LEARNING = "What to learn"
BUYING = "How to buy labels"


def init(
    campaign: Where,
    table: Annotated[
        Path | None,
        typer.Argument(help="One table: some rows have a label, and you can ask about the others.", metavar="[TABLE]"),
    ] = None,
    *,
    label: Annotated[str, option("Column with the label, empty where there is none yet.", "COLUMN")],
    logged: Annotated[
        list[Path] | None,
        option("Instead of TABLE: table of the log; repeat the option to join several without propensities.", "FILE"),
    ] = None,
    pool: Annotated[
        Path | None, option("With --logged: table of the pool, the rows you can ask about.", "FILE")
    ] = None,
    propensity: Chances = None,
    id: Annotated[str | None, option("Column with the row ids; by default rows are numbered.", "COLUMN")] = None,
    exclude: Exclude = None,
    budget: Annotated[
        int | None, option("Label budget; by default the method decides when to stop.", "N", min=0)
    ] = None,
    budget_cost: Annotated[
        float | None, option("With --price: what all labels together may cost.", "AMOUNT", min=0)
    ] = None,
    replace: Annotated[
        bool,
        option("Make the campaign anew; one with answers is never replaced.", names=["--replace"]),
    ] = False,
    seed: Seed = 0,
    notes: Notes = False,
    as_json: Json = False,
    features: Features = None,
    cost: Annotated[
        str | None, option("Column with the cost of a wrong prediction for the row, from 0 to 1.", "COLUMN", TABLES)
    ] = None,
    price: Annotated[
        str | None, option("Column of the pool with the price of each row's label; not a feature.", "COLUMN", TABLES)
    ] = None,
    group: Group = None,
    known_before: KnownBefore = None,
    propensity_floor: Annotated[
        float | None, option("Smallest propensity to use; smaller ones are raised to it.", "CHANCE", TABLES)
    ] = None,
    missing: Missing = None,
    sep: Separator = None,
    decimal: DecimalSign = None,
    encoding: Encoding = None,
    in_place: Annotated[
        bool | None,
        option(
            "Leave Parquet tables where they are, even if they do not fit into memory; the default for 1 GB or more.",
            heading=TABLES,
            names=["--in-place/--copy"],
        ),
    ] = None,
    dask: Dask = None,
    positive: Annotated[
        str | None,
        option(
            "The class that precision and recall are about; by default the obvious one, or else the rarer.",
            "CLASS",
            LEARNING,
        ),
    ] = None,
    classes: Annotated[
        str | None, option("All label values, as A,B,C; if there are two, the positive one last.", "CLASSES", LEARNING)
    ] = None,
    target: Annotated[
        str | None,
        option(
            "What the classifier is for: recall=0.8, recall>=0.8 (cautious), precision=0.5, flag=5%, balanced, or error.",
            "TARGET",
            LEARNING,
        ),
    ] = None,
    cost_of_missing: Annotated[
        str | None,
        option("Cost of missing a row of a class, as CLASS=10; other mistakes cost 1.", "CLASS=COST", LEARNING),
    ] = None,
    cost_of_checking: Annotated[
        float | None,
        option("With --cost-of-missing: cost of checking each row that the model flags.", "COST", LEARNING),
    ] = None,
    population: Annotated[
        Literal["both", "pool", "log"] | None,
        option(
            "With --logged and --pool: which rows the error is about; without --propensity, the pool by default.",
            heading=LEARNING,
        ),
    ] = None,
    looks: Annotated[
        Literal["planned", "always", "once"],
        option(
            "When intervals hold: at every round up to the budget, at every round, or at a single round.",
            heading=LEARNING,
        ),
    ] = "planned",
    batch: Annotated[
        int | None, option("Rows in a round; by default a few at first, more as labels come in.", "N", BUYING, min=1)
    ] = None,
    tolerance: Annotated[
        float,
        option(
            "Stop when more labels are unlikely to lower the error by more than this; 0 never stops.",
            "SHARE",
            BUYING,
            min=0,
        ),
    ] = TOLERANCE,
    width: Annotated[
        float | None, option("Stop when the error's interval is narrower than this.", "SHARE", BUYING)
    ] = None,
    method: Annotated[
        Literal["auto", "newton"],
        option("How to choose rows: auto blends models, newton fits a linear one.", heading=BUYING),
    ] = "auto",
    priority: Annotated[
        Literal["accuracy", "balanced", "measure"],
        option(
            "With --method auto, what to spend labels on: a better classifier, both, or a narrower interval.",
            heading=BUYING,
        ),
    ] = "accuracy",
    overlap: Annotated[int, option("How many people label each row; the majority decides.", "N", PEOPLE, min=1)] = 1,
    images: Annotated[
        Path | None, option("Folder that the paths in --image-column are relative to.", "FOLDER", PEOPLE)
    ] = None,
    image_column: Annotated[
        str | None,
        option(
            "Column of image paths relative to --images, or of images in base64; not used as a feature.",
            "COLUMN",
            PEOPLE,
        ),
    ] = None,
    pixels: Annotated[
        str | None,
        option(
            "Height and width of a picture whose pixels are columns of numbers, such as 8x8.", "HEIGHTxWIDTH", PEOPLE
        ),
    ] = None,
    instructions: Instructions = None,
    columns_help: ColumnsHelp = None,
) -> None:
    """Make a campaign from tables.

    Tables are CSV, Excel, Parquet or Arrow files, or folders and patterns of Parquet files. They are copied into the campaign, so you can move it to another machine. Parquet tables of 1 GB or more stay where
    they are. An existing file is not replaced; --replace makes a campaign anew as long as no answer was told to it.

    Example: observal init loans.db loans.csv --label outcome --id loan --budget 120; with two tables: observal init loans.db
    --logged logged.csv --pool pool.csv --label outcome --id loan --budget 120
    """
    from observal.campaign import Campaign, TableOptions
    from observal.methods import AutoVC, NewtonVC
    from observal.tables.table_format import TableFormat

    if method == "newton" and priority != "accuracy":
        raise typer.BadParameter(
            f"--priority works only with --method auto, but --method newton and --priority {priority} were given; leave out one of them."
        )
    if (table is None) == (not logged) or (table is not None and pool is not None):
        raise typer.BadParameter("give one table, as in observal init loans.db loans.csv …, or --logged and --pool.")
    if logged and pool is None:
        raise typer.BadParameter(
            "--logged needs --pool FILE, the rows you can ask about; a single table needs no option: write it behind the campaign."
        )
    logs = [table] if table is not None else list(logged or ())
    format_ = TableFormat(sep, decimal, encoding, tuple(missing or ()))
    _check_dask(dask, logs, pool, propensity, format_, in_place)
    values = split_list(classes)
    with progress_bar("reading", hidden=as_json) as progress:
        options = TableOptions(
            features=features or None,
            exclude=exclude or (),
            cost=cost,
            price=price,
            group=group,
            known_before=known_before or (),
            classes=None if values is None else [_as_number(text) for text in values],
            positive=positive or (partial(ask_positive, progress) if sys.stdin.isatty() and not as_json else None),
            propensity_floor=propensity_floor,
            sep=format_.sep,
            decimal=format_.decimal,
            encoding=format_.encoding,
            missing=format_.missing,
            images=images,
            image_column=image_column,
            pixels=None if pixels is None else _picture_size(pixels),
            instructions=instructions,
            columns_help=columns_help,
            in_place=in_place,
            executor=make_executor(dask, progress),
            progress=progress,
        )
        created = Campaign.create(
            campaign,
            logs,
            pool,
            label=label,
            propensity=propensity,
            id=id,
            label_budget=budget,
            budget_cost=budget_cost,
            tables=options,
            method=AutoVC(batch=batch, priority=priority) if method == "auto" else NewtonVC(batch=batch or FIRST_ROUND),
            random_state=seed,
            overlap=overlap,
            population=population,
            looks=looks,
            tolerance=tolerance or None,
            width=width,
            objective=_objective(target, cost_of_missing, cost_of_checking),
            replace=replace,
        )
    print_status(created.status(), as_json, notes=notes)
    if not as_json:
        say("Next: " + next_command("ask", campaign, f"-n {batch or FIRST_ROUND} --csv -o labels.csv"))


def diagnose(
    tables: Annotated[list[str], typer.Argument(help="Tables of the log, or one campaign.", metavar="TABLES")],
    pool: Annotated[Path | None, option("Table of the pool: the rows you can ask about.", "FILE")] = None,
    label: Annotated[str | None, option("Column with the label, empty if it was not revealed.", "COLUMN")] = None,
    propensity: Chances = None,
    id: Annotated[str | None, option("Column with the row ids; it is not used as a feature.", "COLUMN")] = None,
    exclude: Exclude = None,
    seed: Seed = 0,
    notes: Notes = False,
    as_json: Json = False,
    features: Features = None,
    group: Group = None,
    known_before: KnownBefore = None,
    sep: Separator = None,
    decimal: DecimalSign = None,
    encoding: Encoding = None,
    missing: Missing = None,
    dask: Dask = None,
) -> None:
    """Check whether a log can be trusted.

    Without --propensity, it says where labels are and where hardly anybody has one; with it, it also checks overlap, weights,
    calibration and hidden confounding. Both ways it looks for leaks, near-copies and drift.

    Example: observal diagnose loans.csv --label outcome --id loan; with a pool: observal diagnose logged.csv --pool pool.csv
    --label outcome --propensity approval --id loan; for a campaign: observal diagnose loans.db
    """
    from observal.diagnosis import diagnose as run_diagnose

    with progress_bar("reading", hidden=as_json) as progress:
        if label is None:
            from observal.tables.read import SUFFIXES

            is_table = tables[0].lower().endswith(SUFFIXES)
            given = pool, propensity, id, exclude, features, group, known_before, sep, decimal, encoding, missing
            if len(tables) > 1 or is_table or any(given):
                raise typer.BadParameter("tables need --label COLUMN; a campaign takes no such option.")
            subject = _campaign_subject(tables[0], dask, progress)
        else:
            from observal.tables import TableRoles
            from observal.tables.roles import split_names
            from observal.tables.table_format import TableFormat

            logged = [Path(table) for table in tables]
            roles = TableRoles(
                label,
                id=id,
                features=tuple(features) if features else None,
                exclude=tuple(exclude or ()),
                group=group,
                known_before=tuple(known_before or ()),
            )
            format_ = TableFormat(sep, decimal, encoding, tuple(missing or ()))
            _check_dask(dask, logged, pool, propensity, format_, in_place=True)
            loaded = _load_tables(logged, pool, roles, propensity, format_, dask, progress)
            encoder = loaded.encoder
            known = split_names(roles.known_before, encoder.sources)
            subject = _Subject(
                loaded.logged, loaded.pool, encoder.names, encoder.sources, encoder.dates, label, loaded.notes, known
            )
        diagnosis = run_diagnose(
            subject.logged,
            subject.pool,
            feature_names=subject.features,
            sources=subject.sources,
            label=subject.label,
            known_before=subject.known_before,
            date_features=subject.dates,
            random_state=seed,
            population=subject.population,
        )
    if as_json:
        print_json({**diagnosis.to_dict(), "notes": list(subject.notes)})
        return
    from observal.diagnosis.diagnose import item

    warnings, others = split_notes(subject.notes)
    say(diagnosis.text(warnings, all_warnings=notes), lines=True, red=map(item, diagnosis.serious))
    print_notes(others, notes)


class _Subject(NamedTuple):
    """What is diagnosed: a log and a pool, their features, and notes on how they were read."""

    logged: LoggedData
    pool: Pool | None
    features: Sequence[str]
    sources: Sequence[str] | None
    dates: Collection[str]
    label: str
    notes: Sequence[str]
    known_before: Sequence[str] = ()
    population: str | None = None


def _load_tables(
    logged: list[Path],
    pool: Path | None,
    roles: TableRoles,
    propensity: str | None,
    format_: TableFormat,
    dask: str | None,
    progress: Callable[..., None] | None,
) -> LoadedProblem:
    """Return log and pool; they stay in their files if these are large, or if a cluster reads them."""
    from observal.tables import load_problem
    from observal.tables.load_in_place import can_stay, is_large, load_in_place
    from observal.tables.read import read_tables

    tables = [*logged, *([] if pool is None else [pool])]
    if pool is not None and (dask is not None or (can_stay(logged, propensity, format_) and is_large(tables))):
        return load_in_place(logged[0], pool, roles, propensity=propensity, executor=make_executor(dask, progress))
    read = read_tables(tables, roles.id, roles.label, format_)
    return load_problem(read[: len(logged)], read[-1] if pool is not None else None, roles, propensity=propensity)


def _campaign_subject(where: str, dask: str | None, progress: Callable[..., None] | None) -> _Subject:
    campaign = open_campaign(where, dask, progress)
    problem, settings = campaign.problem, campaign.settings
    encoder = settings.encoder
    sources, dates = (None, ()) if encoder is None else (encoder.sources, encoder.dates)
    return _Subject(
        problem.logged,
        problem.pool,
        settings.features,
        sources,
        dates,
        settings.label,
        campaign.status().notes,
        settings.known_before,
        settings.goals.population,
    )


def _check_dask(
    dask: str | None,
    logged: list[Path],
    pool: Path | None,
    propensity: str | None,
    format_: TableFormat,
    in_place: bool | None,
) -> None:
    """Refuse a cluster for tables that cannot stay in place or will be copied: nothing would be computed on it."""
    if dask is None:
        return
    from observal.tables.load_in_place import can_stay, is_large, is_parquet

    if pool is None or not (can_stay(logged, propensity, format_) and is_parquet([*logged, pool])):
        raise typer.BadParameter(
            "--dask needs one log and a pool in Parquet, with --propensity COLUMN, and no options such as --missing."
        )
    if in_place is False or (in_place is None and not is_large([*logged, pool])):
        raise typer.BadParameter(
            "--dask works only with tables that stay in place; add --in-place, or leave out --dask."
        )


def _picture_size(text: str) -> tuple[int, int]:
    height, _, width = text.lower().replace("×", "x").partition("x")
    if not (height.isdecimal() and width.isdecimal()):
        raise typer.BadParameter(f"--pixels must be HEIGHTxWIDTH such as 8x8, but is {text!r}.")
    return int(height), int(width)


def _objective(
    target: str | None, cost_of_missing: str | None, cost_of_checking: float | None
) -> str | dict[str, float | str]:
    """Return the objective that the options name."""
    if cost_of_missing is None:
        if cost_of_checking is not None:
            raise typer.BadParameter("--cost-of-checking needs --cost-of-missing CLASS=COST; give both.")
        return target or "error"
    if target is not None:
        raise typer.BadParameter("give --target or --cost-of-missing, not both.")
    name, _, cost = cost_of_missing.rpartition("=")
    if not name:
        raise typer.BadParameter(
            f"--cost-of-missing must be CLASS=COST, such as default=10, but is {cost_of_missing!r}."
        )
    return {name: cost} if cost_of_checking is None else {name: cost, CHECKING: cost_of_checking}


def ask_positive(progress: ProgressBar | None, classes: Sequence[Any]) -> str:
    """Ask which class is the positive one, and suggest the rarer one, which is last."""
    names = [str(value) for value in classes]
    question = (
        f"Which class are you looking for, {printable(' or '.join(names))}? Precision and recall will be about it"
    )
    with nullcontext() if progress is None else progress.paused():
        while (answer := str(typer.prompt(question, default=names[-1], err=True)).strip()) not in names:
            say(f"{answer!r} is not one of the classes.", error=True)
    return answer


def _as_number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text) if text.casefold() != "nan" else text
        except ValueError:
            continue
    return text
