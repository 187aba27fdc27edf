"""How classifiers on projections learn: the metric, which kernel is in it, and the classes."""

from __future__ import annotations

from typing import Any, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from histrs._checks.validation import validate_targets
from histrs._estimator import documented
from histrs._repeats import distinct_rows
from histrs._solvers.preconditioners import Indices
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs._weights import (
    ClassWeight,
    check_weights,
    checked_labels,
    classes_of,
    refuse_balanced,
    times_class_weights,
    weighs_nothing,
)
from histrs.gaussian_process._classifier import GPClassifier
from histrs.gaussian_process._docs import CLASSIFICATION_FIT, UPDATES
from histrs.gaussian_process._given_rows import GivenRows
from histrs.gaussian_process._kernels.intersection import Intersection
from histrs.gaussian_process._options import Bins, Solver
from histrs.gaussian_process._row_weights import roots, rows_of, telling
from histrs.gaussian_process._sliced.classes import KernelName, LearnedClasses, learn_class_metric
from histrs.gaussian_process._sliced.columns import Columns
from histrs.gaussian_process._sliced.docs import SLICED_FIT
from histrs.gaussian_process._sliced.fitting import (
    EXACT_ROWS,
    INNER_SEED,
    LEARNING_ROWS,
    MANY_ROWS,
    SEARCHED_ROWS,
    SlicedFit,
)
from histrs.gaussian_process._sliced.matern import (
    Coordinates,
    LearnedMatern,
    SolverName,
    VarianceName,
    most_rows,
    of_length,
)
from histrs.gaussian_process._sliced.metrics import MetricName, are_collinear, first_metric
from histrs.gaussian_process._sliced.rows import drawn_rows
from histrs.gaussian_process._state import replaced_whole
from histrs.gaussian_process.additive import IntersectionGPClassifier

# A metric that is learned in more steps predicts no better.
_MAX_STEPS = 2
# Rows up to which many projections cost little.
_FEW_ROWS = 32_768
# By more rows than it is chosen by, the Matérn kernel gains more than slices do, most of all where
# classes are many: it may be a little worse on those.
_LIKE_MATERN = 0.97
# What the process of the Matérn kernel takes from ours.
_OF_MATERN = ("solver", "tol", "variance", "n_jobs", "verbose")
# Less noise tells classes apart no better, and takes many more iterations.
_NOISE_BOUNDS = (1e-3, 1e12)


class LabelledRows(NamedTuple):
    """Rows to learn from."""

    numbers: Array
    labels: NDArray[Any]
    weights: Array | None
    """Without those of their classes."""
    of_classes: dict[Any, float] | None
    """Weights of the classes."""
    n_given: int
    """Number of rows, those without weight too."""
    with_weight: Indices | None
    """Which of these the rows are; None where they are all."""


class SlicedClassificationLearning(ClassifierMixin, SlicedFit):
    """Learns targets +1 and -1 of the classes, on projections or in the metric itself."""

    kernel: KernelName
    class_weight: ClassWeight
    _projections_of = ((_FEW_ROWS, 2048), (MANY_ROWS, 1024))

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(CLASSIFICATION_FIT, SLICED_FIT)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the metric, and fit; when it raises, nothing changes.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_samples,)
            Class labels.
        {sample_weight}

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
    ) -> LabelledRows:
        """Return the rows that have a weight, as numbers."""
        numbers = self._read_table(X, reset=reset)
        labels = checked_labels(validate_targets(self, y))
        check_consistent_length(numbers, labels)
        given = check_weights(sample_weight, labels)
        given = times_class_weights(given, self.class_weight, *given.rows(labels))
        numbers = self._read_rows(given, X, numbers, reset=reset)
        (kept_labels,) = given.rows(labels)
        weights, of_classes = given.weights, None
        if weights is not None and given.copies is not None:
            factors = (weights / given.copies).tolist()
            weights = given.copies
            of_classes = dict(zip(kept_labels.tolist(), factors, strict=True))
        return LabelledRows(numbers, kept_labels, weights, of_classes, len(labels), given.kept)

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        declared: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> None:
        given = self._weighted(X, y, sample_weight, reset=True)
        weights, numbers, labels = given.weights, given.numbers, given.labels
        classes = classes_of(labels)
        if len(classes) < 2 and declared is None:
            raise ValueError(
                "SlicedGPClassifier needs samples of at least 2 classes, but y contains only "
                f"one class: {classes.tolist()[0]!r}. Add samples of another one."
            )
        codes = np.searchsorted(classes, labels)
        distinct = distinct_rows(numbers, codes, weights)
        codes, labels, numbers = distinct.rows(codes, labels, numbers)
        weights, n_rows = distinct.weights, len(labels)
        columns = Columns(numbers, self._table.sources)
        A = columns.apply(numbers)
        random = self._random()
        rows = drawn_rows(np.arange(n_rows), SEARCHED_ROWS, random)
        scale = weights
        if given.of_classes is not None:
            factors = np.array([given.of_classes[label] for label in labels.tolist()])
            scale = factors if weights is None else factors * weights
        stays = rows_of(distinct.stays, rows)
        scale = roots(telling(rows_of(scale, rows), stays))
        learned = self._learn_metric(
            columns, A[rows], codes[rows], scale, n_rows, len(classes), random, stays
        )
        if isinstance(learned, LearnedMatern):
            inner, T = self._matern(columns, learned, A)
        else:
            inner, T = self._sliced(columns, learned, numbers)
        most = LEARNING_ROWS if isinstance(learned, LearnedMatern) else None
        inner.set_params(class_weight=given.of_classes)
        inner = self._with_scales(inner, T, labels, random, most, weights)
        inner._noise_was_learned = True
        # On an estimator without data, as `fit`, but with declared classes.
        self._inner = inner.partial_fit(T, labels, declared, weights)
        self._keep_rows(inner, numbers)
        rows_given = GivenRows.of(distinct.groups, given.weights)
        rows_given = rows_given.of_all(given.n_given, given.with_weight)
        inner._given = rows_given.through(inner._given)
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
        stays: Array | None = None,
    ) -> LearnedClasses | LearnedMatern:
        """Learn the metric, and which kernel is in it, from some of `n_rows` rows."""
        kernel = self._kernel_to_try(n_rows)
        steps = min(self._n_steps(), _MAX_STEPS)
        # On matrices of this size, BLAS's threads mostly wait for one another.
        with blas_threads_at_most(1):
            names: list[MetricName] = ["pca"] if steps > 0 else []
            if steps > 0 and are_collinear(A):
                names.append("whitened")
            return learn_class_metric(
                A,
                codes,
                metric=first_metric(self.metric, A, columns.spreads),
                others=[first_metric(name, A, columns.spreads) for name in names],
                n_directions=self._n_directions(n_rows, 1),
                n_steps=steps,
                n_interactions=self.n_interactions,
                random=random,
                n_threads=self._threads(),
                row_scale=row_scale,
                stays=stays,
                kernel=kernel,
                handicap=_LIKE_MATERN if n_rows > EXACT_ROWS or n_classes > 2 else 1.0,
            )

    def _kernel_to_try(self, n_rows: int) -> KernelName:
        """Return the kernel; "auto" where the Matérn kernel can do what is asked for."""
        solvers, variances = get_args(SolverName), get_args(VarianceName)
        solver = Solver.of(self.solver)
        possible = Bins.of(self.n_bins).n_bins is None and self.variance in variances
        possible &= solver.name in solvers and solver.preconditioner == "auto"
        if self.kernel == "matern":
            if not possible:
                raise ValueError(
                    f'kernel="matern" has n_bins=None, a solver of {list(solvers)} and a variance '
                    f'of {list(variances)}: set these, or kernel="sliced".'
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
    ) -> tuple[GPClassifier, Array]:
        """Return the inner model and its rows, of those with standardised columns."""
        self._keep_metric(columns, learned.G, {})
        self.kernel_, self.length_scale_ = "matern", learned.length
        self.directions_, self.offsets_ = learned.directions, np.zeros(len(learned.G))
        self._projection = projection = Coordinates(columns, self.directions_)
        options = {name: getattr(self, name) for name in _OF_MATERN}
        inner = GPClassifier(
            of_length(learned.length),
            noise_bounds=_NOISE_BOUNDS,
            random_state=INNER_SEED,
            **options,
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
            Intersection(feature_weights=None, intercept_variance=0.0),
            likelihood="gaussian",
            noise_bounds=_NOISE_BOUNDS,
            random_state=INNER_SEED,
            **self._inner_parameters(),
        )
        return inner, self._keep_projection(columns, learned, numbers, learned.weights)

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(CLASSIFICATION_FIT, UPDATES)
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
        {classes}
        {further_weights}

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
        if weighs_nothing(sample_weight, X):
            return self
        refuse_balanced(self.class_weight)
        with replaced_whole(self) as draft:
            if not draft.__sklearn_is_fitted__():
                draft._fit(X, y, classes, sample_weight)
                return self
            given = draft._weighted(X, y, sample_weight, reset=False)
            of_rows = given.weights, given.n_given, given.with_weight
            numbers, labels = given.numbers, given.labels
            draft._inner = inner = draft._inner_with(numbers, labels, *of_rows, classes=classes)
            draft.classes_, draft.n_iter_ = inner.classes_, inner.n_iter_
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(UPDATES)
    def forget(self, indices: ArrayLike) -> Self:
        """Remove rows; metric and variances stay, and when it raises, so does all.

        A class whose last row goes is a class no more, unless `partial_fit` was given it in
        `classes`.

        Parameters
        ----------
        {indices}

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
        >>> import numpy as np
        >>> from histrs.gaussian_process import SlicedGPClassifier
        >>> X = np.array([[0.0, 0.0], [0.1, 0.3], [1.0, 1.0], [0.9, 0.8], [5.0, 5.0]])
        >>> y = ["low", "low", "high", "high", "a mistake"]
        >>> model = SlicedGPClassifier(random_state=0).fit(X, y)
        >>> model.forget([4]).classes_.tolist()
        ['high', 'low']
        """
        check_is_fitted(self)
        with replaced_whole(self) as draft:
            draft._inner = inner = draft._without(indices)
            draft.classes_, draft.n_iter_ = inner.classes_, inner.n_iter_
        return self
