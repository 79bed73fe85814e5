"""Plans record the gaps of uncertain rows, so that intervals need no fit of earlier rounds."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import observal as ob
from observal.campaign import Campaign
from observal.errors import InvalidInput
from observal.intervals import state as pool_state
from observal.journal.replay import Replay
from observal.learners.folds import INTERVAL_FOLDS
from observal.methods import auto as auto_module
from observal.problem.plan import Plan
from tests.campaigns import make_campaign, small_data, truth_of


@pytest.fixture(scope="module")
def session():
    return spent(ob.AutoVC(learners=("linear", "forest")))


def spent(method):
    logged, pool = small_data()
    session = ob.Session(logged, pool, method, label_budget=45, tolerance=None)
    while (query := session.ask()) is not None:
        session.tell(query.ids, [truth_of(i) for i in query.positions])
    return session


def replayed(session, plans):
    replay = Replay(session.problem, session.settings.method, 0, label_budget=45)
    codes = {"bad": 0, "good": 1}
    replay.follow(plans, {int(row): codes[truth_of(row)] for plan in plans for row in plan.asked})
    return replay


def test_committee_intervals_equal_those_of_refitting_every_round():
    session = spent(ob.CommitteeVC(RandomForestClassifier(40, min_samples_leaf=3, random_state=0), batch=15))
    forgotten = [replace(plan, near=None, near_gaps=None) for plan in session.plans]
    recorded, again = replayed(session, session.plans), replayed(session, forgotten)
    last = recorded.closed
    assert dict(recorded.intervals(last)) == dict(again.intervals(last))
    assert all(plan.near is not None and plan.near.size >= plan.asked.size // 2 for plan in session.plans)


def test_intervals_equal_those_of_refitting_every_round(session):
    assert session.plans[-1].asked.size < session.plans[-2].asked.size  # cut off by the budget
    assert all(plan.near is not None and plan.near.size >= plan.asked.size // 2 for plan in session.plans)
    forgotten = [replace(plan, near=None, near_gaps=None) for plan in session.plans]
    recorded, again = replayed(session, session.plans), replayed(session, forgotten)
    for k in range(recorded.closed + 1):
        assert dict(recorded.intervals(k)) == dict(again.intervals(k))


@pytest.fixture
def campaign(tmp_path):
    method = ob.AutoVC(learners=("linear",))
    campaign = make_campaign(tmp_path / "c.db", method=method, label_budget=45, tolerance=None)
    while batch := campaign.ask():
        campaign.tell(batch.ids, [truth_of(i) for i in batch.ids])
    return campaign


def test_interval_and_report_fit_only_last_round(campaign, tmp_path, monkeypatch):
    fits, fit = [], auto_module.fit_blend
    monkeypatch.setattr(auto_module, "fit_blend", lambda *given: fits.append(len(given[1])) or fit(*given))
    again = Campaign.open(tmp_path / "c.db")
    assert again.intervals()["error"] == campaign.intervals()["error"]
    history, result = again.error_history(8), again.recorded_result()
    every = campaign.problem.logged.revealed.sum() + 45
    assert set(fits) == {every, every * (INTERVAL_FOLDS - 1) // INTERVAL_FOLDS}  # the last round alone, and its folds
    assert fits.count(every) == 1  # the other campaign object reads what this one stored
    whole = campaign.result()
    assert history == [(r.labels, campaign.intervals(k)["error"]) for k, r in enumerate(whole.rounds)]
    assert result.rounds[0].estimator is None
    assert repr(result.rounds) == repr(whole.rounds)
    assert (
        result.estimator.predict_proba(small_data()[1].X).tolist()
        == whole.estimator.predict_proba(small_data()[1].X).tolist()
    )


def test_objective_measures_are_recorded(tmp_path):
    method = ob.AutoVC(batch=20, learners=("linear",))
    goals = {"label_budget": 20, "tolerance": None, "objective": "recall=0.8"}
    campaign = make_campaign(tmp_path / "c.db", method=method, **goals)
    while batch := campaign.ask():
        campaign.tell(batch.ids, [truth_of(i) for i in batch.ids])
    again = Campaign.open(tmp_path / "c.db")
    [(_, record)] = again.engine.read().records.items()
    assert [name for name, _ in record.objective] == ["recall", "precision"]
    fitted = campaign.intervals(0)
    assert again.first_measures() == {name: fitted[name] for name in ("recall", "precision")}
    again.engine.ledger.records[0] = replace(record, objective=())  # as campaigns of earlier versions have it
    assert again.first_measures() == {name: fitted[name] for name in ("recall", "precision")}


def test_corrected_label_makes_report_refit(campaign, tmp_path):
    first = campaign.plans[0].asked[:1].tolist()
    wrong = {"good": "bad", "bad": "good"}
    campaign.tell(first, [wrong[truth_of(first[0])]], correct=True)
    again = Campaign.open(tmp_path / "c.db")
    assert all(round_.estimator is not None for round_ in again.recorded_result().rounds)
    fitted = [again.intervals(k)["error"] for k in range(len(again.rounds))]
    assert [error for _, error in again.error_history(8)] == fitted


def test_rounds_chosen_ahead_equal_refitting_every_round(tmp_path):
    method = ob.AutoVC(learners=("linear",))
    campaign = make_campaign(tmp_path / "c.db", method=method, label_budget=30, tolerance=None)
    held = {name: campaign.ask(None, name).ids for name in ("ann", "bob")}
    for name in ("ann", "bob", "ann"):
        campaign.tell(held[name], [truth_of(i) for i in held[name]], name)
        held[name] = campaign.ask(None, name).ids
    ledger = campaign.engine.read()
    assert ledger.bases == [0, 0, 1]
    assert sorted(ledger.records) == [0, 1]
    forgotten = Replay(campaign.problem, method, 0, label_budget=30)
    forgotten.follow([replace(p, near=None, near_gaps=None) for p in ledger.plans], ledger.labels, ledger.bases)
    every = range(forgotten.closed + 1)
    again = Campaign.open(tmp_path / "c.db")
    assert again.error_history(8) == [(forgotten.bought(k), forgotten.intervals(k)["error"]) for k in every]
    assert repr(again.recorded_result().rounds) == repr(tuple(forgotten.round(k) for k in every))


def test_rows_with_equal_leads_are_not_all_recorded(session, monkeypatch):
    monkeypatch.setattr(pool_state, "MOST_NEAR", 0)
    monkeypatch.setattr(pool_state, "MOST_NEAR_SHARE", 0)
    assert Replay(session.problem, session.settings.method, 0).next_plan().near is None


@pytest.mark.parametrize(("near", "gaps"), [([1], None), ([1, 2], [0.1]), ([-1], [0.1]), ([0.5], [0.1])])
def test_inconsistent_record_raises(near, gaps):
    one = np.zeros(1, dtype=np.int64)
    record = [None if part is None else np.array(part) for part in (near, gaps)]
    with pytest.raises(InvalidInput, match="near"):
        Plan(one, np.ones(1), one, one, one, ("why",), True, None, *record)
