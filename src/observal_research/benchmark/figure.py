"""One small panel a cell: ours and the best peers, mean test error against labels bought."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from observal.report.charts import STYLES, figure_style
from observal_research.benchmark.cells import Cell
from observal_research.benchmark.report import BenchmarkReport
from observal_research.figures import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 4
"""Panels in a row: one for each logging policy."""
SHOWN_PEERS = 3
MARKS = 6
"""Markers on a line."""
PANEL = (3.1, 2.15)


def list_shown(report: BenchmarkReport) -> list[str]:
    """Return our methods and the peers with the least mean errors, in that order."""
    means = {peer: report.mean_error(peer, report.cells_of(peer)) for peer in report.spec.peers or ()}
    return [*report.spec.methods, *sorted(means, key=means.__getitem__)[:SHOWN_PEERS]]


def draw_benchmark(report: BenchmarkReport, paths: Sequence[str | Path]) -> None:
    """Draw a panel for each cell and write the figure to every path."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    cells, names = report.spec.cells, list_shown(report)
    columns = min(COLUMNS, len(cells))
    rows = ceil(len(cells) / columns)
    with mpl.rc_context(figure_style(8)):
        handles = [_handle(number, name) for number, name in enumerate(names)] + [_handle(None, "all labels")]
        legend_columns = min(len(handles), 2 * columns)
        caption = fill(_caption(report), 54 * columns)
        below, above = 0.3 + 0.13 * caption.count("\n"), 0.2 + 0.2 * ceil(len(handles) / legend_columns)  # inches
        height = PANEL[1] * rows + below + above
        layout = ConstrainedLayoutEngine(rect=(0.0, below / height, 1.0, 1.0 - (below + above) / height))
        figure = Figure(figsize=(PANEL[0] * columns, height), layout=layout)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, cell in zip(axes, cells, strict=False):
            _draw_panel(axis, report, cell, names)
            axis.set_title(cell.name, loc="left", fontsize=8, fontweight="bold")
        for axis in axes[len(cells) :]:
            axis.set_visible(False)
        for axis in axes[: len(cells)][-columns:]:
            axis.set_xlabel("labels bought")
        for axis in axes[: len(cells) : columns]:
            axis.set_ylabel("test error, %")
        figure.legend(handles=handles, loc="upper left", ncols=legend_columns, frameon=False, handlelength=2.8)
        figure.text(0.008, 0.08 / height, caption, ha="left", va="bottom", fontsize=7.5, color="#333333")
        for path in paths:
            save_figure(figure, path, dpi=130)


def draw_ingredients(report: BenchmarkReport, paths: Sequence[str | Path]) -> None:
    """Draw what each variant of our first method costs or saves, by group of cells, and write it to every path."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    first, *names = report.spec.methods
    with mpl.rc_context(figure_style(9)):
        figure = Figure(figsize=(2.6 + 2.3 * len(report.groups), 0.8 + 0.28 * len(names)), layout="constrained")
        axes = figure.subplots(1, len(report.groups), sharey=True, squeeze=False)[0]
        for axis, (group, cells) in zip(axes, report.groups.items(), strict=True):
            differences = report.differences(cells)
            means = [100 * differences[name][0] for name in names]
            bars = [196 * differences[name][1] for name in names]
            axis.axvline(0.0, color="#888888", linewidth=0.9)
            axis.errorbar(means, range(len(names)), xerr=bars, fmt="o", color=STYLES[0][0], markersize=4, capsize=2)
            axis.set_yticks(range(len(names)), names)
            axis.set_title(f"{group} ({len(cells)} cells)", loc="left", fontsize=9, fontweight="bold")
            axis.set_xlabel(f"more error than {first}, points")
            axis.grid(axis="x", color="#e5e5e5", linewidth=0.5)
            axis.set_axisbelow(True)
        axes[0].invert_yaxis()
        for path in paths:
            save_figure(figure, path, dpi=150)


def _draw_panel(axis: Axes, report: BenchmarkReport, cell: Cell, names: list[str]) -> None:
    where = np.arange(report.spec.label_budget + 1)
    axis.axhline(100 * report.all_labels(cell).mean(), color="#888888", linewidth=0.9)
    for name in (name for name in reversed(names) if report.spec.runs(cell, name)):  # ours on top
        errors = 100 * np.array([curve.at(where) for curve in report.trials(cell, name)])
        colour, marker, dashes = STYLES[names.index(name) % len(STYLES)]
        mean = errors.mean(axis=0)
        every = max(1, where.size // MARKS)
        start = (names.index(name) * every) // max(1, len(names))
        axis.plot(
            where,
            mean,
            color=colour,
            linestyle=dashes,
            linewidth=1.3,
            marker=marker,
            markersize=3,
            markevery=(start, every),
        )
        if len(errors) > 1:
            se = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
            axis.fill_between(where, mean - se, mean + se, color=colour, alpha=0.15, linewidth=0)
    axis.set_xlim(0, report.spec.label_budget)
    axis.grid(axis="y", color="#e5e5e5", linewidth=0.5)
    axis.set_axisbelow(True)


def _handle(number: int | None, name: str) -> Any:
    from matplotlib.lines import Line2D

    if number is None:
        return Line2D([], [], color="#888888", linewidth=0.9, label=name)
    style: Any = dict(zip(("color", "marker", "linestyle"), STYLES[number % len(STYLES)], strict=True))
    return Line2D([], [], **style, linewidth=1.3, markersize=4, label=name)


def _caption(report: BenchmarkReport) -> str:
    spec = report.spec
    return (
        f"Test error against labels bought, means over {spec.trials} trial{'s' * (spec.trials != 1)} a cell (data / "
        f"logging policy), at most {spec.rows:,} rows; bands are one standard error. Shown are our methods and the "
        f"{SHOWN_PEERS} peers with the lowest mean error; the grey line is the best model given all labels. Vertical axes "
        "differ."
    )
