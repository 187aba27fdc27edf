"""Gaussian processes on covariance matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from histrs.gaussian_process._classifier import GPClassifier
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.covariance import Tangent
from histrs.gaussian_process._regressor import GPRegressor


class SPDGPRegressor(GPRegressor):
    r"""Gaussian process regressor on covariance matrices: `GPRegressor` with the kernel `Tangent`.

    Rows are matrices, of shape (n, p, p), or their entries, of shape (n, p * p). The kernel may be
    "tangent", the Gaussian in the tangent space at the geometric mean of the first training
    matrices; "logeuclid", that of logarithms, :func:`~histrs.metrics.log_euclidean_kernel`; or
    "jbld", :func:`~histrs.metrics.jbld_kernel`. The Gaussian of the affine-invariant distance is
    positive definite nowhere, and no covariance. Parameters and attributes are those of
    `GPRegressor`.

    See Also
    --------
    SPDGPClassifier : The same for class labels.
    histrs.spd.Covariances : Matrices of signals.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import SPDGPRegressor
    >>> A = np.random.default_rng(0).standard_normal((150, 3, 30))
    >>> X = A @ A.transpose(0, 2, 1) / 30
    >>> y = np.log(np.linalg.det(X)) + X[:, 0, 1]
    >>> model = SPDGPRegressor().fit(X[:100], y[:100])
    >>> mean, std = model.predict(X[100:], return_std=True)
    >>> bool(np.mean(np.abs(mean - y[100:]) < 2 * std) > 0.9)
    True
    """

    _default_kernel: ClassVar[Callable[[], Kernel]] = Tangent


class SPDGPClassifier(GPClassifier):
    r"""Gaussian process classifier on covariance matrices: `GPClassifier` with `Tangent`.

    See `SPDGPRegressor` for rows and kernels, and `GPClassifier` for parameters and attributes.
    Kernel coefficient and noise of "tangent" and "logeuclid" are those by which the model predicts
    the class of each training matrix best without it, in closed form, and so are its scores
    calibrated.

    See Also
    --------
    SPDGPRegressor : The same for real targets.
    histrs.spd.MDM : The nearest mean: faster, and online in constant memory.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import SPDGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(120) % 2
    >>> A = rng.standard_normal((120, 3, 30))
    >>> A[:, 1] *= 1 + y[:, None]
    >>> X = A @ A.transpose(0, 2, 1) / 30
    >>> model = SPDGPClassifier().fit(X[:80], y[:80])
    >>> model.score(X[80:], y[80:]) > 0.9
    True
    """

    _default_kernel: ClassVar[Callable[[], Kernel]] = Tangent
