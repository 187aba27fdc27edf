"""Arrays of the caller that results are written into."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._checks.sparse import is_sparse


def checked_out(
    out: Any, shape: tuple[int, ...], dtype: Any, what: str, *, c_contiguous: bool = False
) -> NDArray[Any]:
    """Return the memory of `out`, which must hold what it is for; `what` names that, in the plural.

    Raises ValueError if it is no array of that shape and dtype, or cannot be written to.
    """
    fits = (
        isinstance(out, np.ndarray)
        and out.shape == shape
        and out.dtype == dtype
        and out.flags.writeable
        and out.flags.aligned
        and (out.flags.c_contiguous or not c_contiguous)
    )
    if not fits:
        layout = ", with contiguous rows" if c_contiguous else ""
        raise ValueError(
            f"out is {_described(out)}: give a writeable array of shape {shape} and dtype "
            f"{np.dtype(dtype)} for the {what}{layout}."
        )
    return np.asarray(out)


def apart_from(out: NDArray[Any], rows: Any) -> Any:
    """Return rows that stay as they are while `out` is written: a copy where they overlap."""
    values = rows.data if is_sparse(rows) else rows
    return rows.copy() if np.may_share_memory(values, out) else rows


def _described(out: Any) -> str:
    if not isinstance(out, np.ndarray):
        return f"a {type(out).__name__}"
    notes = "" if out.flags.writeable else ", read-only"
    notes += "" if out.flags.aligned else ", not aligned"
    notes += "" if out.flags.c_contiguous else ", not contiguous"
    return f"an array of shape {out.shape} and dtype {out.dtype}{notes}"
