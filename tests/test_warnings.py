"""Warnings name the line of the caller, whatever lies between."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from histrs._warnings import warn
from histrs.kernel_approximation import AdditiveChi2Map
from histrs.metrics import sinkhorn_distances
from histrs.prototypes import CovarianceCompressor, HistogramCompressor
from histrs.spd import SPDProjection, jbld_mean
from histrs.streaming import MomentLasso, Moments, PCARidge
from histrs.svm import BundleSVC, IntersectionSVC
from histrs.transport import sinkhorn, sinkhorn_barycenter


def rows(rng):
    X = rng.random((60, 6)) + 0.01
    return X / X.sum(axis=1, keepdims=True), np.arange(60) % 2


def stacks(rng):
    A = rng.standard_normal((30, 20, 3))
    return A.swapaxes(1, 2) @ A, np.arange(30) % 2


CALLS = {
    "BundleSVC": lambda X, y, P: BundleSVC(max_iter=1).fit(X, y),
    "BundleSVC in a pipeline": lambda X, y, P: make_pipeline(
        MaxAbsScaler(), BundleSVC(max_iter=1)
    ).fit(X, y),
    "BundleSVC in a search": lambda X, y, P: GridSearchCV(
        BundleSVC(max_iter=1), {"alpha": [1e-3]}, cv=2
    ).fit(X, y),
    "BundleSVC in a cross-validation": lambda X, y, P: cross_val_score(
        BundleSVC(max_iter=1), X, y, cv=2
    ),
    "IntersectionSVC": lambda X, y, P: IntersectionSVC(
        max_iter=1, early_stopping=True, random_state=0
    ).fit(X, y),
    "MomentLasso": lambda X, y, P: MomentLasso(1e-6, max_iter=1, tol=1e-14).fit(X, y),
    "MomentLasso of moments": lambda X, y, P: MomentLasso(1e-6, max_iter=1, tol=1e-14).fit_moments(
        Moments.of(X, y)
    ),
    "PCARidge": lambda X, y, P: PCARidge(alphas=[1e9, 1e8]).fit(X, X[:, 0]),
    "HistogramCompressor": lambda X, y, P: HistogramCompressor(
        2, max_iter=1, tol=1e-12, random_state=0
    ).fit(X, y),
    "CovarianceCompressor": lambda X, y, P: CovarianceCompressor(
        2, max_iter=1, tol=1e-12, random_state=0
    ).fit(P, y[:30]),
    "SPDProjection": lambda X, y, P: SPDProjection(2, max_iter=1, tol=1e-12).fit(P, y[:30]),
    "jbld_mean": lambda X, y, P: jbld_mean(P, max_iter=1, tol=1e-15),
    "sinkhorn": lambda X, y, P: sinkhorn(
        X[0], X[1], M=np.ones((6, 6)) - np.eye(6), reg=0.01, max_iter=1
    ),
    "sinkhorn_barycenter": lambda X, y, P: sinkhorn_barycenter(
        X[:3], M=np.ones((6, 6)) - np.eye(6), reg=0.05, max_iter=1
    ),
    "sinkhorn_distances": lambda X, y, P: sinkhorn_distances(
        X, M=np.ones((6, 6)) - np.eye(6), reg=0.01, max_iter=1
    ),
    "AdditiveChi2Map": lambda X, y, P: AdditiveChi2Map(1).fit(X).transform(1e9 * X),
}


@pytest.mark.parametrize("call", CALLS)
def test_warnings_name_the_line_of_the_caller(rng, call):
    (X, y), (P, _) = rows(rng), stacks(rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[call](X, y, P)
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


def test_a_call_without_a_caller_warns_all_the_same():
    code = "from histrs._warnings import warn; warn('here')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "<string>:1: UserWarning: here" in done.stderr
    with pytest.warns(ConvergenceWarning, match="there"):
        warn("there", ConvergenceWarning)
