"""What told answers would change, decided before anything is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from observal.errors import ConflictingAnswer, InvalidLabel, UnknownRow
from observal.journal.answers import LabelReader, WrittenAnswer
from observal.journal.ledger import Ledger


@dataclass(frozen=True)
class Changes:
    """Answers that are new, answers that take the place of another, how many change nothing, and how many are blank."""

    new: list[tuple[int, int | None]] = field(default_factory=list)
    corrected: list[tuple[int, int | None, int | None]] = field(default_factory=list)
    unchanged: int = 0
    blank: int = 0


def validate_answers(answers: Sequence[WrittenAnswer], ledger: Ledger, annotator: str, correct: bool) -> Changes:
    """Return what an annotator's answers would change, or refuse them all with the place of the first wrong one.

    Parameters
    ----------
    answers : sequence of WrittenAnswer
        As they were written.
    ledger : Ledger
        Where things stand.
    annotator : str
        Who answers.
    correct : bool
        Whether another answer may take the place of one that is there.
    """
    new: list[tuple[int, int | None]] = []
    corrected: list[tuple[int, int | None, int | None]] = []
    told, blank = _read(answers, ledger)
    for position, (answer, code) in told.items():
        known, before = ledger.response(position, annotator)
        if known and before == code:
            continue
        if known and before is not None:
            if not correct:
                raise ConflictingAnswer(
                    f"{answer.where}: row {str(answer.id)!r} has the label {ledger.settings['classes'][before]!r} already, but "
                    f"{'a skip' if code is None else answer.label!r} was told; nothing was stored, so say that it is a correction "
                    "(--correct, or correct=True) or take the row out."
                )
            corrected.append((position, before, code))
        else:
            new.append((position, code))
    return Changes(new, corrected, len(told) - len(new) - len(corrected), blank)


def _read(answers: Sequence[WrittenAnswer], ledger: Ledger) -> tuple[dict[int, tuple[WrittenAnswer, int | None]], int]:
    """Return each row's answer, by pool position, and how many have none yet."""
    code_of = LabelReader(ledger.settings["classes"])
    told: dict[int, tuple[WrittenAnswer, int | None]] = {}
    blank = 0
    for answer in answers:
        position = ledger.find(answer.id)
        if position is None and answer.cell is not None:
            position = ledger.find(answer.cell)
        if position is None:
            raise UnknownRow(
                f"{answer.where}: row {str(answer.id)!r} was never asked for; nothing was stored, so correct the id or take "
                "the row out."
            )
        try:
            code = code_of(answer.label)
        except LookupError:
            if isinstance(answer.label, str) and not answer.label.strip():
                blank += 1
                continue
            raise InvalidLabel(
                f"{answer.where}: {answer.label!r} is not one of the classes {code_of.classes}; nothing was stored, so "
                "correct it, write skip to skip the row, or leave it empty for now."
            ) from None
        first, first_code = told.setdefault(position, (answer, code))
        if first_code != code:
            raise ConflictingAnswer(
                f"{answer.where}: row {str(answer.id)!r} has another label than in {first.where}; nothing was stored, so keep "
                "one of the two."
            )
    return told, blank
