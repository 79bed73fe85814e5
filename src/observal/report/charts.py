"""The report's charts as inline SVG: small enough to read on a phone, with colours set by the page's CSS."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from observal.checks import Floats, Ints
from observal.diagnosis.calibration_check import Calibration
from observal.problem.interval import Interval
from observal.problem.words import number, percent
from observal.report.verdict import is_known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can tell apart; markers and dashes help in black and white.
STYLES: tuple[tuple[str, str, str], ...] = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#555555", "^", "-."),
    ("#009E73", "D", ":"),
    ("#CC79A7", "v", "-"),
    ("#E69F00", "P", "--"),
    ("#56B4E9", "X", "-."),
    ("#000000", "*", ":"),
)
INK, MUTED, RULE, CLOUD = "#1f2328", "#5b646e", "#d0d7de", "#7f8790"
BLUE, ORANGE = "#0072b2", "#d55e00"
# The CSS name of each colour; its value depends on the reader's light or dark scheme, and on print.
CSS_NAMES = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    CLOUD: "var(--cloud)",
    BLUE: "var(--blue)",
    ORANGE: "var(--orange)",
}
WIDTH, HEIGHT = 4.7, 3.1  # inches; about as wide as a phone
LONGEST_NAME = 38  # characters on an axis or in a legend
SMALLEST_PROPENSITY = 1e-6  # that is drawn


@dataclass(frozen=True)
class Chart:
    """A figure for the page: its SVG, its text alternative, and its caption."""

    svg: str
    alt: str
    caption: str


def draw(name: str, alt: str, caption: str, paint: Callable[[Axes], object], below: bool = False) -> Chart:
    """Draw a chart with one pair of axes and return it as SVG for a page.

    `name` is a prefix for the ids in the SVG, so that several charts can be on one page. `paint` draws on matplotlib axes; with `below`,
    the legend is below the axes instead of inside.

    Examples
    --------
    >>> chart = draw("line", "A line that rises.", "Rising.", lambda axes: axes.plot([0, 1], [0, 1]))
    >>> chart.svg.startswith("<svg"), "http" in chart.svg.replace("http://www.w3.org/", "")
    (True, False)
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    style = figure_style(10.5) | {
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": MUTED,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "legend.fontsize": 9.5,
    }
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reader's browser draws glyphs that matplotlib's font lacks
        layout = ConstrainedLayoutEngine()
        figure = Figure(figsize=(WIDTH, HEIGHT), layout=layout)
        axes = figure.subplots()
        axes.set_axisbelow(True)
        paint(axes)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            options: Any = {"loc": "outside lower center", "ncols": 2} if below else {}
            (figure if below else axes).legend(handles, labels, **options)
        # Once: left to savefig, it would draw the whole chart twice, and so would it with "none".
        layout.execute(figure)
        figure.set_layout_engine(None)
        buffer = StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return Chart(_for_page(buffer.getvalue(), name, alt), alt, caption)


def figure_style(font_size: float) -> dict[Any, Any]:
    """Return the matplotlib settings that all our figures share."""
    return {
        "font.size": font_size,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "observal",  # equal numbers give an equal file
        "svg.fonttype": "none",
        "text.parse_math": False,  # a dollar sign in a name is not the start of a formula
    }


def _for_page(svg: str, name: str, alt: str) -> str:
    """Return the SVG for use inside a page: with a title, unique ids and the page's colours, without file headers."""
    from markupsafe import escape

    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<[^>]*>", lambda tag: _tag_for_page(tag[0], name), svg)  # only tags: a class may be named id="x"
    svg = re.sub(
        r'^<svg[^>]*?viewBox="([^"]*)"[^>]*>',
        rf'<svg viewBox="\1" role="img" aria-labelledby="{name}-alt" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">',
        svg,
    )
    end = svg.index(">") + 1
    return f'{svg[:end]}<title id="{name}-alt">{escape(alt)}</title>{svg[end:]}'


def _tag_for_page(tag: str, name: str) -> str:
    tag = re.sub(r'\bid="', f'id="{name}-', tag)
    tag = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", tag)
    for colour, css in CSS_NAMES.items():
        tag = tag.replace(colour, css)
    return tag


def label(text: object) -> str:
    """Return a name for an axis or a legend: one short line.

    Examples
    --------
    >>> label("worst  area"), len(label("x" * 100))
    ('worst area', 38)
    """
    plain = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1] + "…"


def error_chart(history: Sequence[tuple[int, Interval]], what: str = "error") -> Chart:
    """Draw the estimated error, or another share, and its interval against the labels bought; one interval at least rules something out."""
    labels, intervals = np.array([n for n, _ in history]), [interval for _, interval in history]
    estimates = np.array([100 * interval.estimate if is_known(interval) else np.nan for interval in intervals])
    low, high = [100 * interval.low for interval in intervals], [100 * interval.high for interval in intervals]

    def paint(axes: Axes) -> None:
        confidence = f"{100 * intervals[-1].confidence:g}% interval"
        if len(intervals) > 1:
            axes.fill_between(labels, low, high, color=BLUE, alpha=0.18, linewidth=0, label=confidence)
        else:
            axes.vlines(labels, low, high, color=BLUE, alpha=0.5, linewidth=5, label=confidence)
        axes.plot(labels, estimates, color=BLUE, marker="o", markersize=3.5, linewidth=1.6, label=f"estimated {what}")
        _set_progress_axes(axes, labels, "error on the population, %" if what == "error" else f"{what}, %")

    finite = np.flatnonzero(np.isfinite(estimates)).tolist()
    ends = [f"{percent(estimates[i] / 100)} with {labels[i]} labels" for i in dict.fromkeys((finite[0], finite[-1]))]
    alt = f"Line chart of the estimated {what} against labels bought: {', '.join(ends)}."
    caption = (
        f"The estimated {what} after each round. Where the band is wide, there are too few labels to know it well."
    )
    return draw("error", alt, caption, paint)


def recall_chart(curve: Sequence[tuple[float, Interval]], now: tuple[float, Interval], positive: str) -> Chart:
    """Draw recall and its interval against the share of rows flagged, with the model's own threshold marked."""
    shares = 100 * np.array([0.0, *(share for share, _ in curve), 1.0])
    estimates, low, high = (
        100 * np.array([0.0, *(getattr(interval, end) for _, interval in curve), 1.0])
        for end in ("estimate", "low", "high")
    )

    def paint(axes: Axes) -> None:
        axes.fill_between(shares, low, high, color=BLUE, alpha=0.18, linewidth=0, label="interval")
        axes.plot(shares, estimates, color=BLUE, linewidth=1.6, label="recall")
        point = f"this model flags {percent(now[0])}"
        axes.plot(100 * now[0], 100 * now[1].estimate, color=ORANGE, marker="D", linestyle="none", label=point)
        axes.set(xlabel="rows flagged, %", ylabel=f"recall of {label(positive)}, %", xlim=(0, 100), ylim=(0, 102))
        axes.grid(axis="y", color=RULE, linewidth=0.6)
        axes.legend(loc="lower right")

    alt = (
        f"Curve of recall against the share of rows flagged: the model flags {percent(now[0])} and finds "
        f"{percent(now[1].estimate)} of {positive}."
    )
    caption = "What would be found if more or fewer rows were flagged. The mark is the model's own threshold."
    return draw("recall", alt, caption, paint)


def uncertain_chart(labels: Sequence[int], disagreement: Sequence[float]) -> Chart:
    """Draw the share of the pool on which plausible classifiers disagree, against the labels bought."""

    def paint(axes: Axes) -> None:
        axes.plot(labels, 100 * np.asarray(disagreement), color=ORANGE, marker="s", markersize=3, linewidth=1.6)
        _set_progress_axes(axes, np.asarray(labels), "share of the pool, %")

    alt = (
        "Line chart of the share of the pool that is uncertain against labels bought: from "
        f"{percent(disagreement[0])} to {percent(disagreement[-1])}."
    )
    caption = "The share of the pool whose predicted class might still change with more labels."
    return draw("uncertain", alt, caption, paint)


def _set_progress_axes(axes: Axes, labels: Ints, title: str) -> None:
    """Set axes from 0 on, with whole numbers of labels bought on the horizontal one."""
    from matplotlib.ticker import MaxNLocator

    axes.set(xlabel="labels bought", ylabel=title)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if labels.max(initial=0) > 0:
        axes.set_xlim(0, 1.03 * labels.max())


def _plain_log(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with numbers as people write them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300.0 * low else (1.0,), numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def overlap_chart(pool_propensity: Floats, revealed_propensity: Floats, threshold: float) -> Chart:
    """Draw how likely the old policy was to label the pool's rows, and where rows count as barely covered."""

    def logarithm(values: Floats) -> Floats:
        return np.log10(np.clip(values, SMALLEST_PROPENSITY, 1.0))

    def shares(values: Floats) -> Floats:
        return 100 * np.histogram(logarithm(values), bins)[0] / max(1, values.size)

    bins = np.linspace(max(np.log10(SMALLEST_PROPENSITY), logarithm(pool_propensity).min() - 0.1), 0.0, 25)

    def paint(axes: Axes) -> None:
        axes.stairs(shares(pool_propensity), 10**bins, fill=True, color=CLOUD, alpha=0.55, label="rows of the pool")
        if revealed_propensity.size:
            axes.stairs(shares(revealed_propensity), 10**bins, color=BLUE, linewidth=1.6, label="labels in the log")
        axes.axvline(threshold, color=ORANGE, linewidth=1.4, linestyle="--", label="barely covered to the left")
        _plain_log(axes)
        axes.set(xlabel="propensity", ylabel="share of rows, %")

    barely = float(np.mean(pool_propensity < threshold))
    alt = (
        f"Histogram of the pool's propensities on a logarithmic scale; {percent(barely)} lie below {number(threshold)}, "
        "where rows are barely covered."
    )
    caption = "Rows left of the dashed line are barely covered: the log has almost no labels for rows like them."
    return draw("overlap", alt, caption, paint, below=True)


def calibration_chart(calibration: Calibration) -> Chart:
    """Draw the share of labels revealed against the share expected from the propensities."""
    bins = calibration.bins
    promised = np.array([100 * b.promised for b in bins])
    observed = np.array([100 * b.observed for b in bins])
    reach = np.array([200 * b.error for b in bins])

    def paint(axes: Axes) -> None:
        top = 1.08 * max(float((promised + reach).max()), float(observed.max()), 1.0)
        axes.plot([0, top], [0, top], color=MUTED, linewidth=1, linestyle="--", label="as expected")
        axes.errorbar(
            promised, promised, yerr=reach, fmt="none", ecolor=CLOUD, elinewidth=5, alpha=0.5, label="within chance"
        )
        axes.scatter(promised, observed, color=BLUE, s=26, zorder=3, linewidths=0, label="observed")
        axes.set(xlabel="labels expected, %", ylabel="labels revealed, %", xlim=(0, top), ylim=(0, top))

    alt = (
        f"Scatter plot of labels revealed against labels expected, in {len(bins)} groups of rows; on average they differ by "
        f"{percent(calibration.expected_error)}."
    )
    caption = "Each point is a group of rows with similar propensities. A point far from its grey bar is unlikely to be chance."
    return draw("calibration", alt, caption, paint, below=True)


def weights_chart(weights: Floats, clip: float) -> Chart:
    """Draw the weights of the revealed labels and the clip."""
    inside = np.log10(np.clip(weights, 1.0, 1e12))
    bins = np.linspace(0.0, max(0.3, float(inside.max()), float(np.log10(min(clip, 1e12)))) * 1.05, 26)

    def paint(axes: Axes) -> None:
        axes.stairs(
            np.histogram(inside, bins)[0], 10**bins, fill=True, color=BLUE, alpha=0.75, label="labels in the log"
        )
        axes.axvline(clip, color=ORANGE, linewidth=1.4, linestyle="--", label=f"clip: {number(clip)}")
        _plain_log(axes)
        axes.set(xlabel="weight (rows a label stands for)", ylabel="labels")

    alt = (
        f"Histogram of the weights of {weights.size} labels on a logarithmic scale, from {number(float(weights.min()))} to "
        f"{number(float(weights.max()))}; the clip is at {number(clip)}."
    )
    caption = "A label with weight 10 stands for ten rows. Labels right of the dashed line are left out."
    return draw("weights", alt, caption, paint, below=True)
