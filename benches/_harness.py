"""How a row of the table is declared and measured.

A row is declared once, by a function that returns a `Trial`:

    @row("kernel-product", "K v, exact")
    def kernel_product(quick: bool) -> Trial:
        ...
        return Trial(
            sides=[Side("histrs", ...), Side("numpy", ..., peer=True)],
            checks=[Check("largest difference", errors, limit=1e-12)],
            targets=[Target("at least 10x faster", lambda m: m.speedup("histrs"), at_least=10)],
        )

All sides of a row run in one process, in turns (A B A B ...), and whether they computed the same
thing is checked on what the warm-up returned.
"""

import contextlib
import gc
import importlib
import json
import math
import os
import pkgutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Fewest runs of which a median is taken; short sides get more, while the time below lasts.
MIN_RUNS = 5
MAX_RUNS = 15
SECONDS_FOR_MORE_RUNS = 2.0
QUICK_SECONDS_FOR_MORE_RUNS = 0.1
# A run shorter than this is repeated within one sample, which is then their mean.
MIN_SAMPLE_SECONDS = 0.02
# Threads of BLAS and OpenMP spin for a while after their work; the next side must not pay for it.
PAUSE_SECONDS = 0.05
# After the pause cores wake slowly, which would be most of what is measured of a shorter run than
# this: a call that is not timed comes first.
AWAKE_SECONDS = 0.1


@dataclass(frozen=True)
class Side:
    """One way to do the work of a row."""

    name: str
    run: Callable[[Any], Any]
    """The timed call; it is given what `prepare` returned."""
    prepare: Callable[[], Any] = lambda: None
    """Makes the input, untimed; in a subprocess only for the side that is measured there."""
    digest: Callable[[Any], Any] = lambda result: result
    """What checks and figures need to know of the result, untimed; the rest is dropped."""
    peer: bool = False
    memory: bool = False
    """Whether the peak memory is measured, by one more run in a process of its own."""


class NothingToCompareError(Exception):
    """No peer computed what it was to compute."""


@dataclass(frozen=True)
class Measured:
    """What is known of a row once its sides have run."""

    seconds: dict[str, list[float]]
    peers: list[str]
    digests: dict[str, Any] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    inaccurate: frozenset[str] = frozenset()

    def median(self, name: str) -> float:
        """Return the median time of a side."""
        return statistics.median(self.seconds[name])

    def fastest(self, *names: str) -> str:
        """Return the fastest accurate side of these; of the peers, when none is given."""
        accurate = [name for name in names or self.peers if name not in self.inaccurate]
        if not accurate:
            raise NothingToCompareError(f"none of {names or self.peers} is accurate enough")
        return min(accurate, key=self.median)

    def speedup(self, name: str, *peers: str) -> float:
        """Return the time of the fastest of the peers over the time of a side."""
        return self.median(self.fastest(*peers)) / self.median(name)

    def slowdown(self, name: str, *peers: str) -> float:
        """Return the time of a side over the time of the fastest of the peers."""
        return 1.0 / self.speedup(name, *peers)


def exponent_of(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent of the power law that fits best."""
    log_x, log_y = [math.log(v) for v in x], [math.log(v) for v in y]
    return statistics.linear_regression(log_x, log_y).slope


@dataclass(frozen=True)
class Check:
    """An error that every side it knows must keep below `limit` for its time to count."""

    text: str
    errors: Callable[[dict[str, Any]], dict[str, float]]
    """From the digests of all sides, by name."""
    limit: float


@dataclass(frozen=True)
class Target:
    """A number to reach; exactly one of `at_most` and `at_least` is given."""

    text: str
    value: Callable[[Measured], float]
    at_most: float | None = None
    at_least: float | None = None
    unit: str = "x"

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError(f"target {self.text!r} needs at_most or at_least, and not both")

    def is_met_by(self, value: float) -> bool:
        """Say whether `value` reaches the target."""
        if self.at_most is not None:
            return value <= self.at_most
        assert self.at_least is not None
        return value >= self.at_least


@dataclass(frozen=True)
class Figure:
    """A further number of interest, without a target."""

    text: str
    value: float
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """Numbers by size or kind; the first column is the size."""

    header: Sequence[str]
    rows: Sequence[Sequence[float | str | None]]


@dataclass(frozen=True)
class Trial:
    """A row with its data made: what runs, what must agree, what is to be reached."""

    sides: Sequence[Side]
    targets: Sequence[Target] = ()
    checks: Sequence[Check] = ()
    figures: Callable[[Measured], Sequence[Figure]] = lambda measured: ()
    table: Callable[[Measured], Table] | None = None
    note: str = ""
    once: bool = False
    """Whether the warm-up is the only run, because it takes very long; no median is taken, and the
    memory is that of the whole process then."""


@dataclass(frozen=True)
class Row:
    """A declared row; `build` makes its trial, small when asked to be quick."""

    name: str
    title: str
    build: Callable[[bool], Trial]
    module: str


_rows: dict[str, Row] = {}


def row(name: str, title: str) -> Callable[[Callable[[bool], Trial]], Callable[[bool], Trial]]:
    """Declare a row: `name` is what the command line calls it, `title` what the table does."""

    def declare(build: Callable[[bool], Trial]) -> Callable[[bool], Trial]:
        if name in _rows:
            raise ValueError(f"two rows are named {name!r}")
        function = getattr(build, "func", build)
        module = function.__module__.rpartition(".")[2].removeprefix("bench_")
        _rows[name] = Row(name, title, build, module)
        return build

    return declare


def all_rows() -> dict[str, Row]:
    """Return every row of every `bench_*.py`, by name; modules in order, rows as declared."""
    package = importlib.import_module("benches")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("bench_"):
            importlib.import_module(f"benches.{module.name}")
    # A module may have been imported before the others.
    return {row.name: row for row in sorted(_rows.values(), key=lambda row: row.module)}


# ---- measuring ------------------------------------------------------------------------------


def measure(
    row: Row,
    quick: bool = False,
    clock: Callable[[], float] = time.perf_counter,
    log: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Run all sides of a row in turns and return its result, ready for JSON."""
    load = OtherLoad()
    trial = row.build(quick)
    names = [side.name for side in trial.sides]
    if len(set(names)) != len(names):
        raise ValueError(f"two sides of {row.name} have one name: {names}")
    inputs = {side.name: side.prepare() for side in trial.sides}
    # What the libraries hold need not be looked through before every sample.
    gc.collect()
    gc.freeze()
    digests: dict[str, Any] = {}
    calls: dict[str, int] = {}
    short: set[str] = set()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    peak: dict[str, int] = {}
    for side in trial.sides:
        _reset_peak()
        result, first = _time(side, inputs[side.name], 1, clock)
        log(f"    {side.name}: warm-up {first:.3g} s")
        if trial.once:
            seconds[side.name].append(first)
            calls[side.name] = 1
            if side.memory:
                peak[side.name] = _peak()
        digests[side.name] = side.digest(result)
        del result
        if trial.once:
            continue
        # The first call of all is not a measure of the others.
        if first < 10 * MIN_SAMPLE_SECONDS:
            _, first = _time(side, inputs[side.name], 1, clock)
        if first < AWAKE_SECONDS:
            short.add(side.name)
        wanted = 1 if quick else math.ceil(MIN_SAMPLE_SECONDS / max(first, 1e-9))
        calls[side.name] = min(1000, max(1, wanted))
    limit = QUICK_SECONDS_FOR_MORE_RUNS if quick else SECONDS_FOR_MORE_RUNS
    start = clock()
    for turn in range(0 if trial.once else MAX_RUNS):
        if turn >= MIN_RUNS and clock() - start > limit:
            break
        for side in trial.sides:
            if not quick:
                time.sleep(PAUSE_SECONDS)
                if side.name in short:
                    side.run(inputs[side.name])
            _, elapsed = _time(side, inputs[side.name], calls[side.name], clock)
            seconds[side.name].append(elapsed)
    gc.unfreeze()
    del inputs
    others = load.cores()
    if not trial.once:
        alone = [side.name for side in trial.sides if side.memory][: 1 if quick else None]
        peak = {name: peak_bytes(row.name, name, quick) for name in alone}
    return evaluate(
        row,
        trial,
        seconds,
        digests,
        peak,
        {"quick": quick, "runs_per_sample": calls, "cores_used_by_others": others},
    )


def _time(side: Side, data: Any, calls: int, clock: Callable[[], float]) -> tuple[Any, float]:
    """Return the result of the last of some calls, and the mean time of one."""
    result = None
    gc.collect()
    gc.disable()
    try:
        start = clock()
        for _ in range(calls):
            result = None  # so that at most one result is held
            result = side.run(data)
        elapsed = (clock() - start) / calls
    finally:
        gc.enable()
    return result, elapsed


def evaluate(
    row: Row,
    trial: Trial,
    seconds: dict[str, list[float]],
    digests: dict[str, Any],
    peak: dict[str, int],
    context: dict[str, Any],
) -> dict[str, Any]:
    """Judge checks and targets; a side that fails a check is compared with nothing."""
    checks = []
    inaccurate: set[str] = set()
    for check in trial.checks:
        errors = {name: _finite(error) for name, error in check.errors(digests).items()}
        failed = sorted(name for name, e in errors.items() if e is None or e > check.limit)
        inaccurate.update(failed)
        checks.append(
            {"text": check.text, "limit": check.limit, "errors": errors, "failed": failed}
        )
    peers = [side.name for side in trial.sides if side.peer]
    measured = Measured(seconds, peers, digests, peak, frozenset(inaccurate))
    # A peer that is off is left out; when histrs is off, nothing counts.
    valid = inaccurate <= set(peers)
    targets = []
    for target in trial.targets:
        try:
            reached = _finite(target.value(measured))
        except NothingToCompareError:
            reached = None
        targets.append(
            {
                "text": target.text,
                "at_most": target.at_most,
                "at_least": target.at_least,
                "unit": target.unit,
                "reached": reached,
                "met": target.is_met_by(reached) if valid and reached is not None else None,
            }
        )
    return {
        "name": row.name,
        "title": row.title,
        "module": row.module,
        "valid": valid,
        "sides": [
            {
                "name": side.name,
                "peer": side.peer,
                "median": measured.median(side.name),
                "min": min(seconds[side.name]),
                "max": max(seconds[side.name]),
                "seconds": seconds[side.name],
                "accurate": side.name not in inaccurate,
                "peak_bytes": peak.get(side.name),
            }
            for side in trial.sides
        ],
        "targets": targets,
        "checks": checks,
        "figures": _figures(trial, measured),
        "table": asdict(trial.table(measured)) if trial.table else None,
        "note": trial.note,
        **context,
    }


def _figures(trial: Trial, measured: Measured) -> list[dict[str, Any]]:
    try:
        return [asdict(f) | {"value": _finite(f.value)} for f in trial.figures(measured)]
    except NothingToCompareError:
        return []


def _finite(value: Any) -> float | None:
    """Return a number that JSON has, or None."""
    return float(value) if math.isfinite(value) else None


class OtherLoad:
    """How much of the machine somebody else uses, from its creation on."""

    def __init__(self) -> None:
        self._start = self._now()

    def cores(self) -> float | None:
        """Return the cores that other processes kept busy on average, None if not known."""
        start, now = self._start, self._now()
        if start is None or now is None:
            return None
        elapsed = max(now[0] - start[0], 1e-3)
        return max(0.0, (now[1] - start[1]) / elapsed)

    @staticmethod
    def _now() -> tuple[float, float] | None:
        """Return the time and the seconds of processor time that were not ours."""
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
            user, nice, system, _, _, irq, softirq, steal = map(int, fields)
            ticks = user + nice + system + irq + softirq + steal
            ours = os.times()
            busy = ticks / os.sysconf("SC_CLK_TCK") - sum(ours[:4])
        except (OSError, ValueError):
            return None
        return time.monotonic(), busy


# ---- peak memory ----------------------------------------------------------------------------


def peak_bytes(row_name: str, side_name: str, quick: bool) -> int:
    """Run one side once in a process of its own and return the most memory it held."""
    command = [sys.executable, "-m", "benches._harness", row_name, side_name, str(int(quick))]
    answer = subprocess.run(
        command, cwd=ROOT, env=_child_environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    return int(json.loads(answer.stdout.splitlines()[-1])["peak_bytes"])


def _child_environment() -> dict[str, str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path}


def _run_alone(row_name: str, side_name: str, quick: bool) -> None:
    trial = all_rows()[row_name].build(quick)
    side = next(side for side in trial.sides if side.name == side_name)
    data = side.prepare()
    gc.collect()
    _reset_peak()
    result = side.run(data)
    peak = _peak()
    del result
    print(json.dumps({"peak_bytes": peak}))


def _reset_peak() -> None:
    """Let the peak start from what is resident now, where the system can do that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Return the peak resident size of this process.

    Linux hands `ru_maxrss` down from the process that started this one, so its own high-water
    mark is read there.
    """
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    # Imported by its name, so that rows register in one place.
    from benches import _harness

    _harness._run_alone(sys.argv[1], sys.argv[2], sys.argv[3] == "1")
