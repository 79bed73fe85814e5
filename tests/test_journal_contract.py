"""The contract of asking and telling, the same for every backend: memory, a session's file, SQLite, PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import observal as ob
from observal.campaign import Campaign
from observal.errors import ConflictingAnswer, InvalidInput, InvalidLabel, NotACampaign, UnknownRow
from observal.journal.answers import WrittenAnswer
from observal.journal.engine import Engine, count_payable
from observal.journal.events import Event, check_payload
from observal.journal.ledger import Ledger
from observal.journal.replay import Replay
from observal.journal.sql import journal as sql_journal
from observal.journal.status import why_nothing
from observal.problem.plan import Plan
from observal.problem.words import money
from tests.campaigns import METHOD, small_data, truth_of
from tests.postgres import postgres  # noqa: F401  a fixture

OTHER = {"good": "bad", "bad": "good"}


class Backend:
    """Makes a loop of asking and telling, and hands it back as another process would find it."""

    def __init__(self, kind, folder, new_database):
        self.kind, self.folder, self._new_database = kind, folder, new_database
        self._live = None

    def make(self, price=None, **settings):
        settings = {"label_budget": 24, "method": METHOD, "random_state": 3, **settings}
        logged, pool = small_data()
        data = logged, replace(pool, price=price)
        if self.kind in ("memory", "file"):
            self._live = ob.Session(*data, **settings)
        else:
            self.where = self._new_database() if self.kind == "postgresql" else self.folder / "c.db"
            self._live = Campaign.create_from_arrays(self.where, *data, **settings)
        return self

    @property
    def now(self):
        """What the backend holds: a file is written and read again, a database is opened anew."""
        if self.kind == "file":
            self._live.save(self.folder / "run.observal")
            self._live = ob.Session.load(self.folder / "run.observal")
        elif self.kind != "memory":
            self._live = Campaign.open(self.where)
        return self._live


@pytest.fixture(params=["memory", "file", "sqlite", "postgresql"])
def backend(request, tmp_path):
    new_database = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    return Backend(request.param, tmp_path, new_database)


def ids_of(query):
    return [] if query is None else list(query.ids)


def labels_of(ids):
    return [truth_of(int(i)) for i in ids]


def finish(backend, n=None, annotator="anyone"):
    while ids := ids_of(backend.now.ask(n, annotator)):
        backend.now.tell(ids, labels_of(ids), annotator)
    return backend.now


@pytest.fixture(scope="module")
def alone():
    return ob.run(*small_data(), labels_of, METHOD, label_budget=24, random_state=3)


@pytest.mark.parametrize("n", [5, None])
def test_every_backend_equals_run(backend, alone, n):
    result = finish(backend.make(), n).result()
    assert sorted(result.queries["id"].tolist()) == sorted(alone.queries["id"].tolist())
    for column in ("id", "round", "query_probability", "action", "reason"):
        assert result.decisions[column].tolist() == alone.decisions[column].tolist()
    X = small_data()[1].X
    assert result.estimator.predict(X).tolist() == alone.estimator.predict(X).tolist()
    assert np.array_equal(result.estimator.coef_, alone.estimator.coef_)
    assert result.intervals == alone.intervals
    assert result.stopped == alone.stopped == "the label budget of 24 is spent"


def test_asking_again_returns_same_rows_and_stores_nothing(backend):
    backend.make()
    first = ids_of(backend.now.ask(3))
    entries = len(backend.now.history())
    assert ids_of(backend.now.ask(3)) == first
    assert ids_of(backend.now.ask(2)) == first[:2]
    assert len(backend.now.history()) == entries
    assert ids_of(backend.now.ask(5))[:3] == first


def test_reading_changes_nothing(backend):
    backend.make()
    backend.now.ask(3)
    before = [(e.kind, e.actor, dict(e.details)) for e in backend.now.history()]
    now = backend.now
    for _ in range(2):
        _ = now.finished, now.stopped, now.labels, now.rounds, now.plans, now.estimator, now.problem, now.settings
        now.status()
        now.result()
        now.intervals()
    assert [(e.kind, e.actor, dict(e.details)) for e in backend.now.history()] == before


def test_spent_budget_finishes_without_asking(backend):
    backend.make(label_budget=8)
    assert not backend.now.finished
    ids = ids_of(backend.now.ask())
    backend.now.tell(ids, labels_of(ids))
    now = backend.now
    assert now.finished
    assert now.stopped == now.status().stopped == now.result().stopped == "the label budget of 8 is spent"
    assert not now.ask()


def test_budget_can_be_raised(backend):
    backend.make(label_budget=8, looks="planned")
    assert finish(backend).finished
    before = backend.now.intervals()["error"]
    for wrong in (8, 3):
        with pytest.raises(InvalidInput, match="can only be raised"):
            backend.now.extend(wrong)
    backend.now.extend(16, "ann")
    now = backend.now
    assert not now.finished
    assert now.settings.label_budget == now.status().label_budget == 16
    assert "however many follow" in now.status().intervals
    after = now.intervals()["error"]  # of the same labels: wider, because the first budget was not the end
    assert after.high - after.low > before.high - before.low
    assert finish(backend).status().labels == 16
    entry = next(entry for entry in backend.now.history() if entry.kind == "extended")
    assert (entry.actor, entry.text) == ("ann", "the label budget is now 16")


def prices():
    return np.where(np.arange(len(small_data()[1])) % 3 == 0, 10.0, 2.5)


def test_rounds_stop_when_money_is_spent(backend):
    price = prices()
    now = finish(backend.make(price, label_budget=None, budget_cost=100.0, tolerance=None))
    spent = float(price[[int(i) for i in now.result().queries["id"]]].sum())
    status = now.status()
    assert (status.spent, status.budget_cost) == (spent, 100.0)
    assert 90.0 < spent <= 100.0  # what is left does not pay for the dearest row
    assert status.stopped in (
        f"the {money(100 - spent)} left do not pay for the dearest of the rows chosen next, which costs 10",
        "the 100 for labels are spent",
    )
    words = f"{money(spent)} of 100 spent on {status.labels} labels, {money(100 - spent)} left"
    assert dict(status.lines())["cost"] == words
    assert "for at most 100" in now.history()[0].text


def test_money_can_be_raised(backend):
    finish(backend.make(prices(), label_budget=None, budget_cost=60.0, tolerance=None))
    before = backend.now.labels
    for wrong in (60.0, 20.0):
        with pytest.raises(InvalidInput, match=r"Labels may cost 60 and this can only be raised"):
            backend.now.extend(budget_cost=wrong)
    with pytest.raises(InvalidInput, match="nothing to extend"):
        backend.now.extend()
    backend.now.extend(budget_cost=120.0)
    assert not backend.now.finished
    now = finish(backend)
    assert now.labels > before
    assert 60.0 < now.status().spent <= 120.0
    assert any(entry.text == "labels may now cost 120" for entry in now.history())


def test_label_budget_and_money_both_limit(backend):
    now = finish(backend.make(prices(), label_budget=5, budget_cost=1000.0))
    assert (now.labels, now.stopped) == (5, "the label budget of 5 is spent")


def test_skipped_row_costs_nothing(backend):
    backend.make(prices(), budget_cost=60.0)
    ids = ids_of(backend.now.ask())
    backend.now.tell(ids, ["skip"] * len(ids))
    assert backend.now.status().spent == 0.0


def test_money_too_little_for_any_row_finishes_at_once(backend):
    backend.make(np.full(len(small_data()[1]), 8.0), budget_cost=7.5)
    assert ids_of(backend.now.ask()) == []
    assert "the 7.50 left do not pay" in backend.now.stopped


def test_prices_without_budget_for_them_only_count(backend, alone):
    now = finish(backend.make(prices()))
    assert now.result().decisions["id"].tolist() == alone.decisions["id"].tolist()
    assert dict(now.status().lines())["cost"] == f"{money(now.status().spent)} spent on 24 labels"
    with pytest.raises(InvalidInput, match="Nothing limits what labels may cost"):
        now.extend(budget_cost=10.0)


def test_budget_cost_without_prices_raises(backend):
    with pytest.raises(InvalidInput, match=r"A budget of 50 for the cost of labels needs the price of each.*--price"):
        backend.make(budget_cost=50.0)


@pytest.mark.parametrize("wrong", [[1.0], "free", np.zeros(400), np.full(400, np.nan)])
def test_wrong_prices_raise(wrong):
    with pytest.raises(InvalidInput, match="price"):
        ob.Pool(np.ones((400, 1)), 0.5, price=wrong)


@pytest.mark.parametrize("prices", [[1.0], [-1.0, 1.0], "ab", [np.inf, 1.0]])
def test_damaged_prices_are_refused(prices):
    session = ob.Session(*small_data(), method=METHOD, label_budget=2)
    session.ask()
    (event,) = [e for e in session.engine.journal._events if e.kind == "round"]
    payload = {**event.payload, "prices": prices}
    with pytest.raises(ValueError, match="one price for each row"):
        check_payload("round", payload, session.settings)
    with pytest.raises(ValueError, match="its budget_cost is not valid"):
        check_payload("extended", {"budget_cost": -1.0}, session.settings)


def test_kept_rows_do_not_depend_on_their_price():
    # 30 rows in random order, a third of them ten times as dear, and money for some: were rows asked in order until one
    # does not fit, dear ones would be kept less often. 4,000 orders; each share's standard error is below 0.005.
    rng = np.random.default_rng(0)
    price = np.where(np.arange(30) % 3 == 0, 10.0, 1.0)
    kept, chance = np.zeros(30), 0.0
    for _ in range(4000):
        order = rng.permutation(30)
        plan = Plan(order, np.full(30, 0.5), np.zeros(30, np.int8), order, np.zeros(30, np.int8), ("why",), True)
        cut = plan.cut(count_payable(price[plan.asked], 45.0))
        kept[cut.asked] += 1 / 4000
        chance = float(cut.query_probability[0])
        assert price[cut.asked].sum() <= 45.0
    assert kept[price == 10.0].mean() == pytest.approx(2 * chance, abs=0.02)
    assert kept[price == 1.0].mean() == pytest.approx(2 * chance, abs=0.02)


def test_raising_missing_budget_raises(backend):
    with pytest.raises(InvalidInput, match="no label budget"):
        backend.make(label_budget=None).now.extend(20)


def test_budget_of_zero_finishes_at_once(backend):
    now = backend.make(label_budget=0).now
    assert now.finished
    assert not now.ask()
    assert now.result().rounds[-1].labels == 0


def test_telling_twice_changes_nothing_and_another_label_needs_correct(backend):
    backend.make()
    ids = ids_of(backend.now.ask(4))
    assert str(backend.now.tell(ids, labels_of(ids))) == "4 labels stored."
    entries = len(backend.now.history())
    assert str(backend.now.tell(ids, labels_of(ids))) == "4 answers already known; nothing changed."
    wrong = OTHER[truth_of(int(ids[0]))]
    with pytest.raises(ConflictingAnswer, match="correct=True"):
        backend.now.tell(ids[:1], [wrong])
    assert len(backend.now.history()) == entries
    assert backend.now.tell(ids[:1], [wrong], correct=True).corrected == 1
    assert backend.now.status().corrections == 1
    assert backend.now.labels == 4


def test_third_argument_of_tell_is_annotator(backend):
    backend.make()
    ids = ids_of(backend.now.ask(2, "ann"))
    backend.now.tell(ids, labels_of(ids), "ann")
    assert dict(backend.now.status().answers) == {"ann": 2}


def test_wrong_answers_store_nothing(backend):
    backend.make()
    ids = ids_of(backend.now.ask(3))
    before = len(backend.now.history())
    for told, labels, error in (
        ([*ids, 9999], [*labels_of(ids), "good"], UnknownRow),
        (ids, ["great", *labels_of(ids[1:])], InvalidLabel),
        ([ids[0], ids[0]], ["good", "bad"], ConflictingAnswer),
        (ids, ["good"], InvalidInput),
    ):
        with pytest.raises(error):
            backend.now.tell(told, labels, correct=True)
    assert len(backend.now.history()) == before
    assert backend.now.labels == 0


@pytest.mark.parametrize("skip", [None, float("nan"), "skip"])
def test_skip_buys_nothing_and_later_label_replaces_it(backend, skip):
    backend.make()
    ids = ids_of(backend.now.ask())
    assert backend.now.tell(ids, [skip] * len(ids)).skips == len(ids)
    assert (backend.now.labels, backend.now.status().skipped) == (0, len(ids))
    assert not set(ids) & set(ids_of(backend.now.ask()))
    backend.now.tell(ids[:1], labels_of(ids[:1]))
    assert finish(backend).labels == 24
    assert ids[0] in backend.now.result().queries["id"]


def test_blank_label_leaves_row_open(backend):
    backend.make()
    ids = ids_of(backend.now.ask(3))
    receipt = backend.now.tell(ids, ["", *labels_of(ids[1:])])
    assert (receipt.labels, receipt.skips, receipt.blank) == (2, 0, 1)
    assert ids[0] in ids_of(backend.now.ask())


def test_late_correction_keeps_decisions_and_refits(backend):
    before = finish(backend.make()).result()
    row = before.queries["id"].tolist()[0]
    backend.now.tell([row], [OTHER[truth_of(int(row))]], correct=True)
    after = backend.now.result()
    assert after.decisions["id"].tolist() == before.decisions["id"].tolist()
    assert after.queries["label"].tolist()[0] == OTHER[truth_of(int(row))]
    assert not np.array_equal(after.estimator.coef_, before.estimator.coef_)
    backend.now.tell([row], [truth_of(int(row))], correct=True)
    assert np.array_equal(backend.now.result().estimator.coef_, before.estimator.coef_)


def test_label_corrected_to_skip_leaves_one_to_buy(backend):
    row = finish(backend.make(label_budget=8)).result().queries["id"].tolist()[0]
    backend.now.tell([row], [None], correct=True)
    assert not backend.now.finished
    assert len(ids_of(backend.now.ask())) == 1
    assert finish(backend).labels == 8


def test_annotators_get_different_rows_and_released_rows_are_handed_on(backend):
    backend.make()
    ann, bob = ids_of(backend.now.ask(3, "ann")), ids_of(backend.now.ask(3, "bob"))
    assert not set(ann) & set(bob)
    assert backend.now.release("ann") == 3
    assert backend.now.release("ann") == 0
    assert set(ann) <= set(ids_of(backend.now.ask(None, "cleo")))
    backend.now.tell(ann, labels_of(ann), "ann")  # late, and still counts
    assert backend.now.labels == 3


def test_majority_of_several_annotators_decides(backend):
    backend.make(overlap=2, label_budget=8)
    with pytest.raises(InvalidInput, match="no name was given"):
        backend.now.ask(3)
    ids = ids_of(backend.now.ask(None, "ann"))
    backend.now.tell(ids, labels_of(ids), "ann")
    assert backend.now.labels == 0
    assert ids_of(backend.now.ask(None, "bob")) == ids
    backend.now.tell(ids, [OTHER[truth_of(int(ids[0]))], *labels_of(ids[1:])], "bob")
    assert backend.now.labels == 7
    assert ids_of(backend.now.ask(None, "cleo")) == ids[:1]
    backend.now.tell(ids[:1], labels_of(ids[:1]), "cleo")
    assert backend.now.result().queries["label"].tolist() == labels_of(ids)
    assert backend.now.status().agreement.kind == "Fleiss"


def test_tell_file_is_one_transaction(backend, tmp_path, monkeypatch):
    now = backend.make().now
    ids = ids_of(now.ask(2))
    (tmp_path / "labels.csv").write_text("id,label\n" + "".join(f"{i},{truth_of(int(i))}\n" for i in ids))
    journal, opened = now.engine.journal, []
    for name in ("reading", "writing"):
        enter = getattr(journal, name)
        monkeypatch.setattr(journal, name, lambda name=name, enter=enter: opened.append(name) or enter())
    assert now.tell_file(tmp_path / "labels.csv").labels == 2
    assert opened == ["writing"]


def test_verbs_of_one_block_are_stored_together(backend):
    def ask_and_tell(engine, label):
        with engine.writing() as transaction:
            assignment = engine.ask(transaction, 2, "ann")
            engine.tell(transaction, [WrittenAnswer(assignment.ids[0], "good", "answer 1")], "ann")
            engine.tell(transaction, [WrittenAnswer(assignment.ids[1], label, "answer 2")], "ann")

    backend.make()
    entries = len(backend.now.history())
    with pytest.raises(InvalidLabel):
        ask_and_tell(backend.now.engine, "no class")
    assert len(backend.now.history()) == entries
    ask_and_tell(backend.now.engine, "bad")
    assert backend.now.labels == 2


def test_failing_block_stores_nothing(backend, monkeypatch):
    backend.make()
    backend.now.open_round()
    before = len(backend.now.history())
    now = backend.now
    monkeypatch.setattr(type(now.engine), "describe_rows", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        now.ask(3)
    monkeypatch.undo()
    assert len(now.history()) == len(backend.now.history()) == before
    assert len(ids_of(now.ask(3))) == 3


def test_part_of_a_block_that_fails_takes_nothing_else_along(backend):
    backend.make()
    ids, engine = ids_of(backend.now.ask(4, "ann")), backend.now.engine

    def answer(transaction, row, fails=False):
        with engine.part(transaction):
            engine.tell(transaction, [WrittenAnswer(row, truth_of(int(row)), "here")], "ann")
            assert not fails

    with engine.writing() as transaction:
        answer(transaction, ids[0])
        with pytest.raises(AssertionError):
            answer(transaction, ids[1], fails=True)
        answer(transaction, ids[2])
    told = [str(answer["id"]) for e in backend.now.history() if e.kind == "answered" for answer in e.details["answers"]]
    assert told == [str(ids[0]), str(ids[2])]
    assert backend.now.status().labels == 2


def test_rounds_are_chosen_ahead_up_to_a_number(backend):
    backend.make()
    backend.now.ask(2, "ann")
    for rounds in (2, 2, 1):
        assert backend.now.engine.open_round(rounds=rounds)
        assert (backend.now.status().round, backend.now.status().open_rows) == (2, 16)


def test_few_rows_chosen_ahead_are_a_random_part_of_what_the_model_would_choose(backend):
    backend.make(tolerance=1e-9)
    ids = ids_of(backend.now.ask())
    backend.now.tell(ids, labels_of(ids))
    backend.now.ask(2, "ann")
    now = backend.now
    engine = now.engine
    with engine.reading() as transaction:
        whole = engine.replay(transaction).next_plan(engine.ledger.plans[1:])
    assert engine.open_round(rounds=3, most=3)
    few = now.plans[-1]
    assert few.asked.size == 3 < whole.asked.size
    assert few.asked.tolist() == whole.asked[:3].tolist()
    assert few.query_probability.tolist() == whole.cut(3).query_probability.tolist()


def test_few_rows_chosen_ahead_are_no_occasion_to_stop(backend, monkeypatch):
    forecasts = []
    monkeypatch.setattr(Engine, "_forecast_gain", lambda engine, _: forecasts.append(engine.ledger.closed) or 0.1)
    monkeypatch.setattr("observal.intervals.stopping.STEADY_LABELS", 1)
    backend.make(tolerance=0.2, label_budget=100)
    now = backend.now
    ids = ids_of(now.ask())
    now.engine.open_round(rounds=2, most=2)
    now.tell(ids, labels_of(ids))
    now.engine.open_round(rounds=3, most=2)
    ledger = now.engine.ledger
    assert [plan.asked.size for plan in ledger.plans] == [8, 2, 2]
    assert (forecasts, ledger.base, [forecast.to_gain for forecast in ledger.forecasts]) == ([0], 1, [0.1])
    rest = ids_of(now.ask())
    now.tell(rest, labels_of(rest))
    assert not now.open_round()  # the next whole round is one: two forecasts were low
    assert forecasts == [0, 3]


def test_asking_in_an_open_round_fits_nothing_and_reads_no_features(backend, monkeypatch):
    backend.make()
    first = ids_of(backend.now.ask(2))
    now = backend.now

    def refuse(*arguments, **options):
        raise AssertionError("something was read or fitted")

    monkeypatch.setattr("observal.journal.sql.stored_problem.read_array", refuse)
    monkeypatch.setattr("observal.journal.replay.Replay.next_plan", refuse)
    monkeypatch.setattr("observal.journal.replay.Replay.follow", refuse)
    assert ids_of(now.ask(2)) == first
    now.tell(first, labels_of(first))
    assert now.status().labels == 2


def test_appended_events_are_not_read_back(backend, monkeypatch):
    """Every event that a verb appends reaches the ledger directly: the journal is read once, at the start."""
    now = backend.make().now
    kinds = []
    follow = type(now.engine.ledger).follow

    def spy(ledger, events):
        events = list(events)
        kinds.append([event.kind for event in events])
        follow(ledger, events)

    monkeypatch.setattr("observal.journal.ledger.Ledger.follow", spy)
    decode = sql_journal.decode_entry

    def decode_no_plan(name, encoded):
        assert name != "plan"
        return decode(name, encoded)

    monkeypatch.setattr(sql_journal, "decode_entry", decode_no_plan)
    now.ask(3)
    kinds = [some for some in kinds if some]  # storing what was fitted finds nothing to follow
    assert kinds[-2:] == [["round"], ["asked"]]
    assert all("round" not in some for some in kinds[:-2])


def test_undo_takes_back_answers_and_skips_in_order_after_restart(backend):
    backend.make()
    ids = ids_of(backend.now.ask(3, "ann"))
    backend.now.tell(ids[:1], labels_of(ids[:1]), "ann")
    backend.now.tell(ids[1:2], [None], "ann")
    backend.now.tell(ids[2:], labels_of(ids[2:]), "ann")
    undone = [backend.now.undo("ann") for _ in range(4)]
    assert [u and (u.id, u.label) for u in undone] == [
        (ids[2], truth_of(int(ids[2]))),
        (ids[1], None),
        (ids[0], truth_of(int(ids[0]))),
        None,
    ]
    assert (backend.now.labels, backend.now.status().skipped) == (0, 0)
    assert dict(backend.now.status().held) == {"ann": 3}
    assert not set(ids) & set(ids_of(backend.now.ask(None, "bob")))  # they are still ann's
    assert ids_of(backend.now.ask(3, "ann")) == ids
    kinds = [entry.kind for entry in backend.now.history()]
    assert kinds[-4:] == ["undone", "undone", "undone", "asked"]
    assert kinds.count("answered") == 3  # nothing that was told is lost


def test_undo_takes_back_own_answers_only(backend):
    backend.make()
    ann, bob = ids_of(backend.now.ask(2, "ann")), ids_of(backend.now.ask(2, "bob"))
    backend.now.tell(ann, labels_of(ann), "ann")
    backend.now.tell(bob, labels_of(bob), "bob")
    backend.now.tell(ann[1:], [OTHER[truth_of(int(ann[1]))]], "bob", correct=True)  # it is bob's answer now
    assert backend.now.undo("ann").id == ann[0]
    assert backend.now.undo("ann") is None
    assert backend.now.undo("cleo") is None
    assert backend.now.labels == 3


def test_undo_in_closed_round_opens_row_and_keeps_decisions(backend):
    before = finish(backend.make(label_budget=16), annotator="ann")
    result, plans = before.result(), len(before.plans)
    row = result.queries["id"].tolist()[0]
    for _ in range(16):
        last = backend.now.undo("ann")
    assert last.id == row
    assert (backend.now.labels, backend.now.finished) == (0, False)
    assert backend.now.result().rounds[-1].labels == 0
    ids = ids_of(backend.now.ask(None, "ann"))
    assert sorted(ids) == sorted(result.queries["id"].tolist())
    assert ids[0] == row  # what was undone last comes first
    backend.now.tell(ids, labels_of(ids), "ann")
    after = backend.now.result()
    assert len(backend.now.plans) == plans
    assert np.array_equal(after.estimator.coef_, result.estimator.coef_)
    assert after.stopped == result.stopped


def test_undo_with_several_annotators_per_row_keeps_other_answers(backend):
    backend.make(overlap=2, label_budget=8)
    ids = ids_of(backend.now.ask(2, "ann"))
    backend.now.tell(ids, labels_of(ids), "ann")
    backend.now.ask(2, "bob")
    backend.now.tell(ids, labels_of(ids), "bob")
    assert backend.now.labels == 2
    assert backend.now.undo("ann").id == ids[1]
    assert backend.now.labels == 1
    assert ids_of(backend.now.ask(1, "ann")) == ids[1:]
    backend.now.tell(ids[1:], [OTHER[truth_of(int(ids[1]))]], "ann")
    assert backend.now.labels == 1  # a tie
    assert ids[1] in ids_of(backend.now.ask(None, "cleo"))


def test_decision_stands_against_later_answers(backend):
    backend.make(overlap=2, label_budget=8)
    ids = ids_of(backend.now.ask(1, "ann"))
    truth = truth_of(int(ids[0]))
    for name in ("ann", "bob"):
        backend.now.ask(1, name)
        backend.now.tell(ids, [OTHER[truth]], name)
    backend.now.decide(ids[0], truth, "olga")
    backend.now.ask(None, "cleo")
    backend.now.tell(ids, [OTHER[truth]], "cleo")
    assert backend.now.engine.read().labels == {backend.now.engine.read().find(ids[0]): ["bad", "good"].index(truth)}
    assert backend.now.undo("ann") is None  # it is settled
    assert backend.now.status().agreement.share == 1.0  # a decision is no vote
    assert f"{OTHER[truth]} → {truth}" in next(e for e in backend.now.history() if e.kind == "decided").text
    with pytest.raises(InvalidLabel):
        backend.now.decide(ids[0], "", "olga")
    with pytest.raises(UnknownRow):
        backend.now.decide(9999, truth, "olga")


def test_sample_of_new_rows_keeps_its_answers_apart_from_training(backend):
    backend.make(label_budget=8)
    before = backend.now.estimator

    def verify(*answers):
        engine = backend.now.engine
        with engine.writing() as transaction:
            return engine.verify(transaction, [WrittenAnswer(*pair, "check.csv, line 2") for pair in answers], "ann")

    with pytest.raises(UnknownRow, match="No rows were drawn"):
        verify(("007", "good"))
    for ids in (["007", "8"], ["9", "10", "11"]):
        engine = backend.now.engine
        with engine.writing() as transaction:
            engine.sample(transaction, "olga", "july.csv", 500, ids, [0] * len(ids))
    assert verify(("9", "good"), ("11", None)).answers == {"9": 1, "11": None}
    verify(("007", "bad"))  # of the first sample
    verify(("9", "bad"))  # replaces
    with pytest.raises(UnknownRow, match="row '12' was never asked about and nothing was stored"):
        verify(("10", "bad"), ("12", "bad"))
    with pytest.raises(InvalidLabel, match="'better' is not one of the classes"):
        verify(("10", "better"))
    first, second = backend.now.engine.read().samples
    assert (first.answers, first.wrong, first.unknown) == ({"007": 0}, 0, 1)
    assert (second.answers, second.wrong, second.unknown) == ({"9": 0, "11": None}, 0, 2)
    assert (first.table, first.rows, first.predicted) == ("july.csv", 500, (0, 0))
    assert backend.now.labels == 0
    X = small_data()[1].X
    assert np.array_equal(backend.now.estimator.predict_proba(X), before.predict_proba(X))
    assert [entry.text for entry in backend.now.history() if entry.kind in ("sampled", "verified")][::2] == [
        "2 rows of 500 in july.csv drawn to check the error",
        "2 answers to the rows of check 2, which train nothing",
        "1 answer to the rows of check 2, which train nothing",
    ]


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("sampled", {"table": "t", "rows": 1, "ids": ["a", "b"], "predicted": [0, 0]}),
        ("sampled", {"table": "t", "rows": 9, "ids": [], "predicted": []}),
        ("sampled", {"table": "t", "rows": 9, "ids": ["a"], "predicted": [2]}),
        ("sampled", {"table": "t", "rows": 9, "ids": ["a"], "predicted": [None]}),
        ("sampled", {"table": 3, "rows": 9, "ids": ["a"], "predicted": [0]}),
        ("verified", {"sample": 0, "answers": [[0, 1]]}),
        ("verified", {"sample": 1, "answers": [[-1, 1]]}),
        ("verified", {"sample": 1, "answers": [[0, 7]]}),
    ],
)
def test_damaged_sample_is_refused(kind, payload):
    settings = ob.Session(*small_data(), METHOD).settings
    with pytest.raises(ValueError, match=r"valid|unknown|one prediction|missing"):
        check_payload(kind, payload, settings)


def test_answer_to_a_sample_that_was_never_drawn_is_refused():
    settings = ob.Session(*small_data(), METHOD).settings
    ledger = Ledger()
    ledger.follow([Event(1, "", "observal", "created", {"settings": settings})])
    with pytest.raises(NotACampaign, match="Journal entry 2"):
        ledger.follow([Event(2, "", "ann", "verified", {"sample": 1, "answers": [(0, 1)]})])


def test_flag_is_kept_beside_the_row_and_changes_no_label(backend):
    backend.make(label_budget=8)
    ids = ids_of(backend.now.ask(2, "ann"))
    backend.now.flag(ids[0], "  two people\nin one row ", "ann")
    backend.now.flag(ids[0], "", "olga")
    ledger = backend.now.engine.read()
    flags = ledger.flags[ledger.find(ids[0])]
    assert [(name, text) for name, _, text in flags] == [("ann", "two people in one row"), ("olga", "")]
    assert backend.now.labels == 0
    assert [e.text for e in backend.now.history() if e.kind == "flagged"] == [
        f"{ids[0]} flagged: two people in one row", f"{ids[0]} flagged",
    ]  # fmt: skip
    with pytest.raises(UnknownRow, match="was never asked about, so it was not flagged"):
        backend.now.flag(9999, "", "ann")
    with pytest.raises(InvalidInput, match="at most 2000 characters, but this one has 2001"):
        backend.now.flag(ids[0], "x" * 2001, "ann")


def test_people_who_disagree_get_rows_ahead_while_an_owner_has_to_decide(backend):
    backend.make(overlap=2, label_budget=16)
    ids = ids_of(backend.now.ask(None, "ann"))
    backend.now.tell(ids, labels_of(ids), "ann")
    backend.now.ask(None, "bob")
    backend.now.tell(ids, [OTHER[truth_of(int(ids[0]))], *labels_of(ids)[1:]], "bob")
    ledger = backend.now.engine.read()
    assert [str(ledger.ids[row]) for row in ledger.tied_rows] == [str(ids[0])]
    assert why_nothing(ledger, "bob").endswith("of the 1 open row, 1 needs a decision, because people disagree.")
    ahead = ids_of(backend.now.ask(3, "bob"))
    assert len(ahead) == 3
    assert not set(ahead) & set(ids)
    backend.now.decide(ids[0], truth_of(int(ids[0])), "olga")
    assert backend.now.engine.read().tied_rows == []


def test_open_round_opens_round_that_ask_would_open(backend, alone):
    backend.make()
    while backend.now.open_round():
        ids = ids_of(backend.now.ask())
        backend.now.tell(ids, labels_of(ids))
    assert backend.now.result().decisions["id"].tolist() == alone.decisions["id"].tolist()
    assert not backend.now.open_round()


def test_others_can_write_while_round_is_chosen(backend, monkeypatch):
    """An answer that changes meanwhile counts: the round is chosen again."""
    backend.make()
    ids = ids_of(backend.now.ask())
    backend.now.tell(ids, labels_of(ids))
    now, asked = backend.now, []
    other = now if backend.kind in ("memory", "file") else Campaign.open(backend.where)
    plan = ob.NewtonVC.plan

    def slow(*arguments):
        if not asked:
            other.tell(ids[:1], [OTHER[truth_of(int(ids[0]))]], correct=True)
        asked.append(len(asked))
        return plan(*arguments)

    monkeypatch.setattr(ob.NewtonVC, "plan", slow)
    if backend.kind in ("memory", "file"):
        assert now.open_round()
    else:
        assert len(now.ask()) == 8
    assert len(asked) == 2
    kinds = [entry.kind for entry in backend.now.history() if entry.kind != "asked"]
    assert kinds[-2:] == ["corrected", "round"]


def test_waiting_annotator_gets_rows_chosen_ahead(backend):
    backend.make(label_budget=26)
    ann = ids_of(backend.now.ask(None, "ann"))
    query = backend.now.ask(None, "bob")
    bob = ids_of(query)
    assert len(bob) == 8
    assert not set(ann) & set(bob)
    assert query.round == 2
    assert all(why.endswith(" (chosen ahead by the model of round 0)") for why in query.reason)
    now = backend.now
    assert ids_of(now.ask(None, "bob")) == bob
    assert (now.status().open_rows, now.status().round_rows, now.status().open_rounds) == (16, 16, 2)
    assert ("round", "1 to 2: 0 of 16 rows done") in now.status().lines()
    entry = now.history()[-2]
    assert (entry.text, entry.details["base"]) == ("round 2 opens with 8 rows, chosen ahead by the model of round 0", 0)
    backend.now.tell(bob, labels_of(bob), "bob")
    assert len(backend.now.rounds) == 1  # nothing is closed before the first round is
    more = ids_of(backend.now.ask(None, "bob"))
    assert not set(more) & {*ann, *bob}
    last = ids_of(backend.now.ask(None, "cleo"))
    assert len(last) == 2  # open rows count: the budget is never overspent
    assert not ids_of(backend.now.ask(None, "dora"))
    assert not backend.now.finished
    for name, ids in (("bob", more), ("ann", ann), ("cleo", last)):
        backend.now.tell(ids, labels_of(ids), name)
    result = finish(backend).result()
    assert [round_.labels for round_ in result.rounds] == [0, 8, 16, 24, 26]
    assert result.queries["id"].tolist() == [*ann, *bob, *more, *last]
    assert result.stopped == "the label budget of 26 is spent"


def test_rows_chosen_ahead_are_next_choice_of_model(backend):
    """The plan is made in the last closed state, without the open rows; what rounds are made of does not depend on who asks."""
    backend.make()
    ann = ids_of(backend.now.ask(None, "ann"))
    backend.now.tell(ann, labels_of(ann), "ann")
    second = ids_of(backend.now.ask(None, "ann"))
    backend.now.ask(None, "bob")
    first, open_, ahead = backend.now.plans
    replay = Replay(ob.Problem(*small_data()), METHOD, 3)
    codes = ["bad", "good"]
    replay.follow([first], {int(row): codes.index(truth_of(int(row))) for row in first.asked})
    twin = replay.next_plan([open_])
    assert ahead.positions.tolist() == twin.positions.tolist()
    assert ahead.query_probability.tolist() == twin.query_probability.tolist()
    assert [entry.details.get("base") for entry in backend.now.history() if entry.kind == "round"] == [None, None, 1]
    backend.now.tell(second, labels_of(second), "ann")
    assert len(backend.now.rounds) == 3  # the second round is closed, the one that was chosen ahead is not
    third = backend.now.ask(None, "ann")
    assert not len(third)  # the budget of 24 is in bob's hands


def test_single_annotator_gets_no_rows_ahead(backend):
    """Rows that nobody holds, or that only the asker could still answer, are no reason to choose more."""
    backend.make(overlap=2)
    ids = ids_of(backend.now.ask(None, "ann"))
    backend.now.tell(ids, labels_of(ids), "ann")
    assert not ids_of(backend.now.ask(None, "ann"))  # they wait for a second person
    held = ids_of(backend.now.ask(3, "bob"))
    assert held == ids[:3]
    assert len(ids_of(backend.now.ask(None, "ann"))) == 8


def test_undone_answer_of_closed_round_brings_no_rows_of_older_model(backend):
    backend.make()
    first = ids_of(backend.now.ask(None, "ann"))
    backend.now.tell(first, labels_of(first), "ann")
    second = ids_of(backend.now.ask(None, "bob"))
    backend.now.undo("ann")
    assert not ids_of(backend.now.ask(None, "cleo"))
    backend.now.tell(first[-1:], labels_of(first[-1:]), "ann")
    assert len(ids_of(backend.now.ask(None, "cleo"))) == 8
    backend.now.tell(second, labels_of(second), "bob")
    assert finish(backend, annotator="cleo").labels == 24


def test_method_without_plans_ahead_names_holders(backend):
    backend.make(method=ob.NewtonVC(batch=8, ridge=0.01, tempering=0.5, order="stream"))
    backend.now.ask(None, "ann")
    assert not ids_of(backend.now.ask(None, "bob"))
    assert backend.now.status().round == 1


def test_others_can_write_while_round_is_chosen_ahead(backend, monkeypatch):
    """A round that closes meanwhile counts: what was chosen ahead is dropped."""
    backend.make()
    ids = ids_of(backend.now.ask(None, "ann"))
    now, asked = backend.now, []
    other = now if backend.kind in ("memory", "file") else Campaign.open(backend.where)
    plan = ob.NewtonVC.plan

    def slow(*arguments):
        if not asked:
            other.tell(ids, labels_of(ids), "ann")
        asked.append(len(asked))
        return plan(*arguments)

    monkeypatch.setattr(ob.NewtonVC, "plan", slow)
    assert now.open_round("bob")
    assert len(asked) == 2
    last = backend.now.history()[-1]
    assert last.text == "round 2 opens with 8 rows"


def _read_round(session, payload):
    check_payload("round", payload, session.settings)
    Ledger().follow([session.engine.journal.events(Ledger())[0], Event(2, "", "observal", "round", payload)])


def test_round_with_base_after_itself_raises():
    session = ob.Session(*small_data(), METHOD, 24)
    session.ask()
    for base in (-1, 2, True, "0"):
        payload = {**session.engine.journal.events(Ledger())[1].payload, "base": base}
        with pytest.raises((NotACampaign, ValueError)):
            _read_round(session, payload)
