"""
Solvers of the same system
==========================

Training solves :math:`(K + s I)\\,\\alpha = y` with the noise :math:`s`. The paper compares three
solvers in figure 6: conjugate gradients, coordinate descent on look-up tables (Wu, 2010), and
greedy block coordinate descent (Bo and Sminchisescu, 2012). This example repeats the comparison on
250 of scikit-learn's digits, odd against even. It draws three quantities against iterations and
time: the largest entry of the residual, the accuracy on other digits, and the excess of the
objective :math:`\\alpha^T (K + s I)\\,\\alpha / 2 - y^T\\alpha` over its minimum.
"""

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from histrs.gaussian_process import IntersectionGPClassifier, Solver
from histrs.gaussian_process.kernels import Intersection
from histrs.metrics import intersection_kernel

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y % 2, train_size=250, random_state=0)
noise, tol = 30.0, 1e-6
A = intersection_kernel(X_train) + noise * np.eye(len(X_train))
targets = 2.0 * y_train - 1.0
# The kernel of the paper: no weights of features, and no intercept.
kernel = Intersection(feature_weights=None, intercept_variance=0.0)
minimum = -0.5 * targets @ np.linalg.solve(A, targets)


def follow(n_iterations, name, preconditioner):
    """Return iterations, seconds, residual, excess of the objective and accuracy."""
    found = []
    for n in n_iterations:
        solver = Solver(name, max_iter=n, preconditioner=preconditioner)
        model = IntersectionGPClassifier(
            kernel, noise=noise, solver=solver, optimizer=None, tol=tol, random_state=0
        )
        start = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        alpha = model.dual_coef_[:, 0]
        excess = 0.5 * alpha @ A @ alpha - targets @ alpha - minimum
        accuracy = model.score(X_test, y_test)
        found.append((n, seconds, model.residual_[0], max(excess, 1e-16), accuracy))
        if model.residual_[0] <= tol:
            break
    return np.array(found).T


# %%
# An iteration of conjugate gradients is one product with the kernel matrix. An iteration of the
# other solvers updates every row once. A fit that stops early warns, as intended here.

solvers = {
    "conjugate gradients, preconditioned": ("cg", "auto"),
    "conjugate gradients, unpreconditioned": ("cg", None),
    "coordinate descent": ("coordinate-descent", "auto"),
    "greedy blocks": ("greedy-block", "auto"),
}
n_iterations = np.unique(np.geomspace(1, 400, 14).astype(int))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    follow([1], "cg", "auto")  # starts the threads
    curves = {name: follow(n_iterations, *p) for name, p in solvers.items()}

fig, axes = plt.subplots(3, 2, figsize=(9, 8), sharex="col", sharey="row", layout="constrained")
for name, (iterations, seconds, *quantities) in curves.items():
    for row, quantity in zip(axes, quantities, strict=True):
        row[0].plot(iterations, quantity, ".-", label=name)
        row[1].plot(seconds, quantity, ".-", label=name)
for row, label in zip(axes, ["residual", "objective - minimum", "accuracy"], strict=True):
    row[0].set(ylabel=label, xscale="log", yscale="linear" if label == "accuracy" else "log")
    row[1].set_xscale("log")
axes[2, 0].set_xlabel("iterations or passes")
axes[2, 1].set_xlabel("seconds, the whole fit")
axes[0, 0].legend(fontsize="small")
plt.show()

# %%
# How long each takes to come within the tolerance:
for name, (iterations, seconds, residual, *_) in curves.items():
    state = f"{iterations[-1]:.0f} iterations, {seconds[-1]:.3f} s"
    print(f"{name}: {state if residual[-1] <= tol else 'not within 400 passes'}")
