"""What a report says of the model: whether the labels were worth it, what it uses, and where it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from observal.checks import Floats, Ints
from observal.diagnosis.feature_values import column_of, sample_rows
from observal.intervals.cells import wilson
from observal.intervals.measures import COST
from observal.intervals.stopping import chances_of
from observal.problem.interval import Interval
from observal.problem.objectives import TARGETS
from observal.problem.problem import Problem
from observal.problem.words import count, number
from observal.report.measures import Measure, is_known

MORE_LABELS = 50
ROWS_TO_SHUFFLE, MOST_COLUMNS, MOST_SHOWN = 300, 60, 8
LEAST_OF_GROUP, MOST_OF_COLUMN = 5, 12


class Judged(NamedTuple):
    """Labelled rows of log and pool: their classes, what fits that have not seen them say, and what each stands for."""

    rows: Ints
    codes: Ints
    predicted: Ints
    weight: Floats


def title_of(level: str, objective: str) -> str:
    """Return the verdict on the model in a few words: against the baseline, or with an objective of its own by the AUC.

    Examples
    --------
    >>> title_of("good", "error"), title_of("good", "recall=0.8")
    ('The model beats guessing.', 'The model tells the classes apart.')
    """
    if objective != "error":  # finding rare rows costs mistakes, so such a model need not make fewer than the baseline
        return f"The model {'tells' if level == 'good' else 'is not shown to tell'} the classes apart."
    said = {"good": "beats", "care": "is not shown to beat", "buy": "does not beat"}[level]
    return f"The model {said} guessing."


def worth(before: Sequence[Measure], now: Sequence[Measure], bought: int, classes: Sequence[Any]) -> str:
    """Return whether the labels were worth it, in words.

    Parameters
    ----------
    before, now : sequences of Measure
        What the model is judged by, with the log alone and now.
    bought : int
        Labels bought.
    classes : sequence
        The label values, the positive one last.

    Examples
    --------
    >>> ends = Interval(0.2, 0.1, 0.4, 0.95, "cells"), Interval(0.05, 0.03, 0.08, 0.95, "cells")
    >>> worth(*([Measure("error", "", one)] for one in ends), 120, ["paid", "default"])
    'With the log alone the error was between 10% and 40%; with 120 more labels it is between 3% and 8%.'
    """
    names = {COST: "mean cost of a row"} | {name: f"{name} of {classes[-1]!r}" for name in TARGETS}
    said = []
    for old, new in zip(before, now, strict=True):
        name = names.get(new.name, new.name)
        if not bought:
            said.append(f"With the log alone the {name} is {new.between()}.")
        elif not said:
            more = count(bought, "more label", "more labels")
            said.append(f"With the log alone the {name} was {old.between()}; with {more} it is {new.between()}.")
        else:
            said.append(f"The {name} was {old.between()} and is now {new.between()}.")
    return " ".join([*said, *([] if bought else ["No label was bought yet."])])


def outlook(now: Measure, to_gain: float | None, involved: float = 1.0) -> str:
    """Return what `MORE_LABELS` more labels may bring, in words.

    How wide the interval will be is rough: in 24 simulated campaigns it was 0.7 to 1.6 times as wide as said in four of five cases.

    Parameters
    ----------
    now : Measure
        What the model is judged by.
    to_gain : float, optional
        By how much the labels may lower the error; None where it is too early to say, or where another measure counts.
    involved : float
        The share of the labels that the measure is about: recall is about the positive class only.

    Examples
    --------
    >>> outlook(Measure("error", "", Interval(0.1, 0.055, 0.174, 0.95, "cells")), 0.004)
    'The next 50 labels may lower it by at most about 0.4 points. Its interval may then be about 9.7 points wide instead of 12; this is a rough guess.'
    """
    gain = f"The next {MORE_LABELS} labels may lower it by at most about {100 * (to_gain or 0.0):.2g} points."
    said = [] if to_gain is None else [gain]
    if is_known(now.interval) and involved > 0.0:
        unit, scale = (" points", 100.0) if now.value(0.0) == "0%" else ("", 1.0)
        widths = [width_after(now.interval, more * involved) for more in (MORE_LABELS, 0)]
        then, wide = (number(float(f"{scale * width:.2g}")) for width in widths)
        name = "the error" if now.name == "error" else now.name
        first = "Its interval may then be" if said else f"With {MORE_LABELS} more labels the interval for {name} may be"
        said.append(f"{first} about {then}{unit} wide instead of {wide}; this is a rough guess.")
    return " ".join(said or [f"It is too early to say what {MORE_LABELS} more labels may bring."])


def width_after(now: Interval, more: float) -> float:
    """Return about how wide an interval will be after more labels: as Wilson's interval, of as many equally weighted labels.

    With w its width, e the estimate and z = 1.96, n solves ``w·(n + z²) = z·sqrt(4·e·(1 − e)·n + z²)``.

    Examples
    --------
    >>> round(width_after(Interval(0.1, 0.055, 0.174, 0.95, "cells"), 300), 3)
    0.059
    """
    z2, width, spread = 1.96**2, max(1e-9, (now.high - now.low) / now.most), now.estimate / now.most
    spread = max(0.0, spread * (1.0 - spread))
    half = z2 * (2.0 * spread / width**2 - 1.0)
    n = half + float(np.sqrt(max(0.0, half**2 + z2**2 * (1.0 / width**2 - 1.0)))) + more
    return float(now.most * np.sqrt(z2 * (4.0 * spread * n + z2)) / (n + z2))


def what_it_uses(estimator: Any, X: Any, names: Sequence[str], sources: Sequence[str]) -> list[tuple[str, float]]:
    """Return how far the model's probabilities move, on average, when a column is shuffled; the largest first.

    Parameters
    ----------
    estimator : classifier
        The model.
    X : array
        Rows of the population.
    names, sources : sequences of str
        The features, and the column of the table that each comes from: those of one column are shuffled together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> found = what_it_uses(LogisticRegression().fit(X, X[:, 1] > 0), X, ["a", "b"], ["a", "b"])
    >>> found[0][0], found[0][1] > 10 * found[1][1]
    ('b', True)
    """
    rng = np.random.default_rng(0)
    rows = X[sample_rows(X.shape[0], ROWS_TO_SHUFFLE, rng)]
    groups: dict[str, list[int]] = {}
    for column, source in enumerate(sources):
        groups.setdefault(source, []).append(column)
    if hasattr(rows, "tocsr") or len(groups) > MOST_COLUMNS or not names:
        return []
    now = chances_of(estimator, rows)
    found = []
    for source, columns in groups.items():
        other = np.array(rows, copy=True)
        other[:, columns] = other[rng.permutation(len(other))][:, columns]
        found.append((source, float(np.abs(chances_of(estimator, other) - now).sum(axis=1).mean() / 2.0)))
    return sorted(found, key=lambda pair: -pair[1])


def errors_by_group(
    problem: Problem,
    judged: Judged,
    names: Sequence[str],
    first: Sequence[str],
    said: Callable[[str, float], str] | None = None,
    sources: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return the error in groups of rows, by the columns named first: values of a category, thirds of a number or date.

    `said` returns a feature's value in words. A column is shown with all its groups, or those with most labels where it has very many. The intervals are rough: they treat the labels
    of a group as independent.
    """
    found: list[dict[str, Any]] = []
    X = problem.take(judged.rows)
    columns: dict[str, list[int]] = {}
    for k, source in enumerate(map(_source, names) if sources is None else sources):
        columns.setdefault(source, []).append(k)
    ranks = {source: rank for rank, source in reversed(list(enumerate(first)))}
    for source in sorted(columns, key=lambda name: ranks.get(name, len(first))):
        groups: list[dict[str, Any]] = []
        for column in columns[source]:
            words_of = number if said is None else partial(said, names[column])
            values, pool = column_of(X, column), column_of(problem.pool.X, column)
            for words, inside in _groups(names[column], values, pool, words_of):
                here = inside & (judged.weight > 0.0)
                if here.sum() >= LEAST_OF_GROUP:
                    groups.append({"group": words, "labels": int(here.sum()), **_error(judged, here)})
        most = sorted(range(len(groups)), key=lambda k: -groups[k]["labels"])[:MOST_OF_COLUMN]
        found += [groups[k] for k in sorted(most)]
        if len(found) >= MOST_SHOWN:
            break
    return found


def _source(name: str) -> str:
    """Return the column that a feature comes from, by its name."""
    return name.split("=", maxsplit=1)[0].removesuffix(" is missing")


def _groups(name: str, values: Floats, pool: Floats, said: Callable[[float], str]) -> list[tuple[str, Any]]:
    if set(np.unique(pool)) <= {0.0, 1.0}:
        return [(name, values == 1.0)]
    low, high = (float(end) for end in np.quantile(pool, [1 / 3, 2 / 3], method="lower"))  # values that occur
    if low == high:
        return [(f"{name} ≤ {said(low)}", values <= low), (f"{name} > {said(low)}", values > low)]
    return [
        (f"{name} ≤ {said(low)}", values <= low),
        (f"{name} from {said(low)} to {said(high)}", (values > low) & (values <= high)),
        (f"{name} > {said(high)}", values > high),
    ]


def _error(judged: Judged, here: Any) -> dict[str, float]:
    weight, wrong = judged.weight[here], judged.predicted[here] != judged.codes[here]
    share = float(weight @ wrong / weight.sum())
    effective = float(weight.sum() ** 2 / (weight @ weight))
    low, high = wilson(share, share * (1.0 - share) / effective, effective)
    return {"error": share, "low": low, "high": high}
