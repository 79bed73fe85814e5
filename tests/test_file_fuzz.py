"""Thousands of damaged and forged files: one sentence or the same answers, and nothing else ever happens."""

from __future__ import annotations

import contextlib
import os
import warnings

import numpy as np
import pyarrow as pa
import pytest

import observal as ob
from observal.campaign import load_model
from observal.errors import ObservalError
from observal.exchange.model_file import save_model
from observal.problem.arrow_stream import pack_table, unpack_table
from tests.campaigns import METHOD, small_data
from tests.hostile import little_memory, mutated_bytes, mutations, nothing_happens
from tests.test_session import session

FEW = 150
MANY = int(os.environ.get("OBSERVAL_FUZZ", "2000"))
SIZES = [pytest.param(FEW, 0, id="few"), pytest.param(MANY, 1, id="many", marks=pytest.mark.slow)]


def opened(read, path):
    """Return what was read, or None where the file was refused; any other error fails the test."""
    with nothing_happens(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read(path)
        except ObservalError as error:
            sentence = str(error)
    assert "\n" not in sentence
    return None


def said(live):
    """Return everything that a session holds of people's answers and of its own decisions."""
    result = live.result()
    tables = [{name: column.tolist() for name, column in t.columns.items()} for t in (result.queries, result.decisions)]
    return (
        tables,
        live.engine.read().responses,
        [p.positions.tolist() for p in live.plans],
        live.problem.logged.X.tolist(),
    )


@pytest.mark.parametrize(("number", "seed"), SIZES)
def test_mutated_sessions(tmp_path, number, seed):
    live, truth = session(label_budget=6)
    query = live.ask(3)
    live.tell(query.ids, [truth[i] for i in query.ids])
    live.save(tmp_path / "run")
    right = said(live)
    refused = 0
    for forged in mutations(np.random.default_rng(seed), tmp_path / "run", number, tmp_path / "mutated"):
        with little_memory():
            copy = opened(ob.Session.load, tmp_path / "mutated")
        refused += copy is None
        if copy is not None and not forged:
            assert said(copy) == right
    assert number / 2 < refused <= number


@pytest.mark.parametrize(("number", "seed"), SIZES)
@pytest.mark.parametrize("kind", ["newton", "auto"])
def test_mutated_models_are_refused_or_predict(tmp_path, number, seed, kind):
    X = small_data()[1].X
    y = np.where(X @ [1.0, -0.5] > 0.3, "good", "bad")
    method = METHOD if kind == "newton" else ob.AutoVC()
    classifier = ob.run(*small_data(), lambda ids: y[ids], method, label_budget=8).estimator
    save_model(tmp_path / "m.model", classifier, None)
    right = classifier.predict(X).tolist()
    refused, number = 0, number // 2
    for forged in mutations(np.random.default_rng(seed), tmp_path / "m.model", number, tmp_path / "mutated"):
        with little_memory():
            model = opened(load_model, tmp_path / "mutated")
        refused += model is None
        if model is not None and not forged:
            assert model.predict(X).tolist() == right
        elif model is not None:
            with contextlib.suppress(Exception), nothing_happens(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.predict(X)  # may fail, but the process lives
    assert number / 2 < refused <= number


@pytest.fixture
def memory_pool():
    """A pool for Arrow whose peak is that of one test alone."""
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    yield pool
    pa.set_memory_pool(usual)


@pytest.mark.parametrize(("number", "seed"), SIZES)
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_mutated_arrow_tables_are_refused_or_stay_within_the_limit(number, seed, compression, memory_pool):
    texts = pa.array(["own", None, "rent"] * 50)
    columns = {"x": np.arange(150.0), "home": texts.dictionary_encode(), "kind": texts, "gap": pa.nulls(150)}
    table = pa.table(columns | {"many": pa.array([[1, 2], [], None] * 50)})
    packed, rng, refused = pack_table(table, compression), np.random.default_rng(seed), 0
    assert unpack_table(packed, 100_000).equals(table)
    for _ in range(10 * number):
        before = memory_pool.bytes_allocated()
        try:
            seen = unpack_table(mutated_bytes(rng, packed), 100_000)
        except ValueError:
            refused += 1
        else:
            assert seen.num_rows <= 100_000 // 8
            assert memory_pool.bytes_allocated() - before <= 200_000
    assert 0 < refused < 10 * number
    assert 0 < memory_pool.max_memory() < 500e6
