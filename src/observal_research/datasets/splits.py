"""From labelled data to what observal is given: a log with hidden labels, a pool, an oracle, and rows to test on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import check_generator, check_ids, check_number, check_propensity, check_share, frozen
from observal.errors import InvalidInput, UnknownRow
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import distinct_labels
from observal.problem.rows import Features, Matrix
from observal_research.datasets.dataset import Dataset, RandomState
from observal_research.datasets.policies import Policy


class Classifier(Protocol):
    """A fitted classifier with scikit-learn's names."""

    def predict(self, X: Matrix, /) -> NDArray[Any]:
        """Return a class for each row."""
        ...

    def score(self, X: Matrix, y: NDArray[Any], /) -> float:
        """Return the share of rows predicted right."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class TableOracle:
    """Answer from a table: a callable from ids to labels.

    Examples
    --------
    >>> TableOracle(["a", "b"], [0, 1])(["b", "a"]).tolist()
    [1, 0]
    """

    ids: Any
    labels: Any
    positions: dict[Any, int] = field(init=False)

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        object.__setattr__(self, "ids", check_ids(self.ids, labels.shape[0], "An oracle"))
        object.__setattr__(self, "labels", frozen(labels))
        object.__setattr__(self, "positions", {name: row for row, name in enumerate(self.ids.tolist())})

    def __call__(self, ids: ArrayLike) -> NDArray[Any]:
        """Return the labels of the rows named `ids`, in that order."""
        names = np.asarray(ids).ravel().tolist()
        try:
            return np.asarray(self.labels[np.array([self.positions[name] for name in names], dtype=np.intp)])
        except KeyError as error:
            raise UnknownRow(
                f"The oracle knows {len(self.positions)} rows, but not {error.args[0]!r}; ask about rows of its pool."
            ) from None

    def __repr__(self) -> str:
        return f"TableOracle({len(self.labels)} rows)"


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """What a method is given, and what only the experiment knows: all labels, and rows to test on.

    Parameters
    ----------
    logged, pool : LoggedData, Pool
        What a method is given.
    oracle : TableOracle
        The labels of the pool, by id.
    log_labels : array
        The labels of the log, hidden ones included.
    X_test, y_test : arrays
        Rows of the whole population, to measure error on.
    policy : Policy, optional
        What revealed the log's labels.
    seed : int
        For the random numbers of the runs in it.
    """

    logged: LoggedData
    pool: Pool
    oracle: TableOracle
    log_labels: NDArray[Any]
    X_test: Matrix
    y_test: NDArray[Any]
    policy: Policy | None = None
    seed: int = 0

    def error(self, estimator: Classifier) -> float:
        """Return the share of test rows that a classifier gets wrong."""
        return 1.0 - float(estimator.score(self.X_test, self.y_test))

    def __repr__(self) -> str:
        return f"World({self.logged!r}, {self.pool!r}, {len(self.y_test)} test rows, {self.policy!r})"


def simulate(
    data: Dataset | tuple[Features, ArrayLike],
    policy: Policy,
    random_state: RandomState = None,
    *,
    test_size: float = 0.2,
    log_share: float = 0.5,
) -> World:
    """Split data at random into log, pool and test, and reveal the log's labels with the policy's propensities.

    Parameters
    ----------
    data : Dataset or (X, y)
        Rows with all their labels.
    policy : Policy
        A function of rows to propensities.
    random_state : int or Generator, optional
        Fixes the split, the order and what is revealed.
    test_size : float
        The share of all rows kept for the test.
    log_share : float
        The share of the other rows that becomes the log; the rest is the pool.

    Examples
    --------
    >>> from observal_research.datasets import Certainty, make_linear
    >>> data = make_linear(1000, random_state=0)
    >>> world = simulate(data, Certainty.fit(data.X, data.y, random_state=0), random_state=0)
    >>> len(world.logged), len(world.pool), len(world.y_test)
    (400, 400, 200)
    >>> bool((world.oracle(world.pool.ids[:5]) == data.y[world.pool.ids[:5]]).all())
    True
    """
    if not isinstance(data, Dataset):
        data = Dataset(data[0], data[1], "data", "Given as arrays.")
    return simulate_rows(data.X, data.y, policy, random_state, test_size=test_size, log_share=log_share)


def simulate_rows(
    X: Matrix,
    y: NDArray[Any],
    policy: Policy,
    random_state: RandomState = None,
    *,
    test_size: float = 0.2,
    log_share: float = 0.5,
) -> World:
    """Do what ``simulate`` does for rows of two classes or more.

    Examples
    --------
    >>> import numpy as np
    >>> from observal_research.datasets import Identical
    >>> X = np.arange(20.0)[:, None]
    >>> simulate_rows(X, np.repeat(["a", "b", "c", "d"], 5), Identical(0.5), 0).logged.classes.tolist()
    ['a', 'b', 'c', 'd']
    """
    check_number(test_size, "test_size", 0.0, 1.0, open_high=True)
    check_share(log_share, "log_share", inner=True)
    n_rows = len(y)
    n_test = round(test_size * n_rows)
    n_logged = round(log_share * (n_rows - n_test))
    n_pool = n_rows - n_test - n_logged
    if not (n_logged > 0 and n_pool > 0):
        raise InvalidInput(
            f"A split needs rows for log and pool, but test_size {test_size} and log_share {log_share} make "
            f"{n_logged} and {n_pool} of {n_rows} rows; use other shares or more rows."
        )
    rng = check_generator(random_state)
    test, log, pool = np.split(rng.permutation(n_rows), [n_test, n_test + n_logged])
    propensity = check_propensity(policy(X[log]), n_logged, "The log")
    # random() < 1 always and < 0 never, so that propensities 1 and 0 mean what they say.
    revealed = rng.random(n_logged) < propensity
    return World(
        logged=LoggedData(X[log], hide(y[log], ~revealed), propensity, ids=log, classes=distinct_labels(y)),
        pool=Pool(X[pool], policy(X[pool]), ids=pool),
        oracle=TableOracle(pool, y[pool]),
        log_labels=y[log],
        X_test=X[test],
        y_test=y[test],
        policy=policy,
    )


def hide(y: NDArray[Any], hidden: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the labels with NaN (None where they are not numbers) in place of the hidden ones."""
    if y.dtype.kind in "iufb":
        return np.where(hidden, np.nan, y.astype(np.float64))
    out = y.astype(object)
    out[hidden] = None
    return out
