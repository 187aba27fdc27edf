"""Mutation testing of the crate's kernels with cargo-mutants.

    python -m tests.mutants.rust --part 1/16
    python -m tests.mutants.rust --file '**/svm/simplex.rs'

A mutant that no test notices has to be in `accepted-rust.toml`, with the reason why none should.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ACCEPTED = Path(__file__).with_name("accepted-rust.toml")
OUTPUT = ROOT / "target" / "mutants"

KERNELS = ["kernels", "intersection", "pairwise", "svm", "chi2", "spd", "transport", "moments"]
# Seconds, after which the tests of a mutant count as failed.
TIMEOUT = 300


def without_line(mutant: str) -> str:
    """Return the name of a mutant without the line and column that it had."""
    return re.sub(r":\d+:\d+:", ":", mutant)


def main() -> int:
    """Run cargo-mutants, and tell which survivors are not accepted."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.rust", description=__doc__)
    parser.add_argument("--part", default="1/1", help="i/n: the i-th of n parts of the mutants")
    parser.add_argument("--file", action="append", help="glob of files; all kernels without")
    options = parser.parse_args()
    index, count = (int(number) for number in options.part.split("/"))
    files = options.file or [f"rust/histrs/src/{kernel}/**" for kernel in KERNELS]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    command = ["cargo", "mutants", "-p", "histrs", "--profile", "test-release", "--colors", "never"]
    command += ["--timeout", str(TIMEOUT), "--output", str(OUTPUT)]
    command += ["--shard", f"{index - 1}/{count}"]
    command += [argument for glob in files for argument in ("--file", glob)]
    # 2: some survived; 3: some ran out of time, which a test noticed.
    code = subprocess.run([*command, "--", "--lib", "--tests"], cwd=ROOT, check=False).returncode
    if code not in (0, 2, 3):
        return code
    accepted = {entry["mutant"] for entry in tomllib.loads(ACCEPTED.read_text())["accepted"]}
    missed = (OUTPUT / "mutants.out" / "missed.txt").read_text().splitlines()
    survivors = [name for name in missed if without_line(name) not in accepted]
    print(f"{len(missed)} survived, of which {len(missed) - len(survivors)} are accepted")
    print(*survivors, sep="\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
