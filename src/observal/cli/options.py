"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from observal.campaign import Campaign
    from observal.parquet import Executor

# Headings in the help of commands with many options; options without a heading are the everyday ones and come first.
COLUMNS = "Columns and labels"
CSV = "How CSV files are written"
LARGE = "Large tables"

Where = Annotated[str, typer.Argument(help="The campaign: a file, or a postgresql:// address.", metavar="CAMPAIGN")]
Annotator = Annotated[
    str,
    typer.Option(
        help="Name of the person who labels; needed if there are several.", envvar="OBSERVAL_ANNOTATOR", metavar="NAME"
    ),
]
Chances = Annotated[
    list[str] | None,
    typer.Option(
        help="Column with the propensity, the chance that the label was revealed; one for each log.", metavar="COLUMN"
    ),
]
EstimateChances = Annotated[
    bool, typer.Option("--estimate-propensity", help="Estimate the propensities from the pattern of revealed labels.")
]
Dask = Annotated[
    str | None,
    typer.Option(
        help="Read and compute on a Dask cluster: a scheduler's address (tcp://…), or local for one on this machine.",
        metavar="ADDRESS",
        rich_help_panel=LARGE,
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        help="Feature columns, as A,B,C; by default all columns without another role.",
        metavar="COLUMNS",
        rich_help_panel=COLUMNS,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--sep", help="What separates columns in CSV files; detected by default.", metavar="SIGN", rich_help_panel=CSV
    ),
]
DecimalSign = Annotated[
    Literal[".", ","] | None,
    typer.Option("--decimal", help="Decimal sign; detected by default.", rich_help_panel=CSV),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="Encoding of CSV files, such as cp1252; detected by default.", metavar="NAME", rich_help_panel=CSV
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="A word that means a missing value, such as '?'; may be repeated.", metavar="WORD", rich_help_panel=CSV
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", min=0, metavar="N")]
Jobs = Annotated[int | None, typer.Option(help="Processes to use; all cores by default.", min=1, metavar="N")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file; a campaign is never replaced.")]


def split_list(texts: str | Sequence[str] | None) -> list[str] | None:
    """Return the parts of A,B,C, from an option that may be repeated; None without the option.

    Examples
    --------
    >>> split_list(["age, income", "city"])
    ['age', 'income', 'city']
    """
    if texts is None or (not isinstance(texts, str) and not texts):
        return None
    repeated = [texts] if isinstance(texts, str) else texts
    return [part.strip() for text in repeated for part in text.split(",") if part.strip()]


def open_campaign(where: str, dask: str | None, progress: Callable[..., None] | None) -> Campaign:
    """Return a campaign, with a cluster if one is named; refuse a cluster on which nothing would be computed."""
    from observal.campaign import Campaign

    if dask is not None and not Campaign.open(where).settings.get("in_place"):
        raise typer.BadParameter(
            "--dask is for campaigns whose tables stay in place, but this one has copies of them; leave it out."
        )
    return Campaign.open(where, make_executor(dask, progress))


def make_executor(dask: str | None, progress: Callable[..., None] | None) -> Executor | None:
    """Return what reads and computes on tables that stay in place, with progress if it can be shown."""
    if dask is None and progress is None:
        return None
    from observal.parquet import executor_of
    from observal.parquet.executors import Watched

    if dask is not None and dask != "local" and "://" not in dask:
        raise typer.BadParameter(f"--dask needs local or an address such as tcp://10.0.0.1:8786, but is {dask!r}.")
    executor = executor_of(dask)
    if dask is not None:
        from observal.parquet.cluster import silence

        silence()  # our own errors say in one sentence what went wrong
    return executor if progress is None else Watched(executor, progress)
