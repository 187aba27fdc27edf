"""Recentring of covariance matrices, for each subject or session by itself."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, _fit_context
from sklearn.utils._param_validation import StrOptions

from histrs._checks.validation import naming_rows, unchanged_on_error
from histrs._estimator import documented
from histrs.spd._base import congruence
from histrs.spd._docs import MATRICES
from histrs.spd._geometry import MetricName
from histrs.spd._logarithms import Float64, roots
from histrs.spd._running import Running, RunningMeans, places_among
from histrs.spd._stack import Stack


@documented(MATRICES)
class Whitening(TransformerMixin, RunningMeans):
    r"""Recentring of covariance matrices: the mean of each domain becomes the identity.

    .. math:: X' = M_d^{-1/2} X M_d^{-1/2}

    with :math:`M_d` the mean of the matrices of domain :math:`d`, a subject or a session.
    Differences between domains, such as the position of electrodes, disappear, and differences
    between classes remain [1]_. No labels are needed. For a new subject, call ``partial_fit(X,
    domain=...)`` and then ``transform``, or set `unseen`.

    Parameters
    ----------
    metric : {"airm", "riemann", "jbld", "logeuclid", "euclid"}, default="airm"
        The mean, as in :class:`TangentSpace`.
    unseen : {"raise", "own mean"}, default="raise"
        How `transform` treats matrices of a domain that `fit` has not seen. "raise" refuses them.
        "own mean" recentres them by the mean of the matrices in the call, so that a
        cross-validation can leave out subjects. If `fit` had several domains and `transform` gets
        none, all matrices are one unseen domain. A few matrices make a poor mean, and a single
        matrix becomes the identity: use `partial_fit` if matrices come one by one.
    {updates}

    Attributes
    ----------
    domains_ : ndarray of shape (n_domains,)
        The domains, in order; a single 0 if none were given.
    references_ : ndarray of shape (n_domains, p, p)
        Their means.
    whiteners_ : ndarray of shape (n_domains, p, p)
        :math:`M_d^{-1/2}`.
    weights_seen_ : ndarray of shape (n_domains,)
        Sums of the weights of the matrices in the means, after `forgetting`.
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
        **RunningMeans._parameter_constraints,
        "unseen": [StrOptions({"raise", "own mean"})],
    }

    def __init__(
        self,
        metric: MetricName = "airm",
        *,
        unseen: Literal["raise", "own mean"] = "raise",
        forgetting: float = 0.0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(metric, forgetting=forgetting, n_jobs=n_jobs, verbose=verbose)
        self.unseen = unseen

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, domain: ArrayLike | None = None
    ) -> Self:
        """Compute the mean of each domain.

        {of_domains}

        {self}
        """
        with unchanged_on_error(self):
            self._learn(X, domain, reset=True)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, domain: ArrayLike | None = None
    ) -> Self:
        """Add domains, or update the means of known ones with further matrices.

        A mean moves towards the mean of the new matrices, by their fraction of the total weight of
        the domain.

        {of_domains}

        {self}
        """
        with unchanged_on_error(self):
            self._learn(X, domain, reset=not hasattr(self, "domains_"))
        return self

    def _learn(self, X: ArrayLike, domain: ArrayLike | None, *, reset: bool) -> None:
        stack = self._stack(X, reset=reset)
        own = _checked_domains(domain, len(stack))
        known: dict[Any, Running] = {}
        if not reset:
            parts = zip(self.references_, self.weights_seen_, strict=True)
            known = dict(zip(self.domains_.tolist(), map(Running._make, parts), strict=True))
        if known and domain is None and list(known) != [0]:
            raise ValueError(
                f"Whitening has means of {len(known)} domains: give domain, one for each matrix."
            )
        known = self._updated(known, self.metric, stack, own, np.ones(len(stack)))
        order = sorted(known)
        self.domains_ = np.array(order)
        self.references_ = np.stack([known[d].matrix for d in order])
        self.weights_seen_ = np.array([known[d].weight for d in order])
        self.whiteners_ = np.stack([roots(M)[1] for M in self.references_])

    def transform(self, X: ArrayLike, *, domain: ArrayLike | None = None) -> NDArray[Any]:
        """Recentre matrices.

        {of_matrices}
        {domain}

        {recentred}

        Raises
        ------
        ValueError
            If a recentred matrix overflows (the message names it).
        """

        def recentred(stack: Stack) -> Stack:
            whiteners = self._whiteners(stack, domain)
            cure = "it is too large beside the mean of its domain; scale it down"
            return congruence(whiteners, stack, cure)

        return self._made_of(X, recentred)

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, *, domain: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Compute the mean of each domain, and recentre the matrices.

        {of_domains}

        {recentred}
        """
        recentred: NDArray[Any] = self.fit(X, domain=domain).transform(X, domain=domain)
        return recentred

    def _whiteners(self, stack: Stack, domain: ArrayLike | None) -> Float64:
        """Return that of each matrix."""
        own = _checked_domains(domain, len(stack))
        known = dict(zip(self.domains_.tolist(), self.whiteners_, strict=True))
        if domain is None:
            if self.unseen == "raise" and len(known) > 1:
                raise ValueError(
                    f"Whitening has means of {len(known)} domains: give domain, one of them for "
                    'each matrix; or set unseen="own mean", which takes all as one new domain.'
                )
            known = dict.fromkeys(own[:1].tolist(), self.whiteners_[0]) if len(known) == 1 else {}
        elif self.unseen == "raise":
            cure = (
                "has no mean yet: give its matrices to partial_fit first, without labels, or set "
                'unseen="own mean".'
            )
            places_among(self.domains_, own, "domain", cure)
        new = np.flatnonzero([d not in known for d in own.tolist()])
        with naming_rows(new):
            means = self._updated({}, self.metric, stack[new], own[new], np.ones(len(new)))
        known |= {d: roots(mean.matrix)[1] for d, mean in means.items()}
        return np.stack([known[d] for d in own.tolist()])


def _checked_domains(domain: ArrayLike | None, n: int) -> NDArray[Any]:
    if domain is None:
        return np.zeros(n, dtype=np.int64)
    own = np.asarray(domain)
    if own.shape != (n,):
        raise ValueError(f"domain has shape {own.shape}, expected ({n},): one for each matrix.")
    missing = np.flatnonzero([d != d for d in own.tolist()])
    if len(missing) > 0:
        raise ValueError(f"domain[{missing[0]}] is NaN: give a name or a number for each matrix.")
    return own
