"""One fit and its answers, in a process of its own that may take so long and no longer."""

import math
import multiprocessing
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.impute import KNNImputer
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benches.quality.answers import Answer
from benches.quality.columns import dates_as_numbers, words
from benches.quality.models import Model
from benches.quality.scores import Scores, score_classes, score_numbers
from benches.quality.splits import Split
from benches.quality.tables import Rows, Table

# Seconds of the processor for one fit and its answers; a process that waits gets three times that.
LIMIT = 900
_WAITING = 3
# How the status begins where the process was killed.
CRASHED = "the process ended"
# Shares of the values that rows to predict lack.
GAPS = (0.1, 0.3, 0.6)
# Rows whose values are removed.
_MOST_GAPPY = 2000


class Job(NamedTuple):
    """A fit that is to be done."""

    table: Table
    rows: Rows
    split: Split
    model: Model
    gaps: bool
    """Whether rows with values removed are predicted too."""


class Found(NamedTuple):
    """What came of it: scores by the share of removed values and how they were filled in."""

    status: str
    """"ok", "limit" or what the error said."""
    scores: dict[tuple[str, str], Scores]


def performed(
    jobs: Iterator[Job], n_workers: int, limit: float = LIMIT
) -> Iterator[tuple[Job, Found]]:
    """Yield what came of each job, some at a time."""
    context = multiprocessing.get_context("fork")
    running: dict[Connection, tuple[Job, Any, float]] = {}
    waiting = iter(jobs)
    while True:
        while len(running) < n_workers and (job := next(waiting, None)) is not None:
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(there, job, limit), daemon=False)
            process.start()
            there.close()
            running[here] = job, process, time.monotonic() + _WAITING * limit
        if not running:
            return
        soonest = min(end for _, _, end in running.values())
        ready = wait(list(running), timeout=max(soonest - time.monotonic(), 0.0))
        late = [c for c, (_, _, end) in running.items() if time.monotonic() >= end]
        for connection in dict.fromkeys([*ready, *late]):
            job, process, _ = running.pop(connection)
            found = _received(connection, process) if connection in ready else Found("limit", {})
            process.kill()
            process.join()
            connection.close()
            yield job, found


def _received(connection: Connection, process: Any) -> Found:
    try:
        found: Found = connection.recv()
    except EOFError:
        process.join()
        late = process.exitcode == -signal.SIGXCPU
        found = Found("limit" if late else f"{CRASHED} with {process.exitcode}", {})
    return found


def _child(connection: Connection, job: Job, limit: float) -> None:
    try:
        seconds = math.ceil(limit)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        with threadpool_limits(1), warnings.catch_warnings():
            # Of the peers; ours would be a finding.
            if not job.model.ours:
                warnings.simplefilter("ignore")
            found = Found("ok", _fit_and_score(job))
    except Exception as error:  # the row says why
        if job.model.ours:
            traceback.print_exc()
        found = Found(f"{type(error).__name__}: {error}".splitlines()[0][:120], {})
    connection.send(found)


def _fit_and_score(job: Job) -> dict[tuple[str, str], Scores]:
    X, y = job.rows.X, job.rows.y
    train, test = job.split.train, job.split.test
    A, B = X.iloc[train].reset_index(drop=True), X.iloc[test].reset_index(drop=True)
    before, start = _memory(), _seconds()
    answer = job.model.fit(A, y[train], job.table.has_classes)
    fitted = _seconds()
    said = answer(B)
    ended = _seconds()
    cost = {"fit": fitted - start, "predict": ended - fitted, "memory": _memory() - before}
    scores = {("", ""): _score(job, said, y[test]) | cost}
    if not job.gaps:
        return scores
    B, b = B[:_MOST_GAPPY], y[test][:_MOST_GAPPY]
    for share in GAPS:
        gappy = with_gaps(B, share)
        if job.model.takes_gaps:
            scores[str(share), "as it is"] = _score(job, answer(gappy), b)
        scores[str(share), "neighbours"] = _score(job, answer(filled(A, gappy)), b)
    return scores


def _score(job: Job, said: Answer, y: Any) -> Scores:
    if job.table.has_classes:
        return score_classes(said, y)
    return score_numbers(said, y.astype(float), float(np.std(job.rows.y)))


def with_gaps(X: pd.DataFrame, share: float) -> pd.DataFrame:
    """Return the frame without this share of its values, drawn at random."""
    missing = np.random.default_rng(0).random(X.shape) < share
    return X.mask(missing)


def filled(A: pd.DataFrame, X: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose gaps are filled by the mean of the five rows of `A` that are nearest."""
    scale = StandardScaler().fit(_codes(A))
    imputer = KNNImputer(keep_empty_features=True).fit(scale.transform(_codes(A)))
    Z = pd.DataFrame(
        scale.inverse_transform(imputer.transform(scale.transform(_codes(X)))), columns=X.columns
    )
    for column in words(X):
        codes = Z[column].round().clip(0, X[column].cat.categories.size - 1).astype(int)
        Z[column] = pd.Categorical.from_codes(codes, dtype=X[column].dtype)
    for column in X.select_dtypes("datetime"):
        dates = pd.Timestamp(0) + pd.to_timedelta(Z[column], unit="D")
        Z[column] = dates.astype(X[column].dtype)
    return Z


def _codes(X: pd.DataFrame) -> pd.DataFrame:
    codes = {c: X[c].cat.codes.replace(-1, np.nan) for c in words(X)}
    return dates_as_numbers(X).assign(**codes).astype(float)


def _seconds() -> float:
    """Return the processor time of this process and of those that it waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def _memory() -> float:
    """Return the largest size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
