"""What a user brings: the log and the pool. Both are immutable and validated when they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import (
    Bools,
    Floats,
    Ints,
    check_cost,
    check_groups,
    check_ids,
    check_possible,
    check_price,
    check_propensity,
    keep,
)
from observal.errors import InvalidInput
from observal.parquet import ExecutorLike, LazyIds, Parts, Source, read_coded_labels, read_floats, read_groups
from observal.problem.column_groups import ColumnGroups
from observal.problem.frames import Frame, read_features, read_frame
from observal.problem.labels import read_labels
from observal.problem.rows import Rows, as_rows

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

# Floor for propensities when estimating class shares, so that a single label cannot dominate.
MIN_CHANCE = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class LoggedData:
    """Rows that an old policy saw, with labels only where it chose to look.

    Parameters
    ----------
    X : array, sparse matrix or table of shape (rows, features)
        Finite numbers. Not copied, because it may be large: do not change it afterwards. A pandas, polars or
        pyarrow table may also hold text, categories and missing values: ``CommitteeVC`` passes it to its
        estimator unchanged.
    y : array of shape (rows,)
        NaN, None or empty text where the label was not revealed. -1 next to classes other than 1 is rejected
        unless `classes` includes it, because it often marks rows without a label.
    propensity : array of shape (rows,) or one number, optional
        The probability with which a system drew each row's label, Q0(x) in the paper. It may be 0 only where
        the label was not revealed. Without it the labels are *given*: each stands for its own row only, whatever
        the reason it is there, and the rows without a label can be asked about (``observal.problem.given``).
    ids : array of shape (rows,), optional
        Unique row names; positions by default.
    classes : sequence, optional
        The label values; needed if the log shows only one of them, and for an objective about one class of more than two. The last
        is the positive class (+1).
    cost : array of shape (rows,), optional
        The cost of a mistake on the row, in [0, 1]; 1 by default.
    column_groups : ColumnGroups, optional
        Which columns came from one table column; set by ``observal.load_problem`` and used by boosted trees.
    groups : array of shape (rows,), optional
        What related rows share, such as a customer, a household or a day: numbers, text or dates. Rows of a group,
        in log and pool, are never split between training and held-out folds, and count as one in intervals. A row
        with a missing group is on its own. Stored as one number per group; whole numbers are kept.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> ob.LoggedData([[0.0], [1.0], [2.0]], [0, np.nan, 1], propensity=[0.5, 0.2, 1.0])
    LoggedData(3 rows × 1 features, 2 revealed, classes [0.0, 1.0])
    """

    X: Any
    y: Any
    propensity: Any = None
    ids: Any = None
    classes: Any = None
    cost: Any = None
    column_groups: ColumnGroups | None = None
    groups: Any = None
    is_given: bool = field(init=False)  # whether no propensities are known
    has_ids: bool = field(init=False)
    revealed: Bools = field(init=False)
    codes: Ints = field(init=False)
    frame: Frame | None = field(init=False)
    is_positive_named: bool = field(init=False)

    def __post_init__(self) -> None:
        X, frame = read_features(self.X, "The log's features")
        n_rows = X.shape[0]
        if n_rows == 0:
            raise InvalidInput("The log is empty, 0 rows were seen; give the rows that the old policy looked at.")
        labels = read_labels(self.y, self.classes, n_rows)
        chances = labels.revealed.astype(np.float64) if self.propensity is None else self.propensity
        propensity = check_propensity(chances, n_rows, "The log")
        check_possible(labels.revealed, propensity)
        keep(
            self,
            is_given=self.propensity is None,
            has_ids=self.ids is not None,
            X=X,
            frame=frame,
            y=labels.values,
            propensity=propensity,
            ids=_check_ids(self.ids, n_rows, "The log"),
            classes=labels.classes,
            cost=check_cost(self.cost, n_rows, "The log"),
            groups=check_groups(self.groups, n_rows, "The log"),
            revealed=labels.revealed,
            codes=labels.codes,
            is_positive_named=self.classes is not None,
        )

    @property
    def rows(self) -> Rows:
        """The features as ``Rows``, whatever `X` is."""
        return as_rows(self.X)

    def class_shares(self) -> Floats:
        """Return each class's estimated share of all rows, weighting labels by 1/propensity; equal without labels.

        Examples
        --------
        >>> LoggedData([[0.0], [1.0], [2.0]], [0, 1, None], [0.5, 0.1, 0.1]).class_shares().round(2).tolist()
        [0.17, 0.83]
        """
        revealed = np.asarray(self.revealed)
        weights = 1.0 / np.maximum(self.propensity[revealed], MIN_CHANCE)
        sums = np.bincount(self.codes[revealed], weights=weights, minlength=self.classes.size)
        return np.asarray(sums / sums.sum() if sums.any() else np.full(sums.size, 1.0 / sums.size))

    @classmethod
    def from_parquet(
        cls,
        source: Source,
        *,
        label: str,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        cost: str | None = None,
        group: str | None = None,
        executor: ExecutorLike = None,
    ) -> LoggedData:
        """Make a log over Parquet files that need not fit into memory: features and ids stay in the files.

        Parameters
        ----------
        source : path, glob, URL or list of them
            A Parquet file, a folder of them, a pattern such as ``"log/*.parquet"``, or a URL that fsspec knows.
        label, propensity, id, cost, group : str
            Column names.
        features : sequence of str, optional
            Numeric columns; all others by default.
        classes : sequence, optional
            The label values, if the log does not show all.
        executor : optional
            What reads the files and computes on them; see ``observal.parquet.executor_of``.

        Examples
        --------
        >>> import observal as ob, pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> path = tempfile.mkdtemp() + "/log.parquet"
        >>> pq.write_table(pa.table({"x": [0.0, 1.0, 2.0], "y": [0, None, 1], "q0": [0.5, 0.2, 1.0]}), path)
        >>> ob.LoggedData.from_parquet(path, label="y", propensity="q0")
        LoggedData(3 rows × 1 features, 2 revealed, classes [0, 1])
        """
        rows, ids = _rows_in_parts(source, features, (label, propensity, id, cost, group), id, "The log", executor)
        labels = read_coded_labels(rows, label, classes)
        costs = None if cost is None else read_floats(rows, cost, "cost", "The log")
        groups = None if group is None else read_groups(rows, group, "The log")
        chances = read_floats(rows, propensity, "propensity", "The log")
        return cls(rows, labels, chances, ids, classes, costs, groups=groups)

    @classmethod
    def from_frame(
        cls,
        frame: IntoDataFrame,
        *,
        label: str,
        propensity: str | None = None,
        id: str | None = None,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        cost: str | None = None,
        group: str | None = None,
    ) -> LoggedData:
        """Make a log from a pandas, polars or pyarrow table; `features` defaults to all other columns."""
        roles = {"label": label, "propensity": propensity, "id": id, "cost": cost, "group": group}
        columns, X, own = read_frame(frame, "The log's features", features, **roles)
        logged = cls(
            X,
            columns[label],
            columns.get(propensity),
            columns.get(id),
            classes,
            columns.get(cost),
            groups=columns.get(group),
        )
        keep(logged, frame=own)
        return logged

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
        As for the log, with the same columns, in any order if they have names. Not copied: do not change it afterwards.
    propensity : array of shape (rows,) or one number, optional
        Q0(x): the probability with which the old policy would have revealed the row's label. 0 is allowed. Leave
        it out if the log has none.
    ids : array of shape (rows,), optional
        Unique row names; positions by default.
    cost : array of shape (rows,), optional
        The cost of a mistake on the row, in [0, 1]; 1 by default.
    column_groups : ColumnGroups, optional
        Which columns came from one table column; set by ``observal.load_problem`` and used by boosted trees.
    groups : array of shape (rows,), optional
        As for the log; log and pool may share groups.
    price : array of shape (rows,), optional
        What each row's label costs, above 0, in any unit; `budget_cost` of a session or campaign limits their sum.

    Examples
    --------
    >>> import observal as ob
    >>> ob.Pool([[0.0], [1.0]], propensity=0.5)
    Pool(2 rows × 1 features)
    """

    X: Any
    propensity: Any = None
    ids: Any = None
    cost: Any = None
    column_groups: ColumnGroups | None = None
    groups: Any = None
    price: Any = None
    is_given: bool = field(init=False)  # whether no propensities are known
    has_ids: bool = field(init=False)
    frame: Frame | None = field(init=False)

    def __post_init__(self) -> None:
        X, frame = read_features(self.X, "The pool's features")
        n_rows = X.shape[0]
        if n_rows == 0:
            raise InvalidInput("The pool is empty, 0 rows were seen; give the unlabelled rows that can be asked about.")
        keep(
            self,
            X=X,
            frame=frame,
            is_given=self.propensity is None,
            has_ids=self.ids is not None,
            propensity=check_propensity(0.0 if self.propensity is None else self.propensity, n_rows, "The pool"),
            ids=_check_ids(self.ids, n_rows, "The pool"),
            cost=check_cost(self.cost, n_rows, "The pool"),
            groups=check_groups(self.groups, n_rows, "The pool"),
            price=check_price(self.price, n_rows, "The pool"),
        )

    @property
    def rows(self) -> Rows:
        """The features as ``Rows``, whatever `X` is."""
        return as_rows(self.X)

    @classmethod
    def from_parquet(
        cls,
        source: Source,
        *,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        cost: str | None = None,
        group: str | None = None,
        price: str | None = None,
        executor: ExecutorLike = None,
    ) -> Pool:
        """Make a pool over Parquet files that need not fit into memory.

        `price` is the column with the cost of labels; for the others see ``LoggedData.from_parquet``.

        Examples
        --------
        >>> import observal as ob, pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> path = tempfile.mkdtemp() + "/pool.parquet"
        >>> pq.write_table(pa.table({"x": [0.0, 1.0], "q0": [0.5, 0.2]}), path)
        >>> ob.Pool.from_parquet(path, propensity="q0")
        Pool(2 rows × 1 features)
        """
        rows, ids = _rows_in_parts(source, features, (propensity, id, cost, group, price), id, "The pool", executor)
        costs = None if cost is None else read_floats(rows, cost, "cost", "The pool")
        groups = None if group is None else read_groups(rows, group, "The pool")
        prices = None if price is None else read_floats(rows, price, "price", "The pool")
        chances = read_floats(rows, propensity, "propensity", "The pool")
        return cls(rows, chances, ids, costs, groups=groups, price=prices)

    @classmethod
    def from_frame(
        cls,
        frame: IntoDataFrame,
        *,
        propensity: str | None = None,
        id: str | None = None,
        features: Sequence[str] | None = None,
        cost: str | None = None,
        group: str | None = None,
        price: str | None = None,
    ) -> Pool:
        """Make a pool from a pandas, polars or pyarrow table; `features` defaults to all other columns."""
        roles = {"propensity": propensity, "id": id, "cost": cost, "group": group, "price": price}
        columns, X, own = read_frame(frame, "The pool's features", features, **roles)
        costs, groups, prices = (columns.get(name) for name in (cost, group, price))
        pool = cls(X, columns.get(propensity), columns.get(id), costs, groups=groups, price=prices)
        keep(pool, frame=own)
        return pool

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return f"Pool({len(self)} rows × {self.X.shape[1]} features)"


def _rows_in_parts(
    source: Source,
    features: Sequence[str] | None,
    roles: tuple[str | None, ...],
    id: str | None,
    what: str,
    executor: ExecutorLike,
) -> tuple[Parts, LazyIds]:
    """Return rows and ids that stay in their files."""
    parts = Parts.of(source, [], executor=executor)
    parts.require_columns(what, roles)
    rows = parts.with_features(features, [role for role in roles if role is not None])
    ids = LazyIds(rows, id)
    ids.require_distinct(what)
    return rows, ids


def _check_ids(ids: ArrayLike | LazyIds | None, n_rows: int, what: str) -> NDArray[Any] | LazyIds:
    """Return one unique id per row; ids in files were checked when first read."""
    return ids if isinstance(ids, LazyIds) else check_ids(ids, n_rows, what)
