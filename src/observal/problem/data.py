"""What a user brings: the log and the pool. Each is frozen and checked once, when it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from observal.checks import Bools, Floats, Ints, check_cost, check_ids, check_propensity, frozen
from observal.errors import InvalidInput, InvalidLabel, InvalidPropensity
from observal.problem.column_groups import ColumnGroups
from observal.problem.frames import Frame, read_features, read_frame
from observal.problem.labels import distinct_labels, encode_labels, missing_mask


@dataclass(frozen=True, eq=False, repr=False)
class LoggedData:
    """Rows that an old policy saw, with labels only where it chose to look.

    Parameters
    ----------
    X : array, sparse matrix or table of shape (rows, features)
        Finite numbers. Not copied, because it may be large: do not change it afterwards. A pandas, polars or pyarrow table may also hold
        text, categories and missing values: :class:`~observal.CommitteeVC` gives it to its estimator as it is.
    y : array of shape (rows,)
        NaN or None where the label was not revealed.
    propensity : array of shape (rows,) or one number
        The chance that the policy revealed each row's label, Q0(x) in the paper. It may be 0 only where the label was not
        revealed.
    ids : array of shape (rows,), optional
        Distinct names of the rows; their positions by default.
    classes : sequence, optional
        The label values; needed if the log shows only one of them. The last is the positive class (+1).
    cost : array of shape (rows,), optional
        The cost of a mistake on the row, in [0, 1]; 1 by default.
    column_groups : ColumnGroups, optional
        Which columns came from one column of a table; :func:`observal.load_problem` says so, and boosted trees use it.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> ob.LoggedData([[0.0], [1.0], [2.0]], [0, np.nan, 1], propensity=[0.5, 0.2, 1.0])
    LoggedData(3 rows × 1 features, 2 revealed, classes [0.0, 1.0])
    """

    X: Any
    y: Any
    propensity: Any
    ids: Any = None
    classes: Any = None
    cost: Any = None
    column_groups: ColumnGroups | None = None
    revealed: Bools = field(init=False)
    codes: Ints = field(init=False)
    frame: Frame | None = field(init=False)

    def __post_init__(self) -> None:
        X, frame = read_features(self.X, "The log's features")
        object.__setattr__(self, "frame", frame)
        n_rows = X.shape[0]
        if n_rows == 0:
            raise InvalidInput("The log is empty, 0 rows were seen; give the rows that the old policy looked at.")
        if hasattr(self.y, "codes"):
            self._set_coded(X)
            return
        y = np.array(self.y)
        if y.shape != (n_rows,):
            raise InvalidInput(
                f"The log needs one label for each of its {n_rows} rows (NaN where not revealed), but got shape {y.shape}."
            )
        propensity = check_propensity(self.propensity, n_rows, "The log")
        revealed = ~missing_mask(y)
        if y.dtype.kind == "O":  # frame libraries have their own values for "not known"; None replaces them all
            y[~revealed] = None
        _require_possible(revealed, propensity)
        classes = np.asarray(self.classes) if self.classes is not None else distinct_labels(y[revealed])
        _require_classes(classes)
        codes = np.zeros(n_rows, dtype=np.int64)
        codes[revealed] = encode_labels(y[revealed], classes, "A label of the log")
        set_field = object.__setattr__
        set_field(self, "X", X)
        set_field(self, "y", frozen(y))
        set_field(self, "propensity", propensity)
        set_field(self, "ids", check_ids(self.ids, n_rows, "The log"))
        set_field(self, "classes", frozen(classes))
        set_field(self, "cost", check_cost(self.cost, n_rows, "The log"))
        set_field(self, "revealed", frozen(revealed))
        set_field(self, "codes", frozen(codes))

    def _set_coded(self, X: Any) -> None:
        """Take labels that are codes already: one byte for each row, which must do for big logs."""
        n_rows, labels = X.shape[0], self.y
        propensity = check_propensity(self.propensity, n_rows, "The log")
        _require_possible(labels.revealed, propensity)
        _require_classes(labels.classes)
        fields = {
            "X": X,
            "propensity": propensity,
            "ids": check_ids(self.ids, n_rows, "The log"),
            "classes": frozen(labels.classes),
            "cost": check_cost(self.cost, n_rows, "The log"),
            "revealed": frozen(labels.revealed),
            "codes": labels.codes,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_parquet(
        cls,
        source: Any,
        *,
        label: str,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        cost: str | None = None,
        executor: Any = None,
    ) -> LoggedData:
        """Make a log over Parquet that need not fit into memory: features and ids stay in the files.

        Parameters
        ----------
        source : path, glob, URL or list of them
            A Parquet file, a folder of them, a pattern such as ``"log/*.parquet"``, or an address that fsspec knows.
        label, propensity, id, cost : str
            The columns.
        features : sequence of str, optional
            Columns of numbers; all others by default.
        classes : sequence, optional
            The label values, if the log does not show all.
        executor : optional
            What reads and computes: see :func:`observal.parquet.executor_of`.

        Examples
        --------
        >>> import observal as ob, pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> path = tempfile.mkdtemp() + "/log.parquet"
        >>> pq.write_table(pa.table({"x": [0.0, 1.0, 2.0], "y": [0, None, 1], "q0": [0.5, 0.2, 1.0]}), path)
        >>> ob.LoggedData.from_parquet(path, label="y", propensity="q0")
        LoggedData(3 rows × 1 features, 2 revealed, classes [0, 1])
        """
        from observal.parquet.vectors import read_coded_labels, read_floats

        rows, ids = _rows_in_parts(source, features, (label, propensity, id, cost), id, "The log", executor)
        labels = read_coded_labels(rows, label, classes)
        costs = None if cost is None else read_floats(rows, cost, "cost", "The log")
        return cls(rows, labels, read_floats(rows, propensity, "propensity", "The log"), ids, None, costs)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        cost: str | None = None,
    ) -> LoggedData:
        """Make a log from a pandas, polars or pyarrow table; `features` are all other columns by default, text and missing values included."""
        roles = {"label": label, "propensity": propensity, "id": id, "cost": cost}
        columns, X, kept = read_frame(frame, "The log's features", features, **roles)
        made = cls(X, columns[label], columns[propensity], columns.get(id), classes, columns.get(cost))
        object.__setattr__(made, "frame", kept)
        return made

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return (
            f"LoggedData({len(self)} rows × {self.X.shape[1]} features, {int(self.revealed.sum())} revealed, "
            f"classes {self.classes.tolist()})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """Unlabelled rows and their propensities.

    Parameters
    ----------
    X : array, sparse matrix or table of shape (rows, features)
        As for the log, in the same columns. Not copied: do not change it afterwards.
    propensity : array of shape (rows,) or one number
        Q0(x): the chance that the old policy would have revealed the row's label. 0 is allowed.
    ids : array of shape (rows,), optional
        Distinct names of the rows; their positions by default.
    cost : array of shape (rows,), optional
        The cost of a mistake on the row, in [0, 1]; 1 by default.
    column_groups : ColumnGroups, optional
        Which columns came from one column of a table; :func:`observal.load_problem` says so, and boosted trees use it.

    Examples
    --------
    >>> import observal as ob
    >>> ob.Pool([[0.0], [1.0]], propensity=0.5)
    Pool(2 rows × 1 features)
    """

    X: Any
    propensity: Any
    ids: Any = None
    cost: Any = None
    column_groups: ColumnGroups | None = None
    frame: Frame | None = field(init=False)

    def __post_init__(self) -> None:
        X, frame = read_features(self.X, "The pool's features")
        n_rows = X.shape[0]
        if n_rows == 0:
            raise InvalidInput("The pool is empty, 0 rows were seen; give the unlabelled rows that can be asked about.")
        set_field = object.__setattr__
        set_field(self, "X", X)
        set_field(self, "frame", frame)
        set_field(self, "propensity", check_propensity(self.propensity, n_rows, "The pool"))
        set_field(self, "ids", check_ids(self.ids, n_rows, "The pool"))
        set_field(self, "cost", check_cost(self.cost, n_rows, "The pool"))

    @classmethod
    def from_parquet(
        cls,
        source: Any,
        *,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        cost: str | None = None,
        executor: Any = None,
    ) -> Pool:
        """Make a pool over Parquet that need not fit into memory; the parameters are those of :meth:`LoggedData.from_parquet`.

        Examples
        --------
        >>> import observal as ob, pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> path = tempfile.mkdtemp() + "/pool.parquet"
        >>> pq.write_table(pa.table({"x": [0.0, 1.0], "q0": [0.5, 0.2]}), path)
        >>> ob.Pool.from_parquet(path, propensity="q0")
        Pool(2 rows × 1 features)
        """
        from observal.parquet.vectors import read_floats

        rows, ids = _rows_in_parts(source, features, (propensity, id, cost), id, "The pool", executor)
        costs = None if cost is None else read_floats(rows, cost, "cost", "The pool")
        return cls(rows, read_floats(rows, propensity, "propensity", "The pool"), ids, costs)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        cost: str | None = None,
    ) -> Pool:
        """Make a pool from a pandas, polars or pyarrow table; `features` are all other columns by default, text and missing values included."""
        roles = {"propensity": propensity, "id": id, "cost": cost}
        columns, X, kept = read_frame(frame, "The pool's features", features, **roles)
        made = cls(X, columns[propensity], columns.get(id), columns.get(cost))
        object.__setattr__(made, "frame", kept)
        return made

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return f"Pool({len(self)} rows × {self.X.shape[1]} features)"


def _rows_in_parts(
    source: Any, features: Sequence[str] | None, roles: tuple[str | None, ...], id: str | None, what: str, executor: Any
) -> tuple[Any, Any]:
    """Return rows and ids that stay in their files."""
    from observal.parquet import Parts
    from observal.parquet.vectors import LazyIds

    found = Parts.of(source, [], executor=executor)
    found.require_columns(what, roles)
    rows = found.with_features(features, [role for role in roles if role is not None])
    ids = LazyIds(rows, id)
    ids.require_distinct(what)
    return rows, ids


def _require_possible(revealed: Bools, propensity: Floats) -> None:
    impossible = revealed & (propensity == 0.0)
    if impossible.any():
        raise InvalidPropensity(
            f"A revealed label must have had a chance to be revealed, but row {int(np.argmax(impossible))} has "
            f"propensity 0 and a label ({int(impossible.sum())} such rows); correct the propensity."
        )


def _require_classes(classes: Any) -> None:
    if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) != len(classes):
        raise InvalidLabel(
            f"A classifier needs two classes, but the log shows {classes.tolist()}; "
            "name both with classes=(negative, positive)."
        )
