"""What pool methods share: weights and choice against their slow twins, and how both methods do in a session."""

from __future__ import annotations

import pickle
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import observal as ob
from observal.errors import InvalidInput
from observal.intervals.state import PoolState, Strata
from observal.methods.committee import CommitteeVC
from observal.methods.draw import REASONS, Choice, draw_plan, neyman_weights, passes_gate, sample_systematically
from observal.methods.draw import prepare_draw as draw
from observal.methods.newton import NewtonVC
from observal.methods.stream import StreamState
from observal.problem.problem import Problem
from observal_research.ablated_newton import AblatedNewtonVC
from tests.pool_worlds import World, check_intervals, one_class
from tests.reference import pooling as twin

FAST = NewtonVC(ridge=1e-2, tempering=0.5)
TREE = CommitteeVC(DecisionTreeClassifier(max_depth=4), members=4)


# -- the shared choice against its twin ---------------------------------------------------------------------------


@st.composite
def situations(draw_):
    """A problem of propensities alone, what is bought, skipped and asked about already, gaps with ties, and how to choose."""
    m, n = draw_(st.integers(1, 20)), draw_(st.integers(1, 20))
    rng = np.random.default_rng(draw_(st.integers(0, 2**32 - 1)))
    few = draw_(st.booleans())
    q = rng.choice([0.0, 0.1, 0.5, 1.0], m + n) if few else rng.random(m + n) ** 3
    revealed = rng.random(m) < q[:m]
    logged = ob.LoggedData(np.zeros((m, 1)), np.where(revealed, 1.0, np.nan), q[:m], classes=(0, 1))
    problem = Problem(logged, ob.Pool(np.zeros((n, 1)), q[m:]))
    gone = rng.permutation(n)[: draw_(st.integers(0, n - 1))]
    cut = draw_(st.integers(0, gone.size))
    state = PoolState.start(problem, lambda state: None)
    ahead = draw_(st.integers(cut, gone.size))
    state = replace(state, bought=gone[:cut], codes=np.ones(cut, dtype=np.int64), skipped=gone[ahead:])
    if ahead > cut:
        state = state.while_open(gone[cut:ahead])
    gaps = rng.integers(0, 6, n).astype(float) if draw_(st.booleans()) else rng.random(n)
    choice = Choice(
        draw_(st.integers(1, 25)),
        draw_(st.sampled_from([0.0, 0.05, 0.3, 1.0])),
        draw_(st.sampled_from([0.0, 0.25, 0.5, 1.0])),
        most_blind=draw_(st.sampled_from([0.0, 0.5, 1.0])),
    )
    return problem, state, choice, gaps


@given(situations(), st.sampled_from([None, 0.0, 0.3, 2.5, 10.0]))
def test_chances_match_slow_twin(situation, doubtful):
    problem, state, choice, gaps = situation
    in_doubt = None if doubtful is None else gaps < doubtful
    drawn = draw(problem, state, choice, gaps, in_doubt)
    chance, gated, free = twin.chances(
        len(problem.logged),
        problem.pool.propensity.tolist(),
        gaps.tolist(),
        state.open_rows(problem).tolist(),
        state.bought.size + state.waiting.size,
        [True] * gaps.size if in_doubt is None else in_doubt.tolist(),
        state.waiting.tolist(),
        batch=choice.batch,
        floor=choice.explore_share,
        gate_share=choice.gate_share,
        most_blind=choice.most_blind,
    )
    np.testing.assert_allclose(drawn.chance, chance, atol=1e-12)
    assert sorted(drawn.taken_gate.tolist()) == sorted(gated)
    assert sorted(drawn.taken_free.tolist()) == sorted(free)


@given(situations(), st.sampled_from([0.0, 0.3, 10.0]))
def test_chances_sum_to_batch_and_keep_floor(situation, doubtful):
    problem, state, choice, gaps = situation
    drawn = draw(problem, state, choice, gaps, gaps < doubtful)
    open_, chance = state.open_rows(problem), np.asarray(drawn.chance)
    size = min(choice.batch, int(open_.sum()))
    assert chance.shape == (len(problem.pool),)
    assert chance.sum() == pytest.approx(size)
    assert ((chance >= 0) & (chance <= 1)).all()
    assert (chance[~open_] == 0).all()
    passes = np.array(twin.gate(problem.pool.propensity, len(problem.logged), state.n_taken, choice.batch))
    everyone = choice.gate_share == 0 or (passes & open_).sum() < size
    passing = open_ if everyone else open_ & passes
    n_taken = drawn.taken_gate.size + drawn.taken_free.size  # the others are picked where the log is blind
    assert (chance[passing] >= choice.explore_share * n_taken / passing.sum() - 1e-12).all()


@given(situations(), st.floats(1.0, 5.0))
def test_gate_never_closes_as_labels_grow(situation, factor):
    problem, state, choice, _ = situation
    q, m = problem.pool.propensity, len(problem.logged)
    gated = replace(choice, gate_share=0.5)
    before, after = (
        passes_gate(q, m, n, gated, np.ones(len(q), dtype=bool))
        for n in (state.bought.size, int(factor * state.bought.size) + choice.batch)
    )
    in_force = sum(twin.gate(q, m, state.bought.size, choice.batch)) >= min(choice.batch, len(q))
    assert (after >= before).all() if in_force else before.all()
    # Only the floor shows who passes: with no gaps to choose by, `draw` must let in exactly these rows, or all.
    open_ = np.ones(len(q), dtype=bool)
    none = state.bought[:0]
    nothing = replace(state, bought=none, codes=none, skipped=none, waiting=none)
    by_gate = replace(choice, explore_share=1.0, gate_share=0.5, most_blind=0.0)
    drawn = draw(problem, nothing, by_gate, np.zeros(len(q)))
    passes = np.array(twin.gate(q, m, 0, choice.batch))
    expected = passes if passes.sum() >= min(choice.batch, len(q)) else open_
    asked = np.asarray(drawn.chance) > 0
    assert asked.tolist() == expected.tolist()
    assert (q[asked].max() <= q[~asked]).all()  # in the order of propensity


@given(situations(), st.integers(0, 1000))
def test_drawn_plan_is_full_repeatable_and_gives_reasons(situation, seed):
    problem, state, choice, gaps = situation
    drawn = draw(problem, state, choice, gaps)
    plan, again = (draw_plan(drawn, np.random.default_rng(seed)) for _ in range(2))
    assert plan.positions.tolist() == again.positions.tolist()
    spelled_out = draw_plan(replace(drawn, chance=np.asarray(drawn.chance)), np.random.default_rng(seed))
    assert plan.positions.tolist() == spelled_out.positions.tolist()
    open_ = state.open_rows(problem)
    assert plan.asked.size == min(choice.batch, int(open_.sum())) == np.unique(plan.asked).size
    assert open_[plan.asked].all()
    assert (plan.query_probability == drawn.chance[plan.positions]).all()
    for position, code in zip(plan.positions, plan.reason, strict=True):
        at_random = 3 if drawn.blind is not None and drawn.blind[position] else 2
        expected = 0 if position in drawn.taken_gate else 1 if position in drawn.taken_free else at_random
        assert plan.reasons[code] == REASONS[expected]


def test_rows_the_log_is_blind_to_are_measured_first():
    """Of 400 rows a quarter has a propensity of 0.001, so 30/4 − 0.1 labels are missing: eight random picks in the first two rounds."""
    propensity = np.where(np.arange(400) % 4 == 0, 0.001, 0.5)
    logged = ob.LoggedData(
        np.zeros((400, 1)), np.where(np.arange(400) % 4 == 0, None, np.arange(400) % 3 == 0), propensity
    )
    problem, choice = Problem(logged, ob.Pool(np.zeros((400, 1)), propensity)), Choice(batch=10, explore_share=0.1)
    state, rng, gaps = PoolState.start(problem, lambda state: None), np.random.default_rng(0), np.arange(400.0)[::-1]
    counts = []
    for _ in range(3):
        plan = draw_plan(draw(problem, state, choice, gaps), rng)
        picked = plan.positions[plan.reason == 3]
        assert (picked % 4 == 0).all()
        counts.append(picked.size)
        state = state.after(plan, ob.Answers(np.zeros(10, dtype=np.int64), np.ones(10, dtype=bool)), lambda state: None)
    assert 4 <= counts[0] <= 6
    assert 7 <= sum(counts[:2]) <= 9
    assert counts[2] == 0


def test_logs_without_blind_spot_pay_nothing():
    problem = Problem(ob.LoggedData(np.zeros((400, 1)), np.arange(400) % 2, 0.05), ob.Pool(np.zeros((300, 1)), 0.05))
    state, gaps = PoolState.start(problem, lambda state: None), np.arange(300.0)
    first, second = (draw(problem, state, Choice(most_blind=share), gaps).chance for share in (0.0, 1.0))
    np.testing.assert_array_equal(first, second)


@given(situations())
def test_weights_match_slow_twin(situation):
    problem, state, _, _ = situation
    strata = Strata.of(problem.propensity, reference=problem.propensity)
    propensity = np.concatenate([problem.logged.propensity, problem.pool.propensity])
    of_row = twin.strata(propensity.tolist())
    # Strata that nobody is in need no number of their own: the two must group rows alike, in the same order.
    assert (
        np.unique(strata.of_row, return_inverse=True)[1].tolist() == np.unique(of_row, return_inverse=True)[1].tolist()
    )
    rows, codes = state.labelled(problem)
    assert rows.size == codes.size == problem.logged.revealed.sum() + state.bought.size
    np.testing.assert_allclose(strata.importance(rows, propensity.size), twin.importance(of_row, rows, propensity.size))
    weights, clip = state.importance(problem, rows, clip_constant=4.0)
    unclipped, no_clip = state.importance(problem, rows, clip_constant=None)
    assert no_clip == np.inf
    np.testing.assert_allclose(unclipped, twin.importance(of_row, rows, propensity.size))
    expected = twin.clip(problem.logged.propensity.tolist(), state.bought.size, propensity.size, capacity=4.0)
    np.testing.assert_allclose(clip, expected)
    np.testing.assert_allclose(weights, np.minimum(unclipped, expected))


@pytest.mark.parametrize("n", [1000, 20_000])
def test_clip_keeps_same_weight_share_for_any_pool_size(n):
    rng = np.random.default_rng(0)
    q = rng.choice([0.02, 0.1, 0.8], 1000 + n)
    logged = ob.LoggedData(
        np.zeros((1000, 1)), np.where(rng.random(1000) < q[:1000], 1.0, np.nan), q[:1000], classes=(0, 1)
    )
    problem = Problem(logged, ob.Pool(np.zeros((n, 1)), q[1000:]))
    state = PoolState.start(problem, lambda state: None)
    weights, _ = state.importance(problem, state.labelled(problem)[0], clip_constant=4.0)
    # T/t of the rarest stratum is some fifty times that of the commonest; a clip in other units would leave nothing of it.
    assert 20.0 < weights.max() / weights.min() < 60.0


@given(situations(), st.integers(0, 20))
def test_stream_weights_count_only_arrived_rows(situation, looked):
    problem, state, _, _ = situation
    m = len(problem.logged)
    looked = min(looked, len(problem.pool))
    propensity = np.concatenate([problem.logged.propensity, problem.pool.propensity])
    of_row = twin.strata(propensity.tolist(), known=problem.logged.propensity.tolist())
    start = StreamState.start(problem, lambda state: None)
    bought = state.bought[state.bought < looked]
    stream = replace(start, bought=bought, codes=state.codes[: bought.size], looked=looked)
    rows, _ = stream.labelled(problem)
    weights, _ = stream.importance(problem, rows, clip_constant=None)
    np.testing.assert_allclose(weights, twin.importance(of_row, rows, m + looked))
    # A pool that ends with the rows looked at gives the same weights.
    if looked:
        ended = Problem(problem.logged, ob.Pool(problem.pool.X[:looked], problem.pool.propensity[:looked]))
        cut = StreamState.start(ended, lambda state: None)
        cut = replace(cut, bought=bought, codes=stream.codes, looked=looked)
        assert cut.importance(ended, rows, clip_constant=4.0)[0].tolist() == (
            stream.importance(problem, rows, clip_constant=4.0)[0].tolist()
        )


@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_systematic_sampling_matches_slow_twin(n, seed):
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
    assert sample_systematically(chance, np.random.default_rng(seed + 1)).tolist() == expected


def test_systematic_sampling_has_stated_marginals():
    # Five binomial tests at 1e-3/5 each: a right sampler fails with a chance below 1e-3.
    chance, n_draws = np.array([1.0, 0.7, 0.2, 0.1, 0.6, 0.4]), 4000
    rng = np.random.default_rng(0)
    counts = np.zeros(chance.size, dtype=int)
    for _ in range(n_draws):
        rows = sample_systematically(chance, rng)
        assert rows.size == 3
        counts[rows] += 1
    assert counts[0] == n_draws
    for count, p in zip(counts[1:].tolist(), chance[1:].tolist(), strict=True):
        assert binomtest(count, n_draws, p).pvalue > 1e-3 / 5


def test_budget_cut_scales_chances_correctly():
    world = World(m=30, n=12)
    problem = Problem(world.logged, world.pool)
    gaps = np.random.default_rng(1).random(12)
    drawn = draw(problem, PoolState.start(problem, lambda state: None), Choice(batch=6, explore_share=0.5), gaps)
    rng, n_draws, counts = np.random.default_rng(2), 3000, np.zeros(12, dtype=int)
    for _ in range(n_draws):
        plan = draw_plan(drawn, rng)
        cut = plan.cut(2)
        counts[cut.asked] += 1
        assert (cut.positions == plan.positions[:2]).all()
        np.testing.assert_allclose(cut.query_probability, plan.query_probability[:2] / 3)
    for count, chance in zip(counts.tolist(), (np.asarray(drawn.chance) / 3).tolist(), strict=True):
        assert binomtest(count, n_draws, chance).pvalue > 1e-3 / 12  # all right: fails with a chance below 1e-3


def test_large_pool_takes_few_bytes_per_row(monkeypatch):
    monkeypatch.setattr("observal.parquet.vectors.PIECE_ROWS", 4096)
    n, rng = 200_000, np.random.default_rng(0)
    X = np.zeros((n, 1))
    problem = Problem(ob.LoggedData(X[:2], [0.0, 1.0], 0.5), ob.Pool(X, rng.random(n)))
    state, gaps = PoolState.start(problem, lambda state: None), rng.random(n)
    tracemalloc.start()
    try:
        draw_plan(draw(problem, state, Choice(batch=50), gaps), np.random.default_rng(1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 9 * n  # what is open, who passes, places: 1, 1 and 4 bytes; a float64 for each row would be 8 more


def test_untaken_row_keeps_floor():
    x = np.array([0.1, 0.4])
    problem = Problem(ob.LoggedData(x[:, None], [0.0, 1.0], 0.5), ob.Pool(x[:, None], 0.5))
    drawn = draw(problem, PoolState.start(problem, lambda state: None), Choice(batch=1, explore_share=0.2), x)
    np.testing.assert_allclose(drawn.chance, [0.9, 0.1])


# -- what all pool methods do in a session ------------------------------------------------------------------------


@pytest.mark.parametrize("method", [FAST, TREE], ids=lambda method: type(method).__name__)
class TestInASession:
    def test_batch_bigger_than_the_pool_takes_all_of_it(self, method):
        world = World(m=60, n=15)
        result = ob.run(world.logged, world.pool, world.oracle, replace(method, batch=40))
        check_intervals(result)
        assert sorted(result.queries["id"].tolist()) == list(range(15))
        np.testing.assert_allclose(result.queries["query_probability"], 1.0)
        assert result.stopped == "every pool row has been looked at"

    def test_all_rows_skipped_buys_nothing_and_ends(self, method):
        world = World(m=60, n=25)
        result = ob.run(world.logged, world.pool, lambda ids: [None] * len(ids), method)
        check_intervals(result)
        assert len(result.queries) == 0
        assert len(result.decisions) == 25
        assert [r.skipped for r in result.rounds] == [0, 10, 10, 5]
        assert result.stopped == "every pool row has been looked at"

    def test_budget_cuts_the_round_and_scales_its_chances(self, method):
        world = World()
        whole = ob.Session(world.logged, world.pool, method, random_state=3).ask()
        cut = ob.Session(world.logged, world.pool, method, label_budget=4, random_state=3).ask()
        assert cut.ids.tolist() == whole.ids[:4].tolist()
        np.testing.assert_allclose(cut.query_probability, whole.query_probability[:4] * 4 / 10)

    def test_loaded_session_continues_like_the_saved_one(self, method, tmp_path):
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
        assert a.intervals == b.intervals
        assert (a.estimator.predict(world.X) == b.estimator.predict(world.X)).all()

    def test_session_reloaded_between_rounds_asks_for_the_same_rows(self, method, tmp_path):
        world = World()
        session = ob.Session(world.logged, world.pool, method, random_state=6)
        for _ in range(3):
            query = session.ask()
            session.tell(query.ids, world.oracle(query.ids))
        session.save(tmp_path / "session")
        loaded = ob.Session.load(tmp_path / "session", method if isinstance(method, CommitteeVC) else None)
        one, other = session.ask(), loaded.ask()
        assert one.ids.tolist() == other.ids.tolist()
        assert one.query_probability.tolist() == other.query_probability.tolist()
        assert one.reason == other.reason

    def test_log_of_one_class_works_and_both_classes_are_found(self, method):
        logged, pool, y = one_class()
        result = ob.run(logged, pool, lambda ids: y[ids], method, label_budget=20)
        check_intervals(result)
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

    def test_method_is_a_value(self, method):
        copy = pickle.loads(pickle.dumps(method))
        assert repr(copy) == repr(method)
        assert replace(method) == method != replace(method, batch=3)
        assert len(repr(method)) < 250
        assert method.curve_from_one_run


@pytest.mark.parametrize(
    "make",
    [
        *(
            lambda change=change, kind=kind: replace(kind, **change)
            for kind in (FAST, TREE)
            for change in (
                {"batch": 0},
                {"explore_share": -0.1},
                {"explore_share": float("nan")},
                {"gate_share": 1.5},
                {"tempering": -1.0},
                {"tempering": float("inf")},
                {"explore_share": "a"},
                {"gate_share": True},
                {"batch": np.float64(10)},
                {"batch": True},
            )
        ),
        lambda: NewtonVC(ridge="small"),
        lambda: AblatedNewtonVC(doubt="x"),
        lambda: NewtonVC(stop_below=None),
        lambda: AblatedNewtonVC(curvature=0),
        lambda: NewtonVC(refit_near_boundary=1),
        lambda: NewtonVC(features="waves"),
        lambda: NewtonVC(order="sideways"),
        lambda: AblatedNewtonVC(order="stream", doubt=0.0),
        lambda: AblatedNewtonVC(order="stream", doubt=0.5),
        lambda: AblatedNewtonVC(doubt=float("nan")),
        lambda: NewtonVC(stop_below=-1.0),
        lambda: AblatedNewtonVC(penalty=-1.0),
        lambda: AblatedNewtonVC(clip_constant=0.0),
        lambda: AblatedNewtonVC(clip_constant="x"),
        lambda: CommitteeVC(DecisionTreeClassifier(), clip_constant=0.0),
        lambda: CommitteeVC(DecisionTreeClassifier(), clip_constant="x"),
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
def test_bad_settings_raise_one_sentence(make):
    with pytest.raises(InvalidInput) as caught:
        make()
    message = str(caught.value)
    assert re.fullmatch(r"[^\n]{20,300}\.", message)
    assert not re.search(r"\.\s+[A-Z]", message)


def test_rounds_state_least_chance():
    world = World(0)
    result = ob.run(world.logged, world.pool, world.oracle, ob.NewtonVC(batch=8, explore_share=0.25), label_budget=24)
    for k, round_ in enumerate(result.rounds[:-1]):
        drawn = result.decisions["query_probability"][result.decisions["round"] == k + 1]
        assert 0.0 < round_.details["least_chance"] <= drawn.min() * (1 + 1e-12)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 3.0)), min_size=1, max_size=12), st.floats(0.1, 50.0))
def test_measuring_picks_complement_the_log(rows, wanted):
    doubt, rate = (np.array(part) for part in zip(*rows, strict=True))
    found = neyman_weights(doubt, rate, wanted)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0.2 / found.size - 1e-12).all()
    np.testing.assert_allclose(found, twin.measuring_weights(doubt, rate, wanted), atol=1e-6)
