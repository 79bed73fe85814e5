"""What a finished benchmark says: test errors by cell, ours against the best single peer, tables, and a summary.

A contestant's error in a trial is its mean test error over 0…`label_budget` labels. The best single peer is the one with the
lowest mean error over all cells, whatever its model family; the peer that happens to be best in a cell is not used,
because it is not known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from observal.checks import Floats
from observal_research.benchmark import tables
from observal_research.benchmark.cells import Cell
from observal_research.benchmark.peers import PEERS
from observal_research.benchmark.scores import (
    Difference,
    Excess,
    Ratio,
    best_single,
    paired_difference,
    paired_excess,
    ratio_of_sums,
)
from observal_research.benchmark.specification import ALL_LABELS, Specification
from observal_research.curves import Curve

CURVE_STEP = 10
"""Labels from one point of a mean curve to the next in ``results.json``."""


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
        """Return the contestant's curves, one a trial."""
        return [self.curves[cell.name, trial, contestant] for trial in range(self.spec.trials)]

    def errors(self, cell: Cell, contestant: str) -> Floats:
        """Return the mean test error over the budget, one a trial."""
        return np.array([self._error[cell.name, trial, contestant] for trial in range(self.spec.trials)])

    @cached_property
    def _error(self) -> dict[tuple[str, int, str], float]:
        return {key: curve.area(self.spec.label_budget) for key, curve in self.curves.items()}

    def all_labels(self, cell: Cell) -> Floats:
        """Return, for each trial, the error that all labels give in the model family for which that is lowest."""
        by_family = [[c.errors[0] for c in self.trials(cell, ALL_LABELS + family)] for family in self.spec.families]
        return np.array(min(by_family, key=lambda errors: float(np.mean(errors))))

    def areas(self, cell: Cell, contestant: str) -> Floats:
        """Return the area between test error and all-labels error, one a trial; the latter is the same for all contestants."""
        return self.errors(cell, contestant) - self.all_labels(cell)

    def cells_of(self, contestant: str) -> list[Cell]:
        """Return the cells in which the contestant was run."""
        return [cell for cell in self.spec.cells if self.spec.runs(cell, contestant)]

    def mean_error(self, contestant: str, cells: Sequence[Cell]) -> float:
        """Return the mean over cells of the mean over trials."""
        return float(np.mean([self.errors(cell, contestant).mean() for cell in cells]))

    # -- comparisons -----------------------------------------------------------------------------------------------------

    def best_peer(self, cells: Sequence[Cell], trees: bool = False) -> str | None:
        """Return the one peer with the least mean error over the cells, of those that ran in all; None without peers.

        `trees` leaves out the peers on other models.
        """
        peers = [peer for peer in self.spec.peers or () if PEERS[peer].trees or not trees]
        errors = {
            peer: [self.errors(cell, peer) for cell in cells]
            for peer in peers
            if all(self.spec.runs(cell, peer) for cell in cells)
        }
        return best_single(errors) if errors and cells else None

    def difference(self, ours: str, theirs: str, cells: Sequence[Cell], by_data: bool = False) -> Difference:
        """Return our error minus theirs, with an interval over cells or, with `by_data`, over data sets."""
        groups = [[cell for cell in cells if cell.data == data] for data in dict.fromkeys(cell.data for cell in cells)]
        pairs = [
            [np.concatenate([self.errors(cell, name) for cell in group]) for name in (ours, theirs)]
            for group in (groups if by_data else [[cell] for cell in cells])
        ]
        return paired_difference([pair[0] for pair in pairs], [pair[1] for pair in pairs])

    def excess(self, cell: Cell, ours: str) -> Excess | None:
        """Return our error minus the best single peer's in the cell; None where there is nothing to compare."""
        peer = self.best_peer(self.cells_of(ours))
        if peer is None or not self.spec.runs(cell, ours):
            return None
        return paired_excess(self.errors(cell, ours), self.errors(cell, peer))

    def worse(self, ours: str) -> list[Cell]:
        """Return the cells in which we are worse than the best peer by more than the tolerance, as far as can be told."""
        return [cell for cell in self.spec.cells if (excess := self.excess(cell, ours)) is not None and excess.worse]

    def generated_ratio(self, ours: str) -> tuple[str, Ratio] | None:
        """Return the best peer over the generated cells, and our area over its area; None without either."""
        cells = [cell for cell in self.spec.cells if not cell.real]
        peer = self.best_peer(cells)
        if peer is None:
            return None
        mine, theirs = ([self.areas(cell, name) for cell in cells] for name in (ours, peer))
        return peer, ratio_of_sums(mine, theirs, random_state=self.spec.random_state)

    def differences(self, cells: Sequence[Cell]) -> dict[str, tuple[float, float]]:
        """Return how much more error each of our methods has than the first of them, over cells, and the standard error.

        Pairs are of the same trial; with one trial the standard error is NaN.
        """
        first, *variants = self.spec.methods
        out = {}
        for name in variants:
            pairs = np.array([self.errors(cell, name) - self.errors(cell, first) for cell in cells])
            n = pairs.shape[1]
            variance = pairs.var(axis=1, ddof=1).sum() / n if n > 1 else np.nan
            out[name] = float(pairs.mean()), float(np.sqrt(variance)) / len(pairs)
        return out

    @property
    def groups(self) -> dict[str, list[Cell]]:
        """The generated cells and the real ones in which all of our methods ran, where there are some."""
        cells = [cell for cell in self.spec.cells if all(self.spec.runs(cell, name) for name in self.spec.methods)]
        groups = {
            "generated": [cell for cell in cells if not cell.real],
            "real, without a blind spot": [cell for cell in cells if cell.plain],
            "real, blind spot": [cell for cell in cells if cell.real and not cell.plain],
        }
        return {name: cells for name, cells in groups.items() if cells}

    # -- tables, made in ``observal_research.benchmark.tables`` ----------------------------------------------------

    @property
    def header(self) -> list[str]:
        """The titles of ``rows``."""
        return tables.header(self)

    def rows(self) -> list[tuple[str, ...]]:
        """Return, for each cell, every contestant's error ± standard error and what ours has more than the best peer; then means."""
        return tables.rows(self)

    def overall_rows(self, ours: str) -> list[tuple[str, ...]]:
        """Return every contestant of the cells that `ours` ran in, the lowest mean error first."""
        return tables.overall_rows(self, ours)

    def difference_rows(self) -> list[tuple[str, ...]]:
        """Return the table of ``differences``, in points, by group of cells and over all of them."""
        return tables.difference_rows(self)

    def summary(self) -> list[str]:
        """Return the verdict in a few sentences."""
        return [line for ours in self.spec.methods for line in tables.verdict(self, ours)]

    def to_markdown(self) -> str:
        """Return the tables and the summary for ``tables.md``."""
        return tables.to_markdown(self)

    @property
    def seconds_by_contestant(self) -> dict[str, float]:
        """The mean time of one run of each contestant."""
        names = dict.fromkeys(name for _, _, name in self.seconds)
        return {n: float(np.mean([s for (_, _, name), s in self.seconds.items() if name == n])) for n in names}

    # -- files -----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything for ``results.json``."""
        return {
            "specification": self.spec.to_dict(),
            "methods": {ours: self._method(ours) for ours in self.spec.methods},
            "cells": {cell.name: self._cell(cell) for cell in self.spec.cells},
            "seconds": {name: round(value, 3) for name, value in self.seconds_by_contestant.items()},
            "summary": self.summary(),
        }

    def _method(self, ours: str) -> dict[str, Any]:
        cells = self.cells_of(ours)
        out: dict[str, Any] = {"error": self.mean_error(ours, cells) if cells else None, "cells": len(cells)}
        if (peer := self.best_peer(cells)) is not None:
            out |= {
                "best_peer": peer,
                "best_peer_error": self.mean_error(peer, cells),
                "over_cells": self.difference(ours, peer, cells).to_dict(),
                "over_data_sets": self.difference(ours, peer, cells, by_data=True).to_dict(),
                "worse": [cell.name for cell in self.worse(ours)],
            }
        if (comparison := self.generated_ratio(ours)) is not None:
            peer, ratio = comparison
            out["generated"] = {"peer": peer, **ratio.to_dict()}
        return out

    def _cell(self, cell: Cell) -> dict[str, Any]:
        names = [name for name in self.spec.contestants if self.spec.runs(cell, name)]
        excesses = {ours: self.excess(cell, ours) for ours in self.spec.methods}
        families = {name: self.trials(cell, ALL_LABELS + name) for name in self.spec.families}
        return {
            "classes": cell.classes,
            "all_labels": {name: float(np.mean([c.errors[0] for c in curves])) for name, curves in families.items()},
            "contestants": {name: self._contestant(cell, name) for name in names},
            "excess": {ours: excess.to_dict() for ours, excess in excesses.items() if excess is not None},
        }

    def _contestant(self, cell: Cell, name: str) -> dict[str, Any]:
        errors = self.errors(cell, name)
        where = np.arange(0, self.spec.label_budget + 1, CURVE_STEP)
        mean = np.mean([curve.at(where) for curve in self.trials(cell, name)], axis=0)
        return {
            "error": float(errors.mean()),
            "error_se": se if np.isfinite(se := tables.standard_error(errors)) else None,
            "area": float(self.areas(cell, name).mean()),
            "error_by_trial": errors.round(6).tolist(),
            "curve": [[int(labels), round(float(error), 6)] for labels, error in zip(where, mean, strict=True)],
        }
