"""The benchmark: our methods beside margin and random sampling with four model families, on the same worlds and budget.

Examples
--------
>>> from observal_research.benchmark import Specification, benchmark
>>> spec = Specification(only="linear / certainty", rows=400, trials=2, label_budget=20, peers=())
>>> report = benchmark(spec, jobs=1)
>>> report.header
['mean test error, %', 'AutoVC', 'NewtonVC', 'all labels']
"""

from __future__ import annotations

import json
from pathlib import Path

from observal.files import write_text
from observal_research.benchmark.cells import Cell, list_cells, make_world
from observal_research.benchmark.peers import DEFAULT_PEERS, PEERS
from observal_research.benchmark.report import BenchmarkReport
from observal_research.benchmark.specification import (
    Specification,
    ablated_methods,
    default_methods,
    named_methods,
    pick_methods,
    run_unit,
)
from observal_research.curves import Curve
from observal_research.partial import Partial, run_parts
from observal_research.trials import Progress

__all__ = [
    "DEFAULT_PEERS",
    "PEERS",
    "BenchmarkReport",
    "Cell",
    "Specification",
    "ablated_methods",
    "benchmark",
    "default_methods",
    "list_cells",
    "make_world",
    "named_methods",
    "pick_methods",
]


def benchmark(
    spec: Specification | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> BenchmarkReport:
    """Run every contestant in every trial of every cell and, where `out` is given, write the results there.

    Parameters
    ----------
    spec : Specification, optional
        What to run; the generated cells alone by default.
    out : path, optional
        A folder for ``results.json``, ``tables.md``, ``figure.png`` and ``figure.svg``. Finished pieces go to ``partial.jsonl`` there
        at once.
    jobs : int, optional
        Processes; all cores by default. Results do not depend on it.
    resume : bool
        Keep the finished pieces in `out` and do the others. Cells, trials, peers and methods may have been added; a
        method with other settings is run anew, one whose code has changed is not.
    progress : callable, optional
        Called with (done, total).
    """
    spec = spec or Specification()
    partial = None if out is None else Partial(Path(out) / "partial.jsonl", spec.fixed(), resume)
    parts = {spec.key(unit): (spec, *unit) for unit in spec.units}
    finished = run_parts(run_unit, parts, partial, jobs, progress)
    runs = {key[:3]: finished[key] for key in parts}
    report = BenchmarkReport(
        spec,
        {name: Curve(run["labels"], run["errors"]) for name, run in runs.items()},
        {name: run["seconds"] for name, run in runs.items()},
    )
    if out is not None:
        write_files(report, Path(out))
    return report


def write_files(report: BenchmarkReport, folder: Path) -> None:
    """Write ``results.json``, ``tables.md`` and the figures."""
    from observal_research.benchmark.figure import draw_benchmark, draw_ingredients

    write_text(folder / "results.json", json.dumps(report.to_dict(), indent=1, ensure_ascii=False), force=True)
    write_text(folder / "tables.md", report.to_markdown(), force=True)
    draw_benchmark(report, [folder / "figure.png", folder / "figure.svg"])
    if len(report.spec.methods) > 2:  # ours are variants of one another
        draw_ingredients(report, [folder / "ingredients.png", folder / "ingredients.svg"])
