from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from observal.methods import ExactDBAL
from observal.paper.hypotheses import FiniteClass
from observal_research.ablation import VARIANTS, ablate, exact_errors, to_dicts, trial
from observal_research.trials import run_all

NAMES = list(VARIANTS)
FULL, NO_CLIP, NO_REGULARISER, NO_CORRECTION, NO_MIXTURE, NO_DISAGREEMENT, NOTHING = range(7)


def chance_if_equal(more, less):
    """Return the chance of so many trials in which `more` is the larger, were each as likely the one way as the other.

    This is the sign test: equal trials are left out, and nothing is assumed of the distribution.
    """
    difference = more - less
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    return stats.binom.sf(wins - 1, wins + losses, 0.5)


def test_sign_test_by_hand():
    assert chance_if_equal(np.array([1, 1, 1, 0]), np.zeros(4)) == pytest.approx(1 / 8)
    assert chance_if_equal(np.zeros(4), np.array([1, 1, 1, 0])) == pytest.approx(1.0)
    assert chance_if_equal(np.zeros(4), np.zeros(4)) == pytest.approx(1.0)


def test_every_part_matters_on_this_distribution():
    """Fixed seeds, and the same draws for every variant, so that differences are paired.

    By the sign test, a part without effect would pass with probability below 1e-4, so any of the five with probability
    below 5e-4. The ratios of mean labels leave room below what was measured, 1.5, 2.5, 3.0 and 6.1 times.
    """
    counts = [40] * len(VARIANTS)
    counts[NO_CORRECTION] = counts[NO_MIXTURE] = 60  # their errors are equal in half of the trials
    counts[NOTHING] = 5
    methods = [ExactDBAL(FiniteClass([[1]]), gamma=0.1, **switches) for switches in VARIANTS.values()]
    arguments = [(methods[i], seed) for i, count in enumerate(counts) for seed in range(count)]
    outcomes = np.split(np.array(run_all(trial, arguments, jobs=1)), np.cumsum(counts)[:-1])
    labels, excess = ([values[:, column] for values in outcomes] for column in (0, 1))
    for without, times in ((NO_CLIP, 1.2), (NO_REGULARISER, 1.5), (NO_CORRECTION, 1.5), (NO_DISAGREEMENT, 3.0)):
        assert chance_if_equal(labels[without][:40], labels[FULL]) < 1e-4, NAMES[without]
        assert labels[without][:40].mean() > times * labels[FULL].mean(), NAMES[without]
    assert (labels[NOTHING] == 1000).all()
    assert chance_if_equal(excess[NO_MIXTURE], excess[NO_CORRECTION]) < 1e-4
    assert excess[NO_MIXTURE].mean() > excess[NO_CORRECTION].mean()


def test_table_is_the_mean_over_the_trials():
    rows = ablate(trials=2, random_state=5, jobs=1)
    assert [row.variant for row in rows] == NAMES
    for row, switches in zip(rows, VARIANTS.values(), strict=True):
        method = ExactDBAL(FiniteClass([[1]]), gamma=0.1, **switches)
        labels, excess = np.array([trial(method, seed) for seed in (5, 6)]).T
        assert row.labels == labels.mean()
        assert row.labels_se == pytest.approx(abs(labels[0] - labels[1]) / 2)
        assert row.excess_error == pytest.approx(excess.mean())
    assert {"variant", "labels", "excess_error"} <= to_dicts(rows)[0].keys()


def test_best_classifier_has_the_true_cuts():
    errors = exact_errors()
    best = int(np.argmin(errors))
    from observal_research.ablation import CUTS

    assert CUTS[best].tolist() == [0.25, 0.75]


def test_trial_depends_on_its_seed_alone():
    method = ExactDBAL(FiniteClass([[1]]), gamma=0.1)
    assert trial(method, 3) == trial(method, 3)
    assert run_all(trial, [(method, s) for s in range(3)], jobs=2) == [trial(method, s) for s in range(3)]


def test_progress_is_told():
    seen = []
    run_all(pow, [(2, 2), (3, 3)], jobs=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
