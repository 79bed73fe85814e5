"""What the re-benchmark says: how many published runs came out the same, and ours against the best margin row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from observal.checks import Floats
from observal.problem.words import count
from observal_research.benchmark.scores import paired_difference
from observal_research.benchmark.tables import markdown
from observal_research.rebenchmark.protocol import MODELS

MARGIN = "margin_"
"""Before a model's name: margin sampling with it."""
RANDOM, SCORECARD = "random", "scorecard"
"""How the first labels were drawn."""
SCORERS = ("own", "rbf_svm")
"""Our own model, and theirs on the rows that we chose."""

Unit = tuple[str, str, int, str]
"""A piece of work: variant, table, seed, contestant."""


@dataclass(frozen=True, eq=False)
class RebenchmarkReport:
    """Every AUBC, and what follows.

    Parameters
    ----------
    tables : tuple of str
        The tables.
    seeds : int
        Seeds a table.
    methods : tuple of str
        Our methods.
    published : dict
        From (table, seed, model) to the published AUBC of margin sampling.
    scores : dict
        From (variant, table, seed, contestant) to its AUBC by scorer, and its seconds.
    """

    tables: tuple[str, ...]
    seeds: int
    methods: tuple[str, ...]
    published: dict[tuple[str, int, str], float]
    scores: dict[Unit, dict[str, float]]

    # -- published runs, repeated ----------------------------------------------------------------------------------------

    agreement_header = (
        "margin with",
        "published runs repeated",
        "equal to five decimals",
        "mean difference",
        "largest",
    )

    def agreement_rows(self) -> list[tuple[str, ...]]:
        """Return, for each model, how many published runs came out the same, and how far off the others are."""
        out: list[tuple[str, ...]] = []
        for model in MODELS:
            pairs = [(key, value) for key, value in self.published.items() if key[2] == model and key[0] in self.tables]
            if pairs:
                off = np.array([round(self.scores[RANDOM, t, s, MARGIN + m]["own"], 5) - v for (t, s, m), v in pairs])
                equal = int((np.abs(off) < 1e-9).sum())
                out.append((model, str(len(pairs)), str(equal), f"{off.mean():+.5f}", f"{np.abs(off).max():.5f}"))
        return out

    # -- ours against the best margin row --------------------------------------------------------------------------------

    def ours(self, variant: str, table: str, method: str, scorer: str) -> Floats:
        """Return our AUBC, one a seed."""
        return np.array([self.scores[variant, table, seed, method][scorer] for seed in range(self.seeds)])

    def margins(self, variant: str, table: str) -> dict[str, Floats]:
        """Return the AUBC of margin sampling by model, one a seed: published ones or, with the scorecard, our own runs."""
        out = {}
        for model in MODELS:
            if variant == SCORECARD:
                values = [self.scores[variant, table, seed, MARGIN + model]["own"] for seed in range(self.seeds)]
            else:
                keys = [(table, seed, model) for seed in range(self.seeds)]
                values = [self.published[key] for key in keys if key in self.published]
            if len(values) == self.seeds:
                out[model] = np.array(values)
        return out

    def best_margin(self, variant: str, table: str) -> tuple[str, Floats]:
        """Return the model whose margin sampling has the highest mean AUBC on the table, and its AUBC, one a seed."""
        rows = self.margins(variant, table)
        best = max(rows, key=lambda model: float(rows[model].mean()))
        return best, rows[best]

    def gain(self, variant: str, method: str, scorer: str) -> tuple[float, float, float]:
        """Return our mean AUBC minus the best margin's, and the 95 % interval over seeds, tables being what they are."""
        mine = [self.ours(variant, table, method, scorer) for table in self.tables]
        best = [self.best_margin(variant, table)[1] for table in self.tables]
        by_seed = [list(np.mean(values, axis=0)[:, np.newaxis]) for values in (mine, best)]
        difference = paired_difference(by_seed[0], by_seed[1])
        return difference.mean, difference.low, difference.high

    # -- tables ----------------------------------------------------------------------------------------------------------

    @property
    def header(self) -> list[str]:
        """The titles of ``rows``."""
        return ["table", "best margin", "its model", *(f"{m}, scored by {s}" for m in self.methods for s in SCORERS)]

    def rows(self, variant: str) -> list[tuple[str, ...]]:
        """Return the mean AUBC by table of the best margin row and of ours, with our own model and with theirs; means last."""
        body, values = [], []
        for table in self.tables:
            model, best = self.best_margin(variant, table)
            ours = [float(self.ours(variant, table, m, s).mean()) for m in self.methods for s in SCORERS]
            values.append([float(best.mean()), *ours])
            body.append((table, f"{best.mean():.4f}", model, *(f"{value:.4f}" for value in ours)))
        first, *others = np.mean(values, axis=0)
        return [*body, ("mean over tables", f"{first:.4f}", "", *(f"{value:.4f}" for value in others))]

    def summary(self) -> list[str]:
        """Return the verdict in a few sentences."""
        repeated = [
            f"Published margin sampling with {model}: {equal} of {count(int(runs), 'run')} repeated to five decimals."
            for model, runs, equal, *_ in self.agreement_rows()
        ]
        words = {RANDOM: "first labels at random, best published margin by table"}
        words[SCORECARD] = "first labels by an old scorecard, best margin by table (our runs)"
        gains = [
            f"{method}, scored by {'itself' if scorer == 'own' else scorer}; {words[variant]}: "
            f"{_signed(self.gain(variant, method, scorer))}"
            for variant in (RANDOM, SCORECARD)
            for method in self.methods
            for scorer in SCORERS
        ]
        return [*repeated, *gains]

    @property
    def seconds(self) -> dict[str, float]:
        """The mean time of one run of each contestant."""
        names = dict.fromkeys(unit[3] for unit in self.scores)
        return {n: float(np.mean([v["seconds"] for u, v in self.scores.items() if u[3] == n])) for n in names}

    def to_markdown(self) -> str:
        """Return the tables and the summary for ``rebenchmark.md``."""
        parts: Sequence[str] = [
            "\n".join(self.summary()),
            markdown(self.agreement_header, self.agreement_rows()),
            *(
                f"First labels: {variant}\n\n{markdown(self.header, self.rows(variant))}"
                for variant in (RANDOM, SCORECARD)
            ),
        ]
        return "\n\n".join(parts) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return everything for ``rebenchmark.json``."""
        return {
            "seeds": self.seeds,
            "tables": list(self.tables),
            "summary": self.summary(),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "runs": [[*unit, value] for unit, value in self.scores.items()],
        }


def _signed(gain: tuple[float, float, float]) -> str:
    mean, low, high = gain
    interval = f" (95 % interval over seeds {low:+.4f} to {high:+.4f})" if np.isfinite(low) else ""
    return f"mean AUBC {mean:+.4f}{interval}."
