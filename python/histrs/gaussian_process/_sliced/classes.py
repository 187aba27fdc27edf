"""A metric in which classes differ, and interactions, chosen by rows that they have not seen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import log_softmax

from histrs import _histrs
from histrs._calibration import fit_calibration, logits_of_classes
from histrs._solvers.block_cg import Array
from histrs.gaussian_process._sliced.interactions import (
    N_DRAWS,
    Pair,
    effect_directions,
    missing_effects,
)
from histrs.gaussian_process._sliced.projections import (
    Projections,
    matrix_root,
    outer_gradients,
)
from histrs.kernel_approximation._sliced_distance import draw_directions

# Share of the projections in the kernel; the columns have the rest.
SLICES = 0.7
# Share of the interactions in that of the projections, where there are any.
_INTERACTIONS = 0.5
# Share of the metric that is learned; the rest is isotropic.
_LEARNED = 0.7
# Fewer rows do not tell a metric.
_MIN_ROWS = 1000
# Ratios of noise to signal of which the likeliest is taken.
_RATIOS = np.logspace(-5, 1, 49)


@dataclass(frozen=True)
class Candidate:
    """A metric, and pairs of columns with directions of their own."""

    G: Array
    pairs: list[Pair]


@dataclass
class LearnedClasses:
    """Projections, and the metric that they are drawn in."""

    slices: Projections
    interactions: dict[Pair, Projections]
    columns: Projections
    G: Array

    @classmethod
    def of(
        cls,
        A: Array,
        candidate: Candidate,
        columns: Projections,
        n_directions: int,
        random: np.random.RandomState,
        n_threads: int,
    ) -> "LearnedClasses":
        """Project rows; `columns` are theirs."""
        d = A.shape[1]
        W = matrix_root(candidate.G) @ draw_directions(d, n_directions, "orthogonal", random)
        pairs = {
            pair: Projections.of(A, effect_directions(d, pair), n_threads)
            for pair in candidate.pairs
        }
        return cls(Projections.of(A, W, n_threads), pairs, columns, candidate.G)

    @property
    def sets(self) -> list[Projections]:
        """The projections, those of interactions, and the columns behind them."""
        return [self.slices, *self.interactions.values(), self.columns]

    @property
    def _parts(self) -> list[float]:
        """Share of each set in the kernel."""
        n = len(self.interactions)
        of_pairs = SLICES * _INTERACTIONS if n > 0 else 0.0
        return [SLICES - of_pairs, *[of_pairs / max(n, 1)] * n, 1.0 - SLICES]

    @property
    def weights(self) -> Array:
        """Weights of all projections, set after set."""
        parts = zip(self.sets, self._parts, strict=True)
        return np.concatenate([np.full(s.T.shape[1], part / s.scale) for s, part in parts])

    def kernel(self) -> Array:
        """Return the kernel matrix of the rows."""
        K = np.zeros_like(self.columns.K)
        for s, part in zip(self.sets, self._parts, strict=True):
            K += part * s.K
        return K

    def cross_kernel(self, others: Array, n_threads: int) -> Array:
        """Return the kernel of other rows with these."""
        K = np.zeros((len(others), len(self.columns.T)))
        for s, part in zip(self.sets, self._parts, strict=True):
            T = np.ascontiguousarray(np.maximum(others @ s.W - s.low, 0.0))
            K += (part / s.scale) * _histrs.intersection_gram(T, s.T, n_threads)
        return K

    def shares(self) -> dict[Pair, float]:
        """Return the equal shares of the interactions in the kernel."""
        return dict(zip(self.interactions, self._parts[1:-1], strict=True))


def learn_class_metric(
    A: Array,
    labels: NDArray[np.intp],
    *,
    n_directions: int,
    n_steps: int,
    n_interactions: int,
    random: np.random.RandomState,
    n_threads: int,
    row_scale: Array | None = None,
) -> LearnedClasses:
    """Learn a metric on two thirds of the rows, and keep the step that the others like best.

    `row_scale` are the roots of the weights of rows; None for 1.

    Leave-one-out on the rows that the metric was learned from would not do: it improves while
    predictions become worse.
    """
    n, d = A.shape
    best = Candidate(np.eye(d), [])
    # Of rare classes there may be no row among those drawn.
    present, labels = np.unique(labels, return_inverse=True)
    if n_steps > 0 and n >= _MIN_ROWS and len(present) > 1:
        seen = np.ones(n, dtype=bool)
        order = random.permutation(n)
        seen[order[np.argsort(labels[order], kind="stable")][::3]] = False

        rows = A[seen]
        scale = np.ones(n) if row_scale is None else row_scale
        of_rows = Projections.of(rows, np.eye(d), n_threads)

        def tried(candidate: Candidate) -> _Fit:
            learned = LearnedClasses.of(rows, candidate, of_rows, n_directions, random, n_threads)
            seen_half = _Half(labels[seen], scale[seen])
            return _fit(learned, seen_half, A[~seen], _Half(labels[~seen], scale[~seen]), n_threads)

        fit = tried(best)
        losses = [(fit.loss, best)]
        pairs: list[Pair] = []
        for _ in range(n_steps):
            G = fit.metric()
            if G is None:
                break
            more = _found(rows, fit, G, pairs, n_interactions, random, n_threads)
            fit = tried(Candidate(G, pairs))
            losses.append((fit.loss, Candidate(G, pairs)))
            if more:
                pairs = [*pairs, *more]
                fit = tried(Candidate(G, pairs))
                losses.append((fit.loss, Candidate(G, pairs)))
        best = min(losses, key=lambda found: found[0])[1]
    columns = Projections.of(A, np.eye(d), n_threads)
    return LearnedClasses.of(A, best, columns, n_directions, random, n_threads)


@dataclass(frozen=True)
class _Half:
    """Some of the rows."""

    labels: NDArray[np.intp]
    scale: Array
    """Roots of their weights."""


@dataclass(frozen=True)
class _Fit:
    """One-vs-all regressions, and the log loss of other rows."""

    learned: LearnedClasses
    alpha: Array
    noise: Array
    """Noise variance of each class."""
    root: tuple[Array, Array]
    """Eigenvectors of the kernel matrix, times the scale of rows, and roots of the inverse's
    eigenvalues."""
    loss: float

    def metric(self) -> Array | None:
        """Return the metric of the gradients of what the slices predict, part of it isotropic."""
        d = len(self.learned.G)
        outer = outer_gradients([self.learned.slices], self.alpha)
        trace = float(np.trace(outer))
        if not trace > 0.0:
            return None
        G: Array = _LEARNED * (d / trace) * outer + (1.0 - _LEARNED) * np.eye(d)
        return G


def _found(
    A: Array,
    fit: _Fit,
    G: Array,
    known: list[Pair],
    most: int,
    random: np.random.RandomState,
    n_threads: int,
) -> list[Pair]:
    """Return interactions that are not there yet, as many as there may be."""
    if len(known) >= most:
        return []
    Q, roots = fit.root
    draws = Q @ (roots[:, None] * random.normal(size=(len(A), N_DRAWS)))
    _, found = missing_effects(
        A, fit.alpha / np.sqrt(fit.noise), draws, np.diag(G), known, n_threads
    )
    return found[: most - len(known)]


def _fit(learned: LearnedClasses, half: _Half, others: Array, other: _Half, n_threads: int) -> _Fit:
    labels, r = half.labels, half.scale[:, None]
    n_classes = max(int(labels.max()), int(other.labels.max())) + 1
    Y = np.where(labels[:, None] == np.arange(n_classes), 1.0, -1.0)
    if n_classes == 2:
        Y = Y[:, 1:]
    K = learned.kernel()
    K *= r
    K *= half.scale
    nodes, Q = linalg.eigh(K, overwrite_a=True, check_finite=False)
    nodes = np.maximum(nodes, 0.0)
    scaled = r * Y
    squares = np.sum((Q.T @ scaled) ** 2, axis=1)

    def cost(s: float) -> float:
        terms = len(Y) * np.log(np.sum(squares / (nodes + s))) + np.sum(np.log(nodes + s))
        return float(terms)

    s = min(_RATIOS, key=cost)
    inverse = (Q / (nodes + s)) @ Q.T
    solved = inverse @ scaled
    left_out = Y - solved / (r * np.diag(inverse)[:, None])
    readout = fit_calibration(left_out, labels, weights=half.scale**2)
    alpha = r * solved
    logits = learned.cross_kernel(others, n_threads) @ alpha @ readout.matrix + readout.offset
    logits = logits_of_classes(logits)
    of_labels = log_softmax(logits, axis=1)[np.arange(len(logits)), other.labels]
    loss = -float(np.average(of_labels, weights=other.scale**2))
    noise = np.maximum(np.einsum("ij,ij->j", scaled, solved) / len(Y), np.finfo(np.float64).tiny)
    return _Fit(learned, alpha, noise, (r * Q, 1.0 / np.sqrt(nodes + s)), loss)
