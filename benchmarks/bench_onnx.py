"""ONNX beside our own code: the largest difference between probabilities, and seconds of the processor for the rows, on a folder of tables.

    python benchmarks/bench_onnx.py FOLDER [--labels 200] [--only breast]

FOLDER has Parquet tables with a column `label`. One value in twenty is taken out of each feature column, so that every table has missing values. For each
table every learner is fitted alone, and AutoVC's blend of them; each graph takes the raw columns. Needs onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
from commands import processor_seconds

from observal.exchange.onnx_file import make_onnx
from observal.learners.blend import fit_blend
from observal.learners.blend_settings import LEARNERS
from observal.learners.population import Population
from observal.tables import TableEncoder
from observal.tables.columns import text_column, to_floats


def with_holes(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Return the features with a twentieth of the values missing."""
    names = [name for name in table.column_names if name != "label"]
    columns = {}
    for name in names:
        holes = pa.array(rng.random(table.num_rows) < 0.05)
        columns[name] = pa.compute.if_else(holes, None, table.column(name))
    return pa.table(columns)


def inputs_of(table: pa.Table, encoder: TableEncoder) -> dict[str, np.ndarray]:
    """Return the columns as a graph takes them."""
    inputs = {}
    for rule in encoder.rules:
        column = table.column(rule.source)
        if rule.kind == "category":
            values = text_column(column).fill_null("").to_numpy(zero_copy_only=False).astype(object)
        else:
            values = to_floats(column)
        inputs[rule.source] = values[:, None]
    return inputs


def compare(path: Path, labels: int) -> dict[str, object]:
    """Return the largest difference of each learner and of the blend, and what the rows cost with either."""
    rng = np.random.default_rng(0)
    table = pq.read_table(path)
    rows = with_holes(table, rng)
    encoder = TableEncoder.learn([rows])
    X = encoder.encode(rows)
    classes, codes = np.unique(np.asarray(table.column("label").to_pylist()), return_inverse=True)
    population = Population.of(X, groups=encoder.groups)
    some = rng.permutation(codes.size)[:labels]
    inputs = inputs_of(rows, encoder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    found: dict[str, object] = {"table": path.stem, "rows": len(X), "columns": X.shape[1], "classes": classes.size}
    for name, learners in [*((name, (name,)) for name in LEARNERS), ("blend", LEARNERS)]:
        blend = fit_blend(population, X[some], codes[some], np.ones(some.size), classes, learners).blend
        session = onnxruntime.InferenceSession(make_onnx(blend, encoder).SerializeToString(), options)
        prediction, chances = session.run(None, inputs)
        found[name] = float(np.abs(chances - blend.predict_proba(X)).max())
        if name == "blend":
            found["other classes"] = int((prediction != blend.predict(X).astype(str)).sum())
            found["seconds"] = round(processor_seconds(lambda: session.run(None, inputs)), 2)  # noqa: B023
            found["ours"] = round(processor_seconds(lambda: blend.predict_proba(encoder.encode(rows))), 2)  # noqa: B023
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=int, default=200)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for path in sorted(options.folder.glob("*.parquet")):
        if options.only in path.stem:
            found = compare(path, options.labels)
            print(json.dumps({k: f"{v:.1e}" if k in (*LEARNERS, "blend") else v for k, v in found.items()}), flush=True)


if __name__ == "__main__":
    main()
