"""Kernels and distances between histograms and between covariance matrices.

Each is a function `(X, Y=None) -> (n_X, n_Y)`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from histrs import _histrs
from histrs._validation import HISTOGRAM_CHECKS, Matrix, canonical, count_threads, to_core
from histrs.spd._distances import airm_distances, jbld_distances
from histrs.transport._distances import sinkhorn_distances
from histrs.transport._emd import emd_distances

__all__ = [
    "airm_distances",
    "emd_distances",
    "intersection_kernel",
    "jbld_distances",
    "sinkhorn_distances",
]


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
    X = _check(X, "X")
    Y = None if Y is None else _check(Y, "Y")
    if Y is not None:
        if X.shape[1] != Y.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} columns but Y has {Y.shape[1]}; "
                "give both the same features in the same order."
            )
        if sparse.issparse(X) != sparse.issparse(Y):
            X, Y = sparse.csr_array(X), sparse.csr_array(Y)
        dtype = np.result_type(X.dtype, Y.dtype)
        X, Y = X.astype(dtype, copy=False), Y.astype(dtype, copy=False)
    core = _histrs.intersection_gram(
        to_core(X), None if Y is None else to_core(Y), count_threads(n_jobs)
    )
    return core


def _check(X: ArrayLike | Matrix, name: str) -> Matrix:
    checks = {**HISTOGRAM_CHECKS, "ensure_min_samples": 0, "ensure_min_features": 0}
    return canonical(check_array(X, input_name=name, **checks))
