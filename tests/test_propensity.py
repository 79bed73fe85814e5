from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from observal.diagnosis.propensity import (
    apply_floor,
    from_policy,
    known,
)
from observal.errors import InvalidInput, InvalidPropensity, ObservalError, ObservalWarning


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: apply_floor([0.5], 0.0), "above 0 and at most 1"),
    ],
)
def test_invalid_input_raises_one_sentence(call, message):
    with pytest.raises(ObservalError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
