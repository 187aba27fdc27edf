"""The lasso and the group lasso, from moments."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, ElasticNetCV, lasso_path

from histrs.streaming import MomentGroupLasso, MomentLasso, MomentLassoCV, Moments
from tests.helpers import assert_close
from tests.oracles import moments as oracle

TIGHT = {"tol": 1e-12, "max_iter": 100_000}


def correlated(rng, n, d, t=1):
    """Rows whose first columns explain the targets, in a basis of its own."""
    Z = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d))) + 1
    W = rng.standard_normal((d, t)) * (np.arange(d)[:, None] < 3)
    return Z, Z @ W + 0.3 * rng.standard_normal((n, t)) + 2


def largest_alpha(Z, y):
    return np.max(np.abs((Z - Z.mean(axis=0)).T @ (y - y.mean(axis=0)))) / len(Z)


# ---- the lasso ----------------------------------------------------------------------------------


@given(
    n=st.sampled_from([12, 50, 300]),
    d=st.sampled_from([1, 2, 7, 8, 9, 30]),
    share=st.sampled_from([0.9, 0.3, 0.05]),
    l1_ratio=st.sampled_from([1.0, 0.4]),
    fit_intercept=st.booleans(),
    scale=st.sampled_from([1e-50, 1.0, 1e50]),
    seed=st.integers(0, 999),
)
@pytest.mark.simd_paths
def test_lasso_is_scikit_learns(n, d, share, l1_ratio, fit_intercept, scale, seed):
    Z, y = correlated(np.random.default_rng(seed), n, d)
    y = y[:, 0]
    alpha = share * largest_alpha(Z, y)
    options = {"alpha": alpha, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept, **TIGHT}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = ElasticNet(**options).fit(Z, y)
    ours = MomentLasso(**{**options, "alpha": alpha * scale}).fit(Z, y * scale)
    if l1_ratio == 1.0:  # with a ridge penalty the scale of the rows would matter as well
        assert_close(Z @ ours.coef_ / scale, Z @ theirs.coef_, 1e-4)
    groups = np.arange(d)

    def objective(coefficients, intercept):
        ridge = alpha * (1 - l1_ratio)
        penalty = alpha * l1_ratio, groups, np.ones(d), ridge
        return oracle.lasso_objective(Z, y, coefficients, intercept, *penalty)

    least = objective(theirs.coef_, theirs.intercept_)
    if scale == 1.0:
        found = objective(ours.coef_, ours.intercept_)
        assert found <= least + 1e-11 * np.mean(y**2)
        assert found - ours.dual_gap_ <= least + 1e-11 * np.mean(y**2)


def test_a_warning_names_the_largest_gap(rng):
    Z, Y = correlated(rng, 200, 30, 3)
    Y[:, 1] *= 100
    model = MomentLasso(1e-3, max_iter=1, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match=r"for 3 of 3 objectives: .* target 1 at alpha"):
        model.fit(Z, Y)
    assert np.all(model.dual_gap_ > 1e-12)
    assert np.all(model.n_iter_ == 1)


def test_targets_are_learned_by_themselves_on_any_number_of_threads(rng):
    Z, Y = correlated(rng, 200, 20, 5)
    model = MomentLasso(0.1).fit(Z, Y)
    assert model.coef_.shape == (5, 20)
    for shape in (model.intercept_, model.dual_gap_, model.n_iter_):
        assert shape.shape == (5,)
    for threads in (1, 2, 7):
        again = MomentLasso(0.1, n_jobs=threads).fit_moments(Moments.of(Z, Y))
        np.testing.assert_array_equal(again.coef_, model.coef_)
        np.testing.assert_array_equal(again.dual_gap_, model.dual_gap_)
    for t in range(5):
        one = MomentLasso(0.1).fit(Z, Y[:, t])
        assert one.coef_.shape == (20,)
        assert isinstance(one.intercept_, float)
        assert isinstance(one.dual_gap_, float)
        assert_close(one.coef_, model.coef_[t], 1e-9)
        assert_close(one.predict(Z), model.predict(Z)[:, t], 1e-9)


@pytest.mark.parametrize("groups", [None, [0, 0, 1, 2, 2, 2, 0, 3]])
def test_the_gap_bounds_the_distance_from_the_minimum(rng, groups):
    Z, y = correlated(rng, 40, 8)
    y = y[:, 0]
    names = np.arange(8) if groups is None else np.array(groups)
    weights = np.sqrt(np.unique(names, return_counts=True)[1])
    for share in (0.7, 0.01):
        alpha = share * largest_alpha(Z, y)
        best, intercept = oracle.group_lasso(Z, y, alpha, names, weights)
        least = oracle.lasso_objective(Z, y, best, intercept, alpha, names, weights)
        for max_iter in (1, 3, 7, 30):
            kind = {"alpha": alpha, "max_iter": max_iter, "tol": 0.0}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                ours = MomentGroupLasso(groups, **kind).fit(Z, y)
            found = oracle.lasso_objective(Z, y, ours.coef_, ours.intercept_, alpha, names, weights)
            assert -1e-12 <= found - least <= ours.dual_gap_ + 1e-12


def test_a_path_is_scikit_learns_and_ends_at_zero(rng):
    Z, Y = correlated(rng, 100, 15, 3)
    Z, Y = Z - Z.mean(axis=0), Y - Y.mean(axis=0)
    model = MomentLasso(**TIGHT)
    for y in (Y[:, :1], Y):
        alphas, coefs, gaps = model.path(Moments.of(Z, y), alphas=20)
        assert alphas[0] == pytest.approx(largest_alpha(Z, y), rel=1e-12)
        assert alphas[-1] == pytest.approx(alphas[0] * 1e-3)
        columns = [coefs] if y.shape[1] == 1 else coefs
        for t, column in enumerate(columns):
            theirs = lasso_path(Z, y[:, t], alphas=alphas, **TIGHT)[1]
            assert_close(column, theirs, 1e-4)
        assert not np.any(coefs[..., 0])
        assert np.max(gaps) <= 1e-12 * np.max(np.mean(y**2, axis=0))
    assert not hasattr(model, "coef_")
    again = model.path(Moments.of(Z, Y), alphas=alphas[[3, 1]])
    np.testing.assert_array_equal(again[0], alphas[[1, 3]])
    assert_close(again[1], coefs[..., [1, 3]], 1e-4)


def test_a_warm_start_goes_on(rng):
    Z, y = correlated(rng, 300, 40)
    model = MomentLasso(0.01, tol=1e-9, warm_start=True).fit(Z, y)
    before = model.coef_
    assert np.all(model.n_iter_ > 0)
    assert np.all(model.fit(Z, y).n_iter_ == 0)
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(ValueError, match=r"warm_start=True, but coef_ has shape \(1, 40\)"):
        model.fit(Z[:, :5], y)
    np.testing.assert_array_equal(model.coef_, before)


# ---- the group lasso ----------------------------------------------------------------------------


@given(
    n=st.sampled_from([12, 100]),
    sizes=st.lists(st.sampled_from([1, 2, 5, 9]), min_size=1, max_size=4),
    share=st.sampled_from([0.9, 0.3, 0.05]),
    weighted=st.booleans(),
    seed=st.integers(0, 999),
)
@pytest.mark.simd_paths
def test_group_lasso_is_its_definition(n, sizes, share, weighted, seed):
    rng = np.random.default_rng(seed)
    Z, y = correlated(rng, n, sum(sizes))
    y = y[:, 0]
    names = rng.permutation(np.repeat([f"g{k}" for k in range(len(sizes))], sizes))
    weights = rng.uniform(0.5, 2, len(sizes)) if weighted else np.sqrt(sizes)
    alpha = share * largest_alpha(Z, y)
    ours = MomentGroupLasso(
        names, alpha=alpha, group_weights=weights if weighted else None, **TIGHT
    ).fit(Z, y)
    best = oracle.group_lasso(Z, y, alpha, names, weights, 3000)
    least = oracle.lasso_objective(Z, y, *best, alpha, names, weights)
    found = oracle.lasso_objective(Z, y, ours.coef_, ours.intercept_, alpha, names, weights)
    assert found <= least + 1e-11 * np.mean(y**2)
    assert ours.dual_gap_ <= 1e-12 * np.var(y)


def test_whole_groups_are_left_out(rng):
    Z, y = correlated(rng, 400, 30)
    groups = np.repeat(np.arange(10), 3)
    coef = MomentGroupLasso(groups, alpha=0.3).fit(Z, y[:, 0]).coef_
    used = np.array([np.any(coef[groups == g]) for g in range(10)])
    assert used[0]
    assert not used.all()
    assert np.all(coef[np.repeat(used, 3)])


# ---- data that cannot be learned from, or hardly ------------------------------------------------


@pytest.mark.parametrize("groups", [None, [0, 0, 1, 1, 1]])
def test_constant_and_repeated_columns_and_targets(rng, groups):
    Z = rng.standard_normal((30, 5))
    Z[:, 1] = Z[:, 0]
    Z[:, 3] = 7.0
    y = Z[:, 0] + Z[:, 4]
    model = MomentGroupLasso(groups, alpha=0.01, **TIGHT).fit(Z, y)
    assert abs(model.coef_[3]) < 1e-12
    assert np.max(np.abs(model.predict(Z) - y)) < 0.2
    constant = MomentGroupLasso(groups).fit(Z, np.full(30, 3.0))
    assert not np.any(constant.coef_)
    assert constant.intercept_ == 3.0
    assert constant.dual_gap_ == 0.0


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"groups": [0, 1]}, r"groups has shape \(2,\), but X has 3 features"),
        ({"groups": [0, 1, 1], "group_weights": [1.0]}, "expected 2 positive weights"),
        ({"groups": [0, 1, 1], "group_weights": [1.0, 0.0]}, "expected 2 positive weights"),
    ],
)
def test_bad_groups_leave_the_model_as_it_was(rng, bad, message):
    Z, y = rng.random((20, 3)), rng.random(20)
    model = MomentGroupLasso(alpha=0.1).fit(Z, y)
    before = pickle.dumps(vars(model))
    with pytest.raises(ValueError, match=message):
        model.set_params(**bad).fit(Z, y)
    assert pickle.dumps(vars(model.set_params(groups=None, group_weights=None))) == before


def test_moments_without_targets_or_numbers_are_refused(rng):
    Z = rng.random((20, 3))
    for learn in (MomentLasso().fit_moments, MomentLasso().path):
        with pytest.raises(ValueError, match="a target"):
            learn(Moments.of(Z))
    with pytest.raises(ValueError, match="alphas"):
        MomentLasso().path(Moments.of(Z, Z), alphas=[1.0, -1.0])
    with pytest.raises(ValueError, match="eps"):
        MomentLasso().path(Moments.of(Z, Z), eps=2.0)
    with pytest.raises(ValueError, match="overflow"), np.errstate(all="ignore"):
        MomentLasso().fit(Z * 1e300, Z[:, 0])


# ---- coefficients that must not be negative, and the penalty by cross-validation -----------------


def of_folds(n, n_folds):
    places = np.arange(n) % n_folds
    return [(np.flatnonzero(places != k), np.flatnonzero(places == k)) for k in range(n_folds)]


@settings(max_examples=25, deadline=None)
@given(st.integers(8, 40), st.integers(1, 12), st.sampled_from([0.3, 1.0]), st.integers(0, 10**6))
def test_positive_coefficients_are_scikit_learns(n, d, l1_ratio, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 1
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    options = {"l1_ratio": l1_ratio, "positive": True}
    theirs = ElasticNet(0.05, tol=1e-12, max_iter=100_000, **options).fit(X, y)
    ours = MomentLasso(0.05, tol=1e-13, max_iter=100_000, **options).fit(X, y)
    assert np.all(ours.coef_ >= 0)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4 * (1 + np.abs(y).max()))
    # A start from coefficients of another fit.
    again = MomentLasso(0.05, warm_start=True, tol=1e-13, max_iter=100_000, l1_ratio=l1_ratio)
    again.fit(X, y).set_params(positive=True).fit(X, y)
    np.testing.assert_allclose(again.coef_, ours.coef_, atol=1e-4 * (1 + np.abs(y).max()))


@pytest.mark.parametrize(
    "options", [{}, {"positive": True}, {"fit_intercept": False}, {"l1_ratio": 0.5}], ids=repr
)
def test_cross_validation_is_scikit_learns(rng, options):
    n = 204
    X = rng.standard_normal((n, 10)) + 2
    y = X[:, :3] @ [2.0, -1.0, 0.5] + rng.standard_normal(n)
    # Before scikit-learn 1.7 it is `n_alphas` that is a number.
    number = "n_alphas" if "1.6" <= sklearn.__version__[:3] < "1.7" else "alphas"
    options_of_all = {"cv": of_folds(n, 4), "tol": 1e-11, "max_iter": 100_000, number: 30}
    theirs = ElasticNetCV(**{**options_of_all, "l1_ratio": 1.0, **options}).fit(X, y)
    chunks = [(X[i : i + 37], y[i : i + 37]) for i in range(0, n, 37)]
    model = MomentLassoCV(cv=4, alphas=30, tol=1e-12, **options)
    parts = [Moments.of(X[k::4], y[k::4]) for k in range(4)]
    for fitted in (
        clone(model).fit(X, y),
        clone(model).fit(sparse.csr_array(X), y),
        clone(model).fit_rows(iter(chunks)),
        clone(model).fit_moments(parts),
    ):
        np.testing.assert_allclose(fitted.alphas_, theirs.alphas_, rtol=1e-9)
        np.testing.assert_allclose(fitted.mse_path_, theirs.mse_path_, rtol=1e-6)
        assert fitted.alpha_ == pytest.approx(theirs.alpha_)
        np.testing.assert_allclose(fitted.coef_, theirs.coef_, atol=1e-6)
        assert fitted.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)


def test_cross_validation_weighs_rows_and_takes_several_targets(rng):
    X = rng.standard_normal((60, 4))
    Y = np.column_stack([X[:, 0], X[:, 1] - X[:, 2]]) + 0.1 * rng.standard_normal((60, 2))
    # A row of weight 2 is two equal rows, in the fold of the one.
    weights = np.tile([1.0, 2.0, 0.0], 20)
    places = np.arange(60) % 3
    folds = [
        Moments.of(
            np.repeat(X[places == k], 1 + (k == 1), axis=0),
            np.repeat(Y[places == k], 1 + (k == 1), axis=0),
        )
        for k in range(2)
    ]
    model = MomentLassoCV(cv=3, alphas=[0.1, 0.01])
    with pytest.raises(ValueError, match=r"\[20.0, 40.0, 0\] rows"):
        model.fit(X, Y, weights)
    found = MomentLassoCV(cv=6, alphas=[0.1, 0.01])
    with pytest.raises(ValueError, match="two folds or more"):
        found.fit_moments(folds[:1])
    found.fit_moments(folds)
    assert found.mse_path_.shape == (2, 2)
    assert found.coef_.shape == (2, 4)
    assert found.dual_gap_.shape == (2,)
    of_each = [MomentLassoCV(alphas=[0.1, 0.01]).fit(X, y).mse_path_ for y in Y.T]
    np.testing.assert_allclose(
        MomentLassoCV(alphas=[0.1, 0.01]).fit(X, Y).mse_path_, np.mean(of_each, axis=0), rtol=1e-9
    )
    assert not hasattr(found, "partial_fit")
