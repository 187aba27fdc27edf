"""Gaussian processes of counts, for instance of the fragments of molecules."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from histrs.gaussian_process._classifier import GPClassifier
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.minmax import MinMax
from histrs.gaussian_process._regressor import GPRegressor


class MinMaxGPRegressor(GPRegressor):
    r"""Gaussian process regressor on counts: `GPRegressor` with the kernel `MinMax`.

    The kernel is a convex sum of the MinMax kernel, which for bits and counts is known as the
    Tanimoto coefficient [1]_, and of the intersection kernel; the likelihood says how much of each.
    Up to 10,000 rows the matrix of all pairs is factorised. Of more rows two bytes are kept for
    every pair, and the system is solved by conjugate gradients: of 60,000 rows in 7.2 GB.
    Parameters and attributes are those of `GPRegressor`.

    See Also
    --------
    MinMaxGPClassifier : The same for class labels.
    IntersectionGPRegressor : The additive model, in memory linear in the entries.
    histrs.metrics.minmax_kernel : The kernel by itself.

    References
    ----------
    .. [1] R.-R. Griffiths et al., "GAUCHE: a library for Gaussian processes in chemistry", NeurIPS,
       2023.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import MinMaxGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(0.3, size=(400, 50))
    >>> y = np.log1p(X[:, :5].sum(axis=1)) - X[:, 5] * (X[:, 6] > 0)
    >>> model = MinMaxGPRegressor().fit(X[:300], y[:300])
    >>> mean, std = model.predict(X[300:], return_std=True)
    >>> bool(np.mean(np.abs(mean - y[300:]) < 2 * std) > 0.9)
    True
    """

    _default_kernel: ClassVar[Callable[[], Kernel]] = MinMax


class MinMaxGPClassifier(GPClassifier):
    r"""Gaussian process classifier on counts: `GPClassifier` with the kernel `MinMax`.

    See `MinMaxGPRegressor` for the kernel, and `GPClassifier` for parameters and attributes.

    See Also
    --------
    MinMaxGPRegressor : The same for real targets, and the references.
    IntersectionGPClassifier : The additive model, in memory linear in the entries.

    Notes
    -----
    The tags ask for data that are not negative. Two checks of scikit-learn,
    `check_class_weight_classifiers` and `check_decision_proba_consistency`, fit others all the
    same, and fail.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import MinMaxGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(0.3, size=(400, 30))
    >>> y = np.where(X[:, 0] + X[:, 1] > X[:, 2], "active", "inactive")
    >>> model = MinMaxGPClassifier().fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.75
    True
    """

    _default_kernel: ClassVar[Callable[[], Kernel]] = MinMax
