"""
Ten images instead of six hundred
===================================

An image of a digit is a histogram of ink over 8 x 8 cells, and optimal transport compares two
images. A nearest-neighbour classifier compares with every training image.
:class:`~histrs.prototypes.HistogramCompressor` replaces them by one learned image for each digit.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from histrs.plotting import plot_prototypes
from histrs.prototypes import HistogramCompressor, RandomSubset
from histrs.transport import grid_ground_distance

X, y = load_digits(return_X_y=True)
X = X / X.sum(axis=1, keepdims=True)
M = grid_ground_distance((8, 8))
model = HistogramCompressor(1, M=M, gamma=10.0, max_iter=100, tol=0.3, random_state=0)
model.fit(X[:600], y[:600])
drawn = RandomSubset(1, metric="sinkhorn", metric_params={"M": M, "reg": 0.4}, random_state=0)
drawn.fit(X[:600], y[:600])
print(f"one learned image a digit: {model.score(X[600:1000], y[600:1000]):.1%} right")
print(f"one random image a digit:  {drawn.score(X[600:1000], y[600:1000]):.1%} right")

# %%
# A learned image is not the mean of its digit. It shows what distinguishes it from other digits.

plot_prototypes(model, shape=(8, 8), figure=plt.figure(figsize=(7, 2.8), layout="constrained"))
plt.show()
