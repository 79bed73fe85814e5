"""The command init: a campaign from tables."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import typer

from observal.cli.options import (
    Chances,
    Dask,
    DecimalSign,
    Encoding,
    EstimateChances,
    Features,
    Missing,
    Separator,
    Where,
    check_dask,
    executor,
    listed,
)
from observal.cli.output import Json, Seed, paused, printable, progress_bar, say
from observal.cli.status import show_status

FIRST_ROUND = 10  # rows of a round where nobody says otherwise
TOLERANCE = 0.002  # as in observal.intervals.stopping, which --help must not wait for


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
    classes: Annotated[
        str | None, typer.Option(help="All label values, as A,B,C; of two, the positive one last.")
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            help="The class that precision and recall are about; by default the obvious one, or else the rarer."
        ),
    ] = None,
    features: Features = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Columns not to use, as A,B,C.")] = None,
    cost: Annotated[str | None, typer.Option(help="Column with the cost of a mistake on the row, from 0 to 1.")] = None,
    floor: Annotated[
        float | None,
        typer.Option("--propensity-floor", "--floor", help="Raise smaller propensities to this number."),
    ] = None,
    kept_only_labelled: Annotated[
        bool, typer.Option("--kept-only-labelled", help="The log kept only its labelled rows.")
    ] = False,
    n_logged_rows: Annotated[
        int | None,
        typer.Option(
            "--n-logged-rows",
            help="With --kept-only-labelled: how many rows the old policy saw; by default estimated.",
            min=1,
        ),
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
        typer.Option(help="With --method auto, what labels are for: a good classifier, both, or a narrow interval."),
    ] = "accuracy",
    population: Annotated[
        Literal["both", "pool", "log"] | None,
        typer.Option(help="Whose error is measured; by default both together, or the pool alone if they differ much."),
    ] = None,
    looks: Annotated[
        Literal["planned", "always", "once"],
        typer.Option(
            help="Looks that the intervals allow: at every round up to the budget, at every round, or just one."
        ),
    ] = "planned",
    tolerance: Annotated[
        float,
        typer.Option(
            help="Stop when more labels are unlikely to lower the error by more than this; 0 never stops.", min=0
        ),
    ] = TOLERANCE,
    width: Annotated[float | None, typer.Option(help="Stop when the error's interval is narrower than this.")] = None,
    target: Annotated[
        str | None, typer.Option(help="What the classifier is for: recall=0.8, precision=0.8, balanced, or error.")
    ] = None,
    cost_of_missing: Annotated[
        str | None, typer.Option(help="Cost of missing a row of a class, as CLASS=10; other mistakes cost 1.")
    ] = None,
    sep: Separator = None,
    decimal: DecimalSign = None,
    encoding: Encoding = None,
    missing: Missing = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder that the paths in --image-column are relative to.")
    ] = None,
    image_column: Annotated[
        str | None,
        typer.Option(help="Column of image paths inside --images, or of images in base64; not used as a feature."),
    ] = None,
    pixels: Annotated[
        str | None,
        typer.Option(help="Height and width of a picture whose pixels are columns of numbers, such as 8x8."),
    ] = None,
    in_place: Annotated[
        bool | None,
        typer.Option(
            "--in-place/--copy",
            help="Leave Parquet tables where they are, even if they do not fit into memory; the default from 1 GB on.",
        ),
    ] = None,
    dask: Dask = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Make a campaign from tables: CSV, Excel, Parquet or Arrow files.

    The tables are copied into the campaign, so you can move it to another machine. Parquet tables of 1 GB or more stay where
    they are. An existing file is never replaced.
    Example: observal init campaign.db --logged logged.parquet --pool pool.parquet --label y --propensity q0 --id id
    --budget 300
    """
    if bool(propensity) == estimate_propensity:
        raise typer.BadParameter("give either --propensity COLUMN or --estimate-propensity.")
    chances: Any = "estimate" if estimate_propensity else propensity
    chances = chances[0] if len(chances) == 1 else chances
    from observal.campaign import Campaign
    from observal.methods import AutoVC, NewtonVC
    from observal.tables.formats import Format

    given = Format(sep, decimal, encoding, tuple(missing or ()))  # type: ignore[arg-type]  # checked there
    _check_dask(dask, logged, pool, chances, given, in_place)
    with progress_bar("reading", hidden=as_json) as progress:
        made = Campaign.create(
            campaign,
            list(logged),
            pool,
            label=label,
            propensity=chances,
            id=id,
            label_budget=budget,
            features=listed(features),
            exclude=listed(exclude) or (),
            classes=None if classes is None else [_number(text) for text in listed(classes) or ()],
            positive=positive or (partial(_asked_positive, progress) if sys.stdin.isatty() and not as_json else None),
            cost=cost,
            propensity_floor=floor,
            kept_only_labelled=kept_only_labelled,
            n_logged_rows=n_logged_rows,
            method=AutoVC(batch=batch, priority=priority) if method == "auto" else NewtonVC(batch=batch or FIRST_ROUND),
            random_state=seed,
            overlap=overlap,
            population=population,
            looks=looks,
            tolerance=tolerance or None,
            width=width,
            objective=_objective(target, cost_of_missing),
            sep=given.sep,
            decimal=given.decimal,
            encoding=given.encoding,
            missing=given.missing,
            images=images,
            image_column=image_column,
            pixels=None if pixels is None else _picture(pixels),
            in_place=in_place,
            executor=executor(dask, progress),
            progress=progress,
        )
    show_status(made.status(), as_json)
    if not as_json:
        say(f"Next: observal ask {quote(campaign)} -n {batch or FIRST_ROUND} --csv -o labels.csv")


def _check_dask(
    dask: str | None, logged: list[Path], pool: Path, chances: Any, given: Any, in_place: bool | None
) -> None:
    """Refuse a cluster for tables that will be copied: nothing would be computed on it."""
    check_dask(dask, logged, pool, chances, given)
    if dask is None or in_place:
        return
    from observal.tables.in_place import is_large

    if in_place is False or not is_large([*logged, pool]):
        raise typer.BadParameter("--dask is for tables that stay in place; add --in-place, or leave it out.")


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


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
