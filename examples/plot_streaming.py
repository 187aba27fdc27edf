"""
One pass over a file, any number of models
==========================================

A file has fifty thousand histograms. One pass sums the products of their features, in memory that
does not depend on the number of rows. Ridge regressions on any number of components, and a whole
path of the lasso, then need only these sums.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from histrs.kernel_approximation import AdditiveChi2Map
from histrs.streaming import MomentLasso, Moments, PCARidge

rng = np.random.default_rng(0)
n, bins = 50_000, 30
X = rng.dirichlet(np.full(bins, 0.5), size=n).astype(np.float32)
y = 4 * np.sqrt(X[:, 0]) - 3 * np.sqrt(X[:, 1]) + 2 * X[:, 2] + 0.1 * rng.normal(size=n)
path = Path(tempfile.mkdtemp()) / "rows.npy"
np.save(path, X[:40_000])

chi2 = AdditiveChi2Map(3).fit(X[:1000])
moments = Moments.of(path, y[:40_000], feature_map=chi2)
Z = chi2.transform(X[40_000:])
print(
    f"{path.stat().st_size / 1e6:.0f} MB of rows became products of {moments.n_features} features"
)

sizes = [2, 5, 10, 20, 40, 60, 90]
scores = [PCARidge(k).fit_moments(moments).score(Z, y[40_000:]) for k in sizes]
alphas = np.geomspace(1e-4, 0.3, 25)
paths = np.stack([MomentLasso(alpha).fit_moments(moments).coef_ for alpha in alphas])

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(sizes, scores, ".-")
left.set(xlabel="principal components", ylabel="$R^2$ of other rows", title="ridge regressions")
right.semilogx(alphas, paths)
right.set(xlabel="alpha", ylabel="coefficients", title="the lasso's path")
plt.show()
