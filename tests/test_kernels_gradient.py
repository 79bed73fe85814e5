"""The gradient kernel by hand-checked cases, and the running second-moment sum against the figure's sampled one."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

from observal.paper.kernels.gradient import HEAVY_ROWS, _heaviest, descend, flip_gaps, one_minus_exp, second_moment_sums
from tests.reference import gradient as slow


def test_one_step_by_hand():
    # p = 0, t = 3, step = sqrt(1/4), s = 4, e = 3·½·4 = 6
    X, y, weight = np.array([[2.0, 0.0]]), np.array([1.0]), np.array([3.0])
    got = descend(X, y, weight, [0], np.zeros(2), learning_rate=1.0, passes=1)
    np.testing.assert_allclose(got, [(1 - np.exp(-6.0)) / 4 * 2 * 2, 0.0], rtol=1e-14)
    exact = descend(X, y, weight, [0], np.zeros(2), learning_rate=1.0, passes=1, exact_invariance=True)
    np.testing.assert_allclose(exact, [(1 - np.exp(-12.0)) / 8 * 2 * 2, 0.0], rtol=1e-14)
    # Alone in use, the row's own loss is the whole sum: step · (1 + sqrt(c)), here ½·(1 + 2)
    regular = descend(X, y, weight, [0], np.zeros(2), learning_rate=1.0, passes=1, second_moment=4.0)
    np.testing.assert_allclose(regular, [(1 - np.exp(-18.0)) / 4 * 2 * 2, 0.0], rtol=1e-14)


def test_prediction_is_clamped():
    got = descend(np.array([[1.0]]), np.array([1.0]), np.ones(1), [0], np.array([5.0]), learning_rate=1.0, passes=1)
    assert got == [5.0]


def test_one_minus_exp_is_right_to_the_last_places():
    e = np.concatenate([[0.0, np.inf], 10.0 ** np.linspace(-12, 3, 300)])
    np.testing.assert_allclose([one_minus_exp(each) for each in e], -np.expm1(-e), rtol=1e-15)


@pytest.mark.parametrize("second_moment", [0.0, 0.5])
@pytest.mark.parametrize("n_rows", [1, 3, 32, 39])
def test_any_number_of_rows_agrees_with_the_twin(n_rows, second_moment):
    rng = np.random.default_rng(n_rows)
    X, importance = rng.normal(size=(n_rows, 7)), rng.exponential(size=n_rows)
    y, start = np.where(rng.random(n_rows) < 0.5, 1.0, -1.0), rng.normal(size=7)
    epoch = {"learning_rate": 0.5, "second_moment": second_moment, "passes": 2}
    want = slow.train_epoch(X, y, importance, np.arange(n_rows), start, **epoch)
    np.testing.assert_allclose(descend(X, y, importance, np.arange(n_rows), start, **epoch), want, rtol=1e-12)


def test_pass_j_starts_at_its_own_time():
    X, y, weight = np.array([[1e-3]]), np.array([1.0]), np.array([1.0])
    order = np.zeros(100, dtype=np.int64)
    one, two = (
        descend(X, y, weight, order, np.zeros(1), learning_rate=2.0, time=10.0, passes=passes)[0] for passes in (1, 2)
    )
    again = descend(X, y, weight, order, np.array([one]), learning_rate=2.0, time=110.0, passes=1)[0]
    assert two == pytest.approx(again, rel=1e-12)  # the second pass starts where 100 rows have gone by
    assert two != pytest.approx(2 * one, rel=0.1)


@pytest.mark.parametrize("second_moment", [0.0, 1.0])
def test_rows_above_the_clip_are_as_if_absent(rng_data, second_moment):
    X, y, importance, order = rng_data
    clip = float(np.sort(importance)[300])
    epoch = {"learning_rate": 0.1, "passes": 1, "second_moment": second_moment}
    got = descend(X, y, importance, order, np.zeros(30), clip=clip, **epoch)
    kept = order[importance[order] <= clip]
    assert kept.size == 301  # the row at the clip counts
    assert (got == descend(X, y, importance, kept, np.zeros(30), **epoch)).all()


@pytest.fixture
def rng_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 30))
    return X, np.sign(X @ rng.normal(size=30)), rng.exponential(size=500), rng.permutation(500)


def test_weight_zero_and_zero_rows_change_nothing(rng_data):
    X, y, importance, order = rng_data
    start = np.full(30, 0.1)
    assert (descend(X, y, 0.0 * importance, order, start, learning_rate=1.0, second_moment=1.0) == start).all()
    assert (descend(0.0 * X, y, importance, order, start, learning_rate=1.0, second_moment=1.0) == start).all()


def test_nothing_to_train_on_returns_the_start():
    X, start = np.ones((2, 1)), np.array([0.5])
    for second_moment in (0.0, 1.0):
        for order, importance in (([], [1.0, 1.0]), ([0, 1], [9.0, np.inf])):
            epoch = {"learning_rate": 1.0, "clip": 5.0, "second_moment": second_moment}
            assert descend(X, [1, 1], np.array(importance), order, start, **epoch) == start
            assert descend(sp.csr_array(X), [1, 1], np.array(importance), order, start, **epoch) == start


def test_infinite_weight_is_skipped_even_without_a_clip():
    got = descend(np.ones((2, 1)), [1, -1], np.array([np.inf, 0.0]), [0, 1], np.zeros(1), learning_rate=1.0)
    assert got == [0.0]


@pytest.mark.parametrize("second_moment", [0.0, 1.0])
def test_dense_sparse_and_narrow_rows_agree(rng_data, second_moment):
    X, y, importance, order = rng_data
    X = np.where(np.abs(X) > 0.7, X, 0.0).astype(np.float32)
    epoch = {"learning_rate": 0.1, "second_moment": second_moment}
    wide = descend(X.astype(np.float64), y, importance, order, np.zeros(30), **epoch)
    for rows in (X, sp.csr_array(X), sp.csr_matrix(X.astype(np.float64)), np.asfortranarray(X)):
        np.testing.assert_allclose(descend(rows, y, importance, order, np.zeros(30), **epoch), wide, rtol=1e-10)


def test_equal_arguments_give_equal_bits_in_threads_and_processes(rng_data):
    X, y, importance, order = rng_data
    expected = descend(X, y, importance, order, np.zeros(30), learning_rate=0.1, second_moment=1.0)
    found = []

    def work():
        found.append(descend(X.copy(), y, importance, order, np.zeros(30), learning_rate=0.1, second_moment=1.0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((weights == expected).all() for weights in found)
    code = """if True:
        import numpy as np
        from observal.paper.kernels.gradient import descend
        rng = np.random.default_rng(0)
        X = rng.normal(size=(500, 30))
        y, v, order = np.sign(X @ rng.normal(size=30)), rng.exponential(size=500), rng.permutation(500)
        print(descend(X, y, v, order, np.zeros(30), learning_rate=0.1, second_moment=1.0).tobytes().hex())"""
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == expected.tobytes().hex()


def test_heaviest_takes_the_first_of_equal_weights():
    weights = np.ones(200)
    weights[[150, 199, 3]] = 5.0
    assert _heaviest(weights).tolist() == [*range(HEAVY_ROWS - 2), 150, 199]
    assert _heaviest(np.ones(3)).tolist() == [0, 1, 2]


def test_flip_gaps_and_sums_by_hand():
    X = np.array([[1.0, 1.0], [0.0, 0.0], [2.0, 0.0]])
    coef = np.array([1.0, -2.0])
    assert flip_gaps(coef, X, 0.5).tolist() == [2.0 / (0.5 * 2.0), np.inf, 4.0 / (0.5 * 4.0)]
    # w·x = −1, 0 (counts as −1), 2
    assert second_moment_sums(coef, X, [1, 1, 1], np.array([2.0, 3.0, 9.0])) == (5.0, 13.0)
    assert second_moment_sums(coef, X, [1, 1, -1], np.array([2.0, 3.0, 3.5]), clip=3.0) == (5.0, 13.0)
    assert second_moment_sums(coef, sp.csr_array(X), [1, -1, 1], np.array([2.0, 3.0, 9.0])) == (2.0, 4.0)


def logged_rows(policy, seed):
    """The figure's data after 1,500 online rows: features, labels, multiple-importance weights, order; test rows last."""
    rng = np.random.default_rng(seed)
    X = rng.random((6000, 30)) - rng.random((6000, 30))
    normal = rng.normal(size=30)
    y = np.where(X @ normal > 0, 1.0, -1.0) * np.where(rng.random(6000) < 0.05, -1.0, 1.0)
    side = X @ (normal / np.linalg.norm(normal) + 0.3 * rng.normal(size=30) / np.sqrt(30))
    if policy == "certainty":
        propensity = np.clip(0.3 / np.median(np.abs(side)) ** 2 * side**2, 1e-5, 1.0)
    else:
        propensity = np.clip(1.0 - 0.4 / np.quantile(np.abs(side), 5 / 6) ** 2 * side**2, 1e-5, 1.0)
    m, n = 2400, 1500
    corrected = 2 * n > m * propensity
    importance = (m + n) / (m * propensity + n * corrected)
    shown = np.flatnonzero(rng.random(m) < propensity[:m])
    online = m + np.flatnonzero(corrected[m : m + n])
    return X, y, importance, rng.permutation(np.concatenate([shown, online]))


def compare_estimates(policy, learning_rate, second_moment, seed, warm=True):
    """Train the figure's rows with the exact, sampled and running second-moment sum; return how far each is off.

    For each estimate: the median over the steps of |estimate/exact − 1|, the distance of the final weights from those
    of the exact sum (relative), and the test error.
    """
    X, y, importance, order = logged_rows(policy, seed)
    epoch = {"learning_rate": learning_rate, "second_moment": second_moment}
    start, time = np.zeros(30), 0.0
    if warm:  # as all epochs but the first: from the weights of the one before
        start, time = descend(X, y, importance, order[:800], start, learning_rate=learning_rate), 2400.0
    report, exact = {}, None
    for estimate in ("exact", "sampled", "running"):
        trace = []
        rng = np.random.default_rng(seed)
        coef = slow.train_epoch(
            X, y, importance, order, start, time=time, estimate=estimate, rng=rng, trace=trace, **epoch
        )
        exact = coef if exact is None else exact
        found, true = np.array(trace).T
        report[estimate] = (
            float(np.median(np.abs(found / true - 1.0))),
            float(np.linalg.norm(coef - exact) / np.linalg.norm(exact)),
            float(np.mean((X[4800:] @ coef > 0) != (y[4800:] > 0))),
        )
    return report


@pytest.mark.parametrize("policy", ["certainty", "uncertainty"])
@pytest.mark.parametrize(("learning_rate", "second_moment"), [(0.0064, 10.24), (0.1, 0.64)])
def test_running_sum_is_as_good_as_the_sampled_one(policy, learning_rate, second_moment):
    # The running sum's constants were chosen on seeds 0 to 2; the slow test below looks at seeds 10 to 15. From a warm
    # start it found the running sum 0.4 to 4.0 % off, the sampled one 4.7 to 11.7 %, and closer weights in 36 of 36 runs.
    report = compare_estimates(policy, learning_rate, second_moment, seed=10)
    off, distance, error = report["running"]
    assert off < report["sampled"][0], report
    assert off < 0.05, report
    assert distance < report["sampled"][1], report
    assert abs(error - report["exact"][2]) <= 2 / 1200, report


@pytest.mark.parametrize("policy", ["certainty", "uncertainty"])
def test_running_sum_leads_to_the_same_weights_from_a_cold_start(policy):
    # The hardest case: from zero weights the table is stale until the first pass has renewed it.
    # Seeds 10 to 15: under the certainty policy the weights are as close as with the sampled sum (closer on 3 of 6).
    report = compare_estimates(policy, 0.1, 0.64, seed=10, warm=False)
    _, distance, error = report["running"]
    assert distance < max(report["sampled"][1], 0.002), report
    assert abs(error - report["exact"][2]) <= 3 / 1200, report


@pytest.mark.slow
def test_running_sum_over_all_seeds_policies_and_settings():
    """72 runs on seeds that chose nothing: 10 to 15 × 2 policies × 3 settings of the figure's grid, warm and cold.

    The seeds are fixed, so nothing here can fail by chance; the margins are for other builds of numpy. What
    docs/reproduction.md quotes is printed (pytest -s).
    """
    runs = [
        (warm, compare_estimates(policy, learning_rate, second_moment, seed, warm))
        for warm in (True, False)
        for policy in ("certainty", "uncertainty")
        for learning_rate, second_moment in ((0.0064, 10.24), (0.0256, 2.56), (0.1, 0.64))
        for seed in range(10, 16)
    ]
    starts = np.array([warm for warm, _ in runs])
    running, sampled, exact = (np.array([run[name] for _, run in runs]) for name in ("running", "sampled", "exact"))
    closer = running[:, 1] < sampled[:, 1]
    for name, of in (("warm", starts), ("cold", ~starts), ("all", starts | ~starts)):
        print(
            f"{name}: median relative error, running {100 * running[of, 0].min():.2f} to "
            f"{100 * running[of, 0].max():.2f} %, sampled {100 * sampled[of, 0].min():.2f} to "
            f"{100 * sampled[of, 0].max():.2f} %; weights closer in {closer[of].sum()} of {of.sum()}; test error off by "
            f"at most {100 * np.abs(running - exact)[of, 2].max():.2f} (running) and "
            f"{100 * np.abs(sampled - exact)[of, 2].max():.2f} (sampled) points"
        )
    assert len(runs) == 72
    assert (running[:, 0] < sampled[:, 0]).all()
    assert running[:, 0].max() < 0.06
    assert closer.sum() >= 60
