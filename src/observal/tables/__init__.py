"""Tables in: files and frames of any kind become one Arrow table, then numbers, then a log and a pool.

``read_table`` → ``TableEncoder.learn`` → ``encode``; :func:`load_problem` does all of it for a log and a pool.
:class:`TableTransformer` is the same encoding as a scikit-learn transformer, so that a stored model takes raw rows.
"""

from typing import TYPE_CHECKING, Any

from observal.tables.columns import ColumnRule
from observal.tables.encoding import TableEncoder
from observal.tables.problem import LoadedProblem, TableRoles, load_problem
from observal.tables.reading import read_table
from observal.tables.roles import read_ids, read_labels, read_numbers

if TYPE_CHECKING:
    from observal.tables.transformer import TableTransformer

__all__ = [
    "ColumnRule",
    "LoadedProblem",
    "TableEncoder",
    "TableRoles",
    "TableTransformer",
    "load_problem",
    "read_ids",
    "read_labels",
    "read_numbers",
    "read_table",
]


def __getattr__(name: str) -> Any:
    if name == "TableTransformer":  # lazy: it brings scikit-learn with it
        from observal.tables.transformer import TableTransformer

        return TableTransformer
    raise AttributeError(f"module 'observal.tables' has no attribute {name!r}")
