"""The paper's figure (appendix "Experiments"): three learners, two logging policies, the whole grid of settings.

Each method is shown at the setting with the best mean test error, as in the paper. Nowhere else in the project is a setting chosen
on test error, and the caption of the figure says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from observal.errors import InvalidInput
from observal.files import write_text
from observal.paper.active18 import Active18
from observal.paper.active_vc import ActiveVC
from observal.paper.passive import Passive
from observal.tables.spreadsheets import csv_text
from observal_research.curves import Best, Course, Curve, Estimate
from observal_research.datasets import fit_policy, make_linear, simulate
from observal_research.datasets.generators import Shape
from observal_research.partial import Partial, run_parts
from observal_research.trials import Progress

TITLES = {"passive": "Passive", "active18": "Active18", "activevc": "ActiveVC"}
ABLATIONS: dict[str, dict[str, Any]] = {
    "activevc without clipping": {"clip": False},
    "activevc without the regulariser": {"regulariser": False},
    "activevc without bias correction": {"bias_correction": False},
    "activevc without bias correction and multiple importance": {
        "bias_correction": False,
        "multiple_importance": False,
    },
    "activevc without disagreement": {"disagreement": False},
}
EARLY_LABELS = 50
"""Where ActiveVC's lead over Passive is compared with its lead at the end."""
TARGETS = (0.12, 0.10, 0.075)
"""Test errors for "labels to reach"; the flipped labels alone make 0.05."""
SYMBOLS = {"clip_constant": "C", "learning_rate": "η"}

Unit = tuple[str, int, str]
"""One unit of work: policy, trial, method; all settings of the method on the same data."""


@dataclass(frozen=True)
class Specification:
    """What is run; equal specifications give equal results.

    Parameters
    ----------
    shape : {"triangular", "uniform"}
        Shape of the data, as in ``make_linear``; the paper's figure used the first, its text says the
        second.
    trials : int
        Each trial has new data, a new split and new revealed labels, shared by all methods and settings. At least 2.
    random_state : int
        Seed of all random numbers.
    policies, methods : tuple of str
        Names of logging policies; of ``passive``, ``active18`` and ``activevc``.
    clip_constants, learning_rates : tuple of float
        The grid of C and η. Passive has no C.
    ablate : bool
        Add ActiveVC with each of its components removed.
    max_labels : int
        How far the curves go.
    n_rows, n_features, noise
        Of the data.
    """

    shape: Shape = "triangular"
    trials: int = 16
    random_state: int = 0
    policies: tuple[str, ...] = ("certainty", "uncertainty")
    methods: tuple[str, ...] = ("passive", "active18", "activevc")
    clip_constants: tuple[float, ...] = tuple(0.01 * 4**i for i in range(6))
    learning_rates: tuple[float, ...] = (*(0.0001 * 4**i for i in range(7)), 1.0)
    ablate: bool = False
    max_labels: int = 300
    n_rows: int = 6000
    n_features: int = 30
    noise: float = 0.05

    def __post_init__(self) -> None:
        if self.trials < 2:
            raise InvalidInput(f"A standard error needs at least 2 trials, but got {self.trials}; ask for more.")
        if self.max_labels < 1:
            raise InvalidInput(f"Curves need at least 1 label, but max_labels is {self.max_labels}; give a larger one.")
        if unknown := set(self.methods) - set(TITLES):
            raise InvalidInput(f"The figure's methods are {list(TITLES)}, but got {sorted(unknown)}; leave those out.")
        if not (self.policies and self.methods and self.clip_constants and self.learning_rates):
            raise InvalidInput(
                "Policies, methods, clip_constants and learning rates need at least one entry each, but one is empty; fill it."
            )

    @property
    def variants(self) -> tuple[str, ...]:
        """The methods and, with `ablate`, ActiveVC without each of its components."""
        return (*self.methods, *(ABLATIONS if self.ablate else ()))

    @property
    def units(self) -> list[Unit]:
        """All units of work."""
        return [(p, t, v) for t, p, v in product(range(self.trials), self.policies, self.variants)]

    def settings(self, variant: str) -> Sequence[Passive | Active18 | ActiveVC]:
        """Return the method at every setting of its grid, without an intercept, because the true boundary has none."""
        if variant == "passive":
            return [Passive(learning_rate=eta, fit_intercept=False) for eta in self.learning_rates]
        grid = product(self.clip_constants, self.learning_rates)
        if variant == "active18":
            return [Active18(clip_constant=c, learning_rate=eta, fit_intercept=False) for c, eta in grid]
        part = ABLATIONS.get(variant, {})
        return [ActiveVC(clip_constant=c, learning_rate=eta, fit_intercept=False, **part) for c, eta in grid]

    def to_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {
            "seed" if name == "random_state" else name: value for name, value in plain.items()
        }  # as on the command line


@lru_cache(maxsize=2)
def _course(spec: Specification, policy: str, trial: int) -> tuple[Course, int]:
    """Make the data of a trial, and the seed of its runs: both policies see the same rows and the same split."""
    data_seed, plane_seed, split_seed, run_seed = map(
        int, np.random.SeedSequence([spec.random_state, trial]).generate_state(4)
    )
    data = make_linear(spec.n_rows, spec.n_features, spec.noise, spec.shape, data_seed)
    return Course(simulate(data, fit_policy(policy, data, plane_seed), split_seed)), run_seed


def run_unit(spec: Specification, policy: str, trial: int, variant: str) -> list[tuple[list[int], list[float]]]:
    """Return labels and test errors of the curve of every setting, in the order of ``Specification.settings``."""
    course, seed = _course(spec, policy, trial)
    curves = course.curves(spec.settings(variant), spec.max_labels, seed)
    return [(curve.labels.tolist(), curve.errors.tolist()) for curve in curves]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The finished protocol.

    Parameters
    ----------
    spec : Specification
        What was run.
    curves : dict
        From each unit to the curves of its settings.
    seconds : float
        How long this call took.
    """

    spec: Specification
    curves: dict[Unit, list[Curve]]
    seconds: float

    @cached_property
    def best(self) -> dict[str, dict[str, Best]]:
        """Each method's best setting on mean test area, by policy and method; the first where several are best."""
        return {p: {v: self._best(p, v) for v in self.spec.variants} for p in self.spec.policies}

    def _best(self, policy: str, variant: str) -> Best:
        end = self.spec.max_labels
        trials = [self.curves[policy, trial, variant] for trial in range(self.spec.trials)]
        areas = np.array([[curve.area(end) for curve in settings] for settings in trials])
        means = areas.mean(axis=0)
        best = int(np.argmin(means))
        grid = [_params(method) for method in self.spec.settings(variant)]
        errors = np.array([settings[best].at(np.arange(end + 1)) for settings in trials])
        bought = np.array([min(int(settings[best].labels.max()), end) for settings in trials])
        return Best(grid[best], areas[:, best], errors, bought, list(zip(grid, means.tolist(), strict=True)))

    def comparisons(self, policy: str) -> dict[str, Estimate]:
        """Return differences of ActiveVC from the others, paired over trials; empty if it was not run.

        A difference in area below 0, and a lead above 0, is in favour of ActiveVC.
        """
        variants, end = self.best[policy], self.spec.max_labels
        out: dict[str, Estimate] = {}
        if "activevc" not in variants:
            return out
        for rival in [v for v in variants if v != "activevc"]:
            out[f"auc: activevc − {rival}"] = Estimate.of(variants["activevc"].areas - variants[rival].areas)
        if "passive" in variants:
            lead = variants["passive"].errors - variants["activevc"].errors
            early = min(EARLY_LABELS, end)
            out[f"lead over passive at {early} labels"] = Estimate.of(lead[:, early])
            out[f"lead over passive at {end} labels"] = Estimate.of(lead[:, end])
            out[f"growth of the lead from {early} to {end} labels"] = Estimate.of(lead[:, end] - lead[:, early])
        return out

    @property
    def order_holds(self) -> dict[str, dict[str, bool]]:
        """The paper's claims under each policy, each true or false of the means over trials."""
        facts: dict[str, dict[str, bool]] = {}
        for policy in self.spec.policies:
            comparisons = self.comparisons(policy)
            facts[policy] = {
                f"activevc below {rival}": comparisons[f"auc: activevc − {rival}"].mean < 0.0
                for rival in ("active18", "passive")
                if f"auc: activevc − {rival}" in comparisons
            }
            for growth in [estimate for name, estimate in comparisons.items() if name.startswith("growth")]:
                facts[policy]["lead over passive grows"] = growth.mean > 0.0
        return facts

    @property
    def caption(self) -> str:
        """The caption of the figure."""
        spec = self.spec
        return (
            f"Test error against labels bought: means over {spec.trials} trials on {spec.n_rows:,} generated rows "
            f"({spec.shape} shape); bars are standard errors over trials. Each method is shown at its best setting on "
            "test error, as in the paper. After a run's last label its error stays constant. "
            "The panels have different scales."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return areas, settings and mean curves for JSON."""
        policies = {
            policy: {
                variant: {
                    "auc": float(best.areas.mean()),
                    "auc_se": Estimate.of(best.areas).se,
                    "params": best.params,
                    "curve": [[labels, error] for labels, error in enumerate(best.mean.tolist())],
                }
                for variant, best in variants.items()
            }
            for policy, variants in self.best.items()
        }
        return {"policies": policies, "seconds": self.seconds}

    def details(self) -> dict[str, Any]:
        """Return the content of ``results.json``: ``to_dict`` and more."""
        out = self.to_dict()
        for policy, variants in self.best.items():
            for variant, best in variants.items():
                out["policies"][policy][variant] |= {
                    "auc_by_trial": best.areas.tolist(),
                    "labels_bought_by_trial": best.bought.tolist(),
                    "labels_to_reach": {str(target): best.labels_to_reach(target) for target in TARGETS},
                    "grid": [{"params": params, "auc": area} for params, area in best.grid],
                }
        return out | {
            "comparisons": {
                policy: {name: estimate._asdict() for name, estimate in self.comparisons(policy).items()}
                for policy in self.spec.policies
            },
            "order_holds": self.order_holds,
            "note": self.caption,
            "specification": self.spec.to_dict(),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table under ``header``."""
        return [
            (
                policy,
                TITLES.get(variant, variant.replace("activevc", "ActiveVC")),
                f"{100 * best.areas.mean():.2f} ± {100 * Estimate.of(best.areas).se:.2f}",
                ", ".join(f"{SYMBOLS[name]} = {value:g}" for name, value in best.params.items()),
                *("not reached" if (n := best.labels_to_reach(t)) is None else f"{n:.0f}" for t in TARGETS),
            )
            for policy, variants in self.best.items()
            for variant, best in variants.items()
        ]

    @property
    def header(self) -> list[str]:
        """The titles of the table's columns."""
        return [
            "policy",
            "method",
            f"mean error over 0…{self.spec.max_labels} labels, %",
            "best setting",
            *(f"labels to reach {100 * target:g} %" for target in TARGETS),
        ]


def reproduce(
    spec: Specification | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Run the protocol and, if `out` is given, write results, curves and figure there.

    Parameters
    ----------
    spec : Specification, optional
        What to run; by default what the figure shows.
    out : path, optional
        A folder for ``results.json``, ``curves.csv``, ``figure.png`` and ``figure.svg``. Finished units are stored in
        ``partial.jsonl`` in that folder at once.
    jobs : int, optional
        Processes; all cores by default. Results do not depend on it.
    resume : bool
        Whether to keep the units that an interrupted call has finished in `out`.
    progress : callable, optional
        Called with (done, total).
    """
    spec = spec or Specification()
    started = perf_counter()
    partial = None if out is None else Partial(Path(out) / "partial.jsonl", spec.to_dict(), resume)
    finished = run_parts(run_unit, {unit: (spec, *unit) for unit in spec.units}, partial, jobs, progress)
    curves = {unit: [Curve(*curve) for curve in finished[unit]] for unit in spec.units}
    outcome = Reproduction(spec, curves, perf_counter() - started)
    if out is not None:
        write_files(outcome, Path(out))
    return outcome


def write_files(outcome: Reproduction, folder: Path) -> None:
    """Write ``results.json``, ``curves.csv`` and the figure, which shows the paper's three methods."""
    from observal_research.figures import Line, draw_curves

    write_text(folder / "results.json", json.dumps(outcome.details(), indent=1, ensure_ascii=False), force=True)
    rows: list[tuple[Any, ...]] = [("policy", "method", "labels", "error", "error_se")]
    for policy, variants in outcome.best.items():
        for variant, best in variants.items():
            pairs = zip(best.mean.tolist(), best.se.tolist(), strict=True)
            rows += [(policy, variant, labels, *pair) for labels, pair in enumerate(pairs)]
    write_text(folder / "curves.csv", csv_text(rows), force=True)
    labels = np.arange(outcome.spec.max_labels + 1)
    panels = {
        f"{policy.capitalize()} policy": [
            Line(TITLES[name], labels, variants[name].mean, variants[name].se)
            for name in reversed(outcome.spec.methods)
        ]
        for policy, variants in outcome.best.items()
    }
    draw_curves(panels, [folder / "figure.png", folder / "figure.svg"], caption=outcome.caption)


def _params(method: Passive | Active18 | ActiveVC) -> dict[str, float]:
    settings = asdict(method)
    return {name: float(settings[name]) for name in SYMBOLS if name in settings}
