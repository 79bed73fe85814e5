from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import observal as ob
from observal.errors import InvalidInput
from observal.experiments.benchmark import Specification, benchmark, list_cells, make_world, peers
from observal.experiments.benchmark.cells import GENERATED, Cell
from observal.experiments.benchmark.peers import Rows, all_labels_error, choose_strength, run_peer
from observal.experiments.benchmark.scores import (
    best_single,
    excess_area,
    labels_to_near,
    paired_excess,
    ratio_of_sums,
)
from observal.experiments.benchmark.specification import run_unit
from observal.experiments.curves import Curve
from observal.methods.newton.method import NewtonVC
from observal.methods.paper.active18 import Active18
from observal.methods.paper.active_vc import ActiveVC
from tests.reference import benchmark as slow

LINEAR = GENERATED[1]
activeml = pytest.mark.skipif(find_spec("skactiveml") is None, reason="scikit-activeml (extra bench) is not installed")
vowpal = pytest.mark.skipif(find_spec("vowpalwabbit") is None, reason="vowpalwabbit (extra bench) is not installed")


def tiny(**options) -> Specification:
    given = {"only": "linear / certainty", "rows": 400, "trials": 2, "label_budget": 20, "peers": ()}
    given["methods"] = {"ActiveVC": ActiveVC()}
    return Specification(**(given | options))


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) * [1.0, 100.0, 0.01, 1.0] + 5.0
    X[:, 3] = 7.0  # constant
    for name in ("alpha", "beta", "skin"):
        np.savez(tmp_path / f"{name}.npz", X=X, y=(X[:, 0] + 0.3 * rng.standard_normal(300) > 5.0).astype(int))
    return tmp_path


# -- cells


def test_cells_are_the_generated_and_every_real_set_under_every_policy(folder):
    cells = list_cells(folder, exclude=("skin",))
    assert len(cells) == 4 + 2 * 4
    assert [cell.name for cell in cells[:4]] == [
        "linear / uncertainty",
        "linear / certainty",
        "expressible / blind-spot",
        "confidently wrong / blind-spot",
    ]
    assert sum(cell.plain for cell in cells) == 2 * 3
    assert [cell.data for cell in list_cells(folder, only="alpha", generated=False)] == ["alpha"] * 4
    with pytest.raises(InvalidInput, match="No cell is left"):
        list_cells(only="nothing like that")
    with pytest.raises(InvalidInput, match="no logging policy"):
        list_cells(policies=("whim",))


@pytest.mark.parametrize("policy", ["certainty", "uncertainty", "scorecard", "blind-spot"])
def test_a_world_is_standardised_split_and_seeded(folder, policy):
    cell = Cell("alpha", policy, real=True)
    world = make_world(cell, 0, 3, 200, folder)
    simulation = world.simulation
    assert (len(simulation.logged), len(simulation.pool), len(simulation.y_test)) == (80, 80, 40)
    both = np.vstack([simulation.logged.X, simulation.pool.X])
    assert_allclose(both.mean(axis=0), 0.0, atol=1e-9)
    assert_allclose(both.std(axis=0), [1.0, 1.0, 1.0, 0.0], atol=1e-9)
    revealed = simulation.logged.revealed
    assert (world.log_labels[revealed] == simulation.logged.y[revealed]).all()
    make_world.cache_clear()
    again = make_world(cell, 0, 3, 200, folder)
    assert again.seed == world.seed
    assert_allclose(again.simulation.logged.X, simulation.logged.X)
    assert make_world(cell, 1, 3, 200, folder).seed != world.seed


def test_generated_worlds_have_the_rows_asked_for():
    for cell in GENERATED:
        simulation = make_world(cell, 0, 0, 500).simulation
        assert len(simulation.logged) == len(simulation.pool) == 200


# -- scores


def test_areas_and_labels_to_near_agree_with_their_slow_twins():
    rng = np.random.default_rng(1)
    for _ in range(20):
        labels = np.concatenate([[0], np.sort(rng.choice(np.arange(1, 40), size=4, replace=False))])
        errors = np.sort(rng.uniform(0.05, 0.4, 5))[::-1]
        curve, all_labels = Curve(labels, errors), float(rng.uniform(0.02, 0.3))
        args = (labels.tolist(), errors.tolist(), all_labels, 30)
        assert excess_area(curve, all_labels, 30) == pytest.approx(slow.excess_area(*args))
        fast, twin = labels_to_near(curve, all_labels, 30), slow.labels_to_near(*args)
        assert fast is None if twin is None else fast == pytest.approx(twin, abs=0.011)


def test_labels_to_near_is_none_beyond_the_budget():
    curve = Curve([0, 100], [0.5, 0.1])
    assert labels_to_near(curve, 0.1, 50) is None
    assert labels_to_near(curve, 0.1, 100) == pytest.approx(97.5)
    assert labels_to_near(curve, 0.6, 100) == 0.0


def test_ratio_agrees_with_its_slow_twin():
    rng = np.random.default_rng(2)
    theirs = [rng.uniform(0.01, 0.1, n) for n in (5, 8, 3)]
    ours = [0.5 * cell + rng.normal(0.0, 0.005, cell.size) for cell in theirs]
    found = ratio_of_sums(ours, theirs, draws=4000)
    estimate, drawn = slow.ratio_of_sums([a.tolist() for a in ours], [b.tolist() for b in theirs], 2000, 1)
    assert found.estimate == pytest.approx(estimate)
    width = drawn[1949] - drawn[49]
    assert found.low == pytest.approx(drawn[49], abs=0.1 * width)
    assert found.high == pytest.approx(drawn[1949], abs=0.1 * width)
    assert found.cells == 3
    assert found.ours / found.theirs == pytest.approx(estimate)
    with pytest.raises(InvalidInput, match="same trials"):
        ratio_of_sums(ours, theirs[:2])


def test_pairing_makes_the_ratio_of_proportional_areas_exact():
    theirs = [np.array([0.01, 0.2, 0.05])]
    found = ratio_of_sums([0.3 * theirs[0]], theirs)
    assert_allclose([found.low, found.estimate, found.high], 0.3)


def test_paired_excess_agrees_with_its_slow_twin():
    rng = np.random.default_rng(3)
    theirs = rng.uniform(0.0, 0.1, 8)
    for shift, worse in ((0.0, False), (0.02, True)):
        ours = theirs + shift + rng.normal(0.0, 0.001, 8)
        found = paired_excess(ours, theirs)
        twin = slow.paired_low(ours.tolist(), theirs.tolist(), float(t.ppf(0.95, 7)))
        assert_allclose([found.mean, found.se, found.low], twin)
        assert found.worse is worse
    one = paired_excess(np.array([0.9]), np.array([0.1]))
    assert not one.worse
    assert one.to_dict() == {"mean": pytest.approx(0.8), "se": None, "low": None, "worse": False}


def test_the_best_single_peer_has_the_least_mean_of_cell_means():
    # Over all trials "b" would be the lower one: cells count alike, however many trials they have.
    areas = {"a": [np.full(2, 0.1), np.full(9, 0.1)], "b": [np.full(2, 0.3), np.full(9, 0.0)]}
    assert best_single(areas) == "a"


# -- peers


def test_strength_is_one_where_a_class_has_too_few_labels():
    X = np.arange(20.0)[:, None]
    assert choose_strength(X, np.r_[np.zeros(18), np.ones(2)].astype(int), 0) == 1.0
    assert choose_strength(X[:0], np.zeros(0, dtype=int), 0) == 1.0
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 30))
    assert choose_strength(noise, rng.integers(2, size=40), 0) < 0.1  # nothing to learn: the ridge is strong


@pytest.mark.parametrize("trees", [False, True])
def test_all_labels_are_better_than_the_log_on_the_population(trees):
    world = make_world(GENERATED[3], 0, 0, 1200)
    error = all_labels_error(*world, trees=trees)
    sim, shown = world.simulation, world.simulation.logged.revealed
    model = HistGradientBoostingClassifier(random_state=0) if trees else LogisticRegression()
    model.fit(sim.logged.X[shown], sim.logged.codes[shown])
    log_alone = np.mean(sim.logged.classes[model.predict(sim.X_test)] != sim.y_test)
    assert 0.0 < error < log_alone - 0.05


@activeml
@pytest.mark.parametrize("name", ["margin", "DiscriminativeAL", "CoreSet", "random", "margin, trees"])
def test_activeml_peers_buy_the_budget_from_the_pool_alone(name):
    world = make_world(LINEAR, 0, 0, 200)
    rows = Rows(world.simulation)
    curve = run_peer(name, world.simulation, 15, 10, world.seed)
    assert curve.labels.tolist() == [0, 10, 15]
    again = run_peer(name, world.simulation, 15, 10, world.seed)
    assert curve.errors.tolist() == again.errors.tolist()
    whole = run_peer(name, world.simulation, 10_000, 60, world.seed)
    assert whole.labels[-1] == len(world.simulation.pool) == rows.pool.size


@activeml
def test_peers_that_bought_everything_agree():
    simulation = make_world(LINEAR, 0, 0, 200).simulation
    ends = {name: run_peer(name, simulation, 10_000, 80, 7).errors[-1] for name in ("margin", "random", "CoreSet")}
    assert len(set(ends.values())) == 1


@activeml
def test_peers_live_with_a_log_of_one_class():
    simulation = make_world(LINEAR, 0, 0, 200).simulation
    y = np.where(simulation.logged.y == 1.0, 1.0, np.nan)
    one = replace(simulation, logged=replace(simulation.logged, y=y))
    for name in ("margin", "DiscriminativeAL", "CoreSet", "random"):
        assert run_peer(name, one, 20, 10, 0).labels[-1] == 20


@vowpal
@pytest.mark.parametrize("name", ["VW"])
def test_vowpal_wabbit_runs_live(name):
    world = make_world(LINEAR, 0, 0, 1000)
    curve = run_peer(name, world.simulation, 40, 10, world.seed)
    assert curve.labels.tolist() == [0, 10, 20, 30, 40]
    assert curve.errors.tolist() == run_peer(name, world.simulation, 40, 10, world.seed).errors.tolist()
    assert curve.errors.min() < 0.35  # it learns: half is a coin


# -- the whole


def test_a_benchmark_writes_resumes_and_takes_more_methods(tmp_path):
    spec = tiny(methods={"ours": ActiveVC(fit_intercept=True)})
    steps: list[tuple[int, int]] = []
    report = benchmark(spec, tmp_path, jobs=1, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results == json.loads(json.dumps(report.to_dict()))
    assert results["cells"]["linear / certainty"]["contestants"]["ours"]["curve"][0][0] == 0
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert (tmp_path / "figure.svg").exists()

    before = (tmp_path / "partial.jsonl").read_text(encoding="utf-8").splitlines()
    more = replace(spec, methods={"ours": ActiveVC(fit_intercept=True), "other": Active18()}, trials=3)
    steps.clear()
    second = benchmark(more, tmp_path, jobs=1, resume=True, progress=lambda done, total: steps.append((done, total)))
    assert steps[0] == (4, 9)
    assert (tmp_path / "partial.jsonl").read_text(encoding="utf-8").splitlines()[: len(before)] == before
    cell = spec.cells[0]
    assert second.areas(cell, "ours")[:2].tolist() == report.areas(cell, "ours").tolist()
    with pytest.raises(InvalidInput, match="other options"):
        benchmark(replace(spec, rows=500), tmp_path, jobs=1, resume=True)


def test_a_method_with_other_settings_is_run_anew():
    a, b = tiny(methods={"ours": ActiveVC()}), tiny(methods={"ours": ActiveVC(capacity=0.3)})
    unit = next(unit for unit in a.units if unit[2] == "ours")
    assert a.key(unit) != b.key(unit)


def test_interrupting_keeps_what_is_finished(tmp_path):
    spec = tiny()

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        benchmark(spec, tmp_path, jobs=1, progress=stop)
    assert len((tmp_path / "partial.jsonl").read_text(encoding="utf-8").splitlines()) == 1 + 3
    assert not (tmp_path / "results.json").exists()
    resumed = benchmark(spec, tmp_path, jobs=1, resume=True)
    fresh = benchmark(spec, jobs=1)
    assert {k: c.errors.tolist() for k, c in resumed.curves.items()} == {
        k: c.errors.tolist() for k, c in fresh.curves.items()
    }


def test_our_curve_is_that_of_run_with_the_budget():
    method = NewtonVC(ridge=0.01, tempering=0.5)
    found = run_unit(tiny(methods={"ours": method}), LINEAR, 0, "ours")
    world = make_world(LINEAR, 0, 0, 400)
    sim = world.simulation
    result = ob.run(sim.logged, sim.pool, sim.oracle, method, label_budget=20, random_state=world.seed)
    assert found["labels"] == [round_.labels for round_ in result.rounds] == [0, 10, 20]
    assert found["errors"] == [1.0 - round_.estimator.score(sim.X_test, sim.y_test) for round_ in result.rounds]


def test_one_trial_has_no_standard_error():
    variants = {"first": NewtonVC(ridge=0.01, tempering=0.5), "other": NewtonVC(ridge=0.01, tempering=0.0)}
    one, two = (benchmark(tiny(methods=variants, trials=trials), jobs=1) for trials in (1, 2))
    assert [("±" in row[1]) for row in (one.difference_rows()[0], two.difference_rows()[0])] == [False, True]
    mean, se = two.differences(two.spec.cells)["other"]
    pairs = two.areas(two.spec.cells[0], "other") - two.areas(two.spec.cells[0], "first")
    assert (mean, se) == (pytest.approx(pairs.mean()), pytest.approx(pairs.std(ddof=1) / np.sqrt(2)))


def test_trees_on_a_set_that_is_not_there_are_refused(folder):
    with pytest.raises(InvalidInput, match="no data set 'typo' to compare trees on"):
        tiny(only=None, data=folder, exclude=(), tree_data=("alpha", "typo"))


@activeml
def test_report_compares_with_the_best_single_peer(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        peers, "choose_strength", lambda *_: 1.0
    )  # has a test of its own, and would take most of the time
    spec = tiny(
        only=None,
        data=folder,
        policies=("certainty", "blind-spot"),
        exclude=("skin", "beta"),
        peers=("margin", "random", "margin, trees"),
        tree_data=("alpha",),
        rows=200,
    )
    report = benchmark(spec, tmp_path, jobs=1)
    assert report.best_peer in ("margin", "random")
    assert {c.cells for c in report.comparisons} == {"all cells", "real sets without a blind spot"}
    means = {p: np.mean([report.areas(cell, p).mean() for cell in spec.cells]) for p in ("margin", "random")}
    assert report.best_peer == min(means, key=means.__getitem__)
    for overall in (c for c in report.comparisons if c.cells == "all cells"):
        ours = np.mean([report.areas(cell, overall.ours).mean() for cell in spec.cells])
        assert overall.ratio.estimate == pytest.approx(ours / means[report.best_peer])
    assert [c.ratio.cells for c in report.comparisons if c.cells != "all cells"] == [1] * len(spec.methods)
    assert len(report.rows()) == len(spec.cells) + 1
    assert all(len(row) == len(report.header) for row in report.rows())
    assert [row[0] for row in report.tree_rows()] == ["alpha / certainty", "alpha / blind-spot"]
    assert all(len(row) == len(report.tree_header) for row in report.tree_rows())
    cell = spec.tree_cells[0]
    excess = report.errors(cell, "margin, trees") - report.all_labels(cell, "margin, trees")
    assert_allclose(report.areas(cell, "margin, trees"), excess)
    assert len(report.summary()) == 3
    json.dumps(report.to_dict(), allow_nan=False)


def test_two_processes_find_the_same(tmp_path):
    spec = tiny()
    one, two = benchmark(spec, jobs=1), benchmark(spec, jobs=2)
    assert {k: c.errors.tolist() for k, c in one.curves.items()} == {
        k: c.errors.tolist() for k, c in two.curves.items()
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trials": 0}, "at least 1 trial"),
        ({"peers": ("nobody",)}, "no peer 'nobody'"),
        ({"methods": {"margin": ActiveVC()}}, "distinct names"),
        ({"methods": {}}, "at least one of our methods"),
    ],
)
def test_specifications_that_cannot_be(options, words):
    with pytest.raises(InvalidInput, match=words):
        tiny(**options)


def test_a_peer_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("observal.experiments.benchmark.peers.find_spec", lambda package: None)
    assert tiny(peers=None).peers == ()
    with pytest.raises(InvalidInput, match=r"observal\[bench\]"):
        tiny(peers=("margin",))
