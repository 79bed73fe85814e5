"""How a table is written: its encoding, what separates columns and decimals. Given by the user, or detected from the file."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from observal.errors import InvalidInput
from observal.problem.words import count
from observal.tables.column_format import MISSING, PLACEHOLDERS, ColumnFormat, Decimal, Guess, guess_format
from observal.tables.spreadsheets import cells_of_any_length, restore_cell

if TYPE_CHECKING:
    import pyarrow as pa

WINDOWS = "cp1252"
_STRAY = re.compile("[\udc80-\udcff]")  # how Python decodes bytes that are not UTF-8
_HEAD_BYTES = 1 << 20  # of a file are looked at
_HEAD_ROWS = 1000
_HEAD_CELLS = 50_000
_METADATA_KEY = b"observal"
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_SEPARATOR_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_ENCODING_NAMES = {"cp1252": "Windows-1252", "utf-16": "UTF-16"}


@dataclass(frozen=True)
class TableFormat:
    """How a table is written; None means that it is detected from the file.

    A ``TableEncoder`` keeps the format of the tables that it was learned from: that is where a campaign and a
    stored model find it.

    Parameters
    ----------
    sep : str, optional
        What separates columns.
    decimal : {".", ","}, optional
        What separates decimals.
    encoding : str, optional
        The encoding of the text.
    missing : tuple of str
        Words that mean a missing value, besides an empty cell, ``NA``, ``NaN``, ``null`` and ``None``.
    columns : mapping
        How the numbers or dates of some columns are written.

    Examples
    --------
    >>> TableFormat(sep=";", decimal=",", encoding="cp1252").describe()
    'semicolon-separated text with decimal commas, encoded as Windows-1252'
    """

    sep: str | None = None
    decimal: Decimal | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    columns: Mapping[str, ColumnFormat] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise InvalidInput(
                f"The column separator must be one character, but is {self.sep!r}; give it as in --sep ';'."
            )
        if self.decimal not in (None, ".", ","):
            raise InvalidInput(f"The decimal separator must be . or , but is {self.decimal!r}; give one of them.")
        if self.sep is not None and self.sep == self.decimal and self.sep != ",":
            raise InvalidInput(
                "A full stop cannot be both the column and the decimal separator; check --sep and --decimal."
            )
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise InvalidInput(
                    f"There is no encoding {self.encoding!r:.40}; give one such as utf-8, cp1252 or latin-1."
                ) from None

    def describe(self) -> str:
        """Return how the table is written where that is not the usual way; empty where it is."""
        parts = []
        if self.sep not in (None, ",") or self.decimal == ",":
            name = _SEPARATOR_NAMES.get(self.sep or ",", repr(self.sep))
            parts.append(f"{name}-separated text" + (" with decimal commas" if self.decimal == "," else ""))
        if self.encoding not in (None, "utf-8"):
            encoding = _ENCODING_NAMES.get(str(self.encoding), str(self.encoding))
            parts.append(f"{'' if parts else 'text '}encoded as {encoding}")
        return ", ".join(parts)

    @classmethod
    def combine(cls, formats: Sequence[TableFormat]) -> TableFormat:
        """Return one format for tables of the same kind of rows: that of the last, completed by the others.

        A decimal comma in any table counts: a table that proves nothing is taken to have decimal points.
        """
        columns: dict[str, ColumnFormat] = {}
        for name, column in (item for format_ in formats for item in format_.columns.items()):
            if name not in columns or columns[name].decimal == ".":
                columns[name] = column
        decimals = [format_.decimal for format_ in formats if format_.decimal is not None]
        return cls(
            next((format_.sep for format_ in reversed(formats) if format_.sep is not None), None),
            "," if "," in decimals else decimals[-1] if decimals else None,
            next((format_.encoding for format_ in reversed(formats) if format_.encoding is not None), None),
            tuple(dict.fromkeys(word for format_ in formats for word in format_.missing)),
            columns,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values that JSON can hold."""
        return {**asdict(self), "missing": list(self.missing)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the format that ``to_dict`` wrote."""
        columns = {name: ColumnFormat(**column) for name, column in record["columns"].items()}
        return cls(**{**record, "missing": tuple(record["missing"]), "columns": columns})


@dataclass(frozen=True)
class Reading:
    """How an Arrow table was read; the table carries it in its metadata from ``read_table`` to the encoder."""

    format: TableFormat = field(default_factory=TableFormat)
    notes: tuple[str, ...] = ()  # sentences about what was detected
    # Text columns that may hold dates in more than one format; None if text columns have not been looked at yet.
    undecided: tuple[str, ...] | None = None
    # Columns of a spreadsheet with formulas whose values it does not have, and the first such cell.
    uncomputed: Mapping[str, str] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)  # what columns mean, from a row below the header


def with_reading(table: pa.Table, reading: Reading) -> pa.Table:
    """Return an Arrow table that carries how it was read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> reading_of(with_reading(pa.table({"a": [1]}), Reading(TableFormat(sep=";")))).format.sep
    ';'
    """
    record = json.dumps({**asdict(reading), "format": reading.format.to_dict()})
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _METADATA_KEY: record})


def without_reading(table: pa.Table) -> pa.Table:
    """Return an Arrow table without what its metadata, maybe from a file, claims about how it was read."""
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != _METADATA_KEY}
    return table.replace_schema_metadata(metadata or None)


def reading_of(table: pa.Table) -> Reading:
    """Return how an Arrow table was read, as far as its metadata say."""
    metadata = (table.schema.metadata or {}).get(_METADATA_KEY)
    if metadata is None:
        return Reading()
    record = json.loads(metadata)
    undecided = None if record["undecided"] is None else tuple(record["undecided"])
    format_ = TableFormat.from_dict(record["format"])
    return Reading(format_, tuple(record["notes"]), undecided, record["uncomputed"], record["descriptions"])


@dataclass(frozen=True)
class CsvFormat:
    """The format of a CSV file with notes about it, the columns to read as text first, the lines before the header, and what a row below it says of columns."""

    format: TableFormat
    notes: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    skip: int = 0
    descriptions: Mapping[str, str] = field(default_factory=dict)
    usual_missing: Sequence[str] = MISSING  # words that mean a missing value, besides those of the format


def find_descriptions(rows: Sequence[Sequence[str]], missing: Sequence[str] = ()) -> dict[str, str]:
    """Return what columns mean, if the row below the header says it; nothing if that row is data.

    It says it if it has a text of its own in every column that has numbers otherwise, and there are at least two of these.

    Examples
    --------
    >>> rows = [["age", "income", "job"], ["in years", "euros a month", ""], ["31", "2100", "farm"], ["47", "", "trade"]]
    >>> find_descriptions(rows)
    {'age': 'in years', 'income': 'euros a month'}
    >>> find_descriptions([rows[0], *rows[2:]])
    {}
    """
    if len(rows) < 3 or len(rows[1]) != len(rows[0]) or any(guess_format([cell]).formats for cell in rows[1] if cell):
        return {}
    guesses = _guess_columns([rows[0], *rows[2:]], missing)
    texts = dict(zip(rows[0], (cell.strip() for cell in rows[1]), strict=True))
    of_numbers = [texts[name] for name, guess in guesses.items() if guess.formats]
    ignored = {"", *MISSING, *PLACEHOLDERS, *missing}
    if len(of_numbers) < 2 or len(set(of_numbers)) < len(of_numbers) or ignored.intersection(of_numbers):
        return {}
    return {name: text for name, text in texts.items() if text}


def describe_descriptions(name: str) -> str:
    """Return a note for a table, such as a file of this name, whose columns are described by the row below its header."""
    return f"The first row of {name} describes its columns, so it was not read as data; the labelling page shows it."


def detect_csv(path: Path, usual_sep: str, options: TableFormat) -> CsvFormat:
    r"""Return how a CSV file is written, judged by its beginning; `usual_sep` goes with its name, and `options` are what the user said.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_bytes("Größe;Datum\n1,75;31.12.2024\n".encode("cp1252"))
    >>> detected = detect_csv(path, ",", TableFormat()).format
    >>> detected.sep, detected.decimal, detected.encoding
    (';', ',', 'cp1252')
    """
    head = _read_bytes(path, _HEAD_BYTES)
    encoding = options.encoding or detect_encoding(head)
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head).removeprefix("\ufeff")
    if len(head) == _HEAD_BYTES:  # without the line that was cut
        text = text[: text.rfind("\n") + 1] or text
    # A first line such as "sep=;" tells Excel the separator.
    declared = text[:6].rstrip("\r\n").removeprefix("sep=") if text.startswith("sep=") else ""
    skip = int(len(declared) == 1)
    text = text.partition("\n")[2] if skip else text
    sep = options.sep or declared or detect_separator(text, usual_sep)
    rows = _first_rows(text, sep, _HEAD_ROWS)
    descriptions = find_descriptions(rows, options.missing)
    guesses = _guess_columns([*rows[:1], *rows[2:]] if descriptions else rows, options.missing)
    decimals = {guess.decimal for guess in guesses.values() if guess.decimal is not None}
    decimal = options.decimal or (decimals.pop() if len(decimals) == 1 else None)
    ambiguous = [name for name, g in guesses.items() if len(g.formats) > 1 and g.formats[0].order is None]
    notes: tuple[str, ...] = ()
    if decimal is None and sep != ";" and not decimals:
        decimal = "."
        notes = tuple(
            f"Column {name!r} has numbers such as {guesses[name].example}, which were read with decimal points; use "
            "--decimal , (decimal=',') if they have decimal commas."
            for name in ambiguous
            if sep != "," and guesses[name].plain
        )
    if descriptions:
        notes = (*notes, describe_descriptions(path.name))
    detected = replace(options, sep=sep, decimal=decimal, encoding=encoding)
    return CsvFormat(detected, notes, tuple(ambiguous) if decimal is None else (), skip, descriptions)


def detect_encoding(head: bytes, whole: bool = False) -> str:
    r"""Return the encoding of a text by its beginning: UTF-8 or UTF-16, otherwise Windows-1252.

    Text that has at least as many characters in UTF-8 as bytes that are not is UTF-8 with stray bytes: Windows-1252 hardly ever looks like
    UTF-8 by chance.

    Examples
    --------
    >>> detect_encoding("ä".encode()), detect_encoding("ä".encode("cp1252") + b"b", whole=True), detect_encoding("ä".encode("utf-16"))
    ('utf-8', 'cp1252', 'utf-16')
    >>> detect_encoding("Köln, Zürich, ".encode() + "Genève".encode("cp1252"), whole=True)
    'utf-8'
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return name
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(head, final=whole)
    n_stray = text.count("\ufffd") - head.count("\ufffd".encode())
    n_encoded = len(text) - len(text.encode("ascii", "ignore")) - n_stray
    return WINDOWS if n_stray > n_encoded and b"\0" not in head else "utf-8"


def decode_text(content: bytes) -> str:
    """Return a text in the encoding that it seems to have; stray bytes in UTF-8 are read as Windows-1252.

    Examples
    --------
    >>> decode_text("Köln, Zürich, ".encode() + "Genève".encode("cp1252"))
    'Köln, Zürich, Genève'
    """
    encoding = detect_encoding(content, whole=True)
    if encoding != "utf-8" or b"\0" in content:
        return content.decode(encoding)
    return _replace_stray(content.decode(errors="surrogateescape"))


def mend_encoding(path: Path, detected: CsvFormat) -> tuple[bytes, CsvFormat]:
    """Return the content of a CSV file that is not all in the encoding of its beginning, and how it is to be read.

    If only a few bytes are not UTF-8, they are read as Windows-1252, and a note says where the first is.
    """
    content = _read_bytes(path)
    encoding = detect_encoding(content, whole=True)
    text = content.decode(errors="surrogateescape") if encoding == "utf-8" and b"\0" not in content else ""
    n_stray = len(_STRAY.findall(text))
    if n_stray == 0:
        return content, replace(detected, format=replace(detected.format, encoding=encoding))
    note = f"{path.name} is UTF-8 except for {count(n_stray, 'byte')}, read as Windows-1252; the first is in {_locate_stray(text, detected)}."
    return _replace_stray(text).encode(), replace(detected, notes=(*detected.notes, note))


def locate_bad_byte(path: Path, detected: CsvFormat) -> str:
    """Return the line and column of the first byte that is no text in the encoding of a CSV file; empty if that is unknown."""
    try:
        text = _read_bytes(path).decode(detected.format.encoding or "utf-8", "surrogateescape")
    except UnicodeError:  # not every encoding can go on after a bad byte
        return ""
    return _locate_stray(text, detected) if _STRAY.search(text) else ""


def _locate_stray(text: str, detected: CsvFormat) -> str:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=detected.format.sep or ",")
    header: list[str] = []
    with cells_of_any_length():
        for row in islice(reader, detected.skip, None):
            header = header or row
            for name, cell in zip_longest(header, row, fillvalue=""):
                if _STRAY.search(cell):
                    return f"line {reader.line_num}, column {_replace_stray(name)!r}: {_replace_stray(cell)!r:.60}"
    return "line 1"


def _read_bytes(path: Path, most: int = -1) -> bytes:
    with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
        return file.read(most)


def _replace_stray(text: str) -> str:
    return _STRAY.sub(lambda match: bytes([ord(match[0]) - 0xDC00]).decode(WINDOWS, "replace"), text)


def detect_separator(text: str, usual_sep: str = ",", ends: tuple[str, str] | None = None) -> str:
    r"""Return the separator of columns: the one that gives every row the same number of columns, as many as possible.

    If several fit equally well, it is `usual_sep`. `ends` are names that the first and the last column should have: a separator that gives
    these wins, whatever else cells contain.

    Examples
    --------
    >>> detect_separator("a;b\n1,5;2,5\n"), detect_separator("a,b\n1,x;y\n"), detect_separator("one\n1\n")
    (';', ',', ',')
    >>> detect_separator("id;a,b,c,d;label\n1;2,3,4,5;\n", ends=("id", "label"))
    ';'
    """
    rows_by_sep = {sep: _first_rows(text, sep, 50) for sep in dict.fromkeys((usual_sep, ";", "\t", "|", ","))}
    headers = {sep: rows[0] for sep, rows in rows_by_sep.items() if rows}
    for sep, header in headers.items():
        if ends is not None and (restore_cell(header[0]), restore_cell(header[-1])) == ends:
            return sep
    regular = [
        sep
        for sep, header in headers.items()
        if len(header) > 1 and all(len(row) == len(header) for row in rows_by_sep[sep])
    ]
    if regular:  # a name that begins with a space was cut out of a sentence
        return max(regular, key=lambda sep: (len(headers[sep]), not any(c.startswith(" ") for c in headers[sep])))
    return max(headers, key=lambda sep: len(headers[sep]), default=usual_sep)


def _first_rows(text: str, sep: str, most: int) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=sep):
            if row:
                rows.append(row)
            if len(rows) >= most:
                break
    except csv.Error:  # a cell of more than 128 kB, say
        pass
    return rows


def _guess_columns(rows: Sequence[Sequence[str]], missing: Sequence[str]) -> dict[str, Guess]:
    """Return what the first rows say about each column."""
    if len(rows) < 2:
        return {}
    header, ignored = rows[0], {*MISSING, *PLACEHOLDERS, *missing}
    most = max(20, _HEAD_CELLS // max(1, len(header)))
    body = [row for row in rows[1 : 1 + most] if len(row) == len(header)]
    return {
        name: guess_format(dict.fromkeys(row[place] for row in body if row[place].strip() not in ignored))
        for place, name in enumerate(header)
    }
