"""How many labels the stopping rule saves on tables, and how much error it leaves: python benchmarks/bench_stopping.py FOLDER.

Each campaign spends its budget, and the round at which it would have stopped is found afterwards: up to there both are the same.
FOLDER holds development tables, ``NAME.parquet`` with the class in the column ``label``.
"""

from __future__ import annotations

import sys

from observal.intervals.stopping import TOLERANCE
from observal.methods import AutoVC
from observal.session import Session
from observal.threads import one_thread
from observal_research.benchmark.cells import Cell, make_world
from observal_research.benchmark.development import count_classes

TABLES = ("banana", "contraceptive", "phoneme", "segment", "twonorm", "titanic")
POLICIES = ("scorecard", "blind-spot")
TRIALS, SEED, BUDGET = 2, 1000, 300


def campaign(folder: str, table: str, policy: str, trial: int) -> tuple[int, float]:
    """Return the labels at which the campaign would have stopped, and by how much the rest lowered the error."""
    cell = Cell(table, policy, True, count_classes(folder, table), table=True)
    world = make_world(cell, trial, random_state=SEED, data=folder)
    session = Session(world.logged, world.pool, AutoVC(), BUDGET, world.seed, tolerance=None, population="both")
    stopped, gain_before = None, None
    while (query := session.ask()) is not None:
        session.tell(query.ids, world.oracle(query.ids))
        error = world.error(session.estimator)
        gain = session.may_gain(BUDGET - session.labels)
        if stopped is None and gain is not None and gain_before is not None and max(gain, gain_before) < TOLERANCE:
            stopped = session.labels, error
        gain_before = gain
    labels, error_at_stop = stopped or (session.labels, error)
    return labels, error_at_stop - error


def main(folder: str) -> None:
    """Run all campaigns, and print each and the means."""
    results = []
    with one_thread():
        for trial in range(TRIALS):
            for table in TABLES:
                for policy in POLICIES:
                    labels, loss = campaign(folder, table, policy, trial)
                    print(
                        f"{table:>14} / {policy:<10} stops at {labels} labels, {100 * loss:+.2f} points left",
                        flush=True,
                    )
                    results.append((1.0 - labels / BUDGET, loss))
    saved, mean_loss = (sum(column) / len(results) for column in zip(*results, strict=True))
    much = sum(loss > 0.003 for _, loss in results)
    print(
        f"saves {saved:.0%}, leaves {100 * mean_loss:.2f} points, over 0.3 points in {much} of {len(results)} campaigns"
    )


if __name__ == "__main__":
    main(sys.argv[1])
