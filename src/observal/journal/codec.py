"""Methods, plans and records as JSON and back. Only the classes listed here are rebuilt, and nothing can run code.

A value that JSON lacks becomes a dictionary with a tag: ``{"tuple": […]}``, ``{"array": …}``, and
``{"type": NAME, "fields": {…}}`` for a record. Arrays are stored inside the JSON (a campaign's journal) or
beside it (a session's file). On reading, every field of a record must have its declared type.

No library does this: msgspec and cattrs rebuild records by their declared types, but lack arrays, infinite
numbers, and fields that may hold one of several classes, such as an estimator; hooks for these would be as
long as this module.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import inspect
import re
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput, NotACampaign, ObservalError
from observal.journal.settings import Display, Settings, StoredArray
from observal.methods import Active18, ActiveVC, AutoVC, CommitteeVC, ExactDBAL, NewtonVC, Passive
from observal.paper.dichotomies import Dichotomies
from observal.paper.hypotheses import FiniteClass, HalfPlanes, Rectangles, Stumps, Thresholds
from observal.problem.arrow_stream import Budget
from observal.problem.column_groups import ColumnGroups
from observal.problem.data import LoggedData, Pool
from observal.problem.frames import Frame
from observal.problem.goals import Goals
from observal.problem.interval import Interval
from observal.problem.plan import Plan
from observal.problem.result import Recorded
from observal.problem.rows import as_csr
from observal.tables.column_format import ColumnFormat
from observal.tables.encoder import ColumnRule, TableEncoder
from observal.tables.more_rows import PropensityOrigin
from observal.tables.table_format import TableFormat

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Arrays = list[NDArray[Any]]
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class ArraysBeside:
    """Arrays stored beside the JSON: a function that reads one by number, and a budget for unpacking tables."""

    read: Callable[[int], NDArray[Any]]
    budget: Budget


_METHODS = (Active18, ActiveVC, AutoVC, CommitteeVC, ExactDBAL, NewtonVC, Passive)
_SETTINGS = (ColumnGroups, Display, Goals, PropensityOrigin, Settings, StoredArray)
_TABLES = (ColumnFormat, ColumnRule, TableEncoder, TableFormat)
_RECORDS = (Interval, LoggedData, Plan, Pool, Recorded)
_OTHERS = (Dichotomies, FiniteClass, HalfPlanes, Rectangles, Stumps, Thresholds)
CLASSES: dict[str, type[Any]] = {kind.__name__: kind for kind in (*_METHODS, *_SETTINGS, *_TABLES, *_RECORDS, *_OTHERS)}

# Non-plain values of an event's payload: their key, their type, and what messages call them.
ENTRIES: dict[str, tuple[type[Any], str]] = {
    "settings": (Settings, "settings"),
    "plan": (Plan, "plan"),
    "recorded": (Recorded, "record of a round"),
    "arrays": (dict, "list of arrays"),
}
_PLAIN = (bool, int, float, str)
_TEXT: dict[str, Callable[[str], object]] = {"UUID": uuid.UUID, "Decimal": decimal.Decimal}
_DATES: dict[str, Callable[[str], object]] = {
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
}
_PLAIN_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "fiu"}  # dtype kind of an inline array → allowed value kinds
# scikit-learn parameters whose text names steps, columns, categories or a class.
_TEXT_PARAMETERS = (
    *("steps", "transformers", "transformer_list", "estimators"),
    *("categories", "categorical_features", "fill_value", "constant"),
)
_THRESHOLD = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?\s?\*\s?)?(?:mean|median)")  # of SelectFromModel, such as "1.25*mean"
_DEEPEST = 40
_MAX_COLUMNS = 1 << 25  # of a sparse matrix, whose columns take no space in the file


# -- what a campaign's journal holds -------------------------------------------------------------------------------


def encode_entry(value: object) -> Json:
    """Encode a method, plan or record for a campaign's journal, with arrays inside the JSON.

    Examples
    --------
    >>> import observal as ob
    >>> encode_entry(ob.Thresholds())
    {'type': 'Thresholds', 'fields': {'feature': 0, 'both_signs': True}}
    """
    encoded = encode(value, where=type(value).__name__)
    if lost := unsaved(encoded):
        raise InvalidInput(
            f"A campaign can store numbers, text and classes of observal and scikit-learn, but the method has {lost}; use a method without it."
        )
    return encoded


def decode_entry(name: str, encoded: Json) -> Any:
    """Decode what ``encode_entry`` encoded, stored in a payload under a key of `ENTRIES`."""
    kind, what = ENTRIES[name]
    try:
        value = decode(encoded, where=what)
    except ObservalError as error:
        raise NotACampaign(f"The campaign's {what} cannot be read: {error}") from error
    if not isinstance(value, kind):
        raise NotACampaign(f"The campaign has {value!r:.60} instead of a {what}; use an undamaged copy.")
    return value


# -- writing -------------------------------------------------------------------------------------------------------


def encode(value: object, arrays: Arrays | None = None, where: str = "value") -> Json:
    """Encode numbers, text, dates, arrays and observal's own records as plain JSON values.

    What cannot be stored becomes ``{"unsaved": …}``, which ``unsaved`` finds.

    Arrays are appended to the list `arrays`, and the JSON holds their numbers; without a list it holds their
    values. `where` names the value in messages.

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
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays, where)
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [encode(item, arrays, where) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, arrays, where) for key, item in value.items()}}
    name = type(value).__name__
    if type(value) in (uuid.UUID, decimal.Decimal):
        return {"text": [name, str(value)]}
    if isinstance(value, datetime.date) and type(value) in (datetime.date, datetime.datetime):
        return {"date": [name, value.isoformat()]}
    if dataclasses.is_dataclass(value) and CLASSES.get(name) is type(value):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return {
            "type": name,
            "fields": {field: encode(getattr(value, field), arrays, f"{where}.{name}.{field}") for field in fields},
        }
    encoded = _encode_estimator(value, where) if arrays is None else _encode_rows(value, arrays, where)
    return {"unsaved": f"{where}: {name}"} if encoded is None else encoded


def _encode_array(value: NDArray[Any], arrays: Arrays | None, where: str) -> Json:
    if value.dtype.kind == "O":
        return {"objects": [encode(item, arrays, where) for item in value.tolist()]}
    if arrays is not None:
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if value.dtype.kind in _PLAIN_KINDS and np.isfinite(value).all():
        return {"array": value.dtype.str, "values": value.tolist()}  # JSON keeps every digit of a float
    return {"unsaved": f"{where}: array of {value.dtype}"}


def _encode_rows(value: object, arrays: Arrays, where: str) -> Json:
    """Encode features that are not one array: a sparse matrix or a user's frame; None for anything else."""
    if (csr := as_csr(value)) is not None:
        parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": tuple(csr.shape)}
        return {"csr": {name: encode(part, arrays, where) for name, part in parts.items()}}
    if isinstance(value, Frame) and (packed := value.to_bytes()) is not None:
        return {"frame": encode(packed, arrays, where), "library": value.library, "what": value.what}
    return None


def _encode_estimator(value: object, where: str) -> Json:
    """Encode a scikit-learn estimator as its name and settings, without its fit; None for anything else."""
    from sklearn.base import BaseEstimator

    kind = type(value)
    name = f"{kind.__module__}.{kind.__name__}"
    if not isinstance(value, BaseEstimator) or sklearn_estimators().get(name) is not kind:
        return None
    defaults = inspect.signature(kind.__init__).parameters
    settings = value.get_params(deep=False).items()
    changed = {key: item for key, item in settings if not _is_default(item, defaults[key].default)}
    return {
        "estimator": name,
        "settings": {
            key: {"unsaved": f"{where}.{kind.__name__}.{key}: {foreign}"}
            if (foreign := _find_foreign(kind, key, item))
            else encode(item, None, f"{where}.{kind.__name__}.{key}")
            for key, item in changed.items()
        },
    }


def _is_default(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and isinstance(value, _PLAIN) and value == default)


def unsaved(encoded: Json) -> str:
    """Describe the first part of an encoded value that could not be stored; empty if there is none.

    Examples
    --------
    >>> unsaved(encode((1, len), where="method"))
    'method: builtin_function_or_method'
    """
    if isinstance(encoded, dict) and "unsaved" in encoded:
        return str(encoded["unsaved"])
    parts = encoded.values() if isinstance(encoded, dict) else encoded if isinstance(encoded, list) else ()
    return next(filter(None, map(unsaved, parts)), "")


# -- reading -------------------------------------------------------------------------------------------------------


def decode(encoded: Json, arrays: ArraysBeside | None = None, where: str = "value") -> Any:
    """Decode what ``encode`` encoded.

    The input is untrusted: anything wrong raises ``InvalidInput``, which calls it `where`. `arrays` are those
    stored beside the JSON.

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
        return _decode(encoded, arrays, where, 0)
    except ObservalError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"The entry {where!r} cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:80]}); "
            "use an undamaged copy."
        ) from error


def _decode(value: Any, arrays: ArraysBeside | None, where: str, depth: int) -> Any:
    if value is None or isinstance(value, _PLAIN):
        return value
    if not isinstance(value, dict) or depth > _DEEPEST:
        raise ValueError("nested too deeply" if isinstance(value, dict) else f"unexpected {type(value).__name__}")

    def inner(item: Any) -> Any:
        return _decode(item, arrays, where, depth + 1)

    if "float" in value:
        return float(value["float"])
    if "array" in value:
        return _inline_array(value) if arrays is None else arrays.read(_check_number(value["array"]))
    if "objects" in value:
        out = np.empty(len(value["objects"]), dtype=object)
        out[:] = [inner(item) for item in _check_list(value["objects"])]
        return out
    if "tuple" in value:
        return tuple(inner(item) for item in _check_list(value["tuple"]))
    if "list" in value:
        return [inner(item) for item in _check_list(value["list"])]
    if "dict" in value:
        return {str(key): inner(item) for key, item in value["dict"].items()}
    if "text" in value or "date" in value:
        kind, text = value.get("text") or value["date"]
        return (_TEXT if "text" in value else _DATES)[kind](text)
    if "csr" in value:
        return _decode_csr({name: inner(part) for name, part in value["csr"].items()})
    if "frame" in value and arrays is not None:
        return Frame.from_bytes(inner(value["frame"]), value["library"], str(value["what"]), arrays.budget)
    if "type" in value:
        kind = _listed_class(value["type"])
        return build(kind, {name: inner(item) for name, item in value["fields"].items()})
    if "estimator" in value:
        return _decode_estimator(value["estimator"], {name: inner(item) for name, item in value["settings"].items()})
    if "unsaved" in value:
        raise InvalidInput(
            f"{value['unsaved']} could not be stored in the file; pass it again, as in Session.load(path, {where}=…)."
        )
    raise ValueError(f"unexpected entry with {list(value)[:3]}")


def _listed_class(name: object) -> type[Any]:
    """Return the class with a recorded name; it is looked up in a list, never imported."""
    if not isinstance(name, str) or name not in CLASSES:
        raise InvalidInput(
            f"The file names the class {name!r:.80}, which this version of observal does not have; use the version that wrote it."
        )
    return CLASSES[name]


def _decode_estimator(name: str, settings: dict[str, Any]) -> Any:
    """Return an unfitted scikit-learn estimator; its name is looked up in a list, never imported."""
    kind = sklearn_estimators().get(name)
    if kind is None:
        raise InvalidInput(
            f"The file names the estimator {name!r:.80}, which is not one of scikit-learn's; use the version that wrote it."
        )
    for key, item in settings.items():
        if foreign := _find_foreign(kind, key, item):
            raise InvalidInput(
                f"The file sets {key} of {kind.__name__} to {foreign}, which a file may not do; use an undamaged copy."
            )
    return kind(**settings)


def _find_foreign(kind: type[Any], name: str, value: object, within: bool = False) -> str:
    """Describe the first part of an estimator's parameter that a file may not set; empty if there is none.

    Numbers, estimators, scikit-learn's own options and column names are allowed. Other text could be a path:
    ``Pipeline(memory=…)`` writes to one, and runs what it finds there.
    """
    if isinstance(value, str):
        allowed = name in _TEXT_PARAMETERS or (not within and _is_choice(kind, name, value))
        return "" if allowed else f"{value!r:.40}"
    if isinstance(value, tuple | list | dict):
        items = value.values() if isinstance(value, dict) else value
        return next(filter(None, (_find_foreign(kind, name, item, within=True) for item in items)), "")
    if isinstance(value, np.ndarray):
        return "" if value.dtype.kind in _PLAIN_KINDS else f"array of {value.dtype}"
    if value is None or isinstance(value, bool | int | float | np.number | np.bool_):
        return ""
    return "" if type(value) in sklearn_estimators().values() else type(value).__name__


def _is_choice(kind: type[Any], name: str, text: str) -> bool:
    """Return whether a text is one of the options that scikit-learn lists for a parameter."""
    from sklearn.metrics import get_scorer_names
    from sklearn.utils._param_validation import Hidden, StrOptions

    if name == "scoring":
        return text in get_scorer_names()
    if name == "threshold":
        return _THRESHOLD.fullmatch(text) is not None
    constraints = getattr(kind, "_parameter_constraints", {}).get(name, ())
    plain = [item.constraint if isinstance(item, Hidden) else item for item in constraints]
    return any(text in item.options for item in plain if isinstance(item, StrOptions))


@cache
def sklearn_estimators() -> dict[str, type[Any]]:
    """Return the scikit-learn estimators that a campaign may use, by full name; names in files are never imported.

    Examples
    --------
    >>> "sklearn.pipeline.Pipeline" in sklearn_estimators(), "os.system" in sklearn_estimators()
    (True, False)
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.utils import all_estimators

    kinds = [kind for _, kind in all_estimators(["classifier", "regressor", "transformer"])]
    kinds = [kind for kind in kinds if kind.__module__.startswith("sklearn.")]
    return {f"{kind.__module__}.{kind.__name__}": kind for kind in (*kinds, ColumnTransformer, FeatureUnion, Pipeline)}


def _inline_array(value: dict[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(value["array"] if isinstance(value["array"], str) else "O")
    if dtype.kind not in _PLAIN_KINDS:
        raise ValueError(f"an array of {dtype!s:.20}")
    plain = np.array(_check_list(value["values"]))
    array: NDArray[Any] = np.array(value["values"], dtype=dtype)
    if plain.size and plain.dtype.kind not in _PLAIN_KINDS[dtype.kind]:
        raise ValueError(f"{plain.dtype} values in an array of {dtype}")
    return array


def _decode_csr(parts: dict[str, Any]) -> Any:
    from scipy.sparse import csr_matrix

    shape = parts["shape"]
    if len(shape) != 2 or not all(isinstance(n, int) for n in shape) or not 0 <= shape[1] <= _MAX_COLUMNS:
        raise ValueError(f"a sparse matrix of shape {shape!r:.40}")
    if parts["data"].dtype.kind not in "biuf" or len(parts["indptr"]) != shape[0] + 1:
        raise ValueError("the parts of a sparse matrix do not match")
    matrix = csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def _check_number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r:.20} is not the number of an array")
    return value


def _check_list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"a {type(value).__name__} instead of a list")
    return value


# -- records -------------------------------------------------------------------------------------------------------


def build(kind: type[_T], fields: dict[str, Any]) -> _T:
    """Build a record from a file's fields; each must have its declared type and pass the record's own checks.

    Examples
    --------
    >>> from observal.paper.hypotheses import Thresholds
    >>> build(Thresholds, {"feature": "0"})
    Traceback (most recent call last):
        ...
    observal.errors.InvalidInput: The feature of Thresholds must be of type int, but is of type str; use an undamaged copy.
    """
    hints = _hints(kind)
    for name, value in fields.items():
        if name not in hints:
            raise InvalidInput(
                f"The file has a setting {name!r:.80} of {kind.__name__}, which this version of observal does not have; "
                "use the version that wrote it."
            )
        if not _fits(value, hints[name]):
            hint = getattr(hints[name], "__name__", str(hints[name]))
            raise InvalidInput(
                f"The {name} of {kind.__name__} must be of type {hint}, but is of type {type(value).__name__}; "
                "use an undamaged copy."
            )
    try:
        return kind(**fields)
    except ObservalError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"{kind.__name__} cannot be built from the file ({' '.join(str(error).split())[:80]}); "
            "use an undamaged copy."
        ) from error


_hints: Callable[[Any], dict[str, Any]] = cache(typing.get_type_hints)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value has a declared type; an int is accepted as a float, a bool is not a number."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if (alias := getattr(origin, "__value__", None)) is not None:  # a type alias, as NDArray is from NumPy 2.5 on
        return _fits(value, alias[arguments])
    if origin in (Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is Literal:
        return any(type(value) is type(argument) and value == argument for argument in arguments)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return len(kinds) == len(value) and all(map(_fits, value, kinds))
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(_fits(item, arguments[1]) for item in value.values())
    if origin is np.ndarray:
        item = get_args(arguments[1])[0]
        has_kind = isinstance(item, type) and issubclass(item, np.generic)
        return isinstance(value, np.ndarray) and (not has_kind or value.dtype.kind == np.dtype(item).kind)
    if hint in (int, float):
        return isinstance(value, (int, float) if hint is float else int) and not isinstance(value, bool)
    return isinstance(value, origin or hint)
