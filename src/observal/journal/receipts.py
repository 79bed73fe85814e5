"""What the operations of sessions and campaigns return: rows to label, a receipt, an undone answer, a check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from observal.errors import InvalidInput
from observal.journal.answers import SKIP
from observal.tables.table_format import TableFormat

if TYPE_CHECKING:
    import pyarrow as pa

MAX_CLASSES = 20  # listed beside each row


class Assignment(NamedTuple):
    """The rows that an annotator holds now; if there are none, or they were chosen ahead, `note` says why.

    `rounds` are the rounds that chose them, and `models` the closed rounds whose models did.
    """

    positions: list[int]
    ids: list[Any]
    rounds: list[int]
    models: list[int]
    query_probability: list[float]
    reason: list[str]
    note: str


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
        Each row's selection probability.
    reason : tuple of str
        Why each row was chosen.
    rows : pyarrow.Table
        The rows as in the table, the id first; without labels and propensities, which would sway annotators.
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
    table_format : TableFormat, optional
        How the user's tables are written, if the rows are from tables.
    """

    ids: tuple[Any, ...]
    round: int
    query_probability: tuple[float, ...]
    reason: tuple[str, ...]
    rows: pa.Table = field(repr=False)
    finished: bool
    note: str
    classes: tuple[Any, ...] = ()
    rounds: tuple[int, ...] = ()
    label: str = "label"
    table_format: TableFormat | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def to_fill_in(self, columns: Sequence[str] | None = None) -> tuple[list[str], list[dict[str, Any]]]:
        """Return column names and rows as plain values, with an empty label column to fill in.

        Parameters
        ----------
        columns : sequence of str, optional
            The raw columns to show; all by default.
        """
        label, table = self.label, self.rows
        if columns is not None:
            id_, *rest = table.column_names
            if unknown := [name for name in columns if name not in (id_, *rest)]:
                raise InvalidInput(f"The pool has no column {unknown[0]!r}, its columns are {rest}; name some of them.")
            table = table.select([id_, *dict.fromkeys(name for name in columns if name != id_)])
        names = (*table.column_names, label)
        ours = [name if name not in names else f"observal_{name}" for name in ("round", "reason", "allowed")]
        records = [
            {**_replace_non_finite(row), ours[0]: round_, ours[1]: reason, ours[2]: self.allowed, label: None}
            for row, round_, reason in zip(table.to_pylist(), self.rounds, self.reason, strict=True)
        ]
        return [*table.column_names, *ours, label], records

    @property
    def allowed(self) -> str:
        """The allowed answers as text, for the column beside the label."""
        if len(self.classes) > MAX_CLASSES:
            return f"one of {len(self.classes)} classes, or skip"
        return " / ".join([*(str(value) for value in self.classes), SKIP])


@dataclass(frozen=True)
class Receipt:
    """What was stored for some answers.

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
        counts = [
            (self.labels, "label", "stored"),
            (self.skips, "row", "skipped"),
            (self.corrected, "answer", "corrected"),
            (self.unchanged, "answer", "already known"),
            (self.blank, "row", "left blank"),
        ]
        if not self:
            return "There are no answers yet, so nothing was stored."
        parts = [f"{count} {what}{'s' * (count != 1)} {fate}" for count, what, fate in counts if count]
        nothing = "" if self.labels or self.skips or self.corrected else "; nothing changed"
        return ", ".join(parts) + nothing + "."


@dataclass(frozen=True)
class Undone:
    """An answer that was taken back: the row's id and its label, None for a skip."""

    id: Any
    label: Any


@dataclass(frozen=True)
class Check:
    """What ``Campaign.check`` read and found intact.

    Parameters
    ----------
    entries, chunks : int
        The number of journal entries and of data chunks.
    labels : int
        Rows with a label.
    digest : str
        The digest of the last journal entry. It covers everything, so it changes only if something is added
        or changed.

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


def _replace_non_finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with None for NaN and infinity, which JSON lacks."""
    return {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in row.items()}
