"""The requests of the labelling page, over a campaign. Each stores all it has to store or nothing, and checks who sent it.

Requests that came together share a transaction (``Desk.transaction``). All of it runs in one thread, so nothing here needs a lock. Fitting
happens in another process (``observal.server.worker``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import reduce
from math import ceil
from pathlib import Path
from typing import TypeVar, cast

from observal.errors import ObservalError
from observal.exchange.label_tools import NamedAnswer
from observal.intervals.stopping import STEADY_LABELS
from observal.journal.answers import WrittenAnswer
from observal.journal.campaign_tables import read_instructions
from observal.journal.engine import Engine
from observal.journal.sql import people
from observal.journal.sql.journal import SqlJournal, SqlTransaction
from observal.journal.sql.people import Person
from observal.journal.sql.store import open_store
from observal.journal.status import CHOOSING, round_rows, status_of, why_nothing, why_waiting
from observal.problem.words import listed
from observal.server import bodies
from observal.server.pool_view import PoolView
from observal.server.worker import NOTHING_MORE, Wanted, Worker
from observal.tables.column_help import read_column_help

HOUR = timedelta(hours=1)
LATELY = timedelta(seconds=10)  # in which the pace of answers is measured
PATIENCE = timedelta(seconds=10)  # before rows are chosen ahead: once the others have answered, a newer model chooses
SHORT_WAIT = 1.0  # seconds, of all people together: for as long they wait until the newest model has chosen rows
MOST_REVIEWED = 200  # rows in one answer
MOST_ENTRIES = 1000  # of the history in one answer
_WRONG_LINK = "This link is wrong, too old or was already used; ask for a new one."
Reply = TypeVar("Reply", bound=Mapping[str, object])


class Refused(ObservalError):
    """A request that this person may not make, with its HTTP status."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Desk:
    """A campaign as the server sees it.

    An annotator who has left loses the rows they hold after `lease` minutes. `images` is the folder of images, if it is no longer where it
    was when the campaign was made; `instructions` and `columns_help` are in place of those that it was made with.
    """

    def __init__(
        self,
        where: str,
        title: str = "",
        lease: float = 15.0,
        images: Path | None = None,
        instructions: Path | None = None,
        columns_help: Path | None = None,
    ) -> None:
        self.store = open_store(where, keep=True)
        self.engine = Engine(SqlJournal(self.store))
        self._lease = timedelta(minutes=lease)
        self._renewed: dict[str, datetime] = {}  # when each lease was last renewed
        self._waiting: dict[str, datetime] = {}  # since when an annotator waits for others
        self._tried = 0  # the journal's last entry when rows were last to be chosen ahead
        self._tried_early = (0, 0)  # rounds, and closed ones, when one was last wanted early
        self._bridge = 0  # the last round that has a few rows to answer while the next one is chosen
        self.worker = Worker(where)
        self._transaction: SqlTransaction | None = None
        self._looks: list[Wanted] = []  # what the other process is to do once the transaction has ended
        with self.engine.reading() as transaction:
            settings = self.engine.ledger.settings
            self.rows = PoolView.of(transaction.connection, settings)
        self.images = images or settings.display.folder
        self.instructions = "" if instructions is None else read_instructions(instructions)
        self.column_help = {} if columns_help is None else read_column_help(columns_help, self.rows.columns)
        self.title = title or settings.label
        self.name = Path(where).name if Path(where).is_file() else self.store.title or "campaign"
        self.id = self.engine.ledger.first_digest[:12]
        # Two campaigns on one machine must not share a cookie.
        self.cookie = f"observal_{self.id}"
        self.worker.look()

    def close(self) -> None:
        """End the other process and close the database."""
        self.worker.stop()
        self.store.close()

    @contextmanager
    def transaction(self, write: bool) -> Iterator[None]:
        """Have all requests of a block share one transaction; what they store is on disk when the block has ended."""
        try:
            with self.engine.writing() if write else self.engine.reading() as self._transaction:
                yield
        finally:
            self._transaction = None
            looks, self._looks = self._looks, []
        if looks:
            self.worker.look(reduce(Wanted.together_with, looks))

    @contextmanager
    def _request(self, write: bool) -> Iterator[SqlTransaction]:
        """Yield the transaction for one request, which stores all or nothing of its own."""
        assert self._transaction is not None
        with self.engine.part(self._transaction) if write else nullcontext():
            yield self._transaction

    # -- people -------------------------------------------------------------------------------------------------

    def check_link(self, token: str) -> None:
        """Refuse the token of a link that does not sign in; the link is not used up."""
        with self._request(write=False) as transaction:
            if people.find_person(transaction.connection, token, "link") is None:
                raise Refused(401, _WRONG_LINK)

    def sign_in(self, token: str) -> str:
        """Swap a link's token for a cookie's."""
        with self._request(write=True) as transaction:
            cookie = people.sign_in(transaction.connection, token)
        if cookie is None:
            raise Refused(401, _WRONG_LINK)
        return cookie

    @contextmanager
    def _as(
        self, cookie: str | None, owner: bool = False, write: bool = False
    ) -> Iterator[tuple[SqlTransaction, Person]]:
        """Yield the transaction and the person whose cookie it is."""
        with self._request(write) as transaction:
            me = people.find_person(transaction.connection, cookie) if cookie else None
            if me is None:
                raise Refused(401, "You are not signed in; open the link that you were given, or ask for a new one.")
            if owner and me.role != "owner":
                raise Refused(403, "Only an owner of the campaign may do this; ask one of them.")
            settings = self.engine.ledger.settings
            if len(self.rows) != settings.pool_rows:  # rows were added to the pool
                self.rows = PoolView.of(transaction.connection, settings)
            yield transaction, me

    def me(self, cookie: str | None) -> bodies.Me:
        """Return who is signed in, and what the campaign is about."""
        with self._as(cookie) as (_, person):
            settings = self.engine.ledger.settings
            classes = [str(value) for value in settings.classes]
            about: bodies.About = {
                "id": self.id,
                "name": self.name,
                "title": self.title,
                "label": settings.label,
                "classes": classes,
                "positive": classes[-1] if len(classes) == 2 else None,
                "label_budget": settings.label_budget,
                "overlap": settings.overlap,
                "columns": self.rows.columns,
                "image_column": self.rows.image_column,
                "instructions": self.instructions or settings.display.instructions,
                "column_help": {**settings.display.column_help, **self.column_help},
            }
            return {"name": person.name, "role": person.role, "campaign": about}

    def check_owner(self, cookie: str | None) -> None:
        """Refuse a person who is not an owner."""
        with self._as(cookie, owner=True):
            pass

    # -- labelling ----------------------------------------------------------------------------------------------

    def next_rows(self, cookie: str | None, n: int) -> bodies.Rows:
        """Return at most `n` rows, first those the person already holds, and let them keep these for a while."""
        with self._as(cookie, write=True) as (transaction, me):
            ledger = self.engine.ledger
            self._renew(transaction, me.name)
            n_held, free = len(ledger.held_by(me.name)), ledger.free_for(me.name)
            if len(free) + n_held < n and self._release_idle(transaction, me.name):
                free = ledger.free_for(me.name)
            # No one gets more than their share, or the others would wait for rows that one person holds.
            fair = ceil((n_held + len(free)) / self._count_takers(transaction, me.name))
            self.engine.hand_out(transaction, me.name, min(n, fair))
            rows = ledger.held_by(me.name)[:n]
            choosing = not ledger.open_rows and not ledger.stopped
            if choosing and (not self.worker.fitting or self.worker.failure):
                self._looks.append(NOTHING_MORE)
            choosing = choosing or self._choose_ahead(me.name)
            self._choose_early()
            note = "" if rows else self._why_no_rows(transaction, me, choosing)
            return {
                "round": len(ledger.plans),
                "finished": bool(ledger.stopped),
                "fitting": choosing,
                "seconds_left": self.worker.seconds_left if choosing else None,
                "note": note,
                "rows": self.rows.describe(self.engine.describe_rows(rows, me.name)),
                "progress": self._progress(me.name),
            }

    def _count_takers(self, transaction: SqlTransaction, name: str) -> int:
        """Return how many people may want the free rows: this one, and every other annotator."""
        team = people.list_people(transaction.connection)
        return 1 + sum(person.role == "annotator" and person.revoked is None and person.name != name for person in team)

    def _renew(self, transaction: SqlTransaction, name: str) -> None:
        """Renew a person's lease; not at every answer, because answers come every second."""
        now = people.now()
        if name not in self._renewed or now - self._renewed[name] > self._lease / 20:
            people.renew_lease(transaction.connection, name, self._lease)
            self._renewed[name] = now

    def _choose_ahead(self, name: str) -> bool:
        """Have rows chosen ahead for an annotator who has waited for others, and return whether that is going on.

        If nothing has happened since it was tried, there are none to choose.
        """
        if not self.engine.may_plan_ahead(name):
            self._waiting.pop(name, None)
            return False
        now = people.now()
        if now - self._waiting.setdefault(name, now) < PATIENCE:
            return False
        if not self.worker.fitting or self.worker.failure:
            if self._tried == self.engine.ledger.sequence and not self.worker.failure:
                return False
            self._tried = self.engine.ledger.sequence
            self._looks.append(Wanted(name))
        return True

    def _choose_early(self) -> None:
        """Have the next rows chosen while the last ones are being answered, so that nobody waits for a fit.

        When rows run out, the model of the last closed round chooses as many as will be answered during a fit: a bridge. Once the round before the
        bridge is closed, its model chooses the next round, while the bridge is being answered. Where so many people answer that a bridge would be as
        long as a round, it is one.
        """
        ledger, seconds = self.engine.ledger, self.worker.seconds
        now = rounds, closed = (len(ledger.plans), ledger.closed)
        if seconds is None or seconds * max(1, len(ledger.held())) < SHORT_WAIT or not self.engine.can_plan_ahead():
            return
        if self._tried_early == now or self.worker.fitting or not ledger.open_rows:
            return
        # Twice: choosing may take longer this time, and people who have just come are not all in the pace.
        answers = max(1.0, 2 * seconds * self._count_answers(LATELY) / LATELY.total_seconds())
        on_bridge = rounds == self._bridge and closed == rounds - 1
        if not on_bridge and len(ledger.open_rows) * ledger.overlap > answers:
            return
        self._tried_early = now
        rows = ceil(answers / ledger.overlap)
        if on_bridge or rows >= max(plan.asked.size for plan in ledger.plans[-2:]):
            self._looks.append(Wanted(rounds=rounds + 1))
        else:
            self._bridge = rounds + 1
            self._looks.append(Wanted(rounds=rounds + 1, most=rows))

    def _why_no_rows(self, transaction: SqlTransaction, me: Person, choosing: bool) -> str:
        if not choosing:
            note = why_nothing(self.engine.ledger, me.name)
            if not self.engine.ledger.tied_rows:
                return note
            team = people.list_people(transaction.connection)
            owners = [person.name for person in team if person.role == "owner" and person.revoked is None]
            return f"{note} {'You decide' if me.role == 'owner' else f'{listed(owners)} can decide'} in Review."
        failure = self.worker.failure
        return f"The next rows could not be chosen ({failure}); trying again." if failure else CHOOSING

    def _release_idle(self, transaction: SqlTransaction, but: str) -> bool:
        """Take back the rows of people whose lease has run out; return whether there were any."""
        idle = people.expired_leases(transaction.connection, but)
        return sum(self.engine.release(transaction, name) for name in idle) > 0

    def answer(self, cookie: str | None, key: str, answers: Sequence[tuple[str, str | None]]) -> bodies.Told:
        """Store a person's answers; None skips a row."""

        def work(transaction: SqlTransaction, me: Person) -> bodies.Told:
            for id_, label in answers:
                position = self.engine.ledger.find(id_)
                if position is not None and me.name not in self.engine.ledger.recipients.get(position, ()):
                    raise Refused(
                        403, f"Row {id_!r} was never given to you and nothing was stored; ask for rows first."
                    )
                if label is not None and not label.strip():  # in a file a blank means "not yet"; here it is a mistake
                    raise Refused(
                        422,
                        f"The label of row {id_!r} is empty and nothing was stored; send a class, or null to skip the row.",
                    )
            numbered = [WrittenAnswer(id_, label, f"answer {k}") for k, (id_, label) in enumerate(answers, start=1)]
            receipt = self.engine.tell_own(transaction, numbered, me.name)
            return {
                "labels": receipt.labels,
                "skips": receipt.skips,
                "corrected": receipt.corrected,
                "unchanged": receipt.unchanged,
                "progress": self._progress(me.name),
            }

        return self._once(cookie, key, ["tell", [list(answer) for answer in answers]], work)

    def take_back(self, cookie: str | None, key: str) -> bodies.Undone:
        """Undo a person's latest answer or skip, and hand them the row again."""

        def work(transaction: SqlTransaction, me: Person) -> bodies.Undone:
            undone = self.engine.undo(transaction, me.name)
            if undone is None:
                return {"undone": None, "row": None, "progress": self._progress(me.name)}
            position = self.engine.ledger.find(undone.id)
            positions = [p for p in self.engine.ledger.held_by(me.name) if p == position]
            rows = self.rows.describe(self.engine.describe_rows(positions, me.name))
            return {
                "undone": {"id": str(undone.id), "label": None if undone.label is None else str(undone.label)},
                "row": rows[0] if rows else None,
                "progress": self._progress(me.name),
            }

        return self._once(cookie, key, ["undo"], work)

    def flag(self, cookie: str | None, key: str, id_: str, text: str) -> bodies.Flagged:
        """Flag a row that this person was given, for owners to look at."""

        def work(transaction: SqlTransaction, me: Person) -> bodies.Flagged:
            position = self.engine.ledger.find(id_)
            if (
                position is not None
                and me.role != "owner"
                and me.name not in self.engine.ledger.recipients.get(position, ())
            ):
                raise Refused(403, f"Row {id_!r} was never given to you; ask for rows first.")
            self.engine.flag(transaction, id_, text, me.name)
            return {"id": id_, "progress": self._progress(me.name)}

        return self._once(cookie, key, ["flag", id_, text], work)

    def settle(self, cookie: str | None, key: str, id_: str, label: str | None) -> bodies.Decided:
        """Decide a row, for an owner."""

        def work(transaction: SqlTransaction, me: Person) -> bodies.Decided:
            self.engine.decide(transaction, id_, label, me.name)
            return {"id": id_, "decided": label, "progress": self._progress(me.name)}

        return self._once(cookie, key, ["review", id_, label], work, owner=True)

    def _once(
        self,
        cookie: str | None,
        key: str,
        request: list[object],
        work: Callable[[SqlTransaction, Person], Reply],
        owner: bool = False,
    ) -> Reply:
        """Do some work once for each key; the reply is stored in the same transaction, and returned again for the same key."""
        with self._as(cookie, owner, write=True) as (transaction, me):
            earlier = people.find_reply(transaction.connection, me.name, key, request)
            if earlier is not None:
                return cast(Reply, earlier)
            before = self._open_rounds()
            self._renew(transaction, me.name)
            reply = work(transaction, me)
            people.store_reply(transaction.connection, me.name, key, request, reply)
        self._choose_early()
        self._look_after(before, request[0] not in ("tell", "flag") or bool(reply.get("corrected")))
        return reply

    def _open_rounds(self) -> tuple[int, bool]:
        """Return how many rounds are closed, and whether rows are open."""
        return self.engine.ledger.closed, bool(self.engine.ledger.open_rows)

    def _look_after(self, before: tuple[int, bool], changed: bool) -> None:
        """Have the other process look if a round closed, if none is open, or if an earlier answer `changed`."""
        closed, rows_open = self._open_rounds()
        if changed or closed != before[0] or not rows_open or not before[1]:
            self._looks.append(NOTHING_MORE)

    # -- another labelling tool ---------------------------------------------------------------------------------

    def rows_for_tool(self, tool: str) -> list[str]:
        """Return the ids of the open rows that another tool holds or may have, in the order in which they were asked about."""
        with self._request(write=False):
            ledger = self.engine.ledger
            rows = {*ledger.held_by(tool), *ledger.free_for(tool)}
            return [str(id_) for position, id_ in ledger.ids.items() if position in rows]

    def store_from_tool(self, answers: Iterable[NamedAnswer], withdrawn: Iterable[tuple[str, str]] = ()) -> int:
        """Store answers that people gave in another tool, and take back those that they (name and row) withdrew there.

        Returns how many of them changed anything.
        """
        by_annotator: dict[str, list[WrittenAnswer]] = {}
        for annotator, id_, label in answers:
            by_annotator.setdefault(annotator, []).append(WrittenAnswer(id_, label, f"row {id_!r}"))
        with self._request(write=True) as transaction:
            before = self._open_rounds()
            receipts = [self.engine.tell_own(transaction, own, name) for name, own in by_annotator.items()]
            undone = [self.engine.undo(transaction, name, id_) for name, id_ in withdrawn]
        replaced = sum(receipt.corrected for receipt in receipts) + sum(answer is not None for answer in undone)
        self._look_after(before, replaced > 0)
        return replaced + sum(receipt.labels + receipt.skips for receipt in receipts)

    # -- progress -----------------------------------------------------------------------------------------------

    def _progress(self, name: str) -> bodies.Progress:
        ledger = self.engine.ledger
        return {
            "labels": ledger.bought,
            "label_budget": ledger.settings.label_budget,
            "open_rows": len(ledger.open_rows),
            "round": len(ledger.plans),
            "round_rows": round_rows(ledger),
            "your_answers": ledger.answers_of(name),
            "to_decide": len(ledger.tied_rows),
            "labels_per_hour": self._per_hour(),
            "model_round": self.worker.model_round,
            "fitting": self.worker.fitting,
        }

    def _per_hour(self) -> float | None:
        """Return how many answers an hour come in, from those of the last hour."""
        times, recent = self.engine.ledger.answer_times, self._count_answers(HOUR)
        if recent < 2:
            return None
        since = max((people.now() - datetime.fromisoformat(times[-recent])).total_seconds(), 60.0)
        return round(recent * 3600.0 / since, 1)

    def _count_answers(self, time: timedelta) -> int:
        """Return how many answers came in lately."""
        times = self.engine.ledger.answer_times
        return len(times) - bisect_left(times, people.stamp(-time))

    def progress(self, cookie: str | None) -> bodies.Status:
        """Return how far the campaign is, and who did what."""
        with self._as(cookie) as (_, me):
            status = status_of(self.engine.ledger)
            names = sorted({*status.answers, *status.held})
            agreement: bodies.Agreement | None = None
            if (shared := status.agreement) is not None:
                agreement = {"rows": shared.rows, "share": shared.share, "kappa": shared.kappa, "kind": shared.kind}
            return {
                "progress": self._progress(me.name),
                "stopped": status.stopped,
                "annotators": [
                    {"name": name, "answers": status.answers.get(name, 0), "held": status.held.get(name, 0)}
                    for name in names
                ],
                "agreement": agreement,
                "notes": [*status.notes, *([self.worker.failure] if self.worker.failure else [])],
            }

    def measured(self, cookie: str | None) -> bodies.Rounds:
        """Return the error after each closed round, as far as it is known, and what the stopping rule says."""
        with self._as(cookie):
            ledger = self.engine.ledger
            goals, to_gain = ledger.settings.goals, ledger.forecasts[-1].to_gain if ledger.forecasts else None
            if self.engine.ledger.stopped:
                sentence = f"Nothing is left to ask: {self.engine.ledger.stopped}."
            elif goals.tolerance is None:
                sentence = "Labelling goes on until the budget is spent."
            elif to_gain is None:
                sentence = "It is too early to say what more labels would gain."
            else:
                sentence = (
                    f"More labels may lower the error by about {100 * to_gain:.2g} points; "
                    f"labelling stops when that is below {100 * goals.tolerance:g} points for {STEADY_LABELS} labels."
                )
            stopping: bodies.Stopping = {"to_gain": to_gain, "tolerance": goals.tolerance, "sentence": sentence}
            return {
                "rounds": self.worker.rounds,
                "stopping": stopping,
                "stopped": self.engine.ledger.stopped,
                "waiting": why_waiting(ledger),
                "fitting": self.worker.fitting,
            }

    def answered(
        self, cookie: str | None, every: bool, first: int = 0, only: bodies.Only = "all", find: str = "", row: str = ""
    ) -> bodies.Review:
        """Return the rows on which people disagree, undecided ones first; or answered and flagged rows, the newest first; or one row."""
        with self._as(cookie, owner=True):
            ledger = self.engine.ledger
            split = [p for p, codes in ledger.responses.items() if len(set(codes.values()) - {None}) > 1]
            if row:
                position = ledger.find(row)
                rows = [] if position is None else [position]
            elif every:
                rows = sorted({*ledger.times, *ledger.flags}, key=self._last_touched, reverse=True)
                wanted = {"flagged": ledger.flags, "disagreement": split, "skipped": self._skipped()}.get(only, rows)
                words = find.casefold().split()
                rows = [p for p in rows if p in wanted and (ledger.responses.get(p) or p in ledger.flags)]
                rows = [p for p in rows if all(word in self._text_of(p) for word in words)] if words else rows
            else:
                rows = sorted(split, key=lambda p: p in ledger.labels)
            return {"rows": [self._review_row(p) for p in rows[first : first + MOST_REVIEWED]], "total": len(rows)}

    def _last_touched(self, position: int) -> str:
        """Return when somebody last answered or flagged a row."""
        ledger = self.engine.ledger
        return max(
            [*ledger.times.get(position, {}).values(), *(time for _, time, _ in ledger.flags.get(position, ()))],
            default="",
        )

    def _skipped(self) -> set[int]:
        return {p for p, codes in self.engine.ledger.responses.items() if None in codes.values()}

    def _text_of(self, position: int) -> str:
        """Return everything about a row that can be searched for."""
        row = self._review_row(position)
        cells = [f"{cell['name']} {cell['value']}" for cell in row["fields"] if cell["kind"] not in ("image", "pixels")]
        answers = [f"{answer['annotator']} {answer['label'] or 'skipped'}" for answer in row["answers"]]
        flags = [f"{flag['annotator']} {flag['text']}" for flag in row["flags"]]
        return "\n".join([row["id"], *cells, *answers, *flags, row["decided"] or ""]).casefold()

    def _review_row(self, position: int) -> bodies.Reviewed:
        ledger = self.engine.ledger

        def label(code: int | None) -> str | None:
            return None if code is None else str(ledger.settings.classes[code])

        answers: list[bodies.GivenAnswer] = [
            {"annotator": name, "label": label(code), "time": ledger.times[position][name]}
            for name, code in ledger.responses.get(position, {}).items()
        ]
        flags: list[bodies.RaisedFlag] = [
            {"annotator": name, "text": text, "time": time} for name, time, text in ledger.flags.get(position, ())
        ]
        return {
            "id": str(ledger.ids[position]),
            "fields": self.rows.fields(position),
            "answers": answers,
            "flags": flags,
            "decided": label(ledger.decisions.get(position)),
            "open": position not in ledger.labels,
        }

    def entries(self, cookie: str | None) -> bodies.History:
        """Return the last entries of the journal in words, for an owner."""
        with self._as(cookie, owner=True) as (transaction, _):
            entries = self.engine.history(transaction)[-MOST_ENTRIES:]
        return {
            "entries": [
                {"sequence": e.sequence, "time": e.time, "actor": e.actor, "kind": e.kind, "text": e.text}
                for e in entries
            ]
        }

    def image_cell(self, cookie: str | None, position: int, number: int) -> str:
        """Return the text in a cell of images, if this person was given the row."""
        with self._as(cookie) as (_, me):
            received = me.name in self.engine.ledger.recipients.get(position, ())
            if not received and (me.role != "owner" or position not in self.engine.ledger.ids):
                raise Refused(403, "This row was never given to you; ask for rows first.")
        try:
            cell = self.rows.cell(position, number)
        except IndexError:
            cell = None
        if not isinstance(cell, str):
            raise Refused(404, "There is no image here.")
        return cell
