"""A selector by posterior probabilities."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.sparsefuncs import min_max_axis
from sklearn.utils.validation import check_is_fitted

from histrs._checks.scale import exponent_of, may_overflow
from histrs._checks.sparse import sound
from histrs._checks.validation import (
    bad_rows_named,
    check_random_state,
    real_array,
    unchanged_on_error,
    validate_data,
)
from histrs._estimator import BaseEstimator, documented
from histrs._frames import frame_of
from histrs._progress import ChainProgress
from histrs._threads import blas_threads_at_most
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs._weights import classes_of, encode
from histrs.feature_selection._inclusion import Chain, gains_alone, least_false, rotated
from histrs.feature_selection._shapes import N_SHAPES, shapes_of

# Rows whose components are in memory at once, where only sums of products are needed.
_ROWS_A_BLOCK = 8192
# Columns whose components are in memory at once, beside those that the chains see.
_BLOCK = 256
Task: TypeAlias = Literal["auto", "regression", "classification"]

# Rows that are looked at, where there are more and enough columns to need them one by one.
_MOST_ROWS = 2048
# Columns that the chains go through; of more, those that alone tell most.
_MOST_COLUMNS = 1000
_N_CHAINS = 2
# Whole numbers of so few values are classes, or with so many rows to each.
_FEW = 20
_A_CLASS = 10
_MOST_CLASSES = 1000
# Chains whose probabilities of a column differ by more have not mixed.
_APART = 0.5


@documented()
class SelectRelevant(SelectorMixin, BaseEstimator):
    r"""Select the columns that matter, by their posterior probability, at a false-discovery rate.

    The targets are a sum of functions of single columns and noise,

    .. math:: y = \sum_d \gamma_d f_d(x_d) + \varepsilon, \qquad
              f_d \sim \mathcal{GP}(0, v_d \min(x_d, x_d')), \qquad \gamma_d \in \{0, 1\},

    the additive Gaussian process of the intersection kernel, in which a column may be absent. A
    Gibbs sampler over the columns of the sum, with the functions and the noise integrated out,
    gives the probability of each, ``probabilities_``. The prior expects one column that matters,
    which corrects for looking at many columns ([1]_). The largest set is selected whose expected
    rate of false discoveries is at most `fdr` ([2]_). This rate is the mean of
    ``1 - probabilities_`` over the set.

    Unlike a test of each column alone, such as scikit-learn's `SelectFdr`, it finds functions that
    are not monotone, and leaves out columns that only repeat others.

    Parameters
    ----------
    fdr : float, default=0.1
        Largest expected fraction of selected columns that do not matter. It can be changed after
        the fit.
    task : {"auto", "regression", "classification"}, default="auto"
        The kind of `y`. "auto" treats strings, Booleans and whole numbers as classes. It treats `y`
        as targets if it has fractions, or more than 20 values with fewer than 10 rows each. Counts
        of few values need "regression".
    n_sweeps : int, default=100
        Passes over all columns in each of two chains, after half as many passes of burn-in.
    random_state : int, RandomState instance or None, default=None
        Draws the chains, and rows where there are many.
    verbose : int, default=0
        Above 0, progress is shown.

    Attributes
    ----------
    probabilities_ : ndarray of shape (n_features,)
        Posterior probability that a column matters, beside the others that matter. Columns with the
        same information share it; a constant column has 0.
    false_discovery_rate_ : float
        Expected fraction of selected columns that do not matter; 0 without selected columns.
    n_features_in_ : int
        Number of columns of `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where `X` has names that are all strings.

    Notes
    -----
    With more than 1,000 columns, the chains see only the columns that are most relevant by
    themselves. The probabilities of the others follow from the last state of the chains. With both
    more than 2,048 rows and more than 256 columns, 2,048 rows are drawn; for classes, half of them
    in equal numbers from each. Classes are regressed as indicators.

    References
    ----------
    .. [1] I. Castillo and A. van der Vaart, "Needles and straw in a haystack: posterior
       concentration for possibly sparse sequences", Annals of Statistics 40, 2012.
    .. [2] P. Müller, G. Parmigiani and K. Rice, "FDR and Bayesian multiple comparisons rules",
       Bayesian Statistics 8, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.feature_selection import SelectRelevant
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((200, 30))
    >>> y = np.abs(X[:, 3] - 0.5) + np.sin(6 * X[:, 7]) + 0.1 * rng.normal(size=200)
    >>> select = SelectRelevant(random_state=0).fit(X, y)
    >>> select.get_support(indices=True)
    array([3, 7])
    >>> select.probabilities_[[3, 7]].round(2)
    array([1., 1.])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "fdr": [Interval(Real, 0.0, 1.0, closed="both")],
        "task": [StrOptions({"auto", "regression", "classification"})],
        "n_sweeps": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        fdr: float = 0.1,
        *,
        task: Task = "auto",
        n_sweeps: int = 100,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.fdr = fdr
        self.task = task
        self.n_sweeps = n_sweeps
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the probability that each column matters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, of any sign, finite.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets, or classes. A column of `X` matters if it does for any output.

        {self}

        Raises
        ------
        ValueError
            If an entry of `X` or `y` is NaN or infinite. If `y` has one class, or more than 1,000.
            If all rows drawn have the same `y`.

        Warns
        -----
        ConvergenceWarning
            If the chains disagree about a column; raise `n_sweeps`.
        """
        with unchanged_on_error(self), blas_threads_at_most(1):
            X, y = validate_data(
                self,
                X,
                y,
                accept_sparse="csc",
                dtype=np.float64,
                ensure_min_samples=2,
                multi_output=True,
            )
            Y, codes = self._targets(y)
            random = check_random_state(self.random_state)
            rng = np.random.default_rng(random.randint(np.iinfo(np.int32).max, size=4))
            self.probabilities_ = self._probabilities(X, Y, codes, rng)
        return self

    @property
    def false_discovery_rate_(self) -> float:
        """Expected fraction of false ones among the selected columns."""
        chosen = self.get_support()
        return float(np.mean(1.0 - self.probabilities_[chosen])) if np.any(chosen) else 0.0

    def transform(self, X: ArrayLike | Matrix) -> NDArray[Any] | Matrix:
        """Keep the columns that are selected.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, sparse matrix} of shape (n_samples, n_selected)
            Their columns, of the type that `X` has.
        """
        check_is_fitted(self)
        frame = frame_of(X)
        rows: Any = X if frame is None else frame.to_native()
        with may_overflow(), bad_rows_named(rows, "X"):
            kept: NDArray[Any] | Matrix = super().transform(
                sound(rows, "X") if sparse.issparse(rows) else rows
            )
            return kept

    def inverse_transform(self, X: ArrayLike | Matrix) -> NDArray[Any] | Matrix:
        """Put zeros where columns were left out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_selected)
            Rows as `transform` returns them.

        Returns
        -------
        {ndarray, sparse matrix} of shape (n_samples, n_features)
            Rows with all columns.
        """
        with may_overflow():
            rows: NDArray[Any] | Matrix = super().inverse_transform(
                sound(X, "X") if sparse.issparse(X) else X
            )
            return rows

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = True
        return tags

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        self._validate_params()
        return least_false(self.probabilities_, float(self.fdr))

    def _targets(self, y: NDArray[Any]) -> tuple[Array, NDArray[np.intp] | None]:
        """Return centred targets of one scale, and classes as numbers where there are some.

        Targets of classes are contrasts of their indicators.
        """
        if self.task == "classification" or (self.task == "auto" and _are_classes(y)):
            classes, codes = encode(y)
            if len(classes) < 2:
                raise ValueError("y has one class: give rows of at least two classes.")
            if len(classes) > _MOST_CLASSES:
                raise ValueError(
                    f"y has {len(classes)} classes, more than {_MOST_CLASSES}: if y holds "
                    'quantities, set task="regression".'
                )
            Y = linalg.helmert(len(classes)).T[codes]
            return np.asarray(Y - np.mean(Y, axis=0)), codes
        Y = real_array(y, "y").reshape(len(y), -1)
        Y = np.ldexp(Y, -exponent_of(Y))
        Y = Y - np.mean(Y, axis=0)
        scale = np.sqrt(np.mean(Y**2, axis=0))
        return np.asarray(np.divide(Y, scale, out=np.zeros_like(Y), where=scale > 0.0)), None

    def _probabilities(
        self, X: Any, Y: Array, codes: NDArray[np.intp] | None, rng: np.random.Generator
    ) -> Array:
        """Return the probability of each column; constant ones do not matter."""
        n_features = X.shape[1]
        probabilities = np.zeros(n_features)
        varies = _that_vary(X)
        if not Y.any() or len(varies) == 0:
            return probabilities
        if min(len(Y), N_SHAPES * len(varies)) > _MOST_ROWS:
            some = _some_rows(len(Y), codes, rng)
            X, Y = X[some], Y[some]
            varies = _that_vary(X)
            if not np.ptp(Y, axis=0).any():
                raise ValueError(
                    f"The {_MOST_ROWS} rows that were drawn have the same y: give rows in which y "
                    "differs more often."
                )
            Y = Y - np.mean(Y, axis=0)
        X, n, square = X[:, varies], len(Y), float(np.sum(Y**2))
        seen = np.arange(len(varies))
        if len(varies) > _MOST_COLUMNS:
            gains = in_blocks(X, lambda shapes: gains_alone(shapes, Y, square))
            seen = np.sort(np.argsort(-gains, kind="stable")[:_MOST_COLUMNS])
        rows, targets = short(X[:, seen], Y)
        chains = [
            Chain(rows, targets, square, n, n_features, generator)
            for generator in rng.spawn(_N_CHAINS)
        ]
        burn_in = (int(self.n_sweeps) + 1) // 2
        total = len(chains) * (burn_in + int(self.n_sweeps))
        with ChainProgress(type(self).__name__, self.verbose, total) as progress:
            found = [chain.run(int(self.n_sweeps), burn_in, progress) for chain in chains]
        if len(seen) < len(varies):
            # Of so many columns there are few rows, which stay as they are.
            rest = np.setdiff1d(np.arange(len(varies)), seen)
            probabilities[varies[rest]] = in_blocks(
                X[:, rest],
                lambda shapes: np.mean(
                    [chain.probabilities_of(shapes) for chain in chains], axis=0
                ),
            )
        probabilities[varies[seen]] = np.mean(found, axis=0)
        self._compare(found, varies[seen])
        return probabilities

    def _compare(self, found: list[Array], seen: NDArray[np.intp]) -> None:
        gaps = np.ptp(found, axis=0)
        worst = int(np.argmax(gaps))
        if gaps[worst] > _APART:
            warn(
                f"two Markov chains disagree about column {seen[worst]}: it matters with "
                f"probability {found[0][worst]:.2f} and {found[1][worst]:.2f}; raise n_sweeps "
                f"(now {self.n_sweeps}).",
                ConvergenceWarning,
            )


def _are_classes(y: NDArray[Any]) -> bool:
    """Say whether targets are taken for classes."""
    try:
        # Targets of a regression are compared with their integers, which may not hold them.
        with np.errstate(invalid="ignore"):
            kind = type_of_target(y)
    except TypeError:
        # Labels without an order are named by their index.
        classes_of(y)
        raise
    if kind not in ("binary", "multiclass"):
        return False
    return y.dtype.kind not in "iuf" or len(np.unique(y)) <= max(_FEW, len(y) / _A_CLASS)


def _that_vary(X: Any) -> NDArray[np.intp]:
    """Return the columns that are not constant."""
    if sparse.issparse(X):
        least, largest = min_max_axis(X, axis=0)
    else:
        least, largest = X.min(axis=0), X.max(axis=0)
    return np.flatnonzero(least < largest)


def _some_rows(
    n: int, codes: NDArray[np.intp] | None, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Draw rows, of classes half of them so that all classes have as many."""
    shares = None
    if codes is not None:
        counts = np.bincount(codes)
        shares = 0.5 / n + 0.5 / (len(counts) * counts[codes])
    return np.sort(rng.choice(n, _MOST_ROWS, replace=False, p=shares))


def short(X: Any, Y: Array) -> tuple[Array, Array]:
    """Return components of all columns, and targets, in no more rows than there are components.

    Of many rows, only sums of products are needed.
    """
    n, n_features = X.shape
    n_components = N_SHAPES * n_features
    if n <= n_components:
        return _components(X), Y
    columns = [shapes_of(_column(X, d)) for d in range(n_features)]
    # As cells, rows take one byte per column.
    cells = np.stack([cells.astype(np.uint8) for _, cells in columns], axis=1)
    grams, slopes = np.zeros((n_components, n_components)), np.zeros((n_components, Y.shape[1]))
    for start in range(0, n, _ROWS_A_BLOCK):
        part = slice(start, start + _ROWS_A_BLOCK)
        Z = np.hstack([shapes[cells[part, d]] for d, (shapes, _) in enumerate(columns)])
        grams += Z.T @ Z
        slopes += Z.T @ Y[part]
    rows, targets = rotated(grams, slopes)
    return rows.reshape(-1, n_features, N_SHAPES), targets


def _column(X: Any, d: int) -> Array:
    column = X[:, [d]]
    return np.asarray(column.toarray() if sparse.issparse(X) else column).ravel()


def _components(X: Any) -> Array:
    """Return the components of all columns, of shape (n_samples, n_features, n_shapes)."""
    columns = [shapes_of(_column(X, d)) for d in range(X.shape[1])]
    return np.stack([shapes[cells] for shapes, cells in columns], axis=1)


def in_blocks(X: Any, of_shapes: Callable[[Array], Array]) -> Array:
    """Return what a function says of the components of every column, some columns at a time."""
    n_features = X.shape[1]
    starts = range(0, n_features, _BLOCK)
    return np.concatenate([of_shapes(_components(X[:, k : k + _BLOCK])) for k in starts])
