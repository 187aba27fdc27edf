"""Memory that is refused, panics, threads and Ctrl-C: what a call does to its process."""

import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from threadpoolctl import threadpool_info, threadpool_limits

from histrs import _histrs, _threads
from histrs._checks.validation import count_threads
from histrs._threads import blas_threads_at_most, in_threads, leavable
from histrs.metrics import intersection_kernel
from histrs.quantization import ProductQuantizer
from histrs.streaming import Moments
from tests.helpers import run_python, start_python

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and limits")
linux = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")

# ---- memory ------------------------------------------------------------------------------------

REFUSED = """
import json, resource, warnings
import numpy as np
from scipy import sparse
from histrs import _histrs, metrics
from histrs.kernel_approximation import AdditiveChi2Map, ExpChi2Sampler

# Of values outside the domain of a map.
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
few = rng.random((20, 4))
many = np.tile(few, (10_000, 1))
wide = sparse.csr_array(rng.random((200_000, 8)))
narrow = sparse.csr_array(rng.random((40_000, 4)))
spd = np.tile(np.eye(3), (60_000, 1, 1))

def sorted_column(n):
    # One value stands for all entries.
    return _histrs.SortedColumns(np.broadcast_to(np.ones((1, 1)), (n, 1)), 1)


mass = many / many.sum(axis=1, keepdims=True)
ground = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
chi2 = AdditiveChi2Map(n_components=600).fit(few)
sampler = ExpChi2Sampler(n_components=20_000, random_state=0).fit(few)
# The threads are there, and what they need by themselves.
metrics.intersection_kernel(few)
metrics.chi2_distances(sparse.csr_array(few))
metrics.sinkhorn_distances(mass[:5], M=ground, reg=0.5)
metrics.jbld_distances(spd[:5])
chi2.transform(few), chi2.transform(sparse.csr_array(few)), sampler.transform(few)

calls = {
    "intersection_kernel": lambda: metrics.intersection_kernel(many),
    "chi2_distances": lambda: metrics.chi2_distances(many),
    "exp_chi2_kernel, sparse": lambda: metrics.exp_chi2_kernel(wide),
    "hellinger_kernel": lambda: metrics.hellinger_kernel(many),
    "sinkhorn_distances": lambda: metrics.sinkhorn_distances(mass, M=ground, reg=0.5),
    "jbld_distances": lambda: metrics.jbld_distances(spd),
    "airm_distances": lambda: metrics.airm_distances(spd),
    "AdditiveChi2Map": lambda: chi2.transform(many),
    "AdditiveChi2Map, sparse": lambda: chi2.transform(narrow),
    "ExpChi2Sampler": lambda: sampler.transform(many),
    "entries of a column": lambda: sorted_column(100_000_000),
    "pairs to sort": lambda: sorted_column(40_000_000),
    "space to sort": lambda: sorted_column(30_000_000),
}
with open("/proc/self/statm") as statm:
    here = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (here + (1 << 30), here + (1 << 30)))
said = {}
for name, call in calls.items():
    try:
        call()
    except MemoryError as error:
        said[name] = str(error)
    else:
        said[name] = "nothing"
usable = bool(np.isfinite(metrics.intersection_kernel(few)).all())
print(json.dumps([said, usable]))
"""


@linux
@pytest.mark.slow
def test_too_little_memory_is_an_error_with_shape_and_bytes():
    said, usable = run_python(REFUSED)
    for name, message in said.items():
        assert "not enough memory for an array of shape (" in message, (name, message)
        assert " bytes" in message, (name, message)
    assert "(200000, 200000): it needs 320000000000 bytes" in said["intersection_kernel"]
    # Which of its buffers is refused depends on what else the process has in memory.
    for call, n in (
        ("entries of a column", 100_000_000),
        ("pairs to sort", 40_000_000),
        ("space to sort", 30_000_000),
    ):
        said_of = re.search(r"\((\d+),\): it needs (\d+) bytes", said[call])
        assert said_of, said[call]
        assert int(said_of[1]) == n, said[call]
        assert int(said_of[2]) in (4 * n, 8 * n, 16 * n), said[call]
    assert "(200000, 2400): it needs 3840000000 bytes" in said["AdditiveChi2Map"]
    assert usable


SCRAMBLED = """
import json, threading, time
import numpy as np
from histrs import _histrs

rng = np.random.default_rng(0)
n, d, k = 60_000, 400, 20
data = rng.random(n * k)
indices = np.ascontiguousarray(rng.integers(0, d, size=n * k), dtype=np.int32)
indptr = np.arange(0, n * k + 1, k, dtype=np.int64)
good = indices.copy()
stop = threading.Event()

def scramble():
    # NumPy copies without the GIL, at once with what the core reads.
    while not stop.is_set():
        indices[:] = 2_000_000_000
        indices[:] = good

said = {"fine": 0}
threading.Thread(target=scramble, daemon=True).start()
end = time.monotonic() + 4
while time.monotonic() < end:
    for function in (_histrs.SortedColumns, _histrs.column_ranges, _histrs.column_quantiles):
        arguments = (5,) if function is _histrs.column_quantiles else ()
        try:
            function((data, indices, indptr, d), *arguments, 2)
            said["fine"] += 1
        except BaseException as error:
            name = type(error).__name__
            said[name] = said.get(name, 0) + 1
            assert isinstance(error, Exception), repr(error)
stop.set()
print(json.dumps(said))
"""


def test_input_that_another_thread_changes_is_an_error_and_not_a_panic():
    said = run_python(SCRAMBLED)
    assert set(said) <= {"fine", "ValueError", "RuntimeError"}, said
    assert said.get("RuntimeError"), said


# ---- threads -----------------------------------------------------------------------------------


def test_none_and_negative_numbers_follow_openmp():
    cores = _openmp_effective_n_threads(only_physical_cores=False)
    assert count_threads(None) == count_threads(-1) == cores
    assert count_threads(-2) == max(1, cores - 1)
    assert count_threads(-100) == 1
    with threadpool_limits(1, user_api="openmp"):
        assert count_threads(None) == 1
    assert count_threads(None) == cores


@pytest.mark.parametrize("n_threads", ["1", "2"])
def test_none_obeys_the_environment(n_threads):
    code = (
        "import json; from histrs._checks.validation import count_threads; "
        "print(json.dumps(count_threads(None)))"
    )
    assert run_python(code, OMP_NUM_THREADS=n_threads) == min(int(n_threads), count_threads(None))


class Counts(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return [count_threads(None)]


def test_workers_of_joblib_share_the_cores():
    workers = 2
    found = joblib.Parallel(n_jobs=workers)(
        joblib.delayed(Counts().transform)(None) for _ in range(4)
    )
    assert all(n[0] <= max(1, joblib.cpu_count() // workers) for n in found)


def test_requests_are_capped():
    most = _histrs.most_threads()
    assert most >= 4
    assert count_threads(10**5) == most
    assert _histrs.start_threads(10**5) == most
    X = np.random.default_rng(0).random((5, 3))
    np.testing.assert_array_equal(
        intersection_kernel(X, n_jobs=10**5), intersection_kernel(X, n_jobs=1)
    )


POOLS = """
import json, time
import numpy as np
from histrs import _histrs
from histrs.metrics import intersection_kernel

def count():
    for line in open("/proc/self/status"):
        if line.startswith("Threads:"):
            return int(line.split()[1])

X = np.random.default_rng(0).random((10, 3))
before = count()
for n_jobs in [*range(1, 65), *range(64, 0, -1)]:
    intersection_kernel(X, n_jobs=n_jobs)
time.sleep(0.5)
print(json.dumps([count() - before, _histrs.most_threads()]))
"""


@linux
def test_threads_of_pools_that_are_not_used_end():
    more, most = run_python(POOLS)
    assert more <= 3 * most


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def test_limits_of_blas_that_overlap_restore_what_was_before():
    before = blas_threads()
    entered, leave = threading.Event(), threading.Event()

    def first():
        with blas_threads_at_most(1):
            entered.set()
            leave.wait(10)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(first)
        entered.wait(10)
        with blas_threads_at_most(1):
            leave.set()
            done.result()
            assert set(blas_threads()) == {1}
    assert blas_threads() == before


@pytest.mark.parametrize("limit", [1, 2])
def test_limits_of_the_caller_are_read_each_time(limit):
    with blas_threads_at_most(3):
        pass
    with threadpool_limits(limits=limit, user_api="blas"):
        own = blas_threads()
        with blas_threads_at_most(2):
            assert blas_threads() == own
        with blas_threads_at_most(1):
            assert set(blas_threads()) == {1}
        assert blas_threads() == own


def test_fits_at_once_leave_the_threads_of_blas_alone(rng):
    X = rng.random((300, 8))
    before = blas_threads()

    def fit(seed):
        ProductQuantizer(n_blocks=4, n_codes=8, random_state=seed, n_jobs=2).fit(X)
        Moments.of(X, n_jobs=1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fit, range(12)))
    assert blas_threads() == before


# ---- Ctrl-C ------------------------------------------------------------------------------------


def test_work_in_threads_says_what_it_found_and_what_failed():
    assert leavable(lambda: 3) == 3
    assert in_threads(pow, range(20), [2] * 20, n_threads=3) == [i**2 for i in range(20)]
    with pytest.raises(ZeroDivisionError):
        leavable(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda i: 1 // i, [1, 0, 2], n_threads=2)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        leavable(lambda: np.float64(1e300) * 1e300)


INTERRUPTED = """
import os, sys
import numpy as np

rng = np.random.default_rng(0)
what = sys.argv[1]
if what == "emd_distances":
    from histrs.metrics import emd_distances
    X = rng.dirichlet(np.ones(120), size=400)
    M = rng.random((120, 120))
    call = lambda: emd_distances(X, M=M)
elif what == "emd_bounded_neighbours":
    from histrs.neighbors import MetricKNNClassifier
    X = rng.dirichlet(np.ones(120), size=400)
    bins = rng.random((120, 2))
    M = np.linalg.norm(bins[:, None] - bins, axis=2)
    model = MetricKNNClassifier(metric="emd", metric_params={"M": M}).fit(X, np.arange(400) % 2)
    call = lambda: model.predict(X[::-1])
elif what == "PCARidge":
    from histrs.streaming import Moments, PCARidge
    X = rng.normal(size=(2100, 2000))
    moments = Moments.of(X, X[:, 0])
    call = lambda: PCARidge().fit_moments(moments)
elif what == "StreamingPCA":
    from histrs.streaming import Moments, StreamingPCA
    X = rng.normal(size=(2600, 2500))
    moments = Moments.of(X)
    call = lambda: StreamingPCA(n_components=50).fit_moments(moments)
elif what == "Moments":
    from histrs.streaming import Moments
    X = rng.normal(size=(4096, 3000))
    call = lambda: [Moments(3000).update(X) for _ in range(100)]
elif what == "KernelProjectionMap":
    from histrs.kernel_approximation import KernelProjectionMap
    X = rng.random((2500, 4))
    call = lambda: [
        KernelProjectionMap(n_landmarks=2500, random_state=0).fit(X) for _ in range(100)
    ]
elif what == "ExpChi2Sampler":
    from histrs.kernel_approximation import ExpChi2Sampler
    X = rng.random((50, 300))
    call = lambda: ExpChi2Sampler(
        n_components=60_000, projection="orthogonal", random_state=0
    ).fit(X)
elif what == "ProductQuantizer":
    from histrs.quantization import ProductQuantizer
    X = rng.random((20_000, 64))
    call = lambda: ProductQuantizer(n_blocks=8, n_codes=256, random_state=0).fit(X)
elif what.startswith("TabularGPRegressor"):
    from histrs.gaussian_process import TabularGPRegressor
    from histrs.gaussian_process._tabular import members
    X = rng.normal(size=(2500, 12))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=len(X))
    model = TabularGPRegressor(random_state=0)
    if what.endswith("products"):
        members.MOST_FACTORISED = 500
        model.set_params(members=["levels", "ranks"])
    call = lambda: model.fit(X, y)

print("ready", flush=True)
try:
    # However fast the machine is, this has not ended when the signal comes.
    while True:
        call()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    # What the threads left behind do is of no interest.
    os._exit(0)
"""


@posix
@pytest.mark.parametrize(
    "what",
    [
        "emd_distances",
        "PCARidge",
        "TabularGPRegressor",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                "emd_bounded_neighbours",
                "StreamingPCA",
                "Moments",
                "KernelProjectionMap",
                "ExpChi2Sampler",
                "ProductQuantizer",
                "TabularGPRegressor, products",
            )
        ),
    ],
)
def test_ctrl_c_stops_single_long_calls_within_a_second(what):
    # The time is the wall's: on a busy machine another process may have had it. A call that
    # cannot be left takes longer every time.
    elapsed = [seconds_to_leave(what)]
    while elapsed[-1] >= 1.0 and len(elapsed) < 4:
        elapsed.append(seconds_to_leave(what))
    assert elapsed[-1] < 1.0, elapsed


def seconds_to_leave(what):
    """Return how long a call goes on after Ctrl-C."""
    with start_python(INTERRUPTED, what) as process:
        try:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            time.sleep(0.7)
            sent = time.perf_counter()
            process.send_signal(signal.SIGINT)
            line = process.stdout.readline()
            elapsed = time.perf_counter() - sent
            assert line == "interrupted\n", line + process.stderr.read()
        finally:
            process.kill()
    return elapsed


# ---- instruction sets --------------------------------------------------------------------------

NAME = "import json; from histrs import _histrs; print(json.dumps(_histrs.instruction_set()))"


@pytest.mark.parametrize("name", _histrs.instruction_sets())
def test_every_instruction_set_of_the_machine_can_be_chosen(name):
    assert run_python(NAME, HISTRS_SIMD=name) == name


@pytest.mark.parametrize("choice", ["", "auto"])
def test_the_best_instruction_set_is_the_default(choice):
    best = _histrs.instruction_sets()[0]
    assert _histrs.instruction_sets()[-1] == "scalar"
    # Of processors whose instructions have no name here, any is better than none.
    assert run_python(NAME, HISTRS_SIMD=choice) == best or best == "scalar"


def test_a_missing_instruction_set_is_an_error():
    missing = {"avx512", "avx2"} - set(_histrs.instruction_sets())
    if not missing:
        pytest.skip("this machine has all instruction sets")
    for name in missing:
        with start_python(NAME, HISTRS_SIMD=name) as process:
            _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert f'HISTRS_SIMD = "{name}" is not available: this machine has' in err


def test_one_thread_does_all_where_none_can_be_started(monkeypatch):
    monkeypatch.setattr(_threads, "_STARTS_THREADS", False)
    here = threading.get_ident()
    assert leavable(threading.get_ident) == here
    found = in_threads(lambda a, b: (a + b, threading.get_ident()), [1, 2], [3, 4], n_threads=2)
    assert found == [(4, here), (6, here)]
