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
from histrs.gaussian_process._state import copied

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


def test_the_seed_is_that_of_the_first_draw(table):
    X, y = table
    model = IntersectionGPRegressor(solver="cg", random_state=5).fit(X, y)
    assert model._seed == np.random.RandomState(5).randint(np.iinfo(np.int32).max)


def fit_of(random_state):
    model = IntersectionGPRegressor(random_state=random_state)
    model._drawn_seed = np.array([-1])
    return model


def test_a_seed_is_drawn_once_a_fit():
    own, same = np.random.RandomState(3), np.random.RandomState(3)
    model = fit_of(own)
    copy = copied(model)
    assert state_of(own) == state_of(same)
    drawn = same.randint(np.iinfo(np.int32).max)
    assert [model._seed, model._seed, copy._seed] == [drawn] * 3
    assert state_of(own) == state_of(same)
    # Another fit draws another one.
    model._drawn_seed = np.array([-1])
    assert model._seed == same.randint(np.iinfo(np.int32).max)


def test_further_draws_follow_that_of_the_seed():
    same = np.random.RandomState(3)
    model, drawn = fit_of(3), same.randint(np.iinfo(np.int32).max)
    assert model._random().randint(1000) == same.randint(1000)
    assert model._seed == drawn
    # A generator of the user goes on, and the seed stays.
    own = np.random.RandomState(3)
    model = fit_of(own)
    first, second = model._random(), model._random()
    assert first is second is own
    assert model._seed == drawn


def test_a_seed_of_zero_is_drawn_too():
    own = np.random.RandomState(3)
    model = fit_of(own)
    model._drawn_seed[0] = 0
    assert model._seed == 0
    assert state_of(own) == state_of(np.random.RandomState(3))
    model._random()
    assert model._seed == 0
