"""Make kernel_error.svg, the picture of the guide: `python docs/images/make_kernel_error.py`."""

from pathlib import Path

import matplotlib.pyplot as plt

from histrs.plotting import plot_kernel_error

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
plot_kernel_error(ax=ax)
fig.savefig(Path(__file__).with_name("kernel_error.svg"), metadata={"Date": None})
