"""Labels as people give them, in Python or in a file: ids and labels, matched by value or by text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from observal.errors import InvalidInput
from observal.problem.labels import ClassFinder, Label, is_missing
from observal.tables.spreadsheets import COMPUTE, cell_text, csv_rows, read_workbook, restore_cell
from observal.tables.table_format import TableFormat, decode_text, detect_encoding, detect_separator

SKIP = "skip"
# The id and label columns: for each, the name from the settings and a generic one.
_Columns = tuple[tuple[str, str], tuple[str, str]]
_NUMERIC = re.compile(r"[+-]?[0-9]+(?:[.,]([0-9]*))?(?:[eE]([+-]?[0-9]{1,3}))?")
_EXCEL_DIGITS = 15  # significant digits that a spreadsheet keeps


@dataclass(frozen=True)
class WrittenAnswer:
    """An id and a label as given, and where, such as ``labels.csv, line 7``.

    A label of None skips the row. `cell` is the id as the file has it, if that may differ.
    """

    id: object
    label: object
    where: str
    cell: str | None = None


class LabelReader:
    """Finds the class that an answer means, by the rules of ``ClassFinder``.

    Examples
    --------
    >>> read = LabelReader([0, 1])
    >>> read("1"), read("1.0"), read("True"), read(" skip "), read(None)
    (1, 1, 1, None, None)
    """

    def __init__(self, classes: Sequence[Label]) -> None:
        self.classes = list(classes)
        self._finder = ClassFinder(classes)

    def __call__(self, label: object) -> int | None:
        """Return the class code, or None for a skip; raise LookupError if it is neither."""
        if label is None:
            return None
        text = str(label)
        for value in (label, restore_cell(text)):  # a class name may look like a formula
            if (code := self._finder.find(value)) is not None:
                return code
        if text.strip().casefold() == SKIP:
            return None
        raise LookupError(text)


class ChangedIds:
    """Finds rows by ids that a spreadsheet changed: 000820 became 820, 12E4 became 1.20E+05.

    Examples
    --------
    >>> changed = ChangedIds(["000820", "0821", "821", "12E4", "1234567890123456"])
    >>> [changed.find(cell) for cell in ("820", "821", "1,20E+05", "1.23457E+15", "1234567890123450", "820a")]
    [[0], [1, 2], [3], [4], [4], []]
    """

    def __init__(self, ids: Sequence[object]) -> None:
        self._by_value: dict[Decimal, list[int]] = {}
        for position, id_ in enumerate(ids):
            if match := _NUMERIC.fullmatch(str(id_).strip()):
                value = Decimal(match[0].replace(",", "."))
                self._by_value.setdefault(value, []).append(position)

    def find(self, cell: str) -> list[int]:
        """Return the positions of the ids that a spreadsheet may show like this."""
        match = _NUMERIC.fullmatch(cell.strip())
        if match is None:
            return []
        number = Decimal(match[0].replace(",", "."))
        decimals, power = match.groups()
        if power is None:
            values = [value for value in self._by_value if number in (value, _cut_digits(value))]
        else:  # 1.23457E+15: rounded to as many decimals
            rounded_to = f".{len(decimals or '')}E"
            values = [value for value in self._by_value if Decimal(format(value, rounded_to)) == number]
        return [position for value in values for position in self._by_value[value]]


def _cut_digits(value: Decimal) -> Decimal | None:
    """Return a long integer with zeros after its first digits, as a spreadsheet keeps it."""
    beyond = value.adjusted() + 1 - _EXCEL_DIGITS
    return value // 10**beyond * 10**beyond if 0 < beyond <= _EXCEL_DIGITS else None


def make_answers(ids: Any, labels: Any = ()) -> list[WrittenAnswer]:
    """Return answers given in Python, one label per id, or both in one mapping or series; NaN or None skips a row.

    Examples
    --------
    >>> make_answers([7], [float("nan")])[0].label is None
    True
    """
    if isinstance(labels, tuple) and not labels and (names := _names_of(ids)) is not None:
        ids, labels = names, ids
    rows = _as_list(ids)
    values = _labels_of(rows, labels, _names_of(ids))
    if len(rows) != len(values):
        raise InvalidInput(
            f"tell needs one label for each id, but got {len(rows)} ids and {len(values)} labels; give as many of each."
        )
    return [
        WrittenAnswer(row, None if is_missing(value) else value, f"answer {number}")
        for number, (row, value) in enumerate(zip(rows, values, strict=True), start=1)
    ]


def _names_of(values: Any) -> list[object] | None:
    """Return the keys of a mapping or the index of a pandas series; None for anything else."""
    if isinstance(values, Mapping):
        return list(values)
    index = None if getattr(values, "ndim", 0) != 1 else getattr(values, "index", None)
    return None if index is None else _as_list(np.asarray(index))


def _labels_of(ids: list[object], labels: Any, own: list[object] | None) -> list[object]:
    """Return labels in the order of the ids: by name if they have names, unless the ids have the same (`own`)."""
    values, names = _as_list(labels.values() if isinstance(labels, Mapping) else labels), _names_of(labels)
    if names is None or names == own:
        return values
    counts, label_of = Counter(map(str, names)), dict(zip(map(str, names), values, strict=True))
    wrong = [str(id_) for id_ in ids if counts[str(id_)] != 1]
    # Pandas numbers any list: then the order counts, unless the numbers may be the ids.
    numbered = type(getattr(labels, "index", None)).__name__ == "RangeIndex" and names == list(range(len(ids))) != ids
    if numbered and wrong:
        return values
    if numbered or wrong:
        seen = f"there are {counts[wrong[0]]} for {wrong[0]!r}" if wrong else "the ids are numbered in another order"
        raise InvalidInput(
            f"A mapping or series must have one label for each id, but {seen}; make the ids its index, or give labels.to_numpy() in the "
            "order of the ids."
        )
    return [label_of[str(id_)] for id_ in ids]


def _as_list(values: object) -> list[object]:
    """Return values as a list; a single value becomes a list of one."""
    if isinstance(values, np.ndarray):
        return list(values.ravel().tolist())
    return [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)


def read_answers(
    source: str | Path,
    id_name: str,
    label_name: str,
    text: str | bytes | None = None,
    options: TableFormat | None = None,
) -> tuple[list[WrittenAnswer], int]:
    r"""Return the answers in a CSV, Excel or JSON file, each with its line, and the number of blank rows.

    JSON is a list of objects; CSV has a header and is separated by commas, semicolons or tabs. If a file has
    no column `id_name` or `label_name`, "id" or "label" is used. `text` is the content, if already read;
    `options` holds the user's separator, encoding and words that mean "not yet".

    Examples
    --------
    >>> answers, blank = read_answers("labels.csv", "loan", "paid", text="loan;paid\nL7;yes\nL8;\n")
    >>> [(answer.id, answer.label, answer.where) for answer in answers], blank
    ([('L7', 'yes', 'labels.csv, line 2')], 1)
    """
    content, options = _content(source) if text is None else text, options or TableFormat()
    columns = ((id_name, "id"), (label_name, "label"))
    has_excel_name = str(source).lower().endswith((".xlsx", ".xlsm"))
    if isinstance(content, bytes) and (has_excel_name or content.startswith(b"PK\3\4")):
        rows = _read_excel(source, content, columns)
    else:
        plain = content if isinstance(content, str) else _decode(source, content, options.encoding)
        plain = plain.removeprefix("\ufeff")
        is_json = str(source).endswith(".json")
        rows = _read_json(source, plain, columns) if is_json else _read_csv(source, plain, columns, options.sep)
    blank_words = {"", *(word.strip() for word in options.missing)}
    answers = [answer for answer in rows if answer.label is not None and str(answer.label).strip() not in blank_words]
    return answers, len(rows) - len(answers)


def _content(source: str | Path) -> bytes:
    try:
        return Path(source).read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"{source} does not exist; check the path.") from None


def _decode(source: str | Path, content: bytes, encoding: str | None) -> str:
    try:
        return decode_text(content) if encoding is None else content.decode(encoding)
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{source} is not text in {encoding or detect_encoding(content, whole=True)}; name its encoding with --encoding (encoding=), or save it as CSV in UTF-8."
        ) from None


def _read_excel(source: str | Path, content: bytes, columns: _Columns) -> list[WrittenAnswer]:
    sheet = read_workbook(source, content)
    id_at, label_at = (_find_column(sheet.names, names, source) for names in columns)
    for name in (sheet.names[id_at], sheet.names[label_at]):
        if name in sheet.uncomputed:
            raise InvalidInput(
                f"{source} has a formula without a stored value in cell {sheet.uncomputed[name][0]} of column {name!r}; {COMPUTE}."
            )
    answers = []
    for number, row in zip(sheet.numbers, sheet.rows, strict=True):
        label = None if row[label_at] is None else cell_text(row[label_at])
        answers.append(WrittenAnswer(cell_text(row[id_at]), label, f"{source}, row {number}"))
    return answers


def _read_csv(source: str | Path, text: str, columns: _Columns, sep: str | None) -> list[WrittenAnswer]:
    # In a file written by ask or saved by a spreadsheet, the id comes first and the label last.
    separator = sep or detect_separator(text, ends=(columns[0][0], columns[1][0]))
    try:
        rows = list(csv_rows(text, separator))
    except InvalidInput as error:
        raise InvalidInput(f"{source}, {error}") from None
    header = rows[0][1] if rows else []
    id_at, label_at = (_find_column(header, names, source) for names in columns)
    answers = []
    for line, row in rows[1:]:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) <= max(id_at, label_at):
            raise InvalidInput(
                f"{source}, line {line}: the row has {len(row)} cells, but the header has {len(header)}; complete the row."
            )
        cell = row[id_at]
        answers.append(WrittenAnswer(restore_cell(cell, separator), row[label_at], f"{source}, line {line}", cell))
    return answers


def _read_json(source: str | Path, text: str, columns: _Columns) -> list[WrittenAnswer]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{source} must be JSON, but is not ({error}); give a list of objects.") from None
    if isinstance(rows, dict):
        rows = rows.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(
            f"{source} must be a JSON list of objects, but is not; give each row as an object with an id and a label."
        )
    answers = []
    for number, row in enumerate(rows, start=1):
        where = f"{source}, object {number}"
        id_, label = (_find_entry(row, names, where) for names in columns)
        answers.append(WrittenAnswer(str(id_), None if is_missing(label) else str(label), where))
    return answers


def _find_entry(row: dict[str, object], names: tuple[str, str], where: str) -> object:
    for name in names:
        if name in row:
            return row[name]
    raise _missing_column(names[0], list(row), where)


def _find_column(header: list[str], names: tuple[str, str], source: str | Path) -> int:
    """Return the position of a column in a CSV header, spelled as ask writes it or as a person might."""
    for name in names:
        for form in (restore_cell, str, str.strip):
            for place, cell in enumerate(header):
                if form(cell) == name:
                    return place
    raise _missing_column(names[0], header, source)


def _missing_column(name: str, header: list[str], where: str | Path) -> InvalidInput:
    if not header:
        return InvalidInput(f"{where} is empty, but must have the column {name!r}; fill in the file that ask wrote.")
    return InvalidInput(
        f"{where} must have the column {name!r}, but its columns are {header}; "
        "add it, or fill in the file that ask wrote."
    )
