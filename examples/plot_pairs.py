"""
Which two features act together
===============================

An additive model is a sum of curves, one for each feature. `Interactions` adds functions of two
features. The residuals of the curves choose the pairs. The target here is Friedman's first
function, which has a product of its first two features.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process.kernels import Interactions, Intersection
from histrs.plotting import plot_pair_functions

X, y = make_friedman1(900, n_features=6, noise=1.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
for k in (0, 1, 3):
    model = IntersectionGPRegressor(Intersection() + Interactions(k), random_state=0).fit(
        X_train, y_train
    )
    mean, std = model.predict(X_test, return_std=True)
    error = np.sqrt(np.mean((mean - y_test) ** 2))
    covered = np.mean(np.abs(mean - y_test) < 1.96 * std)
    print(f"{k} pairs: error {error:.2f} (noise 1), {covered:.0%} in their intervals of 95%")

# %%
# The first chosen pair is the true one. Its function is the part of the product that the two curves
# cannot represent.
model = IntersectionGPRegressor(Intersection() + Interactions(1), random_state=0).fit(
    X_train, y_train
)
print("chosen:", model.interactions_.tolist())
plot_pair_functions(model)
plt.show()
