"""The report: a single HTML file that needs no other file and no network."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from observal.diagnosis.diagnose import paragraphs
from observal.files import check_target, write_text
from observal.report import sections
from observal.report.content import ReportContent
from observal.report.verdict import is_known

if TYPE_CHECKING:
    from jinja2 import Template

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
    groups, use = sections.groups_and_use(content)
    rounds = sections.rounds_table(content)
    return _template().render(
        content=content,
        decision=sections.decision(content),
        comparison=sections.comparison_table(content),
        comparison_words=sections.comparison_words(content),
        comparison_note=sections.comparison_note(content),
        named_groups=sections.named_groups_table(content),
        tiles=sections.tiles(content),
        headline=sections.headline(content),
        verdicts=[sections.model_verdict(content), sections.log_verdict(content)],
        error_known=is_known(content.error),
        measures=sections.measures_table(content),
        confusion=sections.confusion_table(content),
        groups=groups,
        use=use,
        thresholds=sections.thresholds_table(content),
        thresholds_chart=sections.thresholds_chart(content),
        progress=sections.progress_charts(content),
        asked=sections.asked_section(content),
        annotators=sections.annotators_table(content),
        diagnosis_charts=sections.diagnosis_charts(content),
        weights_chart=sections.weights_chart(content),
        weights=sections.weights_table(content),
        rounds=rounds,
        rounds_note=sections.rounds_note(content, rounds),
        settings=sections.settings_table(content),
        versions=sections.versions_table(content),
    )


@cache
def _template() -> Template:
    """Return the page's template; compiling it takes as long as drawing a chart."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("observal.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["paragraphs"] = paragraphs
    return environment.get_template("report.html")
