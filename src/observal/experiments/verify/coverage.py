"""How often the intervals around a campaign's classifier cover the truth, and how wide they are.

A trial is a whole campaign: a log, a pool, and labels bought in four rounds by NewtonVC, by AutoVC, or by CommitteeVC around a
decision tree, which overfits. The truth is measured on rows that the campaign never sees.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from observal.checks import Floats
from observal.experiments.verify.claims import Claim, Lab, Outcome, Results, at_least, share
from observal.problem import LoggedData, Pool
from observal.threads import one_thread

ROWS, TEST_ROWS, FEATURES = 1000, 20_000, 6
LABELS, BATCH = 200, 50
COVERED, COVERED_WITH_TREES, WIDEST = 0.93, 0.88, 2.0
MOST_AUTO = 500  # campaigns of AutoVC, each of which takes seconds
MEASURES = ("error", "precision", "recall", "prevalence")


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


def ten_classes(X: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return the chances of ten classes, and a propensity that grows with the lead of the likeliest class."""
    turned = np.stack([np.roll(direction, k) * (1.0 if k < FEATURES else -1.0) for k in range(10)], axis=1)
    scores = 4.0 * X @ turned
    ordered = np.sort(scores, axis=1)
    return softmax(scores, axis=1), np.clip((ordered[:, -1] - ordered[:, -2]) / 4.0, 0.05, 1.0)


def newton() -> Any:
    """Return NewtonVC with the batch of these worlds."""
    from observal.methods.newton.method import NewtonVC

    return NewtonVC(batch=BATCH)


def auto() -> Any:
    """Return AutoVC with the batch of these worlds."""
    from observal.methods.auto.method import AutoVC

    return AutoVC(batch=BATCH)


def committee() -> Any:
    """Return CommitteeVC around a tree with at least three rows in a leaf."""
    from sklearn.tree import DecisionTreeClassifier

    from observal.methods.committee import CommitteeVC

    return CommitteeVC(DecisionTreeClassifier(min_samples_leaf=3), batch=BATCH)


def campaigns(kind: Any, method: Any, rng: np.random.Generator, count: int) -> Results:
    """Return for each campaign which measures were covered, the widths, and the widths with uniform labels."""
    with one_thread():  # workers have one core each
        found = [campaign(kind, method(), rng) for _ in range(count)]
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def campaign(kind: Any, method: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Run one campaign; `uniform` is the width of a normal interval from the same number of uniformly drawn labels."""
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
    result = run(logged, pool, lambda ids: y[ROWS + ids], method, LABELS, seed, looks="once", tolerance=None)
    truth, n = true_measures(result.estimator, X[2 * ROWS :], y[2 * ROWS :], int(shown.sum()) + LABELS)
    intervals = [result.intervals[name] for name in (MEASURES if chance.ndim == 1 else MEASURES[:1])]
    truth, n = truth[: len(intervals)], n[: len(intervals)]
    return {
        "covered": np.array([i.low <= t <= i.high for i, t in zip(intervals, truth, strict=True)]),
        "width": np.array([i.high - i.low for i in intervals]),
        "uniform": 2.0 * 1.96 * np.sqrt(truth * (1.0 - truth) / n),
    }


def drawn(chance: Floats, rng: np.random.Generator) -> Any:
    """Return a class code for each row: from the chance of the second of two classes, or from the chances of all."""
    if chance.ndim == 1:
        return (rng.random(len(chance)) < chance).astype(int)
    return (rng.random((len(chance), 1)) > chance.cumsum(axis=1)[:, :-1]).sum(axis=1)


def true_measures(estimator: Any, X: Floats, y: Any, n_labels: int) -> tuple[Floats, Floats]:
    """Return each measure on rows never seen, and how many of `n_labels` uniform labels it would be estimated from."""
    predicted = estimator.predict(X)
    said, positive = predicted == 1.0, y == 1
    both = (said & positive).mean()
    truth = np.array([(predicted != y).mean(), both / said.mean(), both / positive.mean(), positive.mean()])
    return truth, n_labels * np.array([1.0, said.mean(), positive.mean(), 1.0])


def check_coverage(kind: Any, method: Any, lab: Lab) -> Outcome:
    """Check that each measure is covered often enough, and that the median width is not too large."""
    promised = COVERED if method is newton else COVERED_WITH_TREES
    trials = min(lab.trials, MOST_AUTO) if method is auto else lab.trials
    simulation = partial(campaigns, kind, method)
    simulation.__module__, simulation.__name__ = __name__, _name(kind, method)  # type: ignore[attr-defined]
    found = lab.simulate(simulation, trials)
    hits = found["covered"].sum(axis=0)
    wider = np.median(found["width"] / found["uniform"], axis=0)
    worst = int(np.argmin(hits))
    return lab.outcome(
        f"95 % intervals cover in ≥ {promised:.0%} of campaigns, median width of the error's ≤ {WIDEST:g} × uniform",
        f"{MEASURES[worst]} least: {share(int(hits[worst]), trials)}; error {wider[0]:.2f} × uniform",
        trials=trials,
        passed=all(at_least(int(h), trials, promised) for h in hits) and wider[0] <= WIDEST,
        error_rate=4e-4,
        detail="; ".join(
            f"{name} {share(int(h), trials)}, {w:.2f} × uniform"
            for name, h, w in zip(MEASURES, hits, wider, strict=False)
        )
        + f"; {ROWS} logged rows, {ROWS} pool rows, {LABELS} labels, {FEATURES} features",
    )


def _name(kind: Any, method: Any) -> str:
    return kind.__name__ if method is newton else f"{method.__name__}_{kind.__name__}"


CLAIMS = tuple(
    Claim(
        f"coverage-{_name(kind, method).replace('_', '-')}",
        f"Intervals from log and queried labels cover, in campaigns that are {words}{of}.",
        "not in the paper",
        partial(check_coverage, kind, method),
    )
    for method, of in ((newton, ""), (auto, ", AutoVC"), (committee, ", CommitteeVC with trees"))
    for kind, words in (
        (well_specified, "well specified"),
        (misspecified, "misspecified"),
        (blind_spot, "blind in a quarter of the space"),
        (ten_classes, "about ten classes"),
    )
    if not (method is newton and kind is ten_classes)  # NewtonVC takes two
)
