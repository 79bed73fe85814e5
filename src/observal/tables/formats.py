"""How a CSV file is written: its encoding, what separates columns and decimals. Given by the user, or detected from the file."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from observal.errors import InvalidInput
from observal.tables.written import MISSING, PLACEHOLDERS, Decimal, Guess, Written, guess

HEAD = 1 << 20  # bytes at the beginning of a file that are looked at
ROWS = 1000
CELLS = 50_000
_KEY = b"observal"
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_WORDS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
WINDOWS = "cp1252"


@dataclass(frozen=True)
class Format:
    """How a table is written; None means that it is detected from the file.

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
    unsettled : tuple of str
        Columns that can be read in more than one way.
    notes : tuple of str
        Sentences about what was detected.
    settled : bool
        Whether text that holds numbers or dates was already turned into them.

    Examples
    --------
    >>> Format(sep=";", decimal=",", encoding="cp1252").words()
    'semicolon-separated text with decimal commas, encoded as Windows-1252'
    """

    sep: str | None = None
    decimal: Decimal | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    columns: dict[str, Written] = field(default_factory=dict)
    unsettled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    settled: bool = False

    def __post_init__(self) -> None:
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise InvalidInput(
                f"The separator of columns must be one character, but is {self.sep!r}; give it as in --sep ';'."
            )
        if self.decimal not in (None, ".", ","):
            raise InvalidInput(f"The decimal separator must be . or , but is {self.decimal!r}; give one of them.")
        if self.sep is not None and self.sep == self.decimal and self.sep != ",":
            raise InvalidInput(
                "Columns and decimals cannot both be separated by full stops; check --sep and --decimal."
            )
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise InvalidInput(
                    f"There is no encoding {self.encoding!r:.40}; give one such as utf-8, cp1252 or latin-1."
                ) from None

    @property
    def absent(self) -> tuple[str, ...]:
        """All words that mean a missing value."""
        return (*MISSING, *self.missing)

    def words(self) -> str:
        """Return how the table is written where that is not the usual way; empty where it is."""
        parts = []
        if self.sep not in (None, ",") or self.decimal == ",":
            name = _WORDS.get(self.sep or ",", repr(self.sep))
            parts.append(f"{name}-separated text" + (" with decimal commas" if self.decimal == "," else ""))
        if self.encoding not in (None, "utf-8"):
            known = {"cp1252": "Windows-1252", "utf-16": "UTF-16"}.get(str(self.encoding), str(self.encoding))
            parts.append(f"{'' if parts else 'text '}encoded as {known}")
        return ", ".join(parts)


def attached(table: Any, found: Format) -> Any:
    """Return an Arrow table that carries how it was written."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: json.dumps(asdict(found))})


def unattached(table: Any) -> Any:
    """Return an Arrow table without what a file claims about how it was written."""
    kept = {key: value for key, value in (table.schema.metadata or {}).items() if key != _KEY}
    return table.replace_schema_metadata(kept or None)


def format_of(table: Any) -> Format:
    """Return how an Arrow table was written, as far as it says so.

    Examples
    --------
    >>> import pyarrow as pa
    >>> format_of(attached(pa.table({"a": [1]}), Format(sep=";", columns={"a": Written(",")}))).columns
    {'a': Written(decimal=',', order=None, mark='', time=False)}
    """
    schema = getattr(table, "schema", None)  # Parquet that stays in place has none: its columns have types of their own
    record = None if schema is None else (schema.metadata or {}).get(_KEY)
    return Format() if record is None else format_from(json.loads(record))


def format_from(record: Any) -> Format:
    """Return the format that was turned into plain values by ``dataclasses.asdict``."""
    columns = {name: Written(**way) for name, way in record["columns"].items()}
    lists = {name: tuple(record[name]) for name in ("missing", "unsettled", "notes")}
    return Format(**{**record, **lists, "columns": columns})


@dataclass(frozen=True)
class Sniffed:
    """The format of a CSV file, the columns to read as text first, and the lines before the header."""

    format: Format
    as_text: tuple[str, ...] = ()
    skip: int = 0


def sniff(path: Path, usual: str, given: Format) -> Sniffed:
    r"""Return how a CSV file is written, judged by its beginning; what was given is not questioned.

    Parameters
    ----------
    path : path
        The file, maybe compressed.
    usual : str
        The separator that the file's name promises.
    given : Format
        What the user said.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_bytes("Größe;Datum\n1,75;31.12.2024\n".encode("cp1252"))
    >>> found = sniff(path, ",", Format()).format
    >>> found.sep, found.decimal, found.encoding
    (';', ',', 'cp1252')
    """
    with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
        head = file.read(HEAD)
    encoding = given.encoding or encoding_of(head)
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head).removeprefix("\ufeff")
    if len(head) == HEAD:
        text = text[: text.rfind("\n") + 1] or text
    declared = text[:6].rstrip("\r\n").removeprefix("sep=") if text.startswith("sep=") else ""
    skip = int(len(declared) == 1)
    text = text.partition("\n")[2] if skip else text
    sep = given.sep or declared or separator_of(text, usual)
    rows = _rows(text, sep, ROWS)
    guesses = _guesses(rows, given.missing)
    proved = {one.decimal for one in guesses.values() if one.decimal is not None}
    decimal = given.decimal or (proved.pop() if len(proved) == 1 else None)
    open_ = [name for name, one in guesses.items() if len(one.ways) > 1 and one.ways[0].order is None]
    notes: tuple[str, ...] = ()
    if decimal is None and sep != ";" and not proved:
        decimal = "."
        notes = tuple(
            f"Column {name!r} has numbers such as {guesses[name].example}, which were read with decimal points; use "
            "--decimal , (decimal=',') if they have decimal commas."
            for name in open_
            if sep != "," and guesses[name].plain
        )
    found = replace(given, sep=sep, decimal=decimal, encoding=encoding, notes=notes)
    return Sniffed(found, tuple(open_) if decimal is None else (), skip)


def encoding_of(head: bytes, whole: bool = False) -> str:
    r"""Return the encoding of a text by its beginning: UTF-8 or UTF-16, otherwise Windows-1252.

    Examples
    --------
    >>> encoding_of("ä".encode()), encoding_of("ä".encode("cp1252") + b"b", whole=True), encoding_of("ä".encode("utf-16"))
    ('utf-8', 'cp1252', 'utf-16')
    """
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
    except UnicodeDecodeError:
        return "utf-8" if b"\0" in head else WINDOWS
    return "utf-8"


def separator_of(text: str, usual: str) -> str:
    r"""Return the separator that gives every row of a text the same number of columns, as many as possible.

    Examples
    --------
    >>> separator_of("a;b\n1,5;2,5\n", ","), separator_of("a,b\n1,x;y\n", ","), separator_of("one\n1\n", ",")
    (';', ',', ',')
    """
    best, best_score = usual, (0, False)
    for sep in dict.fromkeys((usual, ";", "\t", "|", ",")):
        rows = _rows(text, sep, 50)
        header = rows[0] if rows else []
        if len(header) < 2 or any(len(row) != len(header) for row in rows):
            continue
        score = (len(header), not any(cell.startswith(" ") for cell in header))
        if score > best_score:
            best, best_score = sep, score
    if best_score[0] == 0:  # rows of different lengths, maybe: by the header alone
        line = text.partition("\n")[0]
        return max((usual, ";", "\t", "|", ","), key=line.count) if usual not in line else usual
    return best


def _rows(text: str, sep: str, most: int) -> list[list[str]]:
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


def _guesses(rows: Sequence[Sequence[str]], missing: Sequence[str]) -> dict[str, Guess]:
    """Return what the first rows say about each column."""
    if len(rows) < 2:
        return {}
    header, absent = rows[0], {*MISSING, *PLACEHOLDERS, *missing}
    most = max(20, CELLS // max(1, len(header)))
    cells = [row for row in rows[1 : 1 + most] if len(row) == len(header)]
    found = {}
    for place, name in enumerate(header):
        values = dict.fromkeys(row[place] for row in cells if row[place].strip() not in absent)
        found[name] = guess(values)
    return found
