"""Reject inference beside bought labels, in the benchmark of rejectkit, a package that others wrote.

The benchmark hides the labels of rows that an old rule, or people, would have refused, and asks for a model of everyone. Its measure is the share
recovered, (AUC − naive)/(oracle − naive): naive is a logistic regression of the accepted rows, oracle one of all rows, and the AUC is that on
rows that were set aside. Its eight methods buy nothing. Here they stand beside four that buy labels of refused rows: observal, which is given one
table and nothing else, margin sampling, and two models with labels picked at random.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.errors import InvalidInput
from observal.problem.data import LoggedData
from observal.problem.words import count
from observal.threads import one_thread
from observal_research.benchmark.development import Encoded, is_described, list_described, load_described
from observal_research.benchmark.peers import FAMILIES, fit, margins
from observal_research.datasets import list_npz, load_npz, load_shipped, make_bent
from observal_research.figures import Line, draw_curves
from observal_research.trials import Progress, run_all

INFERENCE = (
    "simple", "fuzzy", "parcelling", "reweighting", "reclassification", "extrapolation", "selflearning", "heckman",
)  # fmt: skip
WAYS = {
    "cutoff": "those with the lowest risk are accepted",
    "mar": "features and chance decide",
    "mnar": "the outcome itself decides, too",
}
"""How the benchmark accepts rows."""
OURS, BEST = "observal", "best of eight methods"
PEERS = {
    "margin sampling": ("logistic", True),
    "logistic, random labels": ("logistic", False),
    "LightGBM, random labels": ("LightGBM", False),
}
"""The model family, and whether labels go to the smallest margins."""
BUYERS = (OURS, *PEERS)
LABELS, BATCH, ROWS, TEST_SHARE, ACCEPTED = (30, 60, 100, 150), 10, 4000, 0.3, 0.6
LEAST_LOSS = 0.005  # of AUC through selection: where it is less, the benchmark states no share
MADE_UP, SHIPPED = {"slightly bent": 1.0, "bent": 2.0}, "digits"


class Measured(NamedTuple):
    """One table, way and seed: AUCs by method and number of labels bought, and whether our last interval for the error covers."""

    table: str
    way: str
    seed: int
    naive: float
    oracle: float
    aucs: dict[tuple[str, int], float]
    covers: bool

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        aucs = [{"method": method, "labels": labels, "auc": auc} for (method, labels), auc in self.aucs.items()]
        return {**self._asdict(), "aucs": aucs}


# -- tables -----------------------------------------------------------------------------------------------------------


def list_names(folder: str | Path | None) -> Sequence[str]:
    """Return the names of the tables: those of tables.json with two classes, or NAME.npz; without a folder, made-up ones and scikit-learn's digits."""
    if folder is None:
        return [*MADE_UP, SHIPPED]
    return list_described(folder) if is_described(folder) else list_npz(folder)


def load(folder: str | Path | None, name: str, seed: int) -> Encoded:
    """Return a table as numbers with mean 0 and standard deviation 1, and 1 for the class that the risk is about, 0 for all others."""
    rng = np.random.default_rng([seed, crc32(name.encode())])
    if folder is not None and is_described(folder):
        X, y = load_described(folder, name)
    else:
        data = (
            load_npz(name, folder) if folder is not None
            else load_shipped(name) if name == SHIPPED
            else make_bent(ROWS, bend=MADE_UP[name], random_state=rng)
        )  # fmt: skip
        X, y = np.asarray(data.X, dtype=float), (data.y == np.unique(data.y)[-1]).astype(np.int64)
    kept = rng.permutation(len(y))[:ROWS]
    X, spread = X[kept], X[kept].std(axis=0)
    return Encoded((X - X.mean(axis=0))[:, spread > 0.0] / spread[spread > 0.0], y[kept])


# -- one run ----------------------------------------------------------------------------------------------------------


class Split(NamedTuple):
    """The benchmark's training rows, which of them have a label, and the rows set aside."""

    X: Floats
    y: Ints
    known: Bools
    X_test: Floats
    y_test: Ints
    seed: int

    def auc(self, model: Any) -> float:
        """Return a fitted model's AUC on the rows set aside."""
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(self.y_test, model.predict_proba(self.X_test)[:, -1]))


def measure(folder: str | Path | None, name: str, way: str, seed: int, labels: tuple[int, ...]) -> Measured | None:
    """Return what all make of a table; None where only one class is accepted, which the benchmark refuses."""
    from rejectkit import MaskedRejectBenchmark
    from sklearn.model_selection import train_test_split

    X, y = load(folder, name, seed)
    benchmark = MaskedRejectBenchmark(way, accept_rate=ACCEPTED, test_size=TEST_SHARE, random_state=seed)
    # The benchmark's own split, of which it does not tell the rows.
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=TEST_SHARE, random_state=seed, stratify=y)
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        try:
            known = benchmark._accept_mask(X_train, y_train)
        except ValueError:
            return None
        inferred = benchmark.compare(INFERENCE, X, y)["auc"]
        split = Split(X_train, y_train, known, X_test, y_test, seed)
        ours, covers = our_campaign(split, labels)
        bought = {OURS: ours} | {peer: buy_labels(split, labels, *rule) for peer, rule in PEERS.items()}
    aucs = {(method, 0): float(inferred[method]) for method in INFERENCE}
    aucs |= {(who, n): auc for who, curve in bought.items() for n, auc in zip((0, *labels), curve, strict=True)}
    return Measured(name, way, seed, float(inferred["naive"]), float(inferred["oracle"]), aucs, covers)


def our_campaign(split: Split, labels: tuple[int, ...]) -> tuple[list[float], bool]:
    """Return AUCs before and after each number of labels, and whether the last interval covers; one table and its labels are all that is told."""
    from observal.session import Session

    logged = LoggedData(split.X, np.where(split.known, split.y, np.nan), classes=(0, 1))
    session = Session(logged, None, None, labels[-1], split.seed, tolerance=None, looks="once")
    while (query := session.ask()) is not None:
        session.tell(query.ids, split.y[query.ids])
    rounds, interval = session.rounds, session.intervals()["error"]
    wrong = float(np.mean(rounds[-1].estimator.predict(split.X_test) != split.y_test))
    aucs = [split.auc(one.estimator) for one in rounds]
    # Rounds grow, so they do not end at all of these numbers.
    aucs = np.interp((0, *labels), [one.labels for one in rounds], aucs).tolist()
    return aucs, bool(interval.low <= wrong <= interval.high)


def buy_labels(split: Split, labels: tuple[int, ...], family: str, by_margin: bool) -> list[float]:
    """Return AUCs before and after each number of labels, bought by the smallest margin or at random, and fitted without weights."""
    shuffled = np.random.default_rng(split.seed).permutation(np.flatnonzero(~split.known))
    have, aucs = split.known.copy(), []
    for n in (0, *labels):
        target = int(split.known.sum()) + min(n, shuffled.size)
        while (left := target - int(have.sum())) > 0:
            candidates = shuffled[~have[shuffled]]
            if by_margin:
                model = fit(FAMILIES[family], split.X[have], split.y[have], split.seed, 1.0)
                candidates = candidates[np.argsort(margins(model, split.X[candidates]), kind="stable")]
            have[candidates[: min(left, BATCH)]] = True
        aucs.append(split.auc(fit(FAMILIES[family], split.X[have], split.y[have], split.seed, 1.0)))
    return aucs


# -- all of them ------------------------------------------------------------------------------------------------------


def run_benchmark(
    folder: str | Path | None = None,
    labels: Sequence[int] = LABELS,
    seeds: Sequence[int] = (0, 1),
    only: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Measured]:
    """Run everything on every table, way and seed."""
    if find_spec("rejectkit") is None:
        raise InvalidInput("The benchmark needs rejectkit; install it with pip install 'observal[rejects]'.")
    names = [name for name in list_names(folder) if only is None or only in name]
    if not names:
        raise InvalidInput(
            f"No table has a name with {only or ''!r}; the tables are {', '.join(list_names(folder)) or 'none'}."
        )
    if not labels or min(labels) < 1:
        raise InvalidInput(f"Numbers of labels are at least 1, but are {list(labels)}; give some, as in 30,60,100.")
    budgets = tuple(sorted(set(labels)))
    runs = [(folder, name, way, seed, budgets) for seed in seeds for name in names for way in WAYS]
    measured = [one for one in run_all(measure, runs, jobs, progress) if one is not None]
    if not _by_way(measured):
        raise InvalidInput(
            f"In none of {len(runs)} runs does selection cost more than {LEAST_LOSS} of AUC; take other tables or more seeds."
        )
    return measured


def recovered(runs: Sequence[Measured], method: str, labels: int = 0) -> tuple[float, float]:
    """Return the share recovered, a ratio of means, and its standard error.

    Examples
    --------
    >>> one = Measured("loans", "cutoff", 0, 0.7, 0.8, {("fuzzy", 0): 0.71}, True)
    >>> round(recovered([one, one._replace(oracle=0.9)], "fuzzy")[0], 3)
    0.067
    """
    gained = np.array([run.aucs[method, labels] - run.naive for run in runs])
    lost = np.array([run.oracle - run.naive for run in runs])
    ratio = float(gained.sum() / lost.sum())
    return ratio, float(np.std(gained - ratio * lost) / abs(lost.mean()) / np.sqrt(max(1, len(runs) - 1)))


def summarise(measured: Sequence[Measured]) -> tuple[list[str], list[tuple[str, ...]], list[str]]:
    """Return a header, a row with the shares recovered for each method and number of labels, and sentences about the runs."""
    ways = _by_way(measured)
    rows = []
    for method, labels in measured[0].aucs:
        if labels or method in INFERENCE:
            shares = [recovered(runs, method, labels) for runs in ways.values()]
            rows.append((method, str(labels), *(f"{100 * share:.0f} ± {100 * se:.0f}" for share, se in shares)))
    lines = [
        f"{way} ({WAYS[way]}): AUC {np.mean([run.naive for run in runs]):.3f} from the accepted rows, "
        f"{np.mean([run.oracle for run in runs]):.3f} from all, in the {len(runs)} runs in which selection costs more than {LEAST_LOSS}."
        for way, runs in ways.items()
    ]
    covered = sum(run.covers for run in measured)
    lines.append(f"observal's 95 % interval for the error covers in {covered} of {len(measured)} runs.")
    return ["method", "labels", *(f"{way}: recovered, %" for way in ways)], rows, lines


def draw(measured: Sequence[Measured], paths: Sequence[str | Path]) -> None:
    """Draw the share recovered against labels, a panel for each way, and write the figure to every path."""
    where = np.array(sorted({labels for _, labels in measured[0].aucs}))
    panels = {}
    for way, runs in _by_way(measured).items():
        curves = {who: [recovered(runs, who, n) for n in where.tolist()] for who in BUYERS}
        curves[BEST] = [max(recovered(runs, method) for method in INFERENCE)] * where.size
        panels[f"{way}: {WAYS[way]}"] = [Line(who, where, *np.array(points).T) for who, points in curves.items()]
    draw_curves(
        panels,
        paths,
        caption="Share of the AUC that selection costs which each method recovers: 0 is a logistic regression of the accepted rows, 100 one of all rows; "
        "other models can be above it. "
        f"Ratios of means over {count(len({run.table for run in measured}), 'table')} and {count(len({run.seed for run in measured}), 'seed')} with standard errors, in "
        "rejectkit's benchmark. Its eight reject-inference methods buy no labels; each panel shows the best of them, chosen afterwards.",
        bars_every=1,
        y_title="recovered, %",
        x_title="labels bought of refused rows",
        one_legend=True,
    )


def _by_way(measured: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Return the runs of each way in which there is something to recover."""
    costly = [run for run in measured if run.oracle - run.naive > LEAST_LOSS]
    found = {way: [run for run in costly if run.way == way] for way in WAYS}
    return {way: runs for way, runs in found.items() if runs}
