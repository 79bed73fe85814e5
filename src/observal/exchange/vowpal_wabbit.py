"""Vowpal Wabbit's contextual-bandit text: ``action:cost:probability | features``."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from observal.errors import InvalidInput
from observal.exchange.imported_log import (
    UNIFORM_POLICY,
    ImportedLog,
    Propensity,
    action_propensity,
    check_known,
    dense_if_small,
    make_labels,
    make_propensity,
)
from observal.problem.data import LoggedData, Pool
from observal.problem.rows import Matrix


@dataclass(frozen=True)
class VWLine:
    """One line: the actions on offer, the one that was taken (if any) with its cost and chance, and the features.

    Examples
    --------
    >>> from observal.exchange.vowpal_wabbit import parse_vw_line
    >>> parse_vw_line("1:0:0.5 2 |user age:30 new", 1)
    VWLine(actions=(1, 2), taken=1, cost=0.0, chance=0.5, features={'user^age': 30.0, 'user^new': 1.0})
    """

    actions: tuple[int, ...]
    taken: int | None
    cost: float
    chance: float
    features: dict[str, float]


def from_vw_cb(
    source: str | os.PathLike[str] | Iterable[str],
    action: int,
    propensity: Propensity | None = None,
    *,
    label: Callable[[float], Hashable] | None = None,
    classes: Sequence[Hashable] | None = None,
) -> ImportedLog:
    """Read Vowpal Wabbit's contextual-bandit text as a log about one action.

    The label is the cost when `action` is taken, revealed exactly where it was taken; the class of the smaller cost comes
    first. Its propensity is the chance that a row's label was revealed, so the chance of `action` at that row: the
    written one where it was taken, 0 where the line lists other actions only. Elsewhere it comes from `propensity`,
    or follows from there being two actions, or a uniform policy; if not, that is an error. Lines in which no action has
    a cost are the pool.

    Parameters
    ----------
    source : path or lines
        Lines such as ``1:0:0.5 | age:30``, ``1:0:0.5 2 3 |user age:30 new`` (all actions on offer are listed).
    action : int
        The action whose cost is the label.
    propensity : optional
        The chance of `action` where another was taken: numbers, or a policy (see
        ``observal.diagnosis.propensity.from_policy``).
    label : callable, optional
        From a cost to its label; needed where costs have more than two values.
    classes : sequence, optional
        The two labels, negative first; needed where only one occurs.

    Examples
    --------
    >>> from observal.exchange.importers import from_vw_cb
    >>> lines = ["1:0:0.5 2 | age:30", "2:1:0.75 1 | age:40 new", "1:1:0.25 2 | age:50"]
    >>> imported = from_vw_cb(lines, action=1)
    >>> imported.feature_names, imported.logged.y.tolist(), imported.logged.propensity.tolist()
    (('age', 'new'), [0, None, 1], [0.5, 0.25, 0.25])
    """
    rows = [parse_vw_line(line, number) for number, line in enumerate(_lines(source), start=1) if line.strip()]
    log, rest = [row for row in rows if row.taken is not None], [row for row in rows if row.taken is None]
    taken = np.array([row.taken == action for row in log], dtype=bool)
    actions = sorted({number for row in rows for number in row.actions})
    if not taken.any():
        raise InvalidInput(
            f"Action {action} was never taken in this log, so no label was revealed; the actions are {actions[:20]}."
        )
    names = tuple(dict.fromkeys(name for row in rows for name in row.features))
    X, X_pool = _matrix(log, names), _matrix(rest, names) if rest else None
    labels, label_values = make_labels([row.cost for row in log], taken, label, classes, "The cost")
    offers = [row.actions if len(row.actions) > 1 else actions for row in log]
    pscore = np.array([row.chance for row in log])
    on_offer = np.array([action in offer for offer in offers], dtype=bool)
    values, is_known, reason = action_propensity(taken, pscore, on_offer, np.array([len(offer) for offer in offers]))
    notes = [f"The label is the cost of action {action}, revealed in {int(taken.sum())} of {len(log)} rows."]
    pool_chances = None
    if propensity is not None:
        elsewhere, pool_chances = make_propensity(propensity, X, X_pool)
        values = np.where(taken, pscore, np.where(on_offer, elsewhere, 0.0))
    else:
        notes += check_known(is_known, action, reason)
        if X_pool is not None and reason == UNIFORM_POLICY:
            pool_chances = np.array([_uniform_chance(row, action, actions) for row in rest])
    if X_pool is not None and pool_chances is None:
        raise InvalidInput(
            f"The lines without a cost ({len(rest)}) would be the pool, but the chance of action {action} is not known there; give "
            "propensity= (a policy), or leave these lines out."
        )
    logged = LoggedData(X, labels, values, classes=label_values)
    return ImportedLog(logged, None if X_pool is None else Pool(X_pool, pool_chances), names, tuple(notes))


def _uniform_chance(row: VWLine, action: int, actions: Sequence[int]) -> float:
    offer = row.actions or actions
    return 1.0 / len(offer) if action in offer else 0.0


def _lines(source: str | os.PathLike[str] | Iterable[str]) -> Iterable[str]:
    if isinstance(source, str | os.PathLike):
        try:
            return Path(source).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InvalidInput(f"File {str(source)!r} cannot be read ({reason}); give a text file.") from None
    return source


def parse_vw_line(line: str, number: int) -> VWLine:
    """Return what a line says; `number` is its number in messages.

    Examples
    --------
    >>> from observal.exchange.vowpal_wabbit import parse_vw_line
    >>> parse_vw_line("2:1:0.25 | a:0.5 a:0.5", 1).features
    {'a': 1.0}
    """
    label_text, bar, rest = line.partition("|")
    if not bar:
        raise _line_error(number, "has no '|' between the actions and the features")
    words = label_text.split()
    if words and words[0] == "shared":
        raise _line_error(number, "is a 'shared' line of the many-line form with action features, which is not read")
    if words and (words[-1].startswith("'") or not label_text[-1:].isspace()):
        raise _line_error(number, f"has the tag {words[-1]!r} before '|', and tags are not read")
    actions, taken = [], None
    for word in words:
        parts = word.split(":")
        if len(parts) not in (1, 3):
            raise _line_error(number, f"has {word!r} where action:cost:probability or an action was expected")
        try:
            actions.append(int(parts[0]))
        except ValueError:
            raise _line_error(number, f"has {word!r}, whose action is not a whole number") from None
        if len(parts) == 3:
            if taken is not None:
                raise _line_error(number, "has a cost for more than one action")
            taken = (actions[-1], _number(parts[1], word, number), _number(parts[2], word, number))
    if len(set(actions)) < len(actions):
        raise _line_error(number, "names an action twice")
    if len(words) == 0 or taken is None:
        return VWLine(tuple(actions), None, math.nan, math.nan, _features(rest, number))
    if not 0.0 < taken[2] <= 1.0:
        raise _line_error(
            number, f"has the probability {taken[2]:g} for the action that was taken, which must be in (0, 1]"
        )
    return VWLine(tuple(actions), *taken, _features(rest, number))


def _features(text: str, number: int) -> dict[str, float]:
    features: dict[str, float] = {}
    for part in text.split("|"):
        namespace, scale = "", 1.0
        words = part.split()
        if words and not part[0].isspace():
            namespace, colon, weight = words.pop(0).partition(":")
            scale = _number(weight, f"{namespace}:{weight}", number) if colon else 1.0
        for word in words:
            name, colon, value = word.partition(":")
            if not name:
                raise _line_error(number, f"has the feature {word!r} without a name")
            full = f"{namespace}^{name}" if namespace else name
            features[full] = features.get(full, 0.0) + scale * (_number(value, word, number) if colon else 1.0)
    return features


def _number(text: str, word: str, number: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _line_error(number, f"has {word!r}, in which {text!r} is not a number")
    return value


def _line_error(number: int, what: str) -> InvalidInput:
    return InvalidInput(f"Line {number} {what}; a line looks like 1:0.5:0.25 | feature:1.5 other.")


def _matrix(rows: Sequence[VWLine], names: Sequence[str]) -> Matrix:
    import scipy.sparse as sp

    column = {name: position for position, name in enumerate(names)}
    ends = np.cumsum([0, *(len(row.features) for row in rows)])
    positions = [column[name] for row in rows for name in row.features]
    values = np.array([value for row in rows for value in row.features.values()], dtype=np.float64)
    return dense_if_small(sp.csr_array((values, positions, ends), shape=(len(rows), len(names))))
