"""The command line: thin; every command is also a function."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from observal.cli import campaigns, experiments, reports
from observal.cli.output import print_table, progress_bar
from observal.errors import ObservalError

__all__ = ["app", "main", "print_table", "progress_bar"]

app = typer.Typer(
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
        if debug:
            raise
        print(f"observal: {error}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        if debug:
            raise
        print(f"observal: {error.filename or 'a file'} cannot be used: {error.strerror or error}.", file=sys.stderr)
        sys.exit(1)
