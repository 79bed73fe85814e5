"""Active learning from observational data: the whole public API on one screen.

Data in: :class:`LoggedData`, :class:`Pool`. Labels bought: :func:`run`, or :class:`Session` with ask and tell.
How rows are chosen: a method such as :class:`ActiveVC` or :class:`ExactDBAL`. Without any labels to buy:
:class:`LoggedClassifier`. The parts are modules of pure functions: ``weights``, ``risk``, ``bounds``,
``label_complexity``, ``disagreement``, ``hypotheses``.
"""

from typing import TYPE_CHECKING, Any

from observal.errors import ObservalError
from observal.hypotheses import FiniteClass, HalfPlanes, Rectangles, Stumps, Thresholds
from observal.methods import Active18, ActiveVC, CommitteeVC, ExactDBAL, Method, NewtonVC, Passive
from observal.session import Session, run
from observal.types import Interval, LoggedData, Pool, Query, Round, RunResult

if TYPE_CHECKING:
    from observal.learners import GradientClassifier, LoggedClassifier

__version__ = "0.1.0"

__all__ = [
    "Active18",
    "ActiveVC",
    "CommitteeVC",
    "ExactDBAL",
    "FiniteClass",
    "GradientClassifier",
    "HalfPlanes",
    "Interval",
    "LoggedClassifier",
    "LoggedData",
    "Method",
    "NewtonVC",
    "ObservalError",
    "Passive",
    "Pool",
    "Query",
    "Rectangles",
    "Round",
    "RunResult",
    "Session",
    "Stumps",
    "Thresholds",
    "run",
]


def __getattr__(name: str) -> Any:
    if name in ("GradientClassifier", "LoggedClassifier"):  # lazy: they bring scikit-learn with them
        from observal import learners

        return getattr(learners, name)
    raise AttributeError(f"module 'observal' has no attribute {name!r}")
