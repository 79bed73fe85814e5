"""Given labels: one table, or log and pool without propensities, at every door."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import observal as ob
from observal.errors import InvalidInput
from observal.problem.given import arrange
from tests.command import observal

rng = np.random.default_rng(0)
N = 160
X = rng.normal(size=(N, 2)).round(3)
Y = np.where(X[:, 0] + 0.3 * rng.normal(size=N) > 0, "paid", "default")
SHOWN = X[:, 1] > 0.2  # a rule
IDS = np.array([f"r{i}" for i in range(N)])
TRUTH = dict(zip(IDS.tolist(), Y.tolist(), strict=True))
TABLE = pd.DataFrame({"loan": IDS, "a": X[:, 0], "b": X[:, 1], "outcome": np.where(SHOWN, Y, None)})
LOG, POOL = TABLE[:90], TABLE[90:].drop(columns="outcome")
ROLES = {"label": "outcome", "id": "loan"}
FAST = ob.AutoVC(learners=("linear",))


def answers(ids):
    return [TRUTH[str(id_)] for id_ in ids]


def test_one_table_is_split_by_whether_a_row_has_a_label():
    found = arrange(ob.LoggedData(X, np.where(SHOWN, Y, None)), None)
    assert found.population == "table"
    assert found.logged.ids.tolist() == np.flatnonzero(SHOWN).tolist()
    assert found.pool.ids.tolist() == found.rows.tolist() == np.flatnonzero(~SHOWN).tolist()
    assert found.logged.propensity.tolist() == [1.0] * int(SHOWN.sum())
    assert not found.pool.propensity.any()
    np.testing.assert_array_equal(found.pool.X, X[~SHOWN])
    assert ob.Problem(found.logged, found.pool).is_given


def test_the_log_trains_only_where_the_pool_is_the_population():
    log, pool = ob.LoggedData(X[:90], np.where(SHOWN, Y, None)[:90]), ob.Pool(X[90:])
    for population in (None, "pool"):
        found = arrange(log, pool, population)
        assert (found.population, found.rows) == ("pool", None)
        assert found.pool is pool
        assert len(found.logged) == SHOWN[:90].sum()


def test_both_asks_about_whatever_has_no_label():
    log, pool = ob.LoggedData(X[:90], np.where(SHOWN, Y, None)[:90]), ob.Pool(X[90:])
    found = arrange(log, pool, "both")
    n_open = int((~SHOWN[:90]).sum())
    assert found.population == "both"
    np.testing.assert_array_equal(found.pool.X, np.concatenate([X[:90][~SHOWN[:90]], X[90:]]))
    assert found.pool.ids[n_open:].tolist() == list(range(70))  # the pool keeps its numbers
    assert len({*found.pool.ids.tolist(), *found.logged.ids.tolist()}) == N


@pytest.mark.parametrize("population", [None, "both"])
def test_rows_with_the_same_id_are_the_same_row(population):
    """A pool that has the log's labelled rows, too, is one table with its labels apart."""
    log = ob.LoggedData(X[:90], np.where(SHOWN, Y, None)[:90], ids=IDS[:90])
    found = arrange(log, ob.Pool(X, ids=IDS), population)
    assert sorted([*found.logged.ids, *found.pool.ids]) == sorted(IDS)
    assert found.population == (population or "table")
    assert set(found.logged.ids) == set(IDS[:90][SHOWN[:90]])


def test_what_belongs_to_rows_stays_with_them():
    cost, groups = np.linspace(0.1, 1.0, N), np.arange(N) // 4
    log = ob.LoggedData(X[:90], np.where(SHOWN, Y, None)[:90], cost=cost[:90], groups=groups[:90], ids=IDS[:90])
    pool = ob.Pool(X[90:], cost=cost[90:], groups=groups[90:], ids=IDS[90:])
    found = arrange(log, pool, "both")
    for part in (found.logged, found.pool):
        rows = [IDS.tolist().index(id_) for id_ in part.ids]
        np.testing.assert_array_equal(part.X, X[rows])
        np.testing.assert_array_equal(part.cost, cost[rows])
        assert part.groups.tolist() == groups[rows].tolist()


def test_columns_in_another_order_are_stacked_by_name():
    log = ob.LoggedData.from_frame(LOG.drop(columns="loan"), label="outcome")
    found = arrange(log, ob.Pool.from_frame(POOL[["b", "a"]]), "both")
    np.testing.assert_array_equal(found.pool.X[-70:], X[90:])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arrange(ob.LoggedData(X, Y), None), "All 160 rows have a label, so there is nothing to ask about"),
        (lambda: arrange(ob.LoggedData(X, [None] * N, classes=["a", "b"]), None), "None of the 160 rows has a label"),
        (lambda: arrange(ob.LoggedData(X, Y, 0.5), None), "needs a pool of rows to ask about, but there is none"),
        (lambda: arrange(ob.LoggedData(X, Y, 0.5), ob.Pool(X)), "The log has propensities, but the pool has none"),
        (lambda: arrange(ob.LoggedData(X, Y), ob.Pool(X, 0.5)), "The pool has propensities, but the log has none"),
        (lambda: arrange(ob.LoggedData(X, Y), ob.Pool(X), "log"), "can only be about 'pool' or 'both'"),
        (lambda: arrange(ob.LoggedData(X, Y), None, "pool"), "with one table the error is about all of its rows"),
        (lambda: arrange(ob.LoggedData(X, Y), ob.Pool(X, price=np.ones(N)), "both"), "known for the pool only"),
        (
            lambda: arrange(ob.LoggedData(X, Y, ids=IDS), ob.Pool(X[:9], ids=IDS[:9])),
            "9 of the 160 labelled rows of the log are in the pool, too",
        ),
        (lambda: ob.Problem(ob.LoggedData(X, Y), ob.Pool(X, 0.5)), "Either log and pool have propensities or neither"),
    ],
)
def test_what_cannot_be_meant_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize("rows", [X, csr_array(X)], ids=["dense", "sparse"])
def test_run_takes_one_table_of_arrays(rows):
    result = ob.run(ob.LoggedData(rows, np.where(SHOWN, Y, None)), None, lambda ids: Y[ids], FAST, label_budget=30)
    assert len(result.queries) == 30
    assert not SHOWN[result.queries["id"]].any()
    assert result.error_interval.low <= 1 - result.estimator.score(X, Y) <= result.error_interval.high


def test_load_gives_a_pair_with_an_encoder():
    loaded = ob.load(TABLE, **ROLES)
    log, pool = loaded
    assert (len(log), pool) == (N, None)
    assert loaded.encoder.names == ("a", "b")
    assert any(": rows are numbered from 0 in their order" in note for note in ob.load(TABLE, label="outcome").notes)
    log, pool = ob.load(LOG, POOL, **ROLES)
    result = ob.run(log, pool, answers, FAST, label_budget=20, population="both")
    assert set(result.queries["id"]) <= set(IDS[(~SHOWN) | (np.arange(N) >= 90)])


@pytest.mark.parametrize("case", ["table", "pool", "both"])
def test_campaign_equals_session(case, tmp_path):
    tables = [TABLE] if case == "table" else [LOG, POOL]
    goals = {"label_budget": 24, "method": FAST, **({} if case == "table" else {"population": case})}
    campaign = ob.Campaign.create(tmp_path / "c.db", *tables, **ROLES, **goals)
    while rows := campaign.ask(7):
        campaign.tell(rows.ids, answers(rows.ids))
        shown = rows.rows.to_pandas().set_index("loan")
        for id_ in rows.ids:
            assert shown.loc[id_, "a"] == X[IDS.tolist().index(id_), 0]
        assert "outcome" not in shown
    alone = ob.run(*ob.load(*tables, **ROLES), answers, **goals)
    found = ob.Campaign.open(tmp_path / "c.db").result()
    assert found.queries["id"].tolist() == alone.queries["id"].tolist()
    assert found.error_interval == alone.error_interval
    assert campaign.settings.goals.population == case


def test_pool_of_a_campaign_may_grow(tmp_path):
    campaign = ob.Campaign.create(tmp_path / "c.db", LOG, POOL[:40], **ROLES, label_budget=12, method=FAST)
    campaign.extend(pool=POOL[40:])
    assert not campaign.problem.pool.propensity.any()
    assert campaign.problem.is_given


def test_commands_take_one_table(tmp_path):
    TABLE.to_csv(tmp_path / "loans.csv", index=False)
    options = ["--label", "outcome", "--id", "loan"]
    assert "Buy labels" in observal("diagnose", tmp_path / "loans.csv", *options).stdout
    said = observal("init", tmp_path / "c.db", tmp_path / "loans.csv", *options, "--budget", 20, "--batch", 5).stdout
    assert "about all rows of the table" in " ".join(said.split())
    rows = json.loads(observal("ask", tmp_path / "c.db", "--json").stdout)["rows"]
    assert {row["loan"] for row in rows} <= set(IDS[~SHOWN])


def test_methods_of_the_paper_take_given_labels():
    for method in (ob.ActiveVC(), ob.Passive(), ob.Active18(), ob.ExactDBAL(ob.Stumps(), gamma=0.05)):
        result = ob.run(ob.LoggedData(X, np.where(SHOWN, Y, None)), None, lambda ids: Y[ids], method, label_budget=20)
        assert 0 < len(result.queries) <= 20
