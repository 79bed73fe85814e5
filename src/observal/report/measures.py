"""The measures of a classifier in words and rows, for the report and for `observal status`. Classes are always named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from observal.intervals.measures import AUC, BASELINE, BASELINE_COST, COST, COST_WINS, beats_baseline, confusion_key
from observal.problem.interval import Interval
from observal.problem.objectives import BALANCED, costs_of, measure_of, target_of
from observal.problem.words import number, percent

Intervals = Mapping[str, Interval | None]


class Measure(NamedTuple):
    """A measure: its name, what it is about, and its interval."""

    name: str
    about: str
    interval: Interval

    def value(self, x: float) -> str:
        """Return a value as people write it: a share in percent, AUC and costs as numbers."""
        return f"{x:.2f}" if self.name == AUC else number(x) if self.name in (COST, BASELINE_COST) else percent(x)

    def words(self) -> str:
        """Return the interval in words."""
        if not is_known(self.interval):
            return "not known, too few labels"
        return f"{self.between()}, estimate {self.value(self.interval.estimate)}"

    def between(self) -> str:
        """Return both ends of the interval in words."""
        if not is_known(self.interval):
            return "not known"
        return f"between {self.value(self.interval.low)} and {self.value(self.interval.high)}"


def is_known(interval: Interval) -> bool:
    """Return whether an interval rules anything out."""
    return interval.low > 0.0 or interval.high < interval.most


def measures_of(intervals: Intervals, classes: Sequence[Any], objective: str = "error") -> list[Measure]:
    """Return the measures that a classifier has, the error and what the objective is about first.

    Parameters
    ----------
    intervals : mapping
        By name, as in :class:`observal.RunResult`.
    classes : sequence
        The label values, the positive one last.
    objective : str
        See :mod:`observal.problem.objectives`.

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
        AUC: f"chance that a {positive} row scores higher than one of the other class",
        BALANCED: "mean over classes of the share that is wrong",
        COST: "mean cost of a row, if missing "
        + " and ".join(f"{value!r} costs {cost:g}" for value, cost in zip(classes, costs, strict=False)),
        BASELINE_COST: f"mean cost of a row if {commonest(intervals, classes, costs)} is always predicted",
    }
    first = ["error", measure_of(objective), *([BASELINE_COST] if measure_of(objective) == COST else [])]
    order = sorted(about, key=lambda key: first.index(key) if key in first else len(first))
    return [Measure(key, about[key], found) for key in order if (found := intervals.get(key)) is not None]


def commonest(intervals: Intervals, classes: Sequence[Any], costs: Sequence[float] = ()) -> str:
    """Return the name of the commonest class, by a confusion matrix; with costs, of the one that costs most if it is always missed."""
    rows = [[intervals.get(confusion_key(a, b)) for b in classes] for a in classes]
    if any(cell is None for row in rows for cell in row):
        return "the commonest class"
    sums = [sum(cell.estimate for cell in row if cell is not None) for row in rows]
    if len(costs) == len(sums):
        sums = [share * cost for share, cost in zip(sums, costs, strict=True)]
    return repr(classes[sums.index(max(sums))])


def returned_sentence(returned: int | None) -> str:
    """Return what to know about a classifier that is of an earlier round; empty for the last one's.

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


def baseline_sentence(intervals: Intervals, classes: Sequence[Any], objective: str = "error") -> str:
    """Return how the classifier compares with always predicting one class, in cost if that is its objective; empty where that is not known.

    Examples
    --------
    >>> from observal.intervals.measures import WINS
    >>> base, wins = Interval(0.03, 0.02, 0.04, 0.95, "cells"), Interval(0.5, 0.0, 1.0, 0.95, "cells")
    >>> baseline_sentence({BASELINE: base, WINS: wins}, ["paid", "default"])
    'Always predicting the commonest class would be wrong on 3% of the rows; the labels do not show that the model makes fewer mistakes.'
    """
    base, cost = intervals.get(BASELINE), intervals.get(BASELINE_COST)
    if cost is not None and is_known(cost):
        known = {key: one for key, one in intervals.items() if one is not None}
        end = {True: "the model costs less", False: "the model does not cost less"}
        said = end.get(beats_baseline(known, COST_WINS), "the labels do not show that the model costs less")  # type: ignore[arg-type]
        always = commonest(intervals, classes, costs_of(objective))
        return f"Always predicting {always} would cost {number(cost.estimate)} for each row; {said}."
    if base is None or not is_known(base):
        return ""
    always = f"Always predicting {commonest(intervals, classes)} would be wrong on {percent(base.estimate)} of the rows"
    better = beats_baseline({key: one for key, one in intervals.items() if one is not None})
    if better:
        return f"{always}; the model makes fewer mistakes."
    if better is None and not says_one_class(intervals, classes):
        return f"{always}; the labels do not show that the model makes fewer mistakes."
    same = ": it says the same for every labelled row" if says_one_class(intervals, classes) else ""
    return f"{always}; the model does not make fewer mistakes than that{same}."


def threshold_sentence(estimator: Any, classes: Sequence[Any]) -> str:
    """Return from which chance on the positive class is predicted; empty where that is one half or not known.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> threshold_sentence(SimpleNamespace(threshold=0.0346), ["paid", "default"])
    "The model predicts 'default' where its chance is at least 3.5%."
    """
    threshold = getattr(estimator, "threshold", None)
    return (
        ""
        if threshold is None
        else f"The model predicts {classes[-1]!r} where its chance is at least {100 * threshold:.2g}%."
    )


def says_one_class(intervals: Intervals, classes: Sequence[Any]) -> bool:
    """Return whether the classifier says one and the same class of every labelled row."""
    columns = [[intervals.get(confusion_key(a, b)) for a in classes] for b in classes]
    if any(cell is None for column in columns for cell in column):
        return False
    return sum(any(cell.estimate > 0.0 for cell in column if cell is not None) for column in columns) == 1


def advice(intervals: Intervals, classes: Sequence[Any], objective: str) -> str:
    """Return what to do if the fewest mistakes is the wrong objective, or whether a target is reached; otherwise nothing."""
    recall = intervals.get("recall")
    name = measure_of(objective)
    known = {key: one for key, one in intervals.items() if one is not None}
    if (
        name == "error"
        and recall is not None
        and BASELINE in known
        and not beats_baseline(known)
        and recall.estimate < 0.5
    ):
        return (
            f"It finds {percent(recall.estimate)} of {classes[-1]!r}. If they matter more than other rows, make the campaign with "
            f"--target recall=0.8, --target balanced or --cost-of-missing {classes[-1]}=10."
        )
    found = intervals.get(name)
    if name in ("recall", "precision") and found is not None and is_known(found):
        target = target_of(objective)
        reached = "is reached" if found.low >= target else "is not reached" if found.high < target else "may be reached"
        return f"The target of {percent(target)} {name} of {classes[-1]!r} {reached}: {name} is between {percent(found.low)} and {percent(found.high)}."
    return ""


def confusion(intervals: Intervals, classes: Sequence[Any]) -> list[list[Interval]] | None:
    """Return the confusion matrix, a row for each actual class and a column for each predicted one; None if it is not known."""
    rows = [[intervals.get(confusion_key(a, b)) for b in classes] for a in classes]
    if any(cell is None for row in rows for cell in row):
        return None
    return [[cell for cell in row if cell is not None] for row in rows]


def confusion_lines(intervals: Intervals, classes: Sequence[Any]) -> list[str]:
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
    found, error = confusion(intervals, classes), intervals.get("error")
    if found is None or error is None or not is_known(error):
        return []
    table = [["shares of all rows", *(f"predicted {value!r}" for value in classes)]]
    for value, row in zip(classes, found, strict=True):
        cells = (f"{percent(one.estimate)} ({percent(one.low)} to {percent(one.high)})" for one in row)
        table.append([repr(value), *cells])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in table]
