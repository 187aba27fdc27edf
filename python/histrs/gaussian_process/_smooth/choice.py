"""What smooth functions go with, and the kernels that a search for theirs begins with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs.gaussian_process._hyperparameters import SearchSpace
from histrs.gaussian_process._kernel import GeneralizedKernel

# Weights that a search begins with the best of: lines that explain much or little, and, with both
# kinds of kernel, nearly all of one or of the other.
_SLOPES = (1e-2, 1.0, 1e2)
_ROUGH = (1e-3, 1.0, 1e3)
# Rows of a likelihood that the weights are learned by where all would take long.
_MOST_ROWS = 1024


def some_rows(model: Any, n: int, most: int = _MOST_ROWS) -> NDArray[np.intp]:
    """Return the rows that weights of the kernel are learned by: all, or `most` drawn ones."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(model._seed).permutation(n)[:most])


def check_supported(model: Any) -> None:
    """Refuse parameters of a model that ask for what smooth functions do not go with."""
    if model.smoothness == "linear":
        return
    name = f"smoothness={model.smoothness!r}"
    if model.interactions is not None or model.n_interactions > 0:
        raise ValueError(
            f"{name} goes without pairs of features: leave interactions out, or smoothness as it "
            "is by default."
        )
    if model.intercept_variance not in ("auto", 0):
        raise ValueError(
            f"intercept_variance={model.intercept_variance!r} goes without {name}, whose mean is "
            'that of the targets: leave it at "auto".'
        )
    if model.feature_transform != "identity":
        raise ValueError(
            f"feature_transform={model.feature_transform!r} goes without {name}: transform the "
            "features before the fit."
        )
    for parameter, refused in (
        ("variance", ("fine", "coarse", "coarse-quantized")),
        ("solver", ("coordinate-descent",)),
        ("preconditioner", ("knots",)),
        ("feature_weights", ("ard", "relevance")),
    ):
        given = getattr(model, parameter)
        if isinstance(given, str) and given in refused:
            raise ValueError(
                f"{parameter}={given!r} is for piecewise linear functions: leave {parameter} as it "
                'is by default, or smoothness "linear".'
            )
    refuse_bins(model)


def refuse_bins(model: Any) -> None:
    """Refuse tables, which are of piecewise linear functions."""
    if model.n_bins is not None:
        raise ValueError(
            f"n_bins={model.n_bins} tabulates piecewise linear functions: leave n_bins at None, "
            'with which predictions take a search among the knots, or smoothness "linear".'
        )


def kernels_to_try(space: SearchSpace) -> list[GeneralizedKernel]:
    """Return kernels between whose weights the likelihood may have several maxima."""
    kernel: GeneralizedKernel = space.start.kernel
    kernels = [kernel]
    for name, weights in (("slope_weight", _SLOPES), ("rough_weight", _ROUGH)):
        if name not in space.names:
            continue
        low, high = space.bounds_of(name)
        others = [w for w in weights if low <= w <= high and w != kernel.parameter(name)]
        kernels += [kernel.with_parameters({name: weight}) for weight in others]
    return kernels if len(kernels) > 1 else []
