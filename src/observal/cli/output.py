"""What commands print: sentences, tables, JSON, CSV, progress. All of it goes through here and is made safe to show."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from observal.tables.table_format import TableFormat

# What a terminal obeys and does not show: control characters, marks that change the writing direction, lone surrogates.
_UNSEEN = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"


def printable(text: object, lines: bool = False) -> str:
    r"""Return text that is safe to show on a terminal: control characters are spelled out.

    With `lines` the text may have several.

    Examples
    --------
    >>> print(printable("\x1b[31mred\n"))
    \x1b[31mred\n
    """
    unsafe = f"(?!\n)[{_UNSEEN}]" if lines else f"[{_UNSEEN}]"
    return re.sub(unsafe, lambda match: ascii(match[0])[1:-1], str(text))


def say(text: object, error: bool = False, lines: bool = False, red: Iterable[str] = ()) -> None:
    """Print text on standard output or standard error; `lines` if it may have several lines, `red` for parts to show in red on a terminal."""
    shown, stream = printable(text, lines), sys.stderr if error else sys.stdout
    if stream.isatty() and not os.environ.get("NO_COLOR"):
        for part in (printable(part, lines) for part in red):
            shown = shown.replace(part, typer.style(part, fg="red"))
    print(shown, file=stream)


def next_command(verb: str, campaign: str, options: str) -> str:
    """Return a command to paste; an address with a password is not shown, so a variable of the shell stands for it.

    Examples
    --------
    >>> next_command("ask", "loans.db", "-n 30")
    'observal ask loans.db -n 30'
    >>> print(next_command("ask", "postgresql://ann:secret@db.example.org/loans", "-n 30"))
    observal ask "$CAMPAIGN" -n 30, where CAMPAIGN is the address that you gave
    """
    from observal.errors import hide_secrets

    if hide_secrets(campaign) == campaign:
        return f"observal {verb} {quote(campaign)} {options}"
    return f'observal {verb} "$CAMPAIGN" {options}, where CAMPAIGN is the address that you gave'


def print_table(header: list[str], rows: Iterable[Sequence[object]]) -> None:
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


class ProgressBar:
    """A progress bar on standard error, with the time left; call it with (done, total)."""

    def __init__(self, bar: Progress, task: TaskID, description: str) -> None:
        self._bar, self._task, self._description = bar, task, description

    def __call__(self, done: int, total: int | None, description: str | None = None) -> None:
        """Show how much is done; `total` is None where nobody knows."""
        self._bar.update(self._task, completed=done, total=total, description=description or self._description)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the bar off the screen while a question is asked."""
        self._bar.stop()
        yield
        self._bar.start()


@contextmanager
def progress_bar(description: str, hidden: bool = False) -> Iterator[ProgressBar | None]:
    """Yield a progress bar; None where it would not be seen."""
    try:
        with _show_progress(description) if sys.stderr.isatty() and not hidden else nullcontext() as progress:
            yield progress
    except KeyboardInterrupt:
        # If an interrupt arrives while CPython runs code from a string, as when it makes a dataclass, CPython records it as
        # unhandled and exits by the signal instead of with our exit code. Running another string clears that record.
        exec("")
        say("observal: interrupted; if the command has --resume, it can continue from here.", error=True)
        raise typer.Exit(130) from None


@contextmanager
def _show_progress(description: str) -> Iterator[ProgressBar]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    words = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield ProgressBar(bar, bar.add_task(description, total=None), description)


def print_pairs(pairs: list[tuple[str, str]]) -> None:
    """Print names and texts in two columns."""
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        say(f"{name:<{width}}  {text}")


def print_result(as_json: bool, content: object, *sentences: object) -> None:
    """Print the result of a command: as JSON, or as sentences for people."""
    if as_json:
        print_json(content)
        return
    for sentence in sentences:
        say(sentence)


def print_json(content: object, path: Path | None = None, force: bool = False) -> None:
    """Print JSON, or write it to a file, an existing one only with `force`; control characters are escaped as JSON does it."""
    import json

    text = json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"
    # They occur only within strings, where \\u0000 means the same; outside strings JSON has only line ends.
    _put(re.sub(f"(?!\n)[{_UNSEEN}]", lambda match: f"\\u{ord(match[0]):04x}", text), path, force)


def write_csv(
    path: Path | None,
    names: list[str],
    records: list[dict[str, Any]],
    like: TableFormat | None = None,
    force: bool = False,
) -> None:
    """Print records as CSV without formulas, or write them to a file, an existing one only with `force`; `like` says how the user's own tables are written.

    Columns are separated as in those tables. If they were not in UTF-8, a mark at the beginning tells spreadsheets that this file is.
    """
    from observal.tables.spreadsheets import csv_text

    sep = like.sep if like is not None and like.sep in (";", "\t") else ","
    text = csv_text([names, *format_cells(names, records, like)], sep)
    if path is not None and like is not None and like.encoding not in (None, "utf-8"):
        text = "\ufeff" + text
    _put(printable(text, lines=True) if path is None and sys.stdout.isatty() else text, path, force)


def format_cells(names: list[str], records: list[dict[str, Any]], like: TableFormat | None) -> list[list[Any]]:
    """Return the values of records, numbers and dates written as in the user's own tables."""
    if like is None:
        return [[record[name] for name in names] for record in records]
    from observal.tables.column_format import ColumnFormat

    usual = ColumnFormat(",") if like.decimal == "," and like.sep != "," else None
    formats = [(name, like.columns.get(name, usual)) for name in names]
    return [[record[name] if f is None else f.write(record[name]) for name, f in formats] for record in records]


def write_excel(
    path: Path,
    names: list[str],
    records: list[dict[str, Any]],
    choices: list[Any],
    like: TableFormat | None,
    force: bool = False,
) -> None:
    """Write records to an Excel workbook, an existing one only with `force`; the last column has a drop-down of the choices."""
    from observal.files import writing
    from observal.tables.spreadsheets import write_workbook

    columns = {} if like is None else like.columns
    formats = {name: column.excel_format for name, column in columns.items()}
    with writing(path, force) as file:
        write_workbook(file, names, [[record[name] for name in names] for record in records], choices, formats)


def _put(text: str, path: Path | None, force: bool = False) -> None:
    if path is None:
        print(text, end="")
        return
    from observal.files import write_text

    write_text(path, text, force)
