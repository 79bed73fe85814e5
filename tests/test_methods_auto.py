"""AutoVC: chances, surprises, kept choices, replay, costs, classes, intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import observal as ob
from observal.errors import InvalidInput
from observal.learners.blend import fit_blend
from observal.methods import auto as auto_module
from observal.methods.auto import PRIOR_LABELS, count_surprises, explore_share
from observal.methods.draw import REASONS
from observal.problem.given import arrange
from observal.problem.goals import Goals
from observal.problem.problem import Problem
from tests.pool_worlds import World, check_intervals, one_class
from tests.reference import blend as slow

FAST = ("linear", "kernel")  # no trees: seconds less


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small fits on many threads wait for each other on a busy machine."""
    with threadpool_limits(1):
        yield


def bent(seed=0, n=700, m=300):
    """A world that no line fits, and whose log shows one half of it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    q = np.where(X[:, 0] > 0, 0.5, 0.02)
    shown = rng.random(m) < q[:m]
    logged = ob.LoggedData(X[:m], np.where(shown, y[:m], np.nan), q[:m], classes=(0, 1))
    return logged, ob.Pool(X[m:], q[m:]), X, y


def states(method, world, rounds, seed=0):
    """Return the problem and the state after each round."""
    problem = Problem(world.logged, world.pool)
    found = [method.begin(problem, np.random.default_rng(seed))]
    for k in range(rounds):
        plan = method.plan(problem, found[-1], np.random.default_rng([seed, k]))
        answers = ob.Answers(world.pool_y[plan.asked], np.ones(plan.asked.size, dtype=bool))
        found.append(method.advance(problem, found[-1], plan, answers, np.random.default_rng(k)))
    return problem, found


def test_learns_nonlinear_boundary():
    logged, pool, X, y = bent()
    result = ob.run(logged, pool, lambda ids: y[300:][ids], ob.AutoVC(), label_budget=60)
    errors = [1 - round_.estimator.score(X, y) for round_ in result.rounds]
    assert errors[0] > 0.2
    assert errors[-1] < 0.08
    assert [round_.labels for round_ in result.rounds] == [0, 10, 20, 30, 40, 50, 60]
    assert all(0.0 <= round_.disagreement <= 1.0 for round_ in result.rounds)
    assert {"error", "precision", "recall", "prevalence", "confounded error"} < set(result.intervals)


def test_batch_grows_with_labels_unless_set():
    problem = Problem(World().logged, World().pool)
    state = ob.AutoVC().begin(problem, np.random.default_rng(0))
    for n_bought, size in ((0, 10), (43, 10), (44, 11), (100, 25)):
        state = replace(state, bought=np.arange(n_bought))
        assert ob.AutoVC().choice(problem, state).batch == size
        assert ob.AutoVC(batch=7).choice(problem, state).batch == 7


def test_chances_follow_documented_formula():
    world, method = World(), ob.AutoVC(learners=FAST, explore_share=0.2)
    problem, found = states(method, world, 4)
    for state in found[1:]:
        before, plan = state.before, state.plan
        share = explore_share(count_surprises(before), 0.2, 0.5)
        want = slow.chances(
            before.model.pool_predictions.margins,
            np.flatnonzero(before.open_rows(problem)).tolist(),
            world.pool.propensity,
            len(world.logged),
            before.bought.size,
            10,
            share,
            slow.picked(before),
        )
        np.testing.assert_allclose(plan.query_probability, want[plan.positions], atol=1e-12)
        assert want.sum() == pytest.approx(10)
        chances = before.model.blend.predict_proba(world.pool.X[plan.positions])
        assert (plan.inferred == chances.argmax(axis=1)).all()
        np.testing.assert_allclose(plan.doubt, 1 - chances.max(axis=1), atol=1e-12)


@pytest.mark.parametrize("priority", ["accuracy", "balanced", "measure"])
def test_half_of_a_batch_is_picked_at_random_where_no_propensities_are_known(priority):
    world = World()
    log, pool, *_ = arrange(ob.LoggedData(world.logged.X, world.logged.y), ob.Pool(world.pool.X))
    problem, method = Problem(log, pool), ob.AutoVC(priority=priority)
    choice = method.choice(problem, method.begin(problem, np.random.default_rng(0)))
    assert (choice.explore_share, choice.most_blind) == (0.5, 1.0)


@pytest.mark.parametrize("written", [0.0, 0.01])
def test_random_picks_follow_the_share_of_the_pool_where_the_log_never_looked(written):
    """0.01 that was written for "never" is seen through, because no row of the log keeps that promise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    propensity = np.where(X[:, 0] > 0, 1.0, written)
    labels = np.where(X[:, 0] > 0, np.where(X[:, 1] > 0, 1.0, 0.0), np.nan)
    problem = Problem(ob.LoggedData(X[:2000], labels[:2000], propensity[:2000]), ob.Pool(X[2000:], propensity[2000:]))
    choice = ob.AutoVC().choice(problem, ob.AutoVC().begin(problem, rng))
    share = np.mean(X[2000:, 0] <= 0)
    assert choice.explore_share == pytest.approx(share / 2)
    assert choice.most_blind == pytest.approx((1 + share) / 2)


def test_surprises_are_counted_from_plans():
    world, method = World(noise=0.2), ob.AutoVC(learners=FAST, explore_share=0.5)
    _, found = states(method, world, 4)
    plans = [state.plan for state in found[1:]]
    answers = {int(i): int(world.pool_y[i]) for plan in plans for i in plan.asked}
    labels, excess = count_surprises(found[-1])
    assert labels > 5
    assert (labels, pytest.approx(excess)) == slow.surprise(plans, answers)
    assert method.choice(Problem(world.logged, world.pool), found[-1]).batch == 10
    assert explore_share(count_surprises(found[-1]), 0.0, 1.0) == pytest.approx(
        np.clip(excess / (PRIOR_LABELS + labels), 0.0, 1.0)
    )


def test_skipped_rows_are_not_surprises():
    world, method = World(), ob.AutoVC(learners=FAST, explore_share=1.0, most_explore_share=1.0)
    problem = Problem(world.logged, world.pool)
    state = method.begin(problem, np.random.default_rng(0))
    plan = method.plan(problem, state, np.random.default_rng(0))
    answered = np.arange(plan.asked.size) % 2 == 0
    codes = np.where(answered, world.pool_y[plan.asked], 0)
    after = method.advance(problem, state, plan, ob.Answers(codes, answered), np.random.default_rng(0))
    told = {int(i): int(world.pool_y[i]) if a else None for i, a in zip(plan.asked, answered, strict=True)}
    labels, excess = slow.surprise([plan], told)
    assert count_surprises(after).labels == labels == np.sum(answered & (plan.reason >= 2))
    assert count_surprises(after).excess == pytest.approx(excess)


def test_misleading_log_raises_exploration():
    """Half of the world is labelled the other way round there, where the log shows nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0.3)).astype(int)
    q = np.where(X[:, 1] > 0.3, 0.002, 0.6)
    shown = rng.random(600) < q[:600]
    logged = ob.LoggedData(X[:600], np.where(shown, y[:600], np.nan), q[:600], classes=(0, 1))
    shares = {}
    for name, truth in (("misleading", y), ("honest", (X[:, 0] > 0).astype(int))):
        log = logged if name == "misleading" else ob.LoggedData(X[:600], np.where(shown, truth[:600], np.nan), q[:600])
        session = ob.Session(log, ob.Pool(X[600:], q[600:]), ob.AutoVC(learners=FAST), label_budget=40)
        while (query := session.ask()) is not None:
            session.tell(query.ids, truth[600:][query.ids])
        by_lot = [np.mean(plan.reason == 2) for plan in session.plans]
        shares[name] = by_lot
    assert np.mean(shares["misleading"][1:]) > 1.5 * np.mean(shares["honest"][1:])
    assert max(shares["misleading"]) >= 0.2


def test_choices_are_kept_until_labels_grow_by_half():
    _, found = states(ob.AutoVC(learners=FAST, batch=4), World(), 6)
    anchors = [None if state.fit.anchor is None else state.fit.anchor.bought.size for state in found]
    assert anchors == [None, None, None, None, 12, None, 20]
    kept = found[4]
    assert kept.model.choices == found[3].model.choices
    assert kept.model.blend.theta.tolist() == found[3].model.blend.theta.tolist()


def test_loaded_session_fits_only_the_rounds_it_reads(monkeypatch, tmp_path):
    import observal.learners.blend as module

    world, method = World(), ob.AutoVC(learners=FAST, batch=4)
    session = ob.Session(world.logged, world.pool, method, label_budget=24)
    while (query := session.ask()) is not None:
        session.tell(query.ids, world.pool_y[query.ids])
    session.save(tmp_path / "s.zip")
    want, fits = session.estimator.predict_proba(world.X), []
    monkeypatch.setattr(auto_module, "fit_blend", lambda *a: fits.append(a[2].size) or module.fit_blend(*a))
    again = ob.Session.load(tmp_path / "s.zip")
    assert again.method == method
    assert (again.estimator.predict_proba(world.X) == want).all()
    assert len(fits) == 2  # the last round, and the one whose choices it keeps
    for one, other in zip(again.plans, session.plans, strict=True):
        assert (one.doubt == other.doubt).all()
        assert (one.inferred == other.inferred).all()


def test_same_seed_repeats_and_other_seed_differs():
    world, method = World(), ob.AutoVC()
    one, other, third = (
        ob.run(world.logged, world.pool, world.oracle, method, label_budget=20, random_state=seed) for seed in (0, 0, 1)
    )
    assert list(one.decisions) == list(other.decisions) != list(third.decisions)
    assert (one.estimator.predict_proba(world.X) == other.estimator.predict_proba(world.X)).all()


def test_three_classes_run_with_one_unlabelled():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] * X[:, 1], [-0.1, 0.15])]
    shown = (rng.random(200) < 0.3) & (y[:200] != "c")
    logged = ob.LoggedData(X[:200], np.where(shown, y[:200], None), 0.3, classes=("a", "b", "c"))
    result = ob.run(logged, ob.Pool(X[200:], 0.3), lambda ids: y[200:][ids], ob.AutoVC(), label_budget=80)
    check_intervals(result)
    assert result.estimator.classes_.tolist() == ["a", "b", "c"]
    assert result.estimator.score(X, y) > 0.85 > result.rounds[0].estimator.score(X, y)
    assert 0 <= result.error_interval.low < result.error_interval.high <= 1


def test_one_class_log_picks_at_random_until_second_class():
    logged, pool, y = one_class()
    result = ob.run(logged, pool, lambda ids: y[ids], ob.AutoVC(batch=5), label_budget=20)
    check_intervals(result)
    first = result.queries["reason"][result.queries["round"] == 1]
    assert set(first) == {REASONS[2]}
    assert result.estimator.score(pool.X, y) > 0.9


def test_whole_pool_can_be_bought():
    world = World(m=60, n=25)
    result = ob.run(world.logged, world.pool, world.oracle, ob.AutoVC(learners=FAST))
    check_intervals(result)
    assert len(result.queries) == 25
    assert result.stopped == "every pool row has been looked at"


def test_zero_cost_mistakes_are_ignored():
    base = World()
    cost = np.where(base.X[:, 1] > 0, 1.0, 0.0)
    world = World(cost=cost)
    result = ob.run(world.logged, world.pool, world.oracle, ob.AutoVC(learners=FAST), label_budget=20)
    check_intervals(result)
    dear = cost > 0
    assert result.estimator.score(world.X[dear], world.y[dear]) > 0.85


def test_sparse_rows_run():
    world = World(sparse=True)
    result = ob.run(world.logged, world.pool, world.oracle, ob.AutoVC(), label_budget=20)
    check_intervals(result)
    assert result.estimator.names == ("linear",)
    assert result.estimator.score(world.logged.X, world.y[:200]) > 0.85


# -- streams ------------------------------------------------------------------------------------------------------


def test_stream_is_decided_in_order_and_learned_from():
    logged, pool, X, y = bent(n=1300)
    method = ob.AutoVC(order="stream")
    result = ob.run(logged, pool, lambda ids: y[300:][ids], method, label_budget=60, random_state=1)
    check_intervals(result)
    assert 1 - result.rounds[-1].estimator.score(X, y) < 0.12 < 1 - result.rounds[0].estimator.score(X, y)
    decided = result.decisions
    assert decided["id"].tolist() == list(range(len(decided)))  # in the order in which they came
    asked, chance = decided["action"] == "asked", decided["query_probability"]
    assert (chance[asked] > 0).all()
    assert 0 < (chance[~asked] > 0).sum() < (~asked).sum()
    assert {"uncertain", "picked at random, so every row can be chosen"} <= set(decided["reason"][asked])
    assert result.rounds[-1].labels == asked.sum() == 60


@pytest.mark.parametrize("learners", [FAST, ("forest", "boosted")])
def test_future_stream_rows_change_nothing(learners):
    logged, pool, _, y = bent(n=900)
    method = ob.AutoVC(order="stream", learners=learners)

    def decisions(pool):
        session = ob.Session(logged, pool, method, random_state=4)
        for _ in range(3):
            query = session.ask()
            session.tell(query.ids, y[300:][query.ids])
        return list(session.result().decisions)

    before = decisions(pool)
    end = len(before)
    assert 30 <= end < 600
    X, q = pool.X.copy(), pool.propensity.copy()
    X[end:], q[end:] = 1e3, 1.0
    assert decisions(ob.Pool(X, q)) == before
    assert decisions(ob.Pool(X[:end], q[:end])) == before


def test_one_class_stream_treats_every_row_as_uncertain():
    rng = np.random.default_rng(0)
    logged = ob.LoggedData(rng.normal(size=(20, 2)), np.ones(20), 0.5, classes=(0, 1))
    session = ob.Session(logged, ob.Pool(rng.normal(size=(50, 2)), 0.5), ob.AutoVC(order="stream"), random_state=0)
    assert [int(one) for one in session.ask().ids] == list(range(10))


def test_saved_stream_continues_where_it_stopped(tmp_path):
    logged, pool, _, y = bent(n=700)
    method = ob.AutoVC(order="stream", learners=FAST)
    whole = ob.run(logged, pool, lambda ids: y[300:][ids], method, label_budget=30, random_state=2)
    session = ob.Session(logged, pool, method, 30, random_state=2)
    query = session.ask()
    session.tell(query.ids, y[300:][query.ids])
    session.save(tmp_path / "stream.observal")
    session = ob.Session.load(tmp_path / "stream.observal")
    while (query := session.ask()) is not None:
        session.tell(query.ids, y[300:][query.ids])
    assert list(session.result().decisions) == list(whole.decisions)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": "random"}, "order must be"),
        ({"batch": 0}, "batch must be"),
        ({"explore_share": 0.6}, "no larger than most_explore_share"),
        ({"explore_share": "many"}, "must be a number"),
        ({"tempering": -1.0}, "tempering"),
        ({"clip": 1}, "clip"),
        ({"learners": ("tree",)}, "learners must"),
    ],
)
def test_wrong_settings_raise(settings, message):
    with pytest.raises(InvalidInput, match=message):
        ob.AutoVC(**settings)


def test_measure_priority_picks_at_random_where_log_is_thin():
    world, shares = World(m=400, n=400), {}
    for priority in ("accuracy", "balanced", "measure"):
        method = ob.AutoVC(batch=40, learners=("linear", "kernel"), priority=priority)
        queries = ob.run(world.logged, world.pool, world.oracle, method, label_budget=80).queries
        shares[priority] = np.mean(["at random" in reason for reason in queries["reason"]])
    assert shares["accuracy"] < shares["balanced"] < shares["measure"]
    assert shares["measure"] >= 0.35
    with pytest.raises(InvalidInput, match="priority must be one of accuracy, balanced, measure, but is 'speed'"):
        ob.AutoVC(priority="speed")


def test_interval_labels_are_judged_by_out_of_fold_blends():
    logged, pool, _, _ = bent()
    problem = Problem(logged, pool)
    state = ob.AutoVC(learners=FAST).begin(problem, np.random.default_rng(0))
    rows, codes = state.labelled(problem)
    found = state.fit.refit(state)
    fold_of = np.random.default_rng(0).permutation(codes.size) % 7  # whatever the classes
    train, test = fold_of != 3, fold_of == 3
    weights = state.importance(problem, rows, 4.0)[0] ** 0.5
    X, population, kept = problem.take(rows), state.fit.population, state.model.choices
    blend = fit_blend(population, X[train], codes[train], weights[train], logged.classes, FAST, kept).blend
    np.testing.assert_allclose(found[test], blend.predict_proba(X[test]))
    judged = state.model.judged_labels
    np.testing.assert_allclose(judged.scores, found[:, 1] - found[:, 0])
    np.testing.assert_array_equal(judged.predicted, found.argmax(axis=1))


def test_lower_end_allows_for_fits_with_fewer_labels():
    """By the chances of fits without a seventh of the labels, those without a quarter are wrong more often; as much is still to come."""
    logged, pool, _, _ = bent()
    problem = Problem(logged, pool)
    method = ob.AutoVC(learners=FAST)
    state = method.begin(problem, np.random.default_rng(0))
    judged, chances, quarter = state.model.judged_labels, state.model.refitted, state.model.out_of_fold
    better = 0.0
    for weight, now, fewer in zip(judged.cells.row_weight, chances, quarter, strict=True):
        better += weight * (max(now) - now[int(np.argmax(fewer))])
    assert judged.better == pytest.approx(better)
    assert better > 0.0
    error = judged.cells.ratio((judged.predicted != judged.codes).astype(float), np.ones(judged.codes.size))
    found = method.intervals(problem, state)["error"]
    known = 1.0 - error.unknown  # rows that labels say nothing of may all be right, whatever labels still gain
    assert (found.low, found.high) == pytest.approx((max(0.0, error.low - known * better), error.high))


@pytest.mark.parametrize(("objective", "many"), [("recall=0.95", 2000), ("error", 50)])
def test_expected_gain_is_never_negative(monkeypatch, objective, many):
    """With an objective a fit with more labels may be wrong more often; with many labels the fits that judge are the blend's own."""
    monkeypatch.setattr(auto_module, "MANY_LABELS", many)
    logged, pool, _, _ = bent()
    problem = Problem(logged, pool, Goals(objective=objective))
    state = ob.AutoVC(learners=FAST).begin(problem, np.random.default_rng(0))
    model = state.model
    rows, odds = np.arange(len(model.out_of_fold)), [1.0, model.odds]
    now, fewer = ((chances * odds).argmax(axis=1) for chances in (model.refitted, model.out_of_fold))
    np.testing.assert_allclose(model.gains, model.refitted[rows, now] - model.refitted[rows, fewer])
    assert model.refitted is model.out_of_fold or many == 2000
    assert not model.gains.any() or many == 2000
    judged = model.judged_labels
    assert judged.better == pytest.approx(max(0.0, judged.cells.row_weight @ model.gains))
    assert judged.cells.counts is not None
