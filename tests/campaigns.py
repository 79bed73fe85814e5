"""A small campaign for tests, and people who work on it."""

from __future__ import annotations

import time
from dataclasses import fields

import numpy as np

import observal as ob
from observal.campaign import Campaign, TableOptions

N = 300
METHOD = ob.NewtonVC(batch=8, ridge=0.01, tempering=0.5)  # nothing to choose by cross-validation: quick


def truth_of(row: int) -> str:
    """Return the label of a pool row."""
    return "good" if _rows()[N + row] @ [1.0, -0.5] > 0.3 else "bad"


def _rows(seed=0):
    return np.random.default_rng(seed).normal(size=(2 * N, 2))


def small_data():
    """Return a log that shows one side more, and a pool; ids are positions."""
    rng = np.random.default_rng(1)
    X = _rows()
    y = np.where(X @ [1.0, -0.5] > 0.3, "good", "bad").astype(object)
    chance = np.where(X[:, 0] > 0, 0.6, 0.05)
    shown = rng.random(N) < chance[:N]
    return ob.LoggedData(X[:N], np.where(shown, y[:N], None), chance[:N]), ob.Pool(X[N:], chance[N:])


def make_campaign(where, **settings):
    """Make a campaign with the small data."""
    settings = {"label_budget": 32, "method": METHOD, **settings}
    return Campaign.create_from_arrays(where, *small_data(), **settings)


def group_options(settings):
    """Return keywords for Campaign.create in which those about tables are one record."""
    names = {field.name for field in fields(TableOptions)}
    options = {name: value for name, value in settings.items() if name in names}
    rest = {name: value for name, value in settings.items() if name not in names}
    return {"tables": TableOptions(**options), **rest}


def work(where, annotator, n, connection):
    """Ask and tell until nothing is left, reporting each row handed out and each answer acknowledged."""
    connection.send(("started", []))
    campaign = Campaign.open(where)
    while True:
        batch = campaign.ask(n, annotator)
        if batch.finished:
            connection.send(("finished", []))
            return
        connection.send(("asked", list(batch.ids)))
        if batch:
            campaign.tell(batch.ids, [truth_of(i) for i in batch.ids], annotator)
            connection.send(("told", list(batch.ids)))
        else:
            time.sleep(0.01)
