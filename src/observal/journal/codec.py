"""Methods, plans and records as JSON and back. Only the classes listed here are rebuilt, and nothing can run code.

The caller chooses whether arrays are stored inside the JSON (a campaign's journal) or beside it (a session's file).
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput, ObservalError
from observal.journal.rebuild import build, changed_settings, sklearn_estimators
from observal.methods import Active18, ActiveVC, AutoVC, CommitteeVC, ExactDBAL, NewtonVC, Passive
from observal.paper.dichotomies import Dichotomies
from observal.paper.hypotheses import FiniteClass, HalfPlanes, Rectangles, Stumps, Thresholds
from observal.problem.column_groups import ColumnGroups
from observal.problem.data import LoggedData, Pool
from observal.problem.frames import Frame
from observal.problem.interval import Interval
from observal.problem.plan import Plan
from observal.problem.result import Recorded

_METHODS = (Active18, ActiveVC, AutoVC, CommitteeVC, ExactDBAL, NewtonVC, Passive)
_RECORDS = (ColumnGroups, Interval, LoggedData, Plan, Pool, Recorded)
_OTHERS = (Dichotomies, FiniteClass, HalfPlanes, Rectangles, Stumps, Thresholds)
CLASSES: dict[str, type[Any]] = {kind.__name__: kind for kind in (*_METHODS, *_RECORDS, *_OTHERS)}

_TEXT: dict[str, Callable[[str], Any]] = {"UUID": uuid.UUID, "Decimal": decimal.Decimal}
_DATES: dict[str, Callable[[str], Any]] = {
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
}
_PLAIN_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "fiu"}  # the kind of an inline array → the kinds of its values
_DEEPEST = 40
_MOST_COLUMNS = 1 << 25  # of a sparse matrix, whose columns take no space in the file

Arrays = list[NDArray[Any]]
ReadArray = Callable[[int], NDArray[Any]]


# -- writing ----------------------------------------------------------------------------------------------------


def encode(value: Any, arrays: Arrays | None = None, where: str = "value") -> Any:
    """Return numbers, text, dates, arrays and observal's own records as plain values for JSON.

    What cannot be stored becomes ``{"unsaved": …}``, which :func:`unsaved` finds.

    Parameters
    ----------
    value : object
        What to store.
    arrays : list, optional
        Arrays are added to this list, and the JSON has their number in it; without it the JSON has their values.
    where : str
        What `value` is called in messages.

    Examples
    --------
    >>> import observal as ob
    >>> encode(ob.Thresholds())
    {'type': 'Thresholds', 'fields': {'feature': 0, 'both_signs': True}}
    >>> decode(encode(ob.ExactDBAL(ob.Thresholds(), gamma=0.1))) == ob.ExactDBAL(ob.Thresholds(), gamma=0.1)
    True
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays, where)
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [encode(item, arrays, where) for item in value]}
    if hasattr(value, "tocsr") and arrays is not None:
        csr = value.tocsr()
        parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": tuple(csr.shape)}
        return {"csr": {name: encode(part, arrays, where) for name, part in parts.items()}}
    if isinstance(value, Frame) and arrays is not None and (packed := value.to_bytes()) is not None:
        return {"frame": encode(packed, arrays, where), "library": value.library, "what": value.what}
    name = type(value).__name__
    if type(value) in (uuid.UUID, decimal.Decimal):
        return {"text": [name, str(value)]}
    if type(value) in (datetime.date, datetime.datetime):
        return {"date": [name, value.isoformat()]}
    if CLASSES.get(name) is type(value):
        fields = [f.name for f in dataclasses.fields(value) if f.init]
        return {
            "type": name,
            "fields": {field: encode(getattr(value, field), arrays, f"{where}.{name}.{field}") for field in fields},
        }
    if arrays is None and hasattr(value, "get_params") and not isinstance(value, type):
        return _encode_estimator(value, where)
    return {"unsaved": f"{where}: {name}"}


def _encode_estimator(value: Any, where: str) -> Any:
    """Return an estimator of scikit-learn by its name and settings, without what it learned; any other estimator counts as unsaved."""
    name = f"{type(value).__module__}.{type(value).__name__}"
    if sklearn_estimators().get(name) is not type(value):
        return {"unsaved": f"{where}: {type(value).__name__}"}
    inside = f"{where}.{type(value).__name__}"
    return {
        "estimator": name,
        "settings": {key: encode(item, None, f"{inside}.{key}") for key, item in changed_settings(value).items()},
    }


def _encode_array(value: NDArray[Any], arrays: Arrays | None, where: str) -> Any:
    if value.dtype.kind == "O":
        return {"objects": [encode(item, arrays, where) for item in value.tolist()]}
    if arrays is not None:
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if value.dtype.kind in _PLAIN_KINDS and np.isfinite(value).all():
        return {"array": value.dtype.str, "values": value.tolist()}  # JSON keeps every digit of a float
    return {"unsaved": f"{where}: array of {value.dtype}"}


def unsaved(encoded: Any) -> str:
    """Return the first part of an encoded value that could not be stored, in words; empty if there is none.

    Examples
    --------
    >>> unsaved(encode((1, len), where="method"))
    'method: builtin_function_or_method'
    """
    if isinstance(encoded, dict):
        return (
            str(encoded["unsaved"]) if "unsaved" in encoded else next(filter(None, map(unsaved, encoded.values())), "")
        )
    return next(filter(None, map(unsaved, encoded)), "") if isinstance(encoded, list) else ""


# -- reading ----------------------------------------------------------------------------------------------------


def decode(encoded: Any, read_array: ReadArray | None = None, where: str = "value") -> Any:
    """Return the value that :func:`encode` was given.

    Parameters
    ----------
    encoded : object
        From JSON, and not trusted: if anything is wrong with it, :class:`InvalidInput` is raised.
    read_array : callable, optional
        Returns the array with a number, if arrays were stored beside the JSON.
    where : str
        What the value is called in messages.

    Examples
    --------
    >>> decode({"type": "Thresholds", "fields": {"feature": 2}})
    Thresholds(feature=2, both_signs=True)
    >>> decode({"type": "os:system", "fields": {}})
    Traceback (most recent call last):
        ...
    observal.errors.InvalidInput: The file names the class 'os:system', which this version of observal does not have; use the version that wrote it.
    """
    try:
        return _decode(encoded, read_array, where, 0)
    except ObservalError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"The entry {where!r} cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:80]}); "
            "use an undamaged copy."
        ) from error


def _decode(value: Any, read_array: ReadArray | None, where: str, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if not isinstance(value, dict) or depth > _DEEPEST:
        raise ValueError("nested too deeply" if isinstance(value, dict) else f"unexpected {type(value).__name__}")

    def inner(item: Any) -> Any:
        return _decode(item, read_array, where, depth + 1)

    if "float" in value:
        return float(value["float"])
    if "array" in value:
        return _inline_array(value) if read_array is None else read_array(_whole(value["array"]))
    if "objects" in value:
        out = np.empty(len(value["objects"]), dtype=object)
        out[:] = [inner(item) for item in _list(value["objects"])]
        return out
    if "tuple" in value:
        return tuple(inner(item) for item in _list(value["tuple"]))
    if "list" in value:
        return [inner(item) for item in _list(value["list"])]
    if "text" in value or "date" in value:
        kind, text = value.get("text") or value["date"]
        return (_TEXT if "text" in value else _DATES)[kind](text)
    if "csr" in value:
        return _csr({name: inner(part) for name, part in value["csr"].items()})
    if "frame" in value:
        return Frame.from_bytes(inner(value["frame"]), value["library"], str(value["what"]))
    if "type" in value:
        return _record(value, inner)
    if "estimator" in value:
        return _estimator(value, inner)
    if "unsaved" in value:
        raise InvalidInput(
            f"{value['unsaved']} could not be stored in the file; pass it again, as in Session.load(path, {where}=…)."
        )
    raise ValueError(f"unexpected entry with {list(value)[:3]}")


def _estimator(value: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
    """Return an estimator of scikit-learn, not fitted; its name is looked up in a list, never imported."""
    kind = sklearn_estimators().get(value["estimator"])
    if kind is None:
        raise InvalidInput(
            f"The file names the estimator {value['estimator']!r:.80}, which is not one of scikit-learn's; use the version that wrote it."
        )
    return kind(**{name: inner(item) for name, item in value["settings"].items()})


def _record(value: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
    """Return one of the listed records; its class is looked up in a list, never imported."""
    name = value["type"]
    kind = CLASSES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidInput(
            f"The file names the class {name!r:.80}, which this version of observal does not have; use the version that wrote it."
        )
    unknown = value["fields"].keys() - {field.name for field in dataclasses.fields(kind) if field.init}
    if unknown:
        raise InvalidInput(
            f"The file has a setting {min(unknown)!r:.80} of {kind.__name__}, which this version of observal does not have; "
            "use the version that wrote it."
        )
    return build(kind, {name: inner(item) for name, item in value["fields"].items()})


def in_short(settings: Any) -> str:
    """Return a frozen dataclass as text, with the fields that do not have their default.

    Examples
    --------
    >>> import observal as ob
    >>> in_short(ob.NewtonVC(batch=20))
    'NewtonVC(batch=20)'
    """
    changed = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.init and field.repr and not np.array_equal(value, cast(Any, field.default)):
            changed.append(f"{field.name}={' '.join(repr(value).split())}")
    return f"{type(settings).__name__}({', '.join(changed)})"


# -- checking ---------------------------------------------------------------------------------------------------


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r:.20} is not the number of an array")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"a {type(value).__name__} instead of a list")
    return value


def _inline_array(value: dict[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(value["array"] if isinstance(value["array"], str) else "O")
    if dtype.kind not in _PLAIN_KINDS:
        raise ValueError(f"an array of {dtype!s:.20}")
    plain = np.array(_list(value["values"]))
    array: NDArray[Any] = np.array(value["values"], dtype=dtype)
    if plain.size and plain.dtype.kind not in _PLAIN_KINDS[dtype.kind]:
        raise ValueError(f"{plain.dtype} values in an array of {dtype}")
    return array


def _csr(parts: dict[str, Any]) -> Any:
    from scipy.sparse import csr_matrix

    shape = parts["shape"]
    if len(shape) != 2 or not all(isinstance(n, int) for n in shape) or not 0 <= shape[1] <= _MOST_COLUMNS:
        raise ValueError(f"a sparse matrix of shape {shape!r:.40}")
    if parts["data"].dtype.kind not in "biuf" or len(parts["indptr"]) != shape[0] + 1:
        raise ValueError("the parts of a sparse matrix do not match")
    matrix = csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
    matrix.check_format(full_check=True)
    return matrix
