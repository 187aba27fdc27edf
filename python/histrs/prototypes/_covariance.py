"""Stochastic covariance compression."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult, minimize
from sklearn.base import _fit_context, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from histrs._checks.validation import (
    check_random_state,
    count_threads,
    naming_rows,
    unchanged_on_error,
)
from histrs._estimator import documented
from histrs._progress import TrainingProgress
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs._weights import ClassWeight, encode, in_units_of_mean
from histrs.metrics import jbld_distances
from histrs.neighbors._search import in_precision
from histrs.neighbors._space import Space
from histrs.prototypes._base import COMPRESSION_CONSTRAINTS, Indices, InSpace, Labels, Training
from histrs.prototypes._class_means import class_means
from histrs.prototypes._covariance_loss import make_loss, prototypes, whitened
from histrs.prototypes._docs import LEARNED_PROTOTYPES, SELECTED_PROTOTYPES
from histrs.prototypes._gamma import held_out_inverse_temperature, searched_gamma
from histrs.prototypes._learned import (
    GAMMA_CONSTRAINTS,
    Gamma,
    Init,
    LearnedPrototypes,
    draw_start,
    scale_gamma,
)
from histrs.prototypes._sample import class_counts
from histrs.spd._distances import check_definite
from histrs.spd._stack import Stack, stacked, symmetric

# At one unit to the nearest prototype, neighbourhoods reach over several classes: sharper ones
# classify better, on signals, sounds and textures.
_SHARPER = 4.0
# Beyond this weight of the prior, prototypes stay where they start.
_MOST_PRIOR = 1e30


class Start(NamedTuple):
    """Where prototypes start."""

    matrices: Array
    """In the basis in which the mean is the identity."""
    labels: Labels
    """Indices of their classes."""
    distances: Array
    """From the training matrices."""


@documented(SELECTED_PROTOTYPES, LEARNED_PROTOTYPES)
class CovarianceCompressor(LearnedPrototypes, InSpace):
    r"""Classifier on a few learned covariance matrices.

    Stochastic covariance compression [1]_. Prototypes :math:`P_j`, started at means
    :math:`P_j^0` of the training matrices of each class, minimise

    .. math:: L = -\sum_i \log \sum_{j:\, y_j = y_i} p_{ij}
              + \nu \gamma^2 \sum_j D_J(P_j, P_j^0), \qquad
              p_{ij} = \mathrm{softmax}_j\big(-\gamma^2 D_J(X_i, P_j)\big)

    (equations 4 to 6), with the Jensen-Bregman log-det divergence
    :func:`~histrs.metrics.jbld_distances`. The second term is not in the paper. It acts like
    :math:`\nu` more matrices equal to each :math:`P_j^0`, and prevents overfitting to few
    matrices. The most probable class is predicted, not the class of the nearest prototype.

    Parameters
    ----------
    compression : int or float, default=0.05
        Number of prototypes of each class, or their fraction of the training matrices, at least one
        each.
    gamma : float, "scale", "cv" or "optuna", default="scale"
        Inverse temperature, at most 1e50. "scale" sets :math:`\gamma^2` to 16 divided by the mean
        divergence from a training matrix to the nearest first prototype. "cv" chooses among five
        multiples of it, from 1/8 to 2, by three-fold accuracy. "optuna" searches from 1/16 to 4
        times "scale", and needs ``pip install "histrs[tune]"``.
    init : {"means", "subset", "rmhc"}, default="means"
        Start from means of the clusters of each class, or from a random sample of each class.
        "rmhc" improves the sample by :class:`~histrs.prototypes.RandomMutationNN`.
    prior_weight : float or "auto", default="auto"
        The weight :math:`\nu`, in matrices. "auto" takes ``p / 3``.
    {class_weight}
    calibration : {"held-out"} or None, default="held-out"
        "held-out" learns a factor of the scores, `inverse_temperature_`, from matrices left out of
        training. It changes probabilities, not predicted classes. Probabilities without it are too
        certain.
    max_iter : int, default=300
        Most iterations of L-BFGS.
    tol : float, default=1e-5
        Training ends when an iteration lowers ``L / n_samples`` by no more.
    {verbose}
    random_state : int, RandomState instance or None, default=None
        Draws the start, and folds.
    {n_jobs}

    Attributes
    ----------
    {classes_}
    prototypes_ : ndarray of shape (n_prototypes, p, p)
        The learned matrices, in double precision.
    {prototype_labels_}
    sample_indices_ : ndarray of shape (n_prototypes,)
        Indices of the training matrices at the start, or nearest to the starting means.
    gamma_ : float
        The inverse temperature.
    inverse_temperature_ : float
        Factor of the scores; 1 without `calibration`, and if a class has too few matrices.
    loss_ : float
        ``L / n_samples`` at the end.
    loss_curve_ : ndarray of shape (n_iter,)
        ``L / n_samples`` after every iteration.
    n_iter_ : int
        Iterations made.
    n_features_in_ : int
        Number of entries of a matrix, p * p.

    Notes
    -----
    Prototypes are :math:`P = B^T B + 10^{-8} \bar X` with :math:`B` upper triangular and
    :math:`\bar X` the mean of the training matrices. The paper's equation 8 lacks a factor
    2: the gradient is
    :math:`\partial D_J(X, B^T B) / \partial B = 2 B (X + B^T B)^{-1} - B^{-T}`.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.prototypes import CovarianceCompressor
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(100) % 2
    >>> A = rng.standard_normal((100, 3, 20)) * (1 + y)[:, None, None]
    >>> X = A @ A.transpose(0, 2, 1) / 20
    >>> model = CovarianceCompressor(1, random_state=0).fit(X, y)
    >>> model.prototypes_.shape
    (2, 3, 3)
    >>> model.score(X, y) > 0.95
    True
    """

    sample_indices_: Indices

    _inputs: ClassVar[dict[str, bool]] = {"three_d_array": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "compression": COMPRESSION_CONSTRAINTS,
        "gamma": GAMMA_CONSTRAINTS,
        "init": [StrOptions({"means", "subset", "rmhc"})],
        "prior_weight": [StrOptions({"auto"}), Interval(Real, 0, _MOST_PRIOR, closed="both")],
        "calibration": [StrOptions({"held-out"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        compression: float = 0.05,
        *,
        gamma: Gamma = "scale",
        init: Literal["means"] | Init = "means",
        prior_weight: Literal["auto"] | float = "auto",
        class_weight: ClassWeight = None,
        calibration: Literal["held-out"] | None = "held-out",
        max_iter: int = 300,
        tol: float = 1e-5,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.compression = compression
        self.gamma = gamma
        self.init = init
        self.prior_weight = prior_weight
        self.class_weight = class_weight
        self.calibration = calibration
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the prototypes; when it raises, the estimator is as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Symmetric positive definite matrices.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. Whole weights act as repetitions, and samples of weight 0 are
            left out.

        {self}
        """
        with unchanged_on_error(self):
            space = self._space()
            data, y = space.check(self, X, y=y)
            given = self._row_weights(data, y, sample_weight)
            data, y = given.rows(data, y)
            self.classes_, labels = encode(y)
            with naming_rows(given.kept):
                self._fit(Training(space, data, labels, self.classes_, given.weights))
            if given.kept is not None:
                self.sample_indices_ = given.kept[self.sample_indices_]
        return self

    def _fit(self, training: Training) -> None:
        random = check_random_state(self.random_state)
        labels = training.labels
        stack = stacked(np.asarray(training.X))
        check_definite(stack, self.n_jobs)
        # In the basis in which the mean is the identity.
        X = stack.astype(np.float64)
        weights, unit = in_units_of_mean(training.weights)
        root = np.linalg.cholesky(symmetric(np.average(X, axis=0, weights=weights)))
        X = whitened(root, X)
        start = self._start(training, X, weights, random)
        own = start.labels
        self.gamma_ = self._choose_gamma(training, start.distances, weights, random)
        p = X.shape[1]
        upper = np.triu_indices(p)
        B = np.zeros((len(own), p, p))
        B[:] = np.linalg.cholesky(start.matrices).transpose(0, 2, 1)
        prior_weight = p / 3.0 if self.prior_weight == "auto" else float(self.prior_weight)
        loss = make_loss(
            X,
            labels,
            own,
            self.gamma_,
            count_threads(self.n_jobs),
            start.matrices,
            # As many matrices of the mean weight.
            min(prior_weight / unit, _MOST_PRIOR),
            weights,
        )

        def flat_loss(flat: Array) -> tuple[float, Array]:
            B[:, *upper] = flat.reshape(len(B), -1)
            value, gradient = loss(B)
            return value, gradient[:, *upper].ravel()

        curve: list[float] = []
        with TrainingProgress("CovarianceCompressor", self.verbose) as progress:

            def note(intermediate_result: OptimizeResult) -> None:
                curve.append(float(intermediate_result.fun))
                progress(curve[-1])

            result = minimize(
                flat_loss,
                B[:, *upper].ravel(),
                jac=True,
                method="L-BFGS-B",
                callback=note,
                options={
                    "maxiter": self.max_iter,
                    # SciPy divides it by the rounding error.
                    "ftol": min(float(self.tol), 1e200),
                    "gtol": 1e-10,
                },
            )
        if result.status == 1:
            warn(
                f"CovarianceCompressor stopped after {result.nit} iterations at a loss of "
                f"{result.fun:.3g} that still fell by more than {self.tol:.2e} an iteration. "
                "Raise max_iter or tol.",
                ConvergenceWarning,
            )
        B[:, *upper] = result.x.reshape(len(B), -1)
        self.prototypes_ = symmetric(root @ prototypes(B) @ root.T)
        self.prototype_labels_ = self.classes_[own]
        self.sample_indices_ = start.distances.argmin(axis=0)
        self.loss_ = float(result.fun)
        self.loss_curve_ = np.array(curve)
        self.n_iter_ = int(result.nit)
        self.inverse_temperature_ = 1.0
        if self.calibration is not None:
            fixed = clone(self).set_params(gamma=self.gamma_)
            self.inverse_temperature_ = held_out_inverse_temperature(fixed, training, random)

    def _class_scores(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        r"""Return :math:`\beta \log \sum_{j: y_j = c} e^{-\gamma^2 D_{ij}}`."""
        scores = super()._class_scores(X)
        return in_precision(self.inverse_temperature_ * scores.astype(np.float64), scores.dtype)

    def _start(
        self, training: Training, X: Stack, weights: Array | None, random: RandomState
    ) -> Start:
        if self.init == "means":
            counts = class_counts(training.labels, training.classes, self.compression)
            matrices, labels = class_means(X, training.labels, counts, random, weights)
        else:
            indices = draw_start(training, self.compression, self.init, random)
            matrices, labels = X[indices], training.labels[indices]
        return Start(matrices, labels, jbld_distances(X, matrices, n_jobs=self.n_jobs))

    def _choose_gamma(
        self, training: Training, distances: Array, weights: Array | None, random: RandomState
    ) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        # Where samples are their prototypes, or those that weigh are, only rounding is left.
        rounding = training.X.shape[-1] * np.finfo(np.float64).eps
        scale = scale_gamma(distances.min(axis=1), weights, rounding)
        if self.gamma == "scale":
            return _SHARPER * scale
        return searched_gamma(self, training, scale, random)

    def _space(self) -> Space:
        return Space("jbld", None, self.n_jobs)
