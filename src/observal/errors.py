"""Every error that observal raises on purpose, as a tree.

::

    ObservalError
    ├── InvalidInput (also ValueError)      an argument or a file is invalid
    │   ├── InvalidPropensity               a propensity outside [0, 1], or 0 on a revealed row
    │   ├── InvalidLabel                    a label that is not one of the classes, or only one class
    │   ├── UnknownRow                      an id that was never asked about
    │   ├── CampaignExists                  the path for a new campaign is already in use
    │   ├── NotACampaign                    the file is not a campaign, or a newer observal wrote it
    │   └── PartsChanged                    a Parquet file is not what it was when the campaign was made
    ├── ConflictingAnswer (also ValueError) a different answer for a row that already has one
    ├── ClassTooLarge (also ValueError)     more classifiers than can be enumerated
    ├── CampaignUnavailable                 the campaign's database cannot be reached or written
    ├── ClusterUnavailable                  the Dask cluster cannot be reached, or gave up
    ├── NotPredictable (also TypeError)     a classifier known only by its predictions on given rows
    └── VerificationFailed                  a claim of the paper that did not hold when measured

    ObservalWarning (a UserWarning)         something happened that the user should know about

Each message is one sentence of the same shape: what is wrong, what was seen, what to do.
"""

from __future__ import annotations


class ObservalError(Exception):
    """Base of all errors that observal raises on purpose."""


class InvalidInput(ObservalError, ValueError):
    """An argument or a file is invalid."""


class InvalidPropensity(InvalidInput):
    """A propensity outside [0, 1], or 0 on a row whose label was revealed."""


class InvalidLabel(InvalidInput):
    """A label that is not one of the classes, or a log with only one class."""


class UnknownRow(InvalidInput):
    """An id that the session never asked about."""


class CampaignExists(InvalidInput):
    """The path for a new campaign is already in use."""


class NotACampaign(InvalidInput):
    """The file is not a campaign, or a newer observal wrote it."""


class PartsChanged(InvalidInput):
    """A Parquet file that a campaign refers to is not what it was when the campaign was made."""


class ClusterUnavailable(ObservalError):
    """The Dask cluster cannot be reached, or gave up."""


class CampaignUnavailable(ObservalError):
    """The campaign's database cannot be reached, is busy for too long, or cannot be written."""


class ConflictingAnswer(ObservalError, ValueError):
    """A different answer for a row that already has one."""


class ClassTooLarge(ObservalError, ValueError):
    """A class with more members on this data than can be enumerated."""


class NotPredictable(ObservalError, TypeError):
    """A classifier known only by its predictions on given rows was asked about other rows."""


class VerificationFailed(ObservalError):
    """A claim of the paper did not hold when it was measured."""


class ObservalWarning(UserWarning):
    """Something happened that the user should know about, such as propensities raised to a floor."""


def one_line(error: BaseException, most: int = 120) -> str:
    """Return what another library's error says as part of a sentence of ours: on one line, not too long, without a full stop."""
    return " ".join(str(error).split())[:most].rstrip(".") or type(error).__name__
