"""The results of a benchmark: areas by cell, ratios to the best peer, tables, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from observal.checks import Floats
from observal.experiments.benchmark.cells import Cell
from observal.experiments.benchmark.scores import (
    TOLERANCE,
    Excess,
    Ratio,
    best_single,
    excess_area,
    labels_to_near,
    paired_excess,
    ratio_of_sums,
)
from observal.experiments.benchmark.specification import ALL_LABELS, ALL_LABELS_TREES, Specification
from observal.experiments.curves import Curve

CURVE_STEP = 10
"""Labels from one point of a mean curve to the next in ``results.json``."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """One of our methods against the best single peer over a set of cells.

    Parameters
    ----------
    cells : str
        Which cells, in words.
    ours, peer : str
        The two contestants.
    ratio : Ratio
        Of their areas, summed over the cells.
    """

    cells: str
    ours: str
    peer: str
    ratio: Ratio

    def __str__(self) -> str:
        r = self.ratio
        return (
            f"{self.ours} against {self.peer}, the best single peer over {self.cells} ({r.cells} cells): mean area "
            f"{r.ours:.4f} to {r.theirs:.4f}, ratio {r.estimate:.2f} (95 % interval {r.low:.2f} to {r.high:.2f})."
        )


@dataclass(frozen=True, eq=False)
class BenchmarkReport:
    """Every curve of a benchmark, and what follows from them.

    Parameters
    ----------
    spec : Specification
        What was run.
    curves : dict
        From (cell name, trial, contestant) to its curve.
    seconds : dict
        From the same to the time it took.
    """

    spec: Specification
    curves: dict[tuple[str, int, str], Curve]
    seconds: dict[tuple[str, int, str], float]

    # -- numbers of one contestant in one cell --------------------------------------------------------------------------

    def trials(self, cell: Cell, contestant: str) -> list[Curve]:
        """Return the contestant's curves, one for each trial."""
        return [self.curves[cell.name, trial, contestant] for trial in range(self.spec.trials)]

    def all_labels(self, cell: Cell, contestant: str = ALL_LABELS) -> Floats:
        """Return, for each trial, the error with all labels in the model family of the contestant."""
        trees = contestant in (*self.spec.tree_contestants, ALL_LABELS_TREES)
        return np.array([c.errors[0] for c in self.trials(cell, ALL_LABELS_TREES if trees else ALL_LABELS)])

    def areas(self, cell: Cell, contestant: str) -> Floats:
        """Return the area between test error and all-labels error for each trial."""
        pairs = zip(self.trials(cell, contestant), self.all_labels(cell, contestant), strict=True)
        return np.array([excess_area(curve, float(error), self.spec.label_budget) for curve, error in pairs])

    def errors(self, cell: Cell, contestant: str) -> Floats:
        """Return the mean test error over the budget for each trial."""
        return np.array([curve.area(self.spec.label_budget) for curve in self.trials(cell, contestant)])

    def near(self, cell: Cell, contestant: str) -> list[float | None]:
        """Return the labels that bring each trial within one point of the error with all labels; None if it never gets there."""
        pairs = zip(self.trials(cell, contestant), self.all_labels(cell, contestant), strict=True)
        return [labels_to_near(curve, float(error), self.spec.label_budget) for curve, error in pairs]

    def mean_near(self, cell: Cell, contestant: str) -> float:
        """Return the mean of :meth:`near`; a trial that never gets there counts as the whole budget."""
        budget = self.spec.label_budget
        return float(np.mean([budget if labels is None else labels for labels in self.near(cell, contestant)]))

    # -- comparisons -----------------------------------------------------------------------------------------------------

    @cached_property
    def best_peer(self) -> str | None:
        """The peer with the smallest mean area over all cells; None without peers."""
        return self._best_peer(self.spec.cells)

    def _best_peer(self, cells: Sequence[Cell]) -> str | None:
        areas = {peer: [self.areas(cell, peer) for cell in cells] for peer in self.spec.linear_peers}
        return best_single(areas) if areas and cells else None

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Each of our methods against the best peer over all cells, and over real sets without a blind spot."""
        plain = [cell for cell in self.spec.cells if cell.plain]
        groups = {"all cells": self.spec.cells, "real sets without a blind spot": plain}
        return [
            Comparison(words, ours, peer, self._ratio(cells, ours, peer))
            for words, cells in groups.items()
            if (peer := self._best_peer(cells)) is not None
            for ours in self.spec.methods
        ]

    def _ratio(self, cells: Sequence[Cell], ours: str, peer: str) -> Ratio:
        mine, theirs = ([self.areas(cell, name) for cell in cells] for name in (ours, peer))
        return ratio_of_sums(mine, theirs, seed=self.spec.seed)

    def excess(self, cell: Cell, ours: str) -> Excess | None:
        """Return our area minus the best peer's in the cell; None without peers."""
        peer = self.best_peer
        return None if peer is None else paired_excess(self.areas(cell, ours), self.areas(cell, peer))

    def worse(self, ours: str) -> list[Cell]:
        """Return the cells in which our method is significantly worse than the best peer by more than the tolerance."""
        return [cell for cell in self.spec.cells if (found := self.excess(cell, ours)) is not None and found.worse]

    def differences(self, cells: Sequence[Cell]) -> dict[str, tuple[float, float]]:
        """Return the area of each of our methods minus that of the first, averaged over cells, and its standard error.

        Differences are paired by trial; with one trial the standard error is NaN.
        """
        first, *others = self.spec.methods
        out = {}
        for name in others:
            pairs = np.array([self.areas(cell, name) - self.areas(cell, first) for cell in cells])
            n = pairs.shape[1]
            variance = pairs.var(axis=1, ddof=1).sum() / n if n > 1 else np.nan
            out[name] = float(pairs.mean()), float(np.sqrt(variance)) / len(pairs)
        return out

    @property
    def groups(self) -> dict[str, list[Cell]]:
        """The generated cells and the real ones, without empty groups."""
        found = {
            "generated": [cell for cell in self.spec.cells if not cell.real],
            "real, without a blind spot": [cell for cell in self.spec.cells if cell.plain],
            "real, blind spot": [cell for cell in self.spec.cells if cell.real and not cell.plain],
        }
        return {name: cells for name, cells in found.items() if cells}

    def difference_rows(self) -> list[tuple[str, ...]]:
        """Return the table of :meth:`differences`, in points, by group of cells and over all of them."""
        groups = [*self.groups.values(), list(self.spec.cells)]
        found = [self.differences(cells) for cells in groups]
        return [(name, *(_difference(*f[name]) for f in found)) for name in found[0]]

    # -- tables ----------------------------------------------------------------------------------------------------------

    @property
    def header(self) -> list[str]:
        """The titles of :meth:`rows`; areas are in points of error (%)."""
        return ["cell", "all labels, %", *self.spec.contestants]

    def rows(self) -> list[tuple[str, ...]]:
        """Return, for each cell, the all-labels error and every contestant's area ± standard error; then the means."""
        body = [
            (
                cell.name,
                f"{100 * self.all_labels(cell).mean():.1f}",
                *(_points(self.areas(cell, name)) for name in self.spec.contestants),
            )
            for cell in self.spec.cells
        ]
        means = [np.mean([self.areas(cell, name).mean() for cell in self.spec.cells]) for name in self.spec.contestants]
        return [*body, ("mean over cells", "", *(f"{100 * mean:.2f}" for mean in means))]

    @property
    def tree_header(self) -> list[str]:
        """The titles of :meth:`tree_rows`; mean test errors in %, so that model families can be compared."""
        return ["cell", "all labels, %", *self.spec.tree_contestants, *self.spec.methods]

    def tree_rows(self) -> list[tuple[str, ...]]:
        """Return the mean test error of contestants on boosted trees, beside our methods on linear models."""
        return [
            (
                cell.name,
                f"{100 * self.all_labels(cell, ALL_LABELS_TREES).mean():.1f}",
                *(_points(self.errors(cell, name)) for name in (*self.spec.tree_contestants, *self.spec.methods)),
            )
            for cell in self.spec.tree_cells
        ]

    def summary(self) -> list[str]:
        """Return a summary in a few sentences."""
        if self.best_peer is None:
            return [
                "No peer was run, so there is nothing to compare with; install them with pip install 'observal[bench]'."
            ]
        lines = [str(comparison) for comparison in self.comparisons]
        for ours in self.spec.methods:
            worse = [cell.name for cell in self.worse(ours)]
            lines.append(
                f"{ours} is worse than {self.best_peer} by more than {100 * TOLERANCE:g} points (95 % lower bound) in "
                f"{len(worse)} of {len(self.spec.cells)} cells{': ' if worse else ''}{', '.join(worse)}."
            )
        return lines

    @property
    def seconds_by_contestant(self) -> dict[str, float]:
        """The mean time of one run of each contestant."""
        names = dict.fromkeys(name for _, _, name in self.seconds)
        return {n: float(np.mean([s for (_, _, name), s in self.seconds.items() if name == n])) for n in names}

    # -- JSON ------------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything for ``results.json``."""
        return {
            "specification": self.spec.to_dict(),
            "best_peer": self.best_peer,
            "comparisons": [
                {"cells": c.cells, "ours": c.ours, "peer": c.peer, **c.ratio.to_dict()} for c in self.comparisons
            ],
            "worse": {ours: [cell.name for cell in self.worse(ours)] for ours in self.spec.methods},
            "cells": {cell.name: self._cell(cell) for cell in self.spec.cells},
            "seconds": {name: round(value, 3) for name, value in self.seconds_by_contestant.items()},
            "summary": self.summary(),
        }

    def _cell(self, cell: Cell) -> dict[str, Any]:
        names = (*self.spec.contestants, *(self.spec.tree_contestants if cell in self.spec.tree_cells else ()))
        out: dict[str, Any] = {"all_labels": float(self.all_labels(cell).mean())}
        if cell in self.spec.tree_cells:
            out["all_labels_trees"] = float(self.all_labels(cell, ALL_LABELS_TREES).mean())
        out["contestants"] = {name: self._contestant(cell, name) for name in names}
        found = {ours: self.excess(cell, ours) for ours in self.spec.methods}
        out["excess"] = {ours: excess.to_dict() for ours, excess in found.items() if excess is not None}
        return out

    def _contestant(self, cell: Cell, name: str) -> dict[str, Any]:
        areas, near = self.areas(cell, name), self.near(cell, name)
        where = np.arange(0, self.spec.label_budget + 1, CURVE_STEP)
        mean = np.mean([curve.at(where) for curve in self.trials(cell, name)], axis=0)
        return {
            "area": float(areas.mean()),
            "area_se": _se(areas),
            "error": float(self.errors(cell, name).mean()),
            "labels_to_near": self.mean_near(cell, name),
            "trials_near": sum(labels is not None for labels in near),
            "area_by_trial": areas.round(6).tolist(),
            "curve": [[int(labels), round(float(error), 6)] for labels, error in zip(where, mean, strict=True)],
        }


def _se(values: Floats) -> float | None:
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None


def _points(values: Floats) -> str:
    """Return a mean and its standard error, in points of error."""
    se = _se(values)
    return f"{100 * values.mean():.2f}" + ("" if se is None else f" ± {100 * se:.2f}")


def _difference(mean: float, se: float) -> str:
    return f"{100 * mean:+.2f}" + (f" ± {100 * se:.2f}" if np.isfinite(se) else "")
