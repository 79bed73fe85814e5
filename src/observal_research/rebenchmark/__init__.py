"""The public re-benchmark: published margin sampling repeated, and ours beside it with the same seeds.

A folder holds ``NAME.npz`` tables and ``published.csv`` with the columns table, seed and ``margin_MODEL``. Published runs are
repeated with our own code first, so that one can see that the protocol is the same. Then ours runs with the same seeds, and
both run again with the first labels drawn by an old scorecard.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from observal.errors import InvalidInput
from observal.files import write_text
from observal.problem.method import Method
from observal.threads import one_thread
from observal_research.partial import Partial, run_parts
from observal_research.rebenchmark import protocol
from observal_research.rebenchmark.report import MARGIN, RANDOM, SCORECARD, RebenchmarkReport, Unit
from observal_research.trials import Progress

__all__ = ["Rebenchmark", "RebenchmarkReport", "default_methods", "rebenchmark"]


def default_methods() -> dict[str, Method]:
    """Return our methods. They buy one label at a time, as the protocol does."""
    from observal.methods.auto import AutoVC
    from observal.methods.newton import NewtonVC

    return {"AutoVC": AutoVC(batch=1), "NewtonVC": NewtonVC(batch=1)}


@dataclass(frozen=True, eq=False)
class Rebenchmark:
    """What is run.

    Parameters
    ----------
    folder : path
        The tables and ``published.csv``.
    seeds : int
        The seeds 0, 1, … of each table.
    methods : mapping
        From names to methods of ours.
    only : str, optional
        Only tables whose name contains this.
    """

    folder: str | Path
    seeds: int = 10
    methods: Mapping[str, Method] = field(default_factory=default_methods)
    only: str | None = None

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.methods:
            raise InvalidInput(
                f"A re-benchmark needs at least one seed and one method of ours, but got {self.seeds} and "
                f"{len(self.methods)}; give some."
            )
        if not self.tables:
            raise InvalidInput(
                f"No table of {self.folder} is left with only={self.only!r}; ask for less to be left out."
            )

    @cached_property
    def published(self) -> dict[tuple[str, int, str], float]:
        """The published AUBC by table, seed and model."""
        path = Path(self.folder) / "published.csv"
        if not path.is_file():
            raise InvalidInput(f"There is no file {path}; give the folder that holds the re-benchmark.")
        out = {}
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                for model in protocol.MODELS:
                    if row.get(MARGIN + model) and int(row["seed"]) < self.seeds:
                        out[row["table"], int(row["seed"]), model] = float(row[MARGIN + model])
        return out

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables with published runs."""
        names = dict.fromkeys(table for table, _, _ in self.published)
        return tuple(name for name in names if self.only is None or self.only in name)

    @property
    def units(self) -> list[Unit]:
        """All pieces of work, seed by seed: margin where it is published, everywhere with the scorecard; and ours."""
        out: list[Unit] = []
        for seed in range(self.seeds):
            for table in self.tables:
                published = [model for model in protocol.MODELS if (table, seed, model) in self.published]
                for variant, models in ((RANDOM, published), (SCORECARD, list(protocol.MODELS))):
                    names = (*(MARGIN + model for model in models), *self.methods)
                    out += [(variant, table, seed, name) for name in names]
        return out

    def key(self, unit: Unit) -> tuple[str, str, int, str, str]:
        """Return what names a finished piece: a method of ours with all its settings."""
        method = self.methods.get(unit[3])
        return (*unit, "" if method is None else repr(method))


def run_unit(spec: Rebenchmark, variant: str, table: str, seed: int, contestant: str) -> dict[str, float]:
    """Return the AUBC by scorer, and the seconds of the run itself."""
    with one_thread():
        split = protocol.split_rows(*protocol.load(spec.folder, table), seed)
        if variant == SCORECARD:
            split = protocol.by_scorecard(split, seed)
        started = perf_counter()
        if contestant.startswith(MARGIN):
            scores = {"own": protocol.aubc(protocol.margin_run(split, contestant.removeprefix(MARGIN), seed))}
            return scores | {"seconds": round(perf_counter() - started, 3)}
        run = protocol.our_run(split, spec.methods[contestant], seed)
        seconds = round(perf_counter() - started, 3)
        theirs = protocol.aubc(protocol.score_order(split, run.order, "rbf_svm", seed))
    return {"own": protocol.aubc(run.accuracies), "rbf_svm": theirs, "seconds": seconds}


def rebenchmark(
    spec: Rebenchmark,
    out: str | Path | None = None,
    jobs: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> RebenchmarkReport:
    """Run everything and, where `out` is given, write ``rebenchmark.json`` and ``rebenchmark.md`` there.

    Parameters
    ----------
    spec : Rebenchmark
        What to run.
    out : path, optional
        A folder; finished pieces go to ``rebenchmark.jsonl`` there at once.
    jobs : int, optional
        Processes; all cores by default. Results do not depend on it.
    resume : bool
        Keep the finished pieces in `out` and do the others.
    progress : callable, optional
        Called with (done, total).
    """
    parts = {spec.key(unit): (spec, *unit) for unit in spec.units}
    fixed = {"scikit-learn": version("scikit-learn")}
    partial = None if out is None else Partial(Path(out) / "rebenchmark.jsonl", fixed, resume)
    finished = run_parts(run_unit, parts, partial, jobs, progress)
    scores = {unit: finished[spec.key(unit)] for unit in spec.units}
    report = RebenchmarkReport(spec.tables, spec.seeds, tuple(spec.methods), spec.published, scores)
    if out is not None:
        text = json.dumps(report.to_dict(), indent=1, ensure_ascii=False)
        write_text(Path(out) / "rebenchmark.json", text, force=True)
        write_text(Path(out) / "rebenchmark.md", report.to_markdown(), force=True)
    return report
