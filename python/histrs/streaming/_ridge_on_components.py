"""What ridge regression on principal components shares: the path of penalties and the choice."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from histrs._typing import Array
from histrs._warnings import warn
from histrs.streaming._blocks import block_components, block_path, block_sizes
from histrs.streaming._linear import LinearModel, check_labelled
from histrs.streaming._moments import Moments, moments_of
from histrs.streaming._path import SMALLEST_ALPHA, RidgePath
from histrs.streaming._principal import check_n_components
from histrs.streaming._row_space import row_space
from histrs.streaming._source import RowSource

# Penalties are worth a warning where the next one changes the error by this part of it, and of the
# variance of the targets.
_FLAT, _NOTHING = 0.01, 1e-4


class RidgeOnComponents(LinearModel):
    """What the regressor and the classifier have in common."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), "array-like", None],
        "alphas": [StrOptions({"auto"}), "array-like", Interval(Real, 0, None, closed="neither")],
        "selection": [StrOptions({"auto", "gcv", "loo"})],
        "blocks": ["array-like", StrOptions({"union"}), None],
    }

    def __init__(
        self,
        n_components: int | Sequence[int] | None = None,
        *,
        alphas: float | Sequence[float] | Literal["auto"] = "auto",
        selection: Literal["auto", "gcv", "loo"] = "auto",
        blocks: Sequence[int] | Literal["union"] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.alphas = alphas
        self.selection = selection
        self.blocks = blocks
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learn_source(self, source: RowSource) -> None:
        whole = self.blocks is not None or source.checkpoint is not None
        reduced = None if whole else row_space(source)
        if reduced is None:
            self._learn_rows(source, None)
            return
        rows, space = reduced
        self._learn_rows(rows, space.n_features)
        self.intercept_ = space.at_zero(self.coef_, np.asarray(self.intercept_))
        self.coef_ = space.expanded(self.coef_)

    def _learn_rows(self, source: RowSource, n_features: int | None) -> RidgePath:
        """Learn from rows, or from their coordinates where they have so many features.

        Returns the models of all penalties.
        """
        if self.selection == "loo" or self.blocks is not None:
            source.check_rereadable('selection="loo"' if self.blocks is None else "blocks")
        if self.blocks is None:
            shape = getattr(source.rows, "shape", None)
            if shape is not None and source.feature_map is None:
                check_n_components(self._single(), n_features or shape[1])
            moments, source = self._gathered(source)
            path = self._single_path(moments, n_features)
        else:
            if source.checkpoint is not None:
                raise ValueError("checkpoint keeps the moments of all features: set blocks=None.")
            sizes = block_sizes(self.blocks, source)
            components = block_components(self.n_components, sizes)
            self.n_components_ = sum(components)
            path = block_path(source, sizes, components)
        self._choose(path, source)
        return path

    def _gathered(self, source: RowSource) -> tuple[Moments, RowSource]:
        """Make the first pass; return the moments, and what further passes read."""
        return moments_of(source), source

    def _needs_rows(self) -> str:
        if self.selection == "loo":
            return 'selection = "loo"'
        return "" if self.blocks is None else "blocks"

    def _learn(self, moments: Moments) -> None:
        if self.blocks is not None:
            raise ValueError("blocks need the rows, twice: call fit or fit_rows.")
        self._choose(self._single_path(moments, None), None)

    def _single(self) -> int | None:
        if self.n_components is not None and np.ndim(self.n_components) != 0:
            raise ValueError(f"n_components = {self.n_components!r}: several numbers need blocks.")
        return self.n_components  # type: ignore[return-value]

    def _single_path(self, moments: Moments, n_features: int | None) -> RidgePath:
        check_labelled(moments)
        n_components = check_n_components(self._single(), n_features or moments.n_features)
        self.n_components_ = n_components
        return RidgePath.of(moments, min(n_components, moments.n_features))

    def _choose(self, path: RidgePath, source: RowSource | None) -> None:
        """Choose the penalty and set the coefficients; leaving out rows needs the rows."""
        alphas = (
            path.default_alphas(self.n_components_)
            if isinstance(self.alphas, str)
            else self._given_alphas()
        )
        selection = self._selection(alphas, source)
        if selection == "gcv":
            errors = path.generalized_errors(alphas)
        elif source is not None:
            errors = path.leave_one_out_errors(source.chunks("rows left out"), alphas)
        else:
            raise ValueError('selection="loo" needs the rows: call fit, or choose "gcv".')
        self.alphas_, self.errors_, self.selection_ = alphas, errors, selection
        self.alpha_ = float(alphas[np.argmin(errors)])
        self.coef_, self.intercept_ = path.solve(self.alpha_)
        self._warn_at_edge(path)

    def _given_alphas(self) -> Array:
        alphas = np.atleast_1d(np.asarray(self.alphas, dtype=np.float64))
        if alphas.ndim != 1 or not alphas.size or not np.all((alphas > 0) & np.isfinite(alphas)):
            raise ValueError(f"alphas = {self.alphas!r}: expected positive penalties.")
        if alphas.min() < SMALLEST_ALPHA:
            raise ValueError(
                f"alphas = {self.alphas!r}: one over a penalty below {SMALLEST_ALPHA} overflows; "
                "scale the features up, and penalties by the square."
            )
        return alphas

    def _selection(self, alphas: Array, source: RowSource | None) -> str:
        if self.selection != "auto":
            return self.selection
        # A single penalty is worth no pass, and an iterator has none left.
        again = source is not None and source.is_at_hand() and len(alphas) > 1
        return "loo" if again else "gcv"

    def _warn_at_edge(self, path: RidgePath) -> None:
        """Warn when a penalty beyond those tried would serve better."""
        order = np.argsort(self.alphas_)
        errors = self.errors_[order]
        if not np.any(np.isfinite(errors)):
            if isinstance(self.alphas, str):
                return
            warn(
                f"no penalty up to {self.alphas_[order[-1]]:.3g} is large enough: with each, the "
                "model nearly interpolates the targets, and generalized cross-validation does not "
                'work. Add larger penalties, or take alphas="auto".'
            )
            return
        best = int(np.argmin(errors))
        if len(errors) < 2 or best not in (0, len(errors) - 1):
            return
        beside = errors[1] if best == 0 else errors[-2]
        flat = beside - errors[best] <= _FLAT * errors[best] + _NOTHING * path.variance()
        # Above every eigenvalue the error is flat as well, at that of no model.
        if flat and (best > 0 or not 0 < np.max(path.values) <= self.alpha_):
            return
        if isinstance(self.alphas, str):
            if best == 0:
                warn(
                    f"the error is smallest at alpha = {self.alpha_:.3g}, the smallest that "
                    'alphas = "auto" tries. The units of the features may differ too much for one '
                    "penalty: scale them, for instance with sklearn.preprocessing.StandardScaler."
                )
            return
        kind, side = ("smallest", "smaller") if best == 0 else ("largest", "larger")
        warn(
            f"the error is smallest at alpha = {self.alpha_:.3g}, the {kind} of alphas: add {side} "
            'ones, or take alphas="auto".'
        )
