"""Make svm.svg, the picture of the guide: `python docs/images/make_svm.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from histrs.svm import IntersectionSVC

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

X, y = load_digits(return_X_y=True)
model = IntersectionSVC(random_state=0).fit(X[:1000], y[:1000])
limit = X.max()
fig, axes = plt.subplots(2, 5, figsize=(7.5, 3.4), layout="constrained")
for ax, w, digit in zip(axes.flat, model.coef_, model.classes_, strict=True):
    image = ax.imshow(w.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
    ax.set_title(f"{digit}", fontsize=9)
    ax.set_axis_off()
fig.colorbar(image, ax=axes, label="weight, in units of a pixel")
fig.savefig(Path(__file__).with_name("svm.svg"), metadata={"Date": None})
