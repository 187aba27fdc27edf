"""Weights of rows are repeated rows, for every estimator that takes weights."""

import inspect

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import log_loss
from sklearn.utils.validation import has_fit_parameter

from histrs._repeats import distinct_rows, equal_rows
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
    SPDGPClassifier,
    SPDGPRegressor,
    TabularGPClassifier,
)
from histrs.gaussian_process.kernels import Divergence
from histrs.kernel_approximation import SparseAdditiveMap
from histrs.svm import BundleSVC, IntersectionSVC
from tests.all_estimators import CASES, data
from tests.helpers import with_amplitude

pytest.importorskip("array_api_strict")

from tests.contract import answers
from tests.test_every_estimator import assert_equal

each = pytest.mark.parametrize
CLASSIFIERS = [IntersectionGPClassifier, MinMaxGPClassifier, TabularGPClassifier]
REGRESSORS = [IntersectionGPRegressor, MinMaxGPRegressor, SPDGPRegressor]

# What counts rows by its nature, and says so in its docstring: whose neighbours, which of a class
# are chosen, and steps from row to row.
COUNT_ROWS = {
    *("MetricKNNClassifier", "MetricKNNRegressor", "IntersectionSVC", "MomentLassoCV"),
    *("CondensedNN", "FastCondensedNN", "ReducedNN", "RandomSubset", "RandomMutationNN"),
}


def name_of(case):
    return type(case.make()).__name__


def weighted(case):
    return has_fit_parameter(case.make(), "sample_weight")


def balanced(case):
    return weighted(case) and "class_weight" in case.make().get_params()


def sample(case, seed=0, n=45):
    """Samples, targets that do not follow from them, whole weights, and the repeated rows."""
    X, y = data(case, n)
    rng = np.random.default_rng(seed)
    if y is not None and np.asarray(y).dtype.kind == "i":
        y = np.where(rng.random(n) < 0.3, 0, y)
    weights = rng.integers(0, 4, n)
    # In another order.
    rows = rng.permutation(np.repeat(np.arange(n), weights))
    return np.asarray(X), y, weights.astype(float), rows


def of(y, rows):
    return None if y is None else np.asarray(y)[rows]


def assert_same(found, expected, X):
    for name, rtol in (
        *(("decision_function", 1e-6), ("predict", 1e-6), ("transform", 1e-6)),
        ("predict_proba", 1e-3),
    ):
        if hasattr(expected, name):
            answers = [np.asarray(getattr(model, name)(X), float) for model in (found, expected)]
            size = np.max(np.abs(answers[1]), initial=1.0)
            np.testing.assert_allclose(*answers, rtol=0, atol=rtol * size, err_msg=name)


@pytest.mark.filterwarnings("ignore:.*Compressor:sklearn.exceptions.ConvergenceWarning")
@each("case", list(filter(weighted, CASES)), ids=name_of)
def test_weights_are_repeated_rows(case):
    if name_of(case) in COUNT_ROWS:
        pytest.skip("it counts rows, as its docstring says")
    X, y, weights, rows = sample(case)
    found = case.make().fit(X, y, sample_weight=weights)
    assert_same(found, case.make().fit(X[rows], of(y, rows)), X)


@pytest.mark.filterwarnings("ignore:.*Compressor:sklearn.exceptions.ConvergenceWarning")
@each("class_weight", ["balanced", {0: 0.3, 1: 2.0, 2: 0.7}], ids=["balanced", "given"])
@each("case", list(filter(balanced, CASES)), ids=name_of)
def test_weights_of_classes_count_weights_of_rows(case, class_weight):
    if name_of(case) in COUNT_ROWS:
        pytest.skip("it counts rows, as its docstring says")
    X, y, weights, rows = sample(case)
    models = (case.make().set_params(class_weight=class_weight) for _ in range(2))
    found, expected = models
    found.fit(X, y, sample_weight=weights)
    assert_same(found, expected.fit(X[rows], y[rows]), X)


def assert_refused(model, X, y, message, **weights):
    """Assert that weights are refused by name, and that a fitted model answers as before."""
    before = answers(model, X)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, **weights)
    assert_equal(answers(model, X), before)


@pytest.mark.filterwarnings("ignore")
@each("case", list(filter(weighted, CASES)), ids=name_of)
def test_bad_weights_are_named_and_change_nothing(case):
    X, y = data(case)
    model = case.make().fit(X, y)
    for bad in (-1.0, np.nan, np.inf):
        weights = np.where(np.arange(len(X)) == 3, bad, 1.0)
        assert_refused(model, X, y, rf"sample_weight\[3\] = {bad:g}", sample_weight=weights)
    assert_refused(model, X, y, "(?i)zero", sample_weight=np.zeros(len(X)))


@pytest.mark.filterwarnings("ignore")
@each("bad", [{0: -1.0}, {1: np.nan}, {1: np.inf}, {0: 0.0, 1: 0.0, 2: 0.0}], ids=str)
@each("case", list(filter(balanced, CASES)), ids=name_of)
def test_bad_weights_of_classes_are_named_and_change_nothing(case, bad):
    X, y = data(case)
    model = case.make().fit(X, y).set_params(class_weight=bad)
    assert_refused(model, X, y, "class_weight")


def test_balanced_steps_count_weights():
    # Steps differ from those of repeated rows, but not how often each class is predicted.
    case = next(case for case in CASES if name_of(case) == "IntersectionSVC")
    X, y, weights, _ = sample(case, n=300)
    weights = np.where(y == 0, 12.0, 1.0 + weights)
    model = IntersectionSVC(class_weight="balanced", random_state=0)
    total = {label: weights[y == label].sum() for label in range(3)}
    factors = {label: weights.sum() / (3.0 * total[label]) for label in total}
    same = IntersectionSVC(class_weight=factors, random_state=0).fit(X, y, sample_weight=weights)
    found = model.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(found.coef_, same.coef_)


def takes_chunks(case):
    made = case.make()
    call = getattr(made, "partial_fit", None)
    return call is not None and "sample_weight" in inspect.signature(call).parameters


@each("case", list(filter(takes_chunks, CASES)), ids=name_of)
def test_a_chunk_of_no_weight_is_no_rows(case):
    X, y, _, _ = sample(case)
    model = case.make()
    arguments = () if y is None else (y,)
    known = inspect.signature(model.partial_fit).parameters
    classes = {"classes": np.unique(y)} if "classes" in known else {}
    none = {**classes, "sample_weight": np.zeros(len(X))}
    # Whatever is in it.
    assert model.partial_fit(X + 1.0, *arguments, **none) is model
    model.partial_fit(X, *arguments, **classes)
    model.partial_fit(X + 1.0, *arguments, **none)
    assert_same(model, case.make().partial_fit(X, *arguments, **classes), X)


# ---- tables of whole numbers --------------------------------------------------------------------


def screened(seed, n):
    """A table of counts, most of which stand for rows without a finding, and few findings."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.023).astype(int)
    often = np.array([0.25, 0.3, 0.2, 0.35]) * np.where(y[:, None] == 1, 4.0, 1.0)
    spread = np.where(rng.random((n, 1)) < 0.5, 1.0, rng.gamma(1.5, 2.0, (n, 1)))
    return rng.poisson(often * spread).astype(float), y


@pytest.mark.slow
def test_a_table_of_repeated_rows_has_the_share_of_its_classes():
    X, y = screened(0, 2500)
    rows, labels = screened(1, 3000)
    assert len(np.unique(X, axis=0)) < 900
    model = TabularGPClassifier(random_state=0).fit(X, y)
    found = model.predict_proba(rows)[:, 1]
    noise = 1e-6 * np.random.default_rng(2).normal(size=X.shape)
    apart = TabularGPClassifier(random_state=0).fit(X + noise, y)
    expected = apart.predict_proba(rows)[:, 1]
    assert found.mean() == pytest.approx(y.mean(), abs=0.25 * y.mean())
    assert log_loss(labels, found) < log_loss(labels, expected) + 0.005


@each("make", CLASSIFIERS)
def test_few_cells_of_many_rows_have_the_shares_of_these(make):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (3000, 2)).astype(float)
    shares = np.array([[0.1, 0.8], [0.3, 0.4]])[tuple(X.astype(int).T)]
    y = (rng.random(3000) < shares).astype(int)
    cells = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    found = make(random_state=0).fit(X, y).predict_proba(cells)[:, 1]
    # An additive function of logits cannot be all four.
    tolerance = 0.06 if make is not IntersectionGPClassifier else 0.25
    np.testing.assert_allclose(found, [0.1, 0.8, 0.3, 0.4], atol=tolerance)


@each("make", REGRESSORS)
def test_noise_is_given_to_each_of_repeated_rows(make):
    case = next(case for case in CASES if name_of(case) == make.__name__)
    X, y, _, _ = sample(case)
    given = {"noise": 0.3, "amplitude": 0.5, "optimizer": None, "random_state": 0}
    if make is SPDGPRegressor:
        given["kernel"] = Divergence(0.5)
    given = with_amplitude(make, given)
    once, twice = (
        make(**given).fit(np.tile(X, (n, *[1] * (X.ndim - 1))), np.tile(y, n)) for n in (1, 2)
    )
    half = make(**given).fit(X, y, sample_weight=np.full(len(X), 2.0))
    stds = [model.predict(X, return_std=True)[1] for model in (once, twice, half)]
    np.testing.assert_allclose(stds[1], stds[2], rtol=1e-8)
    assert np.all(stds[1] < stds[0])


# ---- covariances that each stand twice ----------------------------------------------------------


def covariances(seed, n):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    signals = rng.standard_normal((n, 3, 12))
    signals[:, 1] *= 1.0 + 0.35 * y[:, None]
    return signals @ signals.transpose(0, 2, 1) / 12, y


@each("kernel", ["tangent", "logeuclid", "jbld"])
def test_matrices_that_stand_twice_predict_as_if_they_stood_once(kernel):
    X, y = covariances(0, 60)
    rows, labels = covariances(1, 400)
    once, twice = (
        SPDGPClassifier(kernel, random_state=0).fit(np.repeat(X, n, axis=0), np.repeat(y, n))
        for n in (1, 2)
    )
    losses = [log_loss(labels, model.predict_proba(rows)) for model in (once, twice)]
    assert losses[1] == pytest.approx(losses[0], abs=1e-3)
    target, truth = (np.log(np.linalg.det(stack)) for stack in (X, rows))
    target = target + np.random.default_rng(2).normal(size=len(X))
    once, twice = (
        SPDGPRegressor(kernel, random_state=0).fit(np.repeat(X, n, axis=0), np.repeat(target, n))
        for n in (1, 2)
    )
    assert twice.score(rows, truth) == pytest.approx(once.score(rows, truth), abs=1e-3)


def reference_of(model):
    return model.kernel_.k1.reference_


def test_the_reference_of_covariances_is_that_of_repeated_ones():
    X, y = covariances(0, 40)
    weights = np.random.default_rng(0).integers(0, 4, 40)
    found = SPDGPClassifier(random_state=0).fit(X, y, sample_weight=weights)
    rows = np.repeat(np.arange(40), weights)
    expected = SPDGPClassifier(random_state=0).fit(X[rows], y[rows])
    np.testing.assert_allclose(reference_of(found), reference_of(expected), rtol=1e-9)
    plain = SPDGPClassifier(random_state=0).fit(X, y)
    assert not np.allclose(reference_of(found), reference_of(plain), rtol=1e-3)


# ---- rows that come and go ----------------------------------------------------------------------


@each("make", [IntersectionGPRegressor, MinMaxGPRegressor])
@each("removed", [[0], [0, 20], [3, 25, 41], list(range(20, 40))])
def test_of_equal_rows_those_that_are_forgotten_take_their_weight(make, removed):
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 3)), rng.normal(size=30)
    # Rows 20 to 39 are rows 0 to 19 again; the last ten come later.
    X, y = np.vstack([X[:20], X[:20], X[20:]]), np.concatenate([y[:20], y[:20], y[20:]])
    given = {"noise": 0.3, "amplitude": 0.5, "optimizer": None, "random_state": 0}
    if make is IntersectionGPRegressor:
        given |= {"feature_weights": None, "intercept_variance": 0.0}
    given = with_amplitude(make, given)
    model = make(**given).fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    assert len(model.X_fit_) == 30
    kept = np.delete(np.arange(50), removed)
    # The unit of the targets, and the size of the MinMax kernel, stay those of the first fit.
    found = model.forget(removed)
    assert len(found._given.learned) == len(kept)
    weights = np.bincount(found._given.learned, minlength=len(found.X_fit_))
    expected = (
        np.ones(len(weights))
        if found.sample_weight_fit_ is None
        else (found.sample_weight_fit_ * found._weight_unit)
    )
    np.testing.assert_allclose(expected, weights)
    np.testing.assert_array_equal(found.X_fit_[found._given.learned], X[kept])


@each("make", [IntersectionGPRegressor, MinMaxGPRegressor])
def test_equal_rows_are_left_out_together_unless_their_targets_differ(make):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (60, 2)).astype(float)
    X[:4] = [7.0, 7.0]
    y = rng.integers(0, 2, 60).astype(float)
    y[:4] = 1.0
    given = {"noise": 0.3, "amplitude": 0.5, "optimizer": None, "random_state": 0}
    if make is IntersectionGPRegressor:
        given |= {"feature_weights": None, "intercept_variance": 0.0}
    given = with_amplitude(make, given)
    model = make(**given).fit(X, y)
    mean, std = model.predict_leave_one_out()
    assert mean.shape == (60,)
    same = np.flatnonzero(np.all(X[10] == X, axis=1) & (y[10] == y))
    assert len(same) > 1
    for rows, left_out in (([0, 1, 2, 3], [0, 1, 2, 3]), (same, [10])):
        others = make(**given).fit(X, y).forget(left_out)
        # The mean of the targets, which is taken away and added, is that of all rows.
        np.testing.assert_array_equal(mean[rows], mean[rows[0]])
        np.testing.assert_array_equal(std[rows], std[rows[0]])
        shift = abs(others.y_mean_[0] - model.y_mean_[0])
        expected, spread = others.predict(X[rows[:1]], return_std=True)
        assert mean[rows[0]] == pytest.approx(expected[0], abs=3 * shift + 1e-8)
        assert std[rows[0]] == pytest.approx(spread[0], rel=1e-6)


# ---- which rows are equal ------------------------------------------------------------------------


@each("seed", range(20))
@each("kind", [np.float64, np.float32, np.uint8, np.int32, "sparse"])
def test_equal_rows_are_found(kind, seed):
    rng = np.random.default_rng(seed)
    dtype = np.float64 if kind == "sparse" else kind
    low = -2 if np.dtype(dtype).kind in "fi" and kind != "sparse" else 0
    X = rng.integers(low, 3, (60, 3)).astype(dtype)
    Y = rng.integers(0, 2, 60)
    weights = rng.integers(1, 4, 60).astype(float)
    rows = sparse.csr_array(X) if kind == "sparse" else X
    if X.dtype.kind == "f" and kind != "sparse":
        rows = np.where(X == 0.0, -X, X)
    found = distinct_rows(rows, Y, weights)
    table = np.column_stack([X.astype(float), Y])
    expected, first, groups = np.unique(table, axis=0, return_index=True, return_inverse=True)
    assert len(found.kept) == len(expected) < 60
    np.testing.assert_array_equal(found.kept, first)
    np.testing.assert_array_equal(found.groups, groups.ravel())
    np.testing.assert_array_equal(found.weights, np.bincount(groups.ravel(), weights))
    # Where targets differ, one of the rows that it stands for is left out of each.
    alike = equal_rows(rows)
    assert len(np.unique(alike)) == len(np.unique(X, axis=0))
    together = np.bincount(alike[found.kept])[alike[found.kept]] > 1
    np.testing.assert_allclose(found.stays, np.where(together, 1.0 - 1.0 / found.weights, 0.0))


def test_rows_that_differ_stay_as_they_are():
    X, y = np.random.default_rng(0).random((20, 2)), np.arange(20.0)
    assert distinct_rows(X, y, None).kept is None
    assert distinct_rows(X, y, np.ones(20)).kept is None
    weights = np.random.default_rng(1).random(20) + 0.5
    found = distinct_rows(X, y, weights)
    # Weights that are no counts leave the order.
    np.testing.assert_array_equal(found.kept, np.arange(20))
    np.testing.assert_array_equal(found.weights, weights)
    assert found.stays is None
    missing = np.array([[np.nan, 1.0], [np.nan, 1.0], [np.nan, 2.0]])
    assert equal_rows(missing).tolist() == [0, 0, 1]


# ---- machines ------------------------------------------------------------------------------------


def test_folds_that_are_given_are_of_the_given_rows():
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 3)), np.arange(40) % 2
    X[:, 0] += y
    X, y = np.vstack([X, X[:10]]), np.append(y, y[:10])
    halves = [(np.arange(25, 50), np.arange(25)), (np.arange(25), np.arange(25, 50))]
    model = BundleSVC(alpha=[1e-3, 1e-1], cv=halves, random_state=0).fit(X, y)
    assert model.cv_scores_.shape == (2, 2)
    # What equals a row that is held out is not learned from.
    part = BundleSVC(alpha=1e-1).fit(X[25:40], y[25:40])
    counts = np.repeat([2.0, 1.0], [10, 15])
    assert model.cv_scores_[0, 0] == pytest.approx(part.score(X[:25], y[:25], counts))


def test_maps_of_machines_are_fitted_to_distinct_rows():
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 3)), np.arange(40) % 2
    weights = rng.integers(1, 4, 40)
    rows = np.repeat(np.arange(40), weights)
    make = SparseAdditiveMap(n_knots=4, spacing="quantile")
    found = BundleSVC(make, alpha=0.01).fit(X, y, sample_weight=weights)
    expected = BundleSVC(make, alpha=0.01).fit(X[rows], y[rows])
    np.testing.assert_array_equal(found.decision_function(X), expected.decision_function(X))
