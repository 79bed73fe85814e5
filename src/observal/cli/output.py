"""What commands share: options, tables, progress. Everything a command prints goes through here and is made safe to show."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from observal.tables.formats import Format

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)]
Jobs = Annotated[int | None, typer.Option(help="Processes to use; all cores by default.", min=1)]


Force = Annotated[bool, typer.Option("--force", help="Replace an existing file; a campaign is never replaced.")]

# What a terminal obeys and does not show: control characters, marks that change the writing direction, lone surrogates.
_UNSEEN = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"


def printable(text: Any, lines: bool = False) -> str:
    r"""Return text that is safe to show on a terminal: control characters are spelled out.

    Parameters
    ----------
    text : object
        What to show.
    lines : bool
        Whether the text may have several lines.

    Examples
    --------
    >>> print(printable("\x1b[31mred\n"))
    \x1b[31mred\n
    """

    def spelled(found: re.Match[str]) -> str:
        character = found[0]
        if lines and character == "\n":
            return character
        return ascii(character)[1:-1]

    return re.sub(f"[{_UNSEEN}]", spelled, str(text))


def say(text: Any, error: bool = False, lines: bool = False) -> None:
    """Print text on standard output or standard error; `lines` if it may have several lines."""
    print(printable(text, lines), file=sys.stderr if error else sys.stdout)


def rows_in_words(n: int) -> str:
    """Return "1 row" or "5 rows"."""
    return "1 row" if n == 1 else f"{n} rows"


def print_table(header: list[str], rows: Any) -> None:
    """Print a table: with rules on a terminal, plain and tab-free when piped."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for name in header:
        table.add_column(Text(printable(name)))
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # Text: brackets in a formula are not markup
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@contextmanager
def progress_bar(description: str, hidden: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a function to call with (done, total), shown on standard error with the time left."""
    try:
        with _shown_progress(description) if sys.stderr.isatty() and not hidden else nullcontext() as progress:
            yield progress
    except KeyboardInterrupt:
        # If an interrupt arrives while CPython runs code from a string, as when it makes a dataclass, CPython records it as
        # unhandled and exits by the signal instead of with our exit code. Running another string clears that record.
        exec("")
        say("observal: interrupted; if the command has --resume, it can continue from here.", error=True)
        raise typer.Exit(130) from None


@contextmanager
def _shown_progress(description: str) -> Iterator[Callable[..., None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)

        def update(done: int, total: int, what: str = description) -> None:
            bar.update(task, completed=done, total=total, description=what)

        update.bar = bar  # type: ignore[attr-defined]  # for `paused`
        yield update


@contextmanager
def paused(progress: Any) -> Iterator[None]:
    """Take a progress bar off the screen while a question is asked."""
    bar = getattr(progress, "bar", None)
    if bar is None:
        yield
        return
    bar.stop()
    yield
    bar.start()


def print_pairs(pairs: list[tuple[str, str]]) -> None:
    """Print names and texts in two columns."""
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        say(f"{name:<{width}}  {text}")


def print_json(content: Any, path: Path | None = None) -> None:
    """Print JSON, or write it to a new file; control characters are escaped as JSON does it."""
    import json

    text = json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"
    # They occur only within strings, where \\u0000 means the same; outside strings JSON has only line ends.
    _put(re.sub(f"(?!\n)[{_UNSEEN}]", lambda found: f"\\u{ord(found[0]):04x}", text), path)


def write_csv(path: Path | None, names: list[str], records: list[dict[str, Any]], like: Format | None = None) -> None:
    """Print records as CSV without formulas, or write them to a new file; `like` says how the user's own tables are written.

    Columns are separated as in those tables. If they were not in UTF-8, a mark at the beginning tells spreadsheets that this file is.
    """
    from observal.tables.spreadsheets import csv_text

    sep = like.sep if like is not None and like.sep in (";", "\t") else ","
    text = csv_text([names, *spelled(names, records, like)], sep)
    if path is not None and like is not None and like.encoding not in (None, "utf-8"):
        text = "\ufeff" + text
    _put(printable(text, lines=True) if path is None and sys.stdout.isatty() else text, path)


def spelled(names: list[str], records: list[dict[str, Any]], like: Format | None) -> list[list[Any]]:
    """Return the values of records, numbers and dates written as in the user's own tables."""
    if like is None:
        return [[record[name] for name in names] for record in records]
    from observal.tables.written import Written

    usual = Written(",") if like.decimal == "," and like.sep != "," else None
    ways = [like.columns.get(name, usual) for name in names]
    return [
        [record[name] if way is None else way.spell(record[name]) for way, name in zip(ways, names, strict=True)]
        for record in records
    ]


def write_excel(
    path: Path, names: list[str], records: list[dict[str, Any]], choices: list[Any], like: Format | None
) -> None:
    """Write records to a new Excel workbook; the last column has a drop-down of the choices."""
    from observal.files import writing
    from observal.tables.workbooks import write_workbook

    ways = {} if like is None else like.columns
    shown = {name: way.excel_format for name, way in ways.items()}
    with writing(path) as file:
        write_workbook(file, names, [[record[name] for name in names] for record in records], choices, shown)


def _put(text: str, path: Path | None) -> None:
    if path is None:
        print(text, end="")
        return
    from observal.files import write_text

    write_text(path, text)
