"""Where labels are that stand for their own rows only: the regions in which hardly anybody has one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from observal.diagnosis.feature_values import MAX_ROWS, sample_rows
from observal.diagnosis.overlap import MAX_REGIONS, Condition, find_rules, is_inside
from observal.problem.problem import Problem
from observal.problem.words import count, percent

ENOUGH_LABELS = 20
THIN = 0.1  # labels per row of a region in which hardly anybody has one, as a share of those of all rows
BY_CHANCE = (
    1e-7  # such a region had so few labels less often than this if rows were labelled at random; the tree tries many
)


@dataclass(frozen=True)
class ThinRegion:
    """A part of the population in which hardly anybody has a label: its share, and the labels of such rows."""

    conditions: tuple[Condition, ...]
    share: float
    labels: int
    of: str

    def words(self) -> str:
        """Return the region and its numbers.

        Examples
        --------
        >>> ThinRegion((Condition("score", 0, high=0.62),), 0.6, 0, "rows").words()
        'Nobody has a label where score ≤ 0.62: 60% of the rows. That looks like a rule.'
        >>> ThinRegion((Condition("score", 0, high=0.62),), 0.6, 19, "pool").words()
        'Hardly anybody has a label where score ≤ 0.62: 19 labels for 60% of the pool.'
        """
        where, share = " and ".join(condition.words() for condition in self.conditions), percent(self.share)
        if self.labels:
            return (
                f"Hardly anybody has a label where {where}: {count(self.labels, 'label')} for {share} of the {self.of}."
            )
        return f"Nobody has a label where {where}: {share} of the {self.of}. That looks like a rule."


@dataclass(frozen=True)
class GivenCoverage:
    """Where labels are.

    Parameters
    ----------
    regions : tuple of ThinRegion
        Where hardly anybody has a label, largest first; from a decision tree of depth at most 3.
    few_share : float
        The share of the population in regions with fewer than 20 labels.
    of : str
        What shares are of: "rows" or "pool".
    """

    regions: tuple[ThinRegion, ...]
    few_share: float
    of: str

    def sentences(self) -> tuple[str, ...]:
        """Return the finding in words."""
        sentences = [region.words() for region in self.regions[:MAX_REGIONS]]
        if self.few_share > 0.0:
            sentences.append(
                f"{percent(self.few_share)} of the {self.of} are where fewer than {ENOUGH_LABELS} labels are."
            )
        return tuple(sentences) or ("No simple rule on the features tells which rows have a label.",)


def find_given_coverage(
    problem: Problem,
    population: str,
    names: Sequence[str],
    rng: np.random.Generator,
    dates: Collection[str] = (),
    percents: Collection[str] = (),
) -> GivenCoverage:
    """Return where hardly any of the labels are; shares are of the population, for which see ``observal.problem.given``.

    The tree that tells rows with a label from those without is grown on at most 20,000 of each, and its leaves are counted on all.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> score = np.linspace(0, 1, 500)[:, None]
    >>> problem = ob.Problem(ob.LoggedData(score[300:], score[300:, 0] > 0.8), ob.Pool(score[:300]))
    >>> find_given_coverage(problem, "table", ["score"], np.random.default_rng(0)).regions[0].words()
    'Nobody has a label where score ≤ 0.6: 60% of the rows. That looks like a rule.'
    """
    from scipy.special import pdtr

    n_labels = problem.n_logged
    of_log, of_pool = (sample_rows(size, MAX_ROWS, rng) for size in (n_labels, len(problem.pool)))
    X, is_open = problem.take(problem.positions(of_log, of_pool)), np.arange(of_log.size + of_pool.size) >= of_log.size
    regions, of = [], "pool" if population == "pool" else "rows"
    for conditions in find_rules(X, is_open, names, dates, percents, lambda _: True, balanced=True):
        labelled, others = (
            int(np.count_nonzero(is_inside(rows, conditions))) for rows in (problem.logged.rows, problem.pool.rows)
        )
        n_inside, n_rows = (others, len(problem.pool)) if of == "pool" else (labelled + others, problem.n_rows)
        promised = n_labels * n_inside / n_rows
        if pdtr(labelled, promised) < BY_CHANCE and labelled < max(ENOUGH_LABELS, THIN * promised):
            regions.append(ThinRegion(conditions, n_inside / n_rows, labelled, of))
    regions.sort(key=lambda region: -region.share)
    few = sum(region.share for region in regions if region.labels < ENOUGH_LABELS)
    return GivenCoverage(tuple(regions), 1.0 if n_labels < ENOUGH_LABELS else few, of)
