"""What a benchmark runs: contestants × cells × trials, and how one run is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

from observal.errors import InvalidInput
from observal.experiments.benchmark.cells import REAL_POLICIES, Cell, World, list_cells, make_world
from observal.experiments.benchmark.peers import PEERS, all_labels_error, boosted_trees, installed_peers, run_peer
from observal.experiments.curves import Curve, online_sizes
from observal.methods.base import Method
from observal.types import Pool, Round

ALL_LABELS, ALL_LABELS_TREES = "all labels", "all labels, trees"
SCALE_SETS = ("skin", "nycflights")
"""Real data sets that serve only to measure speed on many rows."""
LIBRARIES = ("scikit-activeml", "vowpalwabbit", "scikit-learn")
"""Libraries whose versions must be the same when a benchmark is resumed."""

Unit = tuple[Cell, int, str]
"""One run: cell, trial, contestant."""


def default_methods() -> dict[str, Method]:
    """Return our methods; the first is the one that others are compared with."""
    from observal.methods.newton.method import NewtonVC
    from observal.methods.paper.active_vc import ActiveVC

    return {"NewtonVC": NewtonVC(), "ActiveVC": ActiveVC(fit_intercept=True)}


def ablated_methods() -> dict[str, Method]:
    """Return NewtonVC, and NewtonVC with each of its parts removed or replaced."""
    from observal.methods.newton.ablation import AblatedNewtonVC
    from observal.methods.newton.method import NewtonVC

    return {
        "NewtonVC": NewtonVC(),
        "no weights": NewtonVC(tempering=0.0),
        "full weights": NewtonVC(tempering=1.0),
        "always half": NewtonVC(tempering=0.5),
        "no clip": AblatedNewtonVC(clip_constant=None),
        "no gate": NewtonVC(gate_share=0.0),
        "gate only": NewtonVC(gate_share=1.0),
        "certain rows through the gate": AblatedNewtonVC(doubt=1e-12),
        "no random picks": NewtonVC(explore_share=0.0),
        "margin for gap": AblatedNewtonVC(curvature=False),
        "no second fit": NewtonVC(refit_near_boundary=False),
        "fixed ridge": NewtonVC(ridge=1e-3),
        "second moment": AblatedNewtonVC(penalty=4.0),
        "stream": NewtonVC(order="stream"),
    }


def tree_methods() -> dict[str, Method]:
    """Return CommitteeVC around the boosted trees that peers use."""
    from observal.methods.committee import CommitteeVC

    return {"CommitteeVC, trees": CommitteeVC(boosted_trees(0))}


@dataclass(frozen=True, eq=False)
class Specification:
    """What is run; equal specifications give equal results on equal library versions.

    Parameters
    ----------
    methods : mapping
        From names to our methods with linear models; their all-labels error is that of logistic regression.
    tree_methods : mapping
        The same for methods around :func:`~observal.experiments.benchmark.peers.boosted_trees`.
    peers : tuple of str, optional
        Names in :data:`~observal.experiments.benchmark.peers.PEERS`; by default all whose library is installed. Those with
        boosted trees run only on `tree_data`.
    data : path, optional
        A folder of ``NAME.npz`` files.
    tree_data : tuple of str
        The real data sets on which boosted trees are compared as well.
    exclude, policies, generated, only
        Which cells there are: see :func:`~observal.experiments.benchmark.cells.list_cells`.
    trials, seed : int
        Trials in each cell, and the seed of all random numbers.
    rows : int
        The number of generated rows, and the largest sample of a real set.
    label_budget : int
        How many labels each contestant may buy.
    batch : int
        How many labels a peer buys at a time. Our methods have their own setting for this.
    """

    methods: Mapping[str, Method] = field(default_factory=default_methods)
    tree_methods: Mapping[str, Method] = field(default_factory=dict)
    peers: tuple[str, ...] | None = None
    data: str | Path | None = None
    tree_data: tuple[str, ...] = ()
    exclude: tuple[str, ...] = SCALE_SETS
    policies: tuple[str, ...] = REAL_POLICIES
    generated: bool = True
    only: str | None = None
    trials: int = 8
    seed: int = 0
    rows: int = 6000
    label_budget: int = 300
    batch: int = 10

    def __post_init__(self) -> None:
        if min(self.trials, self.label_budget, self.batch) < 1 or self.rows < 20:
            raise InvalidInput(
                "A benchmark needs at least 1 trial, 1 label, batches of 1 and 20 rows, but got "
                f"trials={self.trials}, label_budget={self.label_budget}, batch={self.batch}, rows={self.rows}; give larger numbers."
            )
        there = tuple(installed_peers())
        if self.peers is None:
            object.__setattr__(self, "peers", there)
        for name in self.peers or ():
            if name not in PEERS:
                raise InvalidInput(f"There is no peer {name!r}; choose from {list(PEERS)}.")
            if name not in there:
                raise InvalidInput(
                    f"The peer {name!r} needs {PEERS[name].package}, which is not installed; "
                    "install it with pip install 'observal[bench]', or leave the peer out."
                )
        names = [*self.methods, *self.tree_methods, *PEERS, ALL_LABELS, ALL_LABELS_TREES]
        if len(set(names)) < len(names):
            raise InvalidInput(f"Contestants need distinct names, but they are {names}; rename one.")
        if not self.methods:
            raise InvalidInput("A benchmark needs at least one of our methods, but methods is empty; add one.")
        if unknown := sorted(set(self.tree_data) - {cell.data for cell in self.cells}):
            there_are = sorted({cell.data for cell in self.cells})
            raise InvalidInput(f"There is no data set {unknown[0]!r} to compare trees on; choose from {there_are}.")

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells."""
        return list_cells(self.data, self.exclude, self.policies, self.generated, self.only)

    @property
    def linear_peers(self) -> tuple[str, ...]:
        """The peers with a linear model."""
        return tuple(name for name in self.peers or () if not PEERS[name].trees)

    @property
    def tree_peers(self) -> tuple[str, ...]:
        """The peers with boosted trees."""
        return tuple(name for name in self.peers or () if PEERS[name].trees)

    @property
    def contestants(self) -> tuple[str, ...]:
        """Our methods and the peers with a linear model; they run in every cell."""
        return (*self.methods, *self.linear_peers)

    @property
    def tree_contestants(self) -> tuple[str, ...]:
        """Our methods and the peers with boosted trees."""
        return (*self.tree_methods, *self.tree_peers)

    @property
    def tree_cells(self) -> tuple[Cell, ...]:
        """The cells in which boosted trees are compared."""
        return tuple(cell for cell in self.cells if cell.data in self.tree_data)

    @property
    def units(self) -> list[Unit]:
        """All runs, trial by trial, so that an interrupted benchmark has complete trials of every cell."""
        trees = (ALL_LABELS_TREES, *self.tree_contestants)
        return [
            (cell, trial, contestant)
            for trial in range(self.trials)
            for cell in self.cells
            for contestant in (ALL_LABELS, *self.contestants, *(trees if cell in self.tree_cells else ()))
        ]

    def method(self, contestant: str) -> Method | None:
        """Return our method of that name, or None."""
        return self.methods.get(contestant, self.tree_methods.get(contestant))

    def key(self, unit: Unit) -> tuple[str, int, str, str]:
        """Return the key of a finished run; it has all settings of our methods, so a method with other settings is run again."""
        cell, trial, contestant = unit
        method = self.method(contestant)
        return (cell.name, trial, contestant, "" if method is None else repr(method))

    def fixed(self) -> dict[str, Any]:
        """Return what must not change when a benchmark is resumed; cells, trials and contestants may be added."""
        fixed = {"seed": self.seed, "rows": self.rows, "label_budget": self.label_budget, "batch": self.batch}
        return fixed | {library: _version(library) for library in LIBRARIES}

    def to_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        return self.fixed() | {
            "trials": self.trials,
            "cells": [cell.name for cell in self.cells],
            "methods": {name: repr(method) for name, method in {**self.methods, **self.tree_methods}.items()},
            "peers": list(self.peers or ()),
            "tree_cells": [cell.name for cell in self.tree_cells],
        }


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def run_unit(spec: Specification, cell: Cell, trial: int, contestant: str) -> dict[str, Any]:
    """Return labels and errors of a contestant's curve (a single point for "all labels"), and the seconds it took."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # workers have one core each
        world = make_world(cell, trial, spec.seed, spec.rows, spec.data)
        started = perf_counter()
        curve = _curve(spec, world, contestant)
        seconds = perf_counter() - started
    return {"labels": curve.labels.tolist(), "errors": curve.errors.tolist(), "seconds": round(seconds, 3)}


def _curve(spec: Specification, world: World, contestant: str) -> Curve:
    if contestant in (ALL_LABELS, ALL_LABELS_TREES):
        return Curve([0], [all_labels_error(*world, trees=contestant == ALL_LABELS_TREES)])
    method = spec.method(contestant)
    if method is None:
        return run_peer(contestant, world.simulation, spec.label_budget, spec.batch, world.seed)
    return run_ours(method, world, spec.label_budget)


def run_ours(method: Method, world: World, label_budget: int) -> Curve:
    """Return the test error of one of our methods after each of its rounds, within the budget.

    If one run does not give the whole curve, the method is run again for growing parts of the pool.
    """
    from observal.session import Session

    simulation, pool = world.simulation, world.simulation.pool
    sizes = (len(pool),) if method.curve_from_one_run else online_sizes(len(pool))
    rounds: list[Round] = []
    for n in sizes:
        rows = Pool(pool.X[:n], pool.propensity[:n], pool.ids[:n])
        session = Session(simulation.logged, rows, method, label_budget, random_state=world.seed)
        while (query := session.ask()) is not None:
            session.tell(query.ids, simulation.oracle(query.ids))
        rounds += session.rounds if n == sizes[0] else session.rounds[-1:]
    errors = [1.0 - round_.estimator.score(simulation.X_test, simulation.y_test) for round_ in rounds]
    return Curve([round_.labels for round_ in rounds], errors)
