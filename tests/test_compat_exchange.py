"""Tasks and annotations of Label Studio: what is written, and what comes back."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from observal.campaign import Campaign
from observal.errors import InvalidInput
from observal.exchange.label_tools import label_studio_config, label_studio_tasks, read_annotations
from tests.campaigns import make_campaign, truth_of
from tests.command import observal

OTHER = {"good": "bad", "bad": "good"}


@pytest.fixture
def folder(tmp_path):
    make_campaign(tmp_path / "c.db", label_budget=16)
    return tmp_path


def annotated(task, by, label, cancelled=False):
    """Return a task as Label Studio exports it, with an annotation."""
    result = (
        [{"from_name": "label", "to_name": "row", "type": "choices", "value": {"choices": [label]}}] if label else []
    )
    return {**task, "annotations": [{"completed_by": by, "was_cancelled": cancelled, "result": result}]}


def test_label_studio_tasks_say_how_rows_were_drawn(folder):
    done = observal("export", "c.db", "--label-studio", "tasks.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    tasks = json.loads((folder / "tasks.json").read_text())
    campaign = Campaign.open(folder / "c.db")
    plan = campaign.plans[0]
    assert [task["data"]["id"] for task in tasks] == [str(p) for p in plan.asked.tolist()]
    X = campaign.problem.pool.X
    for task in tasks:
        data, row = task["data"], int(task["data"]["id"])
        at = plan.positions.tolist().index(row)
        assert (data["round"], data["query_probability"]) == (1, plan.query_probability[at])
        assert data["reason"] == plan.reasons[plan.reason[at]]
        assert data["row"] == f"x0: {X[row, 0]}\nx1: {X[row, 1]}"
        prediction = task["predictions"][0]
        assert prediction["result"][0]["value"]["choices"] == [campaign.estimator.predict(X[[row]])[0]]
        assert prediction["score"] == pytest.approx(campaign.estimator.predict_proba(X[[row]]).max())
        assert prediction["model_version"] == "observal round 0"
    assert dict(campaign.status().held) == {"label-studio": 8}
    config = ET.fromstring((folder / "tasks.xml").read_text())
    assert [choice.get("value") for choice in config.iter("Choice")] == ["bad", "good"]
    again = observal("export", "c.db", "--label-studio", "tasks.json", cwd=folder)
    assert "already exists" in again.stderr


def test_label_studio_annotations_are_stored_by_annotator(folder):
    observal("export", "c.db", "--label-studio", "tasks.json", cwd=folder)
    tasks = json.loads((folder / "tasks.json").read_text())
    truth = [truth_of(int(task["data"]["id"])) for task in tasks]
    told = [annotated(t, 7, label) for t, label in zip(tasks, truth, strict=True)]
    told[0] = annotated(tasks[0], {"email": "ann@example.org"}, None, cancelled=True)
    told[1]["annotations"] += annotated(tasks[1], {"email": "ann@example.org"}, OTHER[truth[1]])["annotations"]
    told[2] = annotated(tasks[2], 7, None)  # opened, not answered
    (folder / "annotations.json").write_text(json.dumps(told))
    done = observal("tell", "c.db", "annotations.json", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "labels": 7,
        "skips": 1,
        "corrected": 0,
        "unchanged": 0,
        "blank": 0,
        "bought": 6,
        "label_budget": 16,
    }
    ledger = Campaign.open(folder / "c.db").engine.read()
    codes = ["bad", "good"]
    first, second = (ledger.find(task["data"]["id"]) for task in tasks[:2])
    assert ledger.responses[first] == {"ann@example.org": None}
    assert ledger.responses[second] == {
        "label-studio 7": codes.index(truth[1]),
        "ann@example.org": codes.index(OTHER[truth[1]]),
    }
    assert ledger.labels[second] == codes.index(OTHER[truth[1]])  # ann comes first in the file
    again = observal("tell", "c.db", "annotations.json", cwd=folder)
    assert "nothing changed" in again.stdout


def test_csv_goes_to_another_tool_and_back(folder):
    assert observal("ask", "c.db", "-o", "rows.csv", "--annotator", "tool", cwd=folder).returncode == 0
    rows = pd.read_csv(folder / "rows.csv", dtype=str)
    labels = [truth_of(int(id_)) for id_ in rows["id"]]
    labels[0] = "skip"
    pd.DataFrame({"note": "seen", "label": labels, "id": rows["id"]}).to_csv(folder / "back.csv", index=False)
    done = observal("tell", "c.db", "back.csv", "--annotator", "tool", cwd=folder)
    assert done.returncode == 0, done.stderr
    status = Campaign.open(folder / "c.db").status()
    assert (status.labels, status.skipped, set(status.answers)) == (len(rows) - 1, 1, {"tool"})


def test_json_of_another_tool_is_refused_with_the_columns_it_lacks(folder):
    record = {"id": "3", "fields": {"row": "x0: 1"}, "responses": {"label": [{"value": "good"}]}}
    (folder / "records.json").write_text(json.dumps([record]))
    done = observal("tell", "c.db", "records.json", cwd=folder)
    assert done.returncode == 1
    assert "object 1 must have the column 'label', but its columns are ['id', 'fields', 'responses']" in done.stderr
    assert Campaign.open(folder / "c.db").status().labels == 0


def test_wrong_annotation_stores_nothing(folder):
    observal("export", "c.db", "--label-studio", "tasks.json", cwd=folder)
    tasks = json.loads((folder / "tasks.json").read_text())
    good = annotated(tasks[0], 1, "good")
    broken = {**tasks[1], "annotations": [{"completed_by": 1, "result": [{"value": {}}]}]}
    unknown = annotated({"data": {"id": "nowhere"}}, 1, "good")
    for wrong in (broken, unknown, annotated(tasks[1], 1, "great"), {**tasks[1], "annotations": 3}):
        (folder / "a.json").write_text(json.dumps([good, wrong]))
        done = observal("tell", "c.db", "a.json", cwd=folder)
        assert done.returncode == 1
        assert "nothing was stored" in done.stderr
    assert Campaign.open(folder / "c.db").status().labels == 0


def test_other_json_is_read_as_plain_answers(tmp_path):
    for content in ("[]", "{", '[{"id": 1, "label": "a"}]', '{"rows": []}', "[3]"):
        assert read_annotations("x.json", content) is None
    assert read_annotations("x.csv", "[]") is None
    with pytest.raises(InvalidInput, match="object 1 is not what"):
        read_annotations("x.json", '[{"data": {}, "annotations": [{"result": [], "was_cancelled": true}]}]')


def test_rows_for_tool_have_predictions_of_round_they_were_drawn_in(folder, monkeypatch):
    campaign = Campaign.open(folder / "c.db")
    read = campaign.engine.journal.reading

    def answer_and_read():
        """Answer the whole round before anything is read: its rows would get predictions of the next one."""
        monkeypatch.undo()
        ids = [campaign.engine.ledger.ids[row] for row in campaign.engine.ledger.open_rows]
        Campaign.open(folder / "c.db").tell(ids, [truth_of(int(id_)) for id_ in ids])
        return read()

    monkeypatch.setattr(campaign.engine.journal, "reading", answer_and_read)
    rows = campaign.drawn("label-studio")
    assert {row.model_round for row in rows} == {0}
    assert {row.round for row in rows} == {1}


def test_export_writes_one_file(folder):
    assert "either MODEL or --label-studio FILE" in observal("export", "c.db", cwd=folder).stderr
    assert observal("export", "c.db", "m.model", "--label-studio", "t.json", cwd=folder).returncode == 2


@pytest.mark.slow
def test_label_studio_accepts_tasks_and_config(folder):
    """Its own validators; its SDK needs an older numpy than we do, so it is not among the packages for developers."""
    interface = pytest.importorskip("label_studio_sdk.label_interface", reason="label-studio-sdk is not installed")
    rows = Campaign.open(folder / "c.db").drawn("label-studio")
    found = interface.LabelInterface(label_studio_config(["bad", "good"]))
    found.validate()
    for task in label_studio_tasks(rows):
        assert found.validate_task({"data": task["data"]})
        assert found.validate_prediction(task["predictions"][0])
