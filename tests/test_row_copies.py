"""Answers of fitted estimators copy no rows that come in either precision and in C order."""

import inspect
import os
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from histrs.gaussian_process import TabularGPClassifier, TabularGPRegressor
from histrs.kernel_approximation import KernelProjectionMap, SparseKernelMap
from histrs.prototypes import HistogramCompressor
from tests.all_estimators import CASES, ROWS, data

# Writing 5 there makes the largest size so far the present one (proc(5)).
_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
METHODS = ("predict", "predict_proba", "decision_function", "transform")
SLOW = (HistogramCompressor, TabularGPClassifier, TabularGPRegressor)


@pytest.mark.filterwarnings("ignore:.*Raise max_iter or tol:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=type(case.make()).__name__, marks=[pytest.mark.slow] * slow)
        for case in CASES
        if case.takes == ROWS
        for slow in [isinstance(case.make(), SLOW)]
    ],
)
def test_dense_rows_are_not_copied(rng, case, dtype):
    X, y = data(case, 12, 2)
    X = np.hstack([X, rng.uniform(0.01, 0.1, (12, 124))]).astype(dtype)
    # Samples of the same columns are mapped onto one another.
    model = case.make().fit(X, X if np.ndim(y) == 2 else y)
    # Transport of many rows takes long.
    rows = np.tile(X, (1000 if isinstance(model, HistogramCompressor) else 4000, 1))
    for name, answer in _answers(model):
        # What is loaded or cached by the first call is no copy.
        answer(X)
        for peak, result in (_peak_of_python(answer, rows), _peak_of_process(answer, rows)):
            assert peak - _size(result) < 0.5 * rows.nbytes, name


def _answers(model):
    """Yield the name and the function of each answer that a model gives to rows."""
    for name in METHODS:
        answer = getattr(model, name, None)
        if answer is not None:
            yield name, answer
            if "return_std" in inspect.signature(answer).parameters:
                yield f"{name} with std", partial(answer, return_std=True)


def _size(result):
    if isinstance(result, tuple):
        return sum(_size(part) for part in result)
    if sparse.issparse(result):
        return result.data.nbytes + result.indices.nbytes
    return result.nbytes


def _peak_of_python(answer, rows):
    """Return the most that Python's allocators gave out during an answer, and the answer."""
    tracemalloc.start()
    try:
        result = answer(rows)
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def _peak_of_process(answer, rows):
    """Return by how much the process grew during an answer, the core counted, on Linux."""
    if not os.access(_CLEAR, os.W_OK):
        return 0, answer(rows)
    _CLEAR.write_text("5")
    before = _largest_size()
    result = answer(rows)
    return _largest_size() - before, result


def _largest_size():
    (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


@pytest.mark.parametrize("kind", [KernelProjectionMap, SparseKernelMap])
def test_a_bad_row_of_a_later_block_is_named(rng, kind):
    X = rng.random((20, 8))
    rows = np.tile(X.astype(np.float32), (4000, 1))
    rows[70_003, 5] = -1.0
    model = kind(n_landmarks=5, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"X\[70003, 5\] = -1"):
        model.transform(rows)
