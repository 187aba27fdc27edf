"""Fitted additive models as plain tables, to be served without this package."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.utils import check_scalar

from histrs import _histrs
from histrs._calibration import logits_of_classes
from histrs._checks.validation import to_core
from histrs._typing import Array
from histrs.gaussian_process._bound.pairs import PairTerm, cell_among
from histrs.gaussian_process._doors import refuse_distributed
from histrs.gaussian_process._likelihoods.rates import refuse_rates
from histrs.gaussian_process._posterior.posterior import Posterior

# Entries of training rows whose functions are held at a time.
_ENTRIES = 1 << 20
# With it, sums take their axes as inputs.
_OPSET = 13
_IR_VERSION = 8

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class PairTable:
    """A function of two features: bilinear between the nodes of a grid, and constant beyond."""

    features: tuple[int, int]
    """Indices of the features."""
    nodes: tuple[Array, Array]
    """Values of both, ascending."""
    values: Array
    """The function at the nodes, of shape (n_nodes, n_nodes', n_outputs)."""

    def scores(self, X: Array) -> Array:
        """Return the function of rows, of shape (n_samples, n_outputs)."""
        (i, j), (nodes_i, nodes_j) = self.features, self.nodes
        (a, u), (b, v) = cell_among(X[:, i], nodes_i), cell_among(X[:, j], nodes_j)
        c, d = np.minimum(a + 1, len(nodes_i) - 1), np.minimum(b + 1, len(nodes_j) - 1)
        u, v, f = u[:, None], v[:, None], self.values
        lower = (1.0 - v) * f[a, b] + v * f[a, d]
        upper = (1.0 - v) * f[c, b] + v * f[c, d]
        scores: Array = (1.0 - u) * lower + u * upper
        return scores


@dataclass(frozen=True)
class AdditiveTables:
    r"""A sum of one piecewise linear function for each feature, by the values at its nodes.

    And of one bilinear function for each pair of features, where the model has some.

    With :math:`k` the last node of feature `d` that is not above :math:`x(d)`, and :math:`u` the
    lesser of :math:`x(d)` and the last node,

    .. math:: s(x) = b + \sum_d \left( v_{dk} + m_{dk} (u - t_{dk}) \right) .

    A regression predicts `s`; a classification the probabilities :math:`\mathrm{softmax}(s)`, with
    a score of 0 for the first of two classes.
    """

    nodes: Array
    """`t`, of shape (n_features, n_nodes): the first is 0, and infinities follow the last."""
    values: Array
    """`v`, of shape (n_features, n_nodes, n_outputs)."""
    slopes: Array
    """`m`, of the same shape; 0 from the last node on."""
    offset: Array
    """`b`, of shape (n_outputs,)."""
    error_bound: Array
    """What no score is off by more than, of shape (n_outputs,): 0 where all knots are nodes."""
    classes: NDArray[Any] | None
    """Labels in the order of the probabilities; None for a regression."""
    pairs: tuple[PairTable, ...] = ()
    """What pairs of features add, of a model that has some."""

    def scores(self, X: ArrayLike) -> Array:
        """Return `s` of rows, of shape (n_samples, n_outputs); entries below 0 count as 0."""
        X = np.asarray(X, dtype=np.float64)
        scores = np.tile(self.offset, (len(X), 1))
        for x, t, v, m in zip(X.T, self.nodes, self.values, self.slopes, strict=True):
            x = np.clip(x, 0.0, t[np.isfinite(t)][-1])
            k = np.searchsorted(t, x, side="right") - 1
            scores += v[k] + m[k] * (x - t[k])[:, None]
        for pair in self.pairs:
            scores += pair.scores(X)
        return scores

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return class probabilities, of shape (n_samples, n_classes)."""
        if self.classes is None:
            raise AttributeError(
                "The tables are of a regressor, which has no classes: call scores."
            )
        probabilities: Array = softmax(logits_of_classes(self.scores(X)), axis=1)
        return probabilities

    def to_onnx(self) -> onnx.ModelProto:
        """Return an ONNX model that takes rows of single precision.

        Its input is ``X`` of shape (n_samples, n_features). A regression has the output
        ``variable`` of shape (n_samples, n_outputs); a classification ``label`` of shape
        (n_samples,) and ``probabilities`` of shape (n_samples, n_classes), as the models that
        skl2onnx converts. Entries below 0 count as 0.

        Returns
        -------
        model : onnx.ModelProto
            To be saved by ``onnx.save``, and run by any runtime of ONNX.

        Raises
        ------
        ValueError
            If nodes or values leave the range of single precision, or labels that of ONNX; or if
            there are pairs of features, whose grids are no part of this graph.
        ImportError
            If onnx is not installed: ``pip install "histrs[onnx]"``.

        Examples
        --------
        >>> import onnx  # doctest: +SKIP
        >>> onnx.save(model.export_tables().to_onnx(), "model.onnx")  # doctest: +SKIP
        """
        try:
            from onnx import TensorProto, helper
        except ImportError as error:
            raise ImportError('to_onnx needs onnx: pip install "histrs[onnx]".') from error
        if self.pairs:
            raise ValueError(
                f"to_onnx takes no pairs of features, and the tables have {len(self.pairs)}: serve "
                "the tables themselves, or fit without interactions."
            )
        _check_range(self)
        n_features, n_outputs = len(self.nodes), len(self.offset)
        graph = _Graph()
        scores = _scores(graph, self)
        if self.classes is None:
            graph.node("Identity", [scores], "variable")
            shape: list[Any] = ["n_samples", n_outputs]
            outputs = [helper.make_tensor_value_info("variable", TensorProto.FLOAT, shape)]
        else:
            labels = _labels(self.classes)
            kinds = {"O": TensorProto.STRING, "i": TensorProto.INT64, "f": TensorProto.DOUBLE}
            kind = kinds[labels.dtype.kind]
            _probabilities(graph, scores, labels, n_outputs)
            shape = ["n_samples", len(self.classes)]
            outputs = [
                helper.make_tensor_value_info("label", kind, ["n_samples"]),
                helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, shape),
            ]
        inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n_samples", n_features])]
        made = helper.make_graph(graph.nodes, "histrs", inputs, outputs, graph.constants)
        opset = helper.make_opsetid("", _OPSET)
        return helper.make_model(
            made, opset_imports=[opset], ir_version=_IR_VERSION, producer_name="histrs"
        )


def export_tables(self: Any, n_bins: int = 256) -> AdditiveTables:
    """Return the part of the model that predicts means or probabilities, as look-up tables.

    Probabilities are calibrated. The tables can be kept as arrays, evaluated in a few lines of any
    language, and served as an ONNX model (`AdditiveTables.to_onnx`), without this package.

    Parameters
    ----------
    n_bins : int, default=256
        Largest number of nodes per feature, at least 2. For a feature with at most `n_bins`
        distinct training values, the tables are exact. For others, `error_bound` bounds the error.

    Returns
    -------
    tables : AdditiveTables
        Nodes, values and slopes of a piecewise linear function for each feature, and the grid
        of each pair, which is exact.

    Raises
    ------
    TypeError, ValueError
        If `n_bins` is no integer, or less than 2. If the kernel is no sum of piecewise linear
        functions of features and of pairs. If the likelihood is "poisson" or "gamma". If the model
        is a classifier with ``calibration=None``, whose probabilities need variances.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> X = np.random.default_rng(0).random((100, 3))
    >>> model = IntersectionGPRegressor().fit(X, X[:, 0] ** 2 + X[:, 1])
    >>> tables = model.export_tables()
    >>> bool(np.allclose(tables.scores(X)[:, 0], model.predict(X)))
    True
    """
    refuse_distributed(self, "export_tables")
    refuse_rates(self, "export_tables")
    state, n_threads = self._answering(), self._asked.n_threads
    posterior: Posterior = state["_posterior"]
    if posterior.bound.has_weights:
        raise ValueError(
            "Functions on levels have steps, and tables are linear between their nodes: fit with "
            "levels=None, or write the model by save."
        )
    bound, classes, readout = posterior.additive, state.get("classes_"), self._predicted
    n_bins = check_scalar(n_bins, "n_bins", Integral, min_val=2)
    if bound.kernel.is_smooth:
        raise ValueError(
            "export_tables needs piecewise linear functions, and those of Splines are smooth: fit "
            "with Intersection()."
        )
    if bound.kernel.transform != "identity":
        raise ValueError(
            f"Intersection(transform={bound.kernel.transform!r}): tables are exact "
            'between their nodes for "identity" alone. Transform features before the fit.'
        )
    if classes is not None and self.calibration is None:
        raise ValueError(
            "calibration=None: probabilities need the variance of each row, which is no sum "
            'over features. Fit with calibration="leave-one-out".'
        )
    weights = np.ascontiguousarray(posterior.weights_of(readout))
    scales = bound.kernel.weights
    n_features, n_outputs = bound.X.shape[1], weights.shape[1]
    rows = sparse.csc_array(bound.X) if sparse.issparse(bound.X) else bound.X
    found = []
    step = max(_ENTRIES // max(rows.shape[0], 1), 1)
    for start in range(0, n_features, step):
        some: Any = rows[:, start : start + step]
        dense = np.asarray(some.toarray() if sparse.issparse(rows) else some, dtype=np.float64)
        functions = _histrs.ShapeFunctions(
            _histrs.SortedColumns(to_core(dense), n_threads), weights, n_threads
        )
        for d, column in enumerate(dense.T):
            knots, values = functions.column(d)
            scale = 1.0 if scales is None else float(scales[start + d])
            found.append(_thinned(knots, values * scale, column, n_bins))
    n_nodes = max((len(t) for t, _, _ in found), default=1)
    nodes = np.full((n_features, n_nodes), np.inf)
    tables = np.zeros((2, n_features, n_nodes, n_outputs))
    error = np.zeros(n_outputs)
    for d, (t, v, of_feature) in enumerate(found):
        nodes[d, : len(t)] = t
        tables[0, d, : len(t)] = v
        tables[1, d, : len(t) - 1] = np.diff(v, axis=0) / np.diff(t)[:, None]
        error += of_feature
    offset = np.broadcast_to(posterior.intercept(readout), (n_outputs,)).copy()
    pairs = () if bound.pairs is None else _pair_tables(bound.pairs, weights)
    return AdditiveTables(nodes, tables[0], tables[1], offset, error, classes, pairs)


def _pair_tables(pairs: PairTerm, V: Array) -> tuple[PairTable, ...]:
    """Return what each pair adds to functions with weights of training rows, as a table."""
    kernel, of_cells = pairs.kernel, pairs.cell_values(V)
    found = []
    for k, (features, (i, j)) in enumerate(zip(kernel.pairs, kernel.indices, strict=True)):
        grid = of_cells[kernel.starts[k] : kernel.starts[k + 1]].reshape(*kernel.shapes[k], -1)
        pair = (int(features[0]), int(features[1]))
        found.append(PairTable(pair, (kernel.knots[i], kernel.knots[j]), grid))
    return tuple(found)


def _thinned(knots: Array, values: Array, column: Array, most: int) -> tuple[Array, Array, Array]:
    """Return at most so many knots, the values there, and the largest error that is left.

    Nodes are dense where knots or training rows are. The error of a function that is linear between
    all knots is largest at a knot.
    """
    if len(knots) <= most:
        return knots, values, np.zeros(values.shape[1])
    _, counts = np.unique(np.append(column, 0.0), return_counts=True)
    widths, rows = np.diff(knots, prepend=knots[0]), counts.astype(np.float64)
    share = np.cumsum(widths / widths.sum() + rows / rows.sum())
    chosen = np.unique(np.searchsorted(share, np.linspace(share[0], share[-1], most)))
    nodes, at = knots[chosen], values[chosen]
    between = np.column_stack([np.interp(knots, nodes, v) for v in at.T])
    return nodes, at, np.max(np.abs(values - between), axis=0)


class _Graph:
    """Nodes and constants as they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, kind: str, inputs: list[str], output: str | None = None, **given: Any) -> str:
        """Add a node; return the name of what it computes."""
        from onnx import helper

        name = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **given))
        return name

    def constant(self, value: NDArray[Any]) -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name


def _scores(graph: _Graph, tables: AdditiveTables) -> str:
    """Add the scores: in every column the node at or below the value, and the line from there."""
    n_features, n_nodes = tables.nodes.shape
    n_outputs = len(tables.offset)

    def single(values: NDArray[Any]) -> str:
        return graph.constant(np.ascontiguousarray(values, dtype=np.float32))

    def whole(*values: int) -> str:
        return graph.constant(np.array(values, dtype=np.int64))

    # An entry that is no more than the last node does not reach the infinities behind it.
    last = np.max(tables.nodes, axis=1, where=np.isfinite(tables.nodes), initial=0.0)
    x = graph.node("Min", [graph.node("Max", ["X", single(np.zeros(1))]), single(last)])
    reached = graph.node(
        "GreaterOrEqual", [graph.node("Unsqueeze", [x, whole(2)]), single(tables.nodes)]
    )
    counts = graph.node("Cast", [reached], to=7)
    count = graph.node("ReduceSum", [counts, whole(2)], keepdims=0)
    # The first node is 0, below which nothing is left.
    first = np.arange(n_features, dtype=np.int64) * n_nodes - 1
    index = graph.node("Add", [count, graph.constant(first)])
    node = graph.node("Gather", [single(tables.nodes.ravel()), index], axis=0)
    value = graph.node("Gather", [single(tables.values.reshape(-1, n_outputs)), index], axis=0)
    slope = graph.node("Gather", [single(tables.slopes.reshape(-1, n_outputs)), index], axis=0)
    beyond = graph.node("Unsqueeze", [graph.node("Sub", [x, node]), whole(2)])
    terms = graph.node("Add", [value, graph.node("Mul", [slope, beyond])])
    total = graph.node("ReduceSum", [terms, whole(1)], keepdims=0)
    return graph.node("Add", [total, single(tables.offset)])


def _probabilities(graph: _Graph, scores: str, labels: NDArray[Any], n_outputs: int) -> None:
    """Add the outputs of a classification."""
    if n_outputs == 1:
        zeros = graph.node("Sub", [scores, scores])
        scores = graph.node("Concat", [zeros, scores], axis=1)
    graph.node("Softmax", [scores], "probabilities", axis=1)
    best = graph.node("ArgMax", [scores], axis=1, keepdims=0)
    graph.node("Gather", [graph.constant(labels), best], "label", axis=0)


def _labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels in a type that ONNX has: text, integers or numbers of double precision."""
    if classes.dtype.kind in "OSU":
        return np.array([str(label) for label in classes], dtype=object)
    if classes.dtype.kind == "f":
        return classes.astype(np.float64)
    labels = classes.astype(np.int64)
    # Of other integers, large ones without a sign alone are beyond.
    if np.any((labels < 0) != (classes < 0)):
        raise ValueError(
            f"labels of {classes.dtype} do not fit into int64, the integers of ONNX: give smaller "
            f"ones than {classes}."
        )
    return labels


def _check_range(tables: AdditiveTables) -> None:
    """Refuse what single precision does not hold."""
    nodes = tables.nodes[np.isfinite(tables.nodes)]
    with np.errstate(over="ignore", under="ignore"):
        single = nodes.astype(np.float32)
        numbers = [a.astype(np.float32) for a in (tables.values, tables.slopes, tables.offset)]
    smallest = np.finfo(np.float32).tiny
    if not all(np.all(np.isfinite(part)) for part in (single, *numbers)) or np.any(
        (nodes > 0.0) & (single < smallest)
    ):
        raise ValueError(
            "The features or the targets leave the range of single precision, which the ONNX model "
            "computes in: scale them before the fit."
        )
