"""What an estimator has learned is replaced whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

Estimator = TypeVar("Estimator")


def copied(estimator: Estimator) -> Estimator:
    """Return an estimator of the same state, which may change by itself."""
    copy = object.__new__(type(estimator))
    copy.__dict__ = estimator.__dict__.copy()
    return copy


@contextmanager
def replaced_whole(estimator: Estimator) -> Iterator[Estimator]:
    """Yield a copy to change, whose state becomes the estimator's when the block succeeds.

    The state changes by one assignment, so that other threads predict from the one before or the
    one after, and an error leaves everything as it was.
    """
    draft = copied(estimator)
    yield draft
    estimator.__dict__ = draft.__dict__
