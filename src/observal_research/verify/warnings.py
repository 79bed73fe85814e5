"""How often each warning of the diagnosis is raised: on clean logs (its size) and on logs that deserve it (its power).

A log has 2,000 rows (300 in one claim) and eight features, one of them skewed and one with two values; the least propensity is 0.1.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import expit

from observal.checks import Floats
from observal.problem.data import LoggedData, Pool
from observal.problem.problem import Problem
from observal.threads import one_thread
from observal_research.verify.claims import Claim, Lab, Outcome, Results, Simulation, at_least, at_most, share

ROWS, FEW_ROWS, FEATURES = 2000, 300, 8
FALSE_ALARMS, FOUND, FOUND_DRIFT, STILL_FOUND = 0.05, 0.9, 0.8, 0.2
MOST_LOGS = 1000  # that are diagnosed as a whole


def features(rng: np.random.Generator, rows: int) -> Floats:
    """Draw rows of the population."""
    X = rng.normal(size=(rows, FEATURES))
    X[:, 1], X[:, 2] = np.exp(X[:, 1]), X[:, 2] > 0
    return X


def stated(X: Floats) -> Floats:
    """Return the propensities that the log states."""
    return 0.1 + 0.5 * np.asarray(expit(2.0 * X[:, 0]))


def true_propensity(X: Floats, kind: str) -> Floats:
    """Return the propensities that the policy really had."""
    q = stated(X)
    if kind == "a feature is left out":
        odds = q / (1.0 - q) * np.exp(0.5 * X[:, 3])
        return odds / (1.0 + odds)
    return {"right": q, "1.25 times larger": 1.25 * q, "1.25 times smaller": q / 1.25}[kind]


def propensity_warnings(kind: str, rng: np.random.Generator, count: int) -> Results:
    """Return which logs get a warning about wrong propensities."""
    from observal.diagnosis.calibration_check import check_calibration

    warned = np.empty(count, dtype=bool)
    for trial in range(count):
        X = features(rng, ROWS)
        shown = rng.random(ROWS) < true_propensity(X, kind)
        warned[trial] = check_calibration(stated(X), shown, False, X, [f"x{i}" for i in range(FEATURES)]).suspicious
    return {"warned": warned}


def drift_warnings(by: float, rng: np.random.Generator, count: int) -> Results:
    """Return which pairs of log and pool get a warning when the mean of one feature moves by some standard deviations."""
    from observal.diagnosis.drift import find_drift

    warned = np.empty(count, dtype=bool)
    names = [f"x{i}" for i in range(FEATURES)]
    with one_thread():
        for trial in range(count):
            X, moved = features(rng, ROWS), features(rng, ROWS)
            moved[:, 0] += by
            problem = Problem(LoggedData(X, X[:, 0] > 0, propensity=1.0), Pool(moved, 0.5))
            warned[trial] = find_drift(problem, names, rng).found
    return {"warned": warned}


def any_warnings(rows: int, rng: np.random.Generator, count: int) -> Results:
    """Return which clean logs get any warning at all."""
    from observal.diagnosis import diagnose

    warned = np.empty(count, dtype=bool)
    for trial in range(count):
        X = features(rng, 2 * rows)
        y = rng.random(2 * rows) < expit(X[:, 0] + X[:, 3])
        q = stated(X)
        shown = rng.random(rows) < q[:rows]
        logged = LoggedData(X[:rows], np.where(shown, y[:rows], np.nan), q[:rows])
        warned[trial] = bool(diagnose(logged, Pool(X[rows:], q[rows:])).warnings)
    return {"warned": warned}


def check_share(
    simulation: Simulation, name: str, least: float | None, most: float | None, limit: int, lab: Lab
) -> Outcome:
    """Check that a warning is raised often enough, or seldom enough."""
    trials = min(lab.trials, limit)
    hits = int(lab.simulate(simulation, trials, f"warnings.{name}")["warned"].sum())
    passed = at_least(hits, trials, least) if least is not None else at_most(hits, trials, most or 0.0)
    promise = f"in ≥ {least:.0%} of logs" if least is not None else f"in ≤ {most:.0%} of clean logs"
    return lab.outcome(
        f"warned {promise}",
        share(hits, trials),
        trials=trials,
        passed=passed,
        error_rate=1e-4,
        detail=f"{ROWS} rows (or as the claim says), {FEATURES} features",
    )


def _claim(
    name: str, statement: str, simulation: Simulation, least: float | None, most: float | None, limit: int
) -> Claim:
    check = partial(check_share, simulation, name.replace("-", "_"), least, most, limit)
    return Claim(name, statement, "not in the paper", check)


CLAIMS = (
    *(
        _claim(
            f"clean-log-{rows}",
            f"A clean log of {rows:,} rows is hardly ever warned of.",
            partial(any_warnings, rows),
            None,
            FALSE_ALARMS,
            MOST_LOGS,
        )
        for rows in (FEW_ROWS, ROWS)
    ),
    _claim(
        "propensity-right",
        "Right propensities are hardly ever called wrong.",
        partial(propensity_warnings, "right"),
        None,
        0.02,
        10**9,
    ),
    *(
        _claim(
            f"propensity-{name}",
            f"Propensities are found to be wrong where {words}.",
            partial(propensity_warnings, kind),
            FOUND,
            None,
            10**9,
        )
        for name, words, kind in (
            ("too-small", "the true ones are 1.25 times larger", "1.25 times larger"),
            ("too-large", "the true ones are 1.25 times smaller", "1.25 times smaller"),
            ("by-feature", "they leave out a feature", "a feature is left out"),
        )
    ),
    *(
        _claim(
            f"drift-{name}",
            f"Log and pool are found to differ where a mean moved by {by:g} standard deviations.",
            partial(drift_warnings, by),
            least,
            None,
            MOST_LOGS,
        )
        for name, by, least in (("fifth", 0.2, FOUND_DRIFT), ("tenth", 0.1, STILL_FOUND))
    ),
)
