"""Numbers and dates as people write them: ``1.234,50``, ``$1,200``, ``8.02 %``, ``31.12.2024``.

The format is decided by a whole column. ``1,200`` alone may be 1.2 or 1200, but not beside ``0,75``; ``03/04/2024`` may be in
March or April, but not beside ``25/04/2024``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from observal.errors import InvalidInput

Decimal = Literal[".", ","]
Order = Literal["dmy", "mdy"]
MISSING = ("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "Null", "null", "None")
PLACEHOLDERS = ("?", "-", "--", ".", "..", "–", "—", "unknown", "unbekannt", "missing", "n.a.", "k.A.", "*", "#")
"""Words that often mean "not known", but are read as text unless the user lists them as missing."""
_CURRENCY = r"(?:R\$|US\$|[$€£¥₹₽₺₩฿]|EUR|USD|CHF|GBP|JPY|SEK|NOK|DKK|PLN|CZK|kr\.?|zł|Kč|Fr\.)"
_AMOUNT = re.compile(
    rf"(\(?)\s*([+\-−]?)\s*{_CURRENCY}?\s*([+\-−]?)\s*([0-9.,][0-9.,'’\s]*?(?:[eE][+-]?[0-9]+)?)\s*{_CURRENCY}?\s*(%?)\s*(\)?)"
)
_DIGITS: dict[Decimal, re.Pattern[str]] = {
    ".": re.compile(
        r"(?:[1-9][0-9]{0,2}(?:([,'’\s])[0-9]{3})(?:\1[0-9]{3})*|[0-9]+)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
    ),
    ",": re.compile(r"(?:[1-9][0-9]{0,2}(?:([.'’\s])[0-9]{3})(?:\1[0-9]{3})*|[0-9]+)?(?:,[0-9]*)?(?:[eE][+-]?[0-9]+)?"),
}
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})(?:[ T]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?)?")
_TIME = " %H:%M:%S"
DATE_FORMATS = tuple(
    mark.join(parts) + time
    for parts in (("%d", "%m", "%Y"), ("%m", "%d", "%Y"))
    for mark in "./-"
    for time in ("", _TIME)
)
"""The formats of dates that are recognised, as for ``strftime``."""
_SAMPLE = 200  # values that are tried before the whole column is


@dataclass(frozen=True)
class ColumnFormat:
    """How the numbers or dates of a text column are written.

    Parameters
    ----------
    decimal : {".", ","}
        What separates decimals.
    date : str, optional
        How dates are written, one of ``DATE_FORMATS``; None for numbers.
    percent : bool
        Whether every number has a percent sign.

    Examples
    --------
    >>> ColumnFormat(",").read("1.234,50 €"), ColumnFormat(".").read("$1,200"), ColumnFormat(",").read("8,02 %")
    (1234.5, 1200.0, 0.0802)
    >>> ColumnFormat(date="%d.%m.%Y").read("31.12.2024"), ColumnFormat().read("north")
    (datetime.date(2024, 12, 31), None)
    """

    decimal: Decimal = "."
    date: str | None = None
    percent: bool = False

    def __post_init__(self) -> None:
        is_known = self.decimal in (".", ",") and self.date in (None, *DATE_FORMATS) and isinstance(self.percent, bool)
        if not is_known:
            raise InvalidInput(f"Unknown column format: {self!r:.100}.")

    @property
    def order(self) -> Order | None:
        """Whether the day or the month comes first; None for numbers."""
        return None if self.date is None else "dmy" if self.date.startswith("%d") else "mdy"

    @property
    def has_time(self) -> bool:
        """Whether the dates have a time of day."""
        return self.date is not None and self.date.endswith(_TIME)

    def with_time(self) -> ColumnFormat:
        """Return the format of dates that may have a time of day; the day comes first unless this format says otherwise."""
        date = self.date or "%d.%m.%Y"
        return ColumnFormat(self.decimal, date if self.has_time else date + _TIME)

    def read(self, text: str) -> float | dt.date | None:
        """Return the number or date, or None where the text is not written like this."""
        if self.order is None:
            return number_of(text, self.decimal)
        moment = date_of(text, self.order) or _iso_date(text)
        return moment if moment is None or self.has_time else moment.date()

    def write(self, value: object) -> object:
        """Return a cell as the table has it: dates as text, numbers with the table's decimal separator.

        Examples
        --------
        >>> ColumnFormat(",").write(1234.5), ColumnFormat(",").write(7), ColumnFormat().write(1.5), ColumnFormat().write(5012.0)
        ('1234,5', 7, 1.5, 5012)
        >>> ColumnFormat(date="%d.%m.%Y").write(dt.date(2024, 2, 1))
        '01.02.2024'
        """
        if isinstance(value, dt.date) and self.date is not None:
            return value.strftime(self.date)
        if not isinstance(value, float):
            return value
        if value.is_integer() and abs(value) < 1e15:
            return int(value)
        return value if self.decimal == "." else repr(value).replace(".", ",")

    @property
    def excel_format(self) -> str:
        """The format by which Excel shows such a column; empty for the usual one.

        Examples
        --------
        >>> ColumnFormat(date="%d.%m.%Y").excel_format
        'dd.mm.yyyy'
        """
        codes = {"%d": "dd", "%m": "mm", "%Y": "yyyy", "%H:%M:%S": "hh:mm:ss"}
        return re.sub("%H:%M:%S|%[dmY]", lambda code: codes[code[0]], self.date or "")

    def describe(self, example: str) -> str:
        """Return how a column was read, in words.

        Examples
        --------
        >>> ColumnFormat(",", percent=True).describe("8,02 %")
        'has percent signs, so 8,02 % was read as 0.0802'
        """
        value = self.read(example)
        if self.order is not None:
            return f"was read as dates with the {'day' if self.order == 'dmy' else 'month'} first: {example} is {value}"
        if self.percent:
            return f"has percent signs, so {example} was read as {value:g}"
        return f"was read as numbers: {example} is {value:.12g}"


def number_of(text: str, decimal: Decimal) -> float | None:
    """Return the number that a text holds, or None if it is not a number.

    Examples
    --------
    >>> number_of("1,200", "."), number_of("1,200", ","), number_of("(5 %)", "."), number_of("1,20", "."), number_of("12 kg", ".")
    (1200.0, 1.2, -0.05, None, None)
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return None
    opening, sign, inner_sign, digits, percent, closing = match.groups()
    digits = digits.strip()
    if bool(opening) != bool(closing) or (sign and inner_sign) or not any(c.isdigit() for c in digits):
        return None
    if _DIGITS[decimal].fullmatch(digits) is None:
        return None
    thousands = "." if decimal == "," else ","
    value = float(re.sub(r"['’\s]", "", digits).replace(thousands, "").replace(decimal, "."))
    if percent:
        value = float(f"{value / 100.0:.15g}")  # 8.02 % is 0.0802 and not 0.08019999999999999
    return -value if opening or sign + inner_sign in ("-", "−") else value


def date_of(text: str, order: Order) -> dt.datetime | None:
    """Return a date such as 31.12.2024 or 12/31/2024, with or without a time, or None if the text is not a date.

    Examples
    --------
    >>> date_of("31.12.2024", "dmy").isoformat(), date_of("31.12.2024", "mdy"), date_of("2/1/2024 8:30", "mdy").hour
    ('2024-12-31T00:00:00', None, 8)
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    first, _, second, year, hour, minute, seconds = match.groups()
    day, month = (first, second) if order == "dmy" else (second, first)
    try:
        return dt.datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(seconds or 0))
    except ValueError:
        return None


def _iso_date(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text.strip()).replace(tzinfo=None)
    except ValueError:
        return None


@dataclass(frozen=True)
class Guess:
    """What the values of a column say about how they are written."""

    # The formats in which every value can be read. None: the column is text. More than one: the column alone is ambiguous.
    formats: tuple[ColumnFormat, ...] = ()
    example: str = ""  # a value that shows the format, or that can be read in several ways
    plain: bool = False  # whether any program would read the column so: numbers with decimal points and nothing else

    @property
    def decimal(self) -> Decimal | None:
        """The decimal separator that the values prove: the example is a number with one separator, but not with the other."""
        if len(self.formats) != 1 or self.formats[0].order is not None:
            return None
        proves = (number_of(self.example, ".") is None) != (number_of(self.example, ",") is None)
        return self.formats[0].decimal if proves else None


def guess_format(values: Iterable[str]) -> Guess:
    """Return in which formats all values of a column can be read.

    Examples
    --------
    >>> guess_format(["1,200", "0,75"]).formats, len(guess_format(["1,200", "3,500"]).formats), guess_format(["north", "1"]).formats
    ((ColumnFormat(decimal=',', date=None, percent=False),), 2, ())
    >>> [[way.order for way in guess_format([text]).formats] for text in ("25/04/2024", "03/04/2024", "03.04.2024")]
    [['dmy'], ['dmy', 'mdy'], ['dmy']]
    """
    values = list(values)
    if not values:
        return Guess()
    guess = _guess_dates(values[:_SAMPLE]) or _guess_numbers(values[:_SAMPLE])
    if guess is not None and len(values) > _SAMPLE:
        guess = _guess_dates(values) or _guess_numbers(values)
    return guess or Guess()


def _guess_numbers(values: Sequence[str]) -> Guess | None:
    points, commas = ([number_of(value, decimal) for value in values] for decimal in _DIGITS)
    fits = [decimal for decimal, numbers in zip(_DIGITS, (points, commas), strict=True) if None not in numbers]
    if not fits:
        return None
    pairs = list(zip(values, points, commas, strict=True))
    ambiguous = [value for value, point, comma in pairs if point != comma]
    decisive = [value for value, point, comma in pairs if (point is None) != (comma is None)]
    percent = all("%" in value for value in values)
    formats = tuple(ColumnFormat(decimal, percent=percent) for decimal in (fits if ambiguous else fits[:1]))
    plain = fits[0] == "." and all(_PLAIN_NUMBER.fullmatch(value) for value in values)
    return Guess(formats, (decisive or ambiguous or values)[0], plain)


def _guess_dates(values: Sequence[str]) -> Guess | None:
    match = _DATE.fullmatch(values[0].strip())
    if match is None:
        return None
    mark = match[2]
    day_first, month_first = ([date_of(value, order) for value in values] for order in ("dmy", "mdy"))
    by_pattern = {f"%d{mark}%m{mark}%Y": day_first, f"%m{mark}%d{mark}%Y": month_first}
    fits = [pattern for pattern, moments in by_pattern.items() if None not in moments]
    if not fits:
        return None
    ambiguous = [v for v, first, second in zip(values, day_first, month_first, strict=True) if first != second]
    # With full stops the day always comes first.
    if (mark == "." and fits[0].startswith("%d")) or not ambiguous:
        fits = fits[:1]
    timed = any(moment.time() != dt.time() for moment in by_pattern[fits[0]] if moment is not None)
    formats = tuple(ColumnFormat(date=pattern + _TIME if timed else pattern) for pattern in fits)
    return Guess(formats, (ambiguous or values)[0])
