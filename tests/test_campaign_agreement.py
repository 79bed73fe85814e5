"""Agreement against the definitions and against scikit-learn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from observal.campaign import agreement
from tests.reference.agreement import fleiss_kappa, pairwise_agreement

CODES = st.integers(0, 2)


@given(st.lists(st.tuples(CODES, CODES), min_size=1, max_size=30))
def test_two_annotators_give_cohens_kappa(pairs):
    found = agreement([{"ann": a, "bob": b} for a, b in pairs], 3)
    assert found.kind == "Cohen"
    assert found.share == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    if len({code for pair in pairs for code in pair}) == 1:
        assert found.kappa is None
    else:
        expected = cohen_kappa_score(*zip(*pairs, strict=True))
        assert found.kappa == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.lists(CODES, min_size=4, max_size=4), min_size=1, max_size=20))
def test_three_annotators_give_fleiss_kappa(rows):
    found = agreement([dict(zip("abcd", row, strict=True)) for row in rows], 3)
    if found.kappa is not None:
        table = [[row.count(j) for j in range(3)] for row in rows]
        assert found.kappa == pytest.approx(fleiss_kappa(table), abs=1e-9)
    assert found.kind == "Fleiss"


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.none() | CODES), max_size=20))
def test_skips_and_single_answers_do_not_count(rows):
    found = agreement(rows, 3)
    several = [row for row in rows if sum(code is not None for code in row.values()) > 1]
    if not several:
        assert found is None
    else:
        assert found.rows == len(several)
        assert found.share == pytest.approx(pairwise_agreement(several))


def test_kappa_equals_fleiss_published_example():
    """The table in Fleiss (1971) as Wikipedia prints it: 14 raters, 10 rows, 5 classes, kappa 0.210."""
    table = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
    rows = []
    for counts in table:
        codes = [j for j, count in enumerate(counts) for _ in range(count)]
        rows.append({f"rater {k}": code for k, code in enumerate(codes)})
    assert agreement(rows, 5).kappa == pytest.approx(0.210, abs=5e-4)
