"""Fewer rows than features: what is learned of them is what moments of all features say."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

from histrs.streaming import Moments, PCARidge, PCARidgeClassifier, StreamingPCA
from tests.oracles import moments as oracle


def wide(seed, n, n_features, container=np.asarray, dtype=np.float64):
    """Return rows of which many entries, and some columns, are zero."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, n_features)) * (rng.random((n, n_features)) < 0.4)
    X[:, rng.random(n_features) < 0.3] = 0.0
    X[0, 0] = 1.0
    return container(X.astype(dtype)), X.astype(dtype).astype(np.float64), rng


cases = given(
    n=st.integers(2, 12),
    extra=st.sampled_from([1, 2, 17, 60]),
    container=st.sampled_from([np.asarray, sparse.csr_array, np.asfortranarray]),
    dtype=st.sampled_from([np.float64, np.float32]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)


@cases
def test_ridge_of_few_rows_is_that_of_moments(n, extra, container, dtype, weighted, seed):
    rows, X, rng = wide(seed, n, n + extra, container, dtype)
    y = rng.standard_normal((n, 2))
    weights = rng.integers(0, 4, n) + (np.arange(n) < 2) if weighted else None
    for n_components in (None, 2, n + extra):
        model = PCARidge(n_components, alphas=0.3, selection="gcv")
        few = model.fit(rows, y, weights)
        few = pickle.loads(pickle.dumps(few))
        whole = model.fit_moments(Moments.of(X, y, sample_weight=weights))
        assert few.n_components_ == whole.n_components_
        if n_components != 2 or not _has_ties(X, weights, 2):
            np.testing.assert_allclose(few.coef_, whole.coef_, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(few.intercept_, whole.intercept_, rtol=1e-8, atol=1e-10)


def _has_ties(X, weights, k):
    """Say whether the directions of the `k` largest eigenvalues are not unique."""
    w = np.ones(len(X)) if weights is None else weights
    centred = X - w @ X / w.sum()
    values = np.append(np.linalg.svd(np.sqrt(w)[:, None] * centred, compute_uv=False), 0.0)
    return values[k - 1] - values[k] < 1e-3 * values[0]


@cases
def test_directions_of_few_rows_are_those_of_moments(n, extra, container, dtype, weighted, seed):
    rows, X, rng = wide(seed, n, n + extra, container, dtype)
    weights = rng.integers(0, 4, n) + (np.arange(n) < 2) if weighted else None
    for n_components in (1, None, 0.7):
        model = StreamingPCA(n_components)
        few = model.fit(rows, sample_weight=weights)
        found = few.explained_variance_, few.explained_variance_ratio_, few.mean_, few.components_
        whole = StreamingPCA(n_components).fit_moments(Moments.of(X, sample_weight=weights))
        scale = max(whole.explained_variance_.max(), 1e-300)
        np.testing.assert_allclose(found[0], whole.explained_variance_, atol=1e-12 * scale)
        np.testing.assert_allclose(found[1], whole.explained_variance_ratio_, atol=1e-12)
        np.testing.assert_allclose(found[2], whole.mean_, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found[3] @ found[3].T, np.eye(len(found[3])), atol=1e-12)
        if n_components != 1 or not _has_ties(X, weights, 1):
            weighed = found[3].T * found[0] @ found[3]
            definition = whole.components_.T * whole.explained_variance_ @ whole.components_
            if not isinstance(n_components, float) or len(found[3]) == whole.n_components_:
                np.testing.assert_allclose(weighed, definition, atol=1e-10 * scale)


def test_directions_of_few_rows_are_their_definition():
    _, X, _ = wide(5, 9, 40)
    directions = oracle.principal_directions(X, 3)
    found = StreamingPCA(3).fit(X).components_.T
    np.testing.assert_allclose(np.abs(np.sum(directions * found, axis=0)), 1.0, rtol=1e-10)
    peer = PCA().fit(X)
    ours = StreamingPCA().fit(X)
    assert ours.components_.shape == peer.components_.shape == (9, 40)
    np.testing.assert_allclose(ours.explained_variance_, peer.explained_variance_, atol=1e-12)


def test_rows_come_after_few_rows():
    _, X, _ = wide(2, 9, 40)
    X_after = wide(3, 50, 40)[1]
    model = StreamingPCA(3).fit(X[:8])
    first = model.components_.copy()
    X_before = X.copy()
    X[:8] = 7.0  # The rows of a fit are its own.
    model.partial_fit(X_before[8:]).partial_fit(X_after)
    expected = StreamingPCA(3).fit(np.vstack([X_before, X_after]))
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-10)
    assert model.n_samples_seen_ == 59
    assert not np.allclose(first, model.components_)


def test_the_moments_of_few_rows_are_theirs():
    _, X, _ = wide(2, 9, 40)
    moments, expected = StreamingPCA(3).fit(X).moments_, Moments.of(X)
    np.testing.assert_array_equal(moments.H, expected.H)
    assert moments.n == expected.n


def test_classes_of_few_rows():
    rows, X, rng = wide(4, 30, 200, sparse.csr_array)
    y = np.where(X[:, 0] + rng.random(30) > 0.6, "a", "b")
    few = PCARidgeClassifier().fit(rows, y)
    assert few.coef_.shape == (1, 200)
    probabilities = few.predict_proba(rows)
    np.testing.assert_allclose(probabilities, few.predict_proba(X), atol=1e-12)
    # With as many rows as features each row is there as often, and nothing else changes.
    often = PCARidge(alphas=0.7 * 10).fit(np.tile(X, (10, 1)), np.tile(y == "a", 10))
    once = PCARidge(alphas=0.7).fit(X, y == "a")
    np.testing.assert_allclose(often.coef_, once.coef_, atol=1e-9)
    peer = Ridge(alpha=0.7).fit(X, y == "a")
    np.testing.assert_allclose(once.coef_, peer.coef_, atol=1e-9)


@pytest.mark.parametrize("model", [PCARidge(41), PCARidgeClassifier(41), StreamingPCA(41)])
def test_more_components_than_features_are_refused(model):
    _, X, _ = wide(2, 9, 40)
    with pytest.raises(ValueError, match="n_components=41 must be at most n_features=40"):
        model.fit(X, np.arange(9) % 2)


def test_squares_beyond_the_range_are_named():
    X = np.full((3, 5), 1e308)
    X[0] = 0.0
    for model in (PCARidge(), StreamingPCA()):
        with pytest.raises(ValueError, match=r"range|large|overflow"):
            model.fit(X, np.arange(3.0))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 1e5])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_rows_say_the_mean_of_their_targets(container, value, weighted):
    # Their coordinates once differed by rounding, which was learned from: 6e11 was predicted.
    X = container(np.full((20, 50), value))
    y = np.random.default_rng(0).standard_normal(20)
    labels = np.arange(20) % 2
    weights = None
    if weighted:
        X = container(np.vstack([X.toarray() if sparse.issparse(X) else X, np.zeros((1, 50))]))
        y, labels = np.append(y, 0.0), np.append(labels, 0)
        weights = np.append(np.ones(20), 0.0)
        X = X[::-1]
        y, labels, weights = y[::-1], labels[::-1], weights[::-1]
    model = PCARidge().fit(X, y, weights)
    mean = np.average(y, weights=weights)
    np.testing.assert_allclose(model.predict(X)[-20:], mean, rtol=1e-12)
    classifier = PCARidgeClassifier().fit(X, labels, weights)
    np.testing.assert_allclose(classifier.predict_proba(X)[-20:], 0.5, atol=0.02)
    pca = StreamingPCA().fit(X, sample_weight=weights)
    np.testing.assert_allclose(pca.explained_variance_, 0.0, atol=1e-25 * max(value, 1e-10) ** 2)
    np.testing.assert_allclose(pca.mean_, value, rtol=1e-14)


def test_a_class_without_weight_leaves_equal_rows():
    X = np.vstack([np.random.default_rng(0).random((5, 50)), np.full((15, 50), 0.1)])
    labels = np.array(["none"] * 5 + ["a", "b", "b"] * 5)
    model = PCARidgeClassifier(class_weight={"none": 0.0}).fit(X, labels)
    scores = model.decision_function(X[5:])
    np.testing.assert_array_equal(scores, np.broadcast_to(scores[0], scores.shape))
    # Nothing tells rows apart that are equal, so that no feature has a say.
    np.testing.assert_array_equal(model.coef_, 0.0)
    shares = np.exp(scores[0]) / np.exp(scores[0]).sum()
    np.testing.assert_allclose(shares, [1 / 3, 2 / 3, 0.0], atol=0.05)


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e6])
def test_rows_far_from_zero(shift):
    _, X, rng = wide(6, 20, 60)
    y = X @ rng.standard_normal(60)
    # What the shift takes of the last bits is gone in both.
    shifted = (X + shift) - shift
    expected = PCARidge(alphas=0.1).fit(shifted, y).predict(shifted)
    found = PCARidge(alphas=0.1).fit(X + shift, y).predict(X + shift)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * max(shift, 1.0))


def test_weights_of_few_rows_are_copied():
    _, X, _ = wide(2, 9, 40)
    weights = np.arange(1.0, 10.0)
    model = StreamingPCA(3).fit(X, sample_weight=weights)
    given = weights.copy()
    weights[:] = 1.0
    np.testing.assert_array_equal(model.moments_.H, Moments.of(X, sample_weight=given).H)


def test_components_of_weighted_rows_are_those_of_copies():
    _, X, _ = wide(2, 9, 40)
    for n in (2, 5):
        weighted = StreamingPCA().fit(X, sample_weight=np.full(9, float(n)))
        assert weighted.n_components_ == StreamingPCA().fit(np.repeat(X, n, axis=0)).n_components_


@pytest.mark.filterwarnings("ignore:no penalty up to")
def test_directions_without_variance_say_nothing():
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((30, 200)), rng.standard_normal((5, 200))
    y = X[:, 0]
    for scale, alpha in [(1.0, 1e-15), (1.0, 1e-9), (1e7, 1.0), (1e12, 1.0), (1e-12, 1e-30)]:
        found = PCARidge(alphas=alpha).fit(X * scale, y).predict(T * scale)
        # Penalties are so small that the coefficients are those of least squares and least norm.
        least = np.linalg.pinv(X - X.mean(axis=0)) @ (y - y.mean())
        np.testing.assert_allclose(found, y.mean() + (T - X.mean(axis=0)) @ least, atol=1e-8)
    # A column that is the sum of two others.
    X = rng.standard_normal((300, 20))
    X, y = np.column_stack([X, X[:, 0] + X[:, 1]]), X @ rng.standard_normal(20)
    T = rng.standard_normal((9, 20))
    T = np.column_stack([T, T[:, 0] + T[:, 1]])
    for alpha in (1e-15, 1e-12, 1e-6):
        found = PCARidge(alphas=alpha).fit(X, y).predict(T)
        expected = Ridge(alpha, solver="svd").fit(X, y).predict(T)
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_columns_of_little_variance_are_not_lost():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 5)) * [1.0, 1.0, 1.0, 1.0, 1e-5]
    y = 1e5 * X[:, 4]
    model = PCARidge(alphas=1e-14).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-3)
