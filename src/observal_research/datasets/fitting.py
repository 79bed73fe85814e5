"""What fitting a logging policy needs: the plane of the paper's policies, column moments, random regions, row hashes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Floats, check_generator
from observal.diagnosis.feature_values import column_moments
from observal.errors import InvalidInput
from observal.problem.labels import encode_labels
from observal.problem.rows import Features, Matrix, check_features, is_sparse, to_dense
from observal_research.datasets.dataset import RandomState, Region, dense_column, two_classes


def distance(X: Features, normal: tuple[float, ...], offset: float) -> Floats:
    """Return |u·x − b| for each row."""
    rows = check_features(X, "The features")
    if rows.shape[1] != len(normal):
        raise InvalidInput(
            f"This policy was made for {len(normal)} features, but the rows have {rows.shape[1]}; "
            "give the rows it was made for."
        )
    return np.abs(np.asarray(rows @ np.asarray(normal)) - offset)


def one_pass_normal(X: Floats, signs: Floats, eta: float = 1.0) -> Floats:
    """Return the unit normal after one pass of the paper's gradient descent, every weight 1, from 0.

    At row t = 1, 2, …: p = w·x clamped to [−1, 1], e = sqrt(η/(η+t))·x·x, and
    w ← w − 2(p − y)·(1 − exp(−e))/(x·x)·x.
    """
    w = np.zeros(X.shape[1])
    for t, (x, sign) in enumerate(zip(X, signs, strict=True), start=1):
        square = x @ x
        if square > 0.0:
            error = min(1.0, max(-1.0, w @ x)) - sign
            w += 2.0 * error * np.expm1(-np.sqrt(eta / (eta + t)) * square) / square * x
    length = float(np.linalg.norm(w))
    if not length > 0.0:
        raise InvalidInput("No plane was found, the gradient descent ended at 0; give rows that are not all 0.")
    return np.asarray(w / length)


def fit_plane(
    X: Features, y: ArrayLike, random_state: RandomState, standardise: bool, *, quantile: float, share: float
) -> tuple[tuple[float, ...], float, float]:
    """Return normal, scale and offset: the plane of one pass on a tenth of the rows, and c = `share`/d².

    d is the given quantile of the distance from it, over all rows.
    """
    rows, signs = check_rows(X, y)
    n_rows, n_features = rows.shape
    centre, spread = moments(rows) if standardise else (np.zeros(n_features), np.ones(n_features))
    tenth = check_generator(random_state).permutation(n_rows)[: max(1, n_rows // 10)]
    unit = one_pass_normal((dense(rows[tenth]) - centre) / spread, signs[tenth])
    normal = tuple((unit / spread).tolist())
    offset = float(unit @ (centre / spread))
    d = float(np.quantile(distance(rows, normal, offset), quantile))
    if not d > 0.0:
        raise InvalidInput(
            f"The policy needs rows at a distance from its plane, but {quantile:.0%} of them lie on it; "
            "drop features that are nearly always 0, or use another random_state."
        )
    return normal, share / d**2, offset


def dense(X: Matrix) -> Floats:
    """Return rows as a dense float64 array."""
    return to_dense(X).astype(np.float64, copy=False)


def check_rows(X: Features, y: ArrayLike) -> tuple[Matrix, Floats]:
    """Return clean rows and labels −1 and +1 to fit a policy on."""
    rows = check_features(X, "The rows to fit a policy on")
    labels = np.asarray(y)
    if labels.shape != (rows.shape[0],):
        raise InvalidInput(
            f"A policy is fitted on one label for each of its {rows.shape[0]} rows, but got shape {labels.shape}."
        )
    codes = encode_labels(labels, two_classes(labels, "The data to fit a policy on"), "A label")
    return rows, np.where(codes == 1, 1.0, -1.0)


def moments(X: Matrix) -> tuple[Floats, Floats]:
    """Return each column's mean and standard deviation, the latter 1 where the column is constant."""
    mean, variance = column_moments(X)
    deviation = np.sqrt(variance)
    # A constant column leaves a deviation of a few rounding errors, not 0.
    constant = deviation <= 1e-9 * (1.0 + np.abs(mean))
    return mean, np.where(constant, 1.0, deviation)


def random_region(X: Matrix, share: float, pair: bool, rng: np.random.Generator) -> Region:
    """Return two random features cut at their medians, or one cut at its quantile 1 − `share`."""
    pair = pair and X.shape[1] > 1
    features = rng.choice(X.shape[1], size=2 if pair else 1, replace=False)
    sides = rng.choice([-1, 1], size=features.size)
    level = 0.5 if pair else share
    return Region(
        tuple(
            (int(feature), int(side), float(np.quantile(dense_column(X, feature), 1.0 - level if side == 1 else level)))
            for feature, side in zip(features, sides, strict=True)
        )
    )


def hash_rows(X: Matrix, random_state: int) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row: mix(Σ_j mix(bits of x_j xor key_j)) over the entries that are not 0."""
    keys = mix(np.arange(1, X.shape[1] + 1, dtype=np.uint64) + mix(np.array([random_state], dtype=np.uint64)))
    if is_sparse(X):
        entries = X.tocoo(copy=True)
        entries.sum_duplicates()
        values, total = entries.data.astype(np.float64), np.zeros(X.shape[0], dtype=np.uint64)
        used = values != 0.0
        hashed = mix(values[used].view(np.uint64) ^ keys[entries.col[used]])
        np.add.at(total, entries.row[used], hashed)
    else:
        values = np.ascontiguousarray(X, dtype=np.float64)
        total = np.where(values != 0.0, mix(values.view(np.uint64) ^ keys), np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return mix(total)


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finaliser of splitmix64 of each value: a bijection of 64-bit words that scatters them."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
