"""Blends of processes on tables as files: the parts of their members, and what reads rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._typing import Array
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._kernels.even import BEGIN, EvenMixture
from histrs.gaussian_process._posterior.parts import Part, additive, line, part_of, write_model
from histrs.gaussian_process._tabular.blend import ClassPool
from histrs.gaussian_process._tabular.classification import ClassFit
from histrs.gaussian_process._tabular.log_odds import LogOdds, scale_of
from histrs.gaussian_process._tabular.means import Blend
from histrs.gaussian_process._tabular.members import Member
from histrs.gaussian_process._tabular.numbers import NumberColumns, Scale


def save(self: Any, path: str | os.PathLike[str]) -> None:
    """Write the part of the model that predicts means or probabilities to a file, without pickle.

    `histrs.load` reads it, and so does ``histrs::model`` of the Rust crate, which serves it without
    Python. Both refuse a row with a missing value in a column that had no missing values in
    training.

    Parameters
    ----------
    path : path-like
        The file. An older model is replaced in one step; any other file is not.

    Raises
    ------
    ValueError
        If the target is transformed: means then need standard deviations. Fit with
        ``target_transform="identity"``. If `path` is a file of another kind.
    """
    check_is_fitted(self)
    fitted = vars(self)[self._fitted]
    others: dict[str, NDArray[Any]] = {}
    if isinstance(fitted, ClassFit):
        n_outputs, others = len(fitted.centre), _of_pool(fitted.pool)
        parts = list(_parts(fitted.members, fitted.weights, fitted.unit, fitted.centre))
    else:
        blends = [fit.blend for fit in fitted]
        n_outputs, parts, others = len(fitted), [], _of_corrections(blends)
        for output, blend in enumerate(blends):
            parts += [replace(part, output=output) for part in _of_regression(blend)]
    table = self._reader.table
    categories = [
        None if place not in table.categories else table.categories[place].tolist()
        for place in range(len(table.kinds))
    ]
    write_model(
        path,
        parts,
        self,
        {f"reader.{name}": array for name, array in _of_reader(self._reader).items()} | others,
        n_outputs=n_outputs,
        is_vector=getattr(self, "_single_target", True),
        reader=True,
        pool=isinstance(fitted, ClassFit),
        corrections=not isinstance(fitted, ClassFit),
        kinds=table.kinds,
        categories=categories,
    )


def _of_regression(blend: Blend) -> Iterator[Part]:
    if blend.transform.name != "identity":
        raise ValueError(
            f"A model with target_transform_ = {blend.transform.name!r} cannot be saved: its means "
            "need standard deviations, and a file has none. Fit with "
            'target_transform="identity".'
        )
    scale = np.array([blend.unit]), np.array([blend.centre])
    return _parts(blend.members, blend.weights, *scale)


def _of_corrections(blends: Sequence[Blend]) -> dict[str, NDArray[Any]]:
    """Return what is added to predictions, in the unit of the target."""
    at = [blend.centre + blend.unit * blend.correction.at for blend in blends]
    return {
        "corrections.starts": np.cumsum([0, *map(len, at)]),
        "corrections.at": np.concatenate(at),
        "corrections.added": np.concatenate(
            [blend.unit * blend.correction.added for blend in blends]
        ),
    }


def _parts(members: Sequence[Member], weights: Array, unit: Array, centre: Array) -> Iterator[Part]:
    """Yield parts whose scores are those of the members in these units, with these weights."""
    offset, even = centre, []
    for member, weight in zip(members, weights.tolist(), strict=True):
        bound, kernel = member.posterior.bound, member.posterior.system.kernel
        V = member.posterior.weights
        view = "ranks" if member.name == "ranks" else "values"
        if isinstance(member, LogOdds):
            frequencies, spreads = scale_of(member.T)
            gains = weight * unit / spreads
            offset = offset - gains * frequencies
            yield replace(part_of(bound, V, member.biases), view=view, gains=gains)
        elif isinstance(kernel, EvenMixture):
            # As predictions sum the level: the weights cancel but for rounding.
            offset = offset + kernel.level * V.sum(axis=0) * (weight * unit)
            even.append((kernel, bound.X, V * (weight * unit)))
        elif isinstance(kernel, DistanceMixture):
            yield replace(_of_distances(kernel, bound.X, V * (weight * unit)), view=view)
        else:
            zeros = np.zeros(len(unit))
            yield replace(part_of(bound, V * (weight * unit), zeros), view=view)
    rest = _of_even(even, offset) if even else [_constant(members[0], offset)]
    yield from (replace(part, view="values") for part in rest)


def _constant(member: Member, offset: Array) -> Part:
    """Return what is added to all."""
    nothing = np.empty(0), np.zeros((1, 1, len(offset)))
    return additive([nothing] * member.posterior.bound.X.shape[1], offset)


def _of_distances(kernel: DistanceMixture, X: Array, V: Array) -> Part:
    of_kernel = np.exp(kernel.log_weights), np.exp(kernel.log_amplitudes)
    return _stored(kernel.norm, kernel.n_numbers, *of_kernel, kernel.lengths, X, V, kernel.axes)


def _stored(
    norm: str,
    n_numbers: int,
    weights: Array,
    amplitudes: Array,
    lengths: tuple[list[float], list[float]],
    X: Array,
    V: Array,
    axes: Array | None = None,
) -> Part:
    arrays = {
        "axes": np.empty((0, 0)) if axes is None else axes,
        "weights": weights,
        "amplitudes": amplitudes,
        "laplace": np.array(lengths[0], dtype=np.float64),
        "matern": np.array(lengths[1], dtype=np.float64),
        "rows": X,
        "coefficients": V,
    }
    return Part("distances", {"norm": norm, "n_numbers": n_numbers}, arrays)


def _of_even(members: list[tuple[EvenMixture, Array, Array]], offset: Array) -> list[Part]:
    """Return lines and curves of all members together, and their distances, less the level."""
    first, X, _ = members[0]
    n, n_columns = first.n_numbers, max(X.shape[1], 1)
    lines, near, curves = (
        np.sum([kernel.amplitude * kernel.mix[k] * V for kernel, _, V in members], axis=0)
        for k in range(3)
    )
    lines, curves = lines / n_columns, np.ascontiguousarray(curves / n_columns)
    begun = np.ascontiguousarray(np.maximum(X[:, :n] + BEGIN, 0.0) / BEGIN)
    columns = _histrs.SortedColumns(begun, 1)
    functions, slopes = _histrs.ShapeFunctions(columns, curves, 1), X[:, :n].T @ lines
    found = []
    for d, slope in enumerate(slopes):
        knots, values = functions.column(d)
        knots, first_of = np.unique(BEGIN * knots - BEGIN, return_index=True)
        _, terms = line(knots, values[first_of])
        terms[:, 0] += slope * np.append(knots[0], knots)[:, None]
        terms[:, 1] += slope
        found.append((knots, terms))
    for codes in X[:, n:].T:
        categories, index = np.unique(codes, return_inverse=True)
        of_each = np.zeros((len(categories), lines.shape[1]))
        np.add.at(of_each, index, lines + curves)
        cuts = np.unique(np.concatenate([categories - 0.5, categories + 0.5]))
        terms = np.zeros((len(cuts) + 1, 2, lines.shape[1]))
        terms[np.searchsorted(cuts, categories), 0] = of_each
        found.append((cuts, terms))
    weights = np.where(np.arange(X.shape[1]) < n, 1.0, np.sqrt(2.0))
    amplitudes, length = np.array([1.0, 0.0, 0.0]), [first.length]
    of_rows = _stored("l2", n, weights, amplitudes, (length, []), X, near)
    return [additive(found, offset), of_rows]


def _of_reader(reader: Any) -> dict[str, NDArray[Any]]:
    numbers: NumberColumns = reader._numbers
    table, n = reader.table, len(numbers._means)
    scales = np.ones((n, 11))
    scales[:, 0] = numbers._means
    scales[:, 1:4] = _of_scale(numbers._scale_in)
    if len(numbers._skewed) > 0:
        scales[numbers._skewed, 4] = numbers._powers
        scales[numbers._skewed, 5:8] = _of_scale(numbers._scale_power)
    scales[:, 8:] = _of_scale(numbers._scale_out)
    ranks = [np.empty((2, 0)), *map(np.array, numbers._ranks)]
    values, of_values = np.hstack(ranks)
    starts = np.cumsum([0, *(part.shape[1] for part in ranks[1:])])
    return {
        "numbers": table.order[:n],
        "categories": table.order[n:],
        "missing": numbers.missing,
        "skewed": numbers._skewed,
        "scales": scales,
        "rank_starts": starts,
        "rank_values": values,
        "ranks": of_values,
    }


def _of_scale(scale: Scale) -> Array:
    return np.column_stack([scale._size, scale._mean, scale._factor])


def _of_pool(pool: ClassPool) -> dict[str, Array]:
    shared, own, levels = np.split(pool._parameters, [2, len(pool._parameters) - len(pool._base)])
    slopes = shared + own.reshape(-1, 2)
    f = pool.frequencies
    constant = pool._base + levels - slopes[:, 0] * pool._logit(f) - slopes[:, 1] * f
    terms = np.column_stack([constant, slopes])
    return {"pool.least": np.array([pool._least]), "pool.terms": terms}
