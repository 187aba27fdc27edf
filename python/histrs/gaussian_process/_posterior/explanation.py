"""One prediction taken apart by feature, and by pair of features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.pairs import PairKernel, PairRows
from histrs.gaussian_process._posterior.level_functions import terms_of_rows
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._posterior.smooth_functions import feature_function, feature_variance


class Explanation(NamedTuple):
    """What each feature, and each pair, adds to the prediction of each row, and how sure that is.

    The terms are the features, and behind them the pairs of a model that has some.
    """

    names: NDArray[Any]
    """Names of the terms, of shape (n_terms,)."""
    data: Array
    """Values of the features, of shape (n_samples, n_features)."""
    values: Array
    """What terms add, of shape (n_samples, n_terms), or with a last axis for several outputs."""
    std: Array
    """Posterior standard deviations of that, of the same shape."""
    offset: Array
    """What is added to all, of shape () or (n_outputs,): the sum is the posterior mean."""
    pairs: NDArray[np.intp]
    """Features of the terms that are pairs, of shape (n_pairs, 2)."""


def explain(
    posterior: Posterior, X: Matrix, names: NDArray[Any], units: Array, n_threads: int
) -> Explanation:
    """Return the terms of the posterior mean for every row, and their standard deviations."""
    n, d = X.shape
    data = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    if posterior.bound.has_weights:
        pairs = posterior.bound.kernel.learned["interactions_"]
        values, variances = terms_of_rows(posterior, data)
        of_rows = data, values, np.sqrt(variances)
        return _explanation(*of_rows, pairs, names, units, posterior.intercept("mean"))
    if posterior.additive.smooth is not None:
        return _explain_smoothly(posterior, data, names, units)
    # A row for each entry above zero, where the mean is the term of that feature; others add none.
    held = np.flatnonzero(data)
    columns = (held % d).astype(np.int32)
    single = sparse.csr_array(
        (data.ravel()[held], columns, np.arange(len(held) + 1)), shape=(len(held), d)
    )
    offset = posterior.intercept("mean")

    def for_all(of_held: Array) -> Array:
        terms = np.zeros((n * d, of_held.shape[1]))
        terms[held] = of_held
        return terms.reshape(n, d, -1)

    values = for_all(posterior.read_features("mean", single, n_threads))
    std = for_all(np.sqrt(posterior.feature_variance(single)))
    of_pairs = None if posterior.pairs is None else posterior.pairs.kernel
    pairs = np.empty((0, 2), np.intp) if of_pairs is None else of_pairs.pairs
    if of_pairs is not None:
        values_of_pairs, std_of_pairs = _pair_terms(posterior, of_pairs, PairRows(of_pairs, X))
        values = np.concatenate([values, values_of_pairs], axis=1)
        std = np.concatenate([std, std_of_pairs], axis=1)
    return _explanation(data, values, std, pairs, names, units, offset)


def _explanation(
    data: Array,
    values: Array,
    std: Array,
    pairs: NDArray[np.intp],
    names: NDArray[Any],
    units: Array,
    offset: Array,
) -> Explanation:
    """Return terms with their names and in the users' units."""
    if len(pairs) > 0:
        both = [f"{names[i]} & {names[j]}" for i, j in pairs]
        names = np.array([*names, *both], dtype=object)
    std = np.broadcast_to(std * units, values.shape)
    if len(offset) == 1:
        return Explanation(names, data, values[:, :, 0], std[:, :, 0], offset[0], pairs)
    return Explanation(names, data, values, std, offset, pairs)


def _explain_smoothly(
    posterior: Posterior, data: Array, names: NDArray[Any], units: Array
) -> Explanation:
    offset = posterior.intercept("mean")
    values = np.empty((*data.shape, len(offset)))
    std = np.empty((*data.shape, len(posterior.systems)))
    for d in range(data.shape[1]):
        term = posterior.feature_term(d)
        if term is not None:
            values[:, d] = feature_function(posterior, term, "mean", d, data[:, d])
            std[:, d] = np.sqrt(feature_variance(posterior, term, d, data[:, d]))
    return _explanation(data, values, std, np.empty((0, 2), np.intp), names, units, offset)


def _pair_terms(posterior: Posterior, kernel: PairKernel, rows: PairRows) -> tuple[Array, Array]:
    """Return what pairs add to rows, and its deviations, of shape (n_rows, n_pairs, n_outputs)."""
    of_cells = posterior.pair_cells("mean")
    cells = rows.cells.tocsc()
    values, std = [], []
    for k in range(len(kernel.pairs)):
        start, end = kernel.starts[k : k + 2]
        of_pair = cells[:, start:end]
        values.append(np.asarray(of_pair @ of_cells[start:end]))
        variance = posterior.pair_variance(k, of_pair.T.toarray())
        std.append(np.sqrt(variance))
    return np.stack(values, axis=1), np.stack(std, axis=1)
