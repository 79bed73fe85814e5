"""Near-duplicate rows, perhaps of one customer or day, that should be declared as a group.

A row has a near-copy if its nearest neighbour is at most a tenth as far away as its tenth nearest. Among
unrelated rows this is rare: with locally uniform density in D dimensions it has probability
``1 − (1 − 10^(−D))^9``, which is 0.9 % for D = 3. Three things look like copies and are not:

- *Rounded values.* In a table of few distinct values, rows are often equal by chance. So distances are at least
  half a step, a step being the typical distance between neighbouring values of a column: the second smallest
  over columns, since one fine column alone does not distinguish rows. If the tenth nearest row is that near as
  well, nothing can be said. Also, a row counts only if it has rare values in at least two columns.
- *Few dimensions.* D is estimated from how much farther the tenth nearest row is than the fifth; if chance
  explains a third of the near-copies, they are ignored.
- *Equal rows with different labels.* If more than a tenth of the near-copies with known labels have another
  label, they are not copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.feature_values import MAX_COLUMNS, MAX_ROWS, dense, sample_rows, standardise
from observal.problem.data import LoggedData
from observal.problem.rows import to_dense
from observal.problem.words import percent

CHECKED_ROWS = 2000  # rows whose neighbours are searched, among at most MAX_ROWS rows of the log
NEIGHBOURS = 10
NEAR_RATIO = 0.1  # of the distance to the tenth nearest row
MIN_SHARE = 0.1  # of the rows: a smaller share of near-copies is not reported
MAX_BY_CHANCE = 1.0 / 3.0
MAX_DIFFERENT = 0.1  # of the near-copies with known labels: the most that may have different labels
RARE_SHARE = 0.05  # of the rows: a more frequent value is not rare
MIN_ROWS = 50
BLOCK_ROWS = 500


@dataclass(frozen=True)
class NearCopies:
    """How many rows of the log have a near-copy in it.

    Parameters
    ----------
    share : float
        Of the rows checked; 0 if explained by chance, or if unknown.
    rows : int
        The number of rows checked; 0 if groups were given, or there are too few rows.
    """

    share: float = 0.0
    rows: int = 0

    @property
    def found(self) -> bool:
        """Whether there are so many that intervals may be too narrow."""
        return self.share >= MIN_SHARE

    def sentences(self) -> tuple[str, ...]:
        """Return the finding in words; empty if there is none."""
        if not self.found:
            return ()
        return (
            f"{percent(self.share)} of the log's rows have a near-copy in it. If rows are related, name the column that they share, such as a customer or a "
            "day, with --group (groups=); otherwise intervals are too low and too narrow.",
        )


def find_near_copies(logged: LoggedData, rng: np.random.Generator) -> NearCopies:
    """Look for near-copies among the rows of a log; above 20,000 rows in a sample, which finds fewer.

    Groups of more than ten near-copies are not found: their tenth nearest row is a copy, too.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 5))
    >>> twice = np.vstack([X, X + 0.01 * rng.normal(size=(400, 5))])
    >>> [round(find_near_copies(ob.LoggedData(rows, rows[:, 0] > 0, 1.0), rng).share, 1) for rows in (X, twice)]
    [0.0, 1.0]
    """
    n_features = logged.X.shape[1]
    if logged.groups is not None or logged.rows.is_sparse or len(logged) < MIN_ROWS or n_features < 2:
        return NearCopies()
    rows = sample_rows(len(logged), MAX_ROWS, rng)
    columns = sample_rows(n_features, MAX_COLUMNS, rng)
    Z = to_dense(standardise(dense(logged.rows.take(rows), columns)))
    Z = Z[:, Z.any(axis=0)]
    if Z.shape[1] < 2:
        return NearCopies()
    checked = sample_rows(rows.size, CHECKED_ROWS, rng)
    distinctive = checked[count_rare_values(Z)[checked] >= 2]
    if distinctive.size < MIN_ROWS:
        return NearCopies(0.0, int(checked.size))
    distances, nearest = nearest_rows(Z, distinctive)
    codes = np.where(logged.revealed, logged.codes, -1)[rows]
    labels = np.column_stack([codes[distinctive], codes[nearest]])
    share = copied_share(distances, finest_step(Z), labels)
    return NearCopies(share * distinctive.size / checked.size, int(checked.size))


def nearest_rows(Z: Floats, some: Ints) -> tuple[Floats, Ints]:
    """Return the distances of some rows to their `NEIGHBOURS` nearest other rows, ascending, and the nearest row."""
    distances, nearest = np.empty((some.size, NEIGHBOURS)), np.empty(some.size, dtype=np.int64)
    squares = np.einsum("ij,ij->i", Z, Z)
    for begin in range(0, some.size, BLOCK_ROWS):
        block = some[begin : begin + BLOCK_ROWS]
        squared = squares[block][:, None] + squares - 2.0 * Z[block] @ Z.T
        squared[np.arange(block.size), block] = np.inf
        near = np.argpartition(squared, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        # Computed again as differences: above, rounding blurs the distances of nearly equal rows.
        exact = np.sqrt(((Z[block][:, None, :] - Z[near]) ** 2).sum(axis=2))
        order = np.argsort(exact, axis=1, kind="stable")
        distances[begin : begin + block.size] = np.take_along_axis(exact, order, axis=1)
        nearest[begin : begin + block.size] = near[np.arange(block.size), order[:, 0]]
    return distances, nearest


def count_rare_values(Z: Floats) -> Ints:
    """Return in how many columns each row has a rare value.

    Examples
    --------
    >>> import numpy as np
    >>> count_rare_values(np.column_stack([np.arange(100.0), np.arange(100.0) % 2])).tolist()[:3]
    [1, 1, 1]
    """
    n_rare = np.zeros(len(Z), dtype=np.int64)
    for column in Z.T:
        _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
        n_rare += counts[place] <= RARE_SHARE * len(Z)
    return n_rare


def finest_step(Z: Floats) -> float:
    """Return the second smallest of the columns' steps, each the median distance between neighbouring values.

    Examples
    --------
    >>> import numpy as np
    >>> finest_step(np.column_stack([np.arange(6) % 2, np.arange(6) % 3 * 0.5, np.arange(6) * 0.01]).astype(float))
    0.5
    """
    steps = [float(np.median(np.diff(np.unique(column)))) for column in Z.T]
    return sorted(steps)[1]


def copied_share(distances: Floats, step: float, labels: Ints) -> float:
    """Return the share of rows with a near-copy; 0 if chance or differing labels speak against copies.

    `distances` are to the nearest rows, ascending, and at least half of `step`. `labels` are the classes of
    each row and of its nearest row, −1 if unknown.
    """
    first, middle, last = (np.maximum(distances[:, k], step / 2.0) for k in (0, NEIGHBOURS // 2 - 1, NEIGHBOURS - 1))
    is_copied: Bools = first <= NEAR_RATIO * last
    share = float(is_copied.mean())
    # Of ten uniformly spread neighbours, the fifth is in the inner half of the volume.
    growth = float(np.median(np.log(last / middle)))
    dimensions = np.log(2.0) / growth if growth > 0.0 else np.inf
    by_chance = 1.0 - (1.0 - NEAR_RATIO**dimensions) ** (NEIGHBOURS - 1)
    known = is_copied & (labels >= 0).all(axis=1)
    differ = float((labels[known, 0] != labels[known, 1]).mean()) if known.any() else 0.0
    return 0.0 if by_chance > MAX_BY_CHANCE * share or differ > MAX_DIFFERENT else share
