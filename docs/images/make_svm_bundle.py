"""Make svm_bundle.svg, the picture of the guide: `python docs/images/make_svm_bundle.py`."""

import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

X, y = load_digits(return_X_y=True)
X = X / 16
pq = FrozenEstimator(ProductQuantizer(16, 64, "intersection", random_state=0).fit(X))
passes = [1, 2, 4, 8, 16, 32, 64]
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
warnings.simplefilter("ignore")  # passes are limited on purpose
for alpha, style in [(1e-2, "o-"), (1e-4, "s--")]:
    gaps = []
    for max_iter in passes:
        model = BundleSVC(pq, alpha=alpha, max_iter=max_iter, tol=1e-5).fit(X, y)
        gaps.append(float(max(model.dual_gap_ / model.objective_)))
    ax.plot(passes, gaps, style, label=f"alpha = {alpha:g}")
ax.set(xscale="log", yscale="log", xlabel="passes")
ax.grid(alpha=0.3)
ax.set_ylabel("largest certified gap / objective")
ax.legend()
fig.savefig(Path(__file__).with_name("svm_bundle.svg"), metadata={"Date": None})
