"""One prediction taken apart by feature."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs._solvers.block_cg import Array
from histrs._validation import Matrix
from histrs.gaussian_process._posterior import Posterior


class Explanation(NamedTuple):
    """What each feature adds to the prediction of each row, and how sure that is."""

    names: NDArray[Any]
    """Names of the features, of shape (n_features,)."""
    data: Array
    """Their values, of shape (n_samples, n_features)."""
    values: Array
    """What they add, of shape (n_samples, n_features), or with a last axis for several outputs."""
    std: Array
    """Posterior standard deviations of that, of the same shape."""
    offset: Array
    """What is added to all, of shape () or (n_outputs,): the sum is the posterior mean."""


def explain(
    posterior: Posterior, X: Matrix, names: NDArray[Any], units: Array, n_threads: int
) -> Explanation:
    """Return the terms of the posterior mean for every row, and their standard deviations."""
    n, d = X.shape
    data = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    # One row for each entry, where the mean is the term of that feature.
    columns = np.tile(np.arange(d, dtype=np.int32), n)
    # A copy, since zeros are taken out in place.
    entries = data.ravel().copy()
    single = sparse.csr_array((entries, columns, np.arange(n * d + 1)), shape=(n * d, d))
    single.eliminate_zeros()
    offset = posterior.readouts["mean"].offset
    values = posterior.read("mean", single, n_threads) - offset
    variance = posterior.latent_variance(single, "exact", None, 1)
    std = np.sqrt(variance) * units
    shape = (n, d) if values.shape[1] == 1 else (n, d, values.shape[1])
    return Explanation(
        names,
        data,
        values.reshape(shape),
        np.broadcast_to(std, values.shape).reshape(shape),
        offset[0] if values.shape[1] == 1 else offset,
    )
