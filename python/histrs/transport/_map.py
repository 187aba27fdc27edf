"""A map from one sample to another, which moves new rows too."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import TransformerMixin, _fit_context
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._checks.scale import exponent_of
from histrs._checks.validation import check_array, count_threads, unchanged_on_error, validate_data
from histrs._estimator import BaseEstimator, documented
from histrs._typing import Array
from histrs.transport._distances import warn_of_worst

# Entries of new rows, and of their costs, that exist at a time.
_AT_A_TIME = 2**19
_ROWS: dict[str, Any] = {"dtype": [np.float64, np.float32]}


@documented()
class TransportMap(TransformerMixin, BaseEstimator):
    r"""Moves one sample, and new rows, onto another sample by optimal transport.

    `fit` solves entropic transport between two samples with the squared Euclidean distance as cost.
    The entropic map [1]_ sends any row :math:`x` to a mean of the target's rows :math:`y_j`,

    .. math:: T(x) = \sum_j w_j(x) y_j, \qquad
              w_j(x) \propto \exp\big((g_j - |x - y_j|^2) / \varepsilon\big),

    where the mean of each sample is subtracted from its rows, and :math:`g` is the potential of the
    target. For rows of `fit`, this is the barycentric map of the plan. It gives the colours of one
    picture to another [2]_, or the distribution of one domain to rows of another.

    Parameters
    ----------
    reg : float, default=0.05
        Weight :math:`\varepsilon` of the entropy, as a fraction of the mean cost between the
        centred samples. A larger weight makes the map smoother, and draws moved rows to the mean of
        the target. Below about 0.01, many more iterations are needed.
    tol : float, default=1e-4
        Largest L1 error of a marginal.
    max_iter : int, default=1000
        Largest number of iterations.
    n_jobs : int or None, default=None
        Threads; None means every core.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The mean of the rows that are moved.
    target_ : ndarray of shape (n_target, n_features)
        The rows of the target.
    potential_ : ndarray of shape (n_target,)
        The potential :math:`g`, in the squared unit of the columns.
    reg_ : float
        The weight :math:`\varepsilon`, in the same unit.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    histrs.transport.sinkhorn : The plan between two histograms.

    References
    ----------
    .. [1] A.-A. Pooladian and J. Niles-Weed, "Entropic estimation of optimal transport maps",
       arXiv:2109.12004, 2021.
    .. [2] S. Ferradans, N. Papadakis, G. Peyré and J.-F. Aujol, "Regularized discrete optimal
       transport", SIAM Journal on Imaging Sciences 7(3), 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.transport import TransportMap
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> shifted = 2.0 * X + [5.0, -3.0]
    >>> model = TransportMap().fit(X, shifted)
    >>> model.transform([[0.0, 0.0]]).round(0) + 0.0
    array([[ 5., -3.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "reg": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    mean_: Array
    target_: NDArray[Any]
    potential_: Array
    reg_: float

    def __init__(
        self,
        reg: float = 0.05,
        *,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
    ) -> None:
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Solve the transport between two samples; on an error nothing changes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows that are moved.
        y : array-like of shape (n_target, n_features)
            Rows of the target, with the same columns as `X`. They are not paired with the rows of
            `X`.

        {self}

        Warns
        -----
        ConvergenceWarning
            If the marginals are not within `tol` after `max_iter` iterations.

        Raises
        ------
        ValueError
            If `y` has other columns, or an entry is not finite.
        """
        with unchanged_on_error(self):
            X = validate_data(self, X, **_ROWS)
            target = check_array(y, input_name="y", copy=True, **_ROWS)
            if target.shape[1] != X.shape[1]:
                raise ValueError(
                    f"y has {target.shape[1]} columns but X has {X.shape[1]}: give rows of the "
                    "target with the same columns."
                )
            self.target_, self.mean_ = target, X.mean(axis=0, dtype=np.float64)
            # A power of two as the unit, so that no square overflows and none rounds.
            exponent = exponent_of(np.vstack([X, target]))
            rows, centred = X - self.mean_, self._centred_target()
            rows, centred = np.ldexp(rows, -exponent), np.ldexp(centred, -exponent)
            costs = euclidean_distances(rows, centred, squared=True)
            reg = self.reg * (float(costs.mean()) or 1.0)
            self.potential_ = np.ldexp(self._solved(costs, reg), 2 * exponent)
            self.reg_ = float(np.ldexp(reg, 2 * exponent))
        return self

    def _solved(self, costs: Array, reg: float) -> Array:
        n, m = costs.shape
        a, b = np.full((1, n), 1.0 / n), np.full((1, m), 1.0 / m)
        options = self.tol, int(self.max_iter), True, True
        _, errors, _, potentials = _histrs.sinkhorn_distances(
            a, b, costs, reg, *options, count_threads(self.n_jobs)
        )
        warn_of_worst(errors, self.tol, self.max_iter)
        assert potentials is not None
        potential: Array = potentials[1][0, 0]
        return potential

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Move rows, those of `fit` or new ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        moved : ndarray of shape (n_samples, n_features)
            Means of rows of the target, in the dtype of `X`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **_ROWS)
        moved: NDArray[Any] = np.empty_like(X, order="C")
        centred = self._centred_target()
        norms = np.einsum("ij,ij->i", centred, centred)
        step = max(1, _AT_A_TIME // max(self.target_.shape))
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            rows = X[part] - self.mean_
            costs = euclidean_distances(rows, centred, Y_norm_squared=norms, squared=True)
            logits = (self.potential_ - costs) / self.reg_
            moved[part] = softmax(logits, axis=1) @ self.target_
        return moved

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the map."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _centred_target(self) -> Array:
        centred: Array = self.target_ - self.target_.mean(axis=0, dtype=np.float64)
        return centred
