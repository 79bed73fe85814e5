"""Reading files that skops wrote: each node becomes an object of a listed class, or the file is refused.

skops' own loader imports and calls what a file names, once a user trusts the name. This reader imports nothing: a name is a key
in the lists of :mod:`observal.exchange.model_files.listed`. It reads only the kinds of node that a model needs.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput
from observal.exchange.model_files.checks import check_estimator, make_tree
from observal.exchange.model_files.listed import PLAIN_TYPES, SCALARS, loss_classes, own_classes, sklearn_classes
from observal.journal.archive import Archive, Damaged
from observal.journal.codec import build

_DEEPEST = 100
_PROTOCOL = 2  # the newest file format of skops that is read here


class ModelReader:
    """Builds the object that a model file describes.

    Parameters
    ----------
    archive : Archive
        The file.
    trusted : collection of str
        Full names of further classes that the user trusts.
    """

    def __init__(self, archive: Archive, trusted: Collection[str] = ()) -> None:
        from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
        from sklearn.tree._tree import NODE_DTYPE

        self._archive = archive
        self._trusted = trusted
        self._records = (NODE_DTYPE, PREDICTOR_RECORD_DTYPE)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._depth = 0
        self._readers: dict[str, Callable[[Any], Any]] = {
            "DictNode": self._dict,
            "ListNode": lambda node: self._items(node, "builtins.list"),
            "TupleNode": lambda node: tuple(self._items(node, "builtins.tuple")),
            "SetNode": lambda node: set(self._items(node, "builtins.set")),
            "JsonNode": self._scalar,
            "NdArrayNode": self._array,
            "TypeNode": lambda node: PLAIN_TYPES[self._listed(node, PLAIN_TYPES)],
            "FunctionNode": self._ufunc,
            "SliceNode": lambda node: slice(*(_index(node["content"][part]) for part in ("start", "stop", "step"))),
            "ObjectNode": self._object,
            "TreeNode": self._tree,
            "LossNode": self._loss,
            # A fitted model draws no more random numbers, so the state of its generator does not matter.
            "RandomStateNode": lambda node: np.random.RandomState(0),
            "RandomGeneratorNode": lambda node: np.random.default_rng(0),
        }

    def read(self) -> Any:
        """Return the object."""
        schema = self._archive.json("schema.json")
        protocol = schema["protocol"]
        if isinstance(protocol, int) and protocol > _PROTOCOL:
            raise InvalidInput(
                f"{self._archive.path} was written by a newer skops (protocol {protocol}, this observal reads up to "
                f"{_PROTOCOL}); update observal."
            )
        return self._read(schema)

    def _read(self, node: Any) -> Any:
        reader = self._readers.get(node["__loader__"])
        if reader is None:
            self._refuse(node)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Damaged("it is nested too deeply")
        made = reader(node)  # type: ignore[misc]
        self._depth -= 1
        return made

    def _listed(self, node: Any, names: Collection[str]) -> str:
        name = f"{node['__module__']}.{node['__class__']}"
        if name not in names:
            self._refuse(node)
        return name

    def _refuse(self, node: Any) -> None:
        name = f"{node['__module__']}.{node['__class__']}"
        raise InvalidInput(
            f"{self._archive.path} names the class {name!r:.100}, which is not one of those that a model may contain; open only "
            "files that observal wrote, or pass trusted=[…] with this exact name if you trust the class and the file."
        )

    # -- plain values -------------------------------------------------------------------------------------------

    def _items(self, node: Any, kind: str) -> list[Any]:
        self._listed(node, (kind,))
        return [self._read(item) for item in node["content"]]

    def _dict(self, node: Any) -> Any:
        name = self._listed(node, ("builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"))
        kinds = self._items(node["key_types"], "builtins.list")
        if not all(isinstance(kind, type) for kind in kinds) or len(kinds) != len(node["content"]):
            raise Damaged("the keys of a dictionary lack their types")
        pairs = {kind(key): self._read(item) for kind, (key, item) in zip(kinds, node["content"].items(), strict=True)}
        if name == "sklearn.utils._bunch.Bunch":
            from sklearn.utils import Bunch

            return Bunch(**pairs)
        return pairs if name == "builtins.dict" else OrderedDict(pairs)

    @staticmethod
    def _scalar(node: Any) -> Any:
        value = json.loads(node["content"])
        if isinstance(value, dict | list):
            raise Damaged("a value is neither a number nor text")
        return value

    def _array(self, node: Any) -> Any:
        name = self._listed(node, ("numpy.ndarray", *(f"numpy.{scalar}" for scalar in SCALARS)))
        if node["type"] == "json" and name == "numpy.ndarray":
            shape = self._read(node["shape"])
            flat = [self._read(item) for item in node["content"]]
            for _ in shape[1:]:
                flat = [item for row in flat for item in row]
            objects = np.empty(len(flat), dtype=object)
            objects[:] = flat
            return objects.reshape(shape)
        file = node["file"]
        if file not in self._arrays:
            self._arrays[file] = self._archive.array(file, records=self._records)
        return self._arrays[file] if name == "numpy.ndarray" else self._arrays[file][()]

    def _ufunc(self, node: Any) -> Any:
        import scipy.special

        for module in (np, scipy.special):
            found = getattr(module, node["__class__"], None)
            if isinstance(found, np.ufunc) and str(node["__module__"]).startswith(module.__name__):
                return found
        return self._refuse(node)

    # -- objects ------------------------------------------------------------------------------------------------

    def _object(self, node: Any) -> Any:
        name = f"{node['__module__']}.{node['__class__']}"
        if name == "scipy.interpolate._bsplines.BSpline":
            return self._spline(node["content"]["content"])
        state = self._read(node["content"]) if node.get("content") is not None else {}
        state = {} if state is None else state
        if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
            raise Damaged(f"the state of a {name} is not a set of attributes")
        if name in own_classes():
            return _own(own_classes()[name], state)
        trusted = name in self._trusted
        kind: Any = _trusted_class(name) if trusted else sklearn_classes()[self._listed(node, sklearn_classes())]
        made = kind.__new__(kind)
        if hasattr(made, "__setstate__"):
            made.__setstate__(state)
        else:
            made.__dict__.update(state)
        if not trusted:
            check_estimator(made)
        return made

    def _spline(self, parts: Any) -> Any:
        """Make a spline with its constructor, which checks its parts; the compiled code does not."""
        from scipy.interpolate import BSpline

        t, c = (self._read(parts[name if name in parts else f"_{name}"]) for name in ("t", "c"))
        return BSpline(t, c, *(self._read(parts[name]) for name in ("k", "extrapolate", "axis")))

    def _tree(self, node: Any) -> Any:
        self._listed(node, ("sklearn.tree._tree.Tree",))
        return make_tree(self._read(node["__reduce__"]["args"]), self._read(node["content"]))

    def _loss(self, node: Any) -> Any:
        kind = loss_classes()[self._listed(node, loss_classes())]
        arguments, state = self._read(node["__reduce__"]["args"]), self._read(node["content"])
        if state or not all(isinstance(one, float | int) for one in arguments):
            raise Damaged("a loss has a setting that is not a number")
        return kind(*arguments)


def _trusted_class(name: str) -> Any:
    module, _, kind = name.rpartition(".")
    return getattr(importlib.import_module(module), kind)  # the user gave this exact name


def _index(value: Any) -> int | None:
    if value is not None and not isinstance(value, int):
        raise Damaged("a slice has an end that is not a number")
    return value


def _own(kind: type[Any], state: dict[str, Any]) -> Any:
    """Make an object of observal from its fields; values derived from them are computed again."""
    if dataclasses.is_dataclass(kind):
        fields = [field for field in dataclasses.fields(kind) if field.init]
        # An older observal did not write fields that were added later; they have a default.
        there = [f for f in fields if f.name in state or f.default is dataclasses.MISSING]
        return build(kind, {field.name: state[field.name] for field in there})
    (name,) = kind._get_param_names()
    return kind(state[name])
