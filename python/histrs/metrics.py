"""Kernels and distances between histograms and between covariance matrices.

Each is a function `(X, Y=None) -> (n_X, n_Y)`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.extmath import row_norms

from histrs import _histrs
from histrs._numbers import numbers_checked
from histrs._validation import (
    HISTOGRAM_CHECKS,
    CoreMatrix,
    Matrix,
    canonical,
    check_array,
    check_finite,
    count_threads,
    stored,
    to_core,
)
from histrs.spd._distances import airm_distances, jbld_distances
from histrs.spd._kernels import airm_kernel, jbld_kernel, log_euclidean_kernel
from histrs.transport._distances import sinkhorn_distances
from histrs.transport._emd import emd_distances
from histrs.transport._relaxed import partial_sinkhorn_distances, unbalanced_sinkhorn_distances

__all__ = [
    "additive_chi2_kernel",
    "airm_distances",
    "airm_kernel",
    "chi2_distances",
    "emd_distances",
    "energy_distance_kernel",
    "exp_chi2_kernel",
    "hellinger_kernel",
    "intersection_kernel",
    "jbld_distances",
    "jbld_kernel",
    "jensen_shannon_kernel",
    "log_euclidean_kernel",
    "minmax_distances",
    "minmax_kernel",
    "partial_sinkhorn_distances",
    "sinkhorn_distances",
    "unbalanced_sinkhorn_distances",
]

# Distances below this part of the rows' lengths are computed from differences, so many at once.
_NEAR = 1e-3
_PAIRS = 4096


def intersection_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the histogram intersection kernel between rows.

    .. math:: k(x, y) = \sum_d \min(x(d), y(d))

    Equation 5 of [1]_. The kernel is positive semi-definite on non-negative vectors.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Histograms: non-negative, finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Other histograms; None means `X`, and computes every pair once.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), or the numbers of
        columns differ.

    References
    ----------
    .. [1] E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
       process inference with generalized histogram intersection kernels for visual recognition
       tasks", International Journal of Computer Vision, 2016.

    Examples
    --------
    >>> from histrs.metrics import intersection_kernel
    >>> intersection_kernel([[1, 2], [3, 0]], [[2, 2], [0, 5], [1, 1]])
    array([[3., 2., 2.],
           [2., 0., 1.]])
    """
    left, right = _pair(X, Y)
    return _histrs.intersection_gram(left, right, count_threads(n_jobs))


def minmax_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the MinMax kernel between rows: how much of what either has, both have.

    .. math:: k(x, y) = \frac{\sum_d \min(x(d), y(d))}{\sum_d \max(x(d), y(d))}

    Section 2 of [1]_; two empty rows have kernel 1. It is also known as the count Tanimoto kernel
    of molecules, as Ruzicka similarity, and on zeros and ones as the Jaccard index. It is positive
    semi-definite on non-negative vectors, and does not depend on their common scale.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Counts or histograms: non-negative, finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Others; None means `X`, and computes every pair once.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix, of entries between 0 and 1; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), the entries of a row add up
        to infinity, or the numbers of columns differ.

    See Also
    --------
    minmax_distances : One less the kernel.
    histrs.gaussian_process.MinMaxGPRegressor : Gaussian processes with this kernel.

    References
    ----------
    .. [1] L. Ralaivola, S. J. Swamidass, H. Saigo and P. Baldi, "Graph kernels for chemical
       informatics", Neural Networks, 2005.

    Examples
    --------
    >>> from histrs.metrics import minmax_kernel
    >>> minmax_kernel([[1, 2], [3, 0]], [[2, 2], [0, 5], [1, 2]])
    array([[0.75      , 0.33333333, 1.        ],
           [0.4       , 0.        , 0.2       ]])
    """
    left, right = _pair(X, Y)
    return _histrs.minmax_gram(left, right, count_threads(n_jobs))


def minmax_distances(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the MinMax distance between rows.

    .. math:: D(x, y) = 1 - \frac{\sum_d \min(x(d), y(d))}{\sum_d \max(x(d), y(d))}
              = \frac{\sum_d |x(d) - y(d)|}{\sum_d \max(x(d), y(d))}

    A metric, between 0 and 1; two empty rows are at distance 0. It is also known as the Soergel
    distance, and on zeros and ones as the Jaccard distance. Its kernel is `minmax_kernel`.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Counts or histograms: non-negative, finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Others; None means `X`, and computes every pair once.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), the entries of a row add up
        to infinity, or the numbers of columns differ.

    Examples
    --------
    >>> from histrs.metrics import minmax_distances
    >>> minmax_distances([[1, 2], [3, 0]], [[2, 2], [0, 5], [1, 2]])
    array([[0.25      , 0.66666667, 0.        ],
           [0.6       , 1.        , 0.8       ]])
    """
    left, right = _pair(X, Y)
    return _histrs.minmax_distances(left, right, count_threads(n_jobs))


def chi2_distances(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the chi-square distance between rows.

    .. math:: \chi^2(x, y) = \sum_d \frac{(x(d) - y(d))^2}{x(d) + y(d)}

    Equation 14 of [1]_; bins that are empty in both rows add nothing. It is the square of a
    metric: :math:`\chi^2(x, y) = |c(x) - c(y)|^2` for every feature map `c` of
    `additive_chi2_kernel`. Some authors put a factor one half before the sum.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Histograms: non-negative, finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Other histograms; None means `X`, and computes every pair once.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), or the numbers of
        columns differ.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> from histrs.metrics import chi2_distances
    >>> chi2_distances([[1, 3], [1, 1]])
    array([[0., 1.],
           [1., 0.]])
    """
    left, right = _pair(X, Y)
    return _histrs.chi2_distances(left, right, count_threads(n_jobs))


def additive_chi2_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the additive chi-square kernel between rows.

    .. math:: k_0(x, y) = \sum_d \frac{2 x(d) y(d)}{x(d) + y(d)}

    The right-hand side of equation 4 of [1]_, whose left-hand side is off by a factor: for rows
    of sum 1 it is :math:`1 - \chi^2(x, y)/2`, not :math:`1 - \chi^2(x, y)`. The kernel is
    positive semi-definite. It differs from scikit-learn's function of that name, which returns
    :math:`-\chi^2(x, y)`.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Histograms: non-negative, finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Other histograms; None means `X`, and computes every pair once.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), or the numbers of
        columns differ.

    See Also
    --------
    histrs.kernel_approximation.AdditiveChi2Map : Explicit features of this kernel.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> from histrs.metrics import additive_chi2_kernel
    >>> additive_chi2_kernel([[1, 3], [1, 1]])
    array([[4. , 2.5],
           [2.5, 2. ]])
    """
    left, right = _pair(X, Y)
    return _histrs.additive_chi2_gram(left, right, count_threads(n_jobs))


def energy_distance_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None
) -> NDArray[Any]:
    r"""Compute the kernel that the Euclidean distance induces between rows of any sign.

    .. math:: k(x, y) = \frac12 \left( |x| + |y| - |x - y| \right)

    The distance-induced kernel of [1]_ about the origin: its maximum mean discrepancy is the energy
    distance, and it is the covariance of Brownian motion over :math:`R^d`. It is positive
    semi-definite. In one dimension and on non-negative numbers it is :math:`\min(x, y)`, so that
    the intersection kernel is its sum over columns.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Rows: finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Other rows; None means `X`.

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is NaN or infinite, or the numbers of columns differ.

    See Also
    --------
    histrs.kernel_approximation.SlicedDistanceMap : Makes it an intersection kernel of projections.

    References
    ----------
    .. [1] D. Sejdinovic, B. Sriperumbudur, A. Gretton and K. Fukumizu, "Equivalence of
       distance-based and RKHS-based statistics in hypothesis testing", The Annals of Statistics,
       2013.

    Examples
    --------
    >>> from histrs.metrics import energy_distance_kernel
    >>> energy_distance_kernel([[3.0, 4.0], [-3.0, 4.0]])
    array([[5., 2.],
           [2., 5.]])
    """
    left = _check_vectors(X, "X")
    right = left if Y is None else _check_vectors(Y, "Y")
    _check_columns(left, right)
    dtype = np.result_type(left.dtype, right.dtype)
    # At size 1, no square overflows.
    size = max(_largest_entry(left), _largest_entry(right)) or 1.0
    left, right = (_divided(Z, size) for Z in (left, right))
    D = _distances(left, right)
    if Y is None:
        D = 0.5 * (D + D.T)
    K = row_norms(left)[:, None] + row_norms(right) - D
    K *= 0.5 * size
    kernel: NDArray[Any] = K.astype(dtype, copy=False)
    return kernel


def _distances(X: Matrix, Y: Matrix) -> NDArray[np.float64]:
    """Return Euclidean distances, also between rows that are nearly equal, to most digits."""
    if 0 in X.shape or 0 in Y.shape:
        return np.zeros((X.shape[0], Y.shape[0]))
    D: NDArray[np.float64] = euclidean_distances(X, Y)
    lengths = row_norms(X)[:, None] + row_norms(Y)
    # Found by way of inner products, small distances have lost the digits in which rows agree.
    near = np.argwhere(_NEAR * lengths > D)
    for start in range(0, len(near), _PAIRS):
        i, j = near[start : start + _PAIRS].T
        D[i, j] = row_norms(X[i] - Y[j])
    return D


@numbers_checked
def exp_chi2_kernel(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    gamma: float = 1.0,
    *,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    r"""Compute the exponential chi-square kernel between rows.

    .. math:: k(x, y) = \exp(-\gamma \chi^2(x, y))

    Equation 1 of [1]_ with a scale, see `chi2_distances`; the same as scikit-learn's
    `chi2_kernel`.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Histograms: non-negative, finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Other histograms; None means `X`, and computes every pair once.
    gamma : float, default=1.0
        Inverse scale of the distance: positive and finite.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), `gamma` is not positive,
        or the numbers of columns differ.

    See Also
    --------
    histrs.kernel_approximation.ExpChi2Sampler : Random features of this kernel.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> from histrs.metrics import exp_chi2_kernel
    >>> exp_chi2_kernel([[1, 3], [1, 1]], gamma=0.5).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """
    left, right = _pair(X, Y)
    return _histrs.exp_chi2_gram(left, right, gamma, count_threads(n_jobs))


def hellinger_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the Hellinger kernel between rows.

    .. math:: k(x, y) = \sum_d \sqrt{x(d) y(d)}

    Also known as the Bhattacharyya coefficient; see table 1 of [1]_. It is the inner product of
    the square roots.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Histograms: non-negative, finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Other histograms; None means `X`, and computes every pair once.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), or the numbers of
        columns differ.

    References
    ----------
    .. [1] A. Vedaldi and A. Zisserman, "Efficient additive kernels via explicit feature maps",
       IEEE Transactions on Pattern Analysis and Machine Intelligence, 2012.

    Examples
    --------
    >>> from histrs.metrics import hellinger_kernel
    >>> hellinger_kernel([[1, 4], [4, 9]])
    array([[ 5.,  8.],
           [ 8., 13.]])
    """
    left, right = _pair(X, Y)
    return _histrs.hellinger_gram(left, right, count_threads(n_jobs))


def jensen_shannon_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the Jensen-Shannon kernel between rows.

    .. math:: k(x, y) = \frac12 \sum_d \left( x(d) \log_2 \frac{x(d) + y(d)}{x(d)}
              + y(d) \log_2 \frac{x(d) + y(d)}{y(d)} \right)

    Table 1 of [1]_; a bin that is empty in either row adds nothing. For rows of sum 1 it is one
    less the Jensen-Shannon divergence in bits. The kernel is positive semi-definite.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Histograms: non-negative, finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Other histograms; None means `X`, and computes every pair once.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), or the numbers of
        columns differ.

    References
    ----------
    .. [1] A. Vedaldi and A. Zisserman, "Efficient additive kernels via explicit feature maps",
       IEEE Transactions on Pattern Analysis and Machine Intelligence, 2012.

    Examples
    --------
    >>> from histrs.metrics import jensen_shannon_kernel
    >>> jensen_shannon_kernel([[1, 0], [0.5, 0.5]]).round(4)
    array([[1.    , 0.6887],
           [0.6887, 1.    ]])
    """
    left, right = _pair(X, Y)
    return _histrs.jensen_shannon_gram(left, right, count_threads(n_jobs))


def _pair(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None
) -> tuple[CoreMatrix, CoreMatrix | None]:
    """Check both arguments and give them one dtype and one format, as the core needs them."""
    X = _check(X, "X")
    if Y is None:
        return to_core(X), None
    Y = _check(Y, "Y")
    _check_columns(X, Y)
    if sparse.issparse(X) != sparse.issparse(Y):
        X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    dtype = np.result_type(X.dtype, Y.dtype)
    return to_core(X.astype(dtype, copy=False)), to_core(Y.astype(dtype, copy=False))


def _check_columns(X: Matrix, Y: Matrix) -> None:
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns but Y has {Y.shape[1]}; "
            "give both the same features in the same order."
        )


def _check_vectors(X: ArrayLike | Matrix, name: str) -> Matrix:
    checks = {**HISTOGRAM_CHECKS, "ensure_min_samples": 0, "ensure_min_features": 0}
    vectors = canonical(check_array(X, input_name=name, **checks))
    check_finite(vectors, name)
    return vectors


def _divided(X: Matrix, size: float) -> Matrix:
    divided: Any = X.astype(np.float64) / size
    checked: Matrix = divided
    return checked


def _largest_entry(X: Matrix) -> float:
    return float(np.max(np.abs(stored(X)), initial=0.0))


def _check(X: ArrayLike | Matrix, name: str) -> Matrix:
    checks = {**HISTOGRAM_CHECKS, "ensure_min_samples": 0, "ensure_min_features": 0}
    return canonical(check_array(X, input_name=name, **checks))
