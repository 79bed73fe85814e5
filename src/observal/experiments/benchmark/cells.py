"""The data of the benchmark: four generated scenarios, and every real data set under every logging policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from observal.datasets import (
    POLICIES,
    Dataset,
    Simulation,
    fit_policy,
    list_npz,
    load_npz,
    make_blind_spot,
    make_linear,
    simulate,
)
from observal.datasets.fitting import dense, moments
from observal.errors import InvalidInput

REAL_POLICIES = ("certainty", "uncertainty", "scorecard", "blind-spot")
PLANE_POLICIES = ("certainty", "uncertainty")
"""Policies that are fitted on standardised features if the data are real."""


@dataclass(frozen=True)
class Cell:
    """A data set under a logging policy.

    Parameters
    ----------
    data : str
        The name of a generated scenario or of a real set.
    policy : str
        The name of the logging policy.
    real : bool
        Whether the data are read from a folder.

    Examples
    --------
    >>> Cell("magic", "scorecard", real=True).name
    'magic / scorecard'
    """

    data: str
    policy: str
    real: bool

    @property
    def name(self) -> str:
        """The name in tables and files."""
        return f"{self.data} / {self.policy}"

    @property
    def plain(self) -> bool:
        """Whether it is real data without a blind spot, where margin sampling is strong."""
        return self.real and self.policy != "blind-spot"


GENERATED = (
    Cell("linear", "uncertainty", real=False),
    Cell("linear", "certainty", real=False),
    Cell("expressible", "blind-spot", real=False),
    Cell("confidently wrong", "blind-spot", real=False),
)


def list_cells(
    data: str | Path | None = None,
    exclude: tuple[str, ...] = (),
    policies: tuple[str, ...] = REAL_POLICIES,
    generated: bool = True,
    only: str | None = None,
) -> tuple[Cell, ...]:
    """Return the generated cells, and each real set in the folder `data` under each policy.

    Parameters
    ----------
    data : path, optional
        A folder of ``NAME.npz`` files; without it there are no real cells.
    exclude : tuple of str
        Names of real data sets to leave out.
    policies : tuple of str
        The logging policies of the real sets.
    generated : bool
        Whether to include the generated cells.
    only : str, optional
        Keep only cells whose name contains this.

    Examples
    --------
    >>> [cell.name for cell in list_cells(only="linear")]
    ['linear / uncertainty', 'linear / certainty']
    """
    if unknown := sorted(set(policies) - set(POLICIES)):
        raise InvalidInput(f"There is no logging policy {unknown[0]!r}; choose from {list(POLICIES)}.")
    names = [] if data is None else [name for name in list_npz(data) if name not in exclude]
    cells = [*(GENERATED if generated else ()), *(Cell(name, policy, True) for name in names for policy in policies)]
    kept = tuple(cell for cell in cells if only is None or only in cell.name)
    if not kept:
        raise InvalidInput(
            f"No cell is left: generated={generated}, data={data}, exclude={list(exclude)}, only={only!r} leave none of "
            f"{len(cells)}; leave out fewer."
        )
    return kept


@lru_cache(maxsize=32)
def _load(data: str | Path | None, name: str) -> Dataset:
    return load_npz(name, data)


def _draw(cell: Cell, data: str | Path | None, rows: int, seed: int) -> Dataset:
    if cell.real:
        return _load(data, cell.data).sample(rows, seed)
    if cell.data == "linear":
        return make_linear(rows, random_state=seed)
    return make_blind_spot(
        "expressible" if cell.data == "expressible" else "confidently_wrong", rows, random_state=seed
    )


class World(NamedTuple):
    """The data of one trial: the simulation, all labels of the log (which no contestant sees), and the seed of the runs."""

    simulation: Simulation
    log_labels: NDArray[Any]
    seed: int


@lru_cache(maxsize=2)
def make_world(cell: Cell, trial: int, seed: int = 0, rows: int = 6000, data: str | Path | None = None) -> World:
    """Return the data of one trial, with standardised features.

    If a real set has more than `rows` rows, each trial draws its own sample. The split is 80/20, and half of the larger part is
    the log. The random numbers depend on the cell's name, not on the other cells.

    Parameters
    ----------
    cell : Cell
        Data and policy.
    trial, seed : int
        The number of the trial, and the seed.
    rows : int
        The number of generated rows, and the largest sample of a real set.
    data : path, optional
        The folder of the real sets.
    """
    sequence = np.random.SeedSequence([seed, crc32(cell.name.encode()), trial])
    data_seed, policy_seed, split_seed, run_seed = map(int, sequence.generate_state(4))
    drawn = _draw(cell, data, rows, data_seed)
    options: dict[str, Any] = {"standardise": True} if cell.real and cell.policy in PLANE_POLICIES else {}
    policy = fit_policy(cell.policy, drawn, policy_seed, **options)
    simulation = simulate(drawn, policy, split_seed)
    return World(standardised(simulation), drawn.y[simulation.logged.ids], run_seed)


def standardised(world: Simulation) -> Simulation:
    """Return the simulation with features centred and scaled by log and pool together, the same for every contestant."""
    logged, pool = world.logged, world.pool
    centre, spread = moments(np.vstack([dense(logged.X), dense(pool.X)]))
    return replace(
        world,
        logged=replace(logged, X=(dense(logged.X) - centre) / spread),
        pool=replace(pool, X=(dense(pool.X) - centre) / spread),
        X_test=(dense(world.X_test) - centre) / spread,
    )
