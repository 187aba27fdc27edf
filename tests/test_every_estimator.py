"""What holds of every estimator: containers, threads, copies, bad rows, arguments."""

import copy
import functools
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_param_validation

from histrs.cluster import KMedoids, MetricKMeans
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection, Splines
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import ReducedNN
from histrs.quantization import ProductQuantizer
from histrs.spd import CSP, CommonRange, Covariances, SPDProjection, Whitening
from tests.all_estimators import CASES, COVARIANCES, ROWS, SIGNALS, Case, data
from tests.helpers import CONTAINERS

pytest.importorskip("array_api_strict")

from tests.contract import ANSWERS, answers, assert_same


def name_of(case):
    return type(case.make()).__name__


def tags_of(case):
    return case.make().__sklearn_tags__()


each = pytest.mark.parametrize("case", CASES, ids=name_of)
each_of_rows = pytest.mark.parametrize(
    "case", [case for case in CASES if case.takes == ROWS], ids=name_of
)
# Those whose metric says what they take, too.
OF_MATRICES = [case for case in CASES if case.takes == COVARIANCES] + [
    Case(lambda: MetricKNNClassifier(3, metric="airm"), COVARIANCES),
    Case(lambda: MetricKMeans(3, metric="airm", random_state=0), COVARIANCES),
    Case(lambda: KMedoids(3, metric="jbld", random_state=0), COVARIANCES),
    Case(lambda: ReducedNN(metric="jbld", random_state=0), COVARIANCES),
]
each_of_matrices = pytest.mark.parametrize("case", OF_MATRICES, ids=name_of)


@functools.cache
def fitted(case):
    """Return rows with zeros, targets, and a model of them."""
    X, y = data(case)
    if case.takes == ROWS:
        X[X < 0.5] = 0.0
    return X, y, quietly(case.make().fit, X, y)


def quietly(call, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, (list, tuple)):
            assert repr(found[name]) == repr(value)
        else:
            np.testing.assert_array_equal(found[name], value)


def spoilt(case, X):
    """Return a copy with an entry that no estimator takes, in the fourth sample."""
    bad = copy.deepcopy(X)
    bad[3 if case.takes in (ROWS, COVARIANCES, SIGNALS) else 2].flat[1] = np.inf
    return bad


def calls_of(model, y):
    """Return every way to give a model rows."""
    names = [*ANSWERS, "kneighbors", "latent_mean_and_variance"]
    calls = [getattr(model, name) for name in names if hasattr(model, name)]
    # One that only counts channels looks at no signal.
    learns = model.__sklearn_tags__().requires_fit and not isinstance(model, Covariances)
    names = [name for name in ("fit", "partial_fit") if learns and hasattr(model, name)]
    with_targets = [getattr(model, name) for name in names]
    return [*calls, *(functools.partial(_with_targets, call, y) for call in with_targets)]


def _with_targets(call, y, X):
    return call(X, y) if y is not None else call(X)


@each
def test_what_is_not_fitted_says_so_whatever_the_rows(case):
    if not tags_of(case).requires_fit:
        pytest.skip("there is nothing to learn")
    X, _, _ = fitted(case)
    model = case.make()
    for name in (*ANSWERS, "kneighbors", "inverse_transform"):
        for rows in (X, spoilt(case, X)):
            if hasattr(model, name):
                with pytest.raises(NotFittedError):
                    getattr(model, name)(rows)


@each
def test_parameters_are_checked_by_name(case):
    check_param_validation(type(case.make()).__name__, case.make())


@each
def test_models_keep_their_own_rows(case):
    """What becomes of the arrays of a fit is nothing to the model: pickles of it say the same."""
    X, y = (copy.deepcopy(part) for part in fitted(case)[:2])
    model, rows = quietly(case.make().fit, X, y), copy.deepcopy(X)
    expected = answers(model, rows)
    for part in (X, y):
        if part is not None:
            part[:] = part[::-1].copy() if isinstance(part, np.ndarray) else part[::-1]
    for twin in (model, pickle.loads(pickle.dumps(model))):
        assert_equal(answers(twin, rows), expected)


@each
def test_copies_say_the_same_and_learn_by_themselves(case, tmp_path):
    X, y, model = fitted(case)
    expected = answers(model, X)
    joblib.dump(model, tmp_path / "model")
    for twin in (
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model", mmap_mode="r"),
        copy.deepcopy(model),
        copy.copy(model),
        quietly(clone(model).fit, X, y),
    ):
        assert_equal(answers(twin, X), expected)
        quietly(twin.fit, X[::-1], None if y is None else y[::-1])
    assert_equal(answers(model, X), expected)


@each_of_rows
def test_containers_of_rows_do_not_matter(case):
    X, y, model = fitted(case)
    expected = answers(model, X)
    takes_sparse = tags_of(case).input_tags.sparse
    for name, container in CONTAINERS.items():
        if name == "DataFrame" or (name.startswith(("CS", "COO")) and not takes_sparse):
            continue
        rows = container(X)
        assert_same(answers(model, rows), expected, rtol=1e-5)
        if name in ("strided", "CSR, unsorted", "CSR, duplicates"):
            again = quietly(case.make().fit, rows, y)
            # BundleSVC learns to a certified gap.
            assert_same(answers(again, X), expected, rtol=1e-2)


@each_of_matrices
def test_containers_of_matrices_do_not_matter(case):
    X, y, model = fitted(case)
    expected = answers(model, X)
    flat = X.reshape(len(X), -1)
    for rows in (flat, flat.tolist(), list(X), np.asfortranarray(X), X[::-1].copy()[::-1]):
        for asked in (model, quietly(case.make().fit, rows, y)):
            found = answers(asked, rows)
            # Matrices that are made of flat rows are flat.
            found = {k: np.reshape(v, np.shape(expected[k])) for k, v in found.items()}
            assert_same(found, expected)


@each_of_matrices
def test_what_is_no_covariance_is_named_and_changes_nothing(case):
    X, y, model = fitted(case)
    if isinstance(model, CommonRange):
        pytest.skip("it looks at variances alone")
    # A linear map is one of any matrix.
    first = isinstance(model, (CSP, SPDProjection, Whitening))
    expected, before = answers(model, X), vars(model).copy()
    lopsided = X[3] + np.triu(X[3], 1)
    for matrix in (-X[3], lopsided):
        bad = X.copy()
        bad[3] = matrix
        for call in calls_of(model, y)[first:]:
            with pytest.raises(ValueError, match=r"X\[3[,\]]"):
                call(bad)
    after = vars(model)
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items())
    assert_equal(answers(model, X), expected)


MORE = [
    *CASES,
    Case(
        lambda: IntersectionGPClassifier(
            Intersection("power", feature_weights="ard"), solver="cg", tol=1e-3, random_state=0
        )
    ),
    Case(lambda: IntersectionGPRegressor(Splines(rough_weight=1.0), solver="cg", optimizer=None)),
    Case(lambda: IntersectionGPRegressor(solver="greedy-block", noise=3.0, optimizer=None)),
    Case(lambda: IntersectionGPRegressor(solver="coordinate-descent", noise=3.0, optimizer=None)),
    Case(lambda: ProductQuantizer(2, 4, rotation="opq", n_levels=2, random_state=0)),
]


@pytest.mark.parametrize("case", MORE, ids=name_of)
def test_any_number_of_threads_gives_the_same_bits(case):
    if "n_jobs" not in case.make().get_params():
        pytest.skip("it starts no threads")
    X, y = data(case, n=130)
    one, more = (quietly(case.make().set_params(n_jobs=n).fit, X, y) for n in (1, 7))
    assert_equal(answers(more, X), answers(one, X))


@each
def test_arguments_are_not_changed(case):
    X, y, _ = fitted(case)
    kept = copy.deepcopy((X, y))
    answers(quietly(case.make().fit, X, y), X)
    for given, before in zip((X, y), kept, strict=True):
        for one, other in zip(given, before, strict=True) if given is not None else ():
            np.testing.assert_array_equal(one, other)
