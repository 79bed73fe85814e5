"""The paper's error bounds as numbers, each with its terms (Yan, Chaudhuri, Javidi, NeurIPS 2019).

Names: `clip` is M, `n_logged` m, `n_rows` N = m + n_k, `n_hypotheses` |H|, `penalty` λ. A `second_moment` is that of
a clipped weighted loss, V for its expectation and V̂ for its estimate; it may be an array, and so is the bound then.
Where printed text and its own proof differ, ``reading="printed"`` is the text and ``reading="derived"`` the proof.
The bounds of the active algorithm are in `observal.paper.label_complexity`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Floats, check_number, check_range, check_share
from observal.errors import InvalidInput

Reading = Literal["printed", "derived"]
Value = float | Floats


@dataclass(frozen=True)
class Bound:
    """A bound and the terms it is the sum of.

    Parameters
    ----------
    terms : mapping of str to float or array
        Each term by name, in the order of the formula.

    Attributes
    ----------
    total : float or array
        The sum of the terms.

    Examples
    --------
    >>> bound = Bound({"range": 0.25, "second_moment": 0.5})
    >>> bound.total, float(bound)
    (0.75, 0.75)
    """

    terms: Mapping[str, Value]
    total: Value = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", dict(self.terms))
        object.__setattr__(self, "total", sum(self.terms.values()))

    def __float__(self) -> float:
        return float(self.total)


def check_reading(reading: str) -> None:
    """Raise an error unless it is one of the two readings."""
    if reading not in ("printed", "derived"):
        raise InvalidInput(f"The reading must be 'printed' or 'derived', but is {reading!r}; name one of the two.")


def root_term(factor: float, second_moment: ArrayLike) -> Value:
    """Return sqrt(factor · second moment), a float for a number and an array for an array."""
    fix = "give E[weight · 1{mistake}] over the rows that are not clipped"
    moment = check_range(second_moment, "Second moments", 0.0, fix=fix)
    root = np.sqrt(factor * moment)
    return float(root) if root.ndim == 0 else root


def log_term(n_hypotheses: int, delta: float) -> float:
    """Return log(|H|/δ); it does not overflow, however large the class.

    Examples
    --------
    >>> round(log_term(4, 0.01), 4)
    5.9915
    """
    check_number(n_hypotheses, "The number of classifiers in a class", 1)
    check_share(delta, "The failure probability delta", inner=True, fix="0.05 is usual")
    return math.log(n_hypotheses) - math.log(delta)


def epoch_confidence(delta: float, k: int) -> float:
    """Return δ_k = δ/(2(k+1)(k+2)), the failure probability of epoch k; over all k ≥ 0 they sum to δ/2.

    Examples
    --------
    >>> epoch_confidence(0.12, 0), epoch_confidence(0.12, 1)
    (0.03, 0.01)
    """
    log_term(1, delta)
    epoch = float(check_number(k, "The epoch", 0))
    return delta / (2.0 * (epoch + 1.0) * (epoch + 2.0))


def certified_gamma(n_hypotheses: int, delta: float) -> float:
    """Return a γ1 for which ``cor:gen`` holds: (22/3)·(1 + log 6 / log(|H|/δ)).

    The paper says "an absolute constant". Take `thm:gen`, both lines, and `cor:var-gen`, each at δ/3, and
    L' = log(6|H|/δ). Then the difference of two losses is off by at most ::

        (10/3)·M·L'/N + 2·sqrt(L'/N)·sqrt(V),   sqrt(V) ≤ sqrt(V̂) + 2·M·sqrt(L'/N) + M²/N,

    that is (22/3)·M·L'/N + 2·M²·sqrt(L')/N^{3/2} + 2·sqrt(L'·V̂/N). With ρ = L'/log(|H|/δ) ≥ 1 the three factors are
    (22/3)·ρ, 2·sqrt(ρ) and 2·sqrt(ρ), none above (22/3)·ρ, which is the returned value. The second line of `cor:gen`
    needs (13/3)·ρ only. The step from V to V̂ holds even without M²/N: for 0 ≤ U² ≤ M² the lower tail
    V̂ ≥ V − sqrt(2·M²·V·L/N) gives sqrt(V) ≤ sqrt(V̂) + M·sqrt(2L/N), at L = 2·log(2|H|/δ) for all pairs.

    Examples
    --------
    >>> round(certified_gamma(4, 0.01), 4)
    9.5264
    """
    return 22.0 / 3.0 * (1.0 + math.log(6.0) / log_term(n_hypotheses, delta))


def candidate_slack(clip: float, n_rows: float, log_term: float) -> tuple[float, float]:
    """Return (σ1, σ2) of Algorithm 1: M·L/N + M²·sqrt(L)/N^{3/2} and L/N, with L = log(|H|/δ_k).

    This is the appendix, which the proofs use. The algorithm box prints (M/N + M²/N^{3/2})·L as σ1.

    Examples
    --------
    >>> candidate_slack(clip=2.0, n_rows=100, log_term=4.0)
    (0.088, 0.04)
    """
    check_number(clip, "The clip threshold", 0.0, open_low=True)
    check_number(n_rows, "The number of rows", 1)
    check_number(log_term, "The log term", 0.0)
    return clip * log_term / n_rows + clip**2 * math.sqrt(log_term) / n_rows**1.5, log_term / n_rows


def deviation_bound(clip: float, n_rows: float, n_hypotheses: int, delta: float, second_moment: ArrayLike) -> Bound:
    """Return the right side of ``thm:gen``: (10/3)·M·L/N + sqrt(4·L·V/N), L = log(2|H|/δ).

    It bounds how far a clipped loss is from the error (V = V(h)), and a difference of two losses from the difference of
    errors (V = V(h1, h2)), for all of H at once. The clip must satisfy 2·M·log(|H|/δ)/N ≥ P((m+n)/(m·Q0+n) > M/2);
    the paper prints "≥ M/2", its proof uses ">", and with ">" the smallest such M exists.

    Examples
    --------
    >>> bound = deviation_bound(clip=3.0, n_rows=1000, n_hypotheses=10, delta=0.05, second_moment=0.25)
    >>> {name: round(term, 4) for name, term in bound.terms.items()}
    {'range': 0.0599, 'second_moment': 0.0774}
    """
    rate = log_term(2 * n_hypotheses, delta) / check_number(n_rows, "The number of rows", 1)
    check_number(clip, "The clip threshold", 0.0, open_low=True)
    return Bound({"range": 10.0 / 3.0 * clip * rate, "second_moment": root_term(4.0 * rate, second_moment)})


def second_moment_deviation(clip: float, n_rows: float, n_hypotheses: int, delta: float) -> Bound:
    """Return the right side of ``cor:var-gen``: sqrt(4·M²·log(2|H|/δ)/N) + M²/N bounds |sqrt(V̂) − sqrt(V)|.

    Examples
    --------
    >>> second_moment_deviation(clip=3.0, n_rows=900, n_hypotheses=10, delta=0.05).terms["range_squared"]
    0.01
    """
    rate = log_term(2 * n_hypotheses, delta) / check_number(n_rows, "The number of rows", 1)
    check_number(clip, "The clip threshold", 0.0, open_low=True)
    return Bound({"range": 2.0 * clip * math.sqrt(rate), "range_squared": clip**2 / n_rows})


def difference_bound(
    clip: float,
    n_rows: float,
    n_hypotheses: int,
    delta: float,
    second_moment: ArrayLike,
    *,
    gamma: float | None = None,
) -> Bound:
    """Return the right side of ``cor:gen``: γ1·σ1 + γ1·sqrt(σ2·V̂(h1, h2)), σ1 and σ2 from `candidate_slack`.

    `gamma` is `certified_gamma` by default. A smaller one is a practical setting without a guarantee.

    Examples
    --------
    >>> bound = difference_bound(2.0, 100, 10, 0.05, second_moment=[0.0, 1.0], gamma=1.0)
    >>> bound.total.round(4).tolist()
    [0.1152, 0.3454]
    """
    log = log_term(n_hypotheses, delta)
    scale = certified_gamma(n_hypotheses, delta) if gamma is None else check_number(gamma, "gamma", 0.0)
    check_number(clip, "The clip threshold", 0.0, open_low=True)
    rate = log / check_number(n_rows, "The number of rows", 1)
    return Bound(
        {
            "range": scale * clip * rate,
            "range_squared": scale * clip**2 * math.sqrt(log) / n_rows**1.5,
            "second_moment": root_term(scale**2 * rate, second_moment),
        }
    )


def general_erm_bound(
    clip: float,
    n_logged: float,
    n_hypotheses: int,
    delta: float,
    second_moment: ArrayLike,
    *,
    clipped_mass: float,
    penalty: float | None = None,
) -> Bound:
    """Return ``thm:general-err-bnd`` as printed: the excess error of regularised, clipped ERM.

    2λM/m + (16/3)·M·L/m + M²·sqrt(4L)/m^{3/2} + sqrt(λ·V(h*)/m) + P(1/Q0 > M), with L = log(|H|/δ) and
    `penalty` λ ≥ 4L, 4L by default. Its proof is omitted in the paper, and the argument that it points to yields twice the
    square root and log(4|H|/δ): `safe_erm_bound` is the one with a proof.

    Examples
    --------
    >>> bound = general_erm_bound(10.0, 10_000, 10, 0.05, second_moment=0.1, clipped_mass=0.001)
    >>> round(bound.terms["penalty"], 4), round(bound.total, 4)
    (0.0424, 0.0867)
    """
    log = log_term(n_hypotheses, delta)
    check_number(clip, "The clip threshold", 1.0)
    check_number(n_logged, "The number of logged rows", 1)
    fix = "leave it out for 4·log(|H|/δ), the smallest one"
    weight = 4.0 * log if penalty is None else check_number(penalty, "The penalty", 4.0 * log, fix=fix)
    return Bound(
        {
            "penalty": 2.0 * weight * clip / n_logged,
            "range": 16.0 / 3.0 * clip * log / n_logged,
            "range_squared": clip**2 * math.sqrt(4.0 * log) / n_logged**1.5,
            "second_moment": root_term(weight / n_logged, second_moment),
            "clipped_mass": check_number(clipped_mass, "The clipped mass", 0.0, 1.0),
        }
    )


def _default_erm_bound(
    clip: float, n_logged: float, n_hypotheses: int, delta: float, second_moment: ArrayLike, *, factor: float
) -> Bound:
    """Return `general_erm_bound` at the default penalty, its terms linear in M merged into factor·M·L/m."""
    terms = general_erm_bound(clip, n_logged, n_hypotheses, delta, second_moment, clipped_mass=0.0).terms
    linear = factor * clip * log_term(n_hypotheses, delta) / n_logged
    return Bound({"range": linear, "range_squared": terms["range_squared"], "second_moment": terms["second_moment"]})


def second_moment_erm_bound(
    n_logged: float,
    min_propensity: float,
    n_hypotheses: int,
    delta: float,
    second_moment: ArrayLike,
    *,
    reading: Reading = "printed",
) -> Bound:
    """Return ``thm:paper-smr-erm-gen``: the excess error of regularised ERM without clipping.

    c·L/(m·q0) + sqrt(4L)/(m^{3/2}·q0²) + sqrt(4L·E[1{h*≠Y}/Q0]/m), L = log(|H|/δ). c is 28/3 as printed; λ = 4L in
    ``thm:general-err-bnd``, from which it is said to follow, gives 40/3 (``reading="derived"``). See also `safe_erm_bound`.

    Examples
    --------
    >>> bound = second_moment_erm_bound(10_000, 0.1, n_hypotheses=10, delta=0.05, second_moment=0.1)
    >>> round(bound.total, 4)
    0.0645
    """
    check_reading(reading)
    check_number(min_propensity, "The smallest propensity", 0.0, 1.0, open_low=True)
    factor = (28.0 if reading == "printed" else 40.0) / 3.0
    return _default_erm_bound(1.0 / min_propensity, n_logged, n_hypotheses, delta, second_moment, factor=factor)


def clipped_erm_bound(
    clip: float,
    n_logged: float,
    n_hypotheses: int,
    delta: float,
    second_moment: ArrayLike,
    *,
    reading: Reading = "printed",
) -> Bound:
    """Return ``cor:paper-gen-err``: the excess error of regularised ERM clipped at M0.

    c·M0·L/m + M0²·sqrt(4L)/m^{3/2} + sqrt(4L·V(h*)/m), L = log(|H|/δ). c is 34/3 as printed; ``thm:general-err-bnd``
    with λ = 4L and P(1/Q0 > M0) ≤ 2·M0·L/m gives 46/3 (``reading="derived"``). See also `safe_erm_bound`.

    Examples
    --------
    >>> bound = clipped_erm_bound(10.0, 10_000, n_hypotheses=10, delta=0.05, second_moment=0.1, reading="derived")
    >>> round(bound.terms["range"], 4)
    0.0812
    """
    check_reading(reading)
    factor = (34.0 if reading == "printed" else 46.0) / 3.0
    return _default_erm_bound(clip, n_logged, n_hypotheses, delta, second_moment, factor=factor)


def safe_erm_bound(
    clip: float,
    n_logged: float,
    n_hypotheses: int,
    delta: float,
    second_moment: ArrayLike,
    *,
    clipped_mass: float,
    penalty: float | None = None,
) -> Bound:
    """Return a bound with a proof for what ``thm:general-err-bnd`` is about: the excess error of regularised, clipped ERM.

    P(1/Q0 > M) + (8/3)·M·L/m + M·sqrt(λL/2)/m + (sqrt(2L) + sqrt(λ))·sqrt(V(h*)/m), with L = log(4|H|/δ) and
    `penalty` λ ≥ 2L, 4·log(|H|/δ) by default; V(h*) = E[1{h*≠Y}/Q0·1{1/Q0 ≤ M}].

    Proof. Clipping moves a difference of errors by at most P(1/Q0 > M). Each of these fails with probability ≤ e^{−L},
    and there are fewer than 2|H| of them, so all hold with probability ≥ 1 − δ:
    Bernstein for every pair (h, h*), l(h) − l(h*) ≤ l̂(h) − l̂(h*) + (2/3)·M·L/m + sqrt(2L/m)·sqrt(V(h, h*));
    the lower tail of V̂(h), sqrt(V(h)) ≤ sqrt(V̂(h)) + M·sqrt(2L/m);
    the upper tail of V̂(h*), sqrt(V̂(h*)) ≤ sqrt(V(h*)) + M·sqrt(L/(2m)), since V̂ ≤ V + M·sqrt(2VL/m) + M²L/(3m).
    With sqrt(V(h, h*)) ≤ sqrt(V(h)) + sqrt(V(h*)), the first two give 2/3 + 2 = 8/3 and leave sqrt(2L·V̂(ĥ)/m)
    ≤ sqrt(λ·V̂(ĥ)/m), and l̂(ĥ) + sqrt(λ·V̂(ĥ)/m) ≤ l̂(h*) + sqrt(λ·V̂(h*)/m) by the choice of ĥ; then the third.

    Examples
    --------
    >>> bound = safe_erm_bound(10.0, 10_000, 10, 0.05, second_moment=0.1, clipped_mass=0.001)
    >>> round(bound.total, 4)
    0.0534
    """
    log = log_term(4 * n_hypotheses, delta)
    check_number(clip, "The clip threshold", 1.0)
    check_number(n_logged, "The number of logged rows", 1)
    penalty = 4.0 * log_term(n_hypotheses, delta) if penalty is None else penalty
    weight = check_number(penalty, "The penalty", 2.0 * log, fix="give one of at least 2·log(4|H|/δ)")
    return Bound(
        {
            "clipped_mass": check_number(clipped_mass, "The clipped mass", 0.0, 1.0),
            "range": 8.0 / 3.0 * clip * log / n_logged,
            "penalty": clip * math.sqrt(weight * log / 2.0) / n_logged,
            "second_moment": root_term((math.sqrt(2.0 * log) + math.sqrt(weight)) ** 2 / n_logged, second_moment),
        }
    )
