"""The search for hyper-parameters, by objectives of which all is known."""

import numpy as np
import pytest

from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning import learner as _optimizer
from histrs.gaussian_process._learning.hyperparameters import (
    Hyperparameters,
    SearchSpace,
)
from histrs.gaussian_process._learning.spectrum import Evaluation

BOUNDS = {"noise": (1e-3, 1e3), "amplitude": (1e-2, 1e2)}


def start_at(noise, amplitude):
    return Hyperparameters(np.array([noise]), np.array([amplitude]), GeneralizedKernel())


def objective(function, *, with_gradient=True, record=None):
    space = SearchSpace(start_at(1.0, 1.0), BOUNDS)
    return _optimizer._Objective(function, space, record, np.zeros(2), with_gradient)


def evaluation(value, solved=True):
    gradient = {"noise": np.array([3.0]), "amplitude": np.array([-5.0])}
    return Evaluation(value, 0.0, gradient, solved)


@pytest.mark.parametrize("with_gradient", [True, False])
@pytest.mark.parametrize("outcome", ["fails", "not solved", "not a number"])
def test_where_nothing_is_solved_is_worse_than_all_so_far(outcome, with_gradient):
    recorded = []

    def function(values, names):
        if values.noise[0] < 10.0:
            return evaluation(-7.0 if values.noise[0] < 2.0 else 4.0)
        if outcome == "fails":
            raise np.linalg.LinAlgError
        return evaluation(np.nan if outcome == "not a number" else 1e9, outcome != "not solved")

    found = objective(function, with_gradient=with_gradient, record=lambda *_: recorded.append(1))
    for theta in (0.0, 1.0):
        found(np.array([theta, 0.0]))
    result = found(np.array([3.0, 0.0]))
    if with_gradient:
        np.testing.assert_array_equal(result[1], 0.0)
        result = result[0]
    # A cliff that a line search comes back from.
    assert result == 7.0 + 7.0 + 1.0
    assert len(recorded) == 2
    assert found.best[0] == -4.0


def test_a_start_that_fails_says_so_and_one_that_is_not_solved_counts():
    def fail(values, names):
        raise ValueError("not positive definite")

    with pytest.raises(ValueError, match="not positive definite"):
        objective(fail)(np.zeros(2))
    value, gradient = objective(lambda *_: evaluation(-2.0, False))(np.zeros(2))
    assert value == 2.0
    np.testing.assert_array_equal(gradient, [-3.0, 5.0])
