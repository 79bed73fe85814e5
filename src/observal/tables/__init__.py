"""Tables in: files and frames of any kind become one Arrow table, then numbers, then a log and a pool.

``read_table`` → ``TableEncoder.learn`` → ``encode``; ``load_problem`` does all of it for a log and a pool.
``TableTransformer`` is the same encoding as a scikit-learn transformer, so that a stored model takes raw rows.
"""

from typing import TYPE_CHECKING, Any

from observal.tables.column_format import ColumnFormat
from observal.tables.encoder import ColumnRule, TableEncoder
from observal.tables.load import LoadedProblem, load, load_problem
from observal.tables.read import read_table
from observal.tables.roles import TableRoles, read_ids, read_labels, read_numbers
from observal.tables.table_format import TableFormat

if TYPE_CHECKING:
    from observal.tables.transformer import TableTransformer

__all__ = [
    "ColumnFormat",
    "ColumnRule",
    "LoadedProblem",
    "TableEncoder",
    "TableFormat",
    "TableRoles",
    "TableTransformer",
    "load",
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
