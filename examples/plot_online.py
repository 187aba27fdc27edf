"""
Rows that come, and rows that go
================================

A Gaussian process adds rows without a new fit, and removes rows as if they had never been there.
Here digits arrive fifty at a time. Then a hundred of their labels turn out to be wrong, and these
rows are removed.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from histrs.gaussian_process import IntersectionGPClassifier
from histrs.gaussian_process.kernels import Constant, Intersection

X, y = load_digits(return_X_y=True)
X_test, y_test = X[1000:], y[1000:]
wrong = np.random.default_rng(0).choice(np.arange(300, 600), 100, replace=False)
given = y.copy()
given[wrong] = (y[wrong] + 1) % 10

model = IntersectionGPClassifier(random_state=0).fit(X[:100], given[:100])
sizes, scores, seconds = [100], [model.score(X_test, y_test)], []
for start in range(100, 1000, 50):
    before = time.perf_counter()
    model.partial_fit(X[start : start + 50], given[start : start + 50])
    seconds.append(time.perf_counter() - before)
    sizes.append(start + 50)
    scores.append(model.score(X_test, y_test))
model.forget(wrong)
print(f"with wrong labels {scores[-1]:.3f}, without them {model.score(X_test, y_test):.3f}")

# %%
# The model of the remaining 900 rows has the same scores as a new fit to them with the same
# hyper-parameters.
kept = np.setdiff1d(np.arange(1000), wrong)
again = IntersectionGPClassifier(
    Constant(model.amplitude_)
    * Intersection(
        feature_weights=model.feature_weights_, intercept_variance=model.intercept_variance_
    ),
    optimizer=None,
    noise=model.noise_,
    random_state=0,
)
difference = np.abs(
    again.fit(X[kept], y[kept]).latent_mean_and_variance(X_test)[0]
    - model.latent_mean_and_variance(X_test)[0]
)
print(f"largest difference of a score: {difference.max():.1e}")

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(sizes, scores, ".-", label="rows come, 100 of them with wrong labels")
ax.plot([900], [model.score(X_test, y_test)], "o", color="tab:green", label="wrong ones forgotten")
ax.set(xlabel="training rows", ylabel="accuracy on other rows")
ax.legend()
plt.show()
