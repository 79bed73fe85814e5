"""What importers return, and what they share: labels, propensities, and the propensity of one action in a bandit log."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Bools, Floats, Ints, check_propensity
from observal.diagnosis import propensity as chances
from observal.errors import InvalidInput, InvalidLabel, InvalidPropensity
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import distinct_labels
from observal.problem.rows import Matrix, Sparse
from observal.tables import read_labels

Propensity = ArrayLike | chances.Policy
"""The chance that each row's label was revealed: numbers, or a policy."""
Value = TypeVar("Value")

UNIFORM_POLICY = "the policy was uniform"
_MOST_DENSE_VALUES = 10_000_000  # 80 MB; larger sparse matrices stay sparse


@dataclass(frozen=True, eq=False)
class ImportedLog:
    """A log, the pool where there is one, the names of the features, and what was done in sentences.

    The names are empty where a large sparse file has none.

    Examples
    --------
    >>> from observal.exchange.importers import from_vw_cb
    >>> imported = from_vw_cb(["1:0:0.5 | age:30", "1:1:0.5 | age:50", "2:0:0.5 | age:40"], action=1)
    >>> imported.logged, imported.pool, imported.feature_names
    (LoggedData(3 rows × 1 features, 2 revealed, classes [0, 1]), None, ('age',))
    """

    logged: LoggedData
    pool: Pool | None
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]


def make_labels(
    values: Sequence[Value] | NDArray[Any],
    revealed: Bools,
    label: Callable[[Value], Hashable] | None,
    classes: Sequence[Hashable] | None,
    what: str,
) -> tuple[NDArray[Any], list[Hashable]]:
    """Return labels, None where not revealed, and the two classes; `label` turns a value into its label.

    Examples
    --------
    >>> import numpy as np
    >>> make_labels([0.0, 5.0, 1.0], np.array([True, False, True]), None, None, "The reward")[0].tolist()
    [0, None, 1]
    """
    raw = np.empty(revealed.size, dtype=object)
    revealed_values = np.asarray(values, dtype=object)[revealed]
    raw[revealed] = revealed_values if label is None else [label(value) for value in revealed_values.tolist()]
    labels, missing = read_labels(raw, classes)
    lost = missing & revealed
    if lost.any():
        raise InvalidLabel(
            f"{what} must be known where it was revealed, but row {int(np.argmax(lost))} has none; fill it in."
        )
    pair = list(classes) if classes is not None else distinct_labels(labels[~missing]).tolist()
    if len(pair) != 2:
        listed = ", ".join(repr(value) for value in pair[:5]) + (", …" if len(pair) > 5 else "")
        raise InvalidLabel(
            f"{what} must have two values, but has {len(pair)} ({listed or 'none'}); name both with classes=, or turn the "
            "values into two with label=, a function of the value."
        )
    return labels, pair


def make_propensity(source: Propensity, X: Matrix, X_pool: Matrix | None) -> tuple[Floats, Floats | None]:
    """Return the log's and the pool's propensities from a number, an array or a policy.

    Examples
    --------
    >>> import numpy as np
    >>> make_propensity(0.5, np.zeros((2, 1)), None)[0].tolist()
    [0.5, 0.5]
    """
    if isinstance(source, str):
        raise InvalidInput(
            f"`propensity` must be numbers or a policy, but is {source!r}; a propensity is the chance that a row's label was revealed."
        )
    if callable(source) or isinstance(source, chances.PolicyModel):
        pool = None if X_pool is None else chances.from_policy(source, X_pool)
        return chances.from_policy(source, X), pool
    if X_pool is not None and np.ndim(source) > 0:
        raise InvalidInput(
            "Log and pool both need propensities, but the numbers given are for the log alone; give a policy or one number."
        )
    pool = None if X_pool is None else check_propensity(source, X_pool.shape[0], "The pool")
    return check_propensity(source, X.shape[0], "The log"), pool


def dense_if_small(X: Sparse) -> Matrix:
    """Return a sparse matrix as an array where that fits easily in memory."""
    return X.toarray() if X.shape[0] * X.shape[1] <= _MOST_DENSE_VALUES else X


def action_propensity(taken: Bools, pscore: Floats, available: Bools, n_available: Ints) -> tuple[Floats, Bools, str]:
    """Return the chance of the chosen action at each row, where it follows from the log, and why it does.

    It is the logged chance where the action was taken; 0 where it was not on offer; 1 − p where the other of two actions
    was taken with chance p; and 1/k everywhere under a policy that took each of k actions equally often.

    `pscore` is the logged chance of the action that was taken. `available` says where the chosen one could be taken, and `n_available` how
    many could be.

    Examples
    --------
    >>> import numpy as np
    >>> taken = np.array([True, False])
    >>> action_propensity(taken, np.array([0.7, 0.8]), np.ones(2, bool), np.array([2, 2]))[0].round(3).tolist()
    [0.7, 0.2]
    """
    outside = ~((pscore > 0.0) & (pscore <= 1.0))
    if outside.any():
        row = int(np.argmax(outside))
        raise InvalidPropensity(
            f"The logged chance of an action that was taken must be in (0, 1], but row {row} has {pscore[row]}; correct it."
        )
    values = np.where(taken, pscore, 0.0)
    if np.allclose(pscore * n_available, 1.0, rtol=0.0, atol=1e-3):  # chances are often written with four digits
        return np.where(available & ~taken, pscore, values), np.ones(taken.size, dtype=bool), UNIFORM_POLICY
    of_two = available & ~taken & (n_available == 2)
    values[of_two] = 1.0 - pscore[of_two]
    reason = "of two actions, the other one's chance is what is left" if of_two.any() else ""
    return values, taken | ~available | of_two, reason


def check_known(is_known: Bools, action: int, reason: str) -> list[str]:
    """Refuse a log from which the chosen action's chance does not follow everywhere; return a note on why it does."""
    if not is_known.all():
        raise InvalidPropensity(
            f"The chance of action {action!r} is not known at {int((~is_known).sum())} of {is_known.size} rows, where another action "
            "was taken; give it with propensity= (numbers, or a policy); it is the chance that a row's label, the reward of that "
            "action, was revealed."
        )
    return [f"The propensity is known at every row, because {reason}."] if reason else []
