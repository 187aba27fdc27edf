"""Tables of additive models as ONNX graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx

# With it, sums take their axes as inputs.
_OPSET = 13
_IR_VERSION = 8


class _Tables(Protocol):
    """What is read of `AdditiveTables`."""

    @property
    def nodes(self) -> NDArray[np.float64]: ...
    @property
    def values(self) -> NDArray[np.float64]: ...
    @property
    def slopes(self) -> NDArray[np.float64]: ...
    @property
    def offset(self) -> NDArray[np.float64]: ...
    @property
    def classes(self) -> NDArray[Any] | None: ...
    @property
    def pairs(self) -> tuple[object, ...]: ...


def to_onnx(tables: _Tables) -> onnx.ModelProto:
    """Return the model that `AdditiveTables.to_onnx` describes."""
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        raise ImportError('to_onnx needs onnx: pip install "histrs[onnx]".') from error
    if tables.pairs:
        raise ValueError(
            f"The tables have {len(tables.pairs)} pairs of features, which to_onnx has no graph "
            "for: serve the tables themselves, or a model without interactions."
        )
    _check_range(tables)
    n_features, n_outputs = len(tables.nodes), len(tables.offset)
    graph = _Graph()
    scores = _scores(graph, tables)
    if tables.classes is None:
        graph.node("Identity", [scores], "variable")
        shape: list[Any] = ["n_samples", n_outputs]
        outputs = [helper.make_tensor_value_info("variable", TensorProto.FLOAT, shape)]
    else:
        labels = _labels(tables.classes)
        kinds = {"O": TensorProto.STRING, "i": TensorProto.INT64, "f": TensorProto.DOUBLE}
        kind = kinds[labels.dtype.kind]
        _probabilities(graph, scores, labels, n_outputs)
        shape = ["n_samples", len(tables.classes)]
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


def _scores(graph: _Graph, tables: _Tables) -> str:
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
        raise ValueError(f"labels of {classes.dtype} are beyond the integers of ONNX: {classes}.")
    return labels


def _check_range(tables: _Tables) -> None:
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
