"""Detection of artefacts by the distance to a mean."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from histrs._checks.validation import naming_rows, unchanged_on_error
from histrs._estimator import documented
from histrs._warnings import warn
from histrs.spd._docs import MATRICES
from histrs.spd._geometry import GEOMETRIES, MetricName
from histrs.spd._logarithms import Float64
from histrs.spd._running import Running, RunningMeans
from histrs.spd._stack import Stack

# What a mean is known to: training matrices nearer to it, beside the farthest, are as near.
_RESOLUTION = 1e-8
# Standard deviations below the mean at which logarithms of distances end.
_MOST_BELOW = 6.0
_FEWEST = 3


@documented(MATRICES)
class Potato(TransformerMixin, RunningMeans):
    r"""Detector of artefacts: the Riemannian potato.

    .. math:: z(X) = \frac{\log d(X, M) - \mu}{\sigma}

    with :math:`M` the mean of clean matrices, and :math:`\mu` and :math:`\sigma` mean and standard
    deviation of the logarithms of their distances to it. A matrix whose :math:`z` reaches a
    threshold is an artefact. `fit` leaves out artefacts and begins again, until there are no more
    [1]_ [2]_. `partial_fit` moves :math:`M`, :math:`\mu` and :math:`\sigma` towards the values of
    further clean matrices.

    Parameters
    ----------
    metric : {"airm", "riemann", "jbld", "logeuclid", "euclid"}, default="airm"
        The distance, and the mean that goes with it, as in :class:`MDM`.
    threshold : float, default=3.0
        Least :math:`z` of an artefact.
    max_iter : int, default=100
        Most rounds in which `fit` leaves matrices out.
    {updates}

    Attributes
    ----------
    mean_ : ndarray of shape (p, p)
        :math:`M`.
    location_, scale_ : float
        :math:`\mu` and :math:`\sigma`.
    weight_seen_ : float
        Number of clean matrices; after `forgetting`, older ones count less.
    n_iter_ : int
        Rounds of the last fit.
    {n_features_in_}

    Warns
    -----
    ConvergenceWarning
        If matrices were still left out in the last round.

    Notes
    -----
    For the same matrices, z-scores equal pyRiemann's ``Potato``. pyRiemann's `partial_fit` moves by
    a fraction `alpha` to the mean of all matrices that it is given. With ``forgetting=alpha``, the
    fraction here tends to `alpha`.

    References
    ----------
    .. [1] A. Barachant, A. Andreev and M. Congedo, "The Riemannian potato: an automatic and
       adaptive artifact detection method for online experiments using Riemannian geometry", TOBI
       Workshop IV, 2013.
    .. [2] Q. Barthélemy, L. Mayaud, D. Ojeda and M. Congedo, "The Riemannian potato field: a tool
       for online signal quality index of EEG", IEEE Transactions on Neural Systems and
       Rehabilitation Engineering 27, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import Covariances, Potato
    >>> trials = np.random.default_rng(0).standard_normal((40, 4, 128))
    >>> trials[7, 2] *= 20  # an electrode comes loose
    >>> C = Covariances().fit_transform(trials)
    >>> model = Potato().fit(C)
    >>> np.flatnonzero(model.predict(C) == 0)
    array([7])
    >>> clean = C[model.predict(C) == 1]
    """

    mean_: Float64
    location_: float
    scale_: float
    weight_seen_: float
    n_iter_: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RunningMeans._parameter_constraints,
        "threshold": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        metric: MetricName = "airm",
        *,
        threshold: float = 3.0,
        max_iter: int = 100,
        forgetting: float = 0.0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(metric, forgetting=forgetting, n_jobs=n_jobs, verbose=verbose)
        self.threshold = threshold
        self.max_iter = max_iter

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn what clean matrices are.

        {of_matrices}
        {no_y}

        {self}
        """
        with unchanged_on_error(self):
            stack = self._stack(X, reset=True)
            clean, left_out = np.arange(len(stack)), 1
            self.n_iter_ = 0
            while left_out > 0 and self.n_iter_ < self.max_iter:
                if len(clean) < _FEWEST:
                    raise ValueError(
                        f"X has {len(clean)} sample(s) that are clean, of {len(stack)}: z-scores "
                        f"take at least {_FEWEST}; give more matrices, or raise threshold."
                    )
                with naming_rows(clean):
                    self._begin(stack[clean])
                    kept = self._scores(stack[clean]) < self.threshold
                clean, left_out = clean[kept], np.count_nonzero(~kept)
                self.n_iter_ += 1
        if left_out > 0:
            warn(
                f"Potato still left matrices out in its last round, of {self.max_iter}; raise "
                "max_iter or threshold.",
                ConvergenceWarning,
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Update the model with further clean matrices.

        `mean_`, `location_` and `scale_` move towards the values of these matrices, by their
        fraction of the total weight. The first call is a `fit`. Matrices that `predict` takes for
        artefacts are left out.

        {of_matrices}
        {no_y}

        {self}
        """
        if not hasattr(self, "mean_"):
            self.fit(X)
            return self
        with unchanged_on_error(self):
            stack = self._stack(X)
            clean = np.flatnonzero(self._scores(stack) < self.threshold)
            if len(clean) > 0:
                with naming_rows(clean):
                    self._move(stack[clean])
        return self

    def _begin(self, stack: Stack) -> None:
        self.mean_, self.weight_seen_ = self._moved({}, stack)
        logs = self._log_distances(stack, _RESOLUTION)
        self.location_, self.scale_ = float(np.mean(logs)), float(np.std(logs))
        if not self.scale_ > _RESOLUTION:
            raise ValueError(
                "All matrices of X are equally far from their mean, or distances overflow, so "
                "there are no z-scores: give more different matrices, or scale X down."
            )

    def _move(self, stack: Stack) -> None:
        # Distances before the mean moves towards the matrices, and none so small that one matrix
        # decides.
        logs = np.maximum(self._log_distances(stack), self.location_ - _MOST_BELOW * self.scale_)
        known = {0: Running(self.mean_, self.weight_seen_)}
        self.mean_, self.weight_seen_ = self._moved(known, stack)
        share = len(stack) / self.weight_seen_
        old, location = self.location_, float(np.mean(logs))
        self.location_ = (1.0 - share) * old + share * location
        # Of what was known and what is new together.
        square = (1.0 - share) * (self.scale_**2 + (old - self.location_) ** 2)
        square += share * float(np.mean((logs - self.location_) ** 2))
        self.scale_ = square**0.5

    def _moved(self, known: dict[Any, Running], stack: Stack) -> Running:
        groups, weights = np.zeros(len(stack), dtype=np.intp), np.ones(len(stack))
        return self._updated(known, self.metric, stack, groups, weights)[0]

    def _log_distances(self, stack: Stack, least: float = 0.0) -> Float64:
        """Return logarithms of distances, of which none is below a fraction of the largest."""
        squares = GEOMETRIES[self.metric].squares(stack, self.mean_[None], self.n_jobs)[:, 0]
        floor = max(least**2 * float(np.max(squares)), float(np.finfo(np.float64).tiny))
        return np.asarray(np.log(np.maximum(squares, floor)) / 2.0)

    def _scores(self, stack: Stack) -> Float64:
        return (self._log_distances(stack) - self.location_) / self.scale_

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return z-scores of the logarithms of distances to the mean.

        {of_matrices}

        Returns
        -------
        z : ndarray of shape (n_samples,)
            Scores, in the precision of `X`; the larger, the less clean.
        """
        stack = self._stack(X)
        return self._scores(stack).astype(stack.dtype)

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Say which matrices are clean.

        {of_matrices}

        Returns
        -------
        clean : ndarray of shape (n_samples,)
            1 of clean matrices, 0 of artefacts.
        """
        return (self._scores(self._stack(X)) < self.threshold).astype(np.int64)
