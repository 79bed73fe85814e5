"""Folds spread every class evenly, and stay what they were: replayed campaigns fit with them."""

from __future__ import annotations

import numpy as np
import pytest

from observal.learners.folds import dealt_folds, random_folds, spread_folds

CODES = np.array([0] * 5 + [1] * 4 + [2] * 2)


@pytest.mark.parametrize(
    ("folds", "expected"),
    [
        (lambda: random_folds(CODES, 4, np.random.default_rng(0)), [3, 0, 0, 2, 1, 0, 3, 2, 1, 1, 0]),
        (lambda: spread_folds(CODES, 4), [3, 0, 0, 2, 1, 1, 3, 2, 0, 2, 3]),
        (lambda: dealt_folds(CODES, 4), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2]),
    ],
)
def test_folds_are_unchanged(folds, expected):
    found = folds()
    assert found.tolist() == expected
    for code in (0, 1, 2):
        assert np.ptp(np.bincount(found[code == CODES], minlength=4)) <= 1
