from __future__ import annotations

import numpy as np

from observal.experiments.ablation import VARIANTS, ablate, exact_errors, to_dicts, trial
from observal.experiments.trials import run_all
from observal.hypotheses import FiniteClass
from observal.methods import ExactDBAL


def test_every_part_matters_on_this_distribution():
    """Labels differ by tens of standard errors at this size; a wrong order by chance is far below one in a thousand."""
    rows = {row.variant: row for row in ablate(trials=40, jobs=2)}
    full = rows["all parts"]
    for variant in ("without the regulariser", "without bias correction"):
        assert rows[variant].labels > 1.5 * full.labels
    assert rows["without clipping"].labels > full.labels
    assert rows[list(VARIANTS)[5]].labels > 3 * full.labels
    assert rows["none of them"].labels == 1000
    mixed, plain = rows["without bias correction"], rows["without bias correction and multiple importance"]
    assert plain.excess_error > mixed.excess_error - 2 * mixed.excess_error_se
    assert {"variant", "labels", "excess_error"} <= to_dicts(list(rows.values()))[0].keys()


def test_the_best_classifier_has_the_true_cuts():
    errors = exact_errors()
    best = int(np.argmin(errors))
    from observal.experiments.ablation import CUTS

    assert CUTS[best].tolist() == [0.25, 0.75]


def test_a_trial_depends_on_its_seed_alone():
    method = ExactDBAL(FiniteClass([[1]]), gamma=0.1)
    assert trial(method, 3) == trial(method, 3)
    assert run_all(trial, [(method, s) for s in range(3)], jobs=2) == [trial(method, s) for s in range(3)]


def test_progress_is_told():
    seen = []
    run_all(pow, [(2, 2), (3, 3)], jobs=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
