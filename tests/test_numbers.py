"""Where a function takes a number, what is no number is refused by name."""

import decimal
import inspect
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from histrs.metrics import exp_chi2_kernel
from histrs.spd import airm_mean
from tests.fuzz.programs import public

# By annotation as it is written.
NUMBERS = {"float": 2.0, "float | None": 2.0, "int": 2, "int | None": 2}
CASES = [
    (function, name, annotation)
    for function in public().values()
    if not inspect.isclass(function)
    for name, annotation in (
        (p.name, p.annotation) for p in inspect.signature(function).parameters.values()
    )
    if annotation in NUMBERS and name != "n_jobs"
]


def damaged():
    """Return a sparse matrix that cannot even be printed."""
    matrix = sparse.csr_matrix(np.eye(2))
    matrix.indptr = matrix.indptr[:0]
    with pytest.raises(IndexError):
        repr(matrix)
    return matrix


NO_NUMBERS = [
    np.array([1.0, 2.0]),
    np.ma.array([1.0, 2.0]),
    np.ma.masked,
    [1.0],
    "1",
    1j,
    object(),
    damaged(),
]


def required(function):
    """Return something for each parameter that has to be given."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: None for p in parameters if p.default is p.empty}


@pytest.mark.parametrize("value", NO_NUMBERS, ids=range(len(NO_NUMBERS)))
@pytest.mark.parametrize(
    ("function", "name", "annotation"), CASES, ids=[f"{f.__name__}-{n}" for f, n, _ in CASES]
)
def test_what_is_no_number_is_refused_by_name(function, name, annotation, value):
    others = {
        p.name: NUMBERS[p.annotation]
        for p in inspect.signature(function).parameters.values()
        if p.annotation in NUMBERS
    }
    kind = "an integer" if annotation.startswith("int") else "a real number"
    with pytest.raises(
        TypeError, match=rf"^{name} (=|is of type) .*: must be {kind}( or None)?\.$"
    ):
        function(**{**required(function), **others, name: value})


def test_there_are_functions_with_numbers():
    assert len(CASES) > 30


@pytest.mark.parametrize(
    "gamma", [np.float32(0.5), np.array(0.5), decimal.Decimal("0.5"), np.float64(0.5)]
)
def test_whatever_is_a_number_counts_as_one(gamma):
    X = np.random.default_rng(0).random((4, 3))
    assert np.array_equal(exp_chi2_kernel(X, gamma=gamma), exp_chi2_kernel(X, gamma=0.5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (exp_chi2_kernel, r"exp_chi2_kernel\(\) missing 1 required"),
        (partial(airm_mean, np.eye(2)[None], max_iter=2.5), r"max_iter = 2\.5: must be an integer"),
        (partial(exp_chi2_kernel, np.eye(2), gamma=10**5000), "gamma is too large an integer"),
    ],
)
def test_numbers_of_another_kind_are_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()
