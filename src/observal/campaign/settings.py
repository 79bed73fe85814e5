"""What a campaign is made with, checked and as plain values for the journal."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

from observal.campaign.encoding import encode
from observal.checks import check_whole as check_whole  # noqa: PLC0414  campaign.py imports it from here
from observal.errors import InvalidInput, InvalidLabel
from observal.methods import Method, NewtonVC
from observal.session import Session
from observal.types import LoggedData, Pool

_LONGEST_NAME = 100


def campaign_settings(
    logged: LoggedData,
    pool: Pool,
    about: dict[str, Any],
    label_budget: int | None,
    method: Method | None,
    seed: int,
    overlap: int,
) -> dict[str, Any]:
    """Return the settings for the journal's first event; whether the method can work on the data is said here.

    Parameters
    ----------
    logged, pool : LoggedData, Pool
        The data.
    about : dict
        What else to record: names of columns, the encoder, notes.
    label_budget, method, seed, overlap
        As for :meth:`Campaign.create_from_arrays`.
    """
    check_whole("overlap", overlap, 1)
    check_whole("seed", seed, 0)
    if label_budget is not None:
        check_whole("label_budget", label_budget, 0)
    method = NewtonVC() if method is None else method
    Session(logged, pool, method, label_budget, seed)
    classes = [
        value if isinstance(value, bool | int | float | str) else str(value) for value in logged.classes.tolist()
    ]
    if len({str(value) for value in classes}) < len(classes):
        raise InvalidLabel(f"Classes must be written differently, but they are {classes}; rename one of them.")
    return {
        **about,
        "label_budget": None if label_budget is None else int(label_budget),
        "seed": int(seed),
        "overlap": int(overlap),
        "method": encode(method),
        "classes": classes,
        "log_rows": len(logged),
        "revealed": int(logged.revealed.sum()),
        "pool_rows": len(pool),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of what computes.

    Examples
    --------
    >>> "numpy" in versions()
    True
    """
    packages = ("observal", "numpy", "scipy", "scikit-learn", "pyarrow", "sqlalchemy")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}


def observal_version() -> str:
    """Return the version of observal.

    Examples
    --------
    >>> observal_version() == versions()["observal"]
    True
    """
    return importlib.metadata.version("observal")


def check_annotator(annotator: str, overlap: int, anyone: str) -> None:
    """Refuse a name that cannot be told from another's.

    Examples
    --------
    >>> check_annotator("Ann", 2, "anyone")
    """
    if not isinstance(annotator, str) or not annotator.strip() or not annotator.isprintable():
        raise InvalidInput(f"An annotator needs a name that can be printed, but got {annotator!r}; give one.")
    if len(annotator) > _LONGEST_NAME:
        raise InvalidInput(
            f"An annotator's name may have {_LONGEST_NAME} characters, but has {len(annotator)}; give a shorter one."
        )
    if overlap > 1 and annotator == anyone:
        raise InvalidInput(
            f"Each row of this campaign goes to {overlap} different people, so it must know who you are; "
            "give your name (--annotator NAME, or annotator=)."
        )
