"""What kernels, their options and their rows go with."""

from __future__ import annotations

from typing import Any

from histrs._distributed.rows import is_dask
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._options import Bins, LikelihoodSearch, Solver, variance_of

_BOUNDS = ("fine", "coarse", "coarse-quantized")
_REFUSED: dict[str, dict[str, tuple[Any, ...]]] = {
    "Interactions": {
        "variance": _BOUNDS,
        "solver": ("coordinate-descent",),
        "log_det": ("bound",),
    },
    "Splines": {
        "variance": _BOUNDS,
        "solver": ("coordinate-descent",),
        "preconditioner": ("knots",),
    },
    "A dask array": {
        "variance": _BOUNDS,
        "solver": ("coordinate-descent", "greedy-block"),
    },
}
"""Options that some terms, or rows, go without."""
_OF_ADDITIVE: dict[str, tuple[Any, ...]] = {
    "variance": _BOUNDS,
    "solver": ("coordinate-descent", "greedy-block"),
    "preconditioner": ("knots", "pivoted-cholesky", None),
    "log_det": ("bound",),
}
"""Options that only additive kernels go with."""


def check_supported(model: Any, X: Any) -> None:
    """Refuse options of a model that mean nothing, or that its kernel or its rows go without."""
    terms = model._terms()
    Bins.of(model.n_bins)
    variance_of(model.variance)
    if terms is None:
        kernel = model._asked()[1]
        _check_options(model, repr(kernel), _OF_ADDITIVE)
        refuse_bins(model, kernel)
        return
    if terms.has_pairs:
        _check_options(model, "Interactions", _REFUSED["Interactions"])
    if terms.smoothness != "linear":
        _check_options(model, "Splines", _REFUSED["Splines"])
        refuse_bins(model, terms.functions)
    if terms.levels is not None:
        _check_options(model, "Intersection(levels=...)", _OF_ADDITIVE)
        refuse_bins(model, terms.functions)
    bounds = getattr(terms.functions, "feature_weights_bounds", None)
    if not terms.feature_weights_are_kept and (
        model._keeps_hyperparameters() or isinstance(bounds, str)
    ):
        raise ValueError(
            "feature_weights='ard' learns them: give an optimizer and feature_weights_bounds."
        )
    if is_dask(X):
        _check_options(model, "A dask array", _REFUSED["A dask array"])
        _check_terms_of_dask(terms)


def _check_options(model: Any, what: str, options: dict[str, tuple[Any, ...]]) -> None:
    solver, search = Solver.of(model.solver), LikelihoodSearch.of(model.optimizer)
    given = {
        "variance": variance_of(model.variance)[0],
        "solver": solver.name,
        "preconditioner": solver.preconditioner,
        "log_det": search.log_det,
    }
    for name, refused in options.items():
        if given[name] in refused:
            raise ValueError(
                f"{what} goes without {name}={given[name]!r}: leave {name} as it is by default."
            )


def _check_terms_of_dask(terms: Any) -> None:
    """Refuse terms that need all columns of a row, or rows, in one place."""
    others = [] if terms.pairs is None or not terms.has_pairs else [terms.pairs]
    if (terms.smoothness, terms.transform, terms.levels) != ("linear", "identity", None):
        others.append(terms.functions)
    for term in others:
        raise ValueError(
            f"A dask array goes without {term!r}: leave it out, or give X as a NumPy array."
        )


def check_variance(kernel: Any, name: str) -> None:
    """Refuse bounds of the variance that a fitted kernel goes without."""
    if name not in _BOUNDS:
        return
    if not isinstance(kernel, GeneralizedKernel):
        raise ValueError(
            f"variance={name!r} is for sums of minima, and {kernel!r} is none: set variance to "
            '"auto", "exact" or "cached".'
        )
    if kernel.is_smooth:
        raise ValueError(
            f"variance={name!r} is for piecewise linear functions; with smooth ones, set "
            'variance to "auto", "exact" or "cached".'
        )
    if kernel.pairs is not None:
        raise ValueError(
            f"variance={name!r} bounds what the additive kernel leaves; with pairs of "
            'features, set variance to "auto", "exact" or "cached".'
        )


def refuse_bins(model: Any, kernel: Any) -> None:
    """Refuse tables, which are of piecewise linear functions, of any other kernel."""
    if Bins.of(model.n_bins).n_bins is None:
        return
    if isinstance(kernel, GeneralizedKernel) and not kernel.is_smooth:
        return
    name = "Splines" if isinstance(kernel, GeneralizedKernel) else repr(kernel)
    raise ValueError(
        f"{name} goes without n_bins={model.n_bins}, which tabulates piecewise linear "
        "functions: leave n_bins at None."
    )
