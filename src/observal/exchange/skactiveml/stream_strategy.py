"""NewtonVC as a stream query strategy of scikit-activeml, and the budget manager that it uses."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from skactiveml.base import BudgetManager, SingleAnnotatorStreamQueryStrategy, SkactivemlClassifier
from skactiveml.utils import (
    MISSING_LABEL,
    call_func,
    check_budget_manager,
    check_missing_label,
    check_n_features,
    check_scalar,
    check_type,
    is_labeled,
)
from sklearn.base import clone
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _num_samples, column_or_1d, has_fit_parameter

from observal.checks import Floats, Ints, check_number, check_propensity
from observal.errors import InvalidInput
from observal.exchange.skactiveml.evidence import Evidence, check_row_indices, method_of
from observal.methods.newton import NewtonVC, gap_at
from observal.methods.stream import stream_chances


class ObservalStream(SingleAnnotatorStreamQueryStrategy):  # type: ignore[misc]
    """Query a row of a stream if its class may still flip, and more often where the old policy rarely looked.

    This is ``NewtonVC``, on a stream: it decides on each row as it arrives,
    as ``stream_plan`` does, within a budget.

    Parameters
    ----------
    doubt : float, default=0.05
        A row is uncertain if the chance that its class flips is above this; between 0 and 0.5.
    explore_share : float, default=0.1
        The chance of a query for a row that is not uncertain and passes the gate.
    gate_share : float, default=0.5
        An uncertain row that does not pass the gate is queried with the chance ``1 − gate_share``. The n-th row passes if
        ``2·n`` exceeds the number of rows that the old policy looked at, times the row's propensity.
    tempering : "auto" or float, default="auto"
        Importance weights are raised to this power: 1 is the full correction, 0 none.
    ridge : "auto" or float, default="auto"
        The ridge of the logistic regression; "auto" chooses it by weighted cross-validation.
    features : {"linear", "splines", "fourier", "auto"}, default="linear"
        What the logistic regression sees.
    missing_label : scalar or string or np.nan or None, default=np.nan
        Value to represent a missing label; if `query` gets a classifier, that of the classifier is used.
    budget_manager : BudgetManager, default=None
        Limits the queries, given the utilities; None means a ``DoubtBudgetManager`` with `budget`.
    budget : float, default=None
        The share of rows that may be queried, in (0, 1]; None means 0.1.
    random_state : int or RandomState instance or None, default=None
        Controls the randomness of the strategy.

    Notes
    -----
    Each row is drawn at random with its chance. Its utility is 0 if it was not drawn. If it was drawn, its utility is
    ``1/(1 + gap)`` for an uncertain row and 1 for any other, where gap is how much worse the fit must get before the class flips.
    `query` changes nothing: until `update` is called, it returns the same rows again.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.exchange.skactiveml import ObservalStream
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 1))
    >>> y = (X[:, 0] + rng.normal(size=400) > 0).astype(float)
    >>> strategy = ObservalStream(explore_share=0.0, budget=1.0, gate_share=0.0, random_state=0)
    >>> candidates = np.array([[-2.0], [0.0], [2.0]])
    >>> indices, utilities = strategy.query(candidates, X=X, y=y, return_utilities=True)
    >>> indices.tolist()
    [1]
    >>> strategy.update(candidates, indices).observed_samples_
    3
    """

    def __init__(
        self,
        doubt: float = 0.05,
        explore_share: float = 0.1,
        gate_share: float = 0.5,
        tempering: float | str = "auto",
        ridge: float | str = "auto",
        features: str = "linear",
        missing_label: object = MISSING_LABEL,
        budget_manager: BudgetManager | None = None,
        budget: float | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(budget=budget, random_state=random_state)
        self.doubt = doubt
        self.explore_share = explore_share
        self.gate_share = gate_share
        self.tempering = tempering
        self.ridge = ridge
        self.features = features
        self.missing_label = missing_label
        self.budget_manager = budget_manager

    def query(
        self,
        candidates: ArrayLike,
        clf: SkactivemlClassifier | None = None,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        candidate_propensity: ArrayLike | None = None,
        queried_indices: ArrayLike | None = None,
        fit_clf: bool = False,
        return_utilities: bool = False,
    ) -> Ints | tuple[Ints, Floats]:
        """Return which candidates to query; the arguments are not changed, and asking again gives the same rows.

        Parameters
        ----------
        candidates : array-like of shape (n_candidates, n_features)
            The rows that arrive, in order.
        clf : skactiveml.base.SkactivemlClassifier, default=None
            The classifier whose uncertainty is used: the chance of a flip is (1 − d)/2, where d is the probability of the likeliest
            class minus that of the next. By default NewtonVC's own logistic regression on `X` and `y`.
        X : array-like of shape (n_samples, n_features), default=None
            The rows seen so far, labelled or not: those that the old policy looked at, and those queried since.
        y : array-like of shape (n_samples,), default=None
            Their labels, missing where not known.
        propensity : float or array-like of shape (n_samples,), default=None
            The chance that the old policy had of labelling each row of `X`. By default the share of labelled rows, for all.
        candidate_propensity : float or array-like of shape (n_candidates,), default=None
            The same for the candidates; needed if `propensity` is an array.
        queried_indices : array-like of int, default=None
            The rows of `X` that were queried and not labelled by the old policy. None by default.
        fit_clf : bool, default=False
            Whether to fit a copy of `clf` on `X` and `y` first, with importance weights if its `fit` accepts them.
        return_utilities : bool, default=False
            Whether to return the utilities too.

        Returns
        -------
        queried_indices : numpy.ndarray of shape (n_queried_indices,)
            The positions of the candidates to query.
        utilities : numpy.ndarray of shape (n_candidates,)
            Only if `return_utilities` is True.

        Examples
        --------
        >>> strategy = ObservalStream(budget=0.5, random_state=0)
        >>> strategy.query([[0.0], [1.0], [2.0]]).tolist()
        [0, 2]
        """
        rows, return_utilities = self._validate_data(candidates, return_utilities)
        check_scalar(self.doubt, "doubt", Real, min_val=0.0, max_val=0.5, min_inclusive=False, max_inclusive=False)
        check_number(self.doubt, "doubt", 0.0, 0.5, open_low=True, open_high=True)
        method = method_of(self)
        check_missing_label(self.missing_label)
        check_type(clf, "clf", SkactivemlClassifier, type(None))
        check_type(fit_clf, "fit_clf", bool)
        self._start()
        missing_label = self.missing_label if clf is None else clf.missing_label
        evidence = self._evidence(X, y, missing_label, propensity, queried_indices)
        chances = _candidate_chances(evidence, propensity, candidate_propensity, len(rows))
        gaps = _gaps(method, evidence, clf, fit_clf, rows)
        utilities = self._utilities(method, gaps, chances, 0 if evidence is None else evidence.n_logged)
        indices = np.asarray(self.budget_manager_.query_by_utility(utilities), dtype=np.int64)
        return (indices, utilities) if return_utilities else indices

    def update(
        self,
        candidates: ArrayLike,
        queried_indices: ArrayLike,
        budget_manager_param_dict: dict[str, Any] | None = None,
    ) -> ObservalStream:
        """Count the rows that were seen and those that were queried.

        Parameters
        ----------
        candidates : array-like of shape (n_candidates, n_features)
            What was given to `query`.
        queried_indices : array-like of int
            Which of them were queried.
        budget_manager_param_dict : dict, default=None
            Further arguments of the budget manager's `update`, such as `utilities`.

        Returns
        -------
        self : ObservalStream
            The strategy itself.
        """
        n_rows, queried = check_update(candidates, queried_indices)
        check_type(budget_manager_param_dict, "budget_manager_param_dict", dict, type(None))
        self._validate_random_state()
        self._start()
        further = {} if budget_manager_param_dict is None else budget_manager_param_dict
        call_func(self.budget_manager_.update, candidates=candidates, queried_indices=queried, **further)
        self.observed_samples_ += n_rows
        self.random_state_.random_sample(n_rows)
        return self

    def _start(self) -> None:
        """On the first call, start counting at 0 and make the budget manager."""
        if "budget_manager_" not in vars(self):
            check_type(self.budget_manager, "budget_manager", BudgetManager, type(None))
            self.budget_manager_ = check_budget_manager(self.budget, self.budget_manager, DoubtBudgetManager)
        if "observed_samples_" not in vars(self):
            self.observed_samples_ = 0

    def _evidence(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None,
        missing_label: object,
        propensity: ArrayLike | None,
        queried_indices: ArrayLike | None,
    ) -> Evidence | None:
        """Return the rows seen so far, checked, or None if there are none."""
        if (X is None) != (y is None):
            raise InvalidInput(
                f"X and y must be given together, but only {'y' if X is None else 'X'} was given; give both or none."
            )
        if X is None:
            if propensity is not None or queried_indices is not None:
                raise InvalidInput(
                    "propensity and queried_indices are about the rows of X, but X was not given; give it."
                )
            return None
        rows = check_array(X)
        check_n_features(self, rows, reset=False)
        labels = check_array(y, ensure_2d=False, ensure_all_finite="allow-nan", dtype=None)
        check_consistent_length(rows, labels)
        labels = column_or_1d(labels, warn=True)
        return Evidence.of(rows, labels, is_labeled(labels, missing_label), propensity, queried_indices)

    def _utilities(self, method: NewtonVC, gaps: Floats, chances: Floats, n_logged: int) -> Floats:
        """Draw the rows to query from a copy of the random state, and return the utilities."""
        rule = replace(method.stream_rule, uncertain_gap=gap_at(self.doubt))
        chance, uncertain, _ = stream_chances(rule, gaps, chances, n_logged, self.observed_samples_ + 1)
        asked = deepcopy(self.random_state_).random_sample(gaps.size) < chance
        return np.where(asked, np.where(uncertain, 1.0 / (1.0 + gaps), 1.0), 0.0)


def _candidate_chances(
    evidence: Evidence | None, propensity: ArrayLike | None, candidate_propensity: ArrayLike | None, n_rows: int
) -> Floats:
    """Return the propensity of each candidate: as given, or the single propensity of the rows of X."""
    if candidate_propensity is not None:
        if evidence is not None and propensity is None:
            raise InvalidInput("candidate_propensity was given without propensity; give both or none.")
        return check_propensity(candidate_propensity, n_rows, "candidates")
    if propensity is not None and np.ndim(propensity) > 0:
        raise InvalidInput("propensity was given without candidate_propensity; give both or none.")
    return np.full(n_rows, 0.0 if evidence is None else evidence.propensity[0])


def _gaps(
    method: NewtonVC, evidence: Evidence | None, clf: SkactivemlClassifier | None, fit_clf: bool, candidates: Floats
) -> Floats:
    """Return each candidate's gap; 0 if there is neither a classifier nor a row seen so far."""
    if clf is None:
        return np.zeros(len(candidates)) if evidence is None else evidence.gaps(method, candidates)
    if fit_clf:
        if evidence is None:
            raise InvalidInput("fit_clf needs labels to fit on, but X and y were not given; give both.")
        takes = all(has_fit_parameter(model, "sample_weight") for model in (clf, getattr(clf, "estimator", clf)))
        weights = {"sample_weight": evidence.sample_weight(method)} if takes else {}
        clf = clone(clf).fit(evidence.X, evidence.y, **weights)
    shares = np.sort(np.asarray(clf.predict_proba(candidates)), axis=1)
    lead = shares[:, -1] - shares[:, -2] if shares.shape[1] > 1 else np.zeros(len(shares))
    return np.asarray(0.5 * ndtri(0.5 - 0.5 * lead) ** 2)


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

    def _validate_data(self, utilities: ArrayLike) -> Floats:
        checked: Floats = super()._validate_data(utilities)
        if "observed_samples_" not in vars(self):
            self.observed_samples_, self.queried_samples_ = 0, 0
        return checked


def check_update(candidates: ArrayLike, queried_indices: ArrayLike) -> tuple[int, Ints]:
    """Return the number of candidates, and which of them were queried.

    Examples
    --------
    >>> n_rows, queried = check_update([[0.5], [0.7]], [1])
    >>> n_rows, queried.tolist()
    (2, [1])
    """
    n_rows: int = _num_samples(candidates)
    return n_rows, check_row_indices(queried_indices, n_rows, "queried_indices")
