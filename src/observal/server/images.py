"""Images for the page: files inside one folder, or base64 in a cell. Only raster types are returned, recognised by their content."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from contextlib import suppress
from pathlib import Path, PurePosixPath

MOST_BYTES = 20 * 2**20
_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
}
_DATA_ADDRESS = re.compile(r"data:image/[\w.+-]{1,40};base64,")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]{32,}={0,2}\s*")


def image_type(content: bytes) -> str | None:
    r"""Return the type of an image by its first bytes; None for anything else, such as SVG or HTML.

    Examples
    --------
    >>> image_type(b"\x89PNG\r\n\x1a\n"), image_type(b"<svg onload='alert(1)'>")
    ('image/png', None)
    """
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS.items() if content.startswith(start)), None)


def is_inline(cell: str) -> bool:
    """Return whether a cell holds an image itself, as base64.

    Examples
    --------
    >>> is_inline("data:image/png;base64,iVBORw0KGgo="), is_inline("photos/a.png")
    (True, False)
    """
    return bool(_DATA_ADDRESS.match(cell))


def decode_inline(cell: str) -> bytes | None:
    """Return the bytes of an image in base64, with or without ``data:image/…;base64,`` in front; None if it is neither."""
    text = _DATA_ADDRESS.sub("", cell, count=1)
    if len(text) > 2 * MOST_BYTES or not (is_inline(cell) or _BASE64.fullmatch(text)):
        return None
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return None


def load_image(folder: Path | None, cell: str) -> tuple[bytes, str] | None:
    """Return the image that a cell holds or names, and its type; None if there is none.

    A cell is a path inside the folder or, without a folder, an image in base64.
    """
    content = decode_inline(cell) if is_inline(cell) or folder is None else read_image(folder, cell)
    kind = None if content is None else image_type(content)
    return None if content is None or kind is None else (content, kind)


def read_image(folder: Path, cell: str) -> bytes | None:
    """Return the content of a file inside a folder; None if there is none, or if its path leaves the folder or follows a link.

    `cell` is a path within the folder; a whole path works too if it begins with the folder.
    """
    with suppress(ValueError):
        cell = str(PurePosixPath(cell).relative_to(folder))
    path = PurePosixPath(cell)
    if "\0" in cell or "\\" in cell or path.is_absolute() or ".." in path.parts or not path.parts:
        return None
    try:
        if os.open not in os.supports_dir_fd:  # Windows
            return _read_by_path(folder, path.parts)
        return _read(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), path.parts)
    except (OSError, ValueError):  # ValueError: not a possible file name
        return None


def _read(descriptor: int, parts: tuple[str, ...]) -> bytes | None:
    """Read a file by going down from an open folder, one name at a time and through no symbolic link."""
    try:
        for part in parts:
            child = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
            return None
        content = b""
        while piece := os.read(descriptor, MOST_BYTES):
            content += piece
        return content
    finally:
        os.close(descriptor)


def _read_by_path(folder: Path, parts: tuple[str, ...]) -> bytes | None:
    """Read a file by its path where a folder cannot be opened. Whoever can write to the folder could add a link between check and reading."""
    file = folder
    for part in parts:
        file = file / part
        if ":" in part or file.is_symlink():  # C: and streams, which only Windows has
            return None
    if not file.resolve().is_relative_to(folder.resolve()) or not file.is_file() or file.stat().st_size > MOST_BYTES:
        return None
    return file.read_bytes()
