"""Distances that are computed once, and handed to every estimator that takes a metric."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from histrs.cluster import KMedoids
from histrs.metrics import chi2_distances
from histrs.neighbors import MetricKNNClassifier, MetricKNNRegressor
from histrs.prototypes import (
    CondensedNN,
    FastCondensedNN,
    RandomMutationNN,
    RandomSubset,
    ReducedNN,
)

ESTIMATORS = [
    MetricKNNClassifier(3),
    MetricKNNClassifier("auto", weights="auto"),
    MetricKNNClassifier(3, class_weight={0: 1.0, 1: 2.0, 2: 0.0}),
    MetricKNNRegressor(3, weights="distance"),
    MetricKNNRegressor("auto"),
    CondensedNN(random_state=0),
    FastCondensedNN(),
    ReducedNN(random_state=0),
    RandomSubset(0.2, random_state=0),
    RandomSubset(0.2, n_neighbors=3, random_state=0),
    RandomMutationNN(0.1, max_iter=40, random_state=0),
    KMedoids(3, random_state=0),
]
each = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)


@pytest.fixture
def data(rng):
    y = np.arange(60) % 3
    X = rng.random((60, 5)) + 0.02
    X[np.arange(60), y] += 0.7
    return X, y


def fitted(estimator, metric, X, y, weight=None):
    model = clone(estimator).set_params(metric=metric)
    arguments = {} if weight is None else {"sample_weight": weight}
    return model.fit(X, y, **arguments)


@each
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_answers_are_those_of_the_metric(data, estimator, dtype):
    X, y = (data[0].astype(dtype), data[1])
    given = fitted(estimator, "precomputed", chi2_distances(X[:45]), y[:45])
    named = fitted(estimator, "chi2", X[:45], y[:45])
    between = chi2_distances(X[45:], X[:45])
    assert given.__sklearn_tags__().input_tags.pairwise
    assert not named.__sklearn_tags__().input_tags.pairwise
    if isinstance(estimator, FastCondensedNN):
        # Its first prototypes are those in the middle, where there are no centroids.
        assert given.score(between, y[45:]) > 0.7
        return
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-9}
    for name in ("predict", "predict_proba", "transform", "kneighbors"):
        if hasattr(given, name):
            found, expected = getattr(given, name)(between), getattr(named, name)(X[45:])
            if name == "kneighbors":
                np.testing.assert_array_equal(found[1], expected[1])
                found, expected = found[0], expected[0]
            np.testing.assert_allclose(found, expected, **tolerance)


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if not isinstance(e, KMedoids)], ids=repr
)
def test_samples_of_weight_0_are_left_out(data, estimator):
    X, y = data
    weight = np.where(np.arange(60) % 4 == 0, 0.0, 1.0)
    D = chi2_distances(X)
    given = fitted(estimator, "precomputed", D, y, weight)
    if isinstance(estimator, FastCondensedNN):
        assert np.all(weight[given.sample_indices_] > 0)
        return
    named = fitted(estimator, "chi2", X, y, weight)
    np.testing.assert_allclose(given.predict(D), named.predict(X), rtol=1e-9)


def test_neighbours_of_the_training_samples_themselves(data):
    X, y = data
    given = MetricKNNClassifier(4, metric="precomputed").fit(chi2_distances(X), y)
    named = MetricKNNClassifier(4, metric="chi2").fit(X, y)
    for found, expected in zip(given.kneighbors(), named.kneighbors(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert (given.kneighbors_graph() != named.kneighbors_graph()).nnz == 0


@pytest.mark.parametrize(
    "model", [MetricKNNClassifier(), RandomSubset(3, random_state=0)], ids=repr
)
def test_a_grid_search_takes_one_matrix(data, model):
    """Folds cut rows and columns."""
    X, y = data
    search = GridSearchCV(model, {"n_neighbors": [1, 3, 5]}, cv=KFold(4))
    given = clone(search).set_params(estimator__metric="precomputed").fit(chi2_distances(X), y)
    named = clone(search).set_params(estimator__metric="chi2").fit(X, y)
    for key in ("mean_test_score", "split0_test_score"):
        np.testing.assert_array_equal(given.cv_results_[key], named.cv_results_[key])


def test_prototypes_are_places(data):
    X, y = data
    D = chi2_distances(X)
    model = CondensedNN(metric="precomputed", random_state=0).fit(D, y)
    np.testing.assert_array_equal(model.prototypes_, model.sample_indices_)
    clusters = KMedoids(3, metric="precomputed", random_state=0).fit(D)
    np.testing.assert_array_equal(clusters.cluster_centers_, clusters.medoid_indices_)


@each
def test_what_is_refused(data, estimator):
    X, y = data
    D = chi2_distances(X)
    with pytest.raises(ValueError, match=r"X has shape \(60, 5\): to fit, give the distances"):
        fitted(estimator, "precomputed", X, y)
    bad = D.copy()
    bad[3, 4] = -0.5
    with pytest.raises(ValueError, match=r"X\[3, 4\] = -0.5: distances must not be negative"):
        fitted(estimator, "precomputed", bad, y)
    bad[3, 4] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 4\] = NaN"):
        fitted(estimator, "precomputed", bad, y)
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        fitted(estimator, "precomputed", sparse.csr_array(D), y)
    with pytest.raises(ValueError, match="'precomputed' takes no arguments"):
        fitted(clone(estimator).set_params(metric_params={"reg": 1.0}), "precomputed", D, y)
    model = fitted(estimator, "precomputed", D, y)
    with pytest.raises(ValueError, match="expecting 60 features"):
        model.predict(D[:, :59])


def test_indices_of_samples_end_with_precomputed_distances():
    X = np.random.default_rng(0).standard_normal((20, 3))
    y = np.arange(20) % 2
    D = np.abs(X[:, None] - X[None]).sum(axis=2)
    model = MetricKNNClassifier(metric="precomputed").fit(D, y)
    assert hasattr(model, "sample_indices_")
    assert not hasattr(model.set_params(metric="euclidean").fit(X, y), "sample_indices_")
