"""A kernel on its training rows: what systems, likelihoods and posteriors ask of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.low_rank import Landmarks, LowRank
from histrs._solvers.preconditioners import Indices, Preconditioner
from histrs._typing import Array
from histrs.gaussian_process._bound.scores import Score
from histrs.gaussian_process._options import Interpolation, PreconditionerName

AnyPreconditioner = Preconditioner | LowRank | Landmarks


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A kernel `K` on its training rows, without amplitude, and whatever the rows weigh.

    `X` are training rows as a fit keeps them, and so are rows to predict; `T` are rows as the
    kernel takes them (`rows_of`). A subclass defines what raises here.
    """

    X: Any
    kernel: Any
    n_threads: int

    refines: ClassVar[bool] = True
    """Whether a product is cheap beside a factor, which it refines then."""
    is_single: ClassVar[bool] = False
    """Whether products are in single precision."""
    least_tol: ClassVar[float] = 0.0
    """Residual below which what is kept of the rows is too rough to say more."""
    least_ratio: ClassVar[float] = 0.0
    """Noise over amplitude that what is kept of the rows asks for."""
    has_single_scores: ClassVar[bool] = False
    """Whether there are scores of weights in single precision."""
    has_nearby_rows: ClassVar[bool] = False
    """Whether the kernel of some rows is quickly made."""
    n_function_numbers: ClassVar[int] = 0
    """Numbers that hold the functions of all features, of one output, where there are such."""
    n_solved: ClassVar[int | None] = None
    """Rows that cached variances are solved for; None for as many as there is room for."""
    has_weights: ClassVar[bool] = False
    """Whether functions have fewer weights than there are rows, for which systems are solved."""
    has_single_product: ClassVar[bool] = False
    """Whether there is a product in single precision beside the exact one."""

    # ---- training rows -----------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """How many training rows there are."""
        return int(self.X.shape[0])

    @cached_property
    def rows(self) -> Any:
        """The training rows as the kernel takes them."""
        return self.rows_of(self.X)

    @property
    def diagonal(self) -> Array:
        """Diagonal of `K`."""
        return self.prior(self.rows)

    @property
    def variances(self) -> Array:
        """The same, without what is common to all rows."""
        return self.diagonal

    def product(self, V: Array) -> Array:
        """Return `K V`."""
        raise NotImplementedError

    def product_f32(self, V: Array) -> Array:
        """Return nearly `K V`, with sums in single precision."""
        raise NotImplementedError

    def matrix(self) -> Array:
        """Return `K`, as a new array in C order."""
        return self.gram(self.rows)

    def slopes(self, names: Collection[str], panel: Array, signs: Array) -> dict[str, Any]:
        """Return sums of quadratic forms of the derivatives of `K` by logarithms of parameters.

        The form `v^T dK v` of each column of `panel` counts by its entry of `signs`.
        """
        raise NotImplementedError

    def forms_by_feature(self, V: Array) -> Array:
        """Return `v^T K_d v` for the part of each feature, a column for each `v`."""
        raise NotImplementedError

    # ---- how systems are solved ----------------------------------------------------------------

    def costs(self, n_outputs: int) -> tuple[float, float] | None:
        """Return nanoseconds of a factorisation and of an iteration; None for one way alone."""
        return None

    def prefers_factor(self, n_outputs: int) -> bool:
        """Say whether a factor is the better way to solve for so many right-hand sides."""
        return True

    def factor(self, s: float, row_scale: Array | None) -> Any:
        """Return the factor of `K + s I` by fewer weights than rows; None without such."""
        return None

    @property
    def is_small(self) -> bool:
        """Whether a likelihood takes factors, and no estimates."""
        return True

    def preconditioner(
        self, name: PreconditionerName, s: float, row_scale: Array | None
    ) -> AnyPreconditioner:
        """Return what is nearly the inverse of `K + s I`, in the scale of rows."""
        raise NotImplementedError

    def check(self, solver: str) -> None:
        """Refuse a way to solve that the kernel goes without."""

    # ---- any rows ------------------------------------------------------------------------------

    def rows_of(self, X: Any) -> Any:
        """Return rows as the kernel takes them."""
        return X

    def prior(self, T: Any) -> Array:
        """Return `k(x, x)` of rows."""
        raise NotImplementedError

    def gram(self, T: Any) -> Array:
        """Return `K(T, T)`."""
        raise NotImplementedError

    def cross(self, T: Any) -> Array:
        """Return `K(X_train, T)`."""
        raise NotImplementedError

    def columns_of_matrix(self, rows: Indices) -> Array:
        """Return some columns of `K`."""
        return self.cross(self.rows_of(self.X[rows]))

    def cross_of(self, some: NDArray[np.intp], T: Any) -> Array:
        """Return `K(X_some, T)` of some training rows."""
        raise NotImplementedError

    def matrix_of(self, some: NDArray[np.intp]) -> Array:
        """Return `K` of some training rows."""
        return self.gram(self.rows_of(self.X[some]))

    def cross_product(self, T: Any, V: Array) -> Array:
        """Return `K(T, X_train) V`."""
        raise NotImplementedError

    def score(self, V: Array, n_bins: int | None, interpolation: Interpolation) -> Score:
        """Return `K(X, X_train) V` for any rows; with bins, from tables."""
        raise NotImplementedError

    def with_curves(self, V: Array) -> Array:
        """Return weights of training rows, and of functions that are not of their kernel."""
        return V

    def intercepts(self, V: Array) -> Array:
        """Return what weights `V` of the training rows add to all rows alike."""
        return np.zeros(V.shape[1])

    def average(self, X: Any) -> tuple[Array, float]:
        """Return the mean covariances of rows with each training row, and with one another."""
        T = self.rows_of(X)
        return self.cross(T).mean(axis=1), float(self.gram(T).mean())

    # ---- other kernels and other rows ----------------------------------------------------------

    def with_kernel(self, kernel: Any) -> Self:
        """Return another kernel on the same rows, with what is known of them."""
        raise NotImplementedError

    def with_threads(self, n_threads: int) -> Self:
        """Return the same with another number of threads, and nothing that is made of it."""
        return replace(self, n_threads=n_threads)

    def reweighted(self, weights: Array | None) -> Self:
        """Return the kernel on rows of other weights, where it is centred by these."""
        return self

    def as_matrix(self) -> Bound:
        """Return the kernel as likelihoods take it: what is kept in few bytes, as a matrix."""
        return self

    def lighter(self) -> Self:
        """Return the same without what only a fit asks for."""
        return self

    def check_size(self, n_rows: int, n_systems: int) -> None:
        """Fail where memory does not hold so many rows, in systems of several scales."""

    def inserted(self, X: Any, weights: Array | None) -> Self:
        """Return the kernel on further rows behind these, of such weights; None is 1."""
        raise NotImplementedError

    def removed(self, kept: Indices, removed: Indices) -> Self:
        """Return the kernel on the rows that are kept; both in ascending order."""
        raise NotImplementedError

    def means_held_out(self, without: Bound, held: Indices, weights: Array) -> Array:
        """Return what weights of other rows say of those held out.

        `without` is the kernel on the others, `weights` are theirs, whatever the scale of rows.
        """
        kept = np.ones(self.n_rows, dtype=bool)
        kept[held] = False
        # A product costs less than a search for the index of every value.
        of_all = np.zeros((self.n_rows, weights.shape[1]))
        of_all[kept] = weights
        return self.product(of_all)[held]
