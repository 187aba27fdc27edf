"""Models from files, which the crate serves here as it does without Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from histrs import _archive, _histrs
from histrs._checks.validation import count_threads, validate_columns, validate_data
from histrs._estimator import BaseEstimator
from histrs._frames import columns_of, frame_of, is_table
from histrs._typing import Array
from histrs._weights import best_class
from histrs.gaussian_process._posterior.parts import KIND
from histrs.gaussian_process._tabular.table import Table

# Rows of a sparse matrix that are made dense at a time.
_ROWS = 1024


class SavedModel(BaseEstimator):
    """A fitted model from a file: it predicts.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where they have some.
    classes_ : ndarray of shape (n_classes,), or None
        Labels in the order of the probabilities; None for a regression.
    """

    n_features_in_: int
    classes_: NDArray[Any] | None
    _is_vector: bool
    _table: Table | None
    """What columns hold, of a model for tables."""
    _content: bytes
    """Of the file, of which the object of the core is made again when it is unpickled."""
    _core: _histrs.Model

    @classmethod
    def _described(cls, header: dict[str, Any]) -> Self:
        model = cls()
        model._is_vector = bool(header["is_vector"])
        model._table = None
        if header["categories"] is not None:
            found = {
                place: np.array(categories, dtype=object)
                for place, categories in enumerate(header["categories"])
                if categories is not None
            }
            model._table = Table(tuple(header["kinds"]), found)
        model.n_features_in_ = header["n_features"]
        if header["names"] is not None:
            model.feature_names_in_ = np.array(header["names"], dtype=object)
        model.classes_ = None
        if header["classes"] is not None:
            is_object = header["dtype"] == "object"
            model.classes_ = np.array(header["classes"], dtype=object if is_object else None)
        return model

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict targets or labels, as the model that was saved.

        Parameters
        ----------
        X : {array-like, data frame, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        targets : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Means, or the most probable classes.
        """
        scores = self._of_rows(self._core.predict, X)
        if self.classes_ is not None:
            return best_class(scores, self.classes_)
        return scores[:, 0] if self._is_vector else scores

    @available_if(lambda model: model.classes_ is not None)
    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities, as the model that was saved.

        Parameters
        ----------
        X : {array-like, data frame, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.
        """
        return self._of_rows(self._core.predict_proba, X)

    def _of_rows(self, ask: Any, X: Any) -> Array:
        rows, n_threads = self._numbers(X), count_threads(None)
        if isinstance(rows, np.ndarray):
            found: Array = ask(rows, n_threads)
            return found
        blocks = range(0, rows.shape[0], _ROWS)
        return np.concatenate([ask(rows[i : i + _ROWS].toarray(), n_threads) for i in blocks])

    def _numbers(self, X: Any) -> Any:
        """Return rows as numbers, of which categories are codes, or a sparse matrix."""
        table = self._table
        if table is None or (table.is_of_numbers and not is_table(X)):
            checks: dict[str, Any] = {"dtype": [np.float64, np.float32], "accept_sparse": "csr"}
            return validate_data(self, X, reset=False, ensure_all_finite="allow-nan", **checks)
        if frame_of(X) is None:
            X = validate_data(self, X, reset=False, dtype=object, ensure_all_finite=False)
        else:
            validate_columns(self, X, reset=False)
        parts = table.read(columns_of(X))
        rows = np.empty((len(parts[0]), self.n_features_in_))
        rows[:, table.order] = np.hstack(parts)
        return rows

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the object of the core."""
        return {k: v for k, v in super().__getstate__().items() if k != "_core"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state, and make that object."""
        super().__setstate__(state)
        self._core = _histrs.Model(self._content)

    def __sklearn_is_fitted__(self) -> bool:
        """Say that it has been fitted."""
        return True


def load(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model that `save` of a fitted Gaussian process wrote, without pickle.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    model : SavedModel
        It has `predict`, and for classes `predict_proba`, but no other method of the model.

    Raises
    ------
    ValueError
        If the file is damaged, or holds no saved Gaussian process.

    Examples
    --------
    >>> import tempfile
    >>> import histrs
    >>> from histrs.gaussian_process import IntersectionGPClassifier
    >>> model = IntersectionGPClassifier().fit([[1.0], [2.0], [8.0], [9.0]], [0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model")
    ...     saved = histrs.load(f"{folder}/model")
    >>> saved.predict([[1.5], [8.5]])
    array([0, 1])
    """
    path = Path(path)
    with _archive.opened(path, KIND) as (header, _):
        model = SavedModel._described(header)
    content = path.read_bytes()
    model.__setstate__(vars(model) | {"_content": content})
    return model
