"""Open Bandit Pipeline's dictionary of logged bandit feedback."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.propensity import PolicyModel
from observal.errors import InvalidInput, InvalidPropensity
from observal.exchange.imported_log import (
    ImportedLog,
    Propensity,
    action_propensity,
    check_known,
    make_labels,
    make_propensity,
)
from observal.problem.data import LoggedData
from observal.problem.rows import Matrix, check_features

_REQUIRED = ("context", "action", "reward", "pscore")


def from_obp(
    feedback: Mapping[str, Any],
    action: int,
    propensity: Propensity | None = None,
    *,
    label: Callable[[Any], Hashable] | None = None,
    classes: Sequence[Hashable] | None = None,
) -> ImportedLog:
    """Read Open Bandit Pipeline's dictionary as a log about one action.

    The label is the reward when `action` is taken, revealed exactly where it was taken. Its propensity is the chance that
    a row's label was revealed, so the chance of `action` at that row: ``pscore`` where it was taken. Elsewhere it is
    taken, in this order, from `propensity`; from ``pi_b`` (or ``action_dist``); from there being two actions, or a
    uniform policy. If none of these applies, that is an error.

    Parameters
    ----------
    feedback : mapping
        ``context`` (rows, features), ``action``, ``reward``, ``pscore`` (rows,), and optionally ``n_actions``,
        ``position`` (rows,), and ``pi_b`` or ``action_dist`` of shape (rows, actions) or (rows, actions, positions).
    action : int
        The action whose reward is the label.
    propensity : optional
        The chance of `action` where another was taken: numbers, an action distribution shaped as above, or a policy (see
        ``observal.diagnosis.propensity.from_policy``).
    label : callable, optional
        From a reward to its label; needed where rewards have more than two values.
    classes : sequence, optional
        The two labels, negative first; needed where only one occurs.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.exchange.importers import from_obp
    >>> feedback = {
    ...     "context": np.array([[0.1], [0.2], [0.3], [0.4]]), "action": np.array([0, 1, 2, 1]),
    ...     "reward": np.array([1, 0, 1, 1]), "pscore": np.array([0.5, 0.3, 0.2, 0.3]), "n_actions": 3,
    ...     "pi_b": np.tile([[0.5], [0.3], [0.2]], (4, 1, 1)),
    ... }
    >>> logged = from_obp(feedback, action=1).logged
    >>> logged.y.tolist(), logged.propensity.tolist()
    ([None, 0, None, 1], [0.3, 0.3, 0.3, 0.3])
    """
    context, actions, rewards, pscore, n_actions = _read_feedback(feedback)
    if not 0 <= action < n_actions:
        raise InvalidInput(
            f"`action` must be one of the actions 0 to {n_actions - 1}, but is {action}; choose one of them."
        )
    taken = actions == action
    if not taken.any():
        raise InvalidInput(
            f"Action {action} was never taken in this log, so no label was revealed; choose one of {np.unique(actions)[:20].tolist()}."
        )
    labels, label_values = make_labels(rewards, taken, label, classes, "The reward")
    everywhere = np.ones(taken.size, dtype=bool)
    values, is_known, reason = action_propensity(taken, pscore, everywhere, np.full(taken.size, n_actions))
    notes = [f"The label is the reward of action {action}, revealed in {int(taken.sum())} of {taken.size} rows."]
    distribution: ArrayLike | None = None
    if propensity is None:
        distribution = feedback.get("pi_b", feedback.get("action_dist"))
    elif not (callable(propensity) or isinstance(propensity, str | PolicyModel)):
        distribution = propensity
    if distribution is not None and np.ndim(distribution) > 1:
        values = _read_distribution(distribution, feedback.get("position"), action, n_actions, taken, pscore)
    elif propensity is not None:
        values = np.where(taken, pscore, make_propensity(propensity, context, None)[0])
    else:
        notes += check_known(is_known, action, reason)
    names = tuple(f"context {column}" for column in range(context.shape[1]))
    return ImportedLog(LoggedData(context, labels, values, classes=label_values), None, names, tuple(notes))


def _read_feedback(feedback: Mapping[str, Any]) -> tuple[Matrix, Ints, NDArray[Any], Floats, int]:
    if not isinstance(feedback, Mapping):
        raise InvalidInput(f"Bandit feedback must be a dictionary, but got {type(feedback).__name__}.")
    lacking = [name for name in _REQUIRED if feedback.get(name) is None]
    if lacking:
        raise InvalidInput(
            f"Bandit feedback needs {', '.join(_REQUIRED)}, but has no {', '.join(lacking)}; it has {sorted(map(str, feedback))}."
        )
    context = check_features(feedback["context"], "The context")
    n_rows = context.shape[0]
    columns = [np.asarray(feedback[name]) for name in ("action", "reward", "pscore")]
    for name, column in zip(("action", "reward", "pscore"), columns, strict=True):
        if column.shape != (n_rows,):
            raise InvalidInput(
                f"`{name}` must have one value for each of the {n_rows} rows, but has shape {column.shape}."
            )
    if columns[0].dtype.kind not in "iu" or n_rows == 0 or columns[0].min() < 0:
        raise InvalidInput("`action` must be whole numbers from 0 on, with at least one row; number the actions.")
    n_actions = int(feedback.get("n_actions") or columns[0].max() + 1)
    if columns[0].max() >= n_actions:
        raise InvalidInput(
            f"`action` must be below n_actions = {n_actions}, but {int(columns[0].max())} was seen; correct one."
        )
    try:
        return context, columns[0], columns[1], columns[2].astype(np.float64), n_actions
    except (TypeError, ValueError):
        raise InvalidPropensity("`pscore` must be numbers, but some are not; correct them.") from None


def _read_distribution(
    distribution: ArrayLike, position: ArrayLike | None, action: int, n_actions: int, taken: Bools, pscore: Floats
) -> Floats:
    chances = np.asarray(distribution, dtype=np.float64)
    n_rows = taken.size
    if chances.ndim not in (2, 3) or chances.shape[:2] != (n_rows, n_actions):
        raise InvalidPropensity(
            f"The action distribution must have shape ({n_rows}, {n_actions}) or ({n_rows}, {n_actions}, positions), but has "
            f"{chances.shape}."
        )
    slots = np.zeros(n_rows, dtype=np.int64) if position is None else np.asarray(position)
    if chances.ndim == 3:
        if (
            slots.shape != (n_rows,)
            or slots.dtype.kind not in "iu"
            or slots.min() < 0
            or slots.max() >= chances.shape[2]
        ):
            raise InvalidInput(
                f"`position` must be a whole number below {chances.shape[2]} for each of the {n_rows} rows."
            )
        values = chances[np.arange(n_rows), action, slots]
    else:
        values = chances[:, action]
    wrong = taken & ~np.isclose(values, pscore, rtol=1e-3, atol=1e-6)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidPropensity(
            f"The action distribution must agree with pscore where action {action} was taken, but in row {row} it says "
            f"{values[row]:g} and pscore {pscore[row]:g}; correct one of them."
        )
    return np.asarray(values)
