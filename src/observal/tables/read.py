"""Files and frames to one internal form: a ``pyarrow.Table`` with distinct text names."""

from __future__ import annotations

import datetime as dt
import math
import numbers
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from observal.errors import InvalidInput, one_line
from observal.parquet.row_groups import PARQUET, check_names, check_values, find_files
from observal.problem.labels import Label, is_missing
from observal.problem.words import count
from observal.tables.classes import find_class_words
from observal.tables.column_format import MISSING
from observal.tables.spreadsheets import COMPUTE, Sheet, cell_text, read_workbook
from observal.tables.table_format import (
    CsvFormat,
    Reading,
    TableFormat,
    describe_descriptions,
    detect_csv,
    find_descriptions,
    locate_bad_byte,
    mend_encoding,
    reading_of,
    with_reading,
    without_reading,
)
from observal.tables.text_columns import convert_text, replace_missing

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa
    from narwhals.typing import IntoFrame, IntoSeries

    TableSource: TypeAlias = str | os.PathLike[str] | pa.Table | pa.RecordBatch | IntoFrame
    """A file, or a table of pandas, polars, pyarrow or another library that speaks Arrow."""

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_ARROW = (".arrow", ".feather", ".ipc")
_EXCEL = (".xlsx", ".xlsm")
SUFFIXES = (*_CSV, *_EXCEL, *PARQUET, *_ARROW)
FIRST_ROWS = 1000  # of a sheet, to see what its columns hold


@runtime_checkable
class _ArrowStream(Protocol):
    """A table of any library that speaks Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def read_table(
    source: TableSource,
    id: str | None = None,
    *,
    sep: str | None = None,
    decimal: Literal[".", ","] | None = None,
    encoding: str | None = None,
    missing: Sequence[str] = (),
) -> pa.Table:
    """Return a file or a frame as a ``pyarrow.Table``.

    Text that holds only numbers or dates as people write them (``1.234,50 €``, ``8.02 %``, ``31.12.2024``) becomes numbers or
    dates. How a CSV file is written is detected from the file.

    Parameters
    ----------
    source : path or frame
        A CSV (``.csv``, ``.tsv``, also ``.gz``), Excel (``.xlsx``), Parquet (``.parquet``, ``.pq``) or Arrow (``.arrow``,
        ``.feather``, ``.ipc``) file, a folder or pattern of Parquet files (``"log/*.parquet"``), or a pandas, polars or pyarrow
        table. In a CSV, an empty cell and ``NA``, ``NaN``, ``null`` or ``None`` are missing, in text columns too.
    id : str, optional
        The column of row ids. In a CSV its values stay as they are written: ``007`` is text and not the number 7.
    sep, decimal, encoding : str, optional
        What separates columns and decimals in a CSV, and its encoding; detected by default.
    missing : sequence of str
        Further words that mean a missing value, such as ``"?"``.

    Examples
    --------
    >>> import pandas as pd
    >>> from observal.tables import read_table
    >>> read_table(pd.DataFrame({"age": [30, None], "home": ["own", None]})).to_pydict()
    {'age': [30.0, None], 'home': ['own', None]}
    >>> read_table(pd.DataFrame({"rate": ["8,02 %", "11,5 %"], "since": ["31.12.2024", "01.02.2025"]})).to_pydict()
    {'rate': [0.0802, 0.115], 'since': [datetime.date(2024, 12, 31), datetime.date(2025, 2, 1)]}
    """
    return read_tables([source], id, options=TableFormat(sep, decimal, encoding, tuple(missing)))[0]


def read_tables(
    sources: Sequence[TableSource],
    id: str | None = None,
    label: str | None = None,
    options: TableFormat | None = None,
    classes: Sequence[Label] | None = None,
) -> list[pa.Table]:
    """Return tables that belong together, as ``read_table`` does; what is ambiguous in one may be clear in another.

    Text in the columns `id` and `label` stays text; `options` are what the user said about how the tables are written, and `classes`
    the label values, if they are named.
    """
    options = options or TableFormat()
    tables = [read_raw(source, id, options) for source in sources]
    if label is not None:
        _restore_classes(tables, sources, label, options, classes)
    return convert_text(tables, keep=[name for name in (id, label) if name is not None])


def _restore_classes(
    tables: list[pa.Table],
    files: Sequence[TableSource],
    label: str,
    options: TableFormat,
    classes: Sequence[Label] | None,
) -> None:
    """In the label columns of CSV and Excel files, put back words such as None where they are classes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts: dict[int, pa.Array | pa.ChunkedArray] = {}
    for k, (file, table) in enumerate(zip(files, tables, strict=True)):
        is_open = isinstance(file, str | os.PathLike) and label in table.column_names and table.column(label).null_count
        if is_open and str(file).lower().endswith(_EXCEL):
            sheet = read_workbook(str(file))
            values = [row[sheet.names.index(label)] for row in sheet.rows[-len(table) :]]
            cells = ["" if value is None else cell_text(value).strip() for value in values]
            texts[k] = pa.array([None if cell in ("", *options.missing) else cell for cell in cells], pa.string())
        elif is_open:
            texts.update((k, cells) for cells in read_as_written(str(file), [label], options, [""]).columns)
    counts = [{e["values"]: e["counts"] for e in cells.value_counts().to_pylist()} for cells in texts.values()]
    words, notes = find_class_words(counts, label, classes)
    missing = pa.array([word for word in MISSING if word not in words])
    for k, cells in texts.items() if words else ():
        column = pc.if_else(pc.is_in(cells, value_set=missing), None, cells)
        tables[k] = tables[k].set_column(tables[k].column_names.index(label), label, column)
    tables[0] = with_reading(tables[0], replace(first := reading_of(tables[0]), notes=(*first.notes, *notes)))


def read_raw(source: TableSource, id: str | None, options: TableFormat) -> pa.Table:
    """Return a file or a frame as an Arrow table in which text is still text."""
    if isinstance(source, str | os.PathLike):
        return _read_file(Path(source), id, options)
    table = replace_missing(_read_frame(source), options.missing)
    _check_names(table.column_names, "The table")
    check_values(table, "The table")
    return table


def read_as_written(
    path: str | os.PathLike[str], names: Sequence[str], options: TableFormat, missing: Sequence[str] = MISSING
) -> pa.Table:
    """Return columns of a CSV file as the text that is written there; none of a file of another kind, whose columns have types."""
    import pyarrow as pa

    file = Path(path)
    if not names or not file.name.lower().endswith(_CSV):
        return pa.table({})
    detected = detect_csv(file, _usual_separator(file), options)
    detected = replace(detected, text_columns=tuple(names), usual_missing=missing)
    return _parse_whole_csv(file, detected, None, options, names)[0]


def _usual_separator(path: Path) -> str:
    return "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","


def _read_file(path: Path, id: str | None, options: TableFormat) -> pa.Table:
    import pyarrow as pa

    if is_several_files(path):
        return replace_missing(_read_parquet_files(path), options.missing)
    name = path.name.lower()
    suffix = next((s for s in SUFFIXES if name.endswith(s)), None)
    if suffix is None:
        raise InvalidInput(
            f"Unrecognised file extension in {str(path)!r}; use a file that ends in {', '.join(SUFFIXES)}."
        )
    if not path.exists():
        raise InvalidInput(f"There is no file {str(path)!r}; check the path.")
    if not path.is_file():
        raise InvalidInput(f"{str(path)!r} is not a file; give the path of one file.")
    if path.stat().st_size == 0:
        raise InvalidInput(f"File {str(path)!r} is empty (0 bytes); give a file with a header and rows.")
    try:
        if suffix in _CSV:
            return _read_csv(path, id, options)
        raw = _read_excel(path, id) if suffix in _EXCEL else without_reading(_read_arrow(path, suffix))
        table = replace_missing(raw, options.missing)
        _check_names(table.column_names, f"File {str(path)!r}")
        check_values(table, f"File {str(path)!r}")
        return table
    except (pa.ArrowException, OSError, ValueError, EOFError, NotImplementedError) as error:
        if isinstance(error, InvalidInput):
            raise
        kind = "CSV" if suffix in _CSV else "Parquet" if suffix in PARQUET else "Arrow"
        raise InvalidInput(
            f"File {str(path)!r} cannot be read as {kind} ({one_line(error, 160)}); check that it is complete and of that kind."
        ) from None


def is_several_files(path: Path) -> bool:
    """Tell whether a path is a folder, or a pattern such as ``log/*.parquet``."""
    return path.is_dir() or (not path.exists() and any(sign in str(path) for sign in "*?["))


def _read_parquet_files(source: Path) -> pa.Table:
    """Return the Parquet files of a folder or a pattern as one table; columns that some files lack are missing there."""
    import pyarrow as pa

    files = [Path(file) for file in find_files(source)]
    other = next((file for file in files if not file.name.lower().endswith(PARQUET)), None)
    if other is not None:
        raise InvalidInput(
            f"Several files at once must be Parquet, but {str(other)!r} is not; give one file, or a folder or pattern of Parquet files."
        )
    tables = [_read_file(file, None, TableFormat()) for file in files]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidInput(
            f"The files of {str(source)!r} cannot be combined ({one_line(error)}); give each column one type everywhere."
        ) from None


def _read_csv(path: Path, id: str | None, options: TableFormat) -> pa.Table:
    table, content, detected = _parse_whole_csv(path, detect_csv(path, _usual_separator(path), options), id, options)
    names = table.column_names
    _check_names(names, f"File {str(path)!r}")
    if len(names) == 1 and any(separator in names[0] for separator in ",;\t|"):
        raise InvalidInput(
            f"File {str(path)!r} has one column only, named {names[0][:60]!r}, which looks like several; give the column "
            "separator with --sep (sep=)."
        )
    large = [name for name in names if _exceeds_int64(table.column(name))]
    if large:
        as_text = _parse_csv(path, content, replace(detected, text_columns=tuple(large)), None, large)
        for name in large:
            table = table.set_column(names.index(name), name, _large_integers(as_text.column(name), table.column(name)))
    if id is not None and id in names:
        table = table.set_column(names.index(id), id, _whole_numbers(table.column(id)))
    return with_reading(table, Reading(detected.format, detected.notes, descriptions=detected.descriptions))


def _parse_whole_csv(
    path: Path, detected: CsvFormat, id: str | None, options: TableFormat, only: Sequence[str] = ()
) -> tuple[pa.Table, bytes | None, CsvFormat]:
    """Return a CSV file as a table, what is in it if its encoding had to be mended, and how it was read."""
    import pyarrow as pa

    try:
        return _parse_csv(path, None, detected, id, only), None, detected
    except (InvalidInput, pa.ArrowInvalid):  # often because text further down is not UTF-8
        if options.encoding is not None:
            raise
        content, detected = mend_encoding(path, detected)
        return _parse_csv(path, content, detected, id, only), content, detected


def _parse_csv(
    path: Path, content: bytes | None, detected: CsvFormat, id: str | None, only: Sequence[str] = ()
) -> pa.Table:
    """Return the columns of a CSV file, or `only` some; `content` is what is in it if that had to be mended."""
    import pyarrow as pa
    from pyarrow import csv

    layout = detected.format
    text_columns = (*detected.text_columns, *(() if id is None else (id,)))
    try:
        table = csv.read_csv(
            path if content is None else pa.BufferReader(content),
            read_options=csv.ReadOptions(
                encoding=layout.encoding,
                skip_rows=detected.skip,
                skip_rows_after_names=int(bool(detected.descriptions)),
            ),
            parse_options=csv.ParseOptions(delimiter=layout.sep, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                strings_can_be_null=True,
                null_values=[*detected.usual_missing, *layout.missing],
                column_types={name: pa.string() for name in text_columns},
                decimal_point=layout.decimal or ".",
                include_columns=list(only),
            ),
        )
    except UnicodeError:
        raise _not_text(path, detected) from None
    if any(pa.types.is_binary(field.type) for field in table.schema):
        raise _not_text(path, detected)
    return table


def _not_text(path: Path, detected: CsvFormat) -> InvalidInput:
    place = locate_bad_byte(path, detected)
    return InvalidInput(
        f"File {str(path)!r} is not text in {detected.format.encoding}{f' ({place})' if place else ''}; name its encoding with "
        "--encoding (encoding=), or save it in UTF-8."
    )


def _exceeds_int64(column: pa.ChunkedArray) -> bool:
    """Tell whether a column became floats because of numbers that 64 bits with a sign cannot hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_float64(column.type):
        return False
    extremes = pc.min_max(column).as_py()
    return extremes["min"] is not None and max(-extremes["min"], extremes["max"]) >= 2.0**63


def _large_integers(as_text: pa.ChunkedArray, as_floats: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column exactly if all of it is written as whole numbers, and otherwise as floats."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = pc.utf8_ltrim(pc.utf8_trim_whitespace(as_text), "+")
    if not pc.all(pc.match_substring_regex(digits, "^-?[0-9]+$")).as_py():
        return as_floats
    with suppress(pa.ArrowInvalid):
        return digits.cast(pa.uint64())
    longest = pc.max(pc.utf8_length(digits)).as_py()  # a cast of more digits than fit may give 0
    kind = pa.decimal128(38) if longest <= 38 else pa.decimal256(76) if longest <= 76 else None
    return as_floats if kind is None else digits.cast(kind)


def _read_excel(path: Path, id: str | None) -> pa.Table:
    import pyarrow as pa

    sheet = read_workbook(path)
    if not sheet.names:
        raise InvalidInput(f"File {str(path)!r} has no rows on its first sheet; give one with a header and rows.")
    descriptions = _find_excel_descriptions(sheet)
    rows = sheet.rows[1:] if descriptions else sheet.rows
    columns = [
        _excel_column([row[place] for row in rows], as_text=name == id) for place, name in enumerate(sheet.names)
    ]
    notes = [
        f"{path.name} has {count(len(cells), 'formula', 'formulas')} without a stored value in column {name!r}, the first in cell {cells[0]}; "
        f"they count as missing. To have their values, {COMPUTE}."
        for name, cells in sheet.uncomputed.items()
    ]
    if descriptions:
        notes.append(describe_descriptions(path.name))
    first_cells = {name: cells[0] for name, cells in sheet.uncomputed.items()}
    reading = Reading(notes=(*sheet.notes, *notes), uncomputed=first_cells, descriptions=descriptions)
    return with_reading(pa.table(columns, names=sheet.names), reading)


def _find_excel_descriptions(sheet: Sheet) -> dict[str, str]:
    """Return what columns mean, if the row below the header says it."""
    if not all(cell is None or isinstance(cell, str) for row in sheet.rows[:1] for cell in row):
        return {}
    rows = [["" if cell is None else cell_text(cell) for cell in row] for row in sheet.rows[:FIRST_ROWS]]
    return find_descriptions([sheet.names, *rows])


def _excel_column(cells: Sequence[object], as_text: bool) -> pa.Array:
    """Return cells as an Arrow column: numbers, dates and yes-or-no as they are, anything mixed as text."""
    import pyarrow as pa

    values = [None if isinstance(cell, str) and cell.strip() in MISSING else cell for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int} or (kinds <= {int, float} and not as_text):
        try:
            return pa.array(values, pa.int64() if kinds == {int} else pa.float64())
        except OverflowError:
            pass
    if kinds <= {dt.datetime, dt.date}:
        has_time = any(isinstance(value, dt.datetime) and value.time() != dt.time() for value in values)
        return pa.array(values, pa.timestamp("us")).cast(pa.timestamp("us") if has_time else pa.date32())
    if kinds in ({bool}, {dt.time}, {dt.timedelta}):
        return pa.array(values)
    return pa.array([None if value is None else cell_text(value) for value in values], pa.string())


def _whole_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text as whole numbers where every value is written as its number is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numeric = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
    same = pc.all(pc.equal(numeric.cast(pa.string()), column)).as_py()
    return numeric if same is not False else column


def _read_arrow(path: Path, suffix: str) -> pa.Table:
    import pyarrow as pa
    from pyarrow import feather, parquet

    if suffix in PARQUET:
        return parquet.read_table(path)
    with path.open("rb") as file:
        start = file.read(6)
    if start == b"ARROW1" or start.startswith(b"FEA1"):
        return feather.read_table(path, memory_map=False)
    with pa.OSFile(str(path), "rb") as source:  # the streaming form has no such mark
        return pa.ipc.open_stream(source).read_all()


def _read_frame(frame: IntoFrame) -> pa.Table:
    import narwhals as nw
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if nw.dependencies.is_pandas_like_dataframe(frame):  # before narwhals refuses duplicates in more than a sentence
        _check_names([str(name) for name in frame.columns], "The table")
    table = nw.from_native(frame, pass_through=True)
    if isinstance(table, nw.LazyFrame):
        table = table.collect()
    if isinstance(table, nw.DataFrame):
        names = [str(name) for name in table.columns]
        columns = [_arrow_column(series, name) for series, name in zip(table.iter_columns(), names, strict=True)]
        return pa.table(columns, names=names)
    with suppress(pa.ArrowException):  # one column only, say
        if isinstance(frame, _ArrowStream):
            return pa.table(frame)
    raise InvalidInput(
        f"A table must be a path or a pandas, polars or pyarrow table, but got {type(frame).__name__}; convert it first."
    )


def _arrow_column(series: nw.Series[IntoSeries], name: str) -> pa.ChunkedArray | pa.Array:
    """Return a column of a frame as Arrow; values of mixed kinds become numbers if all are, and text otherwise."""
    import narwhals as nw
    import pyarrow as pa

    failures = (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError)
    if not (series.dtype == nw.Object and series.implementation.is_polars()):  # of those, Arrow gets addresses only
        try:
            return series.to_arrow()
        except failures:
            pass
    values = [None if is_missing(value) else value for value in series.to_list()]
    for kind, convert in ((numbers.Integral, Decimal), (numbers.Real, _to_float), (object, str)):
        if all(value is None or isinstance(value, kind) for value in values):
            try:
                return pa.array([None if value is None else convert(value) for value in values])
            except failures:
                continue  # whole numbers of more digits than Arrow has, say: the next way loses some of them
    raise InvalidInput(f"Column {name!r} has values that are neither numbers nor text; correct it or leave it out.")


def _to_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _check_names(names: list[str], what: str) -> None:
    check_names(names, what)
    if not names:
        raise InvalidInput(f"{what} has no columns; give one with named columns.")
