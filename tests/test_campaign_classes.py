"""Campaigns with more than two classes, and with a scikit-learn pipeline of one's own."""

import numpy as np
import pyarrow as pa
import pytest

import observal as ob
from observal.campaign import Campaign, load_model
from observal.errors import InvalidLabel
from observal.report.campaign import write_campaign_report

N = 200
X = np.random.default_rng(0).normal(size=(2 * N, 2))
Y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.4, 0.5])]


def tables(labels=Y):
    rng = np.random.default_rng(1)
    columns = {"a": X[:, 0], "b": X[:, 1], "q0": np.full(2 * N, 0.3), "id": np.arange(2 * N)}
    log = pa.table(
        {name: column[:N] for name, column in columns.items()} | {"y": pa.array(labels[:N], mask=rng.random(N) > 0.3)}
    )
    return log, pa.table({name: column[N:] for name, column in columns.items()})


def make(where, method):
    return Campaign.create(
        where, *tables(), label="y", propensity="q0", id="id", label_budget=8, method=method, random_state=3
    )


def work(campaign):
    while batch := campaign.ask():
        campaign.tell(batch.ids, [Y[i] for i in batch.ids])


def test_a_campaign_has_three_classes_from_table_to_model(tmp_path):
    campaign = make(tmp_path / "c.db", ob.AutoVC(batch=4, learners=("linear", "forest")))
    work(campaign)
    again = Campaign.open(tmp_path / "c.db")
    assert again.status().classes == ("high", "low", "middle")
    assert again.intervals()["error"].high < 0.5
    page = write_campaign_report(again, tmp_path / "r.html").read_text()
    assert all(name in page for name in ("high", "low", "middle"))
    again.export(tmp_path / "m.skops")
    assert load_model(tmp_path / "m.skops").score(tables()[1], Y[N:]) > 0.85


def test_a_label_column_of_numbers_is_no_class():
    labels = np.arange(2 * N) / 7.0
    with pytest.raises(InvalidLabel, match=r"shows \d+ different values in \d+ labels"):
        Campaign.create("nowhere.db", *tables(labels), label="y", propensity="q0", id="id")
