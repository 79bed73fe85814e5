"""The report of a campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from observal.diagnosis import diagnose
from observal.errors import InvalidInput
from observal.files import check_target
from observal.intervals.measures import judged_by
from observal.journal.engine import T
from observal.journal.status import Status
from observal.problem.interval import Interval
from observal.problem.objectives import objective_words
from observal.report.comparison import compare_models
from observal.report.content import ReportContent
from observal.report.decision import LITTLE, MOST_UNKNOWN
from observal.report.html import write_report
from observal.report.named_groups import check_columns, find_named_groups
from observal.report.rare import next_step
from observal.report.verdict import MORE_LABELS, advice
from observal.session import Labelling

if TYPE_CHECKING:
    from observal.tables.read import TableSource

PACKAGES = ("observal", "numpy", "scipy", "scikit-learn")
CURVE_POINTS = 8  # rounds on the error curve; each takes a cross-fit

RAISE_BUDGET = "raise the budget with observal extend, and label the rows that observal ask then shows."


def write_campaign_report(
    campaign: Labelling[T],
    path: str | Path,
    title: str = "",
    command: str = "",
    force: bool = False,
    author: str = "",
    by: Sequence[str] = (),
    logs: Sequence[TableSource] = (),
) -> Path:
    """Write the report of a campaign and return its path.

    The campaign or session need not be finished. `command` is the one that makes the report, and `author` who made it, to show on the page.
    An existing file is replaced only with `force`; a campaign is never replaced. The error is shown for each value of the columns `by`,
    whether or not the model uses them; `logs` are the log's tables, needed if one of these columns is not a feature.
    """
    check_target(path, force)
    check_columns(campaign, by)
    status, settings = campaign.status(), campaign.settings
    result, problem = campaign.recorded_result(), campaign.problem
    encoder, names = settings.encoder, settings.features
    dates, percents, sources = ((), (), None) if encoder is None else (encoder.dates, encoder.percents, encoder.sources)
    judged, to_gain = campaign.judged(), campaign.may_gain(MORE_LABELS)
    compared = judged is not None and settings.goals.objective == "error"
    if by and judged is None:
        raise InvalidInput(
            "Errors by group need labelled rows of at least two classes, but there are too few; label more rows, or leave "
            "--by out (by=)."
        )
    content = ReportContent(
        title=title or f"Labels bought for {settings.label}",
        logged=problem.logged,
        pool=problem.pool,
        result=result,
        diagnosis=diagnose(
            problem.logged,
            problem.pool,
            feature_names=names,
            sources=sources,
            label=settings.label,
            date_features=dates,
            percent_features=percents,
            random_state=status.random_state,
            known_before=settings.known_before,
            population=settings.goals.population,
        ),
        feature_names=names,
        date_features=dates,
        percent_features=percents,
        settings=_settings(status),
        versions={name: version(name) for name in PACKAGES},
        random_state=status.random_state,
        command=command,
        author=author,
        notes=status.notes,
        error_history=campaign.error_history(CURVE_POINTS),
        objective_history=_objective_history(campaign),
        before=campaign.first_measures(),
        goals=settings.goals,
        made=datetime.now(UTC).strftime("%-d %B %Y"),
        files=[name for name in settings.files if name],
        next_step="" if status.waiting else _next_step(status, result.intervals, to_gain),
        next_if_buy=RAISE_BUDGET if _is_spent(status) else "",
        to_gain=to_gain,
        judged=judged,
        sources=sources,
        annotators=[{"annotator": name, "answers": count} for name, count in status.answers.items()] or None,
        uncounted=status.uncounted,
        waiting=status.waiting,
    )
    if judged is not None and compared:
        comparison = compare_models(problem, judged, content.error, campaign.judged_by_first_model())
        content = replace(content, comparison=comparison)
    if judged is not None and by:
        groups = find_named_groups(campaign, by, judged.rows, content.columns, content.value_words, logs)
        content = replace(content, named_groups=groups)
    return write_report(path, content, force)


def _objective_history(campaign: Labelling[T]) -> list[tuple[int, Interval]]:
    """Return the history of what the objective is about; empty without an objective."""
    name = judged_by(campaign.settings.goals.objective)[0]
    return [] if name == "error" else campaign.error_history(CURVE_POINTS, name)


def _next_step(status: Status, intervals: Mapping[str, Interval], to_gain: float | None) -> str:
    """Return what to do next: with another objective where a class is hardly found, and otherwise with the model."""
    if status.objective == "error" and (another := advice(intervals, status.classes, "error")):
        return another
    better = next_step(status.objective, intervals, status.classes)
    if intervals["error"].unknown > MOST_UNKNOWN:
        return (
            RAISE_BUDGET if _is_spent(status) else "" if status.stopped else "label the rows that observal ask shows."
        )
    if not status.stopped:
        return (
            f"Label the rows that observal ask shows, or stop here: observal export writes the model. {better}".strip()
        )
    if status.objective == "error" and _is_spent(status) and (to_gain is None or to_gain >= LITTLE):
        better = "If the error is not good enough, raise the budget with observal extend."
    return f"observal export writes the model. {better}".strip()


def _is_spent(status: Status) -> bool:
    if status.budget_cost is not None:  # if the method stopped for another reason, there is little to gain anyway
        return bool(status.stopped)
    return status.label_budget is not None and status.labels >= status.label_budget


def _settings(status: Status) -> dict[str, str]:
    values = {
        "method": status.method,
        "objective": objective_words(status.objective, status.classes),
        "label budget": status.label_budget,
        **({"cost of labels": cost} if (cost := status.cost_words()) else {}),
        "annotators per row": status.overlap,
        **({"groups": groups} if (groups := status.group_words()) else {}),
    }
    return {name: "none" if value is None else str(value) for name, value in values.items()}
