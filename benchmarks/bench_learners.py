"""What a further learner adds to AutoVC's blend: test error with and without it, on a folder of tables, paired, and seconds of the processor.

    python benchmarks/bench_learners.py FOLDER [--learner catboost] [--labels 100 300] [--trials 4]

FOLDER has Parquet tables with a column `label`; more than two classes become two, the first half against the others. Each blend is fitted on
the same random labels and judged on all other rows.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from observal.learners.blend import fit_blend
from observal.learners.blend_settings import LEARNERS
from observal.learners.population import Population
from observal.tables import TableEncoder


def measure(path: Path, learner: str, labels: int, trial: int) -> dict[str, object]:
    """Return the error without and with the learner, in points, its weight, and the seconds of either fit."""
    table = pq.read_table(path)
    features = table.drop_columns("label")
    encoder = TableEncoder.learn([features])
    X = encoder.encode(features)
    classes, codes = np.unique(np.asarray(table.column("label").to_pylist()), return_inverse=True)
    y = (codes >= (classes.size + 1) // 2).astype(np.int64)
    order = np.random.default_rng([trial, labels]).permutation(y.size)
    train, test = order[:labels], order[labels:]
    population = Population.of(X, groups=encoder.groups)
    found: dict[str, object] = {"table": path.stem, "labels": labels, "trial": trial}
    for name, learners in (("without", LEARNERS), ("with", (*LEARNERS, learner))):
        start = time.process_time()
        blend = fit_blend(population, X[train], y[train], np.ones(labels), np.array([0, 1]), learners).blend
        found[f"{name}, s"] = round(time.process_time() - start, 2)
        found[name] = round(100 * float(np.mean(blend.predict(X[test]) != y[test])), 3)
    found["weight"] = round(dict(zip(blend.names, blend.theta.tolist(), strict=True)).get(learner, 0.0), 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--learner", default="catboost")
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 300])
    parser.add_argument("--trials", type=int, default=4)
    options = parser.parse_args()
    results = []
    for labels in options.labels:
        for path in sorted(options.folder.glob("*.parquet")):
            if pq.ParquetFile(path).metadata.num_rows < labels + 100:
                continue
            for trial in range(options.trials):
                results.append(measure(path, options.learner, labels, trial))
                print(json.dumps(results[-1]), flush=True)
    for labels in options.labels:
        some = [result for result in results if result["labels"] == labels]
        tables = sorted({result["table"] for result in some})
        # Trials of a table are alike, so the error of the mean is that of the tables' means.
        means = [np.mean([r["with"] - r["without"] for r in some if r["table"] == table]) for table in tables]
        summary = {
            "labels": labels,
            "pairs": len(some),
            "tables": len(tables),
            "without": round(float(np.mean([r["without"] for r in some])), 2),
            "with minus without": round(float(np.mean(means)), 2),
            "±": round(float(2 * np.std(means, ddof=1) / np.sqrt(len(means))), 2),
            "weight": round(float(np.mean([r["weight"] for r in some])), 2),
            "seconds": [round(float(np.mean([r[f"{name}, s"] for r in some])), 2) for name in ("without", "with")],
        }
        print(json.dumps(summary, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
