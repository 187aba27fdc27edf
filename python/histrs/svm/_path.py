"""Models of several strengths of regularisation, and how well they predict parts held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._typing import Array
from histrs._weights import best_class
from histrs.svm._bundle_solver import Solution, Targets, solved_in_unit
from histrs.svm._held_out import Indices
from histrs.svm._rows import Rows


@dataclass(frozen=True)
class HeldOutPath:
    """Accuracies of parts held out, of shape (n_alphas, n_parts), the largest strength first."""

    alphas: Array
    scores: Array
    starts: list[Solution]
    """The models of the first part, for each strength."""
    best: int
    """The index of the strength that predicts best."""


def held_out_path(
    rows: Rows,
    y: NDArray[Any],
    weight: Array,
    alphas: ArrayLike,
    parts: Sequence[tuple[Indices, Indices]],
    targets_of: Callable[[NDArray[Any], Array], Targets],
    classes: NDArray[Any],
    tol: float,
    max_iter: int,
) -> HeldOutPath:
    """Learn models of every strength from each part, those of the next from those before."""
    given = np.asarray(alphas, dtype=np.float64)
    if given.ndim != 1 or not given.size or not np.all((given > 0) & np.isfinite(given)):
        raise ValueError(f"alpha = {alphas!r}: expected positive numbers.")
    path = np.unique(given)[::-1]
    if not parts:
        raise ValueError("several alpha need two rows of a class, of which one is held out.")
    scores = np.empty((len(path), len(parts)))
    starts: list[Solution] = []
    for j, (learned, others) in enumerate(parts):
        part, held_out = rows.part(learned), rows.part(others)
        targets = targets_of(y[learned], weight[learned])
        solution: Solution | None = None
        for i, alpha in enumerate(path):
            solution = solved_in_unit(
                part, targets, float(alpha), float(tol), max_iter, start=solution
            )
            found = best_class(held_out.scores(solution.models).T, classes)
            scores[i, j] = np.average(found == y[others], weights=weight[others])
            if j == 0:
                starts.append(replace(solution, planes=()))
    mass = [weight[others].sum() for _, others in parts]
    best = int(np.argmax(np.average(scores, axis=1, weights=mass)))
    return HeldOutPath(path, scores, starts, best)
