"""How often the intervals around a campaign's classifier cover the truth, and how wide they are.

A trial is a whole campaign: a log, a pool, and labels bought in four rounds by NewtonVC, by AutoVC, or by CommitteeVC: around a
decision tree, which overfits, a random forest or a logistic regression. The truth is measured on rows that the campaign never sees.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from observal.checks import Floats
from observal.problem.data import LoggedData, Pool
from observal.problem.objectives import BALANCED, measure_of
from observal.threads import one_thread
from observal_research.verify.claims import LEVEL, Claim, Lab, Outcome, Results, at_least, share

ROWS, TEST_ROWS, FEATURES = 1000, 20_000, 6
LABELS, BATCH = 200, 50
COVERED, COVERED_LESS, COVERED_HARDER, COVERED_HARDEST = 0.93, 0.9, 0.88, 0.7
WIDEST, WIDEST_LOW = 1.6, 2.4  # the latter where propensities go down to 0.001
MOST_CAMPAIGNS = 500
MEASURES = ("error", "precision", "recall", "prevalence", BALANCED)


def well_specified(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return the chance of the positive class, which is logistic and linear, and a propensity that grows with certainty."""
    score = X @ direction
    return expit(2.0 * score), np.clip(np.abs(score) / 2.0, 0.02, 1.0)


def misspecified(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a chance of the positive class that is not linear, and the propensity of an old scorecard."""
    score = X @ direction + 1.5 * X[:, 0] * X[:, 1] - np.abs(X[:, 2])
    return expit(2.0 * score), np.clip(expit(2.0 * X @ np.roll(direction, 1)), 0.02, 0.98)


def blind_spot(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes whose trend changes in a quarter of the space, where the log has few labels."""
    score, spot = X @ direction, X[:, 0] > 0.6745
    return np.where(spot, 0.95, expit(2.0 * score - 1.0)), np.where(spot, 0.004, 0.5)


def small_blind_spot(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes whose trend ends in a sixteenth of the space, where the log has few labels."""
    score = X @ direction
    spot = score > 1.534
    return np.where(spot, 0.05, expit(2.5 * score)), np.where(spot, 0.02, 0.4)


def rare(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a chance of the positive class that is 3 % on average, and a propensity that is lower where it is higher."""
    score = X @ direction
    return expit(2.5 * score - 5.85), np.clip(expit(1.0 - score), 0.02, 0.98)


def low_propensities(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a logistic trend, and propensities from 0.001 to 1 that have nothing to do with it."""
    return expit(2.0 * X @ direction), np.clip(10.0 ** (X[:, 1] - 1.5), 1e-3, 1.0)


def few_at_random(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend with a wave in it, and the same low propensity for every row."""
    return expit(3.0 * (X @ direction + 0.8 * np.sin(2.0 * X[:, 0]))), np.full(len(X), 0.15)


def hardly_any_noise(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes that are nearly certain but that no line separates, and the propensity of a scorecard."""
    chance = expit(8.0 * (X[:, 0] * X[:, 1] + 0.5 * (X @ direction)))
    return chance, np.clip(expit(X @ np.roll(direction, 2)), 0.05, 0.95)


def much_noise(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes that nobody can tell well, and a propensity that grows with one feature."""
    return expit(0.8 * X @ direction), np.clip(expit(1.5 * X[:, 3] - 1.0), 0.05, 0.95)


def uncertain_first(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend that bends, and a policy that looked where it was uncertain."""
    score = X @ direction
    return expit(2.0 * score + X[:, 0] ** 2 - 1.0), np.clip(0.6 * np.exp(-1.5 * np.abs(score)), 0.02, 1.0)


def certain_only(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a logistic trend, and a policy that looked seldom, and hardly ever where it was uncertain."""
    score = X @ direction
    return expit(3.0 * score), np.clip(np.abs(score) / 8.0, 0.01, 1.0)


def rings(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return classes in rings around the origin, and the propensity of a scorecard on one feature."""
    radius = np.sqrt(X[:, 0] ** 2 + X[:, 1] ** 2)
    chance = expit(5.0 * np.sin(2.2 * radius) + 0.5 * X @ direction)
    return chance, np.clip(expit(1.5 * X[:, 0] - 0.5), 0.03, 0.97)


def bands(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend that turns around in every other band of a feature: hardly anything can be learned with so few labels."""
    turned = np.where(np.floor(2.0 * X[:, 0]) % 2 == 0, 1.0, -1.0)
    return expit(2.0 * turned * (X @ direction) + 0.3), np.where(X[:, 1] > 0.0, 0.6, 0.08)


def steep_scorecard(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a logistic trend, and a policy that looked where it expected the positive class, and hardly elsewhere."""
    score = X @ direction
    return expit(2.5 * score - 1.0), np.clip(expit(4.0 * (score + 0.3)), 0.005, 0.99)


def thirds(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend with a product in it, and thirds of the space with propensities of 0.05, 0.2 and 0.8."""
    third = (X[:, 2] > -0.43).astype(int) + (X[:, 2] > 0.43)
    return expit(2.0 * X @ direction + 0.8 * X[:, 3] * X[:, 4]), np.array([0.05, 0.2, 0.8])[third]


def typical_only(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a weak trend with a bend, and a policy that looked at rows near the mean of a feature."""
    return expit(1.2 * X @ direction + np.abs(X[:, 1]) - 0.8), np.clip(0.5 * np.exp(-(X[:, 0] ** 2)), 0.03, 1.0)


def wave(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return a trend and a wave, and propensities that differ little."""
    return expit(3.0 * X @ direction - 1.5 * np.cos(2.0 * X[:, 2])), np.clip(0.4 + 0.25 * X[:, 1], 0.1, 0.9)


def ten_classes(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return the chances of ten classes, and a propensity that grows with the lead of the likeliest class."""
    turned = np.stack([np.roll(direction, k) * (1.0 if k < FEATURES else -1.0) for k in range(10)], axis=1)
    scores = 4.0 * X @ turned
    ordered = np.sort(scores, axis=1)
    return softmax(scores, axis=1), np.clip((ordered[:, -1] - ordered[:, -2]) / 4.0, 0.05, 1.0)


def newton() -> Any:
    """Return NewtonVC with the batch of these worlds."""
    from observal.methods.newton import NewtonVC

    return NewtonVC(batch=BATCH)


def auto() -> Any:
    """Return AutoVC with the batch of these worlds."""
    from observal.methods.auto import AutoVC

    return AutoVC(batch=BATCH)


def committee() -> Any:
    """Return CommitteeVC around a tree with at least three rows in a leaf."""
    from sklearn.tree import DecisionTreeClassifier

    from observal.methods.committee import CommitteeVC

    return CommitteeVC(DecisionTreeClassifier(min_samples_leaf=3), batch=BATCH)


def committee_of_a_forest() -> Any:
    """Return CommitteeVC around a random forest, whose own trees are its members."""
    from sklearn.ensemble import RandomForestClassifier

    from observal.methods.committee import CommitteeVC

    return CommitteeVC(RandomForestClassifier(60, min_samples_leaf=2), batch=BATCH)


def committee_of_logistic() -> Any:
    """Return CommitteeVC around a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    from observal.methods.committee import CommitteeVC

    return CommitteeVC(LogisticRegression(), batch=BATCH)


def campaigns(kind: Any, method: Any, rng: np.random.Generator, count: int, objective: str = "error") -> Results:
    """Return for each campaign which measures were covered, the widths, and the widths with uniform labels."""
    with one_thread():  # workers have one core each
        found = [campaign(kind, method(), rng, objective) for _ in range(count)]
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def campaign(kind: Any, method: Any, rng: np.random.Generator, objective: str = "error") -> dict[str, Any]:
    """Run one campaign; `uniform` is the width of a normal interval from the same number of uniformly drawn labels.

    The precision of a classifier that never says the positive class does not exist: there is nothing to miss.
    """
    from observal.session import run

    X = rng.normal(size=(2 * ROWS + TEST_ROWS, FEATURES))
    direction = rng.normal(size=FEATURES)
    chance, propensity = kind(X, direction / np.linalg.norm(direction))
    y = drawn(chance, rng)
    shown = rng.random(ROWS) < propensity[:ROWS]
    classes = np.arange(2.0 if chance.ndim == 1 else chance.shape[1])
    logged = LoggedData(X[:ROWS], np.where(shown, y[:ROWS], np.nan), propensity[:ROWS], classes=classes)
    pool = Pool(X[ROWS : 2 * ROWS], propensity[ROWS : 2 * ROWS])
    seed = int(rng.integers(2**31))
    result = run(
        logged, pool, lambda ids: y[ROWS + ids], method, LABELS, seed, looks="once", tolerance=None, objective=objective
    )
    truth, variance = true_measures(result.estimator, X[2 * ROWS :], y[2 * ROWS :])
    intervals = [result.intervals[name] for name in (MEASURES if chance.ndim == 1 else MEASURES[:1])]
    truth, variance = truth[: len(intervals)], variance[: len(intervals)]
    return {
        "covered": np.array([not (t < i.low or t > i.high) for i, t in zip(intervals, truth, strict=True)]),
        "width": np.array([i.high - i.low for i in intervals]),
        "uniform": 2.0 * 1.96 * np.sqrt(variance / (int(shown.sum()) + LABELS)),
        "estimate": np.array([i.estimate for i in intervals]),
        "truth": truth,
    }


def drawn(chance: Floats, rng: np.random.Generator) -> Any:
    """Return a class code for each row: from the chance of the second of two classes, or from the chances of all."""
    if chance.ndim == 1:
        return (rng.random(len(chance)) < chance).astype(int)
    return (rng.random((len(chance), 1)) > chance.cumsum(axis=1)[:, :-1]).sum(axis=1)


def true_measures(estimator: Any, X: Floats, y: Any) -> tuple[Floats, Floats]:
    """Return each measure on rows never seen, and the variance of its estimate from one uniformly drawn label."""
    predicted = estimator.predict(X)
    said, positive = predicted == 1.0, y == 1
    both, prevalence = (said & positive).mean(), positive.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        missed, alarms = 1.0 - both / prevalence, (said.mean() - both) / (1.0 - prevalence)
        truth = np.array([(predicted != y).mean(), both / said.mean(), 1.0 - missed, prevalence])
        variance = truth * (1.0 - truth) / np.array([1.0, said.mean(), prevalence, 1.0])
        balanced = missed * (1.0 - missed) / prevalence + alarms * (1.0 - alarms) / (1.0 - prevalence)
    return np.append(truth, (missed + alarms) / 2.0), np.append(variance, balanced / 4.0)


def check_coverage(kind: Any, method: Any, lab: Lab, objective: str = "error") -> Outcome:
    """Check that each measure is covered often enough, and that the median widths are not too large.

    Widths are those of the error's interval and, with a rare class, of the recall's: intervals from 0 to 1 always cover.
    """
    promised = {newton: COVERED, auto: COVERED_LESS}.get(method, COVERED_HARDER)
    if method is auto and kind is bands:
        promised = COVERED_HARDEST
    trials = min(lab.trials, MOST_CAMPAIGNS)
    simulation = partial(campaigns, kind, method, objective=objective)
    simulation.__module__, simulation.__name__ = __name__, name_of(kind, method, objective)  # type: ignore[attr-defined]
    found = lab.simulate(simulation, trials)
    exists = np.isfinite(found["truth"])
    hits, of = (found["covered"] & exists).sum(axis=0), exists.sum(axis=0)
    wider = np.nanmedian(np.where(found["uniform"] > 0.0, found["width"] / found["uniform"], np.nan), axis=0)
    narrow = ("error", "recall") if kind is rare else ("error",)
    widths = {name: float(w) for name, w in zip(MEASURES, wider, strict=False)}
    widest = WIDEST_LOW if kind is low_propensities else WIDEST
    worst = int(np.argmin(hits / np.maximum(of, 1)))
    return lab.outcome(
        f"95 % intervals cover in ≥ {promised:.0%} of campaigns, median width ≤ {widest:g} × uniform ({', '.join(narrow)})",
        f"{MEASURES[worst]} least: {share(int(hits[worst]), int(of[worst]))}; "
        + ", ".join(f"{name} {widths[name]:.2f} × uniform" for name in narrow),
        trials=trials,
        passed=all(at_least(int(h), int(n), promised) for h, n in zip(hits, of, strict=True))
        and all(widths[name] <= widest for name in narrow),
        error_rate=len(hits) * LEVEL,
        detail="; ".join(
            f"{name} {share(int(h), int(n))}, {w:.2f} × uniform"
            for name, h, n, w in zip(MEASURES, hits, of, wider, strict=False)
        )
        + f"; {ROWS} logged rows, {ROWS} pool rows, {LABELS} labels, {FEATURES} features",
    )


def name_of(kind: Any, method: Any, objective: str = "error") -> str:
    """Return the name of a kind of campaigns with a method; NewtonVC's came first and do not name it."""
    aim = "" if objective == "error" else f"_for_{measure_of(objective)}"
    return (kind.__name__ if method is newton else f"{method.__name__}_{kind.__name__}") + aim


def _claim(kind: Any, words: str, method: Any, of: str, objective: str = "error") -> Claim:
    return Claim(
        f"coverage-{name_of(kind, method, objective).replace('_', '-')}",
        f"Intervals from log and queried labels cover, in campaigns that are {words}{of}.",
        "not in the paper",
        partial(check_coverage, kind, method, objective=objective),
    )


CLAIMS = (
    *(
        _claim(kind, words, method, of)
        for method, of in ((newton, ""), (auto, ", AutoVC"), (committee, ", CommitteeVC with trees"))
        for kind, words in (
            (well_specified, "well specified"),
            (misspecified, "misspecified"),
            (blind_spot, "blind in a quarter of the space"),
            (ten_classes, "about ten classes"),
        )
        if not (method is newton and kind is ten_classes)  # NewtonVC takes two
    ),
    _claim(small_blind_spot, "blind in a sixteenth of the space", newton, ""),
    *(
        _claim(kind, words, method, of)
        for kind, words in (
            (low_propensities, "about propensities from 0.001 to 1"),
            (few_at_random, "about a log with few labels, drawn at random"),
            (hardly_any_noise, "nearly without noise, and no line is right"),
            (much_noise, "mostly noise"),
            (uncertain_first, "about a policy that looked where it was uncertain"),
            (certain_only, "about a policy that looked seldom, and where it was certain"),
            (rings, "about classes in rings"),
            (bands, "about bands in which the trend turns around"),
            (steep_scorecard, "about a policy that looked where it expected the positive class"),
            (thirds, "about thirds of the space with very different propensities"),
            (typical_only, "about a policy that looked at typical rows"),
            (wave, "about a wave, and propensities that differ little"),
        )
        for method, of in ((newton, ""), (auto, ", AutoVC"))
    ),
    *(
        _claim(kind, words, method, of)
        for method, of in (
            (committee_of_a_forest, ", CommitteeVC with a random forest"),
            (committee_of_logistic, ", CommitteeVC with logistic regression"),
        )
        for kind, words in ((misspecified, "misspecified"), (blind_spot, "blind in a quarter of the space"))
    ),
    *(
        _claim(rare, f"about a class of 3 % of the rows{aim}", method, of, objective)
        for method, of in ((newton, ""), (auto, ", AutoVC"))
        for objective, aim in (("error", ""), ("recall=0.8", ", of which 80 % are to be found"))
    ),
)
