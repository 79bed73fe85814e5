"""NewtonVC on a stream: decisions against a row-by-row twin, and nothing known before its turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

import observal as ob
from observal.methods import stream as newton_stream
from observal.methods.newton import NewtonVC
from observal.methods.stream import STREAM_REASONS, stream_plan
from observal.problem.plan import ASKED, PASSED
from observal.problem.problem import Problem
from observal_research.ablated_newton import AblatedNewtonVC
from tests.pool_worlds import World, check_intervals, one_class
from tests.reference import pooling as twin

STREAM = NewtonVC(ridge=1e-2, tempering=0.5, order="stream", stop_below=0.0)
WORDS = dict(zip(("gated", "free", "random", "blind", "settled", "shown"), STREAM_REASONS, strict=True))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small fits on many threads wait for each other on a busy machine."""
    with threadpool_limits(1):
        yield


class FakeModel:
    """Gaps as they are given, one feature being the gap."""

    def gaps(self, X):
        return X[:, 0]


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 40),
    m=st.integers(1, 60),
    looked=st.integers(0, 39),
    batch=st.integers(1, 12),
    floor=st.sampled_from([0.0, 0.1, 0.7, 1.0]),
    gate_share=st.sampled_from([0.0, 0.5, 1.0]),
    doubt=st.sampled_from([0.01, 0.05, 0.3]),
    block=st.sampled_from([1, 3, 4096]),
)
@settings(max_examples=150)
def test_decisions_match_slow_twin(seed, n, m, looked, batch, floor, gate_share, doubt, block):
    looked = min(looked, n - 1)
    rng = np.random.default_rng(seed)
    gaps, q = rng.exponential(2.0, n), rng.choice([0.0, 0.2, 0.7, 1.0], n)
    problem = Problem(ob.LoggedData(np.zeros((m, 1)), np.ones(m), 1.0, classes=(0, 1)), ob.Pool(gaps[:, None], q))
    method = AblatedNewtonVC(batch=batch, explore_share=floor, gate_share=gate_share, doubt=doubt, order="stream")
    state = replace(method.begin(problem, rng), looked=looked, fit=lambda state: FakeModel())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newton_stream, "STREAM_ROWS", block)
        plan = stream_plan(method, problem, state, np.random.default_rng(seed))
    expected = twin.stream(
        lambda row: gaps[row], q, m, looked, np.random.default_rng(seed).random,
        batch=batch, floor=floor, gate_share=gate_share, doubt=doubt,
    )  # fmt: skip
    assert plan.positions.tolist() == [row for row, *_ in expected]
    np.testing.assert_allclose(plan.query_probability, [chance for _, chance, *_ in expected])
    assert plan.action.tolist() == [ASKED if asked else PASSED for *_, asked, _ in expected]
    assert [plan.reasons[code] for code in plan.reason] == [WORDS[reason] for *_, reason in expected]
    assert not plan.shuffled


def test_recorded_chances_are_those_of_being_asked():
    # Twelve binomial tests at 1e-3/12 each: a right sampler fails with a chance below 1e-3.
    gaps, q = np.tile([0.1, 4.0, 0.2], 4), np.repeat([0.0, 1.0], 6)
    problem = Problem(ob.LoggedData(np.zeros((30, 1)), np.ones(30), 1.0, classes=(0, 1)), ob.Pool(gaps[:, None], q))
    method = NewtonVC(batch=100, explore_share=0.2, gate_share=0.6, order="stream")
    state = replace(method.begin(problem, np.random.default_rng(0)), fit=lambda state: FakeModel())
    rng, n_draws, counts = np.random.default_rng(1), 2000, np.zeros(12, dtype=int)
    for _ in range(n_draws):
        plan = stream_plan(method, problem, state, rng)
        counts[plan.asked] += 1
    assert sorted(set(plan.query_probability.round(6).tolist())) == [0.0, 0.2, 0.4, 1.0]
    for count, chance in zip(counts.tolist(), plan.query_probability.tolist(), strict=True):
        assert binomtest(count, n_draws, min(chance, 1.0)).pvalue > 1e-3 / 12


def decisions(session, oracle, rounds):
    """What was decided in the first rounds, and about how many rows."""
    for _ in range(rounds):
        query = session.ask()
        session.tell(query.ids, oracle(query.ids))
    return list(session.result().decisions)


@pytest.mark.parametrize("method", [STREAM, NewtonVC(order="stream", stop_below=0.0)], ids=["fixed", "tuned"])
@pytest.mark.parametrize("future", ["other rows", "no rows", "more rows"])
def test_future_rows_change_nothing(method, future):
    rng = np.random.default_rng(0)
    world = World(m=150, n=300, noise=0.15, cost=rng.uniform(0.2, 1.0, 450), smooth=True)
    before = decisions(ob.Session(world.logged, world.pool, method, random_state=4), world.oracle, 3)
    end = len(before)
    assert 30 <= end < 300
    X, q, cost = world.pool.X.copy(), world.pool.propensity.copy(), world.pool.cost.copy()
    if future == "other rows":
        X[end:], q[end:], cost[end:] = 1e3 * rng.standard_normal(X[end:].shape), 1.0, 1.0
    elif future == "no rows":
        X, q, cost = X[:end], q[:end], cost[:end]
    else:
        X, q, cost = np.vstack([X, 50.0 + X]), np.append(q, q), np.append(cost, cost)
    other = ob.Session(world.logged, ob.Pool(X, q, cost=cost), method, random_state=4)
    assert decisions(other, world.oracle, 3) == before


def test_round_ends_with_last_asked_row_and_run_with_pool():
    world = World(m=150, n=400, noise=0.15)
    result = ob.run(world.logged, world.pool, world.oracle, replace(STREAM, batch=7), random_state=2)
    check_intervals(result)
    assert result.stopped == "every pool row has been looked at"
    assert result.decisions["id"].tolist() == list(range(400))
    rounds, asked = result.decisions["round"], result.decisions["action"] == "asked"
    n_rounds = int(rounds.max())
    assert n_rounds > 3
    for k in range(1, n_rounds):
        assert asked[rounds == k].sum() == 7
        assert asked[rounds == k][-1]
    assert asked[rounds == n_rounds].sum() <= 7
    assert [r.seen for r in result.rounds] == [int((rounds <= k).sum()) for k in range(n_rounds + 1)]
    assert sum(r.passed for r in result.rounds) == int((~asked).sum()) > 0
    assert set(result.decisions["reason"].tolist()) <= set(STREAM_REASONS)


def test_seed_decides():
    world = World(m=150, n=200, noise=0.15)
    runs = [
        list(ob.run(world.logged, world.pool, world.oracle, STREAM, label_budget=30, random_state=seed).decisions)
        for seed in (0, 0, 1)
    ]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("budget", [1, 4, 13])
def test_budget_ends_stream_and_leaves_chances_unchanged(budget):
    world = World(m=150, n=200, noise=0.15)
    whole = ob.run(world.logged, world.pool, world.oracle, STREAM, label_budget=40, random_state=3)
    cut = ob.run(world.logged, world.pool, world.oracle, STREAM, label_budget=budget, random_state=3)
    assert len(cut.queries) == budget
    assert list(cut.decisions) == list(whole.decisions)[: len(cut.decisions)]
    assert cut.stopped == f"the label budget of {budget} is spent"


def test_skipped_rows_cost_nothing_and_stream_continues():
    world = World(m=150, n=120)
    result = ob.run(world.logged, world.pool, lambda ids: [None] * len(ids), STREAM)
    check_intervals(result)
    assert len(result.queries) == 0
    assert len(result.decisions) == 120
    assert sum(r.skipped for r in result.rounds) == int((result.decisions["action"] == "asked").sum()) > 0


@pytest.mark.parametrize("open_round", [False, True])
def test_saved_stream_continues_unchanged(open_round, tmp_path):
    world = World(m=150, n=300, noise=0.15)
    session = ob.Session(world.logged, world.pool, NewtonVC(order="stream", stop_below=0.0), 60, random_state=5)
    for _ in range(2):
        query = session.ask()
        session.tell(query.ids, world.oracle(query.ids))
    if open_round:
        query = session.ask(3)
        session.tell(query.ids, world.oracle(query.ids))
    session.save(tmp_path / "session")
    loaded = ob.Session.load(tmp_path / "session")
    assert loaded.method == session.method
    one, other = session.ask(), loaded.ask()
    assert one.ids.tolist() == other.ids.tolist()
    assert one.query_probability.tolist() == other.query_probability.tolist()
    for each in (session, loaded):
        while query := each.ask():
            each.tell(query.ids, world.oracle(query.ids))
    a, b = session.result(), loaded.result()
    assert list(a.decisions) == list(b.decisions)
    assert a.intervals == b.intervals


def test_log_of_one_class_works():
    logged, pool, y = one_class(80)
    result = ob.run(logged, pool, lambda ids: y[ids], STREAM, label_budget=40)
    check_intervals(result)
    assert set(result.queries["label"].tolist()) == {0, 1}
    assert result.estimator.score(pool.X, y) > 0.9


def test_sparse_rows_and_costs_work():
    cost = np.random.default_rng(0).choice([0.05, 1.0], 400)
    scores = []
    for seed in range(6):
        world = World(seed, sparse=True, d=6, m=200, n=200, cost=cost, noise=0.2)
        plain = World(seed, sparse=True, d=6, m=200, n=200, noise=0.2)
        results = [ob.run(w.logged, w.pool, w.oracle, STREAM, label_budget=20) for w in (world, plain)]
        if seed == 0:
            check_intervals(results[0])
            check_intervals(results[1])
        costly, free = (result.estimator for result in results)
        scores.append(costly.score(world.X, world.y))
        assert (costly.decision_function(world.X) != free.decision_function(world.X)).all()
    assert np.mean(scores) > 0.7  # of 0.8 that can be had


def test_settled_stream_stops_with_reason():
    rng = np.random.default_rng(0)
    side = rng.choice([-1.0, 1.0], 600)
    X = np.column_stack([side * rng.uniform(2, 3, 600), rng.standard_normal(600)])
    y = (side > 0).astype(int)
    logged, pool = ob.LoggedData(X[:300], y[:300].astype(float), 0.05), ob.Pool(X[300:], 0.05)
    result = ob.run(logged, pool, lambda ids: y[300:][ids], replace(STREAM, stop_below=0.02))
    check_intervals(result)
    assert len(result.queries) > 0
    assert len(result.decisions) < 300
    assert result.stopped.startswith("more labels would change only about")


def test_stream_learns_what_log_does_not_show():
    world = World(m=300, n=600, noise=0.02, low=0.01)
    result = ob.run(world.logged, world.pool, world.oracle, STREAM, label_budget=60)
    errors = [1.0 - r.estimator.score(world.X, world.y) for r in result.rounds]
    assert errors[-1] <= errors[0]
    assert errors[-1] < 0.08
    hidden = world.pool.propensity[result.queries["id"]] < 0.1
    assert hidden.mean() > 0.5  # most labels go where the log hardly looks
