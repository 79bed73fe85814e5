"""A budget manager for scikit-activeml that queries whatever the strategy chooses, as long as there is budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from skactiveml.base import BudgetManager

from observal.checks import Floats, Ints
from observal.exchange.skactiveml.evidence import check_row_indices
from observal.problem.rows import count_rows


class DoubtBudgetManager(BudgetManager):  # type: ignore[misc]
    """Query every sample with a utility above 0 until the budget is spent.

    A sample is queried only if fewer than the share `budget` of the samples seen so far, including this one, were queried. So at
    most ``budget·seen + 1`` samples are queried.

    Parameters
    ----------
    budget : float, default=None
        The share of samples that may be queried, in (0, 1]; None means 0.1.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.exchange.skactiveml import DoubtBudgetManager
    >>> manager = DoubtBudgetManager(budget=0.5)
    >>> manager.query_by_utility(np.array([0.9, 0.8, 0.0, 0.7]))
    [0, 3]
    >>> manager.update(np.zeros((4, 2)), [0, 3]).queried_samples_
    2
    """

    def __init__(self, budget: float | None = None) -> None:
        super().__init__(budget)

    def query_by_utility(self, utilities: Floats) -> list[int]:
        """Return which samples to query; asking changes nothing.

        Parameters
        ----------
        utilities : numpy.ndarray of shape (n_samples,)
            NaN and 0 are never queried.

        Returns
        -------
        queried_indices : list of int
            Their positions.
        """
        utilities = self._validate_data(utilities)
        queried, indices = self.queried_samples_, []
        for i, utility in enumerate(utilities):
            if utility > 0.0 and queried < self.budget_ * (self.observed_samples_ + i + 1):
                queried += 1
                indices.append(i)
        return indices

    def update(self, candidates: ArrayLike, queried_indices: ArrayLike) -> DoubtBudgetManager:
        """Count the samples that were seen and those that were queried.

        Parameters
        ----------
        candidates : array-like of shape (n_samples, n_features)
            The samples seen.
        queried_indices : array-like of int
            Which of them were queried.

        Returns
        -------
        self : DoubtBudgetManager
            The manager itself.
        """
        n_rows, queried = check_update(candidates, queried_indices)
        self._validate_data(np.empty(0))
        self.observed_samples_ += n_rows
        self.queried_samples_ += queried.size
        return self

    def _validate_data(self, utilities: ArrayLike) -> Any:
        if "observed_samples_" not in vars(self):  # the first call
            self.observed_samples_, self.queried_samples_ = 0, 0
        return super()._validate_data(utilities)


def check_update(candidates: ArrayLike, queried_indices: ArrayLike) -> tuple[int, Ints]:
    """Return the number of candidates, and which of them were queried.

    Examples
    --------
    >>> n_rows, queried = check_update([[0.5], [0.7]], [1])
    >>> n_rows, queried.tolist()
    (2, [1])
    """
    if np.ndim(candidates) == 0:  # scikit-activeml's own managers raise this error too
        raise TypeError(f"candidates must be rows, but are {type(candidates).__name__}")
    n_rows = count_rows(candidates)
    return n_rows, check_row_indices(queried_indices, n_rows, "queried_indices")
