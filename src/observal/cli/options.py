"""Options that several commands share, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Where = Annotated[str, typer.Argument(help="The campaign: a file, or a postgresql:// address.")]
Annotator = Annotated[
    str, typer.Option(help="Name of the person who labels; needed if there are several.", envvar="OBSERVAL_ANNOTATOR")
]
Chances = Annotated[
    list[str] | None,
    typer.Option(help="Column with the propensity, the chance that the label was revealed; one for each log."),
]
EstimateChances = Annotated[
    bool, typer.Option("--estimate-propensity", help="Estimate the propensities from the pattern of revealed labels.")
]
Dask = Annotated[
    str | None,
    typer.Option(
        help="Read and compute on a Dask cluster: a scheduler's address (tcp://…), or local for one on this machine."
    ),
]
Features = Annotated[
    list[str] | None, typer.Option(help="Feature columns, as A,B,C; by default all columns without another role.")
]
Separator = Annotated[
    str | None, typer.Option("--sep", help="What separates columns in CSV files; detected by default.")
]
DecimalSign = Annotated[str | None, typer.Option("--decimal", help="Decimal sign, . or , ; detected by default.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of CSV files, such as cp1252; detected by default.")]
Missing = Annotated[
    list[str] | None, typer.Option(help="A word that means a missing value, such as '?'; may be repeated.")
]


def listed(given: str | list[str] | None) -> list[str] | None:
    """Return the parts of A,B,C, from an option that may have been given several times."""
    if given is None:
        return None
    texts = [given] if isinstance(given, str) else given
    return [part.strip() for text in texts for part in text.split(",") if part.strip()] if texts else None


def check_dask(dask: str | None, logged: list[Path], pool: Path, propensity: Any, given: Any) -> None:
    """Refuse a cluster for tables that cannot stay in place: nothing would be computed on it."""
    if dask is None:
        return
    from observal.tables.in_place import can_stay, is_parquet

    if not (can_stay(logged, propensity, given) and is_parquet([*logged, pool])):
        raise typer.BadParameter(
            "--dask needs one log and a pool in Parquet, with --propensity COLUMN, and without --missing and the like."
        )


def open_campaign(where: str, dask: str | None, progress: Any) -> Any:
    """Return a campaign, with a cluster if one is named; refuse a cluster on which nothing would be computed."""
    from observal.campaign import Campaign

    if dask is not None and not Campaign.open(where).settings.get("in_place"):
        raise typer.BadParameter(
            "--dask is for campaigns whose tables stay in place, but this one has copies of them; leave it out."
        )
    return Campaign.open(where, executor(dask, progress))


def executor(dask: str | None, progress: Any) -> Any:
    """Return what reads and computes on tables that stay in place, with progress if somebody sees it."""
    if dask is None and progress is None:
        return None
    from observal.parquet import executor_of
    from observal.parquet.executors import Watched

    if dask is not None and dask != "local" and "://" not in dask:
        raise typer.BadParameter(f"--dask needs local or an address such as tcp://10.0.0.1:8786, but is {dask!r}.")
    made = executor_of(dask)
    if dask is not None:
        from observal.parquet.cluster import silence

        silence()  # what goes wrong is said in one sentence
    return made if progress is None else Watched(made, progress)
