"""The interface of a method: a frozen dataclass with a few pure functions, and class variables for its abilities.

A method keeps nothing between calls: everything it knows after a round is in the state it returned, which the
next call receives. Your own method works in `run` and `Session` right away. To store one in a session's file
or a campaign, list it in ``observal.journal.codec``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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

if TYPE_CHECKING:  # type variables have defaults at runtime only from Python 3.13 on
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
        """Return class probabilities."""
        ...


def has_probabilities(classifier: Classifier) -> TypeGuard[ProbabilisticClassifier]:
    """Return whether a classifier has probabilities, which may depend on its settings."""
    return hasattr(classifier, "predict_proba")


def check_classes(classifier: Classifier, classes: Sequence[Any], rows: Features | None = None) -> None:
    """Reject a classifier whose ``classes_``, or predictions for some rows, are not all among the given classes."""
    values = np.asarray(getattr(classifier, "classes_", [])).tolist()
    values += [] if rows is None else np.ravel(classifier.predict(rows)).tolist()
    if wrong := [value for value in values if value not in classes]:
        raise InvalidInput(
            f"{type(classifier).__name__} predicts {wrong[0]!r:.80}, but the classes are {list(classes)!r:.200}; use a "
            "classifier that predicts these values."
        )


def threshold_of(classifier: object) -> float | None:
    """Return the smallest probability at which the second class is predicted; None if unknown.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> threshold_of(SimpleNamespace(threshold=0.2)), threshold_of(SimpleNamespace())
    (0.2, None)
    """
    threshold = getattr(classifier, "threshold", None)
    # A user's classifier may have a non-numeric `threshold`, as scikit-learn's FixedThresholdClassifier does.
    return threshold if isinstance(threshold, float) else None


class TwoClassPredictions:
    """``predict`` and ``score`` in the caller's classes, for a classifier that implements ``positive``."""

    classes_: NDArray[Any]

    def positive(self, X: Features) -> Bools:
        """Return which rows are in the second class."""
        raise NotImplementedError

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        return np.asarray(self.classes_[self.positive(X).astype(np.intp)])

    def score(self, X: Features, y: ArrayLike) -> float:
        """Return the accuracy."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


class Method(ABC, Generic[StateT]):
    """Base class of all methods: five required functions, and optional abilities with defaults.

    A session or campaign calls ``begin`` once; then for every round ``plan`` and, when all its answers are
    in, ``advance``. ``describe`` and ``intervals`` may be called at any time. All are pure: the same
    arguments give the same result. What a method knows between rounds is its state, an object of any class;
    the type variable stands for it.

    A subclass sets the class variables (or properties) for what it can do, and overrides the default
    functions where it can do better.

    Examples
    --------
    >>> import observal as ob
    >>> ob.NewtonVC().plans_ahead, ob.NewtonVC(order="stream").plans_ahead, ob.Passive().plans_ahead
    (True, False, False)
    """

    stops_early: ClassVar[bool] = False
    """Whether a run may stop early when more labels are unlikely to help; see ``observal.intervals.stopping``."""
    calibrated: ClassVar[bool] = False
    """Whether the classifier's probabilities are calibrated out of fold, so that the stopping rule can trust them."""
    pool_may_grow: ClassVar[bool] = False
    """Whether states stay valid when rows are added to the pool."""
    by_parts: ClassVar[bool] = False
    """Whether it processes rows in blocks (``observal.problem.rows.Rows.map``), so that they may stay in Parquet. Other
    methods get all rows in memory."""
    takes_frames: ClassVar[bool] = False
    """Whether it accepts the user's own tables, with text and missing values. Other methods get numbers."""
    follows_objective: ClassVar[bool] = False
    """Whether the objective sets the classifier's threshold. Other methods reject any objective but the error."""
    curve_from_one_run: ClassVar[bool] = True
    """Whether round k of a long run equals the result of a run stopped there. Used only by experiments."""
    begins_without: ClassVar[tuple[str, ...]] = ()
    """Numeric settings that ``begin`` does not use, so that experiments call it once for all their values. Used only
    if ``curve_from_one_run`` is False."""

    @property
    def fit(self) -> NoReturn:
        """Not available: raises on attribute access, because scikit-learn checks for it before calling."""
        raise InvalidInput(
            f"{type(self).__name__} is a method, which chooses rows to label, and not a scikit-learn estimator; use ob.BlendClassifier() in "
            "pipelines and cross-validation, and give methods to ob.run, ob.Session or ob.Campaign."
        )

    __sklearn_clone__ = fit

    def summary(self) -> str:
        """Return the method as text, with its non-default settings.

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
        """Whether the next round can be chosen while one is open. States must be ``PoolState``."""
        return False

    @property
    def records_rounds(self) -> bool:
        """Whether intervals need no further fit once a round is planned, so that a campaign records them with it.

        States must be ``PoolState``.
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
        """Return the round's public summary."""

    @abstractmethod
    def intervals(self, problem: Problem, state: StateT) -> dict[str, Interval]:
        """Return intervals for the classifier of `describe` on the whole population: at least "error"."""

    def estimator_of(self, problem: Problem, state: StateT) -> Any:
        """Return the classifier of `describe`; override it if that can avoid predicting the pool."""
        return self.describe(problem, state).estimator

    def returned_round(self, problem: Problem, state: StateT) -> int | None:
        """Return the earlier round whose classifier is returned; None for the current one."""
        return None

    def near_of(self, problem: Problem, state: StateT, plan: Plan, rows: Ints) -> Ints | None:
        """Return which of these new pool rows a plan would have taken, for when the pool grows; None if unknown."""
        return None

    def judged(self, problem: Problem, state: StateT) -> JudgedRows | None:
        """Return the labelled rows with held-out predictions; None if unknown.

        The report uses them for errors by group and to compare models.
        """
        return None

    def stored_model(self, problem: Problem, state: StateT) -> object | None:
        """Return a record of the state's model that ``recall`` can restore without fitting; None if there is none.

        A campaign stores it. Its class is listed in ``observal.journal.records``.
        """
        return None

    def recall(self, problem: Problem, state: StateT, record: Any) -> StateT:
        """Return a state with the recorded model, which is untrusted; raise InvalidInput if it cannot be the state's."""
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
