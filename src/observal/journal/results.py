"""What the verbs of sessions and campaigns return: rows to label, a receipt, the status, a check, entries of the history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from observal.errors import InvalidInput
from observal.journal.agreement import Agreement
from observal.journal.answers import SKIP
from observal.problem.objectives import objective_words

MOST_CLASSES = 20  # that are listed beside each row


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows to label now; falsy if there are none, and then `note` says why.

    Parameters
    ----------
    ids : tuple
        The rows' ids.
    round : int
        The latest round that they belong to.
    query_probability : tuple of float
        The chance each row had of being chosen.
    reason : tuple of str
        Why each row was chosen.
    rows : pyarrow.Table
        The rows as they are in the table, the id first.
    finished : bool
        Whether the campaign has nothing left to ask.
    note : str
        Why there are no rows, or why they were chosen ahead; otherwise empty.
    classes : tuple
        The allowed answers.
    rounds : tuple of int
        The round of each row.
    label : str
        The name of the label.
    written : mapping, optional
        How the user's own tables were written, if the rows are from tables.
    """

    ids: tuple[Any, ...]
    round: int
    query_probability: tuple[float, ...]
    reason: tuple[str, ...]
    rows: Any = field(repr=False)
    finished: bool
    note: str
    classes: tuple[Any, ...] = ()
    rounds: tuple[int, ...] = ()
    label: str = "label"
    written: Mapping[str, Any] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def to_fill_in(self, columns: Sequence[str] | None = None) -> tuple[list[str], list[dict[str, Any]]]:
        """Return column names and rows as plain values: the id, raw columns, round, reason, allowed answers, and an empty label.

        Parameters
        ----------
        columns : sequence of str, optional
            The raw columns to show; all by default.
        """
        label = self.label
        shown = self.rows.drop_columns([label]) if label in self.rows.column_names else self.rows
        if columns is not None:
            id_, *rest = shown.column_names
            if unknown := [name for name in columns if name not in (id_, *rest)]:
                raise InvalidInput(f"The pool has no column {unknown[0]!r}, its columns are {rest}; name some of them.")
            shown = shown.select([id_, *dict.fromkeys(name for name in columns if name != id_)])
        taken = (*shown.column_names, label)
        ours = [name if name not in taken else f"observal_{name}" for name in ("round", "reason", "allowed")]
        records = [
            {**_finite(row), ours[0]: round_, ours[1]: reason, ours[2]: self.allowed, label: None}
            for row, round_, reason in zip(shown.to_pylist(), self.rounds, self.reason, strict=True)
        ]
        return [*shown.column_names, *ours, label], records

    @property
    def allowed(self) -> str:
        """The allowed answers in words, for the column beside the label."""
        if len(self.classes) > MOST_CLASSES:
            return f"one of {len(self.classes)} classes, or skip"
        return " / ".join([*(str(value) for value in self.classes), SKIP])


@dataclass(frozen=True)
class Receipt:
    """What was stored when answers were told.

    Parameters
    ----------
    labels, skips : int
        New labels, and rows newly skipped.
    corrected : int
        Answers that replaced an earlier one.
    unchanged : int
        Answers that were already known.
    blank : int
        Rows without an answer.

    Examples
    --------
    >>> print(Receipt(labels=3, skips=1, corrected=0, unchanged=0, blank=2))
    3 labels stored, 1 row skipped, 2 rows left blank.
    """

    labels: int
    skips: int
    corrected: int
    unchanged: int
    blank: int = 0

    def __bool__(self) -> bool:
        """Whether there was any answer."""
        return bool(self.labels or self.skips or self.corrected or self.unchanged)

    def __str__(self) -> str:
        parts = [
            (self.labels, "label", "stored"),
            (self.skips, "row", "skipped"),
            (self.corrected, "answer", "corrected"),
            (self.unchanged, "answer", "already known"),
            (self.blank, "row", "left blank"),
        ]
        if not self:
            return "There are no answers yet, so nothing was stored."
        said = [f"{count} {what}{'s' * (count != 1)} {fate}" for count, what, fate in parts if count]
        nothing = "" if self.labels or self.skips or self.corrected else "; nothing changed"
        return ", ".join(said) + nothing + "."


@dataclass(frozen=True)
class Undone:
    """An answer that was taken back: the row's id, and the label; None if it was a skip."""

    id: Any
    label: Any


@dataclass(frozen=True)
class Status:
    """The progress of a session or campaign.

    Parameters
    ----------
    n_logged, revealed, pool_rows : int
        Rows of the log, those of them with a label, and rows of the pool.
    features : int
        Columns that the method sees.
    classes : tuple
        The label values, the positive one last.
    label_budget : int, optional
        How many labels may be bought.
    labels, skipped : int
        Rows with a label, and rows that were skipped.
    round, round_rows, open_rows : int
        The latest round, its number of rows, and how many of them are open; where several rounds are open, those of all of them.
    held : mapping
        Annotator → number of open rows they hold.
    answers : mapping
        Annotator → number of rows they labelled; skips do not count.
    overlap, corrections : int
        Annotators for each row, and answers that were corrected.
    agreement : Agreement, optional
        If annotators answered the same rows.
    stopped : str
        Why nothing is left to ask; empty if there may be more to ask.
    method : str
        The method, with the settings that are not the default.
    random_state : int
        Seed of all random numbers.
    intervals : str
        What intervals are about, and at which rounds they hold.
    notes : tuple of str
        How the data were read, and warnings.
    objective : str
        What the classifier is for; see :mod:`observal.problem.objectives`.
    open_rounds : int
        How many rounds are open; more than one if rows were chosen ahead.
    """

    n_logged: int
    revealed: int
    pool_rows: int
    features: int
    classes: tuple[Any, ...]
    label_budget: int | None
    labels: int
    skipped: int
    round: int
    round_rows: int
    open_rows: int
    held: Mapping[str, int]
    answers: Mapping[str, int]
    overlap: int
    corrections: int
    agreement: Agreement | None
    stopped: str
    method: str
    random_state: int
    intervals: str
    notes: tuple[str, ...]
    objective: str = "error"
    open_rounds: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON, where the rows of the log are ``log_rows``."""
        found = {"log_rows" if name == "n_logged" else name: value for name, value in asdict(self).items()}
        return {**found, "held": dict(self.held), "answers": dict(self.answers)}

    def lines(self) -> list[tuple[str, str]]:
        """Return pairs of a name and a text, for people."""
        budget = f" of {self.label_budget}" if self.label_budget is not None else ""
        lines = [
            ("log", f"{self.n_logged} rows, {self.revealed} with a label"),
            ("pool", f"{self.pool_rows} rows, {self.features} features"),
            ("classes", self._classes()),
            ("labels", f"{self.labels}{budget}"),
        ]
        if self.skipped:
            lines.append(("skipped", f"{self.skipped} rows"))
        if self.corrections:
            lines.append(("corrected", f"{self.corrections} answers"))
        done = self.round_rows - self.open_rows
        rounds = str(self.round) if self.open_rounds < 2 else f"{self.round - self.open_rounds + 1} to {self.round}"
        lines.append(("round", f"{rounds}: {done} of {self.round_rows} rows done" if self.round else "none yet"))
        if self.held:
            lines.append(("held", ", ".join(f"{name} {count}" for name, count in self.held.items())))
        if self.answers:
            lines.append(("answers", ", ".join(f"{name} {count}" for name, count in self.answers.items())))
        if self.overlap > 1:
            lines.append(("per row", f"{self.overlap} annotators, the majority decides"))
        if self.agreement:
            kappa = "not defined" if self.agreement.kappa is None else f"{self.agreement.kappa:.2f}"
            kind = f"{self.agreement.kind}'s kappa {kappa}"
            lines.append(("agreement", f"{self.agreement.share:.1%} on {self.agreement.rows} rows, {kind}"))
        lines.append(("state", f"finished: {self.stopped}" if self.stopped else "not finished"))
        lines.append(("method", f"{self.method}, seed {self.random_state}"))
        if self.objective != "error":
            lines.append(("objective", objective_words(self.objective, self.classes)))
        lines.append(("intervals", self.intervals))
        return lines + [("note", note) for note in self.notes]

    def _classes(self) -> str:
        named = ", ".join(str(value) for value in self.classes)
        return f"{named}; {self.classes[-1]} is the positive class" if len(self.classes) == 2 else named


@dataclass(frozen=True)
class Check:
    """What :meth:`Campaign.check` read and found unchanged.

    Parameters
    ----------
    entries, chunks : int
        The number of journal entries and of chunks of data.
    labels : int
        Rows that have a label.
    digest : str
        The digest of the last journal entry. It covers everything, so it stays the same as long as nothing is added or changed.

    Examples
    --------
    >>> print(Check(entries=4, chunks=9, labels=20, digest="5f" * 32))
    Nothing was changed: 4 journal entries with 20 labels, 9 chunks of data, digest 5f5f5f5f5f5f5f5f.
    """

    entries: int
    chunks: int
    labels: int
    digest: str

    def __str__(self) -> str:
        return (
            f"Nothing was changed: {self.entries} journal entries with {self.labels} labels, "
            f"{self.chunks} chunks of data, digest {self.digest[:16]}."
        )


@dataclass(frozen=True)
class Entry:
    """One event of a session or campaign, for people.

    Parameters
    ----------
    sequence : int
        1, 2, 3, …, without gaps.
    time : str
        When, in UTC.
    actor : str
        Who.
    kind : str
        created, round, asked, answered, corrected, late, decided, undone, released, extended or finished.
    text : str
        What happened, in words.
    details : mapping
        The same as values: ids and labels.
    """

    sequence: int
    time: str
    actor: str
    kind: str
    text: str
    details: Mapping[str, Any] = field(repr=False)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with None in place of NaN and infinity, which JSON does not have."""
    return {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in row.items()}
