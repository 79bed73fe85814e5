"""Active learning from observational data: the whole public API on one screen.

Data in: :class:`LoggedData`, :class:`Pool`. Labels bought: :func:`run`, or :class:`Session` with ask and tell.
How rows are chosen: a method such as :class:`ExactDBAL`. The parts are modules of pure functions: ``weights``, ``risk``,
``bounds``, ``label_complexity``, ``hypotheses``.
"""

from observal.errors import ObservalError
from observal.hypotheses import FiniteClass, HalfPlanes, Rectangles, Stumps, Thresholds
from observal.methods import ExactDBAL, Method
from observal.session import Session, run
from observal.types import Interval, LoggedData, Pool, Query, Round, RunResult

__version__ = "0.1.0"

__all__ = [
    "ExactDBAL",
    "FiniteClass",
    "HalfPlanes",
    "Interval",
    "LoggedData",
    "Method",
    "ObservalError",
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
