"""What a user asks of a process, and which options kernels and rows go with."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from histrs._checks.validation import count_threads
from histrs._distributed.rows import is_dask
from histrs.gaussian_process._kernels.additive import AdditiveTerms
from histrs.gaussian_process._kernels.algebra import Constant, with_scale
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._options import (
    Bins,
    LikelihoodSearch,
    Solver,
    VarianceName,
    variance_of,
)
from histrs.gaussian_process.kernels import kernel_of

_BOUNDS = ("fine", "coarse", "coarse-quantized")
_REFUSED: dict[str, dict[str, tuple[Any, ...]]] = {
    "Interactions": {"variance": _BOUNDS, "solver": ("coordinate-descent",), "log_det": ("bound",)},
    "Splines": {
        "variance": _BOUNDS,
        "solver": ("coordinate-descent",),
        "preconditioner": ("knots",),
    },
    "A dask array": {"variance": _BOUNDS, "solver": ("coordinate-descent", "greedy-block")},
}
"""Options that some terms, or rows, go without."""
_OF_ADDITIVE: dict[str, tuple[Any, ...]] = {
    "variance": _BOUNDS,
    "solver": ("coordinate-descent", "greedy-block"),
    "preconditioner": ("knots", "pivoted-cholesky", None),
    "log_det": ("bound",),
}
"""Options that only additive kernels go with."""


class Asked:
    """The parameters of a process as they are now, each checked where it is read."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @cached_property
    def _parts(self) -> tuple[Constant, Kernel]:
        given = self._model.kernel
        return with_scale(self._model._default_kernel() if given is None else kernel_of(given))

    @property
    def scale(self) -> Constant:
        """The constant that multiplies all of the kernel."""
        return self._parts[0]

    @property
    def kernel(self) -> Kernel:
        """The rest of the kernel."""
        return self._parts[1]

    @cached_property
    def terms(self) -> AdditiveTerms | None:
        """The terms of the kernel, where it is never formed."""
        return AdditiveTerms.of(*self._parts) if AdditiveTerms.suit(self.kernel) else None

    @property
    def scales(self) -> dict[str, Any]:
        """Noise and amplitude, each for all outputs or for each."""
        noise = np.maximum(self._model.noise, self._model._least_noise)
        return {"noise": noise, "amplitude": self.scale.value}

    @property
    def bounds(self) -> dict[str, Any]:
        """What the search for them keeps between."""
        noise = self._model.noise_bounds
        if self._model._least_noise > 0.0 and not is_fixed(noise):
            noise = tuple(np.maximum(noise, self._model._least_noise).tolist())
        return {"noise": noise, "amplitude": self.scale.value_bounds}

    @property
    def search(self) -> LikelihoodSearch:
        """How hyper-parameters are searched for."""
        return LikelihoodSearch.of(self._model.optimizer)

    @property
    def keeps_hyperparameters(self) -> bool:
        """Whether noise, amplitude and kernel are kept as given."""
        return self.search.method is None

    @property
    def learns_noise(self) -> bool:
        """Whether noise is that of a row of mean weight: copies of all rows do not tell it."""
        return not (self.keeps_hyperparameters or is_fixed(self._model.noise_bounds))

    def shares(self, suits: bool) -> bool:
        """Say whether all outputs share one noise and one amplitude, as is asked for or suits."""
        if self.search.shared is not None:
            return self.search.shared
        if self.keeps_hyperparameters:
            # Outputs that keep one noise and one amplitude share a system.
            return all(np.ndim(given) == 0 for given in self.scales.values())
        return suits

    @property
    def solver(self) -> Solver:
        """How systems are solved."""
        return Solver.of(self._model.solver)

    @property
    def n_threads(self) -> int:
        """The number of threads."""
        return count_threads(self._model.n_jobs)

    @property
    def bins(self) -> Bins:
        """The table that predicts."""
        return Bins.of(self._model.n_bins)

    @property
    def variance(self) -> tuple[VarianceName, int]:
        """How variances are computed, and by how many eigenvectors."""
        return variance_of(self._model.variance)

    # ---- what goes with what -------------------------------------------------------------------

    def check(self, X: Any) -> None:
        """Refuse options that mean nothing, or that the kernel or the rows go without."""
        terms = self.terms
        _ = self.bins, self.variance
        if terms is None:
            self._refuse(repr(self.kernel), _OF_ADDITIVE)
            self.check_bins(self.kernel)
            return
        if terms.has_pairs:
            self._refuse("Interactions", _REFUSED["Interactions"])
        if terms.smoothness != "linear":
            self._refuse("Splines", _REFUSED["Splines"])
            self.check_bins(terms.functions)
        if terms.levels is not None:
            self._refuse("Intersection(levels=...)", _OF_ADDITIVE)
            self.check_bins(terms.functions)
        if not terms.feature_weights_are_kept and (
            self.keeps_hyperparameters
            or isinstance(getattr(terms.functions, "feature_weights_bounds", None), str)
        ):
            raise ValueError(
                "feature_weights='ard' learns the weights: give an optimizer and "
                "feature_weights_bounds."
            )
        if is_dask(X):
            if not self._model._merges_rows:
                raise ValueError(
                    f"A dask array does not work with likelihood={self._model.likelihood!r}: give "
                    "X as a NumPy array."
                )
            self._refuse("A dask array", _REFUSED["A dask array"])
            # These need all columns of a row, or rows, in one place.
            others: list[Any] = [terms.pairs] if terms.has_pairs else []
            if (terms.smoothness, terms.transform, terms.levels) != ("linear", "identity", None):
                others.append(terms.functions)
            if others:
                raise ValueError(
                    f"A dask array does not work with {others[0]!r}: leave it out, or give X as a "
                    "NumPy array."
                )

    def _refuse(self, what: str, options: dict[str, tuple[Any, ...]]) -> None:
        given = {
            "variance": self.variance[0],
            "solver": self.solver.name,
            "preconditioner": self.solver.preconditioner,
            "log_det": self.search.log_det,
        }
        for name, refused in options.items():
            if given[name] in refused:
                raise ValueError(
                    f"{what} does not work with {name}={given[name]!r}: leave {name} at its "
                    "default."
                )

    def check_variance(self, kernel: Any) -> None:
        """Refuse bounds of the variance that a fitted kernel goes without."""
        name = self.variance[0]
        if name not in _BOUNDS:
            return
        if not isinstance(kernel, GeneralizedKernel):
            why = f"needs the kernel Intersection, and the kernel is {kernel!r}"
        elif kernel.is_smooth:
            why = "needs piecewise linear functions, and those of Splines are smooth"
        elif kernel.pairs is not None:
            why = "does not work with pairs of features"
        else:
            return
        raise ValueError(f'variance={name!r} {why}: set variance to "auto", "exact" or "cached".')

    def check_bins(self, kernel: Any) -> None:
        """Refuse tables, which are of piecewise linear functions, of any other kernel."""
        is_additive = isinstance(kernel, GeneralizedKernel)
        if self.bins.n_bins is None or (is_additive and not kernel.is_smooth):
            return
        raise ValueError(
            f"{'Splines' if is_additive else repr(kernel)} does not work with "
            f"n_bins={self._model.n_bins}, which tabulates piecewise linear functions: leave "
            "n_bins at None."
        )


def is_fixed(bounds: Any) -> bool:
    """Say whether bounds of a search leave what is given."""
    return isinstance(bounds, str) and bounds == "fixed"
