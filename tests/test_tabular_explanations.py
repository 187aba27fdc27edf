"""Predictions of blends on tables, taken apart by column and by pair of columns."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.inspection import PartialDependenceDisplay, partial_dependence

from histrs.gaussian_process import TabularGPClassifier, TabularGPRegressor
from histrs.gaussian_process._tabular import log_odds
from histrs.gaussian_process._tabular.explanation import MOST_AVERAGED

BOTH = pytest.mark.parametrize("make", [TabularGPRegressor, TabularGPClassifier])


def table(n=160, seed=0):
    """Return a frame of numbers, words and truth values, some missing, and a target."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "dose": rng.uniform(0.0, 4.0, n).round(1),
            "arm": rng.choice(["drug", "placebo"], n),
            "age": rng.normal(50.0, 10.0, n),
            "old": rng.random(n) > 0.5,
        }
    )
    y = X["dose"] * (X["arm"] == "drug") + 0.5 * X["old"] + 0.1 * rng.normal(size=n)
    X.loc[::12, "dose"] = None
    return X, y.to_numpy()


def fitted(make, X, y, **parameters):
    """Return a model of a target, or of whether it is large."""
    y = y if make is TabularGPRegressor else y > np.median(y)
    return make(random_state=0, **parameters).fit(X, y)


def predictions(model, X):
    return getattr(model, "decision_function", model.predict)(X)


def sums(found):
    return found.offset + found.values.sum(axis=1) + found.remainder


@BOTH
@pytest.mark.parametrize("members", ["auto", ["levels"], ["radial"]])
def test_parts_add_up_to_predictions(make, members):
    X, y = table()
    given = {"target_transform": "identity"} if make is TabularGPRegressor else {}
    model = fitted(make, X, y, members=members, **given)
    rows, _ = table(30, seed=1)
    # A value that no training row lacks.
    rows.loc[3:9, "age"] = None
    found = model.explain(rows)
    expected = predictions(model, rows)
    assert_allclose(sums(found), expected, rtol=0, atol=1e-9)
    assert_allclose(found.prediction, expected, rtol=0, atol=1e-9)
    assert found.names[:4].tolist() == list(X.columns)
    assert found.data.shape == rows.shape
    assert found.data[0].tolist() == [None, *rows.iloc[0, 1:]]
    assert found.scale == ["identity" if make is TabularGPRegressor else "log-odds"]
    assert found.values.shape == found.std.shape == (30, len(found.names))
    if members == ["radial"]:
        assert not found.values.any()
        assert found.fraction == 0.0
        assert len(found.pairs) == 0


@BOTH
def test_a_sum_over_columns_has_no_remainder_to_speak_of(make):
    X, y = table()
    model = fitted(make, X, y, members=["levels"])
    found = model.explain(X)
    # Corrections and calibration alone are left.
    assert found.fraction > (0.97 if make is TabularGPRegressor else 0.6)
    assert "dose & arm" in found.names
    assert found.pairs.shape == (len(found.names) - 4, 2)
    assert found.offset == pytest.approx(found.prediction.mean())


@BOTH
def test_a_column_changes_its_own_terms_alone(make):
    X, y = table()
    model = fitted(make, X, y, members=["levels"])
    before, after = (model.explain(rows) for rows in (X, X.assign(dose=2.0)))
    of_dose = np.array(["dose" in name for name in before.names])
    np.testing.assert_array_equal(before.values[:, ~of_dose], after.values[:, ~of_dose])
    assert np.ptp(before.values[:, 0]) > 0.0
    assert np.ptp(after.values[:, 0]) == 0.0
    assert_allclose(before.values[:, :4].mean(axis=0), 0.0, atol=1e-9)


def test_terms_are_the_posterior_of_functions_of_columns():
    # Too few rows for pairs: a function is what the latent one changes by with its column.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    X[::7, 1] = np.nan
    y = 5.0 * np.abs(X[:, 0]) + np.isnan(X[:, 1])
    model = TabularGPRegressor(members=["levels"], target_transform="identity", random_state=0)
    fit = model.fit(X, y)._fits[0].blend
    (member,) = fit.members
    found = model.explain(X[:5])
    for d in range(3):
        rows = np.repeat(X[:1], 95, axis=0)
        rows[:, d] = np.concatenate([X[:, d], X[:5, d]])
        rows = member.view(model._reader.rows(rows, np.empty((95, 0))))
        less_mean = np.hstack([np.full((5, 90), -1 / 90), np.eye(5)])
        latent = member.posterior.bound.cross_product(
            member.posterior.bound.rows_of(rows), member.posterior.weights
        )
        (covariance,) = member.posterior.latent_covariance(rows)
        std = np.sqrt(np.diag(less_mean @ covariance @ less_mean.T))
        assert_allclose(found.values[:, d], fit.unit * (less_mean @ latent)[:, 0], atol=1e-9)
        assert_allclose(found.std[:, d], fit.unit * std, rtol=1e-6, atol=1e-9)


def test_explanations_of_transformed_targets_are_on_their_scale():
    X, y = table()
    model = fitted(TabularGPRegressor, X, np.exp(3.0 * y), target_transform="log")
    found = model.explain(X)
    assert found.scale == ["log"]
    assert_allclose(sums(found), found.prediction, atol=1e-9)
    # Of a lognormal target, the mean and the median are the exponential and a little more.
    assert np.corrcoef(found.prediction, np.log(model.predict(X)))[0, 1] > 0.99


def test_explanations_of_several_outputs():
    X, y = table()
    Y = np.column_stack([y, X["age"]])
    model = TabularGPRegressor(random_state=0, target_transform="identity").fit(X, Y)
    found = model.explain(X[:7])
    assert found.values.shape == found.std.shape == (7, len(found.names), 2)
    assert_allclose(sums(found), model.predict(X[:7]), atol=1e-9)
    assert found.fraction.shape == found.offset.shape == (2,)
    classes = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    of_classes = TabularGPClassifier(random_state=0, members=["levels"]).fit(X, classes)
    found = of_classes.explain(X[:7])
    P = of_classes.predict_proba(X[:7])
    assert_allclose(sums(found), np.log(P / (1.0 - P)), atol=1e-8)
    assert found.values.shape == (7, len(found.names), 3)


def test_classes_of_too_many_levels_are_explained_as_probabilities(monkeypatch):
    monkeypatch.setattr(log_odds, "_MOST_ENTRIES", 0.0)
    X, y = table()
    model = fitted(TabularGPClassifier, X, y, members=["levels"])
    found = model.explain(X)
    assert found.scale == ["probability"]
    assert_allclose(sums(found), model.predict_proba(X)[:, 1], atol=1e-9)
    assert found.fraction > 0.6


def test_the_fraction_is_over_training_rows():
    X, y = table(MOST_AVERAGED)
    model = fitted(TabularGPRegressor, X, y, target_transform="identity")
    found, one = model.explain(X), model.explain(X[:1])
    explained = found.values.sum(axis=1)
    covariance = np.cov(explained, found.prediction)
    assert found.fraction == pytest.approx(covariance[0, 1] / covariance[1, 1])
    assert one.fraction == found.fraction
    constant = fitted(TabularGPRegressor, X[:200], np.full(200, 3.0)).explain(X[:1])
    assert np.isnan(constant.fraction)
    assert constant.prediction == 3.0


@BOTH
def test_what_cannot_be_explained_says_so(make):
    X, y = table()
    with pytest.raises(NotFittedError):
        make().explain(X)
    model = fitted(make, X, y)
    with pytest.raises(ValueError, match="same order"):
        model.explain(X[X.columns[::-1]])


@BOTH
def test_scikit_learn_draws_partial_dependence_of_frames(make):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    if make is TabularGPClassifier and sklearn.__version__.startswith("1.6"):
        pytest.skip("scikit-learn 1.6 takes two values of a feature for two classes")
    X, y = table()
    model = fitted(make, X, y)
    found = partial_dependence(
        model, X, ["arm"], categorical_features=["arm"], kind="average", method="brute"
    )
    assert found["grid_values"][0].tolist() == ["drug", "placebo"]
    assert found["average"][0, 0] > found["average"][0, 1]
    options = {"categorical_features": ["arm", "old"], "grid_resolution": 5}
    display = PartialDependenceDisplay.from_estimator(model, X[:40], ["arm", "age"], **options)
    assert len(display.pd_results) == 2
    plt.close("all")
