"""What the model predicts of rows that it was not fitted to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from histrs._repeats import equal_rows
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs.gaussian_process._bound.all_pairs import StoredBound
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._systems.rows import left_over, remove_rows
from histrs.gaussian_process._systems.system import System

# Where no factor is at hand, a tenth of the rows is held out at a time, until there are enough.
_FOLDS = 10
_ENOUGH_ROWS = 4000
_MAX_HELD_OUT = 20_000
# Tolerance of fits without them, in units of that of the fit: by default a hundredth of the
# targets, of which a calibration sees far less than the spread of the scores.
_LOOSER = 100.0


def leave_one_out(
    posterior: Posterior, Y: Array, stays: Array | None = None
) -> tuple[Array, Array]:
    r"""Return means and variances of the targets of each row by a fit without it, or most of it.

    In closed form (Rasmussen and Williams, 2006, eqs. 5.10 to 5.12),

    .. math:: \mu_i = y_i - \frac{[A^{-1} y]_i}{[A^{-1}]_{ii}}, \qquad
              \sigma_i^2 = \frac{1}{[A^{-1}]_{ii}}, \qquad A = K + s W^{-1}.

    Parameters
    ----------
    posterior : Posterior
        Whose systems are, or shall be, factorised.
    Y : ndarray of shape (n_samples, n_outputs)
        The targets.
    stays : ndarray of shape (n_samples,), default=None
        What part of the weight of each row stays; None for 0. It takes the place of
        :math:`[A^{-1}]_{ii}` by :math:`(1 - c_i) [A^{-1}]_{ii} + c_i w_i / s`.

    Returns
    -------
    mean : ndarray of shape (n_samples, n_outputs)
        Predictive means.
    variance : ndarray of shape (n_samples, n_systems)
        Predictive variances, noise included.
    """
    diagonal = np.column_stack([diagonal_of_inverse(system) for system in posterior.systems])
    variance = posterior.amplitude / diagonal
    if stays is None:
        return Y - posterior.weights / diagonal, variance
    pairs = zip(posterior.systems, diagonal.T, strict=True)
    of_means = np.column_stack([less_left_out(*pair, stays) for pair in pairs])
    scale = posterior.systems[0].row_scale
    own = posterior.noise / (np.ones((len(Y), 1)) if scale is None else scale[:, None] ** 2)
    latent = np.maximum(variance - own, 0.0)
    return Y - posterior.weights / of_means, latent / (1.0 + latent * stays[:, None] / own) + own


def diagonal_of_inverse(system: System) -> Array:
    """Return the diagonal of `(K + s W^-1)^-1`, by the factor of a system."""
    diagonal: Array = system.factor.inverse_diagonal()
    return diagonal if system.row_scale is None else system.row_scale**2 * diagonal


def less_left_out(system: System, diagonal: Array, stays: Array | None) -> Array:
    """Return what divides weights where a part of each row stays, from the inverse's diagonal."""
    if stays is None:
        return diagonal
    of_rows = 1.0 if system.row_scale is None else system.row_scale**2
    divisor: Array = (1.0 - stays) * diagonal + stays * (of_rows / system.s)
    return divisor


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
        # All rows were not worth a factor. Of so many parts each might be, and together they are
        # not.
        without = _solved_without(system.iterating_first(), held, *of_system)
        means[:, part] = without
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
