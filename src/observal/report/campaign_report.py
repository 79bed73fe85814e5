"""The report of a campaign."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from observal.diagnosis import diagnose
from observal.files import check_target
from observal.journal.engine import T
from observal.journal.status import Status
from observal.problem.objectives import objective_words
from observal.report.content import ReportContent
from observal.report.html import write_report
from observal.report.verdict import MORE_LABELS
from observal.session import Labelling

PACKAGES = ("observal", "numpy", "scipy", "scikit-learn")
CURVE_POINTS = 8  # rounds on the error curve; each takes a cross-fit


def write_campaign_report(
    campaign: Labelling[T],
    path: str | Path,
    title: str = "",
    command: str = "",
    force: bool = False,
    author: str = "",
) -> Path:
    """Write the report of a campaign and return its path.

    Parameters
    ----------
    campaign : Campaign or Session
        Finished or not: the report shows the results so far.
    path : path
        The HTML file to write.
    title : str
        The heading of the page.
    command : str
        The command that makes the report, to show on the page.
    force : bool
        Whether an existing file may be replaced; a campaign is never replaced.
    author : str
        Who made the report, to show on the page.
    """
    check_target(path, force)
    status, settings, result, problem = (
        campaign.status(),
        campaign.settings,
        campaign.recorded_result(),
        campaign.problem,
    )
    encoder, names = settings.encoder, settings.features
    dates, percents, sources = ((), (), None) if encoder is None else (encoder.dates, encoder.percents, encoder.sources)
    return write_report(
        path,
        ReportContent(
            title=title or f"Labels bought for {settings.label}",
            logged=problem.logged,
            pool=problem.pool,
            result=result,
            diagnosis=diagnose(
                problem.logged,
                problem.pool,
                feature_names=names,
                sources=sources,
                date_features=dates,
                percent_features=percents,
                random_state=status.random_state,
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
            before=campaign.first_measures(),
            goals=settings.goals,
            made=datetime.now(UTC).strftime("%-d %B %Y"),
            files=[name for name in settings.files if name],
            next_step=_next_step(status),
            to_gain=campaign.may_gain(MORE_LABELS),
            judged=campaign.judged(),
            sources=sources,
            annotators=[{"annotator": name, "answers": count} for name, count in status.answers.items()] or None,
        ),
        force,
    )


def _next_step(status: Status) -> str:
    if not status.stopped:
        return "Label the rows that observal ask shows, or stop here: observal export writes the model."
    if status.label_budget is None or status.labels < status.label_budget:
        return "observal export writes the model."
    return "observal export writes the model. If the error is not good enough, raise the budget with observal extend."


def _settings(status: Status) -> dict[str, str]:
    values = {
        "method": status.method,
        "objective": objective_words(status.objective, status.classes),
        "label budget": status.label_budget,
        "annotators per row": status.overlap,
    }
    return {name: "none" if value is None else str(value) for name, value in values.items()}
