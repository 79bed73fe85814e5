"""One file for a record of arrays, numbers, text and observal's own frozen dataclasses; nothing in it can run code.

The file is a zip of NumPy arrays plus ``record.json``. Only dataclasses that live in observal are rebuilt, by name, from
their own fields, so opening a stranger's file executes nothing of the stranger's.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import importlib
import io
import json
import os
import uuid
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from observal.errors import InvalidInput

_FORMAT = 1
_TEXT = {kind.__name__: kind for kind in (uuid.UUID, decimal.Decimal)}
_DATES = {kind.__name__: kind for kind in (datetime.date, datetime.datetime)}


def write_record(path: str | Path, record: dict[str, Any], replaceable: tuple[str, ...] = ()) -> None:
    """Write `record`; the file at `path` is replaced only once the new one is complete and on disk.

    What cannot be stored is refused now, except within entries that `replaceable` names: those can be handed in again
    when the file is read.
    """
    path = Path(path)
    arrays: list[np.ndarray[Any, Any]] = []
    encoded = {name: _encode(value, arrays, name) for name, value in record.items()}
    for name, value in encoded.items():
        if name not in replaceable and (lost := _unsaved(value)):
            raise InvalidInput(
                f"{lost} cannot be stored in a file, so nothing was saved; use numbers, text or dates instead."
            )
    text = json.dumps({"format": _FORMAT, "record": encoded})
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("record.json", text)
            for number, array in enumerate(arrays):
                with archive.open(f"{number}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def read_record(path: str | Path, entries: tuple[str, ...], replace: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the entries that :func:`write_record` wrote; those named in `replace` are taken from there instead."""
    replace = replace or {}
    try:
        with zipfile.ZipFile(path) as archive:
            content = json.loads(archive.read("record.json"))
            if content["format"] > _FORMAT:
                raise InvalidInput(
                    f"{path} was saved by a newer observal (format {content['format']}, this one reads up to {_FORMAT}); "
                    "update observal."
                )
            for name, value in replace.items():
                _check_same_type(name, content["record"][name], value)
            record = content["record"]
            return {
                name: replace[name] if name in replace else _decode(record[name], archive, name) for name in entries
            }
    except InvalidInput:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, EOFError):
        raise InvalidInput(
            f"{path} is not a file that observal saved, or it is damaged; give the path used with save(), or a copy."
        ) from None


def _check_same_type(name: str, stored: Any, given: Any) -> None:
    kind = _type_name(given)
    if stored.get("type", kind) != kind:
        raise InvalidInput(
            f"The file was saved with {stored['type']} as its {name}, but {kind} was given; give the same."
        )


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _unsaved(value: Any) -> str:
    """Return the first thing within an encoded value that could not be stored, in words, or nothing."""
    if isinstance(value, dict):
        return str(value["unsaved"]) if "unsaved" in value else next(filter(None, map(_unsaved, value.values())), "")
    return next(filter(None, map(_unsaved, value)), "") if isinstance(value, list) else ""


def _encode(value: Any, arrays: list[np.ndarray[Any, Any]], where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.ndarray):
        return {"objects": [_encode(item, arrays, where) for item in value.tolist()]}
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [_encode(item, arrays, where) for item in value]}
    if isinstance(value, dict):
        return {name: _encode(item, arrays, f"{where}.{name}") for name, item in value.items()}
    if hasattr(value, "tocsr"):
        csr = value.tocsr()
        parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": tuple(csr.shape)}
        return {"csr": _encode(parts, arrays, where)}
    kind = type(value)
    if kind.__name__ in _TEXT and kind is _TEXT[kind.__name__]:
        return {"text": [kind.__name__, str(value)]}
    if kind.__name__ in _DATES and kind is _DATES[kind.__name__]:
        return {"date": [kind.__name__, value.isoformat()]}
    if dataclasses.is_dataclass(value) and kind.__module__.startswith("observal."):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return {"type": _type_name(value), "fields": _encode(fields, arrays, f"{where}.{kind.__name__}")}
    return {"unsaved": f"{where}: {kind.__name__}"}


def _decode(value: Any, archive: zipfile.ZipFile, where: str) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.lib.format.read_array(io.BytesIO(archive.read(f"{value['array']}.npy")), allow_pickle=False)
    if "objects" in value:
        out = np.empty(len(value["objects"]), dtype=object)
        out[:] = [_decode(item, archive, where) for item in value["objects"]]
        return out
    if "tuple" in value or "list" in value:
        items = [_decode(item, archive, where) for item in value["tuple" if "tuple" in value else "list"]]
        return tuple(items) if "tuple" in value else items
    if "text" in value:
        return _TEXT[value["text"][0]](value["text"][1])
    if "date" in value:
        return _DATES[value["date"][0]].fromisoformat(value["date"][1])
    if "csr" in value:
        from scipy.sparse import csr_matrix

        parts = {name: _decode(part, archive, where) for name, part in value["csr"].items()}
        return csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=parts["shape"])
    if "type" in value:
        module, _, name = value["type"].partition(":")
        found = getattr(importlib.import_module(module), name, None) if module.startswith("observal.") else None
        if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
            raise InvalidInput(f"The file names {value['type']!r}, which this observal does not have; update observal.")
        return found(**{field: _decode(item, archive, where) for field, item in value["fields"].items()})
    if "unsaved" in value:
        raise InvalidInput(
            f"{value['unsaved']} could not be stored in the file; hand it in again, as in Session.load(path, {where}=…)."
        )
    return {name: _decode(item, archive, where) for name, item in value.items()}
