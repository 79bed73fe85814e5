"""A campaign's classifier in a file, with what turns raw rows into numbers; opening a file runs nothing of a stranger's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from observal.errors import InvalidInput
from observal.writing import writing


def make_model(classifier: Any, encoder: dict[str, Any] | None) -> Any:
    """Return a scikit-learn pipeline from raw rows to classes; from arrays where there is no encoder.

    Parameters
    ----------
    classifier : Classifier
        What a method returned.
    encoder : dict, optional
        What ``TableEncoder.to_dict`` wrote.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> make_model(DummyClassifier().fit([[0.0]], ["good"]), None).predict([[1.0]]).tolist()
    ['good']
    """
    from sklearn.pipeline import Pipeline

    from observal.campaign.estimator import CampaignClassifier

    steps: list[tuple[str, Any]] = [("classifier", CampaignClassifier(classifier))]
    if encoder is not None:
        from observal.tables import TableEncoder, TableTransformer

        steps.insert(0, ("table", TableTransformer(TableEncoder.from_dict(encoder))))
    return Pipeline(steps)


def save_model(path: str | Path, classifier: Any, encoder: dict[str, Any] | None, force: bool = False) -> None:
    """Write a model, whole or not at all; a file that is there is replaced only with `force`, and a campaign never."""
    import skops.io

    content = skops.io.dumps(make_model(classifier, encoder))
    with writing(path, force) as file:
        file.write(content)


def load_model(path: str | Path) -> Any:
    """Return a model that ``Campaign.export`` or ``observal export`` wrote: a scikit-learn pipeline that takes raw rows.

    Only types of scikit-learn, NumPy and observal are built; a file that names any other is refused.

    Parameters
    ----------
    path : path
        Of the file.

    Examples
    --------
    >>> import numpy as np, observal as ob, tempfile
    >>> from observal.campaign import Campaign, load_model
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> logged = ob.LoggedData(X, np.where(X[:, 0] > 0.1, "good", "bad"), propensity=1.0)
    >>> folder = tempfile.mkdtemp()
    >>> campaign = Campaign.create_from_arrays(folder + "/c.db", logged, ob.Pool(X, 0.5), label_budget=0)
    >>> campaign.export(folder + "/model.skops")
    >>> load_model(folder + "/model.skops").predict([[0.9], [-0.9]]).tolist()
    ['good', 'bad']
    """
    import zipfile

    import skops.io

    try:
        named = skops.io.get_untrusted_types(file=path)
        strange = [name for name in named if not name.startswith("observal.")]
        if strange:
            raise InvalidInput(
                f"{path} names the type {strange[0]!r}, which no model of observal has; open only files that observal wrote."
            )
        return skops.io.load(path, trusted=named)
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, ImportError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"{path} is not a model that this observal can open ({' '.join(str(error).split())[:120]}); "
            "give a file that `observal export` wrote."
        ) from None
