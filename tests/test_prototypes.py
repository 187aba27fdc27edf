"""Prototypes of covariance matrices: objective, gradient, weights, and what they are good for."""

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from histrs import _histrs
from histrs.metrics import jbld_distances
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import CovarianceCompressor, HistogramCompressor, RandomSubset
from histrs.prototypes._class_means import class_means
from histrs.prototypes._covariance_loss import make_loss
from histrs.prototypes._transport_loss import TransportLoss
from histrs.spd import SPDProjection, jbld_mean
from histrs.transport import grid_ground_distance
from tests.oracles import spd as oracle

pytestmark = pytest.mark.simd_paths


def matrices(rng, n, p=4, n_classes=3):
    y = np.arange(n) % n_classes
    A = rng.standard_normal((n, p, 15)) * (1 + 0.5 * y[:, None, None] * np.arange(p)[:, None])
    return A @ A.transpose(0, 2, 1) / 15, y


@given(
    n=st.integers(1, 20),
    m=st.sampled_from([3, 7, 8, 9, 17]),
    p=st.sampled_from([1, 2, 3, 4, 5, 8, 9]),
    gamma=st.sampled_from([0.1, 1.0, 4.0]),
    seed=st.integers(0, 99),
)
def test_loss_and_gradient_are_their_definitions(n, m, p, gamma, seed):
    rng = np.random.default_rng(seed)
    (X, y), (P, labels) = matrices(rng, n, p), matrices(rng, m, p)
    loss, sums, weights = _histrs.compression_loss(X, y, P, labels, None, gamma, 2)
    expected = oracle.compression_loss(X, y, P, labels, gamma)
    np.testing.assert_allclose(loss, expected, rtol=1e-9, atol=1e-12)
    D = oracle.all_pairs(oracle.jbld, X, P)
    shares = np.exp(-(gamma**2) * D)
    right = y[:, None] == labels[None]
    shares /= shares.sum(axis=1, keepdims=True)
    own = np.sum(shares * right, axis=1, keepdims=True)
    w = shares / own * (right - own)
    np.testing.assert_allclose(weights, w.sum(axis=0), rtol=1e-8, atol=1e-10)
    inverses = np.linalg.inv(X[:, None] + P[None])
    np.testing.assert_allclose(sums, np.einsum("nm,nmij->mij", w, inverses), rtol=1e-8, atol=1e-9)


def test_training_lowers_the_loss_and_the_error(rng):
    (X, y), (X_test, y_test) = matrices(rng, 150), matrices(rng, 150)
    model = CovarianceCompressor(2, init="subset", prior_weight=0.0, random_state=0).fit(X, y)
    start, labels = X[model.sample_indices_], y[model.sample_indices_]
    before = oracle.compression_loss(X, y, start, labels, model.gamma_) / 150
    after = oracle.compression_loss(X, y, model.prototypes_, model.prototype_labels_, model.gamma_)
    np.testing.assert_allclose(model.loss_, after / 150, rtol=1e-6)
    assert model.loss_ < 0.6 * before
    sampled = MetricKNNClassifier().fit(start, labels).score(X_test, y_test)
    assert model.score(X_test, y_test) > sampled


def test_predictions_are_the_most_probable_classes(rng):
    X, y = matrices(rng, 60)
    names = np.array(["c", "a", "b"])[y]
    options = {"gamma": 1.5, "prior_weight": 0.0, "calibration": None}
    model = CovarianceCompressor(0.1, random_state=1, **options).fit(X, names)
    assert model.prototypes_.shape == (6, 4, 4)
    assert sorted(model.prototype_labels_) == ["a", "a", "b", "b", "c", "c"]
    D = jbld_distances(X, model.prototypes_)
    nearest = model.kneighbors(X, return_distance=False)[:, 0]
    np.testing.assert_array_equal(nearest, D.argmin(axis=1))
    shares = np.exp(-(1.5**2) * D)
    P = np.stack([shares[:, model.prototype_labels_ == c].sum(axis=1) for c in "abc"], axis=1)
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), P, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores[:, 1:] - scores[:, :1], np.log(P[:, 1:] / P[:, :1]))
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    losses = -np.log(P[np.arange(60), np.searchsorted(model.classes_, names)])
    np.testing.assert_allclose(losses.mean(), model.loss_, rtol=1e-6)
    single = clone(model).fit(X.astype(np.float32), names)
    assert single.prototypes_.dtype == np.float64
    assert single.score(X.astype(np.float32), names) > 0.8


def test_prototypes_start_at_means_of_clusters_and_stay_near(rng):
    X, y = matrices(rng, 60)
    model = CovarianceCompressor(1, prior_weight=1e6, random_state=0).fit(X, y)
    means = np.stack([jbld_mean(X[y == c], tol=1e-12) for c in range(3)])
    assert jbld_distances(model.prototypes_, means, paired=True).max() < 1e-6
    nearest = [
        np.flatnonzero(y == c)[jbld_distances(X[y == c], means[c : c + 1])[:, 0].argmin()]
        for c in range(3)
    ]
    np.testing.assert_array_equal(model.sample_indices_, nearest)
    # Two clusters of a class that are far apart have a mean each.
    apart = np.concatenate([X[y == 0], 1e3 * X[y == 0], X[y == 1]])
    labels = np.repeat([0, 1], [2 * np.sum(y == 0), np.sum(y == 1)])
    two = CovarianceCompressor(2, prior_weight=1e6, random_state=0).fit(apart, labels)
    D = jbld_distances(two.prototypes_, np.stack([means[0], 1e3 * means[0]]))
    assert D.min(axis=0).max() < 1e-6


def test_the_scale_of_gamma_is_that_of_divergences_at_the_start(rng):
    X, y = matrices(rng, 60)
    model = CovarianceCompressor(1, random_state=0).fit(X, y)
    means = np.stack([jbld_mean(X[y == c], tol=1e-12) for c in range(3)])
    nearest = jbld_distances(X, means).min(axis=1)
    assert model.gamma_**2 == pytest.approx(16 / nearest.mean(), rel=1e-6)


def test_loss_counts_the_start_as_further_matrices(rng):
    X, y = matrices(rng, 60)
    model = CovarianceCompressor(1, prior_weight=3.0, gamma=1.5, random_state=0).fit(X, y)
    means = np.stack([jbld_mean(X[y == c], tol=1e-12) for c in range(3)])
    L = oracle.compression_loss(X, y, model.prototypes_, model.prototype_labels_, 1.5)
    L += 3.0 * 1.5**2 * np.diag(jbld_distances(model.prototypes_, means)).sum()
    np.testing.assert_allclose(model.loss_, L / 60, rtol=1e-6)
    free = CovarianceCompressor(1, prior_weight=0.0, gamma=1.5, random_state=0).fit(X, y)
    moved = [jbld_distances(m.prototypes_, means, paired=True).max() for m in (model, free)]
    assert moved[0] < 0.5 * moved[1]
    usual, third = (
        CovarianceCompressor(1, prior_weight=nu, gamma=1.5, random_state=0).fit(X, y)
        for nu in ("auto", 4 / 3)
    )
    np.testing.assert_array_equal(usual.prototypes_, third.prototypes_)


def test_few_trials_of_many_channels_are_not_learned_by_heart():
    rng = np.random.default_rng(0)
    scales = np.exp(0.12 * rng.normal(size=(3, 16)))
    y = np.resize(np.arange(3), 330)
    powers = scales[y] * np.exp(0.6 * rng.normal(size=(330, 16)))
    signals = powers[:, :, None] * rng.normal(size=(330, 16, 40))
    C = signals @ signals.transpose(0, 2, 1) / 40
    losses = {}
    of_paper = {"init": "subset", "prior_weight": 0.0}
    for name, parameters in (("default", {}), ("paper", of_paper)):
        model = CovarianceCompressor(1, random_state=0, calibration=None, **parameters)
        model.fit(C[:30], y[:30])
        losses[name] = log_loss(y[30:], model.predict_proba(C[30:]))
    assert losses["default"] < 0.8 * losses["paper"]
    calibrated = CovarianceCompressor(1, random_state=0).fit(C[:30], y[:30])
    np.testing.assert_array_equal(
        calibrated.predict(C),
        CovarianceCompressor(1, random_state=0, calibration=None).fit(C[:30], y[:30]).predict(C),
    )
    assert 0.0 < calibrated.inverse_temperature_ < 1.0
    assert log_loss(y[30:], calibrated.predict_proba(C[30:])) < losses["default"]


def test_the_temperature_is_likely_for_new_rows(rng):
    X, y = samples("covariances", rng, 1800)
    labels = np.where(rng.random(1800) < 0.3, (y + 1) % 3, y)
    logits = np.log(make("covariances", tol=1e-2).fit(X[:300], labels[:300]).predict_proba(X[300:]))
    losses = [log_loss(labels[300:], softmax(f * logits, axis=1)) for f in (0.5, 1.0, 2.0)]
    assert losses[1] == min(losses)


def test_a_class_too_small_to_leave_one_out_is_not_calibrated(rng):
    X, y = matrices(rng, 12)
    y[-1] = 9
    assert CovarianceCompressor(1, random_state=0).fit(X, y).inverse_temperature_ == 1.0


def test_clusters_of_equal_matrices(rng):
    X, y = matrices(rng, 6)
    X, y = np.repeat(X[:3], 4, axis=0), np.repeat(y[:3], 4)
    assert len(CovarianceCompressor(1, random_state=0).fit(X, y).prototypes_) == 3
    with pytest.raises(ValueError, match="has 1 of 3 different training samples"):
        CovarianceCompressor(2, random_state=0).fit(X, y)


def test_units_of_the_features_do_not_matter(rng):
    X, y = matrices(rng, 40)
    units = np.array([1e-3, 1.0, 10.0, 1e4])
    model = CovarianceCompressor(1, random_state=0, max_iter=5)  # later, rounding shows
    other = clone(model)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    with pytest.warns(ConvergenceWarning):
        other.fit(X * np.outer(units, units), y)
    expected = model.prototypes_ * np.outer(units, units)
    np.testing.assert_allclose(other.loss_, model.loss_, rtol=1e-6)
    assert jbld_distances(other.prototypes_, expected, paired=True).max() < 1e-4


def test_bad_input_leaves_the_model_as_it_was(rng):
    X, y = matrices(rng, 30)
    model = CovarianceCompressor(1, random_state=0).fit(X, y)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"X\[29\] has shape \(3, 3\), and X\[0\] \(4, 4\)"):
        model.fit([*X[:29], np.eye(3)], y)
    lonely = np.where(np.arange(30) == 7, 9, y)
    with pytest.raises(ValueError, match=r"compression = 2 .* class 9 has 1 of 30"):
        CovarianceCompressor(2).fit(X, lonely)
    with pytest.raises(ValueError, match="X has 4 features, but CovarianceCompressor"):
        model.predict(X[:, :2, :2])
    with pytest.raises(ValueError, match="compression = 11 prototypes of each class, but class 0"):
        CovarianceCompressor(11).fit(X, y)
    assert pickle.dumps(model) == before


# ---- weights of samples and classes --------------------------------------------------------------

each = pytest.mark.parametrize
KINDS = ["covariances", "histograms"]


def histograms(rng, n, d=6, n_classes=3):
    y = np.arange(n) % n_classes
    peak = np.abs(np.arange(d) - (y[:, None] + 0.5) * d / n_classes) < 1.5
    X = rng.gamma(0.4 + 1.5 * peak) + 1e-3
    return X / X.sum(axis=1, keepdims=True), y


def samples(kind, rng, n):
    return matrices(rng, n, 3) if kind == "covariances" else histograms(rng, n)


@each(
    ("model", "kind", "message"),
    [
        (CovarianceCompressor(1, random_state=0), "covariances", "1 iterations at a loss of"),
        (HistogramCompressor(1, random_state=0), "histograms", "1 passes at a loss of"),
        (SPDProjection(2), "covariances", "1 iterations with a gradient of"),
    ],
)
def test_it_says_when_it_did_not_converge(rng, model, kind, message):
    X, y = samples(kind, rng, 40)
    with pytest.warns(ConvergenceWarning, match=f"after {message}"):
        clone(model).set_params(max_iter=1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(max_iter=500).fit(X, y)


@each("kind", KINDS)
def test_a_class_of_one_row_has_a_prototype(rng, kind):
    X, y = samples(kind, rng, 30)
    y = np.where(np.arange(30) == 7, 9, y)
    compressor = CovarianceCompressor if kind == "covariances" else HistogramCompressor
    model = compressor(0.2, random_state=0, tol=0.1).fit(X, y)
    assert (model.prototype_labels_ == 9).sum() == 1
    assert 7 in model.sample_indices_


# ---- the objective ----------------------------------------------------------------------------


@each("kind", KINDS)
@each(("gamma", "prior_weight"), [(0.3, 4.0), (1.3, 2.0), (1.3, 0.0), (5.0, 4.0)])
def test_the_gradient_by_finite_differences(rng, kind, gamma, prior_weight):
    (X, y), (P, labels) = samples(kind, rng, 20), samples(kind, rng, 4)
    weights = rng.gamma(1.0, size=20)
    weights /= weights.mean()
    if kind == "covariances":
        prior = matrices(rng, 4, 3)[0]
        loss = make_loss(X, y, labels, gamma, 1, prior, prior_weight, weights)
        start = np.linalg.cholesky(P).transpose(0, 2, 1)
    else:
        M = grid_ground_distance(6)
        options = {"M": M, "reg": 0.5, "gamma": gamma, "tol": 1e-11, "n_threads": 1}
        of_rows = TransportLoss(X, y, labels, weights=weights, **options)
        loss, start = (lambda logarithms: of_rows(logarithms, None)), np.log(P)
    # Where a triangle is zero there is nothing to vary.
    free = np.nonzero(start)

    def value(entries):
        point = np.zeros(start.shape)
        point[free] = entries
        return loss(point)[0]

    expected = approx_fprime(start[free], value, 1e-7)
    gradient = loss(start)[1][free]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


# ---- the estimators ---------------------------------------------------------------------------


def make(kind, **options):
    """A model that is trained nearly to the end."""
    if kind == "covariances":
        return CovarianceCompressor(1, **{"tol": 1e-10, "random_state": 0, **options})
    return HistogramCompressor(1, **{"tol": 1e-2, "random_state": 0, **options})


@each("unit", [1e-300, 1e300])
@each("kind", KINDS)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_weights_of_all_sizes(rng, kind, unit):
    X, y = samples(kind, rng, 30)
    model = make(kind, tol=0.1).fit(X, y, sample_weight=unit * rng.random(30))
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.loss_)


def test_units_of_weights_do_not_matter_without_a_prior(rng):
    X, y = matrices(rng, 60, 3)
    weights = rng.random(60)
    model = make("covariances", prior_weight=0.0, calibration=None, tol=0.1)
    one, other = (clone(model).fit(X, y, sample_weight=u * weights) for u in (1.0, 1024.0))
    np.testing.assert_allclose(one.prototypes_, other.prototypes_, rtol=1e-6)
    X, y = histograms(rng, 60)
    model = make("histograms")
    one, other = (clone(model).fit(X, y, sample_weight=u * weights) for u in (1.0, 1024.0))
    np.testing.assert_array_equal(one.prototypes_, other.prototypes_)


def test_clusters_count_weights():
    """Of four points apart, two clusters are those of the heavy ones."""
    points = np.array([[0.0, 0.0], [0.5, 0.0], [3.0, 0.0], [0.0, 3.0]])
    X = np.stack([np.diag(np.exp(point)) for point in points])
    weights = np.array([1.0, 1.0, 1e-6, 1e6])
    labels = np.zeros(4, dtype=np.int64)
    random = np.random.RandomState(0)
    means, _ = class_means(X, labels, np.array([2]), random, weights)
    heavy = means[np.argmin(np.abs(means[:, 1, 1] - np.exp(3.0)))]
    np.testing.assert_allclose(heavy, X[3], rtol=1e-6)
    (both,), _ = class_means(X[:2], labels[:2], np.array([1]), random, np.array([3.0, 1.0]))
    expected = jbld_mean(X[[0, 0, 0, 1]])
    np.testing.assert_allclose(both, expected, rtol=1e-6)


@each("least", [1e-20, 1e-300])
def test_a_sample_that_outweighs_all_others_leaves_no_rounding_to_learn(least):
    X, y = matrices(np.random.default_rng(11), 40, n_classes=2)
    weights = np.r_[1.0 / least, np.full(39, least)]
    model = CovarianceCompressor(random_state=0, max_iter=20).fit(X, y, sample_weight=weights)
    assert model.gamma_ < 1e3
    assert model.loss_ > -1e-9
    assert np.all(np.isfinite(model.predict_proba(X)))


# ---- how many prototypes each class has ----------------------------------------------------------

sizes = st.lists(st.integers(1, 30), min_size=1, max_size=6)


@given(sizes=sizes, share=st.floats(1e-3, 1.0))
@example(sizes=[30, 1, 1, 1, 1, 1], share=0.5)
def test_prototypes_are_shared_out_by_size(sizes, share):
    labels, n = np.repeat(np.arange(len(sizes)), sizes), sum(sizes)
    model = RandomSubset(share, metric="euclidean", random_state=0)
    model.fit(np.random.default_rng(0).random((n, 2)), labels)
    assert len(np.unique(model.sample_indices_)) == len(model.sample_indices_)
    np.testing.assert_array_equal(labels[model.sample_indices_], model.prototype_labels_)
    found = np.bincount(model.prototype_labels_, minlength=len(sizes))
    wanted = max(1, round(share * n))
    counts = [max(1, wanted * size // n) for size in sizes]
    while sum(counts) < wanted:
        # The first of the classes with most samples a prototype, of which any is left.
        ratios = [
            Fraction(size, count) if count < size else Fraction(-1)
            for size, count in zip(sizes, counts, strict=True)
        ]
        counts[ratios.index(max(ratios))] += 1
    assert found.tolist() == counts
    assert np.all((found >= 1) & (found <= sizes))
