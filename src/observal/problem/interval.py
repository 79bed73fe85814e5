"""An interval around an estimate, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass, replace

from observal.errors import InvalidInput

CONFIDENCE = 0.95
"""Confidence of every interval unless stated otherwise."""


@dataclass(frozen=True)
class Interval:
    """An interval around an estimate, and how it was made.

    Only `low` and `high` are guaranteed. `estimate` is what they were built around; it may be far from the
    truth if the interval is wide. `method` says how the interval was made. `unknown` is the share of rows
    that labels say nothing about: all or none of them may be mistakes, and both ends allow for that. `most`
    is the largest possible value: 1 for a share.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    method: str
    unknown: float = 0.0
    most: float = 1.0

    def __post_init__(self) -> None:
        if not (self.low <= self.high and 0.0 < self.confidence < 1.0):
            raise InvalidInput(
                f"An interval needs low ≤ high and a confidence in (0, 1), but got [{self.low}, {self.high}] "
                f"at {self.confidence}."
            )

    @property
    def judged(self) -> Interval:
        """The interval for only those rows that labels say something about.

        Examples
        --------
        >>> judged = Interval(0.05, 0.025, 0.75, 0.95, "cells", unknown=0.5).judged
        >>> judged.low, judged.high, judged.unknown
        (0.05, 0.5, 0.0)
        """
        share = self.most - self.unknown * self.most
        if self.unknown == 0.0 or share <= 0.0:
            return self
        ends = (self.most * end / share for end in (self.low, self.high - self.unknown * self.most))
        low, high = (min(self.most, max(0.0, end)) for end in ends)
        return replace(self, low=low, high=max(low, high), unknown=0.0)

    def times(self, factor: float) -> Interval:
        """Return the interval of the value multiplied by a factor.

        Examples
        --------
        >>> Interval(0.25, 0.125, 0.5, 0.95, "normal").times(10).high
        5.0
        """
        ends = {name: factor * getattr(self, name) for name in ("estimate", "low", "high", "most")}
        return replace(self, **ends)

    def stretched(self, factor: float, because: str) -> Interval:
        """Return the interval with both ends moved away from the estimate by a factor, and the reason in `method`.

        The ends stay within 0 and 1. The unknown share is not stretched.

        Examples
        --------
        >>> Interval(0.5, 0.25, 1.0, 0.95, "normal").stretched(1.5, "several looks").low
        0.125
        >>> Interval(0.2, 0.05, 0.65, 0.95, "normal", unknown=0.5).stretched(1.5, "several looks").high
        0.675
        """
        if self.most != 1.0:
            return self.times(1.0 / self.most).stretched(factor, because).times(self.most)
        share = 1.0 - self.unknown  # of the rows that labels say something about
        low, high = (self.low / share, (self.high - self.unknown) / share) if share > 0.0 else (0.0, 1.0)
        low = max(0.0, self.estimate - factor * max(0.0, self.estimate - low))
        high = min(1.0, self.estimate + factor * max(0.0, high - self.estimate))
        return replace(
            self,
            low=min(share * low, self.low),
            high=max(share * high + self.unknown, self.high),
            method=f"{self.method}; {because}",
        )
