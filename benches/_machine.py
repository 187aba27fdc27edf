"""What the measurements ran on: processor, memory, their rates, versions."""

import datetime
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from benches._harness import ROOT, OtherLoad
from benches._peers import N_THREADS, stream, stream_blas
from histrs import _histrs


def describe(quick: bool) -> dict[str, Any]:
    """Return machine, measured rates, versions, load and date."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "versions": versions(),
        "load": load(),
        "rates": rates(quick),
    }


def busy(load: dict[str, Any]) -> bool:
    """Say whether somebody else is using the machine."""
    return (load["cores_used_by_others"] or 0.0) > 0.1


def load() -> dict[str, Any]:
    """Return the load averages, and the cores that others use in this half second."""
    others = OtherLoad()
    time.sleep(0.5)
    averages = [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None
    return {"averages": averages, "cores_used_by_others": others.cores()}


def machine() -> dict[str, Any]:
    """Return what the operating system says of the hardware."""
    return {
        "processor": _processor(),
        "cores": N_THREADS,
        "caches": _caches(),
        "memory_bytes": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "instruction_set": _histrs.instruction_set(),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    if platform.system() == "Darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    return platform.processor() or platform.machine()


def _caches() -> list[str]:
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / f).read_text().strip() for f in ("level", "type", "size"))
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return found


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def versions() -> dict[str, str]:
    """Return what could change a time: our revision, libraries, compilers."""
    blas = {
        f"{library['internal_api']} {library['version']} ({library.get('architecture', '?')})"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    return {
        "histrs": version("histrs"),
        "revision": _revision(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "scikit-learn": version("scikit-learn"),
        "blas": ", ".join(sorted(blas)),
        "rustc": _output("rustc", "--version").removeprefix("rustc ") or "unknown",
    }


def _revision() -> str:
    revision = _output("git", "rev-parse", "--short=10", "HEAD")
    if not revision:
        return "unknown"
    # What this program itself writes is no change.
    changed = _output(
        *("git", "status", "--porcelain", "--", "."),
        *(":!benches/results", ":!docs/benchmarks.md", ":!docs/images"),
    )
    return f"{revision} with changes" if changed else revision


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def rates(quick: bool) -> dict[str, float]:
    """Measure the streaming bandwidth and the speed of matrix products."""
    size = 1 << (22 if quick else 25)  # 8-byte values; far more than the caches hold
    values = np.ones(size)
    fastest = min(_median(lambda: stream(values)), _median(lambda: stream_blas(values)))
    found = {
        "stream_1_thread_bytes_per_second": values.nbytes / _median(values.sum),
        "stream_all_threads_bytes_per_second": values.nbytes / fastest,
    }
    order = 512 if quick else 2048
    for name, dtype in [("dgemm", np.float64), ("sgemm", np.float32)]:
        A = np.ones((order, order), dtype=dtype)
        out = np.empty_like(A)
        found[f"{name}_flops"] = 2 * order**3 / _median(lambda A=A, out=out: np.matmul(A, A, out))
    return found


def _median(run: Callable[[], Any]) -> float:
    run()
    samples = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)
