"""Passive, ActiveVC and Active18 against their slow twins, epoch by epoch, and the promises of their switches."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import observal as ob
from observal.errors import InvalidInput, InvalidLabel
from observal.paper import linear_methods as linear
from observal.paper.active18 import Active18
from observal.paper.active_vc import ActiveVC
from observal.paper.passive import Passive
from observal.problem.plan import Answers, Stop
from observal.problem.problem import Problem
from observal_research.datasets import Certainty, Uncertainty, make_linear, simulate
from tests.pool_worlds import check_intervals
from tests.reference import linear_methods as twin

VC_SWITCHES = [
    {},
    {"clip": False},
    {"regulariser": False},
    {"clip": False, "regulariser": False},
    {"bias_correction": False},
    {"bias_correction": False, "multiple_importance": False},
    {"bias_correction": False, "multiple_importance": False, "clip": False},
    {"disagreement": False},
    {"infer": False},
]
VARIANTS = [{}, {"bias_correction": False}, {"bias_correction": False, "multiple_importance": False}]
SETTINGS = [(0.02, 1.0, 0, 150, 130), (0.3, 0.05, 1, 150, 130), (3.0, 0.01, 2, 150, 130), (5.0, 0.1, 6, 280, 90)]
METHODS = [
    Passive(),
    *(ActiveVC(**switches) for switches in VC_SWITCHES),
    *(Active18(**switches) for switches in VARIANTS),
]


class World:
    """A small problem whose labels are all known, with a few propensities far below the others."""

    def __init__(self, seed, m=150, n=130, d=3, noise=0.1):
        rng = np.random.default_rng(seed)
        self.X = rng.uniform(-1, 1, (m + n, d))
        normal = rng.standard_normal(d)
        self.y = np.where((self.X @ normal > 0) ^ (rng.random(m + n) < noise), 1, -1)
        self.q = np.clip((self.X @ (normal + 0.5 * rng.standard_normal(d))) ** 2, 0.002, 1.0)
        revealed = rng.random(m) < self.q[:m]
        self.log_y, self.pool_y = np.where(revealed, self.y[:m], 0), self.y[m:]
        shown = np.where(revealed, self.y[:m], np.nan)
        self.logged = ob.LoggedData(self.X[:m], shown, self.q[:m], classes=(-1, 1))
        self.pool = ob.Pool(self.X[m:], self.q[m:])

    @property
    def arrays(self):
        return self.X, self.log_y, self.pool_y, self.q

    def oracle(self, ids):
        return self.pool_y[ids]

    def states(self, method, seed):
        """Drive the method by hand, with the session's seeds, and keep every state."""
        problem, k = Problem(self.logged, self.pool), 0
        state = method.begin(problem, np.random.default_rng([seed, 0, 0]))
        out = [state]
        while not isinstance(plan := method.plan(problem, state, np.random.default_rng([seed, k + 1, 0])), Stop):
            k += 1
            answers = Answers((self.pool_y[plan.asked] + 1) // 2, np.ones(plan.asked.size, dtype=bool))
            state = method.advance(problem, state, plan, answers, np.random.default_rng([seed, k, 1]))
            out.append(state)
        return problem, out


@pytest.fixture(scope="module")
def world():
    return World(0)


# -- slow twins -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("learning_rate", [0.01, 1.0])
def test_passive_is_its_slow_twin(seed, learning_rate):
    world = World(seed)
    _, states = world.states(Passive(learning_rate, fit_intercept=False), seed)
    expected = twin.passive(*world.arrays, learning_rate=learning_rate, seed=seed)
    assert len(states) == len(expected)
    for state, want in zip(states, expected, strict=True):
        assert (state.labels, state.last) == (want["labels"], (want["asked"], 0, 0, 0))
        np.testing.assert_allclose(state.importance[: len(want["weights"])], want["weights"], rtol=1e-12)
        np.testing.assert_allclose(state.coef, want["coef"], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("switches", VC_SWITCHES, ids=str)
@pytest.mark.parametrize(("capacity", "learning_rate", "seed", "m", "n"), SETTINGS)
def test_active_vc_is_its_slow_twin(switches, capacity, learning_rate, seed, m, n):
    world = World(seed, m, n)
    problem, states = world.states(ActiveVC(capacity, learning_rate, fit_intercept=False, **switches), seed)
    expected = twin.active_vc(*world.arrays, capacity=capacity, learning_rate=learning_rate, seed=seed, **switches)
    assert len(states) == len(expected)
    for state, want in zip(states, expected, strict=True):
        assert (state.labels, state.last) == (want["labels"], (*want["counts"], 0))
        assert state.clip == pytest.approx(want["clip"], rel=1e-12)
        np.testing.assert_allclose(state.importance, want["weights"], rtol=1e-12)
        np.testing.assert_allclose(state.coef, want["coef"], rtol=1e-8, atol=1e-8)
        np.testing.assert_array_equal(state.region, want["region"])
        shown = ActiveVC().describe(problem, state)
        assert shown.details["estimated_loss"] == pytest.approx(want["loss"])
        assert shown.details["second_moment"] == pytest.approx(want["second_moment"])
        assert shown.disagreement == pytest.approx(np.mean(want["region"]))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize(("capacity", "learning_rate", "seed", "m", "n"), SETTINGS)
def test_active18_is_its_slow_twin(variant, capacity, learning_rate, seed, m, n):
    world = World(seed, m, n)
    problem, states = world.states(Active18(capacity, learning_rate, fit_intercept=False, **variant), seed)
    expected = twin.active18(*world.arrays, capacity=capacity, learning_rate=learning_rate, seed=seed, **variant)
    assert len(states) == len(expected)
    for state, want in zip(states, expected, strict=True):
        core = state.core
        assert (core.labels, core.last, state.n_dealt) == (want["labels"], (*want["counts"], 0), want["dealt"])
        np.testing.assert_allclose(core.importance, want["weights"], rtol=1e-12)
        np.testing.assert_allclose(state.returned_coef, want["coef"], rtol=1e-8, atol=1e-8)
        np.testing.assert_array_equal(core.region, want["region"])
        assert state.least == want["xi"]
        assert core.loss == pytest.approx(want["loss"])
        assert Active18().describe(problem, state).details["least_propensity"] == want["xi"]
    assert states[-1].n_dealt == len(world.logged)


def test_twins_see_every_kind_of_decision():
    """The comparisons above would be empty if nothing was inferred, passed, clipped or outside the region."""
    capacity, learning_rate, seed, m, n = SETTINGS[-1]
    world = World(seed, m, n)
    rounds = twin.active_vc(*world.arrays, capacity=capacity, learning_rate=learning_rate, seed=seed)
    assert np.sum([r["counts"] for r in rounds], axis=0).min() > 0
    assert max(r["clipped"] for r in rounds) > 0
    rounds = twin.active18(*world.arrays, capacity=capacity, learning_rate=learning_rate, seed=seed)
    assert np.sum([r["counts"] for r in rounds], axis=0).min() > 0
    rounds = twin.active18(*World(0).arrays, capacity=0.02, learning_rate=1.0, seed=0)
    assert len({r["xi"] for r in rounds}) > 2


# -- through the session --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_run_accounts_for_every_row(world, method):
    result = ob.run(world.logged, world.pool, world.oracle, method, random_state=3)
    check_intervals(result)
    assert [d.id for d in result.decisions] == list(range(len(world.pool)))
    for round_ in result.rounds[1:]:
        rows = [d for d in result.decisions if d.round == round_.index]
        actions = [d.action for d in rows]
        assert (round_.asked, round_.inferred, round_.passed) == tuple(
            actions.count(name) for name in ("asked", "inferred", "passed")
        )
        assert all(d.query_probability == (d.action == "asked") and d.reason for d in rows)
    assert result.rounds[-1].seen == len(world.pool)
    assert 0 <= result.error_interval.low <= result.error_interval.high <= 1
    assert set(result.estimator.predict(world.pool.X).tolist()) <= set(world.logged.classes.tolist())
    again = ob.run(world.logged, world.pool, world.oracle, method, random_state=3)
    np.testing.assert_array_equal(result.estimator.coef_, again.estimator.coef_)
    assert pickle.loads(pickle.dumps(method)) == method == replace(method)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_budget_cuts_the_run_and_prefixes_agree(world, method):
    whole = ob.run(world.logged, world.pool, world.oracle, method)
    part = ob.run(world.logged, world.pool, world.oracle, method, label_budget=7)
    assert len(part.queries) <= 7
    same = [a for a, b in zip(part.rounds, whole.rounds, strict=False) if a.labels == b.labels and a.seen == b.seen]
    assert same
    for a, b in zip(same, whole.rounds, strict=False):
        np.testing.assert_array_equal(a.estimator.coef_, b.estimator.coef_)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_skips_buy_nothing_and_the_run_goes_on(world, method):
    def oracle(ids):
        return [None if i % 3 == 0 else world.pool_y[i] for i in ids]

    result = ob.run(world.logged, world.pool, oracle, method, label_budget=20)
    check_intervals(result)
    assert len(result.queries) == result.rounds[-1].labels <= 20
    assert all(i % 3 for i in result.queries["id"].tolist())
    assert np.isfinite(result.estimator.coef_).all()


def test_skipped_row_counts_as_never_drawn(world):
    method = Passive()
    problem = Problem(world.logged, world.pool)
    start = method.begin(problem, np.random.default_rng(0))
    plan = method.plan(problem, start, np.random.default_rng(0))
    nothing = Answers(np.zeros(10, dtype=np.int64), np.zeros(10, dtype=bool))
    after = method.advance(problem, start, plan, nothing, np.random.default_rng(1))
    assert (after.counted, after.looked, after.labels, after.last) == (0, 10, 0, (0, 0, 0, 10))
    np.testing.assert_array_equal(after.signs, start.signs)


@pytest.mark.parametrize("method", [Passive(), ActiveVC(), Active18()], ids=repr)
def test_saved_session_wakes_up_where_it_was(world, method, tmp_path):
    session = ob.Session(world.logged, world.pool, method, label_budget=15)
    query = session.ask(2)
    session.tell(query.ids, world.oracle(query.ids))
    session.save(tmp_path / "session")
    loaded = ob.Session.load(tmp_path / "session")
    for one in (session, loaded):
        while (query := one.ask()) is not None:
            one.tell(query.ids, world.oracle(query.ids))
    assert loaded.method == method
    np.testing.assert_array_equal(session.result().estimator.coef_, loaded.result().estimator.coef_)


# -- data of every kind ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("method", [Passive(), ActiveVC(), Active18()], ids=repr)
def test_sparse_rows_give_what_dense_rows_give(world, method, intercept):
    method = replace(method, fit_intercept=intercept)
    dense = ob.run(world.logged, world.pool, world.oracle, method)
    logged = ob.LoggedData(sp.csr_array(world.logged.X), world.logged.y, world.logged.propensity, classes=(-1, 1))
    pool = ob.Pool(sp.csr_matrix(world.pool.X), world.pool.propensity)
    sparse = ob.run(logged, pool, world.oracle, method)
    check_intervals(sparse)
    np.testing.assert_allclose(dense.estimator.coef_, sparse.estimator.coef_, rtol=1e-8)
    np.testing.assert_allclose(dense.estimator.intercept_, sparse.estimator.intercept_, rtol=1e-8)
    assert (dense.estimator.intercept_ != 0.0).all() == intercept
    np.testing.assert_array_equal(dense.decisions["action"], sparse.decisions["action"])
    assert dense.estimator.predict(world.X).tolist() == sparse.estimator.predict(sp.csr_array(world.X)).tolist()


@pytest.mark.parametrize("method", [Passive(), ActiveVC(), Active18()], ids=repr)
def test_constant_column_is_a_feature(world, method):
    ones = np.ones((len(world.X), 1))
    m = len(world.logged)
    logged = ob.LoggedData(np.hstack([world.logged.X, ones[:m]]), world.logged.y, world.q[:m], classes=(-1, 1))
    pool = ob.Pool(np.hstack([world.pool.X, ones[m:]]), world.q[m:])
    by_hand = ob.run(logged, pool, world.oracle, replace(method, fit_intercept=False)).estimator
    built_in = ob.run(world.logged, world.pool, world.oracle, replace(method, fit_intercept=True)).estimator
    np.testing.assert_array_equal(by_hand.coef_[0], np.append(built_in.coef_, built_in.intercept_))
    np.testing.assert_allclose(
        built_in.decision_function(world.X), by_hand.decision_function(np.hstack([world.X, ones]))
    )


@pytest.mark.parametrize("method", [Passive(), ActiveVC(), Active18()], ids=repr)
def test_rows_whose_mistakes_cost_nothing_do_not_matter(world, method):
    """Cost multiplies the weight: labels of rows of cost 0 may be anything; cost 1 everywhere is no cost at all."""
    m = len(world.logged)
    cost = (world.X[:, 0] > 0).astype(float)

    def estimator(log_y, pool_y, cost):
        logged = ob.LoggedData(world.X[:m], log_y, world.q[:m], classes=(-1, 1), cost=cost[:m])
        pool = ob.Pool(world.X[m:], world.q[m:], cost=cost[m:])
        return ob.run(logged, pool, lambda ids: pool_y[ids], method).estimator.coef_

    flipped = np.where(cost == 0, -world.y, world.y)
    log_flipped = np.where(np.isnan(world.logged.y), np.nan, flipped[:m])
    np.testing.assert_array_equal(
        estimator(world.logged.y, world.pool_y, cost), estimator(log_flipped, flipped[m:], cost)
    )
    plain = ob.run(world.logged, world.pool, world.oracle, method).estimator.coef_
    np.testing.assert_array_equal(plain, estimator(world.logged.y, world.pool_y, np.ones(len(cost))))


@pytest.mark.parametrize("method", [m for m in METHODS if not isinstance(m, Passive)], ids=repr)
def test_propensity_zero_is_allowed_where_nothing_is_revealed(world, method):
    q = np.where(world.q < 0.02, 0.0, world.q)
    m = len(world.logged)
    log_y = np.where(q[:m] > 0, world.logged.y, np.nan)
    result = ob.run(
        ob.LoggedData(world.X[:m], log_y, q[:m], classes=(-1, 1)), ob.Pool(world.X[m:], q[m:]), world.oracle, method
    )
    check_intervals(result)
    assert np.isfinite(result.estimator.coef_).all()
    assert len(result.queries) > 0


def test_smallest_problems_run():
    for method in METHODS:
        logged = ob.LoggedData([[1.0]], [1], 1.0, classes=(0, 1))
        result = ob.run(logged, ob.Pool([[-1.0], [2.0]], 0.5), lambda ids: np.array([0, 1])[ids], method)
        check_intervals(result)
        assert result.estimator.predict([[3.0]]).tolist() in ([0], [1])


def test_class_names_come_back(world):
    names = np.array(["bad", "good"])
    log_y = np.where(world.log_y == 0, None, names[(world.log_y + 1) // 2])
    logged = ob.LoggedData(world.logged.X, log_y, world.logged.propensity, classes=("bad", "good"))
    named = ob.run(logged, world.pool, lambda ids: names[(world.pool_y[ids] + 1) // 2], ActiveVC())
    plain = ob.run(world.logged, world.pool, world.oracle, ActiveVC())
    assert (named.estimator.predict(world.X) == names[(plain.estimator.predict(world.X).astype(int) + 1) // 2]).all()
    assert named.estimator.score(world.X, names[(world.y + 1) // 2]) > 0.75


# -- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        (Passive, {"learning_rate": 0.0}),
        (Passive, {"passes": 0}),
        (Passive, {"passes": 1.5}),
        (Passive, {"epochs": (3, 2)}),
        (ActiveVC, {"clip_constant": -1.0}),
        (ActiveVC, {"clip_constant": np.nan}),
        (ActiveVC, {"epochs": ()}),
        (ActiveVC, {"multiple_importance": False}),
        (Active18, {"learning_rate": np.inf}),
        (Active18, {"multiple_importance": False}),
    ],
)
def test_impossible_settings_are_refused(method, wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        method(**wrong)


@pytest.mark.parametrize("method", [Passive(), ActiveVC(), Active18()], ids=repr)
def test_three_classes_are_refused(method):
    with pytest.raises(InvalidLabel, match="two classes"):
        ob.Session(ob.LoggedData([[0.0], [1.0], [2.0]], [0, 1, 2], 1.0), ob.Pool([[0.0]], 1.0), method)


@pytest.mark.parametrize("n", [1, 9, 10, 24, 25, 300, 2400])
def test_epochs_cover_the_pool_and_never_shrink(n):
    sizes = linear.schedule(None, n)
    assert list(sizes) == twin.epoch_sizes(n)
    assert sum(sizes) == n
    assert list(sizes) == sorted(sizes)
    assert linear.schedule((5, 5), n)[0] == (5 if n >= 10 else n)


def test_declared_capabilities():
    assert [m.curve_from_one_run for m in (Passive, ActiveVC, Active18)] == [True, True, False]


# -- statistics -----------------------------------------------------------------------------------------------------


def test_interval_covers_the_error_and_narrows():
    """Rigorous and therefore wide: in one dimension it says something from a few thousand rows on."""
    widths = []
    for m in (2_000, 200_000):
        rng = np.random.default_rng(m)
        x = rng.uniform(-1, 1, (m + 500, 1))
        y = np.where((x[:, 0] > 0) ^ (rng.random(m + 500) < 0.1), 1, -1)
        shown = np.where(rng.random(m) < 0.5, y[:m], np.nan)
        logged, pool = ob.LoggedData(x[:m], shown, 0.5), ob.Pool(x[m:], 0.5)
        interval = ob.run(logged, pool, lambda ids, y=y, m=m: y[m:][ids], Passive(), label_budget=5).error_interval
        assert interval.low <= 0.1 <= interval.high
        assert "uniform over linear classifiers" in interval.method
        widths.append(interval.high - interval.low)
    assert widths[1] < 0.3 < widths[0]


@pytest.mark.parametrize("policy", [Certainty, Uncertainty])
def test_labels_help_and_active_vc_leads(policy):
    """The paper's data at one setting for all; mean error over six worlds of their own after 300 labels."""
    methods = (Passive(0.0256, fit_intercept=False), ActiveVC(0.64, 0.0256, fit_intercept=False))
    errors = np.empty((6, 2, 2))
    for trial in range(6):
        data = make_linear(random_state=100 + trial)
        world = simulate(data, policy.fit(data.X, data.y, trial), random_state=trial)
        for j, method in enumerate(methods):
            rounds = ob.run(world.logged, world.pool, world.oracle, method, label_budget=300).rounds
            errors[trial, j] = [1 - r.estimator.score(world.X_test, world.y_test) for r in (rounds[0], rounds[-1])]
    (_, passive_end), (start, end) = errors.mean(axis=0)
    assert end < start
    assert end < passive_end
