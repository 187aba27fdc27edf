"""
EEG: from trials to calibrated probabilities
============================================

The trials are simulated. In each of three classes, a different source is a little stronger. A trial
becomes its covariance matrix. A Gaussian process in the tangent space at the mean gives the
probabilities of the classes. The figure compares it with the nearest mean, and with linear models
on tangent vectors and on common spatial patterns.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.pipeline import make_pipeline

from histrs.gaussian_process import SPDGPClassifier
from histrs.spd import CSP, MDM, Covariances, TangentSpace

rng = np.random.default_rng(0)
n, n_channels, n_times = 700, 8, 192
y = np.arange(n) % 3
sources = rng.standard_normal((n, n_channels, n_times))
sources[np.arange(n), y] *= 1.2
trials = rng.standard_normal((n_channels, n_channels)) @ sources

# %%
# Each model is fitted five times to 60 trials, and predicts the other trials.
models = {
    "SPDGPClassifier": SPDGPClassifier(random_state=0),
    "TangentSpace + logistic": make_pipeline(TangentSpace(), LogisticRegression(max_iter=1000)),
    "CSP + logistic": make_pipeline(CSP(3), LogisticRegression(max_iter=1000)),
    "MDM": MDM(),
}
C = Covariances().fit_transform(trials)
accuracy = {name: [] for name in models}
found = {name: [] for name in models}
truth = []
for start in range(0, 300, 60):
    train = np.arange(start, start + 60)
    rest = np.setdiff1d(np.arange(n), train)
    truth.append(y[rest])
    for name, model in models.items():
        P = model.fit(C[train], y[train]).predict_proba(C[rest])
        found[name].append(P)
        accuracy[name].append(np.mean(P.argmax(axis=1) == y[rest]))
truth = np.concatenate(truth)

# %%
# Of the predictions with probability 70%, 70% should be right. This is the diagonal.
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
P = np.concatenate(found["SPDGPClassifier"])
ConfusionMatrixDisplay.from_predictions(
    truth, P.argmax(axis=1), normalize="true", values_format=".2f", colorbar=False, ax=left
)
left.set_title("SPDGPClassifier")
for name, parts in found.items():
    P = np.concatenate(parts)
    confidence, correct = P.max(axis=1), P.argmax(axis=1) == truth
    bins = np.minimum((10 * confidence).astype(int), 9)
    used = [b for b in range(10) if np.sum(bins == b) > 30]
    middle.plot(
        [confidence[bins == b].mean() for b in used],
        [correct[bins == b].mean() for b in used],
        marker="o",
        label=name,
    )
middle.plot([1 / 3, 1], [1 / 3, 1], color="0.6", linestyle=":")
middle.set(xlabel="probability", ylabel="fraction that is right", title="Reliability")
middle.legend(fontsize="small")
means = [np.mean(values) for values in accuracy.values()]
errors = [np.std(values) / 2 for values in accuracy.values()]
right.errorbar(means, range(len(models)), xerr=errors, fmt="o", capsize=4)
right.set_yticks(range(len(models)), list(models))
right.set(xlabel="accuracy", ylim=(-0.5, len(models) - 0.5))
plt.show()
