"""The notebook's widget: in Python, and in a real browser over a bridge.

There is no Jupyter here. The browser loads the widget's own code and style sheet, as anywidget would, and a small model in place of
anywidget's carries state and messages between the page and the Python object.
"""

from __future__ import annotations

import base64
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import observal as ob
from observal.errors import InvalidInput
from observal.notebook import Labeller
from tests.page_server import make_loans
from tests.test_parts import NEWTON, in_parts, make_tables

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
MODEL = """(state) => {
  const heard = {};
  globalThis.outgoing = [];
  globalThis.model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; (heard["change:" + name] ?? []).forEach((f) => f()); },
    save_changes() {},
    on: (name, f) => (heard[name] ??= []).push(f),
    off: (name, f) => { heard[name] = heard[name].filter((g) => g !== f); },
    send: (message) => outgoing.push(message),
  };
  globalThis.receive = (message) => (heard["msg:custom"] ?? []).forEach((f) => f(message));
  return import("/static/labeller.js").then((module) => module.default.render({ model, el: document.getElementById("view") }));
}"""


def make_session(budget=30, batch=5):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 4))
    y = np.where(X[:, 0] > 0, "yes", "no")
    logged = ob.LoggedData(X[:150], np.where(rng.random(150) < 0.3, y[:150], None), propensity=0.3)
    pool = ob.Pool(X[150:], propensity=0.3)
    return ob.Session(logged, pool, method=ob.NewtonVC(batch=batch), label_budget=budget), y[150:]


def tell(labeller, *answers, key):
    labeller._handle_custom_msg(
        {"type": "tell", "key": key, "answers": [{"id": i, "label": a} for i, a in answers]}, []
    )


def test_labels_reach_session_and_next_round_opens():
    session, truth = make_session(10)
    labeller = Labeller(session, title="Is it warm?")
    for number in range(10):
        row = labeller.rows[0]
        tell(labeller, (row["id"], str(truth[int(row["id"])])), key=f"k{number}")
    assert (session.labels, labeller.rows, len(session.rounds)) == (10, [], 3)
    assert "budget of 10 is spent" in labeller.note
    assert labeller.progress == {"labels": 10, "label_budget": 10, "round": 2}


def test_repeated_message_counts_once_and_wrong_one_is_refused():
    session, _ = make_session()
    labeller = Labeller(session)
    sent = []
    labeller.send = lambda content, buffers=None: sent.append(content)
    first, second = labeller.rows[0]["id"], labeller.rows[1]["id"]
    tell(labeller, (first, "yes"), key="a")
    tell(labeller, (first, "no"), key="a")
    tell(labeller, (second, "perhaps"), key="b")
    assert session.labels == 1
    assert sent[0]["type"] == "refused"
    assert sent[0]["ids"] == [second]
    assert labeller.rows[0]["id"] == second


def test_undo_goes_back_to_earlier_round():
    session, _ = make_session()
    labeller = Labeller(session)
    sent = []
    labeller.send = lambda content, buffers=None: sent.append(content)
    ids = [row["id"] for row in labeller.rows]
    for id_ in ids:
        tell(labeller, (id_, None if id_ == ids[-1] else "yes"), key=id_)
    assert labeller.progress["round"] == 2
    labeller._handle_custom_msg({"type": "undo", "key": "u1"}, [])
    assert sent[-1]["id"] == ids[-1]
    assert sent[-1]["row"]["id"] == ids[-1]
    labeller._handle_custom_msg({"type": "undo", "key": "u2"}, [])
    assert (sent[-1]["id"], session.labels) == (ids[-2], 3)


def test_campaign_shows_raw_rows(tmp_path):
    labeller = Labeller(make_loans(tmp_path / "loans.db"), annotator="ann")
    names = [field["name"] for field in labeller.rows[0]["fields"]]
    assert names == ["income", "debt", "age", "purpose"]  # neither the id nor the old policy's propensity
    tell(labeller, (labeller.rows[0]["id"], "yes"), key="a")
    assert ob.Campaign.open(tmp_path / "loans.db").status().answers == {"ann": 1}


def test_open_widget_shows_added_rows(tmp_path):
    session, _ = make_session()
    logged, X = session.problem.logged, session.problem.pool.X
    campaign = ob.Campaign.create_from_arrays(tmp_path / "c.db", logged, ob.Pool(X[:6], 0.3), tolerance=None)
    view = Labeller(campaign)
    for row in view.rows:
        view._heard({"type": "tell", "key": row["id"], "answers": [{"id": row["id"], "label": "yes"}]})
    assert view.rows == []
    ob.Campaign.open(tmp_path / "c.db").extend(pool=ob.Pool(X[6:], 0.3, ids=np.arange(6, len(X))))
    view._refill()
    assert {field["value"] for field in view.rows[0]["fields"]} <= set(X[int(view.rows[0]["id"])])


def test_given_rows_are_shown(tmp_path):
    import pyarrow as pa

    session, _ = make_session()
    shown = pa.table({"photo": [f"data:image/png;base64,{PNG}"] * 150})
    (field,) = Labeller(session, rows=shown).rows[0]["fields"]
    assert (field["kind"], field["image"]) == ("image", f"data:image/png;base64,{PNG}")
    assert Labeller(session, pixels=(2, 2)).rows[0]["fields"][0]["kind"] == "pixels"
    with pytest.raises(InvalidInput, match="150 of them, but there are 3"):
        Labeller(session, rows=shown.slice(0, 3))


def test_widget_works_in_browser(open_page):
    session, truth = make_session(20)
    labeller = Labeller(session, title="Is it warm?")
    page = open_page("http://observal.test/", static=True)
    replies = []
    labeller.send = lambda content, buffers=None: replies.append(content)
    names = ("campaign", "rows", "progress", "note")
    page.evaluate(MODEL, {name: getattr(labeller, name) for name in names})

    def carry():
        """Carry messages to Python, and state and replies back."""
        for message in page.evaluate("outgoing.splice(0)"):
            labeller._handle_custom_msg(json.loads(json.dumps(message)), [])
        for name in names:
            page.evaluate("([name, value]) => model.set(name, value)", [name, getattr(labeller, name)])
        while replies:
            page.evaluate("(reply) => receive(reply)", replies.pop(0))

    def shown():
        return page.locator(".why .id").first.text_content().removeprefix("Row ")

    page.locator(".stage").click()  # keys count inside the widget only
    told = {}
    for _ in range(8):
        row = shown()
        told[int(row)] = str(truth[int(row)])
        page.keyboard.press(told[int(row)][0])
        carry()
    page.keyboard.press("Backspace")
    carry()
    assert shown() == row
    page.keyboard.press(told[int(row)][0])
    carry()
    ledger = session.engine.read()
    assert {ledger.ids[p]: ledger.settings.classes[code] for p, code in ledger.labels.items()} == told
    assert len(session.rounds) == 2  # it has learned from the first round
    assert page.locator(".counts").text_content() == "8 of 20 labels · Round 2"


def test_rows_in_parquet_are_read_when_shown(tmp_path):
    make_tables(tmp_path)
    logged, pool = in_parts(tmp_path)
    labeller = Labeller(ob.Session(logged, pool, NEWTON, label_budget=3))
    raw = {row["name"]: row for row in pq.read_table(tmp_path / "pool.parquet").to_pylist()}
    assert len(labeller.rows) == 3
    for row in labeller.rows:
        shown = {field["name"]: field["value"] for field in row["fields"]}
        assert shown == {name: raw[row["id"]][name] for name in ("x0", "x1", "x2", "x3")}


def test_features_between_0_and_1_are_shown():
    X = np.linspace(0, 1, 40)[:, None]
    logged = ob.LoggedData(X, np.where(X[:, 0] > 0.5, "yes", "no"), propensity=0.5)
    labeller = Labeller(ob.Session(logged, ob.Pool(X, propensity=0.1), NEWTON, label_budget=1))
    assert [field["name"] for field in labeller.rows[0]["fields"]] == ["x0"]
