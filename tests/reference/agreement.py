"""Agreement of annotators from the definitions, pair by pair."""

from __future__ import annotations

from itertools import combinations


def pairwise_agreement(rows):
    """Return the mean over rows of the share of pairs of answers that are equal."""
    shares = []
    for row in rows:
        answers = [code for code in row.values() if code is not None]
        pairs = list(combinations(answers, 2))
        if pairs:
            shares.append(sum(a == b for a, b in pairs) / len(pairs))
    return sum(shares) / len(shares)


def fleiss_kappa(table):
    """Return Fleiss' kappa of a table of counts, rows × classes, with as many answers in every row."""
    n_rows, n_answers = len(table), sum(table[0])
    observed = 0.0
    for counts in table:
        observed += (sum(c * c for c in counts) - n_answers) / (n_answers * (n_answers - 1)) / n_rows
    expected = 0.0
    for j in range(len(table[0])):
        expected += (sum(counts[j] for counts in table) / (n_rows * n_answers)) ** 2
    return (observed - expected) / (1 - expected)
