"""The search for hyper-parameters, by objectives of which all is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize

from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning import learner as _optimizer
from histrs.gaussian_process._learning.hyperparameters import (
    Hyperparameters,
    SearchSpace,
)
from histrs.gaussian_process._learning.learner import Search
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


def space_of_all():
    """Return a space of scales, of the exponent and of two weights."""
    kernel = GeneralizedKernel("power", 2.0, np.array([3.0, 5.0]))
    start = Hyperparameters(np.array([0.1, 0.2]), np.array([7.0, 8.0]), kernel)
    names = ["noise", "amplitude", "exponent", "feature_weights"]
    return SearchSpace(start, {name: (0.1, 10.0) for name in names})


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


@pytest.fixture
def likelihood():
    return SimpleNamespace(shape=(40, 1), has_gradient=True, has_spectrum=True)


def no_generator():
    raise AssertionError("nothing is drawn")


def search_of(likelihood, start, names, **options):
    bounds = {name: (1e-4, 1e4) for name in names}
    told = []
    method = options.pop("method", "l-bfgs-b")
    search = Search(likelihood, SearchSpace(start, bounds), method, told.append, **options)
    return search, told


class Refined:
    """Quadratic likelihoods of the logarithm of noise, each finer than the one before."""

    def __init__(self, centres, tops):
        self.centres, self.tops, self.n = centres, tops, 0

    def refine(self):
        if self.n + 1 == len(self.centres):
            return False
        self.n += 1
        return True

    def evaluate(self, values, outputs):
        off = np.log(values.noise) - self.centres[self.n]
        slope = {"noise": np.array([-20.0 * off])}
        return Evaluation(self.tops[self.n] - 10.0 * off**2, 0.0, slope)


@pytest.mark.parametrize(
    ("centres", "tops", "n_refinements"),
    [
        # Neither the place nor the likelihood is settled.
        ([2.0, 1.0, 0.0, -1.0], [100.0, 110.0, 120.0, 130.0], 3),
        # The place is, ...
        ([2.0, 1.0, 0.96, -1.0], [100.0, 110.0, 120.0, 130.0], 2),
        ([2.0, 1.94, 0.96, -1.0], [100.0, 110.0, 120.0, 130.0], 3),
        # ... or the likelihood, by 1e-5 of a hundred samples.
        ([2.0, 1.0, 0.0, -1.0], [100.0, 100.0009, 120.0, 130.0], 1),
        ([2.0, 1.0, 0.0, -1.0], [100.0, 100.0011, 100.0022, 100.0033], 3),
    ],
)
def test_quadratures_are_refined_until_place_or_likelihood_is_settled(centres, tops, n_refinements):
    spectrum = Refined(centres, tops)
    stub = SimpleNamespace(
        shape=(100, 1),
        has_gradient=True,
        has_spectrum=True,
        spectrum=lambda _: spectrum,
        diagonal_mean=lambda _: 1.0,
    )
    search, _ = search_of(stub, start_at(1.0, 1.0), ["noise"])
    optimum = search.run(0, no_generator)
    assert spectrum.n == n_refinements
    assert np.log(optimum.values.noise[0]) == pytest.approx(centres[n_refinements], abs=1e-3)


@pytest.mark.parametrize("names", [["noise"], ["amplitude"], ["noise", "amplitude"]])
@pytest.mark.parametrize("mean", [4.0, 0.25, 0.0])
def test_every_ratio_is_tried_with_the_amplitude_that_is_best(names, mean):
    unit = mean or 1.0

    def best_amplitude(ratio, outputs):
        assert outputs == slice(0, 1)
        # Some kernels have none.
        return np.inf if ratio > 500.0 * unit else 0.0 if ratio < 2e-6 * unit else 3.0 * ratio**0.1

    spectrum = SimpleNamespace(best_amplitude=best_amplitude)
    stub = SimpleNamespace(diagonal_mean=lambda values: mean * len(values.scales()))
    search, _ = search_of(stub, start_at(0.5, 7.0), names)
    found = search._scale_candidates(spectrum, search.space, slice(0, 1))
    ratios = np.logspace(-6, 3, 28) * unit
    if len(names) == 2:
        ratios = ratios[(ratios <= 500.0 * unit) & (ratios >= 2e-6 * unit)]
    assert len(found) == len(ratios)
    for values, ratio in zip(found, ratios, strict=True):
        amplitude = 3.0 * ratio**0.1 if len(names) == 2 else 0.5 / ratio
        expected = {
            "noise": ratio * (7.0 if names == ["noise"] else amplitude),
            "amplitude": 7.0 if names == ["noise"] else amplitude,
        }
        for name, value in expected.items():
            clipped = np.clip(value, 1e-4, 1e4) if name in names else value
            assert values.get(name)[0] == pytest.approx(clipped)


@pytest.mark.parametrize(
    ("success", "status", "n_iter", "complains"),
    [
        (True, 0, 0, False),
        (False, 99, 0, False),
        (False, 99, 100, False),
        (False, 2, 0, True),
        (False, 1, 100, True),
        # It ended in the noise of the solver, once it had moved.
        (False, 2, 7, False),
        (True, 0, 100, False),
    ],
)
def test_a_search_complains_that_has_not_moved_or_not_ended(
    monkeypatch, likelihood, success, status, n_iter, complains
):
    result = SimpleNamespace(success=success, status=status, nit=n_iter, message="words")

    def minimize(objective, start, **options):
        objective(start)
        return result

    monkeypatch.setattr(_optimizer, "optimize", SimpleNamespace(
        minimize=minimize, Bounds=optimize.Bounds
    ))  # fmt: skip
    search, _ = search_of(likelihood, start_at(1.0, 1.0), ["noise"])
    value = evaluation(-3.0)
    optimum = search._search(lambda *_: value, search.space, None, 1)
    assert optimum.complaint == ("words" if complains else None)
    assert optimum.likelihood == -3.0


@pytest.mark.parametrize("n_restarts", [1, 3])
def test_restarts_are_drawn_between_the_bounds_and_the_best_is_kept(likelihood, n_restarts):
    search, _ = search_of(likelihood, start_at(1.0, 1.0), ["noise"])
    runs = []

    def run(start):
        runs.append(float(start.noise[0]))
        if len(runs) == 2:
            raise np.linalg.LinAlgError
        return _optimizer.Optimum(start, -abs(len(runs) - 3.0), None)

    search._run = run
    optimum = search.run(n_restarts, lambda: np.random.default_rng(0))
    expected = np.exp(np.random.default_rng(0).uniform(np.log(1e-4), np.log(1e4), n_restarts))
    np.testing.assert_allclose(runs, [1.0, *expected])
    # The second cannot be solved, and the third is the best.
    best = runs[0] if n_restarts == 1 else runs[2]
    assert float(optimum.values.noise[0]) == best
