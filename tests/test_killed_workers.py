"""A cluster that loses a worker in the middle of a fit: no bit changes."""

import json
import signal

import numpy as np
import pytest

from tests.helpers import assert_close, start_python

pytest.importorskip("distributed", reason="needs dask.distributed: histrs[dask]")

SCRIPT = """
import json, os, signal, sys, warnings

sys.warnoptions.clear()  # the workers' own: dask's warnings are not ours
warnings.simplefilter("ignore")
import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

rng = np.random.default_rng(0)
X = rng.random((400, 6))
y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.standard_normal(400)
rows = da.from_array(X, chunks=(100, 3))
MODEL
whole = getattr(owner, name)


def bits(values):
    return values.tobytes().hex()


def killing(pid, nth):
    calls = []

    def work(*arguments):
        calls.append(1)
        if len(calls) == nth:
            os.kill(pid, signal.SIGKILL)
        return whole(*arguments)

    return work


if __name__ == "__main__":
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    found = {}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        setattr(owner, name, killing(pids[0], 3))
        model = made().fit(rows, y)
        setattr(owner, name, whole)
        found["killed in fit"] = bits(scores(model, X))
        found["scores of dask rows"] = bits(scores(model, rows))
    with dask.config.set(scheduler="synchronous"):
        found["alone"] = bits(scores(made().fit(rows, y), X))
    found["one machine"] = bits(scores(made().fit(X, y), X))
    print(json.dumps(found))
"""

# What is fitted, whose work is killed, and how near one machine is.
MODELS = {
    "Gaussian process": (
        """
from histrs.gaussian_process import IntersectionGPRegressor as Model
from histrs.gaussian_process._distributed.columns import DistributedColumns as owner

name, scores = "product", Model.predict
def made():
    return Model(solver="cg", tol=1e-8, optimizer=None, random_state=0)
""",
        1e-7,
    ),
    "support vector machine": (
        """
from histrs.svm import BundleSVC as Model
from histrs.svm._distributed import DistributedRows as owner

name, scores, y = "gradients", Model.decision_function, y > 0.5
def made():
    return Model(alpha=1e-2, tol=1e-8)
""",
        5e-3,
    ),
}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize(("model", "rtol"), MODELS.values(), ids=MODELS)
def test_a_killed_worker_changes_no_bit(model, rtol):
    with start_python(SCRIPT.replace("MODEL", model)) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    found = json.loads(out.splitlines()[-1])
    assert found["killed in fit"] == found["alone"]
    alone, distributed, one = (
        np.frombuffer(bytes.fromhex(found[key]))
        for key in ("alone", "scores of dask rows", "one machine")
    )
    assert_close(distributed, alone, 1e-12)
    assert_close(alone, one, rtol)
