"""What a kernel is: an expression with parameters that can be learned, and that knows no data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from scipy import sparse

from histrs._checks.validation import count_threads, to_core
from histrs._typing import Array, CoreMatrix, Matrix
from histrs.gaussian_process._learning.hyperparameters import Bounds, check_bounds

# Values of each parameter that a search begins with the best of.
_N_TRIED = 9


def as_matrix(X: Any) -> Any:
    """Return rows as a matrix, dense or sparse."""
    return X if sparse.issparse(X) else np.asarray(X)


def double_pair(X: Matrix, Y: Matrix | None) -> tuple[CoreMatrix, CoreMatrix | None]:
    """Return both as the core takes them: in double precision and of one kind."""
    X = X.astype(np.float64, copy=False)
    if Y is None:
        return to_core(X), None
    Y = Y.astype(np.float64, copy=False)
    if sparse.issparse(X) != sparse.issparse(Y):
        X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    return to_core(X), to_core(Y)


Takes: TypeAlias = Literal["anything", "numbers", "histograms", "covariances"]


class Parametrised:
    """What all kernels say of their parameters, additive ones included that are never formed."""

    multiplies: ClassVar[str] = ""
    """The parameter that multiplies the kernel, as its variance does, if there is one."""
    ends_are_answers: ClassVar[frozenset[str]] = frozenset()
    """Parameters that a search may well leave at a bound."""

    def scale_is_among(self, names: Any) -> bool:
        """Say whether some parameters multiply the kernel, as its variance does."""
        return self.multiplies in names

    def free(self) -> dict[str, Bounds]:
        """Return the bounds of the parameters that are to be learned."""
        found = {name: check_bounds(name, bounds) for name, bounds in self._bounds().items()}
        return {name: bounds for name, bounds in found.items() if bounds != "fixed"}

    def _bounds(self) -> Mapping[str, Any]:
        """Return the bounds of all parameters, as they were given."""
        raise NotImplementedError


class Kernel(Parametrised):
    """A positive semi-definite function of two rows, with parameters.

    If the constructor has the parameters `name` and `name_bounds`, then `name` is positive and can
    be learned. The given value starts the search, and "fixed" bounds keep it. The learned value is
    the attribute `name_`. A subclass defines `parts`, `matrix` and `diagonal`. It may define
    `derivative`, the gradient; `_take`, which learns values from training rows; and `view`, which
    converts rows.

    Kernels add and multiply: ``Radial() + 0.5 * Linear()``. A number that multiplies the whole
    kernel is the start of the search for its variance.
    """

    takes: ClassVar[Takes] = "numbers"
    """What rows may be."""
    leaves_level: ClassVar[bool] = False
    """Whether rows that are far from all others have nothing in common with them."""
    most_factorised: ClassVar[int] = 10_000
    """Rows above which the matrix is kept in few bytes, where the kernel can, not factorised."""
    classes_by: ClassVar[Literal["likelihood", "leave-one-out"]] = "likelihood"
    """How parameters are best learned from classes."""
    is_single: ClassVar[bool] = False
    """Whether products with what is kept are in single precision."""
    least_tol: ClassVar[float] = 0.0
    """Residual below which what is kept is too rough to say more."""
    _unit: float = 1.0
    """What bounds are multiples of, where training rows have a say."""
    is_taken: bool = False
    """Whether what the kernel takes from training rows is there."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Attributes with a trailing underscore are set by name, as is learned."""

    # ---- what a kernel defines ---------------------------------------------------------------

    def parts(self, X: Any, Y: Any | None, n_threads: int) -> Any:
        """Return what the kernel of rows of `X` with those of `Y`, or of `X`, is made of.

        That is what takes time and does not depend on parameters: a tuple of matrices of shape
        (n_X, n_Y), such as distances.
        """
        raise NotImplementedError

    def matrix(self, parts: Any) -> Array:
        """Return the kernel matrix, as a new array in C order: of one part, a multiple."""
        return np.asarray(parts[0] * (self.parameter(self.multiplies) if self.multiplies else 1.0))

    def diagonal(self, X: Any, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        raise NotImplementedError

    def derivative(self, name: str, parts: Any) -> Array:
        """Return the derivative of the matrix by the logarithm of a parameter."""
        if name == self.multiplies:
            return self.matrix(parts)
        step, value = 1e-5, self.parameter(name)
        above, below = (
            self.with_parameters({name: value * np.exp(change)}).matrix(parts)
            for change in (step, -step)
        )
        return np.asarray((above - below) / (2.0 * step))

    def view(self, X: Any, n_threads: int) -> Any:
        """Return rows as `parts` and `diagonal` take them."""
        return X

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        """Keep what the kernel takes from training rows, in attributes with a trailing `_`."""

    # ---- what may be kept of all pairs of rows in few bytes ------------------------------------

    def stored(self, X: Any, n_threads: int) -> Any:
        """Return what `product` needs of all pairs of rows; None where there is no such thing."""
        return None

    def product(self, stored: Any, V: Array, n_threads: int) -> Array:
        """Return the product of the kernel matrix with `V`."""
        raise NotImplementedError

    @property
    def can_be_stored(self) -> bool:
        """Whether there is something to keep."""
        return type(self).stored is not Kernel.stored

    def n_landmarks(self, n_rows: int) -> int:
        """Return how many columns of the matrix of so many rows are worth preconditioning by."""
        return 512

    def least_ratio(self, stored: Any, n_rows: int) -> float:
        """Return the ratio of noise to amplitude that what is kept of so many rows asks for."""
        return 0.0

    # ---- parameters of the constructor, as scikit-learn asks for them --------------------------

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        kind: Any = type(self)
        return _parameters_of(kind)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor, with `deep` those of kernels among them too."""
        found: dict[str, Any] = {}
        for name in self._parameters:
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params"):
                found |= {f"{name}__{own}": v for own, v in value.get_params().items()}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters of the constructor; those of a kernel among them are `name__own`."""
        known = self.get_params(deep=False)
        for name, value in parameters.items():
            outer, _, own = name.partition("__")
            if outer not in known:
                raise ValueError(f"{name!r} is not a parameter of {self!r}: it has {list(known)}.")
            if own:
                known[outer].set_params(**{own: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return a call of the constructor, with what is not by default."""
        known = self._parameters
        given = self.get_params(deep=False).items()
        changed = [f"{k}={v!r}" for k, v in given if repr(v) != repr(known[k].default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    # ---- what follows ------------------------------------------------------------------------

    @property
    def sees_rows_as_they_are(self) -> bool:
        """Whether the view of rows is these."""
        return type(self).view is Kernel.view

    @property
    def n_parts(self) -> int:
        """How many matrices `parts` returns."""
        return 1

    def between(self, X: Any, Y: Any | None, n_threads: int) -> Array:
        """Return the kernel of rows of `X` with those of `Y`, or of `X`."""
        return self.matrix(self.parts(X, Y, n_threads))

    def taken(self, X: Any, weights: Array | None = None, n_threads: int = 1) -> Self:
        """Return the kernel with what it takes from training rows, at the start of a search."""
        kernel = copy(self)
        for name in self._learnable():
            setattr(kernel, f"{name}_", getattr(self, name))
        kernel._take(X, weights, n_threads)
        kernel.is_taken = True
        return kernel

    def __call__(self, X: Any, Y: Any = None, n_jobs: int | None = None) -> Array:
        """Return the matrix of the kernel of rows of `X` with those of `Y`, or of `X`."""
        n_threads = count_threads(n_jobs)
        kernel = self if self.is_taken else self.taken(X, None, n_threads)
        others = None if Y is None else kernel.view(Y, n_threads)
        return kernel.between(kernel.view(X, n_threads), others, n_threads)

    # ---- parameters --------------------------------------------------------------------------

    def _learnable(self) -> list[str]:
        """Return the names of own parameters that have bounds."""
        given = self.get_params(deep=False)
        return [name for name in given if f"{name}_bounds" in given]

    def _bounds(self) -> Mapping[str, Any]:
        found = {name: getattr(self, f"{name}_bounds") for name in self._learnable()}
        return {
            k: b if isinstance(b, str) else [x * self._unit for x in b] for k, b in found.items()
        }

    def starts(self, bounds: Mapping[str, tuple[float, float]]) -> list[Kernel]:
        """Return the kernel, and with each parameter all over its bounds; none for no parameters.

        Where no two rows have anything in common, noise is as good a model, from which no gradient
        leads away.
        """
        tried = [
            self.with_parameters({name: value})
            for name, pair in bounds.items()
            for value in np.geomspace(*pair, _N_TRIED).tolist()
        ]
        return [self, *tried] if tried else []

    def parameter(self, name: str) -> Any:
        """Return a parameter, which is positive."""
        return getattr(self, f"{name}_")

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """Return the kernel with some parameters replaced."""
        kernel = copy(self)
        for name, value in values.items():
            setattr(kernel, f"{name}_", value)
        return kernel

    # ---- algebra: sums and products are kernels, and are set where they are defined --------------

    _operations: ClassVar[dict[str, Callable[[Any, Any], Kernel]]] = {}

    def __add__(self, other: Any) -> Kernel:
        return self._operations["+"](self, other)

    def __radd__(self, other: Any) -> Kernel:
        return self._operations["+"](other, self)

    def __mul__(self, other: Any) -> Kernel:
        return self._operations["*"](self, other)

    def __rmul__(self, other: Any) -> Kernel:
        return self._operations["*"](other, self)


@cache
def _parameters_of(kernel: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kernel).parameters
