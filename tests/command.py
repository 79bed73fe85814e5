"""The command line without a new process: for tests in which starting Python is not the point."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from functools import cache
from subprocess import CompletedProcess
from typing import Any
from unittest import mock

import typer.main
import typer.testing

from observal.cli import app, main
from observal_research.cli import main as research_main

# Typer makes the commands from their signatures, which takes longer than most of them run.
made_once = cache(typer.main.get_command)


def observal(*arguments: object, cwd: object = ".", **environment: str) -> CompletedProcess[str]:
    """Run ``observal`` with these arguments as its entry point does, and return what a process would have."""
    return _run(main, "observal", *arguments, cwd=cwd, **environment)


def research(*arguments: object, cwd: object = ".", **environment: str) -> CompletedProcess[str]:
    """Run ``observal-research`` likewise."""
    return _run(research_main, "observal-research", *arguments, cwd=cwd, **environment)


def _run(entry: Callable[[], None], *arguments: object, cwd: object = ".", **environment: str) -> CompletedProcess[str]:
    command = list(map(str, arguments))
    code: object = 0
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as errors,
        contextlib.chdir(str(cwd)),
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", command),
        mock.patch.object(typer.main, "get_command", made_once),
    ):
        try:
            entry()
        except SystemExit as end:
            code = end.code
    return CompletedProcess(command, int(code or 0), out.getvalue(), errors.getvalue())


def invoke(*arguments: object, **options: Any) -> Any:
    """Run ``observal`` with these arguments as Typer's own runner does: an error is in the result, not yet a sentence."""
    with mock.patch.object(typer.testing, "_get_command", made_once):
        return typer.testing.CliRunner().invoke(app, [str(argument) for argument in arguments], **options)
