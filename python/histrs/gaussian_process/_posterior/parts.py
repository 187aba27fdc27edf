"""The posterior mean as arrays that the crate serves: sums of functions, and stored rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _archive, _histrs
from histrs._typing import Array
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._doors import refuse_distributed
from histrs.gaussian_process._kernels.levels import LevelPair
from histrs.gaussian_process._likelihoods.rates import refuse_rates
from histrs.gaussian_process._posterior.posterior import Posterior

KIND = "model"

Curve = tuple[Array, Array]
"""Knots, and for the pieces below, between and above them, coefficients (n_terms, n_outputs)."""
Grid = tuple[tuple[int, int], tuple[Array, Array], Array]
"""Features of a pair, the nodes of both, and values of cells, of shape (n_cells, n_outputs)."""


@dataclass(frozen=True)
class Part:
    """What is added to the scores of a model: texts and arrays of a file, by their names."""

    kind: str
    texts: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    view: str = "row"
    output: int = 0
    """The output that its first score is added to."""
    gains: Array | None = field(default=None)
    """What probabilities are multiplied by, where the scores are log odds."""


def part_of(bound: Any, V: Array, offset: Array) -> Part:
    """Return the score of weights `V` of training rows, plus an offset.

    Raises ValueError if it is no sum of functions of features, and of pairs.
    """
    V = np.ascontiguousarray(V)
    if isinstance(bound, LevelBound):
        return _of_levels(bound, V, offset)
    if not isinstance(bound, MinimaBound):
        raise ValueError(
            f"A model with the kernel {bound.kernel!r} cannot be saved, because it is not a sum of "
            "functions of one or two features: fit Intersection or Splines, or pickle the model."
        )
    return _of_minima(bound, V, offset) if bound.smooth is None else _smooth(bound, V, offset)


def _of_minima(bound: MinimaBound, V: Array, offset: Array) -> Part:
    functions = _histrs.ShapeFunctions(bound.columns, V, bound.n_threads)
    curves = [line(*functions.column(d)) for d in range(bound.X.shape[1])]
    kernel, grids = bound.kernel, []
    weights = np.ones(len(curves)) if kernel.weights is None else kernel.weights
    if bound.pairs is not None:
        of_pairs = bound.pairs.kernel
        values = np.split(bound.pairs.cell_values(V), of_pairs.starts[1:-1])
        for (i, j), (a, b), cells in zip(of_pairs.pairs, of_pairs.indices, values, strict=True):
            nodes = of_pairs.knots[a] * weights[i], of_pairs.knots[b] * weights[j]
            grids.append(((int(i), int(j)), nodes, cells))
    offset = offset + bound.intercepts(V)
    part = additive(curves, offset, weights, grids)
    part.texts["transform"] = kernel.transform
    part.arrays["exponent"] = np.array([float(kernel.exponent)])
    return part


def line(knots: Array, values: Array) -> Curve:
    """Return the function that is linear between knots, and constant beyond."""
    terms = np.zeros((len(knots) + 1, 2, values.shape[1]))
    terms[1:, 0] = values
    # Between knots that nearly are one, a slope has no number, and no part.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        slopes = np.diff(values, axis=0) / np.diff(knots)[:, None]
    terms[1:-1, 1] = np.where(np.isfinite(slopes), slopes, 0.0)
    terms[0, 0] = values[0]
    return knots, terms


def _smooth(bound: MinimaBound, V: Array, offset: Array) -> Part:
    term: Any = bound.smooth
    V = np.ascontiguousarray(term.centred_weights(V))
    rows, n_outputs = term.rows, V.shape[1]
    given = term.slope_weight, None, bound.n_threads
    cubic = _histrs.CubicFunctions(rows.columns, V, *given)
    rough = _histrs.ShapeFunctions(rows.columns, term.rough_weight * V, bound.n_threads)
    slopes = term.slope_weight * np.asarray(rows.T.T @ V)
    curves = []
    for d, (origin, slope) in enumerate(zip(rows.origins, slopes, strict=True)):
        knots, derivatives = cubic.column(d)
        terms = np.zeros((len(knots) + 1, 4, n_outputs))
        terms[1:] = derivatives.reshape(len(knots), 4, n_outputs)
        terms[1:] /= np.array([1.0, 1.0, 2.0, 6.0])[:, None]
        terms[:, :2] += line(*rough.column(d))[1]
        # Below the least training value, functions are lines.
        terms[0, 1] = slope
        curves.append((origin + knots, terms))
    offset = offset - rows.masses @ term._sums(V)
    return additive(curves, offset, bound.kernel.weights)


def _of_levels(bound: LevelBound, V: Array, offset: Array) -> Part:
    kernel = bound.kernel
    tables = np.split(bound.tables(V), np.cumsum(kernel.n_codes)[:-1])
    curves, grids = [], []
    for term, table in zip(kernel.terms, tables, strict=True):
        if isinstance(term, LevelPair):
            (cuts, codes), (others, of_others) = term.first.steps, term.second.steps
            cells = table.reshape(len(term.first.points), len(term.second.points), -1)
            cells = cells[codes][:, of_others].reshape(-1, table.shape[1])
            grids.append((term.features, (cuts, others), cells))
        else:
            cuts, codes = term.steps
            curves.append((cuts, table[codes][:, None]))
    return additive(curves, offset, None, grids, steps=True)


def additive(
    curves: Sequence[Curve],
    offset: Array,
    weights: Array | None = None,
    grids: Sequence[Grid] = (),
    *,
    steps: bool = False,
) -> Part:
    """Return the sum of functions of columns times weights, and of pairs of these.

    Functions of pairs are bilinear between nodes, or with `steps` constant between cuts.
    """
    nodes = [of_feature for _, of_pair, _ in grids for of_feature in of_pair]
    n_outputs = len(offset)
    arrays = {
        "offset": offset,
        "weights": np.ones(len(curves)) if weights is None else weights,
        "exponent": np.ones(1),
        "starts": _starts([knots for knots, _ in curves]),
        "knots": _joined([knots for knots, _ in curves]),
        "terms": np.concatenate([terms for _, terms in curves]),
        "pair_features": np.array([pair for pair, _, _ in grids], dtype=np.int64).reshape(-1, 2),
        "pair_starts": _starts(nodes),
        "pair_nodes": _joined(nodes),
        "pair_cells": _joined([cells for _, _, cells in grids], n_outputs),
    }
    return Part("additive", {"transform": "identity", "steps": steps}, arrays)


def _starts(parts: Sequence[Array]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, parts)]).astype(np.int64)


def _joined(parts: Sequence[Array], *width: int) -> Array:
    return np.concatenate([np.empty((0, *width)), *parts])


def write_model(
    path: Any,
    parts: Sequence[Part],
    model: Any,
    others: Mapping[str, NDArray[Any]] | None = None,
    **texts: Any,
) -> None:
    """Write a file of parts and other arrays, which are a model, or replace one."""
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    header = {
        "n_features": model.n_features_in_,
        "classes": None if classes is None else classes.tolist(),
        "dtype": None if classes is None else classes.dtype.name,
        "names": None if names is None else names.tolist(),
        "members": [
            {"kind": part.kind, "view": part.view, "output": part.output}
            | {"odds": part.gains is not None}
            for part in parts
        ],
        "reader": False,
        "pool": False,
        "corrections": False,
        "categories": None,
        "histograms": False,
        **texts,
    }
    for labels in (header["classes"], *(header["categories"] or [])):
        if not all(isinstance(label, str | int | float | None) for label in labels or []):
            raise ValueError(
                f"The classes or categories {labels} cannot be saved: convert them to strings, "
                "numbers or Booleans before the fit."
            )
    arrays = dict(others or {})
    for k, part in enumerate(parts):
        header |= {f"{k}.{name}": value for name, value in part.texts.items()}
        arrays |= {f"{k}.{name}": array for name, array in part.arrays.items()}
        if part.gains is not None:
            arrays[f"{k}.gains"] = part.gains
    _archive.write(Path(path), header, arrays, KIND, _check)


def _check(path: Path) -> None:
    """Refuse to replace a file of anything but a model."""
    with _archive.opened(path, KIND):
        pass


def save(self: Any, path: str | os.PathLike[str]) -> None:
    """Write the part of the model that predicts means or probabilities to a file, without pickle.

    `histrs.load` reads it, and so does ``histrs::model`` of the Rust crate, which serves it
    without Python. Predictions are exact, whatever `n_bins` is. Variances are left out.

    Parameters
    ----------
    path : path-like
        The file. An older model is replaced in one step; any other file is not.

    Raises
    ------
    ValueError
        If the kernel is no sum of functions of features and of pairs. If the likelihood is
        "poisson" or "gamma". If the model is a classifier with ``calibration=None``, whose
        probabilities need variances. If `path` is a file of another kind.

    Examples
    --------
    >>> import tempfile
    >>> import histrs
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> model = IntersectionGPRegressor().fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model")
    ...     saved = histrs.load(f"{folder}/model")
    >>> bool(abs(saved.predict([[2.5]]) - model.predict([[2.5]])) < 1e-9)
    True
    """
    refuse_distributed(self, "save")
    refuse_rates(self, "save")
    state = self._answering()
    if "classes_" in state and self.calibration is None:
        raise ValueError(
            "calibration=None: probabilities need the variance of each row, which is not saved. "
            'Fit with calibration="leave-one-out".'
        )
    posterior: Posterior = state["_posterior"]
    readout = posterior.readouts[self._predicted]
    part = part_of(posterior.bound, posterior.weights_of(self._predicted), readout.offset)
    write_model(
        path,
        [part],
        self,
        n_outputs=len(readout.offset),
        is_vector=bool(state.get("_single_target", True)),
        histograms=not isinstance(posterior.bound, LevelBound),
    )
