"""Rows in Parquet parts: the same answers as in memory, whoever computes them and in whatever order."""

from __future__ import annotations

import gc
import logging
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

import distributed
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import observal as ob
from observal.errors import ClusterUnavailable, InvalidInput, InvalidLabel, PartsChanged
from observal.parquet import Parts, Threads, executor_of, row_groups
from observal.parquet.cluster import Cluster
from observal.parquet.executors import ProgressExecutor
from observal.parquet.row_groups import find_parts
from observal.parquet.vectors import LazyIds, StackedVectors, order_statistics, quantiles
from observal.problem.labels import CodedLabels
from observal_research.benchmark import Specification, benchmark
from observal_research.trials import computed_by
from tests.clusters import without_dask

LOG, POOL = 1500, 1200
NEWTON = ob.NewtonVC(batch=8, ridge=0.01, tempering=0.5)
ONE_THREAD = Threads(1)


def make_tables(folder, group=97, dtype=np.float32):
    """Write a log and a pool in many small row groups; return what is in them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(LOG + POOL, 4)).astype(dtype)
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0.2, "good", "bad").astype(object)
    chance = np.where(X[:, 0] > 0, 0.2, 0.02)
    shown = rng.random(LOG) < chance[:LOG]
    names = [f"loan {k}" for k in range(LOG + POOL)]
    columns = {f"x{k}": X[:, k] for k in range(4)} | {"q0": chance, "name": names}
    label = np.where(shown, y[:LOG], None)
    log = pa.table({name: pa.array(values[:LOG]) for name, values in columns.items()} | {"y": pa.array(label.tolist())})
    pool = pa.table({name: pa.array(values[LOG:]) for name, values in columns.items()})
    pq.write_table(log, folder / "log.parquet", row_group_size=group)
    pq.write_table(pool, folder / "pool.parquet", row_group_size=group)
    return X, y, chance, label, np.array(names, dtype=object)


def in_memory(tables):
    X, _, chance, label, names = tables
    logged = ob.LoggedData(X[:LOG], label, chance[:LOG], names[:LOG])
    return logged, ob.Pool(X[LOG:], chance[LOG:], names[LOG:])


def in_parts(folder, executor=ONE_THREAD):
    logged = ob.LoggedData.from_parquet(
        folder / "log.parquet", label="y", propensity="q0", id="name", executor=executor
    )
    return logged, ob.Pool.from_parquet(folder / "pool.parquet", propensity="q0", id="name", executor=executor)


def labels_of(tables):
    _, y, _, _, names = tables
    truth = dict(zip(names.tolist(), y.tolist(), strict=True))
    return lambda ids: [truth[name] for name in ids]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    return folder, make_tables(folder)


# -- an array in parts


@given(st.lists(st.integers(0, LOG - 1), max_size=30))
def test_parts_take_equals_array_rows(rows):
    folder, tables = _shared()
    X = Parts.of(folder / "log.parquet", ["x0", "x1", "x2", "x3"])
    np.testing.assert_array_equal(X[np.array(rows, dtype=np.int64)], tables[0][:LOG][rows])
    raw = X.raw_rows(rows, ["x0"]).column("x0").to_pylist()
    np.testing.assert_array_equal(np.array(raw, dtype=np.float32), tables[0][:LOG][rows, 0])


_made = {}


def _shared():
    if not _made:
        folder = Path(tempfile.mkdtemp())
        _made["it"] = folder, make_tables(folder)
    return _made["it"]


def test_parts_take_rows_like_an_array(made):
    folder, (whole, *_) = made
    X, expected = Parts.of(folder / "pool.parquet", ["x0", "x1", "x2", "x3"]), whole[LOG:]
    assert X.shape == expected.shape
    assert X.dtype == np.float32
    for which in (slice(None), slice(3, 700), slice(None, None, 50), slice(5, 5), np.arange(POOL) % 7 == 0, 13, -1):
        np.testing.assert_array_equal(X[which], expected[which])
    np.testing.assert_array_equal(np.asarray(X), expected)
    np.testing.assert_array_equal(X.column(2), expected[:, 2])
    assert sum(X.map(len)) == POOL
    with pytest.raises(IndexError):
        X[np.array([POOL])]


def test_folder_glob_and_url_give_the_same_rows(made, tmp_path):
    folder, (whole, *_) = made
    table = pq.read_table(folder / "pool.parquet", columns=["x0", "x1"])
    system = fsspec.filesystem("memory")
    for k in range(3):
        part = table.slice(400 * k, 400)
        pq.write_table(part, tmp_path / f"part {k}.parquet", row_group_size=150)
        with system.open(f"/pool/part {k}.parquet", "wb") as file:
            pq.write_table(part, file, row_group_size=150)
    sources = [
        tmp_path,
        f"{tmp_path}/*.parquet",
        sorted(tmp_path.iterdir()),
        "memory://pool",
        "memory://pool/*.parquet",
    ]
    for source in sources:
        found = Parts.of(source)
        assert len(found.parts) == 9
        np.testing.assert_array_equal(found[:], whole[LOG:, :2])


def test_unusable_columns_raise(made, tmp_path):
    folder, _ = made
    with pytest.raises(InvalidInput, match="'name' must be numeric"):
        Parts.of(folder / "pool.parquet")
    with pytest.raises(InvalidInput, match="no column 'z'"):
        Parts.of(folder / "pool.parquet", ["z"])
    with pytest.raises(InvalidInput, match="no Parquet file"):
        find_parts(tmp_path / "nothing*.parquet")
    (tmp_path / "text.parquet").write_text("x,y")
    with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
        find_parts(tmp_path / "text.parquet")
    with pytest.raises(InvalidInput, match="no column 'p'"):
        ob.Pool.from_parquet(folder / "pool.parquet", propensity="p")
    pq.write_table(pa.table({"x": [1.0, None], "q": [0.5, 0.5], "i": [1, 1]}), tmp_path / "gaps.parquet")
    with pytest.raises(InvalidInput, match="1 of 2 values are NaN"):
        ob.Pool.from_parquet(tmp_path / "gaps.parquet", propensity="q", features=["x"])
    with pytest.raises(InvalidInput, match="distinct ids"):
        ob.Pool.from_parquet(tmp_path / "gaps.parquet", propensity="q", id="i")
    with pytest.raises(InvalidLabel, match="one of the classes"):
        ob.LoggedData.from_parquet(
            folder / "log.parquet", label="y", propensity="q0", features=["x0"], classes=["a", "b"]
        )


def write(path, *, group=2, **columns):
    """Write a small Parquet file; a pool with a feature and propensities, unless something else is said."""
    n_rows = len(next(iter(columns.values()), [0.0] * 4))
    usual = {"x": np.arange(n_rows, dtype=float), "q": [0.5] * n_rows}
    pq.write_table(pa.table(usual | columns), path, row_group_size=group)
    return path


def test_integer_ids_of_any_width_name_the_same_rows(tmp_path):
    X = Parts.of(write(tmp_path / "a.parquet"), ["x"])
    assert X[np.array([3])].tolist() == [[3.0]]
    assert X[np.array([3, 0], dtype=np.int32)].tolist() == [[3.0], [0.0]]
    with pytest.raises(IndexError, match="no row -100 among 4"):
        X[np.array([2, -100])]
    with pytest.raises(IndexError, match="whole numbers"):
        X[np.array([1.0])]


@pytest.mark.parametrize("id", [None, "name"])
def test_negative_positions_count_from_the_end(tmp_path, id):
    path = write(tmp_path / "a.parquet", name=["a", "b", "c", "d"])
    ids = ob.Pool.from_parquet(path, propensity="q", id=id, features=["x"]).ids
    assert ids[-1] == ids[:][-1]
    assert ids[np.array([-1, 0])].tolist() == [ids[:][3], ids[:][0]]
    with pytest.raises(IndexError, match="no row 4"):
        ids[4]


def test_take_reads_only_parts_with_its_rows(tmp_path, monkeypatch):
    X, read = Parts.of(write(tmp_path / "a.parquet"), ["x"]), []
    tables = Parts.tables
    monkeypatch.setattr(Parts, "tables", lambda self, k, columns=None: read.append(k) or tables(self, k, columns))
    assert X.raw_rows([3]).to_pylist() == [{"x": 3.0, "q": 0.5}]
    assert X.raw_rows([], ["q"]).column_names == ["q"]
    assert read == [1]


def test_columns_missing_in_one_file_raise(tmp_path):
    write(tmp_path / "a.parquet", y=[0, 1, None, None], i=[1, 2, 3, 4])
    write(tmp_path / "b.parquet", z=[1.0, 2.0], i=["5", "6"])
    with pytest.raises(InvalidInput, match=r"The log has no column 'y', its columns are \['x', 'q', 'i'\]"):
        ob.LoggedData.from_parquet(tmp_path, label="y", propensity="q", features=["x"])
    with pytest.raises(InvalidInput, match="'i' must hold the same kind of values in every file, but is int64 in one"):
        ob.Pool.from_parquet(tmp_path, propensity="q", id="i", features=["x"])


def test_from_parquet_lists_files_once(tmp_path, monkeypatch):
    listed = []
    monkeypatch.setattr("observal.parquet.parts.find_parts", lambda source: listed.append(source) or find_parts(source))
    ob.Pool.from_parquet(write(tmp_path / "a.parquet"), propensity="q")
    assert len(listed) == 1


def test_frame_instead_of_path_raises():
    with pytest.raises(InvalidInput, match="a path, a pattern or a URL, but got Table; write the table to a Parquet"):
        ob.Pool.from_parquet(pa.table({"x": [1.0], "q": [0.5]}), propensity="q")


def test_duplicate_column_names_raise(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="more than one column named 'x'"):
        Parts.of(tmp_path / "a.parquet")


def test_damaged_page_raises(tmp_path):
    path = write(tmp_path / "a.parquet", x=np.random.default_rng(0).normal(size=400), q=[0.5] * 400, group=400)
    X = Parts.of(path, ["x"])
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
        X[:]


def test_remote_footer_is_cached_until_the_file_changes(tmp_path, monkeypatch):
    system = fsspec.filesystem("memory")
    url = "memory://again/a.parquet"
    system.pipe("/again/a.parquet", write(tmp_path / "a.parquet").read_bytes())
    X, summed = Parts.of(url, ["x"]).with_checksums(), []
    monkeypatch.setattr(row_groups, "checksum", lambda part: summed.append(part) or part.checksum)
    assert X[:].tolist() == X[:].tolist() == [[0.0], [1.0], [2.0], [3.0]]
    assert len(summed) == 2
    system.pipe("/again/a.parquet", write(tmp_path / "b.parquet", x=[5.0, 6.0, 7.0, 8.0, 9.0]).read_bytes())
    assert Parts.of(url, ["x"])[:].ravel().tolist() == [5.0, 6.0, 7.0, 8.0, 9.0]
    system.rm("/again/a.parquet")
    with pytest.raises(InvalidInput, match=r"a.parquet' cannot be read \(FileNotFoundError: .*put the file back"):
        X[:]


@pytest.mark.parametrize("address", ["localhost:x", "localhost:99999", "localhost:1", "[::1"])
def test_url_of_no_server_raises_one_sentence(address):
    with pytest.raises(InvalidInput, match=r"a.parquet' cannot be read \(.*\); check the address\.$"):
        Parts.of(f"ftp://{address}/a.parquet")


def test_from_parquet_codes_labels_and_leaves_ids_in_the_file(made):
    folder, tables = made
    (logged, pool), (expected, expected_pool) = in_parts(folder), in_memory(tables)
    assert logged.classes.tolist() == expected.classes.tolist()
    assert isinstance(logged.y, CodedLabels)
    assert logged.codes.dtype == np.int8
    np.testing.assert_array_equal(logged.revealed, expected.revealed)
    np.testing.assert_array_equal(logged.codes[logged.revealed], expected.codes[expected.revealed])
    assert np.asarray(logged.y).tolist() == expected.y.tolist()
    assert isinstance(pool.ids, LazyIds)
    assert pool.ids[np.array([7, 3])].tolist() == expected_pool.ids[[7, 3]].tolist()


# -- sessions and campaigns over them


def test_session_in_parts_names_columns_and_cannot_be_saved(made, tmp_path):
    session = ob.Session(*in_parts(made[0]), NEWTON, label_budget=4)
    assert session.settings.features == ("x0", "x1", "x2", "x3")
    with pytest.raises(
        InvalidInput, match=r"stay in their Parquet files, so a session cannot store them; use Campaign.create"
    ):
        session.save(tmp_path / "session.zip")
    assert not (tmp_path / "session.zip").exists()


def test_shift_warning_names_the_column(tmp_path):
    income = np.random.default_rng(0).normal(size=80)
    labels = ["a", "b", None, None] * 20
    write(tmp_path / "log.parquet", income=income, y=labels, x=income**2, q=[0.5] * 80)
    write(tmp_path / "pool.parquet", income=income + 5, x=income**2, q=[0.5] * 80)
    logged = ob.LoggedData.from_parquet(tmp_path / "log.parquet", label="y", propensity="q")
    pool = ob.Pool.from_parquet(tmp_path / "pool.parquet", propensity="q")
    tables = [pq.read_table(tmp_path / f"{name}.parquet") for name in ("log", "pool")]
    frames = (
        ob.LoggedData.from_frame(tables[0], label="y", propensity="q"),
        ob.Pool.from_frame(tables[1], propensity="q"),
    )
    for data in ((logged, pool), frames):
        notes = ob.Session(*data, NEWTON, label_budget=4).settings.notes
        assert notes[0].startswith("Log and pool differ: income is ")


def test_campaign_from_arrays_refuses_parts(made, tmp_path):
    folder, tables = made
    refused = pytest.raises(InvalidInput, match=r"use Campaign.create\(..., tables=TableOptions\(in_place=True\)\)")
    with refused:
        ob.Campaign.create_from_arrays(tmp_path / "a.db", *in_parts(folder))
    campaign = ob.Campaign.create_from_arrays(tmp_path / "a.db", *in_memory(tables), method=NEWTON)
    with pytest.raises(InvalidInput, match="a Pool with dense features in memory"):
        campaign.extend(pool=in_parts(folder)[1])


# -- the same answers


@pytest.mark.parametrize(
    "method",
    [ob.AutoVC(), NEWTON, ob.AutoVC(priority="measure", batch=24, learners=("kernel", "boosted"))],
    ids=["auto", "newton", "measure"],
)
def test_parts_and_memory_give_the_same_queries_and_fit(made, method):
    folder, tables = made
    runs = [
        ob.run(*data, labels_of(tables), method, label_budget=24)
        for data in (in_memory(tables), in_parts(folder, "threads"))
    ]
    assert runs[0].queries["id"].tolist() == runs[1].queries["id"].tolist()
    np.testing.assert_allclose(*(run.queries["query_probability"] for run in runs), rtol=1e-8)
    X = tables[0]
    if isinstance(method, ob.NewtonVC):
        np.testing.assert_allclose(runs[0].estimator.coef_, runs[1].estimator.coef_, atol=1e-8)
    np.testing.assert_allclose(runs[0].estimator.predict_proba(X), runs[1].estimator.predict_proba(X), atol=1e-8)
    for name, interval in runs[0].intervals.items():
        assert interval.high == pytest.approx(runs[1].intervals[name].high, abs=1e-8)


def test_method_without_parts_is_given_rows_in_memory(made):
    folder, tables = made
    method = ob.ActiveVC()
    runs = [ob.run(*data, labels_of(tables), method, label_budget=30) for data in (in_memory(tables), in_parts(folder))]
    assert runs[0].queries["id"].tolist() == runs[1].queries["id"].tolist()


class Shuffled:
    """Finishes items in an order of its own."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def map(self, function, items):
        every = list(items)
        results = {int(k): function(every[k]) for k in self.rng.permutation(len(every))}
        return (results[k] for k in range(len(every)))


def bits_of(folder, tables, executor):
    """Return a few rounds' chances and coefficients as bytes."""
    logged, pool = in_parts(folder)
    out = b""
    for method in (NEWTON, ob.AutoVC(learners=("linear", "forest"))):
        session = ob.Session(logged, pool, method, label_budget=12, executor=executor)
        while query := session.ask():
            out += query.positions.tobytes() + query.query_probability.tobytes()
            session.tell(query.ids, labels_of(tables)(query.ids))
        out += session.estimator.predict_proba(tables[0][:300]).tobytes()
        out += np.float64(session.intervals()["error"].high).tobytes()
    return out


@pytest.fixture(scope="module")
def expected(made):
    return bits_of(*made, ONE_THREAD)


def test_executors_give_the_same_bits(made, expected):
    folder, tables = made
    for executor in (Threads(2), Shuffled(0), Shuffled(1)):
        assert bits_of(folder, tables, executor) == expected


def test_progress_executor_reports_finished_parts():
    seen = []
    executor = ProgressExecutor(Threads(2), lambda done, total: seen.append((done, total)))
    assert list(executor.map(abs, [-1, -2, -3])) == [1, 2, 3]
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("wanted", ["twelve", "serial", "processes", 3, Threads])
def test_unknown_executor_raises(wanted):
    with pytest.raises(
        InvalidInput,
        match=r"An executor must be .* Threads\(1\) computes in one thread, and local in several processes",
    ):
        executor_of(wanted)


def test_threads_do_not_compute_far_ahead():
    begun = []

    def begin(item):
        begun.append(item)
        return item

    results = Threads(2).map(begin, range(100))
    next(results)
    time.sleep(0.05)
    assert len(begun) <= 5
    results.close()


# -- damage


def test_changed_part_raises(made, tmp_path):
    folder, _ = made
    path = tmp_path / "pool.parquet"
    content = bytearray((folder / "pool.parquet").read_bytes())
    path.write_bytes(content)
    X = Parts.of(path, ["x0", "x1"]).with_checksums()
    assert X[:].shape == (POOL, 2)
    part = X.parts[3]
    content[part.first + part.size // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(PartsChanged, match="Row group 3"):
        X.require_finite("It")[np.array([300])]
    assert X[:97].shape == (97, 2)


# -- exact order statistics


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40), st.integers(1, 5))
def test_order_statistics_equal_sorted_values(values, step):
    whole = np.array(values)

    def blocks():
        return (whole[a : a + step] for a in range(0, whole.size, step))

    np.testing.assert_array_equal(order_statistics(blocks, range(whole.size)), np.sort(whole))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_quantiles_equal_numpy(values):
    whole, shares = np.array(values), np.arange(1, 8) / 8
    both = StackedVectors(whole[:5], whole[5:])
    np.testing.assert_array_equal(
        quantiles(lambda: [both.top, both.bottom], whole.size, shares), np.quantile(whole, shares)
    )
    np.testing.assert_array_equal(np.asarray(both), whole)


# -- a cluster


def test_local_cluster_is_shared_and_closed_when_unused(made, monkeypatch):
    folder, started = made[0], without_dask(monkeypatch)
    logged, pool = in_parts(folder, "local")
    session = ob.Session(logged, pool, NEWTON, label_budget=4, executor="local")
    session.ask(2)
    assert len(started) == 1
    assert pool.X.executor is session.problem.pool.X.executor
    del logged, pool, session
    gc.collect()
    assert started[0].cluster.closed.wait(10)
    executor_of("local")
    assert len(started) == 2


def test_closed_cluster_is_started_again(monkeypatch):
    started = without_dask(monkeypatch)
    first = executor_of("local")
    assert executor_of("local") is first
    started[0].close()
    assert executor_of("local") is not first


def test_dask_messages_are_suppressed_only_while_connecting(monkeypatch, caplog):
    without_dask(monkeypatch)
    caplog.set_level(logging.WARNING, logger="distributed.core")  # a command of an earlier test may have silenced it
    executor_of("local")
    assert not caplog.records
    assert logging.getLogger("distributed.core").level == logging.WARNING


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0, silence_logs=50
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


def test_killed_worker_changes_no_bit(made, expected, cluster):
    folder, tables = made
    pid = next(iter(cluster.run(os.getpid).values()))
    killer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
    killer.start()
    try:
        assert bits_of(folder, tables, cluster) == expected
    finally:
        killer.join()
    assert pid not in cluster.run(os.getpid).values()


def test_benchmark_on_a_cluster_equals_local_benchmark():  # on one with processes: test_campaign_in_place.py, slow
    spec = Specification(
        methods={"ours": NEWTON},
        only="linear / certainty",
        trials=1,
        rows=300,
        label_budget=16,
        peers=("margin/logistic",),
    )
    here = benchmark(spec, jobs=1)
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None, silence_logs=50) as one,
        distributed.Client(one) as client,
        computed_by(executor_of(client)),
    ):
        there = benchmark(spec)
    curves = ({key: (c.labels.tolist(), c.errors.tolist()) for key, c in one.curves.items()} for one in (here, there))
    assert next(curves) == next(curves)
    assert here.curves


def waiting_for(released):
    """Return a function, local so that it is sent as it is, that waits for a file."""

    def function(item):
        while not released.exists():
            time.sleep(0.02)
        return 10 * item

    return function


def test_cluster_without_progress_raises(cluster, tmp_path):
    released = tmp_path / "released"
    try:
        with pytest.raises(ClusterUnavailable, match=r"no part was finished .* has 2 workers; nothing was stored"):
            list(Cluster(cluster, check_seconds=0.02).map(waiting_for(released), range(3)))
    finally:
        released.touch()


def test_cluster_without_workers_raises():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None, silence_logs=50) as empty,
        distributed.Client(empty) as client,
        pytest.raises(ClusterUnavailable, match="has no workers; nothing was stored, so start workers"),
    ):
        list(Cluster(client, check_seconds=0.1).map(abs, [-1]))


def test_missing_scheduler_raises(made):
    with (
        mock.patch("observal.parquet.cluster.CONNECT_SECONDS", 0.5),
        pytest.raises(ClusterUnavailable, match="cannot be reached"),
    ):
        executor_of("tcp://127.0.0.1:9")
