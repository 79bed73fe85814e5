"""Memory that a process no longer uses, given back to the system.

Arrow and the C library keep what is freed for the next time. After a pass over a big table that may be hundreds of megabytes, which the
next step, such as a fit, cannot use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any


def give_back() -> None:
    """Give freed memory back to the system, Arrow's for the thread that calls it; values stay as they are.

    Examples
    --------
    >>> give_back()
    """
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    _trim()(0)


@lru_cache(maxsize=1)
def _trim() -> Callable[[int], Any]:
    """Return glibc's ``malloc_trim``, or what does nothing where there is none."""
    import ctypes

    try:
        found: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another system
        return lambda _: 0
    return found
