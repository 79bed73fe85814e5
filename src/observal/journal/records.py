"""Fitted classifiers as flat records of numbers and plain arrays, safe to read even if a stranger wrote them.

Each kind of classifier is a flat record (``records``): every field has a type, and every array a dtype and
named dimensions. The sizes ``features`` and ``classes`` are the same throughout a file, other names within
one record. A file is a zip of one JSON document and the bytes of each array. Members of the zip are not
compressed. An array is read only once, and only if its sizes agree with the others and with its number of
bytes. No class is imported by name, and opening a file predicts nothing.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isfinite, prod
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput
from observal.journal.archive import Archive, Damaged, seal

_LONGEST_TEXTS = 1 << 20  # size of the class names as one array: their number times the longest
_SHARED_SIZES = ("features", "classes")


# -- what a file may hold --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayField:
    """An array of a dtype; `sizes` names its dimensions, or gives them as numbers."""

    dtype: str
    sizes: str


@dataclass(frozen=True)
class RecordField:
    """A record of one of several kinds, or None if allowed."""

    kinds: tuple[type, ...]
    optional: bool = False


@dataclass(frozen=True)
class RecordsField:
    """Several records of the given kinds, in order."""

    kinds: tuple[type, ...]


Scalar = Literal["number", "count", "sign", "flag", "text", "texts", "point", "labels", "label", "shares", "settings"]
Field = ArrayField | RecordField | RecordsField | Scalar


@dataclass(frozen=True)
class Spline:
    """Knots of each standardised feature's cubic spline, from a fitted ``SplineTransformer``."""

    knots: NDArray[np.float64]


@dataclass(frozen=True)
class Cosines:
    """Random cosines of the standardised features, from a fitted ``RBFSampler``."""

    weights: NDArray[np.float64]
    offset: NDArray[np.float64]


@cache
def records() -> Mapping[type, Mapping[str, Field]]:
    """Return the fields of every kind of record that a model file or stored fit may hold."""
    from observal.intervals.thresholds import FactorClassifier, ThresholdClassifier
    from observal.journal import stored_fit as s
    from observal.learners.blend import Blend, BlendChoices
    from observal.learners.features import FeatureMap
    from observal.learners.newton_fit import NewtonFit
    from observal.learners.population import Space
    from observal.learners.smooth_learners import AdditiveChances, KernelChances, LinearChances
    from observal.learners.tree_learners import TreeChances
    from observal.methods.auto import StoredBlend
    from observal.methods.committee import ConstantClassifier
    from observal.methods.newton import NewtonChoices, NewtonClassifier, StoredNewton
    from observal.paper import hypotheses as h
    from observal.paper.exact import FiniteClassifier
    from observal.paper.linear_methods import LinearClassifier
    from observal.problem.interval import Interval

    vector = ArrayField("f8", "features")
    members = (h.Constant, h.Threshold, h.HalfPlane, h.TangentHalfPlane, h.Rectangle, h.KnownPredictions)
    learners = (LinearChances, AdditiveChances, KernelChances, TreeChances)
    return {
        Spline: {"knots": ArrayField("f8", "knots features")},
        Cosines: {"weights": ArrayField("f8", "features cosines"), "offset": ArrayField("f8", "cosines")},
        FeatureMap: {
            "mean": vector,
            "scale": vector,
            "low": vector,
            "high": vector,
            "transformers": RecordsField((Spline, Cosines)),
        },
        LinearChances: {"coef": ArrayField("f8", "features classes"), "shift": ArrayField("f8", "classes")},
        AdditiveChances: {
            "features": ArrayField("i8", "curved"),
            "knots": ArrayField("f8", "bends curved"),
            "values": ArrayField("f8", "bends curved classes"),
            "coef": ArrayField("f8", "features classes"),
            "shift": ArrayField("f8", "classes"),
        },
        Space: {"knots": ArrayField("f8", "knots features"), "scores": ArrayField("f8", "knots features")},
        KernelChances: {
            "space": RecordField((Space,)),
            "landmarks": ArrayField("f8", "landmarks features"),
            "gamma": "number",
            "coef": ArrayField("f8", "landmarks classes"),
            "shift": ArrayField("f8", "classes"),
        },
        TreeChances: {
            "roots": ArrayField("i4", "trees"),
            "column": ArrayField("i4", "trees"),
            "feature": ArrayField("i4", "nodes"),
            "threshold": ArrayField("f8", "nodes"),
            "left": ArrayField("i4", "nodes"),
            "right": ArrayField("i4", "nodes"),
            "value": ArrayField("f8", "nodes width"),
            "start": ArrayField("f8", "groups classes"),
            "as_log_odds": "flag",
            "n_features": "count",
            "sharpness": "number",
        },
        Blend: {
            "feature_map": RecordField((FeatureMap,)),
            "names": "texts",
            "members": RecordsField(learners),
            "theta": ArrayField("f8", "learners"),
            "classes_": "labels",
        },
        NewtonClassifier: {
            "feature_map": RecordField((FeatureMap,)),
            "coef_": ArrayField("f8", "1 expanded"),
            "intercept_": ArrayField("f8", "1"),
            "classes_": "labels",
        },
        LinearClassifier: {
            "coef_": ArrayField("f8", "1 features"),
            "intercept_": ArrayField("f8", "1"),
            "classes_": "labels",
        },
        ConstantClassifier: {"classes_": "labels", "label": "label"},
        h.Constant: {"sign": "sign"},
        h.Threshold: {"feature": "count", "cut": "number", "sign": "sign"},
        h.HalfPlane: {"normal": "point", "through": "point", "sign": "sign"},
        h.TangentHalfPlane: {"first": "point", "second": "point", "sign": "sign"},
        h.Rectangle: {"low": "point", "high": "point"},
        h.KnownPredictions: {"predictions": ArrayField("i1", "rows")},
        FiniteClassifier: {"member": RecordField(members), "classes_": "labels"},
        ThresholdClassifier: {
            "estimator": RecordField((Blend, NewtonClassifier)),
            "threshold": "number",
            "shift": "number",
            "slope": "number",
        },
        FactorClassifier: {"estimator": RecordField((Blend,)), "factors": ArrayField("f8", "classes")},
        BlendChoices: {"theta": "shares", "tuned": "settings"},
        StoredBlend: {
            "blend": RecordField((Blend,)),
            "left_out": ArrayField("f8", "labelled classes"),
            "refitted": ArrayField("f8", "judged classes"),
            "choices": RecordField((BlendChoices,), optional=True),
            "kept": RecordField((BlendChoices,), optional=True),
        },
        NewtonChoices: {"features": "text", "ridge": "number", "tempering": "number"},
        NewtonFit: {
            "coef": ArrayField("f8", "expanded"),
            "intercept": "number",
            "objective": "number",
            "hessian": ArrayField("f8", "parameters parameters"),
            "converged": "flag",
            "n_iter": "count",
            "history": ArrayField("f8", "steps"),
        },
        StoredNewton: {
            "choices": RecordField((NewtonChoices,)),
            "kept": RecordField((NewtonChoices,), optional=True),
            "query": RecordField((NewtonFit,)),
            "output": RecordField((NewtonFit,)),
            "output_weights": ArrayField("f8", "labelled"),
            "left_out_scores": ArrayField("f8", "judged"),
            "earlier": RecordField((StoredNewton,), optional=True),
        },
        Interval: {
            "estimate": "number",
            "low": "number",
            "high": "number",
            "confidence": "number",
            "method": "text",
            "unknown": "number",
            "most": "number",
        },
        s.NamedInterval: {"name": "text", "interval": RecordField((Interval,))},
        s.RoundChances: {"round": "count", "chances": ArrayField("f4", "rows known")},
        s.StoredFit: {
            "round": "count",
            "model": RecordField((StoredBlend, StoredNewton), optional=True),
            "intervals": RecordsField((s.NamedInterval,)),
            "chances": RecordsField((s.RoundChances,)),
        },
    }


def classifiers() -> tuple[type, ...]:
    """Return the kinds of records that can predict."""
    return tuple(kind for kind in records() if kind.__name__.endswith("Classifier") or kind.__name__ == "Blend")


def name_columns(classifier: Any, names: Sequence[str] | None) -> Any:
    """Tell one of our classifiers the columns that it was fitted on, if they have names, and return it."""
    for part in (classifier, getattr(classifier, "estimator", None)):
        if names is not None and isinstance(part, classifiers()):
            object.__setattr__(part, "feature_names_in_", _read_scalar("texts", names))
    return classifier


# -- writing ---------------------------------------------------------------------------------------------------------


class NotPlain(Exception):
    """The classifier has a part that is not one of our records."""


def encode(value: object, arrays: list[NDArray[Any]]) -> dict[str, Any]:
    """Return a record as values for JSON; its arrays are appended to `arrays`."""
    value = _plain_transformer(value)
    if type(value) not in records():
        raise NotPlain(type(value).__name__)
    fields = records()[type(value)]
    return {"record": type(value).__name__} | {
        name: _encode_field(kind, getattr(value, name), arrays) for name, kind in fields.items()
    }


def _encode_field(kind: Field, value: Any, arrays: list[NDArray[Any]]) -> Any:
    if isinstance(kind, ArrayField):
        array = np.ascontiguousarray(value, dtype=np.dtype(kind.dtype).newbyteorder("<"))
        arrays.append(array)
        return {"array": len(arrays) - 1, "shape": list(array.shape)}
    if isinstance(kind, RecordField):
        return None if value is None and kind.optional else encode(value, arrays)
    if isinstance(kind, RecordsField):
        return [encode(item, arrays) for item in value]
    if kind == "labels":
        return _encode_labels(value)
    if kind == "label":
        return value.item() if isinstance(value, np.generic) else value
    if kind == "number":
        return float(value) if isfinite(value) else repr(float(value))
    if kind == "point":
        return [_encode_field("number", number, arrays) for number in value]
    if kind == "shares":
        return dict(value)
    if kind == "settings":
        return {name: list(numbers) for name, numbers in value.items()}
    return list(value) if kind == "texts" else value


def _encode_labels(labels: NDArray[Any]) -> dict[str, Any]:
    values = labels.tolist()
    if labels.dtype.kind not in "biufUO" or not all(isinstance(value, bool | int | float | str) for value in values):
        raise InvalidInput(
            f"A model file stores classes that are text or numbers, but these are {labels.dtype} ({values[0]!r:.40}, …); "
            "make a campaign with text or numbers as labels."
        )
    return {"dtype": labels.dtype.kind if labels.dtype.kind in "UO" else labels.dtype.str, "values": values}


def _plain_transformer(value: object) -> object:
    """Return a fitted scikit-learn transformer that NewtonVC uses as one of our records; others unchanged."""
    if not type(value).__module__.startswith("sklearn."):  # importing it takes longer than everything else here
        return value
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.preprocessing import SplineTransformer

    if isinstance(value, SplineTransformer):
        degree = value.degree
        return Spline(np.column_stack([spline.t[degree:-degree] for spline in value.bsplines_]))
    if isinstance(value, RBFSampler):
        return Cosines(value.random_weights_, value.random_offset_)
    return value


def write_records(file: IO[bytes], name: str, document: Mapping[str, Any], arrays: list[NDArray[Any]]) -> None:
    """Write a document and its arrays as a sealed zip."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(name, json.dumps(document))
        for number, array in enumerate(arrays):
            archive.writestr(f"{number}.bin", array.tobytes())
    seal(file)


# -- reading ---------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class RecordReader:
    """Builds records from a document, reading each of its arrays once."""

    archive: Archive
    shared: dict[str, int] = field(default_factory=dict)
    n_read: int = 0

    def read(self, value: Any, kinds: tuple[type, ...]) -> Any:
        """Return a record of one of the given kinds, after checking all its fields."""
        if not isinstance(value, dict):
            raise Damaged(f"it has a {type(value).__name__} instead of a record")
        kind = {kind.__name__: kind for kind in kinds}.get(value.get("record", ""))
        if kind is None:
            raise Damaged(f"unexpected record type {value.get('record')!r:.40}")
        fields = records()[kind]
        if value.keys() != {"record", *fields}:
            raise Damaged(f"{kind.__name__} has missing or unknown fields")
        sizes: dict[str, int] = {}
        contents = {name: self._field(of, value[name], sizes) for name, of in fields.items()}
        _check_record(kind, contents)
        return _build(kind, contents)

    def _field(self, kind: Field, value: Any, sizes: dict[str, int]) -> Any:
        if isinstance(kind, ArrayField):
            return self._array(kind, value, sizes)
        if isinstance(kind, RecordField):
            return None if value is None and kind.optional else self.read(value, kind.kinds)
        if isinstance(kind, RecordsField):
            return tuple(self.read(item, kind.kinds) for item in _require(value, list))
        if kind == "labels":
            labels = _read_labels(_require(value, dict))
            self._compare("classes", labels.size, sizes)
            return labels
        return _read_scalar(kind, value)

    def _array(self, kind: ArrayField, value: Any, sizes: dict[str, int]) -> NDArray[Any]:
        shape = _require(_require(value, dict).get("shape"), list)
        names = kind.sizes.split()
        if len(shape) != len(names) or not all(type(size) is int and 0 <= size <= self.archive.size for size in shape):
            raise Damaged(f"an array has the shape {shape!r:.40}")
        for name, size in zip(names, shape, strict=True):
            self._compare(name, size, sizes)
        # Arrays are numbered in reading order, so none can be read twice.
        if value.get("array") != self.n_read or len(value) != 2:
            raise Damaged("its arrays are not in order")
        dtype = np.dtype(kind.dtype).newbyteorder("<")
        content = self.archive.content(f"{self.n_read}.bin", prod(shape) * dtype.itemsize)
        self.n_read += 1
        return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="))

    def _compare(self, name: str, size: int, sizes: dict[str, int]) -> None:
        known = self.shared if name in _SHARED_SIZES else sizes
        expected = int(name) if name.isdigit() else known.setdefault(name, size)
        if size != expected:
            raise Damaged(f"an array has {size} {name} where there are {expected}")

    def check_all_read(self) -> None:
        """Reject members that nothing refers to."""
        if len(self.archive) != self.n_read + 1:
            raise Damaged("it has more members than its document names")


def _require(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise Damaged(f"it has a {type(value).__name__} instead of a {kind.__name__}")
    return value


def _read_scalar(kind: Scalar, value: Any) -> Any:
    """Return a number, text or flag of a document, if it is valid."""
    if kind == "number":
        if value in ("inf", "-inf", "nan"):
            return float(value)
        sound = type(value) in (int, float)
        value = float(value) if sound else value
    elif kind == "count":
        sound = type(value) is int and 0 <= value < 1 << 31
    elif kind == "sign":
        sound = type(value) is int and value in (-1, 1)
    elif kind == "flag":
        sound = type(value) is bool
    elif kind == "text":
        sound = type(value) is str
    elif kind == "label":
        sound = isinstance(value, bool | int | float | str)
    elif kind == "shares":
        return {name: _read_scalar("number", number) for name, number in _require(value, dict).items()}
    elif kind == "settings":
        parts = _require(value, dict).items()
        return {name: tuple(_read_scalar("number", number) for number in _require(part, list)) for name, part in parts}
    else:
        items = _require(value, list)
        if kind == "texts":
            return tuple(_read_scalar("text", item) for item in items)
        sound = len(items) == 2
        value = tuple(_read_scalar("number", item) for item in items)
    if not sound:
        raise Damaged(f"{value!r:.40} is not a {kind}")
    return value


def _read_labels(value: dict[str, Any]) -> NDArray[Any]:
    if value.keys() != {"dtype", "values"}:
        raise Damaged("its classes are missing")
    values, dtype = _require(value["values"], list), _require(value["dtype"], str)
    kinds: dict[str, tuple[type, ...]] = {"U": (str,), "O": (bool, int, float, str), "b": (bool,), "f": (int, float)}
    kind = np.dtype(dtype).kind if len(dtype) <= 4 and dtype not in "UO" else dtype
    if kind not in (*kinds, "i", "u") or not all(type(item) in kinds.get(kind, (int,)) for item in values):
        raise Damaged("its classes are not text or numbers")
    if len(values) * max((len(item) for item in values if isinstance(item, str)), default=1) > _LONGEST_TEXTS:
        raise Damaged("the names of its classes are too long")
    if not values or len(set(values)) != len(values):
        raise Damaged("its classes are not distinct")
    return np.array(values, dtype=np.str_ if kind == "U" else object if kind == "O" else np.dtype(dtype))


def _check_record(kind: type, contents: Mapping[str, Any]) -> None:
    """Reject contents whose sizes agree but that contradict each other, unless the record checks that itself."""
    name = kind.__name__
    if name == "NewtonClassifier":
        features = contents["feature_map"]
        expanded = features.mean.size + sum(transformer._n_features_out for transformer in features.transformers)
        if contents["coef_"].shape[1] != expanded:
            raise Damaged("its features and weights do not match")
    if name in ("NewtonClassifier", "LinearClassifier", "FiniteClassifier") and contents["classes_"].size != 2:
        raise Damaged(f"{name} needs two classes")
    if name == "ConstantClassifier" and contents["label"] not in contents["classes_"].tolist():
        raise Damaged("its class is not one of its classes")


def _build(kind: type, contents: dict[str, Any]) -> Any:
    """Build a record from its contents, with transformers converted back to scikit-learn's."""
    if kind is Spline:
        return _spline_transformer(contents["knots"])
    if kind is Cosines:
        return _cosine_transformer(contents["weights"], contents["offset"])
    try:
        return kind(**contents)
    except InvalidInput as error:
        raise Damaged(str(error)) from error


def _spline_transformer(knots: NDArray[np.float64]) -> Any:
    from sklearn.preprocessing import SplineTransformer

    if len(knots) < 2 or not np.isfinite(knots).all() or not (np.diff(knots, axis=0) > 0.0).all():
        raise Damaged("the knots of a spline do not increase")
    transformer = SplineTransformer(knots=knots, include_bias=True).fit(knots)
    transformer._n_features_out = transformer.n_features_out_
    return transformer


def _cosine_transformer(weights: NDArray[np.float64], offset: NDArray[np.float64]) -> Any:
    from sklearn.kernel_approximation import RBFSampler

    sampler = RBFSampler(n_components=offset.size)
    sampler.random_weights_, sampler.random_offset_ = weights, offset
    sampler.n_features_in_, sampler._n_features_out = weights.shape
    return sampler
