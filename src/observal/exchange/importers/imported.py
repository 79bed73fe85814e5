"""What importers return, and what they share: labels from numbers, and propensities from what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, check_propensity
from observal.diagnosis import propensity as chances
from observal.errors import InvalidInput, InvalidLabel
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import distinct_labels
from observal.problem.rows import Matrix, Sparse
from observal.tables import read_labels

_MOST_DENSE_VALUES = 10_000_000  # 80 MB; larger sparse matrices stay sparse


@dataclass(frozen=True, eq=False)
class Imported:
    """A log, the pool where there is one, the names of the features, and what was done in sentences.

    The names are empty where a large sparse file has none.

    Examples
    --------
    >>> from observal.exchange.importers import from_vw_cb
    >>> imported = from_vw_cb(["1:0:0.5 | age:30", "1:1:0.5 | age:50", "2:0:0.5 | age:40"], action=1)
    >>> imported.logged, imported.pool, imported.feature_names
    (LoggedData(3 rows × 1 features, 2 revealed, classes [0, 1]), None, ('age',))
    """

    logged: LoggedData
    pool: Pool | None
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]


def labels_from(
    values: Sequence[Any] | NDArray[Any],
    revealed: Bools,
    label: Callable[[Any], Any] | None,
    classes: Sequence[Any] | None,
    what: str,
) -> tuple[NDArray[Any], list[Any]]:
    """Return labels, None where not revealed, and the two classes; `label` turns a value into its label.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.exchange.importers.imported import labels_from
    >>> labels_from([0.0, 5.0, 1.0], np.array([True, False, True]), None, None, "The reward")[0].tolist()
    [0, None, 1]
    """
    raw = np.empty(revealed.size, dtype=object)
    shown = np.asarray(values, dtype=object)[revealed]
    raw[revealed] = shown if label is None else [label(value) for value in shown.tolist()]
    labels, missing = read_labels(raw, classes)
    lost = missing & revealed
    if lost.any():
        raise InvalidLabel(
            f"{what} must be known where it was revealed, but row {int(np.argmax(lost))} has none; fill it in."
        )
    found = list(classes) if classes is not None else distinct_labels(labels[~missing]).tolist()
    if len(found) != 2:
        seen = ", ".join(repr(value) for value in found[:5]) + (", …" if len(found) > 5 else "")
        raise InvalidLabel(
            f"{what} must have two values, but has {len(found)} ({seen or 'none'}); name both with classes=, or turn the "
            "values into two with label=, a function of the value."
        )
    return labels, found


def propensity_from(
    source: Any, X: Matrix, revealed: Bools, X_pool: Matrix | None, random_state: int
) -> tuple[Floats, Any, list[str]]:
    """Return the log's and the pool's propensities from a number, an array, a policy or ``"estimate"``.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.exchange.importers.imported import propensity_from
    >>> propensity_from(0.5, np.zeros((2, 1)), np.array([True, False]), None, random_state=0)[0].tolist()
    [0.5, 0.5]
    """
    n_rows = X.shape[0]
    if isinstance(source, str):
        if source != "estimate":
            raise InvalidInput(
                f"`propensity` must be numbers, a policy or 'estimate', but is {source!r}; a propensity is the chance that a "
                "row's label was revealed."
            )
        estimated = chances.estimate(X, revealed, X_pool, random_state=random_state)
        return estimated.logged, estimated.pool, list(estimated.notes)
    if callable(source) or hasattr(source, "predict_proba"):
        pool = None if X_pool is None else chances.from_policy(source, X_pool)
        return chances.from_policy(source, X), pool, []
    if X_pool is not None and np.ndim(source) > 0:
        raise InvalidInput(
            "Log and pool both need propensities, but the numbers given are for the log alone; give a policy, one number, or "
            "propensity='estimate'."
        )
    return check_propensity(source, n_rows, "The log"), source if X_pool is not None else None, []


def dense_if_small(X: Sparse) -> Matrix:
    """Return a sparse matrix as an array where that fits easily in memory.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from observal.exchange.importers.imported import dense_if_small
    >>> type(dense_if_small(sp.csr_array(np.eye(2)))).__name__
    'ndarray'
    """
    return X.toarray() if X.shape[0] * X.shape[1] <= _MOST_DENSE_VALUES else X
