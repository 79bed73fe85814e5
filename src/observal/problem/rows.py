"""The features of a log or a pool behind one type, wherever they are stored.

``Rows`` has four implementations: ``DenseRows`` and ``SparseRows`` here, ``Frame`` for a user's own table,
``Parts`` for Parquet that stays on disk. Code that goes through all rows, or selects some, gets Rows; code
that computes in memory gets a ``Matrix``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Floats, Ints, frozen
from observal.errors import InvalidInput
from observal.threads import one_thread

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame
    from scipy.sparse import csc_array, csr_array, sparray, spmatrix
    from typing_extensions import TypeIs

T = TypeVar("T")

# As text, because scipy and narwhals are slow to import and most users never need them.
Sparse: TypeAlias = "csr_array[Any]"
Matrix: TypeAlias = "NDArray[Any] | csr_array[Any]"
"""Rows in memory: a float32 or float64 array, or a CSR matrix of such numbers."""
Features: TypeAlias = "ArrayLike | sparray | spmatrix | IntoDataFrame | Rows"
"""What users may pass as X: an array or nested lists, a sparse matrix, a table, or rows that stay in Parquet."""

BLOCK_ROWS = 16_384
"""Rows per block, chosen to fit the cache. Row groups that are a multiple of it are split like an array."""


class Rows(ABC):
    """Rows of features: an array, a CSR matrix, a user's own table, or Parquet that stays on disk.

    Examples
    --------
    >>> import numpy as np
    >>> rows = as_rows(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    >>> rows.shape, rows.take(np.array([2, 0])).tolist(), rows.column(1).tolist()
    ((3, 2), [[5.0, 6.0], [1.0, 2.0]], [2.0, 4.0, 6.0])
    """

    is_sparse: ClassVar[bool] = False
    """Whether blocks are CSR matrices."""
    is_table: ClassVar[bool] = False
    """Whether this is a user's own table, which may hold text and missing values."""
    in_files: ClassVar[bool] = False
    """Whether the rows stay in files and are read on demand."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""

    @abstractmethod
    def take(self, rows: Ints) -> Matrix:
        """Return some rows as numbers, in the order given."""

    @abstractmethod
    def to_matrix(self) -> Matrix:
        """Return all rows as numbers in memory."""

    @abstractmethod
    def map(self, function: Callable[[Any], T]) -> Iterable[T]:
        """Yield the function's result for each block of rows, in order.

        The function gets an array or CSR matrix. With processes or a cluster it is pickled.
        """

    @abstractmethod
    def require_finite(self, what: str) -> Rows:
        """Return the rows, or raise if a value is not a finite number."""

    def __len__(self) -> int:
        return self.shape[0]

    def select(self, rows: Ints) -> Rows:
        """Return some rows as Rows; those of a user's table stay a table."""
        return as_rows(self.take(rows))

    def for_estimator(self) -> Matrix | IntoDataFrame:
        """Return all rows as input for a user's estimator: a user's table unchanged."""
        return self.to_matrix()

    def column(self, k: int) -> Floats:
        """Return one feature of all rows."""
        return column_of(self.to_matrix(), k)

    def ranks(self, rows: Ints) -> Matrix:
        """Return some rows as sortable numbers, even if the rows hold other values."""
        return self.take(rows)

    def stack(self, bottom: Rows) -> Rows:
        """Return these rows followed by others with the same features, in memory."""
        return as_rows(stack_rows(self.to_matrix(), bottom.to_matrix()))

    @property
    def feature_names(self) -> list[str]:
        """Feature names to show if nothing else names them."""
        return [f"x{k}" for k in range(self.shape[1])]

    def near(self, rows: Ints | None, most_parts: int) -> Ints:
        """Return those of the given rows (by default all) that can be read by opening at most `most_parts` parts."""
        return np.arange(len(self)) if rows is None else rows

    def collect(self, function: Callable[[Any], tuple[NDArray[Any], ...]]) -> list[NDArray[Any]]:
        """Apply a function to blocks of rows and return its concatenated arrays.

        Examples
        --------
        >>> import numpy as np
        >>> rows = as_rows(np.array([[1.0], [2.0]]))
        >>> [values.tolist() for values in rows.collect(lambda block: (block[:, 0], block[:, 0] > 1))]
        [[1.0, 2.0], [False, True]]
        """
        out: list[NDArray[Any]] = []
        end = 0
        for arrays in self.map(function):
            if not out:
                out = [np.empty((len(self), *array.shape[1:]), dtype=array.dtype) for array in arrays]
            begin, end = end, end + len(arrays[0])
            for whole, array in zip(out, arrays, strict=True):
                whole[begin:end] = array
        return out


@dataclass(frozen=True, eq=False)
class _InMemory(Rows):
    """Rows in memory, as one array or CSR matrix."""

    X: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return int(self.X.shape[0]), int(self.X.shape[1])

    def take(self, rows: Ints) -> Matrix:
        """Return some rows, in the order given."""
        return self.X[rows]

    def to_matrix(self) -> Matrix:
        """Return the array or matrix itself."""
        return self.X

    def map(self, function: Callable[[Any], T]) -> Iterator[T]:
        """Yield the function's result for each block of rows, in order; several run in parallel.

        Examples
        --------
        >>> import numpy as np
        >>> list(as_rows(np.zeros((20_000, 1))).map(len))
        [16384, 3616]
        """
        from observal.parquet.executors import Threads  # lazy: parquet imports this module

        begins = range(0, max(1, len(self)), BLOCK_ROWS)
        with one_thread():
            yield from Threads().map(lambda begin: function(self.X[begin : begin + BLOCK_ROWS]), begins)

    def require_finite(self, what: str) -> Rows:
        """Return the rows, or raise if a value is not a finite number."""
        _require_finite(self.X.data if is_sparse(self.X) else self.X, what)
        return self


class DenseRows(_InMemory):
    """An array of features."""


class SparseRows(_InMemory):
    """A CSR matrix of features."""

    is_sparse = True


def as_rows(X: Matrix | Rows) -> Rows:
    """Return checked features as Rows; Rows are returned unchanged."""
    if isinstance(X, Rows):
        return X
    return SparseRows(X) if is_sparse(X) else DenseRows(X)


def read_rows(X: Features, what: str) -> Rows:
    """Return a user's features as Rows of finite numbers."""
    return X.require_finite(what) if isinstance(X, Rows) else as_rows(check_features(X, what))


def check_features(X: Features, what: str) -> Matrix:
    """Return X as a finite, two-dimensional float array or CSR matrix."""
    rows: Matrix
    if (csr := as_csr(X)) is not None:
        rows = csr.astype(np.float64) if csr.dtype not in (np.float32, np.float64) else csr
    else:
        try:
            dense = np.asarray(X)
            if dense.dtype.kind == "c":
                raise TypeError("complex numbers have no order")
            rows = dense.astype(np.float64) if dense.dtype not in (np.float32, np.float64) else dense
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{what} must be numbers, but a value could not be read as one ({error}); "
                "encode text and categories as numbers first."
            ) from None
    if rows.ndim != 2:
        raise InvalidInput(
            f"{what} must have two dimensions, rows × features, but has shape {rows.shape}; reshape it first."
        )
    _require_finite(rows.data if is_sparse(rows) else rows, what)
    return rows if is_sparse(rows) else frozen(rows)


def _require_finite(values: NDArray[Any], what: str) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        raise not_finite(what, int(finite.size - finite.sum()), values.size)


def not_finite(what: str, n_bad: int, n_values: int) -> InvalidInput:
    """Return the error for features that are not all finite."""
    return InvalidInput(
        f"{what} must be finite, but {n_bad} of {n_values} values are NaN or infinite; impute or drop them first."
    )


def rows_to_predict(X: Features, n_features: int, classifier: object = None) -> Rows:
    """Return rows of finite numbers with the features of training, which a table has by name if the classifier knows names."""
    from observal.problem.frames import by_name  # lazy: it imports this module

    rows = read_rows(by_name(X, getattr(classifier, "feature_names_in_", None)), "The rows to predict")
    if rows.shape[1] != n_features:
        raise InvalidInput(
            f"The rows to predict must have {n_features} features as in training, but have {rows.shape[1]}."
        )
    return rows


class _HasToArray(Protocol):
    """A sparse matrix of any format."""

    def toarray(self) -> NDArray[Any]: ...


# -- helpers for matrices ----------------------------------------------------------------------------------------


def as_csr(X: object) -> Sparse | None:
    """Return a sparse matrix of any format in CSR format; None for anything else."""
    return X.tocsr() if hasattr(X, "tocsr") else None


def count_rows(X: Features) -> int:
    """Return the number of rows of X, which may be nested lists."""
    shape: tuple[int, ...] = X.shape if hasattr(X, "shape") else np.shape(np.asarray(X))
    return int(shape[0]) if shape else 0


def single_precision(X: Features) -> Matrix:
    """Return rows as scikit-learn's trees take them unchecked: float32, dense or CSR."""
    csr = as_csr(X)
    return np.asarray(X, dtype=np.float32) if csr is None else csr.astype(np.float32)


def is_sparse(X: Matrix) -> TypeIs[Sparse]:
    """Return whether a matrix is sparse."""
    return not isinstance(X, np.ndarray)


def to_dense(X: NDArray[Any] | _HasToArray) -> NDArray[Any]:
    """Return a matrix as a dense array; an array is returned unchanged.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> to_dense(csr_array([[0.0, 2.0]])).tolist()
    [[0.0, 2.0]]
    """
    return X if isinstance(X, np.ndarray) else np.asarray(X.toarray())


def column_of(X: Matrix | csc_array[Any], k: int) -> Floats:
    """Return one column of a matrix as an array of float64."""
    return np.asarray(X[:, k] if isinstance(X, np.ndarray) else to_dense(X[:, [k]])[:, 0], dtype=np.float64)


def by_column(X: Matrix) -> NDArray[Any] | csc_array[Any]:
    """Return a matrix with fast column access: a sparse one in CSC format."""
    return X.tocsc() if is_sparse(X) else X


def stack_rows(top: Matrix, bottom: Matrix) -> Matrix:
    """Stack two blocks of rows: a C-ordered array, or a CSR matrix if one of them is sparse."""
    if not is_sparse(top) and not is_sparse(bottom):
        return np.concatenate([top, bottom])
    from scipy.sparse import csr_array, vstack

    rows: Sparse = vstack([csr_array(top), csr_array(bottom)], format="csr")
    rows.sum_duplicates()
    return rows


def with_constant(X: Matrix, value: float = 1.0) -> Matrix:
    """Append a constant column.

    Examples
    --------
    >>> import numpy as np
    >>> with_constant(np.array([[2.0], [3.0]])).tolist()
    [[2.0, 1.0], [3.0, 1.0]]
    """
    constant = np.full((X.shape[0], 1), value, dtype=X.dtype)
    if not is_sparse(X):
        return np.hstack([X, constant])
    from scipy.sparse import csr_array, hstack

    stacked: Matrix = hstack([X, csr_array(constant)], format="csr")
    return stacked
