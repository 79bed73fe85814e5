"""Small fits run on one thread: more would mostly wait for each other."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """Limit numerical libraries to one thread while a ``with`` block runs.

    As ``threadpoolctl.threadpool_limits(1)``, but the libraries are looked for again only after an import: looking takes 5 ms,
    longer than many a fit.

    Examples
    --------
    >>> with one_thread():
    ...     total = sum(range(4))
    >>> total
    6
    """
    return _libraries(len(sys.modules)).limit(limits=1)  # type: ignore[no-any-return]


def cores() -> int:
    """Return how many cores this process may use.

    Examples
    --------
    >>> cores() >= 1
    True
    """
    import joblib

    return int(joblib.cpu_count())


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
