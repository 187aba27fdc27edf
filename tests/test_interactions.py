"""Pairs of features in additive Gaussian processes."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import log_loss

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._bound.pairs import knots_of
from histrs.gaussian_process._learning import pairs as choice
from histrs.gaussian_process._learning.pairs import strongest_pairs
from histrs.gaussian_process.kernels import Interactions, Intersection
from tests.helpers import assert_slope, build
from tests.oracles import interactions as oracle
from tests.oracles import intersection

KEPT = {
    "optimizer": None,
    "feature_weights": None,
    "intercept_variance": 0.0,
    "noise": 0.1,
    "amplitude": 0.7,
}
SOLVERS = [{"solver": "cholesky"}, {"solver": "cg", "tol": 1e-10, "variance": "exact"}]


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    # A column of few values, one of a huge unit, and one that does not vary.
    X = np.column_stack(
        [rng.random(80), rng.integers(0, 3, 80), 1e4 * rng.exponential(size=80), np.full(80, 2.0)]
    )
    X = np.hstack([X, rng.random((80, 1))])
    X[::7, 0] = 0.0
    y = np.sin(6 * X[:, 0]) * X[:, 1] + X[:, 4] + 0.1 * rng.standard_normal(80)
    X_star = X[:13] * rng.uniform(0.5, 1.5, (13, 5))
    return X, y, X_star


def kernels(model, X, Z, training):
    """The additive kernel and that of the pairs, by definition, without amplitude."""
    weights = model.feature_weights_
    K = intersection.intersection_kernel(X * weights, Z * weights)
    features = np.unique(model.interactions_).tolist()
    pairs = [
        oracle.pair_kernel(
            X, Z, training, pair, [model.interaction_knots_[features.index(d)] for d in pair]
        )
        for pair in model.interactions_
    ]
    return K, [model.interaction_weight_ * part for part in pairs]


def dense(model, X, y, X_star):
    """Posterior mean and covariance of rows, and of each pair's part, by the kernel matrix."""
    amplitude, noise = model.amplitude_, model.noise_

    def covariance(A, B, pair=None):
        additive, pairs = kernels(model, A, B, X)
        return amplitude * (sum(pairs, additive) if pair is None else pairs[pair])

    unit, centre = y.std(), y.mean()
    solved = np.linalg.inv(covariance(X, X) + noise * np.eye(len(X)))
    found = []
    for pair in (None, *range(len(model.interactions_))):
        k = covariance(X, X_star, pair)
        mean = unit * k.T @ solved @ ((y - centre) / unit)
        left = covariance(X_star, X_star, pair) - k.T @ solved @ k
        found.append((mean + (centre if pair is None else 0.0), unit**2 * left))
    return found


@pytest.mark.parametrize("options", SOLVERS)
def test_the_posterior_is_that_of_the_dense_kernel(data, options):
    X, y, X_star = data
    model = build(
        IntersectionGPRegressor,
        interactions=[(1, 0), (4, 2), (0, 3)],
        n_interaction_knots=6,
        **KEPT,
        **options,
    ).fit(X / X.max(axis=0), y)
    X, X_star = X / X.max(axis=0), X_star / X.max(axis=0)
    assert model.interactions_.tolist() == [[0, 1], [2, 4], [0, 3]]
    (mean, covariance), *pairs = dense(model, X, y, X_star)
    found, std = model.predict(X_star, return_std=True)
    np.testing.assert_allclose(found, mean, rtol=1e-6)
    noise = model.noise_ * y.var()
    np.testing.assert_allclose(std**2, np.diag(covariance) + noise, rtol=1e-6)
    _, both = model.predict(X_star, return_cov=True)
    np.testing.assert_allclose(both - noise * np.eye(13), covariance, atol=1e-4 * y.var())
    lower, upper = model.std_bounds(X_star, rtol=1e-3)
    assert np.all((lower <= std * (1 + 1e-6)) & (std <= upper * (1 + 1e-6)))
    explained = model.explain(X_star)
    assert explained.names.tolist()[5:] == ["x0 & x1", "x2 & x4", "x0 & x3"]
    np.testing.assert_allclose(explained.values.sum(axis=1) + explained.offset, found)
    for k, (of_pair, left) in enumerate(pairs):
        np.testing.assert_allclose(explained.values[:, 5 + k], of_pair, atol=1e-7)
        variance = np.maximum(np.diag(left), 0.0)
        np.testing.assert_allclose(explained.std[:, 5 + k] ** 2, variance, atol=1e-7)


@pytest.mark.parametrize("options", SOLVERS)
def test_functions_are_the_terms_of_the_mean(data, options):
    X, y, _ = data
    model = build(IntersectionGPRegressor, n_interactions=2, **options).fit(
        X, np.column_stack([y, -y])
    )
    functions = model.pair_functions(return_std=True)
    assert [f.features for f in functions] == [tuple(pair) for pair in model.interactions_]
    for function in functions:
        (i, j), (s, t) = function.features, function.knots
        rows = np.tile(X[:1], (len(s) * len(t), 1))
        rows[:, i], rows[:, j] = np.repeat(s, len(t)), np.tile(t, len(s))
        explained = model.explain(rows)
        term = 5 + [tuple(pair) for pair in model.interactions_].index((i, j))
        flat = function.values.reshape(-1, 2)
        np.testing.assert_allclose(explained.values[:, term], flat, atol=1e-6)
        np.testing.assert_allclose(
            explained.std[:, term], function.std.reshape(-1, 2), rtol=1e-4, atol=1e-6
        )
    shapes = model.shape_functions([0], return_std=True)
    explained = model.explain(np.outer(shapes[0].knots, np.eye(5)[0]))
    np.testing.assert_allclose(explained.values[:, 0], shapes[0].values, atol=1e-9)
    np.testing.assert_allclose(explained.std[:, 0], shapes[0].std, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "options", [*SOLVERS, {**SOLVERS[1], "preconditioner": "pivoted-cholesky"}]
)
def test_weights_of_rows_are_shares_of_the_noise(data, options):
    X, y, X_star = data
    X, X_star = X / X.max(axis=0), X_star / X.max(axis=0)
    weight = np.random.default_rng(0).uniform(0.2, 3.0, len(X))
    weight[5] = 0.0
    model = build(IntersectionGPRegressor, interactions=[(0, 1), (2, 4)], **KEPT, **options)
    found = clone(model).fit(X[:60], y[:60], sample_weight=weight[:60])
    found.partial_fit(X[60:], y[60:], sample_weight=weight[60:])
    mean, std = found.predict(X_star, return_std=True)
    kept = weight > 0
    X, y, weight = X[kept], y[kept], weight[kept]

    def covariance(A, B):
        additive, pairs = kernels(found, A, B, X[:59])
        return found.amplitude_ * sum(pairs, additive)

    noise = found.noise_ / found.sample_weight_fit_
    K = np.linalg.inv(covariance(X, X) + np.diag(noise))
    k = covariance(X, X_star)
    unit = found.y_std_[0]
    np.testing.assert_allclose(mean, found.y_mean_ + k.T @ K @ (y - found.y_mean_), rtol=1e-6)
    left = np.diag(covariance(X_star, X_star) - k.T @ K @ k)
    np.testing.assert_allclose(std**2, unit**2 * (left + found.noise_), rtol=1e-6)
    explained = found.explain(X_star)
    np.testing.assert_allclose(explained.values.sum(axis=1) + explained.offset, mean)
    # Learned, too, a row of weight 0 is not there.
    learned = build(IntersectionGPRegressor, n_interactions=2, **options)
    zero = np.append(weight, 0.0)
    one = clone(learned).fit(np.vstack([X, X[:1]]), np.append(y, 99.0), sample_weight=zero)
    other = clone(learned).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(one.interactions_, other.interactions_)
    np.testing.assert_allclose(one.predict(X_star), other.predict(X_star), rtol=1e-5)


def test_a_pair_holds_no_main_effect(data):
    X, y, _ = data
    model = build(IntersectionGPRegressor, interactions=[(0, 4)], **KEPT).fit(X / X.max(axis=0), y)
    (function,) = model.pair_functions()
    (s, _), column = function.knots, X[:, 0] / X[:, 0].max()
    # Whatever the second feature is, the mean over the training values of the first is 0.
    at = np.column_stack([np.interp(column, s, f) for f in function.values.T])
    scale = np.abs(function.values).max()
    assert scale > 1e-3
    np.testing.assert_allclose(at.mean(axis=0), 0.0, atol=1e-12 * scale)


def test_the_pair_that_interacts_is_found():
    rng = np.random.default_rng(0)
    X = rng.random((400, 6))
    y = np.sin(5 * X[:, 0]) + 4 * (X[:, 2] - 0.5) * (X[:, 5] - 0.5) + 0.1 * rng.normal(size=400)
    additive = IntersectionGPRegressor(random_state=0).fit(X[:300], y[:300])
    model = IntersectionGPRegressor(Intersection() + Interactions(1), random_state=0).fit(
        X[:300], y[:300]
    )
    assert model.interactions_.tolist() == [[2, 5]]
    assert model.score(X[300:], y[300:]) > additive.score(X[300:], y[300:]) + 0.05
    likelihoods = [m.log_marginal_likelihood() for m in (additive, model)]
    assert likelihoods[1] > likelihoods[0] + 10
    # What product of features there is.
    (function,) = model.pair_functions(return_std=True)
    truth = 4 * np.multiply.outer(function.knots[0] - 0.5, function.knots[1] - 0.5)
    assert np.mean(np.abs(function.values - truth) < 3 * function.std) > 0.9


@pytest.mark.parametrize("options", [{}, {"solver": "cg", "tol": 1e-8}])
def test_the_slope_of_the_likelihood(data, options):
    X, y, _ = data
    model = build(IntersectionGPRegressor, n_interactions=3, **options).fit(X, y)
    assert len(model.theta_) == 3
    assert_slope(model, model.theta_ + np.array([0.1, -0.2, 0.3]), 2e-2, 2e-2, step=1e-4)


def test_the_learned_weight_is_the_likeliest(data):
    """Of given pairs, by the likelihood of all rows: nothing was chosen by them."""
    X, y, _ = data
    y = y + 0.3 * np.random.default_rng(0).standard_normal(len(y))
    model = IntersectionGPRegressor(Intersection() + Interactions([(0, 1)]), random_state=0).fit(
        X, y
    )
    best = model.log_marginal_likelihood()
    for move in np.vstack([np.eye(3), -np.eye(3)]):
        assert model.log_marginal_likelihood(model.theta_ + 0.5 * move) < best


def test_pairs_of_noise_weigh_little():
    """The best of many pairs fits noise; rows that did not choose it are not taken in."""
    rng = np.random.default_rng(2)
    X = rng.random((150, 12))
    y = np.sin(5 * X[:, 0]) + 0.5 * rng.normal(size=150)
    found = IntersectionGPRegressor(Intersection() + Interactions(5), random_state=0).fit(X, y)
    given = IntersectionGPRegressor(
        Intersection() + Interactions(found.interactions_), random_state=0
    ).fit(X, y)
    assert found.interaction_weight_ < 0.3 * given.interaction_weight_


def test_classes_of_noise_are_no_more_certain_for_pairs():
    """Rows that calibrate them did not choose the pairs."""
    losses = []
    for seed in (2, 3):
        rng = np.random.default_rng(seed)
        X, y = rng.random((1620, 20)), rng.integers(0, 2, 1620)
        model = IntersectionGPClassifier(Intersection() + Interactions(5), random_state=0)
        losses.append(log_loss(y[120:], model.fit(X[:120], y[:120]).predict_proba(X[120:])))
    assert np.mean(losses) < np.log(2.0) + 0.03


@pytest.mark.parametrize("weights", [None, "scale", "ard", "relevance", [1.0, 2.0, 1e-4, 1.0, 3.0]])
def test_all_containers_and_weights_agree(data, weights):
    X, y, X_star = data
    model = IntersectionGPRegressor(
        Intersection(feature_weights=weights) + Interactions(2), random_state=0
    )
    if weights is None:
        X, X_star = X / X.max(axis=0), X_star / X.max(axis=0)
    X, X_star = (M.astype(np.float32).astype(np.float64) for M in (X, X_star))
    expected, std = clone(model).fit(X, y).predict(X_star, return_std=True)
    for kind in (sparse.csr_array, np.float32):
        found = clone(model).fit(kind(X), y)
        mean, spread = found.predict(kind(X_star), return_std=True)
        np.testing.assert_allclose(mean, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(spread, std, rtol=1e-3)


@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_classes_tables_and_copies(solver):
    X, y = load_iris(return_X_y=True)
    model = IntersectionGPClassifier(
        Intersection() + Interactions(2), solver=solver, random_state=0
    ).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.export_tables().predict_proba(X), proba, atol=1e-6)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), proba)
    assert model.pair_functions()[0].values.shape[2] == 3
    binned = clone(model).set_params(n_bins=64).fit(X[::2], y[::2])
    off = np.abs(binned.decision_function(X) - model.decision_function(X)).max(axis=0)
    assert np.all(off <= binned.quantization_error_bound_ + 1e-6)


def test_tables_have_the_grids_of_pairs(data):
    X, y, X_star = data
    model = IntersectionGPRegressor(Intersection() + Interactions(3), random_state=0).fit(X, y)
    tables = model.export_tables()
    assert [table.features for table in tables.pairs] == [tuple(p) for p in model.interactions_]
    np.testing.assert_allclose(tables.scores(X_star)[:, 0], model.predict(X_star))
    pytest.importorskip("onnx", reason="onnx is not installed")
    with pytest.raises(ValueError, match="the tables have 3"):
        tables.to_onnx()


def test_many_rows_are_solved_without_the_matrix():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 4))
    y = 4 * X[:, 0] * X[:, 3] + X[:, 1] + 0.1 * rng.normal(size=3000)
    model = IntersectionGPRegressor(
        Intersection() + Interactions(1), solver="cg", random_state=0
    ).fit(X[:2500], y[:2500])
    assert model.interactions_.tolist() == [[0, 3]]
    assert model.n_iter_[0] > 1
    mean, std = model.predict(X[2500:], return_std=True)
    error = y[2500:] - mean
    assert np.sqrt(np.mean(error**2)) < 0.15
    assert 0.9 < np.mean(np.abs(error) < 1.96 * std) < 0.99
    assert 0.0 < model.std_error_ < 0.1


def test_the_preconditioner_keeps_iterations_few():
    rng = np.random.default_rng(0)
    X = rng.random((1500, 4))
    y = 4 * X[:, 0] * X[:, 3] + X[:, 1] + 0.1 * rng.normal(size=1500)
    kept = {"optimizer": None, "noise": 1e-3, "solver": "cg", "interactions": [(0, 3), (1, 2)]}
    steps = [
        build(IntersectionGPRegressor, **kept, preconditioner=name).fit(X, y).n_iter_[0]
        for name in ("auto", "pivoted-cholesky", None)
    ]
    assert steps[0] < steps[2] / 4
    assert steps[1] < steps[2] / 2


def test_names_of_features():
    pd = pytest.importorskip("pandas")
    X, y = load_breast_cancer(return_X_y=True)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    model = IntersectionGPClassifier(
        Intersection() + Interactions([("c", "a")]), random_state=0
    ).fit(frame, y)
    assert model.interactions_.tolist() == [[0, 2]]
    assert model.explain(frame[:1]).names.tolist() == ["a", "b", "c", "a & c"]
    (function,) = model.pair_functions([("a", "c")])
    assert function.features == (0, 2)
    with pytest.raises(ValueError, match=r"\(0, 1\) is not among the pairs"):
        model.pair_functions([("a", "b")])
    with pytest.raises(ValueError, match=r"no feature 'z'; features are \['a', 'b', 'c'\]"):
        IntersectionGPClassifier(Intersection() + Interactions([("a", "z")])).fit(frame, y)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"interactions": [(0, 5)]}, r"pairs\[0\] = \(0, 5\): feature 5"),
        ({"interactions": [(0, -1)]}, r"feature -1 is not one of 0 to 4"),
        ({"interactions": [(0, 1), (1, 0)]}, r"pairs\[1\] = \(1, 0\) is given twice"),
        ({"interactions": [(2, 2)]}, "two features"),
        ({"interactions": [(0, 1, 2)]}, "pairs of features"),
        ({"interactions": [0, 1]}, "pairs of features"),
        ({"interactions": ["ab"]}, "pairs of features"),
        ({"interactions": [(0.0, 1.0)]}, "by its index"),
        ({"interactions": [("a", "b")]}, "no feature 'a'; columns have no names"),
        ({"n_interactions": -1}, "pairs = -1"),
        ({"n_interactions": 1, "n_interaction_knots": 1}, "n_knots"),
        (
            {"n_interactions": 1, "feature_transform": "power"},
            "can only choose pairs in Intersection",
        ),
        ({"n_interactions": 1, "log_det": "bound", "optimizer": "nelder-mead"}, "log_det"),
        ({"interactions": [(0, 1)], "log_det": "bound", "optimizer": "nelder-mead"}, "log_det"),
        ({"n_interactions": 1, "variance": "fine"}, "variance='fine'"),
        ({"n_interactions": 1, "variance": "coarse"}, "variance='coarse'"),
        ({"interactions": [(0, 1)], "variance": "coarse-quantized"}, "variance='coarse-quantized'"),
        ({"n_interactions": 1, "solver": "coordinate-descent"}, "coordinate-descent"),
    ],
)
def test_what_does_not_go_together_is_refused(data, options, said):
    X, y, _ = data
    model = build(IntersectionGPRegressor, **options)
    with pytest.raises(ValueError, match=said):
        model.fit(X, y)
    assert not hasattr(model, "dual_coef_")


def test_what_is_set_later_is_refused_too(data):
    X, y, _ = data
    model = IntersectionGPRegressor(Intersection() + Interactions(1), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="variance='fine'"):
        model.set_params(variance="fine").predict(X, return_std=True)
    model.set_params(variance="auto", solver="coordinate-descent")
    with pytest.raises(ValueError, match="coordinate-descent"):
        model.partial_fit(X[:2], y[:2])


def test_without_pairs_there_are_none(data):
    X, y, _ = data
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    assert model.interactions_.shape == (0, 2)
    assert model.pair_functions() == model.pair_functions([]) == []
    with pytest.raises(ValueError, match="no pairs"):
        model.pair_functions([(0, 1)])
    # Of columns that do not vary, nothing is found.
    still = IntersectionGPRegressor(Intersection() + Interactions(3), random_state=0).fit(
        X[:, [0, 3]], y
    )
    assert still.interactions_.shape == (0, 2)
    with pytest.raises(ValueError, match=r"Interactions\(pairs=3\) needs two features or more"):
        IntersectionGPRegressor(Intersection() + Interactions(3)).fit(X[:, :1], y)


@given(st.integers(2, 30), st.integers(2, 5), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_any_rows_have_a_positive_kernel(n, d, n_knots, seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.exponential(size=(n, d)), 1)
    model = IntersectionGPRegressor(
        Intersection() + Interactions(3, n_knots=n_knots), optimizer=None, random_state=0
    ).fit(X, rng.normal(size=n))
    X_star = np.vstack([X, rng.exponential(size=(5, d)) * 3])
    bound = model._state()["_posterior"].bound
    covariance = bound.gram(bound.rows_of(X_star))
    assert np.linalg.eigvalsh(covariance).min() > -1e-10 * max(np.abs(covariance).max(), 1.0)
    mean, std = model.predict(X_star, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0.0)


# ---- which pairs there are ---------------------------------------------------------------------


def slow_gains(X, residuals, n_knots):
    """What a histogram of each pair explains, by the matrices of the formula."""
    parts = []
    for column in X.T:
        knots = knots_of(column, n_knots)
        C = oracle.feature_kernel(knots, knots, column, knots)
        position = np.interp(column, knots, np.arange(len(knots)))
        # Of values in the middle, the lesser knot is the nearest.
        parts.append((C, np.ceil(position - 0.5).astype(int)))
    gains = {}
    for i, j in combinations(range(X.shape[1]), 2):
        (C_i, at_i), (C_j, at_j) = parts[i], parts[j]
        H = np.zeros((len(X), len(C_i) * len(C_j)))
        H[np.arange(len(X)), at_i * len(C_j) + at_j] = 1.0
        C = np.kron(C_i, C_j)
        trace = np.trace(H @ C @ H.T)
        T = H.T @ residuals
        gains[i, j] = np.trace(T.T @ C @ T) / trace if trace > 0.0 else 0.0
    return gains


def no_rng():
    raise AssertionError("no row needs to be drawn")


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_pairs_are_in_the_order_of_what_they_explain(rng, n_outputs):
    # Rows of distinct values, of few values, and of columns of other sizes.
    columns = [rng.random(50), rng.integers(0, 3, 50), rng.exponential(9.0, 50)]
    X = np.column_stack([*columns, np.full(50, 2.0), rng.random(50)])
    residuals = rng.normal(size=(50, n_outputs))
    gains = slow_gains(X, residuals, 7)
    # Of the feature that does not vary there are none.
    expected = sorted((pair for pair in gains if 3 not in pair), key=lambda pair: -gains[pair])
    found = dict(choice._gains(X, residuals, 7))
    assert set(found) == set(expected)
    for pair in expected:
        assert found[pair] == pytest.approx(gains[pair])
    for n_pairs in (1, 4, 99):
        pairs = strongest_pairs(X, residuals, np.ones(5), n_pairs, 7, no_rng)
        assert pairs.tolist() == [list(pair) for pair in expected[:n_pairs]]
