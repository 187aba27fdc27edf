"""What an index of codes keeps, as a file holds it, and as it is read and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _archive
from histrs.quantization import _archived
from histrs.quantization._product import ProductQuantizer

KIND = "code neighbors"


def parts_of(index: Any) -> _archive.Content:
    """Return the header and the arrays of the file of a fitted index."""
    names = getattr(index, "feature_names_in_", None)
    parameters = {
        name: value for name, value in index.get_params().items() if "quantizer" not in name
    }
    header = {
        "parameters": parameters,
        "metric": index.metric_,
        "names": None if names is None else names.tolist(),
        "quantizer": None,
        "lists": None,
    }
    # Codes of 16 bits as pairs of bytes, the lower first.
    codes = np.ascontiguousarray(index.codes_.astype(index.codes_.dtype.newbyteorder("<")))
    arrays = {"codes": codes.view(np.uint8), "ids": index.ids_}
    for name in ("norms", "rows", "list_starts"):
        if getattr(index, f"{name}_") is not None:
            arrays[name] = getattr(index, f"{name}_")
    for name in ("quantizer", "lists"):
        if getattr(index, f"{name}_") is not None:
            header[name], own = _archived.parts_of(getattr(index, f"{name}_"))
            arrays |= {f"{name}.{key}": array for key, array in own.items()}
    return header, arrays


def state_of(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the fitted attributes that a file holds, or refuse what no index has."""
    require = _archive.require
    quantizer = _quantizer("quantizer", header, arrays)
    lists = None if header["lists"] is None else _quantizer("lists", header, arrays)
    is_long = quantizer.codebooks_.shape[1] > 256
    codes = arrays["codes"]
    require(codes.dtype == np.uint8, "its codes are not bytes")
    codes = quantizer.check_codes(codes.view("<u2").astype(np.uint16) if is_long else codes)
    ids, norms, rows = arrays["ids"], arrays.get("norms"), arrays.get("rows")
    n, d = len(codes), quantizer.n_features_in_
    require(n > 0, "it has no rows")
    require(ids.shape == (n,) and ids.dtype == np.int64, "its ids are not those of rows")
    require(len(np.unique(ids)) == n, "two rows have one id")
    require(header["metric"] in ("euclidean", "sqeuclidean", "inner_product"), "unknown metric")
    has_norms = quantizer.n_levels_ > 1 and header["metric"] != "inner_product"
    require((norms is not None) == has_norms, "its norms are not those of its levels")
    require(norms is None or (norms.shape == (n,) and np.all(norms >= 0)), "a norm is negative")
    require(rows is None or rows.shape == (n, d), "its rows are not those of its codes")
    starts = arrays.get("list_starts")
    require((starts is None) == (lists is None), "its lists have no codes")
    if starts is not None and lists is not None:
        n_lists = lists.codebooks_.shape[1]
        require(lists.codebooks_.shape == (1, n_lists, d), "its lists have other columns")
        is_start = starts.shape == (n_lists + 1,) and starts.dtype == np.int64
        require(is_start, "it has not one start for each list")
        ascend = starts[0] == 0 and starts[-1] == n and np.all(np.diff(starts) >= 0)
        require(ascend, "its lists do not follow one another")
    state = {
        "quantizer_": quantizer,
        "metric_": header["metric"],
        "codes_": codes,
        "ids_": ids,
        "norms_": norms,
        "rows_": rows,
        "lists_": lists,
        "list_starts_": starts,
        "n_samples_fit_": n,
        "n_features_in_": d,
    }
    return state | _archived.names_of(header, d)


def _quantizer(
    name: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> ProductQuantizer:
    prefix = f"{name}."
    own = {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
    return ProductQuantizer._read(header[name], own)
