"""Packed kernels and enumerations against their slow twins, on arbitrary small inputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from observal.paper.hypotheses import Dichotomies, HalfPlanes, Rectangles, Stumps, Thresholds
from observal.paper.kernels import packed as kernels
from tests.reference import hypotheses as slow

values = st.floats(-1e6, 1e6, allow_subnormal=False)
coarse = st.integers(-3, 3).map(float)  # many duplicates and collinear points
fine = st.integers(-(2**20), 2**20).map(lambda k: k / 2**10)


@st.composite
def bit_matrices(draw):
    shape = draw(st.tuples(st.integers(1, 9), st.integers(0, 70)))
    return draw(npst.arrays(bool, shape))


def rows(n_features, max_rows, elements):
    return st.integers(1, max_rows).flatmap(lambda n: npst.arrays(float, (n, n_features), elements=elements))


def check_enumeration(restriction, X, splits):
    """The same splits as the twin's, none twice, and each member realises its own."""
    signs = restriction.dichotomies.signs(np.arange(len(restriction)))
    listed = [tuple(row) for row in signs.tolist()]
    assert len(set(listed)) == len(listed)
    assert set(listed) == splits
    for index, expected in enumerate(signs):
        member = restriction.member(index)
        np.testing.assert_array_equal(member.signs(X), expected)
        np.testing.assert_array_equal(member.signs(X[::-1]), expected[::-1])


@given(bit_matrices(), st.data())
def test_sums_and_disagreement_are_those_of_the_unpacked_matrix(bits, data):
    n_members, n_rows = bits.shape
    if_positive, if_negative = (data.draw(npst.arrays(float, n_rows, elements=values)) for _ in range(2))
    members = np.array(data.draw(st.lists(st.integers(0, n_members - 1), max_size=12)), dtype=np.int64)
    some = Dichotomies.from_signs(bits)
    np.testing.assert_array_equal(slow.unpack(some.packed, n_rows).reshape(bits.shape), bits)
    whole = some.weighted_sums(if_positive, if_negative)
    np.testing.assert_allclose(whole, slow.weighted_sums(bits, if_positive, if_negative), rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(some.weighted_sums(if_positive, if_negative, members), whole[members])  # bit for bit
    np.testing.assert_array_equal(some.disagreement(members), slow.disagreement(bits[members]))


@given(bit_matrices(), st.data())
def test_taking_rows_takes_columns_of_the_matrix(bits, data):
    n_rows = bits.shape[1]
    positions = data.draw(st.lists(st.integers(0, n_rows - 1), max_size=40)) if n_rows else []
    taken = Dichotomies.from_signs(bits).take_rows(positions)
    assert taken == Dichotomies.from_signs(bits[:, np.array(positions, dtype=int)])


@given(st.integers(0, 40).flatmap(lambda n: npst.arrays(float, (2, n), elements=values)))
@settings(max_examples=25)
def test_group_tables(pair):
    np.testing.assert_allclose(kernels.group_tables(*pair), slow.group_tables(*pair), rtol=1e-9, atol=1e-6)


@given(bit_matrices(), st.data())
def test_packed_kernels_on_raw_bytes(bits, data):
    packed = np.packbits(bits, axis=1, bitorder="little")
    tables = data.draw(
        npst.arrays(float, (packed.shape[1], 256), elements=st.integers(-9, 9).map(float), fill=st.just(1.0))
    )
    members = np.array(data.draw(st.lists(st.integers(0, len(bits) - 1), max_size=12)), dtype=np.int64)
    expected = [sum(tables[g, byte] for g, byte in enumerate(packed[h])) for h in members]
    np.testing.assert_array_equal(kernels.packed_sums(packed, tables, members), np.array(expected, dtype=float))
    all_positive, none_positive = kernels.unanimous(packed, members)
    np.testing.assert_array_equal(all_positive, np.bitwise_and.reduce(packed[members], axis=0, initial=255))
    np.testing.assert_array_equal(none_positive, ~np.bitwise_or.reduce(packed[members], axis=0, initial=0))


@pytest.mark.parametrize("both_signs", [True, False])
@given(X=rows(1, 12, st.one_of(coarse, st.floats(allow_nan=False, allow_infinity=False))))
def test_thresholds(X, both_signs):
    check_enumeration(Thresholds(both_signs=both_signs).restrict(X), X, slow.thresholds(X[:, 0].tolist(), both_signs))


@pytest.mark.parametrize("both_signs", [True, False])
@given(X=rows(3, 8, coarse))
def test_stumps(X, both_signs):
    check_enumeration(Stumps(both_signs=both_signs).restrict(X), X, slow.stumps(X, both_signs))


@given(X=rows(2, 6, st.one_of(coarse, fine)))
@settings(max_examples=40, deadline=None)
def test_half_planes(X):
    check_enumeration(HalfPlanes().restrict(X), X, slow.half_planes(X))


@given(X=rows(2, 8, st.one_of(coarse, fine)))
@settings(max_examples=60, deadline=None)
def test_rectangles(X):
    check_enumeration(Rectangles().restrict(X), X, slow.rectangles(X))


@given(X=rows(2, 12, st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=60, deadline=None)
def test_half_planes_of_any_floats_are_realised_and_closed_under_complement(X):
    restriction = HalfPlanes().restrict(X)
    signs = restriction.dichotomies.signs(np.arange(len(restriction)))
    check_enumeration(restriction, X, {tuple(row) for row in (-signs).tolist()})
