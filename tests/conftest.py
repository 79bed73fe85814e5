"""Shared set-up: examples are drawn the same way on every run, and compiling a kernel is not a slow example."""

from __future__ import annotations

from hypothesis import settings

from tests.skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

settings.register_profile("observal", deadline=None, derandomize=True)
settings.load_profile("observal")
