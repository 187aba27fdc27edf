"""Mutation testing of the Python package: change one thing, and see whether a test fails.

    python -m tests.mutants svm neighbors --part 1/8
    python -m tests.mutants svm --sample 50 --seed 3
    python -m tests.mutants svm --only _planes.py --tests tests/test_bundle.py

A mutant that no test notices has to be in `accepted.toml`, with the reason why none should. It is
known there by its function and the change, not by its line. A mutant meets the tests that execute
its statement, in a process forked from one that has collected them all, in which the function has
other code; the files stay as they are. What was found stays in `.mutants/`, so that a next run does
what is new. Children of another kind (spawned workers, a cluster) run what is unchanged.
"""

import argparse
import gc
import importlib
import itertools
import os
import pkgutil
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.mutants.choice import accepted_in, add_choice, chosen_of
from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.records import Function, Records, function_at
from tests.mutants.server import Say, Server, forks, live_functions, replace_code, traced

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "histrs"
ACCEPTED = Path(__file__).with_name("accepted.toml")
PARTS = ["neighbors", "svm", "prototypes", "metrics", "gaussian_process"]

# Much time for little: pages and data, and what scikit-learn and a table ask of every estimator.
# Frames of polars wait for ever in a process that was forked.
LEFT_OUT = re.compile(
    r"test_(estimator_checks|frames|imports|numbers|pages|papers|streaming_tables|(real|quality)_?.*)\.py"
)
# Seconds of processor time of a test under the tracer, beyond which no mutant meets it.
SLOW = 20.0
# Of all tests that a mutant meets, when it survives them; another number by --seconds.
SECONDS = 60.0


def test_files(parts: list[str]) -> list[str]:
    """Return the test files that name one of the parts."""
    names = re.compile(
        rf"histrs\.({'|'.join(parts)})\b|from histrs import .*\b({'|'.join(parts)})\b"
    )
    return [
        str(path)
        for path in sorted(ROOT.glob("tests/test_*.py"))
        if not LEFT_OUT.fullmatch(path.name) and names.search(path.read_text())
    ]


def mutants_in(part: str) -> list[Mutant]:
    """Return every mutant of a part, by file and line."""
    return [
        mutant
        for path in sorted((PACKAGE / part).rglob("*.py"))
        for mutant in mutants_of(path.read_text(), path.relative_to(PACKAGE.parent))
    ]


class Run:
    """Mutants against tests."""

    def __init__(self, server: Server, records: Records, jobs: int, seconds: float) -> None:
        self._server, self._records, self._jobs = server, records, jobs
        self._seconds = seconds
        # Some modules are imported by what needs them alone.
        for module in pkgutil.walk_packages([str(PACKAGE)], f"{PACKAGE.name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
        self._live = live_functions(PACKAGE)
        # From here on no collection looks through what is there, and copies it in each child.
        gc.collect()
        gc.freeze()
        self._killers = defaultdict(Counter[str])
        for function, tests in records.killers().items():
            self._killers[function].update(tests)

    # ---- what tests execute

    def measure(self) -> None:
        """Find out which lines each test executes."""
        new = [item for item in self._server.items.values() if not self._records.knows_test(item)]
        print(f"{len(new)} of {len(self._server.items)} tests are new", flush=True)
        start = time.monotonic()
        for k, (item, said) in enumerate(forks(new, self._trace, self._jobs)):
            result = said[-1] if said else {"passed": False, "took": SLOW, "lines": {}}
            if not result["passed"]:
                print(f"takes long, or fails where it is run alone: {item.nodeid}", flush=True)
            self._records.add_test(item, result["passed"], result["took"], result["lines"])
            if k % 500 == 499:
                print(f"{k + 1} tests in {time.monotonic() - start:.0f} s", flush=True)

    def _trace(self, item: pytest.Item, say: Say) -> None:
        with traced(PACKAGE) as lines:
            passed = self._server.passes(item, None)
        # Of this process and those that it waited for: others may have the machine.
        took = sum(os.times()[:4])
        lists = {name: sorted(numbers) for name, numbers in lines.items()}
        say(passed=passed, took=took, lines=lists)

    # ---- which mutants they notice

    def survivors(self, mutants: list[Mutant], minutes: float | None) -> tuple[int, list[Mutant]]:
        """Return how many mutants were tried, and those that no test notices."""
        deadline = time.monotonic() + 60 * (minutes or 1e9)
        alive, n_done, plans = list[Mutant](), 0, list[tuple[Mutant, Function, list[pytest.Item]]]()
        for mutant in mutants:
            function = function_at(PACKAGE.parent / mutant.path, mutant.line)
            assert function is not None
            if self._records.killer(mutant, function, self._server.items):
                n_done += 1
                continue
            tests = self._tests(mutant, function)
            if not tests or self._records.survived(mutant, function, tests):
                n_done += 1
                alive.append(mutant)
                self._tell(mutant, tests)
            else:
                plans.append((mutant, function, tests))
        print(f"{n_done} of {len(mutants)} mutants are known", flush=True)
        killers = dict[str, pytest.Item]()
        in_time = itertools.takewhile(lambda _: time.monotonic() < deadline, plans)
        for (mutant, function, tests), said in forks(in_time, self._try, self._jobs):
            n_done += 1
            if not said:
                raise RuntimeError(f"a process died before any test: {mutant.name}")
            ended = said[-1]
            if ended.get("survived"):
                self._records.add_survivor(mutant, function, tests)
                alive.append(mutant)
                self._tell(mutant, tests)
            else:
                killer = tests[ended["run"]]
                self._records.add_killed(mutant, function, killer)
                self._killers[f"{mutant.path}:{function.name}"][killer.nodeid] += 1
                killers[killer.nodeid] = killer
        self._check_alone(list(killers.values()))
        return n_done, alive

    def _check_alone(self, tests: list[pytest.Item]) -> None:
        """See that tests pass one after the other while nothing is changed.

        Alone they passed where they were measured.
        """

        def run_all(tests: list[pytest.Item], say: Say) -> None:
            for test, after in itertools.zip_longest(tests, tests[1:]):
                say(seconds=10.0 + 10.0 * self._records.seconds(test.nodeid))
                if not self._server.passes(test, after):
                    say(fails=test.nodeid)

        for _, said in forks([tests, tests[::-1]], run_all, 1):
            for name in {message["fails"] for message in said if "fails" in message}:
                print(f"fails after others without any mutation: {name}", flush=True)

    def _tell(self, mutant: Mutant, tests: list[pytest.Item]) -> None:
        print(f"survived {len(tests)} tests: line {mutant.line}: {mutant.name}", flush=True)

    def _tests(self, mutant: Mutant, function: Function) -> list[pytest.Item]:
        """Return the tests that a mutant meets, those first that are likely to end it soon."""
        names = [name for name in self._records.covering(mutant, function)
                 if name in self._server.items]  # fmt: skip
        seconds = self._records.seconds
        # One of each function's tests before a second one that is as quick, ...
        turns: dict[str, int] = {}
        seen: Counter[str] = Counter()
        for name in sorted(names, key=seconds):
            seen[name.partition("[")[0]] += 1
            turns[name] = seen[name.partition("[")[0]]
        names.sort(key=lambda name: turns[name] * seconds(name))
        times = itertools.accumulate(seconds(name) for name in names)
        bounded = [name for name, time in zip(names, times, strict=True) if time < self._seconds]
        return [self._server.items[name] for name in bounded or names[:1]]

    def _try(self, plan: tuple[Mutant, Function, list[pytest.Item]], say: Say) -> None:
        mutant, function, tests = plan
        if not replace_code(mutant.source, PACKAGE.parent / mutant.path, self._live):
            # Of no live function: what is called while modules are imported, and then is gone.
            say(survived=True)
            return
        killers = self._killers[f"{mutant.path}:{function.name}"]
        order = sorted(range(len(tests)), key=lambda k: -killers[tests[k].nodeid])
        following = [*(tests[k] for k in order[1:]), None]
        for k, after in zip(order, following, strict=True):
            say(run=k, seconds=10.0 + 10.0 * self._records.seconds(tests[k].nodeid))
            if not self._server.passes(tests[k], after):
                return
        say(survived=True)


def main() -> int:
    """Run the mutants that were asked for, and tell which survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS)
    add_choice(parser)
    parser.add_argument("--jobs", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--minutes", type=float, help="start no mutant of a part after so many")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests of a survivor")
    parser.add_argument("--list", action="store_true", help="list mutants, run none")
    parser.add_argument("--tests", nargs="+", help="files, instead of all that name the parts")
    options = parser.parse_args()
    accepted = accepted_in(ACCEPTED)
    every = {part: mutants_in(part) for part in options.parts}
    chosen = {part: list(chosen_of(mutants, options)) for part, mutants in every.items()}
    if options.list:
        print(*(mutant.name for mutants in chosen.values() for mutant in mutants), sep="\n")
        return 0
    survivors = list[Mutant]()

    def use(server: Server) -> None:
        run = Run(server, Records(ROOT / ".mutants", PACKAGE), options.jobs, options.seconds)
        run.measure()
        for part, mutants in chosen.items():
            rest = [mutant for mutant in mutants if mutant.name not in accepted]
            n_done, alive = run.survivors(rest, options.minutes)
            survivors.extend(alive)
            print(
                f"{part}: {n_done} of {len(rest)} mutants run, {len(alive)} survived;"
                f" {len(mutants) - len(rest)} accepted ones not run",
                flush=True,
            )

    Server(use).collect(options.tests or test_files(options.parts))
    known = {mutant.name for mutants in every.values() for mutant in mutants}
    gone = [
        name
        for name in sorted(accepted - known)
        if any(name.startswith(f"histrs/{part}/") for part in options.parts)
    ]
    for name in gone:
        print(f"accepted.toml names what is no longer there: {name}")
    return 1 if survivors or gone else 0


if __name__ == "__main__":
    sys.exit(main())
