"""Warnings when a campaign is made: wrong propensities, leaks and ids; and --exclude, which acts on them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import observal as ob
from observal.diagnosis import quick_warnings as module
from observal.diagnosis.quick_warnings import MAX_NAMED
from observal.errors import InvalidInput
from observal.problem.given import arrange
from observal.problem.words import option_words
from tests.command import observal


def world(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, 2))
    y = (X[:, 0] + rng.normal(size=2 * n) > 0).astype(float)
    return rng, X, y


def quick_warnings(log, pool, *others):
    arranged = arrange(log, pool)
    return module.quick_warnings(log, ob.Problem(arranged.logged, arranged.pool), *others)


def logged(X, y, shown, propensity):
    return ob.LoggedData(X, np.where(shown, y, np.nan), propensity, classes=(0.0, 1.0))


def test_ordinary_log_gives_no_warning():
    rng, X, y = world()
    shown = rng.random(400) < 0.4
    assert quick_warnings(logged(X[:400], y[:400], shown, 0.4), ob.Pool(X[400:], 0.4), ["a", "b"]) == []


def test_propensity_one_without_label_gives_warning():
    rng, X, y = world()
    shown = rng.random(400) < 0.4
    found = quick_warnings(logged(X[:400], y[:400], shown, 1.0), ob.Pool(X[400:], 1.0), ["a", "b"])
    assert found[0].startswith(f"Warning: {int((~shown).sum())} rows of the log have propensity 1 and no label")
    found = quick_warnings(logged(X[:400], y[:400], shown, 0.95), ob.Pool(X[400:], 0.95), ["a", "b"])
    assert len(found) == 1


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_leaking_column_is_named(sign):
    rng, X, y = world()
    X = np.column_stack([X, sign * y + 0.01 * rng.normal(size=y.size)])
    found = quick_warnings(
        logged(X[:400], y[:400], np.full(400, True), 1.0), ob.Pool(X[400:], 1.0), ["a", "b", "paid on"]
    )
    assert len(found) == 1
    assert (
        "Column 'paid on' may leak the label: of what columns can explain about the label, 'paid on' alone explains "
        in found[0]
    )
    assert "leave it out with --exclude 'paid on'; otherwise say so with --known-before 'paid on'." in found[0]


def test_leaking_category_is_named():
    rng, X, y = world()
    level = np.where(y > 0, rng.integers(0, 3, y.size), rng.integers(3, 5, y.size))
    noise = rng.integers(0, 5, y.size)
    encoded = np.column_stack([X, *(level == k for k in range(5)), *(noise == k for k in range(5))]).astype(float)
    names = ["a", "b", *(f"status={k}" for k in range(5)), *(f"home={k}" for k in range(5))]
    sources = ["a", "b", *["status"] * 5, *["home"] * 5]
    found = quick_warnings(
        logged(encoded[:400], y[:400], np.full(400, True), 1.0), ob.Pool(encoded[400:], 1.0), names, sources
    )
    assert len(found) == 1
    assert "Column 'status' may leak the label" in found[0]


@pytest.mark.parametrize("digits", [0, 6])
def test_leaks_are_detected_with_four_classes(digits):
    rng, X, _ = world()
    y = rng.integers(0, 4, len(X))
    close = (y + 0.2 * rng.random(y.size)).round(digits)
    for column, named in ((close, True), (y + rng.normal(size=y.size), False)):
        both = np.column_stack([X, column])
        log = ob.LoggedData(both[:400], y[:400], 1.0)
        found = quick_warnings(log, ob.Pool(both[400:], 1.0), ["a", "b", "c"])
        assert [text for text in found if "may leak the label" in text] == ([found[0]] if named else [])


def test_distinct_dates_are_not_ids():
    rng, _, y = world()
    days = rng.permutation(800)[:, None]
    log, pool = logged(days[:400], y[:400], np.full(400, True), 1.0), ob.Pool(days[400:], 1.0)
    assert quick_warnings(log, pool, ["day"], ["day"], ["day"]) == []
    assert len(quick_warnings(log, pool, ["day"], ["day"])) == 1


def test_id_columns_are_named_up_to_a_limit():
    rng, _, y = world()
    numbers = np.stack([rng.permutation(800) for _ in range(MAX_NAMED + 2)], axis=1)
    found = quick_warnings(
        logged(numbers[:400], y[:400], np.full(400, True), 1.0),
        ob.Pool(numbers[400:], 1.0),
        [f"n{k}" for k in range(MAX_NAMED + 2)],
    )
    assert "Column 'n0' looks like an id" in found[0]
    assert len(found) == MAX_NAMED + 1
    assert found[-1] == "Warning: 2 more columns do the same."


def test_init_prints_warnings_and_exclude_removes_them(tmp_path):
    rng, X, y = world()
    frame = pd.DataFrame({"number": rng.permutation(800), "a": X[:, 0], "y": y, "q": 1.0})
    frame.loc[:99, "y"] = None
    frame[:400].to_csv(tmp_path / "log.csv", index=False)
    frame[400:].drop(columns="y").to_csv(tmp_path / "pool.csv", index=False)
    tables = ["--logged", tmp_path / "log.csv", "--pool", tmp_path / "pool.csv", "--label", "y", "--propensity", "q"]
    out = observal("init", tmp_path / "a.db", *tables).stdout
    block = " ".join(out.partition("Before you spend money")[2].split())
    assert block.startswith("– 100 rows of the log have propensity 1 and no label")
    assert "– Column 'number' looks like an id" in block
    out = observal("init", tmp_path / "b.db", *tables, "--exclude", "number").stdout
    assert "looks like an id" not in out
    campaign = ob.Campaign.open(tmp_path / "b.db")
    assert campaign.settings.features == ("a",)
    assert campaign.settings.files == ("log.csv", "pool.csv")
    frame["b"] = X[:, 1]
    frame[:400].to_csv(tmp_path / "log.csv", index=False)
    frame[400:].drop(columns="y").to_csv(tmp_path / "pool.csv", index=False)
    for name, given in (("twice", ["--exclude", "number", "--exclude", "b"]), ("commas", ["--exclude", "number,b"])):
        observal("init", tmp_path / f"{name}.db", *tables, *given)
        assert ob.Campaign.open(tmp_path / f"{name}.db").settings.features == ("a",)
    with pytest.raises(InvalidInput, match="There is no column 'nobody' to exclude"):
        ob.Campaign.create(
            tmp_path / "c.db",
            frame[:400],
            frame[400:],
            label="y",
            propensity="q",
            tables=ob.TableOptions(exclude=["nobody"]),
        )


def test_rows_with_near_copies_are_mentioned_unless_groups_are_named():
    rng, X, y = world()
    X = np.column_stack([X, rng.normal(size=(y.size, 3))])
    twice, labels = np.repeat(X[:300], 2, axis=0) + 0.001 * rng.normal(size=(600, 5)), np.repeat(y[:300], 2)
    names = [f"x{k}" for k in range(5)]
    for groups in (None, np.repeat(np.arange(300), 2)):
        log = ob.LoggedData(twice, labels, 1.0, groups=groups)
        pool = ob.Pool(X[300:], 1.0, groups=None if groups is None else 300 + np.arange(len(X) - 300))
        found = [text for text in quick_warnings(log, pool, names) if "near-copy" in text]
        assert len(found) == (groups is None)


def test_advice_for_a_column_without_a_name_works(tmp_path):
    rng, X, y = world()
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "q": 0.5, "y": y})
    frame.loc[rng.random(800) < 0.5, "y"] = None
    frame[:400].to_csv(tmp_path / "log.csv")
    frame[400:].drop(columns="y").to_csv(tmp_path / "pool.csv")
    assert (tmp_path / "log.csv").read_text().startswith(",a,b")
    (tmp_path / "log.csv").write_text('""' + (tmp_path / "log.csv").read_text())
    tables = ["--logged", tmp_path / "log.csv", "--pool", tmp_path / "pool.csv", "--label", "y", "--propensity", "q"]
    said = " ".join(observal("init", tmp_path / "a.db", *tables).stdout.split())
    assert "Column '' looks like an id" in said
    assert "leave it out with --exclude ''." in said
    assert "looks like an id" not in observal("init", tmp_path / "b.db", *tables, "--exclude", "").stdout
    settings = ob.Campaign.open(tmp_path / "b.db").settings
    assert (settings.features, settings.excluded) == (("a", "b"), ("",))
    assert option_words("--exclude", ["", "b"]) == "--exclude '' --exclude b"


def test_given_labels_are_checked_for_columns_but_not_for_propensities():
    rng, X, y = world()
    shown = X[:400, 0] > 0.3
    number = rng.permutation(800)
    rows = np.column_stack([X, number, np.concatenate([shown, np.zeros(400)]), y + 0.01 * rng.normal(size=800)])
    names = ["a", "b", "number", "accepted", "paid on"]
    for pool in (None, ob.Pool(rows[400:])):
        found = quick_warnings(logged(rows[:400], y[:400], shown, None), pool, names)
        assert [next(name for name in reversed(names) if repr(name) in text) for text in found] == [
            "accepted",
            "paid on",
            "number",
        ]
        assert not any("propensit" in text for text in found)


def test_init_says_that_promised_labels_are_missing(tmp_path):
    _, X, y = world(1500)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "q": np.where(X[:, 0] > 0, 1.0, 0.01), "y": y})
    frame[:1500].assign(y=np.where(X[:1500, 0] > 0, y[:1500], None)).to_csv(tmp_path / "log.csv")
    frame[1500:].drop(columns="y").to_csv(tmp_path / "pool.csv")
    tables = ["--logged", tmp_path / "log.csv", "--pool", tmp_path / "pool.csv", "--label", "y", "--propensity", "q"]
    said = " ".join(observal("init", tmp_path / "a.db", *tables).stdout.split())
    assert "rows with a propensity of at most 0.01 should have 7." in said
    assert "labels together, but have none." in said
