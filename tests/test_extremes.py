"""Parameters and rows at the ends of their ranges: an answer or an error by name, no warning."""

import numpy as np
import pytest
from scipy import sparse

from histrs.descriptors import FisherVector
from histrs.feature_selection import SelectRelevant
from histrs.gaussian_process import IntersectionGPRegressor
from histrs.kernel_approximation import AdditiveChi2Map, SparseAdditiveMap
from histrs.prototypes import CovarianceCompressor, HistogramCompressor
from histrs.spd import MDM
from histrs.streaming import MomentLasso, PCARidgeClassifier


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("spacing", ["uniform", "log", "quantile"])
def test_more_knots_than_any_column_needs_are_refused(rng, spacing):
    with pytest.raises(ValueError, match="n_knots"):
        SparseAdditiveMap(n_knots=2**63, spacing=spacing).fit(rng.random((12, 3)))


@pytest.mark.parametrize("parameter", ["gamma", "tol"])
def test_parameters_in_single_precision(rng, parameter):
    A = rng.standard_normal((12, 3, 8))
    X, y = A @ A.swapaxes(1, 2), np.arange(12) % 2
    model = CovarianceCompressor(**{parameter: np.float32(0.5)}).fit(X, y)
    other = CovarianceCompressor(**{parameter: 0.5}).fit(X, y)
    np.testing.assert_array_equal(model.prototypes_, other.prototypes_)


@pytest.mark.parametrize("model", [CovarianceCompressor, HistogramCompressor])
@pytest.mark.parametrize("gamma", [1e51, 1e80, 1e300])
def test_an_inverse_temperature_whose_square_overflows_is_named(rng, model, gamma):
    A = rng.standard_normal((12, 3, 8))
    X = A @ A.swapaxes(1, 2) if model is CovarianceCompressor else rng.random((12, 5))
    with pytest.raises(ValueError, match="gamma"):
        model(gamma=gamma).fit(X, np.arange(12) % 2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_largest_inverse_temperature_has_an_answer(rng):
    X, y = rng.random((12, 5)), np.arange(12) % 2
    for scale in (1e-30, 1.0, 1e30):
        model = HistogramCompressor(gamma=1e50, max_iter=5).fit(X * scale, y)
        assert np.isfinite(model.predict_proba(X * scale)).all()


def test_indices_of_two_types(rng):
    X = sparse.random(40, 6, density=0.5, format="csc", random_state=0)
    y = X.toarray()[:, 2] + 0.1 * rng.standard_normal(40)
    expected = SelectRelevant(random_state=0).fit(X, y).probabilities_
    X.indices = X.indices.astype(np.int64)
    assert X.indices.dtype != X.indptr.dtype
    np.testing.assert_array_equal(SelectRelevant(random_state=0).fit(X, y).probabilities_, expected)


@pytest.mark.filterwarnings("ignore:no penalty up to")
def test_the_smallest_penalty_of_few_rows(rng):
    X, y = rng.random((3, 12)), np.array([0, 1, 1])
    model = PCARidgeClassifier(7, alphas=1e-300).fit(X * 1e-2, y)
    assert np.isfinite(model.predict_proba(X * 1e-2)).all()


def test_fisher_vectors_of_large_features(rng):
    X = [rng.integers(-9, 9, (30, 1)) for _ in range(4)]
    model = FisherVector(2, power=1.0).fit(X)
    expected = model.transform([1e3 * x for x in X])
    large = model.transform([1e100 * x for x in X])
    assert np.isfinite(large).all()
    np.testing.assert_allclose(np.linalg.norm(large, axis=1), np.linalg.norm(expected, axis=1))
    with pytest.raises(ValueError, match="overflow"):
        model.transform([X[0], 1e200 * X[1]])


def test_any_gap_is_below_an_infinite_tolerance(rng):
    X = rng.random((12, 4)) * 1e10
    assert np.isfinite(MomentLasso(tol=1e300).fit(X, X[:, 0] * 1e10).coef_).all()


@pytest.mark.parametrize("scale", [1e-60, 1e-44, 1e30, 3e38, 4e38, 1e39, 1e60])
@pytest.mark.parametrize("columns", [1, 3])
def test_bounds_of_tables_hold_beyond_single_precision(scale, columns):
    rng = np.random.default_rng(0)
    X = scale * rng.random((200, columns))
    y = X.sum(axis=1) / scale
    model = IntersectionGPRegressor(n_bins=100, optimizer=None, random_state=0).fit(X, y)
    coarse, bound = model.predict(X), model.quantization_error_bound_
    off = np.abs(coarse - model.set_params(n_bins=None).predict(X)).max()
    assert off <= bound
    assert bound < 0.2


def test_distances_beyond_single_precision_are_infinite():
    A = np.array([1.0, 2.0, 1e60, 2e60]).reshape(4, 1, 1)
    model = MDM(metric="euclid").fit(A, [0, 0, 1, 1])
    D = model.transform(A[:2].astype(np.float32))
    assert D.dtype == np.float32
    np.testing.assert_array_equal(D, [[0.5, np.inf], [0.5, np.inf]])


def test_powers_of_a_hundred_thousand_have_one_maximum():
    # Each of as many equal poles was searched behind, for minutes.
    rows = np.random.default_rng(0).random((3, 2))
    model = AdditiveChi2Map(100_000, method="power").fit(rows)
    assert 0.0 <= model.kernel_error_bound_ < 0.01
