"""How a Gaussian process learns classes: as numbers, with a calibration."""

from __future__ import annotations

from numbers import Number
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted, column_or_1d

from histrs._calibration import Readout, fit_calibration
from histrs._dask import in_memory
from histrs._docs import documented
from histrs._labels import best_class, checked_labels, index_of_best
from histrs._row_weights import (
    ClassWeight,
    check_weights,
    refuse_balanced,
    times_class_weights,
    weighs_nothing,
)
from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices
from histrs._validation import Matrix
from histrs.gaussian_process._docs import CLASSIFICATION_FIT
from histrs.gaussian_process._given_rows import GivenRows
from histrs.gaussian_process._leave_one_out import held_out, leave_one_out
from histrs.gaussian_process._online import left_over, rows_to_forget
from histrs.gaussian_process._process import AnyPosterior, GaussianProcess
from histrs.gaussian_process._state import replaced_whole


class ClassificationLearning(GaussianProcess):
    """Learns classes as targets that are numbers, and what makes probabilities of them."""

    calibration: Literal["leave-one-out"] | None
    class_weight: ClassWeight = None
    _declared_classes: NDArray[Any] | None
    _calibration: Readout | None
    """None for rows that came or went since; not there without a calibration."""

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(CLASSIFICATION_FIT)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model; when it raises, the estimator is as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.
        y : array-like of shape (n_samples,)
            Class labels.
        {sample_weight}

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an entry of `X` is negative, NaN or infinite (the message names it), the lengths
            differ, a weight is negative or not finite, or fewer than two classes have one.
        """
        with replaced_whole(self) as draft:
            draft._fit_classes(*draft._weighted(X, y, sample_weight, reset=True), None)
        return self

    def _fit_classes(
        self,
        X: Any,
        labels: NDArray[Any],
        weights: Array | None,
        copies: Array | None,
        declared: ArrayLike | None,
    ) -> None:
        """Fit checked rows, labels and weights."""
        self._declared_classes = None
        self.__dict__.pop("_calibration", None)
        self._declare(declared, labels, known=[])
        self._set_classes(labels)
        distinct = self._distinct(X, labels, weights, copies)
        self._stays = distinct.stays
        X, labels = distinct.rows(X, labels)
        self._keep_first_weights(distinct.weights)
        X = self._coordinates(X, distinct.weights, reset=True)
        self._fit_targets(X, self._targets(labels), shared=True)
        self._given = GivenRows.of(distinct.groups, weights)

    def _weighted(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> tuple[Any, NDArray[Any], Array | None, Array | None]:
        """Return the rows that have a weight, their labels and weights, without classes' too."""
        y, sample_weight = in_memory(y), in_memory(sample_weight)
        checked = self._rows_to_fit(X, y, reset=reset)
        labels = checked_labels(checked[1])
        given = check_weights(sample_weight, labels)
        given = times_class_weights(given, self.class_weight, *given.rows(labels))
        X, _ = self._rows_with_weight(given, (X, y), checked, reset=reset)
        return X, *given.rows(labels), given.weights, given.copies

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(CLASSIFICATION_FIT)
    def partial_fit(
        self,
        X: ArrayLike | Matrix,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows, of known and of new classes; when it raises, the estimator is as it was.

        The first call on an estimator without data is `fit`, hyper-parameters included. Later
        calls keep the hyper-parameters, and their posterior is that of a fit on all rows with
        these, to the tolerance of the solver. They merge the sorted columns, carry the Cholesky
        factor or the preconditioner over, and start from the weights that there are. The
        calibration is learned anew when it is asked for next.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite. They come behind the rows of earlier calls.
        y : array-like of shape (n_samples,)
            Class labels.
        {classes}
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, as those of the fit were; 1 by default.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`; if `X` has other columns than the data before; if labels are neither in
            `classes` nor known, or of another type; with ``class_weight="balanced"``, which asks
            for all rows at once.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from histrs.gaussian_process import IntersectionGPClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = IntersectionGPClassifier().fit(X[:200], y[:200])
        >>> before = model.score(X[1000:], y[1000:])
        >>> model.partial_fit(X[200:400], y[200:400]).score(X[1000:], y[1000:]) > before
        True
        """
        if weighs_nothing(sample_weight, X):
            return self
        refuse_balanced(self.class_weight)
        with replaced_whole(self) as draft:
            first = not self.__sklearn_is_fitted__()
            X, labels, weights, copies = draft._weighted(X, y, sample_weight, reset=first)
            if first:
                draft._fit_classes(X, labels, weights, copies, classes)
                return self
            draft._declare(classes, labels, known=[draft.classes_])
            draft._insert_given(X, labels, weights, copies)
        return self

    def _insert(self, X: Any, y: NDArray[Any], weights: Array | None) -> None:
        before = self.classes_, self._class_weights()
        labels = _of_one_type(self._targets_given(), y)
        self._set_classes(labels)
        Y = self._targets(labels)
        start = self._weights_to_start_from(*before)
        start = np.vstack([start, np.zeros((len(y), start.shape[1]))])
        row_scale = self._keep_further_weights(weights, len(y))
        systems = self._systems_with(X, Y.shape[1], row_scale)
        self._solve_targets(_one_an_output(systems, Y.shape[1]), Y, start)

    @_fit_context(prefer_skip_nested_validation=True)
    def forget(self, indices: ArrayLike) -> Self:
        """Remove training rows; when it raises, the estimator is as it was.

        The hyper-parameters stay, and the posterior is that of a fit on the other rows with these,
        to the tolerance of the solver; the calibration is as with `partial_fit`. A class whose
        last row goes is a class no more, unless `partial_fit` was given it in `classes`.

        Parameters
        ----------
        indices : array-like of int
            Which of the rows of positive weight that `fit` and `partial_fit` were given, counted
            from 0, each once. Those behind them move up.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If there is no such row, one is named twice, none would be left, or none of a second
            class.

        Examples
        --------
        >>> from histrs.gaussian_process import IntersectionGPClassifier
        >>> model = IntersectionGPClassifier(optimizer=None)
        >>> model = model.fit([[1, 0], [0, 1], [9, 9]], ["left", "right", "a mistake"])
        >>> model.forget([2]).classes_.tolist()
        ['left', 'right']
        """
        check_is_fitted(self)
        with replaced_whole(self) as draft:
            removed = rows_to_forget(indices, len(draft._given.learned))
            if len(removed) > 0:
                draft._remove_given(removed)
        return self

    def _remove(self, removed: Indices) -> None:
        kept = left_over(len(self.Y_fit_), removed)
        before = self.classes_, self._class_weights()[kept]
        labels = self._targets_given()[kept]
        self._set_classes(labels)
        Y = self._targets(labels)
        weights = self._weights_to_start_from(*before)
        self._keep_weights_of(kept)
        systems = self._systems_without(removed, Y.shape[1])
        self._solve_targets(_one_an_output(systems, Y.shape[1]), Y, weights)

    def _targets_given(self) -> NDArray[Any]:
        return best_class(self.Y_fit_, self.classes_)

    def _units(self) -> Array:
        n_classes = len(self.classes_)
        return np.ones(1 if n_classes == 2 else n_classes)

    def _learn_readouts(self, posterior: AnyPosterior, Y: Array) -> dict[str, Readout]:
        if self.calibration is None:
            self.__dict__.pop("_calibration", None)
        elif "_calibration" in self.__dict__:
            # Rows have come or gone. Many may before anybody asks.
            self._calibration = None
        else:
            self._calibration = self._calibrated(posterior, Y)
        return self._readouts(self.__dict__)

    def _calibrated(self, posterior: AnyPosterior, Y: Array) -> Readout:
        """Return what makes logits of the posterior mean, by rows that are left out."""
        labels = index_of_best(Y)
        weights = self.sample_weight_fit_
        if not posterior.is_factorised:
            scores, rows = self._scores_held_out(posterior, Y, labels)
            labels = labels[rows]
            weights = None if weights is None else weights[rows]
        else:
            scores = self._scores_left_out(posterior, Y)
        return fit_calibration(scores, labels, **self._offsets(), weights=weights)

    def _answering(self) -> dict[str, Any]:
        state = self._state()
        posterior = state["_posterior"]
        # Copies share the posterior, and find there what one of them has learned.
        if "decision" not in posterior.readouts:
            found = self._calibrated(posterior, state["Y_fit_"])
            state["_calibration"] = posterior.readouts["decision"] = found
        return state

    @property
    def calibration_(self) -> Readout:
        """What turns posterior means into logits: ``(matrix, offset)``."""
        state = self._answering()
        if "_calibration" not in state:
            raise AttributeError('calibration_ is there after a fit with "leave-one-out".')
        found: Readout = state["_posterior"].readouts["decision"]
        return found

    def _scores_left_out(self, posterior: AnyPosterior, Y: Array) -> Array:
        """Return posterior means of targets, less their level, of each row by a fit without it."""
        return leave_one_out(posterior, Y - self._level(Y), self._stays)[0]

    def _scores_held_out(
        self, posterior: AnyPosterior, Y: Array, labels: NDArray[np.intp]
    ) -> tuple[Array, NDArray[np.int64]]:
        """Return them of some rows by fits without a part of all, and which rows they are."""
        return held_out(posterior, Y - self._level(Y), labels, self._seed)

    def _offsets(self) -> dict[str, Any]:
        """Return what is known of the offsets of the calibration before anything is seen."""
        return {}

    def _readouts(self, state: dict[str, Any]) -> dict[str, Readout]:
        mean = Readout(np.eye(len(self._units())), self._level(state["Y_fit_"]))
        known = state.get("_calibration", mean)
        return {"mean": mean} if known is None else {"mean": mean, "decision": known}

    def _declare(
        self, classes: ArrayLike | None, labels: NDArray[Any], known: list[NDArray[Any]]
    ) -> None:
        """Take note of classes that stay without rows, and refuse labels of others."""
        if classes is None:
            return
        given = np.unique(column_or_1d(classes))
        foreign = np.flatnonzero(~np.isin(_of_one_type(labels), _of_one_type(*known, given)))
        if len(foreign) > 0:
            raise ValueError(
                f"y[{foreign[0]}] = {labels.tolist()[foreign[0]]!r} is neither in classes = "
                f"{given.tolist()} nor known: add it to classes, or leave classes out."
            )
        declared = self._declared_classes
        self._declared_classes = np.unique(
            given if declared is None else _of_one_type(declared, given)
        )

    def _set_classes(self, labels: NDArray[Any]) -> None:
        """Set the classes to those of all rows and those declared."""
        declared = self._declared_classes
        self.classes_ = np.unique(labels if declared is None else _of_one_type(declared, labels))
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes, but y contains "
                f"only one class: {self.classes_.tolist()[0]!r}. Add samples of another one."
            )

    def _targets(self, labels: NDArray[Any]) -> Array:
        """Return +1 for the class of an output and -1 for others; one output for two classes."""
        codes = np.searchsorted(self.classes_, labels)
        n_classes = len(self.classes_)
        positive = codes[:, None] == ([1] if n_classes == 2 else np.arange(n_classes))
        return np.where(positive, 1.0, -1.0)

    def _class_weights(self) -> Array:
        """Return the weights, times amplitude, with a column for every class."""
        weights = self._weights()
        return np.hstack([-weights, weights]) if weights.shape[1] == 1 else weights

    def _weights_to_start_from(self, classes: NDArray[Any], weights: Array) -> Array:
        """Return the weights of the outputs that there are now, from those of earlier classes.

        The targets of n classes add up to 2 - n in every row, and their weights are as linear: so
        much is known of a class that no row has been of.
        """
        n = len(classes)
        of_new = weights.sum(axis=1) / (n - 2) if n > 2 else np.zeros(len(weights))
        known = dict(zip(classes.tolist(), weights.T, strict=True))
        outputs = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return np.column_stack([known.get(label, of_new) for label in outputs.tolist()])


def _one_an_output(systems: tuple[Any, ...], n_outputs: int) -> tuple[Any, ...]:
    """Return as many systems as outputs: classes that are new begin like the last one."""
    if len(systems) in (1, n_outputs):
        return systems
    return tuple(systems[min(k, len(systems) - 1)] for k in range(n_outputs))


def _of_one_type(*labels: NDArray[Any]) -> NDArray[Any]:
    """Return all labels together, unless NumPy would turn numbers into strings."""
    kinds = {_kind(part) for part in labels}
    if len(kinds) > 1:
        raise ValueError(
            f"Labels are {' and '.join(sorted(kinds))}: give them all as one, as in earlier calls."
        )
    return np.concatenate(labels)


def _kind(labels: NDArray[Any]) -> str:
    if labels.dtype.kind in "biuf":
        return "numbers"
    if labels.dtype.kind != "O":
        return "strings"
    types = {
        "strings" if isinstance(x, str) else "numbers" if isinstance(x, Number) else "objects"
        for x in labels
    }
    return types.pop() if len(types) == 1 else "objects"
