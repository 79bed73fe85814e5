"""Records built from a file: every field has its declared type, or the file is refused."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from observal.errors import InvalidInput, ObservalError

Plain = bool | int | float | str


@cache
def sklearn_estimators() -> dict[str, type[Any]]:
    """Return the estimators of scikit-learn that a campaign may name, by full name; a name from a file is never imported.

    Examples
    --------
    >>> "sklearn.pipeline.Pipeline" in sklearn_estimators(), "os.system" in sklearn_estimators()
    (True, False)
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.utils import all_estimators

    found = [kind for _, kind in all_estimators(["classifier", "regressor", "transformer"])]
    found = [kind for kind in found if kind.__module__.startswith("sklearn.")]
    return {f"{kind.__module__}.{kind.__name__}": kind for kind in (*found, ColumnTransformer, FeatureUnion, Pipeline)}


def changed_settings(estimator: Any) -> dict[str, Any]:
    """Return the settings of an estimator that differ from their defaults.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> changed_settings(DecisionTreeClassifier(max_depth=3))
    {'max_depth': 3}
    """
    defaults = inspect.signature(type(estimator).__init__).parameters
    settings = estimator.get_params(deep=False)
    return {name: value for name, value in settings.items() if not _same(value, defaults[name].default)}


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and isinstance(value, Plain) and value == default)


def build(kind: type[Any], fields: dict[str, Any]) -> Any:
    """Return a record built from a file's fields; each must have its declared type and pass the record's own checks.

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
    if hasattr(origin, "__value__"):  # a name for a type, as NDArray is from NumPy 2.5 on
        return _fits(value, origin.__value__[arguments])
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
