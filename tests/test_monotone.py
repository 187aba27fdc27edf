"""Monotone functions of columns, against posterior draws that another solver makes monotone."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

import histrs
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process.kernels import Interactions, Intersection

RISING_AND_FALLING = {0: 1, 1: -1}


def data(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    f = np.floor(4 * X[:, 0]) / 4 - X[:, 1] ** 2 + np.sin(6 * X[:, 2])
    return X, f + 0.3 * rng.normal(size=n)


def lines(X, d, n=500):
    """Rows of which one column goes from below the least value to above the largest."""
    T = np.repeat(X[:5], n, axis=0)
    T[:, d] = np.tile(np.linspace(-0.2, 1.2, n), 5)
    return T


def changes(predictions):
    return np.diff(predictions.reshape(5, -1), axis=1)


def fitted(constraints, X, y, pairs=0, **options):
    kernel = Intersection(levels=24, monotonic_cst=constraints)
    kernel = kernel + Interactions(pairs) if pairs else kernel
    return IntersectionGPRegressor(kernel, random_state=0, **options).fit(X, y)


@pytest.mark.parametrize("constraints", [RISING_AND_FALLING, [1, -1, 0]])
@pytest.mark.parametrize("pairs", [0, 2])
def test_predictions_never_go_the_other_way(constraints, pairs):
    X, y = data()
    model = fitted(constraints, X, y, pairs)
    assert not np.isin(model.interactions_, [0, 1]).any()
    for _ in range(2):
        assert np.all(changes(model.predict(lines(X, 0))) >= 0.0)
        assert np.all(changes(model.predict(lines(X, 1))) <= 0.0)
        # Nothing holds the third column, which goes up and down.
        of_third = changes(model.predict(lines(X, 2)))
        assert of_third.min() < 0.0 < of_third.max()
        # Rows that come and go change the curves, and not their directions.
        model.partial_fit(X[:30] + 0.1, -y[:30]).forget([3, 4])


def test_probabilities_of_the_second_class_never_go_the_other_way():
    X, y = data()
    kernel = Intersection(levels=24, monotonic_cst=RISING_AND_FALLING)
    model = IntersectionGPClassifier(kernel).fit(X, np.where(y > 0, "yes", "no"))
    of_yes = list(model.classes_).index("yes")
    assert np.all(changes(model.predict_proba(lines(X, 0))[:, of_yes]) >= 0.0)
    assert np.all(changes(model.predict_proba(lines(X, 1))[:, of_yes]) <= 0.0)


def test_a_curve_is_the_mean_of_monotone_draws():
    X, y = data(120)
    free, model = fitted(None, X, y), fitted({0: 1}, X, y)
    function = free.shape_functions([0], return_std=True)[0]
    at = np.argmin(np.abs(X[:, [0]] - function.knots), axis=1)
    # The posterior at the knots, from rows that differ in this column alone.
    T = np.tile(X[:1], (len(function.knots), 1))
    T[:, 0] = function.knots
    mean, covariance = free.predict(T, return_cov=True)
    covariance = covariance - free.noise_ * np.var(y) * np.eye(len(T))
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, 4000, method="eigh")
    counts = np.bincount(at, minlength=len(T)).astype(float)
    monotone = np.array([isotonic_regression(f, weights=counts).x for f in draws])
    # 200 draws of the fit differ from all by a tenth of their spread.
    near = 0.3 * monotone.std(axis=0)
    assert np.all(np.abs(model.predict(T) - monotone.mean(axis=0)) < near)
    # Other columns stay, and so do means over the training rows and standard deviations.
    np.testing.assert_allclose(model.intercept_, free.intercept_, rtol=1e-9)
    other = [m.shape_functions([2])[0].values for m in (free, model)]
    np.testing.assert_array_equal(*other)
    stds = [m.predict(X, return_std=True)[1] for m in (free, model)]
    np.testing.assert_array_equal(*stds)


def test_a_function_that_is_surely_monotone_stays():
    x = np.repeat(np.linspace(0.0, 1.0, 20), 10)[:, None]
    y = np.exp(3 * x[:, 0]) + 1e-4 * np.random.default_rng(0).normal(size=200)
    free, model = (
        IntersectionGPRegressor(Intersection(levels=200, monotonic_cst=signs)).fit(x, y)
        for signs in (None, [1])
    )
    np.testing.assert_allclose(model.predict(x), free.predict(x), rtol=1e-7)


@given(st.integers(1, 40), st.integers(0, 1000))
def test_a_column_turned_around_turns_its_sign(n, seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.random((n, 2)), 1)
    y = X[:, 0] + rng.normal(size=n)
    found = []
    for sign in (1, -1):
        kernel = Intersection(levels=6, monotonic_cst=[sign, 0])
        model = IntersectionGPRegressor(kernel, optimizer=None).fit(X * [sign, 1], y)
        found.append(model.predict(lines(X, 0)[:, :2] * [sign, 1])) if n >= 5 else None
    if found:
        assert np.all(changes(found[0]) >= 0.0)
        # The draws differ, and how far they are from the mean.
        np.testing.assert_allclose(*found, atol=0.3)


def test_explanations_copies_and_files_have_the_curves(tmp_path):
    X, y = data()
    model = fitted(RISING_AND_FALLING, X, y, pairs=1)
    rising, falling, _ = model.shape_functions(return_std=True)
    assert np.all(np.diff(rising.values) >= 0.0)
    assert np.all(np.diff(falling.values) <= 0.0)
    assert rising.std.min() > 0.0
    explanation = model.explain(X[:9])
    added = explanation.values.sum(axis=1) + explanation.offset
    np.testing.assert_allclose(added, model.predict(X[:9]), rtol=1e-9)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    model.save(tmp_path / "model")
    loaded = histrs.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-12)


def test_columns_are_known_by_name():
    pd = pytest.importorskip("pandas")
    X, y = data()
    frame = pd.DataFrame(X, columns=["age", "price", "day"])
    named = fitted({"age": 1, "price": -1}, frame, y)
    np.testing.assert_array_equal(named.predict(frame), fitted([1, -1, 0], X, y).predict(X))
    by_name, by_index = (named.shape_functions([d])[0] for d in ("price", 1))
    assert by_name.feature == 1
    np.testing.assert_array_equal(by_name.values, by_index.values)
    with pytest.raises(ValueError, match=r"features\[0\] = 'weight': there is no feature"):
        named.shape_functions(["weight"])


@pytest.mark.parametrize("n", [100, 1000])
def test_a_true_constraint_lowers_the_error(n):
    wins = 0
    for seed in range(5):
        X, y = data(n, seed)
        T = np.random.default_rng(99).random((2000, 3))
        truth = np.floor(4 * T[:, 0]) / 4 - T[:, 1] ** 2 + np.sin(6 * T[:, 2])
        errors = [
            np.mean((fitted(signs, X, y).predict(T) - truth) ** 2)
            for signs in (None, RISING_AND_FALLING)
        ]
        wins += errors[1] < errors[0]
    assert wins >= 4


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"age": 1}, "there is no feature 'age'; columns have no names"),
        ({7: 1}, "feature 7 is not one of 0 to 2"),
        ({0: 2}, "of feature 0 is 2: give 1 for increasing"),
        ({0: "up"}, "of feature 0 is 'up'"),
        ([1, 0], r"has the shape \(2,\): give a dict, or one number for each of the 3 features"),
    ],
    ids=str,
)
def test_constraints_that_mean_nothing_are_refused(constraints, message):
    with pytest.raises(ValueError, match=message):
        fitted(constraints, *data(30))


def test_what_no_constraint_goes_with_is_refused():
    X, y = data(30)
    kernel = Intersection(levels=8, monotonic_cst=[1, 0, 0])
    for model, target, message in [
        (IntersectionGPRegressor(Intersection(monotonic_cst=[1, 0, 0])), y, "set levels="),
        (IntersectionGPRegressor(kernel), np.column_stack([y, y]), "one target or two classes"),
        (IntersectionGPRegressor(kernel, likelihood="poisson"), y > 0, "Gaussian likelihood"),
        (IntersectionGPClassifier(kernel, likelihood="bernoulli"), y > 0, "monotonic_cst"),
        (IntersectionGPClassifier(kernel), np.arange(30) % 3, "two classes"),
        (IntersectionGPRegressor(kernel + Interactions([(0, 1)])), y, "no pair may have"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(X, target)
