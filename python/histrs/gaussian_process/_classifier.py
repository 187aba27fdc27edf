"""Gaussian process classification by label regression."""

from numbers import Number
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, column_or_1d

from histrs._labels import best_class, checked_labels
from histrs._solvers.block_cg import Array
from histrs._validation import Matrix, canonical, validate_fit
from histrs.gaussian_process._base import BaseIntersectionGP
from histrs.gaussian_process._calibration import fit_calibration
from histrs.gaussian_process._hyperparameters import Bounds, WeightsName
from histrs.gaussian_process._kernel import TransformName
from histrs.gaussian_process._leave_one_out import held_out, leave_one_out
from histrs.gaussian_process._likelihood import LogDetName
from histrs.gaussian_process._online import insert_rows, left_over, remove_rows, rows_to_forget
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.gaussian_process._posterior import Posterior, Readout
from histrs.gaussian_process._state import replaced_whole
from histrs.gaussian_process._system import KernelSystem, PreconditionerName, SolverName
from histrs.gaussian_process._variance import VarianceName

# Part of the rows that may come and go before the calibration is learned anew.
_STALE = 0.1


class IntersectionGPClassifier(ClassifierMixin, BaseIntersectionGP):
    r"""Exact Gaussian process classifier with the histogram intersection kernel.

    One-vs-all label regression (section 3.3 of [1]_): for every class a Gaussian process with
    covariance

    .. math:: \mathrm{amplitude} \sum_d w_d \min(g(x(d)), g(x'(d))) + \mathrm{noise}\,[x = x']

    is fitted to targets +1 for the class and -1 for all others, and the class of largest
    posterior mean is predicted. The solution is exact: all classes are solved together by
    preconditioned block conjugate gradients on the sorted columns of the data, in memory linear in
    the number of stored values. Hyper-parameters are those of largest marginal likelihood, summed
    over the classes (section 6), unless `optimizer` is None.

    Parameters
    ----------
    noise : float or array-like of shape (n_outputs,), default=0.1
        Variance of the noise on the targets, where the search for it starts; an array, one for
        each output, where these do not share it. Without a search, features whose rows sum to much
        more than 1 ask for a smaller `amplitude` or a larger `noise`.
    amplitude : float or array-like of shape (n_outputs,), default=1.0
        Variance that multiplies the kernel, likewise.
    tol : float, default=1e-4
        A class is solved when no entry of its residual is larger (section 5.1 of [1]_).
    max_iter : int, default=1000
        Most iterations of the solver; a ConvergenceWarning says when they did not suffice.
    preconditioner : {"auto", "knots", "pivoted-cholesky"} or None, default="auto"
        "knots" projects every column on some of its values, which keeps the iterations flat in
        the number of rows; it suits few columns. "pivoted-cholesky" is a low-rank approximation,
        for many columns. "auto" chooses by the number of columns.
    n_bins : int or None, default=None
        Cells a column of the look-up table that predicts in constant time (section 4.2 of [1]_);
        None predicts exactly. `quantization_error_bound_` certifies the difference.
    interpolation : {"linear", "nearest"}, default="linear"
        What a cell holds: a line between two training values, or the paper's
        constant at the nearest of `n_bins` evenly spaced values.
    solver : {"auto", "cg", "cholesky", "coordinate-descent", "greedy-block"}, default="auto"
        "cg" never forms the kernel matrix; "cholesky" stores and factorises it, which is
        cheaper for few rows; "auto" estimates which is. The other two are what the paper compares
        with (section 9.5), and slower: coordinate descent on tables (Wu, 2010) and greedy block
        coordinate descent (Bo and Sminchisescu, 2012). Their iterations are passes over the rows,
        and they take no preconditioner.
    feature_transform : {"identity", "power", "exponential"}, default="identity"
        Increasing function `g` of every feature (section 4.3 of [1]_): "power" is
        ``x ** exponent`` (eq. 15), "exponential" ``expm1(exponent * x) / expm1(exponent)``
        (eq. 16).
    exponent : float, default=1.0
        Exponent of the transform, where the search for it starts.
    feature_weights : {"scale", "relevance", "ard"}, array-like of shape (n_features,) or None
        Weights `w` of the features (eq. 17). "scale" is 1 over the spread of each column, a
        standard deviation that a few outliers do not move, so that the units of columns do not
        matter. None is 1 for all: then a column of large numbers carries the kernel, as histograms
        want it that share a unit. "relevance" learns them, from "scale" and from 2,048 rows at
        most: each step multiplies a weight by what the likelihood asks for, and held-out rows say
        after how many to stop, which may be none; for many features of which few matter. "ard"
        (automatic relevance determination) follows the likelihood to its end, which overfits where
        features are many. By default "scale".
    optimizer : {"l-bfgs-b", "nelder-mead"} or None, default="l-bfgs-b"
        How hyper-parameters of largest marginal likelihood are searched for. "l-bfgs-b" follows
        gradients, "nelder-mead" is the paper's simplex. Both start at the given values and end at
        those with a trailing underscore. None keeps what is given.
    log_det : {"lanczos", "bound"}, default="lanczos"
        The log-determinant in the likelihood. "lanczos" estimates it by stochastic Lanczos
        quadrature, or takes it from the Cholesky factor up to 2048 rows and with
        ``solver="cholesky"``. "bound" is the paper's upper bound (eq. 23), which is looser and
        has no gradient.
    shared_hyperparameters : bool or None, default=None
        Whether all classes share one noise and one amplitude. None is True: they come
        from the same rows and are of one size.
    noise_bounds, amplitude_bounds, exponent_bounds, feature_weights_bounds : pair or "fixed"
        Least and greatest value in the search; "fixed" leaves a hyper-parameter as given.
    n_restarts_optimizer : int, default=0
        Further searches, from starts drawn between the bounds; the best is kept.
    variance : {"auto", "exact", "cached", "fine", "coarse", "coarse-quantized"}, default="auto"
        How the posterior variance of a row is computed, for whatever needs it. ``"exact"`` takes a
        solve, which is cheap where the system was factorised. ``"cached"`` takes a score with a
        hundred outputs, from directions that are found once, corrected by rows that are solved
        exactly; `std_error_` is what its standard deviations are off by. ``"auto"`` is
        ``"exact"`` where the system was factorised, else ``"cached"``. The others are bounds
        above: ``"fine"`` (FAPU, eq. 29) takes a kernel vector and `n_eigenvectors` projections,
        ``"coarse"`` (CAPU, eq. 30) one score of squared features, ``"coarse-quantized"`` (q-CAPU)
        one look-up a feature, in a table of `n_bins` cells, or of 100 when that is None. The last
        two are often two to three times too large.
    n_eigenvectors : int, default=2
        Eigenvectors of the kernel matrix for ``variance="fine"``: with more, it comes nearer.
    random_state : int, RandomState or None, default=0
        Random vectors of the Lanczos quadrature, the same for all hyper-parameters, and starts.
    warm_start : bool, default=False
        Start from the previous weights when `fit` is called again with as many rows and classes.
    calibration : {"leave-one-out"} or None, default="leave-one-out"
        What scores and probabilities are made of. "leave-one-out" fits a temperature, couplings
        and offsets to what the model predicts of training rows without each: in closed form where
        the system was factorised, else by fits without a tenth of the rows at a time. None leaves
        the posterior as it is, whose probabilities are too certain.
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean one a core. Results do not depend on it.
    verbose : int, default=0
        Above 0, a progress bar (tqdm where installed, lines on stderr where not).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    X_fit_ : {ndarray, CSR matrix} of shape (n_samples, n_features)
        The training histograms.
    Y_fit_ : ndarray of shape (n_samples, n_outputs)
        The targets, +1 for the class of an output and -1 for others.
    noise_, amplitude_ : float, or ndarray of shape (n_outputs,)
        Variances of the fit, for targets -1 and +1; arrays where classes do not share them.
    exponent_ : float
        Exponent of the fit.
    calibration_ : tuple of ndarray
        With `calibration`: ``(matrix, offset)``, which turn posterior means into logits.
    std_error_ : float
        Mean relative error of standard deviations, measured on training rows, each without itself;
        0 where they are exact.
    feature_weights_ : ndarray of shape (n_features,)
        Weights of the features.
    feature_transform_ : str
        The transform of the fit.
    theta_ : ndarray of shape (n_hyperparameters,)
        Logarithms of the hyper-parameters that are not fixed: noise, amplitude, the exponent of a
        transform, and feature weights with "ard".
    optimization_history_ : dict of ndarray
        After a search: ``log_marginal_likelihood`` and every hyper-parameter of each evaluation.
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        The weights alpha of eq. 2; one output for two classes, else one a class.
    n_iter_ : ndarray of shape (n_outputs,)
        Iterations until each output was solved; 1 when the matrix was factorised.
    residual_ : ndarray of shape (n_outputs,)
        Largest absolute entry of `Y - (amplitude K + noise I) alpha`.
    quantization_error_bound_ : ndarray of shape (n_outputs,)
        With `n_bins`: a number that `|score - exact score|` never exceeds, for any histogram;
        scores are what `decision_function` returns.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, when `X` had string column names.

    See Also
    --------
    IntersectionGPRegressor : The same for real targets.

    Notes
    -----
    The paper's Theorem 1 bounds the error of the table by ``D eps |alpha|_1 / 2``. Its factor one
    half needs rounding to keep the norm of the histogram, which it does not in general; the bound
    here is measured on the tabulated functions themselves and holds always.

    The bound of eq. 19 needs a number at or above the largest eigenvalue. Arnoldi and Lanczos
    values, which the paper takes, lie below it, so that their "bound" is none. Here that number is
    the largest ratio of an entry of `A v` to that of a positive `v` near the eigenvector (Collatz
    and Wielandt), which is one for certain as no entry of the kernel matrix is negative.

    The paper calls gradients too costly. The derivative by the logarithm of a feature's weight is
    a sum of quadratic forms in that feature's kernel matrix, and one pass over the sorted columns
    gives those of all features, so that thousands of weights can be learned.

    References
    ----------
    .. [1] E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
       process inference with generalized histogram intersection kernels for visual recognition
       tasks", International Journal of Computer Vision, 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from histrs.gaussian_process import IntersectionGPClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = IntersectionGPClassifier().fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.93
    True
    >>> bool(0.05 < model.noise_ < 0.2), bool(0.001 < model.amplitude_ < 0.02)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseIntersectionGP._parameter_constraints,
        "calibration": [StrOptions({"leave-one-out"}), None],
    }
    _predicted = "decision"
    _declared_classes: NDArray[Any] | None
    _calibrated_on: tuple[NDArray[Any], int] | None
    """Classes and number of rows of the last calibration."""

    def __init__(
        self,
        *,
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        preconditioner: PreconditionerName = "auto",
        n_bins: int | None = None,
        interpolation: Literal["linear", "nearest"] = "linear",
        solver: SolverName = "auto",
        feature_transform: TransformName = "identity",
        exponent: float = 1.0,
        feature_weights: WeightsName | ArrayLike | None = "scale",
        optimizer: OptimizerName | None = "l-bfgs-b",
        log_det: LogDetName = "lanczos",
        shared_hyperparameters: bool | None = None,
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        exponent_bounds: Bounds = (0.05, 20.0),
        feature_weights_bounds: Bounds = (1e-6, 1e6),
        n_restarts_optimizer: int = 0,
        variance: VarianceName = "auto",
        n_eigenvectors: int = 2,
        random_state: int | np.random.RandomState | None = 0,
        warm_start: bool = False,
        calibration: Literal["leave-one-out"] | None = "leave-one-out",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            noise=noise,
            amplitude=amplitude,
            tol=tol,
            max_iter=max_iter,
            preconditioner=preconditioner,
            n_bins=n_bins,
            interpolation=interpolation,
            solver=solver,
            feature_transform=feature_transform,
            exponent=exponent,
            feature_weights=feature_weights,
            optimizer=optimizer,
            log_det=log_det,
            shared_hyperparameters=shared_hyperparameters,
            noise_bounds=noise_bounds,
            amplitude_bounds=amplitude_bounds,
            exponent_bounds=exponent_bounds,
            feature_weights_bounds=feature_weights_bounds,
            n_restarts_optimizer=n_restarts_optimizer,
            variance=variance,
            n_eigenvectors=n_eigenvectors,
            random_state=random_state,
            warm_start=warm_start,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.calibration = calibration

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | Matrix, y: ArrayLike) -> Self:
        """Fit the model; when it raises, the estimator is as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an entry of `X` is negative, NaN or infinite (the message names it), the lengths
            differ, or there are fewer than two classes.
        """
        with replaced_whole(self) as draft:
            X, y = validate_fit(draft, X, y)
            labels = checked_labels(y)
            draft._declared_classes = draft._calibrated_on = None
            draft._set_classes(labels)
            draft._fit_targets(canonical(X), draft._targets(labels), shared=True)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, classes: ArrayLike | None = None
    ) -> Self:
        """Add rows, of known and of new classes; when it raises, the estimator is as it was.

        The first call on an estimator without data is `fit`, hyper-parameters included. Later
        calls keep the hyper-parameters, and their posterior is that of a fit on all rows with
        these, to the tolerance of the solver. They merge the sorted columns, carry the Cholesky
        factor or the preconditioner over, and start from the weights that there are. The
        calibration is learned anew with new classes, or when a tenth of the rows has changed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite. They come behind the rows of earlier calls.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            Labels that the model keeps whether it has rows of them or not, beside those that it
            keeps already; `y` must then have no others. None lets the classes be those of the rows.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`; if `X` has other columns than the data before; if labels are neither in
            `classes` nor known, or of another type.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from histrs.gaussian_process import IntersectionGPClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = IntersectionGPClassifier().fit(X[:500], y[:500])
        >>> before = model.score(X[1000:], y[1000:])
        >>> model.partial_fit(X[500:1000], y[500:1000]).score(X[1000:], y[1000:]) > before
        True
        """
        with replaced_whole(self) as draft:
            first = not self.__sklearn_is_fitted__()
            X, y = validate_fit(draft, X, y, reset=first)
            X, labels = canonical(X), checked_labels(y)
            if first:
                draft._declared_classes = draft._calibrated_on = None
                draft._declare(classes, labels, known=[])
                draft._set_classes(labels)
                draft._fit_targets(X, draft._targets(labels), shared=True)
                return self
            before = draft.classes_, draft._class_weights()
            draft._declare(classes, labels, known=[draft.classes_])
            labels = _of_one_type(best_class(draft.Y_fit_, draft.classes_), labels)
            draft._set_classes(labels)
            Y = draft._targets(labels)
            weights = draft._weights_to_start_from(*before)
            weights = np.vstack([weights, np.zeros((X.shape[0], weights.shape[1]))])
            systems = draft._changed_systems(lambda system: insert_rows(system, X, Y.shape[1]))
            draft._solve_targets(_one_an_output(systems, Y.shape[1]), Y, weights)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def forget(self, indices: ArrayLike) -> Self:
        """Remove training rows; when it raises, the estimator is as it was.

        The hyper-parameters stay, and the posterior is that of a fit on the other rows with these,
        to the tolerance of the solver; the calibration is as with `partial_fit`. A class whose
        last row goes is a class no more, unless `partial_fit` was given it in `classes`.

        Parameters
        ----------
        indices : array-like of int
            Which rows of `X_fit_`, counted from 0, each once. Those behind them move up.

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
            removed = rows_to_forget(indices, len(draft.Y_fit_))
            if len(removed) == 0:
                return self
            kept = left_over(len(draft.Y_fit_), removed)
            before = draft.classes_, draft._class_weights()[kept]
            labels = best_class(draft.Y_fit_, draft.classes_)[kept]
            draft._set_classes(labels)
            Y = draft._targets(labels)
            weights = draft._weights_to_start_from(*before)
            systems = draft._changed_systems(
                lambda system: remove_rows(system, removed, Y.shape[1])
            )
            draft._solve_targets(_one_an_output(systems, Y.shape[1]), Y, weights)
        return self

    def decision_function(self, X: ArrayLike | Matrix) -> Array:
        """Return the scores by which classes are predicted.

        With `calibration` they are the logits of the probabilities, else the posterior mean of the
        targets (eq. 2), which `latent_mean_and_variance` returns in either case.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive for ``classes_[1]``.
        """
        X, state = self._check_test(X), self._state()
        return _one_or_each(self._read(state, "decision", X))

    @overload
    def predict(
        self, X: ArrayLike | Matrix, return_std: Literal[False] = False
    ) -> NDArray[Any]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, return_std: Literal[True]
    ) -> tuple[NDArray[Any], Array]: ...
    def predict(
        self, X: ArrayLike | Matrix, return_std: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], Array]:
        """Predict class labels, and on request how uncertain the model's outputs are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.
        return_std : bool, default=False
            Whether to return the predictive standard deviation too, computed as the parameter
            `variance` says.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The most probable classes.
        std : ndarray of shape (n_samples,), or (n_samples, n_outputs)
            Only with `return_std`: square root of eq. 3, noise included; one for all outputs unless
            each has its own hyper-parameters.
        """
        X, state = self._check_test(X), self._state()
        labels = best_class(self._read(state, "decision", X), state["classes_"])
        if not return_std:
            return labels
        return labels, self._spread(state, np.sqrt(self._predictive_variance(state, X)))

    def predict_proba(self, X: ArrayLike | Matrix) -> Array:
        r"""Return class probabilities.

        With ``calibration="leave-one-out"`` they are
        :math:`\mathrm{softmax}(T \mu + W^T \mu + b)` of the posterior means :math:`\mu`, with a
        temperature, couplings and offsets that make the labels of training rows likely, each
        predicted by a fit without it. They take no longer than the means.

        With ``calibration=None`` they are what the model says without further fitting: the targets
        of a row are its latent functions plus Gaussian noise. Of all target vectors only those with
        a single +1 can occur, so that with the predictive variances :math:`\sigma_c^2` of eq. 3

        .. math:: P(c \mid x) \propto \prod_k \mathcal N(t_{ck}; \mu_k, \sigma_k^2)
                  \propto \exp(2 \mu_c / \sigma_c^2),

        where `t_c` is +1 at `c` and -1 elsewhere. On classes that are easily told apart, these are
        too certain.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.
        """
        X, state = self._check_test(X), self._state()
        logits = self._read(state, "decision", X)
        if self.calibration is None:
            logits = 2.0 * logits / self._predictive_variance(state, X)
        if logits.shape[1] == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        probabilities: Array = softmax(logits, axis=1)
        return probabilities

    def latent_mean_and_variance(self, X: ArrayLike | Matrix) -> tuple[Array, Array]:
        """Return mean and variance of the latent functions, without the noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Eq. 2.
        variance : ndarray of shape (n_samples,), or (n_samples, n_outputs)
            Eq. 3 without the noise variance; one for all outputs unless each has its own
            hyper-parameters.
        """
        X, state = self._check_test(X), self._state()
        mean = _one_or_each(self._read(state, "mean", X))
        return mean, _one_or_each(self._latent_variance(state, X))

    def _predictive_variance(self, state: dict[str, Any], X: Matrix) -> Array:
        variance: Array = self._latent_variance(state, X) + state["_posterior"].noise
        return variance

    def _spread(self, state: dict[str, Any], std: Array) -> Array:
        return _one_or_each(std)

    # ---- probabilities -----------------------------------------------------------------------

    def _units(self) -> Array:
        n_classes = len(self.classes_)
        return np.ones(1 if n_classes == 2 else n_classes)

    def _learn_readouts(self, posterior: Posterior, Y: Array) -> dict[str, Readout]:
        if self.calibration is None:
            self.__dict__.pop("calibration_", None)
            self._calibrated_on = None
            return self._readouts(self.__dict__)
        if self._calibrated_on is not None:
            classes, n_rows = self._calibrated_on
            changed = abs(len(Y) - n_rows)
            if np.array_equal(classes, self.classes_) and changed <= _STALE * n_rows:
                return self._readouts(self.__dict__)
        self._calibrated_on = self.classes_, len(Y)
        labels = (Y[:, 0] > 0).astype(np.intp) if Y.shape[1] == 1 else np.argmax(Y, axis=1)
        if posterior.is_factorised:
            scores, _ = leave_one_out(posterior, Y)
        else:
            scores, rows = held_out(posterior, Y, labels, self._seed)
            labels = labels[rows]
        self.calibration_ = fit_calibration(scores, labels)
        return self._readouts(self.__dict__)

    def _readouts(self, state: dict[str, Any]) -> dict[str, Readout]:
        n_outputs = len(self._units())
        mean = Readout(np.eye(n_outputs), np.zeros(n_outputs))
        return {"mean": mean, "decision": state.get("calibration_", mean)}

    # ---- classes and their targets -----------------------------------------------------------

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
                "IntersectionGPClassifier needs samples of at least 2 classes, but y contains "
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


def _one_or_each(columns: Array) -> Array:
    """Return what there is one of for every row as a vector, and one for each output as it is."""
    return columns[:, 0] if columns.shape[1] == 1 else columns


def _one_an_output(systems: tuple[KernelSystem, ...], n_outputs: int) -> tuple[KernelSystem, ...]:
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
