"""The claims at quick sizes; the full size is marked slow."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

from observal.errors import InvalidInput
from observal_research import rare
from observal_research.verify import (
    CLAIMS,
    Claim,
    Outcome,
    Report,
    coverage,
    given_labels,
    looking,
    rare_classes,
    verify,
    worlds,
)
from observal_research.verify.candidates import radius_constants
from observal_research.verify.claims import Lab, at_least, at_most, mean_tolerance
from observal_research.verify.distributions import Distribution
from observal_research.verify.mis import exact_variances
from observal_research.verify.passive import exact_worse_chosen, excess_of_proof

LONG = (
    "coverage-",
    "looks-",
    "broken-by-",
    "stopping-",
    "earlier-round-",
    "rare-",
    "given-",
    "clean-log-2000",
    "drift-tenth",
)  # most are about whole campaigns
QUICK = [claim.name for claim in CLAIMS if not claim.name.startswith(LONG)]


@pytest.fixture(scope="module")
def quick() -> dict[str, Outcome]:
    return {outcome.claim: outcome for outcome in verify(trials=50, random_state=1, only=QUICK, jobs=1).outcomes}


@pytest.mark.parametrize("name", QUICK)
def test_claim_holds(quick, name):
    outcome = quick[name]
    assert outcome.passed, outcome
    assert 0.0 <= outcome.error_rate < 1e-3
    assert (outcome.error_rate == 0.0) or outcome.trials > 0
    assert outcome.promised
    assert outcome.measured
    assert outcome.detail


def test_every_item_of_section_6_has_a_claim():
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names)
    sources = " ".join(claim.source for claim in CLAIMS)
    for item in (
        "thm:paper-iw-gen-lb", "'clipping'", "'debias'", "prop:opt-c", "prop:mis-unbiased-general", "key technique 2",
        "lem:l-diff-S-S_tilde", "lem:l-fav-bias", "key technique 1", "lem:h_star_in", "thm:gen", "cor:var-gen", "cor:gen",
        "lem:dis-radius", "thm:Label-Complexity",
    ):  # fmt: skip
        assert item in sources, item


def test_report_is_a_table_and_json():
    seen = []
    report = verify(trials=50, only=["decomposition", "clip-example"], jobs=1, progress=lambda *a: seen.append(a))
    assert [row[0] for row in report.rows()] == ["clip-example", "decomposition"]
    assert [row[3] for row in report.rows()] == ["exact", "50"]
    told = json.loads(json.dumps(report.to_dict()))
    assert told["passed"] is True
    assert {"claim", "statement", "source", "promised", "measured", "trials", "passed", "error_rate", "detail"} <= set(
        told["claims"][0]
    )
    assert seen[0] == (0, 2, "clip-example")
    assert (1, 2, "decomposition (1/1)") in seen
    assert seen[-1] == (2, 2, "done")


def test_results_do_not_depend_on_processes_or_on_other_claims():
    alone = verify(trials=120, random_state=3, only="mis-unbiased", jobs=1).outcomes
    together = verify(trials=120, random_state=3, only=["mis-unbiased", "decomposition"], jobs=2).outcomes
    assert alone[0] == together[0]
    assert alone != verify(trials=120, random_state=4, only="mis-unbiased", jobs=1).outcomes


def test_one_failing_or_breaking_claim_fails_the_report():
    def fails(lab: Lab) -> Outcome:
        return lab.outcome("1", "2", trials=0, passed=False, error_rate=0.0, detail="")

    def breaks(lab: Lab) -> Outcome:
        raise ZeroDivisionError("oh")

    claims = [
        next(claim for claim in CLAIMS if claim.name == "clip-example"),
        Claim("fails", "One is two.", "nowhere", fails),
        Claim("breaks", "Zero divides.", "nowhere", breaks),
    ]
    report = verify(trials=50, claims=claims, jobs=1)
    assert isinstance(report, Report)
    assert [outcome.passed for outcome in report.outcomes] == [True, False, False]
    assert not report.passed
    assert report.rows()[1][-1] == "NO"
    assert "ZeroDivisionError: oh" in report.outcomes[2].measured


def test_bad_requests_are_refused():
    with pytest.raises(InvalidInput, match="no claim"):
        verify(only="nonsense")
    with pytest.raises(InvalidInput, match="at least 50 trials"):
        verify(trials=49)
    with pytest.raises(InvalidInput, match="at least 1 process"):
        verify(jobs=0)


def test_binomial_tests_fail_as_rarely_as_they_say():
    rng = np.random.default_rng(0)
    hits = rng.binomial(500, 0.9, size=4_000)
    level = 0.01
    assert np.mean([not at_least(int(k), 500, 0.9, level) for k in hits]) <= level * 1.5
    assert np.mean([not at_most(int(k), 500, 0.9, level) for k in hits]) <= level * 1.5
    assert not at_least(400, 500, 0.9)
    assert not at_most(490, 500, 0.9)


def test_mean_tolerance_covers():
    rng = np.random.default_rng(0)
    means = rng.exponential(size=(4000, 200)).clip(max=8.0).mean(axis=1)
    off = np.abs(means - means.mean())
    assert np.mean(off > mean_tolerance(1.0, 8.0, 200, level=0.01)) <= 0.01


def test_exact_chances_agree_with_counting():
    rng = np.random.default_rng(0)
    m = 2000
    epsilon, q0 = excess_of_proof(m), 0.2 / 40
    counts = rng.multinomial(m, [0.2, q0 * (0.2 + epsilon), 0.8 - q0 * (0.2 + epsilon)], size=40_000)
    assert exact_worse_chosen(m)[0] == pytest.approx(np.mean(counts[:, 0] > counts[:, 1] / q0), abs=0.015)
    assert m == pytest.approx((1 / 9) * (0.2 + epsilon) / (q0 * epsilon**2))


def test_exact_variances_of_one_policy_are_equal():
    ours, plain = exact_variances(
        np.array([0.5, 0.5]), np.array([0.3, 0.1]), np.array([[0.2, 0.4], [0.2, 0.4]]), np.array([10.0, 5.0])
    )
    assert ours == pytest.approx(plain)
    assert ours == pytest.approx((0.5 * 0.3 / 0.2 + 0.5 * 0.1 / 0.4 - 0.2**2) / 15)


def test_radius_constant_solves_the_last_inequality_of_the_proof():
    """With every term of the proof at its largest, the solution x is under the bound with the three factors."""
    n_class, delta, gamma, clip, n_rows, noise = 16, 0.05, 9.0, 4.0, 1e4, 0.1
    log, log4 = np.log(n_class / delta), np.log(4 * n_class / delta)
    first, second, third = radius_constants(n_class, delta, gamma)
    bound = (
        first * clip * log / n_rows
        + second * clip**2 * log**0.5 / n_rows**1.5
        + third * (clip * noise * log / n_rows) ** 0.5
    )
    b = (
        (10 / 3 + 3 * gamma + 2**0.5 * gamma**1.5) * clip * log4 / n_rows
        + 2 * gamma * clip**2 * log4**0.5 / n_rows**1.5
        + ((2 + 2**0.5) * gamma + 2 * 2**0.5) * (clip * noise * log4 / n_rows) ** 0.5
    )
    c = (gamma + 2) ** 2 * clip * log4 / n_rows
    x = ((c**0.5 + (c + 4 * b) ** 0.5) / 2) ** 2  # the largest x with x ≤ b + sqrt(c·x)
    assert b < x <= bound
    assert bound < 3 * x


def test_distribution_computes_its_errors():
    world = Distribution(
        np.array([0.25, 0.75]), np.array([1.0, 0.5]), np.array([1.0, 0.2]), np.array([[1, -1], [-1, 1]], dtype=np.int8)
    )
    assert world.errors.tolist() == pytest.approx([0.15, 0.85])
    assert world.best == 0
    assert world.moments(np.array([1.0, 2.0]), 1.5).tolist() == pytest.approx([0.0, 0.25])
    assert world.pair_moments(np.array([1.0, 2.0]), np.inf)[0, 1] == pytest.approx(1.75)


@pytest.mark.slow
def test_full_size():
    report = verify(trials=2000)
    assert report.passed, [outcome for outcome in report.outcomes if not outcome.passed]


@pytest.mark.parametrize("method", [coverage.newton, coverage.committee])
@pytest.mark.parametrize("kind", [coverage.well_specified, coverage.misspecified, coverage.blind_spot])
def test_campaign_is_measured_against_rows_never_seen(monkeypatch, kind, method):
    monkeypatch.setattr(worlds, "TEST_ROWS", 2000)
    measured_alike(kind, method)


def test_campaign_of_auto_vc_is_measured(monkeypatch):
    monkeypatch.setattr(worlds, "TEST_ROWS", 2000)
    monkeypatch.setattr(coverage, "LABELS", 60)
    measured_alike(coverage.blind_spot, coverage.auto)


def measured_alike(kind, method):
    found, again = (coverage.campaign(kind, method(), np.random.default_rng(0)) for _ in range(2))
    assert all((found[name] == again[name]).all() for name in found)
    assert (found["width"] > 0).all()
    assert (found["uniform"] > 0).all()


def test_campaign_with_a_rare_class_follows_its_objective(monkeypatch):
    monkeypatch.setattr(worlds, "TEST_ROWS", 4000)
    monkeypatch.setattr(coverage, "LABELS", 100)
    truth = {
        objective: coverage.campaign(coverage.rare, coverage.newton(), np.random.default_rng(0), objective)["truth"]
        for objective in ("error", "recall=0.8")
    }
    found = {objective: dict(zip(coverage.MEASURES, values, strict=True)) for objective, values in truth.items()}
    assert found["error"]["prevalence"] == pytest.approx(0.03, abs=0.01)
    assert found["recall=0.8"]["recall"] > found["error"]["recall"] + 0.2
    assert found["recall=0.8"]["balanced error"] < found["error"]["balanced error"] - 0.1


def test_true_measures_are_counted():
    class Says:
        def predict(self, X):
            return X[:, 0]

    y = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    said = np.array([[1.0, 0, 0, 0, 1, 1, 0, 0, 0, 0]]).T
    truth, variance = coverage.true_measures(Says(), said, y)
    assert truth.tolist() == pytest.approx([0.5, 1 / 3, 0.25, 0.4, (3 / 4 + 2 / 6) / 2])
    missed, alarms = (3 / 4) * (1 / 4) / 0.4, (2 / 6) * (4 / 6) / 0.6
    assert variance.tolist() == pytest.approx([0.25, (2 / 9) / 0.3, missed, 0.24, (missed + alarms) / 4])
    never, _ = coverage.true_measures(Says(), np.zeros((10, 1)), y)
    assert np.isnan(never).tolist() == [False, True, False, False, False]


def pretended(monkeypatch, miss=(), wide=(), never=(), wider=0.7, missed=1.0):
    """Replace campaigns by ones in which some measures are missed in a share of them, wide, or do not exist."""

    def fake(kind, method, rng, count, objective="error"):
        def marked(names):
            return np.tile(np.isin(coverage.MEASURES, names), (count, 1))

        return {
            "covered": ~marked(miss) | (np.arange(count) >= missed * count)[:, None],
            "width": 0.1 + 0.1 * wider * marked(wide),
            "uniform": np.full((count, len(coverage.MEASURES)), 0.1),
            "truth": np.where(marked(never), np.nan, 0.5),
        }

    monkeypatch.setattr(coverage, "campaigns", fake)


@pytest.mark.parametrize(
    ("kind", "what", "passed"),
    [
        (coverage.well_specified, {}, True),
        *((coverage.rare, {"miss": (name,)}, False) for name in coverage.MEASURES),
        (coverage.well_specified, {"wide": ("error",)}, False),
        (coverage.well_specified, {"wide": ("recall",)}, True),
        (coverage.rare, {"wide": ("recall",)}, False),
        (coverage.rare, {"miss": ("precision",), "never": ("precision",)}, True),
        (coverage.well_specified, {"wide": ("error",), "wider": 0.5}, True),
        (coverage.low_propensities, {"wide": ("error",), "wider": 1.3}, True),
        (coverage.low_propensities, {"wide": ("error",), "wider": 1.5}, False),
        (coverage.well_specified, {"miss": ("error",), "missed": 0.15}, False),
    ],
)
def test_coverage_claim_fails_where_intervals_miss_or_are_too_wide(monkeypatch, kind, what, passed):
    pretended(monkeypatch, **what)
    outcome = coverage.check_coverage(kind, coverage.newton, Lab("coverage", 200, 0), "recall=0.8")
    assert outcome.passed is passed, outcome
    assert outcome.error_rate == pytest.approx(5e-4)


@pytest.mark.parametrize(
    ("method", "missed", "passed"),
    [
        (coverage.auto, 0.11, True),
        (coverage.auto, 0.15, False),
        (coverage.committee, 0.16, True),
        (coverage.committee, 0.24, False),
    ],
)
def test_what_a_coverage_claim_promises_depends_on_the_method(monkeypatch, method, missed, passed):
    pretended(monkeypatch, miss=("error",), missed=missed)
    assert coverage.check_coverage(coverage.misspecified, method, Lab("coverage", 200, 0)).passed is passed


def lab(name: str) -> Lab:
    return Lab(name, trials=200, random_state=0)


@pytest.mark.parametrize(("covered", "passed"), [(0.97, True), (0.8, False)])
def test_claim_about_looks_fails_where_intervals_miss(monkeypatch, covered, passed):
    def fake(kind, method, rng, count):
        hit = np.arange(count) < covered * count
        return {"everywhere": hit, "last": hit, "best": hit}

    monkeypatch.setattr(looking, "looked_at", fake)
    assert looking.check_looks(looking.well_specified, looking.newton, lab("looks")).passed == passed


@pytest.mark.parametrize(("covered", "passed"), [(0.3, True), (0.9, False)])
def test_claim_that_an_assumption_is_needed_fails_where_it_is_not(monkeypatch, covered, passed):
    def fake(kind, what, rng, count):
        never = np.zeros(count, dtype=bool)
        return {"covered": np.arange(count) < covered * count, "warned": never, "contradicted": ~never}

    monkeypatch.setattr(looking, "broken", fake)
    assert looking.check_broken(looking.well_specified, "hidden cause", 0.6, 0.6, lab("broken")).passed == passed


@pytest.mark.parametrize(("saved", "left", "passed"), [(0.5, 0.0, True), (0.1, 0.0, False), (0.5, 0.01, False)])
def test_claim_about_stopping_fails_where_too_little_is_saved_or_too_much_is_lost(monkeypatch, saved, left, passed):
    def fake(kind, method, rng, count):
        return {"saved": np.full(count, saved), "left": np.full(count, left)}

    monkeypatch.setattr(looking, "stops", fake)
    assert looking.check_stops(looking.open_log, looking.newton, 0.3, 0.05, lab("stops")).passed == passed


def test_worlds_with_broken_assumptions_are_broken():
    drawn = {
        what: worlds.make_world(worlds.open_log, np.random.default_rng(0), violation=what)
        for what in ("", "hidden cause", "stale labels")
    }
    positive = {what: world.logged.codes[world.logged.revealed].mean() for what, world in drawn.items()}
    assert positive["hidden cause"] > positive[""] + 0.05
    assert drawn["hidden cause"].logged.revealed.mean() == pytest.approx(drawn[""].logged.revealed.mean(), abs=0.05)
    clean, stale = drawn[""].logged, drawn["stale labels"].logged
    assert clean.X.tolist() == stale.X.tolist()
    assert clean.codes[clean.revealed].tolist() != stale.codes[stale.revealed].tolist()


@pytest.mark.parametrize(
    "simulation",
    [
        partial(looking.looked_at, method=looking.newton),
        partial(looking.stops, method=looking.newton),
        looking.returned_rounds,
    ],
)
def test_one_campaign_of_a_claim_runs_and_repeats(monkeypatch, simulation):
    monkeypatch.setattr(worlds, "TEST_ROWS", 2000)
    for name, value in (("STOP_ROWS", 400), ("BUDGET", 90), ("LABELS", 100)):
        monkeypatch.setattr(looking, name, value)
    found, again = (simulation(looking.open_log, rng=np.random.default_rng(0), count=1) for _ in range(2))
    assert all((found[name] == again[name]).all() for name in found)


# -- rare classes


def rare_outcome(recall=0.8, found=30, flagged=0.2, covers=True):
    truth = dict.fromkeys(rare.MEASURES, 0.5) | {"recall": recall}
    ends = {name: (value, value - 0.1, value + 0.1) if covers else (0.9, 0.95, 1.0) for name, value in truth.items()}
    return rare.Outcome(found, flagged, truth, ends)


@pytest.mark.parametrize(
    ("ours", "passed"),
    [(rare_outcome(), True), (rare_outcome(recall=0.3), False), (rare_outcome(covers=False), False)],
)
def test_delivered_recall_and_coverage_of_rare_classes_are_checked(monkeypatch, ours, passed):
    monkeypatch.setattr(rare_classes, "generated_world", lambda *_: None)
    monkeypatch.setattr(rare_classes, "CONTESTANTS", {rare.OURS: lambda _: ours})
    assert rare_classes.check_delivery(0.01, True, Lab("rare", 200, 0)).passed is passed


@pytest.mark.parametrize(("ours", "passed"), [({}, True), ({"found": 20}, False), ({"flagged": 0.3}, False)])
def test_peers_of_rare_classes_are_checked(monkeypatch, ours, passed):
    peers = dict.fromkeys((rare_classes.HIGHEST, "random"), lambda _: rare_outcome())
    monkeypatch.setattr(rare_classes, "generated_world", lambda *_: None)
    monkeypatch.setattr(rare_classes, "CONTESTANTS", {rare.OURS: lambda _: rare_outcome(**ours), **peers})
    assert rare_classes.check_peers(Lab("rare-peers", 60, 0)).passed is passed


def test_tables_are_made_rare_and_peers_run(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = np.where(X[:, 0] + rng.normal(size=4000) > 1.0, "yes", "no")
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y).to_parquet(tmp_path / "t.parquet")
    assert rare.suitable_tables(tmp_path) == ["t"]
    made = rare.table_world(tmp_path, "t", 0.02, True, rng)
    codes = np.concatenate([made.world.log_labels, made.world.oracle(made.world.pool.ids)])
    assert codes.mean() == pytest.approx(0.02, abs=0.01)
    assert made.world.y_test.mean() > 0.2
    found = rare.CONTESTANTS["LightGBM, highest scores"](made)
    assert found.found > 5
    assert 0.0 < found.flagged < 0.6
    header, rows = rare.summarise([rare.Measured("t", 0.02, True, {rare.OURS: rare_outcome()})])
    assert len(rows) == 2
    assert {len(row) for row in rows} == {len(header)}


# -- given labels


def test_given_claims_are_all_kinds():
    assert len(given_labels.KINDS) == len({kind.name for kind in given_labels.KINDS}) == 30
    assert {kind.case for kind in given_labels.KINDS if kind.change == "riskier"} == {"table", "both", "pool"}


@pytest.mark.parametrize("kind", given_labels.KINDS, ids=lambda kind: kind.name)
def test_given_world_is_of_its_kind(monkeypatch, kind):
    monkeypatch.setattr(given_labels, "TEST_ROWS", 4000)
    world = given_labels.make_given_world(kind, np.random.default_rng(0))
    told = world.logged.revealed
    assert world.logged.is_given
    assert (world.pool is None) == (kind.case == "table")
    first = told[: worlds.ROWS].mean()
    assert first == pytest.approx({"cut-off": 0.6, "exceptions": 0.6 + 0.03 * 0.4, "best-k": 0.3}[kind.way], abs=0.02)
    if kind.case == "table":
        later = told[worlds.ROWS :].mean()
        fewer = kind.change == "stricter" or (kind.change == "riskier" and kind.way != "best-k")
        assert bool(later < 0.92 * first) is fewer
    shown = world.oracle(world.logged.ids[told])
    assert (np.asarray(world.logged.y)[told] == shown).all()
    moved = 0.0 if kind.change != "riskier" else 0.5 if kind.case == "pool" else 0.25
    assert np.linalg.norm(world.X_test.mean(axis=0)) == pytest.approx(moved, abs=0.1)
    assert len(world.y_test) == (2000 if kind.case == "pool" else 4000)


@pytest.mark.parametrize(
    "kind", [given_labels.Given("best-k", "table", "hidden"), given_labels.Given("cut-off", "pool")]
)
def test_campaign_with_given_labels_is_measured(monkeypatch, kind):
    for name, value in (("TEST_ROWS", 2000), ("ROWS", 150), ("LABELS", 25)):
        monkeypatch.setattr(given_labels, name, value)
    found = given_labels.campaigns(kind, np.random.default_rng(0), 1)
    assert found["width"][0] > 0.0
    assert 0.0 < found["truth"][0] < 0.6
    assert found["covered"][0] in (0.0, 1.0)


@pytest.mark.parametrize(("covered", "width", "passed"), [(0.95, 0.1, True), (0.8, 0.1, False), (1.0, 0.9, False)])
def test_claim_about_given_labels_fails_where_intervals_miss_or_are_too_wide(monkeypatch, covered, width, passed):
    def fake(kind, rng, count):
        hit = (np.arange(count) < covered * count).astype(float)
        return {
            "covered": hit,
            **{name: np.full(count, x) for name, x in (("width", width), ("half", 0.2), ("truth", 0.2))},
        }

    monkeypatch.setattr(given_labels, "campaigns", fake)
    outcome = given_labels.check_given(given_labels.KINDS[0], lab("given"))
    assert outcome.passed == passed
    assert outcome.error_rate == 1e-4
