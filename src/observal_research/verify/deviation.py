"""Claims about deviations of clipped MIS estimates, for the whole class at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from observal.checks import Floats
from observal.paper.bounds import deviation_bound, difference_bound, log_term, second_moment_deviation
from observal.paper.risk import pair_sums, risk_sums
from observal.paper.weights import clip_threshold
from observal_research.verify.claims import LEVEL, Claim, Lab, Outcome, Results, at_least, share
from observal_research.verify.distributions import Distribution


@dataclass(frozen=True, eq=False)
class Setting:
    """A world and the sizes at which deviations are measured."""

    world: Distribution
    n_logged: int
    epochs: tuple[int, ...]
    delta: float


# Two classifiers and δ = 1/2: the bounds are as tight as they get.
TIGHT = Setting(
    Distribution(
        np.array([0.5, 0.25, 0.25]),
        np.full(3, 0.5),
        np.array([0.5, 1.0, 0.0]),
        np.array([[1, 1, -1], [-1, 1, 1]], dtype=np.int8),
    ),
    n_logged=4000,
    epochs=(),
    delta=0.5,
)
# Eight classifiers, four epochs, and a rare point that is clipped: bias and deviation together.
CLIPPED = Setting(
    Distribution(
        np.array([0.2, 0.2, 0.2, 0.16, 0.1, 0.1, 0.04]),
        np.array([1.0, 0.7, 0.25, 0.4, 0.25, 0.9, 1e-4]),
        np.array([0.9, 0.1, 0.8, 0.3, 0.6, 0.5, 0.97]),
        np.array(
            [
                [1, -1, 1, -1, 1, 1, -1],
                [1, -1, 1, -1, 1, -1, 1],
                [1, 1, 1, -1, -1, 1, 1],
                [-1, -1, 1, 1, 1, 1, -1],
                [1, -1, -1, -1, 1, 1, 1],
                [-1, 1, -1, 1, -1, -1, -1],
                [1, 1, 1, 1, 1, 1, 1],
                [-1, -1, -1, -1, -1, -1, -1],
            ],
            dtype=np.int8,
        ),
    ),
    n_logged=2000,
    epochs=(4, 8, 16, 32),
    delta=0.05,
)


def deviations(rng: np.random.Generator, count: int, setting: Setting) -> Results:
    """Draw S_k and return, per trial, the largest of deviation over bound for each line of each statement."""
    world, delta, n_class = setting.world, setting.delta, len(setting.world.signs)
    n_rows, n_online = setting.n_logged + sum(setting.epochs), sum(setting.epochs)
    log = log_term(n_class, delta)
    clip = clip_threshold(world.propensity, setting.n_logged, n_online, log, world.mass)
    weight = world.weights(setting.n_logged, setting.epochs)
    largest = float(weight.max())  # cor:var-gen holds for any M, and is tightest at the largest weight
    error_gap = world.errors[:, None] - world.errors[None, :]
    moment, pair_moment = world.moments(weight, clip), world.pair_moments(weight, clip)
    out = {name: np.empty(count) for name in ("gen_pair", "gen_one", "var", "cor_pair", "cor_one")}

    def ratio(deviation: Floats, bound: Floats | float) -> float:
        return float((deviation / bound).max())

    for t in range(count):
        points, labels, weights = world.sample(rng, setting.n_logged, setting.epochs)
        signs = world.signs[:, points]
        sums = risk_sums(signs, labels, weights, clip)
        pair = np.stack([pair_sums(signs, row, labels, weights, clip).second_moment for row in signs])
        off = np.abs(sums.loss[:, None] - sums.loss[None, :] - error_gap)
        out["gen_pair"][t] = ratio(off, deviation_bound(clip, n_rows, n_class, delta, pair_moment).total)
        out["gen_one"][t] = ratio(
            np.abs(sums.loss - world.errors), deviation_bound(clip, n_rows, n_class, delta, moment).total
        )
        whole = risk_sums(signs, labels, weights, largest).second_moment
        pairs = np.stack([pair_sums(signs, row, labels, weights, largest).second_moment for row in signs])
        bound = float(second_moment_deviation(largest, n_rows, n_class, delta))
        out["var"][t] = max(
            ratio(np.abs(np.sqrt(whole) - np.sqrt(world.moments(weight, largest))), bound),
            ratio(np.abs(np.sqrt(pairs) - np.sqrt(world.pair_moments(weight, largest))), bound),
        )
        slack = difference_bound(clip, n_rows, n_class, delta, pair)
        out["cor_pair"][t] = ratio(off, slack.total)
        out["cor_one"][t] = ratio(sums.loss - 2.0 * world.errors, slack.terms["range"])
    return out


def tight(rng: np.random.Generator, count: int) -> Results:
    """Measure deviations in the tight setting."""
    return deviations(rng, count, TIGHT)


def clipped(rng: np.random.Generator, count: int) -> Results:
    """Measure deviations in the clipped setting."""
    return deviations(rng, count, CLIPPED)


def _check(lab: Lab, lines: tuple[str, ...], least_ratio: float, note: str) -> Outcome:
    """Test frequencies by the binomial law, and that the bound is not too loose: some deviation must come near it."""
    parts, passed, tightest = [], True, 0.0
    for simulation, setting in ((tight, TIGHT), (clipped, CLIPPED)):
        runs = lab.simulate(simulation)
        worst = np.max([runs[line] for line in lines], axis=0)
        hits = int((worst <= 1.0).sum())
        passed &= at_least(hits, lab.trials, 1.0 - setting.delta, LEVEL / 2)
        tightest = max(tightest, float(worst.max()))
        parts.append(f"{share(hits, lab.trials)} at 1−δ={1.0 - setting.delta:g}")
    return lab.outcome(
        "holds for all of H with frequency ≥ 1−δ",
        "; ".join(parts),
        trials=lab.trials,
        passed=passed and tightest >= least_ratio,
        error_rate=LEVEL,
        detail=f"{note}; largest deviation is {tightest:.3f} of its bound (below {least_ratio:g} the bound would be too loose to test); "
        "2 classifiers without and 8 classifiers with clipping, all pairs; exact binomial tests",
    )


def hidden_mass(setting: Setting) -> tuple[float, float]:
    """Return M and the clipped mass P(w_k > M); M is NaN if it is not the least that the theorem allows."""
    world, n_online = setting.world, sum(setting.epochs)
    n_rows = setting.n_logged + n_online
    log = log_term(len(world.signs), setting.delta)
    clip = clip_threshold(world.propensity, setting.n_logged, n_online, log, world.mass)

    def allowed(m: float) -> bool:
        above = n_rows / (setting.n_logged * world.propensity + n_online) > m / 2.0
        return 2.0 * m * log / n_rows >= float(world.mass[above].sum())

    least = allowed(clip * (1.0 + 1e-9)) and not allowed(clip * (1.0 - 1e-9))
    hidden = world.weights(setting.n_logged, setting.epochs) > clip
    return clip if least else math.nan, float(world.mass[hidden].sum())


def check_gen(lab: Lab) -> Outcome:
    """Both lines of ``thm:gen``, at the least M that it allows, with and without something to clip."""
    (clip, hidden), (tight_clip, _) = hidden_mass(CLIPPED), hidden_mass(TIGHT)
    outcome = _check(lab, ("gen_pair", "gen_one"), 0.5, f"clipping at {clip:.2f} hides {hidden:.2g} of the mass")
    return replace(outcome, passed=outcome.passed and hidden > 0.0 and clip >= 1.0 and tight_clip >= 1.0)


def check_var_gen(lab: Lab) -> Outcome:
    """Both lines of ``cor:var-gen``."""
    return _check(lab, ("var",), 0.25, "at M = the largest weight")


def check_cor_gen(lab: Lab) -> Outcome:
    """Both lines of ``cor:gen`` at the certified γ1."""
    return _check(lab, ("cor_pair", "cor_one"), 0.05, "at the certified γ1")


CLAIMS = (
    Claim(
        "thm-gen",
        "Clipped MIS losses and their differences are near the errors, for all of H at once.",
        "thm:gen",
        check_gen,
    ),
    Claim(
        "cor-var-gen",
        "Estimated second moments are near the true ones, for all of H at once.",
        "cor:var-gen",
        check_var_gen,
    ),
    Claim(
        "cor-gen",
        "At the certified γ1 loss differences obey the bound with estimated second moments.",
        "cor:gen",
        check_cor_gen,
    ),
)
