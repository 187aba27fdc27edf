"""What the linear models of moments have in common."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from histrs._validation import Matrix, unchanged_on_error
from histrs.streaming._moments import Moments
from histrs.streaming._rows import ROW_CHECKS
from histrs.streaming._sums import Array


class LinearModel(BaseEstimator):
    """Coefficients of the features and intercepts."""

    coef_: Array
    intercept_: Array | float

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the model."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _scores(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **ROW_CHECKS)
        return np.asarray(X @ self.coef_.T + self.intercept_)


class MomentRegressor(MultiOutputMixin, RegressorMixin, LinearModel):
    """Regression from rows or from their moments."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | Matrix, y: ArrayLike) -> Self:
        """Learn from rows; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            At least two finite rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        ValueError
            If the data are not as above, or a parameter does not fit them.
        """
        with unchanged_on_error(self):
            X, y = validate_data(
                self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=2, **ROW_CHECKS
            )
            Y = np.asarray(y, dtype=np.float64)
            self._learn_rows(X, Y[:, None] if Y.ndim == 1 else Y)
            if Y.ndim == 1:
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
            The fitted model. With one target its attributes are those of a fit to 1D `y`.

        Raises
        ------
        ValueError
            If there are no targets, or a parameter does not fit the moments or needs the rows.
        """
        with unchanged_on_error(self):
            self.n_features_in_ = moments.n_features
            self._learn(moments)
            if moments.n_targets == 1:
                self._drop_target_axis()
        return self

    def predict(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            ``X @ coef_.T + intercept_``.
        """
        return self._scores(X)

    def _learn_rows(self, X: Any, Y: Array) -> None:
        self._learn(Moments(X.shape[1], Y.shape[1]).update(X, Y))

    def _learn(self, moments: Moments) -> None:
        """Set the coefficients of all targets, `coef_` of shape (n_targets, n_features)."""
        raise NotImplementedError

    def _drop_target_axis(self) -> None:
        self.coef_, self.intercept_ = self.coef_[0], float(np.ravel(self.intercept_)[0])


def check_labelled(moments: Moments) -> None:
    """Refuse moments of fewer than two rows, or without targets."""
    if not moments.n_labelled or moments.n < 2:
        raise ValueError(
            f"n_samples = {moments.n}, {moments.n_labelled} with targets: two rows or more, "
            "and a target, are needed."
        )
