"""Finite distributions on which every expectation is a sum, and samples of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from observal.checks import Bools, Floats, Ints, Signs
from observal.methods import ExactDBAL
from observal.paper.hypotheses import FiniteClass
from observal.paper.weights import importance, online_mass, query_policy
from observal.problem.data import LoggedData, Pool
from observal.problem.plan import Answers, Stop
from observal.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Distribution:
    """A distribution of (X, Y) on points, a logging policy, and a class.

    Parameters
    ----------
    mass, propensity, positive : arrays of shape (points,)
        P(x), Q0(x) and P(Y = +1 | x).
    signs : array of shape (classifiers, points)
        Predictions, −1 or +1.
    """

    mass: Floats
    propensity: Floats
    positive: Floats
    signs: Signs

    @cached_property
    def wrong(self) -> Floats:
        """P(h(X) ≠ Y | x), classifiers × points."""
        return np.where(self.signs > 0, 1.0 - self.positive, self.positive)

    @cached_property
    def errors(self) -> Floats:
        """The error l(h) of each classifier."""
        return self.wrong @ self.mass

    @property
    def best(self) -> int:
        """h*: the classifier of least error."""
        return int(np.argmin(self.errors))

    @property
    def noise(self) -> float:
        """ν = l(h*)."""
        return float(self.errors.min())

    def moments(self, weight: Floats, clip: float) -> Floats:
        """V(h; k, M) of each classifier, for the weights w_k of the points."""
        clipped = np.where(weight <= clip, weight, 0.0)
        return self.wrong @ (self.mass * clipped)

    def pair_moments(self, weight: Floats, clip: float) -> Floats:
        """V(h1, h2; k, M) of each pair."""
        clipped = self.mass * np.where(weight <= clip, weight, 0.0)
        differ = self.signs[:, None, :] != self.signs[None, :, :]
        return np.asarray(differ @ clipped)

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Ints, Signs]:
        """Return points and labels of `size` rows."""
        points = rng.choice(self.mass.size, size=size, p=self.mass)
        labels = np.where(rng.random(size) < self.positive[points], 1, -1).astype(np.int8)
        return points, labels

    def sample(self, rng: np.random.Generator, n_logged: int, epochs: Sequence[int]) -> tuple[Ints, Signs, Floats]:
        """Return S_k: points, labels (0 where hidden) and MIS weights of log and epochs, all labels real."""
        points, labels = self.draw(rng, n_logged + sum(epochs))
        chance = self.propensity[points]
        revealed = np.empty(points.size, dtype=bool)
        revealed[:n_logged] = rng.random(n_logged) < chance[:n_logged]
        start = n_logged
        for size, n_online in zip(epochs, np.cumsum(epochs).tolist(), strict=True):
            revealed[start : start + size] = query_policy(chance[start : start + size], n_logged, n_online)
            start += size
        return points, np.where(revealed, labels, 0).astype(np.int8), self.weights(n_logged, epochs)[points]

    def weights(self, n_logged: int, epochs: Sequence[int]) -> Floats:
        """Return w_k of each point for the bias-correcting policy."""
        mass = online_mass(self.propensity, n_logged, epochs)
        return importance(self.propensity, n_logged, sum(epochs), mass)

    def trial(self, rng: np.random.Generator, n_logged: int, n_online: int) -> Trial:
        """Return a fresh log and pool, with the labels an oracle would give."""
        points, labels = self.draw(rng, n_logged + n_online)
        revealed = rng.random(n_logged) < self.propensity[points[:n_logged]]
        logged = LoggedData(
            points[:n_logged, None].astype(np.float64),
            np.where(revealed, labels[:n_logged], np.nan),
            self.propensity[points[:n_logged]],
            classes=(-1, 1),
        )
        pool = Pool(points[n_logged:, None].astype(np.float64), self.propensity[points[n_logged:]])
        return Trial(self, Problem(logged, pool), points, labels, revealed)


@dataclass(frozen=True, eq=False)
class Trial:
    """A log and a pool drawn from a distribution; `labels` are the real ones of all rows, the log's first."""

    distribution: Distribution
    problem: Problem
    points: Ints
    labels: Signs
    revealed: Bools

    @property
    def n_logged(self) -> int:
        """All logged rows."""
        return len(self.problem.logged)

    def states(self, **options: Any) -> Iterator[Any]:
        """Run the real ExactDBAL with the distribution's class and Q0; yield its state after each epoch.

        ``state.candidates`` is C_k, ``state.kept`` marks its members in C_{k+1}.
        """
        distribution, pool_labels = self.distribution, self.labels[self.n_logged :]
        method = ExactDBAL(
            FiniteClass(distribution.signs[:, self.points]),
            propensity_distribution=(distribution.propensity, distribution.mass),
            **options,
        )
        rng = np.random.default_rng(0)  # Algorithm 1 uses no random numbers of its own
        state = method.begin(self.problem, rng)
        yield state
        while not isinstance(plan := method.plan(self.problem, state, rng), Stop):
            codes = (pool_labels[plan.asked].astype(np.int64) + 1) // 2
            answers = Answers(codes, np.ones(codes.size, dtype=bool))
            state = method.advance(self.problem, state, plan, answers, rng)
            yield state
