"""Rows that are added to a campaign's pool later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import observal as ob
from observal.campaign import Campaign
from observal.errors import InvalidInput
from observal.intervals.error import would_take
from observal.journal.ledger import Ledger
from observal.journal.replay import Replay
from tests.campaigns import METHOD, N, group_options, small_data, truth_of
from tests.postgres import postgres  # noqa: F401  a fixture
from tests.serving import site

FIRST = 200  # rows of the pool before more come
LINEAR = ob.AutoVC(learners=("linear",))


def halves():
    """Return the log of the small data, the first rows of its pool, and the others."""
    logged, pool = small_data()
    rows = np.arange(N)
    parts = [ob.Pool(pool.X[some], pool.propensity[some], some) for some in (rows[:FIRST], rows[FIRST:])]
    return logged, *parts


def label(campaign, most=None, annotator="anyone"):
    """Answer rounds, all of them or at most so many."""
    done = 0
    while (most is None or done < most) and (batch := campaign.ask(None, annotator)):
        campaign.tell(batch.ids, [truth_of(i) for i in batch.ids], annotator)
        done += 1


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
def test_pool_extended_before_first_round_equals_larger_pool(tmp_path, place, request):
    logged, first, more = halves()
    where = tmp_path / "c.db" if place == "sqlite" else request.getfixturevalue("postgres")()
    Campaign.create_from_arrays(where, logged, first, label_budget=16, method=METHOD).extend(pool=more)
    campaign = Campaign.open(where)
    label(campaign)
    assert campaign.check().labels == 16
    alone = ob.run(logged, small_data()[1], lambda ids: [truth_of(i) for i in ids], METHOD, 16)
    found = campaign.result()
    assert found.decisions["id"].tolist() == alone.decisions["id"].tolist()
    assert found.decisions["query_probability"].tolist() == alone.decisions["query_probability"].tolist()
    assert dict(found.intervals) == dict(alone.intervals)


def test_decisions_stay_and_new_rows_are_asked_about_later(tmp_path):
    logged, first, more = halves()
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", logged, first, label_budget=30, method=METHOD)
    label(campaign, 2)
    before, held = campaign.result(), campaign.ask(4, "ann")
    campaign.extend(32, "olga", pool=more)
    again = Campaign.open(tmp_path / "c.db")
    assert again.ask(4, "ann").ids == held.ids
    assert again.ask(4, "ann").query_probability == held.query_probability
    assert (again.status().pool_rows, again.status().label_budget, len(again.problem.pool)) == (300, 32, 300)
    entry = next(entry for entry in again.history() if entry.kind == "extended")
    assert (entry.actor, entry.text) == (
        "olga",
        "the label budget is now 32; the pool now has 300 rows, 100 of them new",
    )
    again.tell(held.ids, [truth_of(i) for i in held.ids], "ann")
    label(again)
    after = again.result()
    assert after.decisions["id"].tolist()[:16] == before.decisions["id"].tolist()
    assert after.decisions["query_probability"].tolist()[:16] == before.decisions["query_probability"].tolist()
    asked = np.array(after.queries["id"].tolist())
    assert (asked[:24] < FIRST).all()  # the third round was open
    assert (asked[24:] >= FIRST).any()
    assert again.check().labels == 32
    copy = again.session()
    copy.save(tmp_path / "copy.observal")
    assert dict(ob.Session.load(tmp_path / "copy.observal").result().intervals) == dict(after.intervals)


def test_new_rows_are_near_as_if_present_before(tmp_path):
    """A round could not take rows that did not exist; that it would have taken them is noted with them, and equals a fit of that round."""
    logged, first, more = halves()
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", logged, first, label_budget=30, method=LINEAR)
    label(campaign, 2)
    assert campaign.engine.read().records
    campaign.extend(pool=more)
    assert not campaign.engine.read().records  # it was about the smaller pool
    ledger, rows = campaign.engine.read(), np.arange(2 * N - (N - FIRST), 2 * N)
    problem, known = campaign.problem, []
    for plans in (ledger.plans, [replace(plan, near=None, near_gaps=None) for plan in ledger.plans]):
        replay = Replay(problem, LINEAR, 0)
        replay.follow(plans, ledger.labels)

        def gaps(state, some):
            return state.model.unlabelled_margins(some, state.labelled(problem)[0])

        known.append(would_take(replay.states[-1], problem.propensity, N, rows, gaps).tolist())
    assert known[0] == known[1]
    assert 0 < sum(known[0]) < rows.size
    # Where nobody noted which of the new rows are near, earlier notes are not used: rounds are fitted again.
    copy = campaign.session().engine.journal.events(Ledger())
    silent = [replace(e, payload={k: v for k, v in e.payload.items() if k != "near"}) for e in copy]
    other = Ledger()
    other.follow(silent)
    assert [plan.near for plan in other.plans] == [None, None]
    assert all(plan.near is not None for plan in ledger.plans)


# -- from tables


@pytest.fixture
def tables(tmp_path):
    """A log and a pool in files, and later rows in the same columns, in another order and with other types."""
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame(
        {
            "id": [f"T{i}" for i in range(n)],
            "size": rng.normal(size=n).round(2),
            "since": pd.date_range("2024-01-01", periods=n).strftime("%d.%m.%Y"),
            "home": rng.choice(["own", "rent"], n),
            "chance": np.where(rng.random(n) < 0.5, 0.5, 0.2),
        }
    )
    frame["bad"] = np.where(frame["size"] > 0, "yes", "no")
    hidden = rng.random(40) > frame["chance"][:40]
    frame[:40].assign(bad=frame["bad"][:40].mask(hidden)).to_csv(tmp_path / "log.csv", index=False)
    frame[40:60].drop(columns="bad").to_csv(tmp_path / "pool.csv", index=False)
    frame[60:][["home", "id", "chance", "since", "size"]].to_csv(tmp_path / "more.csv", index=False)
    return tmp_path, frame


def made(folder, **settings):
    settings = {"propensity": "chance", "label_budget": 45, "method": METHOD, **settings}
    return Campaign.create(
        folder / "c.db", folder / "log.csv", folder / "pool.csv", label="bad", id="id", **group_options(settings)
    )


def test_new_rows_from_file_are_encoded_like_pool(tables):
    folder, frame = tables
    campaign = made(folder)
    encoder = campaign.settings.encoder
    campaign.extend(pool=folder / "more.csv")
    pool = campaign.problem.pool
    assert pool.ids.tolist() == frame["id"][40:].tolist()
    assert pool.propensity.tolist() == frame["chance"][40:].tolist()
    assert pool.X[20:].tolist() == encoder.encode(folder / "more.csv").tolist()
    truth = dict(zip(frame["id"], frame["bad"], strict=True))
    seen = {}
    while batch := campaign.ask():
        seen |= {row["id"]: row for row in batch.rows.to_pylist()}
        campaign.tell(batch.ids, [truth[i] for i in batch.ids])
    assert len(seen) == 45
    late = [(place, seen[id_]) for place, id_ in enumerate(frame["id"]) if place >= 60 and id_ in seen]
    assert len(late) >= 25
    for place, row in late:
        assert (row["size"], row["home"]) == (frame["size"][place], frame["home"][place])
        assert pd.Timestamp(row["since"]).strftime("%d.%m.%Y") == frame["since"][place]


def test_new_rows_may_have_fractions_in_column_of_whole_numbers(tables):
    folder, frame = tables
    for name in ("log", "pool"):
        whole = pd.read_csv(folder / f"{name}.csv")
        whole.assign(size=(10 * whole["size"]).astype(int)).to_csv(folder / f"{name}.csv", index=False)
    campaign = made(folder)
    campaign.extend(pool=pd.read_csv(folder / "more.csv").assign(size=[None, *frame["size"][61:]]))
    with campaign.engine.reading() as transaction:
        rows = transaction.pool_rows([19, 20, 21]).column("size").to_pylist()
    assert rows[1:] == [None, frame["size"][61]]
    assert rows[0] == int(10 * frame["size"][59])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.assign(id="T45"), "distinct ids"),
        (lambda frame: frame.replace({"id": {"T60": "T45"}}), "'T45' is already in the pool"),
        (lambda frame: frame.replace({"id": {"T60": "T3"}}), "'T3' is already in the log"),
        (lambda frame: frame.drop(columns="size"), "no column 'size'"),
        (lambda frame: frame.assign(size="large"), "size"),
        (lambda frame: frame.drop(columns="chance"), "no column 'chance' for the propensity"),
        (lambda frame: frame.assign(chance=1.5), "must have propensities in"),
        (lambda frame: frame[:0], "has columns but no rows"),
    ],
)
def test_new_rows_that_do_not_fit_raise_and_store_nothing(tables, change, said):
    folder, frame = tables
    campaign = made(folder)
    change(frame[60:].drop(columns="bad")).to_csv(folder / "wrong.csv", index=False)
    before = campaign.check()
    with pytest.raises(InvalidInput, match=said):
        campaign.extend(60, pool=folder / "wrong.csv")
    assert Campaign.open(folder / "c.db").check() == before


@pytest.mark.parametrize("source", [0.3, None, lambda X: np.full(len(X), 0.3)])
def test_propensities_of_new_rows_come_from_source_of_pool(tables, source):
    folder, frame = tables
    campaign = made(folder, propensity=source)
    if callable(source):  # it is not stored
        with pytest.raises(InvalidInput, match="--propensity"):
            campaign.extend(pool=folder / "more.csv")
        campaign.extend(pool=folder / "more.csv", propensity="chance")
        assert campaign.problem.pool.propensity[20:].tolist() == frame["chance"][60:].tolist()
        return
    whole = pd.concat([pd.read_csv(folder / "pool.csv"), pd.read_csv(folder / "more.csv")])
    alike = ob.load_problem([folder / "log.csv"], whole, ob.TableRoles("bad", id="id"), propensity=source)
    campaign.extend(pool=folder / "more.csv")
    np.testing.assert_allclose(campaign.problem.pool.propensity[20:], alike.pool.propensity[20:], atol=0.02)


def test_adding_rows_where_impossible_raises(tmp_path):
    logged, first, more = halves()
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", logged, first, label_budget=8, method=METHOD)
    cases = [
        ({}, "nothing to extend"),
        ({"pool": first}, "needs a unique id"),
        ({"pool": ob.Pool(more.X[:, :1], more.propensity, more.ids)}, "the log has 2 columns and the new pool 1"),
        ({"pool": "more.csv"}, "made from arrays"),
        ({"label_budget": 4, "pool": more}, "can only be raised"),
        ({"label_budget": 9, "propensity": "q"}, "there are none"),
        ({"pool": more, "propensity": 0.3}, "its own propensities"),
        ({"pool": ob.Pool(more.X, more.propensity)}, f"whole numbers from {FIRST} on"),
        (
            {"pool": ob.Pool(more.X, more.propensity, [f"a{k}" for k in range(len(more))])},
            "are whole numbers, but those",
        ),
    ]
    for given, said in cases:
        with pytest.raises(InvalidInput, match=said):
            campaign.extend(**given)
    exact = ob.ExactDBAL(ob.Thresholds(), gamma=0.05)
    few = slice(40), slice(1)
    one = ob.LoggedData(logged.X[few], logged.y[:40], logged.propensity[:40]), ob.Pool(first.X[few], 0.1)
    other = Campaign.create_from_arrays(tmp_path / "d.db", *one, method=exact)
    with pytest.raises(InvalidInput, match="ExactDBAL plans for a fixed pool"):
        other.extend(pool=ob.Pool(more.X[:, :1], more.propensity, more.ids))


def test_waiting_annotator_without_rows_left_fits_nothing(tmp_path, monkeypatch):
    logged, first, _ = halves()
    few = ob.Pool(first.X[:8], first.propensity[:8], first.ids[:8])
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", logged, few, method=METHOD, tolerance=None)
    assert len(campaign.ask(None, "ann")) == 8
    monkeypatch.setattr("observal.journal.replay.Replay.next_plan", None)  # would raise if it were called
    assert "hold" in Campaign.open(tmp_path / "c.db").ask(None, "bob").note


def test_plan_made_while_rows_were_added_is_made_again(tmp_path):
    logged, first, more = halves()
    where, few = tmp_path / "c.db", slice(16)
    Campaign.create_from_arrays(
        where, logged, ob.Pool(first.X[few], first.propensity[few], first.ids[few]), method=METHOD, tolerance=None
    )
    label(Campaign.open(where), 2)
    slow, extended = Campaign.open(where), []
    plan = slow.engine.next_event

    def planned(transaction, most=None):
        event = plan(transaction)
        if not extended:
            extended.append(Campaign.open(where).extend(pool=more))
        return event

    slow.engine.next_event = planned
    assert slow.open_round()
    assert {int(i) >= FIRST for i in Campaign.open(where).ask().ids} == {True}


def test_saved_copy_keeps_added_rows(tmp_path):
    logged, first, more = halves()
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", logged, first, label_budget=FIRST + 20, method=METHOD)
    before = campaign.status().intervals
    campaign.extend(pool=more)
    after = campaign.status().intervals
    assert after != before
    campaign.session().save(tmp_path / "s.zip")
    assert ob.Session.load(tmp_path / "s.zip").status().intervals == after


def test_column_of_another_kind_is_named(tmp_path):
    frame = pd.DataFrame({"id": range(60), "x": np.linspace(-1, 1, 60), "q": 0.5, "when": pd.Timestamp("2026-01-01")})
    frame["y"] = np.where(frame["x"] > 0, "good", "bad")
    pool = frame.drop(columns="y").assign(id=frame["id"] + 60)
    campaign = Campaign.create(
        tmp_path / "c.db",
        frame,
        pool,
        label="y",
        propensity="q",
        id="id",
        label_budget=9,
        tables=ob.TableOptions(exclude=("when",)),
    )
    with pytest.raises(InvalidInput, match="Column 'when' of the new rows is of type double"):
        campaign.extend(pool=pool.assign(id=frame["id"] + 120, when=1.5))


def test_open_page_shows_added_rows(tmp_path, monkeypatch):
    logged, first, more = halves()
    where = tmp_path / "c.db"
    Campaign.create_from_arrays(where, logged, ob.Pool(first.X[:8], first.propensity[:8], first.ids[:8]), method=METHOD)
    with site(monkeypatch, where) as here:
        ann = here.browser("ann")
        rows = ann.ask(100)["rows"]
        assert len(rows) == 8
        ann.tell([(row["id"], truth_of(int(row["id"]))) for row in rows])
        assert ann.ask(100)["finished"]
        Campaign.open(where).extend(pool=more)
        rows = ann.ask(100)["rows"]
        assert [int(row["id"]) >= FIRST for row in rows] == [True] * 8
        assert rows[0]["fields"][0]["value"] is not None
