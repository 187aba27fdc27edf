"""What double precision can hold, and errors that name what it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse


def check_squares(X: Any, name: str = "X", *, of_roots: bool = False) -> None:
    """Refuse finite values of which a sum of squares would overflow, with the index of one.

    With `of_roots`, squares of their roots, and of sums of these.
    """
    is_sparse: bool = sparse.issparse(X)
    values = X.data if is_sparse else X
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    size = np.sqrt(largest) if of_roots else largest
    # Sums over the entries, of differences and of their products with weights.
    if size * 1e4 * max(1.0, float(values.size)) ** 0.5 <= np.sqrt(np.finfo(np.float64).max):
        return
    if not np.isfinite(largest):
        return  # for the check of finite values to name
    i = int(np.argmax(np.abs(values)))
    if is_sparse:
        rows = X.tocsr()
        index = [int(np.searchsorted(rows.indptr, i, side="right")) - 1, int(rows.indices[i])]
    else:
        index = [int(k) for k in np.unravel_index(i, values.shape)]
    at = ", ".join(map(str, index))
    what = "sums" if of_roots else "squares"
    raise ValueError(
        f"{name}[{at}] = {values.ravel()[i]:.3g}: {what} of such values overflow; divide the "
        "columns by a scale."
    )


def check_computed(result: Any, what: str, cure: str = "scale X down") -> None:
    """Refuse results of which a row overflowed, with the first; `what` says what of a row it is.

    Results are computed under `may_overflow`.
    """
    bad = np.flatnonzero(~np.isfinite(result).reshape(len(result), -1).all(axis=1))
    if len(bad) > 0:
        raise ValueError(f"{what} of X[{bad[0]}] overflow: {cure}.")


def may_overflow() -> np.errstate:
    """Return the state of NumPy in which what overflows becomes infinite or NaN, to be found so."""
    return np.errstate(over="ignore", invalid="ignore")


@contextmanager
def overflow_says(message: str) -> Iterator[None]:
    """Make overflows that `check_steps` and Python find in an iteration one error.

    NumPy's own flags are not asked: some BLAS set them where nothing overflows.
    """
    try:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            yield
    except (FloatingPointError, OverflowError):
        raise ValueError(message) from None


def check_steps(*values: Any) -> None:
    """Refuse what an iteration under `overflow_says` has come to, unless all is finite."""
    if not all(np.isfinite(part).all() for part in values):
        raise FloatingPointError


def exponent_of(values: Any) -> int:
    """Return the power of two that no value is above: `np.ldexp` by minus it rounds nothing."""
    return int(np.frexp(np.max(np.abs(values), initial=0.0))[1])


def in_precision_of(X: Any, learned: Any, what: str) -> Any:
    """Return what was learned, an array or CSR, in the precision of `X`, which must hold it."""
    with may_overflow():
        cast = learned.astype(X.dtype)
    values: Any = cast.data if sparse.issparse(cast) else cast  # type: ignore[attr-defined]
    if not np.isfinite(values).all():
        raise ValueError(f"{what} of the fit exceed the range of {X.dtype}: give float64.")
    return cast
