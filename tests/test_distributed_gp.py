"""The Gaussian process of dask arrays, and a cluster that loses workers."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from histrs.gaussian_process import Bins, IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._classifier import _MAX_CUBES
from histrs.gaussian_process._distributed.bound import _MAX_STORED_ROWS
from histrs.gaussian_process._distributed.columns import DistributedColumns
from histrs.gaussian_process._posterior import cached_variance as _cached_variance
from histrs.gaussian_process.kernels import Intersection
from tests.helpers import assert_close, build, of_terms, peak_of_memory
from tests.oracles import intersection as oracle

dask = pytest.importorskip("dask", reason="needs dask: histrs[dask]")
dask_array = pytest.importorskip("dask.array", reason="needs dask: histrs[dask]")

PARAMETERS = {"solver": "cg", "tol": 1e-9}


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(autouse=True)
def _of_the_space_alone(monkeypatch):
    # Variances that are conditioned on nearby rows, too, need data in memory.
    monkeypatch.setattr(_cached_variance, "_GOOD_ENOUGH", np.inf)


def data(rng, n=300, d=5):
    X = rng.random((n, d))
    y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)
    return X, y


def chunked(X, rows=80, columns=2):
    return dask_array.from_array(X, chunks=(rows, columns))


# ---- answers are those of one machine, and of the definition -------------------------------------


@settings(max_examples=10, deadline=None)
@given(
    n=st.integers(1, 30),
    d=st.integers(1, 6),
    rows=st.integers(1, 30),
    columns=st.integers(1, 6),
    seed=st.integers(0, 1000),
)
def test_predictions_solve_the_system(n, d, rows, columns, seed):
    with dask.config.set(scheduler="synchronous"):
        rng = np.random.default_rng(seed)
        X, T = np.round(rng.random((n, d)), 1), rng.random((4, d))
        y = rng.standard_normal(n)
        weights = rng.random(d) + 0.1
        model = build(
            IntersectionGPRegressor,
            noise=0.3,
            amplitude=2.0,
            feature_weights=weights,
            intercept_variance=1.5,
            optimizer=None,
            **PARAMETERS,
        ).fit(chunked(X, rows, columns), y)
        K, k = (oracle.intersection_kernel(weights * A, weights * X) for A in (X, T))
        spread = np.std(y) if np.std(y) > 0 else 1.0
        K, k = K + 1.5, k + 1.5
        weighed = np.linalg.solve(2.0 * K + 0.3 * np.eye(n), (y - y.mean()) / spread)
        expected = y.mean() + spread * (2.0 * k @ weighed)
        assert_close(model.predict(T), expected, 1e-6)
        assert_close(model.predict(chunked(T, 3, 2)), expected, 1e-6)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"solver": "cholesky"},
        {"optimizer": None, **PARAMETERS},
        {"optimizer": None, "feature_weights": None, "intercept_variance": 0.0, **PARAMETERS},
        {"optimizer": None, "preconditioner": None, **PARAMETERS},
        {"optimizer": None, "preconditioner": "knots", **PARAMETERS},
        {"optimizer": None, "preconditioner": "pivoted-cholesky", **PARAMETERS},
        {"feature_weights": "ard"},
        {"feature_weights": "relevance"},
        {"log_det": "bound", "optimizer": "nelder-mead"},
    ],
    ids=str,
)
def test_a_regression_is_that_of_one_machine(rng, parameters):
    X, y = data(rng)
    T = rng.random((30, 5))
    one = build(IntersectionGPRegressor, **parameters).fit(X, y)
    # Chunks of rows alone, and of columns too.
    for D in (chunked(X, 80, -1), chunked(X)):
        model = build(IntersectionGPRegressor, **parameters).fit(
            D, dask_array.from_array(y, chunks=90)
        )
        for rows in (T, chunked(T, 11), sparse.csr_array(T)):
            assert_close(model.predict(rows), one.predict(T), 1e-7)
            assert_close(
                model.predict(rows, return_std=True)[1], one.predict(T, return_std=True)[1], 1e-7
            )
    assert model.score(D, y) == pytest.approx(one.score(X, y), rel=1e-7)


@pytest.mark.parametrize(
    ("n_classes", "likelihood", "solver"),
    [
        (2, "auto", "auto"),
        (2, "bernoulli", "cg"),
        (2, "gaussian", "auto"),
        (3, "auto", "auto"),
        (3, "bernoulli", "auto"),
        (3, "gaussian", "cg"),
    ],
)
def test_a_classification_is_that_of_one_machine(rng, n_classes, likelihood, solver):
    X, y = data(rng, 160)
    labels = np.array(["a", "b", "c"])[
        np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    ]
    parameters = {"likelihood": likelihood, "solver": solver, "tol": 1e-8}
    one = build(IntersectionGPClassifier, **parameters).fit(X, labels)
    model = build(IntersectionGPClassifier, **parameters)
    model.fit(chunked(X), dask_array.from_array(labels, chunks=100))
    assert model.likelihood_ == one.likelihood_
    T = rng.random((30, 5))
    for rows in (T, chunked(T)):
        assert_close(model.predict_proba(rows), one.predict_proba(T), 1e-6)
        assert_close(model.decision_function(rows), one.decision_function(T), 1e-5)
        np.testing.assert_array_equal(model.predict(rows), one.predict(T))


def test_several_classes_are_learned_together_by_default(rng):
    X, y = data(rng, 400, 2)
    labels = np.digitize(y, np.quantile(y, [0.33, 0.66]))
    T = rng.random((30, 2))
    one = IntersectionGPClassifier(random_state=0).fit(X, labels)
    model = IntersectionGPClassifier(random_state=0).fit(chunked(X, 200, -1), labels)
    assert model.likelihood_ == one.likelihood_ == "softmax"
    assert_close(model.predict_proba(T), one.predict_proba(T), 1e-3)
    # Of as many rows as that is the default for, the matrix is stored.
    assert _MAX_CUBES <= 3 * _MAX_STORED_ROWS**3


def test_many_rows_are_solved_by_iterations_and_calibrated_on_rows_held_out(rng):
    # More than are stored here.
    X, y = data(rng, 2500, 3)
    parameters = {"optimizer": None, "noise": 0.01, "tol": 1e-9, "solver": "cg"}
    one = build(IntersectionGPRegressor, **parameters).fit(X, y)
    model = build(IntersectionGPRegressor, **{**parameters, "solver": "auto"}).fit(
        chunked(X, 900, -1), y
    )
    assert model.n_iter_[0] > 1
    mean, std = model.predict(X[:50], return_std=True)
    expected, expected_std = one.predict(X[:50], return_std=True)
    assert_close(mean, expected, 1e-7)
    assert_close(std, expected_std, 1e-3)
    assert 0.0 < model.std_error_ < 0.05
    labels = y > np.median(y)
    parameters = {"optimizer": None, "noise": 0.1, "tol": 1e-9, "solver": "cg"}
    one = build(IntersectionGPClassifier, **parameters).fit(X, labels)
    model = build(IntersectionGPClassifier, **parameters).fit(chunked(X, 900, -1), labels)
    assert_close(model.predict_proba(X[:50]), one.predict_proba(X[:50]), 1e-6)


def test_weights_several_targets_and_missing_ones(rng):
    X, y = data(rng)
    Y = np.column_stack([y, X[:, 2] - y])
    weights = rng.random(len(y)) * (np.arange(len(y)) % 3 > 0)
    T = rng.random((20, 5))
    missing = Y.copy()
    missing[:40, 1] = np.nan
    missing[:5] = np.nan
    for targets, of_rows in ((Y, None), (y, weights), (Y, weights), (missing, weights)):
        one = IntersectionGPRegressor(random_state=0).fit(X, targets, of_rows)
        lazy = None if of_rows is None else dask_array.from_array(of_rows, chunks=70)
        model = IntersectionGPRegressor(random_state=0).fit(chunked(X), targets, lazy)
        assert_close(model.predict(T), one.predict(T), 1e-7)
        assert_close(model.predict(chunked(T)), one.predict(T), 1e-7)
    labels = y > 1
    parameters = {"class_weight": {False: 3.0, True: 1.0}}
    one = build(IntersectionGPClassifier, **parameters).fit(X, labels, weights)
    model = build(IntersectionGPClassifier, **parameters).fit(chunked(X), labels, weights)
    assert_close(model.predict_proba(T), one.predict_proba(T), 1e-7)


def test_other_answers_are_those_of_one_machine(rng):
    X, y = data(rng)
    T = rng.random((20, 5))
    one = IntersectionGPRegressor(random_state=0).fit(X, y)
    model = IntersectionGPRegressor(random_state=0).fit(chunked(X), y)
    for rows in (T, chunked(T)):
        for options in ({"return_cov": True}, {"return_quantiles": [0.1, 0.9]}):
            assert_close(model.predict(rows, **options)[1], one.predict(T, **options)[1], 1e-7)
        assert_close(model.std_bounds(rows), one.std_bounds(T), 1e-7)
        assert_close(model.sample_y(rows, 2), one.sample_y(T, 2), 1e-5)
        assert_close(
            model.latent_mean_and_variance(rows)[1], one.latent_mean_and_variance(T)[1], 1e-7
        )
    assert_close(model.predict_leave_one_out(), one.predict_leave_one_out(), 1e-7)
    assert model.log_marginal_likelihood() == pytest.approx(one.log_marginal_likelihood())


@pytest.mark.parametrize("interpolation", ["linear", "nearest"])
def test_tables_keep_their_certificate(rng, interpolation):
    X, y = data(rng)
    T = rng.random((40, 5))
    exact = IntersectionGPRegressor(optimizer=None, random_state=0).fit(chunked(X), y)
    model = clone(exact).set_params(n_bins=Bins(20, interpolation)).fit(chunked(X), y)
    bound = model.quantization_error_bound_[0]
    for rows in (T, chunked(T)):
        error = np.max(np.abs(model.predict(rows) - exact.predict(T)))
        assert 0.0 < error <= bound
    whole = np.floor(256 * T).astype(np.uint8)
    assert_close(model.predict(whole), model.predict(whole.astype(float)), 1e-12)


def test_rows_to_predict_are_not_in_one_place(rng):
    X, y = data(rng, d=50)
    model = IntersectionGPRegressor(optimizer=None, random_state=0).fit(chunked(X, columns=25), y)
    rows = dask_array.random.default_rng(0).random((40_000, 50), chunks=(2_000, 50))
    # The answers, and some blocks.
    assert peak_of_memory(lambda: model.predict(rows)) < rows.nbytes / 2


def test_bits_depend_on_the_blocks_alone(rng):
    X, y = data(rng)
    T = rng.random((20, 5))
    found = set()
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            for n_jobs in (None, 2):
                model = build(IntersectionGPRegressor, n_jobs=n_jobs, **PARAMETERS).fit(
                    chunked(X), y
                )
                found.add(model.predict(T).tobytes() + model.predict(chunked(T)).tobytes())
    assert len(found) == 1


def test_a_model_is_pickled_with_the_graph_of_its_rows(rng):
    X, y = data(rng)
    model = IntersectionGPRegressor(random_state=0).fit(chunked(X), y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X[:9]), model.predict(X[:9]))
    assert isinstance(again.X_fit_, dask_array.Array)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_other_numbers(rng, dtype):
    X, y = data(rng)
    X = (4 * X).astype(dtype)
    expected = IntersectionGPRegressor(random_state=0).fit(X, y).predict(X)
    assert_close(
        IntersectionGPRegressor(random_state=0).fit(chunked(X), y).predict(chunked(X)),
        expected,
        1e-7,
    )


# ---- what goes wrong is said ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "greedy-block"}, "A dask array does not work with solver='greedy-block'"),
        ({"solver": "coordinate-descent"}, "A dask array does not work with"),
        ({"variance": "fine"}, "A dask array does not work with"),
        ({"variance": "coarse"}, "A dask array does not work with"),
        ({"variance": "coarse-quantized"}, "A dask array does not work with"),
        ({"smoothness": "cubic"}, "A dask array does not work with"),
        ({"n_interactions": 1}, "A dask array does not work with Interactions"),
        ({"interactions": [(0, 1)]}, "A dask array does not work with Interactions"),
        ({"feature_transform": "power"}, "A dask array does not work with Intersection"),
    ],
)
def test_parameters_that_need_all_columns_are_refused(rng, parameters, message):
    X, y = data(rng, 40)
    for model in (
        IntersectionGPRegressor(random_state=0),
        IntersectionGPClassifier(random_state=0),
    ):
        with pytest.raises(ValueError, match=message):
            model.set_params(**of_terms(**parameters)).fit(chunked(X), y > 1)


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda model, X, y: model.explain(X), "explain"),
        (lambda model, X, y: model.shape_functions(), "shape_functions"),
        (lambda model, X, y: model.export_tables(), "export_tables"),
        (lambda model, X, y: model.partial_fit(X, y), "A change of rows"),
        (lambda model, X, y: model.forget([0]), "A change of rows"),
    ],
)
def test_methods_that_need_the_rows_are_refused(rng, ask, name):
    X, y = data(rng, 40)
    of_logits = {"likelihood": "bernoulli", "optimizer": None, "calibration": None, "tol": 0.1}
    for model, targets in (
        (IntersectionGPRegressor(random_state=0), y),
        (build(IntersectionGPClassifier, **of_logits), y > 1),
    ):
        model.fit(chunked(X), targets)
        with pytest.raises(ValueError, match=f"{name} needs the training rows in one process"):
            ask(model, X, targets)


def test_bad_entries_are_named_by_their_place(rng):
    X, y = data(rng)
    model = IntersectionGPRegressor(random_state=0).fit(chunked(X), y)
    before = model.predict(X)
    for value, message in ((-1.0, r"X\[250, 4\] = -1"), (np.nan, r"X\[250, 4\] = NaN")):
        bad = X.copy()
        bad[250, 4] = value
        with pytest.raises(ValueError, match=message):
            model.predict(chunked(bad))
        for weights in ("scale", None):
            with pytest.raises(ValueError, match=message):
                model.set_params(kernel=Intersection(feature_weights=weights)).fit(chunked(bad), y)
        missing = np.column_stack([y, y])
        missing[0, 0] = np.nan
        with pytest.raises(ValueError, match=message):
            model.fit(chunked(bad), missing)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("nth", [1, 3, 6, 12])
def test_nothing_is_half_learned_where_the_cluster_fails(rng, monkeypatch, nth):
    X, y = data(rng)
    model = build(IntersectionGPRegressor, **PARAMETERS).fit(chunked(X), y)
    before = model.predict(X)
    calls = []
    product = DistributedColumns.product

    def failing(*arguments):
        calls.append(1)
        if len(calls) == nth:
            raise OSError("no worker is left")
        return product(*arguments)

    monkeypatch.setattr(DistributedColumns, "product", failing)
    with pytest.raises(OSError, match="no worker is left"):
        model.fit(chunked(X), -y)
    monkeypatch.undo()
    np.testing.assert_array_equal(model.predict(X), before)


def test_arrays_that_are_no_tables_of_numbers(rng):
    X, y = data(rng, 40)
    D = chunked(X)
    model = IntersectionGPRegressor(random_state=0)
    for rows, message in (
        (dask_array.ones((3, 3, 3)), "2D"),
        (D[D[:, 0] > 0.5], "compute_chunk_sizes"),
        (D.astype(str), "give numbers"),
        (D[:30], "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(rows, y)
    with pytest.raises(TypeError, match="give dense ones"):
        model.fit(D.map_blocks(sparse.csr_array), y)
    model.fit(D, y)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(D[:, :3])
    assert model.predict(D[D[:, 0] > 0.5]).shape == (np.sum(X[:, 0] > 0.5),)
    with pytest.raises(TypeError, match="in memory"):
        IntersectionGPRegressor(random_state=0).fit(X, y).partial_fit(D, y)
