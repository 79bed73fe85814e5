"""Asking and telling in a campaign: what each person gets, what each answer changes, what is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import observal as ob
from observal.campaign import Campaign, load_model
from observal.errors import CampaignExists, ConflictingAnswer, InvalidInput, InvalidLabel, NotACampaign, UnknownRow
from observal.journal.answers import LabelReader
from tests.campaigns import METHOD, make_campaign, small_data, truth_of
from tests.postgres import postgres  # noqa: F401  a fixture

OTHER = {"good": "bad", "bad": "good"}


def labels_of(ids):
    return [truth_of(i) for i in ids]


def finish(campaign, n=5, annotator="anyone"):
    while batch := campaign.ask(n, annotator):
        campaign.tell(batch.ids, labels_of(batch.ids), annotator)
    return campaign


@pytest.fixture
def campaign(tmp_path):
    return make_campaign(tmp_path / "campaign.db")


def test_campaign_equals_session(campaign):
    result = finish(campaign).result()
    alone = ob.run(*small_data(), labels_of, METHOD, label_budget=32)
    assert result.queries["id"].tolist() == alone.queries["id"].tolist()
    assert result.queries["label"].tolist() == alone.queries["label"].tolist()
    assert result.decisions["reason"].tolist() == alone.decisions["reason"].tolist()
    assert [r.labels for r in result.rounds] == [r.labels for r in alone.rounds]
    X = small_data()[1].X
    assert result.estimator.predict(X).tolist() == alone.estimator.predict(X).tolist()
    assert result.stopped == alone.stopped == "the label budget of 32 is spent"


def test_size_of_ask_does_not_change_campaign(tmp_path):
    one, many = make_campaign(tmp_path / "1.db"), make_campaign(tmp_path / "2.db")
    asked = [sorted(finish(c, n).result().queries["id"].tolist()) for c, n in ((one, 1), (many, None))]
    assert asked[0] == asked[1]


def test_stream_method_records_all_decisions(tmp_path):
    method = ob.ExactDBAL(ob.Thresholds(), gamma=0.2)
    logged, pool = small_data()
    logged = ob.LoggedData(logged.X[:, :1], logged.y, logged.propensity)
    pool = ob.Pool(pool.X[:, :1], pool.propensity, ids=[f"row-{i}" for i in range(len(pool))])
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", logged, pool, method=method, label_budget=25)

    def labels(ids):
        return [truth_of(int(i.removeprefix("row-"))) for i in ids]

    while batch := campaign.ask(4):
        campaign.tell(batch.ids, labels(batch.ids))
    alone = ob.run(logged, pool, labels, method, label_budget=25)
    result = Campaign.open(tmp_path / "c.db").result()
    for column in ("id", "action", "query_probability", "reason"):
        assert result.decisions[column].tolist() == alone.decisions[column].tolist()


def test_asking_again_returns_same_rows_to_same_annotator_only(campaign):
    ann = campaign.ask(3, "ann")
    assert campaign.ask(3, "ann").ids == ann.ids
    assert campaign.ask(2, "ann").ids == ann.ids[:2]
    assert campaign.ask(4, "ann").ids[:3] == ann.ids
    bob = campaign.ask(3, "bob")
    assert len(bob) == 3
    assert not set(bob.ids) & set(campaign.ask(4, "ann").ids)
    entries = len(campaign.history())
    campaign.ask(3, "ann")
    assert len(campaign.history()) == entries  # nothing new happened


def test_note_names_holders_of_all_rows(tmp_path):
    campaign = make_campaign(tmp_path / "one.db", label_budget=8)
    campaign.ask(5, "ann")
    campaign.ask(None, "bob")
    nothing = campaign.ask(5, "cleo")
    assert not nothing
    assert not nothing.finished
    assert nothing.note == (
        "There is no row for cleo now: of the 8 open rows, ann holds 5, bob holds 3. They use up the label budget; raise it with observal extend."
    )
    assert campaign.release("ann") == 5
    assert campaign.release("ann") == 0
    assert len(campaign.ask(5, "cleo")) == 5


def test_late_answers_for_released_rows_and_older_rounds_count(campaign):
    first = campaign.ask(None, "ann").ids
    campaign.release("ann")
    assert campaign.ask(None, "bob").ids == first
    campaign.tell(first[:4], labels_of(first[:4]), "ann")  # late, and in part
    assert campaign.ask(None, "bob").ids == first[4:]
    campaign.tell(first[::-1], labels_of(first[::-1]), "bob")  # what ann said is known already
    assert campaign.status().labels == 8
    campaign.ask(1, "bob")
    receipt = campaign.tell(first[:1], labels_of(first[:1]), "cleo")
    assert (receipt.labels, receipt.unchanged) == (0, 1)


def test_telling_is_idempotent_and_change_needs_correct(campaign):
    ids = campaign.ask(4).ids
    assert str(campaign.tell(ids, labels_of(ids))) == "4 labels stored."
    entries = len(campaign.history())
    assert str(campaign.tell(ids, labels_of(ids))) == "4 answers already known; nothing changed."
    assert len(campaign.history()) == entries
    changed = [OTHER[truth_of(ids[0])], *labels_of(ids[1:])]
    with pytest.raises(ConflictingAnswer, match=r"answer 1: row '\d+' already has the label '(good|bad)'.*--correct"):
        campaign.tell(ids, changed)
    assert len(campaign.history()) == entries
    receipt = campaign.tell(ids, changed, correct=True)
    assert (receipt.corrected, receipt.unchanged) == (1, 3)
    last = campaign.history()[-1]
    assert last.kind == "corrected"
    assert last.details["answers"] == [{"id": ids[0], "was": truth_of(ids[0]), "label": changed[0]}]
    assert campaign.status().corrections == 1
    one = campaign.ask(1).ids
    campaign.tell(one, labels_of(one))
    assert campaign.history()[-1].text == f"1 answer: 1 {truth_of(one[0])}"
    finish(campaign)
    assert campaign.result().queries["label"][campaign.result().queries["id"] == ids[0]].tolist() == changed[:1]


def test_correction_in_closed_round_keeps_decisions(campaign):
    finish(campaign)
    before = campaign.result()
    row = before.queries["id"].tolist()[0]
    campaign.tell([row], [OTHER[truth_of(row)]], correct=True)
    after = Campaign.open(campaign.engine.journal.name).result()
    assert after.decisions["id"].tolist()[:32] == before.decisions["id"].tolist()
    assert after.queries["label"][0] == OTHER[truth_of(row)]


@pytest.mark.parametrize("nothing", [None, np.nan, " skip ", "Skip"])
def test_skip_is_stored_and_later_label_replaces_it(campaign, nothing):
    ids = campaign.ask(None).ids
    receipt = campaign.tell(ids, [nothing] * len(ids))
    assert (receipt.labels, receipt.skips) == (0, 8)
    again = campaign.ask(None).ids
    assert not set(again) & set(ids)
    assert campaign.status().skipped == 8
    campaign.tell(ids[:1], labels_of(ids[:1]))
    assert (campaign.status().skipped, campaign.status().labels) == (7, 1)
    with pytest.raises(ConflictingAnswer, match="'a skip' was told"):
        campaign.tell(ids[:1], [None])
    finish(campaign)
    assert campaign.status().labels == 32


def test_correction_to_skip_leaves_rows_to_ask(campaign):
    finish(campaign)
    row = campaign.result().queries["id"].tolist()[0]
    assert campaign.ask().finished
    campaign.tell([row], [None], correct=True)
    assert len(campaign.ask()) == 1
    finish(campaign)
    assert campaign.status().labels == 32


def test_answer_for_unknown_row_or_class_stores_nothing(campaign):
    ids = campaign.ask(3).ids
    with pytest.raises(UnknownRow, match="answer 4: row '9999' was never asked about"):
        campaign.tell([*ids, 9999], [*labels_of(ids), "good"])
    with pytest.raises(InvalidLabel, match=r"answer 1: 'great' is not one of the classes \['bad', 'good'\]"):
        campaign.tell(ids, ["great", *labels_of(ids[1:])])
    with pytest.raises(ConflictingAnswer, match=r"answer 2: .* a different label in answer 1"):
        campaign.tell([ids[0], ids[0]], ["good", "bad"], correct=True)
    with pytest.raises(InvalidInput, match="3 ids and 1 labels"):
        campaign.tell(ids, ["good"])
    assert campaign.status().labels == 0
    assert [e.kind for e in campaign.history()] == ["created", "round", "asked"]


def test_wrong_file_of_answers_names_line(campaign, tmp_path):
    ids = campaign.ask(3).ids
    file = tmp_path / "labels.csv"
    file.write_text(f'id,note,label\n{ids[0]},"two\nlines",good\n{ids[1]},,bad\n,,\n77777,,good\n')
    with pytest.raises(UnknownRow, match=r"labels.csv, line 6: row '77777'"):
        campaign.tell_file(file)
    file.write_text(f"id,label\n{ids[0]},good\n{ids[1]},bad\n{ids[0]},bad\n")
    with pytest.raises(ConflictingAnswer, match=r"line 4: .* line 2"):
        campaign.tell_file(file)
    assert campaign.status().labels == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must have the column 'id'"),
        ("row,label\n1,good\n", "must have the column 'id'"),
        ("id,answer\n1,good\n", "must have the column 'label'"),
        ("id,label\n1\n", "line 2: the row has 1 cells"),
        ('id,label\n"1,good\n', "not readable as CSV"),
    ],
)
def test_unreadable_file_of_answers_raises(campaign, tmp_path, text, sentence):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(InvalidInput, match=sentence):
        campaign.tell_file(tmp_path / "labels.csv")


def test_files_written_by_spreadsheets_are_read(campaign, tmp_path):
    a, b, c, d = campaign.ask(4).ids
    texts = [f"\ufeffid;label\r\n{a}.0;GOOD\r\n", f"label\tid\n bad \t{b}\n", json.dumps([{"id": c, "label": "good"}])]
    for number, text in enumerate(texts):
        file = tmp_path / f"{number}.{'json' if text.startswith('[') else 'csv'}"
        file.write_text(text, encoding="utf-8")
        assert campaign.tell_file(file).labels == 1
    (tmp_path / "empty.csv").write_text("id,label\n")
    assert "no answers" in str(campaign.tell_file(tmp_path / "empty.csv"))
    (tmp_path / "windows.csv").write_bytes(f"id,label,note\n{d},good,sch\xf6n\n".encode("cp1252"))
    with pytest.raises(InvalidInput, match="not text in ascii"):
        campaign.tell_file(tmp_path / "windows.csv", encoding="ascii")
    assert campaign.tell_file(tmp_path / "windows.csv").labels == 1


@pytest.mark.parametrize(
    ("classes", "texts"),
    [
        ([0, 1], {"1": 1, "1.0": 1, " 0 ": 0, "True": 1, "FALSE": 0, "skip": None}),
        ([0.0, 1.0], {"1": 1, "1e0": 1, "true": 1, "0.0": 0}),
        ([False, True], {"1": 1, "true": 1, "False": 0, "0.0": 0}),
        (["no", "yes"], {"YES": 1, " no": 0, "SKIP ": None, None: None}),
        (["a", "A"], {"a": 0, "A": 1}),
        (["01", "1"], {"01": 0, "1": 1}),
        (["ask", "skip"], {"skip": 1, None: None}),
        (["=x", "-1"], {"=x": 0, "'=x": 0, "-1": 1, "'-1": 1}),
        (["=x", "'=x"], {"=x": 0, "'=x": 1, "''=x": 1}),
        ([-1, 1], {"-1.0": 0, "+1": 1}),
    ],
)
def test_labels_are_matched_by_text(classes, texts):
    read = LabelReader(classes)
    assert {text: read(text) for text in texts} == texts
    for strange in ("2", "", " "):
        with pytest.raises(LookupError):
            read(strange)


def test_two_annotators_per_row_and_third_breaks_tie(tmp_path):
    campaign = make_campaign(tmp_path / "c.db", overlap=2, label_budget=8)
    with pytest.raises(InvalidInput, match="no name was given"):
        campaign.ask(3)
    ids = campaign.ask(None, "ann").ids
    assert campaign.ask(None, "bob").ids == ids
    assert not campaign.ask(None, "cleo")  # two have each row
    campaign.tell(ids, labels_of(ids), "ann")
    assert campaign.status().labels == 0
    assert not campaign.ask(None, "ann")
    campaign.tell(ids, [OTHER[truth_of(ids[0])], *labels_of(ids[1:])], "bob")
    assert campaign.status().labels == 7  # a tie on the first row
    tied = campaign.ask(None, "cleo")
    assert tied.ids == ids[:1]
    assert "cleo holds 1" in campaign.ask(None, "dan").note
    campaign.tell(ids[:1], labels_of(ids[:1]), "cleo")
    assert campaign.status().labels == 8
    assert campaign.result().queries["label"].tolist() == labels_of(ids)
    found = campaign.status().agreement
    assert (found.rows, found.kind) == (8, "Fleiss")
    assert found.share == pytest.approx((7 + 1 / 3) / 8)
    # One of two was wrong: with the correction the label stays, and there is no tie to keep it from changing.
    campaign.tell(ids[1:2], [OTHER[truth_of(ids[1])]], "bob", correct=True)
    assert campaign.result().queries["label"].tolist() == labels_of(ids)
    with pytest.raises(ConflictingAnswer):
        campaign.tell(ids[1:2], labels_of(ids[1:2]), "bob")


def test_skips_with_several_annotators_do_not_count_as_votes(tmp_path):
    campaign = make_campaign(tmp_path / "c.db", overlap=2, label_budget=8)
    a, b, *others = campaign.ask(None, "ann").ids
    campaign.ask(None, "bob")
    campaign.tell([a, b, *others], [None, None, *labels_of(others)], "ann")
    campaign.tell([a, b, *others], [truth_of(a), None, *labels_of(others)], "bob")
    status = campaign.status()
    assert (status.labels, status.skipped, status.open_rows) == (7, 1, 0)  # one answered row a, no one row b
    assert b not in campaign.ask(None, "ann").ids


def test_released_rows_go_to_another_of_several_annotators(tmp_path):
    campaign = make_campaign(tmp_path / "c.db", overlap=2)
    ids = campaign.ask(3, "ann").ids
    campaign.ask(3, "bob")
    campaign.release("bob")
    assert campaign.ask(3, "cleo").ids == ids


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
def test_campaign_continues_in_another_process(tmp_path, place, request):
    where = tmp_path / "c.db" if place == "sqlite" else request.getfixturevalue("postgres")()
    make_campaign(where)
    expected = finish(make_campaign(tmp_path / "whole.db")).result().queries["id"].tolist()
    asked = []
    while batch := Campaign.open(where).ask(5):
        assert Campaign.open(where).ask(5).ids == batch.ids
        Campaign.open(where).tell(batch.ids, labels_of(batch.ids))
        asked += batch.ids
    assert asked == expected
    with pytest.raises(CampaignExists, match="already exists; choose another path"):
        make_campaign(where)


def test_copied_file_is_whole_campaign(campaign, tmp_path):
    ids = campaign.ask(5).ids
    campaign.tell(ids, labels_of(ids))
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(tmp_path / "campaign.db", tmp_path / "elsewhere" / "copy.db")
    copy = finish(Campaign.open(tmp_path / "elsewhere" / "copy.db"))
    assert copy.result().queries["id"].tolist() == finish(campaign).result().queries["id"].tolist()


def tables(n=80):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "loan": [f"L{i}" for i in range(2 * n)],
            "income": rng.normal(size=2 * n),
            "home": rng.choice(["own", "rent"], 2 * n),
            "q0": 0.5,
        }
    )
    frame.loc[3, "income"] = np.nan
    frame["paid"] = np.where(frame["income"].fillna(0) + (frame["home"] == "own") > 0.5, 1, 0)
    log, pool = frame[:n].copy(), frame[n:].drop(columns="paid")
    log.loc[rng.random(n) < 0.5, "paid"] = np.nan
    return log, pool, dict(zip(frame["loan"], frame["paid"], strict=True))


def test_campaign_from_tables_exports_model_for_raw_rows(tmp_path):
    log, pool, truth = tables()
    where = tmp_path / "c.db"
    campaign = Campaign.create(where, log, pool, label="paid", propensity="q0", id="loan", label_budget=20)
    while batch := campaign.ask(5):
        assert batch.rows.column_names == ["loan", "income", "home"]
        wanted = pool.set_index("loan").loc[list(batch.ids)]
        assert batch.rows.column("income").to_pylist() == wanted["income"].tolist()
        campaign.tell(batch.ids, [str(float(truth[i])) for i in batch.ids])
    campaign.export(tmp_path / "loans.model")
    model = load_model(tmp_path / "loans.model")
    raw = pd.concat([pool, pd.DataFrame({"income": [np.nan], "home": ["castle"]})])
    encoded = campaign.session().problem.pool.X
    assert model.predict(pool).tolist() == campaign.result().estimator.predict(encoded).tolist()
    assert set(model.predict(raw).tolist()) <= {0, 1}
    assert model.predict_proba(raw).shape == (81, 2)
    assert model.score(pool, [truth[i] for i in pool["loan"]]) > 0.85
    assert any("income" in note for note in campaign.status().notes)


def test_rows_without_id_column_are_numbered(tmp_path):
    log, pool, _ = tables()
    pool = pool.drop(columns="loan").rename(columns={"home": "id"})
    log = log.drop(columns="loan").rename(columns={"home": "id"})
    campaign = Campaign.create(tmp_path / "c.db", log, pool, label="paid", propensity="q0", label_budget=20)
    batch = campaign.ask(4)
    assert batch.rows.column_names == ["row", "income", "id"]
    assert batch.rows.column("income").to_pylist() == pool["income"].iloc[list(batch.ids)].tolist()
    assert campaign.tell(batch.ids, [1, 0, "1", None]).labels == 3


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda c, w: c.ask(0), "n must be a whole number of at least 1"),
        (lambda c, w: c.ask(True), "n must be a whole number"),
        (lambda c, w: c.ask(3, ""), "must be printable text"),
        (lambda c, w: c.ask(3, "a\nb"), "must be printable text"),
        (lambda c, w: c.ask(3, "x" * 101), "100 characters"),
        (lambda c, w: make_campaign(w / "n.db", overlap=0), "overlap must be"),
        (lambda c, w: make_campaign(w / "n.db", random_state=-1), "random_state must be"),
        (lambda c, w: make_campaign(w / "n.db", label_budget=1.5), "label_budget must be"),
        (
            lambda c, w: make_campaign(w / "n.db", method=ob.NewtonVC),
            'method must be "auto", "newton" or a method such as',
        ),
        (lambda c, w: make_campaign(w / "no" / "n.db"), "does not exist"),
        (lambda c, w: make_campaign("mysql://x/y"), "SQLite file or a PostgreSQL"),
        (lambda c, w: Campaign.open(w / "none.db"), "There is no campaign file at"),
        (lambda c, w: Campaign.open(w), "There is no campaign file at"),
    ],
)
def test_wrong_arguments_get_one_sentence(campaign, tmp_path, call, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        call(campaign, tmp_path)
    assert not (tmp_path / "n.db").exists()


def test_opening_other_file_raises(tmp_path):
    (tmp_path / "text.db").write_text("This is not a database, but it is long enough to be one." * 100)
    with pytest.raises(NotACampaign, match="not a campaign"):
        Campaign.open(tmp_path / "text.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(NotACampaign, match="contains no campaign"):
        Campaign.open(tmp_path / "empty.db")
