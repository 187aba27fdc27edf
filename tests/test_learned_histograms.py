"""Learned histograms: objective, gradient, and what they are good for."""

import pickle
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs.metrics import sinkhorn_distances
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import CovarianceCompressor, HistogramCompressor, _decisive, _gamma
from histrs.transport import grid_ground_distance
from tests.oracles import prototypes as oracle
from tests.oracles import transport

pytestmark = pytest.mark.simd_paths


def histograms(rng, n, d=8, n_classes=3):
    """Histograms on a line, each class with its own peak; some bins empty."""
    y = np.arange(n) % n_classes
    peak = np.abs(np.arange(d) - (y[:, None] + 0.5) * d / n_classes) < 1.5
    X = rng.gamma(0.4 + 1.5 * peak) + 1e-3
    X[rng.random(X.shape) < 0.2] = 0.0
    X[np.arange(n), rng.integers(0, d, size=n)] += 0.1
    return X / X.sum(axis=1, keepdims=True), y


def line(d):
    return grid_ground_distance(d)


def evaluate(X, y, H, labels, M, reg=0.5, gamma=1.0, tol=1e-11, starts=None, n_threads=1):
    return _histrs.histogram_compression_loss(
        X, y, H, labels, None, M, reg, gamma, tol, 20_000, starts, n_threads
    )


# ---- objective and gradient -----------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(
    n=st.integers(1, 5),
    m=st.sampled_from([3, 4]),
    d=st.sampled_from([1, 2, 5, 9]),
    strength=st.sampled_from([0.2, 1.0]),
    gamma=st.sampled_from([0.1, 1.0, 4.0]),
    seed=st.integers(0, 99),
)
def test_the_loss_is_its_definition(n, m, d, strength, gamma, seed):
    rng = np.random.default_rng(seed)
    (X, y), (H, labels) = histograms(rng, n, d), histograms(rng, m, d)
    M = line(d)
    reg = strength * max(float(M.max()), 1.0)
    loss, gradient, error = evaluate(X, y, H, labels, M, reg, gamma)
    expected = oracle.histogram_loss(X, y, H, labels, M, reg, gamma)
    np.testing.assert_allclose(loss, expected, rtol=1e-6, atol=1e-8)
    assert gradient.shape == H.shape
    # A change of w by a constant changes nothing, and empty bins stay empty.
    np.testing.assert_allclose(gradient.sum(axis=1), 0.0, atol=1e-9 * np.abs(gradient).max())
    assert not np.any(gradient[H == 0])
    assert error <= 1e-11


def test_a_regularisation_that_needs_logarithms(rng):
    (X, y), (H, labels) = histograms(rng, 6), histograms(rng, 3)
    H = (H + 0.01) / (H + 0.01).sum(axis=1, keepdims=True)
    M = 100 * line(8)
    starts = np.zeros((6, 3, 8), dtype=np.float32)
    loss, _, error = evaluate(X, y, H, labels, M, 2.0, 0.1, 1e-6, starts)
    assert error <= 1e-6
    again = evaluate(X, y, H, labels, M, 2.0, 0.1, 1e-6, starts)
    np.testing.assert_allclose(again[0], loss, rtol=1e-6)
    exact = np.array([[transport.emd(x, h, M) for h in H] for x in X])
    p = softmax(-0.01 * exact, axis=1)
    own = (p * (y[:, None] == labels)).sum(axis=1)
    np.testing.assert_allclose(loss, -np.log(own).sum(), rtol=0.05)


# ---- the estimator --------------------------------------------------------------------------


def test_training_lowers_the_loss_and_the_error(rng):
    (X, y), (X_test, y_test) = histograms(rng, 120), histograms(rng, 120)
    model = HistogramCompressor(2, random_state=0).fit(X, y)
    assert model.loss_ == model.loss_curve_.min()
    assert model.loss_ < 0.9 * model.loss_curve_[0]
    assert len(model.loss_curve_) == model.n_iter_
    np.testing.assert_allclose(model.prototypes_.sum(axis=1), 1.0)
    value, _, _ = evaluate(
        X,
        y,
        model.prototypes_,
        np.searchsorted(model.classes_, model.prototype_labels_),
        model.M_,
        model.reg_,
        model.gamma_,
    )
    np.testing.assert_allclose(model.loss_, value / 120, rtol=1e-4)
    start = X[model.sample_indices_], y[model.sample_indices_]
    params = {"M": model.M_, "reg": model.reg_}
    sampled = MetricKNNClassifier(metric="sinkhorn", metric_params=params).fit(*start)
    assert model.score(X_test, y_test) > sampled.score(X_test, y_test)


def test_predictions_are_the_most_probable_classes(rng):
    X, y = histograms(rng, 45)
    names = np.array(["c", "a", "b"])[y]
    model = HistogramCompressor(0.1, reg=1.5, random_state=1, gamma=1.5).fit(X, names)
    assert model.prototypes_.shape == (4, 8)
    assert set(model.prototype_labels_) == {"a", "b", "c"}
    D = np.array(
        [
            [oracle.sinkhorn_divergence(x, h, model.M_, model.reg_) for h in model.prototypes_]
            for x in X[:4]
        ]
    )
    distances, indices = model.kneighbors(X[:4], 4)
    np.testing.assert_allclose(distances, np.sort(D, axis=1), atol=1e-4)
    np.testing.assert_array_equal(indices[:, 0], D.argmin(axis=1))
    shares = np.exp(-(1.5**2) * D)
    expected = [shares[:, model.prototype_labels_ == c].sum(axis=1) for c in "abc"]
    P = model.predict_proba(X)
    np.testing.assert_allclose(P[:4], np.transpose(expected / sum(expected)), atol=1e-3)
    np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], np.log(P[:, 1] / P[:, 0]), rtol=1e-6)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    losses = -np.log(P[np.arange(45), np.searchsorted(model.classes_, names)])
    np.testing.assert_allclose(losses.mean(), model.loss_, rtol=1e-3)


def test_the_scales_of_gamma_and_of_the_entropy(rng):
    X, y = histograms(rng, 30)
    model = HistogramCompressor(1, random_state=0, tol=0.1).fit(X, y)
    # A tenth of the median of what it costs to move to another bin: of 7 at 1, 6 at 2, 5 at 3.
    assert model.reg_ == pytest.approx(0.3)
    start = 0.99 * X[model.sample_indices_] + 0.01 / 8
    options = {"M": model.M_, "reg": 0.3, "tol": 1e-9, "max_iter": 20_000, "cost": "regularized"}
    # But for what all prototypes have in common.
    D = sinkhorn_distances(X, start, **options)
    D -= np.diag(sinkhorn_distances(start, start.copy(), **options)) / 2
    right = y[:, None] == model.prototype_labels_
    wrong = np.where(right, np.inf, D).min(axis=1)
    excess = np.abs(wrong - np.where(right, D, np.inf).min(axis=1)).mean()
    assert model.gamma_**2 == pytest.approx(1 / excess, rel=1e-3)


def test_of_one_class_the_scale_of_gamma_is_1(rng):
    X, _ = histograms(rng, 12)
    model = HistogramCompressor(2, random_state=0, tol=0.1).fit(X, np.zeros(12))
    assert model.gamma_ == 1.0
    np.testing.assert_array_equal(model.predict(X), 0.0)


def test_forms_and_masses_do_not_matter(rng):
    X, y = histograms(rng, 45)
    model = HistogramCompressor(1, random_state=1, max_iter=30, tol=1e-9)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    counts = X * rng.integers(1, 9, size=(45, 1))
    for form in (sparse.csr_array(X), counts, sparse.csr_matrix(counts), X.astype(np.float32)):
        with pytest.warns(ConvergenceWarning):
            other = clone(model).fit(form, y)
        np.testing.assert_allclose(other.prototypes_, model.prototypes_, atol=2e-2)
        np.testing.assert_array_equal(model.predict(form), model.predict(X))


def test_batches_and_starts(rng):
    X, y = histograms(rng, 90)
    options = {"random_state": 0, "tol": 1e-2}
    whole = HistogramCompressor(1, **options).fit(X, y)
    parts = HistogramCompressor(1, batch_size=20, **options).fit(X, y)
    assert parts.loss_ < 1.2 * whole.loss_
    assert parts.loss_ < 0.9 * parts.loss_curve_[0]
    climbed = HistogramCompressor(1, init="rmhc", **options).fit(X, y)
    assert climbed.loss_curve_[0] < whole.loss_curve_[0]


def small_compressor(rng, kind):
    """A compressor that is soon trained, and data for it."""
    if kind == "histograms":
        return HistogramCompressor(1, random_state=0, max_iter=10, tol=0.1), *histograms(rng, 45)
    A = rng.standard_normal((45, 3, 9)) * (1 + np.arange(45) % 3)[:, None, None]
    return CovarianceCompressor(1, random_state=0, tol=1e-3), A @ A.mT, np.arange(45) % 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("search", ["cv", "optuna"])
@pytest.mark.parametrize("kind", ["covariances", "histograms"])
def test_gamma_is_searched_on_rows_left_out(rng, monkeypatch, kind, search):
    if search == "optuna":
        optuna = pytest.importorskip(
            "optuna", reason="Optuna is not installed: pip install histrs[tune]"
        )
        verbosity = optuna.logging.get_verbosity()
        monkeypatch.setattr(_gamma, "_TRIALS", 4)
    model, X, y = small_compressor(rng, kind)
    scale = clone(model).fit(X, y).gamma_
    # In units of one over the root of the mean distance.
    start = 4.0 if kind == "covariances" else 1.0
    model.set_params(gamma=search)
    factors = [clone(model).fit(X, y).gamma_ / scale for _ in range(2)]
    assert factors[0] == factors[1]
    if search == "cv":
        assert np.isclose(factors[0] * start, [0.5, 1, 2, 4, 8]).any()
    else:
        assert 0.25 <= factors[0] * start <= 16
        assert optuna.logging.get_verbosity() == verbosity
    few = y.copy()
    few[few == 2] = 0
    few[7] = 2
    with pytest.raises(ValueError, match=rf'gamma = "{search}" .* class 2 has 1 of 45 rows'):
        clone(model).fit(X, few)


@pytest.mark.parametrize("best", [0.3, 2.0, 13.0])
def test_optuna_finds_a_better_inverse_temperature_than_the_scale(best):
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install histrs[tune]")
    found = _gamma._by_optuna(lambda factor: -abs(np.log(factor / best)), 0)
    assert best / 1.5 < found < best * 1.5
    # Where all are as good, the scale it starts from stays.
    assert _gamma._by_optuna(lambda factor: 1.0, 0) == 1.0


@pytest.mark.parametrize("kind", ["covariances", "histograms"])
def test_without_optuna_the_extra_is_named(rng, monkeypatch, kind):
    monkeypatch.setitem(sys.modules, "optuna", None)
    model, X, y = small_compressor(rng, kind)
    with pytest.raises(ImportError, match=r'needs Optuna.*pip install "histrs\[tune\]"'):
        model.set_params(gamma="optuna").fit(X, y)
    assert not hasattr(model, "gamma_")


def test_it_says_when_transport_did_not_converge(rng, monkeypatch):
    X, y = histograms(rng, 30)
    model = HistogramCompressor(1, tol=0.1, random_state=0)
    monkeypatch.setattr("histrs.prototypes._transport_loss.MAX_ITER", 1)
    with pytest.warns(ConvergenceWarning, match="a marginal of transport is off by .* raise reg"):
        model.fit(X, y)


def test_bad_input_leaves_the_model_as_it_was(rng):
    X, y = histograms(rng, 30)
    model = HistogramCompressor(1, random_state=0).fit(X, y)
    before = pickle.dumps(model)
    bad = X.copy()
    bad[17, 3] = -0.5
    with pytest.raises(ValueError, match=r"X\[17, 3\] = -0.5: histograms are"):
        model.fit(bad, y)
    bad = X.copy()
    bad[5] = 0.0
    with pytest.raises(ValueError, match=r"X\[5\] sums to 0\.0"):
        model.fit(bad, y)
    with pytest.raises(ValueError, match=r"X\[5\] sums to 0\.0"):
        model.predict(bad)
    with pytest.raises(ValueError, match="X has 4 features, but HistogramCompressor"):
        model.predict(X[:, :4])
    with pytest.raises(ValueError, match=r"compression = 11 .* class 0 has 10 of 30"):
        HistogramCompressor(11).fit(X, y)
    lonely = np.where(np.arange(30) == 7, 9, y)
    with pytest.raises(ValueError, match=r"compression = 2 .* class 9 has 1 of 30"):
        HistogramCompressor(2).fit(X, lonely)
    M = line(8)
    with pytest.raises(ValueError, match=r"M has shape \(7, 8\), expected \(8, 8\)"):
        clone(model).set_params(M=M[:7]).fit(X, y)
    M[2, 5] = -1
    with pytest.raises(ValueError, match=r"M\[2, 5\] = -1"):
        clone(model).set_params(M=M).fit(X, y)
    M[2, 5] = 1
    with pytest.raises(ValueError, match=r"M\[2, 5\] = 1\.0, but M\[5, 2\] = 3\.0"):
        clone(model).set_params(M=M).fit(X, y)
    with pytest.raises(ValueError, match=r"reg = .* underflows"):
        clone(model).set_params(reg=1e-12).fit(X, y)
    assert pickle.dumps(model) == before


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_infinite_costs_are_what_no_plan_takes_without_need(rng):
    M = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    finite = np.where(M > 3, 6 * 3.0, M)
    X = rng.dirichlet(np.ones(6), 40)
    y = (X[:, :3].sum(axis=1) > 0.5).astype(int)
    models = [
        HistogramCompressor(0.1, M=costs, reg=0.3, max_iter=3, random_state=0).fit(X, y)
        for costs in (np.where(M > 3, np.inf, M), finite)
    ]
    np.testing.assert_array_equal(models[0].prototypes_, models[1].prototypes_)
    np.testing.assert_array_equal(models[0].M_, finite)
    scaled = HistogramCompressor(0.1, M=np.where(M > 3, np.inf, M), max_iter=3)
    assert scaled.fit(X, y).reg_ == 0.1 * np.median(M[(M > 0) & (M <= 3)])


# ---- predictions -------------------------------------------------------------------------------


def shapes_of_two(rng, n, n_bins=24):
    """Peaks at places that depend on the class, with clutter."""
    y = np.arange(n) % 3
    bins = np.arange(n_bins)
    centre = 4 + 7 * y + rng.normal(scale=1.5, size=n)
    X = np.exp(-((bins - centre[:, None]) ** 2) / 8) + 0.1 * rng.gamma(0.5, size=(n, n_bins))
    X[rng.random(X.shape) < 0.2] = 0.0
    return X, y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("gamma", "unit"), [("scale", 1.0), (0.5, 1.0), (8.0, 1.0), (20.0, 1.0), (0.3, 100.0)]
)
def test_probabilities_of_histogram_prototypes_are_those_of_exact_costs(
    rng, gamma, unit, container, dtype
):
    X, y = shapes_of_two(rng, 700)
    M = unit * grid_ground_distance(24)
    model = HistogramCompressor(6, M=M, gamma=gamma, max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[:100], y[:100])
    queries = container(X[100:].astype(dtype))
    # More rows than are looked at at once, against costs that are all iterated to the end.
    exact = softmax(model._class_scores(queries), axis=1)
    found = model.predict_proba(queries)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact, atol=1e-6 if dtype is np.float64 else 2e-4)
    certain = np.sort(exact, axis=1)
    told = certain[:, -1] - certain[:, -2] > 1e-3
    np.testing.assert_array_equal(model.predict(queries)[told], exact.argmax(axis=1)[told])


@pytest.mark.parametrize("largest", [0.0, 3.0])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_what_is_taken_off_the_costs_decides_with_them(rng, container, largest):
    X, _ = shapes_of_two(rng, 170)
    X /= X.sum(axis=1, keepdims=True)
    queries, prototypes = X[:150], X[150:]
    # As much as the costs differ by: a prototype that is far may be the one that counts.
    own = rng.permutation(np.linspace(-largest, largest, len(prototypes)))
    options = {"M": grid_ground_distance(24), "reg": 0.5, "max_iter": 1000, "n_jobs": 1}
    exact = sinkhorn_distances(*(queries, prototypes), cost="regularized", tol=1e-8, **options)
    for inverse_temperature in (0.5, 16.0, 64.0):
        found = _decisive.decisive_costs(
            *(container(queries), prototypes, own),
            inverse_temperature=inverse_temperature,
            **options,
        )
        np.testing.assert_allclose(
            softmax(-inverse_temperature * found, axis=1),
            softmax(-inverse_temperature * (exact - own), axis=1),
            atol=1e-6,
        )
