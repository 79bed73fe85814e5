"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from observal.campaign import Campaign
    from observal.parquet import Executor

# Headings in the help of commands with many options; options without a heading are the everyday ones and come first.
TABLES = "Tables"
PEOPLE = "People who label"


def option(
    help_: str, metavar: str | None = None, heading: str | None = None, *, names: Sequence[str] = (), **more: Any
) -> Any:
    """Return an option, with the name of its value and its heading in the help."""
    return typer.Option(*names, help=help_, metavar=metavar, rich_help_panel=heading, **more)


Where = Annotated[str, typer.Argument(help="The campaign: a file, or a postgresql:// address.", metavar="CAMPAIGN")]
Annotator = Annotated[
    str, option("Name of the person who labels; needed if there are several.", "NAME", envvar="OBSERVAL_ANNOTATOR")
]
Chances = Annotated[
    str | None,
    option(
        "Column with the probability with which a system drew the row's label, not a score. Leave it out if nobody recorded it.",
        "COLUMN",
    ),
]
Dask = Annotated[
    str | None,
    option(
        "Read and compute on a Dask cluster: a scheduler's address (tcp://…), or local for one on this machine.",
        "ADDRESS",
        TABLES,
    ),
]
Features = Annotated[
    list[str] | None,
    option("Feature columns, as A,B,C; by default all columns without another role.", "COLUMNS", TABLES),
]
Exclude = Annotated[
    list[str] | None,
    option("Columns that neither the model nor people who label may see, as A,B,C; may be repeated.", "COLUMNS"),
]
KnownBefore = Annotated[
    list[str] | None,
    option("Columns that are known before the label and so cannot leak it, as A,B,C.", "COLUMNS", TABLES),
]
Group = Annotated[
    str | None,
    option("Column that identifies related rows, such as customer or day; they count as one.", "COLUMN", TABLES),
]
Separator = Annotated[
    str | None, option("Column separator of CSV files; detected by default.", "SIGN", TABLES, names=["--sep"])
]
DecimalSign = Annotated[
    Literal[".", ","] | None, option("Decimal separator; detected by default.", heading=TABLES, names=["--decimal"])
]
Encoding = Annotated[str | None, option("Encoding of CSV files, such as cp1252; detected by default.", "NAME", TABLES)]
Missing = Annotated[
    list[str] | None, option("A text that means a missing value, such as '?'; may be repeated.", "WORD", TABLES)
]
Instructions = Annotated[
    Path | None, option("Markdown file that tells people how to label; the page shows it.", "FILE", PEOPLE)
]
ColumnsHelp = Annotated[
    Path | None, option("Table that describes the columns (names and descriptions); the page shows it.", "FILE", PEOPLE)
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Notes = Annotated[bool, typer.Option("--notes", help="Show all notes, such as how each column was read.")]
Seed = Annotated[int, option("Seed of all random numbers.", "N", min=0)]
Jobs = Annotated[int | None, option("Processes to use; all cores by default.", "N", min=1)]
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


def open_campaign(where: str, dask: str | None = None, progress: Callable[..., None] | None = None) -> Campaign:
    """Return a campaign, with a cluster if one is named; refuse a cluster on which nothing would be computed.

    `progress` says when a model is fitted.
    """
    from observal.campaign import Campaign

    campaign = Campaign.open(where)
    if dask is not None and not campaign.settings.in_place:
        raise typer.BadParameter(
            "--dask works only if the tables stay in place, but this campaign has copies of them; leave out --dask."
        )
    campaign.engine.executor = make_executor(dask, progress)
    if progress is not None:
        campaign.engine.on_fit = lambda labels: progress(0, None, f"fitting the model to {labels:,} labels")
    return campaign


def make_executor(dask: str | None, progress: Callable[..., None] | None) -> Executor | None:
    """Return what reads and computes on tables that stay in place, with progress if it can be shown."""
    if dask is None and progress is None:
        return None
    from observal.parquet import executor_of
    from observal.parquet.executors import ProgressExecutor

    if dask is not None and dask != "local" and "://" not in dask:
        raise typer.BadParameter(f"--dask needs local or an address such as tcp://10.0.0.1:8786, but is {dask!r}.")
    executor = executor_of(dask)
    if dask is not None:
        from observal.parquet.cluster import silence

        silence()  # our own errors say in one sentence what went wrong
    return executor if progress is None else ProgressExecutor(executor, progress)
