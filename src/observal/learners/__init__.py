"""scikit-learn classifiers that train on importance-weighted rows."""

from __future__ import annotations

from observal.learners.gradient import GradientClassifier

__all__ = ["GradientClassifier"]
