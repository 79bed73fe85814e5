"""Real data: NAME.npz files in a folder of the user's, and the sets that scikit-learn ships."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput
from observal_research.datasets.dataset import Dataset

FOLDER_VARIABLE = "OBSERVAL_DATA"


def load_npz(name_or_path: str | Path, folder: str | Path | None = None) -> Dataset:
    """Load ``NAME.npz`` with ``X``, ``y`` and, optionally, ``names`` of the features.

    Where the file has a boolean array ``label_observed``, rows whose label was never observed are left out: their
    ``y`` means nothing. Other arrays are ignored.

    Parameters
    ----------
    name_or_path : str or Path
        A name to look up in `folder`, or the path of a file that ends in ``.npz``.
    folder : str or Path, optional
        Where the files are; by default the environment variable ``OBSERVAL_DATA`` says.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/coins.npz", X=[[0.0], [1.0], [2.0]], y=[0, 1, 1])
    ...     load_npz("coins", folder), list_npz(folder)
    (Dataset(coins: 3 rows × 1 features, classes [0, 1]), ('coins',))
    """
    path = Path(name_or_path)
    if path.suffix != ".npz":
        path = data_folder(folder) / f"{name_or_path}.npz"
    elif folder is not None:
        path = Path(folder) / path
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.npz"))) or "none"
        raise InvalidInput(f"There is no data file {path}, the data sets beside it are: {known}; name one of them.")
    arrays = read_arrays(path)
    X, y = arrays["X"], arrays["y"]
    if X.dtype.kind not in "fiub":
        raise InvalidInput(f"X in {path} must be numbers, but has type {X.dtype}; encode text and categories first.")
    if y.ndim != 1 or X.ndim != 2 or y.shape[0] != X.shape[0]:
        raise InvalidInput(f"{path} needs X (rows × features) and y (rows), but has shapes {X.shape} and {y.shape}.")
    if "label_observed" in arrays:
        observed = arrays["label_observed"].astype(bool)
        X, y = X[observed], y[observed]
    names = tuple(arrays["names"].tolist()) if "names" in arrays else None
    return Dataset(
        X, y.astype(np.int64) if y.dtype.kind in "ub" else y, path.stem, f"Read from {path.name}.", None, names
    )


def list_npz(folder: str | Path | None = None) -> tuple[str, ...]:
    """Return the names of the data sets in a folder, in order; by default the environment variable names the folder."""
    return tuple(sorted(file.stem for file in data_folder(folder).glob("*.npz")))


def data_folder(folder: str | Path | None) -> Path:
    """Return the folder given, or the one that the environment names."""
    location = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not location:
        raise InvalidInput(
            f"No data folder was given, and {FOLDER_VARIABLE} is not set; pass folder= or set that variable."
        )
    path = Path(location)
    if not path.is_dir():
        raise InvalidInput(f"The data folder {path} is not a folder; pass one that holds NAME.npz files.")
    return path


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays that are used, without ever unpickling anything."""
    names = ("X", "y", "names", "label_observed")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in names if key in file.files}
    except (ValueError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise InvalidInput(
            f"{path} could not be read as plain arrays ({error}); save it with np.savez and no object arrays."
        ) from None
    if "X" not in arrays or "y" not in arrays:
        raise InvalidInput(f"{path} must hold arrays X and y, but {sorted({'X', 'y'} - set(arrays))} is missing.")
    return arrays


def load_shipped(name: str) -> Dataset:
    """Load a two-class set that scikit-learn ships: no network, no files of ours.

    Parameters
    ----------
    name : str
        One of ``SHIPPED``: ``breast_cancer`` (benign against malignant), ``digits`` (odd against even),
        ``digits_3_8`` (8 against 3), ``wine`` (the first cultivar against the others), ``iris`` (virginica against
        versicolor). The positive class, 1, stands first.

    Examples
    --------
    >>> load_shipped("breast_cancer")
    Dataset(breast_cancer: 569 rows × 30 features, classes [0, 1])
    """
    if name not in SHIPPED:
        raise InvalidInput(f"There is no shipped data set {name!r}, they are {list(SHIPPED)}; name one of them.")
    from sklearn import datasets  # heavy, and needed here only

    source, description, keep, positive = SHIPPED[name]
    bunch = getattr(datasets, f"load_{source}")()
    rows = keep(bunch.target)
    X, y = bunch.data[rows], positive(bunch.target[rows]).astype(np.int64)
    return Dataset(X, y, name, description, None, tuple(bunch.feature_names))


Choice = Callable[[NDArray[Any]], NDArray[np.bool_]]

SHIPPED: dict[str, tuple[str, str, Choice, Choice]] = {
    "breast_cancer": ("breast_cancer", "Benign against malignant tumours.", lambda t: t >= 0, lambda t: t == 1),
    "digits": ("digits", "Odd against even digits.", lambda t: t >= 0, lambda t: t % 2 == 1),
    "digits_3_8": ("digits", "Eights against threes.", lambda t: (t == 3) | (t == 8), lambda t: t == 8),
    "wine": ("wine", "The first cultivar against the others.", lambda t: t >= 0, lambda t: t == 0),
    "iris": ("iris", "Virginica against versicolor.", lambda t: t >= 1, lambda t: t == 2),
}
"""Name → scikit-learn's set, description, which of its targets are kept, and which of those are positive."""
