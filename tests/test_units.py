"""Targets and columns of any unit: what is predicted scales with them."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    LikelihoodSearch,
)
from histrs.gaussian_process.kernels import Intersection
from tests.all_estimators import CASES, data
from tests.helpers import assert_close, build

SOLVERS = ["auto", "cg"]
each_solver = pytest.mark.parametrize("solver", SOLVERS)


def smooth(rng, n=120):
    X = rng.random((n, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=n)


def coverage(model, X, y):
    mean, std = model.predict(X, return_std=True)
    return np.mean(np.abs(y - mean) < 1.96 * std)


@each_solver
@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1e-5, 1e7, 1e12, 1e160])
def test_predictions_scale_with_the_targets(rng, solver, unit):
    X, y = smooth(rng)
    X_star, y_star = smooth(rng)
    model = IntersectionGPRegressor(solver=solver, random_state=0).fit(X, y)
    scaled = IntersectionGPRegressor(solver=solver, random_state=0).fit(X, unit * y)
    # The arithmetic is the same but for the rounding of the targets.
    np.testing.assert_allclose(scaled.noise_, model.noise_, rtol=1e-4)
    np.testing.assert_allclose(scaled.amplitude_, model.amplitude_, rtol=1e-4)
    np.testing.assert_allclose(scaled.y_std_, unit * model.y_std_, rtol=1e-12)
    mean, std = model.predict(X_star, return_std=True)
    scaled_mean, scaled_std = scaled.predict(X_star, return_std=True)
    assert_close(scaled_mean / unit, mean, 1e-4)
    np.testing.assert_allclose(scaled_std / unit, std, rtol=1e-3)
    if 1e-150 < unit < 1e150:
        assert scaled.score(X_star, unit * y_star) == pytest.approx(
            model.score(X_star, y_star), abs=1e-4
        )
    assert coverage(scaled, X_star, unit * y_star) == coverage(model, X_star, y_star) > 0.85


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-17, 2.0**23, 2.0**40])
def test_powers_of_two_leave_every_bit(rng, unit):
    X, y = smooth(rng)
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    scaled = IntersectionGPRegressor(random_state=0).fit(X, unit * y)
    assert (scaled.noise_, scaled.amplitude_) == (model.noise_, model.amplitude_)
    for actual, expected in zip(
        scaled.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(actual, unit * expected)


@pytest.mark.parametrize("model_class", [IntersectionGPRegressor, IntersectionGPClassifier])
def test_units_of_columns_do_not_matter(rng, model_class):
    X, y = smooth(rng)
    if model_class is IntersectionGPClassifier:
        y = y > np.median(y)
    units = np.array([1e-6, 1.0, 1e9])
    model, scaled = (
        model_class(random_state=0).fit(X, y),
        model_class(random_state=0).fit(X * units, y),
    )
    np.testing.assert_allclose(scaled.feature_weights_ * units, model.feature_weights_, rtol=1e-9)
    means = model.latent_mean_and_variance(X)[0]
    assert_close(scaled.latent_mean_and_variance(X * units)[0], means, 1e-6)
    # Without weights the largest column is all that counts.
    parameters = {"feature_weights": None, "intercept_variance": 0.0, "optimizer": None}
    plain = build(model_class, **parameters).fit(X, y)
    with pytest.warns(UserWarning, match="feature 2 has a spread"):
        carried = build(model_class, **parameters).fit(X * units, y)
    means = plain.latent_mean_and_variance(X)[0]
    assert np.ptp(carried.latent_mean_and_variance(X * units)[0] - means) > 0.1 * np.ptp(means)


def test_outliers_hardly_move_the_spread(rng):
    X, y = smooth(rng, 1000)
    weights = IntersectionGPRegressor(optimizer=None, random_state=0).fit(X, y).feature_weights_
    X[0, 0] = 1e6
    moved = IntersectionGPRegressor(optimizer=None, random_state=0).fit(X, y).feature_weights_
    np.testing.assert_allclose(moved, weights, rtol=0.05)


@each_solver
def test_each_target_is_fitted_as_if_alone(rng, solver):
    X, y = smooth(rng)
    Y = np.column_stack([y, 1e6 * rng.normal(size=len(y)), 1e-6 * X[:, 2]])
    model = IntersectionGPRegressor(solver=solver, random_state=0).fit(X, Y)
    assert model.noise_.shape == model.amplitude_.shape == (3,)
    mean, std = model.predict(X, return_std=True)
    for k in range(3):
        alone = IntersectionGPRegressor(solver=solver, random_state=0).fit(X, Y[:, k])
        expected_mean, expected_std = alone.predict(X, return_std=True)
        assert isinstance(alone.noise_, float)
        if solver == "auto":
            np.testing.assert_allclose(model.noise_[k], alone.noise_, rtol=1e-3)
            np.testing.assert_allclose(model.amplitude_[k], alone.amplitude_, rtol=1e-2)
            assert_close(mean[:, k] - Y[:, k].mean(), expected_mean - Y[:, k].mean(), 1e-2)
        np.testing.assert_allclose(std[:, k], expected_std, rtol=0.1)


def test_one_pair_for_all_targets_on_request(rng):
    X, y = smooth(rng)
    Y = np.column_stack([y, rng.normal(size=len(y))])
    shared = IntersectionGPRegressor(random_state=0, optimizer=LikelihoodSearch(shared=True)).fit(
        X, Y
    )
    each = IntersectionGPRegressor(random_state=0, optimizer=LikelihoodSearch(shared=False)).fit(
        X, Y
    )
    assert isinstance(shared.noise_, float)
    assert np.min(each.noise_) < shared.noise_ < np.max(each.noise_)
    assert each.log_marginal_likelihood() > shared.log_marginal_likelihood()
    np.testing.assert_array_equal(
        each.noise_, IntersectionGPRegressor(random_state=0).fit(X, Y).noise_, "is the default"
    )


def test_classes_share_unless_told(rng):
    X, y = smooth(rng)
    y = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    assert isinstance(IntersectionGPClassifier(random_state=0).fit(X, y).noise_, float)
    model = IntersectionGPClassifier(random_state=0, optimizer=LikelihoodSearch(shared=False)).fit(
        X, y
    )
    assert model.noise_.shape == (3,)
    assert model.predict(X, return_std=True)[1].shape == (len(y), 3)
    assert model.score(X, y) > 0.6


def test_given_values_for_each_target(rng):
    X, y = smooth(rng)
    Y = np.column_stack([y, 10 * y])
    parameters = {"optimizer": None, "variance": "exact"}
    both = build(IntersectionGPRegressor, noise=[0.1, 0.5], amplitude=[1.0, 2.0], **parameters).fit(
        X, Y
    )
    mean, std = both.predict(X, return_std=True)
    for k, (noise, amplitude) in enumerate([(0.1, 1.0), (0.5, 2.0)]):
        alone = build(IntersectionGPRegressor, noise=noise, amplitude=amplitude, **parameters)
        expected_mean, expected_std = alone.fit(X, Y[:, k]).predict(X, return_std=True)
        np.testing.assert_allclose(mean[:, k], expected_mean, rtol=1e-8)
        np.testing.assert_allclose(std[:, k], expected_std, rtol=1e-8)
    for noise in ([0.1, 0.2, 0.3], [0.1, -0.2], [0.1, np.nan]):
        with pytest.raises(ValueError, match="noise"):
            build(IntersectionGPRegressor, noise=noise, **parameters).fit(X, Y)


@pytest.mark.parametrize("value", [0.0, 7.0, 1e160, 1e-300])
def test_constant_targets(rng, value):
    X = rng.random((20, 2))
    with pytest.warns(ConvergenceWarning, match="constant"):
        model = IntersectionGPRegressor(random_state=0).fit(X, np.full(20, value))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, value)
    assert np.all(std > 0.0)
    assert np.all(std <= 4.0 * model.y_std_)
    assert model.y_std_ == max(1e-14 * value, np.finfo(np.float64).tiny)


WITH_STD = [case for case in CASES if hasattr(case.make(), "sample_y")]


@pytest.mark.parametrize("case", WITH_STD, ids=lambda case: type(case.make()).__name__)
@pytest.mark.parametrize("value", [0.0, 3.0, -5e8, 2e-9, 1e150])
@pytest.mark.filterwarnings("ignore")
def test_a_target_of_one_value_is_sure_whatever_its_unit(case, value):
    X, y = data(case)
    y = y - y.mean()
    almost_none = max(1e-13 * abs(value), 1e-300)

    def check(mean, std):
        np.testing.assert_array_equal(mean, value)
        assert np.all((std > 0.0) & (std <= almost_none))

    model = case.make().fit(X, np.full(len(X), value))
    check(*model.predict(X, return_std=True))
    # Beside another target, and with a spread of rounding.
    both = case.make().fit(X, np.column_stack([np.full(len(X), value), y]))
    mean, std = both.predict(X, return_std=True)
    check(mean[:, 0], std[:, 0])
    assert std[:, 1].min() > 1e-6
    rounded = value * (1.0 + 4e-16 * (np.arange(len(X)) % 2))
    assert np.all(case.make().fit(X, rounded).predict(X, return_std=True)[1] <= almost_none)
    # What comes later has a unit.
    unit = max(abs(value), 1.0)
    model.partial_fit(X, value + unit * y)
    mean, std = model.predict(X, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all((std > 1e-3 * unit) & (std < 1e3 * unit))


def test_one_row(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = IntersectionGPRegressor(random_state=0).fit([[1.0, 2.0]], [3.0])
    mean, std = model.predict([[1.0, 2.0], [5.0, 0.0]], return_std=True)
    np.testing.assert_array_equal(mean, 3.0)
    assert np.all(np.isfinite(std))
    model.partial_fit([[2.0, 1.0]], [5.0])
    assert model.predict([[2.0, 1.0]]) > model.predict([[1.0, 2.0]])
    with pytest.raises(ValueError, match="at least 2 classes"):
        IntersectionGPClassifier(random_state=0).fit([[1.0, 2.0]], [3])


def test_a_column_that_carries_the_kernel_is_named(rng):
    X = rng.random((60, 3)) * [1.0, 1e5, 2.0]
    with pytest.warns(UserWarning, match=r"feature 1 has a spread .* feature_weights=\"scale\""):
        IntersectionGPRegressor(
            Intersection(feature_weights=None, intercept_variance=0.0),
            optimizer=None,
            random_state=0,
        ).fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IntersectionGPRegressor(optimizer=None, random_state=0).fit(X, X[:, 0])
        # A transform may make them alike.
        IntersectionGPRegressor(
            Intersection("power", feature_weights=None, intercept_variance=0.0, exponent=0.05),
            optimizer=None,
            random_state=0,
        ).fit(X, X[:, 0])
        # Columns of one unit, and one beside constants.
        for rows in (X[:, [0, 2]], X[:, [1]], X * [0.0, 1.0, 0.0]):
            IntersectionGPRegressor(
                Intersection(feature_weights=None, intercept_variance=0.0),
                optimizer=None,
                random_state=0,
            ).fit(rows, X[:, 0])
