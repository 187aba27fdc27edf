"""Every message names the row of the argument, however few of its rows were looked at."""

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.validation import has_fit_parameter

from histrs._checks.validation import with_rows_named
from histrs.detection import PartDetector
from histrs.feature_selection import SelectRelevant
from histrs.gaussian_process import IntersectionGPRegressor
from histrs.spd import MDM, Covariances, Whitening
from histrs.streaming import Moments, PCARidge, StreamingPCA
from tests.all_estimators import CASES, COVARIANCES, IMAGES, LOCAL_FEATURES, ROWS, data

pytest.importorskip("array_api_strict")

from tests.contract import ANSWERS, answers
from tests.test_every_estimator import assert_equal

NAMES = [type(case.make()).__name__ for case in CASES]
ASKED = (*ANSWERS, "kneighbors", "latent_mean_and_variance")
# Of rows in which missing values, or negative ones, are welcome.
# Added rows lack no column that all rows of the fit have.
REFUSES_NEW_GAPS = {("TabularGPRegressor", "partial_fit"), ("TabularGPClassifier", "partial_fit")}
WELCOMES_NAN = {"TabularGPClassifier", "TabularGPRegressor"}
# Those that only count channels.
LOOKS_LATER = {("Covariances", "fit")}


def spoiled(case, X, bad):
    """Return data of which one entry is bad, and the index of its row."""
    row = 1 if case.takes == IMAGES else 37
    if case.takes in (IMAGES, LOCAL_FEATURES):
        X = [x.copy() for x in X]
        X[row][3, 1] = bad
        return X, row
    X = X.copy()
    X[(row, 2) if case.takes == ROWS else (row, 2, 1)] = bad
    if case.takes == COVARIANCES:
        X[row, 1, 2] = bad
    return X, row


def ways(model, X, y):
    """Return what can be asked of a fitted estimator with rows that are spoiled."""
    asked = {name: getattr(model, name) for name in ASKED if hasattr(model, name)}
    if hasattr(model, "partial_fit"):
        asked["partial_fit"] = lambda bad: model.partial_fit(bad, y)
    asked["fit"] = lambda bad: model.fit(bad, y)
    if has_fit_parameter(model, "sample_weight") and not isinstance(model, PartDetector):
        weight = np.where(np.arange(len(X)) % 4, 1.0, 0.0)
        asked["fit with weights"] = lambda bad: model.fit(bad, y, sample_weight=weight)
    return asked


def complaint(ask, rows):
    """Return what is said of rows, or nothing."""
    try:
        ask(rows)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.filterwarnings("ignore")
def test_the_row_that_is_bad_is_named_and_changes_nothing(case):
    X, y = data(case)
    name = type(case.make()).__name__
    model = case.make().fit(X, y)
    expected = answers(model, X)
    for bad in (np.inf, np.nan):
        rows, row = spoiled(case, X, bad)
        for way, ask in ways(model, X, y).items():
            welcome = name in WELCOMES_NAN and np.isnan(bad) and (name, way) not in REFUSES_NEW_GAPS
            if (name, way) in LOOKS_LATER or welcome:
                ask(rows)
                expected = answers(model, X)
                continue
            before = vars(model).copy()
            with pytest.raises(ValueError, match=rf"\[{row}[,\]]") as found:
                ask(rows)
            # No other row.
            indices = re.findall(r"\b[XZ]\[(\d+)", str(found.value))
            assert set(indices) <= {str(row)}, (way, str(found.value))
            assert before.keys() == vars(model).keys()
            assert all(vars(model)[k] is value for k, value in before.items())
    assert_equal(answers(model, X), expected)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.filterwarnings("ignore")
def test_the_histogram_or_matrix_that_is_bad_is_named(case):
    X, y = data(case)
    if case.takes not in (ROWS, COVARIANCES):
        return
    rows, row = spoiled(case, X, -1e3)
    for ask in ways(case.make().fit(X, y), X, y).values():
        # Most take numbers of any sign.
        message = complaint(ask, rows)
        assert set(re.findall(r"\b[XZ]\[(\d+)", message)) == ({str(row)} if message else set())


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.filterwarnings("ignore")
def test_the_target_that_is_bad_is_named(case):
    X, y = data(case)
    if y is None or np.ndim(y) != 1 or not np.issubdtype(np.asarray(y).dtype, np.number):
        return
    bad = np.array(y, dtype=np.float64)
    bad[37] = np.nan
    with pytest.raises(ValueError, match=r"y\[37\]"):
        case.make().fit(X, bad)


def test_a_sparse_row_is_named():
    X = np.random.default_rng(0).integers(0, 2, (50, 8)).astype(float)
    X[37, 5] = np.nan
    for model in (IntersectionGPRegressor(), PCARidge(), SelectRelevant(task="regression")):
        for form in (sparse.csr_array, sparse.csc_array, sparse.coo_array):
            with pytest.raises(ValueError, match=r"X\[37, 5\] = NaN: Input X contains NaN"):
                model.fit(form(X), X[:, 0])


def test_rows_of_another_argument_keep_their_numbers():
    text = "X[3, 2] = NaN; X[12] and Y[3], max[3]"
    assert with_rows_named(text, lambda row: row + 10) == "X[13, 2] = NaN; X[22] and Y[3], max[3]"


def test_matrices_are_counted_in_the_argument_not_in_their_class_or_domain():
    X, _ = data(next(case for case in CASES if case.takes == COVARIANCES))
    groups = np.arange(len(X)) % 2
    bad = X.copy()
    bad[7, 2, 1] = bad[7, 1, 2] = np.nan
    indefinite = X.copy()
    indefinite[7] *= -1.0
    for rows, message in ((bad, r"X\[7, 1, 2\] = NaN"), (indefinite, r"X\[7\] is not positive")):
        for metric in ("airm", "jbld", "logeuclid"):
            with pytest.raises(ValueError, match=message):
                MDM(metric=metric).fit(rows, groups)
            with pytest.raises(ValueError, match=message):
                Whitening(metric=metric).fit(rows, domain=groups)
            model = Whitening(metric=metric).fit(X, domain=groups)
            with pytest.raises(ValueError, match=message):
                model.partial_fit(rows, domain=groups)


def test_rows_of_a_long_matrix_are_counted_in_it():
    X = np.random.default_rng(0).random((300, 3))
    X[257, 1] = np.nan
    with pytest.raises(ValueError, match=r"^Z\[257, 1\]"):
        Moments.of(X, chunk_size=100)
    # Of chunks that the user made, the chunk is named.
    with pytest.raises(ValueError, match=r"^in chunk 2, counted from 0: Z\[57, 1\]"):
        Moments.of([X[:100], X[100:200], X[200:]])
    long = np.tile(X[:100], (50, 1))
    long[4500, 2] = np.inf
    with pytest.raises(ValueError, match=r"\[4500, 2\]"):
        StreamingPCA().fit(long)


def test_partitions_of_a_cluster_are_counted():
    array = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).random((300, 3))
    X[257, 1] = np.nan
    with pytest.raises(ValueError, match=r"in chunk 2, counted from 0: Z\[57, 1\]"):
        Moments.of(array.from_array(X, chunks=(100, 3)))


@pytest.mark.parametrize("shrinkage", ["oas", "lwf", "scm", 0.1])
def test_fewer_times_than_channels_are_warned_of(shrinkage):
    trials = np.random.default_rng(0).standard_normal((4, 10, 6))
    with pytest.warns(UserWarning, match=r"6 times of 10 channels.*two axes are swapped"):
        assert Covariances(shrinkage).fit_transform(trials).shape == (4, 10, 10)
    # As many times as channels are no reason.
    Covariances("oas").fit_transform(np.random.default_rng(0).standard_normal((4, 6, 6)))
