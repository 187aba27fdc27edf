"""A metric in which classes differ, chosen by rows that it has not seen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import log_softmax

from histrs import _histrs
from histrs._solvers.block_cg import Array
from histrs.gaussian_process._calibration import fit_calibration
from histrs.gaussian_process._sliced.learning import Projections, matrix_root
from histrs.kernel_approximation._sliced_distance import draw_directions

# Share of the projections in the kernel; the columns have the rest.
SLICES = 0.7
# Share of the metric that is learned; the rest is isotropic.
_LEARNED = 0.7
# Fewer rows do not tell a metric.
_MIN_ROWS = 1000
# Ratios of noise to signal of which the likeliest is taken.
_RATIOS = np.logspace(-5, 1, 49)


@dataclass
class LearnedClasses:
    """Projections, and the metric that they are drawn in."""

    slices: Projections
    columns: Projections
    G: Array

    @property
    def sets(self) -> list[Projections]:
        """The one set of projections."""
        return [self.slices]

    @property
    def weights(self) -> Array:
        """Weights of the projections, and of the columns behind them."""
        P, d = self.slices.T.shape[1], self.columns.T.shape[1]
        return np.concatenate(
            [
                np.full(P, SLICES / self.slices.scale),
                np.full(d, (1.0 - SLICES) / self.columns.scale),
            ]
        )


def learn_class_metric(
    A: Array,
    labels: NDArray[np.intp],
    *,
    n_directions: int,
    n_steps: int,
    random: np.random.RandomState,
    n_threads: int,
) -> LearnedClasses:
    """Learn a metric on two thirds of the rows, and keep the step that the others like best.

    Leave-one-out on the rows that the metric was learned from would not do: it improves while
    predictions become worse.
    """
    n, d = A.shape
    G = np.eye(d)
    # Of rare classes there may be no row among those drawn.
    present, labels = np.unique(labels, return_inverse=True)
    if n_steps > 0 and n >= _MIN_ROWS and len(present) > 1:
        seen = np.ones(n, dtype=bool)
        order = random.permutation(n)
        seen[order[np.argsort(labels[order], kind="stable")][::3]] = False
        candidates = [G]
        losses = []
        columns = Projections.of(A[seen], np.eye(d), n_threads)
        for step in range(n_steps + 1):
            W = matrix_root(candidates[-1]) @ draw_directions(d, n_directions, "orthogonal", random)
            slices = Projections.of(A[seen], W, n_threads)
            alpha, loss = _fit(slices, columns, A[~seen], labels[seen], labels[~seen], n_threads)
            losses.append(loss)
            if step == n_steps:
                break
            gradient = np.einsum("ipc,dp->icd", slices.slopes(alpha), W).reshape(-1, d)
            outer = gradient.T @ gradient
            trace = float(np.trace(outer))
            if not trace > 0.0:
                break
            candidates.append(_LEARNED * (d / trace) * outer + (1.0 - _LEARNED) * np.eye(d))
        G = candidates[int(np.argmin(losses))]
    W = matrix_root(G) @ draw_directions(d, n_directions, "orthogonal", random)
    slices = Projections.of(A, W, n_threads)
    return LearnedClasses(slices, Projections.of(A, np.eye(d), n_threads), G)


def _fit(
    slices: Projections,
    columns: Projections,
    others: Array,
    labels: NDArray[np.intp],
    other_labels: NDArray[np.intp],
    n_threads: int,
) -> tuple[Array, float]:
    """Return weights of one-vs-all regressions, and the log loss of other rows."""
    n_classes = max(int(labels.max()), int(other_labels.max())) + 1
    Y = np.where(labels[:, None] == np.arange(n_classes), 1.0, -1.0)
    if n_classes == 2:
        Y = Y[:, 1:]
    K = SLICES * slices.K + (1.0 - SLICES) * columns.K
    nodes, Q = linalg.eigh(K, overwrite_a=True, check_finite=False)
    nodes = np.maximum(nodes, 0.0)
    squares = np.sum((Q.T @ Y) ** 2, axis=1)

    def cost(s: float) -> float:
        terms = len(Y) * np.log(np.sum(squares / (nodes + s))) + np.sum(np.log(nodes + s))
        return float(terms)

    s = min(_RATIOS, key=cost)
    inverse = (Q / (nodes + s)) @ Q.T
    alpha = inverse @ Y
    readout = fit_calibration(Y - alpha / np.diag(inverse)[:, None], labels)
    cross = np.zeros((len(others), len(Y)))
    for part, share in ((slices, SLICES), (columns, 1.0 - SLICES)):
        T = np.ascontiguousarray(np.maximum(others @ part.W - part.low, 0.0))
        cross += (share / part.scale) * _histrs.intersection_gram(T, part.T, n_threads)
    logits = cross @ alpha @ readout.matrix + readout.offset
    if n_classes == 2:
        logits = np.hstack([np.zeros_like(logits), logits])
    rows = np.arange(len(logits))
    return alpha, -float(np.mean(log_softmax(logits, axis=1)[rows, other_labels]))
