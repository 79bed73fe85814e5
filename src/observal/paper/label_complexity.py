"""What the active algorithm reaches and what it pays: the paper's bounds for Algorithm 1 as numbers.

The error (``thm:Convergence``), the effect of a query policy (key technique 3), the number of labels
(``thm:Label-Complexity``), and the seven label complexities of the Discussion. The disagreement coefficients in them are in
``disagreement``. Distributions are finite: one propensity, chance of a mistake and mass per point.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Floats, check_mass, check_number, check_propensity, check_range, check_shares
from observal.errors import InvalidInput
from observal.paper.bounds import (
    Bound,
    Reading,
    check_reading,
    epoch_confidence,
    log_term,
    root_term,
)


def convergence_bound(
    propensity: ArrayLike,
    mistakes: ArrayLike,
    *,
    n_logged: float,
    n_online: float,
    n_hypotheses: int,
    delta: float,
    clip: float,
    constant: float,
    mass: ArrayLike | None = None,
    n_epochs: int | None = None,
) -> Bound:
    """Return ``thm:Convergence``: the excess error of Algorithm 1 on a finite distribution.

    c0·(sqrt(E[1{h*≠Y}/(m·Q0+n)·1{(m+n)/(m·Q0+n) ≤ M}]·L) + M·L/(m+n) + M²·sqrt(L)/(m+n)^{3/2}). L is log(|H|/δ) as
    printed, without `n_epochs`; the proof has log(|H|/δ_K), with `n_epochs` = K. `clip` is M_K, whose definition has
    "> M/2" (the theorem prints "≥ M/2"). c0 is `constant`: the paper does not say it.

    Parameters
    ----------
    propensity, mistakes, mass : arrays of shape (points,)
        Q0(x), P(h*(X) ≠ Y | x) and P(x) of each point; equal masses by default.

    Examples
    --------
    >>> bound = convergence_bound(
    ...     [1.0, 0.1], [0.0, 0.2], n_logged=900, n_online=100, n_hypotheses=10, delta=0.05, clip=6.0, constant=1.0
    ... )
    >>> round(bound.terms["second_moment"], 4), round(bound.terms["range"], 4)
    (0.0528, 0.0318)
    """
    chance, weight = _mixture_weights(propensity, n_logged, n_online, None)
    mistake = check_shares(mistakes, chance.size, "The chance of a mistake")
    share = check_mass(mass, chance.size)
    check_number(constant, "The constant", 0.0, open_low=True)
    n_rows = n_logged + n_online
    unclipped = weight <= check_number(clip, "The clip threshold", 1.0)
    log = log_term(n_hypotheses, delta if n_epochs is None else epoch_confidence(delta, n_epochs))
    moment = float(np.sum(share[unclipped] * mistake[unclipped] * weight[unclipped])) / n_rows
    return Bound(
        {
            "second_moment": constant * root_term(log, moment),
            "range": constant * clip * log / n_rows,
            "range_squared": constant * clip**2 * math.sqrt(log) / n_rows**1.5,
        }
    )


def _mixture_weights(
    propensity: ArrayLike, n_logged: float, n_online: float, query_probability: ArrayLike | None
) -> tuple[Floats, Floats]:
    """Return Q0 and (m+n)/(m·Q0 + n·Q1), infinite where a label is never seen; Q1 is 1 where it is not given."""
    check_number(n_logged, "The number of logged rows", 0)
    check_number(n_online, "The number of online rows", 0)
    if n_logged + n_online < 1:
        raise InvalidInput("A bound needs data, but there are no logged and no online rows; give at least one row.")
    chance = check_propensity(propensity, np.size(propensity), "The distribution")
    query = 1.0 if query_probability is None else check_shares(query_probability, chance.size, "The query probability")
    expected_labels = n_logged * chance + n_online * query
    with np.errstate(over="ignore"):  # next to 0 the weight is as good as infinite
        weights = np.divide(
            n_logged + n_online, expected_labels, out=np.full(chance.size, np.inf), where=expected_labels > 0.0
        )
    return chance, weights


def query_policy_bound(
    propensity: ArrayLike,
    disagreement: ArrayLike,
    query_probability: ArrayLike,
    *,
    n_logged: float,
    n_online: float,
    n_hypotheses: int,
    delta: float,
    mass: ArrayLike | None = None,
    reading: Reading = "derived",
) -> Bound:
    """Return the bound of key technique 3, for any query policy Q1: what is added to l̂(h1) − l̂(h2).

    (4/3)·L·max 1/(m·Q0+n·Q1) + sqrt(4·L·E[1{h1≠h2}/(m·Q0+n·Q1)]), L = log(2|H|/δ); infinite where Q0 = Q1 = 0 has
    mass. The paper prints 1/(m·q0+n) for the maximum (``reading="printed"``), which is it exactly if
    Q1 ≥ 1 − m·(Q0 − q0)/n: for Q1 ≡ 1, and for the proposed Q1 whenever q0 ≤ n/m; else that Q1 has at most 1/(m·q0/2+n). The paper
    swaps m and n in words: m rows are logged, n unlabelled.

    Parameters
    ----------
    propensity, disagreement, query_probability, mass : arrays of shape (points,)
        Q0(x), P(h1(X) ≠ h2(X) | x), Q1(x) and P(x) of each point; equal masses by default.

    Examples
    --------
    The proposed Q1 = 1{m·Q0 < m·Q0/2 + n} asks about the second point only, half of the rows, at nearly the same bound:

    >>> propensity, m, n = np.array([1.0, 0.01]), 10_000, 1000
    >>> proposed = (m * propensity < m / 2 * propensity + n).astype(float)
    >>> for query_probability in (np.ones(2), proposed):
    ...     bound = query_policy_bound(
    ...         propensity, [0.1, 0.1], query_probability, n_logged=m, n_online=n, n_hypotheses=10, delta=0.05
    ...     )
    ...     print(query_probability.tolist(), round(bound.total, 4))
    [1.0, 1.0] 0.0419
    [0.0, 1.0] 0.042
    """
    check_reading(reading)
    log = log_term(2 * n_hypotheses, delta)
    chance, weight = _mixture_weights(propensity, n_logged, n_online, query_probability)
    difference = check_shares(disagreement, chance.size, "The disagreement")
    share = check_mass(mass, chance.size)
    support = share > 0.0
    n_rows = n_logged + n_online
    largest = float(weight[support].max()) / n_rows
    if reading == "printed":
        least = n_logged * float(chance[support].min()) + n_online
        largest = 1.0 / least if least > 0.0 else math.inf
    apart = support & (difference > 0.0)
    moment = float(np.sum(share[apart] * difference[apart] * weight[apart])) / n_rows
    return Bound({"range": 4.0 / 3.0 * log * largest, "second_moment": math.sqrt(4.0 * log * moment)})


def label_complexity_bracket(
    clips: ArrayLike,
    seen: ArrayLike,
    *,
    n_logged: float,
    min_propensity: float,
    noise: float,
    n_hypotheses: int,
    delta: float,
) -> Bound:
    """Return the bracket of ``thm:Label-Complexity``, without c1 and θ̃.

    n·ν + sqrt(n·ν·ξ·L/(α·q0+1)) + M̄·ξ·log(n)·sqrt(L)/sqrt(n·α) + ξ·log(n)·L/(α·q0+1), with L = log(|H|·log(n)/δ) and
    α = m/n. ξ is the largest of M_k/((m+n_k)/(m·q0+n_k)), as the proof needs, at most 2 for the M_k of Algorithm 1; the
    paper prints the smallest and "≤ 1". M̄ is the largest M_k. The theorem assumes τ_k = 2^k; its log(n) stands for K.

    Parameters
    ----------
    clips, seen : arrays of shape (epochs,)
        M_k and n_k for k = 1, …, K.
    noise : float
        ν, the error of the best classifier.

    Examples
    --------
    >>> bracket = label_complexity_bracket(
    ...     [2.0, 2.0], [100, 300], n_logged=900, min_propensity=0.5, noise=0.1, n_hypotheses=10, delta=0.05
    ... )
    >>> {name: round(term, 2) for name, term in bracket.terms.items()}
    {'noise': 30.0, 'second_moment': 10.28, 'range_squared': 1.26, 'range': 20.08}
    """
    threshold, rows = check_range(clips, "Clip thresholds", 1.0), check_range(seen, "The rows seen", 0.0)
    if threshold.ndim != 1 or threshold.shape != rows.shape or threshold.size == 0:
        raise InvalidInput(
            f"Each epoch needs its clip threshold and its rows seen, but their shapes are {threshold.shape} and "
            f"{rows.shape}; give both for k = 1, …, K."
        )
    if not (rows[0] >= 1.0 and (np.diff(rows) > 0.0).all() and rows[-1] >= 3.0):
        raise InvalidInput(
            f"The rows seen must grow from at least 1 to at least 3, but are {rows.tolist()}; give n_1 < n_2 < … < n_K."
        )
    check_number(n_logged, "The number of logged rows", 1)
    check_number(min_propensity, "The smallest propensity", 0.0, 1.0)
    check_number(noise, "The noise", 0.0, 1.0)
    n_online = float(rows[-1])
    growth = math.log(n_online)
    log = log_term(n_hypotheses, delta) + math.log(growth)
    ratio = float(np.max(threshold * (n_logged * min_propensity + rows) / (n_logged + rows)))
    share = ratio / (n_logged / n_online * min_propensity + 1.0)
    return Bound(
        {
            "noise": n_online * noise,
            "second_moment": math.sqrt(n_online * noise * share * log),
            "range_squared": float(threshold.max()) * ratio * growth * math.sqrt(log / n_logged),
            "range": share * growth * log,
        }
    )


def label_complexity_bound(
    clips: ArrayLike,
    seen: ArrayLike,
    *,
    n_logged: float,
    min_propensity: float,
    noise: float,
    n_hypotheses: int,
    delta: float,
    theta_tilde: float,
    constant: float,
) -> Bound:
    """Return ``thm:Label-Complexity``: the number of labels that Algorithm 1 asks for, with probability ≥ 1 − δ.

    c1·θ̃·(`label_complexity_bracket`) + τ_1 + 2K·log(4/δ_K). The theorem prints no additive term; its proof has
    1 + 2K·log(4/δ_K), the 1 standing for τ_1, which is 2 in its schedule τ_k = 2^k. c1 is `constant`: the paper does not
    say it. `theta_tilde` is `disagreement_coefficient`.

    Examples
    --------
    >>> bound = label_complexity_bound(
    ...     [2.0, 2.0], [100, 300], n_logged=900, min_propensity=0.5, noise=0.1, n_hypotheses=10, delta=0.05,
    ...     theta_tilde=2.0, constant=1.0
    ... )
    >>> bound.terms["noise"], bound.terms["first_epoch"], round(bound.terms["tails"], 2)
    (60.0, 100.0, 30.24)
    """
    bracket = label_complexity_bracket(
        clips,
        seen,
        n_logged=n_logged,
        min_propensity=min_propensity,
        noise=noise,
        n_hypotheses=n_hypotheses,
        delta=delta,
    )
    scale = check_number(constant, "The constant", 0.0, open_low=True) * check_number(
        theta_tilde, "The disagreement coefficient", 0.0
    )
    rows = np.asarray(seen, dtype=np.float64)
    tails = 2.0 * rows.size * log_term(4, epoch_confidence(delta, rows.size))
    scaled = {name: scale * term for name, term in bracket.terms.items()}
    return Bound({**scaled, "first_epoch": float(rows[0]), "tails": tails})


def label_complexity_rows(
    *,
    noise: float,
    excess: float,
    size_ratio: float,
    min_propensity: float,
    clip: float,
    clipped_second_moment: float,
    second_moment: float,
    theta_tilde: float,
    theta: float,
    theta_prime: float,
    log_hypotheses: float,
) -> dict[str, float]:
    """Return the seven label complexities of the Discussion, without their Õ constants, in the paper's order.

    Each takes one more part away: nothing, clipping, the regulariser, bias correction, multiple importance sampling, and
    disagreement-based querying; the last is Active18. The paper says that each is worse than the one before. That follows
    from ξ ≤ 1 and the printed θ̃, and not from their corrections, so it is not asserted here. The first term without
    multiple importance sampling is printed as 1/(ε(1+α·q0)); the largest plain weight 1/q0 would give the larger
    1/(ε(1+α)·q0).

    Parameters
    ----------
    noise, excess, size_ratio, min_propensity, clip : float
        ν, ε, α = m/n, q0 and the final M.
    clipped_second_moment, second_moment : float
        E[1{h*≠Y}/(1+α·Q0)], over the rows with (1+α)/(1+α·Q0) ≤ M, and over all.
    theta_tilde, theta, theta_prime : float
        The coefficients θ̃, θ and, for Active18, θ'.
    log_hypotheses : float
        log|H|.

    Examples
    --------
    >>> rows = label_complexity_rows(
    ...     noise=0.1, excess=0.05, size_ratio=4.0, min_propensity=0.25, clip=2.0, clipped_second_moment=0.02,
    ...     second_moment=0.04, theta_tilde=1.0, theta=2.0, theta_prime=1.5, log_hypotheses=3.0
    ... )
    >>> for name, row in rows.items():
    ...     print(f"{name:24} {row:6.2f}")
    full                       4.80
    no_clip                    7.80
    no_regulariser             9.00
    no_bias_correction        18.00
    no_multiple_importance    22.32
    no_disagreement          111.60
    active18                  13.50
    """
    check_number(noise, "The noise", 0.0, 1.0)
    check_number(excess, "The excess error", 0.0, 1.0, open_low=True)
    check_number(size_ratio, "The size ratio of log and stream", 0.0)
    check_number(min_propensity, "The smallest propensity", 0.0, 1.0, open_low=True)
    check_number(clip, "The clip threshold", 1.0)
    check_number(log_hypotheses, "The logarithm of the class size", 0.0)
    for moment in (clipped_second_moment, second_moment):
        check_number(moment, "A second moment", 0.0)
    for coefficient in (theta_tilde, theta, theta_prime):
        check_number(coefficient, "A disagreement coefficient", 0.0)
    largest = 1.0 / (1.0 + size_ratio * min_propensity)
    plain_moment = noise * (min_propensity + size_ratio) / ((1.0 + size_ratio) ** 2 * min_propensity)
    regular = largest / excess + noise * largest / excess**2
    plain = largest / excess + plain_moment / excess**2
    brackets = {
        "full": noise * theta_tilde * (clip / (excess * (1.0 + size_ratio)) + clipped_second_moment / excess**2),
        "no_clip": noise * theta_tilde * (largest / excess + second_moment / excess**2),
        "no_regulariser": noise * theta_tilde * regular,
        "no_bias_correction": noise * theta * regular,
        "no_multiple_importance": noise * theta * plain,
        "no_disagreement": plain,
        "active18": noise * theta_prime * (noise + excess) / excess**2 * largest,
    }
    return {name: log_hypotheses * bracket for name, bracket in brackets.items()}
