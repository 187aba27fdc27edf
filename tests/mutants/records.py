"""What is known from earlier runs: which lines a test executes, and which test notices a mutant.

Both are lines of JSON in a folder that no repository has; what comes later counts. A function is
known by its source: once that is another, every test that reached it may execute any line of it.
"""

import ast
import functools
import hashlib
import inspect
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.mutations import Mutant


def digest(text: str) -> str:
    """Return what a text is known by."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Function:
    """A function of a module, or a method; those inside belong to it."""

    name: str
    lines: range
    digest: str


@functools.cache
def functions_of(path: Path) -> list[Function]:
    """Return the functions of a file."""
    source = path.read_text()
    lines = source.splitlines()

    def found(node: ast.AST, owner: str) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                first = min([child.lineno, *(part.lineno for part in child.decorator_list)])
                last = child.end_lineno or child.lineno
                text = "\n".join(lines[first - 1 : last])
                yield Function(owner + child.name, range(first, last + 1), digest(text))
            elif isinstance(child, ast.ClassDef):
                yield from found(child, f"{owner}{child.name}.")
            elif isinstance(child, ast.stmt):
                yield from found(child, owner)

    return list(found(ast.parse(source), ""))


def function_at(path: Path, line: int) -> Function | None:
    """Return the function that a line of a file belongs to."""
    return next((each for each in functions_of(path) if line in each.lines), None)


@functools.cache
def _function_digest(function: Any) -> str:
    try:
        return digest(inspect.getsource(function))
    except OSError:
        return ""


def test_digest(item: pytest.Item) -> str:
    """Return what a test is known by: its source, without that of what it calls."""
    return _function_digest(getattr(item, "function", None)) if hasattr(item, "function") else ""


def _by_key(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return {entry["key"]: entry for entry in map(json.loads, lines)}


class Records:
    """The tests and mutants that are known, in a folder."""

    def __init__(self, folder: Path, package: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._package = package
        self._paths = {"tests": folder / "tests.jsonl", "mutants": folder / "mutants.jsonl"}
        self._known = {name: _by_key(path) for name, path in self._paths.items()}
        self._tests_of: dict[str, set[str]] | None = None

    def _add(self, kind: str, **entry: Any) -> None:
        self._known[kind][entry["key"]] = entry
        with self._paths[kind].open("a") as file:
            file.write(json.dumps(entry) + "\n")

    # ---- tests

    def knows_test(self, item: pytest.Item) -> bool:
        """Say whether the lines of a test are known."""
        known = self._known["tests"].get(item.nodeid)
        return known is not None and known["digest"] == test_digest(item)

    def add_test(self, item: pytest.Item, passed: bool, seconds: float, lines: Any) -> None:
        """Note what a test executes: lines by function, counted from the first line of each."""
        reached: dict[str, list[int]] = defaultdict(list)
        for name, numbers in lines.items():
            path = Path(name)
            for number in numbers:
                function = function_at(path, number)
                if function is not None:
                    key = f"{path.relative_to(self._package.parent)}:{function.name}"
                    reached[f"{key}:{function.digest}"].append(number - function.lines.start)
        self._add(
            "tests",
            key=item.nodeid,
            digest=test_digest(item),
            passed=passed,
            seconds=seconds,
            lines=reached,
        )
        self._tests_of = None

    def seconds(self, test: str) -> float:
        """Return how long a test takes, under the tracer."""
        return float(self._known["tests"][test]["seconds"])

    def covering(self, mutant: Mutant, function: Function) -> list[str]:
        """Return the tests that execute the statement of a mutant, or another version of it."""
        if self._tests_of is None:
            self._tests_of = self._reached()
        name = f"{mutant.path}:{function.name}"
        numbers = range(
            mutant.span.start - function.lines.start, mutant.span.stop - function.lines.start
        )
        found = []
        for test in self._tests_of.get(name, ()):
            lines = self._known["tests"][test]["lines"].get(f"{name}:{function.digest}")
            if lines is None or any(number in numbers for number in lines):
                found.append(test)
        return found

    def _reached(self) -> dict[str, set[str]]:
        tests: dict[str, set[str]] = defaultdict(set)
        for name, test in self._known["tests"].items():
            if test["passed"]:
                for key in test["lines"]:
                    tests[key.rpartition(":")[0]].add(name)
        return tests

    # ---- mutants

    def killer(self, mutant: Mutant, function: Function, items: dict[str, pytest.Item]) -> str:
        """Return the test that was seen to notice a mutant, if it is still the same; or nothing."""
        known = self._known["mutants"].get(_key(mutant, function))
        by = known and known["by"]
        return by if by in items and test_digest(items[by]) == known["digest"] else ""

    def survived(self, mutant: Mutant, function: Function, tests: Iterable[pytest.Item]) -> bool:
        """Say whether a mutant is known to survive these tests."""
        known = self._known["mutants"].get(_key(mutant, function))
        return known is not None and not known["by"] and known["digest"] == _digest_of(tests)

    def add_killed(self, mutant: Mutant, function: Function, by: pytest.Item) -> None:
        """Note which test notices a mutant."""
        key = _key(mutant, function)
        self._add("mutants", key=key, name=mutant.name, by=by.nodeid, digest=test_digest(by))

    def add_survivor(
        self, mutant: Mutant, function: Function, tests: Iterable[pytest.Item]
    ) -> None:
        """Note that none of the tests notices a mutant."""
        key = _key(mutant, function)
        self._add("mutants", key=key, name=mutant.name, by="", digest=_digest_of(tests))

    def killers(self) -> dict[str, list[str]]:
        """Return the tests that noticed mutants, by the file and function of those."""
        found: dict[str, list[str]] = defaultdict(list)
        for entry in self._known["mutants"].values():
            if entry["by"]:
                found[":".join(entry["name"].split(":")[:2])].append(entry["by"])
        return found


def _key(mutant: Mutant, function: Function) -> str:
    return digest(f"{function.digest} {mutant.name}")


def _digest_of(tests: Iterable[pytest.Item]) -> str:
    return digest("\n".join(sorted(f"{item.nodeid} {test_digest(item)}" for item in tests)))
