"""The solvers that the paper compares with, against the exact solution and one another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._solvers.coordinate_descent import coordinate_descent
from histrs._solvers.greedy_block import _choose, greedy_block
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.testing import histograms
from tests.helpers import (
    ExactGP,
    assert_close,
    awkward_histograms,
    build_plain,
    dense,
)
from tests.oracles import intersection as oracle

pytestmark = pytest.mark.simd_paths

NAMES = ["coordinate-descent", "greedy-block"]
each_solver = pytest.mark.parametrize("name", NAMES)


@each_solver
@settings(max_examples=15)
@given(data=st.data())
def test_agrees_with_the_exact_solution(name, data):
    X = data.draw(histograms((1, 17), 4, normalize="max", format="any"))
    n_targets = data.draw(st.integers(1, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    y = rng.normal(size=(X.shape[0], n_targets))
    model = build_plain(IntersectionGPRegressor, noise=2.0, tol=1e-7, solver=name).fit(X, y)
    Y = y - y.mean(axis=0)
    largest = np.max(np.abs(Y), axis=0)
    exact = ExactGP.of(dense(X), Y, noise=2.0)
    # The inverse matrix is at most 1 / noise, in the norm of vectors.
    error = np.linalg.norm(model.dual_coef_ - exact.alpha, axis=0)
    assert np.all(error <= 1e-7 * largest * np.sqrt(len(Y)) / 2.0 + 1e-12)
    K = oracle.intersection_kernel(X) + 2.0 * np.eye(X.shape[0])
    residual = np.max(np.abs(Y - K @ model.dual_coef_), axis=0)
    np.testing.assert_allclose(model.residual_, residual, rtol=0, atol=1e-12)
    assert np.all(residual <= 1e-7 * largest + 1e-12)


@each_solver
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", [{}, {"feature_transform": "power", "exponent": 0.5}])
def test_is_a_solver_of_the_estimator(name, convert, kernel, rng):
    X, X_star = (awkward_histograms(rng, n) for n in (24, 5))
    y = np.resize(["ash", "birch", "oak"], 24)
    models = [
        build_plain(IntersectionGPClassifier, noise=2.0, tol=1e-8, solver=solver, **kernel)
        for solver in (name, "cholesky")
    ]
    first, exact = (model.fit(convert(X), y) for model in models)
    for actual, expected in zip(
        first.latent_mean_and_variance(convert(X_star)),
        exact.latent_mean_and_variance(convert(X_star)),
        strict=True,
    ):
        assert_close(actual, expected, 1e-6)
    first.partial_fit(convert(X[:5]), y[:5])
    exact.partial_fit(convert(X[:5]), y[:5])
    assert_close(first.dual_coef_, exact.dual_coef_, 1e-5)


@each_solver
def test_stopping_early_warns_with_the_residual(name, rng):
    X, y = awkward_histograms(rng, 60), rng.normal(size=60)
    model = build_plain(IntersectionGPRegressor, tol=1e-12, max_iter=2, solver=name)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations with a residual"):
        model.fit(X, y)
    K = oracle.intersection_kernel(X) + 0.1 * np.eye(60)
    left = np.max(np.abs(y - y.mean() - K @ model.dual_coef_[:, 0]))
    assert model.residual_[0] == pytest.approx(left)
    assert model.n_iter_ == 2


@each_solver
def test_threads_do_not_matter(name):
    X, y = load_digits(n_class=5, return_X_y=True)
    model = build_plain(IntersectionGPClassifier, noise=300.0, tol=1e-2, solver=name)
    fits = [model.set_params(n_jobs=n).fit(X[:50], y[:50]).dual_coef_ for n in (1, 2, 7)]
    for other in fits[1:]:
        np.testing.assert_array_equal(other, fits[0])


@pytest.mark.parametrize("solver", NAMES)
def test_every_pass_lowers_the_objective(solver, rng):
    X = awkward_histograms(rng, 40)
    s = np.full(40, 0.1)
    A = oracle.intersection_kernel(X) + np.diag(s)
    B = rng.normal(size=(40, 3))
    columns = _histrs.SortedColumns(to_core(X), 1)
    rows = _histrs.CoordinateDescent(columns, 1)
    found = []
    for n_passes in range(6):
        common = {"tol": np.zeros(3), "max_iter": n_passes}
        if solver == "coordinate-descent":
            solution = coordinate_descent(
                lambda V: A @ V, B, descend=lambda X, B, o: rows.descend(X, B, s, o, 1), **common
            )
        else:
            solution = greedy_block(
                lambda V: A @ V, B, columns=lambda i: A[:, i], diagonal=np.diag(A), **common
            )
        Z = solution.X
        found.append(np.sum(Z * (A @ Z), axis=0) / 2 - np.sum(B * Z, axis=0))
        np.testing.assert_allclose(solution.residual, np.max(np.abs(B - A @ Z), axis=0))
    assert np.all(np.diff(found, axis=0) < 0)


@given(n=st.integers(1, 20), size=st.integers(1, 25), seed=st.integers(0, 99))
def test_rows_of_a_block_are_chosen_greedily(n, size, seed):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, 6))
    A, r = F @ F.T + 0.1 * np.eye(n), rng.normal(size=n)

    def gain(rows):
        return r[rows] @ np.linalg.solve(A[np.ix_(rows, rows)], r[rows])

    chosen = _choose(A, r, size).tolist()
    assert len(chosen) == len(set(chosen)) == min(n, size)
    for k in range(len(chosen)):
        rest = [i for i in range(n) if i not in chosen[:k]]
        best = max(gain([*chosen[:k], i]) for i in rest)
        assert gain(chosen[: k + 1]) == pytest.approx(best)


def test_rows_that_repeat_are_not_chosen_twice():
    A, r = np.ones((4, 4)), np.array([1.0, 1.0, 1.0, 1.0])
    assert len(_choose(A, r, 3)) == 1
    assert len(_choose(A, np.zeros(4), 3)) == 0
