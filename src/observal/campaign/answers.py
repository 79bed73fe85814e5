"""Labels as people write them: a table with a row's id and its label, matched to the campaign by their text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from observal.checks import is_missing
from observal.errors import InvalidInput

SKIP = "skip"


@dataclass(frozen=True)
class WrittenAnswer:
    """An id and a label as they were written, and where: ``line 7`` of a file, say."""

    id: str
    label: str
    where: str


class LabelReader:
    """Tells which class a written label means.

    A label means a class if it is written the same; failing that, if it is the same but for capitals, the same number, or
    says true or false of classes 1 and 0. A way of reading under which two classes would look alike is not used.

    Examples
    --------
    >>> read = LabelReader([0, 1])
    >>> read("1"), read("1.0"), read("True"), read(" skip "), read("")
    (1, 1, 1, None, None)
    >>> LabelReader(["bad", "good"])("Good")
    1
    """

    def __init__(self, classes: Sequence[Any]) -> None:
        self.classes = list(classes)
        self._ways: list[tuple[Callable[[str], str], dict[str, int]]] = []
        for way in (str.strip, _plain, _number):
            codes = {way(str(value)): code for code, value in enumerate(classes)}
            if len(codes) == len(self.classes):
                self._ways.append((way, codes))

    def __call__(self, text: str) -> int | None:
        """Return the class's code, or None for a skip; raise LookupError where it is neither."""
        for way, codes in self._ways:
            if way(text) in codes:
                return codes[way(text)]
        if _plain(text) in ("", SKIP):
            return None
        raise LookupError(text)


def _plain(text: str) -> str:
    return text.strip().casefold()


def _number(text: str) -> str:
    plain = {"true": "1", "false": "0"}.get(_plain(text), _plain(text))
    try:
        return repr(float(plain))
    except ValueError:
        return plain


def find_row(text: str, position_of: dict[str, int]) -> int | None:
    """Return the pool position of a written id; 17.0 is found as 17, because spreadsheets write whole numbers so.

    Examples
    --------
    >>> find_row("17.0", {"17": 3}), find_row("18", {"17": 3})
    (3, None)
    """
    for form in (text, text.strip(), text.strip().removesuffix(".0")):
        if form in position_of:
            return position_of[form]
    return None


def written(ids: Iterable[Any], labels: Iterable[Any]) -> list[WrittenAnswer]:
    """Return answers given in Python: ids and labels of equal number; NaN or None skips a row.

    Examples
    --------
    >>> written([7], [None])
    [WrittenAnswer(id='7', label='', where='answer 1')]
    """
    rows, values = list(ids), list(labels)
    if len(rows) != len(values):
        raise InvalidInput(f"tell needs one label per id, but got {len(rows)} ids and {len(values)} labels.")
    return [
        WrittenAnswer(str(row), "" if is_missing(value) else str(value), f"answer {number}")
        for number, (row, value) in enumerate(zip(rows, values, strict=True), start=1)
    ]


def read_answers(source: str | Path, id_name: str, label_name: str, text: str | None = None) -> list[WrittenAnswer]:
    r"""Return the answers of a CSV or JSON file, each with its line.

    Parameters
    ----------
    source : path
        A ``.json`` file is a list of objects; any other is CSV with a header, separated by commas, semicolons or tabs.
    id_name, label_name : str
        The two columns; "id" and "label" are taken where a file has no column of that name.
    text : str, optional
        The content, where it has been read already.

    Examples
    --------
    >>> read_answers("labels.csv", "loan", "paid", text="loan;paid\nL7;yes\n")
    [WrittenAnswer(id='L7', label='yes', where='labels.csv, line 2')]
    """
    if text is None:
        try:
            text = Path(source).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidInput(f"{source} must be text in UTF-8, but is not; save it again as CSV in UTF-8.") from None
    if str(source).endswith(".json"):
        return _read_json(source, text, id_name, label_name)
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        id_at, label_at = (
            names.index(_column(names, wanted, source)) for wanted in ((id_name, "id"), (label_name, "label"))
        )
        answers = []
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) <= max(id_at, label_at):
                raise InvalidInput(
                    f"{source}, line {reader.line_num}: the row has {len(row)} cells, but the header has {len(names)}; "
                    "complete the row."
                )
            answers.append(WrittenAnswer(row[id_at], row[label_at], f"{source}, line {reader.line_num}"))
    except csv.Error as error:
        raise InvalidInput(
            f"{source}, line {reader.line_num}: not readable as CSV ({error}); correct the quotes there."
        ) from None
    return answers


def _read_json(source: str | Path, text: str, id_name: str, label_name: str) -> list[WrittenAnswer]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{source} must be JSON, but is not ({error}); give a list of objects.") from None
    if isinstance(rows, dict):
        rows = rows.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(f"{source} must be a JSON list of objects with an id and a label each.")
    answers = []
    for number, row in enumerate(rows, start=1):
        id_, label = (
            row[_column(list(row), names, f"{source}, object {number}")]
            for names in ((id_name, "id"), (label_name, "label"))
        )
        answers.append(WrittenAnswer(str(id_), "" if label is None else str(label), f"{source}, object {number}"))
    return answers


def _column(names: list[str], wanted: tuple[str, str], source: str | Path) -> str:
    for name in wanted:
        if name in names:
            return name
    raise InvalidInput(
        f"{source} must have the column {wanted[0]!r}, but its columns are {names}; "
        "fill in the label column of what ask wrote."
    )
