"""CSV without formulas, which reads back unchanged.

A spreadsheet treats a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula. Such text gets a ``'`` in front, which
:func:`restored` removes.
"""

from __future__ import annotations

import csv
import io
import numbers
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from observal.errors import InvalidInput

_FORMULA = "=+\\-@＝＋－＠"
# At the start of a cell, and where a spreadsheet with another separator, or one that splits lines within quotes, would start a
# new cell. With commas between columns that is after a semicolon or tab, with another separator after a comma too.
_BREAKS = {True: r";\t\r\n", False: r",;\t\r\n"}
_STARTS = {
    commas: re.compile(rf"(?:\A(?=[' ]*[{_FORMULA}\t\r\n])|(?<=[{breaks}])(?=[' ]*[{_FORMULA}]))")
    for commas, breaks in _BREAKS.items()
}
_ESCAPED = {
    commas: re.compile(rf"(?:\A'(?=[' ]*[{_FORMULA}\t\r\n])|(?<=[{breaks}])'(?=[' ]*[{_FORMULA}]))")
    for commas, breaks in _BREAKS.items()
}
_NUMBER = r"-(0|[1-9][0-9]*)([.,][0-9]+)?( %)?"
_QUOTED = re.compile(r'[",;|\t\r\n\ufeff]|\A\s|\s\Z')
_LONGEST_CELL = 2**31 - 1


def guarded(value: Any, separator: str = ",") -> str:
    """Return a value as a cell that no spreadsheet treats as a formula; different values give different cells.

    Numbers are unchanged, including negative numbers that are text.

    Examples
    --------
    >>> guarded("=1+1"), guarded("'=1+1"), guarded("north"), guarded("-3.5"), guarded(-3.5), guarded(None)
    ("'=1+1", "''=1+1", 'north', '-3.5', '-3.5', '')
    """
    if value is None:
        return ""
    text = str(value)
    if isinstance(value, numbers.Number) or re.fullmatch(_NUMBER, text):
        return text
    return _STARTS[separator == ","].sub("'", text)


def restored(cell: str, separator: str = ",") -> str:
    """Return the text that :func:`guarded` turned into a cell.

    Examples
    --------
    >>> restored("'=1+1"), restored("''=1+1"), restored("=1+1"), restored("'tis")
    ('=1+1', "'=1+1", '=1+1', "'tis")
    """
    return _ESCAPED[separator == ","].sub("", cell)


def csv_text(rows: Iterable[Sequence[Any]], separator: str = ",") -> str:
    r"""Return rows as CSV, each cell guarded.

    Examples
    --------
    >>> csv_text([["id", "note"], [7, "=1+1"], [8, "two\rlines"]])
    'id,note\n7,\'=1+1\n8,"two\rlines"\n'
    """
    return "".join(separator.join(_quoted(guarded(value, separator)) for value in row) + "\n" for row in rows)


def csv_rows(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    r"""Yield the rows of a CSV text, each with the line it ends on; cells are unchanged and may have any length.

    Examples
    --------
    >>> list(csv_rows('a;b\r\n"x\ry";2\r\n', ";"))
    [(1, ['a', 'b']), (3, ['x\ry', '2'])]
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        try:
            with _cells_of_any_length():
                row = next(reader, None)
        except csv.Error as error:
            raise InvalidInput(
                f"line {reader.line_num}: not readable as CSV ({error}); correct the quotes there."
            ) from None
        if row is None:
            return
        yield reader.line_num, row


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell
