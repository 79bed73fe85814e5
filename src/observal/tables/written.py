"""Numbers and dates as people write them: ``1.234,50``, ``$1,200``, ``8.02 %``, ``31.12.2024``.

A way of writing is decided by a whole column. ``1,200`` alone may be 1.2 or 1200, but not beside ``0,75``; ``03/04/2024`` may be in
March or April, but not beside ``25/04/2024``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from observal.errors import InvalidInput

Decimal = Literal[".", ","]
Order = Literal["dmy", "mdy"]
MISSING = ("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "Null", "null", "None")
PLACEHOLDERS = ("?", "-", "--", ".", "..", "–", "—", "unknown", "unbekannt", "missing", "n.a.", "k.A.", "*", "#")
"""Words that often mean "not known", and that are read as text unless somebody says so."""
_CURRENCY = r"(?:R\$|US\$|[$€£¥₹₽₺₩฿]|EUR|USD|CHF|GBP|JPY|SEK|NOK|DKK|PLN|CZK|kr\.?|zł|Kč|Fr\.)"
_AROUND = re.compile(
    rf"(\(?)\s*([+\-−]?)\s*{_CURRENCY}?\s*([+\-−]?)\s*([0-9.,][0-9.,'’\s]*?(?:[eE][+-]?[0-9]+)?)\s*{_CURRENCY}?\s*(%?)\s*(\)?)"
)
_BODY: dict[Decimal, re.Pattern[str]] = {
    ".": re.compile(
        r"(?:[1-9][0-9]{0,2}(?:([,'’\s])[0-9]{3})(?:\1[0-9]{3})*|[0-9]+)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
    ),
    ",": re.compile(r"(?:[1-9][0-9]{0,2}(?:([.'’\s])[0-9]{3})(?:\1[0-9]{3})*|[0-9]+)?(?:,[0-9]*)?(?:[eE][+-]?[0-9]+)?"),
}
_SIDES = re.compile(rf"[(+\-−\s]*({_CURRENCY}?\s?)[+\-−]?([0-9.,][0-9.,'’\s]*?)(\s?{_CURRENCY}?)\)?")
_DATE = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})(?:[ T]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?)?")
_ENOUGH = 200  # values that are looked at before all are


@dataclass(frozen=True)
class Written:
    """How the numbers or dates of a text column are written.

    Parameters
    ----------
    decimal : {".", ","}
        What separates decimals.
    order : {"dmy", "mdy"}, optional
        Whether the day or the month comes first; None for numbers.
    mark : str
        What separates day, month and year; for numbers ``%`` where every value has a percent sign.
    time : bool
        Whether the dates have a time of day.
    around : pair of str
        What stands before and after every amount, such as ``$``.
    thousands : str
        What separates thousands.
    digits : int, optional
        Decimals, if every value has as many. Values are read alike, whatever these three are.

    Examples
    --------
    >>> Written(",").read("1.234,50 €"), Written(".").read("$1,200"), Written(",", mark="%").read("8,02 %")
    (1234.5, 1200.0, 0.0802)
    >>> Written(".", "dmy", ".").read("31.12.2024"), Written().read("north")
    (datetime.date(2024, 12, 31), None)
    """

    decimal: Decimal = "."
    order: Order | None = None
    mark: str = ""
    time: bool = False
    around: tuple[str, str] = field(default=("", ""), compare=False, repr=False)
    thousands: str = field(default="", compare=False, repr=False)
    digits: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        known = (
            self.decimal in (".", ",") and self.order in (None, "dmy", "mdy") and self.mark in ("", "%", ".", "/", "-")
        )
        sides = [*self.around] if isinstance(self.around, tuple | list) else [None]
        object.__setattr__(self, "around", tuple(sides))  # JSON has lists
        amounts = len(sides) == 2 and all(
            isinstance(s, str) and re.fullmatch(rf"\s?(?:{_CURRENCY})?\s?", s) for s in sides
        )
        known = known and amounts and self.thousands in ("", *".,'’ \u00a0\u202f") and self.digits in (None, *range(10))
        if not known:
            raise InvalidInput(f"There is no such way to write a column: {self!r:.100}.")

    def read(self, text: str) -> Any:
        """Return the number or date, or None where the text is not written like this."""
        if self.order is None:
            return number_of(text, self.decimal)
        found = date_of(text, self.order) or _iso(text)
        return found if found is None or self.time else found.date()

    def spell(self, value: Any) -> Any:
        """Return a number or date as text, as the table has it.

        Examples
        --------
        >>> import datetime as dt
        >>> Written(",").spell(1234.5), Written(",", mark="%").spell(0.0802), Written(",").spell(7), Written().spell(1.5)
        ('1234,5', '8,02 %', 7, 1.5)
        >>> Written().spell(5012.0), Written(around=("$", ""), thousands=",").spell(5012.0)
        (5012, '$5,012')
        >>> Written(",", around=("", " €"), thousands=".", digits=2).spell(1234.5)
        '1.234,50 €'
        >>> Written(".", "dmy", ".").spell(dt.date(2024, 2, 1))
        '01.02.2024'
        """
        if isinstance(value, dt.date) and self.order is not None:
            days = ("%d", "%m") if self.order == "dmy" else ("%m", "%d")
            return value.strftime(self.mark.join([*days, "%Y"]) + (" %H:%M:%S" if self.time else ""))
        if not isinstance(value, float):
            return value
        if value >= 0.0 and (any(self.around) or self.thousands):  # a minus sign before a currency looks like a formula
            return self._amount(value)
        if self.decimal == "." and self.mark != "%":
            return int(value) if value.is_integer() and abs(value) < 1e15 else value
        text = f"{100.0 * value:.12g} %" if self.mark == "%" else repr(value).removesuffix(".0")
        return text.replace(".", self.decimal)

    def _amount(self, value: float) -> str:
        exact = self.digits is not None and round(value, self.digits) == value
        text = f"{value:,.{self.digits}f}" if exact else f"{value:,}".removesuffix(".0")
        signs = str.maketrans({",": self.thousands, ".": self.decimal})
        return f"{self.around[0]}{text.translate(signs)}{self.around[1]}"

    @property
    def excel_format(self) -> str:
        """The format by which Excel shows such a column; empty for the usual one.

        Examples
        --------
        >>> Written(",", mark="%").excel_format, Written(".", "dmy", ".").excel_format
        ('0.00##%', 'dd.mm.yyyy')
        """
        if self.order is None:
            return "0.00##%" if self.mark == "%" else ""
        days = ("dd", "mm") if self.order == "dmy" else ("mm", "dd")
        return self.mark.join([*days, "yyyy"]) + (" hh:mm:ss" if self.time else "")

    def words(self, example: str) -> str:
        """Return what was done with a column, in words.

        Examples
        --------
        >>> Written(",", mark="%").words("8,02 %")
        'has percent signs, so 8,02 % was read as 0.0802'
        """
        value = self.read(example)
        if self.order is not None:
            return f"was read as dates with the {'day' if self.order == 'dmy' else 'month'} first: {example} is {value}"
        if self.mark == "%":
            return f"has percent signs, so {example} was read as {value:g}"
        return f"was read as numbers: {example} is {value:.12g}"


def number_of(text: str, decimal: Decimal) -> float | None:
    """Return the number that a text holds, or None if it is not a number.

    Examples
    --------
    >>> number_of("1,200", "."), number_of("1,200", ","), number_of("(5 %)", "."), number_of("1,20", "."), number_of("12 kg", ".")
    (1200.0, 1.2, -0.05, None, None)
    """
    found = _AROUND.fullmatch(text.strip())
    if found is None:
        return None
    opened, before, after, body, percent, closed = found.groups()
    body = body.strip()
    if bool(opened) != bool(closed) or (before and after) or not any(c.isdigit() for c in body):
        return None
    if _BODY[decimal].fullmatch(body) is None:
        return None
    grouped = "." if decimal == "," else ","
    plain = re.sub(r"['’\s]", "", body).replace(grouped, "").replace(decimal, ".")
    value = float(plain)
    if percent:
        value = float(f"{value / 100.0:.15g}")
    return -value if opened or "-" in (before, after) or "−" in (before, after) else value


def _iso(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text.strip()).replace(tzinfo=None)
    except ValueError:
        return None


def date_of(text: str, order: Order) -> dt.datetime | None:
    """Return a date such as 31.12.2024 or 12/31/2024, with or without a time, or None if the text is not a date.

    Examples
    --------
    >>> date_of("31.12.2024", "dmy").isoformat(), date_of("31.12.2024", "mdy"), date_of("2/1/2024 8:30", "mdy").hour
    ('2024-12-31T00:00:00', None, 8)
    """
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    first, _, second, year, hour, minute, seconds = found.groups()
    day, month = (first, second) if order == "dmy" else (second, first)
    try:
        return dt.datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(seconds or 0))
    except ValueError:
        return None


@dataclass(frozen=True)
class Guess:
    """What the values of a column say about how they are written.

    Parameters
    ----------
    ways : tuple of Written
        The ways in which every value can be read. None: the column is text. More than one: it cannot be told which.
    example : str
        A value that shows the way, or that can be read in several ways.
    plain : bool
        Whether any program would read the column so: numbers with decimal points and nothing else.
    """

    ways: tuple[Written, ...] = ()
    example: str = ""
    plain: bool = False

    @property
    def decimal(self) -> Decimal | None:
        """The decimal separator that the values prove, if they do."""
        proves = len(self.ways) == 1 and self.ways[0].order is None and self.proves
        return self.ways[0].decimal if proves else None

    @property
    def proves(self) -> bool:
        """Whether the example is a number with decimal points or one with decimal commas, but not both."""
        return (number_of(self.example, ".") is None) != (number_of(self.example, ",") is None)


def guess(values: Iterable[str]) -> Guess:
    """Return in which ways all values of a column can be read.

    Examples
    --------
    >>> guess(["1,200", "0,75"]).ways, len(guess(["1,200", "3,500"]).ways), guess(["north", "1"]).ways
    ((Written(decimal=',', order=None, mark='', time=False),), 2, ())
    >>> guess(["03/04/2024", "25/04/2024"]).ways[0].order, len(guess(["03/04/2024"]).ways), guess(["03.04.2024"]).ways[0].order
    ('dmy', 2, 'dmy')
    """
    values = list(values)
    if not values:
        return Guess()
    found = _guess_dates(values[:_ENOUGH]) or _guess_numbers(values[:_ENOUGH])
    if found is not None and len(values) > _ENOUGH:
        found = _guess_dates(values) or _guess_numbers(values)
    return found or Guess()


def _amounts(values: Sequence[str], decimal: Decimal) -> dict[str, Any]:
    """Return what all amounts of a column have in common: what stands around them, what separates thousands, and decimals.

    Examples
    --------
    >>> _amounts(["$1,200.50", "-$7.00"], ".")
    {'around': ('$', ''), 'thousands': ',', 'digits': 2}
    """
    found = [_SIDES.fullmatch(value.strip()) for value in values]
    parts = [one.groups() for one in found if one is not None]
    if len(parts) < len(values):
        return {}
    before, bodies, after = ({part[k] for part in parts} for k in range(3))
    matches = [_BODY[decimal].fullmatch(body) for body in bodies]
    signs = {one[1] for one in matches if one is not None and one[1]}
    digits = {len(body.partition(decimal)[2]) for body in bodies}
    around = (before.pop() if len(before) == 1 else "", after.pop() if len(after) == 1 else "")
    thousands = signs.pop() if len(signs) == 1 else ""
    return {
        "around": around,
        "thousands": thousands,
        "digits": digits.pop() if len(digits) == 1 and max(digits) < 10 else None,
    }


def _guess_numbers(values: Sequence[str]) -> Guess | None:
    read = {decimal: [number_of(value, decimal) for value in values] for decimal in _BODY}
    fits = [decimal for decimal in _BODY if None not in read[decimal]]
    if not fits:
        return None
    mark = "%" if all("%" in value for value in values) else ""
    differ = [v for v, point, comma in zip(values, read["."], read[","], strict=True) if point != comma]
    ways = tuple(
        Written(decimal, mark=mark, **({} if mark else _amounts(values, decimal)))
        for decimal in (fits if differ else fits[:1])
    )
    telling = [
        v for v, point, comma in zip(values, read["."], read[","], strict=True) if (point is None) != (comma is None)
    ]
    plain = fits[0] == "." and all(re.fullmatch(r"[+-]?[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?", value) for value in values)
    return Guess(ways, (telling or differ or values)[0], plain)


def _guess_dates(values: Sequence[str]) -> Guess | None:
    orders: tuple[Order, ...] = ("dmy", "mdy")
    read = {order: [date_of(value, order) for value in values] for order in orders}
    fits = [order for order in orders if None not in read[order]]
    if not fits:
        return None
    found = _DATE.fullmatch(values[0].strip())
    mark = found[2] if found else "."
    timed = any(moment.time() != dt.time() for moment in read[fits[0]] if moment is not None)
    differ = [v for v, first, second in zip(values, read["dmy"], read["mdy"], strict=True) if first != second]
    if (mark == "." and fits[0] == "dmy") or not differ:  # nobody writes the month first with full stops
        fits = fits[:1]
    return Guess(tuple(Written(".", order, mark, timed) for order in fits), (differ or values)[0])


def as_arrow(column: Any, way: Written, name: str) -> Any:
    """Return a text column as numbers or dates; refuse a value that is not written in this way.

    Parameters
    ----------
    column : Arrow column
        Text.
    way : Written
        How it is written.
    name : str
        The column's name, for the message.

    Examples
    --------
    >>> import pyarrow as pa
    >>> as_arrow(pa.chunked_array([["8,5", None, "n/a"]]), Written(","), "rate").to_pylist()
    [8.5, None, None]
    """
    import pyarrow as pa

    coded = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = coded if pa.types.is_dictionary(coded.type) else coded.dictionary_encode()
    values: list[Any] = []
    for text in coded.dictionary.to_pylist():
        absent = text is None or text.strip() in MISSING
        values.append(None if absent else way.read(text))
        if values[-1] is None and not absent:
            what = "numbers" if way.order is None else "dates"
            raise InvalidInput(
                f"Column {name!r} must hold {what}, but {text!r:.40} was seen; correct it, or say that it means a missing value "
                "(--missing, missing=)."
            )
    type_ = pa.float64() if way.order is None else pa.timestamp("s") if way.time else pa.date32()
    read = pa.array(values, type_)
    return pa.chunked_array([read.take(coded.indices)])
