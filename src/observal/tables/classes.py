"""Label values: which class a value means, whether a column can hold classes, and which of two is the positive one."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from shlex import quote

from observal.errors import InvalidLabel
from observal.problem.labels import refuse_unclear_minus_one
from observal.tables.column_format import PLACEHOLDERS

_MOST_CLASSES = 20  # a column with more values than this, and few labels of each, does not hold classes

# Pairs in which the second is the one that is looked for.
_OBVIOUS_PAIRS = (
    *(("0", "1"), ("-1", "1"), ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("negative", "positive")),
    *(("neg", "pos"), ("-", "+"), ("absent", "present"), ("normal", "abnormal"), ("benign", "malignant")),
    *(("ham", "spam"), ("healthy", "sick"), ("healthy", "ill"), ("control", "case"), ("legitimate", "fraud")),
)
_NEGATION = re.compile(r"(?:(?:no|not|non|never)[ _-]+|non)(.+)")

Label = Hashable
"""A label value: a boolean, a number or text."""
Positive = Label | Callable[[Sequence[Label]], Label] | None
"""A class; a function that is given both classes, the rarer one last, and returns one; or None."""


class ClassFinder:
    """Finds the class that a value means: the one rule for tables, files of answers and the positive class.

    A value means a class if it equals the class or is the same text. Otherwise upper and lower case are ignored, then numbers are
    compared by value, and true and false are read as 1 and 0. A comparison that confuses two of the classes is not used.

    Examples
    --------
    >>> codes = ClassFinder([0, 1])
    >>> codes.find("1"), codes.find("1.0"), codes.find("True"), codes.find("2")
    (1, 1, 1, None)
    >>> ClassFinder(["bad", "good"]).find("Good")
    1
    """

    def __init__(self, classes: Sequence[Label]) -> None:
        self._codes = {value: code for code, value in enumerate(classes)}
        self._comparisons: list[tuple[Callable[[str], str], dict[str, int]]] = []
        for normalize in (str.strip, _fold_case, _fold_number):
            codes = {normalize(str(value)): code for code, value in enumerate(classes)}
            if len(codes) == len(classes):
                self._comparisons.append((normalize, codes))

    def find(self, value: object) -> int | None:
        """Return the position of the class that a value means, or None if it means none of them."""
        if (code := find_key(self._codes, value)) is not None:
            return code
        text = str(value)
        matches = (codes[key] for normalize, codes in self._comparisons if (key := normalize(text)) in codes)
        return next(matches, None)


def find_key(codes: Mapping[Label, int], key: object) -> int | None:
    """Return the value of a key, or None; also None for a key that cannot be hashed, such as a list."""
    try:
        return codes.get(key)
    except TypeError:
        return None


def _fold_case(text: str) -> str:
    return text.strip().casefold()


def _fold_number(text: str) -> str:
    folded = {"true": "1", "false": "0"}.get(_fold_case(text), _fold_case(text))
    try:
        return repr(float(folded.replace(",", ".")))
    except ValueError:
        return folded


def as_label(value: Label, classes: Sequence[Label] | None = None) -> Label:
    """Return a label without spaces around it, None if nothing is left; if classes are named, the one that it means.

    Examples
    --------
    >>> as_label(" yes"), as_label(" "), as_label("1", [0, 1])
    ('yes', None, 1)
    """
    if isinstance(value, str) and value not in (() if classes is None else classes):
        value = value.strip() or None
    if value is None or classes is None:
        return value
    code = ClassFinder(classes).find(value)
    if code is None:
        raise InvalidLabel(
            f"A label must be one of the classes {list(classes)}, but {value!r} was seen; correct the label, or name all "
            "classes with classes=."
        )
    return classes[code]


def check_classes(classes: Sequence[Label], label: str, n_labels: int, is_named: bool) -> None:
    """Refuse label values that cannot be the classes: fewer than two or, unless the user named them, far too many or ``?``."""
    doubtful = [value for value in classes if isinstance(value, str) and value.strip().lower() in PLACEHOLDERS]
    if doubtful and not is_named:
        options = " ".join(f"--missing {quote(value)}" for value in doubtful)
        raise InvalidLabel(
            f"The label column {label!r} has the value {doubtful[0]!r}, which may mean that the label is not known; if so, use "
            f"{options} (missing={doubtful}), and otherwise name the classes (--classes, classes=)."
        )
    if not is_named:
        refuse_unclear_minus_one(classes)
    if len(classes) < 2:
        listed = ", ".join(repr(value) for value in classes)
        raise InvalidLabel(
            f"The label column {label!r} must show two classes or more, but shows {len(classes)} "
            f"({listed or 'every label is missing'}); name all classes (classes= or --classes)."
        )
    if not is_named and len(classes) > max(_MOST_CLASSES, n_labels / 2):
        raise InvalidLabel(
            f"The label column {label!r} shows {len(classes)} different values in {n_labels} labels, too many for "
            "classes; name another column, merge values into classes, or name all classes (classes= or --classes)."
        )


def order_classes(
    classes: Sequence[Label], counts: Mapping[Label, int], positive: Positive = None, label: str = ""
) -> tuple[Sequence[Label], list[str]]:
    """Return the classes with the positive one last, and a note if it had to be guessed.

    The positive class is the one that precision and recall are about. Without a named class it is the obvious one of two, as in no
    and yes, or 'late' in a column `label` of that name; failing that, the rarer one by `counts` of how often each was revealed. Of more than two,
    only a named one is moved.

    Examples
    --------
    >>> order_classes(["yes", "no"], {"yes": 1, "no": 1})
    (['no', 'yes'], [])
    >>> classes, notes = order_classes(["default", "paid"], {"paid": 2, "default": 1})
    >>> classes, notes[0]
    (['paid', 'default'], "Precision and recall are about 'default', the rarer class in the log; name another with --positive (positive=).")
    """
    if positive is not None and not callable(positive):
        return _move_last(classes, _find_positive(classes, positive)), []
    if len(classes) != 2:
        return classes, []
    named = [value for value in classes if isinstance(value, str) and _fold_case(value) == _fold_case(label)]
    obvious = named[0] if len(named) == 1 else obvious_positive(classes)
    if obvious is not None:
        return _move_last(classes, obvious), []
    rarer = min(classes[::-1], key=lambda value: counts.get(value, 0))  # of equally rare ones, the last
    if positive is not None:
        return _move_last(classes, _find_positive(classes, positive(_move_last(classes, rarer)))), []
    return _move_last(classes, rarer), [
        f"Precision and recall are about {rarer!r}, the rarer class in the log; name another with --positive (positive=)."
    ]


def obvious_positive(classes: Sequence[Label]) -> Label | None:
    """Return the positive class of two where the words leave no doubt, as in no and yes; otherwise None.

    Examples
    --------
    >>> obvious_positive([1, 0]), obvious_positive(["fraud", "no fraud"]), obvious_positive(["bad", "good"])
    (1, 'fraud', None)
    """
    if len(classes) != 2:
        return None
    whole = [int(value) if isinstance(value, float) and value.is_integer() else value for value in classes]
    texts = [str(value).strip().lower() for value in whole]
    for first, second in ((0, 1), (1, 0)):
        negation = _NEGATION.fullmatch(texts[first])
        if (texts[first], texts[second]) in _OBVIOUS_PAIRS or (negation and negation[1] == texts[second]):
            return classes[second]
    return None


def _find_positive(classes: Sequence[Label], positive: Label) -> Label:
    code = ClassFinder(classes).find(positive)
    if code is None:
        listed = ", ".join(repr(value) for value in classes)
        raise InvalidLabel(f"The positive class must be one of {listed}, but is {positive!r}; name one of them.")
    return classes[code]


def _move_last(classes: Sequence[Label], positive: Label) -> list[Label]:
    return [*(value for value in classes if value is not positive), positive]
