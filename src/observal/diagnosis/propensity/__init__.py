"""Propensities: the chance that a row's label was revealed, Q0(x) in the paper.

Given by column (:func:`known`), by the policy itself (:func:`from_policy`), or estimated from which rows were revealed
(:func:`estimate`); of several logs together (:func:`mixture_propensity`); raised to a floor, with a warning
(:func:`apply_floor`); and used to count the rows of a log that kept only its labelled ones
(:func:`count_logged_rows`, :func:`complete_log`).
"""

from observal.diagnosis.propensity.estimated import EstimatedPropensity, calibration_error, estimate
from observal.diagnosis.propensity.given import Floored, apply_floor, from_policy, known, mixture_propensity
from observal.diagnosis.propensity.labelled_only import CompletedLog, LoggedRows, complete_log, count_logged_rows

__all__ = [
    "CompletedLog",
    "EstimatedPropensity",
    "Floored",
    "LoggedRows",
    "apply_floor",
    "calibration_error",
    "complete_log",
    "count_logged_rows",
    "estimate",
    "from_policy",
    "known",
    "mixture_propensity",
]
