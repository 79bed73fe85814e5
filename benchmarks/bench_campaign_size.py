"""A campaign on a large table of categories: seconds of each command, and the size of its database beside that of the CSV.

    python benchmarks/bench_campaign_size.py [--rows 100000] [--labels 200] [--ordinary] [--keep FOLDER]

The table is made up, with the shape of a census: most columns are long words of which one value is common, and it becomes 408 features.
Wanted at 100,000 + 100,000 rows: `status --interval` under 20 s, `report` under 60 s, a database no larger than the CSV. With
``--ordinary``, 1,200 + 1,200 rows of 12 columns, some of their values missing: an `ask` that opens a round and `report` under 4 s, and once a round is
fitted an `ask`, `status --interval` and `export` under 1.5 s. Seconds of the processor are printed too, because they do not depend on what else the machine
is doing.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from commands import Cost, run

CENSUS = (9, 52, 47, 17, 3, 7, 24, 15, 5, 10, 2, 3, 6, 8, 6, 50, 38, 8, 9, 8, 9, 3, 4, 5, 43, 5, 3, 3)
"""How many values each column of categories has; 408 columns in all with those of numbers."""
SMALL = (3, 5, 2, 8, 4)
WORDS = [
    "not",
    "in",
    "universe",
    "under",
    "eighteen",
    "years",
    "old",
    "or",
    "never",
    "worked",
    "nonmover",
    "all",
    "other",
    "industries",
    "and",
    "trade",
]


def make_table(
    rows: int, categories: tuple[int, ...], numbers: int, seed: int, missing: float
) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """Return the features, the label of each row, and the chance that the old policy looked at it."""
    rng = np.random.default_rng(seed)
    rule = np.random.default_rng(7)
    columns, score = {}, np.zeros(rows)
    for k, count in enumerate(categories):
        odds = 1.0 / np.arange(1, count + 1) ** rule.uniform(1.0, 2.5)
        codes = rng.choice(count, rows, p=odds / odds.sum())
        words = [f"{' '.join(rule.choice(WORDS, 2 + k % 2))} {value}" for value in range(count)]
        columns[f"c{k}"] = pa.array(np.array(words, dtype=object)[codes])
        score += rule.normal(size=count)[codes] / np.sqrt(len(categories))
    for k in range(numbers):
        values = np.where(rng.random(rows) < 0.6, 0, rng.integers(0, 5000, rows))
        columns[f"n{k}"] = pa.array(values, mask=rng.random(rows) < missing if missing else None)
        score += rule.normal() * (values > 0) / np.sqrt(numbers)
    label = score + rng.logistic(size=rows) * 0.3 > np.quantile(score, 0.8)
    chance = np.where(columns["c0"].to_numpy(zero_copy_only=False) == columns["c0"][0].as_py(), 0.06, 0.02)
    return pa.table(columns), label, chance


def make_files(folder: Path, rows: int, ordinary: bool) -> dict[str, str]:
    """Write log and pool, and return the label of each pool row."""
    categories, numbers = (SMALL, 7) if ordinary else (CENSUS, 8)
    answers = {}
    for name, seed in (("logged", 0), ("pool", 1)):
        table, label, chance = make_table(rows, categories, numbers, seed, 0.05 if ordinary else 0.0)
        chance = chance * 3 if ordinary else chance
        words = np.where(label, "high", "low")
        table = table.add_column(0, "id", pa.array(np.arange(rows) + seed * rows))
        table = table.append_column("q0", pa.array(chance))
        if name == "logged":
            seen = np.random.default_rng(2).random(rows) < chance
            table = table.append_column("income", pa.array(words, mask=~seen))
        else:
            answers = dict(zip((np.arange(rows) + rows).astype(str), words, strict=True))
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
    return answers


def answer(path: Path, answers: dict[str, str]) -> int:
    """Fill in a file of asked rows, and return how many there are."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["income"] = answers[row["id"]]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def show(command: str, measured: Cost) -> None:
    seconds, busy, megabytes = measured
    print(f"{command:<22} {seconds:6.1f} s  {busy:6.1f} s of the processor  {megabytes:6.0f} MB", flush=True)


def measure(folder: Path, options: argparse.Namespace) -> None:
    answers = make_files(folder, options.rows, options.ordinary)
    csvs = [folder / "logged.csv", folder / "pool.csv"]
    where, asked, page = folder / "campaign.db", folder / "asked.csv", folder / "report.html"
    data = ["--logged", csvs[0], "--pool", csvs[1], "--label", "income", "--propensity", "q0", "--id", "id"]
    show("init", run("init", where, *data, "--budget", options.labels, "--tolerance", 0))
    bought, rounds = 0, 0
    while bought < options.labels:
        asked.unlink(missing_ok=True)
        asking = run("ask", where, "-o", asked)
        bought, rounds = bought + answer(asked, answers), rounds + 1
        telling = run("tell", where, asked)
        if rounds == 1:
            show("ask, the first round", asking)
            show("tell", telling)
    show(f"ask, round {rounds}", asking)
    show("status", run("status", where))
    show("status --interval", run("status", where, "--interval"))
    show("status, once fitted", run("status", where, "--interval"))
    run("extend", where, "--budget", options.labels + 1)
    run("status", where, "--interval")
    asked.unlink(missing_ok=True)
    show("ask, once fitted", run("ask", where, "-o", asked))
    show("ask, again", run("ask", where, "--csv"))
    show("report", run("report", where, "-o", page))
    show("export", run("export", where, folder / "model.skops"))
    size, of_csv = where.stat().st_size / 2**20, sum(path.stat().st_size for path in csvs) / 2**20
    print(f"{'database':<22} {size:6.1f} MB, {size / of_csv:.2f} times the {of_csv:.1f} MB of CSV")
    print(f"{'report':<22} {page.stat().st_size / 2**20:6.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int)
    parser.add_argument("--labels", type=int, default=200)
    parser.add_argument("--ordinary", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    options.rows = options.rows or (1200 if options.ordinary else 100_000)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        return measure(options.keep, options)
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), options)


if __name__ == "__main__":
    main()
