"""What a fit of the bundle solver keeps, leaves out and refuses; and its stochastic steps."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import get_tags

from histrs.kernel_approximation import ExpChi2Sampler, SparseAdditiveMap
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC, IntersectionSVC

pytestmark = pytest.mark.simd_paths

EACH = pytest.mark.parametrize("model", [BundleSVC(alpha=0.1), IntersectionSVC(random_state=0)])


@pytest.fixture
def rows(rng):
    X = rng.random((37, 4))
    return X, np.argmax(X[:, :3] + 0.3 * rng.random((37, 3)), axis=1)


# ---- weights ------------------------------------------------------------------------------------


@EACH
def test_bad_weights_are_refused(rows, model):
    X, y = rows
    model = clone(model)
    with pytest.raises(ValueError, match=r"sample_weight\[5\] = -1.0: weights must be finite"):
        model.fit(X, y, np.where(np.arange(37) == 5, -1.0, 1.0))
    with pytest.raises(ValueError, match="sample_weight is zero everywhere"):
        model.fit(X, y, np.zeros(37))
    with pytest.raises(ValueError, match="y holds one class, 1: the number of classes has to be"):
        model.fit(X[y == 1], y[y == 1])
    model.set_params(class_weight=dict.fromkeys(range(3), 0.0))
    with pytest.raises(ValueError, match="class_weight is zero everywhere"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_what_is_no_class_is_refused(rows):
    X, y = rows
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        BundleSVC().fit(X, y + 0.5)


def test_weights_of_any_size_are_proportions(rows):
    X, y = rows
    coef = BundleSVC(alpha=0.1).fit(X, y).coef_
    for factor in (2.0**-1070, 2.0**1023):
        model = BundleSVC(alpha=0.1).fit(X, y, np.full(37, factor))
        np.testing.assert_array_equal(model.coef_, coef)


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


def test_features_are_those_of_the_map_before(rows):
    X, y = rows
    phi = SparseAdditiveMap(n_knots=4).fit(X)
    rows_ = BundleSVC(FrozenEstimator(phi), alpha=0.1).fit(X, y)
    features = BundleSVC(phi, alpha=0.1, input="features").fit(phi.transform(X), y)
    np.testing.assert_array_equal(features.coef_, rows_.coef_)
    np.testing.assert_array_equal(
        features.decision_function(phi.transform(X)), rows_.decision_function(X)
    )


def test_scores_of_codes_are_those_of_their_rows(rows):
    X, y = rows
    pq = ProductQuantizer(2, 4, random_state=0).fit(X)
    model = BundleSVC(FrozenEstimator(pq), alpha=0.1).fit(X, y)
    by_codes = BundleSVC(pq, alpha=0.1, input="features").fit(pq.transform(X), y)
    scores = by_codes.decision_function(pq.transform(X))
    assert scores.dtype == np.float64
    # Rows of the same codes are one there.
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-12)


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


def test_a_weight_in_place_of_the_intercept_is_no_start(rows):
    X, y = rows
    model = BundleSVC(alpha=0.1, fit_intercept=False, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="warm_start = True, but"):
        model.set_params(fit_intercept=True).fit(X[:, :3], y)


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
