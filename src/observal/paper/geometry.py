"""Enumeration of classes that are finite on the data: one function per class, and no dichotomy is listed twice.

Thresholds and stumps, half-planes and upright rectangles in two dimensions. Signs are exact, also on rows that are
duplicated, collinear or on a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints, Signs
from observal.errors import ClassTooLarge, InvalidInput
from observal.paper.dichotomies import Bytes, pack, packed_in_chunks

MAX_DICHOTOMIES = 10**6
MAX_PACKED_BYTES = 4 * 2**30  # what all predictions together may take in memory


def check_size(name: str, count: int, quantifier: str, n_distinct: int, n_rows: int) -> None:
    """Raise ``ClassTooLarge`` where `count` classifiers on `n_rows` rows are too many to list or to hold."""
    advice = "use fewer rows, round the features, or give a sample of classifiers with FiniteClass.from_callables."
    if count > MAX_DICHOTOMIES:
        raise ClassTooLarge(
            f"{name} can list at most {MAX_DICHOTOMIES:,} classifiers, but {n_rows:,} rows with {n_distinct:,} distinct "
            f"points allow {quantifier}{count:,}; {advice}"
        )
    n_bytes = count * ((n_rows + 7) // 8)
    if n_bytes > MAX_PACKED_BYTES:
        raise ClassTooLarge(
            f"{name} can hold predictions of at most {MAX_PACKED_BYTES / 2**30:g} GB, but {quantifier}{count:,} classifiers "
            f"on {n_rows:,} rows with {n_distinct:,} distinct points take {n_bytes / 2**30:.1f} GB; {advice}"
        )


def check_not_empty(name: str, n_rows: int, n_features: int) -> None:
    """Raise ``InvalidInput`` where there is nothing to split."""
    if n_rows == 0 or n_features == 0:
        raise InvalidInput(
            f"{name} needs rows and features, but X has {n_rows} rows and {n_features} features to split."
        )


# Thresholds and stumps


def cuts_between(values: Floats) -> Floats:
    """Return one cut below all values, one in every gap, one above all: ``x > cut`` splits the values exactly there."""
    distinct = np.unique(values)
    low, high = distinct[:-1], distinct[1:]
    middle = low / 2 + high / 2  # cannot overflow; between neighbouring floats it may round up to `high`
    inner = np.where((low <= middle) & (middle < high), middle, low)
    return np.concatenate(([-np.inf], inner, [np.inf]))


class StumpTable(NamedTuple):
    """Predictions and parameters: classifier h predicts ``sign`` where the feature is above ``cut``."""

    packed: Bytes
    feature: Ints
    cut: Floats
    sign: Signs


def stumps(
    name: str, column: Callable[[int], Floats], features: Sequence[int], n_rows: int, *, both_signs: bool
) -> StumpTable:
    """Return every dichotomy ``x[feature] > cut`` and, with `both_signs`, its negation: all +1, all −1, then by feature.

    One feature with U distinct values gives U + 1, or 2U with both signs.
    """
    check_not_empty(name, n_rows, len(features))
    n_signs = 2 if both_signs else 1
    inner: list[Floats] = []
    count, n_distinct = 2, 0
    for feature in features:
        cuts = cuts_between(column(feature))[1:-1]
        count += n_signs * cuts.size
        n_distinct = max(n_distinct, cuts.size + 1)
        if count <= MAX_DICHOTOMIES:
            inner.append(cuts)
    check_size(name, count, "" if len(features) == 1 else "up to ", n_distinct, n_rows)
    tables = [_stump_table(column(features[0]), features[0], np.array([-np.inf, np.inf]), (1,))]
    tables += [
        _stump_table(column(feature), feature, cuts, (1, -1)[:n_signs])
        for feature, cuts in zip(features, inner, strict=True)
    ]
    packed, of_feature, cut, sign = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    if len(features) == 1:
        return StumpTable(packed, of_feature, cut, sign)
    keep = first_occurrences(packed)
    return StumpTable(packed[keep], of_feature[keep], cut[keep], sign[keep])


def _stump_table(values: Floats, feature: int, cuts: Floats, signs: Sequence[int]) -> StumpTable:
    cut = np.tile(cuts, len(signs))
    sign = np.repeat(np.array(signs, dtype=np.int8), cuts.size)
    packed = packed_in_chunks(
        cut.size, values.size, lambda some: pack((values > cut[some, None]) == (sign[some, None] > 0))
    )
    return StumpTable(packed, np.full(cut.size, feature), cut, sign)


def first_occurrences(packed: Bytes) -> Ints:
    """Return the positions of the rows of `packed` that did not stand before, in order."""
    whole_rows = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    return np.sort(np.unique(whole_rows, return_index=True)[1])


# Half-planes

# Shewchuk (1997): the sign of a computed 2×2 orientation is right where it exceeds (3 + 16u)·u times the sum of the
# absolute products, u = 2^-53. The second term covers products that underflow.
ORIENTATION_ERROR = (3.0 + 16.0 * 2.0**-53) * 2.0**-53
UNDERFLOW_ERROR = 1e-300


def integer_grid(points: Floats) -> NDArray[Any]:
    """Return the same points, each coordinate times a power of two that makes all of them whole numbers."""
    columns = []
    for column in points.T.tolist():
        ratios = [value.as_integer_ratio() for value in column]
        common = max(denominator for _, denominator in ratios)
        columns.append([numerator * (common // denominator) for numerator, denominator in ratios])
    grid = np.array(columns, dtype=object).T
    small = max(abs(value) for column in columns for value in column) < 2**30  # then orientations fit into 63 bits
    return grid.astype(np.int64) if small else grid


def sides(points: Floats, grid: NDArray[Any], first: int, seconds: Ints) -> tuple[Bools, Ints, Ints]:
    """Return, exactly, which points lie left of the line from `first` to each of `seconds`, and which others lie on it.

    The side of r for the line from p to q is the sign of ``(q−p)₀·(r−p)₁ − (q−p)₁·(r−p)₀``: in floating point where
    that is sure to have the right sign, else in whole numbers. Points on lines come as (position in `seconds`, point).
    """
    with np.errstate(over="ignore", invalid="ignore"):  # then it is not sure
        offset = points - points[first]
        turn = np.multiply.outer(offset[seconds, 0], offset[:, 1])
        subtrahend = np.multiply.outer(offset[seconds, 1], offset[:, 0])
        error = np.abs(turn)
        turn -= subtrahend
        error += np.abs(subtrahend, out=subtrahend)
        error *= ORIENTATION_ERROR
        error += UNDERFLOW_ERROR
        left = turn > 0
        sure = np.abs(turn, out=turn) > error
    sure[:, first] = True
    sure[np.arange(seconds.size), seconds] = True
    line, point = np.nonzero(~sure)
    along, across = grid[seconds[line]] - grid[first], grid[point] - grid[first]
    exact = along[:, 0] * across[:, 1] - along[:, 1] * across[:, 0]
    left[line, point] = exact > 0
    return left, line[exact == 0], point[exact == 0]


def tangent_split(points: Floats, grid: NDArray[Any], first: int, seconds: Ints) -> tuple[Bools, Bools]:
    """Return the points left of each line, or on it up to `first`; and whether the next point on it is `second`.

    Points are in lexicographic order, which is also their order along any line.
    """
    left, line, point = sides(points, grid, first, seconds)
    left[:, first] = True
    left[line, point] = point < first
    neighbours = np.ones(seconds.size, dtype=bool)
    neighbours[line[(first < point) & (point < seconds[line])]] = False
    return left, neighbours


class HalfPlaneTable(NamedTuple):
    """Predictions: all −1, all +1, then the split of each pair (first, second) of `points`, then their complements."""

    packed: Bytes
    points: Floats
    first: Ints
    second: Ints


def half_planes(rows: Floats) -> HalfPlaneTable:
    """Return every dichotomy of `rows` by a line.

    Two disjoint convex sets A and B have exactly one common tangent that keeps A left and B right and meets A before B.
    So the dichotomies other than "all" and "none" are, each once: a line through two neighbours p, q among the points
    on it, with the points left of it and those on it up to p as A; and the complement. With U points in general
    position that is U² − U + 2.
    """
    check_not_empty("HalfPlanes", *rows.shape)
    points, inverse = np.unique(rows + 0.0, axis=0, return_inverse=True)  # + 0.0 turns −0.0 into 0.0
    inverse = inverse.ravel()
    size = len(points)
    check_size("HalfPlanes", size * (size - 1) + 2, "up to ", size, len(rows))
    grid = integer_grid(points)
    step = max(1, 2**14 // size)  # keeps the work in the second-level cache
    none = np.empty(0, dtype=np.int64)
    splits, firsts, seconds = [np.empty((0, (len(rows) + 7) // 8), dtype=np.uint8)], [none], [none]
    for first in range(size - 1):
        for start in range(first + 1, size, step):
            candidates = np.arange(start, min(start + step, size))
            positive, neighbours = tangent_split(points, grid, first, candidates)
            splits.append(pack(np.take(positive[neighbours], inverse, axis=1)))
            seconds.append(candidates[neighbours])
            firsts.append(np.full(seconds[-1].size, first))
    split = np.concatenate(splits)
    everything = pack(np.ones((1, len(rows)), dtype=bool))
    packed = np.concatenate([np.zeros_like(everything), everything, split, split ^ everything])
    return HalfPlaneTable(packed, points, np.concatenate(firsts), np.concatenate(seconds))


def rotated_line(points: Floats, first: int, second: int, on_line: Ints) -> tuple[Floats, Floats]:
    """Return (normal, through): a line that separates strictly what the tangent of the pair separates weakly.

    The tangent turns about the middle of the pair, half as far as the points allow: for small t > 0 the normal
    ``n − t·d``, with d along the tangent and n to its left, has the earlier points on its positive side. Rounding may
    spoil it where points almost lie on the tangent; callers check.
    """
    direction = points[second] - points[first]
    normal = np.array([-direction[1], direction[0]])
    through = points[first] + direction / 2
    offset = points - through
    across, along = offset @ normal, offset @ direction
    blocks = across * along > 0
    blocks[[first, second, *on_line]] = False
    turn = 0.5 * float(np.min(across[blocks] / along[blocks])) if blocks.any() else 1.0
    tilted = normal - turn * direction
    return tilted / np.hypot(*tilted), through


# Rectangles


class RectangleTable(NamedTuple):
    """Predictions: the empty set, then every box from `low` to `high`, borders included."""

    packed: Bytes
    low: Floats
    high: Floats


def rectangles(rows: Floats) -> RectangleTable:
    """Return every set of rows that an axis-aligned rectangle cuts out, each by its tight box.

    For every slab a ≤ x ≤ b between two x values: the ranges c ≤ y ≤ d between y values of points in the slab that
    contain a point with x = a and one with x = b. For each d there are as many c as points' y values up to the lower of
    the last such point of a and of b: the number of boxes is the sum of these.
    """
    check_not_empty("Rectangles", *rows.shape)
    xs, x_code = np.unique(rows[:, 0], return_inverse=True)
    ys, y_code = np.unique(rows[:, 1], return_inverse=True)
    n_distinct = len(np.unique(rows, axis=0))
    longest = max(xs.size, ys.size)
    check_size("Rectangles", 1 + longest * (longest + 1) // 2, "at least ", n_distinct, len(rows))
    occupied = np.zeros((xs.size, ys.size), dtype=bool)
    occupied[x_code, y_code] = True
    boxes: list[Ints] = []
    count = 1
    for a in range(xs.size):
        choices, lower = _lower_ends(occupied, a)
        count += int(choices.sum())
        check_size("Rectangles", count, "at least ", n_distinct, len(rows))
        boxes.append(_boxes(choices, lower, a))
    a, b, c, d = np.concatenate(boxes, axis=1)
    x_from, x_to = pack(x_code >= np.arange(xs.size)[:, None]), pack(x_code <= np.arange(xs.size)[:, None])
    y_from, y_to = pack(y_code >= np.arange(ys.size)[:, None]), pack(y_code <= np.arange(ys.size)[:, None])
    inside = packed_in_chunks(
        a.size, len(rows), lambda some: x_from[a[some]] & x_to[b[some]] & y_from[c[some]] & y_to[d[some]]
    )
    empty = np.zeros((1, inside.shape[1]), dtype=np.uint8, order="F")
    low = np.concatenate([[[np.inf, np.inf]], np.column_stack([xs[a], ys[c]])])
    high = np.concatenate([[[-np.inf, -np.inf]], np.column_stack([xs[b], ys[d]])])
    return RectangleTable(np.concatenate([empty, inside]), low, high)


def _lower_ends(occupied: Bools, a: int) -> tuple[NDArray[np.int32], Bools]:
    """Return, for every upper end (rows) and slab from column a (columns), how many lower ends fit; and which these are.

    A slab holds a y value from the first column, a or later, that has a point there. Lower ends are these values
    that are not above all points of column a or all points of column b; n choices are the lowest n of them.
    """
    first_column, columns = occupied[a][:, None], occupied[a:].T
    nearest = np.where(columns.any(axis=1), columns.argmax(axis=1), len(columns.T))
    inside = nearest[:, None] <= np.arange(columns.shape[1])
    rank = np.cumsum(inside, axis=0, dtype=np.int32)
    last_of_a, last_of_b = np.where(first_column, rank, 0), np.where(columns, rank, 0)
    np.maximum.accumulate(last_of_a, axis=0, out=last_of_a)
    np.maximum.accumulate(last_of_b, axis=0, out=last_of_b)
    most = np.minimum(last_of_a, last_of_b)
    return np.where(inside, most, 0), inside & (rank <= most[-1])


def _boxes(choices: NDArray[np.int32], lower: Bools, a: int) -> Ints:
    """Return the boxes that `_lower_ends` counted, as rows a, b, c, d of codes."""
    upper, slab = np.nonzero(choices)
    repeats = choices[upper, slab]
    lower_slab, lower_y = np.nonzero(np.ascontiguousarray(lower.T))
    starts = np.searchsorted(lower_slab, slab)  # where each slab's lower ends begin
    step = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    c = lower_y[np.repeat(starts, repeats) + step]
    b, d = np.repeat(slab + a, repeats), np.repeat(upper, repeats)
    return np.stack([np.full(b.size, a), b, c, d])
