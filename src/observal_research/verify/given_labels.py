"""How often the error's interval covers where nobody knows why a row has a label: rules, people who saw more, and times that change.

A trial is a campaign of AutoVC. It is told which rows have a label, and nothing else. The truth is measured on rows that it never sees, drawn like its
population: one table, log and pool together ("both"), or the pool alone. No row of the pool has a label, so a policy that has changed since the log
shows in one table only.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from observal.checks import Bools, Floats
from observal.problem.data import LoggedData, Pool
from observal.threads import one_thread
from observal_research.datasets import TableOracle
from observal_research.datasets.generators import unit_vector
from observal_research.verify.claims import LEVEL, Claim, Lab, Outcome, Results, at_least, share
from observal_research.verify.coverage import COVERED, MOST_CAMPAIGNS
from observal_research.verify.worlds import FEATURES, ROWS, TEST_ROWS, draw_classes, misspecified

LABELS, BATCH = 100, 25
ACCEPTED, EXCEPTIONS, BEST = 0.6, 0.03, 0.3
"""The share of rows below the cut, of exceptions beyond it, and of a month's rows that are its best k."""
MONTHS = 4  # in the log, and again in the pool
CAUSE, RISKIER, STRICTER = 1.5, 0.5, 0.5
"""What the hidden cause adds to the risk, by how many standard deviations rows become riskier, and by what fewer are accepted."""
WIDEST = {"table": 0.8, "both": 1.0, "pool": 1.1}
"""The largest median width, as a multiple of Wilson's interval from half of the budget as a random test set: that of 0 to 1 always covers."""

WAYS = {
    "cut-off": "rows below a cut have labels",
    "exceptions": f"rows below a cut have labels, and {EXCEPTIONS:.0%} beyond it",
    "best-k": "the best k of each month have labels",
}
CASES = {"table": "one table", "both": "log and pool together", "pool": "the pool, with a log"}
CAUSES = {"": "", "hidden": ", and who decided saw a cause that is not recorded"}
CHANGES = {"": "", "riskier": ", and later rows are riskier", "stricter": ", and the policy became stricter"}


class Given(NamedTuple):
    """A kind of campaigns: how rows got labels, what is told, and what is hidden or changes."""

    way: str
    case: str
    cause: str = ""
    change: str = ""

    @property
    def name(self) -> str:
        """The claim's name.

        Examples
        --------
        >>> Given("cut-off", "pool", "hidden").name
        'given-cut-off-pool-hidden'
        """
        return "-".join(["given", *(part for part in self if part)])


KINDS = tuple(
    Given(way, case, cause, change)
    for (cause, change), way, case in product(
        (("", ""), ("hidden", ""), ("hidden", "riskier"), ("hidden", "stricter")), WAYS, CASES
    )
    if change != "stricter" or case == "table"
)


class GivenWorld(NamedTuple):
    """What a campaign is told, the answers by id, and rows that it never sees."""

    logged: LoggedData
    pool: Pool | None
    oracle: TableOracle
    X_test: Floats
    y_test: Floats


def make_given_world(kind: Given, rng: np.random.Generator) -> GivenWorld:
    """Draw log, pool and test rows of a kind; with one table, the pool is its second half, and has labels, too."""
    direction = unit_vector(FEATURES, rng)
    old = direction + 0.7 * unit_vector(FEATURES, rng)  # what the old score looks at
    parts = []
    for size, is_later in ((ROWS, False), (ROWS, True), (TEST_ROWS // 2, False), (TEST_ROWS // 2, True)):
        X = rng.normal(size=(size, FEATURES))
        if kind.change == "riskier" and is_later:
            X += RISKIER * direction
        hidden = rng.normal(size=size) if kind.cause else np.zeros(size)
        chance, _ = misspecified(X, direction)
        odds = np.log(chance / (1.0 - chance)) + CAUSE * hidden
        parts.append((X, draw_classes(1.0 / (1.0 + np.exp(-odds)), rng).astype(float), X @ old + hidden))
    (X, y, risk), (X_later, y_later, risk_later), *fresh = parts
    cut = float(np.quantile(risk, ACCEPTED))
    known = _accept(kind.way, risk, cut, 1.0, rng)
    fewer = STRICTER if kind.change == "stricter" else 1.0
    known_later = _accept(kind.way, risk_later, float(np.quantile(risk, ACCEPTED * fewer)), fewer, rng)
    labels, labels_later = np.where(known, y, np.nan), np.where(known_later, y_later, np.nan)
    tested = fresh[1:] if kind.case == "pool" else fresh
    X_test, y_test = np.vstack([part[0] for part in tested]), np.concatenate([part[1] for part in tested])
    oracle = TableOracle(np.arange(2 * ROWS), np.concatenate([y, y_later]))
    if kind.case == "table":
        logged = LoggedData(np.vstack([X, X_later]), np.concatenate([labels, labels_later]), classes=(0.0, 1.0))
        return GivenWorld(logged, None, oracle, X_test, y_test)
    logged = LoggedData(X, labels, ids=np.arange(ROWS), classes=(0.0, 1.0))
    return GivenWorld(logged, Pool(X_later, ids=np.arange(ROWS, 2 * ROWS)), oracle, X_test, y_test)


def _accept(way: str, risk: Floats, cut: float, share_of_best: float, rng: np.random.Generator) -> Bools:
    """Return which rows the old policy accepted: of riskier rows it accepts fewer by a cut, and as many as before if it takes the best k."""
    if way != "best-k":
        return np.asarray((risk <= cut) | ((way == "exceptions") & (rng.random(risk.size) < EXCEPTIONS)))
    accepted = np.zeros(risk.size, dtype=bool)
    for month in np.array_split(np.arange(risk.size), MONTHS):
        accepted[month[np.argsort(risk[month])[: round(BEST * share_of_best * month.size)]]] = True
    return accepted


def campaigns(kind: Given, rng: np.random.Generator, count: int) -> Results:
    """Return for each campaign whether the error is covered, the width, the width with a random half, and the truth."""
    from observal.methods.auto import AutoVC
    from observal.session import run

    rows = []
    with one_thread():  # workers have one core each
        for _ in range(count):
            world = make_given_world(kind, rng)
            result = run(
                world.logged,
                world.pool,
                world.oracle,
                AutoVC(batch=BATCH),
                LABELS,
                int(rng.integers(2**31)),
                population=None if kind.case == "table" else kind.case,
                looks="once",
                tolerance=None,
            )
            truth = float(np.mean(result.estimator.predict(world.X_test) != world.y_test))
            interval = result.error_interval
            covers = interval.low <= truth <= interval.high
            rows.append((covers, interval.high - interval.low, wilson(truth, LABELS / 2), truth))
    return dict(zip(("covered", "width", "half", "truth"), np.array(rows, dtype=float).T, strict=True))


def wilson(rate: float, labels: float) -> float:
    """Return the width of Wilson's interval for a share.

    Examples
    --------
    >>> round(wilson(0.2, 50), 3)
    0.218
    """
    z2 = 1.96**2
    return float(2.0 * np.sqrt(z2 * (rate * (1.0 - rate) / labels + z2 / (4.0 * labels**2))) / (1.0 + z2 / labels))


def check_given(kind: Given, lab: Lab) -> Outcome:
    """Check that the error is covered often enough, and that the median width is not too large."""
    trials = min(lab.trials, MOST_CAMPAIGNS)
    results = lab.simulate(partial(campaigns, kind), trials, f"given_labels.{kind.name}")
    hits, wide = int(results["covered"].sum()), float(np.median(results["width"] / results["half"]))
    return lab.outcome(
        f"95 % intervals cover the error in ≥ {COVERED:.0%} of campaigns, median width ≤ {WIDEST[kind.case]:g} × a random half",
        f"{share(hits, trials)}; {wide:.2f} × a random half",
        trials=trials,
        passed=at_least(hits, trials, COVERED) and wide <= WIDEST[kind.case],
        error_rate=LEVEL,
        detail=f"mean error {results['truth'].mean():.3f}; {2 * ROWS} rows in all, {LABELS} labels, {FEATURES} features, AutoVC",
    )


CLAIMS = tuple(
    Claim(
        kind.name,
        f"Intervals cover where {WAYS[kind.way]}{CAUSES[kind.cause]}{CHANGES[kind.change]}; the error is about {CASES[kind.case]}.",
        "not in the paper",
        partial(check_given, kind),
    )
    for kind in KINDS
)
