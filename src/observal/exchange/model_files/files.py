"""Writing and opening model files: a campaign's classifier with the encoder for raw rows."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from observal.errors import InvalidInput
from observal.files import writing
from observal.journal.archive import open_archive, seal

_ABOUT = "observal.json"
_FORMAT = 2


def make_model(classifier: Any, encoder: dict[str, Any] | None) -> Any:
    """Return a scikit-learn pipeline from raw rows to classes; without an encoder, from arrays.

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

    from observal.exchange.model_files.estimator import CampaignClassifier

    steps: list[tuple[str, Any]] = [("classifier", CampaignClassifier(classifier))]
    if encoder is not None:
        from observal.tables import TableEncoder, TableTransformer

        steps.insert(0, ("table", TableTransformer(TableEncoder.from_dict(encoder))))
    return Pipeline(steps)


def save_model(path: str | Path, classifier: Any, encoder: dict[str, Any] | None, force: bool = False) -> None:
    """Write a model completely or not at all; an existing file is replaced only with `force`, and never a campaign.

    Besides skops' own members the file has ``observal.json``, which lists every class in it for people to read.
    """
    import skops.io

    content = skops.io.dumps(make_model(classifier, encoder))
    with writing(path, force) as file:
        file.write(content)
        with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
            classes = sorted(named_classes(json.loads(archive.read("schema.json"))))
            archive.writestr(_ABOUT, json.dumps({"format": _FORMAT, "classes": classes}))
        seal(file)


def named_classes(node: Any) -> set[str]:
    """Return the full name of every class in a node of skops' schema.

    Examples
    --------
    >>> sorted(named_classes({"__module__": "a", "__class__": "B", "content": [{"__module__": "c", "__class__": "D"}]}))
    ['a.B', 'c.D']
    """
    if isinstance(node, list):
        return set().union(*map(named_classes, node))
    if not isinstance(node, dict):
        return set()
    inner: set[str] = set().union(*map(named_classes, node.values()))
    return inner | {f"{node['__module__']}.{node['__class__']}"} if "__class__" in node else inner


def load_model(path: str | Path, trusted: Collection[str] = ()) -> Any:
    """Return a model that ``Campaign.export`` or ``observal export`` wrote: a scikit-learn pipeline that takes raw rows.

    Only listed classes of observal and scikit-learn are built. A file that names any other class is refused, and no code from
    the file is run. See ``docs/security.md``.

    Parameters
    ----------
    path : path
        The file.
    trusted : collection of str
        Exact full names of further classes that you trust, such as ``"my_package.models.MyClassifier"``. They are imported, and
        their attributes are set from the file. Needed for a ``CommitteeVC`` around a classifier that is not from scikit-learn,
        or around a support vector machine.

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
    from observal.exchange.model_files.checks import check_model
    from observal.exchange.model_files.reader import ModelReader

    if isinstance(trusted, str):
        raise InvalidInput(f"trusted must be a list of class names, but is the text {trusted!r:.60}; put it in a list.")
    with open_archive(
        path, "a model that this observal can open", "give a file that `observal export` wrote"
    ) as archive:
        archive.check_digest()
        model = ModelReader(archive, trusted).read()
        check_model(model)
        return model
