"""The terms of an additive kernel, which is never formed: functions of features, and pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._typing import Array
from histrs.gaussian_process._bound.pairs import PairKernel, PairRows
from histrs.gaussian_process._kernels.algebra import Constant, Sum
from histrs.gaussian_process._kernels.base import Kernel, as_matrix
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel, weighted_kernel
from histrs.gaussian_process._kernels.intersection import Intersection, Splines
from histrs.gaussian_process._learning.hyperparameters import Bounds

Pairs: TypeAlias = Sequence[Sequence[int | str]] | NDArray[np.integer[Any]]


@dataclass(repr=False, eq=False)
class Interactions(Kernel):
    r"""Functions of pairs of features, added to functions of single features.

    .. math:: w \sum_{(i, j)} c_i(x_i, x'_i) \, c_j(x_j, x'_j),

    where :math:`c_d` is the covariance of a Brownian motion in equal steps over the knots of a
    feature. Its mean over the training rows is 0, and its variance 1. Neither units nor origins of
    features matter, and a pair's function has a mean of 0 over the values of each of its features:
    it holds no main effect. The block of a pair is explicit, so that products take time linear in
    the rows. Pairs are chosen by histograms of the residuals, as in FAST ([1]_). Their weight
    maximises the marginal likelihood of rows that did not choose the pairs. Up to 2,048 rows, each
    half has the pairs of the other half. With more rows, 1,024 are held out.

    Parameters
    ----------
    pairs : int or sequence of pairs of int or str, default=20
        A number chooses at most so many pairs, by the residuals of the additive fit. With more than
        64 features, only the 64 that vary most form pairs. A sequence gives the pairs, by index or
        by name.
    n_knots : int, default=12
        Knots of a feature in a pair: quantiles of its training values, or all values if they are
        few.
    weight : float, default=0.3
        `w`, the mean variance of a pair's function over the training rows, from which the search
        starts.
    weight_bounds : pair or "fixed", default=(1e-6, 1e6)
        Least and greatest weight in the search; "fixed" keeps it.

    References
    ----------
    .. [1] Y. Lou, R. Caruana, J. Gehrke and G. Hooker, "Accurate intelligible models with pairwise
       interactions", KDD, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> from histrs.gaussian_process.kernels import Interactions, Intersection
    >>> X = np.random.default_rng(0).random((300, 3))
    >>> kernel = Intersection() + Interactions(1)
    >>> model = IntersectionGPRegressor(kernel, random_state=0).fit(X, X[:, 0] * X[:, 2])
    >>> model.interactions_
    array([[0, 2]])
    """

    multiplies: ClassVar[str] = "weight"

    pairs: int | Pairs = 20
    n_knots: int = 12
    weight: float = 0.3
    weight_bounds: Bounds = (1e-6, 1e6)

    @property
    def are_found(self) -> bool:
        """Whether pairs are looked for, or given."""
        return isinstance(self.pairs, int | np.integer)

    @property
    def has_none(self) -> bool:
        """Whether no pair is asked for."""
        return self.are_found and self.pairs == 0

    def check(self) -> None:
        """Refuse parameters that mean nothing."""
        if self.are_found and self.pairs < 0:  # type: ignore[operator]
            raise ValueError(f"pairs = {self.pairs!r}: give a number of pairs, or the pairs.")
        if not 2 <= self.n_knots <= 256:
            raise ValueError(f"n_knots = {self.n_knots!r}: must be between 2 and 256.")
        if not 0.0 < self.weight < np.inf:
            raise ValueError(f"weight = {self.weight!r}: must be positive.")

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        self.check()
        if self.are_found:
            raise ValueError(
                f"{self!r} can only choose pairs in Intersection() + Interactions(), without a "
                "transform and without other terms: name the pairs, such as [(0, 1)]."
            )
        X = as_matrix(X)
        pairs = check_pairs(self.pairs, X.shape[1], None)  # type: ignore[arg-type]
        self._core = PairKernel.of(X, pairs, self.n_knots)

    def parts(self, X: Any, Y: Any | None, n_threads: int) -> tuple[Array, ...]:
        """Return the kernel matrix of weight 1."""
        left = PairRows(self._core, as_matrix(X)).cells
        right = left if Y is None else PairRows(self._core, as_matrix(Y)).cells
        return (np.asarray(left @ self._core.covary(right.T.toarray())),)

    def diagonal(self, X: Any, n_threads: int) -> Array:
        return np.asarray(self.weight_ * PairRows(self._core, as_matrix(X)).diagonal)


@dataclass(frozen=True)
class AdditiveTerms:
    """What is asked of functions of features, whose parameters have their names, and of pairs."""

    scale: Constant
    """The signal variance."""
    functions: Intersection | Splines
    pairs: Interactions | None

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "functions"), name)

    @classmethod
    def of(cls, scale: Constant, kernel: Kernel) -> AdditiveTerms:
        """Take an expression apart, and check its terms; `scale` multiplies all of it."""
        functions, pairs = _taken_apart(kernel)
        if functions is None:
            raise ValueError(
                f"{kernel!r} is not additive: give Intersection() or Splines(), or one of these "
                "plus Interactions()."
            )
        found = cls(scale, functions, pairs)
        found.check()
        return found

    @staticmethod
    def suit(kernel: Kernel) -> bool:
        """Say whether an expression is Splines, or Intersection with or without Interactions."""
        functions, pairs = _taken_apart(kernel)
        alone = isinstance(functions, Intersection) and functions.transform == "identity"
        return functions is not None and (pairs is None or alone)

    def start(self, columns: _histrs.SortedColumns, n_threads: int) -> GeneralizedKernel:
        """Return the kernel that a search starts from; `columns` are those of training rows."""
        of_features = self.transform, self.exponent, self.feature_weights
        kernel = weighted_kernel(*of_features, columns, n_threads)
        names = ("exponent", "feature_weights", "slope_weight", "rough_weight")
        bounds: dict[str, Any] = {
            name: getattr(self.functions, f"{name}_bounds", "fixed") for name in names
        }
        if self.feature_weights_are_kept:
            bounds["feature_weights"] = "fixed"
        if self.pairs is not None:
            bounds["interaction_weight"] = self.pairs.weight_bounds
        return replace(kernel, bounds=bounds)

    @property
    def feature_weights_are_kept(self) -> bool:
        """Whether weights of features are no hyper-parameters of a search."""
        return not (isinstance(self.feature_weights, str) and self.feature_weights == "ard")

    def check(self) -> None:
        """Refuse terms that mean nothing, alone or together."""
        self.functions.check()
        given: Any = self.pairs
        if self.levels is not None and given is not None and given.weight_bounds != (1e-6, 1e6):
            raise ValueError(
                f"{given!r}: on levels each pair has a weight of its own, which is learned; leave "
                "weight_bounds as they are by default."
            )
        if self.pairs is not None:
            self.pairs.check()

    @property
    def has_pairs(self) -> bool:
        """Whether there may be pairs."""
        return self.pairs is not None and not self.pairs.has_none


def _taken_apart(kernel: Kernel) -> tuple[Intersection | Splines | None, Interactions | None]:
    """Return the functions of features and of pairs; none where there are others."""
    functions: Intersection | Splines | None = None
    pairs: Interactions | None = None
    for term in _summands(kernel):
        if isinstance(term, Intersection | Splines) and functions is None:
            functions = term
        elif isinstance(term, Interactions) and pairs is None:
            pairs = term
        else:
            return None, None
    return functions, pairs


def _summands(kernel: Kernel) -> list[Kernel]:
    if isinstance(kernel, Sum):
        return [*_summands(kernel.k1), *_summands(kernel.k2)]
    return [kernel]


def check_pairs(
    pairs: Pairs, n_features: int, names: NDArray[Any] | None, name: str = "pairs"
) -> NDArray[np.intp]:
    """Return given pairs as indices, the lesser first; each is of two features, and there once."""
    found: list[tuple[int, int]] = []
    for k, pair in enumerate(pairs):
        pair_of_user = f"{name}[{k}] = {pair!r}"
        if isinstance(pair, str) or np.ndim(pair) != 1 or len(pair) != 2:
            raise ValueError(f"{pair_of_user}: give pairs of features, such as (0, 1).")
        i, j = (feature_index(feature, pair_of_user, n_features, names) for feature in pair)
        if i == j:
            raise ValueError(f"{pair_of_user}: a pair needs two features.")
        ordered = (min(i, j), max(i, j))
        if ordered in found:
            raise ValueError(f"{pair_of_user} is given twice: give each pair once.")
        found.append(ordered)
    return np.array(found, dtype=np.intp).reshape(-1, 2)


def signs_of(given: Any, n_features: int, names: NDArray[Any] | None) -> dict[int, int]:
    """Return the columns whose functions have a sign, and this, as a user gives them."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        said = "monotonic_cst has the key {!r}"
        signs = {feature_index(d, said.format(d), n_features, names): s for d, s in given.items()}
    elif np.shape(given) == (n_features,):
        signs = dict(enumerate(np.asarray(given).tolist()))
    else:
        raise ValueError(
            f"monotonic_cst has the shape {np.shape(given)}: give a dict, or one number for each "
            f"of the {n_features} features."
        )
    for d, sign in signs.items():
        if isinstance(sign, str) or sign not in (-1, 0, 1):
            raise ValueError(
                f"monotonic_cst of feature {d} is {sign!r}: give 1 for increasing, -1 for "
                "decreasing, or 0."
            )
    return {d: int(sign) for d, sign in signs.items() if sign != 0}


def feature_index(feature: Any, said: str, n_features: int, names: NDArray[Any] | None) -> int:
    """Return the index of a feature that is given by index or name; `said` begins errors."""
    if isinstance(feature, str):
        if names is None or feature not in names.tolist():
            known = "columns have no names" if names is None else f"features are {names.tolist()}"
            raise ValueError(f"{said}: there is no feature {feature!r}; {known}.")
        return int(names.tolist().index(feature))
    if isinstance(feature, bool) or not isinstance(feature, int | np.integer):
        raise ValueError(f"{said}: name a feature by its index or by its name.")
    if not 0 <= feature < n_features:
        raise ValueError(f"{said}: feature {feature} is not one of 0 to {n_features - 1}.")
    return int(feature)
