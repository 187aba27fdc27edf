"""Gaussian processes answer in the precision of what is asked and learned from."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import is_regressor

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from tests.all_estimators import CASES, ROWS, data
from tests.helpers import assert_close

GPS = [
    case
    for case in CASES
    if "GP" in type(case.make()).__name__ and "Tabular" not in type(case.make()).__name__
]
NAMES = [type(case.make()).__name__ for case in GPS]


def fitted(case, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case.make().fit(X, y)


def answers(model, X):
    """Every answer that is no whole number."""
    found = {}
    for name in ("decision_function", "predict_proba", "latent_mean_and_variance"):
        if hasattr(model, name):
            found[name] = getattr(model, name)(X)
    found["std"] = model.predict(X, return_std=True)
    if is_regressor(model):
        found["mean"] = model.predict(X)
        found["covariance"] = model.predict(X, return_cov=True)
        found["quantiles"] = model.predict(X, return_quantiles=[0.1, 0.9])
        found["samples"] = model.sample_y(X[:3], 2)
    parts = {name: part if isinstance(part, tuple) else (part,) for name, part in found.items()}
    return {
        (name, k): value
        for name, part in parts.items()
        for k, value in enumerate(part)
        if value.dtype.kind == "f"
    }


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("case", GPS, ids=NAMES)
def test_answers_are_float32_where_rows_and_targets_are(case, n_outputs):
    X, y = data(case)
    single = X.astype(np.float32)
    regression = is_regressor(case.make())
    if n_outputs == 2:
        if not regression:
            pytest.skip("labels are one column")
        y = np.column_stack([y, -y])
        # Patterns of missing targets put answers together.
        y[: len(y) // 3, 1] = np.nan
    model = fitted(case, single, y.astype(np.float32) if regression else y)
    if n_outputs == 2:
        # What each pattern draws depends on the draws before.
        asked, expected = (
            {k: v for k, v in answers(model, rows).items() if k[0] != "samples"}
            for rows in (single, single.astype(np.float64))
        )
    else:
        asked, expected = answers(model, single), answers(model, single.astype(np.float64))
    assert asked.keys() == expected.keys()
    for name, value in asked.items():
        assert value.dtype == np.float32, name
        assert expected[name].dtype == np.float64, name
        if name[0] != "samples":
            assert_close(value, expected[name], 1e-5)
    if regression:
        in_double = answers(fitted(case, single, y), single)
        assert {value.dtype for value in in_double.values()} == {np.dtype(np.float64)}


@pytest.mark.parametrize("case", [c for c in GPS if c.takes == ROWS], ids=lambda c: c.make())
def test_frames_of_single_precision(case):
    X, y = data(case)
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcd"))
    y = pd.Series(y.astype(np.float32) if is_regressor(case.make()) else y)
    model = fitted(case, frame, y)
    assert model.predict(frame, return_std=True)[1].dtype == np.float32
    mixed = frame.astype({"a": np.float64})
    assert model.predict(mixed, return_std=True)[1].dtype == np.float64
    library = pytest.importorskip("array_api_strict")
    for rows in (frame[["a"]], frame.astype("Float32"), library.asarray(frame.to_numpy())):
        assert fitted(case, rows, y).predict(rows, return_std=True)[1].dtype == np.float32


def test_further_rows_in_double_make_answers_double(rng):
    X, y = rng.random((40, 3)).astype(np.float32), rng.random(40).astype(np.float32)
    model = (
        IntersectionGPRegressor(random_state=0)
        .partial_fit(X[:20], y[:20])
        .partial_fit(X[20:30], y[20:30])
    )
    assert model.predict(X).dtype == np.float32
    assert model.predict_leave_one_out()[0].dtype == np.float32
    assert model.forget([0]).predict(sparse.csr_array(X)).dtype == np.float32
    assert model.partial_fit(X[30:], y[30:].astype(float)).predict(X).dtype == np.float64
    labels = IntersectionGPClassifier(random_state=0).fit(X, y > 0.5)
    assert labels.predict_proba(X).dtype == np.float32
    assert labels.predict_proba(X.astype(float)).dtype == np.float64


def test_what_single_precision_cannot_hold_is_infinite(rng):
    X, y = rng.random((40, 3)).astype(np.float32), rng.random(40)
    model = IntersectionGPRegressor(random_state=0).fit(X, (1e30 * y).astype(np.float32))
    mean, variance = model.latent_mean_and_variance(X)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isinf(variance))


def test_rows_may_be_named(rng):
    X, y = rng.random((30, 3)).astype(np.float32), rng.random(30).astype(np.float32)
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    assert model.predict(X=X).dtype == np.float32
    assert model.predict(X=X.astype(float)).dtype == np.float64
    # Rows that were fitted are those that are asked about.
    assert model.predict_leave_one_out()[0].dtype == np.float32
    model.fit(X.astype(float), y)
    assert model.predict_leave_one_out()[0].dtype == np.float64
