"""What learners compute from all rows of log and pool, labelled or not: scales, ranks, knots and landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from observal.checks import Floats, Ints
from observal.learners.blend_settings import (
    CONSTANT,
    CURVE_KNOTS,
    KERNEL_LIMIT,
    LANDMARKS,
    MAX_CURVED,
    MIN_EIGENVALUE_SHARE,
    MIN_VALUES,
    POPULATION_NUMBERS,
    POPULATION_ROWS,
    SCORE_KNOTS,
    TYPICAL_ROWS,
    WIDTHS,
)
from observal.learners.features import FeatureMap
from observal.learners.tree_learners import TreeView
from observal.problem.column_groups import ColumnGroups
from observal.problem.rows import Matrix, Rows, as_rows, is_sparse, stack_rows, to_dense

CONSTANT_DEVIATION = 1e-9  # a standardised feature with a smaller standard deviation is constant up to rounding


@dataclass(frozen=True, eq=False)
class Space:
    """The space in which the kernel measures distances: clipped standardised features, or their normal scores."""

    # Knots of each feature's increasing, piecewise linear map to scores; empty if features stay as they are.
    knots: Floats
    scores: Floats

    @classmethod
    def standard(cls, n_features: int) -> Self:
        """Return the space of standardised features."""
        return cls(np.empty((0, n_features)), np.empty((0, n_features)))

    @classmethod
    def ranks(cls, Z: Floats) -> Self:
        """Return the space in which each feature of these rows is about standard normal.

        Examples
        --------
        >>> import numpy as np
        >>> Z = np.exp(np.random.default_rng(0).normal(size=(2000, 1)))
        >>> made = Space.ranks(Z)(Z)
        >>> abs(float(made.mean())) < 1e-6, round(float(made.std()), 6), abs(float((made**3).mean())) < 0.1
        (True, 1.0, True)
        """
        knots, scores = np.empty((SCORE_KNOTS, Z.shape[1])), np.empty((SCORE_KNOTS, Z.shape[1]))
        for j in range(Z.shape[1]):
            knots[:, j], scores[:, j] = _rank_scores(np.sort(Z[:, j]))
        raw = cls(knots, scores)(Z)
        spread = raw.std(axis=0)
        return cls(knots, (scores - raw.mean(axis=0)) / np.where(spread > CONSTANT_DEVIATION, spread, 1.0))

    def __call__(self, Z: Floats) -> Floats:
        """Map standardised rows to points of the space."""
        if not len(self.knots):
            return np.clip(Z, -KERNEL_LIMIT, KERNEL_LIMIT)
        columns = [np.interp(Z[:, j], self.knots[:, j], self.scores[:, j]) for j in range(Z.shape[1])]
        return np.column_stack(columns) if columns else np.empty(Z.shape)


def _rank_scores(ordered: Floats) -> tuple[Floats, Floats]:
    """Return the knots of a sorted column, and the normal score of each one's mean rank.

    If there are fewer distinct values than knots, the last is repeated.
    """
    from scipy.special import ndtr, ndtri  # lazy: scipy is slow to import

    n = ordered.size
    end = float(ndtri(1.0 - 0.5 / n))
    places = np.rint(ndtr(np.linspace(-end, end, SCORE_KNOTS)) * (n - 1)).astype(np.int64)
    values = np.unique(ordered[places])
    middle = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2.0 * n)
    scores = ndtri(np.clip(middle, 0.5 / n, 1.0 - 0.5 / n))
    last = np.full(SCORE_KNOTS - values.size, -1)
    return np.append(values, values[last]), np.append(scores, scores[last])


@dataclass(frozen=True, eq=False)
class KernelMap:
    """Features whose inner products approximate a Gaussian kernel (Nyström), and a constant."""

    space: Space  # where distances are measured
    landmarks: Floats  # shape (landmarks, features): points of that space
    gamma: float  # the kernel is exp(−γ·distance²)
    whiten: Floats  # shape (landmarks, directions): maps kernel values to features

    @classmethod
    def of(cls, space: Space, landmarks: Floats, width: float, n_varying: int) -> Self:
        """Build the map from standardised landmarks; `width` is γ times the number of features that vary."""
        points = np.unique(space(landmarks), axis=0)
        gamma = width / max(1, n_varying)
        values, directions = np.linalg.eigh(gaussian(points, points, gamma))
        nonzero = values > MIN_EIGENVALUE_SHARE * values[-1]
        return cls(space, points, gamma, directions[:, nonzero] / np.sqrt(values[nonzero]))

    def __call__(self, Z: Floats) -> Floats:
        """Return the features of standardised rows; the last one is the constant."""
        features = gaussian(self.space(Z), self.landmarks, self.gamma) @ self.whiten
        return np.column_stack([features, np.full(len(features), CONSTANT)])


def gaussian(A: Floats, B: Floats, gamma: float) -> Floats:
    """Return exp(−γ·|a − b|²) for each pair of rows.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian(np.array([[0.0], [1.0]]), np.array([[0.0]]), 1.0).round(4).tolist()
    [[1.0], [0.3679]]
    """
    out = A @ B.T
    out *= -2.0
    out += np.square(A).sum(axis=1)[:, None]
    out += np.square(B).sum(axis=1)
    np.maximum(out, 0.0, out=out)
    out *= -gamma
    return np.asarray(np.exp(out, out=out))


@dataclass(frozen=True, eq=False)
class CurveKnots:
    """Knots of the additive learner's piecewise linear curves: quantiles of the population."""

    features: Ints  # shape (curved,): the features with a curve, those with more than a few values
    # Shape (knots, curved), increasing. If a feature has fewer quantiles, the spare knots lie one apart
    # beyond the last.
    knots: Floats
    count: Ints  # shape (curved,): how many of each feature's knots are quantiles

    @classmethod
    def of(cls, Z: Floats) -> Self:
        """Find the knots for standardised rows of the population."""
        features = [j for j in range(Z.shape[1]) if np.unique(Z[:2000, j]).size >= MIN_VALUES][:MAX_CURVED]
        knots, count = np.empty((CURVE_KNOTS, len(features))), np.empty(len(features), dtype=np.int64)
        for i, j in enumerate(features):
            quantiles = np.unique(np.quantile(Z[:, j], np.linspace(0.0, 1.0, CURVE_KNOTS)))
            beyond = quantiles[-1] + np.arange(1.0, CURVE_KNOTS - quantiles.size + 1)
            knots[:, i], count[i] = np.append(quantiles, beyond), quantiles.size
        return cls(np.array(features, dtype=np.int64), knots, count)

    def __call__(self, Z: Floats) -> Floats:
        """Return the piecewise linear basis: 1 at a knot, 0 at its neighbours, constant beyond the last quantile."""
        columns = [
            np.interp(Z[:, feature], self.knots[:count, i], hat[:count])
            for i, (feature, count) in enumerate(zip(self.features, self.count, strict=True))
            for hat in np.eye(CURVE_KNOTS)
        ]
        return np.column_stack(columns) if columns else np.empty((len(Z), 0))


@dataclass(frozen=True, eq=False)
class Population:
    """Scales, and a sample of the standardised rows for ranks and landmarks."""

    feature_map: FeatureMap  # standardises; a feature that is constant on the sample becomes 0 everywhere
    sample: Matrix  # standardised rows
    landmarks: Matrix  # some of them
    groups: ColumnGroups | None = None  # columns that belong together, for trees

    @classmethod
    def of(cls, *parts: Matrix | Rows, seed: int = 0, groups: ColumnGroups | None = None) -> Self:
        """Build it from blocks of rows, such as log and pool, without copying all of them.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.column_stack([np.arange(6.0), np.full(6, 3.0)])
        >>> population = Population.of(X[:4], X[4:])
        >>> population.feature_map(np.array([[2.5, 9.0]])).tolist()
        [[0.0, 0.0]]
        >>> len(population.maps)
        8
        """
        rng = np.random.default_rng(seed)
        blocks = [as_rows(part) for part in parts]
        feature_map = FeatureMap.of(*blocks)
        n_rows = sum(len(block) for block in blocks)
        most = min(POPULATION_ROWS, max(TYPICAL_ROWS, POPULATION_NUMBERS // max(1, blocks[0].shape[1])))
        rows = take(blocks, np.sort(permute_head(n_rows, most, rng)))
        if is_sparse(rows):
            return cls(feature_map, feature_map(rows), feature_map(rows[:0]))
        varies = feature_map(rows).std(axis=0) > CONSTANT_DEVIATION
        low, high = (np.where(varies, end, feature_map.mean) for end in (feature_map.low, feature_map.high))
        feature_map = replace(feature_map, low=low, high=high)
        sample = feature_map(rows)
        return cls(feature_map, sample, sample[rng.permutation(len(sample))[:LANDMARKS]], groups)

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse: then only the linear learner can use them."""
        return is_sparse(self.sample)

    @property
    def typical(self) -> Matrix:
        """A sample of standardised rows."""
        return self.sample[:: 1 + (self.sample.shape[0] - 1) // TYPICAL_ROWS]

    @cached_property
    def view(self) -> TreeView | None:
        """How boosted trees see the rows; None if as all learners do."""
        return TreeView.of(self.groups, self.sample)

    @cached_property
    def curve_knots(self) -> CurveKnots:
        """The knots of the additive learner's curves."""
        return CurveKnots.of(to_dense(self.sample))

    @cached_property
    def maps(self) -> tuple[KernelMap, ...]:
        """The candidate kernels: two spaces times the widths."""
        spaces = (Space.standard(self.sample.shape[1]), Space.ranks(to_dense(self.sample)))
        n_varying = int((self.feature_map.low < self.feature_map.high).sum())
        return tuple(
            KernelMap.of(space, to_dense(self.landmarks), width, n_varying) for space in spaces for width in WIDTHS
        )


def permute_head(n_rows: int, most: int, rng: np.random.Generator) -> Ints:
    """Return ``rng.permutation(n_rows)[:most]`` with half the memory if there are many rows.

    Examples
    --------
    >>> import numpy as np
    >>> permute_head(3, 2, np.random.default_rng(0)).tolist(), np.random.default_rng(0).permutation(3).tolist()
    ([2, 0], [2, 0, 1])
    """
    order = np.arange(n_rows, dtype=np.int32 if n_rows < 2**31 else np.int64)
    rng.shuffle(order)
    return order[:most].astype(np.int64)


def take(blocks: Sequence[Rows], rows: Ints) -> Matrix:
    """Return rows of several stacked blocks, given in increasing order.

    Examples
    --------
    >>> import numpy as np
    >>> take([as_rows(np.zeros((2, 1))), as_rows(np.ones((3, 1)))], np.array([1, 2, 4])).tolist()
    [[0.0], [1.0], [1.0]]
    """
    ends = np.cumsum([0, *(len(block) for block in blocks)])
    cuts = np.searchsorted(rows, ends)
    parts = [block.take(rows[a:b] - end) for block, a, b, end in zip(blocks, cuts, cuts[1:], ends, strict=False)]
    out: Matrix = parts[0]
    for part in parts[1:]:
        out = stack_rows(out, part)
    return out
