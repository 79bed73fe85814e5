"""The error on a table from a few of its rows that were drawn at random: nothing of the model enters, so it holds whatever has changed."""

from __future__ import annotations

from observal.problem.interval import CONFIDENCE, Interval


def sample_interval(wrong: int, unknown: int, drawn: int) -> Interval:
    """Return Clopper and Pearson's exact interval for the error, from rows that were drawn at random.

    Rows without a label may be right or wrong, so the lower end takes them for right and the upper end for wrong. With k mistakes among n rows the ends are
    the levels α/2 and 1 − α/2 of the distributions Beta(k, n − k + 1) and Beta(k + 1, n − k).

    Parameters
    ----------
    wrong : int
        Rows whose label is not the predicted one.
    unknown : int
        Rows without a label.
    drawn : int
        All rows that were drawn.

    Examples
    --------
    >>> interval = sample_interval(3, 0, 30)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.021, 0.265)
    >>> round(sample_interval(0, 30, 30).high, 3)
    1.0
    """
    from scipy.special import betaincinv  # lazy: scipy is slow to import

    tail, most = 0.5 - CONFIDENCE / 2, wrong + unknown
    low = 0.0 if wrong == 0 else float(betaincinv(wrong, drawn - wrong + 1, tail))
    high = 1.0 if most == drawn else float(betaincinv(most + 1, drawn - most, 1.0 - tail))
    known = drawn - unknown
    estimate = wrong / known if known else 0.5
    return Interval(min(max(estimate, low), high), low, high, CONFIDENCE, "exact, from rows drawn at random")
