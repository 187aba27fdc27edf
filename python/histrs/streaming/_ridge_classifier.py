"""Ridge classification after principal components, from moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if

from histrs._calibration import logits_of_classes
from histrs._checks.validation import unchanged_on_error
from histrs._distributed.rows import is_dask
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs._weights import best_class, classes_of, labels_or_indicator, weighs_nothing
from histrs.streaming._classes import (
    SOFTMAX_ROWS,
    TEMPERATURE_ROWS,
    HighestScores,
    IndicatorTargets,
    SignedTargets,
    inverse_temperature_of,
    logistic_of,
    softmax_of,
)
from histrs.streaming._docs import PASSES, STREAMS
from histrs.streaming._found_classes import moments_of_classes
from histrs.streaming._linear import learns_in_chunks
from histrs.streaming._moments import Moments
from histrs.streaming._path import RidgePath
from histrs.streaming._readers import given
from histrs.streaming._ridge_on_components import RidgeOnComponents
from histrs.streaming._rows import Rows, checked
from histrs.streaming._source import CHUNK_SIZE, RowSource, in_chunk, unchanged
from histrs.streaming._weights import ClassWeights, counted_weights, weights_of


def _unique(labels: Any) -> NDArray[Any]:
    """Return the different labels, in ascending order."""
    if is_dask(labels):
        from dask import array

        labels = array.unique(labels).compute()
    return classes_of(labels)


def _has_probabilities(model: Any) -> bool:
    if hasattr(model, "coef_") and not hasattr(model, "inverse_temperature_"):
        raise AttributeError(
            "probabilities need a second pass over the rows: call fit, or fit_rows with an array, "
            "a path or a list."
        )
    return True


@documented(STREAMS, PASSES)
class PCARidgeClassifier(ClassifierMixin, RidgeOnComponents):
    r"""Classification by `PCARidge` on targets of 1 for the class of a row and -1 for others.

    All classes share one decomposition (section 6 of [1]_). Only the time for
    :math:`Z^T y`, `O(n D c)`, grows with the number `c` of classes.

    Parameters
    ----------
    n_components : int or sequence of int, default=None
        Number of principal components, as in `PCARidge`.
    alphas : "auto", float or array-like of shape (n_alphas,), default="auto"
        Penalties to choose from, as in `PCARidge`.
    selection : {"auto", "loo", "gcv"}, default="auto"
        The squared error that the chosen penalty minimises, as in `PCARidge`.
    blocks : sequence of int, "union" or None, default=None
        Blocks of features with components of their own, as in `PCARidge`.
    calibrate : {"auto", "softmax", "equal-rate"} or None, default="auto"
        "auto" is "softmax" if `fit` or `fit_rows` can read the rows twice and no dask cluster is
        used, and None otherwise. "softmax" turns scores into logits by a matrix and offsets, which
        maximise the likelihood of left-out labels. Predictions change, mostly for the better.
        "equal-rate" shifts the scores of each class until the `calibration_rank`-th highest is the
        same for all (section 7.3 of [1]_ takes the 500th). It suits classes of about the same size,
        and takes one more pass.
    calibration_rank : int, default=None
        The rank; None takes the mean number of rows of a class. A row of weight 2 counts as two.
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of the rows of each class. "balanced" makes all classes weigh the
        same, which needs all rows before the first pass over them. Not for several labels per row.
    n_jobs : int or None, default=None
        Threads of BLAS while rows are read; None leaves them as they are.
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes; with several labels per row, the numbers of the columns of `y`.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts, with the shifts of the calibration.
    inverse_temperature_ : float, or ndarray of shape (n_classes,)
        Factor of the scores before the softmax of probabilities, or before the logistic function
        with several labels per row. It is missing after `fit_moments` and `partial_fit`, and if
        rows cannot be read again.
    score_thresholds_ : ndarray of shape (n_classes,)
        With "equal-rate", the score of each class at the calibration rank, before the shift.
    {alpha_}
    {alphas_}
    {selection_}
    {n_components_}
    {moments_}
    {n_features_in_}
    {feature_names_in_}

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histrs.streaming import PCARidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PCARidgeClassifier(n_components=40).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.85)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RidgeOnComponents._parameter_constraints,
        "calibrate": [StrOptions({"auto", "softmax", "equal-rate"}), None],
        "calibration_rank": [Interval(Integral, 1, None, closed="left"), None],
    }

    classes_: NDArray[Any]
    inverse_temperature_: Any
    _has_labels: bool
    """Whether a row may have several labels."""

    def __init__(
        self,
        n_components: int | Sequence[int] | None = None,
        *,
        alphas: float | Sequence[float] | Literal["auto"] = "auto",
        selection: Literal["auto", "gcv", "loo"] = "auto",
        blocks: Sequence[int] | Literal["union"] | None = None,
        calibrate: Literal["auto", "softmax", "equal-rate"] | None = "auto",
        calibration_rank: int | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_components,
            alphas=alphas,
            selection=selection,
            blocks=blocks,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.calibrate = calibrate
        self.calibration_rank = calibration_rank
        self.class_weight = class_weight

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from rows; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            At least two finite rows. A dask array, with one for `y`, is reduced where it lies.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Classes, two or more; or, where a row may have several labels or none, an indicator: 1
            for each label that it has, 0 for others.
        {sample_weight}

        {self}

        Raises
        ------
        ValueError
            If there is one class, `n_components` is larger than the number of features, or the
            data are not as above.
        """
        with unchanged_on_error(self):
            # A class whose rows have no weight is none.
            X, y, sample_weight = given(
                *(self, X, y, sample_weight),
                made=labels_or_indicator,
                used_only=True,
                multi_output=True,
            )
            self._forget()
            if np.ndim(y) == 2 and not is_dask(y):
                self._set_labels(np.shape(y)[1])
            else:
                self._set_classes(_unique(y))
            self._learn_source(self._source(X, y, sample_weight))
        return self

    @available_if(learns_in_chunks)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike | Matrix,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from more rows, in `moments_`; on an error nothing changes.

        After a fit by another method, which keeps no moments, learning begins anew, with a warning.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows, two or more in the first call.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Classes of the rows, or an indicator of labels as in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes; needed in the first call of a new estimator, unless `y` is an indicator.
        {sample_weight}

        Returns
        -------
        self : PCARidgeClassifier
            The model of all rows of `partial_fit`, as `fit_moments` learns it.

        Raises
        ------
        ValueError
            If a row is of no known class, or the data are not as above.
        AttributeError
            If a parameter needs the rows again.
        """
        if weighs_nothing(sample_weight, X):
            return self
        with unchanged_on_error(self):
            first = self._sees_first()
            X, y = self._checked_part(X, y, first)
            if not is_dask(X):
                y = labels_or_indicator(y)
                sample_weight = weights_of(sample_weight, len(y))
            if np.ndim(y) == 2:
                self._check_labels(y, classes, first)
            elif classes is None:
                # Numbers of labels are no classes.
                if not hasattr(self, "classes_") or self._has_labels:
                    raise ValueError("classes is needed in the first call: give all classes.")
            elif first:
                self._set_classes(classes_of(classes))
            elif not np.array_equal(classes_of(classes), self.classes_):
                raise ValueError(
                    f"classes = {classes!r} are not those of the first call: {self.classes_}."
                )
            self._learn(self._see(self._encoded(self._source(X, y, sample_weight)), first))
            self.__dict__.pop("inverse_temperature_", None)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_rows(
        self,
        rows: Rows,
        Y: Any = None,
        *,
        classes: ArrayLike | None = None,
        sample_weight: Any = None,
        feature_map: BaseEstimator | None = None,
        chunk_size: int = CHUNK_SIZE,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Learn from rows that need not fit in memory; on an error nothing changes.

        Parameters
        ----------
        {rows}
        Y : {array-like of shape (n_rows,), str}, default=None
            Classes of the rows, unless `rows` is an iterable of pairs; for a table, the name of the
            column that holds them, or an array.
        classes : array-like of shape (n_classes,), default=None
            The classes; None finds them in the first pass. They are needed with `blocks`,
            `class_weight` or `checkpoint`, unless `Y` is an array.
        {weights_of_rows}
        {feature_map}
        {chunk_size}
        {checkpoint}

        {self}

        Raises
        ------
        ValueError
            If a row is of no known class, or as `fit` raises.
        """
        with unchanged_on_error(self):
            if classes is not None or not (Y is None or isinstance(Y, str)):
                self._set_classes(_unique(Y if classes is None else classes))
            else:
                self.__dict__.pop("classes_", None)
                self._has_labels = False
                for name, part in (
                    ("blocks", self.blocks),
                    ("class_weight", self.class_weight),
                    ("checkpoint", checkpoint),
                ):
                    if part is not None:
                        raise ValueError(
                            f"classes is needed with {name}, unless Y is an array: give all."
                        )
            self._fit_rows(rows, Y, sample_weight, feature_map, chunk_size, checkpoint)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(
        self, moments: Moments, classes: ArrayLike, *, calibration_rows: Rows | None = None
    ) -> Self:
        """Learn from moments whose targets are 1 for the class of a row and -1 for others.

        Parameters
        ----------
        moments : Moments
            Moments with a target for each class, or one target for the second of two classes.
        classes : array-like of shape (n_classes,)
            The classes, in the order of the targets.
        calibration_rows : rows as `Moments.of` takes them, default=None
            Rows that scores are calibrated on, in one pass; no targets are needed.

        {self}

        Raises
        ------
        ValueError
            If the targets do not fit the classes, `calibrate` and `calibration_rows` are not given
            together, or as `PCARidge.fit_moments` raises.
        """
        with unchanged_on_error(self):
            self._set_classes(np.asarray(classes))
            n_classes = len(self.classes_)
            if moments.n_targets != (1 if n_classes == 2 else n_classes):
                raise ValueError(
                    f"the moments have {moments.n_targets} targets for {n_classes} classes: "
                    "one for each is needed, or a single one for two."
                )
            if self.calibrate == "softmax":
                raise ValueError(
                    'calibrate = "softmax" needs the rows and their classes: call fit or fit_rows.'
                )
            if (self.calibrate in ("auto", None)) != (calibration_rows is None):
                raise ValueError(
                    f"calibrate = {self.calibrate!r}: calibration_rows must be given if and only "
                    "if scores are calibrated."
                )
            if self.class_weight is not None:
                raise ValueError(
                    f"class_weight = {self.class_weight!r}: the moments are of rows that have "
                    "their weights already. Give the weights to Moments.update."
                )
            self._fit_moments(moments)
            if calibration_rows is not None:
                n_rows = moments._labelled_rows().n_rows
                source = self._source(calibration_rows, None, None)
                source.names.known = moments.feature_names
                self._calibrate(source, n_rows)
        return self

    def decision_function(
        self, X: ArrayLike | Matrix, *, feature_map: BaseEstimator | None = None
    ) -> NDArray[Any]:
        """Return the score of each class, or of the second of two.

        Parameters
        ----------
        {rows_to_predict}
        {feature_map_of_fit}

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The logits of the classes or labels where these are calibrated, as is the default; else
            predicted targets, which are between -1 and 1 in training.
        """
        scores = self._scores(X, feature_map)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(
        self, X: ArrayLike | Matrix, *, feature_map: BaseEstimator | None = None
    ) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        {rows_to_predict}
        {feature_map_of_fit}

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_labels)
            The classes with the largest scores; or 1 for each label of a positive score, else 0.
        """
        return self._best(self._scores(X, feature_map))

    def _best(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the classes with the largest scores, or labels of positive scores."""
        if self._has_labels:
            return (scores > 0.0).astype(np.int64)
        scores = scores[:, 0] if scores.shape[1] == 1 else scores
        return best_class(scores, self.classes_)

    def score(
        self,
        X: ArrayLike | Matrix,
        y: Any = None,
        sample_weight: Any = None,
        *,
        feature_map: BaseEstimator | None = None,
    ) -> float:
        """Return the fraction of rows whose class, or labels, are predicted.

        Parameters
        ----------
        {rows_to_predict}
        {targets_to_score}
        {weights_to_score}
        {feature_map_of_fit}

        Returns
        -------
        score : float
            The accuracy.
        """
        scores, labels, weights = self._scored(X, y, sample_weight, feature_map)
        return float(accuracy_score(labels, self._best(scores), sample_weight=weights))

    @available_if(_has_probabilities)
    def predict_proba(
        self, X: ArrayLike | Matrix, *, feature_map: BaseEstimator | None = None
    ) -> NDArray[Any]:
        """Return the probabilities of the classes.

        They are those of the calibrated softmax. Without one, they are the softmax of scores times
        `inverse_temperature_`, the factor that makes left-out labels most likely. The most probable
        class is then the prediction. With several labels per row, each has a probability of its
        own, and those above a half are predicted.

        Parameters
        ----------
        {rows_to_predict}
        {feature_map_of_fit}

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        scores = self._scores(X, feature_map)
        if self._has_labels:
            with np.errstate(over="ignore"):
                return np.asarray(expit(self.inverse_temperature_ * scores), dtype=scores.dtype)
        with np.errstate(over="ignore"):
            logits = self.inverse_temperature_ * logits_of_classes(scores)
            # Scores beyond the range of single precision are infinite.
            return np.asarray(softmax(np.nan_to_num(logits), axis=1))

    def _needs_rows(self) -> str:
        if self.class_weight == "balanced":
            return 'class_weight = "balanced"'
        return super()._needs_rows() if self.calibrate in ("auto", None) else "calibrate"

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("inverse_temperature_", None)

    def _set_classes(self, classes: NDArray[Any]) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(classes)} class."
            )
        self.classes_, self._has_labels = classes, False

    def _set_labels(self, n_labels: int) -> None:
        for name in ("class_weight", "calibrate"):
            given = getattr(self, name)
            if given is not None and given not in ("auto", "softmax"):
                raise ValueError(
                    f"{name} = {given!r} needs one class per row, but y has {n_labels} labels: "
                    f"leave {name} at its default."
                )
        self.classes_, self._has_labels = np.arange(n_labels), True

    def _check_labels(self, y: Any, classes: Any, first: bool) -> None:
        """Note the number of labels of an indicator, or compare it with that of the first call."""
        if classes is not None:
            raise ValueError("classes must be None where y is an indicator of labels.")
        if first:
            self._set_labels(np.shape(y)[1])
        elif not self._has_labels or np.shape(y)[1] != len(self.classes_):
            raise ValueError(
                f"y has shape {np.shape(y)}, but the first call had {len(self.classes_)} "
                f"{'labels' if self._has_labels else 'classes'}: give y as there."
            )

    def _gathered(self, source: RowSource) -> tuple[Moments, RowSource]:
        if hasattr(self, "classes_"):
            return super()._gathered(source)
        classes, moments = moments_of_classes(source)
        self._set_classes(classes)
        return moments, self._encoded(source)

    def _learn_source(self, source: RowSource) -> None:
        if not hasattr(self, "classes_"):
            super()._learn_source(source)
            return
        if self.class_weight == "balanced":
            named = any(isinstance(part, str) for part in (source.targets, source.weights))
            if source.targets is None or named:
                raise ValueError(
                    'class_weight = "balanced" needs all labels and weights: give Y, and '
                    "sample_weight if there is any, as arrays, or class_weight as a dict."
                )
            SignedTargets(self.classes_)(source.targets)
        # Before coordinates of rows are made: their origin is a row that has a weight.
        super()._learn_source(self._encoded(source))

    def _encoded(self, source: RowSource) -> RowSource:
        """Return rows with the targets of the classes, and with their weights."""
        encode = IndicatorTargets() if self._has_labels else SignedTargets(self.classes_)
        weigh = ClassWeights.of(self.class_weight, self.classes_, source.targets, source.weights)
        return replace(source, encode=encode, weigh=weigh)

    def _learn_rows(self, source: RowSource, n_features: int | None) -> RidgePath:
        calibrate = self.calibrate
        if calibrate == "auto":
            calibrate = "softmax" if source.is_at_hand() else None
        elif calibrate is not None:
            source.check_rereadable("calibrate")
        path = super()._learn_rows(source, n_features)
        if source.encode is unchanged:
            source = self._encoded(source)
        learned = self.intercept_
        if calibrate == "equal-rate":
            self._calibrate(source, path.n_rows)
        if calibrate == "softmax":
            some = source.thinned(path.n_rows, SOFTMAX_ROWS)
            left_out = path.left_out(some.chunks("probabilities"), self.alpha_)
            readout = logistic_of(left_out) if self._has_labels else softmax_of(left_out)
            self.coef_ = readout.matrix.T @ self.coef_
            self.intercept_ = learned @ readout.matrix + readout.offset
            self.inverse_temperature_ = 1.0
        elif source.is_at_hand():
            some = source.thinned(path.n_rows, TEMPERATURE_ROWS)
            left_out = path.left_out(some.chunks("probabilities"), self.alpha_)
            shifted = left_out._replace(scores=left_out.scores + (self.intercept_ - learned))
            self.inverse_temperature_ = (
                np.array([inverse_temperature_of(label) for label in shifted.labels()])
                if self._has_labels
                else inverse_temperature_of(shifted)
            )
        return path

    def _calibrate(self, source: RowSource, n_rows: float) -> None:
        """Shift scores, with their mean kept, until those of one rank are the same."""
        n_classes = len(self.classes_)
        highest = HighestScores(self.calibration_rank or max(1, int(n_rows // n_classes)))
        for number, (Z, _, sample_weight) in enumerate(source.chunks("calibration")):
            with in_chunk(number, source):
                scores = np.asarray(checked(Z) @ self.coef_.T + self.intercept_)
                scores = np.hstack([-scores, scores]) if n_classes == 2 else scores
                weights = counted_weights(sample_weight, len(scores))
                highest.update(scores, None if weights is None else weights.copies)
        self.score_thresholds_ = lowest = highest.lowest()
        shift = (lowest[1:] - lowest[:1]) / 2 if n_classes == 2 else lowest - lowest.mean()
        self.intercept_ = self.intercept_ - shift

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
