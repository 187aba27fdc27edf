"""Bad input, Ctrl-C, fork, threads, persistence and the tools of scikit-learn around a model."""

import json
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from histrs import _histrs
from histrs.gaussian_process import (
    Bins,
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    Solver,
    _process,
)
from histrs.metrics import intersection_kernel
from tests.helpers import (
    assert_close,
    awkward_histograms,
    build,
    build_plain,
    processor_time,
    run_python,
    start_python,
)

MODELS = [IntersectionGPClassifier, IntersectionGPRegressor]
each_model = pytest.mark.parametrize("model_class", MODELS)
each_solver = pytest.mark.parametrize("solver", ["cholesky", "cg"])


def make_data(model_class, rng, n_rows=30):
    X = awkward_histograms(rng, n_rows)
    if model_class is IntersectionGPRegressor:
        return X, rng.normal(size=(n_rows, 2))
    return X, np.resize(["ash", "birch", "oak"], n_rows)


@pytest.fixture
def data(model_class, rng):
    return make_data(model_class, rng)


class Unchanged:
    """Assert that a block leaves a model as it was: the same objects, with the same contents."""

    def __init__(self, model):
        self.model = model

    def __enter__(self):
        self.attributes = vars(self.model).copy()
        self.contents = self._contents()

    def __exit__(self, *_):
        attributes = vars(self.model)
        assert attributes.keys() == self.attributes.keys()
        assert all(attributes[k] is v for k, v in self.attributes.items())
        assert self._contents() == self.contents

    def _contents(self):
        # What the posterior holds is made of the others, and lives in the core.
        return pickle.dumps({k: v for k, v in vars(self.model).items() if k != "_posterior"})


# ---- bad input ---------------------------------------------------------------------------------


def with_entry(value):
    def spoil(X):
        X = X.copy()
        X[3, 1] = X[7, 0] = value
        return X

    return spoil


def methods_of(model):
    names = ["predict", "predict_proba", "decision_function", "latent_mean_and_variance"]
    return [getattr(model, name) for name in names if hasattr(model, name)]


def outputs_of(method, X):
    """Return the arrays that a method returns."""
    result = method(X)
    return list(result) if isinstance(result, tuple) else [result]


def outputs(model, X):
    """Return every array that a model says about some rows."""
    return [output for method in methods_of(model) for output in outputs_of(method, X)]


MISSING, NEGATIVE = r"X\[3, 1\] = NaN.*(impute|drop)", r"X\[3, 1\] = -0.25.*(clip|shift)"
# What is done to X, and what the message must say: the place, and the cure where it is not plain.
BAD_X = {
    "NaN": (with_entry(np.nan), MISSING),
    "infinity": (with_entry(np.inf), r"X\[3, 1\] = infinity.*(impute|drop)"),
    "minus infinity": (with_entry(-np.inf), r"X\[3, 1\] = -infinity.*(impute|drop)"),
    "negative": (with_entry(-0.25), NEGATIVE),
    "NaN in CSR": (lambda X: sparse.csr_matrix(with_entry(np.nan)(X)), MISSING),
    "negative in CSR": (lambda X: sparse.csr_array(with_entry(-0.25)(X)), NEGATIVE),
    "negative, single precision": (lambda X: with_entry(-0.25)(X).astype(np.float32), NEGATIVE),
    "negative, Fortran order": (lambda X: np.asfortranarray(with_entry(-0.25)(X)), NEGATIVE),
    "negative integer": (
        lambda X: with_entry(-2)(np.ones(X.shape, dtype=int)),
        r"X\[3, 1\] = -2.*(clip|shift)",
    ),
    "negative in a frame": (lambda X: pd.DataFrame(with_entry(-0.25)(X)), NEGATIVE),
    "empty": (lambda X: X[:0], r"0 sample\(s\).*minimum of 1"),
    "no columns": (lambda X: X[:, :0], r"0 feature\(s\).*minimum of 1"),
    "nothing": (lambda X: [], r"(?i)2d array|reshape"),
    "scalar": (lambda X: 3.0, r"(?s)Expected 2D array, got scalar.*Reshape"),
    "vector": (lambda X: X[:, 0], r"(?s)Expected 2D array, got 1D.*Reshape"),
    "cube": (lambda X: X[:, :, None], r"dim 3"),
    "complex": (lambda X: X * 1j, r"Complex data not supported: X must hold real numbers\.$"),
    "words": (lambda X: np.full(X.shape, "word"), r"X\[:, 0\] holds text .*such as 'word'"),
    "None": (lambda X: np.full(X.shape, None), "(?i)NaN|float"),
    "too many columns": (
        lambda X: sparse.csr_matrix(
            (np.ones(len(X)), np.zeros(len(X), int), np.arange(len(X) + 1)),
            shape=(len(X), 2**31 + 5),
        ),
        r"2147483653 columns.*at most 2147483647.*(hash|select)|is expecting 6 features",
    ),
}


@each_model
@pytest.mark.parametrize(("spoil", "message"), BAD_X.values(), ids=BAD_X)
def test_bad_histograms(model_class, data, spoil, message):
    X, y = data
    model = build_plain(model_class)
    with Unchanged(model), pytest.raises(ValueError, match=message):
        model.fit(spoil(X), y)

    for n_bins in (None, 4):
        model.set_params(n_bins=n_bins).fit(X, y)
        expected = model.predict(X)
        with Unchanged(model):
            with pytest.raises(ValueError, match=message):
                model.fit(spoil(X), y)
            for method in methods_of(model):
                with pytest.raises(ValueError, match=message):
                    method(spoil(X))
            with pytest.raises(ValueError, match=message):
                model.predict(spoil(X), return_std=True)
            np.testing.assert_array_equal(model.predict(X), expected)


def bad_target(value, *index):
    def spoil(y):
        y = y.astype(float) if y.dtype.kind == "f" else (y == "oak").astype(float)
        y[index[: y.ndim]] = value
        return y

    return spoil


BAD_Y = {
    "too short": (lambda y: y[:-1], r"inconsistent numbers of samples: \[30, 29\]"),
    "empty": (lambda y: y[:0], r"inconsistent numbers of samples: \[30, 0\]|0 sample\(s\)"),
    "cube": (lambda y: np.zeros((30, 2, 2)), r"dim 3|1d array|Unknown label type"),
    "scalar": (lambda y: 3.0, r"y should be a 1d array.*shape \(\)|at least 1 dimension.*scalar"),
    "None": (lambda y: None, r"requires y to be passed"),
    "NaN": (bad_target(np.nan, 5, 1), r"(?s)y contains NaN.*y\[5(, 1)?\].*(drop|impute)"),
    "infinity": (bad_target(np.inf, 5, 1), r"(?s)y contains inf.*y\[5(, 1)?\].*(drop|impute)"),
    "complex": (lambda y: np.ones(30) * 1j, r"(?i)complex"),
}
BAD_LABELS = {
    "one class": (lambda y: np.full_like(y, "oak"), r"y contains only one class: 'oak'.*Add"),
    "two columns": (lambda y: np.column_stack([y, y]), r"y should be a 1d array"),
    "continuous": (lambda y: np.linspace(0, 1, 30), r"Unknown label type: continuous"),
}
BAD_TARGETS = {
    # In a table of targets NaN is one that is missing.
    "NaN": (lambda y: np.where(np.arange(30) == 5, np.nan, 1.0), r"(?s)y contains NaN.*y\[5\]"),
    "words": (lambda y: np.full(30, "oak"), r"could not convert string to float"),
}


@pytest.mark.parametrize(
    ("model_class", "spoil", "message"),
    [
        pytest.param(model_class, *case, id=f"{model_class.__name__}-{name}")
        for model_class, cases in [
            (IntersectionGPClassifier, BAD_Y | BAD_LABELS),
            (IntersectionGPRegressor, BAD_Y | BAD_TARGETS),
        ]
        for name, case in cases.items()
    ],
)
def test_bad_targets(model_class, data, spoil, message):
    X, y = data
    for model in (build_plain(model_class), build_plain(model_class).fit(X, y)):
        with Unchanged(model), pytest.raises((ValueError, TypeError), match=message):
            model.fit(X, spoil(y))


@each_model
def test_sparse_targets(model_class, data):
    X, _ = data
    model = build_plain(model_class)
    with Unchanged(model), pytest.raises(TypeError, match=r"Sparse data .* for y.*toarray"):
        model.fit(X, sparse.csr_matrix(np.ones((30, 1))))


@each_model
def test_a_failure_late_in_the_fit_changes_nothing(model_class, data, monkeypatch):
    X, y = data
    model = build_plain(model_class, n_bins=5).fit(X, y)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(_process, "Posterior", fail)
    with Unchanged(model), pytest.raises(MemoryError):
        model.fit(X[::-1], y[::-1])


@each_model
def test_a_warning_made_an_error_changes_nothing(model_class, data):
    X, y = data
    model = build_plain(model_class, solver="cg", preconditioner=None).fit(X, y)
    model.set_params(solver=Solver("cg", max_iter=1, preconditioner=None))
    with Unchanged(model), pytest.raises(ConvergenceWarning):
        model.fit(X, y)


def test_more_rows_than_the_row_index_holds():
    # One value that stands for all entries: there is no memory for so many.
    X = np.broadcast_to(np.ones((1, 1)), (2**32 + 1, 1))
    with pytest.raises(ValueError, match=r"4294967297 rows.*4294967295.*split the data"):
        _histrs.SortedColumns(X, 1)


# ---- anything at all ---------------------------------------------------------------------------

number_dtypes = st.one_of(
    hnp.floating_dtypes(endianness="?"),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(),
)
any_dtype = st.one_of(
    number_dtypes,
    hnp.complex_number_dtypes(),
    hnp.boolean_dtypes(),
    hnp.unicode_string_dtypes(max_len=3),
    hnp.datetime64_dtypes(max_period="s", min_period="s"),
)
any_array = st.one_of(
    hnp.arrays(any_dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)),
    hnp.arrays(
        object,
        hnp.array_shapes(min_dims=1, max_dims=2, max_side=4),
        elements=st.one_of(st.none(), st.floats(), st.integers(), st.text(max_size=2)),
    ),
)


@st.composite
def float_arrays(draw, *shape, dtypes=(np.float64, np.float32), non_negative=False):
    """Floating-point arrays with every kind of number in them, mostly of the given shape."""
    elements = {"min_value": 0.0, "allow_infinity": False} if non_negative else {}
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    if draw(st.integers(0, 9)) == 0:
        shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6))
    numbers = st.one_of(
        st.sampled_from([0.0, 1.0, 2.0]), st.floats(width=8 * dtype.itemsize, **elements)
    )
    return draw(hnp.arrays(dtype, shape, elements=numbers))


@st.composite
def csr_parts(draw, n_rows, n_columns):
    """The parts of a CSR matrix, or nearly."""
    numbers = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(width=32))
    n_stored = draw(st.integers(0, 12))
    ends = sorted(draw(st.lists(st.integers(0, n_stored), min_size=n_rows, max_size=n_rows)))
    indptr = np.array([0, *ends[1:], n_stored] if n_rows else [n_stored], dtype=np.int64)
    indices = draw(hnp.arrays(np.int32, n_stored, elements=st.integers(0, max(n_columns - 1, 0))))
    data = draw(
        hnp.arrays(draw(st.sampled_from([np.float64, np.float32])), n_stored, elements=numbers)
    )
    parts = {"data": data, "indices": indices, "indptr": indptr}
    for name in draw(st.lists(st.sampled_from(list(parts)), max_size=2)):
        part = parts[name]
        kind = draw(st.sampled_from(["cut", "longer", "spoilt", "strided", "other dtype"]))
        if kind == "cut":
            parts[name] = part[: len(part) // 2]
        elif kind == "longer":
            parts[name] = np.append(part, part.dtype.type(1))
        elif kind == "strided":
            parts[name] = np.repeat(part, 2)[::2]
        elif kind == "other dtype":
            with np.errstate(invalid="ignore"):
                parts[name] = part.astype(
                    draw(st.sampled_from(["i8", "i4", "f8", "f4", "u2", "?"]))
                )
        elif len(part) and part.dtype.kind != "b":
            info = np.finfo if part.dtype.kind == "f" else np.iinfo
            bad = draw(st.sampled_from([1, 100, info(part.dtype).min, info(part.dtype).max]))
            parts[name] = part.copy()
            parts[name][draw(st.integers(0, len(part) - 1))] = bad
    n_columns = draw(st.sampled_from([n_columns, n_columns, n_columns, 0, -1, 7]))
    return (*parts.values(), n_columns)


def attempt(function, *arguments):
    """Return the result, or None after an error that names what is wrong; never panic."""
    try:
        return function(*arguments)
    # The last two for negative sizes and for columns that are not there.
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        message = str(error)
    assert message
    return None


@st.composite
def any_histograms(draw):
    """Whatever a user may pass as X, more often something that can be fitted."""
    kind = draw(st.sampled_from(["floats", "floats", "CSR", "array", "frame", "object"]))
    n_rows, n_columns = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    if kind == "floats":
        return draw(float_arrays(n_rows, n_columns, non_negative=draw(st.booleans())))
    if kind == "CSR":
        data, indices, indptr, _ = draw(csr_parts(n_rows, n_columns))
        X = sparse.csr_matrix((n_rows, n_columns))
        X.data, X.indices, X.indptr = data, indices, indptr
        return X
    if kind == "frame":
        shape = n_rows, n_columns
        return pd.DataFrame(draw(hnp.arrays(number_dtypes, shape)))
    if kind == "array":
        return draw(any_array)
    return draw(st.sampled_from([None, 3, "histogram", [], [[]], [[1, 2], [3]], {}, object()]))


def assert_representable(model, X):
    """Assert that every number is finite, save for variances that double precision cannot hold."""
    for method in methods_of(model):
        for output in outputs_of(method, X):
            if output.dtype.kind != "f" or np.isfinite(output).all():
                continue
            assert method.__name__ == "latent_mean_and_variance"
            assert isinstance(model, IntersectionGPRegressor)
            assert not np.isnan(output).any()
            mean, std = model.predict(X, return_std=True)
            assert np.isfinite(mean).all()
            assert np.isfinite(std).all()
            assert (std[output == np.inf] > LARGEST_ROOT).all()


LARGEST_ROOT = np.sqrt(np.finfo(np.float64).max)


@each_solver
@pytest.mark.parametrize("exponent", [500, 515, 600, 900, 1000])
def test_a_spread_is_finite_where_its_square_is_not(solver, exponent):
    X, y = np.array([[0.0], [1.0], [2.5]]), np.array([1.0, 0.0, 0.25])
    unit = build_plain(IntersectionGPRegressor, solver=solver).fit(X, y)
    scaled = build_plain(IntersectionGPRegressor, solver=solver).fit(X, np.ldexp(y, exponent))
    for actual, expected in [
        (scaled.predict(X, return_std=True), unit.predict(X, return_std=True)),
        (scaled.predict_leave_one_out(), unit.predict_leave_one_out())
        if solver == "cholesky"
        else ((), ()),
        ([scaled.sample_y(X, 5)], [unit.sample_y(X, 5)]),
    ]:
        for a, e in zip(actual, expected, strict=True):
            np.testing.assert_allclose(a, np.ldexp(e, exponent), rtol=1e-12)
    variance = scaled.latent_mean_and_variance(X)[1]
    assert not np.isnan(variance).any()
    assert_representable(scaled, X)


@given(data=st.data())
def test_no_argument_breaks_a_model(data):
    model_class, draw = data.draw(st.sampled_from(MODELS)), data.draw
    X, X_star = draw(any_histograms()), draw(any_histograms())
    n_rows = X.shape[0] if getattr(X, "ndim", 0) else 3
    y = draw(
        st.one_of(
            hnp.arrays(int, n_rows, elements=st.integers(0, 2)),
            float_arrays(n_rows, dtypes=["f8"]),
            float_arrays(n_rows, 2, dtypes=["f8"]),
            any_array,
        )
    )
    model = build_plain(
        model_class,
        solver=draw(st.sampled_from(["cg", "cholesky"])),
        preconditioner=draw(st.sampled_from(["knots", "pivoted-cholesky", None])),
        n_bins=draw(st.sampled_from([None, 3])),
        max_iter=30,
    )
    with warnings.catch_warnings():
        # What is wrong here is not how many iterations it takes, or a column of labels.
        for category in (ConvergenceWarning, DataConversionWarning, FutureWarning):
            warnings.simplefilter("ignore", category)
        # scikit-learn's looks at unusual labels.
        warnings.filterwarnings("ignore", message="The number of unique classes")
        warnings.filterwarnings("ignore", message="invalid value encountered in cast")
        unfitted = dict(vars(model))
        if attempt(model.fit, X, y) is None:
            assert vars(model) == unfitted
        else:
            assert np.isfinite(model.dual_coef_).all()
            assert_representable(model, X)
        fitted = build_plain(model_class).fit([[1.0, 2.0], [2.0, 1.0]], [0, 1])
        with Unchanged(fitted):
            for method in methods_of(fitted):
                attempt(method, X_star)
        attempt(intersection_kernel, X, X_star)


# ---- Ctrl-C ------------------------------------------------------------------------------------

INTERRUPTED = """
import json, pickle, sys, time, traceback
import numpy as np
from histrs import _histrs
from histrs._solvers import cholesky
from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process._systems import system as _system

stage = sys.argv[1]
rng = np.random.default_rng(0)


def repeat(module, name):
    # However fast the machine is, this has not ended when the signal comes.
    function = getattr(module, name)

    def call(arguments, options):
        # One of them works in its argument.
        if name == "factorise_in_place":
            arguments = [a.copy() if type(a) is np.ndarray else a for a in arguments]
        start = time.perf_counter()
        function(*arguments, **options)
        return time.perf_counter() - start

    def repeating(*arguments, **options):
        print("ready", call(arguments, options), flush=True)
        while True:
            call(arguments, options)

    setattr(module, name, repeating)


shape, solver = {
    "sorting": ((1_000_000, 30), "cg"),
    "kernel matrix": ((3_000, 12_000), "cholesky"),
    "factorisation": ((6_000, 2), "cholesky"),
    "iterations": ((20_000, 60), "cg"),
    "variance": ((20_000, 60), "cg"),
}[stage]
X, y = rng.random(shape), rng.random(shape[0])
small = X[:50, :2].copy(), y[:50].copy()
given = {"solver": solver, "preconditioner": None, "noise": 1e-3, "random_state": 0}
model = IntersectionGPRegressor(**of_terms(**PLAIN, **given))
if stage == "variance":
    model.set_params(tol=0.5).fit(X, y)
elif shape[1] == 2:
    model.fit(*small)
model.set_params(tol=1e-14)
plain = of_terms(**PLAIN, random_state=0)
expected = IntersectionGPRegressor(**plain).fit(*small).predict(small[0])
before = dict(vars(model))
contents = pickle.dumps({k: v for k, v in before.items() if k != "_posterior"})

module, name = {
    "sorting": (_histrs, "SortedColumns"),
    "kernel matrix": (_histrs, "intersection_gram"),
    "factorisation": (cholesky, "factorise_in_place"),
    "iterations": (_system, "block_cg"),
    "variance": (_system, "block_cg"),
}[stage]
repeated = getattr(module, name)
repeat(module, name)

try:
    if stage == "variance":
        model.predict(X[:500], return_std=True)
    else:
        model.fit(X, y)
except KeyboardInterrupt as error:
    print("interrupted", flush=True)
    after = vars(model)
    unchanged = before.keys() == after.keys() and all(after[k] is v for k, v in before.items())
    unchanged &= contents == pickle.dumps({k: v for k, v in after.items() if k != "_posterior"})
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    setattr(module, name, repeated)
    again = IntersectionGPRegressor(**plain).fit(*small).predict(small[0])
    usable = np.array_equal(again, expected)
    print("result", json.dumps({"unchanged": unchanged, "usable": usable, "frames": frames}))
else:
    print("finished", flush=True)
"""


PLAIN_THERE = "from tests.helpers import PLAIN, of_terms\n"


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(
    "stage",
    [
        "iterations",
        "variance",
        *(
            pytest.param(stage, marks=pytest.mark.slow)
            for stage in ("sorting", "kernel matrix", "factorisation")
        ),
    ],
)
def test_ctrl_c_stops_long_before_the_end(stage):
    with start_python(PLAIN_THERE + INTERRUPTED, stage) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("ready "), line + process.stderr.read()
            whole = float(line.removeprefix("ready "))
            time.sleep(whole / 10)
            sent, used = time.perf_counter(), processor_time(process)
            process.send_signal(signal.SIGINT)
            line = process.stdout.readline()
            elapsed = time.perf_counter() - sent
            # On a busy machine, other processes may have had the time.
            computed = processor_time(process) - used
            assert line == "interrupted\n", line + process.stderr.read()
            line = process.stdout.readline()
            assert line.startswith("result "), line + process.stderr.read()
            result = json.loads(line.removeprefix("result "))
        finally:
            process.kill()
    # Without a look at signals it would be nine tenths, on any machine.
    assert min(elapsed, computed) < max(whole / 2, 0.1)
    assert "repeating" in result["frames"], result["frames"]
    assert result["unchanged"]
    assert result["usable"]


# ---- fork --------------------------------------------------------------------------------------


def results_of(model, X, y):
    """Everything that a model says, old and fitted again."""
    again = clone(model).fit(X, y)
    return [*outputs(model, X), *outputs(again, X), again.dual_coef_, intersection_kernel(X)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@each_model
@each_solver
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_forked_child_predicts_and_fits(model_class, data, solver, n_jobs):
    X, y = data
    model = build_plain(model_class, solver=solver, n_jobs=n_jobs).fit(X, y)
    expected = results_of(model, X, y)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(results_of(model, X, y)))
    with warnings.catch_warnings():
        # Python warns that threads do not survive a fork, which is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    try:
        assert receiver.poll(60), "the child hangs"
        actual = receiver.recv()
    finally:
        child.kill()
        child.join()
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, e)
    for a, e in zip(results_of(model, X, y), expected, strict=True):
        np.testing.assert_array_equal(a, e)


# ---- the same bits -----------------------------------------------------------------------------


def everything(n_jobs=None):
    """Results of every path of the core, on data that take several blocks."""
    rng = np.random.default_rng(0)
    X = np.hstack([awkward_histograms(rng, 900), rng.gamma(0.3, size=(900, 12))])
    X[rng.random(X.shape) < 0.3] = 0.0
    X_star = X[::7] * rng.random(X.shape[1])
    y, Y = rng.integers(0, 3, size=900), rng.normal(size=(900, 2))
    X32 = X.astype(np.float32)
    results = {}
    for name, M, M_star in [
        ("double", X, X_star),
        ("single", X32, X_star.astype(np.float32)),
        ("sparse", sparse.csr_array(X), sparse.csr_array(X_star)),
        ("sparse single", sparse.csr_matrix(X32), X_star),
    ]:
        results[f"kernel, {name}"] = intersection_kernel(M[:300], M_star, n_jobs=n_jobs)
        results[f"symmetric kernel, {name}"] = intersection_kernel(M[:300], n_jobs=n_jobs)
        solvers = [("cholesky", None), ("cg", "knots")]
        if name == "double":
            solvers += [("cg", "pivoted-cholesky"), ("cg", None)]
        for solver, preconditioner in solvers:
            options = {"solver": solver, "preconditioner": preconditioner, "n_jobs": n_jobs}
            key = f"{name}, {solver}, {preconditioner}"
            # Calibration is by factors, or as many solves as folds.
            options["calibration"] = "leave-one-out" if solver == "cholesky" else None
            model = build(IntersectionGPClassifier, optimizer=None, noise=1.0, **options).fit(M, y)
            results[f"weights, {key}"] = model.dual_coef_
            results[f"scores, {key}"] = model.decision_function(M_star)
            results[f"probabilities, {key}"] = model.predict_proba(M_star[:20])
            for interpolation in ("linear", "nearest"):
                model.set_params(n_bins=Bins(20, interpolation))
                results[f"{interpolation}, {key}"] = model.decision_function(M_star)
        regressor = build_plain(IntersectionGPRegressor, noise=1.0, n_jobs=n_jobs).fit(M, Y)
        results[f"variance, {name}"] = regressor.latent_mean_and_variance(M_star[:20])[1]
    return results


def test_any_number_of_threads_gives_the_same_bits():
    expected = everything(n_jobs=1)
    # More threads than cores, and of no power of two.
    for name, result in everything(n_jobs=7).items():
        np.testing.assert_array_equal(result, expected[name], err_msg=name)


SAVE_EVERYTHING = """
import json, sys
import numpy as np
from histrs import _histrs
from tests.test_robustness import everything

np.savez(sys.argv[1], **everything())
print(json.dumps(_histrs.instruction_set()))
"""


def test_scalar_and_simd_paths_agree(tmp_path):
    sets, results = [], []
    for choice in ("scalar", "auto"):
        path = tmp_path / f"{choice}.npz"
        sets.append(run_python(SAVE_EVERYTHING, str(path), HISTRS_SIMD=choice))
        results.append(np.load(path))
    assert sets[0] == "scalar"
    if sets[1] == "scalar":
        pytest.skip("this machine has no SIMD instructions that are used")
    for name in results[0].files:
        # Tables and single-precision kernels round to single precision; solvers stop at tol.
        single = "single" in name and "kernel" in name
        relative = 1e-5 if single or name.startswith(("linear", "nearest")) else 1e-9
        relative = relative if "cg" not in name else 1e-3
        # The search of the calibration ends where the likelihood is flat.
        calibrated = "cholesky" in name and not name.startswith("weights")
        relative = max(relative, 1e-7) if calibrated else relative
        # Answers of single precision are rounded to it.
        rounded = results[0][name].dtype == np.float32
        relative = max(relative, 1e-6) if rounded else relative
        assert_close(results[0][name], results[1][name], relative)


@pytest.mark.parametrize("choice", ["avx9", "Scalar", "0"])
def test_an_unknown_instruction_set_fails_at_import(choice):
    with start_python("import histrs", HISTRS_SIMD=choice) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f'ValueError: HISTRS_SIMD = "{choice}" is not known: use "auto", "avx512"' in err


# ---- persistence -------------------------------------------------------------------------------


@each_model
def test_pickles_hold_arrays_only(model_class, data):
    X, y = data
    model = build_plain(model_class, n_bins=5).fit(X, y)
    size = len(pickle.dumps(model))
    for method in methods_of(model):
        method(X)
    assert len(pickle.dumps(model)) == size
    assert b"_histrs" not in pickle.dumps(model)


# ---- threads -----------------------------------------------------------------------------------


@each_model
@each_solver
def test_threads_predict_at_once(model_class, data, solver):
    X, y = data
    model = build_plain(model_class, solver=solver).fit(X, y)
    expected = [outputs_of(method, X) for method in methods_of(model)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(5):
                # Nothing is cached yet.
                fresh = pickle.loads(pickle.dumps(model))
                barrier = threading.Barrier(8)

                def work(method, barrier=barrier):
                    barrier.wait()
                    return outputs_of(method, X)

                methods = methods_of(fresh)
                futures = [pool.submit(work, methods[k % len(methods)]) for k in range(8)]
                for k, future in enumerate(futures):
                    for actual, value in zip(
                        future.result(), expected[k % len(expected)], strict=True
                    ):
                        np.testing.assert_array_equal(actual, value)
    finally:
        sys.setswitchinterval(interval)


def test_threads_fit_at_once(rng):
    problems = [make_data(model_class, rng) for model_class in MODELS * 4]
    models = [build_plain(model_class, solver="cg") for model_class in MODELS * 4]
    with ThreadPoolExecutor(8) as pool:
        fitted = list(pool.map(lambda model, p: clone(model).fit(*p), models, problems))
    for model, p, actual in zip(models, problems, fitted, strict=True):
        np.testing.assert_array_equal(actual.dual_coef_, model.fit(*p).dual_coef_)
