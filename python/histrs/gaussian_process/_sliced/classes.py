"""A metric in which classes differ, and interactions, chosen by rows that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs import _histrs
from histrs._calibration import Readout, fit_calibration, log_losses
from histrs._repeats import equal_rows
from histrs._typing import Array
from histrs.gaussian_process._learning.spectrum import profiled_costs
from histrs.gaussian_process._row_weights import repeats
from histrs.gaussian_process._sliced.interactions import (
    N_DRAWS,
    Pair,
    effect_directions,
    missing_effects,
)
from histrs.gaussian_process._sliced.matern import LearnedMatern
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
# Part of the first metric's loss that another must gain where these few rows tell, beside the
# standard error of the gain.
_CLEARLY = 0.03
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
        directions: Array,
        n_threads: int,
    ) -> LearnedClasses:
        """Project rows on directions, turned by the metric; `columns` are theirs."""
        d = A.shape[1]
        W = matrix_root(candidate.G) @ directions
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


KernelName: TypeAlias = Literal["auto", "sliced", "matern"]


def learn_class_metric(
    A: Array,
    labels: NDArray[np.intp],
    *,
    metric: Array,
    others: Sequence[Array],
    n_directions: int,
    n_steps: int,
    n_interactions: int,
    random: np.random.RandomState,
    n_threads: int,
    row_scale: Array | None = None,
    stays: Array | None = None,
    kernel: KernelName = "sliced",
    handicap: float = 1.0,
) -> LearnedClasses | LearnedMatern:
    """Learn a metric on two thirds of the rows, and keep the step that the others like best.

    Steps start from `metric`, or from one of `others` that is better; of less than 1,000 rows,
    these are all. Without steps `metric` stays. `row_scale` are the roots of the weights of rows;
    None for 1. `stays` is what part of each stays where it is left out; None for 0. With
    `kernel="auto"`, all rows also choose between slices and the Matérn kernel in the metric that is
    best, the third directly and the others each by a fit without it; the log loss of the latter
    counts `handicap` times. Where no metric is chosen, it is slices.

    Leave-one-out on the rows that the metric was learned from would not do: it improves while
    predictions become worse.
    """
    d = A.shape[1]
    # Of rare classes there may be no row among those drawn.
    present, labels = np.unique(labels, return_inverse=True)
    recipe = _Recipe(
        A,
        _Labels(
            labels,
            len(present),
            np.ones(len(A)) if row_scale is None else row_scale,
            np.zeros(len(A)) if stays is None else stays,
        ),
        # The same for all that is tried, so that chance hardly tells them apart.
        draw_directions(d, n_directions, "orthogonal", random),
        n_threads,
    )
    best, is_matern = Candidate(metric, []), kernel == "matern"
    starts = [best, *(Candidate(G, []) for G in others)]
    if n_steps > 0 and len(present) > 1:
        if len(A) < _MIN_ROWS:
            best = recipe.best_left_out(starts)
        else:
            best, is_better = recipe.best_step(
                starts, n_steps, n_interactions, random, handicap if kernel == "auto" else None
            )
            is_matern = is_matern or is_better
    if is_matern:
        return LearnedMatern.of(A, best.G)
    columns = Projections.of(A, np.eye(d), n_threads)
    return LearnedClasses.of(A, best, columns, recipe.directions, n_threads)


@dataclass(frozen=True)
class _Labels:
    """Classes of rows, from 0 on."""

    codes: NDArray[np.intp]
    n_classes: int
    """Of which some may have no row."""
    scale: Array
    """Roots of the weights of the rows."""
    stays: Array
    """What part of each row stays where it is left out."""

    def of(self, rows: NDArray[np.bool_]) -> _Labels:
        """Return those of some rows."""
        return _Labels(self.codes[rows], self.n_classes, self.scale[rows], self.stays[rows])

    def log_losses(self, logits: Array) -> Array:
        """Return how unlikely the logits say the class of each row is, times its weight."""
        weights = self.scale**2
        losses: Array = log_losses(logits, self.codes) * (weights / weights.mean())
        return losses


@dataclass(frozen=True)
class _Recipe:
    """Rows and their classes, and what they are projected on."""

    A: Array
    labels: _Labels
    directions: Array
    n_threads: int

    def best_left_out(self, starts: Sequence[Candidate]) -> Candidate:
        """Return the metric with which each row is clearly best predicted without it, or the first.

        None of them knows the classes, so that the rows themselves can tell.
        """
        columns = Projections.of(self.A, np.eye(self.A.shape[1]), self.n_threads)
        losses = []
        for candidate in starts:
            learned = LearnedClasses.of(self.A, candidate, columns, self.directions, self.n_threads)
            losses.append(_fit(learned.kernel(), self.labels).losses_left_out)
        best = min(range(len(starts)), key=lambda k: float(losses[k].mean()))
        gain = losses[0] - losses[best]
        least = max(_CLEARLY * losses[0].mean(), gain.std() / np.sqrt(len(gain)))
        return starts[best] if gain.mean() > least else starts[0]

    def best_step(
        self,
        starts: Sequence[Candidate],
        n_steps: int,
        n_interactions: int,
        random: np.random.RandomState,
        handicap: float | None,
    ) -> tuple[Candidate, bool]:
        """Return the step, from the best start, with which a third of the rows is predicted best.

        The others learn. Also returns whether the Matérn kernel in this metric, at `handicap` times
        its loss, is better still; None for not to ask.
        """
        # Equal rows are seen together, or not at all, where there are others.
        alike = equal_rows(self.A)
        alike = alike if len(np.unique(alike)) > 2 else np.arange(len(alike))
        _, first, groups = np.unique(alike, return_index=True, return_inverse=True)
        codes = self.labels.codes[first]
        order = random.permutation(len(codes))
        held = order[np.argsort(codes[order], kind="stable")][::3]
        seen = ~np.isin(groups, held)
        rows, others = self.A[seen], self.labels.of(~seen)
        columns = Projections.of(rows, np.eye(rows.shape[1]), self.n_threads)
        losses: list[tuple[float, Candidate, _Fit]] = []

        def tried(candidate: Candidate) -> tuple[LearnedClasses, _Fit]:
            learned = LearnedClasses.of(rows, candidate, columns, self.directions, self.n_threads)
            fit = _fit(learned.kernel(), self.labels.of(seen))
            cross_kernel = learned.cross_kernel(self.A[~seen], self.n_threads)
            losses.append((fit.loss_of(cross_kernel, others), candidate, fit))
            return learned, fit

        fits = [tried(candidate) for candidate in starts]
        learned, fit = fits[int(np.argmin([loss for loss, *_ in losses]))]
        pairs: list[Pair] = []
        for _ in range(n_steps):
            G = _metric_of_gradients(learned, fit.alpha)
            if G is None:
                break
            more = _found(rows, fit, G, pairs, n_interactions, random, self.n_threads)
            learned, fit = tried(Candidate(G, pairs))
            if more:
                pairs = [*pairs, *more]
                learned, fit = tried(Candidate(G, pairs))
        least, best, fit = min(losses, key=lambda found: found[0])
        if handicap is None:
            return best, False
        matern = LearnedMatern.of(rows, best.G)
        with_matern = _fit(matern.kernel(rows), self.labels.of(seen), with_level=True)
        loss = with_matern.loss_of(matern.kernel(rows, self.A[~seen]), others)
        # The rows that the metric was learned from tell kernels in it apart as well.
        share = float(np.mean(seen))
        least = (1.0 - share) * least + share * float(np.mean(fit.losses_left_out))
        loss = (1.0 - share) * loss + share * float(np.mean(with_matern.losses_left_out))
        return best, handicap * loss < least


@dataclass(frozen=True)
class _Fit:
    """One-vs-all regressions, calibrated."""

    alpha: Array
    noise: Array
    """Noise variance of each class."""
    root: tuple[Array, Array]
    """Eigenvectors of the kernel matrix, times the scale of rows, and roots of the inverse's
    eigenvalues."""
    readout: Readout
    losses_left_out: Array
    """Log loss of each row by a fit without it."""

    def loss_of(self, cross_kernel: Array, labels: _Labels) -> float:
        """Return the log loss of other rows, by their kernel with these."""
        means = cross_kernel @ self.alpha
        logits = means @ self.readout.matrix + self.readout.offset
        return float(labels.log_losses(logits).mean())


def _metric_of_gradients(learned: LearnedClasses, alpha: Array) -> Array | None:
    """Return the metric of the gradients of what the slices predict, part of it isotropic."""
    d = len(learned.G)
    outer = outer_gradients([learned.slices], alpha)
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


def _fit(K: Array, labels: _Labels, *, with_level: bool = False) -> _Fit:
    """Fit rows by their kernel matrix, which is overwritten, less the mean targets on request."""
    codes, r = labels.codes, labels.scale[:, None]
    Y = np.where(codes[:, None] == np.arange(labels.n_classes), 1.0, -1.0)
    if labels.n_classes == 2:
        Y = Y[:, 1:]
    if with_level:
        Y = Y - np.average(Y, axis=0, weights=labels.scale**2)
    K *= r
    K *= labels.scale
    nodes, Q = linalg.eigh(K, overwrite_a=True, check_finite=False)
    nodes = np.maximum(nodes, 0.0)
    scaled = r * Y
    squares = np.sum((Q.T @ scaled) ** 2, axis=1, keepdims=True)
    n_repeats = repeats(labels.stays)
    s = _RATIOS[np.argmin(profiled_costs(nodes, squares, _RATIOS, n_repeats))]
    inverse = (Q / (nodes + s)) @ Q.T
    solved = inverse @ scaled
    gone = 1.0 - labels.stays
    left_out = Y - solved / (r * (gone * np.diag(inverse) + labels.stays / s)[:, None])
    readout = fit_calibration(left_out, codes, weights=labels.scale**2)
    losses = labels.log_losses(left_out @ readout.matrix + readout.offset)
    noise = np.maximum(
        np.einsum("ij,ij->j", scaled, solved) / (len(Y) + n_repeats), np.finfo(np.float64).tiny
    )
    root = (r * Q, 1.0 / np.sqrt(nodes + s))
    return _Fit(r * solved, noise, root, readout, losses)
