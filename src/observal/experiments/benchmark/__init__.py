"""The benchmark: our methods and those of other libraries on the same data, with the same budget and model family.

Examples
--------
>>> from observal.experiments.benchmark import Specification, benchmark
>>> spec = Specification(only="linear / certainty", rows=400, trials=2, label_budget=20, peers=())
>>> report = benchmark(spec, jobs=1)
>>> report.header
['cell', 'all labels, %', 'NewtonVC', 'ActiveVC']
"""

from __future__ import annotations

import json
from pathlib import Path

from observal.experiments.benchmark.cells import Cell, list_cells, make_world
from observal.experiments.benchmark.peers import PEERS
from observal.experiments.benchmark.report import BenchmarkReport
from observal.experiments.benchmark.specification import (
    Specification,
    ablated_methods,
    default_methods,
    run_unit,
    tree_methods,
)
from observal.experiments.curves import Curve
from observal.experiments.partial import Partial
from observal.experiments.trials import Progress, stream_all
from observal.writing import write_text

__all__ = [
    "PEERS",
    "BenchmarkReport",
    "Cell",
    "Specification",
    "ablated_methods",
    "benchmark",
    "default_methods",
    "list_cells",
    "make_world",
    "tree_methods",
]


def benchmark(
    spec: Specification | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> BenchmarkReport:
    """Run every contestant in every trial of every cell and, if `out` is given, write the results there.

    Parameters
    ----------
    spec : Specification, optional
        What to run; by default only the generated cells.
    out : path, optional
        A folder for ``results.json``, ``figure.png`` and ``figure.svg``. Finished runs are stored in ``partial.jsonl`` in that
        folder at once.
    jobs : int, optional
        Processes; all cores by default. Results do not depend on it.
    resume : bool
        Whether to keep the finished runs in `out`. Cells, trials, peers and methods may be added. A method with other settings
        is run again; one whose code has changed is not.
    progress : callable, optional
        Called with (done, total).
    """
    spec = spec or Specification()
    partial = None if out is None else Partial(Path(out) / "partial.jsonl", spec.fixed(), resume)
    units = spec.units
    keys = [spec.key(unit) for unit in units]
    finished = {} if partial is None else {key: partial.finished[key] for key in keys if key in partial.finished}
    todo = [(key, unit) for key, unit in zip(keys, units, strict=True) if key not in finished]
    if progress is not None:
        progress(len(finished), len(units))
    for (key, _), found in zip(todo, stream_all(run_unit, [(spec, *unit) for _, unit in todo], jobs), strict=True):
        finished[key] = found
        if partial is not None:
            partial.add(key, found)
        if progress is not None:
            progress(len(finished), len(units))
    found_by_name = {key[:3]: finished[key] for key in keys}
    report = BenchmarkReport(
        spec,
        {name: Curve(found["labels"], found["errors"]) for name, found in found_by_name.items()},
        {name: found["seconds"] for name, found in found_by_name.items()},
    )
    if out is not None:
        write_files(report, Path(out))
    return report


def write_files(report: BenchmarkReport, folder: Path) -> None:
    """Write ``results.json`` and the figures."""
    from observal.experiments.benchmark.figure import draw_benchmark, draw_ingredients

    write_text(folder / "results.json", json.dumps(report.to_dict(), indent=1, ensure_ascii=False), force=True)
    draw_benchmark(report, [folder / "figure.png", folder / "figure.svg"])
    if len(report.spec.methods) > 2:  # an ablation: our methods are variants of NewtonVC
        draw_ingredients(report, [folder / "ingredients.png", folder / "ingredients.svg"])
