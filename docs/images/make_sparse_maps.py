"""Make sparse_maps.svg, the picture of the guide: `python docs/images/make_sparse_maps.py`."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from sklearn.datasets import load_digits

from histrs.kernel_approximation import KernelProjectionMap, SparseAdditiveMap, SparseKernelMap
from histrs.metrics import (
    additive_chi2_kernel,
    exp_chi2_kernel,
    intersection_kernel,
    jensen_shannon_kernel,
)

KERNELS = {
    "intersection": intersection_kernel,
    "chi2": additive_chi2_kernel,
    "jensen_shannon": jensen_shannon_kernel,
}
STYLES = {"uniform": "-", "quantile": "--", "log": ":"}
N_KNOTS = [2, 4, 8, 16, 32, 64]
N_NONZERO = [1, 2, 4, 8, 16, 32]

# Images smoothed a little, so that values are not the integers 0 to 16.
digits = load_digits().images
smooth = (digits + np.roll(digits, 1, axis=1) * 0.37 + np.roll(digits, 1, axis=2) * 0.61).reshape(
    len(digits), -1
)
X = smooth / smooth.sum(axis=1, keepdims=True)
X, test = X[:1000], X[1000:1300]


def error(model, kernel):
    """Return the RMS error on new rows, relative to the kernel."""
    features = model.transform(test)
    product = model.inner_product_.matmul(features.T.toarray())
    return relative(features @ product, kernel(test))


def relative(approximated, K):
    return np.sqrt(np.mean((approximated - K) ** 2) / np.mean(K**2))


fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for i, (name, kernel) in enumerate(KERNELS.items()):
    for spacing, style in STYLES.items():
        maps = [SparseAdditiveMap(name, n, spacing=spacing).fit(X) for n in N_KNOTS]
        left.loglog(N_KNOTS, [error(m, kernel) for m in maps], style, color=f"C{i}")
handles = [Line2D([], [], color=f"C{i}", label=name) for i, name in enumerate(KERNELS)]
handles += [Line2D([], [], color="0.4", ls=style, label=name) for name, style in STYLES.items()]
left.legend(handles=handles)
left.set(xlabel="knots per column", ylabel="RMS error / RMS kernel", title="SparseAdditiveMap")


def kernel(A, B=None):
    return exp_chi2_kernel(A, B, gamma=1.0)


options = {"kernel_params": {"gamma": 1.0}, "random_state": 0}
for selection in ("nearest", "matching-pursuit", "orthogonal-matching-pursuit"):
    maps = [
        SparseKernelMap("exp_chi2", 200, n, selection=selection, **options).fit(X)
        for n in N_NONZERO
    ]
    right.loglog(N_NONZERO, [error(m, kernel) for m in maps], "o-", label=selection)
dense = KernelProjectionMap("exp_chi2", 200, **options).fit(X)
features = dense.transform(test)
floor = relative(features @ dense.inner_product_.matmul(features.T), kernel(test))
right.axhline(floor, color="0.4", ls="--", label="all 200 (KernelProjectionMap)")
right.set(xlabel="landmarks per row, of 200", title="SparseKernelMap, exponential chi-square")
right.legend()
for ax, ticks in ((left, N_KNOTS), (right, N_NONZERO)):
    ax.set_xticks(ticks, [str(n) for n in ticks])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
fig.savefig(Path(__file__).with_name("sparse_maps.svg"), metadata={"Date": None})
