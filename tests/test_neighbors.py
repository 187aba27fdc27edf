"""Nearest neighbours against brute force and scikit-learn."""

import pickle
from functools import wraps

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils import get_tags

from histrs import metrics
from histrs.metrics import airm_distances, emd_distances, jbld_distances, sinkhorn_distances
from histrs.metrics._bounds import airm_bounds, emd_bounds, sinkhorn_bounds
from histrs.metrics._registry import METRICS as EVERY_METRIC
from histrs.neighbors import MetricKNNClassifier, MetricKNNRegressor, _space
from histrs.neighbors._search import nearest, nearest_by_bounds
from histrs.testing import ground_distances, spd_matrices
from histrs.transport import grid_ground_distance
from tests.oracles import transport


def registered(name):
    """The distance by its name, whose rounding decides between matrices that are equally near."""

    def distances(X, Y=None):
        return EVERY_METRIC[name].distances(X, X if Y is None else Y, n_jobs=1)

    return distances


METRICS = {
    "jbld": jbld_distances,
    "airm": airm_distances,
    "logeuclid": registered("logeuclid"),
    "euclid": registered("euclid"),
}
each_metric = pytest.mark.parametrize("metric", METRICS)


def matrices(rng, n, p=3):
    """Covariances of three classes; some of them equal."""
    y = rng.integers(0, 3, size=n)
    A = rng.standard_normal((n, p, 9)) * (1 + 0.4 * y[:, None, None] * np.arange(p)[:, None])
    X = A @ A.transpose(0, 2, 1)
    X[n // 2] = X[0]
    return X, np.array(["c", "a", "b"])[y]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["logeuclid", "euclid"])
def test_flat_distances_are_their_definition(rng, metric, dtype):
    X, Y = matrices(rng, 7)[0].astype(dtype), matrices(rng, 4)[0].astype(dtype)

    def points(Z):
        values, V = np.linalg.eigh(Z.astype(np.float64))
        return Z if metric == "euclid" else (V * np.log(values)[:, None]) @ V.mT

    D = METRICS[metric](X, Y)
    expected = np.linalg.norm(points(X)[:, None] - points(Y)[None], axis=(2, 3))
    assert D.dtype == dtype
    np.testing.assert_allclose(D, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


def brute_force(D, k):
    """By distance, then by place."""
    order = [sorted(range(len(row)), key=lambda j: (row[j], j))[:k] for row in D]
    return np.array(order).reshape(len(D), k)


@each_metric
@pytest.mark.parametrize("weights", ["uniform", "distance"])
@given(n=st.integers(4, 40), k=st.integers(1, 4), seed=st.integers(0, 99))
def test_neighbours_are_those_of_brute_force(metric, weights, n, k, seed):
    rng = np.random.default_rng(seed)
    (X, y), (queries, _) = matrices(rng, n), matrices(rng, 12)
    queries[3] = X[1]
    model = MetricKNNClassifier(k, metric=metric, weights=weights).fit(X, y)
    D = METRICS[metric](queries, X)
    distances, indices = model.kneighbors(queries)
    np.testing.assert_array_equal(indices, brute_force(D, k))
    np.testing.assert_array_equal(distances, np.take_along_axis(D, indices, axis=1))
    np.testing.assert_array_equal(model.kneighbors(queries, return_distance=False), indices)


@each_metric
@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("k", [2, 4])
def test_votes_are_those_of_scikit_learn(rng, metric, weights, k):
    (X, y), (queries, _) = matrices(rng, 31), matrices(rng, 12)
    # Without copies there are no ties, which scikit-learn breaks in another way.
    X, y = np.delete(X, 15, axis=0), np.delete(y, 15)
    queries = np.delete(queries, 6, axis=0)
    D = METRICS[metric](queries, X)
    assert len(np.unique(D)) == D.size
    model = MetricKNNClassifier(k, metric=metric, weights=weights).fit(X, y)
    reference = KNeighborsClassifier(k, metric="precomputed", weights=weights, algorithm="brute")
    reference.fit(METRICS[metric](X), y)
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


WEIGHTS = ("uniform", "distance")


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("shape", [(), (2,)])
def test_means_are_those_of_scikit_learn(rng, weights, shape):
    X, queries = rng.random((40, 3)), rng.random((15, 3))
    y = rng.normal(size=(40, *shape))
    model = MetricKNNRegressor(4, metric="euclidean", weights=weights).fit(X, y)
    reference = KNeighborsRegressor(4, weights=weights).fit(X, y)
    np.testing.assert_allclose(model.predict(queries), reference.predict(queries))
    for mode in ("connectivity", "distance"):
        graph = model.kneighbors_graph(queries, mode=mode)
        theirs = reference.kneighbors_graph(queries, mode=mode)
        np.testing.assert_allclose(graph.toarray(), theirs.toarray(), atol=1e-7)
        own = model.kneighbors_graph(n_neighbors=2, mode=mode).toarray()
        np.testing.assert_allclose(
            own, reference.kneighbors_graph(n_neighbors=2, mode=mode).toarray(), atol=1e-7
        )
    with pytest.raises(ValueError, match="mode = 'weights'"):
        model.kneighbors_graph(mode="weights")


@pytest.mark.parametrize("make", [MetricKNNClassifier, MetricKNNRegressor])
def test_what_is_set_after_a_fit_counts(rng, make):
    X, y = rng.random((40, 3)), rng.integers(0, 3, size=40)
    model = make(1).fit(X, y).set_params(n_neighbors=7, weights="distance")
    assert model.kneighbors(X)[1].shape == (40, 7)
    np.testing.assert_array_equal(
        model.predict(X[:, ::-1]), make(7, weights="distance").fit(X, y).predict(X[:, ::-1])
    )


def test_means_of_single_precision_rows_keep_the_targets_digits(rng):
    X = rng.random((30, 3)).astype(np.float32)
    y = 1.7e9 + np.arange(30.0)
    np.testing.assert_array_equal(MetricKNNRegressor(1).fit(X, y).predict(X), y)


def test_the_matrix_of_a_callable_is_its_own(rng):
    X, y = rng.random((20, 2)), rng.integers(0, 2, size=20)
    D = np.rint(10 * cdist(X, X)).astype(int)
    D.setflags(write=False)
    model = MetricKNNClassifier("auto", metric=lambda A, B, n_jobs: D[: len(A), : len(B)])
    model.fit(X, y)
    assert np.all(np.diagonal(D) == 0)
    np.testing.assert_array_equal(model.kneighbors(X, 1)[0], 0.0)
    for wrong, message in (
        (lambda A, B, n_jobs: np.full((len(A), len(B)), np.nan), "returned NaN for X.0. and Y"),
        (lambda A, B, n_jobs: np.zeros((len(B), 1)), r"shape \(1, 1\), expected \(20, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            MetricKNNClassifier(metric=wrong).fit(X, y).predict(X)


def test_a_fit_that_chooses_nothing_tries_one_distance_of_each_row(rng):
    X, y = rng.random((20, 2)), rng.integers(0, 2, size=20)
    shapes = []

    def metric(A, B, n_jobs):
        shapes.append((len(A), len(B)))
        return cdist(A, B)

    model = MetricKNNClassifier(3, metric=metric, weights="distance").fit(X, y)
    assert shapes == [(20, 1)]
    assert (model.n_neighbors_, model.weights_) == (3, "distance")
    assert model.sample_weight_ is None
    np.testing.assert_array_equal(model.fit(X, y, sample_weight=np.ones(20)).X_fit_, X)


def test_weights_of_classes_multiply_those_of_samples(rng):
    X, y, w = rng.random((30, 3)), rng.integers(0, 3, size=30), rng.random(30)
    factors = {0: 0.5, 1: 2.0, 2: 0.0}
    model = MetricKNNClassifier(5, class_weight=factors).fit(X, y, sample_weight=w)
    product = w * np.array([0.5, 2.0, 0.0])[y]
    expected = MetricKNNClassifier(5).fit(X[y < 2], y[y < 2], sample_weight=product[y < 2])
    queries = rng.random((10, 3))
    np.testing.assert_allclose(model.predict_proba(queries)[:, :2], expected.predict_proba(queries))


@pytest.mark.parametrize("make", [MetricKNNClassifier, MetricKNNRegressor])
def test_scikit_learn_knows_what_each_metric_is_between(make):
    known = {
        "auto": (True, True, True),
        "airm": (False, False, True),
        "chi2": (True, True, False),
        "euclidean": (True, False, False),
        cdist: (True, False, False),
        "unknown": (True, False, False),
    }
    for metric, expected in known.items():
        tags = get_tags(make(metric=metric)).input_tags
        assert (tags.sparse, tags.positive_only, tags.three_d_array) == expected, metric


def test_targets_are_of_single_precision_where_they_were(rng):
    X = rng.random((10, 2)).astype(np.float32)
    for dtype, kept in ((np.float32, np.float32), (np.float16, np.float64), (int, np.float64)):
        model = MetricKNNRegressor().fit(X, np.arange(10).astype(dtype))
        assert model.y_fit_.dtype == kept
        assert model.predict(X).dtype == kept


def test_distances_beyond_single_precision_are_named():
    X, y = np.array([[0.0], [3e38], [-2e38]], dtype=np.float32), [0, 1, 1]
    model = MetricKNNClassifier(3, metric=lambda A, B, n_jobs: 2 * cdist(A, B)).fit(X, y)
    with pytest.raises(ValueError, match=r"a distance of 4e\+38 is more than float32 holds"):
        model.kneighbors(X)
    far = MetricKNNClassifier(3, metric=lambda A, B, n_jobs: np.full((len(A), len(B)), np.inf))
    assert np.isinf(far.fit(X, y).kneighbors(X)[0]).all()


def test_one_matrix_is_told_from_a_set_where_matrices_are_known(rng):
    A = np.stack([np.eye(2), 2 * np.eye(2), 3 * np.eye(2)])
    model = MetricKNNClassifier(metric="airm").fit(A, [0, 1, 1])
    with pytest.raises(ValueError, match=r"of one matrix A is A\[None\]"):
        model.predict(A[0])
    # What is learned anew may have another size.
    with pytest.raises(ValueError, match=r"2 numbers|2 features|square"):
        model.fit(A[0], [0, 1])
    vectors = MetricKNNClassifier(metric="euclidean").fit(A.reshape(3, 4), [0, 1, 1])
    with pytest.raises(ValueError, match="X has 2 features"):
        vectors.predict(A[0])


def test_one_neighbour_is_a_graph_of_one_entry_a_row(rng):
    X = rng.random((6, 2))
    graph = MetricKNNClassifier().fit(X, [0, 1] * 3).kneighbors_graph(X)
    np.testing.assert_array_equal(graph.toarray(), np.eye(6))


def test_bounds_may_be_off_by_a_rounding_and_end_the_search():
    D = np.array([[1.0] + [1.5] * 39])
    calls = []

    def of_pairs(rows, columns):
        calls.append((rows, columns))
        return D[rows, columns]

    distances, indices = nearest_by_bounds(D, of_pairs, 1)
    assert (distances.item(), indices.item()) == (1.0, 0)
    # The first round tells that no other bound is low enough.
    assert [len(rows) for rows, _ in calls] == [8]
    # Of 40 at one distance the first are found, however their bounds are rounded.
    D = np.ones((1, 40))
    bounds = 1.0 + 5e-7 * (np.arange(40)[::-1] > 20)
    np.testing.assert_array_equal(nearest_by_bounds(bounds[None], of_pairs, 3)[1], [[0, 1, 2]])


def test_no_more_distances_than_a_batch_are_held_at_once(rng, monkeypatch):
    held = []

    def metric(A, B, n_jobs):
        held.append(len(A) * len(B))
        return cdist(A, B)

    X = rng.random((20, 2))
    model = MetricKNNClassifier(3, metric=metric).fit(X, [0, 1] * 10)
    queries = rng.random((10, 2))
    expected = *model.kneighbors(queries), *model.kneighbors()
    held.clear()
    monkeypatch.setattr(_space, "_BATCH", 70)
    found = *model.kneighbors(queries), *model.kneighbors()
    assert max(held) == 60
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def left_out_costs(X, Y, w, rules, counts):
    """Mean squared errors of left-out targets, in units of their spread, by number and rule."""
    mean = np.average(Y, axis=0, weights=w)
    variance = np.average((Y - mean) ** 2, axis=0, weights=w)
    costs = {}
    for rule in rules:
        for k in counts:
            errors = []
            for i in range(len(X)):
                distances = np.abs(X - X[i]).sum(axis=1)
                distances[i] = np.inf
                near = np.argsort(distances, kind="stable")[:k]
                votes = w[near] / (distances[near] if rule == "distance" else 1.0)
                errors.append(votes @ Y[near] / votes.sum() - Y[i])
            costs[k, rule] = np.mean(np.average(np.square(errors) / variance, axis=0, weights=w))
    return costs


@pytest.mark.parametrize("weights", ["auto", "uniform", "distance"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_neighbors", ["auto", 2])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_chosen_has_the_least_left_out_error(weights, weighted, n_neighbors, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([3, 4, 6, 16, 60]))
    X = rng.random((n, 1))
    Y = np.column_stack([np.sin(5 * X[:, 0]), rng.random(n) * 1e3 + 5e3])
    Y[:, 0] += rng.normal(scale=0.3, size=n) - 4.0
    w = rng.exponential(size=n) ** 2 + 0.01 if weighted else np.ones(n)
    rules = ["uniform", "distance"] if weights == "auto" else [weights]
    counts = [k for k in (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56) if k < n]
    counts = counts if n_neighbors == "auto" else [n_neighbors]
    model = MetricKNNRegressor(
        n_neighbors, metric=lambda A, B, n_jobs: cdist(A, B), weights=weights
    )
    # Targets of any unit, and two that say nothing.
    units = rng.permutation([1e170, 1e-170])
    targets = np.column_stack([units * Y, np.full(n, 0.7), np.zeros(n)])
    model.fit(X, targets, sample_weight=1e300 * w / w.max() if weighted else None)
    costs = left_out_costs(X, Y, w, rules, counts)
    chosen = costs[model.n_neighbors_, model.weights_]
    assert chosen == pytest.approx(min(costs.values()), rel=1e-9)


def test_one_sample_is_its_own_only_neighbour():
    model = MetricKNNRegressor("auto", weights="auto").fit([[1.0, 2.0]], [5.0])
    assert (model.n_neighbors_, model.weights_) == (1, "uniform")
    np.testing.assert_array_equal(model.predict([[2.0, 1.0]]), [5.0])


def test_no_more_neighbours_are_chosen_than_there_are_others():
    # The mean of all would be nearer to either target than the other one is.
    model = MetricKNNRegressor("auto", metric="euclidean").fit([[0.0], [1.0]], [0.0, 1.0])
    assert model.n_neighbors_ == 1
    assert model.kneighbors()[1].shape == (2, 1)


# ---- metrics of histograms ------------------------------------------------------------------

M = grid_ground_distance((2, 3))
PARAMS = {"emd": {"M": M}, "sinkhorn": {"M": M, "reg": 0.2, "tol": 1e-9, "max_iter": 20_000}}
# From the definitions, a pair at a time.
DEFINITIONS = {
    "additive_chi2": lambda x, y: np.sum((x - y) ** 2 / (x + y)),
    "chi2": lambda x, y: np.sum((x - y) ** 2 / (x + y)),
    "emd": lambda x, y: transport.emd(x, y, M),
    "euclidean": lambda x, y: np.linalg.norm(x - y),
    "exp_chi2": lambda x, y: 2 - 2 * np.exp(-np.sum((x - y) ** 2 / (x + y))),
    "hellinger": lambda x, y: np.sum((np.sqrt(x) - np.sqrt(y)) ** 2),
    "intersection": lambda x, y: np.sum(np.abs(x - y)),
    "jensen_shannon": lambda x, y: np.sum(
        x * np.log2(2 * x / (x + y)) + y * np.log2(2 * y / (x + y))
    ),
    "minmax": lambda x, y: 1 - np.minimum(x, y).sum() / np.maximum(x, y).sum(),
    "sinkhorn": lambda x, y: transport.sinkhorn_distance(x, y, M, 0.2),
}


def histograms(rng, n):
    y = np.arange(n) % 3
    X = rng.gamma(0.5 + (np.arange(6) // 2 == y[:, None])) + 1e-6
    return X / X.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("metric", sorted(set(EVERY_METRIC) - set(METRICS)))
def test_metrics_of_histograms(rng, metric):
    (X, y), (queries, _) = histograms(rng, 40), histograms(rng, 7)
    model = MetricKNNClassifier(3, metric=metric, metric_params=PARAMS.get(metric)).fit(X, y)
    D = np.array([[DEFINITIONS[metric](query, x) for x in X] for query in queries])
    distances, indices = model.kneighbors(queries)
    np.testing.assert_array_equal(indices, brute_force(D, 3))
    np.testing.assert_allclose(distances, np.take_along_axis(D, indices, axis=1), atol=1e-7)
    stored = MetricKNNClassifier(3, metric=metric, metric_params=PARAMS.get(metric))
    stored.fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(stored.kneighbors(sparse.csr_array(queries))[1], indices)
    single = MetricKNNClassifier(3, metric=metric, metric_params=PARAMS.get(metric))
    single.fit(X.astype(np.float32), y)
    found = single.kneighbors(queries.astype(np.float32))[0]
    np.testing.assert_allclose(found, distances, rtol=1e-4, atol=1e-5)
    model.set_params(metric_params={**PARAMS.get(metric, {}), "unknown": 1})
    with pytest.raises(ValueError, match="unknown"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.kneighbors(queries)[1], indices)


@pytest.mark.parametrize(
    "metric", ["hellinger", "intersection", "jensen_shannon", "exp_chi2", "minmax"]
)
def test_copies_are_at_distance_0(rng, metric):
    X, y = histograms(rng, 70)
    model = MetricKNNClassifier(metric=metric).fit(X, y)
    np.testing.assert_array_equal(model.kneighbors(X)[0], 0.0)
    np.testing.assert_array_equal(model.kneighbors(X)[1][:, 0], np.arange(70))


@pytest.mark.parametrize("metric", ["exp_chi2", "hellinger", "intersection", "jensen_shannon"])
def test_distances_of_single_precision_rows_that_are_near_have_all_its_digits(rng, metric):
    X = rng.random((10, 6)) + 1.0
    X, queries = X.astype(np.float32), (X * (1 + 1e-3 * rng.random((10, 6)))).astype(np.float32)
    found = MetricKNNClassifier(metric=metric).fit(X, np.arange(10) % 2).kneighbors(queries)[0]
    wide = X.astype(np.float64), queries.astype(np.float64)
    expected = [DEFINITIONS[metric](x, query) for x, query in zip(*wide, strict=True)]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("metric", ["intersection", "minmax"])
@pytest.mark.parametrize("largest", [255, 65_535])
def test_distances_of_codes_are_exact(rng, metric, largest):
    X, queries = (rng.integers(0, largest + 1, size=(n, 9)).astype(float) for n in (60, 20))
    X[1] = largest
    D = np.abs(queries[:, None] - X).sum(axis=2)
    if metric == "minmax":
        D /= np.maximum(queries[:, None], X).sum(axis=2)
    model = MetricKNNClassifier(3, metric=metric).fit(X, np.arange(60) % 3)
    distances, indices = model.kneighbors(queries)
    np.testing.assert_array_equal(distances, np.sort(D, axis=1)[:, :3])
    np.testing.assert_array_equal(indices, brute_force(D, 3))
    coded = MetricKNNClassifier(3, metric=metric).fit(X.astype(np.uint16), np.arange(60) % 3)
    np.testing.assert_array_equal(coded.kneighbors(queries)[0], distances)


# ---- searches with bounds -------------------------------------------------------------------


@settings(deadline=None)
@given(
    n=st.integers(1, 6),
    m=st.integers(1, 40),
    k=st.integers(1, 5),
    looseness=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_a_search_with_bounds_is_one_without(n, m, k, looseness, seed):
    rng = np.random.default_rng(seed)
    k = min(k, m)
    D = rng.integers(0, 8, size=(n, m)).astype(float)
    bounds = D * (1 - looseness * rng.random((n, m)))
    asked = []

    def of_pairs(rows, columns):
        asked.extend(zip(rows.tolist(), columns.tolist(), strict=True))
        return D[rows, columns]

    found, expected = nearest_by_bounds(bounds, of_pairs, k), nearest(D, k)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    assert len(set(asked)) == len(asked)


@settings(deadline=None, max_examples=50)
@given(
    X=spd_matrices(n=st.integers(1, 4), p=st.sampled_from([1, 2, 5]), condition=1e5),
    seed=st.integers(0, 9),
)
def test_bounds_below_airm(X, seed):
    # In double precision, which the distance of single precision is rounded to.
    X = np.asarray(X, dtype=np.float64)
    A = np.random.default_rng(seed).standard_normal((5, X.shape[1], 2 * X.shape[1]))
    Y = np.concatenate([A @ A.transpose(0, 2, 1), X])
    distances = airm_distances(X, Y)
    bounds = airm_bounds(X, Y, n_jobs=1)
    assert np.all(bounds <= distances)


def test_bounds_below_airm_are_sharp_where_matrices_are_near(rng):
    X, _ = matrices(rng, 30, 4)
    noise = 0.02 * rng.standard_normal((30, 4, 4))
    Y = X @ (np.eye(4) + noise + noise.transpose(0, 2, 1))
    Y = (Y + Y.transpose(0, 2, 1)) / 2
    distances = airm_distances(X, Y, paired=True)
    bounds = np.diagonal(airm_bounds(X, Y, n_jobs=1))
    assert np.all(bounds > 0.99 * distances)
    # Never below the bound in the literature.
    D = jbld_distances(X, Y, paired=True)
    assert np.all(bounds >= np.sqrt(8 * D) - 1e-8)


@settings(deadline=None, max_examples=50)
@given(M=ground_distances(d=5), metric=st.booleans(), seed=st.integers(0, 99))
def test_bounds_below_transport(M, metric, seed):
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.3, size=(6, 5)) + 1e-9
    X /= X.sum(axis=1, keepdims=True)
    if not metric:
        M = M**2
    exact = emd_distances(X, M=M)
    assert np.all(emd_bounds(X, X, M=M, n_jobs=1) <= exact)
    reg = 0.3 * max(float(M.max()), 1e-3)
    for tol in (1e-2, 1e-6):
        params = {"M": M, "reg": reg, "tol": tol, "max_iter": 20_000}
        bounds = sinkhorn_bounds(X, X, **params, n_jobs=1)
        assert np.all(bounds <= sinkhorn_distances(X, X.copy(), **params))
    assert sinkhorn_bounds(X, X, M=M, reg=reg, cost="regularized", n_jobs=1) is None


@pytest.mark.parametrize("metric", ["airm", "emd", "sinkhorn"])
@pytest.mark.parametrize("k", [1, 3])
def test_bounds_spare_distances(rng, monkeypatch, metric, k):
    if metric == "airm":
        (X, y), (queries, _) = matrices(rng, 120), matrices(rng, 15)
    else:
        (X, y), (queries, _) = histograms(rng, 120), histograms(rng, 15)
    if metric == "emd":
        X[7] = X[3]  # of copies, an iteration may find either nearer
    model = MetricKNNClassifier(k, metric=metric, metric_params=PARAMS.get(metric)).fit(X, y)
    computed = []
    own = EVERY_METRIC[metric]

    def counted(X, Y, rows, columns, **options):
        computed.append(len(rows))
        return own.of_pairs(X, Y, rows, columns, **options)

    @wraps(own.distances)
    def of_all_pairs(*_, **options):
        raise AssertionError("distances of all pairs are computed")

    monkeypatch.setitem(
        EVERY_METRIC, metric, own._replace(of_pairs=counted, distances=of_all_pairs)
    )
    searches = [lambda: model.kneighbors(queries[:1]), lambda: model.kneighbors(queries)]
    searches.append(model.kneighbors)
    found = [search() for search in searches]
    assert 0 < sum(computed) < 0.5 * 120 * 135
    # Where most are needed, bounds are in vain.
    monkeypatch.setitem(EVERY_METRIC, metric, own._replace(of_pairs=counted))
    n_before = len(computed)
    model.kneighbors(queries, 60)
    assert len(computed) == n_before
    monkeypatch.setitem(EVERY_METRIC, metric, own._replace(bounds=None))
    for ours, theirs in zip(found, [search() for search in searches], strict=True):
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(ours[1], theirs[1])


def test_a_callable_has_parameters(rng):
    X, y = matrices(rng, 30)
    flat = X.reshape(30, 9)

    def city_block(X, Y, *, n_jobs, power):
        return (np.abs(X[:, None] - Y[None]) ** power).sum(axis=2)

    reference = KNeighborsClassifier(3, metric="manhattan").fit(flat, y)
    model = MetricKNNClassifier(3, metric=city_block, metric_params={"power": 1}).fit(flat, y)
    np.testing.assert_array_equal(model.predict(flat), reference.predict(flat))


def test_bad_input_leaves_the_model_as_it_was(rng):
    X, y = matrices(rng, 10)
    model = MetricKNNClassifier(metric="airm").fit(X, y)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="X has 16 features, but MetricKNNClassifier"):
        model.predict(np.eye(4)[None])
    with pytest.raises(ValueError, match="not a square number"):
        model.fit(np.ones((10, 7)), y)
    for k in (0, 11, 1.5):
        with pytest.raises((ValueError, TypeError), match="n_neighbors = "):
            model.kneighbors(X, n_neighbors=k)
    assert pickle.dumps(model) == before


def test_the_default_metric_is_that_of_the_kind_of_data(rng):
    rows, y = rng.random((40, 64)), np.arange(40) % 2
    matrices = rows.reshape(40, 8, 8)
    matrices = matrices @ matrices.swapaxes(1, 2) + np.eye(8)
    for X, metric in ((rows, "chi2"), (matrices, "jbld"), (list(matrices), "jbld")):
        model = MetricKNNClassifier().fit(X, y)
        assert model.metric_ == metric
        named = MetricKNNClassifier(metric=metric).fit(X, y)
        np.testing.assert_array_equal(model.kneighbors(X)[0], named.kneighbors(X)[0])
    assert MetricKNNClassifier().fit(sparse.csr_array(rows), y).metric_ == "chi2"
    flat = matrices.reshape(40, 64)
    flat[3, 1] = -1.0
    with pytest.raises(ValueError, match="histograms are non-negative"):
        MetricKNNClassifier().fit(flat, y)


def test_what_was_fitted_answers_whatever_is_set_later(rng):
    X, y = histograms(rng, 40)
    model = MetricKNNClassifier(metric="sinkhorn", metric_params=PARAMS["sinkhorn"]).fit(X, y)
    before = model.kneighbors(X)[0]
    model.set_params(metric="euclidean", metric_params=None)
    np.testing.assert_array_equal(model.kneighbors(X)[0], before)


# ---- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_votes_and_means_are_weighted(rng, weights):
    X, y, queries = rng.random((60, 4)), rng.integers(0, 3, 60), rng.random((20, 4))
    w = rng.random(60) * 3
    model = MetricKNNClassifier(7, metric="euclidean", weights=weights)
    distances, indices = model.fit(X, y, sample_weight=w).kneighbors(queries)
    counts = w[indices] / (distances if weights == "distance" else 1.0)
    shares = np.stack([np.sum(counts * (y[indices] == k), axis=1) for k in range(3)], axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(queries), shares)
    targets = rng.random((60, 2))
    regressor = MetricKNNRegressor(7, metric="euclidean", weights=weights)
    regressor.fit(X, targets, sample_weight=w)
    expected = np.sum(counts[..., None] * targets[indices], axis=1) / counts.sum(axis=1)[:, None]
    np.testing.assert_allclose(regressor.predict(queries), expected)
    # Their unit does not matter.
    tiny = MetricKNNRegressor(7, metric="euclidean", weights=weights)
    np.testing.assert_allclose(
        tiny.fit(X, targets, sample_weight=1e-300 * w).predict(queries), expected
    )


def test_what_is_chosen_by_leaving_one_out_counts_weights(rng):
    X = rng.random((80, 3))
    y = (X[:, 0] > 0.5).astype(int)
    # Labels of the right half are noise: only one neighbour in many is right there.
    y[40:] = rng.integers(0, 2, 40)
    w = np.where(np.arange(80) < 40, 1.0, 1e-6)
    model = MetricKNNClassifier("auto", metric="euclidean").fit(X, y, sample_weight=w)
    costs = {}
    for k in (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56):
        _, indices = model.kneighbors(n_neighbors=k)
        shares = np.stack([np.sum(w[indices] * (y[indices] == c), axis=1) for c in (0, 1)])
        costs[k] = np.average(shares.argmax(axis=0) != y, weights=w)
    assert model.n_neighbors_ == min(costs, key=costs.get)
    assert (
        model.n_neighbors_ != MetricKNNClassifier("auto", metric="euclidean").fit(X, y).n_neighbors_
    )


def test_weights_of_classes_weigh_votes(rng):
    X, y = rng.random((60, 3)), np.array(["rare", "often", "often"])[np.arange(60) % 3]
    queries = rng.random((20, 3))
    plain = MetricKNNClassifier(9, metric="euclidean").fit(X, y)
    balanced = MetricKNNClassifier(9, metric="euclidean", class_weight="balanced").fit(X, y)
    given = MetricKNNClassifier(9, metric="euclidean", class_weight={"rare": 2.0}).fit(X, y)
    P = plain.predict_proba(queries) * [1, 2]
    expected = P / P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(balanced.predict_proba(queries), expected)
    np.testing.assert_allclose(given.predict_proba(queries), expected)
    none = MetricKNNClassifier(9, metric="euclidean", class_weight={"rare": 0.0}).fit(X, y)
    np.testing.assert_array_equal(none.classes_, ["often", "rare"])
    assert set(none.predict(queries)) == {"often"}
    with pytest.raises(ValueError, match="class_weight"):
        MetricKNNClassifier(class_weight={"rare": -1.0}).fit(X, y)


@pytest.mark.parametrize("metric", ["emd", "sinkhorn"])
def test_infinite_costs_forbid(rng, metric):
    # Two islands of bins: what has other masses on them is infinitely far.
    M = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    M[:3, 3:] = M[3:, :3] = np.inf
    X = np.concatenate([rng.dirichlet(np.ones(3), 40)] * 2, axis=1)
    y = (X[:, 0] > X[:, 2]).astype(int)
    X[::4, 3:] *= 0.5
    X[::4, :3] *= 1.5
    params = {"M": M} if metric == "emd" else {"M": M, "reg": 0.05}
    model = MetricKNNClassifier(1, metric=metric, metric_params=params).fit(X[10:], y[10:])
    D = getattr(metrics, f"{metric}_distances")(X[:10], X[10:], **params)
    assert np.isinf(D).any()
    assert np.isfinite(D).any(axis=1).all()
    np.testing.assert_array_equal(model.predict(X[:10]), y[10:][D.argmin(axis=1)])
