"""Kernels that keep all pairs of rows, each part against its definition."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.special import log_softmax

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
from histrs.gaussian_process._learning.leave_one_out import Candidate
from histrs.gaussian_process._systems.system import System
from histrs.gaussian_process.kernels import LogEuclidean, MinMax, Radial
from tests.helpers import assert_close
from tests.oracles import intersection, minmax

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


# ---- kernels -----------------------------------------------------------------------------------


def slope_of(function, value):
    """Return the derivative by the logarithm of a value."""
    return (function(value * np.exp(1e-5)) - function(value * np.exp(-1e-5))) / 2e-5


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
