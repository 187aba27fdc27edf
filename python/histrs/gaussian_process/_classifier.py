"""Gaussian process classification with any kernel."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions

from histrs._calibration import Readout, fit_calibration, logits_of_classes
from histrs._distributed.rows import in_memory
from histrs._estimator import documented
from histrs._typing import Array, Matrix
from histrs._weights import (
    ClassWeight,
    best_class,
    check_weights,
    checked_labels,
    index_of_best,
    refuse_balanced,
    times_class_weights,
    weighs_nothing,
)
from histrs.gaussian_process import _doors
from histrs.gaussian_process._asked import is_fixed
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._docs import (
    CLASSIFICATION_FIT,
    CLASSIFICATION_GP,
    GAUSSIAN_PROCESS,
    UPDATES,
)
from histrs.gaussian_process._learning.hyperparameters import Bounds, check_bounds
from histrs.gaussian_process._learning.leave_one_out import WithLevel, centred_leave_one_out_of
from histrs.gaussian_process._learning.pairs import MOST_ROWS, scores_without_pairs_of
from histrs.gaussian_process._likelihoods.classes import (
    ChosenName,
    CodedClasses,
    FittedClasses,
    LatentClasses,
    base_of,
    classes_of,
    declared_with,
    of_one_type,
    targets_of,
    weights_to_start_from,
)
from histrs.gaussian_process._likelihoods.patterns import TrainingRows
from histrs.gaussian_process._options import (
    Bins,
    Fine,
    LikelihoodName,
    LikelihoodSearch,
    OptimizerName,
    OptimizerOption,
    Solver,
    SolverName,
    VarianceName,
)
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._precision import in_precision_of_rows
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process._rows import rows_of
from histrs.gaussian_process._systems.system import System

# Rows up to which "auto" solves for modes of two classes: of more, probabilities hardly differ.
_MAX_ROWS = 4096
# For several classes. Fewer rows are predicted as well by regression, whose calibration has a
# matrix. Cubes of more rows, times classes, take more than some seconds of a core.
_MIN_ROWS = 400
_MAX_CLASSES = 64
_MAX_CUBES = 4e10


@documented(GAUSSIAN_PROCESS, CLASSIFICATION_FIT, CLASSIFICATION_GP, UPDATES)
class GPClassifier(ClassifierMixin, GaussianProcess):
    r"""Gaussian process classifier with any kernel.

    For every class a Gaussian process with the covariance of `GPRegressor` is fitted to targets +1
    for the class and -1 for all others. Scores are calibrated on predictions of left-out rows. If
    the matrix is factorised, rows are left out one by one, in closed form. Otherwise a tenth is
    left out at a time. Further attributes are those of `GPRegressor`.

    Parameters
    ----------
    kernel : Kernel, str or None, default=None
        The kernel: see `GPRegressor`.
    {parameters}

    Attributes
    ----------
    {classes_}
    likelihood_ : {"gaussian", "bernoulli", "softmax"}
        The likelihood of the fit.
    calibration_ : tuple of ndarray
        With `calibration`: ``(matrix, offset)``, which turn posterior means into logits.
    Y_fit_ : ndarray of shape (n_samples, n_outputs)
        +1 for the class of an output and -1 for others.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    GPRegressor : The same for real targets.
    TabularGPClassifier : For tables with categories.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from histrs.gaussian_process import GPClassifier
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> GPClassifier("radial").fit(X[:100], y[:100]).score(X[100:], y[100:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GaussianProcess._parameter_constraints,
        "optimizer": [
            StrOptions({"auto", "leave-one-out", *get_args(OptimizerName)}),
            LikelihoodSearch,
            None,
        ],
        "likelihood": [StrOptions(set(get_args(LikelihoodName)))],
        "calibration": [StrOptions({"leave-one-out"}), None],
    }

    _predicted: ClassVar[Literal["mean", "decision"]] = "decision"

    classes_: NDArray[Any]
    likelihood_: ChosenName
    _declared_classes: NDArray[Any] | None
    _calibration: Readout | None
    """None for rows that came or went since; not there without a calibration."""

    def __init__(
        self,
        kernel: Any = None,
        *,
        noise: float | ArrayLike = 0.1,
        noise_bounds: Bounds = (1e-6, 1e12),
        optimizer: OptimizerOption = "auto",
        solver: SolverName | Solver = "auto",
        tol: float = 1e-4,
        variance: VarianceName | Fine = "auto",
        n_bins: int | Bins | None = None,
        random_state: int | np.random.RandomState | None = None,
        likelihood: LikelihoodName = "auto",
        calibration: Literal["leave-one-out"] | None = "leave-one-out",
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.noise_bounds = noise_bounds
        self.optimizer = optimizer
        self.solver = solver
        self.tol = tol
        self.variance = variance
        self.n_bins = n_bins
        self.random_state = random_state
        self.likelihood = likelihood
        self.calibration = calibration
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---- labels, and rows that come and go -----------------------------------------------------

    def _read_rows(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> TrainingRows:
        y, sample_weight = in_memory(y), in_memory(sample_weight)
        checked = _doors.rows_to_fit(self, X, y, reset=reset)
        labels = checked_labels(checked[1])
        given = check_weights(sample_weight, labels)
        given = times_class_weights(given, self.class_weight, *given.rows(labels))
        rows, _ = self._rows_with_weight(given, (X, y), checked, reset=reset)
        (labels,) = given.rows(labels)
        return TrainingRows(rows, labels, given.weights, None, given.copies)

    def _learn(self, rows: TrainingRows, declared: ArrayLike | None = None) -> None:
        self.__dict__.pop("_calibration", None)
        self._declared_classes = declared_with(None, declared, rows.Y, [])
        super()._learn(rows)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike | Matrix,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows, of known and of new classes; on an error nothing changes.

        The first call on an estimator without data is `fit`, hyper-parameters included. Later calls
        keep the hyper-parameters. Their posterior equals that of a fit on all rows with the same
        hyper-parameters, to the tolerance of the solver. Sorted columns, factors and
        preconditioners are carried over. The calibration is learned again when it is next needed.

        Parameters
        ----------
        {rows}
        y : array-like of shape (n_samples,)
            Class labels.
        {classes}
        {further_weights}

        {self}

        Raises
        ------
        ValueError
            As `fit`. If `X` has other columns than the data before. If labels are neither in
            `classes` nor known, or of another type. With ``class_weight="balanced"``, which needs
            all rows at once.

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
        if not weighs_nothing(sample_weight, X):
            refuse_balanced(self.class_weight)
        return self._fit_further(X, y, sample_weight, classes)

    def _add(self, rows: TrainingRows, declared: ArrayLike | None = None) -> None:
        known = self._declared_classes, declared, rows.Y, [self.classes_]
        self._declared_classes = declared_with(*known)
        of_one_type(self.classes_, rows.Y)
        super()._add(rows)

    def _standardised(
        self, targets: NDArray[Any], start: Array | None
    ) -> tuple[Array, Array | None]:
        classes = classes_of(type(self).__name__, self._declared_classes, targets)
        if start is not None:
            start = weights_to_start_from(classes, self.classes_, start)
        self.classes_ = classes
        return targets_of(targets, classes), start

    def _targets_given(self) -> NDArray[Any]:
        return best_class(self.Y_fit_, self.classes_)

    def _units(self) -> Array:
        n_classes = len(self.classes_)
        return np.ones(1 if n_classes == 2 else n_classes)

    def _learn_readouts(self, posterior: Posterior, Y: Array) -> dict[str, Readout]:
        if self.calibration is None:
            self.__dict__.pop("_calibration", None)
        elif "_calibration" in self.__dict__:
            # Rows have come or gone. Many may before anybody asks.
            self._calibration = None
        else:
            self._calibration = self._calibrated(posterior, Y)
        return self._readouts(self.__dict__)

    def _calibrated(self, posterior: Posterior, Y: Array) -> Readout:
        """Return what makes logits of the posterior mean, by rows that are left out."""
        labels, weights = index_of_best(Y), self.sample_weight_fit_
        classes, fit = self._classes(self.__dict__), self._fit_of(posterior, Y)
        if posterior.is_factorised:
            scores = self._scores_left_out(fit)
        else:
            scores, rows = classes.held_out(fit, self._seed)
            labels, weights = labels[rows], rows_of(weights, rows)
        # Where the level is open, scores are centred already.
        is_open = isinstance(posterior.system.kernel, WithLevel)
        known = {"offset_std": 0.3, "centred": True} if is_open else classes.calibration
        return fit_calibration(scores, labels, **known, weights=weights)

    def _fit_of(self, posterior: Posterior, Y: Array) -> FittedClasses:
        """Return what rows that are left out are predicted from."""
        modes = self.__dict__.get("_modes")
        weights, stays = self.sample_weight_fit_, self._stays
        return FittedClasses(posterior, Y, self._level(Y), weights, stays, modes)

    def _scores_left_out(self, fit: FittedClasses) -> Array:
        """Return posterior means of targets, less their level, of each row by a fit without it."""
        posterior, Y = fit.posterior, fit.Y - fit.level
        terms, bound = self._asked.terms, posterior.bound
        if isinstance(posterior.system.kernel, WithLevel):
            # What opens the level learns one noise and one amplitude for all classes.
            return centred_leave_one_out_of(posterior.system, Y)
        asked = None if terms is None else terms.pairs
        has_pairs = isinstance(bound, MinimaBound) and bound.pairs is not None
        if asked is not None and asked.are_found and has_pairs and len(Y) <= MOST_ROWS:
            problem = self._problem(bound.X, Y, fit.weights)
            return scores_without_pairs_of(problem, asked, posterior)
        return self._classes(self.__dict__).left_out(fit)

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
        """The pair ``(matrix, offset)`` that turns posterior means into logits."""
        state = self._answering()
        if "_calibration" not in state:
            raise AttributeError('calibration_ needs a fit with calibration="leave-one-out".')
        found: Readout = state["_posterior"].readouts["decision"]
        return found

    def _readouts(self, state: dict[str, Any]) -> dict[str, Readout]:
        mean = Readout(np.eye(len(self._units())), self._level(state["Y_fit_"]))
        known = state.get("_calibration", mean)
        return {"mean": mean} if known is None else {"mean": mean, "decision": known}

    # ---- what classes are ----------------------------------------------------------------------

    def _classes(self, state: dict[str, Any]) -> CodedClasses | LatentClasses:
        """Return what ties the classes of a fit to latent functions."""
        name = state["likelihood_"]
        return CodedClasses() if name == "gaussian" else LatentClasses(name, self.tol)

    @property
    def _latent(self) -> LatentClasses | None:
        """What gives classes a probability; None for targets with noise."""
        classes = self._classes(self.__dict__)
        return classes if isinstance(classes, LatentClasses) else None

    def _fit_targets(self, X: Any, Y: Array) -> None:
        self.likelihood_ = self._likelihood_for(Y)
        super()._fit_targets(X, Y)

    def _likelihood_for(self, Y: Array) -> ChosenName:
        """Return the likelihood that is asked for, or suits."""
        foreign, n_outputs = self._what_asks_for_gaussian(), Y.shape[1]
        # The difference of two functions is the function of two classes.
        of_classes: ChosenName = "bernoulli" if n_outputs == 1 else "softmax"
        if self.likelihood in ("bernoulli", "softmax"):
            if foreign:
                raise ValueError(
                    f"likelihood={self.likelihood!r} cannot be combined with {foreign}: choose "
                    "likelihood='gaussian', or leave that out."
                )
            return "bernoulli" if self.likelihood == "bernoulli" else of_classes
        n, asked = len(Y), self._asked
        of_many = n >= _MIN_ROWS and n_outputs <= _MAX_CLASSES and n**3 * n_outputs <= _MAX_CUBES
        few = n <= _MAX_ROWS if n_outputs == 1 else of_many
        suits = (
            self.likelihood == "auto"
            and asked.terms is not None
            and not foreign
            and few
            and self.calibration is not None
            and asked.learns_noise
            and not is_fixed(asked.scale.value_bounds)
            and asked.solver.name in ("auto", "cholesky")
        )
        return of_classes if suits else "gaussian"

    def _what_asks_for_gaussian(self) -> str:
        """Name the parameter that only regression of targets knows."""
        terms = self._asked.terms
        if terms is not None and terms.intercept_variance != "auto":
            return f"intercept_variance={terms.intercept_variance!r}"
        if terms is not None and terms.levels is not None and terms.monotonic_cst is not None:
            return "monotonic_cst"
        if terms is not None and terms.has_pairs:
            return "Interactions"
        if self._asked.search.shared is False:
            return "a LikelihoodSearch of shared=False"
        if self._asked.solver.name == "coordinate-descent":
            return "solver='coordinate-descent'"
        return ""

    def _leaves_out(self) -> bool:
        suits = self._asked.kernel.classes_by == "leave-one-out"
        if self.optimizer == "leave-one-out" and not suits:
            raise ValueError(
                'optimizer="leave-one-out" is for kernels of coordinates of covariances, Tangent '
                'and LogEuclidean: choose one of these, or optimizer="l-bfgs-b".'
            )
        return suits and self._latent is None and self.optimizer in ("auto", "leave-one-out")

    def _level(self, Y: Array) -> Array:
        """Return what the targets of the posterior are less, a number for each output."""
        return self._level_of_regression(Y) if self._latent is None else self._modes.bias

    def _level_of_regression(self, Y: Array) -> Array:
        if not self.kernel_.leaves_level:
            return super()._level_of_regression(Y)
        means: Array = np.average(Y, axis=0, weights=self.sample_weight_fit_)
        return means

    def _systems_to_solve(self, systems: list[System], Y: Array) -> list[System]:
        latent, amplitude = self._latent, systems[0].amplitude
        if latent is None:
            return systems
        asked = check_bounds("amplitude", self._asked.scale.value_bounds)
        if not self._asked.keeps_hyperparameters and not isinstance(asked, str):
            problem = self._problem(systems[0].X, Y, self.sample_weight_fit_)
            amplitude = latent.chosen_amplitude(problem, systems[0].kernel, asked)
        return [base_of(systems[0], amplitude)]

    # ---- answers -----------------------------------------------------------------------------

    @in_precision_of_rows
    def decision_function(self, X: ArrayLike | Matrix) -> Array:
        """Return the scores by which classes are predicted.

        With `calibration`, they are the logits of the probabilities. Without it, they are the
        posterior mean of the targets (eq. 2 of Rodner et al., 2016). `latent_mean_and_variance`
        returns that mean in either case.

        Parameters
        ----------
        {rows}

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive for ``classes_[1]``.
        """
        X, state = self._check_rows_of_means(X), self._answering()
        return self._shaped(self._read(state, "decision", X))

    @overload
    def predict(
        self, X: ArrayLike | Matrix, return_std: Literal[False] = False
    ) -> NDArray[Any]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, return_std: Literal[True]
    ) -> tuple[NDArray[Any], Array]: ...
    @in_precision_of_rows
    def predict(
        self, X: ArrayLike | Matrix, return_std: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], Array]:
        """Predict class labels, and on request how uncertain the model's outputs are.

        Parameters
        ----------
        {rows}
        return_std : bool, default=False
            Whether to return the predictive standard deviation too, computed as the parameter
            `variance` says.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The most probable classes.
        std : ndarray of shape (n_samples,), or (n_samples, n_outputs)
            Only with `return_std`: square root of eq. 3 of Rodner et al. (2016), noise included;
            one for all outputs unless each has its own hyper-parameters.
        """
        check = self._check_test if return_std else self._check_rows_of_means
        X, state = check(X), self._answering()
        labels = best_class(self._read(state, "decision", X), state["classes_"])
        if not return_std:
            return labels
        return labels, self._spread(state, np.sqrt(self._predictive_variance(state, X)))

    @in_precision_of_rows
    def predict_proba(self, X: ArrayLike | Matrix) -> Array:
        r"""Return class probabilities.

        With ``calibration="leave-one-out"`` they are :math:`\mathrm{softmax}(T \mu + W^T \mu + b)`
        of the posterior means :math:`\mu`. Temperature `T`, matrix `W` and offsets `b` maximise the
        likelihood of the training labels, each predicted by a fit without its row. Probabilities
        take no more time than means.

        With ``calibration=None`` they are the probabilities of the model, whose targets are latent
        functions plus Gaussian noise. Only target vectors with a single +1 can occur. The
        probabilities are therefore

        .. math:: P(c \mid x) \propto \prod_k \mathcal N(t_{ck}; \mu_k, \sigma_k^2)
                  \propto \exp(2 \mu_c / \sigma_c^2),

        where :math:`t_c` is +1 at `c` and -1 elsewhere, and :math:`\sigma_c^2` are the predictive
        variances (eq. 3 of Rodner et al., 2016). On classes that are easily told apart, these are
        too certain.

        Parameters
        ----------
        {rows}

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.
        """
        check = self._check_test if self.calibration is None else self._check_rows_of_means
        X, state = check(X), self._answering()
        logits = self._read(state, "decision", X)
        if self.calibration is None:
            latent = self._latent_variance(state, X)
            return self._classes(state).probabilities(state["_posterior"], logits, latent)
        probabilities: Array = softmax(logits_of_classes(logits), axis=1)
        return probabilities

    def _spread(self, state: dict[str, Any], std: Array) -> Array:
        return self._shaped(std)

    def _shaped(self, columns: Array) -> Array:
        return columns[:, 0] if columns.shape[1] == 1 else columns
