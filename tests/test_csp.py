"""Common spatial patterns against their equations, and in the pipelines that they stand in."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from histrs.gaussian_process import SPDGPClassifier
from histrs.spd import CSP, MDM, CommonRange, Covariances, TangentSpace, airm_mean
from histrs.testing import spd_matrices
from tests.helpers import wishart
from tests.oracles import spd as oracle


def of_classes(rng, n=60, n_classes=3, p=5, gain=1.8):
    """Matrices of mixed sources, of which each class has a loud one, and their classes."""
    y = np.arange(n) % n_classes
    A = rng.standard_normal((n, p, 80))
    A[np.arange(n), y] *= gain
    A = rng.standard_normal((p, p)) @ A
    return A @ A.transpose(0, 2, 1) / 80, y


def means_of(X, y):
    return np.stack([X[y == c].mean(axis=0) for c in np.unique(y)])


def assert_same_filters(found, expected, rtol=1e-6):
    """Assert that rows are the same but for their signs."""
    signs = np.sign(np.sum(found * expected, axis=1, keepdims=True))
    np.testing.assert_allclose(found * signs, expected, rtol, rtol * np.abs(expected).max())


# ---- filters -----------------------------------------------------------------------------------


@given(X=spd_matrices((4, 12), (2, 7), condition=100.0), seed=st.integers(0, 99))
def test_filters_of_two_classes_are_generalised_eigenvectors(X, seed):
    y = np.random.default_rng(seed).permutation(np.arange(len(X)) % 2)
    first, second = means_of(X, y)
    values = oracle.two_class_ratios(first, second)
    model = CSP(X.shape[1]).fit(X, y)
    assert model.n_iter_ == 0
    W = model.filters_
    found = np.diag(W @ second @ W.T) / np.diag(W @ (first + second) @ W.T)
    np.testing.assert_allclose(np.sort(found), values, rtol=1e-6, atol=1e-9)
    if len(X) % 2 == 0:
        assert np.all(np.diff(np.abs(found - 0.5)) <= 1e-7)
    for C in (first, second):
        D = W @ C @ W.T
        np.testing.assert_allclose(D - np.diag(np.diag(D)), 0.0, atol=1e-8)


@pytest.mark.parametrize("metric", ["euclid", "airm", "logeuclid"])
@pytest.mark.parametrize("n_classes", [3, 4])
def test_filters_of_several_classes_are_the_minimum(rng, metric, n_classes):
    X, y = of_classes(rng, 61, n_classes, p=4)
    model = CSP(4, metric=metric).fit(X, y)
    mean = {
        "euclid": lambda X: X.mean(axis=0),
        "airm": airm_mean,
        "logeuclid": lambda X: oracle.log_euclidean_mean(X, np.full(len(X), 1 / len(X))),
    }[metric]
    C = np.stack([mean(X[y == c]) for c in range(n_classes)])
    shares = np.bincount(y) / len(y)
    W = model.filters_

    def criterion(change):
        return oracle.joint_diagonality((np.eye(4) + change.reshape(4, 4)) @ W, C, shares)

    least = minimize(criterion, np.zeros(16), method="BFGS", options={"gtol": 1e-7})
    assert criterion(np.zeros(16)) <= least.fun + 1e-9
    steps = 1e-5 * np.eye(16)
    slopes = [(criterion(step) - criterion(-step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-6)
    variances = np.einsum("fi,ij,fj->f", W, np.tensordot(shares, C, 1), W)
    np.testing.assert_allclose(variances, 1.0, rtol=1e-9)
    told = [oracle.most_information(w, C, shares) for w in W]
    assert np.all(np.diff(told) <= 1e-9)


def test_sources_that_commute_are_found_exactly(rng):
    """Means that have a common diagonal form have it found, and its mixing as patterns."""
    mixing = rng.standard_normal((6, 6))
    power = rng.uniform(0.5, 3.0, (4, 6))
    C = mixing @ (power[:, :, None] * np.eye(6)) @ mixing.T
    model = CSP(6).fit(np.concatenate([C, C]), np.tile(np.arange(4), 2))
    unmixed = np.abs(model.filters_ @ mixing)
    largest = unmixed.max(axis=1)
    np.testing.assert_allclose(np.sort(unmixed, axis=1)[:, :-1], 0.0, atol=1e-5)
    assert set(unmixed.argmax(axis=1)) == set(range(6))
    patterns = model.patterns_ / np.linalg.norm(model.patterns_, axis=1, keepdims=True)
    sources = (mixing / np.linalg.norm(mixing, axis=0)).T[unmixed.argmax(axis=1)]
    assert_same_filters(patterns, sources, rtol=1e-4)
    assert np.all(largest > 0)
    np.testing.assert_allclose(model.filters_ @ model.patterns_.T, np.eye(6), atol=1e-9)


def test_filters_follow_a_change_of_basis(rng):
    X, y = of_classes(rng)
    A = rng.standard_normal((5, 5))
    first, second = CSP(3).fit(X, y), CSP(3).fit(A @ X @ A.T, y)
    assert_same_filters(second.filters_ @ A, first.filters_, rtol=1e-4)
    np.testing.assert_allclose(
        second.transform(A @ X @ A.T), first.transform(X), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("metric", ["euclid", "airm", "jbld", "logeuclid"])
def test_units_do_not_matter(rng, scale, metric):
    X, y = of_classes(rng)
    one, other = (CSP(4, metric=metric).fit(s * X, y).transform(s * X) for s in (1.0, scale))
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_shrinkage_is_that_of_the_matrices(rng):
    X, y = of_classes(rng)
    size = np.trace(X, axis1=1, axis2=2)[:, None, None] / 5 * np.eye(5)
    shrunk = CSP(3, shrinkage=0.2).fit(X, y)
    np.testing.assert_allclose(
        shrunk.filters_, CSP(3).fit(0.8 * X + 0.2 * size, y).filters_, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_array_equal(
        CSP(3, shrinkage=0.0).fit(X, y).filters_, CSP(3).fit(X, y).filters_
    )


def test_singular_matrices_need_their_common_range(rng):
    trials = rng.standard_normal((40, 5, 60))
    trials[::2, 0] *= 2.0
    trials -= trials.mean(axis=1, keepdims=True)
    X, y = Covariances("scm").fit_transform(trials), np.arange(40) % 2
    with pytest.raises(
        ValueError, match=r"X\[\d+\] is not positive definite: it is singular, of rank 4 in 5"
    ):
        CSP(2).fit(X, y)
    assert make_pipeline(CommonRange(), CSP(2)).fit_transform(X, y).shape == (40, 2)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_pyriemann_agrees(rng, n_classes):
    filters = pytest.importorskip("pyriemann.spatialfilters", reason="pyriemann is not installed")
    X, y = of_classes(rng, 200, n_classes, 6, gain=3.0)
    theirs = filters.CSP(6).fit(X, y).filters_
    ours = CSP(6).fit(X, y).filters_
    if n_classes > 2:
        # Theirs come in another order.
        M = X.mean(axis=0)
        norms = np.sqrt(np.diag(ours @ M @ ours.T))[:, None] * np.sqrt(
            np.diag(theirs @ M @ theirs.T)
        )
        alike = np.abs(ours @ M @ theirs.T) / norms
        theirs = theirs[alike.argmax(axis=1)][:n_classes]
        ours = ours[:n_classes]
    scale = np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert_same_filters(scale[:, None] * theirs, ours, rtol=2e-2)
    # Theirs stops earlier.
    C, shares = means_of(X, y), np.full(n_classes, 1 / n_classes)
    every = filters.CSP(6).fit(X, y).filters_
    least = oracle.joint_diagonality(CSP(6).fit(X, y).filters_, C, shares)
    assert least <= oracle.joint_diagonality(every, C, shares) + 1e-12


# ---- answers -----------------------------------------------------------------------------------


def test_what_transform_returns(rng):
    X, y = of_classes(rng)
    model = CSP(3, log=False).fit(X, y)
    W = model.filters_
    expected = W @ X @ W.T
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(
        model.transform(X.reshape(60, 25)).reshape(60, 3, 3), model.transform(X)
    )
    logs = clone(model).set_params(log=True).fit(X, y)
    diagonal = np.log(np.diagonal(expected, axis1=1, axis2=2))
    np.testing.assert_allclose(logs.transform(X), diagonal, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(logs.transform(X.reshape(60, 25)), logs.transform(X))
    narrow = X.astype(np.float32)
    for one in (model, logs):
        found = clone(one).fit(narrow, y).transform(narrow)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, one.transform(X), rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(
            pickle.loads(pickle.dumps(one)).transform(X), one.transform(X)
        )


def test_names_are_of_variances_alone(rng):
    pytest.importorskip("pandas")
    X, y = of_classes(rng)
    frame = CSP(2).set_output(transform="pandas").fit(X, y).transform(X)
    assert list(frame.columns) == ["csp0", "csp1"]
    assert not hasattr(CSP(log=False), "get_feature_names_out")


def test_no_more_filters_than_channels(rng):
    X, y = of_classes(rng, p=3)
    assert CSP(12).fit(X, y).filters_.shape == (3, 3)


@pytest.mark.parametrize("last", [MDM(), SPDGPClassifier(), LogisticRegression()], ids=repr)
def test_pipelines(rng, last):
    X, y = of_classes(rng, 120, gain=2.0)
    is_linear = isinstance(last, LogisticRegression)
    steps = [CSP(3, log=False), TangentSpace(), last] if is_linear else [CSP(3, log=False), last]
    assert make_pipeline(*steps).fit(X[:60], y[:60]).score(X[60:], y[60:]) > 0.9


# ---- what it refuses ---------------------------------------------------------------------------


def test_what_is_refused(rng):
    X, y = of_classes(rng)
    with pytest.raises(NotFittedError):
        CSP().transform(X)
    with pytest.raises(ValueError, match="y has 1 class"):
        CSP().fit(X, np.zeros(60))
    with pytest.raises(ValueError, match="shrinkage"):
        CSP(shrinkage="oas").fit(X, y)
    with pytest.raises(ValueError, match="n_filters"):
        CSP(0).fit(X, y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        CSP().fit(X * 1j, y)
    bad = X.copy()
    bad[7] *= -1.0
    with pytest.raises(ValueError, match=r"X\[7\] is not positive definite"):
        CSP().fit(bad, y)
    with pytest.raises(ValueError, match=r"X\[7\] has a variance of -.* in filter 0"):
        CSP().fit(X, y).transform(bad)
    with pytest.raises(ValueError, match=r"X\[3\] overflow"):
        CSP(log=False).fit(1e-200 * X, y).transform(
            X * np.where(np.arange(60) == 3, 1e200, 1)[:, None, None]
        )


def test_classes_of_one_mean_are_no_failure(rng):
    X = wishart(rng, 10, 4)
    model = CSP(2).fit(np.tile(X, (3, 1, 1)), np.repeat([0, 1, 2], 10))
    np.testing.assert_allclose(np.exp(model.transform(X)).mean(axis=0), 1.0, rtol=1e-6)


def test_a_search_that_stops_early_says_so(rng, monkeypatch):
    monkeypatch.setattr("histrs.spd._csp._MAX_ITER", 2)
    X, y = of_classes(rng)
    with pytest.warns(ConvergenceWarning, match="CSP stopped after"):
        CSP().fit(X, y)
