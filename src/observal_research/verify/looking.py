"""What people do with intervals: look at every round, stop early, and bring logs whose assumptions fail.

The claims that an assumption is needed are claims, too: with a hidden
cause, or with labels that have changed since, the interval is expected to miss, and the diagnosis is expected not to notice.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from observal.threads import one_thread
from observal_research.verify.claims import Claim, Lab, Outcome, Results, at_least, at_most, share
from observal_research.verify.coverage import BATCH, LABELS, MOST_CAMPAIGNS, MethodMaker, auto, name_of, newton
from observal_research.verify.worlds import (
    ROWS,
    Kind,
    Violation,
    blind_spot,
    far_island,
    hardly_any_noise,
    make_world,
    misspecified,
    noisy,
    open_log,
    well_specified,
)

AT_ALL_LOOKS = 0.94
SAVED, LEFT, SELDOM, BUDGET, STOP_ROWS = 0.3, 0.003, 0.05, 600, 2000
CONTRADICTED = 0.03
HURT, NOTICED, NEEDLESS = 0.01, 0.8, 0.03


def looked_at(kind: Kind, method: MethodMaker, rng: np.random.Generator, count: int) -> Results:
    """Return for each campaign whether the error was covered at every round, at the last one, and where it looked best."""
    from observal.session import Session

    everywhere, last, best = (np.empty(count, dtype=bool) for _ in range(3))
    with one_thread():
        for trial in range(count):
            world = make_world(kind, rng)
            session = Session(world.logged, world.pool, method(), LABELS, world.seed, tolerance=None, population="both")
            while (query := session.ask()) is not None:
                session.tell(query.ids, world.oracle(query.ids))
            intervals = [session.intervals(k)["error"] for k in range(len(session.rounds))]
            truth = [world.error(round_.estimator) for round_ in session.rounds]
            covered = [i.low <= t <= i.high for i, t in zip(intervals, truth, strict=True)]
            everywhere[trial], last[trial] = all(covered), covered[-1]
            best[trial] = covered[int(np.argmin([i.high for i in intervals]))]
    return {"everywhere": everywhere, "last": last, "best": best}


def check_looks(kind: Kind, method: MethodMaker, lab: Lab) -> Outcome:
    """Check that intervals cover at all rounds together."""
    trials = min(lab.trials, MOST_CAMPAIGNS)
    results = lab.simulate(partial(looked_at, kind, method), trials, f"looking.looks_{name_of(kind, method)}")
    hits = {name: int(values.sum()) for name, values in results.items()}
    return lab.outcome(
        f"95 % intervals cover at all {LABELS // BATCH + 1} rounds together in ≥ {AT_ALL_LOOKS:.0%} of campaigns",
        f"{share(hits['everywhere'], trials)}; the round with the lowest upper end {share(hits['best'], trials)}",
        trials=trials,
        passed=at_least(hits["everywhere"], trials, AT_ALL_LOOKS),
        error_rate=1e-4,
        detail=f"the last round {share(hits['last'], trials)}; {ROWS} logged and pool rows, {LABELS} labels",
    )


def broken(kind: Kind, violation: Violation, rng: np.random.Generator, count: int) -> Results:
    """Return which campaigns in a world with a violated assumption have an interval that covers, and which logs get a warning."""
    from observal.diagnosis.calibration_check import check_calibration
    from observal.intervals.contradiction import contradiction
    from observal.methods.newton import NewtonVC
    from observal.session import run

    covered, warned, contradicted = (np.empty(count, dtype=bool) for _ in range(3))
    with one_thread():
        for trial in range(count):
            world = make_world(kind, rng, violation=violation)
            method = NewtonVC(batch=BATCH, explore_share=0.5)  # rows picked at random can contradict the log
            result = run(world.logged, world.pool, world.oracle, method, LABELS, world.seed, tolerance=None)
            interval, truth = result.error_interval, world.error(result.estimator)
            covered[trial] = interval.low <= truth <= interval.high
            log = world.logged
            warned[trial] = check_calibration(
                log.propensity, log.revealed, False, log.rows, log.rows.feature_names
            ).suspicious
            contradicted[trial] = contradiction(result.intervals) is not None
    return {"covered": covered, "warned": warned, "contradicted": contradicted}


def check_broken(kind: Kind, violation: Violation, most: float, noticed: float, lab: Lab) -> Outcome:
    """Check that a broken assumption makes the interval miss, as the docs say."""
    trials = min(lab.trials, MOST_CAMPAIGNS)
    name = f"looking.broken_{violation.replace(' ', '_')}_{kind.__name__}"
    results = lab.simulate(partial(broken, kind, violation), trials, name)
    covered, warned, contradicted = (int(results[name].sum()) for name in ("covered", "warned", "contradicted"))
    return lab.outcome(
        f"with {violation} the interval covers in ≤ {most:.0%} of campaigns; random rows contradict the log in ≥ {noticed:.0%}",
        f"covers {share(covered, trials)}; contradicted {share(contradicted, trials)}; the diagnosis calls the propensities wrong "
        f"in {share(warned, trials)}",
        trials=trials,
        passed=at_most(covered, trials, most) and at_least(contradicted, trials, noticed),
        error_rate=2e-4,
        detail=f"NewtonVC, half of each batch at random, {kind.__name__.replace('_', ' ')}, {ROWS} logged and pool rows, {LABELS} labels",
    )


def check_unbroken(kind: Kind, lab: Lab) -> Outcome:
    """Check that rows picked at random seldom contradict a log that is right."""
    trials = min(lab.trials, MOST_CAMPAIGNS)
    results = lab.simulate(partial(broken, kind, ""), trials, f"looking.unbroken_{kind.__name__}")
    covered, contradicted = int(results["covered"].sum()), int(results["contradicted"].sum())
    return lab.outcome(
        f"random rows contradict a log that is right in ≤ {CONTRADICTED:.0%} of campaigns",
        f"{share(contradicted, trials)}; covers {share(covered, trials)}",
        trials=trials,
        passed=at_most(contradicted, trials, CONTRADICTED),
        error_rate=1e-4,
        detail=f"NewtonVC, half of each batch at random, {kind.__name__.replace('_', ' ')}, {ROWS} logged and pool rows",
    )


def stops(kind: Kind, method: MethodMaker, rng: np.random.Generator, count: int) -> Results:
    """Return the share of the budget that each campaign saved, and by how much spending it all would have lowered the error."""
    from observal.problem.objectives import TOLERANCE
    from observal.session import Session

    saved, loss = np.empty(count), np.empty(count)
    with one_thread():
        for trial in range(count):
            world = make_world(kind, rng, STOP_ROWS)
            small_batches = replace(method(), batch=30)
            errors, labels = [], []
            for tolerance in (TOLERANCE, None):
                session = Session(world.logged, world.pool, small_batches, BUDGET, world.seed, tolerance=tolerance)
                while (query := session.ask()) is not None:
                    session.tell(query.ids, world.oracle(query.ids))
                errors.append(world.error(session.estimator))
                labels.append(session.labels)
            saved[trial], loss[trial] = 1.0 - labels[0] / BUDGET, errors[0] - errors[1]
    return {"saved": saved, "left": loss}


def check_stops(kind: Kind, method: MethodMaker, least_saved: float, seldom: float, lab: Lab) -> Outcome:
    """Check that stopping saves labels where the curve is flat, and seldom leaves much on the table."""
    trials = min(lab.trials, MOST_CAMPAIGNS)
    results = lab.simulate(partial(stops, kind, method), trials, f"looking.stops_{name_of(kind, method)}")
    much, saved = int((results["left"] > LEFT).sum()), float(results["saved"].mean())
    return lab.outcome(
        f"saves ≥ {least_saved:.0%} of {BUDGET} labels on average, leaves over {100 * LEFT:g} points in ≤ {seldom:.0%}",
        f"saves {saved:.0%}, leaves that much in {share(much, trials)}",
        trials=trials,
        passed=saved >= least_saved and at_most(much, trials, seldom),
        error_rate=1e-4,
        detail=f"batches of 30; {100 * float(results['left'].mean()):.2f} points left on average",
    )


def returned_rounds(kind: Kind, rng: np.random.Generator, count: int) -> Results:
    """Return which campaigns return an earlier round's classifier, and by how much the last one is worse than the log's."""
    from observal.session import run
    from observal_research.ablated_newton import AblatedNewtonVC

    earlier, covered, hurt, gained = (np.empty(count) for _ in range(4))
    with one_thread():
        for trial in range(count):
            world = make_world(kind, rng, STOP_ROWS)
            errors = []
            for method in (AblatedNewtonVC(batch=100), AblatedNewtonVC(batch=100, return_earlier=False)):
                result = run(
                    world.logged, world.pool, world.oracle, method, BUDGET, world.seed, looks="once", tolerance=None
                )
                errors.append(world.error(result.estimator))
                if method.return_earlier:
                    interval, earlier[trial] = result.error_interval, result.returned_round is not None
            covered[trial], gained[trial] = interval.low <= errors[0] <= interval.high, errors[1] - errors[0]
            hurt[trial] = errors[1] > world.error(result.rounds[0].estimator) + HURT
    return {"earlier": earlier > 0, "covered": covered > 0, "hurt": hurt > 0, "gained": gained}


def check_returned(kind: Kind, hurts: bool, lab: Lab) -> Outcome:
    """Check that an earlier round's classifier is returned where labels hurt, and hardly ever elsewhere."""
    trials = min(lab.trials, MOST_CAMPAIGNS)
    results = lab.simulate(partial(returned_rounds, kind), trials, f"looking.returned_{kind.__name__}")
    earlier, hurt, covered = results["earlier"], results["hurt"], int(results["covered"].sum())
    noticed, of = int((earlier & hurt).sum()), int(hurt.sum())
    least, most = NOTICED if hurts else 0.0, 1.0 if hurts else NEEDLESS
    promise = f"in ≥ {least:.0%} of campaigns that labels hurt" if hurts else f"in ≤ {most:.0%} of campaigns"
    return lab.outcome(
        f"an earlier round's classifier is returned {promise}; its interval covers in ≥ {AT_ALL_LOOKS:.0%}",
        f"{share(noticed, of) if hurts else share(int(earlier.sum()), trials)}; covers {share(covered, trials)}",
        trials=trials,
        passed=at_least(noticed, of, least)
        and at_most(int(earlier.sum()), trials, most)
        and at_least(covered, trials, AT_ALL_LOOKS),
        error_rate=3e-4,
        detail=f"NewtonVC(batch=100), {BUDGET} labels; labels hurt by over {100 * HURT:g} point in {share(of, trials)}; returning an "
        f"earlier classifier lowered the error by {100 * float(results['gained'].mean()):.2f} points on average",
    )


CLAIMS = (
    *(
        Claim(
            f"looks-{name_of(kind, method)}".replace("_", "-"),
            f"Intervals cover at all rounds together, in campaigns that are {words}{of}.",
            "not in the paper",
            partial(check_looks, kind, method),
        )
        for method, of in ((newton, ""), (auto, ", AutoVC"))
        for kind, words in (
            (well_specified, "well specified"),
            (misspecified, "misspecified"),
            (blind_spot, "blind in a quarter of the space"),
        )
    ),
    *(
        Claim(
            f"broken-by-nothing-{kind.__name__.replace('_', '-')}",
            "If nothing is wrong with a log, rows picked at random seldom contradict it.",
            "not in the paper",
            partial(check_unbroken, kind),
        )
        for kind in (noisy, misspecified)
    ),
    Claim(
        "broken-by-a-hidden-cause",
        "If the old policy looked at a hidden cause of the label, the interval misses.",
        "not in the paper",
        partial(check_broken, noisy, "hidden cause", 0.6, 0.6),
    ),
    Claim(
        "broken-by-stale-labels",
        "If labels of the log have changed since, the interval misses.",
        "not in the paper",
        partial(check_broken, well_specified, "stale labels", 0.6, 0.0),
    ),
    *(
        Claim(
            name,
            f"Where the curve is flat, a run stops early and loses little{of}.",
            "not in the paper",
            partial(check_stops, open_log, method, SAVED, SELDOM),
        )
        for name, method, of in (("stopping-flat", newton, ""), ("stopping-auto-flat", auto, ", AutoVC"))
    ),
    *(
        Claim(
            f"stopping-{kind.__name__.replace('_', '-')}",
            f"A linear model seldom stops too early in a world that is {words}.",
            "not in the paper",
            partial(check_stops, kind, newton, 0.0, 2.0 * SELDOM),
        )
        for kind, words in ((misspecified, "curved"), (hardly_any_noise, "curved and nearly without noise"))
    ),
    *(
        Claim(
            f"earlier-round-{kind.__name__.replace('_', '-')}",
            words,
            "not in the paper",
            partial(check_returned, kind, hurts),
        )
        for kind, hurts, words in (
            (far_island, True, "Where labels make a linear model worse, an earlier round's classifier is returned."),
            (misspecified, False, "Where labels do not hurt, the last round's classifier is returned."),
        )
    ),
)
