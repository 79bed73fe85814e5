"""The labelled rows that scikit-activeml passes in, and the flip gaps of other rows that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skactiveml.utils import check_scalar, check_type

from observal.checks import Bools, Floats, Ints, check_number, check_possible, check_propensity
from observal.errors import InvalidInput
from observal.methods.newton import NewtonFitter, NewtonVC
from observal.methods.stream import StreamState
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import distinct_labels
from observal.problem.problem import Problem

if TYPE_CHECKING:
    from observal.exchange.skactiveml.pool_strategy import ObservalSampling


class InvalidIndices(InvalidInput, IndexError):
    """Invalid row numbers; both a ValueError and an IndexError, as in scikit-activeml's own strategies."""


def check_row_indices(indices: ArrayLike, n_rows: int, what: str) -> Ints:
    """Return distinct row numbers, in order.

    Examples
    --------
    >>> check_row_indices([2, 0, 2], 3, "queried_indices").tolist()
    [0, 2]
    """
    values = np.asarray(indices)
    if values.shape == (0,):
        return np.empty(0, dtype=np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InvalidIndices(
            f"{what} must be a list of whole numbers, but got {indices!r:.60}; give the positions of rows."
        )
    if values.min() < 0 or values.max() >= n_rows:
        raise InvalidIndices(
            f"{what} must be from 0 to {n_rows - 1}, but run from {values.min()} to {values.max()}; "
            "give the positions of rows."
        )
    return np.unique(values).astype(np.int64)


def method_of(strategy: ObservalSampling) -> NewtonVC:
    """Return NewtonVC with a strategy's settings; a wrong type is a TypeError, a wrong value a ValueError.

    Examples
    --------
    >>> from observal.exchange.skactiveml import ObservalSampling
    >>> method_of(ObservalSampling(explore_share=0.0)).explore_share
    0.0
    """
    shares = ("explore_share", "gate_share")
    numbers = {name: getattr(strategy, name) for name in shares}
    for name in ("tempering", "ridge"):
        if not isinstance(getattr(strategy, name), str):
            numbers[name] = getattr(strategy, name)
    for name, value in numbers.items():
        check_scalar(value, name, Real, min_val=0.0, max_val=1.0 if name in shares else None)
        check_number(value, name, 0.0)
    check_type(strategy.features, "features", str)
    settings: dict[str, Any] = {name: getattr(strategy, name) for name in ("tempering", "ridge", "features")}
    settings |= {name: float(value) for name, value in numbers.items()} | {"order": "stream"}
    return NewtonVC(**settings)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows, some of them labelled: by the old policy, or queried since."""

    X: NDArray[Any]  # all rows
    y: NDArray[Any]  # their labels; read only where `labelled`
    labelled: Bools  # which rows have a label, and which of those were queried
    queried: Bools
    propensity: Floats  # the chance that the old policy had of revealing each row's label

    @classmethod
    def of(
        cls,
        X: NDArray[Any],
        y: NDArray[Any],
        labelled: Bools,
        propensity: ArrayLike | None,
        queried_indices: ArrayLike | None,
    ) -> Self:
        """Check the arguments; by default nothing was queried, and every row had the same chance.

        Examples
        --------
        >>> import numpy as np
        >>> X, y = np.arange(8.0).reshape(4, 2), np.array([0.0, 1.0, np.nan, np.nan])
        >>> Evidence.of(X, y, ~np.isnan(y), None, [1]).propensity.round(3).tolist()
        [0.333, 0.333, 0.333, 0.333]
        """
        queried = np.zeros(len(X), dtype=bool)
        if queried_indices is not None:
            queried[check_row_indices(queried_indices, len(X), "queried_indices")] = True
        queried &= labelled  # a queried row without an answer counts as not queried
        if propensity is None:
            propensity = float(labelled[~queried].mean()) if not queried.all() else 0.0
        chances = check_propensity(propensity, len(X), "X")
        fix = "correct the propensity, or name queried rows in queried_indices"
        check_possible(labelled & ~queried, chances, fix)
        return cls(X, y, labelled, queried, chances)

    @property
    def n_logged(self) -> int:
        """The number of rows that the old policy looked at."""
        return int((~self.queried).sum())

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The distinct labels."""
        return distinct_labels(self.y[self.labelled])

    def gaps(self, method: NewtonVC, X: NDArray[Any]) -> Floats:
        """Return how much worse the fit must get before the class of each row of `X` flips.

        With two classes there is one fit. With more there is one per class, against the rest, and a row has the smallest gap
        of them. Without labels of two classes every gap is 0.

        Examples
        --------
        >>> import numpy as np
        >>> X, y = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]]), np.array([0, 0, np.nan, 1, 1])
        >>> gaps = Evidence.of(X, y, ~np.isnan(y), None, None).gaps(NewtonVC(order="stream"), X)
        >>> int(np.argmin(gaps))
        2
        """
        one_class = len(self.classes) < 2
        positives = () if one_class else self.classes[1:] if len(self.classes) == 2 else self.classes
        least = np.zeros(len(X)) if one_class else np.full(len(X), np.inf)
        for positive in positives:
            least = np.minimum(least, self._state(method, self.y == positive).model.gaps(X))
        return least

    def _state(self, method: NewtonVC, positive: Bools) -> StreamState:
        """Return the state in which the queried rows were bought.

        The queried rows are the pool. It is read as a stream: rows that the state has not looked at do not count, so one row
        can be used as a pool that must not be empty.
        """
        queried, propensity, codes = self.queried, self.propensity, positive.astype(np.int64)
        if queried.all():  # without a log there is nothing to correct: the queried rows serve as the log
            queried, propensity = ~queried, np.ones(len(queried))
        logged = LoggedData(
            self.X[~queried],
            np.where(self.labelled, codes, np.nan)[~queried],
            propensity[~queried],
            classes=(0.0, 1.0),
        )
        rows = np.flatnonzero(queried)
        pool_rows = rows if rows.size else np.zeros(1, dtype=np.int64)
        problem = Problem(logged, Pool(self.X[pool_rows], propensity[pool_rows]))
        state = StreamState.start(problem, NewtonFitter.of(method, problem))
        return replace(state, bought=np.arange(rows.size), codes=codes[rows], looked=rows.size)
