"""Scores of rows against weighted training rows, exact or from a table."""

import numpy as np
import pytest
from scipy import sparse

from histrs import _histrs
from histrs.gaussian_process._bound import scores as _score
from histrs.gaussian_process._bound.scores import ExactScore, SumOfScores, TabulatedScore
from tests.oracles.intersection import intersection_kernel

each = pytest.mark.parametrize


@pytest.fixture(name="columns")
def sorted_columns(rows):
    return _histrs.SortedColumns(rows, 1)


@pytest.fixture
def rows(rng):
    return rng.integers(0, 40, (50, 3)).astype(float)


@pytest.fixture
def weights(rng):
    return rng.normal(size=(50, 2))


@each("room", [-1, 0, 1])
@each("container", [np.asarray, sparse.csr_array])
def test_functions_are_kept_where_there_is_room(
    monkeypatch, rng, columns, rows, weights, room, container
):
    # The place of each knot, and the value of each output there.
    needed = columns.n_knots * 3 * 8
    monkeypatch.setattr(_score, "_MAX_TABLE_BYTES", needed + room)
    score = ExactScore(columns, weights, 1)
    assert (score._functions is not None) == (room >= 0)
    others = 50.0 * rng.random((20, 3))
    expected = intersection_kernel(others, rows) @ weights
    np.testing.assert_allclose(score.evaluate(container(others), 1), expected, atol=1e-9)
    np.testing.assert_array_equal(score.error_bound(), [0.0, 0.0])
    assert not score.takes_features


@each("interpolation", ["linear", "nearest"])
@each("compact", [False, True])
@each("container", [np.asarray, sparse.csr_array])
def test_tables_know_how_far_off_they_are(
    rng, columns, rows, weights, interpolation, compact, container
):
    score = TabulatedScore(columns, weights, 64, interpolation, 1, compact=compact)
    # Of whole numbers, a linear table is as good where it is of bytes.
    assert score.takes_features == (compact and interpolation == "linear")
    others = container(50.0 * rng.random((20, 3)))
    exact = intersection_kernel(others, rows) @ weights
    off = np.abs(score.evaluate(others, 1) - exact).max(axis=0)
    assert np.all(off <= score.error_bound() + 1e-9)
    # Bytes are numbers like others.
    whole = rng.integers(0, 50, (20, 3))
    np.testing.assert_allclose(
        score.evaluate(whole.astype(np.uint8), 1), score.evaluate(whole.astype(float), 1), atol=1e-9
    )


def test_a_table_of_bytes_counts_the_weights_of_features_in(rng, rows, weights):
    of_features = np.array([2.0, 0.5, 3.0])
    columns = _histrs.SortedColumns(of_features * rows, 1)
    score = TabulatedScore(
        columns, weights, 64, "linear", 1, compact=True, feature_weights=of_features
    )
    assert score.takes_features
    others = 50.0 * rng.random((20, 3))
    exact = intersection_kernel(of_features * others, of_features * rows) @ weights
    assert np.all(np.abs(score.evaluate(others, 1) - exact) <= score.error_bound() + 1e-9)


def test_intercepts_are_added_to_the_scores_of_all_rows(rng, columns, weights):
    score = ExactScore(columns, weights, 1)
    shifted = SumOfScores(score, intercepts=np.array([3.0, -5.0]))
    others = 50.0 * rng.random((20, 3))
    expected = score.evaluate(others, 1) + np.array([3.0, -5.0])
    np.testing.assert_array_equal(shifted.evaluate(others, 1), expected)
    table = TabulatedScore(columns, weights, 64, "linear", 1, compact=True)
    shifted = SumOfScores(table, intercepts=np.array([3.0, -5.0]))
    np.testing.assert_array_equal(shifted.error_bound(), table.error_bound())
    assert shifted.takes_features
