"""Sums of rows and of their products, about the mean: added to, merged and taken from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from histrs._frames import order_of
from histrs._typing import Array
from histrs.streaming._names import ColumnNames
from histrs.streaming._rows import check_finite, checked, matrix
from histrs.streaming._sums import OVERFLOW, CentredSums, finite, full
from histrs.streaming._weights import counted_weights


class MomentSums:
    """The sums of labelled and of unlabelled rows, and what is known from them."""

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
                f"n_features = {n_features}, n_targets = {n_targets}: rows need a column."
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
            is two equal rows, one of weight 0 is not there; None gives each a weight of 1.

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
                f"Z has {Z.shape[1]} columns, but these are moments of {self.n_features}."
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
            check_finite(Z)
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

    def remove(self, other: Self) -> Self:
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
                raise ValueError(f"{removed.n} rows of a kind that there is none of.")
            if own:
                setattr(rest, kind, own.without(removed) if removed else own.copy())
        return rest

    def __sub__(self, other: object) -> Self:
        return self.remove(other) if isinstance(other, type(self)) else NotImplemented

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
