"""Logging policies: small frozen objects, each a function of rows to the chance that their labels are revealed.

Every class can be made from its numbers, or fitted with ``fit(X, y, random_state)``; ``POLICIES`` names them all.
A fitted policy is plain data (tuples of floats), so that it prints, pickles, compares and hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Floats, check_generator, check_number, check_whole, keep
from observal.errors import InvalidInput, InvalidPropensity
from observal.problem.rows import Features, check_features
from observal_research.datasets.dataset import Dataset, RandomState, Region
from observal_research.datasets.fitting import check_rows, dense, distance, fit_plane, hash_rows, moments, random_region


class Policy(Protocol):
    """What a logging policy promises."""

    def __call__(self, X: Features) -> Floats:
        """Return Q0(x) in [0, 1] for each row."""
        ...


@dataclass(frozen=True)
class Certainty:
    """Reveal the rows far from a plane: Q0(x) = c·(u·x − b)², kept within [propensity_floor, 1].

    Parameters
    ----------
    normal : tuple of float
        u, of length 1 unless fitted with ``standardise=True``.
    scale : float
        c.
    offset : float
        b, 0 unless fitted with ``standardise=True``.
    propensity_floor : float
        The smallest propensity.

    Examples
    --------
    >>> policy = Certainty(normal=(1.0, 0.0), scale=0.5)
    >>> policy
    Certainty(2 features, scale=0.5, offset=0, propensity_floor=1e-05)
    >>> policy([[0.0, 3.0], [1.0, 0.0], [-2.0, 0.0]]).tolist()
    [1e-05, 0.5, 1.0]
    """

    normal: tuple[float, ...]
    scale: float
    offset: float = 0.0
    propensity_floor: float = 1e-5

    def __post_init__(self) -> None:
        check_plane(self)

    @classmethod
    def fit(cls, X: Features, y: ArrayLike, random_state: RandomState = None, *, standardise: bool = False) -> Self:
        """Find the plane on a tenth of the rows; c = 0.3/d², d the median distance of all rows from it.

        `standardise` centres and scales the features first, which real data need and the paper's did not.
        """
        return cls(*fit_plane(X, y, random_state, standardise, quantile=1 / 2, share=0.3))

    def __call__(self, X: Features) -> Floats:
        """Return Q0(x) for each row."""
        return np.clip(self.scale * distance(X, self.normal, self.offset) ** 2, self.propensity_floor, 1.0)

    def __repr__(self) -> str:
        return plane_words(self)


@dataclass(frozen=True)
class Uncertainty:
    """Reveal the rows near a plane: Q0(x) = 1 − c·(u·x − b)², kept within [propensity_floor, 1].

    Parameters are those of ``Certainty``.

    Examples
    --------
    >>> policy = Uncertainty(normal=(1.0, 0.0), scale=0.5)
    >>> policy([[0.0, 3.0], [1.0, 0.0], [-2.0, 0.0]]).tolist()
    [1.0, 0.5, 1e-05]
    """

    normal: tuple[float, ...]
    scale: float
    offset: float = 0.0
    propensity_floor: float = 1e-5

    def __post_init__(self) -> None:
        check_plane(self)

    @classmethod
    def fit(cls, X: Features, y: ArrayLike, random_state: RandomState = None, *, standardise: bool = False) -> Self:
        """Find the plane on a tenth of the rows; c = 0.4/d², d the distance that one row in six exceeds."""
        return cls(*fit_plane(X, y, random_state, standardise, quantile=5 / 6, share=0.4))

    def __call__(self, X: Features) -> Floats:
        """Return Q0(x) for each row."""
        return np.clip(1.0 - self.scale * distance(X, self.normal, self.offset) ** 2, self.propensity_floor, 1.0)

    def __repr__(self) -> str:
        return plane_words(self)


@dataclass(frozen=True)
class Identical:
    """Reveal every row with the same chance (Active18's paper; .005 there).

    Examples
    --------
    >>> Identical(0.25)([[1.0], [2.0]]).tolist()
    [0.25, 0.25]
    """

    propensity: float = 0.005

    def __post_init__(self) -> None:
        check_chances(self, self.propensity)

    @classmethod
    def fit(cls, X: Features, y: ArrayLike, random_state: RandomState = None, *, propensity: float = 0.005) -> Self:
        """Return the policy; nothing is learnt."""
        return cls(propensity)

    def __call__(self, X: Features) -> Floats:
        """Return Q0(x) for each row."""
        return np.full(check_features(X, "The features").shape[0], float(self.propensity))


@dataclass(frozen=True)
class Uniform:
    """Deal the instances at random into equally likely groups, each with a chance of its own (Active18's paper).

    A row's group is a hash of numbers and `random_state`: random over rows, and yet a function of x, so that equal rows
    (0 and −0, dense and sparse included) always share their group.

    Parameters
    ----------
    propensities : tuple of float
        The groups' chances.
    random_state : int
        Deals the groups anew.

    Examples
    --------
    >>> policy = Uniform(random_state=1)
    >>> policy
    Uniform(propensities=(0.005, 0.05, 0.5), random_state=1)
    >>> bool(np.isin(policy([[1.0], [2.0], [3.0]]), policy.propensities).all())
    True
    """

    propensities: tuple[float, ...] = (0.005, 0.05, 0.5)
    random_state: int = 0

    def __post_init__(self) -> None:
        check_chances(self, *self.propensities)
        keep(self, propensities=tuple(float(value) for value in self.propensities))
        keep(self, random_state=check_whole(self.random_state, "random_state", 0))
        if not self.propensities:
            raise InvalidInput("Uniform needs a chance for at least one group, but got none; give one.")

    @classmethod
    def fit(cls, X: Features, y: ArrayLike, random_state: RandomState = None) -> Self:
        """Return the policy with a seed drawn from `random_state`."""
        return cls(random_state=int(check_generator(random_state).integers(2**32)))

    def __call__(self, X: Features) -> Floats:
        """Return Q0(x) for each row."""
        group = hash_rows(check_features(X, "The features"), self.random_state) % np.uint64(len(self.propensities))
        return np.asarray(self.propensities, dtype=np.float64)[group.astype(np.intp)]


@dataclass(frozen=True)
class Scorecard:
    """An old model on half of the features decides whose label is seen: Q0(x) = max(propensity_floor, 1/(1 + exp(b − v·x))).

    Parameters
    ----------
    features : tuple of int
        The features that the old model reads.
    weights : tuple of float
        v, one for each of them.
    offset : float
        b.
    propensity_floor : float
        The chance that even the worst score is seen.

    Examples
    --------
    >>> policy = Scorecard(features=(1,), weights=(2.0,), offset=0.0)
    >>> policy
    Scorecard(1 features read, offset=0, propensity_floor=0.005)
    >>> policy([[9.0, -8.0], [9.0, 0.0], [9.0, 8.0]]).round(3).tolist()
    [0.005, 0.5, 1.0]
    """

    features: tuple[int, ...]
    weights: tuple[float, ...]
    offset: float
    propensity_floor: float = 0.005

    def __post_init__(self) -> None:
        check_chances(self, self.propensity_floor)
        object.__setattr__(self, "features", tuple(int(feature) for feature in self.features))
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        if not self.features or len(self.features) != len(self.weights):
            raise InvalidInput(
                f"A scorecard needs one weight for each feature it reads, but got {len(self.weights)} weights "
                f"for {len(self.features)} features."
            )

    @classmethod
    def fit(
        cls, X: Features, y: ArrayLike, random_state: RandomState = None, *, seen: float = 0.3, steepness: float = 4.0
    ) -> Self:
        """Fit a logistic regression on a random half of the features and a tenth of the rows of each class.

        Its score, divided by its standard deviation over all rows and multiplied by `steepness`, is the exponent; the
        offset puts even odds at the score that a share `seen` of the rows exceeds.
        """
        from sklearn.linear_model import LogisticRegression  # heavy, and needed by no other policy

        rows, signs = check_rows(X, y)
        rng = check_generator(random_state)
        features = np.sort(rng.choice(rows.shape[1], size=max(1, rows.shape[1] // 2), replace=False))
        old = [rng.permutation(np.flatnonzero(signs == sign)) for sign in (-1.0, 1.0)]
        history = np.concatenate([members[: max(2, round(members.size / 10))] for members in old])
        centre, spread = moments(rows[:, features])
        half = dense(rows[history][:, features])
        model = LogisticRegression(max_iter=1000).fit((half - centre) / spread, signs[history])
        weights = model.coef_.ravel() / spread
        scores = np.asarray(rows[:, features] @ weights)
        deviation = float(scores.std())
        if not deviation > 0.0:
            raise InvalidInput(
                f"A scorecard needs features that vary, but features {features.tolist()} give every row the same "
                "score; use another random_state."
            )
        weights = weights * (steepness / deviation)
        offset = float(np.quantile(scores * (steepness / deviation), 1.0 - seen))
        return cls(tuple(features.tolist()), tuple(weights.tolist()), offset)

    def __call__(self, X: Features) -> Floats:
        """Return Q0(x) for each row."""
        rows = check_features(X, "The features")
        if max(self.features) >= rows.shape[1]:
            raise InvalidInput(
                f"This scorecard reads feature {max(self.features)}, but the rows have {rows.shape[1]} features; "
                "give the rows it was made for."
            )
        exponent = np.asarray(rows[:, list(self.features)] @ np.asarray(self.weights)) - self.offset
        # tanh never overflows, whatever the exponent.
        return np.maximum(self.propensity_floor, 0.5 * (1.0 + np.tanh(0.5 * exponent)))

    def __repr__(self) -> str:
        return f"Scorecard({len(self.features)} features read, offset={self.offset:.4g}, propensity_floor={self.propensity_floor:g})"


@dataclass(frozen=True)
class BlindSpot:
    """Hardly ever reveal a region: Q0(x) is `inside` there, and elsewhere a chance or another policy's.

    Parameters
    ----------
    region : Region
        Where the log is blind, for example ``make_blind_spot(...).region``.
    inside : float
        The chance there.
    outside : float or policy
        The chance everywhere else.

    Examples
    --------
    >>> policy = BlindSpot(Region(((0, 1, 0.0), (1, 1, 0.0))))
    >>> policy
    BlindSpot(region=Region(x0 > 0 and x1 > 0), inside=0.004, outside=0.5)
    >>> policy([[1.0, 1.0], [1.0, -1.0]]).tolist()
    [0.004, 0.5]
    """

    region: Region
    inside: float = 0.004
    outside: float | Policy = 0.5

    def __post_init__(self) -> None:
        check_chances(self, self.inside, *([] if callable(self.outside) else [self.outside]))

    @classmethod
    def fit(
        cls,
        X: Features,
        y: ArrayLike,
        random_state: RandomState = None,
        *,
        share: float = 0.25,
        inside: float = 0.004,
        outside: float | Policy = 0.5,
    ) -> Self:
        """Choose a region that holds about `share` of the rows.

        Of 64 pairs of features, drawn at random and each cut at its median on a random side, and of 64 single
        features cut at their quantile 1 − `share`, the one whose share is nearest is taken.
        """
        rows, _ = check_rows(X, y)
        rng = check_generator(random_state)
        candidates = [random_region(rows, share, pair, rng) for pair in [True, False] * 64]
        shares = np.array([region(rows).mean() for region in candidates])
        best = int(np.argmin(np.abs(shares - share)))
        if shares[best] in (0.0, 1.0):
            raise InvalidInput(
                "No region with some but not all of the rows was found among 128 tries; name one with BlindSpot(Region(...))."
            )
        return cls(candidates[best], inside, outside)

    def __call__(self, X: Features) -> Floats:
        """Return Q0(x) for each row."""
        rows = check_features(X, "The features")
        outside = self.outside(rows) if callable(self.outside) else self.outside
        return np.where(self.region(rows), self.inside, outside)


POLICIES: dict[str, Any] = {
    "certainty": Certainty,
    "uncertainty": Uncertainty,
    "identical": Identical,
    "uniform": Uniform,
    "scorecard": Scorecard,
    "blind-spot": BlindSpot,
}


def fit_policy(name: str, dataset: Dataset, random_state: RandomState = None, **options: Any) -> Policy:
    """Fit the policy of that name in ``POLICIES`` on a data set; a blind spot takes the data's own region if it has one.

    Examples
    --------
    >>> from observal_research.datasets import make_linear
    >>> fit_policy("identical", make_linear(100, random_state=0), propensity=0.1)
    Identical(propensity=0.1)
    """
    if name not in POLICIES:
        raise InvalidInput(f"There is no logging policy {name!r}, the policies are {list(POLICIES)}; name one of them.")
    if name == "blind-spot" and dataset.region is not None:
        return BlindSpot(dataset.region, **options)
    policy: Policy = POLICIES[name].fit(dataset.X, dataset.y, random_state, **options)
    return policy


def check_chances(policy: object, *chances: float) -> None:
    """Raise an error for chances outside [0, 1]."""
    for chance in chances:
        check_number(chance, f"A chance of {type(policy).__name__}", 0.0, 1.0, error=InvalidPropensity)


def check_plane(policy: Certainty | Uncertainty) -> None:
    """Check plane, scale and floor; keep the normal as a tuple of floats."""
    check_chances(policy, policy.propensity_floor)
    name = type(policy).__name__
    check_number(policy.scale, f"The scale of {name}", 0.0, infinite=True)
    check_features([[*policy.normal, policy.offset]], f"The normal and the offset of {name}")
    keep(policy, normal=tuple(float(value) for value in policy.normal))
    if not policy.normal:
        raise InvalidInput(f"{name} needs a number for each feature as its normal, but got none; give them.")


def plane_words(policy: Certainty | Uncertainty) -> str:
    """Return the policy in one short line."""
    return (
        f"{type(policy).__name__}({len(policy.normal)} features, scale={policy.scale:.4g}, "
        f"offset={policy.offset:.4g}, propensity_floor={policy.propensity_floor:g})"
    )
