"""Predictions of a blend taken apart: functions of columns and of pairs, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.gaussian_process._kernels.levels import LevelPair
from histrs.gaussian_process._tabular.classification import ClassFit, averaged_rows
from histrs.gaussian_process._tabular.log_odds import LogOdds
from histrs.gaussian_process._tabular.means import Blend
from histrs.gaussian_process._tabular.members import Member
from histrs.gaussian_process._tabular.regression import RegressionFit
from histrs.gaussian_process._tabular.rows import TableRows

# Training rows over which predictions are averaged.
MOST_AVERAGED = 500

Term: TypeAlias = tuple[int, ...]
"""A feature, or two."""


class TabularExplanation(NamedTuple):
    """What each feature, each pair, and all else add to the prediction of each row."""

    names: NDArray[Any]
    """Names of the terms, of shape (n_terms,): the features, and behind them the pairs."""
    data: NDArray[Any]
    """Values of the features, of shape (n_samples, n_features), None where missing."""
    values: Array
    """What terms add, of shape (n_samples, n_terms), or with a last axis for several outputs."""
    std: Array
    """Posterior standard deviations of that, of the same shape."""
    offset: Array
    """The mean prediction of training rows, of shape () or (n_outputs,)."""
    pairs: NDArray[np.intp]
    """Features of the terms that are pairs, of shape (n_pairs, 2)."""
    remainder: Array
    """What members add that are no sums over columns, of shape (n_samples,), or with a last axis.
    """
    prediction: Array
    """The sum of `offset`, `values` and `remainder`, of the shape of `remainder`."""
    scale: list[str]
    """The scale of each output: a transform of the target, "log-odds" or "probability"."""
    fraction: Array
    """Covariance of the sum of `values` and the prediction over the variance of the prediction.

    Of shape () or (n_outputs,), over training rows; NaN where all predictions are equal.
    """


@dataclass(frozen=True)
class Parts:
    """A blend as a sum over columns, if it has a member of that kind, and its predictions."""

    member: Member | None
    gain: Array
    """What the member's functions are multiplied by in the predictions."""
    sources: NDArray[np.intp]
    """The feature that each column of the member is made of."""
    predict: Callable[[TableRows, Array | None], Array]
    """Returns predictions of shape (n_rows, n_outputs), of several fillings a row with weights."""
    scale: str

    @cached_property
    def terms(self) -> dict[Term, list[int]]:
        """Each feature or pair with the functions of the member that are its."""
        found: dict[Term, list[int]] = {}
        for k, function in enumerate(() if self._bound is None else self._bound.kernel.terms):
            is_pair = isinstance(function, LevelPair)
            columns = function.features if is_pair else (function.feature,)
            term = tuple(sorted({int(self.sources[column]) for column in columns}))
            found.setdefault(term, []).append(k)
        return found

    @property
    def _bound(self) -> Any:
        return None if self.member is None else self.member.posterior.bound

    def moments(
        self, rows: TableRows, weights: Array | None, terms: Sequence[Term]
    ) -> tuple[Array, Array]:
        """Return what terms add to rows, of shape (n_rows, n_terms, n_outputs), and variances."""
        n_outputs = len(self.gain)
        means = np.zeros((len(rows.values), len(terms), n_outputs))
        variances = np.zeros_like(means)
        if self.member is not None:
            posterior = self.member.posterior
            codes = self._bound.rows_of(self.member.view(rows))
            W = self._bound.weights_of_functions(posterior.weights)
            for place, term in enumerate(terms):
                if term in self.terms:
                    ramps, of_weights = self._ramps(term, codes)
                    means[:, place] = ramps @ W[of_weights]
                    variances[:, place] = posterior.amplitude * np.column_stack(
                        [s.factor.variance_of(ramps, of_weights) for s in posterior.systems]
                    )
            means *= self.gain
            variances *= np.square(self.gain)
        if weights is None:
            return means, variances
        several = (*weights.shape, len(terms), n_outputs)
        means, variances = means.reshape(several), variances.reshape(several)
        mean = np.einsum("ij,ij...->i...", weights, means)
        return mean, np.einsum("ij,ij...->i...", weights, variances + (means - mean[:, None]) ** 2)

    def _ramps(self, term: Term, codes: NDArray[np.uint16]) -> tuple[Array, NDArray[np.intp]]:
        """Return the ramps of a term at rows, and which weights are theirs.

        Those of a feature are less their means over training rows. Those of pairs are products of
        such ones.
        """
        bound: Any = self._bound
        found, of_weights = [], []
        for k in self.terms[term]:
            of_term, _, weights = bound.kernel.parts[k]
            ramps = of_term.functions
            if len(term) == 1:
                counts = np.bincount(bound.rows[k], minlength=len(ramps))
                ramps = ramps - counts @ ramps / counts.sum()
            found.append(ramps[codes[k]])
            of_weights.append(np.arange(weights.start, weights.stop))
        return np.hstack(found), np.concatenate(of_weights)


def parts_of_target(fit: RegressionFit, sources: NDArray[np.intp]) -> Parts:
    """Return the blend of one target, on the scale of its transform."""
    member, weight = _additive(fit.blend)
    transform, unit = fit.blend.transform.name, fit.blend.unit

    def predict(rows: TableRows, weights: Array | None) -> Array:
        if transform == "identity":
            return fit.answer(rows, weights, np.empty(0), only_mean=True)[:, :1]
        transformed = fit.blend.centre + unit * fit.located(rows).mean
        return averaged_rows(transformed[:, None], weights)

    return Parts(member, np.array([weight * unit]), sources, predict, transform)


def parts_of_classes(fit: ClassFit, sources: NDArray[np.intp]) -> Parts:
    """Return the blend of classes: log odds, or probabilities where its functions are."""
    member, weight = _additive(fit)
    are_odds = member is None or isinstance(member, LogOdds)

    def predict(rows: TableRows, weights: Array | None) -> Array:
        tiny = np.finfo(np.float64).tiny if are_odds else 0.0
        P = np.maximum(fit.probabilities(rows, weights), tiny)
        others = P.sum(axis=1, keepdims=True) - P
        if len(fit.unit) == 1:
            P, others = P[:, 1:], P[:, :1]
        return np.asarray(np.log(P) - np.log(np.maximum(others, tiny)) if are_odds else P)

    gain = np.full(len(fit.unit), weight) if are_odds else weight * fit.unit
    return Parts(member, gain, sources, predict, "log-odds" if are_odds else "probability")


def _additive(fit: Blend | ClassFit) -> tuple[Member | None, float]:
    """Return the member that is a sum over columns, with its weight; None where there is none."""
    found = zip(fit.members, fit.weights.tolist(), strict=True)
    return next(((m, w) for m, w in found if m.name == "levels"), (None, 0.0))


def explained(
    parts: Sequence[Parts],
    names: NDArray[Any],
    data: NDArray[Any],
    sample: TableRows,
    answers: Callable[[Callable[[TableRows, Array | None], Array]], Array],
) -> TabularExplanation:
    """Take predictions apart.

    Parameters
    ----------
    parts : sequence of Parts
        Blends, each of one output or several.
    names : ndarray of shape (n_features,)
        Names of the features.
    data : ndarray of shape (n_samples, n_features)
        The rows, as they were given.
    sample : TableRows
        Training rows, over which means and variances of predictions are taken.
    answers : callable
        Returns what a function says of the rows.
    """
    pairs = sorted({term for of in parts for term in of.terms if len(term) == 2})
    terms: list[Term] = [*((d,) for d in range(len(names))), *pairs]

    def ask(rows: TableRows, weights: Array | None) -> Array:
        """Return means of terms, then the prediction, then variances, along the second axis."""
        found = []
        for of in parts:
            means, variances = of.moments(rows, weights, terms)
            prediction = of.predict(rows, weights)[:, None]
            found.append(np.concatenate([means, prediction, variances], axis=1))
        return np.concatenate(found, axis=2)

    n = len(terms)
    usual, asked = ask(sample, None), answers(ask)
    offset, of_sample = usual[:, n].mean(axis=0), usual[:, :n].sum(axis=1)
    away = usual[:, n] - offset
    variance = np.mean(away**2, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        fraction = np.mean(away * (of_sample - of_sample.mean(axis=0)), axis=0) / variance
    fraction[variance == 0.0] = np.nan
    values, prediction = asked[:, :n], asked[:, n]
    remainder = prediction - offset - values.sum(axis=1)
    both = [f"{names[i]} & {names[j]}" for i, j in pairs]
    found = values, np.sqrt(asked[:, n + 1 :]), offset, remainder, prediction, fraction
    if len(offset) == 1:
        found = tuple(part[..., 0] for part in found)
    values, std, offset, remainder, prediction, fraction = found
    return TabularExplanation(
        np.array([*names, *both], dtype=object),
        data,
        values,
        std,
        offset,
        np.array(pairs, dtype=np.intp).reshape(-1, 2),
        remainder,
        prediction,
        [of.scale for of in parts],
        fraction,
    )
