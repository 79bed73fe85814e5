"""Checks of inputs: each returns clean arrays or raises an error that says in one sentence what is wrong."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from datetime import datetime, time
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.errors import InvalidInput, InvalidPropensity

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Signs = NDArray[np.int8]
Seed = int | np.random.Generator | np.random.SeedSequence | None
"""What users may give as ``random_state``."""
ALONE = np.iinfo(np.int64).min
"""The group of rows that have none: each of them stands alone."""


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """Make a new array, to which there is no other reference, read-only and return it: it need not be copied again."""
    array.flags.writeable = False
    return array


def is_sealed(values: object) -> bool:
    """Return whether values are a read-only array over read-only memory: it need not be copied.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.arange(3.0)
    >>> is_sealed(frozen(values)), is_sealed(sealed(values.copy()))
    (False, True)
    """
    while isinstance(values, np.ndarray):
        if values.flags.writeable:
            return False
        values = values.base
    return values is None


def check_number(
    value: object,
    what: str,
    low: float,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
    infinite: bool = False,
    word: str | None = None,
    fix: str = "correct it",
    error: type[InvalidInput] = InvalidInput,
) -> Any:
    """Return a number in [low, high] as a Python number; True, NaN and text are refused.

    `what` is its name in the message, and `fix` ends that. A `word` such as "auto" may be given instead of a number; `infinite` allows
    infinity where the range has no end.

    Examples
    --------
    >>> import numpy as np
    >>> check_number(np.float64(0.5), "The share", 0.0, 1.0), check_number("auto", "ridge", 0.0, word="auto")
    (0.5, 'auto')
    >>> check_number(True, "ridge", 0.0, word="auto")
    Traceback (most recent call last):
        ...
    observal.errors.InvalidInput: ridge must be "auto" or a number, but is True; correct it.
    """
    if word is not None and isinstance(value, str) and value == word:
        return value
    number = _as_number(value)
    if number is not None:
        above = low < number if open_low else low <= number
        below = number < high if open_high and high < math.inf else number <= high
        if above and below and (number < math.inf or infinite):
            return number
    words = "a number" if number is None else _range_words(low, high, open_low, open_high, infinite)
    choice = "" if word is None else f'"{word}" or '
    raise error(f"{what} must be {choice}{words}, but is {_plain(value)!r}; {fix}.")


def check_share(value: object, what: str, *, inner: bool = False, fix: str = "correct it") -> Any:
    """Return a share as a Python number: in [0, 1], or with `inner` between 0 and 1 and neither.

    Examples
    --------
    >>> check_share(1, "explore_share")
    1
    """
    return check_number(value, what, 0.0, 1.0, open_low=inner, open_high=inner, fix=fix)


def check_whole(value: object, what: str, least: int, fix: str = "give such a number") -> int:
    """Return a whole number of at least `least` as a Python int.

    Examples
    --------
    >>> check_whole(2, "overlap", 1)
    2
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{what} must be a whole number of at least {least}, but is {_plain(value)!r}; {fix}.")
    return int(value)


def check_flag(value: object, what: str) -> bool:
    """Return a bool; raise for anything else.

    Examples
    --------
    >>> check_flag(True, "clip")
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{what} must be True or False, but is {_plain(value)!r}; give one of them.")
    return bool(value)


def check_generator(random_state: Seed) -> np.random.Generator:
    """Return the generator for a seed; a generator stays as it is.

    Examples
    --------
    >>> check_generator(0).integers(10)
    np.int64(8)
    """
    try:
        if isinstance(random_state, bool | np.bool_):
            raise TypeError("a boolean is not a valid seed")
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"random_state must be a whole number of at least 0 or a generator, but is {random_state!r:.60}; give one of them."
        ) from None


def keep(settings: object, **checked: Any) -> None:
    """Store checked values in a frozen dataclass, so that a NumPy number becomes a Python number."""
    for name, value in checked.items():
        object.__setattr__(settings, name, value)


def check_range(
    values: ArrayLike,
    what: str,
    low: float,
    high: float = math.inf,
    *,
    infinite: bool = False,
    fix: str = "correct them",
    error: type[InvalidInput] = InvalidInput,
) -> Floats:
    """Return values as floats in [low, high]; NaN is refused, and so is infinity unless it is allowed.

    Examples
    --------
    >>> check_range([0.5, 2.0], "Weights", 0.0).tolist()
    [0.5, 2.0]
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(f"{what} must be numbers, but got {values!r:.60}; {fix}.") from None
    if array.size:
        least, most = float(array.min()), float(array.max())  # both are NaN if any value is
        if not (low <= least and most <= high and (infinite or most < math.inf)):
            ends = f"in [{low:g}, {high:g}]" if high < math.inf else _range_words(low, high, False, False, infinite)
            raise error(f"{what} must be {ends}, but values from {least} to {most} were seen; {fix}.")
    return array


def check_shares(values: ArrayLike | None, n_points: int, what: str) -> Floats:
    """Return one number in [0, 1] per point; equal ones that sum to 1 if none were given."""
    if n_points == 0:
        raise InvalidInput("A distribution needs points, but has 0; give at least one point.")
    shares = np.full(n_points, 1.0 / n_points) if values is None else check_range(values, what, 0.0, 1.0)
    if shares.shape != (n_points,):
        raise InvalidInput(
            f"{what} must be one number in [0, 1] for each of the {n_points} points, but has shape {shares.shape}; correct it."
        )
    return shares


def check_mass(mass: ArrayLike | None, n_points: int) -> Floats:
    """Return the probability of each point; they must sum to 1."""
    shares = check_shares(mass, n_points, "The mass")
    if abs(float(shares.sum()) - 1.0) > 1e-9:
        raise InvalidInput(f"The mass must sum to 1, but sums to {float(shares.sum())}; divide it by its sum.")
    return shares


def _as_number(value: object) -> int | float | None:
    """Return a Python number, or None; booleans are not numbers."""
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    return value if isinstance(value, int | float) else float(value)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def _range_words(low: float, high: float, open_low: bool, open_high: bool, infinite: bool) -> str:
    least = f"{'above' if open_low else 'at least'} {low:g}"
    if high < math.inf:
        return f"{least} and {'below' if open_high else 'at most'} {high:g}"
    return least if infinite else f"{least} and finite"


def check_propensity(propensity: ArrayLike, n_rows: int, what: str) -> Floats:
    """Return the propensities as one float in [0, 1] per row; a single number applies to every row."""
    try:
        values = np.array(propensity, dtype=np.float64, copy=None if is_sealed(propensity) else True)
    except (TypeError, ValueError):
        raise InvalidPropensity(f"{what} must have numbers as propensities, but got {propensity!r:.60}.") from None
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise InvalidPropensity(
            f"{what} needs one propensity for each of its {n_rows} rows, but got shape {values.shape}; "
            "a propensity is the chance that the old policy had of revealing that row's label."
        )
    # This also finds NaN, because comparisons with NaN are false.
    inside = (values >= 0.0) & (values <= 1.0)
    if not inside.all():
        row = int(np.argmin(inside))
        raise InvalidPropensity(
            f"{what} must have propensities in [0, 1], but row {row} (counted from 0) has {values[row]}; "
            "a propensity is the chance that the old policy had of revealing that row's label."
        )
    return sealed(values)


def check_possible(revealed: Bools, propensity: Floats, fix: str = "correct the propensity") -> None:
    """Raise if a row of propensity 0 has a label, which cannot have been revealed.

    Examples
    --------
    >>> import numpy as np
    >>> check_possible(np.array([True, False]), np.array([0.5, 0.0]))
    """
    impossible = revealed & (propensity == 0.0)
    if impossible.any():
        n_such = int(impossible.sum())
        raise InvalidPropensity(
            f"A revealed label must have had a chance to be revealed, but row {int(np.argmax(impossible))} (counted from 0) has "
            f"propensity 0 and a label ({n_such} such row{'' if n_such == 1 else 's'}); {fix}."
        )


def check_ids(ids: ArrayLike | None, n_rows: int, what: str) -> NDArray[Any]:
    """Return one distinct id per row; positions if none were given."""
    if ids is None:
        return frozen(np.arange(n_rows))
    values = np.array(ids)
    if values.shape != (n_rows,):
        raise InvalidInput(f"{what} needs one id for each of its {n_rows} rows, but got shape {values.shape}.")
    counts = Counter(values.tolist())
    if len(counts) < n_rows:
        repeated = next(value for value, count in counts.items() if count > 1)
        raise InvalidInput(
            f"{what} must have distinct ids, but {repeated!r} occurs more than once; drop or rename the duplicates."
        )
    return frozen(values)


def check_price(price: ArrayLike | None, n_rows: int, what: str) -> Floats | None:
    """Return the price of each row's label, above 0, or None if all labels cost the same."""
    if price is None:
        return None
    try:
        values = np.array(price, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must have numbers as prices, but got {price!r:.60}; give numbers.") from None
    if values.shape != (n_rows,) or not (np.isfinite(values) & (values > 0.0)).all():
        raise InvalidInput(
            f"{what} needs one price above 0 for the label of each of its {n_rows} rows, but got shape {values.shape} with "
            f"a least price of {values.min(initial=np.inf):g}; correct the prices."
        )
    return frozen(values)


def check_cost(cost: ArrayLike | None, n_rows: int, what: str) -> Floats | None:
    """Return the cost of a mistake on each row, in [0, 1], or None if every mistake costs 1."""
    if cost is None:
        return None
    try:
        values = np.array(cost, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must have numbers as costs, but got {cost!r:.60}.") from None
    if values.shape != (n_rows,) or not ((values >= 0.0) & (values <= 1.0)).all():
        raise InvalidInput(
            f"{what} needs one cost in [0, 1] for each of its {n_rows} rows, but got shape {values.shape} with "
            f"values from {values.min(initial=np.inf):g} to {values.max(initial=-np.inf):g}; "
            "divide the costs by the largest one."
        )
    return frozen(values)


def check_groups(groups: ArrayLike | None, n_rows: int, what: str) -> Ints | None:
    """Return the number of each row's group, or None if rows are not related."""
    if groups is None:
        return None
    if isinstance(groups, list | tuple):  # not as an array: its items may be tuples
        array = np.fromiter(groups, dtype=object, count=len(groups))
    else:
        array = np.asarray(groups)
    if array.shape != (n_rows,):
        raise InvalidInput(
            f"{what} needs one group for each of its {n_rows} rows, but got shape {array.shape}; a group is what related rows share, "
            "such as a customer."
        )
    return array if array.dtype == np.int64 and is_sealed(array) else sealed(number_groups(array, what))


def number_groups(groups: NDArray[Any], what: str) -> Ints:
    """Return a number for each group: a whole number stays as it is, and anything else becomes 8 bytes of its text's digest.

    So the groups of log and pool, and of rows that come later, can be compared, and 7, 7.0 and "7" are the same group. A missing group
    is ``ALONE``.

    Examples
    --------
    >>> import numpy as np
    >>> groups = np.array([7, "7", 7.0, "Ann", " Ann", None, np.nan], dtype=object)
    >>> numbers = number_groups(groups, "The log").tolist()
    >>> numbers[:3], numbers[3] == numbers[4], numbers[5] == numbers[6] == ALONE
    ([7, 7, 7], True, True)
    """
    if groups.dtype.kind in "iu" and (groups.size == 0 or groups.max() < 2**63):
        return groups.astype(np.int64)
    values = (groups.astype("datetime64[us]") if groups.dtype.kind == "M" else groups).tolist()
    try:
        number_of = {value: _group_number(value) for value in set(values)}
    except TypeError:
        raise InvalidInput(
            f"{what} must have numbers, text or dates as groups, but some are lists or other objects."
        ) from None
    return np.array([number_of[value] for value in values], dtype=np.int64)


def _group_number(value: object) -> int:
    value = _plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, datetime) and value.time() == time(0) and value.tzinfo is None:
        value = value.date()
    text = str(value).strip()
    if value is None or text in ("", "nan", "NaT", "<NA>"):
        return int(ALONE)
    try:
        number = int(text)
    except ValueError:
        number = 2**63
    if -(2**63) < number < 2**63 and str(number) == text:
        return number
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), signed=True)
