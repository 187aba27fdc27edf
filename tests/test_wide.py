"""Columns that hold nothing change no answer of a Gaussian process, wherever they lie."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection
from tests.helpers import build

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
