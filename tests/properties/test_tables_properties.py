"""Tables of any kind become a problem or one sentence; encoding goes row by row and is the slow one."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from observal.errors import InvalidInput, ObservalError
from observal.journal.codec import decode, encode
from observal.tables import LoadedProblem, TableEncoder, TableRoles, load_problem, read_table

numbers = st.one_of(st.none(), st.integers(-3, 3), st.floats(width=32), st.sampled_from([math.inf, -math.inf, 1e300]))
words = st.one_of(st.none(), st.sampled_from(["a", "b", "ü", "", "\U0001f600"]), st.text(max_size=3))
anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.floats(),
    st.decimals(),
    st.text(max_size=4),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.times(),
    st.binary(max_size=2),
    st.lists(st.integers(0, 2), max_size=2),
    st.complex_numbers(),
)


KINDS = [
    numbers,
    words,
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.integers()),
    st.one_of(st.none(), st.floats()),
    st.one_of(st.none(), st.dates()),
    st.one_of(st.none(), st.datetimes()),
    st.one_of(st.none(), st.timedeltas()),
    anything,
]


def lists(values, n_rows):
    return st.lists(values, min_size=n_rows, max_size=n_rows)


def usually(draw, times=20):
    return draw(st.integers(1, times)) < times


@st.composite
def problems(draw):
    """A log and a pool that are right in most ways and may be wrong in any."""
    kinds = {name: draw(st.sampled_from(KINDS)) for name in ("x", "c")}
    tables, first_id = [], 0
    as_text = draw(st.booleans())
    for part in ("log", "pool"):
        n_rows = 8 - draw(st.integers(0, 6)) if usually(draw) else 0
        columns = {name: draw(lists(kind if usually(draw) else anything, n_rows)) for name, kind in kinds.items()}
        ids = [f"r{i}" if as_text else i for i in range(first_id, first_id + n_rows)]
        columns["id"] = ids if usually(draw) else draw(lists(anything, n_rows))
        columns["q0"] = draw(lists(st.floats(0.01, 1) if usually(draw) else numbers, n_rows))
        if part == "log":
            columns["y"] = ([0, 1, None] * 3)[:n_rows] if usually(draw, 5) else draw(lists(anything, n_rows))
        columns = {name: values for name, values in columns.items() if usually(draw)}
        first_id += n_rows if usually(draw) else 0
        tables.append(frame(columns, draw(st.sampled_from(["pandas", "polars", "arrow"]))))
    return tables


def frame(columns, library):
    if library == "polars":
        return pl.DataFrame({name: polars_series(values) for name, values in columns.items()})
    if library == "arrow":
        try:
            return pa.table(columns)
        except (pa.ArrowException, TypeError, ValueError, ArithmeticError):
            pass  # Arrow itself refuses mixed values; pandas takes them
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()}).infer_objects()


def polars_series(values):
    plain = len({type(value) for value in values if value is not None} - {str, float, bool, dt.date}) == 0
    same = len({type(value) for value in values if value is not None}) <= 1
    return pl.Series(values, dtype=None if plain and same else pl.Object)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(problems(), st.booleans())
@pytest.mark.filterwarnings("ignore")
def test_any_tables_become_a_problem_or_one_sentence(tables, with_ids):
    roles = TableRoles(label="y", propensity="q0", id="id" if with_ids else None)
    try:
        loaded = load_problem(tables[:1], tables[1], roles)
    except ObservalError as error:
        sentence = str(error)
    else:
        sentence = None
    event("a problem" if sentence is None else sentence[:40])
    if sentence is not None:
        assert "\n" not in sentence
        assert sentence.endswith(".")
        return
    assert isinstance(loaded, LoadedProblem)
    assert np.isfinite(loaded.logged.X).all()
    assert np.isfinite(loaded.pool.X).all()
    assert (
        loaded.logged.X.shape[1] == loaded.pool.X.shape[1] == len(loaded.encoder.names) == len(loaded.encoder.sources)
    )
    assert len(set(loaded.encoder.names)) == len(loaded.encoder.names)
    ids = [*loaded.logged.ids.tolist(), *loaded.pool.ids.tolist()]
    assert len(set(ids)) == len(ids)
    assert all(type(value) in (int, str) for value in ids)
    assert decode(json.loads(json.dumps(encode(loaded.encoder)))) == loaded.encoder


tables = (
    st.integers(2, 12)
    .flatmap(lambda n: st.tuples(st.lists(numbers, min_size=n, max_size=n), st.lists(words, min_size=n, max_size=n)))
    .map(
        lambda pair: pa.table(
            {
                "x": pa.array([None if v is None else float(v) for v in pair[0]], pa.float64()),
                "c": pa.array(pair[1], pa.string()),
            }
        )
    )
)


def learn(table):
    try:
        return TableEncoder.learn([table], features=["x", "c"])
    except InvalidInput:  # both columns say nothing
        return None


@given(tables, st.data())
def test_row_is_encoded_the_same_alone_and_among_others(table, data):
    encoder = learn(table)
    if encoder is None:
        return
    order = data.draw(st.permutations(range(table.num_rows)))
    assert encoder.encode(table.take(order)).tolist() == encoder.encode(table)[order].tolist()
    alone = [encoder.encode(table.slice(row, 1))[0].tolist() for row in range(table.num_rows)]
    assert alone == encoder.encode(table).tolist()


@given(tables, tables)
def test_encoding_is_the_slow_one(table, later):
    """Written from the description: medians, indicators and one-hot columns, value by value."""
    encoder = learn(table)
    if encoder is None:
        return
    for rows in (table, later):
        values = dict(zip(encoder.names, encoder.encode(rows).T.tolist(), strict=True))
        seen = sorted(v for v in table.column("x").to_pylist() if v is not None and math.isfinite(v))
        bad = [v is None or not math.isfinite(v) for v in rows.column("x").to_pylist()]
        if "x" in values:
            median = seen[(len(seen) - 1) // 2]
            assert values["x"] == [median if b else v for v, b in zip(rows.column("x").to_pylist(), bad, strict=True)]
        if "x is missing" in values:
            assert values["x is missing"] == [float(b) for b in bad]
        counts = Counter(v for v in table.column("c").to_pylist() if v is not None)
        for value in counts if len(counts) > 1 else ():
            assert values[f"c={value}"] == [float(v == value) for v in rows.column("c").to_pylist()]
        if "c is missing" in values:
            assert values["c is missing"] == [float(v is None) for v in rows.column("c").to_pylist()]


@given(st.lists(st.tuples(words, numbers), min_size=1, max_size=6))
def test_table_read_twice_is_the_same(rows):
    frame = pd.DataFrame({"w": [w for w, _ in rows], "n": [n for _, n in rows]})
    once = read_table(frame)
    assert read_table(once).equals(once)
