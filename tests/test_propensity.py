from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

import observal as ob
from observal.diagnosis.propensity import (
    apply_floor,
    calibration_error,
    complete_log,
    count_logged_rows,
    estimate,
    from_policy,
    known,
    mixture_propensity,
)
from observal.errors import InvalidInput, InvalidPropensity, ObservalError, ObservalWarning
from tests.reference import propensity as slow

chances = st.integers(1, 64).map(lambda i: Fraction(i, 64))


@given(
    st.integers(1, 4).flatmap(
        lambda k: st.tuples(
            st.lists(
                st.lists(st.integers(0, 64).map(lambda i: Fraction(i, 64)), min_size=k, max_size=k),
                min_size=1,
                max_size=6,
            ),
            st.lists(st.integers(1, 1000), min_size=k, max_size=k),
        )
    )
)
def test_mixture_propensity_matches_reference(drawn):
    rows, sizes = drawn
    per_log = np.array([[float(q) for q in row] for row in rows]).T
    mixed = mixture_propensity(list(per_log), sizes)
    np.testing.assert_allclose(mixed, [float(slow.mixture(row, sizes)) for row in rows], rtol=1e-14, atol=1e-15)
    assert (mixed <= 1.0).all()
    assert (mixed <= per_log.max(axis=0) + 1e-15).all()
    assert (mixed >= per_log.min(axis=0) - 1e-15).all()


def test_mixture_of_one_policy_is_that_policy():
    q = np.array([0.1, 0.9, 0.0])
    np.testing.assert_allclose(mixture_propensity([q, q], [3, 11]), q, rtol=1e-15)


@given(st.lists(chances, min_size=1, max_size=20))
def test_count_logged_rows_matches_reference(drawn):
    count, variance = slow.rows_behind(drawn)
    behind = count_logged_rows([float(q) for q in drawn])
    assert abs(behind.n_logged_rows - count) <= 0.5 + 1e-9
    assert behind.standard_error == pytest.approx(float(variance) ** 0.5, rel=1e-12)


def test_count_logged_rows_covers_the_truth():
    """500 logs of 2,000 rows: the count is within 3.3 standard errors in all but a few.

    A normal error exceeds 3.3 with chance 0.001; of 500, more than 8 do so with chance below 1/1000.
    """
    rng = np.random.default_rng(0)
    misses = 0
    for _ in range(500):
        q = rng.uniform(0.1, 1.0, 2000)
        behind = count_logged_rows(q[rng.random(2000) < q])
        misses += abs(behind.n_logged_rows - 2000) > 3.3 * behind.standard_error
    assert misses <= 8


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=30), st.integers(1, 6))
def test_calibration_error_matches_reference(rows, groups):
    q, shown = [k / 8 for k, _ in rows], [s for _, s in rows]
    assert calibration_error(q, shown, groups) == pytest.approx(slow.calibration_error(q, shown, groups), abs=1e-12)


def test_known_accepts_one_number_or_one_per_row():
    assert known(0.25, 3).tolist() == [0.25, 0.25, 0.25]
    with pytest.raises(InvalidPropensity, match=r"row 1 \(counted from 0\) has 1\.5"):
        known([0.5, 1.5])
    with pytest.raises(InvalidPropensity, match="n_rows"):
        known(0.5)


def test_from_policy_accepts_functions_and_classifiers():
    X = np.array([[-2.0], [2.0], [0.5]])
    assert from_policy(lambda rows: 1 / (1 + np.exp(-rows[:, 0])), X)[1] == pytest.approx(1 / (1 + np.exp(-2)))
    model = LogisticRegression().fit([[-1.0], [1.0], [-2.0], [2.0]], [False, True, False, True])
    assert from_policy(model, X).tolist() == model.predict_proba(X)[:, 1].tolist()
    named = LogisticRegression().fit([[-1.0], [1.0], [-2.0], [2.0]], ["shown", "hidden", "shown", "hidden"])
    assert from_policy(named, X, revealed="shown").tolist() == named.predict_proba(X)[:, 1].tolist()
    with pytest.raises(InvalidInput, match="include True"):
        from_policy(named, X)
    with pytest.raises(InvalidInput, match="not fitted"):
        from_policy(LogisticRegression(), X)
    with pytest.raises(InvalidInput, match="function of the rows"):
        from_policy(3.0, X)
    with pytest.raises(InvalidPropensity, match=r"in \[0, 1\]"):
        from_policy(lambda rows: rows[:, 0], X)


def test_floor_counts_raised_rows_and_warns():
    with pytest.warns(ObservalWarning, match="2 of 3 propensities below the floor 0.1"):
        floored = apply_floor([0.0, 0.05, 0.5], 0.1)
    assert floored.propensity.tolist() == [0.1, 0.1, 0.5]
    assert (floored.n_raised, floored.propensity_floor) == (2, 0.1)
    assert "biased" in floored.warning


def test_floor_without_effect_does_not_warn(recwarn):
    assert apply_floor([0.1, 0.5], 0.1).n_raised == 0
    assert not recwarn.list


def curved_log(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    true = 1 / (1 + np.exp(-(1.5 * X[:, 0] - 0.5)))
    return X, true, rng.random(n) < true


def test_estimate_is_close_to_the_truth_out_of_fold():
    X, true, shown = curved_log(3000, 0)
    estimated = estimate(X[:2000], shown[:2000], X_pool=X[2000:])
    # Logistic regression is the true model; 2,000 rows determine it to about 0.02.
    assert np.sqrt(np.mean((estimated.logged - true[:2000]) ** 2)) < 0.06
    assert np.sqrt(np.mean((estimated.pool - true[2000:]) ** 2)) < 0.06
    assert estimated.calibration_error < 0.06
    assert estimated.log_loss < estimated.constant_log_loss - 0.05
    assert not any("do not predict" in note for note in estimated.notes)
    assert any("calibration error" in note for note in estimated.notes)


def test_estimate_ignores_the_rows_own_outcome():
    """Noise in 150 columns can be fitted perfectly, so an estimate that had seen its row would follow it.

    Out of fold the correlation is 0 with standard error 1/sqrt(200); beyond 3.3 of them with chance below 1/1000.
    """
    rng = np.random.default_rng(1)
    X, shown = rng.normal(size=(200, 150)), rng.random(200) < 0.5
    assert LogisticRegression().fit(X, shown).score(X, shown) == 1.0
    estimated = estimate(X, shown, method="logistic")
    assert abs(np.corrcoef(estimated.logged, shown)[0, 1]) < 3.3 / np.sqrt(200)


def test_constant_estimate_is_the_share_of_other_folds():
    shown = np.arange(40) % 4 == 0
    estimated = estimate(np.zeros((40, 1)), shown, X_pool=np.zeros((2, 1)), method="constant")
    np.testing.assert_allclose(estimated.logged, 0.25)
    np.testing.assert_allclose(estimated.pool, 0.25)
    assert estimated.log_loss == estimated.constant_log_loss


def test_estimate_chooses_trees_for_nonlinear_policies():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (2500, 2))
    shown = rng.random(2500) < np.where(np.abs(X[:, 0]) < 1, 0.9, 0.1)
    estimated = estimate(X, shown)
    assert "trees" in estimated.method
    assert estimated.calibration_error < 0.05


def test_estimate_notes_uninformative_features():
    """Seeded: the note is right unless the best of five looks better than the constant by two standard errors."""
    rng = np.random.default_rng(3)
    estimated = estimate(rng.normal(size=(600, 3)), rng.random(600) < 0.3)
    assert any("do not predict" in note for note in estimated.notes)


def test_estimates_are_reproducible_and_positive():
    X, _, shown = curved_log(300, 4)
    shown = X[:, 0] > 0  # a policy without chance: isotonic chances of 0 and 1
    a, b = estimate(X, shown, X_pool=X, random_state=5), estimate(X, shown, X_pool=X, random_state=5)
    assert a.logged.tolist() == b.logged.tolist()
    assert a.pool.tolist() == b.pool.tolist()
    assert (a.logged > 0).all()
    assert (a.logged < 1).all()


def test_estimate_accepts_sparse_rows():
    X, _, shown = curved_log(300, 6)
    assert "logistic" in estimate(csr_array(X), shown, method="auto").method
    with pytest.raises(InvalidInput, match="dense"):
        estimate(csr_array(X), shown, method="boosting")


def labelled_log(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 1))
    q = 0.1 + 0.8 * X[:, 0]
    y = (X[:, 0] > 0.5).astype(int)
    return X, q, y, rng.random(n) < q


def test_completed_log_resembles_the_whole_log():
    """The mean propensity of the completed log is that of the whole one, within 5 standard errors of 4,000 rows."""
    X, q, y, shown = labelled_log(4000, 7)
    pool_X, pool_q, _, _ = labelled_log(4000, 8)
    labelled = ob.LoggedData(X[shown], y[shown], q[shown])
    completed = complete_log(labelled, ob.Pool(pool_X, pool_q), random_state=9)
    behind = completed.logged_rows
    assert abs(len(completed.logged) - 4000) < 5 * behind.standard_error
    assert completed.logged.revealed.sum() == shown.sum()
    assert abs(completed.logged.propensity.mean() - q.mean()) < 5 * q.std() / np.sqrt(4000) * 2
    gone = completed.logged.propensity[~completed.logged.revealed]
    assert abs(gone.mean() - q[~shown].mean()) < 5 * q.std() * np.sqrt(2 / (~shown).sum())
    assert "drawn from the pool" in completed.notes[0]
    assert len(set(completed.logged.ids.tolist()) | set(range(4000))) == 4000 + completed.n_added


def test_complete_log_draws_rows_as_often_as_expected():
    labelled = ob.LoggedData([[0.0], [1.0]], [0, 1], 0.5)
    pool = ob.Pool([[0.0], [1.0], [2.0]], [1.0, 0.5, 0.25])
    completed = complete_log(labelled, pool, n_logged_rows=502, random_state=0)
    counts = np.bincount(completed.logged.X[2:, 0].astype(int), minlength=3)
    np.testing.assert_allclose(counts, 500 * np.array([0, 0.5, 0.75]) / 1.25, atol=1)
    assert counts[0] == 0


def test_complete_log_makes_new_ids():
    labelled = ob.LoggedData([[0.0], [1.0]], [0, 1], 0.25, ids=["not kept 1", "b"])
    completed = complete_log(labelled, ob.Pool([[0.5]], 0.25, ids=["not kept 3"]))
    added = completed.logged.ids.tolist()[2:]
    assert len(added) == 6
    assert not set(added) & {"not kept 1", "b", "not kept 3"}
    huge = ob.LoggedData([[0.0], [1.0]], [0, 1], 0.25, ids=[2**63 - 1, 5])
    assert complete_log(huge, ob.Pool([[0.5]], 0.25)).logged.ids.tolist()[2:4] == ["not kept 1", "not kept 2"]


def test_complete_log_keeps_costs_classes_and_sparse_rows():
    labelled = ob.LoggedData(csr_array([[0.0], [1.0]]), ["no", "no"], 0.5, classes=("no", "yes"), cost=[0.5, 1.0])
    completed = complete_log(labelled, ob.Pool(csr_array([[2.0]]), 0.5, cost=[0.25])).logged
    assert completed.classes.tolist() == ["no", "yes"]
    assert completed.cost.tolist() == [0.5, 1.0, 0.25, 0.25]
    assert completed.X.toarray().ravel().tolist() == [0.0, 1.0, 2.0, 2.0]


ROWS = np.zeros((30, 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mixture_propensity([[0.5]], [1, 2]), "one size per log"),
        (lambda: mixture_propensity([[0.5], [0.5, 0.5]], [1, 2]), "chance that the old policy had of revealing"),
        (lambda: mixture_propensity([[0.5]], [0]), "sizes of logs must be above 0"),
        (lambda: apply_floor([0.5], 0.0), "above 0 and at most 1"),
        (lambda: count_logged_rows([]), "needs labelled rows"),
        (lambda: count_logged_rows([0.5, 0.0]), r"row 1 \(counted from 0\) has propensity 0"),
        (lambda: count_logged_rows([0.5, 0.5], n_logged_rows=1), "at least as many rows"),
        (lambda: count_logged_rows([1e-300]), "cannot be counted"),
        (lambda: estimate(ROWS, np.ones(30, bool)), "30 of 30 are revealed"),
        (lambda: estimate(ROWS, np.arange(30) < 15, method="magic"), "'magic'"),
        (lambda: estimate(ROWS, np.arange(30) < 15, folds=1), "folds must be a whole number of at least 2"),
        (lambda: estimate(ROWS, np.ones(3, bool)), "one value for each of the 30 rows"),
        (
            lambda: complete_log(ob.LoggedData([[0.0], [1.0], [2.0]], [0, 1, None], 0.5), ob.Pool([[0.0]], 0.5)),
            "1 of 3 have none",
        ),
        (
            lambda: complete_log(ob.LoggedData([[0.0], [1.0]], [0, 1], 0.5), ob.Pool([[0.0]], 1.0)),
            "all its propensities are 1",
        ),
        (
            lambda: complete_log(ob.LoggedData([[0.0], [1.0]], [0, 1], 0.5, cost=[1, 1]), ob.Pool([[0.0]], 0.5)),
            "only one of them has costs",
        ),
    ],
)
def test_invalid_input_raises_one_sentence(call, message):
    with pytest.raises(ObservalError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
