"""Regression on projections of several targets, which miss different rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices
from histrs.gaussian_process._missing import MissingTargets
from histrs.gaussian_process._sliced.fitting import SlicedFit
from histrs.gaussian_process._state import copied
from histrs.gaussian_process._target_patterns import TrainingRows


class SlicedMissingTargets(MissingTargets, SlicedFit):
    """Asks the one fit there is, or that of each pattern of missing targets."""

    _of_columns = (*MissingTargets._of_columns, "_table")

    def _of_targets(self, targets: Indices) -> Self:
        part = copied(self)
        part._inner = self._inner._of_targets(targets)
        part.noise_ = part._inner.noise_
        part._keep_iterations()
        return part

    def _make_ready(self) -> None:
        self._inner._state()

    def _keep_iterations(self) -> None:
        self.n_iter_ = self._inner.n_iter_

    def _n_learned(self) -> int:
        """Return the number of rows that were learned from."""
        return 1 + max(int(rows[-1]) for rows in self.pattern_rows_)

    def _add_further(self, given: TrainingRows) -> None:
        """Add rows to the patterns that there are."""
        n_rows, n_targets = self._n_learned(), np.size(self.noise_)
        if given.Y.shape[1:] != (n_targets,):
            raise ValueError(
                f"y has shape {given.Y.shape}, and targets of earlier calls "
                f"{(n_rows, n_targets)}: give as many targets per row as before."
            )
        self._add_to_patterns(given, n_rows, n_targets)

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return self._has_patterns() or super().__sklearn_is_fitted__()

    def _answers(
        self,
        X: Any,
        ask: Callable[[Any, NDArray[Any]], Any],
        *,
        at_once: bool = False,
        axis: int = -1,
    ) -> Any:
        if not self._has_patterns():
            return super()._answers(X, ask, at_once=at_once)
        return self._of_patterns(lambda fit: fit._answers(X, ask, at_once=at_once), axis)

    @property
    def std_error_(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact."""
        if self._has_patterns():
            return self._largest_std_error()
        return super().std_error_

    @property
    def quantization_error_bound_(self) -> Array:
        """What no number from the table of `n_bins` cells is off by more than."""
        if self._has_patterns():
            bound: Array = self._of_patterns(lambda fit: fit.quantization_error_bound_)
            return bound
        return super().quantization_error_bound_
