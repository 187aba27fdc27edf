"""The posterior mean taken apart: what each feature, and each pair of features, adds.

What users call are functions of a fitted process, which are its methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._bound.pairs import PairRows, PairTerm
from histrs.gaussian_process._bound.scores import ExactScore
from histrs.gaussian_process._bound.splines import SmoothScore, SmoothTerm
from histrs.gaussian_process._doors import check_entries, refuse_distributed
from histrs.gaussian_process._kernels.additive import Pairs, check_pairs, feature_index
from histrs.gaussian_process._kernels.levels import LevelPair, evenly
from histrs.gaussian_process._posterior.posterior import Posterior

# Points at which a function looks smooth.
_N_POINTS = 200

Moments: TypeAlias = tuple[Array, Array | None]
"""What a term adds, a column for each output, and the variance of that, one for each system."""


class ShapeFunction(NamedTuple):
    """What one feature adds to the posterior mean, a function of the feature alone."""

    feature: int
    """Index of the feature."""
    knots: Array
    """Values of the feature, ascending from 0, of shape (n_knots,)."""
    values: Array
    """The function there, of shape (n_knots,), or (n_knots, n_outputs) with several outputs."""
    std: Array | None
    """Its posterior standard deviation there, of the shape of `values`; of a classifier whose
    classes share their hyper-parameters, of shape (n_knots,)."""


class PairFunction(NamedTuple):
    """What a pair of features adds to the posterior mean beside what each adds by itself."""

    features: tuple[int, int]
    """Indices of the features."""
    knots: tuple[Array, Array]
    """Values of both, ascending; the function is bilinear between them, and constant beyond."""
    values: Array
    """The function there, of shape (n_knots, n_knots'), or (n_knots, n_knots', n_outputs)."""
    std: Array | None
    """Its posterior standard deviation there, of the shape of `values`; of a classifier whose
    classes share their hyper-parameters, of shape (n_knots, n_knots')."""


class Explanation(NamedTuple):
    """What each feature, and each pair, adds to the prediction of each row, and how sure that is.

    The terms are the features, and behind them the pairs of a model that has some.
    """

    names: NDArray[Any]
    """Names of the terms, of shape (n_terms,)."""
    data: Array
    """Values of the features, of shape (n_samples, n_features)."""
    values: Array
    """What terms add, of shape (n_samples, n_terms), or with a last axis for several outputs."""
    std: Array
    """Posterior standard deviations of that, of the same shape."""
    offset: Array
    """What is added to all, of shape () or (n_outputs,): the sum is the posterior mean."""
    pairs: NDArray[np.intp]
    """Features of the terms that are pairs, of shape (n_pairs, 2)."""


def explain(self: Any, X: Any) -> Explanation:
    r"""Split the posterior mean of rows into contributions of features and of pairs.

    The mean of a row is the offset, plus one number for each feature and one for each pair of
    `interactions_`. A feature's number depends on this feature alone (see `shape_functions`). For a
    classifier, the mean of a row is the mean that `latent_mean_and_variance` returns.

    Parameters
    ----------
    {rows}

    Returns
    -------
    explanation : Explanation
        Named tuple ``(names, data, values, std, offset, pairs)``. The standard deviations are
        exact, and take a solve for each entry.

    Raises
    ------
    ValueError
        If the kernel is no sum of functions of features and of pairs.
    """
    refuse_distributed(self, "explain")
    rows: Matrix = self._check_test(X)
    check_entries(self, rows)
    state = self._state()
    posterior: Posterior = state["_posterior"]
    terms = _terms_of(posterior, self._asked.n_threads)
    data = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
    values, variances = terms.of_rows(data)
    offset, pairs = posterior.intercept("mean"), posterior.bound.kernel.learned["interactions_"]
    names = state.get("feature_names_in_")
    if names is None:
        names = np.array([f"x{d}" for d in range(data.shape[1])], dtype=object)
    if len(pairs) > 0:
        both = [f"{names[i]} & {names[j]}" for i, j in pairs]
        names = np.array([*names, *both], dtype=object)
    std = np.broadcast_to(np.sqrt(variances) * self._units(), values.shape)
    if len(offset) == 1:
        return Explanation(names, data, values[:, :, 0], std[:, :, 0], offset[0], pairs)
    return Explanation(names, data, values, std, offset, pairs)


def shape_functions(
    self: Any,
    features: Sequence[int | str] | None = None,
    *,
    max_knots: int | None = None,
    return_std: bool = False,
) -> list[ShapeFunction]:
    r"""Return what each feature adds to the posterior mean.

    The mean is `intercept_` :math:`+ \sum_d f_d(x(d))`, plus what `pair_functions` add, with
    :math:`f_d(t) = \mathrm{amplitude}\, w_d \sum_i \alpha_i \min(g(x_i(d)), g(t))`. Between
    neighbouring training values, `f_d` is linear in `g(t)`; it is 0 at 0, and constant above the
    largest training value. With `levels`, and for `Splines`, functions have a mean of 0 over the
    training rows. Those of `Splines` are lines beyond the training values.

    Parameters
    ----------
    features : sequence of int or str, default=None
        Indices or names of the features; None takes all.
    max_knots : int or None, default=None
        Largest number of knots of a feature. None takes every training value, and the function is
        exact everywhere; for smooth functions it takes 200 evenly spaced values.
    return_std : bool, default=False
        Whether to compute the posterior standard deviation of each function too, exactly, by a
        solve for each knot.

    Returns
    -------
    functions : list of ShapeFunction
        Named tuples ``(feature, knots, values, std)``; `std` is None unless it was asked for.

    Raises
    ------
    ValueError
        If there is no such feature, or the kernel is no sum of functions of features.
    """
    refuse_distributed(self, "shape_functions")
    state = self._state()
    terms, n_features = _terms_of(state["_posterior"], self._asked.n_threads), self.n_features_in_
    found = []
    names, given = (
        state.get("feature_names_in_"),
        range(n_features) if features is None else features,
    )
    for k, wanted in enumerate(given):
        feature = feature_index(wanted, f"features[{k}] = {wanted!r}", n_features, names)
        knots, values, variance = terms.feature(feature, max_knots, return_std)
        values = values[:, 0] if values.shape[1] == 1 else values
        std = None if variance is None else self._spread(state, np.sqrt(variance))
        found.append(ShapeFunction(feature, knots, values, std))
    return found


def pair_functions(
    self: Any, pairs: Pairs | None = None, *, return_std: bool = False
) -> list[PairFunction]:
    r"""Return what pairs of features add to the posterior mean, beside `shape_functions`.

    A pair's function is bilinear between its knots, and constant beyond them. For every value of
    one feature, its mean over the training values of the other is 0. So it holds no main effect, if
    the features are independent.

    Parameters
    ----------
    pairs : sequence of pairs of int or str, default=None
        Pairs of `interactions_`; None takes all.
    return_std : bool, default=False
        Whether to compute the posterior standard deviation of each function too, exactly, by a
        solve for each pair of knots.

    Returns
    -------
    functions : list of PairFunction
        Named tuples ``(features, knots, values, std)``; `std` is None unless it was asked for.

    Raises
    ------
    ValueError
        If the model has no such pair.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> X = np.random.default_rng(0).random((300, 4))
    >>> from histrs.gaussian_process.kernels import Interactions, Intersection
    >>> y = X[:, 3] * X[:, 1] + X[:, 0]
    >>> model = IntersectionGPRegressor(Intersection() + Interactions(1)).fit(X, y)
    >>> (function,) = model.pair_functions()
    >>> function.features, function.values.shape
    ((1, 3), (12, 12))
    """
    state = self._state()
    posterior: Posterior = state["_posterior"]
    terms = _terms_of(posterior, posterior.bound.n_threads)
    known = [(int(i), int(j)) for i, j in posterior.bound.kernel.learned["interactions_"]]
    if not known and (pairs is None or len(pairs) == 0):
        return []
    if not known:
        raise ValueError("The model has no pairs: fit with Interactions in the kernel.")
    wanted = known
    if pairs is not None:
        names = state.get("feature_names_in_")
        given = check_pairs(pairs, state["n_features_in_"], names, "pairs")
        wanted = [(int(i), int(j)) for i, j in given]
    found = []
    for pair in wanted:
        if pair not in known:
            raise ValueError(f"{pair} is not among the pairs of the model, {known}.")
        knots, values, variance = terms.pair(known.index(pair), return_std)
        shape = len(knots[0]), len(knots[1])
        std = None
        if variance is not None:
            std = _on_grid(self._spread(state, np.sqrt(variance)), shape)
        found.append(PairFunction(pair, knots, _on_grid(values, shape), std))
    return found


def _on_grid(values: Array, shape: tuple[int, int]) -> Array:
    """Return numbers of cells on the grid, without an axis for outputs where there is one."""
    if values.ndim == 1 or values.shape[1] == 1:
        return values.reshape(shape)
    return values.reshape(*shape, values.shape[1])


def _terms_of(posterior: Posterior, n_threads: int) -> Minima | Smooth | Levels:
    """Return the terms of a posterior, or fail where its kernel is no sum of such."""
    if posterior.bound.has_weights:
        return Levels(posterior, cast(LevelBound, posterior.bound))
    kind = Minima if posterior.additive.smooth is None else Smooth
    return kind(posterior, posterior.additive, n_threads)


@dataclass(frozen=True)
class Minima:
    """Piecewise linear functions of features, and bilinear ones of pairs."""

    posterior: Posterior
    bound: MinimaBound
    n_threads: int

    def feature(
        self, d: int, most: int | None, with_variance: bool
    ) -> tuple[Array, Array, Array | None]:
        """Return some training values of a feature, its function there, and the variance."""
        knots = training_values(self.bound.X, d, most)
        rows = rows_of_one_feature(knots, d, self.bound.X.shape[1])
        return knots, *self.features(rows, with_variance)

    def features(self, X: Matrix, with_variance: bool) -> Moments:
        """Return what all features of every row add, without pairs and offset."""
        posterior, bound = self.posterior, self.bound
        score = posterior.once(
            "features",
            lambda: ExactScore(bound.columns, posterior.weights_of("mean"), bound.n_threads),
        )
        T = bound.rows_of(X)
        values = score.evaluate(T, self.n_threads)
        if not with_variance:
            return values, None
        moments = bound.of_features(X)
        return values, posterior.variance_of(*moments, lambda V: bound.cross_product(T, V))

    def pair(self, k: int, with_variance: bool) -> tuple[tuple[Array, Array], Array, Array | None]:
        """Return the knots of both features, the function at all of them, and its variance."""
        kernel = cast(PairTerm, self.bound.pairs).kernel
        i, j = kernel.indices[k]
        every = np.eye(int(np.prod(kernel.shapes[k])))
        return (kernel.knots[i], kernel.knots[j]), *self.pair_at(k, every, with_variance)

    def pair_at(self, k: int, cells: Array, with_variance: bool) -> Moments:
        """Return what mixtures of a pair's cells add, a column of `cells` each."""
        posterior, pairs = self.posterior, cast(PairTerm, self.bound.pairs)
        start, end = pairs.kernel.starts[k : k + 2]
        of_all = posterior.once("cells", lambda: pairs.cell_values(posterior.weights_of("mean")))
        values = cells.T @ of_all[start:end]
        return values, posterior.variance_of(*pairs.of_pair(k, cells)) if with_variance else None

    def of_rows(self, X: Array) -> tuple[Array, Array]:
        """Return what each term adds to rows, (n_rows, n_terms, n_outputs), and variances."""
        n, d = X.shape
        # A row for each entry above zero, where the mean is the term of that feature.
        held = np.flatnonzero(X)
        entries = X.ravel()[held], (held % d).astype(np.int32), np.arange(len(held) + 1)
        rows = sparse.csr_array(entries, shape=(len(held), d))
        found: list[list[Array]] = []
        for of_held in self.features(rows, True):
            of_all = np.zeros((n * d, cast(Array, of_held).shape[1]))
            of_all[held] = of_held
            found.append([of_all.reshape(n, d, -1)])
        if self.bound.pairs is not None:
            kernel = self.bound.pairs.kernel
            cells = PairRows(kernel, X).cells.tocsc()
            for k, (start, end) in enumerate(
                zip(kernel.starts[:-1], kernel.starts[1:], strict=True)
            ):
                moments = self.pair_at(k, cells[:, start:end].T.toarray(), True)
                for terms, of_pair in zip(found, moments, strict=True):
                    terms.append(cast(Array, of_pair)[:, None])
        values, variances = (np.concatenate(terms, axis=1) for terms in found)
        return values, variances


class Smooth(Minima):
    """Smooth functions of features."""

    def feature(
        self, d: int, most: int | None, with_variance: bool
    ) -> tuple[Array, Array, Array | None]:
        """Return values from the least to the largest in training, its function, and variance."""
        rows = self._of_feature(d).rows
        low, high = float(rows.origins[0]), float(rows.columns.maxima()[0])
        points = np.linspace(low, low + high, _N_POINTS if most is None else most)
        knots = np.unique(points / self._weight(d))
        return knots, *self._at(d, knots, with_variance)

    def of_rows(self, X: Array) -> tuple[Array, Array]:
        """Return what each feature adds to rows, (n_rows, n_features, n_outputs), and variances."""
        found: Any = [self._at(d, X[:, d], True) for d in range(X.shape[1])]
        values, variances = (np.stack(part, axis=1) for part in zip(*found, strict=True))
        return values, variances

    def _at(self, d: int, values: Array, with_variance: bool) -> Moments:
        term, posterior = self._of_feature(d), self.posterior
        rows = values[:, None] * self._weight(d)

        def score(V: Array) -> Array:
            return SmoothScore(term, V).evaluate(rows, term.n_threads)

        mean = score(posterior.weights_of("mean"))
        if not with_variance:
            return mean, None
        T = term.shifted(rows)
        return mean, posterior.variance_of(term.prior(T), lambda part: term.cross(T[part]), score)

    def _of_feature(self, d: int) -> SmoothTerm:
        smooth = cast(SmoothTerm, self.bound.smooth)
        return self.posterior.once(("term", d), lambda: smooth.of_feature(d))

    def _weight(self, d: int) -> float:
        weights = self.bound.kernel.weights
        return 1.0 if weights is None else float(weights[d])


@dataclass(frozen=True)
class Levels:
    """Functions of columns and of pairs on levels: tables of their codes."""

    posterior: Posterior
    bound: LevelBound

    def feature(
        self, d: int, most: int | None, with_variance: bool
    ) -> tuple[Array, Array, Array | None]:
        """Return points of a column, its function there, and the variance."""
        points = cast(Any, self.bound.kernel.terms[d]).points
        at = np.arange(len(points)) if most is None else evenly(len(points), most)
        values, variance = self._at_codes(d, with_variance)
        return points[at], values[at], None if variance is None else variance[at]

    def pair(self, k: int, with_variance: bool) -> tuple[tuple[Array, Array], Array, Array | None]:
        """Return points of both columns of a pair, its function at all of them, and variance."""
        terms = self.bound.kernel.terms
        of_pairs = [i for i, term in enumerate(terms) if isinstance(term, LevelPair)]
        pair: Any = terms[of_pairs[k]]
        points = pair.first.points, pair.second.points
        return points, *self._at_codes(of_pairs[k], with_variance)

    def of_rows(self, X: Array) -> tuple[Array, Array]:
        """Return what each term adds to rows, (n_rows, n_terms, n_outputs), and variances."""
        found: list[Any] = []
        for k, codes in enumerate(self.bound.rows_of(X)):
            tables: Any = self._at_codes(k, True)
            found.append([table[codes] for table in tables])
        values, variances = (np.stack(part, axis=1) for part in zip(*found, strict=True))
        return values, variances

    def _at_codes(self, k: int, with_variance: bool) -> Moments:
        posterior, bound = self.posterior, self.bound
        V = posterior.weights_of("mean")
        tables: Array = posterior.once("tables", lambda: bound.tables(V))
        term, codes, weights = bound.kernel.parts[k]
        values, functions = tables[codes], (term.functions, weights)
        if not isinstance(term, LevelPair):
            values, functions = values - term.means(values), (term.centred, weights)
        if not with_variance:
            return values, None
        variances = [system.factor.variance_of(*functions) for system in posterior.systems]
        return values, np.column_stack(variances) * posterior.amplitude


def training_values(X: Matrix, feature: int, max_knots: int | None) -> Array:
    """Return 0 and the distinct values of a feature, or some of them, the largest included."""
    column = X[:, [feature]]
    entries = column.toarray() if sparse.issparse(column) else column
    knots = np.union1d([0.0], entries.astype(np.float64))
    if max_knots is not None and len(knots) > max_knots:
        knots = knots[np.linspace(0, len(knots) - 1, max_knots).round().astype(int)]
    return knots


def rows_of_one_feature(knots: Array, feature: int, n_features: int) -> Matrix:
    """Return rows that are 0 but for one feature, where the mean is that feature's function."""
    n = len(knots)
    indices = np.full(n, feature, dtype=np.int32)
    return sparse.csr_array((knots, indices, np.arange(n + 1)), shape=(n, n_features))
