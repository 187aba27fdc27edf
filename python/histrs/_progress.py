"""Progress of long work: a tqdm bar where tqdm is installed, lines on stderr where it is not."""

from __future__ import annotations

import sys
import time
from threading import Lock
from types import TracebackType
from typing import Any, Self

import numpy as np

from histrs._typing import Array

try:
    from tqdm.auto import tqdm
except ImportError:
    tqdm = None


class _Progress:
    """A bar with a line about the state behind it."""

    def __init__(self, description: str, verbose: int, total: int | None = None) -> None:
        self._description = description
        self._verbose = bool(verbose)
        self._total = total
        self._bar: Any = None
        self._n_iter = 0

    def __enter__(self) -> Self:
        """Open the bar."""
        if self._verbose and tqdm is not None:
            self._bar = tqdm(desc=self._description, total=self._total, unit="it", leave=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()

    def _show(self, state: str) -> None:
        self._n_iter += 1
        if self._bar is not None:
            self._bar.set_postfix_str(state, refresh=False)
            self._bar.update()
        else:
            print(f"{self._description}: iteration {self._n_iter}, {state}", file=sys.stderr)


class SolverProgress(_Progress):
    """Shows how far a solver has come from its first residual to its tolerance, of each column."""

    def __init__(self, description: str, tol: Array, verbose: int) -> None:
        super().__init__(description, verbose)
        self._tol = tol

    def __call__(self, residual: Array) -> None:
        """Show the residuals after one more iteration."""
        if self._verbose:
            n_solved = int(np.sum(residual <= self._tol))
            self._show(f"residual {residual.max():.1e}, {n_solved}/{len(residual)} solved")


class SearchProgress(_Progress):
    """Shows the likelihoods that a search for hyper-parameters meets."""

    def __init__(self, description: str, verbose: int) -> None:
        super().__init__(f"{description}, hyper-parameters", verbose)
        self._best = -np.inf

    def __call__(self, likelihood: float) -> None:
        """Show the likelihood of one more evaluation."""
        if self._verbose:
            self._best = max(self._best, likelihood)
            self._show(f"log likelihood {likelihood:.6g}, best {self._best:.6g}")


class RowsProgress(_Progress):
    """Shows how many rows a pass has read, and about how long the rest takes.

    `n_chunks` is about how many there are, or None where it is not known.
    """

    def __init__(self, description: str, n_chunks: int | None, verbose: int) -> None:
        super().__init__(description, verbose, n_chunks)
        self._n_rows = 0
        self._start = time.monotonic()

    def __call__(self, n_rows: int) -> None:
        """Show that so many more rows were read."""
        if not self._verbose:
            return
        self._n_rows += n_rows
        done, left = self._n_iter + 1, ""
        # A bar has its own estimate.
        if self._bar is None and self._total is not None and self._total > done:
            seconds = (time.monotonic() - self._start) / done * (self._total - done)
            left = f", about {seconds:.1f} s left"
        self._show(f"{self._n_rows:,} rows{left}")


class TrainingProgress(_Progress):
    """Shows the loss of every pass of training."""

    def __init__(self, description: str, verbose: int) -> None:
        super().__init__(description, verbose)
        self._best = np.inf

    def __call__(self, loss: float) -> None:
        """Show the loss after one more pass."""
        if self._verbose:
            self._best = min(self._best, loss)
            self._show(f"loss {loss:.6g}, best {self._best:.6g}")


class ChainProgress(_Progress):
    """Progress of Markov chains."""

    def __call__(self, n_columns: int) -> None:
        """Show how many columns the state has."""
        if self._verbose:
            self._show(f"{n_columns} columns")


class StepProgress(_Progress):
    """Shows the steps of a fit, of `total` if known, with a line on what each led to."""

    def __call__(self, state: str) -> None:
        """Show one more step."""
        if self._verbose:
            self._show(state)


class StageProgress(_Progress):
    """Shows which stage a fit is in, and about how long the others take.

    Parameters
    ----------
    description : str
        What is fitted.
    verbose : int
        0 shows nothing.
    n_parts : int, default=1
        Parts that are alike. The stages of those to come are as many as of those that began.
    """

    topic = ""
    """What stages are of, before their names."""

    def __init__(self, description: str, verbose: int, n_parts: int = 1) -> None:
        super().__init__(description, verbose, 0)
        self._n_parts, self._n_begun, self._n_expected = n_parts, 0, 0
        self._start, self._lock = time.monotonic(), Lock()

    def begin_part(self) -> None:
        """Say that the stages to come are of the next part."""
        self._n_begun += 1

    def expect(self, n_stages: int) -> None:
        """Say that there are so many more stages."""
        self._n_expected += n_stages

    def __call__(self, stage: str) -> None:
        """Show the stage that begins, in any thread."""
        if self._verbose:
            with self._lock:
                self._show_stage(stage)

    def _show_stage(self, stage: str) -> None:
        done, stage = self._n_iter, self.topic + stage
        total = max(done + 1, -(-self._n_expected * self._n_parts // max(self._n_begun, 1)))
        self._n_iter += 1
        if self._bar is not None:
            self._bar.total = total
            self._bar.set_postfix_str(stage, refresh=False)
            self._bar.update(min(done, 1))
            return
        left = ""
        if done > 0:
            seconds = (time.monotonic() - self._start) / done * (total - done)
            left = f", about {seconds:.1f} s left"
        print(f"{self._description}: stage {done + 1} of {total}, {stage}{left}", file=sys.stderr)
