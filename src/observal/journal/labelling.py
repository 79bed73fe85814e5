"""What a session and a campaign have in common: each call is one transaction of the engine that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, Generic

from observal.journal.answers import WrittenAnswer, make_answers
from observal.journal.engine import Engine, T
from observal.journal.history import Entry
from observal.journal.receipts import Receipt, Undone
from observal.journal.replay import Replay
from observal.journal.settings import ANYONE, Settings, check_annotator
from observal.journal.status import Status, status_of
from observal.problem.interval import Interval
from observal.problem.plan import Plan
from observal.problem.problem import Problem
from observal.problem.result import Round, RunResult
from observal.tables.table_format import TableFormat


class Labelling(Generic[T]):
    """Labels that are being bought. The public classes are :class:`observal.Session` and :class:`observal.Campaign`.

    Attributes
    ----------
    engine : Engine
        Its verbs work inside a transaction that you open, so several of them can be stored together.
    """

    def __init__(self, engine: Engine[T]) -> None:
        self.engine = engine

    # -- answers ------------------------------------------------------------------------------------------------

    def open_round(self, annotator: str | None = None) -> bool:
        """Open the next round if none is open, and return whether there are rows to ask about.

        ``ask`` does this by itself, and nothing can be written while it fits. Here others can write: what was chosen is stored only if no
        answer that it depends on changed in the meantime, and if it is still needed.

        Parameters
        ----------
        annotator : str, optional
            An annotator who waits for rows: if others hold all of them, the next round is chosen ahead.
        """
        return self.engine.open_round(annotator)

    def tell(
        self, ids: Iterable[Any], labels: Iterable[Any], annotator: str = ANYONE, correct: bool = False
    ) -> Receipt:
        """Store answers: all of them or, if one is wrong, none.

        Parameters
        ----------
        ids : iterable
            Ids of rows that were asked about, in any order and of any round.
        labels : iterable
            For each id a class, or its text; None, NaN or ``"skip"`` skips the row, and ``""`` means "not yet". A skip does not
            count towards the budget. A label told later replaces it, even if the budget is already spent.
        annotator : str
            Who answers.
        correct : bool
            Whether an answer may replace an earlier one. Closed rounds keep their decisions and are fitted again.
        """
        answers = make_answers(ids, labels)
        with self.engine.writing() as transaction:
            return self.engine.tell(transaction, answers, annotator, correct)

    def tell_file(
        self,
        path: str | Path,
        annotator: str = ANYONE,
        correct: bool = False,
        text: str | bytes | None = None,
        *,
        sep: str | None = None,
        encoding: str | None = None,
        missing: Sequence[str] = (),
    ) -> Receipt:
        """Store the answers in a CSV, Excel or JSON file, as :meth:`tell` does; an empty label means "not yet".

        Ids that a spreadsheet changed (000820 to 820) are recognised where they can mean one row only.

        Parameters
        ----------
        path : path
            The file.
        annotator, correct
            As for :meth:`tell`.
        text : str or bytes, optional
            The content, if it has already been read.
        sep, encoding : str, optional
            What separates the columns of a CSV, and its encoding; detected by default.
        missing : sequence of str
            Words that mean "not yet", besides those that the campaign was made with.
        """
        format_ = TableFormat(sep, None, encoding, tuple(missing))
        with self.engine.writing() as transaction:
            return self.engine.tell_file(transaction, path, annotator, correct, text, format_)

    def tell_people(self, answers: Mapping[str, list[WrittenAnswer]]) -> Receipt:
        """Store the answers of several people, annotator → answers: all of them or, if one is wrong, none.

        People may change their own answers. With an overlap of 1, an answer to a row that another annotator answered first is kept beside
        theirs.
        """
        with self.engine.writing() as transaction:
            receipts = [self.engine.tell_own(transaction, own, name) for name, own in answers.items()]
        counts = zip(*map(astuple, receipts), strict=True)
        return Receipt(*map(sum, counts)) if receipts else Receipt(0, 0, 0, 0)

    def undo(self, annotator: str = ANYONE) -> Undone | None:
        """Take back an annotator's latest answer or skip that still stands; None if there is none.

        The row is open again, and the annotator holds it. What was told stays in the journal. Undoing again takes back the answer
        before. A row that :meth:`decide` settled is left alone.
        """
        with self.engine.writing() as transaction:
            return self.engine.undo(transaction, annotator)

    def decide(self, id_: object, label: object, annotator: str = ANYONE) -> None:
        """Settle a row's label, whatever others answered or will answer; None skips it."""
        with self.engine.writing() as transaction:
            self.engine.decide(transaction, id_, label, annotator)

    def release(self, annotator: str) -> int:
        """Take back the open rows that an annotator holds, so others can label them; return how many."""
        with self.engine.writing() as transaction:
            return self.engine.release(transaction, annotator)

    def extend(self, label_budget: int, actor: str = ANYONE) -> None:
        """Raise the label budget.

        Intervals then hold at all rounds together, however many follow, because there are more rounds than the first budget allowed for.

        Parameters
        ----------
        label_budget : int
            How many labels may be bought in total.
        actor : str
            Who raises it.
        """
        check_annotator(actor, 1)
        with self.engine.writing() as transaction:
            self.engine.raise_budget(transaction, label_budget, actor)

    # -- progress, without fitting ------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return the progress so far; nothing is fitted."""
        return status_of(self.engine.read())

    def history(self) -> list[Entry]:
        """Return the journal in words, the first event first."""
        with self.engine.reading() as transaction:
            return self.engine.history(transaction)

    @property
    def settings(self) -> Settings:
        """What the session or campaign was made with: the payload of the journal's first event, with the current label budget."""
        return self.engine.read().settings

    @property
    def problem(self) -> Problem:
        """Log and pool."""
        with self.engine.reading() as transaction:
            return self.engine.problem(transaction)

    @property
    def labels(self) -> int:
        """Labels bought so far, including those of the open round."""
        return self.engine.read().bought

    @property
    def stopped(self) -> str:
        """Why nothing is left to ask; empty if there may be more to ask."""
        return self.engine.read().stopped

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask: the budget is spent, or the last ``ask`` found nothing."""
        return bool(self.stopped)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each round."""
        return tuple(self.engine.read().plans)

    # -- results, fitted when they are first read ---------------------------------------------------------------

    def _replay(self) -> Replay:
        with self.engine.reading() as transaction:
            return self.engine.replay(transaction)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The closed rounds; round 0 is the log alone. A round is fitted when it is first read."""
        replay = self._replay()
        return tuple(replay.round(k) for k in range(replay.closed + 1))

    @property
    def estimator(self) -> Any:
        """The classifier after the last closed round."""
        replay = self._replay()
        return replay.estimator(replay.closed)

    @property
    def returned_round(self) -> int | None:
        """The earlier round that `estimator` is from, because it very likely makes fewer mistakes; None if it is from the last one."""
        replay = self._replay()
        return replay.returned(replay.closed)

    def intervals(self, round_: int = -1) -> dict[str, Interval]:
        """Return intervals for the classifier of a closed round on the whole population, from the labels up to that round."""
        replay = self._replay()
        return dict(replay.intervals(range(replay.closed + 1)[round_]))

    def may_gain(self, labels: int) -> float | None:
        """Return by how much so many more labels may lower the error; None before 100 labels were bought."""
        return self._replay().still_to_gain(labels)

    def judged(self) -> Any:
        """Return the labelled rows (numbered as in a Problem), their classes, what fits that have not seen them say, and their weights.

        None where the method cannot tell.
        """
        return self._replay().judged()

    def result(self) -> RunResult:
        """Return the results so far: the classifier of the last closed round, and every decision up to it."""
        with self.engine.reading() as transaction:
            return self.engine.result(transaction)

    def recorded_result(self) -> RunResult:
        """Return the results so far, as :meth:`result` does, but rounds that are on record have no classifier and are not fitted."""
        with self.engine.reading() as transaction:
            return self.engine.result(transaction, fit_all=False)

    def error_history(self, points: int) -> list[tuple[int, Interval]]:
        """Return labels bought and the interval for the error after at most `points` + 1 rounds, the first and the last among them."""
        with self.engine.reading() as transaction:
            return self.engine.error_history(transaction, points)

    def first_measures(self) -> dict[str, Interval]:
        """Return intervals for what the objective is about, with the log alone; they are computed if they are not on record."""
        with self.engine.reading() as transaction:
            return self.engine.first_measures(transaction)
