"""Claims about multiple importance sampling, bias correction and the decomposition of the second moment."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from observal.checks import Floats
from observal.paper.label_complexity import query_policy_bound
from observal.paper.risk import RiskSums, risk_sums
from observal.paper.weights import importance, online_mass, plain_importance, query_policy
from observal_research.verify.claims import LEVEL, Claim, Lab, Outcome, Results, mean_tolerance
from observal_research.verify.distributions import Distribution

# -- Example "debias" -----------------------------------------------------------------------------------------------


def debias_saving(mu: float, alpha: float, m: float, n: float, c: float) -> float:
    """Return queries without over queries with bias correction, at the same bound of key technique 3.

    x1 has Q0 = 1 and x2, of mass μ, Q0 = α; the disagreement has mass c·μ on x1 and μ on x2.
    """
    chance = np.array([1.0, alpha])
    policy = query_policy(chance, int(m), int(n))
    if policy.tolist() != [False, True]:
        return math.nan

    def bound(queried: Floats, rows: float) -> float:
        return float(
            query_policy_bound(
                chance,
                [min(1.0, c * mu / (1.0 - mu)), 1.0],
                queried,
                n_logged=m,
                n_online=rows,
                n_hypotheses=10,
                delta=0.05,
                mass=[1.0 - mu, mu],
            )
        )

    target = bound(policy.astype(np.float64), n)
    everything = float(brentq(lambda rows: bound(np.ones(2), rows) - target, 0.0, 2.0 * n, rtol=1e-12))
    return everything / (mu * n)


def check_debias(lab: Lab) -> Outcome:
    """Solve for the number of queries at equal bounds on a grid of λ, μ, α, m, n and c."""
    least, cases, where = math.inf, 0, ""
    for lam, part, m, size in itertools.product(
        (1.0, 2.0, 10.0, 50.0), (1.0, 0.1), (10**4, 10**6, 10**9), (0.0, 0.5, 1.0)
    ):
        mu = part / (4.0 * lam)
        for alpha in (mu**2 / (2.0 * lam), mu**2 / (200.0 * lam), mu**2 / (2e4 * lam)):
            low, high = lam * alpha * m / mu, mu * m / 2.0
            n = float(round(low * (high / low) ** size))
            if not (low <= n <= high and n >= 1.0):
                continue
            for c in (0.0, 0.1, 1.0, (1.0 - mu) / mu):
                saving = debias_saving(mu, alpha, float(m), n, c) / lam
                cases += 1
                if not saving >= least:  # NaN too
                    least, where = saving, f"λ={lam:g}, μ={mu:g}, α={alpha:.1e}, m={m:g}, n={n:g}, c={c:g}"
    return lab.outcome(
        "at least λ times fewer queries at the same bound",
        f"at least {least:.3f}·λ times fewer",
        trials=0,
        passed=least >= 1.0,
        error_rate=0.0,
        detail=f"{cases} cases with λαm/μ ≤ n ≤ μm/2, μ ≤ 1/(4λ), α ≤ μ²/(2λ), c up to (1−μ)/μ; least at {where}",
    )


# -- unbiasedness and second moment ---------------------------------------------------------------------------------

MIS_WORLD = Distribution(
    np.array([0.35, 0.25, 0.2, 0.15, 0.05]),
    np.array([1.0, 0.4, 0.1, 0.02, 0.0]),
    np.array([0.9, 0.2, 0.7, 0.4, 0.5]),
    np.array([[1, -1, 1, -1, 1], [1, 1, -1, -1, 1], [-1, -1, 1, 1, 1]], dtype=np.int8),
)
MIS_LOGGED, MIS_EPOCHS = 400, (10, 20, 40, 80)
MIS_CLIPS = (np.inf, 2.5)  # f(x, y) = 1{h≠y}·1{w ≤ M} without and with clipping; the second drops three points


def mis_estimates(rng: np.random.Generator, count: int) -> Results:
    """Draw S_k under the bias-correcting policies and estimate losses and second moments."""
    loss, second = np.empty((count, 2, 3)), np.empty((count, 2, 3))
    for t in range(count):
        points, labels, weights = MIS_WORLD.sample(rng, MIS_LOGGED, MIS_EPOCHS)
        for j, clip in enumerate(MIS_CLIPS):
            sums = risk_sums(MIS_WORLD.signs[:, points], labels, weights, clip)
            loss[t, j], second[t, j] = sums.loss, sums.second_moment
    return {"loss": loss, "second": second}


def policy_by_definition(chance: float, m: int, epochs: tuple[int, ...]) -> list[float]:
    """Return Q_1(x), …, Q_K(x) from the recursive definition in the algorithm box."""
    policy: list[float] = []
    for k in range(len(epochs)):
        spent = sum(size * q for size, q in zip(epochs, policy, strict=False))
        policy.append(float(m * chance + spent < m / 2 * chance + sum(epochs[: k + 1])))
    return policy


def identity_error(rng: np.random.Generator, count: int) -> float:
    """Return how far Σ_i τ_i·Q_i(x)·w(x)/(m+n) is from 1, at most, for random schedules; exact unbiasedness."""
    worst = 0.0
    for _ in range(count):
        epochs = tuple(np.sort(rng.integers(1, 60, int(rng.integers(1, 7)))).tolist())
        m = int(rng.integers(1, 300))
        chance = np.round(rng.random(8) ** 3, 3)
        weight = importance(chance, m, sum(epochs), online_mass(chance, m, epochs))
        for q, w in zip(chance.tolist(), weight.tolist(), strict=True):
            total = m * q + sum(t * p for t, p in zip(epochs, policy_by_definition(q, m, epochs), strict=True))
            worst = max(worst, abs(w * total / (m + sum(epochs)) - 1.0) if total > 0 else float(np.isfinite(w)))
    return worst


def check_unbiased(lab: Lab) -> Outcome:
    """Test means over all trials with Bernstein's inequality, and the identity behind them exactly."""
    runs, world = lab.simulate(mis_estimates), MIS_WORLD
    weight = world.weights(MIS_LOGGED, MIS_EPOCHS)
    terms = lab.trials * (MIS_LOGGED + sum(MIS_EPOCHS))
    largest = float(weight.max())
    level = LEVEL / 12
    z: list[float] = []
    for j, h in itertools.product(range(2), range(3)):
        counted = world.mass * world.wrong[h] * (weight <= MIS_CLIPS[j])
        moments = [float(counted @ weight**power) for power in range(4)]
        for estimates, power in ((runs["loss"][:, j, h], 0), (runs["second"][:, j, h], 1)):
            # Terms w^(p+1)·Z·1{mistake}: expectation E[w^p·1{mistake}], second moment E[w^(2p+1)·1{mistake}].
            tolerance = mean_tolerance(moments[2 * power + 1], largest ** (power + 1), terms, level)
            z.append(abs(float(estimates.mean()) - moments[power]) / tolerance)
    identity = identity_error(lab.rng("mis identity"), 300)
    return lab.outcome(
        "E l_MIS = l(h) and E V̂ = E[w·1{h≠Y}]",
        f"furthest mean at {max(z):.2f} of its tolerance",
        trials=lab.trials,
        passed=max(z) <= 1.0 and identity < 1e-12,
        error_rate=LEVEL,
        detail=f"5 points, Q0 from 1 to 0, m={MIS_LOGGED}, epochs {MIS_EPOCHS}, bias-correcting policies, 3 classifiers, clipped and not; Bernstein "
        f"tolerances; Σ τ_i·Q_i·w = m+n from the recursive definition within {identity:.0e}",
    )


# -- MIS against plain importance sampling --------------------------------------------------------------------------


def exact_variances(mass: Floats, error: Floats, chances: Floats, sizes: Floats) -> tuple[float, float]:
    """Return the exact variances of l_MIS and l_IS for policies `chances` (policies × points), all above 0."""
    n_rows = float(sizes.sum())
    mixed = importance(chances[0], int(sizes[0]), int(sizes[1:].sum()), sizes[1:] @ chances[1:])
    total = [0.0, 0.0]
    for i, plain in enumerate(plain_importance(chances)):
        for j, weight in enumerate((mixed, plain)):
            first = float(mass @ (weight * chances[i] * error))
            second = float(mass @ (weight**2 * chances[i] * error))
            total[j] += sizes[i] * (second - first**2)
    return total[0] / n_rows**2, total[1] / n_rows**2


def random_policies(rng: np.random.Generator, count: int) -> Results:
    """Draw distributions and policies, every Q_k > 0, and compute both variances."""
    ratio = np.empty(count)
    for t in range(count):
        points, policies = int(rng.integers(1, 9)), int(rng.integers(2, 6))
        chances = np.exp(-rng.exponential(rng.uniform(0.1, 3.0), (policies, points)))
        sizes = rng.integers(1, 1000, policies).astype(np.float64)
        ours, plain = exact_variances(rng.dirichlet(np.ones(points)), rng.random(points), chances, sizes)
        ratio[t] = ours / plain
    return {"ratio": ratio}


VARIANCE_CHANCES = np.array([[0.9, 0.05, 0.3], [0.1, 1.0, 0.6]])
VARIANCE_SIZES = np.array([600.0, 300.0])
VARIANCE_MASS, VARIANCE_ERROR = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.4, 0.1])


def two_policies(rng: np.random.Generator, count: int) -> Results:
    """Draw rows under two policies and estimate the error by either weight."""
    out = np.empty((count, 2))
    sizes = VARIANCE_SIZES.astype(int)
    policy = np.repeat([0, 1], sizes)
    mixed = importance(VARIANCE_CHANCES[0], sizes[0], sizes[1], sizes[1] * VARIANCE_CHANCES[1])
    plain = plain_importance(VARIANCE_CHANCES)
    for t in range(count):
        points = rng.choice(3, policy.size, p=VARIANCE_MASS)
        shown = rng.random(policy.size) < VARIANCE_CHANCES[policy, points]
        mistake = rng.random(policy.size) < VARIANCE_ERROR[points]
        labels = np.where(shown, np.where(mistake, -1, 1), 0)
        predictions = np.ones(policy.size, dtype=np.int8)
        for j, weights in enumerate((mixed[points], plain[policy, points])):
            out[t, j] = risk_sums(predictions, labels, weights).loss
    return {"estimate": out}


def check_variance(lab: Lab) -> Outcome:
    """Compute exact variances for random policies, and compare with sampled ones in one case."""
    worst = float(lab.simulate(random_policies)["ratio"].max())
    estimates = lab.simulate(two_policies)["estimate"]
    exact = exact_variances(VARIANCE_MASS, VARIANCE_ERROR, VARIANCE_CHANCES, VARIANCE_SIZES)
    sampled = estimates.var(axis=0, ddof=1)
    # (T−1)·s²/σ² is close to χ² for sums of hundreds of rows: sd sqrt(2/T), and 5 of them are passed in 6e-7 of cases.
    off = float(np.abs(sampled / exact - 1.0).max() / math.sqrt(2.0 / lab.trials))
    return lab.outcome(
        "Var l_MIS ≤ Var l_IS where every Q_k > 0",
        f"largest ratio {worst:.4f}; sampled {sampled[0] / sampled[1]:.3f}, exact {exact[0] / exact[1]:.3f}",
        trials=lab.trials,
        passed=worst <= 1.0 + 1e-12 and off <= 5.0,
        error_rate=1e-5,
        detail=f"exact variances of {lab.trials} random sets of policies; sampled variances of one within {off:.1f} standard "
        "errors (5 allowed, normal approximation)",
    )


# -- decomposition --------------------------------------------------------------------------------------------------


def splits(rng: np.random.Generator, count: int) -> Results:
    """Split random samples in two and compare whole and parts."""
    second, merged, variance = np.empty(count), np.empty(count), np.empty(count)
    for t in range(count):
        rows = int(rng.integers(2, 400))
        cut = int(rng.integers(1, rows))
        signs = rng.choice(np.array([-1, 1], dtype=np.int8), (4, rows))
        labels = rng.choice(np.array([-1, 0, 1], dtype=np.int8), rows)
        weights, clip = 1.0 / (rng.random(rows) + 1e-3), float(rng.uniform(2.0, 1000.0))

        def part(
            rows: slice, data: tuple[NDArray[Any], ...] = (signs, labels, weights), clip: float = clip
        ) -> RiskSums:
            return risk_sums(data[0][:, rows], data[1][rows], data[2][rows], clip)

        whole, a, b = part(slice(None)), part(slice(cut)), part(slice(cut, None))
        scale = np.maximum(1.0, whole.second_moment)
        both = (cut * a.second_moment + (rows - cut) * b.second_moment) / rows
        second[t] = (np.abs(whole.second_moment - both) / scale).max()
        joined = a.merge(b)
        merged[t] = (np.abs(joined.second_moment - whole.second_moment) / scale).max() + abs(joined.rows - rows)
        gap = whole.variance - (cut * a.variance + (rows - cut) * b.variance) / rows
        truth = cut * (rows - cut) / rows**2 * (a.loss - b.loss) ** 2  # law of total variance
        variance[t] = gap.max() if (np.abs(gap - truth) <= 1e-9 * scale).all() else np.nan
    return {"second": second, "merged": merged, "variance": variance}


def check_decomposition(lab: Lab) -> Outcome:
    """Compare second moments of wholes and parts up to rounding, and show that variances differ."""
    runs = lab.simulate(splits)
    worst, merged, gap = (float(runs[name].max()) for name in ("second", "merged", "variance"))
    apart = int((runs["variance"] > 1e-6).sum())
    return lab.outcome(
        "V̂ of a union is the weighted mean of V̂; the variance is not",
        f"V̂ off by {worst:.0e}; variances off by up to {gap:.3g}",
        trials=lab.trials,
        passed=worst < 1e-12 and merged < 1e-12 and apart > lab.trials // 2,
        error_rate=0.0,
        detail=f"random samples split in two, 4 classifiers; merged sums off by {merged:.0e}; variance does not decompose in "
        f"{apart} of {lab.trials} splits, by exactly |S1||S2|/|S|²·(l1−l2)²",
    )


CLAIMS = (
    Claim(
        "debias-example",
        "At the same bound, bias correction needs at least λ times fewer queries when λαm/μ ≤ n ≤ μm/2.",
        "Example 'debias'",
        check_debias,
    ),
    Claim(
        "mis-unbiased",
        "The MIS loss is unbiased and its second moment is E[w·1{h≠Y}], under bias-correcting policies.",
        "prop:mis-unbiased-general",
        check_unbiased,
    ),
    Claim(
        "mis-variance",
        "The variance of MIS is never above that of plain importance sampling where every Q_k > 0.",
        "key technique 2",
        check_variance,
    ),
    Claim(
        "decomposition",
        "The second moment decomposes over parts of a sample; the variance does not.",
        "section 'Second-Moment-Regularized ERM'",
        check_decomposition,
    ),
)
