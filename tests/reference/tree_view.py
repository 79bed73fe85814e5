"""Rows as boosted trees see them, one value at a time."""

from __future__ import annotations

import math


def seen(row, categories, gaps, marked):
    """Return a row with one value for each column of the table it came from, in the order of their first columns."""
    hidden = {column for group in categories for column in group[1:]} | {mark for _, mark in gaps}
    out = []
    for column, value in enumerate(row):
        if column in hidden:
            continue
        group = next((group for group in categories if group[0] == column), None)
        if group is not None:
            codes = [code for code, level in enumerate(group) if row[level] > marked[level]]
            out.append(float(codes[0]) if codes else float(len(group)))
            continue
        mark = next((mark for number, mark in gaps if number == column), None)
        out.append(math.nan if mark is not None and row[mark] > marked[mark] else value)
    return out
