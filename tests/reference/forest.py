"""Slow twin of the forest: one tree at a time, rows in lists, random numbers from whole numbers of any size."""

from __future__ import annotations

import numpy as np

MASK = 2**64 - 1


class Splitmix:
    """The generator of random numbers."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) / 2**53


def grow(X, codes, weights, n_classes, n_trees, n_tried, seed):
    """Return trees as nested tuples: (feature, cut, left, right), or the shares of the classes in a leaf."""
    random, features = Splitmix(seed), list(range(X.shape[1]))

    def shares(rows):
        total = [0.0] * n_classes
        for row in rows:
            total[codes[row]] += float(weights[row])
        return total

    def purity(total):
        return sum(one**2 for one in total) / sum(total)

    def node(rows):
        total = shares(rows)
        best = None
        left_over, tried = len(features), 0
        while sum(one > 0 for one in total) > 1 and left_over and tried < n_tried:
            pick = int(random.uniform() * left_over)
            one = features[pick]
            left_over -= 1
            features[pick], features[left_over] = features[left_over], one
            column = [X[row, one] for row in rows]
            low, high = min(column), max(column)
            if high <= low + np.float32(1e-7):
                continue
            tried += 1
            cut = float(low) + random.uniform() * (float(high) - float(low))
            cut = float(low) if cut >= high else cut
            sides = [row for row in rows if X[row, one] <= cut], [row for row in rows if X[row, one] > cut]
            score = sum(purity(shares(side)) for side in sides)
            if best is None or score > best[0] + 1e-9 * sum(total):
                best = score, one, cut, sides
        if best is None:
            return [one / sum(total) for one in total]
        _, one, cut, (low_side, high_side) = best
        return one, cut, node(low_side), node(high_side)

    return [node(list(range(len(codes)))) for _ in range(n_trees)]


def chances(trees, x):
    """Return the mean over trees of the leaf that a row falls into."""
    return np.mean([leaf(tree, x) for tree in trees], axis=0)


def leaf(tree, x):
    """Return the leaf that a row falls into."""
    if not isinstance(tree, tuple):
        return tree
    feature, cut, left, right = tree
    return leaf(left if x[feature] <= cut else right, x)
