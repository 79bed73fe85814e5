"""Record what observal decides, prints and offers, so that a change can be compared with what was there before.

    python scripts/record_behaviour.py results before.json     # seven methods × 20 seeds, in memory, over Parquet and in a campaign
    python scripts/record_behaviour.py commands before-c.json  # the help and output of every command
    python scripts/record_behaviour.py signatures before-s.json
    python scripts/record_behaviour.py compare before.json after.json

It uses the public API, the command line and a campaign's database only, so it runs on any version: set PYTHONPATH to the other one.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import inspect
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

N_LOGGED = 160
WAYS = ("memory", "parquet", "campaign")
COMMANDS = [
    "diagnose",
    "init",
    "demo",
    "ask",
    "tell",
    "serve",
    "annotator",
    "release",
    "extend",
    "status",
    "report",
    "export",
    "history",
    "check",
    "backup",
]
PASSING = ("time", "observal", "digest", "made", "versions")  # entries of the journal that differ from run to run


def digest(*values: Any) -> str:
    """Return a short hash of arrays, to the last bit."""
    total = hashlib.sha256()
    for value in values:
        total.update(repr(np.asarray(value).tolist()).encode())
    return total.hexdigest()[:16]


def make_methods() -> dict[str, Any]:
    """Return the seven methods."""
    from sklearn.linear_model import LogisticRegression

    import observal as ob

    return {
        "Passive": ob.Passive(),
        "Active18": ob.Active18(),
        "ActiveVC": ob.ActiveVC(),
        "ExactDBAL": ob.ExactDBAL(ob.Stumps(), gamma=0.05),
        "NewtonVC": ob.NewtonVC(),
        "CommitteeVC": ob.CommitteeVC(LogisticRegression()),
        "AutoVC": ob.AutoVC(),
    }


def run_method(name: str, seed: int, way: str, folder: str) -> tuple[Any, np.ndarray]:
    """Return a run's result and the rows that its classifier is compared on."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import observal as ob
    from observal.parquet import Threads

    rng = np.random.default_rng(1000 + seed)
    X = rng.uniform(-1, 1, (2 * N_LOGGED, 3))
    flipped = rng.random(len(X)) < 0.08
    y = np.where((X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.1) ^ flipped, "yes", "no")
    q0 = np.clip(0.05 + 0.9 * (X[:, 1] > -0.2) * rng.uniform(0.3, 1, len(X)), 0.05, 1)
    labels = np.where(rng.random(N_LOGGED) < q0[:N_LOGGED], y[:N_LOGGED], None)
    method, log, pool = make_methods()[name], slice(N_LOGGED), slice(N_LOGGED, None)

    def oracle(ids: Any) -> list[str]:
        return [y[N_LOGGED + int(i)] for i in ids]

    if way == "parquet":
        columns = {f"x{k}": X[:, k] for k in range(3)} | {"q": q0}
        tables = {
            name: pa.table({key: column[rows] for key, column in columns.items()})
            for name, rows in (("log", log), ("pool", pool))
        }
        tables["log"] = tables["log"].append_column("y", pa.array(labels.tolist(), pa.string()))
        for part, table in tables.items():
            pq.write_table(table, f"{folder}/{part}.parquet", row_group_size=64)
        logged = ob.LoggedData.from_parquet(f"{folder}/log.parquet", label="y", propensity="q")
        return ob.run(
            logged,
            ob.Pool.from_parquet(f"{folder}/pool.parquet", propensity="q"),
            oracle,
            method,
            24,
            seed,
            executor=Threads(1),
        ), X
    logged, rows = ob.LoggedData(X[log], labels, q0[log]), ob.Pool(X[pool], q0[pool])
    if way == "memory":
        return ob.run(logged, rows, oracle, method, 24, seed), X
    campaign = ob.Campaign.create_from_arrays(
        f"{folder}/c.db", logged, rows, label_budget=24, method=method, random_state=seed
    )
    while batch := campaign.ask(7):
        campaign.tell(batch.ids, oracle(batch.ids))
    return ob.Campaign.open(f"{folder}/c.db").result(), X


def summarise(result: Any, X: np.ndarray) -> dict[str, Any]:
    """Return digests of decisions, rounds and the classifier, and the intervals themselves."""
    queries, decisions, estimator = result.queries, result.decisions, result.estimator
    counts = ("index", "labels", "seen", "asked", "inferred", "passed", "skipped", "clip", "disagreement")
    summary = {
        "queries": digest(*(queries[name] for name in ("id", "round", "query_probability", "label"))),
        "decisions": digest(*(decisions[name] for name in ("id", "action", "query_probability"))),
        "reasons": digest(decisions["reason"]),
        "stopped": result.stopped,
        "intervals": {key: [i.estimate, i.low, i.high, i.confidence] for key, i in result.intervals.items()},
        "rounds": digest([[getattr(round_, name) for name in counts] for round_ in result.rounds]),
        "predictions": digest(estimator.predict(X)),
    }
    for name in ("decision_function", "predict_proba"):
        if (scores := getattr(estimator, name, None)) is not None:
            summary[name] = digest(scores(X))
    if (coef := getattr(estimator, "coef_", None)) is not None:
        summary["coef"] = digest(coef)
    return summary


def without_passing(value: Any) -> Any:
    """Return a payload without what differs from run to run."""
    if isinstance(value, dict):
        return {key: without_passing(item) for key, item in value.items() if key not in PASSING}
    return [without_passing(item) for item in value] if isinstance(value, list) else value


def record_run(job: tuple[str, int, str]) -> tuple[str, dict[str, Any]]:
    """Return the name and the summary of one run."""
    from threadpoolctl import threadpool_limits

    warnings.simplefilter("ignore")
    name, seed, way = job
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        summary = summarise(*run_method(name, seed, way, folder))
        if way == "campaign":
            statement = "select kind, actor, payload from observal_journal order by sequence"
            events = sqlite3.connect(f"{folder}/c.db").execute(statement).fetchall()
            summary["journal"] = [
                [kind, actor, digest(json.dumps(without_passing(json.loads(payload)), sort_keys=True))]
                for kind, actor, payload in events
            ]
    return f"{name}/{seed}/{way}", summary


def record_results(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all methods."""
    names = arguments.methods.split(",") if arguments.methods else list(make_methods())
    jobs = [(name, seed, way) for name in names for seed in range(arguments.seeds) for way in WAYS]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        return dict(pool.map(record_run, jobs))


def record_commands(_: argparse.Namespace) -> dict[str, Any]:
    """Run a small campaign on the command line."""
    outputs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:

        def call(*words: str) -> str:
            command = [str(Path(sys.executable).parent / "observal"), *words]
            environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb"}
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
            text = f"{done.stdout}\n[errors] {done.stderr}\n[exit {done.returncode}]".replace(folder, "FOLDER")
            text = re.sub(r"20\d\d-\d\d-\d\d[T ][\d:.]+(\+00:00|Z)?", "TIME", text)
            text = re.sub(r"\b[0-9a-f]{32,64}\b", "DIGEST", text)
            outputs[" ".join(words)] = text
            return text

        call("--help")
        for command in COMMANDS:
            call(command, "--help")
        truth = write_tables(Path(folder))
        roles = ["--pool", "pool.csv", "--label", "late", "--propensity", "q0", "--id", "loan"]
        call("diagnose", "log.csv", *roles, "--json")
        call("diagnose", "log.csv", *roles)
        call("init", "c.db", "--logged", "log.csv", *roles, "--budget", "20", "--json")
        for k in range(3):
            call("ask", "c.db", "-n", str(5 + k), "--json")
            rows = [
                line.split(",")[0].strip('"') for line in call("ask", "c.db", "-n", str(5 + k), "--csv").splitlines()
            ]
            answers = [f"{row},{truth[row]}" for row in rows if row in truth]
            Path(folder, f"answers{k}.csv").write_text("\n".join(["loan,late", *answers, ""]))
            call("tell", "c.db", f"answers{k}.csv", "--json")
        for words in (
            "status",
            "status --json",
            "status --interval --json",
            "history",
            "history --json",
            "check --json",
        ):
            command, *options = words.split()
            call(command, "c.db", *options)
        call("release", "c.db", "--annotator", "anyone", "--json")
        call("extend", "c.db", "--budget", "25", "--json")
        call("export", "c.db", "late.model", "--json")
        call("report", "c.db", "--out", "report.html")
        call("tell", "c.db", "log.csv")
        call("init", "c.db", "--logged", "log.csv", *roles)
    return outputs


def write_tables(folder: Path) -> dict[str, str]:
    """Write a log and a pool of loans as CSV, and return each loan's label."""
    rng, n = np.random.default_rng(5), 300
    age, income, home = (
        rng.integers(18, 80, n),
        rng.normal(2000, 500, n).round(2),
        rng.choice(["own", "rent", "other"], n),
    )
    late = np.where(income / 20 + age + 30 * (home == "own") + rng.normal(0, 20, n) < 140, "yes", "no")
    q0 = np.clip(income / 3000, 0.1, 0.95).round(3)
    shown = rng.random(n) < q0
    loans = [f"L{k:04d}" for k in range(n)]
    lines = [f"{loans[k]},{age[k]},{income[k]},{home[k]},{q0[k]}" for k in range(n)]
    log = [f"{lines[k]},{late[k] if shown[k] else ''}" for k in range(n // 2)]
    (folder / "log.csv").write_text("\n".join(["loan,age,income,home,q0,late", *log, ""]))
    (folder / "pool.csv").write_text("\n".join(["loan,age,income,home,q0", *lines[n // 2 :], ""]))
    return dict(zip(loans, late.tolist(), strict=True))


def record_signatures(_: argparse.Namespace) -> dict[str, Any]:
    """Return the signature of every public name."""
    import observal as ob

    signatures: dict[str, Any] = {}
    for name in ob.__all__:
        value = getattr(ob, name)
        if inspect.ismodule(value):
            continue
        signatures[name] = str(inspect.signature(value)) if callable(value) else repr(value)
        for member in sorted(dir(value)) if inspect.isclass(value) else ():
            if not member.startswith("_"):
                attribute = inspect.getattr_static(value, member)
                signatures[f"{name}.{member}"] = (
                    str(inspect.signature(attribute)) if inspect.isfunction(attribute) else "attribute"
                )
    return signatures


def compare(arguments: argparse.Namespace) -> int:
    """Print what differs between two records, and return the number of entries that do."""
    before, after = (json.loads(Path(path).read_text()) for path in (arguments.before, arguments.after))
    keys = sorted({*before, *after}) if not arguments.subset else sorted({*before} & {*after})
    different = [key for key in keys if before.get(key) != after.get(key)]
    for key in different:
        print("differs:", key)
        first, second = before.get(key), after.get(key)
        if isinstance(first, dict) and isinstance(second, dict):
            for part in (part for part in {**first, **second} if first.get(part) != second.get(part)):
                print(f"    {part}: {first.get(part)!s:.300} -> {second.get(part)!s:.300}")
        elif isinstance(first, str) and isinstance(second, str):
            print("\n".join(difflib.unified_diff(first.splitlines(), second.splitlines(), lineterm="", n=0)))
    print(f"{len(different)} of {len(keys)} entries differ")
    return int(bool(different))


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recorders = {"results": record_results, "commands": record_commands, "signatures": record_signatures}
    for name in recorders:
        command = commands.add_parser(name)
        command.add_argument("out", type=Path)
        if name == "results":
            command.add_argument("--seeds", type=int, default=20)
            command.add_argument("--methods", help="as A,B; all by default")
            command.add_argument("--jobs", type=int, default=os.cpu_count())
    command = commands.add_parser("compare")
    command.add_argument("before", type=Path)
    command.add_argument("after", type=Path)
    command.add_argument("--subset", action="store_true", help="compare only entries that both have")
    arguments = parser.parse_args()
    if arguments.command == "compare":
        return compare(arguments)
    arguments.out.write_text(json.dumps(recorders[arguments.command](arguments), indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
