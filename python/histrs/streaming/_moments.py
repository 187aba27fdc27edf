"""The moments of a data set: all that linear models of squared error need to know of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from histrs import _archive
from histrs._estimator import documented
from histrs._frames import order_of
from histrs._typing import Array
from histrs.streaming._consumed import Consumed
from histrs.streaming._digest import digest as digest_of
from histrs.streaming._docs import PASSES
from histrs.streaming._names import ColumnNames
from histrs.streaming._reduction import reduced
from histrs.streaming._rows import Rows, checked, matrix, n_columns
from histrs.streaming._source import CHUNK_SIZE, RowSource, in_chunk
from histrs.streaming._sums import OVERFLOW, CentredSums, finite, full
from histrs.streaming._weights import counted_weights

_KIND = "moments"
_PARTS = ("mean", "scatter", "y_mean", "cross", "y_squares")


@documented(PASSES)
class Moments:
    r"""Count of rows, and their first and second moments, with or without targets.

    They are the sufficient statistics of least squares: algorithm 2 of [1]_ needs only

    .. math:: n, \quad m = Z^T 1, \quad H = Z^T Z - m m^T / n, \quad v = Z^T y,

    in `O(D^2)` memory for any number of rows. Moments of parts of a data set merge to the moments
    of the whole, in any grouping: chunks, processes, days.

    Sums are of deviations from the mean, and merged as in [2]_, because the formula of :math:`H`
    above loses digits if means are large. Rows without targets contribute to the principal
    directions only.

    Parameters
    ----------
    n_features : int
        Number of columns `D`.
    n_targets : int, default=0
        Number of targets of a row.
    digest : str, default=""
        Name of the feature map that made the rows, as `histrs.streaming.digest` returns it.
        Moments of different maps do not merge.
    feature_names : sequence of str, default=None
        Names of the columns. None takes the names of the first data frame, if there is one. Columns
        of rows and moments are matched by name, in any order.

    Attributes
    ----------
    n_features, n_targets : int
        As given.
    digest : str
        As given.
    feature_names : list of str or None
        Names of the columns; None where no rows had any.
    n : int or float
        Number of rows; with weights, the sum of these.
    n_labelled : int or float
        Number of rows with targets, or the sum of their weights.
    n_rows : int or float
        Number of rows of positive weight. A row with a weight above 1 counts as that many,
        because it stands for equal rows. Moments without weights have `n` rows.
    n_chunks : int
        Number of calls of `update`.

    Notes
    -----
    Rows may be float32; all sums are float64. `update` cuts its rows into blocks of 4096 from the
    first one on, and adds block after block with one symmetric product of BLAS. Results therefore
    have the same bits if the sizes of all chunks but the last are multiples of 4096. This holds for
    rows in one order, all with targets or all without, and for one BLAS, number of threads and
    processor. Otherwise, and for `merge`, they agree up to rounding. A dense array, a memmap and
    CSR give the same bits.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.
    .. [2] T. Chan, G. Golub and R. LeVeque, "Updating formulae and a pairwise algorithm for
       computing sample variances", Stanford report STAN-CS-79-773, 1979.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.streaming import Moments
    >>> Z = np.random.default_rng(0).random((3000, 4))
    >>> a = Moments(4).update(Z[:1000])
    >>> b = Moments(4).update(Z[1000:])
    >>> (a + b).n
    3000
    >>> bool(np.allclose((a + b).H, 2999 * np.cov(Z.T)))
    True
    """

    def __init__(
        self,
        n_features: int,
        n_targets: int = 0,
        *,
        digest: str = "",
        feature_names: Sequence[str] | None = None,
    ) -> None:
        if n_features < 1 or n_targets < 0:
            raise ValueError(
                f"n_features = {n_features}, n_targets = {n_targets}: give at least one feature, "
                "and no negative number."
            )
        self.n_features = int(n_features)
        self.n_targets = int(n_targets)
        self.digest = digest
        self.feature_names = None if feature_names is None else list(feature_names)
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError(
                f"{len(self.feature_names)} feature_names, but n_features = {self.n_features}: "
                "give a name for each."
            )
        self.n_chunks = 0
        # Matrices of the size of H are made when the first row of their kind comes.
        self._labelled: CentredSums | None = None
        self._unlabelled: CentredSums | None = None

    # ---- what is known -------------------------------------------------------------------------

    @property
    def n(self) -> float:
        """Number of rows, or the sum of their weights."""
        return self.n_labelled + (self._unlabelled.n if self._unlabelled else 0)

    @property
    def n_labelled(self) -> float:
        """Number of rows with targets, or the sum of their weights."""
        return self._labelled.n if self._labelled else 0

    @property
    def n_rows(self) -> float:
        """Number of rows; one of more weight than 1 counts as that many."""
        return sum(sums.n_rows for sums in self._kinds().values())

    @property
    def m(self) -> Array:
        """Sum of all rows, shape (D,)."""
        return finite(self.n, self._all_rows().mean)

    @property
    def H(self) -> Array:  # noqa: N802
        """Sum of products of all rows about their mean, shape (D, D): `H` after step 8."""
        return full(self._all_rows().scatter)

    @property
    def v(self) -> Array:
        """Sum of rows times targets, shape (D, n_targets), over rows with targets."""
        sums = self._labelled_rows()
        return finite(sums.n, sums.mean[:, None], sums.y_mean, add=sums.cross)

    @property
    def y_sum(self) -> Array:
        """Sum of the targets, shape (n_targets,)."""
        return finite(self.n_labelled, self._labelled_rows().y_mean)

    @property
    def y_squares(self) -> Array:
        """Sum of the squared targets, shape (n_targets,)."""
        sums = self._labelled_rows()
        return finite(sums.n, sums.y_mean, sums.y_mean, add=sums.y_squares)

    def _labelled_rows(self) -> CentredSums:
        return self._labelled or CentredSums.zeros(self.n_features, self.n_targets)

    def _all_rows(self) -> CentredSums:
        """Return the sums of all rows; they share arrays with these moments."""
        if self._unlabelled is None:
            return self._labelled_rows().without_targets()
        if self._labelled is None:
            return self._unlabelled
        return self._labelled.without_targets().merged(self._unlabelled)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n={self.n}, n_labelled={self.n_labelled}, "
            f"n_features={self.n_features}, n_targets={self.n_targets})"
        )

    # ---- adding --------------------------------------------------------------------------------

    def update(
        self, Z: ArrayLike, Y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a chunk of rows.

        Parameters
        ----------
        Z : {array-like, data frame, sparse matrix} of shape (n_rows, n_features)
            Finite rows. A sparse matrix is made dense 4096 rows at a time. Columns of a frame are
            matched with `feature_names`.
        Y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Finite targets; None where the rows have none.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights, finite and not negative: all sums are of rows times weights. A row of weight 2
            is two equal rows, and a row of weight 0 is left out. None gives each a weight of 1.

        Returns
        -------
        self : Moments
            These moments.

        Raises
        ------
        ValueError
            If shapes do not fit or an entry is not finite (the message names it). Then, and after
            Ctrl-C, nothing has been added.
        """
        before = self.__dict__.copy()
        labelled, unlabelled = self._labelled, self._unlabelled
        # An interrupt may come between any two sums of a block, so they are made in a copy.
        if Y is None:
            self._unlabelled = unlabelled and unlabelled.copy()
        else:
            self._labelled = labelled and labelled.copy()
        try:
            self._add(Z, Y, sample_weight)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _add(self, Z: ArrayLike, Y: ArrayLike | None, sample_weight: Any = None) -> None:
        """Add a chunk in place: on an interrupt part of it may have been added."""
        names = ColumnNames(self.feature_names)
        Z = matrix(names.matched(Z, "Z"))
        if Z.shape[1] != self.n_features:
            raise ValueError(
                f"Z has {Z.shape[1]} columns, but the moments have {self.n_features}: give the "
                "same columns in the same order."
            )
        targets = np.zeros((Z.shape[0], 0)) if Y is None else self._check_targets(Y, Z.shape[0])
        weights = counted_weights(sample_weight, Z.shape[0])
        kind = "_unlabelled" if Y is None else "_labelled"
        sums = getattr(self, kind)
        if sums is None:
            sums = CentredSums.zeros(self.n_features, targets.shape[1])
        try:
            sums.add_rows(Z, targets, weights)
        except FloatingPointError:
            checked(Z)
            raise ValueError(OVERFLOW) from None
        setattr(self, kind, sums)
        self.feature_names = names.known
        self.n_chunks += 1

    def _check_targets(self, Y: ArrayLike, n_rows: int) -> Array:
        Y = np.asarray(Y)
        # In rows: the order in which a column is summed depends on the layout.
        targets: Array = checked(Y[:, None] if Y.ndim == 1 else Y, "Y").astype(
            np.float64, order="C"
        )
        if targets.shape != (n_rows, self.n_targets) or not self.n_targets:
            raise ValueError(
                f"Y has shape {targets.shape}, but ({n_rows}, {self.n_targets}) is needed: a "
                "target for each row, and as many as n_targets says."
            )
        return targets

    def merge(self, other: Self) -> Self:
        """Return the moments of the rows of both; neither is changed.

        Parameters
        ----------
        other : Moments
            Moments with the same columns, targets and feature map. Columns that have names in both
            may be in any order.

        Returns
        -------
        merged : Moments
            New moments, the same bits for ``a.merge(b)`` and ``b.merge(a)`` where the columns have
            the same order; else they have that of ``a``.

        Raises
        ------
        ValueError
            If the two do not belong together.
        """
        other = self._matched(other)
        names = self.feature_names or other.feature_names
        result = self._like_these(names)
        result.n_chunks = self.n_chunks + other.n_chunks
        for kind in ("_labelled", "_unlabelled"):
            parts = [part for part in (getattr(self, kind), getattr(other, kind)) if part]
            if parts:
                merged = parts[0].merged(parts[1]) if len(parts) == 2 else parts[0].copy()
                setattr(result, kind, merged)
        return result

    def __add__(self, other: object) -> Self:
        return self.merge(other) if isinstance(other, type(self)) else NotImplemented

    def remove(
        self, Z: ArrayLike, Y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Take a chunk of rows away that `update` has added.

        Parameters
        ----------
        Z : {array-like, data frame, sparse matrix} of shape (n_rows, n_features)
            The rows, as `update` takes them.
        Y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Their targets; None where they had none.
        sample_weight : array-like of shape (n_rows,), default=None
            Their weights.

        Returns
        -------
        self : Moments
            These moments.

        Raises
        ------
        ValueError
            As `update` and `subtract`; then nothing has been taken away.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.streaming import Moments
        >>> Z = np.random.default_rng(0).random((300, 4))
        >>> Moments.of(Z).remove(Z[:100]).n
        200
        """
        rows = self._like_these(self.feature_names).update(Z, Y, sample_weight)
        self.__dict__ = self.subtract(rows).__dict__
        return self

    def subtract(self, other: Self) -> Self:
        """Return the moments of the rows that are not in `other`; neither is changed.

        What chunks have left is as exact as the sums that they were in: of rows whose squares are a
        small part of those of all, digits are lost.

        Parameters
        ----------
        other : Moments
            Moments of some of these rows, with the same columns, targets and feature map.

        Returns
        -------
        rest : Moments
            New moments.

        Raises
        ------
        ValueError
            If the two do not belong together, or `other` has rows that are not among these, as far
            as counts and sums of squares tell.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.streaming import Moments
        >>> days = np.random.default_rng(0).random((3, 100, 4))
        >>> first, *others = (Moments.of(day) for day in days)
        >>> (first + others[0] + others[1] - first).n
        200
        """
        other = self._matched(other)
        rest = self._like_these(self.feature_names)
        rest.n_chunks = max(0, self.n_chunks - other.n_chunks)
        for kind in ("_labelled", "_unlabelled"):
            own, removed = getattr(self, kind), getattr(other, kind)
            if removed and removed.n and not own:
                raise ValueError(
                    f"cannot subtract {removed.n} {kind[1:]} rows from none: subtract rows that "
                    "were added."
                )
            if own:
                setattr(rest, kind, own.without(removed) if removed else own.copy())
        return rest

    def __sub__(self, other: object) -> Self:
        return self.subtract(other) if isinstance(other, type(self)) else NotImplemented

    def _choose_targets(self, of_columns: NDArray[Any]) -> None:
        """Take these targets, in place; column -1 is a new one, which was -1 in all rows."""
        self.n_targets = len(of_columns)
        if self._labelled is not None:
            self._labelled = self._labelled.with_targets(of_columns.astype(np.intp), -1.0)

    def _like_these(self, names: Sequence[str] | None) -> Self:
        return type(self)(self.n_features, self.n_targets, digest=self.digest, feature_names=names)

    def _matched(self, other: Self, name: str = "other") -> Self:
        """Return moments that belong to these, with their columns in the order of these."""
        order = None
        if self.feature_names is not None and other.feature_names is not None:
            order = order_of(other.feature_names, self.feature_names, name, "these moments")
        self._check_same(other.n_features, other.n_targets, other.digest, name)
        if order is None:
            return other
        matched = self._like_these(self.feature_names)
        matched.n_chunks = other.n_chunks
        for kind, sums in other._kinds().items():
            setattr(matched, f"_{kind}", sums.ordered(order))
        return matched

    def _check_same(self, n_features: int, n_targets: int, digest: str, name: str) -> None:
        if (n_features, n_targets) != (self.n_features, self.n_targets):
            raise ValueError(
                f"{name} has {n_features} features and {n_targets} targets, but "
                f"{self.n_features} and {self.n_targets} are needed."
            )
        if digest != self.digest:
            raise ValueError(
                f"{name} is from another feature map: its digest is {digest!r}, but "
                f"{self.digest!r} is needed."
            )

    def _kinds(self) -> dict[str, CentredSums]:
        kinds = {"labelled": self._labelled, "unlabelled": self._unlabelled}
        return {kind: sums for kind, sums in kinds.items() if sums is not None}

    # ---- files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the moments to a file, without pickle and with a checksum.

        The file is written beside its place and moved there when it is complete, so that a
        process killed at any time leaves the old file or the new one.

        Parameters
        ----------
        path : path-like
            The file. Moments of other features, targets or another map are not overwritten, nor
            is a file of anything else. A link stays a link, and the mode of a file stays.

        Raises
        ------
        ValueError
            If there is another file: damaged, or of moments that do not belong to these.
        """
        self._write(Path(path))

    def _write(self, path: Path, **extra: Any) -> None:
        header = {
            "n_features": self.n_features,
            "n_targets": self.n_targets,
            "digest": self.digest,
            "feature_names": self.feature_names,
            "n_chunks": self.n_chunks,
            "n": {kind: sums.n for kind, sums in self._kinds().items()},
            "n_rows": {kind: sums.n_rows for kind, sums in self._kinds().items()},
            **extra,
        }
        arrays = {
            f"{kind}.{part}": getattr(sums, part)
            for kind, sums in self._kinds().items()
            for part in _PARTS
        }
        _archive.write(path, header, arrays, _KIND, self._check_file)

    def _check_file(self, path: Path) -> None:
        """Refuse to replace a file of anything but moments that belong to these."""
        self._matched(self._read(path)[0], str(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Moments:
        """Read moments that `save` wrote, with the same bits.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        moments : Moments
            The moments.

        Raises
        ------
        ValueError
            If the file is damaged or something else.
        """
        return cls._read(Path(path))[0]

    @classmethod
    def _read(cls, path: Path) -> tuple[Moments, dict[str, Any]]:
        with _archive.opened(path, _KIND) as (header, arrays):
            counts = [header[name] for name in ("n_features", "n_targets", "n_chunks")]
            _archive.require(
                all(map(_archive.is_count, counts)) and isinstance(header["digest"], str),
                "its header is not that of moments",
            )
            _archive.require(
                all(array.dtype == np.float64 for array in arrays.values()),
                "its sums are not those of rows",
            )
            names = header["feature_names"]
            _archive.require(
                names is None or _are_names(names, counts[0]), "its names are not those of columns"
            )
            moments = cls(*counts[:2], digest=header["digest"], feature_names=names)
            moments.n_chunks = counts[2]
            for kind, n in header["n"].items():
                parts = {part: arrays.pop(f"{kind}.{part}") for part in _PARTS}
                n_targets = moments.n_targets if kind == "labelled" else 0
                sums = CentredSums.stored(
                    n, header["n_rows"][kind], moments.n_features, n_targets, parts
                )
                _archive.require(sums is not None, "its sums are not those of rows")
                setattr(moments, {"labelled": "_labelled", "unlabelled": "_unlabelled"}[kind], sums)
            _archive.require(not arrays, "it has arrays of no use")
            checksums = header.get("checksums")
            _archive.require(
                checksums is None
                or (len(checksums) == moments.n_chunks and all(map(_archive.is_count, checksums))),
                "its checksums are not those of chunks",
            )
        return moments, header

    # ---- whole data sets -----------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        rows: Rows,
        Y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        feature_map: BaseEstimator | None = None,
        chunk_size: int = CHUNK_SIZE,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 16,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Moments:
        """Return the moments of a data set that need not fit in memory.

        Parameters
        ----------
        rows : {ndarray, memmap, DataFrame, LazyFrame, sparse matrix, dask array, path, iterable}
            The rows. A path names an .npy file, an .npz file, which is read whole, or a table. A
            table is a Parquet file or a CSV file with a line of names (both need pyarrow), a folder
            of such files, or a pattern like ``"day-*.csv"``. A list of such paths is one table, and
            so is a lazy frame of polars. An iterable yields chunks ``Z``, or pairs ``(Z, Y)`` where
            `Y` may be None, or triples ``(Z, Y, sample_weight)``. The partitions of a dask array
            are reduced where they lie, and merged.
        {Y}
        sample_weight : {array-like of shape (n_rows,), str}, default=None
            Weights of the rows, as `update` takes them; for a table, the name of a column or an
            array. An iterable of chunks has weights in its triples instead.
        feature_map : estimator, default=None
            A fitted transformer, applied to a chunk at a time; its digest is kept.
        {chunk_size}
        checkpoint : path-like, default=None
            A file for the moments so far. If it exists, its chunks are not added again. A run that
            was killed goes on from the last writing of the file, and gives the same bits as an
            uninterrupted run. `rows` must yield the same chunks again. The file holds a checksum of
            the rows and targets of each chunk, and chunks are compared with it as they are read.
            After the last chunk the file holds the result, for `load`.
        checkpoint_every : int, default=16
            Chunks from one writing of the file to the next.
        n_jobs : int or None, default=None
            Threads of BLAS; None leaves them as they are. Their number may change the last bits.
        verbose : int, default=0
            1 shows progress, with tqdm where it is installed; dask shows its own.

        Returns
        -------
        moments : Moments
            The moments of all rows.

        Raises
        ------
        ValueError
            If there are no rows, shapes differ, or an entry is not finite. Also if the checkpoint
            is damaged, has another chunk size, or was made of other rows, targets or another map.
            It is then not overwritten.
        ImportError
            For a Parquet or CSV file without pyarrow.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.kernel_approximation import ExpChi2Sampler
        >>> from histrs.streaming import Moments
        >>> X = np.random.default_rng(0).dirichlet(np.ones(20), size=5000)
        >>> sampler = ExpChi2Sampler(n_components=50, random_state=0).fit(X)
        >>> Moments.of(X, X[:, 0], feature_map=sampler)
        Moments(n=5000, n_labelled=5000, n_features=50, n_targets=1)
        """
        if checkpoint_every < 1:
            raise ValueError(f"checkpoint_every = {checkpoint_every}: must be at least 1.")
        name = "" if feature_map is None else digest_of(feature_map)
        source = RowSource(
            *(rows, Y, feature_map, sample_weight),
            chunk_size=chunk_size,
            n_jobs=n_jobs,
            verbose=verbose,
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )
        return cls._gathered(source, name, checkpoint_every)

    @classmethod
    def _gathered(cls, source: RowSource, name: str = "", checkpoint_every: int = 16) -> Moments:
        """Return the moments of a source, on this machine or on a cluster."""
        if not source.reader.is_distributed:
            return cls._of(source, name, checkpoint_every)
        if source.checkpoint is not None:
            raise ValueError("checkpoint is for one process: a cluster recomputes what it loses.")
        moments: Moments = reduced(source, partial(_of_partition, name))[0]
        return moments

    @classmethod
    def _of(cls, source: RowSource, name: str, checkpoint_every: int) -> Moments:
        """Make one pass, and go on with the file if there is one."""
        path = source.checkpoint
        moments, consumed = cls._resumed(path, source.chunk_size, name)
        if moments and source.feature_map is None:
            source.names.known = moments.feature_names
        saved = moments.n_chunks if moments else 0
        for number, chunk in enumerate(source.chunks("moments", consumed), saved):
            with in_chunk(number, source):
                moments = cls._begin(moments, *chunk[:2], name, path)
                moments._add(*chunk)
                moments.feature_names = source.feature_names
            if moments.n_chunks - saved == checkpoint_every:
                moments._write_checkpoint(path, source.chunk_size, consumed)
                saved = moments.n_chunks
        if moments is None:
            raise ValueError("there are no rows: moments need at least one chunk.")
        if moments.n_chunks > saved:
            moments._write_checkpoint(path, source.chunk_size, consumed)
        return moments

    def _write_checkpoint(
        self, path: Path | None, chunk_size: int, consumed: Consumed | None
    ) -> None:
        if path is not None and consumed is not None:
            self._write(path, chunk_size=chunk_size, checksums=consumed.checksums)

    @classmethod
    def _resumed(
        cls, path: Path | None, chunk_size: int, name: str
    ) -> tuple[Moments | None, Consumed | None]:
        """Return the moments of a checkpoint, and what the rows must be to go on with it."""
        if path is None:
            return None, None
        if not path.exists():
            return None, Consumed()
        moments, header = cls._read(path)
        checksums = header.get("checksums")
        if checksums is None:
            raise ValueError(
                f"{path} was written by `save`, and does not say which rows its moments have: give "
                f"another checkpoint, or add rows with Moments.load({str(path)!r}).update(rows)."
            )
        if header.get("chunk_size") != chunk_size:
            raise ValueError(
                f"{path} was not written with chunk_size = {chunk_size}; go on with the same, "
                "or delete it to begin again."
            )
        moments._check_same(moments.n_features, moments.n_targets, name, str(path))
        return moments, Consumed(checksums, moments.n, path)

    @classmethod
    def _like(cls, Z: Any, Y: Any, digest: str = "") -> Moments:
        """Return moments of no rows, to which the chunk can be added."""
        return cls(n_columns(Z), _n_targets(Y), digest=digest)

    @classmethod
    def _begin(
        cls, moments: Moments | None, Z: Any, Y: Any, digest: str, path: Path | None
    ) -> Moments:
        """Return moments that the chunk can be added to."""
        if moments is None:
            return cls._like(Z, Y, digest)
        n_targets = moments.n_targets if Y is None else _n_targets(Y)
        if not moments.n_labelled:
            moments.n_targets = n_targets
        moments._check_same(n_columns(Z), n_targets, digest, str(path or "the chunk"))
        return moments


def moments_of(source: RowSource) -> Moments:
    """Return the moments of the first pass of a model, which names its feature map in a file."""
    is_named = source.checkpoint is not None and source.feature_map is not None
    return Moments._gathered(source, digest_of(source.feature_map) if is_named else "")


def _n_targets(Y: Any) -> int:
    return 0 if Y is None else 1 if np.ndim(Y) == 1 else int(np.shape(Y)[1])


def _are_names(names: Any, n_features: int) -> bool:
    return (
        isinstance(names, list)
        and len(names) == n_features
        and all(isinstance(name, str) for name in names)
    )


def _of_partition(name: str, source: RowSource) -> list[Moments]:
    return [Moments._of(source, name, 1)]
