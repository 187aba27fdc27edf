"""Gaussian processes and support vector machines of dask arrays, and workers that are killed."""

import json
import pickle
import signal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from histrs import _histrs
from histrs.gaussian_process import Bins, IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._distributed.columns import DistributedColumns
from histrs.gaussian_process._posterior import cached_variance as _cached_variance
from histrs.gaussian_process.kernels import Intersection
from histrs.kernel_approximation import AdditiveChi2Map, SparseAdditiveMap
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC, IntersectionSVC
from tests.helpers import assert_close, build, of_terms, peak_of_memory, start_python
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
        pytest.param({"log_det": "bound", "optimizer": "nelder-mead"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_regression_is_that_of_one_machine(rng, parameters):
    X, y = data(rng, 100 if "log_det" in parameters else 300)
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
        pytest.param(2, "bernoulli", "cg", marks=pytest.mark.slow),
        (2, "gaussian", "auto"),
        (3, "auto", "auto"),
        (3, "bernoulli", "auto"),
        (3, "gaussian", "cg"),
    ],
)
def test_a_classification_is_that_of_one_machine(rng, n_classes, likelihood, solver):
    X, y = data(rng, 80 if (likelihood, solver) == ("bernoulli", "cg") else 160)
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


# ---- support vector machines ---------------------------------------------------------------------

# Two solutions within `tol` are as far apart as the root of it, as the objective is convex.
BUNDLE = {"alpha": 1e-2, "tol": 1e-8}


def labelled(rng, n=300, n_classes=3):
    centres = rng.random((n_classes, 6))
    labels = rng.integers(0, n_classes, n)
    X = np.abs(centres[labels] + 0.3 * rng.standard_normal((n, 6)))
    return X, np.array(["a", "b", "c", "d"])[labels]


def lazy(X, rows=80, columns=4):
    return dask_array.from_array(X, chunks=(rows, columns))


def assert_same_model(model, one, T):
    assert_close(model.coef_, one.coef_, 2e-3)
    assert_close(model.intercept_, one.intercept_, 2e-3)
    assert_close(model.objective_, one.objective_, 1e-7)
    expected = one.decision_function(T)
    assert_close(model.decision_function(T), expected, 5e-3)
    for rows in (lazy(T, 11), dask_array.from_array(T, chunks=7)):
        scores = model.decision_function(rows)
        assert isinstance(scores, np.ndarray)
        assert_close(scores, model.decision_function(T), 1e-12)
        np.testing.assert_array_equal(model.predict(rows), model.predict(T))


# ---- answers are those of one machine ------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"fit_intercept": False},
        {"loss": "logistic"},
        {"loss": "squared_hinge"},
        {"class_weight": "balanced"},
        {"alpha": [1e-3, 1e-2, 1e-1], "cv": 3, "random_state": 0},
    ],
    ids=str,
)
def test_features_as_they_are(rng, parameters, n_classes):
    X, y = labelled(rng, n_classes=n_classes)
    T = labelled(rng, 30)[0]
    given_parameters = {**BUNDLE, **parameters}
    one = BundleSVC(**given_parameters).fit(X, y)
    model = BundleSVC(**given_parameters).fit(lazy(X), dask_array.from_array(y, chunks=100))
    assert_same_model(model, one, T)
    if "alpha" in parameters:
        assert_close(model.cv_scores_, one.cv_scores_, 1e-12)
        assert model.alpha_ == one.alpha_
    if one.loss == "logistic":
        assert_close(model.predict_proba(lazy(T, 13)), model.predict_proba(T), 1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdditiveChi2Map(),
        lambda: SparseAdditiveMap(),
        lambda: ProductQuantizer(3, n_codes=8, metric="hellinger", random_state=0),
        lambda: ProductQuantizer(3, n_codes=8, metric="intersection", random_state=0),
    ],
    ids=["chi2", "sparse", "hellinger codes", "intersection codes"],
)
def test_features_of_a_map(rng, make):
    X, y = labelled(rng)
    T = labelled(rng, 30)[0]
    frozen = FrozenEstimator(make().fit(X[:200]))
    one = BundleSVC(frozen, **BUNDLE).fit(X, y)
    assert_same_model(BundleSVC(frozen, **BUNDLE).fit(lazy(X), y), one, T)
    if isinstance(frozen.estimator, ProductQuantizer):
        codes = frozen.transform(X)
        one, model = (BundleSVC(frozen.estimator, input="features", **BUNDLE) for _ in range(2))
        assert_same_model(model.fit(lazy(codes, 70, 2), y), one.fit(codes, y), codes[:30])


def test_weights_are_those_of_one_machine(rng):
    X, y = labelled(rng)
    weight = np.round(2 * rng.random(len(X)))
    # A class that no weight counts is none.
    y[weight == 0] = "d"
    one = BundleSVC(class_weight="balanced", **BUNDLE).fit(X, y, sample_weight=weight)
    model = BundleSVC(class_weight="balanced", **BUNDLE)
    model.fit(lazy(X), y, sample_weight=dask_array.from_array(weight, chunks=50))
    assert list(model.classes_) == ["a", "b", "c"]
    assert_same_model(model, one, X[:20])


def test_a_fit_goes_on_from_the_one_before(rng):
    X, y = labelled(rng)
    model = BundleSVC(warm_start=True, **BUNDLE).fit(lazy(X), y)
    passes = model.n_iter_
    model.fit(lazy(X), y)
    assert model.n_iter_ < passes
    assert_same_model(model, BundleSVC(**BUNDLE).fit(X, y), X[:20])


def test_counts_are_rows(rng):
    counts, y = rng.poisson(3, (60, 4)), np.arange(60) % 2
    one = BundleSVC(**BUNDLE).fit(counts, y)
    assert_same_model(BundleSVC(**BUNDLE).fit(lazy(counts, 25, 2), y), one, counts[:9])


def test_rows_never_come_here(rng):
    X, y = labelled(rng)
    read, mapped = [], []

    def noted_in(places):
        def note(rows):
            places.append(rows.shape)
            return rows

        return note

    D = lazy(X, 75, -1).map_blocks(noted_in(read), dtype=X.dtype, meta=np.empty((0, 0)))
    feature_map = FrozenEstimator(FunctionTransformer(noted_in(mapped)))
    model = BundleSVC(feature_map, **BUNDLE).fit(D, y)
    # Each partition is read once in a fit, and once to predict, and a map meets it alone.
    assert read == mapped == [(75, 6)] * 4
    model.predict(D)
    assert read == mapped == [(75, 6)] * 8


def test_scores_in_input_space_are_of_one_partition_at_a_time(rng, monkeypatch):
    X, y = labelled(rng)
    model = IntersectionSVC(random_state=0).fit(X, y)
    seen, scores = [], _histrs.svm_scores

    def note(rows, *arguments):
        seen.append(len(rows))
        return scores(rows, *arguments)

    monkeypatch.setattr(_histrs, "svm_scores", note)
    model.decision_function(lazy(X, 75, -1))
    assert seen == [75] * 4


def test_a_model_is_pickled_without_the_rows(rng):
    X, y = labelled(rng, 2000)
    model = BundleSVC(warm_start=True, **BUNDLE).fit(lazy(X), y)
    saved = pickle.dumps(model)
    assert len(saved) < X.nbytes / 4
    np.testing.assert_array_equal(pickle.loads(saved).predict(X), model.predict(X))


# ---- what cannot be done is refused --------------------------------------------------------------


def test_single_precision_is_kept(rng):
    X, y = labelled(rng)
    model = BundleSVC(**BUNDLE).fit(lazy(X.astype(np.float32)), y)
    assert model.decision_function(lazy(X.astype(np.float32))).dtype == np.float32


def test_a_map_that_needs_all_rows_is_refused(rng):
    X, y = labelled(rng)
    model = BundleSVC(AdditiveChi2Map())
    with pytest.raises(ValueError, match="FrozenEstimator"):
        model.fit(lazy(X), y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (123, 5), (299, 3)])
def test_bad_entries_are_named_where_they_are(rng, value, row, column):
    X, y = labelled(rng)
    model = BundleSVC(**BUNDLE).fit(X, y)
    before = model.coef_.copy()
    X[row, column] = value
    for call in (lambda: model.fit(lazy(X), y), lambda: model.predict(lazy(X))):
        with pytest.raises(ValueError, match=rf"X\[{row}, {column}\]"):
            call()
    np.testing.assert_array_equal(model.coef_, before)


def test_bad_shapes_and_labels_are_refused(rng):
    X, y = labelled(rng)
    D = lazy(X)
    model = BundleSVC(**BUNDLE).fit(D, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(D, y[:-1])
    with pytest.raises(ValueError, match="features"):
        model.predict(lazy(X[:, :5]))
    with pytest.raises(ValueError, match="one class"):
        model.fit(D, np.zeros(len(X)))
    with pytest.raises(ValueError, match="unknown sizes"):
        model.fit(D[D[:, 0] > 0.5], y)
    unknown = lazy(X, 80, -1)
    unknown = unknown[unknown[:, 0] > 0.5]
    np.testing.assert_array_equal(model.predict(unknown), model.predict(X[X[:, 0] > 0.5]))
    assert_same_model(model, BundleSVC(**BUNDLE).fit(X, y), X[:20])


def test_the_intersection_svm_says_how(rng):
    X, y = labelled(rng)
    one = IntersectionSVC(random_state=0).fit(X, y)
    for call in (one.fit, one.partial_fit):
        with pytest.raises(TypeError, match="partial_fit"):
            call(lazy(X), y)
    assert_close(one.decision_function(lazy(X)), one.decision_function(X), 1e-12)
    # What the message names: partition after partition.
    edges = range(0, len(X) + 1, 75)
    parts = [(X[a:b], y[a:b]) for a, b in pairwise(edges)]
    model, expected = IntersectionSVC(random_state=0), IntersectionSVC(random_state=0)
    for part, (rows, labels) in zip(lazy(X, 75, -1).partitions, parts, strict=True):
        model.partial_fit(part.compute(), labels, classes=np.unique(y))
        expected.partial_fit(rows, labels, classes=np.unique(y))
    np.testing.assert_array_equal(model.coef_, expected.coef_)


# ---- a cluster that loses a worker ---------------------------------------------------------------

pytest.importorskip("distributed", reason="needs dask.distributed: histrs[dask]")

SCRIPT = """
import json, os, signal, sys, warnings

sys.warnoptions.clear()  # the workers' own: dask's warnings are not ours
warnings.simplefilter("ignore")
import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process._distributed.columns import DistributedColumns
from histrs.streaming import PCARidge
from histrs.svm import BundleSVC
from histrs.svm._distributed import DistributedRows

rng = np.random.default_rng(0)
X = rng.random((400, 6))
y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.standard_normal(400)
rows = da.from_array(X, chunks=(100, 3))
process = IntersectionGPRegressor(solver="cg", tol=1e-8, optimizer=None, random_state=0)
machine = BundleSVC(alpha=1e-2, tol=1e-8)
# What is fitted, and whose work is killed.
models = {
    "process": (process, y, "predict", DistributedColumns, "product"),
    "machine": (machine, y > 0.5, "decision_function", DistributedRows, "gradients"),
    "stream": (PCARidge(3, alphas=0.5), y, "predict", None, "a worker that reads"),
}


def killing(whole, pid, nth):
    calls = []

    def work(*arguments):
        calls.append(1)
        if len(calls) == nth:
            os.kill(pid, signal.SIGKILL)
        return whole(*arguments)

    return work


def dying(block, path):
    # The first worker that reads anything.
    try:
        open(path, "x").close()
    except FileExistsError:
        return block
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    # Of which each model loses one.
    options = {"n_workers": 4, "threads_per_worker": 1, "dashboard_address": None}
    found = {}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        for key, (model, t, ask, owner, name) in models.items():
            if owner is None:
                read = rows.map_blocks(dying, sys.argv[1], dtype=float, meta=np.empty((0, 0)))
                scores = getattr(model.fit(read, t), ask)
                assert os.path.exists(sys.argv[1])
            else:
                whole = getattr(owner, name)
                setattr(owner, name, killing(whole, next(iter(client.run(os.getpid).values())), 3))
                scores = getattr(model.fit(rows, t), ask)
                setattr(owner, name, whole)
            found[key] = [scores(X), scores(rows)]
    with dask.config.set(scheduler="synchronous"):
        for key, (model, t, ask, *_) in models.items():
            found[key] += [getattr(model.fit(data, t), ask)(X) for data in (rows, X)]
    print(json.dumps({key: [part.tobytes().hex() for part in of] for key, of in found.items()}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_worker_changes_no_bit(tmp_path):
    with start_python(SCRIPT, str(tmp_path / "killed")) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    found = json.loads(out.splitlines()[-1])
    # How near one machine is.
    for key, rtol in (("process", 1e-7), ("machine", 5e-3), ("stream", 1e-9)):
        killed, distributed, alone, one = (
            np.frombuffer(bytes.fromhex(part)) for part in found[key]
        )
        np.testing.assert_array_equal(killed, alone)
        assert_close(distributed, alone, 1e-12)
        assert_close(alone, one, rtol)
