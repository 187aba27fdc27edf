"""Use an installed histrs, from anywhere: `python smoke.py`. Needs nothing but its dependencies.

Estimators fit, predict, and come back from a pickle or a file with the same predictions.
Predictions are right, and do not depend on threads. Bad input is refused.
"""

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import histrs
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    TabularGPRegressor,
)
from histrs.kernel_approximation import AdditiveChi2Map
from histrs.metrics import intersection_kernel, jbld_distances, sinkhorn_distances
from histrs.neighbors import MetricKNNClassifier
from histrs.quantization import ProductQuantizer
from histrs.spd import MDM
from histrs.streaming import Moments, PCARidgeClassifier
from histrs.svm import BundleSVC, IntersectionSVC


def check(holds: object, what: str) -> None:
    """Stop with `what` where something does not hold; `assert` could be switched off."""
    if not holds:
        raise SystemExit(f"smoke test: {what}")
    print(f"  {what}", flush=True)


def back(model: object) -> object:
    """Return what a pickle keeps of a model."""
    return pickle.loads(pickle.dumps(model))


def metrics(rng: np.random.Generator) -> None:
    """Kernels and distances are those of their definitions."""
    X = rng.random((7, 5))
    expected = np.minimum(X[:, None], X[None]).sum(axis=-1)
    check(np.allclose(intersection_kernel(X), expected), "intersection kernel")
    check(np.allclose(intersection_kernel(sparse.csr_array(X)), expected), "... of CSR")
    check(intersection_kernel(X.astype("f")).dtype == np.float32, "... of single precision")
    P = X / X.sum(axis=1, keepdims=True)
    M = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    distances = sinkhorn_distances(P, M=M, reg=0.1)
    check(np.all(np.isfinite(distances)) and np.all(distances >= 0), "Sinkhorn distances")
    S = np.einsum("nij,nkj->nik", rng.random((4, 3, 6)), rng.random((4, 3, 6)))
    S = np.einsum("nij,nkj->nik", S, S) + np.eye(3)
    halves = [np.linalg.slogdet(A)[1] for A in (S[0] + S[1], 2 * S[0], 2 * S[1])]
    jbld = halves[0] - (halves[1] + halves[2]) / 2
    check(np.isclose(jbld_distances(S)[0, 1], jbld), "divergences of covariance matrices")


def classifiers() -> None:
    """Digits are told apart, alike by any number of threads and after a pickle."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=600, random_state=0)
    models = {
        IntersectionGPClassifier(n_jobs=2, random_state=0): 0.93,
        IntersectionSVC(random_state=0): 0.85,
        BundleSVC(): 0.9,
        MetricKNNClassifier(metric="chi2"): 0.93,
        make_pipeline(AdditiveChi2Map(), PCARidgeClassifier()): 0.9,
    }
    for model, least in models.items():
        name = getattr(model, "steps", [[type(model).__name__]])[-1][0]
        predicted = model.fit(X_train, y_train).predict(X_test)
        accuracy = np.mean(predicted == y_test)
        check(accuracy > least, f"{name}: {accuracy:.1%} of digits")
        check(np.array_equal(back(model).predict(X_test), predicted), f"{name}: pickle")
    one = (
        IntersectionGPClassifier(n_jobs=1, random_state=0)
        .fit(X_train, y_train)
        .predict_proba(X_test)
    )
    two = (
        IntersectionGPClassifier(n_jobs=2, random_state=0)
        .fit(X_train, y_train)
        .predict_proba(X_test)
    )
    check(np.allclose(one, two, rtol=1e-6, atol=1e-9), "one thread and two agree")
    codes = ProductQuantizer(random_state=0).fit(X_train).transform(X_test)
    check(codes.shape[0] == len(X_test), "codes")


def regressors() -> None:
    """Intervals hold what they should."""
    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    X_train, X_test = X_train - X.min(axis=0), X_test - X.min(axis=0)
    X_train, X_test = np.maximum(X_train, 0), np.maximum(X_test, 0)
    for model in (IntersectionGPRegressor(random_state=0), TabularGPRegressor(random_state=0)):
        mean, std = model.fit(X_train, y_train).predict(X_test, return_std=True)
        inside = np.mean(np.abs(mean - y_test) < 1.96 * std)
        check(inside > 0.85, f"{type(model).__name__}: {inside:.1%} inside of 95% intervals")


def covariances(rng: np.random.Generator) -> None:
    """Two scales of covariance matrices are told apart."""
    A = rng.standard_normal((60, 4, 12)) * np.repeat([1.0, 2.0], 30)[:, None, None]
    X, y = A @ A.transpose(0, 2, 1) / 12, np.repeat(["narrow", "wide"], 30)
    check(np.mean(MDM().fit(X, y).predict(X) == y) > 0.9, "covariance matrices")


def files(rng: np.random.Generator, folder: Path) -> None:
    """Moments survive a file."""
    X, Y = rng.random((50, 3)), rng.random((50, 2))
    moments = Moments.of(X, Y)
    moments.save(folder / "moments.npz")
    again = Moments.load(folder / "moments.npz")
    check(np.array_equal(again.H, moments.H) and again.n == 50, "moments of a file")


def errors() -> None:
    """Bad input is refused with its place."""
    try:
        IntersectionGPClassifier().fit([[1.0, 2.0], [3.0, -4.0]], [0, 1])
    except ValueError as error:
        check("[1, 1]" in str(error) and "-4" in str(error), "a negative value is refused")
    else:
        check(False, "a negative value was taken")


def main() -> None:
    """Run it all."""
    print(f"histrs {histrs.__version__} of {Path(histrs.__file__).parent}")
    rng = np.random.default_rng(0)
    metrics(rng)
    classifiers()
    regressors()
    covariances(rng)
    errors()
    with tempfile.TemporaryDirectory() as folder:
        files(rng, Path(folder))
    if sys.platform != "emscripten":
        info = subprocess.run(
            [sys.executable, "-m", "histrs", "--info"], capture_output=True, text=True, check=True
        )
        check(histrs.__version__ in info.stdout, "histrs --info")
        print(info.stdout)
    print("smoke test passed")


if __name__ == "__main__":
    main()
