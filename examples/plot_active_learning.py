"""
Choosing the rows to label
==========================

A Gaussian process can choose which images to label. It begins with one image of each of
scikit-learn's ten digits, and asks for two labels at a time. The strategies prefer different
images:

* ``"variance-reduction"``: images whose labels reduce the variance of the others most
* ``"mean"``: images between two classes
* ``"variance"``: images unlike the labelled ones
* ``"uncertainty"``: images between two classes, or unlike the labelled ones
* ``"random"``: random images

Each curve is the mean of five runs with other training images.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from histrs.gaussian_process import IntersectionGPClassifier, active_learning

X, y = load_digits(return_X_y=True)
strategies = {
    "variance-reduction": "-",
    "uncertainty": (0, (5, 1)),
    "mean": "--",
    "variance": "-.",
    "random": ":",
}
n_rounds, n_instances, n_runs = 30, 2, 5
n_labels = 10 + n_instances * np.arange(n_rounds + 1)
accuracy = {strategy: np.zeros((n_runs, n_rounds + 1)) for strategy in strategies}

for run in range(n_runs):
    X_pool, X_test, y_pool, y_test = train_test_split(X, y, train_size=500, random_state=run)
    first = [np.flatnonzero(y_pool == digit)[0] for digit in range(10)]
    for strategy, curves in accuracy.items():
        rounds = active_learning.learn(
            IntersectionGPClassifier(noise=10.0, optimizer=None, random_state=0),
            X_pool,
            y_pool.take,
            labelled=first,
            n_rounds=n_rounds,
            n_instances=n_instances,
            strategy=strategy,
            random_state=run,
        )
        curves[run] = [r.model.score(X_test, y_test) for r in rounds]

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for strategy, style in strategies.items():
    ax.plot(n_labels, 100 * accuracy[strategy].mean(axis=0), linestyle=style, label=strategy)
ax.set(xlabel="labels", ylabel="accuracy on test images, %")
ax.legend()
plt.show()

# %%
# Labels that each strategy needs for 85% of the test images:
for strategy, curves in accuracy.items():
    reached = curves.mean(axis=0) >= 0.85
    print(f"{strategy}: {n_labels[np.argmax(reached)] if reached.any() else 'more than 70'}")
