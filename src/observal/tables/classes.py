"""Label values: which class a value means, whether a column can hold classes, and which of two is the positive one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from shlex import quote

from observal.errors import InvalidLabel
from observal.problem.labels import ClassFinder, Label, fold_case, refuse_alike, refuse_unclear_minus_one
from observal.problem.words import WARNING
from observal.tables.column_format import MISSING, PLACEHOLDERS

_MOST_CLASSES = 20  # a column with more values than this, and few labels of each, does not hold classes
_LEAST_SHARE = 0.05  # of the filled cells have a word such as None if it is a class

# Pairs in which the second is the one that is looked for.
_OBVIOUS_PAIRS = (
    *(("0", "1"), ("-1", "1"), ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("negative", "positive")),
    *(("neg", "pos"), ("-", "+"), ("absent", "present"), ("normal", "abnormal"), ("benign", "malignant")),
    *(("ham", "spam"), ("healthy", "sick"), ("healthy", "ill"), ("control", "case"), ("legitimate", "fraud")),
)
_NEGATION = re.compile(r"(?:(?:no|not|non|never)[ _-]+|non)(.+)")

Positive = Label | Callable[[Sequence[Label]], Label] | None
"""A class; a function that is given both classes, the rarer one last, and returns one; or None."""


def find_class_words(
    columns: Sequence[Mapping[str | None, int]], label: str, named: Sequence[Label] | None
) -> tuple[list[str], list[str]]:
    """Return the words for missing values, such as None, that are classes, and notes; `columns` count the labels of each table.

    A word is a class if it is `named`, or if many cells have it while others are empty: those are the labels that are not known.
    """
    seen = sorted({word for counts in columns for word in counts if word is not None and word in MISSING})
    if named is not None:
        return [word for word in seen if ClassFinder(named).find(word) is not None], []
    partly = [(counts, sum(counts.values()) - counts[None]) for counts in columns if None in counts]
    words = [w for w in seen if any(counts.get(w, 0) >= _LEAST_SHARE * filled for counts, filled in partly)]
    return words, [
        f"{WARNING}{word!r} in the label column {label!r} was read as a class, since labels that are not known are empty cells; if it means "
        f"that too, use --missing {quote(word)} (missing=[{word!r}])."
        if word in words
        else f"{word!r} in the label column {label!r} was read as not known; if it is a class, name all (--classes, classes=)."
        for word in seen
    ]


def settle_classes(
    counts: Mapping[Label, int], label: str, named: Sequence[Label] | None, positive: Positive
) -> tuple[Sequence[Label], dict[Label, Label], list[str]]:
    """Return the classes, the positive one last; the labels, of those counted in order, that are other spellings of which; and notes."""
    totals, usual, spellings, notes = dict(counts), dict[Label, Label](), dict[str, str](), list[str]()
    texts = [value for value in counts if isinstance(value, str) and named is None]
    for text in sorted(texts, key=lambda text: (-counts[text], text)):
        if (spelling := spellings.setdefault(fold_case(text), text)) != text:
            usual[text] = spelling
            totals[spelling] += totals.pop(text)
            notes.append(
                f"{text!r} in the label column {label!r} was read as {spelling!r}; if they differ, name all classes (--classes, classes=)."
            )
    classes = list(totals) if named is None else named
    check_classes(classes, label, sum(counts.values()), named is not None)
    if named is not None and (positive is None or callable(positive)):
        return classes, usual, notes
    classes, guess = order_classes(classes, totals, positive, label)
    return classes, usual, notes + guess


def check_classes(classes: Sequence[Label], label: str, n_labels: int, is_named: bool) -> None:
    """Refuse label values that cannot be the classes: fewer than two or, unless the user named them, far too many or ``?``."""
    doubtful = [value for value in classes if isinstance(value, str) and value.strip().lower() in PLACEHOLDERS]
    if doubtful and not is_named:
        options = " ".join(f"--missing {quote(value)}" for value in doubtful)
        raise InvalidLabel(
            f"The label column {label!r} has the value {doubtful[0]!r}, which may mean that the label is not known; if so, use "
            f"{options} (missing={doubtful}), and otherwise name the classes (--classes, classes=)."
        )
    refuse_alike(classes)
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
    named = [value for value in classes if isinstance(value, str) and fold_case(value) == fold_case(label)]
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
