"""Nearest neighbours against brute force and scikit-learn."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier

from histrs import neighbors
from histrs.metrics import airm_distances, jbld_distances
from histrs.neighbors import MetricKNNClassifier

METRICS = {"jbld": jbld_distances, "airm": airm_distances}
each_metric = pytest.mark.parametrize("metric", METRICS)


def matrices(rng, n, p=3):
    """Covariances of three classes; some of them equal."""
    y = rng.integers(0, 3, size=n)
    A = rng.standard_normal((n, p, 9)) * (1 + 0.4 * y[:, None, None] * np.arange(p)[:, None])
    X = A @ A.transpose(0, 2, 1)
    X[n // 2] = X[0]
    return X, np.array(["c", "a", "b"])[y]


def brute_force(D, k):
    """By distance, then by place."""
    order = [sorted(range(len(row)), key=lambda j: (row[j], j))[:k] for row in D]
    return np.array(order).reshape(len(D), k)


@each_metric
@pytest.mark.parametrize("weights", ["uniform", "distance"])
@given(n=st.integers(4, 40), k=st.integers(1, 4), seed=st.integers(0, 99))
def test_neighbours_and_votes_are_those_of_brute_force(metric, weights, n, k, seed):
    rng = np.random.default_rng(seed)
    (X, y), (queries, _) = matrices(rng, n), matrices(rng, 12)
    queries[3] = X[1]
    model = MetricKNNClassifier(k, metric=metric, weights=weights).fit(X, y)
    D = METRICS[metric](queries, X)
    distances, indices = model.kneighbors(queries)
    np.testing.assert_array_equal(indices, brute_force(D, k))
    np.testing.assert_array_equal(distances, np.take_along_axis(D, indices, axis=1))
    np.testing.assert_array_equal(model.kneighbors(queries, return_distance=False), indices)
    reference = KNeighborsClassifier(k, metric="precomputed", weights=weights, algorithm="brute")
    reference.fit(METRICS[metric](X), y)
    if len(np.unique(np.sort(D, axis=1)[:, : k + 1])) == D[:, : k + 1].size:  # no ties
        np.testing.assert_allclose(model.predict_proba(queries), reference.predict_proba(D))
        np.testing.assert_array_equal(model.predict(queries), reference.predict(D))


@each_metric
def test_neighbours_of_the_training_data_leave_themselves_out(rng, metric):
    X, y = matrices(rng, 20)
    model = MetricKNNClassifier(3, metric=metric).fit(X, y)
    D = METRICS[metric](X, X.copy())
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(model.kneighbors()[1], brute_force(D, 3))
    assert model.kneighbors(n_neighbors=1)[1][0] == 10  # its copy
    with pytest.raises(ValueError, match="n_neighbors = 20 is more than the 19 samples"):
        model.kneighbors(n_neighbors=20)


def test_batches_do_not_matter(rng, monkeypatch):
    (X, y), (queries, _) = matrices(rng, 20), matrices(rng, 31)
    model = MetricKNNClassifier(3, metric="airm").fit(X, y)
    expected = model.kneighbors(queries), model.kneighbors()
    monkeypatch.setattr(neighbors, "_BATCH", 70)
    for ours, theirs in zip((model.kneighbors(queries), model.kneighbors()), expected, strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])


@each_metric
def test_forms_of_the_argument_do_not_matter(rng, metric):
    X, y = matrices(rng, 20)
    flat = X.reshape(20, 9)
    model = MetricKNNClassifier(metric=metric).fit(X, y)
    expected = model.predict_proba(X)
    for form in (flat, flat.tolist(), X.tolist(), np.asfortranarray(X), flat.astype(np.float32)):
        other = MetricKNNClassifier(metric=metric, n_jobs=2).fit(form, y)
        np.testing.assert_array_equal(other.predict_proba(X), expected)
        np.testing.assert_array_equal(model.predict_proba(form), expected)
        assert other.n_features_in_ == 9
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_other_metrics(rng):
    X, y = matrices(rng, 30)
    flat = X.reshape(30, 9)
    reference = KNeighborsClassifier(3).fit(flat, y)
    model = MetricKNNClassifier(3, metric="euclidean").fit(flat, y)
    np.testing.assert_array_equal(model.predict(flat), reference.predict(flat))
    stored = MetricKNNClassifier(3, metric="euclidean").fit(sparse.csr_array(flat), y)
    np.testing.assert_array_equal(stored.predict(sparse.csr_array(flat)), model.predict(flat))

    def city_block(X, Y, *, n_jobs, power):
        return (np.abs(X[:, None] - Y[None]) ** power).sum(axis=2)

    reference = KNeighborsClassifier(3, metric="manhattan").fit(flat, y)
    model = MetricKNNClassifier(3, metric=city_block, metric_params={"power": 1}).fit(flat, y)
    np.testing.assert_array_equal(model.predict(flat), reference.predict(flat))


def test_the_grid_search_of_scikit_learn_takes_it(rng):
    X, y = matrices(rng, 40)
    search = GridSearchCV(
        MetricKNNClassifier(), {"n_neighbors": [1, 3], "metric": ["jbld", "airm"]}, cv=3
    )
    assert search.fit(X.reshape(40, 9), y).best_score_ > 0.5
    assert search.fit(X, y).best_score_ > 0.5


def test_bad_input_leaves_the_model_as_it_was(rng):
    X, y = matrices(rng, 10)
    model = MetricKNNClassifier(metric="airm").fit(X, y)
    before = pickle.dumps(model)
    bad = X.copy()
    bad[7] *= -1
    with pytest.raises(ValueError, match=r"X\[7\] is not positive definite.*project_to_spd"):
        model.fit(bad, y)
    with pytest.raises(ValueError, match=r"X\[7\] is not positive definite"):
        model.predict(bad)
    with pytest.raises(ValueError, match="X has 16 features, but MetricKNNClassifier"):
        model.predict(np.eye(4)[None])
    with pytest.raises(ValueError, match="not a square number"):
        model.fit(np.ones((10, 7)), y)
    with pytest.raises(ValueError, match="The 'metric' parameter"):
        MetricKNNClassifier(metric="mahalanobis").fit(X, y)
    for k in (0, 11, 1.5):
        with pytest.raises((ValueError, TypeError), match="n_neighbors = "):
            model.kneighbors(X, n_neighbors=k)
    assert pickle.dumps(model) == before
