"""The frozen record that every generator and loader returns, and the region that a blind spot covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, check_generator, check_whole, frozen
from observal.errors import InvalidInput, InvalidLabel
from observal.problem.labels import distinct_labels, missing_mask
from observal.problem.rows import Features, Matrix, check_features, to_dense

RandomState = int | np.random.Generator | None


def dense_column(X: Matrix, feature: int) -> NDArray[Any]:
    """Return one column of a dense or sparse matrix as a flat array of its own type."""
    return to_dense(X[:, [feature]]).ravel()


@dataclass(frozen=True)
class Region:
    """The rows that lie beyond every one of a few thresholds.

    Parameters
    ----------
    conditions : tuple of (feature, side, threshold)
        A row is inside when, for each condition, its feature is above (side 1) or not above (side −1) the threshold.

    Examples
    --------
    >>> quarter = Region(((0, 1, 0.0), (1, -1, 0.5)))
    >>> quarter
    Region(x0 > 0 and x1 <= 0.5)
    >>> quarter([[0.2, 0.1], [0.2, 0.9], [-0.3, 0.1]]).tolist()
    [True, False, False]
    """

    conditions: tuple[tuple[int, int, float], ...]

    def __post_init__(self) -> None:
        conditions = tuple((int(feature), int(side), float(bound)) for feature, side, bound in self.conditions)
        if not conditions or any(f < 0 or s not in (-1, 1) or b != b for f, s, b in conditions):
            raise InvalidInput(
                f"A region needs conditions (feature ≥ 0, side 1 or −1, threshold), but got {self.conditions!r}; "
                "for example ((0, 1, 0.0),) for the rows whose first feature is above 0."
            )
        object.__setattr__(self, "conditions", conditions)

    def __call__(self, X: Features) -> Bools:
        """Return which rows lie inside."""
        rows = check_features(X, "The features")
        last = max(feature for feature, _, _ in self.conditions)
        if last >= rows.shape[1]:
            raise InvalidInput(
                f"{self} reads feature {last}, but the rows have {rows.shape[1]} features; give the rows it was made for."
            )
        inside = np.ones(rows.shape[0], dtype=bool)
        for feature, side, bound in self.conditions:
            inside &= (dense_column(rows, feature) > bound) == (side == 1)
        return inside

    def __repr__(self) -> str:
        words = (f"x{feature} {'>' if side == 1 else '<='} {bound:g}" for feature, side, bound in self.conditions)
        return f"Region({' and '.join(words)})"


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows whose labels are all known, to play a world in which most of them are hidden.

    Parameters
    ----------
    X : array or sparse matrix of shape (rows, features)
        Finite numbers.
    y : array of shape (rows,)
        Labels of exactly two classes, none missing.
    name, description : str
        What it is, in a word and in a sentence.
    region : Region, optional
        Where a blind spot is meant to be.
    feature_names : tuple of str, optional
        One per feature.

    Examples
    --------
    >>> Dataset([[0.0], [1.0], [2.0]], [0, 1, 1], "three", "Three rows.")
    Dataset(three: 3 rows × 1 features, classes [0, 1])
    """

    X: Any
    y: Any
    name: str
    description: str
    region: Region | None = None
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        X = check_features(self.X, f"The features of {self.name}")
        y = np.asarray(self.y)
        if y.shape != (X.shape[0],):
            raise InvalidInput(
                f"Data set {self.name} needs one label for each of its {X.shape[0]} rows, but got shape {y.shape}."
            )
        two_classes(y, f"Data set {self.name}")
        if self.feature_names is not None:
            names = tuple(str(name) for name in self.feature_names)
            if len(names) != X.shape[1]:
                raise InvalidInput(
                    f"Data set {self.name} needs one name for each of its {X.shape[1]} features, but got {len(names)}."
                )
            object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", frozen(y))

    @property
    def classes(self) -> NDArray[Any]:
        """The two label values, the positive one last."""
        return distinct_labels(self.y)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def sample(self, n_rows: int, random_state: RandomState = None) -> Self:
        """Return `n_rows` of the rows, drawn without replacement; all of them, as they are, where there are not more.

        Examples
        --------
        >>> from observal_research.datasets import make_linear
        >>> make_linear(500, random_state=0).sample(100, random_state=0)
        Dataset(linear-triangular: 100 rows × 30 features, classes [-1, 1])
        """
        if check_whole(n_rows, "n_rows", 1) >= len(self):
            return self
        rows = np.sort(check_generator(random_state).choice(len(self), size=n_rows, replace=False))
        return type(self)(self.X[rows], self.y[rows], self.name, self.description, self.region, self.feature_names)

    def __repr__(self) -> str:
        return f"Dataset({self.name}: {len(self)} rows × {self.X.shape[1]} features, classes {self.classes.tolist()})"


def two_classes(y: NDArray[Any], what: str) -> NDArray[Any]:
    """Return the two label values; refuse missing labels and any other number of classes."""
    missing = missing_mask(y)
    if missing.any():
        raise InvalidLabel(
            f"{what} must have every label, but {int(missing.sum())} of {y.size} are missing; "
            "drop those rows; the logging policy is what hides labels."
        )
    classes = distinct_labels(y)
    if len(classes) != 2:
        raise InvalidLabel(
            f"{what} must have exactly two classes, but has {classes.tolist()[:10]}; merge or drop classes."
        )
    return classes
