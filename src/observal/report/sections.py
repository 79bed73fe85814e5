"""The sections of a report: what the page's template fills in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from observal.checks import Floats
from observal.diagnosis.feature_values import column_of, sample_rows
from observal.intervals.measures import AUC, BASELINE, BASELINE_COST, COST, COST_WINS, WINS, beats_baseline, judged_by
from observal.paper.weights import plain_importance
from observal.problem.interval import Interval
from observal.problem.objectives import BALANCED, TARGETS, costs_of, measure_of
from observal.problem.problem import Problem
from observal.problem.words import count, number, percent
from observal.report import charts
from observal.report.content import ReportContent
from observal.report.measures import (
    advice,
    baseline_sentence,
    commonest,
    confusion,
    is_known,
    measures_of,
    threshold_sentence,
)
from observal.report.model import MOST_SHOWN, Judged, errors_by_group, outlook, title_of, what_it_uses, worth
from observal.report.projection import asked_positions, telling_pair

LAST_ROWS = 12
MOST_CLOUD, MOST_MARKS = 50_000, 400


def measures(content: ReportContent) -> list[dict[str, str]]:
    """Return the rows of the table of intervals, the error first; each names the class that it is about."""
    return [
        {
            "name": one.name,
            "about": one.about,
            "estimate": one.value(one.interval.estimate) if is_known(one.interval) else "–",
            "range": f"{one.value(one.interval.low)} to {one.value(one.interval.high)}"
            if is_known(one.interval)
            else "not known",
            "confidence": f"{100 * one.interval.confidence:g}%",
        }
        for one in measures_of(content.all_intervals, content.logged.classes.tolist(), content.goals.objective)
    ]


def matrix(content: ReportContent) -> list[dict[str, Any]]:
    """Return the rows of the confusion matrix, in shares of all rows."""
    classes = content.logged.classes.tolist()
    found = confusion(content.all_intervals, classes)
    if found is None or not is_known(content.error):
        return []
    return [
        {
            "name": str(name),
            "cells": [
                {
                    "right": i == j,
                    "estimate": percent(cell.estimate),
                    "range": f"{percent(cell.low)} to {percent(cell.high)}",
                }
                for j, cell in enumerate(row)
            ],
        }
        for i, (name, row) in enumerate(zip(classes, found, strict=True))
    ]


def model(content: ReportContent) -> dict[str, Any]:
    """Return the verdict on the model, what it uses, and its errors by group."""
    classes, intervals, objective = content.logged.classes.tolist(), content.all_intervals, content.goals.objective
    known = {name: one for name, one in intervals.items() if one is not None}
    compared = objective == "error" or COST_WINS in known
    beats = beats_baseline(known, COST_WINS if COST_WINS in known else WINS)
    if not compared and (auc := known.get(AUC)) is not None:  # such a model may make more mistakes than the baseline
        beats = True if auc.low > 0.5 else None
    level = "care" if beats is None or not is_known(content.error) else "good" if beats else "buy"
    said = [baseline_sentence(intervals, classes, objective), threshold_sentence(content.result.estimator, classes)]
    said += [advice(intervals, classes, objective), _worth(content)]
    pool = content.pool.X
    sources = content.names if content.sources is None else content.sources
    uses = what_it_uses(content.result.estimator, pool, content.names, sources)
    problem = Problem(content.logged, content.pool)
    groups = (
        []
        if content.judged is None
        else errors_by_group(
            problem,
            Judged(*content.judged),
            content.names,
            [name for name, _ in uses],
            content.said,
            content.sources,
        )
    )
    return {
        "level": level,
        "title": title_of(level, "error" if compared else objective),
        "sentences": [text for text in said if text],
        "uses": [(name, percent(moved)) for name, moved in uses[:MOST_SHOWN]],
        "groups": groups,
    }


def _worth(content: ReportContent) -> str:
    """Return whether labels were worth it and what more may bring, by what the objective is about; empty where that is not known."""
    classes, objective = content.logged.classes.tolist(), content.goals.objective
    names, labels = judged_by(objective), content.result.queries["label"]
    history = [error for _, error in content.error_history or () if isinstance(error, Interval)]
    before = dict(content.before) or ({"error": history[0]} if history else {})
    bought = len(labels)
    if not bought:
        before = {name: one for name, one in content.all_intervals.items() if one is not None}
    then, now = (
        {one.name: one for one in measures_of(found, classes, objective)} for found in (before, content.all_intervals)
    )
    if not all(name in then and name in now for name in names):
        return ""
    said = worth([then[name] for name in names], [now[name] for name in names], bought, classes)
    if not bought:
        return said
    shares = [float(np.mean(labels == value)) for value in classes]
    involved = shares[-1] if names[0] in TARGETS else min(shares) if names[0] == BALANCED else 1.0
    return f"{said} {outlook(now[names[0]], content.to_gain if objective == 'error' else None, involved)}"


def tiles(content: ReportContent) -> list[tuple[str, str, str]]:
    """Return the numbers on top of the page: name, value, and what to know about it."""
    objective, classes = content.goals.objective, content.logged.classes.tolist()
    found = {one.name: one for one in measures_of(content.all_intervals, classes, objective)}
    names = {
        "recall": f"Recall of {classes[-1]!r}",
        "precision": f"Precision of {classes[-1]!r}",
        COST: "Cost of a row",
    }
    shown = []
    if not is_known(content.error):
        shown.append(("Error", "not known", "too few labels"))
    for name in dict.fromkeys(("error", BASELINE, measure_of(objective), BASELINE_COST)):
        one = found.get(name)
        if one is None or not is_known(one.interval):
            continue
        value = one.value(one.interval.estimate)
        if name in (BASELINE, BASELINE_COST):
            always = commonest(content.all_intervals, classes, () if name == BASELINE else costs_of(objective))
            what = "error" if name == BASELINE else "cost"
            shown.append((f"Always {always}", value, f"the baseline's {what}"))
        else:
            ends = f"{one.value(one.interval.low)} to {one.value(one.interval.high)}"
            shown.append((names.get(name, name.capitalize()), value, ends))
    rounds, revealed = len(content.result.rounds) - 1, int(content.logged.revealed.sum())
    return [
        *shown,
        ("Labels bought", number(len(content.result.queries)), f"plus {number(revealed)} in the log"),
        ("Rounds", number(rounds), "after the log alone"),
    ]


def progress(content: ReportContent) -> list[charts.Chart]:
    """Return the charts of the error and of what is undecided, by labels bought."""
    history = list(content.error_history or ())
    if not history:
        history = [(content.result.rounds[-1].labels, content.error)]
    known = any(not isinstance(error, Interval) or is_known(error) for _, error in history)
    found = [charts.error_chart(history)] if known else []
    rounds = [r for r in content.result.rounds if np.isfinite(r.disagreement)]
    if len(rounds) > 1:
        found.append(charts.uncertain_chart([r.labels for r in rounds], [r.disagreement for r in rounds]))
    return found


def asked(content: ReportContent) -> dict[str, Any]:
    """Return the section on asked rows: counts by reason, the map, and the last rows."""
    result, pool = content.result, content.pool
    where = asked_positions(pool, result)
    is_asked = np.zeros(len(pool), dtype=bool)
    is_asked[where] = True
    pair = telling_pair(pool.X, is_asked)
    decisions = result.decisions
    reasons: dict[tuple[str, str], int] = {}
    for action, reason in zip(decisions["action"].tolist(), decisions["reason"].tolist(), strict=True):
        reasons[(action, reason)] = reasons.get((action, reason), 0) + 1
    names = [content.names[column] for column in pair]
    last = []
    for position, query in list(zip(where.tolist(), result.queries, strict=True))[-LAST_ROWS:][::-1]:
        found = [float(column_of(pool.X[[position]], column)[0]) for column in pair]
        values = [content.said(name, value) for name, value in zip(names, found, strict=True)]
        last.append({"query": query, "values": values, "propensity": float(pool.propensity[position])})
    by_count = sorted(reasons.items(), key=lambda item: -item[1])
    covered = ""
    if content.diagnosis is not None and content.diagnosis.overlap.barely > 0.0 and where.size:
        barely = int(np.count_nonzero(pool.propensity[where] < content.diagnosis.overlap.threshold))
        covered = (
            f"{barely:,} of the {count(where.size, 'label')} bought are for rows that the log barely covers; such rows are "
            f"{percent(content.diagnosis.overlap.barely)} of the pool."
        )
    return {
        "covered": covered,
        "reasons": [{"action": a, "reason": r, "rows": n} for (a, r), n in by_count],
        "names": names,
        "last": last,
        "map": _map(content, where, pair),
    }


def _map(content: ReportContent, where: Any, pair: tuple[int, ...]) -> charts.Chart | None:
    if not pair or where.size == 0:
        return None
    logged, pool = content.logged, content.pool
    rng = np.random.default_rng(0)
    cloud = sample_rows(len(pool), MOST_CLOUD, rng)
    shown = np.flatnonzero(logged.revealed)
    shown = shown[sample_rows(shown.size, MOST_MARKS, rng)]
    asked = sample_rows(where.size, MOST_MARKS, rng)

    filled = [
        content.names.index(f"{content.names[c]} is missing")
        for c in pair
        if f"{content.names[c]} is missing" in content.names
    ]

    def there(X: Any) -> Any:
        """Return which rows have values of their own, not ones that stand in for missing values."""
        return ~np.any([column_of(X, column) == 1.0 for column in filled] or [np.zeros(X.shape[0], dtype=bool)], axis=0)

    def points(X: Any, propensity: Floats) -> Floats:
        X, propensity = X[there(X)], propensity[there(X)]
        second = column_of(X, pair[1]) if len(pair) > 1 else propensity
        return np.clip(np.column_stack([column_of(X, pair[0]), second]), -1e100, 1e100)

    names = (content.names[pair[0]], content.names[pair[1]] if len(pair) > 1 else "propensity")
    return charts.map_chart(
        {
            "pool": points(pool.X[cloud], pool.propensity[cloud]),
            "revealed": points(logged.X[shown], logged.propensity[shown]),
            "asked": points(pool.X[where[asked]], pool.propensity[where[asked]]),
        },
        [str(answer) for answer in content.result.queries["label"][asked][there(pool.X[where[asked]])].tolist()],
        names,
        [str(value) for value in logged.classes.tolist()],
        (names[0] in content.date_features, names[1] in content.date_features),
        (names[0] in content.percent_features, names[1] in content.percent_features),
    )


def diagnosis_charts(content: ReportContent) -> list[charts.Chart]:
    """Return the charts of overlap and calibration; none without a diagnosis."""
    diagnosis, logged = content.diagnosis, content.logged
    if diagnosis is None:
        return []
    revealed = logged.propensity[logged.revealed]
    found = [charts.overlap_chart(content.pool.propensity, revealed, diagnosis.overlap.threshold)]
    if diagnosis.calibration.bins:
        found.append(charts.calibration_chart(diagnosis))
    return found


def weights_chart(content: ReportContent) -> charts.Chart | None:
    """Return the histogram of the weights of the log's labels."""
    weights = plain_importance(content.logged.propensity[content.logged.revealed])
    weights = weights[np.isfinite(weights)]
    if weights.size == 0 or content.diagnosis is None:
        return None
    return charts.weights_chart(weights, content.diagnosis.weights.clip)


def settings(content: ReportContent) -> list[tuple[str, str]]:
    """Return the settings, and the seed, as text."""
    rows: Mapping[str, Any] = {
        **content.settings,
        **({} if content.random_state is None else {"seed": content.random_state}),
    }
    return [(str(name), str(value)) for name, value in rows.items()]


def cell(value: Any) -> str:
    """Return a value as text for a table.

    Examples
    --------
    >>> cell(0.12345), cell(12000), cell("north"), cell(None), cell(True)
    ('0.123', '12,000', 'north', '–', 'yes')
    """
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | float | np.integer | np.floating):
        return "–" if np.isnan(value) else "no limit" if np.isinf(value) else number(float(value))
    return str(value)
