"""What a kernel of rows supplies to a Gaussian process that stores its matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from histrs._solvers.block_cg import Array


@dataclass(frozen=True)
class DenseKernel:
    """A positive semi-definite function of two rows; its fields are its parameters.

    What takes time is done once for a set of pairs of rows, in `parts`: distances, or sums of
    minima. From these, `matrix` makes the kernel matrix of any parameters, entry by entry.
    """

    is_single: ClassVar[bool] = False
    """Whether products with what is kept are in single precision."""
    least_tol: ClassVar[float] = 0.0
    """Residual below which what is kept is too rough to say more."""
    ends_are_answers: ClassVar[frozenset[str]] = frozenset()
    """Parameters that a search may well leave at a bound."""

    @property
    def n_parts(self) -> int:
        """How many matrices `parts` returns."""
        return 1

    def parts(self, X: Any, Y: Any | None, n_threads: int) -> tuple[Array, ...]:
        """Return what the kernel of rows of `X` with those of `Y`, or of `X`, is made of.

        Each is of shape (n_X, n_Y), in double precision, and whatever the parameters.
        """
        raise NotImplementedError

    def matrix(self, parts: tuple[Array, ...]) -> Array:
        """Return the kernel matrix, as a new array in C order."""
        raise NotImplementedError

    def between(self, X: Any, Y: Any | None, n_threads: int) -> Array:
        """Return the kernel of rows of `X` with those of `Y`, or of `X`."""
        return self.matrix(self.parts(X, Y, n_threads))

    def derivative(self, name: str, parts: tuple[Array, ...]) -> Array:
        """Return the derivative of the kernel matrix by the logarithm of a parameter."""
        raise NotImplementedError

    def diagonal(self, X: Any, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        raise NotImplementedError

    def stored(self, X: Any, n_threads: int) -> Any:
        """Return what `product` needs of all pairs of rows, in few bytes, whatever the parameters.

        Only of kernels that have it.
        """
        raise NotImplementedError

    def n_landmarks(self, n_rows: int) -> int:
        """Return how many columns of the matrix of so many rows are worth preconditioning by."""
        return 512

    def least_ratio(self, n_rows: int) -> float:
        """Return the ratio of noise to amplitude that what is kept of so many rows asks for."""
        return 0.0

    def product(self, stored: Any, V: Array, n_threads: int) -> Array:
        """Return the product of the kernel matrix with `V`."""
        raise NotImplementedError

    def parameter(self, name: str) -> Any:
        """Return a parameter, which is positive."""
        return getattr(self, name)

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """Return the kernel with some parameters replaced."""
        return replace(self, **values)
