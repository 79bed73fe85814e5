"""Memory that a process no longer uses, given back to the system.

Arrow and the C library keep what is freed for the next time. After a pass over a big table that may be hundreds of megabytes, which the
next step, such as a fit, cannot use.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

PAUSE = 1.0  # seconds, after a part of a pass


_last = threading.local()


def give_back(pause: float = 0.0) -> None:
    """Give freed memory back to the system, Arrow's for the thread that calls it; values stay as they are.

    Parameters
    ----------
    pause : float
        Seconds that must have passed since this thread last did so: getting memory again takes time, which counts where parts are quick.

    Examples
    --------
    >>> give_back()
    """
    now = time.monotonic()
    if now - getattr(_last, "time", -math.inf) < pause:
        return
    _last.time = now
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
