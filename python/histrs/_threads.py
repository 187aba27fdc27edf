"""Threads in Python: work that Ctrl-C can leave, and how many threads BLAS has."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

# A browser starts no threads.
_STARTS_THREADS = sys.platform != "emscripten"
# Seconds between two looks for Ctrl-C, which not every system lets interrupt a wait.
_LOOK = 0.05


def leavable(work: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Return ``work(...)``, a long call of a library that lets other threads run meanwhile.

    Ctrl-C raises at once. The call cannot be stopped: it ends by itself, and its result is dropped,
    so that it must write to nothing that others see.
    """
    if not _STARTS_THREADS or threading.current_thread() is not threading.main_thread():
        # Only the main thread is interrupted.
        return work(*arguments, **options)
    outcome: Future[Result] = Future()
    context = copy_context()
    # A condition that Ctrl-C interrupts may release the lock that the other thread holds.
    ended = threading.Lock()
    ended.acquire()

    def run() -> None:
        try:
            outcome.set_result(context.run(work, *arguments, **options))
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            ended.release()

    threading.Thread(target=run, name="histrs-call", daemon=True).start()
    while not ended.acquire(timeout=_LOOK):
        pass
    return outcome.result()


def leavable_if(is_long: bool) -> Callable[..., Any]:
    """Return `leavable` for calls that take long, and what just calls for others."""
    return leavable if is_long else _called


def _called(work: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    return work(*arguments, **options)


def in_threads(
    function: Callable[..., Result], *arguments: Iterable[Any], n_threads: int
) -> list[Result]:
    """Return what a function says of each of some items, in their order, by several threads.

    Ctrl-C raises at once: items that no thread has begun are forgotten, and threads end with the
    item that they are at, or with the process. The error of the first item that fails is raised
    likewise.
    """
    items = list(zip(*arguments, strict=True))
    if not _STARTS_THREADS:
        return [function(*item) for item in items]
    outcomes: list[Future[Result]] = [Future() for _ in items]
    waiting = deque(zip(outcomes, [copy_context() for _ in items], items, strict=True))

    def work() -> None:
        while waiting:
            try:
                outcome, context, item = waiting.popleft()
            except IndexError:
                return
            try:
                outcome.set_result(context.run(function, *item))
            except BaseException as error:
                outcome.set_exception(error)

    for _ in range(min(n_threads, len(items))):
        # The process waits for no daemon.
        threading.Thread(target=work, name="histrs-map", daemon=True).start()
    try:
        return [_result(outcome) for outcome in outcomes]
    finally:
        waiting.clear()


def _result(outcome: Future[Result]) -> Result:
    while wait([outcome], timeout=_LOOK).not_done:
        pass
    return outcome.result()


class _BlasLimits:
    """The limits that calls under way ask for; BLAS has one number of threads for the process.

    The least of them holds. The last call to end restores the number from before the first. Limits
    of threadpoolctl do not, if several threads enter and leave them in any order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: list[int] = []
        self._before: list[tuple[Any, int]] = []
        self._libraries: list[Any] = []
        self._n_modules = 0

    @contextmanager
    def at_most(self, limit: int) -> Iterator[None]:
        with self._lock:
            if not self._limits:
                self._before = [(library, library.num_threads) for library in self._loaded()]
            self._limits.append(limit)
            self._apply()
        try:
            yield
        finally:
            with self._lock:
                self._limits.remove(limit)
                self._apply()

    def _loaded(self) -> list[Any]:
        """Return the BLAS libraries: they come with modules, and to look for them takes a while."""
        if self._n_modules != len(sys.modules):
            self._n_modules = len(sys.modules)
            self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        return self._libraries

    def _apply(self) -> None:
        for library, before in self._before:
            library.set_num_threads(min([before, *self._limits]))


blas_threads_at_most = _BlasLimits().at_most
