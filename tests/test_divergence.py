"""Distances of histograms to prototypes that prediction takes."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs.metrics import sinkhorn_distances
from histrs.prototypes._divergence import Divergence, default_reg, ground_distance, normalized
from histrs.transport import grid_ground_distance


@pytest.fixture
def histograms(rng):
    return rng.dirichlet(np.ones(8), 7), rng.dirichlet(np.ones(8), 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_distances_are_divergences_less_what_depends_on_the_row(histograms, dtype):
    X, H = histograms
    M = grid_ground_distance(8)
    found = Divergence(M, 0.4, 1).to(H, X.astype(dtype))
    assert found.dtype == np.float64
    options = {"M": M, "reg": 0.4, "cost": "regularized", "tol": 1e-9, "max_iter": 5000}
    both = sinkhorn_distances(X, H, **options)
    own = np.diag(sinkhorn_distances(H, H, **options))
    tolerance = 1e-7 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(found, both - own / 2, atol=tolerance)


def test_distances_that_did_not_converge_are_warned_of(histograms, monkeypatch):
    X, H = histograms
    monkeypatch.setattr("histrs.prototypes._divergence.MAX_ITER", 1)
    with pytest.warns(ConvergenceWarning, match="pairs did not converge in 1 iterations"):
        Divergence(grid_ground_distance(8), 0.4, 1).to(H, X)


@pytest.mark.parametrize(("dtype", "reg"), [(np.float32, 1e39), (np.float64, 1e308)])
def test_distances_beyond_the_range_are_refused(histograms, dtype, reg):
    X, H = histograms
    with pytest.raises(ValueError, match=f"distances overflow {np.dtype(dtype)}; lower reg"):
        Divergence(grid_ground_distance(8), reg, 1).to(H, X.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_rows_are_normalized_in_a_copy(rng, container, dtype):
    X = rng.integers(0, 4, size=(9, 5)).astype(dtype)
    X[:, 2] += 1
    given = container(X)
    found = normalized(given, 1)
    assert found.dtype == dtype
    dense = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(dense, X / X.sum(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(given.toarray() if sparse.issparse(given) else given, X)


def test_ground_distances_are_symmetric_and_not_negative():
    np.testing.assert_array_equal(ground_distance(None, 8), grid_ground_distance(8))
    M = grid_ground_distance(4)
    np.testing.assert_array_equal(ground_distance(M.tolist(), 4), M)
    for bad in (-1.0, np.nan):
        wrong = M.copy()
        wrong[1, 3] = wrong[3, 1] = bad
        with pytest.raises(
            ValueError, match=rf"M\[1, 3\] = {bad}: a ground distance is non-negative"
        ):
            ground_distance(wrong, 4)


def test_the_default_regularisation_is_a_tenth_of_the_median_distance():
    assert default_reg(np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])) == 0.2
    # Where nothing costs anything, any will do.
    assert default_reg(np.zeros((3, 3))) == 0.1
    assert default_reg(np.array([[3.0]])) == pytest.approx(0.3)
