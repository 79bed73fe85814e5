"""One file for a record of arrays, numbers, text and observal's own frozen dataclasses; nothing in it can run code.

The file is a zip of NumPy arrays plus ``record.json``. What it may name is the list in :mod:`observal.codec`; what it may
hold is checked by :mod:`observal.archive`.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from observal.archive import Archive, open_archive, seal
from observal.codec import Arrays, decode, encode, recorded_name, unsaved
from observal.errors import InvalidInput
from observal.writing import writing

_FORMAT = 2  # 1, of version 0.1, had no digest and longer names of classes


def write_record(path: str | Path, record: dict[str, Any], replaceable: tuple[str, ...] = ()) -> None:
    """Write `record`, whole or not at all; a file at `path` is replaced only if it was written here, too.

    What cannot be stored is refused now, except within entries that `replaceable` names: those can be handed in again
    when the file is read.
    """
    arrays: Arrays = []
    encoded = {name: encode(value, arrays, name) for name, value in record.items()}
    for name, value in encoded.items():
        if name not in replaceable and (lost := unsaved(value)):
            raise InvalidInput(
                f"{lost} cannot be stored in a file, so nothing was saved; use numbers, text or dates instead."
            )
    text = json.dumps({"format": _FORMAT, "record": encoded})
    with writing(path, force=_is_record(path)) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("record.json", text)
            for number, array in enumerate(arrays):
                with archive.open(f"{number}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        seal(file)


def _is_record(path: str | Path) -> bool:
    """Tell whether a file is one that :func:`write_record` wrote."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "record.json" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def read_record(path: str | Path, given: dict[str, Any]) -> dict[str, Any]:
    """Return what :func:`write_record` wrote; entries that are `given` are taken from there instead."""
    with open_archive(path, "a file that observal saved", "give the path used with save(), or a copy") as archive:
        record = _record(path, archive)
        for name, value in given.items():
            _check_same_type(name, record[name], value)
        decoded = {
            name: decode(value, lambda number: archive.array(f"{number}.npy"), name)
            for name, value in record.items()
            if name not in given
        }
        return decoded | given


def _record(path: str | Path, archive: Archive) -> dict[str, Any]:
    archive.check_digest()  # before anything is read, where there is one
    content = archive.json("record.json")
    format_, record = content["format"], content["record"]
    if isinstance(format_, int) and format_ > _FORMAT:
        raise InvalidInput(
            f"{path} was saved by a newer observal (format {format_}, this one reads up to {_FORMAT}); update observal."
        )
    if format_ != 1:
        archive.require_digest()
    return dict(record)


def _check_same_type(name: str, stored: Any, given: Any) -> None:
    kind = type(given).__name__
    recorded = stored.get("type") if isinstance(stored, dict) else stored
    if recorded is not None and recorded_name(recorded) != kind:
        raise InvalidInput(
            f"The file was saved with {recorded_name(recorded)} as its {name}, but {kind} was given; give the same."
        )
