"""A classifier's measures and what they mean, in words: for the report and for `observal status`. Classes are always named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from shlex import quote
from typing import NamedTuple

import numpy as np

from observal.intervals.contradiction import COMPARED, contradiction
from observal.intervals.error import BY_BOUGHT
from observal.intervals.flagging import FLAGGED
from observal.intervals.measures import (
    AUC,
    BASELINE,
    BASELINE_COST,
    COST_WINS,
    beats_baseline,
    confusion_key,
    judged_by,
)
from observal.intervals.state import BLIND_LABELS
from observal.problem.interval import Interval
from observal.problem.method import threshold_of
from observal.problem.objectives import BALANCED, COST, TARGETS, costs_of, measure_of, target_of
from observal.problem.words import count, number, percent, points

MORE_LABELS = 50  # labels that the outlook is about
LEAST_EXCLUDED = 0.1  # of all possible values; an interval that rules out less says nothing
MOST_UNMEASURED = 0.25  # share of rows without a label like them, up to which one interval speaks of all rows
LEAST_MEASURED = 0.5  # share of rows below which nothing but the error of the others is worth saying
MOST_FOR_ESTIMATE = 0.25  # of all possible values; inside a wider interval an estimate would only mislead
Intervals = Mapping[str, Interval]
Classes = Sequence[object]
"""The label values, the positive one last."""


class Measure(NamedTuple):
    """A measure: its name, what it is about, and its interval."""

    name: str
    about: str
    interval: Interval

    def value(self, x: float) -> str:
        """Return a value as people write it: a share in percent, AUC and costs as numbers."""
        return f"{x:.2f}" if self.name == AUC else number(x) if self.name in (COST, BASELINE_COST) else percent(x)

    def estimate(self) -> str:
        """Return the estimate; a dash if the interval says nothing, or if the estimate is about some rows only."""
        return "–" if self._unknown or is_partly_measured(self.interval) else self.value(self.interval.estimate)

    def ends(self) -> str:
        """Return both ends of the interval for a table."""
        return self._unknown or f"{self.value(self.interval.low)} to {self.value(self.interval.high)}"

    def between(self) -> str:
        """Return both ends of the interval for a sentence."""
        return self._unknown or f"between {self.value(self.interval.low)} and {self.value(self.interval.high)}"

    def words(self) -> str:
        """Return the interval and the estimate for a sentence."""
        if not is_known(self.interval):
            return "not known yet (too few labels)"
        return self.between() if self.estimate() == "–" else f"{self.between()}, estimate {self.estimate()}"

    @property
    def _unknown(self) -> str:
        """Why there is no interval to show, in two words; empty if there is one."""
        return "not measured" if is_unmeasured(self.interval) else "" if is_known(self.interval) else "not known"


def is_known(interval: Interval) -> bool:
    """Return whether an interval rules enough out to be shown at all.

    Examples
    --------
    >>> is_known(Interval(0.2, 0.0, 0.79, 0.95, "cells")), is_known(Interval(0.002, 0.0, 1.0, 0.95, "cells"))
    (True, False)
    """
    part = interval.judged if is_partly_measured(interval) else interval
    return part.high - part.low <= (1.0 - LEAST_EXCLUDED) * interval.most


def is_partly_measured(interval: Interval) -> bool:
    """Return whether labels say nothing about so many rows that those that can be judged are better spoken of alone."""
    return MOST_UNMEASURED < interval.unknown < 1.0


def is_unmeasured(interval: Interval) -> bool:
    """Return whether labels say nothing about more than half of what an interval is about."""
    return interval.unknown > LEAST_MEASURED


def labels_to_measure(interval: Interval) -> int:
    """Return how many labels of random rows would measure the rows that labels say nothing about; 0 if these are few.

    Examples
    --------
    >>> labels_to_measure(Interval(0.05, 0.0183, 0.4388, 0.95, "cells", unknown=0.39))
    12
    """
    return ceil(BLIND_LABELS * interval.unknown) if is_partly_measured(interval) else 0


def shows_estimate(interval: Interval) -> bool:
    """Return whether the error's interval is narrow enough for its estimate to be shown beside it, often in larger type."""
    return not is_partly_measured(interval) and interval.high - interval.low <= MOST_FOR_ESTIMATE * interval.most


def error_words(error: Interval) -> str:
    """Return what is known of the error, in words. Status, page and report all say it with these words.

    Examples
    --------
    >>> error_words(Interval(0.031, 0.012, 0.06, 0.95, "cells"))
    'between 1.2% and 6% (95% confidence), estimate 3.1%'
    >>> error_words(Interval(0.009, 0.0, 0.28, 0.95, "cells"))
    'between 0% and 28% (95% confidence)'
    >>> error_words(Interval(0.05, 0.0183, 0.4388, 0.95, "cells", unknown=0.39))
    'between 3% and 8% (95% confidence) on the 61% of rows that can be judged; 39% are not measured: 12 labels of rows picked at random there would be enough, and the next rounds pick them first'
    >>> error_words(Interval(0.5, 0.0, 1.0, 0.95, "too few labels"))
    'not known yet (too few labels)'
    """
    if not is_known(error):
        return "not known yet (too few labels)"
    if is_partly_measured(error):
        judged = error.judged
        return (
            f"between {percent(judged.low)} and {percent(judged.high)} ({100 * error.confidence:g}% confidence) on the "
            f"{percent(1.0 - error.unknown)} of rows that can be judged; {unmeasured_words(error)}"
        )
    ends = f"between {percent(error.low)} and {percent(error.high)} ({100 * error.confidence:g}% confidence)"
    return f"{ends}, estimate {percent(error.estimate)}" if shows_estimate(error) else ends


def unmeasured_words(error: Interval) -> str:
    """Return how many rows labels say nothing about, and what would change that, in words."""
    return (
        f"{percent(error.unknown)} are not measured: {count(labels_to_measure(error), 'label')} of rows picked at random "
        "there would be enough, and the next rounds pick them first"
    )


def contradiction_sentence(intervals: Intervals, classes: Classes) -> str:
    """Return that rows picked at random contradict the log, and the error that needs no propensities; empty if they do not.

    Status, page and report say it first.
    """
    strongest = contradiction(intervals)
    if strongest is None:
        return ""
    key, difference = strongest
    size, way = f"{abs(100 * difference.estimate):.0f} points", "more" if difference.estimate > 0 else "less"
    if key == COMPARED["error"]:
        what = f"the classifier is wrong on them {size} {way} often than on similar rows of the log"
    else:
        what = f"class {classes[-1]} is {size} {way} frequent among them than among similar rows of the log"
    return (
        f"Rows picked at random contradict the log: {what}. A hidden cause, labels that have changed or wrong "
        f"propensities may be the reason. Do not trust the interval. {by_bought_sentence(intervals)}".strip()
    )


def by_bought_sentence(intervals: Intervals) -> str:
    """Return the error by the rule that needs no propensities; empty unless the log is contradicted."""
    own = intervals.get(BY_BOUGHT)
    return "" if own is None else f"By the bought labels alone, the error on the pool is {error_words(own)}."


def measures_of(intervals: Intervals, classes: Classes, objective: str = "error") -> list[Measure]:
    """Return the measures that a classifier has, what the objective is about first.

    The positive class is the last of `classes`.

    Examples
    --------
    >>> known = Interval(0.5, 0.4, 0.6, 0.95, "cells")
    >>> [f"{m.name} {m.about}" for m in measures_of({"error": known, "recall": known}, ["paid", "default"])]
    ['error share of rows that are wrong', "recall share of the 'default' rows that are found"]
    """
    positive = repr(classes[-1])
    costs = costs_of(objective)
    about = {
        "error": "share of rows that are wrong",
        BASELINE: f"error of always predicting {commonest(intervals, classes)}",
        "precision": f"share of the rows predicted to be {positive} that are",
        "recall": f"share of the {positive} rows that are found",
        "prevalence": f"share of {positive} among all rows",
        FLAGGED: f"share of rows that are predicted to be {positive}",
        AUC: f"chance that a row of {positive} scores higher than one of {'the other' if len(classes) == 2 else 'another'} class",
        BALANCED: "mean over classes of the share that is wrong",
        COST: "mean cost of a row, if missing "
        + " and ".join(f"{value!r} costs {cost:g}" for value, cost in zip(classes, costs, strict=False)),
        BASELINE_COST: f"mean cost of a row if {commonest(intervals, classes, costs)} is always predicted",
    }
    first = [*judged_by(objective), *([BASELINE_COST] if measure_of(objective) == COST else []), "error", BASELINE]
    order = sorted(about, key=lambda name: first.index(name) if name in first else len(first))
    return [Measure(name, about[name], intervals[name]) for name in order if name in intervals]


def confusion(intervals: Intervals, classes: Classes) -> list[list[Interval]] | None:
    """Return the confusion matrix, a row for each actual class and a column for each predicted one; None if it is not known."""
    names = [[confusion_key(actual, predicted) for predicted in classes] for actual in classes]
    if not all(name in intervals for row in names for name in row):
        return None
    return [[intervals[name] for name in row] for row in names]


def confusion_lines(intervals: Intervals, classes: Classes) -> list[str]:
    r"""Return the confusion matrix as lines of text in columns; none if it is not known.

    Examples
    --------
    >>> cell = Interval(0.25, 0.2, 0.3, 0.95, "cells")
    >>> known = {confusion_key(a, b): cell for a in ("paid", "default") for b in ("paid", "default")}
    >>> print("\n".join(confusion_lines(known | {"error": cell}, ["paid", "default"])))
    shares of all rows  predicted 'paid'  predicted 'default'
    'paid'              25% (20% to 30%)  25% (20% to 30%)
    'default'           25% (20% to 30%)  25% (20% to 30%)
    """
    matrix, error = confusion(intervals, classes), intervals.get("error")
    if matrix is None or error is None or not is_known(error):
        return []
    if is_unmeasured(error):
        return ["not measured"]
    table = [["shares of all rows", *(f"predicted {value!r}" for value in classes)]]
    for value, row in zip(classes, matrix, strict=True):
        measures = (Measure("share", "", cell) for cell in row)
        cells = (f"{measure.estimate()} ({measure.ends()})" for measure in measures)
        table.append([repr(value), *cells])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in table]


def commonest(intervals: Intervals, classes: Classes, costs: Sequence[float] = ()) -> str:
    """Return the commonest class, by the confusion matrix; with costs, the one that costs most if it is always missed."""
    matrix = confusion(intervals, classes)
    if matrix is None:
        return "the commonest class"
    shares = [sum(cell.estimate for cell in row) for row in matrix]
    if len(costs) == len(shares):
        shares = [share * cost for share, cost in zip(shares, costs, strict=True)]
    return repr(classes[shares.index(max(shares))])


def predicts_one_class(intervals: Intervals, classes: Classes) -> bool:
    """Return whether the classifier predicts the same class for every labelled row."""
    matrix = confusion(intervals, classes)
    if matrix is None:
        return False
    return sum(any(cell.estimate > 0.0 for cell in column) for column in zip(*matrix, strict=True)) == 1


# -- sentences -------------------------------------------------------------------------------------------------------


def title_of(level: str, objective: str) -> str:
    """Return the verdict on the model in a few words: against the baseline, or with an objective of its own by the AUC.

    Examples
    --------
    >>> title_of("good", "error"), title_of("good", "recall=0.8")
    ('The model beats guessing.', 'The model tells the classes apart.')
    """
    if objective != "error":  # finding rare rows costs mistakes, so such a model need not make fewer than the baseline
        return f"The model {'tells' if level == 'good' else 'is not shown to tell'} the classes apart."
    verb = {"good": "beats", "care": "is not shown to beat", "buy": "does not beat"}[level]
    return f"The model {verb} guessing."


def baseline_sentence(intervals: Intervals, classes: Classes, objective: str = "error") -> str:
    """Return how the classifier compares with always predicting one class, in cost if that is its objective; empty if unknown.

    Examples
    --------
    >>> from observal.intervals.measures import WINS
    >>> base, wins = Interval(0.03, 0.02, 0.04, 0.95, "cells"), Interval(0.5, 0.0, 1.0, 0.95, "cells")
    >>> baseline_sentence({BASELINE: base, WINS: wins}, ["paid", "default"])
    'Always predicting the commonest class would be wrong on 3% of the rows; the labels do not show that the model makes fewer mistakes.'
    """
    base, cost = intervals.get(BASELINE), intervals.get(BASELINE_COST)
    if base is not None and is_unmeasured(base):
        return f"{percent(base.unknown)} of the rows are not measured, so it is not known whether the model beats guessing."
    if cost is not None and is_known(cost):
        comparison = {
            True: "the model costs less",
            False: "the model does not cost less",
            None: "the labels do not show that the model costs less",
        }[beats_baseline(intervals, COST_WINS)]
        always = commonest(intervals, classes, costs_of(objective))
        return f"Always predicting {always} would cost {_stated(Measure(COST, '', cost))} for each row; {comparison}."
    if base is None or not is_known(base):
        return ""
    always = f"Always predicting {commonest(intervals, classes)} would be wrong on {_stated(Measure(BASELINE, '', base))} of the rows"
    better, one_class = beats_baseline(intervals), predicts_one_class(intervals, classes)
    if better:
        return f"{always}; the model makes fewer mistakes."
    if better is None and not one_class:
        return f"{always}; the labels do not show that the model makes fewer mistakes."
    same = ": it predicts the same class for every labelled row" if one_class else ""
    return f"{always}; the model does not make fewer mistakes than that{same}."


def _stated(measure: Measure) -> str:
    """Return a measure's estimate where its interval is narrow enough for one, else the interval."""
    return measure.estimate() if shows_estimate(measure.interval) else measure.between()


def threshold_sentence(estimator: object, classes: Classes) -> str:
    """Return the smallest chance at which the positive class is predicted; empty if that is one half or unknown.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> threshold_sentence(SimpleNamespace(threshold=0.0346), ["paid", "default"])
    "The model predicts 'default' where its chance is at least 3.5%."
    """
    threshold = threshold_of(estimator)
    if threshold is None:
        return ""
    return f"The model predicts {classes[-1]!r} where its chance is at least {100 * threshold:.2g}%."


def returned_sentence(returned: int | None) -> str:
    """Return which earlier round a classifier is from; empty if it is from the last one.

    Examples
    --------
    >>> returned_sentence(0)
    'The classifier is that of round 0: with 97.5% confidence it makes fewer mistakes than the last one.'
    """
    if returned is None:
        return ""
    return (
        f"The classifier is that of round {returned}: with 97.5% confidence it makes fewer mistakes than the last one."
    )


def advice(intervals: Intervals, classes: Classes, objective: str) -> str:
    """Return what to do if the fewest mistakes is the wrong objective, or whether a target is reached; otherwise nothing."""
    name, recall = measure_of(objective), intervals.get("recall")
    if (
        name == "error"
        and recall is not None
        and BASELINE in intervals
        and not beats_baseline(intervals)
        and not is_partly_measured(recall)
        and recall.estimate < 0.5
    ):
        return (
            f"It finds {percent(recall.estimate)} of {classes[-1]!r}. If they matter more than other rows, make the campaign with "
            f"--target recall=0.8, --target balanced or --cost-of-missing {quote(f'{classes[-1]}=10')}."
        )
    interval = intervals.get(name)
    if name not in TARGETS or interval is None or not is_known(interval):
        return ""
    target, measure = target_of(objective), Measure(name, "", interval)
    if interval.low >= target:
        reached = "is reached"
    else:
        reached = "is not reached" if interval.high < target else "may be reached"
    return f"The target of {percent(target)} {name} of {classes[-1]!r} {reached}: {name} is {measure.between()}."


def worth(before: Sequence[Measure], now: Sequence[Measure], bought: int, classes: Classes) -> str:
    """Return whether the labels were worth it, in words.

    `before` and `now` are what the model is judged by, with the log alone and now. The positive class is the last of `classes`.

    Examples
    --------
    >>> ends = Interval(0.2, 0.1, 0.4, 0.95, "cells"), Interval(0.05, 0.03, 0.08, 0.95, "cells")
    >>> worth(*([Measure("error", "", interval)] for interval in ends), 120, ["paid", "default"])
    'With the log alone the error was between 10% and 40%; with 120 more labels it is between 3% and 8%.'
    """
    names = {COST: "mean cost of a row"} | {name: f"{name} of {classes[-1]!r}" for name in TARGETS}
    sentences: list[str] = []
    for old, new in zip(before, now, strict=True):
        name = names.get(new.name, new.name)
        if not bought:
            sentences.append(f"With the log alone the {name} is {new.between()}.")
        elif not sentences:
            more = count(bought, "more label", "more labels")
            sentences.append(f"With the log alone the {name} was {old.between()}; with {more} it is {new.between()}.")
        else:
            sentences.append(f"The {name} was {old.between()} and is now {new.between()}.")
    if not bought:
        sentences.append("No label was bought yet.")
    return " ".join(sentences)


def outlook(now: Measure, to_gain: float | None, involved: float = 1.0) -> str:
    """Return what `MORE_LABELS` more labels may bring, in words.

    How wide the interval will be is rough: in 24 simulated campaigns it was 0.7 to 1.6 times as wide as predicted in four of five cases.

    `now` is what the model is judged by. `to_gain` is by how much the labels may lower the error; None if it is too early to say, or if
    another measure counts. `involved` is the share of the labels that the measure is about: recall is about the positive class only.

    Examples
    --------
    >>> outlook(Measure("error", "", Interval(0.1, 0.055, 0.174, 0.95, "cells")), 0.004)
    'The next 50 labels may lower it by at most about 0.4 points. Its interval may then be about 9.7 points wide instead of 12; this is a rough guess.'
    """
    sentences = []
    if to_gain is not None:
        sentences.append(f"The next {MORE_LABELS} labels may lower it by at most about {points(to_gain)}.")
    if is_known(now.interval) and involved > 0.0:
        then, current = (width_after(now.interval, more * involved) for more in (MORE_LABELS, 0))
        if now.value(0.0) == "0%":
            wide = f"{points(then)} wide instead of {number(float(f'{100 * current:.2g}'))}"
        else:
            wide = f"{number(float(f'{then:.2g}'))} wide instead of {number(float(f'{current:.2g}'))}"
        name = "the error" if now.name == "error" else now.name
        subject = f"With {MORE_LABELS} more labels the interval for {name} may be"
        subject = "Its interval may then be" if sentences else subject
        sentences.append(f"{subject} about {wide}; this is a rough guess.")
    return " ".join(sentences) or f"It is too early to say what {MORE_LABELS} more labels may bring."


def width_after(now: Interval, more: float) -> float:
    """Return about how wide an interval will be after more labels: as Wilson's interval, of as many equally weighted labels.

    With w its width, e the estimate and z = 1.96, n solves ``w·(n + z²) = z·sqrt(4·e·(1 − e)·n + z²)``.

    Examples
    --------
    >>> round(width_after(Interval(0.1, 0.055, 0.174, 0.95, "cells"), 300), 3)
    0.059
    """
    z2, width, share = 1.96**2, max(1e-9, (now.high - now.low) / now.most), now.estimate / now.most
    variance = max(0.0, share * (1.0 - share))
    half = z2 * (2.0 * variance / width**2 - 1.0)
    n = half + float(np.sqrt(max(0.0, half**2 + z2**2 * (1.0 / width**2 - 1.0)))) + more
    return float(now.most * np.sqrt(z2 * (4.0 * variance * n + z2)) / (n + z2))
