"""Shared set-up: examples are drawn the same way on every run, and compiling a kernel is not a slow example.

Each worker of pytest-xdist has one core, so libraries get one thread: waiting threads would take the others' time. Modules with
long tests come first, so that no worker is left with one when the others have nothing more to do.
"""

from __future__ import annotations

import gc
import os
import signal

for _library in ("OMP", "OPENBLAS", "MKL"):  # read when they are loaded, so before anything imports NumPy
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

gc.disable()  # imports make objects that stay; looking for garbage among them takes a quarter of the collection's time

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests.browser import browser, open_page  # noqa: E402
from tests.skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: E402

__all__ = ["browser", "open_page", "pytest_make_collect_report", "pytest_runtest_makereport"]


@pytest.fixture(scope="session", autouse=True)
def numba_is_loaded() -> None:
    """Import here what AutoVC's threads would import with their first kernel.

    SlipCover now and then goes through the names of all running modules, and fails if one is being imported in another thread.
    """
    from numba.core.registry import cpu_target

    from observal.learners.kernels import forest  # noqa: F401

    cpu_target.target_context.refresh()


if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in a shell's background jobs; processes that tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("observal", deadline=None, derandomize=True)
settings.load_profile("observal")

LONG = (
    "demo",
    "docs",
    "verify",
    "security_output",
    "campaign_fuzz",
    "benchmark",
    "security_campaign",
    "methods_committee",
)


def pytest_collection_modifyitems(items):
    """Put modules with long tests first; else the order stays."""
    first = [f"test_{name}.py" for name in LONG]
    items.sort(key=lambda item: first.index(item.path.name) if item.path.name in first else len(first))


def pytest_collection_finish():
    """Look for garbage again, but not among what was imported, and a tenth as often: it took 6 % of the tests' time."""
    gc.freeze()
    gc.set_threshold(7_000)
    gc.enable()
