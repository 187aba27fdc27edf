"""The kernel of pairs of features."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from histrs._typing import Array
from histrs.gaussian_process._bound.pairs import PairKernel, PairRows
from histrs.gaussian_process._kernels.base import Kernel, Takes
from histrs.gaussian_process._kernels.rows import as_matrix
from histrs.gaussian_process._learning.hyperparameters import Bounds
from histrs.gaussian_process._learning.pair_search import Interactions as Pairs
from histrs.gaussian_process._learning.pair_search import check_pairs


class Interactions(Kernel):
    r"""Functions of pairs of features, beside those of each.

    .. math:: w \sum_{(i, j)} c_i(x_i, x'_i) \, c_j(x_j, x'_j),

    where :math:`c_d` is the covariance of a Brownian motion in equal steps over the knots of a
    feature, less its mean over the training rows and divided by its variance over these. Neither
    units nor origins of features matter, and a pair's function has a mean of 0 over the values of
    each of its features: it holds no main effect. The block of a pair is explicit, so that products
    take time linear in the rows. Pairs are chosen by histograms of the residuals, as in FAST
    ([1]_). The weight of chosen pairs is that of largest likelihood of rows that did not choose
    them, each half of them with the pairs of the other, up to 2,048 rows; of more, that of 1,024 of
    them.

    Parameters
    ----------
    pairs : int or sequence of pairs of int or str, default=20
        A number asks for at most so many pairs, those that tell most of what the additive fit
        leaves: of more than 64 features, pairs of the 64 that vary most. Else the pairs themselves,
        by index or by name.
    n_knots : int, default=12
        Knots of a feature in a pair: quantiles of its training values, or all of few values.
    weight : float, default=0.3
        `w`, the variance of a pair's function, mean over the training rows, where the search for it
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

    takes: ClassVar[Takes] = "numbers"

    def __init__(
        self,
        pairs: int | Pairs = 20,
        n_knots: int = 12,
        weight: float = 0.3,
        weight_bounds: Bounds = (1e-6, 1e6),
    ) -> None:
        self.pairs = pairs
        self.n_knots = n_knots
        self.weight = weight
        self.weight_bounds = weight_bounds

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
            raise ValueError(f"n_knots = {self.n_knots!r}: it is between 2 and 256.")
        if not 0.0 < self.weight < np.inf:
            raise ValueError(f"weight = {self.weight!r}: it is positive.")

    # ---- as a term of any kernel, whose matrix is stored ---------------------------------------

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        self.check()
        if self.are_found:
            raise ValueError(
                f"{self!r} looks for pairs in what Intersection leaves of untransformed features, "
                "beside no other term: name the pairs."
            )
        X = as_matrix(X)
        pairs = check_pairs(self.pairs, X.shape[1], None)  # type: ignore[arg-type]
        self._core = PairKernel.of(X, pairs, self.n_knots)

    def parts(self, X: Any, Y: Any | None, n_threads: int) -> tuple[Array, ...]:
        """Return the kernel matrix of weight 1."""
        left = PairRows(self._core, as_matrix(X)).cells
        right = left if Y is None else PairRows(self._core, as_matrix(Y)).cells
        return (np.asarray(left @ self._core.covary(right.T.toarray())),)

    def matrix(self, parts: Any) -> Array:
        """Return the kernel matrix."""
        matrix: Array = parts[0] * self.weight_
        return matrix

    def derivative(self, name: str, parts: Any) -> Array:
        """Return the derivative by the logarithm of the weight: the matrix."""
        return self.matrix(parts)

    def diagonal(self, X: Any, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        diagonal: Array = self.weight_ * PairRows(self._core, as_matrix(X)).diagonal
        return diagonal

    def scale_is_among(self, names: Any) -> bool:
        """Say whether the weight is."""
        return "weight" in names
