"""Stochastic covariance compression."""

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from histrs import _histrs
from histrs._validation import count_threads, unchanged_on_error
from histrs.spd._distances import jbld_distances
from histrs.spd._stack import STACK_CHECKS, Stack, flattened, stacked, symmetric

Float64 = NDArray[np.float64]

# Smallest eigenvalue of a prototype, in the basis in which the mean is the identity.
_FLOOR = 1e-8


class CovarianceCompressor(ClassifierMixin, BaseEstimator):
    r"""Nearest-neighbour classifier on a few learned covariance matrices.

    Stochastic covariance compression [1]_. Prototypes :math:`P_j`, started at a sample of the
    training matrices of each class, minimise

    .. math:: L = -\sum_i \log \sum_{j:\, y_j = y_i} p_{ij}, \qquad
              p_{ij} = \mathrm{softmax}_j\big(-\gamma^2 D_J(X_i, P_j)\big)

    (equations 4 to 6), with the Jensen-Bregman log-det divergence
    :func:`~histrs.metrics.jbld_distances`. Training data can then be forgotten: a prediction
    compares with the prototypes alone.

    Parameters
    ----------
    n_prototypes : int or float, default=0.05
        Number of prototypes, or their share of the training matrices. They are divided among
        classes in proportion, at least one each.
    gamma : float or "scale", default="scale"
        Sharpness of the neighbourhoods. "scale" takes :math:`\gamma^2` as the inverse of the mean
        divergence from training matrices to the nearest prototype at the start.
    max_iter : int, default=300
        Most iterations of L-BFGS; a ConvergenceWarning says when they did not suffice.
    tol : float, default=1e-5
        Training ends when an iteration lowers ``L / n_samples`` by no more. (The gradient would not
        do: where classes can be told apart, prototypes that move away lower the loss for ever.)
    random_state : int, RandomState instance or None, default=None
        Draws the start.
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean one a core. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    prototypes_ : ndarray of shape (n_prototypes, p, p)
        The learned matrices, in double precision.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their classes.
    gamma_ : float
        The sharpness.
    loss_ : float
        ``L / n_samples`` at the end.
    n_iter_ : int
        Iterations made.
    n_features_in_ : int
        Number of entries of a matrix, p * p.

    Notes
    -----
    Prototypes are :math:`P = B^T B + 10^{-8} \bar X` with :math:`B` upper triangular: those of the
    paper, kept from becoming singular by a trace of the mean :math:`\bar X` of the training
    matrices. The paper's equation 8 lacks a factor 2: the gradient is
    :math:`\partial D_J(X, B^T B) / \partial B = 2 B (X + B^T B)^{-1} - B^{-T}`, which vanishes at
    :math:`X = B^T B`. The divergence does not change when all matrices are transformed alike, so
    the search is made in the basis in which :math:`\bar X` is the identity, where it takes fewer
    iterations.

    See Also
    --------
    histrs.neighbors.MetricKNNClassifier : Compares with all training matrices.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.prototypes import CovarianceCompressor
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(100) % 2
    >>> A = rng.standard_normal((100, 3, 20)) * (1 + y)[:, None, None]
    >>> X = A @ A.transpose(0, 2, 1) / 20
    >>> model = CovarianceCompressor(2, random_state=0).fit(X, y)
    >>> model.prototypes_.shape
    (2, 3, 3)
    >>> model.score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_prototypes": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0.0, 1.0, closed="right"),
        ],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_prototypes: float = 0.05,
        *,
        gamma: float | Literal["scale"] = "scale",
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.gamma = gamma
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the prototypes; when it raises, the estimator is as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Symmetric positive definite matrices.
        y : array-like of shape (n_samples,)
            Their classes.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_error(self):
            data, y = validate_data(self, flattened(X), y, **STACK_CHECKS)
            check_classification_targets(y)
            self.classes_, labels = np.unique(column_or_1d(y, warn=True), return_inverse=True)
            self._fit(stacked(data), labels.astype(np.int64))
        return self

    def _fit(self, stack: Stack, labels: NDArray[np.int64]) -> None:
        start = self._sample(labels)
        own = labels[start]
        nearest = jbld_distances(stack, stack[start], n_jobs=self.n_jobs).min(axis=1)
        self.gamma_ = float(self.gamma) if self.gamma != "scale" else scale_gamma(nearest)
        # In the basis in which the mean is the identity.
        X = stack.astype(np.float64)
        root = np.linalg.cholesky(symmetric(X.mean(axis=0)))
        X = whitened(root, X)
        p = X.shape[1]
        upper = np.triu_indices(p)
        B = np.zeros((len(start), p, p))
        B[:] = np.linalg.cholesky(X[start]).transpose(0, 2, 1)
        loss = make_loss(X, labels, own, self.gamma_, count_threads(self.n_jobs))

        def flat_loss(flat: Float64) -> tuple[float, Float64]:
            B[:, *upper] = flat.reshape(len(B), -1)
            value, gradient = loss(B)
            return value, gradient[:, *upper].ravel()

        result = minimize(
            flat_loss,
            B[:, *upper].ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iter, "ftol": self.tol, "gtol": 1e-10},
        )
        if result.status == 1:
            warnings.warn(
                f"CovarianceCompressor stopped after {result.nit} iterations at a loss of "
                f"{result.fun:.3g} that still fell by more than {self.tol:.2e} an iteration. "
                "Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        B[:, *upper] = result.x.reshape(len(B), -1)
        self.prototypes_ = symmetric(root @ prototypes(B) @ root.T)
        self.prototype_labels_ = self.classes_[own]
        self.loss_ = float(result.fun)
        self.n_iter_ = int(result.nit)

    def _sample(self, labels: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return places of training matrices, a share of each class and at least one."""
        n, sizes = len(labels), np.bincount(labels)
        share: Any = self.n_prototypes
        wanted = int(share) if isinstance(share, Integral) else max(1, round(share * n))
        if wanted > n:
            raise ValueError(f"n_prototypes = {wanted} is more than the {n} training matrices.")
        counts = np.maximum(1, np.floor(wanted * sizes / n)).astype(int)
        # What rounding left over goes to the classes with most matrices a prototype.
        while counts.sum() < wanted:
            counts[np.argmax(np.where(counts < sizes, sizes / counts, -1.0))] += 1
        random = check_random_state(self.random_state)
        drawn = [
            random.choice(np.flatnonzero(labels == label), count, replace=False)
            for label, count in enumerate(counts)
        ]
        return np.concatenate(drawn)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the classes of the nearest prototypes.

        Parameters
        ----------
        X : array-like of shape (n_queries, p, p) or (n_queries, p * p)
            Symmetric positive definite matrices.

        Returns
        -------
        y : ndarray of shape (n_queries,)
            Classes.
        """
        nearest = np.argmin(self._divergences(X), axis=1)
        return np.asarray(self.prototype_labels_[nearest])

    def predict_proba(self, X: ArrayLike) -> Float64:
        r"""Return the probabilities of the stochastic neighbourhood (equations 4 and 5).

        Parameters
        ----------
        X : array-like of shape (n_queries, p, p) or (n_queries, p * p)
            Symmetric positive definite matrices.

        Returns
        -------
        P : ndarray of shape (n_queries, n_classes)
            :math:`\sum_{j: y_j = c} p_{ij}`, in the order of `classes_`. The class of the nearest
            prototype need not be the most probable: several prototypes of another may be near.
        """
        divergences = self._divergences(X).astype(np.float64)
        shares = softmax(-(self.gamma_**2) * divergences, axis=1)
        return np.asarray(shares @ (self.prototype_labels_[:, None] == self.classes_[None]))

    def _divergences(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        data = validate_data(self, flattened(X), reset=False, **STACK_CHECKS)
        return jbld_distances(stacked(data), self.prototypes_, n_jobs=self.n_jobs)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def scale_gamma(nearest: NDArray[Any]) -> float:
    """Return the sharpness at which the nearest prototype is one unit away on average."""
    mean = float(np.mean(nearest, dtype=np.float64))
    return 1.0 if mean == 0.0 else mean**-0.5


def whitened(root: Float64, X: Stack) -> Stack:
    """Return ``root^-1 X root^-T`` of each matrix."""
    p = len(root)
    half = solve_triangular(root, X.transpose(1, 0, 2).reshape(p, -1), lower=True)
    half = half.reshape(p, len(X), p).transpose(2, 1, 0).reshape(p, -1)
    full = solve_triangular(root, half, lower=True)
    return symmetric(full.reshape(p, len(X), p).transpose(1, 0, 2))


def prototypes(B: Float64) -> Float64:
    """Return the matrices that `B` stands for, in the basis in which the mean is the identity."""
    return symmetric(B.transpose(0, 2, 1) @ B) + _FLOOR * np.eye(B.shape[-1])


def make_loss(
    X: Stack,
    labels: NDArray[np.int64],
    prototype_labels: NDArray[np.int64],
    gamma: float,
    n_threads: int,
) -> Callable[[Float64], tuple[float, Float64]]:
    """Return ``B -> (L / n, its gradient)``."""

    def loss(B: Float64) -> tuple[float, Float64]:
        P = prototypes(B)
        value, sums, weights = _histrs.compression_loss(
            X, labels, P, prototype_labels, gamma, n_threads
        )
        gradient = B @ (2.0 * sums - weights[:, None, None] * np.linalg.inv(P))
        return value / len(X), gradient * (gamma**2 / len(X))

    return loss
