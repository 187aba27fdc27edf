"""Mutation testing of the crate's kernels: another operator in one expression at a time.

    python -m tests.mutants.rust --part 1/16
    python -m tests.mutants.rust --only 'svm/simplex' --jobs 2
    python -m tests.mutants.rust --sample 50 --seed 3

A mutant that no test notices has to be in `accepted-rust.toml`, with the reason why none should.
The crate is copied and compiled once with every mutant in it; `HISTRS_MUTANT` says which one a
process is. Those that the compiler does not take are left out. What was found stays in `.mutants/`
for as long as the file and the tests of the crate are the same.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from tests.mutants.choice import accepted_in, add_choice, chosen_of
from tests.mutants.rust_mutations import Source

ROOT = Path(__file__).resolve().parents[2]
ACCEPTED = Path(__file__).with_name("accepted-rust.toml")
OUTPUT = ROOT / "target" / "mutants"
RECORDS = ROOT / ".mutants" / "rust.json"
CRATE = Path("rust/histrs")
PROFILE = "test-release"

KERNELS = ["kernels", "intersection", "pairwise", "svm", "chi2", "spd", "transport", "moments"]
# Of the time that tests take without a mutant, and seconds beside it, after which they fail.
SLOWER, PATIENCE = 10.0, 4.0

CHOICE = """
//! Which mutant this process is.

use std::sync::LazyLock;

static CHOSEN: LazyLock<u32> = LazyLock::new(|| {
    std::env::var("HISTRS_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(u32::MAX)
});

#[inline]
pub(crate) fn chosen() -> u32 {
    *CHOSEN
}
"""


@dataclass(frozen=True)
class Mutant:
    """One of the mutants that were compiled."""

    number: int
    name: str
    path: Path
    line: int
    digest: str
    """Of the file."""

    @property
    def module(self) -> str:
        """The module of the crate that it is in, as tests are named after it."""
        parts = self.path.relative_to(CRATE / "src").with_suffix("").parts
        return "::".join(part for part in parts if part != "mod")


class Tree:
    """A copy of the crate with all of its mutants."""

    def __init__(self, folders: list[str]) -> None:
        self.path = OUTPUT / "tree"
        self._copy()
        files = [
            path.relative_to(self.path)
            for folder in folders
            for path in sorted((self.path / CRATE / "src" / folder).rglob("*.rs"))
        ]
        self._sources = [Source(path, (self.path / path).read_bytes()) for path in files]
        self._dropped = set[tuple[Path, int]]()

    def compile(self) -> tuple[list[Mutant], list[Path]]:
        """Return the mutants that can be compiled, and the test programs that have them."""
        (self.path / CRATE / "src" / "mutant.rs").write_text(CHOICE.lstrip())
        library = self.path / CRATE / "src" / "lib.rs"
        library.write_text(
            re.sub(r"\n((?:pub )?mod )", r"\nmod mutant;\n\1", library.read_text(), count=1)
        )
        while True:
            mutants, spans = self._write()
            wrong = self._errors(spans)
            if not wrong:
                break
            print(f"the compiler does not take {len(wrong)} expressions", flush=True)
            self._dropped |= wrong
        return mutants, self._programs()

    def _copy(self) -> None:
        listed = ["git", "ls-files", "-z", "Cargo.*", "rust"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
        shutil.rmtree(self.path, ignore_errors=True)
        for name in filter(None, names.decode().split("\0")):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.path / name)

    def _write(self) -> tuple[list[Mutant], dict[Path, list[tuple[int, int, int]]]]:
        mutants, spans = list[Mutant](), {}
        for source in self._sources:
            first = {}
            for key, site in source.sites.items():
                if (source.path, key) in self._dropped:
                    continue
                first[key] = len(mutants)
                for name in site.names:
                    short = name.removeprefix(f"{CRATE}/src/")
                    at = source.path, site.line, source.digest
                    mutants.append(Mutant(len(mutants), short, *at))
            text, spans[source.path] = source.rewritten(first)
            (self.path / source.path).write_bytes(text)
        return mutants, spans

    def _cargo(self, *arguments: str) -> Iterator[dict[str, Any]]:
        command = ["cargo", *arguments, "-p", "histrs", "--lib", "--tests", "--profile", PROFILE]
        # The tree is not the project: what warns of its form says nothing.
        environment = {**os.environ, "RUSTFLAGS": "--cap-lints allow"}
        environment["CARGO_TARGET_DIR"] = str(OUTPUT / "target")
        done = subprocess.run(
            [*command, "--message-format=json"],
            cwd=self.path, env=environment, check=False, capture_output=True, text=True,
        )  # fmt: skip
        messages = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
        if done.returncode and not any(_is_error(message) for message in messages):
            raise RuntimeError(done.stderr[-2000:])
        yield from messages

    def _errors(self, spans: dict[Path, list[tuple[int, int, int]]]) -> set[tuple[Path, int]]:
        """Return the sites that the compiler complains of."""
        wrong = set[tuple[Path, int]]()
        for message in filter(_is_error, self._cargo("check")):
            shown = message["message"]["spans"]
            for span in [span for span in shown if span["is_primary"]]:
                path, at = Path(span["file_name"]), span["byte_start"]
                around = [
                    (end - start, key)
                    for start, end, key in spans.get(path, [])
                    if start <= at < end or start < span["byte_end"] <= end
                ]
                if not around:
                    raise RuntimeError(message["message"]["rendered"])
                wrong.add((path, min(around)[1]))
        return wrong

    def _programs(self) -> list[Path]:
        messages = list(self._cargo("test", "--no-run"))
        failed = [message for message in messages if _is_error(message)]
        if failed:
            raise RuntimeError(failed[0]["message"]["rendered"])
        return [Path(m["executable"]) for m in messages if m.get("executable")]


def _is_error(message: dict[str, Any]) -> bool:
    return (
        message["reason"] == "compiler-message"
        and message["message"]["level"] == "error"
        and bool(message["message"]["spans"])
    )


class Tests:
    """The test programs of the crate, and how long they take."""

    def __init__(self, programs: list[Path]) -> None:
        named = {path.name.rpartition("-")[0]: path for path in programs}
        # The unit tests are in the program of the library.
        self._unit = named.pop("histrs")
        self._others = [
            (path, (OUTPUT / "tree" / CRATE / "tests" / f"{name}.rs").read_text())
            for name, path in sorted(named.items())
        ]
        self._seconds = dict[tuple[Path, str], float]()
        self._lock = Lock()
        # Of each module, how many mutants a run has noticed.
        self._noticed = defaultdict[str, Counter[tuple[Path, str]]](Counter)

    def notice(self, mutant: Mutant) -> str | None:
        """Return the program that fails, if one does.

        They are the unit tests, and of the other programs those that name the folder that the
        mutant is in, or all where none does: first what has noticed most mutants of the module, and
        what takes least time.
        """
        module = mutant.module
        folder = module.partition("::")[0]
        naming = [path for path, text in self._others if re.search(rf"\b{folder}\b", text)]
        naming = naming or [path for path, _ in self._others]
        unit = self._unit
        runs = [(unit, module), (unit, ""), *((path, "") for path in naming)]
        for run in runs:
            self._measure(*run)
        noticed = self._noticed[module]
        for run in sorted(runs, key=lambda run: (-noticed[run], self._seconds[run])):
            if self._fails(*run, mutant.number):
                noticed[run] += 1
                program, tests = run
                return f"{program.name.rpartition('-')[0]} {tests}".strip()
        return None

    def _measure(self, program: Path, tests: str) -> None:
        with self._lock:
            if (program, tests) in self._seconds:
                return
            start = time.monotonic()
            if self._run(program, tests, None, None):
                raise RuntimeError(f"{program.name} {tests} fails without any mutant")
            self._seconds[program, tests] = time.monotonic() - start

    def _fails(self, program: Path, tests: str, number: int) -> bool:
        limit = PATIENCE + SLOWER * self._seconds[program, tests]
        return self._run(program, tests, number, limit)

    def _run(self, program: Path, tests: str, number: int | None, limit: float | None) -> bool:
        environment = {**os.environ, "PROPTEST_MAX_SHRINK_ITERS": "0"}
        environment["PROPTEST_DISABLE_FAILURE_PERSISTENCE"] = "1"
        environment.pop("HISTRS_MUTANT", None)
        if number is not None:
            environment["HISTRS_MUTANT"] = str(number)
        try:
            done = subprocess.run(
                [program, "-q", *([tests] if tests else [])],
                env=environment, timeout=limit, check=False, cwd=OUTPUT / "tree" / CRATE,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0


class Records:
    """What was found, while a file and all tests are what they were."""

    def __init__(self) -> None:
        self._found = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
        tests = sorted((OUTPUT / "tree" / CRATE / "tests").rglob("*.rs"))
        texts = b"".join(path.read_bytes() for path in tests)
        self._tests = hashlib.sha256(texts).hexdigest()[:16]

    def key(self, mutant: Mutant) -> str:
        """Return a name of the mutant with what its answer depends on."""
        return f"{mutant.name} {mutant.digest} {self._tests}"

    def get(self, mutant: Mutant) -> dict[str, Any] | None:
        """Return what is known of a mutant."""
        found: dict[str, Any] | None = self._found.get(self.key(mutant))
        return found

    def add(self, mutant: Mutant, killer: str | None) -> None:
        """Keep which tests noticed a mutant."""
        self._found[self.key(mutant)] = {"killer": killer}
        RECORDS.parent.mkdir(exist_ok=True)
        new = RECORDS.with_suffix(".new")
        new.write_text(json.dumps(self._found))
        new.replace(RECORDS)


def main() -> int:
    """Run the mutants that were asked for, and tell which survivors are not accepted."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.rust", description=__doc__)
    parser.add_argument("folders", nargs="*", default=KERNELS, help="folders of rust/histrs/src")
    add_choice(parser)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no mutant after so many")
    options = parser.parse_args()
    accepted = accepted_in(ACCEPTED)
    mutants, programs = Tree(options.folders).compile()
    print(f"{len(mutants)} mutants in {len(programs)} programs", flush=True)
    chosen = [mutant for mutant in chosen_of(mutants, options) if mutant.name not in accepted]
    tests, records = Tests(programs), Records()
    deadline = time.monotonic() + 60 * options.minutes
    survivors = [m for m in chosen if (found := records.get(m)) and found["killer"] is None]
    new = [mutant for mutant in chosen if records.get(mutant) is None]
    n_done = len(chosen) - len(new)

    def run(mutant: Mutant) -> tuple[Mutant, bool, str | None]:
        late = time.monotonic() > deadline
        return mutant, late, None if late else tests.notice(mutant)

    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, late, killer in pool.map(run, new):
            if late:
                continue
            n_done += 1
            records.add(mutant, killer)
            if killer is None:
                survivors.append(mutant)
                print(f"survived: line {mutant.line}: {mutant.name}", flush=True)
    print(f"{n_done} of {len(chosen)} mutants run, {len(survivors)} survived")
    gone = sorted(accepted - {mutant.name for mutant in mutants})
    gone = [name for name in gone if any(name.startswith(f"{part}/") for part in options.folders)]
    for name in gone:
        print(f"{ACCEPTED.name} names what is no longer there: {name}")
    return 1 if survivors or gone else 0


if __name__ == "__main__":
    sys.exit(main())
