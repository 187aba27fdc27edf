"""Additive models as tables, and as ONNX models that run without this package."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._posterior import tables as _tables
from histrs.gaussian_process._posterior.tables import AdditiveTables
from histrs.gaussian_process.kernels import Intersection


def served(tables, X):
    """Return the outputs of the ONNX model of some tables."""
    onnx = pytest.importorskip("onnx", reason='onnx is not installed: pip install "histrs[onnx]"')
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = tables.to_onnx()
    onnx.checker.check_model(model, full_check=True)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X.astype(np.float32)}), strict=True))


def definition(tables, X):
    """The scores as the docstring defines them, one entry at a time."""
    scores = np.tile(tables.offset, (len(X), 1))
    for i, row in enumerate(X):
        for d, x in enumerate(row):
            t = tables.nodes[d][np.isfinite(tables.nodes[d])]
            k = max(j for j in range(len(t)) if t[j] <= x)
            u = min(x, t[-1])
            scores[i] += tables.values[d, k] + tables.slopes[d, k] * (u - t[k])
    return scores


@given(
    st.integers(1, 60),
    st.integers(1, 4),
    st.sampled_from([2, 3, 5, 16, 1000]),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_scores_are_within_the_bound_of_predictions(n, d, n_bins, scale, single, seed):
    rng = np.random.default_rng(seed)
    # With ties and zeros; test rows reach beyond those of training.
    X, others = (
        np.maximum(np.round(rng.normal(size=(k, d)), 1), 0.0) * s * scale
        for k, s in ((n, 1.0), (17, 3.0))
    )
    X = X.astype(np.float32 if single else np.float64)
    y = rng.normal(size=(n, 2))
    model = IntersectionGPRegressor(optimizer=None, noise=0.3, random_state=0).fit(X, y)
    tables = model.export_tables(n_bins)
    assert tables.nodes.shape[1] <= n_bins
    assert tables.nodes.shape[0] == d
    np.testing.assert_array_equal(tables.nodes[:, 0], 0.0)
    error = np.abs(tables.scores(others) - model.predict(others))
    size = np.abs(tables.values).sum(axis=(0, 1)) + 1.0
    assert np.all(error <= tables.error_bound + 1e-10 * size)
    np.testing.assert_allclose(tables.scores(others), definition(tables, others), atol=1e-12)
    if n_bins == 1000:
        np.testing.assert_array_equal(tables.error_bound, 0.0)


def test_columns_are_taken_some_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.random((60, 5)) * [1.0, 10.0, 0.1, 1.0, 3.0]
    X[:30, 2] = 0.0
    Y = rng.normal(size=(60, 2))
    for rows in (X, sparse.csr_array(X)):
        model = IntersectionGPRegressor(Intersection(feature_weights="scale"), random_state=0).fit(
            rows, Y
        )
        whole = model.export_tables(20)
        for entries in (1, 130):
            monkeypatch.setattr(_tables, "_ENTRIES", entries)
            some = model.export_tables(20)
            for name in ("nodes", "values", "slopes", "offset", "error_bound"):
                np.testing.assert_array_equal(getattr(some, name), getattr(whole, name))
        monkeypatch.undo()


def test_more_bins_are_closer():
    rng = np.random.default_rng(0)
    X = rng.random((500, 3))
    model = IntersectionGPRegressor(random_state=0).fit(X, np.sin(9.0 * X[:, 0]) + X[:, 1])
    bounds = [model.export_tables(n).error_bound[0] for n in (4, 16, 64, 501)]
    assert bounds[0] > bounds[1] > bounds[2] > bounds[3] == 0.0
    others = rng.random((200, 3))
    error = np.abs(model.export_tables(16).scores(others)[:, 0] - model.predict(others)).max()
    # The bound is nearly reached.
    assert 0.1 * bounds[1] < error <= bounds[1]


@pytest.mark.parametrize("weights", [None, "scale"])
def test_onnx_serves_a_regression(weights):
    rng = np.random.default_rng(1)
    X = rng.random((300, 5)) * [1.0, 10.0, 0.1, 1.0, 1.0]
    y = np.column_stack([X[:, 0] + X[:, 1], 100.0 * X[:, 2]])
    model = IntersectionGPRegressor(Intersection(feature_weights=weights), random_state=0).fit(X, y)
    outputs = served(model.export_tables(1000), X)
    assert outputs["variable"].dtype == np.float32
    np.testing.assert_allclose(outputs["variable"], model.predict(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris, load_digits])
@pytest.mark.parametrize("text", [False, True])
def test_onnx_serves_probabilities_and_labels(load, text):
    X, y = load(return_X_y=True)
    X, y = X[::3], y[::3]
    labels = np.array([f"class {label}" for label in y]) if text else y
    model = IntersectionGPClassifier(random_state=0).fit(X, labels)
    tables = model.export_tables()
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(tables.predict_proba(X), probabilities, atol=2e-3)
    outputs = served(tables, X)
    np.testing.assert_allclose(outputs["probabilities"], tables.predict_proba(X), atol=1e-4)
    top = np.sort(probabilities, axis=1)
    sure = top[:, -1] - top[:, -2] > 0.01
    np.testing.assert_array_equal(outputs["label"][sure], model.predict(X)[sure])


def test_entries_out_of_range_count_as_the_ends():
    rng = np.random.default_rng(3)
    X = rng.random((60, 2))
    tables = (
        IntersectionGPRegressor(random_state=0)
        .fit(X, X[:, 0] + 0.1 * rng.normal(size=60))
        .export_tables()
    )
    rows = np.array([[0.5, -1e-9], [-3.0, 0.2], [np.inf, 0.3], [1e30, 0.3]])
    ends = np.array([[0.5, 0.0], [0.0, 0.2], [X[:, 0].max(), 0.3], [X[:, 0].max(), 0.3]])
    np.testing.assert_allclose(tables.scores(rows), tables.scores(ends))
    np.testing.assert_allclose(
        served(tables, rows)["variable"], tables.scores(ends), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3.0, 5.0]),
        np.array([False, True]),
        np.array([7, 9], dtype=np.int32),
        np.array([2**40, 3], dtype=np.uint64),
    ],
)
def test_onnx_returns_labels_of_any_kind(labels):
    rng = np.random.default_rng(4)
    X = rng.random((80, 2))
    y = labels[(X[:, 0] > 0.5).astype(int)]
    model = IntersectionGPClassifier(random_state=0).fit(X, y)
    found = served(model.export_tables(), X)["label"]
    assert np.mean(found.astype(y.dtype) == model.predict(X)) > 0.97
    assert found.dtype == (np.float64 if y.dtype.kind == "f" else np.int64)


def test_onnx_refuses_what_its_numbers_do_not_hold():
    pytest.importorskip("onnx", reason='onnx is not installed: pip install "histrs[onnx]"')
    rng = np.random.default_rng(5)
    X = rng.random((50, 2))
    for rows, y in ((X, 1e40 * X[:, 0]), (1e-40 * X, X[:, 0]), (1e60 * X, X[:, 0])):
        tables = (
            IntersectionGPRegressor(optimizer=None, random_state=0).fit(rows, y).export_tables()
        )
        with pytest.raises(ValueError, match="single precision"):
            tables.to_onnx()
    labels = np.array([3, 2**63 + 5], dtype=np.uint64)[(X[:, 0] > 0.5).astype(int)]
    with pytest.raises(ValueError, match="integers of ONNX"):
        IntersectionGPClassifier(random_state=0).fit(X, labels).export_tables().to_onnx()


def steps(*nodes):
    """Return tables of functions that are 1 from their second node on, whose nodes are given."""
    most = max(len(t) for t in nodes)
    shape = (len(nodes), most, 1)
    values, slopes = np.zeros(shape), np.zeros(shape)
    for v, t in zip(values, nodes, strict=True):
        v[1 : len(t)] = 1.0
    padded = np.array([[*t, *[np.inf] * (most - len(t))] for t in nodes])
    return AdditiveTables(padded, values, slopes, np.zeros(1), np.zeros(1), None)


SINGLE = np.finfo(np.float32)


@pytest.mark.parametrize(
    ("node", "held"),
    [
        (float(SINGLE.tiny), True),
        (0.5 * float(SINGLE.tiny), False),
        (float(SINGLE.max), True),
        (2.0 * float(SINGLE.max), False),
    ],
)
def test_onnx_holds_nodes_up_to_the_ends_of_single_precision(node, held):
    # One function has more nodes than the other.
    tables = steps([0.0, node], [0.0, 1.0, 2.0])
    if not held:
        pytest.importorskip("onnx", reason='onnx is not installed: pip install "histrs[onnx]"')
        with pytest.raises(ValueError, match="single precision"):
            tables.to_onnx()
        return
    rows = np.array([[0.0, 0.5], [node, 0.5], [node, 9.0], [np.inf, np.inf]])
    np.testing.assert_array_equal(tables.scores(rows)[:, 0], [0.0, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(served(tables, rows)["variable"][:, 0], [0.0, 1.0, 2.0, 2.0])


def test_onnx_tells_the_shapes_of_what_goes_in_and_out(rng):
    pytest.importorskip("onnx", reason='onnx is not installed: pip install "histrs[onnx]"')

    def shapes(values):
        return {
            value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
            for value in values
        }

    X = rng.random((30, 4))
    model = IntersectionGPRegressor(optimizer=None, random_state=0).fit(X, X[:, :2])
    graph = model.export_tables().to_onnx().graph
    assert shapes(graph.input) == {"X": ["n_samples", 4]}
    assert shapes(graph.output) == {"variable": ["n_samples", 2]}
    for n_classes in (2, 3):
        labels = np.arange(30) % n_classes
        classifier = IntersectionGPClassifier(optimizer=None, random_state=0).fit(X, labels)
        graph = classifier.export_tables().to_onnx().graph
        assert shapes(graph.output) == {
            "label": ["n_samples"],
            "probabilities": ["n_samples", n_classes],
        }


def test_onnx_that_is_not_installed_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"histrs\[onnx\]"):
        steps([0.0, 1.0]).to_onnx()


def test_sparse_rows_have_the_tables_of_dense_ones():
    rng = np.random.default_rng(2)
    X = rng.poisson(0.3, size=(80, 6)).astype(float)
    y = X[:, 0] - X[:, 3]
    dense, of_sparse = (
        IntersectionGPRegressor(optimizer=None, random_state=0).fit(rows, y).export_tables()
        for rows in (X, sparse.csr_array(X))
    )
    np.testing.assert_allclose(of_sparse.nodes, dense.nodes)
    np.testing.assert_allclose(of_sparse.values, dense.values, atol=1e-10)
    np.testing.assert_array_equal(dense.error_bound, 0.0)


def test_what_has_no_tables_says_so():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="calibration=None"):
        IntersectionGPClassifier(calibration=None, random_state=0).fit(X, y).export_tables()
    with pytest.raises(ValueError, match="transform='power'"):
        IntersectionGPClassifier(Intersection("power"), random_state=0).fit(X, y).export_tables()
    with pytest.raises(ValueError, match="fit with levels=None, or write the model by save"):
        IntersectionGPRegressor(Intersection(levels=8)).fit(X, y).export_tables()
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    for n_bins in (1, 2.0, "many", None):
        with pytest.raises((TypeError, ValueError), match="n_bins"):
            model.export_tables(n_bins)
    with pytest.raises(AttributeError, match="regressor"):
        model.export_tables().predict_proba(X)
