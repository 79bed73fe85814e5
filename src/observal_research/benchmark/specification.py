"""What a benchmark runs: contestants × cells × trials, and one piece of that work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

from observal.errors import InvalidInput
from observal.problem.data import Pool
from observal.problem.method import Method
from observal.problem.result import Round
from observal.threads import one_thread
from observal_research.benchmark.cells import REAL_POLICIES, Cell, list_cells, make_world
from observal_research.benchmark.peers import (
    DEFAULT_PEERS,
    FAMILIES,
    PEERS,
    ByHand,
    all_labels_error,
    installed_peers,
    run_peer,
)
from observal_research.curves import Curve, online_sizes
from observal_research.datasets import World

ALL_LABELS = "all labels/"
"""Before the name of a model family: that family with every label of log and pool."""
TWO_CLASSES_ONLY = {"NewtonVC", "ActiveVC", "Active18", "Passive", "ExactDBAL"}
"""Our methods that take two classes alone, by the name of their class."""
SCALE_SETS = ("skin", "nycflights")
"""Real sets that are there for their size."""
LIBRARIES = ("scikit-learn", "lightgbm", "catboost", "scikit-activeml", "vowpalwabbit")
"""Whose versions a resumed benchmark must share."""

Unit = tuple[Cell, int, str]
"""A piece of work: cell, trial, contestant."""


def default_methods() -> dict[str, Method]:
    """Return our methods, the one that is compared first; one line each."""
    from observal.methods.auto import AutoVC
    from observal.methods.newton import NewtonVC

    return {"AutoVC": AutoVC(), "NewtonVC": NewtonVC()}


def named_methods() -> dict[str, Method]:
    """Return the methods of ours that can be named on the command line."""
    from sklearn.ensemble import RandomForestClassifier

    from observal.methods.committee import CommitteeVC
    from observal.paper.active_vc import ActiveVC

    return {
        **default_methods(),
        "ActiveVC": ActiveVC(fit_intercept=True),
        "CommitteeVC/forest": CommitteeVC(RandomForestClassifier(100, random_state=0)),
    }


def pick_methods(names: Sequence[str] | None) -> dict[str, Method]:
    """Return the methods of those names, in that order; the default ones where none is named."""
    if names is None:
        return default_methods()
    methods = named_methods()
    if unknown := [name for name in names if name not in methods]:
        raise InvalidInput(f"There is no method {unknown[0]!r}, the methods are {list(methods)}; name one of them.")
    return {name: methods[name] for name in names}


def ablated_methods() -> dict[str, Method]:
    """Return NewtonVC, and NewtonVC with each of its parts taken away or replaced."""
    from observal.methods.newton import NewtonVC
    from observal_research.ablated_newton import AblatedNewtonVC

    return {
        "NewtonVC": NewtonVC(),
        "no weights": NewtonVC(tempering=0.0),
        "full weights": NewtonVC(tempering=1.0),
        "always half": NewtonVC(tempering=0.5),
        "no clip": AblatedNewtonVC(clip_constant=None),
        "no gate": NewtonVC(gate_share=0.0),
        "gate only": NewtonVC(gate_share=1.0),
        "settled rows through the gate": AblatedNewtonVC(doubt=1e-12),
        "no random picks": NewtonVC(explore_share=0.0),
        "margin for gap": AblatedNewtonVC(curvature=False),
        "no second fit": NewtonVC(refit_near_boundary=False),
        "fixed ridge": NewtonVC(ridge=1e-3),
        "second moment": AblatedNewtonVC(penalty=4.0),
        "stream": NewtonVC(order="stream"),
    }


@dataclass(frozen=True, eq=False)
class Specification:
    """What is run; equal specifications give equal results on equal library versions.

    Parameters
    ----------
    methods : mapping
        From names to methods of ours, the one that is compared first. One that takes two classes alone is left out of the
        cells that have more.
    peers : tuple of str, optional
        Names in ``PEERS``; by default margin and random sampling with every
        model family that is installed.
    data : path, optional
        A folder of ``NAME.npz`` files.
    development : path, optional
        A folder of development tables: they take the place of all other cells.
    exclude, policies, generated, only
        Which cells there are: see ``list_cells``.
    trials, random_state : int
        Trials a cell, and the seed of all.
    rows : int
        Rows of generated data, and the most rows of a real set.
    label_budget : int
        How many labels each contestant may buy.
    batch : int
        How many a peer buys at a time. A method of ours has that in its own settings.
    """

    methods: Mapping[str, Method] = field(default_factory=default_methods)
    peers: tuple[str, ...] | None = None
    data: str | Path | None = None
    development: str | Path | None = None
    exclude: tuple[str, ...] = SCALE_SETS
    policies: tuple[str, ...] = REAL_POLICIES
    generated: bool = True
    only: str | None = None
    trials: int = 8
    random_state: int = 0
    rows: int = 6000
    label_budget: int = 300
    batch: int = 10

    def __post_init__(self) -> None:
        if min(self.trials, self.label_budget, self.batch) < 1 or self.rows < 20:
            raise InvalidInput(
                "A benchmark needs at least 1 trial, 1 label, batches of 1 and 20 rows, but got "
                f"trials={self.trials}, label_budget={self.label_budget}, batch={self.batch}, rows={self.rows}."
            )
        installed = tuple(installed_peers())
        if self.peers is None:
            object.__setattr__(self, "peers", tuple(name for name in DEFAULT_PEERS if name in installed))
        for name in self.peers or ():
            if name not in PEERS:
                raise InvalidInput(f"There is no peer {name!r}, the peers are {list(PEERS)}; name one of them.")
            if name not in installed:
                raise InvalidInput(
                    f"The peer {name!r} needs {PEERS[name].package}, which is not installed; "
                    "pip install 'observal[bench]', or leave it out."
                )
        names = [*self.methods, *PEERS]
        if len(set(names)) < len(names):
            raise InvalidInput(f"Contestants need distinct names, none a peer's, but they are {names}.")
        if not self.methods:
            raise InvalidInput("A benchmark needs at least one method of ours, but methods is empty.")
        if self.data is not None and self.development is not None:
            raise InvalidInput("A benchmark runs on real sets or on development tables, but got both; give one folder.")

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells."""
        return list_cells(self.data, self.exclude, self.policies, self.generated, self.only, self.development)

    @property
    def folder(self) -> str | Path | None:
        """Where the data are."""
        return self.data if self.development is None else self.development

    @property
    def contestants(self) -> tuple[str, ...]:
        """Ours and the peers."""
        return (*self.methods, *(self.peers or ()))

    @property
    def families(self) -> tuple[str, ...]:
        """The model families whose error with all labels is measured: logistic regression, and those of the peers."""
        families = {PEERS[name].family for name in self.peers or () if isinstance(PEERS[name], ByHand)}
        return tuple(name for name in FAMILIES if name == "logistic" or name in families)

    def runs(self, cell: Cell, contestant: str) -> bool:
        """Tell whether the contestant can run in the cell."""
        if cell.classes <= 2 or contestant.startswith(ALL_LABELS):
            return True
        method = self.methods.get(contestant)
        if method is None:
            return not PEERS[contestant].two_classes
        return TWO_CLASSES_ONLY.isdisjoint(kind.__name__ for kind in type(method).__mro__)

    @property
    def units(self) -> list[Unit]:
        """All pieces of work, trial by trial, so that an interrupted benchmark has whole trials of every cell."""
        contestants = (*(ALL_LABELS + family for family in self.families), *self.contestants)
        return [
            (cell, trial, contestant)
            for trial in range(self.trials)
            for cell in self.cells
            for contestant in contestants
            if self.runs(cell, contestant)
        ]

    def key(self, unit: Unit) -> tuple[str, int, str, str]:
        """Return what names a finished piece: a method of ours with all its settings, so that another is run anew."""
        cell, trial, contestant = unit
        method = self.methods.get(contestant)
        return (cell.name, trial, contestant, "" if method is None else repr(method))

    def fixed(self) -> dict[str, Any]:
        """Return what all pieces of a resumed benchmark must share; cells, trials and contestants may be added."""
        fixed = {"seed": self.random_state, "rows": self.rows, "label_budget": self.label_budget, "batch": self.batch}
        return fixed | {library: _version(library) for library in LIBRARIES}

    def to_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        return self.fixed() | {
            "trials": self.trials,
            "cells": [cell.name for cell in self.cells],
            "methods": {name: repr(method) for name, method in self.methods.items()},
            "peers": list(self.peers or ()),
        }


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def run_unit(spec: Specification, cell: Cell, trial: int, contestant: str) -> dict[str, Any]:
    """Return labels and errors of a contestant's curve (one point for all labels), and the seconds it took."""
    with one_thread():  # workers have one core each
        world = make_world(cell, trial, spec.random_state, spec.rows, spec.folder)
        started = perf_counter()
        curve = _curve(spec, world, contestant)
        seconds = perf_counter() - started
    return {"labels": curve.labels.tolist(), "errors": curve.errors.tolist(), "seconds": round(seconds, 3)}


def _curve(spec: Specification, world: World, contestant: str) -> Curve:
    if contestant.startswith(ALL_LABELS):
        return Curve([0], [all_labels_error(world, contestant.removeprefix(ALL_LABELS))])
    method = spec.methods.get(contestant)
    if method is None:
        return run_peer(contestant, world, spec.label_budget, spec.batch, world.seed)
    return run_ours(method, world, spec.label_budget)


def run_ours(method: Method, world: World, label_budget: int) -> Curve:
    """Return the test error of a method of ours after each of its rounds, bought with the budget.

    A method whose curve cannot be read off one run is run afresh for growing parts of the pool.
    """
    from observal.session import Session

    pool = world.pool
    sizes = (len(pool),) if method.curve_from_one_run else online_sizes(len(pool))
    rounds: list[Round] = []
    for n in sizes:
        rows = Pool(pool.X[:n], pool.propensity[:n], pool.ids[:n])
        session = Session(world.logged, rows, method, label_budget, random_state=world.seed, tolerance=None)
        while (query := session.ask()) is not None:
            session.tell(query.ids, world.oracle(query.ids))
        rounds += session.rounds if n == sizes[0] else session.rounds[-1:]
    return Curve([round_.labels for round_ in rounds], [world.error(round_.estimator) for round_ in rounds])
