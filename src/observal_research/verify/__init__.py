"""The paper's worked examples and claims, each an executable check: ``observal-research verify``.

``CLAIMS`` lists them and ``verify`` runs them. Each check calls the library for what is under test and computes
the truth by other means: sums over a finite distribution, exact binomial probabilities, closed forms, or rows never seen.
The last claims are not from the paper: they check how often our intervals cover the truth.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from observal.errors import InvalidInput
from observal_research.verify import (
    algorithm,
    candidates,
    coverage,
    deviation,
    given_labels,
    looking,
    mis,
    passive,
    rare_classes,
    warnings,
)
from observal_research.verify.claims import Claim, Lab, Outcome, Results

__all__ = ["CLAIMS", "Claim", "Outcome", "Report", "verify"]

LEAST_TRIALS = 50
"""With fewer trials the error rates of the checks would not hold."""
CLAIMS: tuple[Claim, ...] = (
    *passive.CLAIMS,
    *mis.CLAIMS,
    *deviation.CLAIMS,
    *algorithm.CLAIMS,
    *candidates.CLAIMS,
    *warnings.CLAIMS,
    *coverage.CLAIMS,
    *looking.CLAIMS,
    *rare_classes.CLAIMS,
    *given_labels.CLAIMS,
)


@dataclass(frozen=True)
class Report:
    """The results of ``verify``.

    Parameters
    ----------
    outcomes : tuple of Outcome
        One for each claim that was run.
    trials, random_state : int
        As given to ``verify``.
    seconds : tuple of float
        How long each claim took.
    """

    outcomes: tuple[Outcome, ...]
    trials: int
    random_state: int
    seconds: tuple[float, ...]

    @property
    def passed(self) -> bool:
        """Whether every claim holds."""
        return all(outcome.passed for outcome in self.outcomes)

    def rows(self) -> list[tuple[str, str, str, str, str, str]]:
        """Return (claim, promised, measured, trials, error rate, passed) as text, one row for each claim."""
        return [
            (
                outcome.claim,
                outcome.promised,
                outcome.measured,
                f"{outcome.trials:,}" if outcome.trials else "exact",
                f"{outcome.error_rate:.0e}" if outcome.error_rate else "0",
                "yes" if outcome.passed else "NO",
            )
            for outcome in self.outcomes
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        about = {claim.name: {"statement": claim.statement, "source": claim.source} for claim in CLAIMS}
        return {
            "passed": self.passed,
            "trials": self.trials,
            "seed": self.random_state,
            "seconds": sum(self.seconds),
            "claims": [
                {**asdict(outcome), **about.get(outcome.claim, {}), "seconds": seconds}
                for outcome, seconds in zip(self.outcomes, self.seconds, strict=True)
            ],
        }


def verify(
    trials: int = 2000,
    random_state: int = 0,
    only: str | Sequence[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    jobs: int | None = None,
    claims: Sequence[Claim] = CLAIMS,
) -> Report:
    """Check the claims, and return what was promised and what was measured.

    Parameters
    ----------
    trials : int
        Monte Carlo trials for each claim that is checked by simulation.
    random_state : int
        Results depend on `trials` and `random_state`, not on the number of processes.
    only : str or sequence of str, optional
        Names of the claims to run; all by default.
    progress : callable, optional
        Called with (claims done, number of claims, what is running).
    jobs : int, optional
        Processes; one per core by default.
    claims : sequence of Claim
        What to choose from.

    Examples
    --------
    >>> report = verify(trials=50, only="clip-example", jobs=1)
    >>> report.passed, report.rows()[0][0]
    (True, 'clip-example')
    """
    if trials < LEAST_TRIALS:
        raise InvalidInput(
            f"verify needs at least {LEAST_TRIALS} trials for its error rates to hold, but got {trials}; 2000 is full size."
        )
    if jobs is not None and jobs < 1:
        raise InvalidInput(f"verify needs at least 1 process, but got {jobs}; leave it out for one per core.")
    names = [claim.name for claim in claims]
    requested = names if only is None else [only] if isinstance(only, str) else list(only)
    unknown = [name for name in requested if name not in names]
    if unknown or not requested:
        raise InvalidInput(f"There is no claim {unknown}; choose from {', '.join(names)}.")
    selection = [claim for claim in claims if claim.name in requested]
    processes = jobs if jobs is not None else os.cpu_count() or 1
    cache: dict[tuple[str, int], Results] = {}
    outcomes, seconds = [], []
    for done, claim in enumerate(selection):
        tell = _report_blocks(progress, done, len(selection), claim.name)
        tell(0, 0)
        start = time.perf_counter()
        outcomes.append(_run_check(claim, Lab(claim.name, trials, random_state, processes, tell, cache)))
        seconds.append(time.perf_counter() - start)
    if progress is not None:
        progress(len(selection), len(selection), "done")
    return Report(tuple(outcomes), trials, random_state, tuple(seconds))


def _report_blocks(
    progress: Callable[[int, int, str], None] | None, done: int, total: int, name: str
) -> Callable[[int, int], None]:
    def tell(blocks: int, of: int) -> None:
        if progress is not None:
            progress(done, total, f"{name} ({blocks}/{of})" if of else name)

    return tell


def _run_check(claim: Claim, lab: Lab) -> Outcome:
    """Run a check; an exception counts as a failure and does not stop the other checks."""
    try:
        return claim.check(lab)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Outcome(claim.name, claim.statement, f"raised {reason}", 0, False, 0.0, reason)
