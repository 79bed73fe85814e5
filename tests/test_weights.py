from __future__ import annotations

import numpy as np
import pytest

from observal.errors import InvalidInput, InvalidPropensity
from observal.paper.weights import (
    clip_threshold,
    effective_sample_size,
    importance,
    online_mass,
    passive_clip_threshold,
    plain_importance,
    practical_clip_threshold,
    query_policy,
)


def test_row_that_nothing_could_show_weighs_infinitely():
    assert importance([0.0], n_logged=5).tolist() == [np.inf]
    assert importance([0.0], n_logged=5, n_online=5, online_mass=5.0).tolist() == [2.0]


def test_zero_propensity_never_forces_an_infinite_clip():
    threshold = clip_threshold([0.0, 1.0], n_logged=10, seen=0, log_term=1.0)
    assert threshold == pytest.approx(0.5 / 0.2)


def test_threshold_jumps_exactly_where_the_paper_example_does():
    # Example "clipping": x1 and x2 (mass 5ε, Q0 = α) stop being clipped at m = 2·log(400)/(5αε), read off the definition.
    alpha, nu = 0.005, 0.05
    epsilon = nu / (1 + 1 / (100 * alpha))
    propensity = [1.0, alpha, alpha, 4 * alpha, 4 * alpha]
    mass = [nu - epsilon, epsilon, 4 * epsilon, 16 * epsilon, 1 - nu - 20 * epsilon]
    switch = 2 * np.log(400) / (5 * alpha * epsilon)
    before = passive_clip_threshold(propensity, int(switch) - 1, np.log(400), mass)
    after = passive_clip_threshold(propensity, int(switch) + 2, np.log(400), mass)
    assert before < 1 / alpha
    assert after == 1 / alpha


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clip_threshold([], 5, 0, 1.0), "at least one propensity"),
        (lambda: clip_threshold([0.5, 1.5], 5, 0, 1.0), r"in \[0, 1\]"),
        (lambda: clip_threshold([0.5, np.nan], 5, 0, 1.0), r"in \[0, 1\]"),
        (lambda: clip_threshold([0.5, 0.6], 5, 0, 1.0, mass=[0.5, 0.6]), "sum to 1"),
        (lambda: clip_threshold([0.5, 0.6], 5, 0, 1.0, mass=[1.0]), "one number in .* for each of the 2 points"),
        (lambda: clip_threshold([0.5, 0.6], 5, 0, 1.0, mass=[0.5, np.nan]), "mass must be in .* but values from nan"),
        (lambda: online_mass([0.5], 5, [3, 2], seen=[4, 3]), "never-shrinking"),
        (lambda: online_mass([0.5], 5, [3, 2], seen=[-4, 3]), "total ≥ 0"),
        (lambda: online_mass([0.5], 5, [3, np.nan]), "sizes ≥ 0"),
        (lambda: online_mass([0.5], 5, [3], seen=[3, 4]), "one never-shrinking total"),
        (lambda: online_mass([0.5], -5, [3, 2]), "logged rows must be at least 0"),
        (lambda: query_policy([0.5], -5, 1), "logged rows must be at least 0"),
        (lambda: query_policy([0.5], 5, -1), "online rows must be at least 0"),
        (lambda: query_policy([0.5], 5, np.nan), "online rows must be at least 0"),
        (lambda: importance([0.5], -5), "logged rows must be at least 0"),
        (lambda: importance([0.5], 5, -1), "online rows must be at least 0"),
        (lambda: importance([0.5], 0), "needs rows"),
        (lambda: importance([0.5], 5, 5, [-1.0]), "`online_mass` must be at least 0 and finite, but values from -1.0"),
        (lambda: importance([0.5, 0.5], 5, 5, [np.nan, 1.0]), "`online_mass` must be at least 0 and finite"),
        (lambda: importance([0.5], 5, 5, np.inf), "`online_mass` must be at least 0 and finite"),
        (lambda: clip_threshold([0.5], 0, 0, 1.0), "needs rows"),
        (lambda: clip_threshold([0.5], -5, 10, 1.0), "logged rows must be at least 0"),
        (lambda: clip_threshold([0.5], 10, -5, 1.0), "online rows must be at least 0"),
        (lambda: clip_threshold([0.5], 5, 0, -1.0), "log term must be at least 0 and finite, but is -1.0"),
        (lambda: clip_threshold([0.5], 5, 0, np.nan), "log term must be at least 0"),
        (lambda: passive_clip_threshold([0.5], 0, 1.0), "logged rows must be at least 1"),
        (lambda: passive_clip_threshold([0.5], 5, -1.0), "log term must be at least 0"),
        (lambda: passive_clip_threshold([0.5], 5, np.nan), "log term must be at least 0"),
        (lambda: practical_clip_threshold([0.5], 0, 0, 1.0), "needs rows"),
        (lambda: practical_clip_threshold([0.5], 5, -1, 1.0), "online rows must be at least 0"),
        (lambda: practical_clip_threshold([0.5], 5, 0, 0.0), "clip constant must be above 0"),
        (lambda: practical_clip_threshold([0.5], 5, 0, -1.0), "clip constant must be above 0"),
        (lambda: practical_clip_threshold([0.5], 5, 0, np.nan), "clip constant must be above 0"),
        (lambda: effective_sample_size([np.inf, 1.0]), "at least 0 and finite, but values from 1.0 to inf were seen"),
        (lambda: effective_sample_size([np.nan, 1.0]), "at least 0 and finite"),
        (lambda: effective_sample_size([-1.0, 1.0]), "at least 0 and finite, but values from -1.0"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize("chances", [[-1.0, 0.5], [0.5, 1.5], [-1.0, np.nan], [0.5, np.nan], [np.inf], -0.5])
@pytest.mark.parametrize(
    "call",
    [
        lambda q: importance(q, 100, 50, 10.0),
        plain_importance,
        lambda q: query_policy(q, 100, 10),
        lambda q: online_mass(q, 100, [2, 8]),
        lambda q: clip_threshold(q, 100, 10, 1.0),
        lambda q: passive_clip_threshold(q, 100, 1.0),
        lambda q: practical_clip_threshold(q, 100, 10, 1.0),
    ],
)
def test_chance_outside_0_to_1_is_refused(call, chances):
    with pytest.raises(InvalidPropensity, match=r"Propensities must be in \[0, 1\], but values from "):
        call(chances)


def test_what_is_odd_but_right_is_accepted():
    assert plain_importance([0.0, 1.0]).tolist() == [np.inf, 1.0]
    assert plain_importance([5e-324]).tolist() == importance([5e-324], 5).tolist() == [np.inf]
    assert plain_importance([]).size == importance([], 5).size == query_policy([], 5, 1).size == 0
    assert importance([0.5], 0, 10, 5.0).tolist() == [2.0]  # queries alone, no log
    assert query_policy([0.0, 0.5], 0, 1).tolist() == [True, True]
    # A log term of 0 leaves no room for a clipped row: the threshold is the largest weight.
    assert passive_clip_threshold([0.25, 0.5], 10, 0.0) == 4.0
    assert passive_clip_threshold([0.0, 0.5], 10, 0.0) == np.inf


def test_effective_sample_size():
    assert effective_sample_size([0.0, 0.0]) == 0
    assert (
        effective_sample_size([1e200, 1e200]) == effective_sample_size([1e-200, 1e-200]) == 2
    )  # no over- or underflow
    assert effective_sample_size(np.ones(7)) == 7
    assert effective_sample_size([]) == 0
    assert 1 < effective_sample_size([100.0, 1.0]) < 1.1


def test_all_is_vectorised_over_ten_thousand_rows():
    q = np.linspace(0, 1, 10_001)
    mass = online_mass(q, 1000, [10, 20, 40])
    assert mass.shape == q.shape
    assert mass[0] == 70
    assert mass[-1] == 0
