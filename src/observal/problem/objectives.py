"""What the classifier is for: few mistakes, or a goal that needs a threshold other than ½.

========================  ====================================================================================
objective                 the threshold
========================  ====================================================================================
error                     ½: each mistake counts the same
balanced error            the one with the smallest mean over classes of the share of wrong rows
recall=0.8                the highest at which this share of the positive class is found, on average
recall>=0.8               the highest at which at least this share is found, with 95 % confidence
precision=0.8             the lowest at which this share of the rows predicted to be positive are so; also with >=
flag=0.05                 the one at which this share of all rows is predicted to be positive
cost=1,10                 the one with the smallest mean cost, given the costs of missing a row of each class
missing=50,checking=1     the one with the smallest mean cost, if each row predicted to be positive is checked
========================  ====================================================================================

With more than two classes, a share is about the last one, each class may have a cost, and flagged rows are
not checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from observal.errors import InvalidInput

BALANCED = "balanced error"
FLAG, COST = "flag", "cost"
_HOW = (
    'give "error", "balanced", "recall=0.8", "recall>=0.8", "precision=0.8", "flag=5%" or costs such as {"default": 10} '
    "(--cost-of-missing default=10)"
)
TARGETS = ("recall", "precision")
SHARES = (*TARGETS, FLAG)
MISSING, CHECKING = "missing", "checking"
RARE = 0.1
"""A class with a smaller share of the rows is rare."""
TOLERANCE = 0.002
"""The default `tolerance` of ``Goals``, 0.2 points; defined here because ``--help`` must not import numpy."""


def canonical(objective: Any, classes: Sequence[Any]) -> str:
    """Return an objective as canonical text, validated.

    It is one of the table above, or a mapping from classes to the cost of missing a row of that class; other
    mistakes then cost 1. "checking" gives the cost of checking each flagged row.

    Examples
    --------
    >>> canonical("recall=80%", ["paid", "default"]), canonical({"default": 10}, ["paid", "default"])
    ('recall=0.8', 'cost=1,10')
    >>> canonical({"default": 50, "checking": 2}, ["paid", "default"])
    'missing=50,checking=2'
    """
    if isinstance(objective, Mapping):
        objective = _cost_objective({str(name): cost for name, cost in objective.items()}, classes)
    text = objective if objective != "balanced" else BALANCED
    if isinstance(text, str):
        text = _normalise_text(text)
    check_objective(text)
    if measure_of(text) == COST and len(costs_of(text)) != len(classes):
        raise InvalidInput(
            f"The objective {text!r} is for {len(costs_of(text))} classes, but there are {len(classes)}; give a cost for each class, "
            "or leave it out."
        )
    return str(text)


def is_about_last(objective: str, n_classes: int) -> bool:
    """Return whether to measure the last class's precision, recall and so on: one of two, or the objective's.

    Examples
    --------
    >>> is_about_last("error", 2), is_about_last("recall=0.8", 5), is_about_last("balanced error", 5)
    (True, True, False)
    """
    return n_classes == 2 or measure_of(objective) in SHARES


def _cost_objective(given: Mapping[str, Any], classes: Sequence[Any]) -> str:
    """Return the objective for costs by class, and for checking a flagged row."""
    names, checks = [str(value) for value in classes], CHECKING in given and CHECKING not in map(str, classes)
    missed = [name for name in given if not (checks and name == CHECKING)]
    strange = next((name for name in missed if name not in names), None)
    if strange is not None or not missed:
        raise InvalidInput(
            f"The cost of missing must be given for a class of {list(classes)}, but is for {strange!r}; name one of them."
        )
    if not checks:
        return f"{COST}=" + ",".join(_cost(given.get(name, 1)) for name in names)
    if missed != names[-1:]:
        raise InvalidInput(
            f"Rows of the positive class {names[-1]!r} are flagged and checked, but the cost of missing is for {missed}; "
            "give it for the positive class, or name another one as positive."
        )
    return f"{MISSING}={_cost(given[names[-1]])},{CHECKING}={_cost(given[CHECKING])}"


def _normalise_text(text: str) -> str:
    """Return an objective without spaces, its shares as numbers: ``recall = 80%`` becomes ``recall=0.8``."""
    name, sign, value = text.replace(" ", "").partition("=")
    if name.removesuffix(">") not in SHARES:
        return text if text in ("error", BALANCED) else text.replace(" ", "")
    share = _number(value.removesuffix("%")) / (100.0 if value.endswith("%") else 1.0)
    return f"{name}{sign}{share:g}" if share > 0.0 else text


def check_objective(objective: Any) -> None:
    """Reject what is not an objective.

    Examples
    --------
    >>> check_objective("recall=2")
    Traceback (most recent call last):
    ...
    observal.errors.InvalidInput: The objective must be a share between 0 and 1, but is 'recall=2'; write 80% as recall=0.8.
    """
    if objective in ("error", BALANCED):
        return
    text = str(objective)
    name = measure_of(text)
    if name in SHARES and isinstance(objective, str):
        if not 0.0 < target_of(text) < 1.0:
            raise InvalidInput(
                f"The objective must be a share between 0 and 1, but is {text!r}; write "
                + ("300 of 6,000 rows as flag=5%." if name == FLAG else f"80% as {name}=0.8.")
            )
        if is_cautious(text) and name == FLAG:
            raise InvalidInput(f"A share to flag is kept exactly, but the objective is {text!r}; write {FLAG}=0.05.")
    elif price_of_checking(text) > 0.0 and 0.0 < price_of_missing(text) <= price_of_checking(text):
        raise InvalidInput(
            f"Missing a row must cost more than checking one, but the costs are {price_of_missing(text):g} and "
            f"{price_of_checking(text):g}; with these, checking no row at all is cheapest."
        )
    elif name != COST or len(costs_of(text)) < 2 or not min(costs_of(text)) > 0.0:
        raise InvalidInput(f"The objective {objective!r:.60} is not known; {_HOW}.")


def is_cautious(objective: str) -> bool:
    """Return whether a target must be reached with 95 % confidence rather than on average.

    Examples
    --------
    >>> is_cautious("recall>=0.8"), is_cautious("recall=0.8")
    (True, False)
    """
    return ">=" in objective


def target_of(objective: str) -> float:
    """Return the share that recall or precision is to reach.

    Examples
    --------
    >>> target_of("recall=0.8")
    0.8
    """
    return _number(objective.partition("=")[2])


def costs_of(objective: str) -> tuple[float, ...]:
    """Return the cost of missing a row of each class; equal costs for other objectives.

    If flagged rows are checked, a found row still costs a check, so missing it costs that much less.

    Examples
    --------
    >>> costs_of("cost=1,10"), costs_of("missing=10,checking=1"), costs_of("error")
    ((1.0, 10.0), (1.0, 9.0), (1.0, 1.0))
    """
    name, _, value = objective.partition("=")
    if name == COST:
        return tuple(_number(part) for part in value.split(","))
    if name == MISSING:
        missing, checking = price_of_missing(objective), price_of_checking(objective)
        return (checking, missing - checking) if checking > 0.0 else (-1.0, -1.0)
    return (1.0, 1.0)


def prices_of(objective: str) -> tuple[tuple[float, ...], ...]:
    """Return the cost of a row by its class and its prediction.

    Examples
    --------
    >>> prices_of("cost=1,10"), prices_of("missing=10,checking=1")
    (((0.0, 1.0), (10.0, 0.0)), ((0.0, 1.0), (10.0, 1.0)))
    """
    if checking := price_of_checking(objective):
        return (0.0, checking), (price_of_missing(objective), checking)
    costs = costs_of(objective)
    return tuple(tuple(0.0 if row == said else cost for said in range(len(costs))) for row, cost in enumerate(costs))


def price_of_missing(objective: str) -> float:
    """Return the cost of a missed row if flagged rows are checked."""
    return _number(objective.partition(f"{MISSING}=")[2].partition(",")[0])


def price_of_checking(objective: str) -> float:
    """Return the cost of checking a row predicted to be positive; 0 if the objective has none.

    Examples
    --------
    >>> price_of_checking("missing=50,checking=2"), price_of_checking("cost=1,10")
    (2.0, 0.0)
    """
    return _number(objective.partition(f"{CHECKING}=")[2]) if CHECKING in objective else 0.0


def objective_words(objective: str, classes: Sequence[Any]) -> str:
    """Return what the threshold is chosen for, in words.

    Examples
    --------
    >>> objective_words("recall=0.8", ["paid", "default"])
    "find 80% of 'default' (recall 0.8)"
    >>> objective_words("cost=1,10", ["paid", "default"])
    "the lowest cost: missing 'default' costs 10, missing 'paid' 1"
    """
    name, value = measure_of(objective), objective.partition("=")[2]
    at_least, sure = ("at least ", " with 95% confidence") if is_cautious(objective) else ("", "")
    if name == "recall":
        return f"find {at_least}{float(value):.0%} of {classes[-1]!r}{sure} (recall {value})"
    if name == "precision":
        return f"be right on {at_least}{float(value):.0%} of the rows predicted to be {classes[-1]!r}{sure} (precision {value})"
    if name == FLAG:
        return f"flag {100 * float(value):.3g}% of all rows as {classes[-1]!r}"
    if name == COST:
        if checking := price_of_checking(objective):
            missing = price_of_missing(objective)
            return f"the lowest cost: missing {classes[1]!r} costs {missing:g}, checking a flagged row {checking:g}"
        (name, most), *others = list(zip(classes, costs_of(objective), strict=True))[::-1]
        rest = "".join(f", missing {value!r} {cost:g}" for value, cost in others)
        return f"the lowest cost: missing {name!r} costs {most:g}{rest}"
    return {
        "error": "the fewest mistakes",
        BALANCED: "the lowest balanced error: each class counts the same, however rare",
    }[name]


def measure_of(objective: str) -> str:
    """Return the name of the interval that an objective is about.

    Examples
    --------
    >>> measure_of("recall>=0.8"), measure_of("balanced error"), measure_of("missing=10,checking=1")
    ('recall', 'balanced error', 'cost')
    """
    name = objective.partition("=")[0].removesuffix(">")
    return COST if name == MISSING else name


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return -1.0
    return value if isfinite(value) else -1.0


def _cost(value: Any) -> str:
    number = _number(str(value))
    if not number > 0.0:
        raise InvalidInput(
            f"The cost of missing a class must be a number above 0, but is {value!r}; give one such as 10."
        )
    return f"{number:g}"
