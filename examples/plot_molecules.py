"""
The best molecule after few experiments
=======================================

The counts of fragments describe a molecule. The aim is to find the molecule with the largest value
of a property among 1,500 simulated molecules. Each measurement is an experiment, and eight
experiments are made at a time. A Gaussian process on the counts chooses them by expected
improvement. Within a batch, predictions stand in for the results of the molecules chosen before.
The figure also shows random experiments.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from scipy.stats import norm

from histrs.gaussian_process import MinMaxGPRegressor
from histrs.gaussian_process.kernels import MinMax

rng = np.random.default_rng(0)
frequency = rng.gamma(0.1, size=800)
frequency *= 20 / frequency.sum()
counts = rng.poisson(frequency * rng.gamma(3, 1 / 3, size=(1500, 1)))
frequent = np.argsort(frequency)[::-1]
groups = [counts[:, frequent[k:40:4]].sum(axis=1) for k in range(4)]
size = 1 + counts.sum(axis=1)
y = 6 * groups[0] * groups[1] / size**2 - 2 * groups[2] / size + 0.02 * rng.normal(size=1500)
X = sparse.csr_array(counts)

# %%
# Chosen molecules are added with their predicted values (`partial_fit`), and removed when the batch
# is complete (`forget`). Hyper-parameters are learned again after every batch.
BATCH, ROUNDS = 8, 10


def expected_improvement(model, candidates, best):
    mean, std = model.predict(candidates, return_std=True)
    z = (mean - best) / std
    return (mean - best) * norm.cdf(z) + std * norm.pdf(z)


def choose(model, known):
    pool = np.setdiff1d(np.arange(len(y)), known)
    best, batch = y[known].max(), []
    for _ in range(BATCH):
        gain = expected_improvement(model, X[pool], best)
        index = int(np.argmax(gain))
        batch.append(int(pool[index]))
        model.partial_fit(X[pool[[index]]], model.predict(X[pool[[index]]]))
        pool = np.delete(pool, index)
    model.forget(np.arange(len(known), len(known) + BATCH))
    return batch


start = rng.choice(len(y), 2 * BATCH, replace=False).tolist()
known = list(start)
found = [y[known].max()]
for _ in range(ROUNDS):
    model = MinMaxGPRegressor(MinMax(0), random_state=0).fit(X[known], y[known])
    known += choose(model, known)
    found.append(y[known].max())

at_random = []
for seed in range(200):
    others = np.setdiff1d(np.arange(len(y)), start)
    order = np.random.default_rng(seed).permutation(others)[: BATCH * ROUNDS]
    values = np.append(y[start].max(), y[order].reshape(ROUNDS, BATCH).max(axis=1))
    at_random.append(np.maximum.accumulate(values))

rank = int(np.sum(y > found[-1])) + 1
print(f"after {len(known)} experiments: number {rank} of {len(y)}")

# %%
# The best property found, against the number of experiments. The band has 90% of random searches.
experiments = 2 * BATCH + BATCH * np.arange(ROUNDS + 1)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(experiments, found, "o-", label="expected improvement")
left.plot(experiments, np.median(at_random, axis=0), "s-", color="0.5", label="at random")
low, high = np.quantile(at_random, [0.05, 0.95], axis=0)
left.fill_between(experiments, low, high, color="0.9")
left.axhline(y.max(), color="0.3", linewidth=1, linestyle="--")
left.set(xlabel="experiments", ylabel="best property found")
left.legend(loc="lower right")

# %%
# Predictions of the last model for molecules that were not measured.
rest = np.setdiff1d(np.arange(len(y)), known)
mean, std = model.predict(X[rest], return_std=True)
right.errorbar(mean, y[rest], xerr=std, fmt=".", color="0.5", ecolor="0.9", zorder=1)
right.plot(y[known], y[known], ".", color="tab:blue", label="measured")
right.set(xlabel="prediction", ylabel="property")
right.legend(loc="upper left")
plt.show()
