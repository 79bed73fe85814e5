"""Columns that leak the label: known only once the label is, so that a model using them is useless later."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.feature_values import (
    MAX_COLUMNS,
    choose_columns,
    columns_by_source,
    dense,
    sample_positions,
)
from observal.learners.folds import random_folds
from observal.paper.weights import plain_importance
from observal.problem.data import LoggedData
from observal.problem.rows import is_sparse
from observal.problem.words import listed, option_words, percent

# The explained share is 1 − (held-out log loss) / (log loss of the class shares). The thresholds were set on
# public tables with and without planted leaks; observal_research.leaks measures them.
STRONG = 0.45  # of the label: what a column must explain before anything is fitted
STRONG_PAIR = 0.75  # the same for two columns together, as there are many pairs
PERFECT = 0.95  # of the label: a column that explains this much is reported whatever the others explain
# Of the label, and relative to any other column: a column that explains this much is reported as well.
STANDS_OUT = ((0.6, 2.0), (0.5, 3.0))
NEARLY_ALL = 0.75  # of what the model explains, by one column
NEARLY_ALL_PAIR = 0.85
FAR_WORSE = 0.75  # of what the model explains: a model without the column must explain less
MIN_FOR_NAME = 0.1  # of the label: what a column named like the label must explain
MIN_FOR_DATE = 0.3  # of the label: what the order of two dates must explain
MAX_ROWS = 2000  # labelled rows to check
MAX_PAIRED = 120  # columns of which all pairs are checked
CLOSELY_CHECKED = 6  # best pairs to check in other ways, if the best explains CLOSER_LOOK of the label
CLOSER_LOOK = 0.2
MIN_VALUES = 3  # distinct values of a column whose sums with others are checked
MAX_TOGETHER = 4  # columns to leave out together
MAX_DATES = 8
MOSTLY_KNOWN = 0.1  # share of rows in which a date may be missing and still be compared with others
MIN_OF_CLASS, MIN_ROWS = 5, 40
MIN_COLUMNS = 3  # with fewer, there is nothing to compare a column with
FOLDS = 3
HEAVIEST = 10.0  # times the median weight: larger ones are clipped
FOREST_ROWS = 20.0  # rows that a forest's probabilities count for when mixed with one row of class shares

Kind = Literal["value", "missing", "pair", "name", "follow-up", "date"]


@dataclass(frozen=True)
class Leak:
    """A column, or two together, that may leak the label.

    Parameters
    ----------
    columns : tuple of str
        The table columns to leave out.
    kind : {"value", "missing", "pair", "name", "follow-up", "date"}
        The evidence: the column's value, whether it is missing, both columns together, a name like the
        label's, a name that suggests the end of follow-up, or the order of two dates.
    explains, all_explain, others_explain : float
        The share of the label explained by it, by all columns, and by all columns without leaks.
    beside : str
        The other date, if it is about the order of two.
    """

    columns: tuple[str, ...]
    kind: Kind
    explains: float
    all_explain: float
    others_explain: float
    beside: str = ""

    @property
    def evidence(self) -> str:
        """The evidence, in words.

        Examples
        --------
        >>> Leak(("end",), "date", 0.9, 0.9, 0.1, "due").evidence
        "by how much 'end' is later than 'due' explains 90%"
        """
        name = listed([repr(column) for column in self.columns])
        words = {
            "value": f"{name} alone explains",
            "missing": f"whether {name} is missing explains",
            "pair": f"{name} together explain",
            "name": f"{name} has a name like the label's and explains",
            "follow-up": f"{name}, which sounds like the end of follow-up, explains",
            "date": f"by how much {name} is later than {self.beside!r} explains",
        }[self.kind]
        return f"{words} {percent(self.explains)}"


def leak_sentence(leaks: Sequence[Leak], label: str = "") -> str:
    """Return a sentence on what to do about columns that may leak the label.

    Examples
    --------
    >>> print(leak_sentence([Leak(("is_late",), "value", 0.92, 0.95, 0.2)], "late"))
    Column 'is_late' may leak the label 'late': of what columns can explain about the label, 'is_late' alone explains 92%, all columns 95% and the others 20%. If it is only known once the label is, leave it out with --exclude is_late; otherwise say so with --known-before is_late.
    """
    columns = list(dict.fromkeys(column for leak in leaks for column in leak.columns))
    names = listed([repr(column) for column in columns])
    subject, it, they_are = (
        (f"Column {names} may", "it", "it is") if len(columns) == 1 else (f"Columns {names} may", "them", "they are")
    )
    told = "; ".join(leak.evidence for leak in leaks)
    the_label = f"the label {label!r}" if label else "the label"
    return (
        f"{subject} leak {the_label}: of what columns can explain about the label, {told}, all columns "
        f"{percent(max(0.0, leaks[0].all_explain))} and the others {percent(max(0.0, leaks[-1].others_explain))}. If {they_are} only "
        f"known once the label is, leave {it} out with {option_words('--exclude', columns)}; otherwise say so with "
        f"{option_words('--known-before', columns)}."
    )


def find_leaks(
    logged: LoggedData,
    names: Sequence[str],
    sources: Sequence[str],
    dates: Collection[str] = (),
    label: str = "",
    known_before: Collection[str] = (),
) -> tuple[Leak, ...]:
    """Return columns that may leak the label.

    A column is reported if its value, or whether it is missing, explains nearly all that a model explains,
    and a model without it is far worse; likewise two columns together, or several that each explain nearly
    all. A column named like the label or like the end of follow-up, and a date whose order with another date
    predicts the label, need to explain less.

    At most 2,000 labels are used. `sources` are the table columns that the features `names` come from, and
    `dates` those features that are dates. `known_before` are columns known before the label is: they are
    never reported.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(0)
    >>> late = rng.random(600) < 0.4
    >>> X = np.column_stack([rng.normal(size=(600, 3)), np.where(rng.random(600) < 0.98, late, ~late)])
    >>> logged = ob.LoggedData(X, late, propensity=0.5)
    >>> [leak.columns for leak in find_leaks(logged, *[["km", "weight", "price", "flag"]] * 2)]
    [('flag',)]
    """
    evidence = Evidence.of(logged, names, sources, dates)
    if evidence is None:
        return ()
    left, leaks = list(evidence.columns), list[Leak]()
    suspects = [column for column in left if column not in known_before]
    while len(left) >= MIN_COLUMNS:
        found = _find_singles(evidence, left, suspects) or _find_pair(evidence, left, suspects)
        if not found:
            break
        leaks += found
        named = {column for leak in found for column in leak.columns}
        left, suspects = ([column for column in some if column not in named] for some in (left, suspects))
    return (*leaks, *_find_by_name_or_date(evidence, left, suspects, label, leaks))


def _find_singles(evidence: Evidence, left: Sequence[str], suspects: Sequence[str]) -> list[Leak]:
    """Return the fewest suspects that each explain nearly all, and without which a model is far worse."""
    strong = [column for column in suspects if evidence.single(column) >= STRONG]
    if not strong:
        return []
    strong.sort(key=evidence.single, reverse=True)
    full = evidence.model(left)
    strong = [column for column in strong if evidence.single(column) >= NEARLY_ALL * full][:MAX_TOGETHER]
    for n_out in range(1, len(strong) + 1):
        out = strong[:n_out]
        others = [column for column in left if column not in out]
        rest = evidence.model(others)
        if rest <= FAR_WORSE * full or _explain_far_more(evidence, out, others):
            return [Leak((c,), evidence.kind(c), evidence.single(c), full, rest, evidence.later_than(c)) for c in out]
    return []


def _explain_far_more(evidence: Evidence, columns: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether each of these columns explains nearly all of the label, or much more than any other column."""
    least, most = min(map(evidence.single, columns)), max(map(evidence.single, others), default=0.0)
    return most < PERFECT <= least or any(least >= much and most <= least / times for much, times in STANDS_OUT)


def _find_pair(evidence: Evidence, left: Sequence[str], suspects: Sequence[str]) -> list[Leak]:
    """Return two suspects that together explain nearly all, if others are left and a model of these is far worse."""
    if len(suspects) < 2:
        return []
    explained, pair = evidence.best_pair(suspects)
    if explained < STRONG_PAIR:
        return []
    full = evidence.model(left)
    rest = evidence.model([column for column in left if column not in pair])
    stands_out = explained >= PERFECT and max(map(evidence.single, left)) <= explained / 2.0
    if not stands_out and (explained < NEARLY_ALL_PAIR * full or rest > FAR_WORSE * full):
        return []
    return [Leak(pair, "pair", explained, full, rest)]


def _find_by_name_or_date(
    evidence: Evidence, left: Sequence[str], suspects: Sequence[str], label: str, found: Sequence[Leak]
) -> list[Leak]:
    """Return suspects named like the label or the end of follow-up, and dates whose order with another predicts it."""

    def name_kind(column: str) -> Kind | None:
        return "name" if resembles(column, label) else "follow-up" if ends_follow_up(column) else None

    named = {c: kind for c in suspects if (kind := name_kind(c)) and evidence.single(c) >= MIN_FOR_NAME}
    dated = [
        column
        for column in suspects
        if column not in named and evidence.later_than(column) and evidence.single(column) >= MIN_FOR_DATE
    ]
    if not (named or dated):
        return []
    full = found[0].all_explain if found else evidence.model(left)
    rest = evidence.model([column for column in left if column not in (*named, *dated)])
    return [Leak((c,), kind, evidence.single(c), full, rest) for c, kind in named.items()] + [
        Leak((c,), "date", evidence.single(c), full, rest, evidence.later_than(c)) for c in dated
    ]


# -- what columns and models explain -------------------------------------------------------------------------------


class _View(NamedTuple):
    """Groupings of rows by a column: by value, by being missing, and by how much later it is than another date."""

    value: Ints
    missing: Ints | None
    later: dict[str, Ints]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Labelled rows, and how much of their labels one column, two columns or a model of several explain."""

    X: Floats
    codes: Ints
    weights: Floats
    columns: dict[str, list[int]]
    views: dict[str, _View]

    @classmethod
    def of(
        cls, logged: LoggedData, names: Sequence[str], sources: Sequence[str], dates: Collection[str]
    ) -> Evidence | None:
        """Return the evidence in a log; None if it has too few labels or columns."""
        rows = sample_positions(logged.rows, MAX_ROWS, np.flatnonzero(logged.revealed))
        codes = np.unique(logged.codes[rows], return_inverse=True)[1]
        counts = np.bincount(codes, minlength=2)
        if rows.size < MIN_ROWS or np.sort(counts)[-2] < MIN_OF_CLASS or len(set(sources)) < MIN_COLUMNS:
            return None
        weights = plain_importance(logged.propensity[rows])
        weights = np.minimum(weights, HEAVIEST * np.median(weights))
        X = logged.rows.take(rows)
        chosen: Ints = np.arange(X.shape[1])
        if is_sparse(X) or X.shape[1] > 2 * MAX_COLUMNS:
            chosen = choose_columns(X, codes == int(np.argmax(counts)))
        X = dense(X, chosen)
        columns = columns_by_source([sources[k] for k in chosen.tolist()])
        n_bins = int(np.clip(np.sqrt(rows.size / 14), 4, 12))
        date_columns = [c for c, at in columns.items() if names[chosen[at[0]]] in dates][:MAX_DATES]
        views = {column: _view(X, columns, column, date_columns, n_bins) for column in columns}
        return cls(X, codes, weights / weights.mean(), columns, views)

    @cached_property
    def shares(self) -> Floats:
        """The share of each class."""
        counts = np.bincount(self.codes, weights=self.weights)
        return np.asarray(counts / counts.sum())

    def _explained(self, chances: Floats) -> float:
        """Return the share explained by the predicted probabilities of the rows' own classes."""
        baseline = -float(np.average(np.log(self.shares[self.codes]), weights=self.weights))
        return 1.0 + float(np.average(np.log(chances), weights=self.weights)) / baseline

    def _by_groups(self, groups: Ints) -> float:
        """Return the share explained by groups of rows, each row predicted from the others in its group."""
        n_classes = self.shares.size
        counts = np.bincount(
            groups * n_classes + self.codes, weights=self.weights, minlength=(int(groups.max()) + 1) * n_classes
        ).reshape(-1, n_classes)
        own, total = counts[groups, self.codes] - self.weights, counts.sum(axis=1)[groups] - self.weights
        return self._explained((np.maximum(own, 0.0) + self.shares[self.codes]) / (np.maximum(total, 0.0) + 1.0))

    @cached_property
    def _singles(self) -> dict[str, tuple[float, Kind, str]]:
        """For each column, the most it explains, by which kind of evidence, and the date it is compared with.

        If tied, missing values come first, and date comparisons last.
        """
        out: dict[str, tuple[float, Kind, str]] = {}
        for column, view in self.views.items():
            ways: list[tuple[float, float, Kind, str]] = [(0.0, self._by_groups(view.value), "value", "")]
            if view.missing is not None:
                ways.append((0.02, self._by_groups(view.missing), "missing", ""))
            ways += [(-0.02, self._by_groups(groups), "date", other) for other, groups in view.later.items()]
            _, explained, kind, other = max(ways, key=lambda way: way[0] + way[1])
            out[column] = explained, kind, other
        return out

    def single(self, column: str) -> float:
        """Return how much one column explains."""
        return self._singles[column][0]

    def kind(self, column: str) -> Kind:
        """Return the kind of evidence by which a column explains most."""
        return self._singles[column][1]

    def later_than(self, column: str) -> str:
        """Return the date that a date is compared with, if that explains most; otherwise empty."""
        return self._singles[column][2]

    def best_pair(self, left: Sequence[str]) -> tuple[float, tuple[str, str]]:
        """Return the most that two columns explain together, and which they are."""
        some = sorted(left, key=self.single, reverse=True)[:MAX_PAIRED]
        pairs = list(combinations(some, 2))
        explained = [
            self._by_groups(self.views[a].value * (int(self.views[b].value.max()) + 1) + self.views[b].value)
            for a, b in pairs
        ]
        best = int(np.argmax(explained))
        if explained[best] < CLOSER_LOOK:
            return explained[best], pairs[best]
        order = np.argsort(explained)[::-1][:CLOSELY_CHECKED]  # forests, sums and differences see finer than groups
        finer = [max(explained[k], self._by_forest(pairs[k]), self._by_sums(*pairs[k])) for k in order.tolist()]
        return max(finer), pairs[int(order[int(np.argmax(finer))])]

    def _by_sums(self, first: str, second: str) -> float:
        """Return how much the sum or difference of two numeric columns explains."""
        at, groups = (self.columns[first], self.columns[second]), (self.views[first].value, self.views[second].value)
        if any(int(values.max()) < MIN_VALUES for values in groups):
            return -1.0
        a, b = self.X[:, at[0][0]], self.X[:, at[1][0]]
        nothing = np.zeros(a.size, dtype=bool)
        return max(self._by_groups(_bin(values, nothing, 2 * int(groups[0].max() + 1))) for values in (a + b, a - b))

    def model(self, columns: Sequence[str]) -> float:
        """Return how much a model of these columns explains: a forest, or a single column if that explains more."""
        if not columns:
            return 0.0
        return max(0.0, self._by_forest(columns), *(self.single(column) for column in columns))

    def _by_forest(self, columns: Sequence[str]) -> float:
        from observal.learners.tree_learners import grow_forest

        X = _as_ranks(self.X[:, [k for column in columns for k in self.columns[column]]])
        n_classes, chances = self.shares.size, np.empty((self.codes.size, self.shares.size))
        folds = random_folds(self.codes, FOLDS, np.random.default_rng(0))
        for fold in range(FOLDS):
            train, test = folds != fold, folds == fold
            trees = grow_forest(X[train], self.codes[train], self.weights[train], n_classes, fold)
            chances[test] = trees(X[test])
        own = chances[np.arange(self.codes.size), self.codes]
        return self._explained((FOREST_ROWS * own + self.shares[self.codes]) / (FOREST_ROWS + 1.0))


def _as_ranks(X: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return features as ranks: trees split them like the values, and no rank is too large."""
    out = np.empty(X.shape, dtype=np.float32)
    for k in range(X.shape[1]):
        out[:, k] = np.unique(X[:, k], return_inverse=True)[1]
    return out


def _view(X: Floats, columns: dict[str, list[int]], column: str, date_columns: Sequence[str], n_bins: int) -> _View:
    values = [X[:, k] for k in columns[column]]
    is_category = len(values) > 1 and all(bool(np.isin(part, (0.0, 1.0)).all()) for part in values)
    if is_category:
        groups = np.unique(np.stack(values), axis=1, return_inverse=True)[1].ravel()
        return _View(groups, _missing_groups(values), {})
    is_missing = _missing(values)
    others = [other for other in date_columns if other != column] if column in date_columns else []
    later = _later(X, columns, column, others, n_bins)
    return _View(_bin(values[0], is_missing, n_bins), _missing_groups(values), later)


def _missing(values: Sequence[Floats]) -> Bools:
    """Return where a column is missing: if it has several features, the last one marks that."""
    return values[-1] == 1.0 if len(values) > 1 else np.zeros(values[0].size, dtype=bool)


def _missing_groups(values: Sequence[Floats]) -> Ints | None:
    is_missing = _missing(values)
    return is_missing.astype(np.int64) if 0 < np.count_nonzero(is_missing) < is_missing.size else None


def _bin(values: Floats, is_missing: Bools, n_bins: int) -> Ints:
    """Return groups of about equal size by value, one per value if there are few, and one for missing values."""
    known = values[~is_missing]
    distinct = np.unique(known)
    edges = distinct[1:]
    if distinct.size > n_bins:
        edges = np.unique(np.quantile(known, np.linspace(0.0, 1.0, n_bins + 1)[1:-1]))
    groups = np.searchsorted(edges, values, side="right")
    groups[is_missing] = groups.max(initial=0) + 1
    return np.asarray(groups)


def _later(
    X: Floats, columns: dict[str, list[int]], column: str, others: Sequence[str], n_bins: int
) -> dict[str, Ints]:
    """Return groups by how much later a date is than each other date that is earlier on average and mostly known."""
    own, out = [X[:, k] for k in columns[column]], dict[str, Ints]()
    for other in others:
        values = [X[:, k] for k in columns[other]]
        is_missing = _missing(own) | _missing(values)
        by = own[0] - values[0]
        if np.mean(_missing(values)) <= MOSTLY_KNOWN and not is_missing.all() and float(by[~is_missing].mean()) > 0.0:
            # Earlier, same day and later are separate groups.
            groups = _bin(by, is_missing, n_bins) * 3 + np.sign(by).astype(np.int64) + 1
            out[other] = np.unique(groups, return_inverse=True)[1].ravel()
    return out


# -- names ---------------------------------------------------------------------------------------------------------

_GENERIC = re.compile(
    "an?|and|at|by|class|code|column|date|day|final|flag|for|has|id|in|is|key|label|name|new|no|nr|num|number|of|old|on|or|outcome|result|"
    "status|target|the|time|to|type|value|was|were|with|x|y|yes"
)
_ENDINGS = ("ments", "ment", "ness", "ings", "ing", "ers", "er", "ed", "es", "ly", "s", "d", "e", "y")
_MIN_STEM = 3


def resembles(column: str, label: str) -> bool:
    """Return whether a column is named like the label: all distinctive words of one occur in the other.

    Endings are ignored. Words such as id, date, type, name and value are not distinctive.

    Examples
    --------
    >>> [resembles(name, "late") for name in ("is_late", "lateDate", "days late", "latitude", "due_date")]
    [True, True, True, False, False]
    >>> resembles("payment_method", "late_payment"), resembles("loan_id", "defaulted"), resembles("default flag", "defaulted")
    (False, False, True)
    """
    ours, theirs = _stems(column), _stems(label)
    return bool(ours) and bool(theirs) and (ours <= theirs or theirs <= ours)


_FOLLOW_UP = re.compile(
    r"follow[\W_]*up|^fu[\W_]*(time|days|months|years)|surviv\w*[\W_]*(time|days|months|years)|time[\W_]*to[\W_]|days[\W_]*to[\W_]|censor"
)


def ends_follow_up(column: str) -> bool:
    """Return whether a column is named like the end of follow-up, which comes early for those with the outcome.

    Examples
    --------
    >>> [ends_follow_up(name) for name in ("futime", "Follow-up (days)", "time_to_event", "survival time", "age", "time", "fuel")]
    [True, True, True, True, False, False, False]
    """
    return _FOLLOW_UP.search(column.lower()) is not None


def _stems(name: str) -> frozenset[str]:
    spaced = re.sub(r"(?<=[a-zäöüß])(?=[A-ZÄÖÜ])", " ", name)
    words = [word for word in re.split(r"[\W\d_]+", spaced.lower()) if word and not _GENERIC.fullmatch(word)]
    return frozenset(_stem(word) for word in words)


def _stem(word: str) -> str:
    ending = next((e for e in _ENDINGS if word.endswith(e) and len(word) - len(e) >= _MIN_STEM), "")
    return word.removesuffix(ending)
