"""How far a feature map of the additive chi-square kernel is off, of rows with themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from histrs import _histrs
from histrs._checks.sparse import is_sparse
from histrs._checks.validation import to_core
from histrs._typing import Array, Matrix
from histrs.kernel_approximation._sparse_result import csr_result

# Of values up to this the sum of a row is finite.
_HUGE = 1e290
# Rows mapped at once.
_CHUNK = 256


def relative_error(
    core: _histrs.AdditiveMap,
    X: Matrix,
    n_threads: int,
    domain: Array | None = None,
    *,
    inside: bool = False,
) -> float:
    """Return the largest relative error of the kernel of a row with itself.

    With a domain, of which there is one for all columns or one for each, only the values outside
    are counted, or those inside.
    """
    largest = 0.0
    for start in range(0, X.shape[0], _CHUNK):
        errors = _errors(core, X[start : start + _CHUNK], n_threads, domain, inside)
        largest = max(largest, float(errors.max(initial=0.0)))
    return largest


def _errors(
    core: _histrs.AdditiveMap, rows: Any, n_threads: int, domain: Array | None, inside: bool
) -> Array:
    # In a unit in which sums stay within the range; a power of 2 rounds nothing.
    huge = rows.dtype == np.float64 and rows.max() > _HUGE
    root = 2.0**-64 if huge else 1.0
    sums = _row_sums(rows * root**2)
    if domain is not None:
        rows = _part(rows, domain, inside)
    features: Any = core.transform(to_core(rows), n_threads)
    if isinstance(features, tuple):
        features = csr_result(features, rows.shape[0])
    features = features * root
    lost = np.abs(_row_sums(rows * root**2) - _row_sums(features * features))
    errors: Array = np.divide(lost, sums, out=np.zeros_like(sums), where=sums > 0)
    return errors


def _row_sums(X: Any) -> Array:
    # SciPy adds the entries of a sparse row in their own precision, whatever `dtype` is.
    X = X.astype(np.float64) if is_sparse(X) else X
    return np.asarray(X.sum(axis=1, dtype=np.float64), dtype=np.float64).ravel()


def _part(X: Any, domain: Array, inside: bool) -> Any:
    """Return rows with zeros where values are not in the domain, or are not outside it."""
    if not is_sparse(X):
        within = (domain[0] <= X) & (domain[1] >= X)
        return np.where(within == inside, X, np.zeros((), dtype=X.dtype))
    low, high = (end if len(end) == 1 else end[X.indices] for end in domain)
    kept = X.copy()
    within = (low <= X.data) & (high >= X.data)
    kept.data[within != inside] = 0
    return kept
