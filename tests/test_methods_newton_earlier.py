"""NewtonVC returns an earlier round's classifier where labels made it worse, and says so everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import observal as ob
from observal.intervals.cells import Cells
from observal.journal.replay import Replay
from observal.methods.newton import earlier_scores, paired_difference
from observal.report import sections
from observal.report.content import ReportContent
from observal_research.ablated_newton import AblatedNewtonVC
from observal_research.verify.worlds import far_island, make_world, well_specified

METHOD = ob.NewtonVC(batch=100)


def spent(kind, rows, labels):
    world = make_world(kind, np.random.default_rng(0), rows=rows)
    session = ob.Session(world.logged, world.pool, METHOD, labels, tolerance=None, looks="once")
    while (query := session.ask()) is not None:
        session.tell(query.ids, world.oracle(query.ids))
    return world, session


@pytest.fixture(scope="module")
def hurt():
    return spent(far_island, 2000, 600)


def test_harmful_labels_return_the_log_classifier(hurt):
    world, session = hurt
    plain = Replay(session.problem, AblatedNewtonVC(batch=100, return_earlier=False), 0)
    plain.follow(session.plans, {int(row): int(world.oracle([row])[0]) for plan in session.plans for row in plan.asked})
    last = plain.closed
    estimators = session.estimator, plain.estimator(last)
    errors = [1 - one.score(world.X_test, world.y_test) for one in estimators]
    assert errors[1] > errors[0] + 0.02
    result = session.result()
    returned = result.returned_round
    assert returned == session.returned_round == result.rounds[-1].details["returned_round"]
    assert returned is not None
    assert plain.returned_round(last) is None
    assert (result.estimator.coef_ == plain.estimator(returned).coef_).all()
    low, high = result.error_interval.low, result.error_interval.high
    assert low < errors[0] < high < errors[1]  # the interval is about the classifier that is returned
    assert f"of the classifier of round {returned}" in result.error_interval.method
    content = ReportContent("Hurt", world.logged, world.pool, result)
    assert f"The classifier is that of round {returned}" in " ".join(sections.headline(content))


def test_comparison_is_out_of_fold(hurt):
    engine = hurt[1].engine
    with engine.reading() as transaction:
        replay = engine.replay(transaction)
    problem, states = replay.problem, replay.states
    first, last = states[0], states[-1]
    rows, codes = last.labelled(problem)
    scores, _ = earlier_scores(problem, first, last)
    known = first.labelled(problem)[0]
    place = {row: k for k, row in enumerate(rows.tolist())}
    inside = [place[row] for row in known.tolist()]
    assert scores[inside].tolist() == first.model.left_out_scores.tolist()
    others = np.setdiff1d(np.arange(rows.size), inside)
    assert scores[others].tolist() == first.model.scores_of(rows[others])[0].tolist()
    judged = METHOD.judged(problem, last)
    assert (judged[2] == earlier_scores(problem, last.model.returned, last)[1]).all()
    assert codes.tolist() == judged[1].tolist()


def test_ordinary_world_keeps_last_classifier():
    _, session = spent(well_specified, 500, 200)
    assert session.returned_round is None
    assert "returned_round" not in session.rounds[-1].details


def test_paired_difference_matches_slow_twin():
    rng = np.random.default_rng(0)
    cell, different = rng.integers(-1, 3, 40), rng.integers(-1, 2, 40).astype(float)
    cells = Cells(rng.dirichlet(np.ones(3)), cell, rng.uniform(1, 2, 40), 0.0, 500)
    rows = [(w, c, d) for w, c, d in zip(cells.row_weight, cell, different, strict=True) if c >= 0]
    assert sum(w for w, _, _ in rows) == pytest.approx(1.0)
    more, variance = sum(w * d for w, _, d in rows), 0.0
    for one in range(3):
        here = [(w, d) for w, c, d in rows if c == one]
        mean = sum(w * d for w, d in here) / sum(w for w, _ in here)
        variance += sum(w * w * (d - mean) ** 2 for w, d in here) * len(here) / (len(here) - 1)
        variance += sum(w for w, _ in here) * (mean - more) ** 2 / 500
    np.testing.assert_allclose(paired_difference(cells, different), (more, 1.1 * variance**0.5))
