"""What every learner of the blend takes and returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.learners.blend_settings import TUNING_ROWS
from observal.problem.rows import Matrix, to_dense


class Labelled(NamedTuple):
    """Labelled rows as learners see them.

    `rows` are standardised; `codes` from 0 to `n_classes` − 1; `weights` above 0 with mean 1; `folds` says which fits leave
    a row out.
    """

    rows: Matrix
    codes: Ints
    weights: Floats
    n_classes: int
    folds: Ints

    @property
    def dense(self) -> Floats:
        """The rows as an array; only the linear learner is given sparse rows."""
        return to_dense(self.rows)

    def some(self) -> Labelled:
        """Return at most as many rows as a choice between settings needs, evenly spread."""
        return self.taken(slice(None, None, 1 + (self.codes.size - 1) // TUNING_ROWS))

    def taken(self, which: slice | Ints | Bools) -> Labelled:
        """Return some of the rows."""
        return Labelled(self.rows[which], self.codes[which], self.weights[which], self.n_classes, self.folds[which])

    def splits(self) -> Iterator[tuple[int, Bools, Bools]]:
        """Yield the number of each fold that leaves two classes or more, the rows to fit on, and those held out."""
        for fold in np.unique(self.folds):
            held = self.folds == fold
            if np.unique(self.codes[~held]).size > 1:
                yield int(fold), ~held, held

    def undecided(self) -> Floats:
        """Return equal chances of all classes for each row."""
        return np.full((self.codes.size, self.n_classes), 1.0 / self.n_classes)


class Fitted(NamedTuple):
    """What a learner makes of labels: a function from standardised rows to chances, chances out of fold, its settings."""

    chances: Any
    out_of_fold: Floats
    tuned: tuple[float, ...] = ()


def targets(codes: Ints, n_classes: int) -> Floats:
    """Return the classes as numbers around 0.

    Examples
    --------
    >>> import numpy as np
    >>> targets(np.array([0, 1]), 2).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    return np.asarray(np.eye(n_classes)[codes] - 1.0 / n_classes)
