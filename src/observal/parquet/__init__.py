"""Rows that stay in Parquet: row groups that are read when they are needed, and executors that compute on them.

``row_groups.py`` finds and opens the row groups, ``parts.py`` has ``Parts``, the rows of features, ``vectors.py`` the columns with one value
for each row, ``executors.py`` and ``cluster.py`` what computes.
"""

from observal.parquet.executors import Executor, ExecutorLike, Threads, executor_of
from observal.parquet.parts import Parts
from observal.parquet.row_groups import Source
from observal.parquet.vectors import LazyIds, StackedVectors, read_coded_labels, read_floats, read_groups

__all__ = [
    "Executor",
    "ExecutorLike",
    "LazyIds",
    "Parts",
    "Source",
    "StackedVectors",
    "Threads",
    "executor_of",
    "read_coded_labels",
    "read_floats",
    "read_groups",
]
