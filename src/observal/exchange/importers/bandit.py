"""What bandit logs share: the propensity of one action at every row, as far as the log tells it."""

from __future__ import annotations

from typing import Any

import numpy as np

from observal.checks import Bools, Floats
from observal.errors import InvalidPropensity


def action_propensity(taken: Bools, pscore: Floats, available: Bools, n_available: Any) -> tuple[Floats, Bools, str]:
    """Return the chance of the chosen action at each row, where it is known, and how it is known.

    It is the logged chance where the action was taken; 0 where it was not on offer; 1 − p where the other of two actions
    was taken with chance p; and 1/k everywhere under a policy that took each of k actions equally often.

    Parameters
    ----------
    taken : bool array
        Where the chosen action was taken.
    pscore : float array
        The logged chance of the action that was taken.
    available : bool array
        Where the chosen action could be taken.
    n_available : int array
        How many actions could be taken at each row.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.exchange.importers.bandit import action_propensity
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
    known = taken | ~available
    values = np.where(taken, pscore, 0.0)
    if np.allclose(pscore * n_available, 1.0, rtol=0.0, atol=1e-3):  # chances are often written with four digits
        return np.where(available & ~taken, pscore, values), np.ones(taken.size, dtype=bool), "the policy was uniform"
    of_two = available & ~taken & (n_available == 2)
    values[of_two] = 1.0 - pscore[of_two]
    return values, known | of_two, "of two actions, the other one's chance is what is left" if of_two.any() else ""


def refuse_unknown(known: Bools, action: Any) -> None:
    """Refuse a log that does not tell the chosen action's chance everywhere.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.exchange.importers.bandit import refuse_unknown
    >>> refuse_unknown(np.array([True, True]), action=1)
    """
    if not known.all():
        raise InvalidPropensity(
            f"The chance of action {action!r} is not known at {int((~known).sum())} of {known.size} rows, where another action "
            "was taken; give it with propensity= (numbers, or a policy), or propensity='estimate'; it is the chance that a "
            "row's label, the reward of that action, was revealed."
        )
