"""The decision that a report opens with: use the model, buy more labels, or stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from observal.intervals.contradiction import contradiction
from observal.intervals.measures import BASELINE, judged_by
from observal.problem.interval import Interval
from observal.problem.objectives import COST, TARGETS, TOLERANCE, is_cautious, measure_of, target_of
from observal.problem.words import percent, points
from observal.report.verdict import MORE_LABELS, by_bought_sentence, error_words, is_known, width_after

MOST_UNKNOWN = 0.1  # share of rows that labels say nothing about, above which a model is not ready to be used
WIDE = 0.1  # an interval wider than this leaves the decision open
LITTLE = 5 * TOLERANCE  # that many more labels may gain: hardly worth buying them
ON_AVERAGE = 0.3  # so wide may the interval be around a target that is to be reached on average
MOST_LABELS = 500  # beyond so many more labels, a forecast of the interval's width is worthless

Kind = Literal["use", "buy", "stop", "wait"]


class Decision(NamedTuple):
    """What to do, in a few words, and why, in sentences."""

    kind: Kind
    title: str
    why: list[str]


def decide(
    intervals: Mapping[str, Interval],
    level: Literal["good", "care", "buy"],
    objective: str = "error",
    to_gain: float | None = None,
    to_buy: int | None = None,
) -> Decision:
    """Return whether to use a model, to buy more labels, or to stop.

    `level` says whether the model is shown to beat guessing, not shown to, or shown not to. `to_gain` is by how much 50 more labels may
    lower the error; `to_buy` counts rows of the pool without a label, None if there is no end.

    Examples
    --------
    >>> error = Interval(0.05, 0.03, 0.08, 0.95, "cells")
    >>> decide({"error": error}, "good").title
    'Use it.'
    >>> wide = Interval(0.1, 0.02, 0.22, 0.95, "cells")
    >>> decide({"error": wide}, "good").title
    'Buy about 150 more labels.'
    """
    error, name = intervals["error"], judged_by(objective)[0]
    measure = intervals.get(name, error)
    if contradiction(intervals) is not None:
        contradicted = "Rows picked at random contradict the log: find out why before you trust any number here."
        why = [contradicted, by_bought_sentence(intervals)]
        return Decision("stop", "Stop, and check the log.", [sentence for sentence in why if sentence])
    if not is_known(error) or error.unknown > MOST_UNKNOWN:
        missing = f"{percent(error.unknown)} of the rows are not measured."
        said = error_words(error)
        return _buy(MORE_LABELS, to_buy, [f"The error is {said}.", *([] if "not" in said else [missing])])
    if level != "good":
        return _decide_about_guessing(intervals, level, objective, to_gain, to_buy)
    if measure_of(objective) in TARGETS and is_known(measure) and not _is_reached(measure, objective):
        target = target_of(objective)
        missed = f"A {name} of {percent(target)} is not certain: it is between {percent(measure.low)} and {percent(measure.high)}."
        narrow = 2.0 * max(0.02, measure.estimate - target) if is_cautious(objective) else ON_AVERAGE
        return _buy(_labels_for(measure, narrow), to_buy, [missed])
    if measure.high - measure.low > WIDE * measure.most and name not in TARGETS:
        wide = "It beats guessing, but its error is still too uncertain to decide."
        return _buy(_labels_for(measure, WIDE * measure.most), to_buy, [wide])
    why = ["It beats guessing."]
    if measure_of(objective) in TARGETS:
        why = [f"A {name} of {percent(target_of(objective))} was the target, and its interval includes that."]
    elif name == COST:
        why = ["It costs less than always predicting one class."]
    elif name != "error":
        why = ["It tells the classes apart."]
    if to_gain is not None and name == "error":
        little = to_gain < LITTLE
        more = f"{MORE_LABELS} more labels may lower the error by at most about {points(to_gain)}"
        why.append(
            f"{more}, so buying more is hardly worth it." if little else f"{more}; buy them if that matters to you."
        )
    return Decision("use", "Use it.", why)


def _is_reached(measure: Interval, objective: str) -> bool:
    """Return whether a target is reached: surely if it is a cautious one, else on average, which many intervals around it allow."""
    target = target_of(objective)
    if is_cautious(objective):
        return measure.low >= target
    return measure.high >= target and (measure.low >= target or measure.high - measure.low <= ON_AVERAGE)


def _decide_about_guessing(
    intervals: Mapping[str, Interval],
    level: Literal["care", "buy"],
    objective: str,
    to_gain: float | None,
    to_buy: int | None,
) -> Decision:
    """Decide about a model that is not shown to be better than guessing."""
    guess = "always predicting the commonest class" if objective == "error" else "flagging as many rows at random"
    error, base = intervals["error"], intervals.get(BASELINE)
    if level == "buy" and to_gain is not None and to_gain < TOLERANCE:
        why = f"The model is no better than {guess}, and more labels are unlikely to change that."
        return Decision("stop", "Stop: this model is of no use.", [why])
    lead = None if base is None or not is_known(base) else base.estimate - error.estimate
    shown = f"The labels do not show that the model is better than {guess}."
    if objective != "error" or lead is None or lead <= 0.0:
        return _buy(2 * MORE_LABELS, to_buy, [shown])
    n_labels = _labels_for(error, 2.0 * lead)
    if n_labels > MOST_LABELS:
        why = f"If the model is better than {guess} at all, the difference is so small that even {MOST_LABELS} more labels would not show it."
        return Decision("stop", "Stop: there is little to gain.", [why])
    return _buy(n_labels, to_buy, [shown])


def _labels_for(interval: Interval, width: float) -> int:
    """Return about how many more labels make an interval as narrow as that, in steps of 50; more than the most if none of them do."""
    steps = range(MORE_LABELS, MOST_LABELS + 1, MORE_LABELS)
    return next((n for n in steps if width_after(interval, n) <= width), MOST_LABELS + MORE_LABELS)


def _buy(n_labels: int, to_buy: int | None, why: list[str]) -> Decision:
    if to_buy == 0:
        return Decision("stop", "Stop: no row is left to ask about.", why)
    n_labels = min(n_labels, MOST_LABELS, n_labels if to_buy is None else to_buy)
    return Decision("buy", f"Buy about {n_labels} more labels.", [*why, "How many is a rough guess."])
