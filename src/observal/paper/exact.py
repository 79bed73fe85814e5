"""ExactDBAL: the paper's Algorithm 1 on a finite class, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Bools, Floats, Ints, Signs, check_number, check_share, keep
from observal.errors import InvalidInput
from observal.paper.bounds import candidate_slack, certified_gamma, epoch_confidence, log_term
from observal.paper.dichotomies import Dichotomies
from observal.paper.epochs import EpochState, check_epochs, check_importance, fit_epochs
from observal.paper.hypotheses import HypothesisClass, Member, Restriction
from observal.paper.risk import RiskSums, clipped, mismatch_sums, uniform_error_interval
from observal.paper.weights import (
    clip_threshold,
    importance,
    online_mass,
    passive_clip_threshold,
    plain_importance,
    query_policy,
)
from observal.problem.frames import by_name
from observal.problem.interval import Interval
from observal.problem.method import Method, TwoClassPredictions
from observal.problem.plan import ASKED, INFERRED, PASSED, Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round
from observal.problem.rows import Features

REASONS = (
    "plausible classifiers disagree here",
    "all plausible classifiers agree, so the label is inferred",
    "the log has enough labels here",
    "every row is asked about",
)
_DISPUTED, _AGREED, _WELL_LOGGED, _EVERYTHING = range(4)


@dataclass(frozen=True)
class ExactDBAL(Method["_State"]):
    """Disagreement-based active learning from a log, exactly as the paper's Algorithm 1, on a finite class.

    Parameters
    ----------
    hypotheses : HypothesisClass
        A ``FiniteClass``, or a class that is finite on the data: ``Thresholds``, ``Stumps``,
        ``HalfPlanes``, ``Rectangles``.
    confidence : float
        1 − δ: the promised probability that the best classifier is never ruled out.
    epochs : tuple of int, optional
        τ_1 ≤ τ_2 ≤ …: pool rows to look at in each round; 2, 4, 8, … by default. Rows left over join the last round.
    gamma : "certified" or float
        The γ1 of the candidate sets. The certified one follows from the paper's lemmas (``certified_gamma``) and is
        safe but slow to rule classifiers out; any smaller number is practical, and marked as not certified.
    propensity_distribution : tuple of two sequences, optional
        The values that Q0 takes and their probabilities, where known. Otherwise clip thresholds come from the
        propensities of log and pool, and the run is marked as not certified.
    clip, regulariser, bias_correction, multiple_importance, disagreement : bool
        Parts of the algorithm that can be switched off, as the paper's discussion does. Without `clip` no row is
        dropped and the largest weight stands for M_k. Without `regulariser` the final objective is plain and
        V̂(h, ĥ_k) becomes M_k·(l(h) + l(ĥ_k)). Without `bias_correction` every row may be asked about. Without
        `multiple_importance` (only together with no `bias_correction`, because a row that its epoch would never ask
        about has no weight of its own) each row weighs by its own policy. Without `disagreement` nothing is inferred
        and no classifier is ruled out.

    Notes
    -----
    For k = 0, 1, …, with N = m + n_k, L_k = log(|H|/δ_k) and δ_k = δ/(2(k+1)(k+2)):

    1. M_k is ``clip_threshold``.
    2. ĥ_k = argmin over C_k of the clipped loss l(h; S̃_k, M_k).
    3. C_{k+1} = {h ∈ C_k : l(h) ≤ l(ĥ_k) + γ1·σ1 + γ1·sqrt(σ2·V̂(h, ĥ_k))}, σ1 as in the appendix.
    4. Rows of the next epoch with 2·n_{k+1} > m·Q0(x) are asked about where two members of C_{k+1} differ, and labelled
       by ĥ_k where all agree.

    Each round's estimator is the final step at that point: argmin over C_k of l(h) + γ1·sqrt(L_k/N · V̂(h)). The
    algorithm box writes M_k in the final step; M_K is meant. A row that is skipped counts as never drawn.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-1, 1, 600)
    >>> logged = ob.LoggedData(x[:300, None], np.where(x[:300] > 0.3, 1, -1), propensity=1.0)
    >>> pool = ob.Pool(x[300:, None], propensity=0.0)
    >>> result = ob.run(logged, pool, lambda ids: np.where(x[300:][ids] > 0.3, 1, -1),
    ...                 ob.ExactDBAL(ob.Thresholds(), gamma=0.1))
    >>> [round.candidates for round in result.rounds][0] > result.rounds[-1].candidates
    True
    """

    hypotheses: HypothesisClass
    confidence: float = 0.95
    epochs: tuple[int, ...] | None = None
    gamma: float | Literal["certified"] = "certified"
    propensity_distribution: tuple[ArrayLike, ArrayLike] | None = None
    clip: bool = True
    regulariser: bool = True
    bias_correction: bool = True
    multiple_importance: bool = True
    disagreement: bool = True

    def __post_init__(self) -> None:
        keep(
            self,
            confidence=check_share(self.confidence, "confidence", inner=True, fix="0.95 is usual"),
            gamma=check_number(self.gamma, "gamma", 0.0, word="certified"),
        )
        if isinstance(self.hypotheses, type) or not isinstance(self.hypotheses, HypothesisClass):
            raise InvalidInput(f"hypotheses must be a class such as Stumps(), but is {self.hypotheses!r}; make one.")
        check_epochs(self.epochs)
        check_importance(self.bias_correction, self.multiple_importance)

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> _State:
        """Enumerate the class on log and pool, and analyse the log alone."""
        problem.require_two_classes("ExactDBAL")
        context = _Context.of(self, problem)
        start = _State(
            context=context,
            schedule=_schedule(self.epochs, len(problem.pool)),
            candidates=np.arange(len(context.log)),
            pool_signs=np.zeros(len(problem.pool), dtype=np.int8),
        )
        return self._analyse(problem, start)

    def plan(self, problem: Problem, state: _State, rng: np.random.Generator) -> Plan | Stop:
        """Take the next epoch of the stream and decide about each row: steps 4 and 5."""
        if not state.schedule:
            return Stop()
        positions = state.next_positions
        size = positions.size
        gate = np.ones(size, dtype=bool)
        if self.bias_correction:
            gate = query_policy(problem.pool.propensity[positions], problem.n_logged, state.next_gate)
        disputed = state.region[positions] if self.disagreement else np.ones(size, dtype=bool)
        action = np.where(gate, np.where(disputed, ASKED, INFERRED), PASSED).astype(np.int8)
        asked_because = _DISPUTED if self.disagreement else _EVERYTHING
        inferred = state.context.pool.signs(state.erm)[positions]
        return Plan(
            positions,
            (action == ASKED).astype(np.float64),
            action,
            ((inferred + 1) // 2).astype(np.int64),
            np.choose(action, [asked_because, _AGREED, _WELL_LOGGED]).astype(np.int8),
            REASONS,
        )

    def advance(
        self, problem: Problem, state: _State, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> _State:
        """Add an epoch with its queried and inferred labels, and analyse all rows so far: steps 1 to 4."""
        signs = state.pool_signs.copy()
        inferred = plan.action == INFERRED
        signs[plan.positions[inferred]] = 2 * plan.inferred[inferred] - 1
        signs[plan.asked[answers.answered]] = 2 * answers.codes[answers.answered] - 1
        return self._analyse(
            problem,
            replace(
                state, pool_signs=signs, candidates=state.candidates[state.kept], **state.fields_after(plan, answers)
            ),
        )

    def describe(self, problem: Problem, state: _State) -> Round:
        """Return the round for display."""
        return state.as_round(
            clip=state.clip,
            disagreement=float(state.region.mean()),
            estimator=FiniteClassifier(state.context.restriction.member(state.output), problem.logged.classes),
            candidates=int(state.kept.sum()),
            details={
                "estimated_loss": state.output_loss,
                "gamma": state.gamma,
                "certified": not state.uncertified,
                "not_certified_because": state.uncertified,
            },
        )

    def intervals(self, problem: Problem, state: _State) -> dict[str, Interval]:
        """Return an interval from the log's real labels that holds for every member of the class at once."""
        logged, (values, mass) = problem.logged, state.context.distribution
        clip = passive_clip_threshold(values, len(logged), log_term(len(state.context.log), 1 - self.confidence), mass)
        weights = clipped(
            plain_importance(state.context.log_propensity), clip, np.ones(len(state.context.log_signs), bool)
        )
        wrong = state.context.log.signs(state.output) != state.context.log_signs
        weights = weights * state.context.log_cost
        sums = RiskSums(len(logged), np.asarray(weights[wrong].sum()), np.asarray((weights[wrong] ** 2).sum()))
        hidden = plain_importance(values) > clip
        hidden_mass = float(np.mean(hidden) if mass is None else np.sum(np.asarray(mass)[hidden]))
        interval = uniform_error_interval(sums, clip, hidden_mass, len(state.context.log), self.confidence)
        doubt = f"; approximate, because {state.uncertified}" if state.uncertified else ""
        return {"error": replace(interval, method=interval.method + doubt)}

    # -- steps 1 to 4 and the final step ------------------------------------------------------------------------

    def _analyse(self, problem: Problem, state: _State) -> _State:
        context, k = state.context, len(state.epochs)
        rows = problem.n_logged + state.counted
        log_h = log_term(len(context.log), epoch_confidence(1 - self.confidence, k))
        gamma = self.gamma
        if gamma == "certified":
            gamma = certified_gamma(len(context.log), epoch_confidence(1 - self.confidence, k))
        clip = self._clip(problem, state, log_h)
        bound = clip if self.clip else self._largest_weight(problem, state)

        members = state.candidates
        pool_signs = state.pool_signs[: state.looked]
        log_weights, pool_weights = self._weights(problem, state, clip)

        def sums(subset: Ints, log_reference: Signs, pool_reference: Signs, power: int) -> Floats:
            total = mismatch_sums(context.log, log_reference, log_weights**power, subset)
            return total + mismatch_sums(context.pool, pool_reference, pool_weights**power, subset)

        loss = sums(members, context.log_signs, pool_signs, 1) / rows
        best = _first_least(loss)
        erm = int(members[best])
        sigma2 = log_h / rows
        survives = np.ones(members.size, dtype=bool)
        if self.disagreement and np.isfinite(bound):
            sigma1, _ = candidate_slack(bound, rows, log_h)
            excess = loss - loss[best] - gamma * sigma1 - _rounding(loss[best])
            # V̂(h, ĥ) ≤ M·(l(h) + l(ĥ)), so most members are kept or ruled out without looking at V̂ itself.
            survives = excess <= gamma * np.sqrt(sigma2 * bound * (loss + loss[best]))
            unclear = np.flatnonzero(survives & (excess > 0)) if self.regulariser else np.empty(0, dtype=np.int64)
            erm_in_pool = context.pool.signs(erm)[: state.looked]
            pair = sums(members[unclear], context.log.signs(erm), erm_in_pool, 2) / rows
            survives[unclear] = excess[unclear] <= gamma * np.sqrt(sigma2 * pair)

        output = best
        if self.regulariser:
            # l(h) is below the objective, so only members with l(h) under the objective of ĥ can do better.
            (second,) = sums(members[[best]], context.log_signs, pool_signs, 2) / rows
            rivals = np.flatnonzero(loss <= loss[best] + gamma * np.sqrt(sigma2 * second) + _rounding(loss[best]))
            seconds = sums(members[rivals], context.log_signs, pool_signs, 2) / rows
            output = int(rivals[_first_least(loss[rivals] + gamma * np.sqrt(sigma2 * seconds))])
        return replace(
            state,
            clip=clip,
            gamma=float(gamma),
            erm=erm,
            kept=survives,
            region=context.pool.disagreement(members[survives]),
            output=int(members[output]),
            output_loss=float(loss[output]),
        )

    def _clip(self, problem: Problem, state: _State, log_h: float) -> float:
        if not self.clip:
            return float(np.inf)
        values, mass = state.context.distribution
        if self.multiple_importance:
            return clip_threshold(values, problem.n_logged, state.counted, log_h, mass)
        return passive_clip_threshold(values, problem.n_logged + state.counted, log_h, mass)

    def _largest_weight(self, problem: Problem, state: _State) -> float:
        values, mass = state.context.distribution
        possible = np.asarray(values)[np.asarray(mass) > 0] if mass is not None else np.asarray(values)
        if not self.multiple_importance:
            return float(plain_importance(possible).max())
        return float(self._importance(problem, state, possible).max())

    def _importance(self, problem: Problem, state: _State, propensity: Floats) -> Floats:
        logged = problem.n_logged
        mass: Floats | float = float(state.counted)
        if self.bias_correction:
            mass = online_mass(propensity, logged, state.epochs, state.gates)
        return importance(propensity, logged, state.counted, mass)

    def _weights(self, problem: Problem, state: _State, clip: float) -> tuple[Floats, Floats]:
        """Return the clipped weight of each revealed logged row and of each pool row looked at, costs included."""
        context = state.context
        pool_propensity = problem.pool.propensity[: state.looked]
        if self.multiple_importance:
            log_weights = self._importance(problem, state, context.log_propensity)
            pool_weights = self._importance(problem, state, pool_propensity)
        else:
            log_weights, pool_weights = plain_importance(context.log_propensity), np.ones(state.looked)
        labelled = state.pool_signs[: state.looked] != 0
        cost = 1.0 if problem.pool.cost is None else problem.pool.cost[: state.looked]
        return (
            clipped(log_weights, clip, np.ones(log_weights.size, dtype=bool)) * context.log_cost,
            clipped(pool_weights, clip, labelled) * cost,
        )


@dataclass(frozen=True, eq=False)
class FiniteClassifier(TwoClassPredictions):
    """One member of a finite class as a classifier."""

    member: Member
    classes_: NDArray[Any] = field(repr=False)

    def positive(self, X: Features) -> Bools:
        """Return which rows are of the second class."""
        return np.asarray(self.member.signs(by_name(X, getattr(self, "feature_names_in_", None))) > 0)


@dataclass(frozen=True, eq=False)
class _Context:
    """What follows from class and data alone: predictions on the revealed logged rows and on the pool."""

    restriction: Restriction
    log: Dichotomies
    pool: Dichotomies
    log_signs: Signs
    log_propensity: Floats
    log_cost: Floats
    distribution: tuple[Floats, Floats | None]
    uncertified: str

    @classmethod
    def of(cls, method: ExactDBAL, problem: Problem) -> _Context:
        logged = problem.logged
        restriction = method.hypotheses.restrict(problem.stack().to_matrix())
        revealed = np.flatnonzero(logged.revealed)
        distribution = method.propensity_distribution
        doubts = [
            (restriction.fixed, "the class was enumerated on the data"),
            (distribution is not None, "the clip thresholds come from sampled propensities"),
            (method.gamma == "certified", "gamma is a practical choice"),
        ]
        sampled = problem.propensity
        return cls(
            restriction,
            restriction.dichotomies.take_rows(revealed),
            restriction.dichotomies.take_rows(np.arange(problem.n_logged, problem.n_rows)),
            (2 * logged.codes[revealed] - 1).astype(np.int8),
            logged.propensity[revealed],
            np.ones(revealed.size) if logged.cost is None else logged.cost[revealed],
            (sampled, None) if distribution is None else _check_distribution(*distribution, sampled),
            "; ".join(reason for fine, reason in doubts if not fine),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _State(EpochState):
    """What is known after epoch k. `candidates` is C_k; `kept` marks its members that are in C_{k+1}."""

    context: _Context = field(repr=False)
    candidates: Ints
    pool_signs: Signs  # queried or inferred labels of the pool, 0 where there is none
    clip: float = np.inf
    gamma: float = np.nan
    erm: int = 0
    kept: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    region: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    output: int = 0
    output_loss: float = np.nan

    @property
    def uncertified(self) -> str:
        """Why the paper's guarantee does not cover this run; nothing where it does."""
        doubts = [
            self.context.uncertified,
            "rows were skipped" if self.looked > self.counted else "",
            "the label budget cut a round short" if self.cut else "",
        ]
        return "; ".join(filter(None, doubts))


def _first_least(values: Floats) -> int:
    """Return the first position of the least value; differences that only rounding makes do not count."""
    least = values.min()
    return int(np.argmax(values <= least + _rounding(least)))


def _rounding(value: float) -> float:
    """Return how far sums that are equal on paper may be apart."""
    return 1e-12 * max(1.0, value)


def _schedule(epochs: tuple[int, ...] | None, n_pool: int) -> tuple[int, ...]:
    """Return the epochs asked for, or 2, 4, 8, …, as far as the pool goes."""
    return fit_epochs((2 ** (k + 1) for k in range(n_pool.bit_length())) if epochs is None else epochs, n_pool)


def _check_distribution(values: ArrayLike, mass: ArrayLike, sampled: Floats) -> tuple[Floats, Floats]:
    support, masses = np.asarray(values, dtype=np.float64), np.asarray(mass, dtype=np.float64)
    if support.shape != masses.shape or support.ndim != 1:
        raise InvalidInput(
            f"propensity_distribution needs one probability per value, but has {support.size} values and "
            f"{masses.size} probabilities."
        )
    outside = sampled[:0]
    if support.size < 100:
        outside = sampled[np.abs(sampled[:, None] - np.unique(support)).min(axis=1) > 1e-9]
    if outside.size:
        raise InvalidInput(
            f"propensity_distribution must hold every propensity of log and pool, but {outside[0]} is not among its "
            f"{support.size} values; add it, or leave the distribution out."
        )
    return support, masses
