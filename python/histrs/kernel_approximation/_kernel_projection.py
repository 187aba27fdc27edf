"""Any kernel as an inner product of coordinates on landmarks."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from histrs._checks.rows import in_row_blocks
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.kernel_approximation._docs import MAPS
from histrs.kernel_approximation._inner_product import DenseInnerProduct, IdentityInnerProduct
from histrs.kernel_approximation._landmarks import Kernel, LandmarkMap


@documented(MAPS)
class KernelProjectionMap(LandmarkMap):
    r"""Dense features of any kernel: the coordinates of a row's projection on landmarks.

    Landmarks :math:`z_1, \ldots, z_D` are rows, or centres of rows, that stand for all rows. The
    features of a row are

    .. math:: \Phi(x) = K_{ZZ}^\dagger K_{Zx}

    (equation 5 of [1]_). With :math:`\Psi(x)` the row in the kernel's space,
    :math:`\sum_i \Phi_i(x) \Psi(z_i)` is the orthogonal projection of :math:`\Psi(x)`, and

    .. math:: k(x, y) \approx \Phi(x)^T K_{ZZ} \Phi(y).

    Parameters
    ----------
    {kernel}
    {n_landmarks}
    {landmarks}
    whiten : bool, default=False
        Whether to return :math:`\Lambda^{-1} V K_{Zx}` instead, with :math:`K_{ZZ} = V^T \Lambda^2
        V`. These features have the usual inner product, which linear models need. They are the
        features of scikit-learn's `Nystroem`, up to a rotation. Directions in which the kernel is
        singular are left out.
    {kernel_params}
    {random_state}
    n_jobs : int, default=None
        Number of threads of the kernels by name; None and -1 mean one per core.
    {verbose}

    Attributes
    ----------
    {kernel_}
    {landmarks_}
    {inner_product_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    SparseKernelMap : A few landmarks for every row.
    InnerProduct : What `inner_product_` does.

    Notes
    -----
    In the pseudo-inverse, an eigenvalue of :math:`K_{ZZ}` is taken for zero if it is below `D`
    times the machine precision times the largest eigenvalue.

    References
    ----------
    .. [1] A. Vedaldi and A. Zisserman, "Sparse kernel approximations for efficient classification
       and detection", CVPR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.kernel_approximation import KernelProjectionMap
    >>> from histrs.metrics import exp_chi2_kernel
    >>> X = np.random.default_rng(0).dirichlet(np.ones(4), size=200)
    >>> map = KernelProjectionMap("exp_chi2", 50, random_state=0)
    >>> features = map.fit_transform(X)
    >>> K = features @ map.inner_product_.matmul(features.T)
    >>> float(np.sqrt(np.mean((K - exp_chi2_kernel(X)) ** 2)).round(3))
    0.001
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**LandmarkMap._parameter_constraints}

    def __init__(
        self,
        kernel: Kernel = "intersection",
        n_landmarks: int = 100,
        *,
        landmarks: Literal["kmeans", "sample"] | ArrayLike | Matrix = "kmeans",
        whiten: bool = False,
        kernel_params: dict[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.whiten = whiten
        self.kernel_params = kernel_params
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _set_inner_product(self, product: DenseInnerProduct) -> None:
        self.__dict__.pop("whitening_", None)
        if not self.whiten:
            super()._set_inner_product(product)
            return
        keep = product.inverse.values > 0
        # Vectors of unit length in the kernel's space, the longest direction first.
        scales = np.sqrt(product.inverse.values[keep])
        self.whitening_ = (product.inverse.vectors[:, keep] * scales)[:, ::-1]
        self.inner_product_ = IdentityInnerProduct(self.whitening_.shape[1])

    def transform(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Map rows to their coordinates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features_out)
            The coordinates; float32 when `X` is.

        Raises
        ------
        ValueError
            If the kernel does not accept an entry, which the message names.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        K = in_row_blocks(X, lambda rows: self._kernel(rows, self.landmarks_))
        whitening = getattr(self, "whitening_", None)
        features = self.inner_product_.solve(K.T).T if whitening is None else K @ whitening
        return features.astype(X.dtype, order="C", copy=False)
