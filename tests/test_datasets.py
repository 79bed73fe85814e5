"""Generated and real data, logging policies and splits: values against slow twins, and what each promises."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from observal.errors import InvalidInput, InvalidLabel, InvalidPropensity, UnknownRow
from observal_research.datasets import (
    POLICIES,
    SHIPPED,
    BlindSpot,
    Certainty,
    Dataset,
    Identical,
    Region,
    Scorecard,
    TableOracle,
    Uncertainty,
    Uniform,
    fit_policy,
    list_npz,
    load_npz,
    load_shipped,
    make_blind_spot,
    make_linear,
    simulate,
)
from tests.reference import policies as slow

DATA = make_linear(1200, 8, random_state=5)


def deviation(variance: float, error_rate: float = 1e-4) -> float:
    """How far a sum of independent terms in [−1, 1] can be from its mean, by Bernstein, but for one run in 1/rate."""
    log = math.log(2.0 / error_rate)
    return log / 3.0 + math.sqrt(log**2 / 9.0 + 2.0 * variance * log)


# Generators


@pytest.mark.parametrize("shape", ["triangular", "uniform"])
def test_linear_set_is_what_the_paper_says(shape):
    data = make_linear(random_state=0, shape=shape)
    assert data.X.shape == (6000, 30)
    assert np.abs(data.X).max() <= 1.0
    assert set(data.y.tolist()) == {-1, 1}
    # Each coordinate's variance is 1/3 on the cube and 1/6 for the difference of two uniforms, its mean 0.
    variance = 1 / 3 if shape == "uniform" else 1 / 6
    assert abs(data.X.sum()) < deviation(data.X.size * variance)
    assert np.mean(data.X**2) == pytest.approx(variance, rel=0.02)
    # The separator passes through the centre: both classes are equally likely.
    assert abs(data.y.sum()) < deviation(6000)


def test_linear_labels_are_linear_but_for_the_noise():
    from sklearn.linear_model import LogisticRegression

    clean = make_linear(2000, 5, noise=0.0, random_state=1)
    noisy = make_linear(2000, 5, noise=0.1, random_state=1)
    np.testing.assert_array_equal(clean.X, noisy.X)
    assert LogisticRegression(C=1e6, fit_intercept=False).fit(clean.X, clean.y).score(clean.X, clean.y) > 0.995
    assert abs((clean.y != noisy.y).sum() - 200) < deviation(2000 * 0.09)


@pytest.mark.parametrize("kind", ["expressible", "confidently_wrong"])
@pytest.mark.parametrize("seed", [0, 1])
def test_blind_spot_misleads_a_model_of_the_log(kind, seed):
    from sklearn.linear_model import LogisticRegression

    data = make_blind_spot(kind, random_state=seed)
    inside = data.region(data.X)
    assert abs(inside.sum() - 1500) < deviation(6000 * 3 / 16)
    world = simulate(data, BlindSpot(data.region), random_state=seed)
    logged, shown = world.logged, world.logged.revealed
    test_inside = data.region(world.X_test)
    # Unseen or nearly so: .004 × about 600 rows.
    assert (shown & data.region(logged.X)).sum() < 2.4 + deviation(2.4)
    log_model = LogisticRegression().fit(logged.X[shown], logged.y[shown])
    full_model = LogisticRegression().fit(data.X, data.y)
    log_wrong = log_model.predict(world.X_test) != world.y_test
    full_error = 1.0 - full_model.score(world.X_test, world.y_test)
    assert log_wrong.mean() > full_error + 0.06
    assert log_wrong[~test_inside].mean() < 0.13
    if kind == "expressible":
        assert full_error < 0.09
        assert log_wrong[test_inside].mean() > 0.3
        assert 0.8 < (data.y[inside] == 1).mean() < 0.95
    else:
        assert (data.y[inside] == 1).all()
        assert (log_model.predict(world.X_test[test_inside]) == -1).mean() > 0.8
        # Confidently: most of the rows it gets wrong lie outside the margin.
        assert np.median(np.abs(log_model.decision_function(world.X_test[test_inside]))) > 1.0
        assert full_error < 0.16


@pytest.mark.parametrize("make", [make_linear, make_blind_spot, lambda **k: make_blind_spot("confidently_wrong", **k)])
def test_generators_are_fixed_by_their_seed(make):
    a, b, c = (make(n_rows=50, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    assert not np.array_equal(a.X, c.X)


@pytest.mark.parametrize(
    "call",
    [
        lambda: make_linear(1),
        lambda: make_linear(n_features=0),
        lambda: make_linear(noise=1.5),
        lambda: make_linear(shape="round"),
        lambda: make_blind_spot("odd"),
        lambda: make_blind_spot(n_features=2),
    ],
)
def test_generators_refuse_what_cannot_be(call):
    with pytest.raises(InvalidInput):
        call()


# Records


def test_dataset_checks_and_samples():
    assert len(DATA.sample(100, 0)) == 100
    assert DATA.sample(5000) is DATA
    rows = DATA.sample(100, 0)
    assert {tuple(x) for x in rows.X} <= {tuple(x) for x in DATA.X}
    assert not DATA.X.flags.writeable
    with pytest.raises(InvalidLabel, match="exactly two classes"):
        Dataset([[0.0], [1.0]], [1, 1], "one", "")
    with pytest.raises(InvalidLabel, match="missing"):
        Dataset([[0.0], [1.0], [2.0]], [0, 1, np.nan], "gap", "")
    with pytest.raises(InvalidInput, match="one label for each"):
        Dataset([[0.0], [1.0]], [0, 1, 1], "long", "")
    with pytest.raises(InvalidInput, match="one name for each"):
        Dataset([[0.0], [1.0]], [0, 1], "names", "", feature_names=("a", "b"))


def test_region_refuses_what_it_cannot_read():
    with pytest.raises(InvalidInput, match="conditions"):
        Region(())
    with pytest.raises(InvalidInput, match="conditions"):
        Region(((0, 2, 0.0),))
    with pytest.raises(InvalidInput, match="reads feature 3"):
        Region(((3, 1, 0.0),))(np.zeros((2, 2)))


# Policies


def fitted_plane(seed):
    rows = np.random.default_rng(seed).permutation(1200)[:120]
    return slow.unit_normal(DATA.X[rows].tolist(), DATA.y[rows].tolist())


def test_certainty_equals_its_slow_twin():
    policy, u = Certainty.fit(DATA.X, DATA.y, 7), fitted_plane(7)
    np.testing.assert_allclose(policy.normal, u, rtol=1e-12)
    np.testing.assert_allclose(policy(DATA.X), slow.certainty(u, DATA.X.tolist()), rtol=1e-9)


def test_uncertainty_equals_its_slow_twin():
    policy, u = Uncertainty.fit(DATA.X, DATA.y, 7), fitted_plane(7)
    d = math.sqrt(0.4 / policy.scale)
    assert sum(abs(slow.dot(u, x)) > d for x in DATA.X.tolist()) == 200  # one row in six of 1200
    np.testing.assert_allclose(policy(DATA.X), slow.uncertainty(u, DATA.X.tolist(), d), rtol=1e-9, atol=1e-12)


def test_plane_points_the_way_the_labels_do():
    data = make_linear(random_state=0)
    mean_difference = data.X[data.y == 1].mean(axis=0) - data.X[data.y == -1].mean(axis=0)
    cosine = np.dot(Certainty.fit(data.X, data.y, 0).normal, mean_difference / np.linalg.norm(mean_difference))
    assert cosine > 0.7


def test_standardised_plane_ignores_units_and_constant_columns():
    X = np.column_stack([DATA.X, np.full(1200, 3.0)])
    scaled = X * np.geomspace(1e-3, 1e5, 9) + np.arange(9)
    a = Certainty.fit(X, DATA.y, 0, standardise=True)
    b = Certainty.fit(scaled, DATA.y, 0, standardise=True)
    np.testing.assert_allclose(a(X), b(scaled), rtol=1e-6)


def test_scorecard_equals_its_slow_twin_and_reads_half_of_the_features():
    policy = Scorecard.fit(DATA.X, DATA.y, 2)
    assert len(policy.features) == 4
    expected = slow.scorecard(policy.features, policy.weights, policy.offset, DATA.X.tolist(), policy.propensity_floor)
    np.testing.assert_allclose(policy(DATA.X), expected, rtol=1e-9)
    other = np.setdiff1d(np.arange(8), policy.features)
    changed = DATA.X.copy()
    changed[:, other] = 9.0
    np.testing.assert_array_equal(policy(changed), policy(DATA.X))
    assert np.mean(policy(DATA.X) > 0.5) == pytest.approx(0.3, abs=0.002)
    # An old model, not a random one: who is seen is more often positive.
    assert DATA.y[policy(DATA.X) > 0.5].mean() > DATA.y.mean() + 0.2


def test_uniform_equals_its_slow_twin_and_its_groups_are_equally_likely():
    policy = Uniform(random_state=11)
    X = DATA.X.copy()
    X[::3, 2] = 0.0
    expected = [policy.propensities[slow.group(x, 11, 3)] for x in X.tolist()]
    assert policy(X).tolist() == expected
    big = make_linear(6000, 4, random_state=0).X
    for seed in (0, 1):
        for chance in policy.propensities:
            assert abs((Uniform(random_state=seed)(big) == chance).sum() - 2000) < deviation(6000 * 2 / 9)
    assert (Uniform(random_state=0)(big) != Uniform(random_state=1)(big)).mean() > 0.5
    np.testing.assert_array_equal(policy([[0.0, 1.0]]), policy([[-0.0, 1.0]]))


def test_blind_spot_takes_another_policy_outside():
    region = Region(((0, 1, 0.0), (1, 1, 0.0)))
    outside = Certainty.fit(DATA.X, DATA.y, 0)
    chances = BlindSpot(region, 0.01, outside)(DATA.X)
    inside = (DATA.X[:, 0] > 0) & (DATA.X[:, 1] > 0)
    np.testing.assert_array_equal(chances, np.where(inside, 0.01, outside(DATA.X)))


def test_fit_policy_uses_the_region_of_the_data():
    data = make_blind_spot(n_rows=200, random_state=0)
    assert fit_policy("blind-spot", data) == BlindSpot(data.region)
    assert fit_policy("blind-spot", DATA, 0) == BlindSpot.fit(DATA.X, DATA.y, 0)
    with pytest.raises(InvalidInput, match="no logging policy"):
        fit_policy("oracle", DATA)


@pytest.mark.parametrize("name", POLICIES)
def test_policies_are_plain_data(name):
    policy = POLICIES[name].fit(DATA.X, DATA.y, 3)
    again = POLICIES[name].fit(DATA.X, DATA.y, 3)
    assert policy == again
    assert hash(policy) == hash(again)
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert len(repr(policy)) < 100
    assert type(policy).__name__ in repr(policy)
    chances = policy(DATA.X)
    assert chances.shape == (1200,)
    assert chances.dtype == np.float64
    assert chances.min() > 0.0
    assert chances.max() <= 1.0
    if name != "identical":
        assert policy != POLICIES[name].fit(DATA.X, DATA.y, 4)
        assert len(set(chances.tolist())) > 1


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
def test_policies_take_sparse_rows(name, form):
    X = np.where(DATA.X > 0.2, DATA.X, 0.0)
    policy = POLICIES[name].fit(X, DATA.y, 3)
    from_sparse = POLICIES[name].fit(form(X), DATA.y, 3)
    np.testing.assert_allclose(policy(X), from_sparse(X), rtol=1e-8)
    np.testing.assert_allclose(policy(form(X)), policy(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: Identical(1.5), InvalidPropensity),
        (lambda: Uniform((0.5, -0.1)), InvalidPropensity),
        (lambda: Uniform(()), InvalidInput),
        (lambda: Certainty((), 1.0), InvalidInput),
        (lambda: Certainty((1.0,), float("nan")), InvalidInput),
        (lambda: Uncertainty((1.0,), 1.0, propensity_floor=-1.0), InvalidPropensity),
        (lambda: Certainty((1.0,), 1.0)([[1.0, 2.0]]), InvalidInput),
        (lambda: Scorecard((0, 1), (1.0,), 0.0), InvalidInput),
        (lambda: Scorecard((4,), (1.0,), 0.0)([[1.0, 2.0]]), InvalidInput),
        (lambda: BlindSpot(Region(((0, 1, 0.0),)), inside=2.0), InvalidPropensity),
        (lambda: Certainty.fit(np.zeros((20, 2)), [0, 1] * 10), InvalidInput),
        (lambda: Scorecard.fit(np.ones((20, 2)), [0, 1] * 10), InvalidInput),
        (lambda: BlindSpot.fit(np.ones((20, 2)), [0, 1] * 10), InvalidInput),
        (lambda: Certainty.fit(DATA.X, DATA.y[:5]), InvalidInput),
        (lambda: Certainty.fit(DATA.X, np.zeros(1200)), InvalidLabel),
    ],
)
def test_policies_refuse_what_cannot_be(call, error):
    with pytest.raises(error):
        call()


# Splits


@pytest.mark.parametrize("name", POLICIES)
def test_simulation_reveals_as_often_as_the_policy_says(name):
    data = make_linear(random_state=0)
    policy = fit_policy(name, data, 0)
    for seed in (0, 1):
        logged = simulate(data, policy, seed).logged
        q = logged.propensity
        np.testing.assert_array_equal(q, policy(logged.X))
        # Altogether, and where the propensity is low and where it is high. One run in 10,000 would fail.
        for part in (q >= 0, q <= np.median(q), q >= np.median(q)):
            gap = logged.revealed[part].sum() - q[part].sum()
            assert abs(gap) < deviation(float((q * (1 - q))[part].sum()))


def test_simulation_splits_every_row_once():
    world = simulate(DATA, Identical(0.5), 0)
    assert (len(world.logged), len(world.pool), len(world.y_test)) == (480, 480, 240)
    seen = np.concatenate([world.logged.ids, world.pool.ids])
    assert len(set(seen.tolist())) == 960
    rest = np.setdiff1d(np.arange(1200), seen)
    assert sorted(map(tuple, world.X_test)) == sorted(map(tuple, DATA.X[rest]))
    np.testing.assert_array_equal(world.logged.X, DATA.X[world.logged.ids])
    shown = world.logged.revealed
    np.testing.assert_array_equal(world.logged.y[shown], DATA.y[world.logged.ids][shown])
    np.testing.assert_array_equal(world.oracle(world.pool.ids), DATA.y[world.pool.ids])
    assert "World" in repr(world)
    other = simulate((DATA.X, DATA.y), Identical(0.5), 0)
    np.testing.assert_array_equal(other.logged.ids, world.logged.ids)
    np.testing.assert_array_equal(other.logged.revealed, world.logged.revealed)
    assert not np.array_equal(simulate(DATA, Identical(0.5), 1).logged.ids, world.logged.ids)
    again = pickle.loads(pickle.dumps(world))
    assert again.oracle([world.pool.ids[3]]).tolist() == [DATA.y[world.pool.ids[3]]]


def test_simulation_shares():
    world = simulate(DATA, Identical(1.0), 0, test_size=0.0, log_share=0.25)
    assert (len(world.logged), len(world.pool), len(world.y_test)) == (300, 900, 0)
    assert world.logged.revealed.all()
    for shares in ({"test_size": 1.0}, {"log_share": 0.0}, {"log_share": 1.0}, {"test_size": -0.5}):
        with pytest.raises(InvalidInput, match=r"split|test_size|log_share"):
            simulate(DATA, Identical(1.0), 0, **shares)


def test_simulation_works_where_the_log_shows_one_class_or_none():
    none = simulate(DATA, Identical(0.0), 0)
    assert not none.logged.revealed.any()
    assert none.logged.classes.tolist() == [-1, 1]
    # Only the rows beyond every negative one are shown.
    bound = float(DATA.X[DATA.y == -1, 0].max())
    X, y = np.vstack([DATA.X, np.tile(bound + 1.0, (50, 8))]), np.append(DATA.y, np.ones(50, dtype=int))
    one = simulate((X, y), BlindSpot(Region(((0, -1, bound),)), inside=0.0, outside=1.0), 0)
    assert set(one.logged.y[one.logged.revealed].tolist()) == {1.0}
    assert one.logged.classes.tolist() == [-1, 1]


def test_simulation_with_words_for_labels_and_sparse_rows():
    words = np.where(DATA.y == 1, "yes", "no")
    world = simulate((sparse.csr_matrix(DATA.X), words), Identical(0.3), 0)
    assert world.logged.classes.tolist() == ["no", "yes"]
    assert set(world.logged.y[world.logged.revealed].tolist()) == {"no", "yes"}
    assert set(world.oracle(world.pool.ids).tolist()) == {"no", "yes"}
    assert sparse.issparse(world.X_test)


def test_table_oracle_knows_its_rows_only():
    oracle = TableOracle([5, 7], ["a", "b"])
    assert oracle([7, 5, 7]).tolist() == ["b", "a", "b"]
    assert oracle([]).tolist() == []
    assert repr(oracle) == "TableOracle(2 rows)"
    with pytest.raises(UnknownRow, match="not 6"):
        oracle([6])


# Loaders


def test_npz_is_loaded_by_name_path_and_environment(tmp_path, monkeypatch):
    X, y = np.arange(12, dtype=np.uint8).reshape(6, 2), np.array([0, 1, 0, 1, 1, 0], dtype=np.uint8)
    np.savez(tmp_path / "b.npz", X=X, y=y, names=np.array(["p", "q"]), arm=y)
    observed = np.array([True, True, True, True, True, False])
    np.savez(tmp_path / "a.npz", X=X.astype(np.float32), y=y, label_observed=observed)
    data = load_npz("b", tmp_path)
    assert data.feature_names == ("p", "q")
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    np.testing.assert_array_equal(data.X, X)
    assert len(load_npz(tmp_path / "a.npz")) == 5
    assert len(load_npz("a.npz", tmp_path)) == 5
    assert list_npz(tmp_path) == ("a", "b")
    monkeypatch.setenv("OBSERVAL_DATA", str(tmp_path))
    assert load_npz("b").name == "b"
    assert list_npz() == ("a", "b")
    monkeypatch.delenv("OBSERVAL_DATA")
    with pytest.raises(InvalidInput, match="OBSERVAL_DATA is not set"):
        load_npz("b")
    with pytest.raises(InvalidInput, match="not a folder"):
        list_npz(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="a, b; name one"):
        load_npz("c", tmp_path)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": [["a"], ["b"]], "y": [0, 1]}, "must be numbers"),
        ({"X": [[0.0], [np.nan]], "y": [0, 1]}, "NaN or infinite"),
        ({"X": [[0.0], [1.0]], "y": [0.0, np.nan]}, "missing"),
        ({"X": [[0.0], [1.0]]}, "'y'"),
        ({"X": [[0.0], [1.0]], "y": [0, 1, 1]}, "shapes"),
        ({"X": [[0.0], [1.0]], "y": [1, 1]}, "two classes"),
        ({"X": np.array([[None], [1.0]], dtype=object), "y": [0, 1]}, "plain arrays"),
    ],
)
def test_bad_npz_is_refused_in_words(tmp_path, arrays, words):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InvalidInput, match=words):
        load_npz("bad", tmp_path)


def test_file_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"not an archive")
    with pytest.raises(InvalidInput, match="plain arrays"):
        load_npz("bad", tmp_path)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sets_load_and_take_every_policy(name):
    data = load_shipped(name)
    assert data.classes.tolist() == [0, 1]
    assert len(data) >= 100
    assert len(data.feature_names) == data.X.shape[1]
    for policy in POLICIES:
        options = {"standardise": True} if policy in ("certainty", "uncertainty") else {}
        world = simulate(data, fit_policy(policy, data, 0, **options), 0)
        assert world.logged.classes.tolist() == [0, 1]


def test_unknown_shipped_set_is_refused():
    with pytest.raises(InvalidInput, match="no shipped data set"):
        load_shipped("boston")


def test_importing_datasets_is_cheap():
    code = "import sys, observal_research.datasets; print([m for m in ('sklearn', 'scipy', 'numba', 'pandas') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
