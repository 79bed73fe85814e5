"""How much each part of Algorithm 1 helps: labels asked for and final error as parts are switched off.

The distribution is one on which every part matters. A row is a point of [0, 1]; a classifier predicts +1 between two cuts
a < ½ < b, each on a grid of 21. The chance of +1 changes slowly near the true cuts, ¼ and ¾, so candidates disagree on rows near
them for a long time:

- *left half, always logged* (Q0 = 1): the log determines the left cut as well as any labels can. Without **bias correction**
  labels are bought there anyway.
- *right half, rarely logged* (Q0 = 0.05): labels are needed near the right cut only. Without **disagreement** every row of this
  half is bought. The log's few rows have 20 times the weight of bought ones unless **multiple importance** sampling combines
  them. Two candidates that differ only on rows of small weight can be separated early only with their own second moment, the
  **regulariser**, instead of the largest weight.
- *far right end, almost never logged* (the last 2 %, Q0 = 0.0005): weights of up to 2,000 on rows that hardly matter. Without
  **clipping** the largest weight decides which candidates stay, and early rounds cannot rule out any.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats, Signs
from observal.errors import InvalidInput
from observal.paper.exact import ExactDBAL
from observal.paper.hypotheses import FiniteClass
from observal.problem.data import LoggedData, Pool
from observal.session import run
from observal_research.trials import Progress, run_all

N_LOGGED, N_POOL = 4000, 1000
CUTS = np.array([(a, b) for a in np.linspace(0.0, 0.5, 21) for b in np.linspace(0.5, 1.0, 21)])

VARIANTS: dict[str, dict[str, Any]] = {
    "all parts": {},
    "without clipping": {"clip": False},
    "without the regulariser": {"regulariser": False},
    "without bias correction": {"bias_correction": False},
    "without bias correction and multiple importance": {"bias_correction": False, "multiple_importance": False},
    "without disagreement (every row that passes the gate is asked)": {"disagreement": False},
    "none of them": {
        "clip": False,
        "regulariser": False,
        "bias_correction": False,
        "multiple_importance": False,
        "disagreement": False,
    },
}


def chance_of_positive(x: Floats) -> Floats:
    """Return P(Y = +1 | x)."""
    return np.clip(np.where(x < 0.5, 0.5 + (x - 0.25), 0.5 - (x - 0.75)), 0.1, 0.9)


def propensity(x: Floats) -> Floats:
    """Return Q0(x)."""
    return np.select([x < 0.5, x < 0.98], [1.0, 0.05], 0.0005)


def predictions(x: Floats) -> Signs:
    """Return the prediction of each of the 441 classifiers for each row."""
    return np.where((x > CUTS[:, :1]) & (x <= CUTS[:, 1:]), np.int8(1), np.int8(-1))


@cache
def exact_errors() -> Floats:
    """Return the population error of each classifier, by the midpoint rule on a grid that holds every cut; the same for every trial."""
    x = (np.arange(4000) + 0.5) / 4000
    positive = chance_of_positive(x)
    errors = np.where(predictions(x) > 0, 1.0 - positive, positive).mean(axis=1)
    errors.flags.writeable = False
    return np.asarray(errors)


def trial(method: ExactDBAL, seed: int) -> tuple[int, float]:
    """Return the labels asked for and the excess error of the returned classifier in one run.

    The same seed draws the same rows for every method, so differences between variants are paired.
    """
    rng = np.random.default_rng(seed)
    x = rng.random(N_LOGGED + N_POOL)
    y = np.where(rng.random(x.size) < chance_of_positive(x), 1, -1)
    q = propensity(x)
    revealed = rng.random(N_LOGGED) < q[:N_LOGGED]
    logged = LoggedData(x[:N_LOGGED, None], np.where(revealed, y[:N_LOGGED], np.nan), q[:N_LOGGED], classes=(-1, 1))
    pool = Pool(x[N_LOGGED:, None], q[N_LOGGED:])
    every = predictions(x)
    result = run(logged, pool, lambda ids: y[N_LOGGED:][ids], replace(method, hypotheses=FiniteClass(every)))
    output = int(np.argmax((every == result.estimator.member.predictions).all(axis=1)))
    errors = exact_errors()
    return len(result.queries), float(errors[output] - errors.min())


@dataclass(frozen=True)
class Ablation:
    """One row of the table: means over trials and their standard errors; the excess is over the best classifier."""

    variant: str
    labels: float
    labels_se: float
    final_error: float
    excess_error: float
    excess_error_se: float
    trials: int


def ablate(
    trials: int = 200,
    gamma: float = 0.1,
    random_state: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Ablation]:
    """Run every variant on the same `trials` draws of the distribution and return one row each."""
    if trials < 2:
        raise InvalidInput(f"A standard error needs at least 2 trials, but got {trials}; ask for more.")
    least = float(exact_errors().min())
    placeholder = FiniteClass([[1]])  # each trial replaces it with the class on its own rows
    arguments = [
        (ExactDBAL(placeholder, gamma=gamma, **switches), random_state + number)
        for switches in VARIANTS.values()
        for number in range(trials)
    ]
    outcomes = np.array(run_all(trial, arguments, jobs, progress)).reshape(len(VARIANTS), trials, 2)

    def row(variant: str, values: NDArray[Any]) -> Ablation:
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(trials)
        final = least + float(mean[1])
        return Ablation(variant, float(mean[0]), float(error[0]), final, float(mean[1]), float(error[1]), trials)

    return [row(variant, values) for variant, values in zip(VARIANTS, outcomes, strict=True)]


def to_dicts(rows: list[Ablation]) -> list[dict[str, Any]]:
    """Return the table for JSON."""
    return [asdict(row) for row in rows]
