"""One odd column, row, value or class leaves fast paths on, and work at most twice as much."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._bound.scores import SumOfScores
from histrs.gaussian_process.kernels import Intersection
from histrs.svm import BundleSVC, IntersectionSVC

COLUMN = 28


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:500], y[:500]


def column_times(factor):
    return lambda X: X[:, COLUMN].__imul__(factor)


def entry(value):
    return lambda X: X.__setitem__((5, COLUMN), value)


ODD = {
    "zeros": lambda X: X[:, COLUMN].fill(0.0),
    "a constant": lambda X: X[:, COLUMN].fill(7.0),
    "negative zeros": lambda X: X[:, COLUMN].fill(-0.0),
    "one negative zero": entry(-0.0),
    "one number that is no whole one": entry(3.7),
    "numbers that are no whole ones": column_times(1.37),
    "one large number": entry(1e3),
    "one huge number": entry(1e9),
    "tiny numbers": column_times(1e-200),
    "huge numbers": column_times(1e200),
    "one row alone": lambda X: (X[:, COLUMN].fill(0.0), entry(3.0)(X)),
    "those of another column": lambda X: X[:, COLUMN].__setitem__(slice(None), X[:, COLUMN + 1]),
    "a row of zeros": lambda X: X[5].fill(0.0),
    "one large row": lambda X: X[5].__imul__(10.0),
    "one huge row": lambda X: X[5].__imul__(1e3),
    "equal rows": lambda X: X.__setitem__(slice(0, 9), X[9]),
}


def made_odd(X, name):
    """Return rows with a column, a row or a value that is odd."""
    rows = X.astype(np.float64)
    ODD[name](rows)
    return rows


MODELS = {
    "classifier": lambda: IntersectionGPClassifier(
        optimizer=None, calibration=None, random_state=0
    ),
    "regressor": lambda: IntersectionGPRegressor(optimizer=None, random_state=0),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", MODELS)
def test_tables_stay_in_bytes(digits, kind, name):
    X, y = digits
    rows = made_odd(X, name)
    model = MODELS[kind]().fit(rows, y)
    exact = (model.decision_function if kind == "classifier" else model.predict)(rows)
    model.set_params(n_bins=100)
    found = (model.decision_function if kind == "classifier" else model.predict)(rows)
    assert model._state()["_posterior"].score(model._predicted, 100).takes_features
    error = np.abs(found - exact)
    assert np.all(error <= model.quantization_error_bound_ * (1 + 1e-9))
    assert np.sqrt((error**2).mean()) < 0.02 * exact.std()


@pytest.mark.parametrize("intercept_variance", ["auto", 0.0])
def test_tables_of_a_class_without_rows_stay_in_bytes(digits, intercept_variance):
    X, y = digits
    model = MODELS["classifier"]().set_params(
        kernel=Intersection(intercept_variance=intercept_variance)
    )
    model.partial_fit(X, y, classes=np.arange(11))
    exact = model.decision_function(X)
    model.set_params(n_bins=100)
    assert model._state()["_posterior"].score(model._predicted, 100).takes_features
    error = np.abs(model.decision_function(X) - exact)
    assert np.all(error <= model.quantization_error_bound_ * (1 + 1e-9))
    assert np.sqrt((error**2).mean()) < 0.02 * exact[:, :10].std()


def test_tables_of_a_rare_class_stay_in_bytes(digits):
    X, y = digits
    y = np.where(y == 3, 2, y)
    y[0] = 3
    model = MODELS["classifier"]().fit(X, y).set_params(n_bins=100)
    assert model._state()["_posterior"].score(model._predicted, 100).takes_features


@pytest.mark.parametrize("weights", ["scale", None])
@pytest.mark.parametrize("name", ["one large number", "one large row"])
def test_what_is_odd_is_beside_the_bytes(digits, weights, name):
    X, y = digits
    rows = made_odd(X, name)
    model = IntersectionGPRegressor(
        Intersection(feature_weights=weights), optimizer=None, random_state=0
    )
    model.fit(rows, np.column_stack([y, y == 3]))
    exact = model.predict(rows)
    model.set_params(n_bins=100)
    score = model._state()["_posterior"].score("mean", 100)
    beside = score if score._intercepts is None else score._first
    assert isinstance(beside, SumOfScores)
    assert beside._second is not None
    found = model.predict(rows)
    for others in (np.asfortranarray(rows), sparse.csr_array(rows), sparse.csc_array(rows)):
        np.testing.assert_allclose(model.predict(others), found, rtol=1e-12)
    np.testing.assert_allclose(model.predict(rows[5:6]), found[5:6], rtol=1e-12)
    np.testing.assert_allclose(model.predict(rows.astype(np.float32)), found, rtol=1e-5, atol=1e-4)
    # Of bytes as of the numbers that they are.
    as_bytes = X.astype(np.uint8)
    np.testing.assert_allclose(model.predict(as_bytes), model.predict(X), rtol=1e-5, atol=1e-4)
    assert np.all(np.abs(found - exact) <= model.quantization_error_bound_ * (1 + 1e-9))
    for bad in (np.nan, -1.0):
        for column in (COLUMN, 3):
            spoiled = rows.copy()
            spoiled[7, column] = bad
            with pytest.raises(ValueError, match=rf"X\[7, {column}\]"):
                model.predict(spoiled)


COUNTED = {
    "steps of conjugate gradients": lambda: IntersectionGPRegressor(
        optimizer=None, solver="cg", random_state=0
    ),
    "those of a classifier": lambda: IntersectionGPClassifier(
        optimizer=None, calibration=None, solver="cg", random_state=0
    ),
    "epochs of a support vector machine": lambda: IntersectionSVC(random_state=0),
    "cutting planes": lambda: BundleSVC(alpha=0.01, random_state=0),
}


@pytest.mark.parametrize("counted", COUNTED)
@pytest.mark.filterwarnings("ignore")
def test_iterations_are_at_most_twice_as_many(digits, counted):
    X, y = digits
    plain = np.max(COUNTED[counted]().fit(X, y).n_iter_)
    # Squares of the last overflow, which linear models say.
    for name in set(ODD) - ({"huge numbers"} if counted == "cutting planes" else set()):
        found = np.max(COUNTED[counted]().fit(made_odd(X, name), y).n_iter_)
        assert found <= 2 * plain, name
