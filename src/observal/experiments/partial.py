"""Finished pieces of a long experiment, one JSON line each, so that an interrupted one can be resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from observal.errors import InvalidInput
from observal.writing import write_text


class Partial:
    """A file whose first line is the specification and every further line a finished piece.

    Parameters
    ----------
    path : path
        The file; its folder is made if needed.
    specification : dict
        JSON values that say what is run; a file begun with another one is refused.
    resume : bool
        Read what is there; otherwise the file is begun afresh.

    Attributes
    ----------
    finished : dict
        From the key of each finished piece, a tuple, to its value.
    """

    def __init__(self, path: Path, specification: dict[str, Any], resume: bool) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.finished = _read(path, specification) if resume and path.exists() else {}
        lines = [{"specification": specification}, *map(_line, self.finished, self.finished.values())]
        # Whole lines only, even where the last one was cut.
        write_text(path, "".join(json.dumps(line) + "\n" for line in lines), force=True)

    def add(self, key: tuple[Any, ...], value: Any) -> None:
        """Keep a finished piece; it is in the file when this returns."""
        self.finished[key] = value
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_line(key, value)) + "\n")


def _line(key: tuple[Any, ...], value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def _read(path: Path, specification: dict[str, Any]) -> dict[tuple[Any, ...], Any]:
    """Return the finished pieces; what follows the last line end was cut while being written, and is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    if not lines:
        return {}
    try:
        records = [json.loads(line) for line in lines]
        begun: dict[str, Any] = dict(records[0]["specification"])
        finished = {tuple(record["key"]): record["value"] for record in records[1:]}
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{path} is not a list of finished pieces, so nothing can be resumed from it; run without resume."
        ) from None
    if differing := sorted(name for name in begun | specification if begun.get(name) != specification.get(name)):
        raise InvalidInput(
            f"{path} was begun with another specification ({', '.join(differing)}); resume with the same options, or "
            "run without resume to start afresh."
        )
    return finished
