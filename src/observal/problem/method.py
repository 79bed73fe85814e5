"""What a method is: a frozen dataclass with a few pure functions, and class variables that say what it can do.

A method keeps nothing between calls: everything it knows after a round is in the state it returned, which it is given again
in the next call. A method of your own works in `run` and `Session` as it is. To store one in a session's file or a campaign, list it
in ``observal.journal.codec``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Bools, Floats, Ints
from observal.errors import InvalidInput
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round
from observal.problem.rows import Features

if TYPE_CHECKING:  # before Python 3.13 only the type checker knows defaults of type variables
    from typing_extensions import TypeVar

    StateT = TypeVar("StateT", default=Any)
else:
    from typing import TypeVar

    StateT = TypeVar("StateT")


class Classifier(Protocol):
    """A fitted classifier: ours, or a user's own."""

    @property
    def classes_(self) -> NDArray[Any]:
        """The label values."""
        ...

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        ...


class ProbabilisticClassifier(Classifier, Protocol):
    """A fitted classifier that also gives probabilities."""

    def predict_proba(self, X: Features) -> Floats:
        """Return the chance of each class."""
        ...


def has_probabilities(classifier: Classifier) -> TypeGuard[ProbabilisticClassifier]:
    """Return whether a classifier gives probabilities, which some have only with certain settings."""
    return hasattr(classifier, "predict_proba")


def threshold_of(classifier: object) -> float | None:
    """Return the least chance of the second class at which it is predicted; None if a classifier does not say.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> threshold_of(SimpleNamespace(threshold=0.2)), threshold_of(SimpleNamespace())
    (0.2, None)
    """
    threshold = getattr(classifier, "threshold", None)
    # A user's own classifier may have a setting of that name that is not a number, as scikit-learn's FixedThresholdClassifier does.
    return threshold if isinstance(threshold, float) else None


class TwoClassPredictions:
    """``predict`` and ``score`` in the caller's classes, for a classifier that can tell which rows are positive."""

    classes_: NDArray[Any]

    def positive(self, X: Features) -> Bools:
        """Return which rows are of the second class."""
        raise NotImplementedError

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        return np.asarray(self.classes_[self.positive(X).astype(np.intp)])

    def score(self, X: Features, y: ArrayLike) -> float:
        """Return the share of rows predicted right."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


class Method(ABC, Generic[StateT]):
    """Base class of all methods: five functions that a method must have, and what else it can do, each with a default.

    A session or a campaign calls ``begin`` once; then for every round ``plan`` and, when all its answers are in, ``advance``.
    ``describe`` and ``intervals`` may be called at any time. All of them are pure: the same arguments give the same result. What a
    method knows between rounds is its state, an object of any class; the type variable stands for that class.

    A method inherits from this class, sets the class variables (or properties) for what it can do, and overrides the functions that
    have defaults where it can do better.

    Examples
    --------
    >>> import observal as ob
    >>> ob.NewtonVC().plans_ahead, ob.NewtonVC(order="stream").plans_ahead, ob.Passive().plans_ahead
    (True, False, False)
    """

    stops_early: ClassVar[bool] = False
    """Whether a run may stop before the budget is spent, when more labels are unlikely to help; see ``observal.intervals.stopping``."""
    calibrated: ClassVar[bool] = False
    """Whether the classifier's chances were set by labels that its fits had not seen, so that the stopping rule can take them as they are."""
    pool_may_grow: ClassVar[bool] = False
    """Whether states stay valid when rows are added to the pool."""
    by_parts: ClassVar[bool] = False
    """Whether it looks at rows in blocks (``observal.problem.rows.Rows.map``), so that they may stay in Parquet. Other methods are given
    all rows in memory."""
    takes_frames: ClassVar[bool] = False
    """Whether it is given the user's own tables, with text and missing values. Other methods are given numbers."""
    follows_objective: ClassVar[bool] = False
    """Whether the classifier's threshold follows the objective. Other methods refuse any objective but the error."""
    curve_from_one_run: ClassVar[bool] = True
    """Whether round k of a long run is what a run stopped there would return. Only experiments read it."""
    begins_without: ClassVar[tuple[str, ...]] = ()
    """Settings, all numbers, that ``begin`` does not use, so that experiments begin only once for all their values. Only read where
    ``curve_from_one_run`` is False."""

    @property
    def fit(self) -> NoReturn:
        """Not there: it raises as soon as it is looked up, because scikit-learn looks before it calls."""
        raise InvalidInput(
            f"{type(self).__name__} is a method, which chooses rows to label, and not a scikit-learn estimator; use ob.BlendClassifier() in "
            "pipelines and cross-validation, and give methods to ob.run, ob.Session or ob.Campaign."
        )

    __sklearn_clone__ = fit

    def summary(self) -> str:
        """Return the method as text, with the settings that do not have their default.

        Examples
        --------
        >>> import observal as ob
        >>> ob.NewtonVC(batch=20).summary()
        'NewtonVC(batch=20)'
        """
        settings: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()
        changed = [
            f"{setting.name}={' '.join(repr(value).split())}"
            for setting in settings
            if setting.init and setting.repr
            if not np.array_equal(value := getattr(self, setting.name), cast(Any, setting.default))
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    @property
    def plans_ahead(self) -> bool:
        """Whether more rows can be chosen while a round is open. The states must be ``PoolState``."""
        return False

    @property
    def records_rounds(self) -> bool:
        """Whether intervals cost no further fit once a round is planned, so that a campaign records them with the next round.

        The states must be ``PoolState``.
        """
        return False

    @abstractmethod
    def begin(self, problem: Problem, rng: np.random.Generator) -> StateT:
        """Return the initial state, which knows only the log."""

    @abstractmethod
    def plan(self, problem: Problem, state: StateT, rng: np.random.Generator) -> Plan | Stop:
        """Decide about the next round, or say why there is none."""

    @abstractmethod
    def advance(
        self, problem: Problem, state: StateT, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> StateT:
        """Return the state after the planned round, given its answers."""

    @abstractmethod
    def describe(self, problem: Problem, state: StateT) -> Round:
        """Return the round as people see it."""

    @abstractmethod
    def intervals(self, problem: Problem, state: StateT) -> dict[str, Interval]:
        """Return intervals for the classifier that `describe` returns, on the whole population: "error" at least."""

    def estimator_of(self, problem: Problem, state: StateT) -> Any:
        """Return the classifier that `describe` returns; override it where that need not look at the pool."""
        return self.describe(problem, state).estimator

    def returned_round(self, problem: Problem, state: StateT) -> int | None:
        """Return the earlier round whose classifier is returned; None if it is the state's own."""
        return None

    def near_of(self, problem: Problem, state: StateT, plan: Plan, rows: Ints) -> Ints | None:
        """Return those of some pool rows that a plan made in a state would have taken; used when the pool grows. None if unknown."""
        return None

    def judged(self, problem: Problem, state: StateT) -> JudgedRows | None:
        """Return the labelled rows as fits that have not seen them judge them; None if unknown.

        The report shows errors by group with them, and compares the model with others.
        """
        return None

    def stored_model(self, problem: Problem, state: StateT) -> object | None:
        """Return a record of a state's model, from which ``recall`` makes it again without fitting; None if there is none.

        A campaign stores it. Its class is listed in ``observal.journal.records``.
        """
        return None

    def recall(self, problem: Problem, state: StateT, record: Any) -> StateT:
        """Return a state with the model of a record; raise InvalidInput if it cannot be this state's, because anybody may have written it."""
        return state


def check_method(method: object) -> Method:
    """Return a method instance; raise for anything else, including the class itself.

    Examples
    --------
    >>> import observal as ob
    >>> check_method(ob.Passive()).stops_early
    False
    """
    if not isinstance(method, Method):
        raise InvalidInput(
            f'method must be "auto", "newton" or a method such as AutoVC(), but is {method!r}; pass one of them, or an instance of a class '
            "that inherits from observal.Method."
        )
    return method
