"""Times, as medians, and peak memory, in a process for each model.

`python -m histrs._demo._costs DATA MODEL PARAMETERS` is that process.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from histrs._demo._data import Array
from histrs._demo._models import Parameters, make_model

REPEATS = 5

_PEAK_MARK = "peak bytes:"


@dataclass(frozen=True)
class TrainTest:
    """Training rows and test rows, the histograms by the name of their features."""

    X: Mapping[str, Array]
    y: NDArray[Any]
    X_test: Mapping[str, Array]


@dataclass(frozen=True)
class Task:
    """One model, and for how many test rows it is asked for probabilities."""

    model: str
    features: str
    parameters: Parameters
    n_probabilities: int


@dataclass(frozen=True)
class Cost:
    """What one model costs, on one thread."""

    task: Task
    fit_seconds: float
    predict_seconds: float
    """For one test row: its class."""
    probability_seconds: float
    """For one test row: its probabilities; a Gaussian process needs its variance for them."""
    peak_bytes: int | None
    """Memory that fitting and classifying the test rows added; None where it is not known."""


def measure_costs(tasks: Sequence[Task], data: TrainTest) -> list[Cost]:
    """Measure time and memory of every task."""
    peaks = measure_peaks(tasks, data)
    samples: list[list[tuple[float, float, float]]] = [[] for _ in tasks]
    # In turns, so that a slow moment of the machine meets every model.
    for _ in range(REPEATS):
        for task, taken in zip(tasks, samples, strict=True):
            taken.append(_run(task, data))
    costs = []
    for task, taken, peak in zip(tasks, samples, peaks, strict=True):
        fit, predict, probabilities = (statistics.median(s) for s in zip(*taken, strict=True))
        costs.append(Cost(task, fit, predict, probabilities, peak))
    return costs


def _run(task: Task, data: TrainTest) -> tuple[float, float, float]:
    """Return the seconds of the fit, and for one row of its class and of its probabilities."""
    X, X_test = data.X[task.features], data.X_test[task.features]
    some = X_test[: task.n_probabilities]
    model = make_model(task.model, task.parameters)
    fit = _seconds(lambda: model.fit(X, data.y))
    predict = _seconds(lambda: model.predict(X_test)) / len(X_test)
    probabilities = _seconds(lambda: model.predict_proba(some)) / len(some)
    return fit, predict, probabilities


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


# ---- peak memory --------------------------------------------------------------------------------


def measure_peaks(tasks: Sequence[Task], data: TrainTest) -> list[int | None]:
    """Return the peak memory of each task, measured in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, f"{name}.npz") for name in data.X}
        for name, path in paths.items():
            np.savez(path, X=data.X[name], y=data.y, X_test=data.X_test[name])
        # What a process holds does not depend on what runs beside it.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda task: _peak_of(task, paths[task.features]), tasks))


def _peak_of(task: Task, data: Path) -> int | None:
    command = [sys.executable, "-m", __name__, str(data), task.model, json.dumps(task.parameters)]
    # Where this package was imported from, it is imported there too.
    path = os.pathsep.join(part for part in sys.path if part)
    answer = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if answer.returncode != 0:
        raise RuntimeError(f"measuring the memory of {task.model} failed:\n{answer.stderr}")
    found = [line for line in answer.stdout.splitlines() if line.startswith(_PEAK_MARK)]
    text = found[-1].removeprefix(_PEAK_MARK).strip()
    return None if text == "unknown" else int(text)


def _measure_peak_here(data: Mapping[str, Any], model: str, parameters: Parameters) -> int | None:
    """Return by how much the peak of this process grows while a model is fitted and used."""
    X, y, X_test = data["X"], data["y"], data["X_test"]
    with threadpool_limits(1):
        # A small run first: libraries are loaded, and their own buffers made.
        few = slice(0, 100)
        make_model(model, parameters).fit(X[few], y[few]).predict(X_test[:10])
        before = _peak_bytes()
        make_model(model, parameters).fit(X, y).predict(X_test)
        after = _peak_bytes()
    return None if before is None or after is None else after - before


def _peak_bytes() -> int | None:
    """Return the most memory that this process has held so far.

    Linux hands `ru_maxrss` down from the process that started this one, so its own high-water
    mark is read instead.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _main(data: str, model: str, parameters: str) -> None:
    with np.load(data) as archive:
        arrays = dict(archive)
    peak = _measure_peak_here(arrays, model, json.loads(parameters))
    print(_PEAK_MARK, "unknown" if peak is None else peak)


if __name__ == "__main__":
    _main(*sys.argv[1:])
