"""A model as one ONNX graph: from the columns of a table to classes and probabilities, without Python.

All numbers are 64-bit but in the trees, which compare 32-bit features as our own do. A threshold that is rounded down to 32 bits parts 32-bit numbers
exactly as before, so rows reach the same leaves. Only the sums of leaves are rounded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats
from observal.errors import InvalidInput
from observal.files import check_target, writing
from observal.intervals.recalibration import FARTHEST
from observal.intervals.thresholds import FactorClassifier, ThresholdClassifier
from observal.journal.settings import observal_version
from observal.learners.blend import Blend
from observal.learners.blend_settings import KERNEL_LIMIT, MIN_CHANCE
from observal.learners.population import Space
from observal.learners.smooth_learners import AdditiveChances, KernelChances, LinearChances
from observal.learners.tree_learners import TreeChances
from observal.methods.newton import NewtonClassifier
from observal.tables.column_format import MISSING

if TYPE_CHECKING:
    import onnx

    from observal.learners.features import FeatureMap
    from observal.tables.encoder import ColumnRule, TableEncoder

OPSET, TREES_OPSET, FORMAT = 17, 3, 8  # of 2022: old enough for most programs that run ONNX
ONNX = ".onnx"  # the ending of such files
TREES = "ai.onnx.ml"  # the operators for trees and categories


def write_onnx(path: str | Path, classifier: Any, encoder: TableEncoder | None, force: bool = False) -> None:
    """Write a classifier as ONNX; an existing file is replaced only with `force`.

    Each column of the table is an input of shape (rows, 1): numbers as doubles, NaN where missing; dates as days since 1970-01-01 and durations in days;
    text as strings, empty where missing. Without an encoder there is one input, X, of shape (rows, features), its columns in the order of the log. The outputs are ``prediction`` and
    ``probabilities``, one for each class; the threshold of an objective has decided the prediction.
    """
    check_target(path, force)
    content = make_onnx(classifier, encoder).SerializeToString()
    with writing(path, force) as file:
        file.write(content)


def make_onnx(classifier: Any, encoder: TableEncoder | None) -> onnx.ModelProto:
    """Return a classifier as an ONNX model, over the columns of a table or, without an encoder, over rows of encoded numbers.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> fit = ob.BlendClassifier(learners=("linear",)).fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    >>> [output.name for output in make_onnx(fit.blend_, None).graph.output]
    ['prediction', 'probabilities']
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise InvalidInput("ONNX files need the package onnx; install it with pip install 'observal[onnx]'.") from None
    from onnx import TensorProto, helper

    graph = _Graph()
    if encoder is None:
        X = graph.add_input("X", TensorProto.DOUBLE, int(_inner(classifier).feature_map.mean.size))
    else:
        text, number = TensorProto.STRING, TensorProto.DOUBLE
        names = [graph.add_input(rule.source, text if rule.kind == "category" else number, 1) for rule in encoder.rules]
        missing = (*MISSING, *encoder.format.missing)
        columns = [_encode(graph, name, rule, missing) for name, rule in zip(names, encoder.rules, strict=True)]
        X = graph("Concat", *columns, axis=1)
    chances = _chances(graph, classifier, X)
    classes = _plain(np.asarray(classifier.classes_))
    graph.add_output(
        "prediction", graph("Gather", graph.constant(classes), _codes(graph, classifier, chances)), classes.dtype
    )
    graph.add_output("probabilities", chances, np.dtype(np.float64), classes.size)
    made = helper.make_model(
        helper.make_graph(graph.nodes, "observal", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(TREES, TREES_OPSET)],
        ir_version=FORMAT,
        producer_name="observal",
        producer_version=observal_version(),
    )
    onnx.checker.check_model(made)
    return made


def _plain(classes: NDArray[Any]) -> NDArray[Any]:
    """Return label values in a type that ONNX has."""
    kinds = {"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    return (
        classes.astype(kinds[classes.dtype.kind]) if classes.dtype.kind in kinds else classes.astype(str).astype(object)
    )


def _inner(classifier: Any) -> Blend | NewtonClassifier:
    """Return the classifier without its threshold; refuse one that cannot be written."""
    inner = classifier.estimator if isinstance(classifier, ThresholdClassifier | FactorClassifier) else classifier
    if isinstance(inner, NewtonClassifier) and inner.feature_map.transformers:
        raise _refusal("A model of NewtonVC with splines or random cosines")
    if not isinstance(inner, Blend | NewtonClassifier):
        raise _refusal(f"A {type(inner).__name__}")
    return inner


def _refusal(what: str) -> InvalidInput:
    return InvalidInput(
        f"{what} cannot be written as ONNX; use AutoVC with its own learners, or NewtonVC(features='linear')."
    )


class _Graph:
    """A graph under construction: calling it adds a node, and returns the name of what the node makes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self._names: set[str] = set()

    def _new_name(self, stem: str) -> str:
        """Return a name that nothing has; columns may have any."""
        name, number = stem, len(self._names)
        while name in self._names:
            name, number = f"{stem}_{number}", number + 1
        self._names.add(name)
        return name

    def __call__(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = self._new_name(operator)
        self.nodes.append(helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Add a constant: doubles, or whatever an array holds."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(values), self._new_name("constant")))
        return self.constants[-1].name

    def add_input(self, name: str, kind: int, width: int) -> str:
        """Add an input of rows × width."""
        from onnx import helper

        self.inputs.append(helper.make_tensor_value_info(self._new_name(name), kind, ["rows", width]))
        return self.inputs[-1].name

    def add_output(self, name: str, value: str, dtype: np.dtype[Any], *shape: int) -> None:
        """Make a value an output under a name of its own."""
        from onnx import TensorProto, helper

        kind = TensorProto.STRING if dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(dtype)
        self.outputs.append(helper.make_tensor_value_info(self._new_name(name), kind, ["rows", *shape]))
        self.nodes.append(helper.make_node("Identity", [value], [self.outputs[-1].name]))

    def clip(self, value: str, low: Any, high: Any) -> str:
        """Cut values; the ends may differ between columns."""
        return self("Min", self("Max", value, self.constant(low)), self.constant(high))

    def doubles(self, value: str) -> str:
        """Turn values into doubles."""
        from onnx import TensorProto

        return self("Cast", value, to=TensorProto.DOUBLE)

    def total(self, value: str) -> str:
        """Add up the last axis and keep it."""
        return self("ReduceSum", value, self.constant(np.array([-1])), keepdims=1)


# -- columns of a table to numbers -----------------------------------------------------------------------------------


def _encode(graph: _Graph, column: str, rule: ColumnRule, missing_words: tuple[str, ...]) -> str:
    """Encode a column as ``ColumnRule.fill_block`` does."""
    if rule.kind == "category":
        parts = _encode_category(graph, column, rule, missing_words)
    else:
        missing = graph("Or", graph("IsNaN", column), graph("IsInf", column))
        value = graph("Where", missing, graph.constant(rule.fill), column)
        parts = [*([value] if rule.value else ()), *([graph.doubles(missing)] if rule.indicator else ())]
    return parts[0] if len(parts) == 1 else graph("Concat", *parts, axis=1)


def _encode_category(graph: _Graph, column: str, rule: ColumnRule, missing_words: tuple[str, ...]) -> list[str]:
    places = {category: place for place, category in enumerate(rule.categories)}
    n = len(places)
    words = dict.fromkeys(missing_words, n) | places
    code = graph(
        "LabelEncoder",
        column,
        domain=TREES,
        keys_strings=list(words),
        values_int64s=list(words.values()),
        default_int64=-1,
    )
    marked = [*(range(n) if rule.value else ()), *([n] if rule.indicator else ())]
    return [graph.doubles(graph("Equal", code, graph.constant(np.array(marked))))]


# -- classifiers -----------------------------------------------------------------------------------------------------


def _chances(graph: _Graph, classifier: Any, X: str) -> str:
    """Return the chance of each class of a classifier."""
    inner = _inner(classifier)
    Z = _standardise(graph, inner.feature_map, X)
    if isinstance(inner, NewtonClassifier):
        second = graph("Sigmoid", _affine(graph, Z, inner.coef_.T, inner.intercept_))
        chances = _both(graph, second)
    else:
        parts = [
            graph("Mul", graph.constant(share), _clip_chances(graph, _member(graph, name, member, Z)))
            for name, member, share in zip(inner.names, inner.members, inner.theta, strict=True)
        ]
        chances = parts[0] if len(parts) == 1 else graph("Sum", *parts)
    if isinstance(classifier, ThresholdClassifier) and (classifier.shift, classifier.slope) != (0.0, 1.0):
        chances = _recalibrate(graph, classifier, chances)
    return chances


def _codes(graph: _Graph, classifier: Any, chances: str) -> str:
    """Return the predicted class of each row, as a place in the classes."""
    if isinstance(classifier, FactorClassifier):
        chances = graph("Mul", chances, graph.constant(classifier.factors))
    if not isinstance(classifier, ThresholdClassifier):
        return graph("ArgMax", chances, axis=1, keepdims=0)
    from onnx import TensorProto

    second = graph("Gather", chances, graph.constant(np.array(1)), axis=1)
    positive = graph("GreaterOrEqual", second, graph.constant(classifier.threshold))
    return graph("Cast", positive, to=TensorProto.INT64)


def _standardise(graph: _Graph, feature_map: FeatureMap, X: str) -> str:
    cut = graph.clip(X, feature_map.low, feature_map.high)
    return graph("Div", graph("Sub", cut, graph.constant(feature_map.mean)), graph.constant(feature_map.scale))


def _recalibrate(graph: _Graph, classifier: ThresholdClassifier, chances: str) -> str:
    """See ``ThresholdClassifier.predict_proba``."""
    second = graph.clip(graph("Gather", chances, graph.constant(np.array([1])), axis=1), 1e-300, 1.0 - 1e-16)
    odds = graph("Sub", graph("Log", second), graph("Log", graph("Sub", graph.constant(1.0), second)))
    scores = graph("Mul", graph.constant(classifier.slope), graph.clip(odds, -FARTHEST, FARTHEST))
    return _both(graph, graph("Sigmoid", graph("Add", scores, graph.constant(classifier.shift))))


def _both(graph: _Graph, second: str) -> str:
    return graph("Concat", graph("Sub", graph.constant(1.0), second), second, axis=1)


def _affine(graph: _Graph, X: str, weights: Floats, shift: Floats) -> str:
    return graph("Add", graph("MatMul", X, graph.constant(weights)), graph.constant(shift))


def _clip_chances(graph: _Graph, chances: str) -> str:
    above = graph("Max", chances, graph.constant(MIN_CHANCE))
    return graph("Div", above, graph.total(above))


# -- the learners of a blend -----------------------------------------------------------------------------------------


def _member(graph: _Graph, name: str, member: Any, Z: str) -> str:
    if isinstance(member, LinearChances):
        return graph("Softmax", _affine(graph, Z, member.coef, member.shift), axis=1)
    if isinstance(member, AdditiveChances):
        return _additive(graph, member, Z)
    if isinstance(member, KernelChances):
        return _kernel(graph, member, Z)
    if isinstance(member, TreeChances):
        return _trees(graph, member, Z)
    raise _refusal(f"The learner {name!r}")


class _Steps(NamedTuple):
    """A bent line as steps: f(x) = start + Σ rise·min(max((x − begin)/width, 0), 1), which loses no digits."""

    start: Floats
    begin: Floats
    width: Floats
    rise: Floats

    @classmethod
    def of(cls, knots: Floats, values: Floats) -> _Steps:
        """Make it of increasing knots and the values at them, which may have further axes."""
        width = np.diff(knots)
        real = width > 0.0  # a knot that is repeated
        return cls(values[0], knots[:-1][real], width[real], np.diff(values, axis=0)[real])


def _ramps(graph: _Graph, x: str, begin: Floats, width: Floats) -> str:
    return graph.clip(graph("Div", graph("Sub", x, graph.constant(begin)), graph.constant(width)), 0.0, 1.0)


def _additive(graph: _Graph, member: AdditiveChances, Z: str) -> str:
    lines = [
        _Steps.of(knots, values) for knots, values in zip(member.knots.T, member.values.swapaxes(0, 1), strict=True)
    ]
    shift = member.shift + sum(line.start for line in lines)
    scores = _affine(graph, Z, member.coef, shift)
    if lines:
        owner = np.repeat(member.features, [line.begin.size for line in lines])
        begin, width, rise = (np.concatenate([line[k] for line in lines]) for k in (1, 2, 3))
        ramps = _ramps(graph, graph("Gather", Z, graph.constant(owner), axis=1), begin, width)
        scores = graph("Add", scores, graph("MatMul", ramps, graph.constant(rise)))
    return graph("Softmax", scores, axis=1)


def _kernel(graph: _Graph, member: KernelChances, Z: str) -> str:
    points = _points(graph, member.space, Z)
    norms = graph.total(graph("Mul", points, points))
    cross = graph("MatMul", points, graph.constant(-2.0 * member.landmarks.T))
    own = graph.constant(np.square(member.landmarks).sum(axis=1))
    distance = graph("Max", graph("Add", graph("Add", cross, norms), own), graph.constant(0.0))
    kernel = graph("Exp", graph("Mul", distance, graph.constant(-member.gamma)))
    return graph("Softmax", _affine(graph, kernel, member.coef, member.shift), axis=1)


def _points(graph: _Graph, space: Space, Z: str) -> str:
    """Return rows as points of the kernel's space, a column at a time: all at once would take 127 times the memory of the rows."""
    if not len(space.knots):
        return graph.clip(Z, -KERNEL_LIMIT, KERNEL_LIMIT)
    columns = []
    for j, (knots, scores) in enumerate(zip(space.knots.T, space.scores.T, strict=True)):
        line = _Steps.of(knots, scores)
        ramps = _ramps(graph, graph("Gather", Z, graph.constant(np.array([j])), axis=1), line.begin, line.width)
        columns.append(_affine(graph, ramps, line.rise[:, None], line.start[None]))
    return graph("Concat", *columns, axis=1)


def _trees(graph: _Graph, member: TreeChances, Z: str) -> str:
    from onnx import TensorProto

    rows = graph("Cast", Z, to=TensorProto.FLOAT)
    leaves = graph.doubles(graph("TreeEnsembleRegressor", rows, domain=TREES, **_tree_attributes(member)))
    sums = graph("Reshape", leaves, graph.constant(np.array([-1, *member.start.shape])))
    sums = graph("Add", sums, graph.constant(member.start))
    chances = graph("Softmax", sums, axis=2) if member.as_log_odds else sums
    mean = graph("ReduceMean", chances, axes=[1], keepdims=0)
    if member.sharpness == 1.0:
        return mean
    powers = graph("Pow", _clip_chances(graph, mean), graph.constant(member.sharpness))
    return _clip_chances(graph, powers)


def _tree_attributes(member: TreeChances) -> dict[str, Any]:
    """Return trees as the operator has them: each node with its tree and its number there, each leaf with what it adds to which sum.

    Nodes that ask for the levels of a category lead to a node together. onnxruntime allows that where the answer is yes, so they ask for more than
    a threshold, not for less.
    """
    n = member.feature.size
    order = np.argsort(member.roots, kind="stable")
    tree = np.searchsorted(member.roots[order], np.arange(n), side="right") - 1
    number = np.arange(n) - member.roots[order][tree]
    inner = member.feature >= 0
    low = member.threshold.astype(np.float32)
    low = np.where(low > member.threshold, np.nextafter(low, np.float32(-np.inf)), low)
    leaf, place = np.nonzero(np.broadcast_to(~inner[:, None], member.value.shape))
    return {
        "n_targets": int(member.start.size),
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": number.tolist(),
        "nodes_featureids": np.where(inner, member.feature, 0).tolist(),
        "nodes_modes": np.where(inner, "BRANCH_GT", "LEAF").tolist(),
        "nodes_values": np.where(inner, low, np.float32(0.0)).tolist(),
        "nodes_truenodeids": np.where(inner, number[member.right], 0).tolist(),
        "nodes_falsenodeids": np.where(inner, number[member.left], 0).tolist(),
        "target_treeids": tree[leaf].tolist(),
        "target_nodeids": number[leaf].tolist(),
        "target_ids": (member.column[order][tree[leaf]] + place).tolist(),
        "target_weights": member.value[leaf, place].tolist(),
    }
