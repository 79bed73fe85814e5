"""Classifiers of the user: they predict the problem's classes, and use the weights of labels, or are refused in one sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import observal as ob
from observal.campaign import Campaign
from observal.errors import InvalidInput
from observal.journal import codec
from observal.problem.plan import ASKED, Plan, Stop
from tests.pool_worlds import World


def is_one_sentence(error):
    return re.fullmatch(r"[^\n]{20,300}\.", str(error)) and not re.search(r"\.\s+[A-Z]", str(error))


# -- classes -----------------------------------------------------------------------------------------------------


def signed_world():
    """The world with labels −1 and +1 instead of 0 and 1."""
    world = World()
    labels = np.where(world.logged.revealed, 2.0 * (world.logged.y == 1) - 1.0, np.nan)
    logged = ob.LoggedData(world.logged.X, labels, world.q[:200], classes=(-1, 1))
    return logged, world.pool, 2 * world.pool_y - 1


class Coded:
    """Predicts codes; `classes_` says so, says otherwise, or is missing."""

    def __init__(self, classes_=None):
        if classes_ is not None:
            self.classes_ = np.array(classes_)

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(int)


class State:
    def __init__(self, taken):
        self.taken = taken


@dataclass(frozen=True)
class First(ob.Method):
    """Takes the first rows, and hands out a classifier that was fitted on codes."""

    kind: str = "fitted"

    def classifier(self, problem) -> Any:
        if self.kind == "fitted":
            shown = problem.logged.revealed
            return LogisticRegression().fit(problem.logged.X[shown], problem.logged.codes[shown])
        return Coded(None if self.kind == "without classes_" else problem.logged.classes)

    def begin(self, problem, rng):
        return State(0)

    def plan(self, problem, state, rng):
        rows = np.arange(state.taken, min(state.taken + 5, len(problem.pool)))
        zero = np.zeros(rows.size, dtype=np.int8)
        return Plan(rows, zero + 1.0, zero + ASKED, zero, zero, ("first",)) if rows.size else Stop("no rows")

    def advance(self, problem, state, plan, answers, rng):
        return State(state.taken + plan.asked.size)

    def describe(self, problem, state):
        counts = dict(labels=state.taken, seen=state.taken, asked=0, inferred=0, passed=0, skipped=0)  # noqa: C408
        estimator = self.classifier(problem)
        return ob.Round(index=state.taken // 5, **counts, clip=inf, disagreement=1.0, estimator=estimator)

    def intervals(self, problem, state):
        return {"error": ob.Interval(0.5, 0.0, 1.0, 0.95, "unknown")}


KINDS = ["fitted", "without classes_", "with the right classes_"]


@pytest.mark.parametrize("kind", KINDS)
def test_classifier_of_codes_is_refused_by_run_before_a_label_is_bought(kind):
    logged, pool, _ = signed_world()

    def never(ids):
        raise AssertionError("a label was bought")

    with pytest.raises(InvalidInput, match=r"predicts 0, but the classes are \[-1, 1\]; use a classifier") as caught:
        ob.run(logged, pool, never, First(kind), label_budget=10)
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", [lambda s: s.ask(), lambda s: s.estimator, lambda s: s.rounds, lambda s: s.result()])
def test_classifier_of_codes_is_refused_by_session(kind, read):
    session = ob.Session(*signed_world()[:2], First(kind), label_budget=10)
    with pytest.raises(InvalidInput, match="but the classes are"):
        read(session)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", [lambda c: c.ask(), lambda c: c.estimator, lambda c: c.rounds, lambda c: c.result()])
def test_classifier_of_codes_is_refused_by_campaign(kind, read, tmp_path, monkeypatch):
    monkeypatch.setitem(codec.CLASSES, "First", First)
    logged, pool, _ = signed_world()
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", logged, pool, method=First(kind), label_budget=10)
    with pytest.raises(InvalidInput, match="but the classes are"):
        read(campaign)


@pytest.mark.parametrize("kind", KINDS)
def test_classifier_of_codes_is_accepted_where_codes_are_the_classes(kind):
    world = World()
    result = ob.run(world.logged, world.pool, world.oracle, First(kind), label_budget=10)
    assert len(result.queries) == 10


class Shifting(LogisticRegression):
    """A wrapper that forgets to turn codes back into classes."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, np.searchsorted(np.unique(y), y) - self.shift, sample_weight)
        return self

    def __init__(self, shift=0):
        super().__init__()
        self.shift = shift


def test_classes_of_committees_and_own_learners_are_checked():
    logged, pool, y = signed_world()
    with pytest.raises(InvalidInput, match=r"predicts 0, but the classes are \[-1, 1\]"):
        ob.run(logged, pool, lambda ids: y[ids], ob.CommitteeVC(Shifting(), members=2), label_budget=10)
    method = ob.AutoVC(learners=("linear", ("own", Shifting(1))))  # learners of a blend are given codes
    with pytest.raises(InvalidInput, match=r"Shifting predicts -1, but the classes are \[0, 1\]"):
        ob.run(logged, pool, lambda ids: y[ids], method, label_budget=10)


# -- weights -----------------------------------------------------------------------------------------------------


class Heavy(GaussianNB):
    """Notes the weights that it was given."""

    given: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.given.append(sample_weight)
        return super().fit(X, y, sample_weight)


USES_WEIGHTS = {
    "plain": Heavy,
    "pipeline": lambda: make_pipeline(StandardScaler(), Heavy()),
    "nested pipeline": lambda: make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), Heavy())),
    "calibrated": lambda: CalibratedClassifierCV(Heavy(), cv=2),
    "grid": lambda: GridSearchCV(make_pipeline(StandardScaler(), Heavy()), {"heavy__var_smoothing": [1e-9]}, cv=2),
    "random search": lambda: RandomizedSearchCV(Heavy(), {"var_smoothing": [1e-9]}, n_iter=1, cv=2),
}


@pytest.mark.parametrize("make", USES_WEIGHTS.values(), ids=USES_WEIGHTS)
@pytest.mark.parametrize("method", ["auto", "committee"])
def test_weights_reach_the_model_inside(make, method):
    world = World()
    own = ob.AutoVC(learners=(("own", make()),)) if method == "auto" else ob.CommitteeVC(make(), members=2)
    Heavy.given.clear()
    session = ob.Session(world.logged, world.pool, own, label_budget=5)
    assert session.estimator.score(world.X, world.y) > 0.7
    weighted = [weights for weights in Heavy.given if weights is not None]
    assert len(weighted) == len(Heavy.given) if method == "auto" else weighted  # a committee's members are resampled
    assert np.ptp(weighted[0]) > 0.0


def test_weights_in_a_pipeline_change_the_fit():
    world = World()
    seen = world.logged.revealed
    X, y, weights = world.logged.X[seen], world.logged.y[seen].astype(int), 1.0 / world.q[:200][seen]
    learners = [("own", make_pipeline(StandardScaler(), LogisticRegression()))]
    plain, heavy = (ob.BlendClassifier(learners).fit(X, y, w).predict_proba(X) for w in (None, weights))
    assert np.abs(plain - heavy).max() > 0.01


IGNORES_WEIGHTS = {
    "plain": KNeighborsClassifier,
    "pipeline": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "nested pipeline": lambda: make_pipeline(make_pipeline(KNeighborsClassifier())),
    "calibrated": lambda: CalibratedClassifierCV(KNeighborsClassifier()),
    "grid": lambda: GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [3, 5]}),
}


@pytest.mark.parametrize("make", IGNORES_WEIGHTS.values(), ids=IGNORES_WEIGHTS)
@pytest.mark.parametrize("method", [ob.CommitteeVC, lambda own: ob.AutoVC(learners=("linear", ("own", own)))])
def test_classifier_that_takes_no_weights_is_refused_when_the_method_is_made(make, method):
    with pytest.raises(InvalidInput, match="fit of KNeighborsClassifier takes no sample_weight") as caught:
        method(make())
    assert is_one_sentence(caught.value)
    assert "some stand for many more rows than others" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: VotingClassifier([("own", GaussianNB())], voting="soft"), "VotingClassifier"),
        (lambda: CalibratedClassifierCV(make_pipeline(GaussianNB())), "Pipeline"),
    ],
)
def test_classifier_whose_fit_does_not_name_the_weights_is_refused(make, named):
    with pytest.raises(InvalidInput, match=f"fit of {named} takes no sample_weight"):
        ob.AutoVC(learners=(("own", make()),))


def test_calibration_of_a_fitted_model_is_weighted():
    world = World()
    fitted = FrozenEstimator(GaussianNB().fit(world.X, world.y))
    ob.CommitteeVC(CalibratedClassifierCV(fitted))
    ob.CommitteeVC(CalibratedClassifierCV())


def test_blend_without_weights_takes_any_classifier():
    world = World()
    blend = ob.BlendClassifier([("near", KNeighborsClassifier())])
    assert blend.fit(world.X, world.y).score(world.X, world.y) > 0.8
    with pytest.raises(InvalidInput, match="fit of KNeighborsClassifier takes no sample_weight"):
        blend.fit(world.X, world.y, np.linspace(1, 2, len(world.y)))


def test_learner_that_cannot_be_fitted_is_refused_with_the_number_of_labels():
    world = World()
    learner = CalibratedClassifierCV(GaussianNB(), cv=200)
    with pytest.raises(InvalidInput, match=r"CalibratedClassifierCV could not be fitted on \d+ labelled rows \(Reques"):
        ob.Session(world.logged, world.pool, ob.AutoVC(learners=(("own", learner),)), label_budget=5).ask()
