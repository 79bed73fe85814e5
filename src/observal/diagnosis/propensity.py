"""Propensities: the probability that a row's label was revealed, Q0(x) in the paper.

Given by column (``known``) or by the policy itself (``from_policy``); raised to a floor, with a warning (``apply_floor``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Floats, check_number, check_propensity, sealed
from observal.errors import InvalidInput, InvalidPropensity, ObservalWarning
from observal.problem.data import LoggedData
from observal.problem.rows import Features, count_rows

_BY_CHANCE = 0.001  # a log is taken to hold labelled rows only if chance explains that less often than this


def known(values: ArrayLike, n_rows: int | None = None) -> Floats:
    """Validate recorded propensities and return them: one number in [0, 1] per row.

    A propensity is the probability that a row's label was revealed.

    Parameters
    ----------
    values : array of shape (rows,) or one number
        A single number applies to every row, and then `n_rows` must be given.
    n_rows : int, optional
        The number of rows.

    Examples
    --------
    >>> from observal.diagnosis.propensity import known
    >>> known([0.2, 1.0]).tolist(), known(0.5, n_rows=2).tolist()
    ([0.2, 1.0], [0.5, 0.5])
    """
    if n_rows is None:
        if np.ndim(values) != 1:
            raise InvalidPropensity(
                f"Propensities must be one number per row, but got shape {np.shape(values)}; give `n_rows` if one "
                "number counts for every row."
            )
        n_rows = len(np.asarray(values))
    return check_propensity(values, n_rows, "The table")


@runtime_checkable
class PolicyModel(Protocol):
    """A fitted classifier of whether a row's label was revealed."""

    def predict_proba(self, X: Any, /) -> ArrayLike:
        """Return class probabilities."""


Policy = Callable[[Any], ArrayLike] | PolicyModel
"""What revealed a log's labels: a function from rows to probabilities, or a classifier."""


def from_policy(policy: Policy, X: Features, revealed: object = None) -> Floats:
    """Return the propensity of each row from the policy that revealed the labels.

    Parameters
    ----------
    policy : callable or scikit-learn classifier
        A function from rows to the probability that each row's label was revealed, or a fitted classifier of
        that with ``predict_proba``.
    X : array or sparse matrix of shape (rows, features)
        The rows.
    revealed : object, optional
        The class of the classifier that means "revealed"; True or 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.diagnosis.propensity import from_policy
    >>> from_policy(lambda X: np.where(X[:, 0] > 0, 0.9, 0.1), np.array([[1.0], [-1.0]])).tolist()
    [0.9, 0.1]
    """
    n_rows = count_rows(X)
    if isinstance(policy, PolicyModel):
        column = _revealed_column(policy, True if revealed is None else revealed)
        return check_propensity(np.asarray(policy.predict_proba(X))[:, column], n_rows, "The policy's answer")
    if not callable(policy):
        raise InvalidInput(
            f"A policy must be a function of the rows or a classifier with predict_proba, but got {type(policy).__name__}; "
            "give one that returns the chance that a row's label was revealed."
        )
    return check_propensity(policy(X), n_rows, "The policy's answer")


def _revealed_column(classifier: PolicyModel, revealed: object) -> int:
    classes = getattr(classifier, "classes_", None)
    if classes is None:
        raise InvalidInput(f"The policy {type(classifier).__name__} has no classes_, as if not fitted; fit it first.")
    values = np.asarray(classes).tolist()
    if revealed not in values:
        raise InvalidInput(
            f"The policy's classes must include {revealed!r} for a revealed label, but are {values}; "
            "name the class that means it with revealed=."
        )
    return int(values.index(revealed))


@dataclass(frozen=True, eq=False)
class FlooredPropensities:
    """Propensities with none below a floor, and how many were raised."""

    propensity: Floats
    propensity_floor: float
    n_raised: int
    warning: str | None


def apply_floor(propensity: ArrayLike, propensity_floor: float, what: str = "The log") -> FlooredPropensities:
    """Raise propensities below `propensity_floor` to it, count them, and warn.

    A floor trades variance for bias: a raised row counts less than it should. Its propensity is no longer the
    true one, so the floor is applied only if you ask for it, and a warning says how many rows it changed.

    Parameters
    ----------
    propensity : array of shape (rows,)
        The probability that each row's label was revealed.
    propensity_floor : float
        In (0, 1].
    what : str
        What the rows are called in the warning.

    Examples
    --------
    >>> import warnings
    >>> from observal.diagnosis.propensity import apply_floor
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     floored = apply_floor([0.001, 0.5], propensity_floor=0.01)
    >>> floored.propensity.tolist(), floored.n_raised
    ([0.01, 0.5], 1)
    """
    check_number(
        propensity_floor,
        "propensity_floor",
        0.0,
        1.0,
        open_low=True,
        fix="0.01 is a common one",
        error=InvalidPropensity,
    )
    values = known(propensity)
    n_raised = int((values < propensity_floor).sum())
    if n_raised == 0:
        return FlooredPropensities(values, float(propensity_floor), 0, None)
    sentence = (
        f"{what} had {n_raised} of {values.size} propensities below the floor {propensity_floor:g} (the smallest {values.min():.3g}); "
        "they were raised to it, so estimates are biased where labels were that rarely revealed."
    )
    warnings.warn(sentence, ObservalWarning, stacklevel=2)
    return FlooredPropensities(
        sealed(np.maximum(values, propensity_floor)), float(propensity_floor), n_raised, sentence
    )


def keeps_labelled_only(logged: LoggedData) -> bool:
    """Return whether every label is present although the propensities make that all but impossible."""
    return bool(logged.revealed.all()) and float(np.log(logged.propensity).sum()) < log(_BY_CHANCE)
