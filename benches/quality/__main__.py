"""Measure what is missing, and write the page: ``python -m benches.quality``.

Every fit has one thread and a process of its own, as many at a time as there are cores; times are
the processor's, which other work hardly changes. A run that was stopped goes on.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benches._machine import machine
from benches.quality import page
from benches.quality.fits import Found, Job, performed
from benches.quality.models import MODELS, Model
from benches.quality.splits import FULL, SIZES, Split, splits
from benches.quality.store import RESULTS, Store, key_of
from benches.quality.tables import Rows, Table, listed

# Rows to predict lack values where a fit had this many, of the first split.
_GAPS_AT = "1000"
# Up to so many rows, slow models get every table.
_SMALL = 200
_QUICK_TABLES = ("AER/SmokeBan/smoker", "tables/yacht", "carData/SLID/wages")
_QUICK_SIZES = ("50", "200")


def main() -> None:
    """Measure, keep and write."""
    options = _options()
    quick_folder = tempfile.mkdtemp(prefix="quality-") if options.quick else None
    store = Store(Path(quick_folder) / "quality.csv" if quick_folder else RESULTS)
    models = list(_models(options))
    if options.models:
        store.forget([m.name for m in models])
    if not options.render:
        _measure(store, models, options)
    for path in page.write(store.frame(), Path(quick_folder) if quick_folder else None):
        print(path)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", help='measure these again; "ours" for all of ours')
    parser.add_argument("--peers", choices=["deep"], help="xRFM and RealMLP too")
    parser.add_argument("--family", choices=["additive"], help="sums of curves and pairs alone")
    parser.add_argument("--render", action="store_true", help="write the page from the results")
    parser.add_argument("--quick", action="store_true", help="see in minutes that it runs")
    parser.add_argument("--minutes", type=float, help="begin nothing after so many minutes")
    return parser.parse_args()


def _models(options: argparse.Namespace) -> Iterator[Model]:
    """Yield the models that are asked for and can be run; say which cannot."""
    for model in MODELS:
        asked = options.models or [model.name]
        if model.name not in asked and not (model.ours and "ours" in asked):
            continue
        if model.deep and options.peers != "deep":
            continue
        if options.family == "additive" and model.family == "others":
            continue
        if missing := model.needs():
            print(f"{model.name}: left out, {missing}", flush=True)
            continue
        yield model


def _measure(store: Store, models: list[Model], options: argparse.Namespace) -> None:
    """Fit what is missing, and keep each as soon as it is there."""
    here = machine()["processor"]
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    done = written = 0
    for job, found in performed(_jobs(store, models, options.quick, end), os.cpu_count() or 1):
        store.add(job, found, here)
        done += 1
        scores = found.scores.get(("", ""), {})
        said = ", ".join(f"{name} {scores[name]:.3f}" for name in list(scores)[:1])
        seconds = f"{scores.get('fit', 0.0):.1f} s"
        print(*key_of(job), found.status, said, seconds, flush=True)
        if time.monotonic() > written + 30:
            store.write()
            written = int(time.monotonic())
    store.write()
    print(f"{done} fits", flush=True)


def _jobs(store: Store, models: list[Model], quick: bool, end: float) -> Iterator[Job]:
    """Yield the fits that are missing: held tables before others, first splits before
    more, few rows before many."""
    todo = []
    for table in listed():
        if quick and table.name not in _QUICK_TABLES:
            continue
        try:
            rows = table.load()
        except FileNotFoundError as error:
            print(f"{table.name}: left out, {error}", flush=True)
            continue
        for split in splits(rows, has_classes=table.has_classes):
            if not quick or split.size in _QUICK_SIZES:
                todo += [(table, rows, split, model) for model in models]
    todo.sort(key=lambda entry: (entry[0].use, entry[2].seed, len(entry[2].train)))
    for table, rows, split, model in todo:
        job = Job(table, rows, split, model, gaps=_with_gaps(split, quick))
        if store.has(job) or not _runs(model, table, rows, split):
            continue
        if _was_late(store, job):
            store.add(job, Found("limit", {}), "")
            continue
        if time.monotonic() > end:
            return
        yield job


def _with_gaps(split: Split, quick: bool) -> bool:
    return split.seed == 0 and split.size == (_QUICK_SIZES[-1] if quick else _GAPS_AT)


def _runs(model: Model, table: Table, rows: Rows, split: Split) -> bool:
    """Say whether a model is for such a table, of so many rows."""
    if table.has_classes and (not model.classes or rows.y.max() >= model.most_classes):
        return False
    n = len(split.train)
    if not model.least_rows <= n <= min(model.most_rows, FULL):
        return False
    if split.seed > 0 and (model.slow or table.use == "tuning"):
        return False
    return table.use == "held" or not model.slow or n <= _SMALL


def _was_late(store: Store, job: Job) -> bool:
    """Say whether a fit of fewer rows took too long: this one would as well."""
    fewer = (str(size) for size in SIZES if size < len(job.split.train))
    key = key_of(job)._replace(seed="0")
    return any(store.status(key._replace(size=size)) == "limit" for size in fewer)


if __name__ == "__main__":
    main()
