"""Kernels that keep all pairs of rows, each part against its definition."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.special import log_softmax
from scipy.stats import multivariate_normal

from histrs._calibration import Readout
from histrs._solvers.cholesky import CholeskyFactor
from histrs.gaussian_process import Solver, _memory
from histrs.gaussian_process._bound import all_pairs
from histrs.gaussian_process._bound.all_pairs import (
    MatrixBound,
    StoredBound,
    check_memory,
    check_stored_memory,
)
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._learning import leave_one_out
from histrs.gaussian_process._learning.hyperparameters import (
    Hyperparameters,
    Scales,
    SearchSpace,
)
from histrs.gaussian_process._learning.leave_one_out import (
    Candidate,
    _means_without,
    centred,
    centred_leave_one_out,
    learn_by_leaving_out,
)
from histrs.gaussian_process._learning.likelihood import Likelihood
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._posterior import cached_variance
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._systems.rows import insert_rows, remove_rows
from histrs.gaussian_process._systems.system import System
from histrs.gaussian_process.kernels import Divergence, Kernel, LogEuclidean, MinMax, Radial
from tests.helpers import assert_close
from tests.oracles import intersection, minmax
from tests.oracles import spd as oracle

each = pytest.mark.parametrize
weighted = each("weighted", [False, True], ids=["equal rows", "weights"])

NOISE, AMPLITUDE = 0.3, 1.7
S = NOISE / AMPLITUDE
ROWS = np.zeros((2, 2))


class Gaussian(LogEuclidean):
    """`exp(-gamma |x - y|^2)` of numbers."""

    takes = "numbers"

    def _take(self, X, weights, n_threads):
        self.distance_scale_ = 1.0


GAUSSIAN = Gaussian(0.4).taken(ROWS)


def scale_of(rng, n, weighted):
    return rng.uniform(0.5, 1.5, n) if weighted else None


def gaussian(X, Z):
    return np.exp(-0.4 * cdist(X, Z, "sqeuclidean"))


def scaled_system(X, r, K=None):
    """Return `K + s W^-1`, which rows of weights `r**2` are seen with."""
    K = gaussian(X, X) if K is None else K
    return K + S * (np.eye(len(X)) if r is None else np.diag(r**-2.0))


# ---- memory ------------------------------------------------------------------------------------


def test_as_many_rows_as_memory_holds_are_no_error(monkeypatch):
    monkeypatch.setattr(all_pairs, "physical_memory", lambda: 16e9)
    monkeypatch.setattr(_memory, "physical_memory", lambda: 16e9)
    most = int((0.75 * 16e9 / (8 * 2)) ** 0.5)
    check_memory(most, 2)
    message = (
        r"^40000 rows take 25\.6 GB: 2 matrices of all pairs .* on a machine of 16\.0 GB\. "
        rf"Fit at most {most} rows\.$"
    )
    with pytest.raises(MemoryError, match=message):
        check_memory(40_000, 2)
    with pytest.raises(MemoryError, match=rf"^{most + 1} rows"):
        check_memory(most + 1, 2)
    check_stored_memory(109_544)
    message = r"^109545 rows take 12\.0 GB: two bytes .* of 16\.0 GB\. Fit at most 109544 rows"
    with pytest.raises(MemoryError, match=message):
        check_stored_memory(109_545)
    # All of that part is not more than it.
    monkeypatch.setattr(all_pairs, "physical_memory", lambda: 320_000.0)
    check_memory(100, 3)


# ---- factorised systems ------------------------------------------------------------------------


def made(
    X, r=None, *, kernel=GAUSSIAN, noise=NOISE, amplitude=AMPLITUDE, kind=MatrixBound, **solver
):
    bound = kind(X=X, kernel=kernel, n_threads=1)
    given = {"noise": noise, "amplitude": amplitude, "solver": Solver(**solver)}
    return System(bound=bound, row_scale=r, **given)


def solved(system, Y, tol=1e-9, start=None):
    return system.solve_targets(Y, np.full(Y.shape[1], tol), start)


@weighted
def test_a_system_is_its_matrix(rng, weighted):
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 3))
    r = scale_of(rng, 30, weighted)
    system = made(X, r)
    K = gaussian(X, X) if r is None else np.outer(r, r) * gaussian(X, X)
    assert system.s == S
    np.testing.assert_allclose(system.bound.parts[0], cdist(X, X, "sqeuclidean"))
    for _ in range(2):
        # Before the matrix is kept and after, what is returned may be overwritten.
        own = system.kernel_matrix()
        np.testing.assert_allclose(own, K)
        own[:] = np.nan
        np.testing.assert_allclose(system.product(Y), K @ Y)
    L = np.tril(system.factor.whole())
    np.testing.assert_allclose(L @ L.T, K + S * np.eye(30))
    solution = solved(system, Y)
    np.testing.assert_allclose(solution.X, np.linalg.solve(scaled_system(X, r), Y))
    assert solution.n_iter.tolist() == [1, 1, 1]
    alone = system.lighter()
    assert alone.factor is system.factor
    assert not {"parts", "_kept"} & set(vars(alone.bound))


def test_parts_that_are_at_hand_are_taken(rng):
    X = rng.normal(size=(5, 2))
    bound = MatrixBound(X=X, kernel=GAUSSIAN, n_threads=1)
    other = bound.with_kernel(GAUSSIAN.with_parameters({"gamma": 1.0}))
    assert other.parts is bound.parts
    np.testing.assert_allclose(other.matrix(), np.exp(-cdist(X, X, "sqeuclidean")))
    # Another expression has other ones.
    assert bound.with_kernel(Radial("gaussian", 1.0).taken(X)).parts is not bound.parts


@pytest.mark.filterwarnings("error")
@each("pair", [(1e308, 1e-8), (1e-300, 1e300)])
def test_a_ratio_that_no_number_holds_is_refused(rng, pair):
    with pytest.raises(ValueError, match="out of range"):
        made(rng.normal(size=(5, 2)), noise=pair[0], amplitude=pair[1]).check()


@weighted
@each("n_systems_rows", [1, 2, 7, 1000])
def test_what_is_known_of_other_rows(rng, monkeypatch, weighted, n_systems_rows):
    X, Z = rng.normal(size=(30, 2)), rng.normal(size=(7, 2))
    r = scale_of(rng, 30, weighted)
    system = made(X, r)
    monkeypatch.setattr(all_pairs, "_ENTRIES", 30 * n_systems_rows)
    k = gaussian(X, Z)
    expected = gaussian(Z, Z) - k.T @ np.linalg.solve(scaled_system(X, r), k)
    variance, found_all = system.latent_variance(Z, 1e-9, 1)
    assert found_all.all()
    np.testing.assert_allclose(variance, np.diag(expected))
    found = system.latent_covariance(Z)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


def test_variances_are_never_negative(rng):
    X = np.repeat(rng.normal(size=(10, 2)), 2, axis=0)
    variance, _ = made(X, noise=1e-12, amplitude=1.0).latent_variance(X, 1e-9, 1)
    assert np.all(variance >= 0.0)
    assert np.all(variance < 1e-10)


class Watched(Kernel):
    """Of ones, which keeps how many rows it was of, and how many threads there were."""

    def __init__(self):
        self.calls = []

    def parts(self, X, Y, n_threads):
        self.calls.append((len(X), len(X if Y is None else Y), n_threads))
        return (np.ones(self.calls[-1][:2]),)

    def matrix(self, parts):
        return parts[0].copy()

    def diagonal(self, X, n_threads):
        self.calls.append((len(X), n_threads))
        return np.ones(len(X))


@each(
    ("n_train", "entries", "sizes"),
    [
        (4, 12, [3, 3, 1]),
        (4, 15, [3, 3, 1]),
        (4, 3, [1] * 7),
        (4, 8, [2, 2, 2, 1]),
        (1, 6, [3, 3, 1]),
        (0, 6, [3, 3, 1]),
        (4, 28, [7]),
    ],
)
def test_rows_come_in_blocks_of_so_many_entries(monkeypatch, n_train, entries, sizes):
    monkeypatch.setattr(all_pairs, "_ENTRIES", entries)
    kernel = Watched()
    bound = MatrixBound(X=np.zeros((n_train, 2)), kernel=kernel, n_threads=3)
    blocks = list(bound.blocks(np.zeros((7, 2)), 5))
    assert kernel.calls == [(size, n_train, 5) for size in sizes]
    assert [np.arange(7)[rows].size for rows, _ in blocks] == sizes
    assert np.concatenate([np.arange(7)[rows] for rows, _ in blocks]).tolist() == list(range(7))
    assert all(k.shape == (size, n_train) for (_, k), size in zip(blocks, sizes, strict=True))
    kernel.calls.clear()
    list(bound.blocks(np.zeros((1, 2))))
    assert kernel.calls == [(1, n_train, 3)]
    assert list(bound.blocks(np.zeros((0, 2)))) == []


def no_factor(*arguments):
    raise AssertionError("factorised again")


@weighted
@each("of_new", [False, True], ids=["new rows of weight 1", "weights of new rows"])
@each("factorised", [False, True])
def test_rows_come_without_factorising_again(rng, monkeypatch, weighted, of_new, factorised):
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    r, added = scale_of(rng, 24, weighted), scale_of(rng, 6, of_new)
    before = made(X[:24], r)
    if factorised:
        _ = before.factor
        before = before.lighter()
    grown = insert_rows(before, X[24:], 2, added)
    every = None
    if weighted or of_new:
        every = np.append(np.ones(24) if r is None else r, np.ones(6) if added is None else added)
        np.testing.assert_array_equal(grown.row_scale, every)
    else:
        assert grown.row_scale is None
    assert ("factor" in vars(grown)) == factorised
    if factorised:
        monkeypatch.setattr(CholeskyFactor, "with_noise", no_factor)
    expected = np.linalg.solve(scaled_system(X, every), Y)
    np.testing.assert_allclose(solved(grown, Y).X, expected, rtol=1e-8)
    np.testing.assert_array_equal(grown.X, X)


@weighted
@each(("n_removed", "updated"), [(1, True), (5, True), (6, False)])
@each("factorised", [False, True])
def test_few_rows_go_without_factorising_again(
    rng, monkeypatch, weighted, n_removed, updated, factorised
):
    X, Y = rng.normal(size=(32, 2)), rng.normal(size=(32, 2))
    r = scale_of(rng, 32, weighted)
    system = made(X, r)
    if factorised:
        _ = system.factor
        system = system.lighter()
    removed = np.sort(rng.choice(32, n_removed, replace=False))
    kept = np.setdiff1d(np.arange(32), removed)
    shrunk = remove_rows(system, removed, 2)
    assert ("factor" in vars(shrunk)) == (factorised and updated)
    if factorised and updated:
        monkeypatch.setattr(CholeskyFactor, "with_noise", no_factor)
    expected = np.linalg.solve(scaled_system(X[kept], None if r is None else r[kept]), Y[kept])
    np.testing.assert_allclose(solved(shrunk, Y[kept]).X, expected, rtol=1e-8)


def test_rows_that_a_factor_cannot_take_are_told_of(rng):
    X = rng.normal(size=(10, 2))
    system = made(X, noise=1e-300, amplitude=1.0)
    _ = system.factor
    with pytest.raises(ValueError, match=r"not positive definite.*Raise noise"):
        _ = insert_rows(system, X, 1).factor


# ---- systems solved by iterations --------------------------------------------------------------


def counts(rng, n):
    X = rng.poisson(1.0, size=(n, 6)).astype(np.float64)
    X[n // 2] = 0.0
    return X


def minmax_kernel(weight, size, kind=MinMax):
    """Return the kernel of a fit to rows of such a mean sum."""
    return kind(weight).taken(np.full((1, 1), size))


COUNTED = minmax_kernel(0.3, 5.0)


def of_counts(X, Z):
    K = 0.7 * minmax.minmax_kernel(X, Z)
    return K + 0.3 / 5.0 * intersection.intersection_kernel(X, Z)


def stored_system(X, r=None, **options):
    return made(X, r, **{"kernel": COUNTED, "kind": StoredBound, **options})


@weighted
def test_a_stored_system_is_its_matrix(rng, monkeypatch, weighted):
    X, V = counts(rng, 40), rng.normal(size=(40, 2))
    r = scale_of(rng, 40, weighted)
    R = np.eye(40) if r is None else np.diag(r)
    K = R @ of_counts(X, X) @ R
    seen = []
    monkeypatch.setattr(MinMax, "n_landmarks", lambda self, n: seen.append(n) or 512)
    system = stored_system(X, r)
    bound = system.bound
    assert bound.stored is bound.stored
    assert_close(system.product(V), K @ V, 1e-10)
    assert_close(system.multiply(V), K @ V + S * V, 1e-10)
    assert_close(system.diagonal, np.diag(K), 1e-12)
    some = np.array([3, 0, 20])
    assert_close(system.matrix_of(some), K[np.ix_(some, some)], 1e-12)
    Z = counts(rng, 9)
    assert_close(system.cross_of(some, Z), R[some] @ of_counts(X, Z), 1e-12)
    assert_close(bound.prior(Z), np.diag(of_counts(Z, Z)), 1e-12)
    assert bound.has_nearby_rows
    assert system.lighter().bound is bound
    L = np.tril(system.factor.whole())
    assert_close(L @ L.T, K + S * np.eye(40), 1e-12)
    # What many rows are preconditioned by, of few rows is the inverse itself.
    assert_close(system.preconditioner.solve(V), np.linalg.solve(K + S * np.eye(40), V), 1e-5)
    assert seen == [40]


@weighted
def test_what_a_stored_system_knows_of_other_rows(rng, monkeypatch, weighted):
    X, Z, V = counts(rng, 40), counts(rng, 9), rng.normal(size=(40, 2))
    r = scale_of(rng, 40, weighted)
    monkeypatch.setattr(all_pairs, "_ENTRIES", 40 * 4)
    system, k = stored_system(X, r), of_counts(Z, X)
    score = system.bound.score(V, None, "linear")
    assert not score.takes_features
    assert_close(score.evaluate(Z, 1), k @ V, 1e-12)
    assert score.error_bound().tolist() == [0.0, 0.0]
    expected = of_counts(Z, Z) - k @ np.linalg.solve(scaled_system(X, r, of_counts(X, X)), k.T)
    assert_close(system.latent_variance(Z, 1e-9, 1)[0], np.diag(expected), 1e-7)
    found = system.latent_covariance(Z)
    assert_close(found, expected, 1e-5)
    np.testing.assert_array_equal(found, found.T)


@weighted
def test_iterations_solve_for_targets(rng, weighted):
    X, Y = counts(rng, 60), rng.normal(size=(60, 2))
    r = scale_of(rng, 60, weighted)
    system = stored_system(X, r)
    expected = np.linalg.solve(scaled_system(X, r, of_counts(X, X)), Y)
    found = solved(system, Y, 1e-10)
    assert_close(found.X, expected, 1e-8)
    assert np.all(found.n_iter >= 1)
    # From what solves them there is nothing to do.
    again = solved(system, Y, 1e-10, found.X)
    assert_close(again.X, expected, 1e-8)
    assert again.n_iter.tolist() == [0, 0]


def test_rows_without_weight_are_learned_by_none(rng):
    X, Y = counts(rng, 60), rng.normal(size=(60, 2))
    r = np.where(np.arange(60) % 4 == 0, 0.0, rng.uniform(0.5, 1.5, 60))
    found = solved(stored_system(X, r), Y, 1e-10, rng.normal(size=(60, 2))).X
    kept = r > 0.0
    expected = np.linalg.solve(
        scaled_system(X[kept], r[kept], of_counts(X[kept], X[kept])), Y[kept]
    )
    assert np.all(found[~kept] == 0.0)
    assert_close(found[kept], expected, 1e-8)


class Rough(MinMax):
    """Of which no more than three digits are kept."""

    least_tol = 1e-3


@each(("kernel", "expected"), [(COUNTED, 1e-8), (minmax_kernel(0.3, 5.0, Rough), 1e-3)])
def test_no_more_is_solved_for_than_what_is_kept_can_tell(rng, monkeypatch, kernel, expected):
    X, Y = counts(rng, 60), rng.normal(size=(60, 2))
    monkeypatch.setattr(MinMax, "n_landmarks", lambda self, n: 3)
    residual = solved(stored_system(X, kernel=kernel), Y, 1e-8).residual
    assert np.all(residual <= expected)
    assert np.any(residual > expected / 1000.0)


def test_other_rows_have_other_minima(rng):
    X = counts(rng, 50)
    bound = stored_system(X[:40]).bound
    K = of_counts(X, X)
    V = rng.normal(size=(50, 2))
    _ = bound.stored
    grown = bound.inserted(X[40:], None)
    assert_close(grown.product(V), K @ V, 1e-10)
    shrunk = grown.removed(np.arange(3, 50), np.arange(3))
    assert_close(shrunk.product(V[3:]), K[3:, 3:] @ V[3:], 1e-10)


def test_the_memory_of_a_matrix_is_asked_for_before_it_is_made(rng, monkeypatch):
    X = counts(rng, 40)
    # Of both kernels, the matrix and a factor.
    monkeypatch.setattr(all_pairs, "physical_memory", lambda: 8.0 * 4 * 40**2 / 0.75)
    _ = stored_system(X).factor
    monkeypatch.setattr(all_pairs, "physical_memory", lambda: 7.9 * 4 * 40**2 / 0.75)
    with pytest.raises(MemoryError, match=r"^40 rows take .* 4 matrices"):
        _ = stored_system(X).factor
    monkeypatch.setattr(_memory, "physical_memory", lambda: 39.5**2 / 0.75)
    with pytest.raises(MemoryError, match="at most 39 rows"):
        _ = stored_system(X).bound.stored


# ---- posteriors --------------------------------------------------------------------------------


@each("kind", [MatrixBound, StoredBound])
@each("n_systems", [1, 2])
@weighted
def test_a_posterior_is_its_definition(rng, monkeypatch, kind, n_systems, weighted):
    X, Z, Y = counts(rng, 50), counts(rng, 8), rng.normal(size=(50, 2))
    r = scale_of(rng, 50, weighted)
    pairs = [Scales(0.3, 1.7), Scales(0.2, 0.6)][:n_systems]
    first = made(X, r, kernel=COUNTED, kind=kind)
    systems = tuple(first.with_scales(pair) for pair in pairs)
    K, k, W = of_counts(X, X), of_counts(X, Z), np.eye(50) if r is None else np.diag(r**-2.0)
    weights, variance = np.empty_like(Y), np.empty((8, n_systems))
    held = np.array([1, 7, 33])
    kept = np.setdiff1d(np.arange(50), held)
    means = np.empty((3, 2))
    for j, (noise, amplitude) in enumerate(pairs):
        A = K + noise / amplitude * W
        part = slice(None) if n_systems == 1 else slice(j, j + 1)
        weights[:, part] = np.linalg.solve(A, Y[:, part])
        variance[:, j] = amplitude * np.diag(of_counts(Z, Z) - k.T @ np.linalg.solve(A, k))
        of_kept = np.linalg.solve(A[np.ix_(kept, kept)], Y[kept, part])
        means[:, part] = K[np.ix_(held, kept)] @ of_kept
    readout = Readout(rng.normal(size=(2, 3)), rng.normal(size=3))
    posterior = Posterior(systems, weights, {"name": readout}, 1e-9)
    expected = k.T @ weights @ readout.matrix + readout.offset
    assert_close(posterior.read("name", Z, 1), expected, 1e-10)
    # Of so few directions, variances that are cached are rough.
    monkeypatch.setattr(cached_variance, "_RANK", 3)
    assert_close(posterior.latent_variance(Z, "exact", None, 0), variance, 1e-6)
    assert posterior.is_factorised == (kind is MatrixBound)
    prior, rows = np.diag(of_counts(Z, Z)), of_counts(X, Z)
    assert_close(posterior.variance_of(prior, lambda some: rows[:, some]), variance, 1e-7)
    low, high = posterior.variance_bounds(Z, 0.1)
    assert np.all(low <= (1.0 + 1e-7) * variance)
    assert np.all(high >= (1.0 - 1e-7) * variance)
    if kind is MatrixBound:
        np.testing.assert_array_equal(low, high)
        assert posterior.std_error("cached") == 0.0
        assert_close(posterior.latent_variance(Z, "cached", None, 0), variance, 1e-8)
        return
    errors = [posterior.cached_variance(j).error for j in range(n_systems)]
    assert posterior.std_error("auto") == max(errors) > 0.0
    assert not np.allclose(posterior.latent_variance(Z, "auto", None, 0), variance, rtol=1e-4)
    assert_close(_means_without(posterior, held, Y, 1e-9), means, 1e-6)


# ---- likelihoods -------------------------------------------------------------------------------


def likelihood_of(X, Y, r, kernel=GAUSSIAN):
    bound = MatrixBound(X=X, kernel=kernel, n_threads=1)
    of_rows = X, Y, None if r is None else r**2, None
    of_fit = {"tol": 1e-9, "log_det": "lanczos", "seed": lambda: 0, "n_jobs": 1}
    of_targets = {"are_classes": False, "feature_names": None}
    return Likelihood(bound, Problem(*of_rows, solver=Solver(), **of_fit, **of_targets))


def log_density(X, Y, r, noise, amplitude):
    """Return the sum of the log densities of the columns of `Y`."""
    D = np.ones(len(X)) if r is None else r**-2.0
    total = 0.0
    for k, y in enumerate(Y.T):
        C = amplitude[k] * gaussian(X, X) + noise[k] * np.diag(D)
        total += multivariate_normal(np.zeros(len(X)), C).logpdf(y)
    return total


@weighted
@each("shared", [True, False])
def test_the_likelihood_and_its_gradient(rng, weighted, shared):
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    r = scale_of(rng, 30, weighted)
    likelihood = likelihood_of(X, Y, r)
    noise, amplitude = np.array([0.3, 0.5]), np.array([1.7, 0.8])
    if shared:
        noise, amplitude = noise[:1], amplitude[:1]
    values = Hyperparameters(noise, amplitude, GAUSSIAN)
    of_each = [np.broadcast_to(v, 2) for v in (noise, amplitude)]
    found = likelihood.evaluate(values)
    assert found.value == pytest.approx(log_density(X, Y, r, *of_each))
    assert (found.std, found.gradient) == (0.0, {})
    assert likelihood.has_gradient
    names = ["noise", "amplitude", "gamma"]
    found = likelihood.evaluate(values, names)
    assert found.value == pytest.approx(log_density(X, Y, r, *of_each))
    assert found.std == 0.0
    space = SearchSpace(values, dict.fromkeys(names, (1e-9, 1e9)))
    theta = space.pack(values)
    slopes = []
    for step in 1e-5 * np.eye(len(theta)):
        ends = [likelihood.evaluate(space.unpack(theta + t)).value for t in (step, -step)]
        slopes.append((ends[0] - ends[1]) / 2e-5)
    np.testing.assert_allclose(space.pack_values(found.gradient), slopes, rtol=1e-5, atol=1e-5)
    some = likelihood.evaluate(values, ["gamma"])
    assert set(some.gradient) == {"gamma"}
    assert some.gradient["gamma"] == pytest.approx(found.gradient["gamma"])
    spectrum = likelihood.spectrum(GAUSSIAN)
    pairs = zip(values.scales(), values.outputs(2), strict=True)
    by_pair = [spectrum.evaluate(scales, outputs) for scales, outputs in pairs]
    assert sum(each.value for each in by_pair) == pytest.approx(found.value, rel=1e-12)
    # All eigenvalues are known.
    assert not spectrum.refine()


@weighted
def test_systems_of_a_likelihood_are_those_of_its_rows(rng, weighted):
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    r = scale_of(rng, 30, weighted)
    likelihood = likelihood_of(X, Y, r)
    scale = np.ones(30) if r is None else r
    np.testing.assert_allclose(likelihood.targets, scale[:, None] * Y)
    assert (likelihood.row_scale is None) == (r is None)
    np.testing.assert_allclose(likelihood.bound(GAUSSIAN).matrix(), gaussian(X, X))
    system = likelihood.system(GAUSSIAN, Scales(0.3, 1.7))
    assert (system.noise, system.amplitude) == (0.3, 1.7)
    for found in (likelihood.row_scale, system.row_scale):
        np.testing.assert_allclose(np.ones(30) if found is None else found, scale)
    mean = likelihood.diagonal_mean(Hyperparameters(np.ones(1), np.full(1, 3.0), GAUSSIAN))
    assert mean == pytest.approx(np.mean(scale**2))


# ---- classes of rows left out ------------------------------------------------------------------


def by_centring(K, weights):
    """Return the kernel of functions less their mean over rows, the mean covariance of two made 0.

    Each row is left out of what is common to all.
    """
    w = np.ones(len(K)) if weights is None else weights
    P = np.eye(len(K)) - w / w.sum()
    C = P @ K @ P.T
    variance = np.average(np.diag(C), weights=w)
    return C + variance / max(len(K) - 1, 1), variance


@weighted
@each("n", [1, 2, 5, 12])
def test_functions_are_centred_over_the_rows(rng, weighted, n):
    X = rng.normal(size=(n, 2))
    K = gaussian(X, X) + 0.5
    weights = rng.uniform(0.5, 1.5, n) if weighted else None
    found, variance = centred(K.copy(), weights)
    expected, of_definition = by_centring(K, weights)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert variance == pytest.approx(of_definition, abs=1e-12)
    if weights is None and n > 1:
        assert abs(np.mean(found[~np.eye(n, dtype=bool)])) < 1e-12
    # What is common to all functions does not matter.
    np.testing.assert_allclose(centred(K + 7.0, weights)[0], expected, atol=1e-12)


def left_out_one_by_one(C, s, Y, r):
    D = np.ones(len(C)) if r is None else r**-2.0
    found = np.empty_like(Y)
    for i in range(len(C)):
        rest = np.arange(len(C)) != i
        A = C[np.ix_(rest, rest)] + s * np.diag(D[rest])
        found[i] = C[i, rest] @ np.linalg.solve(A, Y[rest])
    return found


@weighted
@each("n", [2, 3, 12])
def test_means_without_a_row_are_those_of_a_fit_without(rng, weighted, n):
    X, Y = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    r = scale_of(rng, n, weighted)
    K = gaussian(X, X)
    C, _ = by_centring(K, None if r is None else r**2)
    found = centred_leave_one_out(K.copy(), 0.4, Y, r)
    np.testing.assert_allclose(found, left_out_one_by_one(C, 0.4, Y, r), atol=1e-10)


def losses_by_definition(scores, indices, weights):
    """Return losses at the temperature that is best for all, large ones being unlikely."""
    z = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
    z = z - z.mean(axis=1, keepdims=True)
    size = np.sqrt(np.mean(z**2))
    z = z / (size if size > 0.0 else 1.0)
    best, least = None, np.inf
    for temperature in np.exp(np.linspace(-3.0, 3.6, 23)):
        losses = -weights * log_softmax(temperature * z, axis=1)[np.arange(len(z)), indices]
        cost = losses.sum() + 0.5 * (temperature / 10.0) ** 2
        if cost < least:
            best, least = losses, cost
    return best


@each("n_classes", [2, 3])
@each("scale", [0.0, 1e-3, 1.0, 1e3])
def test_losses_are_those_of_the_likely_temperature(rng, n_classes, scale):
    indices = rng.integers(0, n_classes, 25)
    scores = np.eye(n_classes)[indices] + rng.normal(size=(25, n_classes))
    scores = scale * (scores[:, 1:] if n_classes == 2 else scores)
    for weights in (np.ones(25), rng.uniform(0.5, 1.5, 25)):
        found = leave_one_out._losses(scores.copy(), indices, weights)
        np.testing.assert_allclose(found, losses_by_definition(scores, indices, weights))
    if scale == 0.0:
        np.testing.assert_allclose(found, weights * np.log(n_classes))


@each("n", [2, 5, 10, 20, 50, 100, 200, 500, 1000])
def test_more_rows_that_are_told_apart_make_surer_of_each(n):
    indices = np.arange(n) % 2
    scores = np.eye(2)[indices]
    found = leave_one_out._losses(scores, indices, np.ones(n))
    np.testing.assert_allclose(found, losses_by_definition(scores, indices, np.ones(n)))


def class_targets(rng, n, n_classes):
    X = rng.normal(size=(n, 2))
    indices = np.searchsorted([-0.5, 0.5][: n_classes - 1], X[:, 0] + 0.7 * rng.normal(size=n))
    Y = 2.0 * np.eye(n_classes)[indices] - 1.0
    Y -= Y.mean(axis=0)
    return X, Y[:, 1:] if n_classes == 2 else Y, indices


RATIOS = np.logspace(-2, 2, 9)


def candidate_by_definition(K, ratio, Y, indices, r):
    """Return what a ratio of noise to the mean variance is worth, and its best amplitude."""
    w = np.ones(len(K)) if r is None else r**2
    C, variance = by_centring(K, w)
    s = ratio * variance
    scores = left_out_one_by_one(C, s, Y, r)
    unlikely = 0.5 * (max(1.0 - np.log10(ratio), 0.0) / 0.5) ** 2 / len(K)
    losses = losses_by_definition(scores, indices, w) + unlikely
    A = C + s * np.diag(1.0 / w)
    return s, losses, np.mean(Y * np.linalg.solve(A, Y))


@weighted
@each("n_classes", [2, 3])
@each(
    "bounds",
    [
        ((1e-9, 1e9), (1e-9, 1e9)),
        ((0.05, 0.9), (0.02, 5.0)),
        ((0.5, 0.6), (0.5, 0.51)),
        (None, None),
    ],
    ids=["wide", "narrow", "narrower", "fixed"],
)
def test_the_most_noise_that_predicts_rows_left_out_as_well(rng, weighted, n_classes, bounds):
    X, Y, indices = class_targets(rng, 24, n_classes)
    r = scale_of(rng, 24, weighted)
    start = Hyperparameters(np.array([0.4]), np.array([1.3]), Gaussian(0.5).taken(ROWS))
    free = dict(zip(["noise", "amplitude"], bounds, strict=True))
    free = {name: pair for name, pair in free.items() if pair} | {"gamma": (1e-3, 1e3)}
    space = SearchSpace(start, free)
    kernels = [start.kernel.with_parameters({"gamma": g}) for g in (0.05, 0.5, 2.0)]
    told = []
    history, chosen = learn_by_leaving_out(
        likelihood_of(X, Y, r), space, kernels, progress=told.append
    )
    (least, most), (low, high) = free.get("noise", (0.4, 0.4)), free.get("amplitude", (1.3, 1.3))
    expected = {name: [] for name in history}
    found, least_losses = [], []
    for kernel in kernels:
        K = kernel.between(X, None, 1)
        variance = by_centring(K, None if r is None else r**2)[1]
        own = []
        for ratio in np.unique(np.clip(RATIOS, least / high / variance, most / low / variance)):
            s, losses, amplitude = candidate_by_definition(K, ratio, Y, indices, r)
            # On the line of this ratio as near to what is best as bounds allow.
            amplitude = np.clip(amplitude, max(low, least / s), min(high, most / s))
            own.append(losses.mean())
            found.append((ratio, losses, s * amplitude, amplitude, kernel))
        least_losses.append(min(own))
    expected = {
        "leave_one_out_log_loss": [losses.mean() for _, losses, *_ in found],
        "noise": [[noise] for _, _, noise, *_ in found],
        "amplitude": [[amplitude] for *_, amplitude, _ in found],
        "gamma": [kernel.gamma_ for *_, kernel in found],
    }
    expected = {k: v for k, v in expected.items() if k in free or k.startswith("leave")}
    assert set(history) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-7, err_msg=name)
    np.testing.assert_allclose(told, least_losses, rtol=1e-7)
    best = min(found, key=lambda each: each[1].mean())
    excess = [each[1] - best[1] for each in found]
    good = [x.mean() <= x.std() / np.sqrt(24) for x in excess]
    # Of the same noise the smoothest, which are the first.
    ratio = max(each[0] for each, is_good in zip(found, good, strict=True) if is_good)
    right = next(
        each
        for each, is_good in zip(found, good, strict=True)
        if is_good and np.isclose(each[0], ratio)
    )
    assert_close(chosen.noise, [right[2]], 1e-7)
    assert_close(chosen.amplitude, [right[3]], 1e-7)
    assert chosen.kernel is right[4]
    # No one need be told.
    again = learn_by_leaving_out(likelihood_of(X, Y, r), space, kernels)[1]
    np.testing.assert_array_equal(again.noise, chosen.noise)


def test_equal_rows_are_left_out_without_a_variance(rng):
    _, Y, indices = class_targets(rng, 12, 3)
    Y = np.sign(Y)
    found = leave_one_out._candidates(2, np.ones((12, 12)), Y, indices, (1e-9, 1e9), None)
    assert [each.ratio for each in found] == pytest.approx(RATIOS.tolist())
    assert [each.s for each in found] == pytest.approx(RATIOS.tolist())
    assert {each.kernel for each in found} == {2}
    # They say nothing of one another, so that all that is seen is noise.
    amplitudes = [each.amplitude * each.s for each in found]
    assert amplitudes == pytest.approx([np.mean(Y**2)] * 9)
    unlikely = 0.5 * (np.maximum(1.0 - np.log10(RATIOS), 0.0) / 0.5) ** 2
    losses = [each.losses.sum() - u for each, u in zip(found, unlikely, strict=True)]
    assert losses == pytest.approx([12 * np.log(3)] * 9)


def candidate(kernel, ratio, losses):
    return Candidate(kernel, ratio, ratio, 1.0, np.asarray(losses))


@each(
    ("others", "expected"),
    [
        # As good as the best, with more noise and with less.
        ([(0, 2.0, [1.0, 3.0]), (0, 0.5, [1.0, 3.0])], 1),
        # Of equal noise the smoothest, wherever it stands.
        ([(2, 2.0, [1.0, 3.0]), (1, 2.0, [1.0, 3.0])], 2),
        ([(1, 2.0, [1.0, 3.0]), (2, 2.0, [1.0, 3.0])], 1),
        # Worse for every row, by as much.
        ([(0, 2.0, [1.5, 3.5])], 0),
        # Worse by less than that of differences -0.5 and 1.5, 1 / sqrt(2).
        ([(0, 2.0, [0.5, 4.5])], 1),
        # Worse by more than that of differences 0 and 2.
        ([(0, 2.0, [1.0, 5.0])], 0),
    ],
)
def test_the_simplest_of_those_as_good_as_the_best(others, expected):
    found = [candidate(0, 1.0, [1.0, 3.0]), *(candidate(*other) for other in others)]
    assert leave_one_out._simplest(found) is found[expected]


# ---- kernels -----------------------------------------------------------------------------------


@each("n_columns", [1, 3])
def test_the_gaussian_kernel_is_its_definition(rng, n_columns):
    X, Z = rng.normal(size=(7, n_columns)), rng.normal(size=(4, n_columns))
    kernel = Gaussian(0.32).taken(X)
    expected = np.exp(-0.32 * cdist(X, Z, "sqeuclidean"))
    np.testing.assert_allclose(kernel.between(X, Z, 1), expected)
    np.testing.assert_allclose(np.diag(kernel.between(X, None, 1)), kernel.diagonal(X, 1))
    assert kernel.parameter("gamma") == 0.32
    assert kernel.n_parts == len(kernel.parts(X, None, 1)) == 1
    np.testing.assert_allclose(
        kernel.derivative("gamma", kernel.parts(X, Z, 1)),
        slope_of(lambda g: kernel.with_parameters({"gamma": g}).between(X, Z, 1), 0.32),
        atol=1e-8,
    )


def slope_of(function, value):
    """Return the derivative by the logarithm of a value."""
    return (function(value * np.exp(1e-5)) - function(value * np.exp(-1e-5))) / 2e-5


def definite(rng, n, p):
    A = rng.normal(size=(n, p, 3 * p))
    return A @ A.transpose(0, 2, 1) / (3 * p)


@each("p", [1, 2, 3, 4])
@each("gamma", [0.5, 0.6, 0.9, 1.0, 1.2, 1.5, 2.3])
def test_the_kernel_of_the_divergence_is_mixed_where_it_is_not_definite(rng, p, gamma):
    X, Z = definite(rng, 5, p), definite(rng, 3, p)
    D = oracle.all_pairs(oracle.jbld, X, Z)

    def by_definition(g):
        # From (p - 1) / 2 on every value is definite, below multiples of a half.
        if g >= (p - 1) / 2:
            return np.exp(-g * D)
        below = np.floor(2.0 * g) / 2.0
        share = 2.0 * (g - below)
        return (1.0 - share) * np.exp(-below * D) + share * np.exp(-(below + 0.5) * D)

    kernel = Divergence(gamma).taken(X)
    parts = kernel.parts(X, Z, 1)
    np.testing.assert_allclose(parts[0], D, atol=1e-12)
    np.testing.assert_allclose(kernel.matrix(parts), by_definition(gamma), atol=1e-12)
    np.testing.assert_array_equal(kernel.diagonal(X, 1), np.ones(5))
    assert kernel.parameter("gamma") == gamma
    # Where it has a corner, the slope is that to larger values.
    slope = (by_definition(gamma * (1.0 + 1e-7)) - by_definition(gamma)) / 1e-7
    np.testing.assert_allclose(kernel.derivative("gamma", parts), slope, atol=1e-6)


@each("weight", [0.0, 0.3, 1.0])
@each("left", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@each("right", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@each("dtype", [np.float64, np.float32, np.int64])
def test_the_minmax_kernel_is_its_definition(rng, weight, left, right, dtype):
    X, Z = counts(rng, 9), counts(rng, 4)
    kernel = minmax_kernel(weight, 5.0)
    A, B = left(X.astype(dtype)), right(Z.astype(dtype))

    def by_definition(weight, X, Z):
        K = (1.0 - weight) * minmax.minmax_kernel(X, Z)
        return K + weight / 5.0 * intersection.intersection_kernel(X, Z)

    parts = kernel.parts(A, B, 1)
    assert len(parts) == kernel.n_parts == (1 if weight == 0.0 else 2)
    np.testing.assert_allclose(kernel.matrix(parts), by_definition(weight, X, Z))
    np.testing.assert_allclose(kernel.between(A, None, 1), by_definition(weight, X, X))
    diagonal = np.diag(by_definition(weight, X, X))
    np.testing.assert_allclose(kernel.diagonal(left(X), 1), diagonal)
    V = rng.normal(size=(9, 2))
    product = kernel.product(kernel.stored(A, 1), V, 1)
    np.testing.assert_allclose(product, by_definition(weight, X, X) @ V, atol=1e-10)
    if not 0.0 < weight < 1.0:
        return
    odds = weight / (1.0 - weight)
    assert kernel.parameter("intersection_weight") == pytest.approx(odds)
    other = kernel.with_parameters({"intersection_weight": 3.0})
    assert (other.intersection_weight_, other.mean_sum_) == (0.75, 5.0)
    slope = slope_of(lambda o: by_definition(o / (1.0 + o), X, Z), odds)
    np.testing.assert_allclose(kernel.derivative("intersection_weight", parts), slope, atol=1e-8)


def test_sums_of_any_size_are_in_units_of_the_first_fit():
    kernel = minmax_kernel(0.3, 1e-310)
    X = np.full((2, 1), 1e-310)
    np.testing.assert_allclose(kernel.between(X, None, 1), np.ones((2, 2)))
    message = r"^The sum of a row of X is over 1\.8e\+308 times .* whose mean is 1e-05: give"
    with pytest.raises(ValueError, match=message):
        minmax_kernel(0.3, 1e-5).diagonal(np.full((2, 1), 1e305), 1)


@each("length", [0.5, 3.0])
def test_the_matern_kernel_is_its_definition(rng, length):
    X, Z = rng.normal(size=(70, 3)), rng.normal(size=(4, 3))
    kernel = Radial(length=length).taken(ROWS)
    r = np.sqrt(3.0) * cdist(X, Z) / length
    np.testing.assert_allclose(kernel.between(X, Z, 1), (1.0 + r) * np.exp(-r), atol=1e-7)
    np.testing.assert_array_equal(kernel.diagonal(X, 1), np.ones(70))
    # Entries are kept in 16 bits, of distances in single precision.
    K = kernel.between(X, None, 1)
    found = kernel.product(kernel.stored(X, 1), np.eye(70), 1)
    np.testing.assert_allclose(found, K, atol=2.0 / 65535)
    found = kernel.product(kernel.stored(X[:, ::-1], 1), np.eye(70), 1)
    np.testing.assert_allclose(found, K, atol=2.0 / 65535)


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


def test_more_rows_are_preconditioned_by_more_columns_up_to_a_limit():
    n = [Radial(length=1.0).taken(ROWS).n_landmarks(n) for n in (0, 8192, 16_000, 32_000, 10**6)]
    assert n == [512, 512, 1000, 2000, 2048]
    # Of other kernels by as many as are documented.
    assert minmax_kernel(0.3, 1.0).n_landmarks(10**6) == 512
    assert minmax_kernel(0.3, 1.0).least_ratio(None, 10**6) == 0.0
