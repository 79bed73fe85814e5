"""The weights of given labels, over all samples of a small design: each is 1 for a given label, 1/P for a bought one, and nothing is biased."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import observal as ob
from observal.intervals.state import PoolState
from observal.paper.weights import importance
from observal.problem.given import arrange
from observal.problem.goals import Goals
from observal.problem.problem import Problem

# Rows 0 to 5: their labels, and what somebody says of them. Given are labels of which one is a mistake and one is not.
LABELS = np.array([0, 1, 1, 0, 1, 1])
SAID = np.array([1, 1, 0, 0, 0, 1])
WRONG = (SAID != LABELS).astype(float)
X = np.arange(6.0)[:, None]
ROUNDS = np.array([[0.5, 0.1, 0.3, 0.7, 0.2, 0.4], [0.25, 0.6, 0.1, 0.3, 0.5, 0.2]])
"""With which probability two rounds choose each row that can be asked about and was not chosen before."""


def table_with_labels(rows, given):
    return ob.LoggedData(X[rows], np.where(np.isin(rows, given), LABELS[rows], np.nan), ids=rows, classes=(0, 1))


def part(*rows):
    return np.array(rows)


CASES = {
    "one table": (part(0, 1, 2, 3, 4, 5), None, None, "table", part(0, 1, 2, 3, 4, 5)),
    "the pool": (part(0, 1, 2), part(3, 4, 5), None, "pool", part(3, 4, 5)),
    "both": (part(0, 1, 2), part(3, 4, 5), "both", "both", part(0, 1, 2, 3, 4, 5)),
    "both, of which two rows are the same": (part(0, 1, 2), part(0, 2, 3, 4), "both", "both", part(0, 1, 2, 3, 4)),
    "the pool has all rows of the log": (part(0, 1), part(5, 4, 3, 2, 1, 0), None, "table", part(0, 1, 2, 3, 4, 5)),
}
"""Rows of log and pool, what the user says the error is about, what it is about, and its rows."""


def samples(n_rows, chances):
    """Yield each sample of two rounds as a mask, with its probability."""
    for first in product([False, True], repeat=n_rows):
        for second in product([False, True], repeat=n_rows):
            one, two = np.array(first), np.array(second)
            if not (one & two).any():
                chance = np.where(one, chances[0], (1 - chances[0]) * np.where(two, chances[1], 1 - chances[1]))
                yield one | two, float(chance.prod())


@pytest.mark.parametrize("case", CASES)
def test_errors_from_given_and_bought_labels_are_unbiased(case):
    log, pool, said, about, population = CASES[case]
    given = np.array([0, 1])
    arranged = arrange(table_with_labels(log, given), None if pool is None else ob.Pool(X[pool], ids=pool), said)
    problem = Problem(arranged.logged, arranged.pool, goals=Goals(arranged.population))
    assert arranged.population == about
    counted = problem.counts(np.arange(problem.n_rows))
    n_counted = int(counted.sum())
    assert n_counted == population.size == problem.goals.count_rows(problem.n_logged, len(problem.pool))
    of_row = np.concatenate([problem.logged.ids, problem.pool.ids])
    assert sorted(of_row[counted].tolist()) == sorted(population.tolist())
    chances = ROUNDS[:, problem.pool.ids]
    chosen = np.concatenate([np.zeros(problem.n_logged), 1 - (1 - chances).prod(axis=0)])  # by some round
    weights = importance(problem.propensity, n_counted, online_mass=n_counted * chosen)
    assert weights[: problem.n_logged].tolist() == [1.0, 1.0]
    mean, total = 0.0, 0.0
    for bought, chance in samples(len(problem.pool), chances):
        asked = np.flatnonzero(bought)
        rows, codes = problem.labelled(asked, LABELS[problem.pool.ids[asked]])
        wrong = (SAID[of_row[rows]] != codes) * counted[rows]
        mean += chance * float(weights[rows] @ wrong) / n_counted
        total += chance
    assert total == pytest.approx(1.0)
    assert mean == pytest.approx(WRONG[population].mean(), rel=1e-12)


@pytest.mark.parametrize("n_given", [2, 10, 90, 98])
def test_given_label_stands_for_its_own_row_in_the_fit(n_given):
    given = ob.LoggedData(np.arange(100.0)[:, None], np.where(np.arange(100) < n_given, 1.0, np.nan), classes=(0, 1))
    problem = Problem(*arrange(given, None)[:2], goals=Goals("table"))
    state = PoolState.start(problem, lambda _: None)
    bought = np.append(np.arange(n_given), n_given)  # one more
    assert state.strata.importance(bought, 100).tolist()[:-1] == [1.0] * n_given
