"""A pytest plugin: with ``CI=true`` in the environment a skipped test, or a skipped file of tests, is a failure.

A check that did not run has not passed. A test that is expected to fail did run, and stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a skip into that of a failure which says why it was skipped."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} was skipped, which is a failure when CI=true. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_if_skipped(report)
    return report
