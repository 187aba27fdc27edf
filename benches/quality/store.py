"""All that was measured, a line for each fit: ``benches/results/quality.csv``."""

import csv
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from benches._harness import ROOT
from benches.quality.fits import CRASHED, Found, Job
from benches.quality.scores import INTERVALS

RESULTS = ROOT / "benches" / "results" / "quality.csv"
_QUARTERS = [f", {what} {i}" for what in ("mean", "std") for i in range(1, 5)]
SCORES = [
    "log loss",
    "accuracy",
    "calibration",
    "RMSE",
    "CRPS",
    "NLPD",
    *(name + more for name in INTERVALS for more in ("", *_QUARTERS)),
    "fit",
    "predict",
    "memory",
]
KEY = ["table", "size", "seed", "model", "gaps", "filled"]
COLUMNS = [*KEY, "version", "machine", "status", "n train", "n test", *SCORES]


class Key(NamedTuple):
    """What a fit is known by."""

    table: str
    size: str
    seed: str
    model: str


class Store:
    """Lines of the file, by what they are of."""

    def __init__(self, path: Path = RESULTS) -> None:
        self.path = path
        self.lines: dict[tuple[str, ...], dict[str, str]] = {}
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                for line in csv.DictReader(file):
                    self.lines[tuple(line[name] for name in KEY)] = line

    def has(self, job: Job) -> bool:
        """Say whether a fit was done, with the version that is here; one that crashed was not."""
        line = self.lines.get((*key_of(job), "", ""), {"version": "", "status": ""})
        return line["version"] == job.model.version and not line["status"].startswith(CRASHED)

    def status(self, key: Key) -> str:
        """Return what became of a fit, or nothing."""
        return self.lines.get((*key, "", ""), {}).get("status", "")

    def add(self, job: Job, found: Found, machine: str) -> None:
        """Add the lines of a fit in the place of older ones."""
        key = key_of(job)
        self.lines = {k: line for k, line in self.lines.items() if k[: len(key)] != key}
        for (gaps, filled), scores in (found.scores or {("", ""): {}}).items():
            line = {name: f"{scores[name]:.5g}" if name in scores else "" for name in SCORES}
            line |= {
                **key._asdict(),
                "gaps": gaps,
                "filled": filled,
                "version": job.model.version,
                "machine": machine,
                "status": found.status,
                "n train": str(len(job.split.train)),
                "n test": str(len(job.split.test)),
            }
            self.lines[*key, gaps, filled] = line

    def forget(self, models: Iterable[str]) -> None:
        """Forget what was measured of some models."""
        gone = set(models)
        self.lines = {k: line for k, line in self.lines.items() if line["model"] not in gone}

    def write(self) -> None:
        """Write all lines in order, or leave what was there."""
        beside = self.path.with_suffix(".new")
        with beside.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.lines[key] for key in sorted(self.lines))
        os.replace(beside, self.path)

    def frame(self) -> pd.DataFrame:
        """Return the lines, numbers as numbers."""
        found = pd.DataFrame(list(self.lines.values()), columns=COLUMNS)
        numbers: list[Any] = ["seed", "n train", "n test", *SCORES]
        return found.assign(**{c: pd.to_numeric(found[c]) for c in numbers})


def key_of(job: Job) -> Key:
    """Return what a fit is known by."""
    return Key(job.table.name, job.split.size, str(job.split.seed), job.model.name)
