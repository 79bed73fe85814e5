"""The demo: tumours whose diagnosis is known only where an old scorecard looked, and how much 60 more labels help.

Methods are compared on random splits. The first split is then run as a campaign, as a user would do it: make it from a log and a
pool, ask and tell, and write a report.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from observal.campaign import Campaign
from observal.checks import Floats
from observal.datasets import Dataset, Simulation, fit_policy, load_shipped, simulate
from observal.errors import CampaignExists, ObservalError
from observal.experiments.curves import Course, Curve, Estimate, Streams
from observal.experiments.trials import Progress, run_all
from observal.methods import ActiveVC, AutoVC, Method, NewtonVC
from observal.threads import one_thread

TRIALS = 16
LABELS = 60
ID, LABEL = "tumour", "diagnosis"  # columns of the campaign
# Default settings, except for the third, which picks every row at random with the same chance.
METHODS: dict[str, Method] = {
    "AutoVC (the default)": AutoVC(),
    "NewtonVC (linear)": NewtonVC(),
    "NewtonVC's fit, random rows": NewtonVC(explore_share=1.0, gate_share=0.0),
    "ActiveVC (from the paper)": ActiveVC(),
}


def make_trial(random_state: int, scaled: bool = True) -> Simulation:
    """Return one split of the tumours, with labels revealed by a scorecard.

    Parameters
    ----------
    random_state : int
        Seed of the split, of the scorecard and of which labels it reveals.
    scaled : bool
        Whether to scale the rows to a length of about 1, which suits the default learning rate; split and policy do not
        depend on it.
    """
    tumours = load_shipped("breast_cancer")
    X = tumours.X
    if scaled:
        X = (X - X.mean(axis=0)) / (X.std(axis=0) * np.sqrt(X.shape[1]))
    data = Dataset(X, np.where(tumours.y == 1, "benign", "malignant"), tumours.name, tumours.description)
    return simulate(data, fit_policy("scorecard", data, random_state), random_state)


def run_trial(random_state: int) -> tuple[list[tuple[list[int], list[float]]], int, int]:
    """Return each method's curve on one split, and the number of revealed labels and of rows in the log."""
    world = make_trial(random_state)
    course, streams = Course(world), Streams(random_state)
    curves = []
    for method in METHODS.values():
        rounds = list(course.rounds(method, LABELS, streams))
        errors = [float(np.mean(r.estimator.predict(world.X_test) != world.y_test)) for r in rounds]
        curves.append(([r.labels for r in rounds], errors))
    return curves, int(world.logged.revealed.sum()), len(world.logged)


def run_campaign(out: Path, random_state: int) -> tuple[Path, Path]:
    """Run one split as a campaign in the folder `out`, with known labels for an expert; return the paths of campaign and report."""
    import pyarrow as pa

    from observal.report.campaign import write_campaign_report

    world, names = make_trial(random_state, scaled=False), load_shipped("breast_cancer").feature_names
    tables = {}
    for part, data in (("logged", world.logged), ("pool", world.pool)):
        columns = {ID: data.ids, **dict(zip(names or (), data.X.T, strict=True)), "chance": data.propensity}
        tables[part] = pa.table(columns)
    answers = pa.array(world.logged.y.tolist(), pa.string())
    path = out / "demo.db"
    check_is_demo(path)
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    campaign = Campaign.create(
        path,
        tables["logged"].append_column(LABEL, answers),
        tables["pool"],
        label=LABEL,
        propensity="chance",
        id=ID,
        label_budget=LABELS,
        random_state=random_state,
    )
    command = f"observal demo --out {out} --seed {random_state}"
    title = "Tumours that an old scorecard did not look at"
    with one_thread():  # many small fits run faster on one thread
        while batch := campaign.ask(20):
            campaign.tell(batch.ids, world.oracle(batch.ids))
        return path, write_campaign_report(campaign, out / "report.html", title, command, force=True)


def check_is_demo(path: Path, id_: str = ID, label: str = LABEL) -> bool:
    """Return whether there is a campaign of an earlier demo, and refuse anything that no demo made."""
    if not os.path.lexists(path):
        return False
    try:
        settings = Campaign.open(path).settings
        is_demo = (settings["id"], settings["label"]) == (id_, label)
    except ObservalError:
        is_demo = False
    if not is_demo:
        raise CampaignExists(f"{path} already exists and no earlier demo made it; choose another folder (--out).")
    return True


@dataclass(frozen=True, eq=False)
class Demo:
    """The results of the demo: test errors of each method, trials × label counts."""

    errors: dict[str, Floats]
    revealed: float
    n_logged: int
    figure: Path
    campaign: Path
    report: Path

    @property
    def summary(self) -> str:
        """What was done, in words."""
        trials = len(next(iter(self.errors.values())))
        return (
            f"The log has {self.n_logged} tumours, benign or malignant. An old scorecard, which used half of the measurements, "
            f"revealed about {self.revealed:.0f} of their labels. Error after up to {LABELS} more labels, over {trials} random splits:"
        )

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the table: the log alone, then each method."""

        def percent(values: Any) -> str:
            estimate = Estimate.of(values)
            return f"{100 * estimate.mean:.1f} ± {100 * estimate.se:.1f}"

        first = next(iter(self.errors.values()))
        table = [("the log alone", "0", percent(first[:, 0]))]
        for name, errors in self.errors.items():
            table += [(name, str(n), percent(errors[:, n])) for n in (LABELS // 3, LABELS)]
        return table

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "figure": str(self.figure),
            "campaign": str(self.campaign),
            "report": str(self.report),
            "mean_error": {name: errors.mean(axis=0).tolist() for name, errors in self.errors.items()},
        }


def run_demo(
    out: Path, random_state: int = 0, progress: Progress | None = None, jobs: int | None = None, trials: int = TRIALS
) -> Demo:
    """Run the demo, write its figure, campaign and report to the folder `out`, and return the results."""
    from observal.report.figures import Line, draw_curves

    out.mkdir(parents=True, exist_ok=True)
    check_is_demo(out / "demo.db")  # before the work
    outcomes = run_all(run_trial, [(random_state + trial,) for trial in range(trials)], jobs, progress)
    labels = np.arange(LABELS + 1)
    errors = {
        name: np.array([Curve(*curves[number]).at(labels) for curves, _, _ in outcomes])
        for number, name in enumerate(METHODS)
    }
    figure = out / "demo.png"
    caption = (
        f"Benign against malignant tumours; labels are known only where an old scorecard looked. Means over {trials} "
        "random splits; bars are standard errors. No setting was tuned."
    )
    lines = [
        Line(name, labels, found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(trials))
        for name, found in errors.items()
    ]
    draw_curves({"How much more labels help": lines}, [figure], caption=caption, bars_every=12)
    campaign, report = run_campaign(out, random_state)
    revealed = float(np.mean([shown for _, shown, _ in outcomes]))
    return Demo(errors, revealed, outcomes[0][2], figure, campaign, report)
