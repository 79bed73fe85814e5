"""The command line: thin; every command is also a function."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from observal.cli import campaigns, experiments, reports
from observal.cli.output import print_table, printable, progress_bar, say
from observal.errors import ObservalError

__all__ = ["app", "main", "print_table", "progress_bar"]


class _Commands(TyperGroup):
    """Says what is wrong with a call without obeying control characters in it: an argument may be a strange file's name."""

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
        if hasattr(error, "format_message"):  # what a wrong call raises; typer has moved its class about
            said = printable(error.format_message(), lines=True)
            error.format_message = lambda: said
        raise


app = typer.Typer(
    cls=_Commands,
    help="Active learning from observational data: which rows to have labelled when an old policy chose the labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False) -> None:
    # main() takes --debug out of the arguments, wherever it stands, because it must know before a command fails.
    del debug


for _command in (
    reports.diagnose,
    campaigns.init,
    campaigns.ask,
    campaigns.tell,
    campaigns.status,
    campaigns.history,
    campaigns.check,
    campaigns.release,
    reports.report,
    campaigns.export,
    experiments.demo,
    experiments.verify,
    experiments.ablate,
    experiments.reproduce,
    experiments.benchmark,
):
    app.command()(_command)


def main() -> None:
    """Run the command line: 0 when all is well, 1 for an error in one line, 2 for a wrong call."""
    debug = "--debug" in sys.argv
    try:
        app([argument for argument in sys.argv[1:] if argument != "--debug"])
    except ObservalError as error:
        _fail(str(error), debug)
    except OSError as error:
        _fail(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}.", debug)


def _fail(sentence: str, debug: bool) -> NoReturn:
    if debug:
        import traceback

        say(traceback.format_exc(), error=True, lines=True)
    else:
        say(f"observal: {sentence}", error=True)
    sys.exit(1)
