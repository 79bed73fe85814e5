"""Which of two classes is the positive one: the one that precision and recall are about."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from observal.errors import InvalidLabel

# Pairs in which everybody expects the second to be the one that is looked for.
OBVIOUS = (
    *(("0", "1"), ("-1", "1"), ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("negative", "positive")),
    *(("neg", "pos"), ("-", "+"), ("absent", "present"), ("normal", "abnormal"), ("benign", "malignant")),
    *(("ham", "spam"), ("healthy", "sick"), ("healthy", "ill"), ("control", "case"), ("legitimate", "fraud")),
)
_NOT = re.compile(r"(?:(?:no|not|non|never)[ _-]+|non)(.+)")

Positive = Any | Callable[[Sequence[Any]], Any] | None
"""A class; a function that is given both classes, the rarer one last, and returns one; or None."""


def positive_last(
    classes: Sequence[Any], counts: Mapping[Any, int], positive: Positive = None
) -> tuple[Sequence[Any], list[str]]:
    """Return the classes with the positive one last, and a note if it had to be guessed.

    Without a named class it is the obvious one of two, as in no and yes; failing that, the rarer one.

    Parameters
    ----------
    classes : sequence
        The label values.
    counts : mapping
        How often each class was revealed.
    positive : optional
        The positive class, its text, or a function that chooses it.

    Examples
    --------
    >>> positive_last(["yes", "no"], {"yes": 1, "no": 1})
    (['no', 'yes'], [])
    >>> classes, notes = positive_last(["default", "paid"], {"paid": 2, "default": 1})
    >>> classes, notes[0]
    (['paid', 'default'], "Precision and recall are about 'default', the rarer class in the log; name another with --positive (positive=).")
    """
    if positive is not None and len(classes) != 2 and not callable(positive):
        raise InvalidLabel(
            f"A positive class is for two classes, but there are {len(classes)}; leave out --positive (positive=)."
        )
    if positive is not None and not callable(positive):
        return _last(classes, _named(classes, positive)), []
    if len(classes) != 2:
        return classes, []
    obvious = obvious_positive(classes)
    if obvious is not None:
        return _last(classes, obvious), []
    rarer = min(classes[::-1], key=lambda value: counts.get(value, 0))  # of equally rare ones, the last
    if positive is not None:
        return _last(classes, _named(classes, positive(_last(classes, rarer)))), []
    return _last(classes, rarer), [
        f"Precision and recall are about {rarer!r}, the rarer class in the log; name another with --positive (positive=)."
    ]


def obvious_positive(classes: Sequence[Any]) -> Any:
    """Return the class that everybody takes for the positive one of two, or None.

    Examples
    --------
    >>> obvious_positive([1, 0]), obvious_positive(["fraud", "no fraud"]), obvious_positive(["bad", "good"])
    (1, 'fraud', None)
    """
    if len(classes) != 2:
        return None
    texts = [_plain(value) for value in classes]
    for first, second in ((0, 1), (1, 0)):
        pair, denied = (texts[first], texts[second]), _NOT.fullmatch(texts[first])
        if pair in OBVIOUS or (denied and denied[1] == texts[second]):
            return classes[second]
    return None


def _plain(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value).strip().lower()


def _named(classes: Sequence[Any], positive: Any) -> Any:
    found = [value for value in classes if value == positive or str(value) == str(positive)]
    if len(found) != 1:
        shown = ", ".join(repr(value) for value in classes)
        raise InvalidLabel(f"The positive class must be one of {shown}, but is {positive!r}; name one of them.")
    return found[0]


def _last(classes: Sequence[Any], positive: Any) -> list[Any]:
    return [*(value for value in classes if value is not positive), positive]
