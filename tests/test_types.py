from __future__ import annotations

import pickle
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from typing_extensions import TypeAliasType

import observal as ob
from observal.errors import InvalidInput, InvalidLabel, InvalidPropensity
from observal.journal.codec import _fits
from observal.problem.plan import Plan
from observal.problem.problem import Problem
from observal.problem.table import Table

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
Y = np.array([0.0, np.nan, 1.0])
Q = np.array([0.5, 0.0, 1.0])


def test_log_marks_revealed_labels():
    logged = ob.LoggedData(X, Y, Q)
    assert logged.revealed.tolist() == [True, False, True]
    assert logged.classes.tolist() == [0.0, 1.0]
    assert logged.codes[logged.revealed].tolist() == [0, 1]
    assert len(logged) == 3
    assert repr(logged) == "LoggedData(3 rows × 2 features, 2 revealed, classes [0.0, 1.0])"


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", None, "yes"], ["no", "yes"]),
        ([False, None, True], [False, True]),
        (np.array(["no", None, "yes"], dtype=object), ["no", "yes"]),
        (pd.Series(["no", pd.NA, "yes"], dtype="string").to_numpy(), ["no", "yes"]),
        ([1, 1, 2], [1, 2]),
    ],
)
def test_any_two_label_values_are_classes(labels, classes):
    assert ob.LoggedData(X, labels, 0.5).classes.tolist() == classes


def test_log_is_read_only_and_leaves_the_users_array_writable():
    features = X.copy()
    logged = ob.LoggedData(features, Y, Q)
    with pytest.raises(ValueError, match="read-only"):
        logged.X[0, 0] = 9.0
    features[0, 0] = 5.0  # the caller's own array stays writable


def test_log_copies_labels_propensities_ids_and_costs():
    labels, chances, names, costs = Y.copy(), Q.copy(), np.array(["a", "b", "c"]), np.ones(3)
    logged = ob.LoggedData(X, labels, chances, names, cost=costs)
    labels[0], chances[0], names[0], costs[0] = 7.0, 7.0, "b", 7.0
    assert logged.y[0] == 0.0
    assert logged.propensity[0] == 0.5
    assert logged.ids[0] == "a"
    assert logged.cost[0] == 1.0


def test_log_can_be_pickled():
    logged = pickle.loads(pickle.dumps(ob.LoggedData(X, Y, Q)))
    assert logged.revealed.tolist() == [True, False, True]


def test_sparse_features_stay_sparse():
    assert ob.Pool(csr_matrix(X), 0.5).X.shape == (3, 2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ob.LoggedData(X, Y, [0.5, 0.0, 1.2]), InvalidPropensity, r"row 2 \(counted from 0\) has 1.2"),
        (lambda: ob.LoggedData(X, Y, [0.5, -0.1, 1.0]), InvalidPropensity, r"row 1 \(counted from 0\) has -0.1"),
        (lambda: ob.LoggedData(X, Y, [0.5, np.nan, 1.0]), InvalidPropensity, r"row 1 \(counted from 0\) has nan"),
        (
            lambda: ob.LoggedData(X, Y, [0.0, 0.0, 1.0]),
            InvalidPropensity,
            r"row 0 \(counted from 0\) has propensity 0 and a label",
        ),
        (lambda: ob.LoggedData(X, Y, [0.5, 1.0]), InvalidPropensity, "3 rows, but got shape"),
        (lambda: ob.LoggedData([[np.nan, 0.0]], [1], 1.0), InvalidInput, "1 of 2 values are NaN"),
        (lambda: ob.LoggedData([["a", "b"]], [1], 1.0), InvalidInput, "must be numbers"),
        (lambda: ob.LoggedData([1.0, 2.0], [0, 1], 1.0), InvalidInput, "two dimensions"),
        (lambda: ob.LoggedData([[1.0 + 2.0j]], [1], 1.0), InvalidInput, "must be numbers"),
        (lambda: ob.LoggedData(X, Y, "often"), InvalidPropensity, "numbers as propensities"),
        (lambda: ob.LoggedData(X, [1, 1, np.nan], 0.5), InvalidLabel, "two classes, but the log shows"),
        (lambda: ob.LoggedData(X, [np.nan] * 3, 0.5), InvalidLabel, "two classes"),
        (lambda: ob.LoggedData(X, [0, 1, 2], 0.5, classes=(0, 1)), InvalidLabel, "2 was seen"),
        (lambda: ob.LoggedData(X, [0, 1], 0.5), InvalidInput, "one label for each of its 3 rows"),
        (lambda: ob.LoggedData(X, Y, Q, ids=["a", "b", "a"]), InvalidInput, "'a' occurs more than once"),
        (lambda: ob.LoggedData(X, Y, Q, ids=["a"]), InvalidInput, "one id for each"),
        (lambda: ob.LoggedData(X, Y, Q, cost=[1.0, 2.0, 0.0]), InvalidInput, r"cost in \[0, 1\]"),
        (lambda: ob.LoggedData(np.empty((0, 2)), [], 1.0), InvalidInput, "log is empty"),
        (lambda: ob.Pool(np.empty((0, 2)), []), InvalidInput, "pool is empty"),
        (lambda: ob.Pool(X, [0.5, 2.0, 0.5]), InvalidPropensity, r"row 1 \(counted from 0\) has 2.0"),
        (lambda: ob.Pool(X, 0.5, ids=[1, 1, 2]), InvalidInput, "1 occurs more than once"),
        (lambda: Problem(ob.LoggedData(X, Y, Q), ob.Pool(X[:, :1], 0.5)), InvalidInput, "2 columns and the pool 1"),
        (
            lambda: Problem(ob.LoggedData(X, Y, Q, cost=[1, 1, 1]), ob.Pool(X, 0.5)),
            InvalidInput,
            "only one of them has costs",
        ),
    ],
)
def test_bad_input_raises_a_clear_message(make, error, message):
    with pytest.raises(error, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_one_class_is_accepted_if_both_are_named():
    logged = ob.LoggedData(X, [1, 1, np.nan], 0.5, classes=(0, 1))
    assert logged.codes[logged.revealed].tolist() == [1, 1]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_from_frame_accepts_pandas_and_polars(library):
    frame = library(
        {
            "loan": ["a", "b", "c"],
            "age": [30, 40, 50],
            "home": [True, False, True],
            "bad": [1, None, 0],
            "q0": [0.1, 0.2, 1.0],
        }
    )
    logged = ob.LoggedData.from_frame(frame, label="bad", propensity="q0", id="loan")
    assert logged.X.tolist() == [[30.0, 1.0], [40.0, 0.0], [50.0, 1.0]]
    assert logged.ids.tolist() == ["a", "b", "c"]
    assert logged.revealed.tolist() == [True, False, True]
    pool = ob.Pool.from_frame(frame, propensity="q0", id="loan", features=["age"])
    assert pool.X.ravel().tolist() == [30.0, 40.0, 50.0]
    with pytest.raises(InvalidInput, match="no column 'nope'"):
        ob.LoggedData.from_frame(frame, label="nope", propensity="q0")
    with_text = ob.LoggedData.from_frame(frame, label="bad", propensity="q0")
    with pytest.raises(
        InvalidInput, match="AutoVC needs finite numbers as features, but column 'loan' has missing or other values"
    ):
        ob.Session(with_text, ob.Pool.from_frame(frame, propensity="q0", features=["loan", "age", "home"]))


def test_plan_is_cut_after_the_last_paid_label():
    action = np.array([0, 2, 0, 1, 0], dtype=np.int8)
    plan = Plan(np.arange(5), np.ones(5), action, np.zeros(5, int), np.zeros(5, np.int8), ("why",))
    assert plan.asked.tolist() == [0, 2, 4]
    assert plan.cut(2).positions.tolist() == [0, 1, 2, 3]
    assert plan.cut(3) is plan
    assert plan.cut(0).positions.size == 0


def test_table_iterates_as_rows():
    table = Table(id=np.array([3, 4]), label=np.array(["x", "y"]))
    assert [row.label for row in table] == ["x", "y"]
    assert repr(table) == "Table(2 rows: id, label)"
    assert pd.DataFrame(table.columns).shape == (2, 2)
    with pytest.raises(InvalidInput, match="equally long"):
        Table(id=np.arange(2), label=np.arange(3))


def test_impossible_interval_raises():
    with pytest.raises(InvalidInput, match="low ≤ high"):
        ob.Interval(0.5, 0.6, 0.4, 0.95, "test")


def test_table_slices_and_converts():
    table = Table(
        id=np.array(["a", "b", "c"], dtype=object), round=np.array([1, 1, 2]), chance=np.array([0.5, 1.0, 0.25])
    )
    assert table[1] == table[-2] == next(iter(table[1:])) == ("b", 1, 1.0)
    assert type(table[1].round) is int
    assert [
        len(table[part]) for part in (slice(0, 0), slice(None, None, 2), [2, 0], [], np.array([True, False, False]))
    ] == [0, 2, 2, 0, 1]
    assert table[[2, 0]]["id"].tolist() == ["c", "a"]
    assert table[table["chance"] < 0.6].columns.keys() == table.columns.keys()
    for frame in (
        table.to_pandas().to_dict("list"),
        table.to_polars().to_dict(as_series=False),
        table.to_arrow().to_pydict(),
    ):
        assert frame == {"id": ["a", "b", "c"], "round": [1, 1, 2], "chance": [0.5, 1.0, 0.25]}
    assert len(table[:0].to_pandas()) == len(table[:0].to_polars()) == len(table[:0].to_arrow()) == 0
    with pytest.raises(IndexError):
        table[3]
    with pytest.raises(KeyError):
        table["no"]


def test_declared_type_may_be_an_alias():
    """NumPy 2.5 declares NDArray so; it needs Python 3.12."""
    scalar = TypeVar("scalar", bound=np.generic)
    rows = TypeAliasType("rows", np.ndarray[Any, np.dtype[scalar]], type_params=(scalar,))
    assert _fits(np.zeros(2), rows[np.float64])
    assert not _fits(np.zeros(2), rows[np.int64])
    assert not _fits([0.0], rows[np.float64])


def test_problem_numbers_log_and_pool_as_one_stack():
    logged = ob.LoggedData([[0.0], [1.0]], [0, 1], propensity=[0.5, 1.0])
    problem = ob.Problem(logged, ob.Pool([[2.0], [3.0]], propensity=0.1))
    rows = problem.positions(np.array([1]), np.array([0, 1]))
    assert rows.tolist() == [1, 2, 3]
    assert problem.take(rows).tolist() == problem.take_for_ranks(rows).tolist() == [[1.0], [2.0], [3.0]]
    assert [block.to_matrix().tolist() for block in problem.blocks()] == [[[0.0], [1.0]], [[2.0], [3.0]]]
    assert [block.shape for block in problem.blocks(stream=True)] == [(2, 1), (0, 1)]
