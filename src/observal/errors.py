"""Every error observal raises on purpose, as a tree.

::

    ObservalError
    ├── InvalidInput (also ValueError)      what was handed in cannot be right
    │   ├── InvalidPropensity               a propensity outside [0, 1], or 0 on a revealed row
    │   ├── InvalidLabel                    a label that is not one of the classes, or one class only
    │   ├── UnknownRow                      an id that was never asked about
    │   ├── CampaignExists                  a campaign would be made where there is something already
    │   └── NotACampaign                    what was opened is no campaign, or one of a newer observal
    ├── ConflictingAnswer (also ValueError) another answer for a row that has one
    ├── ClassTooLarge (also ValueError)     more classifiers than can be enumerated
    ├── CampaignUnavailable                 the campaign's database does not answer or refuses
    ├── NotPredictable (also TypeError)     a classifier known only by its predictions on given rows
    └── VerificationFailed                  a claim of the paper that did not hold when measured

    ObservalWarning (a UserWarning)         something was done that a user should know of

Each message is one sentence of the same shape: what is wrong, what was seen, what to do.
"""

from __future__ import annotations


class ObservalError(Exception):
    """Base of all errors that observal raises on purpose."""


class InvalidInput(ObservalError, ValueError):
    """What was handed in cannot be right."""


class InvalidPropensity(InvalidInput):
    """A propensity outside [0, 1], or 0 on a row whose label was revealed."""


class InvalidLabel(InvalidInput):
    """A label that is not one of the classes, or a log with one class only."""


class UnknownRow(InvalidInput):
    """An id that the session never asked about."""


class CampaignExists(InvalidInput):
    """A campaign would be made where there is something already."""


class NotACampaign(InvalidInput):
    """What was opened is no campaign, or one that a newer observal has changed."""


class CampaignUnavailable(ObservalError):
    """The campaign's database cannot be reached, is busy for too long or refuses to store."""


class ConflictingAnswer(ObservalError, ValueError):
    """Another answer for a row that already has one."""


class ClassTooLarge(ObservalError, ValueError):
    """A class with more members on this data than can be enumerated."""


class NotPredictable(ObservalError, TypeError):
    """A classifier known only by its predictions on given rows was asked about other rows."""


class VerificationFailed(ObservalError):
    """A claim of the paper did not hold when it was measured."""


class ObservalWarning(UserWarning):
    """Something was done that a user should know of, such as raising propensities to a floor."""
