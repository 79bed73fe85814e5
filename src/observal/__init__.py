"""Active learning from observational data: the whole public API on one screen.

- Data: :class:`LoggedData`, :class:`Pool`, or tables and files with :func:`load_problem`.
- Check whether the log can be trusted: :func:`diagnose`.
- Buy labels: :func:`run`, :class:`Session` with ask and tell, or :class:`Campaign` over days and with several people.
- Choose a method: :class:`AutoVC`, the default, :class:`NewtonVC`, :class:`CommitteeVC`, :class:`ExactDBAL` and others.
- Use the results: :func:`write_report`, :func:`load_model`.
- Fit the log alone, without buying labels: :class:`LoggedClassifier`.
- The paper's formulas: ``weights``, ``risk``, ``bounds``, ``label_complexity``, ``disagreement``, ``hypotheses``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from observal.errors import ObservalError, ObservalWarning
from observal.hypotheses import FiniteClass, HalfPlanes, Rectangles, Stumps, Thresholds
from observal.methods import Active18, ActiveVC, AutoVC, CommitteeVC, ExactDBAL, Method, NewtonVC, Passive
from observal.problem import LoggedData, Pool, Problem
from observal.session import Session, run
from observal.types import Answers, Interval, Plan, Query, Round, RunResult, Stop

if TYPE_CHECKING:
    from observal import campaign, importers, label_complexity, propensity, tables
    from observal.campaign import Campaign, load_model
    from observal.diagnosis import Diagnosis, diagnose
    from observal.learners.blend_classifier import BlendClassifier
    from observal.learners.gradient import GradientClassifier
    from observal.learners.logged import LoggedClassifier
    from observal.report.html import ReportContent, write_report
    from observal.tables import TableEncoder, TableRoles, load_problem, read_table

__version__ = "0.2.0.dev0"

__all__ = [
    "Active18",
    "ActiveVC",
    "Answers",
    "AutoVC",
    "BlendClassifier",
    "Campaign",
    "CommitteeVC",
    "Diagnosis",
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
    "ObservalWarning",
    "Passive",
    "Plan",
    "Pool",
    "Problem",
    "Query",
    "Rectangles",
    "ReportContent",
    "Round",
    "RunResult",
    "Session",
    "Stop",
    "Stumps",
    "TableEncoder",
    "TableRoles",
    "Thresholds",
    "campaign",
    "diagnose",
    "importers",
    "label_complexity",
    "load_model",
    "load_problem",
    "propensity",
    "read_table",
    "run",
    "tables",
    "write_report",
]

# Imported when first used, because they bring scikit-learn, pyarrow or a database with them.
_LATER = {
    "BlendClassifier": "observal.learners.blend_classifier",
    "Campaign": "observal.campaign",
    "Diagnosis": "observal.diagnosis",
    "GradientClassifier": "observal.learners.gradient",
    "LoggedClassifier": "observal.learners.logged",
    "ReportContent": "observal.report.html",
    "TableEncoder": "observal.tables",
    "TableRoles": "observal.tables",
    "diagnose": "observal.diagnosis",
    "load_model": "observal.campaign",
    "load_problem": "observal.tables",
    "read_table": "observal.tables",
    "write_report": "observal.report.html",
}
_PARTS = ("campaign", "importers", "label_complexity", "propensity", "tables")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"observal.{name}")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'observal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
