"""Weights of rows: the noise variance of a row is that of all, divided by its weight.

With weights `W` and their roots `R`, the system `(K + s W^-1) alpha = Y` is
`(R K R + s I) beta = R Y` with `alpha = R beta`. So systems are those of rows of one noise, in
coordinates that are scaled by `R`; only there is a likelihood, with `log det R` added.
"""

from __future__ import annotations

import numpy as np

from histrs._solvers.block_cg import Array


def roots(weights: Array | None) -> Array | None:
    """Return what rows of systems are multiplied by; None for 1."""
    return None if weights is None else np.sqrt(weights)


def appended(before: Array | None, n_before: int, added: Array | None) -> Array | None:
    """Return the numbers of rows, and of those behind them; None is 1 for those before, or all."""
    if added is None:
        return before
    return np.append(np.ones(n_before) if before is None else before, added)
