"""Pool methods: their shared choice against its slow twin, NewtonVC, CommitteeVC and the cross-fitted interval."""

from __future__ import annotations

import doctest
import importlib
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.stats import binomtest, norm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import observal as ob
from observal.errors import InvalidInput
from observal.learners.newton import make_objective, solve
from observal.methods.committee_vc import CommitteeVC, ConstantClassifier, settledness
from observal.methods.newton_vc import NewtonVC, _leverages
from observal.methods.pooling import REASONS, Choice, PoolState, Strata, draw, draw_plan, systematic
from observal.methods.pooling_interval import cross_fitted_interval
from observal.types import Problem
from tests.reference import pooling as twin

FAST = NewtonVC(ridge=1e-2, tempering=0.5)
TREE = CommitteeVC(DecisionTreeClassifier(max_depth=4), members=4)


class World:
    """A problem whose labels are all known: a plane with a little noise, and a half of space that the log hardly shows."""

    def __init__(self, seed=0, m=200, n=150, d=3, noise=0.05, sparse=False, cost=None, low=0.05):
        rng = np.random.default_rng(seed)
        self.X = rng.standard_normal((m + n, d))
        if sparse:
            self.X[rng.random(self.X.shape) < 0.6] = 0.0
        flipped = rng.random(m + n) < noise
        self.y = ((self.X @ np.linspace(1.0, -2.0, d) > 0.2) ^ flipped).astype(int)
        self.q = np.where(self.X[:, 0] > 0, 0.6, low)
        shown = rng.random(m) < self.q[:m]
        rows = sp.csr_matrix(self.X) if sparse else self.X
        cost = [None, None] if cost is None else [cost[:m], cost[m:]]
        self.logged = ob.LoggedData(
            rows[:m], np.where(shown, self.y[:m], np.nan), self.q[:m], classes=(0, 1), cost=cost[0]
        )
        self.pool = ob.Pool(rows[m:], self.q[m:], cost=cost[1])
        self.pool_y = self.y[m:]

    def oracle(self, ids):
        return self.pool_y[ids]


def one_class(n=40):
    """A log that shows one class only, and a pool that has both."""
    x = np.linspace(-1, 1, n)
    logged = ob.LoggedData(x[:, None], np.where(x > 0.3, 1.0, np.nan), np.where(x > 0.3, 1.0, 0.0), classes=(0, 1))
    return logged, ob.Pool(x[:, None], np.where(x > 0.3, 1.0, 0.0)), (x > 0).astype(int)


# -- the shared choice against its twin ---------------------------------------------------------------------------


@st.composite
def situations(draw_):
    """A problem of propensities alone, what is bought and skipped already, gaps with ties, and how to choose."""
    m, n = draw_(st.integers(1, 20)), draw_(st.integers(1, 20))
    rng = np.random.default_rng(draw_(st.integers(0, 2**32 - 1)))
    few = draw_(st.booleans())
    q = rng.choice([0.0, 0.1, 0.5, 1.0], m + n) if few else rng.random(m + n) ** 3
    revealed = rng.random(m) < q[:m]
    logged = ob.LoggedData(np.zeros((m, 1)), np.where(revealed, 1.0, np.nan), q[:m], classes=(0, 1))
    problem = Problem(logged, ob.Pool(np.zeros((n, 1)), q[m:]))
    gone = rng.permutation(n)[: draw_(st.integers(0, n - 1))]
    cut = draw_(st.integers(0, gone.size))
    state = PoolState.start(problem)
    state = replace(state, bought=gone[:cut], codes=np.ones(cut, dtype=np.int64), skipped=gone[cut:])
    gaps = rng.integers(0, 6, m + n).astype(float) if draw_(st.booleans()) else rng.random(m + n)
    choice = Choice(
        draw_(st.integers(1, 25)),
        draw_(st.sampled_from([0.0, 0.05, 0.3, 1.0])),
        draw_(st.sampled_from([0.0, 0.25, 0.5, 1.0])),
        draw_(st.sampled_from([0.5, 1.0, 4.0])),
    )
    return problem, state, choice, gaps


@given(situations())
def test_chances_are_the_twins(situation):
    problem, state, choice, gaps = situation
    drawn = draw(problem, state, choice, gaps)
    chance, gated, free = twin.chances(
        problem.logged.propensity.tolist(),
        problem.pool.propensity.tolist(),
        gaps.tolist(),
        state.open_rows(problem).tolist(),
        state.bought.size,
        batch=choice.batch,
        floor=choice.floor,
        gate_share=choice.gate_share,
        rows_per_label=choice.rows_per_label,
    )
    np.testing.assert_allclose(drawn.chance, chance, atol=1e-12)
    assert np.flatnonzero(drawn.taken_gate).tolist() == sorted(gated)
    assert np.flatnonzero(drawn.taken_free).tolist() == sorted(free)


@given(situations())
def test_chances_add_up_to_the_batch_and_keep_the_floor(situation):
    problem, state, choice, gaps = situation
    drawn = draw(problem, state, choice, gaps)
    open_ = state.open_rows(problem)
    size = min(choice.batch, int(open_.sum()))
    in_pool = drawn.chance[len(problem.logged) :]
    assert in_pool.sum() == pytest.approx(size)
    assert ((drawn.chance >= 0) & (drawn.chance <= 1)).all()
    assert (in_pool[~open_] == 0).all()
    passes = np.array(
        twin.gate(problem.pool.propensity, len(problem.logged), state.bought.size, choice.batch, choice.rows_per_label)
    )
    everyone = choice.gate_share == 0 or (passes & open_).sum() < size
    passing = open_ if everyone else open_ & passes
    assert (in_pool[passing] >= choice.floor * size / passing.sum() - 1e-12).all()


@given(situations(), st.integers(0, 1000))
def test_a_drawn_plan_is_full_repeatable_and_says_why(situation, seed):
    problem, state, choice, gaps = situation
    drawn = draw(problem, state, choice, gaps)
    plan, again = (draw_plan(problem, drawn, np.random.default_rng(seed)) for _ in range(2))
    assert plan.positions.tolist() == again.positions.tolist()
    open_ = state.open_rows(problem)
    assert plan.asked.size == min(choice.batch, int(open_.sum())) == np.unique(plan.asked).size
    assert open_[plan.asked].all()
    assert (plan.query_probability == drawn.chance[len(problem.logged) + plan.positions]).all()
    for position, code in zip(plan.positions, plan.reason, strict=True):
        expected = 0 if drawn.taken_gate[position] else 1 if drawn.taken_free[position] else 2
        assert plan.reasons[code] == REASONS[expected]


@given(situations())
def test_weights_are_the_twins(situation):
    problem, state, _, _ = situation
    strata = Strata.of(problem)
    propensity = np.concatenate([problem.logged.propensity, problem.pool.propensity])
    of_row = twin.strata(propensity.tolist())
    # Strata that nobody is in need no number of their own: the two must group rows alike, in the same order.
    assert (
        np.unique(strata.of_row, return_inverse=True)[1].tolist() == np.unique(of_row, return_inverse=True)[1].tolist()
    )
    rows, codes = state.labelled(problem)
    assert rows.size == codes.size == problem.logged.revealed.sum() + state.bought.size
    labelled = np.isin(np.arange(propensity.size), rows)
    np.testing.assert_allclose(strata.importance(labelled), twin.importance(of_row, labelled))
    weights, clip = state.importance(problem, rows, clip=True, capacity=4.0)
    unclipped, no_clip = state.importance(problem, rows, clip=False, capacity=4.0)
    assert no_clip == np.inf
    np.testing.assert_allclose(weights, np.minimum(unclipped, clip))


@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_systematic_sampling_is_the_twins(n, seed):
    rng = np.random.default_rng(seed)
    chance = rng.random(n)
    chance *= max(1, int(chance.sum())) / max(chance.sum(), 1.0)
    chance = np.minimum(chance, 1.0)
    if round(chance.sum()) > chance.sum():  # the line must be as long as the points on it
        chance = chance * (int(chance.sum()) / chance.sum())
    draws = np.random.default_rng(seed + 1)
    order, start = draws.permutation(n), draws.random()
    total = round(float(chance.sum()))
    expected = twin.systematic(chance, order, start)[:total]
    assert systematic(chance, np.random.default_rng(seed + 1)).tolist() == expected


def test_systematic_sampling_has_exactly_the_stated_marginals():
    # Five binomial tests at 1e-3/5 each: a right sampler fails with a chance below 1e-3.
    chance, n_draws = np.array([1.0, 0.7, 0.2, 0.1, 0.6, 0.4]), 4000
    rng = np.random.default_rng(0)
    counts = np.zeros(chance.size, dtype=int)
    for _ in range(n_draws):
        rows = systematic(chance, rng)
        assert rows.size == 3
        counts[rows] += 1
    assert counts[0] == n_draws
    for count, p in zip(counts[1:].tolist(), chance[1:].tolist(), strict=True):
        assert binomtest(count, n_draws, p).pvalue > 1e-3 / 5


def test_a_budget_cut_scales_the_chances_and_the_scaled_chances_are_right():
    world = World(m=30, n=12)
    problem = Problem(world.logged, world.pool)
    gaps = np.random.default_rng(1).random(42)
    drawn = draw(problem, PoolState.start(problem), Choice(batch=6, floor=0.5), gaps)
    rng, n_draws, counts = np.random.default_rng(2), 3000, np.zeros(12, dtype=int)
    for _ in range(n_draws):
        plan = draw_plan(problem, drawn, rng)
        cut = plan.cut(2)
        counts[cut.asked] += 1
        assert (cut.positions == plan.positions[:2]).all()
        np.testing.assert_allclose(cut.query_probability, plan.query_probability[:2] / 3)
    for count, chance in zip(counts.tolist(), (drawn.chance[30:] / 3).tolist(), strict=True):
        assert binomtest(count, n_draws, chance).pvalue > 1e-3 / 12  # all right: fails with a chance below 1e-3


def test_logged_rows_get_the_chance_of_a_pool_row_like_them():
    x = np.array([0.1, 0.4, 0.1, 0.4])
    problem = Problem(ob.LoggedData(x[:2, None], [0.0, 1.0], 0.5), ob.Pool(x[2:, None], 0.5))
    chance = draw(problem, PoolState.start(problem), Choice(batch=1, floor=0.2), x).chance
    np.testing.assert_allclose(chance[:2], chance[2:])
    np.testing.assert_allclose(chance, [0.9, 0.1, 0.9, 0.1])


# -- what all pool methods do in a session ------------------------------------------------------------------------


@pytest.mark.parametrize("method", [FAST, TREE], ids=repr)
class TestInASession:
    def test_a_batch_bigger_than_the_pool_takes_all_of_it(self, method):
        world = World(m=60, n=15)
        result = ob.run(world.logged, world.pool, world.oracle, replace(method, batch=40))
        assert sorted(result.queries["id"].tolist()) == list(range(15))
        np.testing.assert_allclose(result.queries["query_probability"], 1.0)
        assert result.stopped == "every pool row has been looked at"

    def test_all_rows_skipped_buys_nothing_and_ends(self, method):
        world = World(m=60, n=25)
        result = ob.run(world.logged, world.pool, lambda ids: [None] * len(ids), method)
        assert len(result.queries) == 0
        assert len(result.decisions) == 25
        assert [r.skipped for r in result.rounds] == [0, 10, 10, 5]
        assert result.stopped == "every pool row has been looked at"

    def test_the_budget_cuts_the_round_and_scales_its_chances(self, method):
        world = World()
        whole = ob.Session(world.logged, world.pool, method, random_state=3).ask()
        cut = ob.Session(world.logged, world.pool, method, label_budget=4, random_state=3).ask()
        assert cut.ids.tolist() == whole.ids[:4].tolist()
        np.testing.assert_allclose(cut.query_probability, whole.query_probability[:4] * 4 / 10)

    def test_a_loaded_session_goes_on_as_the_saved_one(self, method, tmp_path):
        world = World()
        session = ob.Session(world.logged, world.pool, method, label_budget=25, random_state=5)
        query = session.ask()
        session.tell(query.ids, world.oracle(query.ids))
        query = session.ask(3)
        session.tell(query.ids, world.oracle(query.ids))
        session.save(tmp_path / "session")
        given_again = method if isinstance(method, CommitteeVC) else None  # an estimator cannot be saved
        loaded = ob.Session.load(tmp_path / "session", method=given_again)
        assert loaded.method == method
        for one in (session, loaded):
            while query := one.ask():
                one.tell(query.ids, world.oracle(query.ids))
        a, b = session.result(), loaded.result()
        assert len(a.queries) == 25
        assert list(a.decisions) == list(b.decisions)
        assert a.error_interval == b.error_interval
        assert (a.estimator.predict(world.X) == b.estimator.predict(world.X)).all()

    def test_a_log_of_one_class_works_and_both_classes_are_found(self, method):
        logged, pool, y = one_class()
        result = ob.run(logged, pool, lambda ids: y[ids], method, label_budget=20)
        assert set(result.queries["label"].tolist()) == {0, 1}
        assert result.rounds[0].estimator.score(pool.X, y) <= result.estimator.score(pool.X, y)
        assert result.estimator.score(pool.X, y) > 0.9

    def test_costs_change_the_fit_but_not_their_unit(self, method):
        rng = np.random.default_rng(0)
        cost = rng.choice([0.01, 1.0], 350)
        plain, costly, halved = (
            ob.Session(w.logged, w.pool, method).result().estimator
            for w in (World(noise=0.3), World(noise=0.3, cost=cost), World(noise=0.3, cost=cost / 2))
        )
        grid = rng.standard_normal((500, 3))
        assert (plain.predict_proba(grid) != costly.predict_proba(grid)).any()
        np.testing.assert_allclose(costly.predict_proba(grid), halved.predict_proba(grid), atol=1e-6)

    def test_it_is_a_value(self, method):
        copy = pickle.loads(pickle.dumps(method))
        assert repr(copy) == repr(method)
        assert replace(method) == method != replace(method, batch=3)
        assert len(repr(method)) < 250
        assert (method.takes, method.curve_from_one_run) == ("pool", True)


@pytest.mark.parametrize(
    "make",
    [
        *(
            lambda change=change, kind=kind: replace(kind, **change)
            for kind in (FAST, TREE)
            for change in (
                {"batch": 0},
                {"floor": -0.1},
                {"floor": float("nan")},
                {"gate_share": 1.5},
                {"rows_per_label": 0.0},
                {"capacity": 0.0},
                {"tempering": -1.0},
            )
        ),
        lambda: NewtonVC(ridge="small"),
        lambda: NewtonVC(settled=-1.0),
        lambda: NewtonVC(penalty=-1.0),
        lambda: CommitteeVC(DecisionTreeClassifier),
        lambda: CommitteeVC("a tree"),
        lambda: CommitteeVC(StandardScaler()),
        lambda: CommitteeVC(KNeighborsClassifier()),
        lambda: CommitteeVC(make_pipeline(StandardScaler(), KNeighborsClassifier())),
        lambda: CommitteeVC(DecisionTreeClassifier(), members=1),
        lambda: CommitteeVC(DecisionTreeClassifier(), members=2.5),
        lambda: CommitteeVC(DecisionTreeClassifier(), tempering="auto"),
    ],
)
def test_a_bad_setting_gives_one_sentence(make):
    with pytest.raises(InvalidInput) as caught:
        make()
    message = str(caught.value)
    assert re.fullmatch(r"[^\n]{20,300}\.", message)
    assert not re.search(r"\.\s+[A-Z]", message)


@pytest.mark.parametrize("name", ["pooling", "pooling_interval", "newton_vc", "committee_vc"])
def test_examples_run(name):
    failed, _ = doctest.testmod(importlib.import_module(f"observal.methods.{name}"))
    assert failed == 0


# -- NewtonVC ------------------------------------------------------------------------------------------------------


def least_increase(objective, fit, x):
    """How much an objective must rise so that the sign at x changes: its minimum where θ·(x, 1) = 0, found by search."""
    on_the_line = null_space(np.append(x, 1.0)[None, :])
    theta = np.append(fit.coef, fit.intercept)
    found = minimize(lambda v: objective.value(on_the_line @ v), on_the_line.T @ theta, tol=1e-12)
    return float(found.fun) - fit.objective


def test_the_flip_gap_of_a_quadratic_is_the_least_increase_that_flips_the_sign():
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((40, 3)), rng.uniform(0.5, 3.0, 40)
    signs = np.where(X[:, 0] + 0.5 * rng.standard_normal(40) > 0, 1, -1)
    objective = make_objective(X, signs, weights, loss="squared", regulariser=None, ridge=0.1)
    fit = solve(objective)
    margins = X @ fit.coef + fit.intercept
    gaps = margins**2 / (2 * _leverages(X, fit.hessian))
    for row in range(8):
        assert gaps[row] == pytest.approx(least_increase(objective, fit, X[row]), rel=1e-4)


def test_the_leverages_of_sparse_rows_are_those_of_dense_ones():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4)) * (rng.random((20, 4)) < 0.5)
    half = rng.standard_normal((5, 9))
    hessian = half @ half.T
    expected = [np.append(x, 1) @ np.linalg.solve(hessian, np.append(x, 1)) for x in X]
    np.testing.assert_allclose(_leverages(X, hessian), expected)
    np.testing.assert_allclose(_leverages(sp.csr_array(X), hessian), expected)


def test_small_flip_gaps_of_newton_vc_are_close_to_the_least_increase():
    world = World(m=300, n=100, noise=0.15)
    problem = Problem(world.logged, world.pool)
    state = replace(FAST, tempering=0.0).begin(problem, np.random.default_rng(0))
    model = state.model
    rows, codes = state.labelled(problem)
    X = np.concatenate([model.X[rows], np.zeros((2, 3))])  # half a row of each class in the centre
    weights, signs = np.append(np.ones(rows.size), [0.5, 0.5]), np.append(2 * codes - 1, [-1, 1])
    objective = make_objective(X, signs, weights / weights.mean(), regulariser=None, ridge=FAST.ridge)
    fit = solve(objective)
    np.testing.assert_allclose(np.append(fit.coef, fit.intercept), model.theta, atol=1e-4)
    smallest = np.argsort(model.gaps)[:10]
    for row in smallest:
        # The factor: rows.size and not rows.size + 1 stand for A; the rest is the third order.
        assert model.gaps[row] == pytest.approx(
            rows.size * least_increase(objective, fit, model.X[row]), rel=0.05, abs=1e-6
        )


def test_the_order_of_a_round_is_that_of_the_gaps():
    world = World()
    problem = Problem(world.logged, world.pool)
    method = replace(FAST, floor=0.0, gate_share=0.0)
    state = method.begin(problem, np.random.default_rng(0))
    plan = method.plan(problem, state, np.random.default_rng(0))
    assert sorted(plan.asked.tolist()) == sorted(np.argsort(state.model.gaps[200:])[:10].tolist())


def test_newton_vc_takes_sparse_rows():
    world = World(sparse=True, d=6)
    result = ob.run(world.logged, world.pool, world.oracle, NewtonVC(), label_budget=20)
    assert result.estimator.score(sp.csr_matrix(world.X), world.y) > 0.85
    dense = result.estimator.decision_function(world.X)
    np.testing.assert_allclose(result.estimator.decision_function(sp.csr_matrix(world.X)), dense)


def test_settled_data_stop_the_run_and_say_why():
    rng = np.random.default_rng(0)
    side = rng.choice([-1.0, 1.0], 600)
    X = np.column_stack([side * rng.uniform(2, 3, 600), rng.standard_normal(600)])
    y = (side > 0).astype(int)
    logged = ob.LoggedData(X[:300], y[:300].astype(float), 1.0)
    pool = ob.Pool(X[300:], 1.0)
    result = ob.run(logged, pool, lambda ids: y[300:][ids], replace(FAST, settled=0.01))
    assert 0 < len(result.queries) < 300
    assert result.stopped.startswith("further labels are unlikely to change anything: they would change about")
    assert "below 1.00%" in result.stopped
    never = ob.run(logged, pool, lambda ids: y[300:][ids], replace(FAST, settled=0.0, batch=150))
    assert len(never.queries) == 300


def test_auto_features_pick_splines_where_a_skewed_feature_bends():
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


def test_newton_vc_refuses_three_classes():
    logged = ob.LoggedData(np.zeros((3, 1)), [0, 1, 2], 1.0)
    with pytest.raises(InvalidInput, match="two classes"):
        ob.Session(logged, ob.Pool(np.zeros((3, 1)), 1.0), NewtonVC())


# -- the interval --------------------------------------------------------------------------------------------------


def test_the_interval_covers_the_population_error():
    # 95 % nominal, 60 runs: an interval that covers exactly 95 % is below 88 % (52 or fewer) with a chance of 1 %.
    covered = 0
    test = World(seed=999, m=1, n=20_000, noise=0.1)
    for seed in range(60):
        world = World(seed=seed, m=250, n=60, noise=0.1, low=0.15)
        result = ob.run(world.logged, world.pool, world.oracle, FAST, label_budget=20, random_state=seed)
        interval = result.error_interval
        assert interval.low <= interval.estimate <= interval.high
        covered += interval.low <= 1.0 - result.estimator.score(test.X, test.y) <= interval.high
    assert covered >= 0.88 * 60


def test_the_interval_judges_each_revealed_row_once_by_fits_that_have_not_seen_it():
    world = World(m=80, n=20, low=0.5)
    problem = Problem(world.logged, world.pool)
    n_shown, judged = int(world.logged.revealed.sum()), []

    def wrong(train, test):
        assert np.intersect1d(train, test).size == 0
        assert np.isin(np.arange(n_shown, n_shown + 7), train).all()
        assert train.size + test.size == n_shown + 7
        judged.extend(test.tolist())
        return np.zeros(test.size, dtype=bool)

    interval = cross_fitted_interval(problem, 7, wrong)
    assert sorted(judged) == list(range(n_shown))
    assert interval.estimate == interval.low == 0.0 < interval.high < 0.5


def test_the_plain_case_of_the_interval_is_the_share_of_mistakes():
    problem = Problem(ob.LoggedData(np.zeros((400, 1)), np.arange(400) % 2, 1.0), ob.Pool(np.zeros((9, 1)), 1.0))
    interval = cross_fitted_interval(problem, 0, lambda train, test: test % 4 == 0)
    assert interval.estimate == 0.25
    centre, z = (100 + norm.ppf(0.975) ** 2 / 2) / (400 + norm.ppf(0.975) ** 2), norm.ppf(0.975)
    reach = z * np.sqrt(centre * (1 - centre) / (400 + z * z))
    assert interval.low == pytest.approx(centre - reach, abs=3e-4)
    assert interval.high == pytest.approx(centre + reach, abs=3e-4)


def test_without_labels_the_interval_says_nothing():
    logged = ob.LoggedData(np.zeros((4, 1)), [1.0, np.nan, np.nan, np.nan], 0.5, classes=(0, 1))
    interval = cross_fitted_interval(Problem(logged, ob.Pool(np.zeros((3, 1)), 0.5)), 0, lambda train, test: test > 9)
    assert (interval.low, interval.high) == (0.0, 1.0)
    assert "too few labels" in interval.method


# -- CommitteeVC ---------------------------------------------------------------------------------------------------


def three_classes(seed=0, n=500):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] * X[:, 1], [-0.1, 0.15])]
    q = np.where(X[:, 0] > 0, 0.4, 0.05)
    shown = rng.random(200) < q[:200]
    logged = ob.LoggedData(X[:200], np.where(shown, y[:200], None), q[:200], classes=("a", "b", "c"))
    return logged, ob.Pool(X[200:], q[200:]), X, y


def test_boosted_trees_on_three_classes_beat_their_start():
    logged, pool, X, y = three_classes()
    trees = HistGradientBoostingClassifier(max_iter=15, min_samples_leaf=3, early_stopping=False)
    result = ob.run(logged, pool, lambda ids: y[200:][ids], CommitteeVC(trees, members=4, batch=20), label_budget=60)
    errors = [1 - r.estimator.score(X, y) for r in result.rounds]
    assert errors[-1] < 0.7 * errors[0]
    assert result.estimator.classes_.tolist() == ["a", "b", "c"]
    assert all(0 < r.disagreement < 0.5 for r in result.rounds)
    assert 0 <= result.error_interval.low < result.error_interval.high <= 1
    assert not hasattr(trees, "classes_")


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), GaussianNB())),
        CalibratedClassifierCV(GaussianNB(), cv=2),
        LinearSVC(),  # no probabilities: votes
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_classifier_that_takes_weights_will_do(estimator):
    world = World()
    method = CommitteeVC(estimator, members=4)
    before = repr(estimator.get_params())
    one, other = (ob.run(world.logged, world.pool, world.oracle, method, label_budget=20) for _ in range(2))
    assert list(one.decisions) == list(other.decisions)  # also where random_state was None
    assert one.estimator.score(world.X, world.y) > 0.85
    assert repr(estimator.get_params()) == before


def test_weights_reach_the_last_step_of_a_pipeline():
    world = World(noise=0.3)
    problem = Problem(world.logged, world.pool)
    plain, piped = (
        LogisticRegression(),
        make_pipeline(StandardScaler(with_mean=False, with_std=False), LogisticRegression()),
    )
    fits = [CommitteeVC(e, members=2).begin(problem, np.random.default_rng(0)).model for e in (plain, piped)]
    np.testing.assert_allclose(fits[0].estimator.coef_, fits[1].estimator[-1].coef_)
    assert fits[0].gaps.tolist() == fits[1].gaps.tolist()
    unweighted = LogisticRegression().fit(world.logged.X[world.logged.revealed], world.y[:200][world.logged.revealed])
    assert not np.allclose(fits[0].estimator.coef_, unweighted.coef_)


def test_committee_vc_takes_sparse_rows_and_sees_in_them_what_dense_ones_show():
    world = World(sparse=True, d=6)
    dense = ob.LoggedData(world.logged.X.toarray(), world.logged.y, world.logged.propensity, classes=(0, 1))
    method = CommitteeVC(LogisticRegression(), members=4)
    one = ob.run(world.logged, world.pool, world.oracle, method, label_budget=20)
    other = ob.run(dense, ob.Pool(world.pool.X.toarray(), world.pool.propensity), world.oracle, method, label_budget=20)
    assert one.queries["id"].tolist() == other.queries["id"].tolist()
    np.testing.assert_allclose(one.estimator.coef_, other.estimator.coef_, atol=1e-3)


def test_labels_that_are_objects_come_back_as_they_were():
    world = World()
    y = np.where(world.logged.revealed, world.y[:200] == 1, None)
    logged = ob.LoggedData(world.logged.X, y, world.logged.propensity)
    result = ob.run(logged, world.pool, lambda ids: world.pool_y[ids] == 1, TREE, label_budget=10)
    assert result.estimator.predict(world.X).dtype == bool


@pytest.mark.parametrize("revealed", [0, 1])
def test_with_hardly_a_label_the_class_is_constant_and_the_order_by_lot(revealed):
    x = np.linspace(0, 1, 30)
    y = np.full(30, np.nan)
    y[:revealed] = 1.0
    logged = ob.LoggedData(x[:, None], y, 0.5, classes=(0, 1))
    pool = ob.Pool(x[:, None], 0.5)
    start = ob.Session(logged, pool, TREE).rounds[0]
    assert isinstance(start.estimator, ConstantClassifier)
    assert start.estimator.score(x[:, None], np.full(30, float(revealed))) == 1.0
    assert start.disagreement == 1.0
    firsts = {ob.Session(logged, pool, TREE, random_state=seed).ask(1).positions[0] for seed in range(8)}
    assert len(firsts) > 3


def test_an_estimator_that_cannot_be_fitted_is_named():
    logged = ob.LoggedData(np.arange(4.0)[:, None], [0, 1, 1, 1], 1.0)
    with pytest.raises(InvalidInput, match=r"CalibratedClassifierCV could not be fitted on 4 labelled rows"):
        ob.Session(logged, ob.Pool(np.zeros((3, 1)), 1.0), CommitteeVC(CalibratedClassifierCV(GaussianNB(), cv=3)))


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(2, 4))
@settings(max_examples=30)
def test_settledness_is_squared_mean_margin_over_its_variance(seed, n_members, n_classes):
    shares = np.random.default_rng(seed).dirichlet(np.ones(n_classes), (n_members, 7))
    margins = np.empty((n_members, 7))
    for row in range(7):
        best = int(np.argmax(shares[:, row].mean(axis=0)))
        for member in range(n_members):
            rivals = [shares[member, row, k] for k in range(n_classes) if k != best]
            margins[member, row] = shares[member, row, best] - max(rivals)
    own = margins.var(axis=0)
    variance = (n_members * own + own.mean()) / (n_members + 1)
    expected = np.maximum(margins.mean(axis=0), 0) ** 2 / (2 * variance)
    np.testing.assert_allclose(settledness(shares), expected)
