"""Trees as plain arrays, which one kernel follows.

They are the same on every machine and for every version of the libraries that grew them, and safe to read from a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints
from observal.errors import InvalidInput
from observal.learners.calibration import sharpen, softmax
from observal.learners.tree_view import CATEGORY, NEXT, RIGHT, Splits, TreeView, as_nodes, plain_nodes, within

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
        The power of the chances: above 1 makes them more confident, below 1 less.
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
        ends = np.concatenate([self.left[inner], self.right[inner]]).astype(np.int64)
        links = ends - np.tile(inner, 2)
        last_sums = self.column.astype(np.int64) + self.value.shape[1]  # in 32 bits it could wrap to a negative number
        return bool(
            0.0 < self.sharpness < np.inf
            and (links > 0).all()
            and (ends < n).all()
            and (self.feature < self.n_features).all()
            and ((self.roots >= 0) & (self.roots < n)).all()
            and ((self.column >= 0) & (last_sums <= self.start.size)).all()
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Features and classes."""
        return self.n_features, self.start.shape[1]

    def __call__(self, Z: Any) -> Floats:
        """Return the chance of each class for standardised rows."""
        from observal.learners.kernels.forest import add_leaves  # lazy: numba is slow to import

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


def from_lightgbm(
    text: str, classes: Ints, n_classes: int, n_features: int, view: TreeView | None = None
) -> TreeChances:
    """Return what LightGBM wrote about its trees as arrays.

    Parameters
    ----------
    text : str
        From ``model_to_string``. Without a view features are numeric, and no value is missing.
    classes : int array
        The codes of the classes that it has seen: two for a binary model, which has one tree in each round.
    n_classes, n_features : int
        How many there are.
    view : TreeView, optional
        How the rows were shown to LightGBM; the arrays are about the rows themselves.
    """
    text = text.split("\nend of trees", maxsplit=1)[0]
    own = classes[1:] if classes.size == 2 else classes

    def numbers(name: str, kind: Any) -> NDArray[Any]:
        """Return a field of all trees, one after the other; a tree of one leaf does not have every field."""
        return np.array(" ".join(re.findall(f"\n{name}=(.*)", text)).split(), dtype=kind)

    leaves = numbers("num_leaves", np.int64)
    splits = leaves - 1
    of_tree = np.repeat(np.arange(leaves.size), splits)
    split_feature, split_threshold = numbers("split_feature", np.int64), numbers("threshold", np.float64)
    if view is None:
        nodes = plain_nodes(split_feature, split_threshold)
    else:
        kinds = numbers("decision_type", np.int64)
        in_left = _codes_left(numbers, of_tree, kinds & CATEGORY > 0, view.levels.shape[1] + 1)
        nodes = as_nodes(Splits(split_feature, split_threshold, kinds, in_left), view)
    # The nodes of a tree: those of its splits first, then leaves, which LightGBM counts from ~0.
    inner = np.bincount(of_tree, weights=nodes.sizes, minlength=leaves.size).astype(np.int64)
    sizes = inner + leaves
    roots = np.cumsum(sizes) - sizes
    at_node, at_leaf = np.repeat(roots, inner) + within(inner), np.repeat(roots + inner, leaves) + within(leaves)
    total = int(sizes.sum())
    feature, threshold, value = np.full(total, -1, dtype=np.int64), np.zeros(total), np.zeros((total, 1))
    feature[at_node], threshold[at_node] = nodes.feature, nodes.threshold
    value[at_leaf, 0] = numbers("leaf_value", np.float64)
    # Where a split begins, among the nodes of its tree, and where its children do.
    starts = at_node[np.cumsum(nodes.sizes) - nodes.sizes]
    first_split = np.cumsum(splits) - splits

    def child(name: str) -> Ints:
        to = numbers(name, np.int64)
        at_split = starts[np.minimum(first_split[of_tree] + np.maximum(to, 0), starts.size - 1)] if starts.size else to
        return np.asarray(np.where(to < 0, (roots + inner)[of_tree] + ~to, at_split))

    ways = np.stack([child("left_child"), child("right_child")])
    owner = np.repeat(np.arange(of_tree.size), nodes.sizes)
    left, right = np.zeros((2, total), dtype=np.int64)
    for side, links in ((nodes.low, left), (nodes.high, right)):
        links[at_node] = np.where(side == NEXT, at_node + 1, ways[np.minimum(side, RIGHT), owner])
    start = np.full((1, n_classes), NEVER)
    start[0, classes] = 0.0
    column = np.tile(own, -(-leaves.size // own.size))[: leaves.size]
    return TreeChances(roots, column, feature, threshold, left, right, value, start, True, n_features)


def _codes_left(numbers: Callable[[str, Any], NDArray[Any]], of_tree: Ints, of_category: Bools, n_codes: int) -> Bools:
    """Return which codes go left at each split of a category: LightGBM has a set of bits for each, in words of 32."""
    sets, ends, words = (
        numbers("num_cat", np.int64),
        numbers("cat_boundaries", np.int64),
        numbers("cat_threshold", "<u4"),
    )
    n_ends = np.where(sets > 0, sets + 1, 0)  # a tree without categories has none
    first_end = np.cumsum(n_ends) - n_ends
    n_words = np.where(sets > 0, ends[np.minimum(first_end + sets, ends.size - 1)], 0) if ends.size else sets
    tree, chosen = of_tree[of_category], numbers("threshold", np.float64)[of_category].astype(np.int64)
    begin, end = (ends[first_end[tree] + chosen + k] + (np.cumsum(n_words) - n_words)[tree] for k in (0, 1))
    of_split, place = np.repeat(np.arange(tree.size), end - begin), within(end - begin)
    out = np.zeros((tree.size, -(-n_codes // 32), 32), dtype=bool)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, 32)
    out[of_split, place] = bits[np.repeat(begin, end - begin) + place]
    return out.reshape(tree.size, 32 * out.shape[1])[:, :n_codes]
