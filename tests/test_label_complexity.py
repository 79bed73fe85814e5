"""observal.paper.label_complexity against hand-computed numbers, brute force and the paper's examples."""

import doctest
import math

import numpy as np
import pytest

import observal.paper.label_complexity as module
from observal.errors import InvalidInput
from observal.paper.disagreement import disagreement_coefficient
from observal.paper.label_complexity import (
    convergence_bound,
    label_complexity_bound,
    label_complexity_bracket,
    label_complexity_rows,
    query_policy_bound,
)
from tests.reference import bounds as twin

E = math.e


def test_examples_run():
    result = doctest.testmod(module)
    assert result.attempted >= 10
    assert result.failed == 0


def test_convergence_by_hand():
    """m = 3, n = 1, log = 1: weights 4/4, 4/2.5 and, above the clip of 2, 4/1."""
    bound = convergence_bound(
        [1.0, 0.5, 0.0],
        [0.4, 0.5, 1.0],
        mass=[0.5, 0.25, 0.25],
        n_logged=3,
        n_online=1,
        n_hypotheses=1,
        delta=1 / E,
        clip=2.0,
        constant=10.0,
    )
    expected = {"second_moment": 10 * math.sqrt(0.05 + 0.05), "range": 5.0, "range_squared": 5.0}
    assert bound.terms == pytest.approx(expected)


def test_convergence_keeps_a_weight_equal_to_the_clip():
    m, n, q = 7, 3, 0.1
    arguments = {"n_logged": m, "n_online": n, "n_hypotheses": 2, "delta": 0.1, "constant": 1.0}
    weight = (m + n) / (m * q + n)
    assert convergence_bound([q], [1.0], clip=weight, **arguments).terms["second_moment"] > 0
    assert convergence_bound([q], [1.0], clip=np.nextafter(weight, 0), **arguments).terms["second_moment"] == 0


def test_convergence_with_epochs_uses_the_confidence_of_the_last():
    arguments = {"n_logged": 50, "n_online": 20, "n_hypotheses": 3, "clip": 2.0, "constant": 1.0}
    with_epochs = convergence_bound([0.5], [0.1], delta=0.1, n_epochs=4, **arguments)
    assert with_epochs == convergence_bound([0.5], [0.1], delta=0.1 / (2 * 5 * 6), **arguments)


def test_query_policy_by_hand_and_both_readings():
    """m = n = 4, Q1 = 0: m·Q0 + n·Q1 is 4 and 2, the printed range has 2 + 4."""
    arguments = {"n_logged": 4, "n_online": 4, "n_hypotheses": 1, "delta": 2 / E}
    derived = query_policy_bound([1.0, 0.5], [1.0, 0.5], [0.0, 0.0], **arguments)
    printed = query_policy_bound([1.0, 0.5], [1.0, 0.5], [0.0, 0.0], reading="printed", **arguments)
    assert derived.terms == pytest.approx({"range": 2 / 3, "second_moment": 1.0})
    assert printed.terms == pytest.approx({"range": 2 / 9, "second_moment": 1.0})


def test_query_policy_where_nothing_is_seen():
    arguments = {"n_logged": 10, "n_online": 5, "n_hypotheses": 2, "delta": 0.1}
    assert query_policy_bound([0.0, 1.0], [1.0, 0.0], [0.0, 0.0], **arguments).total == math.inf
    assert query_policy_bound([0.0, 1.0], [1.0, 0.0], [1.0, 0.0], **arguments).total < math.inf
    unheld = query_policy_bound([0.0, 1.0], [1.0, 0.5], [0.0, 0.0], mass=[0.0, 1.0], **arguments)
    assert unheld.total < math.inf


def test_example_debias():
    """The paper's two bounds for its two points, with c the disagreement on x1 in units of μ."""
    m, n, mu, alpha, c, H, delta = 100_000, 1000, 0.05, 0.0001, 0.5, 10, 0.05
    log = math.log(2 * H / delta)
    propensity, differ, mass = [1.0, alpha], [c * mu / (1 - mu), 1.0], [1 - mu, mu]
    arguments = {"n_logged": m, "n_online": n, "n_hypotheses": H, "delta": delta, "mass": mass}
    first = 4 * log / (3 * (m * alpha + n))
    every = query_policy_bound(propensity, differ, [1.0, 1.0], **arguments)
    corrected = query_policy_bound(propensity, differ, [0.0, 1.0], **arguments)
    assert every.total == pytest.approx(first + math.sqrt(4 * log * (c * mu / (m + n) + mu / (m * alpha + n))))
    assert corrected.total == pytest.approx(first + math.sqrt(4 * log * (c * mu / m + mu / (m * alpha + n))))


CASE = {"n_logged": 100, "min_propensity": 0.1, "noise": 0.2, "n_hypotheses": 6, "delta": 0.1}


def test_bracket_by_hand():
    """n = 40, α = 2.5, αq0 + 1 = 1.25; the ratios are 2·20/110 and 3·50/140, and the larger counts."""
    log, xi = math.log(60 * math.log(40)), 150 / 140
    assert label_complexity_bracket([2.0, 3.0], [10, 40], **CASE).terms == pytest.approx(
        {
            "noise": 8.0,
            "second_moment": math.sqrt(8 * xi / 1.25 * log),
            "range_squared": 3 * xi * math.log(40) / 10 * math.sqrt(log),
            "range": xi * math.log(40) / 1.25 * log,
        }
    )


def test_ratio_is_at_most_two_when_the_clip_is_twice_the_largest_weight():
    seen = np.array([10.0, 40.0])
    clips = 2 * (100 + seen) / (10 + seen)
    bracket = label_complexity_bracket(clips, seen, **CASE)
    log = math.log(60 * math.log(40))
    assert bracket.terms["range"] == pytest.approx(2 * math.log(40) / 1.25 * log)


def test_label_complexity_adds_what_the_proof_adds():
    bracket = label_complexity_bracket([2.0, 3.0], [10, 40], **CASE)
    bound = label_complexity_bound([2.0, 3.0], [10, 40], **CASE, theta_tilde=1.5, constant=4.0)
    tails = 2 * 2 * math.log(4 / (0.1 / 24))
    assert bound.total == pytest.approx(6 * bracket.total + 10 + tails)
    assert bound.terms["tails"] == pytest.approx(tails)


def test_rows_by_hand():
    rows = label_complexity_rows(
        noise=0.2,
        excess=0.1,
        size_ratio=3.0,
        min_propensity=0.5,
        clip=1.2,
        clipped_second_moment=0.03,
        second_moment=0.05,
        theta_tilde=1.0,
        theta=2.0,
        theta_prime=4.0,
        log_hypotheses=5.0,
    )
    assert list(rows) == [
        "full",
        "no_clip",
        "no_regulariser",
        "no_bias_correction",
        "no_multiple_importance",
        "no_disagreement",
        "active18",
    ]
    plain = 4 + 100 * 0.2 * 3.5 / (16 * 0.5)
    expected = [1 * (3 + 3), 1 * (4 + 5), 1 * (10 + 20) * 0.4, 2 * 30 * 0.4, 2 * plain, 5 * plain, 4 * 30 * 0.4]
    assert list(rows.values()) == pytest.approx(expected)


def _thresholds(n_points):
    return np.where(np.arange(n_points) >= np.arange(n_points + 1)[:, None], 1, -1)


def test_coefficient_of_thresholds_is_two_and_one_at_the_edge():
    assert disagreement_coefficient(_thresholds(10), None, best=5) == pytest.approx(2.0)
    assert disagreement_coefficient(_thresholds(10), None, best=0) == pytest.approx(1.0)
    assert disagreement_coefficient(_thresholds(10), None, best=5, radius=0.35) == pytest.approx(0.6 / 0.35)
    assert disagreement_coefficient(_thresholds(10), None, best=5, radius=0.05) == 0.0


def test_radius_equal_to_a_distance_is_inside_despite_rounding():
    assert disagreement_coefficient(_thresholds(10), None, best=5, radius=0.3) == pytest.approx(2.0)


def test_supremum_just_above_twice_the_noise():
    """Distances 0.1, 0.2, …: above r = 0.25 the region is 0.4 until 0.3, so the limit 0.4/0.25 loses to 0.6/0.3; at the
    far end, above 0.5 and best in the middle, everything is inside and the limit 1/(2ν) is approached."""
    assert disagreement_coefficient(_thresholds(10), None, best=5, noise=0.125) == pytest.approx(2.0)
    assert disagreement_coefficient(_thresholds(10), None, best=5, noise=0.4) == pytest.approx(1 / 0.8)


def test_distance_of_exactly_twice_the_noise_counts_in_the_limit():
    assert disagreement_coefficient([[-1, -1], [1, -1]], None, best=0, noise=0.25) == 1.0


def test_class_of_singletons_has_a_coefficient_of_its_size():
    predictions = np.vstack([-np.ones(8), 2 * np.eye(8) - 1]).astype(int)
    assert disagreement_coefficient(predictions, None, best=0) == pytest.approx(8.0)
    assert disagreement_coefficient(predictions[:1], None, best=0) == 0.0


def test_modified_coefficient_counts_only_where_questions_are_asked():
    """2n/m = 0.2: points with Q0 ≤ 0.2 count. The printed n/(2m) = 0.05 counts fewer."""
    propensity = np.array([0.05, 0.1, 0.15, 0.2, 0.2, 0.5, 0.5, 1.0, 1.0, 1.0])
    arguments = {"mass": None, "best": 5, "propensity": propensity}
    asked = disagreement_coefficient(_thresholds(10), **arguments, n_logged=1000, n_online=100)
    assert asked == pytest.approx(1.0)
    assert disagreement_coefficient(_thresholds(10), **arguments, max_propensity=0.05) == pytest.approx(0.2)
    everything = disagreement_coefficient(_thresholds(10), **arguments, n_logged=10, n_online=100)
    assert everything == pytest.approx(2.0)


def test_supremum_equals_a_fine_grid():
    rng = np.random.default_rng(3)
    predictions = rng.choice([-1, 1], size=(12, 7))
    mass = rng.dirichlet(np.ones(7))
    propensity = rng.uniform(size=7)
    for noise in (0.0, 0.1, 0.3):
        exact = disagreement_coefficient(
            predictions, mass, best=4, noise=noise, propensity=propensity, max_propensity=0.6
        )
        grid = np.linspace(2 * noise, 1.0, 2001)[1:]
        values = [twin.disagreement_probability(predictions, mass, 4, r, propensity, 0.6) / r for r in grid]
        assert max(values) <= exact * (1 + 1e-9)
        step = grid[1] - grid[0]
        peak = grid[int(np.argmax(values))]
        assert exact <= max(values) * (1 + step / (peak - step) + 1e-9)


ROWS = {
    "noise": 0.2,
    "excess": 0.1,
    "size_ratio": 3.0,
    "min_propensity": 0.5,
    "clip": 1.2,
    "clipped_second_moment": 0.03,
    "second_moment": 0.05,
    "theta_tilde": 1.0,
    "theta": 2.0,
    "theta_prime": 4.0,
    "log_hypotheses": 5.0,
}
SIZES = {"n_logged": 10, "n_online": 5, "n_hypotheses": 2, "delta": 0.1}
LINE = _thresholds(3)
BAD = [
    (lambda: convergence_bound([0.5], [0.1], **SIZES, clip=0.5, constant=1.0), "clip threshold"),
    (lambda: convergence_bound([0.5], [0.1], **SIZES, clip=2.0, constant=0.0), "constant"),
    (lambda: convergence_bound([1.5], [0.1], **SIZES, clip=2.0, constant=1.0), "propensities"),
    (lambda: convergence_bound([0.5], [0.1, 0.2], **SIZES, clip=2.0, constant=1.0), "chance of a mistake"),
    (lambda: convergence_bound([0.5], [0.1], **SIZES, clip=2.0, constant=1.0, mass=[0.5]), "sum to 1"),
    (lambda: convergence_bound([], [], **SIZES, clip=2.0, constant=1.0), "needs points"),
    (lambda: query_policy_bound([0.5], [0.1], [2.0], **SIZES), "query probability"),
    (lambda: query_policy_bound([0.5], [-0.1], [1.0], **SIZES), "disagreement"),
    (lambda: query_policy_bound([0.5], [0.1], [1.0], **SIZES, reading="both"), "reading"),
    (lambda: query_policy_bound([0.5], [0.1], [1.0], **{**SIZES, "n_logged": 0, "n_online": 0}), "needs data"),
    (lambda: label_complexity_bracket([2.0], [1, 4], **CASE), "shapes"),
    (lambda: label_complexity_bracket([], [], **CASE), "shapes"),
    (lambda: label_complexity_bracket([0.5], [4], **CASE), "Clip thresholds"),
    (lambda: label_complexity_bracket([2.0, 2.0], [4, 4], **CASE), "must grow"),
    (lambda: label_complexity_bracket([2.0], [2], **CASE), "at least 3"),
    (lambda: label_complexity_bracket([2.0], [4], **{**CASE, "noise": 1.1}), "noise"),
    (lambda: label_complexity_bound([2.0], [4], **CASE, theta_tilde=-1.0, constant=1.0), "coefficient"),
    (lambda: label_complexity_bound([2.0], [4], **CASE, theta_tilde=1.0, constant=0.0), "constant"),
    *((lambda name=name: label_complexity_rows(**{**ROWS, name: -1.0}), "must be") for name in ROWS),
    (lambda: label_complexity_rows(**{**ROWS, "excess": 0.0}), "excess"),
    (lambda: disagreement_coefficient([[0, 1]], None, best=0), "Predictions"),
    (lambda: disagreement_coefficient([1, -1], None, best=0), "Predictions"),
    (lambda: disagreement_coefficient(LINE, None, best=4), "best classifier"),
    (lambda: disagreement_coefficient(LINE, [0.5, 0.5], best=0), "mass"),
    (lambda: disagreement_coefficient(LINE, None, best=0, radius=0.0), "radius"),
    (lambda: disagreement_coefficient(LINE, None, best=0, noise=-0.1), "noise"),
    (lambda: disagreement_coefficient(LINE, None, best=0, propensity=0.5), "both sample sizes"),
    (lambda: disagreement_coefficient(LINE, None, best=0, max_propensity=0.5), "needs propensities"),
]


@pytest.mark.parametrize(("call", "word"), BAD)
def test_bad_input_is_one_clear_sentence(call, word):
    with pytest.raises(InvalidInput, match=word) as caught:
        call()
    message = str(caught.value)
    assert message.endswith(".")
    assert "but" in message
