"""Dask arrays, and a cluster that loses a worker."""

import json
import signal

import numpy as np
import pytest

from histrs.kernel_approximation import ExpChi2Sampler
from histrs.streaming import (
    MomentGroupLasso,
    MomentLasso,
    Moments,
    PCARidge,
    PCARidgeClassifier,
    StreamingPCA,
)
from tests.helpers import assert_close, start_python
from tests.test_streaming import bits, data

dask_array = pytest.importorskip("dask.array", reason="needs dask: histrs[dask]")


def test_dask_arrays_are_their_rows(rng):
    Z, y = data(rng, 1000, 6)
    labels = np.arange(1000) % 3
    rows = dask_array.from_array(Z, chunks=(300, 4))
    for targets in (y, dask_array.from_array(y, chunks=(450, 1))):
        moments = Moments.of(rows, targets)
        again = Moments.of(rows, targets)
        assert bits(moments) == bits(again)
        for name in ("m", "H", "v", "y_squares"):
            assert_close(getattr(moments, name), getattr(Moments.of(Z, y), name), 1e-12)
    column = dask_array.from_array(y[:, 0], chunks=300)
    for model in (
        PCARidge(3, selection="loo"),
        PCARidge([2, 3], blocks=[3, 3]),
        MomentLasso(0.1),
        MomentGroupLasso([0, 0, 1, 1, 1, 1], alpha=0.1),
    ):
        expected = model.fit(Z, y[:, 0]).coef_
        assert expected.shape == (6,)
        assert_close(model.fit(rows, column).coef_, expected, 1e-9)
        assert model.n_features_in_ == 6
    expected = StreamingPCA(2).fit(Z).components_
    assert_close(StreamingPCA(2).fit(rows).components_, expected, 1e-9)
    classifier = PCARidgeClassifier(3, calibrate="equal-rate")
    expected = classifier.fit(Z, labels).decision_function(Z)
    classifier.fit(rows, dask_array.from_array(labels, chunks=300))
    assert_close(classifier.decision_function(Z), expected, 1e-9)
    sampler = ExpChi2Sampler(10, random_state=0).fit(np.abs(Z))
    mapped = Moments.of(abs(rows), feature_map=sampler)
    assert mapped.digest == Moments.of(np.abs(Z), feature_map=sampler).digest


@pytest.mark.parametrize(
    ("shape", "targets", "message"),
    [
        ((20, 5), np.ones(19), "Y has 19 rows and the data 20"),
        ((20, 5), dask_array.ones(21, chunks=5), "Y has 21 rows and the data 20"),
        ((20,), None, "2D"),
    ],
)
def test_dask_arrays_that_do_not_fit(shape, targets, message):
    with pytest.raises(ValueError, match=message):
        Moments.of(dask_array.ones(shape, chunks=5), targets)


def test_dask_arrays_have_no_checkpoint_and_errors_are_ours(tmp_path):
    rows = dask_array.ones((20, 5), chunks=5)
    with pytest.raises(ValueError, match="a cluster recomputes"):
        Moments.of(rows, checkpoint=tmp_path / "a")
    with pytest.raises(ValueError, match="= NaN"):
        Moments.of(rows * np.nan)


CLUSTER = """
import json, os, signal, sys, threading, time, warnings

sys.warnoptions.clear()  # the workers' own: dask's warnings are not ours
warnings.simplefilter("ignore")
import dask.array as da
import numpy as np
from dask import delayed
from distributed import Client, LocalCluster
from histrs.streaming import Moments, PCARidge

folder, killed, n_parts = sys.argv[1], sys.argv[1] + ".killed", 40


def workers():
    return {int(name.split("-")[1]) for name in os.listdir(folder)}


def part(seed):
    open(os.path.join(folder, f"{seed}-{os.getpid()}"), "w").close()
    while seed >= n_parts // 2 and not os.path.exists(killed):
        time.sleep(0.01)
    return np.random.default_rng(seed).standard_normal((50, 6))


def rows():
    blocks = [da.from_delayed(delayed(part)(k), (50, 6), float) for k in range(n_parts)]
    return da.concatenate(blocks)


def kill():
    # One of the two workers, when both have begun; half of the work waits for it.
    while len(workers()) < 2:
        time.sleep(0.01)
    os.kill(min(workers()), signal.SIGKILL)
    open(killed, "w").close()


def digest(X):
    model = PCARidge(3, alphas=0.5).fit(X, X[:, 0] + 2 * X[:, 1])
    return [model.coef_.tobytes().hex(), float(model.intercept_)]


if __name__ == "__main__":
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster):
        killer = threading.Thread(target=kill)
        killer.start()
        result = digest(rows())
        killer.join()
    import dask
    with dask.config.set(scheduler="synchronous"):
        alone = digest(rows())
    print(json.dumps({"cluster": result, "alone": alone}))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_worker_changes_no_bit(tmp_path):
    pytest.importorskip("distributed", reason="needs dask.distributed: histrs[dask]")
    folder = tmp_path / "ran"
    folder.mkdir()
    with start_python(CLUSTER, str(folder)) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    result = json.loads(out.splitlines()[-1])
    assert result["cluster"] == result["alone"]
    assert (tmp_path / "ran.killed").exists()
    Z = np.vstack([np.random.default_rng(k).standard_normal((50, 6)) for k in range(40)])
    model = PCARidge(3, alphas=0.5).fit(Z, Z[:, 0] + 2 * Z[:, 1])
    assert_close(np.frombuffer(bytes.fromhex(result["cluster"][0])), model.coef_, 1e-9)
