"""Which mutants are run, of Python and of Rust sources alike."""

import argparse
import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeVar


class Named(Protocol):
    """A mutant of either kind."""

    @property
    def name(self) -> str:
        """What it is known by."""


M = TypeVar("M", bound=Named)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that `chosen_of` obeys."""
    parser.add_argument("--part", default="1/1", help="i/n: the i-th of n parts of the mutants")
    parser.add_argument("--sample", type=int, help="so many mutants of each part, drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--only", help="regular expression of the mutants' names")


def chosen_of(mutants: list[M], options: argparse.Namespace) -> Iterator[M]:
    """Return the mutants that the options ask for."""
    index, count = (int(number) for number in options.part.split("/"))
    mutants = mutants[index - 1 :: count]
    if options.only is not None:
        mutants = [mutant for mutant in mutants if re.search(options.only, mutant.name)]
    if options.sample is not None and options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    yield from mutants


def accepted_in(path: Path) -> set[str]:
    """Return the names of the mutants that no test need notice."""
    files = tomllib.loads(path.read_text())
    return {
        f"{file}:{change}"
        for file, reasons in files.items()
        for changes in reasons.values()
        for change in changes
    }
