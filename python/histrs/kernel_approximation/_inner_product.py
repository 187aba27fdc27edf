"""Inner products between coordinates on landmarks: products and solves with `K_ZZ`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from histrs._typing import Array


class InnerProduct(ABC):
    r"""The inner product :math:`K_{ZZ}` of a feature map, as an operator.

    With :math:`\Phi(x)` the features of `x`, the map approximates its kernel by
    :math:`\Phi(x)^T K_{ZZ} \Phi(y)`, equation 6 of [1]_, where `K_ZZ` is the kernel of the
    landmarks. A map has one as `inner_product_`.

    Attributes
    ----------
    shape : tuple of int
        `(n_features_out, n_features_out)`.

    References
    ----------
    .. [1] A. Vedaldi and A. Zisserman, "Sparse kernel approximations for efficient classification
       and detection", CVPR 2012.

    Examples
    --------
    >>> from histrs.kernel_approximation import SparseAdditiveMap
    >>> map = SparseAdditiveMap("intersection", n_knots=4).fit([[1.0], [8.0]])
    >>> map.inner_product_.shape
    (4, 4)
    >>> map.inner_product_.matmul([1.0, 0.0, 0.0, 1.0])
    array([ 4.,  6.,  8., 10.])
    """

    shape: tuple[int, int]

    def matmul(self, V: ArrayLike) -> Array:
        """Compute `K_ZZ V`.

        Parameters
        ----------
        V : array-like of shape (n_features_out, k) or (n_features_out,)
            Vectors of coordinates, one per column.

        Returns
        -------
        product : ndarray of the same shape
            The product, in double precision.

        Raises
        ------
        ValueError
            If `V` has another number of rows.
        """
        V, shape = self._check(V)
        return self._matmul(V).reshape(shape)

    def solve(self, V: ArrayLike) -> Array:
        r"""Compute :math:`K_{ZZ}^\dagger V`, by the pseudo-inverse where `K_ZZ` is singular.

        Parameters
        ----------
        V : array-like of shape (n_features_out, k) or (n_features_out,)
            Right-hand sides, one per column.

        Returns
        -------
        solution : ndarray of the same shape
            The solution, in double precision; where there is none, the one of least squares and
            least norm.

        Raises
        ------
        ValueError
            If `V` has another number of rows.

        Notes
        -----
        The intersection kernel's is exact, and so is Hellinger's, whose blocks have rank one. For
        the other kernels, with `q` landmarks in the block, an eigenvalue is taken for zero if it is
        below `q` times the machine precision times the largest eigenvalue. The chi-square kernel of
        many knots is singular to rounding.
        """
        V, shape = self._check(V)
        return self._solve(V).reshape(shape)

    def _check(self, V: ArrayLike) -> tuple[Array, tuple[int, ...]]:
        V = np.asarray(V, dtype=np.float64)
        if V.ndim not in (1, 2) or len(V) != self.shape[0]:
            raise ValueError(
                f"V has shape {V.shape}; give {self.shape[0]} rows, one for each feature, and at "
                "most two dimensions."
            )
        return (V if V.ndim == 2 else V[:, None]), V.shape

    @abstractmethod
    def _matmul(self, V: Array) -> Array: ...

    @abstractmethod
    def _solve(self, V: Array) -> Array: ...


class IdentityInnerProduct(InnerProduct):
    """The usual inner product."""

    def __init__(self, n_features: int) -> None:
        self.shape = (n_features, n_features)

    def _matmul(self, V: Array) -> Array:
        return V.copy()

    def _solve(self, V: Array) -> Array:
        return V.copy()


class RootedInnerProduct(InnerProduct):
    """An inner product that can be taken into the features."""

    @abstractmethod
    def root(self) -> tuple[sparse.csr_array[Any, tuple[int, int]], NDArray[np.intp]]:
        """Return `W` with `K_ZZ = W W^T`, and how many of its columns are of each column of data.

        Features times `W` have the usual inner product.
        """


class _Columns:
    """Knots of every column, and vectors of one entry per knot, padded to one length."""

    def __init__(self, knots: Array, offsets: NDArray[np.int64]) -> None:
        counts = np.diff(offsets)
        self.present = np.arange(counts.max(initial=0)) < counts[:, None]
        self.knots = self.pad(knots[:, None])[:, :, 0]

    def pad(self, V: Array) -> Array:
        """Return `V` in an array of shape (n_columns, n_knots, k), with zeros at the end."""
        padded = np.zeros((*self.present.shape, V.shape[1]))
        padded[self.present] = V
        return padded

    def unpad(self, padded: Array) -> Array:
        return padded[self.present]

    def root(
        self, blocks: Array, kept: NDArray[np.bool_]
    ) -> tuple[sparse.csr_array[Any, tuple[int, int]], NDArray[np.intp]]:
        """Return blocks of shape (n_columns, n_knots, k) along a diagonal, some columns of each."""
        rows = np.cumsum(self.present).reshape(self.present.shape) - 1
        columns = np.cumsum(kept).reshape(kept.shape) - 1
        used = self.present[:, :, None] & kept[:, None, :] & (blocks != 0.0)
        d, i, j = np.nonzero(used)
        shape = (int(self.present.sum()), int(kept.sum()))
        W = sparse.csr_array((blocks[used], (rows[d, i], columns[d, j])), shape=shape)
        return W, kept.sum(axis=1)


class CumulativeInnerProduct(RootedInnerProduct):
    """The intersection kernel of knots: two cumulative sums (equation 17), or two differences.

    With `h` the gaps between the knots and `L` the cumulative sum, `K_ZZ = L diag(h) L^T`.
    """

    def __init__(self, knots: Array, offsets: NDArray[np.int64]) -> None:
        self.shape = (len(knots), len(knots))
        self._columns = _Columns(knots, offsets)
        gaps = np.diff(self._columns.knots, axis=1, prepend=0.0)
        self._gaps = np.where(self._columns.present, gaps, 0.0)[:, :, None]

    def _matmul(self, V: Array) -> Array:
        from_the_end = self._columns.pad(V)[:, ::-1].cumsum(axis=1)[:, ::-1]
        return self._columns.unpad((from_the_end * self._gaps).cumsum(axis=1))

    def _solve(self, V: Array) -> Array:
        slopes = np.diff(self._columns.pad(V), axis=1, prepend=0.0)
        slopes = np.divide(slopes, self._gaps, out=np.zeros_like(slopes), where=self._gaps > 0)
        return self._columns.unpad(-np.diff(slopes, axis=1, append=0.0))

    def root(self) -> tuple[sparse.csr_array[Any, tuple[int, int]], NDArray[np.intp]]:
        """Return the roots of the gaps up to each knot."""
        n_knots = self._columns.present.shape[1]
        blocks = np.tril(np.ones((n_knots, n_knots))) * np.sqrt(self._gaps.transpose(0, 2, 1))
        return self._columns.root(blocks, self._columns.present)


class RankOneInnerProduct(RootedInnerProduct):
    """Hellinger's kernel of knots: a column's block is `s s^T`, `s` the roots of the knots."""

    def __init__(self, knots: Array, offsets: NDArray[np.int64]) -> None:
        self.shape = (len(knots), len(knots))
        self._columns = _Columns(knots, offsets)
        self._roots = np.sqrt(self._columns.knots)[:, :, None]

    def _matmul(self, V: Array) -> Array:
        return self._columns.unpad(self._roots * self._project(V))

    def _solve(self, V: Array) -> Array:
        # Of unit vectors, so that squares neither overflow nor vanish.
        norm = np.linalg.norm(self._roots, axis=1, keepdims=True)
        unit = np.divide(self._roots, norm, out=np.zeros_like(self._roots), where=norm > 0)
        along = np.sum(unit * self._columns.pad(V), axis=1, keepdims=True)
        along = np.divide(along, norm, out=np.zeros_like(along), where=norm > 0)
        along = np.divide(along, norm, out=np.zeros_like(along), where=norm > 0)
        return self._columns.unpad(unit * along)

    def root(self) -> tuple[sparse.csr_array[Any, tuple[int, int]], NDArray[np.intp]]:
        """Return the roots of the knots: one feature per column."""
        return self._columns.root(self._roots, self._columns.present[:, :1])

    def _project(self, V: Array) -> Array:
        return np.asarray(np.sum(self._roots * self._columns.pad(V), axis=1, keepdims=True))


class BlockInnerProduct(RootedInnerProduct):
    """Blocks of any kernel that is homogeneous, one per column.

    Columns whose knots are multiples of each other share a block, but for a factor: evenly spaced
    knots need one block in all.
    """

    def __init__(self, kernel: str, knots: Array, offsets: NDArray[np.int64]) -> None:
        self.shape = (len(knots), len(knots))
        self._columns = _Columns(knots, offsets)
        self._scales = self._columns.knots.max(axis=1, initial=0.0)[:, None, None]
        ratios = np.divide(
            self._columns.knots,
            self._scales[:, :, 0],
            out=np.zeros_like(self._columns.knots),
            where=self._scales[:, :, 0] > 0,
        )
        filled = ratios[self._scales[:, 0, 0] > 0]
        if len(filled) and np.allclose(filled, filled[0], rtol=1e-14, atol=0.0):
            ratios = filled[:1]
        self._kernels = _KERNELS[kernel](ratios)
        self._inverse = SymmetricInverse(self._kernels)

    def _matmul(self, V: Array) -> Array:
        return self._columns.unpad(self._scales * (self._kernels @ self._columns.pad(V)))

    def _solve(self, V: Array) -> Array:
        V = self._columns.pad(V)
        V = np.divide(V, self._scales, out=np.zeros_like(V), where=self._scales > 0)
        return self._columns.unpad(self._inverse.apply(V))

    def root(self) -> tuple[sparse.csr_array[Any, tuple[int, int]], NDArray[np.intp]]:
        """Return eigenvectors times the roots of their eigenvalues, the largest first."""
        blocks = np.sqrt(self._scales) * self._inverse.root()
        kept = np.any(blocks != 0.0, axis=1)
        return self._columns.root(blocks, kept)


class DenseInnerProduct(InnerProduct):
    """The kernel of landmarks as it is."""

    def __init__(self, kernel: Array) -> None:
        self.shape = (len(kernel), len(kernel))
        self.kernel = kernel
        self.inverse = SymmetricInverse(kernel)

    def _matmul(self, V: Array) -> Array:
        return self.kernel @ V

    def _solve(self, V: Array) -> Array:
        return self.inverse.apply(V)


class SymmetricInverse:
    """Pseudo-inverses of positive semi-definite matrices in a stack, by their eigenvalues."""

    def __init__(self, matrices: Array) -> None:
        values, self.vectors = np.linalg.eigh(matrices)
        cutoff = values.shape[-1] * np.finfo(np.float64).eps
        keep = values > cutoff * values.max(axis=-1, keepdims=True, initial=0.0)
        self.values = np.divide(1.0, values, out=np.zeros_like(values), where=keep)

    def root(self) -> Array:
        """Return `W` with `W W^T` the matrices, the largest columns first, but for rounding."""
        keep = self.values > 0.0
        roots = np.sqrt(np.divide(1.0, self.values, out=np.zeros_like(self.values), where=keep))
        root: Array = (self.vectors * roots[..., None, :])[..., ::-1]
        return root

    def apply(self, V: Array) -> Array:
        """Return the pseudo-inverse times `V`."""
        along = np.swapaxes(self.vectors, -1, -2) @ V
        return np.asarray(self.vectors @ (self.values[..., None] * along))


def _chi2(ratios: Array) -> Array:
    """Return the chi-square kernel of every pair in a row; 0 where one is 0."""
    a, b = ratios[:, :, None], ratios[:, None, :]
    total = a + b
    return np.divide(2.0 * a, total, out=np.zeros_like(total), where=total > 0) * b


def _jensen_shannon(ratios: Array) -> Array:
    """Return the Jensen-Shannon kernel of every pair in a row; 0 where one is 0."""
    low = np.minimum(ratios[:, :, None], ratios[:, None, :])
    high = np.maximum(ratios[:, :, None], ratios[:, None, :])
    positive = low > 0
    log = np.log2(high, where=positive, out=np.zeros_like(low))
    log -= np.log2(low, where=positive, out=np.zeros_like(low))
    share = np.divide(low, high, out=np.zeros_like(low), where=positive)
    return np.asarray(0.5 * ((low + high) * (np.log1p(share) / np.log(2.0)) + low * log))


_KERNELS = {"chi2": _chi2, "jensen_shannon": _jensen_shannon}


def additive_inner_product(
    kernel: str, knots: Array, offsets: NDArray[np.int64]
) -> RootedInnerProduct:
    """Return the inner product of knots, those of column `d` from `offsets[d]` on."""
    if kernel == "intersection":
        return CumulativeInnerProduct(knots, offsets)
    if kernel == "hellinger":
        return RankOneInnerProduct(knots, offsets)
    return BlockInnerProduct(kernel, knots, offsets)
