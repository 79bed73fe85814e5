"""Labels as they come: which are missing, which are the same, and class codes for them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Ints
from observal.errors import InvalidLabel


def is_missing(value: Any) -> bool:
    """Return whether a label means "not known": None, NaN, NaT or a frame library's null."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value)


def is_absent(value: Any) -> bool:
    """Tell whether a value of any Python type stands for "not known".

    Examples
    --------
    >>> is_absent(None), is_absent(float("nan")), is_absent(0)
    (True, True, False)
    """
    try:
        return is_missing(value)
    except ArithmeticError:  # a decimal that signals "not a number" when compared
        return True
    except (TypeError, ValueError):  # a value that is itself an array
        return False


def plain_label(value: Any) -> Any:
    """Return a label as bool, int, float, str or another plain value; None where it is missing, whole floats as whole numbers.

    Examples
    --------
    >>> plain_label(1.0), plain_label(float("nan")), plain_label(float("inf")), plain_label("1")
    (1, None, inf, '1')
    """
    value = value.item() if isinstance(value, np.generic) else value
    if is_absent(value):
        return None
    if isinstance(value, float | Decimal) and value == value // 1:
        return int(value)
    return value


def missing_mask(values: NDArray[Any]) -> Bools:
    """Return which labels of an array mean "not known"."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind == "O":
        return np.fromiter((is_missing(value) for value in values), dtype=bool, count=values.size)
    return np.zeros(values.shape, dtype=bool)


def encode_labels(values: NDArray[Any], classes: NDArray[Any], what: str) -> Ints:
    """Return each value's position in `classes`; every value must be one of them."""
    lookup = {value: code for code, value in enumerate(classes.tolist())}
    try:
        return np.fromiter((lookup[value] for value in values.tolist()), dtype=np.int64, count=values.size)
    except (KeyError, TypeError):
        strange = next(value for value in values.tolist() if not _is_key(value, lookup))
        raise InvalidLabel(
            f"{what} must be one of the classes {list(lookup)}, but {strange!r} was seen; "
            "correct the label, or name all classes with classes=."
        ) from None


def _is_key(value: Any, lookup: dict[Any, int]) -> bool:
    try:
        return value in lookup
    except TypeError:  # a list, say, cannot be a class
        return False


def distinct_labels(values: NDArray[Any]) -> NDArray[Any]:
    """Return the label values that occur, in order."""
    if values.dtype.kind != "O":
        return np.unique(values)
    seen = set(values.tolist())
    try:
        ordered = sorted(seen)
    except TypeError:  # labels of mixed types cannot be compared; their text can
        ordered = sorted(seen, key=repr)
    out = np.empty(len(ordered), dtype=object)
    out[:] = ordered
    return out


def class_array(classes: list[Any]) -> NDArray[Any]:
    """Return classes as an array: numbers as numbers, anything else as objects.

    Examples
    --------
    >>> class_array([0, 1]), class_array(["bad", "good"])
    (array([0, 1]), array(['bad', 'good'], dtype=object))
    """
    # Whole numbers that a float cannot represent exactly might become equal.
    if all(isinstance(value, bool | int | float) and float(value) == value for value in classes):
        return np.array(classes)
    out = np.empty(len(classes), dtype=object)
    out[:] = classes
    return out
