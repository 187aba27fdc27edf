"""Minimum distance to mean."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.base import ClassifierMixin, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from histrs._calibration import likely_inverse_temperature
from histrs._checks.scale import may_overflow
from histrs._checks.validation import NameOptions, naming_rows, unchanged_on_error, validate_data
from histrs._estimator import BaseEstimator, documented
from histrs._progress import StepProgress
from histrs._weights import check_labels, encode, weighs_nothing
from histrs.metrics._registry import MEANS
from histrs.spd._distances import airm_distances, check_definite, jbld_distances
from histrs.spd._docs import MATRICES
from histrs.spd._mean import Float64, MetricName, mean_of, weights_of
from histrs.spd._reference import Running, reference_mean, tangent_rows
from histrs.spd._stack import STACK_CHECKS, Stack, flattened, stacked

# Total weight of a class of few matrices, and what is taken for the others.
_FEW = 100.0
# Step of the exponent of the unit of "euclid", and values whose squares do not overflow.
_POWERS = 512
_FAR = 1e150
_POWER = 1.5


@documented(MATRICES)
class MDM(ClassifierMixin, TransformerMixin, BaseEstimator):
    r"""Classifier by the nearest mean: minimum distance to mean.

    A matrix is of the class whose mean is nearest [1]_,

    .. math:: \hat y(X) = \arg\min_c d(X, M_c), \qquad
              P(c \mid X) = \mathrm{softmax}_c\big(-\beta\, d(X, M_c)^2\big)

    with the inverse temperature :math:`\beta` that makes the training labels most likely, where
    each matrix is compared with the mean of the others of its class. Of "jbld" the divergence
    itself stands for :math:`d^2`: it is the square of a metric.

    Parameters
    ----------
    metric : {"airm", "riemann", "jbld", "logeuclid", "euclid"}, default="airm"
        The distance, and the mean that goes with it: :func:`airm_mean`, :func:`jbld_mean`,
        :func:`log_euclidean_mean` or the arithmetic one. "riemann" is pyRiemann's name of "airm".
    {forgetting}
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean one per core. Results do not depend on it.
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    means_ : ndarray of shape (n_classes, p, p)
        Their means.
    weights_seen_ : ndarray of shape (n_classes,)
        Sums of the weights of the matrices that the means were made of, older ones lowered.
    inverse_temperature_ : float
        :math:`\beta`. Of "euclid", where entries are beyond :math:`2^{\pm 256}` and their squares
        may overflow, for distances over the nearest power of :math:`2^{512}`.
    {n_features_in_}

    Notes
    -----
    pyRiemann's ``MDM`` has an inverse temperature of 1, whatever the data: its probabilities are
    often near 0 and 1 for classes that are far less certain.

    See Also
    --------
    histrs.prototypes.CovarianceCompressor : Learns several matrices per class instead of one mean.

    References
    ----------
    .. [1] A. Barachant, S. Bonnet, M. Congedo and C. Jutten, "Multiclass brain-computer interface
       classification by Riemannian geometry", IEEE Transactions on Biomedical Engineering 59, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import MDM
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(100) % 2
    >>> A = rng.standard_normal((100, 3, 20)) * (1 + y)[:, None, None]
    >>> X = A @ A.transpose(0, 2, 1) / 20
    >>> model = MDM().fit(X, y)
    >>> model.score(X, y)
    1.0
    >>> model.predict_proba(X).shape
    (100, 2)
    """

    classes_: NDArray[Any]
    means_: Float64
    weights_seen_: Float64
    inverse_temperature_: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "metric": [NameOptions(MEANS)],
        "forgetting": [Interval(Real, 0, 1, closed="left")],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        metric: MetricName = "airm",
        *,
        forgetting: float = 0.0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.forgetting = forgetting
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Compute the means of the classes, and the inverse temperature.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Symmetric positive definite matrices.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; None means equal ones.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_error(self):
            stack, labels = self._checked(X, y, reset=True)
            self.classes_, indices = encode(labels)
            weights = _total_weights(sample_weight, len(stack))
            n_classes, p = len(self.classes_), stack.shape[1]
            self.means_ = np.broadcast_to(np.eye(p), (n_classes, p, p)).copy()
            self.weights_seen_ = np.zeros(n_classes)
            used = np.flatnonzero(weights)
            stack, indices, weights = stack[used], indices[used], weights[used]
            with naming_rows(used):
                self._add(stack, indices, weights)
                squares = self._from_means(stack)
            for index in np.unique(indices):
                own = indices == index
                squares[own, index] *= self._without_itself(
                    stack[own], weights[own], squares[own, index], self.means_[index]
                )
            self.inverse_temperature_ = likely_inverse_temperature(squares, indices, weights)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Move the means of the classes towards those of more matrices, by their share of weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Further matrices.
        y : array-like of shape (n_samples,)
            Their classes.
        classes : array-like of shape (n_classes,), default=None
            All classes that will ever come; needed at the first call. A class that has not come yet
            is never predicted.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; None means equal ones.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if weighs_nothing(sample_weight, X):
            return self
        with unchanged_on_error(self):
            first = not hasattr(self, "means_")
            stack, labels = self._checked(X, y, reset=first)
            if first:
                if classes is None:
                    raise ValueError("classes must be passed on the first call to partial_fit.")
                self.classes_ = encode(classes)[0]
                p = stack.shape[1]
                self.means_ = np.broadcast_to(np.eye(p), (len(self.classes_), p, p)).copy()
                self.weights_seen_ = np.zeros(len(self.classes_))
            elif classes is not None and not np.array_equal(encode(classes)[0], self.classes_):
                raise ValueError(
                    f"classes = {classes!r} are not those of the first call, {self.classes_!r}."
                )
            known = {label: index for index, label in enumerate(self.classes_.tolist())}
            unknown = [i for i, label in enumerate(labels.tolist()) if label not in known]
            if unknown:
                raise ValueError(
                    f"y[{unknown[0]}] = {labels.tolist()[unknown[0]]!r} is none of the classes "
                    f"{self.classes_.tolist()}."
                )
            indices = np.array([known[label] for label in labels.tolist()], dtype=np.int64)
            weights = _total_weights(sample_weight, len(stack))
            used = np.flatnonzero(weights)
            stack, indices, weights = stack[used], indices[used], weights[used]
            seen = float(self.weights_seen_.sum())
            with naming_rows(used):
                if first:
                    self._add(stack, indices, weights)
                # Predicted before they are learned from: what comes is as new as what will come.
                squares = self._from_means(stack)
            inverse_temperature = likely_inverse_temperature(squares, indices, weights)
            if not first:
                share = float(weights.sum()) / (seen + float(weights.sum()))
                mixed = (1.0 - share) * np.log(self.inverse_temperature_) + share * np.log(
                    inverse_temperature
                )
                inverse_temperature = float(np.exp(mixed))
                self._add(stack, indices, weights)
            self.inverse_temperature_ = inverse_temperature
        return self

    def _checked(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[Stack, NDArray[Any]]:
        flat = flattened(X, None if reset else self)
        data, labels = validate_data(self, flat, y, reset=reset, **STACK_CHECKS)
        check_labels(labels)
        return stacked(data), labels

    def _add(self, stack: Stack, indices: NDArray[np.int64], weights: Float64) -> None:
        means, seen = self.means_.copy(), self.weights_seen_.copy()
        present = np.unique(indices)
        with StepProgress("MDM", self.verbose, len(present)) as progress:
            for index in present:
                own = indices == index
                total = float(weights[own].sum())
                share = weights_of(weights[own], int(own.sum()))
                with naming_rows(np.flatnonzero(own)):
                    mean = reference_mean(
                        "MDM", stack[own], share, self.metric, self.n_jobs, progress
                    )
                if seen[index] > 0.0:
                    running = Running(means[index], seen[index])
                    mean, total = running.updated(mean, total, self.forgetting, self.metric)
                means[index], seen[index] = mean, total
        self.means_, self.weights_seen_ = means, seen

    def _without_itself(
        self, stack: Stack, weights: Float64, squares: Float64, mean: Float64
    ) -> Float64:
        """Return by how much farther the mean of all others of its class is from each matrix.

        The squared distance grows by a power of the share that remains: 2 in a flat space, less in
        a curved one. Of few matrices it is measured on one in the middle.
        """
        total = float(weights.sum())
        taken = np.minimum(1.0, weights)
        growth = total / np.maximum(total - taken, 0.5 * total)
        power = _POWER
        middle = int(np.argmin(np.abs(squares - weights @ squares / total)))
        if len(stack) > 1 and total <= _FEW and squares[middle] > 0.0:
            others = weights.copy()
            others[middle] -= taken[middle]
            stack_of, others = stack[others > 0.0], others[others > 0.0]
            share = weights_of(others, len(others))
            # A few digits are enough for the power, and the mean of all is near.
            without = mean_of(
                stack_of, share, self.metric, tol=1e-4, start=mean, n_jobs=self.n_jobs
            ).matrix
            farther = self._squares(stack[middle : middle + 1], without[None])[0, 0]
            # Of matrices that differ by rounding alone, neither distance says anything.
            if farther > 0.0:
                power = float(np.log(farther / squares[middle]) / np.log(growth[middle]))
        return growth**power

    def _from_means(self, stack: Stack) -> Float64:
        """Return squared distances to the means; infinite ones of classes that have not come."""
        squares = self._squares(stack, self.means_)
        squares[:, self.weights_seen_ == 0.0] = np.inf
        return squares

    def _squares(self, stack: Stack, means: Float64) -> Float64:
        """Return squared distances to means."""
        squares: Float64
        if self.metric == "jbld":
            squares = self._from_each(jbld_distances, stack, means)
        elif self.metric == "logeuclid":
            rows = tangent_rows(stack.astype(np.float64), None, self.n_jobs)
            squares = cdist(rows, tangent_rows(means, None, 1), "sqeuclidean")
        elif self.metric == "euclid":
            flat, unit = stack.reshape(len(stack), -1).astype(np.float64), self._exponent()
            centres = np.ldexp(means.reshape(len(means), -1), -unit)
            with np.errstate(over="ignore"):
                flat = np.clip(np.ldexp(flat, -unit), -_FAR, _FAR)
            squares = cdist(flat, centres, "sqeuclidean")
        else:
            squares = self._from_each(airm_distances, stack, means) ** 2
        return squares

    def _exponent(self) -> int:
        """Return the power of two in which "euclid" measures: squares of matrices may overflow."""
        seen = self.means_[self.weights_seen_ > 0.0]
        if self.metric != "euclid" or len(seen) == 0:
            return 0
        _, exponent = np.frexp(np.max(np.abs(seen)))
        # In large steps, so that the unit stays what it is while means move.
        return _POWERS * round(int(exponent) / _POWERS)

    def _from_each(
        self, distances: Callable[..., NDArray[Any]], stack: Stack, means: Float64
    ) -> Float64:
        """Return the distances of matrices from means, a row for each matrix."""
        try:
            # Columns are computed a vector at a time, so that there should be many.
            D = distances(means, stack.astype(np.float64), n_jobs=self.n_jobs)
        except ValueError:
            check_definite(stack, self.n_jobs)
            raise
        return np.ascontiguousarray(D.T)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the distances to the means.

        Parameters
        ----------
        X : array-like of shape (n_queries, p, p) or (n_queries, p * p)
            Symmetric positive definite matrices.

        Returns
        -------
        D : ndarray of shape (n_queries, n_classes)
            Distances, of "jbld" the root of the divergence, in the order of `classes_`.
        """
        stack = self._queries(X)
        # Beyond the precision they are infinite.
        with may_overflow():
            distances = np.ldexp(np.sqrt(self._from_means(stack)), self._exponent())
            return distances.astype(stack.dtype)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of the nearest mean.

        Parameters
        ----------
        X : array-like of shape (n_queries, p, p) or (n_queries, p * p)
            Symmetric positive definite matrices.

        Returns
        -------
        y : ndarray of shape (n_queries,)
            Classes, the most probable ones.
        """
        squares = self._from_means(self._queries(X))
        return np.asarray(self.classes_[np.argmin(squares, axis=1)])

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        r"""Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_queries, p, p) or (n_queries, p * p)
            Symmetric positive definite matrices.

        Returns
        -------
        P : ndarray of shape (n_queries, n_classes)
            :math:`\mathrm{softmax}_c(-\beta\, d(X, M_c)^2)`, in the order of `classes_`.
        """
        stack = self._queries(X)
        squares = self._from_means(stack)
        with np.errstate(over="ignore"):
            P = softmax(
                -self.inverse_temperature_ * (squares - squares.min(axis=1, keepdims=True)), axis=1
            )
        return np.asarray(P, dtype=stack.dtype)

    def _queries(self, X: ArrayLike) -> Stack:
        check_is_fitted(self)
        return stacked(validate_data(self, flattened(X, self), reset=False, **STACK_CHECKS))

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _total_weights(sample_weight: ArrayLike | None, n: int) -> Float64:
    """Return weights that keep their sum, checked."""
    if sample_weight is None:
        return np.ones(n)
    weights_of(sample_weight, n)
    return np.array(sample_weight, dtype=np.float64)
