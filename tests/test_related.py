"""Related rows: those of a group share a fold, count as one in intervals, and keep their group wherever a campaign is stored."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import observal as ob
from observal.campaign import Campaign
from observal.checks import ALONE, number_groups
from observal.errors import InvalidInput
from observal.intervals.cells import Cells
from observal.intervals.contradiction import random_minus_log
from observal.intervals.error import left_out
from observal.intervals.related import effective_number, merge_groups, spread_across
from observal.learners.folds import dealt_folds, random_folds, spread_folds
from observal.learners.tuned_logistic import tune
from observal.methods.newton import paired_difference
from tests.command import observal as run
from tests.pool_worlds import World
from tests.reference import pooling as twin

FAST = ob.NewtonVC(batch=10, ridge=1e-2, tempering=0.5, stop_below=0.0)


# -- groups as numbers


def test_groups_are_the_same_however_they_are_written():
    frames = [["Ann", "7", None], pd.Series(["Ann", 7, np.nan], dtype=object), pl.Series(["Ann ", "7", ""]).to_numpy()]
    logs = [ob.LoggedData(np.zeros((3, 1)), [0, 1, 0], 1.0, groups=groups) for groups in frames]
    assert len({tuple(log.groups.tolist()) for log in logs}) == 1
    assert logs[0].groups[1:].tolist() == [7, ALONE]
    assert logs[0].groups[0] not in (7, ALONE)


def test_days_are_the_same_as_dates_and_times():
    day = datetime.date(2024, 5, 1)
    kinds = [[day], pd.Series([pd.Timestamp(day)]), np.array(["2024-05-01"], dtype="datetime64[D]"), ["2024-05-01"]]
    assert len({int(ob.Pool([[0.0]], 1.0, groups=groups).groups[0]) for groups in kinds}) == 1


def test_numbers_of_groups_stay_what_they_are():
    numbers = number_groups(np.array(["Ann", "Ben", None, 3], dtype=object), "The log")
    assert number_groups(numbers, "The log").tolist() == numbers.tolist()
    assert number_groups(np.array([2**63 + 5], dtype=np.uint64), "The log").tolist() != [5]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            [1, 2],
            r"The log needs one group for each of its 3 rows, but got shape \(2,\); a group is what related rows share",
        ),
        ([[1], [2], [3]], "The log must have numbers, text or dates as groups, but some are lists or other objects"),
    ],
)
def test_bad_groups_are_refused(groups, message):
    with pytest.raises(InvalidInput, match=message):
        ob.LoggedData(np.zeros((3, 1)), [0, 1, 0], 1.0, groups=groups)


def test_groups_of_one_side_alone_are_refused():
    logged = ob.LoggedData(np.zeros((2, 1)), [0, 1], 1.0, groups=[1, 2])
    with pytest.raises(InvalidInput, match="Groups must be given for both log and pool"):
        ob.Problem(logged, ob.Pool(np.zeros((2, 1)), 1.0))


def test_groups_of_rows_match_a_dictionary():
    rng = np.random.default_rng(0)
    names = [None if k == 0 else f"customer {k}" for k in rng.integers(0, 6, 30)]
    logged = ob.LoggedData(np.zeros((20, 1)), rng.integers(0, 2, 20), 1.0, groups=names[:20])
    problem = ob.Problem(logged, ob.Pool(np.zeros((10, 1)), 1.0, groups=names[20:]))
    rows, seen, expected = rng.permutation(30)[:25], {}, []
    for row in rows.tolist():
        key = ("alone", row) if names[row] is None else names[row]
        expected.append(seen.setdefault(key, len(seen)))
    assert problem.groups_of(rows).tolist() == expected


# -- folds


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8)), min_size=1, max_size=60))
def test_rows_of_a_group_share_a_fold(rows):
    codes, groups = (np.array(column) for column in zip(*rows, strict=True))
    for folds in (
        dealt_folds(codes, 4, groups),
        spread_folds(codes, 4, groups=groups),
        random_folds(codes, 4, np.random.default_rng(0), groups),
    ):
        assert all(np.unique(folds[groups == group]).size == 1 for group in groups)


def test_groups_of_one_row_change_no_fold():
    codes, alone = np.array([0] * 5 + [1] * 4), np.arange(9)
    assert dealt_folds(codes, 4, alone).tolist() == dealt_folds(codes, 4).tolist()
    assert spread_folds(codes, 4, groups=alone).tolist() == spread_folds(codes, 4).tolist()


def test_copies_do_not_judge_each_other():
    """Labels are noise, so a fit that has not seen a row's copies is right about half of the time; one that has is always right."""
    rng = np.random.default_rng(0)
    X, codes, groups = (
        np.repeat(rng.normal(size=(60, 50)), 3, axis=0),
        np.repeat(rng.integers(0, 2, 60), 3),
        np.repeat(np.arange(60), 3),
    )
    order = rng.permutation(180)
    X, codes, groups = X[order], codes[order], groups[order]

    def nearest(train, test):
        near = np.argmin(((X[test][:, None] - X[train]) ** 2).sum(axis=2), axis=1)
        return np.zeros(test.size), codes[train][near]

    assert (left_out(codes, nearest, 10)[1] == codes).mean() > 0.95
    assert 0.2 < (left_out(codes, nearest, 10, groups)[1] == codes).mean() < 0.8
    signs, weights = 2 * codes - 1, np.ones(180)
    assert tune(X, signs, weights, groups=groups).losses.mean() > 1.5 * tune(X, signs, weights).losses.mean()


# -- intervals


rows_of_cells = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 5), st.floats(0.1, 5.0), st.sampled_from([0.0, 1.0])),
    min_size=3,
    max_size=40,
)


@given(rows_of_cells)
def test_merged_rows_match_loops(rows):
    cell, group, weight, value = (np.array(column) for column in zip(*rows, strict=True))
    found, expected = merge_groups(cell, group, weight, value), twin.merged(cell, group, weight, value)
    assert list(zip(found.cell.tolist(), found.group.tolist(), strict=True)) == list(expected)
    np.testing.assert_allclose(np.column_stack([found.weight, found.value]), list(expected.values()))
    assert spread_across(value - 0.5 * weight, group) == pytest.approx(twin.spread_across(value - 0.5 * weight, group))


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 1.0]), st.integers(1, 4)), min_size=4, max_size=30))
def test_copies_count_as_one_row(rows):
    """Cells of copies have the interval of cells with one row for each group, whose weight is that of all copies."""
    cell, wrong, copies = (np.array(column) for column in zip(*rows, strict=True))
    cell[:2] = 0, 1
    share, group = np.array([0.3, 0.7]), np.repeat(np.arange(cell.size), copies)
    once = Cells(share, cell, copies.astype(float), 0.0, 1000)
    repeated = Cells(share, cell[group], np.ones(group.size), 0.0, 1000, groups=group)
    assert repeated.ratio(wrong[group], np.ones(group.size)).estimate == pytest.approx(
        once.ratio(wrong, np.ones(cell.size)).estimate
    )
    for found, expected in zip(
        (repeated.ratio(wrong[group], np.ones(group.size)), paired_difference(repeated, wrong[group])),
        (once.ratio(wrong, np.ones(cell.size)), paired_difference(once, wrong)),
        strict=True,
    ):
        ends = [(i.low, i.high) if hasattr(i, "low") else i for i in (found, expected)]
        np.testing.assert_allclose(*ends, atol=1e-9)


def test_groups_of_one_row_change_no_interval():
    rng = np.random.default_rng(0)
    cell, weight, wrong = rng.integers(0, 3, 60), rng.random(60) + 0.5, (rng.random(60) < 0.2).astype(float)
    plain = Cells(np.array([0.2, 0.3, 0.5]), cell, weight, 0.1, 1000)
    alone = Cells(plain.share, cell, weight, 0.1, 1000, groups=rng.permutation(60))
    found, expected = (cells.ratio(wrong, np.ones(60)) for cells in (alone, plain))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_intervals_of_copies_cover_with_groups_alone():
    """500 draws of 60 groups of three copies. At 95 % fewer than 455 covered have chance below 1e-4; without groups about 74 % are expected."""
    rng, covered = np.random.default_rng(0), {True: 0, False: 0}
    for _ in range(500):
        cell, group = np.repeat(rng.integers(0, 3, 60), 3), np.repeat(np.arange(60), 3)
        cell[::3] = (cell[::3] + (rng.random(60) < 0.3)) % 3  # a copy is sometimes in another cell
        wrong = np.repeat((rng.random(60) < 0.25).astype(float), 3)
        share = np.bincount(cell, minlength=3) / 180
        for known in covered:
            found = Cells(share, cell, np.ones(180), 0.0, 10_000, groups=group if known else None).ratio(
                wrong, np.ones(180)
            )
            covered[known] += found.low <= 0.25 <= found.high
    assert covered[True] >= 455
    assert covered[False] <= 420


def test_copies_do_not_contradict_the_log():
    """Each outcome is there five times: 400 comparisons, of which 2 are expected to contradict with groups; over 20 have chance below 1e-9."""
    rng, found = np.random.default_rng(0), {True: 0, False: 0}
    for _ in range(400):
        group = np.repeat(np.arange(100), 5)
        cell, picked = np.repeat(rng.integers(0, 4, 100), 5), np.repeat(rng.random(100) < 0.5, 5)
        outcome = np.repeat((rng.random(100) < 0.3).astype(float), 5)
        for known in found:
            difference = random_minus_log(cell, picked, outcome, group if known else None)
            found[known] += difference.low > 0.0 or difference.high < 0.0
    assert found[True] <= 20
    assert found[False] > 40


def test_effective_number_of_rows():
    assert effective_number(np.repeat(np.arange(10), 3), 30) == 10
    assert effective_number(np.array([0, 0, 0, 1]), 4) == 2  # 16/10
    assert effective_number(np.empty(0, dtype=np.int64), 7) == 7


def copies_world(groups=True):
    """A world in which every row of log and pool is there three times."""
    world = World(m=150, n=60)
    parts = []
    for X, q, first in ((world.logged.X, world.logged.propensity, 0), (world.pool.X, world.pool.propensity, 150)):
        parts.append(
            (
                np.repeat(X, 3, axis=0),
                np.repeat(q, 3),
                np.repeat(np.arange(first, first + len(X)), 3) if groups else None,
            )
        )
    (X, q, group), (X_pool, q_pool, group_pool) = parts
    logged = ob.LoggedData(X, np.repeat(world.logged.y, 3), q, classes=(0, 1), groups=group)
    truth = np.repeat(world.y[150:], 3)
    return logged, ob.Pool(X_pool, q_pool, groups=group_pool), lambda ids: truth[np.asarray(ids)]


@pytest.mark.parametrize(
    "method",
    [FAST, ob.AutoVC(batch=15, learners=("linear", "kernel")), ob.CommitteeVC(LogisticRegression(), batch=15)],
    ids=lambda m: type(m).__name__,
)
def test_copies_make_intervals_wider_with_groups(method):
    widths = []
    for groups in (True, False):
        logged, pool, oracle = copies_world(groups)
        found = ob.run(logged, pool, oracle, method, 30, tolerance=None).error_interval
        widths.append(found.high - found.low)
    assert widths[0] > 1.1 * widths[1]


@pytest.mark.parametrize("method", [FAST, ob.AutoVC(batch=15)], ids=lambda m: type(m).__name__)
def test_rows_of_one_group_have_no_interval(method):
    logged, pool, oracle = copies_world(False)
    one = ob.LoggedData(logged.X, logged.y, logged.propensity, classes=(0, 1), groups=["day"] * len(logged))
    result = ob.run(
        one, ob.Pool(pool.X, pool.propensity, groups=["day"] * len(pool)), oracle, method, 15, tolerance=None
    )
    assert (result.error_interval.low, result.error_interval.high) == (0.0, 1.0)
    assert "labels in 1 groups of 2 classes are too few" in result.error_interval.method


def test_objective_is_judged_without_the_group():
    logged, pool, oracle = copies_world()
    for method in (FAST, ob.AutoVC(batch=15, learners=("linear",))):
        found = ob.run(logged, pool, oracle, method, 15, tolerance=None, objective="recall=0.8").intervals["recall"]
        assert 0.0 <= found.low <= found.estimate <= found.high <= 1.0


# -- where groups come from and where they stay


def tables():
    rng = np.random.default_rng(0)
    n = 240
    x = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "x": x,
            "customer": [None if k % 10 == 0 else f"c{k // 3}" for k in rng.permutation(n)],
            "q0": np.where(x > 0, 0.8, 0.3),
            "y": np.where(x + 0.3 * rng.normal(size=n) > 0, "yes", "no"),
        }
    )
    frame["truth"] = frame["y"]
    frame.loc[: n // 2, "y"] = np.where(
        rng.random(n // 2 + 1) < frame["q0"][: n // 2 + 1], frame["y"][: n // 2 + 1], None
    )
    return frame.iloc[: n // 2].drop(columns="truth"), frame.iloc[n // 2 :].drop(columns=["y", "truth"]), frame["truth"]


ROLES = {"label": "y", "propensity": "q0", "id": "id"}


def test_frames_name_their_groups():
    log, rest, _ = tables()
    for frame in (log, pl.from_pandas(log), pa.Table.from_pandas(log, preserve_index=False)):
        logged = ob.LoggedData.from_frame(frame, **ROLES, group="customer")
        assert logged.X.shape[1] == 1
        assert logged.groups.tolist() == number_groups(log["customer"].to_numpy(), "").tolist()
    assert ob.Pool.from_frame(rest, propensity="q0", id="id", group="customer").X.shape[1] == 1


def test_parquet_keeps_groups(tmp_path):
    log, rest, _ = tables()
    for name, frame in (("log", log), ("pool", rest)):
        pq.write_table(
            pa.Table.from_pandas(frame, preserve_index=False), tmp_path / f"{name}.parquet", row_group_size=50
        )
    logged = ob.LoggedData.from_parquet(tmp_path / "log.parquet", **ROLES, group="customer")
    pool = ob.Pool.from_parquet(tmp_path / "pool.parquet", propensity="q0", id="id", group="customer")
    in_memory = ob.LoggedData.from_frame(log, **ROLES, group="customer")
    assert logged.X.shape[1] == pool.X.shape[1] == 1
    assert logged.groups.tolist() == in_memory.groups.tolist()
    rows = np.arange(len(log) + len(rest))
    whole = ob.Problem(in_memory, ob.Pool.from_frame(rest, propensity="q0", id="id", group="customer"))
    assert ob.Problem(logged, pool).groups_of(rows).tolist() == whole.groups_of(rows).tolist()
    assert ob.Problem(logged, pool).in_memory().groups_of(rows).tolist() == whole.groups_of(rows).tolist()


def finish(campaign, truth):
    while batch := campaign.ask():
        campaign.tell(batch.ids, [truth[i] for i in batch.ids])
    return campaign.result()


def test_campaigns_and_sessions_keep_groups(tmp_path):
    log, rest, truth = tables()
    for name, frame in (("log", log), ("pool", rest)):
        pq.write_table(
            pa.Table.from_pandas(frame, preserve_index=False), tmp_path / f"{name}.parquet", row_group_size=50
        )
    results = []
    for name, in_place in (("copied.db", False), ("in place.db", True)):
        options = ob.TableOptions(group="customer", in_place=in_place)
        paths = [tmp_path / "log.parquet", tmp_path / "pool.parquet"]
        Campaign.create(tmp_path / name, *paths, **ROLES, label_budget=20, tables=options, method=FAST)
        campaign = Campaign.open(tmp_path / name)
        assert (campaign.settings.group, campaign.settings.features) == ("customer", ("x",))
        results.append(finish(campaign, truth))
        assert campaign.check().labels == 20
    assert results[0].error_interval.high == pytest.approx(results[1].error_interval.high)
    session = Campaign.open(tmp_path / "copied.db").session()
    session.save(tmp_path / "copy.observal")
    loaded = ob.Session.load(tmp_path / "copy.observal")
    assert loaded.result().error_interval == results[0].error_interval
    logged, pool = (
        kind.from_frame(frame, **roles, group="customer")
        for kind, frame, roles in ((ob.LoggedData, log, ROLES), (ob.Pool, rest, {"propensity": "q0", "id": "id"}))
    )
    alone = ob.run(logged, pool, lambda ids: truth[ids].tolist(), FAST, 20)
    assert alone.error_interval.high == pytest.approx(results[0].error_interval.high)
    related = ob.run(
        logged,
        ob.Pool(pool.X, pool.propensity, pool.ids, groups=np.arange(len(pool))),
        lambda ids: truth[ids].tolist(),
        FAST,
        20,
    )
    assert related.error_interval.high != pytest.approx(alone.error_interval.high)  # groups do matter here


def test_added_rows_have_groups(tmp_path):
    log, rest, truth = tables()
    options = {"label_budget": 20, "method": FAST}
    whole = Campaign.create(
        tmp_path / "whole.db", log, rest, **ROLES, tables=ob.TableOptions(group="customer"), **options
    )
    grown = Campaign.create(
        tmp_path / "c.db", log, rest[:80], **ROLES, tables=ob.TableOptions(group="customer"), **options
    )
    grown.extend(pool=rest[80:])
    grown = Campaign.open(tmp_path / "c.db")
    assert grown.problem.pool.groups.tolist() == whole.problem.pool.groups.tolist()
    assert dict(finish(grown, truth).intervals) == dict(finish(whole, truth).intervals)
    with pytest.raises(InvalidInput, match="has no column 'customer' for the group"):
        Campaign.open(tmp_path / "c.db").extend(pool=rest.drop(columns="customer").assign(id=rest["id"] + 1000))
    logged, pool, _ = copies_world()
    arrays = Campaign.create_from_arrays(tmp_path / "arrays.db", logged, pool, **options)
    with pytest.raises(InvalidInput, match="New rows need a group if the pool has one"):
        arrays.extend(pool=ob.Pool(pool.X, pool.propensity, np.arange(1000, 1000 + len(pool))))


def test_commands_take_a_group(tmp_path):
    log, rest, _ = tables()
    log.to_csv(tmp_path / "log.csv", index=False)
    rest.to_csv(tmp_path / "pool.csv", index=False)
    roles = ["--pool", "pool.csv", "--label", "y", "--propensity", "q0", "--id", "id", "--group", "customer"]
    made = run("init", "c.db", "--logged", "log.csv", *roles, "--budget", 20, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    campaign = Campaign.open(tmp_path / "c.db")
    assert campaign.settings.features == ("x",)
    assert (
        campaign.problem.pool.groups.tolist()
        == ob.Pool.from_frame(rest, propensity="q0", group="customer", features=["x"]).groups.tolist()
    )
    assert run("diagnose", "log.csv", *roles, cwd=tmp_path).returncode == 0
    wrong = run("init", "d.db", "--logged", "log.csv", *roles[:-1], "client", cwd=tmp_path)
    assert "has no column 'client' for the group" in wrong.stderr
