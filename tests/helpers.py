"""Matrices in every container, the exact Gaussian process, and other processes."""

import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from histrs.gaussian_process import Bins, Fine, LikelihoodSearch, Solver
from histrs.gaussian_process.kernels import Constant, Interactions, Intersection, Splines
from histrs.testing._common import LAYOUTS, lay_out
from tests.oracles import intersection as oracle

ROOT = Path(__file__).resolve().parent.parent


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def peak_of_memory(call):
    """Return the most bytes that a call has in arrays and objects at once."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Options of one table, by the thing that they are said to.
_OF_FUNCTIONS = ("exponent", "exponent_bounds", "feature_weights", "feature_weights_bounds")
_OF_INTERSECTION = {name: name for name in (*_OF_FUNCTIONS, "intercept_variance")}
_OF_INTERSECTION["feature_transform"] = "transform"
_OF_SPLINES = ("slope_weight", "slope_weight_bounds", "rough_weight", "rough_weight_bounds")
_OF_PAIRS = {"n_interactions": "pairs", "interactions": "pairs", "n_interaction_knots": "n_knots"}
_OF_PAIRS |= {f"interaction_weight{end}": f"weight{end}" for end in ("", "_bounds")}
_OF_SEARCH = {"n_restarts_optimizer": "n_restarts", "shared_hyperparameters": "shared"}
_OF_SEARCH["log_det"] = "log_det"


def of_terms(kernel=None, **given):
    """Return parameters of a process, of options of its kernel, search, solver and tables."""

    def taken(names):
        names = names if isinstance(names, dict) else {name: name for name in names}
        return {names[name]: given.pop(name) for name in list(given) if name in names}

    scale = taken({"amplitude": "value", "amplitude_bounds": "value_bounds"})
    smoothness = given.pop("smoothness", "linear")
    splines, pairs = taken(_OF_SPLINES), taken(_OF_PAIRS)
    if smoothness != "linear":
        given.pop("intercept_variance", None)
        if smoothness == "both":
            splines = {"rough_weight": 1.0, **splines}
        else:
            splines = {name: v for name, v in splines.items() if "rough" not in name}
        functions = Splines(**splines, **taken(["feature_weights"]))
    elif kernel is None and (options := taken(_OF_INTERSECTION)):
        functions = Intersection(**options)
    else:
        functions = Intersection() if kernel is None and (scale or pairs) else kernel
    if pairs:
        functions = functions + Interactions(**pairs)
    if scale:
        functions = Constant(**scale) * functions
    if functions is not None:
        given["kernel"] = functions
    if search := taken(_OF_SEARCH):
        method = given.get("optimizer", "l-bfgs-b")
        given["optimizer"] = LikelihoodSearch(method, **search)
    if solver := taken(["max_iter", "preconditioner"]):
        given["solver"] = Solver(given.get("solver", "auto"), **solver)
    if "interpolation" in given:
        given["n_bins"] = Bins(given["n_bins"], given.pop("interpolation"))
    if "n_eigenvectors" in given:
        given["variance"] = Fine(given.pop("n_eigenvectors"))
    return given


def with_amplitude(model_class, given):
    """Return parameters of a process of any class, the amplitude a factor of its kernel."""
    default = getattr(model_class, "_default_kernel", Intersection)
    if default is not Intersection and "amplitude" in given:
        given = {"kernel": default(), **given}
    return of_terms(**given)


# ---- one matrix in many containers ------------------------------------------------------------


def with_index_type(X, dtype):
    X = sparse.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(dtype), X.indptr.astype(dtype)
    return X


def unsorted(X):
    X = sparse.csr_matrix(X)
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        X.indices[part], X.data[part] = X.indices[part][::-1], X.data[part][::-1]
    X.has_sorted_indices = False
    return X


def with_duplicates(X):
    """Every entry as two halves, which add up exactly."""
    X = sparse.csr_matrix(X)
    parts = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr
    return sparse.csr_matrix(parts, shape=X.shape)


def with_explicit_zeros(X):
    X = np.asarray(X)
    columns = np.tile(np.arange(X.shape[1]), len(X))
    return sparse.csr_matrix((X.ravel(), columns, np.arange(len(X) + 1) * X.shape[1]), X.shape)


def with_spare_room(X):
    """Arrays longer than the matrix, as incremental builders leave them."""
    X = sparse.csr_matrix(X)
    X.data = np.append(X.data, [np.nan, -1.0]).astype(X.dtype)
    X.indices = np.append(X.indices, [0, 0]).astype(X.indices.dtype)
    return X


def read_only(X):
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    return X


# The same numbers for every function that takes histograms.
CONTAINERS = {
    **{layout: lambda X, layout=layout: lay_out(X, layout) for layout in LAYOUTS},
    "list": lambda X: X.tolist(),
    "DataFrame": pd.DataFrame,
    "CSR array": sparse.csr_array,
    "CSR matrix": sparse.csr_matrix,
    "CSC": sparse.csc_matrix,
    "COO": sparse.coo_array,
    "CSR, 64-bit indices": lambda X: with_index_type(X, np.int64),
    "CSR, unsorted": unsorted,
    "CSR, duplicates": with_duplicates,
    "CSR, explicit zeros": with_explicit_zeros,
    "CSR, spare room": with_spare_room,
    "CSR, read-only": lambda X: read_only(sparse.csr_array(X)),
    "CSR, read-only, unsorted": lambda X: read_only(unsorted(X)),
}


# ---- histograms with everything that is awkward about them -------------------------------------


def awkward_histograms(rng, n_rows, n_columns=6):
    """Ties, zeros, a zero column, a constant column, a zero row, duplicated rows."""
    X = rng.integers(0, 5, size=(n_rows, n_columns)) * rng.random(n_columns)
    X[:, 1] += rng.random(n_rows)
    X[:, 2] = 0.0
    X[:, 3] = 0.7
    X[n_rows // 2] = 0.0
    X[n_rows // 3] = X[0]
    # Exact in single precision, so that every dtype holds the same numbers.
    return X.astype(np.float32).astype(np.float64)


# ---- the exact Gaussian process ----------------------------------------------------------------


class ExactGP(NamedTuple):
    """Means and variances by Cholesky factorisation of the kernel matrix."""

    X: np.ndarray
    fit: oracle.GPFit
    amplitude: float

    @classmethod
    def of(cls, X, Y, noise, amplitude=1.0):
        K = amplitude * oracle.intersection_kernel(X)
        return cls(dense(X), oracle.gp_fit(K, Y, noise), amplitude)

    @property
    def alpha(self):
        return self.fit.alpha

    def mean(self, X_star):
        return oracle.gp_mean(self.fit, self._cross_kernel(X_star))

    def latent_variance(self, X_star):
        prior = self.amplitude * dense(X_star).sum(axis=1, dtype=np.float64)
        return oracle.gp_latent_variance(self.fit, self._cross_kernel(X_star), prior)

    def _cross_kernel(self, X_star):
        return self.amplitude * oracle.intersection_kernel(X_star, self.X)


# The kernel and the posterior of the paper, with hyper-parameters as they are given.
PLAIN = {"optimizer": None, "feature_weights": None, "intercept_variance": 0.0, "variance": "exact"}


def build(model_class, **given):
    """Return a process with options of its kernel, search, solver and tables."""
    return model_class(**of_terms(**given, random_state=0))


def build_plain(model_class, **given):
    """Return a process of the paper, with further options."""
    return build(model_class, **{**PLAIN, **given})


def left_out_scores(model):
    """Return the scores of training rows that a classifier is calibrated by."""
    return model._scores_left_out(model._fit_of(model._posterior, model.Y_fit_))


def solvers(**of_iterations):
    """Return the ways to solve a system, by name, with options of those that iterate."""
    cg = {"solver": "cg", **of_iterations}
    of_preconditioners = {"knots": "knots", "pivoted Cholesky": "pivoted-cholesky", "plain": None}
    by_iterations = {n: {**cg, "preconditioner": p} for n, p in of_preconditioners.items()}
    return {"cholesky": {"solver": "cholesky"}, **by_iterations}


def standardised(Y):
    """Return targets of mean 0 and standard deviation 1, in which noise and amplitude count."""
    Y = Y - Y.mean(axis=0)
    return Y / Y.std(axis=0)


def assert_close(actual, expected, relative):
    """Assert that no entry is off by more than `relative` times the largest one."""
    __tracebackhide__ = True
    scale = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=relative * scale)


def assert_slope(model, theta, rtol, atol, step=1e-5):
    """Assert that the gradient of the likelihood is that of central differences."""
    _, found = model.log_marginal_likelihood(theta, eval_gradient=True)
    at = model.log_marginal_likelihood
    expected = [(at(theta + e) - at(theta - e)) / (2 * step) for e in step * np.eye(len(theta))]
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


# ---- other processes ---------------------------------------------------------------------------


# A shell lets what it runs in the background ignore Ctrl-C, and that is inherited.
HEAR_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def wishart(rng, n, p, dtype=np.float64):
    """Random covariance matrices, well conditioned."""
    A = rng.standard_normal((n, p, p + 4))
    return (A @ A.transpose(0, 2, 1) / p).astype(dtype)


def start_python(code, *arguments, **environment):
    """Start a script in a new interpreter that imports what this one does."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", HEAR_CTRL_C + code, *arguments],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processor_time(process):
    """Return the seconds that a process has computed, or those of the wall where nobody counts."""
    try:
        with open(f"/proc/{process.pid}/stat") as file:
            parts = file.read().rpartition(")")[2].split()
    except OSError:
        return time.perf_counter()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def run_python(code, *arguments, **environment):
    """Run a script to its end; return the JSON that it prints."""
    with start_python(code, *arguments, **environment) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)
