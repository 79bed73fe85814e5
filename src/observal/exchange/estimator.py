"""A campaign's classifier as the end of a scikit-learn pipeline."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from observal.problem.method import threshold_of
from observal.problem.rows import Features
from observal.tables.encoder import TableEncoder
from observal.tables.transformer import TableTransformer


def _has(name: str) -> Any:
    return available_if(lambda self: getattr(self.classifier, name, None) is not None)


class CampaignClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier fitted by a campaign; ``fit`` does nothing.

    Parameters
    ----------
    classifier : Classifier
        The classifier that the campaign's method returned.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> CampaignClassifier(DummyClassifier().fit([[0.0]], ["good"])).predict([[1.0]]).tolist()
    ['good']
    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: Features | None = None, y: ArrayLike | None = None) -> Self:
        """Do nothing: the classifier is already fitted."""
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The label values, the positive one last."""
        classes: NDArray[Any] = self.classifier.classes_
        return classes

    @property
    def coef_(self) -> NDArray[Any]:
        """The weights of a linear classifier, for standardised features; others have none."""
        weights: NDArray[Any] = self.classifier.coef_
        return weights

    @property
    def threshold(self) -> float:
        """The least chance of the positive class at which it is predicted: ½ unless an objective moved it. Only with two classes."""
        if len(self.classes_) != 2:
            raise AttributeError(f"A classifier of {len(self.classes_)} classes has no threshold; use predict_proba.")
        threshold = threshold_of(self.classifier)
        return 0.5 if threshold is None else threshold

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        predicted: NDArray[Any] = self.classifier.predict(X)
        return predicted

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Features) -> NDArray[Any]:
        """Return the probability of each class."""
        chances: NDArray[Any] = self.classifier.predict_proba(X)
        return chances

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Features) -> NDArray[Any]:
        """Return a score for each row, above 0 for the second class."""
        margins: NDArray[Any] = self.classifier.decision_function(X)
        return margins

    def __sklearn_is_fitted__(self) -> bool:
        return True


def make_model(classifier: Any, encoder: TableEncoder | None) -> Pipeline:
    """Return a scikit-learn pipeline from raw rows to classes; without an encoder, from arrays.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> make_model(DummyClassifier().fit([[0.0]], ["good"]), None).predict([[1.0]]).tolist()
    ['good']
    """
    steps: list[tuple[str, BaseEstimator]] = [("classifier", CampaignClassifier(classifier))]
    if encoder is not None:
        steps.insert(0, ("table", TableTransformer(encoder)))
    return Pipeline(steps)
