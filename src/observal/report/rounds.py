"""The table of rounds in a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from observal.problem.words import percent
from observal.report.content import ReportContent
from observal.report.sections import cell

MOST_ROUNDS = 60  # rows in the table of rounds; with more rounds, some are left out
SHARES = ("uncertain", "least_chance")

ROUND_WORDS = {
    "index": "round",
    "labels": "labels so far",
    "asked": "in this round",
    "inferred": "inferred without asking",
    "passed": "passed over",
    "clip": "largest weight",
    "uncertain": "pool still undecided",
    "least_chance": "smallest chance",
    "learners": "models in the blend",
    "features": "features used",
    "ridge": "shrinkage",
    "tempering": "power of the weights",
    "returned_round": "classifier of round",
}


def rounds_table(content: ReportContent) -> dict[str, Any]:
    """Return the header and the rows of the table of rounds, which columns are text, and how many rounds are left out."""
    rounds = content.result.rounds
    shown = np.arange(len(rounds))
    if len(rounds) > MOST_ROUNDS:
        shown = np.unique(np.linspace(0, len(rounds) - 1, MOST_ROUNDS).round().astype(np.int64))
    details = list(dict.fromkeys(key for r in rounds for key in r.details))
    optional = ("skipped", "inferred", "passed", "candidates")
    names = ["index", "labels", "asked", *(name for name in optional if any(getattr(r, name) for r in rounds)), "clip"]
    table = []
    for r in (rounds[i] for i in shown.tolist()):
        values = {**{name: getattr(r, name) for name in names}, "uncertain": r.disagreement, **r.details}
        columns = [*names, "uncertain", *details]
        table.append([percent(values[name]) if _is_share(name, values) else cell(values.get(name)) for name in columns])
    header = [ROUND_WORDS.get(name, name.replace("_", " ")) for name in (*names, "uncertain", *details)]
    text = [any(isinstance(r.details.get(name), str) for r in rounds) for name in (*names, "uncertain", *details)]
    return {"header": list(zip(header, text, strict=True)), "rows": table, "left_out": len(rounds) - len(table)}


def _is_share(name: str, values: dict[str, Any]) -> bool:
    return name in SHARES and values.get(name) is not None and bool(np.isfinite(values[name]))
