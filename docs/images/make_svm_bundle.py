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
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
warnings.simplefilter("ignore")  # passes are limited on purpose
for ax, alpha in zip(axes, [1e-2, 1e-4], strict=True):
    for solver, style in [("bundle", "o-"), ("pegasos", "s--")]:
        gaps = []
        for max_iter in passes:
            model = BundleSVC(
                pq,
                alpha=alpha,
                solver=solver,
                max_iter=max_iter,
                tol=1e-5,
                batch_size=64,
                random_state=0,
            ).fit(X, y)
            gaps.append(float(max(model.dual_gap_ / model.objective_)))
        ax.plot(passes, gaps, style, label=solver)
    ax.set(xscale="log", yscale="log", xlabel="passes", title=f"alpha = {alpha:g}")
    ax.grid(alpha=0.3)
axes[0].set_ylabel("largest certified gap / objective")
axes[0].legend()
fig.savefig(Path(__file__).with_name("svm_bundle.svg"), metadata={"Date": None})
