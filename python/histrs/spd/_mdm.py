"""Minimum distance to mean."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, TransformerMixin, _fit_context

from histrs._calibration import likely_inverse_temperature
from histrs._checks.scale import exponent_of, may_overflow
from histrs._checks.validation import naming_rows, unchanged_on_error
from histrs._estimator import documented
from histrs._weights import encode, weighs_nothing
from histrs.spd._docs import MATRICES
from histrs.spd._geometry import GEOMETRIES
from histrs.spd._logarithms import Float64
from histrs.spd._mean import checked_weights
from histrs.spd._running import Running, RunningMeans, places_among
from histrs.spd._stack import Stack

# Total weight of a class of few matrices, and what is taken for the others.
_FEW = 100.0
_POWER = 1.5
# Step of the exponent of the unit of "euclid", and values whose squares do not overflow.
_POWERS = 512
_FAR = 1e150


@documented(MATRICES)
class MDM(ClassifierMixin, TransformerMixin, RunningMeans):
    r"""Classifier by the nearest mean: minimum distance to mean.

    A matrix belongs to the class whose mean is nearest [1]_,

    .. math:: \hat y(X) = \arg\min_c d(X, M_c), \qquad
              P(c \mid X) = \mathrm{softmax}_c\big(-\beta\, d(X, M_c)^2\big)

    with the inverse temperature :math:`\beta` that maximises the likelihood of the training labels.
    While :math:`\beta` is learned, each matrix is left out of the mean of its own class. For
    "jbld", :math:`d^2` is the divergence, which is the square of a metric.

    Parameters
    ----------
    metric : {"airm", "riemann", "jbld", "logeuclid", "euclid"}, default="airm"
        The distance, and the mean that goes with it: :func:`airm_mean`, :func:`jbld_mean`,
        :func:`log_euclidean_mean` or the arithmetic one. "riemann" is pyRiemann's name of "airm".
    {updates}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    means_ : ndarray of shape (n_classes, p, p)
        The mean of each class.
    weights_seen_ : ndarray of shape (n_classes,)
        Sums of the weights of the matrices in the means, after `forgetting`.
    inverse_temperature_ : float
        :math:`\beta`. With "euclid", squares of very large or small entries (beyond
        :math:`2^{\pm 256}`) would overflow. Matrices are then divided by a power of
        :math:`2^{512}`, and :math:`\beta` multiplies the squared distances between the results.
    {n_features_in_}

    See Also
    --------
    histrs.prototypes.CovarianceCompressor : Learns several matrices per class instead of one mean.

    Notes
    -----
    pyRiemann's ``MDM`` always has an inverse temperature of 1. Its probabilities are often near 0
    and 1 although the classes are far less certain.

    References
    ----------
    {barachant}

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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Compute the means of the classes, and the inverse temperature.

        {of_classes}
        {weights}

        {self}
        """
        with unchanged_on_error(self):
            stack, labels = self._stack_and_labels(X, y, reset=True)
            self._begin(labels, stack.shape[1])
            self._learn(stack, labels, sample_weight, whole=True)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the means of the classes with further matrices.

        The mean of a class moves towards the mean of its new matrices, by their fraction of the
        total weight of the class.

        {of_classes}
        classes : array-like of shape (n_classes,), default=None
            All classes of all calls; needed at the first call. A class without matrices so far is
            never predicted.
        {weights}

        {self}
        """
        if weighs_nothing(sample_weight, X):
            return self
        with unchanged_on_error(self):
            first = not hasattr(self, "means_")
            stack, labels = self._stack_and_labels(X, y, reset=first)
            if first:
                if classes is None:
                    raise ValueError("classes must be passed on the first call to partial_fit.")
                self._begin(classes, stack.shape[1])
            elif classes is not None and not np.array_equal(encode(classes)[0], self.classes_):
                raise ValueError(
                    f"classes = {classes!r} are not those of the first call, {self.classes_!r}."
                )
            self._learn(stack, labels, sample_weight, whole=False)
        return self

    def _begin(self, labels: ArrayLike, p: int) -> None:
        """Forget all but what the classes are."""
        self.classes_, _ = encode(labels)
        n_classes = len(self.classes_)
        self.means_ = np.broadcast_to(np.eye(p), (n_classes, p, p)).copy()
        self.weights_seen_ = np.zeros(n_classes)

    def _learn(
        self, stack: Stack, labels: NDArray[Any], sample_weight: ArrayLike | None, *, whole: bool
    ) -> None:
        """Add matrices to the means; those of a `whole` fit are not compared with themselves."""
        complaint = f"is none of the classes {self.classes_.tolist()}."
        indices = places_among(self.classes_, labels, "y", complaint)
        weights = checked_weights(sample_weight, len(stack))
        used = np.flatnonzero(weights)
        stack, indices, weights = stack[used], indices[used], weights[used]
        seen = float(self.weights_seen_.sum())
        share = float(weights.sum()) / (seen + float(weights.sum()))
        with naming_rows(used):
            if not seen:
                self._move(stack, indices, weights)
            # Predicted before they are learned from: what comes is as new as what will come.
            squares = self._squares(stack)
            if seen:
                self._move(stack, indices, weights)
        for index in np.unique(indices) if whole else ():
            own = indices == index
            squares[own, index] *= self._without_itself(
                stack[own], weights[own], squares[own, index], self.means_[index]
            )
        found = likely_inverse_temperature(squares, indices, weights)
        if seen:
            mixed = (1.0 - share) * np.log(self.inverse_temperature_) + share * np.log(found)
            found = float(np.exp(mixed))
        self.inverse_temperature_ = found

    def _move(self, stack: Stack, indices: NDArray[np.intp], weights: Float64) -> None:
        """Move the means towards those of matrices."""
        means, seen = self.means_.copy(), self.weights_seen_.copy()
        known = {i: Running(means[i], seen[i]) for i in np.flatnonzero(seen).tolist()}
        for i, mean in self._updated(known, self.metric, stack, indices, weights).items():
            means[i], seen[i] = mean
        self.means_, self.weights_seen_ = means, seen

    def _without_itself(
        self, stack: Stack, weights: Float64, squares: Float64, mean: Float64
    ) -> Float64:
        """Return by how much farther the mean of all others of its class is from each matrix.

        The squared distance grows by a power of the fraction that remains: 2 in a flat space, less
        in a curved one. If matrices are few, it is measured on one in the middle.
        """
        total = float(weights.sum())
        taken = np.minimum(1.0, weights)
        growth = total / np.maximum(total - taken, 0.5 * total)
        power = _POWER
        middle = int(np.argmin(np.abs(squares - weights @ squares / total)))
        if len(stack) > 1 and total <= _FEW and squares[middle] > 0.0:
            others = weights.copy()
            others[middle] -= taken[middle]
            rest = others > 0.0
            # A few digits are enough for the power, and the mean of all is near.
            without = GEOMETRIES[self.metric].mean(
                stack[rest], others[rest], self.n_jobs, tol=1e-4, start=mean
            )
            farther = self._squares_to(stack[middle : middle + 1], without.matrix[None])[0, 0]
            # Of matrices that differ by rounding alone, neither distance says anything.
            if farther > 0.0:
                power = float(np.log(farther / squares[middle]) / np.log(growth[middle]))
        return growth**power

    def _squares(self, stack: Stack) -> Float64:
        """Return squared distances to the means; infinite ones of classes that have not come."""
        squares = self._squares_to(stack, self.means_)
        squares[:, self.weights_seen_ == 0.0] = np.inf
        return squares

    def _squares_to(self, stack: Stack, means: Float64) -> Float64:
        if self.metric == "euclid":
            unit = self._exponent()
            with np.errstate(over="ignore"):
                stack = np.clip(np.ldexp(stack.astype(np.float64), -unit), -_FAR, _FAR)
            means = np.ldexp(means, -unit)
        return GEOMETRIES[self.metric].squares(stack, means, self.n_jobs)

    def _exponent(self) -> int:
        """Return the power of two in which "euclid" measures: squares of matrices may overflow."""
        seen = self.means_[self.weights_seen_ > 0.0]
        if self.metric != "euclid" or len(seen) == 0:
            return 0
        # In large steps, so that the unit stays what it is while means move.
        return _POWERS * round(exponent_of(seen) / _POWERS)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the distances to the means.

        {of_matrices}

        Returns
        -------
        D : ndarray of shape (n_samples, n_classes)
            Distances, in the order of `classes_`. For "jbld" they are roots of the divergence.
        """
        stack = self._stack(X)
        # Beyond the precision they are infinite.
        with may_overflow():
            distances = np.ldexp(np.sqrt(self._squares(stack)), self._exponent())
            return distances.astype(stack.dtype)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of the nearest mean.

        {of_matrices}

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes, the most probable ones.
        """
        squares = self._squares(self._stack(X))
        return np.asarray(self.classes_[np.argmin(squares, axis=1)])

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        r"""Return the probabilities of the classes.

        {of_matrices}

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            :math:`\mathrm{softmax}_c(-\beta\, d(X, M_c)^2)`, in the order of `classes_`.
        """
        stack = self._stack(X)
        squares = self._squares(stack)
        with np.errstate(over="ignore"):
            P = softmax(
                -self.inverse_temperature_ * (squares - squares.min(axis=1, keepdims=True)), axis=1
            )
        return np.asarray(P, dtype=stack.dtype)
