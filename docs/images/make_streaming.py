"""Make streaming.svg, the picture of the guide: `python docs/images/make_streaming.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from histrs.kernel_approximation import ExpChi2Sampler
from histrs.metrics import exp_chi2_kernel
from histrs.streaming import Moments, PCARidgeClassifier

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

GAMMA = 2.0
KEPT = [10, 20, 40, 80, 160]
SEEDS = range(5)

X, y = load_digits(return_X_y=True)
X /= X.sum(axis=1, keepdims=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
signs = 2.0 * (y[:, None] == np.arange(10)) - 1


def accuracies(n_features, n_components, unlabelled):
    scores = []
    for seed in SEEDS:
        sampler = ExpChi2Sampler(n_features, gamma=GAMMA, random_state=seed)
        sampler.fit(np.vstack([X, X_test]))
        Z, Z_test = sampler.transform(X), sampler.transform(X_test)
        moments = Moments.of(Z, signs)
        if unlabelled:
            moments.update(Z_test)
        model = PCARidgeClassifier(n_components, alphas=np.logspace(-5, 2, 15))
        model.fit_moments(moments, np.arange(10))
        scores.append(accuracy_score(y_test, model.predict(Z_test)))
    return np.mean(scores), np.std(scores)


exact = SVC(C=50, kernel="precomputed").fit(exp_chi2_kernel(X, gamma=GAMMA), y)
exact = exact.score(exp_chi2_kernel(X_test, X, gamma=GAMMA), y_test)
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for label, times, unlabelled in [
    ("random features", 1, False),
    ("principal components of 3 times as many features", 3, False),
    ("the same, learned from the test rows too", 3, True),
]:
    mean, spread = np.transpose([accuracies(times * k, k, unlabelled) for k in KEPT])
    (line,) = ax.plot(KEPT, mean, marker="o", label=label)
    ax.fill_between(KEPT, mean - spread, mean + spread, color=line.get_color(), alpha=0.2, lw=0)
    print(label, mean.round(4))
print("exact", exact)
ax.axhline(exact, color="black", linestyle="--", label="support vectors, exact kernel")
ax.set(xscale="log", xlabel="columns of the model", ylabel="accuracy")
ax.legend(loc="lower right")
fig.savefig(Path(__file__).with_name("streaming.svg"), metadata={"Date": None})
