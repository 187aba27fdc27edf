"""
What a blend says about a table
===============================

`TabularGPRegressor` blends a few Gaussian processes. The weight of each depends on its predictions
of left-out rows. A large weight of "levels" means that the target is a sum of functions of single
columns and pairs. "radial", "even" and "ranks" are functions of all columns together. "ranks" knows
only the order of the values of a column.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from histrs.gaussian_process import TabularGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 1.0, (1500, 5))
targets = {
    "sum of curves": np.sin(6 * X[:, 0]) + (X[:, 1] > 0.5) + X[:, 2] ** 2,
    "smooth, all columns": np.sin(4 * (X @ [1.0, 0.8, -0.6, 0.4, -0.2])),
    "a box": 2.0 * np.all((X[:, :3] > 0.3) & (X[:, :3] < 0.9), axis=1),
}

weights = {}
for name, target in targets.items():
    model = TabularGPRegressor(random_state=0)
    model.fit(X[:1100], target[:1100] + 0.2 * rng.standard_normal(1100))
    weights[name] = model.weights_
    error = np.sqrt(np.mean((model.predict(X[1100:]) - target[1100:]) ** 2))
    print(f"{name}: error {error:.3f}, noise 0.2\n{model.summary()}\n")

table = pd.DataFrame(weights).fillna(0.0).T
table.plot.barh(stacked=True, figsize=(8, 3), xlabel="weight").legend(
    ncols=3, bbox_to_anchor=(1, 1.2)
)
plt.tight_layout()
plt.show()
