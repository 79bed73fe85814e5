"""Monitoring: new rows beside the population, scores then and now, and the error on a few rows drawn at random."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

import observal as ob
from observal.campaign import Campaign
from observal.diagnosis.drift import Drift
from observal.errors import InvalidInput
from observal.intervals.sample import sample_interval
from observal.journal.ledger import Sample
from observal.problem.interval import Interval
from observal.report.monitoring import Monitoring, Spread, sample_sentences
from tests.campaigns import make_campaign
from tests.command import observal


def make_rows(n: int, seed: int, moved: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": [f"{seed}{k:04d}" for k in range(n)],
            "size": rng.normal(moved, 1, n).round(3),
            "kind": rng.choice(["goods", "services"], n),
            "chance": 0.5,
        }
    )


def truth_of(rows: pd.DataFrame) -> np.ndarray:
    return np.where(rows["size"] > 0.3, "yes", "no")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a campaign, a table like it, and one that is shifted."""
    folder = tmp_path_factory.mktemp("monitor")
    log, pool = make_rows(400, 1), make_rows(400, 2)
    log.assign(fraud=truth_of(log)).to_csv(folder / "log.csv", index=False)
    pool.to_csv(folder / "pool.csv", index=False)
    make_rows(600, 3).to_csv(folder / "alike.csv", index=False)
    make_rows(600, 4, moved=1.0).to_csv(folder / "moved.csv", index=False)
    method = ob.NewtonVC(batch=8, ridge=0.01, tempering=0.5)
    Campaign.create(
        folder / "c.db",
        folder / "log.csv",
        folder / "pool.csv",
        label="fraud",
        propensity="chance",
        id="id",
        label_budget=16,
        method=method,
    )
    return folder


def test_table_like_the_population_is_called_alike_and_a_shifted_one_different(folder):
    campaign = Campaign.open(folder / "c.db")
    alike, moved = (campaign.monitor(campaign.open_table(folder / name)) for name in ("alike.csv", "moved.csv"))
    assert not alike.drift.found
    assert "look like the population" in alike.sentences()[0]
    assert moved.drift.found
    assert moved.drift.differences[0][0] == "size"
    assert "Of the new rows, size is" in moved.sentences()[0]
    assert "standard deviations higher on average" in moved.sentences()[0]
    assert abs(alike.now.shares[1] - alike.then.shares[1]) < 0.08
    assert moved.now.shares[1] > moved.then.shares[1] + 0.2
    assert moved.now.quantiles[2] > moved.then.quantiles[2]


def test_spread_is_what_predictions_say(folder):
    campaign = Campaign.open(folder / "c.db")
    found = campaign.monitor(campaign.open_table(folder / "alike.csv"))
    X = campaign.settings.encoder.encode(folder / "alike.csv")
    chances = campaign.estimator.predict_proba(X)
    assert found.now.shares[1] == np.mean(campaign.estimator.predict(X) == "yes")
    assert found.now.quantiles == tuple(np.quantile(chances[:, 1], [0.05, 0.25, 0.5, 0.75, 0.95]).tolist())
    assert found.now.unsure == np.mean(chances.max(axis=1) < 0.7)


def test_drawn_rows_are_labelled_as_a_check_and_train_nothing(folder, tmp_path):
    before = Campaign.open(folder / "c.db").status().labels
    drawn = observal("monitor", folder / "c.db", folder / "alike.csv", "-o", tmp_path / "check.csv")
    assert drawn.returncode == 0, drawn.stderr
    assert "30 rows drawn at random" in drawn.stdout
    rows = pd.read_csv(tmp_path / "check.csv", dtype={"id": str})
    assert list(rows) == ["id", "size", "kind", "fraud"]  # what the old policy or the model thinks would sway people
    assert rows["id"].is_unique
    whole = pd.read_csv(folder / "alike.csv", dtype={"id": str}).set_index("id")
    rows["fraud"] = truth_of(rows)
    flipped = rows["id"].iloc[:5]
    model = Campaign.open(folder / "c.db")
    predicted = model.estimator.predict(model.settings.encoder.encode(rows))
    rows.loc[rows["id"].isin(flipped), "fraud"] = np.where(predicted[:5] == "yes", "no", "yes")
    rows.to_csv(tmp_path / "check.csv", index=False)
    wrong = int((rows["fraud"] != predicted).sum())
    assert whole.loc[rows["id"], "size"].tolist() == rows["size"].tolist()
    told = observal("monitor", folder / "c.db", "--answers", tmp_path / "check.csv")
    assert f"Of 30 rows drawn from the 600 of alike.csv, {wrong} are predicted wrong:" in told.stdout
    campaign = Campaign.open(folder / "c.db")
    assert campaign.status().labels == before
    assert (campaign.samples[-1].wrong, campaign.samples[-1].unknown) == (wrong, 0)
    interval = json.loads(observal("monitor", folder / "c.db", "--json").stdout)[-1]["error_interval"]
    assert interval["low"] == pytest.approx(sample_interval(wrong, 0, 30).low)
    again = observal("monitor", folder / "c.db", folder / "alike.csv", "-o", tmp_path / "check.csv")
    assert "already exists" in again.stderr
    other = Campaign.open(folder / "c.db")
    assert len(other.samples) == len(campaign.samples)  # nothing was drawn
    assert set(other.draw_sample(other.open_table(folder / "alike.csv"))["id"].to_pylist()) != set(rows["id"])


def test_excel_and_parquet_work_and_rows_without_ids_are_numbered(folder, tmp_path):
    rows = make_rows(100, 5).drop(columns="id")
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), tmp_path / "new.parquet", row_group_size=40)
    done = observal("monitor", folder / "c.db", tmp_path / "new.parquet", "-o", tmp_path / "check.xlsx", "-n", 10)
    assert done.returncode == 0, done.stderr
    drawn = pd.read_excel(tmp_path / "check.xlsx")
    assert drawn["size"].tolist() == rows["size"].iloc[drawn["id"] - 1].tolist()
    drawn["fraud"] = "skip"
    drawn.to_excel(tmp_path / "check.xlsx", index=False)
    told = observal("monitor", folder / "c.db", "--answers", tmp_path / "check.xlsx")
    assert "and 10 without a label, which may be right or wrong: the error is between 0.0% and 100.0%" in told.stdout


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda rows: rows.drop(columns="size"), "The table has no column 'size'"),
        (lambda rows: rows[:0], "has no rows"),
        (lambda rows: rows[:20], "has 20 rows, but 30 were to be drawn"),
        (lambda rows: rows.assign(id="7"), "some are missing or occur twice"),
    ],
)
def test_table_that_cannot_be_drawn_from_is_refused_and_nothing_is_stored(folder, tmp_path, make, sentence):
    make(make_rows(60, 6)).to_csv(tmp_path / "new.csv", index=False)
    campaign = Campaign.open(folder / "c.db")
    before = len(campaign.samples)
    with pytest.raises(InvalidInput, match=sentence):
        campaign.draw_sample(campaign.open_table(tmp_path / "new.csv"))
    assert len(campaign.samples) == before


def test_campaign_of_arrays_and_wrong_calls_are_refused(tmp_path, folder):
    make_campaign(tmp_path / "arrays.db")
    with pytest.raises(InvalidInput, match="made from arrays"):
        Campaign.open(tmp_path / "arrays.db").open_table(folder / "alike.csv")
    assert observal("monitor", folder / "c.db", "-o", tmp_path / "x.csv").returncode == 2
    empty = observal("monitor", tmp_path / "arrays.db")
    assert "No rows were drawn" in empty.stdout


def test_few_rows_and_an_unseen_shift_are_put_in_words():
    spread = Spread((0.5, 0.5))
    few = Monitoring("t.csv", 5, Drift(False), spread, spread, ("no", "yes"))
    assert "too few rows" in few.sentences()[0]
    hidden = Monitoring("t.csv", 500, Drift(True, 0.7, 0.001), spread, spread, ("no", "yes"))
    assert "No single feature's mean shows it." in hidden.sentences()[0]
    assert few.table_rows() == [("predicted no", "50%", "50%"), ("predicted yes", "50%", "50%")]


def test_sample_is_compared_with_what_the_campaign_found():
    ids = tuple(map(str, range(30)))
    bad = Sample("", "t.csv", 900, ids, (0,) * 30, dict.fromkeys(ids[:12], 1) | dict.fromkeys(ids[12:], 0))
    promised = Interval(0.05, 0.02, 0.1, 0.95, "cells")
    assert "do not rely on the model" in sample_sentences(bad, promised)[1]
    good = Sample("", "t.csv", 900, ids, (0,) * 30, dict.fromkeys(ids, 0))
    assert "does not contradict" in sample_sentences(good, promised)[1]
    assert "less than the campaign found" in sample_sentences(good, Interval(0.5, 0.4, 0.6, 0.95, "cells"))[1]
    assert len(sample_sentences(good, None)) == 1


def reference_ends(wrong: int, drawn: int) -> tuple[float, float]:
    """Return the shares at which so many mistakes, or as many, become too unlikely, found by bisection."""

    def solve(too_low):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if too_low(middle) else (low, middle)
        return low

    least = solve(lambda p: binom.sf(wrong - 1, drawn, p) < 0.025) if wrong else 0.0
    return least, solve(lambda p: binom.cdf(wrong, drawn, p) > 0.025) if wrong < drawn else 1.0


@pytest.mark.parametrize("drawn", [1, 7, 30])
def test_interval_of_a_sample_has_the_ends_of_binomial_tests(drawn):
    for wrong in range(drawn + 1):
        interval = sample_interval(wrong, 0, drawn)
        assert (interval.low, interval.high) == pytest.approx(reference_ends(wrong, drawn), abs=1e-9)
        for unknown in range(drawn - wrong + 1):
            wide = sample_interval(wrong, unknown, drawn)
            assert wide.low == interval.low
            assert wide.high == sample_interval(wrong + unknown, 0, drawn).high
            assert wide.low <= wide.estimate <= wide.high


def test_interval_of_a_sample_covers_the_error_however_large_it_is():
    """Exact: the chance to miss is summed over all samples, not simulated."""
    for error in np.linspace(0.0, 1.0, 101):
        ends = [sample_interval(wrong, 0, 30) for wrong in range(31)]
        misses = [binom.pmf(k, 30, error) for k, end in enumerate(ends) if not end.low <= error <= end.high]
        assert sum(misses) <= 0.05
