"""NewtonVC on a pool: the flip gap, what is chosen from the labels, and when a fit is made."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.stats import norm
from threadpoolctl import threadpool_limits

import observal as ob
from observal.errors import InvalidInput
from observal.intervals.state import BLIND, FREE, GATED
from observal.learners.newton_fit import make_objective, solve
from observal.learners.tuned_logistic import fit_logistic, leverages, near_boundary
from observal.methods import newton as newton_module
from observal.methods.newton import NewtonVC
from observal.problem.plan import Answers
from observal.problem.problem import Problem
from observal_research.ablated_newton import AblatedNewtonVC
from tests.pool_worlds import World, check_intervals, one_class
from tests.reference import newton as twin

FAST = NewtonVC(ridge=1e-2, tempering=0.5)
PARTS = AblatedNewtonVC(ridge=1e-2, tempering=0.5)  # the same, and its fixed parts can be changed


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small fits on many threads wait for each other on a busy machine."""
    with threadpool_limits(1):
        yield


def play(method, world, rounds, seed=0, skip=lambda positions: np.zeros(positions.size, dtype=bool)):
    """The states of a run, round 0 first."""
    problem = Problem(world.logged, world.pool)
    states = [method.begin(problem, np.random.default_rng(0))]
    for k in range(rounds):
        plan = method.plan(problem, states[-1], np.random.default_rng([seed, k]))
        answers = Answers(world.pool_y[plan.asked], ~skip(plan.asked))
        states.append(method.advance(problem, states[-1], plan, answers, np.random.default_rng(99)))
    return problem, states


# -- the gap


def least_increase(objective, fit, x):
    """How much an objective must rise so that the sign at x changes: its minimum where θ·(x, 1) = 0, found by search."""
    on_the_line = null_space(np.append(x, 1.0)[None, :])
    theta = np.append(fit.coef, fit.intercept)
    found = minimize(lambda v: objective.value(on_the_line @ v), on_the_line.T @ theta, tol=1e-12)
    return float(found.fun) - fit.objective


def test_flip_gap_of_quadratic_is_least_increase_that_flips_sign():
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((40, 3)), rng.uniform(0.5, 3.0, 40)
    signs = np.where(X[:, 0] + 0.5 * rng.standard_normal(40) > 0, 1, -1)
    objective = make_objective(X, signs, weights, loss="squared", regulariser=None, ridge=0.1)
    fit = solve(objective)
    margins = X @ fit.coef + fit.intercept
    gaps = margins**2 / (2 * leverages(X, fit.hessian))
    for row in range(8):
        assert gaps[row] == pytest.approx(least_increase(objective, fit, X[row]), rel=1e-4)


def test_small_flip_gaps_are_close_to_least_increase():
    world = World(m=300, n=100, noise=0.15)
    problem = Problem(world.logged, world.pool)
    state = replace(FAST, tempering=0.0).begin(problem, np.random.default_rng(0))
    model = state.model
    rows, codes = state.labelled(problem)
    everyone = model.feature_map(world.X)
    X = np.concatenate([everyone[rows], np.zeros((2, 3))])  # half a row of each class in the centre
    weights, signs = np.append(np.ones(rows.size), [0.5, 0.5]), np.append(2 * codes - 1, [-1, 1])
    objective = make_objective(X, signs, weights / weights.mean(), regulariser=None, ridge=FAST.ridge)
    fit = solve(objective)
    np.testing.assert_allclose(
        np.append(fit.coef, fit.intercept), [*model.query_fit.fit.coef, model.query_fit.fit.intercept], atol=1e-4
    )
    gaps = model.gaps(world.X)
    for row in np.argsort(gaps)[:10]:
        # What is left is the third order.
        increase = (rows.size + 1) * least_increase(objective, fit, everyone[row])
        assert gaps[row] == pytest.approx(increase, rel=0.05, abs=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_gaps_match_slow_twin(sparse, monkeypatch):
    monkeypatch.setattr("observal.problem.rows.BLOCK_ROWS", 7)  # blocks must not show
    rng = np.random.default_rng(1)
    world = World(m=60, n=40, sparse=sparse, cost=rng.uniform(0.1, 1.0, 100))
    problem, states = play(FAST, world, 2)
    model = states[-1].model
    weights = model.labels.weights(0.5)
    total = weights.sum() ** 2 / (weights**2).sum() + 1
    scaled = (world.X - model.feature_map.mean) / model.feature_map.scale
    expected = [
        total
        * (x @ model.query_fit.fit.coef + model.query_fit.fit.intercept) ** 2
        / (2 * twin.leverage(x, model.query_fit.fit.hessian))
        for x in scaled
    ]
    np.testing.assert_allclose(model.gaps(problem.logged.X), expected[:60], rtol=1e-8)
    np.testing.assert_allclose(model.pool_gaps, expected[60:], rtol=1e-8)


@pytest.mark.parametrize("sparse", [False, True])
def test_gap_without_label_is_one_newton_step(sparse):
    world = World(m=80, n=40, noise=0.2, sparse=sparse)
    _, states = play(FAST, world, 2)
    model = states[-1].model
    labels = model.labels
    X = (world.X[labels.rows] - model.feature_map.mean) / model.feature_map.scale
    theta, weights = np.append(model.query_fit.fit.coef, model.query_fit.fit.intercept), labels.weights(0.5)
    everyone = np.arange(120)
    found = model.unlabelled_gaps(everyone)
    expected = [
        twin.gap_without_row(i, theta, X, labels.signs, weights, 1e-2, model.query_fit.n_effective)
        for i in range(len(X))
    ]
    np.testing.assert_allclose(found[labels.rows], expected, rtol=1e-3, atol=1e-5)
    # Other rows keep their gaps, and any part of the rows gets what all of them get.
    others = np.setdiff1d(everyone, labels.rows)
    stack = world.X if not sparse else sp.csr_matrix(world.X)
    np.testing.assert_allclose(found[others], model.gaps(stack)[others])
    np.testing.assert_allclose(model.unlabelled_gaps(everyone[::3]), found[::3])


def test_gap_without_label_is_close_to_refit():
    world = World(m=150, n=30, noise=0.2)
    _, states = play(FAST, world, 1)
    model = states[-1].model
    labels, X = model.labels, model.labelled
    weights = labels.weights(0.5)
    found, true = model.unlabelled_gaps(labels.rows), np.empty(labels.rows.size)
    for row in range(labels.rows.size):
        left = np.arange(labels.rows.size) != row
        fit = fit_logistic(X[left], labels.signs[left], weights[left], 1e-2)
        margin = X[row] @ fit.coef + fit.intercept
        true[row] = model.query_fit.n_effective * margin**2 / (2 * twin.leverage(X[row], fit.hessian))
    forgotten, known = np.abs(found - true), np.abs(model.gaps(world.X)[labels.rows] - true)
    assert np.median(forgotten / true) < 0.05
    assert forgotten.sum() < 0.3 * known.sum()


def test_row_that_determines_fit_keeps_finite_gap():
    x = np.array([[0.0], [0.01], [0.02], [1e6]])
    logged = ob.LoggedData(x, [0, 0, 0, 1], 1.0)
    world = World(m=5, n=5, d=1)
    problem = Problem(logged, ob.Pool(world.X[:5], 1.0))
    model = NewtonVC(ridge=0.0, tempering=0.5).begin(problem, np.random.default_rng(0)).model
    assert np.isfinite(model.unlabelled_gaps(np.arange(9))).all()


def first_round(method, world):
    """The model of the log alone, and the plan made from it."""
    problem = Problem(world.logged, world.pool)
    state = method.begin(problem, np.random.default_rng(0))
    return state.model, method.plan(problem, state, np.random.default_rng(0))


@pytest.mark.parametrize("curvature", [True, False])
def test_round_takes_rows_in_order_of_gaps(curvature):
    world = World()
    model, plan = first_round(replace(PARTS, explore_share=0.0, gate_share=0.0, curvature=curvature), world)
    margins = np.abs(
        (world.X[200:] - model.feature_map.mean) / model.feature_map.scale @ model.query_fit.fit.coef
        + model.query_fit.fit.intercept
    )
    order = model.pool_gaps if curvature else margins
    asked = plan.asked[plan.reason == FREE]  # the others are picked where the log is blind
    assert 5 <= asked.size <= 10
    assert sorted(asked.tolist()) == sorted(np.argsort(order)[: asked.size].tolist())


@pytest.mark.parametrize("doubt", [0.001, 0.2, 0.499])
def test_gate_is_for_uncertain_rows(doubt):
    world = World()
    model, plan = first_round(replace(PARTS, explore_share=0.0, gate_share=1.0, doubt=doubt), world)
    chance = norm.cdf(-np.sqrt(2.0 * model.pool_gaps))
    hidden = world.q[200:] == 0.05
    gated = plan.asked[plan.reason == GATED]
    assert hidden[gated].all()
    assert (chance[gated] > doubt).all()
    blind = plan.asked[plan.reason == BLIND]  # hidden, too, but picked at random
    assert hidden[blind].all()
    assert 0 < blind.size <= 5
    assert gated.size == min(10 - blind.size, (hidden & (chance > doubt)).sum())
    assert plan.asked.size == 10


# -- what is returned


def slow_answer(model, world, rows, penalty=0.0):
    """The fit near the boundary on some of the labelled rows, and its weights, by the functions that are tied to twins."""
    X, signs = model.labelled[rows], model.labels.signs[rows]
    weights = model.labels.weights(0.5)[rows]
    everyone = sp.csr_array(world.X) if sp.issparse(model.labelled) else world.X
    first = fit_logistic(X, signs, weights, 1e-2, penalty)
    return near_boundary(first, X, signs, weights, 1e-2, penalty, population=model.feature_map(everyone))


@pytest.mark.parametrize("order", ["pool", "stream"])
def test_returned_fit_is_near_boundary_and_leaves_queries_unchanged(order):
    world = World(m=300, noise=0.2)
    method = replace(FAST, order=order, stop_below=0.0)
    (problem, with_), (_, without) = play(method, world, 3), play(replace(method, refit_near_boundary=False), world, 3)
    for one, other in zip(with_[1:], without[1:], strict=True):
        assert one.plan.positions.tolist() == other.plan.positions.tolist()
        assert one.plan.query_probability.tolist() == other.plan.query_probability.tolist()
    model = with_[-1].model
    assert without[-1].model.output_fit is without[-1].model.query_fit
    population = model.feature_map(world.X[:300] if order == "stream" else world.X)
    theta, weights = twin.near_boundary(model.labelled, model.labels.signs, model.labels.weights(0.5), 1e-2, population)
    estimator = method.describe(problem, with_[-1]).estimator
    np.testing.assert_allclose(np.append(estimator.coef_[0], estimator.intercept_), theta, atol=2e-3)
    np.testing.assert_allclose(model.output_fit.weights, weights, rtol=1e-3)
    assert not np.allclose(estimator.coef_[0], model.query_fit.fit.coef, rtol=1e-2)


@pytest.mark.parametrize("sparse", [False, True])
def test_returned_fit_uses_costs_and_penalty(sparse):
    world = World(m=300, noise=0.2, sparse=sparse, cost=np.random.default_rng(0).choice([0.05, 1.0], 450))
    problem, states = play(replace(PARTS, penalty=2.0), world, 1)
    model = states[-1].model
    fit, weights = slow_answer(model, world, np.arange(model.labels.rows.size), penalty=2.0)
    estimator = FAST.describe(problem, states[-1]).estimator
    np.testing.assert_allclose(estimator.coef_[0], fit.coef, atol=1e-4)
    np.testing.assert_allclose(model.output_fit.weights, weights, rtol=1e-3)


@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_intervals_are_about_returned_fit(penalty):
    world = World(m=300, noise=0.2)
    problem, states = play(replace(PARTS, stop_below=0.0, penalty=penalty), world, 3)
    model, estimator = states[-1].model, FAST.describe(problem, states[-1]).estimator

    def expected(fit, weights, X):
        margins = X @ fit.coef + fit.intercept
        total = weights.sum() ** 2 / (weights**2).sum() + 1
        return [
            m / np.sqrt(1 + np.pi / 8 * twin.leverage(x, fit.hessian) / total) for m, x in zip(margins, X, strict=True)
        ]

    scores, predicted = model.scores_of(np.arange(len(world.X)))
    assert predicted.tolist() == estimator.positive(world.X).astype(int).tolist()
    everyone = np.arange(model.labels.rows.size)
    mapped = model.feature_map(world.X)
    np.testing.assert_allclose(scores, expected(*slow_answer(model, world, everyone, penalty), mapped), rtol=1e-3)
    # A row left out has no say in its fit: neither in the first, nor in what counts as near.
    train, test = everyone[::2], everyone[1::2]
    scores, predicted = model.out_of_fold(train, test)
    slow = expected(*slow_answer(model, world, train, penalty), model.labelled[test])
    np.testing.assert_allclose(scores, slow, rtol=1e-3, atol=1e-5)
    assert predicted.tolist() == (scores > 0.0).astype(int).tolist()


def test_pool_of_one_row_works():
    world = World()
    pool = ob.Pool(world.X[200:201], world.q[200:201])
    result = ob.run(world.logged, pool, world.oracle, replace(FAST, stop_below=0.0))
    check_intervals(result)
    assert len(result.queries) == 1
    assert result.estimator.score(world.X, world.y) > 0.8


def test_sample_of_rows_gives_typical_distance(monkeypatch):
    world = World(noise=0.2)
    _, states = play(FAST, world, 0)
    every = states[0].model.output_fit.fit
    monkeypatch.setattr(newton_module, "TYPICAL_ROWS", 175)  # every other row
    _, states = play(FAST, world, 0)
    some = states[0].model.output_fit.fit
    assert some.coef.tolist() != every.coef.tolist()
    np.testing.assert_allclose(some.coef, every.coef, rtol=0.1)


# -- what is chosen, and when


def test_settings_are_chosen_again_when_labels_grow_by_half():
    world = World(m=100, n=150)
    _, states = play(replace(FAST, stop_below=0.0), world, 12)
    anchor, expected = 0, [True]
    for state in states[1:]:
        anew = state.bought.size >= 10 and state.bought.size >= 1.5 * anchor
        anchor = state.bought.size if anew else anchor
        expected.append(anew)
    assert [state.fit.anchor is None for state in states] == expected
    assert expected[:9] == [True, True, True, True, False, True, False, False, True]
    for state in states:
        if state.fit.anchor is not None:
            assert state.model.choices == state.fit.anchor.model.choices


def test_skipped_rounds_keep_settings():
    world = World(m=100, n=60)
    _, states = play(FAST, world, 3, skip=lambda positions: np.ones(positions.size, dtype=bool))
    assert [state.fit.anchor is None for state in states] == [True, False, False, False]
    assert [state.fit.anchor for state in states[1:]] == [states[0]] * 3
    coefs = [state.model.query_fit.fit.coef.tolist() for state in states]
    assert coefs == [coefs[0]] * 4


def test_same_labels_give_same_model_whatever_the_generator():
    world = World(noise=0.2)
    method = NewtonVC(batch=20)
    problem, states = play(method, world, 2)
    again = method.begin(problem, np.random.default_rng(12345))
    for state in states[1:]:
        order = np.flatnonzero(state.plan.action == 0)
        answers = Answers(world.pool_y[state.plan.positions[order]], np.ones(order.size, dtype=bool))
        again = method.advance(problem, again, state.plan, answers, np.random.default_rng(54321))
    assert again.model.choices == states[-1].model.choices
    assert again.model.query_fit.fit.coef.tolist() == states[-1].model.query_fit.fit.coef.tolist()
    assert again.model.output_fit.fit.coef.tolist() == states[-1].model.output_fit.fit.coef.tolist()


def test_loaded_session_fits_only_what_is_read(tmp_path, monkeypatch):
    world = World()
    session = ob.Session(world.logged, world.pool, FAST, random_state=1)
    for _ in range(7):
        query = session.ask()
        session.tell(query.ids, world.oracle(query.ids))
    query = session.ask()
    session.tell(query.ids[:4], world.oracle(query.ids[:4]))
    session.save(tmp_path / "session")
    fits = []
    call = newton_module.NewtonFitter.__call__
    monkeypatch.setattr(
        newton_module.NewtonFitter, "__call__", lambda self, state: fits.append(state.rounds) or call(self, state)
    )
    loaded = ob.Session.load(tmp_path / "session")
    assert loaded.labels == 74
    assert loaded.ask().ids.tolist() == session.ask().ids.tolist()
    assert fits == []  # the open round was planned before
    query = loaded.ask()
    loaded.tell(query.ids, world.oracle(query.ids))
    session.tell(query.ids, world.oracle(query.ids))
    assert loaded.ask().ids.tolist() == session.ask().ids.tolist()
    loaded_fits = [round_ for round_ in fits if round_ != 8]
    assert loaded_fits == []  # 80 labels are half as many again as 50, so that round 8 needs no earlier one
    assert len(loaded.rounds) == 9
    assert sorted(set(fits)) == list(range(9))


def test_full_weights_are_used_only_where_labels_show_bias():
    calm = ob.Session(World(noise=0.0).logged, World().pool, NewtonVC(ridge=1e-2)).rounds[0]
    assert calm.details["tempering"] == 0.5
    # The log hides where the trend turns round: tempered weights predict the rows behind the few shown ones badly.
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 6000)
    hidden = x > 0.0
    y = np.where(hidden, x > 0.5, x < -0.5).astype(float)
    q = np.where(hidden, 0.05, 1.0)
    shown = rng.random(6000) < q
    logged = ob.LoggedData(x[:, None], np.where(shown, y, np.nan), q)
    bent = ob.Session(
        logged, ob.Pool(x[:50, None], q[:50]), replace(PARTS, tempering="auto", clip_constant=None)
    ).rounds[0]
    assert bent.details["tempering"] == 1.0


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (np.zeros((4, 1)), "must have 3 features as in training, but have 1"),
        (np.zeros((4, 2)), "must have 3 features as in training, but have 2"),
        (np.zeros(3), "must have two dimensions"),
        (np.full((2, 3), np.nan), "not finite|NaN"),
    ],
)
def test_classifier_refuses_rows_of_other_shape(rows, match):
    world = World()
    estimator = ob.Session(world.logged, world.pool, FAST).result().estimator
    assert estimator.coef_.shape == (1, 3)
    for predict in (estimator.predict, estimator.predict_proba, estimator.decision_function):
        with pytest.raises(InvalidInput, match=match):
            predict(rows)


def test_all_zero_weights_are_accepted():
    world = World(m=60, n=20, cost=np.zeros(80))
    result = ob.run(world.logged, world.pool, world.oracle, NewtonVC(), label_budget=10)
    check_intervals(result)
    assert len(result.queries) == 10


# -- in a session


def test_sparse_rows_run():
    world = World(sparse=True, d=6)
    result = ob.run(world.logged, world.pool, world.oracle, NewtonVC(), label_budget=20)
    check_intervals(result)
    assert result.estimator.score(sp.csr_matrix(world.X), world.y) > 0.85
    dense = result.estimator.decision_function(world.X)
    np.testing.assert_allclose(result.estimator.decision_function(sp.csr_matrix(world.X)), dense)


def test_settled_data_stop_the_run_with_reason():
    rng = np.random.default_rng(0)
    side = rng.choice([-1.0, 1.0], 600)
    X = np.column_stack([side * rng.uniform(2, 3, 600), rng.standard_normal(600)])
    y = (side > 0).astype(int)
    logged = ob.LoggedData(X[:300], y[:300].astype(float), 1.0)
    pool = ob.Pool(X[300:], 1.0)
    result = ob.run(logged, pool, lambda ids: y[300:][ids], replace(FAST, stop_below=0.01))
    check_intervals(result)
    assert 0 < len(result.queries) < 300
    assert result.stopped.startswith("more labels would change only about")
    assert "less than stop_below = 1.00%" in result.stopped
    never = ob.run(logged, pool, lambda ids: y[300:][ids], replace(FAST, stop_below=0.0, batch=150))
    assert len(never.queries) == 300


def test_auto_features_pick_splines_for_skewed_feature():
    rng = np.random.default_rng(0)
    logarithm = rng.normal(size=300)
    X, y = np.exp(2 * logarithm)[:, None], (np.abs(logarithm) < 0.7).astype(float)
    logged, pool = ob.LoggedData(X[:200], y[:200], 1.0), ob.Pool(X[200:], 1.0)
    straight, bent = (
        ob.Session(logged, pool, NewtonVC(features=f, tempering=0.5)).rounds[0] for f in ("linear", "auto")
    )
    assert bent.details["features"] == "splines"
    assert straight.estimator.score(X, y) < 0.8
    assert bent.estimator.score(X, y) > 0.9


def test_three_classes_raise():
    logged = ob.LoggedData(np.zeros((3, 1)), [0, 1, 2], 1.0)
    with pytest.raises(InvalidInput, match="two classes"):
        ob.Session(logged, ob.Pool(np.zeros((3, 1)), 1.0), NewtonVC())


@pytest.mark.parametrize("order", ["pool", "stream"])
@pytest.mark.parametrize(
    "method", [NewtonVC(), FAST, NewtonVC(features="auto"), AblatedNewtonVC(penalty=1.0)], ids=range(4)
)
def test_log_without_labels_works(method, order):
    logged, pool, y = one_class()
    blank = ob.LoggedData(logged.X, np.full(40, np.nan), logged.propensity, classes=(0, 1))
    result = ob.run(blank, pool, lambda ids: y[ids], replace(method, order=order, stop_below=0.0), label_budget=30)
    check_intervals(result)
    assert len(result.queries) == 30
    assert result.estimator.score(pool.X, y) > 0.8
    wrong = np.mean(result.estimator.predict(pool.X) != y)  # log and pool have the same rows
    assert result.error_interval.low <= wrong + 1 / 40  # one of the 40 rows
    assert wrong <= result.error_interval.high < 0.6


@pytest.mark.parametrize("order", ["pool", "stream"])
@pytest.mark.parametrize("sparse_part", ["log", "pool"])
def test_sparse_log_and_dense_pool_work_together(order, sparse_part):
    world = World(seed=3, noise=0.0)
    X = world.X + 5.0  # sparse rows are not centred: the fit must not mix rows that are with rows that are not
    log, pool = X[:200], X[200:]
    log, pool = (sp.csr_array(log), pool) if sparse_part == "log" else (log, sp.csr_array(pool))
    logged = ob.LoggedData(log, world.logged.y, world.logged.propensity, classes=(0, 1))
    result = ob.run(
        logged, ob.Pool(pool, world.pool.propensity), world.oracle, replace(FAST, order=order), label_budget=30
    )
    check_intervals(result)
    margins = result.estimator.decision_function(X)
    np.testing.assert_allclose(result.estimator.decision_function(sp.csr_array(X)), margins)
    assert result.estimator.score(X, world.y) > 0.85


def test_settings_are_at_most_nine():
    assert len(fields(NewtonVC)) <= 9
