"""Users' own tables (pandas, polars or pyarrow), with text, categories and missing values; only rows are selected."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from observal.checks import Floats, Ints
from observal.errors import InvalidInput, ObservalWarning
from observal.parquet import Parts
from observal.problem.arrow_stream import Budget, pack_table, unpack_table
from observal.problem.labels import is_missing
from observal.problem.rows import Features, Matrix, Rows, T, as_rows, check_features

if TYPE_CHECKING:
    import narwhals as nw
    from narwhals.typing import IntoDataFrame

ENCODE_OR_PIPELINE = "use observal.load_problem, which encodes columns of any kind, or CommitteeVC around a pipeline that takes the table as it is"


@dataclass(frozen=True, eq=False)
class Frame(Rows):
    """The features of a log or pool as the user's own table, which becomes an array only if it is all numbers.

    `native` is a pandas, polars or pyarrow table and is not copied: do not change it afterwards. `what` names
    the columns in messages.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> frame = Frame(pd.DataFrame({"home": ["own", None], "age": [30.0, np.nan]}), "The log's features")
    >>> frame.shape, frame.names
    ((2, 2), ['home', 'age'])
    >>> np.asarray(frame)
    Traceback (most recent call last):
        ...
    observal.errors.InvalidInput: The log's features must be finite numbers here, but column 'home' has missing or other values (str); use observal.load_problem, which encodes columns of any kind, or CommitteeVC around a pipeline that takes the table as it is.
    """

    native: Any
    what: str
    is_table: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.native.shape
        return int(rows), int(columns)

    @property
    def names(self) -> list[Any]:
        """The column names."""
        return list(getattr(self.native, "column_names", self.native.columns))

    @property
    def types(self) -> list[Any]:
        """The type of each column, as the user's library calls it."""
        schema: Any = getattr(self.native, "schema", None)
        return list(schema.types if hasattr(schema, "types") else self.native.dtypes)

    @property
    def library(self) -> str:
        """The name of the table's library."""
        return type(self.native).__module__.split(".")[0]

    def to_bytes(self) -> NDArray[np.uint8] | None:
        """Return the table in Arrow's stream format; None if it would not survive the round trip."""
        import pyarrow as pa

        try:
            if self.library == "pandas":
                table = pa.Table.from_pandas(self.native)
            else:
                table = self.native if self.library == "pyarrow" else self.native.to_arrow()
            packed = np.frombuffer(pack_table(table), dtype=np.uint8)
            back = Frame.from_bytes(packed, self.library, self.what)
        except (pa.ArrowException, AttributeError, TypeError):
            return None
        return packed if back.types == self.types and back.names == self.names else None

    @classmethod
    def from_bytes(cls, packed: NDArray[Any], library: str, what: str, budget: Budget | None = None) -> Self:
        """Return the table that ``to_bytes`` packed; its size is taken from `budget`."""
        # It is not compressed, but a byte holds eight booleans, and nulls take none.
        table = unpack_table(packed.tobytes(), max(64 * packed.size, 2**27), budget)
        if library == "pandas":
            return cls(table.to_pandas(), what)
        if library == "polars":
            import polars as pl

            return cls(pl.from_arrow(table), what)
        if library == "pyarrow":
            return cls(table, what)
        raise ValueError(f"a table of {library!r:.20}")

    def to_matrix(self) -> Matrix:
        """Return the values as numbers; raise if any is not."""
        try:
            return check_features(self.native, self.what)
        except InvalidInput:
            raise InvalidInput(self.describe_non_numbers(f"{self.what} must be finite numbers here")) from None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.to_matrix(), dtype=dtype)

    def take(self, rows: Ints) -> Matrix:
        """Return some rows as numbers; raise if any value is not."""
        return self.to_matrix()[rows]

    def map(self, function: Callable[[Any], T]) -> Iterable[T]:
        """Yield the function's result for each block; raise if any value is not a number."""
        return as_rows(self.to_matrix()).map(function)

    def require_finite(self, what: str) -> Rows:
        """Return the table as rows of numbers, or raise."""
        return as_rows(self.to_matrix())

    def select(self, rows: Ints) -> Frame:
        """Return some rows as a table."""
        import narwhals as nw

        table = nw.from_native(self.native, eager_only=True)[rows]
        return Frame(table.to_native(), self.what)

    def stack(self, bottom: Rows) -> Rows:
        """Return the table followed by another with the same columns, as one table."""
        if not isinstance(bottom, Frame):
            return super().stack(bottom)
        import narwhals as nw

        tables = [nw.from_native(frame.native, eager_only=True) for frame in (self, bottom)]
        return Frame(nw.concat(tables, how="vertical").to_native(), self.what)

    def for_estimator(self) -> IntoDataFrame:
        """Return the user's table unchanged."""
        native: IntoDataFrame = self.native
        return native

    def ranks(self, rows: Ints) -> Floats:
        """Return some rows as sortable numbers: missing values come first, and other columns become constant."""
        import narwhals as nw

        table = nw.from_native(self.select(rows).native, eager_only=True)
        out = np.zeros((rows.size, self.shape[1]))
        for k, (name, kind) in enumerate(table.schema.items()):
            if kind.is_numeric() or kind == nw.Boolean:
                values = [-np.inf if is_missing(value) else value for value in table[name].to_list()]
                out[:, k] = np.array(values, dtype=np.float64)
        return out

    def describe_non_numbers(self, need: str, instead: str = ENCODE_OR_PIPELINE) -> str:
        """Return a sentence naming the first column with anything but finite numbers."""
        for name, kind in zip(self.names, self.types, strict=True):
            try:
                check_features(np.asarray(self.native[name])[:, None], self.what)
            except InvalidInput:
                return f"{need}, but column {name!r} has missing or other values ({kind}); {instead}."
        return f"{need}, but the table has missing or other values; {instead}."


def as_frame(X: Features, what: str) -> Frame | None:
    """Return the features as a ``Frame`` if they are a pandas, polars or pyarrow table; else None."""
    if isinstance(X, Frame):
        return X
    if isinstance(X, np.ndarray | list | tuple) or not hasattr(type(X), "columns"):
        return None
    import narwhals as nw  # lazy: most users pass arrays

    try:
        table = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.NarwhalsError:  # duplicate column names
        return None
    return Frame(X, what) if isinstance(table, nw.DataFrame) else None


def read_features(X: Features, what: str) -> tuple[Matrix | Rows, Frame | None]:
    """Return features as numbers and as a table: None for arrays; a table with text stands in for its numbers."""
    frame = as_frame(X, what)
    if frame is None:
        return (X.require_finite(what) if isinstance(X, Rows) else check_features(X, what)), None
    try:
        return check_features(frame.native, what), frame
    except InvalidInput:
        return frame, frame


def column_names(table: object) -> list[str] | None:
    """Return the column names of a table or of Parquet files; None for anything else, or if two have the same name."""
    columns = table.columns if isinstance(table, Parts) and table.decode is None else ()
    names = [str(name) for name in (table.names if isinstance(table, Frame) else columns)]
    return names if 0 < len(names) == len(set(names)) else None


def by_name(X: Any, names: Sequence[str] | None, what: str = "The table to predict") -> Any:
    """Return the named columns of a table or of Parquet files, in this order; arrays, which have no names, unchanged."""
    table = X if isinstance(X, Parts) else as_frame(X, what)
    own = column_names(table)
    if table is None or names is None or own is None or own == list(names):
        return X
    place = {name: k for k, name in enumerate(own)}
    if missing := [repr(name) for name in names if name not in place]:
        raise InvalidInput(
            f"{what} must have the columns of the log by name, but has no {', '.join(missing[:5])}; add what is missing, or give an array, which is read by position."
        )
    if extra := sorted(place.keys() - set(names)):
        warnings.warn(f"{what} has columns that are ignored, as the log has none: {extra[:5]}.", ObservalWarning, 2)
    if isinstance(table, Parts):
        return table.with_features(names)
    import narwhals as nw

    picked = nw.from_native(table.native, eager_only=True)[:, [place[name] for name in names]]
    return Frame(picked.to_native(), table.what)


def difference(log: Frame | None, pool: Frame | None) -> str | None:
    """Return a sentence on why two tables cannot be stacked; None if they can.

    Examples
    --------
    >>> import pandas as pd
    >>> difference(Frame(pd.DataFrame({"age": [1, 2]}), "log"), Frame(pd.DataFrame({"age": [0.5, 1.0]}), "pool"))
    "Log and pool must have the same types of columns, but column 'age' is int64 in the log and float64 in the pool; convert one of them, as in pool.astype({'age': log['age'].dtype})."
    """
    if log is None or pool is None or type(log.native) is not type(pool.native):
        kinds = ["an array" if frame is None else f"a table of {frame.library}" for frame in (log, pool)]
        return f"Log and pool must both be tables of the same library, but the log is {kinds[0]} and the pool {kinds[1]}; give both as the same."
    for name, log_type, pool_type in zip(log.names, log.types, pool.types, strict=True):
        if log_type != pool_type and str(log_type) == str(pool_type):
            return (
                f"Log and pool must have the same categories in a column, but those of {name!r} differ; give both the same ones, as in "
                f"astype(pandas.CategoricalDtype([…]))."
            )
        if log_type != pool_type:
            return (
                f"Log and pool must have the same types of columns, but column {name!r} is {log_type} in the log and {pool_type} in the pool; "
                f"convert one of them, as in pool.astype({{{name!r}: log[{name!r}].dtype}})."
            )
    return None


def read_frame(
    frame: IntoDataFrame, what: str, features: Sequence[str] | None, **roles: str | None
) -> tuple[dict[str | None, NDArray[Any]], NDArray[Any] | Frame, Frame]:
    """Return the columns with a role (label, propensity, …), and the features as numbers if possible and as a table."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    column_of_role = {role: column for role, column in roles.items() if column is not None}
    for role, column in [*column_of_role.items(), *(("feature", name) for name in features or ())]:
        if column not in table.columns:
            raise InvalidInput(
                f"The table has no column {column!r} for the {role}, its columns are {table.columns}; choose one of these."
            )
    names = list(features) if features is not None else [c for c in table.columns if c not in column_of_role.values()]
    columns: dict[str | None, NDArray[Any]] = {
        column: np.asarray(table[column].to_list(), dtype=object) if role == "label" else table[column].to_numpy()
        for role, column in column_of_role.items()
    }
    own = Frame(table.select(names).to_native(), what)
    return columns, _numbers([table[name] for name in names], len(table), own), own


def _numbers(columns: Sequence[nw.Series[Any]], n_rows: int, otherwise: Frame) -> NDArray[Any] | Frame:
    """Return numeric and boolean columns as one array, or `otherwise` if there is anything else or a missing value."""
    import narwhals as nw

    if not columns:
        return np.empty((n_rows, 0))
    if not all(column.dtype.is_numeric() or column.dtype == nw.Boolean for column in columns):
        return otherwise
    if any(column.null_count() for column in columns):
        return otherwise
    X = np.column_stack([column.to_numpy().astype(np.float64) for column in columns])
    return X if np.isfinite(X).all() else otherwise
