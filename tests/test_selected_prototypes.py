"""Prototypes that are training samples, against the definitions of the rules that choose them."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

from histrs import _histrs
from histrs._calibration import likely_inverse_temperature
from histrs.metrics import chi2_distances, jbld_distances, sinkhorn_distances
from histrs.metrics._registry import METRICS
from histrs.neighbors import MetricKNNClassifier
from histrs.neighbors._space import Space
from histrs.prototypes import (
    CondensedNN,
    FastCondensedNN,
    RandomMutationNN,
    RandomSubset,
    ReducedNN,
    compression_curve,
)
from histrs.prototypes._base import Training
from histrs.prototypes._random_mutation import hill_climb
from histrs.spd import jbld_mean, log_euclidean_mean
from histrs.transport import grid_ground_distance, sinkhorn_barycenter
from tests.oracles import prototypes as oracle

pytestmark = pytest.mark.simd_paths

RULES = [CondensedNN, FastCondensedNN, RandomMutationNN, RandomSubset, ReducedNN]
each_rule = pytest.mark.parametrize("rule", RULES)
M = grid_ground_distance(6)
PARAMS = {"emd": {"M": M}, "sinkhorn": {"M": M, "reg": 0.3}}


def points(rng, n, n_classes=3, *, ties=False):
    """Overlapping classes in the plane; with ties on a grid, and points there twice."""
    y = rng.integers(0, n_classes, size=n)
    X = rng.standard_normal((n, 2)) + 1.5 * y[:, None]
    return (np.round(X) if ties else X), y


def data_for(metric, rng, n=40):
    y = np.arange(n) % 3
    if METRICS[metric].kind == "covariances":
        A = rng.standard_normal((n, 3, 9)) * (1 + 0.7 * y[:, None, None] * np.arange(3)[:, None])
        return A @ A.transpose(0, 2, 1), y
    X = rng.gamma(0.5 + (np.arange(6) // 2 == y[:, None]))
    return X / X.sum(axis=1, keepdims=True), y


def euclidean(X, y):
    return Training(Space("euclidean", None, 1), X, y, np.unique(y))


problems = st.tuples(st.integers(1, 20), st.integers(1, 4), st.booleans(), st.integers(0, 999))


def draw(problem):
    n, n_classes, ties, seed = problem
    rng = np.random.default_rng(seed)
    X, y = points(rng, n, n_classes, ties=ties)
    y = np.unique(y, return_inverse=True)[1]
    return X, y, euclidean(X, y), np.random.RandomState(seed)


# ---- the rules ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(problems)
def test_condensing_and_reducing_are_their_definitions(problem):
    X, y, _, random = draw(problem)
    D, seed = cdist(X, X), problem[-1]
    expected = oracle.condensed(D, y, random.permutation(len(y)).tolist())
    model = CondensedNN(metric="euclidean", random_state=seed).fit(X, y)
    assert model.sample_indices_.tolist() == expected
    for n_jobs in (1, 2, 7):
        model = ReducedNN(metric="euclidean", random_state=seed, n_jobs=n_jobs).fit(X, y)
        assert model.sample_indices_.tolist() == oracle.reduced(D, y, expected)


@settings(deadline=None, max_examples=50)
@given(problems)
def test_condensed_samples_classify_all_others_right(problem):
    X, y, _, _ = draw(problem)
    # Two classes at one place cannot both be right.
    place, first = np.unique(X, axis=0, return_inverse=True)
    first = first.ravel()  # of two dimensions in NumPy 2.0
    agree = [len(set(y[first == k])) == 1 for k in range(len(place))]
    keep = np.array(agree)[first]
    if keep.sum() == 0:
        return
    for rule in (CondensedNN, ReducedNN, FastCondensedNN):
        model = rule(metric="euclidean").fit(X[keep], y[keep])
        assert model.score(X[keep], y[keep]) == 1.0


@settings(deadline=None, max_examples=50)
@given(problems)
def test_fast_condensing_is_its_definition(problem):
    X, y, training, _ = draw(problem)
    D = training.distances(np.arange(len(y)))
    centroids = [X[y == label].mean(axis=0) for label in np.unique(y)]
    centres = []
    for label, centroid in enumerate(centroids):
        members = np.flatnonzero(y == label)
        distances = training.space.distances(X[members], centroid[None])[:, 0]
        centres.append(members[np.argmin(distances)])
    model = FastCondensedNN(metric="euclidean").fit(X, y)
    assert model.sample_indices_.tolist() == oracle.fast_condensed(D, y, centres)


@settings(deadline=None, max_examples=50)
@given(problems, st.integers(1, 5))
def test_hill_climbing_is_its_definition(problem, m):
    _, y, training, random = draw(problem)
    D = training.distances(np.arange(len(y)))
    sample = random.permutation(len(y))[:m]
    again = np.random.RandomState()
    again.set_state(random.get_state())
    chosen = hill_climb(training, sample, 40, random)
    mutations = []
    for size in (32, 8):
        indices, candidates = (
            again.randint(len(sample), size=size),
            again.randint(len(y), size=size),
        )
        mutations += zip(indices, candidates, strict=True)
    assert chosen.tolist() == oracle.hill_climbed(D, y, sample, mutations)
    assert oracle.n_right(D, y, list(chosen)) >= oracle.n_right(D, y, list(sample))
    assert set(y[chosen]) >= set(y[sample])


def test_random_subsets_are_of_every_class(rng):
    X, y = points(rng, 60)
    names = np.array(["b", "a", "c"])[y]
    model = RandomSubset(2, metric="euclidean", random_state=0).fit(X, names)
    assert model.prototype_labels_.tolist() == ["a", "a", "b", "b", "c", "c"]
    assert len(set(model.sample_indices_)) == 6
    others = clone(model).set_params(random_state=1).fit(X, names).sample_indices_
    assert set(others) != set(model.sample_indices_)


# ---- centroids ------------------------------------------------------------------------------


def test_the_first_of_fast_condensing_are_nearest_to_centroids_of_the_metric(rng):
    X, y = data_for("jbld", rng)
    chosen = FastCondensedNN().fit(X, y).sample_indices_
    for label in range(3):
        D = jbld_distances(X[y == label], jbld_mean(X[y == label])[None])[:, 0]
        assert chosen[label] == np.flatnonzero(y == label)[D.argmin()]
    for metric in ("logeuclid", "euclid"):
        chosen = FastCondensedNN(metric=metric).fit(X, y).sample_indices_
        for label in range(3):
            Z = X[y == label]
            mean = Z.mean(axis=0) if metric == "euclid" else log_euclidean_mean(Z)
            D = METRICS[metric].distances(Z, mean[None], n_jobs=1)[:, 0]
            assert chosen[label] == np.flatnonzero(y == label)[D.argmin()]
    X, y = data_for("sinkhorn", rng)
    chosen = FastCondensedNN(metric="sinkhorn", metric_params=PARAMS["sinkhorn"]).fit(X, y)
    for label in range(3):
        centroid = sinkhorn_barycenter(X[y == label], M=M, reg=0.3)[None]
        D = sinkhorn_distances(X[y == label], centroid, M=M, reg=0.3)[:, 0]
        assert chosen.sample_indices_[label] == np.flatnonzero(y == label)[D.argmin()]


# ---- all of them ----------------------------------------------------------------------------


@each_rule
@pytest.mark.parametrize("metric", sorted(METRICS))
def test_every_metric(rng, rule, metric):
    X, y = data_for(metric, rng)
    names = np.array(["b", "a", "c"])[y]
    model = rule(metric=metric, metric_params=PARAMS.get(metric))
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    if "max_iter" in model.get_params():
        model.set_params(max_iter=40)
    model.fit(X, names)
    np.testing.assert_array_equal(model.prototypes_, X[model.sample_indices_])
    np.testing.assert_array_equal(model.prototype_labels_, names[model.sample_indices_])
    reference = MetricKNNClassifier(metric=metric, metric_params=PARAMS.get(metric))
    reference.fit(model.prototypes_, model.prototype_labels_)
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))
    distances, indices = model.kneighbors(X, 2)
    expected = reference.kneighbors(X, 2)
    np.testing.assert_allclose(distances, expected[0], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(model.kneighbors(X, 2, return_distance=False), indices)
    assert set(model.prototype_labels_) == {"a", "b", "c"}
    D = model._space().distances(X, model.prototypes_).astype(np.float64)
    of_class = [D[:, model.prototype_labels_ == c].min(axis=1) for c in "abc"]
    P = softmax(-model.inverse_temperature_ * np.stack(of_class, axis=1), axis=1)
    np.testing.assert_allclose(model.predict_proba(X), P, rtol=1e-6, atol=1e-9)
    assert np.all(P[np.arange(40), np.searchsorted(list("abc"), model.predict(X))] == P.max(axis=1))
    scores = model.decision_function(X)
    np.testing.assert_allclose(softmax(scores, axis=1), P, rtol=1e-6, atol=1e-9)


@each_rule
def test_a_callable_metric(rng, rule):
    X, y = data_for("chi2", rng)
    options = {} if rule is FastCondensedNN else {"random_state": 3}

    def scaled(X, Y, *, n_jobs, scale):
        return scale * chi2_distances(X, Y, n_jobs=n_jobs)

    model = rule(metric=scaled, metric_params={"scale": 2.0}, **options).fit(X, y)
    if rule is not FastCondensedNN:  # whose centroid is that of vectors
        expected = rule(metric="chi2", **options).fit(X, y)
        np.testing.assert_array_equal(model.sample_indices_, expected.sample_indices_)
    assert model.score(X, y) > 0.5


def test_curves_of_errors(rng):
    (X, y), (X_test, y_test) = points(rng, 100), points(rng, 80)
    data = X, y, X_test, y_test
    curve = compression_curve(
        RandomSubset(metric="euclidean"), *data, ratios=[0.2, 0.05], random_states=[3, 4]
    )
    np.testing.assert_allclose(curve.ratios, [0.05, 0.2])
    assert curve.errors.shape == (2, 2)
    for i, ratio in enumerate((0.05, 0.2)):
        for j, seed in enumerate((3, 4)):
            model = RandomSubset(ratio, metric="euclidean", random_state=seed).fit(X, y)
            assert np.isclose(curve.errors[i, j], 1 - model.score(X_test, y_test))
    model = FastCondensedNN(metric="euclidean").fit(X, y)
    size = len(model.prototype_labels_)
    curve = compression_curve(FastCondensedNN(metric="euclidean"), *data, ratios=[0.06, 0.9])
    np.testing.assert_allclose(curve.ratios, [0.06, size / 100, size / 100])
    assert np.isclose(curve.errors[2, 0], 1 - model.score(X_test, y_test))
    first = MetricKNNClassifier(metric="euclidean")
    first.fit(model.prototypes_[:6], model.prototype_labels_[:6])
    assert np.isclose(curve.errors[0, 0], 1 - first.score(X_test, y_test))
    assert curve.errors.shape == (3, 1)
    least = compression_curve(FastCondensedNN(metric="euclidean"), *data, ratios=[1e-3])
    np.testing.assert_allclose(least.ratios, [0.01, size / 100])


@each_rule
def test_a_single_class_and_a_single_sample(rng, rule):
    X, _ = data_for("chi2", rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = rule(metric="chi2").fit(X, np.zeros(40))
        assert model.score(X, np.zeros(40)) == 1.0
        assert rule(metric="chi2").fit(X[:1], ["a"]).predict(X).tolist() == ["a"] * 40


@each_rule
def test_bad_input_leaves_the_model_as_it_was(rng, rule):
    X, y = data_for("jbld", rng)
    model = rule(metric="jbld").fit(X, y)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="X has 16 features, but"):
        model.predict(np.eye(4)[None])
    with pytest.raises(ValueError, match="not a square number"):
        model.fit(np.ones((40, 7)), y)
    with pytest.raises(ValueError, match="n_neighbors = 41 is more than the"):
        model.kneighbors(X, 41)
    H, labels = data_for("chi2", rng)
    uneven = H.copy()
    uneven[5] *= 2
    sinkhorn = clone(model).set_params(metric="sinkhorn", metric_params=PARAMS["sinkhorn"])
    with pytest.raises(ValueError, match=r"X\[5\] sums to 2"):
        sinkhorn.fit(uneven, labels)
    if "compression" in model.get_params():
        few = np.r_[0, y[1:] % 2 + 1]
        with pytest.raises(ValueError, match=r"compression = 2 .* class 0 has 1 of 40"):
            clone(model).set_params(compression=2).fit(X, few)
    assert pickle.dumps(model) == before


def test_probabilities_of_prototypes_are_those_of_what_was_left_out(rng):
    """The inverse temperature makes labels of others likely; where there are none it is 1."""
    X, y = data_for("euclidean", rng, 400)
    y = rng.permutation(y)  # no class can be told: certainty would be punished
    model = RandomSubset(0.2, metric="euclidean", random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:9]), 1 / 3, atol=0.1)
    everything = RandomSubset(1.0, metric="euclidean", random_state=0).fit(X, y)
    assert everything.inverse_temperature_ == 1.0
    two = RandomSubset(0.2, metric="euclidean", random_state=0).fit(X, y == 1)
    odds = two.decision_function(X)
    assert odds.shape == (400,)
    P = two.predict_proba(X)
    np.testing.assert_allclose(odds, np.log(P[:, 1] / P[:, 0]), atol=1e-9)
    np.testing.assert_array_equal(odds > 0, two.predict(X))


# ---- weights and votes --------------------------------------------------------------------------

RULES_THAT_CHOOSE = [
    CondensedNN(metric="euclidean", random_state=0),
    FastCondensedNN(metric="euclidean"),
    ReducedNN(metric="euclidean", random_state=0),
    RandomSubset(0.3, metric="euclidean", random_state=0),
    RandomMutationNN(0.3, metric="euclidean", max_iter=50, random_state=0),
]
each_rule = pytest.mark.parametrize(
    "model", RULES_THAT_CHOOSE, ids=lambda model: type(model).__name__
)


@each_rule
@pytest.mark.parametrize("k", [2, 5])
def test_the_nearest_prototypes_vote(rng, model, k):
    X, y, queries = rng.random((90, 3)), rng.integers(0, 3, 90), rng.random((40, 3))
    labels = np.array(["b", "a", "c"])[y]
    voted = clone(model).set_params(n_neighbors=k).fit(X, labels)
    reference = KNeighborsClassifier(k).fit(voted.prototypes_, voted.prototype_labels_)
    shares = reference.predict_proba(queries)
    P = voted.predict_proba(queries)
    np.testing.assert_array_equal(voted.classes_[P.argmax(axis=1)], voted.predict(queries))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    # The vote beside those of neighbours is shared out by the nearest prototype of each class.
    rest = (k + 1) * P - k * shares
    assert rest.min() > -1e-9
    nearest = voted.kneighbors(queries, 1)[1][:, 0]
    own = voted.prototype_labels_[nearest]
    np.testing.assert_array_equal(voted.classes_[rest.argmax(axis=1)], own)
    best = shares.max(axis=1, keepdims=True)
    alone = np.sum(shares == best, axis=1) == 1
    np.testing.assert_array_equal(
        voted.predict(queries)[alone], reference.classes_[shares.argmax(axis=1)][alone]
    )
    with pytest.raises(ValueError, match="is more than the"):
        clone(model).set_params(n_neighbors=91).fit(X, labels)


def test_the_hill_climb_and_the_reduction_count_weights(rng):
    X, y = rng.random((80, 2)), rng.integers(0, 2, 80)
    w = np.where(X[:, 0] < 0.5, 100.0, 1.0)
    heavy = w > 1
    for model in RULES_THAT_CHOOSE[2], RULES_THAT_CHOOSE[4]:
        right = [
            np.mean(clone(model).fit(X, y, sample_weight=weight).predict(X)[heavy] == y[heavy])
            for weight in (w, None)
        ]
        assert right[0] >= right[1]
    D = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 1.0]])
    labels, own = np.array([0, 1, 1]), np.array([0, 1])
    # Without the first column one more is right and one less.
    for weights, expected in ((None, [False, True]), (np.array([2.0, 1, 1]), [True, True])):
        found = _histrs.needed_prototypes(D, labels, own, weights, 1)
        np.testing.assert_array_equal(found, expected)


def test_weights_of_classes_multiply_those_of_samples(rng):
    X, y, w = rng.random((80, 2)), rng.integers(0, 2, 80), rng.random(80) + 0.5
    model = RULES_THAT_CHOOSE[4]
    plain = clone(model).fit(X, y)
    for weight, product in ((None, np.where(y == 0, 5.0, 1.0)), (w, np.where(y == 0, 5.0 * w, w))):
        found = clone(model).set_params(class_weight={0: 5.0}).fit(X, y, sample_weight=weight)
        expected = clone(model).fit(X, y, sample_weight=product)
        np.testing.assert_array_equal(found.sample_indices_, expected.sample_indices_)
        assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_)
        assert found.sample_indices_.tolist() != plain.sample_indices_.tolist()
    clone(model).set_params(class_weight={0: 0.0}).fit(X, y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "close"), [(60, 1e-9), (1200, 0.2)])
def test_probabilities_are_those_of_samples_that_are_no_prototypes(rng, n, close, weighted):
    X, y = points(rng, n)
    w = rng.integers(1, 9, n).astype(float) if weighted else np.ones(n)
    model = RandomSubset(0.1, metric="euclidean", random_state=0)
    model.fit(X, y, sample_weight=w if weighted else None)
    others = np.setdiff1d(np.arange(n), model.sample_indices_)
    D = cdist(X[others], model.prototypes_)
    of_class = [D[:, model.prototype_labels_ == c].min(axis=1) for c in model.classes_]
    distances = np.stack(of_class, axis=1)
    # Of many some are enough for one number.
    expected = likely_inverse_temperature(distances, y[others], w[others])
    assert model.inverse_temperature_ == pytest.approx(expected, rel=close)
    even = likely_inverse_temperature(distances, y[others], np.ones(len(others)))
    assert abs(expected - 1.0) > 0.2
    assert n > 60 or not weighted or abs(expected / even - 1.0) > 0.01


def test_a_class_without_a_prototype_is_impossible():
    # Of two classes at one place, the prototype of one is not needed.
    X = [[0.0], [0.0], [5.0]]
    model = ReducedNN(metric="euclidean", random_state=0).fit(X, ["a", "b", "c"])
    assert len(model.prototypes_) == 2
    P = model.predict_proba([[0.0], [4.0]])
    lost = np.isin(model.classes_, model.prototype_labels_, invert=True)
    np.testing.assert_array_equal(P[:, lost], 0.0)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
