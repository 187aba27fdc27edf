"""Classification on learned projections."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions

from histrs._checks.validation import NameOptions
from histrs._estimator import documented
from histrs._typing import Array
from histrs._weights import ClassWeight
from histrs.gaussian_process._docs import CLASSIFICATION_GP, GAUSSIAN_PROCESS
from histrs.gaussian_process._options import Bins, Fine, Solver, SolverName, VarianceName
from histrs.gaussian_process._precision import in_precision_of_rows
from histrs.gaussian_process._sliced.classes import KernelName
from histrs.gaussian_process._sliced.classification_learning import SlicedClassificationLearning
from histrs.gaussian_process._sliced.docs import SLICED_GP
from histrs.gaussian_process._sliced.metrics import MetricName


@documented(CLASSIFICATION_GP, GAUSSIAN_PROCESS, SLICED_GP)
class SlicedGPClassifier(SlicedClassificationLearning):
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
        to 8,192 rows, then by conjugate gradients on two bytes per pair of rows, up to 65,536 rows
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
        "identity", "pca", or, where a quarter as many components as columns, or fewer, carry 99 %
        of their variance, "whitened": the one that predicts rows best that it was not fitted to.
    n_metric_steps : int, default=3
        Steps of the metric that are tried, of which two at most.
    {n_interactions}
    tol : float, default=1e-4
        As for `IntersectionGPClassifier`; of the Matérn kernel at least 0.001, more than which its
        kept entries do not tell.
    solver : str or Solver, default="auto"
        As for `IntersectionGPClassifier`; of the Matérn kernel "auto", "cg" or "cholesky".
    {n_bins}
    variance : str or Fine, default="auto"
        As for `IntersectionGPClassifier`; of the Matérn kernel "auto", "cached" or "exact", which
        differ where conjugate gradients solve.
    random_state : int, RandomState instance or None, default=None
        Draws directions, and the rows that the metric is learned from, and of more than 8,192
        those that tell the noise. An int gives the same fit every time.
    {class_weight}
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {classes_}
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
    {n_features_in_}
    {feature_names_in_}

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
        **SlicedClassificationLearning._parameter_constraints,
        "kernel": [NameOptions(get_args(KernelName))],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        *,
        kernel: KernelName = "auto",
        n_projections: Literal["auto"] | int = "auto",
        metric: MetricName = "learned",
        n_metric_steps: int = 3,
        n_interactions: int = 24,
        tol: float = 1e-4,
        solver: SolverName | Solver = "auto",
        n_bins: int | Bins | None = None,
        variance: VarianceName | Fine = "auto",
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
            solver=solver,
            n_bins=n_bins,
            variance=variance,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.kernel = kernel
        self.class_weight = class_weight

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
