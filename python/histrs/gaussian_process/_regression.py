"""What Gaussian processes of real targets share: their unit, and what is asked of them."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.utils import Tags

from histrs._row_weights import over_unit
from histrs._solvers.block_cg import Array
from histrs._validation import Matrix, check_random_state
from histrs.gaussian_process._leave_one_out import leave_one_out
from histrs.gaussian_process._precision import Answer, in_precision_of_rows
from histrs.gaussian_process._process import AnyPosterior
from histrs.gaussian_process._regression_learning import RegressionLearning


class RealTargets(RegressionLearning):
    """Regression: one or more targets, each standardised by its own mean and spread."""

    @overload
    def predict(
        self,
        X: ArrayLike | Matrix,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        return_quantiles: None = None,
    ) -> NDArray[Any]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, return_std: Literal[True]
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, *, return_cov: Literal[True]
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, *, return_quantiles: ArrayLike
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self,
        X: ArrayLike | Matrix,
        return_std: bool = False,
        return_cov: bool = False,
        return_quantiles: ArrayLike | None = None,
    ) -> Answer: ...
    @in_precision_of_rows
    def predict(
        self,
        X: ArrayLike | Matrix,
        return_std: bool = False,
        return_cov: bool = False,
        return_quantiles: ArrayLike | None = None,
    ) -> Answer:
        """Predict targets, and on request how uncertain they are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.
        return_std : bool, default=False
            Whether to return the predictive standard deviation too, computed as the parameter
            `variance` says.
        return_cov : bool, default=False
            Whether to return the predictive covariance of the rows too, exactly, which takes a
            solve for every row.
        return_quantiles : array-like of shape (n_quantiles,), default=None
            Probabilities, between 0 and 1, whose quantiles to return too; their standard
            deviations are those of `return_std`.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Eq. 2, plus the mean of the targets.
        std : ndarray of the same shape
            Only with `return_std`: square root of eq. 3, noise included.
        covariance : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Only with `return_cov`: noise included, on the diagonal.
        quantiles : ndarray of shape (n_samples, n_quantiles) or (n_samples, n_quantiles, n_targets)
            Only with `return_quantiles`.

        Raises
        ------
        ValueError
            If more than one of these is asked for, or a probability is not between 0 and 1.
        """
        if return_std + return_cov + (return_quantiles is not None) > 1:
            raise ValueError(
                "Ask for one of return_std, return_cov and return_quantiles at a time."
            )
        if self._has_patterns():
            answer: Answer = self._of_patterns(
                lambda fit: fit.predict(X, return_std, return_cov, return_quantiles)
            )
            return answer
        only_mean = not (return_std or return_cov) and return_quantiles is None
        X = self._check_rows_of_means(X) if only_mean else self._check_test(X)
        state = self._state()
        mean = self._shaped(self._read(state, "mean", X))
        if return_cov:
            return mean, self._covariance(state, X)
        if only_mean:
            return mean
        variance = self._latent_variance(state, X) + state["_posterior"].noise
        std = self._spread(state, np.sqrt(variance))
        if return_std:
            return mean, std
        probabilities = np.atleast_1d(np.asarray(return_quantiles, dtype=np.float64))
        if probabilities.ndim != 1 or not np.all((probabilities > 0) & (probabilities < 1)):
            raise ValueError(
                f"return_quantiles = {return_quantiles!r}: give probabilities between 0 and 1."
            )
        z = ndtri(probabilities).reshape(-1, *[1] * (mean.ndim - 1))
        return mean, mean[:, None] + z * std[:, None]

    def _covariance(self, state: dict[str, Any], X: Matrix) -> Array:
        covariance = np.moveaxis(_standard_covariance(state, X), 0, 2)
        # In the unit of huge targets it may be beyond double precision.
        with np.errstate(over="ignore"):
            in_units: Array = covariance * state["y_std_"] * state["y_std_"]
        return in_units[:, :, 0] if self._single_target else in_units

    @in_precision_of_rows
    def sample_y(
        self,
        X: ArrayLike | Matrix,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Array:
        """Draw targets of rows from the posterior, noise included.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Histograms.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0
            Draws them.

        Returns
        -------
        samples : ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Joint draws: a column is one for all rows.
        """
        random = check_random_state(random_state)
        if self._has_patterns():
            # One generator for all, whose draws differ from fit to fit.
            drawn: Array = self._of_patterns(lambda fit: fit.sample_y(X, n_samples, random), 1)
            return drawn
        X, state = self._check_test(X), self._state()
        means, units = self._read(state, "mean", X), state["y_std_"]
        covariance = _standard_covariance(state, X)
        samples = np.empty((*means.shape, n_samples))
        for k, column in enumerate(means.T):
            # One system may serve all targets.
            values, vectors = np.linalg.eigh(covariance[min(k, len(covariance) - 1)])
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            deviations = root @ random.standard_normal((len(root), n_samples))
            samples[:, k] = column[:, None] + deviations * units[k]
        return samples[:, 0] if self._single_target else samples

    @in_precision_of_rows
    def predict_leave_one_out(self) -> tuple[Array, Array]:
        """Predict every row of positive weight that was given by the fit without it.

        Returns
        -------
        mean : ndarray of the shape of the targets
            Means (Rasmussen and Williams, 2006, eq. 5.12). The hyper-parameters, the mean of the
            targets and their unit stay those of all rows. Rows that are equal, targets too, are
            left out together. NaN where a target is missing.
        std : ndarray of the same shape
            Predictive standard deviations, noise included, that of a row of little weight being
            larger.

        Raises
        ------
        ValueError
            If the system was not factorised: choose ``solver="cholesky"``.
        """
        if self._has_patterns():
            found = np.full((2, *self.Y_fit_.shape), np.nan)
            for fit, indices in zip(self._fits_now(), self._indices(), strict=True):
                for answer, of_fit in zip(found, fit.predict_leave_one_out(), strict=True):
                    answer[indices] = of_fit
            return found[0], found[1]
        state = self._state()
        posterior: AnyPosterior = state["_posterior"]
        if not posterior.is_factorised:
            raise ValueError(
                "Leave-one-out in closed form needs a Cholesky factor, for which there are too "
                'many rows here: fit with solver="cholesky", or use cross_val_predict.'
            )
        mean, variance = leave_one_out(
            posterior, state["Y_fit_"] / state["y_std_"], state["_stays"]
        )
        mean = mean * state["y_std_"] + state["y_mean_"]
        learned, own = state["_given"]
        mean, variance = (of_rows[learned] for of_rows in (mean, variance))
        # One of several equal rows has its own noise alone.
        if (weights := state["sample_weight_fit_"]) is not None:
            own = over_unit(own, state["_weight_unit"])
            variance += (1.0 / own - 1.0 / weights[learned])[:, None] * posterior.noise
        mean[learned < 0] = variance[learned < 0] = np.nan
        return self._shaped(mean), self._spread(state, np.sqrt(variance))

    @in_precision_of_rows
    def latent_mean_and_variance(self, X: ArrayLike | Matrix) -> tuple[Array, Array]:
        """Return mean and variance of the latent function, without the noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            As `predict`.
        variance : ndarray of the same shape
            Eq. 3 without the noise variance; infinity where double precision cannot hold it.
        """
        if self._has_patterns():
            latent: tuple[Array, Array] = self._of_patterns(
                lambda fit: fit.latent_mean_and_variance(X)
            )
            return latent
        X, state = self._check_test(X), self._state()
        mean = self._shaped(self._read(state, "mean", X))
        std = self._spread(state, np.sqrt(self._latent_variance(state, X)))
        # In the unit of huge targets it may be beyond double precision.
        with np.errstate(over="ignore"):
            variance: Array = np.square(std)
        return mean, variance

    def std_bounds(self, X: ArrayLike | Matrix, rtol: float = 0.01) -> tuple[Array, Array]:
        r"""Return two numbers that the predictive standard deviation is certainly between.

        Whatever `variance` is. With any approximate solution :math:`b` of :math:`A b = k_x`,
        :math:`A = K + s I`, and its residual :math:`r`,

        .. math:: 0 \le k_x^T A^{-1} k_x - (k_x^T b + b^T r) = r^T A^{-1} r \le r^T r / s,

        and systems are solved until that is little enough. Where a stored matrix is factorised, the
        bounds are equal, or differ by rounding.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.
        rtol : float, default=0.01
            How far apart they may be, as part of the lower one. Where that is not reached in
            `max_iter` iterations of the solver, they are further apart, with a warning, and hold
            all the same.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Bounds of what `predict` gives with `return_std` and exact variances, noise included,
            rounding counted in.

        Raises
        ------
        ValueError
            If `rtol` is not positive.
        """
        if not rtol > 0.0:
            raise ValueError(f"rtol = {rtol!r}: give a positive number.")
        if self._has_patterns():
            bounds: tuple[Array, Array] = self._of_patterns(lambda fit: fit.std_bounds(X, rtol))
            return bounds
        X, state = self._check_test(X), self._state()
        posterior: AnyPosterior = state["_posterior"]
        lower, upper = posterior.variance_bounds(X, rtol)
        return (
            self._spread(state, np.sqrt(lower + posterior.noise)),
            self._spread(state, np.sqrt(upper + posterior.noise)),
        )

    def _shaped(self, mean: Array) -> Array:
        return mean[:, 0] if self._single_target else mean

    def _spread(self, state: dict[str, Any], std: Array) -> Array:
        # In the unit of huge targets it may be beyond double precision.
        with np.errstate(over="ignore"):
            in_unit: Array = std * state["y_std_"]
        return self._shaped(in_unit)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _standard_covariance(state: dict[str, Any], X: Matrix) -> Array:
    """Return predictive covariances of standardised targets, (n_systems, n_rows, n_rows)."""
    posterior: AnyPosterior = state["_posterior"]
    covariance = posterior.latent_covariance(X)
    rows = np.arange(X.shape[0])
    covariance[:, rows, rows] += posterior.noise[:, None]
    return covariance
