"""Methods and plans as JSON for the journal, and back; nothing in it can run code."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import numpy as np

from observal.errors import InvalidInput, NotACampaign


def encode(value: Any) -> Any:
    """Return numbers, text, arrays and observal's own frozen dataclasses as JSON can hold them.

    Examples
    --------
    >>> import observal as ob
    >>> decode(encode(ob.ExactDBAL(ob.Thresholds(), gamma=0.1))) == ob.ExactDBAL(ob.Thresholds(), gamma=0.1)
    True
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biu":
        return {"array": value.dtype.str, "values": value.tolist()}
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isfinite(value).all():
        return {"array": value.dtype.str, "values": value.tolist()}  # JSON keeps every digit of a float
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [encode(item) for item in value]}
    kind = type(value)
    if dataclasses.is_dataclass(value) and kind.__module__.startswith("observal."):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return {"type": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}
    raise InvalidInput(
        f"A campaign can store numbers, text and observal's own settings, but got {kind.__name__}; use a method without it."
    )


def decode(value: Any) -> Any:
    """Return what :func:`encode` was given; a setting that this observal no longer has is left out."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "array" in value:
        return np.array(value["values"], dtype=value["array"])
    if "tuple" in value:
        return tuple(decode(item) for item in value["tuple"])
    if "list" in value:
        return [decode(item) for item in value["list"]]
    found = _kind(value["type"])
    known = {f.name for f in dataclasses.fields(found) if f.init}
    return found(**{name: decode(item) for name, item in value["fields"].items() if name in known})


def in_short(settings: Any) -> str:
    """Return a frozen dataclass with those of its fields that are not the default.

    Examples
    --------
    >>> import observal as ob
    >>> in_short(ob.NewtonVC(batch=20))
    'NewtonVC(batch=20)'
    """
    changed = []
    for field in dataclasses.fields(settings):
        default: Any = field.default
        value = getattr(settings, field.name)
        if field.init and field.repr and not np.array_equal(value, default):
            changed.append(f"{field.name}={value!r}")
    return f"{type(settings).__name__}({', '.join(changed)})"


def gone_settings(value: Any) -> list[str]:
    """Return the names of recorded settings that this observal no longer has."""
    if not (isinstance(value, dict) and "type" in value):
        return []
    known = {f.name for f in dataclasses.fields(_kind(value["type"])) if f.init}
    inner = [name for item in value["fields"].values() for name in gone_settings(item)]
    return [name for name in value["fields"] if name not in known] + inner


def _kind(name: str) -> Any:
    module, _, qualname = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), qualname, None) if module.startswith("observal.") else None
    except ImportError:
        found = None
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise NotACampaign(
            f"The campaign uses {name!r}, which this observal does not have; use the version that made it."
        )
    return found
