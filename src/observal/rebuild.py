"""A record made of what a file claims: every field is of its declared type, or the file is refused in one sentence."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from observal.errors import InvalidInput, ObservalError


def build(kind: type[Any], fields: dict[str, Any]) -> Any:
    """Return a record made of fields that a file claims, each of its declared type, checked as any other record is.

    Examples
    --------
    >>> from observal.hypotheses import Thresholds
    >>> build(Thresholds, {"feature": "0"})
    Traceback (most recent call last):
        ...
    observal.errors.InvalidInput: Thresholds has a feature of another type than int, namely str; use an undamaged copy.
    """
    hints = _hints(kind)
    for name, value in fields.items():
        if not _fits(value, hints[name]):
            hint = getattr(hints[name], "__name__", str(hints[name]))
            raise InvalidInput(
                f"{kind.__name__} has a {name} of another type than {hint}, namely {type(value).__name__}; "
                "use an undamaged copy."
            )
    try:
        return kind(**fields)
    except ObservalError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"{kind.__name__} cannot be made from what is recorded ({' '.join(str(error).split())[:80]}); "
            "use an undamaged copy."
        ) from error


def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of a declared type; whole numbers are floats too, truth values are no numbers."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in arguments)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in arguments)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        each = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return len(each) == len(value) and all(map(_fits, value, each))
    if origin is np.ndarray:
        wanted = get_args(arguments[1])[0]
        known = isinstance(wanted, type) and issubclass(wanted, np.generic)
        return isinstance(value, np.ndarray) and (not known or value.dtype.kind == np.dtype(wanted).kind)
    if hint in (int, float):
        return isinstance(value, (int, float) if hint is float else int) and not isinstance(value, bool)
    return isinstance(value, origin or hint)
