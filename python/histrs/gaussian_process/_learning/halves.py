"""The likelihood of pairs by rows that have not chosen them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from histrs._typing import Array
from histrs.gaussian_process._bound.pairs import PairKernel
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.likelihood import BaseLikelihood, Likelihood
from histrs.gaussian_process._learning.spectrum import Evaluation, Spectrum


class HalvesLikelihood(BaseLikelihood):
    """The sum of the likelihoods of two halves of the rows, each with pairs that the other chose.

    Of many pairs, the strongest few fit the noise of the rows that they are chosen by; those rows'
    own likelihood would take it for signal.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_outputs)
        All targets.
    halves : sequence of (Likelihood, PairKernel)
        The likelihood of each half, and its pairs.
    """

    def __init__(self, Y: Array, halves: Sequence[tuple[Likelihood, PairKernel]]) -> None:
        super().__init__(Y)
        self._halves = halves

    @property
    def has_gradient(self) -> bool:
        """Whether there is a gradient."""
        return all(likelihood.has_gradient for likelihood, _ in self._halves)

    def diagonal_mean(self, values: Hyperparameters) -> float:
        means = [part.diagonal_mean(_of(values, pairs)) for part, pairs in self._halves]
        return sum(means) / len(means)

    def spectrum(self, kernel: Any) -> Spectrum:
        return _SpectrumOfHalves(
            [part.spectrum(replace(kernel, pairs=pairs)) for part, pairs in self._halves]
        )

    def evaluate(self, values: Hyperparameters, names: Collection[str] = ()) -> Evaluation:
        """Return the likelihood, and its derivatives by the logarithms of what is named."""
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
