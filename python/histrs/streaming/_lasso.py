"""The lasso and the group lasso, from moments."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from histrs import _histrs
from histrs._checks.scale import may_overflow
from histrs._checks.validation import count_threads
from histrs._estimator import documented
from histrs._solvers.lapack import eigh
from histrs._typing import Array
from histrs._warnings import warn
from histrs.streaming._docs import STREAMS
from histrs.streaming._linear import MomentRegressor, check_labelled
from histrs.streaming._moments import Moments
from histrs.streaming._sums import full

_PARAMETERS: dict[str, list[Any]] = {
    "alpha": [Interval(Real, 0, None, closed="neither")],
    "tol": [Interval(Real, 0, None, closed="left")],
}


class _Lasso(MomentRegressor):
    """Coordinate descent for either penalty; subclasses say how features are grouped."""

    alpha: float
    fit_intercept: bool
    tol: float
    max_iter: int
    warm_start: bool

    def _groups(self, n_features: int) -> Groups:
        raise NotImplementedError

    def _penalty(self, alpha: float) -> tuple[float, float]:
        """Return the strengths of the norms and of the squares."""
        return alpha, 0.0

    def _is_positive(self) -> bool:
        """Say whether coefficients must not be negative."""
        return False

    def path(
        self, moments: Moments, *, alphas: int | ArrayLike = 100, eps: float = 1e-3
    ) -> tuple[Array, Array, Array]:
        """Compute the coefficients for a path of penalties, each from those before it.

        The model itself is not changed, and its `alpha` not used.

        Parameters
        ----------
        moments : Moments
            Moments of rows with targets.
        alphas : int or array-like of shape (n_alphas,), default=100
            Penalties, or how many: from the smallest at which all coefficients are zero down to
            `eps` times that, in geometric steps.
        eps : float, default=1e-3
            The last penalty over the first; used if `alphas` is a number.

        Returns
        -------
        alphas : ndarray of shape (n_alphas,)
            The penalties in descending order.
        coefs : ndarray of shape (n_features, n_alphas) or (n_targets, n_features, n_alphas)
            Coefficients; without the first axis for one target.
        dual_gaps : ndarray of shape (n_alphas,) or (n_targets, n_alphas)
            Bounds on how far each objective is above its minimum.

        Raises
        ------
        ValueError
            If there are no targets, or a penalty is not positive.
        """
        self._validate_params()
        check_labelled(moments)
        error, groups, gram = self._problem(moments)
        values = self._alphas(alphas, eps, self._largest(groups, error))
        start = np.zeros_like(error.cross)
        coefs, gaps, _ = self._descend(error, groups, gram, values, start)
        coefs, gaps = np.moveaxis(coefs, 0, -1), gaps.T
        return values, *((coefs[0], gaps[0]) if moments.n_targets == 1 else (coefs, gaps))

    def _largest(self, groups: Groups, error: SquaredError) -> float:
        """Return the strength of the norms from which on all coefficients are zero."""
        cross = groups.rotate(error.cross)
        return float(np.max(groups.norms(np.maximum(cross, 0) if self._is_positive() else cross)))

    def _problem(self, moments: Moments) -> tuple[SquaredError, Groups, Array]:
        error = SquaredError.of(moments, self.fit_intercept)
        groups = self._groups(moments.n_features)
        return error, groups, groups.diagonalise(error.gram)

    def _penalties(self, moments: Moments, alphas: int | ArrayLike, eps: float) -> Array:
        """Return the penalties that `path` takes, in descending order."""
        error = SquaredError.of(moments, self.fit_intercept)
        return self._alphas(alphas, eps, self._largest(self._groups(moments.n_features), error))

    def _alphas(self, alphas: int | ArrayLike, eps: float, largest: float) -> Array:
        if isinstance(alphas, int | np.integer):
            if alphas < 1 or not 0 < eps < 1:
                raise ValueError(
                    f"alphas = {alphas}, eps = {eps}: give at least 1 for alphas, and 0 < eps < 1."
                )
            top = max(float(largest) / self._penalty(1.0)[0], np.finfo(np.float64).tiny)
            return np.geomspace(top, top * eps, int(alphas))
        values = np.sort(np.atleast_1d(np.asarray(alphas, dtype=np.float64)))[::-1]
        if values.ndim != 1 or not values.size or not np.all((values > 0) & np.isfinite(values)):
            raise ValueError(f"alphas = {alphas!r}: expected positive penalties.")
        return values.copy()

    def _learn(self, moments: Moments) -> None:
        check_labelled(moments)
        error, groups, gram = self._problem(moments)
        start = self._start(error.cross.shape)
        coefs, gaps, n_iter = self._descend(error, groups, gram, np.array([self.alpha]), start)
        self.coef_, self.dual_gap_, self.n_iter_ = coefs[0], gaps[0], n_iter[0]
        self.intercept_ = error.y_mean - self.coef_ @ error.mean

    def _start(self, shape: tuple[int, ...]) -> Array:
        if not self.warm_start or not hasattr(self, "coef_"):
            return np.zeros(shape)
        start = np.atleast_2d(self.coef_)
        start = np.maximum(start, 0.0) if self._is_positive() else start
        if start.shape != shape:
            raise ValueError(
                f"warm_start=True, but coef_ has shape {start.shape} and these data need {shape}; "
                "set warm_start=False, or clone the model."
            )
        return start

    def _descend(
        self, error: SquaredError, groups: Groups, gram: Array, alphas: Array, start: Array
    ) -> tuple[Array, Array, NDArray[np.int64]]:
        """Return coefficients, (A, T, D), gaps and numbers of passes, (A, T)."""
        coefs, gaps, n_iter = _histrs.group_lasso_path(
            (gram, groups.rotate(error.cross), error.y_squares),
            (groups.ends, groups.weights),
            [self._penalty(float(alpha)) for alpha in alphas],
            self._is_positive(),
            groups.rotate(start),
            self.tol,
            self.max_iter,
            count_threads(self.n_jobs),
        )
        with np.errstate(over="ignore"):
            late = gaps > self.tol * error.y_squares
        if np.any(late):
            index = np.unravel_index(np.argmax(np.where(late, gaps, -1.0)), gaps.shape)
            warn(
                f"{type(self).__name__} did not converge for {np.sum(late)} of {gaps.size} "
                f"objectives: after {self.max_iter} passes the duality gap of target {index[1]} "
                f"at alpha = {alphas[index[0]]:.3g} is {gaps[index]:.3g}, above tol * mean(y**2) "
                f"= {self.tol * error.y_squares[index[1]]:.3g}. Increase max_iter, tol or alpha.",
                ConvergenceWarning,
            )
        return groups.rotate_back(coefs), gaps, n_iter

    def _drop_target_axis(self) -> None:
        super()._drop_target_axis()
        self.dual_gap_, self.n_iter_ = float(self.dual_gap_[0]), int(self.n_iter_[0])


@documented(STREAMS)
class MomentLasso(_Lasso):
    r"""The lasso, or the elastic net, from moments.

    Minimises for each target the objective of `sklearn.linear_model.ElasticNet`,

    .. math:: \frac{1}{2n} \|y - b - Z w\|^2 + \alpha \rho \|w\|_1
              + \frac{\alpha (1 - \rho)}{2} \|w\|^2,

    where :math:`\rho` is `l1_ratio`. With :math:`\rho = 1` this is the objective of `Lasso`. It
    depends on the rows only through their moments: number, sums, and sums of products of columns
    (section 6 of [1]_). So the rows are read once. On the moments of `D` features, coordinate
    descent costs `O(D)` for each changed coefficient, whatever the number of rows `n`. With
    correlated features, the descent is slow; extrapolation of its iterates makes it faster [2]_.

    Parameters
    ----------
    {alpha}
    {l1_ratio}
    {fit_intercept}
    {positive}
    {tol}
    max_iter : int, default=1000
        Largest number of passes over the coefficients. If the gap is larger after them, there is a
        ConvergenceWarning.
    {warm_start}
    {n_jobs}
    verbose : int, default=0
        1 shows how many rows were read, with tqdm where it is installed.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.
    {intercept_}
    {dual_gap_}
    n_iter_ : int or ndarray of shape (n_targets,)
        Passes over the coefficients.
    {moments_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    MomentLassoCV : Chooses `alpha` by cross-validation.
    Moments.of : Moments of files and of iterables, for `fit_moments`.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.
    .. [2] Q. Bertrand and M. Massias, "Anderson acceleration of coordinate descent", AISTATS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.streaming import MomentLasso, Moments
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.standard_normal((5000, 6))
    >>> y = 3 * Z[:, 1] - Z[:, 4] + 2
    >>> model = MomentLasso(alpha=0.5).fit_moments(Moments.of(Z, y))
    >>> model.coef_.round(1) + 0
    array([ 0. ,  2.5,  0. ,  0. , -0.5,  0. ])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_PARAMETERS,
        "l1_ratio": [Interval(Real, 0, 1, closed="right")],
        "positive": ["boolean"],
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 1.0,
        fit_intercept: bool = True,
        positive: bool = False,
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _groups(self, n_features: int) -> Groups:
        return checked_groups(None, None, n_features)

    def _penalty(self, alpha: float) -> tuple[float, float]:
        return alpha * self.l1_ratio, alpha * (1.0 - self.l1_ratio)

    def _is_positive(self) -> bool:
        return bool(self.positive)


@documented(STREAMS)
class MomentGroupLasso(_Lasso):
    r"""The group lasso, from moments: whole groups of features are used or left out.

    Minimises for each target

    .. math:: \frac{1}{2n} \|y - b - Z w\|^2 + \alpha \sum_g \omega_g \|w_g\|,

    the penalty of Yuan and Lin [1]_, for instance with the random features of one descriptor as a
    group. It depends on the rows through their moments alone (section 6 of [2]_). Features are
    rotated within their group until its block of the Gram matrix is diagonal, which leaves norms as
    they are. The minimiser over a group is then the root of an equation in one unknown. The descent
    goes from group to group by exact minimisation.

    Parameters
    ----------
    groups : array-like of shape (n_features,), default=None
        For each feature the name of its group: numbers or strings. None makes each feature a
        group, as in `MomentLasso`.
    {alpha}
    group_weights : array-like of shape (n_groups,), default=None
        Positive weights :math:`\omega_g`, in the order of ``numpy.unique(groups)``; None takes
        the square roots of the numbers of features.
    {fit_intercept}
    {tol}
    max_iter : int, default=1000
        Most passes over the groups; a ConvergenceWarning says when they did not suffice.
    {warm_start}
    {n_jobs}
    verbose : int, default=0
        1 shows how many rows were read, with tqdm where it is installed.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients; they are exactly zero for a group that is left out.
    {intercept_}
    {dual_gap_}
    n_iter_ : int or ndarray of shape (n_targets,)
        Passes over the groups.
    {moments_}
    {n_features_in_}
    {feature_names_in_}

    References
    ----------
    .. [1] M. Yuan and Y. Lin, "Model selection and estimation in regression with grouped
       variables", Journal of the Royal Statistical Society B 68(1), 2006.
    .. [2] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.streaming import MomentGroupLasso, Moments
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.standard_normal((5000, 6))
    >>> y = 3 * Z[:, 2] - Z[:, 3]
    >>> groups = ["colour", "colour", "shape", "shape", "texture", "texture"]
    >>> model = MomentGroupLasso(groups, alpha=0.2).fit_moments(Moments.of(Z, y))
    >>> model.coef_.round(1) + 0
    array([ 0. ,  0. ,  2.7, -0.9,  0. ,  0. ])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_PARAMETERS,
        "groups": ["array-like", None],
        "group_weights": ["array-like", None],
    }

    def __init__(
        self,
        groups: ArrayLike | None = None,
        *,
        alpha: float = 1.0,
        group_weights: ArrayLike | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.groups = groups
        self.alpha = alpha
        self.group_weights = group_weights
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _groups(self, n_features: int) -> Groups:
        return checked_groups(self.groups, self.group_weights, n_features)


@dataclass(frozen=True)
class SquaredError:
    """The squared error `(y^2 - 2 v w + w^T G w) / 2` of rows with targets, a mean over rows."""

    gram: Array
    """G, (D, D)."""
    cross: Array
    """v, (T, D)."""
    y_squares: Array
    """Mean of the squared targets, (T,)."""
    mean: Array
    y_mean: Array

    @classmethod
    def of(cls, moments: Moments, fit_intercept: bool) -> Self:
        """Return the error of rows and targets about their means, or as they are."""
        sums = moments._labelled_rows()
        gram, cross, y_squares = full(sums.scatter) / sums.n, sums.cross.T / sums.n, sums.y_squares
        mean, y_mean = sums.mean, sums.y_mean
        if not fit_intercept:
            with may_overflow():
                gram += np.outer(mean, mean)
                cross = cross + np.outer(y_mean, mean)
                y_squares = y_squares + sums.n * y_mean**2
            mean, y_mean = np.zeros_like(mean), np.zeros_like(y_mean)
        if not (np.isfinite(np.trace(gram)) and np.isfinite(y_squares).all()):
            raise ValueError(
                "products of rows or of targets overflow float64; divide the columns by a scale."
            )
        return cls(gram, np.ascontiguousarray(cross), y_squares / sums.n, mean.copy(), y_mean)


class Groups:
    """Consecutive groups of features, rotated so that the Gram matrix of each is diagonal.

    Norms of groups are the same in any basis, and in this one the minimiser over a group is the
    root of one equation in one unknown.
    """

    def __init__(self, labels: NDArray[Any], weights: Array | None = None) -> None:
        self.names, index, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        self._order = np.argsort(index, kind="stable")
        self.ends = np.cumsum(sizes).astype(np.int64)
        self.weights = np.sqrt(sizes) if weights is None else weights
        self._bases: list[tuple[slice, Array]] = []

    def diagonalise(self, gram: Array) -> Array:
        """Return the Gram matrix of the rotated features, and keep the rotations."""
        gram = gram[np.ix_(self._order, self._order)]
        for start, end in zip(np.append(0, self.ends), self.ends, strict=False):
            if end - start > 1:
                part = slice(start, end)
                values, basis = eigh(gram[part, part])
                gram[part] = basis.T @ gram[part]
                gram[:, part] = gram[:, part] @ basis
                gram[part, part] = np.diag(np.maximum(values, 0.0))
                self._bases.append((part, basis))
        return gram

    def rotate(self, features: Array) -> Array:
        """Return rows, whose columns are features, in the rotated features."""
        rotated = np.ascontiguousarray(features[:, self._order])
        for part, basis in self._bases:
            rotated[:, part] = rotated[:, part] @ basis
        return rotated

    def rotate_back(self, rotated: Array) -> Array:
        """Return what `rotate` was given; the features are the last axis."""
        features = np.empty_like(rotated)
        for part, basis in self._bases:
            rotated[..., part] = rotated[..., part] @ basis.T
        features[..., self._order] = rotated
        return features

    def norms(self, rotated: Array) -> Array:
        """Return the norm of each group, over its weight."""
        starts = np.append(0, self.ends[:-1])
        return np.sqrt(np.add.reduceat(rotated**2, starts, axis=1)) / self.weights


def checked_groups(groups: ArrayLike | None, weights: ArrayLike | None, n_features: int) -> Groups:
    """Return groups of features; None makes each feature one."""
    labels = np.arange(n_features) if groups is None else np.asarray(groups)
    if labels.shape != (n_features,):
        raise ValueError(
            f"groups has shape {labels.shape}, but X has {n_features} features: give each the "
            "name of its group, such as numpy.repeat([0, 1], [n_first, n_second])."
        )
    if weights is None:
        return Groups(labels)
    values = np.asarray(weights, dtype=np.float64)
    n_groups = len(np.unique(labels))
    if values.shape != (n_groups,) or not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(
            f"group_weights = {weights!r}: expected {n_groups} positive weights, one for each "
            "group in the order of numpy.unique(groups)."
        )
    return Groups(labels, values)
