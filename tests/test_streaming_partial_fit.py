"""Linear models that learn a chunk at a time: the same as from the moments of all rows."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from histrs.streaming import (
    MomentGroupLasso,
    MomentLasso,
    Moments,
    PCARidge,
    PCARidgeClassifier,
    StreamingPCA,
)

REGRESSORS = [
    PCARidge(),
    PCARidge(2, alphas=0.1),
    MomentLasso(0.01),
    MomentGroupLasso(alpha=0.01),
]


@pytest.fixture
def rows(rng):
    X = rng.random((90, 5))
    return X, X @ rng.standard_normal((5, 2)) + 0.1 * rng.standard_normal((90, 2))


def in_chunks(model, X, y, **first):
    for start in range(0, len(X), 30):
        model.partial_fit(X[start : start + 30], y[start : start + 30], **first)
        first = {}
    return model


@pytest.mark.parametrize("model", REGRESSORS, ids=repr)
@pytest.mark.parametrize("targets", [1, 2])
def test_regressors_learn_what_moments_tell(model, targets, rows):
    X, Y = rows
    y = Y if targets == 2 else Y[:, 0]
    chunked = in_chunks(clone(model), X, y)
    whole = clone(model).fit_moments(Moments.of(X, y))
    np.testing.assert_allclose(chunked.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    assert chunked.predict(X).shape == y.shape
    assert chunked.moments_.n == 90
    assert not hasattr(whole, "moments_")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_classifier_learns_what_a_whole_fit_does(n_classes, rows):
    X, _ = rows
    y = np.array(["a", "b", "c"])[np.arange(90) % n_classes]
    X = X + (y == "a")[:, None] * [1, 0, 0, 0, 0]
    chunked = in_chunks(PCARidgeClassifier(), X, y, classes=np.unique(y))
    whole = PCARidgeClassifier(selection="gcv", calibrate=None).fit(X, y)
    np.testing.assert_allclose(chunked.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(chunked.predict(X), whole.predict(X))


def test_a_class_may_come_later(rows):
    X, _ = rows
    y = np.repeat([0, 1, 2], 30)
    model = in_chunks(PCARidgeClassifier(), X, y, classes=[2, 0, 1])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


def test_what_does_not_fit_changes_nothing(rows):
    X, _ = rows
    y = np.arange(90) % 3
    model = PCARidgeClassifier()
    with pytest.raises(ValueError, match="classes is needed"):
        model.partial_fit(X, y)
    assert not hasattr(model, "n_features_in_")
    model.partial_fit(X, y, classes=[0, 1, 2])
    before = pickle.dumps(model)
    for bad_X, bad_y, classes in (
        (X[:, :2], y, None),
        (X, y, [0, 1]),
        (X, y + 1, None),
        (np.full_like(X, np.nan), y, None),
    ):
        with pytest.raises(ValueError, match=r"features|first call|not one of|NaN"):
            model.partial_fit(bad_X, bad_y, classes)
        assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (PCARidge(selection="loo"), "loo"),
        (PCARidge([1, 1], blocks=[2, 3]), "blocks"),
        (PCARidgeClassifier(selection="loo"), "loo"),
        (PCARidgeClassifier(calibrate="equal-rate"), "calibrate"),
    ],
    ids=repr,
)
def test_what_needs_the_rows_again_has_no_partial_fit(model, words):
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as error:
        model.partial_fit([[1.0], [2.0]], [0, 1])
    assert f"{words}" in str(error.value.__cause__)
    assert "needs the rows again" in str(error.value.__cause__)


def test_a_fitted_classifier_knows_its_classes(rows):
    X, _ = rows
    model = PCARidgeClassifier().fit(X, np.arange(90) % 3)
    with pytest.warns(UserWarning, match="begins anew"):
        model.partial_fit(X, np.arange(90) % 2)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


def test_a_single_first_row_is_refused(rows):
    X, Y = rows
    model = PCARidge()
    with pytest.raises(ValueError, match="two rows"):
        model.partial_fit(X[:1], Y[:1])
    assert not hasattr(model, "moments_")
    model.partial_fit(X[:2], Y[:2]).partial_fit(X[2:3], Y[2:3])
    assert model.moments_.n == 3


@pytest.mark.parametrize("way", ["fit", "fit_rows", "fit_moments"])
def test_it_begins_anew_after_another_fit_and_says_so(way, rows):
    X, Y = rows
    model = PCARidge().partial_fit(X, Y)
    getattr(model, way)(*((Moments.of(X, Y),) if way == "fit_moments" else (X, Y)))
    assert not hasattr(model, "moments_")
    with pytest.warns(UserWarning, match="begins anew"):
        model.partial_fit(X[:10], Y[:10])
    assert model.moments_.n == 10


def test_a_failed_fit_forgets_nothing(rows):
    X, Y = rows
    model = PCARidge().partial_fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), Y)
    assert model.partial_fit(X, Y).moments_.n == 180


def test_a_refused_inverse_leaves_components_as_they_were(rng):
    model = StreamingPCA(2).fit(rng.random((20, 4)))
    # The decomposition of further rows is put off.
    model.partial_fit(rng.random((5, 4)))
    before = dict(vars(model))
    with pytest.raises(ValueError, match="X has 3 columns, but StreamingPCA has 2 components"):
        model.inverse_transform(np.ones((1, 3)))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
