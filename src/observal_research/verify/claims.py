"""Claims, how their trials are run, and their outcomes.

A claim's check gets a ``Lab``, simulates with it, and returns an ``Outcome``. Trials run in blocks of fixed size, each
with its own seed, so results depend on `trials` and `random_state` and not on the number of processes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

BLOCK = 50  # trials per block
LEVEL = 1e-4  # chance that a statistical check fails although the claim holds

# Names had this prefix when the numbers in docs/verification.md were measured; another one would change all of them.
SEED_PREFIX = "observal.experiments.verify"

Results = dict[str, NDArray[Any]]
Simulation = Callable[[np.random.Generator, int], Results]


@dataclass(frozen=True)
class Outcome:
    """What was promised and what was measured.

    Parameters
    ----------
    claim : str
        The claim's name.
    promised, measured : str
        Text for a table.
    trials : int
        The number of Monte Carlo trials; 0 if the check is an exact computation.
    passed : bool
        Whether the claim holds.
    error_rate : float
        The chance, at most, that the check fails although library and claim are right; 0 for exact checks.
    detail : str
        How it was tested, and further numbers.
    """

    claim: str
    promised: str
    measured: str
    trials: int
    passed: bool
    error_rate: float
    detail: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper that can be checked by running it.

    Parameters
    ----------
    name : str
        A short name, for ``--only``.
    statement : str
        One sentence.
    source : str
        Where it is in the paper.
    check : callable
        Takes a ``Lab`` and returns an ``Outcome``.
    """

    name: str
    statement: str
    source: str
    check: Callable[[Lab], Outcome] = field(repr=False)


@dataclass
class Lab:
    """Runs the trials of one claim.

    Parameters
    ----------
    claim : str
        The claim's name.
    trials, random_state, jobs : int
        The number of trials, the seed, and the number of processes.
    tell : callable, optional
        Called with (blocks done, number of blocks).
    cache : dict
        Simulations that other claims have already run.
    """

    claim: str
    trials: int
    random_state: int
    jobs: int = 1
    tell: Callable[[int, int], None] | None = None
    cache: dict[tuple[str, int], Results] = field(default_factory=dict, repr=False)

    def simulate(self, simulation: Simulation, trials: int | None = None, name: str | None = None) -> Results:
        """Run ``simulation(rng, count)`` in blocks and return its arrays, joined along their first axis.

        The seed depends on the simulation's name, its module and function by default, so claims can share a simulation and
        each can be run alone.
        """
        total = self.trials if trials is None else trials
        key = (name or f"{simulation.__module__.rpartition('.')[2]}.{simulation.__name__}", total)
        if key not in self.cache:
            sizes = [min(BLOCK, total - start) for start in range(0, total, BLOCK)]
            seed = zlib.crc32(f"{SEED_PREFIX}.{key[0]}".encode())
            seeds = np.random.SeedSequence([self.random_state, seed]).spawn(len(sizes))
            parts: list[Results] = []
            for part in self._blocks(simulation, list(zip(seeds, sizes, strict=True))):
                parts.append(part)
                if self.tell is not None:
                    self.tell(len(parts), len(sizes))
            self.cache[key] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return self.cache[key]

    def rng(self, what: str) -> np.random.Generator:
        """Return a generator for something outside the trials."""
        return np.random.default_rng([self.random_state, zlib.crc32(what.encode())])

    def outcome(
        self, promised: str, measured: str, *, trials: int, passed: bool, error_rate: float, detail: str
    ) -> Outcome:
        """Return the outcome of this claim."""
        return Outcome(self.claim, promised, measured, trials, bool(passed), error_rate, detail)

    def _blocks(self, simulation: Simulation, work: list[tuple[np.random.SeedSequence, int]]) -> Any:
        if self.jobs == 1 or len(work) == 1:
            return (run_block(simulation, seed, size) for seed, size in work)
        from joblib import Parallel, delayed

        return Parallel(n_jobs=self.jobs, return_as="generator")(
            delayed(run_block)(simulation, seed, size) for seed, size in work
        )


def run_block(simulation: Simulation, seed: np.random.SeedSequence, size: int) -> Results:
    """Run one block of trials."""
    return simulation(np.random.default_rng(seed), size)


def at_least(hits: int, trials: int, probability: float, level: float = LEVEL) -> bool:
    """Return whether `hits` of `trials` is consistent with a chance of at least `probability`; exact binomial test.

    If the chance is that high, the test returns False with probability at most `level`.

    Examples
    --------
    >>> at_least(1890, 2000, 0.95), at_least(1840, 2000, 0.95)
    (True, False)
    """
    return bool(binom.cdf(hits, trials, probability) >= level)


def at_most(hits: int, trials: int, probability: float, level: float = LEVEL) -> bool:
    """Return whether `hits` of `trials` is consistent with a chance of at most `probability`; exact binomial test."""
    return bool(binom.sf(hits - 1, trials, probability) >= level)


def mean_tolerance(variance: float, largest: float, terms: int, level: float = LEVEL) -> float:
    """Return how far a mean of independent terms may be from its expectation, by Bernstein's inequality.

    Parameters
    ----------
    variance : float
        The average variance of the terms.
    largest : float
        The largest distance of a term from its expectation.
    terms : int
        The number of terms.
    level : float
        The chance of a larger distance.
    """
    log = np.log(2.0 / level)
    return float(
        largest * log / (3.0 * terms) + np.sqrt((largest * log / (3.0 * terms)) ** 2 + 2.0 * variance * log / terms)
    )


def share(hits: int, trials: int) -> str:
    """Return a count as a percentage and a fraction."""
    return f"{100.0 * hits / trials:.2f} % ({hits}/{trials})" if trials else "none"
