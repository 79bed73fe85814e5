"""Rows in Parquet that are used like an array, but read a part at a time."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from observal.checks import Bools, Floats, Ints
from observal.errors import InvalidInput
from observal.parquet.executors import Executor, ExecutorLike, Threads, executor_of
from observal.parquet.row_groups import (
    Part,
    Source,
    find_parts,
    open_parquet,
    read_batches,
    require_unchanged,
    schema_of,
    with_checksum,
)
from observal.problem.rows import BLOCK_ROWS, Rows, T, column_of, not_finite
from observal.threads import one_thread

if TYPE_CHECKING:
    import pyarrow as pa

RowIndex: TypeAlias = int | slice | Sequence[int] | Ints | Bools
PAUSE = 1.0  # seconds between two times that a pass gives memory back
_CACHE_BYTES = 32 << 20  # bytes of rows that were taken before, so that taking the same rows again reads nothing


@dataclass(frozen=True, eq=False, repr=False)
class Parts(Rows):
    """Rows in Parquet, one part for each row group, that can be indexed like an array of shape (rows, features).

    Make one with ``of``. ``X[a:b]`` and ``X[positions]`` read the parts that hold these rows and no others. ``map`` goes
    through all rows. ``np.asarray(X)`` reads everything into memory.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> path = tempfile.mkdtemp() + "/rows.parquet"
    >>> pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}), path, row_group_size=2)
    >>> X = Parts.of(path)
    >>> X
    Parts(3 rows × 2 features in 2 parts)
    >>> X[1:].tolist(), X[np.array([2, 0])].tolist()
    ([[2.0, 5.0], [3.0, 6.0]], [[3.0, 6.0], [1.0, 4.0]])
    """

    parts: tuple[Part, ...]  # the row groups
    columns: tuple[str, ...]  # those that features are made from
    width: int  # how many features there are
    dtype: np.dtype[Any]
    # From an Arrow table with `columns` to an array; by default each column is a feature.
    decode: Callable[[Any], NDArray[Any]] | None = None
    executor: Executor = field(default_factory=Threads)  # what reads and computes
    is_finite: bool = False
    _cache: dict[bytes, NDArray[Any]] = field(default_factory=dict)
    in_files: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        source: Source,
        features: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        executor: ExecutorLike = None,
    ) -> Self:
        """Return the rows at a path, folder, glob or URL; `features` are all columns by default, without those to `exclude`."""
        parts = cls(find_parts(source), (), 0, np.dtype(np.float64), executor=executor_of(executor))
        return parts.with_features(features, exclude)

    def with_features(self, features: Sequence[str] | None, exclude: Sequence[str] = ()) -> Self:
        """Return the same rows with other columns of numbers as features; all columns by default, without those to `exclude`."""
        names, dtype = _numeric_columns(self.parts, features, exclude)
        return replace(self, columns=names, width=len(names), dtype=dtype, _cache={})

    def require_columns(self, what: str, names: Iterable[str | None]) -> None:
        """Refuse columns that a file does not have, or whose values are of another type in another file; None is no column."""
        import pyarrow as pa

        for name in (name for name in names if name is not None):
            if name not in self.names:
                raise InvalidInput(
                    f"{what} has no column {name!r}, its columns are {list(self.names)}; choose one of these."
                )
            fields = [schema.field(name) for schema in self._schemas]
            try:
                pa.unify_schemas([pa.schema([field]) for field in fields], promote_options="permissive")
            except pa.ArrowException:
                types = list(dict.fromkeys(str(field.type) for field in fields))
                raise InvalidInput(
                    f"Column {name!r} must hold the same kind of values in every file, but is {types[0]} in one and {types[1]} in another; "
                    "make them the same."
                ) from None

    # -- like an array ------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return int(self.edges[-1]), self.width

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that every file has, features or not."""
        of_files = [schema.names for schema in self._schemas]
        return tuple(name for name in of_files[0] if all(name in names for names in of_files))

    @cached_property
    def _schemas(self) -> list[Any]:
        """The Arrow schema of each file."""
        return [schema_of(part) for part in {part.path: part for part in self.parts}.values()]

    @cached_property
    def edges(self) -> Ints:
        """The first row of each part, and the number of rows."""
        return np.cumsum([0, *(part.rows for part in self.parts)])

    def __repr__(self) -> str:
        return f"Parts({self.shape[0]} rows × {self.width} features in {len(self.parts)} parts)"

    @property
    def feature_names(self) -> list[str]:
        """The columns, if each is a feature."""
        return list(self.columns) if self.decode is None else super().feature_names

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.to_matrix(), dtype=dtype)

    def to_matrix(self) -> NDArray[Any]:
        """Return all rows in memory."""
        return self.collect(_as_tuple)[0]

    def __getitem__(self, which: RowIndex) -> NDArray[Any]:
        if isinstance(which, slice):
            begin, end, step = which.indices(len(self))
            if step == 1 and end - begin == len(self):
                return self.to_matrix()
            return self.take(np.arange(begin, end, step))
        rows = np.asarray(which)
        if rows.dtype == bool:
            if rows.shape != (len(self),):
                raise IndexError(f"{rows.size} flags for {len(self)} rows")
            rows = np.flatnonzero(rows)
        return self.take(rows) if rows.ndim else self.take(rows[None])[0]

    def take(self, rows: Ints) -> NDArray[Any]:
        """Return some rows, in the order given; each part that holds some of them is read once."""
        if rows.size == 0:
            return np.empty((0, self.width), dtype=self.dtype)
        rows = self.positions(rows)
        key = rows.tobytes()
        if key not in self._cache:
            out = np.empty((rows.size, self.width), dtype=self.dtype)
            order = np.argsort(rows, kind="stable")
            cuts = np.searchsorted(rows[order], self.edges)
            requests = [(k, rows[order[a:b]] - self.edges[k]) for k, (a, b) in enumerate(pairwise(cuts)) if a < b]
            for (k, _), block in zip(requests, self.executor.map(partial(_take, self.bare), requests), strict=True):
                out[order[cuts[k] : cuts[k + 1]]] = block
            if out.nbytes + len(key) > _CACHE_BYTES // 2:
                return out
            while sum(block.nbytes for block in self._cache.values()) + out.nbytes > _CACHE_BYTES:
                self._cache.pop(next(iter(self._cache)))
            self._cache[key] = out
        return self._cache[key].copy()

    def positions(self, rows: ArrayLike) -> Ints:
        """Return rows as positions from 0 on: −1 is the last row."""
        numbers = np.asarray(rows)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise IndexError(f"Rows must be whole numbers, but are {numbers.dtype}.")
        numbers = numbers.astype(np.int64, copy=False)
        positions: Ints = np.where(numbers < 0, numbers + len(self), numbers)
        outside = (positions < 0) | (positions >= len(self))
        if outside.any():
            raise IndexError(f"There is no row {int(numbers[outside][0])} among {len(self)}.")
        return positions

    def near(self, rows: Ints | None, most_parts: int) -> Ints:
        """Return those of some rows, by default of all, that are in `most_parts` parts, evenly spread over the files."""
        if len(self.parts) <= most_parts:
            return super().near(rows, most_parts)
        parts = np.linspace(0, len(self.parts) - 1, most_parts).astype(np.int64)
        if rows is None:
            return np.concatenate([np.arange(self.edges[k], self.edges[k + 1]) for k in parts])
        return rows[np.isin(np.searchsorted(self.edges, rows, side="right") - 1, parts)]

    def column(self, k: int) -> Floats:
        """Return one feature of all rows."""
        return np.concatenate(list(self.map(partial(column_of, k=k))))

    # -- part by part -------------------------------------------------------------------------------------------

    @property
    def bare(self) -> Parts:
        """The same rows without their executor: what a worker gets."""
        return replace(self, executor=Threads(1), _cache={})

    def using(self, executor: ExecutorLike) -> Parts:
        """Return the same rows with another executor: see ``executor_of``."""
        return replace(self, executor=executor_of(executor))

    def with_checksums(self) -> Parts:
        """Return the same rows with a checksum for each part; from then on a part whose bytes have changed is refused."""
        return replace(self, parts=tuple(self.executor.map(with_checksum, self.parts)))

    def require_finite(self, what: str) -> Parts:
        """Return the rows, or refuse those with NaN or infinite values; every part is read once."""
        if self.is_finite:
            return self
        bad = sum(self.map(_count_not_finite))
        if bad:
            raise not_finite(what, bad, self.shape[0] * self.width)
        return replace(self, is_finite=True)

    def map(self, function: Callable[[Any], T]) -> Iterator[T]:
        """Yield what a function makes of each block of rows, part after part, in the order of the rows."""
        give_back()  # what came before, such as a fit, may have left much
        with one_thread():
            for results in self.executor.map(partial(_map_part, self.bare, function), range(len(self.parts))):
                yield from results

    def blocks(self, k: int) -> Iterator[NDArray[Any]]:
        """Yield the features of a part, a block at a time."""
        for table in self.tables(k, self.columns):
            yield _to_array(table, self.dtype) if self.decode is None else self.decode(table)

    def tables(self, k: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of a part as they are in the file, an Arrow table for each block."""
        import pyarrow as pa

        part = self.parts[k]
        require_unchanged(part)
        names = None if columns is None else list(columns)
        with open_parquet(part.path) as file:
            waiting: list[pa.RecordBatch] = []
            for batch in read_batches(file, part, BLOCK_ROWS, names):
                waiting.append(batch)
                if sum(batch.num_rows for batch in waiting) >= BLOCK_ROWS:  # batches may be short where pages end
                    table = pa.Table.from_batches(waiting)
                    yield table.slice(0, BLOCK_ROWS)
                    waiting = table.slice(BLOCK_ROWS).to_batches()
            if waiting:
                yield pa.Table.from_batches(waiting)

    def raw_rows(self, rows: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Return some rows as they are in the files, all columns by default, as an Arrow table in the order given."""
        import pyarrow as pa

        positions = self.positions(rows)
        part_of = np.searchsorted(self.edges, positions, side="right") - 1
        empty = schema_of(self.parts[0]).empty_table()
        tables, places = [empty if columns is None else empty.select(columns)], [np.empty(0, dtype=np.int64)]
        for k in np.unique(part_of).tolist():  # one part in memory at a time
            in_part = np.flatnonzero(part_of == k)
            table = pa.concat_tables(self.tables(k, columns), promote_options="permissive")
            tables.append(table.take(positions[in_part] - int(self.edges[k])))
            places.append(in_part)
            del table
            give_back(PAUSE)
        whole = pa.concat_tables(tables, promote_options="permissive")
        return whole.take(np.argsort(np.concatenate(places))).combine_chunks()


def _take(X: Parts, request: tuple[int, Ints]) -> NDArray[Any]:
    """Return some rows of a part; the request is the part's number, and rows in increasing order."""
    k, rows = request
    out, begin = [], 0
    for block in X.blocks(k):
        a, b = np.searchsorted(rows, [begin, begin + len(block)])
        out.append(block[rows[a:b] - begin])
        begin += len(block)
        if b == rows.size:
            break
    give_back(PAUSE)
    return np.concatenate(out)


def _map_part(X: Parts, function: Callable[[Any], T], k: int) -> list[T]:
    results = [function(block) for block in X.blocks(k)]
    give_back(PAUSE)
    return results


def _as_tuple(block: NDArray[Any]) -> tuple[NDArray[Any]]:
    return (block,)


def _count_not_finite(block: NDArray[Any]) -> int:
    return int(block.size - np.isfinite(block).sum())


def _to_array(table: pa.Table, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return columns of numbers as a row-major array, NaN where missing."""
    out = np.empty((table.num_rows, table.num_columns), dtype=dtype)
    for k, column in enumerate(table.columns):
        out[:, k] = (column.cast("uint8") if column.type == "bool" else column).to_numpy()
    return out


def _numeric_columns(
    parts: Sequence[Part], features: Sequence[str] | None, exclude: Sequence[str]
) -> tuple[tuple[str, ...], np.dtype[Any]]:
    """Return the feature columns, and float32 if that holds all of them exactly, else float64."""
    from pyarrow import types

    schema = schema_of(parts[0])
    names = tuple(features) if features is not None else tuple(n for n in schema.names if n not in exclude)
    small = True
    for name in names:
        if name not in schema.names:
            raise InvalidInput(
                f"{parts[0].path} has no column {name!r}, its columns are {schema.names}; choose from these."
            )
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise InvalidInput(
                f"Feature column {name!r} must be numeric or boolean, but is {kind}; leave it out with features=, or make a campaign "
                "with in_place=True, which encodes columns of any kind."
            )
        small &= types.is_boolean(kind) or kind.bit_width < 32 or types.is_float32(kind)
    for path in dict.fromkeys(part.path for part in parts):
        own = schema_of(next(part for part in parts if part.path == path))
        difference = next(
            (name for name in names if name not in own.names or own.field(name).type != schema.field(name).type), None
        )
        if difference is not None:
            raise InvalidInput(
                f"All files must have the same columns, but {difference!r} differs in {path}; make them the same."
            )
    return names, np.dtype(np.float32 if small else np.float64)


# -- memory --------------------------------------------------------------------------------------------------------

# Arrow and the C library keep what is freed for the next time. After a pass over a big table that may be hundreds of megabytes, which the next
# step, such as a fit, cannot use.

_last = threading.local()


def give_back(pause: float = 0.0) -> None:
    """Give freed memory back to the system, Arrow's for the thread that calls it; values stay as they are.

    Nothing is done if less than `pause` seconds have passed since this thread last did so: getting memory again takes time, which counts
    where parts are quick.

    Examples
    --------
    >>> give_back()
    """
    now = time.monotonic()
    if now - getattr(_last, "time", -math.inf) < pause:
        return
    _last.time = now
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    _trim()(0)


@lru_cache(maxsize=1)
def _trim() -> Callable[[int], int]:
    """Return glibc's ``malloc_trim``, or what does nothing where there is none."""
    import ctypes

    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return lambda _: 0
    return trim
