"""Values that a parameter of the strategy for scikit-activeml takes or refuses."""

from __future__ import annotations

import numpy as np
import pytest


class Anything:
    """A value that no parameter can take."""


EITHER = (TypeError, ValueError)
FAST = {"ridge": 0.1, "tempering": 0.5, "random_state": 42}  # nothing is chosen by cross-validation
SHARE = [(0.0, None), (1, None), (np.float32(0.5), None), (-0.1, ValueError), (1.1, ValueError), (np.nan, ValueError)]
SHARE += [("half", TypeError), (None, TypeError), (Anything(), TypeError)]
AUTO = [("auto", None), (0.0, None), (1, None), (-1.0, ValueError), (np.nan, ValueError), (np.inf, ValueError)]
AUTO += [("none", ValueError), (None, TypeError), (Anything(), TypeError)]
SETTINGS = {
    "explore_share": SHARE,
    "gate_share": SHARE,
    "tempering": AUTO,
    "ridge": AUTO,
    "features": [(name, None) for name in ("linear", "splines", "fourier", "auto")]
    + [("cubic", ValueError), (1, TypeError), (None, TypeError)],
    "random_state": [
        (1, None),
        (None, None),
        (np.random.RandomState(0), None),
        (np.nan, ValueError),
        ("s", ValueError),
    ],
}


def cases(table):
    return [pytest.param(name, *case, id=f"{name}-{i}") for name, rows in table.items() for i, case in enumerate(rows)]


def check(error, call, *args, **kwargs):
    if error is None:
        return call(*args, **kwargs)
    with pytest.raises(error):
        call(*args, **kwargs)
    return None
