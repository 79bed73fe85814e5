"""The demo in a browser: handwritten digits, "is this an 8?", and a log left by a cautious old classifier.

The old classifier is a plane. It mostly revealed the labels of digits that it was very sure about, so the log says next to nothing
about those that are hard to tell apart.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from observal.campaign import Campaign
from observal.datasets import Certainty, Dataset, Simulation, simulate
from observal.experiments.demo import check_is_demo
from observal.methods import AutoVC

TITLE = "Is this an 8?"
ID, LABEL = "digit", "is an 8"
LABELS, BATCH = 60, 10
TIMID, FLOOR = 0.03, 0.02  # how rarely the old classifier looked, and the chance of a look anywhere


def make_digits(random_state: int) -> tuple[Simulation, tuple[str, ...]]:
    """Return digits that scikit-learn ships, split into log and pool, and the names of their pixels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    is_8 = digits.target == 8
    policy = Certainty.fit(digits.data, is_8.astype(np.int64), random_state, standardise=True)
    timid = replace(policy, scale=TIMID * policy.scale, propensity_floor=FLOOR)
    data = Dataset(digits.data, np.where(is_8, "yes", "no"), TITLE, "Eights against all other digits.")
    return simulate(data, timid, random_state), tuple(digits.feature_names)


def make_digits_campaign(out: Path, random_state: int = 0) -> Path:
    """Make the campaign in the folder `out` and return its path; one that is there from an earlier demo is kept as it is."""
    import pyarrow as pa

    out.mkdir(parents=True, exist_ok=True)
    path = out / "digits.db"
    if check_is_demo(path, ID, LABEL):
        return path
    world, names = make_digits(random_state)

    def table(data: Any) -> Any:
        return pa.table({ID: data.ids, **dict(zip(names, data.X.T, strict=True)), "chance": data.propensity})

    answers = pa.array(world.logged.y.tolist(), pa.string())
    Campaign.create(
        path,
        table(world.logged).append_column(LABEL, answers),
        table(world.pool),
        label=LABEL,
        propensity="chance",
        id=ID,
        classes=["no", "yes"],
        label_budget=LABELS,
        method=AutoVC(batch=BATCH),
        random_state=random_state,
    )
    return path
