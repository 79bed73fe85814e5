"""Every number that a user gives: truth values, NaN and text are refused in one sentence, NumPy's numbers are taken as Python's."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import observal as ob
from observal.campaign import Campaign
from observal.diagnosis import diagnose, propensity
from observal.errors import InvalidInput
from observal.learners.logged import LoggedClassifier
from observal.paper import bounds, risk, weights
from observal.problem.goals import Goals
from observal_research.ablated_newton import AblatedNewtonVC
from observal_research.datasets import (
    BlindSpot,
    Certainty,
    Identical,
    Region,
    Scorecard,
    Uniform,
    make_linear,
    simulate,
)
from observal_research.trials import run_all

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)
LOGGED, POOL = ob.LoggedData(X[:30], Y[:30], 0.5), ob.Pool(X[30:], 0.5)
DATA = make_linear(40, random_state=0)
QUICK = ob.ExactDBAL(ob.Thresholds(), gamma=0.2)
Committee = partial(ob.CommitteeVC, LogisticRegression())
Session = partial(ob.Session, LOGGED, POOL, QUICK)

# What takes a number, the name of the setting, and a number that it takes.
STORED = [
    *((ob.NewtonVC, name, value) for name, value in {"batch": 5, "explore_share": 0.25, "gate_share": 0.25}.items()),
    *((ob.NewtonVC, name, 0.5) for name in ("tempering", "ridge", "stop_below")),
    *((ob.AutoVC, name, value) for name, value in {"batch": 5, "explore_share": 0.25, "tempering": 0.5}.items()),
    *((ob.AutoVC, name, 0.5) for name in ("most_explore_share", "clip_constant")),
    *((Committee, name, value) for name, value in {"members": 3, "batch": 5, "explore_share": 0.25}.items()),
    *((Committee, name, 0.5) for name in ("gate_share", "tempering", "clip_constant")),
    *((AblatedNewtonVC, name, 0.25) for name in ("clip_constant", "penalty", "doubt")),
    *((kind, "learning_rate", 0.5) for kind in (ob.Passive, ob.ActiveVC, ob.Active18)),
    *((kind, "passes", 2) for kind in (ob.Passive, ob.ActiveVC)),
    *((kind, "clip_constant", 0.5) for kind in (ob.ActiveVC, ob.Active18)),
    (partial(ob.ExactDBAL, ob.Thresholds()), "confidence", 0.5),
    (partial(ob.ExactDBAL, ob.Thresholds()), "gamma", 0.5),
    (Goals, "tolerance", 0.5),
    (Goals, "width", 0.5),
    (Uniform, "random_state", 3),
]


def fit(kind, **settings):
    return kind(**settings).fit(X, Y)


PASSED_ON = [
    *((Session, name, 3) for name in ("label_budget", "random_state", "overlap")),
    (partial(diagnose, LOGGED, POOL), "random_state", 3),
    (lambda strength: diagnose(LOGGED, POOL, confounding=(strength,)), "strength", 2.0),
    (partial(propensity.apply_floor, [0.5]), "propensity_floor", 0.25),
    (lambda cost: ob.Pool(X[:1], 0.5, cost=[cost]), "cost", 0.5),
    (lambda value: ob.Pool(X[:1], value), "value", 0.5),
    *((partial(make_linear, n_features=2), name, value) for name, value in {"n_rows": 20, "random_state": 3}.items()),
    *((partial(make_linear, 20), name, value) for name, value in {"n_features": 3, "noise": 0.25}.items()),
    (DATA.sample, "n_rows", 30),
    *((partial(simulate, DATA, Identical(0.5)), name, 0.25) for name in ("test_size", "log_share")),
    (Identical, "propensity", 0.5),
    (partial(Certainty, (1.0, 2.0), 0.5), "propensity_floor", 0.5),
    (partial(Certainty, (1.0, 2.0), 0.5), "offset", 0.5),
    (partial(Scorecard, (0,), (1.0,), 0.0), "propensity_floor", 0.5),
    (partial(BlindSpot, Region(((0, 1, 0.0),))), "inside", 0.5),
    *((partial(fit, LoggedClassifier), name, 0.5) for name in ("log_term", "penalty")),
    (lambda log_term: weights.clip_threshold([0.5], 10, 0, log_term), "log_term", 2.0),
    (lambda clip_constant: weights.practical_clip_threshold([0.5], 10, 0, clip_constant), "clip_constant", 2.0),
    (lambda mass: weights.importance([0.5], 10, 2, mass), "mass", 2.0),
    (lambda weight: weights.effective_sample_size([weight]), "weight", 2.0),
    (lambda chance: weights.plain_importance([chance]), "chance", 0.5),
    (lambda delta: bounds.log_term(4, delta), "delta", 0.5),
    (lambda n_hypotheses: bounds.log_term(n_hypotheses, 0.5), "n_hypotheses", 4),
    (lambda moment: bounds.root_term(1.0, moment), "moment", 2.0),
    (lambda jobs: run_all(pow, [(2, 3)], jobs=jobs), "jobs", 1),
]
INFINITE = [
    (partial(Certainty, (1.0, 2.0)), "scale", 0.5),
    (partial(fit, LoggedClassifier), "clip", 2.5),
    (lambda clip: risk.clipped([2.0], clip, np.array([True])), "clip", 2.0),
]


def named(case):
    return f"{getattr(case[0], 'func', case[0]).__name__}-{case[1]}"


def numpy_number(value):
    return np.int64(value) if isinstance(value, int) else np.float32(value)


@pytest.mark.parametrize("case", STORED, ids=named)
def test_stored_setting_is_checked(case):
    make, name, value = case
    for wrong in (True, math.nan, math.inf, "a", [1]):
        with pytest.raises(InvalidInput, match=f"{name} must be .*; "):
            make(**{name: wrong})
    kept = getattr(make(**{name: numpy_number(value)}), name)
    assert (kept, type(kept)) == (value, type(value))


@pytest.mark.parametrize("case", PASSED_ON + INFINITE, ids=named)
def test_setting_passed_on_is_checked(case):
    make, name, value = case
    # These are rows: NumPy takes an array of truth values as one of zeros and ones.
    listed = name in ("cost", "value", "mass", "weight", "chance", "moment", "offset")
    for wrong in (math.nan, "a", *(() if listed else (True,)), *(() if case in INFINITE else (math.inf,))):
        with pytest.raises(InvalidInput, match=r" (must|needs) "):
            make(**{name: wrong})
    make(**{name: numpy_number(value)})


def test_method_with_numbers_of_numpy_goes_into_a_campaign(tmp_path):
    method = ob.NewtonVC(batch=np.int64(5), ridge=np.float32(0.5))
    Campaign.create_from_arrays(tmp_path / "c.db", LOGGED, POOL, label_budget=np.int64(9), method=method)
    assert Campaign.open(tmp_path / "c.db").settings.method == ob.NewtonVC(batch=5, ridge=0.5)
    assert "NewtonVC(batch=5, ridge=0.5)" in Campaign.open(tmp_path / "c.db").status().method
