from __future__ import annotations

import numpy as np
import pytest

from observal.errors import InvalidInput
from observal.weights import clip_threshold, effective_sample_size, importance, online_mass, passive_clip_threshold


def test_a_row_that_nothing_could_show_weighs_infinitely():
    assert importance([0.0], n_logged=5).tolist() == [np.inf]
    assert importance([0.0], n_logged=5, n_online=5, online_mass=5.0).tolist() == [2.0]


def test_a_zero_propensity_never_forces_an_infinite_clip():
    threshold = clip_threshold([0.0, 1.0], n_logged=10, seen=0, log_term=1.0)
    assert threshold == pytest.approx(0.5 / 0.2)


def test_the_threshold_jumps_exactly_where_the_paper_example_does():
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
        (lambda: clip_threshold([0.5, 0.6], 5, 0, 1.0, mass=[1.0]), "one probability per propensity"),
        (lambda: online_mass([0.5], 5, [3, 2], seen=[4, 3]), "never-shrinking"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_effective_sample_size():
    assert effective_sample_size(np.ones(7)) == 7
    assert effective_sample_size([]) == 0
    assert 1 < effective_sample_size([100.0, 1.0]) < 1.1


def test_all_is_vectorised_over_ten_thousand_rows():
    q = np.linspace(0, 1, 10_001)
    mass = online_mass(q, 1000, [10, 20, 40])
    assert mass.shape == q.shape
    assert mass[0] == 70
    assert mass[-1] == 0
