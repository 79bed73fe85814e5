"""Bounds equal their slow twins everywhere, and move the way their formulas say."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from observal.paper.bounds import (
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
from observal.paper.disagreement import disagreement_coefficient
from observal.paper.label_complexity import (
    convergence_bound,
    label_complexity_bound,
    label_complexity_bracket,
    label_complexity_rows,
    query_policy_bound,
)
from tests.reference import bounds as twin

clips = st.floats(1.0, 1e4)
sizes = st.integers(1, 10**7)
classes = st.integers(1, 10**6)
deltas = st.floats(1e-9, 0.99)
moments = st.floats(0.0, 1e4)
shares = st.floats(0.0, 1.0)


def close(value, expected):
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(clips, sizes, classes, deltas, moments)
def test_deviations_equal_their_twins(M, N, H, delta, V):
    close(deviation_bound(M, N, H, delta, V), twin.thm_gen(M, N, H, delta, V))
    close(second_moment_deviation(M, N, H, delta), twin.cor_var_gen(M, N, H, delta))
    gamma = certified_gamma(H, delta)
    close(difference_bound(M, N, H, delta, V), twin.cor_gen(gamma, M, N, H, delta, V))
    assert candidate_slack(M, N, log_term(H, delta)) == pytest.approx(twin.sigma(M, N, H, delta), rel=1e-9)


@given(clips, sizes, classes, deltas, moments)
def test_certified_gamma_covers_the_composition_of_both_lemmas(M, N, H, delta, V_hat):
    assert difference_bound(M, N, H, delta, V_hat).total >= twin.cor_gen_composed(M, N, H, delta, V_hat) * (1 - 1e-12)
    assert certified_gamma(H, delta) >= 22 / 3


@given(clips, sizes, classes, deltas, moments, shares, st.floats(1.0, 5.0))
def test_erm_bounds_equal_their_twins(M, m, H, delta, V, tail, factor):
    lam = factor * 4 * log_term(H, delta)
    close(
        general_erm_bound(M, m, H, delta, V, clipped_mass=tail, penalty=lam),
        twin.thm_general(M, m, H, delta, lam, V, tail),
    )
    close(second_moment_erm_bound(m, 1 / M, H, delta, V), twin.thm_smr_erm(m, 1 / M, H, delta, V))
    close(clipped_erm_bound(M, m, H, delta, V), twin.cor_clipped_erm(M, m, H, delta, V))
    assume(lam >= 2 * log_term(4 * H, delta))
    close(
        safe_erm_bound(M, m, H, delta, V, clipped_mass=tail, penalty=lam),
        twin.safe_erm(M, m, H, delta, lam, V, tail),
    )


@given(clips, sizes, st.integers(5, 10**6), deltas, moments, st.floats(1.0, 3.0))
def test_bounds_grow_with_clip_and_moment_and_class_and_shrink_with_rows_and_delta(M, N, H, delta, V, factor):
    def all_of(M, N, H, delta, V):
        return np.array(
            [
                float(deviation_bound(M, N, H, delta, V)),
                float(second_moment_deviation(M, N, H, delta)),
                float(difference_bound(M, N, H, delta, V, gamma=1.0)),
                float(general_erm_bound(M, N, H, delta, V, clipped_mass=0.1)),
                float(clipped_erm_bound(M, N, H, delta, V)),
                float(second_moment_erm_bound(N, 1 / M, H, delta, V)),
                float(safe_erm_bound(M, N, H, delta, V, clipped_mass=0.1)),
            ]
        )

    here, slack = all_of(M, N, H, delta, V), 1 + 1e-9
    assert (here <= all_of(M * factor, N, H, delta, V) * slack).all()
    assert (here <= all_of(M, N, H, delta, V * factor) * slack).all()
    assert (here <= all_of(M, N, int(H * factor), delta, V) * slack).all()
    assert (here * slack >= all_of(M, int(N * factor), H, delta, V)).all()
    assert (here <= all_of(M, N, H, delta / factor, V) * slack).all()


@given(clips, sizes, classes, deltas, moments)
def test_printed_erm_bounds_are_below_derived_ones(M, m, H, delta, V):
    for bound in (
        lambda reading: clipped_erm_bound(M, m, H, delta, V, reading=reading),
        lambda reading: second_moment_erm_bound(m, 1 / M, H, delta, V, reading=reading),
    ):
        assert bound("printed").total <= bound("derived").total


@given(deltas, st.integers(0, 200))
def test_epoch_confidences_shrink_and_stay_below_half(delta, k):
    assert epoch_confidence(delta, k + 1) < epoch_confidence(delta, k)
    partial = sum(epoch_confidence(delta, j) for j in range(k + 1))
    assert partial == pytest.approx(delta / 2 * (1 - 1 / (k + 2)))  # a telescoping sum


@st.composite
def distributions(draw):
    n_points = draw(st.integers(1, 6))
    column = st.lists(shares, min_size=n_points, max_size=n_points)
    raw = np.array(draw(st.lists(st.integers(0, 5), min_size=n_points, max_size=n_points)), dtype=float)
    assume(raw.sum() > 0)
    return np.array(draw(column)), np.array(draw(column)), np.array(draw(column)), raw / raw.sum()


@given(distributions(), sizes, sizes, classes, deltas, clips, st.integers(0, 20))
def test_convergence_equals_its_twin(distribution, m, n, H, delta, M, K):
    Q0, wrong, _, mass = distribution
    bound = convergence_bound(
        Q0, wrong, mass=mass, n_logged=m, n_online=n, n_hypotheses=H, delta=delta, clip=M, constant=3.0, n_epochs=K
    )
    log = np.log(H * 2 * (K + 1) * (K + 2) / delta)
    close(bound, twin.thm_convergence(Q0, wrong, mass, m, n, log, M, 3.0))


@given(distributions(), sizes, sizes, classes, deltas)
def test_query_policy_equals_its_twin_and_asking_less_never_helps(distribution, m, n, H, delta):
    Q0, differ, Q1, mass = distribution
    sizes = {"n_logged": m, "n_online": n, "n_hypotheses": H, "delta": delta, "mass": mass}
    held = mass > 0
    assume((m * Q0 + n * Q1)[held].min() > 1e-200)
    for printed in (False, True):
        bound = query_policy_bound(Q0, differ, Q1, **sizes, reading="printed" if printed else "derived")
        close(bound, twin.technique_three(Q0, differ, Q1, mass, m, n, H, delta, printed))
    every = query_policy_bound(Q0, differ, np.ones(Q0.size), **sizes)
    slack = 1 + 1e-9
    assert every.total <= query_policy_bound(Q0, differ, Q1, **sizes).total * slack
    proposed = query_policy_bound(Q0, differ, (m * Q0 < m / 2 * Q0 + n).astype(float), **sizes)
    assert proposed.total <= 2 * every.total * slack  # m·Q0 + n·Q1 ≥ m·Q0/2 + n ≥ (m·Q0 + n)/2


@st.composite
def schedules(draw):
    steps = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=8))
    seen = np.cumsum(np.array([*steps[:-1], steps[-1] + 2]))
    return draw(st.lists(st.floats(1.0, 100.0), min_size=len(steps), max_size=len(steps))), seen


@given(schedules(), sizes, shares, shares, classes, deltas, st.floats(0.0, 10.0))
def test_label_complexity_equals_its_twin(schedule, m, q0, nu, H, delta, theta):
    clips, seen = schedule
    case = {"n_logged": m, "min_propensity": q0, "noise": nu, "n_hypotheses": H, "delta": delta}
    bracket = label_complexity_bracket(clips, seen, **case)
    close(bracket, twin.label_complexity(clips, seen.tolist(), m, q0, nu, H, delta))
    K = len(seen)
    tails = 2 * K * np.log(4 * 2 * (K + 1) * (K + 2) / delta)
    bound = label_complexity_bound(clips, seen, **case, theta_tilde=theta, constant=2.0)
    close(bound, 2.0 * theta * bracket.total + seen[0] + tails)


@given(distributions(), st.floats(1e-3, 1.0), st.floats(0.0, 50.0), st.floats(0.05, 1.0), st.floats(0.0, 1.0))
def test_rows_keep_the_steps_of_the_ladder_that_do_not_rest_on_slips(distribution, excess, alpha, q0, place):
    """With θ̃ ≤ θ, M ≤ the largest weight and moments of one distribution, rows one to five rise; νθ ≤ 1 gives the sixth."""
    Q0, wrong, _, mass = distribution
    Q0 = np.maximum(Q0, q0)
    q0 = float(Q0.min())
    largest = (1 + alpha) / (1 + alpha * q0)
    clip = 1 + place * (largest - 1)
    kept = (1 + alpha) / (1 + alpha * Q0) <= clip
    noise = float(mass @ wrong)
    moment = mass * wrong / (1 + alpha * Q0)
    theta = 1 / max(2 * noise, 0.1)
    rows = label_complexity_rows(
        noise=noise,
        excess=excess,
        size_ratio=alpha,
        min_propensity=q0,
        clip=clip,
        clipped_second_moment=float(moment[kept].sum()),
        second_moment=float(moment.sum()),
        theta_tilde=place * theta,
        theta=theta,
        theta_prime=theta,
        log_hypotheses=3.0,
    )
    values = list(rows.values())
    assert (np.diff(values[:6]) >= -1e-9 * np.array(values[1:6])).all()


@st.composite
def finite_classes(draw):
    n_points, n_classifiers = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    row = st.lists(st.sampled_from([-1, 1]), min_size=n_points, max_size=n_points)
    raw = np.array(draw(st.lists(st.integers(0, 5), min_size=n_points, max_size=n_points)), dtype=float)
    assume(raw.sum() > 0)
    predictions = np.array(draw(st.lists(row, min_size=n_classifiers, max_size=n_classifiers)))
    propensity = np.array(draw(st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=n_points, max_size=n_points)))
    return predictions, raw / raw.sum(), draw(st.integers(0, n_classifiers - 1)), propensity


@given(finite_classes(), st.sampled_from([0.0, 0.05, 0.2, 0.4]), st.sampled_from([0.1, 0.2, 0.6, 1.0]))
def test_supremum_equals_brute_force(case, noise, cap):
    """At every subset's mass above 2ν and just above 2ν, from the definition: no radius gives more, one gives as much."""
    predictions, mass, best, Q0 = case
    exact = disagreement_coefficient(predictions, mass, best, noise=noise, propensity=Q0, max_propensity=cap)
    masks = (np.arange(2 ** len(mass))[:, None] >> np.arange(len(mass))) & 1
    radii = [r for r in [*(masks @ mass).tolist(), 2 * noise + 1e-10] if r > 2 * noise + 1e-11]
    values = [twin.disagreement_probability(predictions, mass, best, r, Q0, cap) / r for r in radii]
    assert exact == pytest.approx(max(values), rel=1e-7, abs=1e-12)
    assert exact * 2 * noise <= 1 + 1e-9  # νθ ≤ 1/2


@given(finite_classes(), st.floats(0.01, 1.0), st.sampled_from([0.1, 0.2, 0.6, 1.0]))
def test_modified_coefficient_is_at_most_the_standard_one_and_below_the_supremum(case, radius, cap):
    predictions, mass, best, Q0 = case
    at = disagreement_coefficient(predictions, mass, best, radius=radius, propensity=Q0, max_propensity=cap)
    assert at == pytest.approx(twin.disagreement_probability(predictions, mass, best, radius, Q0, cap) / radius)
    assert at <= disagreement_coefficient(predictions, mass, best, radius=radius) + 1e-12
    supremum = disagreement_coefficient(predictions, mass, best, propensity=Q0, max_propensity=cap)
    assert at <= supremum * (1 + 1e-9)
    assert supremum <= disagreement_coefficient(predictions, mass, best) + 1e-12
