"""Trees as plain arrays, which one kernel follows.

They are the same on every machine and for every version of the libraries that grew them, and safe to read from a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.learners.calibration import sharpen

NEVER = -1e9  # the log odds of a class that a fit has not seen


@dataclass(frozen=True, eq=False)
class TreeChances:
    """Chances from trees: the sum of a row's leaves, or the mean over groups of softmax of such sums.

    Parameters
    ----------
    roots, column : int arrays of shape (trees,)
        The first node of each tree, and the first of the sums that its leaves add to.
    feature, threshold, left, right : arrays of shape (nodes,)
        A row goes left where its feature, rounded to 32 bits, is at most the threshold; a leaf has feature −1.
    value : array of shape (nodes, width)
        Of the leaves.
    start : array of shape (groups, classes)
        Where the sums begin.
    as_log_odds : bool
        Whether the sums are log odds; else they are chances.
    n_features : int
        Of the rows.
    sharpness : float
        The power of the chances: trees are not as sure as they should be, or surer.
    """

    roots: NDArray[np.signedinteger[Any]]
    column: NDArray[np.signedinteger[Any]]
    feature: NDArray[np.signedinteger[Any]]
    threshold: Floats
    left: NDArray[np.signedinteger[Any]]
    right: NDArray[np.signedinteger[Any]]
    value: Floats
    start: Floats
    as_log_odds: bool
    n_features: int
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        for name in ("roots", "column", "feature", "left", "right"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.int32))
        for name in ("threshold", "value", "start"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        if not self._is_sound():
            raise InvalidInput("The trees of a learner do not fit together; use an undamaged copy.")

    def _is_sound(self) -> bool:
        """Tell whether every link leads to a later node, every feature exists and every leaf has a place to add to."""
        n = self.feature.size
        of_node = (self.threshold, self.left, self.right)
        if (
            any(part.shape != (n,) for part in of_node)
            or self.feature.ndim != 1
            or self.start.ndim != 2
            or not self.start.size
        ):
            return False
        if (
            self.value.ndim != 2
            or len(self.value) != n
            or self.roots.ndim != 1
            or self.column.shape != self.roots.shape
        ):
            return False
        inner = np.flatnonzero(self.feature >= 0)
        links = np.concatenate([self.left[inner] - inner, self.right[inner] - inner])
        ends = np.concatenate([self.left[inner], self.right[inner]])
        return bool(
            0.0 < self.sharpness < np.inf
            and (links > 0).all()
            and (ends < n).all()
            and (self.feature < self.n_features).all()
            and ((self.roots >= 0) & (self.roots < n)).all()
            and ((self.column >= 0) & (self.column + self.value.shape[1] <= self.start.size)).all()
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Features and classes."""
        return self.n_features, self.start.shape[1]

    def __call__(self, Z: Any) -> Floats:
        """Return the chance of each class for standardised rows."""
        from observal._kernels.trees import add_leaves

        if Z.shape[1] != self.n_features:
            raise InvalidInput(f"The trees need {self.n_features} features, but the rows have {Z.shape[1]}.")
        out = np.tile(self.start.ravel(), (Z.shape[0], 1))
        rows = np.ascontiguousarray(Z, dtype=np.float32)
        nodes = self.feature, self.threshold, self.left, self.right, self.value
        add_leaves(rows, self.roots, self.column, *nodes, out)
        out = out.reshape(-1, *self.start.shape)
        chances = np.asarray((softmax(out, axis=2) if self.as_log_odds else out).mean(axis=1))
        return chances if self.sharpness == 1.0 else sharpen(chances, self.sharpness)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the mean of several, one group after another."""
        offsets = np.cumsum([0, *(part.feature.size for part in parts)])
        places = np.cumsum([0, *(part.start.size for part in parts)])

        def moved(name: str, by: Ints) -> NDArray[Any]:
            return np.concatenate([getattr(part, name) + move for part, move in zip(parts, by, strict=False)])

        def stacked(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in parts])

        return cls(
            moved("roots", offsets),
            moved("column", places),
            stacked("feature"),
            stacked("threshold"),
            moved("left", offsets),
            moved("right", offsets),
            stacked("value"),
            stacked("start"),
            parts[0].as_log_odds,
            parts[0].n_features,
        )


# -- from the library that grows boosted ones ------------------------------------------------------------


def from_lightgbm(text: str, classes: Ints, n_classes: int, n_features: int) -> TreeChances:
    """Return what LightGBM wrote about its trees as arrays.

    Parameters
    ----------
    text : str
        From ``model_to_string``, of numeric features without missing values.
    classes : int array
        The codes of the classes that it has seen: two for a binary model, which has one tree in each round.
    n_classes, n_features : int
        How many there are.
    """
    trees = [_fields(part) for part in text.split("\nTree=")[1:]]
    own = classes[1:] if classes.size == 2 else classes
    leaves = np.array([int(tree["num_leaves"]) for tree in trees], dtype=np.int64)
    splits, sizes = leaves - 1, 2 * leaves - 1
    roots = np.cumsum(sizes) - sizes

    def numbers(name: str, kind: Any) -> NDArray[Any]:
        """Return a field of all trees, one after the other."""
        return np.array(" ".join(tree.get(name, "") for tree in trees).split(), dtype=kind)

    # The nodes of a tree: splits first, then leaves, which LightGBM counts from ~0.
    at_split, at_leaf = np.repeat(roots, splits) + _within(splits), np.repeat(roots + splits, leaves) + _within(leaves)
    total = int(sizes.sum())
    feature, threshold, value = np.full(total, -1, dtype=np.int64), np.zeros(total), np.zeros((total, 1))
    feature[at_split], threshold[at_split] = numbers("split_feature", np.int64), numbers("threshold", np.float64)
    value[at_leaf, 0] = numbers("leaf_value", np.float64)
    left, right = np.zeros((2, total), dtype=np.int64)
    for name, links in (("left_child", left), ("right_child", right)):
        to = numbers(name, np.int64)
        links[at_split] = np.repeat(roots, splits) + np.where(to < 0, np.repeat(splits, splits) + ~to, to)
    start = np.full((1, n_classes), NEVER)
    start[0, classes] = 0.0
    column = np.tile(own, -(-len(trees) // own.size))[: len(trees)]
    return TreeChances(roots, column, feature, threshold, left, right, value, start, True, n_features)


def _fields(part: str) -> dict[str, str]:
    lines = part.split("\n\n", maxsplit=1)[0].splitlines()
    return dict(line.split("=", maxsplit=1) for line in lines if "=" in line)


def _within(counts: Ints) -> Ints:
    """Return 0, 1, …, count − 1 for each count, one after the other."""
    return np.asarray(np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts))
