"""scikit-learn classifiers that train on importance-weighted rows."""

from __future__ import annotations

from observal.learners.gradient import GradientClassifier
from observal.learners.logged import LoggedClassifier

__all__ = ["GradientClassifier", "LoggedClassifier"]
