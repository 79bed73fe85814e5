"""Asking and telling: nothing is lost, nothing is asked twice, and a saved session goes on as if nothing had happened."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import uuid

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import observal as ob
from observal.errors import ConflictingAnswer, InvalidInput, InvalidLabel, UnknownRow
from observal.problem.goals import Goals
from tests.hostile import write_members


def data(seed=0, n=60):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, 2 * n)
    y = np.where(x > 0.2, "good", "bad").astype(object)
    revealed = rng.random(n) < 0.5
    logged = ob.LoggedData(x[:n, None], np.where(revealed, y[:n], None), 0.5)
    pool = ob.Pool(x[n:, None], 0.05, ids=[f"row-{i}" for i in range(n)])
    truth = dict(zip(pool.ids.tolist(), y[n:].tolist(), strict=True))
    return logged, pool, truth


METHOD = ob.ExactDBAL(ob.Thresholds(), gamma=0.2)


def session(**kwargs):
    logged, pool, truth = data()
    return ob.Session(logged, pool, METHOD, **kwargs), truth


def answer_all(live, truth, at_once=7):
    while query := live.ask(at_once):
        live.tell(query.ids, [truth[i] for i in query.ids])
    return live.result()


def test_asking_again_without_telling_returns_same_rows():
    live, _ = session()
    assert live.ask(3).ids.tolist() == live.ask(3).ids.tolist()


def test_batch_size_does_not_change_run():
    results = [answer_all(*session(), at_once=size) for size in (1, 3, 50, None)]
    for result in results[1:]:
        assert sorted(result.queries["id"]) == sorted(results[0].queries["id"])
        assert [r.candidates for r in result.rounds] == [r.candidates for r in results[0].rounds]


def test_run_equals_session_in_loop():
    logged, pool, truth = data()
    seen = []
    result = ob.run(logged, pool, lambda ids: [truth[i] for i in ids], METHOD, on_round=seen.append)
    assert [r.labels for r in seen] == [r.labels for r in result.rounds]
    assert result.queries["id"].tolist() == answer_all(*session()).queries["id"].tolist()
    assert result.stopped == "every pool row has been looked at"


def test_telling_is_idempotent_and_conflict_stores_nothing():
    live, truth = session()
    ids = live.ask(4).ids.tolist()
    live.tell(ids[:2], [truth[i] for i in ids[:2]])
    live.tell(ids[:2], [truth[i] for i in ids[:2]])
    assert live.labels == 2
    other = {"good": "bad", "bad": "good"}
    with pytest.raises(ConflictingAnswer, match="correct=True"):
        live.tell([ids[0], ids[2]] if len(ids) > 2 else [ids[0]], [other[truth[ids[0]]]] + [truth[i] for i in ids[2:3]])
    assert live.labels == 2  # nothing of the refused call was stored
    live.tell([ids[0]], [other[truth[ids[0]]]], correct=True)
    assert live.labels == 2


def test_contradiction_within_one_call_raises():
    live, _ = session()
    row = live.ask(1).ids[0]
    with pytest.raises(ConflictingAnswer):
        live.tell([row, row], ["good", "bad"], correct=True)
    live.tell([row, row], ["good", "good"])
    assert live.labels == 1


def test_correction_in_closed_round_keeps_decisions_and_refits():
    live, truth = session()
    result = answer_all(live, truth)
    before = result.decisions
    row = result.queries["id"][0]
    wrong = "bad" if truth[row] == "good" else "good"
    live.tell([row], [wrong], correct=True)
    after = live.result()
    assert after.decisions["id"].tolist() == before["id"].tolist()
    assert after.decisions["action"].tolist() == before["action"].tolist()
    assert after.queries["label"][0] == wrong
    assert after.rounds[-1].details["estimated_loss"] != result.rounds[-1].details["estimated_loss"]
    live.tell([row], [truth[row]], correct=True)
    assert live.result().rounds[-1].details == result.rounds[-1].details


@pytest.mark.parametrize("nothing", [None, np.nan, float("nan")])
def test_skipped_row_is_not_asked_again_and_late_label_replaces_skip(nothing):
    live, truth = session()
    first = live.ask().ids.tolist()
    live.tell(first, [nothing] * len(first))
    assert live.labels == 0
    assert live.rounds[-1].skipped == len(first)
    result = answer_all(live, truth)
    assert not set(first) & set(result.queries["id"])
    assert len(result.queries) == result.rounds[-1].labels
    live.tell(first[:1], [truth[first[0]]])
    assert first[0] in live.result().queries["id"]
    with pytest.raises(ConflictingAnswer):
        live.tell(first[:1], ["bad" if truth[first[0]] == "good" else "good"])


def test_late_and_out_of_order_answers_are_accepted():
    live, truth = session()
    for _ in range(3):
        query = live.ask()
        for row in reversed(query.ids.tolist()):
            live.tell([row], [truth[row]])
    assert len(live.rounds) >= 4


def test_budget_is_never_exceeded_and_stream_stops_there():
    for budget in (0, 1, 5, 12):
        live, truth = session(label_budget=budget)
        result = answer_all(live, truth)
        assert result.rounds[-1].labels == budget
        assert result.stopped == f"the label budget of {budget} is spent"
        assert live.ask() is None
        if budget:
            assert result.rounds[-1].seen < 60


def test_budget_left_by_skips_is_spent_on_later_rows():
    live, truth = session(label_budget=8)
    skipped = 0
    while query := live.ask():
        answers = [truth[i] if skipped >= 3 else None for i in query.ids]
        skipped += sum(a is None for a in answers)
        live.tell(query.ids, answers)
    assert live.labels == 8


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.tell(["row-none"], ["good"]), UnknownRow, "'row-none' was never asked about"),
        (lambda s: s.tell(s.ask(1).ids, ["great"]), InvalidLabel, "'great' is not one of the classes"),
        (lambda s: s.tell(s.ask(1).ids, []), InvalidInput, "1 ids and 0 labels"),
        (lambda s: s.ask(0), InvalidInput, "at least 1"),
    ],
)
def test_bad_answers_raise_and_change_nothing(call, error, message):
    live, truth = session()
    known = live.ask(1).ids
    live.tell(known, [truth[known[0]]])
    with pytest.raises(error, match=message):
        call(live)
    assert live.labels == 1


def test_negative_budget_raises():
    with pytest.raises(InvalidInput, match="label_budget"):
        session(label_budget=-1)


@pytest.mark.parametrize("answers_before", [0, 1, 9])
def test_saved_session_continues_as_original(tmp_path, answers_before):
    live, truth = session(label_budget=30, random_state=7)
    expected = answer_all(*session(label_budget=30, random_state=7))
    for _ in range(answers_before):
        row = live.ask(1).ids[0]
        live.tell([row], [truth[row]])
    live.save(tmp_path / "run.observal")
    copy = ob.Session.load(tmp_path / "run.observal")
    assert copy.ask(5).ids.tolist() == live.ask(5).ids.tolist()
    result = answer_all(copy, truth)
    assert result.queries["id"].tolist() == expected.queries["id"].tolist()
    assert result.queries["label"].tolist() == expected.queries["label"].tolist()
    assert [r.candidates for r in result.rounds] == [r.candidates for r in expected.rounds]


def test_loaded_session_keeps_goals(tmp_path):
    logged, pool, _ = data()
    goals = {"population": "log", "looks": "once", "tolerance": 0.01, "width": 0.3, "objective": "balanced error"}
    live = ob.Session(logged, pool, ob.NewtonVC(), label_budget=9, **goals)
    live.save(tmp_path / "s.session")
    assert ob.Session.load(tmp_path / "s.session").settings == live.settings
    assert live.settings.goals == Goals(**goals)
    plain = ob.Session(logged, pool, label_budget=9)  # whose error it is was found from the data, and noted
    plain.save(tmp_path / "s.session")
    assert ob.Session.load(tmp_path / "s.session").settings == plain.settings


def test_loaded_session_keeps_recorded_decisions_of_changed_method(tmp_path):
    live, truth = session()
    for _ in range(2):
        query = live.ask()
        live.tell(query.ids, [truth[i] for i in query.ids])
    asked = live.ask().ids.tolist()
    live.save(tmp_path / "run")
    other = ob.ExactDBAL(ob.Thresholds(), gamma=0.001)  # as a machine that computes differently would
    assert ob.Session.load(tmp_path / "run", method=other).ask().ids.tolist() == asked


def test_method_that_cannot_be_saved_must_be_given_again(tmp_path):
    logged, pool, _ = data()
    cls = ob.FiniteClass.from_callables([lambda X: np.ones(len(X)), lambda X: -np.ones(len(X))])
    method = ob.ExactDBAL(cls, gamma=0.1)
    ob.Session(logged, pool, method).save(tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"pass it again, as in Session.load\(path, method=…\)"):
        ob.Session.load(tmp_path / "run")
    assert ob.Session.load(tmp_path / "run", method=method).rounds[0].candidates == 2


def test_sparse_rows_and_costs_survive_saving(tmp_path):
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.random((20, 3)))
    cls = ob.FiniteClass(rng.choice([-1, 1], (6, 40)))
    logged = ob.LoggedData(X, rng.integers(0, 2, 20), 0.5, cost=np.full(20, 0.5))
    pool = ob.Pool(X, 0.0, cost=np.full(20, 0.5))
    live = ob.Session(logged, pool, ob.ExactDBAL(cls, gamma=0.1))
    live.save(tmp_path / "run")
    copy = ob.Session.load(tmp_path / "run")
    assert copy.method == live.method
    assert (copy.problem.logged.X != X).nnz == 0
    assert copy.problem.pool.cost.tolist() == [0.5] * 20


def test_saving_replaces_file_only_when_new_one_is_complete(tmp_path, monkeypatch):
    live, truth = session()
    path = tmp_path / "run"
    live.save(path)
    row = live.ask(1).ids[0]
    live.tell([row], [truth[row]])
    monkeypatch.setattr(np.lib.format, "write_array", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        live.save(path)
    monkeypatch.undo()
    assert ob.Session.load(path).labels == 0  # the older, complete file


def test_loading_other_file_raises(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InvalidInput, match="not a file that observal saved"):
        ob.Session.load(tmp_path / "notes.txt")


def test_file_naming_code_outside_observal_raises(tmp_path):
    import json

    record = {"logged": {"type": "subprocess:Popen", "fields": {"args": "true"}}}
    content = json.dumps({"format": 4, "record": record}).encode()
    write_members(tmp_path / "evil", {"record.json": content}, sealed=True)
    with pytest.raises(InvalidInput, match="does not have"):
        ob.Session.load(tmp_path / "evil")


@pytest.mark.parametrize("number", [1, 99])
def test_session_of_another_format_gets_one_sentence(tmp_path, number):
    content = f'{{"format": {number}, "record": {{}}}}'.encode()
    write_members(tmp_path / "other", {"record.json": content}, sealed=True)
    with pytest.raises(InvalidInput, match=rf"another version of observal \(format {number}; this one reads 4\)"):
        ob.Session.load(tmp_path / "other")


@pytest.mark.parametrize(
    "ids",
    [
        [uuid.uuid5(uuid.NAMESPACE_DNS, str(i)) for i in range(60)],
        [datetime.date(2026, 1, 1) + datetime.timedelta(days=i) for i in range(60)],
        [decimal.Decimal(i) / 7 for i in range(60)],
    ],
)
def test_ids_of_all_types_survive_saving(tmp_path, ids):
    logged, pool, _ = data()
    live = ob.Session(logged, ob.Pool(pool.X, pool.propensity, np.array(ids, dtype=object)), METHOD)
    live.save(tmp_path / "run")
    assert ob.Session.load(tmp_path / "run").ask(3).ids.tolist() == live.ask(3).ids.tolist()


def test_unstorable_values_raise_when_saving(tmp_path):
    logged, pool, _ = data()
    ids = np.array([frozenset([i]) for i in range(60)], dtype=object)
    live = ob.Session(logged, ob.Pool(pool.X, pool.propensity, ids), METHOD)
    with pytest.raises(InvalidInput, match="nothing was saved"):
        live.save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_damaged_file_raises(tmp_path):
    live, _ = session()
    live.save(tmp_path / "run")
    whole = (tmp_path / "run").read_bytes()
    rng = np.random.default_rng(0)
    for number in range(40):
        damaged = bytearray(whole)
        for where in rng.integers(0, len(whole), 3):
            damaged[where] ^= 0xFF
        path = tmp_path / f"damaged-{number}"
        path.write_bytes(damaged[: rng.integers(1, len(whole) + 1)] if number % 2 else damaged)
        with contextlib.suppress(InvalidInput):  # any other error fails; a flipped bit in padding does no harm
            ob.Session.load(path)
    for text in ("[]", "{}", '{"format": 4, "record": {}}', '{"format": 4, "record": []}'):
        write_members(tmp_path / "odd", {"record.json": text.encode()}, sealed=True)
        with pytest.raises(InvalidInput, match=r"not a file that observal saved|is not a session"):
            ob.Session.load(tmp_path / "odd")


def test_loading_with_another_method_class_raises(tmp_path):
    live, _ = session()
    live.save(tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"saved with ExactDBAL"):
        ob.Session.load(tmp_path / "run", method=ob.ActiveVC())


def test_session_continues_after_corrections_to_skips_and_saved_copy_agrees(tmp_path):
    live, truth = session(label_budget=6)
    result = answer_all(live, truth)
    assert live.finished
    taken_back = result.queries["id"][:2]
    live.tell(taken_back, [None, None], correct=True)
    live.save(tmp_path / "run")
    copy = ob.Session.load(tmp_path / "run")
    assert live.labels == copy.labels == 4
    assert live.ask().ids.tolist() == copy.ask().ids.tolist()


def test_late_answer_is_stored_beyond_budget():
    live, truth = session(label_budget=5)
    first = live.ask().ids.tolist()
    live.tell(first, [None] * len(first))
    answer_all(live, truth)
    live.tell(first, [truth[i] for i in first])
    assert live.labels == 5 + len(first)
    assert set(first) <= set(live.result().queries["id"])


@pytest.mark.parametrize(
    "kwargs",
    [
        {"label_budget": 10.5},
        {"label_budget": "10"},
        {"random_state": None},
        {"random_state": -1},
        {"method": ob.ActiveVC},
    ],
)
def test_wrong_arguments_get_one_sentence(kwargs):
    logged, pool, _ = data()
    with pytest.raises(InvalidInput, match="must be"):
        ob.Session(logged, pool, **{"method": METHOD, **kwargs})


def test_oracle_returning_none_raises():
    logged, pool, _ = data()
    with pytest.raises(InvalidInput, match="returned None"):
        ob.run(logged, pool, lambda ids: None, METHOD)


def test_label_that_is_not_a_class_raises():
    live, _ = session()
    with pytest.raises(InvalidLabel, match="is not one of the classes"):
        live.tell(live.ask(1).ids, [["good"]])
    with pytest.raises(InvalidInput, match="whole number"):
        live.ask(1.5)


def test_default_method_needs_no_settings():
    logged, pool, truth = data()
    result = ob.run(logged, pool, lambda ids: [truth[i] for i in ids], label_budget=20)
    assert isinstance(ob.Session(logged, pool).method, ob.AutoVC)
    assert result.rounds[-1].labels == 20
    assert result.estimator.score(pool.X, [truth[i] for i in pool.ids]) > 0.9


def test_method_can_be_named_as_on_the_command_line():
    X = np.linspace(-1, 1, 40)[:, None]
    data = ob.LoggedData(X, np.where(X[:, 0] > 0, "yes", "no"), 0.5), ob.Pool(X, 0.5)
    assert ob.Session(*data, method="newton").settings.method == ob.NewtonVC()
    assert ob.Session(*data, method="auto").settings.method == ob.AutoVC()
    with pytest.raises(InvalidInput, match=r"^method must be \"auto\", \"newton\" or a method .* but is 'newtonvc'"):
        ob.Session(*data, method="newtonvc")


def test_method_used_as_an_estimator_names_the_classifier_to_use():
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    for use in (
        lambda: clone(ob.AutoVC()),
        lambda: make_pipeline(StandardScaler(), ob.AutoVC()).fit(X, y),
        lambda: cross_val_score(ob.NewtonVC(), X, y),
        lambda: GridSearchCV(ob.NewtonVC(), {}).fit(X, y),
        lambda: ob.AutoVC().fit(X, y),
    ):
        with pytest.raises(
            InvalidInput, match=r"VC is a method, .* and not a scikit-learn estimator; use ob.BlendClassifier"
        ):
            use()
