"""The demo: digits whose labels an old scorecard chose to reveal, and what 150 more labels are worth, bought two ways."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from observal.checks import Floats
from observal.datasets import Dataset, Simulation, fit_policy, load_shipped, simulate
from observal.experiments.curves import Course, Curve, Estimate
from observal.experiments.trials import Progress, run_all
from observal.methods import ActiveVC, Method, Passive

TRIALS = 8
LABELS = 150
# Settings as they come.
METHODS: dict[str, Method] = {
    "ActiveVC": ActiveVC(),
    "buy labels in order (Passive)": Passive(),
}


def make_trial(seed: int) -> Simulation:
    """Return one split of the handwritten digits, even against odd, with labels revealed by a scorecard."""
    digits = load_shipped("digits")
    spread = digits.X.std(axis=0)
    X = (digits.X - digits.X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    X = X / np.sqrt(X.shape[1])  # rows of length about 1, as gradient steps of the default size want them
    data = Dataset(X, digits.y, digits.name, digits.description)
    return simulate(data, fit_policy("scorecard", data, seed), seed)


def run_trial(seed: int) -> tuple[list[tuple[list[int], list[float]]], int, int]:
    """Return each method's curve on one split, and how many logged labels and rows there were."""
    world = make_trial(seed)
    curves = Course(world).curves(METHODS.values(), LABELS, seed)
    plain = [(curve.labels.tolist(), curve.errors.tolist()) for curve in curves]
    return plain, int(world.logged.revealed.sum()), len(world.logged)


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found: test errors of each method, trials × label counts."""

    errors: dict[str, Floats]
    revealed: float
    rows_logged: int
    figure: Path

    @property
    def summary(self) -> str:
        """What was done, in words."""
        return (
            f"{self.rows_logged} handwritten digits were logged, even or odd to be told; an old scorecard on half the "
            f"pixels revealed about {self.revealed:.0f} of their labels. {LABELS} more labels, {TRIALS} splits:"
        )

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the table: the log alone, then each method."""

        def percent(values: Any) -> str:
            estimate = Estimate.of(values)
            return f"{100 * estimate.mean:.1f} ± {100 * estimate.se:.1f}"

        first = next(iter(self.errors.values()))
        table = [("the log alone", "0", percent(first[:, 0]))]
        for name, errors in self.errors.items():
            table += [(name, str(n), percent(errors[:, n])) for n in (50, LABELS)]
        return table

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "figure": str(self.figure),
            "mean_error": {name: errors.mean(axis=0).tolist() for name, errors in self.errors.items()},
        }


def run_demo(out: Path, seed: int = 0, progress: Progress | None = None, jobs: int | None = None) -> Demo:
    """Run the demo, draw its figure in the folder `out`, and return what was found."""
    from observal.report.figures import Line, draw_curves

    out.mkdir(parents=True, exist_ok=True)
    outcomes = run_all(run_trial, [(seed + trial,) for trial in range(TRIALS)], jobs, progress)
    labels = np.arange(LABELS + 1)
    errors = {
        name: np.array([Curve(*curves[number]).at(labels) for curves, _, _ in outcomes])
        for number, name in enumerate(METHODS)
    }
    figure = out / "demo.png"
    caption = (
        f"Handwritten digits, even against odd; labels known only where an old scorecard chose to look. Means of {TRIALS} "
        "random splits, bars are standard errors. All settings are the defaults."
    )
    lines = [
        Line(name, labels, found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(TRIALS))
        for name, found in errors.items()
    ]
    draw_curves({"What more labels are worth": lines}, [figure], caption=caption, bars_every=30)
    return Demo(errors, float(np.mean([o[1] for o in outcomes])), outcomes[0][2], figure)
