"""Classification on learned projections."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length

from histrs._docs import documented
from histrs._labels import checked_labels, classes_of
from histrs._row_weights import (
    ClassWeight,
    check_weights,
    in_units_of_mean,
    refuse_balanced,
    times_class_weights,
)
from histrs._solvers.block_cg import Array
from histrs._threads import blas_threads_at_most
from histrs._validation import NameOptions, validate_targets
from histrs.gaussian_process._classifier import IntersectionGPClassifier
from histrs.gaussian_process._docs import SLICED_GP
from histrs.gaussian_process._posterior import Interpolation
from histrs.gaussian_process._precision import in_precision_of_rows
from histrs.gaussian_process._row_weights import roots
from histrs.gaussian_process._sliced.base import (
    EXACT_ROWS,
    INNER_SEED,
    LEARNING_ROWS,
    MANY_ROWS,
    SEARCHED_ROWS,
    BaseSlicedGP,
    distinct_rows,
)
from histrs.gaussian_process._sliced.classes import KernelName, LearnedClasses, learn_class_metric
from histrs.gaussian_process._sliced.columns import Columns
from histrs.gaussian_process._sliced.matern import (
    SOLVERS,
    VARIANCES,
    Coordinates,
    LearnedMatern,
    MaternGPClassifier,
    most_rows,
)
from histrs.gaussian_process._sliced.metrics import MetricName, first_metric
from histrs.gaussian_process._state import replaced_whole
from histrs.gaussian_process._system import SolverName
from histrs.gaussian_process._variance import VarianceName

# A metric that is learned in more steps predicts no better.
_MAX_STEPS = 2
# Rows up to which many projections cost little.
_FEW_ROWS = 32_768
# By more rows than it is chosen by, the Matérn kernel gains more than slices do, most of all where
# classes are many: it may be a little worse on those.
_LIKE_MATERN = 0.97
# Less noise tells classes apart no better, and takes many more iterations.
_NOISE_BOUNDS = (1e-3, 1e12)


@documented(SLICED_GP)
class SlicedGPClassifier(ClassifierMixin, BaseSlicedGP):
    r"""Gaussian process classifier for tables, with all interactions and calibrated probabilities.

    The kernel is 0.7 times the energy-distance kernel of random projections in a learned metric,
    and 0.3 times the additive one of the columns, each of one size; see `SlicedGPRegressor`. For
    every class a Gaussian process is fitted to targets +1 and -1, with the noise and amplitude of
    largest likelihood, and the scores are calibrated by leaving each training row out. From
    1,000 rows on, a metric and interactions, pairs of columns with directions of their own, are
    learned from two thirds of them, by at most two steps, as many as the other third's log loss
    asks for; interactions then have half of the projections' share.

    Where those rows are predicted better so, the kernel is Matérn's of smoothness 3/2 instead, of
    distances in that metric (Rasmussen and Williams, 2006, eq. 4.17),

    .. math:: k(x, y) = (1 + r) e^{-r}, \qquad
              r^2 = \frac{3}{\ell^2} (x - y)^T G \, (x - y),

    with 0.6 of the root mean squared distance of rows as the length scale. It tells many classes of
    many rows apart better, and its cost grows with the square of the number of rows.

    Parameters
    ----------
    kernel : {"auto", "sliced", "matern"}, default="auto"
        "sliced" is the kernel of projections, "matern" that of distances: by a Cholesky factor up
        to 8,192 rows, then by conjugate gradients on two bytes a pair of rows, up to 65,536 rows
        and half of the memory. "auto" chooses by the log loss of the third of the rows that the
        metric is not learned from, and of the others by leaving each out; with three classes or
        more, or above 8,192 rows, "matern" may be 3 % worse there, since it gains more by further
        rows. It is "sliced" of less than 1,000 rows, or where another parameter is given that asks
        for projections: `n_projections`, `n_bins`, one of the other solvers or variances, a
        `metric` that is not learned.
    n_projections : "auto" or int, default="auto"
        Number of projections; "auto" takes 2,048, above 32,768 rows 1,024, and above 100,000 256.
        Above 8,192 rows, each is rounded to 255 levels. More are more exact where classes are told
        apart by many columns together.
    metric : {"learned", "identity", "pca", "whitened"}, default="learned"
        The metric of the projections. "identity" is that of standardised columns. "pca" is that of
        columns in their own units, as pixels have them, on the principal components that carry 99 %
        of the variance. "whitened" is the inverse of the covariance. "learned" starts from
        "identity" or "pca": the one that predicts rows better that it was not fitted to.
    n_metric_steps : int, default=3
        Steps of the metric that are tried, of which two at most.
    {n_interactions}
    tol : float, default=1e-4
        As for `IntersectionGPClassifier`; of the Matérn kernel at least 0.001, more than which its
        kept entries do not tell.
    {max_iter}
    solver : str, default="auto"
        As for `IntersectionGPClassifier`; of the Matérn kernel "auto", "cg" or "cholesky".
    {n_bins}
    {interpolation}
    variance : str, default="auto"
        As for `IntersectionGPClassifier`; of the Matérn kernel "auto", "cached" or "exact", which
        differ where conjugate gradients solve.
    random_state : int, RandomState instance or None, default=None
        Draws directions, and the rows that the metric is learned from, and of more than 8,192
        those that tell the noise. An int gives the same fit every time.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which those of rows are multiplied. "balanced" makes them
        inversely proportional to the classes' numbers of rows.
    {n_jobs}
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    kernel_ : {"sliced", "matern"}
        The kernel of the fit.
    length_scale_ : float
        With the Matérn kernel: its length scale.
    metric_ : ndarray of shape (n_columns, n_columns)
        The metric over the standardised columns, of trace `n_columns`.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the diagonal of `metric_`: equal ones where none was learned.
    interactions_ : list of tuple (int, int, float)
        Pairs of features that got directions of their own, with their share in the kernel; none
        with the Matérn kernel.
    {directions_}
    {offsets_}
    noise_ : float
        Noise variance of the targets +1 and -1, at least 0.001 of their variance.
    n_iter_ : ndarray of shape (n_outputs,)
        Iterations of the solver; 1 when the matrix was factorised.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, when `X` had string column names.

    See Also
    --------
    IntersectionGPClassifier : The additive model, for histograms.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from histrs.gaussian_process import SlicedGPClassifier
    >>> X_train, X_test, y_train, y_test = train_test_split(
    ...     *load_wine(return_X_y=True), random_state=0
    ... )
    >>> model = SlicedGPClassifier(random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSlicedGP._parameter_constraints,
        "kernel": [NameOptions(get_args(KernelName))],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    _piecewise_linear = 'kernel="sliced"'
    _projections_of = ((_FEW_ROWS, 2048), (MANY_ROWS, 1024))

    def __init__(
        self,
        *,
        kernel: KernelName = "auto",
        n_projections: Literal["auto"] | int = "auto",
        metric: MetricName = "learned",
        n_metric_steps: int = 3,
        n_interactions: int = 24,
        tol: float = 1e-4,
        max_iter: int = 1000,
        solver: SolverName = "auto",
        n_bins: int | None = None,
        interpolation: Interpolation = "linear",
        variance: VarianceName = "auto",
        random_state: int | np.random.RandomState | None = None,
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_projections=n_projections,
            metric=metric,
            n_metric_steps=n_metric_steps,
            n_interactions=n_interactions,
            tol=tol,
            max_iter=max_iter,
            solver=solver,
            n_bins=n_bins,
            interpolation=interpolation,
            variance=variance,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.kernel = kernel
        self.class_weight = class_weight

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the metric, and fit; when it raises, nothing changes.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows of any sign. NaN is a missing value; columns of a data frame that are no numbers
            are categories.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: the noise variance of a row is that of all, `noise_`, times the
            mean weight over its own, and it counts as much as that where probabilities are
            calibrated. A row of weight 0 is as if it were not there.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an entry is infinite, the lengths differ, a weight is negative or not finite, or
            fewer than two classes have one.
        """
        with replaced_whole(self) as draft:
            draft._fit(X, y, None, sample_weight)
        return self

    def _weighted(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> tuple[Array | None, Array, NDArray[Any]]:
        """Return weights, the rows that have one as numbers, and their labels."""
        numbers = self._read_table(X, reset=reset)
        labels = checked_labels(validate_targets(self, y))
        check_consistent_length(numbers, labels)
        given = check_weights(sample_weight, labels)
        given = times_class_weights(given, self.class_weight, *given.rows(labels))
        numbers = self._read_rows(given, X, numbers, reset=reset)
        return given.weights, numbers, *given.rows(labels)

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        declared: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> None:
        weights, numbers, labels = self._weighted(X, y, sample_weight, reset=True)
        classes = classes_of(labels)
        if len(classes) < 2 and declared is None:
            raise ValueError(
                "SlicedGPClassifier needs samples of at least 2 classes, but y contains only "
                f"one class: {classes.tolist()[0]!r}. Add samples of another one."
            )
        codes = np.searchsorted(classes, labels)
        columns = Columns(numbers)
        A = columns.apply(numbers)
        kept = distinct_rows(A, codes[:, None].astype(np.float64), weights)
        random = self._random()
        rows = kept[self._rows_to_learn_from(len(kept), SEARCHED_ROWS, random)]
        in_units, _ = in_units_of_mean(None if weights is None else weights[rows])
        learned = self._learn_metric(
            columns, A[rows], codes[rows], roots(in_units), len(kept), len(classes), random
        )
        weights = None if weights is None else weights[kept]
        if isinstance(learned, LearnedMatern):
            inner, T = self._matern(columns, learned, A[kept])
        else:
            inner, T = self._sliced(columns, learned, numbers[kept])
        most = LEARNING_ROWS if isinstance(learned, LearnedMatern) else None
        inner = self._with_scales(inner, T, labels[kept], random, most, weights)
        # On an estimator without data, as `fit`, but with declared classes.
        self._inner = inner.partial_fit(T, labels[kept], declared, weights)
        self.classes_, self.noise_, self.n_iter_ = inner.classes_, inner.noise_, inner.n_iter_

    def _learn_metric(
        self,
        columns: Columns,
        A: Array,
        codes: NDArray[np.intp],
        row_scale: Array | None,
        n_rows: int,
        n_classes: int,
        random: np.random.RandomState,
    ) -> LearnedClasses | LearnedMatern:
        """Learn the metric, and which kernel is in it, from some of `n_rows` rows."""
        kernel = self._kernel_to_try(n_rows)
        steps = min(self._n_steps(), _MAX_STEPS)
        # On matrices of this size, BLAS's threads mostly wait for one another.
        with blas_threads_at_most(1):
            others = [first_metric("pca", A, columns.spreads)] if steps > 0 else []
            return learn_class_metric(
                A,
                codes,
                metric=first_metric(self.metric, A, columns.spreads),
                others=others,
                n_directions=self._n_directions(n_rows, 1),
                n_steps=steps,
                n_interactions=self.n_interactions,
                random=random,
                n_threads=self._threads(),
                row_scale=row_scale,
                kernel=kernel,
                handicap=_LIKE_MATERN if n_rows > EXACT_ROWS or n_classes > 2 else 1.0,
            )

    def _kernel_to_try(self, n_rows: int) -> KernelName:
        """Return the kernel; "auto" where the Matérn kernel can do what is asked for."""
        possible = self.n_bins is None and self.solver in SOLVERS and self.variance in VARIANCES
        if self.kernel == "matern":
            if not possible:
                raise ValueError(
                    f'kernel="matern" has n_bins=None, a solver of {list(SOLVERS)} and a variance '
                    f'of {list(VARIANCES)}: set these, or kernel="sliced".'
                )
            if n_rows > most_rows():
                raise MemoryError(
                    f'kernel="matern" keeps two bytes for every pair of rows, of {most_rows()} '
                    f'rows at most, and there are {n_rows}: fit fewer, or set kernel="sliced".'
                )
        possible &= self.n_projections == "auto" and n_rows <= most_rows()
        return "sliced" if self.kernel == "auto" and not possible else self.kernel

    def _matern(
        self, columns: Columns, learned: LearnedMatern, A: Array
    ) -> tuple[MaternGPClassifier, Array]:
        """Return the inner model and its rows, of those with standardised columns."""
        self._keep_metric(columns, learned.G, {})
        self.kernel_, self.length_scale_ = "matern", learned.length
        self.directions_, self.offsets_ = learned.directions, np.zeros(len(learned.G))
        self._projection = projection = Coordinates(columns, self.directions_)
        inner = MaternGPClassifier(
            learned.length,
            noise_bounds=_NOISE_BOUNDS,
            random_state=INNER_SEED,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            variance=self.variance,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        return inner, projection.of_standardised(A)

    def _sliced(
        self, columns: Columns, learned: LearnedClasses, numbers: Array
    ) -> tuple[IntersectionGPClassifier, NDArray[Any]]:
        """Return the inner model and its rows."""
        self.kernel_ = "sliced"
        self.__dict__.pop("length_scale_", None)
        # Of projections, whose function is less sure, modes of a Bernoulli likelihood do no better.
        inner = IntersectionGPClassifier(
            feature_weights=None,
            intercept_variance=0.0,
            likelihood="gaussian",
            noise_bounds=_NOISE_BOUNDS,
            random_state=INNER_SEED,
            **self._inner_parameters(),
        )
        return inner, self._keep_projection(columns, learned, numbers, learned.weights)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows, of known and of new classes; metric and variances stay.

        The first call on an estimator without data is `fit`. Rows come behind those that there are
        even where they equal one.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Further rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            Labels that the model keeps whether it has rows of them or not, beside those that it
            keeps already; `y` must then have no others. None lets the classes be those of the rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, as those of the fit were; 1 by default.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`; if there are other columns than before; if labels are neither in `classes`
            nor known, or of another type; with ``class_weight="balanced"``, which asks for all
            rows at once.
        """
        refuse_balanced(self.class_weight)
        with replaced_whole(self) as draft:
            if not draft.__sklearn_is_fitted__():
                draft._fit(X, y, classes, sample_weight)
                return self
            weights, numbers, labels = draft._weighted(X, y, sample_weight, reset=False)
            inner = draft._inner_now(tuple(draft._inner_parameters()))
            T = draft._projection.apply(numbers, draft._threads())
            draft._inner = inner.partial_fit(T, labels, classes, weights)
            draft.classes_, draft.n_iter_ = inner.classes_, inner.n_iter_
        return self

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = False) -> NDArray[Any]: ...
    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[NDArray[Any], Array]: ...
    @in_precision_of_rows
    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], Array]:
        """Predict the most probable classes, and on request how uncertain the outputs are.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return the predictive standard deviation too, of the targets +1 and -1, noise
            included, computed as `variance` says.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Predicted classes.
        std : ndarray of shape (n_samples,)
            Only with `return_std`.
        """
        answers: NDArray[Any] | tuple[NDArray[Any], Array] = self._answers(
            X, lambda inner, T: inner.predict(T, return_std=return_std)
        )
        return answers

    @in_precision_of_rows
    def decision_function(self, X: ArrayLike) -> Array:
        """Return the logits of the probabilities.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive for ``classes_[1]``.
        """
        scores: Array = self._answers(X, lambda inner, T: inner.decision_function(T))
        return scores

    @in_precision_of_rows
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return calibrated class probabilities.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.
        """
        probabilities: Array = self._answers(X, lambda inner, T: inner.predict_proba(T))
        return probabilities
