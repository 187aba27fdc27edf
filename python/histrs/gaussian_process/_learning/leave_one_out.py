"""What is predicted of rows by fits without them, and hyper-parameters that do so best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import log_softmax

from histrs._calibration import LEAST_SIZE
from histrs._repeats import equal_rows
from histrs._solvers.cholesky import CholeskyFactor, factorise_in_place
from histrs._solvers.preconditioners import Indices
from histrs._solvers.row_scale import scale_both_sides, squared
from histrs._threads import leavable
from histrs._typing import Array
from histrs._weights import index_of_best
from histrs.gaussian_process._bound.all_pairs import StoredBound
from histrs.gaussian_process._kernels.algebra import Constant, Sum
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._learning.hyperparameters import SCALES, Hyperparameters, SearchSpace
from histrs.gaussian_process._learning.likelihood import Likelihood
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._systems.rows import left_over, remove_rows
from histrs.gaussian_process._systems.system import System

# Where no factor is at hand, a tenth of the rows is held out at a time, until there are enough.
_FOLDS = 10
_ENOUGH_ROWS = 4000
_MAX_HELD_OUT = 20_000
# Tolerance of fits without them, in units of the tolerance of the fit. By default it is a hundredth
# of the targets, far less than the spread of the scores for a calibration.
_LOOSER = 100.0
# Noise in units of the mean variance of latent functions over training rows.
_RATIOS = np.logspace(-2, 2, 9)
# Much noise before anything is seen: below ten times that variance a normal prior on the decimal
# logarithm, which few rows do not outweigh.
_EXPECTED, _SPREAD = 1.0, 0.5
# Temperatures of scores of size 1, and the standard deviation of logits before anything is seen,
# which is wider than the calibration's.
_TEMPERATURES = np.exp(np.linspace(-3.0, 3.6, 23))
_PRIOR_LOGIT = 10.0


def leave_one_out(
    posterior: Posterior, Y: Array, stays: Array | None = None
) -> tuple[Array, Array]:
    r"""Return means and variances of the targets of each row by a fit without it, or most of it.

    In closed form (Rasmussen and Williams, 2006, eqs. 5.10 to 5.12),

    .. math:: \mu_i = y_i - \frac{[A^{-1} y]_i}{[A^{-1}]_{ii}}, \qquad
              \sigma_i^2 = \frac{1}{[A^{-1}]_{ii}}, \qquad A = K + s W^{-1}.

    Where a part :math:`c_i` of the weight of each row `stays`, :math:`(1 - c_i) [A^{-1}]_{ii} + c_i
    w_i / s` takes the place of :math:`[A^{-1}]_{ii}`. Variances, a column for each system, have
    noise included.
    """
    diagonal = np.column_stack([system.inverse_diagonal for system in posterior.systems])
    variance = posterior.amplitude / diagonal
    if stays is None:
        return Y - posterior.weights / diagonal, variance
    pairs = zip(posterior.systems, diagonal.T, strict=True)
    of_means = np.column_stack([system.left_out(d, stays) for system, d in pairs])
    scale = posterior.systems[0].row_scale
    own = posterior.noise / (np.ones((len(Y), 1)) if scale is None else scale[:, None] ** 2)
    latent = np.maximum(variance - own, 0.0)
    return Y - posterior.weights / of_means, latent / (1.0 + latent * stays[:, None] / own) + own


def held_out(
    posterior: Posterior, Y: Array, strata: NDArray[np.intp], seed: int
) -> tuple[Array, NDArray[np.int64]]:
    """Return means of some rows by fits without them, and which rows they are.

    A tenth of the rows of each stratum is held out at a time, equal ones together, until there are
    enough; the solver starts from the weights of all.
    """
    folds = folds_of(equal_rows(posterior.bound.X), strata, seed)
    tol = _LOOSER * posterior.tol
    means = [_means_without(posterior, held, Y, tol) for held in folds]
    return np.vstack(means), np.concatenate(folds)


def _means_without(posterior: Posterior, held: Indices, Y: Array, tol: float) -> Array:
    """Return means of targets `Y` of some training rows by a fit without these."""
    means = np.empty((len(held), Y.shape[1]))
    for k, system in enumerate(posterior.systems):
        part = slice(None) if len(posterior.systems) == 1 else slice(k, k + 1)
        of_system = Y[:, part], posterior.weights[:, part], np.full(Y[:, part].shape[1], tol)
        # Of so many parts each might be worth a factor, and together they are not.
        means[:, part] = _solved_without(system.iterating_first(), held, *of_system)
    return means


def _solved_without(system: System, held: Indices, Y: Array, start: Array, tol: Array) -> Array:
    bound = system.bound
    if isinstance(bound, StoredBound):
        # What is kept of all pairs stays: rows without weight leave the others alone.
        scale = np.ones(len(Y)) if system.row_scale is None else system.row_scale.copy()
        scale[held] = 0.0
        found = system.with_row_scale(scale).solve_targets(np.ascontiguousarray(Y), tol, start).X
        return bound.product(found)[held]
    kept = left_over(len(Y), held)
    without = remove_rows(system, held, Y.shape[1])
    targets, start = (np.ascontiguousarray(V[kept]) for V in (Y, start))
    weights = without.solve_targets(targets, tol, start).X
    return bound.means_held_out(without.bound, held, weights)


def folds_of(
    groups: NDArray[np.intp], strata: NDArray[np.intp], seed: int
) -> list[NDArray[np.int64]]:
    """Return sets of rows to hold out, each with its share of every stratum, groups together."""
    _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
    n = len(first)
    order = np.random.default_rng(seed).permutation(n)
    order = order[np.argsort(strata[first][order], kind="stable")]
    n_folds = min(_FOLDS, n)
    size = -(-n // n_folds)
    n_used = min(n_folds, -(-_ENOUGH_ROWS // size))
    thinned = slice(None, None, -(-size // _MAX_HELD_OUT))
    folds = (order[k::n_folds][thinned] for k in range(n_used))
    return [np.flatnonzero(np.isin(groups, fold)).astype(np.int64) for fold in folds]


class WithLevel(Sum):
    """A kernel, and the variance of a level that was opened where rows were left out."""

    leaves_level = True

    @classmethod
    def of(cls, kernel: Kernel, level: float) -> Self:
        """Add the level to a kernel of a fit."""
        opened = cls(kernel, Constant(level, "fixed").taken(None))
        opened.is_taken = True
        return opened


def centred(K: Array, weights: Array | None = None) -> tuple[Array, float]:
    """Return the kernel matrix of functions less their mean over the rows, and its mean diagonal.

    A row that is left out must not be told apart by what is common to all: entries of the matrix
    beside the diagonal have mean 0.
    """
    means = np.average(K, axis=0, weights=weights)
    C = K - means - means[:, None] + np.average(means, weights=weights)
    variance = float(np.average(np.diagonal(C), weights=weights))
    C += variance / max(len(C) - 1, 1)
    return C, variance


def centred_leave_one_out(K: Array, s: float, Y: Array, row_scale: Array | None = None) -> Array:
    """Return the means of centred targets of each row by a fit without it, as `centred` sees it.

    `K` and `Y` are without the scale of rows.
    """
    r = np.ones(len(K)) if row_scale is None else row_scale
    A, _ = centred(K, squared(row_scale))
    scale_both_sides(row_scale, A)
    A[np.diag_indices_from(A)] += s
    factor = CholeskyFactor.of(factorise_in_place(A.T))
    weights = factor.solve(r[:, None] * Y)
    return np.asarray(Y - weights / (r * factor.inverse_diagonal())[:, None])


def centred_leave_one_out_of(system: System, Y: Array) -> Array:
    """Return the same of a factorised system, of which nothing but the factor is kept."""
    L = np.tril(system.factor.whole())
    K = L @ L.T
    K[np.diag_indices_from(K)] -= system.s
    r = system.row_scale
    K = K if r is None else K / r / r[:, None]
    return centred_leave_one_out(K, system.s, Y, r)


class Candidate(NamedTuple):
    """A kernel, by its index, and noise, with how well rows are predicted without."""

    kernel: int
    ratio: float
    """Of noise to the mean variance over the rows."""
    s: float
    """Of noise to amplitude."""
    amplitude: float
    """Of largest likelihood with this ratio."""
    losses: Array
    """Of each row: the negative log-probability of its class, times its weight, and its share of
    the prior."""


def learn_by_leaving_out(
    likelihood: Likelihood,
    space: SearchSpace,
    kernels: Sequence[Kernel],
    progress: Callable[[float], None] | None = None,
) -> tuple[dict[str, Array], Hyperparameters]:
    """Return every candidate as arrays, and the hyper-parameters of the simplest good one.

    Targets are centred: one for two classes, else one per class. The smoothest kernel is the first;
    `progress` is told of the least loss with each.
    """
    r = likelihood.row_scale
    Y = likelihood.targets if r is None else likelihood.targets / r[:, None]
    indices = index_of_best(Y)
    (least, most), (low, high) = map(space.bounds_of, SCALES)
    found: list[Candidate] = []
    values: list[Hyperparameters] = []
    for k, kernel in enumerate(kernels):
        K = likelihood.bound(kernel).matrix()
        candidates = _candidates(k, K, Y, indices, (least / high, most / low), r)
        if progress is not None:
            progress(min(float(np.mean(each.losses)) for each in candidates))
        for candidate in candidates:
            s = candidate.s
            amplitude = np.clip(candidate.amplitude, max(low, least / s), min(high, most / s))
            noise = np.clip(s * amplitude, least, most)
            found.append(candidate)
            values.append(Hyperparameters(np.array([noise]), np.array([amplitude]), kernel))
    history = {"leave_one_out_log_loss": np.array([np.mean(each.losses) for each in found])}
    history |= {name: np.array([each.get(name) for each in values]) for name in space.names}
    return history, values[found.index(_simplest(found))]


def _candidates(
    kernel: int,
    K: Array,
    Y: Array,
    indices: NDArray[np.intp],
    bounds: tuple[float, float],
    row_scale: Array | None,
) -> list[Candidate]:
    """Return a kernel matrix with every ratio of noise, within bounds of noise over amplitude."""
    r = np.ones(len(K)) if row_scale is None else row_scale
    C, variance = centred(K, squared(row_scale))
    scale_both_sides(row_scale, C)
    unit = variance if variance > 0.0 else 1.0
    values, Q = leavable(linalg.eigh, C, overwrite_a=True, check_finite=False)
    values = np.maximum(values, 0.0)
    squares, projected = Q * Q, Q.T @ (r[:, None] * Y)
    found = []
    for s in np.unique(np.clip(_RATIOS * unit, *bounds)).tolist():
        inverse = 1.0 / (values + s)
        weights = Q @ (inverse[:, None] * projected)
        losses = _losses(Y - weights / (r * (squares @ inverse))[:, None], indices, r**2)
        missing = max(_EXPECTED - float(np.log10(s / unit)), 0.0) / _SPREAD
        losses += 0.5 * missing**2 / len(Y)
        amplitude = float(np.sum(inverse[:, None] * projected**2)) / Y.size
        found.append(Candidate(kernel, s / unit, s, amplitude, losses))
    return found


def _simplest(found: Sequence[Candidate]) -> Candidate:
    """Return the candidate with most noise of those as good as the best, to its standard error.

    Of equal noise it is the first. The standard error is that of the mean difference.
    """
    best = min(found, key=lambda candidate: float(np.mean(candidate.losses)))
    as_good = []
    for candidate in found:
        excess = candidate.losses - best.losses
        if np.mean(excess) <= np.std(excess) / np.sqrt(len(excess)):
            as_good.append(candidate)
    return max(as_good, key=lambda candidate: (candidate.ratio, -candidate.kernel))


def _losses(scores: Array, indices: NDArray[np.intp], weights: Array) -> Array:
    """Return weighted negative log-probabilities of classes at the temperature that is likely."""
    z = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
    z = z - z.mean(axis=1, keepdims=True)
    size = float(np.sqrt(np.mean(z * z)))
    z /= size if size >= LEAST_SIZE else 1.0
    rows = np.arange(len(z))
    losses = -weights * log_softmax(_TEMPERATURES[:, None, None] * z, axis=2)[:, rows, indices]
    prior = 0.5 * (_TEMPERATURES / _PRIOR_LOGIT) ** 2
    return np.asarray(losses[int(np.argmin(losses.sum(axis=1) + prior))])
