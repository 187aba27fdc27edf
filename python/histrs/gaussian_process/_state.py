"""State: an estimator's is replaced whole or not at all, and pickles hold what cannot be made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

Estimator = TypeVar("Estimator")


class PickledByFields:
    """A dataclass whose pickles hold its fields, and nothing that is made of them."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


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
