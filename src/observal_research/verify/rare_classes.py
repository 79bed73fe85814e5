"""Campaigns about a rare class: the recall that is delivered, intervals, labels of the class, and peers written by hand.

A kind is a share of positive rows with a biased or an ordinary log, in generated worlds; `observal-research rare` measures the same on tables.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from observal.threads import one_thread
from observal_research.rare import CONTESTANTS, MEASURES, OURS, RATES, TARGET, covers, generated_world
from observal_research.verify.claims import LEVEL, Claim, Lab, Outcome, Results, at_least, mean_tolerance, share

MOST_CAMPAIGNS = 200
COVERED, OFF_TARGET, LEAST_FOUND, MOST_FLAGGED = 0.93, 0.04, 0.9, 1.02
HIGHEST = "highest scores"


def campaigns(rate: float, biased: bool, names: tuple[str, ...], rng: np.random.Generator, count: int) -> Results:
    """Return for each world what everybody found and must flag, and of ours the true measures and which were covered."""
    found, flagged, truth, covered = [], [], [], []
    with one_thread():  # workers have one core each
        for _ in range(count):
            rare = generated_world(rate, biased, rng)
            outcomes = [CONTESTANTS[name](rare) for name in names]
            found.append([one.found for one in outcomes])
            flagged.append([one.flagged for one in outcomes])
            truth.append([outcomes[0].truth[name] for name in MEASURES])
            covered.append([covers(outcomes[0], name) for name in MEASURES])
    return {
        name: np.array(x)
        for name, x in zip(("found", "flagged", "truth", "covered"), (found, flagged, truth, covered), strict=True)
    }


def check_delivery(rate: float, biased: bool, lab: Lab) -> Outcome:
    """Check that the mean recall is what was asked, and that intervals cover."""
    trials = min(lab.trials, MOST_CAMPAIGNS)
    results = lab.simulate(partial(campaigns, rate, biased, (OURS,)), trials, f"rare.{name_of(rate, biased)}")
    recall, hits = results["truth"][:, 0], results["covered"].sum(axis=0)
    slack = mean_tolerance(float(recall.var()), 1.0, trials)
    worst = int(np.argmin(hits))
    return lab.outcome(
        f"mean recall within {100 * OFF_TARGET:.0f} points of {TARGET:.0%}; 95 % intervals cover in ≥ {COVERED:.0%} of campaigns",
        f"mean recall {recall.mean():.3f}; {MEASURES[worst]} least: {share(int(hits[worst]), trials)}",
        trials=trials,
        passed=abs(float(recall.mean()) - TARGET) <= OFF_TARGET + slack
        and all(at_least(int(n), trials, COVERED) for n in hits),
        error_rate=(1 + len(MEASURES)) * LEVEL,
        detail="; ".join(f"{name} {share(int(n), trials)}" for name, n in zip(MEASURES, hits, strict=True)),
    )


def check_peers(lab: Lab) -> Outcome:
    """Check that as many positive rows are found as by the highest scores, and that no peer has to flag fewer rows for a recall of 80 %."""
    trials = min(lab.trials, MOST_CAMPAIGNS)
    names = tuple(CONTESTANTS)
    kinds = [(rate, biased) for rate in RATES for biased in (True, False)]
    simulations = [
        lab.simulate(partial(campaigns, *kind, names), max(1, trials // len(kinds)), f"rare_peers.{name_of(*kind)}")
        for kind in kinds
    ]
    found, flagged = (np.concatenate([part[name] for part in simulations]) for name in ("found", "flagged"))
    best = 1 + int(np.argmin(flagged[:, 1:].mean(axis=0)))
    more_found = found[:, 0] - LEAST_FOUND * found[:, names.index(HIGHEST)]
    less_flagged = MOST_FLAGGED * flagged[:, best] - flagged[:, 0]
    # A mean of n differences is below 0 by four standard errors in one of 30,000 cases if the claim holds.
    passed = all(x.mean() >= -4.0 * x.std() / np.sqrt(len(x)) for x in (more_found, less_flagged))
    return lab.outcome(
        f"finds ≥ {LEAST_FOUND:g} of the positive rows that the highest scores find; flags ≤ {MOST_FLAGGED:g} × the rows of the best peer at {TARGET:.0%} recall",
        f"found {found[:, 0].mean():.1f}, highest scores {found[:, names.index(HIGHEST)].mean():.1f}; "
        f"flags {flagged[:, 0].mean():.3f}, {names[best]} {flagged[:, best].mean():.3f}",
        trials=len(found),
        passed=passed,
        error_rate=2 * LEVEL,
        detail="; ".join(
            f"{name}: found {f:.1f}, flags {s:.3f}"
            for name, f, s in zip(names, found.mean(axis=0), flagged.mean(axis=0), strict=True)
        ),
    )


def name_of(rate: float, biased: bool) -> str:
    """Return the name of a kind.

    Examples
    --------
    >>> name_of(0.01, True)
    '1-percent-biased'
    """
    return f"{100 * rate:.0f}-percent-{'biased' if biased else 'ordinary'}"


CLAIMS = (
    *(
        Claim(
            f"rare-{name_of(rate, biased)}",
            f"With {100 * rate:.0f} % positive rows and {'a biased' if biased else 'an ordinary'} log, the recall asked for is delivered and intervals cover.",
            "not in the paper",
            partial(check_delivery, rate, biased),
        )
        for rate in RATES
        for biased in (True, False)
    ),
    Claim(
        "rare-peers",
        "Campaigns about a rare class find as many of its rows as the highest scores do, and their models flag no more rows than those of peers.",
        "not in the paper",
        check_peers,
    ),
)
