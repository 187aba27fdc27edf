"""Gaussian processes on learned projections."""

import pickle
import threading
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import skew
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_moons
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PowerTransformer

from histrs import _histrs
from histrs.gaussian_process import (
    IntersectionGPRegressor,
    SlicedGPClassifier,
    SlicedGPRegressor,
    Solver,
)
from histrs.gaussian_process._kernels.projected import Projected
from histrs.gaussian_process._sliced import (
    base,
    classification_learning,
    fitting,
    metrics,
    regression_learning,
)
from histrs.gaussian_process._sliced import learning as learning_of_metrics
from histrs.gaussian_process._sliced.classes import (
    Candidate,
    LearnedClasses,
    learn_class_metric,
)
from histrs.gaussian_process._sliced.columns import Columns, yeo_johnson
from histrs.gaussian_process._sliced.interactions import effect_directions, missing_effects
from histrs.gaussian_process._sliced.learning import learn_metric
from histrs.gaussian_process._sliced.likelihood import fit_of, leave_one_out_cost, likeliest
from histrs.gaussian_process._sliced.metrics import are_collinear, first_metric
from histrs.gaussian_process._sliced.projection import Projection
from histrs.gaussian_process._sliced.projections import (
    Group,
    Projections,
    kernel_matrix,
    outer_gradients,
)
from histrs.gaussian_process.kernels import Constant
from tests.helpers import assert_close, of_terms
from tests.oracles import sliced as oracle


def few(**parameters):
    """A regressor with so few projections that it is quick."""
    usual = {"n_projections": 96, "n_metric_steps": 1, "kernel": "sliced"}
    return SlicedGPRegressor(**{"random_state": 0, **usual, **parameters})


def few_smooth(**parameters):
    return few(**{"kernel": "splines", **parameters})


def few_classes(**parameters):
    return SlicedGPClassifier(**{"random_state": 0, "n_projections": 96, **parameters})


BOTH = pytest.mark.parametrize("make", [few, few_classes])
ALL_THREE = pytest.mark.parametrize("make", [few, few_smooth, few_classes])


@pytest.fixture(name="table")
def _table(rng):
    """Rows with an interaction of two columns, and some noise."""
    X = rng.normal(size=(160, 4))
    return X, X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=160)


def targets_for(make, y):
    return np.where(y > 0, "up", "down") if make is few_classes else y


def answers(model, X):
    """All that a model says of rows, as numbers."""
    if hasattr(model, "predict_proba"):
        return np.column_stack([model.predict_proba(X), model.predict(X, return_std=True)[1]])
    return np.column_stack(model.predict(X, return_std=True))


# ---- learning ------------------------------------------------------------------------------------


@pytest.fixture(name="learning")
def _learning(rng):
    """Two kernels, and targets whose noise they tell."""
    A = rng.normal(size=(60, 3))
    slices = Projections.of(A, np.linalg.qr(rng.normal(size=(3, 3)))[0], 1)
    columns = Projections.of(A, np.eye(3), 1)
    Y = np.column_stack([A[:, 0] * A[:, 1], A[:, 2]]) + 0.3 * rng.normal(size=(60, 2))
    return slices, columns, (Y - Y.mean(axis=0)) / Y.std(axis=0)


ALL = np.arange(60)
ALL80 = np.arange(80)


def test_kernel_of_projections_is_its_definition_at_one_size(learning):
    slices, _, _ = learning
    K = oracle.sliced_kernel(slices.T, weights=np.ones(3))
    assert slices.scale == pytest.approx(np.trace(K) / 60 - K.mean())
    assert_close(slices.K, K / slices.scale, 1e-13)


def test_likelihood_is_largest_where_dense_numpy_says_so(learning):
    slices, columns, Y = learning
    kernels = [slices.K, columns.K]
    found = likeliest(kernels, Y, np.full(2, 2.0))
    likelihood = oracle.log_likelihood(kernels, Y, found)
    # The optimiser stops where the objective is flat to its tolerance.
    step = 1e-5
    for g in range(2):
        sides = [found + sign * step * np.eye(2)[g] for sign in (1, -1)]
        slope = np.diff([oracle.log_likelihood(kernels, Y, theta) for theta in sides])[0]
        assert abs(slope / (2 * step)) < 2e-3
    for theta in np.array(np.meshgrid(range(-6, 13, 3), range(-6, 13, 3))).reshape(2, -1).T:
        assert oracle.log_likelihood(kernels, Y, theta) < likelihood + 1e-4


def test_gradient_of_the_likelihood_is_that_of_finite_differences(learning, monkeypatch):
    slices, columns, Y = learning
    kernels = [slices.K, columns.K]
    seen = []

    def watched(objective, start, **options):
        places = (start, np.array([-3.0, 5.0]), np.array([6.0, -1.0]))
        seen.extend((theta, objective(theta)) for theta in places)
        return original(objective, start, **options)

    from histrs.gaussian_process._sliced import likelihood as module

    original = module.optimize.minimize
    monkeypatch.setattr(module.optimize, "minimize", watched)
    likeliest(kernels, Y, np.full(2, 2.0))
    assert len(seen) == 3
    for theta, (value, gradient) in seen:
        assert -value / module._STEEPNESS == pytest.approx(
            oracle.log_likelihood(kernels, Y, theta), abs=1e-9
        )
        for g in range(2):
            sides = [theta + sign * 1e-5 * np.eye(2)[g] for sign in (1, -1)]
            up, down = (oracle.log_likelihood(kernels, Y, side) for side in sides)
            assert -gradient[g] / module._STEEPNESS == pytest.approx(
                (up - down) / 2e-5, rel=1e-5, abs=1e-8
            )


def test_left_out_rows_are_predicted_by_the_fit_of_the_others(learning):
    slices, columns, Y = learning
    theta = np.array([1.5, -0.5])
    R = np.exp(1.5) * slices.K + np.exp(-0.5) * columns.K + np.eye(60)
    noise = np.sum(Y * np.linalg.solve(R, Y), axis=0) / 60
    errors, variances = np.empty_like(Y), np.empty_like(Y)
    for i in range(60):
        others = np.arange(60) != i
        k = R[i, others]
        errors[i] = Y[i] - k @ np.linalg.solve(R[np.ix_(others, others)], Y[others])
        left = R[i, i] - k @ np.linalg.solve(R[np.ix_(others, others)], k)
        variances[i] = left * noise
    density = np.mean(0.5 * errors**2 / variances + 0.5 * np.log(variances))
    wanted = density + np.mean(0.5 * np.log(np.mean(errors**2, axis=0)))
    found = leave_one_out_cost([slices.K, columns.K], theta, Y)
    assert found == pytest.approx(wanted, rel=1e-9)


def test_weights_and_noise_are_those_of_the_kernel(learning):
    slices, columns, Y = learning
    theta = np.array([1.5, -0.5])
    fit = fit_of([Group.of(slices), Group.of(columns)], theta, Y, ALL, 1)
    R = np.exp(1.5) * slices.K + np.exp(-0.5) * columns.K + np.eye(60)
    alpha = np.linalg.solve(R, Y)
    assert_close(fit.alpha, alpha, 1e-9)
    assert_close(np.tril(fit.L) @ np.tril(fit.L).T, R, 1e-12)
    np.testing.assert_allclose(fit.noise, np.sum(Y * alpha, axis=0) / 60, rtol=1e-9)


def test_kernels_are_of_the_searched_rows_and_weights_of_all(rng):
    A, some = rng.normal(size=(60, 3)), ALL[::2]
    Y = rng.normal(size=(60, 1))
    first, second = (
        Projections.of(A, np.linalg.qr(rng.normal(size=(3, 3)))[0], 1, some) for _ in range(2)
    )
    columns = Projections.of(A, np.eye(3), 1, some)
    groups = [Group.of(first).with_set(second), Group.of(columns)]
    assert_close(
        first.K, oracle.sliced_kernel(first.T[::2], weights=np.ones(3)) / first.scale, 1e-12
    )
    assert_close(groups[0].K, 0.5 * (first.K + second.K), 1e-12)
    theta = np.array([1.0, 0.3])
    fit = fit_of(groups, theta, Y, some, 1)
    K = [oracle.sliced_kernel(s.T, weights=np.ones(3)) / s.scale for s in (first, second, columns)]
    R = np.exp(1.0) * (K[0] + K[1]) / 2 + np.exp(0.3) * K[2] + np.eye(60)
    assert_close(fit.alpha, np.linalg.solve(R, Y), 1e-9)


def test_slopes_are_those_of_finite_differences(rng, learning):
    slices, _, _ = learning
    alpha = rng.normal(size=(60, 2))
    slopes = slices.slopes(alpha)
    # To the right of a row, no other being within the step.
    step = 1e-9
    for p in range(3):
        t = slices.T[:, [p]]
        here, there = (np.minimum(t + shift, t.T) @ alpha / slices.scale for shift in (0.0, step))
        np.testing.assert_allclose(slopes[:, p], (there - here) / step, atol=1e-4)


def test_slopes_of_smooth_kernels_are_those_of_finite_differences(rng, learning):
    smooth = learning[0].smoothed(1)
    alpha, step = rng.normal(size=(60, 2)), 1e-4
    slopes = smooth.slopes(alpha)
    for p in range(3):
        t = smooth.T[:, [p]]
        values = [
            oracle.cubic_spline_kernel(np.maximum(t + shift, 0.0), t) @ alpha / smooth.scale
            for shift in (-step, step)
        ]
        inside = t[:, 0] > step
        difference = (values[1] - values[0]) / (2 * step)
        np.testing.assert_allclose(slopes[inside, p], difference[inside], atol=1e-7)
        np.testing.assert_allclose(slopes[~inside, p], 0.0, atol=1e-7)


@given(
    st.integers(0, 9),
    st.integers(1, 7),
    st.sampled_from([1e-3, 1.0, 1e4]),
    st.integers(0, 2**32 - 1),
)
def test_a_kernel_of_minima_and_splines_is_its_definition(n, d, scale, seed):
    rng = np.random.default_rng(seed)
    # With ties and zeros.
    T, S = (np.maximum(np.round(scale * rng.normal(size=(k, d)), 3), 0.0) for k in (n, 5))
    weights, smooth = rng.uniform(0.1, 3.0, size=d), rng.random(d) < 0.5
    kinds = (
        (oracle.sliced_kernel, ~smooth),
        (oracle.cubic_spline_kernel, smooth),
    )
    for others in (None, S):
        wanted = sum(
            kernel(T[:, of] if others is None else S[:, of], T[:, of], weights=weights[of])
            for kernel, of in kinds
        )
        found = kernel_matrix(T, weights, smooth, 1, others)
        np.testing.assert_allclose(found, wanted, rtol=1e-11)
    own = Projected(weights, smooth).diagonal(T, 1)
    np.testing.assert_allclose(own, np.diag(kernel_matrix(T, weights, smooth, 1)), rtol=1e-11)


def test_a_metric_is_learned_from_gradients(rng):
    A = rng.normal(size=(200, 4))
    y = A[:, :1] * A[:, 1:2]
    learned = learn_metric(
        A,
        (y - y.mean()) / y.std(),
        metrics=[np.eye(4)],
        n_directions=40,
        n_steps=2,
        n_interactions=0,
        smoothness="linear",
        n_searched=200,
        random=np.random.RandomState(0),
        n_threads=1,
    )
    assert len(learned.slices.sets) == 3
    assert len(learned.sets) == 4
    assert np.trace(learned.G) == pytest.approx(4.0)
    np.testing.assert_allclose(learned.G, learned.G.T, atol=1e-12)
    assert np.linalg.eigvalsh(learned.G).min() > -1e-12
    assert np.diag(learned.G)[:2].sum() > 3.0
    # Weights make of all projections the kernel that was fitted.
    T = np.hstack([part.T for part in learned.sets])
    weights, smooth = learned.weights_and_kinds()
    assert not smooth.any()
    K = oracle.sliced_kernel(T, weights=weights)
    slices = sum(part.K for part in learned.slices.sets) / 3
    sizes = np.exp(learned.theta)
    assert_close(K, sizes[0] * slices + sizes[1] * learned.columns.K, 1e-12)
    np.testing.assert_allclose(
        K @ learned.fit.alpha + learned.fit.alpha, (y - y.mean()) / y.std(), atol=1e-7
    )


@pytest.fixture(name="spectra")
def _spectra(rng):
    """Broad bands that say nothing, and a small narrow one that says all; columns are collinear."""
    at = np.linspace(0.0, 1.0, 60)
    bands = [3.0 * np.exp(-((at - 0.2) ** 2) / 0.1), 2.0 * np.exp(-((at - 0.8) ** 2) / 0.1)]
    small = rng.random((300, 1))
    X = rng.normal(size=(300, 2)) @ bands + 0.01 * rng.normal(size=(300, 60))
    X += 0.15 * small * np.exp(-((at - 0.5) ** 2) / 0.003)
    return X, np.sin(3.0 * small[:, 0]) + 0.05 * rng.normal(size=300)


def test_spectra_are_told_by_components_of_little_variance(spectra):
    X, y = spectra
    standard = Columns(X).apply(X)
    assert are_collinear(standard)
    # Each column by itself, and few columns, are not.
    assert not are_collinear(np.random.default_rng(0).normal(size=(300, 60)))
    assert not are_collinear(standard[:, :3])
    assert not are_collinear(np.zeros((5, 8)))
    isotropic = SlicedGPRegressor(metric="identity", random_state=0).fit(X[:200], y[:200])
    assert isotropic.score(X[200:], y[200:]) < 0.2
    model = SlicedGPRegressor(random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.75
    labels = y > np.median(y)
    told = SlicedGPClassifier(random_state=0).fit(X[:200], labels[:200])
    assert log_loss(labels[200:], told.predict_proba(X[200:])) < 0.5


def test_of_two_metrics_the_one_that_predicts_better_is_learned_from(spectra):
    X, y = spectra
    A = Columns(X).apply(X)
    metrics = [first_metric(name, A, np.ones(60)) for name in ("identity", "whitened")]

    def learned(metrics):
        return learn_metric(
            A,
            (y - y.mean())[:, None] / y.std(),
            metrics=metrics,
            n_directions=40,
            n_steps=1,
            n_interactions=0,
            smoothness="linear",
            n_searched=300,
            random=np.random.RandomState(0),
            n_threads=1,
        )

    def loss(found):
        kernels = [group.K for group in found.groups]
        return leave_one_out_cost(kernels, found.theta, (y - y.mean())[:, None] / y.std())

    assert loss(learned(metrics)) <= loss(learned(metrics[:1])) - 0.1
    assert loss(learned(metrics[::-1])) == pytest.approx(loss(learned(metrics[1:])))


@pytest.mark.parametrize("smoothness", ["linear", "cubic", "both"])
@pytest.mark.parametrize("n_searched", [90, 120])
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_search_few_rows_and_the_last_fit_all(
    smoothness, n_searched, weighted, rng, monkeypatch
):
    monkeypatch.setattr(learning_of_metrics, "_ROWS_OF_STEPS", 50)
    A = rng.normal(size=(120, 3))
    Y = A[:, :1] * A[:, 1:2] + 0.2 * rng.normal(size=(120, 1))
    row_scale = rng.uniform(0.5, 1.5, size=120) if weighted else None
    learned = learn_metric(
        A,
        Y,
        metrics=[np.eye(3)],
        n_directions=20,
        n_steps=1,
        n_interactions=1,
        smoothness=smoothness,
        n_searched=n_searched,
        random=np.random.RandomState(0),
        n_threads=1,
        row_scale=row_scale,
    )
    assert all(len(group.K) == n_searched for group in learned.groups)
    # The likelihood is the largest of its neighbours', of the rows that are searched.
    scales = np.ones(120) if row_scale is None else row_scale
    some = slice(None) if n_searched == 120 else np.sort(_drawn(120, n_searched))
    for group in learned.groups:
        K = sum(
            (oracle.cubic_spline_kernel if part.smooth else oracle.sliced_kernel)(
                part.T[some], weights=np.ones(part.T.shape[1])
            )
            / part.scale
            for part in group.sets
        ) / len(group.sets)
        assert_close(group.K, scales[some][:, None] * K * scales[some], 1e-11)

    def likelihood(theta):
        R = np.eye(n_searched) + sum(
            np.exp(t) * group.K for t, group in zip(theta, learned.groups, strict=True)
        )
        scaled = (scales[:, None] * Y)[some]
        noise = scaled[:, 0] @ np.linalg.solve(R, scaled[:, 0]) / n_searched
        return -0.5 * (n_searched * np.log(noise) + np.linalg.slogdet(R)[1])

    best = likelihood(learned.theta)
    for k in range(len(learned.theta)):
        for step in (-0.5, 0.5):
            moved = learned.theta + step * np.eye(len(learned.theta))[k]
            if -9.0 < moved[k] < 16.0:
                assert likelihood(moved) < best + 0.05
    assert learned.fit.theta is learned.theta


def test_rows_of_steps_are_drawn_whatever_the_order(rng, monkeypatch):
    monkeypatch.setattr(learning_of_metrics, "_ROWS_OF_STEPS", 50)
    searched = []
    likeliest_kind = learning_of_metrics._likeliest_kind

    def spied(recipes, smoothness):
        searched.extend(recipe.some for recipe in recipes)
        return likeliest_kind(recipes, smoothness)

    monkeypatch.setattr(learning_of_metrics, "_likeliest_kind", spied)
    # Pairs of rows, as measured before and after: every second row knows one kind alone.
    A = np.column_stack([np.arange(100) % 2, rng.normal(size=100)])
    learn_metric(
        A,
        A[:, :1] * A[:, 1:],
        metrics=[np.eye(2)],
        n_directions=5,
        n_steps=0,
        n_interactions=0,
        smoothness="linear",
        n_searched=100,
        random=np.random.RandomState(0),
        n_threads=1,
    )
    (rows,) = searched
    assert len(np.unique(rows)) == 50
    assert 15 < A[rows, 0].sum() < 35


def _drawn(n, few):
    """Return the rows whose likelihood is searched: the first thing that is drawn."""
    return np.random.RandomState(0).choice(n, few, replace=False)


def test_the_likelihoods_slope_by_a_pair_decides(rng):
    A = rng.normal(size=(80, 4))
    y = A[:, :1] * A[:, 1:2] + 0.1 * rng.normal(size=(80, 1))
    y = (y - y.mean()) / y.std()
    columns = Group.of(Projections.of(A, np.eye(4), 1))
    fit = fit_of([columns], np.array([1.0]), y, ALL80, 1)
    R = np.exp(1.0) * columns.K + np.eye(80)
    draws = rng.multivariate_normal(np.zeros(80), np.linalg.inv(R), size=3000).T
    alpha = fit.alpha / np.sqrt(fit.noise)

    def evidence(pair):
        """Both terms of the slope, of dense kernels and an exact trace."""
        W = np.zeros((4, 2))
        W[pair[0]], W[pair[1]] = 1.0, (1.0, -1.0)
        T = A @ W
        K = oracle.sliced_kernel(T - T.min(axis=0), weights=np.ones(2))
        return (alpha.T @ K @ alpha).item() / np.trace(np.linalg.solve(R, K))

    def evidence_of_column(c):
        K = oracle.sliced_kernel(A[:, [c]] - A[:, c].min(), weights=np.ones(1))
        return (alpha.T @ K @ alpha).item() / np.trace(np.linalg.solve(R, K))

    ratios = {pair: evidence(pair) for pair in combinations(range(4), 2)}
    single = [evidence_of_column(c) for c in range(4)]
    ends = {pair: max(3.0, single[pair[0]], single[pair[1]]) for pair in ratios}
    wanted = [
        pair for pair in sorted(ratios, key=lambda p: -ratios[p]) if ratios[pair] > ends[pair]
    ]
    assert wanted[0] == (0, 1)
    # Some ratios may be so near the threshold that draws decide.
    assert all(abs(ratios[pair] - ends[pair]) > 0.3 for pair in ratios)
    assert all(abs(ratio - 3.0) > 0.3 for ratio in single)
    columns_found, found = missing_effects(A, alpha, draws, np.ones(4), [], 1)
    assert found == wanted
    assert columns_found == [(c,) for c in np.argsort(single)[::-1] if single[c] > 3.0]
    assert (0, 1) not in missing_effects(A, alpha, draws, np.ones(4), [(0, 1)], 1)[1]
    assert missing_effects(A[:, :1], alpha, draws, np.ones(1), [(0,)], 1) == ([], [])
    assert missing_effects(0.0 * A, alpha, draws, np.ones(4), [], 1) == ([], [])


def test_directions_in_a_plane_are_of_length_one_and_even():
    np.testing.assert_array_equal(effect_directions(3, (1,)), [[0.0], [1.0], [0.0]])
    W = effect_directions(5, (1, 3))
    np.testing.assert_allclose(np.linalg.norm(W, axis=0), 1.0)
    assert not W[[0, 2, 4]].any()
    angles = np.arctan2(W[3], W[1])
    np.testing.assert_allclose(np.diff(angles), np.pi / 8)
    assert np.abs(W[[1, 3]]).min() > 0.1


def test_interactions_are_found_and_others_are_not(rng):
    X = rng.normal(size=(400, 8))
    y = np.sin(2.0 * X[:, 0] * X[:, 5]) + X[:, 2] * X[:, 3] + X[:, 6] + 0.1 * rng.normal(size=400)
    model = few(n_metric_steps=2).fit(X[:300], y[:300])
    pairs = [found[:2] for found in model.interactions_]
    assert set(pairs[:2]) == {(0, 5), (2, 3)}
    shares = [found[2] for found in model.interactions_]
    assert shares == sorted(shares, reverse=True)
    assert all(0.05 < share < 1.0 for share in shares[:2])
    without = few(n_metric_steps=2, n_interactions=0).fit(X[:300], y[:300])
    assert without.interactions_ == []
    errors = [1.0 - m.score(X[300:], y[300:]) for m in (model, without)]
    assert errors[0] < 0.6 * errors[1]


def test_an_effect_of_one_column_is_no_interaction(rng):
    X = rng.normal(size=(600, 12))
    y = np.sin(2.0 * X[:, 3] * X[:, 8]) + X[:, 5] + 0.1 * rng.normal(size=600)
    model = few(n_metric_steps=2).fit(X, y)
    assert model.interactions_[0][:2] == (3, 8)
    assert all(share < 0.02 for *_, share in model.interactions_[1:])


def test_interactions_of_categories_name_their_feature(rng):
    frame = pd.DataFrame({"kind": rng.choice(["a", "b"], size=300), "x": rng.normal(size=300)})
    for k in range(8):
        frame[f"idle {k}"] = rng.normal(size=300)
    y = np.where(frame["kind"] == "a", 1.0, -1.0) * frame["x"] + 0.1 * rng.normal(size=300)
    model = few().fit(frame, y)
    assert model.interactions_[0][:2] == (0, 1)


def test_categories_of_one_feature_do_not_interact(rng):
    frame = pd.DataFrame({"kind": rng.choice(list("abcdef"), size=300), "x": rng.normal(size=300)})
    y = frame["kind"].isin(["a", "c", "d"]) + 0.1 * rng.normal(size=300)
    model = few().fit(frame, y)
    assert all(first != second for first, second, _ in model.interactions_)


def test_a_metric_of_classes_needs_two_of_them(rng):
    A = rng.normal(size=(1200, 3))
    for labels in (np.zeros(1200, dtype=int), np.full(1200, 3)):
        learned = learn_class_metric(
            A,
            labels,
            metric=np.eye(3),
            others=[np.diag([2.0, 0.5, 0.5])],
            n_directions=6,
            n_steps=2,
            n_interactions=4,
            random=np.random.RandomState(0),
            n_threads=1,
        )
        np.testing.assert_array_equal(learned.G, np.eye(3))
        assert learned.interactions == {}


def test_metrics_are_those_of_their_definitions(rng):
    A = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5))
    A = (A - A.mean(axis=0)) / A.std(axis=0)
    spreads = np.array([10.0, 1.0, 1.0, 2.0, 1e-3])
    np.testing.assert_array_equal(first_metric("identity", A, spreads), np.eye(5))
    np.testing.assert_array_equal(first_metric("learned", A, spreads), np.eye(5))
    x, z = A[:20, None], A[None, 20:40]

    def distances(G):
        assert np.trace(G) == pytest.approx(5.0)
        return np.einsum("ijc,cd,ijd->ij", x - z, G, x - z)

    raw = A * spreads
    components = PCA(0.99, svd_solver="full").fit(raw)
    expected = cdist(components.transform(raw[:20]), components.transform(raw[20:40])) ** 2
    found = distances(first_metric("pca", A, spreads))
    assert_close(found / found.max(), expected / expected.max(), 1e-9)
    expected = cdist(A[:20], A[20:40], "mahalanobis", VI=np.linalg.inv(A.T @ A / 300)) ** 2
    found = distances(first_metric("whitened", A, spreads))
    assert_close(found / found.max(), expected / expected.max(), 1e-9)


@pytest.mark.parametrize("name", ["pca", "whitened"])
def test_metrics_of_columns_that_do_not_vary(name):
    A = np.zeros((10, 3))
    np.testing.assert_array_equal(first_metric(name, A, np.zeros(3)), np.eye(3))
    A[:5, 1] = 1.0
    G = first_metric(name, A, np.array([0.0, 0.5, 0.0]))
    assert np.trace(G) == pytest.approx(3.0)
    assert np.all(np.isfinite(G))


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_spreads_of_columns_are_in_one_unit(rng, unit):
    X = rng.normal(size=(50, 3)) * [1.0, 10.0, 0.0] * unit
    spreads = Columns(X).spreads
    expected = X[:, :2] / unit
    assert spreads[0] / spreads[1] == pytest.approx(expected[:, 0].std() / expected[:, 1].std())
    assert spreads[2] == 0.0
    np.testing.assert_array_equal(Columns(np.zeros((4, 2))).spreads, [0.0, 0.0])


@pytest.mark.parametrize("model_class", [SlicedGPClassifier, SlicedGPRegressor])
@pytest.mark.parametrize("metric", ["pca", "whitened"])
def test_given_metrics_are_kept(rng, model_class, metric):
    X = rng.normal(size=(80, 4)) * [1.0, 1.0, 5.0, 20.0]
    y = X[:, 3] > 0.0
    model = model_class(n_projections=32, metric=metric, random_state=0).fit(X, y)
    A = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(model.metric_, first_metric(metric, A, X.std(axis=0)), atol=1e-9)
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize(("metric", "n_made"), [("identity", 0), ("pca", 1), ("learned", 1)])
def test_components_are_found_once_where_they_are_asked_for(rng, monkeypatch, metric, n_made):
    found, made = metrics._of_components, []
    monkeypatch.setattr(metrics, "_of_components", lambda *a: made.append(1) or found(*a))
    X = rng.normal(size=(60, 3))
    few_classes(metric=metric).fit(X, X[:, 0] > 0.0)
    assert len(made) == n_made


@pytest.mark.parametrize("n", [600, 1500])
def test_images_are_left_in_their_unit(n):
    X, y = load_digits(return_X_y=True)
    model = SlicedGPClassifier(n_interactions=0, n_metric_steps=1, random_state=0).fit(X[:n], y[:n])
    P = model.predict_proba(X[n:])
    plain = (
        SlicedGPClassifier(metric="identity", random_state=0).fit(X[:n], y[:n]).predict_proba(X[n:])
    )
    assert log_loss(y[n:], P) < 0.9 * log_loss(y[n:], plain)
    # The corners are hardly ever dark.
    corners = [0, 7, 56, 63]
    assert model.feature_importances_[corners].sum() < 0.01


def test_measurements_of_different_units_are_standardised():
    X, y = load_wine(return_X_y=True)
    model = SlicedGPClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.metric_, np.eye(13))


def test_kernel_of_classes_is_that_of_its_projections(rng):
    A, others = rng.normal(size=(40, 4)), rng.normal(size=(7, 4))
    candidate = Candidate(np.diag([2.0, 1.0, 0.5, 0.5]), [(0, 2), (1, 3)])
    columns = Projections.of(A, np.eye(4), 1)
    learned = LearnedClasses.of(A, candidate, columns, rng.normal(size=(4, 12)), 1)
    T = np.hstack([s.T for s in learned.sets])
    low, W = (np.hstack([getattr(s, name) for s in learned.sets]) for name in ("low", "W"))
    assert_close(learned.kernel(), oracle.sliced_kernel(T, weights=learned.weights), 1e-12)
    cross = oracle.sliced_kernel(oracle.projections(others, W, low), T, weights=learned.weights)
    assert_close(learned.cross_kernel(others, 1), cross, 1e-12)
    # Slices and interactions have 0.7 of the kernel, half each; columns have the rest.
    assert sum(learned.shares().values()) == pytest.approx(0.35)


def test_interactions_tell_classes_apart(rng):
    X = rng.normal(size=(1500, 12))
    y = X[:, 1] * X[:, 4] + np.sin(2.0 * X[:, 7] * X[:, 9]) > 0.3 * rng.normal(size=1500)
    model = few_classes().fit(X[:1200], y[:1200])
    assert {found[:2] for found in model.interactions_} >= {(1, 4), (7, 9)}
    without = few_classes(n_interactions=0).fit(X[:1200], y[:1200])
    assert without.interactions_ == []
    losses = [log_loss(y[1200:], m.predict_proba(X[1200:])) for m in (model, without)]
    assert losses[0] < 0.8 * losses[1]


# ---- regression ----------------------------------------------------------------------------------


def test_predictions_of_smooth_kernels_are_those_of_a_dense_process(table):
    X, y = table
    for kernel in ("splines", "auto"):
        model = few(kernel=kernel).fit(X[:120], y[:120])
        rows = (X - X[:120].mean(axis=0)) / X[:120].std(axis=0)
        T = oracle.projections(rows, model.directions_, model.offsets_)
        inner = model._inner
        weights, smooth = inner.kernel_.weights * inner.amplitude_, inner.kernel_.smooth
        K = oracle.cubic_spline_kernel(T[:, smooth], weights=weights[smooth])
        K += oracle.sliced_kernel(T[:, ~smooth], weights=weights[~smooth])
        unit = y[:120].std()
        gp = oracle.DenseGP(K[:120, :120] * unit**2, y[:120], model.noise_ * unit**2)
        mean, std = gp.predict(K[120:, :120] * unit**2, np.diag(K)[120:] * unit**2)
        found = model.predict(X[120:], return_std=True)
        np.testing.assert_allclose(found[0], mean, atol=1e-6 * unit)
        np.testing.assert_allclose(found[1], std, rtol=1e-6)
        assert model.std_error_ == 0.0
        np.testing.assert_array_equal(model.n_iter_, [1])


@pytest.mark.parametrize("kernel", ["sliced", "splines"])
def test_functions_without_noise_are_learned_from_many_rows(rng, kernel, monkeypatch):
    monkeypatch.setattr(regression_learning, "SEARCHED_ROWS", 100)
    X = rng.normal(size=(150, 3))
    for y in (np.sin(X[:, 0]) + X[:, 1], np.zeros(150)):
        with warnings.catch_warnings():
            # Of constant targets any noise is as good.
            warnings.simplefilter("error" if y.any() else "ignore")
            model = few(kernel=kernel, n_metric_steps=0).fit(X, y)
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_allclose(mean, y, atol=0.02)
        assert np.all(std > 0.0)


@pytest.mark.parametrize("kernel", ["sliced", "splines", "auto"])
def test_targets_of_one_value_say_nothing(rng, kernel):
    X = rng.normal(size=(200, 3))
    constant = few(kernel=kernel).fit(X[:100], np.full(100, 3.0))
    mean, std = constant.predict(X[:5], return_std=True)
    np.testing.assert_allclose(mean, 3.0)
    assert np.all((std > 0.0) & (std < 3e-13))
    constant.partial_fit(X[100:], X[100:, 0])
    assert np.all(np.isfinite(constant.predict(X[:5])))
    one = few(kernel=kernel).fit(X[:1], [2.0])
    assert 0.0 < one.predict(X[5:6], return_std=True)[1][0] < 2e-13
    # Beside others, they leave these as they are.
    y = np.sin(3.0 * X[:, 0]) + np.abs(X[:, 1])
    alone = few(kernel=kernel).fit(X, y)
    beside = few(kernel=kernel).fit(X, np.column_stack([y, np.zeros((200, 3))]))
    np.testing.assert_allclose(beside.predict(X)[:, 0], alone.predict(X), atol=1e-6)
    np.testing.assert_allclose(beside.predict(X)[:, 1:], 0.0, atol=1e-9)


@pytest.mark.parametrize("kernel", ["sliced", "splines"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_the_posterior_in_full(table, kernel, n_targets):
    X, y = table
    Y = y if n_targets == 1 else np.column_stack([y, X[:, 2]])
    model = few(kernel=kernel).fit(X[:120], Y[:120])
    mean, std = model.predict(X[120:], return_std=True)
    same, covariance = model.predict(X[120:], return_cov=True)
    np.testing.assert_allclose(same, mean)
    roots = np.sqrt(np.diagonal(covariance)).T
    np.testing.assert_allclose(roots, std, rtol=1e-6)
    same, quantiles = model.predict(X[120:], return_quantiles=[0.025, 0.5])
    np.testing.assert_allclose(quantiles[:, 1], mean)
    np.testing.assert_allclose(quantiles[:, 0], mean - 1.959964 * std, rtol=1e-5, atol=1e-6)
    samples = model.sample_y(X[120:130], 4000, random_state=0)
    assert samples.shape == (10, *mean.shape[1:], 4000)
    np.testing.assert_allclose(samples.mean(axis=-1), mean[:10], atol=0.1 * std.max())
    first = samples[:, 0] if n_targets > 1 else samples
    block = covariance[:10, :10] if n_targets == 1 else covariance[:10, :10, 0]
    np.testing.assert_allclose(np.cov(first), block, atol=0.1 * block.max())
    with pytest.raises(ValueError, match="one of return_std"):
        model.predict(X, return_std=True, return_cov=True)


def test_left_out_rows_tell_how_smooth_a_function_is(rng):
    X = rng.uniform(-1.0, 1.0, size=(300, 3))
    smooth = np.sin(3.0 * X[:, 0]) * np.exp(X[:, 1])
    rough = np.sign(X[:, 0] - 0.2) + np.sign(X[:, 1] + X[:, 2])
    errors = {}
    for name, y in (("smooth", smooth), ("rough", rough)):
        for kernel in ("sliced", "auto"):
            model = few(kernel=kernel).fit(X[:200], y[:200])
            errors[name, kernel] = np.sqrt(1.0 - model.score(X[200:], y[200:]))
            if name == "smooth" and kernel == "auto":
                assert model.kernel_ != "sliced"
    assert errors["smooth", "auto"] < 0.6 * errors["smooth", "sliced"]
    assert errors["rough", "auto"] < 1.03 * errors["rough", "sliced"]


def test_smooth_kernels_have_a_stored_matrix(table, monkeypatch):
    X, y = table
    for parameters in ({"n_bins": 16}, {"solver": "cg"}, {"variance": "cached"}):
        with pytest.raises(ValueError, match="kernel='sliced'"):
            few_smooth(**parameters).fit(X, y)
        assert few(kernel="auto", **parameters).fit(X, y).kernel_ == "sliced"
    model = few_smooth().fit(X, y)
    model.n_bins = 16
    with pytest.raises(ValueError, match='kernel="sliced"'):
        model.predict(X)
    for module in (fitting, regression_learning):
        monkeypatch.setattr(module, "EXACT_ROWS", 100)
    assert few(kernel="auto").fit(X, y).kernel_ == "sliced"
    many = few_smooth().fit(X, y)
    assert many._projection.levels is None
    np.testing.assert_allclose(many.predict(X), model.set_params(n_bins=None).predict(X))


def test_the_noise_of_many_rows_is_learned_from_all(rng, monkeypatch):
    X = rng.uniform(-1.0, 1.0, size=(400, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=400)
    monkeypatch.setattr(regression_learning, "SEARCHED_ROWS", 100)
    all_rows = few_smooth(n_metric_steps=0).fit(X, y)
    assert np.sqrt(all_rows.noise_) * y.std() == pytest.approx(0.1, rel=0.1)
    monkeypatch.setattr(regression_learning, "LEARNING_ROWS", 200)
    some = few_smooth(n_metric_steps=0).fit(X, y)
    assert some._inner.optimizer is None
    assert np.sqrt(some.noise_) * y.std() == pytest.approx(0.1, rel=0.2)


def test_predictions_are_those_of_a_dense_process_with_the_learned_kernel(table):
    X, y = table
    model = few(tol=1e-8).fit(X[:120], y[:120])
    inner = model._inner
    rows = (np.clip(X, -1e9, 1e9) - X[:120].mean(axis=0)) / X[:120].std(axis=0)
    T = oracle.projections(rows, model.directions_, model.offsets_)
    weights = model._projection.weights * inner.amplitude_
    K = oracle.sliced_kernel(T, weights=weights)
    unit = y[:120].std()
    gp = oracle.DenseGP(K[:120, :120] * unit**2, y[:120], model.noise_ * unit**2)
    mean, std = gp.predict(K[120:, :120] * unit**2, np.diag(K)[120:] * unit**2)
    found = model.predict(X[120:], return_std=True)
    np.testing.assert_allclose(found[0], mean, atol=1e-6 * unit)
    np.testing.assert_allclose(found[1], std, rtol=1e-6)


def test_an_interaction_is_found_where_an_additive_model_fails(table):
    X, y = table
    model = few(n_projections=200).fit(X[:120], y[:120])
    assert model.score(X[120:], y[120:]) > 0.6
    additive = make_pipeline(MinMaxScaler(clip=True), IntersectionGPRegressor(random_state=0))
    assert additive.fit(X[:120], y[:120]).score(X[120:], y[120:]) < 0.3
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert np.min(model.feature_importances_[:2]) > 3.0 * np.max(model.feature_importances_[2:])


def test_learning_the_metric_helps_where_columns_do_not_matter(rng):
    X = rng.normal(size=(300, 10))
    y = X[:, 0] * X[:, 1] + 0.05 * rng.normal(size=300)
    errors = {
        metric: 1.0
        - few(n_projections=300, metric=metric).fit(X[:200], y[:200]).score(X[200:], y[200:])
        for metric in ("learned", "identity")
    }
    assert errors["learned"] < 0.8 * errors["identity"]


def test_metric_identity_takes_no_steps(table):
    X, y = table
    identity = few(metric="identity", n_metric_steps=3).fit(X, y)
    none = few(n_metric_steps=0).fit(X, y)
    np.testing.assert_array_equal(identity.predict(X), none.predict(X))
    np.testing.assert_array_equal(identity.metric_, np.eye(4))
    assert identity.directions_.shape == (4, 96 + 4)


def test_standard_deviations_cover(rng):
    X = rng.uniform(-2.0, 2.0, size=(600, 2))
    y = np.sin(X[:, 0] * X[:, 1]) + 0.2 * rng.normal(size=600)
    mean, std = few().fit(X[:300], y[:300]).predict(X[300:], return_std=True)
    covered = np.mean(np.abs(y[300:] - mean) < 1.96 * std)
    assert 0.9 < covered < 0.99
    assert np.median(std) < 0.35


def test_standard_deviations_grow_away_from_the_rows(table):
    X, y = table
    model = few().fit(X, y)
    _, inside = model.predict(X, return_std=True)
    far = np.array([[6.0, 6, 6, 6], [-6, -6, -6, -6], [50, -50, 50, -50], [1e300, -1e300, 0, 0]])
    mean, outside = model.predict(far, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.min(outside) > 2.0 * np.median(inside)
    # Rows beyond six deviations count as those there.
    near, further = model.predict([[100.0, 0, 0, 0], [1e9, 0, 0, 0]])
    assert near == further


def test_targets_in_any_unit(table):
    X, y = table
    mean, std = few().fit(X, y).predict(X, return_std=True)
    for unit in (1e-200, 1e-3, 1e200):
        scaled = few().fit(X, unit * y).predict(X, return_std=True)
        np.testing.assert_allclose(scaled[0] / unit, mean, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(scaled[1] / unit, std, rtol=1e-6)


def test_columns_in_any_unit(table):
    X, y = table
    expected = few().fit(X, y).predict(X)
    for unit in (1e-300, 1e300):
        np.testing.assert_allclose(few().fit(unit * X, y).predict(unit * X), expected, atol=1e-6)


def test_targets_together(table):
    X, y = table
    Y = np.column_stack([y, -3.0 * y, X[:, 2]])
    model = few().fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == Y.shape
    assert model.noise_.shape == (3,)
    np.testing.assert_allclose(mean[:, 1], -3.0 * mean[:, 0], atol=1e-6)
    np.testing.assert_allclose(std[:, 1], 3.0 * std[:, 0], rtol=1e-6)
    assert model.score(X, Y) > 0.9


def test_latent_variance_is_without_the_noise(table):
    X, y = table
    model = few().fit(X, y)
    mean, std = model.predict(X[:5], return_std=True)
    latent, variance = model.latent_mean_and_variance(X[:5])
    np.testing.assert_array_equal(latent, mean)
    np.testing.assert_allclose(variance + model.noise_ * y.var(), std**2, rtol=1e-9)


def test_more_rows_are_as_a_fit_with_the_same_projections(table):
    X, y = table
    model = few(tol=1e-8).fit(X[:80], y[:80])
    whole = IntersectionGPRegressor(
        **of_terms(**{**model._inner.get_params(deep=False), "noise": model.noise_})
    )
    T = model._projection.apply(X, 1)
    model.partial_fit(X[80:100], y[80:100]).partial_fit(X[100:], y[100:])
    # In the unit of the first rows.
    unit = y[:80].std() / y.std()
    kernel = Constant(model.noise_ * unit**2) * model._inner._asked()[1]
    whole.set_params(noise=model.noise_ * unit**2, kernel=kernel).fit(T, y)
    for found, expected in zip(
        model.predict(X, return_std=True), whole.predict(T, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_first_call_of_partial_fit_is_fit(table):
    X, y = table
    np.testing.assert_array_equal(few().partial_fit(X, y).predict(X), few().fit(X, y).predict(X))


@ALL_THREE
def test_rows_that_came_and_went_leave_no_trace(make, table):
    X, y = table
    y = targets_for(make, y)
    model = make().fit(X[:120], y[:120])
    before = answers(model, X)
    model.partial_fit(X[120:], y[120:]).forget(np.arange(120, 160))
    np.testing.assert_allclose(answers(model, X), before, rtol=1e-6, atol=1e-8)
    # Those behind move up.
    removed = [0, 5, 119]
    rest = np.delete(np.arange(120), removed)
    kernel = Constant(model._inner.amplitude_) * model._inner._asked()[1]
    given = {"noise": model._inner.noise_, "kernel": kernel}
    inner = clone(model._inner).set_params(optimizer=None, **given)
    model.forget(removed).partial_fit(X[removed], y[removed])
    order = np.append(rest, removed)
    assert_close(model._inner.X_fit_, model._projection.apply(X[order], 1), 1e-12)
    again = model.forget([117, 118, 119]).predict(X)
    alone = inner.fit(model._projection.apply(X[rest], 1), y[rest])
    found = alone.predict(model._projection.apply(X, 1))
    if make is few_classes:
        np.testing.assert_array_equal(again, found)
    else:
        # The unit of the targets is that of the fit, and they are solved in it.
        np.testing.assert_allclose(again, found, atol=2e-2 * np.std(y))


@BOTH
def test_an_equal_row_takes_its_weight_with_it(make, table):
    X, y = table
    y = targets_for(make, y)
    weights = np.ones(len(X) + 20)
    weights[3] = 0.0
    given = np.vstack([X, X[:20]]), np.append(y, y[:20])
    model = make().fit(*given, sample_weight=weights)
    before = answers(model, X)
    unit, n_rows = model._inner._weight_unit, len(model._inner.Y_fit_)
    np.testing.assert_array_equal(answers(model.forget([3]), X), before)
    # Of row 0 another is left; 5 goes, and the other of its kind.
    model.forget([0, 4, 164])
    given = model._inner._given
    assert len(given.learned) == 176
    assert len(model._inner.Y_fit_) == n_rows - 1
    weights = (
        np.ones(n_rows - 1)
        if model._inner.sample_weight_fit_ is None
        else (model._inner.sample_weight_fit_ * unit)
    )
    np.testing.assert_allclose(weights, np.bincount(given.learned[given.learned >= 0]))
    assert not np.array_equal(answers(model, X), before)


@BOTH
def test_rows_that_are_not_there_are_not_forgotten(make, table):
    X, y = table
    model = make().fit(X, targets_for(make, y))
    before = answers(model, X)
    for indices, message in [
        ([160], "is not a training row: there are 160"),
        ([1, 1], "indices"),
        (np.ones(160, dtype=bool), "np.flatnonzero"),
        (range(160), "keep one at least"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.forget(indices)
        np.testing.assert_array_equal(answers(model, X), before)
    with pytest.raises(NotFittedError):
        make().forget([0])


def test_the_last_row_of_a_class_takes_it_away(table):
    X, y = table
    labels = np.where(y > 0, "up", "down").astype(object)
    labels[7] = "sideways"
    model = few_classes().fit(X, labels)
    assert model.forget([7]).classes_.tolist() == ["down", "up"]
    assert model.predict_proba(X).shape == (160, 2)


@pytest.mark.parametrize("make", [few, few_smooth])
def test_leave_one_out_is_what_the_others_say(make, table):
    X, y = table
    weights = np.ones(161)
    weights[4] = 0.0
    model = make().fit(np.vstack([X, X[9:10]]), np.append(y, y[9]), sample_weight=weights)
    mean, std = model.predict_leave_one_out()
    assert mean.shape == std.shape == (161,)
    assert np.flatnonzero(np.isnan(mean)).tolist() == np.flatnonzero(np.isnan(std)).tolist() == [4]
    assert mean[9] == mean[160]
    for row in ([0], [77], [9, 160]):
        others = pickle.loads(pickle.dumps(model)).forget(row)
        found, spread = others.predict(X[row[:1]], return_std=True)
        # The targets' mean and unit are those of all rows.
        np.testing.assert_allclose(mean[row[0]], found[0], atol=0.02 * np.std(y))
        np.testing.assert_allclose(std[row[0]], spread[0], rtol=0.02)
    with pytest.raises(NotFittedError):
        make().predict_leave_one_out()


def test_patterns_of_missing_targets_are_asked_one_by_one(table):
    X, y = table
    Y = np.column_stack([y, y])
    Y[::3, 1] = np.nan
    model = few().fit(X, Y)
    for ask in (lambda: model.forget([0]), model.predict_leave_one_out):
        with pytest.raises(ValueError, match="pattern_fits_"):
            ask()
    mean, _ = model.pattern_fits_[0].predict_leave_one_out()
    assert mean.shape[0] == 160


def test_rows_that_are_equal_count_once(table):
    X, y = table
    once, twice = few().fit(X, y), few().fit(np.vstack([X, X[::-1]]), np.append(y, y[::-1]))
    np.testing.assert_allclose(twice.predict(X), once.predict(X), rtol=1e-6, atol=1e-9)
    # Measured again with another result, they tell the noise.
    noisy = few().fit(np.vstack([X, X]), np.append(y, y + 0.5))
    assert noisy.noise_ > 2.0 * once.noise_


def test_tables_are_within_their_bound(table):
    X, y = table
    model = few(n_bins=64).fit(X, y)
    quick = model.predict(X)
    exact = model.set_params(n_bins=None).predict(X)
    assert not hasattr(model, "quantization_error_bound_")
    bound = model.set_params(n_bins=64).quantization_error_bound_
    assert 0.0 < np.max(np.abs(quick - exact)) <= bound
    np.testing.assert_array_equal(model.predict(X), quick)


# ---- classification ------------------------------------------------------------------------------


def test_moons_are_told_apart():
    X, y = make_moons(500, noise=0.2, random_state=0)
    model = few_classes().fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.94
    probabilities = model.predict_proba(X[300:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    log_loss = -np.mean(np.log(probabilities[np.arange(200), y[300:]]))
    assert log_loss < 0.2
    scores = model.decision_function(X[300:])
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-scores)), probabilities[:, 1])
    np.testing.assert_array_equal(scores > 0, model.predict(X[300:]) == 1)


def test_three_classes_of_strings():
    X, y = load_wine(return_X_y=True)
    labels = np.array(["red", "rose", "white"])[y]
    model = few_classes().fit(X[::2], labels[::2])
    assert model.classes_.tolist() == ["red", "rose", "white"]
    assert model.score(X[1::2], labels[1::2]) > 0.93
    best = np.argmax(model.predict_proba(X), axis=1)
    np.testing.assert_array_equal(model.classes_[best], model.predict(X))
    _, std = model.predict(X, return_std=True)
    _, variance = model.latent_mean_and_variance(X)
    np.testing.assert_allclose(std**2, variance + model.noise_)


def test_a_metric_of_many_rows_leaves_out_columns_without_use(rng):
    X = rng.normal(size=(1500, 6))
    y = X[:, 0] * X[:, 1] > 0
    model = few_classes().fit(X[:1200], y[:1200])
    assert model.feature_importances_[:2].sum() > 0.5
    plain = few_classes(metric="identity").fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > plain.score(X[1200:], y[1200:])


def test_more_rows_and_new_classes(table):
    X, y = table
    labels = np.digitize(y, [-0.3, 0.3])
    first = labels < 2
    model = few_classes().fit(X[first], labels[first])
    model.partial_fit(X[~first], labels[~first])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X, labels) > 0.9
    assert model.predict_proba(X).shape == (160, 3)


def test_declared_classes_stay_without_rows(table):
    X, y = table
    labels = np.where(y > 0, "up", "down")
    model = few_classes().partial_fit(X, labels, classes=["down", "level", "up"])
    assert model.classes_.tolist() == ["down", "level", "up"]
    assert np.max(model.predict_proba(X)[:, 1]) < 0.5
    with pytest.raises(ValueError, match=r"'sideways' is neither in classes"):
        model.partial_fit(X[:1], ["sideways"], classes=["down", "level", "up"])
    assert model.classes_.tolist() == ["down", "level", "up"]


def test_classes_of_one_row(table):
    X, _ = table
    labels = np.array([0] * 158 + [1, 2])
    probabilities = few_classes().fit(X, labels).predict_proba(X)
    assert np.argmax(probabilities[:100], axis=1).tolist() == [0] * 100
    assert np.all(np.isfinite(probabilities))


def test_one_class_is_refused(table):
    X, _ = table
    with pytest.raises(ValueError, match=r"at least 2 classes, but y contains only one class: 'a'"):
        few_classes().fit(X, ["a"] * 160)


# ---- tables --------------------------------------------------------------------------------------


@pytest.fixture(name="frame")
def _frame(rng):
    """A table in which the sign of a slope depends on a category."""
    kind = rng.choice(["left", "middle", "right"], size=200)
    x = rng.uniform(-2.0, 2.0, size=200)
    frame = pd.DataFrame({"x": x, "kind": pd.Categorical(kind), "idle": rng.normal(size=200)})
    slope = pd.Series(kind).map({"left": -1.0, "middle": 0.0, "right": 1.0}).to_numpy()
    return frame, slope * x + 0.05 * rng.normal(size=200)


def test_categories_interact_with_numbers(frame):
    X, y = frame
    model = few(n_projections=400, n_metric_steps=3).fit(X[:150], y[:150])
    assert model.score(X[150:], y[150:]) > 0.85
    assert model.feature_importances_.shape == (3,)
    assert model.feature_importances_[2] < 0.1
    assert model.feature_names_in_.tolist() == ["x", "kind", "idle"]


@pytest.mark.parametrize("n_categories", [2, 3, 40])
def test_the_columns_of_a_feature_of_categories_have_the_variance_of_one(rng, n_categories):
    codes = np.concatenate([np.arange(n_categories), rng.integers(2, size=500)])
    indicators = (codes[:, None] == np.arange(n_categories)).astype(np.float64)
    numbers = np.column_stack([rng.lognormal(size=len(codes)), indicators])
    sources = np.append(0, np.ones(n_categories, dtype=np.intp))
    A = Columns(numbers, sources).apply(numbers)
    np.testing.assert_allclose(A[:, 0].var(), 1.0)
    np.testing.assert_allclose(A[:, 1:].var(axis=0).sum(), 1.0)
    # One step from a category to another, however rare they are.
    steps = np.ptp(A[:, 1:], axis=0)
    np.testing.assert_allclose(steps, steps[0])
    # Of two categories, rows differ as zeros and ones do.
    if n_categories == 2:
        alone = Columns(indicators[:, :1]).apply(indicators[:, :1])
        np.testing.assert_allclose(cdist(A[:9, 1:], A[:, 1:]), cdist(alone[:9], alone), atol=1e-12)


@pytest.mark.parametrize("n_missing", [1, 20, 100])
def test_what_is_missing_is_marked_by_one_step(rng, n_missing):
    numbers = rng.normal(size=(200, 2))
    numbers[:n_missing, 1] = np.nan
    A = Columns(numbers).apply(numbers)
    assert A.shape == (200, 3)
    np.testing.assert_allclose(A[:, 2].mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(A[:n_missing, 2] - A[-1, 2], np.sqrt(2.0))


def test_a_few_missing_numbers_say_little():
    """Rows that lack a number are not alike for that, where a few do."""
    X, y = load_wine(return_X_y=True)
    lacking = np.where(np.random.default_rng(0).random(X.shape) < 0.01, np.nan, X)
    losses = []
    for seed in range(3):
        A, B, a, b = train_test_split(lacking, y, random_state=seed, stratify=y)
        model = SlicedGPClassifier(random_state=0).fit(A, a)
        losses.append(log_loss(b, model.predict_proba(B)))
    assert np.mean(losses) < 0.03


def test_columns_of_two_values_are_only_scaled(rng):
    column = (rng.random((300, 1)) < 0.05) * 7.0 - 2.0
    np.testing.assert_allclose(
        Columns(column).apply(column), (column - column.mean()) / column.std(), atol=1e-12
    )


@pytest.mark.parametrize("dtype", ["category", "object", "string"])
def test_categories_in_any_column_type(frame, dtype):
    X, y = frame
    expected = few().fit(X, y).predict(X)
    other = X.assign(kind=X["kind"].astype(str).astype(dtype))
    np.testing.assert_array_equal(few().fit(other, y).predict(other), expected)


def test_categories_of_mixed_types(frame):
    X, y = frame
    mixed = X.assign(kind=X["kind"].astype(object).map({"left": 1, "middle": "m", "right": 2.5}))
    assert few().fit(mixed, y).score(mixed, y) > 0.8


def test_unknown_and_missing_categories(frame):
    X, y = frame
    model = few().fit(X, y)
    rows = X[:3].assign(kind=["left", "unheard of", None])
    mean, std = model.predict(rows, return_std=True)
    # Unknown ones, and missing ones where the fit had none, are alike, and uncertain.
    other = model.predict(X[1:3].assign(kind=[None, "new"]))
    np.testing.assert_array_equal(mean[1:], other)
    assert std[1] > std[0]
    # Missing in the fit, they are a category of their own.
    gaps = X.assign(kind=X["kind"].where(X["kind"] != "left"))
    np.testing.assert_allclose(few().fit(gaps, y).score(gaps, y), model.score(X, y), atol=0.02)


def test_order_of_rows_does_not_change_the_columns(rng, frame):
    X, y = frame
    order = rng.permutation(200)
    first, second = few().fit(X, y), few().fit(X.iloc[order], y[order])
    np.testing.assert_allclose(second.predict(X), first.predict(X), atol=1e-3)


def test_missing_numbers(rng, table):
    X, y = table
    y = y + 2.0 * (rng.random(160) < 0.3)
    gaps = X.copy()
    # That a value is missing says something.
    gaps[y > y.mean() + 1.0, 2] = np.nan
    model = few(n_projections=200).fit(gaps[:120], y[:120])
    assert model.score(gaps[120:], y[120:]) > few(n_projections=200).fit(X[:120], y[:120]).score(
        X[120:], y[120:]
    )
    # Missing where the fit had none, a number counts as the mean.
    filled, empty = X[:1].copy(), X[:1].copy()
    filled[0, 0], empty[0, 0] = X[:120, 0].mean(), np.nan
    full = few().fit(X[:120], y[:120])
    np.testing.assert_allclose(full.predict(empty), full.predict(filled))


@pytest.mark.parametrize("power", [-3.0, -0.5, 0.0, 0.3, 1.0, 1.7, 2.0, 4.0])
def test_columns_are_straightened_as_scikit_learn_does(rng, power):
    X = np.concatenate([rng.normal(size=500) * 3.0, [0.0, -0.0, 1e-20, -1e-20, 40.0, -40.0]])
    transformer = PowerTransformer(standardize=False).fit(X[:, None])
    transformer.lambdas_ = np.array([power])
    expected = transformer.transform(X[:, None])
    straight = yeo_johnson(X[:, None], np.array([power]))
    np.testing.assert_allclose(straight, expected, rtol=1e-12, atol=1e-15)


def test_projections_are_the_product_with_all_directions(rng):
    X = np.exp(rng.normal(size=(60, 4)))
    columns = Columns(X)
    W = rng.normal(size=(4, 9))
    # Columns as they are, one of them turned, one that is no projection of anything.
    W[:, 2:6] = np.eye(4)
    W[:, 7] = [0.0, 0.0, -2.0, 0.0]
    W[:, 8] = 0.0
    low, weights = rng.normal(size=9), rng.random(9)
    projection = Projection(columns, W, low, weights)
    expected = np.maximum(columns.apply(X) @ W - low, 0.0) * weights
    np.testing.assert_allclose(projection.apply(X, 1), expected, rtol=1e-12, atol=1e-13)


def test_rows_beyond_some_hardly_move_the_power_of_columns(rng):
    X = np.exp(rng.normal(size=(20_000, 3)))
    # Of a rare value, some rows have none.
    X[:, 2] = 0.0
    X[7, 2] = 1.0
    some, all_rows = Columns(X), Columns(X[:4096])
    assert some._powers[:2] == pytest.approx(all_rows._powers[:2], abs=0.05)
    A = some.apply(X)
    assert np.all(np.abs(A[:, :2].mean(axis=0)) < 0.05)
    assert np.all(np.isfinite(A))
    assert A[7, 2] > A[8, 2]


@pytest.mark.parametrize(("d", "n_directions"), [(3, 8), (8, 3), (5, 5), (1, 1)])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("smooth", [False, True])
def test_outer_gradients_are_those_of_the_predictions(rng, d, n_directions, n_outputs, smooth):
    A, alpha = rng.normal(size=(20, d)), rng.normal(size=(20, n_outputs))
    sets = [Projections.of(A, rng.normal(size=(d, n_directions)), 1) for _ in range(2)]
    sets = [s.smoothed(1) for s in sets] if smooth else sets
    gradient = sum(np.einsum("ipc,dp->icd", s.slopes(alpha), s.W) for s in sets)
    expected = np.einsum("icd,ice->de", gradient, gradient)
    assert_close(outer_gradients(sets, alpha), expected, 1e-12)


def test_skewed_columns_are_straightened(rng):
    X = rng.normal(size=(200, 2))
    y = X[:, 0] * X[:, 1]
    plain = few().fit(X[:150], y[:150])
    skewed = np.exp(X)
    model = few().fit(skewed[:150], y[:150])
    assert model.score(skewed[150:], y[150:]) > plain.score(X[150:], y[150:]) - 0.1
    skewed = np.exp(3.0 * X)
    A = Columns(skewed).apply(skewed)
    assert np.max(np.abs(skew(A))) < 0.5 * np.min(skew(skewed))
    np.testing.assert_allclose(A.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(A.std(axis=0), 1.0)
    assert np.all(np.isfinite(Columns(skewed).apply(np.array([[1e300, -1e300], [0.0, -1e9]]))))


AWKWARD = {
    "one row": (1, lambda X: X),
    "two rows": (2, lambda X: X),
    "equal rows": (20, np.ones_like),
    "one column": (20, lambda X: X[:, :1]),
    "constant column": (20, lambda X: np.column_stack([X, np.full(len(X), 1e9 + 0.1)])),
    "nothing known": (20, lambda X: np.column_stack([X, np.full(len(X), np.nan)])),
    "one known": (20, lambda X: np.where(np.arange(len(X))[:, None] == 0, X, np.nan)),
    "one wild value": (20, lambda X: np.column_stack([X, 1e12 * (np.arange(len(X)) == 3)])),
    "single precision": (20, lambda X: X.astype(np.float32)),
}


@pytest.mark.parametrize("case", AWKWARD.values(), ids=AWKWARD)
@ALL_THREE
def test_awkward_rows(table, make, case):
    n_rows, change = case
    if make is few_classes and n_rows == 1:
        pytest.skip("of one row there is one class")
    X = change(table[0][:n_rows])
    y = np.arange(n_rows) % 2
    model = make().fit(X, y)
    assert np.all(np.isfinite(answers(model, X)))
    assert np.all(np.isfinite(answers(model, np.full((2, X.shape[1]), -1e9))))
    assert np.all(np.isfinite(model.feature_importances_))


@pytest.mark.parametrize("value", [0.0, 1.0, -1e9 - 0.1])
def test_targets_of_one_value_are_predicted(table, value):
    X, _ = table
    mean, std = few().fit(X, np.full(160, value)).predict(X, return_std=True)
    np.testing.assert_array_equal(mean, value)
    # What one value says of the noise is nothing but what rounding leaves.
    assert np.all((std > 0.0) & (std <= max(1e-13 * abs(value), 1e-300)))


# ---- bad input -----------------------------------------------------------------------------------


@ALL_THREE
def test_bad_tables_are_refused_and_change_nothing(frame, make):
    X, y = frame
    y = targets_for(make, y)
    model = make().fit(X, y)
    before = answers(model, X)
    infinite = X.copy()
    infinite.loc[3, "x"] = np.inf
    dated = X.assign(x=pd.date_range("2020-01-01", periods=200))
    codes = X.assign(kind=np.arange(200))
    refused = [
        (infinite, r"Column 'x' of X is infinite in row 3: Input X contains infinity"),
        (X.assign(x="a"), r"Column 'x' of X holds text .* such as 'a', and held numbers in the"),
        (dated, r"Column 'x' of X holds dates \(dtype Datetime.*, and held numbers in the fit"),
        (codes, r"Column 'kind' of X holds numbers \(dtype Int64\), and held text in the fit"),
        (X[["kind", "x", "idle"]], r"same order"),
        (X[["x", "kind"]], r"missing"),
        (X[:0], r"Found 0 rows"),
    ]
    for bad, message in refused:
        for ask in (model.predict, lambda bad: model.partial_fit(bad, y[: len(bad)])):
            with pytest.raises(ValueError, match=message):
                ask(bad)
    with (
        pytest.warns(UserWarning, match="valid feature names"),
        pytest.raises(ValueError, match=r"X\[:, \d\] holds numbers .*, and held text in the fit"),
    ):
        model.predict(np.ones((2, 3)))
    with pytest.raises(ValueError, match="Input X contains inf"):
        model.fit(infinite[["x", "idle"]], y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="are neither numbers nor categories"):
        model.fit(X.assign(kind=[[0]] * 200), y)
    np.testing.assert_array_equal(answers(model, X), before)


def test_a_number_that_becomes_a_category_is_refused_by_name(table):
    X = pd.DataFrame(table[0], columns=list("abcd"))
    model = few().fit(X, table[1])
    with pytest.raises(
        ValueError, match=r"Column 'b' of X holds text .* such as 'q', and held numb"
    ):
        model.predict(X.assign(b="q"))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_targets_are_named(table, bad):
    X, y = table
    y = y.copy()
    y[7] = bad
    with pytest.raises(ValueError, match=r"The first is y\[7\]"):
        few().fit(X, y)
    model = few().fit(X, table[1])
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"The first is y\[7\]"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="as many targets per row as before"):
        model.partial_fit(X, np.ones((160, 2)))
    np.testing.assert_array_equal(model.predict(X), before)


@ALL_THREE
def test_a_model_without_data_says_so(table, make):
    X, _ = table
    model = make()
    for ask in (model.predict, model.latent_mean_and_variance):
        with pytest.raises(NotFittedError):
            ask(X)
    for name in ("std_error_", "quantization_error_bound_", "n_iter_"):
        assert not hasattr(model, name)


@ALL_THREE
@pytest.mark.parametrize(
    "parameters",
    [
        {"n_projections": 0},
        {"n_projections": "all"},
        {"metric": "manhattan"},
        {"n_metric_steps": -1},
        {"tol": 0.0},
        {"n_bins": 1},
        {"variance": "none"},
        {"solver": "lu"},
    ],
    ids=str,
)
def test_parameters_are_checked(table, make, parameters):
    X, y = table
    with pytest.raises(ValueError, match=next(iter(parameters))):
        make(**parameters).fit(X, targets_for(make, y))


# ---- state ---------------------------------------------------------------------------------------


@BOTH
def test_parameters_set_after_a_fit_change_predictions_alone(table, make):
    X, y = table
    y = targets_for(make, y)
    model = make().fit(X, y)
    before = answers(model, X)
    model.set_params(
        n_projections=7,
        metric="identity",
        n_metric_steps=0,
        tol=0.5,
        random_state=5,
        solver=Solver("cg", max_iter=1),
    )
    np.testing.assert_array_equal(answers(model, X), before)
    # Those that are documented do.
    model.set_params(n_bins=2)
    assert not np.array_equal(answers(model, X), before)
    model.set_params(n_bins=None, variance="coarse")
    assert not np.array_equal(answers(model, X), before)
    model.set_params(variance="auto", n_jobs=2)
    np.testing.assert_array_equal(answers(model, X), before)


def test_predictions_of_threads_do_not_meet(table):
    """One asks by table and one exactly, of copies that share what was learned."""
    X, y = table
    model = few(variance="exact").fit(X, y)
    quick = clone(model).set_params(n_bins=2)
    quick.__dict__.update({k: v for k, v in vars(model).items() if k not in quick.get_params()})
    expected = [model.predict(X), quick.predict(X)]
    assert not np.array_equal(*expected)
    wrong = []

    def ask(asked, answer):
        wrong.extend(asked for _ in range(50) if not np.array_equal(asked.predict(X), answer))

    threads = [
        threading.Thread(target=ask, args=pair)
        for pair in zip((model, quick), expected, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@ALL_THREE
def test_a_pickled_model_predicts_the_same(frame, make):
    X, y = frame
    model = make().fit(X, targets_for(make, y))
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(answers(restored, X), answers(model, X), rtol=1e-7, atol=1e-9)
    # What is costly to make is made once.
    assert restored._inner._posterior is restored._inner_now(())._posterior
    restored.partial_fit(X[:10], targets_for(make, y)[:10])


@ALL_THREE
def test_same_bits_for_any_number_of_threads_and_in_every_fit(table, make):
    X, y = table
    y = targets_for(make, y)
    expected = answers(make(n_jobs=1).fit(X, y), X)
    for n_jobs in (2, 7):
        np.testing.assert_array_equal(answers(make(n_jobs=n_jobs).fit(X, y), X), expected)
    assert not np.array_equal(answers(make(random_state=1).fit(X, y), X), expected)


@BOTH
def test_many_rows_are_learned_from_some_and_rounded_to_levels(rng, make, monkeypatch):
    X = rng.uniform(-1.0, 1.0, size=(700, 3))
    y = targets_for(make, X[:, 0] * X[:, 1] + 0.05 * rng.normal(size=700))
    exact = make(n_metric_steps=0).fit(X[:500], y[:500])
    for module in (regression_learning, classification_learning):
        monkeypatch.setattr(module, "SEARCHED_ROWS", 200)
    monkeypatch.setattr(regression_learning, "LEARNING_ROWS", 300)
    monkeypatch.setattr(fitting, "EXACT_ROWS", 400)
    monkeypatch.setattr(base, "_BLOCK", 64)
    all_rows = make(n_metric_steps=0, solver="cg").fit(X[:500], y[:500])
    monkeypatch.setattr(fitting, "_SCALE_ROWS", 250)
    model = make(n_metric_steps=0, solver="cg").fit(X[:500], y[:500])
    # Noise and amplitude are those of some rows, and near those of all.
    assert model._inner.optimizer is None
    assert model.noise_ != all_rows.noise_
    if make is few:
        assert 0.2 < model.noise_ / all_rows.noise_ < 5.0
    T = model._projection.apply(X, 1)
    assert T.dtype == np.float32
    assert all(len(np.unique(column)) <= 255 for column in T.T)
    raw = np.maximum(Columns(X[:500]).apply(X) @ model.directions_ - model.offsets_, 0.0)
    raw *= model._projection.weights
    levels = model._projection.levels
    inside = (levels[:, 0] <= raw) & (raw <= levels[:, -1])
    assert np.mean(inside) > 0.95
    half = 0.5 * np.max(np.diff(levels, axis=1), axis=1) * np.ones_like(raw)
    assert np.all(np.abs(T - raw)[inside] <= half[inside] + 1e-6)
    assert model.score(X[500:], y[500:]) > exact.score(X[500:], y[500:]) - 0.05
    assert model.std_error_ < 0.2


def test_projections_that_are_asked_for(table):
    X, y = table
    model = few(n_projections=40, n_metric_steps=3).fit(X, y)
    assert model.directions_.shape == (4, 40 + 8 * len(model.interactions_) + 4)
    assert few(n_projections=3, n_metric_steps=0).fit(X, y).directions_.shape == (4, 7)
    model = SlicedGPRegressor(n_interactions=0, kernel="sliced", random_state=0).fit(X[:40], y[:40])
    assert model.directions_.shape == (4, 4 * 256 + 4)
    assert SlicedGPClassifier(random_state=0).fit(X[:40], y[:40] > 0).directions_.shape == (
        4,
        2048 + 4,
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.sampled_from([0, 1, 7, 255, 256, 257]), st.integers(0, 9)),
    n_levels=st.sampled_from([1, 2, 3, 8, 255]),
    scale=st.sampled_from([2.0**-100, 1.0, 2.0**100]),
)
def test_projections_are_rounded_to_the_nearest_level(seed, shape, n_levels, scale):
    rng = np.random.default_rng(seed)
    x = scale * rng.integers(-5, 40, size=shape) / 8.0
    levels = np.sort(scale * rng.integers(0, 20, size=(shape[1], n_levels)) / 4.0, axis=1)
    found = _histrs.nearest_levels(x, levels, 2)
    assert found.dtype == np.float32
    assert found.shape == shape
    for d in range(shape[1]):
        near = np.abs(x[:, d, None] - levels[d])
        # From the middle of two, to the lower one: the first of the nearest.
        expected = levels[d][np.argmin(near, axis=1)]
        np.testing.assert_array_equal(found[:, d], expected.astype(np.float32))


@pytest.mark.parametrize(
    ("model", "n_sets", "expected"),
    [
        (SlicedGPRegressor, 1, [512, 512, 512, 512, 256]),
        (SlicedGPRegressor, 4, [256, 128, 128, 128, 64]),
        (SlicedGPClassifier, 1, [2048, 2048, 1024, 1024, 256]),
    ],
)
def test_projections_by_the_number_of_rows(model, n_sets, expected):
    rows = [8192, 8193, 32_769, 100_000, 100_001]
    assert [model()._n_directions(n, n_sets) for n in rows] == expected
    assert model(n_projections=9)._n_directions(10, n_sets) == 9 // n_sets


def test_classes_that_are_told_apart_keep_some_noise(rng):
    X = rng.normal(size=(300, 3))
    model = SlicedGPClassifier(random_state=0).fit(X, X[:, 0] > 0)
    assert model.noise_ >= 1e-3 * (1 - 1e-12)


@BOTH
def test_a_pickled_model_has_its_rows_and_not_their_projections(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = targets_for(make, X[:, 0] * X[:, 1])
    model = make(n_projections=1024).fit(X, y)
    size = len(pickle.dumps(model))
    # Directions are numbers of the columns' count for each projection.
    directions = model.directions_.nbytes + 5 * model.offsets_.nbytes
    assert size - directions < 4 * X.nbytes
    for changed in (model, model.partial_fit(X[:9] + 0.5, y[:9]), model.forget([0, 5, 403])):
        copy = pickle.loads(pickle.dumps(changed))
        assert_close(copy._inner.X_fit_, changed._inner.X_fit_, 1e-14)
        assert_close(answers(copy, X), answers(changed, X), 1e-9)
