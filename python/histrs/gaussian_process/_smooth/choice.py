"""The rows and the kernels that a search for the weights of smooth functions begins with."""

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
