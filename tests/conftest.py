"""Shared set-up: examples are drawn the same way on every run, and compiling a kernel is not a slow example.

Each worker of pytest-xdist has one core, so libraries get one thread: waiting threads would take the others' time.
"""

from __future__ import annotations

import os

for _library in ("OMP", "OPENBLAS", "MKL"):  # read when they are loaded, so before anything imports NumPy
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

from hypothesis import settings  # noqa: E402

from tests.skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: E402

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

settings.register_profile("observal", deadline=None, derandomize=True)
settings.load_profile("observal")
