"""Sums and products of kernels, and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from histrs._checks.sparse import is_sparse
from histrs._typing import Array, Matrix
from histrs.gaussian_process._kernels.base import Kernel, Takes
from histrs.gaussian_process._learning.hyperparameters import Bounds

# What is stricter is behind: rows of numbers and of histograms are looked at as histograms.
_NUMBERS: tuple[Takes, ...] = ("anything", "numbers", "histograms")


@dataclass(repr=False, eq=False)
class Constant(Kernel):
    """The same for all pairs of rows: the prior variance of a level that all rows share.

    Parameters
    ----------
    value : float or array-like, default=1.0
        The constant. As a factor of the whole kernel of a process, it is where the search for the
        signal variance starts; an array then has one for each output.
    value_bounds : pair or "fixed", default=(1e-12, 1e12)
        Least and greatest value in the search; "fixed" keeps it.

    Examples
    --------
    >>> from histrs.gaussian_process.kernels import Constant, Radial
    >>> Constant(2.0, "fixed") * Radial()
    Constant(value=2.0, value_bounds='fixed') * Radial()
    """

    takes: ClassVar[Takes] = "anything"
    multiplies: ClassVar[str] = "value"
    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"value"})

    value: float | ArrayLike = 1.0
    value_bounds: Bounds = (1e-12, 1e12)

    def parts(self, X: Any, Y: Any | None, n_threads: int) -> Any:
        """Return ones, which take no memory."""
        return (np.broadcast_to(1.0, (X.shape[0], (X if Y is None else Y).shape[0])),)

    def matrix(self, parts: Any) -> Array:
        return np.full(parts[0].shape, float(self.value_))

    def diagonal(self, X: Any, n_threads: int) -> Array:
        return np.full(X.shape[0], float(self.value_))


class Views:
    """Rows as each of two kernels sees them."""

    def __init__(self, first: Any, second: Any) -> None:
        self.of = first, second

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of their numbers in both views."""
        return len(self), sum(int(np.prod(view.shape[1:])) for view in self.of)

    def __len__(self) -> int:
        return int(self.of[0].shape[0])

    def __getitem__(self, rows: Any) -> Views:
        return Views(*(view[rows] for view in self.of))


@dataclass(repr=False, eq=False)
class _Pair(Kernel):
    """Two kernels together; their parameters have the names `k1__name` and `k2__name`."""

    k1: Kernel
    k2: Kernel
    _operation: ClassVar[np.ufunc]
    _where: ClassVar[Callable[[Iterable[bool]], bool]]
    """Whether both must be such, or one."""

    @property
    def _both(self) -> dict[str, Kernel]:
        return {"k1": self.k1, "k2": self.k2}

    @property
    def takes(self) -> Takes:  # type: ignore[override]
        """What rows both take."""
        first, second = self.k1.takes, self.k2.takes
        if "anything" in (first, second):
            return second if first == "anything" else first
        if first == second:
            return first
        if "covariances" in (first, second):
            raise ValueError(
                f"{self.k1!r} takes {first}, but {self.k2!r} takes {second}: combine kernels "
                "that take the same rows."
            )
        return max(first, second, key=_NUMBERS.index)

    @property
    def sees_rows_as_they_are(self) -> bool:
        """Whether both do."""
        return self.k1.sees_rows_as_they_are and self.k2.sees_rows_as_they_are

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        self.k1, self.k2 = (k.taken(X, weights, n_threads) for k in self._both.values())

    def view(self, X: Any, n_threads: int) -> Any:
        """Return rows as both see them, or as the one does that looks at them."""
        both_look = "anything" not in (self.k1.takes, self.k2.takes)
        if both_look and not self.sees_rows_as_they_are:
            return Views(*(kernel.view(X, n_threads) for kernel in self._both.values()))
        looks = self.k2 if self.k1.takes == "anything" else self.k1
        return looks.view(X, n_threads)

    def _views(self, X: Any) -> tuple[Any, Any]:
        return X.of if isinstance(X, Views) else (X, X)

    def parts(self, X: Any, Y: Any | None, n_threads: int) -> Any:
        """Return the parts of both."""
        others = (None, None) if Y is None else self._views(Y)
        sides = zip(self._both.values(), self._views(X), others, strict=True)
        return tuple(kernel.parts(of_X, of_Y, n_threads) for kernel, of_X, of_Y in sides)

    @property
    def n_parts(self) -> int:
        return self.k1.n_parts + self.k2.n_parts

    def matrix(self, parts: Any) -> Array:
        matrix = self.k1.matrix(parts[0])
        return np.asarray(self._operation(matrix, self.k2.matrix(parts[1]), out=matrix))

    def diagonal(self, X: Any, n_threads: int) -> Array:
        pairs = zip(self._both.values(), self._views(X), strict=True)
        return np.asarray(self._operation(*(k.diagonal(view, n_threads) for k, view in pairs)))

    @property
    def leaves_level(self) -> bool:  # type: ignore[override]
        return type(self)._where(kernel.leaves_level for kernel in self._both.values())

    def scale_is_among(self, names: Any) -> bool:
        """Say whether each of a sum, or one of a product, is multiplied by such parameters."""
        return type(self)._where(
            one.scale_is_among(self._own(k, names)) for k, one in self._both.items()
        )

    def free(self) -> dict[str, Bounds]:
        return {
            f"{k}__{name}": bounds
            for k, kernel in self._both.items()
            for name, bounds in kernel.free().items()
        }

    def parameter(self, name: str) -> Any:
        k, own = name.split("__", 1)
        return self._both[k].parameter(own)

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        changed = copy(self)
        for k, kernel in self._both.items():
            own = self._own(k, values)
            if own:
                setattr(changed, k, kernel.with_parameters({n: values[f"{k}__{n}"] for n in own}))
        return changed

    @staticmethod
    def _own(k: str, names: Any) -> list[str]:
        """Return names of one kernel's parameters, as they are there."""
        return [name.split("__", 1)[1] for name in names if name.startswith(f"{k}__")]

    @property
    def ends_are_answers(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(f"{k}__{n}" for k, one in self._both.items() for n in one.ends_are_answers)


class Sum(_Pair):
    """The sum of two kernels: functions of rows that add.

    Parameters
    ----------
    k1, k2 : Kernel
        The kernels that are added.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process.kernels import Constant, Radial
    >>> X = np.array([[0.0], [1.0]])
    >>> (Radial("gaussian", 1.0) + Constant(0.5))(X).round(2)
    array([[1.5 , 1.11],
           [1.11, 1.5 ]])
    """

    _operation = np.add
    _where = all

    def __repr__(self) -> str:
        return f"{self.k1!r} + {self.k2!r}"

    def derivative(self, name: str, parts: Any) -> Array:
        k, own = name.split("__", 1)
        return self._both[k].derivative(own, parts[0 if k == "k1" else 1])


class Product(_Pair):
    """The product of two kernels: rows have something in common where both say so.

    Parameters
    ----------
    k1, k2 : Kernel
        The kernels that are multiplied.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process.kernels import Radial
    >>> (0.5 * Radial("gaussian", 1.0))(np.array([[0.0], [1.0]])).round(2)
    array([[0.5, 0.3],
           [0.3, 0.5]])
    """

    _operation = np.multiply
    _where = any

    def __repr__(self) -> str:
        factors = (f"({k!r})" if isinstance(k, Sum) else repr(k) for k in self._both.values())
        return " * ".join(factors)

    def derivative(self, name: str, parts: Any) -> Array:
        k, own = name.split("__", 1)
        first, second = parts
        if k == "k1":
            return self.k1.derivative(own, first) * self.k2.matrix(second)
        return self.k1.matrix(first) * self.k2.derivative(own, second)


def as_kernel(value: Any) -> Kernel:
    """Return a kernel; of a number, the constant."""
    if isinstance(value, Kernel):
        return value
    if np.ndim(value) > 0 or not np.isreal(value) or not value > 0:
        raise TypeError(
            f"{value!r} is neither a kernel nor a positive number: give one, such as Radial()."
        )
    return Constant(float(value))


def with_scale(kernel: Kernel) -> tuple[Constant, Kernel]:
    """Return the constant that multiplies all of a kernel, 1 where there is none, and the rest."""
    if isinstance(kernel, Product):
        for constant, rest in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if isinstance(constant, Constant):
                return constant, rest
    return Constant(), kernel


Kernel._operations.update(
    {
        "+": lambda first, second: Sum(as_kernel(first), as_kernel(second)),
        "*": lambda first, second: Product(as_kernel(first), as_kernel(second)),
    }
)


def stacked(X: Any, below: Any) -> Any:
    """Return the rows of both, in the container of the first."""
    if isinstance(X, Views):
        return Views(*map(stacked, X.of, below.of))
    if not is_sparse(X):
        return np.vstack([X, below.toarray() if is_sparse(below) else below])
    both: Matrix = type(X)(sparse.vstack([X, sparse.csr_array(below)], format="csr"))
    return both
