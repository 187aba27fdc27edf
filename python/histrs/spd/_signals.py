"""Covariance matrices of the trials of a recording."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._checks.sparse import refuse_sparse
from histrs._checks.validation import NameOptions, check_array, count_threads, unchanged_on_error
from histrs._estimator import BaseEstimator, documented
from histrs._warnings import warn
from histrs.spd._descriptors import Shrinkage
from histrs.spd._docs import MATRICES
from histrs.spd._stack import STACK_CHECKS, check_one_shape


@documented(MATRICES)
class Covariances(TransformerMixin, BaseEstimator):
    r"""Covariance matrices of signals, one for each trial.

    A trial with :math:`p` channels and :math:`T` time points has the matrix

    .. math:: C = (1 - s)\, \hat C + s\, \frac{\mathrm{tr}\, \hat C}{p}\, I, \qquad
              \hat C = \frac{1}{T} \sum_{t=1}^{T} (x_t - \bar x)(x_t - \bar x)^T

    where :math:`x_t` is the sample at time :math:`t`, and :math:`\bar x` is the mean sample. A
    pipeline from raw trials, such as epochs of EEG, begins with this step. pyRiemann's transformer
    of this name returns the same matrices.

    Parameters
    ----------
    shrinkage : {"oas", "lwf", "scm"} or float, default="oas"
        The weight :math:`s`, a number in [0, 1] or a rule for each trial. "oas" is the oracle
        approximating shrinkage of [1]_, and "lwf" the rule of [2]_, as in scikit-learn's `oas` and
        `ledoit_wolf`. "scm", the sample covariance matrix, means :math:`s = 0`.
    {n_jobs}

    Attributes
    ----------
    n_channels_ : int
        Number of channels, and of rows of a matrix.

    Warns
    -----
    UserWarning
        If a channel is constant in a trial; the message has the index of the first such trial. The
        covariance is then singular unless it is shrunk. There is another warning if there are fewer
        time points than channels, for example because the two axes are swapped.

    Notes
    -----
    Some signals were re-referenced to their average, or have interpolated channels. Without
    shrinkage, their matrices are singular, and no distance is defined between them.
    :class:`~histrs.spd.CommonRange` removes the directions without variance. Shrinkage gives these
    directions a variance instead.

    See Also
    --------
    covariance_descriptors : Covariances of sets of features: pixels, rows of tables.
    TangentSpace : The next step of a pipeline.

    References
    ----------
    .. [1] Y. Chen, A. Wiesel, Y. C. Eldar and A. O. Hero, "Shrinkage algorithms for MMSE covariance
       estimation", IEEE Transactions on Signal Processing 58, 2010.
    .. [2] O. Ledoit and M. Wolf, "A well-conditioned estimator for large-dimensional covariance
       matrices", Journal of Multivariate Analysis 88, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import Covariances
    >>> trials = np.random.default_rng(0).standard_normal((10, 8, 256))
    >>> Covariances().fit_transform(trials).shape
    (10, 8, 8)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "shrinkage": [NameOptions({"scm", "oas", "lwf"}), Interval(Real, 0, 1, closed="both")]
    }

    def __init__(self, shrinkage: Shrinkage = "oas", *, n_jobs: int | None = None) -> None:
        self.shrinkage = shrinkage
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Store the number of channels.

        {trials}
        {no_y}

        {self}
        """
        with unchanged_on_error(self):
            self.n_channels_ = _checked_trials(X).shape[1]
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Compute the covariances.

        {trials}

        Returns
        -------
        C : ndarray of shape (n_trials, n_channels, n_channels)
            Covariance matrices; float32 when the signals are, else float64. Sums are in double
            precision.

        Raises
        ------
        ValueError
            If a value is not finite, or the number of channels differs from training; the message
            names the trial and the channel.
        """
        check_is_fitted(self)
        trials = _checked_trials(X)
        _, n_channels, n_times = trials.shape
        if n_channels != self.n_channels_:
            raise ValueError(
                f"X has {n_channels} channels, but Covariances was fitted with {self.n_channels_}: "
                "give the same channels in the same order."
            )
        if n_times < n_channels:
            warn(
                f"X has {n_times} times of {n_channels} channels: fewer times than channels leave "
                "the covariance singular unless it is shrunk. Give (n_trials, n_channels, n_times) "
                "if the two axes are swapped; else longer trials, or fewer channels."
            )
        C, flat = _histrs.signal_covariances(trials, self.shrinkage, count_threads(self.n_jobs))
        if flat:
            trial, channel = flat[0]
            others = f" ({len(flat)} signals are)" if len(flat) > 1 else ""
            warn(
                f"Channel {channel} of trial {trial} is constant{others}: a variance of 0 "
                "makes the covariance singular unless it is shrunk; drop the channel or the trial."
            )
        return C

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        return tags


def _checked_trials(X: ArrayLike) -> NDArray[Any]:
    """Return signals of shape (n_trials, n_channels, n_times)."""
    refuse_sparse(X, "X")
    if isinstance(X, (list, tuple)):
        cure = "cut trials to one length, or use covariance_descriptors, which takes any length"
        check_one_shape(X, "X", cure)
    elif hasattr(X, "get_data"):
        raise TypeError(
            f"X is a {type(X).__name__}, not an array: give its signals, X.get_data(), of shape "
            "(n_trials, n_channels, n_times)."
        )
    trials: NDArray[Any] = check_array(X, ensure_2d=False, **STACK_CHECKS)
    if trials.ndim != 3:
        one = "; a single trial x is x[None]" if trials.ndim == 2 else ""
        raise ValueError(
            f"X has shape {trials.shape}: give signals of shape (n_trials, n_channels, n_times)"
            f"{one}."
        )
    if trials.shape[1] == 0 or trials.shape[2] < 2:
        raise ValueError(
            f"X has shape {trials.shape}: a trial has at least one channel and two times."
        )
    return trials
