"""What additive kernels, their options and their rows go with."""

from __future__ import annotations

from typing import Any

from histrs._dask import is_dask
from histrs.gaussian_process._kernels.additive import AdditiveTerms
from histrs.gaussian_process._kernels.base import Kernel
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


def check_supported(model: Any, X: Any) -> None:
    """Refuse options of a model that mean nothing, or that its kernel or its rows go without."""
    terms: AdditiveTerms = model._terms()
    Bins.of(model.n_bins)
    variance_of(model.variance)
    if terms.has_pairs:
        _check_options(model, "Interactions")
    if terms.smoothness != "linear":
        _check_options(model, "Splines")
        refuse_bins(model)
    if is_dask(X):
        _check_options(model, "A dask array")
        _check_terms_of_dask(terms)


def _check_options(model: Any, what: str) -> None:
    solver, search = Solver.of(model.solver), LikelihoodSearch.of(model.optimizer)
    given = {
        "variance": variance_of(model.variance)[0],
        "solver": solver.name,
        "preconditioner": solver.preconditioner,
        "log_det": search.log_det,
    }
    for name, refused in _REFUSED[what].items():
        if given[name] in refused:
            raise ValueError(
                f"{what} goes without {name}={given[name]!r}: leave {name} as it is by default."
            )


def _check_terms_of_dask(terms: AdditiveTerms) -> None:
    """Refuse terms that need all columns of a row, or rows, in one place."""
    others: list[Kernel] = [] if terms.pairs is None or not terms.has_pairs else [terms.pairs]
    if terms.smoothness != "linear" or terms.transform != "identity":
        others.append(terms.functions)
    for term in others:
        raise ValueError(
            f"A dask array goes without {term!r}: leave it out, or give X as a NumPy array."
        )


def refuse_bins(model: Any) -> None:
    """Refuse tables, which are of piecewise linear functions."""
    if Bins.of(model.n_bins).n_bins is not None:
        raise ValueError(
            f"Splines goes without n_bins={model.n_bins}, which tabulates piecewise linear "
            "functions: leave n_bins at None, with which predictions take a search among the knots."
        )
