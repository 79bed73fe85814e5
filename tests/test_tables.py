from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from observal.errors import InvalidInput, ObservalError
from observal.journal.answers import LabelReader
from observal.journal.codec import decode, encode
from observal.tables import TableEncoder, TableRoles, load_problem, read_ids, read_labels, read_table
from observal.tables.load_in_place import load_in_place

PLAIN = {"age": [30, None, 50], "home": ["own", None, "rent"], "new": [True, False, None]}


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_every_kind(folder):
    table = pa.table(PLAIN)
    text = "age,home,new\n30,own,true\nNA,,false\n50,rent,null\n"
    pq.write_table(table, folder / "a.parquet")
    pq.write_table(table, folder / "a.pq")
    feather.write_feather(table, folder / "a.feather")
    with pa.OSFile(str(folder / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pa.OSFile(str(folder / "a.ipc"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    write(folder, "a.csv", text)
    write(folder, "a.tsv", text.replace(",", "\t"))
    write(folder, "a.csv.gz", gzip.compress(text.encode()))
    return sorted(folder.iterdir())


def test_file_of_any_kind_gives_the_same_table(tmp_path):
    paths = write_every_kind(tmp_path)
    assert len(paths) == 8
    for path in paths:
        assert read_table(path).to_pydict() == PLAIN, path.name
        assert read_table(str(path)).to_pydict() == PLAIN, path.name


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, pa.RecordBatch.from_pydict])
def test_frame_of_any_library_gives_the_same_table(make):
    assert read_table(make(PLAIN)).to_pydict() == PLAIN


def test_ids_in_csv_keep_their_text(tmp_path):
    text = write(tmp_path, "zero.csv", "id,x\n007,1\n8,2\n")
    assert read_table(text, id="id").column("id").to_pylist() == ["007", "8"]
    number = write(tmp_path, "number.csv", "id,x\n7,1\n-8,2\n")
    assert read_table(number, id="id").column("id").to_pylist() == [7, -8]
    huge = write(tmp_path, "huge.csv", "id,x\n18446744073709551617,1\n18446744073709551616,2\n")
    assert read_table(huge, id="id").column("id").to_pylist() == ["18446744073709551617", "18446744073709551616"]


def test_csv_with_byte_order_mark_and_line_breaks_in_cells_is_read(tmp_path):
    path = write(tmp_path, "a.csv", b'\xef\xbb\xbfa,b\n1,"two\nlines"\n')
    assert read_table(path).to_pydict() == {"a": [1], "b": ["two\nlines"]}


def test_python_objects_in_a_frame_become_numbers_or_text():
    frame = pd.DataFrame({"mixed": [1, "x", None], "flags": [True, 2, 0.5], "huge": [2**70, 1, None], 7: [1, 2, 3]})
    table = read_table(frame)
    assert table.column("mixed").to_pylist() == ["1", "x", None]
    assert table.column("flags").to_pylist() == [1.0, 2.0, 0.5]
    assert table.column("huge").to_pylist() == [Decimal(2**70), Decimal(1), None]
    assert table.column("7").to_pylist() == [1, 2, 3]
    objects = pl.DataFrame({"o": pl.Series([Decimal(1), "b"], dtype=pl.Object)})
    assert read_table(objects).column("o").to_pylist() == ["1", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "a,a\n1,2\n", "more than one column named 'a'"),
        ("a.csv", "a,b,a,c,b\n1,2,3,4,5\n", "more than one column named 'a' and 'b';"),
        ("a.csv", "a;b c\n1;2;3\n4\n", "cannot be read as CSV"),
        ("a.csv", "a:b,c\n1:2\n", "cannot be read as CSV"),
        ("a.csv", "a,b\n1,2\n3\n", "cannot be read as CSV"),
        ("a.csv", b"a,b\n1,caf\x81\n", r"not text in cp1252 \(line 2, column 'b': "),
        ("a.csv.gz", "not gzip", "cannot be read as CSV"),
        ("a.parquet", "PAR1 broken", "cannot be read as Parquet"),
        ("a.arrow", "broken", "cannot be read as Arrow"),
        ("a.feather", "ARROW1 broken", "cannot be read as Arrow"),
        ("a.xlsx", "PK", "cannot be read as an Excel workbook"),
        ("a.ods", "PK", "Unrecognised file extension"),
    ],
)
def test_bad_file_raises_one_sentence(tmp_path, name, content, message):
    with pytest.raises(ObservalError, match=message) as caught:
        read_table(write(tmp_path, name, content))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_parquet_with_text_that_is_not_utf8_raises_one_sentence(tmp_path):
    path, pool = str(tmp_path / "log.parquet"), str(tmp_path / "pool.parquet")
    columns = {"id": ["a", "b", "c"], "x": ["u", "v", "u"], "y": ["no", "yes", "no"], "q": [0.5, 0.5, 0.5]}
    pq.write_table(pa.table({**columns, "id": ["d", "e", "f"]}), pool)
    roles = TableRoles("y", "q", "id")
    for name in ("id", "x", "y"):
        pq.write_table(pa.table({**columns, name: pa.array([b"a", b"M\xfcller", b"b"]).view(pa.string())}), path)
        for load in (
            lambda: read_table(path),
            lambda: load_problem([path], pool, roles),
            lambda: load_in_place(path, pool, roles, propensity="q"),
        ):
            with pytest.raises(InvalidInput, match=f"log.parquet' has damaged values in column '{name}' .*as UTF-8.$"):
                load()
    pq.write_table(pa.table({**columns, "xylo": [1, 2, 3]}), path)
    write(tmp_path, "log.parquet", (tmp_path / "log.parquet").read_bytes().replace(b"xylo", b"xy\xffo"))
    for load in (lambda: read_table(path), lambda: load_in_place(path, pool, roles, propensity="q")):
        with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
            load()


def test_object_that_is_not_a_table_raises_one_sentence(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for source, message in [
        (tmp_path / "nope.csv", "There is no file"),
        (tmp_path / "folder.csv", "There is no Parquet file at"),
        (None, "got NoneType"),
        ([1, 2], "got list"),
        (pd.Series([1]), "got Series"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column named 'a'"),
        (pd.DataFrame(), "no columns"),
        (pa.table([[1], [2]], names=["a", "a"]), "more than one column"),
    ]:
        with pytest.raises(ObservalError, match=message):
            read_table(source)


def test_column_of_any_kind_becomes_numbers():
    day = dt.date(1970, 1, 11)
    table = pa.table(
        {
            "number": pa.array([1, 2, 3], pa.int8()),
            "half": pa.array(np.array([1, 2, 3], np.float16)),
            "decimal": pa.array([Decimal("1.5"), Decimal("2.5"), None]),
            "flag": [True, False, None],
            "date": [day, None, dt.date(1970, 1, 1)],
            "date64": pa.array([day, None, day - dt.timedelta(1)], pa.date64()),
            "moment": pa.array([dt.datetime(1970, 1, 1, 12), None, dt.datetime(1970, 1, 3)], pa.timestamp("ms", "UTC")),
            "wait": [dt.timedelta(hours=6), None, dt.timedelta(days=2)],
            "clock": pa.array([dt.time(6), dt.time(12), None], pa.time32("s")),
            "kind": pa.array(["a", None, "b"]).dictionary_encode(),
            "view": pa.array(["a", "b", "b"], pa.string_view()),
        }
    )
    encoder = TableEncoder.learn([table])
    encoded = dict(zip(encoder.names, encoder.encode(table).T.tolist(), strict=True))
    assert encoded["number"] == [1, 2, 3]
    assert encoded["half"] == [1, 2, 3]
    assert encoded["decimal"] == [1.5, 2.5, 1.5]  # the lower of two middle values is used
    assert encoded["flag"] == [1, 0, 0]
    assert encoded["date"] == [10, 0, 0]
    assert encoded["date64"] == [10, 9, 9]
    assert encoded["moment"] == [0.5, 0.5, 2]
    assert encoded["wait"] == [0.25, 0.25, 2]
    assert encoded["clock"] == [0.25, 0.5, 0.25]
    assert encoded["kind=a"] == [1, 0, 0]
    assert encoded["kind is missing"] == [0, 1, 0]
    assert encoded["view=b"] == [0, 1, 1]
    assert encoder.sources[encoder.names.index("kind is missing")] == "kind"
    assert any("days since 1970" in note for note in encoder.notes)


def test_infinite_and_huge_numbers_are_reported():
    table = pa.table({"x": [1.0, np.inf, -np.inf, 2.0], "big": [2**53 + 1, 1, 2, 3]})
    encoder = TableEncoder.learn([table])
    X = encoder.encode(table)
    assert X[:, 0].tolist() == [1, 1, 1, 2]
    assert X[:, 1].tolist() == [0, 1, 1, 0]
    assert np.isfinite(X).all()
    text = " ".join(encoder.notes)
    assert "'x' had 2 infinite values" in text
    assert "'big' had 1 numbers of 2^53 or more" in text


def test_median_of_huge_numbers_does_not_overflow():
    encoder = TableEncoder.learn([pa.table({"x": [1.7e308, 1.6e308, None]})])
    assert encoder.encode(pa.table({"x": pa.array([None], pa.float64())})).tolist() == [[1.6e308, 1.0]]


def test_value_missing_only_in_new_rows_gets_the_median():
    encoder = TableEncoder.learn([pa.table({"x": [1, 2, 3], "c": ["a", "b", "a"]})])
    later = pa.table({"x": [None, 9], "c": [None, "new"]})
    assert encoder.encode(later).tolist() == [[2, 0, 0], [9, 0, 0]]
    nothing = pa.table({"x": pa.nulls(1), "c": pa.nulls(1)})
    assert encoder.encode(nothing).tolist() == [[2, 0, 0]]


def test_only_the_most_frequent_categories_get_columns():
    table = pa.table({"c": ["a"] * 3 + ["b"] * 2 + ["d"] + ["c"]})
    encoder = TableEncoder.learn([table], max_categories=3)
    assert encoder.names == ("c=a", "c=b", "c=c")
    assert encoder.encode(pa.table({"c": ["d", "b"]})).tolist() == [[0, 0, 0], [0, 1, 0]]
    assert "most frequent of its 4 values" in encoder.notes[0]


def test_uninformative_columns_are_left_out_with_a_note():
    names = [f"name {i}" for i in range(40)]
    table = pa.table(
        {
            "x": np.arange(40.0),
            "same": ["s"] * 40,
            "one": [1] * 40,
            "void": pa.nulls(40),
            "empty": pa.array([None] * 40, pa.string()),
            "name": names,
            "list": [[1]] * 40,
            "bytes": [b"x"] * 40,
        }
    )
    encoder = TableEncoder.learn([table])
    assert encoder.names == ("x",)
    reasons = {note.split("'")[1]: note for note in encoder.notes}
    assert "same value in all 40" in reasons["same"]
    assert "same value" in reasons["one"]
    assert "all its values are missing" in reasons["void"]
    assert "all its values are missing" in reasons["empty"]
    assert "40 different values in 40 rows" in reasons["name"]
    assert "type list" in reasons["list"]
    assert "type binary" in reasons["bytes"]
    named = TableEncoder.learn([table], features=["name"], max_categories=5)
    assert len(named.names) == 5


def test_constant_with_missing_values_becomes_an_indicator():
    table = pa.table({"x": [5, None, 5], "c": ["a", "a", None]})
    encoder = TableEncoder.learn([table])
    assert encoder.names == ("x is missing", "c is missing")
    assert encoder.encode(table).tolist() == [[0, 0], [1, 0], [0, 1]]


def test_encoded_columns_have_distinct_names():
    encoder = TableEncoder.learn([pa.table({"a": ["b", "c"], "a=b": [1, 2]})])
    assert encoder.names == ("a=b", "a=c", "a=b (2)")


def test_encoder_survives_json_exactly():
    table = pa.table({"x": [0.1, None, 1 / 3], "c": ["ü", "\U0001f600", None]})
    encoder = TableEncoder.learn([table])
    again = decode(json.loads(json.dumps(encode(encoder))))
    assert again == encoder
    assert again.encode(table).tolist() == encoder.encode(table).tolist()


def test_encoding_in_blocks_gives_the_same_array(monkeypatch):
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.normal(size=100), "c": np.array(["a", "b", "c"])[rng.integers(0, 3, 100)]})
    table = pa.concat_tables([table.slice(0, 33), table.slice(33)])
    encoder = TableEncoder.learn([table])
    whole = encoder.encode(table)
    monkeypatch.setattr("observal.tables.encoder._ROWS_AT_ONCE", 7)
    assert encoder.encode(table).tolist() == whole.tolist()
    assert encoder.encode(table.slice(0, 0)).shape == (0, 4)


TWO = pa.table({"x": [1, 2], "c": ["a", "b"]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TableEncoder.learn([]), "needs rows"),
        (lambda: TableEncoder.learn([TWO.slice(0, 0)]), "needs rows"),
        (lambda: TableEncoder.learn([TWO], max_categories=0), "at least 1"),
        (lambda: TableEncoder.learn([TWO], features=["z"]), "feature column 'z'"),
        (lambda: TableEncoder.learn([TWO], features=["x"], exclude=["x"]), "already is the label"),
        (lambda: TableEncoder.learn([TWO], exclude=["x", "c"]), "No feature column"),
        (lambda: TableEncoder.learn([pa.table({"l": [[1], [2]]})], features=["l"]), "has type list"),
        (
            lambda: TableEncoder.learn([TWO, pa.table({"x": ["1"], "c": ["a"]})]),
            r"holds text in the pool, such as '1' in row 0 \(counted from 0\), and numbers in the log",
        ),
        (lambda: TableEncoder.learn([TWO]).encode(pa.table({"x": [1]})), "no column 'c'"),
        (
            lambda: TableEncoder.learn([TWO]).encode(pa.table({"x": ["one"], "c": ["a"]})),
            "must hold numbers, but 'one' was seen",
        ),
        (
            lambda: TableEncoder.learn([TWO]).encode(pa.table({"x": [1], "c": [1]})),
            "held text .* but now holds numbers",
        ),
        (lambda: read_labels([1, 2], classes=(0, 1)), "2 was seen"),
        (lambda: read_labels(pa.array([[1], [2]])), "Labels must be"),
        (lambda: read_ids([pa.table({"id": [1, None]})], "id", ["The log"]), "row 1 .* has none"),
        (lambda: read_ids([pa.table({"id": [1.0, np.nan]})], "id", ["The log"]), "row 1 .* has none"),
        (lambda: read_ids([pa.table({"id": [1.5]})], "id", ["The log"]), "whole numbers or text"),
        (lambda: read_ids([pa.table({"id": [1, 1]})], "id", ["The log"]), "1 occurs more than once"),
        (
            lambda: read_ids([pa.table({"id": [1]}), pa.table({"id": [1]})], "id", ["The log", "The pool"]),
            "in the log and in the pool",
        ),
    ],
)
def test_bad_table_raises_one_sentence(call, message):
    with pytest.raises(ObservalError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 1.0, np.nan], [0, 1, None]),
        (pa.chunked_array([[0.0, None], [1.0]]), [0, None, 1]),
        (pa.array([True, None, False]), [True, None, False]),
        (pa.array(["no", None, "yes"]).dictionary_encode(), ["no", None, "yes"]),
        (pd.Series([1, pd.NA, 0], dtype="Int64"), [1, None, 0]),
        (np.array([-1, 1]), [-1, 1]),
        (pa.array([Decimal("1.0"), Decimal("0.5")]), [1, Decimal("0.5")]),
        (pa.array([None, None]), [None, None]),
    ],
)
def test_labels_are_python_values(values, expected):
    labels, missing = read_labels(values)
    assert labels.tolist() == expected
    assert [type(value) for value in labels.tolist()] == [type(value) for value in expected]
    assert missing.tolist() == [value is None for value in expected]


@pytest.mark.parametrize(
    ("values", "classes", "expected"),
    [
        (["1", "0", ""], (0, 1, ""), [1, 0, ""]),
        ([1, 0], ("0", "1"), ["1", "0"]),
        ([1.0, 0.0], (0, 1), [1, 0]),
        (["TRUE", "false"], (False, True), [True, False]),
        ([True, False], ("false", "true"), ["true", "false"]),
    ],
)
def test_label_with_the_text_of_a_class_becomes_that_class(values, classes, expected):
    labels, _ = read_labels(values, classes)
    assert labels.tolist() == expected
    assert [type(value) for value in labels.tolist()] == [type(value) for value in expected]


@pytest.mark.parametrize("classes", [[0, 1], ["no", "yes"], ["No", "no"], [False, True], [0.5, 1.5], ["1", "2.0"]])
@pytest.mark.parametrize("value", [1, 1.0, "1", "1.0", " yes ", "YES", "no", "True", "1,5", "maybe"])
def test_label_means_the_same_class_in_tables_and_in_answers(classes, value):
    try:
        expected = classes[LabelReader(classes)(value)]
    except LookupError:
        with pytest.raises(ObservalError, match="must be one of the classes"):
            read_labels([value], classes)
    else:
        assert read_labels([value], classes)[0].tolist() == [expected]


def test_ids_are_all_numbers_or_all_text():
    numbers = read_ids([pa.table({"id": pa.array([1, 2], pa.uint8())}), pa.table({"id": [3.0]})], "id", ["a", "b"])
    assert [ids.dtype.kind for ids in numbers] == ["i", "i"]
    mixed = read_ids([pa.table({"id": [1]}), pa.table({"id": ["x"]})], "id", ["a", "b"])
    assert [ids.tolist() for ids in mixed] == [["1"], ["x"]]
    beyond = read_ids([pa.table({"id": pa.array([2**64 - 1], pa.uint64())})], "id", ["a"])
    assert beyond[0].tolist() == [str(2**64 - 1)]
    dated = read_ids([pa.table({"id": [dt.date(2020, 1, 2)]})], "id", ["a"])
    assert dated[0].tolist() == ["2020-01-02"]


@pytest.mark.parametrize(
    ("numbers", "suspicious"),
    [
        (np.arange(30), True),
        (np.arange(30) * 1000 + 7, True),
        (np.arange(30) // 2, False),
        (np.arange(30) + 0.5, False),  # not whole
        (np.arange(5), False),  # so few differ by chance
        (np.append(np.arange(1500), 3), False),
    ],
)
def test_number_that_no_two_rows_share_is_noted_as_a_possible_id(numbers, suspicious):
    table = pa.table({"loan": numbers, "age": np.arange(numbers.size) % 2})
    encoder = TableEncoder.learn([table])
    assert ["if it identifies the rows" in note for note in encoder.notes] == [True] * suspicious
    assert "loan" in [rule.source for rule in encoder.rules]


def test_spaces_around_labels_are_ignored():
    for values in ([" yes", "no ", "  ", "", None], pa.array([" yes", "no ", "  ", "", None])):
        labels, missing = read_labels(values)
        assert labels.tolist() == ["yes", "no", None, None, None]
        assert missing.tolist() == [False, False, True, True, True]


def test_refused_byte_is_named_by_its_line_where_the_encoding_was_given(tmp_path):
    path = tmp_path / "cities.csv"
    path.write_bytes(("id,city\n" + "1,Köln\n" * 50).encode() + b"2,Gen\xe8ve\n3,x\n")
    assert read_table(path).column("city")[50].as_py() == "Genève"
    with pytest.raises(
        InvalidInput, match=r"not text in utf-8 \(line 52, column 'city': 'Genève'\); name its encoding"
    ):
        read_table(path, encoding="utf-8")
