"""Targets that are missing in some rows: each is learned from the rows that have it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import r2_score

from histrs.gaussian_process import (
    Bins,
    IntersectionGPRegressor,
    LikelihoodSearch,
    MinMaxGPRegressor,
    SPDGPRegressor,
)
from histrs.gaussian_process.kernels import MinMax, Tangent
from tests.helpers import assert_close, assert_slope, build, with_amplitude
from tests.oracles import intersection, missing


def dense(model_class, kernel, given):
    return build(model_class, **with_amplitude(model_class, {"kernel": kernel, **given}))


KINDS = {
    "intersection": lambda **given: build(IntersectionGPRegressor, **given),
    "cg": lambda **given: build(
        IntersectionGPRegressor, **{"solver": "cg", "tol": 1e-10, "variance": "exact", **given}
    ),
    "smooth": lambda **given: build(IntersectionGPRegressor, smoothness="both", **given),
    "minmax": lambda **given: dense(MinMaxGPRegressor, MinMax(0.5, "fixed"), given),
    "spd": lambda **given: dense(SPDGPRegressor, Tangent(0.5, "fixed"), given),
}
EVERY = pytest.mark.parametrize("kind", KINDS)
GIVEN = {"optimizer": None, "noise": 0.05, "amplitude": 0.8}


def make(kind, **given):
    return KINDS[kind](**{**GIVEN, **given})


def data(kind, n=40, seed=0):
    """Rows and four targets of them, of which the second and the third miss the same rows."""
    rng = np.random.default_rng(seed)
    if kind == "spd":
        A = rng.standard_normal((n, 3, 12))
        X = A @ A.transpose(0, 2, 1) / 12
        F = X[:, [0, 1, 2], [0, 1, 2]]
    else:
        X = F = rng.random((n, 3))
    Y = np.column_stack([F[:, 0], 50 * F[:, 1] ** 2, F.sum(axis=1), F[:, 2] - F[:, 0]])
    Y += 0.1 * rng.standard_normal(Y.shape)
    Y[: n // 5, 1:3] = np.nan
    Y[n // 8 : n // 2, 3] = np.nan
    return X, Y


def alone(kind, X, Y, k, **given):
    seen = ~np.isnan(Y[:, k])
    return make(kind, **given).fit(X[seen], Y[seen, k])


def tolerance(kind):
    return 1e-7 if kind == "cg" else 1e-8


# ---- fits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_matches_the_definition(solver):
    X, Y = data("intersection")
    X, Y, new = X[:30], Y[:30], X[30:]
    model = build(
        IntersectionGPRegressor,
        feature_weights=None,
        intercept_variance=0.0,
        solver=solver,
        tol=1e-10,
        **GIVEN,
    )
    model.fit(X, Y)
    K, K_star, prior = (
        intersection.intersection_kernel(*pair) for pair in ((X, X), (new, X), (new, new))
    )
    expected = missing.each_target(K, K_star, prior, Y, GIVEN["noise"], GIVEN["amplitude"])
    mean, std, covariance, total = expected
    rtol = 1e-9 if solver == "cholesky" else 1e-7
    found = model.set_params(variance="exact").predict(new, return_std=True)
    assert_close(found[0], mean, rtol)
    assert_close(found[1], std, rtol)
    assert_close(model.predict(new, return_cov=True)[1], covariance, rtol)
    if solver == "cholesky":
        assert model.log_marginal_likelihood() == pytest.approx(total, rel=1e-10)


@EVERY
def test_each_target_is_as_if_fitted_alone(kind):
    X, Y = data(kind)
    model = make(kind).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    _, covariance = model.predict(X, return_cov=True)
    _, quantiles = model.predict(X, return_quantiles=[0.1, 0.5])
    latent = model.latent_mean_and_variance(X)
    bounds = model.std_bounds(X)
    rtol = tolerance(kind)
    for k in range(4):
        one = alone(kind, X, Y, k)
        seen = ~np.isnan(Y[:, k])
        assert_close(mean[:, k], one.predict(X), rtol)
        assert_close(std[:, k], one.predict(X, return_std=True)[1], rtol)
        assert_close(covariance[:, :, k], one.predict(X, return_cov=True)[1], rtol)
        assert_close(quantiles[:, :, k], one.predict(X, return_quantiles=[0.1, 0.5])[1], rtol)
        for found, expected in zip(latent, one.latent_mean_and_variance(X), strict=True):
            assert_close(found[:, k], expected, 100 * rtol)
        for found, expected in zip(bounds, one.std_bounds(X), strict=True):
            assert_close(found[:, k], expected, 1e-2 if kind == "cg" else rtol)
        assert_close(model.dual_coef_[seen, k], one.dual_coef_[:, 0], 100 * rtol)
        assert not np.any(model.dual_coef_[~seen, k])
        assert_close(model.y_mean_[k], one.y_mean_[0], 1e-12)
        assert_close(model.Y_fit_[seen, k], one.Y_fit_[:, 0], 1e-12)
        assert np.all(np.isnan(model.Y_fit_[~seen, k]))


@pytest.mark.parametrize("kind", ["intersection", "minmax", "spd"])
def test_leave_one_out_and_likelihood(kind):
    X, Y = data(kind)
    model = make(kind, optimizer="l-bfgs-b").fit(X, Y)
    left_out = model.predict_leave_one_out()
    total, gradient = model.log_marginal_likelihood(eval_gradient=True)
    by_theta = model.log_marginal_likelihood(model.theta_, return_std=True)
    single = []
    for k in range(4):
        one = alone(kind, X, Y, k, optimizer="l-bfgs-b")
        seen = ~np.isnan(Y[:, k])
        for found, expected in zip(left_out, one.predict_leave_one_out(), strict=True):
            assert_close(found[seen, k], expected, 1e-3)
            assert np.all(np.isnan(found[~seen, k]))
        single.append(one.log_marginal_likelihood())
        assert model.noise_[k] == pytest.approx(one.noise_, rel=0.02, abs=1e-4)
    assert total == pytest.approx(sum(single), rel=1e-5)
    assert by_theta == (pytest.approx(total), 0.0)
    assert gradient.shape == model.theta_.shape
    with pytest.raises(ValueError, match="theta has shape"):
        model.log_marginal_likelihood(model.theta_[1:])


def test_gradient_of_the_likelihood():
    X, Y = data("intersection")
    model = make("intersection", optimizer="l-bfgs-b").fit(X, Y)
    assert_slope(model, model.theta_ + 0.3, 1e-5, 1e-5)


def test_targets_of_the_same_rows_share_a_fit():
    X, Y = data("intersection")
    model = make("intersection").fit(X, Y)
    assert [targets.tolist() for targets in model.pattern_targets_] == [[0], [1, 2], [3]]
    for fit, targets, rows in zip(
        model.pattern_fits_, model.pattern_targets_, model.pattern_rows_, strict=True
    ):
        np.testing.assert_array_equal(fit.X_fit_, X[rows])
        np.testing.assert_array_equal(rows, np.flatnonzero(~np.isnan(Y[:, targets[0]])))
    function = model.pattern_fits_[1].shape_functions([1])[0]
    assert function.values.shape[1] == 2


@EVERY
def test_rows_without_any_target_leave_no_trace(kind):
    X, Y = data(kind)
    Y[:, 1:] = np.nan
    Y[3:9, 0] = np.nan
    model = make(kind).fit(X, Y[:, :1])
    assert not hasattr(model, "pattern_fits_")
    seen = ~np.isnan(Y[:, 0])
    assert_close(model.predict(X), make(kind).fit(X[seen], Y[seen, :1]).predict(X), 1e-12)


@given(st.integers(0, 1 << 12), st.integers(1, 4))
def test_any_pattern(bits, n_targets):
    """Each target is as if fitted to its rows, or the table is refused."""
    rng = np.random.default_rng(bits)
    X, Y = rng.random((6, 2)), rng.standard_normal((6, n_targets))
    Y[rng.random(Y.shape) < rng.random()] = np.nan
    model = build(IntersectionGPRegressor, **GIVEN)
    if np.any(np.all(np.isnan(Y), axis=0)):
        with pytest.raises(ValueError, match="NaN in every row"):
            model.fit(X, Y)
        assert not model.__sklearn_is_fitted__()
        return
    model.fit(X, Y)
    mean = model.predict(X).reshape(6, n_targets)
    for k in range(n_targets):
        assert_close(mean[:, k], alone("intersection", X, Y, k).predict(X), 1e-9)


# ---- online updates -----------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("first", [0, 15, 30])
def test_rows_that_come_and_go(kind, first):
    """The first 0, 15 or 30 rows have different patterns of missing targets than those after."""
    X, Y = data(kind)
    order = np.roll(np.arange(len(X)), first)
    X, Y = X[order], Y[order]
    model = make(kind).fit(X[:20], Y[:20]) if first != 15 else make(kind)
    if first == 15:
        whole = np.where(np.isnan(Y[:20]), 1.0, Y[:20])
        Y = np.vstack([whole, Y[20:]])
        model.fit(X[:20], whole)
    model.partial_fit(X[20:30], Y[20:30]).partial_fit(X[30:], Y[30:])
    gone = [1, 7, 22, 39]
    model.forget(gone)
    X, Y = np.delete(X, gone, axis=0), np.delete(Y, gone, axis=0)
    np.testing.assert_array_equal(np.isnan(model.Y_fit_), np.isnan(Y))
    mean, std = model.predict(X, return_std=True)
    for k in range(4):
        rows = np.flatnonzero(~np.isnan(Y[:, k]))
        # What the first fit took as units of targets and of columns stays.
        one = pickle.loads(pickle.dumps(model))
        fit = next(
            fit
            for fit, targets in zip(one.pattern_fits_, one.pattern_targets_, strict=True)
            if k in targets
        )
        assert len(fit.Y_fit_) == len(rows)
        if kind in ("intersection", "cg", "smooth"):
            index = list(one.pattern_targets_[one.pattern_fits_.index(fit)]).index(k)
            assert one.intercept_[k] == fit.intercept_[index]
        if kind in ("intersection", "cg"):
            again = make(
                kind,
                feature_weights=fit.feature_weights_,
                intercept_variance=fit.intercept_variance_,
                noise=GIVEN["noise"] * (model.y_std_[k] / np.std(Y[rows, k])) ** 2,
                amplitude=GIVEN["amplitude"] * (model.y_std_[k] / np.std(Y[rows, k])) ** 2,
            ).fit(X[rows], Y[rows, k])
            expected = again.predict(X, return_std=True)
            assert_close(mean[:, k], expected[0], 10 * tolerance(kind))
            assert_close(std[:, k], expected[1], 10 * tolerance(kind))
        assert_close(one.predict(X)[:, k], mean[:, k], 1e-7)


def test_forgetting_all_of_a_target_is_refused():
    X, Y = data("intersection")
    Y[:, 3] = np.nan
    Y[[4, 6], 3] = 1.0, 2.0
    model = make("intersection").fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="have target 3 would be forgotten"):
        model.forget([6, 4, 0])
    np.testing.assert_array_equal(model.predict(X), before)
    assert len(model.Y_fit_) == len(X)


def test_a_fit_of_whole_targets_leaves_no_patterns():
    X, Y = data("intersection")
    model = make("intersection").fit(X, Y)
    whole = np.where(np.isnan(Y), 0.0, Y)
    assert_close(model.fit(X, whole).predict(X), make("intersection").fit(X, whole).predict(X), 0)
    assert not hasattr(model, "pattern_fits_")
    assert model.fit(X, Y).pattern_targets_[1].tolist() == [1, 2]
    assert not hasattr(model, "X_fit_")


# ---- what else is asked -----------------------------------------------------------------------


def test_draws_of_targets_are_independent():
    X, Y = data("intersection")
    model = make("intersection").fit(X, Y)
    draws = model.sample_y(X[:2], 4000, random_state=3)
    assert draws.shape == (2, 4, 4000)
    mean, covariance = model.predict(X[:2], return_cov=True)
    for k in range(4):
        spread = np.sqrt(covariance[0, 0, k])
        assert abs(draws[0, k].mean() - mean[0, k]) < 5 * spread / np.sqrt(4000)
        assert_close(np.cov(draws[:, k]), covariance[:, :, k], 0.15)
    assert np.abs(np.corrcoef(draws[0]) - np.eye(4)).max() < 0.08
    np.testing.assert_array_equal(draws, model.sample_y(X[:2], 4000, random_state=3))


def test_score():
    X, Y = data("intersection")
    model = make("intersection").fit(X, Y)
    weights = np.arange(1.0, len(X) + 1)
    mean = model.predict(X)
    for of_rows in (None, weights):
        expected = np.mean(
            [
                r2_score(Y[s, k], mean[s, k], sample_weight=None if of_rows is None else of_rows[s])
                for k, s in enumerate(~np.isnan(Y).T)
            ]
        )
        assert model.score(X, Y, of_rows) == pytest.approx(expected, rel=1e-12)
    whole = np.where(np.isnan(Y), mean, Y)
    assert model.score(X, whole) == pytest.approx(r2_score(whole, mean))
    Y[:, 2] = np.nan
    with pytest.raises(ValueError, match=r"y\[:, 2\] is NaN in every row"):
        model.score(X, Y)


@pytest.mark.parametrize("kind", ["intersection", "minmax"])
def test_weights_of_rows(kind):
    X, Y = data(kind)
    weights = np.random.default_rng(1).random(len(X))
    weights[::7] = 0.0
    model = make(kind).fit(X[:30], Y[:30], weights[:30]).partial_fit(X[30:], Y[30:], weights[30:])
    for k in range(4):
        seen = ~np.isnan(Y[:, k])
        first, then = seen.copy(), seen.copy()
        first[30:], then[:30] = False, False
        one = make(kind).fit(X[first], Y[first, k], weights[first])
        one.partial_fit(X[then], Y[then, k], weights[then])
        assert_close(model.predict(X)[:, k], one.predict(X), 1e-8)


@EVERY
def test_persistence_and_parameters_that_are_set_later(kind):
    X, Y = data(kind)
    model = make(kind).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    for name in ("dual_coef_", "Y_fit_", "y_mean_", "y_std_", "noise_", "amplitude_", "theta_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    for one, other in zip(
        model.predict(X, return_std=True), again.predict(X, return_std=True), strict=True
    ):
        assert_close(other, one, 1e-7)
    again.forget([2])
    assert len(model.Y_fit_) == len(again.Y_fit_) + 1 == len(X)


def test_tables_and_variances_that_are_set_later():
    X, Y = data("intersection")
    model = make("intersection").fit(X, Y)
    assert model.std_error_ == 0.0
    exact = model.predict(X)
    model.set_params(n_bins=Bins(16, "nearest"))
    bound = model.quantization_error_bound_
    off = np.abs(model.predict(X) - exact)
    assert np.all(off <= bound + 1e-12)
    assert off.max() > 0.0
    model.set_params(n_bins=None, variance="coarse")
    assert np.all(model.predict(X, return_std=True)[1] >= 0.0)
    assert not hasattr(model, "std_error_")
    assert not hasattr(model, "quantization_error_bound_")


# ---- bad input ----------------------------------------------------------------------------------


def test_bad_input_changes_nothing():
    X, Y = data("intersection")
    model = make("intersection").fit(X, Y)
    state, mean = set(vars(model)), model.predict(X)
    bad = X.copy()
    bad[33, 1] = -1.0
    infinite, empty = Y.copy(), Y.copy()
    infinite[2, 1] = np.inf
    empty[:, 0] = np.nan
    line = Y[:, 1]
    for rows, targets, match in (
        (bad, Y, r"X\[33, 1\] = -1"),
        (X, infinite, r"y\[2, 1\]"),
        (X, empty, r"y\[:, 0\] is NaN in every row"),
        (X, np.full_like(Y, np.nan), "Every target of y is NaN"),
        (X, line, r"y\[0\]; drop or impute the row"),
    ):
        with pytest.raises(ValueError, match=match):
            model.fit(rows, targets)
        assert set(vars(model)) == state
        np.testing.assert_array_equal(model.predict(X), mean)
    with pytest.raises(ValueError, match=r"X\[33, 1\] = -1"):
        model.partial_fit(bad, Y)
    with pytest.raises(ValueError, match="as many targets per row"):
        model.partial_fit(X, Y[:, :2])
    for kind, options in (
        ("intersection", {"shared_hyperparameters": True}),
        ("minmax", {"optimizer": LikelihoodSearch(shared=True)}),
    ):
        with pytest.raises(ValueError, match="shared"):
            make(kind, **options).fit(X, Y)
    for ask in (model.shape_functions, model.export_tables, lambda: model.explain(X)):
        with pytest.raises(ValueError, match="pattern_fits_"):
            ask()
    np.testing.assert_array_equal(model.predict(X), mean)


@pytest.mark.parametrize("dtype", ["Float64", "Int64", "float64"])
def test_frames_whose_columns_may_be_missing(rng, dtype):
    X, Y = rng.random((30, 3)), rng.integers(0, 5, (30, 2)).astype(float)
    Y[::4, 1] = np.nan
    frame = pd.DataFrame({"a": pd.array(Y[:, 0]), "b": pd.array(Y[:, 1])}).astype(dtype)
    for kind in ("intersection", "minmax"):
        model, expected = make(kind).fit(X, frame), make(kind).fit(X, Y)
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))
        assert model.score(X, frame) == expected.score(X, Y)
    with pytest.raises(ValueError, match=r"string|float"):
        make("intersection").fit(X, pd.DataFrame({"a": ["x"] * 30, "b": ["y"] * 30}))


@pytest.mark.parametrize("kind", ["intersection", "minmax", "spd"])
@pytest.mark.parametrize("name", ["noise", "amplitude"])
@pytest.mark.parametrize("values", [[0.1, 0.2], [0.1] * 5, [0.1], [[0.1] * 4], [0.1, 0.2, 0.3, -1]])
def test_variances_that_are_not_one_a_target_are_refused(kind, name, values):
    X, Y = data(kind)
    model = make(kind, **{name: values})
    with pytest.raises(ValueError, match=rf"^{name} (has shape|=)"):
        model.fit(X, Y)
    assert not hasattr(model, "pattern_fits_")


@pytest.mark.parametrize("name", ["noise", "amplitude"])
def test_variances_of_a_pattern_are_not_those_of_all_targets(name):
    X, Y = data("intersection")
    Y[:, 0] = np.where(np.isnan(Y[:, 3]), np.nan, Y[:, 0])
    assert make("intersection").fit(X, Y).pattern_targets_[0].tolist() == [0, 3]
    # As many as either pattern has targets.
    with pytest.raises(ValueError, match=rf"^{name} has shape"):
        make("intersection", **{name: [0.1, 0.2]}).fit(X, Y)


def test_score_of_other_targets_is_refused():
    X, Y = data("intersection")
    model = make("intersection").fit(X, Y)
    for other in (Y[:, :2], np.hstack([Y, Y])):
        with pytest.raises(ValueError, match=rf"y has {other.shape[1]} targets, and the model 4"):
            model.score(X, other)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        # As many numbers as there are predictions.
        model.score(X, np.vstack([Y[:, :2], Y[:, 2:]]))


@pytest.mark.parametrize("convert", [np.asarray, pd.DataFrame])
def test_what_objects_lack_is_missing(convert):
    X, Y = data("intersection")
    objects = Y.astype(object)
    objects[np.isnan(Y)] = pd.NA
    objects[0, 1] = None
    expected = make("intersection").fit(X, Y)
    model = make("intersection").fit(X, convert(objects))
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.score(X, convert(objects)) == expected.score(X, Y)


@pytest.mark.parametrize("form", ["coo", "bsr", "dia", "csc", "lil", "dok", "csr"])
@pytest.mark.parametrize("kind", ["intersection", "minmax"])
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_every_sparse_format(kind, form, container):
    X, Y = data(kind)
    weights = np.ones(len(X))
    weights[::7] = 0.0
    rows = container(X).asformat(form)
    for y, of_rows in [(Y, None), (Y, weights), (Y[:, 0], weights)]:
        model = make(kind).fit(rows, y, of_rows)
        assert_close(model.predict(rows), make(kind).fit(X, y, of_rows).predict(X), 1e-9)


@pytest.mark.parametrize("convert", [np.asarray, pd.Series])
def test_a_single_target_says_which_entry_is_missing(convert):
    y = np.array([1.0, pd.NA, 2.0, 3.0], dtype=object)
    with pytest.raises(ValueError, match=r"y contains NaN[.\s]+The first is y\[1\]"):
        make("intersection").fit(np.eye(4), convert(y))


@pytest.mark.parametrize("kind", ["intersection", "minmax"])
@pytest.mark.parametrize("first", ["nothing", "whole", "patterns"])
def test_bad_entries_are_named_by_their_rows(kind, first):
    """Whichever rows before them the targets miss."""
    X, Y = data(kind)
    Y[2, 0] = np.nan
    model = make(kind)
    if first != "nothing":
        model.fit(X, np.nan_to_num(Y) if first == "whole" else Y)
    X[33, 1] = -1.0
    with pytest.raises(ValueError, match=r"X\[33, 1\] = -1"):
        model.partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"X\[33, 1\] = -1"):
        model.fit(X, Y)


def test_fits_whose_targets_stay_together_keep_their_history():
    X, Y = data("intersection")
    model = make("intersection", optimizer="l-bfgs-b").fit(X, Y)
    before = [fit.optimization_history_ for fit in model.pattern_fits_]
    model.partial_fit(X[:1], [[1.0, np.nan, 2.0, 3.0]])
    assert [targets.tolist() for targets in model.pattern_targets_] == [[0], [1], [2], [3]]
    first, *parted, last = model.pattern_fits_
    assert first.optimization_history_ is before[0]
    assert last.optimization_history_ is before[2]
    assert not any(hasattr(fit, "optimization_history_") for fit in parted)


@pytest.mark.parametrize("further", [[1.0, np.nan], [np.nan, 1.0]])
def test_a_row_that_misses_one_of_two_targets_parts_them(further):
    X, Y = data("intersection")
    whole = np.nan_to_num(Y[:, :2])
    model = make("intersection").fit(X[:30], whole[:30]).partial_fit(X[30:31], [further])
    assert [targets.tolist() for targets in model.pattern_targets_] == [[0], [1]]
    for k in range(2):
        one = make("intersection").fit(X[:30], whole[:30, k])
        if not np.isnan(further[k]):
            one.partial_fit(X[30:31], [further[k]])
        assert_close(model.predict(X)[:, k], one.predict(X), 1e-9)
