"""What a product quantiser has learned, as a file keeps it, and as it is read and checked."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _archive
from histrs.quantization._metrics import METRICS

# Codewords that a code can name.
MOST_CODES = 2**16
# How far the products of columns of a rotation in single precision may be from 0 and 1.
_ORTHOGONAL = 1e-4


def parts_of(quantizer: Any) -> _archive.Content:
    """Return the header and the arrays of the file of a fitted quantiser."""
    seed = quantizer.random_state
    if seed is not None and not isinstance(seed, Integral):
        raise ValueError("random_state must be an integer or None to be kept in a file.")
    names = getattr(quantizer, "feature_names_in_", None)
    header = {
        "parameters": {
            **quantizer.get_params(),
            "random_state": None if seed is None else int(seed),
        },
        "metric": quantizer.metric_,
        "n_iter": quantizer.n_iter_,
        "n_levels": quantizer.n_levels_,
        "names": None if names is None else names.tolist(),
    }
    arrays = {
        "codebooks": quantizer.codebooks_,
        "counts": quantizer.counts_,
        "offsets": quantizer.block_offsets_,
    }
    if quantizer.rotation_ is not None:
        arrays["rotation"] = quantizer.rotation_
    return header, arrays


def state_of(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the fitted attributes that a file holds, or refuse what no quantiser has."""
    codebooks, counts, offsets = (arrays[name] for name in ("codebooks", "counts", "offsets"))
    require = _archive.require
    require(header["metric"] in METRICS, "its metric is not known")
    of_histograms = METRICS[header["metric"]].is_of_histograms
    require(codebooks.dtype in (np.float32, np.float64), "its dtype is not that of codewords")
    require(codebooks.ndim == 3 and 2 <= codebooks.shape[1] <= MOST_CODES, "it has no codebooks")
    n_books, n_codes, width = codebooks.shape
    require(counts.shape == (n_books, n_codes), "counts has not the shape of codebooks")
    n_levels = header["n_levels"]
    require(_archive.is_count(n_levels) and n_levels >= 1, "n_levels is not a number of levels")
    require(n_books % n_levels == 0, "its codebooks are not those of n_levels")
    n_blocks = n_books // n_levels
    require(np.all(counts >= 0), "a count is negative")
    require(
        offsets.shape == (n_blocks + 1,)
        and offsets[0] == 0
        and np.all(np.diff(offsets) >= 1)
        and np.diff(offsets).max() == width
        and offsets.dtype == np.int64,
        "its offsets are not those of blocks of columns",
    )
    require(_archive.is_count(header["n_iter"]), "n_iter is not a number of iterations")
    require(not of_histograms or np.all(codebooks >= 0), "a codeword is negative")
    rotation = arrays.get("rotation")
    require(
        not of_histograms or (rotation is None and n_levels == 1),
        "its metric allows no rotation and only one level",
    )
    if rotation is not None:
        d = int(offsets[-1])
        require(rotation.shape == (d, d), "its rotation has not the shape of its columns")
        require(np.abs(rotation).max() <= 1.01, "its rotation is not orthogonal")
        difference = rotation.T @ rotation - np.eye(d)
        require(np.abs(difference).max() < _ORTHOGONAL, "its rotation is not orthogonal")
        rotation = rotation.astype(codebooks.dtype)
    state = {
        "metric_": header["metric"],
        "codebooks_": codebooks,
        "rotation_": rotation,
        "n_levels_": n_levels,
        "n_iter_": header["n_iter"],
        "counts_": counts,
        "block_offsets_": offsets,
        "n_features_in_": int(offsets[-1]),
    }
    return state | names_of(header, state["n_features_in_"])


def names_of(header: dict[str, Any], n_columns: int) -> dict[str, Any]:
    """Return the names of columns as the attribute that they are, where a file has some."""
    names = header["names"]
    if names is None:
        return {}
    _archive.require(
        isinstance(names, list)
        and len(names) == n_columns
        and all(isinstance(name, str) for name in names),
        "its names are not those of its columns",
    )
    return {"feature_names_in_": np.array(names, dtype=object)}
