"""Recentring of covariance matrices, for each subject or session by itself."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from histrs._checks.scale import check_computed, may_overflow
from histrs._checks.validation import NameOptions, naming_rows, unchanged_on_error, validate_data
from histrs._estimator import BaseEstimator, documented
from histrs._progress import StepProgress
from histrs.metrics._registry import MEANS
from histrs.spd._docs import MATRICES
from histrs.spd._mean import Float64, MetricName, roots, weights_of
from histrs.spd._reference import Running, reference_mean
from histrs.spd._stack import STACK_CHECKS, Stack, flattened, stacked, symmetric


@documented(MATRICES)
class Whitening(TransformerMixin, BaseEstimator):
    r"""Recentring of covariance matrices: the mean of each domain becomes the identity.

    .. math:: X' = M_d^{-1/2} X M_d^{-1/2}

    with :math:`M_d` the mean of the matrices of domain :math:`d`, a subject or a session. What
    differs between domains alone, such as the position of electrodes, is gone, and what differs
    between classes remains [1]_. No labels are needed: matrices of a new subject are recentred by
    their own mean, ``partial_fit(X, domain=...)`` and then ``transform``.

    Parameters
    ----------
    metric : {"airm", "riemann", "jbld", "logeuclid", "euclid"}, default="airm"
        The mean, as in :class:`TangentSpace`.
    forgetting : float, default=0.0
        In `partial_fit`, by how much the weight of older matrices of the domain is lowered at each
        call.
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean one per core. Results do not depend on it.
    {verbose}

    Attributes
    ----------
    domains_ : ndarray of shape (n_domains,)
        The domains, in order; a single 0 where none were given.
    references_ : ndarray of shape (n_domains, p, p)
        Their means.
    whiteners_ : ndarray of shape (n_domains, p, p)
        :math:`M_d^{-1/2}`.
    weights_seen_ : ndarray of shape (n_domains,)
        Sums of the weights of the matrices that the means were made of, older ones lowered.
    {n_features_in_}

    References
    ----------
    .. [1] P. Zanini, M. Congedo, C. Jutten, S. Said and Y. Berthoumieu, "Transfer learning: a
       Riemannian geometry framework with applications to brain-computer interfaces", IEEE
       Transactions on Biomedical Engineering 65, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import Whitening, airm_mean
    >>> A = np.random.default_rng(0).standard_normal((20, 3, 30))
    >>> X = A @ A.transpose(0, 2, 1) / 30
    >>> subject = np.repeat(["anna", "ben"], 10)
    >>> X[10:] *= 100  # another amplifier
    >>> model = Whitening().fit(X, domain=subject)
    >>> airm_mean(model.transform(X, domain=subject)[10:]).round(6) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    domains_: NDArray[Any]
    references_: Float64
    whiteners_: Float64
    weights_seen_: Float64

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "metric": [NameOptions(MEANS)],
        "forgetting": [Interval(Real, 0, 1, closed="left")],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        metric: MetricName = "airm",
        *,
        forgetting: float = 0.0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.forgetting = forgetting
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, domain: ArrayLike | None = None
    ) -> Self:
        """Compute the mean of each domain.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Symmetric positive definite matrices.
        y : array-like of shape (n_samples,), default=None
            Ignored.
        domain : array-like of shape (n_samples,), default=None
            The subject or session of each; None means that there is one.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_error(self):
            self._learn(X, domain, reset=True)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, domain: ArrayLike | None = None
    ) -> Self:
        """Add domains, or move the means of known ones towards those of more matrices.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Further matrices.
        y : array-like of shape (n_samples,), default=None
            Ignored.
        domain : array-like of shape (n_samples,), default=None
            Their domains; None means that there is one.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_error(self):
            self._learn(X, domain, reset=not hasattr(self, "domains_"))
        return self

    def _learn(self, X: ArrayLike, domain: ArrayLike | None, *, reset: bool) -> None:
        flat = flattened(X, None if reset else self)
        stack = stacked(validate_data(self, flat, reset=reset, **STACK_CHECKS))
        own = _checked_domains(domain, len(stack))
        known: dict[Any, Running] = {}
        if not reset:
            parts = zip(self.references_, self.weights_seen_, strict=True)
            known = {
                d: Running(*part) for d, part in zip(self.domains_.tolist(), parts, strict=True)
            }
        for d, mean, weight in self._own_means(stack, own):
            if d in known:
                known[d] = known[d].updated(mean, weight, self.forgetting, self.metric)
            else:
                known[d] = Running(mean, weight)
        order = sorted(known)
        self.domains_ = np.array(order)
        self.references_ = np.stack([known[d].matrix for d in order])
        self.weights_seen_ = np.array([known[d].weight for d in order])
        self.whiteners_ = np.stack([roots(M)[1] for M in self.references_])

    def _own_means(self, stack: Stack, own: NDArray[Any]) -> Iterator[tuple[Any, Float64, float]]:
        """Yield each domain with the mean of its matrices and their number."""
        domains = np.unique(own).tolist()
        with StepProgress("Whitening", self.verbose, len(domains)) as progress:
            for d in domains:
                members = stack[own == d]
                weights = weights_of(None, len(members))
                with naming_rows(np.flatnonzero(own == d)):
                    mean = reference_mean(
                        "Whitening", members, weights, self.metric, self.n_jobs, progress
                    )
                yield d, mean, float(len(members))

    def transform(self, X: ArrayLike, *, domain: ArrayLike | None = None) -> NDArray[Any]:
        """Recentre matrices.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Symmetric positive definite matrices.
        domain : array-like of shape (n_samples,), default=None
            Their domains, each seen before; None means the one that there is.

        Returns
        -------
        X_new : ndarray of shape (n_samples, p, p), or flattened as `X` was
            The matrices as the mean of their domain sees them, in the precision of `X`.

        Raises
        ------
        ValueError
            If a recentred matrix overflows (the message names it).
        """
        check_is_fitted(self)
        flat = flattened(X, self)
        checks = {**STACK_CHECKS, "ensure_all_finite": True}
        stack = stacked(validate_data(self, flat, reset=False, **checks))
        indices = self._indices(domain, len(stack))
        out: Stack = np.empty_like(stack)
        for index in np.unique(indices):
            W: Float64 = self.whiteners_[index]
            members = indices == index
            with may_overflow():
                out[members] = symmetric(W @ stack[members].astype(np.float64) @ W)
        check_computed(
            out, "Entries", "it is too large beside the mean of its domain; scale it down"
        )
        return out.reshape(len(out), -1) if flat is X else out

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, *, domain: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Compute the mean of each domain, and recentre the matrices.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Symmetric positive definite matrices.
        y : array-like of shape (n_samples,), default=None
            Ignored.
        domain : array-like of shape (n_samples,), default=None
            Their domains; None means that there is one.

        Returns
        -------
        X_new : ndarray of shape (n_samples, p, p), or flattened as `X` was
            The matrices as the mean of their domain sees them, in the precision of `X`.
        """
        recentred: NDArray[Any] = self.fit(X, domain=domain).transform(X, domain=domain)
        return recentred

    def _indices(self, domain: ArrayLike | None, n: int) -> NDArray[np.intp]:
        if domain is None and len(self.domains_) > 1:
            raise ValueError(
                f"Whitening has means of {len(self.domains_)} domains: give domain, one of them "
                "for each matrix."
            )
        if domain is None:
            return np.zeros(n, dtype=np.intp)
        own = _checked_domains(domain, n)
        known = {d: i for i, d in enumerate(self.domains_.tolist())}
        unknown = [i for i, d in enumerate(own.tolist()) if d not in known]
        if unknown:
            raise ValueError(
                f"domain[{unknown[0]}] = {own[unknown[0]]} has no mean yet: give matrices of it to "
                "partial_fit first; they need no labels."
            )
        return np.array([known[d] for d in own.tolist()], dtype=np.intp)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _checked_domains(domain: ArrayLike | None, n: int) -> NDArray[Any]:
    if domain is None:
        return np.zeros(n, dtype=np.int64)
    own = np.asarray(domain)
    if own.shape != (n,):
        raise ValueError(f"domain has shape {own.shape}, expected ({n},): one for each matrix.")
    return own
