"""Units, odd columns and empty columns: what is predicted scales with them, or does not change."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    LikelihoodSearch,
)
from histrs.gaussian_process._bound.scores import SumOfScores
from histrs.gaussian_process.kernels import Interactions, Intersection
from histrs.svm import BundleSVC, IntersectionSVC
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


ANY_UNIT = {
    "regression": IntersectionGPRegressor(random_state=0),
    "classes": IntersectionGPClassifier(likelihood="gaussian", random_state=0),
    "logits": IntersectionGPClassifier(likelihood="bernoulli", random_state=0),
    "softmax": IntersectionGPClassifier(likelihood="softmax", random_state=0),
    "pairs": IntersectionGPRegressor(Intersection() + Interactions(2), random_state=0),
    "levels": IntersectionGPRegressor(Intersection(levels=9), random_state=0),
}


@pytest.mark.parametrize("units", [(1e-6, 1.0, 1e9), (1e-150, 1.0, 1e150), (1e-250,), (1e250,)])
@pytest.mark.parametrize("model", ANY_UNIT.values(), ids=ANY_UNIT)
def test_units_of_columns_do_not_matter(rng, model, units):
    X, y = smooth(rng)
    if is_classifier(model):
        y = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    Z = X * units
    plain, scaled = clone(model).fit(X, y), clone(model).fit(Z, y)
    assert_close(scaled.latent_mean_and_variance(Z)[0], plain.latent_mean_and_variance(X)[0], 1e-4)


@pytest.mark.parametrize("model_class", [IntersectionGPRegressor, IntersectionGPClassifier])
def test_without_weights_the_largest_column_is_all_that_counts(rng, model_class):
    X, y = smooth(rng)
    if model_class is IntersectionGPClassifier:
        y = y > np.median(y)
    units = np.array([1e-6, 1.0, 1e9])
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


# ---- one odd column, row, value or class ---------------------------------------------------------

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


def assert_stays_in_bytes(model, rows, n_classes=None):
    scores = model.decision_function if hasattr(model, "classes_") else model.predict
    exact = scores(rows)
    model.set_params(n_bins=100)
    assert model._state()["_posterior"].score(model._predicted, 100).takes_features
    error = np.abs(scores(rows) - exact)
    assert np.all(error <= model.quantization_error_bound_ * (1 + 1e-9))
    assert np.sqrt((error**2).mean()) < 0.02 * exact[..., :n_classes].std()


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", MODELS)
def test_tables_stay_in_bytes(digits, kind, name):
    X, y = digits
    rows = made_odd(X, name)
    assert_stays_in_bytes(MODELS[kind]().fit(rows, y), rows)


@pytest.mark.parametrize("variance", ["auto", 0.0])
def test_tables_of_a_class_without_rows_stay_in_bytes(digits, variance):
    X, y = digits
    model = MODELS["classifier"]().set_params(kernel=Intersection(intercept_variance=variance))
    assert_stays_in_bytes(model.partial_fit(X, y, classes=np.arange(11)), X, 10)


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


@pytest.mark.parametrize(
    "counted", [*list(COUNTED)[:-1], pytest.param("cutting planes", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore")
def test_iterations_are_at_most_twice_as_many(digits, counted):
    X, y = digits
    plain = np.max(COUNTED[counted]().fit(X, y).n_iter_)
    # Squares of the last overflow, which linear models say.
    for name in set(ODD) - ({"huge numbers"} if counted == "cutting planes" else set()):
        found = np.max(COUNTED[counted]().fit(made_odd(X, name), y).n_iter_)
        assert found <= 2 * plain, name


# ---- columns that hold nothing -------------------------------------------------------------------

N_COLUMNS = 100_000


@pytest.fixture(scope="module")
def rows():
    """Rows with few entries: their columns, and the same among many empty ones."""
    rng = np.random.default_rng(0)
    narrow = sparse.random_array((60, 40), density=0.2, format="csr", random_state=rng)
    narrow.data += 0.1
    numbers = np.sort(rng.choice(N_COLUMNS, 40, replace=False))
    wide = sparse.csr_array(
        (narrow.data, numbers[narrow.indices], narrow.indptr), shape=(60, N_COLUMNS)
    )
    return narrow, wide, np.asarray(narrow.sum(axis=1)) + rng.normal(size=60)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"noise": 0.1, "optimizer": None},
        {"feature_transform": "power", "exponent": 0.5, "noise": 0.1, "optimizer": None},
        {"solver": "cg", "noise": 0.1, "optimizer": None, "tol": 1e-12},
        {"solver": "coordinate-descent", "noise": 0.5, "optimizer": None},
        {"smoothness": "cubic"},
        {"n_bins": 64},
        {"feature_weights": "relevance"},
    ],
    ids=str,
)
def test_empty_columns_change_no_regression(rows, parameters):
    narrow, wide, y = rows
    few, all_ = (
        build(IntersectionGPRegressor, **parameters).fit(X[:50], y[:50]) for X in (narrow, wide)
    )
    assert_allclose(all_.dual_coef_, few.dual_coef_, rtol=1e-6, atol=1e-9)
    assert_allclose(all_.predict(wide[50:]), few.predict(narrow[50:]), rtol=1e-6, atol=1e-9)
    found, wanted = (
        model.predict(X[50:], return_std=True)[1] for model, X in ((all_, wide), (few, narrow))
    )
    assert_allclose(found, wanted, rtol=1e-6)


def test_empty_columns_change_no_update(rows):
    narrow, wide, y = rows
    few, all_ = (
        IntersectionGPRegressor(noise=0.1, optimizer=None)
        .fit(X[:30], y[:30])
        .partial_fit(X[30:], y[30:])
        .forget([3, 40])
        for X in (narrow, wide)
    )
    assert_allclose(all_.predict(wide), few.predict(narrow), rtol=1e-6)


def test_empty_columns_change_no_class(rows):
    narrow, wide, y = rows
    labels = y > np.median(y)
    few, all_ = (IntersectionGPClassifier().fit(X, labels) for X in (narrow, wide))
    assert_array_equal(all_.predict(wide), few.predict(narrow))
    assert_allclose(all_.predict_proba(wide), few.predict_proba(narrow), rtol=1e-6)


def test_features_that_were_never_seen_add_to_the_variance_alone(rows):
    _, wide, y = rows
    model = IntersectionGPRegressor(
        Intersection(feature_weights=None), noise=0.1, optimizer=None
    ).fit(wide, y)
    row = wide[[0]].tolil()
    unseen = next(d for d in range(N_COLUMNS) if d not in set(wide.indices))
    row[0, unseen] = 2.0
    before, after = (model.predict(X, return_std=True) for X in (wide[[0]], sparse.csr_array(row)))
    assert_allclose(after[0], before[0])
    rise = after[1] ** 2 - before[1] ** 2
    assert_allclose(rise, 2.0 * model.amplitude_ * y.var(), rtol=1e-6)


def test_terms_and_tables_of_empty_columns_are_zero(rows):
    narrow, wide, y = rows
    few, all_ = (
        IntersectionGPRegressor(noise=0.1, optimizer=None).fit(X, y) for X in (narrow, wide)
    )
    numbers = np.unique(wide.indices)
    wanted, found = few.explain(narrow[:3]), all_.explain(wide[:3])
    for name in ("values", "std"):
        terms = getattr(found, name)
        assert_allclose(terms[:, numbers], getattr(wanted, name), rtol=1e-6, atol=1e-12)
        assert not np.any(np.delete(terms, numbers, axis=1))
    tables = all_.export_tables(16)
    scores = few.export_tables(16).scores(narrow[:9].toarray())
    assert_allclose(tables.scores(wide[:9].toarray()), scores)
