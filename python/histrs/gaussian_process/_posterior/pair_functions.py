"""The functions of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from histrs._typing import Array
from histrs.gaussian_process._bound.pairs import PairTerm
from histrs.gaussian_process._kernels.additive import Pairs, check_pairs
from histrs.gaussian_process._posterior.level_functions import function_of_pair
from histrs.gaussian_process._posterior.posterior import Posterior


class PairFunction(NamedTuple):
    """What a pair of features adds to the posterior mean beside what each adds by itself."""

    features: tuple[int, int]
    """Indices of the features."""
    knots: tuple[Array, Array]
    """Values of both, ascending; the function is bilinear between them, and constant beyond."""
    values: Array
    """The function there, of shape (n_knots, n_knots'), or (n_knots, n_knots', n_outputs)."""
    std: Array | None
    """Its posterior standard deviation there, of the shape of `values`; of a classifier whose
    classes share their hyper-parameters, of shape (n_knots, n_knots')."""


def pair_functions(
    state: dict[str, Any], pairs: Pairs | None, spread: Callable[[Array], Array] | None
) -> list[PairFunction]:
    """Return the functions of some of a fitted model's pairs, or of all.

    `spread` turns standard deviations into the user's units; None computes none.
    """
    posterior: Posterior = state["_posterior"]
    on_levels = posterior.bound.has_weights
    kernel = posterior.bound.kernel if on_levels else posterior.additive.kernel
    known = [(int(i), int(j)) for i, j in kernel.learned["interactions_"]]
    if not known:
        if pairs is None or len(pairs) == 0:
            return []
        raise ValueError("The model has no pairs: fit with Interactions in the kernel.")
    if pairs is None:
        wanted = known
    else:
        names = state.get("feature_names_in_")
        given = check_pairs(pairs, state["n_features_in_"], names, "pairs")
        wanted = [(int(i), int(j)) for i, j in given]
    functions = []
    for pair in wanted:
        if pair not in known:
            raise ValueError(f"{pair} is not among the pairs of the model, {known}.")
        function = function_of_pair if on_levels else _function_of_pair
        knots, values, variance = function(
            posterior, known.index(pair), with_variance=spread is not None
        )
        shape = len(knots[0]), len(knots[1])
        std = None
        if spread is not None and variance is not None:
            std = _on_grid(spread(np.sqrt(variance)), shape)
        functions.append(PairFunction(pair, knots, _on_grid(values, shape), std))
    return functions


def _function_of_pair(
    posterior: Posterior, k: int, *, with_variance: bool
) -> tuple[tuple[Array, Array], Array, Array | None]:
    """Return the knots of both features, the function at all of them, and its variance."""
    of_pairs = cast(PairTerm, posterior.pairs).kernel
    i, j = of_pairs.indices[k]
    cells = slice(of_pairs.starts[k], of_pairs.starts[k + 1])
    values = posterior.pair_cells("mean")[cells]
    variance = posterior.pair_variance(k, np.eye(len(values))) if with_variance else None
    return (of_pairs.knots[i], of_pairs.knots[j]), values, variance


def _on_grid(values: Array, shape: tuple[int, int]) -> Array:
    """Return numbers of cells on the grid, without an axis for outputs where there is one."""
    if values.ndim == 1 or values.shape[1] == 1:
        return values.reshape(shape)
    return values.reshape(*shape, values.shape[1])
