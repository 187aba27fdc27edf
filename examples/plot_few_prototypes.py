"""
A classifier of six matrices
============================

The rows are covariances of ten simulated channels in three states. There are thirty training
trials. Nearest neighbours compare with all of them. One or a few learned prototypes per class
predict better with less memory, because they do not fit the noise of single trials.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import CovarianceCompressor, RandomSubset
from histrs.spd import MDM

rng = np.random.default_rng(0)
powers = np.exp(0.12 * rng.normal(size=(3, 10)))
states = np.resize(np.arange(3), 630)
of_trials = powers[states] * np.exp(0.4 * rng.normal(size=(630, 10)))
signals = of_trials[:, :, None] * rng.normal(size=(630, 10, 60))
C = signals @ signals.transpose(0, 2, 1) / 60
train, test = slice(0, 30), slice(30, None)

models = {
    "5 neighbours of 30 matrices": MetricKNNClassifier(5, metric="jbld"),
    "6 of the matrices": RandomSubset(2, metric="jbld", random_state=0),
    "means of classes": MDM("jbld"),
    "3 learned prototypes": CovarianceCompressor(1, random_state=0),
    "6 learned prototypes": CovarianceCompressor(2, random_state=0),
    "6, as in the paper": CovarianceCompressor(2, init="subset", prior_weight=0, random_state=0),
}
accuracy, loss = [], []
for name, model in models.items():
    model.fit(C[train], states[train])
    accuracy.append(model.score(C[test], states[test]))
    loss.append(log_loss(states[test], np.clip(model.predict_proba(C[test]), 1e-15, 1)))
    print(f"{name:30} {accuracy[-1]:.3f} right, log loss {loss[-1]:.2f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True, layout="constrained")
left.barh(list(models), accuracy, color="tab:blue")
left.axvline(1 / 3, color="0.5", linestyle="--")
left.set(xlabel="accuracy")
left.invert_yaxis()
right.barh(list(models), loss, color="tab:orange")
right.axvline(np.log(3), color="0.5", linestyle="--")
right.set(xlabel="log loss (dashed: guessing)", xlim=(0, 3))
plt.show()
