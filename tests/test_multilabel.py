"""Rows of several labels, or of none."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier

from histrs.metrics import chi2_distances
from histrs.neighbors import MetricKNNClassifier
from histrs.streaming import PCARidgeClassifier
from tests.all_estimators import CASES, data

CLASSIFIERS = [case for case in CASES if is_classifier(case.make())]


@pytest.fixture(scope="module")
def rows():
    return make_multilabel_classification(n_samples=240, n_features=12, n_classes=4, random_state=0)


def indicator(case):
    """Return the rows of a case, and labels of which a row has one, two or none."""
    X, y = data(case)
    return X, np.column_stack([y == 0, y > 0, (y == 1) | (y == 0)]).astype(int)


# ---- neighbours ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("several", ["labels", "classes"])
def test_neighbours_are_those_of_scikit_learn(rows, weights, several):
    X, Y = rows
    if several == "classes":
        Y = np.column_stack([Y[:, 0] + 2 * Y[:, 1], Y[:, 2] - 3])
    model = MetricKNNClassifier(5, weights=weights).fit(X[:160], Y[:160])
    peer = KNeighborsClassifier(5, metric="precomputed", weights=weights, algorithm="brute")
    peer.fit(chi2_distances(X[:160]), Y[:160])
    D = chi2_distances(X[160:], X[:160])
    np.testing.assert_array_equal(model.predict(X[160:]), peer.predict(D))
    assert len(model.classes_) == Y.shape[1]
    for P, expected in zip(model.predict_proba(X[160:]), peer.predict_proba(D), strict=True):
        np.testing.assert_allclose(P, expected, rtol=1e-9, atol=1e-12)
    if several == "labels":
        assert model.score(X[160:], Y[160:]) == peer.score(D, Y[160:])


def test_neighbours_of_one_column_are_those_of_its_labels(rows):
    X, Y = rows
    with pytest.warns(UserWarning, match="column-vector"):
        model = MetricKNNClassifier(3).fit(X, Y[:, :1])
    expected = MetricKNNClassifier(3).fit(X, Y[:, 0])
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.predict(X).ndim == 1


def test_the_number_of_neighbours_is_chosen_by_all_labels(rows):
    X, Y = rows
    model = MetricKNNClassifier("auto", weights="auto").fit(X, Y)
    D = chi2_distances(X)
    np.fill_diagonal(D, np.inf)
    order = np.argsort(D, axis=1, kind="stable")
    wrong = {}
    for k in (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56):
        near = Y[order[:, :k]]
        # Half of the votes are not more than half.
        wrong[k] = np.mean((near.mean(axis=1) > 0.5) != Y)
    if model.weights_ == "uniform":
        assert wrong[model.n_neighbors_] == min(wrong.values())
    uniform = MetricKNNClassifier("auto").fit(X, Y)
    assert wrong[uniform.n_neighbors_] == min(wrong.values())


# ---- ridge regression on components --------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_label_is_classified_as_if_alone(rows, container, weighted):
    X, Y = rows
    weights = np.linspace(0.5, 2.0, 160) if weighted else None
    # One penalty is chosen for all labels.
    model = PCARidgeClassifier(8, alphas=2.0).fit(X[:160], container(Y[:160]), weights)
    assert model.coef_.shape == (4, 12)
    np.testing.assert_array_equal(model.classes_, np.arange(4))
    scores, P, labels = (
        getattr(model, name)(X[160:]) for name in ("decision_function", "predict_proba", "predict")
    )
    for k in range(4):
        alone = PCARidgeClassifier(8, alphas=2.0).fit(X[:160], Y[:160, k], weights)
        np.testing.assert_allclose(scores[:, k], alone.decision_function(X[160:]), rtol=1e-6)
        np.testing.assert_allclose(P[:, k], alone.predict_proba(X[160:])[:, 1], rtol=1e-6)
        np.testing.assert_array_equal(labels[:, k], alone.predict(X[160:]))
    assert log_loss(Y[160:].ravel(), P.ravel()) < 0.9 * log_loss(
        Y[160:].ravel(), np.tile(Y[:160].mean(axis=0), 80)
    )


def test_without_calibration_each_label_has_an_inverse_temperature(rows):
    X, Y = rows
    model = PCARidgeClassifier(8, alphas=2.0, calibrate=None).fit(X[:160], Y[:160])
    P = model.predict_proba(X[160:])
    for k in range(4):
        alone = PCARidgeClassifier(8, alphas=2.0, calibrate=None).fit(X[:160], Y[:160, k])
        np.testing.assert_allclose(P[:, k], alone.predict_proba(X[160:])[:, 1], rtol=1e-6)
    np.testing.assert_array_equal(P > 0.5, model.predict(X[160:]))


def test_labels_that_all_rows_have_or_none(rows):
    X, Y = rows
    Y = np.column_stack([Y[:, 0], np.ones(240), np.zeros(240)]).astype(int)
    model = PCARidgeClassifier().fit(X, Y)
    np.testing.assert_array_equal(model.predict(X)[:, 1:], Y[:, 1:])
    P = model.predict_proba(X)
    assert np.all(P[:, 1] > 0.9)
    assert np.all(P[:, 2] < 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weight": "balanced"}, "class_weight = 'balanced' needs one class per row"),
        ({"calibrate": "equal-rate"}, "calibrate = 'equal-rate' needs one class per row"),
    ],
)
def test_what_is_of_one_class_a_row_is_refused(rows, options, message):
    X, Y = rows
    model = PCARidgeClassifier().fit(X, Y[:, 0])
    before = model.predict(X)
    with pytest.raises(ValueError, match=message):
        model.set_params(**options).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_several_classes_a_row_are_refused(rows):
    X, Y = rows
    with pytest.raises(ValueError, match="give one class per row, a 1d array, or an indicator"):
        PCARidgeClassifier().fit(X, 3 * Y)
    model = PCARidgeClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="classes must be None"):
        model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="expected a class for each row"):
        model.fit_rows(X, Y, classes=[0, 1])


# ---- everything else goes by scikit-learn's wrappers ---------------------------------------------


@pytest.mark.parametrize("wrapper", [OneVsRestClassifier, MultiOutputClassifier])
@pytest.mark.parametrize("case", CLASSIFIERS, ids=lambda case: type(case.make()).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_classifier_takes_labels_through_a_wrapper(case, wrapper):
    X, Y = indicator(case)
    model = wrapper(case.make()).fit(X, Y)
    predicted = model.predict(X)
    assert predicted.shape == Y.shape
    assert np.mean(predicted == Y) > 0.6
    alone = clone(case.make()).fit(X, Y[:, 1])
    np.testing.assert_array_equal(predicted[:, 1], alone.predict(X))


@pytest.mark.parametrize("case", CLASSIFIERS, ids=lambda case: type(case.make()).__name__)
def test_labels_are_taken_or_the_error_names_the_wrappers(case):
    X, Y = indicator(case)
    model = case.make()
    if model.__sklearn_tags__().classifier_tags.multi_label:
        assert model.fit(X, Y).predict(X).shape == Y.shape
        return
    with pytest.raises(ValueError, match=r"OneVsRestClassifier or MultiOutputClassifier"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=r"1d array(?!.*OneVsRest).* MultiOutputClassifier"):
        model.fit(X, Y + np.arange(3))


def test_rows_of_dask_have_the_labels_of_others(rows):
    da = pytest.importorskip("dask.array")
    X, Y = rows
    lazy = da.from_array(X, chunks=(80, 12))
    options = {"alphas": 2.0, "calibrate": None}
    model = PCARidgeClassifier(8, **options).fit(lazy, sparse.csr_matrix(Y))
    expected = PCARidgeClassifier(8, **options).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), rtol=1e-6)
    with pytest.raises(ValueError, match="give one class per row, a 1d array, or an indicator"):
        PCARidgeClassifier(8).fit(lazy, 3 * Y)
    with pytest.warns(UserWarning, match="column-vector"):
        model.fit(lazy, np.where(Y[:, :1], 7, 3))
    np.testing.assert_array_equal(np.unique(model.predict(X)), [3, 7])


def test_weights_are_repeated_rows(rows):
    X, Y = rows
    weights = np.tile([0.0, 1.0, 2.0], 80)
    model = MetricKNNClassifier(1).fit(X, Y, sample_weight=weights)
    kept = np.flatnonzero(weights)
    expected = MetricKNNClassifier(1).fit(X[kept], Y[kept])
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    with pytest.raises(ValueError, match="class_weight = 'balanced' needs one label per row"):
        MetricKNNClassifier(class_weight="balanced").fit(X, Y)
