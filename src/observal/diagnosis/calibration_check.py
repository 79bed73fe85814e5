"""Calibration: whether labels were revealed as often as the propensities say, overall, by propensity and by feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.feature_values import MAX_ROWS, scaled_ranks, sidak
from observal.parquet.vectors import pieces
from observal.problem.rows import Matrix, Rows, as_rows, is_sparse
from observal.problem.words import count, listed, number, p_value, percent

MAX_BINS = 10
MIN_BIN_VARIANCE = 5.0  # of the number of revealed labels in a bin; below it, chi-square tails are unreliable
SUSPICIOUS = 0.01  # a smaller p-value is a warning; one clean log in a hundred gets it
CONTRADICTED = 0.001  # a smaller p-value means that the propensities cannot be right
LARGEST_FACTOR = 1e3  # largest factor by which propensities may be wrong
POWER = 0.8  # power at which the smallest detectable error is reported
MAX_NAMED = 3

ENOUGH_LABELS = 5  # labels that cover the rows with the smallest propensities
ENOUGH_ROWS = 200  # rows with which a log can be checked unless its propensities are close to 0 or 1

Status = Literal["checked", "labelled rows only", "everything revealed", "nearly certain", "too few rows"]


@dataclass(frozen=True)
class Bin:
    """Logged rows with similar propensities: their number, and the expected and observed shares of revealed labels."""

    low: float
    high: float
    rows: int
    promised: float
    observed: float
    error: float
    """The standard error of `observed` if the propensities are right."""


@dataclass(frozen=True)
class BrokenPromise:
    """Logged rows with the smallest propensities, which have far fewer labels than these promise."""

    rows: int
    highest: float
    """The largest propensity among them."""
    promised: float
    labels: int

    def words(self) -> str:
        """Return what is wrong.

        Examples
        --------
        >>> BrokenPromise(700, 0.01, 7.0, 0).words()
        'The propensities cannot be right: 700 rows with a propensity of at most 0.01 should have 7 labels together, but have none.'
        """
        return (
            f"The propensities cannot be right: {count(self.rows, 'row')} with a propensity of at most {number(self.highest)} should have "
            f"{number(self.promised)} labels together, but have {self.labels or 'none'}."
        )


@dataclass(frozen=True)
class Calibration:
    """Whether labels were revealed as often as the propensities say.

    Parameters
    ----------
    status : str
        "checked", or why it could not be: "labelled rows only", "everything revealed", "nearly certain", "too
        few rows".
    bins : tuple of Bin
        By propensity, lowest first.
    expected_error : float
        The expected calibration error: the row-weighted mean of |observed − promised| over bins.
    p_value : float
        The p-value under correct propensities; 1 if it could not be checked. Three times the smallest p-value
        of three tests (Bonferroni).
    overall_p, bins_p, features_p : float
        The p-values of the three tests: all labels together, by bins of propensity, and by feature.
    features : tuple of (name, z)
        The features along which labels were revealed more often (z > 0: where the feature is high) or less
        often than the propensities say, most significant first.
    broken_promises : int
        Rows with propensity 1 whose label was not revealed.
    least_factor : float, optional
        The smallest error factor of the propensities that would be called suspicious in four logs of five;
        see ``least_factor``.
    too_few : BrokenPromise, optional
        Rows that have far fewer labels than their propensities promise.
    """

    status: Status
    bins: tuple[Bin, ...] = ()
    expected_error: float = 0.0
    p_value: float = 1.0
    broken_promises: int = 0
    overall_p: float = 1.0
    bins_p: float = 1.0
    features_p: float = 1.0
    features: tuple[tuple[str, float], ...] = ()
    least_factor: float | None = None
    too_few: BrokenPromise | None = None

    @property
    def suspicious(self) -> bool:
        """Whether the propensities look wrong."""
        return self.cannot_be_right or self.p_value < SUSPICIOUS

    @property
    def cannot_be_right(self) -> bool:
        """Whether the propensities contradict what was revealed."""
        return self.broken_promises > 0 or self.too_few is not None or self.p_value < CONTRADICTED

    def sentences(self) -> tuple[str, ...]:
        """Return the finding in words."""
        sentences: list[str] = []
        if self.broken_promises:
            sentences.append(
                f"{count(self.broken_promises, 'row')} had propensity 1, so a label was certain, but none was revealed."
            )
        if self.too_few is not None:
            sentences.append(self.too_few.words())
        elif self.status == "labelled rows only":
            sentences.append(
                "Every row of the log has its label although the propensities predict fewer, so only labelled rows were "
                "kept. Such a log cannot show whether the propensities are right."
            )
        elif self.status == "everything revealed":
            sentences.append(
                "Every label was certain to be revealed or certain to stay hidden, so the propensities cannot be checked."
            )
        elif self.status == "nearly certain":
            sentences.append(
                "Nearly all propensities are close to 0 or 1, so whether they are right cannot be checked."
            )
        elif self.status == "too few rows":
            sentences.append("The log is too small to check whether the propensities are right.")
        else:
            sentences.append(self._verdict())
            if not self.suspicious and self.limit:
                sentences.append(f"{count(self.n_rows, 'row')} may be too few to detect {self.limit}.")
        return tuple(sentences)

    @property
    def n_rows(self) -> int:
        """The number of rows whose propensity is neither 0 nor 1."""
        return sum(b.rows for b in self.bins)

    @property
    def limit(self) -> str:
        """What the test may have missed, in words; empty if the propensities could not be checked."""
        if self.status != "checked":
            return ""
        by = "by any factor" if self.least_factor is None else f"by a factor below {self.least_factor:.2f}"
        return f"propensities that are wrong {by}"

    def _verdict(self) -> str:
        if self.p_value >= SUSPICIOUS:
            return (
                f"Labels were revealed about as often as the propensities say: in {count(len(self.bins), 'group')} of rows by "
                f"propensity, the shares differ by {percent(self.expected_error)} on average, and no feature predicts where "
                f"they differ ({p_value(self.p_value)})."
            )
        sure = self.p_value < CONTRADICTED
        chance = (
            "With correct propensities, this would happen in fewer than one log in a thousand."
            if sure
            else f"With correct propensities, this would be unlikely ({p_value(self.p_value)})."
        )
        return f"The propensities {'cannot be right' if sure else 'look wrong'}: {self._strongest_evidence()} {chance}"

    def _strongest_evidence(self) -> str:
        """Return what the test with the smallest p-value found."""
        least = min(self.overall_p, self.bins_p, self.features_p)
        if least == self.features_p and self.features:
            parts = [f"{'more' if z > 0 else 'less'} often where {name} is high" for name, z in self.features]
            return f"compared with the propensities, labels were revealed {listed(parts)}."
        if least == self.overall_p:
            promised, observed = (
                sum(getattr(b, name) * b.rows for b in self.bins) / self.n_rows for name in ("promised", "observed")
            )
            return f"{percent(promised)} of the labels should have been revealed and {percent(observed)} were."
        worst = max(self.bins, key=lambda b: abs(b.observed - b.promised) / max(b.error, 1e-300))
        return (
            f"of {count(worst.rows, 'row')} with propensities from {number(worst.low)} to {number(worst.high)}, "
            f"{percent(worst.promised)} should have been revealed and {percent(worst.observed)} were."
        )


def check_calibration(
    propensity: Floats,
    revealed: Bools,
    labelled_only: bool = False,
    X: Matrix | Rows | None = None,
    names: Sequence[str] = (),
    rng: np.random.Generator | None = None,
) -> Calibration:
    """Compare observed and expected reveals in three ways; the result is the smallest p-value times three.

    With Z whether a label was revealed, E = Σ Q0 and V = Σ Q0·(1 − Q0):

    - *Overall*: ``(ΣZ − E)/√V`` is about standard normal.
    - *By propensity*: the Hosmer–Lemeshow test with all its degrees of freedom, because the propensities were
      not fitted to these bins: ``Σ (O − E)²/V`` over bins is chi-square with as many degrees of freedom as
      there are bins. Bins have about equal V, at least 5; equal propensities share a bin.
    - *By feature*: the score test of each feature, ``Σ (Z − Q0)·r/√(Σ Q0·(1 − Q0)·r²)`` with r the feature's
      centred ranks. This finds propensities that are right on average but ignore what the policy used.
      Šidák's correction allows for the number of features.

    If the log kept only its labelled rows (`labelled_only`), nothing can be checked; without `X`, there is no
    test by feature. `rng` samples rows if the log has more than 20,000.

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
    too_few = find_broken_promise(propensity, revealed)
    uncertain = (propensity > 0.0) & (propensity < 1.0)
    if not uncertain.any():
        return Calibration("everything revealed", broken_promises=broken)
    if uncertain.all():  # avoids a copy of a log that may be large
        q, is_revealed = propensity, revealed
    else:
        q, is_revealed = propensity[uncertain], revealed[uncertain]
    lows, highs = _make_bins(q)
    rows, promised, observed, variance = _sum_bins(q, is_revealed, lows)
    if variance.min() < MIN_BIN_VARIANCE:
        status: Status = "too few rows" if q.size < ENOUGH_ROWS else "nearly certain"
        return Calibration(status, broken_promises=broken, too_few=too_few)
    from scipy.special import chdtrc, ndtr

    overall = float(2.0 * ndtr(-abs(observed.sum() - promised.sum()) / np.sqrt(variance.sum())))
    by_bin = float(chdtrc(lows.size, float(np.sum((observed - promised) ** 2 / variance))))
    by_feature, features = _test_features(q, is_revealed, X, uncertain, names, rng)
    least = min(1.0, 3.0 * min(overall, by_bin, by_feature))
    bins = tuple(
        Bin(float(lo), float(hi), int(n), float(p / n), float(o / n), float(np.sqrt(v) / n))
        for lo, hi, n, p, o, v in zip(lows, highs, rows, promised, observed, variance, strict=True)
    )
    expected_error = float(np.abs(observed - promised).sum() / q.size)
    tests = (overall, by_bin, by_feature, features)
    return Calibration("checked", bins, expected_error, least, broken, *tests, least_factor(q), too_few)


def least_covered(propensity: Floats, revealed: Bools, enough: int = ENOUGH_LABELS) -> float:
    """Return the smallest propensity up to which the log has enough labels; infinity if it has fewer.

    Examples
    --------
    >>> import numpy as np
    >>> least_covered(np.array([0.01, 0.2, 0.3]), np.array([False, True, True]), enough=1)
    0.2
    """
    chances = propensity[revealed]
    return float(np.partition(chances, enough - 1)[enough - 1]) if chances.size >= enough else np.inf


def find_broken_promise(propensity: Floats, revealed: Bools) -> BrokenPromise | None:
    """Return the rows with the smallest propensities that hardly have a label, if correct propensities all but rule that out.

    With Poisson's distribution, whose lower tail is above that of a sum of independent reveals.

    Examples
    --------
    >>> import numpy as np
    >>> q, shown = np.repeat([0.01, 1.0], [700, 300]), np.repeat([False, True], [700, 300])
    >>> find_broken_promise(q, shown), find_broken_promise(q[300:], shown[300:])
    (BrokenPromise(rows=700, highest=0.01, promised=7.0, labels=0), None)
    """
    from scipy.special import pdtr

    below = (propensity < least_covered(propensity, revealed)) & (propensity < 1.0)
    chances, labels = propensity[below], int(np.count_nonzero(revealed[below]))
    promised = round(float(chances.sum()), 6)
    if promised <= labels or pdtr(labels, promised) >= CONTRADICTED:
        return None
    return BrokenPromise(chances.size, float(chances.max()), promised, labels)


def least_factor(q: Floats) -> float | None:
    """Return the smallest error factor of propensities that is detected in four logs of five; None if none is.

    If labels are revealed with probabilities c instead of Q0, ΣZ is off by ``Σ (c − Q0)`` on average, with
    variance ``Σ c·(1 − c)``. The overall test detects more than ``z·√V``, with z the normal quantile of a
    third of `SUSPICIOUS`. c is Q0/f or, up to 1, f·Q0. If propensities are so close to 1 that higher ones
    cannot be detected, only lower ones count.

    `q` are propensities strictly between 0 and 1; a sample is used if there are many.

    Examples
    --------
    >>> [round(least_factor(np.full(n, 0.3)), 2) for n in (300, 1000, 5000, 100_000)]
    [1.48, 1.22, 1.09, 1.02]
    """
    from scipy.special import ndtri

    some = q[:: 1 + (q.size - 1) // MAX_ROWS]
    each = q.size / some.size
    beyond = -float(ndtri(SUSPICIOUS / 6.0)) * np.sqrt(each * (some * (1.0 - some)).sum())

    def is_found(chance: Floats) -> bool:
        off = each * abs(float((chance - some).sum()))
        return bool(off - beyond >= float(ndtri(POWER)) * np.sqrt(each * (chance * (1.0 - chance)).sum()))

    too_high = _bisect(lambda factor: is_found(some / factor))
    too_low = _bisect(lambda factor: is_found(np.minimum(1.0, factor * some)))
    return None if too_high is None else max(too_high, too_low or 1.0)


def _bisect(is_found: Callable[[float], bool]) -> float | None:
    """Return the smallest factor above 1 that is found; None if not even `LARGEST_FACTOR` is."""
    low, high = 1.0, LARGEST_FACTOR
    if not is_found(high):
        return None
    while high - low > 1e-4 * low:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


def _test_features(
    q: Floats,
    is_revealed: Bools,
    X: Matrix | Rows | None,
    uncertain: Bools,
    names: Sequence[str],
    rng: np.random.Generator | None,
) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Return the smallest p-value of the features' score tests, and the most significant features.

    `q` and `is_revealed` are those of the uncertain rows of X, in order.
    """
    if X is None or X.shape[1] == 0:
        return 1.0, ()
    positions = np.flatnonzero(uncertain)
    if q.size > MAX_ROWS:
        rows = (rng or np.random.default_rng(0)).choice(q.size, MAX_ROWS, replace=False)
        q, is_revealed, positions = q[rows], is_revealed[rows], positions[rows]
    from scipy.special import ndtr

    z = feature_scores(as_rows(X).take(positions), is_revealed - q, q * (1.0 - q))
    tested = np.isfinite(z)
    if not tested.any():
        return 1.0, ()
    p = sidak(2.0 * ndtr(-np.abs(z[tested])), int(tested.sum()))
    order = np.argsort(p, kind="stable")
    columns = np.flatnonzero(tested)[order][:MAX_NAMED]
    pairs = zip(columns, p[order], strict=False)
    return float(p.min()), tuple((str(names[k]), float(z[k])) for k, part in pairs if part < SUSPICIOUS)


def feature_scores(X: Matrix, residual: Floats, variance: Floats) -> Floats:
    """Return each feature's score statistic, about standard normal if residuals have mean 0; NaN if it is constant.

    `residual` and `variance` are Z − Q0 and Q0·(1 − Q0) of each row.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(100.0)[:, None]
    >>> bool(feature_scores(X, np.where(X[:, 0] < 50, -0.5, 0.5), np.full(100, 0.25))[0] > 8)
    True
    """
    R = scaled_ranks(X)
    squares = R.multiply(R) if is_sparse(R) else R**2
    spread = np.asarray(squares.T @ variance).ravel()
    score = np.asarray(R.T @ residual).ravel()
    return np.where(spread >= MIN_BIN_VARIANCE / 3.0, score / np.sqrt(np.maximum(spread, 1e-300)), np.nan)


def _make_bins(q: Floats) -> tuple[Floats, Floats]:
    """Return the bounds of bins with about equal sums of Q0·(1 − Q0), at least 5 if all rows have as much."""
    values, counts = np.unique(q, return_counts=True)
    variance = counts * (values * (1.0 - values))
    step = max(MIN_BIN_VARIANCE, float(variance.sum()) / MAX_BINS)
    starts = np.cumsum(variance) - variance
    coarse = np.unique((starts / step).astype(np.int64), return_inverse=True)[1]
    sums = np.bincount(coarse, weights=variance)
    merged, current, total = np.zeros(sums.size, dtype=np.int64), 0, 0.0
    for i, part in enumerate(sums):
        if total >= MIN_BIN_VARIANCE:
            current, total = current + 1, 0.0
        merged[i] = current
        total += float(part)
    if total < MIN_BIN_VARIANCE and current > 0:
        merged[merged == current] = current - 1
    bin_of = merged[coarse]
    first = np.searchsorted(bin_of, np.arange(bin_of[-1] + 1))
    return values[first], values[np.append(first[1:], values.size) - 1]


def _sum_bins(q: Floats, is_revealed: Bools, lows: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    """Return each bin's number of rows, and its sums of Q0, of revealed labels and of Q0·(1 − Q0)."""
    rows, sums = np.zeros(lows.size, dtype=np.int64), np.zeros((3, lows.size))
    for part in pieces(q.size):
        chance = q[part]
        bin_of = np.searchsorted(lows, chance, side="right") - 1
        rows += np.bincount(bin_of, minlength=lows.size)
        summands = (chance, is_revealed[part], chance * (1.0 - chance))
        sums += [np.bincount(bin_of, weights=values, minlength=lows.size) for values in summands]
    return rows, sums[0], sums[1], sums[2]
