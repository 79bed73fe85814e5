"""Numbers and feature conditions as people write them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from math import floor, inf, isfinite, log10


def percent(share: float) -> str:
    """Return a share in percent, with no more digits than help.

    Examples
    --------
    >>> percent(0.1234), percent(0.0321), percent(0.0), percent(0.0002), percent(0.9999)
    ('12%', '3.2%', '0%', 'less than 0.1%', 'more than 99.9%')
    """
    if 0.0 < share < 0.001:
        return "less than 0.1%"
    if 0.999 < share < 1.0:
        return "more than 99.9%"
    digits = 1 if share < 0.0995 or 0.99 < share < 1.0 else 0
    return f"{100 * share:.{digits}f}".removesuffix(".0") + "%"


def number(value: float) -> str:
    """Return a number with thousands separated: whole where large, three digits that count where small.

    Examples
    --------
    >>> number(21000.0), number(3.14159), number(0.00012345), number(float("inf"))
    ('21,000', '3.14', '0.000123', 'without limit')
    """
    if not isfinite(value):
        return "without limit"
    if abs(value) >= 1e15 or 0.0 < abs(value) < 1e-6:
        return f"{value:.3g}"
    if abs(value) >= 100.0 or value == round(value):
        return f"{value:,.0f}"
    decimals = 2 - floor(log10(abs(value)))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".")


def p_value(p: float) -> str:
    r"""Return a p-value as one writes it, on one line.

    Examples
    --------
    >>> p_value(0.0123), p_value(1e-9), p_value(1.0)
    ('p\xa0=\xa00.012', 'p\xa0<\xa00.001', 'p\xa0=\xa01')
    """
    return "p\xa0<\xa00.001" if p < 0.001 else f"p\xa0=\xa0{round(p, 3):g}"


def count(n: int, what: str, many: str | None = None) -> str:
    """Return how many there are of something.

    Examples
    --------
    >>> count(1, "row"), count(12000, "label"), count(2, "class", "classes")
    ('1 row', '12,000 labels', '2 classes')
    """
    return f"{n:,} {what if n == 1 else many or what + 's'}"


def listed(items: tuple[str, ...] | list[str]) -> str:
    """Return items as one would say them.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


@dataclass(frozen=True)
class Condition:
    """A range of one feature, ``low < x ≤ high``; a yes-or-no feature is 0 or 1, a date is days since 1970-01-01.

    Examples
    --------
    >>> Condition("age", 0, low=21, high=30).words(), Condition("income", 1, high=21000).words()
    ('21 < age ≤ 30', 'income ≤ 21,000')
    >>> Condition("region=north", 2, low=0.5, yes_or_no=True).words()
    'region=north'
    >>> Condition("since", 3, high=15848.0, date=True).words()
    'since ≤ 2013-05-23'
    >>> Condition("rate", 4, low=0.07, percent=True).words()
    'rate > 7%'
    """

    feature: str
    column: int
    low: float = -inf
    high: float = inf
    yes_or_no: bool = False
    date: bool = False
    percent: bool = False

    def narrowed(self, low: float = -inf, high: float = inf) -> Condition:
        """Return the part of the range that is also within `low` and `high`."""
        return replace(self, low=max(self.low, low), high=min(self.high, high))

    def words(self) -> str:
        """Return the condition as one would write it."""
        if self.yes_or_no:
            yes, (name, equals, value) = self.low > -inf, self.feature.partition("=")
            if equals:
                return self.feature if yes else f"{name} ≠ {value}"
            if self.feature.endswith(" is missing"):
                return self.feature if yes else self.feature.replace(" is missing", " is known")
            return f"{self.feature} = {int(yes)}"
        said = day_words if self.date else exact_percent if self.percent else exact
        if self.low == -inf:
            return f"{self.feature} ≤ {said(self.high)}"
        if self.high == inf:
            return f"{self.feature} > {said(self.low)}"
        return f"{said(self.low)} < {self.feature} ≤ {said(self.high)}"


def exact(value: float) -> str:
    """Return a bound with all of its digits, for a rule that must hold as written.

    Examples
    --------
    >>> exact(21000.0), exact(0.25), exact(1e-9)
    ('21,000', '0.25', '1e-09')
    """
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.15g}"


def exact_percent(share: float) -> str:
    """Return a bound in percent, with all of its digits.

    Examples
    --------
    >>> exact_percent(0.07), exact_percent(0.145)
    ('7%', '14.5%')
    """
    return f"{100.0 * share:.13g}%"


def roundest_between(low: float, high: float) -> float:
    """Return the number with the fewest digits in ``[low, high)``; any of them splits the data in the same way.

    Examples
    --------
    >>> roundest_between(20871.3, 21544.9), roundest_between(2.0, 3.0), roundest_between(0.1432, 0.1471)
    (21000.0, 2.0, 0.145)
    """
    middle = low / 2.0 + high / 2.0
    for digits in range(1, 17):
        for start in (middle, low):
            rounded = float(f"{start:.{digits - 1}e}")
            if low <= rounded < high:
                return rounded
    return low


def day_words(days: float) -> str:
    """Return days since 1970-01-01 as a date, with the time of day where there is one.

    Examples
    --------
    >>> day_words(15848.0), day_words(15848.5), day_words(1e9)
    ('2013-05-23', '2013-05-23 12:00', '1,000,000,000 days after 1970')
    """
    try:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(minutes=round(1440.0 * days))
    except (OverflowError, ValueError):
        return f"{days:,.0f} days after 1970"
    return moment.strftime("%Y-%m-%d") + ("" if moment.time() == dt.time() else moment.strftime(" %H:%M"))
