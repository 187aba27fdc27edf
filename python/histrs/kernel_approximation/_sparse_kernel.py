"""Any kernel as an inner product of sparse coordinates on landmarks."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._checks.scale import check_computed, in_precision_of, may_overflow
from histrs._checks.validation import count_threads, naming_rows
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.kernel_approximation._docs import MAPS
from histrs.kernel_approximation._inner_product import DenseInnerProduct, IdentityInnerProduct
from histrs.kernel_approximation._landmarks import Kernel, LandmarkMap
from histrs.kernel_approximation._out import csr_result

Selection: TypeAlias = Literal["nearest", "matching-pursuit", "orthogonal-matching-pursuit"]
# Bytes of kernel values between rows and landmarks that are held at once.
_KERNEL_BYTES = 2**22


@documented(MAPS)
class SparseKernelMap(LandmarkMap):
    r"""Sparse features of any kernel: every row on a few landmarks of its own.

    With :math:`z_1, \ldots, z_D` the landmarks, the features of a row are to minimise

    .. math:: \Big|\Psi(x) - \sum_i \Phi_i(x) \Psi(z_i)\Big|^2, \quad |\Phi(x)|_0 \le P,

    equation 7 of [1]_, in the kernel's space, with :math:`P` = `n_nonzero`. Given which
    landmarks are used, they are the coordinates of the orthogonal projection (equation 5);
    which are used is found greedily. Then

    .. math:: k(x, y) \approx \Phi(x)^T K_{ZZ} \Phi(y).

    Parameters
    ----------
    {kernel}
    {n_landmarks}
    n_nonzero : int, default=5
        Landmarks of a row, at most.
    selection : {"nearest", "matching-pursuit", "orthogonal-matching-pursuit"}, default="nearest"
        The landmarks of a row: the nearest in the kernel's space, or pursuit. Pursuit takes one
        after the other the landmark that explains most of the residual. It then subtracts this
        landmark's part, or with "orthogonal-matching-pursuit" the best combination of all so far.
    {landmarks}
    whiten : bool, default=False
        Give the coordinates times a root of :math:`K_{ZZ}` instead: dense features with the usual
        inner product, for linear models that know no other. Directions in which the kernel is
        singular are left out.
    {kernel_params}
    {random_state}
    n_jobs : int, default=None
        Number of threads of the selection and of kernels by name; None and -1 mean one per core.
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
    KernelProjectionMap : All landmarks for every row.
    SparseAdditiveMap : The same, column by column, for additive kernels.
    InnerProduct : What `inner_product_` does.

    Notes
    -----
    A landmark that those chosen before it span, to twelve digits, is left out: it would not change
    the projection. Matching pursuit may choose one again, and stops after `10 * n_nonzero` steps;
    its coordinates nevertheless belong to the projection.

    References
    ----------
    .. [1] A. Vedaldi and A. Zisserman, "Sparse kernel approximations for efficient classification
       and detection", CVPR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.kernel_approximation import SparseKernelMap
    >>> X = np.random.default_rng(0).dirichlet(np.ones(4), size=200)
    >>> map = SparseKernelMap("exp_chi2", 50, n_nonzero=3, random_state=0)
    >>> features = map.fit_transform(X)
    >>> features.shape, features.nnz
    ((200, 50), 600)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LandmarkMap._parameter_constraints,
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "selection": [StrOptions({"nearest", "matching-pursuit", "orthogonal-matching-pursuit"})],
    }

    def __init__(
        self,
        kernel: Kernel = "intersection",
        n_landmarks: int = 100,
        n_nonzero: int = 5,
        *,
        selection: Selection = "nearest",
        landmarks: Literal["kmeans", "sample"] | ArrayLike | Matrix = "kmeans",
        whiten: bool = False,
        kernel_params: dict[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.n_nonzero = n_nonzero
        self.selection = selection
        self.landmarks = landmarks
        self.whiten = whiten
        self.kernel_params = kernel_params
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _set_inner_product(self, product: DenseInnerProduct) -> None:
        self.__dict__.pop("whitening_", None)
        self._kernel_of_landmarks = product.kernel
        if not self.whiten:
            super()._set_inner_product(product)
            return
        self.whitening_ = product.inverse.root()[:, : np.count_nonzero(product.inverse.values)]
        self.inner_product_ = IdentityInnerProduct(self.whitening_.shape[1])

    def transform(self, X: ArrayLike | Matrix) -> sparse.csr_array | NDArray[Any]:
        """Map rows to their sparse coordinates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`.

        Returns
        -------
        features : csr_array of shape (n_samples, D)
            The coordinates, at most `n_nonzero` a row; float32 when `X` is. With `whiten`, an
            ndarray.

        Raises
        ------
        ValueError
            If the kernel does not accept an entry, which the message names.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        Z, K = self.landmarks_, self._kernel_of_landmarks
        n_threads = count_threads(self.n_jobs)
        blocks = []
        for rows in gen_batches(X.shape[0], max(1, _KERNEL_BYTES // (8 * max(Z.shape)))):
            with naming_rows(np.arange(rows.start, rows.stop)):
                k_xz = np.ascontiguousarray(self._kernel(X[rows], Z))
            parts = _histrs.sparse_codes(k_xz, K, self.n_nonzero, self.selection, n_threads)
            blocks.append(csr_result(parts, len(k_xz)))
        codes: sparse.csr_array = sparse.vstack(blocks, format="csr", dtype=X.dtype)
        if not hasattr(self, "whitening_"):
            return codes
        root = in_precision_of(X, self.whitening_, "The roots of the inner product")
        with may_overflow():
            features: NDArray[Any] = codes @ root
        check_computed(features, "Features")
        return features
