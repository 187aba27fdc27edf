"""Which pairs of features a model has, and what their weight is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import largest_entries
from histrs._solvers.row_scale import scaled
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.pairs import PairKernel, cell_among, dense_columns, grids_of
from histrs.gaussian_process._kernels.additive import check_pairs
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.likelihood import BaseLikelihood, Likelihood
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._learning.spectrum import Evaluation, Spectrum
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._systems.rows import left_over

# Features whose pairs are looked at, and rows that tell them, at most.
MOST_FEATURES = 64
_MOST_SEARCHED = 1 << 17
# Rows of a likelihood that the weight of pairs is learned by: more take long, fewer tell nothing.
_MOST_ROWS = 1024
_MIN_HALF = 16
# Of what the additive fit leaves, more digits do not matter.
_TOLERANCE = 1e-2
_FOLDS = 5
# Of more rows, one of them has no say in which pairs there are.
MOST_ROWS = 2048


def strongest_pairs(
    X: Matrix,
    residuals: Array,
    strength: Array,
    n_pairs: int,
    n_knots: int,
    make_rng: Callable[[], np.random.Generator],
) -> NDArray[np.intp]:
    r"""Return the pairs of features whose histograms tell most of the residuals, best first.

    The method is FAST (Lou et al., "Accurate intelligible models with pairwise interactions", KDD
    2013). Residuals are the weights of the additive fit. They are added up in the cells of a grid,
    in one pass for each pair. The covariance `C` that the model gives the cells judges their sums
    `t`, by :math:`t^T C t / \mathrm{tr}(H C H^T)`. This is the slope of the likelihood by the
    weight of the pair, up to a part that all pairs share. Above 64 features, only the 64 of largest
    `strength` have pairs.
    """
    varied = np.argsort(-strength, kind="stable")[:MOST_FEATURES]
    varied = varied[strength[varied] >= 0.0]
    features = np.sort(varied)
    if len(residuals) > _MOST_SEARCHED:
        some = np.sort(make_rng().choice(len(residuals), _MOST_SEARCHED, replace=False))
        X, residuals = X[some], residuals[some]
    columns = dense_columns(X, features)
    gains = dict(_gains(columns, residuals, n_knots))
    best = sorted(gains, key=lambda pair: (-gains[pair], pair))
    found = [(int(features[i]), int(features[j])) for i, j in best[:n_pairs] if gains[i, j] > 0.0]
    return np.array(found, dtype=np.intp).reshape(-1, 2)


def _gains(
    columns: Array, residuals: Array, n_knots: int
) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield pairs of columns, and what a histogram of each explains."""
    grids, covariances = grids_of(columns, n_knots)
    nearest, variances = [], []
    for column, knots, C in zip(columns.T, grids, covariances, strict=True):
        left, share = cell_among(column, knots)
        at = left + (share > 0.5)
        nearest.append(at)
        variances.append(C[at, at])
    for i, j in combinations(range(columns.shape[1]), 2):
        expected = float(variances[i] @ variances[j])
        if not expected > 0.0:
            continue
        n_i, n_j = len(grids[i]), len(grids[j])
        cells = nearest[i] * n_j + nearest[j]
        explained = 0.0
        for residual in residuals.T:
            sums = np.bincount(cells, residual, n_i * n_j).reshape(n_i, n_j)
            explained += float(np.sum((covariances[i] @ sums @ covariances[j]) * sums))
        yield (i, j), explained / expected


def chosen_pairs(
    problem: Problem,
    asked: Any,
    likelihood: Likelihood,
    values: Hyperparameters,
    but: Collection[int] = (),
) -> NDArray[np.intp]:
    """Return the pairs that are given, or those that the residuals of the additive fit show.

    Features of `but` are in none that is looked for.
    """
    X = problem.X
    if asked is None or asked.has_none:
        return np.empty((0, 2), dtype=np.intp)
    if not asked.are_found:
        return check_pairs(asked.pairs, X.shape[1], problem.feature_names)
    if X.shape[1] < 2:
        raise ValueError(
            f"{asked!r} needs two features or more, and X has n_features = 1: leave it out."
        )
    alpha, strength = _additive_fit(likelihood, values)
    strength[list(but)] = -np.inf
    return strongest_pairs(X, alpha, strength, asked.pairs, asked.n_knots, problem.rng)


def likelihood_of_pairs(problem: Problem, asked: Any, values: Hyperparameters) -> BaseLikelihood:
    """Return the likelihood that the weight of pairs is learned by, at `values` with these pairs.

    With few rows it is the likelihood of two halves, each with the pairs that the other chose,
    unless pairs are given. With many it is the likelihood of some of the rows, which hardly took
    part in the choice.
    """
    n = len(problem.Y)
    few = n <= 2 * _MOST_ROWS
    if few and (not asked.are_found or n < 2 * _MIN_HALF):
        return problem.exact_likelihood(np.arange(n), values.kernel)
    order = problem.rng().permutation(n)
    if not few:
        return problem.exact_likelihood(np.sort(order[:_MOST_ROWS]), values.kernel)
    additive = replace(values, kernel=replace(values.kernel, pairs=None))
    likelihoods, kernels = [], []
    for rows in (np.sort(order[: n // 2]), np.sort(order[n // 2 :])):
        half = problem.of_rows(rows, exact=True)
        likelihood = half.likelihood(half.bind(additive.kernel))
        pairs = chosen_pairs(half, asked, likelihood, additive)
        likelihoods.append(half.likelihood(likelihood.bound(additive.kernel)))
        kernels.append(PairKernel.of(problem.X, pairs, asked.n_knots))
    return HalvesLikelihood(problem.Y, list(zip(likelihoods, kernels[::-1], strict=True)))


def _additive_fit(likelihood: Likelihood, values: Hyperparameters) -> tuple[Array, Array]:
    """Return the weights of the fit, of unit length per output, and how much features vary."""
    Y = likelihood.targets
    parts = []
    for scales, outputs in zip(values.scales(), values.outputs(Y.shape[1]), strict=True):
        system = likelihood.system(values.kernel, scales)
        B = np.ascontiguousarray(Y[:, outputs])
        solution = system.solve(B, _TOLERANCE * largest_entries(B)).X
        parts.append(scaled(system.row_scale, solution))
    alpha = np.hstack(parts)
    length = np.sqrt(np.sum(alpha**2, axis=0))
    alpha /= np.where(length > 0.0, length, 1.0)
    system = likelihood.system(values.kernel, values.scales()[0])
    return alpha, system.bound.forms_by_feature(np.ascontiguousarray(alpha)).sum(axis=1)


class HalvesLikelihood(BaseLikelihood):
    """The sum of the likelihoods of two halves of the rows, each with pairs that the other chose.

    Of many pairs, the strongest few fit the noise of the rows that they are chosen by; those rows'
    own likelihood would take it for signal.
    """

    def __init__(self, Y: Array, halves: Sequence[tuple[Likelihood, PairKernel]]) -> None:
        super().__init__(Y)
        self._halves = halves
        self.has_gradient = all(likelihood.has_gradient for likelihood, _ in halves)

    def diagonal_mean(self, values: Hyperparameters) -> float:
        means = [part.diagonal_mean(_of(values, pairs)) for part, pairs in self._halves]
        return sum(means) / len(means)

    def spectrum(self, kernel: Any) -> Spectrum:
        return _SpectrumOfHalves(
            [part.spectrum(replace(kernel, pairs=pairs)) for part, pairs in self._halves]
        )

    def evaluate(self, values: Hyperparameters, names: Collection[str] = ()) -> Evaluation:
        return _sum([part.evaluate(_of(values, pairs), names) for part, pairs in self._halves])


class _SpectrumOfHalves(Spectrum):
    def __init__(self, parts: Sequence[Spectrum]) -> None:
        self._parts = parts
        self.n_rows = sum(part.n_rows for part in parts)

    def evaluate(self, values: Scales, outputs: slice) -> Evaluation:
        return _sum([part.evaluate(values, outputs) for part in self._parts])

    def best_amplitude(self, s: float, outputs: slice) -> float:
        sums = [part.n_rows * part.best_amplitude(s, outputs) for part in self._parts]
        return sum(sums) / self.n_rows

    def refine(self) -> bool:
        # Every part takes its step.
        return any([part.refine() for part in self._parts])


def _of(values: Hyperparameters, pairs: PairKernel) -> Hyperparameters:
    return replace(values, kernel=replace(values.kernel, pairs=pairs))


def _sum(parts: Sequence[Evaluation]) -> Evaluation:
    names = parts[0].gradient
    return Evaluation(
        sum(part.value for part in parts),
        float(sum(part.std**2 for part in parts)) ** 0.5,
        {name: sum(part.gradient[name] for part in parts) for name in names},
        all(part.solved for part in parts),
    )


def scores_without_pairs_of(problem: Problem, asked: Any, posterior: Posterior) -> Array:
    """Return posterior means of each row by a fit to four fifths of the others.

    Each fit chooses its own pairs: those of all rows were chosen with the row's own label.
    """
    bound, Y = posterior.bound, problem.Y
    n = len(Y)
    order = problem.rng().permutation(n)
    additive = replace(posterior.system.kernel, pairs=None)
    values = Hyperparameters(posterior.noise, posterior.amplitude, additive)
    scores = np.empty_like(Y)
    for fold in range(_FOLDS):
        held = np.sort(order[fold::_FOLDS])
        part = problem.of_rows(left_over(n, held))
        likelihood = part.likelihood(part.bind(additive))
        chosen = chosen_pairs(part, asked, likelihood, values)
        pairs = PairKernel.of(part.X, chosen, asked.n_knots)
        kernel = replace(additive, pairs=pairs if len(chosen) > 0 else None)
        of_part = likelihood.bound(kernel)
        rows = of_part.rows_of(bound.X[held])
        for scales, outputs in zip(values.scales(), values.outputs(Y.shape[1]), strict=True):
            B = np.ascontiguousarray(part.Y[:, outputs])
            system = part.system(of_part, scales)
            weights = system.solve_targets(B, np.full(B.shape[1], posterior.tol)).X
            scores[held, outputs] = of_part.cross_product(rows, weights)
    return scores
