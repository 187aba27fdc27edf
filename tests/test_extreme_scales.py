"""Either end of double precision: an answer or an error by name, no warning of NumPy."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from histrs._calibration import likely_inverse_temperature
from histrs.descriptors import BagOfVisualWords, FisherVector
from histrs.feature_selection import SelectRelevant
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
)
from histrs.gaussian_process.kernels import Constant, MinMax
from histrs.kernel_approximation import (
    AdditiveChi2Map,
    ExpChi2Sampler,
    SlicedDistanceMap,
    SparseAdditiveMap,
)
from histrs.neighbors import MetricKNNClassifier, MetricKNNRegressor
from histrs.neighbors._base import votes
from histrs.prototypes import (
    CovarianceCompressor,
    FastCondensedNN,
    HistogramCompressor,
    RandomSubset,
)
from histrs.quantization import ProductQuantizer
from histrs.spd import MDM, CommonRange, TangentSpace, Whitening
from histrs.streaming import MomentLasso, PCARidge, PCARidgeClassifier, StreamingPCA
from histrs.svm import BundleSVC, IntersectionSVC
from histrs.transport import (
    centroid_bounds,
    projection_bounds,
    relaxed_bounds,
    sinkhorn_barycenter,
    sinkhorn_divergences,
)
from tests.helpers import build

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
    classifier = build(IntersectionGPClassifier, max_iter=20, feature_weights=weights, **options)
    probabilities = classifier.fit(X, y > 0).predict_proba(X)
    assert np.isfinite(probabilities).all()
    for size in (1.0, 1e300):
        model = build(IntersectionGPRegressor, max_iter=20, feature_weights=weights, **options)
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


@ignore_iterations
@pytest.mark.parametrize("fixed", [{}, {"noise_bounds": "fixed"}, {"amplitude_bounds": "fixed"}])
def test_a_kernel_that_is_nearly_zero(rng, fixed):
    X, y = rng.random((5, 12)) * 1e-312, rng.random(5)
    model = build(
        IntersectionGPRegressor,
        optimizer="nelder-mead",
        feature_weights=None,
        intercept_variance=0.0,
        max_iter=20,
        **fixed,
    )
    mean, std = model.fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(mean, y.mean())
    assert np.isfinite(std).all()


@ignore_iterations
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e300, 1e307])
@pytest.mark.parametrize("weight", [0.5, 0.3])
def test_the_minmax_kernel_of_features_of_any_size(rng, scale, weight):
    X = rng.random((16, 5))
    y = (X[:, 0] > 0.5).astype(int)
    model, scaled = (
        MinMaxGPClassifier(MinMax(weight), optimizer=None, random_state=0).fit(rows, y)
        for rows in (X, scale * X)
    )
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


def test_scores_beyond_single_precision_are_infinite():
    X = np.random.default_rng(0).random((30, 2))
    model = PCARidge().fit(X, 1e38 * X[:, 0])
    scores = model.predict(np.float32([[1e30, 1.0]]))
    assert scores.dtype == np.float32
    assert np.isinf(scores).all()


X = np.random.default_rng(0).random((12, 3))
Y = np.arange(12) % 2
C = np.eye(2) + np.zeros((12, 1, 1))
WIDE = np.random.default_rng(0).random((300, 64))
LARGE = np.where(np.arange(36).reshape(12, 3) == 10, 1.5e308, X)

SINGLE = np.float32(X)

REFUSED = [
    ("exponential overflows", lambda: TangentSpace().fit(C).inverse_transform([[2000.0, 0, 0]])),
    (r"[Cc]omplex", lambda: TangentSpace().fit(C).inverse_transform([[1j, 0.0, 0.0]])),
    ("row 1 of X with the coefficients overflow",
     lambda: PCARidge(alphas=1e-12).fit(WIDE, 1e100 * (WIDE @ np.resize([1.0, -1.0], 64))).predict(
         [np.ones(64), np.full(64, 1e250)])),
    ("label", lambda: ExpChi2Sampler(gamma="auto").fit(X, [None] * 12)),
    (r"X\[\d\] to itself overflows",
     lambda: sinkhorn_divergences(1e200 * np.array([[1.0, 0.0], [0.5, 0.5]]),
                                  M=1e300 * (1.0 - np.eye(2)), reg=1e299)),
    (r"reg = 1e\+300",
     lambda: HistogramCompressor(reg=1e300, max_iter=2).fit(np.float32(X), Y)),
    ("overflow float64; divide the columns by a scale",
     lambda: MomentLasso(fit_intercept=False).fit(1e160 + 0 * X, Y)),
    ("weights overflow in units of X",
     lambda: IntersectionSVC(eta0=2**63, max_iter=5, random_state=0).fit(1e300 * X, Y)),
    ("codewords exceed the range of float32: give float64",
     lambda: ProductQuantizer(3, 3).fit(1e60 * X).transform(np.float32(X))),
    *[(r"X\[3, 1\] = 1.5e\+308: (sums|squares) of such values",
       partial(ProductQuantizer(1, 3, metric=metric).fit, LARGE))
      for metric in ("hellinger", "chi2", "euclidean")],
    *[("n_knots", partial(SparseAdditiveMap(n_knots=2**63, spacing=spacing).fit, X))
      for spacing in ("uniform", "log", "quantile")],
    *[("gamma", partial(model(gamma=gamma).fit, rows, Y)) for gamma in (1e51, 1e80, 1e300)
      for model, rows in ((CovarianceCompressor, C), (HistogramCompressor, X))],
    ("exceed the range of float32",
     lambda: TangentSpace().fit(1e30 * C).inverse_transform(np.float32([[60.0, 0.0, 0.0]]))),
    (r"Entries of X\[2\] overflow: it is too large beside",
     lambda: Whitening().fit(1e-200 * C).transform([1e-200 * C[0], C[0], 1e200 * C[0]])),
    ("exceed the range of float32: give float64",
     lambda: SlicedDistanceMap(4, random_state=0).fit(1e60 * (X - 0.5)).transform(SINGLE)),
    ("roots of the inner product of the fit exceed the range of float32",
     lambda: SparseAdditiveMap(whiten=True).fit(1e100 * X).transform(SINGLE)),
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_what_no_number_holds_is_refused_by_its_name(message, call):
    with pytest.raises(ValueError, match=message):
        call()


SHARES = [[1e-320, 2e-320], [1e300, 1e300]]
POLES = [[5e-324, 1e-322], [1e-320, 0.0]]
COLUMN = 1e-160 * np.arange(12.0)[:, None]

PROBABILITIES = [
    lambda: FastCondensedNN(metric="euclidean").fit(COLUMN, Y).predict_proba([[1e100], [0.0]]),
    lambda: IntersectionSVC(probability=True, random_state=0, max_iter=10).fit(
        X, Y, sample_weight=np.r_[1e307, np.ones(11)]).predict_proba(X),
    lambda: PCARidgeClassifier(7, alphas=1e-300).fit(1e-2 * WIDE[:3, :12], [0, 1, 1]).predict_proba(
        1e-2 * WIDE[:3, :12]),
    *[partial(lambda model, rows: model.fit(rows, Y).predict_proba(rows), model, scale * X)
      for model, scales in ((RandomSubset(0.2, random_state=0), (1e-320, 1e-200, 1e200, 1.7e308)),
                            (HistogramCompressor(gamma=1e50, max_iter=5), (1e-30, 1.0, 1e30)))
      for scale in scales],
]  # fmt: skip


@ignore_iterations
@pytest.mark.filterwarnings("ignore:no penalty up to")
@pytest.mark.parametrize("call", PROBABILITIES)
def test_probabilities_at_either_end_sum_to_one(call):
    np.testing.assert_allclose(call().sum(axis=1), 1.0)


FINITE = [
    lambda: MinMaxGPRegressor(MinMax(), random_state=0).fit(1e-313 * X, Y).dual_coef_,
    lambda: MinMaxGPRegressor(Constant(1.0, "fixed") * MinMax(), random_state=0).fit(
        1e-313 * X, Y).dual_coef_,
    lambda: AdditiveChi2Map(method="rational").fit_transform(POLES).sum(axis=1),
    lambda: AdditiveChi2Map(method="chebyshev").fit_transform(POLES).sum(axis=1),
    lambda: AdditiveChi2Map(per_column=True).fit(SHARES).relative_error_,
    # Intervals between samples of any length have a bound.
    lambda: AdditiveChi2Map(method="periodic", sample_interval=2**63).fit(X).kernel_error_bound_,
    lambda: Whitening().fit(1e-200 * C).transform(1e-200 * C),
    lambda: SlicedDistanceMap(4, random_state=0).fit_transform(1e60 * (X - 0.5)),
    lambda: SparseAdditiveMap(whiten=True).fit_transform(1e100 * X).data,
    lambda: IntersectionSVC(random_state=0).fit(X * [1e200, 1.0, 1.0], Y).predict(SINGLE),
    # Any gap is below an infinite tolerance.
    lambda: MomentLasso(tol=1e300).fit(1e10 * X, 1e20 * X[:, 0]).coef_,
]  # fmt: skip


@ignore_iterations
@pytest.mark.parametrize("call", FINITE)
def test_answers_at_either_end_are_finite(call):
    assert np.isfinite(call()).all()


def test_a_scale_is_chosen_by_targets_of_any_size():
    X = np.random.default_rng(0).random((40, 4))
    y = X[:, 0] - X[:, 1]
    chosen = [ExpChi2Sampler(gamma="auto", random_state=0).fit(X, s * y).gamma_ for s in (1, 1e250)]
    assert chosen[0] == chosen[1]


def test_codewords_beyond_the_precision_of_the_first_rows_are_refused():
    rng = np.random.default_rng(0)
    model = ProductQuantizer(1, 2, random_state=0).partial_fit(np.float32(rng.random((9, 2))))
    before = model.codebooks_.copy()
    with pytest.raises(ValueError, match="overflow float32"):
        model.partial_fit(1e150 * rng.random((9, 2)))
    np.testing.assert_array_equal(model.codebooks_, before)


@pytest.mark.parametrize("whiten", [False, True])
def test_projections_that_overflow_are_refused_by_their_row(rng, whiten):
    X = rng.random((12, 3))
    model = StreamingPCA(whiten=whiten).fit(1e-150 * X if whiten else X)
    largest = 1.7e308 * np.sign(model.components_[0])
    queries = np.stack([np.zeros(3), largest, np.zeros(3)])
    for rows in (queries, sparse.csr_array(queries)):
        with pytest.raises(ValueError, match=r"projections of X\[1\] overflow: scale X down"):
            model.transform(rows)
    if not whiten:
        with pytest.raises(ValueError, match=r"features of X\[0\] overflow"):
            model.inverse_transform(1.7e308 * np.sign(model.components_[:, :1].T))
    single = StreamingPCA().fit(1e100 * X)
    with pytest.raises(ValueError, match="give float64"):
        single.transform(np.float32(X))
    before = pickle.dumps(chunked := StreamingPCA().partial_fit(1e100 * X))
    with pytest.raises(ValueError, match="give float64"):
        chunked.inverse_transform(np.zeros((1, 3), np.float32))
    assert pickle.dumps(chunked) == before


def test_divergences_where_earth_may_not_move():
    M = np.array([[0.0, np.inf, 1.0], [np.inf, 0.0, 1.0], [1.0, 1.0, 0.0]])
    X = np.array([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    D = sinkhorn_divergences(X, M=M, reg=0.5)
    large = np.where(np.isinf(M), 300.0, M)
    np.testing.assert_allclose(D, sinkhorn_divergences(X, M=large, reg=0.5), atol=1e-6)
    M[1, 0] = 5.0
    with pytest.raises(ValueError, match="not symmetric"):
        sinkhorn_divergences(X, M=M, reg=0.5)


@pytest.mark.parametrize("scale", [1e-320, 1e-310, 1.0, 1e150, 1e308])
def test_votes_by_distances_of_any_size(scale):
    distances = scale * np.array([[0.0, 0.0, 0.5], [0.5, 1.0, 1.5], [0.0, 1.5, 1.5]])
    expected = [[1.0, 1.0, 0.0], [1.0, 0.5, 1 / 3], [1.0, 0.0, 0.0]]
    # Denormal numbers have few digits.
    np.testing.assert_allclose(votes(distances, "distance"), expected, rtol=1e-3)
    infinite = np.array([[1.0, np.inf], [np.inf, np.inf]])
    np.testing.assert_array_equal(votes(infinite, "distance"), [[1.0, 0.0], [1.0, 1.0]])


def test_rows_whose_sum_is_beyond_the_unit_of_the_first_fit_are_refused(rng):
    X, y = rng.random((12, 4)), np.arange(12.0)
    model = MinMaxGPRegressor(optimizer=None, random_state=0).fit(1e-300 * X, y)
    for call in (lambda: model.predict(1e100 * X, return_std=True),
                 lambda: model.partial_fit(1e100 * X, y)):  # fmt: skip
        with pytest.raises(ValueError, match="the mean of the first fit: give rows of one scale"):
            call()
    assert np.isfinite(model.predict(1e-300 * X)).all()


@pytest.mark.parametrize("gamma", ["scale", "median", "auto"])
def test_scales_of_which_one_over_overflows_are_refused(rng, gamma):
    X, y = rng.random((12, 4)), np.arange(12) % 2
    with pytest.raises(ValueError, match="scale X, or give gamma"):
        ExpChi2Sampler(gamma=gamma, random_state=0).fit(1e-315 * X, y)
    # The kernel does not depend on the unit.
    K, L = (
        (Z := ExpChi2Sampler(400, gamma=gamma, random_state=0).fit_transform(s * X, y)) @ Z.T
        for s in (1.0, 2.0**900)
    )
    np.testing.assert_allclose(K, L, atol=1e-9)


def test_sums_of_sparse_rows_in_single_precision():
    X = sparse.csr_array(np.full((3, 40), 1e38, np.float32))
    model = AdditiveChi2Map(3, method="rational").fit(X)
    dense = AdditiveChi2Map(3, method="rational").fit(X.toarray())
    assert model.relative_error_ == pytest.approx(dense.relative_error_, rel=1e-3)


def test_common_range_at_the_ends_of_double_precision(rng):
    A = rng.normal(size=(40, 3, 8))
    A -= A.mean(axis=1, keepdims=True)
    C = A @ A.transpose(0, 2, 1)
    largest = C.max()
    model = CommonRange().fit(C)
    for scale in (1e-305, 1e-150, 3e307 / largest):
        scaled = CommonRange().fit(scale * C)
        assert scaled.rank_ == 2
        projected = scaled.transform(scale * C)
        np.testing.assert_allclose(
            np.linalg.eigvalsh(projected / scale), np.linalg.eigvalsh(model.transform(C))
        )
    back = model.inverse_transform(np.float32(model.transform(C)))
    assert back.dtype == np.float32
    np.testing.assert_allclose(back, C, atol=1e-4)
    with pytest.raises(ValueError, match="infinity"):
        model.inverse_transform(np.full((1, 2, 2), np.inf))
    rows = model.components_
    signs = np.sign(rows[np.argmax(np.abs(rows).sum(axis=1))])
    with pytest.raises(ValueError, match=r"Entries of X\[0\] overflow"):
        model.inverse_transform(1.79e308 * (signs * signs[:, None])[None])
    with pytest.raises(ValueError, match="beyond the variances of its channels"):
        CommonRange().fit([[[1e-300, 1e300], [1e300, 1e-300]]])


@pytest.mark.parametrize("selection", ["gcv", "loo"])
@pytest.mark.parametrize("weight", [1e-320, 1e-250, 1e-200, 1e160, 1e200, 1e305])
def test_ridge_of_weights_of_any_size(rng, selection, weight):
    X = rng.random((40, 4))
    y = X @ [1.0, 2.0, 3.0, 4.0] + 0.1 * rng.normal(size=40)
    plain = PCARidge(selection="gcv").fit(X, y)
    if not 1e-280 < weight < 1e290:
        with pytest.raises(ValueError, match="beyond the range of double precision: scale"):
            PCARidge(selection=selection).fit(X, y, sample_weight=np.full(40, weight))
        return
    model = PCARidge(selection=selection).fit(X, y, sample_weight=np.full(40, weight))
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=0.2)


def test_penalties_of_which_one_over_overflows_are_refused(rng):
    X, y = rng.random((12, 2)), np.arange(12.0)
    with pytest.raises(ValueError, match="one over a penalty below 1e-300 overflows"):
        PCARidge(alphas=1e-310).fit(X, y)
    with pytest.raises(ValueError, match="beyond the range of double precision"):
        PCARidge().fit(1e-155 * X, y)
    # An error of which the square overflows is not the least.
    X, y = np.array([[0.0], [0.001], [0.002], [1000.0]]), 1e153 * np.array([1.0, 0.0, -1.0, 1.0])
    with pytest.warns(UserWarning, match="the largest of alphas"):
        model = PCARidge(alphas=[1e-12, 1e12], selection="loo").fit(X, y)
    assert np.isinf(model.errors_[0])
    assert model.alpha_ == 1e12


@pytest.mark.parametrize("weight", [1e200, 1.7e308])
def test_weights_whose_products_or_sums_overflow_are_refused(rng, weight):
    X = rng.random((24, 3))
    y = np.arange(24) % 2
    factors = {0: weight, 1: weight}
    rows = np.full(24, weight)
    for model in (IntersectionSVC(class_weight=factors), PCARidgeClassifier(class_weight=factors)):
        with pytest.raises(ValueError, match=r"overflow.*by a scale"):
            model.fit(X, y, sample_weight=rows)
    with pytest.raises(ValueError, match=r"overflow|finite"):
        MetricKNNClassifier("auto", class_weight=factors).fit(X, y, sample_weight=rows)
    if weight > 1e307:
        for model in (MetricKNNClassifier(3), MetricKNNRegressor(3), RandomSubset(0.5)):
            with pytest.raises(ValueError, match="sum of sample_weight overflows; divide it"):
                model.fit(X, y, sample_weight=rows)
    model = MetricKNNRegressor("auto", weights="auto")
    model.fit(X, y, sample_weight=np.r_[1e200, np.ones(23)])
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_bundles_of_weights_of_any_size(rng, loss):
    X = rng.random((40, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=40) > 0.5).astype(int)
    options = {"loss": loss, "random_state": 0, "max_iter": 100}
    plain = BundleSVC(alpha=0.01, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain.fit(X, y)
        for exponent in (-1000, 1000):
            unit = 2.0**exponent
            weights = plain.__class__(
                alpha=0.01 * unit, class_weight={0: unit, 1: unit}, **options
            ).fit(X, y, sample_weight=np.full(40, 2.0**1020))
            np.testing.assert_array_equal(weights.coef_, plain.coef_)
            np.testing.assert_array_equal(weights.objective_, plain.objective_ * unit)
            np.testing.assert_array_equal(weights.dual_gap_, plain.dual_gap_ * unit)
        # All that counts is the regulariser.
        tiny = BundleSVC(class_weight={0: 1e-300, 1: 1e-300}, **options).fit(X, y)
        np.testing.assert_allclose(tiny.coef_, 0.0, atol=1e-200)
        with pytest.raises(ValueError, match="alpha = 1e-300 is too small beside"):
            BundleSVC(alpha=1e-300, **options).fit(X, y)
        with pytest.raises(ValueError, match="alpha = 1e-300 is too small beside"):
            BundleSVC(alpha=[1e-300, 1.0], **options).fit(X, y)
        with pytest.raises(ValueError, match="too small beside class_weight"):
            BundleSVC(class_weight={0: 1e300, 1: 1.0}, **options).fit(X, y)


def test_an_inverse_temperature_of_distances_of_which_one_is_huge():
    distances = np.array([[1e-300, 1.0], [1.0, 1e-300], [1e-300, 1.7e308]])
    found = likely_inverse_temperature(distances, np.array([0, 1, 0]), np.ones(3))
    assert 0.0 < found < np.inf


def test_words_whose_squares_single_precision_cannot_hold(rng):
    X = rng.random((12, 2))
    wide = BagOfVisualWords(3, random_state=0, assignment="soft").fit(X * 1e30)
    found = wide.transform(np.float32(1e30 * X)[None])
    np.testing.assert_allclose(found, wide.transform(1e30 * X[None]), rtol=1e-4)


@ignore_iterations
@pytest.mark.parametrize("weight", [np.float32(0.5), 1e30])
def test_parameters_may_be_as_large_as_every_precision_holds(weight):
    CovarianceCompressor(prior_weight=weight, max_iter=2).fit(C, Y)


def test_barycentres_of_histograms_whose_sum_single_precision_cannot_hold():
    M = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    X = np.full((2, 3), 3e38, np.float32)
    np.testing.assert_allclose(sinkhorn_barycenter(X, M=M, reg=1.0).sum(), 9e38, rtol=1e-6)
    with pytest.raises(ValueError, match=r"sum of X\[0\] overflows"):
        sinkhorn_barycenter(np.full((2, 3), 1e308), M=M, reg=1.0)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_errors_of_rows_whose_sum_overflows(rng, convert):
    X = np.ldexp(0.5 + rng.random((5, 40)), 1000)
    model, huge = (AdditiveChi2Map(2).fit(convert(s * X)) for s in (1.0, 2.0**22))
    assert huge.relative_error_ == pytest.approx(model.relative_error_, rel=1e-9)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("mass", "length"), [(900, 100), (1020, 900), (-1000, 1020), (-500, -500)])
def test_bounds_of_masses_and_lengths_of_any_size(rng, convert, mass, length):
    X, Y, positions = rng.dirichlet(np.ones(5), 3), rng.dirichlet(np.ones(5), 4), rng.random((5, 2))
    M = cdist(positions, positions)
    X, Y = X / X.sum(axis=1, keepdims=True), Y / Y.sum(axis=1, keepdims=True)
    for bounds, given in (
        (centroid_bounds, {"positions": positions}),
        (projection_bounds, {"positions": positions}),
        (relaxed_bounds, {"M": M}),
    ):
        plain = bounds(convert(X), convert(Y), **given)
        scaled = bounds(
            convert(np.ldexp(X, mass)),
            convert(np.ldexp(Y, mass)),
            **{name: np.ldexp(values, length) for name, values in given.items()},
        )
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(scaled, np.ldexp(plain, mass + length), rtol=1e-9)


# ---- parameters at the ends of their ranges ------------------------------------------------------


@pytest.mark.parametrize("parameter", ["gamma", "tol"])
def test_parameters_in_single_precision(rng, parameter):
    A = rng.standard_normal((12, 3, 8))
    X, y = A @ A.swapaxes(1, 2), np.arange(12) % 2
    model = CovarianceCompressor(**{parameter: np.float32(0.5)}).fit(X, y)
    other = CovarianceCompressor(**{parameter: 0.5}).fit(X, y)
    np.testing.assert_array_equal(model.prototypes_, other.prototypes_)


def test_indices_of_two_types(rng):
    X = sparse.random(40, 6, density=0.5, format="csc", random_state=0)
    y = X.toarray()[:, 2] + 0.1 * rng.standard_normal(40)
    expected = SelectRelevant(random_state=0).fit(X, y).probabilities_
    X.indices = X.indices.astype(np.int64)
    assert X.indices.dtype != X.indptr.dtype
    np.testing.assert_array_equal(SelectRelevant(random_state=0).fit(X, y).probabilities_, expected)


def test_fisher_vectors_of_large_features(rng):
    X = [rng.integers(-9, 9, (30, 1)) for _ in range(4)]
    model = FisherVector(2, power=1.0).fit(X)
    expected = model.transform([1e3 * x for x in X])
    large = model.transform([1e100 * x for x in X])
    assert np.isfinite(large).all()
    np.testing.assert_allclose(np.linalg.norm(large, axis=1), np.linalg.norm(expected, axis=1))
    with pytest.raises(ValueError, match="overflow"):
        model.transform([X[0], 1e200 * X[1]])


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
