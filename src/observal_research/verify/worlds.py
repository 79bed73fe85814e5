"""Worlds of whole campaigns: what the log shows, what is asked about, and rows that no campaign sees, to measure the truth on."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from scipy.special import expit, softmax

from observal.checks import Floats, Ints
from observal.problem.data import LoggedData, Pool
from observal_research.datasets import TableOracle, World

ROWS, TEST_ROWS, FEATURES = 1000, 20_000, 6
MANY_FEATURES = 30
COPY_SPREAD = 0.05  # standard deviation of the features of a group's rows; that of all rows is 1

Violation = Literal["", "hidden cause", "stale labels"]
"""An assumption about the log that does not hold."""


class Kind(Protocol):
    """A kind of worlds: the chance of the positive class (or of every class) and the propensity of each row.

    The second argument is a random direction of length 1, so that every campaign has a trend of its own.
    """

    __name__: str

    def __call__(self, X: Floats, direction: Floats, /) -> tuple[Floats, Floats]:
        """Return chances and propensities."""
        ...


def make_world(kind: Kind, rng: np.random.Generator, rows: int = ROWS, violation: Violation = "") -> World:
    """Draw a world of a kind, with as many logged as pool rows; an assumption about the log may be violated.

    Where a kind has related rows, groups of near-copies with one label are spread over log and pool; rows never seen are of other groups.
    """
    n_features = MANY_FEATURES if kind is many_features else FEATURES
    X = rng.normal(size=(2 * rows + TEST_ROWS, n_features))
    direction = rng.normal(size=n_features)
    chance, propensity = kind(X, direction / np.linalg.norm(direction))
    y = draw_classes(chance, rng).astype(np.float64)
    groups = None
    if kind is groups_of_three:
        groups = rng.permutation(2 * rows) // 3
        of_row = np.concatenate([groups, np.arange(2 * rows, len(X))])
        X, chance, propensity, y = X[of_row], chance[of_row], propensity[of_row], y[of_row]
        X[: 2 * rows] += COPY_SPREAD * rng.normal(size=(2 * rows, FEATURES))
    log_groups, pool_groups = (None, None) if groups is None else (groups[:rows], groups[rows:])
    reveal_chance, log_labels = propensity[:rows], y[:rows]
    if violation == "hidden cause":
        # Of rows with equal features the policy reveals positive ones more often, and as many in all as it states.
        p = chance[:rows]
        more = np.minimum(0.9, (1.0 / reveal_chance - 1.0) / np.maximum(1.0 - p, 1e-9))
        reveal_chance = reveal_chance * np.where(log_labels == 1, 1.0 + more * (1.0 - p), 1.0 - more * p)
    revealed = rng.random(rows) < reveal_chance
    logged_labels = log_labels
    if violation == "stale labels":  # a quarter of the log's labels would be different today
        logged_labels = np.where(rng.random(rows) < 0.25, 1.0 - log_labels, log_labels)
    classes = np.arange(2.0 if chance.ndim == 1 else chance.shape[1])
    logged = LoggedData(
        X[:rows], np.where(revealed, logged_labels, np.nan), propensity[:rows], classes=classes, groups=log_groups
    )
    pool = Pool(X[rows : 2 * rows], propensity[rows : 2 * rows], groups=pool_groups)
    oracle = TableOracle(pool.ids, y[rows : 2 * rows])
    return World(logged, pool, oracle, log_labels, X[2 * rows :], y[2 * rows :], seed=int(rng.integers(2**31)))


def draw_classes(chance: Floats, rng: np.random.Generator) -> Ints:
    """Return a class code for each row: from the chance of the second of two classes, or from the chances of all."""
    if chance.ndim == 1:
        return (rng.random(len(chance)) < chance).astype(np.int64)
    return np.asarray((rng.random((len(chance), 1)) > chance.cumsum(axis=1)[:, :-1]).sum(axis=1))


# -- kinds of worlds --------------------------------------------------------------------------------------------------


def well_specified(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return the chance of the positive class, which is logistic and linear, and a propensity that grows with certainty."""
    score = X @ direction
    return expit(2.0 * score), np.clip(np.abs(score) / 2.0, 0.02, 1.0)


def misspecified(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a chance of the positive class that is not linear, and the propensity of an old scorecard."""
    score = X @ direction + 1.5 * X[:, 0] * X[:, 1] - np.abs(X[:, 2])
    return expit(2.0 * score), np.clip(expit(2.0 * X @ np.roll(direction, 1)), 0.02, 0.98)


def blind_spot(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes whose trend changes in a quarter of the space, where the log has few labels."""
    score, spot = X @ direction, X[:, 0] > 0.6745
    return np.where(spot, 0.95, expit(2.0 * score - 1.0)), np.where(spot, 0.004, 0.5)


def small_blind_spot(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes whose trend ends in a sixteenth of the space, where the log has few labels."""
    score = X @ direction
    spot = score > 1.534
    return np.where(spot, 0.05, expit(2.5 * score)), np.where(spot, 0.02, 0.4)


def rare(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a chance of the positive class that is 3 % on average, and a propensity that is lower where it is higher."""
    score = X @ direction
    return expit(2.5 * score - 5.85), np.clip(expit(1.0 - score), 0.02, 0.98)


def low_propensities(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a logistic trend, and propensities from 0.001 to 1 that have nothing to do with it."""
    return expit(2.0 * X @ direction), np.clip(10.0 ** (X[:, 1] - 1.5), 1e-3, 1.0)


def few_at_random(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend with a wave in it, and the same low propensity for every row."""
    return expit(3.0 * (X @ direction + 0.8 * np.sin(2.0 * X[:, 0]))), np.full(len(X), 0.15)


def hardly_any_noise(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes that are nearly certain but that no line separates, and the propensity of a scorecard."""
    chance = expit(8.0 * (X[:, 0] * X[:, 1] + 0.5 * (X @ direction)))
    return chance, np.clip(expit(X @ np.roll(direction, 2)), 0.05, 0.95)


def much_noise(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes that overlap widely, and a propensity that grows with one feature."""
    return expit(0.8 * X @ direction), np.clip(expit(1.5 * X[:, 3] - 1.0), 0.05, 0.95)


def uncertain_first(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend that bends, and a policy that looked where it was uncertain."""
    score = X @ direction
    return expit(2.0 * score + X[:, 0] ** 2 - 1.0), np.clip(0.6 * np.exp(-1.5 * np.abs(score)), 0.02, 1.0)


def certain_only(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a logistic trend, and a policy that looked seldom, and hardly ever where it was uncertain."""
    score = X @ direction
    return expit(3.0 * score), np.clip(np.abs(score) / 8.0, 0.01, 1.0)


def rings(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes in rings around the origin, and the propensity of a scorecard on one feature."""
    radius = np.sqrt(X[:, 0] ** 2 + X[:, 1] ** 2)
    chance = expit(5.0 * np.sin(2.2 * radius) + 0.5 * X @ direction)
    return chance, np.clip(expit(1.5 * X[:, 0] - 0.5), 0.03, 0.97)


def bands(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend that turns around in every other band of a feature: hardly anything can be learned with so few labels."""
    sign = np.where(np.floor(2.0 * X[:, 0]) % 2 == 0, 1.0, -1.0)
    return expit(2.0 * sign * (X @ direction) + 0.3), np.where(X[:, 1] > 0.0, 0.6, 0.08)


def steep_scorecard(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a logistic trend, and a policy that looked where it expected the positive class, and hardly elsewhere."""
    score = X @ direction
    return expit(2.5 * score - 1.0), np.clip(expit(4.0 * (score + 0.3)), 0.005, 0.99)


def thirds(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend with a product in it, and thirds of the space with propensities of 0.05, 0.2 and 0.8."""
    third = (X[:, 2] > -0.43).astype(int) + (X[:, 2] > 0.43)
    return expit(2.0 * X @ direction + 0.8 * X[:, 3] * X[:, 4]), np.array([0.05, 0.2, 0.8])[third]


def typical_only(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a weak trend with a bend, and a policy that looked at rows near the mean of a feature."""
    return expit(1.2 * X @ direction + np.abs(X[:, 1]) - 0.8), np.clip(0.5 * np.exp(-(X[:, 0] ** 2)), 0.03, 1.0)


def wave(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend and a wave, and propensities that differ little."""
    return expit(3.0 * X @ direction - 1.5 * np.cos(2.0 * X[:, 2])), np.clip(0.4 + 0.25 * X[:, 1], 0.1, 0.9)


def checkerboard(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes on a checkerboard of two features, of which so few labels show nothing, and the propensity of a scorecard."""
    fields = np.floor(1.5 * X[:, 0]) + np.floor(1.5 * X[:, 1])
    return np.where(fields % 2 == 0, 0.95, 0.05), np.clip(expit(1.5 * X[:, 2] - 1.0), 0.05, 0.95)


def parity(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes by the sign of a product of three features, which is hard to learn, and the propensity of a scorecard."""
    return np.where(X[:, 0] * X[:, 1] * X[:, 2] > 0.0, 0.9, 0.1), np.clip(expit(1.5 * X[:, 3] - 1.0), 0.05, 0.95)


def many_features(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a logistic trend in 30 features, and a log with few labels, drawn at random."""
    return expit(3.0 * X @ direction), np.full(len(X), 0.05)


def steep_curve(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a ring that is nearly without noise, and a log with few labels: every label lowers the error a lot."""
    radius = np.sqrt(X[:, 0] ** 2 + X[:, 1] ** 2)
    return np.where((radius > 0.8) & (radius < 1.7), 0.99, 0.01), np.full(len(X), 0.06)


def steepest_scorecard(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend with a product in it, and the propensities of a scorecard, from 0.002 to 1."""
    trend = 3.0 * X @ direction + X[:, 0] * X[:, 1]
    return expit(trend), np.clip(expit(5.0 * (X @ np.roll(direction, 1)) - 1.0), 0.002, 1.0)


def groups_of_three(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return the chances and propensities of a misspecified world, in which ``make_world`` has three near-copies of each row."""
    return misspecified(X, direction)


def ten_classes(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return the chances of ten classes, and a propensity that grows with the lead of the likeliest class."""
    turned = np.stack([np.roll(direction, k) * (1.0 if k < FEATURES else -1.0) for k in range(10)], axis=1)
    scores = 4.0 * X @ turned
    ordered = np.sort(scores, axis=1)
    return softmax(scores, axis=1), np.clip((ordered[:, -1] - ordered[:, -2]) / 4.0, 0.05, 1.0)


def open_log(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a linear world whose log reveals half of the rows at random: hardly anything is left to learn."""
    return np.asarray(expit(2.0 * X @ direction)), np.full(len(X), 0.5)


def noisy(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return labels that depend little on the features, so that a hidden cause can matter, and a log that reveals three rows in ten."""
    return np.asarray(expit(X @ direction)), np.full(len(X), 0.3)


def far_island(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Move a twelfth of the rows far out, against the trend: labels from there pull a linear model from where it was right."""
    score, island = X @ direction, X @ np.roll(direction, 1) > 1.4
    chance = np.where(island, 0.05, expit(12.0 * score))
    across = np.roll(direction, 1) - (np.roll(direction, 1) @ direction) * direction
    X[island] = 0.5 * X[island] + 5.0 * direction + 8.7 * across / np.linalg.norm(across)
    return chance, np.where(island, 0.01, 0.4)
