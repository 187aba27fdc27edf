"""What the linear models of moments have in common."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import base
from sklearn.base import MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.metrics import r2_score
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from histrs._checks.rows import in_row_blocks
from histrs._checks.validation import unchanged_on_error, validate_data
from histrs._distributed.rows import is_dask
from histrs._estimator import BaseEstimator, documented
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs._weights import weighs_nothing
from histrs.streaming._docs import PASSES
from histrs.streaming._moments import Moments, moments_of
from histrs.streaming._names import ColumnNames
from histrs.streaming._readers import given, is_stream
from histrs.streaming._rows import ROW_CHECKS, Rows, names_in, set_n_features
from histrs.streaming._source import CHUNK_SIZE, RowSource, in_chunk
from histrs.streaming._tables import as_table
from histrs.streaming._weights import weights_of


def learns_in_chunks(model: Any) -> bool:
    """Say whether moments are all that a model needs; an AttributeError says what else."""
    if parameter := model._needs_rows():
        raise AttributeError(f"{parameter} needs the rows again: call fit or fit_rows.")
    return True


class LinearModel(BaseEstimator):
    """Coefficients of the features and intercepts."""

    _inputs: ClassVar[dict[str, bool]] = {"sparse": True}
    coef_: Array
    intercept_: Array | float
    moments_: Moments
    n_jobs: int | None
    verbose: int

    def _source(
        self,
        rows: Rows,
        Y: Any,
        weights: Any,
        feature_map: Any = None,
        chunk_size: int = CHUNK_SIZE,
        checkpoint: Any = None,
    ) -> RowSource:
        """Return rows to learn from."""
        source = RowSource(
            *(rows, Y, feature_map, weights),
            chunk_size=chunk_size,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )
        n_features = source.reader.n_features
        if n_features is not None and feature_map is None:
            set_n_features(self, n_features)
        return source

    def _needs_rows(self) -> str:
        """Return the parameter, if any, for which moments are not enough."""
        return ""

    def _sees_first(self) -> bool:
        """Say whether `partial_fit` has seen no rows."""
        return not hasattr(self, "moments_")

    def _checked_part(self, X: Any, y: Any, first: bool, **checks: Any) -> tuple[Any, Any]:
        """Return rows and targets of `partial_fit`; dask arrays stay as they are."""
        if not is_dask(X):
            X, y = validate_data(self, X, y, reset=first, multi_output=True, **ROW_CHECKS, **checks)
        return X, y

    def _see(self, source: RowSource, first: bool) -> Moments:
        """Keep the moments of the rows of `partial_fit`, and return those of all so far.

        Of rows of another fit nothing is known.
        """
        if first and hasattr(self, "coef_"):
            warn(
                "partial_fit begins anew: this model was fitted to rows whose moments it does not "
                "keep. Call fit_moments with the moments of all rows, or partial_fit alone."
            )
        chunk = moments_of(source)
        chunk.feature_names = names_in(self)
        self.moments_ = chunk if first else self.moments_.merge(chunk)
        return self.moments_

    def _forget(self) -> None:
        """Keep no moments: what is fitted next knows nothing of `partial_fit`."""
        if hasattr(self, "moments_"):
            del self.moments_

    def _fit_rows(self, *given: Any) -> None:
        """Learn from rows of any kind, and note the names of the features."""
        self._forget()
        source = self._source(*given)
        self._learn_source(source)
        set_n_features(self, self.coef_.shape[-1], source.feature_names)

    def _fit_moments(self, moments: Moments) -> None:
        """Learn from moments, and note the names of the features."""
        self._forget()
        set_n_features(self, moments.n_features, moments.feature_names)
        self._learn(moments)

    def _learn_source(self, source: RowSource) -> None:
        self._learn(moments_of(source))

    def _learn(self, moments: Moments) -> None:
        """Set the coefficients of all targets, `coef_` of shape (n_targets, n_features)."""
        raise NotImplementedError

    def _scored(
        self, X: Rows, Y: Any, weights: Any, feature_map: base.BaseEstimator | None
    ) -> tuple[NDArray[Any], Any, Any]:
        """Return the scores of rows, their targets and their weights, wherever they are."""
        if not is_stream(X):
            return self._scores(X, feature_map), Y, weights
        parts = list(zip(*self._chunks_scored(X, Y, weights, feature_map), strict=True))
        if not parts:
            raise ValueError("there are no rows: give at least one.")
        return tuple(None if part[0] is None else np.concatenate(part) for part in parts)  # type: ignore[return-value]

    def _chunks_scored(
        self, X: Rows, Y: Any, weights: Any, feature_map: base.BaseEstimator | None
    ) -> Iterator[tuple[NDArray[Any], Any, Any]]:
        check_is_fitted(self)
        names = (
            ColumnNames(names_in(self)) if feature_map is None else ColumnNames.of_map(feature_map)
        )
        table = as_table(X)
        source = RowSource(
            *(X if table is None else table.of(names.known), Y),
            weights=weights,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            names=names,
        )
        for number, (Z, targets, weights_of_chunk) in enumerate(source.chunks("predictions")):
            with in_chunk(number, source), names.quiet():
                yield self._scores(Z, feature_map), targets, weights_of_chunk

    def _scores(
        self, X: ArrayLike | Matrix, feature_map: base.BaseEstimator | None = None
    ) -> NDArray[Any]:
        check_is_fitted(self)
        if is_stream(X):
            return self._scored(X, None, None, feature_map)[0]
        # In single precision a score may be beyond the range: infinity says so.
        with np.errstate(over="ignore", invalid="ignore"):
            scores = (
                self._scores_of_features(X)
                if feature_map is None
                else self._mapped_scores(X, feature_map)
            )
        lost = np.argwhere(np.isnan(scores))
        if len(lost) > 0:
            raise ValueError(
                f"The products of row {lost[0, 0]} of X with the coefficients overflow, and so "
                "does their sum: scale X down."
            )
        return scores

    def _scores_of_features(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        X = validate_data(self, X, reset=False, **ROW_CHECKS)
        return in_row_blocks(
            X, lambda rows: np.asarray(rows @ self.coef_.T + self.intercept_, dtype=X.dtype)
        )

    def _mapped_scores(self, X: Any, feature_map: Any) -> NDArray[Any]:
        """Return the scores of the features of rows, which are never all held."""
        if hasattr(feature_map, "_linear_scores"):
            rows = feature_map._checked(X)
            if feature_map.n_components_ != self.n_features_in_:
                raise ValueError(
                    f"feature_map has {feature_map.n_components_} features, but "
                    f"{type(self).__name__} is expecting {self.n_features_in_} features as input."
                )
            coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
            scores = np.asarray(feature_map._linear_scores(rows, coef, intercept))
            return scores[:, 0] if self.coef_.ndim == 1 else scores
        n_rows = _num_samples(X)
        starts = range(0, max(n_rows, 1), CHUNK_SIZE)
        chunks = (_safe_indexing(X, slice(start, start + CHUNK_SIZE)) for start in starts)
        return np.concatenate(
            [self._scores_of_features(feature_map.transform(chunk)) for chunk in chunks]
        )


@documented(PASSES)
class MomentRegressor(MultiOutputMixin, RegressorMixin, LinearModel):
    """Regression from rows or from their moments."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from rows; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            At least two finite rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        {sample_weight}

        {self}

        Raises
        ------
        ValueError
            If the data are not as above, or a parameter does not fit them.
        """
        with unchanged_on_error(self):
            numbers = partial(np.asarray, dtype=np.float64)
            X, y, sample_weight = given(
                *(self, X, y, sample_weight), made=numbers, multi_output=True, y_numeric=True
            )
            self._forget()
            self._learn_source(self._source(X, y, sample_weight))
            if np.ndim(y) == 1:
                self._drop_target_axis()
        return self

    @available_if(learns_in_chunks)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from more rows, in `moments_`; on an error nothing changes.

        After a fit by another method, which keeps no moments, learning begins anew, with a warning.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows, two or more in the first call.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        {sample_weight}

        Returns
        -------
        self : object
            The model of all rows of `partial_fit`, as `fit_moments` learns it.

        Raises
        ------
        ValueError
            If the data are not as above.
        AttributeError
            If a parameter needs the rows again.
        """
        if weighs_nothing(sample_weight, X):
            return self
        with unchanged_on_error(self):
            first = self._sees_first()
            X, y = self._checked_part(X, y, first, y_numeric=True)
            if not is_dask(X):
                y = np.asarray(y, dtype=np.float64)
                sample_weight = weights_of(sample_weight, len(y))
            self._learn(self._see(self._source(X, y, sample_weight), first))
            if np.ndim(y) == 1:
                self._drop_target_axis()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_rows(
        self,
        rows: Rows,
        Y: Any = None,
        *,
        sample_weight: Any = None,
        feature_map: base.BaseEstimator | None = None,
        chunk_size: int = CHUNK_SIZE,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Learn from rows that need not fit in memory; on an error nothing changes.

        Parameters
        ----------
        {rows}
        {Y}
        {weights_of_rows}
        {feature_map}
        {chunk_size}
        {checkpoint}

        Returns
        -------
        self : object
            The fitted model. With one target, attributes have the shapes of a fit to 1D `y`.

        Raises
        ------
        ValueError
            If there are no rows or targets, shapes differ, an entry is not finite, or a parameter
            does not fit.
        """
        with unchanged_on_error(self):
            self._fit_rows(rows, Y, sample_weight, feature_map, chunk_size, checkpoint)
            if len(self.coef_) == 1:
                self._drop_target_axis()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(self, moments: Moments) -> Self:
        """Learn from moments; on an error nothing changes.

        Parameters
        ----------
        moments : Moments
            Moments of two rows or more, some with targets. Rows without targets contribute to
            principal directions, and to nothing else.

        Returns
        -------
        self : object
            The fitted model. With one target, attributes have the shapes of a fit to 1D `y`.

        Raises
        ------
        ValueError
            If there are no targets, or a parameter does not fit the moments or needs the rows.
        """
        with unchanged_on_error(self):
            self._fit_moments(moments)
            if moments.n_targets == 1:
                self._drop_target_axis()
        return self

    def predict(
        self, X: ArrayLike | Matrix, *, feature_map: base.BaseEstimator | None = None
    ) -> NDArray[Any]:
        """Predict targets.

        Parameters
        ----------
        {rows_to_predict}
        feature_map : estimator, default=None
            The fitted transformer that `fit_rows` was given. It is applied to a chunk at a time, so
            that memory holds few features. Features of an `ExpChi2Sampler` never leave the
            processor's cache.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            ``X @ coef_.T + intercept_``; float32 when `X` is.
        """
        return self._scores(X, feature_map)

    def score(
        self,
        X: ArrayLike | Matrix,
        y: Any = None,
        sample_weight: Any = None,
        *,
        feature_map: base.BaseEstimator | None = None,
    ) -> float:
        """Return the coefficient of determination of predictions.

        Parameters
        ----------
        {rows_to_predict}
        {targets_to_score}
        {weights_to_score}
        {feature_map_of_fit}

        Returns
        -------
        score : float
            :math:`R^2`, a mean over targets.
        """
        predictions, targets, weights = self._scored(X, y, sample_weight, feature_map)
        return float(r2_score(targets, predictions, sample_weight=weights))

    def _drop_target_axis(self) -> None:
        self.coef_, self.intercept_ = self.coef_[0], float(np.ravel(self.intercept_)[0])


def check_labelled(moments: Moments) -> None:
    """Refuse moments of fewer than two rows, or without targets."""
    if not moments.n_labelled or moments.n_rows < 2:
        n_labelled = moments._labelled_rows().n_rows
        raise ValueError(
            f"n_samples = {moments.n_rows}, {n_labelled} with targets: two rows or more, "
            "and a target, are needed."
        )
