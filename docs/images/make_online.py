"""Make online.svg of the guide: `.venv/bin/python docs/images/make_online.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from histrs.gaussian_process import IntersectionGPRegressor

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

BATCH, N_BATCHES, WINDOW = 40, 80, 400


def stream():
    """Yield batches of a function of two features that is another one after the fortieth."""
    rng = np.random.default_rng(0)
    for batch in range(N_BATCHES):
        X = rng.random((BATCH, 2))
        phase = 0.0 if batch < N_BATCHES // 2 else 2.5
        y = np.sin(6 * X[:, 0] + phase) + X[:, 1] + 0.1 * rng.standard_normal(BATCH)
        yield X, y


def errors(*, window):
    """Return the error on every batch before it is learned from."""
    batches = stream()
    model = IntersectionGPRegressor(random_state=0).fit(*next(batches))
    found = []
    for X, y in batches:
        found.append(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
        model.partial_fit(X, y)
        if window is not None and len(model.X_fit_) > window:
            model.forget(np.arange(len(model.X_fit_) - window))
    return found


figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
rows = BATCH * np.arange(1, N_BATCHES)
ax.plot(rows, errors(window=None), "--", color="tab:orange", label="all rows")
ax.plot(rows, errors(window=WINDOW), color="tab:blue", label=f"the last {WINDOW} rows")
ax.axhline(0.1, color="0.6", linewidth=0.8)
ax.annotate("noise", (rows[-1], 0.1), xytext=(0, -12), textcoords="offset points", ha="right")
ax.set(xlabel="rows seen", ylabel="error on the next 40 rows", ylim=(0, None))
ax.legend(frameon=False)
figure.savefig(Path(__file__).with_name("online.svg"), metadata={"Date": None})
