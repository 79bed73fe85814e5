"""Every error that observal raises on purpose, as a tree.

::

    ObservalError
    ├── InvalidInput (also ValueError)      an argument or a file is invalid
    │   ├── InvalidPropensity               a propensity outside [0, 1], or 0 on a revealed row
    │   ├── InvalidLabel                    a label that is not one of the classes, or only one class
    │   ├── UnknownRow                      an id that was never asked about
    │   ├── CampaignExists                  the path for a new campaign is already in use
    │   ├── NotACampaign                    the file is not a campaign, or another version of observal wrote it
    │   └── PartsChanged                    a Parquet file is not what it was when the campaign was made
    ├── ConflictingAnswer (also ValueError) a different answer for a row that already has one
    ├── ClassTooLarge (also ValueError)     more classifiers than can be enumerated
    ├── CampaignUnavailable                 the campaign's database cannot be reached or written
    ├── ClusterUnavailable                  the Dask cluster cannot be reached, or gave up
    ├── LabelStudioUnavailable              Label Studio cannot be reached, or refused a request
    └── NotPredictable (also TypeError)     a classifier known only by its predictions on given rows

    ObservalWarning (a UserWarning)         something happened that the user should know about

Each message is one sentence of the same shape: what is wrong, what was seen, what to do.
"""

from __future__ import annotations

import re

_SCHEME = r"\b[a-z][a-z0-9+.-]+:/+(?!/)"  # a Path writes :// as :/
_DATABASE = r"\bpostgres[a-z0-9+.-]*:/+(?!/)"
_HIDDEN = "***"
# A password may contain anything, so the part before the last @ of the line is hidden; if that is too much, no harm is done.
_DATABASE_USER = re.compile(rf"({_DATABASE})(?!\*\*\*@)[^\n]*@", re.I)
_DATABASE_PORT = re.compile(rf"({_DATABASE}(?:\[[^]\s]*]|[^/?:@\s\[]*):)(?!\d*(?:[^\w:]|$))[^\s/?]*", re.I)
_USER = re.compile(rf"({_SCHEME})[^\s/?#]*@", re.I)
_QUERY = re.compile(rf"({_SCHEME})([^\s?]*\?)(\S+)", re.I)
_PAIR = re.compile(r"([^=&]+)=([^&]*?)(?=['\"`)\]};:,.…]*(?:&|$))")
_PASSWORD = re.compile(r"(\b\w*password\s*=\s*)('[^']*'|[^\s&]+?)(?=['\"`)\]};:,.…]*(?:[\s&]|$))", re.I)
_SECRET_KEY = re.compile(r"pass|pwd|secret|token|key|cert|sig|auth|cred|user", re.I)
_PLAIN_KEYS = {
    "host",
    "hostaddr",
    "port",
    "dbname",
    "sslmode",
    "connect_timeout",
    "application_name",
    "target_session_attrs",
}


def hide_secrets(text: str) -> str:
    """Return text in which *** stands for the secrets of every address: user and password, and those in the query string.

    Of a database's query string only what is known to be harmless is shown. Every message of ours goes through this function.

    Examples
    --------
    >>> hide_secrets("postgresql://ann:secret@db.example.org/audits?sslmode=require&sslpassword=secret is busy")
    'postgresql://***@db.example.org/audits?sslmode=require&sslpassword=*** is busy'
    >>> hide_secrets("s3://key:secret@bucket/log.parquet and https://example.org/?page=2&token=secret")
    's3://***@bucket/log.parquet and https://example.org/?page=2&token=***'
    """
    text = _DATABASE_USER.sub(rf"\1{_HIDDEN}@", text)
    text = _DATABASE_PORT.sub(rf"\1{_HIDDEN}", text)
    text = _USER.sub(rf"\1{_HIDDEN}@", text)
    text = _QUERY.sub(_hide_query, text)
    return _PASSWORD.sub(rf"\1{_HIDDEN}", text)


def _hide_query(address: re.Match[str]) -> str:
    scheme, place, query = address.groups()
    is_database = scheme.lower().startswith("postgres")

    def hide(pair: re.Match[str]) -> str:
        plain = pair[1] in _PLAIN_KEYS if is_database else not _SECRET_KEY.search(pair[1])
        return pair[0] if plain else f"{pair[1]}={_HIDDEN}"

    return scheme + place + _PAIR.sub(hide, query)


class ObservalError(Exception):
    """Base of all errors that observal raises on purpose; the secrets of addresses in its sentence are hidden."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(hide_secrets(sentence))


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
    """The file is not a campaign, or another version of observal wrote it."""


class PartsChanged(InvalidInput):
    """A Parquet file that a campaign refers to is not what it was when the campaign was made."""


class ClusterUnavailable(ObservalError):
    """The Dask cluster cannot be reached, or gave up."""


class LabelStudioUnavailable(ObservalError):
    """Label Studio cannot be reached, or refused a request."""


class CampaignUnavailable(ObservalError):
    """The campaign's database cannot be reached, is busy for too long, or cannot be written."""


class ConflictingAnswer(ObservalError, ValueError):
    """A different answer for a row that already has one."""


class ClassTooLarge(ObservalError, ValueError):
    """A class with more members on this data than can be enumerated."""


class NotPredictable(ObservalError, TypeError):
    """A classifier known only by its predictions on given rows was asked about other rows."""


class ObservalWarning(UserWarning):
    """Something happened that the user should know about, such as propensities raised to a floor."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(hide_secrets(sentence))


def one_line(error: object, most: int = 120) -> str:
    """Return what another library's error says as part of a sentence of ours: on one line, not too long, without a full stop."""
    return hide_secrets(" ".join(str(error).split()))[:most].rstrip(".") or type(error).__name__
