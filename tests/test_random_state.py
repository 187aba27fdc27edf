"""Gaussian processes draw what they need, by `random_state`, and nothing else."""

import inspect

import numpy as np
import pytest

from histrs import gaussian_process
from histrs._checks.validation import check_random_state
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    LikelihoodSearch,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
    SPDGPRegressor,
)

MODELS = [
    value
    for name in gaussian_process.__all__
    if inspect.isclass(value := getattr(gaussian_process, name)) and hasattr(value, "get_params")
]
FEW = [
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
    SPDGPRegressor,
]


def state_of(random):
    _, key, place, *_ = random.get_state()
    return key.tolist(), place


@pytest.fixture
def table(rng):
    X = rng.random((60, 4)) + 0.1
    return X, X[:, 0] > np.median(X[:, 0])


@pytest.mark.parametrize("make", MODELS)
def test_nothing_is_fixed_by_default(make):
    assert make().random_state is None


@pytest.mark.parametrize("make", FEW)
def test_a_fit_to_few_rows_draws_nothing(make, table):
    X, y = table
    if make is SPDGPRegressor:
        X = X[:, :, None] * X[:, None, :] + np.eye(4)
    own, shared = np.random.RandomState(3), check_random_state(None)
    before = [state_of(own), state_of(shared)]
    make().fit(X, y)
    model = make(random_state=own).fit(X, y)
    if hasattr(model, "log_marginal_likelihood"):
        model.log_marginal_likelihood()
    assert [state_of(own), state_of(shared)] == before


def test_restarts_and_random_vectors_are_drawn(table):
    X, y = table
    own = np.random.RandomState(3)
    IntersectionGPRegressor(random_state=own, optimizer=LikelihoodSearch(n_restarts=1)).fit(X, y)
    assert state_of(own) != state_of(np.random.RandomState(3))
    own = np.random.RandomState(3)
    IntersectionGPRegressor(solver="cg", random_state=own).fit(X, y)
    assert state_of(own) != state_of(np.random.RandomState(3))


def test_an_int_gives_the_same_fit(table):
    X, y = table
    first, again = (
        IntersectionGPRegressor(solver="cg", random_state=7).fit(X, y).predict(X, return_std=True)
        for _ in range(2)
    )
    others = [
        IntersectionGPRegressor(solver="cg").fit(X, y).predict(X, return_std=True) for _ in range(2)
    ]
    assert np.array_equal(first, again)
    assert not np.array_equal(*others)
