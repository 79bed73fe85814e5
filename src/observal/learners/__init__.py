"""Classifiers that train on importance-weighted rows, those for scikit-learn among them.

The latter are imported when first used: NewtonVC's own fit needs no scikit-learn, which takes a second to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from observal.learners.gradient import GradientClassifier
    from observal.learners.logged import LoggedClassifier

__all__ = ["GradientClassifier", "LoggedClassifier"]

_LATER = {"GradientClassifier": "observal.learners.gradient", "LoggedClassifier": "observal.learners.logged"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
