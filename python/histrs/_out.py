"""Arrays of the caller that results are written into."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def checked_out(
    out: Any, shape: tuple[int, ...], dtype: Any, what: str, *, c_contiguous: bool = False
) -> NDArray[Any]:
    """Return `out`, which must hold what it is for; `what` names that, in the plural."""
    fits = (
        isinstance(out, np.ndarray)
        and out.shape == shape
        and out.dtype == dtype
        and out.flags.writeable
        and (out.flags.c_contiguous or not c_contiguous)
    )
    if not fits:
        layout = " whose rows are contiguous" if c_contiguous else ""
        raise ValueError(
            f"out is {_described(out)}, and the {what} are an array of shape {shape} and dtype "
            f"{np.dtype(dtype)}: give one that can be written to{layout}."
        )
    return np.asarray(out)


def _described(out: Any) -> str:
    if not isinstance(out, np.ndarray):
        return f"a {type(out).__name__}"
    notes = "" if out.flags.writeable else ", read-only"
    notes += "" if out.flags.c_contiguous else ", not contiguous"
    return f"an array of shape {out.shape} and dtype {out.dtype}{notes}"
