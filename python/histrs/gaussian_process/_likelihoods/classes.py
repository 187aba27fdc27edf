"""What classes are to a process: targets with noise, or latent functions with a probability."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, softmax
from sklearn.utils.validation import column_or_1d

from histrs._calibration import logits_of_classes
from histrs._repeats import equal_rows
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs._weights import index_of_best
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.leave_one_out import folds_of, held_out, leave_one_out
from histrs.gaussian_process._learning.likelihood import BaseLikelihood
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._likelihoods.families import Bernoulli
from histrs.gaussian_process._likelihoods.laplace import (
    LEAST_CURVATURE,
    SMALL,
    BiasSolution,
    LaplaceLikelihood,
    Mode,
    at_curvature,
    best_amplitude,
    evidence_of_modes,
    left_out,
    loss_by_left_out,
    modes_of,
)
from histrs.gaussian_process._likelihoods.softmax import (
    SoftmaxPrior,
    evidence_of_softmax,
    loss_by_evidence,
    softmax_modes,
)
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._rows import rows_of
from histrs.gaussian_process._systems.rows import left_over, remove_rows
from histrs.gaussian_process._systems.system import System


def declared_with(
    before: NDArray[Any] | None,
    classes: ArrayLike | None,
    labels: NDArray[Any],
    known: list[NDArray[Any]],
) -> NDArray[Any] | None:
    """Return classes that stay without rows, and refuse labels that are neither these nor known."""
    if classes is None:
        return before
    given = np.unique(column_or_1d(classes))
    foreign = np.flatnonzero(~np.isin(of_one_type(labels), of_one_type(*known, given)))
    if len(foreign) > 0:
        raise ValueError(
            f"y[{foreign[0]}] = {labels.tolist()[foreign[0]]!r} is neither in classes = "
            f"{given.tolist()} nor known: add it to classes, or leave classes out."
        )
    return np.unique(given if before is None else of_one_type(before, given))


def classes_of(name: str, declared: NDArray[Any] | None, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes of all rows and those declared: two at least."""
    classes = np.unique(labels if declared is None else of_one_type(declared, labels))
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs samples of at least 2 classes, but y contains "
            f"only one class: {classes.tolist()[0]!r}. Add samples of another one."
        )
    return classes


def targets_of(labels: NDArray[Any], classes: NDArray[Any]) -> Array:
    """Return +1 for the class of an output and -1 for others; one output for two classes."""
    codes = np.searchsorted(classes, labels)
    positive = codes[:, None] == ([1] if len(classes) == 2 else np.arange(len(classes)))
    return np.where(positive, 1.0, -1.0)


def weights_to_start_from(classes: NDArray[Any], before: NDArray[Any], weights: Array) -> Array:
    """Return the weights of the outputs that there are now, from those of earlier classes.

    The targets of n classes add up to 2 - n in every row, and weights are linear in targets. This
    gives the weights of a class that had no rows.
    """
    if weights.shape[1] == 1:
        weights = np.hstack([-weights, weights])
    n = len(before)
    of_new = weights.sum(axis=1) / (n - 2) if n > 2 else np.zeros(len(weights))
    known = dict(zip(before.tolist(), weights.T, strict=True))
    outputs = classes[1:] if len(classes) == 2 else classes
    return np.column_stack([known.get(label, of_new) for label in outputs.tolist()])


def one_an_output(systems: tuple[Any, ...], n_outputs: int) -> tuple[Any, ...]:
    """Return as many systems as outputs: classes that are new begin like the last one."""
    if len(systems) in (1, n_outputs):
        return systems
    return tuple(systems[min(k, len(systems) - 1)] for k in range(n_outputs))


def of_one_type(*labels: NDArray[Any]) -> NDArray[Any]:
    """Return all labels together, unless NumPy would turn numbers into strings."""
    kinds = {_kind(part) for part in labels}
    if len(kinds) > 1:
        raise ValueError(
            f"Labels are {' and '.join(sorted(kinds))}: give one type, as in earlier calls."
        )
    return np.concatenate(labels)


def _kind(labels: NDArray[Any]) -> str:
    if labels.dtype.kind in "biuf":
        return "numbers"
    if labels.dtype.kind != "O":
        return "strings"
    types = {
        "strings" if isinstance(x, str) else "numbers" if isinstance(x, Number) else "objects"
        for x in labels
    }
    return types.pop() if len(types) == 1 else "objects"


ChosenName: TypeAlias = Literal["gaussian", "bernoulli", "softmax"]


@dataclass(frozen=True)
class Modes:
    """Regressions that are like the likelihood at its mode, one for each output."""

    targets: Array
    """Of shape (n_rows, n_outputs)."""
    curvature: Array
    """Weights of rows in them, likewise."""
    bias: Array
    of_bias: tuple[BiasSolution, ...]

    @classmethod
    def of(cls, modes: Sequence[Mode]) -> Modes:
        """Keep what predictions are made of."""
        scales = [cast(Array, mode.system.row_scale) for mode in modes]
        return cls(
            np.column_stack([mode.targets for mode in modes]),
            np.column_stack(scales) ** 2,
            np.array([mode.bias for mode in modes]),
            tuple(mode.of_bias for mode in modes),
        )

    def systems(self, base: System) -> tuple[System, ...]:
        """Return the systems of the regressions."""
        return tuple(at_curvature(base, column) for column in self.curvature.T)


class FittedClasses(NamedTuple):
    """What rows that are left out are predicted from."""

    posterior: Posterior
    Y: Array
    """+1 where a row is of the class of an output, else -1."""
    level: Array
    """What the targets of the posterior are less."""
    weights: Array | None
    """Weights of the rows; None for 1."""
    stays: Array | None
    """What part of each row stays where it is left out; None for 0."""
    modes: Modes | None


class CodedClasses:
    """Targets +1 and -1, of which a latent function is told with Gaussian noise."""

    name: ClassVar[ChosenName] = "gaussian"
    calibration: ClassVar[dict[str, Any]] = {}
    """What is known of the calibration before anything is seen."""

    def left_out(self, fit: FittedClasses) -> Array:
        """Return posterior means, less their level, of each row by a fit without it."""
        return leave_one_out(fit.posterior, fit.Y - fit.level, fit.stays)[0]

    def held_out(self, fit: FittedClasses, seed: int) -> tuple[Array, NDArray[np.int64]]:
        """Return them of some rows by fits without a part of all, and which rows they are."""
        return held_out(fit.posterior, fit.Y - fit.level, index_of_best(fit.Y), seed)

    def noise(self, posterior: Posterior, mean: Array) -> Array:
        """Return the noise variances with which labels of rows would be told.

        One for every row, or one for all, a row of the result for each system.
        """
        return posterior.noise[:, None]

    def predictive_variance(self, posterior: Posterior, latent: Array) -> Array:
        """Return the posterior variance of targets, from that of latent functions."""
        return np.asarray(latent + posterior.noise)

    def probabilities(self, posterior: Posterior, mean: Array, latent: Array) -> Array:
        """Return what the model says of classes, without further fitting."""
        logits = 2.0 * mean / self.predictive_variance(posterior, latent)
        return np.asarray(softmax(logits_of_classes(logits), axis=1))


@dataclass(frozen=True)
class LatentClasses:
    """Classes that follow latent functions with a probability: by Laplace's approximation.

    It answers what `CodedClasses` does.
    """

    name: ChosenName
    """Of the probability: "bernoulli" or "softmax"."""
    tol: float

    @property
    def calibration(self) -> dict[str, Any]:
        return {"matrix_scaling": False} if self.name == "softmax" else {}

    def modes(
        self, base: System, Y: Array, sample_weight: Array | None, start: Array | None
    ) -> list[Mode]:
        """Return the mode of each output, from `start` as weights that count the amplitude in."""
        if self.name == "bernoulli":
            return modes_of(base, Bernoulli(), Y > 0, sample_weight, self.tol, start)
        # The functions of several classes are coupled by a matrix of all rows.
        K = base.kernel_matrix() if base.uses_cholesky(Y.shape[1]) else None
        with blas_threads_at_most(1) if len(Y) <= SMALL else nullcontext():
            return softmax_modes(base, Y, sample_weight, self.tol, start, K)

    def chosen_amplitude(self, problem: Problem, kernel: Any, bounds: tuple[float, float]) -> float:
        """Return the variance of the logit that some of the rows tell, whose targets are +-1."""
        # Several classes have a factor each.
        n_outputs = problem.Y.shape[1]
        rows = some_of_each_class(problem.Y, int(SMALL / n_outputs**0.5))
        part = problem.of_rows(rows)
        some = base_of(part.system(part.bind(kernel), Scales(1.0, 1.0)), 1.0)
        K = some.kernel_matrix()
        if self.name == "softmax":
            loss = loss_by_evidence(K, part.Y, part.weights, self.tol)
        else:
            of_rows = K, part.Y, part.weights, self.tol, part.stays
            loss = loss_by_left_out(lambda a: base_of(some, a), *of_rows)
        # On matrices of this size, BLAS's threads mostly wait for one another.
        with blas_threads_at_most(1):
            return best_amplitude(loss, K, bounds)

    def evidence(
        self, base: System, Y: Array, sample_weight: Array | None, kernel_on: Any
    ) -> BaseLikelihood:
        """Return the log marginal likelihood as a function of hyper-parameters.

        `kernel_on` returns a kernel on the rows of `base`.
        """

        def of(values: Hyperparameters) -> tuple[float, float]:
            on_rows = replace(base, bound=kernel_on(values.kernel))
            changed = base_of(on_rows, float(values.amplitude[0]))
            if self.name == "softmax":
                return evidence_of_softmax(changed, Y, sample_weight, self.tol)
            return evidence_of_modes(changed, Bernoulli(), Y > 0, sample_weight, self.tol)

        return LaplaceLikelihood(of, Y, self.tol)

    def left_out(self, fit: FittedClasses) -> Array:
        posterior, modes = fit.posterior, cast(Modes, fit.modes)
        if self.name == "softmax":
            base = posterior.system.with_row_scale(None)
            prior = SoftmaxPrior(base.kernel_matrix(), base.amplitude)
            mode = prior.mode_at(posterior.weights / base.amplitude)
            return prior.left_out(mode, fit.weights, fit.stays) - modes.bias
        targets = modes.targets - modes.bias
        parts = zip(posterior.systems, targets.T, posterior.weights.T, modes.of_bias, strict=True)
        return np.column_stack([left_out(*part, fit.stays) for part in parts])

    def held_out(self, fit: FittedClasses, seed: int) -> tuple[Array, NDArray[np.int64]]:
        posterior, modes = fit.posterior, cast(Modes, fit.modes)
        base = posterior.system.with_row_scale(None)
        folds = folds_of(equal_rows(base.X), index_of_best(fit.Y), seed)
        scores = []
        for held in folds:
            kept = left_over(len(fit.Y), held)
            of_kept = rows_of(fit.weights, kept)
            without = remove_rows(base, held, fit.Y.shape[1])
            found = self.modes(without, fit.Y[kept], of_kept, posterior.weights[kept])
            weights = np.column_stack([mode.weights for mode in found])
            shift = np.array([mode.bias for mode in found]) - modes.bias
            scores.append(base.bound.means_held_out(without.bound, held, weights) + shift)
        return np.vstack(scores), np.concatenate(folds)

    def noise(self, posterior: Posterior, mean: Array) -> Array:
        f = mean.T
        if self.name == "softmax":
            P = softmax(f, axis=0)
            curvature = P * (P.sum(axis=0) - P)
        else:
            curvature = expit(f) * expit(-f)
        return np.asarray(1.0 / np.maximum(curvature, LEAST_CURVATURE))

    def predictive_variance(self, posterior: Posterior, latent: Array) -> Array:
        return latent

    def probabilities(self, posterior: Posterior, mean: Array, latent: Array) -> Array:
        # The mean of a logistic function of a normal variable (MacKay, 1992).
        z = mean / np.sqrt(1.0 + np.pi / 8.0 * latent)
        if self.name == "softmax":
            logs = z
        else:
            logs = np.hstack([log_expit(-z), log_expit(z)]) if z.shape[1] == 1 else log_expit(z)
        return np.asarray(softmax(logs, axis=1))


def base_of(system: System, amplitude: float) -> System:
    """Return the system of a variance of the logit, without weights of rows."""
    return system.with_scales(Scales(1.0, amplitude)).with_row_scale(None)


def some_of_each_class(Y: Array, most: int) -> NDArray[np.intp]:
    """Return so many rows, evenly from each class, or a few more."""
    n = len(Y)
    if n <= most:
        return np.arange(n)
    labels = index_of_best(Y)
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    indices = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    stride = n / most
    # The first of each class, and then one in so many.
    taken = np.floor(indices / stride) != np.floor((indices - 1) / stride)
    return np.sort(order[taken])
