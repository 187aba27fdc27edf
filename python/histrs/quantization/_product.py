"""Product quantisation as a feature map with one non-zero per block."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _archive, _histrs
from histrs._checks.scale import check_squares
from histrs._checks.sparse import is_sparse
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    NameOptions,
    canonical,
    check_random_state,
    count_threads,
    to_core,
    unchanged_on_error,
    validate_data,
)
from histrs._estimator import BaseEstimator, documented
from histrs._progress import StepProgress
from histrs._typing import Array, Matrix
from histrs.kernel_approximation import InnerProduct
from histrs.metrics._registry import CODE_METRICS, CodeMetricName
from histrs.quantization import _codebooks
from histrs.quantization._archived import MOST_CODES, parts_of, state_of
from histrs.quantization._coder import Blocks, Coder, Codes, gathered
from histrs.quantization._learning import Learner, counts_of, moved
from histrs.quantization._metrics import METRICS, CodeMetric, inner_product
from histrs.quantization._rotation import rotated
from histrs.streaming._names import ColumnNames
from histrs.streaming._readers import reader_of
from histrs.streaming._rows import Chunk

_KIND = "product quantizer"


@documented()
class ProductQuantizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Product quantisation: stores a row as one code per block of columns.

    The columns are cut into `M` blocks. Each block of a row is replaced by the number of the
    nearest of `D` codewords, which k-means finds [1]_. A row takes `M` bytes, or `2 M` above 256
    codewords, times `n_levels`.

    As a vector, a row has `M D` features :math:`\Phi(x)`: ones for its `M` codewords, else zeros
    (section 3 of [2]_). :class:`~histrs.svm.BundleSVC` compares rows by
    :math:`\Phi(x)^T K_{ZZ} \Phi(x')`, with :math:`K_{ZZ}` the kernel matrix of codewords.
    The metric determines the kernel:

    ================  ==================================  ==============================
    `metric`          distance, summed over a block       kernel
    ================  ==================================  ==============================
    "euclidean"       :math:`(x - z)^2`                   :math:`x z`
    "hellinger"       :math:`(\sqrt x - \sqrt z)^2`       :math:`\sqrt{x z}`
    "chi2"            :math:`(x - z)^2 / (x + z)`         :math:`2 x z / (x + z)`
    "intersection"    :math:`|x - z|`                     :math:`\min(x, z)`
    ================  ==================================  ==============================

    Parameters
    ----------
    n_blocks : int, default=8
        Number of blocks `M`, at most one per column.
    n_codes : int, default=256
        Codewords `D` of each block, from 2 to 65,536 and at most one per row.
    metric : {"euclidean", "hellinger", "chi2", "intersection"}, default="euclidean"
        The distance from codewords. All but the first need non-negative rows.
    rotation : {"opq"} or None, default=None
        "opq" learns an orthogonal matrix and the codebooks in turn [3]_. Only for the Euclidean
        metric; several times slower.
    n_levels : int, default=1
        Codes of each block, at most 64. Each level quantises the residual of the levels before
        [4]_. More than one only for the Euclidean metric.
    algorithm : {"lloyd", "minibatch"}, default="lloyd"
        `sklearn.cluster.KMeans` or `MiniBatchKMeans`.
    max_samples : int or None, default=16384
        Rows drawn to learn codebooks from, at least `n_codes`; None uses all.
    max_iter : int, default=25
        Largest number of iterations of k-means, and of rounds of "opq".
    random_state : int, RandomState instance or None, default=None
        Draws rows and first codewords.
    n_jobs : int or None, default=None
        Threads; None means every core. The result does not depend on it.
    verbose : int, default=0
        Above 0, a progress bar.

    Attributes
    ----------
    codebooks_ : ndarray of shape (n_blocks * n_levels, n_codes, width)
        The codewords after the rotation; narrower blocks are padded. ``codebooks_[l::n_levels]``
        are those of level `l`.
    rotation_ : ndarray of shape (n_features, n_features) or None
        The orthogonal matrix that multiplies rows.
    n_levels_ : int
        Levels of the codebooks.
    metric_ : str
        The metric of the codebooks.
    block_offsets_ : ndarray of shape (n_blocks + 1,)
        The first column of each block, then the number of columns.
    counts_ : ndarray of shape (n_blocks * n_levels, n_codes)
        Training rows of each codeword.
    inner_product_ : histrs.kernel_approximation.InnerProduct
        :math:`K_{ZZ}`, with methods `matmul(V)` and `solve(V)`. It is never formed.
    n_iter_ : int
        Largest number of iterations of k-means in any block.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if `X` has string names.

    References
    ----------
    .. [1] H. Jégou, M. Douze and C. Schmid, "Product quantization for nearest neighbor search",
       PAMI 33(1), 2011.
    .. [2] A. Vedaldi and A. Zisserman, "Sparse kernel approximations for efficient classification
       and detection", CVPR 2012.
    .. [3] T. Ge, K. He, Q. Ke and J. Sun, "Optimized product quantization for approximate nearest
       neighbor search", CVPR 2013.
    .. [4] Y. Chen, T. Guan and C. Wang, "Approximate nearest neighbor search by residual vector
       quantization", Sensors 10(12), 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histrs.quantization import ProductQuantizer
    >>> X, _ = load_digits(return_X_y=True)
    >>> pq = ProductQuantizer(n_blocks=8, n_codes=64, random_state=0).fit(X)
    >>> codes = pq.transform(X)
    >>> codes.shape, codes.dtype, X.nbytes // codes.nbytes
    ((1797, 8), dtype('uint8'), 64)
    >>> error = ((pq.inverse_transform(codes) - X) ** 2).sum()
    >>> bool(error < 0.2 * ((X - X.mean(axis=0)) ** 2).sum())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_blocks": [Interval(Integral, 1, None, closed="left")],
        "n_codes": [Interval(Integral, 2, MOST_CODES, closed="both")],
        "metric": [NameOptions(CODE_METRICS)],
        "rotation": [StrOptions({"opq"}), None],
        # A level more than there are bits in a number says nothing; each is learned by itself.
        "n_levels": [Interval(Integral, 1, 64, closed="both")],
        "algorithm": [StrOptions({"lloyd", "minibatch"})],
        "max_samples": [Interval(Integral, 1, None, closed="left"), None],
    }

    codebooks_: NDArray[Any]
    rotation_: NDArray[Any] | None
    n_levels_: int
    n_features_in_: int
    block_offsets_: NDArray[np.int64]
    counts_: Array

    def __init__(
        self,
        n_blocks: int = 8,
        n_codes: int = 256,
        metric: CodeMetricName = "euclidean",
        *,
        rotation: Literal["opq"] | None = None,
        n_levels: int = 1,
        algorithm: Literal["lloyd", "minibatch"] = "lloyd",
        max_samples: int | None = 16384,
        max_iter: int = 25,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_blocks = n_blocks
        self.n_codes = n_codes
        self.metric = metric
        self.rotation = rotation
        self.n_levels = n_levels
        self.algorithm = algorithm
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---- learning ------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | Matrix, y: Any = None) -> Self:
        """Learn codebooks; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows, non-negative unless the metric is Euclidean. A memory map is checked whole;
            then only the drawn rows are read.
        y : None
            Not used.

        {self}
        """
        with unchanged_on_error(self):
            self.metric_ = self.metric
            self._learn(self._check(X, reset=True))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike | Matrix, y: Any = None) -> Self:
        """Learn codebooks from the first rows, and move them with the next ones.

        Chunks are kept until they have `n_codes` rows together. Codebooks are learned from these. A
        further chunk is a step of mini-batch k-means: its rows are encoded, and a codeword becomes
        the mean of all its rows. For "hellinger" and "chi2" it is the mean of square roots, and for
        further levels the mean of residuals. The rotation is learned from the first rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`; many more than `n_codes` in the first chunk make better codewords.
        y : None
            Not used.

        Returns
        -------
        self : object
            The quantizer.
        """
        with unchanged_on_error(self):
            if not hasattr(self, "codebooks_"):
                return self._collect(X)
            rows = self._check(X, reset=False)
            codebooks, counts = moved(self._coder(), self.counts_, rows)
            dtype = self.codebooks_.dtype
            with np.errstate(over="ignore"):
                self.codebooks_ = codebooks.astype(dtype)
            if not np.all(np.isfinite(self.codebooks_)):
                raise ValueError(
                    f"Codewords of these rows overflow {dtype}, the precision of the first call: "
                    "give rows of the same scale, or begin with float64."
                )
            self.counts_ = counts
        return self

    def _collect(self, X: ArrayLike | Matrix) -> Self:
        """Keep rows until there is one for each codeword, and learn from them."""
        before = getattr(self, "_collected", [])
        self.metric_ = self.metric
        collected = [*before, self._check(X, reset=not before)]
        self._collected = collected
        if sum(rows.shape[0] for rows in collected) >= self.n_codes:
            is_any_sparse = any(is_sparse(rows) for rows in collected)
            joined = partial(sparse.vstack, format="csr") if is_any_sparse else np.concatenate
            self._learn(joined(collected))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are codebooks: rows of `partial_fit` may not be enough for them."""
        return hasattr(self, "codebooks_")

    @property
    def _metric(self) -> CodeMetric:
        return METRICS[self.metric_]

    def _check(self, X: Any, *, reset: bool) -> Matrix:
        rows = canonical(validate_data(self, X, reset=reset, **HISTOGRAM_CHECKS))
        if self._metric.is_of_histograms:
            _histrs.check_histograms(to_core(rows), count_threads(self.n_jobs))
        else:
            _histrs.check_finite(to_core(rows), count_threads(self.n_jobs))
        return rows

    def _learn(self, rows: Matrix) -> None:
        n, d = rows.shape
        if self._metric.is_of_histograms and (self.rotation is not None or self.n_levels > 1):
            raise ValueError(
                f"rotation = {self.rotation!r} and n_levels = {self.n_levels} with metric = "
                f'"{self.metric_}": rotated rows and residuals are not histograms. Use metric = '
                '"euclidean" (on square roots of histograms for the Hellinger kernel), or no '
                "rotation and one level."
            )
        # k-means squares coordinates.
        check_squares(rows, of_roots=self._metric.is_of_roots)
        if self.n_blocks > d:
            raise ValueError(
                f"n_blocks = {self.n_blocks} is more than n_features = {d}: a block has at least "
                "one column."
            )
        if n < self.n_codes:
            raise ValueError(
                f"n_samples = {n} is fewer than n_codes = {self.n_codes}: k-means needs a row for "
                "each codeword; give more rows, or ask for fewer codes."
            )
        rng = check_random_state(self.random_state)
        if self.max_samples is not None and n > max(self.max_samples, self.n_codes):
            kept = rng.permutation(n)[: max(self.max_samples, self.n_codes)]
            rows = rows[np.sort(kept)]
        sizes = np.full(int(self.n_blocks), d // self.n_blocks)
        sizes[: d % self.n_blocks] += 1
        self.block_offsets_ = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        with StepProgress("ProductQuantizer", self.verbose) as progress:
            learner = Learner(
                self._blocks(), self.n_codes, self.algorithm, self.max_iter, rng, progress
            )
            coder, self.n_iter_ = learner.learn(
                rows, int(self.n_levels), rotate=self.rotation is not None
            )
        self.codebooks_, self.rotation_ = coder.codebooks, coder.rotation
        self.n_levels_ = coder.n_levels
        self.counts_ = counts_of(coder, rows)
        self.__dict__.pop("_collected", None)

    def _blocks(self) -> Blocks:
        return Blocks(self.block_offsets_, self.metric_, count_threads(self.n_jobs))

    def _coder(self) -> Coder:
        return Coder(self._blocks(), self.codebooks_, self.rotation_, self.n_levels_)

    # ---- encoding ------------------------------------------------------------------------------

    def transform(self, X: ArrayLike | Matrix) -> Codes:
        """Return the codes of rows.

        Distances are evaluated in the dtype of `X`; of codewords that are equally near, the first
        is taken.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_blocks * n_levels)
            Numbers of codewords, uint8 for up to 256 codewords, else uint16. The levels of a block
            follow one another: ``codes[:, l::n_levels]`` are those of level `l`.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, **HISTOGRAM_CHECKS)
        return self._coder().encode(rows)

    def encode(
        self, rows: Any, *, chunk_size: int = 65536, out: NDArray[Any] | None = None
    ) -> Codes:
        """Return the codes of rows that need not fit in memory.

        Parameters
        ----------
        rows : array-like, sparse matrix, path or iterable
            An array or memory map, a CSR matrix, the path of an `.npy` file, or an iterable of
            chunks of rows.
        chunk_size : int, default=65536
            Rows that are read at a time, except from an iterable.
        out : ndarray of shape (n_samples, n_blocks * n_levels), default=None
            Where the codes go: an array of their dtype, for instance of
            `numpy.lib.format.open_memmap`. None makes a new one.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_blocks * n_levels)
            As `transform` returns them; `out`, where it is given.
        """
        check_is_fitted(self)
        coder, names = self._coder(), ColumnNames.of_map(self)
        codes = self._codes_of(reader_of(rows).chunks(None, None, chunk_size, names), names)
        return gathered(codes, len(coder.codebooks), coder.dtype, out)

    def _codes_of(self, chunks: Iterable[Chunk], names: ColumnNames) -> Iterator[Codes]:
        for rows, *_ in chunks:
            with names.quiet():
                codes = self.transform(rows)
            yield codes

    def inverse_transform(self, codes: ArrayLike) -> NDArray[Any]:
        """Return the rows that codes stand for.

        Codewords stand side by side. Codewords of the levels of a block are added up, and rows are
        rotated back.

        Parameters
        ----------
        codes : array-like of shape (n_samples, n_blocks * n_levels)
            Codes.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows in the dtype of the training data.
        """
        check_is_fitted(self)
        codes = self.check_codes(codes)
        rows = self._coder().decode(codes)
        if self.rotation_ is None:
            return rows
        return rotated(rows, self.rotation_.T, count_threads(self.n_jobs))

    def quantization_error(self, X: ArrayLike | Matrix) -> float:
        """Return the mean distance between rows and their decoded rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`, at least one.

        Returns
        -------
        error : float
            The mean over rows of the distance of the metric, summed over columns. For "euclidean"
            it is the mean squared distance of a row from its decoded row.
        """
        check_is_fitted(self)
        rows = self._check(X, reset=False)
        check_squares(rows, of_roots=self._metric.is_of_roots)
        n: int = rows.shape[0]
        total = 0.0
        coder = self._coder()
        for start in range(0, n, step := coder.rows_at_a_time):
            part = rows[start : start + step]
            decoded = self.inverse_transform(coder.encode(part)).astype(np.float64)
            total += self._metric.distortion(_codebooks.block(part, 0, part.shape[1]), decoded)
        return total / n

    def check_codes(self, codes: ArrayLike) -> Codes:
        """Return codes in the dtype of `transform`, or raise an error that names a bad one.

        Parameters
        ----------
        codes : array-like of shape (n_samples, n_blocks * n_levels)
            Codes of any integer dtype.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_blocks * n_levels)
            The same, uint8 or uint16; a copy only where the dtype differs.
        """
        check_is_fitted(self)
        return self._coder().checked(codes)

    # ---- the feature map -----------------------------------------------------------------------

    @property
    def inner_product_(self) -> InnerProduct:
        """The inner product of codewords."""
        check_is_fitted(self)
        codebooks = self.codebooks_.astype(np.float64)
        return inner_product(codebooks, self.metric_, count_threads(self.n_jobs), self.n_levels_)

    @property
    def _n_features_out(self) -> int:
        return len(self.codebooks_)

    # ---- files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the quantizer to a file, without pickle, replacing it in one step.

        Parameters
        ----------
        path : str or path
            The file, which has a checksum. An older quantizer is replaced; any other file is not.

        Raises
        ------
        ValueError
            If `path` is a file of another kind, or damaged.
        """
        check_is_fitted(self)
        header, arrays = parts_of(self)
        _archive.write(Path(path), header, arrays, _KIND, type(self).load)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a quantizer that `save` has written.

        Parameters
        ----------
        path : str or path
            The file. A damaged one, or one of another kind, raises a ValueError.

        Returns
        -------
        quantizer : ProductQuantizer
            It encodes as the one that was saved.
        """
        with _archive.opened(Path(path), _KIND) as (header, arrays):
            return cls._read(header, arrays)

    @classmethod
    def _read(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        quantizer = cls(**header["parameters"])
        quantizer._validate_params()
        quantizer.__dict__.update(state_of(header, arrays))
        return quantizer

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.metric != "euclidean"
        assert tags.transformer_tags is not None
        tags.transformer_tags.preserves_dtype = []
        return tags
