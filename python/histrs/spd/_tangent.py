"""Coordinates in the tangent space at a mean."""

from __future__ import annotations

from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, _fit_context
from sklearn.utils.validation import check_is_fitted

from histrs._checks.validation import check_array, unchanged_on_error
from histrs._estimator import documented
from histrs._weights import weighs_nothing
from histrs.spd._distances import check_definite
from histrs.spd._docs import MATRICES
from histrs.spd._geometry import MetricName
from histrs.spd._logarithms import Float64, from_tangent, roots, tangent_rows, unpacked
from histrs.spd._mean import checked_weights
from histrs.spd._running import MEAN_CONSTRAINT, UPDATE_CONSTRAINTS, Running, RunningMeans
from histrs.spd._stack import as_stack, symmetric


@documented(MATRICES)
class TangentSpace(TransformerMixin, RunningMeans):
    r"""Covariance matrices as vectors, for linear models.

    .. math:: v(X) = \mathrm{vech}\, \log(M^{-1/2} X M^{-1/2})

    where vech lists the upper triangle row by row, with off-diagonal entries times :math:`\sqrt 2`.
    The distance of two vectors approximates the affine-invariant distance of their matrices. The
    length of a vector is exactly the distance of its matrix from :math:`M` [1]_. A common pipeline
    for EEG continues with :class:`~sklearn.linear_model.LogisticRegression`. pyRiemann's
    ``TangentSpace`` with the same reference returns the same vectors.

    Parameters
    ----------
    reference : str or array-like of shape (p, p), default="airm"
        :math:`M`: a matrix, or the name of a mean of the training matrices. "airm" (in pyRiemann
        "riemann") names :func:`airm_mean`; "jbld" names :func:`jbld_mean`; "logeuclid" names
        :func:`log_euclidean_mean`; "euclid" names the arithmetic mean. The formula above holds for
        every choice.
    {updates}

    Attributes
    ----------
    reference_ : ndarray of shape (p, p)
        :math:`M`.
    root_ : ndarray of shape (p, p)
        :math:`M^{1/2}`.
    whitener_ : ndarray of shape (p, p)
        :math:`M^{-1/2}`.
    weight_seen_ : float
        Sum of the weights of the matrices in the mean, after `forgetting`.
    {n_features_in_}

    See Also
    --------
    Whitening : Moves the mean to the identity, and returns matrices.
    MDM : Classifies by the nearest mean.

    References
    ----------
    {barachant}

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from histrs.spd import Covariances, TangentSpace
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> trials = rng.standard_normal((60, 4, 128))
    >>> trials[:, 2] *= 1 + 0.5 * y[:, None]  # the third channel is louder in class 1
    >>> model = make_pipeline(Covariances(), TangentSpace(), LogisticRegression())
    >>> model.fit(trials[:40], y[:40]).score(trials[40:], y[40:])
    1.0
    """

    reference_: Float64
    root_: Float64
    whitener_: Float64
    weight_seen_: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "reference": [MEAN_CONSTRAINT, "array-like"],
        **UPDATE_CONSTRAINTS,
    }

    def __init__(
        self,
        reference: MetricName | ArrayLike = "airm",
        *,
        forgetting: float = 0.0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.reference = reference
        self.forgetting = forgetting
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Compute the reference.

        {fit_to_weighted}
        """
        with unchanged_on_error(self):
            self._learn(X, sample_weight, reset=True)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the reference with further matrices.

        It moves towards their mean by their fraction of the total weight.

        {fit_to_weighted}
        """
        if weighs_nothing(sample_weight, X):
            return self
        with unchanged_on_error(self):
            self._learn(X, sample_weight, reset=not hasattr(self, "reference_"))
        return self

    def _learn(self, X: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool) -> None:
        stack = self._stack(X, reset=reset)
        weights = checked_weights(sample_weight, len(stack))
        known = {} if reset else {0: Running(self.reference_, self.weight_seen_)}
        if isinstance(self.reference, str):
            groups, metric = np.zeros(len(stack), dtype=np.intp), cast(MetricName, self.reference)
            mean, weight = self._updated(known, metric, stack, groups, weights)[0]
        else:
            mean = _checked_reference(self.reference, stack.shape[1])
            weight = float(weights.sum()) + sum(part.weight for part in known.values())
        self.reference_, self.weight_seen_ = mean, weight
        self.root_, self.whitener_ = roots(mean)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return coordinates.

        {of_matrices}

        Returns
        -------
        V : ndarray of shape (n_samples, p * (p + 1) / 2)
            The upper triangle of each logarithm, row by row, in the precision of `X`.
        """
        return tangent_rows(self._stack(X), self.whitener_, self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        r"""Return the matrices that have these coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, p * (p + 1) / 2)
            Coordinates.

        Returns
        -------
        X_original : ndarray of shape (n_samples, p, p)
            :math:`M^{1/2} \exp(S) M^{1/2}`, with the coordinates as a symmetric matrix `S`.
        """
        check_is_fitted(self)
        rows = check_array(X, dtype=[np.float64, np.float32], allow_nd=True, ensure_min_samples=0)
        p = len(self.reference_)
        if rows.ndim != 2 or rows.shape[1] != p * (p + 1) // 2:
            raise ValueError(
                f"X has shape {rows.shape}: give rows of {p * (p + 1) // 2} coordinates, as "
                "transform returns them."
            )
        dtype = rows.dtype
        with np.errstate(over="ignore"):
            matrices = from_tangent(self.root_, unpacked(rows.astype(np.float64))).astype(dtype)
        if not np.all(np.isfinite(matrices)):
            raise ValueError(
                f"The matrices of these coordinates exceed the range of {dtype}: scale them down, "
                "or give float64."
            )
        return matrices

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return names of the coordinates, for `set_output`.

        Parameters
        ----------
        input_features : array-like of str of shape (p,), default=None
            Names of the channels; None numbers them from 0.

        Returns
        -------
        names : ndarray of str of shape (p * (p + 1) / 2,)
            ``"log_Cz"`` for a diagonal entry, ``"log_C3_C4"`` for others.
        """
        check_is_fitted(self)
        p = len(self.reference_)
        names = np.arange(p) if input_features is None else np.asarray(input_features)
        if names.shape != (p,):
            raise ValueError(
                f"input_features has shape {names.shape}, expected ({p},): one name for each "
                "channel."
            )
        pairs = zip(*np.triu_indices(p), strict=True)
        return np.array(
            [f"log_{names[i]}" if i == j else f"log_{names[i]}_{names[j]}" for i, j in pairs],
            dtype=object,
        )


def _checked_reference(reference: ArrayLike, p: int) -> Float64:
    """Return a matrix that the user gave."""
    stack = as_stack(np.asarray(reference, dtype=np.float64)[None], "reference")
    if stack.shape[1] != p:
        raise ValueError(
            f"reference has {stack.shape[1]} rows, and the matrices of X have {p}: give a matrix "
            "of their size."
        )
    try:
        check_definite(stack)
    except ValueError as error:
        raise ValueError(str(error).replace("X[0]", "reference")) from None
    return symmetric(stack[0])
