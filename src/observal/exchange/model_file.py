"""A fitted classifier in a file: a zip of one JSON document and plain arrays (``observal.journal.records``).

A classifier around an estimator of your own cannot be such a record. It goes through skops (``load_model`` says what that means).
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from observal.errors import InvalidInput
from observal.files import writing
from observal.journal import codec
from observal.journal.archive import Damaged, open_archive
from observal.journal.records import NotPlain, RecordReader, classifiers, encode, name_columns, records, write_records

if TYPE_CHECKING:
    from observal.tables.encoder import TableEncoder

DOCUMENT = "model.json"
FORMAT = 1
SKOPS_DOCUMENT = "schema.json"
SKOPS_PROMISE = (
    "it is opened by skops, which loads only types that it trusts or that you name, and does not promise more; name them with "
    "load_model(path, trusted=[…]) if you trust its author"
)
_LONGEST_DOCUMENT = 8 << 20  # bytes; a table with 100,000 categories takes 2 MB


# -- writing ---------------------------------------------------------------------------------------------------------


def _encode_encoder(encoder: TableEncoder) -> codec.Json:
    """Return the table encoder without separator and encoding, which may differ in the files that the model will be given."""
    table_format = replace(encoder.format, sep=None, encoding=None)
    return codec.encode(replace(encoder, format=table_format), where="encoder")


def save_model(path: str | Path, classifier: object, encoder: TableEncoder | None, force: bool = False) -> None:
    """Write a model completely or not at all; an existing file is replaced only with `force`, and never a campaign.

    Parameters
    ----------
    path : path
        The file.
    classifier : classifier
        What a method returned.
    encoder : TableEncoder, optional
        From raw rows to features, if the classifier was fitted on encoded tables.
    force : bool
        Whether to replace a file.
    """
    arrays: list[NDArray[Any]] = []
    try:
        document = {
            "format": FORMAT,
            "classifier": encode(classifier, arrays),
            "encoder": None if encoder is None else _encode_encoder(encoder),
            "columns": None if encoder is not None else getattr(classifier, "feature_names_in_", None),
        }
    except NotPlain as part:
        _save_with_skops(path, classifier, encoder, force, str(part))
        return
    with writing(path, force) as file:
        write_records(file, DOCUMENT, document, arrays)


def _save_with_skops(
    path: str | Path, classifier: object, encoder: TableEncoder | None, force: bool, part: str
) -> None:
    from observal.exchange.estimator import make_model

    try:
        import skops.io
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"The classifier contains {part}, which only skops can store; install it with `pip install 'observal[skops]'`."
        ) from error
    content = skops.io.dumps(make_model(classifier, encoder))
    with writing(path, force) as file:
        file.write(content)


# -- reading ---------------------------------------------------------------------------------------------------------


def load_model(path: str | Path, trusted: Collection[str] = ()) -> Any:
    """Return a model that ``Campaign.export`` or ``observal export`` wrote: a scikit-learn pipeline that takes raw rows.

    Opening a file never runs code from it.

    Parameters
    ----------
    path : path
        The file.
    trusted : collection of str
        Only for a classifier around an estimator of your own, such as ``CommitteeVC(RandomForestClassifier())``. Such a file is opened
        by skops, which loads only types that it trusts or that you name here, and does not promise more. ``skops.io.get_untrusted_types``
        lists what a file names.

    Examples
    --------
    >>> import numpy as np, observal as ob, tempfile
    >>> from observal.campaign import Campaign, load_model
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> logged = ob.LoggedData(X, np.where(X[:, 0] > 0.1, "good", "bad"), propensity=1.0)
    >>> folder = tempfile.mkdtemp()
    >>> campaign = Campaign.create_from_arrays(folder + "/c.db", logged, ob.Pool(X, 0.5), label_budget=0)
    >>> campaign.export(folder + "/good.model")
    >>> load_model(folder + "/good.model").predict([[0.9], [-0.9]]).tolist()
    ['good', 'bad']
    """
    from observal.exchange.estimator import make_model

    if isinstance(trusted, str):
        raise InvalidInput(f"trusted must be a list of type names, but is the text {trusted!r:.60}; put it in a list.")
    if _is_skops(path):
        return _load_with_skops(path, trusted)
    with open_archive(
        path, "a model that this observal can open", "give a file that `observal export` wrote"
    ) as archive:
        archive.check_digest()
        document = archive.json(DOCUMENT, _LONGEST_DOCUMENT)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise Damaged(f"its format is not {FORMAT}")
        reader = RecordReader(archive)
        classifier = name_columns(reader.read(document["classifier"], classifiers()), document.get("columns"))
        reader.check_all_read()
        encoder = document["encoder"]
        return make_model(classifier, None if encoder is None else _read_encoder(encoder))


def _read_encoder(value: Any) -> TableEncoder:
    """Return the encoder of tables, which the codec checks field by field."""
    from observal.tables.encoder import TableEncoder

    encoder = codec.decode(value, where="encoder")
    if not isinstance(encoder, TableEncoder):
        raise Damaged("its encoder is not a table encoder")
    if len({rule.source for rule in encoder.rules}) != len(encoder.rules):
        raise Damaged("a column has two rules")
    if any(len(set(rule.categories)) != len(rule.categories) for rule in encoder.rules):
        raise Damaged("a column has a category twice")
    return encoder


def _is_skops(path: str | Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return SKOPS_DOCUMENT in archive.namelist()
    except Exception:  # whatever is wrong with it is said where it is opened
        return False


def _load_with_skops(path: str | Path, trusted: Collection[str]) -> Any:
    if not trusted:
        raise InvalidInput(f"{path} holds an estimator of another library: {SKOPS_PROMISE}.")
    import skops.io

    from observal.exchange.estimator import CampaignClassifier
    from observal.learners.tree_learners import FoldMean
    from observal.tables.transformer import TableTransformer

    own = [
        f"{kind.__module__}.{kind.__name__}" for kind in (CampaignClassifier, FoldMean, TableTransformer, *records())
    ]
    try:
        return skops.io.load(path, trusted=[*own, *trusted])
    except Exception as error:
        raise InvalidInput(
            f"{path} cannot be opened ({' '.join(str(error).split())[:200]}): {SKOPS_PROMISE}."
        ) from error
