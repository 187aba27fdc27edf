"""What a fit of the bundle solver keeps and refuses, its strengths, and its maps inside others."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler
from sklearn.utils import get_tags

from histrs.kernel_approximation import ExpChi2Sampler, SparseAdditiveMap
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC, IntersectionSVC
from histrs.svm._composition import inner_product_of
from histrs.svm._held_out import folds
from histrs.svm._planes import Planes
from tests.oracles import bundle as oracle

pytestmark = pytest.mark.simd_paths

EACH = pytest.mark.parametrize("model", [BundleSVC(alpha=0.1), IntersectionSVC(random_state=0)])


@pytest.fixture
def rows(rng):
    X = rng.random((37, 4))
    return X, np.argmax(X[:, :3] + 0.3 * rng.random((37, 3)), axis=1)


# ---- weights ------------------------------------------------------------------------------------


@EACH
def test_one_class_is_refused(rows, model):
    X, y = rows
    with pytest.raises(ValueError, match="y holds one class, 1: the number of classes has to be"):
        clone(model).fit(X[y == 1], y[y == 1])


def test_a_gap_beyond_the_range_is_an_error(rows):
    X, y = rows
    model = BundleSVC(alpha=1e290, class_weight=dict.fromkeys(range(3), 1e305), max_iter=1)
    with pytest.raises(ValueError, match=r"too small beside class_weight .* models overflow"):
        model.fit(X, y)


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


@pytest.mark.parametrize("input", ["rows", "features"])
def test_features_whose_squares_overflow_are_refused(rows, input):
    X, y = rows
    phi = SparseAdditiveMap(n_knots=4).fit(X) if input == "features" else None
    F = X if phi is None else phi.transform(X).toarray()
    F[5, 1] = 1e200
    with pytest.raises(ValueError, match=r"X\[5, 1\] = 1e\+200: squares of such values overflow"):
        BundleSVC(phi, input=input).fit(F, y)


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
def digits():
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
def test_the_strength_is_chosen_by_rows_held_out(digits, model, n_classes):
    X, y = digits
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
def test_a_warm_start_takes_fewer_passes_to_the_same_minimum(digits, model):
    X, y = digits
    warm = clone(model).set_params(alpha=1e-2, warm_start=True).fit(X, y)
    kept = warm.feature_map_
    cold = clone(model).set_params(alpha=5e-3).fit(X, y)
    warm.set_params(alpha=5e-3).fit(X, y)
    assert warm.feature_map_ is kept
    gap = warm.dual_gap_ + cold.dual_gap_
    assert np.all(np.abs(warm.objective_ - cold.objective_) <= gap + 1e-12)
    assert warm.n_iter_ <= cold.n_iter_
    assert warm.alpha_ == 5e-3


def test_what_is_no_start_is_refused(digits):
    X, y = digits
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


@pytest.mark.parametrize("alpha", [[0.1, -1.0], [0.1, 0.0], [], [[0.1]], [np.inf]], ids=str)
def test_bad_paths_are_refused(digits, alpha):
    with pytest.raises(ValueError, match="expected positive"):
        BundleSVC(alpha=alpha).fit(*digits)


def test_a_path_needs_rows_to_hold_out():
    with pytest.raises(ValueError, match="several alpha need two rows of a class, of which one"):
        BundleSVC(alpha=[0.1]).fit([[0.0], [1.0]], [0, 1])


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
