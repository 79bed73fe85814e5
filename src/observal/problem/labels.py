"""Labels as users give them: which are missing, which are equal, and their class codes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from observal.checks import Bools, Ints, frozen
from observal.errors import InvalidInput, InvalidLabel
from observal.problem.words import listed

Label = Hashable
"""A label value: a boolean, a number or text."""
_MAX_SHOWN = 4  # label values in a message


def is_missing(value: object) -> bool:
    """Return whether a value of any type means "not known": None, NaN, NaT or a frame library's null.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing(0)
    (True, True, False)
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)
    except ArithmeticError:  # a signalling NaN decimal
        return True
    except (TypeError, ValueError):  # a value that is itself an array
        return False


def plain_label(value: object) -> Any:
    """Return a label as a plain bool, int, float, str or other value; None if missing, whole floats as integers.

    Examples
    --------
    >>> plain_label(1.0), plain_label(float("nan")), plain_label(float("inf")), plain_label("1")
    (1, None, inf, '1')
    """
    value = value.item() if isinstance(value, np.generic) else value
    if is_missing(value):
        return None
    if isinstance(value, float | Decimal) and value == value // 1:
        return int(value)
    return value


@dataclass(frozen=True, eq=False)
class CodedLabels:
    """The labels of a large log: one byte per row, −1 where the label was not revealed, and the classes.

    Examples
    --------
    >>> import numpy as np
    >>> CodedLabels(np.array([0, -1, 1], dtype=np.int8), np.array(["no", "yes"], dtype=object))[np.array([2, 1])].tolist()
    ['yes', None]
    """

    codes: NDArray[np.int8] = field(repr=False)
    classes: NDArray[Any]

    @property
    def shape(self) -> tuple[int]:
        """The number of rows."""
        return (self.codes.size,)

    @property
    def revealed(self) -> Bools:
        """Which rows have a label."""
        return np.asarray(self.codes >= 0)

    def __len__(self) -> int:
        return self.codes.size

    def __getitem__(self, rows: Ints | Bools | slice) -> NDArray[Any]:
        codes, texts = self.codes[rows], self.classes.dtype.kind not in "fiub"
        values = np.empty(self.classes.size + 1, dtype=object if texts else np.float64)
        values[:-1], values[-1] = self.classes, None if texts else np.nan
        return np.asarray(values[codes])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)


class Labels(NamedTuple):
    """The checked labels of a log.

    `values` are the labels as given, `revealed` says which are known, and `codes` are their positions in `classes`.
    """

    values: NDArray[Any] | CodedLabels
    revealed: Bools
    codes: NDArray[Any]
    classes: NDArray[Any]


def read_labels(y: ArrayLike | CodedLabels, classes: Sequence[Any] | NDArray[Any] | None, n_rows: int) -> Labels:
    """Return the labels of a log; `classes` defaults to those that occur.

    Examples
    --------
    >>> labels = read_labels(["no", None, "yes"], None, 3)
    >>> labels.revealed.tolist(), labels.codes.tolist(), labels.classes.tolist()
    ([True, False, True], [0, 0, 1], ['no', 'yes'])
    """
    values = y if isinstance(y, CodedLabels) else np.array(y)
    if values.shape != (n_rows,):
        raise InvalidInput(
            f"The log needs one label for each of its {n_rows} rows (NaN where not revealed), but got shape {values.shape}."
        )
    if isinstance(values, CodedLabels):
        _require_classes(values.classes)
        return Labels(values, frozen(values.revealed), values.codes, frozen(values.classes))
    revealed = ~missing_mask(values, () if classes is None else classes)
    if values.dtype.kind == "U" and not revealed.all():
        values = values.astype(object)
    if values.dtype.kind == "O":  # frame libraries have their own nulls; None replaces them all
        values[~revealed] = None
    class_values = distinct_labels(values[revealed]) if classes is None else np.asarray(classes)
    if classes is None:
        refuse_unclear_minus_one(class_values.tolist())
    _require_classes(class_values)
    codes = np.zeros(n_rows, dtype=np.int64)
    codes[revealed] = encode_labels(values[revealed], class_values, "A label of the log")
    return Labels(frozen(values), frozen(revealed), frozen(codes), frozen(class_values))


def _require_classes(classes: NDArray[Any]) -> None:
    if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) != len(classes):
        raise InvalidLabel(
            f"A classifier needs two classes, but the log shows {classes.tolist()}; "
            "name both with classes=(negative, positive)."
        )


def refuse_unclear_minus_one(values: Sequence[Any]) -> None:
    """Reject label values among which −1 may mark rows without a label, as it does in scikit-learn.

    It is a class only next to 1 alone, or next to other negative numbers.

    Examples
    --------
    >>> refuse_unclear_minus_one([-1, 1])
    >>> try: refuse_unclear_minus_one([-1, 0, 1])
    ... except InvalidLabel as error: print(str(error).partition(';')[0])
    Labels show -1 beside 0 and 1, which may be a class or mark rows without a label
    """
    labels = [plain_label(value) for value in values]
    others = [label for label in labels if _as_float(label) != -1.0]
    is_pair = len(others) == 1 and _as_float(others[0]) == 1.0
    if len(others) in (0, len(labels)) or is_pair or any(_as_float(label) < 0.0 for label in others):
        return
    some = [repr(label) for label in others[:_MAX_SHOWN]] + ["others"] * (len(others) > _MAX_SHOWN)
    raise InvalidLabel(
        f"Labels show -1 beside {listed(some)}, which may be a class or mark rows without a label; if it marks them, give NaN "
        "or None there (in a file, leave the cell empty), and if it is a class, name all classes, -1 among them "
        "(classes= or --classes)."
    )


def refuse_alike(classes: Sequence[Label]) -> None:
    """Refuse classes that are the same text, or to a spreadsheet the same number, such as 1 and 01."""
    seen: dict[str | float, Label] = {}
    for value in classes:
        key = str(value) if np.isnan(number := _as_float(value)) else value if isinstance(value, int) else number
        if key in seen:
            raise InvalidLabel(
                f"A spreadsheet cannot tell the classes {seen[key]!r} and {value!r} apart, so answers would be mixed up; call them "
                "something else, such as 'type 1' and 'type 01'."
            )
        seen[key] = value


def _as_float(label: object) -> float:
    try:
        return float(str(label).replace(",", "."))
    except ValueError:
        return np.nan


def missing_mask(values: NDArray[Any], classes: Collection[Any] = ()) -> Bools:
    """Return which labels mean "not known"; empty text does, unless it is one of the classes.

    Examples
    --------
    >>> missing_mask(np.array(["yes", "", None], dtype=object)).tolist()
    [False, True, True]
    """
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "OU":
        missing = (is_missing(value) or is_blank(value, classes) for value in values.tolist())
        return np.fromiter(missing, dtype=bool, count=values.size)
    return np.zeros(values.shape, dtype=bool)


def is_blank(value: object, classes: Collection[Any] = ()) -> bool:
    """Return whether a label is blank text and not a class.

    Examples
    --------
    >>> is_blank(" "), is_blank("no"), is_blank("", classes=["", "x"])
    (True, False, False)
    """
    return isinstance(value, str) and not value.strip() and value not in list(classes)


def encode_labels(values: NDArray[Any], classes: NDArray[Any], what: str) -> Ints:
    """Return each value's position in `classes`; every value must be one of them."""
    lookup = {value: code for code, value in enumerate(classes.tolist())}
    try:
        return np.fromiter((lookup[value] for value in values.tolist()), dtype=np.int64, count=values.size)
    except (KeyError, TypeError):
        strange = next(value for value in values.tolist() if find_key(lookup, value) is None)
        raise InvalidLabel(
            f"{what} must be one of the classes {list(lookup)}, but {strange!r} was seen; "
            "correct the label, or name all classes with classes=."
        ) from None


def distinct_labels(values: NDArray[Any]) -> NDArray[Any]:
    """Return the label values that occur, in order."""
    if values.dtype.kind != "O":
        return np.unique(values)
    distinct = set(values.tolist())
    try:
        ordered = sorted(distinct)
    except TypeError:  # mixed types cannot be compared; their text can
        ordered = sorted(distinct, key=repr)
    out = np.empty(len(ordered), dtype=object)
    out[:] = ordered
    return out


class ClassFinder:
    """Finds the class that a value means: the one rule for tables, files of answers and the positive class.

    A value means a class if it equals the class or is the same text. Otherwise case and repeated spaces are ignored, then numbers are
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
        for normalize in (str.strip, fold_case, _fold_number):
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


def fold_case(text: str) -> str:
    """Return text in lower case and without needless spaces."""
    return " ".join(text.casefold().split())


def _fold_number(text: str) -> str:
    folded = {"true": "1", "false": "0"}.get(fold_case(text), fold_case(text))
    number = _as_float(folded)
    return folded if np.isnan(number) else repr(number)


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


def class_array(classes: list[Any]) -> NDArray[Any]:
    """Return classes as an array: numbers as numbers, anything else as objects.

    Examples
    --------
    >>> class_array([0, 1]), class_array(["bad", "good"])
    (array([0, 1]), array(['bad', 'good'], dtype=object))
    """
    # Integers that a float cannot represent exactly might become equal.
    if all(isinstance(value, bool | int | float) and float(value) == value for value in classes):
        return np.array(classes)
    out = np.empty(len(classes), dtype=object)
    out[:] = classes
    return out
