"""Calibration: whether labels were revealed as often as the propensities promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.words import count, number, p_value, percent

MOST_BINS = 10
LEAST_VARIANCE = 5.0  # of the revealed labels expected in a bin; below it, chi-square tails are not to be trusted
DOUBTFUL = 0.05
CANNOT_BE = 0.001  # a test with a smaller p-value says that the propensities cannot be right

Status = Literal["checked", "labelled rows only", "everything revealed", "too few rows"]


@dataclass(frozen=True)
class Bin:
    """Logged rows with similar propensities: how many there are, and the shares promised and revealed."""

    low: float
    high: float
    rows: int
    promised: float
    observed: float
    error: float
    """The standard error that `observed` has where the propensities are right."""


@dataclass(frozen=True)
class Calibration:
    """Whether labels were revealed as often as promised.

    Parameters
    ----------
    status : str
        "checked", or why it could not be: "labelled rows only", "everything revealed", "too few rows".
    bins : tuple of Bin
        By propensity, lowest first.
    expected_error : float
        The expected calibration error: the mean of |observed − promised| over rows, by bins.
    p_value : float
        The chance of bins at least as far off where the propensities are right; 1 where it could not be checked.
    broken_promises : int
        Rows with propensity 1 whose label was not revealed.
    """

    status: Status
    bins: tuple[Bin, ...] = ()
    expected_error: float = 0.0
    p_value: float = 1.0
    broken_promises: int = 0

    @property
    def cannot_be_right(self) -> bool:
        """Whether the propensities contradict what was revealed."""
        return self.broken_promises > 0 or self.p_value < CANNOT_BE

    def sentences(self) -> tuple[str, ...]:
        """Return the finding in words."""
        found: list[str] = []
        if self.broken_promises:
            found.append(
                f"{count(self.broken_promises, 'row')} had propensity 1, which promises a label, but no label was revealed."
            )
        if self.status == "labelled rows only":
            found.append(
                "Every row of the log has its label although the propensities promise fewer, so only labelled rows were "
                "kept. Whether the propensities are right cannot be checked on such a log."
            )
        elif self.status == "everything revealed":
            found.append(
                "Every label was certain to be revealed or certain to stay hidden: there is no chance to check."
            )
        elif self.status == "too few rows":
            found.append("The log is too small to check whether the propensities are right.")
        else:
            found.append(self._checked())
        return tuple(found)

    def _checked(self) -> str:
        worst = max(self.bins, key=lambda b: abs(b.observed - b.promised) / max(b.error, 1e-300))
        if self.p_value >= CANNOT_BE:
            chance = "no more than" if self.p_value >= DOUBTFUL else "somewhat more than"
            return (
                f"Labels were revealed about as often as promised: in {count(len(self.bins), 'group')} of rows by "
                f"propensity, the shares differ by {percent(self.expected_error)} on average, {chance} chance "
                f"explains ({p_value(self.p_value)})."
            )
        return (
            f"The propensities cannot be right: of {count(worst.rows, 'row')} with propensities from {number(worst.low)} "
            f"to {number(worst.high)}, {percent(worst.promised)} should have been revealed and "
            f"{percent(worst.observed)} were. By chance, that happens less than once in a thousand logs."
        )


def check_calibration(propensity: Floats, revealed: Bools, labelled_only: bool = False) -> Calibration:
    """Compare the shares of labels promised and revealed, in bins by propensity.

    The test is Hosmer and Lemeshow's with all its degrees of freedom, because the propensities were not fitted to these
    bins: ``Σ (O − E)²/V`` with O labels revealed in a bin, E = Σ Q0 and V = Σ Q0·(1 − Q0) is chi-square with as many
    degrees of freedom as there are bins. Bins have about equal V, at least 5; equal propensities share a bin.

    Parameters
    ----------
    propensity : array
        Q0 of the logged rows.
    revealed : bool array
        Whether each of their labels was revealed.
    labelled_only : bool
        Whether the log kept only its labelled rows, so that nothing can be checked.

    Examples
    --------
    >>> import numpy as np
    >>> revealed = np.arange(1000) % 4 == 0
    >>> check_calibration(np.full(1000, 0.25), revealed).p_value
    1.0
    >>> check_calibration(np.full(1000, 0.5), revealed).cannot_be_right
    True
    """
    if labelled_only:
        return Calibration("labelled rows only")
    broken = int(np.count_nonzero((propensity == 1.0) & ~revealed))
    chancy = (propensity > 0.0) & (propensity < 1.0)
    if not chancy.any():
        return Calibration("everything revealed", broken_promises=broken)
    q, shown = propensity[chancy], revealed[chancy]
    bin_of = _bins(q)
    n_bins = int(bin_of.max()) + 1
    rows = np.bincount(bin_of, minlength=n_bins)
    promised = np.bincount(bin_of, weights=q, minlength=n_bins)
    observed = np.bincount(bin_of, weights=shown, minlength=n_bins)
    variance = np.bincount(bin_of, weights=q * (1.0 - q), minlength=n_bins)
    if variance.min() < LEAST_VARIANCE:
        return Calibration("too few rows", broken_promises=broken)
    from scipy.special import chdtrc

    p_value = float(chdtrc(n_bins, float(np.sum((observed - promised) ** 2 / variance))))
    lows, highs = np.full(n_bins, 1.0), np.zeros(n_bins)
    np.minimum.at(lows, bin_of, q)
    np.maximum.at(highs, bin_of, q)
    bins = tuple(
        Bin(float(lo), float(hi), int(n), float(p / n), float(o / n), float(np.sqrt(v) / n))
        for lo, hi, n, p, o, v in zip(lows, highs, rows, promised, observed, variance, strict=True)
    )
    return Calibration("checked", bins, float(np.abs(observed - promised).sum() / q.size), p_value, broken)


def _bins(q: Floats) -> Ints:
    """Return a bin for each row: about equal sums of Q0·(1 − Q0), and at least 5 where all rows have as much."""
    position = np.unique(q, return_inverse=True)[1]
    variance = np.bincount(position, weights=q * (1.0 - q))
    step = max(LEAST_VARIANCE, float(variance.sum()) / MOST_BINS)
    starts = np.cumsum(variance) - variance
    coarse = np.unique((starts / step).astype(np.int64), return_inverse=True)[1]
    sums = np.bincount(coarse, weights=variance)
    merged, current, total = np.zeros(sums.size, dtype=np.int64), 0, 0.0
    for i, part in enumerate(sums):
        if total >= LEAST_VARIANCE:
            current, total = current + 1, 0.0
        merged[i] = current
        total += float(part)
    if total < LEAST_VARIANCE and current > 0:
        merged[merged == current] = current - 1
    return np.asarray(merged[coarse][position])
