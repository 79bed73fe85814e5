"""The frame around the commands: groups in the help, errors in one printable sentence, exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from observal.cli.output import printable, say
from observal.errors import ObservalError, hide_secrets

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

Command = Callable[..., None] | typer.Typer


class GroupedCommand(TyperCommand):
    """A command whose help lists options under their headings; everyday options have none and come first."""

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the options into the help."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                heading = getattr(parameter, "rich_help_panel", None) or usual  # --help itself has no such attribute
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def make_app(help_: str, groups: Mapping[str, Mapping[str, Command]]) -> typer.Typer:
    """Return a command line whose help lists its commands in groups.

    `groups` has each group's heading, and its commands by name.
    """

    class Commands(TyperGroup):
        def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
            with _printable_errors():
                return super().parse_args(ctx, args)

        def invoke(self, ctx: Context) -> Any:
            with _printable_errors():
                return super().invoke(ctx)

        def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
            for heading, commands in groups.items():
                with formatter.section(heading):
                    formatter.write_dl([(name, self.commands[name].get_short_help_str(80)) for name in commands])

    app = typer.Typer(
        cls=Commands,
        help=help_,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def _options(
        debug: Annotated[bool, typer.Option("--debug", help="Show the full traceback when there is an error.")] = False,
        version: Annotated[
            bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
        ] = False,
    ) -> None:
        # run() removes --debug from the arguments, wherever it is, because it must know before a command fails.
        del debug, version

    for commands in groups.values():
        for name, command in commands.items():
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name)
            else:
                app.command(name, cls=GroupedCommand)(command)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from observal import __version__

        say(f"observal {__version__}")
        raise typer.Exit


def run(app: typer.Typer) -> None:
    """Run a command line. Exit codes: 0 success, 1 an error in one line, 2 a wrong call."""
    debug = "--debug" in sys.argv
    try:
        app([argument for argument in sys.argv[1:] if argument != "--debug"])
    except ObservalError as error:
        _fail(str(error), debug)
    except OSError as error:
        _fail(f"{error.filename or 'A file'} cannot be read or written: {error.strerror or error}.", debug)


@contextmanager
def _printable_errors() -> Iterator[None]:
    """Spell out the control characters of a usage error and hide its secrets: an argument may be any file name or address."""
    try:
        yield
    except Exception as error:
        # The class of a usage error has a different place in each version of typer.
        if (format_message := getattr(error, "format_message", None)) is not None:
            message = printable(hide_secrets(format_message()), lines=True)
            error.format_message = lambda: message  # type: ignore[attr-defined]
        raise


def _fail(sentence: str, debug: bool) -> NoReturn:
    if debug:
        import traceback

        say(hide_secrets(traceback.format_exc()), error=True, lines=True)
    else:
        say(f"observal: {hide_secrets(sentence)}", error=True)
    sys.exit(1)
