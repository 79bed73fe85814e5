"""One file for a record of arrays, numbers, text and observal's own frozen dataclasses; nothing in it can run code.

The file is a zip of NumPy arrays plus ``record.json``. Only dataclasses that live in observal are rebuilt, by name, from
their own fields, so opening a stranger's file executes nothing of the stranger's.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from observal.errors import InvalidInput

_FORMAT = 1


def write_record(path: str | Path, record: dict[str, Any]) -> None:
    """Write `record`; the file at `path` is replaced only once the new one is complete and on disk."""
    path = Path(path)
    arrays: list[np.ndarray[Any, Any]] = []
    text = json.dumps({"format": _FORMAT, "record": _encode(record, arrays, "record")})
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


def read_record(path: str | Path, replace: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what :func:`write_record` wrote; entries named in `replace` are taken from there instead."""
    replace = replace or {}
    try:
        archive = zipfile.ZipFile(path)
        content = json.loads(archive.read("record.json"))
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError):
        raise InvalidInput(f"{path} is not a file that observal saved; give the path used with save().") from None
    with archive:
        if content["format"] > _FORMAT:
            raise InvalidInput(
                f"{path} was saved by a newer observal (format {content['format']}, this one reads up to {_FORMAT}); "
                "update observal."
            )
        return {
            name: replace[name] if name in replace else _decode(value, archive, name)
            for name, value in content["record"].items()
        }


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
    if dataclasses.is_dataclass(value) and kind.__module__.startswith("observal."):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        name = f"{kind.__module__}:{kind.__qualname__}"
        return {"type": name, "fields": _encode(fields, arrays, f"{where}.{kind.__name__}")}
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
