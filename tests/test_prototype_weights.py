"""Weights of the samples and classes that prototypes are learned from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from sklearn.base import clone

from histrs import _histrs
from histrs.prototypes import CovarianceCompressor, HistogramCompressor
from histrs.prototypes._base import Training
from histrs.prototypes._class_means import class_means
from histrs.prototypes._covariance_loss import make_loss
from histrs.prototypes._gamma import searched_gamma
from histrs.prototypes._learned import LearnedPrototypes
from histrs.prototypes._transport_loss import TransportLoss
from histrs.spd import jbld_mean
from histrs.transport import grid_ground_distance

each = pytest.mark.parametrize
KINDS = ["covariances", "histograms"]


def matrices(rng, n, p=3, n_classes=3):
    y = np.arange(n) % n_classes
    A = rng.standard_normal((n, p, 15)) * (1 + 0.5 * y[:, None, None] * np.arange(p)[:, None])
    return A @ A.transpose(0, 2, 1) / 15, y


def histograms(rng, n, d=6, n_classes=3):
    y = np.arange(n) % n_classes
    peak = np.abs(np.arange(d) - (y[:, None] + 0.5) * d / n_classes) < 1.5
    X = rng.gamma(0.4 + 1.5 * peak) + 1e-3
    return X / X.sum(axis=1, keepdims=True), y


def samples(kind, rng, n):
    return matrices(rng, n) if kind == "covariances" else histograms(rng, n)


def evaluate(kind, X, y, P, labels, weights, gamma):
    if kind == "covariances":
        return _histrs.compression_loss(X, y, P, labels, weights, gamma, 2)
    M = grid_ground_distance(X.shape[1])
    return _histrs.histogram_compression_loss(
        X, y, P, labels, weights, M, 0.5, gamma, 1e-11, 20_000, None, 2
    )


# ---- the objective ----------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(
    kind=st.sampled_from(KINDS),
    counts=st.lists(st.integers(0, 4), min_size=3, max_size=12),
    gamma=st.sampled_from([0.3, 1.0, 4.0]),
    seed=st.integers(0, 99),
)
def test_whole_weights_are_repeated_rows(kind, counts, gamma, seed):
    rng = np.random.default_rng(seed)
    (X, y), (P, labels) = samples(kind, rng, len(counts)), samples(kind, rng, 5)
    found = evaluate(kind, X, y, P, labels, np.array(counts, dtype=float), gamma)
    indices = np.repeat(np.arange(len(counts)), counts)
    expected = evaluate(kind, X[indices], y[indices], P, labels, None, gamma)
    for one, other in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
    if kind == "covariances":
        np.testing.assert_allclose(found[2], expected[2], rtol=1e-11, atol=1e-12)


@each("kind", KINDS)
def test_the_gradient_by_finite_differences(rng, kind):
    (X, y), (P, labels) = samples(kind, rng, 20), samples(kind, rng, 4)
    weights = rng.gamma(1.0, size=20)
    weights /= weights.mean()
    if kind == "covariances":
        loss = make_loss(X, y, labels, 1.3, 1, matrices(rng, 4)[0], 2.0, weights)
        start = np.linalg.cholesky(P).transpose(0, 2, 1)
    else:
        M = grid_ground_distance(6)
        options = {"M": M, "reg": 0.5, "gamma": 1.3, "tol": 1e-11, "n_threads": 1}
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


@each("kind", KINDS)
def test_the_core_refuses_weights(rng, kind):
    (X, y), (P, labels) = samples(kind, rng, 6), samples(kind, rng, 3)
    with pytest.raises(ValueError, match="number of weights is 5, expected 6"):
        evaluate(kind, X, y, P, labels, np.ones(5), 1.0)
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"weights = .* is out of range"):
            evaluate(kind, X, y, P, labels, np.where(np.arange(6) == 3, bad, 1.0), 1.0)


# ---- the estimators ---------------------------------------------------------------------------


def make(kind, **options):
    """A model that is trained nearly to the end."""
    if kind == "covariances":
        return CovarianceCompressor(1, **{"tol": 1e-10, "random_state": 0, **options})
    return HistogramCompressor(1, **{"tol": 1e-2, "random_state": 0, **options})


@each("options", [{}, {"init": "rmhc"}, {"gamma": "cv"}], ids=str)
@each("kind", KINDS)
def test_samples_of_weight_zero_are_not_there(rng, kind, options):
    X, y = samples(kind, rng, 60)
    names = np.array(["a", "b", "c"])[y]
    weights = rng.integers(0, 3, 60).astype(float)
    used = np.flatnonzero(weights)
    model = make(kind, tol=0.1, **options)
    found = clone(model).fit(X, names, sample_weight=weights)
    expected = clone(model).fit(X[used], names[used], sample_weight=weights[used])
    np.testing.assert_array_equal(found.prototypes_, expected.prototypes_)
    np.testing.assert_array_equal(found.sample_indices_, used[expected.sample_indices_])
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


@each("kind", KINDS)
def test_weights_of_classes_are_those_of_their_samples(rng, kind):
    X, y = samples(kind, rng, 60)
    weights = rng.gamma(2.0, size=60)
    model = make(kind, tol=0.1, gamma="cv")
    names = np.array(["a", "b", "c"])[y]
    for class_weight in ("balanced", {"a": 2.0, "b": 0.5, "c": 1.0}):
        found = clone(model).set_params(class_weight=class_weight).fit(X, names, weights)
        factors = class_weight
        if class_weight == "balanced":
            third = weights.sum() / 3.0
            factors = {name: third / weights[names == name].sum() for name in "abc"}
        product = weights * np.array([factors[name] for name in names])
        expected = clone(model).fit(X, names, product)
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-3)
    without = clone(model).set_params(class_weight={"a": 0.0, "b": 1.0, "c": 1.0})
    assert without.fit(X, names).classes_.tolist() == ["b", "c"]


@each("kind", KINDS)
def test_what_weighs_more_is_more_often_right(rng, kind):
    X, y = samples(kind, rng, 90)
    labels = np.where(rng.random(90) < 0.3, (y + 1) % 3, y)
    models = [
        make(kind, tol=0.1, class_weight={0: w, 1: 1.0, 2: 1.0}).fit(X, labels) for w in (0.1, 10.0)
    ]
    light, heavy = (model.predict_proba(X)[:, 0].mean() for model in models)
    assert heavy > light + 0.03


@each("unit", [1e-300, 1e300])
@each("kind", KINDS)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_weights_of_all_sizes(rng, kind, unit):
    X, y = samples(kind, rng, 30)
    model = make(kind, tol=0.1).fit(X, y, sample_weight=unit * rng.random(30))
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.loss_)


def test_units_of_weights_do_not_matter_without_a_prior(rng):
    X, y = matrices(rng, 60)
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


@each("kind", KINDS)
@each(
    ("weights", "message"),
    [
        (-np.ones(30), r"sample_weight\[0\] = -1"),
        (np.full(30, np.nan), r"sample_weight\[0\] = nan"),
        (np.full(30, np.inf), r"sample_weight\[0\] = inf"),
        (np.ones(29), "sample_weight"),
        (np.zeros(30), "zero"),
    ],
)
def test_bad_weights_leave_everything_as_it_was(rng, kind, weights, message):
    X, y = samples(kind, rng, 30)
    model = make(kind, tol=0.1).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.predict_proba(X), before)


@each("kind", KINDS)
@each("bad", [{0: -1.0}, {1: np.nan}, {1: np.inf}, {0: 0.0, 1: 0.0, 2: 0.0}], ids=str)
def test_bad_weights_of_classes_leave_everything_as_it_was(rng, kind, bad):
    X, y = samples(kind, rng, 30)
    model = make(kind, tol=0.1).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="class_weight"):
        model.set_params(class_weight=bad).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), before)


@each("least", [1e-20, 1e-300])
def test_a_sample_that_outweighs_all_others_leaves_no_rounding_to_learn(least):
    X, y = matrices(np.random.default_rng(11), 40, p=4, n_classes=2)
    weights = np.r_[1.0 / least, np.full(39, least)]
    model = CovarianceCompressor(random_state=0, max_iter=20).fit(X, y, sample_weight=weights)
    assert model.gamma_ < 1e3
    assert model.loss_ > -1e-9
    assert np.all(np.isfinite(model.predict_proba(X)))


class Told(LearnedPrototypes):
    """Knows the scores of rows, which are in their columns; those of heavy rows are too small."""

    def __init__(self, compression=1, gamma=1.0, random_state=None, verbose=0, class_weight=None):
        self.compression = compression
        self.gamma = gamma
        self.random_state = random_state
        self.verbose = verbose
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.weights_ = sample_weight
        return self

    def set_params(self, calibration=None, **params):
        return super().set_params(**params)

    def _class_scores(self, X):
        label, is_heavy, distance = X.T
        is_right = is_heavy == (self.gamma > 1.0)
        found = np.where(is_right, label, 1 - label)
        return -distance[:, None] * (found[:, None] != [0, 1])

    _check_queries = _nearest = None


def told(rng):
    """Few heavy rows, many light ones, and their weights."""
    labels = np.arange(60) % 2
    is_heavy = np.arange(60) < 20
    X = np.column_stack([labels, is_heavy, rng.gamma(1.0, size=60)])
    return X, labels, np.where(is_heavy, 5.0, 1.0)


def test_inverse_temperature_is_searched_by_weights(rng):
    X, labels, weights = told(rng)
    plain, weighed = (
        searched_gamma(
            Told(gamma="cv", class_weight={0: 0.0}),
            Training(None, X, labels, np.arange(2), w),
            1.0,
            np.random.RandomState(0),
        )
        for w in (None, weights)
    )
    assert plain <= 1.0 < weighed
