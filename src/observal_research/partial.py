"""The finished parts of a long experiment, one JSON line each, so that an interrupted experiment can be resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from observal.errors import InvalidInput
from observal.files import write_text
from observal_research.trials import Progress, stream_all


class Partial:
    """A file whose first line is the specification and whose other lines are finished parts.

    Parameters
    ----------
    path : path
        The file; its folder is made if needed.
    specification : dict
        What is run, as plain values for JSON; a file with another specification is refused.
    resume : bool
        Whether to read the existing file; otherwise a new one is started.

    Attributes
    ----------
    finished : dict
        From the key of each finished part, a tuple, to its value.
    """

    def __init__(self, path: Path, specification: dict[str, Any], resume: bool) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.finished = _read(path, specification) if resume and path.exists() else {}
        lines = [{"specification": specification}, *map(_line, self.finished, self.finished.values())]
        # This drops a last line that was cut off.
        write_text(path, "".join(json.dumps(line) + "\n" for line in lines), force=True)

    def add(self, key: tuple[Any, ...], value: object) -> None:
        """Add a finished part; it is in the file when this returns."""
        self.finished[key] = value
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_line(key, value)) + "\n")


def run_parts(
    function: Callable[..., Any],
    parts: Mapping[Any, tuple[Any, ...]],
    partial: Partial | None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> dict[Any, Any]:
    """Return the value of each part; those that are finished are not run again, and each is stored as soon as it is done.

    Parameters
    ----------
    function : callable
        Computes a part from its arguments.
    parts : mapping
        From keys to arguments.
    partial : Partial, optional
        Where finished parts are stored.
    jobs : int, optional
        Processes; all cores by default.
    progress : callable, optional
        Called with (done, total).
    """
    earlier = {} if partial is None else partial.finished
    finished = {key: earlier[key] for key in parts if key in earlier}
    todo = [key for key in parts if key not in finished]
    if progress is not None and todo:
        progress(len(finished), len(parts))
    for key, value in zip(todo, stream_all(function, [parts[key] for key in todo], jobs), strict=True):
        finished[key] = value
        if partial is not None:
            partial.add(key, value)
        if progress is not None:
            progress(len(finished), len(parts))
    return finished


def _line(key: tuple[Any, ...], value: object) -> dict[str, Any]:
    return {"key": key, "value": value}


def _read(path: Path, specification: dict[str, Any]) -> dict[tuple[Any, ...], Any]:
    """Return the finished parts; a last line without a line end was cut off and is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    if not lines:
        return {}
    try:
        records = [json.loads(line) for line in lines]
        begun: dict[str, Any] = dict(records[0]["specification"])
        finished = {tuple(record["key"]): record["value"] for record in records[1:]}
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{path} is not a file of finished parts, so nothing can be resumed; run without --resume (resume=False)."
        ) from None
    if differing := sorted(name for name in begun | specification if begun.get(name) != specification.get(name)):
        raise InvalidInput(
            f"{path} was started with other options ({', '.join(differing)}); resume with the same options, or "
            "run without --resume (resume=False) to start again."
        )
    return finished
