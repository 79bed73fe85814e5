from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

import observal as ob
from observal.diagnosis import Diagnosis, GivenDiagnosis, confounded_range, diagnose
from observal.diagnosis.calibration_check import check_calibration, feature_scores, least_factor
from observal.diagnosis.drift import DRIFT_LEVEL, find_drift, least_shift, shift_p_value
from observal.diagnosis.feature_values import scaled_ranks, standardised_difference
from observal.diagnosis.near_copies import copied_share, find_near_copies, finest_step, nearest_rows
from observal.diagnosis.overlap import find_overlap, roundest_between
from observal.errors import InvalidInput
from tests.reference import diagnosis as twin


def world(seed=0, rows=1500, chance=None, **pool_changes):
    """Two features, labels on the second, revealed by the first; the pool is the second half."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    q = np.clip(chance(X) if chance else 0.2 + 0.6 * (X[:, 0] > 0), 0.0, 1.0)
    half = rows // 2
    shown = rng.random(half) < q[:half]
    logged = ob.LoggedData(X[:half], np.where(shown, X[:half, 1] > 0, np.nan), q[:half])
    return logged, ob.Pool(pool_changes.get("X", X[half:]), q[half:])


def test_good_log_has_level_good():
    found = diagnose(*world())
    assert found.level == "good"
    assert found.warnings == ()
    assert "covers the pool" in found.verdict
    assert found.overlap.barely == 0.0
    assert found.calibration.status == "checked"


def test_blind_spot_is_described_in_feature_units():
    def chance(X):
        return np.where((X[:, 0] < -0.5) & (X[:, 1] > 0.3), 0.0005, 0.5)

    found = diagnose(*world(rows=4000, chance=chance), feature_names=["income", "age"])
    assert found.level == "buy"
    assert "cannot help" in found.verdict
    assert "Buy labels" in found.verdict
    (region,) = found.overlap.regions
    low_income, high_age = sorted(region.conditions, key=lambda c: c.column)
    assert low_income.feature == "income"
    assert low_income.high == pytest.approx(-0.5, abs=0.05)
    assert high_age.low == pytest.approx(0.3, abs=0.05)
    assert region.barely > 0.95
    assert region.words() in found.text()


def test_binary_features_are_named_in_regions():
    rng = np.random.default_rng(1)
    north = rng.random(1000) < 0.3
    pool = ob.Pool(np.column_stack([north, rng.normal(size=1000)]), np.where(north, 0.0, 0.5))
    shown = pool.propensity > 0
    overlap = find_overlap(pool, 1000, pool.propensity, shown, ["region=north", "age"], rng)
    assert overlap.regions[0].rule == "region=north"
    assert overlap.never == north.mean()
    others = ob.Pool(pool.X, np.where(north, 0.5, 0.0))
    found = find_overlap(others, 1000, others.propensity, ~shown, ["region=north", "age"], rng)
    assert found.regions[0].rule == "region ≠ north"


CHANCES = st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.04, 0.1, 0.5, 1.0])


@given(
    st.lists(CHANCES, min_size=1, max_size=30),
    st.lists(CHANCES, min_size=1, max_size=40),
    st.integers(1, 20),
    st.data(),
)
def test_barely_covered_share_matches_reference(propensity, logged, copies, data):
    logged = np.repeat(logged, copies)
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    revealed = rng.random(logged.size) < logged * data.draw(st.sampled_from([0.0, 0.2, 1.0]))
    pool = ob.Pool(np.zeros((len(propensity), 1)), propensity)
    found = find_overlap(pool, logged.size + 0.5, logged, revealed, ["x"], rng)
    assert found.barely == twin.barely_covered(propensity, logged.tolist(), revealed.tolist(), logged.size + 0.5)


def test_good_verdict_names_untested_assumptions():
    found = diagnose(*world())
    assert found.level == "good"
    assert "No test can show" in found.verdict


# -- what a small log cannot show


@pytest.mark.parametrize("rows", [300, 1000, 5000])
@pytest.mark.parametrize("policy", ["scorecard", "low"])
def test_least_factor_is_found_in_four_logs_of_five(rows, policy):
    """Of 250 logs off by the least factor, in the direction that is harder to see: outside of 65 % to 95 % has chance below 1e-4."""
    rng, found = np.random.default_rng(rows), {"too high": 0, "too low": 0}
    for _ in range(250):
        x = rng.normal(size=rows)
        q = 0.1 + 0.5 / (1.0 + np.exp(-2.0 * x)) if policy == "scorecard" else np.clip(10 ** (x - 1.5), 0.001, 0.999)
        factor = least_factor(q)
        for wrong, truth in (("too high", q / factor), ("too low", np.minimum(1.0, factor * q))):
            found[wrong] += check_calibration(q, rng.random(rows) < truth).suspicious
    assert 0.65 < min(found.values()) / 250 < 0.95


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=20), st.integers(10, 60))
@settings(max_examples=30)
def test_least_factor_has_power_of_four_fifths(values, copies):
    q = np.repeat(values, copies)
    factor = least_factor(q)
    if factor is None:
        assert twin.power_of_overall_test(q, q / 1000.0) < 0.8
        return
    powers = [twin.power_of_overall_test(q, chances) for chances in (q / factor, np.minimum(1.0, factor * q))]
    assert min(powers) == pytest.approx(0.8, abs=0.02) or (
        powers[0] == pytest.approx(0.8, abs=0.02) and powers[1] < 0.8
    )


@pytest.mark.parametrize(("rows", "features"), [(300, 2), (1000, 6), (5000, 20)])
def test_least_shift_is_found_in_four_samples_of_five(rows, features):
    """Of 250 pairs of samples: outside of 65 % to 95 % has chance below 1e-4."""
    rng, found = np.random.default_rng(rows), 0
    is_pool = np.arange(2 * rows) >= rows
    for _ in range(250):
        X = rng.normal(size=(2 * rows, features))
        X[rows:, 0] += least_shift(rows, rows, features)
        found += shift_p_value(standardised_difference(scaled_ranks(X), is_pool), is_pool) < DRIFT_LEVEL / 2
    assert 0.65 < found / 250 < 0.95


def test_good_verdict_says_what_it_may_have_missed():
    small, large = diagnose(*world(rows=600)), diagnose(*world(rows=8000))
    for found in (small, large):
        assert found.level == "good"
        assert f"wrong by a factor below {found.calibration.least_factor:.2f}" in found.verdict
        assert f"by less than {found.drift.least_shift:.2f} standard deviations" in found.verdict
        assert found.to_dict()["calibration"]["least_factor"] == found.calibration.least_factor
    assert "300 rows may be too few to detect" in small.verdict
    assert small.calibration.least_factor > 1.2
    assert large.calibration.least_factor < 1.1
    assert small.drift.least_shift > 2 * large.drift.least_shift


def test_log_that_cannot_be_checked_is_not_good():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(430, 2))
    shown = rng.random(400) < 0.985
    logged = ob.LoggedData(X[:400], np.where(shown, X[:400, 0] > 0, np.nan), np.where(np.arange(400) < 200, 0.99, 0.98))
    found = diagnose(logged, ob.Pool(X[400:415], 0.99))
    assert found.level == "care"
    assert "too few rows to check whether log and pool come from the same population" in found.warnings[0]


def test_rarely_shown_log_says_that_any_factor_goes_unnoticed():
    assert least_factor(np.full(300, 0.02)) is None
    calibration = check_calibration(np.full(300, 0.02), np.arange(300) < 6)
    assert "wrong by any factor" in calibration.sentences()[-1]


# -- near-copies


def with_copies(X, copies, spread, rng):
    """Return rows of which three in ten are near-copies, and the row that each is a copy of."""
    n = len(X)
    of_row = np.concatenate([np.arange(int(n * 0.7)), np.repeat(np.arange(int(n * 0.3 / copies)), copies)])
    return X[of_row] + spread * rng.normal(size=(of_row.size, X.shape[1])) * (np.arange(of_row.size) >= n * 0.7)[
        :, None
    ], of_row


@pytest.mark.parametrize("copies", [2, 3])
def test_near_copies_are_found_and_named(copies):
    rng = np.random.default_rng(0)
    X, of_row = with_copies(rng.normal(size=(1000, 5)), copies, 0.01, rng)
    y = rng.random(1000) < 0.5
    logged = ob.LoggedData(X, np.where(rng.random(len(X)) < 0.4, y[of_row], np.nan), 0.4)
    found = diagnose(logged, ob.Pool(rng.normal(size=(1000, 5)), 0.4))
    assert 0.3 <= found.near_copies.share <= 0.75
    assert found.level == "care"
    sentence = next(warning for warning in found.warnings if "near-copy" in warning)
    assert sentence.startswith(f"{round(100 * found.near_copies.share)}% of the log's rows have a near-copy in it.")
    assert "--group" in sentence
    named = ob.LoggedData(X, logged.y, 0.4, groups=of_row)
    assert find_near_copies(named, rng).rows == 0
    assert find_near_copies(ob.LoggedData(X, y[rng.permutation(len(X)) % 1000], 1.0), rng).share == 0.0  # labels differ


@pytest.mark.parametrize("kind", ["normal", "plane", "one feature", "few values", "many zeros", "sparse", "correlated"])
def test_unrelated_rows_have_no_near_copies(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    rows = {
        "normal": X,
        "plane": X[:, :2],
        "one feature": X[:, :1],
        "few values": np.round(2.0 * X),
        "many zeros": np.maximum(X, 0.0).round(2),
        "sparse": sp.csr_array(np.where(X > 1.0, X, 0.0)),
        "correlated": X[:, :3] @ rng.normal(size=(3, 12)),
    }[kind]
    assert not find_near_copies(ob.LoggedData(rows, X[:, 0] > 0, 1.0), rng).found


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
@settings(max_examples=20)
def test_near_copies_match_reference(seed, step):
    rng = np.random.default_rng(seed)
    X, _ = with_copies(rng.normal(size=(60, 4)), 2, 0.02, rng)
    distances, nearest = nearest_rows(X, np.arange(len(X)))
    assert np.array_equal(distances[:, 0], np.sqrt(((X - X[nearest]) ** 2).sum(axis=1)))
    share = copied_share(distances, step, np.full((len(X), 2), -1))
    assert share in (0.0, pytest.approx(twin.near_copy_share(X.tolist(), step)))
    assert share > 0.0 or step > 0.0
    assert finest_step(X) < 0.1


@pytest.mark.parametrize("wrong", ["too large", "too small", "leave out a feature"])
def test_propensities_off_by_a_quarter_or_a_feature_are_detected(wrong):
    """At 2,000 rows at least 95 % of such logs are found; 30 of 40 or fewer would have chance below 1e-5."""
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(40):
        X = rng.normal(size=(2000, 6))
        q = 0.1 + 0.5 / (1.0 + np.exp(-2.0 * X[:, 0]))
        odds = q / (1.0 - q) * np.exp(0.5 * X[:, 3])
        truth = {"too large": q / 1.25, "too small": q * 1.25, "leave out a feature": odds / (1.0 + odds)}[wrong]
        calibration = check_calibration(q, rng.random(2000) < truth, False, X, [f"x{i}" for i in range(6)])
        found += calibration.suspicious
        if wrong == "leave out a feature" and calibration.suspicious:
            assert calibration.features[0][0] == "x3"
            assert "more often where x3 is high" in calibration.sentences()[0]
    assert found > 30


@given(st.integers(0, 10**6), st.integers(2, 40))
def test_feature_scores_match_reference(seed, rows):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(rows, 2)).astype(float)
    q = rng.uniform(0.2, 0.8, rows)
    residual = (rng.random(rows) < q) - q
    for column, z in enumerate(feature_scores(X, residual, q * (1.0 - q))):
        if np.isfinite(z):
            assert z == pytest.approx(twin.feature_score(X[:, column].tolist(), residual, q * (1.0 - q)), abs=1e-9)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 0.3]), st.floats(0.01, 1.0)),
        min_size=1,
        max_size=9,
    ),
    st.floats(1.0, 5.0),
)
def test_confounded_range_matches_brute_force(rows, strength):
    outcomes, propensity = zip(*rows, strict=True)
    assert confounded_range(outcomes, propensity, strength) == pytest.approx(
        twin.confounded_range(outcomes, propensity, strength), abs=1e-12
    )


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=30), st.data())
def test_stronger_confounding_never_narrows_the_range(propensity, data):
    outcomes = data.draw(st.lists(st.booleans(), min_size=len(propensity), max_size=len(propensity)))
    ranges = [confounded_range(outcomes, propensity, g) for g in (1.0, 1.5, 3.0)]
    assert ranges[0][0] == pytest.approx(ranges[0][1])
    for (low, high), (lower, higher) in pairwise(ranges):
        assert lower <= low + 1e-12
        assert high <= higher + 1e-12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [0.5], 0.5), "strength of confounding must be at least 1"),
        (([1.0], [0.0], 2.0), "propensities above 0"),
        (([np.nan], [0.5], 2.0), "finite outcomes"),
        (([], [], 2.0), "0 outcomes"),
    ],
)
def test_confounded_range_rejects_invalid_input(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        confounded_range(*arguments)


@given(st.integers(0, 10**6), st.sampled_from([50, 400, 3000]), st.booleans())
@settings(max_examples=25)
def test_calibration_matches_reference(seed, rows, few_values):
    rng = np.random.default_rng(seed)
    q = rng.choice([0.0, 0.1, 0.5, 1.0], rows) if few_values else rng.beta(1.0, 3.0, rows)
    revealed = rng.random(rows) < q
    found = check_calibration(q, revealed)
    if found.status != "checked":
        return
    statistic, error = twin.calibration([(b.low, b.high) for b in found.bins], q, revealed)
    assert found.bins_p == pytest.approx(float(chdtrc(len(found.bins), statistic)), abs=1e-9)
    assert found.p_value == pytest.approx(min(1.0, 3.0 * min(found.overall_p, found.bins_p)))
    assert found.expected_error == pytest.approx(error)
    assert sum(b.rows for b in found.bins) == np.count_nonzero((q > 0) & (q < 1))
    assert all(b.error * b.rows >= np.sqrt(5.0) - 1e-9 for b in found.bins)
    assert all(a.high < b.low for a, b in pairwise(found.bins))


def test_correct_propensities_give_uniform_p_values():
    """2,000 logs with right propensities: the share of p-values below 1 % stays within 4.2 standard errors of it.

    A binomial(2000, 0.01) count is above 40 with chance below 1e-5; chi-square tails are close, not exact, hence 45.
    """
    rng = np.random.default_rng(5)
    q = np.clip(rng.beta(1.0, 4.0, 800), 1e-3, 1.0)
    below = sum(check_calibration(q, rng.random(800) < q).p_value < 0.01 for _ in range(2000))
    assert below <= 45


def test_calibration_ignores_row_order():
    q = np.full(1000, 0.3)
    revealed = np.arange(1000) < 300  # all the labels come first, as in a sorted file
    assert check_calibration(q, revealed).p_value > 0.9


def test_wrong_propensities_are_detected_and_described():
    rng = np.random.default_rng(2)
    q = rng.uniform(0.1, 0.9, 3000)
    found = check_calibration(q, rng.random(3000) < np.sqrt(q))
    assert found.cannot_be_right
    assert "cannot be right" in found.sentences()[0]
    logged = ob.LoggedData(
        np.zeros((3000, 1)), np.where(rng.random(3000) < np.sqrt(q), rng.integers(0, 2, 3000), np.nan), q
    )
    diagnosis = diagnose(logged, ob.Pool(np.zeros((50, 1)), 0.5))
    assert "The propensities contradict which labels were revealed: correct them" in diagnosis.verdict
    assert "cannot be right" in diagnosis.warnings[0]


def test_hidden_label_with_propensity_one_contradicts():
    found = check_calibration(np.array([1.0, 1.0]), np.array([True, False]))
    assert found.cannot_be_right
    assert "1 row had propensity 1" in found.sentences()[0]


def test_log_of_labelled_rows_only_is_recognised():
    logged, pool = world(rows=4000)
    labelled = ob.LoggedData(logged.X[logged.revealed], logged.y[logged.revealed], logged.propensity[logged.revealed])
    found = diagnose(labelled, pool)
    assert found.labelled_only
    assert found.calibration.status == "labelled rows only"
    assert "cannot be checked" in found.text()
    # Σ 1/Q0 has standard deviation sqrt(Σ (1−Q0)/Q0) ≤ sqrt(4·2000) < 90 here, so 400 is beyond four of them.
    assert found.n_logged_rows == pytest.approx(len(logged), abs=400)
    assert not found.drift.found  # the pool is thinned as the policy would have done


def test_drift_is_detected_but_selection_is_not_drift():
    logged, pool = world(rows=3000)
    assert not diagnose(logged, pool).drift.found  # labels are revealed by x0, rows are alike
    moved = ob.Pool(np.add(pool.X, [0.0, 0.6]), pool.propensity)
    found = diagnose(logged, moved, feature_names=["age", "income"])
    assert found.drift.found
    assert found.drift.differences[0][0] == "income"
    assert found.drift.differences[0][1] == pytest.approx(0.6, abs=0.15)
    assert "income is 0.6" in found.drift.sentences()[0]
    assert found.level == "care"


def test_drift_of_spread_is_detected():
    logged, pool = world(rows=3000)
    wider = ob.Pool(pool.X * [1.0, 2.0], pool.propensity)
    assert find_drift(ob.Problem(logged, wider), ["a", "b"], np.random.default_rng(0)).found


@pytest.mark.slow
def test_drift_raises_few_false_alarms():
    """60 pairs without drift: each p-value is below 0.01 with chance at most 0.01; five or more alarms: under 1/1000."""
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(120, 3))
        logged = ob.LoggedData(X[:60], X[:60, 0] > 0, 1.0, classes=[False, True])
        alarms += find_drift(ob.Problem(logged, ob.Pool(X[60:], 1.0)), ["a", "b", "c"], rng).found
    assert alarms <= 4


def test_diagnosis_is_reproducible_and_options_are_independent():
    logged, pool = world()
    first = diagnose(logged, pool, random_state=3)
    assert first == diagnose(logged, pool, random_state=3)
    assert first.drift == diagnose(logged, pool, random_state=3, confounding=()).drift


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_names": ["one"]}, "one name for each of the 2 features, but 1 were given"),
        ({"confounding": (0.5,)}, "strength of confounding must be at least 1"),
        ({"random_state": -1}, "whole number of at least 0"),
    ],
)
def test_invalid_input_raises_one_sentence(options, message):
    with pytest.raises(InvalidInput, match=message):
        diagnose(*world(rows=40), **options)


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_roundest_between_stays_within_bounds(a, b):
    if a == b:
        return
    low, high = min(a, b), max(a, b)
    assert low <= roundest_between(low, high) < high


@st.composite
def problems(draw):
    """Any valid log and pool, small: odd values, odd propensities, constant and huge features, several classes."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    m, n = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    d = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["normal", "huge", "tiny", "constant", "binary", "sparse", "float32"]))
    X = {
        "normal": lambda: rng.normal(size=(m + n, d)),
        "huge": lambda: rng.choice([-1.7e308, 0.0, 1e300, 1.7e308], (m + n, d)),
        "tiny": lambda: rng.choice([0.0, 5e-324, 1e-310], (m + n, d)),
        "constant": lambda: np.full((m + n, d), 7.0),
        "binary": lambda: rng.integers(0, 2, (m + n, d)),
        "sparse": lambda: sp.random(m + n, d, 0.3, format="csr", random_state=rng),
        "float32": lambda: rng.normal(size=(m + n, d)).astype(np.float32),
    }[kind]()
    chance = draw(st.sampled_from(["even", "constant", "one", "extreme", "zero"]))
    q = {
        "even": lambda: rng.random(m + n),
        "constant": lambda: np.full(m + n, 0.3),
        "one": lambda: np.ones(m + n),
        "extreme": lambda: rng.choice([5e-324, 1e-300, 1e-3, 1.0], m + n),
        "zero": lambda: rng.choice([0.0, 0.5, 1.0], m + n),
    }[chance]()
    classes = draw(st.sampled_from([(0, 1), ("no", "yes"), ("a", "b", "c")]))
    shown = q[:m] > 0.0 if draw(st.booleans()) else (rng.random(m) < q[:m]) & (q[:m] > 0.0)
    labels = np.asarray(classes, dtype=object)[rng.integers(0, len(classes), m)]
    cost = rng.random(m + n) if draw(st.booleans()) else None
    logged = ob.LoggedData(
        X[:m], np.where(shown, labels, None), q[:m], classes=classes, cost=None if cost is None else cost[:m]
    )
    return logged, ob.Pool(X[m:], q[m:], cost=None if cost is None else cost[m:])


@given(problems())
@settings(max_examples=40)
@pytest.mark.filterwarnings("error")
def test_diagnosis_accepts_every_valid_log(problem):
    found = diagnose(*problem)
    assert isinstance(found, Diagnosis)
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.verdict in " ".join(found.text().split())
    assert all(warning.endswith(".") for warning in found.warnings)
    if isinstance(found, GivenDiagnosis):  # propensity 1 in the log and 0 in the pool says the same
        return
    assert all(0.0 <= region.share <= 1.0 and 0.0 <= region.barely <= 1.0 for region in found.overlap.regions)
    for _, low, high in found.confounding.ranges:
        assert -1e-9 <= low <= found.confounding.error + 1e-9 <= high + 2e-9 <= 1.0 + 1e-6


def test_three_labels_are_reported_as_too_few():
    logged = ob.LoggedData([[0.0], [1.0], [2.0]], [0, 1, 1], 0.9)
    found = diagnose(logged, ob.Pool([[0.5]], 0.9))
    assert found.level == "buy"
    assert found.confounding.error is None
    assert not found.drift.checked


def test_diagnosis_accepts_very_many_features():
    rng = np.random.default_rng(0)
    X = sp.random(600, 1000, 0.05, format="lil", random_state=rng)
    X[:, 700] = (np.arange(600) % 2)[:, None]
    X = X.tocsr()
    q = np.where(np.arange(600) % 2 == 1, 0.001, 0.6)
    shown = rng.random(300) < q[:300]
    logged = ob.LoggedData(X[:300], np.where(shown, rng.integers(0, 2, 300), np.nan), q[:300], classes=[0, 1])
    found = diagnose(logged, ob.Pool(X[300:], q[300:]))
    assert found.overlap.regions[0].rule == "x700 = 1"
