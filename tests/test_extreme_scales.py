"""Either end of double precision: no warning of NumPy, no foreign error."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from histrs._solvers.lanczos import Lanczos
from histrs._solvers.log_det import lanczos_log_det, largest_eigenvalue_bound, rademacher
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
)
from histrs.gaussian_process._cached_variance import _new_directions
from histrs.gaussian_process._spectrum import Measure
from histrs.kernel_approximation import ExpChi2Sampler
from histrs.neighbors import MetricKNNRegressor
from histrs.prototypes import FastCondensedNN, RandomSubset
from histrs.quantization import ProductQuantizer
from histrs.spd import MDM, CommonRange, TangentSpace
from histrs.streaming import PCARidge
from histrs.svm import IntersectionSVC

ignore_iterations = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

OPTIONS = {
    "defaults": {},
    "cg": {"solver": "cg"},
    "bound": {"solver": "cg", "log_det": "bound", "optimizer": "nelder-mead"},
    "greedy": {"solver": "greedy-block", "optimizer": None},
    "fine": {"solver": "cg", "variance": "fine"},
    "cached": {"solver": "cg", "variance": "cached"},
    "descent": {"solver": "coordinate-descent", "optimizer": None},
}


@ignore_iterations
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e290])
@pytest.mark.parametrize("weights", ["scale", None])
def test_features_of_any_size(rng, options, scale, weights):
    X = rng.random((16, 2))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=16)
    X *= scale
    classifier = IntersectionGPClassifier(max_iter=20, feature_weights=weights, **options)
    probabilities = classifier.fit(X, y > 0).predict_proba(X)
    assert np.isfinite(probabilities).all()
    for size in (1.0, 1e300):
        model = IntersectionGPRegressor(max_iter=20, feature_weights=weights, **options)
        refusal = None
        try:
            model.fit(X, y * size)
        except ValueError as error:
            refusal = str(error)
        if refusal is not None:
            # Features and targets whose quotient a double does not hold.
            assert weights is None
            assert size == 1e300
            assert "weights overflow. Scale y down" in refusal
            continue
        mean, std = model.predict(X, return_std=True)
        assert np.isfinite(mean).all()
        # Where the solver stopped early, bounds times the unit may be beyond a double.
        assert np.isfinite(std).all() or (weights is None and size == 1e300)
        assert (std >= 0.0).all()


@pytest.mark.parametrize("exponent", [-600, 600, 900])
def test_quadratures_of_matrices_of_any_size(rng, exponent):
    root = rng.normal(size=(60, 60))
    A = root @ root.T + 60 * np.eye(60)
    Z = rademacher(60, 8, rng)
    unit = lanczos_log_det(lambda V: A @ V, Z, derivative=True)
    scaled = lanczos_log_det(lambda V: np.ldexp(A @ V, exponent), Z, derivative=True)
    assert scaled.value == pytest.approx(unit.value + 60 * exponent * np.log(2.0), rel=1e-9)
    np.testing.assert_allclose(
        np.ldexp(scaled.V @ scaled.V.T, exponent), unit.V @ unit.V.T, rtol=1e-6, atol=1e-12
    )
    lanczos = Lanczos(lambda V: np.ldexp(A @ V, exponent), Z, keep_basis=True, max_steps=60)
    lanczos.run(60)
    values, _ = next(iter(lanczos.tridiagonals())).eigen()
    np.testing.assert_allclose(np.ldexp(values[-1], -exponent), np.linalg.eigvalsh(A)[-1])


def test_a_bound_from_a_vector_of_any_size(rng):
    A = rng.random((20, 20))
    A = A @ A.T
    largest = np.linalg.eigvalsh(A)[-1]
    for size in (1e-200, 1.0, 1e200):
        bound = largest_eigenvalue_bound(lambda V: 1e200 * (A @ V), size * rng.random(20), 1e300)
        assert largest <= bound / 1e200 <= 1.2 * largest


def test_powers_of_large_nodes():
    measure = Measure(np.array([0.0, 1e200]), np.array([3.0, 1.0]))
    assert measure.inverse(0.5, power=2) == 12.0
    assert measure.inverse(0.5) == 6.0
    assert measure.inverse(1e-310) == np.inf


@ignore_iterations
@pytest.mark.parametrize("fixed", [{}, {"noise_bounds": "fixed"}, {"amplitude_bounds": "fixed"}])
def test_a_kernel_that_is_nearly_zero(rng, fixed):
    X, y = rng.random((5, 12)) * 1e-312, rng.random(5)
    model = IntersectionGPRegressor(
        optimizer="nelder-mead", feature_weights=None, max_iter=20, **fixed
    )
    mean, std = model.fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(mean, y.mean())
    assert np.isfinite(std).all()


@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 1e300])
def test_directions_go_on_where_the_space_ends(rng, size):
    Q = np.linalg.qr(rng.normal(size=(30, 12)))[0]
    # Nothing new, twice the same, and something.
    new = rng.normal(size=30)
    V = size * np.column_stack([Q @ rng.normal(size=12), new, new, rng.normal(size=30)])
    W = _new_directions(Q, V, np.random.default_rng(0))
    basis = np.hstack([Q, W])
    np.testing.assert_allclose(basis.T @ basis, np.eye(16), atol=1e-11)
    V = V / size if size > 0 else V
    assert np.linalg.norm(V - basis @ (basis.T @ V)) <= 1e-10


@ignore_iterations
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e300, 1e307])
@pytest.mark.parametrize("weight", ["learned", 0.3])
def test_the_minmax_kernel_of_features_of_any_size(rng, scale, weight):
    X = rng.random((16, 5))
    y = (X[:, 0] > 0.5).astype(int)
    model = MinMaxGPClassifier(intersection_weight=weight, optimizer=None).fit(X, y)
    scaled = MinMaxGPClassifier(intersection_weight=weight, optimizer=None).fit(scale * X, y)
    expected, found = model.predict_proba(X), scaled.predict_proba(scale * X)
    # Denormal numbers have few digits.
    np.testing.assert_allclose(found, expected, atol=1e-6 if scale > 1e-310 else 0.02)


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e300])
def test_columns_of_a_support_vector_machine_of_any_size(rng, scale):
    X = rng.random((24, 5)) + 0.1
    y = (X[:, 0] > 0.5).astype(int)
    expected = IntersectionSVC(random_state=0).fit(X, y).predict(X)
    found = IntersectionSVC(random_state=0).fit(scale * X, y).predict(scale * X)
    assert np.mean(found == expected) > 0.9


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1.7e308])
def test_prototypes_at_any_distance(rng, scale):
    X = rng.random((24, 5))
    y = (X[:, 0] > 0.5).astype(int)
    probabilities = RandomSubset(0.2, random_state=0).fit(scale * X, y).predict_proba(scale * X)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-80, 1e80, 1e160, 1e290])
@pytest.mark.parametrize("metric", ["euclid", "logeuclid", "airm", "jbld"])
def test_minimum_distances_to_means_of_any_size(rng, scale, metric):
    y = np.arange(30) % 2
    A = rng.standard_normal((30, 3, 20)) * (1 + y)[:, None, None]
    X = A @ A.transpose(0, 2, 1) / 20
    model = MDM(metric=metric).fit(X, y)
    scaled = MDM(metric=metric).fit(scale * X, y)
    np.testing.assert_allclose(scaled.predict_proba(scale * X), model.predict_proba(X), atol=1e-5)
    unit = scale if metric == "euclid" else 1.0
    np.testing.assert_allclose(scaled.transform(scale * X), unit * model.transform(X), rtol=1e-5)
    # What is far beyond all means is of a class all the same.
    if metric == "euclid":
        assert np.isfinite(scaled.predict_proba(1e300 * X / X.max())).all()


def test_targets_of_neighbours_whose_squares_overflow():
    X = np.random.default_rng(0).random((30, 3))
    y = 1e200 * np.arange(30.0)
    huge = MetricKNNRegressor("auto", weights="auto").fit(X, y)
    plain = MetricKNNRegressor("auto", weights="auto").fit(X, y / 1e200)
    assert huge.n_neighbors_ == plain.n_neighbors_
    np.testing.assert_allclose(huge.predict(X[:5]), 1e200 * plain.predict(X[:5]))


def test_common_range_of_tiny_and_huge_channels():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 3, 8))
    A -= A.mean(axis=1, keepdims=True)
    C = A @ A.transpose(0, 2, 1)
    units = np.array([1e-155, 1.0, 1.0])
    model = CommonRange().fit(C * units * units[:, None])
    assert model.rank_ == 2


def test_coordinates_whose_exponential_overflows_are_refused():
    C = np.eye(2) + np.zeros((3, 1, 1))
    model = TangentSpace().fit(C)
    with pytest.raises(ValueError, match="exponential overflows"):
        model.inverse_transform([[2000.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"[Cc]omplex"):
        model.inverse_transform(np.array([[1j, 0.0, 0.0]]))


def test_scores_beyond_single_precision_are_infinite():
    X = np.random.default_rng(0).random((30, 2))
    model = PCARidge().fit(X, 1e38 * X[:, 0])
    scores = model.predict(np.float32([[1e30, 1.0]]))
    assert scores.dtype == np.float32
    assert np.isinf(scores).all()


def test_scores_whose_terms_cancel_beyond_the_range_are_refused():
    X = np.random.default_rng(0).random((300, 64))
    signs = np.resize([1.0, -1.0], 64)
    model = PCARidge(alphas=1e-12).fit(X, 1e100 * (X @ signs))
    with pytest.raises(ValueError, match="row 1 of X with the coefficients overflow"):
        model.predict([np.ones(64), np.full(64, 1e250)])


def test_kernels_that_nearly_vanish():
    X = 1e-313 * np.random.default_rng(0).random((12, 4))
    y = np.resize([0.0, 1.0], 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for parameters in ({}, {"amplitude_bounds": "fixed"}):
            model = MinMaxGPRegressor(**parameters).fit(X, y)
            assert np.all(np.isfinite(model.dual_coef_))


def test_a_scale_is_chosen_by_targets_of_any_size():
    X = np.random.default_rng(0).random((40, 4))
    y = X[:, 0] - X[:, 1]
    chosen = [ExpChi2Sampler(gamma="auto", random_state=0).fit(X, s * y).gamma_ for s in (1, 1e250)]
    assert chosen[0] == chosen[1]


def test_rows_without_labels_are_refused_where_labels_choose_a_scale():
    X = np.random.default_rng(0).random((12, 4))
    with pytest.raises(ValueError, match="label"):
        ExpChi2Sampler(gamma="auto").fit(X, [None] * 12)


def test_columns_and_coordinates_beyond_single_precision():
    rng = np.random.default_rng(0)
    X = rng.random((20, 3))
    X[:, 0] = 1e200 * (1.0 + X[:, 0])
    model = IntersectionSVC(random_state=0).fit(X, X[:, 1] > 0.5)
    assert model.predict(np.float32(rng.random((4, 3)))).shape == (4,)
    C = 1e30 * np.eye(2) + np.zeros((3, 1, 1))
    with pytest.raises(ValueError, match="beyond float32"):
        TangentSpace().fit(C).inverse_transform(np.float32([[60.0, 0.0, 0.0]]))


def test_prototypes_whose_distances_are_tiny_beside_those_of_queries():
    X = 1e-160 * np.arange(12.0)[:, None]
    y = np.resize([0, 1], 12)
    model = FastCondensedNN(metric="euclidean").fit(X, y)
    P = model.predict_proba(np.array([[1e100], [0.0]]))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)


def test_codewords_beyond_the_precision_of_the_first_rows_are_refused():
    rng = np.random.default_rng(0)
    model = ProductQuantizer(1, 2, random_state=0).partial_fit(np.float32(rng.random((9, 2))))
    before = model.codebooks_.copy()
    with pytest.raises(ValueError, match="beyond float32"):
        model.partial_fit(1e150 * rng.random((9, 2)))
    np.testing.assert_array_equal(model.codebooks_, before)
