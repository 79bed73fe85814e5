"""Campaigns about a rare class: what AutoVC finds, delivers and states, beside peers written by hand.

Worlds are generated, or made of a table one of whose classes is thinned out until it is as rare as wanted. An ordinary log shows a fifth of the rows; a
biased one avoids rows that an old score takes for positive. Everybody buys 150 labels in three batches and starts with the labels of the log.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.intervals.flagging import FLAGGED
from observal.intervals.measures import AUC
from observal.intervals.recalibration import sigmoid
from observal.problem.data import LoggedData, Pool
from observal_research.benchmark.development import list_tables, load_table
from observal_research.benchmark.peer_data import PeerData
from observal_research.datasets import TableOracle, World

LABELS, BATCH, TARGET = 150, 50, 0.8
OBJECTIVE = f"recall={TARGET}"
RATES = (0.01, 0.02, 0.05)
ROWS, TEST_ROWS, FEATURES = 6000, 20_000, 6
LEAST_ROWS, LEAST_POSITIVE = 3000, 200  # of a table, and of the class that is made rare
MEASURES = ("recall", "precision", FLAGGED, AUC)
OURS = "AutoVC"


class RareWorld(NamedTuple):
    """A world, and the share of rows of the population that are positive: among the test rows there are more, to measure recall well."""

    world: World
    rate: float


class Outcome(NamedTuple):
    """What somebody found and delivers.

    `found` counts positive labels bought; `flagged` is the share of rows to flag at a true recall of 80 %. Of a campaign of ours there are also the true
    measures and their intervals.
    """

    found: int
    flagged: float
    truth: dict[str, float]
    intervals: dict[str, tuple[float, float, float]]


# -- worlds -----------------------------------------------------------------------------------------------------------


def generated_world(rate: float, biased: bool, rng: np.random.Generator) -> RareWorld:
    """Return a world whose risk is a trend with a bend, a product or a ring in it."""
    X = rng.normal(size=(ROWS + TEST_ROWS, FEATURES))
    direction = rng.normal(size=FEATURES)
    trend = X @ (direction / np.linalg.norm(direction))
    bend = (X[:, 0] * X[:, 1], np.abs(X[:, 2]), 2.0 * (np.hypot(X[:, 0], X[:, 1]) > 2.0))[rng.integers(3)]
    risk = rng.uniform(1.0, 2.5) * trend + rng.uniform(0.5, 1.5) * bend
    low, high = -30.0, 10.0
    while high - low > 1e-6:
        middle = (low + high) / 2.0
        low, high = (low, middle) if sigmoid(risk + middle).mean() > rate else (middle, high)
    positive = rng.random(len(X)) < sigmoid(risk + low)
    score = trend + rng.normal(size=len(X)) * 0.3
    return _world(X[:ROWS], positive[:ROWS], score[:ROWS], X[ROWS:], positive[ROWS:], rate, biased, rng)


def table_world(folder: str | Path, name: str, rate: float, biased: bool, rng: np.random.Generator) -> RareWorld:
    """Return a world of a table: one of its classes, drawn at random, is thinned out. Rows that it does not need are test rows."""
    X, y = load_table(folder, name)
    classes, sizes = np.unique(y, return_counts=True)
    positive = y == rng.choice(classes[(sizes >= LEAST_POSITIVE) & (sizes <= len(y) / 2)])
    some, others = (rng.permutation(np.flatnonzero(part)) for part in (positive, ~positive))
    size = min(ROWS, int(0.7 * others.size / (1.0 - rate)))
    n_positive = min(rng.binomial(size, rate), some.size // 2)
    rows = rng.permutation(np.concatenate([some[:n_positive], others[: size - n_positive]]))
    test = np.concatenate([some[n_positive:], others[size - n_positive :]])
    score = _old_score(X, positive, test, rng)[rows]
    return _world(X[rows], positive[rows], score, X[test], positive[test], rate, biased, rng)


def _old_score(X: Floats, positive: Bools, test: Ints, rng: np.random.Generator) -> Floats:
    """Return the scores of a logistic regression on a few columns and a few rows of both classes, with noise."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns = rng.choice(X.shape[1], min(X.shape[1], 4), replace=False)
    few = np.concatenate([test[positive[test] == one][:150] for one in (True, False)])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[few][:, columns], positive[few])
    scores = model.decision_function(X[:, columns])
    return np.asarray(scores + 0.3 * scores.std() * rng.normal(size=len(X)))


def _world(
    X: Floats,
    positive: Bools,
    score: Floats,
    X_test: Floats,
    test: Bools,
    rate: float,
    biased: bool,
    rng: np.random.Generator,
) -> RareWorld:
    rank = score.argsort().argsort() / len(X)
    propensity = np.clip(0.6 * (1.0 - rank) ** 1.5, 0.02, 0.6) if biased else np.full(len(X), 0.2)
    y, n = positive.astype(np.float64), len(X) // 2
    shown = rng.random(n) < propensity[:n]
    logged = LoggedData(X[:n], np.where(shown, y[:n], np.nan), propensity[:n], classes=[0.0, 1.0])
    pool = Pool(X[n:], propensity[n:])
    oracle, seed = TableOracle(pool.ids, y[n:]), int(rng.integers(2**31))
    return RareWorld(World(logged, pool, oracle, y[:n], X_test, test.astype(np.float64), seed=seed), rate)


# -- what is measured -------------------------------------------------------------------------------------------------


def true_measures(scores: Floats, rare: RareWorld, threshold: float) -> dict[str, float]:
    """Return recall, precision, flagged share and AUC of test rows in a population with the world's rate.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rare = generated_world(0.05, False, rng)
    >>> true_measures(rare.world.y_test, rare, 0.5)
    {'recall': 1.0, 'precision': 1.0, 'flagged': 0.05, 'AUC': 1.0}
    """
    from sklearn.metrics import roc_auc_score

    positive = rare.world.y_test == 1.0
    recall, alarms = (float(np.mean(scores[part] >= threshold)) for part in (positive, ~positive))
    flagged = rare.rate * recall + (1.0 - rare.rate) * alarms
    precision = rare.rate * recall / flagged if flagged else np.nan
    return dict(zip(MEASURES, (recall, precision, flagged, float(roc_auc_score(positive, scores))), strict=True))


def flagged_at_target(scores: Floats, rare: RareWorld) -> float:
    """Return the share of rows that must be flagged for a true recall of 80 %."""
    cut = np.quantile(scores[rare.world.y_test == 1.0], 1.0 - TARGET, method="lower")
    return true_measures(scores, rare, float(cut))[FLAGGED]


# -- contestants ------------------------------------------------------------------------------------------------------


def our_campaign(rare: RareWorld) -> Outcome:
    """Run a campaign of AutoVC. A session chooses a threshold only for its last round, a run for each."""
    from observal.methods.auto import AutoVC
    from observal.session import Session

    world, found = rare.world, 0
    session = Session(
        world.logged,
        world.pool,
        AutoVC(batch=BATCH),
        LABELS,
        world.seed,
        looks="once",
        tolerance=None,
        objective=OBJECTIVE,
    )
    while (query := session.ask()) is not None:
        answers = world.oracle(query.ids)
        found += int(np.count_nonzero(answers == 1.0))
        session.tell(query.ids, answers)
    estimator, intervals = session.estimator, session.intervals()
    scores = estimator.predict_proba(world.X_test)[:, 1]
    threshold = getattr(estimator, "threshold", 0.5)  # a constant model has none
    stated = {name: intervals[name] for name in MEASURES if name in intervals}
    return Outcome(
        found,
        flagged_at_target(scores, rare),
        true_measures(scores, rare, threshold),
        {name: (one.estimate, one.low, one.high) for name, one in stated.items()},
    )


def _blend(rare: RareWorld, X: Floats, y: Ints) -> Any:
    from observal.learners.blend_classifier import BlendClassifier

    return BlendClassifier().fit(X, y, population=PeerData(rare.world).X)


def _lightgbm(rare: RareWorld, X: Floats, y: Ints) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=100,
        learning_rate=0.05,
        num_leaves=15,
        scale_pos_weight=float((y == 0).sum() / (y == 1).sum()),
        n_jobs=1,
        random_state=0,
        deterministic=True,
        verbose=-1,
    ).fit(X, y)


def _catboost(rare: RareWorld, X: Floats, y: Ints) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=300,
        scale_pos_weight=float((y == 0).sum() / (y == 1).sum()),
        thread_count=1,
        random_seed=0,
        verbose=False,
        allow_writing_files=False,
    ).fit(X, y)


RULES: dict[str, Callable[[Floats], Floats]] = {
    "highest": lambda scores: -scores,
    "margin": lambda scores: np.abs(scores - 0.5),
}
"""Rows with the smallest values are asked about; without a rule, random ones."""


def by_hand(fit: Callable[[RareWorld, Floats, Ints], Any], rule: str, rare: RareWorld) -> Outcome:
    """Buy labels by a rule around a classifier, without weights; at random while the labels show one class."""
    rows, rng = PeerData(rare.world), np.random.default_rng(rare.world.seed)
    y = rows.known.copy()

    def scores_of(X: Floats) -> Floats:
        have = ~np.isnan(y)
        codes = y[have].astype(np.int64)
        if np.unique(codes).size < 2:
            return np.zeros(len(X))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(fit(rare, rows.X[have], codes).predict_proba(X)[:, 1])

    found = 0
    for _ in range(LABELS // BATCH):
        candidates = rng.permutation(rows.pool[np.isnan(y[rows.pool])])
        if rule in RULES:
            candidates = candidates[np.argsort(RULES[rule](scores_of(rows.X[candidates])), kind="stable")]
        asked = candidates[:BATCH]
        y[asked] = rows.answers[asked - rows.pool[0]]
        found += int(y[asked].sum())
    return Outcome(found, flagged_at_target(scores_of(np.asarray(rare.world.X_test)), rare), {}, {})


CONTESTANTS: dict[str, Callable[[RareWorld], Outcome]] = {
    OURS: our_campaign,
    "highest scores": partial(by_hand, _blend, "highest"),
    "margin at one half": partial(by_hand, _blend, "margin"),
    "random": partial(by_hand, _blend, "random"),
    "LightGBM, highest scores": partial(by_hand, _lightgbm, "highest"),
    "LightGBM, margin": partial(by_hand, _lightgbm, "margin"),
    "CatBoost, highest scores": partial(by_hand, _catboost, "highest"),
}


class Measured(NamedTuple):
    """One world, and the outcome of each contestant in it."""

    table: str
    rate: float
    biased: bool
    outcomes: dict[str, Outcome]


def suitable_tables(folder: str | Path) -> list[str]:
    """Return the tables that are large enough and have a class that can be made rare."""
    names = []
    for name in list_tables(folder):
        y = load_table(folder, name).y
        sizes = np.unique(y, return_counts=True)[1]
        if len(y) >= LEAST_ROWS and ((sizes >= LEAST_POSITIVE) & (sizes <= len(y) / 2)).any():
            names.append(name)
    return names


def measure(
    folder: str | Path,
    trials: int = 1,
    seed: int = 0,
    contestants: tuple[str, ...] = tuple(CONTESTANTS),
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Measured]:
    """Yield the outcomes for each table of a folder, rate and log."""
    worlds = list(product(range(trials), suitable_tables(folder), RATES, (True, False)))
    for done, (trial, table, rate, biased) in enumerate(worlds):
        if progress is not None:
            progress(done, len(worlds))
        rng = np.random.default_rng([seed, crc32(table.encode()), round(1000 * rate), biased, trial])
        rare = table_world(folder, table, rate, biased, rng)
        yield Measured(table, rate, biased, {name: CONTESTANTS[name](rare) for name in contestants})


def summarise(measured: list[Measured]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return a header and a row for each contestant, and our recall and how often its intervals cover for each kind of world."""
    header = [
        "who",
        "positive labels",
        "share to flag for 80 % recall",
        "recall",
        *(f"covers {name}" for name in MEASURES),
    ]
    rows: list[tuple[str, ...]] = []
    for name in measured[0].outcomes:
        mine = [one.outcomes[name] for one in measured]
        numbers = (f"{np.mean([one.found for one in mine]):.1f}", f"{np.mean([one.flagged for one in mine]):.4f}")
        rows.append((name, *numbers, *[""] * (1 + len(MEASURES))))
    for rate, biased in product(RATES, (True, False)):
        kind = [one.outcomes[OURS] for one in measured if (one.rate, one.biased) == (rate, biased)]
        if kind:
            recall = f"{np.mean([one.truth['recall'] for one in kind]):.3f}"
            words = f"{OURS}, {100 * rate:g} %, {'biased' if biased else 'ordinary'}, {len(kind)} campaigns"
            rows.append(
                (words, "", "", recall, *(f"{np.mean([covers(one, m) for one in kind]):.2f}" for m in MEASURES))
            )
    return header, rows


def covers(outcome: Outcome, name: str) -> bool:
    """Return whether an interval covers; one that is not stated, or of a measure that does not exist, misses nothing."""
    interval, true = outcome.intervals.get(name), outcome.truth[name]
    return interval is None or not np.isfinite(true) or interval[1] <= true <= interval[2]
