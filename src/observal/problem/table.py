"""Named columns of equal length: what queries and decisions are returned as."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from observal.checks import frozen
from observal.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


class Table:
    """Named columns of equal length; a row is a named tuple.

    A string selects a column, a number a row, and a slice, a mask or an array of positions a table.
    ``to_pandas``, ``to_polars`` and ``to_arrow`` convert it.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.problem.table import Table
    >>> table = Table(id=np.array(["a", "b"]), label=np.array([0, 1]))
    >>> len(table), table["label"].tolist(), next(iter(table)).id
    (2, [0, 1], 'a')
    >>> table[-1], table[:1], table[table["label"] == 1]["id"].tolist()
    (Row(id='b', label=1), Table(1 rows: id, label), ['b'])
    >>> table.to_arrow().to_pydict()
    {'id': ['a', 'b'], 'label': [0, 1]}
    """

    def __init__(self, **columns: NDArray[Any]) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"The columns of a table must be equally long, but have lengths {lengths}.")
        self.columns: dict[str, NDArray[Any]] = {name: frozen(np.asarray(c)) for name, c in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, key: SupportsIndex) -> Any: ...

    @overload
    def __getitem__(self, key: slice | Sequence[int] | NDArray[Any]) -> Table: ...

    def __getitem__(self, key: str | SupportsIndex | slice | Sequence[int] | NDArray[Any]) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        if isinstance(key, SupportsIndex) and not isinstance(key, np.ndarray):
            return self._row()(
                *(c[key].item() if isinstance(c[key], np.generic) else c[key] for c in self.columns.values())
            )
        rows = key if isinstance(key, slice) or len(key) else np.empty(0, dtype=np.int64)
        return Table(**{name: column[rows] for name, column in self.columns.items()})

    def __iter__(self) -> Iterator[Any]:
        row = self._row()
        return (row(*values) for values in zip(*(c.tolist() for c in self.columns.values()), strict=True))

    def _row(self) -> Any:
        names = list(self.columns)
        return namedtuple("Row", names)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns)})"

    def to_arrow(self) -> pa.Table:
        """Return a ``pyarrow.Table``."""
        import pyarrow as pa

        return pa.table({name: pa.array(column.tolist()) for name, column in self.columns.items()})

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``; pandas must be installed."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return a ``polars.DataFrame``; polars must be installed."""
        import polars as pl

        return pl.DataFrame({name: column.tolist() for name, column in self.columns.items()})
