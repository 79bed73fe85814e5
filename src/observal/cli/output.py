"""What commands share: options, tables, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
Jobs = Annotated[int | None, typer.Option(help="Processes to use; all cores by default.", min=1)]


def print_table(header: list[str], rows: Any) -> None:
    """Print a table: with rules on a terminal, plain and tab-free when piped."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))  # Text: brackets in a formula are not markup
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@contextmanager
def progress_bar(description: str, hidden: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a function to call with (done, total), shown on standard error with the time left."""
    try:
        with _shown_progress(description) if sys.stderr.isatty() and not hidden else nullcontext() as progress:
            yield progress
    except KeyboardInterrupt:
        # CPython remembers an interrupt that struck code run from a string, such as a dataclass in the making, as not handled,
        # and would end by the signal in place of our exit code; running another string makes it forget.
        exec("")
        print("observal: interrupted; where a command has --resume, what was finished is kept.", file=sys.stderr)
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

        yield update


def print_pairs(pairs: list[tuple[str, str]]) -> None:
    """Print names and texts in two columns."""
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        print(f"{name:<{width}}  {text}")


def print_json(content: Any, path: Path | None = None) -> None:
    """Print JSON, or write it to a new file."""
    import json

    text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
    with path.open("x", encoding="utf-8") if path else nullcontext(sys.stdout) as file:
        print(text, file=file)


def write_csv(path: Path | None, names: list[str], records: list[dict[str, Any]]) -> None:
    """Write records as CSV to a new file, or print them."""
    import csv

    with path.open("x", encoding="utf-8", newline="") if path else nullcontext(sys.stdout) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([["" if r[name] is None else r[name] for name in names] for r in records])
