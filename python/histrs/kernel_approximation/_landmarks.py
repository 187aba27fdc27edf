"""What the maps on landmarks share: the kernel, the landmarks, their inner product."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.cluster import KMeans
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.random import sample_without_replacement

from histrs._checks.scale import check_squares
from histrs._checks.sparse import sound
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    NameOptions,
    canonical,
    check_random_state,
    unchanged_on_error,
    validate_data,
)
from histrs._estimator import BaseEstimator, documented
from histrs._solvers.lapack import eigvalsh
from histrs._typing import Array, Matrix
from histrs.kernel_approximation._inner_product import DenseInnerProduct, IdentityInnerProduct
from histrs.kernel_approximation._out import small_indices
from histrs.metrics._registry import KERNELS, KernelName, check_parameters

Kernel: TypeAlias = KernelName | Callable[..., ArrayLike]

# Of the largest eigenvalue: what rounding leaves of the kernel of many landmarks.
_INDEFINITE = 1e-6
# Kernel values below have eigenvalues that count, and whose inverses overflow.
_SMALLEST = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)


@documented()
class LandmarkMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the maps on the span of landmarks; it has parameters and `fit`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [NameOptions(KERNELS), callable],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "landmarks": [StrOptions({"kmeans", "sample"}), "array-like", "sparse matrix"],
        "kernel_params": [dict, None],
    }

    kernel: Kernel
    n_landmarks: int
    landmarks: Literal["kmeans", "sample"] | ArrayLike | Matrix
    kernel_params: dict[str, Any] | None
    random_state: int | np.random.RandomState | None
    n_jobs: int | None
    verbose: int
    landmarks_: Matrix
    inner_product_: DenseInnerProduct | IdentityInnerProduct

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | Matrix, y: object = None) -> Self:
        """Choose the landmarks and compute their kernel; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; histograms, non-negative and finite, unless the kernel is a callable.
        y : None
            Not used; there for pipelines.

        {self}

        Raises
        ------
        ValueError
            If the kernel does not accept an entry, which the message names. If the given landmarks
            have another number of columns. If the kernel of the landmarks has the wrong shape or is
            not positive semi-definite.
        """
        with unchanged_on_error(self):
            self.kernel_, self.kernel_params_ = self.kernel, dict(self.kernel_params or {})
            if not callable(self.kernel_):
                check_parameters(self.kernel_, self.kernel_params_, "kernel_params")
            X = self._validate(X, reset=True)
            Z = self._choose(X)
            K = self._kernel(Z, Z)
            self._set_inner_product(DenseInnerProduct(_positive_semidefinite(0.5 * K + 0.5 * K.T)))
            self.landmarks_ = Z
        return self

    def _set_inner_product(self, product: DenseInnerProduct) -> None:
        self.inner_product_ = product

    @property
    def _n_features_out(self) -> int:
        return self.inner_product_.shape[0]

    def _validate(self, X: ArrayLike | Matrix, *, reset: bool) -> Matrix:
        checks = {**HISTOGRAM_CHECKS, "ensure_all_finite": callable(self.kernel_)}
        return canonical(validate_data(self, X, reset=reset, **checks))

    def _choose(self, X: Matrix) -> Matrix:
        if not isinstance(self.landmarks, str):
            Z = self.landmarks
            Z = sound(Z, "landmarks").tocsr() if sparse.issparse(Z) else np.asarray(Z)
            if Z.ndim != 2 or Z.shape[1] != X.shape[1] or Z.shape[0] == 0:
                raise ValueError(
                    f"landmarks have shape {Z.shape}; give at least one row of "
                    f"{X.shape[1]} columns, as many as X has."
                )
            return Z.astype(np.float64)
        count = min(int(self.n_landmarks), X.shape[0])
        if self.landmarks == "sample":
            random = check_random_state(self.random_state)
            rows = sample_without_replacement(X.shape[0], count, random_state=random)
            return X[np.sort(rows)].astype(np.float64)
        if not callable(self.kernel):
            # It names a bad entry before k-means meets it.
            self._kernel(X, X[:1])
        check_squares(X)
        means = KMeans(
            count, n_init=1, verbose=int(self.verbose), random_state=self.random_state
        ).fit(small_indices(X.astype(np.float64)))
        # A mean of non-negative values may be negative by rounding.
        centers: Array = means.cluster_centers_
        return centers if callable(self.kernel) else np.maximum(centers, 0.0)

    def _kernel(self, X: Matrix, Z: Matrix) -> Array:
        """Return the kernel of rows and landmarks, in double precision."""
        if callable(self.kernel_):
            K = np.asarray(self.kernel_(X, Z, **self.kernel_params_), dtype=np.float64)
        else:
            K = KERNELS[self.kernel_](X, Z, **{"n_jobs": self.n_jobs, **self.kernel_params_})
        if K.shape != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"the kernel returned an array of shape {K.shape}; a kernel of {X.shape[0]} and "
                f"{Z.shape[0]} rows has shape {(X.shape[0], Z.shape[0])}."
            )
        bad = np.argwhere(~np.isfinite(K))
        if len(bad):
            i, j = bad[0]
            raise ValueError(
                f"the kernel of row {i} and landmark {j} is {K[i, j]}; scale the data, or "
                "use a kernel that is finite on it."
            )
        return K.astype(np.float64, copy=False)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the map."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = not callable(self.kernel)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _positive_semidefinite(K: Array) -> Array:
    values = eigvalsh(K)
    largest = np.abs(K).max(initial=0.0)
    if 0.0 < largest < _SMALLEST:
        raise ValueError(
            f"the largest kernel value of the landmarks is {largest:.3g}, the inverse of "
            "which overflows; multiply X by a scale."
        )
    if values[0] < -_INDEFINITE * max(values[-1], 0.0):
        raise ValueError(
            f"the kernel of the landmarks has the eigenvalue {values[0]:.3g}, beside "
            f"{values[-1]:.3g}: it is not positive semi-definite, and has no feature space. Use "
            "another kernel."
        )
    return K
