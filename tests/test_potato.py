"""The detector of artefacts against its definition, and what it does with a stream."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from histrs.spd import Potato, airm_mean
from tests.helpers import wishart
from tests.oracles import spd as oracle


def recording(rng, n=60, p=4, loud=(3, 17, 40)):
    """Clean matrices, and a few with a loud channel."""
    X = wishart(rng, n, p)
    gains = np.ones((n, p))
    gains[list(loud), 1] = 20.0
    return X * gains[:, :, None] * gains[:, None]


@pytest.mark.parametrize("threshold", [1.5, 2.5, 3.0])
def test_scores_are_those_of_the_definition(rng, threshold):
    X = recording(rng)
    mean, z = oracle.potato(X, threshold)
    model = Potato(threshold=threshold).fit(X)
    np.testing.assert_allclose(model.mean_, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.transform(X), z, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), z < threshold)
    assert model.n_iter_ > 1
    np.testing.assert_array_equal(model.fit_transform(X), model.transform(X))


@pytest.mark.parametrize("metric", ["airm", "jbld", "logeuclid", "euclid"])
def test_artefacts_are_found_in_every_metric(rng, metric):
    X = recording(rng, 120)
    model = Potato(metric, threshold=2.5).fit(X)
    found = set(np.flatnonzero(model.predict(X) == 0))
    assert {3, 17, 40} <= found
    assert len(found) < 10
    other = recording(rng, 20, loud=(5,))
    assert np.argmax(model.transform(other)) == 5
    assert model.predict(other)[5] == 0


@pytest.mark.parametrize("metric", ["airm", "jbld", "logeuclid"])
def test_scores_change_with_no_unit(rng, metric):
    X = recording(rng)
    first, second = (Potato(metric).fit(scale * X).transform(scale * X) for scale in (1.0, 1e9))
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-6)


def test_pyriemann_agrees(rng):
    theirs = pytest.importorskip(
        "pyriemann.artifact_detection", reason="pyriemann is not installed"
    )
    X = recording(rng)
    for ours, name in (("airm", "riemann"), ("logeuclid", "logeuclid"), ("euclid", "euclid")):
        expected = theirs.Potato(name).fit(X)
        model = Potato(ours).fit(X)
        np.testing.assert_allclose(model.transform(X), expected.transform(X), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_an_update_is_the_mean_of_all_clean_matrices(rng):
    X = wishart(rng, 90, 3)
    model = Potato(threshold=50.0).fit(X[:30])
    for part in (X[30:50], X[50:]):
        model.partial_fit(part)
    assert model.weight_seen_ == 90
    np.testing.assert_allclose(model.mean_, airm_mean(X), rtol=0.05, atol=0.05)
    whole = Potato(threshold=50.0).fit(X)
    assert model.location_ == pytest.approx(whole.location_, abs=0.1)
    assert model.scale_ == pytest.approx(whole.scale_, rel=0.2)
    # Of the same matrices again, nothing moves.
    again = Potato(threshold=50.0).fit(X).partial_fit(X)
    np.testing.assert_allclose(again.mean_, whole.mean_, rtol=1e-7)
    assert again.location_ == pytest.approx(whole.location_, abs=1e-7)
    assert again.scale_ == pytest.approx(whole.scale_, rel=1e-7)


def test_artefacts_move_nothing(rng):
    X = recording(rng, loud=())
    model = Potato().fit(X)
    before = model.transform(X)
    model.partial_fit(recording(rng, 4, loud=range(4)))
    np.testing.assert_array_equal(model.transform(X), before)


def test_old_matrices_are_forgotten(rng):
    """A recording whose amplitude drifts is followed, where one that forgets nothing lags."""
    X = wishart(rng, 400, 3) * np.exp(np.linspace(0.0, 5.0, 400))[:, None, None]
    scores = {}
    for forgetting in (0.0, 0.3):
        model = Potato(threshold=10.0, forgetting=forgetting).fit(X[:40])
        for i in range(40, 400, 10):
            last = model.transform(X[i : i + 10])
            model.partial_fit(X[i : i + 10])
        scores[forgetting] = np.mean(last)
    assert scores[0.3] < scores[0.0] - 0.5


def test_precision_layout_and_pickles(rng):
    X = recording(rng)
    model = Potato().fit(X)
    z = model.transform(X)
    assert z.shape == (60,)
    narrow = model.transform(X.astype(np.float32))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, z, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(model.transform(X.reshape(60, 16)), z)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), z)
    # A score is that of the matrix alone, wherever it is asked for.
    np.testing.assert_allclose(np.concatenate([model.transform(x[None]) for x in X]), z, rtol=1e-9)
    assert np.isfinite(model.transform(model.mean_[None])).all()


def test_what_is_refused(rng):
    X = recording(rng)
    with pytest.raises(NotFittedError):
        Potato().predict(X)
    with pytest.raises(ValueError, match=r"X has 1 sample\(s\) that are clean, of 1"):
        Potato().fit(X[:1])
    with pytest.raises(ValueError, match="raise threshold"):
        Potato(threshold=0.01).fit(X)
    with pytest.raises(ValueError, match="equally far from their mean"):
        Potato().fit(np.tile(np.eye(3), (5, 1, 1)))
    with pytest.raises(ValueError, match="threshold"):
        Potato(threshold=0.0).fit(X)
    with pytest.raises(ValueError, match=r"X\[9\] is not positive definite"):
        Potato().fit(np.where(np.arange(60)[:, None, None] == 9, -X, X))
    model = Potato().fit(X)
    before = model.transform(X)
    bad = wishart(rng, 5, 4)
    bad[3, 0, 0] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 0, 0\] = NaN"):
        model.partial_fit(bad)
    np.testing.assert_array_equal(model.transform(X), before)
    with pytest.warns(ConvergenceWarning, match="Potato still left matrices out"):
        Potato(max_iter=1).fit(X)


@pytest.mark.parametrize("forgetting", [0.1, 0.3])
def test_a_long_stream_of_clean_matrices_stays_clean(forgetting):
    A = np.random.default_rng(0).standard_normal((160, 4, 50))
    stack = A @ A.transpose(0, 2, 1) / 50
    model = Potato(forgetting=forgetting).fit(stack[:60])
    for i in range(60, 160):
        model.partial_fit(stack[i][None])
    assert model.predict(stack).mean() > 0.95


def test_a_matrix_at_the_mean_hides_no_artefacts():
    A = np.random.default_rng(0).standard_normal((35, 4, 50))
    stack = A @ A.transpose(0, 2, 1) / 50
    model = Potato().fit(stack[:30])
    model.partial_fit(model.mean_[None])
    loud = np.array([1.0, 1.0, 1.0, 30.0])
    assert not model.predict(stack[30:] * np.outer(loud, loud)).any()
