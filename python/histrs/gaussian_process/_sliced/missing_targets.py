"""Regression on projections of several targets, which miss different rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs.gaussian_process._likelihoods.patterns import (
    APART,
    Patterns,
    add_rows,
    score_of_table,
)
from histrs.gaussian_process._likelihoods.target_patterns import TrainingRows, missing_targets
from histrs.gaussian_process._sliced.fitting import SlicedFit
from histrs.gaussian_process._state import copied


class SlicedMissingTargets(RegressorMixin, SlicedFit):
    """Asks the one fit there is, or that of each pattern of missing targets."""

    pattern_rows_: list[Indices]

    def _refuse_patterns(self) -> None:
        if Patterns.of(self) is not None:
            raise ValueError(APART)

    def _parameters_of(self, targets: Indices, n_targets: int) -> dict[str, Any]:
        parameters: dict[str, Any] = self.get_params(deep=False)
        return parameters

    def _check_patterns(self, n_targets: int) -> None:
        """Refuse nothing: separate fits have the parameters of one."""

    def _check_entries(self, X: Any) -> None:
        """Refuse nothing: numbers are of any kind."""

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
        add_rows(self, given, n_rows, n_targets)

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return Patterns.of(self) is not None or super().__sklearn_is_fitted__()

    def _answers(
        self,
        X: Any,
        ask: Callable[[Any, NDArray[Any]], Any],
        *,
        at_once: bool = False,
        axis: int = -1,
    ) -> Any:
        patterns = Patterns.of(self)
        if patterns is None:
            return super()._answers(X, ask, at_once=at_once)
        return patterns.ask(lambda fit: fit._answers(X, ask, at_once=at_once), axis)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination, mean over the targets; NaN do not count."""
        if missing_targets(y) is None:
            return float(super().score(X, y, sample_weight))
        return score_of_table(self.predict(X), y, sample_weight)

    @property
    def std_error_(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact."""
        patterns = Patterns.of(self)
        if patterns is None:
            return super().std_error_
        return float(max(fit.std_error_ for fit in patterns.fits()))

    @property
    def quantization_error_bound_(self) -> Array:
        """What no number from the table of `n_bins` cells is off by more than."""
        patterns = Patterns.of(self)
        if patterns is None:
            return super().quantization_error_bound_
        bound: Array = patterns.ask(lambda fit: fit.quantization_error_bound_)
        return bound
