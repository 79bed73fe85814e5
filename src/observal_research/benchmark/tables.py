"""The benchmark's tables and sentences: test errors first, then ours against the best single peer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from observal.checks import Floats
from observal.problem.words import count
from observal_research.benchmark.cells import Cell
from observal_research.benchmark.scores import TOLERANCE, Difference, paired_excess

if TYPE_CHECKING:
    from observal_research.benchmark.report import BenchmarkReport

TREE_SETS = ("eeg", "magic")
"""Real sets that no linear model fits: there our error is also compared with the best peer on trees."""
OVERALL_HEADER = (
    "mean test error, %",
    "contestant",
    "ours minus it, points",
    "95 % over cells",
    "cells won",
    "worse by more than 0.4",
    "seconds a run",
)
"""The titles of ``overall_rows``."""


def overall_rows(report: BenchmarkReport, ours: str) -> list[tuple[str, ...]]:
    """Return every contestant of the cells that `ours` ran in, the lowest mean error first."""
    cells, seconds = report.cells_of(ours), report.seconds_by_contestant
    names = [n for n in report.spec.contestants if cells and all(report.spec.runs(cell, n) for cell in cells)]
    out = []
    for name in sorted(names, key=lambda name: report.mean_error(name, cells)):
        row = [f"{100 * report.mean_error(name, cells):.2f}", name, "", "", "", "", f"{seconds[name]:.1f}"]
        if name != ours:
            difference = report.difference(ours, name, cells)
            worse = [paired_excess(report.errors(cell, ours), report.errors(cell, name)).worse for cell in cells]
            interval = _interval(difference) if difference.groups > 1 else ""
            won = f"{difference.won} of {difference.groups}"
            row[2:6] = f"{100 * difference.mean:+.2f}", interval, won, str(sum(worse))
        out.append(tuple(row))
    return out


def header(report: BenchmarkReport) -> list[str]:
    """Return the titles of ``rows``."""
    return ["mean test error, %", *report.spec.contestants, "all labels", *_against(report)]


def _against(report: BenchmarkReport) -> list[str]:
    peers = {ours: report.best_peer(report.cells_of(ours)) for ours in report.spec.methods}
    return [f"{ours} − {peer}" for ours, peer in peers.items() if peer is not None]


def rows(report: BenchmarkReport) -> list[tuple[str, ...]]:
    """Return, for each cell, every contestant's error and what ours has more than the best peer; then means."""
    body = [(cell.name, *_cell_errors(report, cell), *_cell_excess(report, cell)) for cell in report.spec.cells]
    cells_of = {name: report.cells_of(name) for name in report.spec.contestants}
    means = [f"{100 * report.mean_error(name, cells):.2f}" if cells else "—" for name, cells in cells_of.items()]
    reference = float(np.mean([report.all_labels(cell).mean() for cell in report.spec.cells]))
    against = [
        f"{100 * report.difference(ours, peer, cells_of[ours]).mean:+.2f}"
        for ours in report.spec.methods
        if (peer := report.best_peer(cells_of[ours])) is not None
    ]
    return [*body, ("mean over its cells", *means, f"{100 * reference:.2f}", *against)]


def _cell_errors(report: BenchmarkReport, cell: Cell) -> list[str]:
    names = report.spec.contestants
    errors = [_points(report.errors(cell, name)) if report.spec.runs(cell, name) else "—" for name in names]
    return [*errors, f"{100 * report.all_labels(cell).mean():.2f}"]


def _cell_excess(report: BenchmarkReport, cell: Cell) -> list[str]:
    compared = [ours for ours in report.spec.methods if report.best_peer(report.cells_of(ours)) is not None]
    excesses = [report.excess(cell, ours) for ours in compared]
    return ["—" if e is None else f"{_difference(e.mean, e.se)}{' worse' if e.worse else ''}" for e in excesses]


def difference_rows(report: BenchmarkReport) -> list[tuple[str, ...]]:
    """Return how much more error each of our methods has than the first, in points, by group of cells and over all."""
    groups = [*report.groups.values(), [cell for cells in report.groups.values() for cell in cells]]
    differences = [report.differences(cells) for cells in groups]
    return [(name, *(_difference(*group[name]) for group in differences)) for name in differences[0]]


def verdict(report: BenchmarkReport, ours: str) -> list[str]:
    """Return what there is to say about one of our methods."""
    cells = report.cells_of(ours)
    peer = report.best_peer(cells)
    left_out = len(report.spec.cells) - len(cells)
    lines = [f"{ours} takes two classes alone, so it was not run in {count(left_out, 'cell')}."] if left_out else []
    if not cells:
        return lines
    if peer is None:
        return [*lines, f"No peer was run to compare {ours} with; pip install 'observal[bench]'."]
    by_cell, by_data = (report.difference(ours, peer, cells, by_data) for by_data in (False, True))
    ours_mean, peer_mean = (100 * report.mean_error(name, cells) for name in (ours, peer))
    lines.append(
        f"{ours}: mean test error {ours_mean:.2f} % over {count(len(cells), 'cell')}. The best single peer of any family, {peer}, "
        f"has {peer_mean:.2f} %. Difference {100 * by_cell.mean:+.2f} points (95 % interval over cells "
        f"{_interval(by_cell)}, over {count(by_data.groups, 'data set')} {_interval(by_data)}); lower in {by_cell.won} of "
        f"{count(by_cell.groups, 'cell')}."
    )
    worse = [cell.name for cell in report.worse(ours)]
    lines.append(
        f"{ours} is worse than {peer} by more than {100 * TOLERANCE:g} points (95 % lower bound) in "
        f"{len(worse)} of {count(len(cells), 'cell')}{': ' if worse else ''}{', '.join(worse)}."
    )
    return [*lines, *_generated_lines(report, ours), *_tree_lines(report, ours)]


def _generated_lines(report: BenchmarkReport, ours: str) -> list[str]:
    if (comparison := report.generated_ratio(ours)) is None:
        return []
    peer, r = comparison
    return [
        f"Generated scenarios ({count(r.cells, 'cell')}): {ours}'s area above the all-labels error is {100 * r.ours:.2f} points, "
        f"that of {peer}, the best peer there, {100 * r.theirs:.2f}; ratio {r.estimate:.2f} (95 % interval "
        f"{r.low:.2f} to {r.high:.2f})."
    ]


def _tree_lines(report: BenchmarkReport, ours: str) -> list[str]:
    lines = []
    for data in TREE_SETS:
        cells = [cell for cell in report.cells_of(ours) if cell.data == data]
        if (peer := report.best_peer(cells, trees=True)) is not None:
            mine, theirs = (100 * report.mean_error(name, cells) for name in (ours, peer))
            lines.append(
                f"On {data}, {ours} has {mine:.2f} %, the best peer on trees, {peer}, {theirs:.2f} %: "
                f"{mine - theirs:+.2f} points."
            )
    return lines


def to_markdown(report: BenchmarkReport) -> str:
    """Return the summary and the tables as Markdown."""
    overall = [markdown(OVERALL_HEADER, overall_rows(report, ours)) for ours in report.spec.methods]
    return "\n\n".join(["\n".join(report.summary()), *overall, markdown(header(report), rows(report))]) + "\n"


def markdown(titles: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown.

    Examples
    --------
    >>> print(markdown(["a", "b"], [("1", "2")]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    return "\n".join(f"| {' | '.join(line)} |" for line in [titles, ["---"] * len(titles), *body])


def standard_error(values: Floats) -> float:
    """Return the standard error of the mean, NaN for one value."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")


def _points(values: Floats) -> str:
    """Return a mean and its standard error, in points of error."""
    se = standard_error(values)
    return f"{100 * values.mean():.2f}" + (f" ± {100 * se:.2f}" if np.isfinite(se) else "")


def _difference(mean: float, se: float) -> str:
    return f"{100 * mean:+.2f}" + (f" ± {100 * se:.2f}" if np.isfinite(se) else "")


def _interval(difference: Difference) -> str:
    if difference.groups < 2:
        return "unknown"
    return f"{100 * difference.low:+.2f} to {100 * difference.high:+.2f}"
