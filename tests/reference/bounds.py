"""Slow twins of observal.paper.bounds and observal.paper.label_complexity, written from the paper with plain loops."""

import itertools

import numpy as np


def thm_gen(M, N, H, delta, V):
    return 10 * np.log(2 * H / delta) / (3 * N) * M + np.sqrt(4 * np.log(2 * H / delta) / N * V)


def cor_var_gen(M, N, H, delta):
    return np.sqrt(4 * M**2 / N * np.log(2 * H / delta)) + M**2 / N


def sigma(M, N, H, delta):
    L = np.log(H / delta)
    return M / N * L + M**2 / N ** (3 / 2) * np.sqrt(L), L / N


def cor_gen(gamma, M, N, H, delta, V_hat):
    first, second = sigma(M, N, H, delta)
    return gamma * first + gamma * np.sqrt(second * V_hat)


def cor_gen_composed(M, N, H, delta, V_hat):
    """thm:gen at δ/3, with V replaced by the largest value that cor:var-gen at δ/3 allows."""
    largest = (np.sqrt(V_hat) + cor_var_gen(M, N, H, delta / 3)) ** 2
    return thm_gen(M, N, H, delta / 3, largest)


def thm_general(M, m, H, delta, lam, V, tail):
    L = np.log(H / delta)
    return 2 * lam * M / m + 16 * M / (3 * m) * L + M**2 / m**1.5 * np.sqrt(4 * L) + np.sqrt(lam / m * V) + tail


def thm_smr_erm(m, q0, H, delta, V):
    L = np.log(H / delta)
    return 28 * L / (3 * m * q0) + np.sqrt(4 * L / m * V) + np.sqrt(4 * L) / (m**1.5 * q0**2)


def cor_clipped_erm(M, m, H, delta, V):
    L = np.log(H / delta)
    return 34 * L / (3 * m) * M + np.sqrt(4 * L) / m**1.5 * M**2 + np.sqrt(4 * L / m * V)


def safe_erm(M, m, H, delta, lam, V, tail):
    """The steps of the proof, each as a number: Bernstein, lower tail, choice of ĥ, upper tail."""
    L = np.log(4 * H / delta)
    bernstein = 2 / 3 * M * L / m
    cross = np.sqrt(2 * L / m) * (M * np.sqrt(2 * L / m) + np.sqrt(V))
    regulariser = np.sqrt(lam / m) * (np.sqrt(V) + M * np.sqrt(L / (2 * m)))
    return tail + bernstein + cross + regulariser


def thm_convergence(Q0, wrong, mass, m, n, L, M, c0):
    second = 0.0
    for q, p, share in zip(Q0, wrong, mass, strict=True):
        if m * q + n > 0 and (m + n) / (m * q + n) <= M:
            second += share * p / (m * q + n)
    return c0 * (np.sqrt(second * L) + M * L / (m + n) + M**2 * np.sqrt(L) / (m + n) ** 1.5)


def technique_three(Q0, differ, Q1, mass, m, n, H, delta, printed):
    L = np.log(2 * H / delta)
    held = [i for i in range(len(Q0)) if mass[i] > 0]
    least = m * min(Q0[i] for i in held) + n if printed else min(m * Q0[i] + n * Q1[i] for i in held)
    second = sum(mass[i] * differ[i] / (m * Q0[i] + n * Q1[i]) for i in held if differ[i] > 0)
    return 4 * L / (3 * least) + np.sqrt(4 * second * L)


def label_complexity(clips, seen, m, q0, nu, H, delta):
    n = seen[-1]
    alpha = m / n
    xi = max(M / ((m + n_k) / (m * q0 + n_k)) for M, n_k in zip(clips, seen, strict=True))
    L = np.log(H * np.log(n) / delta)
    return (
        n * nu
        + np.sqrt(n * nu * xi / (alpha * q0 + 1) * L)
        + max(clips) * xi * np.log(n) / np.sqrt(n * alpha) * np.sqrt(L)
        + xi * np.log(n) / (alpha * q0 + 1) * L
    )


def disagreement_probability(predictions, mass, best, r, Q0, cap):
    """P(DIS(B(h*, r)) ∩ {Q0 ≤ cap}) from the definition: every pair of the ball, every point."""
    n_points = len(mass)
    ball = [
        h for h in predictions if sum(mass[x] for x in range(n_points) if h[x] != predictions[best][x]) <= r + 1e-12
    ]
    region = {x for a, b in itertools.combinations(ball, 2) for x in range(n_points) if a[x] != b[x]}
    return sum(mass[x] for x in region if Q0[x] <= cap)
