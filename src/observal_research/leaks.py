"""How often leaks are found: on tables with planted leaks of six kinds (hits), and on the same tables as they are (false alarms)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.leaks import Evidence, Leak, find_leaks
from observal.tables import TableRoles, load_problem
from observal_research.benchmark.development import LABEL, halves, list_tables

CARRIES = 0.6  # of the label that honest columns explain: where they explain less, a leak carries nearly everything
DAY = np.datetime64("2024-01-01")


class Measured(NamedTuple):
    """What was found in a table with a planted leak of a kind, or without one ("none"); `honest` is what its own columns explain."""

    table: str
    kind: str
    leaks: tuple[Leak, ...]
    planted: tuple[str, ...]
    honest: float

    @property
    def is_hit(self) -> bool:
        """Whether every planted column is among those to leave out."""
        return bool(self.planted) and set(self.planted) <= {column for leak in self.leaks for column in leak.columns}

    @property
    def is_alarm(self) -> bool:
        """Whether an honest column is among those to leave out."""
        return any(column not in self.planted for leak in self.leaks for column in leak.columns)


def twin(y: Bools, rng: np.random.Generator) -> dict[str, Any]:
    """Return the label with 1 to 5 % of its values flipped."""
    return {"flag": np.where(rng.random(y.size) < rng.uniform(0.01, 0.05), ~y, y).astype(np.int64)}


def missing(y: Bools, rng: np.random.Generator) -> dict[str, Any]:
    """Return a number that is mostly missing unless the label is positive."""
    known = np.where(y, rng.random(y.size) < 0.97, rng.random(y.size) < 0.02)
    return {"fee": np.where(known, rng.gamma(2.0, 50.0, y.size).round(2), np.nan)}


def outcome_date(y: Bools, rng: np.random.Generator) -> dict[str, Any]:
    """Return a date of entry, and the date of the outcome where the label is positive."""
    entry = DAY + rng.integers(0, 400, y.size).astype("timedelta64[D]")
    after = entry + rng.integers(1, 90, y.size).astype("timedelta64[D]")
    return {
        "entry": entry.astype("datetime64[ns]"),
        "closed": np.where(y, after, np.datetime64("NaT")).astype("datetime64[ns]"),
    }


def together(y: Bools, rng: np.random.Generator) -> dict[str, Any]:
    """Return two columns that tell the label only together: whether they differ, or whether their sum is above 0."""
    if rng.random() < 0.5:
        first = rng.random(y.size) < 0.5
        return {"gate": np.where(first, "a", "b"), "exit": np.where(first ^ y, "a", "b")}
    paid = rng.normal(size=y.size)
    return {"paid": paid.round(3), "owed": (np.where(y, 1, -1) * rng.exponential(1.0, y.size) - paid).round(3)}


def consequence(y: Bools, rng: np.random.Generator) -> dict[str, Any]:
    """Return a number that the outcome raises, with noise: its AUC is about 0.97."""
    return {"calls": (rng.normal(size=y.size) + 2.66 * y).round(2)}


def renamed(y: Bools, rng: np.random.Generator) -> dict[str, Any]:
    """Return the label under other names, one of them split in two."""
    return {"state": np.where(y, rng.choice(["collections", "legal"], y.size), "regular")}


KINDS: dict[str, tuple[Callable[[Bools, np.random.Generator], dict[str, Any]], str]] = {
    "near twin": (twin, "the label with 1 to 5 % flips"),
    "missing": (missing, "known almost only where the label is positive"),
    "outcome date": (outcome_date, "a date that only positive rows have"),
    "two columns": (together, "neither tells much alone: xor, or a sum"),
    "consequence": (consequence, "a noisy number with an AUC of 0.97"),
    "renamed": (renamed, "the label in other words"),
}
HONEST = ("entry",)  # a planted column that gives nothing away


def measure_table(frame: Any, table: str, kind: str, seed: int) -> Measured:
    """Plant a leak in a table, log it under a policy, and return what is found.

    The first half of the sorted classes is negative. The policy looks at the first column.
    """
    rng = np.random.default_rng([seed, len(kind), len(frame)])
    y = halves(frame[LABEL].to_numpy(dtype=str)) == 1
    rows = frame.drop(columns=LABEL)
    planted = {} if kind == "none" else KINDS[kind][0](y, rng)
    rows = rows.assign(**planted, chance=_policy(rows.iloc[:, 0].to_numpy(), rng))
    shown = np.asarray(rng.random(len(rows)) < rows["chance"])
    rows["bad"] = [("yes" if positive else "no") if known else None for positive, known in zip(y, shown, strict=True)]
    in_log = rng.random(len(rows)) < 0.7
    loaded = load_problem(rows[in_log], rows[~in_log].drop(columns="bad"), TableRoles("bad", "chance"))
    encoder = loaded.encoder
    leaks = find_leaks(loaded.logged, encoder.names, encoder.sources, encoder.dates, "bad")
    evidence = Evidence.of(loaded.logged, encoder.names, encoder.sources, encoder.dates)
    honest = 0.0 if evidence is None else evidence.model([c for c in evidence.columns if c not in planted])
    return Measured(table, kind, leaks, tuple(name for name in planted if name not in HONEST), honest)


def _policy(column: Any, rng: np.random.Generator) -> Floats:
    """Return propensities from 0.3 to 0.9 that rise with a column."""
    order: Ints = np.unique(
        np.asarray(column).astype(str) if column.dtype.kind == "O" else column, return_inverse=True
    )[1]
    rank = (order + rng.uniform(0, 1e-6, order.size)).argsort().argsort() / max(1, order.size - 1)
    return np.asarray(0.3 + 0.6 * rank)


def measure(folder: str | Path, seeds: int = 1) -> list[Measured]:
    """Return what is found in every table of a folder, without a leak and with each kind of leak."""
    import pandas as pd  # type: ignore[import-untyped]

    return [
        measure_table(pd.read_parquet(Path(folder) / f"{name}.parquet"), name, kind, seed)
        for seed in range(seeds)
        for name in list_tables(folder)
        for kind in ("none", *KINDS)
    ]


def summarise(measured: list[Measured]) -> list[tuple[str, ...]]:
    """Return for each kind: what was planted, hits where the leak carries nearly everything, hits elsewhere, false alarms."""
    rows: list[tuple[str, ...]] = []
    for kind, about in [("none", "nothing"), *((kind, words) for kind, (_, words) in KINDS.items())]:
        own = [one for one in measured if one.kind == kind]
        parts = [[one for one in own if (one.honest < CARRIES) == carries] for carries in (True, False)]
        hits = [f"{sum(one.is_hit for one in part)} of {len(part)}" if kind != "none" else "" for part in parts]
        rows.append((f"{kind}: {about}", *hits, f"{sum(one.is_alarm for one in own)} of {len(own)}"))
    return rows
