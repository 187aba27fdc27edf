"""Make compression.svg, the picture of the guide: `python -m docs.images.make_compression`.

It needs the spoken digits and Fashion-MNIST in the folder that HISTRS_DATA names, and draws what
the rows `compression-digits` and `compression-light` of the benches measure.
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from benches.bench_compression import curves, digits, full_error, light
from histrs.plotting import plot_compression

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, title, comparison in zip(
    axes,
    ("Spoken digits, covariances", "Images, histograms of light"),
    (digits(quick=False), light(quick=False)),
    strict=True,
):
    found = {name: measure() for name, measure in curves(comparison).items()}
    plot_compression(found, full_error=full_error(comparison), ax=ax)
    ax.set_title(title, fontsize="medium")
fig.savefig(Path(__file__).with_name("compression.svg"), metadata={"Date": None})
