"""The lasso from moments, with a penalty that cross-validation chooses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from numbers import Integral, Real
from operator import add
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from histrs._checks.validation import unchanged_on_error
from histrs._estimator import documented
from histrs._typing import Array
from histrs.streaming._docs import PASSES, STREAMS
from histrs.streaming._lasso import MomentLasso, SquaredError
from histrs.streaming._linear import MomentRegressor, check_labelled
from histrs.streaming._moments import Moments
from histrs.streaming._reduction import reduced
from histrs.streaming._rows import matrix, set_n_features
from histrs.streaming._source import RowSource, in_chunk
from histrs.streaming._sums import full
from histrs.streaming._weights import counted_weights


@documented(STREAMS, PASSES)
class MomentLassoCV(MomentRegressor):
    r"""The lasso or the elastic net from moments, with a penalty chosen by cross-validation.

    The estimator is `MomentLasso`, with the `alpha` that has the smallest squared error on left-out
    rows. The rows are read once. Each fold has moments of its own, and subtracting them from the
    total gives the moments of the other folds [1]_. Neither fits nor errors need the rows.

    Parameters
    ----------
    {l1_ratio}
    alphas : int or array-like of shape (n_alphas,), default=100
        Penalties to choose from, or their number. A number gives geometric steps, from the smallest
        penalty at which all coefficients are zero down to `eps` times this penalty.
    eps : float, default=1e-3
        The smallest penalty divided by the largest; used if `alphas` is a number.
    cv : int, default=5
        The number of folds. Row `i` is in fold ``i % cv``, whatever its weight; each partition of a
        dask array counts its rows from 0. For other folds, give `fit_moments` their moments.
    {fit_intercept}
    {positive}
    {tol}
    max_iter : int, default=1000
        Largest number of passes over the coefficients. If they do not suffice, there is a
        ConvergenceWarning.
    {n_jobs}
    verbose : int, default=0
        1 shows how many rows were read, with tqdm where it is installed.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    alphas_ : ndarray of shape (n_alphas,)
        The penalties, in descending order.
    mse_path_ : ndarray of shape (n_alphas, n_folds)
        The mean squared error of each fold; with several targets, the mean over the targets.
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients, of all rows.
    {intercept_}
    {dual_gap_}
    n_iter_ : int or ndarray of shape (n_targets,)
        Passes over the coefficients.
    {n_features_in_}
    {feature_names_in_}

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.streaming import MomentLassoCV, Moments
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.standard_normal((500, 6))
    >>> y = 3 * Z[:, 1] - Z[:, 4] + rng.standard_normal(500)
    >>> MomentLassoCV().fit(Z, y).coef_.round() + 0
    array([ 0.,  3.,  0.,  0., -1.,  0.])

    Folds may be days or subjects:

    >>> days = [Moments.of(Z[k::4], y[k::4]) for k in range(4)]
    >>> MomentLassoCV().fit_moments(days).mse_path_.shape
    (100, 4)
    """

    dual_gap_: Any
    n_iter_: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{k: MomentLasso._parameter_constraints[k] for k in ("tol", "l1_ratio", "positive")},
        "alphas": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "eps": [Interval(Real, 0, 1, closed="neither")],
        "cv": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        l1_ratio: float = 1.0,
        *,
        alphas: int | ArrayLike = 100,
        eps: float = 1e-3,
        cv: int = 5,
        fit_intercept: bool = True,
        positive: bool = False,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.l1_ratio = l1_ratio
        self.alphas = alphas
        self.eps = eps
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(self, moments: Sequence[Moments]) -> Self:
        """Learn from the moments of folds; on an error nothing changes.

        Parameters
        ----------
        moments : sequence of Moments
            The moments of each fold, two folds or more, each of rows with targets.

        Returns
        -------
        self : MomentLassoCV
            The fitted model. With one target, attributes have the shapes of a fit to 1D `y`.

        Raises
        ------
        ValueError
            If there are fewer than two folds, or their moments have different columns or feature
            maps.
        """
        with unchanged_on_error(self):
            folds = list(moments)
            self._learn_folds(folds)
            set_n_features(self, folds[0].n_features, folds[0].feature_names)
            if len(self.coef_) == 1:
                self._drop_target_axis()
        return self

    def _needs_rows(self) -> str:
        return "cv"

    def _learn_source(self, source: RowSource) -> None:
        if source.checkpoint is not None:
            raise ValueError(
                "checkpoint keeps the moments of all rows, and cv needs those of folds: gather "
                "each fold by Moments.of(rows, Y, checkpoint=...), and call fit_moments."
            )
        of_folds = partial(_moments_of_folds, self.cv)
        reads = source.reader.is_distributed
        self._learn_folds(reduced(source, of_folds) if reads else of_folds(source))

    def _learn_folds(self, folds: list[Moments]) -> None:
        if len(folds) < 2 or not all(fold.n_labelled for fold in folds):
            numbers = [fold.n_labelled for fold in folds]
            raise ValueError(
                f"the folds have {numbers} rows with targets: give two folds or more, none empty."
            )
        lasso = MomentLasso(
            l1_ratio=self.l1_ratio,
            fit_intercept=self.fit_intercept,
            positive=self.positive,
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
        )
        total = reduce(add, folds)
        check_labelled(total)
        self.alphas_ = lasso._penalties(total, self.alphas, self.eps)
        errors = [self._errors(lasso, total - fold, fold) for fold in folds]
        self.mse_path_ = np.stack(errors, axis=1)
        sizes = [fold.n_labelled for fold in folds]
        mean = np.average(self.mse_path_, axis=1, weights=sizes)
        self.alpha_ = float(self.alphas_[np.argmin(mean)])
        lasso.set_params(alpha=self.alpha_)._learn(total)
        for name in ("coef_", "intercept_", "dual_gap_", "n_iter_"):
            setattr(self, name, getattr(lasso, name))

    def _errors(self, lasso: MomentLasso, others: Moments, fold: Moments) -> Array:
        """Return the mean squared errors of a fold, by models of all others."""
        coefs = lasso.path(others, alphas=self.alphas_)[1]
        coefs = coefs.reshape(-1, fold.n_features, len(self.alphas_))
        learned, sums = SquaredError.of(others, self.fit_intercept), fold._labelled_rows()
        scatter = full(sums.scatter)
        errors = np.zeros(len(self.alphas_))
        for t, W in enumerate(coefs):
            offset = sums.y_mean[t] - learned.y_mean[t] - (sums.mean - learned.mean) @ W
            squares = (
                sums.y_squares[t] - 2 * sums.cross[:, t] @ W + np.sum(W * (scatter @ W), axis=0)
            )
            errors += np.maximum(squares, 0.0) / sums.n + offset**2
        return errors / len(coefs)

    def _drop_target_axis(self) -> None:
        super()._drop_target_axis()
        self.dual_gap_, self.n_iter_ = float(self.dual_gap_[0]), int(self.n_iter_[0])


def _moments_of_folds(n_folds: int, source: RowSource) -> list[Moments]:
    """Return the moments of the rows of each fold, of which the next row is in the next one."""
    folds: list[Moments | None] = [None] * n_folds
    n_seen = 0
    for number, (Z, targets, sample_weight) in enumerate(source.chunks("moments of folds")):
        with in_chunk(number, source):
            rows = matrix(Z)
            n_rows = rows.shape[0]
            weights = counted_weights(sample_weight, n_rows)
            for k in range(n_folds):
                part = slice((k - n_seen) % n_folds, None, n_folds)
                own = None if targets is None else np.asarray(targets)[part]
                fold = folds[k] = Moments._begin(folds[k], rows, own, "", None)
                fold._add(rows[part], own, weights and weights.part(part))
                fold.feature_names = source.feature_names
            n_seen += n_rows
    if n_seen == 0:
        raise ValueError("there are no rows: give at least two.")
    return [fold for fold in folds if fold is not None]
