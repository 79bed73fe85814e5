"""Fits of closed rounds, stored so that other commands need not repeat them.

A campaign stores them next to its journal, as a cache: the key is a digest of everything a fit depends on,
and if the key differs or anything is invalid, the model is fitted again. Like labels, a stored fit may come
from anybody. So it is read with the same checks as model files (``observal.journal.records``), and users of
it first check that it matches the labels.
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
    """A round's class probabilities on a sample of the population."""

    round: int
    chances: Floats  # in single precision


class StoredFit(NamedTuple):
    """What is known after a closed round."""

    round: int
    model: Any  # the record for the method's ``recall``
    intervals: tuple[NamedInterval, ...]  # for a single look; empty if not computed
    chances: tuple[RoundChances, ...]  # of this round and of earlier ones that forecasts still need

    def extends(self, other: StoredFit | None) -> bool:
        """Return whether it contains something that another fit of the same round lacks."""
        return (
            other is None
            or (self.model is not None and other.model is None)
            or (bool(self.intervals) and not other.intervals)
            or (bool(self.chances) and not other.chances)
        )


def fit_key(ledger: Ledger, k: int) -> str:
    """Return a digest of everything that the fit after a closed round depends on.

    That is data, settings and plans, through the digest of the journal entry that completes them; the labels,
    which may have been corrected since; and the software. Another processor may round differently, as
    whenever a campaign moves.
    """
    labels = sorted((row, code) for row, code in ledger.labels.items() if ledger.round_of[row] <= k)
    inputs = [FORMAT, versions(), platform.system(), platform.machine(), k, ledger.model_digests[k], labels]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def pack_fit(fit: StoredFit) -> bytes:
    """Return a fit as bytes, without its model if that is not made of plain records."""
    arrays: list[NDArray[Any]] = []
    try:
        document = encode(fit, arrays)
    except (NotPlain, InvalidInput):
        return pack_fit(fit._replace(model=None))
    file = BytesIO()
    write_records(file, _DOCUMENT, document, arrays)
    return file.getvalue()


def unpack_fit(content: bytes) -> StoredFit | None:
    """Return what ``pack_fit`` packed; None if anything is wrong with it."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as members:
            archive = Archive(members, len(content))
            archive.check_digest()
            reader = RecordReader(archive)
            fit: StoredFit = reader.read(archive.json(_DOCUMENT, _LONGEST_DOCUMENT), (StoredFit,))
            reader.check_all_read()
            return fit
    except Exception:  # it is only a cache
        return None
