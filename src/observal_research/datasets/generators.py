"""Generated data: the paper's linear set in both shapes, and two worlds whose log has a blind spot."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from observal.checks import Bools, Floats, check_generator, check_share, check_whole
from observal.errors import InvalidInput
from observal_research.datasets.dataset import Dataset, RandomState, Region

Shape = Literal["triangular", "uniform"]
BlindSpotKind = Literal["expressible", "confidently_wrong"]

REGION_SHARE = 0.25
"""How much of the space the region of an expressible blind spot takes; a quarter, as the confidently wrong one's."""
REGION_SHIFT = 1.0
"""How far the expressible region moves a row along the unit normal: about two standard deviations of the score."""
TREND_REST = 0.3
"""Weight of all other features together, where the first feature's is 1, in the confidently wrong trend."""


def make_linear(
    n_rows: int = 6000,
    n_features: int = 30,
    noise: float = 0.05,
    shape: Shape = "triangular",
    random_state: RandomState = None,
) -> Dataset:
    """Make the paper's synthetic set: a random linear separator through the centre.

    Parameters
    ----------
    n_rows, n_features : int
        Its size.
    noise : float
        The chance that a label is flipped.
    shape : {"triangular", "uniform"}
        Uniform on the cube [−1, 1]^d, as the paper's text says; or the difference of two uniforms on [0, 1] in each
        coordinate, which is what its figure used.
    random_state : int or Generator, optional
        Fixes separator, rows and flips.

    Returns
    -------
    Dataset
        Labels −1 and +1.

    Examples
    --------
    >>> make_linear(1000, random_state=0)
    Dataset(linear-triangular: 1000 rows × 30 features, classes [-1, 1])
    """
    check_size(n_rows, n_features, noise, shape, least_features=1)
    rng = check_generator(random_state)
    normal = unit_vector(n_features, rng)
    X = draw_rows(n_rows, n_features, shape, rng)
    y = flip(X @ normal > 0.0, noise, rng)
    return Dataset(X, y, f"linear-{shape}", f"Linear separator through the centre, {noise:.0%} of the labels flipped.")


def make_blind_spot(
    kind: BlindSpotKind = "expressible",
    n_rows: int = 6000,
    n_features: int = 30,
    *,
    noise: float = 0.05,
    shape: Shape = "uniform",
    random_state: RandomState = None,
) -> Dataset:
    """Make data whose labels behave differently in a quarter of the space, for a log that hardly ever shows it.

    The record's ``region`` is that quarter: ``BlindSpot(data.region)`` is the policy that goes with it.

    Parameters
    ----------
    kind : {"expressible", "confidently_wrong"}
        *Expressible*: the last feature is 1 on a quarter of the rows, the region, and 0 elsewhere, and it shifts the
        linear separator far to the positive side. A linear classifier can be right everywhere, but its weight on that
        feature can be learnt only inside the region.

        *Confidently wrong*: the region is x0 > 0 and x1 > 0, and all labels in it are positive, none flipped. Outside,
        the label is the sign of −x0 plus a little of the features from x2 on, so that what the log shows says
        "negative wherever x0 > 0", with a large margin, while x1 seems not to matter. The best linear classifier
        (with an intercept) is wrong on about one row in eight; the trend, on more than one in four.
    n_rows, n_features : int
        Its size; three features at least.
    noise : float
        The chance that a label is flipped (outside the region only, where the kind is confidently wrong).
    shape : {"uniform", "triangular"}
        As in ``make_linear``.
    random_state : int or Generator, optional
        Fixes everything.

    Examples
    --------
    >>> data = make_blind_spot("confidently_wrong", 2000, random_state=0)
    >>> data, data.region
    (Dataset(blind-spot-confidently-wrong: 2000 rows × 30 features, classes [-1, 1]), Region(x0 > 0 and x1 > 0))
    >>> bool((data.y[data.region(data.X)] == 1).all())
    True
    """
    if kind not in get_args(BlindSpotKind):
        raise InvalidInput(f"The kind of a blind spot must be one of {get_args(BlindSpotKind)}, but got {kind!r}.")
    check_size(n_rows, n_features, noise, shape, least_features=3)
    rng = check_generator(random_state)
    X = draw_rows(n_rows, n_features, shape, rng)
    if kind == "expressible":
        X[:, -1] = rng.random(n_rows) < REGION_SHARE
        region = Region(((n_features - 1, 1, 0.5),))
        normal = np.append(unit_vector(n_features - 1, rng), REGION_SHIFT)
        y = flip(X @ normal > 0.0, noise, rng)
        description = "The last feature marks a quarter of the rows where labels are mostly positive; a linear class can express it."
    else:
        region = Region(((0, 1, 0.0), (1, 1, 0.0)))
        trend = np.concatenate([[-1.0, 0.0], TREND_REST * unit_vector(n_features - 2, rng)])
        y = flip(X @ trend > 0.0, noise, rng)
        y[region(X)] = 1
        description = "All labels are positive in a quarter of the space where the trend elsewhere says negative."
    return Dataset(X, y, f"blind-spot-{kind.replace('_', '-')}", description, region)


def make_bent(
    n_rows: int = 4000, n_features: int = 6, *, bend: float = 2.0, random_state: RandomState = None
) -> Dataset:
    """Make data whose risk depends on another feature in the opposite way beyond a score, where an old policy accepts hardly anyone.

    Parameters
    ----------
    n_rows, n_features : int
        Its size.
    bend : float
        How much the other feature matters.
    random_state : int or Generator, optional
        Fixes everything.

    Examples
    --------
    >>> make_bent(1000, random_state=0)
    Dataset(bent: 1000 rows × 6 features, classes [0, 1])
    """
    check_size(n_rows, n_features, 0.0, "uniform", least_features=2)
    rng = check_generator(random_state)
    X, normal = rng.standard_normal((n_rows, n_features)), unit_vector(n_features, rng)
    score, other = X @ normal, X @ np.roll(normal, 1)
    chance = 1.0 / (1.0 + np.exp(-2.0 * score - bend * np.where(score > 0.25, other, -other)))
    y = (rng.random(n_rows) < chance).astype(np.int64)
    return Dataset(X, y, "bent", "A logistic trend, part of which turns round where the risk is high.")


def unit_vector(n_features: int, rng: np.random.Generator) -> Floats:
    """Return a uniformly random direction."""
    direction = rng.standard_normal(n_features)
    return np.asarray(direction / np.linalg.norm(direction))


def draw_rows(n_rows: int, n_features: int, shape: Shape, rng: np.random.Generator) -> Floats:
    """Return rows on [−1, 1]^d: uniform, or the difference of two uniforms on [0, 1] in each coordinate."""
    if shape == "uniform":
        return rng.uniform(-1.0, 1.0, size=(n_rows, n_features))
    return rng.random((n_rows, n_features)) - rng.random((n_rows, n_features))


def flip(positive: Bools, noise: float, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return labels −1 and +1, each turned round with probability `noise`."""
    flipped = rng.random(positive.size) < noise
    return np.where(positive != flipped, 1, -1)


def check_size(n_rows: int, n_features: int, noise: float, shape: str, least_features: int) -> None:
    """Raise an error for impossible sizes, noise and shapes."""
    check_whole(n_rows, "n_rows", 2)
    check_whole(n_features, "n_features", least_features)
    check_share(noise, "noise")
    if shape not in get_args(Shape):
        raise InvalidInput(f"The shape must be one of {get_args(Shape)}, but got {shape!r}.")
