"""Supervised dimensionality reduction of covariance matrices."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from histrs import _histrs
from histrs._checks.validation import check_random_state, count_threads, unchanged_on_error
from histrs._estimator import documented
from histrs._progress import TrainingProgress
from histrs._warnings import warn
from histrs._weights import encode
from histrs.spd._base import StackProjection
from histrs.spd._docs import MATRICES
from histrs.spd._logarithms import Float64
from histrs.spd._stack import Stack, symmetric

_COUNT = Interval(Integral, 1, None, closed="left")


@documented(MATRICES)
class SPDProjection(StackProjection):
    r"""Supervised projection of covariance matrices on smaller ones.

    Learns :math:`U` of shape (p, n_components) with orthonormal columns [1]_. The matrices
    :math:`U^T X_i U` are close to neighbours of the same class, and far from neighbours of other
    classes:

    .. math:: \min_U \sum_{i, j} a_{ij} D_J(U^T X_i U, U^T X_j U)

    with :math:`a_{ij}` = 1 where one of the two is among the `n_neighbors_within` nearest of the
    other of its class, -1 where it is among the `n_neighbors_between` nearest of other classes.

    Parameters
    ----------
    n_components : int, default=2
        Rows of the projected matrices.
    n_neighbors_within : int, default=5
        Neighbours of the same class, :math:`\nu_w`.
    n_neighbors_between : int, default=5
        Neighbours of other classes, :math:`\nu_b`.
    max_iter : int, default=200
        Most iterations; a ConvergenceWarning gives the gradient when they did not suffice.
    tol : float, default=1e-5
        Largest entry of the gradient of the mean over pairs.
    random_state : int, RandomState instance or None, default=None
        Draws the start when `init` is "random".
    init : {"pca", "random"}, default="pca"
        Start at the leading eigenvectors of the mean of the training matrices, or at random.
    n_jobs : int or None, default=None
        Number of threads in the search for neighbours; None and -1 mean one per core.
    {verbose}

    Attributes
    ----------
    components_ : ndarray of shape (p, n_components)
        :math:`U`.
    objective_ : float
        The minimum: the sum above over the number of its terms.
    n_iter_ : int
        Iterations made.
    {n_features_in_}

    Notes
    -----
    The divergence does not change when both matrices are transformed by the same invertible matrix.
    The objective therefore depends on the column space of :math:`U` alone. It is minimised over all
    matrices of full rank by L-BFGS, and the minimiser is orthonormalised. The paper uses conjugate
    gradients on the Grassmann manifold.

    Neighbours are found in :math:`D_J`, which the paper calls the Stein metric.

    References
    ----------
    .. [1] M. T. Harandi, M. Salzmann and R. Hartley, "From manifold to manifold: geometry-aware
       dimensionality reduction for SPD matrices", ECCV 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import SPDProjection
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(20) % 2
    >>> A = rng.standard_normal((20, 4, 40))
    >>> A[:, 2] *= 1 + y[:, None]  # the third feature tells the classes apart
    >>> X = A @ A.transpose(0, 2, 1) / 40
    >>> model = SPDProjection(n_components=1).fit(X, y)
    >>> np.abs(model.components_.ravel()).argmax()
    np.int64(2)
    >>> model.transform(X).shape
    (20, 1, 1)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [_COUNT],
        "n_neighbors_within": [_COUNT],
        "n_neighbors_between": [_COUNT],
        "max_iter": [_COUNT],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"pca", "random"})],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors_within: int = 5,
        n_neighbors_between: int = 5,
        max_iter: int = 200,
        tol: float = 1e-5,
        init: str = "pca",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors_within = n_neighbors_within
        self.n_neighbors_between = n_neighbors_between
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the projection.

        {of_matrices}
        y : array-like of shape (n_samples,)
            Their classes, at least two.

        {self}
        """
        with unchanged_on_error(self):
            stack, labels = self._stack_and_labels(X, y, reset=True)
            self._fit(stack.astype(np.float64), labels)
        return self

    def _fit(self, stack: Stack, y: NDArray[Any]) -> None:
        p = stack.shape[1]
        if self.n_components > p:
            raise ValueError(f"n_components = {self.n_components} is more than the {p} rows of X.")
        classes, labels = encode(y)
        if len(classes) < 2:
            raise ValueError("y has 1 class: a supervised projection takes at least two classes.")
        D = _histrs.jbld_distances(stack, None, count_threads(self.n_jobs))
        pairs = _affinity_pairs(D, labels, self.n_neighbors_within, self.n_neighbors_between)
        # The objective does not change with scale; products stay in range.
        stack = stack / (np.trace(stack, axis1=1, axis2=2).mean() / p)
        progress = TrainingProgress("SPDProjection", self.verbose)

        def loss(u: Float64) -> tuple[float, Float64]:
            value, gradient = _objective(u.reshape(p, -1), stack, pairs)
            progress(value)
            return value, gradient.ravel()

        options: Any = {"maxiter": self.max_iter, "gtol": self.tol, "ftol": 1e-14}
        with progress:
            result = minimize(
                loss, self._start(stack).ravel(), jac=True, method="L-BFGS-B", options=options
            )
        if result.status == 1:
            warn(
                f"SPDProjection stopped after {result.nit} iterations with a gradient of "
                f"{np.max(np.abs(result.jac)):.2e}, above the tolerance {self.tol:.2e}. "
                "Raise max_iter or tol.",
                ConvergenceWarning,
            )
        self.components_ = np.linalg.qr(result.x.reshape(p, -1))[0]
        self.objective_, self.n_iter_ = float(result.fun), int(result.nit)

    def _start(self, stack: Stack) -> Float64:
        shape = stack.shape[1], int(self.n_components)
        if self.init == "random":
            draw = check_random_state(self.random_state).standard_normal(shape)
            return np.asarray(np.linalg.qr(draw)[0])
        return np.asarray(np.linalg.eigh(stack.mean(axis=0))[1][:, ::-1][:, : shape[1]])

    def _projected(self, stack: Stack) -> Stack:
        U = self.components_.astype(stack.dtype)
        return symmetric(U.T @ stack @ U)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class Pairs(NamedTuple):
    """Pairs of matrices with the weight of their divergence; each pair once."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    weight: Float64


def _affinity_pairs(D: NDArray[Any], labels: NDArray[Any], n_within: int, n_between: int) -> Pairs:
    """Return pairs of neighbours: weight 1 within a class, -1 between classes (section 4.1)."""
    same = labels[:, None] == labels[None]
    affinity = np.zeros(D.shape)
    for allowed, n, sign in ((same, n_within, 1.0), (~same, n_between, -1.0)):
        order = np.argsort(np.where(allowed & ~np.eye(len(D), dtype=bool), D, np.inf), axis=1)
        for i, row in enumerate(order[:, :n]):
            neighbours = row[allowed[i, row] & (row != i)]
            affinity[i, neighbours] = affinity[neighbours, i] = sign
    first, second = np.nonzero(np.triu(affinity))
    return Pairs(first, second, affinity[first, second])


def _objective(U: Float64, X: Stack, pairs: Pairs) -> tuple[float, Float64]:
    r"""Return the mean weighted divergence after projection by `U`, and its gradient.

    With :math:`Y_i = X_i U`, :math:`M_i = U^T Y_i` and :math:`M_{ij} = (M_i + M_j) / 2`, each pair
    adds :math:`a (\log\det M_{ij} - (\log\det M_i + \log\det M_j) / 2)` and the gradient
    :math:`a ((Y_i + Y_j) M_{ij}^{-1} - Y_i M_i^{-1} - Y_j M_j^{-1})`.
    """
    first, second, weight = pairs
    n, r = len(X), U.shape[1]
    Y = X @ U
    M = U.T @ Y
    mean = (M[first] + M[second]) / 2
    own, both = np.linalg.slogdet(M)[1], np.linalg.slogdet(mean)[1]
    scale = 1.0 / len(weight)
    value = scale * float(weight @ (both - (own[first] + own[second]) / 2))
    total = np.bincount(first, weight, n) + np.bincount(second, weight, n)
    inner = -total[:, None, None] * np.linalg.inv(M)
    inverse = weight[:, None, None] * np.linalg.inv(mean)
    places = np.concatenate([first, second]), np.tile(np.arange(len(weight)), 2)
    members = sparse.csr_array((np.ones(2 * len(weight)), places), (n, len(weight)))
    inner += (members @ inverse.reshape(-1, r * r)).reshape(n, r, r)
    gradient = scale * np.tensordot(
        Y.transpose(1, 0, 2).reshape(len(U), n * r), inner.reshape(n * r, r), axes=1
    )
    return value, gradient
