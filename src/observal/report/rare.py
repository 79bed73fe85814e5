"""What a model with an objective flags, finds and misses, in counts of rows: for the report and for `observal status`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from observal.intervals.flagging import CURVE_SHARES, FLAGGED, recall_key
from observal.problem.interval import Interval
from observal.problem.objectives import BALANCED, TARGETS, measure_of
from observal.problem.words import count, number, percent
from observal.report.verdict import Classes, Intervals, is_known, is_partly_measured, unmeasured_words

PREVALENCE, RECALL, PRECISION = "prevalence", *TARGETS


def counts_sentence(intervals: Intervals, classes: Classes, n_rows: int) -> str:
    """Return what the model flags, finds and misses of all rows; empty without an objective.

    Examples
    --------
    >>> known = {FLAGGED: Interval(0.2, 0.19, 0.21, 0.95, "cells"), RECALL: Interval(0.8, 0.71, 0.88, 0.95, "cells")}
    >>> counts_sentence(known | {PREVALENCE: Interval(0.026, 0.02, 0.03, 0.95, "cells")}, ["no", "yes"], 12_000)
    "Of 12,000 rows the model flags 2,400 (2,280 to 2,520); about 250 of about 310 'yes' are among them (recall 71% to 88%), about 60 are missed."
    """
    flagged, recall, prevalence = (intervals.get(name) for name in (FLAGGED, RECALL, PREVALENCE))
    if flagged is None or recall is None or prevalence is None:
        return ""
    rows, low, high = flagged_rows(flagged, n_rows)
    flags = f"Of {count(n_rows, 'row')} the model flags {rows:,} ({low:,} to {high:,})"
    error = intervals.get("error")
    if error is not None and is_partly_measured(error):
        return (
            f"{flags}; how many {classes[-1]!r} are among them is known only for the {percent(1.0 - error.unknown)} of rows "
            f"that can be judged; {unmeasured_words(error)}."
        )
    if not (is_known(recall) and is_known(prevalence)):
        return f"{flags}; how many {classes[-1]!r} are among them is not known, because too few were seen."
    total, found = (_rough(share * n_rows) for share in (prevalence.estimate, prevalence.estimate * recall.estimate))
    return (
        f"{flags}; about {found:,} of about {total:,} {classes[-1]!r} are among them "
        f"(recall {percent(recall.low)} to {percent(recall.high)}), about {total - found:,} are missed."
    )


def flagged_rows(flagged: Interval, n_rows: int) -> tuple[int, int, int]:
    """Return how many of so many rows are flagged: the estimate and both ends."""
    rows, low, high = (round(share * n_rows) for share in (flagged.estimate, flagged.low, flagged.high))
    return rows, low, high


def _rough(n: float) -> int:
    """Return a count with two digits, because it is an estimate."""
    return round(float(f"{n:.2g}"))


class OtherThreshold(NamedTuple):
    """What flagging a share of all rows would find: the share, the rows flagged, recall, rows found and rows missed."""

    share: float
    flagged: int
    recall: Interval
    found: int
    missed: int


def other_thresholds(intervals: Intervals, n_rows: int) -> list[OtherThreshold]:
    """Return what other thresholds would find, by the share of rows that they flag; nothing without an objective.

    Examples
    --------
    >>> known = {recall_key(0.05): Interval(0.5, 0.4, 0.6, 0.95, "cells"), PREVALENCE: Interval(0.02, 0.01, 0.03, 0.95, "cells")}
    >>> [(one.flagged, one.found, one.missed) for one in other_thresholds(known, 1000)]
    [(50, 10, 10)]
    """
    prevalence, out = intervals.get(PREVALENCE), []
    for share in CURVE_SHARES:
        recall = intervals.get(recall_key(share))
        if recall is None or prevalence is None or not (is_known(recall) and is_known(prevalence)):
            continue
        total = round(prevalence.estimate * n_rows)
        found = round(recall.estimate * total)
        out.append(OtherThreshold(share, round(share * n_rows), recall, found, total - found))
    return out


def threshold_rows(intervals: Intervals, n_rows: int) -> list[list[str | tuple[str, str]]]:
    """Return a table's rows: rows flagged with their share, recall with its interval, found, missed, and rows flagged for each one found."""
    rows: list[list[str | tuple[str, str]]] = []
    for one in other_thresholds(intervals, n_rows):
        flagged = (f"{one.flagged:,}", percent(one.share))
        recall = (percent(one.recall.estimate), f"{percent(one.recall.low)} to {percent(one.recall.high)}")
        each = number(float(f"{one.flagged / one.found:.2g}")) if one.found else "–"
        rows.append([flagged, recall, f"{one.found:,}", f"{one.missed:,}", each])
    return rows


THRESHOLD_TITLES = ("rows flagged", "recall", "found", "missed", "flagged for each found")


def objective_names(objective: str) -> Sequence[str]:
    """Return the measures that tiles are about, by the objective.

    Examples
    --------
    >>> objective_names("precision=0.5")
    ('precision', 'recall', 'flagged')
    """
    name = measure_of(objective)
    if name == PRECISION:
        return (PRECISION, RECALL, FLAGGED)
    if name == BALANCED:
        return (BALANCED, RECALL, PRECISION)
    return (RECALL, FLAGGED, PRECISION)


def next_step(objective: str, intervals: Intervals, classes: Classes) -> str:
    """Return what would make a model with an objective better; empty without one."""
    if objective == "error":
        return ""
    recall = intervals.get(RECALL)
    if recall is not None and is_known(recall) and recall.high - recall.low <= 0.3:
        return f"If it flags too many rows or misses too many {classes[-1]!r}, raise the budget with observal extend."
    return (
        f"What is known about {classes[-1]!r} is still uncertain; to learn more, raise the budget with observal extend."
    )
