"""Figures of error curves drawn from plain numbers. matplotlib is imported only when a figure is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from observal.checks import Floats, Ints
from observal.files import writing
from observal.report.charts import STYLES, figure_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION_WIDTH = 150  # characters under two panels


@dataclass(frozen=True, eq=False)
class Line:
    """One curve of a panel: means at label counts, and their standard errors.

    Parameters
    ----------
    name : str
        The name in the legend.
    labels : array
        Label counts, increasing.
    mean, se : arrays
        The mean error at each, and its standard error.
    """

    name: str
    labels: Ints
    mean: Floats
    se: Floats


def draw_curves(
    panels: Mapping[str, Sequence[Line]],
    paths: Sequence[str | Path],
    *,
    caption: str,
    bars_every: int = 50,
    y_title: str = "test error, %",
    x_title: str = "labels bought",
    one_legend: bool = False,
) -> None:
    """Draw panels side by side, error against labels, each with its own scale, and write the figure to every path.

    Parameters
    ----------
    panels : mapping
        From a panel's title to its lines. A line keeps its colour by its name in all panels.
    paths : sequence of paths
        The file extension gives the format: ``.png``, ``.svg`` or ``.pdf``.
    caption : str
        The sentences under the figure.
    bars_every : int
        Labels from one error bar to the next; bars of different lines are drawn side by side.
    y_title, x_title : str
        The titles of the axes.
    one_legend : bool
        Whether one legend above all panels takes the place of one in each, for lines that leave no corner free.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    names = list(dict.fromkeys(line.name for lines in panels.values() for line in lines))
    with mpl.rc_context(figure_style(10)):
        text = fill(caption, CAPTION_WIDTH * len(panels) // 2)
        bottom = 0.03 + 0.036 * (text.count("\n") + 1)
        layout = ConstrainedLayoutEngine(rect=(0.0, bottom, 1.0, 0.98 - bottom))
        figure = Figure(figsize=(4.8 * len(panels), 4.6), layout=layout)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (title, lines) in zip(axes, panels.items(), strict=True):
            for line in lines:
                _draw_line(axis, line, names.index(line.name), len(names), bars_every)
            axis.set_title(title, loc="left", fontweight="bold")
            axis.set_xlabel(x_title)
            axis.set_ylabel(y_title)
            axis.yaxis.set_major_formatter("{x:g}")
            axis.grid(axis="y", color="#dddddd", linewidth=0.6)
            axis.set_axisbelow(True)
            axis.set_xlim(left=0)
            axis.margins(x=0.02)
            if not one_legend:
                axis.legend(frameon=False, loc="upper right", handlelength=3.2)
        if one_legend:
            handles = axes[0].get_legend_handles_labels()
            figure.legend(*handles, frameon=False, loc="outside upper left", handlelength=3.2, ncols=len(names))
        figure.text(0.012, 0.018, text, ha="left", va="bottom", fontsize=8.5, color="#333333", linespacing=1.3)
        for path in paths:
            save_figure(figure, path, dpi=160)


def save_figure(figure: Figure, path: str | Path, dpi: int) -> None:
    """Write a matplotlib figure completely or not at all, replacing an existing file; the extension gives the format."""
    kind = Path(path).suffix[1:]
    with writing(path, force=True) as file:
        figure.savefig(file, format=kind, dpi=dpi, metadata={"Date": None} if kind == "svg" else None)


def _draw_line(axis: Axes, line: Line, number: int, n_lines: int, bars_every: int) -> None:
    """Draw a line in percent, with error bars shifted by a few labels so that they do not hide each other."""
    colour, marker, dashes = STYLES[number % len(STYLES)]
    start = bars_every // 2 + int((number - (n_lines - 1) / 2) * bars_every / (3 * n_lines))
    where = slice(max(0, start), None, bars_every)
    axis.plot(line.labels, 100 * line.mean, color=colour, linestyle=dashes, linewidth=1.8)
    axis.errorbar(
        line.labels[where],
        100 * line.mean[where],
        yerr=100 * line.se[where],
        color=colour,
        marker=marker,
        markersize=5,
        linestyle="none",
        capsize=2.5,
        linewidth=1.2,
    )
    axis.plot([], [], color=colour, marker=marker, markersize=5, linestyle=dashes, linewidth=1.8, label=line.name)
