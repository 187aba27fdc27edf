"""The systems of a learned kernel, solved for targets of any size, and what is kept of them."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from histrs.gaussian_process import IntersectionGPRegressor, Solver, _process, _updates
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._distributed.bound import DistributedBound
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning.hyperparameters import Scales
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._state import copied
from histrs.gaussian_process._systems.system import System
from tests.helpers import of_terms
from tests.oracles.intersection import intersection_kernel

each = pytest.mark.parametrize
N, TOL = 50, 1e-6
FIXED = {
    "optimizer": None,
    "feature_weights": None,
    "intercept_variance": 0.0,
    "solver": "cg",
    "tol": TOL,
    "random_state": 0,
}
SIZES = np.array([1e-3, 1.0, 1e4, 0.0])


@pytest.fixture(name="X")
def rows(rng):
    return rng.random((N, 4))


def draft_of(X, rng, **parameters):
    """Return a model of four targets whose units are others than 1, and its system."""
    Y = rng.normal(size=(N, 4)) * [0.1, 5.0, 1.0, 20.0]
    model = IntersectionGPRegressor(
        **of_terms(shared_hyperparameters=True, **{**FIXED, **parameters})
    )
    (system,) = model.fit(X, Y)._state()["_posterior"].systems
    return copied(model), system


def check_solved(model, X, Y, s):
    """Check weights by their residuals, each relative to the size of its target."""
    weights, size = model._standard_weights, np.max(np.abs(Y), axis=0)
    left = np.max(np.abs(Y - intersection_kernel(X) @ weights - s * weights), axis=0)
    assert np.all(left <= 1.01 * TOL * size)
    np.testing.assert_allclose(model.residual_, left * model._units(), rtol=0.05, atol=1e-12)
    np.testing.assert_array_equal(weights[:, size == 0.0], 0.0)


def test_targets_of_any_size_are_solved_as_if_of_size_one(X, rng):
    model, system = draft_of(X, rng)
    Y = rng.normal(size=(N, 4)) * SIZES
    model._solve_targets([system], Y, None)
    check_solved(model, X, Y, system.s)
    assert np.all(model.n_iter_[:3] > 0)
    np.testing.assert_array_equal(model.Y_fit_, Y * model._units())
    # From what is the solution, but for targets of 0, nothing is left to do.
    start = model._standard_weights.copy()
    start[:, 3] = 7.0
    model._solve_targets([system], Y, start)
    np.testing.assert_array_equal(model.n_iter_, 0)
    check_solved(model, X, Y, system.s)


def test_every_target_may_have_a_system_of_its_own(monkeypatch, X, rng):
    model, system = draft_of(X, rng)
    solve, n_solved = System.solve_targets, []

    def count(self, Y, *arguments):
        n_solved.append(Y.shape[1])
        return solve(self, Y, *arguments)

    monkeypatch.setattr(System, "solve_targets", count)
    Y = rng.normal(size=(N, 4)) * SIZES
    scales = [Scales(0.1, 1.0), Scales(0.4, 2.0), Scales(3.0, 0.5), Scales(1.0, 1.0)]
    systems = [system.with_scales(pair) for pair in scales]
    model._solve_targets(systems, Y, None)
    assert n_solved == [1, 1, 1, 1]
    check_solved(model, X, Y, np.array([one.s for one in systems]))
    assert [one.s for one in model._posterior.systems] == [one.s for one in systems]
    np.testing.assert_array_equal(model.noise_, [0.1, 0.4, 3.0, 1.0])
    np.testing.assert_array_equal(model.amplitude_, [1.0, 2.0, 0.5, 1.0])
    model._solve_targets(systems, Y, model._standard_weights)
    np.testing.assert_array_equal(model.n_iter_, 0)
    # One for all has numbers in place of arrays.
    model._solve_targets(systems[1:2], Y, None)
    assert (model.noise_, model.amplitude_) == (0.4, 2.0)
    assert isinstance(model.noise_, float)
    assert isinstance(model.amplitude_, float)


def test_targets_are_solved_less_their_level(monkeypatch, X, rng):
    model, system = draft_of(X, rng)
    Y, level = rng.normal(size=(N, 4)), np.array([0.5, -3.0, 0.0, 1.0])
    monkeypatch.setattr(type(model), "_level_of_regression", lambda _, Y: level)
    model._solve_targets([system], Y, None)
    check_solved(model, X, Y - level, system.s)


def test_the_target_that_is_farthest_from_its_solution_is_named(X, rng):
    model, system = draft_of(X, rng)
    # The second is far off beside its size, and the third in numbers.
    Y = rng.normal(size=(N, 4)) * SIZES
    exact = np.linalg.solve(intersection_kernel(X) + system.s * np.eye(N), Y)
    start = exact * [1.0, 1.5, 1.0 + 1e-3, 1.0]
    slow = replace(system, solver=Solver("cg", max_iter=1, preconditioner=None))
    with pytest.warns(ConvergenceWarning) as told:
        model._solve_targets([slow], Y, start)
    units, size = model._units(), np.max(np.abs(Y), axis=0)
    assert model.residual_[1] / (units * size)[1] > model.residual_[2] / (units * size)[2]
    assert model.residual_[1] / units[1] < model.residual_[2] / units[2]
    assert str(told[0].message) == (
        f"IntersectionGPRegressor stopped after {model.n_iter_.max()} iterations with a residual "
        f"of {model.residual_[1]:.2e} in output 1, above the tolerance "
        f"{TOL * size[1] * units[1]:.2e}: predictions may be far off. Raise max_iter of a "
        "Solver, tol or noise, or scale the features down."
    )


def test_progress_is_of_all_targets():
    left, told = np.array([0.2, np.inf, np.inf]), []
    _process._report(
        lambda residual: told.append(residual.copy()), left, slice(1, 2), np.array([0.5])
    )
    np.testing.assert_array_equal(told, [[0.2, 0.5, np.inf]])


# ---- what is kept ------------------------------------------------------------------------------


@each(
    ("parameters", "expected"),
    [
        ({}, {}),
        ({"feature_weights": [1.0, 2.0, 3.0, 4.0]}, {"feature_weights_": [1.0, 2.0, 3.0, 4.0]}),
        ({"feature_weights": [2.0] * 4}, {"feature_weights_": [2.0] * 4}),
        (
            {"interactions": [(3, 1)], "interaction_weight": 0.7},
            {"interactions_": [[1, 3]], "interaction_weight_": 0.7},
        ),
        (
            {"interactions": [(2, 0), (1, 3)], "interaction_weight": 0.7},
            {"interactions_": [[0, 2], [1, 3]], "interaction_weight_": 0.7},
        ),
        (
            {"smoothness": "cubic", "slope_weight": 0.4},
            {"smoothness_": "cubic", "slope_weight_": 0.4},
        ),
        (
            {"smoothness": "both", "slope_weight": 0.4, "rough_weight": 0.6},
            {"smoothness_": "both", "slope_weight_": 0.4, "rough_weight_": 0.6},
        ),
        ({"intercept_variance": 2.0}, {"intercept_variance_": 2.0}),
        (
            {"feature_transform": "power", "exponent": 0.5},
            {"feature_transform_": "power", "exponent_": 0.5},
        ),
    ],
)
def test_attributes_tell_the_kernel(X, rng, parameters, expected):
    model = IntersectionGPRegressor(**of_terms(**{**FIXED, **parameters})).fit(
        X, rng.normal(size=N)
    )
    attributes = {
        "feature_weights_": np.ones(4),
        "interactions_": np.empty((0, 2)),
        "interaction_weight_": 0.0,
        "smoothness_": "linear",
        "slope_weight_": 0.0,
        "rough_weight_": 0.0,
        "intercept_variance_": 0.0,
        "feature_transform_": "identity",
        "exponent_": 1.0,
        **expected,
    }
    for name, value in attributes.items():
        np.testing.assert_array_equal(getattr(model, name), value, err_msg=name)
    assert np.shape(model.interactions_) == np.shape(attributes["interactions_"])
    assert model.interactions_.dtype == np.intp
    # The knots of each feature that has part in a pair.
    n_features = len(np.unique(model.interactions_))
    assert (model.kernel_.pairs is not None) == (n_features > 0)
    assert (len(model.interaction_knots_) > 0) == (n_features > 0)
    # They are all that it is made of again.
    kernel, of_copy = (
        m._state()["_posterior"].system.kernel for m in (model, pickle.loads(pickle.dumps(model)))
    )
    assert of_copy.is_plain == kernel.is_plain
    assert of_copy.same_as(kernel)
    for name in ("transform", "exponent", "smoothness", "rough_weight", "intercept_variance"):
        assert getattr(of_copy, name) == getattr(kernel, name), name
    assert (of_copy.pairs is None) == (kernel.pairs is None)
    if kernel.pairs is not None:
        assert of_copy.interaction_weight == kernel.interaction_weight
        np.testing.assert_array_equal(of_copy.pairs.pairs, kernel.pairs.pairs)
        for ours, theirs in zip(of_copy.pairs.knots, kernel.pairs.knots, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    if kernel.is_smooth:
        assert of_copy.slope_weight == kernel.slope_weight


# ---- rows that come ------------------------------------------------------------------------------


def test_further_rows_are_solved_as_is_set_by_then(X, rng):
    Y = rng.normal(size=(N, 2))
    model = IntersectionGPRegressor(**of_terms(**{**FIXED, "solver": "cholesky"}))
    model.set_params(noise=[0.1, 0.5]).fit(X[:40], Y[:40])
    model.set_params(solver=Solver("cg", max_iter=777, preconditioner=None))
    model.partial_fit(X[40:], Y[40:])
    for system, noise in zip(model._posterior.systems, (0.1, 0.5), strict=True):
        assert system.solver == Solver("cg", max_iter=777, preconditioner=None)
        assert system.noise == noise
    np.testing.assert_array_equal(model.noise_, [0.1, 0.5])


@each("changed", [{}, {"solver": Solver("cholesky", max_iter=777)}])
def test_further_rows_go_with_the_factor_unless_the_solver_was_set(monkeypatch, X, rng, changed):
    insert, kept = _updates.insert_rows, []

    def spy(system, *arguments, **options):
        kept.append("factor" in vars(system))
        return insert(system, *arguments, **options)

    monkeypatch.setattr(_updates, "insert_rows", spy)
    y = rng.normal(size=N)
    model = IntersectionGPRegressor(**of_terms(**{**FIXED, "solver": "cholesky"})).fit(
        X[:40], y[:40]
    )
    model.set_params(**changed).partial_fit(X[40:], y[40:])
    assert kept == [not changed]
    whole = IntersectionGPRegressor(**of_terms(**{**FIXED, "solver": "cholesky"})).fit(X, y)
    K = intersection_kernel(X) + model.noise_ / model.amplitude_ * np.eye(N)
    np.testing.assert_allclose(
        K @ model._standard_weights[:, 0] * model.y_std_, y - y.mean(), atol=1e-8
    )
    np.testing.assert_allclose(
        K @ whole._standard_weights[:, 0] * whole.y_std_, y - y.mean(), atol=1e-8
    )


def problem_of(rows):
    of_fit = {"solver": Solver(), "tol": 1e-4, "log_det": "lanczos", "seed": None, "n_jobs": None}
    return Problem(rows, None, None, None, **of_fit, are_classes=False, feature_names=None)


def test_further_rows_beside_which_nothing_can_be_solved_are_refused(X, rng):
    model = IntersectionGPRegressor(**of_terms(**FIXED)).fit(X, rng.normal(size=N))
    before = model.predict(X)
    with pytest.raises(ValueError, match="entries of row 50 of X sum to"):
        model.partial_fit(np.full((1, 4), 1e300), [1.0])
    np.testing.assert_array_equal(model.predict(X), before)


def test_rows_in_memory_and_on_workers_have_systems_of_their_kind(X):
    array = pytest.importorskip("dask.array", reason="needs dask: histrs[dask]")
    for rows, kind in ((X, MinimaBound), (array.from_array(X, (20, -1)), DistributedBound)):
        assert type(problem_of(rows).bind(GeneralizedKernel())) is kind
