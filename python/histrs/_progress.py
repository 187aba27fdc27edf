"""Progress of long work: a tqdm bar where tqdm is installed, lines on stderr where it is not."""

import sys
from types import TracebackType
from typing import Any, Self

import numpy as np

from histrs._solvers.block_cg import Array

try:
    from tqdm.auto import tqdm
except ImportError:
    tqdm = None


class SolverProgress:
    """Shows how far a solver has come from its first residual to its tolerance.

    Parameters
    ----------
    description : str
        What is being solved.
    tol : ndarray of shape (n_columns,)
        Tolerance of each column.
    verbose : int
        0 shows nothing.
    """

    def __init__(self, description: str, tol: Array, verbose: int) -> None:
        self._description = description
        self._tol = tol
        self._verbose = bool(verbose)
        self._bar: Any = None
        self._n_iter = 0

    def __enter__(self) -> Self:
        """Open the bar."""
        if self._verbose and tqdm is not None:
            self._bar = tqdm(desc=self._description, unit="it", leave=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()

    def __call__(self, residual: Array) -> None:
        """Show the residuals after one more iteration."""
        if not self._verbose:
            return
        self._n_iter += 1
        n_solved = int(np.sum(residual <= self._tol))
        state = f"residual {residual.max():.1e}, {n_solved}/{len(residual)} solved"
        if self._bar is not None:
            self._bar.set_postfix_str(state, refresh=False)
            self._bar.update()
        else:
            print(f"{self._description}: iteration {self._n_iter}, {state}", file=sys.stderr)
