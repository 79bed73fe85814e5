"""Classes with few labels in the log: a rare one, for which the fewest mistakes are seldom what people want, or a misspelt one."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import numpy as np

from observal.problem.data import LoggedData
from observal.problem.objectives import RARE
from observal.problem.words import WARNING, count, listed, percent

MIN_LABELS = 20  # labels in the log; with fewer, nothing is reported
MAX_TYPO_LABELS = 2  # labels of a class that may be a misspelt one


def rare_class_notes(logged: LoggedData) -> list[str]:
    """Return a warning with the option to use if one of two classes is rare; otherwise nothing.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.where(np.arange(200) % 40 == 0, "default", "paid")
    >>> log = LoggedData(np.zeros((200, 1)), y, 0.5, classes=["paid", "default"])
    >>> rare_class_notes(log)[0][:74]
    "Warning: 'default' is rare: about 2.5% of the rows. A model that makes few"
    """
    if logged.classes.size != 2 or int(np.asarray(logged.revealed).sum()) < MIN_LABELS:
        return []
    shares = logged.class_shares()
    rare = int(np.argmin(shares))
    if shares[rare] >= RARE:
        return []
    name = str(logged.classes[rare])
    positive = "" if rare == 1 else f" and --positive {quote(name)}"
    return [
        f"{WARNING}{name!r} is rare: about {percent(float(shares[rare]))} of the rows. A model that makes few mistakes hardly ever predicts it; if finding it "
        f"matters more, make the campaign with --target recall=0.8{positive} (objective='recall=0.8')."
    ]


def label_counts(logged: LoggedData) -> tuple[tuple[str, int], ...]:
    """Return how many labels of each class the log reveals.

    Examples
    --------
    >>> label_counts(LoggedData([[0.0], [1.0], [2.0]], ["a", "b", "a"], 0.5))
    (('a', 2), ('b', 1))
    """
    counts = np.bincount(logged.codes[logged.revealed], minlength=len(logged.classes))
    return tuple((str(label), int(n)) for label, n in zip(logged.classes.tolist(), counts, strict=True))


def find_typos(counts: Sequence[tuple[str, int]]) -> list[str]:
    """Return the classes that may be typos: of more than two, those with hardly any label beside one with many.

    Examples
    --------
    >>> find_typos([("Frequentt", 1), ("frequent", 800), ("other", 822)])
    ['Frequentt']
    """
    if len(counts) < 3 or max(n for _, n in counts) < MIN_LABELS:
        return []
    return [label for label, n in counts if 0 < n <= MAX_TYPO_LABELS]


def typo_sentences(counts: Sequence[tuple[str, int]]) -> list[str]:
    """Return a sentence on the classes that may be typos; nothing without such classes.

    Examples
    --------
    >>> typo_sentences([("Frequentt", 1), ("frequent", 800), ("other", 822)])
    ["Class 'Frequentt' has 1 label; if it is a typo, correct it in the table."]
    """
    found, labels = find_typos(counts), dict(counts)
    if len(found) == 1:
        return [f"Class {found[0]!r} has {count(labels[found[0]], 'label')}; if it is a typo, correct it in the table."]
    each = f"have at most {MAX_TYPO_LABELS} labels each; if some are typos, correct them in the table."
    return [f"Classes {listed([repr(label) for label in found])} {each}"] if found else []
