"""A zip of JSON and NumPy arrays, checked before anything in it is used.

Members are never compressed, so reading them takes no more memory than the size of the file; tables within
them may unpack to more, limited by one budget. The zip's comment holds a SHA-256 digest of all members. It
shows damage, not authorship.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput, ObservalError
from observal.problem.arrow_stream import Budget, unpacked_limit

_COMMENT = b"observal sha256 "
_NAME = re.compile(r"[\w-]{1,80}\.(json|npy|bin)", re.ASCII)
_KINDS = "biufUSMm"  # integers, floats, text, bytes, dates and durations; never objects
_LAST_CHARACTER = 0x10FFFF
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_ONCE = 1 << 20
_MAX_TIMES, _LEAST = 64, 1 << 27  # a file may unpack to this many times its size, or to this many bytes if more


_MAX_LISTS = 1 << 22  # lists in one JSON document: an empty one takes 3 bytes there and 64 in memory


class Damaged(ValueError):
    """What is wrong with a file; ``open_archive`` turns it into a full sentence."""


def parse_json(text: bytes | str) -> Any:
    """Parse a JSON document; raise if it has so many lists that it would take far more memory than its size.

    Examples
    --------
    >>> parse_json('{"answers": [[17, 0]]}')
    {'answers': [[17, 0]]}
    """
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if content.count(b"[") + content.count(b"{") > _MAX_LISTS:
        raise Damaged(f"it has more than {_MAX_LISTS:,} lists")
    return json.loads(text)


def seal(file: IO[bytes]) -> None:
    """Write the digest of all members into the comment of a complete zip."""
    with zipfile.ZipFile(file) as archive:
        digest = _digest(archive)
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = _COMMENT + digest.encode()


def _digest(archive: zipfile.ZipFile) -> str:
    total = hashlib.sha256()
    for info in archive.infolist():
        total.update(f"{info.filename}\n{info.file_size}\n".encode())
        with archive.open(info) as member:
            while block := member.read(_ONCE):
                total.update(block)
    return total.hexdigest()


class Archive:
    """The members of a zip that was opened with ``open_archive``."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self.size = size  # bytes of the whole file
        self.budget = Budget(min(max(_MAX_TIMES * size, _LEAST), max(unpacked_limit(), 2 * size)))
        self._archive = archive
        self._members = {info.filename: info for info in archive.infolist()}
        self._check_members()

    def _check_members(self) -> None:
        infos = self._archive.infolist()
        if len(self._members) < len(infos):
            raise Damaged("two members have the same name")
        for info in infos:
            if not _NAME.fullmatch(info.filename):
                raise Damaged(f"it has an unexpected member {info.filename!r:.60}")
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
                raise Damaged(f"{info.filename} is compressed or encrypted")
        if sum(info.file_size for info in infos) > self.size:
            raise Damaged("its members are listed as larger than the file")

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __len__(self) -> int:
        return len(self._members)

    def check_digest(self) -> None:
        """Reject a file whose members do not match its digest, or that has none."""
        if not self._archive.comment:
            raise Damaged("its digest is missing")
        if self._archive.comment != _COMMENT + _digest(self._archive).encode():
            raise Damaged("its content does not match its digest")

    def json(self, name: str, longest: int | None = None) -> Any:
        """Return the content of a JSON member, which may have at most `longest` bytes."""
        info = self._member(name)
        if longest is not None and info.file_size > longest:
            raise Damaged(f"{name} has {info.file_size:,} bytes, more than {longest:,}")
        self.budget.take(info.file_size, name)
        return parse_json(self._archive.read(info))

    def content(self, name: str, size: int) -> bytes:
        """Return the bytes of a member, which must have this size."""
        info = self._member(name)
        if info.file_size != size:
            raise Damaged(f"{name} should have {size:,} bytes, but has {info.file_size:,}")
        self.budget.take(size, name)
        return self._archive.read(info)

    def array(self, name: str) -> NDArray[Any]:
        """Return an array; its header is checked against its size before memory is allocated."""
        info = self._member(name)
        with self._archive.open(info) as member:
            shape, by_column, dtype = _HEADERS[np.lib.format.read_magic(member)](member)
            size = math.prod(shape)
            if dtype.hasobject or dtype.kind not in _KINDS:
                raise Damaged(f"{name} contains values of type {dtype!s:.40}")
            if any(n < 0 for n in shape) or (size and not dtype.itemsize):
                raise Damaged(f"{name} has the shape {shape}")
            if member.tell() + size * dtype.itemsize != info.file_size:
                raise Damaged(f"{name} should have {size} values, but has another number")
            self.budget.take(info.file_size, name)
            data = member.read()
        array: NDArray[Any] = np.ndarray(shape, dtype, data, order="F" if by_column else "C").copy(order="K")
        _check_values(name, array)
        return array

    def _member(self, name: str) -> zipfile.ZipInfo:
        if name not in self._members:
            raise Damaged(f"it has no member {name!r:.60}")
        return self._members[name]


def _check_values(name: str, array: NDArray[Any]) -> None:
    """Reject bytes that are not valid booleans or characters."""
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise Damaged(f"{name} contains booleans that are neither true nor false")
    if array.dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if codes.max() > _LAST_CHARACTER:
            raise Damaged(f"{name} contains characters that do not exist")


@contextmanager
def open_archive(path: str | Path, kind: str, remedy: str) -> Iterator[Archive]:
    """Open a zip for reading; any error becomes one sentence.

    The sentence says that the file is not `kind`, such as "a file that observal saved", and what to do: `remedy`.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"There is no file at {path}; {remedy}.")
    try:
        with zipfile.ZipFile(path) as archive:
            yield Archive(archive, path.stat().st_size)
    except ObservalError:
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, Damaged) else type(error).__name__
        raise InvalidInput(f"{path} is not {kind}, or it is damaged ({reason}); {remedy}.") from error
