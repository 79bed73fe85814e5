"""Finite classes of classifiers, and classes that are finite on the data.

A class restricted to rows is a ``Restriction``: the predictions of all its members, one bit each (``Dichotomies``), and
each member as a classifier for new rows. A class given before the data (``FiniteClass``, ``CallableClass``) is `fixed`;
one enumerated on the data (``Thresholds``, ``Stumps``, ``HalfPlanes``, ``Rectangles``) is not, and nothing that rests on
it is certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Bools, Floats, Ints, Signs
from observal.errors import InvalidInput, NotPredictable
from observal.paper import geometry
from observal.paper.dichotomies import Dichotomies, check_positions, pack, packed_in_chunks
from observal.problem.rows import Features, Matrix, by_column, check_features, column_of, count_rows

if TYPE_CHECKING:
    from scipy.sparse import csc_array

# Members: classifiers for new rows


@runtime_checkable
class Member(Protocol):
    """One classifier of a class."""

    def signs(self, X: Features) -> Signs:
        """Return −1 or +1 for each row of X."""
        ...


def _pair(values: Floats) -> tuple[float, float]:
    return float(values[0]), float(values[1])


def _signs(positive: Bools | np.bool_) -> Signs:
    return 2 * np.asarray(positive).astype(np.int8) - np.int8(1)


def _column(X: Matrix | csc_array[Any], feature: int, what: str) -> Floats:
    """Return one column as floats; only this one is converted where X is sparse."""
    if not 0 <= feature < X.shape[1]:
        raise InvalidInput(f"{what} needs feature {feature}, but X has shape {X.shape}; count features from 0.")
    return np.ascontiguousarray(column_of(X, feature))  # comparing a strided column takes twice as long


def _plane(X: Features, what: str) -> Floats:
    rows = check_features(X, f"The rows of {what}")
    if rows.shape[1] != 2:
        raise InvalidInput(f"{what} needs exactly 2 features, but X has shape {rows.shape}; choose two columns.")
    return np.column_stack([_column(rows, 0, what), _column(rows, 1, what)])


@dataclass(frozen=True)
class Constant:
    """The same sign everywhere."""

    sign: int

    def signs(self, X: Features) -> Signs:
        """Return `sign` for each row of X."""
        return np.full(count_rows(X), self.sign, dtype=np.int8)


@dataclass(frozen=True)
class Threshold:
    """`sign` where the feature is above `cut`, else the other sign."""

    feature: int
    cut: float
    sign: int = 1

    def signs(self, X: Features) -> Signs:
        """Return −1 or +1 for each row of X."""
        above = _column(check_features(X, "The rows"), self.feature, "A threshold") > self.cut
        return _signs(above == (self.sign > 0))


@dataclass(frozen=True)
class HalfPlane:
    """`sign` where ``normal·(x − through) > 0``, else the other sign."""

    normal: tuple[float, float]
    through: tuple[float, float]
    sign: int = 1

    def signs(self, X: Features) -> Signs:
        """Return −1 or +1 for each row of X."""
        rows = _plane(X, "A half-plane")
        with np.errstate(over="ignore", invalid="ignore"):
            x, y = (rows - self.through).T
            # Not a matrix product: its rounding may depend on how many rows there are.
            inside = self.normal[0] * x + self.normal[1] * y > 0
        return _signs(inside == (self.sign > 0))


@dataclass(frozen=True)
class TangentHalfPlane:
    """`sign` left of the line from `first` to `second`, and on it up to `first`; else the other sign; exactly.

    It stands for the half-planes next to it where these are too close for floating-point coefficients.
    """

    first: tuple[float, float]
    second: tuple[float, float]
    sign: int = 1

    def signs(self, X: Features) -> Signs:
        """Return −1 or +1 for each row of X."""
        rows = _plane(X, "A half-plane") + 0.0
        points = np.concatenate([[self.first, self.second], rows])
        left, _, on_line = geometry.sides(points, geometry.integer_grid(points), 0, np.array([1]))
        positive = left[0, 2:]
        x, y = self.first
        after = (rows[:, 0] > x) | ((rows[:, 0] == x) & (rows[:, 1] > y))
        positive[on_line - 2] = ~after[on_line - 2]
        return _signs(positive == (self.sign > 0))


@dataclass(frozen=True)
class Rectangle:
    """+1 from `low` to `high` in both features, borders included; else −1."""

    low: tuple[float, float]
    high: tuple[float, float]

    def signs(self, X: Features) -> Signs:
        """Return −1 or +1 for each row of X."""
        rows = _plane(X, "A rectangle")
        return _signs(np.all((rows >= self.low) & (rows <= self.high), axis=1))


@dataclass(frozen=True)
class FromCallable:
    """A function from X to −1/+1."""

    function: Callable[[Any], ArrayLike]

    def signs(self, X: Features) -> Signs:
        """Return −1 or +1 for each row of X."""
        X = check_features(X, "The rows of a classifier")
        signs = np.asarray(self.function(X))
        if signs.shape != X.shape[:1] or not ((signs == 1) | (signs == -1)).all():
            raise InvalidInput(
                f"A classifier must return −1 or +1 for each of {X.shape[0]} rows, but {self.function!r} returned "
                f"shape {signs.shape} with values {np.unique(signs)[:5].tolist()}; return an array of −1 and +1."
            )
        return signs.astype(np.int8)


@dataclass(frozen=True, eq=False, repr=False)
class KnownPredictions:
    """A classifier known only by its predictions on the rows its class was given for."""

    predictions: Signs

    def signs(self, X: Features) -> Signs:
        """Raise an error: there are no predictions for other rows."""
        raise NotPredictable(
            f"A classifier given as a row of a prediction matrix is known on its {self.predictions.size} rows only, and "
            "cannot predict others; read its .predictions, or give the class with FiniteClass.from_callables."
        )

    def __repr__(self) -> str:
        return f"KnownPredictions({self.predictions.size} rows)"


# Classes


@dataclass(frozen=True, eq=False)
class Restriction:
    """A class on given rows.

    `dichotomies` says what each member predicts on the rows, `fixed` whether the class was given before the data;
    `build` makes a member from its index.
    """

    dichotomies: Dichotomies
    fixed: bool
    build: Callable[[int], Member] = field(repr=False)

    def __len__(self) -> int:
        return len(self.dichotomies)

    def member(self, index: int) -> Member:
        """Return a member as a classifier; on the rows it agrees with ``dichotomies.signs(index)``."""
        return self.build(int(check_positions([index], len(self), "classifiers")[0]))


@runtime_checkable
class HypothesisClass(Protocol):
    """What every class promises."""

    @property
    def fixed(self) -> bool:
        """Whether the class was given before the data, and not enumerated on it."""
        ...

    def restrict(self, X: Features) -> Restriction:
        """Return all members' predictions on the rows of X."""
        ...


@dataclass(frozen=True)
class FiniteClass:
    """Classifiers given as a matrix of predictions.

    Parameters
    ----------
    predictions : array of shape (classifiers, rows)
        −1/+1, 0/1 or booleans. The columns are the logged rows followed by the pool rows.

    Examples
    --------
    >>> from observal.paper.hypotheses import FiniteClass
    >>> FiniteClass([[1, -1, 1], [1, 1, -1]])
    FiniteClass(predictions=Dichotomies(2 classifiers × 3 rows))
    >>> right = FiniteClass.from_callables([lambda X: np.where(X[:, 0] > 0, 1, -1)])
    >>> right.restrict([[0.5], [-2.0]]).member(0).signs([[3.0]]).tolist()
    [1]
    """

    predictions: Any
    fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.predictions, Dichotomies):
            object.__setattr__(self, "predictions", Dichotomies.from_signs(self.predictions))

    @staticmethod
    def from_callables(functions: Iterable[Callable[[Any], ArrayLike]]) -> CallableClass:
        """Return the class of the given functions from X to −1/+1."""
        return CallableClass(tuple(functions))

    def restrict(self, X: Features) -> Restriction:
        """Return the predictions; X is read only for its number of rows."""
        if count_rows(X) != self.predictions.n_rows:
            raise InvalidInput(
                f"The prediction matrix has {self.predictions.n_rows} columns, but there are {count_rows(X)} rows; "
                "give one column per row, the logged rows followed by the pool rows."
            )
        return Restriction(self.predictions, self.fixed, partial(_known_predictions, self.predictions))


@dataclass(frozen=True)
class CallableClass:
    """Classifiers given as functions from X to −1/+1."""

    functions: tuple[Callable[[Any], ArrayLike], ...] = field(repr=False)
    fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.functions or not all(callable(function) for function in self.functions):
            raise InvalidInput("A class needs at least one classifier, each a function from X to −1/+1.")

    def __repr__(self) -> str:
        return f"CallableClass({len(self.functions)} functions)"

    def restrict(self, X: Features) -> Restriction:
        """Call each function on X."""
        rows = check_features(X, "The rows of a class")
        packed = packed_in_chunks(
            len(self.functions),
            rows.shape[0],
            lambda some: pack(np.stack([FromCallable(f).signs(rows) > 0 for f in self.functions[some]])),
        )
        return Restriction(Dichotomies(packed, rows.shape[0]), self.fixed, partial(_from_callable, self.functions))


@dataclass(frozen=True)
class Thresholds:
    """Thresholds on one feature: ``x > cut`` and, with `both_signs`, ``x ≤ cut``.

    Examples
    --------
    >>> from observal.paper.hypotheses import Thresholds
    >>> on_rows = Thresholds().restrict([[0.0], [1.0], [1.0]])
    >>> len(on_rows), on_rows.member(2)
    (4, Threshold(feature=0, cut=0.5, sign=1))
    """

    feature: int = 0
    both_signs: bool = True
    fixed: ClassVar[bool] = False

    def restrict(self, X: Features) -> Restriction:
        """Enumerate: U + 1 classifiers on U distinct values, 2U with both signs."""
        return _stumps("Thresholds", X, [self.feature], self.both_signs)


@dataclass(frozen=True)
class Stumps:
    """Thresholds on any one of the features; splits that several features allow count once.

    Examples
    --------
    >>> from observal.paper.hypotheses import Stumps
    >>> len(Stumps().restrict([[0.0, 5.0], [1.0, 5.0], [2.0, 4.0]]))
    6
    """

    both_signs: bool = True
    fixed: ClassVar[bool] = False

    def restrict(self, X: Features) -> Restriction:
        """Enumerate, one feature at a time."""
        return _stumps("Stumps", X, None, self.both_signs)


@dataclass(frozen=True)
class HalfPlanes:
    """Half-planes of two features.

    Examples
    --------
    >>> from observal.paper.hypotheses import HalfPlanes
    >>> len(HalfPlanes().restrict([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    14
    """

    fixed: ClassVar[bool] = False

    def restrict(self, X: Features) -> Restriction:
        """Enumerate: U² − U + 2 classifiers on U distinct points in general position, else fewer."""
        rows = _plane(X, "HalfPlanes")
        packed, points, first, second = geometry.half_planes(rows)
        return Restriction(Dichotomies(packed, len(rows)), self.fixed, partial(_half_plane, points, first, second))


@dataclass(frozen=True)
class Rectangles:
    """Axis-aligned rectangles of two features, +1 inside; the empty one included.

    Examples
    --------
    >>> from observal.paper.hypotheses import Rectangles
    >>> on_rows = Rectangles().restrict([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> len(on_rows), on_rows.member(2)
    (7, Rectangle(low=(0.0, 0.0), high=(1.0, 1.0)))
    """

    fixed: ClassVar[bool] = False

    def restrict(self, X: Features) -> Restriction:
        """Enumerate the tight boxes."""
        rows = _plane(X, "Rectangles")
        packed, low, high = geometry.rectangles(rows)
        return Restriction(Dichotomies(packed, len(rows)), self.fixed, partial(_rectangle, low, high))


# From a member's index to the member: functions of this module, so that a restriction can be pickled


def _known_predictions(predictions: Dichotomies, index: int) -> Member:
    return KnownPredictions(predictions.signs(index))


def _from_callable(functions: tuple[Callable[[Any], ArrayLike], ...], index: int) -> Member:
    return FromCallable(functions[index])


def _stumps(name: str, X: Features, features: list[int] | None, both_signs: bool) -> Restriction:
    rows = by_column(check_features(X, f"The rows of {name}"))
    columns = list(range(rows.shape[1])) if features is None else features
    packed, feature, cut, sign = geometry.stumps(
        name, lambda feature: _column(rows, feature, name), columns, rows.shape[0], both_signs=both_signs
    )
    return Restriction(Dichotomies(packed, rows.shape[0]), False, partial(_threshold, feature, cut, sign))


def _threshold(feature: Ints, cut: Floats, sign: Signs, index: int) -> Member:
    return Threshold(int(feature[index]), float(cut[index]), int(sign[index]))


def _rectangle(low: Floats, high: Floats, index: int) -> Member:
    return Rectangle(_pair(low[index]), _pair(high[index]))


def _half_plane(points: Floats, first: Ints, second: Ints, index: int) -> Member:
    if index < 2:
        return Constant(2 * index - 1)
    pair, sign = (index - 2) % first.size, 1 if index - 2 < first.size else -1
    i, j = int(first[pair]), int(second[pair])
    grid = geometry.integer_grid(points)
    positive = geometry.tangent_split(points, grid, i, second[[pair]])[0][0]
    _, _, on_line = geometry.sides(points, grid, i, second[[pair]])
    with np.errstate(all="ignore"):  # what overflows fails the check
        normal, through = geometry.rotated_line(points, i, j, on_line)
        line = HalfPlane(_pair(normal), _pair(through), sign)
        exact = np.array_equal(line.signs(points), sign * _signs(positive))
    return line if exact else TangentHalfPlane(_pair(points[i]), _pair(points[j]), sign)
