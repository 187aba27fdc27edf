"""One process that has imported and collected everything, and forks a child for every question.

What a test executes is asked of one child; whether a mutant survives of another, in which the code
of the changed function is replaced. A child runs one or more of the collected tests and is gone, so
that nothing that a test or a mutant leaves behind, in caches or elsewhere, reaches the next one.
"""

import contextlib
import gc
import json
import os
import resource
import select
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

import pytest

from tests.process_clock import ProcessClock

# What a child may take beyond what the process has.
MEMORY = 4 << 30
# Seconds that it may sleep longer than it may work: for answers of processes of its own.
ASLEEP = 60.0

Task = TypeVar("Task")
Say = Callable[..., None]


# ---- children ----------------------------------------------------------------------------------


@dataclass
class _Child:
    task: Any
    process: int
    pipe: int
    clock: ProcessClock
    seconds: float = 60.0
    said: bytes = b""

    def is_late(self) -> bool:
        """Say whether it took too long since it was last heard of; to be asked all the time."""
        return self.clock.used() > self.seconds or self.clock.asleep() > self.seconds + ASLEEP

    def lines(self) -> list[Any]:
        """Return what the child has said; the last line may be missing its end."""
        return [json.loads(line) for line in self.said.split(b"\n")[:-1]]


def forks(
    tasks: Iterable[Task], answer: Callable[[Task, Say], None], jobs: int
) -> Iterator[tuple[Task, list[Any]]]:
    """Answer each task in a child of its own, and yield all that it said, as they end.

    A child says how many seconds of processor time it may take until it says something again; then
    it is killed.
    """
    waiting, running = iter(tasks), list[_Child]()
    try:
        while True:
            while len(running) < jobs and (task := next(waiting, None)) is not None:
                running.append(_fork(task, answer))
            if not running:
                return
            pipes = [child.pipe for child in running]
            ready, _, _ = select.select(pipes, [], [], 0.5)
            for child in list(running):
                if child.pipe in ready and _listen(child):
                    continue
                if child.pipe in ready or child.is_late():
                    running.remove(child)
                    _end(child)
                    yield child.task, child.lines()
    finally:
        for child in running:
            _end(child)


def _fork(task: Task, answer: Callable[[Task, Say], None]) -> _Child:
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return _Child(task, process, reader, ProcessClock(process))
    code = 1
    try:
        os.setsid()
        os.close(reader)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        _limit_memory()

        def say(**message: Any) -> None:
            os.write(writer, json.dumps(message).encode() + b"\n")

        answer(task, say)
        code = 0
    finally:
        # Not a step of what would come after the fork in this process.
        os._exit(code)


def _limit_memory() -> None:
    with contextlib.suppress(ValueError, OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _listen(child: _Child) -> bool:
    """Take what a child says; false where it has no more to say."""
    text = os.read(child.pipe, 1 << 20)
    child.said += text
    if text.endswith(b"\n"):
        last = json.loads(child.said[:-1].rpartition(b"\n")[2])
        child.clock.restart()
        child.seconds = last.get("seconds", 60.0)
    return bool(text)


def _end(child: _Child) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.process, signal.SIGKILL)
    os.waitpid(child.process, 0)
    os.close(child.pipe)


# ---- tests -------------------------------------------------------------------------------------


class Server:
    """A plugin of pytest that has its own use for the tests that were collected."""

    def __init__(self, use: Callable[["Server"], None]) -> None:
        self._use = use
        self._failed = False
        self.items: dict[str, pytest.Item] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the place of the loop over all tests."""
        if session.testsfailed:
            raise pytest.UsageError("some tests cannot be collected")
        self.items = {item.nodeid: item for item in session.items}
        self._use(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember that something failed."""
        self._failed |= report.failed

    def passes(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        """Run a test."""
        self._failed = False
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self._failed

    def collect(self, paths: list[str]) -> None:
        """Collect tests, and go on to the use of them."""
        code = pytest.main(["-q", "-s", "-p", "no:cacheprovider", *paths], plugins=[self])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise SystemExit(f"pytest ended with {code!r}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Make no failing example smaller, before tests inherit what is the default.

        That there is one is all that is asked; and tests are slow under a tracer.
        """
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "first failure",
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            report_multiple_bugs=False,
        )
        settings.load_profile("first failure")


# ---- lines and code ----------------------------------------------------------------------------


@contextlib.contextmanager
def traced(folder: Path) -> Iterator[dict[str, set[int]]]:
    """Note which lines of the files below a folder run, in every thread."""
    lines: dict[str, set[int]] = defaultdict(set)
    prefix = str(folder) + os.sep

    def trace_lines(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines[frame.f_code.co_filename].add(frame.f_lineno)
        return trace_lines

    def trace_calls(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(prefix):
            return None
        return trace_lines(frame, event, argument)

    threading.settrace(trace_calls)
    sys.settrace(trace_calls)
    try:
        yield lines
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


def live_functions(folder: Path) -> dict[tuple[str, str, int], list[FunctionType]]:
    """Return every function of the files below a folder by file, name and first line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    prefix = str(folder) + os.sep
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename.startswith(prefix):
            found[_key(thing.__code__)].append(thing)
    return found


def replace_code(
    source: str, path: Path, live: dict[tuple[str, str, int], list[FunctionType]]
) -> int:
    """Give the functions of a file the code of a changed source; return how many changed."""
    n_changed = 0
    for code in _codes(compile(source, str(path), "exec")):
        for function in live.get(_key(code), ()):
            if function.__code__ != code:
                function.__code__ = code
                n_changed += 1
    return n_changed


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
