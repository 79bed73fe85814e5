"""Finite classes and classes that are finite on the data: counts, degenerate rows, refusals."""

import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from observal.errors import ClassTooLarge, InvalidInput, NotPredictable
from observal.paper.geometry import MAX_DICHOTOMIES, cuts_between
from observal.paper.hypotheses import (
    CallableClass,
    Dichotomies,
    FiniteClass,
    HalfPlanes,
    HypothesisClass,
    Member,
    Rectangles,
    Stumps,
    TangentHalfPlane,
    Threshold,
    Thresholds,
)
from tests.reference import hypotheses as slow


def above(X, cut):
    return np.where(X[:, 0] > cut, 1, -1)


def grid(n):
    return np.stack(np.meshgrid(np.arange(float(n)), np.arange(float(n))), axis=-1).reshape(-1, 2)


def splits(restriction):
    return {tuple(row) for row in restriction.dichotomies.signs(np.arange(len(restriction))).tolist()}


def realised(restriction, X, indices=None):
    for index in range(len(restriction)) if indices is None else indices:
        np.testing.assert_array_equal(restriction.member(index).signs(X), restriction.dichotomies.signs(index))


class TestDichotomies:
    @pytest.mark.parametrize("matrix", [[[-1, 1, 1]], [[0, 1, 1]], [[False, True, True]], [[-1.0, 1.0, 1.0]]])
    def test_signs_zeros_and_booleans_mean_the_same(self, matrix):
        assert Dichotomies.from_signs(matrix).signs(0).tolist() == [-1, 1, 1]

    @pytest.mark.parametrize(
        ("matrix", "words"),
        [
            ([[1, 2]], "2"),
            ([[1, np.nan]], "nan"),
            ([[0, -1]], "both"),
            ([1, -1], "two dimensions"),
            (np.ones((0, 3)), "at least"),
        ],
    )
    def test_other_values_are_refused(self, matrix, words):
        with pytest.raises(InvalidInput, match=words):
            Dichotomies.from_signs(matrix)

    def test_packed_bytes_are_checked(self):
        with pytest.raises(InvalidInput, match="shape"):
            Dichotomies(np.zeros((2, 2), dtype=np.uint8), 3)
        with pytest.raises(InvalidInput, match="beyond the last row"):
            Dichotomies(np.full((2, 1), 255, dtype=np.uint8), 3)

    def test_one_member_or_none_never_disagrees(self):
        two = Dichotomies.from_signs([[1, -1], [1, 1]])
        assert two.disagreement([1]).tolist() == two.disagreement([]).tolist() == [False, False]
        assert two.disagreement().tolist() == [False, True]

    def test_members_may_be_a_mask_and_must_exist(self):
        two = Dichotomies.from_signs([[1, -1], [1, 1]])
        assert two.weighted_sums([1, 1], [0, 0], [False, True]).tolist() == [2.0]
        for wrong in ([2], [-1], [0.5], [[0]], [True]):
            with pytest.raises(InvalidInput, match="Positions of classifiers"):
                two.weighted_sums([1, 1], [0, 0], wrong)
        with pytest.raises(InvalidInput, match="one value per row"):
            two.weighted_sums([1, 1, 1], [0, 0])
        with pytest.raises(InvalidInput, match="Positions of rows"):
            two.take_rows([2])

    def test_large_matrices_go_through_several_chunks(self, monkeypatch):
        monkeypatch.setattr("observal.paper.dichotomies.CHUNK_BYTES", 100)
        bits = np.random.default_rng(0).random((50, 33)) < 0.5
        some = Dichotomies.from_signs(bits)
        np.testing.assert_array_equal(some.signs(np.arange(50)) > 0, bits)
        np.testing.assert_array_equal(some.take_rows(np.arange(33)[::-1]).signs(np.arange(50)) > 0, bits[:, ::-1])

    def test_compared_and_pickled(self):
        some = Dichotomies.from_signs([[1, -1], [1, 1]])
        again = pickle.loads(pickle.dumps(some))
        assert again == some
        assert hash(again) == hash(some)
        assert some != Dichotomies.from_signs([[1, -1], [-1, 1]])
        assert again.weighted_sums([1, 1], [0, 0]).tolist() == [1.0, 2.0]


class TestGivenClasses:
    def test_matrix(self):
        given = FiniteClass(np.array([[1, -1, 1], [1, 1, 1]]))
        restriction = given.restrict(np.zeros((3, 2)))
        assert isinstance(given, HypothesisClass)
        assert given.fixed
        assert restriction.fixed
        assert given == FiniteClass([[True, False, True], [True, True, True]])
        assert repr(given) == "FiniteClass(predictions=Dichotomies(2 classifiers × 3 rows))"
        assert restriction.member(0).predictions.tolist() == [1, -1, 1]
        with pytest.raises(NotPredictable, match=r"known on its 3 rows only.*from_callables"):
            restriction.member(0).signs(np.zeros((3, 2)))
        with pytest.raises(InvalidInput, match="3 columns, but there are 4 rows"):
            given.restrict(np.zeros((4, 2)))
        with pytest.raises(InvalidInput, match="Positions of classifiers"):
            restriction.member(2)

    def test_callables(self):
        given = FiniteClass.from_callables([partial(above, cut=c) for c in (-1.0, 0.0, 1.0)])
        X = np.array([[-0.5], [0.5]])
        restriction = given.restrict(X)
        assert isinstance(given, CallableClass)
        assert restriction.fixed
        assert splits(restriction) == {(1, 1), (-1, 1), (-1, -1)}
        realised(restriction, X)
        assert repr(given) == "CallableClass(3 functions)"
        assert pickle.loads(pickle.dumps(restriction)).member(1).signs([[2.0]]).tolist() == [1]

    @pytest.mark.parametrize("function", [lambda X: 1, lambda X: np.zeros(len(X)), lambda X: np.ones((len(X), 1))])
    def test_callables_must_return_signs(self, function):
        with pytest.raises(InvalidInput, match=r"must return −1 or \+1 for each of 2 rows"):
            FiniteClass.from_callables([function]).restrict([[1.0], [2.0]])

    def test_class_needs_classifiers(self):
        for nothing in ([], [3]):
            with pytest.raises(InvalidInput, match="at least one classifier"):
                FiniteClass.from_callables(nothing)


class TestThresholdsAndStumps:
    def test_cuts_separate_neighbouring_floats(self):
        values = [-np.finfo(float).max, -5e-324, 0.0, 5e-324, 1.0, np.nextafter(1.0, 2.0), np.finfo(float).max]
        cuts = cuts_between(np.array(values))
        for position, cut in enumerate(cuts):
            assert [value > cut for value in values] == [False] * position + [True] * (7 - position)

    @pytest.mark.parametrize(("both_signs", "count"), [(True, 8), (False, 5)])
    def test_counts(self, both_signs, count):
        X = np.array([[0.0, 3.0], [0.0, 1.0], [0.0, 2.0], [0.0, 4.0], [0.0, 4.0]])
        restriction = Thresholds(feature=1, both_signs=both_signs).restrict(X)
        assert len(restriction) == count
        assert not restriction.fixed
        realised(restriction, X)

    def test_one_value_gives_the_two_constants(self):
        assert splits(Thresholds().restrict([[7.0], [7.0]])) == {(1, 1), (-1, -1)}
        assert splits(Stumps().restrict([[7.0, 3.0]])) == {(1,), (-1,)}

    def test_stumps_list_a_split_once(self):
        X = np.random.default_rng(0).integers(0, 4, (12, 3)).astype(float)
        X = np.column_stack([X, -X, 2 * X[:, 0]])
        for both_signs in (True, False):
            restriction = Stumps(both_signs).restrict(X)
            assert splits(restriction) == slow.stumps(X, both_signs)
            assert len(restriction) == len(slow.stumps(X, both_signs))
            realised(restriction, X)

    def test_sparse_rows_mean_the_same(self):
        X = np.array([[0.0, 3.0], [1.0, 0.0], [0.0, 2.0]])
        for name in (Thresholds(1), Stumps(), HalfPlanes(), Rectangles()):
            sparse, dense = name.restrict(sp.csr_matrix(X)), name.restrict(X)
            assert sparse.dichotomies == dense.dichotomies
            realised(sparse, sp.csr_matrix(X))

    def test_refusals(self):
        with pytest.raises(InvalidInput, match="feature 2"):
            Thresholds(2).restrict(np.zeros((3, 2)))
        with pytest.raises(InvalidInput, match="needs rows and features"):
            Stumps().restrict(np.zeros((3, 0)))
        with pytest.raises(ClassTooLarge, match=r"500,001 distinct points allow 1,000,002;.*fewer rows"):
            Thresholds().restrict(np.arange(MAX_DICHOTOMIES / 2 + 1)[:, None])
        with pytest.raises(ClassTooLarge, match=r"at most 4 GB.*take"):
            Thresholds().restrict(np.arange(300_000.0)[:, None])
        with pytest.raises(ClassTooLarge, match="up to 1,199,942"):
            Stumps().restrict(np.random.default_rng(0).permuted(np.tile(np.arange(20_000.0), (30, 1)), axis=1).T)

    def test_printed_and_compared(self):
        assert repr(Thresholds()) == "Thresholds(feature=0, both_signs=True)"
        assert Thresholds(1) == Thresholds(1) != Thresholds(2)
        assert Thresholds().restrict([[0.0], [1.0]]).member(2) == Threshold(0, 0.5, 1)


class TestHalfPlanes:
    def test_general_position(self):
        X = np.random.default_rng(0).normal(size=(60, 2))
        restriction = HalfPlanes().restrict(X)
        assert len(restriction) == len(splits(restriction)) == 60 * 59 + 2
        realised(restriction, X)

    @pytest.mark.parametrize(
        ("X", "count"),
        [
            ([[1.0, 2.0]], 2),
            ([[1.0, 2.0]] * 4, 2),
            ([[0.0, 0.0], [-0.0, 0.0], [1.0, 0.0]], 4),
            ([[float(i), 2.0 * i] for i in range(7)], 14),
            ([[3.0, float(i)] for i in range(7)], 14),
            ([[0.1 * i, 0.0] for i in range(7)], 14),
            ([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0], [1.0, 1.0]], 14),
        ],
    )
    def test_degenerate_rows(self, X, count):
        restriction = HalfPlanes().restrict(X)
        assert len(restriction) == count
        assert splits(restriction) == slow.half_planes(X)
        realised(restriction, X)

    def test_integer_grid(self):
        X = grid(3)
        restriction = HalfPlanes().restrict(X)
        assert splits(restriction) == slow.half_planes(X)
        assert len(restriction) == len(splits(restriction))
        realised(restriction, X)

    def test_almost_collinear_points_are_split_exactly(self):
        X = grid(7) / 10  # tenths are not whole multiples of one float: the lines are only almost lines
        restriction = HalfPlanes().restrict(X)
        assert len(restriction) == len(splits(restriction)) > len(HalfPlanes().restrict(grid(7)))
        realised(restriction, X)
        tangents = [m for m in map(restriction.member, range(len(restriction))) if isinstance(m, TangentHalfPlane)]
        assert tangents  # so that the exact classifier is tried

    def test_tangent_on_its_own_line(self):
        rule = TangentHalfPlane((0.0, 0.0), (1.0, 1.0))
        X = [[-1.0, -1.0], [0.0, 0.0], [0.5, 0.5], [1.0, 1.0], [2.0, 2.0], [0.0, 1e-300], [1e-300, 0.0]]
        assert rule.signs(X).tolist() == [1, 1, -1, -1, -1, 1, -1]

    def test_far_from_the_origin(self):
        X = np.random.default_rng(1).integers(0, 50, (20, 2)) * 2.0**-20 + 1e6
        restriction = HalfPlanes().restrict(X)
        assert len(restriction) == len(HalfPlanes().restrict((X - 1e6) * 2.0**20))
        realised(restriction, X)

    def test_refusals(self):
        with pytest.raises(InvalidInput, match="exactly 2 features"):
            HalfPlanes().restrict(np.zeros((3, 3)))
        with pytest.raises(InvalidInput, match="needs rows"):
            HalfPlanes().restrict(np.zeros((0, 2)))
        with pytest.raises(ClassTooLarge, match=r"1,002 distinct points allow up to 1,003,004;.*fewer rows"):
            HalfPlanes().restrict(np.random.default_rng(0).normal(size=(1002, 2)))

    def test_pickled(self):
        X = np.random.default_rng(0).normal(size=(5, 2))
        restriction = pickle.loads(pickle.dumps(HalfPlanes().restrict(X)))
        realised(restriction, X)
        assert all(isinstance(restriction.member(i), Member) for i in range(len(restriction)))


class TestRectangles:
    @pytest.mark.parametrize(
        ("X", "count"),
        [
            ([[1.0, 2.0]], 2),
            ([[1.0, 2.0]] * 3, 2),
            ([[float(i), 5.0] for i in range(6)], 22),
            ([[float(i), -float(i)] for i in range(6)], 22),
            (grid(3), 37),
        ],
    )
    def test_degenerate_rows(self, X, count):
        restriction = Rectangles().restrict(X)
        assert len(restriction) == len(splits(restriction)) == count
        assert splits(restriction) == slow.rectangles(X)
        realised(restriction, X)

    def test_random_rows(self):
        X = np.random.default_rng(0).normal(size=(11, 2))
        assert splits(Rectangles().restrict(X)) == slow.rectangles(X)

    def test_refusals(self):
        rng = np.random.default_rng(0)
        with pytest.raises(InvalidInput, match="exactly 2 features"):
            Rectangles().restrict(np.zeros((3, 1)))
        with pytest.raises(ClassTooLarge, match="2,000 distinct points allow at least 2,001,001"):
            Rectangles().restrict(rng.normal(size=(2000, 2)))
        with pytest.raises(ClassTooLarge, match="400 distinct points allow at least"):
            Rectangles().restrict(rng.normal(size=(400, 2)))


def test_importing_hypotheses_does_not_import_numba():
    code = (
        "import sys, observal.paper.hypotheses; print([m for m in ('numba', 'scipy', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
