"""Methods and plans in a campaign's journal: :mod:`observal.journal.codec` with arrays inside the JSON, and messages for campaigns."""

from __future__ import annotations

from typing import Any

from observal.errors import InvalidInput, NotACampaign, ObservalError
from observal.journal import codec
from observal.methods import Method
from observal.problem.plan import Plan
from observal.problem.result import Recorded


def encode(value: Any) -> Any:
    """Return a method or plan as plain values for JSON.

    Examples
    --------
    >>> import observal as ob
    >>> decode_method(encode(ob.ExactDBAL(ob.Thresholds(), gamma=0.1))) == ob.ExactDBAL(ob.Thresholds(), gamma=0.1)
    True
    """
    encoded = codec.encode(value, where=type(value).__name__)
    if lost := codec.unsaved(encoded):
        raise InvalidInput(
            f"A campaign can store numbers, text and classes of observal and scikit-learn, but the method has {lost}; use a method without it."
        )
    return encoded


def decode_plan(encoded: Any) -> Plan:
    """Return a recorded plan."""
    plan = _decode(encoded, "plan")
    if not isinstance(plan, Plan):
        raise NotACampaign(f"The campaign has {plan!r:.60} instead of a plan; use an undamaged copy.")
    return plan


def decode_recorded(encoded: Any) -> Recorded | None:
    """Return what was known when a round was opened; None if it was not recorded."""
    found = None if encoded is None else _decode(encoded, "record of a round")
    if not isinstance(found, Recorded | None):
        raise NotACampaign(f"The campaign has {found!r:.60} instead of a record; use an undamaged copy.")
    return found


def decode_method(encoded: Any) -> Method:
    """Return a recorded method."""
    method = _decode(encoded, "method")
    if not isinstance(method, Method):
        raise NotACampaign(f"The campaign has {method!r:.60} instead of a method; use an undamaged copy.")
    return method


def _decode(encoded: Any, where: str) -> Any:
    try:
        return codec.decode(encoded, where=where)
    except ObservalError as error:
        raise NotACampaign(f"The campaign's {where} cannot be read: {error}") from error
