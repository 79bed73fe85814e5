"""ExactDBAL against its slow twin, round by round, and the promises of its switches."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import observal as ob
from observal.errors import InvalidInput, InvalidLabel, NotPredictable
from observal.paper.exact import _schedule
from tests.pool_worlds import check_intervals
from tests.reference.exact import algorithm1

SWITCHES = [
    {},
    {"clip": False},
    {"regulariser": False},
    {"clip": False, "regulariser": False},
    {"bias_correction": False},
    {"bias_correction": False, "multiple_importance": False},
    {"bias_correction": False, "multiple_importance": False, "clip": False},
    {"disagreement": False},
    {"disagreement": False, "regulariser": False},
]


def problem(seed, m=120, n=90, n_h=25, noise=0.1):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, m + n)
    cuts = np.linspace(-1, 1, n_h)
    predictions = np.where(x > cuts[:, None], 1, -1)
    y = np.where((x > 0.2) ^ (rng.random(m + n) < noise), 1, -1)
    q = rng.choice([0.02, 0.3, 1.0], m + n)
    revealed = rng.random(m) < q[:m]
    log_y = np.where(revealed, y[:m], 0)
    logged = ob.LoggedData(x[:m, None], np.where(revealed, y[:m], np.nan), q[:m], classes=(-1, 1))
    pool = ob.Pool(x[m:, None], q[m:])
    return predictions, log_y, y[m:], q, logged, pool


@given(
    st.integers(0, 10_000),
    st.sampled_from(SWITCHES),
    st.sampled_from(["certified", 1.0, 0.2, 0.05, 0.0]),
    st.sampled_from([None, (3, 3, 10, 20), (40,)]),
)
@settings(max_examples=150)
@example(318, {"clip": False}, 0.0, None)  # two candidates are equal but for rounding
def test_every_round_is_that_of_the_slow_twin(seed, switches, gamma, epochs):
    predictions, log_y, pool_y, q, logged, pool = problem(seed)
    m = len(logged)
    method = ob.ExactDBAL(ob.FiniteClass(predictions), confidence=0.9, epochs=epochs, gamma=gamma, **switches)
    result = ob.run(logged, pool, lambda ids: pool_y[ids], method)
    expected = algorithm1(
        predictions[:, :m],
        log_y,
        q[:m],
        predictions[:, m:],
        pool_y,
        q[m:],
        _schedule(epochs, len(pool)),
        1 - 0.9,
        gamma,
        **switches,
    )
    assert len(result.rounds) == len(expected)
    for ours, twin in zip(result.rounds, expected, strict=True):
        assert ours.clip == pytest.approx(twin["clip"], rel=1e-12)
        assert ours.candidates == len(twin["kept"])
        assert ours.disagreement == pytest.approx(twin["region"].mean())
        assert ours.details["estimated_loss"] == pytest.approx(twin["loss"], abs=1e-12)
    for ours, before in zip(result.rounds[1:], expected[:-1], strict=True):
        assert (ours.asked, ours.inferred, ours.passed) == (before["asked"], before["inferred"], before["passed"])
    assert result.rounds[-1].labels == sum(r.asked for r in result.rounds) == len(result.queries)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@pytest.mark.parametrize("gamma", ["certified", 1.0, 0.2, 0.05, 0.0])
def test_every_round_has_intervals(switches, gamma):
    for seed in range(5):
        predictions, _, pool_y, _, logged, pool = problem(seed)
        method = ob.ExactDBAL(ob.FiniteClass(predictions), confidence=0.9, gamma=gamma, **switches)
        check_intervals(ob.run(logged, pool, lambda ids, y=pool_y: y[ids], method))


def test_rows_are_asked_inferred_or_passed_for_a_stated_reason():
    predictions, _, pool_y, _, logged, pool = problem(3)
    result = ob.run(logged, pool, lambda ids: pool_y[ids], ob.ExactDBAL(ob.FiniteClass(predictions), gamma=0.05))
    actions = result.decisions["action"]
    assert set(actions) == {"asked", "inferred", "passed"}
    assert len(result.decisions) == len(pool)
    assert (result.decisions["query_probability"] == (actions == "asked")).all()
    assert (result.queries["label"] == pool_y[result.queries["id"]]).all()
    reasons = {a: set(result.decisions["reason"][actions == a]) for a in set(actions)}
    assert all(len(reason) == 1 for reason in reasons.values())


def test_costs_of_one_change_nothing_and_costs_of_zero_decide_nothing():
    predictions, _, pool_y, _, logged, pool = problem(4)
    method = ob.ExactDBAL(ob.FiniteClass(predictions), gamma=0.1)

    def with_cost(value):
        log = ob.LoggedData(logged.X, logged.y, logged.propensity, classes=(-1, 1), cost=np.full(len(logged), value))
        return ob.run(
            log, ob.Pool(pool.X, pool.propensity, cost=np.full(len(pool), value)), lambda ids: pool_y[ids], method
        )

    plain = ob.run(logged, pool, lambda ids: pool_y[ids], method)
    assert [r.candidates for r in with_cost(1.0).rounds] == [r.candidates for r in plain.rounds]
    assert {r.candidates for r in with_cost(0.0).rounds} == {25}


def test_costly_rows_pull_the_classifier_towards_them():
    # Two rows that no threshold can both satisfy: the one whose mistake costs more wins.
    X = np.array([[0.0], [1.0]] * 200)
    y = np.array([1, -1] * 200)
    pool = ob.Pool([[0.0]], 1.0, cost=[1.0])
    predictions = np.array([[1, 1] * 200 + [1], [-1, -1] * 200 + [-1]])
    for costs, expected in (([1.0, 0.2], [1, 1]), ([0.2, 1.0], [-1, -1])):
        logged = ob.LoggedData(X, y, 1.0, cost=costs * 200)
        result = ob.run(logged, pool, lambda ids: [1], ob.ExactDBAL(ob.FiniteClass(predictions), gamma=0.1))
        check_intervals(result)
        assert result.estimator.member.predictions[:2].tolist() == expected


@pytest.mark.parametrize("cls", [ob.Thresholds(), ob.Stumps(), ob.HalfPlanes(), ob.Rectangles()])
def test_every_class_learns_and_predicts_new_rows(cls):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 2)) if not isinstance(cls, ob.Rectangles) else rng.integers(-4, 5, (60, 2)) / 4
    y = np.where(X[:, 0] > 0, "late", "on time")
    logged = ob.LoggedData(X[:40], y[:40], 1.0)
    pool = ob.Pool(X[40:], 0.0)
    result = ob.run(logged, pool, lambda ids: y[40:][ids], ob.ExactDBAL(cls, gamma=0.01))
    check_intervals(result)
    assert result.estimator.predict([[0.9, 0.0]])[0] == "late"
    assert result.estimator.score(X, y) > 0.9
    assert result.rounds[0].details["certified"] is False
    assert "enumerated on the data" in result.rounds[0].details["not_certified_because"]


def test_certified_means_fixed_class_known_distribution_and_certified_gamma():
    predictions, _, pool_y, _, logged, pool = problem(5)
    distribution = ((0.02, 0.3, 1.0), (1 / 3, 1 / 3, 1 / 3))
    certified = ob.ExactDBAL(ob.FiniteClass(predictions), propensity_distribution=distribution)

    def details(method):
        return ob.run(logged, pool, lambda ids: pool_y[ids], method).rounds[0].details

    assert details(certified)["certified"] is True
    for change in ({"gamma": 0.1}, {"propensity_distribution": None}):
        assert details(replace(certified, **change))["certified"] is False

    def last(oracle, **kwargs):
        return ob.run(logged, pool, oracle, certified, **kwargs).rounds[-1].details

    assert last(lambda ids: pool_y[ids])["certified"] is True
    skipping = last(lambda ids: [None if pool_y[i] > 0 else -1 for i in ids])
    assert skipping["not_certified_because"] == "rows were skipped"
    assert (
        last(lambda ids: pool_y[ids], label_budget=7)["not_certified_because"] == "the label budget cut a round short"
    )
    wrong = replace(certified, propensity_distribution=((0.9,), (1.0,)))
    with pytest.raises(InvalidInput, match="must hold every propensity"):
        details(wrong)


def test_interval_says_when_it_is_only_approximate():
    _, _, pool_y, _, logged, pool = problem(5)
    result = ob.run(logged, pool, lambda ids: pool_y[ids], ob.ExactDBAL(ob.Thresholds(), gamma=0.1))
    assert "approximate, because the class was enumerated on the data" in result.error_interval.method


def test_class_of_predictions_cannot_predict_other_rows_and_says_so():
    predictions, _, pool_y, _, logged, pool = problem(6)
    result = ob.run(logged, pool, lambda ids: pool_y[ids], ob.ExactDBAL(ob.FiniteClass(predictions), gamma=0.1))
    with pytest.raises(NotPredictable):
        result.estimator.predict([[0.0]])


def test_callables_predict_new_rows():
    _, _, pool_y, _, logged, pool = problem(7)
    cls = ob.FiniteClass.from_callables([lambda X, c=c: np.where(X[:, 0] > c, 1, -1) for c in np.linspace(-1, 1, 9)])
    result = ob.run(logged, pool, lambda ids: pool_y[ids], ob.ExactDBAL(cls, gamma=0.1))
    check_intervals(result)
    assert result.estimator.predict([[0.95], [-0.95]]).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"confidence": 1.0}, "confidence must be above 0"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"gamma": "loose"}, "gamma must be"),
        ({"gamma": np.inf}, "gamma must be"),
        ({"gamma": True}, "gamma must be"),
        ({"epochs": [2, 4]}, "tuple of row counts"),
        ({"epochs": 10}, "tuple of row counts"),
        ({"hypotheses": None}, "hypotheses must be"),
        ({"hypotheses": ob.Thresholds}, "hypotheses must be"),
        ({"epochs": (4, 2)}, "never shrink"),
        ({"epochs": (0, 2)}, "at least 1"),
        ({"epochs": ()}, "at least 1"),
        ({"multiple_importance": False}, "switch both off"),
    ],
)
def test_bad_settings_get_one_sentence(kwargs, message):
    with pytest.raises(InvalidInput, match=message):
        ob.ExactDBAL(**{"hypotheses": ob.Thresholds(), **kwargs})


def test_three_classes_are_refused():
    logged = ob.LoggedData([[0.0], [1.0], [2.0]], [0, 1, 2], 1.0)
    with pytest.raises(InvalidLabel, match="exactly two classes"):
        ob.Session(logged, ob.Pool([[0.0]], 1.0), ob.ExactDBAL(ob.Thresholds()))


def test_method_is_data():
    method = ob.ExactDBAL(ob.Thresholds(), gamma=0.1)
    assert method == ob.ExactDBAL(ob.Thresholds(), gamma=0.1)
    assert pickle.loads(pickle.dumps(method)) == method
    assert "gamma=0.1" in repr(method)


@given(st.integers(1, 500), st.none() | st.lists(st.integers(1, 50), min_size=1, max_size=6).map(sorted).map(tuple))
def test_schedules_never_shrink_and_use_every_row(n_pool, epochs):
    sizes = _schedule(epochs, n_pool)
    assert sum(sizes) == n_pool
    assert list(sizes) == sorted(sizes)


def test_propensity_of_zero_is_fine_on_the_pool():
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, 100)
    logged = ob.LoggedData(x[:50, None], np.where(x[:50] > 0, 1, 0), 1.0)
    pool = ob.Pool(x[50:, None], np.where(x[50:] > 0.5, 0.0, 1.0))
    for clip in (True, False):
        method = ob.ExactDBAL(ob.Thresholds(), gamma=0.05, clip=clip)
        result = ob.run(logged, pool, lambda ids: np.where(x[50:][ids] > 0, 1, 0), method)
        check_intervals(result)
        assert np.isfinite(result.rounds[-1].details["estimated_loss"])


def test_interval_holds_the_error_of_the_returned_classifier():
    rng = np.random.default_rng(9)
    x = rng.uniform(-1, 1, 30_000)
    y = np.where((x > 0.1) ^ (rng.random(x.size) < 0.1), 1, -1)
    logged = ob.LoggedData(x[:20_000, None], y[:20_000], 1.0)
    pool = ob.Pool(x[20_000:, None], 1.0)
    cuts = np.linspace(-1, 1, 51)
    cls = ob.FiniteClass(np.where(x > cuts[:, None], 1, -1))
    result = ob.run(logged, pool, lambda ids: y[20_000:][ids], ob.ExactDBAL(cls, gamma=0.1))
    error = 0.1 + 0.8 * abs(cuts[int(np.argmin(abs(cuts - 0.1)))] - 0.1) / 2
    assert result.error_interval.low <= error <= result.error_interval.high
    assert result.error_interval.high - result.error_interval.low < 0.1
