"""Support vector machines of dask arrays, and a cluster that loses workers."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from histrs import _histrs
from histrs.kernel_approximation import AdditiveChi2Map, SparseAdditiveMap
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC, IntersectionSVC
from histrs.svm._distributed import DaskRows
from histrs.svm._rows import FeatureRows, RowsWithIntercept
from tests.helpers import assert_close

dask = pytest.importorskip("dask", reason="needs dask: histrs[dask]")
dask_array = pytest.importorskip("dask.array", reason="needs dask: histrs[dask]")

# Two solutions within `tol` are as far apart as the root of it, as the objective is convex.
PARAMETERS = {"alpha": 1e-2, "tol": 1e-8}


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def data(rng, n=300, n_classes=3):
    centres = rng.random((n_classes, 6))
    labels = rng.integers(0, n_classes, n)
    X = np.abs(centres[labels] + 0.3 * rng.standard_normal((n, 6)))
    return X, np.array(["a", "b", "c", "d"])[labels]


def chunked(X, rows=80, columns=4):
    return dask_array.from_array(X, chunks=(rows, columns))


def assert_same_model(model, one, T):
    assert_close(model.coef_, one.coef_, 2e-3)
    assert_close(model.intercept_, one.intercept_, 2e-3)
    assert_close(model.objective_, one.objective_, 1e-7)
    expected = one.decision_function(T)
    assert_close(model.decision_function(T), expected, 5e-3)
    for rows in (chunked(T, 11), dask_array.from_array(T, chunks=7)):
        scores = model.decision_function(rows)
        assert isinstance(scores, np.ndarray)
        assert_close(scores, model.decision_function(T), 1e-12)
        np.testing.assert_array_equal(model.predict(rows), model.predict(T))


# ---- answers are those of one machine ------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"fit_intercept": False},
        {"loss": "logistic"},
        {"loss": "squared_hinge"},
        {"class_weight": "balanced"},
        {"alpha": [1e-3, 1e-2, 1e-1], "cv": 3, "random_state": 0},
    ],
    ids=str,
)
def test_features_as_they_are(rng, parameters, n_classes):
    X, y = data(rng, n_classes=n_classes)
    T = data(rng, 30)[0]
    given_parameters = {**PARAMETERS, **parameters}
    one = BundleSVC(**given_parameters).fit(X, y)
    model = BundleSVC(**given_parameters).fit(chunked(X), dask_array.from_array(y, chunks=100))
    assert_same_model(model, one, T)
    if "alpha" in parameters:
        assert_close(model.cv_scores_, one.cv_scores_, 1e-12)
        assert model.alpha_ == one.alpha_
    if one.loss == "logistic":
        assert_close(model.predict_proba(chunked(T, 13)), model.predict_proba(T), 1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdditiveChi2Map(),
        lambda: SparseAdditiveMap(),
        lambda: ProductQuantizer(3, n_codes=8, metric="hellinger", random_state=0),
        lambda: ProductQuantizer(3, n_codes=8, metric="intersection", random_state=0),
    ],
    ids=["chi2", "sparse", "hellinger codes", "intersection codes"],
)
def test_features_of_a_map(rng, make):
    X, y = data(rng)
    T = data(rng, 30)[0]
    frozen = FrozenEstimator(make().fit(X[:200]))
    one = BundleSVC(frozen, **PARAMETERS).fit(X, y)
    assert_same_model(BundleSVC(frozen, **PARAMETERS).fit(chunked(X), y), one, T)


def test_codes(rng):
    X, y = data(rng)
    quantizer = ProductQuantizer(3, n_codes=8, metric="hellinger", random_state=0).fit(X)
    codes = quantizer.transform(X)
    parameters = {"input": "features", **PARAMETERS}
    one = BundleSVC(quantizer, **parameters).fit(codes, y)
    model = BundleSVC(quantizer, **parameters).fit(chunked(codes, 70, 2), y)
    assert_same_model(model, one, codes[:30])


def test_weights_are_those_of_one_machine(rng):
    X, y = data(rng)
    weight = np.round(2 * rng.random(len(X)))
    # A class that no weight counts is none.
    y[weight == 0] = "d"
    one = BundleSVC(class_weight="balanced", **PARAMETERS).fit(X, y, sample_weight=weight)
    model = BundleSVC(class_weight="balanced", **PARAMETERS)
    model.fit(chunked(X), y, sample_weight=dask_array.from_array(weight, chunks=50))
    assert list(model.classes_) == ["a", "b", "c"]
    assert_same_model(model, one, X[:20])


def test_a_fit_goes_on_from_the_one_before(rng):
    X, y = data(rng)
    model = BundleSVC(warm_start=True, **PARAMETERS).fit(chunked(X), y)
    passes = model.n_iter_
    model.fit(chunked(X), y)
    assert model.n_iter_ < passes
    assert_same_model(model, BundleSVC(**PARAMETERS).fit(X, y), X[:20])


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 30),
    width=st.integers(1, 5),
    size=st.integers(1, 30),
    seed=st.integers(0, 1000),
)
def test_sums_over_partitions_are_those_over_rows(n, width, size, seed):
    with dask.config.set(scheduler="synchronous"):
        rng = np.random.default_rng(seed)
        X = rng.random((n, width))
        model = BundleSVC(intercept_scaling=2.0)
        model.feature_map_ = None
        used = np.flatnonzero(rng.random(n) < 0.7)
        used = used if len(used) else np.arange(n)
        rows = DaskRows(chunked(X, size, 2), used).features(model)
        expected = RowsWithIntercept(FeatureRows(X[used], None), 2.0)
        assert (len(rows), rows.width) == (len(expected), expected.width)
        V, G = rng.standard_normal((2, width + 1)), rng.standard_normal((2, len(used)))
        assert_close(rows.scores(V), expected.scores(V), 1e-12)
        out = np.empty((2, len(used)))
        assert rows.scores(V, out) is out
        for found, given_expected in zip(rows.gradients(G), expected.gradients(G), strict=True):
            assert_close(found, given_expected, 1e-12)
        assert_close(rows.coef(V), expected.coef(V), 0)
        some = np.sort(rng.choice(len(used), rng.integers(1, len(used) + 1), replace=False))
        assert_close(rows.part(some).scores(V), expected.part(some).scores(V), 1e-12)


def test_as_many_rows_as_a_partition_has_are_those_that_are_used(rng):
    X = rng.random((8, 3))
    model = BundleSVC(fit_intercept=False)
    model.feature_map_ = None
    V = rng.standard_normal((2, 3))
    for used in ([1, 4, 5, 7], [0, 1, 2, 5, 6, 7]):
        rows = DaskRows(chunked(X, (4, 2, 2), 2), np.array(used)).features(model)
        assert_close(rows.scores(V), V @ X[used].T, 1e-12)


def test_counts_are_rows(rng):
    counts, y = rng.poisson(3, (60, 4)), np.arange(60) % 2
    one = BundleSVC(**PARAMETERS).fit(counts, y)
    assert_same_model(BundleSVC(**PARAMETERS).fit(chunked(counts, 25, 2), y), one, counts[:9])


def test_rows_never_come_here(rng):
    X, y = data(rng)
    parts = []

    def read(part):
        parts.append(part.shape)
        return part

    D = chunked(X, 75, -1).map_blocks(read, dtype=X.dtype, meta=np.empty((0, 0)))
    model = BundleSVC(**PARAMETERS).fit(D, y)
    # Each partition is read once in a fit, and once to predict.
    assert parts == [(75, 6)] * 4
    model.predict(D)
    assert parts == [(75, 6)] * 8


def test_a_map_meets_one_partition_at_a_time(rng):
    X, y = data(rng)
    seen = []

    def note(rows):
        seen.append(len(rows))
        return rows

    D = chunked(X, 75, -1)
    model = BundleSVC(FrozenEstimator(FunctionTransformer(note)), **PARAMETERS).fit(D, y)
    assert seen == [75] * 4
    model.decision_function(D)
    assert seen == [75] * 8


def test_scores_in_input_space_are_of_one_partition_at_a_time(rng, monkeypatch):
    X, y = data(rng)
    model = IntersectionSVC(random_state=0).fit(X, y)
    seen, scores = [], _histrs.svm_scores

    def note(rows, *arguments):
        seen.append(len(rows))
        return scores(rows, *arguments)

    monkeypatch.setattr(_histrs, "svm_scores", note)
    model.decision_function(chunked(X, 75, -1))
    assert seen == [75] * 4


def test_a_model_is_pickled_without_the_rows(rng):
    X, y = data(rng, 2000)
    model = BundleSVC(warm_start=True, **PARAMETERS).fit(chunked(X), y)
    saved = pickle.dumps(model)
    assert len(saved) < X.nbytes / 4
    np.testing.assert_array_equal(pickle.loads(saved).predict(X), model.predict(X))


# ---- what cannot be done is refused --------------------------------------------------------------


def test_single_precision_is_kept(rng):
    X, y = data(rng)
    model = BundleSVC(**PARAMETERS).fit(chunked(X.astype(np.float32)), y)
    assert model.decision_function(chunked(X.astype(np.float32))).dtype == np.float32


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"feature_map": AdditiveChi2Map()}, "FrozenEstimator"),
        ({"feature_map": AdditiveChi2Map(), "warm_start": True}, "FrozenEstimator"),
    ],
)
def test_what_needs_all_rows_is_refused(rng, parameters, message):
    X, y = data(rng)
    model = BundleSVC(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(chunked(X), y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (123, 5), (299, 3)])
def test_bad_entries_are_named_where_they_are(rng, value, row, column):
    X, y = data(rng)
    model = BundleSVC(**PARAMETERS).fit(X, y)
    before = model.coef_.copy()
    X[row, column] = value
    for call in (lambda: model.fit(chunked(X), y), lambda: model.predict(chunked(X))):
        with pytest.raises(ValueError, match=rf"X\[{row}, {column}\]"):
            call()
    np.testing.assert_array_equal(model.coef_, before)


def test_bad_shapes_and_labels_are_refused(rng):
    X, y = data(rng)
    D = chunked(X)
    model = BundleSVC(**PARAMETERS).fit(D, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(D, y[:-1])
    with pytest.raises(ValueError, match="features"):
        model.predict(chunked(X[:, :5]))
    with pytest.raises(ValueError, match="one class"):
        model.fit(D, np.zeros(len(X)))
    with pytest.raises(ValueError, match="unknown sizes"):
        model.fit(D[D[:, 0] > 0.5], y)
    unknown = chunked(X, 80, -1)
    unknown = unknown[unknown[:, 0] > 0.5]
    np.testing.assert_array_equal(model.predict(unknown), model.predict(X[X[:, 0] > 0.5]))
    assert_same_model(model, BundleSVC(**PARAMETERS).fit(X, y), X[:20])


def test_the_intersection_svm_says_how(rng):
    X, y = data(rng)
    one = IntersectionSVC(random_state=0).fit(X, y)
    for call in (one.fit, one.partial_fit):
        with pytest.raises(TypeError, match="partial_fit"):
            call(chunked(X), y)
    assert_close(one.decision_function(chunked(X)), one.decision_function(X), 1e-12)
    # What the message names: partition after partition.
    edges = range(0, len(X) + 1, 75)
    parts = [(X[a:b], y[a:b]) for a, b in pairwise(edges)]
    model, expected = IntersectionSVC(random_state=0), IntersectionSVC(random_state=0)
    for part, (rows, labels) in zip(chunked(X, 75, -1).partitions, parts, strict=True):
        model.partial_fit(part.compute(), labels, classes=np.unique(y))
        expected.partial_fit(rows, labels, classes=np.unique(y))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
