"""Numbers, dates and lists as people write them, for messages, pages and reports."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from math import floor, isfinite, log10
from shlex import quote

WARNING = "Warning: "  # prefix of notes that matter before money is spent


def percent(share: float) -> str:
    """Return a share in percent, with no more digits than useful.

    Examples
    --------
    >>> percent(0.1234), percent(0.0321), percent(-1e-17), percent(0.0002), percent(0.9999)
    ('12%', '3.2%', '0%', 'less than 0.1%', 'more than 99.9%')
    """
    if abs(share) < 1e-12:
        return "0%"  # a rounded value may be negative
    if 0.0 < share < 0.001:
        return "less than 0.1%"
    if 0.999 < share < 1.0:
        return "more than 99.9%"
    digits = 1 if share < 0.0995 or 0.99 < share < 1.0 else 0
    return f"{100 * share:.{digits}f}".removesuffix(".0") + "%"


def points(share: float) -> str:
    """Return a difference between shares in percentage points, with two significant digits.

    Examples
    --------
    >>> points(0.0123), points(0.01)
    ('1.2 points', '1 point')
    """
    text = number(float(f"{100 * share:.2g}"))
    return f"{text} point" if text == "1" else f"{text} points"


def number(value: float) -> str:
    """Return a number with thousands separators: whole if large, three significant digits if small.

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
    r"""Return a p-value for use in a sentence, without line breaks.

    Examples
    --------
    >>> p_value(0.0123), p_value(1e-9), p_value(1.0)
    ('p\xa0=\xa00.012', 'p\xa0<\xa00.001', 'p\xa0=\xa01')
    """
    return "p\xa0<\xa00.001" if p < 0.001 else f"p\xa0=\xa0{round(p, 3):g}"


def money(amount: float) -> str:
    """Return an amount of money in any unit, with cents if there are any.

    Examples
    --------
    >>> money(5000.0), money(12.5)
    ('5,000', '12.50')
    """
    return f"{amount:,.2f}".removesuffix(".00")


def count(n: int, what: str, many: str | None = None) -> str:
    """Return how many there are of something.

    Examples
    --------
    >>> count(1, "row"), count(12000, "label"), count(2, "class", "classes")
    ('1 row', '12,000 labels', '2 classes')
    """
    return f"{n:,} {what if n == 1 else many or what + 's'}"


def listed(items: Sequence[str]) -> str:
    """Return items as a list in a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def exact(value: float) -> str:
    """Return a bound with all its digits, for a rule that must hold as written.

    Examples
    --------
    >>> exact(21000.0), exact(0.25), exact(1e-9)
    ('21,000', '0.25', '1e-09')
    """
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.15g}"


def exact_percent(share: float) -> str:
    """Return a bound in percent, with all its digits.

    Examples
    --------
    >>> exact_percent(0.07), exact_percent(0.145)
    ('7%', '14.5%')
    """
    return f"{100.0 * share:.13g}%"


def day_words(days: float) -> str:
    """Return days since 1970-01-01 as a date, with the time of day if there is one.

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


def split_notes(notes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the warnings, without their prefix, and all other notes.

    Examples
    --------
    >>> split_notes(["Warning: a.", "b."])
    (['a.'], ['b.'])
    """
    warnings = [note.removeprefix(WARNING) for note in notes if note.startswith(WARNING)]
    return warnings, [note for note in notes if not note.startswith(WARNING)]


def option_words(option: str, columns: Sequence[str]) -> str:
    """Return a command-line option with columns, as A,B,C or, if a name is empty or contains a comma, repeated.

    Examples
    --------
    >>> print(option_words("--exclude", ["end", "is late"]), option_words("--exclude", ["end", "a, b"]), sep=" or ")
    --exclude 'end,is late' or --exclude end --exclude 'a, b'
    """
    values = columns if any("," in column or not column for column in columns) else [",".join(columns)]
    return " ".join(f"{option} {quote(value)}" for value in values)
