"""Scores of rows whose features are never all there, and moments of such features."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from histrs.kernel_approximation import AdditiveChi2Map, ExpChi2Sampler
from histrs.streaming import MomentLasso, Moments, PCARidge, PCARidgeClassifier, _linear
from tests.test_streaming import bits


def digits_as_histograms(dtype=np.float64):
    X, y = load_digits(return_X_y=True)
    return (X / X.sum(axis=1, keepdims=True)).astype(dtype), y


@pytest.mark.parametrize("container", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("n_components", [64, 65])
def test_models_of_features_predict_from_rows(container, n_components):
    X, y = digits_as_histograms()
    X = container(X)
    sampler = ExpChi2Sampler(n_components, random_state=0).fit(X)
    Z = sampler.transform(X)
    tolerance = 1e-3 if Z.dtype == np.float32 else 1e-9
    classifier = PCARidgeClassifier(alphas=1e-2).fit_rows(X, y, feature_map=sampler)
    for method in ("decision_function", "predict_proba", "predict"):
        found = getattr(classifier, method)(X, feature_map=sampler)
        expected = getattr(classifier, method)(Z)
        assert found.dtype == expected.dtype
        if method == "predict":
            assert np.mean(found == expected) > 0.998
        else:
            np.testing.assert_allclose(found, expected, atol=tolerance)
    for targets in (y.astype(float), np.column_stack([y, y**2]).astype(float)):
        for model in (PCARidge(alphas=1e-2), MomentLasso(1e-3)):
            model.fit_rows(X, targets, feature_map=sampler)
            found, expected = model.predict(X, feature_map=sampler), model.predict(Z)
            assert found.shape == targets.shape
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_any_feature_map_is_applied_to_some_rows_at_a_time(monkeypatch):
    X, y = digits_as_histograms()
    feature_map = make_pipeline(AdditiveChi2Map(3), StandardScaler()).fit(X)
    model = PCARidge(alphas=1e-2).fit_rows(X, y, feature_map=feature_map)
    expected = model.predict(feature_map.transform(X))
    seen = []
    transform = Pipeline.transform

    def watched(self, rows):
        seen.append(len(rows))
        return transform(self, rows)

    monkeypatch.setattr(_linear, "CHUNK_SIZE", 1000)
    monkeypatch.setattr(Pipeline, "transform", watched)
    np.testing.assert_allclose(model.predict(X, feature_map=feature_map), expected, rtol=1e-12)
    assert seen == [1000, 797]


def test_a_feature_map_with_other_features_is_refused():
    X, y = digits_as_histograms()
    sampler = ExpChi2Sampler(10, random_state=0).fit(X)
    model = PCARidge(alphas=1e-2).fit_rows(X, y, feature_map=sampler)
    other = ExpChi2Sampler(12, random_state=0).fit(X)
    with pytest.raises(ValueError, match="has 12 features, but PCARidge is expecting 10"):
        model.predict(X, feature_map=other)
    with pytest.raises(NotFittedError):
        model.predict(X, feature_map=ExpChi2Sampler(10))
    with pytest.raises(NotFittedError):
        PCARidge().predict(X, feature_map=sampler)
    with pytest.raises(ValueError, match="X has 3 features, but"):
        model.predict(X[:, :3], feature_map=sampler)


@pytest.mark.parametrize("sizes", [[100, 100, 97], [50, 200, 7, 40]])
def test_chunks_of_features_in_shared_memory_have_the_moments_of_their_own(sizes):
    X, y = digits_as_histograms()
    sampler = ExpChi2Sampler(30, random_state=0).fit(X)
    edges = np.cumsum([0, *sizes])
    parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
    dtypes = [np.float64, np.float32, np.float64, np.float64]
    chunks = [(X[p].astype(t), y[p]) for p, t in zip(parts, dtypes, strict=False)]
    mapped = [(sampler.transform(rows), targets) for rows, targets in chunks]
    assert bits(Moments.of(chunks, feature_map=sampler)) == bits(Moments.of(mapped))
