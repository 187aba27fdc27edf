"""Mutation testing of the Python package: change one thing, and see whether a test fails.

    python -m tests.mutants svm neighbors --part 1/8
    python -m tests.mutants svm --sample 50 --seed 3

A mutant that no test notices has to be in `accepted.toml`, with the reason why none should. It is
known there by its function and the change, not by its line. The package is copied for each worker,
so that the tree stays as it is.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutations import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "histrs"
ACCEPTED = Path(__file__).with_name("accepted.toml")

# The tests of each part, those that fail soonest first.
TESTS = {
    "gaussian_process": [
        "test_gaussian_process.py",
        "test_online.py",
        "test_variance.py",
        "test_hyperparameters.py",
        "test_active_learning.py",
        "test_posterior.py",
        "test_calibration.py",
        "test_cached_variance.py",
    ],
    "metrics": ["test_metrics.py", "test_neighbors.py"],
    "neighbors": ["test_neighbors.py", "test_awkward_calls.py"],
    "prototypes": [
        "test_prototypes.py",
        "test_selected_prototypes.py",
        "test_learned_histograms.py",
        "test_awkward_calls.py",
    ],
    "svm": ["test_svm.py", "test_bundle.py", "test_awkward_calls.py"],
}


def passes(copy: Path, tests: list[str], timeout: float) -> bool:
    """Say whether the tests pass with the package in `copy`; one that hangs does not."""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    try:
        result = subprocess.run(
            [*command, *(f"tests/{name}" for name in tests)],
            cwd=ROOT,
            env=environment,
            timeout=timeout,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    if result.returncode not in (0, 1, 2):
        raise RuntimeError(result.stdout.decode())
    return result.returncode == 0


def main() -> int:
    """Run the mutants that were asked for, and tell which survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(TESTS))
    parser.add_argument("--part", default="1/1", help="i/n: the i-th of n parts of the mutants")
    parser.add_argument("--sample", type=int, help="so many mutants of each part, drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument(
        "--minutes", type=float, help="start no mutant of a part after so many minutes"
    )
    parser.add_argument("--list", action="store_true", help="list mutants, run none")
    options = parser.parse_args()
    index, count = (int(number) for number in options.part.split("/"))
    accepted = {entry["mutant"] for entry in tomllib.loads(ACCEPTED.read_text())["accepted"]}
    survivors, n_run, n_accepted, known = [], 0, 0, set()
    for part in options.parts:
        mutants = [
            mutant
            for path in sorted((PACKAGE / part).glob("*.py"))
            for mutant in mutants_of(path.read_text(), path.relative_to(PACKAGE.parent))
        ]
        known |= {mutant.name for mutant in mutants}
        mutants = mutants[index - 1 :: count]
        if options.sample is not None and options.sample < len(mutants):
            mutants = random.Random(options.seed).sample(mutants, options.sample)
        if options.list:
            print(*(mutant.name for mutant in mutants), sep="\n")
            continue
        n_accepted += sum(mutant.name in accepted for mutant in mutants)
        mutants = [mutant for mutant in mutants if mutant.name not in accepted]
        done, alive = run(part, mutants, options.jobs, options.minutes)
        n_run += done
        survivors += alive
    if options.list:
        return 0
    print(f"{n_run} mutants, {len(survivors)} survived; {n_accepted} accepted ones not run")
    gone = [
        name
        for name in sorted(accepted - known)
        if any(name.startswith(f"histrs/{part}/") for part in options.parts)
    ]
    for name in gone:
        print(f"accepted.toml names what is no longer there: {name}")
    return 1 if survivors or gone else 0


def run(
    part: str, mutants: list[Mutant], jobs: int, minutes: float | None
) -> tuple[int, list[Mutant]]:
    """Return how many mutants were run, and those that survived."""
    tests = TESTS[part]
    with tempfile.TemporaryDirectory(prefix="histrs-mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for k in range(jobs):
            copy = Path(folder, str(k))
            shutil.copytree(PACKAGE, copy / "histrs", ignore=shutil.ignore_patterns("__pycache__"))
            copies.put(copy)
        first = copies.get()
        start = time.monotonic()
        if not passes(first, tests, 3600):
            raise SystemExit(f"{part}: the tests fail without any mutation")
        timeout = 30 + 3 * jobs * (time.monotonic() - start)
        copies.put(first)
        deadline = time.monotonic() + 60 * (minutes or 1e9)

        def survives(mutant: Mutant) -> bool | None:
            if time.monotonic() > deadline:
                return None
            copy = copies.get()
            path = copy / mutant.path
            original = path.read_text()
            try:
                path.write_text(mutant.source)
                alive = passes(copy, tests, timeout)
            finally:
                path.write_text(original)
                copies.put(copy)
            if alive:
                print(f"survived: line {mutant.line}: {mutant.name}", flush=True)
            return alive

        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(survives, mutants))
    alive = [mutant for mutant, found in zip(mutants, results, strict=True) if found]
    return sum(found is not None for found in results), alive


if __name__ == "__main__":
    sys.exit(main())
