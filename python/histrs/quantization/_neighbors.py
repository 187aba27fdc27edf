"""Nearest neighbours among codes, by sums of table entries."""

from __future__ import annotations

import os
from contextlib import nullcontext
from copy import copy
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _archive, _histrs
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
from histrs.quantization import _index_file
from histrs.quantization._coder import Codes
from histrs.quantization._lists import probed
from histrs.quantization._product import ProductQuantizer
from histrs.quantization._rerank import reranked
from histrs.quantization._rotation import check_range, rotated
from histrs.quantization._tables import Tables

# Bytes of queries, their tables and their candidates that are there at a time.
_AT_A_TIME = 2**26
# Rows that candidates are kept of side by side in the core.
_ROWS_A_BLOCK = 2**15
# Queries that share a pass over the codes.
_PANEL = 16
# Rows, at most, whose codes lists are learned from.
_LEARNED = 2**14


class CodeNeighbors(BaseEstimator):
    r"""Nearest neighbours of rows that are kept as codes.

    Indexed rows are codes of a `ProductQuantizer`, and queries are not coded (asymmetric distance
    computation [1]_). A look-up table of each query holds its distance, or inner product,
    from every codeword. The distance of an indexed row is a sum of one entry per code. Nothing is
    decoded. With several levels,
    :math:`|x - \sum_l z_l|^2 = |x|^2 - 2 \sum_l x \cdot z_l + |\sum_l z_l|^2`, of which the last
    term is kept for each indexed row.

    The methods are those of `sklearn.neighbors.NearestNeighbors`. A brute-force search among
    decoded rows finds the same neighbours. Rows can be added, removed and named, and the index
    saved. `n_lists` makes the search of many millions of rows faster, and `rerank` more exact.

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
    n_lists : int or None, default=None
        Number of lists, at least 2, among which k-means divides the rows, as in an inverted file
        [1]_. With None there are no lists, and a query looks at every code.
    n_probes : int, default=8
        Number of nearest lists that a query searches. It searches more if they hold too few rows.
    rerank : int or None, default=None
        Number of candidates of each query that are ordered by exact distances. The index then
        keeps the given dense array of rows, or a memory map, without a copy. With None it keeps
        codes only.
    n_jobs : int or None, default=None
        Threads; None means every core. The result does not depend on it, except for the last bits
        of results of BLAS.

    Attributes
    ----------
    quantizer_ : ProductQuantizer
        The fitted quantizer.
    codes_ : ndarray of shape (n_samples, n_codes)
        The codes of the indexed rows, list by list.
    ids_ : ndarray of int64 of shape (n_samples,)
        The numbers of these rows, which `kneighbors` returns.
    rows_ : ndarray of shape (n_samples, n_features) or None
        With `rerank`, the rows themselves.
    lists_ : ProductQuantizer or None
        The quantizer whose codewords are the centres of lists.
    list_starts_ : ndarray of shape (n_lists + 1,) or None
        Where each list begins in `codes_`, and the number of rows.
    norms_ : ndarray of shape (n_samples,) or None
        With several levels and a Euclidean distance: the squared norm of each decoded row, after
        the mean codewords are subtracted. Its unit is the square of a power of 2 near the largest
        entry of a codeword.
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

    Rows can be removed and added:

    >>> index = index.remove([0]).add(X[:1], ids=[5000])
    >>> int(index.kneighbors(X[:1], 1, return_distance=False)[0, 0])
    5000
    """

    _inputs: ClassVar[dict[str, bool]] = {"sparse": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "quantizer": [ProductQuantizer, FrozenEstimator, None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions({"euclidean", "sqeuclidean", "inner_product"})],
        "n_lists": [Interval(Integral, 2, 2**16, closed="both"), None],
        "n_probes": [Interval(Integral, 1, None, closed="left")],
        "rerank": [Interval(Integral, 1, None, closed="left"), None],
    }

    quantizer_: ProductQuantizer
    codes_: Codes
    ids_: NDArray[np.int64]
    norms_: Array | None
    rows_: NDArray[Any] | None
    lists_: ProductQuantizer | None
    list_starts_: NDArray[np.int64] | None
    metric_: str
    n_samples_fit_: int

    def __init__(
        self,
        quantizer: ProductQuantizer | FrozenEstimator | None = None,
        n_neighbors: int = 5,
        metric: Literal["euclidean", "sqeuclidean", "inner_product"] = "euclidean",
        *,
        n_lists: int | None = None,
        n_probes: int = 8,
        rerank: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.quantizer = quantizer
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.n_lists = n_lists
        self.n_probes = n_probes
        self.rerank = rerank
        self.n_jobs = n_jobs

    # ---- the index -----------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: ArrayLike | Matrix, y: Any = None, *, ids: ArrayLike | None = None) -> Self:
        """Learn the quantizer, unless it is frozen, and index rows; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows.
        y : None
            Not used.
        ids : array-like of int of shape (n_samples,) or None, default=None
            The numbers of the rows, all different; None counts from 0.

        Returns
        -------
        self : object
            The index.
        """
        with unchanged_on_error(self):
            rows = validate_data(self, X, **HISTOGRAM_CHECKS)
            if isinstance(self.quantizer, FrozenEstimator):
                quantizer = self._given()
            else:
                quantizer = ProductQuantizer(n_jobs=self.n_jobs)
                if self.quantizer is not None:
                    quantizer = clone(self.quantizer)
                _check_metric(quantizer.metric)
                quantizer.fit(X)
            self._index(quantizer, quantizer.transform(X), ids, rows)
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def fit_codes(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Index rows by their codes; on an error nothing changes.

        Parameters
        ----------
        codes : array-like of shape (n_samples, n_codes)
            Codes of the fitted `quantizer`, made by its `transform`, or a memory map that its
            `encode` wrote. Without lists they are not copied.
        ids : array-like of int of shape (n_samples,) or None, default=None
            The numbers of the rows, all different; None counts from 0.

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
            if self.rerank is not None:
                raise ValueError(f"rerank = {self.rerank} needs rows: call fit, or set it to None.")
            self._index(quantizer, quantizer.check_codes(codes), ids, None)
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

    def add(self, X: ArrayLike | Matrix, ids: ArrayLike | None = None) -> Self:
        """Index further rows by the quantizer of the fit; on an error nothing changes.

        The arrays of the index are copied: add many rows at once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows.
        ids : array-like of int of shape (n_samples,) or None, default=None
            The numbers of the rows, all different; None counts on from the largest.

        Returns
        -------
        self : object
            The index.
        """
        check_is_fitted(self)
        with unchanged_on_error(self):
            rows = validate_data(self, X, reset=False, **HISTOGRAM_CHECKS)
            start = int(self.ids_.max()) + 1
            self._append(self.quantizer_.transform(rows), _ids(ids, rows.shape[0], start), rows)
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Remove rows; on an error nothing changes.

        Parameters
        ----------
        ids : array-like of int of shape (n_removed,)
            The numbers of the rows, as `kneighbors` returns them.

        Returns
        -------
        self : object
            The index.
        """
        check_is_fitted(self)
        gone = np.atleast_1d(np.asarray(ids))
        unknown = ~np.isin(gone, self.ids_)
        if unknown.any():
            raise ValueError(
                f"ids has {gone[unknown][0]}, which is not in the index: give numbers of `ids_`."
            )
        kept = np.flatnonzero(~np.isin(self.ids_, gone))
        if len(kept) == 0:
            raise ValueError("ids has every row: an index keeps at least one, so fit a new one.")
        with unchanged_on_error(self):
            numbers = self._list_numbers()[kept]
            self._take(kept)
            self._arrange(numbers)
        return self

    def _index(
        self, quantizer: ProductQuantizer, codes: Codes, ids: ArrayLike | None, rows: Matrix | None
    ) -> None:
        _check_metric(quantizer.metric_)
        if len(codes) == 0:
            raise ValueError("codes have 0 rows: give at least one row.")
        # A quantizer that learns on has new codewords, which these codes do not name.
        self.quantizer_, self.metric_ = copy(quantizer), self.metric
        self.codes_, self.ids_ = codes[:0], np.empty(0, np.int64)
        self.rows_ = None if self.rerank is None else np.empty((0, self.n_features_in_))
        has_norms = quantizer.n_levels_ > 1 and self.metric != "inner_product"
        self.norms_ = np.empty(0) if has_norms else None
        self.lists_ = self.list_starts_ = None
        if self.n_lists is not None:
            seed, n_jobs = quantizer.random_state, self.n_jobs
            self.lists_ = ProductQuantizer(1, self.n_lists, random_state=seed, n_jobs=n_jobs)
            some = slice(None, None, -(-len(codes) // _LEARNED))
            self.lists_.fit(quantizer.inverse_transform(codes[some]) if rows is None else rows)
            self.list_starts_ = np.zeros(self.n_lists + 1, np.int64)
        self._append(codes, _ids(ids, len(codes), 0), rows)

    def _append(self, codes: Codes, ids: NDArray[np.int64], rows: Matrix | None) -> None:
        """Put rows behind those that are there."""
        numbers = [self._list_numbers()]
        if self.rows_ is not None:
            if not isinstance(rows, np.ndarray):
                raise ValueError(
                    "rerank keeps rows as they are, and X is sparse: give a dense array."
                )
            self.rows_ = _joined(self.rows_, rows)
        if self.norms_ is not None:
            self.norms_ = _joined(self.norms_, self._squared_norms(codes))
        if self.lists_ is not None:
            numbers.append(self._nearest_lists(codes, rows))
        self.codes_, self.ids_ = _joined(self.codes_, codes), _joined(self.ids_, ids)
        _check_different(self.ids_)
        self._arrange(np.concatenate(numbers))

    def _arrange(self, numbers: NDArray[np.intp]) -> None:
        """Bring rows in the order of their lists."""
        self.n_samples_fit_ = len(self.codes_)
        if self.list_starts_ is not None:
            self._take(np.argsort(numbers, kind="stable"))
            sizes = np.bincount(numbers, minlength=len(self.list_starts_) - 1)
            self.list_starts_ = np.concatenate([[0], np.cumsum(sizes)])

    def _take(self, order: NDArray[np.intp]) -> None:
        for name in ("codes_", "ids_", "norms_", "rows_"):
            values = getattr(self, name)
            setattr(self, name, None if values is None else values[order])

    def _list_numbers(self) -> NDArray[np.intp]:
        """Return the list of each row; without lists 0."""
        if self.list_starts_ is None:
            return np.zeros(len(self.codes_), np.intp)
        return np.repeat(np.arange(len(self.list_starts_) - 1), np.diff(self.list_starts_))

    def _nearest_lists(self, codes: Codes, rows: Matrix | None) -> NDArray[np.intp]:
        assert self.lists_ is not None
        if rows is not None:
            return self.lists_.transform(rows)[:, 0].astype(np.intp)
        # Rows as codes have them, some at a time.
        step = self._rows_at_a_time
        parts = (codes[start : start + step] for start in range(0, len(codes), step))
        decoded = map(self.quantizer_.inverse_transform, parts)
        return np.concatenate([self.lists_.transform(part)[:, 0] for part in decoded]).astype(int)

    def _squared_norms(self, codes: Codes) -> Array:
        tables, step = Tables(self.quantizer_, centred=True), self._rows_at_a_time
        starts = range(0, len(codes), step)
        # Summed in double precision: the codewords may be in single.
        decoded = (tables.decoded(codes[start : start + step]) for start in starts)
        return np.concatenate([np.sum(rows**2, axis=1) for rows in decoded] or [np.empty(0)])

    @property
    def _rows_at_a_time(self) -> int:
        return max(1, 2**22 // self.n_features_in_)

    # ---- files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, without pickle, replacing it in one step.

        Parameters
        ----------
        path : str or path
            The file, which has a checksum. An older index is replaced; any other file is not.

        Raises
        ------
        ValueError
            If `path` is a file of another kind, or damaged.
        """
        check_is_fitted(self)
        header, arrays = _index_file.parts_of(self)
        _archive.write(Path(path), header, arrays, _index_file.KIND, type(self).load)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an index that `save` has written.

        Parameters
        ----------
        path : str or path
            The file. A damaged one, or one of another kind, raises a ValueError.

        Returns
        -------
        index : CodeNeighbors
            It finds what the saved one does; its `quantizer` is frozen.
        """
        with _archive.opened(Path(path), _index_file.KIND) as (header, arrays):
            state = _index_file.state_of(header, arrays)
            index = cls(FrozenEstimator(state["quantizer_"]), **header["parameters"])
            index._validate_params()
            index.__dict__.update(state)
        return index

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
            The queries. None stands for the indexed rows in the order of `ids_`: the kept rows
            with `rerank`, otherwise the decoded ones. No row is then a neighbour of itself.
        n_neighbors : int or None, default=None
            Neighbours of each query, at most the number of rows; None takes `n_neighbors` of the
            index.
        return_distance : bool, default=True
            Whether to return distances too.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Only with `return_distance`: distances or inner products, as `metric` says. The nearest
            come first; the dtype is that of the queries.
        rows : ndarray of shape (n_queries, n_neighbors)
            Numbers of the indexed rows, as in `ids_`. Equally near rows come in the order of
            `ids_`.
        """
        check_is_fitted(self)
        itself = X is None
        wanted = self.n_neighbors if n_neighbors is None else n_neighbors
        n_neighbors = check_count(wanted, n_rows := self.n_samples_fit_ - itself)
        queries: Any = self.rows_
        if X is not None:
            queries = validate_data(self, X, reset=False, **HISTOGRAM_CHECKS)
            _histrs.check_finite(to_core(queries), count_threads(self.n_jobs))
        dtype = self.quantizer_.codebooks_.dtype if queries is None else queries.dtype
        n_queries = n_rows + 1 if queries is None else queries.shape[0]
        values = np.empty((n_queries, n_neighbors), dtype)
        rows = np.empty((n_queries, n_neighbors), np.int64)
        tables = Tables(self.quantizer_, centred=self.metric_ != "inner_product")
        n_found = n_neighbors + itself
        if self.rows_ is not None and self.rerank is not None:
            n_found = min(max(n_found, self.rerank), self.n_samples_fit_)
        step = self._queries_at_a_time(n_found, tables.n_entries)
        # Products of few queries are too small for BLAS to share out, and the limit takes longer.
        limit = count_threads(self.n_jobs)
        with blas_threads_at_most(limit) if n_queries >= _PANEL else nullcontext():
            for start in range(0, n_queries, step):
                part = slice(start, min(start + step, n_queries))
                asked: Any = None if queries is None else queries[part]
                found = self._found(tables, asked, part, dtype, n_found)
                if self.rows_ is not None:
                    asked = rotated(asked, None, limit)
                    k, metric = n_neighbors + itself, self.metric_
                    found = reranked(asked, self.rows_, found[1], k, metric, limit, start)
                if itself:
                    found = _without_itself(*found, start)
                values[part], rows[part] = found[0], self.ids_[found[1]]
        return (values, rows) if return_distance else rows

    def _found(
        self, tables: Tables, X: Any, part: slice, dtype: np.dtype[Any], n_neighbors: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return neighbours by codes of some queries; without `X` of indexed rows."""
        if X is None:
            # Also for single precision, as distances of 0 are to be found.
            turned = tables.restored(self.codes_[part])
        else:
            rotation, n_threads = self.quantizer_.rotation_, count_threads(self.n_jobs)
            turned = rotated(X, rotation, n_threads, part.start).astype(np.float64, copy=False)
        chosen = None
        if self.lists_ is not None and self.list_starts_ is not None:
            if X is None:
                X = self.quantizer_.inverse_transform(self.codes_[part])
            chosen = probed(
                X,
                self.lists_.codebooks_[0].astype(np.float64),
                np.diff(self.list_starts_),
                self.n_probes,
                n_neighbors,
                inner=self.metric_ == "inner_product",
            )
        return self._search(tables, turned, dtype, n_neighbors, part.start, chosen)

    def _queries_at_a_time(self, n_neighbors: int, n_entries: int) -> int:
        n_blocks = -(-self.n_samples_fit_ // _ROWS_A_BLOCK)
        candidates = 48 * n_blocks * min(n_neighbors, _ROWS_A_BLOCK)
        # Queries are dense, and so are what is computed of them.
        dense = 24 * self.n_features_in_
        step = max(1, _AT_A_TIME // (16 * n_entries + candidates + dense))
        return step // _PANEL * _PANEL if step >= _PANEL else step

    def _search(
        self,
        tables: Tables,
        X: Array,
        dtype: np.dtype[Any],
        n_neighbors: int,
        first: int,
        chosen: NDArray[np.bool_] | None,
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return neighbours of rotated queries, which are rows from `first` on.

        `chosen` says which lists a query looks into.
        """
        inner = self.metric_ == "inner_product"
        entries, exponents = tables.products(X) if inner else tables.distances(X, first)
        biases = np.empty(0) if self.norms_ is None else self.norms_
        if dtype == np.float32 and self.quantizer_.n_levels_ == 1:
            # In units of the largest entry of each query, that none is beyond single precision.
            own = np.frexp(np.abs(entries).max(axis=(0, 1), initial=0.0))[1]
            entries = np.ldexp(entries, -own).astype(np.float32)
            exponents, biases = exponents + own, biases.astype(np.float32)
        starts = self.list_starts_
        lists = None if chosen is None or starts is None else (starts, chosen)
        rows, sums = _histrs.quantization_neighbors(
            self.codes_, entries, biases, lists, n_neighbors, count_threads(self.n_jobs)
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


def _ids(ids: ArrayLike | None, n: int, start: int) -> NDArray[np.int64]:
    """Return numbers for so many rows, as given or counted."""
    if ids is None:
        return np.arange(start, start + n)
    given = np.asarray(ids)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"ids has shape {given.shape} and dtype {given.dtype}: give an integer for each of {n} "
            "rows."
        )
    return given.astype(np.int64)


def _check_different(ids: NDArray[np.int64]) -> None:
    in_order = np.sort(ids)
    twice = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(twice) > 0:
        raise ValueError(f"ids has {twice[0]} twice: each row of an index has its own number.")


def _joined(before: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
    """Return both, and no copy where nothing was before."""
    return np.concatenate([before, more.astype(before.dtype, copy=False)]) if len(before) else more


def _without_itself(
    values: NDArray[Any], rows: NDArray[np.int64], first: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Drop each query, a row from `first` on, or where equals are before it the last."""
    others = rows != first + np.arange(len(rows))[:, None]
    others[others.all(axis=1), -1] = False
    shape = len(rows), rows.shape[1] - 1
    return values[others].reshape(shape), rows[others].reshape(shape)
