"""observal.paper.bounds against hand-computed numbers, its slow twin, and the exact tails that its proofs rest on."""

import doctest
import math
import pickle

import numpy as np
import pytest
from scipy import stats

import observal.paper.bounds as module
from observal.errors import InvalidInput
from observal.paper.bounds import (
    Bound,
    candidate_slack,
    certified_gamma,
    clipped_erm_bound,
    deviation_bound,
    difference_bound,
    epoch_confidence,
    general_erm_bound,
    log_term,
    safe_erm_bound,
    second_moment_deviation,
    second_moment_erm_bound,
)
from tests.reference import bounds as twin

E = math.e


def test_examples_run():
    result = doctest.testmod(module)
    assert result.attempted >= 12
    assert result.failed == 0


def test_bound_is_the_sum_of_its_terms_and_pickles():
    bound = Bound({"a": 1.0, "b": 2.5})
    assert bound.total == 3.5 == float(bound)
    assert pickle.loads(pickle.dumps(bound)) == bound
    with pytest.raises(TypeError):
        float(Bound({"a": np.array([1.0, 2.0])}))


def test_bound_keeps_its_own_terms():
    terms = {"a": 1.0}
    bound = Bound(terms)
    terms["a"] = 9.0
    assert bound.terms == {"a": 1.0}


def test_log_term_by_hand_and_without_overflow():
    assert log_term(1, 1 / E) == pytest.approx(1.0)
    assert log_term(2**5000, 0.5) == pytest.approx(5001 * math.log(2))


def test_epoch_confidences_sum_to_half_of_delta():
    assert epoch_confidence(0.6, 0) == pytest.approx(0.15)
    assert epoch_confidence(0.6, 2) == pytest.approx(0.6 / 24)
    assert sum(epoch_confidence(0.1, k) for k in range(100_000)) == pytest.approx(0.05, rel=1e-4)


def test_certified_gamma_by_hand():
    assert certified_gamma(1, 1 / 6) == pytest.approx(44 / 3)  # log 6 / log 6 = 1
    assert certified_gamma(10**300, 0.5) == pytest.approx(22 / 3, rel=3e-3)


def test_certified_gamma_is_the_composition_of_the_two_lemmas():
    """At δ/3 each, the composed bound is (22/3)·M·L'/N + 2·M²·sqrt(L')/N^1.5 + 2·sqrt(L'·V̂/N), below γ1·(...)."""
    M, N, H, delta = 3.0, 50.0, 7, 0.1
    log = math.log(6 * H / delta)
    for V_hat in (0.0, 0.3, 3.0):
        explicit = 22 / 3 * M * log / N + 2 * M**2 * math.sqrt(log) / N**1.5 + 2 * math.sqrt(log * V_hat / N)
        assert twin.cor_gen_composed(M, N, H, delta, V_hat) == pytest.approx(explicit)
        assert difference_bound(M, N, H, delta, V_hat).total >= explicit
    # where M·L/N dominates the certified constant is not loose: nothing below (22/3)·ρ would do
    tight = twin.cor_gen_composed(1e-6, 1.0, H, delta, 0.0) / (1e-6 * log_term(H, delta))
    assert tight == pytest.approx(certified_gamma(H, delta), rel=1e-5)


def test_candidate_slack_is_the_appendix_and_not_the_box():
    first, second = candidate_slack(clip=10.0, n_rows=100.0, log_term=9.0)
    assert first == pytest.approx(0.9 + 0.3)  # the box would give 0.9 + 0.9
    assert second == pytest.approx(0.09)


def test_deviation_by_hand():
    bound = deviation_bound(3.0, 10, n_hypotheses=1, delta=2 / E, second_moment=2.5)  # log(2|H|/δ) = 1
    assert bound.terms == pytest.approx({"range": 1.0, "second_moment": 1.0})
    assert second_moment_deviation(3.0, 9, 1, 2 / E).terms == pytest.approx({"range": 2.0, "range_squared": 1.0})


def test_array_second_moments_give_array_bounds():
    moments = np.array([0.0, 0.5, 2.0])
    for one in (
        lambda V: deviation_bound(2.0, 100, 5, 0.1, V).total,
        lambda V: difference_bound(2.0, 100, 5, 0.1, V).total,
        lambda V: clipped_erm_bound(2.0, 100, 5, 0.1, V).total,
        lambda V: safe_erm_bound(2.0, 100, 5, 0.1, V, clipped_mass=0.0).total,
    ):
        assert one(moments) == pytest.approx([one(V) for V in moments])
        assert isinstance(one(0.5), float)


def test_erm_constants_printed_and_derived():
    """With log(|H|/δ) = 1, M = 1 and V = 0 the factor of M·L/m is bare."""
    arguments = {"n_hypotheses": 1, "delta": 1 / E, "second_moment": 0.0}
    for reading, unclipped, clipped in (("printed", 28, 34), ("derived", 40, 46)):
        bound = second_moment_erm_bound(1, 1.0, **arguments, reading=reading)
        assert bound.terms["range"] == pytest.approx(unclipped / 3)
        assert clipped_erm_bound(1.0, 1, **arguments, reading=reading).terms["range"] == pytest.approx(clipped / 3)
        assert bound.terms["range_squared"] == pytest.approx(2.0)


def test_derived_readings_follow_from_the_general_theorem():
    M, m, H, delta, V = 8.0, 500, 12, 0.05, 0.7
    log = log_term(H, delta)
    assert float(second_moment_erm_bound(m, 1 / M, H, delta, V, reading="derived")) == pytest.approx(
        float(general_erm_bound(M, m, H, delta, V, clipped_mass=0.0))
    )
    assert float(clipped_erm_bound(M, m, H, delta, V, reading="derived")) == pytest.approx(
        float(general_erm_bound(M, m, H, delta, V, clipped_mass=2 * M * log / m))
    )


def test_example_clipping_needs_the_printed_constant():
    """The paper's Example: at m = 28/(αε) the printed bound without clipping is below 3ε, and the derived one is not."""
    nu, alpha, delta = 0.05, 0.001, 0.01
    eps = nu / (1 + 1 / (100 * alpha))
    second = (nu - eps) + eps / alpha
    m = 28 / (alpha * eps)
    assert float(second_moment_erm_bound(m, alpha, 4, delta, second)) / eps == pytest.approx(2.999, abs=2e-3)
    assert float(second_moment_erm_bound(m, alpha, 4, delta, second, reading="derived")) > 3.8 * eps


@pytest.mark.parametrize("p", [0.001, 0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 10, 200])
@pytest.mark.parametrize("log", [0.1, 1.0, 3.0, 8.0])
def test_three_tails_of_the_safe_bound_are_exact(p, n, log):
    """U = M·Bernoulli(p) makes V̂ and l̂ binomial: the failure probability of each step is at most e^{−L}, exactly."""
    M = 5.0
    count = np.arange(n + 1)
    chance = stats.binom.pmf(count, n, p)
    V, V_hat, loss, loss_hat = M**2 * p, M**2 * count / n, M * p, M * count / n
    slack = 1 + 1e-12
    lower = np.sqrt(V) > (np.sqrt(V_hat) + M * np.sqrt(2 * log / n)) * slack
    upper = np.sqrt(V_hat) > (np.sqrt(V) + M * np.sqrt(log / (2 * n))) * slack
    bernstein = 2 / 3 * M * log / n + np.sqrt(2 * log * V / n)
    for fails in (lower, upper, loss - loss_hat > bernstein * slack, loss_hat - loss > bernstein * slack):
        assert chance[fails].sum() <= np.exp(-log)


def _regularised_winner(rng, m, *, propensity, mass, losses, clip, penalty, repeats):
    """Draw logs and return the classifier that regularised, clipped ERM picks on each; labels are a function of x."""
    counts = rng.multinomial(m, mass, size=repeats)
    seen = rng.binomial(counts, propensity)
    weight = np.where(1 / propensity <= clip, 1 / propensity, 0.0)
    empirical = (seen * weight) @ losses.T / m
    moment = (seen * weight**2) @ losses.T / m
    return np.argmin(empirical + np.sqrt(penalty / m * moment), axis=1)


@pytest.mark.parametrize("m", [20, 100, 1000])
@pytest.mark.parametrize("clip", [4.0, 20.0])
def test_safe_bound_holds_at_its_rate(m, clip):
    """Failure probability at most δ = 0.2 in 4000 runs; the excess is also positive in some, else nothing is tested."""
    delta, repeats = 0.2, 4000
    rng = np.random.default_rng(m)
    propensity, mass = np.array([1.0, 0.05, 0.25, 1.0]), np.array([0.1, 0.12, 0.2, 0.58])
    losses = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 0]])  # where each classifier errs
    error = losses @ mass
    kept = 1 / propensity <= clip
    second = float(np.sum(losses[0] * mass * kept / propensity))
    penalty = 4 * log_term(4, delta)
    bound = safe_erm_bound(clip, m, 4, delta, second, clipped_mass=float(mass[~kept].sum()), penalty=penalty)
    winner = _regularised_winner(
        rng, m, propensity=propensity, mass=mass, losses=losses, clip=clip, penalty=penalty, repeats=repeats
    )
    excess = error[winner] - error[0]
    assert np.mean(excess > bound.total) <= delta
    if m == 20:
        assert np.mean(excess > 0) > 0.05


def test_safe_bound_is_attained_up_to_a_constant_when_only_clipped_mass_remains():
    """Everything that tells h* from the rest is clipped: the excess can equal P(1/Q0 > M), so that term is needed."""
    bound = safe_erm_bound(2.0, 10**12, 2, 0.05, 0.0, clipped_mass=0.3)
    assert bound.total == pytest.approx(0.3, abs=1e-9)


def test_safe_bound_by_hand():
    """|H| = 1 and δ = 4/e² make log(4|H|/δ) = 2; λ = 4 is the smallest penalty allowed."""
    bound = safe_erm_bound(3.0, 4, n_hypotheses=1, delta=4 / E**2, second_moment=1.0, clipped_mass=0.1, penalty=4.0)
    assert bound.terms == pytest.approx({"clipped_mass": 0.1, "range": 4.0, "penalty": 1.5, "second_moment": 2.0})


BAD = [
    (lambda: log_term(0, 0.1), "number of classifiers in a class must be at least 1"),
    (lambda: log_term(3, 0.0), "delta"),
    (lambda: log_term(3, 1.0), "delta"),
    (lambda: log_term(3, math.nan), "delta"),
    (lambda: epoch_confidence(0.1, -1), "epoch"),
    (lambda: epoch_confidence(2.0, 1), "delta"),
    (lambda: candidate_slack(0.0, 10, 1.0), "clip threshold"),
    (lambda: candidate_slack(1.0, 0, 1.0), "number of rows"),
    (lambda: candidate_slack(1.0, 10, -1.0), "log term"),
    (lambda: deviation_bound(math.inf, 10, 2, 0.1, 0.1), "clip threshold"),
    (lambda: deviation_bound(1.0, 10, 2, 0.1, -0.1), "Second moments"),
    (lambda: deviation_bound(1.0, 10, 2, 0.1, [0.1, math.nan]), "Second moments"),
    (lambda: second_moment_deviation(1.0, 0, 2, 0.1), "number of rows"),
    (lambda: difference_bound(1.0, 10, 2, 0.1, 0.1, gamma=-1.0), "gamma"),
    (lambda: second_moment_erm_bound(10, 0.0, 2, 0.1, 0.1), "smallest propensity"),
    (lambda: second_moment_erm_bound(10, 0.5, 2, 0.1, 0.1, reading="other"), "reading"),
    (lambda: clipped_erm_bound(0.5, 10, 2, 0.1, 0.1), "clip threshold"),
    (lambda: general_erm_bound(1.0, 10, 2, 0.1, 0.1, clipped_mass=1.5), "clipped mass"),
    (lambda: general_erm_bound(1.0, 10, 2, 0.1, 0.1, clipped_mass=0.0, penalty=1.0), "penalty"),
    (lambda: safe_erm_bound(1.0, 10, 2, 0.1, 0.1, clipped_mass=0.0, penalty=1.0), "penalty"),
    (lambda: safe_erm_bound(1.0, 10, 1, 0.5, 0.1, clipped_mass=0.0), "penalty"),  # 4·log 2 < 2·log 8
    (lambda: safe_erm_bound(1.0, 0, 2, 0.1, 0.1, clipped_mass=0.0), "logged rows"),
]


@pytest.mark.parametrize(("call", "word"), BAD)
def test_bad_input_is_one_clear_sentence(call, word):
    with pytest.raises(InvalidInput, match=word) as caught:
        call()
    message = str(caught.value)
    assert message.endswith(".")
    assert "but" in message
