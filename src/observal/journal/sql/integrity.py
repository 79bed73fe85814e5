"""Digests that show whether a stored campaign was changed: one for each chunk of data, and a chain over the journal.

Each journal entry's digest covers the entry and the digest before it, so no entry can be changed, removed or
moved without changing every later digest. The first entry records the digest of all data, so the last digest
covers everything. The formulas are part of the file format: a campaign written today must still pass the
check in years to come.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

START = ""
"""The digest before the first journal entry."""


def entry_digest(before: str, sequence: int, time: str, actor: str, kind: str, payload: str) -> str:
    """Return the digest of a journal entry: SHA-256 of the digest before it and all its columns.

    Examples
    --------
    >>> one = entry_digest(START, 1, "2030-01-01", "ann", "created", "{}")
    >>> two = entry_digest(one, 2, "2030-01-02", "ann", "asked", "{}")
    >>> len(two), two == entry_digest(START, 2, "2030-01-02", "ann", "asked", "{}")
    (64, False)
    """
    return hashlib.sha256(json.dumps([before, sequence, time, actor, kind, payload]).encode()).hexdigest()


def chunk_digest(name: str, chunk: int, first_row: int, content: bytes) -> str:
    """Return the digest of a chunk of data: SHA-256 of its position and its content.

    Examples
    --------
    >>> chunk_digest("pool.ids", 0, 0, b"7") == chunk_digest("pool.ids", 1, 0, b"7")
    False
    """
    digest = hashlib.sha256(json.dumps([name, chunk, first_row]).encode())
    digest.update(content)
    return digest.hexdigest()


def data_digest(digests: Mapping[tuple[str, int], str]) -> str:
    """Return one digest for all chunks, given (name, chunk) → digest.

    Examples
    --------
    >>> data_digest({("a", 0): "x", ("b", 0): "y"}) == data_digest({("b", 0): "y", ("a", 0): "x"})
    True
    """
    listed = [[name, chunk, digest] for (name, chunk), digest in sorted(digests.items())]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
