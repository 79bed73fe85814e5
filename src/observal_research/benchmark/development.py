"""Tables to make design choices on: a folder of parquet files, categories as text, the class in the column ``label``."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.problem.labels import distinct_labels

LABEL, DESCRIPTIONS = "label", "tables.json"


class Encoded(NamedTuple):
    """A table as numbers, with the classes it came with."""

    X: Floats
    y: NDArray[Any]


def list_tables(folder: str | Path) -> tuple[str, ...]:
    """Return the names of the tables in the folder, in order."""
    names = tuple(sorted(file.stem for file in Path(folder).glob("*.parquet")))
    if not names:
        raise InvalidInput(
            f"There are no parquet files in {folder}; give the folder that holds the development tables."
        )
    return names


@lru_cache(maxsize=32)
def load_table(folder: str | Path, name: str) -> Encoded:
    """Return the table in the library's own encoding: one column a category, medians where a number is missing."""
    from observal.tables import TableEncoder, read_table

    path = Path(folder) / f"{name}.parquet"
    table = read_table(path)
    if LABEL not in table.column_names:
        raise InvalidInput(
            f"{path} needs a column {LABEL!r} for the class, but has the columns {table.column_names}; rename one."
        )
    X = TableEncoder.learn([table], exclude=(LABEL,)).encode(table)
    return Encoded(X, np.array(table.column(LABEL).to_pylist(), dtype=str))


def is_described(folder: str | Path) -> bool:
    """Return whether the folder holds raw tables as somebody published them, which its tables.json describes."""
    return (Path(folder) / DESCRIPTIONS).is_file()


def list_described(folder: str | Path) -> tuple[str, ...]:
    """Return the names of the raw tables with two classes."""
    entries = json.loads((Path(folder) / DESCRIPTIONS).read_text())
    return tuple(name for name, entry in entries.items() if entry["positive"])


@lru_cache(maxsize=32)
def load_described(folder: str | Path, name: str) -> Encoded:
    """Return a raw table with two classes in the library's own encoding, and 1 for its positive class."""
    from observal.tables import TableEncoder, read_table

    entry = json.loads((Path(folder) / DESCRIPTIONS).read_text())[name]
    table = read_table(Path(folder) / entry["file"])
    left_out = {entry["label"], entry["id"], *entry["exclude"], *entry["text"]} - {None}
    labels = [str(label).lower() for label in table.column(entry["label"]).to_pylist()]  # TRUE may be read as True
    return Encoded(
        np.asarray(TableEncoder.learn([table], exclude=tuple(left_out)).encode(table)),
        np.array([int(label == entry["positive"].lower()) for label in labels]),
    )


@lru_cache(maxsize=256)
def count_classes(folder: str | Path, name: str) -> int:
    """Return how many classes the table has."""
    return len(distinct_labels(load_table(folder, name).y))


def halves(y: NDArray[Any]) -> Ints:
    """Return 0 for the first half of the sorted classes and 1 for the others, to fit policies for two classes on.

    Examples
    --------
    >>> halves(np.array(["c", "a", "b", "a"])).tolist()
    [1, 0, 1, 0]
    """
    classes = distinct_labels(y)
    return np.where(np.isin(y, classes[: len(classes) // 2]), 0, 1)
