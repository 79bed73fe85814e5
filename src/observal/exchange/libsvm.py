"""LIBSVM's text: ``label index:value index:value``."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

import numpy as np

from observal.errors import InvalidInput, one_line
from observal.exchange.imported_log import ImportedLog, Propensity, dense_if_small, make_labels, make_propensity
from observal.problem.data import LoggedData, Pool
from observal.problem.rows import is_sparse


def from_libsvm(
    path: str | os.PathLike[str],
    propensity: Propensity,
    *,
    pool: str | os.PathLike[str] | None = None,
    missing: float | None = None,
    label: Callable[[float], Hashable] | None = None,
    classes: Sequence[Hashable] | None = None,
) -> ImportedLog:
    r"""Read a log, and a pool from a second file, in LIBSVM's text.

    Parameters
    ----------
    path : path
        The log. The format has a label in every row, so one value must mean "not revealed": see `missing`.
    propensity : number, array or policy
        The chance that each row's label was revealed; a policy is as in ``observal.diagnosis.propensity.from_policy``.
    pool : path, optional
        A file of unlabelled rows; its labels are not looked at.
    missing : float, optional
        The label that stands for "not revealed", often 0 where labels are −1 and 1. Without it every row is revealed.
    label : callable, optional
        From a number in the file to its label; needed where there are more than two.
    classes : sequence, optional
        The two labels, negative first; needed where only one occurs.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from observal.exchange.importers import from_libsvm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.txt"
    ...     _ = path.write_text("1 1:0.5 2:1\n0 2:3\n-1 1:2\n")
    ...     logged = from_libsvm(path, propensity=0.5, missing=0).logged
    >>> logged, logged.X.tolist()
    (LoggedData(3 rows × 2 features, 2 revealed, classes [-1, 1]), [[0.5, 1.0], [0.0, 3.0], [2.0, 0.0]])
    """
    from sklearn.datasets import load_svmlight_files

    paths = [Path(path)] if pool is None else [Path(path), Path(pool)]
    for file in paths:
        if not file.is_file():
            raise InvalidInput(f"There is no file {str(file)!r}; check the path.")
    try:
        matrices = load_svmlight_files([str(file) for file in paths])
    except (ValueError, OverflowError, OSError) as error:
        for file in paths:
            _refuse_bad_lines(file)
        raise InvalidInput(
            f"File {str(path)!r} cannot be read as LIBSVM ({one_line(error)}); check that it is of that kind."
        ) from None
    X = dense_if_small(matrices[0])
    X_pool = None if pool is None else dense_if_small(matrices[2])
    revealed = np.ones(X.shape[0], dtype=bool) if missing is None else matrices[1] != missing
    labels, label_values = make_labels(matrices[1], revealed, label, classes, "The label")
    values, pool_chances = make_propensity(propensity, X, X_pool)
    logged = LoggedData(X, labels, values, classes=label_values)
    # Numbers serve as names, but not for the millions of columns that a sparse file may have.
    names = () if is_sparse(X) else tuple(f"feature {column + 1}" for column in range(X.shape[1]))
    return ImportedLog(logged, None if X_pool is None else Pool(X_pool, pool_chances), names, ())


def _refuse_bad_lines(path: Path) -> None:
    """Say which line is malformed; scikit-learn's own message has no line number."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InvalidInput(f"File {str(path)!r} is not text in UTF-8; give a LIBSVM text file.") from None
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if not _is_number(words[0]):
            raise _line_error(path, number, f"starts with {words[0]!r}, which is not one number")
        last = -1
        for word in words[1:]:
            index, colon, value = word.partition(":")
            if index == "qid" and last == -1:
                continue
            if not (colon and index.isdecimal() and _is_number(value)):
                raise _line_error(path, number, f"has {word!r} where index:value was expected")
            if int(index) <= last:
                raise _line_error(path, number, f"has index {index} after {last}, and indices must increase")
            last = int(index)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _line_error(path: Path, number: int, what: str) -> InvalidInput:
    return InvalidInput(f"Line {number} of {str(path)!r} {what}; a line looks like 1 3:0.5 7:2.")
