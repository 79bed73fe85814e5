from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from pyarrow import parquet
from scipy.stats import t
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import observal as ob
from observal.errors import InvalidInput
from observal.methods.newton import NewtonVC
from observal.paper.active18 import Active18
from observal.paper.active_vc import ActiveVC
from observal_research.benchmark import Specification, benchmark, list_cells, make_world
from observal_research.benchmark.cells import GENERATED, Cell
from observal_research.benchmark.development import halves, list_tables, load_table
from observal_research.benchmark.peer_data import PeerData, choose_strength
from observal_research.benchmark.peers import DEFAULT_PEERS, FAMILIES, all_labels_error, margins, run_peer
from observal_research.benchmark.scores import (
    best_single,
    excess_area,
    paired_difference,
    paired_excess,
    ratio_of_sums,
)
from observal_research.benchmark.specification import ALL_LABELS, pick_methods, run_unit
from observal_research.curves import Curve
from tests.command import research
from tests.reference import benchmark as slow

LINEAR = GENERATED[1]
boost = pytest.mark.skipif(find_spec("catboost") is None, reason="catboost (extra bench) is not installed")
activeml = pytest.mark.skipif(find_spec("skactiveml") is None, reason="scikit-activeml (extra bench) is not installed")
vowpal = pytest.mark.skipif(find_spec("vowpalwabbit") is None, reason="vowpalwabbit (extra bench) is not installed")


def tiny(**options) -> Specification:
    given = {"only": "linear / certainty", "rows": 400, "trials": 2, "label_budget": 20, "peers": ()}
    given["methods"] = {"ActiveVC": ActiveVC()}
    return Specification(**(given | options))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture
def two_strengths(monkeypatch):
    """Let logistic regression choose from two ridges, not seven: for tests that are not about the choice."""
    monkeypatch.setattr("observal_research.benchmark.peer_data.STRENGTHS", (0.1, 10.0))


@pytest.fixture
def small_models(monkeypatch, two_strengths):
    small = replace(FAMILIES["forest"], make=lambda seed, _: RandomForestClassifier(5, random_state=seed))
    monkeypatch.setitem(FAMILIES, "forest", small)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) * [1.0, 100.0, 0.01, 1.0] + 5.0
    X[:, 3] = 7.0  # constant
    for name in ("alpha", "beta", "skin"):
        np.savez(tmp_path / f"{name}.npz", X=X, y=(X[:, 0] + 0.3 * rng.standard_normal(300) > 5.0).astype(int))
    return tmp_path


@pytest.fixture
def tables(tmp_path):
    """Development tables: three classes with a category, and two classes."""
    rng = np.random.default_rng(1)
    x, colour = rng.standard_normal(240), rng.choice(["red", "green"], 240)
    more = rng.standard_normal(240)
    y = np.where(x > 0.5, "c", np.where((colour == "red") & (x < 0.3), "a", "b"))
    parquet.write_table(pa.table({"x": x, "colour": colour, "more": more, "label": y}), tmp_path / "three.parquet")
    two = np.where(x + 0.3 * more > 0, "yes", "no")
    parquet.write_table(pa.table({"x": x, "more": more, "label": two}), tmp_path / "two.parquet")
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
def test_world_is_standardised_split_and_seeded(folder, policy):
    cell = Cell("alpha", policy, real=True)
    world = make_world(cell, 0, 3, 200, folder)
    assert (len(world.logged), len(world.pool), len(world.y_test)) == (80, 80, 40)
    both = np.vstack([world.logged.X, world.pool.X])
    assert_allclose(both.mean(axis=0), 0.0, atol=1e-9)
    assert_allclose(both.std(axis=0), [1.0, 1.0, 1.0, 0.0], atol=1e-9)
    revealed = world.logged.revealed
    assert (world.log_labels[revealed] == world.logged.y[revealed]).all()
    make_world.cache_clear()
    again = make_world(cell, 0, 3, 200, folder)
    assert again.seed == world.seed
    assert_allclose(again.logged.X, world.logged.X)
    assert make_world(cell, 1, 3, 200, folder).seed != world.seed


def test_generated_worlds_have_the_rows_asked_for():
    for cell in GENERATED:
        world = make_world(cell, 0, 0, 500)
        assert len(world.logged) == len(world.pool) == 200


def test_development_tables_take_the_place_of_all_other_cells(tables):
    cells = list_cells(development=tables)
    assert len(cells) == 2 * 4
    assert {(cell.data, cell.classes, cell.table) for cell in cells} == {("three", 3, True), ("two", 2, True)}
    assert list_tables(tables) == ("three", "two")
    X, y = load_table(tables, "three")
    assert X.shape == (240, 4)  # two numbers, two colours
    assert set(y) == {"a", "b", "c"}
    with pytest.raises(InvalidInput, match="no parquet files"):
        list_cells(development=tables / "nowhere")
    parquet.write_table(pa.table({"x": [1.0, 2.0]}), tables / "bare.parquet")
    with pytest.raises(InvalidInput, match="column 'label'"):
        load_table(tables, "bare")


def test_more_classes_are_halved_for_the_policy_alone(tables):
    assert halves(np.array(["d", "a", "b", "c"])).tolist() == [1, 0, 0, 1]
    assert halves(np.array(["x", "y", "x"])).tolist() == [0, 1, 0]
    for policy in ("certainty", "uncertainty", "scorecard", "blind-spot"):
        world = make_world(Cell("three", policy, True, 3, table=True), 0, 0, 200, tables)
        assert world.logged.classes.tolist() == ["a", "b", "c"]
        assert (len(world.logged), len(world.pool), len(world.y_test)) == (80, 80, 40)
        assert set(world.log_labels) == {"a", "b", "c"}
        assert_allclose(np.vstack([world.logged.X, world.pool.X]).mean(axis=0), 0.0, atol=1e-9)


# -- scores


def test_areas_agree_with_their_slow_twin():
    rng = np.random.default_rng(1)
    for _ in range(20):
        labels = np.concatenate([[0], np.sort(rng.choice(np.arange(1, 40), size=4, replace=False))])
        errors = np.sort(rng.uniform(0.05, 0.4, 5))[::-1]
        curve, all_labels = Curve(labels, errors), float(rng.uniform(0.02, 0.3))
        args = (labels.tolist(), errors.tolist(), all_labels, 30)
        assert excess_area(curve, all_labels, 30) == pytest.approx(slow.excess_area(*args))


def test_paired_difference_agrees_with_its_slow_twin():
    rng = np.random.default_rng(5)
    for groups in (2, 7):
        theirs = [rng.uniform(0.1, 0.3, n) for n in rng.integers(1, 9, groups)]
        ours = [cell + rng.normal(-0.01, 0.02) + rng.normal(0.0, 0.01, cell.size) for cell in theirs]
        found = paired_difference(ours, theirs)
        twin = slow.paired_difference(
            [a.tolist() for a in ours], [b.tolist() for b in theirs], float(t.ppf(0.975, groups - 1))
        )
        assert_allclose([found.mean, found.low, found.high, found.won], twin)
        assert found.groups == groups
    one = paired_difference([np.array([0.1, 0.3])], [np.array([0.3, 0.3])])
    assert one.to_dict() == {"mean": pytest.approx(-0.1), "low": None, "high": None, "groups": 1, "won": 1}
    with pytest.raises(InvalidInput, match="same trials"):
        paired_difference(ours, theirs[:-1])


def test_paired_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(6)
    covered = 0
    for _ in range(400):
        theirs = [rng.uniform(0.1, 0.3, 4) for _ in range(8)]
        ours = [cell - 0.01 + rng.normal(0.0, 0.01) + rng.normal(0.0, 0.01, 4) for cell in theirs]
        found = paired_difference(ours, theirs)
        covered += found.low <= -0.01 <= found.high
    assert 0.92 < covered / 400 < 0.98


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


def test_best_single_peer_has_the_least_mean_of_cell_means():
    # Over all trials "b" would be the lower one: cells count alike, however many trials they have.
    areas = {"a": [np.full(2, 0.1), np.full(9, 0.1)], "b": [np.full(2, 0.3), np.full(9, 0.0)]}
    assert best_single(areas) == "a"
    rng = np.random.default_rng(4)
    for _ in range(20):
        errors = {name: [rng.random(n) for n in (2, 5, 1)] for name in "abcd"}
        assert best_single(errors) == slow.best_single(errors)


# -- peers


def test_strength_is_one_where_a_class_has_too_few_labels():
    X = np.arange(20.0)[:, None]
    assert choose_strength(X, np.r_[np.zeros(18), np.ones(2)].astype(int), 0) == 1.0
    assert choose_strength(X[:0], np.zeros(0, dtype=int), 0) == 1.0
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 30))
    assert choose_strength(noise, rng.integers(2, size=40), 0) < 0.1  # nothing to learn: the ridge is strong
    # A class with three labels takes no part in the choice.
    y = np.r_[rng.integers(2, size=40), [2, 2, 2]]
    assert choose_strength(rng.standard_normal((43, 30)), y, 0) < 0.1


@pytest.mark.parametrize("family", ["logistic", "forest"])
def test_all_labels_are_better_than_the_log_on_the_population(family):
    world = make_world(GENERATED[3], 0, 0, 1200)
    error = all_labels_error(world, family)
    shown = world.logged.revealed
    model = RandomForestClassifier(random_state=0) if family == "forest" else LogisticRegression()
    model.fit(world.logged.X[shown], world.logged.codes[shown])
    log_alone = np.mean(world.logged.classes[model.predict(world.X_test)] != world.y_test)
    assert 0.0 < error < log_alone - 0.05


def test_default_peers_are_two_rules_for_each_family():
    assert len(DEFAULT_PEERS) == 8
    assert set(DEFAULT_PEERS) == {f"{rule}/{family}" for rule in ("margin", "random") for family in FAMILIES}


BY_HAND = [
    pytest.param(name, marks=boost) if "CatBoost" in name else name
    for name in DEFAULT_PEERS
    if name != "random/CatBoost"  # slow, and both of its halves are tested in others
]


@pytest.mark.usefixtures("two_strengths")
@pytest.mark.parametrize("name", BY_HAND)
def test_peers_by_hand_buy_the_budget_from_the_pool_alone(name):
    world = make_world(LINEAR, 0, 0, 200)
    curve = run_peer(name, world, 15, 10, world.seed)
    assert curve.labels.tolist() == [0, 10, 15]
    again = run_peer(name, world, 15, 10, world.seed)
    assert curve.errors.tolist() == again.errors.tolist()


@pytest.mark.usefixtures("two_strengths")
@pytest.mark.parametrize("name", BY_HAND)
def test_peers_by_hand_take_three_classes(name, tables):
    world = make_world(Cell("three", "scorecard", True, 3, table=True), 0, 0, 240, tables)
    curve = run_peer(name, world, 60, 30, world.seed)
    assert curve.labels.tolist() == [0, 30, 60]
    most = max(np.mean(world.y_test == label) for label in "abc")
    assert curve.errors[-1] < 1.0 - most


@pytest.mark.usefixtures("two_strengths")
@pytest.mark.parametrize("family", ["logistic", "forest", "LightGBM"])
def test_peers_by_hand_that_bought_everything_agree(family):
    world = make_world(LINEAR, 0, 0, 200)
    margin, by_lot = (run_peer(f"{rule}/{family}", world, 10_000, 80, 7) for rule in ("margin", "random"))
    assert margin.labels[-1] == by_lot.labels[-1] == len(world.pool)
    assert margin.errors[-1] == by_lot.errors[-1]


def test_margin_by_hand_asks_for_the_rows_in_doubt(monkeypatch):
    world = make_world(LINEAR, 0, 0, 200)
    rows, asked = PeerData(world), []
    real = LogisticRegression.fit
    monkeypatch.setattr(LogisticRegression, "fit", lambda self, X, y: asked.append(len(y)) or real(self, X, y))
    run_peer("margin/logistic", world, 10, 10, 0)
    n_log = int((~np.isnan(rows.known)).sum())
    assert asked[-1] == n_log + 10
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(4), 30)

    class Model:
        def predict_proba(self, X):
            return chances

    assert_allclose(margins(Model(), rows.X[:30]), slow.margins(chances.tolist()))


@pytest.mark.usefixtures("two_strengths")
@pytest.mark.parametrize("name", BY_HAND)
def test_peers_by_hand_live_with_a_log_of_one_class_or_none(name):
    world = make_world(LINEAR, 0, 0, 200)
    for kept in (world.logged.y == 1.0, np.zeros(len(world.logged), dtype=bool)):
        y = np.where(kept, world.logged.y, np.nan)
        bare = replace(world, logged=replace(world.logged, y=y))
        assert run_peer(name, bare, 20, 10, 0).labels[-1] == 20


@pytest.mark.usefixtures("two_strengths")
@activeml
@pytest.mark.parametrize("name", ["margin", "DiscriminativeAL", "CoreSet", "random", "margin-trees"])
def test_activeml_peers_buy_the_budget_from_the_pool_alone(name):
    world = make_world(LINEAR, 0, 0, 200)
    rows = PeerData(world)
    name = f"scikit-activeml/{name}"
    curve = run_peer(name, world, 15, 10, world.seed)
    assert curve.labels.tolist() == [0, 10, 15]
    again = run_peer(name, world, 15, 10, world.seed)
    assert curve.errors.tolist() == again.errors.tolist()
    whole = run_peer(name, world, 10_000, 60, world.seed)
    assert whole.labels[-1] == len(world.pool) == rows.pool.size


@pytest.mark.usefixtures("two_strengths")
@activeml
def test_peers_that_bought_everything_agree():
    world = make_world(LINEAR, 0, 0, 200)
    names = ("scikit-activeml/margin", "scikit-activeml/random", "scikit-activeml/CoreSet", "margin/logistic")
    ends = {name: run_peer(name, world, 10_000, 80, 7).errors[-1] for name in names}
    assert len(set(ends.values())) == 1


@pytest.mark.usefixtures("two_strengths")
@activeml
def test_peers_live_with_a_log_of_one_class():
    world = make_world(LINEAR, 0, 0, 200)
    y = np.where(world.logged.y == 1.0, 1.0, np.nan)
    one = replace(world, logged=replace(world.logged, y=y))
    for name in ("margin", "DiscriminativeAL", "CoreSet", "random"):
        assert run_peer(f"scikit-activeml/{name}", one, 20, 10, 0).labels[-1] == 20


@vowpal
@pytest.mark.parametrize("name", ["VW"])
def test_vowpal_wabbit_runs_live(name):
    world = make_world(LINEAR, 0, 0, 1000)
    curve = run_peer(name, world, 40, 10, world.seed)
    assert curve.labels.tolist() == [0, 10, 20, 30, 40]
    assert curve.errors.tolist() == run_peer(name, world, 40, 10, world.seed).errors.tolist()
    assert curve.errors.min() < 0.35  # it learns: half is a coin


# -- the whole


@pytest.mark.usefixtures("two_strengths")
def test_benchmark_writes_resumes_and_takes_more_methods(tmp_path):
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
    with pytest.raises(InvalidInput, match="started with other options"):
        benchmark(replace(spec, rows=500), tmp_path, jobs=1, resume=True)


def test_method_with_other_settings_is_run_anew():
    a, b = tiny(methods={"ours": ActiveVC()}), tiny(methods={"ours": ActiveVC(clip_constant=0.3)})
    unit = next(unit for unit in a.units if unit[2] == "ours")
    assert a.key(unit) != b.key(unit)


@pytest.mark.usefixtures("two_strengths")
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
    result = ob.run(world.logged, world.pool, world.oracle, method, label_budget=20, random_state=world.seed)
    assert found["labels"] == [round_.labels for round_ in result.rounds] == [0, 10, 20]
    assert found["errors"] == [1.0 - round_.estimator.score(world.X_test, world.y_test) for round_ in result.rounds]


def test_one_trial_has_no_standard_error():
    variants = {"first": NewtonVC(ridge=0.01, tempering=0.5), "other": NewtonVC(ridge=0.01, tempering=0.0)}
    one, two = (benchmark(tiny(methods=variants, trials=trials), jobs=1) for trials in (1, 2))
    assert [("±" in row[1]) for row in (one.difference_rows()[0], two.difference_rows()[0])] == [False, True]
    mean, se = two.differences(two.spec.cells)["other"]
    pairs = two.areas(two.spec.cells[0], "other") - two.areas(two.spec.cells[0], "first")
    assert (mean, se) == (pytest.approx(pairs.mean()), pytest.approx(pairs.std(ddof=1) / np.sqrt(2)))


def test_report_compares_with_the_best_single_peer_of_any_family(folder, tmp_path, small_models):
    peers = ("margin/logistic", "random/logistic", "margin/forest")
    policies = ("certainty", "blind-spot")
    spec = tiny(only=None, data=folder, policies=policies, exclude=("skin", "beta"), peers=peers, rows=200)
    report = benchmark(spec, tmp_path, jobs=1)
    means = {p: np.mean([report.errors(cell, p).mean() for cell in spec.cells]) for p in peers}
    best = report.best_peer(spec.cells)
    assert best == min(means, key=means.__getitem__)
    assert report.best_peer(spec.cells, trees=True) == "margin/forest"
    assert report.best_peer([]) is None
    ours = [report.errors(cell, "ActiveVC") for cell in spec.cells]
    theirs = [report.errors(cell, best) for cell in spec.cells]
    found = report.difference("ActiveVC", best, spec.cells)
    twin = slow.paired_difference(ours, theirs, float(t.ppf(0.975, len(spec.cells) - 1)))
    assert_allclose([found.mean, found.low, found.high, found.won], twin)
    assert report.difference("ActiveVC", best, spec.cells, by_data=True).groups == 4  # three scenarios and alpha
    peer, ratio = report.generated_ratio("ActiveVC")
    generated = [cell for cell in spec.cells if not cell.real]
    top, bottom = (sum(report.areas(c, name).mean() for c in generated) for name in ("ActiveVC", peer))
    assert ratio.estimate == pytest.approx(top / bottom)
    assert len(report.rows()) == len(spec.cells) + 1
    assert all(len(row) == len(report.header) for row in report.rows())
    overall = report.overall_rows("ActiveVC")
    assert [float(row[0]) for row in overall] == sorted(float(row[0]) for row in overall)
    assert {row[1] for row in overall} == set(spec.contestants)
    assert any("best single peer of any family" in line for line in report.summary())
    json.dumps(report.to_dict(), allow_nan=False)
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert sum(line.startswith("| --- |") for line in text.splitlines()) == 2
    assert "| mean over its cells |" in text


def test_all_labels_are_those_of_the_family_that_has_the_lowest_error(small_models):
    spec = tiny(peers=("random/forest",), only="confidently wrong", rows=600)
    report = benchmark(spec, jobs=1)
    cell = spec.cells[0]
    by_family = {f: [c.errors[0] for c in report.trials(cell, ALL_LABELS + f)] for f in ("logistic", "forest")}
    assert spec.families == ("logistic", "forest")
    assert report.all_labels(cell).tolist() == min(by_family.values(), key=np.mean)
    assert_allclose(report.areas(cell, "ActiveVC"), report.errors(cell, "ActiveVC") - report.all_labels(cell))


def test_method_for_two_classes_is_left_out_of_cells_with_more(tables, tmp_path, small_models):
    spec = tiny(only="scorecard", development=tables, peers=("margin/logistic",), trials=1, rows=240)
    assert [cell.name for cell in spec.cells] == ["three / scorecard", "two / scorecard"]
    report = benchmark(spec, tmp_path, jobs=1)
    assert [cell.data for cell in report.cells_of("ActiveVC")] == ["two"]
    assert report.rows()[0][1] == "—"
    assert report.summary()[0] == "ActiveVC takes two classes alone, so it was not run in 1 cell."
    assert report.overall_rows("ActiveVC")[0][4] in ("", "0 of 1", "1 of 1")
    alone = benchmark(replace(spec, only="three / scorecard"), jobs=1)
    assert alone.overall_rows("ActiveVC") == []
    json.dumps(alone.to_dict(), allow_nan=False)


def test_worse_cells_are_those_whose_lower_bound_exceeds_the_tolerance(small_models):
    spec = tiny(peers=("margin/logistic",), trials=3)
    report = benchmark(spec, jobs=1)
    cell = spec.cells[0]
    for shift, worse in ((0.0, []), (0.01, [cell])):
        curves = dict(report.curves)
        for trial in range(3):
            peer = report.curves[cell.name, trial, "margin/logistic"]
            curves[cell.name, trial, "ActiveVC"] = Curve(peer.labels, peer.errors + shift)
        assert replace(report, curves=curves).worse("ActiveVC") == worse


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
        ({"methods": {"margin/logistic": ActiveVC()}}, "distinct names"),
        ({"data": ".", "development": "."}, "got both"),
        ({"methods": {}}, "at least one method"),
    ],
)
def test_specifications_that_cannot_be(options, words):
    with pytest.raises(InvalidInput, match=words):
        tiny(**options)


def test_peer_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("observal_research.benchmark.peers.find_spec", lambda package: None)
    assert tiny(peers=None).peers == ()
    with pytest.raises(InvalidInput, match=r"observal\[bench\]"):
        tiny(peers=("margin/forest",))


def test_methods_are_picked_by_name():
    assert list(pick_methods(None)) == ["AutoVC", "NewtonVC"]
    assert list(pick_methods(["CommitteeVC/forest", "NewtonVC"])) == ["CommitteeVC/forest", "NewtonVC"]
    with pytest.raises(InvalidInput, match="no method 'Nobody'"):
        pick_methods(["Nobody"])


@pytest.mark.usefixtures("small_models")
def test_look_at_real_sets_is_to_be_written_down(folder, tables, tmp_path):
    command = ("benchmark", "--jobs", "1")
    common = ("--trials", "1", "--rows", "100", "--methods", "ActiveVC", "--peers", "random/forest")
    real = research(
        *command, *common, "--data", str(folder), "--only", "alpha / certainty", "--out", str(tmp_path / "a")
    )
    assert real.returncode == 0, real.stderr
    assert "benchmarks/LOOKS.md" in real.stderr
    assert "mean test error" in real.stdout
    # A folder in the environment is left alone where development tables are asked for.
    chosen = ("--development", str(tables), "--only", "two / certainty", "--out", str(tmp_path / "b"))
    other = research(*command, *common, *chosen, OBSERVAL_DATA=str(folder))
    assert other.returncode == 0, other.stderr
    assert "LOOKS" not in other.stderr
    assert list(json.loads((tmp_path / "b" / "results.json").read_text(encoding="utf-8"))["cells"]) == [
        "two / certainty"
    ]


def test_looks_has_a_rule_and_every_look_has_a_date_and_a_commit():
    lines = (Path(__file__).parents[1] / "benchmarks" / "LOOKS.md").read_text(encoding="utf-8").splitlines()
    looks = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]
    assert any(line.startswith("**Rule.**") for line in lines)
    assert all(len(look) == 4 and all(look) for look in looks)
