"""Which numeric columns came from one table column: a category's levels, or a number and its missing-value mark."""

from __future__ import annotations

from dataclasses import dataclass

from observal.errors import InvalidInput


@dataclass(frozen=True)
class ColumnGroups:
    """Columns that belong together, so that trees can see categories as one column and missing values as missing.

    Parameters
    ----------
    categories : tuple of tuples of int
        The columns of each category: each row has the larger of two values in at most one of them.
    gaps : tuple of pairs of int
        A numeric column, and the column whose larger value marks the number as missing.

    Examples
    --------
    >>> ColumnGroups(categories=((2, 3, 4),), gaps=((0, 1),)).n_columns
    5
    """

    categories: tuple[tuple[int, ...], ...] = ()
    gaps: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        for name in ("categories", "gaps"):
            object.__setattr__(self, name, tuple(tuple(group) for group in getattr(self, name)))
        columns = [column for group in (*self.categories, *self.gaps) for column in group]
        sound = all(type(column) is int and column >= 0 for column in columns) and len(set(columns)) == len(columns)
        if not sound or not all(self.categories) or any(len(pair) != 2 for pair in self.gaps):
            raise InvalidInput(
                "Columns must belong to one group at most, but these do not; give groups that do not overlap."
            )

    @property
    def n_columns(self) -> int:
        """The smallest number of columns that rows must have."""
        return 1 + max((column for group in (*self.categories, *self.gaps) for column in group), default=-1)
