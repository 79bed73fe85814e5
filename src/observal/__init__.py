"""Active learning from observational data: the whole public API on one screen.

- Data: ``LoggedData``, ``Pool``, or tables and files with ``load``.
- Check whether the log can be trusted: ``diagnose``.
- Buy labels: ``run``, ``Session`` with ask and tell, or ``Campaign`` over days and with several people.
- Choose a method: ``AutoVC``, the default, ``NewtonVC``, ``CommitteeVC``, ``ExactDBAL`` and others.
- Use the results: ``write_report``, ``load_model``, ``score_table``.
- Fit the log alone, without buying labels: ``LoggedClassifier``.
- The paper's formulas: ``weights``, ``risk``, ``bounds``, ``label_complexity``, ``disagreement``, ``hypotheses``.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from observal.errors import ObservalError, ObservalWarning

if TYPE_CHECKING:
    from observal import campaign, tables
    from observal.campaign import Campaign, load_model
    from observal.diagnosis import Diagnosis, diagnose, propensity
    from observal.exchange.scored_table import score_table
    from observal.journal.campaign_tables import TableOptions
    from observal.learners.blend_classifier import BlendClassifier
    from observal.learners.logged import LoggedClassifier
    from observal.methods import Active18, ActiveVC, AutoVC, CommitteeVC, ExactDBAL, Method, NewtonVC, Passive
    from observal.paper import bounds, disagreement, hypotheses, label_complexity, risk, weights
    from observal.paper.hypotheses import FiniteClass, HalfPlanes, Rectangles, Stumps, Thresholds
    from observal.problem.data import LoggedData, Pool
    from observal.problem.interval import Interval
    from observal.problem.plan import Answers, Plan, Query, Stop
    from observal.problem.problem import Problem
    from observal.problem.result import Round, RunResult
    from observal.report.html import ReportContent, write_report
    from observal.session import Session, run
    from observal.tables import TableEncoder, TableRoles, load, load_problem, read_table

__version__ = "0.2.0"

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
    "TableOptions",
    "TableRoles",
    "Thresholds",
    "bounds",
    "campaign",
    "diagnose",
    "disagreement",
    "hypotheses",
    "label_complexity",
    "load",
    "load_model",
    "load_problem",
    "propensity",
    "read_table",
    "risk",
    "run",
    "score_table",
    "tables",
    "weights",
    "write_report",
]

# Imported when first used: `import observal` and `observal --help` wait for none of them.
_HOMES = {
    "campaign": ("Campaign", "TableOptions", "load_model"),
    "diagnosis": ("Diagnosis", "diagnose"),
    "exchange.scored_table": ("score_table",),
    "learners.blend_classifier": ("BlendClassifier",),
    "learners.logged": ("LoggedClassifier",),
    "methods": ("Active18", "ActiveVC", "AutoVC", "CommitteeVC", "ExactDBAL", "Method", "NewtonVC", "Passive"),
    "paper.hypotheses": ("FiniteClass", "HalfPlanes", "Rectangles", "Stumps", "Thresholds"),
    "problem.data": ("LoggedData", "Pool"),
    "problem.interval": ("Interval",),
    "problem.plan": ("Answers", "Plan", "Query", "Stop"),
    "problem.problem": ("Problem",),
    "problem.result": ("Round", "RunResult"),
    "report.html": ("ReportContent", "write_report"),
    "session": ("Session", "run"),
    "tables": ("TableEncoder", "TableRoles", "load", "load_problem", "read_table"),
}
# Modules that are read as attributes of the package, such as ``observal.weights``.
_MODULES = {
    "diagnosis": ("propensity",),
    "paper": ("bounds", "disagreement", "hypotheses", "label_complexity", "risk", "weights"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULE_OF = {name: f"observal.{home}.{name}" for home, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"observal.{_HOME_OF[name]}"), name)
    if name in _MODULE_OF:
        return import_module(_MODULE_OF[name])
    if not name.startswith("_") and find_spec(f"observal.{name}") is not None:
        return import_module(f"observal.{name}")
    raise AttributeError(f"module 'observal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
