"""The command line: thin; every command is also a function."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from observal.cli import campaigns, experiments, init, reports, serving, status
from observal.cli.output import print_table, printable, progress_bar, say
from observal.errors import ObservalError

__all__ = ["app", "main", "print_table", "progress_bar"]


class _Commands(TyperGroup):
    """Shows a wrong call with its control characters spelled out: an argument may be any file name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _printable_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _printable_errors():
            return super().invoke(ctx)


@contextmanager
def _printable_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error; its class has a different place in each version of typer
            said = printable(error.format_message(), lines=True)
            error.format_message = lambda: said
        raise


app = typer.Typer(
    cls=_Commands,
    help="Pick which rows to label next when the labels you already have were chosen by an old policy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False) -> None:
    # main() removes --debug from the arguments, wherever it is, because it must know before a command fails.
    del debug


for _command in (
    reports.diagnose,
    init.init,
    campaigns.ask,
    campaigns.tell,
    status.status,
    campaigns.history,
    campaigns.check,
    campaigns.release,
    campaigns.extend,
    serving.serve,
    reports.report,
    campaigns.export,
    experiments.demo,
    experiments.verify,
    experiments.ablate,
    experiments.reproduce,
    experiments.benchmark,
):
    app.command()(_command)
app.add_typer(serving.annotator, name="annotator")


def main() -> None:
    """Run the command line. Exit codes: 0 success, 1 an error in one line, 2 a wrong call."""
    debug = "--debug" in sys.argv
    try:
        app([argument for argument in sys.argv[1:] if argument != "--debug"])
    except ObservalError as error:
        _fail(str(error), debug)
    except OSError as error:
        _fail(f"{error.filename or 'A file'} cannot be read or written: {error.strerror or error}.", debug)


def _fail(sentence: str, debug: bool) -> NoReturn:
    if debug:
        import traceback

        say(traceback.format_exc(), error=True, lines=True)
    else:
        say(f"observal: {sentence}", error=True)
    sys.exit(1)
