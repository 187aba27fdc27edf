"""The models of the demo, and the Gaussian process once more, written out."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from histrs._demo._data import Array
from histrs.gaussian_process import IntersectionGPClassifier
from histrs.metrics import intersection_kernel

Parameters = Mapping[str, float]
Grid = Mapping[str, Sequence[float]]

# The solver's tolerance, for the comparison with the factorised matrix.
TOL = 1e-8

GP = "histrs GP"
LINEAR = "LogisticRegression"

# Among these the model of the smallest log loss on the validation images is chosen.
GRIDS: Mapping[str, Grid] = {
    GP: {"noise": [0.025, 0.05, 0.1, 0.2, 0.4], "amplitude": [1e-4, 3e-4, 1e-3, 3e-3]},
    LINEAR: {"C": [0.03, 0.1, 0.3, 1.0, 3.0, 10.0]},
}

# The kernel, the variances and the probabilities of `CholeskyGP`; the grid stands for a search.
AS_WRITTEN_OUT: Mapping[str, Any] = {
    "optimizer": None,
    "feature_weights": None,
    "variance": "exact",
    "calibration": None,
}

GP_CG = "histrs GP, cg"
GP_CHOLESKY = "histrs GP, cholesky"
PLAIN = "NumPy Cholesky GP"


def make_model(name: str, parameters: Parameters) -> Any:
    """Return the model of that name, for one thread."""
    if name == LINEAR:
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=10_000, **parameters))
    model: Any
    if name == PLAIN:
        model = CholeskyGP()
    elif name == GP_CG:
        model = IntersectionGPClassifier(**AS_WRITTEN_OUT, solver="cg", tol=TOL, n_jobs=1)
    else:
        model = IntersectionGPClassifier(**AS_WRITTEN_OUT, solver="cholesky", n_jobs=1)
    return model.set_params(**parameters)


class CholeskyGP(BaseEstimator):
    """The exact Gaussian process of IntersectionGPClassifier by the textbook's formulas.

    It stores the kernel matrix of the training rows and factorises it, so that it shares nothing
    with the estimator but the definition of the kernel.
    """

    def __init__(self, noise: float = 0.1, amplitude: float = 1.0) -> None:
        self.noise = noise
        self.amplitude = amplitude

    def fit(self, X: Array, y: NDArray[Any]) -> Self:
        """Solve `(amplitude K + noise I) alpha = Y` with Y = +1 for the class, -1 elsewhere."""
        self.X_fit_ = X
        self.classes_ = np.unique(y)
        K = self._kernel(X, X)
        K[np.diag_indices_from(K)] += self.noise
        self.factor_ = linalg.cho_factor(K, lower=True)
        self.dual_coef_ = linalg.cho_solve(
            self.factor_, np.where(y[:, None] == self.classes_, 1.0, -1.0)
        )
        return self

    def decision_function(self, X: Array) -> Array:
        """Return the posterior means."""
        scores: Array = self._kernel(X, self.X_fit_) @ self.dual_coef_
        return scores

    def predict(self, X: Array) -> NDArray[Any]:
        """Return the classes of largest posterior mean."""
        labels: NDArray[Any] = self.classes_[np.argmax(self.decision_function(X), axis=1)]
        return labels

    def std(self, X: Array) -> Array:
        """Return the predictive standard deviation, noise included."""
        half = linalg.solve_triangular(self.factor_[0], self._kernel(self.X_fit_, X), lower=True)
        # The kernel of a row with itself is its sum.
        variance = self.amplitude * X.sum(axis=1) - np.sum(half**2, axis=0)
        spread: Array = np.sqrt(variance + self.noise)
        return spread

    def predict_proba(self, X: Array) -> Array:
        """Return the probability of each class, given that exactly one target is +1."""
        probabilities: Array = special.softmax(
            2.0 * self.decision_function(X) / self.std(X)[:, None] ** 2, axis=1
        )
        return probabilities

    def largest_effect(self, X: Array) -> float:
        """Return how far a score can move for each unit of the largest residual.

        Weights with residual `r` are off by `A^-1 r`, and the score of a row with kernel values
        `k` by `k^T A^-1 r`, which is at most `|A^-1 k|_1 max |r|`.
        """
        solved = linalg.cho_solve(self.factor_, self._kernel(self.X_fit_, X))
        return float(np.max(np.sum(np.abs(solved), axis=0)))

    def _kernel(self, X: Array, Y: Array) -> Array:
        kernel: Array = self.amplitude * intersection_kernel(X, Y, n_jobs=1)
        return kernel
