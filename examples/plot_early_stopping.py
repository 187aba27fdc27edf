"""
Stopping the solver early
=========================

A Gaussian process can classify well before its solver has converged. Here conjugate gradients stop
after a given number of iterations, on scikit-learn's digits. One curve has the plain kernel and a
noise that is too small (section 9.6 of the paper). The other has noise, amplitude and exponent
learned by marginal likelihood (section 10.5). Each curve is the mean of five splits. If the
environment variable `HISTRS_DATA` names a folder with Fashion-MNIST, 2,000 of its images give a
second row of figures.
"""

import gzip
import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from histrs.gaussian_process import IntersectionGPClassifier, Solver
from histrs.gaussian_process.kernels import Intersection


def fashion_mnist():
    """Return some images and their labels, or None when they are not there."""
    folder = Path(os.environ.get("HISTRS_DATA", "")) / "fashion_mnist"
    try:
        with gzip.open(folder / "train-images-idx3-ubyte.gz") as images:
            X = np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 784)[:4000]
        with gzip.open(folder / "train-labels-idx1-ubyte.gz") as labels:
            y = np.frombuffer(labels.read(), np.uint8, offset=8)[:4000]
    except FileNotFoundError:
        return None
    return X / 255.0, y


data = {
    "digits": (load_digits().data / 16.0, load_digits().target),
    "Fashion-MNIST": fashion_mnist(),
}
n_iterations = [1, 2, 3, 5, 8, 12, 20, 40, 80, 200]
kept = {"tol": 1e-9, "optimizer": None}


def early(X_train, X_test, y_train, y_test, **parameters):
    """Return accuracy and residual after each number of iterations."""
    found = []
    for n in n_iterations:
        solver = Solver("cg", max_iter=n, preconditioner=None)
        model = IntersectionGPClassifier(solver=solver, **kept, **parameters, random_state=0)
        model.fit(X_train, y_train)
        found.append((model.score(X_test, y_test), np.max(model.residual_)))
    return found


def learned(X_train, y_train):
    """Return hyper-parameters that maximise the marginal likelihood."""
    model = IntersectionGPClassifier(Intersection("power"), likelihood="gaussian", random_state=0)
    model.fit(X_train, y_train)
    kernel = model.amplitude_ * Intersection("power", model.exponent_)
    return {"noise": model.noise_, "kernel": kernel}


# %%
# A fit that stops early warns. This is intended here.

curves = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, found in data.items():
        if found is None:
            continue
        for seed in range(5 if name == "digits" else 1):
            split = train_test_split(*found, train_size=0.5, random_state=seed)
            ways = {
                "plain kernel, noise 0.01": {"noise": 0.01},
                "hyper-parameters learned": learned(split[0], split[2]),
            }
            for way, parameters in ways.items():
                curves.setdefault((name, way), []).append(early(*split, **parameters))

names = list(dict.fromkeys(name for name, _ in curves))
fig, axes = plt.subplots(
    len(names), 2, figsize=(9, 3.4 * len(names)), squeeze=False, layout="constrained"
)
for (name, way), found in curves.items():
    accuracy, residual = np.mean(found, axis=0).T
    left, right = axes[names.index(name)]
    left.semilogx(n_iterations, 100 * accuracy, ".-", label=way)
    right.semilogx(residual, 100 * accuracy, ".-", label=way)
    left.set(xlabel="iterations of conjugate gradients", ylabel=f"accuracy on {name}, %")
    right.set_xlabel("largest entry of the residual when stopped")
for _, right in axes:
    right.invert_xaxis()
axes[0, 0].legend()
plt.show()

# %%
# Accuracy after few and after many iterations, and the number of iterations with the best accuracy:
for (name, way), found in curves.items():
    accuracy = 100 * np.mean(found, axis=0)[:, 0]
    best = int(np.argmax(accuracy))
    print(
        f"{name}, {way}: {accuracy[4]:.1f}% after {n_iterations[4]}, best {accuracy[best]:.1f}% "
        f"after {n_iterations[best]}, {accuracy[-1]:.1f}% after {n_iterations[-1]} iterations"
    )
