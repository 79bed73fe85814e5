"""Labels of a log: what is missing, and −1, which may be a class or mark rows without a label."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import observal as ob
from observal.errors import InvalidLabel

X = np.zeros((4, 1))
UNCLEAR = r"^Labels show -1 beside .*; if it marks them, give NaN or None there .*\(classes= or --classes\)\.$"


def from_arrays(y, folder, classes=None):
    return ob.LoggedData(X, y, 0.5, classes=classes)


def from_table(y, folder, classes=None):
    column = pd.Series(list(y), dtype=object).map(lambda value: value if value is None else str(value))
    table = pd.DataFrame({"x": range(4), "y": column, "q0": 0.5})
    return ob.load_problem([table], table, ob.TableRoles("y", "q0"), classes=classes).logged


def from_parquet(y, folder, classes=None):
    path = folder / "log.parquet"
    column = pa.array(y) if np.asarray(y).dtype.kind in "if" else pa.array([v if v is None else str(v) for v in y])
    pq.write_table(pa.table({"x": np.arange(4.0), "y": column, "q0": np.full(4, 0.5)}), path)
    return ob.LoggedData.from_parquet(path, label="y", propensity="q0", classes=classes)


READERS = pytest.mark.parametrize("read", [from_arrays, from_table, from_parquet])


@READERS
@pytest.mark.parametrize(
    "y", [[0, 1, -1, -1], ["no", "yes", -1, -1], ["no", "yes", "-1", None], [-1, 0, 0, 0], [-1, 0, 1, 2]]
)
def test_minus_one_that_may_mark_unlabelled_rows_is_asked_about(read, y, tmp_path):
    with pytest.raises(InvalidLabel, match=UNCLEAR):
        read(y, tmp_path)


@READERS
@pytest.mark.parametrize(("y", "classes"), [([-1, 1, 1, -1], 2), ([-2, -1, 0, 1], 4), (["-1", "1", None, "1"], 2)])
def test_minus_one_that_is_plainly_a_class_stays_one(read, y, classes, tmp_path):
    assert len(read(y, tmp_path).classes) == classes


@READERS
def test_minus_one_among_named_classes_is_a_class(read, tmp_path):
    logged = read(["no", "yes", "-1", None], tmp_path, classes=["-1", "no", "yes"])
    assert logged.classes.tolist() == ["-1", "no", "yes"]
    assert logged.revealed.tolist() == [True, True, True, False]


@READERS
def test_empty_text_is_a_missing_label(read, tmp_path):
    logged = read(["no", "", "yes", " "], tmp_path)
    assert logged.revealed.tolist() == [True, False, True, False]
    assert logged.classes.tolist() == ["no", "yes"]


def test_empty_text_is_a_class_if_it_is_named():
    assert from_arrays(["", "x", "x", None], None, classes=["", "x"]).revealed.tolist() == [True, True, True, False]


def test_logged_classifier_takes_empty_text_as_missing():
    rows = np.array([[0.0], [1.0], [2.0], [3.0]])
    assert ob.LoggedClassifier().fit(
        rows, ["no", "", "yes", "yes"], propensity=[1.0, 0.5, 1.0, 1.0]
    ).classes_.tolist() == ["no", "yes"]
