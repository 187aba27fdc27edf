"""
The chi-square kernel as an inner product
=========================================

``AdditiveChi2Map`` turns every value into a few features whose inner products approximate the
additive chi-square kernel. The error of its rational map falls exponentially with the number of
features; the errors of older maps fall slowly. ``ExpChi2Sampler`` adds random features, which
estimate the exponential chi-square kernel.
"""

import matplotlib.pyplot as plt
import numpy as np

from histrs.kernel_approximation import AdditiveChi2Map, ExpChi2Sampler
from histrs.metrics import exp_chi2_kernel
from histrs.plotting import plot_kernel_error

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
plot_kernel_error(ax=left)

X = np.random.default_rng(0).dirichlet(np.ones(50), size=300)
K = exp_chi2_kernel(X, gamma=1.5)
counts = 2 ** np.arange(7, 14)
for projection, marker in [("structured", "o"), ("gaussian", "s")]:
    errors = []
    for count in counts:
        sampler = ExpChi2Sampler(count, gamma=1.5, projection=projection, random_state=0)
        Z = sampler.fit_transform(X)
        errors.append(np.sqrt(np.mean((Z @ Z.T - K) ** 2)))
    right.loglog(counts, errors, marker=marker, markersize=4, label=projection)
right.set(xlabel="random features", ylabel="RMS error of the exponential kernel")
right.grid(alpha=0.3)
right.legend()
plt.show()

# %%
# The error of the additive map is certified:
mapped = AdditiveChi2Map(n_components=9).fit(X)
print(f"largest error of the kernel of one bin: at most {mapped.kernel_error_bound_:.1e}")
