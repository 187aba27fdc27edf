"""The search for hyper-parameters, by objectives of which all is known."""

from types import SimpleNamespace

import numpy as np
import pytest

from histrs.gaussian_process import _optimizer
from histrs.gaussian_process._hyperparameters import Hyperparameters, SearchSpace
from histrs.gaussian_process._kernel import GeneralizedKernel
from histrs.gaussian_process._optimizer import History, Search
from histrs.gaussian_process._spectrum import Evaluation

BOUNDS = {"noise": (1e-3, 1e3), "amplitude": (1e-2, 1e2)}


def start_at(noise, amplitude):
    return Hyperparameters(np.array([noise]), np.array([amplitude]), GeneralizedKernel())


def objective(function, *, with_gradient=True, record=None):
    space = SearchSpace(start_at(1.0, 1.0), BOUNDS)
    return _optimizer._Objective(function, space, record, np.zeros(2), with_gradient=with_gradient)


def evaluation(value, solved=True):
    gradient = {"noise": np.array([3.0]), "amplitude": np.array([-5.0])}
    return Evaluation(value, 0.0, gradient, solved)


@pytest.mark.parametrize(
    ("values", "n_steps"),
    [
        ([9.0, 8.5, 8.1], 3),
        ([9.0, 8.5, 6.0, 5.9, 5.8], 5),
        # What gains just enough goes on, and what loses has gained nothing.
        ([9.0, 8.0, 7.0, 6.0], None),
        ([9.0, 9.5, 9.6], 3),
    ],
)
def test_two_steps_in_a_row_that_gain_little_are_the_last(values, n_steps):
    settled = _optimizer._Settled(1.0)
    for k, value in enumerate(values):
        result = SimpleNamespace(fun=value)
        if k + 1 == n_steps:
            with pytest.raises(StopIteration):
                settled(result)
            return
        settled(result)
    assert n_steps is None


@pytest.mark.parametrize("with_gradient", [True, False])
def test_an_objective_is_the_negative_likelihood_and_remembers_the_best(with_gradient):
    recorded = []
    found = objective(
        lambda values, names: evaluation(-float(np.log(values.noise[0]) ** 2)),
        with_gradient=with_gradient,
        record=lambda values, value: recorded.append((float(values.noise[0]), value)),
    )
    for theta in (2.0, -1.0, 3.0):
        result = found(np.array([theta, 0.0]))
        value = result[0] if with_gradient else result
        assert value == pytest.approx(theta**2)
        if with_gradient:
            np.testing.assert_array_equal(result[1], [-3.0, 5.0])
    np.testing.assert_allclose(recorded, [(np.exp(t), -(t**2)) for t in (2.0, -1.0, 3.0)])
    assert found.best[0] == pytest.approx(1.0)
    np.testing.assert_array_equal(found.best[1], [-1.0, 0.0])


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


def test_a_history_has_an_entry_an_evaluation():
    history = History([start_at(1.0, 2.0), start_at(3.0, 4.0)], [-5.0, -6.0])
    arrays = history.arrays(["noise", "amplitude"])
    np.testing.assert_array_equal(arrays["log_marginal_likelihood"], [-5.0, -6.0])
    np.testing.assert_array_equal(arrays["noise"], [[1.0], [3.0]])
    np.testing.assert_array_equal(arrays["amplitude"], [[2.0], [4.0]])


def space_of_all():
    """Return a space of scales, of the exponent and of two weights."""
    kernel = GeneralizedKernel("power", 2.0, np.array([3.0, 5.0]))
    start = Hyperparameters(np.array([0.1, 0.2]), np.array([7.0, 8.0]), kernel)
    names = ["noise", "amplitude", "exponent", "feature_weights"]
    return SearchSpace(start, {name: (0.1, 10.0) for name in names})


def test_a_space_is_a_vector_of_logarithms():
    space = space_of_all()
    theta = np.log([0.1, 0.2, 7.0, 8.0, 2.0, 3.0, 5.0])
    np.testing.assert_allclose(space.pack(space.start), theta)
    np.testing.assert_allclose(space.bounds, np.log([[0.1, 10.0]] * 7))
    values = space.unpack(theta + np.log(2.0))
    np.testing.assert_allclose(values.noise, [0.2, 0.4])
    np.testing.assert_allclose(values.amplitude, [14.0, 16.0])
    np.testing.assert_allclose(values.kernel.weights, [6.0, 10.0])
    assert values.kernel.exponent == pytest.approx(4.0)
    clipped = np.exp(space.clip(theta + np.log(2.0)))
    np.testing.assert_allclose(clipped, [0.2, 0.4, 10.0, 10.0, 4.0, 6.0, 10.0])
    some = space.only(["exponent", "noise"], values)
    assert some.names == ["noise", "exponent"]
    np.testing.assert_allclose(np.exp(some.pack(values)), [0.2, 0.4, 4.0])
    none = space.only([], values)
    assert none.bounds.shape == (0, 2)
    assert none.pack(values).shape == (0,)


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        # That noise and weights vanish is an answer.
        ("noise", 0.1, None),
        ("noise", 10.0, "noise at its upper bound 1.0e+01"),
        ("amplitude", 0.1, "amplitude at its lower bound 1.0e-01"),
        ("amplitude", 10.0, "amplitude at its upper bound 1.0e+01"),
        ("exponent", 0.1 * (1 + 1e-7), "exponent at its lower bound 1.0e-01"),
        ("exponent", 0.1 * (1 + 1e-5), None),
        ("exponent", 10.0 * (1 - 1e-7), "exponent at its upper bound 1.0e+01"),
        ("exponent", 10.0 * (1 - 1e-5), None),
        ("feature_weights", 0.1, None),
        ("feature_weights", 10.0, "feature_weights at its upper bound 1.0e+01"),
    ],
)
def test_what_has_run_into_a_bound_is_named(name, value, named):
    space = space_of_all()
    values = space.start.with_values({"noise": np.array([0.3, 0.4])})
    # One of several is enough.
    changed = value if name == "exponent" else np.array([1.0, value])
    theta = space.pack(values.with_values({name: changed}))
    assert space.at_bounds(theta) == ([] if named is None else [named])
    fixed = SearchSpace(values, {name: (value, value)})
    assert fixed.at_bounds(fixed.clip(fixed.pack(values))) == []


@pytest.mark.parametrize("value", [0.1, 10.0, 0.0999, 10.01])
def test_a_search_starts_within_its_bounds(value):
    space = space_of_all()
    start = space.start.with_values({"feature_weights": np.array([1.0, value])})
    moved = space.only(space.names, start)
    if 0.1 <= value <= 10.0:
        moved.check_start()
    else:
        with pytest.raises(ValueError, match=f"feature_weights = {value} is outside"):
            moved.check_start()


@pytest.mark.parametrize("start", [0.0, 1.8, 2.0])
def test_corners_of_the_first_simplex_are_within_the_bounds_and_apart(start):
    space = SearchSpace(start_at(1.0, 1.0), {name: np.exp([-2.0, 2.0]) for name in BOUNDS})
    search = Search(SimpleNamespace(), space, "nelder-mead", lambda _: None)
    options = search._simplex_options(space, np.array([start, -start]))["options"]
    simplex = options["initial_simplex"]
    assert np.all(np.abs(simplex) <= 2.0 + 1e-12)
    np.testing.assert_allclose(np.abs(simplex[1:] - simplex[0]), 0.5 * np.eye(2), atol=1e-12)
    assert options["maxiter"] == 200
