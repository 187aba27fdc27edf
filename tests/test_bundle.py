"""The bundle solver: its planes, its dual, its certificate, its maps, and its contract."""

import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags
from sklearn.utils.class_weight import compute_sample_weight

from histrs.kernel_approximation import ExpChi2Sampler, SparseAdditiveMap, SparseKernelMap
from histrs.metrics import intersection_kernel
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC, IntersectionSVC
from histrs.svm._composition import inner_product_of
from histrs.svm._held_out import folds
from histrs.svm._planes import Planes
from tests.helpers import CONTAINERS, awkward_histograms
from tests.oracles import bundle as oracle
from tests.oracles import quantization as codes_oracle

pytestmark = pytest.mark.simd_paths

LOSSES = ["hinge", "squared_hinge", "logistic"]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1000] / 16, y[:1000], X[1000:] / 16, y[1000:]


def signs_and_weights(y, positive):
    return np.where(y == positive, 1.0, -1.0), np.full(len(y), 1 / len(y))


# ---- the optimum --------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "intersection"])
@pytest.mark.parametrize("alpha", [1e-1, 1e-3])
def test_the_optimum_is_the_one_of_the_quadratic_program(digits, metric, alpha):
    X, y = digits[0][:80], digits[1][:80]
    pq = ProductQuantizer(8, 6, metric, random_state=0).fit(X)
    model = BundleSVC(
        FrozenEstimator(pq), alpha=alpha, tol=1e-6, fit_intercept=False, max_iter=5000
    ).fit(X, y)
    features = codes_oracle.one_hot(pq.transform(X), 6)
    K = codes_oracle.codeword_kernel(pq.codebooks_, metric)
    for k in range(0, 10, 3):
        signs, weights = signs_and_weights(y, k)
        found = oracle.objective(features, K, signs, weights, alpha, model.coef_[k])
        assert found == pytest.approx(model.objective_[k], rel=1e-7)
        minimum = oracle.hinge_minimum(features, K, signs, weights, alpha)
        assert model.dual_gap_[k] <= 1e-6 * found
        # The certificate: the minimum is within the gap.
        assert found - model.dual_gap_[k] <= minimum * (1 + 1e-8)
        assert minimum <= found * (1 + 1e-5)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("alpha", [1e-2, 1e-4])
def test_the_objective_is_that_of_linear_svc(digits, loss, alpha):
    X, y = digits[:2]
    n = len(X)
    model = BundleSVC(alpha=alpha, loss=loss, tol=1e-5, max_iter=5000).fit(X, y)
    peer = LinearSVC(
        loss=loss, dual=True, C=1 / (alpha * n), tol=1e-7, max_iter=200_000, random_state=0
    ).fit(X, y)
    for k in range(10):
        signs, weights = signs_and_weights(y, k)
        theirs = oracle.objective(
            X, np.eye(64), signs, weights, alpha, peer.coef_[k], peer.intercept_[k], loss=loss
        )
        assert model.objective_[k] <= theirs * (1 + 1e-4)
        assert theirs <= model.objective_[k] * (1 + 1e-4)
        assert theirs >= model.objective_[k] - model.dual_gap_[k] - 1e-12


def test_the_logistic_objective_is_that_of_logistic_regression(digits):
    X, y = digits[0], digits[1] % 2
    alpha = 1e-3
    model = BundleSVC(alpha=alpha, loss="logistic", tol=1e-6, fit_intercept=False).fit(X, y)
    peer = LogisticRegression(
        C=1 / (alpha * len(X)), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(X, y)
    signs, weights = signs_and_weights(y, 1)
    theirs = oracle.objective(X, np.eye(64), signs, weights, alpha, peer.coef_[0], loss="logistic")
    assert model.objective_[0] == pytest.approx(theirs, rel=2e-6)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=0.02)


def test_a_singular_inner_product_has_the_optimum_of_its_kernel(digits):
    X, y = digits[0][:60, 20:28], digits[1][:60]
    model = BundleSVC(
        SparseAdditiveMap("hellinger", 6), alpha=1e-2, tol=1e-6, fit_intercept=False, max_iter=5000
    ).fit(X, y)
    features = model.feature_map_.transform(X).toarray()
    K = model.feature_map_.inner_product_.matmul(np.eye(features.shape[1]))
    assert np.linalg.matrix_rank(K, hermitian=True) < len(K)
    for k in range(0, 10, 3):
        minimum = oracle.hinge_minimum(features, K, *signs_and_weights(y, k), 1e-2)
        assert model.objective_[k] - model.dual_gap_[k] <= minimum * (1 + 1e-8)
        assert minimum <= model.objective_[k] * (1 + 1e-5)


@pytest.mark.parametrize("container", ["C", "F", "CSR array"])
@pytest.mark.parametrize("n_components", [30, 31])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_random_features_need_not_be_there_to_be_scored(
    rng, container, n_components, frozen, n_classes
):
    rows = awkward_histograms(rng, 40)
    X, y = CONTAINERS[container](rows), np.arange(40) % n_classes
    sampler = ExpChi2Sampler(n_components, random_state=0)
    model = BundleSVC(FrozenEstimator(sampler.fit(X)) if frozen else sampler, alpha=1e-2).fit(X, y)
    features = model.feature_map_.transform(X)
    expected = (features @ model.coef_.T + model.intercept_).reshape(40, -1)
    expected = expected[:, 0] if n_classes == 2 else expected
    found = model.decision_function(X)
    assert found.dtype == features.dtype
    np.testing.assert_allclose(found, expected, atol=1e-4 if found.dtype == np.float32 else 1e-10)
    of_features = BundleSVC(FrozenEstimator(model.feature_map_), alpha=1e-2, input="features")
    again = of_features.fit(features, y).decision_function(features)
    np.testing.assert_allclose(again, found, atol=1e-4 if found.dtype == np.float32 else 1e-8)


@pytest.mark.parametrize(
    "feature_map",
    [
        SparseAdditiveMap("intersection", 17),
        SparseKernelMap("intersection", 200, n_nonzero=10, random_state=0),
        ProductQuantizer(32, 64, "intersection", random_state=0),
    ],
    ids=lambda map: type(map).__name__,
)
def test_the_exact_kernel_is_the_ceiling(digits, feature_map):
    X, y, X_test, y_test = digits
    kernel = SVC(kernel="precomputed", C=1 / (1e-3 * len(X))).fit(intersection_kernel(X), y)
    ceiling = kernel.score(intersection_kernel(X_test, X), y_test)
    model = BundleSVC(feature_map, alpha=1e-3).fit(X, y)
    assert ceiling - 0.05 < model.score(X_test, y_test) < ceiling + 0.02


def test_codes_are_learned_from_without_rows(digits):
    X, y, X_test, y_test = digits
    pq = ProductQuantizer(16, 16, "intersection", random_state=0).fit(X)
    rows = BundleSVC(FrozenEstimator(pq), alpha=1e-3).fit(X, y)
    codes = BundleSVC(pq, alpha=1e-3, input="features").fit(pq.transform(X), y)
    np.testing.assert_array_equal(codes.coef_, rows.coef_)
    assert codes.coef_.shape == (10, 16 * 16)
    np.testing.assert_array_equal(
        codes.decision_function(pq.transform(X_test)), rows.decision_function(X_test)
    )
    assert codes.score(pq.transform(X_test).astype(np.int64), y_test) > 0.9
    table = codes.coef_.reshape(10, 16, 16)
    one = pq.transform(X_test[:1])[0]
    expected = table[:, np.arange(16), one].sum(axis=1) + codes.intercept_
    np.testing.assert_allclose(codes.decision_function(one[None])[0], expected, rtol=1e-12)


@pytest.mark.parametrize("class_weight", [{0: 2.0}, {1: 0.5, 2: 3.0}, "balanced"])
def test_class_weights_multiply_the_loss_alone(rng, class_weight):
    X = rng.random((60, 5))
    y = np.repeat([0, 1, 2], [30, 20, 10])
    weights = compute_sample_weight(class_weight, y)
    by_class = BundleSVC(alpha=1e-2, tol=1e-7, class_weight=class_weight).fit(X, y)
    # Weights of samples are divided by their sum, so that the regulariser is by comparison.
    by_sample = BundleSVC(alpha=1e-2 / weights.mean(), tol=1e-7).fit(X, y, weights)
    np.testing.assert_allclose(
        by_class.objective_, by_sample.objective_ * weights.mean(), rtol=1e-6
    )
    np.testing.assert_allclose(by_class.coef_, by_sample.coef_, atol=1e-2)
    plain = BundleSVC(alpha=1e-2, tol=1e-7).fit(X, y)
    assert not np.allclose(by_class.objective_, plain.objective_, rtol=1e-2)


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_the_intercept_is_the_weight_of_a_constant_column(rng, scale):
    X = rng.random((100, 3))
    y = (X[:, 0] + 0.1 * rng.standard_normal(100) > 0.7).astype(int)
    settings = {"alpha": 1e-2, "tol": 1e-7}
    model = BundleSVC(intercept_scaling=scale, **settings).fit(X, y)
    column = np.hstack([X, np.full((100, 1), scale)])
    by_column = BundleSVC(fit_intercept=False, **settings).fit(column, y)
    assert by_column.intercept_[0] == 0.0
    np.testing.assert_allclose(model.objective_, by_column.objective_, rtol=1e-6)
    np.testing.assert_allclose(
        model.decision_function(X), by_column.decision_function(column), atol=1e-2
    )


# ---- the contract -------------------------------------------------------------------------------


@pytest.mark.slow
def test_gives_up_where_rounding_does():
    rng = np.random.default_rng(0)
    X, y = 1e12 * rng.random((12, 2)), np.arange(12) % 2
    with pytest.warns(ConvergenceWarning, match="certified gap"):
        model = BundleSVC(tol=0.0, alpha=1e-3, max_iter=10_000).fit(X, y)
    assert model.n_iter_ < 2000


def _with_a_value(rng, loss, scale, **settings):
    """Return data with one value of a scale, and models of the other columns and of all."""
    X = rng.random((40, 6))
    y = np.where(X[:, 0] > 0.5, 1, -1)
    settings |= {"loss": loss, "fit_intercept": False}
    good = BundleSVC(**settings).fit(np.delete(X, 3, axis=1), y)
    X[7, 3] = scale
    model = BundleSVC(**settings).fit(X, y)
    return X, y, good, model


@pytest.mark.parametrize("loss", oracle.LOSSES)
@pytest.mark.parametrize("scale", [1e3, 1e10])
def test_an_enormous_value_makes_nothing_worse(rng, loss, scale):
    X, y, good, model = _with_a_value(rng, loss, scale)
    v = np.insert(good.coef_[0], 3, 0.0)
    found = oracle.objective(X, np.eye(6), y, np.full(40, 1 / 40), 1e-4, v, loss=loss)
    assert model.objective_[0] - model.dual_gap_[0] <= found
    assert model.dual_gap_[0] <= model.tol * model.objective_[0]


@pytest.mark.parametrize(
    ("loss", "scale"), [*((loss, 1e20) for loss in oracle.LOSSES), ("hinge", 1e50)]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_model_is_below_the_bound_beside_what_nearly_overflows(rng, loss, scale):
    _, _, good, model = _with_a_value(rng, loss, scale, max_iter=200)
    assert model.objective_[0] - model.dual_gap_[0] <= good.objective_[0]


def test_bad_codes_are_named(digits):
    X, y = digits[:2]
    with pytest.raises(NotFittedError):
        BundleSVC(ProductQuantizer(4, 8), input="features").fit(np.zeros((9, 4), int), np.arange(9))
    pq = ProductQuantizer(4, 8, random_state=0).fit(X)
    codes = pq.transform(X)
    model = BundleSVC(pq, alpha=0.1, input="features").fit(codes, y)
    before = model.coef_.copy()
    codes[7, 1] = 9
    for call in (lambda: model.fit(codes, y), lambda: model.predict(codes)):
        with pytest.raises(ValueError, match=r"codes\[7, 1\] = 9: there are 8 codewords"):
            call()
    with pytest.raises(ValueError, match="64 features"):
        model.predict(X)
    np.testing.assert_array_equal(model.coef_, before)


def test_nothing_to_learn():
    X = np.zeros((10, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BundleSVC(alpha=0.1, fit_intercept=False).fit(X, np.arange(10) % 2)
    assert not model.coef_.any()
    assert model.objective_[0] == pytest.approx(1.0)


# ---- maps within pipelines and unions -----------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: SparseAdditiveMap("intersection", n_knots=8),
        lambda: ProductQuantizer(8, 16, "intersection", random_state=0),
        lambda: ProductQuantizer(8, 16, "hellinger", random_state=0),
    ],
)
def test_the_inner_product_of_the_last_step_of_a_pipeline_is_used(digits, make):
    X, y, _, _ = digits
    X, y = X[:100], y[:100]
    scaled = np.sqrt(X)
    plain = BundleSVC(make(), alpha=1e-3).fit(scaled, y)
    root = FunctionTransformer(np.sqrt)
    for steps in (
        Pipeline([("root", root), ("map", make())]),
        Pipeline([("root", root), ("inner", Pipeline([("map", make())])), ("no", "passthrough")]),
    ):
        piped = BundleSVC(steps, alpha=1e-3).fit(X, y)
        np.testing.assert_array_equal(piped.coef_, plain.coef_)
        np.testing.assert_array_equal(piped.predict(X), plain.predict(scaled))
        frozen = BundleSVC(FrozenEstimator(clone(steps).fit(X)), alpha=1e-3).fit(X, y)
        np.testing.assert_array_equal(frozen.coef_, plain.coef_)
        features = BundleSVC(clone(steps).fit(X), alpha=1e-3, input="features")
        features.fit(piped.feature_map_.transform(X), y)
        # Rows of the same features are one there, and solved for by other steps.
        np.testing.assert_allclose(features.objective_, plain.objective_, rtol=1e-3)


@pytest.mark.parametrize("kind", ["union", "columns", "nested"])
def test_the_inner_products_of_a_union_stand_side_by_side(digits, kind):
    X, y, _, _ = digits
    X, y = X[:300, 8:24], y[:300]
    left, right = slice(0, 8), slice(8, 16)
    knots, linear = SparseAdditiveMap("intersection", n_knots=6), FunctionTransformer()

    def take(columns):
        return FunctionTransformer(lambda rows: rows[:, columns])

    if kind == "union":
        maps = FeatureUnion(
            [
                ("none", "drop"),
                ("linear", take(left)),
                ("knots", make_pipeline(take(right), knots)),
            ],
            transformer_weights={"knots": 2.0},
        )
    else:
        part = knots if kind == "columns" else FeatureUnion([("knots", knots)])
        maps = ColumnTransformer(
            [("linear", linear, left), ("knots", part, right)], transformer_weights={"knots": 2.0}
        )
    model = BundleSVC(maps, alpha=1e-2, tol=1e-6).fit(X, y)
    phi = SparseAdditiveMap("intersection", n_knots=6).fit(X[:, right])
    K = phi.inner_product_.matmul(np.eye(phi.inner_product_.shape[0]))
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0))
    explicit = np.hstack([X[:, left], 2 * (phi.transform(X[:, right]) @ root)])
    expected = BundleSVC(alpha=1e-2, tol=1e-6).fit(explicit, y)
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=2e-4)
    assert np.mean(model.predict(X) == expected.predict(explicit)) > 0.99


def test_what_would_lose_an_inner_product_is_refused(digits):
    X, y, _, _ = digits
    X, y = X[:200], y[:200]
    knots = SparseAdditiveMap("intersection", n_knots=4)
    codes = ProductQuantizer(4, 4, random_state=0)
    for maps, message in (
        (make_pipeline(knots, StandardScaler(with_mean=False)), "make it the last step"),
        (make_pipeline(make_pipeline(knots), MaxAbsScaler()), "make it the last step"),
        (FeatureUnion([("a", make_pipeline(codes, MaxAbsScaler()))]), "make it the last step"),
        (FeatureUnion([("a", codes), ("b", MaxAbsScaler())]), "'a' returns codes"),
        (ColumnTransformer([("a", codes, slice(0, 64))]), "'a' returns codes"),
        (Wrapping(knots), "use it without Wrapping"),
    ):
        with pytest.raises(ValueError, match=message):
            BundleSVC(maps).fit(X, y)


class Wrapping(TransformerMixin, BaseEstimator):
    """A transformer that has a map and hides its inner product."""

    def __init__(self, map):
        self.map = map

    def fit(self, X, y=None):
        self.map_ = clone(self.map).fit(X)
        return self

    def transform(self, X):
        return self.map_.transform(X)


# ---- columns of any units -----------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_columns_of_different_units_need_few_passes(loss):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:150, :8], y[:150]
    model = BundleSVC(loss=loss).fit(X, y)
    assert model.n_iter_ < 200
    assert model.dual_gap_ <= 1e-3 * model.objective_


# ---- probabilities -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_one_class_against_the_rest(rng, n_classes):
    X = rng.standard_normal((90, 4))
    y = np.argmax(X[:, :n_classes] + 0.5 * rng.standard_normal((90, n_classes)), axis=1)
    model = BundleSVC(alpha=1e-2, loss="logistic", tol=1e-7).fit(X, y)
    P, scores = model.predict_proba(X), model.decision_function(X)
    shares = 1 / (1 + np.exp(-scores))
    expected = np.column_stack([1 - shares, shares]) if n_classes == 2 else shares
    np.testing.assert_allclose(P, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float32
    far = model.predict_proba(1e6 * X)
    np.testing.assert_allclose(far.sum(axis=1), 1.0, rtol=1e-12)
    peer = LogisticRegression(C=1 / (1e-2 * 90), fit_intercept=False, tol=1e-10, max_iter=1000)
    if n_classes == 2:
        ours = model.set_params(fit_intercept=False).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(ours, peer.fit(X, y).predict_proba(X), atol=1e-3)


def test_other_losses_say_where_probabilities_are(rng):
    X, y = rng.random((20, 3)), np.arange(20) % 2
    model = BundleSVC(alpha=0.1).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'") as error:
        model.predict_proba(X)
    assert "CalibratedClassifierCV" in str(error.value.__cause__)


def test_probabilities_are_those_of_the_loss_fitted_with(rng):
    X, y = rng.random((30, 4)), np.arange(30) % 2
    hinge = BundleSVC(alpha=0.1).fit(X, y).set_params(loss="logistic")
    assert not hasattr(hinge, "predict_proba")
    assert hasattr(hinge.fit(X, y).set_params(loss="hinge"), "predict_proba")


# ---- what a fit keeps and refuses, strengths, and maps inside others -----------------------------


@pytest.fixture
def rows(rng):
    X = rng.random((37, 4))
    return X, np.argmax(X[:, :3] + 0.3 * rng.random((37, 3)), axis=1)


# ---- feature maps -------------------------------------------------------------------------------


def test_a_frozen_map_is_the_one_that_is_kept(rows):
    X, y = rows
    for phi in (SparseAdditiveMap(n_knots=4), ProductQuantizer(2, 4, random_state=0)):
        with pytest.raises(NotFittedError):
            BundleSVC(FrozenEstimator(phi)).fit(X, y)
        with pytest.raises(NotFittedError):
            BundleSVC(phi, input="features").fit(np.zeros((37, 2), dtype=int), y)
        phi.fit(X)
        assert BundleSVC(FrozenEstimator(phi), alpha=0.1).fit(X, y).feature_map_ is phi
        features = BundleSVC(phi, alpha=0.1, input="features").fit(phi.transform(X), y)
        assert features.feature_map_ is phi


def test_random_features_are_not_made_to_be_scored(rows, monkeypatch):
    X, y = rows
    model = BundleSVC(ExpChi2Sampler(64, random_state=0), alpha=0.1).fit(X, y)
    scores = model.decision_function(X)
    monkeypatch.setattr(ExpChi2Sampler, "transform", None)
    np.testing.assert_array_equal(model.decision_function(X), scores)


# ---- fits one after the other -------------------------------------------------------------------


def test_empty_columns_have_no_weight_and_change_nothing(rng):
    X = sparse.random_array((60, 15), density=0.3, format="csr", random_state=rng)
    y = np.arange(60) % 3
    places = np.sort(rng.choice(2**20, 15, replace=False)).astype(np.int32)
    wide = sparse.csr_array((X.data, places[X.indices], X.indptr), shape=(60, 2**20))
    for options in ({}, {"alpha": [1e-2, 1e-3], "cv": 2}, {"fit_intercept": False}):
        model = BundleSVC(**{"alpha": 1e-2, "random_state": 0, **options})
        narrow, found = clone(model).fit(X, y), clone(model).fit(wide, y)
        assert found.coef_.shape == (3, 2**20)
        np.testing.assert_allclose(found.coef_[:, places], narrow.coef_, atol=1e-12)
        assert np.count_nonzero(found.coef_) <= 3 * 15
        np.testing.assert_allclose(found.decision_function(wide), narrow.decision_function(X))
    # A fit that goes on meets columns that were empty before.
    first = sparse.csr_array(X.toarray() * (np.arange(15) < 7))
    goes_on = BundleSVC(alpha=1e-2, tol=1e-6, warm_start=True).fit(first, y).fit(X, y)
    np.testing.assert_allclose(
        goes_on.objective_, BundleSVC(alpha=1e-2, tol=1e-6).fit(X, y).objective_, rtol=1e-5
    )


def test_a_fit_forgets_what_another_left(rows):
    X, y = rows
    model = BundleSVC(alpha=[1e-2, 1.0], cv=2, warm_start=True, random_state=0).fit(X, y)
    assert (model.alphas_.tolist(), model.cv_scores_.shape) == ([1.0, 1e-2], (2, 2))
    model.set_params(alpha=0.5).fit(X, y)
    assert not hasattr(model, "alphas_")
    assert not hasattr(model, "cv_scores_")
    assert model.alpha_ == 0.5
    # Models of a fit without a warm start are no start, nor are those before it.
    model.set_params(warm_start=False).fit(X, y)
    model.set_params(warm_start=True).fit(X[:, :2], y == 0)
    np.testing.assert_array_equal(model.coef_, BundleSVC(alpha=0.5).fit(X[:, :2], y == 0).coef_)


def test_a_warm_start_keeps_the_map(rows):
    X, y = rows
    model = BundleSVC(SparseAdditiveMap(n_knots=4), alpha=0.1, warm_start=True)
    kept = model.set_params(intercept_scaling=2).fit(X, y).feature_map_
    assert model.fit(X / 2, y).feature_map_ is kept
    model.set_params(feature_map=SparseAdditiveMap(n_knots=4))
    with pytest.raises(ValueError, match="warm_start = True, but"):
        model.fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_start_is_where_the_fit_before_ended(rows):
    model = BundleSVC(alpha=0.1, warm_start=True).fit(*rows)
    before = model.objective_
    model.set_params(max_iter=1).fit(*rows)
    assert np.all(model.objective_ <= before * (1 + 1e-12))


# ---- what is said of a fit ----------------------------------------------------------------------


def test_the_warning_tells_the_largest_gap(rows):
    X, y = rows
    with pytest.warns(ConvergenceWarning) as warned:
        model = BundleSVC(alpha=1e-3, tol=1e-2, max_iter=3).fit(X, y)
    gaps = model.dual_gap_ / model.objective_
    assert str(warned[0].message) == (
        f"{np.sum(gaps > 1e-2)} of 3 problems are not solved to tol = 0.01: the certified gap is "
        f"{gaps.max():.2g} of the objective after 3 passes; raise max_iter, tol or alpha."
    )


def test_probabilities_of_rows_that_belong_nowhere(rows):
    model = BundleSVC(loss="logistic", alpha=0.1).fit(*rows)
    model.coef_[:], model.intercept_[:] = 0.0, [-1000.0, -1001.0, -1003.0]
    expected = np.exp([0.0, -1.0, -3.0]) / np.exp([0.0, -1.0, -3.0]).sum()
    np.testing.assert_allclose(model.predict_proba(rows[0][:1]), expected[None], rtol=1e-12)


def test_tags_are_those_of_what_is_taken():
    def tags(*arguments, **parameters):
        found = get_tags(BundleSVC(*arguments, **parameters)).input_tags
        return found.sparse, found.positive_only

    codes, knots = ProductQuantizer(metric="intersection"), SparseAdditiveMap()
    assert tags() == (True, False)
    for phi in (codes, knots, FunctionTransformer(accept_sparse=True), StandardScaler()):
        inputs = get_tags(phi).input_tags
        assert tags(phi) == (inputs.sparse, inputs.positive_only)
    assert len({tags(phi) for phi in (codes, knots, StandardScaler())}) > 1
    assert tags(codes, input="features") == (False, False)
    assert tags(StandardScaler(), input="features") == (
        get_tags(StandardScaler()).input_tags.sparse,
        False,
    )
    # Of what has no tags nothing is known.
    assert tags(SimpleNamespace(fit=None, transform=None)) == (False, False)


# ---- strengths chosen by rows held out, and warm starts ------------------------------------------

ALPHAS = [1e-2, 1e-1, 1.0, 1e-3]


@pytest.fixture(scope="module")
def four_digits():
    X, y = load_digits(return_X_y=True)
    rows = y < 4
    return X[rows][:300] / 16, y[rows][:300]


MODELS = {
    "rows": BundleSVC(tol=1e-4),
    "logistic": BundleSVC(tol=1e-4, loss="logistic"),
    "map": BundleSVC(SparseAdditiveMap(n_knots=4), tol=1e-4),
    "codes": BundleSVC(ProductQuantizer(8, 8, metric="hellinger", random_state=0), tol=1e-4),
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@each_model
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_strength_is_chosen_by_rows_held_out(four_digits, model, n_classes):
    X, y = four_digits
    X, y = X[y < n_classes], y[y < n_classes]
    w = np.where(y == 0, 1.5, 1.0)
    chosen = clone(model).set_params(alpha=ALPHAS, cv=3, random_state=0)
    chosen.fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(chosen.alphas_, [1.0, 1e-1, 1e-2, 1e-3])
    expected = np.empty((4, 3))
    # The map of the folds is that of all rows.
    frozen = chosen.feature_map_
    features = X if frozen is None else frozen.transform(X)
    parts = list(folds(y, np.random.RandomState(0), 3))
    for j, (learned, others) in enumerate(parts):
        for i, alpha in enumerate(chosen.alphas_):
            one = clone(model).set_params(alpha=alpha)
            if frozen is not None:
                one.set_params(input="features").feature_map = frozen
            one.fit(features[learned], y[learned], sample_weight=w[learned])
            expected[i, j] = one.score(features[others], y[others], sample_weight=w[others])
    # Both are solved to a gap, within which a row or two may change sides.
    np.testing.assert_allclose(chosen.cv_scores_, expected, atol=0.04)
    mass = [w[others].sum() for _, others in parts]
    best = np.argmax(np.average(chosen.cv_scores_, axis=1, weights=mass))
    assert chosen.alpha_ == chosen.alphas_[best]
    plain = clone(model).set_params(alpha=chosen.alpha_).fit(X, y, sample_weight=w)
    gap = plain.dual_gap_ + chosen.dual_gap_
    assert np.all(np.abs(plain.objective_ - chosen.objective_) <= gap + 1e-12)
    assert np.all(chosen.dual_gap_ <= 1e-4 * chosen.objective_)


@each_model
def test_a_warm_start_takes_fewer_passes_to_the_same_minimum(four_digits, model):
    X, y = four_digits
    warm = clone(model).set_params(alpha=1e-2, warm_start=True).fit(X, y)
    kept = warm.feature_map_
    cold = clone(model).set_params(alpha=5e-3).fit(X, y)
    warm.set_params(alpha=5e-3).fit(X, y)
    assert warm.feature_map_ is kept
    gap = warm.dual_gap_ + cold.dual_gap_
    assert np.all(np.abs(warm.objective_ - cold.objective_) <= gap + 1e-12)
    assert warm.n_iter_ <= cold.n_iter_
    assert warm.alpha_ == 5e-3


def test_what_is_no_start_is_refused(four_digits):
    X, y = four_digits
    model = BundleSVC(alpha=1e-2, warm_start=True).fit(X, y)
    before = model.coef_.copy()
    for change in ({"intercept_scaling": 2.0}, {"fit_intercept": False}):
        with pytest.raises(ValueError, match="warm_start = True, but"):
            _refit(model, X, y, change)
    with pytest.raises(ValueError, match="warm_start = True, but"):
        model.fit(X[:, :-1], y)
    with pytest.raises(ValueError, match="warm_start = True, but"):
        model.fit(X, y + 1)
    np.testing.assert_array_equal(model.coef_, before)
    model.set_params(warm_start=False).fit(X[:, :-1], y + 1)


def _refit(model, X, y, change):
    kept = {name: getattr(model, name) for name in change}
    try:
        model.set_params(**change).fit(X, y)
    finally:
        model.set_params(**kept)


# ---- inner products -----------------------------------------------------------------------------


def test_the_width_of_one_part_of_a_union_follows_from_the_others(rng):
    X = rng.random((20, 3))
    knots = SparseAdditiveMap("intersection", n_knots=4)
    double = FunctionTransformer(lambda rows: np.hstack([rows, rows]))

    def product(*members):
        union = FeatureUnion([(str(k), member) for k, member in enumerate(members)]).fit(X)
        n = union.transform(X).shape[1]
        return inner_product_of(union, n), n

    phi = knots.fit(X)
    K, m = (
        phi.inner_product_.matmul(np.eye(phi.inner_product_.shape[0])),
        phi.inner_product_.shape[0],
    )
    for members, start in (
        ((double, knots), 6),
        ((knots, double), 0),
        ((MaxAbsScaler(), knots, double), 3),
        ((double, "drop", knots), 6),
        ((double, knots, "drop"), 6),
        (("passthrough", knots), 3),
    ):
        found, n = product(*members)
        expected = np.eye(n)
        expected[start : start + m, start : start + m] = K
        np.testing.assert_allclose(found.matmul(np.eye(n)), expected, rtol=1e-12, atol=1e-15)
    assert product(double, MaxAbsScaler())[0] is None
    with pytest.raises(ValueError, match="the union does not say which features"):
        product(double, knots, FunctionTransformer(lambda rows: rows[:, :1]))


class Hat(TransformerMixin, BaseEstimator):
    """A map that has its inner product once it is fitted."""

    def fit(self, X, y=None):
        self.inner_product_ = SimpleNamespace(shape=(X.shape[1],) * 2, matmul=lambda V: 2 * V)
        return self

    def transform(self, X):
        return X


class Around(TransformerMixin, BaseEstimator):
    """A transformer of what another one returns."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y=None):
        self.inner.fit(X)
        return self

    def transform(self, X):
        return np.sqrt(self.inner.transform(X))


def test_features_of_an_inner_product_that_are_changed_are_refused(rng):
    X = rng.random((9, 3))
    knots = SparseAdditiveMap("intersection", n_knots=4).fit(X)
    for inside in (knots, Hat().fit(X), Around(knots), [Around(Around(Hat().fit(X)))]):
        wrapped = Around(inside)
        with pytest.raises(ValueError, match="its features are changed as a part of Around"):
            inner_product_of(wrapped, 3)
        with pytest.raises(ValueError, match="its features are changed as step 'a' of a pipeline"):
            inner_product_of(Pipeline([("a", wrapped), ("b", MaxAbsScaler())]), 3)
    assert inner_product_of(Around(MaxAbsScaler()), 3) is None
    assert inner_product_of(Hat().fit(X), 3).matmul(1.0) == 2.0


def test_what_is_frozen_has_the_inner_product_that_it_had(rng):
    X = rng.random((9, 3))
    made = Pipeline([("scale", MaxAbsScaler()), ("hat", FrozenEstimator(Hat().fit(X)))]).fit(X)
    assert inner_product_of(FrozenEstimator(made), 3).matmul(1.0) == 2.0


def test_parts_of_columns_of_any_width(rng):
    X = rng.random((20, 4))
    knots = SparseAdditiveMap("intersection", n_knots=4)
    double = FunctionTransformer(lambda rows: np.hstack([rows, rows]))
    # A part inside whose width follows from the others, one without columns, and the rest.
    nested = FeatureUnion([("double", double), ("knots", knots)])
    columns = ColumnTransformer(
        [("none", ProductQuantizer(), []), ("gone", "drop", [3]), ("nested", nested, [1, 2])],
        remainder="passthrough",
    ).fit(X)
    n = columns.transform(X).shape[1]
    m = SparseAdditiveMap("intersection", n_knots=4).fit(X[:, 1:3]).inner_product_.shape[0]
    assert n == 4 + m + 1
    found = inner_product_of(columns, n).matmul(np.eye(n))
    expected = np.eye(n)
    expected[4 : 4 + m, 4 : 4 + m] = (
        SparseAdditiveMap("intersection", n_knots=4).fit(X[:, 1:3]).inner_product_.matmul(np.eye(m))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    # Features that are compared by their scalar product have none of their own.
    whitened = SparseAdditiveMap("intersection", n_knots=4, whiten=True).fit(X)
    assert inner_product_of(whitened, whitened.transform(X).shape[1]) is None


@pytest.mark.parametrize("most", [20_000, 1])
@pytest.mark.parametrize("rank", [2, 5])
def test_the_dual_of_planes_is_that_of_their_definition(rng, most, rank, monkeypatch):
    monkeypatch.setattr("histrs.svm._planes._MAX_EXCHANGES", most)
    root = rng.standard_normal((5, rank))
    K = root @ root.T
    alpha, best = 0.3, K @ rng.standard_normal(5)
    A, b = rng.standard_normal((20, 5)), rng.random(20)
    planes, idle, kept = Planes(5, 1.0).with_alpha(alpha), np.zeros(20, int), np.arange(0)
    for k in range(20):
        planes.add(A[k], K @ A[k], b[k], A[k] @ best)
        kept = np.append(kept, k)
        value = planes.solve(1e-10, 1)
        w, H = planes.weights, A[kept] @ K @ A[kept].T
        assert len(planes) == len(w) == len(kept)
        assert w.min() >= 0
        assert w.sum() == pytest.approx(1)
        assert value == pytest.approx(b[kept] @ w - w @ H @ w / (2 * alpha), rel=1e-9)
        assert value == pytest.approx(oracle.simplex_maximum(H / alpha, b[kept]), abs=1e-6)
        v = K @ A[kept].T @ w / alpha
        np.testing.assert_allclose(planes.model(), v, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(planes.at_model(), A[kept] @ v, rtol=1e-8, atol=1e-10)
        assert planes.square() == pytest.approx(v @ np.linalg.pinv(K) @ v, rel=1e-6, abs=1e-12)
        assert planes.with_best() == pytest.approx(w @ (A[kept] @ best) / alpha)
        idle[kept] = np.where(w > 0, 0, idle[kept] + 1)
        planes.remove_idle()
        assert len(planes) == len(kept)


# ---- what is refused ----------------------------------------------------------------------------

ROWS, THREE = np.random.default_rng(0).random((37, 4)), np.arange(37) % 3
KNOTS = SparseAdditiveMap(n_knots=4).fit(ROWS)


def enormous(table):
    table[5, 1] = 1e200
    return table


REFUSED = [
    *[("y holds one class, 1: the number of classes has to be",
       partial(model.fit, ROWS, np.ones(37, int)))
      for model in (BundleSVC(alpha=0.1), IntersectionSVC(random_state=0))],
    (r"too small beside class_weight .* models overflow",
     partial(BundleSVC(alpha=1e290, class_weight=dict.fromkeys(range(3), 1e305), max_iter=1).fit,
             ROWS, THREE)),
    *[(r"X\[5, 1\] = 1e\+200: squares of such values overflow",
       partial(model.fit, enormous(table), THREE)) for model, table in (
           (BundleSVC(), ROWS.copy()),
           (BundleSVC(KNOTS, input="features"), KNOTS.transform(ROWS).toarray()))],
    *[("expected positive", partial(BundleSVC(alpha=alpha).fit, ROWS, THREE))
      for alpha in ([0.1, -1.0], [0.1, 0.0], [], [[0.1]], [np.inf])],
    ("several alpha need two rows of a class, of which one",
     partial(BundleSVC(alpha=[0.1]).fit, [[0.0], [1.0]], [0, 1])),
    ("probability = True needs two rows of a class or more",
     partial(IntersectionSVC(probability=True).fit, [[1.0, 2.0], [2.0, 1.0]], [0, 1])),
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_what_is_bad_is_named(message, call):
    with pytest.raises(ValueError, match=message):
        call()
