"""A ``TableEncoder`` as a scikit-learn transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from observal.checks import Floats
from observal.tables.encoder import TableEncoder

if TYPE_CHECKING:
    from observal.tables.read import TableSource


class TableTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode raw rows in a scikit-learn pipeline, so that a stored model takes the tables that users have.

    Parameters
    ----------
    encoder : TableEncoder
        What was learned. ``fit`` learns nothing more.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from observal.tables import TableEncoder, TableTransformer
    >>> rows = pd.DataFrame({"age": [20, 30, 40, 50], "home": ["own", "rent", "own", "rent"]})
    >>> model = make_pipeline(TableTransformer(TableEncoder.learn([rows])), LogisticRegression())
    >>> model.fit(rows, [0, 0, 1, 1]).predict(rows).tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, encoder: TableEncoder) -> None:
        self.encoder = encoder

    def fit(self, X: TableSource | None = None, y: ArrayLike | None = None) -> Self:
        """Do nothing: the encoder has learned already."""
        return self

    def transform(self, X: TableSource) -> Floats:
        """Return the rows of a pandas, polars or pyarrow table (or file) as numbers."""
        return self.encoder.encode(X)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The columns of a table that are used."""
        return np.array([rule.source for rule in self.encoder.rules], dtype=object)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the encoded columns."""
        return np.asarray(self.encoder.names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True
