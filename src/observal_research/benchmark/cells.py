"""The worlds of the benchmark: four generated scenarios, and every real set or table under every logging policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput
from observal.problem.problem import Problem
from observal_research.benchmark.development import count_classes, halves, list_tables, load_table
from observal_research.datasets import (
    POLICIES,
    Dataset,
    World,
    fit_policy,
    list_npz,
    load_npz,
    make_blind_spot,
    make_linear,
)
from observal_research.datasets.fitting import dense, moments
from observal_research.datasets.splits import simulate_rows

REAL_POLICIES = ("certainty", "uncertainty", "scorecard", "blind-spot")
PLANE_POLICIES = ("certainty", "uncertainty")
"""Policies whose plane is found on standardised features, on real data."""


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
    classes : int
        How many classes there are.
    table : bool
        Whether it is a development table.

    Examples
    --------
    >>> Cell("magic", "scorecard", real=True).name
    'magic / scorecard'
    """

    data: str
    policy: str
    real: bool
    classes: int = 2
    table: bool = False

    @property
    def name(self) -> str:
        """What tables and files call it."""
        return f"{self.data} / {self.policy}"

    @property
    def plain(self) -> bool:
        """Whether it is real data without a blind spot: there margin sampling is strong."""
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
    development: str | Path | None = None,
) -> tuple[Cell, ...]:
    """Return the generated cells, and each real set in the folder `data` under each policy.

    Parameters
    ----------
    data : path, optional
        A folder of ``NAME.npz`` files; without it there are no real cells.
    exclude : tuple of str
        Names of real sets to leave out.
    policies : tuple of str
        The logging policies of the real sets.
    generated : bool
        Whether to have the generated cells.
    only : str, optional
        Keep only cells whose name contains this.
    development : path, optional
        A folder of development tables, ``NAME.parquet``: they take the place of all other cells.

    Examples
    --------
    >>> [cell.name for cell in list_cells(only="linear")]
    ['linear / uncertainty', 'linear / certainty']
    """
    if unknown := sorted(set(policies) - set(POLICIES)):
        raise InvalidInput(f"There is no logging policy {unknown[0]!r}, the policies are {list(POLICIES)}.")
    if development is not None:
        tables = [(name, count_classes(development, name)) for name in list_tables(development)]
        cells = [Cell(name, policy, True, classes, table=True) for name, classes in tables for policy in policies]
    else:
        names = [] if data is None else [name for name in list_npz(data) if name not in exclude]
        real = [Cell(name, policy, True) for name in names for policy in policies]
        cells = [*(GENERATED if generated else ()), *real]
    matches = tuple(cell for cell in cells if only is None or only in cell.name)
    if not matches:
        raise InvalidInput(
            f"No cell is left: generated={generated}, data={data}, exclude={list(exclude)}, only={only!r} leave none of "
            f"{len(cells)}; ask for less to be left out."
        )
    return matches


@lru_cache(maxsize=32)
def _load(data: str | Path | None, name: str) -> Dataset:
    return load_npz(name, data)


def _draw(cell: Cell, folder: str | Path | None, rows: int, seed: int) -> tuple[Dataset, NDArray[Any]]:
    """Return data of two classes to fit the policy on, and the labels that the world has."""
    if cell.table and folder is not None:
        X, y = load_table(folder, cell.data)
        sample = np.arange(len(y))
        if len(y) > rows:
            sample = np.sort(np.random.default_rng(seed).choice(len(y), size=rows, replace=False))
        return Dataset(X[sample], halves(y)[sample], cell.data, "A development table."), y[sample]
    data_set = _draw_two(cell, folder, rows, seed)
    return data_set, data_set.y


def _draw_two(cell: Cell, folder: str | Path | None, rows: int, seed: int) -> Dataset:
    if cell.real:
        return _load(folder, cell.data).sample(rows, seed)
    if cell.data == "linear":
        return make_linear(rows, random_state=seed)
    return make_blind_spot(
        "expressible" if cell.data == "expressible" else "confidently_wrong", rows, random_state=seed
    )


@lru_cache(maxsize=2)
def make_world(
    cell: Cell, trial: int, random_state: int = 0, rows: int = 6000, data: str | Path | None = None
) -> World:
    """Return the world of one trial, its features standardised.

    Real sets are drawn anew in every trial if they have more than `rows` rows. The split is 80/20, half of the larger
    part is the log. A policy is fitted on two classes: where a table has more, on the first half of them against the others;
    everything else is about the table's own classes. The trial's numbers depend on the cell's name, not on which other cells there are.

    Parameters
    ----------
    cell : Cell
        Data and policy.
    trial, random_state : int
        Which draw.
    rows : int
        The size of generated data and the most rows taken from a real set.
    data : path, optional
        The folder of the real sets, or of the development tables.
    """
    sequence = np.random.SeedSequence([random_state, crc32(cell.name.encode()), trial])
    data_seed, policy_seed, split_seed, run_seed = map(int, sequence.generate_state(4))
    data_set, y = _draw(cell, data, rows, data_seed)
    options: dict[str, Any] = {"standardise": True} if cell.real and cell.policy in PLANE_POLICIES else {}
    policy = fit_policy(cell.policy, data_set, policy_seed, **options)
    return replace(standardise(simulate_rows(data_set.X, y, policy, split_seed)), seed=run_seed)


def standardise(world: World) -> World:
    """Return the world with features centred and scaled by log and pool together, the same for every contestant."""
    logged, pool = world.logged, world.pool
    centre, spread = moments(dense(Problem(logged, pool).stack().to_matrix()))
    return replace(
        world,
        logged=replace(logged, X=(dense(logged.X) - centre) / spread),
        pool=replace(pool, X=(dense(pool.X) - centre) / spread),
        X_test=(dense(world.X_test) - centre) / spread,
    )
