"""The main results of a report, in a few sentences."""

from __future__ import annotations

from observal.intervals.cells import HIDDEN
from observal.intervals.contradiction import COMPARED, contradiction
from observal.intervals.error import CONFOUNDED
from observal.problem.goals import POPULATIONS
from observal.problem.interval import Interval
from observal.problem.words import count, percent
from observal.report.content import ReportContent
from observal.report.measures import is_known, returned_sentence


def headline(content: ReportContent) -> list[str]:
    """Return the main results in a few sentences."""
    bought, shown = len(content.result.queries), int(content.logged.revealed.sum())
    error, skipped = content.error, sum(r.skipped for r in content.result.rounds)
    known = is_known(error)
    found = [
        f"The log has {count(len(content.logged), 'row')}, {shown:,} of them with a label. From a pool of "
        f"{count(len(content.pool), 'row')}, {count(bought, 'more label was', 'more labels were')} bought"
        + (f"; {count(skipped, 'row was', 'rows were')} skipped." if skipped else "."),
        f"The classifier's error on {POPULATIONS[content.goals.population]} is {interval_words(error)}"
        + (f"; the estimate is {percent(error.estimate)}." if known else "."),
        *filter(None, [returned_sentence(content.result.returned_round)]),
        *_confounded_sentence(content),
        *_contradiction_sentence(content),
        _stop_sentence(content.result.stopped),
    ]
    return found


def interval_words(interval: Interval) -> str:
    """Return an interval in words.

    Examples
    --------
    >>> interval_words(Interval(0.031, 0.012, 0.06, 0.95, "cross-fitted"))
    'between 1.2% and 6% (95% confidence)'
    >>> interval_words(Interval(0.5, 0.0, 1.0, 0.95, "too few labels"))
    'not known, because there are too few labels'
    """
    if not is_known(interval):
        return "not known, because there are too few labels"
    return f"between {percent(interval.low)} and {percent(interval.high)} ({100 * interval.confidence:g}% confidence)"


def _confounded_sentence(content: ReportContent) -> list[str]:
    """Return how far hidden confounding may move the error, where that is known."""
    hidden = content.all_intervals.get(CONFOUNDED)
    if hidden is None or not is_known(content.error):
        return []
    return [
        "If the old policy also looked at something that is not on record and its odds of revealing a label are off by a "
        f"factor of up to {HIDDEN:g}, the error is between {percent(hidden.low)} and {percent(hidden.high)}."
    ]


def _contradiction_sentence(content: ReportContent) -> list[str]:
    """Return whether rows picked at random contradict the log, where enough were picked."""
    known = {name: found for name, found in content.all_intervals.items() if found is not None}
    if not known.keys() & set(COMPARED.values()):
        return []
    found = contradiction(known)
    if found is None:
        return ["Rows that were picked at random agree with rows of the log like them."]
    key, difference = found
    points, way = f"{abs(100 * difference.estimate):.0f} points", "more" if difference.estimate > 0 else "less"
    if key == COMPARED["error"]:
        what = f"the classifier is wrong on them {points} {way} often than on rows of the log like them"
    else:
        what = f"class {content.logged.classes[-1]} is {points} {way} frequent among them than among rows of the log like them"
    return [
        f"Rows that were picked at random contradict the log: {what}. A hidden cause, labels that have changed or wrong "
        "propensities may be the reason. Do not trust the interval."
    ]


def _stop_sentence(stopped: str) -> str:
    """Return a sentence that says why the run ended, or that it is not finished."""
    return f"It is {stopped}." if stopped.startswith("not finished") else f"Why it stopped: {stopped}."
