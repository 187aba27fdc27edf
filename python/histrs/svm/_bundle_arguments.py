"""What a `BundleSVC` learns from: rows, features or codes, in memory or on workers, and a map."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._checks.scale import check_squares, exponent_of
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    canonical,
    count_threads,
    to_core,
    validate_data,
    validate_fit,
)
from histrs._distributed.rows import in_memory, is_dask, stand_in_to_fit
from histrs._estimator import BaseEstimator
from histrs._repeats import distinct_rows
from histrs._typing import Array
from histrs._weights import check_labels, classes_of, positive_weights
from histrs.quantization import ProductQuantizer
from histrs.svm._composition import last_map
from histrs.svm._distributed import DaskRows
from histrs.svm._feature_rows import rows_of
from histrs.svm._rows import Rows, RowsWithIntercept


class BundleArguments(BaseEstimator):
    """Checks parameters and data, and makes the rows of the problem of them."""

    feature_map: Any
    feature_map_: Any
    classes_: NDArray[Any]
    alphas: ArrayLike | None
    loss: Literal["hinge", "squared_hinge", "logistic"]
    input: Literal["rows", "features"]
    solver: Literal["bundle", "pegasos"]
    expansion: Literal["delayed", "immediate"]
    fit_intercept: bool
    intercept_scaling: float
    warm_start: bool
    n_jobs: int | None

    def _check_training(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, NDArray[Any], Array, tuple[NDArray[Any], NDArray[np.intp]]]:
        """Return distinct rows, their labels and weights, and labels and places of those given."""
        self._check_parameters()
        given, distributed = X, is_dask(X)
        if distributed:
            self._check_supported_of_dask()
            X, y, sample_weight = stand_in_to_fit(X), in_memory(y), in_memory(sample_weight)
        if self._takes_codes():
            X, y = validate_data(self, X, y, dtype=None)
        else:
            X, y = validate_fit(self, X, y)
        if not distributed:
            X = self._check_entries(X, self.feature_map)
        check_labels(y)
        labels = y
        weight = positive_weights(sample_weight, len(y))
        used = weight > 0.0
        if distributed:
            X, y, weight = DaskRows(given, np.flatnonzero(used)), y[used], weight[used]
        elif not used.all():
            X, y, weight = X[used], y[used], weight[used]
        self.classes_ = classes_of(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class, {self.classes_.tolist()[0]!r}: the number of classes has to "
                "be greater than one."
            )
        # Which of the rows that are kept each of the given ones is.
        place = np.full(len(used), -1, dtype=np.intp)
        place[used] = np.arange(len(y))
        if not distributed:
            alike = np.ptp(weight) == 0.0
            codes = np.searchsorted(self.classes_, y)
            distinct = distinct_rows(X, codes, None if alike else weight)
            X, y = distinct.rows(X, y)
            place[used] = distinct.groups
            weight = np.ones(len(y)) if distinct.weights is None else distinct.weights
        # Only their proportions count: in units of the largest no sum overflows.
        weight = np.ldexp(weight, -exponent_of(weight))
        return X, y, weight, (labels, place)

    def _check_parameters(self) -> None:
        if self.solver == "pegasos" and (self.alphas is not None or self.warm_start):
            raise ValueError('alphas and warm_start are for solver = "bundle".')
        if self.solver == "pegasos" and self.loss == "squared_hinge":
            raise ValueError(
                'solver = "pegasos" does not converge for loss = "squared_hinge", whose slope has '
                'no bound: use solver = "bundle".'
            )
        quantizer = last_map(self.feature_map)
        if self.expansion == "immediate" and not (
            isinstance(quantizer, ProductQuantizer) and quantizer.metric != "intersection"
        ):
            raise ValueError(
                'expansion = "immediate" is for a ProductQuantizer whose metric is not '
                '"intersection": use expansion = "delayed".'
            )

    def _quantizer(self) -> Any:
        """Return the map as it was given, without the wrapper that keeps it fitted."""
        given = self.feature_map
        return given.estimator if isinstance(given, FrozenEstimator) else given

    def _takes_codes(self) -> bool:
        return self.input == "features" and isinstance(last_map(self.feature_map), ProductQuantizer)

    def _check_supported_of_dask(self) -> None:
        if self.solver == "pegasos":
            raise ValueError(
                'solver = "pegasos" goes without dask arrays, whose rows lie apart: use solver = '
                '"bundle".'
            )
        fitted = isinstance(self.feature_map, FrozenEstimator) or self.input == "features"
        goes_on = self.warm_start and hasattr(self, "_warm")
        if self.feature_map is not None and not (fitted or goes_on):
            raise ValueError(
                "A feature map is not fitted to a dask array: fit it to some of the rows, and give "
                "sklearn.frozen.FrozenEstimator(feature_map)."
            )

    def _check_rows(self, X: Any) -> Any:
        checks = {"dtype": None} if self._takes_codes() else HISTOGRAM_CHECKS
        X = validate_data(self, X, reset=False, **checks)
        return self._check_entries(X, self.feature_map_)

    def _check_entries(self, X: Any, feature_map: Any) -> Any:
        """Return rows as the map takes them, once every entry has been looked at."""
        if self._takes_codes():
            return last_map(feature_map).check_codes(X)
        X = canonical(X)
        _histrs.check_finite(to_core(X), count_threads(self.n_jobs))
        return X

    def _fit_map(self, X: Any) -> None:
        given = self._quantizer()
        if given is None:
            self.feature_map_ = None
        elif self.input == "features" or isinstance(self.feature_map, FrozenEstimator):
            check_is_fitted(given)
            self.feature_map_ = given
        else:
            self.feature_map_ = clone(given).fit(X)

    def _features(self, X: Any) -> Any:
        if self.feature_map_ is None or self.input == "features":
            check_squares(X)
            return X
        return self.feature_map_.transform(X)

    def _rows(self, features: Any) -> Rows:
        n_threads = count_threads(self.n_jobs)
        rows = rows_of(self.feature_map_, features, self.expansion, n_threads)
        return (
            RowsWithIntercept(rows, float(self.intercept_scaling)) if self.fit_intercept else rows
        )
