"""Stochastic subgradient steps in the metric of the kernel, with the gap at the end."""

from __future__ import annotations

import numpy as np
from scipy.special import entr

from histrs._checks.scale import check_steps
from histrs._progress import SolverProgress
from histrs._typing import Array
from histrs.svm._bundle_solver import Solution, Targets, relative_gaps
from histrs.svm._rows import Rows


def pegasos(
    rows: Rows,
    targets: Targets,
    alpha: float,
    tol: float,
    max_iter: int,
    batch_size: int,
    rng: np.random.RandomState,
    progress: SolverProgress,
) -> Solution:
    r"""Make steps :math:`v \leftarrow v - \eta_t (\lambda v + K g_t)` of length `1 / (lambda t)`.

    Here `g_t` is the gradient of the loss of a batch, times the number of batches. Every epoch
    sees every row once, so that the mean of the derivatives a row has had is a feasible point of
    the dual, and the last model is the one that belongs to it. That gives the gap, once an epoch.
    """
    n, n_problems = len(rows), len(targets.positive)
    n_batches = -(-n // batch_size)
    v = np.zeros((n_problems, rows.width))
    square = np.zeros(n_problems)
    # Minus the derivatives of the losses in the margins, summed over the epochs.
    duals = np.zeros((n_problems, n))
    signs = np.where(targets.labels == targets.positive[:, None], 1.0, -1.0)
    t = n_iter = 0
    objective, gap = np.ones(n_problems), np.full(n_problems, np.inf)
    while n_iter < max_iter and not np.all(gap <= tol * objective):
        order = rng.permutation(n)
        for batch in np.array_split(order, n_batches):
            t += 1
            part = rows.part(batch)
            here = Targets(
                targets.labels[batch],
                targets.weights[batch],
                targets.positive,
                targets.loss,
                targets.n_threads,
            )
            scores = part.scores(v)
            point = np.zeros(n_problems)
            gradients = scores.copy()
            here.step(scores, gradients, point, point)
            with np.errstate(invalid="ignore"):
                change = -signs[:, batch] * gradients / here.weights
            duals[:, batch] += np.where(here.weights > 0, change, 0.0)
            a, product = part.gradients(n_batches * gradients)
            eta = 1 / (alpha * t)
            rest = 1 - 1 / t
            square = (
                rest**2 * square
                - 2 * eta * rest * np.sum(a * v, axis=1)
                + eta**2 * np.sum(a * product, axis=1)
            )
            v = rest * v - eta * product
            check_steps(square)
        n_iter += 1
        scores = rows.scores(v)
        losses, _ = targets.losses(scores, scores, np.zeros((n_problems, 1)))
        penalty = alpha / 2 * np.maximum(square, 0.0)
        objective = penalty + losses[:, 0]
        bound = conjugate(duals / n_iter, targets.loss) @ targets.weights - penalty
        gap = np.maximum(objective - bound, 0.0)
        progress(relative_gaps(gap, objective))
    counts = np.full(n_problems, n_iter)
    return Solution(v, objective, gap, counts, np.zeros(n_problems, dtype=np.intp), square)


def conjugate(slopes: Array, loss: str) -> Array:
    """Return minus the conjugate of a loss at minus `slopes`, which have no sign."""
    if loss == "hinge":
        return slopes
    if loss == "squared_hinge":
        return slopes * (1.0 - slopes / 4.0)
    slopes = np.minimum(slopes, 1.0)
    found: Array = entr(slopes) + entr(1.0 - slopes)
    return found
