"""Importance weights, clip thresholds and the bias-correcting query policy.

Everything is vectorised over rows. ``m`` in the formulas is ``n_logged``, ``n`` is ``n_online`` or ``seen``, ``Q0`` is
``propensity``. Nothing here looks at labels, so all of it can be computed before a label is bought.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Bools, Floats, Ints, check_mass, check_number, check_range
from observal.errors import InvalidInput, InvalidPropensity


def importance(propensity: ArrayLike, n_logged: int, n_online: int = 0, online_mass: ArrayLike = 0.0) -> Floats:
    """Return the multiple-importance-sampling weight of each row.

    Implements ``w(x) = (m + n) / (m·Q0(x) + Σ_i τ_i·Q_i(x))`` (section "Algorithm" of the paper). The log and all
    queries are treated as one sample from the mixture of the policies that drew them.

    Parameters
    ----------
    propensity : array
        Q0(x) of each row.
    n_logged, n_online : int
        All logged rows, revealed or not, and all online rows looked at so far.
    online_mass : array or float
        Σ_i τ_i·Q_i(x): how many queries the online policies were expected to spend on x, for any policies. For the
        bias-correcting one it is ``online_mass``.

    Returns
    -------
    array
        The weights; infinity where neither the log nor any query could have shown the row.

    Examples
    --------
    >>> importance([1.0, 0.1], n_logged=100, n_online=50, online_mass=[0.0, 50.0])
    array([1.5, 2.5])
    """
    rows = _row_count(n_logged, n_online)
    fix = "give how many queries the online policies were expected to spend on each row"
    spent = check_range(online_mass, "`online_mass`", 0.0, fix=fix)
    mixture = _chances(propensity) * float(n_logged) + spent
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.divide(rows, mixture))


def plain_importance(probability: ArrayLike) -> Floats:
    """Return the weight 1/Q_i(x) of rows drawn by their own policy alone, without mixing policies.

    This is l_IS of the paper's key technique 2, kept for the ablation: a logged row weighs 1/Q0(x), an online row
    1/Q_i(x) for the policy of its own epoch. A row with probability 0 has no such weight and gets infinity.

    Examples
    --------
    >>> plain_importance([0.5, 0.125])
    array([2., 8.])
    """
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.divide(1.0, _chances(probability)))


def query_policy(propensity: ArrayLike, n_logged: int, seen: int | Ints) -> Bools:
    """Return which rows the bias-correcting policy would have labelled: ``2·n_{k+1} > m·Q0(x)``.

    Parameters
    ----------
    propensity : array
        Q0(x) of each row.
    n_logged : int
        All logged rows.
    seen : int or int array
        Online rows looked at by the end of the coming epoch, n_{k+1}; an array if each row is an epoch of its own.

    Notes
    -----
    The paper defines Q_{k+1}(x) = 1{m·Q0(x) + Σ_{i≤k} τ_i·Q_i(x) < (m/2)·Q0(x) + n_{k+1}}; for epochs that never
    shrink it equals the form used here (its proposition ``prop:Q-simplified``).

    Examples
    --------
    >>> query_policy([0.01, 0.2, 1.0], n_logged=100, seen=10)
    array([ True, False, False])
    """
    _check_count(n_logged, "logged")
    _check_count(float(np.min(seen)) if np.size(seen) else 0.0, "online")
    return np.asarray(_chances(propensity) * float(n_logged) < 2.0 * np.asarray(seen))


def online_mass(
    propensity: ArrayLike, n_logged: int, epochs: Sequence[int], seen: Sequence[int] | None = None
) -> Floats:
    """Return Σ_i τ_i·Q_i(x), the queries that the bias-correcting policy was expected to spend on each row.

    With Q_i(x) = 1{2·n_i > m·Q0(x)} and n_i never shrinking, the sum is that of all epochs from the first with
    2·n_j > m·Q0(x) on: one sorted search per row, however many epochs there were.

    Parameters
    ----------
    propensity : array
        Q0(x) of each row.
    n_logged : int
        All logged rows.
    epochs : sequence of int
        τ_1, τ_2, …: the rows that each epoch looked at.
    seen : sequence of int, optional
        The n_i that each epoch's policy was fixed with; the running sum of `epochs` by default. They differ where an
        epoch ended early because the label budget did.

    Examples
    --------
    >>> online_mass([0.01, 0.15, 1.0], n_logged=100, epochs=[2, 8])
    array([10.,  8.,  0.])
    """
    _check_count(n_logged, "logged")
    sizes = np.asarray(epochs, dtype=np.float64)
    gates = 2.0 * (np.cumsum(sizes) if seen is None else np.asarray(seen, dtype=np.float64))
    counts = np.concatenate([sizes.ravel(), gates.ravel()])
    possible = ((counts >= 0.0) & (counts < np.inf)).all()
    if gates.shape != sizes.shape or not possible or (np.diff(gates) < 0).any():
        raise InvalidInput(
            f"Epochs need sizes ≥ 0 and one never-shrinking total ≥ 0 each, but got sizes {sizes.tolist()} "
            f"with totals {(gates / 2.0).tolist()}; give the rows that each epoch looked at."
        )
    first_open = np.searchsorted(gates, _chances(propensity) * float(n_logged), side="right")
    from_here_on = np.append(np.cumsum(sizes[::-1])[::-1], 0.0)
    return np.asarray(from_here_on[first_open])


def clip_threshold(
    propensity: ArrayLike, n_logged: int, seen: int, log_term: float, mass: ArrayLike | None = None
) -> float:
    """Return the clip threshold M_k of Algorithm 1, step 1, exactly.

    ``M_k = inf{M ≥ 1 : 2·M·L_k/(m + n_k) ≥ P((m + n_k)/(m·Q0 + n_k) > M/2)}``

    Parameters
    ----------
    propensity : array
        A sample of Q0(X) (labels are not needed), or with `mass` the values Q0 takes.
    n_logged, seen : int
        m and n_k.
    log_term : float
        L_k = log(|H|/δ_k).
    mass : array, optional
        The probability of each value of `propensity`; it sums to 1.

    Examples
    --------
    >>> clip_threshold([0.01, 1.0], n_logged=100, seen=0, log_term=2.0, mass=[0.2, 0.8])
    5.0
    """
    rows = _row_count(n_logged, seen)
    check_number(log_term, "The log term", 0.0)
    return _least_clip(propensity, mass, lambda q: 2.0 * _over(rows, n_logged * q + seen), slope=2.0 * log_term / rows)


def passive_clip_threshold(
    propensity: ArrayLike, n_logged: int, log_term: float, mass: ArrayLike | None = None
) -> float:
    """Return the clip threshold M0 for a log alone, exactly; never above 1/q0.

    ``M0 = inf{M ≥ 1 : 2·M·log(|H|/δ)/m ≥ P(1/Q0 > M)}``

    Parameters
    ----------
    propensity : array
        A sample of Q0(X), or with `mass` the values Q0 takes.
    n_logged : int
        m.
    log_term : float
        log(|H|/δ).
    mass : array, optional
        The probability of each value of `propensity`; it sums to 1.

    Examples
    --------
    >>> passive_clip_threshold([0.01, 1.0], n_logged=100, log_term=2.0, mass=[0.2, 0.8])
    5.0
    >>> passive_clip_threshold([0.01, 1.0], n_logged=10_000, log_term=2.0, mass=[0.2, 0.8])
    100.0
    """
    check_number(n_logged, "The number of logged rows", 1)
    check_number(log_term, "The log term", 0.0)
    return _least_clip(propensity, mass, lambda q: _over(1.0, q), slope=2.0 * log_term / n_logged)


def practical_clip_threshold(propensity: ArrayLike, n_logged: int, seen: int, clip_constant: float) -> float:
    """Return the clip threshold of the paper's experiments, on a sample of Q0, exactly.

    ``inf{M ≥ 1 : C·M/(m + n_k) ≥ P((m + n_k)/(m·Q0 + n_k) > M)}``: `clip_constant`, C, takes the place of
    the log term, and the factors 2 of Algorithm 1 are left out.

    Examples
    --------
    >>> practical_clip_threshold([0.01, 1.0, 1.0, 1.0], n_logged=100, seen=0, clip_constant=2.5)
    10.0
    """
    rows = _row_count(n_logged, seen)
    check_number(clip_constant, "The clip constant", 0.0, open_low=True)
    return _least_clip(propensity, None, lambda q: _over(rows, n_logged * q + seen), slope=clip_constant / rows)


def effective_sample_size(importance: ArrayLike) -> float:
    """Return how many equally weighted rows carry the same information: (Σ w)² / Σ w².

    Weights are at least 0 and finite: rows that cannot count are left out first.

    Examples
    --------
    >>> effective_sample_size([1.0, 1.0, 1.0]), round(effective_sample_size([100.0, 1.0]), 3)
    (3.0, 1.02)
    """
    weights = check_range(importance, "Weights", 0.0, fix="leave out the rows that have no weight").ravel()
    largest = float(weights.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    shares = weights / largest  # whose squares neither overflow nor all vanish
    return float(shares.sum()) ** 2 / float(np.dot(shares, shares))


def _check_count(rows: float, which: str) -> float:
    return float(check_number(rows, f"The number of {which} rows", 0))


def _row_count(n_logged: int, n_online: int) -> float:
    """Return all rows, of which there must be one."""
    rows = float(_check_count(n_logged, "logged") + _check_count(n_online, "online"))
    if rows <= 0.0:
        raise InvalidInput("A weight needs rows, but there are 0 logged and 0 online ones; give at least one.")
    return rows


def _chances(propensity: ArrayLike) -> Floats:
    """Return propensities as floats in [0, 1]."""
    fix = "a propensity is the chance that a row's label was revealed"
    return check_range(propensity, "Propensities", 0.0, 1.0, fix=fix, error=InvalidPropensity)


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0.0 else np.inf


def _least_clip(
    propensity: ArrayLike, mass: ArrayLike | None, jump_at: Callable[[float], float], slope: float
) -> float:
    """Return inf{M ≥ 1 : slope·M ≥ P(jump_at(Q0) > M)} for a decreasing `jump_at`.

    The probability falls only where M passes jump_at(q) for a value q that Q0 takes, and is constant from there on.
    With the values in ascending order, the condition first holds at max(jump_at(q_i), P(Q0 < q_i)/slope) for some i:
    the first part falls with i and the second rises, so that the least maximum is where they cross.
    """
    values = _chances(propensity).ravel()
    if values.size == 0:
        raise InvalidInput("A clip threshold needs at least one propensity, but got none; give a sample of Q0.")
    below: Floats | None = None
    if mass is None:
        values = np.sort(values)
    else:
        masses = check_mass(np.ravel(mass), values.size)
        order = np.argsort(values, kind="stable")
        values, below = values[order], np.concatenate([[0.0], np.cumsum(masses[order])])

    def falling(i: int) -> float:
        return jump_at(float(values[i])) if i < values.size else 0.0

    def rising(i: int) -> float:
        share = i / values.size if below is None else float(below[i])
        return 0.0 if share <= 0.0 else _over(share, slope)

    low, high = 0, values.size  # the crossing is in low…high: rising(size) ≥ falling(size) = 0 always
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if rising(middle) >= falling(middle) else (middle + 1, high)
    at_crossing = max(falling(low), rising(low))
    before = max(falling(low - 1), rising(low - 1)) if low > 0 else np.inf
    return max(1.0, min(at_crossing, before))
