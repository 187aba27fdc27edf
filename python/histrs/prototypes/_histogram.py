"""Stochastic histogram compression."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._checks.rows import in_row_blocks
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    canonical,
    check_random_state,
    count_threads,
    naming_rows,
    unchanged_on_error,
    validate_data,
    validate_fit,
)
from histrs._estimator import documented
from histrs._progress import TrainingProgress
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs._weights import ClassWeight, encode, in_units_of_mean
from histrs.neighbors._search import Found, nearest
from histrs.neighbors._space import Space
from histrs.prototypes._base import COMPRESSION_CONSTRAINTS, Indices, Labels, Training
from histrs.prototypes._decisive import FEWEST_ROWS, decisive_costs
from histrs.prototypes._descent import descend
from histrs.prototypes._divergence import (
    Divergence,
    default_reg,
    ground_distance,
    masses,
    normalized,
)
from histrs.prototypes._docs import LEARNED_PROTOTYPES, SELECTED_PROTOTYPES
from histrs.prototypes._gamma import searched_gamma
from histrs.prototypes._learned import (
    GAMMA_CONSTRAINTS,
    Gamma,
    Init,
    LearnedPrototypes,
    draw_start,
    scale_gamma,
)
from histrs.prototypes._transport_loss import MAX_ITER, TransportLoss
from histrs.transport._arguments import without_infinity
from histrs.transport._ground import GridDistance

# Largest L1 error of a marginal in training.
_TRAINING_TOL = 1e-4
# Part of the mass of a start that is spread over all bins: an empty bin would stay empty.
_SPREAD = 1e-2


@documented(SELECTED_PROTOTYPES, LEARNED_PROTOTYPES)
class HistogramCompressor(LearnedPrototypes):
    r"""Classifier on a few learned histograms.

    Stochastic histogram compression [1]_. Prototypes :math:`h_j = \mathrm{softmax}(w_j)` minimise

    .. math:: L = -\sum_i \log \sum_{j:\, y_j = y_i} p_{ij}, \qquad
              p_{ij} = \mathrm{softmax}_j\big(-\gamma^2 D(x_i, h_j)\big)

    (equations 5, 6 and 9), with the divergence :func:`~histrs.transport.sinkhorn_divergences` [2]_.
    The paper has the cost of transport in place of the divergence, and predicts the class of the
    nearest prototype. Here the most probable class is predicted. Rows are divided by their sums.

    Parameters
    ----------
    {compression}
    M : array-like of shape (n_bins, n_bins), GridDistance or None, default=None
        Cost matrix: symmetric, non-negative. None means :math:`M_{ij} = |i - j|`. Infinite entries
        count as `n_bins` times the largest finite one.
    reg : float or "scale", default="scale"
        Weight of the entropy, in the units of `M`. "scale" is a tenth of the median of the
        positive, finite entries.
    gamma : float, "scale", "cv" or "optuna", default="scale"
        Inverse temperature. "scale" takes two distances of each sample: from the nearest initial
        prototype of its class, and of other classes. It makes :math:`\gamma^2` the inverse of their
        mean absolute difference. "cv" chooses among five multiples of "scale", from 0.5 to 8, by
        three-fold cross-validation. "optuna" searches from 0.25 to 16 times "scale", and needs
        ``pip install "histrs[tune]"``.
    init : {"subset", "rmhc"}, default="subset"
        Start from a random sample of each class; "rmhc" improves it by
        :class:`~histrs.prototypes.RandomMutationNN`.
    {class_weight}
    learning_rate : float, default=0.1
        Size of the first steps; halved when the loss no longer falls.
    batch_size : int or None, default=None
        Rows of a step; None means all.
    max_iter : int, default=200
        Most passes over the data.
    tol : float, default=1e-3
        Training ends when ten passes lower the loss by no more than this fraction.
    {verbose}
    random_state : int, RandomState instance or None, default=None
        Draws the start, batches and folds.
    {n_jobs}

    Attributes
    ----------
    {classes_}
    prototypes_ : ndarray of shape (n_prototypes, n_bins)
        The learned histograms, of sum 1.
    {prototype_labels_}
    sample_indices_ : ndarray of shape (n_prototypes,)
        Training samples that prototypes start from.
    gamma_ : float
        The inverse temperature.
    reg_ : float
        The weight of the entropy.
    M_ : ndarray of shape (n_bins, n_bins)
        The cost matrix, finite.
    loss_ : float
        ``L / n_samples`` of the prototypes.
    loss_curve_ : ndarray of shape (n_iter,)
        ``L / n_samples`` of every pass.
    n_iter_ : int
        Passes made.
    n_features_in_ : int
        Number of bins.
    feature_names_in_ : ndarray of shape (n_bins,)
        Names of the bins, if `X` had string column names.

    See Also
    --------
    CovarianceCompressor : The same for covariance matrices.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.
    .. [2] J. Feydy, T. Séjourné, F.-X. Vialard, S. Amari, A. Trouvé and G. Peyré, "Interpolating
       between optimal transport and MMD using Sinkhorn divergences", AISTATS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.prototypes import HistogramCompressor
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.gamma(0.5 + 3 * np.where(y[:, None] == 0, np.arange(8) < 3, np.arange(8) > 4))
    >>> model = HistogramCompressor(1, random_state=0).fit(X, y)
    >>> model.prototypes_.shape
    (2, 8)
    >>> model.score(X, y) > 0.95
    True
    """

    sample_indices_: Indices

    _inputs: ClassVar[dict[str, bool]] = {"sparse": True, "positive_only": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "compression": COMPRESSION_CONSTRAINTS,
        "M": ["array-like", None],
        "reg": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "gamma": GAMMA_CONSTRAINTS,
        "init": [StrOptions({"subset", "rmhc"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        compression: float = 0.05,
        *,
        M: ArrayLike | None = None,
        reg: float | Literal["scale"] = "scale",
        gamma: Gamma = "scale",
        init: Init = "subset",
        class_weight: ClassWeight = None,
        learning_rate: float = 0.1,
        batch_size: int | None = None,
        max_iter: int = 200,
        tol: float = 1e-3,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.compression = compression
        self.M = M
        self.reg = reg
        self.gamma = gamma
        self.init = init
        self.class_weight = class_weight
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the prototypes; when it raises, the estimator is as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_bins)
            Histograms: non-negative, finite, each with some mass.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. Whole weights act as repetitions, and samples of weight 0 are
            left out.

        {self}
        """
        with unchanged_on_error(self):
            X, y = validate_fit(self, X, y)
            given = self._row_weights(X, y, sample_weight)
            X, y = given.rows(X, y)
            self.classes_, labels = encode(y)
            with naming_rows(given.kept):
                X = normalized(X, self.n_jobs)
            M = ground_distance(self.M, X.shape[1])
            self.M_ = without_infinity(M, times=len(M))
            self.reg_ = default_reg(M) if self.reg == "scale" else float(self.reg)
            self._fit(X, labels, given.weights)
            if given.kept is not None:
                self.sample_indices_ = given.kept[self.sample_indices_]
        return self

    def _fit(self, X: Matrix, labels: Labels, sample_weight: Array | None) -> None:
        random = check_random_state(self.random_state)
        params = {"M": self.M_, "reg": self.reg_, "tol": _TRAINING_TOL, "max_iter": MAX_ITER}
        # Training in single precision: prototypes are not more exact for more digits.
        rows = X.astype(np.float32)
        space = Space("sinkhorn", params, self.n_jobs)
        training = Training(space, rows, labels, self.classes_, sample_weight)
        of_rows, _ = in_units_of_mean(sample_weight)
        start = draw_start(training, self.compression, self.init, random)
        own = labels[start]
        weights = _logarithms(X, start)
        self.gamma_ = self._choose_gamma(training, softmax(weights, axis=1), own, of_rows, random)
        loss = TransportLoss(
            rows,
            labels,
            own,
            M=self.M.axes if isinstance(self.M, GridDistance) else self.M_,
            reg=self.reg_,
            gamma=self.gamma_,
            tol=_TRAINING_TOL,
            n_threads=count_threads(self.n_jobs),
            weights=of_rows,
        )
        with TrainingProgress("HistogramCompressor", self.verbose) as progress:
            found = descend(
                loss,
                weights,
                rate=self.learning_rate,
                max_iter=self.max_iter,
                tol=self.tol,
                batches=self._batches(len(labels), random),
                progress=progress,
            )
        self.sample_indices_ = start
        self.prototypes_ = softmax(found.weights, axis=1)
        self.prototype_labels_ = self.classes_[own]
        self.loss_curve_ = np.array(found.curve)
        self.loss_ = float(min(found.curve))
        self.n_iter_ = len(found.curve)
        self._warn(found.converged, loss.error)

    def _choose_gamma(
        self,
        training: Training,
        prototypes: Array,
        own: Labels,
        weights: Array | None,
        random: RandomState,
    ) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        D = self._divergence.to(prototypes, training.X)
        right = training.labels[:, None] == own
        nearest_right = np.where(right, D, np.inf).min(axis=1)
        nearest_wrong = np.where(right, np.inf, D).min(axis=1)
        # Of a single class none is wrong.
        excess = np.abs(nearest_wrong - nearest_right)
        finite = np.isfinite(excess)
        of_finite = None if weights is None else weights[finite]
        scale = scale_gamma(excess[finite], of_finite) if finite.any() else 1.0
        if self.gamma == "scale":
            return scale
        return searched_gamma(self, training, scale, random)

    def _batches(self, n: int, random: RandomState) -> Callable[[], Iterator[Indices]] | None:
        size = self.batch_size
        if size is None or size >= n:
            return None

        def cut() -> Iterator[Indices]:
            order = random.permutation(n)
            for batch in gen_batches(n, size):
                yield order[batch]

        return cut

    def _warn(self, converged: bool, error: float) -> None:
        if not error <= _TRAINING_TOL:
            warn(
                f"HistogramCompressor: a marginal of transport is off by {error:.2g} of the mass "
                f"after {MAX_ITER} iterations, and the gradient with it; raise reg, which is "
                f"{self.reg_:.3g}.",
                ConvergenceWarning,
            )
        if not converged:
            warn(
                f"HistogramCompressor stopped after {self.n_iter_} passes at a loss of "
                f"{self.loss_:.3g} that still fell by more than {self.tol:.2e} of it in ten "
                "passes. Raise max_iter or tol.",
                ConvergenceWarning,
            )

    def _check_queries(self, X: ArrayLike | Matrix) -> Matrix:
        queries: Matrix = canonical(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))
        masses(queries, self.n_jobs)
        return queries

    def _decisive_scores(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        check_is_fitted(self)
        queries = self._check_queries(X)
        if queries.shape[0] < FEWEST_ROWS:
            return self._class_scores(X)
        H = np.asarray(self.prototypes_, dtype=np.float64)
        own = self._divergence.of_rows_alone(H) / 2

        def costs_of(rows: Matrix) -> Array:
            return decisive_costs(
                normalized(rows, self.n_jobs),
                H,
                own,
                M=self.M_,
                reg=self.reg_,
                inverse_temperature=self.gamma_**2,
                max_iter=MAX_ITER,
                n_jobs=self.n_jobs,
            )

        costs = in_row_blocks(queries, costs_of)
        return self._scores_of(costs, self.prototype_labels_).astype(queries.dtype)

    def _nearest(self, X: Matrix, k: int) -> Found:
        divergence = self._divergence

        def distances(rows: Matrix) -> Array:
            rows = normalized(rows, self.n_jobs)
            own: Array = divergence.of_rows_alone(rows)[:, None]
            return divergence.to(self.prototypes_, rows) - own / 2

        # Rounding and the tolerance of transport may leave less than nothing.
        return nearest(np.maximum(in_row_blocks(X, distances), 0.0), k)

    @property
    def _divergence(self) -> Divergence:
        return Divergence(self.M_, self.reg_, self.n_jobs)


def _logarithms(X: Matrix, indices: Indices) -> Array:
    """Return logarithms of rows, of which a little is spread over all bins."""
    rows = X[indices].toarray() if sparse.issparse(X) else X[indices]
    return np.asarray(np.log((1 - _SPREAD) * rows.astype(np.float64) + _SPREAD / X.shape[1]))
