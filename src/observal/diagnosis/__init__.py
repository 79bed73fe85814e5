"""Whether a log can be trusted: overlap, weights, calibration, drift and confounding, in words and numbers."""

from __future__ import annotations

from observal.diagnosis.confounding import confounded_range
from observal.diagnosis.diagnose import Diagnosis, GivenDiagnosis, RecordedDiagnosis, diagnose

__all__ = ["Diagnosis", "GivenDiagnosis", "RecordedDiagnosis", "confounded_range", "diagnose"]
