"""What the classifier is for: few mistakes, or something that a threshold other than ½ does better.

========================  ====================================================================================
objective                 the threshold
========================  ====================================================================================
error                     ½: each mistake counts the same
balanced error            the one with the smallest mean over classes of the share of wrong rows
recall=0.8                the highest at which this share of the positive class is found
precision=0.8             the lowest at which this share of the rows predicted to be positive are so
cost=1,10                 the one with the smallest mean cost; the numbers say what missing a row of each class costs
========================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from observal.errors import InvalidInput

BALANCED = "balanced error"
_HOW = 'give "error", "balanced error", "recall=0.8", "precision=0.8" or costs such as {"default": 10} (--cost-of-missing default=10)'
TARGETS = ("recall", "precision")
TOLERANCE = 0.002
"""The default `tolerance`, 0.2 points: see :class:`observal.problem.goals.Goals`, whose module needs numpy, which ``--help`` must not wait for."""


def canonical(objective: Any, classes: Sequence[Any]) -> str:
    """Return an objective as text, checked.

    Parameters
    ----------
    objective : str or mapping
        One of the table above, or the cost of missing a row of a class; other mistakes then cost 1.
    classes : sequence
        The label values.

    Examples
    --------
    >>> canonical("recall=.8", ["paid", "default"]), canonical({"default": 10}, ["paid", "default"])
    ('recall=0.8', 'cost=1,10')
    """
    if isinstance(objective, Mapping):
        if len(classes) != 2:
            raise InvalidInput(
                f"The cost of missing a class needs two classes, but there are {len(classes)}; leave it out."
            )
        strange = next((name for name in objective if str(name) not in map(str, classes)), None)
        if strange is not None or not objective:
            raise InvalidInput(
                f"The cost of missing must be given for a class of {list(classes)}, but is for {strange!r}; name one of them."
            )
        given = {str(name): cost for name, cost in objective.items()}
        objective = "cost=" + ",".join(_cost(given.get(str(value), 1)) for value in classes)
    text = objective if objective != "balanced" else BALANCED
    check_objective(text)
    if text != "error" and len(classes) != 2:
        raise InvalidInput(f"The objective {text!r} needs two classes, but there are {len(classes)}; leave it out.")
    name, _, value = text.partition("=")
    return f"{name}={float(value):g}" if name in TARGETS else text


def check_objective(objective: Any) -> None:
    """Refuse what is not an objective.

    Examples
    --------
    >>> check_objective("recall=2")
    Traceback (most recent call last):
    ...
    observal.errors.InvalidInput: The objective must be a share between 0 and 1, but is 'recall=2'; write 80% as recall=0.8.
    """
    if objective in ("error", BALANCED):
        return
    name, _, value = str(objective).partition("=")
    if name in TARGETS and isinstance(objective, str):
        share = _number(value)
        if not 0.0 < share < 1.0:
            raise InvalidInput(
                f"The objective must be a share between 0 and 1, but is {objective!r}; write 80% as {name}=0.8."
            )
    elif name != "cost" or len(costs_of(str(objective))) != 2 or not min(costs_of(str(objective))) > 0.0:
        raise InvalidInput(f"The objective {objective!r:.60} is not known; {_HOW}.")


def target_of(objective: str) -> float:
    """Return the share that recall or precision is to reach.

    Examples
    --------
    >>> target_of("recall=0.8")
    0.8
    """
    return _number(objective.partition("=")[2])


def costs_of(objective: str) -> tuple[float, ...]:
    """Return what missing a row of each class costs; equal costs where the objective is another.

    Examples
    --------
    >>> costs_of("cost=1,10"), costs_of("error")
    ((1.0, 10.0), (1.0, 1.0))
    """
    name, _, value = objective.partition("=")
    return tuple(_number(part) for part in value.split(",")) if name == "cost" else (1.0, 1.0)


def objective_words(objective: str, classes: Sequence[Any]) -> str:
    """Return what the threshold is chosen for, in words.

    Examples
    --------
    >>> objective_words("recall=0.8", ["paid", "default"])
    "find 80% of 'default' (recall 0.8)"
    >>> objective_words("cost=1,10", ["paid", "default"])
    "the lowest cost: missing 'default' costs 10, missing 'paid' 1"
    """
    name, _, value = objective.partition("=")
    if name == "recall":
        return f"find {float(value):.0%} of {classes[-1]!r} (recall {value})"
    if name == "precision":
        return f"be right on {float(value):.0%} of the rows predicted to be {classes[-1]!r} (precision {value})"
    if name == "cost":
        costs = [f"{cost:g}" for cost in costs_of(objective)]
        return f"the lowest cost: missing {classes[1]!r} costs {costs[1]}, missing {classes[0]!r} {costs[0]}"
    return {
        "error": "the fewest mistakes",
        BALANCED: "the lowest balanced error: each class counts the same, however rare",
    }[name]


def measure_of(objective: str) -> str:
    """Return the name of the interval that an objective is about.

    Examples
    --------
    >>> measure_of("recall=0.8"), measure_of("balanced error")
    ('recall', 'balanced error')
    """
    return objective.partition("=")[0]


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
