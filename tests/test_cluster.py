"""Clusters in the metrics of this package."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from histrs.cluster import KMedoids, MetricKMeans
from histrs.cluster._means import _MEANS
from histrs.metrics import airm_distances, jbld_distances
from histrs.metrics._registry import METRICS
from histrs.neighbors._space import Space
from histrs.transport import grid_ground_distance
from tests.helpers import wishart
from tests.oracles import spd as oracle

M = grid_ground_distance((6,))
PARAMS = {"emd": {"M": M}, "sinkhorn": {"M": M, "reg": 0.2}}
each_metric = pytest.mark.parametrize("metric", sorted(_MEANS))


def groups(rng, metric, n=60):
    """Samples of three kinds that are far apart, and their kinds."""
    kind = np.arange(n) % 3
    if METRICS[metric].kind == "covariances":
        A = rng.standard_normal((n, 3, 200))
        A *= np.array([[1, 1, 1], [6, 1, 1], [1, 1, 6]])[kind][:, :, None]
        return A @ A.transpose(0, 2, 1) / 200, kind
    X = rng.random((n, 6)) * 0.1 + 0.01
    X[np.arange(n), 2 * kind] += 1.0
    return X / X.sum(axis=1, keepdims=True), kind


def costs(metric, X, Y):
    D = Space(metric, PARAMS.get(metric), None).distances(X, Y)
    return D**2 if metric in ("airm", "euclid", "euclidean", "logeuclid") else D


# ---- means -------------------------------------------------------------------------------------


@each_metric
def test_kinds_are_found(rng, metric):
    X, kind = groups(rng, metric)
    model = MetricKMeans(
        3, metric=metric, metric_params=PARAMS.get(metric), n_init=3, random_state=0
    )
    labels = model.fit_predict(X)
    assert adjusted_rand_score(kind, labels) == 1.0
    np.testing.assert_array_equal(model.predict(X), labels)
    found = costs(metric, X, model.cluster_centers_)
    assert model.inertia_ == pytest.approx(found.min(axis=1).sum(), rel=1e-6)
    D = model.transform(X)
    np.testing.assert_array_equal(D.argmin(axis=1), labels)
    assert list(model.get_feature_names_out()) == [f"metrickmeans{i}" for i in range(3)]


@each_metric
def test_centres_are_better_than_any_sample(rng, metric):
    """A mean has no larger sum of costs than the best sample, but for transport not by much."""
    X, _ = groups(rng, metric, 24)
    model = MetricKMeans(1, metric=metric, metric_params=PARAMS.get(metric), random_state=0).fit(X)
    assert model.inertia_ <= costs(metric, X, X).sum(axis=0).min() * (
        1.05 if metric in PARAMS else 1 + 1e-6
    )


@pytest.mark.parametrize("metric", ["airm", "jbld"])
def test_centres_are_means_of_their_samples(rng, metric):
    X = wishart(rng, 40, 3)
    model = MetricKMeans(3, metric=metric, tol=0.0, random_state=0).fit(X)
    residual = {"airm": oracle.airm_mean_residual, "jbld": oracle.jbld_mean_residual}[metric]
    for c, centre in enumerate(model.cluster_centers_):
        own = X[model.labels_ == c]
        weights = np.full(len(own), 1 / len(own))
        np.testing.assert_allclose(residual(centre, own, weights), 0.0, atol=1e-5)


def test_vectors_as_scikit_learn(rng):
    X = rng.standard_normal((200, 3))
    ours = MetricKMeans(4, metric="euclidean", n_init=10, tol=0.0, random_state=0).fit(X)
    theirs = KMeans(4, n_init=10, random_state=0).fit(X)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=0.02)
    again = MetricKMeans(4, metric="euclidean", n_init=10, tol=0.0, random_state=0).fit(X)
    np.testing.assert_array_equal(again.labels_, ours.labels_)


def test_equal_samples_leave_no_cluster_without_a_centre():
    X = np.repeat(np.eye(3)[:2] + 0.1, 5, axis=0)
    model = MetricKMeans(4, random_state=0).fit(X)
    assert model.cluster_centers_.shape == (4, 3)
    assert np.isfinite(model.cluster_centers_).all()
    assert model.inertia_ == pytest.approx(0.0, abs=1e-12)
    assert KMedoids(4, metric="chi2", random_state=0).fit(X).inertia_ == 0.0


# ---- medoids -----------------------------------------------------------------------------------


@given(seed=st.integers(0, 999), n=st.integers(2, 9), k=st.integers(1, 4))
def test_no_swap_is_left(seed, n, k):
    X = np.random.default_rng(seed).random((n, 3)) + 0.01
    k = min(k, n)
    model = KMedoids(k, metric="chi2", random_state=seed).fit(X)
    D = costs("chi2", X, X)
    medoids = model.medoid_indices_.tolist()
    assert len(set(medoids)) == k

    def total(some):
        return D[:, some].min(axis=1).sum()

    assert model.inertia_ == pytest.approx(total(medoids), rel=1e-9, abs=1e-12)
    for i, j in itertools.product(range(k), set(range(n)) - set(medoids)):
        assert total([*medoids[:i], j, *medoids[i + 1 :]]) >= model.inertia_ - 1e-9
    np.testing.assert_array_equal(model.labels_, D[:, medoids].argmin(axis=1))
    np.testing.assert_array_equal(model.cluster_centers_, X[medoids])


@pytest.mark.parametrize("metric", ["airm", "jbld", "exp_chi2", "minmax", "emd", "sinkhorn"])
def test_kinds_are_found_in_any_metric(rng, metric):
    X, kind = groups(rng, metric, 30)
    model = KMedoids(3, metric=metric, metric_params=PARAMS.get(metric), random_state=0)
    assert adjusted_rand_score(kind, model.fit_predict(X)) == 1.0
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.predict(model.cluster_centers_), np.arange(3))


def test_a_callable(rng):
    X, _ = groups(rng, "chi2", 30)

    def city(X, Y, n_jobs):
        return np.abs(X[:, None] - Y[None]).sum(axis=2)

    named = KMedoids(3, metric="intersection", random_state=0).fit(X)
    own = KMedoids(3, metric=city, random_state=0).fit(X)
    np.testing.assert_array_equal(own.medoid_indices_, named.medoid_indices_)


# ---- what they refuse --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MetricKMeans, KMedoids])
def test_what_is_refused(rng, kind):
    X, _ = groups(rng, "chi2", 9)
    with pytest.raises(ValueError, match="n_samples = 9, fewer than n_clusters = 10"):
        kind(10).fit(X)
    with pytest.raises(ValueError, match="'sinkhorn' needs metric_params"):
        kind(2, metric="sinkhorn").fit(X)
    with pytest.raises(ValueError, match=r"X\[2, 1\] = -1"):
        kind(2).fit(np.where((np.arange(9)[:, None] == 2) & (np.arange(6) == 1), -1.0, X))
    with pytest.warns(ConvergenceWarning, match=f"{kind.__name__} stopped"):
        kind(3, metric="chi2", max_iter=1, random_state=3).fit(rng.random((60, 6)))


def test_means_take_no_sparse_rows_and_no_metric_without_a_mean(rng):
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        MetricKMeans(2, metric="chi2").fit(sparse.csr_array(np.eye(4)))
    with pytest.raises(ValueError, match="metric"):
        MetricKMeans(2, metric="minmax").fit(np.eye(4))


def test_auto_is_the_metric_of_the_kind(rng):
    for kind in (MetricKMeans, KMedoids):
        assert kind(2).fit(wishart(rng, 8, 3)).metric_ == "jbld"
        assert kind(2).fit(rng.random((8, 3))).metric_ == "chi2"


def test_distances_of_matrices_are_those_of_the_metric(rng):
    X = wishart(rng, 10, 3)
    for metric, distances in (("airm", airm_distances), ("jbld", jbld_distances)):
        model = MetricKMeans(2, metric=metric, random_state=0).fit(X)
        np.testing.assert_allclose(
            model.transform(X), distances(X, model.cluster_centers_), rtol=1e-7
        )


def test_distances_that_make_no_clusters_are_refused_by_name():
    H = np.random.default_rng(0).dirichlet(np.ones(5), 30)
    M = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    M[M > 1] = np.inf
    with pytest.raises(ValueError, match=r"distance of X\[\d+\] and X\[\d+\] is inf"):
        KMedoids(3, metric="emd", metric_params={"M": M}, random_state=0).fit(H)

    def negative(X, Y, **_):
        return -np.abs(X[:, None] - Y[None]).sum(axis=2)

    with pytest.raises(ValueError, match="finite and not negative"):
        KMedoids(3, metric=negative, random_state=0).fit(H)
