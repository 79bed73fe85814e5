"""What told answers would change, decided before anything is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from observal.errors import ConflictingAnswer, InvalidLabel, UnknownRow
from observal.journal.answers import ChangedIds, LabelReader, WrittenAnswer
from observal.journal.ledger import Ledger


@dataclass(frozen=True)
class Changes:
    """New answers, corrected answers, how many change nothing, how many are blank, and answers that came too late to decide."""

    new: list[tuple[int, int | None]] = field(default_factory=list)
    corrected: list[tuple[int, int | None, int | None]] = field(default_factory=list)
    unchanged: int = 0
    blank: int = 0
    late: list[tuple[int, int | None]] = field(default_factory=list)


def validate_answers(
    answers: Sequence[WrittenAnswer],
    ledger: Ledger,
    annotator: str,
    correct: bool,
    pool_ids: Callable[[], Sequence[Any]],
) -> Changes:
    """Return what an annotator's answers would change; if one is wrong, refuse all and say where it is.

    Parameters
    ----------
    answers : sequence of WrittenAnswer
        The answers as they were given.
    ledger : Ledger
        The current state.
    annotator : str
        Who answers.
    correct : bool
        Whether an answer may replace an earlier one.
    pool_ids : callable
        Returns all ids of the pool. It is called only if an id was never asked about as it is written.
    """
    new: list[tuple[int, int | None]] = []
    corrected: list[tuple[int, int | None, int | None]] = []
    told, blank = _read(answers, ledger, pool_ids)
    for position, (answer, code) in told.items():
        known, before = ledger.response(position, annotator)
        if known and before == code:
            continue
        if known and before is not None:
            if not correct:
                raise ConflictingAnswer(
                    f"{answer.where}: row {str(answer.id)!r} already has the label {ledger.settings['classes'][before]!r}, but "
                    f"{'a skip' if code is None else answer.label!r} was told and nothing was stored; pass --correct (correct=True) "
                    "to correct it, or remove the row."
                )
            corrected.append((position, before, code))
        else:
            new.append((position, code))
    return Changes(new, corrected, len(told) - len(new) - len(corrected), blank)


def own_changes(answers: Sequence[WrittenAnswer], ledger: Ledger, annotator: str) -> Changes:
    """Return what answers from the page or another tool would change: people may change their own, and never replace another's.

    With an overlap of 1, somebody else may have been given the row and answered first. The answer is then kept beside theirs.

    Parameters
    ----------
    answers : sequence of WrittenAnswer
        The answers as they were given.
    ledger : Ledger
        The current state.
    annotator : str
        Who answers.
    """
    changes = Changes()
    told, _ = _read(answers, ledger)
    unchanged = 0
    for position, (_, code) in told.items():
        responses = ledger.responses.get(position, {})
        first = next(iter(responses), annotator)
        if annotator in responses and responses[annotator] == code:
            unchanged += 1
        elif ledger.overlap == 1 and first != annotator:
            changes.late.append((position, code))
        elif annotator in responses:
            changes.corrected.append((position, responses[annotator], code))
        else:
            changes.new.append((position, code))
    return replace(changes, unchanged=unchanged)


def read_one(answer: WrittenAnswer, ledger: Ledger) -> tuple[int, int | None]:
    """Return the row and the class code of a single answer, which must not be blank."""
    told, blank = _read([answer], ledger)
    if blank:
        raise InvalidLabel(f"Row {str(answer.id)!r} needs a label, but none was given; name a class.")
    ((position, (_, code)),) = told.items()
    return position, code


def _read(
    answers: Sequence[WrittenAnswer], ledger: Ledger, pool_ids: Callable[[], Sequence[Any]] | None = None
) -> tuple[dict[int, tuple[WrittenAnswer, int | None]], int]:
    """Return each row's answer by pool position, and the number of blank rows."""
    code_of = LabelReader(ledger.settings["classes"])
    changed: ChangedIds | None = None
    told: dict[int, tuple[WrittenAnswer, int | None]] = {}
    blank = 0
    for answer in answers:
        position = ledger.find(answer.id)
        if position is None and answer.cell is not None:
            position = ledger.find(answer.cell)
        if position is None and pool_ids is not None:  # a page sends ids as they are; a spreadsheet may not
            changed = changed or ChangedIds(pool_ids())
            position = _changed_row(answer, changed, ledger)
        if position is None:
            raise UnknownRow(
                f"{answer.where}: row {str(answer.id)!r} was never asked about and nothing was stored; correct the id or "
                "remove the row."
            )
        try:
            code = code_of(answer.label)
        except LookupError:
            if isinstance(answer.label, str) and not answer.label.strip():
                blank += 1
                continue
            raise InvalidLabel(
                f"{answer.where}: {answer.label!r} is not one of the classes {code_of.classes} and nothing was stored; "
                "correct it, write skip to skip the row, or leave it blank for now."
            ) from None
        first, first_code = told.setdefault(position, (answer, code))
        if first_code != code:
            raise ConflictingAnswer(
                f"{answer.where}: row {str(answer.id)!r} has a different label in {first.where} and nothing was stored; keep "
                "one of the two."
            )
    return told, blank


def _changed_row(answer: WrittenAnswer, changed: ChangedIds, ledger: Ledger) -> int | None:
    """Return the row whose id a spreadsheet changed to this one; refuse it where several rows may be meant."""
    alike = changed.find(str(answer.id))
    asked = [position for position in alike if position in ledger.ids]
    if not asked:
        return None
    if len(alike) > 1:
        raise UnknownRow(
            f"{answer.where}: row {str(answer.id)!r} may be one of {len(alike)} rows, {str(ledger.ids[asked[0]])!r} among them, and "
            "nothing was stored; write the id as ask wrote it."
        )
    return asked[0]
