"""Files for spreadsheets: CSV without formulas, and Excel workbooks with a drop-down of the allowed answers.

A spreadsheet treats a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula. In CSV such text gets a ``'`` in front, which
``restore_cell`` removes.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import numbers
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from observal.errors import InvalidInput, one_line

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow as pa
    from openpyxl.cell import Cell

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
_NUMBER = r"-(0|[1-9][0-9]*)([.,][0-9]+)?"
_NEEDS_QUOTES = re.compile(r'[",;|\t\r\n\ufeff]|\A\s|\s\Z')
# Every cell that is guarded or quoted, and few others; for Arrow, whose expressions cannot look ahead.
_NOT_PLAIN = rf"^[' ]*[{_FORMULA}]|[\",;|\t\r\n\x{{feff}}]|^\pZ|\pZ$|^\s|\s$"
_LONGEST_CELL = 2**31 - 1
_LARGEST_WORKBOOK = 1 << 30  # bytes when unpacked
_MOST_ROWS = 1_048_576  # of a sheet
_MOST_EMPTY_CELLS = 20_000_000  # beyond one for each byte, with which a small file could fill the memory
_LONGEST_EXCEL_CELL = 32_767
_FORBIDDEN = dict.fromkeys([*range(9), 11, 12, *range(14, 32)])  # control characters that a workbook cannot hold


COMPUTE = "open the file in Excel, which computes it, and save it"


def guard_cell(value: object, separator: str = ",") -> str:
    """Return a value as a cell that no spreadsheet treats as a formula; different values give different cells.

    Numbers are unchanged, including negative numbers that are text.

    Examples
    --------
    >>> guard_cell("=1+1"), guard_cell("'=1+1"), guard_cell("north"), guard_cell("-3.5"), guard_cell(-3.5), guard_cell(None)
    ("'=1+1", "''=1+1", 'north', '-3.5', '-3.5', '')
    """
    if value is None:
        return ""
    text = str(value)
    if isinstance(value, numbers.Number) or re.fullmatch(_NUMBER, text):
        return text
    return _STARTS[separator == ","].sub("'", text)


def restore_cell(cell: str, separator: str = ",") -> str:
    """Return the text that ``guard_cell`` turned into a cell.

    Examples
    --------
    >>> restore_cell("'=1+1"), restore_cell("''=1+1"), restore_cell("=1+1"), restore_cell("'tis")
    ('=1+1', "'=1+1", '=1+1', "'tis")
    """
    return _ESCAPED[separator == ","].sub("", cell)


def csv_text(rows: Iterable[Sequence[object]], separator: str = ",") -> str:
    r"""Return rows as CSV, each cell guarded.

    Examples
    --------
    >>> csv_text([["id", "note"], [7, "=1+1"], [8, "two\rlines"]])
    'id,note\n7,\'=1+1\n8,"two\rlines"\n'
    """
    return "".join(separator.join(_quote(guard_cell(value, separator)) for value in row) + "\n" for row in rows)


def csv_block(table: pa.Table, separator: str = ",", decimal: str = ".") -> bytes:
    r"""Return the rows of an Arrow table as CSV without a header, as ``csv_text`` writes them: quick for a million rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> csv_block(pa.table({"id": ["7", "=1+1", None], "x": [0.5, -2.0, 3.0]}), ";", ",")
    b"7;0,5\n'=1+1;-2\n;3\n"
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    cells = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            text = column.cast(pa.large_string())
        except pa.ArrowException:
            raise InvalidInput(
                f"Column {name!r} has type {column.type}, which CSV cannot hold; leave it out, or write Parquet."
            ) from None
        if kinds.is_floating(column.type):
            text = pc.replace_substring(text, ".", decimal) if decimal != "." else text
        elif not kinds.is_integer(column.type):
            text = _plain_cells(text, separator)
        cells.append(text)
    empty, sep, end = (pa.scalar(text, pa.large_string()) for text in ("", separator, "\n"))
    rows = pc.binary_join_element_wise(*cells, sep, null_handling="replace", null_replacement="")
    content = pc.binary_join_element_wise(rows, empty, end).combine_chunks().buffers()[2]
    return b"" if content is None else bytes(content.to_pybytes())


def _plain_cells(text: pa.ChunkedArray, separator: str) -> pa.ChunkedArray:
    """Return text as cells of a CSV; most texts are cells already."""
    import pyarrow as pa
    import pyarrow.compute as pc

    odd = pc.fill_null(pc.match_substring_regex(text, _NOT_PLAIN), False)
    if not pc.any(odd).as_py():
        return text
    mended = [_quote(guard_cell(value, separator)) for value in text.filter(odd).to_pylist()]
    return pc.replace_with_mask(text.combine_chunks(), odd.combine_chunks(), pa.array(mended, pa.large_string()))


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
            with cells_of_any_length():
                row = next(reader, None)
        except csv.Error as error:
            raise InvalidInput(
                f"line {reader.line_num}: not readable as CSV ({error}); correct the quotes there."
            ) from None
        if row is None:
            return
        yield reader.line_num, row


@contextmanager
def cells_of_any_length() -> Iterator[None]:
    """Let Python's reader of CSV accept cells of more than 128 kB."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _quote(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _NEEDS_QUOTES.search(cell) else cell


class Sheet(NamedTuple):
    """The first sheet of a workbook: the header, the rows below it, the row of the sheet each is in, and sentences.

    `uncomputed` has the cells, such as B2, of each column with formulas whose values are not in the file.
    """

    names: list[str]
    rows: list[list[object]]
    numbers: list[int]
    notes: tuple[str, ...]
    uncomputed: Mapping[str, Sequence[str]] = MappingProxyType({})


def read_workbook(path: str | Path, content: bytes | None = None) -> Sheet:
    """Return the first sheet of an Excel file; the first row that is not empty is the header. `content` spares reading the file.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> write_workbook(file, ["id", "age", "paid"], [["007", 30, None]], ["no", "yes"])
    >>> sheet = read_workbook("labels.xlsx", file.getvalue())
    >>> sheet.names, sheet.rows, sheet.numbers
    (['id', 'age', 'paid'], [['007', 30, None]], [2])
    """
    openpyxl = _openpyxl()
    source = io.BytesIO(Path(path).read_bytes() if content is None else content)
    try:
        with zipfile.ZipFile(source) as parts:
            if sum(part.file_size for part in parts.infolist()) > _LARGEST_WORKBOOK:
                raise InvalidInput(f"{path} is larger than 1 GB when unpacked; save the table as CSV or Parquet.")
        book = openpyxl.load_workbook(source, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # some programs write wrong ones
        with zipfile.ZipFile(source) as parts:
            xml = parts.read(sheet._worksheet_path)
        formulas = _find_uncomputed(xml)
        filled, n_cells = [], 0
        for number, row in enumerate(sheet.iter_rows(max_row=_MOST_ROWS, values_only=True), start=1):
            n_cells += len(row)
            if n_cells > _MOST_EMPTY_CELLS + len(xml):
                raise InvalidInput(f"{path} has cells far to the right of its table; delete these columns in Excel.")
            if any(value is not None for value in row):
                filled.append((number, list(row)))
    except InvalidInput:
        raise
    except Exception as error:  # openpyxl raises whatever its parts raise
        raise InvalidInput(
            f"{path} cannot be read as an Excel workbook ({one_line(error)}); check that it is complete."
        ) from None
    notes = (
        (f"{Path(path).name} has {len(book.worksheets)} sheets; the first, {sheet.title!r}, was read.",)
        if sum(sheet.sheet_state == "visible" for sheet in book.worksheets) > 1
        else ()
    )
    if not filled:
        return Sheet([], [], [], notes)
    header = filled[0][1]
    width = max(k for k, value in enumerate(header) if value is not None) + 1
    if width * len(filled) > _MOST_EMPTY_CELLS + len(xml):
        raise InvalidInput(f"{path} has a header far wider than its table; delete the extra columns in Excel.")
    names = [cell_text(value) if value is not None else f"column {k + 1}" for k, value in enumerate(header[:width])]
    body = [(number, (row + [None] * width)[:width]) for number, row in filled[1:]]
    uncomputed: dict[str, list[str]] = {}
    for number, place in formulas:
        if number > filled[0][0] and place < width:
            uncomputed.setdefault(names[place], []).append(f"{openpyxl.utils.get_column_letter(place + 1)}{number}")
    return Sheet(names, [row for _, row in body], [number for number, _ in body], notes, uncomputed)


def _find_uncomputed(xml: bytes) -> list[tuple[int, int]]:
    """Return row (from 1) and column (from 0) of each formula without a stored value; empty text is a value."""
    from openpyxl.utils.cell import coordinate_to_tuple
    from openpyxl.xml.functions import iterparse

    cells: list[tuple[int, int]] = []
    if not re.search(rb"<(\w+:)?f[\s/>]", xml):  # spares most sheets the time of reading them twice
        return cells
    number = 0
    for _, row in iterparse(io.BytesIO(xml)):
        if not row.tag.endswith("}row"):
            continue
        number, place = int(row.get("r", number + 1)), -1
        for cell in row:
            place = coordinate_to_tuple(cell.get("r"))[1] - 1 if cell.get("r") else place + 1
            if cell.find("{*}f") is not None and not cell.findtext("{*}v") and cell.get("t") != "str":
                cells.append((number, place))
        row.clear()
    return cells


def cell_text(value: object) -> str:
    """Return the value of a cell as text: whole numbers without decimals, dates as 2024-12-31.

    Examples
    --------
    >>> cell_text(820.0), cell_text(dt.datetime(2024, 12, 31)), cell_text(True)
    ('820', '2024-12-31', 'True')
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    return str(value)


def write_workbook(
    file: BinaryIO,
    names: Sequence[str],
    rows: Sequence[Sequence[object]],
    choices: Sequence[object],
    formats: Mapping[str, str] | None = None,
) -> None:
    """Write rows to fill in as an Excel workbook; the last column has a drop-down of the choices.

    Text stays text: an id such as 000820 keeps its zeros, and nothing becomes a formula. `formats` says how Excel is to show the
    numbers and dates of some columns, such as ``dd.mm.yyyy``.
    """
    openpyxl = _openpyxl()
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "labels"
    for at, row in enumerate([list(names), *rows], start=1):
        for place, value in enumerate(row, start=1):
            _put(sheet.cell(at, place), value, (formats or {}).get(names[place - 1], "") if at > 1 else "")
    for place, name in enumerate(names, start=1):
        sheet.cell(1, place).font = Font(bold=True)
        longest = max(len(str(row[place - 1])) if row[place - 1] is not None else 0 for row in [names, *rows])
        sheet.column_dimensions[get_column_letter(place)].width = min(40, max(len(str(name)), longest) + 2)
    sheet.freeze_panes = "B2"
    allowed = book.create_sheet("answers")
    allowed.sheet_state = "hidden"
    for at, choice in enumerate(choices, start=1):
        _put(allowed.cell(at, 1), choice)
    rule = DataValidation("list", formula1=f"answers!$A$1:$A${max(1, len(choices))}", allow_blank=True)
    rule.error, rule.errorTitle = "Choose one of the answers in the list.", "Not an answer"
    rule.prompt, rule.showInputMessage, rule.showErrorMessage = "Choose an answer.", True, True
    letter = get_column_letter(len(names))
    rule.add(f"{letter}2:{letter}{max(2, len(rows) + 1)}")
    sheet.add_data_validation(rule)
    book.save(file)


def _put(cell: Cell, value: object, number_format: str = "") -> None:
    """Write a value; text is marked as text, so that a spreadsheet neither computes nor shortens it."""
    if value is None:
        return
    plain = isinstance(value, bool | float | dt.date | dt.time | dt.timedelta) or (
        isinstance(value, int) and abs(value) < 10**15
    )
    if isinstance(value, dt.datetime):
        value = value.replace(tzinfo=None)
    cell.value = value if plain else str(value).translate(_FORBIDDEN)[:_LONGEST_EXCEL_CELL]
    if not plain:
        cell.data_type = "s"
    if number_format or not plain:
        cell.number_format = number_format if plain else "@"


def _openpyxl() -> ModuleType:
    try:
        return import_module("openpyxl")
    except ImportError:
        raise InvalidInput(
            'Excel files need the package openpyxl; install it with pip install "observal[excel]", or use CSV.'
        ) from None
