"""Tables as people write them: separators, decimals, dates, signs, encodings and words for "missing"."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import zipfile

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observal.campaign import Campaign, TableOptions
from observal.errors import InvalidInput, ObservalError
from observal.journal.answers import read_answers
from observal.tables import TableEncoder, TableRoles, load_problem, read_table
from observal.tables.column_format import ColumnFormat, guess_format, number_of
from observal.tables.read import read_tables
from observal.tables.spreadsheets import csv_text
from observal.tables.table_format import TableFormat, reading_of
from observal.tables.text_columns import convert_text
from tests.test_tables import write

EUROPEAN = "Größe;Zins;Betrag;Datum;Ort\r\n1,75;8,02 %;1.234,50 €;31.12.2024;Köln\r\n0,5;11 %;12,00 €;01.02.2025;\r\n"
READ = {
    "Größe": [1.75, 0.5],
    "Zins": [0.0802, 0.11],
    "Betrag": [1234.5, 12.0],
    "Datum": [dt.date(2024, 12, 31), dt.date(2025, 2, 1)],
    "Ort": ["Köln", None],
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_european_csv_needs_no_option(tmp_path, encoding):
    path = write(tmp_path, "a.csv", EUROPEAN.encode(encoding))
    assert read_table(path).to_pydict() == READ
    packed = write(tmp_path, "a.csv.gz", gzip.compress(EUROPEAN.encode(encoding)))
    assert read_table(packed).to_pydict() == READ


def test_text_in_another_encoding_far_down_is_read(tmp_path):
    lines = ["a;b", *["1,5;x"] * 300_000, "2,5;Köln"]
    path = write(tmp_path, "a.csv", "\n".join(lines).encode("cp1252"))
    assert read_table(path).column("b")[-1].as_py() == "Köln"


@pytest.mark.parametrize("id", [None, "name"])
@pytest.mark.parametrize("n_before", [0, 100_000])
def test_stray_byte_in_utf8_is_the_only_one_read_as_windows_1252(tmp_path, n_before, id):
    lines = ["sep=;", "name;Größe", *(f"Müller {k};1" for k in range(n_before + 2)), "Jürgen;2", "Käthe;3"]
    content = "\n".join(lines).encode().replace("Jürgen".encode(), "Jürgen".encode("cp1252"))
    for name, written in (("a.csv", content), ("a.csv.gz", gzip.compress(content))):
        table = read_table(write(tmp_path, name, written), id)
        assert table.column("name").to_pylist()[-3:] == [f"Müller {n_before + 1}", "Jürgen", "Käthe"]
        assert table.column("Größe").to_pylist()[-3:] == [1, 2, 3]
        assert reading_of(table).notes == (
            f"{name} is UTF-8 except for 1 byte, read as Windows-1252; the first is in line {n_before + 5}, column 'name': 'Jürgen'.",
        )
        assert reading_of(table).format.encoding == "utf-8"
    with pytest.raises(InvalidInput, match=r"(?i)utf-?8"):
        read_table(tmp_path / "a.csv", id, encoding="utf-8")


def test_stray_byte_in_a_file_of_answers_changes_no_other_id():
    content = "id,label\nMüller,no\nKäthe,yes\n".encode() + "Jürgen,no\n".encode("cp1252")
    answers, _ = read_answers("labels.csv", "id", "label", content)
    assert [answer.id for answer in answers] == ["Müller", "Käthe", "Jürgen"]
    windows = "id,label\nMüller,no\nKäthe,yes\n".encode("cp1252")
    assert [answer.id for answer in read_answers("labels.csv", "id", "label", windows)[0]] == ["Müller", "Käthe"]


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([2**63, 1, None], pa.uint64()),
        ([2**64, -(2**63) - 1, 7], pa.decimal128(38)),
        ([10**50, -1, 0], pa.decimal256(76)),
        ([1e80, 1, 0], pa.float64()),
    ],
)
def test_integers_of_63_bits_and_more_get_the_note_of_parquet(tmp_path, numbers, kind):
    text = "id,x\n" + "".join(f"{k},{'' if number is None else int(number)}\n" for k, number in enumerate(numbers))
    path = write(tmp_path, "a.csv", text)
    column = read_table(path).column("x")
    assert column.type == kind
    assert column.to_pylist() == numbers
    notes = TableEncoder.learn([path], ["x"]).notes
    assert any("numbers of 2^53 or more, which were rounded" in note for note in notes) == (kind != pa.float64())
    for fraction in ("1.5", "1e20", "inf"):
        path = write(tmp_path, "b.csv", f"{text}9,{fraction}\n")
        assert read_table(path).column("x").type == pa.float64()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b\n"$1,200",8.02 %\n"$12.50",(3 %)\n', {"a": [1200.0, 12.5], "b": [0.0802, -0.03]}),
        ('a,b\n"$1,200",x\n"$3,500",y\n', {"a": [1200.0, 3500.0], "b": ["x", "y"]}),  # columns are separated by commas
        ("a;b\n1.200;0,5\n3.400;1\n", {"a": [1200.0, 3400.0], "b": [0.5, 1.0]}),  # the other column has decimal commas
        ("a;b\n1,200;0,5\n3,400;1\n", {"a": [1.2, 3.4], "b": [0.5, 1.0]}),
        ("a;b\n1.200;12.5\n3.400;1\n", {"a": [1.2, 3.4], "b": [12.5, 1.0]}),
        ("a;b\n1.200;0,5\n3.4;1\n", {"a": [1.2, 3.4], "b": [0.5, 1.0]}),  # each column by itself
        ("a\tb\n0,5\t1\n", {"a": [0.5], "b": [1]}),
        ("a|b\n0.5|1\n", {"a": [0.5], "b": [1]}),
        ("sep=;\na;b\n0,5;1\n", {"a": [0.5], "b": [1]}),
        ("a;b\n03/04/2024;25/04/2024\n05/04/2024;1/4/2024\n", {"a": [dt.date(2024, 4, 3), dt.date(2024, 4, 5)], "b": [dt.date(2024, 4, 25), dt.date(2024, 4, 1)]}),
        ("a,b\n12/31/2024 8:30,1\n", {"a": [dt.datetime(2024, 12, 31, 8, 30)], "b": [1]}),
        ("a,b\n1'200,030 123\n2'500,040 456\n", {"a": [1200.0, 2500.0], "b": ["030 123", "040 456"]}),
        ("a,b\n2024-12-31,1.234\n2025-01-01,5.678\n", {"a": [dt.date(2024, 12, 31), dt.date(2025, 1, 1)], "b": [1.234, 5.678]}),
        ("a,b\nx;y,1\nz;w,2\n", {"a": ["x;y", "z;w"], "b": [1, 2]}),
    ],
)  # fmt: skip
def test_whole_column_decides_on_its_format(tmp_path, text, expected):
    assert read_table(write(tmp_path, "a.csv", text)).to_pydict() == expected


def test_ambiguous_numbers_raise_and_ambiguous_dates_stay_text(tmp_path):
    path = write(tmp_path, "a.csv", "a;b\n1.200;1\n3.400;2\n")
    with pytest.raises(ObservalError, match=r"may mean 1\.2 or 1200") as refused:
        read_table(path)
    assert "--decimal" in str(refused.value)
    assert read_table(path, decimal=",").column("a").to_pylist() == [1200.0, 3400.0]
    assert read_table(path, decimal=".").column("a").to_pylist() == [1.2, 3.4]
    dates = read_table(write(tmp_path, "d.csv", "a,b\n03/04/2024,1\n05/06/2024,2\n"))
    assert dates.column("a").to_pylist() == ["03/04/2024", "05/06/2024"]
    assert "day or the month" in reading_of(dates).notes[0]
    tabs = read_table(write(tmp_path, "a.tsv", "a\tb\n1.200\t1\n3.400\t2\n"))
    assert tabs.column("a").to_pylist() == [1.2, 3.4]
    assert "--decimal ," in reading_of(tabs).notes[0]


def test_another_table_decides_on_an_ambiguous_column(tmp_path):
    log = write(tmp_path, "log.csv", "d;x\n25/04/2024;0,5\n")
    pool = write(tmp_path, "pool.csv", "d;x\n03/04/2024;1,200\n")
    assert read_tables([log, pool])[1].to_pydict() == {"d": [dt.date(2024, 4, 3)], "x": [1.2]}


def test_other_columns_decide_on_an_ambiguous_column():
    rows = pa.table({"paid": ["$11,687", "$2,500"], "rate": ["6.42 %", "7.1 %"]})
    assert convert_text([rows])[0].column("paid").to_pylist() == [11687.0, 2500.0]
    mixed = pa.table({"paid": ["11,687"], "rate": ["6.42 %"], "tax": ["7,1"]})
    with pytest.raises(InvalidInput, match=r"which may mean 11\.687 or 11687"):
        convert_text([mixed])


def test_named_words_are_missing_values(tmp_path):
    path = write(tmp_path, "a.csv", "id,age,y,q\n1,30,yes,0.5\n2,?,no,0.5\n3,50,?,0.5\n4,60,-,0.5\n")
    assert "use --missing '?'" in reading_of(read_table(path)).notes[0]
    table = read_table(path, missing=["?", "-"])
    assert table.column("age").to_pylist() == [30, None, 50, 60]
    roles = TableRoles("y", "q", "id")
    with pytest.raises(ObservalError, match=r"--missing '\?'"):
        load_problem([path], pd.DataFrame({"id": [9], "age": [1], "q": [0.5]}), roles)
    pool = write(tmp_path, "pool.csv", "id,age,q\n9,41,0.5\n10,30,0.5\n")
    loaded = load_problem([table], pool, roles)
    assert loaded.logged.revealed.tolist() == [True, True, False, False]
    later = pd.DataFrame({"age": ["?", "41"]})
    assert loaded.encoder.encode(later).tolist() == [[41.0, 1.0], [41.0, 0.0]]
    frame = pd.DataFrame({"age": [30, -1], "home": ["own", "?"]})
    assert read_table(frame, missing=["?", "-1"]).to_pydict() == {"age": [30, None], "home": ["own", None]}


def test_encoder_reads_text_as_in_its_learning_tables(tmp_path):
    table = read_table(write(tmp_path, "a.csv", EUROPEAN.encode("cp1252")))
    encoder = TableEncoder.learn([table])
    expected = encoder.encode(table).tolist()
    assert encoder.encode(tmp_path / "a.csv").tolist() == expected
    for options in ({}, {"decimal": ","}, {"decimal": ",", "parse_dates": ["Datum"], "dayfirst": True}):
        frame = pd.read_csv(tmp_path / "a.csv", sep=";", encoding="cp1252", **options)
        assert encoder.encode(frame).tolist() == expected
    one = write(tmp_path, "one.csv", "Größe;Zins;Betrag;Datum;Ort\n1;8 %;1.200 €;03/04/2024;Köln\n")
    assert encoder.encode(one)[0].tolist() == [1.0, 0.08, 1200.0, 19816.0, 0.0]
    with pytest.raises(ObservalError, match="'Betrag' must hold numbers, but 'viel' was seen"):
        encoder.encode(pd.DataFrame({**READ, "Betrag": ["viel", "1"]}))


def test_encoder_of_numbers_and_dates_accepts_text():
    encoder = TableEncoder.learn([pa.table({"x": [1.0, 2.0], "d": [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]})])
    assert encoder.encode(pd.DataFrame({"x": ["1.5"], "d": ["2024-01-02"]})).tolist() == [[1.5, 19724.0]]
    assert encoder.encode(pd.DataFrame({"x": ["1.5"], "d": ["2.1.2024 12:00"]})).tolist() == [[1.5, 19724.5]]


def test_formats_of_several_tables_combine():
    """The pool's format counts, but a comma in any table proves decimal commas."""
    log = TableFormat(";", ",", "cp1252", ("?",), {"rate": ColumnFormat(","), "since": ColumnFormat(date="%d/%m/%Y")})
    pool = TableFormat("\t", ".", "utf-8", ("-",), {"rate": ColumnFormat("."), "since": ColumnFormat(date="%d.%m.%Y")})
    columns = {"rate": ColumnFormat(","), "since": ColumnFormat(date="%d.%m.%Y")}
    assert TableFormat.combine([log, pool]) == TableFormat("\t", ",", "utf-8", ("?", "-"), columns)
    assert TableFormat.combine([log, TableFormat()]) == log
    assert TableFormat.from_dict(json.loads(json.dumps(log.to_dict()))) == log


def test_excel_file_is_read(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    rows = [
        [None],
        ["id", "rate", "since", "at", "note", "text"],
        ["000820", 0.0802, dt.date(2024, 12, 31), dt.datetime(2024, 1, 1, 8, 30), None, "8,02 %"],
        [17, 5, dt.datetime(2025, 2, 1), dt.datetime(2024, 1, 1), "#N/A", "11 %"],
    ]
    for row in rows:
        sheet.append(row)
    book.create_sheet("more")
    book.save(tmp_path / "a.xlsx")
    table = read_table(tmp_path / "a.xlsx", id="id")
    assert table.to_pydict() == {
        "id": ["000820", "17"],
        "rate": [0.0802, 5.0],
        "since": [dt.date(2024, 12, 31), dt.date(2025, 2, 1)],
        "at": [dt.datetime(2024, 1, 1, 8, 30), dt.datetime(2024, 1, 1)],
        "note": [None, None],
        "text": [0.0802, 0.11],
    }
    assert "has 2 sheets; the first, 'Sheet', was read" in reading_of(table).notes[0]


def write_formulas(path, *cells):
    """Write a sheet of three rows in which some cells are formulas, as openpyxl does: without values."""
    book = openpyxl.Workbook()
    rows = [["id", "x", "y", "q", "c"], *([f"{path.stem} {k}", k, ["no", "yes"][k % 2], 0.5, 1] for k in range(3))]
    for row in rows:
        book.active.append(row)
    for cell in cells:
        book.active[cell] = "=1+1"
    book.save(path)
    return path


@pytest.mark.parametrize(("cell", "role"), [("A3", "id"), ("C3", "label"), ("D3", "propensity"), ("E3", "cost")])
def test_formula_without_a_value_is_refused_where_a_value_is_needed(tmp_path, cell, role):
    log, pool = write_formulas(tmp_path / "log.xlsx", cell, "B2"), write_formulas(tmp_path / "pool.xlsx")
    with pytest.raises(
        InvalidInput, match=f"^The log has a formula .* in cell {cell} of the {role} column .*save it.$"
    ):
        load_problem([log], pool, TableRoles("y", "q", "id", "c"))


def test_formula_without_a_value_is_noted_in_a_feature(tmp_path):
    log, pool = write_formulas(tmp_path / "log.xlsx", "B3", "B4"), write_formulas(tmp_path / "pool.xlsx")
    notes = load_problem([log], pool, TableRoles("y", "q", "id", features=("x",))).notes
    expected = (
        "log.xlsx has 2 formulas without a stored value in column 'x', the first in cell B3; they count as missing."
    )
    assert [note for note in notes if note.startswith(expected)]


def test_formula_with_a_value_is_read_as_its_value(tmp_path):
    path = write_formulas(tmp_path / "log.xlsx", "B2", "C3", "E4")
    computed = {
        b'<c r="B2"><f>1+1</f><v />': b'<c r="B2"><f>1+1</f><v>2</v>',
        b'<c r="C3"><f>1+1</f><v />': b'<c r="C3" t="str"><f>1+1</f><v></v>',  # IF(…, "yes", "") gave ""
        b'<c r="E4"><f>1+1</f><v />': b"<c><f>1+1</f><v>0.5</v>",
    }
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    for old, new in computed.items():
        assert old in parts["xl/worksheets/sheet1.xml"]
        parts["xl/worksheets/sheet1.xml"] = parts["xl/worksheets/sheet1.xml"].replace(old, new)
    with zipfile.ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content)
    loaded = load_problem(
        [path], write_formulas(tmp_path / "pool.xlsx"), TableRoles("y", "q", "id", "c"), classes=["no", "yes"]
    )
    assert loaded.logged.y.tolist() == ["no", None, "no"]
    assert loaded.logged.X[:, 0].tolist() == [2, 1, 2]
    assert loaded.logged.cost.tolist() == [1, 1, 0.5]
    assert not any("formula" in note for note in loaded.notes)


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        ('<row r="1000000000"><c r="A1000000000"><v>1</v></c></row>', None),
        ("".join(f'<row r="{k}"><c r="ZZZ{k}"><v>1</v></c></row>' for k in range(1, 3000)), "far to the right"),
        ("".join(f'<row r="{k}"><c r="ZZZ{k}"/></row>' for k in range(1, 3000)), "far to the right"),
        ('<row r="1"><c r="ZZZ1"><v>1</v></c></row>' + "<row><c><v>1</v></c></row>" * 3000, "header far wider"),
    ],
)
def test_cells_far_away_in_a_workbook_take_neither_time_nor_memory(tmp_path, sheet, message):
    path = write_formulas(tmp_path / "a.xlsx")
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    table = b"".join(parts["xl/worksheets/sheet1.xml"].partition(b"<sheetData>")[:2])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, content in {
            **parts,
            "xl/worksheets/sheet1.xml": table + f"{sheet}</sheetData></worksheet>".encode(),
        }.items():
            book.writestr(name, content)
    with pytest.raises(InvalidInput, match=message or "no rows on its first sheet"):
        read_table(path)


@pytest.mark.parametrize("cell", ["A3", "C3"])
def test_formula_without_a_value_is_refused_in_answers(tmp_path, cell):
    path = write_formulas(tmp_path / "labels.xlsx", cell)
    with pytest.raises(
        InvalidInput, match=f"labels.xlsx has a formula without a stored value in cell {cell} of column"
    ):
        read_answers(path, "id", "y")


def test_metadata_of_a_file_about_its_format_is_ignored(tmp_path):
    table = pa.table({"a": ["1,5"]}).replace_schema_metadata({b"observal": b"{"})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").column("a").to_pylist() == [1.5]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"sep": ";;"}, "one character"), ({"decimal": "x"}, "must be . or ,"), ({"encoding": "no"}, "no encoding 'no'"), ({"encoding": "ascii"}, "not text in ascii")],
)  # fmt: skip
def test_wrong_option_raises_one_sentence(tmp_path, options, message):
    path = write(tmp_path, "a.csv", EUROPEAN.encode())
    with pytest.raises(ObservalError, match=message) as caught:
        read_table(path, **options)
    assert "\n" not in str(caught.value)


@given(st.floats(-1e9, 1e9), st.sampled_from([".", ","]))
def test_numbers_are_written_as_they_are_read(value, decimal):
    assert float(number_of(str(ColumnFormat(decimal).write(value)), decimal)) == value
    grouped = f"{value:,.2f}".replace(",", "_").replace(".", decimal).replace("_", "." if decimal == "," else ",")
    assert number_of(grouped, decimal) == round(value, 2)


@given(st.dates(dt.date(1900, 1, 1)), st.sampled_from(["dmy", "mdy"]), st.sampled_from("./-"))
def test_dates_are_written_as_they_are_read(day, order, mark):
    format = ColumnFormat(date=mark.join([*(("%d", "%m") if order == "dmy" else ("%m", "%d")), "%Y"]))
    assert format.order == order
    assert format.read(format.write(day)) == day
    is_unclear = day.day == day.month or mark == "."  # then the day is taken to come first
    assert format in guess_format([format.write(day)]).formats or (is_unclear and order == "mdy")


DESCRIBED = [
    ["id", "age", "income", "job", "paid"],
    ["the loan's number", "in years", "euros,\na month", "", "yes or no"],
    ["1", "31", "2100.5", "farm", "yes"],
    ["2", "47", "", "trade", "no"],
]
MEANINGS = {
    "id": "the loan's number",
    "age": "in years",
    "income": "euros,\na month",
    "paid": "yes or no",
}


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_row_of_descriptions_below_the_header_is_not_data(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text(csv_text(DESCRIBED))
    else:
        book = openpyxl.Workbook()
        for row in DESCRIBED:
            book.active.append([float(cell) if cell.replace(".", "").isdigit() else cell or None for cell in row])
        book.save(path)
    table = read_table(path, "id")
    assert table.column("age").to_pylist() == [31, 47]
    assert table.column("income").to_pylist() == [2100.5, None]
    assert [str(id_) for id_ in table.column("id").to_pylist()] in (["1", "2"], ["1.0", "2.0"])
    assert reading_of(table).descriptions == MEANINGS
    assert any("describes its columns" in note for note in reading_of(table).notes)


@pytest.mark.parametrize(
    "first",
    [
        ["3", "31", "2100.5", "farm", "yes"],
        ["3", "unknown", "unknown", "farm", "yes"],
        ["a", "same", "same", "farm", "yes"],
        ["a", "n/a", "euros", "farm", "yes"],
        ["a", "in years", "", "farm", "yes"],
        ["a", "in years", "5,5 %", "farm", "yes"],
    ],
)
def test_row_that_may_be_data_is_data(tmp_path, first):
    path = tmp_path / "a.csv"
    path.write_text(csv_text([DESCRIBED[0], first, *DESCRIBED[2:]]))
    assert read_table(path).num_rows == 3
    assert reading_of(read_table(path)).descriptions == {}


def test_page_shows_descriptions_from_the_pool_and_a_file_goes_first(tmp_path):
    rows = [[str(100 + k), str(20 + k), str(10 * k), "farm", ""] for k in range(1, 60)]
    log = [[str(k), *row[1:4], "yes" if k % 3 else "no"] for k, row in enumerate(rows)]
    for name, body in (("log", log), ("pool", rows)):
        (tmp_path / f"{name}.csv").write_text(csv_text([*DESCRIBED[:2], *body]))
    (tmp_path / "help.csv").write_text("column,meaning\nage,of the borrower\n")
    for k, options in enumerate(({}, {"columns_help": tmp_path / "help.csv"})):
        campaign = Campaign.create(
            tmp_path / f"{k}.db",
            tmp_path / "log.csv",
            tmp_path / "pool.csv",
            label="paid",
            propensity=0.5,
            id="id",
            tables=TableOptions(**options),
        )
        age = "of the borrower" if options else "in years"
        assert campaign.settings.display.column_help == {**MEANINGS, "age": age}
        assert campaign.settings.log_rows == 59
