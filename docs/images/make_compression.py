"""Make compression.svg, the picture of the guide: `python -m docs.images.make_compression`.

It needs the spoken digits in the folder that HISTRS_DATA names. The sharpness was chosen on
training clips left out.
"""

import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning

from benches._compression_data import spoken_digits
from histrs.neighbors import MetricKNNClassifier
from histrs.plotting import plot_compression
from histrs.prototypes import (
    CondensedNN,
    CovarianceCompressor,
    FastCondensedNN,
    RandomMutationNN,
    RandomSubset,
    ReducedNN,
    compression_curve,
)

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"
# A minute suffices for a picture.
warnings.simplefilter("ignore", ConvergenceWarning)

sets = spoken_digits()
assert sets is not None, "set HISTRS_DATA"
data = sets.X, sets.y, sets.X_test, sets.y_test
methods = {
    "CovarianceCompressor": CovarianceCompressor(gamma=6.0, max_iter=60, tol=1e-3),
    "RandomMutationNN": RandomMutationNN(),
    "RandomSubset": RandomSubset(),
    "CondensedNN": CondensedNN(),
    "ReducedNN": ReducedNN(),
    "FastCondensedNN": FastCondensedNN(),
}
curves = {
    name: compression_curve(model, *data, ratios=(0.02, 0.04, 0.08), random_states=range(2))
    for name, model in methods.items()
}
full = MetricKNNClassifier().fit(*data[:2])
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
plot_compression(curves, full_error=1 - full.score(*data[2:]), ax=ax)
fig.savefig(Path(__file__).with_name("compression.svg"), metadata={"Date": None})
