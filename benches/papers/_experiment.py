"""How an experiment is declared, run, judged and kept."""

import datetime
import importlib
import importlib.util
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches._data import data_folder
from benches._machine import machine, versions

# The modules, in the order of the pages, and their papers.
PAPERS = {
    "cheb": "F. Li, G. Lebanon, C. Sminchisescu: Chebyshev approximations to the histogram "
    "chi-square kernel. CVPR 2012",
    "nsvm": "G. Sharma, F. Jurie: A novel approach for efficient SVM classification with histogram "
    "intersection kernel. BMVC 2013",
    "gphik": "E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich, J. Denzler: Large-scale Gaussian "
    "process inference with generalized histogram intersection kernels. IJCV 2016",
    "sparse": "A. Vedaldi, A. Zisserman: Sparse kernel approximations for efficient classification "
    "and detection. CVPR 2012",
    "compress": "M. J. Kusner, N. I. Kolkin, S. Tyree, K. Q. Weinberger: Image data compression "
    "for covariance and histogram descriptors. 2015",
}
# What an experiment may need, as files of the folder that HISTRS_DATA names.
FILES = {
    "caltech101": "caltech101/images.npz",
    "fashion_mnist": "fashion_mnist/train-images-idx3-ubyte.gz",
    "leaves100": "leaves100/data_Mar_64.txt",
    "ssvep_exo": "ssvep_exo/covariances.npz",
    "spoken_digits": "spoken_digits/fsdd.npz",
    "penn_fudan": "penn_fudan/pedestrians.npz",
}


# ---- what is measured -----------------------------------------------------------------------


class Points:
    """Measured values: of a series, at an abscissa (or none), several of each measure."""

    def __init__(self, rows: Iterable[dict[str, Any]] = ()) -> None:
        self.rows: list[dict[str, Any]] = list(rows)

    def add(self, series: str, x: float | None = None, **values: float) -> None:
        """Append one value of each measure."""
        row = next((r for r in self.rows if r["series"] == series and r["x"] == x), None)
        if row is None:
            row = {"series": series, "x": x, "values": {}}
            self.rows.append(row)
        for measure, value in values.items():
            row["values"].setdefault(measure, []).append(float(f"{value:.6g}"))

    @property
    def series(self) -> list[str]:
        """Return the names of all series."""
        return list(dict.fromkeys(row["series"] for row in self.rows))

    @property
    def measures(self) -> list[str]:
        """Return the names of all measures."""
        return list(dict.fromkeys(m for row in self.rows for m in row["values"]))

    def at(self, series: str, measure: str) -> list[float | None]:
        """Return the abscissae at which a measure of a series is known."""
        rows = [r for r in self.rows if r["series"] == series and measure in r["values"]]
        return [row["x"] for row in rows]

    def values(self, series: str, measure: str, x: float | None = None) -> NDArray[np.float64]:
        """Return all values; nothing measured is an error."""
        for row in self.rows:
            if row["series"] == series and row["x"] == x:
                return np.asarray(row["values"][measure], dtype=float)
        raise KeyError(f"nothing of {series} at {x}")

    def centre(self, series: str, measure: str, x: float | None = None) -> float:
        """Return the mean; of times the median."""
        return centre(measure, self.values(series, measure, x))

    def centres(self, series: str, measure: str) -> NDArray[np.float64]:
        """Return the centres at every abscissa."""
        return np.array([self.centre(series, measure, x) for x in self.at(series, measure)])


# A busy machine makes some of these much too long.
TIMES = {
    *("seconds", "ms", "fit, s", "test, us", "ms a row", "ms an image", "training, s"),
    *("encoding, s", "speed-up"),
}


def centre(measure: str, values: Any) -> float:
    """Return the mean of the values, of times the median."""
    return float(np.median(values) if measure in TIMES else np.mean(values))


@dataclass(frozen=True)
class Claim:
    """A part of what a paper says, and whether it is so here."""

    holds: bool
    text: str


def claim(holds: Any, yes: str, no: str) -> Claim:
    """Return the claim in the words of its outcome."""
    return Claim(bool(holds), yes if holds else no)


def above(points: Points, a: str, b: str, measure: str = "accuracy") -> Claim:
    """Return whether one series is above another, run by run, by two standard errors at least."""
    abscissas = [x for x in points.at(a, measure) if x in points.at(b, measure)]
    by_run = np.mean(
        [points.values(a, measure, x) - points.values(b, measure, x) for x in abscissas], axis=0
    )
    mean, error = float(by_run.mean()), float(by_run.std(ddof=1) / np.sqrt(len(by_run)))
    figures = f"({mean:+.2f} ± {error:.2f} points)"
    return claim(mean > 2 * error, f"{a} is above {b} {figures}", f"{a} is not above {b} {figures}")


def verdict(claims: Sequence[Claim]) -> str:
    """Return one sentence: whether the claims hold, and why."""
    if not claims:
        raise ValueError("an experiment judges at least one claim")
    true = [c.text for c in claims if c.holds]
    false = [c.text for c in claims if not c.holds]
    if not false:
        return f"**Holds**: {'; '.join(true)}."
    if not true:
        return f"**Does not hold here**: {'; '.join(false)}."
    return f"**Holds in part**: {'; '.join(true)}; but {'; '.join(false)}."


@dataclass(frozen=True)
class Panel:
    """A drawing of a measure against the abscissa."""

    measure: str
    label: str
    log: bool = False
    """Whether the ordinate is logarithmic."""


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of a paper."""

    name: str
    paper: str
    title: str
    original: str
    """What the paper found."""
    needs: tuple[str, ...]
    modules: tuple[str, ...]
    minutes: float
    """About how long the full run takes on two cores."""
    x: str
    log_x: bool
    curves_in_table: bool
    """Whether points of curves are listed; a drawing may have hundreds."""
    panels: tuple[Panel, ...]
    judge: Callable[[Points], list[Claim]]
    measure: Callable[["Run"], tuple[Points, str]]


_EXPERIMENTS: dict[str, Experiment] = {}
_DEFAULTS: dict[str, Any] = {
    "needs": (),
    "modules": (),
    "x": "",
    "log_x": False,
    "panels": (),
    "curves_in_table": True,
}


def experiment(name: str, title: str, **options: Any) -> Callable[[Any], Any]:
    """Declare a function that measures a table or a figure, and returns points and a note."""

    def register(measure: Any) -> Any:
        if name in _EXPERIMENTS:
            raise ValueError(f"two experiments are named {name}")
        paper = measure.__module__.rpartition(".")[2]
        settings = _DEFAULTS | options
        _EXPERIMENTS[name] = Experiment(name, paper, title, measure=measure, **settings)
        return measure

    return register


def all_experiments() -> dict[str, Experiment]:
    """Return every experiment, in the order of papers and of declaration."""
    for paper in PAPERS:
        importlib.import_module(f"benches.papers.{paper}")
    return dict(_EXPERIMENTS)


# ---- running --------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Return where descriptors are kept; outside the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HISTRS_CACHE") or Path(base) / "histrs-papers")


def missing(wanted: Experiment) -> str:
    """Return what an experiment lacks, or nothing."""
    files = [FILES[name] for name in wanted.needs if not (data_folder() / FILES[name]).is_file()]
    modules = [name for name in wanted.modules if importlib.util.find_spec(name) is None]
    reasons = (
        [f"{', '.join(files)} not found in the folder that HISTRS_DATA names"] if files else []
    )
    if modules:
        reasons.append(f"{', '.join(modules)} not installed (pip install --group bench)")
    return "; ".join(reasons)


# Arrays of quick runs.
_SMALL: dict[str, dict[str, Any]] = {}


@dataclass
class Run:
    """What an experiment is told: whether to be quick, and to whom to say how far it is."""

    quick: bool
    say: Callable[[str], None] = lambda line: None
    _start: float = field(default_factory=time.perf_counter)

    def progress(self, done: int, of: int, what: str = "") -> None:
        """Say how far the experiment is."""
        elapsed = time.perf_counter() - self._start
        self.say(f"    {done}/{of} {what} ({elapsed:.0f} s)")

    def cached(self, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return arrays that were computed before, or compute and keep them; if quick in memory."""
        if self.quick:
            if key not in _SMALL:
                _SMALL[key] = compute()
            return _SMALL[key]
        path = cache_folder() / f"{key}.npz"
        if not path.exists():
            self.say(f"    computing {key}")
            arrays = compute()
            write(path, lambda file: np.savez(file, **arrays))
        with np.load(path) as stored:
            return dict(stored)


def write(path: Path, save: Callable[[Any], Any]) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            save(file)
        Path(temporary).chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def perform(wanted: Experiment, run: Run) -> dict[str, Any]:
    """Run an experiment and return what is kept of it."""
    start = time.perf_counter()
    points, note = wanted.measure(run)
    verdict(wanted.judge(points))  # an error here keeps nothing
    return {
        "name": wanted.name,
        "quick": run.quick,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "seconds": round(time.perf_counter() - start, 1),
        "machine": machine(),
        "versions": versions(),
        "note": note,
        "points": points.rows,
    }


def keep(result: dict[str, Any], folder: Path) -> None:
    """Keep a result as JSON, whole or not at all."""
    text = _as_json(result) + "\n"
    write(folder / f"{result['name']}.json", lambda file: file.write(text.encode()))


def _as_json(result: dict[str, Any]) -> str:
    for row in result.get("points", ()):
        for measure, values in row["values"].items():
            if not all(math.isfinite(value) for value in values):
                raise ValueError(f"{row['series']} at {row['x']}: {measure} = {values}")
    head = {key: value for key, value in result.items() if key != "points"}
    text = json.dumps(head, allow_nan=False, ensure_ascii=False, indent=1)
    if "points" not in result:
        return text
    # A line a point, so that changes can be read.
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in result["points"])
    return f'{text[:-2]},\n "points": [\n  {rows}\n ]\n}}'


def load(folder: Path, name: str) -> dict[str, Any] | None:
    """Return what is kept of an experiment."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def is_finished(result: dict[str, Any] | None) -> bool:
    """Say whether a result has figures; one that was skipped has none."""
    return result is not None and "points" in result
