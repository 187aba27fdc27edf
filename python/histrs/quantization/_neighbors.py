"""Nearest neighbours among codes, by sums of table entries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from copy import copy
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._checks.scale import may_overflow
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    count_threads,
    to_core,
    unchanged_on_error,
    validate_data,
)
from histrs._estimator import BaseEstimator
from histrs._threads import blas_threads_at_most
from histrs._typing import Array, Matrix
from histrs.neighbors._search import check_count
from histrs.quantization._coder import Codes
from histrs.quantization._product import ProductQuantizer
from histrs.quantization._rotation import check_range, rotated
from histrs.quantization._tables import Tables

# Bytes of queries, their tables and their candidates that are there at a time.
_AT_A_TIME = 2**26
# Rows that candidates are kept of side by side in the core.
_ROWS_A_BLOCK = 2**15
# Queries that share a pass over the codes.
_PANEL = 16


class CodeNeighbors(BaseEstimator):
    r"""Nearest neighbours of rows that are kept as codes.

    Indexed rows are codes of a `ProductQuantizer`, and queries are rows as they are (asymmetric
    distance computation [1]_). A look-up table of each query holds its distance, or inner product,
    from every codeword. The distance of an indexed row is a sum of one entry per code. Nothing is
    decoded. With several levels,
    :math:`|x - \sum_l z_l|^2 = |x|^2 - 2 \sum_l x \cdot z_l + |\sum_l z_l|^2`, of which the last
    term is kept for each indexed row.

    The methods are those of `sklearn.neighbors.NearestNeighbors`. A brute-force search among
    decoded rows finds the same neighbours.

    Parameters
    ----------
    quantizer : ProductQuantizer, FrozenEstimator or None, default=None
        Makes codes of rows, in the Euclidean metric; `fit` fits a clone of it, unless it is in a
        `sklearn.frozen.FrozenEstimator`. None means ``ProductQuantizer()``.
    n_neighbors : int, default=5
        Neighbours that `kneighbors` returns.
    metric : {"euclidean", "sqeuclidean", "inner_product"}, default="euclidean"
        Distance, squared distance or inner product. Rows with the largest inner products are
        nearest.
    n_jobs : int or None, default=None
        Threads; None means every core. The result does not depend on it, except for the last bits
        of what BLAS computes.

    Attributes
    ----------
    quantizer_ : ProductQuantizer
        The fitted quantizer.
    codes_ : ndarray of shape (n_samples, n_codes)
        The codes of the indexed rows.
    norms_ : ndarray of shape (n_samples,) or None
        With several levels and a Euclidean distance: the squared norm of each indexed row, after
        the mean codewords are subtracted and the largest codeword is scaled to 1.
    metric_ : str
        The metric of the fit.
    n_samples_fit_ : int
        Number of indexed rows.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where `X` has string names.

    See Also
    --------
    ProductQuantizer : Makes the codes; its `rotation` and `n_levels` raise the recall.

    References
    ----------
    .. [1] H. Jégou, M. Douze and C. Schmid, "Product quantization for nearest neighbor search",
       PAMI 33(1), 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histrs.quantization import CodeNeighbors, ProductQuantizer
    >>> X, _ = load_digits(return_X_y=True)
    >>> quantizer = ProductQuantizer(16, 64, random_state=0)
    >>> index = CodeNeighbors(quantizer, n_neighbors=3).fit(X)
    >>> distances, rows = index.kneighbors(X[:2])
    >>> rows.shape, bool(rows[0, 0] == 0)
    ((2, 3), True)

    With codes, no rows are needed:

    >>> codes = index.quantizer_.transform(X)
    >>> again = CodeNeighbors(index.quantizer_, n_neighbors=3).fit_codes(codes)
    >>> bool((again.kneighbors(X[:2], return_distance=False) == rows).all())
    True
    """

    _inputs: ClassVar[dict[str, bool]] = {"sparse": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "quantizer": [ProductQuantizer, FrozenEstimator, None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions({"euclidean", "sqeuclidean", "inner_product"})],
    }

    quantizer_: ProductQuantizer
    codes_: Codes
    norms_: Array | None
    metric_: str
    n_samples_fit_: int

    def __init__(
        self,
        quantizer: ProductQuantizer | FrozenEstimator | None = None,
        n_neighbors: int = 5,
        metric: Literal["euclidean", "sqeuclidean", "inner_product"] = "euclidean",
        *,
        n_jobs: int | None = None,
    ) -> None:
        self.quantizer = quantizer
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.n_jobs = n_jobs

    # ---- the index -----------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: ArrayLike | Matrix, y: Any = None) -> Self:
        """Learn the quantizer, unless it is frozen, and index rows; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows.
        y : None
            Not used.

        Returns
        -------
        self : object
            The index.
        """
        with unchanged_on_error(self):
            validate_data(self, X, **HISTOGRAM_CHECKS)
            if isinstance(self.quantizer, FrozenEstimator):
                quantizer = self._given()
            else:
                quantizer = ProductQuantizer(n_jobs=self.n_jobs)
                if self.quantizer is not None:
                    quantizer = clone(self.quantizer)
                _check_metric(quantizer.metric)
                quantizer.fit(X)
            self._index(quantizer, quantizer.transform(X))
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def fit_codes(self, codes: ArrayLike) -> Self:
        """Index rows by their codes; on an error nothing changes.

        Parameters
        ----------
        codes : array-like of shape (n_samples, n_codes)
            Codes of the `quantizer`, which is fitted: of its `transform`, or a memory map that
            its `encode` wrote. They are not copied.

        Returns
        -------
        self : object
            The index.
        """
        with unchanged_on_error(self):
            quantizer = self._given()
            self.n_features_in_ = quantizer.n_features_in_
            self.__dict__.pop("feature_names_in_", None)
            if hasattr(quantizer, "feature_names_in_"):
                self.feature_names_in_ = quantizer.feature_names_in_
            self._index(quantizer, quantizer.check_codes(codes))
        return self

    def _given(self) -> ProductQuantizer:
        given = self.quantizer
        quantizer = given.estimator if isinstance(given, FrozenEstimator) else given
        if not isinstance(quantizer, ProductQuantizer):
            raise ValueError(
                f"quantizer = {given!r}: give the fitted ProductQuantizer that made the codes."
            )
        check_is_fitted(quantizer)
        return quantizer

    def _index(self, quantizer: ProductQuantizer, codes: Codes) -> None:
        _check_metric(quantizer.metric_)
        if len(codes) == 0:
            raise ValueError("codes have 0 rows: an index has at least one.")
        # A quantizer that learns on has new codewords, which these codes do not name.
        self.quantizer_, self.codes_, self.metric_ = copy(quantizer), codes, self.metric
        self.n_samples_fit_ = len(codes)
        self.norms_ = None
        if quantizer.n_levels_ > 1 and self.metric != "inner_product":
            self.norms_ = np.concatenate(list(self._squared_norms()))

    def _squared_norms(self) -> Iterator[Array]:
        tables = Tables(self.quantizer_, centred=True)
        step = max(1, 2**22 // self.n_features_in_)
        for start in range(0, len(self.codes_), step):
            # Summed in double precision: the codewords may be in single.
            yield np.sum(tables.decoded(self.codes_[start : start + step]) ** 2, axis=1)

    # ---- the search ----------------------------------------------------------------------------

    def kneighbors(
        self,
        X: ArrayLike | Matrix | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> tuple[NDArray[Any], NDArray[np.int64]] | NDArray[np.int64]:
        """Return the nearest indexed rows of queries.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or None, default=None
            The queries. None stands for the indexed rows as their codes have them, none of which is
            a neighbour of itself.
        n_neighbors : int or None, default=None
            Neighbours of each, at most as many as there are rows; None takes the parameter's.
        return_distance : bool, default=True
            Whether to return distances too.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Only with `return_distance`: what `metric` says, the nearest first, in the dtype of
            the queries.
        rows : ndarray of shape (n_queries, n_neighbors)
            Numbers of the indexed rows; of rows that are equally near, the first comes first.
        """
        check_is_fitted(self)
        itself = X is None
        wanted = self.n_neighbors if n_neighbors is None else n_neighbors
        n_neighbors = check_count(wanted, n_rows := self.n_samples_fit_ - itself)
        if X is not None:
            queries: Any = validate_data(self, X, reset=False, **HISTOGRAM_CHECKS)
            _histrs.check_finite(to_core(queries), count_threads(self.n_jobs))
            dtype, n_queries = queries.dtype, queries.shape[0]
        else:
            dtype, n_queries = self.quantizer_.codebooks_.dtype, n_rows + 1
        values = np.empty((n_queries, n_neighbors), dtype)
        rows = np.empty((n_queries, n_neighbors), np.int64)
        tables = Tables(self.quantizer_, centred=self.metric_ != "inner_product")
        step = self._queries_at_a_time(n_neighbors, tables.n_entries)
        # Products of few queries are too small for BLAS to share out, and the limit takes longer.
        limit = count_threads(self.n_jobs)
        with blas_threads_at_most(limit) if n_queries >= _PANEL else nullcontext():
            for start in range(0, n_queries, step):
                part = slice(start, min(start + step, n_queries))
                if itself:
                    # Also for single precision, as distances of 0 are to be found.
                    turned = tables.restored(self.codes_[part])
                else:
                    turned = rotated(
                        queries[part], self.quantizer_.rotation_, count_threads(self.n_jobs), start
                    ).astype(np.float64, copy=False)
                found = self._search(tables, turned, dtype, n_neighbors + itself, start)
                if itself:
                    found = _without_itself(*found, start)
                values[part], rows[part] = found
        return (values, rows) if return_distance else rows

    def _queries_at_a_time(self, n_neighbors: int, n_entries: int) -> int:
        n_blocks = -(-self.n_samples_fit_ // _ROWS_A_BLOCK)
        candidates = 48 * n_blocks * min(n_neighbors, _ROWS_A_BLOCK)
        # Queries are dense, and so are what is computed of them.
        dense = 24 * self.n_features_in_
        step = max(1, _AT_A_TIME // (16 * n_entries + candidates + dense))
        return step // _PANEL * _PANEL if step >= _PANEL else step

    def _search(
        self, tables: Tables, X: Array, dtype: np.dtype[Any], n_neighbors: int, first: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return neighbours of rotated queries, which are rows from `first` on."""
        inner = self.metric_ == "inner_product"
        entries, exponents = tables.products(X) if inner else tables.distances(X, first)
        biases = np.empty(0) if self.norms_ is None else self.norms_
        if dtype == np.float32 and self.quantizer_.n_levels_ == 1:
            # In units of the largest entry of each query, that none is beyond single precision.
            own = np.frexp(np.abs(entries).max(axis=(0, 1), initial=0.0))[1]
            entries = np.ldexp(entries, -own).astype(np.float32)
            exponents, biases = exponents + own, biases.astype(np.float32)
        rows, sums = _histrs.quantization_neighbors(
            self.codes_, entries, biases, n_neighbors, count_threads(self.n_jobs)
        )
        sums, exponents = sums.astype(np.float64), exponents[:, None]
        with may_overflow():
            if inner:
                values = np.ldexp(-sums, exponents)
            elif self.metric_ == "sqeuclidean":
                values = np.ldexp(np.maximum(sums, 0.0), exponents)
            else:
                # Exponents of squares may be odd where a table has its own unit.
                odd = exponents % 2
                values = np.ldexp(np.sqrt(np.ldexp(np.maximum(sums, 0.0), odd)), exponents // 2)
            values = values.astype(dtype)
        check_range(values, first, "compared with the indexed rows")
        return values, rows


def _check_metric(metric: str) -> None:
    if metric != "euclidean":
        raise ValueError(
            f'quantizer has metric = "{metric}": neighbours are found by Euclidean distance or '
            'inner product among codewords of metric = "euclidean"; for the Hellinger distance '
            "quantise square roots."
        )


def _without_itself(
    values: NDArray[Any], rows: NDArray[np.int64], first: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Drop each query, a row from `first` on, or where equals are before it the last."""
    others = rows != first + np.arange(len(rows))[:, None]
    others[others.all(axis=1), -1] = False
    shape = len(rows), rows.shape[1] - 1
    return values[others].reshape(shape), rows[others].reshape(shape)
