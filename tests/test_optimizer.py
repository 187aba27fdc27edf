"""The search for hyper-parameters, by objectives of which all is known."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize

from histrs import _histrs
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel, weighted_kernel
from histrs.gaussian_process._learning import learner as _optimizer
from histrs.gaussian_process._learning.hyperparameters import (
    Hyperparameters,
    Scales,
    SearchSpace,
    check_bounds,
    checked_scales,
)
from histrs.gaussian_process._learning.learner import History, Search
from histrs.gaussian_process._learning.likelihood import BaseLikelihood
from histrs.gaussian_process._learning.spectrum import Evaluation, ExactSpectrum

BOUNDS = {"noise": (1e-3, 1e3), "amplitude": (1e-2, 1e2)}


def start_at(noise, amplitude):
    return Hyperparameters(np.array([noise]), np.array([amplitude]), GeneralizedKernel())


def objective(function, *, with_gradient=True, record=None):
    space = SearchSpace(start_at(1.0, 1.0), BOUNDS)
    return _optimizer._Objective(function, space, record, np.zeros(2), with_gradient)


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


# ---- searches ------------------------------------------------------------------------------------


class Dense(BaseLikelihood):
    """The likelihood of `A + w B` for `w`, the weight of interactions, by dense algebra."""

    def __init__(self, A, B, Y):
        super().__init__(Y)
        self.A, self.B, self.n_evaluations = A, B, 0

    def matrix(self, kernel):
        return self.A + kernel.interaction_weight * self.B

    def diagonal_mean(self, values):
        return float(np.mean(np.diag(self.matrix(values.kernel))))

    def spectrum(self, kernel):
        K = self.matrix(kernel)
        system = SimpleNamespace(kernel_matrix=K.copy)
        return ExactSpectrum(system, self.targets)

    def evaluate(self, values, names=()):
        self.n_evaluations += 1
        outputs = values.outputs(self.shape[1])
        spectrum = self.spectrum(values.kernel)
        value = sum(
            spectrum.evaluate(scales, part).value
            for scales, part in zip(values.scales(), outputs, strict=True)
        )
        return Evaluation(value, 0.0, {}, True)


@pytest.fixture
def likelihood(rng):
    X = rng.random((40, 4))
    A, B = (np.minimum(M[:, None], M[None]).sum(axis=2) for M in (X[:, :2], X[:, 2:]))
    roots = np.linalg.cholesky(3.0 * A + 0.05 * np.eye(40)), np.linalg.cholesky(A + np.eye(40))
    return Dense(A, B, np.column_stack([root @ rng.normal(size=40) for root in roots]))


def no_generator():
    raise AssertionError("nothing is drawn")


def search_of(likelihood, start, names, **options):
    bounds = {name: (1e-4, 1e4) for name in names}
    told = []
    method = options.pop("method", "l-bfgs-b")
    search = Search(likelihood, SearchSpace(start, bounds), method, told.append, **options)
    return search, told


@pytest.mark.parametrize("names", [["noise"], ["amplitude"], ["noise", "amplitude"]])
@pytest.mark.parametrize(("noise", "amplitude"), [(1.0, 1.0), (300.0, 0.02), (0.001, 50.0)])
def test_noise_and_amplitude_are_the_likeliest(likelihood, names, noise, amplitude):
    start = start_at(noise, amplitude)
    search, told = search_of(likelihood, start, names)
    optimum = search.run(0, no_generator)
    assert optimum.complaint is None
    assert optimum.likelihood == pytest.approx(likelihood.evaluate(optimum.values).value)
    assert told == search.history.likelihoods
    assert max(told) == optimum.likelihood
    assert told.count(optimum.likelihood) == 1
    for name in ("noise", "amplitude"):
        found = optimum.values.get(name)
        if name not in names:
            np.testing.assert_array_equal(found, start.get(name))
            continue
        for factor in (0.01, 0.8, 1.25, 100.0):
            other = optimum.values.with_values({name: np.clip(factor * found, 1e-4, 1e4)})
            assert likelihood.evaluate(other).value <= optimum.likelihood + 0.01


def test_outputs_that_do_not_share_scales_are_searched_one_by_one(likelihood):
    start = Hyperparameters(np.ones(2), np.ones(2), GeneralizedKernel())
    search, told = search_of(likelihood, start, ["noise", "amplitude"])
    optimum = search.run(0, no_generator)
    assert optimum.likelihood == pytest.approx(likelihood.evaluate(optimum.values).value)
    for k in range(2):
        alone = Dense(likelihood.A, likelihood.B, likelihood.targets[:, k : k + 1])
        single, _ = search_of(alone, start_at(1.0, 1.0), ["noise", "amplitude"])
        expected = single.run(0, no_generator).values
        np.testing.assert_allclose(optimum.values.noise[k], expected.noise[0], rtol=1e-3)
        np.testing.assert_allclose(optimum.values.amplitude[k], expected.amplitude[0], rtol=1e-3)
    # The history is of both together.
    assert told == [optimum.likelihood]
    assert len(search.history.values) == 1


@pytest.mark.parametrize("names", [["noise", "amplitude"], []])
def test_a_search_begins_with_the_best_kernel(likelihood, names):
    kernels = [GeneralizedKernel(interaction_weight=w) for w in (100.0, 0.0, 10.0)]
    start = start_at(3.0, 1.0)
    search, _ = search_of(likelihood, start, names, kernels=kernels)
    found = search._best_start()
    if names:
        # With the scales that suit it best, and not with those of the start.
        assert found.kernel.interaction_weight == 0.0
        assert found.noise[0] != 3.0
    else:
        values = [likelihood.evaluate(replace(start, kernel=kernel)).value for kernel in kernels]
        assert found == replace(start, kernel=kernels[int(np.argmax(values))])
    alone, _ = search_of(likelihood, start_at(0.1, 2.0), names)
    assert alone._best_start() is alone.space.start


class Estimated(Dense):
    """A likelihood that knows its values alone."""

    @property
    def has_gradient(self):
        return False

    def spectrum(self, kernel):
        raise AssertionError("this likelihood has no spectrum")

    def evaluate(self, values, names=()):
        value = Dense(self.A, self.B, self.targets).evaluate(values).value
        return Evaluation(value, 0.0, {}, True)


def test_the_best_kernel_is_told_by_values_where_no_scale_is_free(likelihood):
    known = Estimated(likelihood.A, likelihood.B, likelihood.targets)
    kernels = [GeneralizedKernel(interaction_weight=w) for w in (100.0, 0.0, 10.0)]
    start = start_at(3.0, 1.0)
    search, _ = search_of(known, start, [], kernels=kernels)
    values = [known.evaluate(replace(start, kernel=kernel)).value for kernel in kernels]
    assert search._best_start().kernel is kernels[int(np.argmax(values))]


@pytest.mark.parametrize(
    ("of_kernel", "searched"),
    [
        # A signal variance only multiplies all weights.
        ("feature_weights", ["noise", "feature_weights"]),
        ("exponent", ["noise", "amplitude", "exponent"]),
    ],
)
def test_weights_of_features_are_searched_without_the_amplitude(likelihood, of_kernel, searched):
    start = replace(start_at(1.0, 1.0), kernel=GeneralizedKernel("power", weights=np.ones(4)))
    search, _ = search_of(likelihood, start, ["noise", "amplitude", of_kernel])
    spaces = []

    def note(space):
        spaces.append(space.names)
        return _optimizer.Optimum(space.start, 1.0, None)

    search._search_scales = note
    search._search = lambda function, space, record, n_outputs: note(space)
    search.run(0, no_generator)
    assert spaces == [["noise", "amplitude"], searched]


@pytest.mark.parametrize("kind", [Dense, Estimated])
@pytest.mark.parametrize("of_kernel", [True, False])
def test_a_simplex_finds_what_is_likeliest_of_all(likelihood, kind, of_kernel):
    names = ["noise", "amplitude", *(["interaction_weight"] if of_kernel else [])]
    known = kind(likelihood.A, likelihood.B, likelihood.targets[:, :1])
    kernel = GeneralizedKernel(interaction_weight=2.0)
    start = replace(start_at(1.0, 1.0), kernel=kernel)
    search, _ = search_of(known, start, names, method="nelder-mead")
    optimum = search.run(0, no_generator)
    assert optimum.complaint is None
    assert optimum.likelihood == pytest.approx(known.evaluate(optimum.values).value)
    assert (optimum.values.kernel.interaction_weight == 2.0) is not of_kernel
    for name in names:
        for factor in (0.5, 0.8, 1.25, 2.0):
            value = np.clip(factor * optimum.values.get(name), 1e-4, 1e4)
            other = optimum.values.with_values({name: value})
            assert known.evaluate(other).value <= optimum.likelihood + 0.05


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


@pytest.mark.parametrize("complaints", [(None, None), (None, "b"), ("a", None), ("a", "b")])
def test_the_first_output_that_complains_is_heard(likelihood, complaints):
    start = Hyperparameters(np.ones(2), np.ones(2), GeneralizedKernel())
    search, _ = search_of(likelihood, start, ["noise"])
    told = iter(complaints)
    search._search_pair = lambda _, space, outputs: _optimizer.Optimum(space.start, 1.5, next(told))
    optimum = search._search_spectrum(SimpleNamespace(), search.space)
    assert optimum.complaint == next((words for words in complaints if words), None)
    assert optimum.likelihood == 3.0


def test_steps_that_gain_little_a_sample_and_output_are_the_last(likelihood):
    search, _ = search_of(likelihood, start_at(1.0, 1.0), ["noise"])
    assert search._gradient_options(3)["callback"].least_gain == pytest.approx(1e-4 * 40 * 3)


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


# ---- what is given -------------------------------------------------------------------------------


def given(**changed):
    X = np.array([[0.0, 4.0, 7.0], [2.0, 4.0, 9.0]])
    parameters = {
        "noise": 0.1,
        "amplitude": 1.0,
        "transform": "identity",
        "exponent": 1.0,
        "feature_weights": None,
        "columns": _histrs.SortedColumns(X, 1),
        "n_pairs": 2,
        "n_threads": 1,
    }
    given = {**parameters, **changed}
    scales = {name: given.pop(name) for name in ("noise", "amplitude")}
    n_pairs = given.pop("n_pairs")
    return Hyperparameters(*checked_scales(n_pairs, **scales), weighted_kernel(**given))


def test_given_numbers_are_for_all_outputs_or_for_each():
    values = given(noise=0.3, amplitude=[2.0, 5.0])
    np.testing.assert_array_equal(values.noise, [0.3, 0.3])
    np.testing.assert_array_equal(values.amplitude, [2.0, 5.0])
    assert values.kernel.weights is None
    np.testing.assert_array_equal(given(feature_weights=[1, 2, 3]).kernel.weights, [1.0, 2.0, 3.0])
    weights = given(feature_weights="scale").kernel.weights
    # Of a constant column it does not matter; the spreads of the others are alike.
    assert weights[1] == 1.0
    assert weights[0] == weights[2]
    wide = _histrs.SortedColumns(np.array([[0.0, 1.0], [2.0, 21.0]]), 1)
    scaled = given(feature_weights="scale", columns=wide).kernel.weights
    assert scaled[0] == pytest.approx(10.0 * scaled[1])
    assert scaled[0] == pytest.approx(1.0 / wide.spreads(1)[0])


def test_a_pair_of_scales_is_of_one_output_or_of_all():
    values = given(noise=[0.1, 0.2, 0.3], amplitude=[3.0, 4.0, 5.0], n_pairs=3)
    assert values.outputs(3) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    assert [values.pair(k).scales() for k in range(3)] == [
        [Scales(0.1, 3.0)],
        [Scales(0.2, 4.0)],
        [Scales(0.3, 5.0)],
    ]
    assert values.pair(1).kernel is values.kernel
    shared = given(noise=0.1, amplitude=3.0, n_pairs=1)
    assert shared.outputs(3) == [slice(0, 3)]
    assert shared.pair(0).scales() == [Scales(0.1, 3.0)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise": [0.1, 0.2, 0.3]}, r"noise has shape \(3,\)"),
        ({"amplitude": [1.0]}, r"amplitude has shape \(1,\)"),
        ({"noise": 0.0}, "positive and finite"),
        ({"noise": [0.1, np.inf]}, "positive and finite"),
        ({"amplitude": [1.0, -1.0]}, "positive and finite"),
        ({"feature_weights": [1.0, 2.0]}, "3 features"),
        ({"feature_weights": [1.0, 2.0, np.inf]}, r"feature_weights\[2\] = inf"),
        ({"feature_weights": [1.0, 0.0, 2.0]}, r"feature_weights\[1\] = 0\.0"),
    ],
)
def test_what_cannot_be_given_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        given(**changed)


@pytest.mark.parametrize("bounds", [(1.0, 2.0), [3, 3], "fixed"])
def test_bounds_are_ascending_or_fixed(bounds):
    assert check_bounds("noise", bounds) == ("fixed" if bounds == "fixed" else tuple(bounds))


@pytest.mark.parametrize(
    "bounds", [(2.0, 1.0), (0.0, 1.0), (1.0, np.inf), (1.0, 2.0, 3.0), (1.0,), 1.0, "free"]
)
def test_other_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match="noise_bounds = "):
        check_bounds("noise", bounds)


@pytest.mark.parametrize(
    ("noise", "amplitude", "fails"),
    [(1e-200, 1e-200, False), (1e299, 1.0, False), (1e200, 1e-200, True), (1e-200, 1e200, True)],
)
def test_noise_has_a_size_beside_the_amplitude(noise, amplitude, fails):
    with pytest.raises(ValueError, match="out of range") if fails else nullcontext():
        Scales(noise, amplitude).check()
