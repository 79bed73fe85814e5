"""The blend's forest and boosted trees, as plain arrays walked by one compiled loop; and users' own estimators.

Each learner is fitted once per fold: the mean of the fits predicts, and every labelled row has a fit that did
not see it. The arrays are the same on every machine and for every version of the libraries that grew them,
and safe to read from a file.

**Categories and missing values.** Boosted trees see a category as one column and missing values as missing
(``TreeView``). A split of a category into two sets of levels becomes a chain of nodes that test one level
each. A split of a number that may be missing becomes two nodes, the first of which tests whether it is. So a
fitted model has neither categories nor missing values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from observal.checks import Bools, Floats, Ints
from observal.errors import InvalidInput
from observal.learners.blend_settings import BOOSTED, BOOSTED_ROUNDS, CATEGORIES, TREES_PER_FOLD
from observal.learners.labelled import LabelledRows, LearnerFit, best_sharpness, sharpen, softmax
from observal.problem.column_groups import ColumnGroups
from observal.problem.method import check_classes
from observal.problem.rows import Matrix, is_sparse

if TYPE_CHECKING:  # population imports this module
    from observal.learners.population import Population

FITTED_BY_LIGHTGBM = {"verbose": -1, "deterministic": True, "force_row_wise": True, "num_threads": 1, "seed": 0}
NEVER = -1e9  # the log-odds of a class that a fit has not seen


# -- trees as arrays --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TreeChances:
    """Probabilities from trees: the sum of a row's leaves, or the mean over groups of the softmax of such sums.

    `roots` and `column` hold each tree's first node, and the first of the sums that its leaves add to.
    `feature`, `threshold`, `left`, `right` and `value` are indexed by node: a row goes left if its feature,
    rounded to 32 bits, is at most the threshold; a leaf has feature −1.
    """

    roots: NDArray[np.signedinteger[Any]]
    column: NDArray[np.signedinteger[Any]]
    feature: NDArray[np.signedinteger[Any]]
    threshold: Floats
    left: NDArray[np.signedinteger[Any]]
    right: NDArray[np.signedinteger[Any]]
    value: Floats  # shape (nodes, width)
    start: Floats  # shape (groups, classes): initial values of the sums
    as_log_odds: bool  # whether the sums are log-odds rather than probabilities
    n_features: int
    sharpness: float = 1.0  # exponent of the probabilities: above 1 they become more confident

    def __post_init__(self) -> None:
        for name in ("roots", "column", "feature", "left", "right"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.int32))
        for name in ("threshold", "value", "start"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        if not self._is_valid():
            raise InvalidInput("The trees of a learner do not match; use an undamaged copy.")

    def _is_valid(self) -> bool:
        """Return whether links lead to later nodes, features exist and every leaf has sums to add to."""
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
        last_sums = self.column.astype(np.int64) + self.value.shape[1]  # could overflow in 32 bits
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
        """Numbers of features and classes."""
        return self.n_features, self.start.shape[1]

    def __call__(self, Z: Floats) -> Floats:
        """Return class probabilities of standardised rows."""
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
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the mean of several, as consecutive groups."""
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


# -- the learners -----------------------------------------------------------------------------------------------


def fit_forest(population: Population, labelled: LabelledRows, tuned: tuple[float, ...] = ()) -> LearnerFit | None:
    """Fit extremely randomised trees; None if no fold leaves two classes."""
    rows = np.asarray(labelled.rows, dtype=np.float32)
    parts = {
        fold: grow_forest(rows[train], labelled.codes[train], labelled.weights[train], labelled.n_classes, fold)
        for fold, train, _ in labelled.splits()
    }
    return join_folds(parts, labelled)


def grow_forest(rows: NDArray[np.float32], codes: Ints, weights: Floats, n_classes: int, seed: int) -> TreeChances:
    """Grow extremely randomised trees that try √features splits per node.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(200, 2)).astype(np.float32)
    >>> y = (X[:, 0] > X[:, 1]).astype(np.int64)
    >>> chances = grow_forest(X[:150], y[:150], np.ones(150), 2, seed=0)(X[150:])
    >>> bool((chances.argmax(axis=1) == y[150:]).mean() > 0.9)
    True
    """
    from observal.learners.kernels.forest import grow_trees  # lazy: numba is slow to import

    n_tried = max(1, int(np.sqrt(rows.shape[1])))
    trees = grow_trees(rows, codes, weights, n_classes, TREES_PER_FOLD, n_tried, seed)
    roots, feature, threshold, left, right, value = trees
    first, start = np.zeros(roots.size, dtype=np.int32), np.zeros((1, n_classes))
    return TreeChances(roots, first, feature, threshold, left, right, value, start, False, rows.shape[1])


def fit_boosted(population: Population, labelled: LabelledRows, tuned: tuple[float, ...] = ()) -> LearnerFit | None:
    """Fit LightGBM; None if no fold leaves two classes."""
    import lightgbm

    view, parts = population.view, {}
    rows = np.asarray(labelled.rows, dtype=np.float32) if view is None else view(labelled.dense)
    native = {} if view is None else CATEGORIES
    for fold, train, _ in labelled.splits():
        classes, own = np.unique(labelled.codes[train], return_inverse=True)
        several = (
            {"objective": "multiclass", "num_class": classes.size} if classes.size > 2 else {"objective": "binary"}
        )
        categories: Literal["auto"] | list[int] = "auto" if view is None else view.categories
        data = lightgbm.Dataset(
            rows[train], own, weight=select_weights(labelled, train), categorical_feature=categories
        )
        booster = lightgbm.train(
            {**BOOSTED, **FITTED_BY_LIGHTGBM, **native, **several}, data, BOOSTED_ROUNDS, keep_training_booster=True
        )
        parts[fold] = from_lightgbm(
            booster.model_to_string(), classes, labelled.n_classes, labelled.rows.shape[1], view
        )
    return join_folds(parts, labelled)


def select_weights(labelled: LabelledRows, which: Bools) -> Floats | None:
    """Return the weights of the selected rows; None if all weights are equal."""
    return None if np.ptp(labelled.weights) == 0.0 else labelled.weights[which]


def join_folds(parts: Mapping[int, TreeChances], labelled: LabelledRows) -> LearnerFit | None:
    """Return the mean of each fold's trees, with the sharpness that calibrates it on held-out rows."""
    if not parts:
        return None
    rows, out_of_fold = np.asarray(labelled.rows, dtype=np.float32), labelled.uniform_chances()
    for fold, part in parts.items():
        test = labelled.folds == fold
        out_of_fold[test] = part(rows[test])
    sharpness = best_sharpness(out_of_fold, labelled.codes, labelled.weights)
    return LearnerFit(
        replace(TreeChances.join(list(parts.values())), sharpness=sharpness), sharpen(out_of_fold, sharpness)
    )


# -- rows as boosted trees see them -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TreeView:
    """Maps standardised rows to rows with categories and missing values."""

    number: Ints  # the source column of a number; −1 for a category
    gap: Ints  # the column that marks where the number is missing; −1 without one
    levels: Ints  # the columns of a category's levels, padded with −1
    marked: Floats = field(repr=False)  # a level or missing value is marked if its column is above this

    @classmethod
    def of(cls, groups: ColumnGroups | None, sample: Matrix) -> Self | None:
        """Build the view for standardised rows; None if no columns belong together.

        Examples
        --------
        >>> import numpy as np
        >>> rows = np.array([[0.5, 0.0, 1.0, 0.0], [0.1, 1.0, 0.0, 1.0], [0.7, 0.0, 0.0, 0.0]])
        >>> TreeView.of(ColumnGroups(categories=((2, 3),), gaps=((0, 1),)), rows)(rows).tolist()
        [[0.5, 0.0], [nan, 1.0], [0.699999988079071, 2.0]]
        """
        if groups is None or not (groups.categories or groups.gaps) or is_sparse(sample):
            return None
        n_columns, marks = sample.shape[1], {pair[0]: pair[1] for pair in groups.gaps}
        first = {group[0]: group for group in groups.categories}
        hidden = {column for group in groups.categories for column in group[1:]} | set(marks.values())
        columns = [column for column in range(n_columns) if column not in hidden]
        levels = np.full((len(columns), max([1, *map(len, groups.categories)])), -1)
        for place, column in enumerate(columns):
            if column in first:
                levels[place, : len(first[column])] = first[column]
        number = np.array([-1 if column in first else column for column in columns])
        gap = np.array([marks.get(column, -1) for column in columns])
        low, high = sample.min(axis=0), sample.max(axis=0)
        return cls(number, gap, levels, np.where(low < high, (low + high) / 2.0, np.inf))

    @property
    def categories(self) -> list[int]:
        """The columns of the view that hold categories."""
        return np.flatnonzero(self.number < 0).tolist()

    def __call__(self, Z: Floats) -> NDArray[np.float32]:
        """Return the rows; a category's code is its level's position, or the number of levels if none is marked."""
        out = np.asarray(Z[:, np.maximum(self.number, 0)], dtype=np.float32)
        for place in np.flatnonzero(self.gap >= 0).tolist():
            out[Z[:, self.gap[place]] > self.marked[self.gap[place]], place] = np.nan
        for place in self.categories:
            own = self.levels[place][self.levels[place] >= 0]
            is_level = Z[:, own] > self.marked[own]
            out[:, place] = np.where(is_level.any(axis=1), is_level.argmax(axis=1), own.size)
        return out


class Splits(NamedTuple):
    """The splits of a model, concatenated.

    `feature` is a column of the view, `kind` LightGBM's decision type; `in_left` lists for each categorical
    split which codes go left.
    """

    feature: Ints
    threshold: Floats
    kind: Ints
    in_left: NDArray[np.bool_]


class Nodes(NamedTuple):
    """The nodes of each split: how many, their columns and thresholds, and where rows go next.

    `low` and `high` apply to values up to the threshold and above it: 0 is the left child, 1 the right, 2 the
    next node.
    """

    sizes: Ints
    feature: Ints
    threshold: Floats
    low: Ints
    high: Ints


LEFT, RIGHT, NEXT = 0, 1, 2
CATEGORY, _DEFAULT_LEFT, _MISSING, _GAPS = 1, 2, 12, 8  # bits of LightGBM's decision type


def plain_nodes(feature: Ints, threshold: Floats) -> Nodes:
    """Return one node per split, for numbers that are never missing."""
    unit = np.ones(feature.size, dtype=np.int64)
    return Nodes(unit, feature, threshold, LEFT * unit, RIGHT * unit)


def as_nodes(splits: Splits, view: TreeView) -> Nodes:
    """Convert splits of a view to nodes over the view's source columns."""
    is_category = splits.kind & CATEGORY > 0
    asks_gap = ~is_category & (splits.kind & _MISSING == _GAPS) & (view.gap[splits.feature] >= 0)
    levels = view.levels[splits.feature[is_category]]
    size = (levels >= 0).sum(axis=1)
    default_left = splits.in_left[np.arange(size.size), size]
    asked = (levels >= 0) & (splits.in_left[:, : levels.shape[1]] != default_left[:, None])
    n_asked = asked.sum(axis=1)
    count = np.ones(splits.feature.size, dtype=np.int64)
    count[asks_gap] = 2
    count[is_category] = np.maximum(n_asked, 1)
    last = np.cumsum(count) - 1
    total = int(count.sum())
    feature, threshold = np.empty(total, dtype=np.int64), np.full(total, np.inf)
    low, high = np.full(total, NEXT), np.full(total, NEXT)
    # The last node of a numeric split compares the number.
    feature[last], threshold[last] = view.number[splits.feature], splits.threshold
    low[last], high[last] = LEFT, RIGHT
    before = last[asks_gap] - 1
    feature[before] = view.gap[splits.feature[asks_gap]]
    threshold[before] = view.marked[feature[before]]
    high[before] = np.where(splits.kind[asks_gap] & _DEFAULT_LEFT > 0, LEFT, RIGHT)
    # Each node of a categorical split tests one level. After the last, rows go where unlisted levels go.
    first = (last - count + 1)[is_category]
    of_split, place = np.nonzero(asked)
    at = first[of_split] + asked.cumsum(axis=1)[of_split, place] - 1
    nodes = np.repeat(first, count[is_category]) + count_within(count[is_category])
    owner = np.repeat(np.arange(size.size), count[is_category])
    feature[nodes], threshold[nodes] = levels[owner, 0], np.inf
    feature[at], threshold[at] = levels[of_split, place], view.marked[levels[of_split, place]]
    high[nodes] = np.where(default_left[owner], RIGHT, LEFT)
    low[last[is_category]] = np.where(default_left, LEFT, RIGHT)
    return Nodes(count, feature, threshold, low, high)


def count_within(counts: Ints) -> Ints:
    """Return 0, 1, …, count − 1 for each count, concatenated."""
    return np.asarray(np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts))


# -- LightGBM's trees as arrays ---------------------------------------------------------------------------------


def from_lightgbm(
    text: str, classes: Ints, n_classes: int, n_features: int, view: TreeView | None = None
) -> TreeChances:
    """Convert LightGBM's trees to arrays.

    `text` is from ``model_to_string``. `classes` are the codes it was trained on: two for a binary model,
    which has one tree per round. `view` is how LightGBM saw the rows; the arrays apply to the rows
    themselves. Without it, features are numeric and never missing.
    """
    text = text.split("\nend of trees", maxsplit=1)[0]
    own = classes[1:] if classes.size == 2 else classes

    def numbers(name: str, kind: DTypeLike) -> NDArray[Any]:
        """Return a field of all trees, concatenated; a tree of one leaf lacks some fields."""
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
    # A tree's nodes: those of its splits first, then leaves, which LightGBM counts from ~0.
    inner = np.bincount(of_tree, weights=nodes.sizes, minlength=leaves.size).astype(np.int64)
    sizes = inner + leaves
    roots = np.cumsum(sizes) - sizes
    at_node, at_leaf = (
        np.repeat(roots, inner) + count_within(inner),
        np.repeat(roots + inner, leaves) + count_within(leaves),
    )
    total = int(sizes.sum())
    feature, threshold, value = np.full(total, -1, dtype=np.int64), np.zeros(total), np.zeros((total, 1))
    feature[at_node], threshold[at_node] = nodes.feature, nodes.threshold
    value[at_leaf, 0] = numbers("leaf_value", np.float64)
    # Where each split starts among the nodes of its tree, and where its children do.
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


def _codes_left(
    numbers: Callable[[str, DTypeLike], NDArray[Any]], of_tree: Ints, of_category: Bools, n_codes: int
) -> Bools:
    """Return which codes go left at each categorical split, from LightGBM's bit sets of 32-bit words."""
    sets, ends = numbers("num_cat", np.int64), numbers("cat_boundaries", np.int64)
    words = numbers("cat_threshold", "<u4")
    n_ends = np.where(sets > 0, sets + 1, 0)  # a tree without categorical splits has none
    first_end = np.cumsum(n_ends) - n_ends
    n_words = np.where(sets > 0, ends[np.minimum(first_end + sets, ends.size - 1)], 0) if ends.size else sets
    tree, place_of_set = of_tree[of_category], numbers("threshold", np.float64)[of_category].astype(np.int64)
    begin, end = (ends[first_end[tree] + place_of_set + k] + (np.cumsum(n_words) - n_words)[tree] for k in (0, 1))
    of_split, place = np.repeat(np.arange(tree.size), end - begin), count_within(end - begin)
    out = np.zeros((tree.size, -(-n_codes // 32), 32), dtype=bool)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, 32)
    out[of_split, place] = bits[np.repeat(begin, end - begin) + place]
    return out.reshape(tree.size, 32 * out.shape[1])[:, :n_codes]


# -- users' own estimators --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FoldMean:
    """The mean of scikit-learn classifiers that were each fitted on class codes without one fold."""

    fits: tuple[Any, ...]
    n_features: int
    n_classes: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and classes."""
        return self.n_features, self.n_classes

    def __call__(self, Z: Matrix) -> Floats:
        """Return class probabilities of standardised rows."""
        out = np.zeros((Z.shape[0], self.n_classes))
        for fit in self.fits:
            out[:, np.asarray(fit.classes_).astype(np.int64)] += fit.predict_proba(Z)
        return out / len(self.fits)


def fit_estimator(estimator: object, labelled: LabelledRows) -> LearnerFit | None:
    """Fit clones of a scikit-learn classifier on standardised rows; None if no fold leaves two classes."""
    out_of_fold = labelled.uniform_chances()
    shape = labelled.rows.shape[1], labelled.n_classes
    fits = []
    for fold, train, test in labelled.splits():
        fit = fit_clone(estimator, fold, labelled.rows[train], labelled.codes[train], select_weights(labelled, train))
        check_classes(fit, range(labelled.n_classes))
        fits.append(fit)
        out_of_fold[test] = FoldMean((fit,), *shape)(labelled.rows[test])
    return LearnerFit(FoldMean(tuple(fits), *shape), out_of_fold) if fits else None


def fit_clone(estimator: Any, seed: int, X: Any, y: NDArray[Any], weights: Floats | None, given_as: str = "") -> Any:
    """Fit a clone of a scikit-learn classifier, with weights if there are any and a seed where it has none."""
    from sklearn.base import clone

    fit = clone(estimator)
    unseeded = [name for name, value in fit.get_params().items() if name.endswith("random_state") and value is None]
    fit.set_params(**dict.fromkeys(unseeded, seed))
    weighted = {} if weights is None else {weight_name(fit): weights}
    try:
        return fit.fit(X, y, **weighted)
    except ValueError as error:
        raise InvalidInput(
            f"{type(fit).__name__} could not be fitted on {len(y)} labelled rows{given_as} ({error}); choose an "
            "estimator that can, or begin with more labels."
        ) from error


def weight_name(classifier: Any) -> str:
    """Return the argument of ``fit`` that takes the weights to the model inside; refuse a classifier that ignores them."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(classifier, Pipeline):
        name, last = classifier.steps[-1]
        return f"{name}__{weight_name(last)}"
    if isinstance(classifier, GridSearchCV | RandomizedSearchCV):  # hands all arguments to its estimator
        return weight_name(classifier.estimator)
    if isinstance(classifier, CalibratedClassifierCV) and not isinstance(classifier.estimator, FrozenEstimator | None):
        classifier = classifier.estimator  # calibration only warns if it has to leave out the weights
    if not has_fit_parameter(classifier, "sample_weight"):
        raise InvalidInput(
            "Labels have weights, because some stand for many more rows than others, but fit of "
            f"{type(classifier).__name__} takes no sample_weight; choose a classifier that does."
        )
    return "sample_weight"
