"""One contract for rows of all kinds: an array, a CSR matrix, a user's table, Parquet on disk."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

from observal.errors import InvalidInput
from observal.parquet import Parts
from observal.problem.frames import Frame
from observal.problem.rows import as_rows, column_of, count_rows, read_rows, rows_to_predict, to_dense, with_constant

X = np.random.default_rng(0).normal(size=(50, 3))
KINDS = ("dense", "sparse", "table", "parquet")


def make(kind, values, folder):
    if kind == "dense":
        return as_rows(values)
    if kind == "sparse":
        return as_rows(csr_array(values))
    columns = {f"x{k}": values[:, k] for k in range(values.shape[1])}
    if kind == "table":
        return Frame(pd.DataFrame(columns), "The rows")
    pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=20)
    return Parts.of(folder / "rows.parquet")


@pytest.fixture(params=KINDS)
def rows(request, tmp_path):
    return make(request.param, X, tmp_path)


def test_rows_of_every_kind_hold_the_same_numbers(rows):
    some = np.array([49, 0, 7, 7])
    assert rows.shape == (len(rows), 3) == (50, 3)
    np.testing.assert_array_equal(to_dense(rows.to_matrix()), X)
    np.testing.assert_array_equal(to_dense(rows.take(some)), X[some])
    np.testing.assert_array_equal(to_dense(rows.select(some).to_matrix()), X[some])
    np.testing.assert_array_equal(rows.column(1), X[:, 1])
    assert rows.take(np.arange(0)).shape == (0, 3)


def test_map_and_collect_go_through_all_rows_in_order(rows, monkeypatch):
    monkeypatch.setattr("observal.problem.rows.BLOCK_ROWS", 7)
    monkeypatch.setattr("observal.parquet.parts.BLOCK_ROWS", 7)
    sizes = list(rows.map(lambda block: block.shape[0]))
    assert sum(sizes) == 50
    assert max(sizes) == 7
    first, positive = rows.collect(lambda block: (column_of(block, 0), column_of(block, 2) > 0.0))
    np.testing.assert_array_equal(first, X[:, 0])
    np.testing.assert_array_equal(positive, X[:, 2] > 0.0)


def test_estimators_are_given_a_table_only_if_the_user_gave_one(rows):
    assert isinstance(rows.select(np.arange(4)).for_estimator(), pd.DataFrame) == rows.is_table
    assert rows.is_sparse == (not isinstance(rows.take(np.arange(2)), np.ndarray))


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_not_finite_raise(kind, tmp_path):
    values = X.copy()
    values[3, 1] = np.nan
    with pytest.raises(InvalidInput, match="must be finite"):
        make(kind, values, tmp_path).require_finite("The rows")


def test_rows_to_predict_need_the_features_of_training(rows):
    assert rows_to_predict(rows, 3).shape == (50, 3)
    with pytest.raises(InvalidInput, match="must have 2 features as in training, but have 3"):
        rows_to_predict(rows, 2)


def test_read_rows_leaves_checked_rows_as_they_are(tmp_path):
    parts = make("parquet", X, tmp_path).require_finite("The rows")
    assert read_rows(parts, "The rows") is parts
    assert read_rows([[1, 2]], "The rows").take(np.array([0])).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("form", [np.asarray, csr_array, pd.DataFrame, np.ndarray.tolist])
def test_rows_are_counted_in_any_form(form):
    assert count_rows(form(X)) == 50


def test_constant_is_appended_as_last_column():
    np.testing.assert_array_equal(to_dense(with_constant(csr_array(X), 2.0)), with_constant(X, 2.0))
