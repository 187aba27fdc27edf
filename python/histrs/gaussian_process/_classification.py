"""What Gaussian processes of classes share: targets -1 and +1, and probabilities."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from histrs._calibration import logits_of_classes
from histrs._labels import best_class
from histrs._solvers.block_cg import Array
from histrs._validation import Matrix
from histrs.gaussian_process._classification_learning import ClassificationLearning
from histrs.gaussian_process._precision import in_precision_of_rows


class ClassTargets(ClassificationLearning):
    """Classification by regression of targets -1 and +1, one for each class or one for two."""

    @in_precision_of_rows
    def decision_function(self, X: ArrayLike | Matrix) -> Array:
        """Return the scores by which classes are predicted.

        With `calibration` they are the logits of the probabilities, else the posterior mean of the
        targets (eq. 2), which `latent_mean_and_variance` returns in either case.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive for ``classes_[1]``.
        """
        X, state = self._check_rows_of_means(X), self._answering()
        return _one_or_each(self._read(state, "decision", X))

    @overload
    def predict(
        self, X: ArrayLike | Matrix, return_std: Literal[False] = False
    ) -> NDArray[Any]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, return_std: Literal[True]
    ) -> tuple[NDArray[Any], Array]: ...
    @in_precision_of_rows
    def predict(
        self, X: ArrayLike | Matrix, return_std: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], Array]:
        """Predict class labels, and on request how uncertain the model's outputs are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.
        return_std : bool, default=False
            Whether to return the predictive standard deviation too, computed as the parameter
            `variance` says.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The most probable classes.
        std : ndarray of shape (n_samples,), or (n_samples, n_outputs)
            Only with `return_std`: square root of eq. 3, noise included; one for all outputs unless
            each has its own hyper-parameters.
        """
        check = self._check_test if return_std else self._check_rows_of_means
        X, state = check(X), self._answering()
        labels = best_class(self._read(state, "decision", X), state["classes_"])
        if not return_std:
            return labels
        return labels, self._spread(state, np.sqrt(self._predictive_variance(state, X)))

    @in_precision_of_rows
    def predict_proba(self, X: ArrayLike | Matrix) -> Array:
        r"""Return class probabilities.

        With ``calibration="leave-one-out"`` they are
        :math:`\mathrm{softmax}(T \mu + W^T \mu + b)` of the posterior means :math:`\mu`, with a
        temperature, matrix and offsets that make the labels of training rows likely, each
        predicted by a fit without it. They take no longer than the means.

        With ``calibration=None`` they are what the model says without further fitting: the targets
        of a row are its latent functions plus Gaussian noise. Of all target vectors only those with
        a single +1 can occur, so that with the predictive variances :math:`\sigma_c^2` of eq. 3

        .. math:: P(c \mid x) \propto \prod_k \mathcal N(t_{ck}; \mu_k, \sigma_k^2)
                  \propto \exp(2 \mu_c / \sigma_c^2),

        where `t_c` is +1 at `c` and -1 elsewhere. On classes that are easily told apart, these are
        too certain.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.
        """
        check = self._check_test if self.calibration is None else self._check_rows_of_means
        X, state = check(X), self._answering()
        logits = self._read(state, "decision", X)
        if self.calibration is None:
            return self._uncalibrated(state, X, logits)
        probabilities: Array = softmax(logits_of_classes(logits), axis=1)
        return probabilities

    def _uncalibrated(self, state: dict[str, Any], X: Matrix, means: Array) -> Array:
        """Return what the model says of classes, without further fitting."""
        logits = 2.0 * means / self._predictive_variance(state, X)
        probabilities: Array = softmax(logits_of_classes(logits), axis=1)
        return probabilities

    @in_precision_of_rows
    def latent_mean_and_variance(self, X: ArrayLike | Matrix) -> tuple[Array, Array]:
        """Return mean and variance of the latent functions, without the noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Eq. 2.
        variance : ndarray of shape (n_samples,), or (n_samples, n_outputs)
            Eq. 3 without the noise variance; one for all outputs unless each has its own
            hyper-parameters.
        """
        X, state = self._check_test(X), self._state()
        mean = _one_or_each(self._read(state, "mean", X))
        return mean, _one_or_each(self._latent_variance(state, X))

    def _spread(self, state: dict[str, Any], std: Array) -> Array:
        return _one_or_each(std)


def _one_or_each(columns: Array) -> Array:
    """Return what there is one of for every row as a vector, and one for each output as it is."""
    return columns[:, 0] if columns.shape[1] == 1 else columns
