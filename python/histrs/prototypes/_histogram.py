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
from sklearn.utils import Tags, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._labels import encode
from histrs._progress import TrainingProgress
from histrs._row_weights import ClassWeight, in_units_of_mean
from histrs._validation import (
    HISTOGRAM_CHECKS,
    Matrix,
    canonical,
    check_random_state,
    count_threads,
    to_core,
    unchanged_on_error,
    validate_data,
    validate_fit,
)
from histrs._warnings import warn
from histrs.neighbors._search import Found, nearest
from histrs.neighbors._space import Space
from histrs.prototypes._base import (
    COMPRESSION_CONSTRAINTS,
    Indices,
    Labels,
    Training,
)
from histrs.prototypes._decisive import FEWEST_ROWS, decisive_costs
from histrs.prototypes._descent import descend
from histrs.prototypes._gamma import searched_gamma
from histrs.prototypes._learned import (
    CLASS_WEIGHT_CONSTRAINTS,
    GAMMA_CONSTRAINTS,
    Gamma,
    Init,
    LearnedPrototypes,
    draw_start,
    scale_gamma,
)
from histrs.prototypes._transport_loss import MAX_ITER, TransportLoss
from histrs.transport._arguments import check_entries, check_ground_distance
from histrs.transport._distances import warn_of_worst

Float64 = NDArray[np.float64]

# Largest L1 error of a marginal in training, and in predictions.
_TRAINING_TOL = 1e-4
_TOL = 1e-6
# Part of the mass of a start that is spread over all bins: an empty bin would stay empty.
_SPREAD = 1e-2
# Regularisation over the median of the ground distance.
_REG = 0.1


class HistogramCompressor(LearnedPrototypes):
    r"""Classifier on a few learned histograms.

    Stochastic histogram compression [1]_. Prototypes :math:`h_j = \mathrm{softmax}(w_j)`, started
    at a sample of the training histograms of each class, minimise

    .. math:: L = -\sum_i \log \sum_{j:\, y_j = y_i} p_{ij}, \qquad
              p_{ij} = \mathrm{softmax}_j\big(-\gamma^2 D(x_i, h_j)\big)

    (equations 5, 6 and 9) with a distance by entropy-regularised optimal transport, the Sinkhorn
    divergence [2]_

    .. math:: D(x, h) = S(x, h) - \tfrac12 S(x, x) - \tfrac12 S(h, h), \qquad
              S(a, b) = \min_{T \ge 0,\; T 1 = a,\; T^\top 1 = b}
              \sum_{ij} T_{ij} M_{ij} + \mathrm{reg} \sum_{ij} T_{ij} \log T_{ij}.

    With weights of samples, each term of the first sum is multiplied by its own. Training data can
    then be forgotten: a prediction compares with the prototypes alone, and is the most probable
    class, not that of the nearest prototype as in the paper. Rows are divided by their sums; a row
    of zeros is refused.

    Parameters
    ----------
    compression : int or float, default=0.05
        Number of prototypes of each class, or their share of the training samples, which is
        divided among classes in proportion, at least one each.
    M : array-like of shape (n_bins, n_bins) or None, default=None
        Ground distance: symmetric, finite, non-negative. None means bins on a line,
        :math:`M_{ij} = |i - j|`.
    reg : float or "scale", default="scale"
        Weight of the entropy, in the units of `M`; "scale" is a tenth of the median of the
        positive entries of `M`.
    gamma : float, "scale", "cv" or "optuna", default="scale"
        Inverse temperature of the neighbourhoods. "scale" takes :math:`\gamma^2` as the inverse of
        the mean excess of the distance to the nearest prototype of a wrong class over that to the
        nearest of the right class, in absolute value, at the start. "cv" chooses among five
        multiples of it, from 0.5 to 8, by the accuracy on rows left out, in three folds; "optuna"
        searches from 0.25 to 16 times it, by the same measure, in twenty trials of Optuna's
        sampler, which needs ``pip install "histrs[tune]"``.
    init : {"subset", "rmhc"}, default="subset"
        Start from a random sample of each class, or from one that
        :class:`~histrs.prototypes.RandomMutationNN` has improved.
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of the samples of each class; "balanced" makes those of all classes
        add up to the same. A class of weight 0 is left out.
    learning_rate : float, default=0.1
        About the size of the first changes of :math:`w`; halved when the loss no longer falls.
    batch_size : int or None, default=None
        Rows of a step; None means all.
    max_iter : int, default=200
        Most passes over the data; a ConvergenceWarning says when they did not suffice.
    tol : float, default=1e-3
        Training ends when ten passes lower the loss by no more than this part of it.
    verbose : int, default=0
        Above 0, progress is shown.
    random_state : int, RandomState instance or None, default=None
        Draws the start, and batches and folds.
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean one a core. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    prototypes_ : ndarray of shape (n_prototypes, n_bins)
        The learned histograms, of sum 1: those of the least loss of all passes.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their classes.
    sample_indices_ : ndarray of shape (n_prototypes,)
        Indices of the training samples that they started from.
    gamma_ : float
        The inverse temperature.
    reg_ : float
        The weight of the entropy.
    M_ : ndarray of shape (n_bins, n_bins)
        The ground distance.
    loss_ : float
        ``L / n_samples`` of the prototypes; with weights, over their sum.
    loss_curve_ : ndarray of shape (n_iter,)
        ``L / n_samples`` of every pass.
    n_iter_ : int
        Passes made.
    n_features_in_ : int
        Number of bins.
    feature_names_in_ : ndarray of shape (n_bins,)
        Names of the bins, when `X` had string column names.

    See Also
    --------
    CovarianceCompressor : The same for covariance matrices.
    histrs.neighbors.MetricKNNClassifier : Compares with all training samples.

    Notes
    -----
    The paper takes the dual variable of transport for the gradient of its cost
    :math:`\sum_{ij} T_{ij} M_{ij}`. It is the gradient of the cost with the entropy, which is
    minimised here, so that the loss and its gradient belong together; :math:`S(h, h)` is taken off
    because the entropy would otherwise favour blurred prototypes. The paper also prints only the
    diagonal of the derivative of the softmax; with :math:`h = \mathrm{softmax}(w)` a gradient
    :math:`g` in :math:`h` becomes :math:`h \circ (g - \langle g, h \rangle)` in :math:`w`.

    Of 64 rows or more, `predict` and `predict_proba` iterate transport to a prototype only as far
    as the probabilities depend on it, which are right to 1e-6; `decision_function` and
    `kneighbors` iterate all to the end.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.
    .. [2] J. Feydy, T. Séjourné, F.-X. Vialard, S. Amari, A. Trouvé and G. Peyré, "Interpolating
       between optimal transport and MMD using Sinkhorn divergences", AISTATS 2019.

    Examples
    --------
    Peaks at both ends of a line of bins:

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "compression": COMPRESSION_CONSTRAINTS,
        "M": ["array-like", None],
        "reg": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "gamma": GAMMA_CONSTRAINTS,
        "init": [StrOptions({"subset", "rmhc"})],
        "class_weight": CLASS_WEIGHT_CONSTRAINTS,
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
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
            What each sample counts: whole weights are repetitions. Samples of weight 0 are left
            out.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_error(self):
            X, y = validate_fit(self, X, y)
            given = self._row_weights(y, sample_weight)
            X, y = given.rows(X, y)
            self.classes_, labels = encode(y)
            X = self._normalized(X)
            self.M_ = _ground_distance(self.M, X.shape[1])
            self.reg_ = _default_reg(self.M_) if self.reg == "scale" else float(self.reg)
            self._fit(X, labels, given.weights)
            if given.kept is not None:
                self.sample_indices_ = given.kept[self.sample_indices_]
        return self

    def _fit(self, X: Matrix, labels: Labels, sample_weight: Float64 | None) -> None:
        random = check_random_state(self.random_state)
        params = {"M": self.M_, "reg": self.reg_, "tol": _TRAINING_TOL, "max_iter": MAX_ITER}
        # Training in single precision: prototypes are not more exact for more digits.
        single = X.astype(np.float32)
        space = Space("sinkhorn", params, self.n_jobs)
        training = Training(space, single, labels, self.classes_, sample_weight)
        of_rows, _ = in_units_of_mean(sample_weight)
        start = draw_start(training, self.compression, self.init, random)
        own = labels[start]
        weights = _logarithms(X, start)
        self.gamma_ = self._choose_gamma(training, softmax(weights, axis=1), own, of_rows, random)
        loss = TransportLoss(
            single,
            labels,
            own,
            M=self.M_,
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
        prototypes: Float64,
        own: Labels,
        weights: Float64 | None,
        random: RandomState,
    ) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        D = self._costs(training.X, prototypes)
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
        return self._normalized(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))

    def _decisive_scores(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        check_is_fitted(self)
        queries = self._check_queries(X)
        if queries.shape[0] < FEWEST_ROWS:
            return self._class_scores(X)
        H = np.asarray(self.prototypes_, dtype=np.float64)
        costs = decisive_costs(
            queries,
            H,
            self._own_costs(H) / 2,
            M=self.M_,
            reg=self.reg_,
            inverse_temperature=self.gamma_**2,
            max_iter=MAX_ITER,
            n_jobs=self.n_jobs,
        )
        return self._scores_of(costs, self.prototype_labels_).astype(queries.dtype)

    def _nearest(self, X: Matrix, k: int) -> Found:
        D = self._costs(X, self.prototypes_) - self._own_costs(X)[:, None] / 2
        # Rounding and the tolerance of transport may leave less than nothing.
        return nearest(np.maximum(D, 0.0), k)

    def _costs(self, X: Matrix, prototypes: Float64) -> Float64:
        """Return the distances to prototypes, less what only depends on the row of `X`."""
        H = prototypes.astype(X.dtype)
        costs, errors, _, _ = _histrs.sinkhorn_distances(
            *(to_core(X), to_core(H), self.M_, self.reg_, _TOL, MAX_ITER, True, False),
            count_threads(self.n_jobs),
        )
        warn_of_worst(errors, _TOL, MAX_ITER)
        own = self._own_costs(H)
        # Those to prototypes may be infinite: M may forbid transport.
        if np.isnan(costs).any() or not np.isfinite(own).all():
            raise ValueError(
                f"reg = {self.reg_:.3g}: distances overflow {X.dtype}; lower reg, and scale M down."
            )
        return np.asarray(costs - own / 2, dtype=np.float64)

    def _own_costs(self, X: Matrix) -> Float64:
        """Return what transport of each row to itself costs."""
        indices = np.arange(X.shape[0])
        costs, _ = _histrs.sinkhorn_pairs(
            *(
                to_core(X),
                to_core(X),
                indices,
                indices,
                None,
                self.M_,
                self.reg_,
                _TOL,
                MAX_ITER,
                True,
            ),
            count_threads(self.n_jobs),
        )
        return np.asarray(costs, dtype=np.float64)

    def _normalized(self, X: Matrix) -> Matrix:
        """Return rows of sum 1."""
        X = canonical(X)
        n_threads = count_threads(self.n_jobs)
        _histrs.check_histograms(to_core(X), n_threads)
        sums = _histrs.row_sums(to_core(X), n_threads)
        empty = np.flatnonzero(~((sums > 0) & np.isfinite(sums)))
        if len(empty) > 0:
            raise ValueError(
                f"X[{empty[0]}] sums to {sums[empty[0]]}: transport is between histograms of some "
                "finite mass; drop the row."
            )
        if sparse.issparse(X):
            scaled = X.astype(X.dtype, copy=True)
            scaled.data /= np.repeat(sums, np.diff(scaled.indptr))
            return scaled
        return np.asarray(X / sums[:, None], dtype=X.dtype)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def _logarithms(X: Matrix, indices: Indices) -> Float64:
    """Return logarithms of rows, of which a little is spread over all bins."""
    rows = X[indices].toarray() if sparse.issparse(X) else X[indices]
    return np.asarray(np.log((1 - _SPREAD) * rows.astype(np.float64) + _SPREAD / X.shape[1]))


def _ground_distance(M: ArrayLike | None, n_bins: int) -> Float64:
    if M is None:
        bins = np.arange(float(n_bins))
        return np.abs(bins[:, None] - bins)
    checked = check_ground_distance(M, n_bins, n_bins)
    check_entries(checked)
    if not np.array_equal(checked, checked.T):
        i, j = np.argwhere(checked != checked.T)[0]
        raise ValueError(
            f"M[{i}, {j}] = {checked[i, j]}, but M[{j}, {i}] = {checked[j, i]}: the ground "
            "distance of prototypes is symmetric; pass (M + M.T) / 2."
        )
    return checked


def _default_reg(M: Float64) -> float:
    """Return a tenth of the median of what it costs to move to another bin."""
    positive = M[M > 0]
    return _REG * float(np.median(positive)) if len(positive) > 0 else _REG
