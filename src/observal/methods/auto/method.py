"""AutoVC: few labels for a good classifier of whatever kind, chosen from a pool; nothing to tune."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from observal.checks import Floats, Ints, check_flag, check_number, check_share, check_whole, keep
from observal.errors import InvalidInput
from observal.intervals.state import PoolState, taken_for_gap
from observal.methods.auto.surprises import explored, surprises
from observal.methods.draw import Chances, Choice, Draw, draw, draw_plan, least_chance, open_and_passing
from observal.methods.stream import StreamRule, StreamState, stream_plan
from observal.problem.interval import Interval
from observal.problem.method import Method
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round

FIRST_BATCH = 10  # labels of the first rounds: small ones gain most while little is known
GROWTH = 4  # later rounds have a quarter of the labels bought: a constant 10 was no better and takes twice the time
MEASURING = {"accuracy": 0.0, "balanced": 0.25, "measure": 0.5}
"""The least share of a batch that is picked at random, by what labels are for."""
LEARNERS = ("linear", "additive", "kernel", "forest", "boosted")


@dataclass(frozen=True)
class AutoVC(Method[PoolState]):
    """A blend of five kinds of learners; asks where its lead is smallest, and at random where the log has few labels.

    The blend is :class:`observal.BlendClassifier`'s: a linear, an additive and a kernel model, a forest and boosted trees, weighted by how
    well each predicts labels that it has not seen. Two classes or more. Sparse rows have the linear model only.

    Parameters
    ----------
    batch : int, optional
        Labels per round; by default 10 in the first rounds, and a quarter of the labels bought once that is more.
    explore_share, most_explore_share : float
        The least and the most of each batch that is spread evenly over the rows that pass the gate. In between the
        labels decide: see Notes.
    learners : tuple
        Some of "linear", "additive", "kernel", "forest" and "boosted", or pairs of another name and a scikit-learn classifier.
    tempering : float
        Importance weights are raised to this power: 1 is the full correction, 0 none.
    clip : bool
        Whether weights are cut at the paper's threshold.
    clip_constant : float
        Stands for the log term of that threshold, as C in the paper's experiments.
    priority : {"accuracy", "balanced", "measure"}
        What labels are for: a good classifier ("accuracy"), a narrow interval around its error ("measure"), or both. "measure" picks at
        least half of each batch at random, "balanced" a quarter, where mistakes are likely and the log has few labels.
    order : {"pool", "stream"}
        Whether the whole pool is there to choose from, or its rows arrive one by one and each is decided on at once.

    Notes
    -----
    **Choice.** With f the share picked at random and G the rows that pass the gate (2·n > m·Q0, n the labels bought with this batch),
    ``π(x) = (1 − f)·1{among the smallest leads} + f·batch/G·1{passes}``. Rows picked at random are a fair sample of the rows for which
    the log has few labels. Before it asks, the blend notes for each row its guess and the chance that this is wrong. f is how
    much more often guesses on rows picked at random are wrong than these chances say, within limits. On an ordinary log that is about
    0, so little is explored; if the log makes the blend confidently wrong, it is large, and exploring is worth it.

    **Kept choices.** Weights of the learners and their settings are chosen again each time the number of labels
    has grown by half, and kept in between. The fit is a function of the labels and of these choices alone.

    **Streams.** A row is uncertain if its lead is smaller than that of nine tenths of the log's rows; see
    :func:`~observal.methods.stream.stream_chances`. Uncertain rows are asked about whether they pass the gate or not. No row is looked
    at before its turn, not even to see how features are spread.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
    >>> chance = np.where(X[:, 0] > 0, 0.5, 0.05)
    >>> shown = rng.random(300) < chance[:300]
    >>> logged = ob.LoggedData(X[:300], np.where(shown, y[:300], None), chance[:300])
    >>> pool = ob.Pool(X[300:], chance[300:])
    >>> result = ob.run(logged, pool, lambda ids: y[300:][ids], ob.AutoVC(), label_budget=40)
    >>> result.estimator.score(X, y) > 0.9
    True
    """

    batch: int | None = None
    explore_share: float = 0.1
    most_explore_share: float = 0.5
    learners: tuple[Any, ...] = LEARNERS
    tempering: float = 0.5
    clip: bool = True
    clip_constant: float = 4.0
    order: Literal["pool", "stream"] = "pool"
    priority: Literal["accuracy", "balanced", "measure"] = "accuracy"

    stops_early: ClassVar[bool] = True
    calibrated: ClassVar[bool] = True
    follows_objective: ClassVar[bool] = True
    by_parts: ClassVar[bool] = True
    pool_may_grow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.order not in ("pool", "stream"):
            raise InvalidInput(f'order must be "pool" or "stream", but is {self.order!r}.')
        if self.priority not in MEASURING:
            raise InvalidInput(
                f"priority must be one of {', '.join(MEASURING)}, but is {self.priority!r}; choose one of them."
            )
        keep(
            self,
            batch=None if self.batch is None else check_whole(self.batch, "batch", 1),
            explore_share=check_share(self.explore_share, "explore_share"),
            most_explore_share=check_share(self.most_explore_share, "most_explore_share"),
            tempering=check_number(self.tempering, "tempering", 0.0),
            clip=check_flag(self.clip, "clip"),
            clip_constant=check_number(self.clip_constant, "clip_constant", 0.0, open_low=True),
        )
        if self.explore_share > self.most_explore_share:
            raise InvalidInput(
                f"explore_share must be no larger than most_explore_share, but they are {self.explore_share} and "
                f"{self.most_explore_share}; correct one."
            )
        if self.learners != LEARNERS:  # checking others needs scikit-learn
            from observal.learners.blend import check_learners

            check_learners(self.learners)

    @property
    def records_rounds(self) -> bool:
        """Whether intervals cost little once a round is planned, so that they are recorded with it."""
        return self.order == "pool"

    @property
    def plans_ahead(self) -> bool:
        """Whether the next rows can be chosen while a round is open; a stream is taken in order."""
        return self.order == "pool"

    def choice(self, state: PoolState) -> Choice:
        """Return how the round after a state chooses."""
        batch = self.batch if self.batch is not None else max(FIRST_BATCH, state.bought.size // GROWTH)
        least = max(self.explore_share, MEASURING[self.priority])
        share = explored(surprises(state), least, max(least, self.most_explore_share))
        return Choice(batch, share, 1.0, to_measure=self.priority != "accuracy")

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> PoolState:
        """Return the initial state."""
        from observal.methods.auto.model import Fitter

        kind = StreamState if self.order == "stream" else PoolState
        return kind.start(problem, Fitter.of(self, problem))

    def plan(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan | Stop:
        """Draw the rows of the next round, and note what the blend thinks of them."""
        if not state.any_left(problem):
            return Stop()
        choice = self.choice(state)
        if isinstance(state, StreamState):
            return self._stream_plan(problem, state, choice, rng)
        if state.model.blend.is_constant:
            drawn = at_random(problem, state, choice)
        else:  # rows behind the gate are only picked at random: their leads may be confidently wrong
            judged, nobody = state.model.judged, np.broadcast_to(np.False_, len(problem.pool))
            drawn = draw(problem, state, choice, judged.margins, nobody, judged.doubt)
        plan = draw_plan(drawn, rng)
        near, gaps = state.model.as_near(plan, state.labelled(problem)[0])
        return replace(self._noted(problem, state, plan), near=near, near_gaps=gaps)

    def _stream_plan(self, problem: Problem, state: StreamState, choice: Choice, rng: np.random.Generator) -> Plan:
        """Look at the next rows, as :func:`~observal.methods.stream.stream_plan` says, and note what the blend thinks of them."""
        rule = StreamRule(state.model.uncertain_lead, choice.batch, choice.explore_share, gate_share=0.0)
        return self._noted(problem, state, stream_plan(rule, problem, state, rng))

    def _noted(self, problem: Problem, state: PoolState, plan: Plan) -> Plan:
        """Return a plan with what the blend thinks of its rows."""
        judged = state.model.blend.judge(problem.pool.X[plan.positions], state.model.odds)
        return replace(plan, inferred=judged.codes, doubt=judged.doubt)

    def advance(
        self, problem: Problem, state: PoolState, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> PoolState:
        """Add the answers."""
        n_bought = state.bought.size + int(answers.answered.sum())
        return state.after(plan, answers, state.fit.after(state, n_bought))

    def estimator_of(self, problem: Problem, state: PoolState) -> Any:
        """Return the classifier of a state without looking at the pool."""
        return state.model.estimator

    def describe(self, problem: Problem, state: PoolState) -> Round:
        """Return the round as people see it."""
        model, choice = state.model, self.choice(state)
        blend = model.blend
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(blend.names, blend.theta, strict=True))
        return state.as_round(
            estimator=model.estimator,
            clip=model.clip,
            disagreement=model.disagreement,
            least_chance=choice.explore_share if self.order == "stream" else least_chance(problem, state, choice),
            learners=weights,
        )

    def intervals(self, problem: Problem, state: PoolState) -> dict[str, Interval]:
        """Return intervals for the error and, with two classes, more; see :mod:`observal.intervals.error`.

        Labelled rows are judged by blends fitted without a tenth of the labels. With more than 2,000 labels the out-of-fold chances
        that the blend has anyway are close enough: they leave a quarter out. The lower end for the error allows for the labels that these fits lack.
        """
        from observal.intervals.error import intervals_of

        return intervals_of(problem, state, state.model.judged_labels)

    def near_of(self, problem: Problem, state: PoolState, plan: Plan, rows: Ints) -> Ints:
        """Return those of some pool rows that a plan would have taken, had they been in the pool when it was made in a state."""
        taken = taken_for_gap(plan)
        both = problem.n_logged + np.concatenate([taken, rows])
        leads = state.model.unlabelled_leads(both, state.labelled(problem)[0])
        return np.asarray(rows[leads[taken.size :] <= leads[: taken.size].max(initial=-np.inf)])

    def judged(self, problem: Problem, state: PoolState) -> tuple[Ints, Ints, Ints, Floats] | None:
        """Return the labelled rows, their classes, what fits that have not seen them say, and what each stands for."""
        found = state.model.judged_labels
        return None if found is None else found.weighted()


def at_random(problem: Problem, state: PoolState, choice: Choice) -> Draw:
    """Return equal chances for all rows that pass the gate: what is left while the blend says the same of every row."""
    open_, passing = open_and_passing(problem, state, choice)
    size = min(choice.batch, int(open_.sum()))
    chance = min(1.0, size / max(1, int(passing.sum())))
    nobody = np.empty(0, dtype=np.int64)
    return Draw(Chances(passing.view(np.uint8), np.array([0.0, chance])), nobody, nobody)
