"""The command line without a new process: for tests in which starting Python is not the point."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from subprocess import CompletedProcess
from unittest import mock

from observal.cli import main


def observal(*arguments: object, cwd: object = ".", **environment: str) -> CompletedProcess[str]:
    """Run ``observal`` with these arguments as its entry point does, and return what a process would have."""
    command = ["observal", *map(str, arguments)]
    code: object = 0
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as errors,
        contextlib.chdir(str(cwd)),
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", command),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return CompletedProcess(command, int(code or 0), out.getvalue(), errors.getvalue())
