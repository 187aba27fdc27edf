"""
A Gaussian process on a cluster that loses a worker
===================================================

Each worker of a cluster keeps some sorted columns of a dask array. A product with the kernel matrix
is a sum over columns: each worker sends a vector per iteration, and the rows never come to the
client. Here one of two workers is killed during the fit. The other worker reads its columns again,
and the predictions are the same as on one machine.
"""

import os
import signal
import threading

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from histrs.gaussian_process import IntersectionGPRegressor


def fit_and_lose_a_worker(X, y):
    """Return the predictions of a model that was fitted while a worker was killed."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        workers = client.run(os.getpid)
        killer = threading.Timer(2.0, os.kill, (min(workers.values()), signal.SIGKILL))
        killer.start()
        # Two blocks of columns for each worker; other rows are predicted where they lie.
        model = IntersectionGPRegressor(solver="cg", tol=1e-6, optimizer=None, random_state=0)
        model.fit(da.from_array(X, chunks=(len(X) // 4, -1)), y)
        killer.join()
        print(f"workers before: {sorted(workers.values())}, iterations: {model.n_iter_[0]}")
        return model.predict(da.from_array(X, chunks=(500, -1)))


# %%
# The workers are processes that import this file, so only the main program may start them.
if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X = rng.random((4_000, 6))
    y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(len(X))
    of_cluster = fit_and_lose_a_worker(X, y)
    model = IntersectionGPRegressor(solver="cg", tol=1e-6, optimizer=None, random_state=0)
    difference = np.abs(of_cluster - model.fit(X, y).predict(X))
    print(f"largest difference from one machine: {difference.max():.1e}")

    fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    ax.hist(np.log10(np.maximum(difference, 1e-17)), bins=40)
    ax.set(xlabel="log10 of the difference from one machine", ylabel="predictions")
    plt.show()
