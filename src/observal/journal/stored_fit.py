"""What was fitted after a closed round, so that no other command fits it again.

A campaign stores it beside its journal. It is a copy of what the journal gives, never the truth: its key is a digest of all that it depends on, and
where the key differs, or where anything about it is wrong, the fit is made again. Anybody may have written it, as anybody may have written the labels.
So it is read as model files are (``observal.journal.records``), and whoever uses it checks first that it fits the labels.
"""

from __future__ import annotations

import hashlib
import json
import platform
import zipfile
from io import BytesIO
from typing import Any, NamedTuple

from numpy.typing import NDArray

from observal.checks import Floats
from observal.errors import InvalidInput
from observal.journal.archive import Archive
from observal.journal.ledger import Ledger
from observal.journal.records import NotPlain, RecordReader, encode, write_records
from observal.journal.settings import versions
from observal.problem.interval import Interval

FORMAT = 1
LARGEST_FIT = 128 << 20  # bytes; 1,000 labels take about 500 kB
_DOCUMENT = "fit.json"
_LONGEST_DOCUMENT = 1 << 20


class NamedInterval(NamedTuple):
    """A measure and its interval."""

    name: str
    interval: Interval


class RoundChances(NamedTuple):
    """What the classifier of a round says of a sample of the population."""

    round: int
    chances: Floats  # of single precision


class StoredFit(NamedTuple):
    """What is known after a closed round."""

    round: int
    model: Any  # the record that the method's ``recall`` takes
    intervals: tuple[NamedInterval, ...]  # for a single look; none if they were not computed
    chances: tuple[RoundChances, ...]  # of this round and of earlier ones that forecasts still need

    def adds_to(self, other: StoredFit | None) -> bool:
        """Return whether it has something that another one of the same round has not."""
        return (
            other is None
            or (self.model is not None and other.model is None)
            or (bool(self.intervals) and not other.intervals)
            or (bool(self.chances) and not other.chances)
        )


def fit_key(ledger: Ledger, k: int) -> str:
    """Return a digest of all that the fit after a closed round depends on.

    That is data, settings and plans, by the digest of the journal entry that they end with; the labels, which may have been corrected since; and what
    computes. Another processor may round differently, as it does whenever a campaign goes on elsewhere.
    """
    labels = sorted((row, code) for row, code in ledger.labels.items() if ledger.round_of[row] <= k)
    inputs = [FORMAT, versions(), platform.system(), platform.machine(), k, ledger.model_digests[k], labels]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def pack_fit(fit: StoredFit) -> bytes:
    """Return a fit as bytes; a model that is not made of plain records is left out."""
    arrays: list[NDArray[Any]] = []
    try:
        document = encode(fit, arrays)
    except (NotPlain, InvalidInput):
        return pack_fit(fit._replace(model=None))
    file = BytesIO()
    write_records(file, _DOCUMENT, document, arrays)
    return file.getvalue()


def unpack_fit(content: bytes) -> StoredFit | None:
    """Return what ``pack_fit`` was given; None for anything else, whatever is wrong with it."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as members:
            archive = Archive(members, len(content))
            archive.check_digest()
            reader = RecordReader(archive)
            fit: StoredFit = reader.read(archive.json(_DOCUMENT, _LONGEST_DOCUMENT), (StoredFit,))
            reader.check_all_read()
            return fit
    except Exception:  # it is only a copy
        return None
