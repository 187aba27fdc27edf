"""Gaussian processes of any kernel by factors of its matrix, against their definition."""

import pickle
from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from histrs._calibration import fit_calibration
from histrs.gaussian_process import (
    GPClassifier,
    GPRegressor,
    LikelihoodSearch,
    Solver,
    SPDGPClassifier,
    SPDGPRegressor,
)
from histrs.gaussian_process._bound import all_pairs as system
from histrs.gaussian_process._bound.all_pairs import StoredBound
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._learning import problem
from histrs.gaussian_process._systems.system import System
from histrs.gaussian_process.kernels import (
    Constant,
    Divergence,
    Intersection,
    Kernel,
    Linear,
    LogEuclidean,
    MinMax,
    Radial,
    Splines,
    Tangent,
)
from tests.helpers import assert_close, assert_slope, of_terms

NOISE, AMPLITUDE, GAMMA = 0.2, 1.5, 0.7


class Gaussian(Kernel):
    """`exp(-gamma |x - y|^2)`, as a user writes it."""

    leaves_level = False

    def __init__(self, gamma=GAMMA, gamma_bounds=(1e-3, 1e3)):
        self.gamma = gamma
        self.gamma_bounds = gamma_bounds

    def parts(self, X, Y, n_threads):
        return (cdist(X, X if Y is None else Y, "sqeuclidean"),)

    def matrix(self, parts):
        return np.exp(-self.gamma_ * parts[0])

    def diagonal(self, X, n_threads):
        return np.ones(len(X))


def made(model_class, amplitude=1.0, bounds="fixed", **parameters):
    kernel = Constant(amplitude, (1e-12, 1e12)) * Gaussian(gamma_bounds=bounds)
    return model_class(kernel, **of_terms(**parameters))


def regressor(**parameters):
    return made(GPRegressor, bounds=(1e-3, 1e3), **parameters)


def classifier(**parameters):
    return made(GPClassifier, bounds=(1e-3, 1e3), **parameters)


def given(make=regressor, **parameters):
    return make(**{"noise": NOISE, "amplitude": AMPLITUDE, "optimizer": None, **parameters})


def covariance(X, Z):
    return AMPLITUDE * np.exp(-GAMMA * cdist(X, Z, "sqeuclidean"))


def by_definition(X, y, X_star):
    """Return mean and covariance of new targets, noise included, by the textbook."""
    mean, unit = y.mean(axis=0), y.std(axis=0)
    A = covariance(X, X) + NOISE * np.eye(len(X))
    k = covariance(X, X_star)
    found = mean + unit * (k.T @ np.linalg.solve(A, (y - mean) / unit))
    prior = covariance(X_star, X_star) + NOISE * np.eye(len(X_star))
    return found, prior - k.T @ np.linalg.solve(A, k)


@pytest.fixture
def data(rng):
    X, X_star = rng.normal(size=(60, 3)), rng.normal(size=(9, 3))
    return X, 5.0 + 3.0 * np.sin(X[:, 0]) + 0.3 * rng.normal(size=60), X_star


def test_predictions_are_their_definition(data):
    X, y, X_star = data
    model = given().fit(X, y)
    mean, expected = by_definition(X, y, X_star)
    assert_close(model.predict(X_star), mean, 1e-9)
    assert_close(model.predict(X_star, return_cov=True)[1], y.var() * expected, 1e-9)
    std = y.std() * np.sqrt(np.diag(expected))
    assert_close(model.predict(X_star, return_std=True)[1], std, 1e-9)
    quantiles = model.predict(X_star, return_quantiles=[0.1, 0.9])[1]
    assert_close(quantiles, mean[:, None] + std[:, None] * norm.ppf([0.1, 0.9]), 1e-9)
    latent = model.latent_mean_and_variance(X_star)[1]
    assert_close(latent, y.var() * (np.diag(expected) - NOISE), 1e-9)


def test_rows_in_blocks_are_the_same(data, monkeypatch):
    X, y, X_star = data
    model = given().fit(X, y)
    whole = [model.predict(X_star), *model.predict(X_star, return_cov=True)]
    monkeypatch.setattr(system, "_ENTRIES", 2 * len(X))
    parts = [model.predict(X_star), *model.predict(X_star, return_cov=True)]
    for part, all_at_once in zip(parts, whole, strict=True):
        assert_close(part, all_at_once, 1e-12)


def test_likelihood_and_its_gradient(data):
    X, y, _ = data
    model = regressor(noise=NOISE, amplitude=AMPLITUDE, optimizer=None).fit(X, y)
    A = covariance(X, X) + NOISE * np.eye(len(X))
    standard = (y - y.mean()) / y.std()
    expected = multivariate_normal(np.zeros(len(X)), A).logpdf(standard)
    assert_close(model.log_marginal_likelihood(), expected, 1e-10)
    assert_slope(model, model.theta_ + np.array([0.3, -0.2, 0.1]), 1e-4, 1e-4)


def test_finds_the_likelihood_that_scikit_learn_finds(data):
    X, y, _ = data
    standard = (y - y.mean()) / y.std()
    kernel = ConstantKernel(1.0, (1e-6, 1e6)) * RBF(1.0, (1e-2, 1e2)) + WhiteKernel(0.1)
    peer = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0)
    peer.fit(X, standard)
    model = regressor().fit(X, y)
    assert model.log_marginal_likelihood() > peer.log_marginal_likelihood_value_ - 1e-2


def test_many_rows_learn_the_kernel_from_some(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(problem, "_LEARNING_ROWS", 30)
    model = regressor().fit(X, y)
    whole = model.log_marginal_likelihood()
    gradient = model.log_marginal_likelihood(eval_gradient=True)[1]
    assert len(model.theta_) == 3
    assert np.all(np.abs(gradient[:2]) < 1.0), "noise and amplitude are those of all rows"
    assert whole > given(noise=1.0, amplitude=0.1).fit(X, y).log_marginal_likelihood()


def test_what_is_learned_is_likeliest_of_weighted_rows(data, rng):
    X, y, _ = data
    model = regressor(random_state=0).fit(X, y, rng.choice([0.1, 1.0, 4.0], 60))
    gradient = model.log_marginal_likelihood(eval_gradient=True)[1]
    np.testing.assert_allclose(gradient, np.zeros(3), atol=0.02)


def test_kernels_are_compared_where_noise_and_amplitude_are_given(data):
    X, y, _ = data

    def fitted(gamma, bounds):
        kernel = Constant(AMPLITUDE, "fixed") * Gaussian(gamma, bounds)
        return GPRegressor(kernel, noise=NOISE, noise_bounds="fixed").fit(X, y)

    # Where the search would begin, all rows are alike.
    learned = fitted(1e-3, (1e-3, 1e3)).log_marginal_likelihood()
    for gamma in np.geomspace(1e-3, 1e3, 13):
        assert learned >= fitted(gamma, "fixed").log_marginal_likelihood() - 1e-6


def test_leave_one_out_is_a_refit_without_the_row(data):
    X, y, _ = data
    model = given().fit(X, y)
    mean, std = model.predict_leave_one_out()
    for i in (0, 17, 59):
        others = np.arange(len(X)) != i
        A = covariance(X[others], X[others]) + NOISE * np.eye(len(X) - 1)
        k = covariance(X[others], X[i : i + 1])
        weights = np.linalg.solve(A, k)[:, 0]
        assert_close(mean[i], y.mean() + weights @ (y[others] - y.mean()), 1e-9)
        variance = AMPLITUDE + NOISE - weights @ k[:, 0]
        assert_close(std[i], y.std() * np.sqrt(variance), 1e-9)


TAKEN = {
    "of one's own": Gaussian(),
    "radial": Radial("matern-3/2", 1.0),
    "counts": MinMax(0.3, "fixed"),
    "sum": MinMax(0.3, "fixed") + Linear(0.1, "fixed"),
    "tangent": Tangent(GAMMA),
    "log-Euclidean": LogEuclidean(GAMMA),
    "divergence": Divergence(GAMMA),
}


@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "classes"])
@pytest.mark.parametrize("kernel", TAKEN.values(), ids=TAKEN)
def test_rows_come_and_go(rng, kernel, classes):
    signals = rng.standard_normal((60, 3, 20))
    covariances = isinstance(kernel, (Tangent, LogEuclidean, Divergence))
    X = signals @ signals.mT / 20 if covariances else rng.poisson(1.0, (60, 9)).astype(float)
    y = X.reshape(60, 9)[:, 0] + rng.normal(size=60)
    makes = (SPDGPRegressor, SPDGPClassifier) if covariances else (GPRegressor, GPClassifier)
    y = np.digitize(y, np.quantile(y, [0.3, 0.7])) if classes else y
    model = makes[classes](AMPLITUDE * kernel, noise=NOISE, optimizer=None).fit(X[:40], y[:40])
    taken, of_first = model.kernel_, model.kernel_(X)
    model.partial_fit(X[40:55], y[40:55]).partial_fit(X[55:], y[55:]).forget([0, 7, 41])
    kept = np.setdiff1d(np.arange(60), [0, 7, 41])
    assert len(model.Y_fit_) == 57
    # Sizes and references stay those of the first fit, and so does the unit of the targets.
    np.testing.assert_array_equal(model.kernel_(X), of_first)
    K = AMPLITUDE * taken(X[kept]) + NOISE * np.eye(57)
    Y = model.Y_fit_ - (model.Y_fit_.mean(axis=0) if taken.leaves_level and classes else 0.0)
    if not classes:
        assert model.y_std_[0] == pytest.approx(y[:40].std())
        Y = Y / model.y_std_
    assert_close(model._standard_weights / AMPLITUDE, np.linalg.solve(K, Y), 1e-7)


def test_an_error_leaves_everything_as_it_was(data):
    X, y, X_star = data
    model = given().fit(X, y)
    before = model.predict(X_star)
    with pytest.raises(ValueError, match=r"not positive definite.*Raise noise"):
        given(noise=1e-300).fit(np.repeat(X, 2, axis=0), np.ravel([y, y + 1.0], "F"))
    broken = X.copy()
    broken[0, 0] = np.nan
    for call in (lambda: model.fit(broken, y), lambda: model.partial_fit(broken, y)):
        with pytest.raises(ValueError, match="NaN"):
            call()
    assert np.array_equal(model.predict(X_star), before)
    with pytest.raises(ValueError, match="out of range"):
        given(noise=1e308, amplitude=1e-8).fit(X, y)


def test_several_targets_have_their_own_noise(data):
    X, y, X_star = data
    Y = np.column_stack([y, 100.0 * np.cos(y)])
    both = regressor().fit(X, Y)
    assert both.noise_.shape == (2,)
    mean, std = both.predict(X_star, return_std=True)
    assert mean.shape == std.shape == (9, 2)
    shared = regressor(optimizer=LikelihoodSearch(shared=True)).fit(X, Y)
    assert isinstance(shared.noise_, float)
    assert both.log_marginal_likelihood() >= shared.log_marginal_likelihood() - 1e-6
    fixed = {"noise": [0.1, 0.3], "amplitude": [1.0, 2.0], "optimizer": None}
    both = regressor(**fixed).fit(X, Y)
    for k in range(2):
        alone = regressor(noise=fixed["noise"][k], amplitude=fixed["amplitude"][k], optimizer=None)
        alone.fit(X, Y[:, k])
        expected, deviation = alone.predict(X_star, return_std=True)
        assert_close(both.predict(X_star)[:, k], expected, 1e-9)
        assert_close(both.predict(X_star, return_std=True)[1][:, k], deviation, 1e-9)


def test_probabilities_are_calibrated(rng):
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + 0.8 * rng.normal(size=300) > 0, "yes", "no")
    model = classifier().fit(X[:150], y[:150])
    probabilities = model.predict_proba(X[150:])
    assert_close(probabilities.sum(axis=1), np.ones(150), 1e-12)
    loss = log_loss(y[150:], probabilities)
    assert loss < 0.6
    codes = np.where(y[:150] == "yes", 1.0, -1.0)[:, None]
    A = model.amplitude_ * np.exp(-model.kernel_.gamma_ * cdist(X[:150], X[:150], "sqeuclidean"))
    inverse = np.linalg.inv(A + model.noise_ * np.eye(150))
    scores = codes - inverse @ codes / np.diag(inverse)[:, None]
    expected = fit_calibration(scores, (codes[:, 0] > 0).astype(np.intp))
    assert_close(model.calibration_.matrix, expected.matrix, 1e-6)
    assert_close(model.calibration_.offset, expected.offset, 1e-6)
    assert np.array_equal(model.predict(X), model.classes_[(model.decision_function(X) > 0) * 1])


def test_too_many_rows_for_the_memory_are_refused(data, monkeypatch):
    X, y, X_star = data
    model = given().fit(X[:30], y[:30])
    before = model.predict(X_star)
    monkeypatch.setattr(system, "physical_memory", lambda: 8.0 * 3 * 50**2)
    with pytest.raises(MemoryError, match=r"60 rows take .* GB.*at most 43 rows"):
        given().fit(X, y)
    with pytest.raises(MemoryError, match="60 rows"):
        model.partial_fit(X[30:], y[30:])
    assert np.array_equal(model.predict(X_star), before)


@pytest.mark.parametrize(
    ("options", "n_systems"),
    [
        ({"optimizer": LikelihoodSearch(shared=True)}, 1),
        ({"optimizer": LikelihoodSearch(shared=False)}, 2),
        ({"optimizer": "auto"}, 2),
        ({}, 1),
        ({"noise": [0.2, 0.2]}, 2),
        ({"amplitude": [1.0, 2.0]}, 2),
    ],
    ids=str,
)
def test_the_memory_of_all_matrices_is_counted(data, monkeypatch, options, n_systems):
    X, y, _ = data
    Y = np.column_stack([y, y**2])
    model = given(**options).fit(X[:40], Y[:40])
    monkeypatch.setattr(system, "physical_memory", lambda: 1.0)
    # Distances, the kernel and a factor for each noise.
    with pytest.raises(MemoryError, match=rf"^60 rows .* {2 + n_systems} matrices"):
        given(**options).fit(X, Y)
    with pytest.raises(MemoryError, match=rf"^60 rows .* {1 + n_systems} matrices"):
        model.partial_fit(X[40:], Y[40:])


# ---- what kernels are ----------------------------------------------------------------------------


TERMS = {
    "gaussian": (Radial("gaussian"), 1),
    "laplace": (Radial("laplace"), 1),
    "matern-5/2": (Radial("matern-5/2", 1.5), 1),
    "linear": (Linear(), 1),
    "sum": (Radial() + Linear(), 2),
    "sum of constants": (Radial("gaussian", 1.0, "fixed") + 0.5, 1),
    "product": (Radial() * Linear(1.0), 2),
    "number": (0.5 * (Radial("gaussian") + 0.2 * Linear()), 3),
    "of scikit-learn": (Matern(nu=2.5) + RBF(0.3), 2),
    "both": (1.0 + Radial("gaussian") * Gaussian(), 3),
}


@pytest.mark.parametrize("name", TERMS)
def test_terms_and_their_gradients(data, name):
    X, y, X_star = data
    kernel, n_parameters = TERMS[name]
    model = GPRegressor(kernel, noise=NOISE, optimizer=None).fit(X, y)
    K = model.amplitude_ * model.kernel_(X) + NOISE * np.eye(60)
    k = model.amplitude_ * model.kernel_(X, X_star)
    standard = (y - y.mean()) / y.std()
    expected = y.mean() + y.std() * k.T @ np.linalg.solve(K, standard)
    mean, std = model.predict(X_star, return_std=True)
    assert_close(mean, expected, 1e-8)
    prior = model.amplitude_ * np.diag(model.kernel_(X_star)) + NOISE
    assert_close(std, y.std() * np.sqrt(prior - np.sum(k * np.linalg.solve(K, k), axis=0)), 1e-8)
    assert len(model.theta_) == 2 + n_parameters
    assert_slope(model, model.theta_ + 0.1, 1e-4, 1e-4)
    learned = GPRegressor(kernel).fit(X, y)
    assert learned.log_marginal_likelihood() > model.log_marginal_likelihood() - 1e-6
    again = pickle.loads(pickle.dumps(learned))
    np.testing.assert_array_equal(again.predict(X_star), learned.predict(X_star))
    grown = clone(model).fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    assert grown.predict(X_star).shape == (9,)


def test_kernels_of_scikit_learn_are_what_they_are_there(data):
    X, y, X_star = data
    kernel = 1.7 * Matern(0.8, nu=2.5)
    peer = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None, normalize_y=True)
    model = GPRegressor(kernel, noise=NOISE, optimizer=None).fit(X, y)
    assert_close(model.predict(X_star), peer.fit(X, y).predict(X_star), 1e-8)
    assert_close(model.log_marginal_likelihood(), peer.log_marginal_likelihood_value_, 1e-8)


def test_shapes_are_those_of_scikit_learn(rng):
    X, Z = rng.normal(size=(9, 3)), rng.normal(size=(5, 3))
    for shape, nu in (("laplace", 0.5), ("matern-3/2", 1.5), ("matern-5/2", 2.5)):
        assert_close(Radial(shape, 0.7)(X, Z), Matern(0.7, nu=nu)(X, Z), 1e-7)
    assert_close(Radial("gaussian", 0.7)(X, Z), RBF(0.7)(X, Z), 1e-7)


def test_lengths_are_in_units_of_the_rows(rng):
    X = rng.normal(size=(40, 3))
    y = np.sin(X[:, 0])
    for factor in (1.0, 1e6):
        model = GPRegressor(noise=0.1, optimizer=None).fit(factor * X, y)
        D = cdist(factor * X, factor * X, "sqeuclidean")
        assert model.kernel_.length_ == pytest.approx(0.6 * np.sqrt(D.mean()))
    assert GPRegressor(optimizer=None).fit(np.ones((5, 2)), np.arange(5)).kernel_.length_ == 1.0


def test_a_constant_factor_is_the_amplitude(data):
    X, y, _ = data
    kernel = Radial("gaussian", 1.0, "fixed")
    model = GPRegressor(2.0 * kernel, optimizer=None).fit(X, y)
    assert (model.amplitude_, model.kernel_.shape) == (2.0, "gaussian")
    other = GPRegressor(kernel * 2.0, optimizer=None).fit(X, y)
    assert_close(other.predict(X), model.predict(X), 1e-12)
    with pytest.warns(ConvergenceWarning, match=r"amplitude at its lower bound 1\.0"):
        narrow = GPRegressor(Constant(1.5, (1.0, 2.0)) * kernel).fit(X, y)
    assert 1.0 <= narrow.amplitude_ <= 2.0
    fixed = GPRegressor(Constant(1.5, "fixed") * kernel).fit(X, y)
    assert fixed.amplitude_ == 1.5
    assert len(fixed.theta_) == 1


def test_parameters_of_one_term_leave_what_the_other_took(rng):
    X = rng.poisson(1.0, size=(40, 5)).astype(float)
    taken = GPRegressor(MinMax() + Linear(), optimizer=None).fit(X, X[:, 0]).kernel_
    for size in (1e-3, 1.0):
        assert taken.with_parameters({"k2__variance": size}).k1.mean_sum_ == taken.k1.mean_sum_


def test_parameters_of_kernels_are_searched(data):
    X, y, _ = data
    model = GPRegressor(Radial(length=1.0), noise=NOISE, optimizer=None)
    lengths = [1e-3, 1.0]
    search = GridSearchCV(model, {"kernel__length": lengths}, cv=3).fit(X, y)
    assert search.best_params_ == {"kernel__length": 1.0}
    with pytest.raises(ValueError, match="'width' is not a parameter of"):
        model.set_params(kernel__width=2.0)


# ---- kernels that keep all pairs of rows ---------------------------------------------------------

each = pytest.mark.parametrize

ROWS = np.zeros((2, 2))


# ---- kernels -----------------------------------------------------------------------------------


@each("shape", ["laplace", "matern-3/2"])
@each("n", [700, 1200])
def test_rounded_entries_are_below_the_least_noise(rng, n, shape):
    kernel = Radial(shape, length=0.5).taken(ROWS)
    X = rng.normal(size=(n, 3))
    stored = kernel.stored(X, 1)
    errors = kernel.product(stored, np.eye(n), 1) - kernel.between(X, None, 1)
    ratio = kernel.least_ratio(stored, n) / np.linalg.norm(errors, 2)
    assert 1.2 < ratio < 4.0


@each("norm", ["l1", "l2"])
def test_noise_far_below_smooth_functions_is_not_drowned(rng, norm):
    X = rng.normal(size=(400, 4))
    X[:, 3] = rng.integers(3, size=400)
    logs = np.log(np.full(4, 0.05))
    kernel = DistanceMixture(norm, 3, logs, np.full(5 if norm == "l1" else 7, 6.0))
    y = kernel.matrix((X, None, 1)) @ rng.normal(size=(400, 1)) / 400.0
    of = {"noise": 0.3, "amplitude": 1.0}
    bound = StoredBound(X=X, kernel=kernel, n_threads=1)
    assert bound.least_ratio < 0.3 < 1e-3 * kernel.diagonal(X, 1).mean()
    tol = np.array([1e-6])
    exact = System(bound=bound.as_matrix(), solver=Solver("cholesky"), **of).solve_targets(y, tol)
    found = System(bound=bound, solver=Solver("cg"), **of).solve_targets(y, tol)
    K = kernel.matrix((X, None, 1))
    np.testing.assert_allclose(K @ found.X, K @ exact.X, atol=2e-3 * np.abs(y).max())


# ---- what is refused -----------------------------------------------------------------------------

SIGNED = np.random.default_rng(0).normal(size=(20, 4))
POSITIVE = np.random.default_rng(0).random((20, 3))

REFUSED = [
    *[(message, partial(GPRegressor(kernel).fit, POSITIVE, POSITIVE[:, 0])) for kernel, message in (
        *[(Intersection(feature_weights=name) + Radial(),
           f"feature_weights='{name}'.*give an array of weights") for name in ("relevance", "ard")],
        *[(term(feature_weights=[1.0, 2.0]), r"shape \(2,\), and X has 3 features")
          for term in (Intersection, Splines)],
        (MinMax(1.5), r"intersection_weight = 1\.5: must be between 0 and 1"),
        ("nothing", "kernel = 'nothing': give a kernel"),
        (Radial("round"), "shape = 'round': choose one of"),
        (Radial(length=-1.0), r"length = -1\.0: give a positive number"))],
    (r"Tangent\(\) takes covariances, but Radial",
     partial(GPClassifier(Tangent() + Radial()).fit, SIGNED, np.arange(20) % 2)),
    (r"X\[0, .*\] = -.*", partial(GPRegressor(MinMax() + Linear()).fit, SIGNED, SIGNED[:, 0])),
    *[(message, partial(GPRegressor(**given).fit, SIGNED, SIGNED[:, 0])) for given, message in (
        ({"kernel": Linear(), "solver": "cg"},
         r"solver='cg' needs a kernel .* Linear\(\) is not one"),
        ({"optimizer": LikelihoodSearch(n_restarts=-1)}, "n_restarts = -1"),
        ({"optimizer": LikelihoodSearch("bfgs")}, "method = 'bfgs'"))],
    ("is neither a kernel nor a positive number", lambda: Radial() + "linear"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_what_is_bad_is_named(message, call):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
