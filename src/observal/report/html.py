"""The report: a single HTML file that needs no other file and no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from observal.checks import Floats
from observal.diagnosis.rows import column_of, sample_rows
from observal.diagnosis.words import count, number, percent
from observal.methods.cells import HIDDEN
from observal.methods.contradiction import COMPARED, contradiction
from observal.methods.intervals import CONFOUNDED
from observal.methods.measures import AUC, beats_baseline
from observal.problem import Problem
from observal.report import charts
from observal.report.content import ReportContent
from observal.report.measures import advice, baseline_sentence, confusion, is_known, measures_of, returned_sentence
from observal.report.model import MOST_SHOWN, Judged, errors_by_group, title_of, what_it_uses, worth
from observal.report.projection import asked_positions, telling_pair
from observal.tables.written import day_words
from observal.types import POPULATIONS, Interval
from observal.weights import plain_importance
from observal.writing import check_target, write_text

LAST_ROWS = 12
MOST_ROUNDS = 60  # rows in the table of rounds; with more rounds, some are left out
MOST_CLOUD, MOST_MARKS = 50_000, 400

ROUND_WORDS = {
    "labels": "labels so far",
    "asked": "labels in this round",
    "inferred": "inferred without asking",
    "passed": "passed over",
    "clip": "largest weight",
    "uncertain": "of the pool still undecided",
    "least_chance": "least chance of being picked",
    "learners": "models in the blend",
    "features": "features used",
    "ridge": "shrinkage",
    "tempering": "power of the weights",
    "returned_round": "classifier of round",
}

__all__ = ["ReportContent", "render_report", "write_report"]


def write_report(path: str | Path, content: ReportContent, force: bool = False) -> Path:
    """Write a report to a file, completely or not at all.

    Parameters
    ----------
    path : str or Path
        The file to write; its folder is made if needed.
    content : ReportContent
        What the report shows.
    force : bool
        Whether an existing file may be replaced; a campaign is never replaced.

    Returns
    -------
    Path
        The path of the file.

    Examples
    --------
    >>> import tempfile, numpy as np, observal as ob
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> logged = ob.LoggedData(X, X[:, 0] > 4, propensity=1.0)
    >>> pool = ob.Pool(X + 0.01, propensity=0.5)
    >>> result = ob.run(logged, pool, lambda ids: X[ids, 0] > 4, label_budget=10)
    >>> content = ReportContent("Ten labels", logged, pool, result, feature_names=["age"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(f"{folder}/report.html", content).read_text(encoding="utf-8")
    >>> "<h1>Ten labels</h1>" in page, "10 labels" in page
    (True, True)
    """
    target = check_target(path, force)
    page = render_report(content)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, page, force)
    return target


def render_report(content: ReportContent) -> str:
    """Return the report as HTML.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> logged = ob.LoggedData(X, X[:, 0] > 4, propensity=1.0)
    >>> pool = ob.Pool(X + 0.01, propensity=0.5)
    >>> result = ob.run(logged, pool, lambda ids: X[ids, 0] > 4, label_budget=10)
    >>> render_report(ReportContent("<b>", logged, pool, result)).count("<h1>&lt;b&gt;</h1>")
    1
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("observal.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, percent=percent, cell=cell, blocks=blocks)
    return environment.get_template("report.html").render(
        content=content,
        headline=headline(content),
        error_known=is_known(content.error),
        measures=measures(content),
        matrix=matrix(content),
        model=_model(content),
        goals=content.goals.words(),
        progress=_progress(content),
        asked=_asked(content),
        diagnosis_charts=_diagnosis_charts(content),
        weights_chart=_weights_chart(content),
        rounds=rounds_table(content),
        settings=_settings(content),
    )


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


def blocks(sentences: Sequence[str]) -> list[str | list[str]]:
    """Return sentences as paragraphs (text), with items that start with a dash as lists.

    Examples
    --------
    >>> blocks(["One.", "Two:", "– a.", "– b.", "Three."])
    ['One. Two:', ['a.', 'b.'], 'Three.']
    """
    found: list[str | list[str]] = []
    for sentence in sentences:
        last = found[-1] if found else None
        if sentence.startswith("–"):
            item = sentence.removeprefix("–").strip()
            if isinstance(last, list):
                last.append(item)
            else:
                found.append([item])
        elif isinstance(last, str):
            found[-1] = f"{last} {sentence}"
        else:
            found.append(sentence)
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


def _model(content: ReportContent) -> dict[str, Any]:
    """Return the verdict on the model, what it uses, and its errors by group."""
    classes, intervals, objective = content.logged.classes.tolist(), content.all_intervals, content.goals.objective
    known = {name: one for name, one in intervals.items() if one is not None}
    beats = beats_baseline(known)
    if (
        objective != "error" and (auc := known.get(AUC)) is not None
    ):  # such a model may make more mistakes than the baseline
        beats = True if auc.low > 0.5 else None
    level = "care" if beats is None or not is_known(content.error) else "good" if beats else "buy"
    history = [error for _, error in content.error_history or () if isinstance(error, Interval)]
    said = [baseline_sentence(intervals, classes), advice(intervals, classes, objective)]
    bought = len(content.result.queries)
    if history or not bought:
        said.append(worth(history[0] if history else content.error, content.error, bought, content.to_gain))
    pool = content.pool.X
    sources = content.names if content.sources is None else content.sources
    uses = what_it_uses(content.result.estimator, pool, content.names, sources)
    problem = Problem(content.logged, content.pool)
    groups = (
        []
        if content.judged is None
        else errors_by_group(
            problem, Judged(*content.judged), content.names, [name for name, _ in uses], content.date_features
        )
    )
    return {
        "level": level,
        "title": title_of(level, objective),
        "sentences": [text for text in said if text],
        "uses": [(name, percent(moved)) for name, moved in uses[:MOST_SHOWN]],
        "groups": groups,
    }


def _progress(content: ReportContent) -> list[charts.Chart]:
    history = list(content.error_history or ())
    if not history:
        history = [(content.result.rounds[-1].labels, content.error)]
    known = any(not isinstance(error, Interval) or is_known(error) for _, error in history)
    found = [charts.error_chart(history)] if known else []
    rounds = [r for r in content.result.rounds if np.isfinite(r.disagreement)]
    if len(rounds) > 1:
        found.append(charts.uncertain_chart([r.labels for r in rounds], [r.disagreement for r in rounds]))
    return found


def _asked(content: ReportContent) -> dict[str, Any]:
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
        values = [day_words(v) if name in content.date_features else v for v, name in zip(found, names, strict=True)]
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
    )


def _diagnosis_charts(content: ReportContent) -> list[charts.Chart]:
    diagnosis, logged = content.diagnosis, content.logged
    if diagnosis is None:
        return []
    revealed = logged.propensity[logged.revealed]
    found = [charts.overlap_chart(content.pool.propensity, revealed, diagnosis.overlap.threshold)]
    if diagnosis.calibration.bins:
        found.append(charts.calibration_chart(diagnosis))
    return found


def _weights_chart(content: ReportContent) -> charts.Chart | None:
    weights = plain_importance(content.logged.propensity[content.logged.revealed])
    weights = weights[np.isfinite(weights)]
    if weights.size == 0 or content.diagnosis is None:
        return None
    return charts.weights_chart(weights, content.diagnosis.weights.clip)


def rounds_table(content: ReportContent) -> dict[str, Any]:
    """Return the header and the rows of the table of rounds, and how many rounds are left out."""
    rounds = content.result.rounds
    shown = np.arange(len(rounds))
    if len(rounds) > MOST_ROUNDS:
        shown = np.unique(np.linspace(0, len(rounds) - 1, MOST_ROUNDS).round().astype(np.int64))
    details = list(dict.fromkeys(key for r in rounds for key in r.details))
    optional = {
        "inferred": any(r.inferred for r in rounds),
        "passed": any(r.passed for r in rounds),
        "candidates": any(r.candidates is not None for r in rounds),
    }
    columns = ["labels", "asked", "skipped", *(name for name, there in optional.items() if there), "clip"]
    rows = []
    for i in shown.tolist():
        r = rounds[i]
        values = [cell(getattr(r, name)) for name in columns]
        rows.append([str(r.index), *values, percent(r.disagreement), *(cell(r.details.get(key)) for key in details)])
    named = [ROUND_WORDS.get(name, name.replace("_", " ")) for name in (*columns, "uncertain", *details)]
    header = ["round", *named]
    return {"header": header, "rows": rows, "left_out": len(rounds) - len(rows)}


def _settings(content: ReportContent) -> list[tuple[str, str]]:
    rows: Mapping[str, Any] = {
        **content.settings,
        **({} if content.random_state is None else {"seed": content.random_state}),
    }
    return [(str(name), str(value)) for name, value in rows.items()]


def _stop_sentence(stopped: str) -> str:
    """Return a sentence that says why the run ended, or that it is not finished."""
    return f"It is {stopped}." if stopped.startswith("not finished") else f"Why it stopped: {stopped}."
