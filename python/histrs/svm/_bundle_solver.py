"""Cutting planes in one slack variable (BMRM), all one-against-rest problems in one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.scale import check_steps, overflow_says
from histrs._progress import SolverProgress
from histrs._typing import Array
from histrs.svm._planes import Planes
from histrs.svm._rows import Rows

# How far behind the best point, towards the minimiser of the planes, the next plane is taken.
_BEYOND = 0.1
# And at most so many times as far as the best point has moved: a smooth loss is known best nearby.
_NEARBY = {"hinge": 10.0, "squared_hinge": 1.0, "logistic": 1.0}
# The part of the tolerance that the dual may be off.
_DUAL_PART = 0.05
# A strength of the regulariser beside which losses of some rows are nothing.
_LARGEST = 1e300
# The gap must fall by this part of it in so many iterations.
_PROGRESS = 1e-3
_PATIENCE = 100


@dataclass(frozen=True)
class Targets:
    """The problems that are solved: their rows' classes and weights, and their loss."""

    labels: NDArray[np.int32]
    weights: Array
    positive: NDArray[np.int32]
    loss: str
    n_threads: int
    unit: int = 0
    """The exponent of the power of 2 that weights were divided by."""

    def some(self, kept: NDArray[np.intp]) -> Targets:
        """Return some of the problems."""
        positive = np.ascontiguousarray(self.positive[kept])
        return replace(self, positive=positive)

    def minima(
        self, start: Array, end: Array, norms: tuple[Array, Array, Array], values: Array
    ) -> tuple[Array, Array]:
        """Return where the objectives are nearly least on the line, and what they are there.

        `norms` are the regularisers at the ends and, between them, that of their product; `values`
        are the objectives at `start`, which none that is returned is above.
        """
        rows = self._rows()
        return _histrs.svm_line_minima(self.loss, start, end, rows, norms, values, self.n_threads)

    def step(self, start: Array, end: Array, best: Array, cut: Array) -> tuple[Array, Array]:
        """Move `start` to `best`, make `end` the gradients at `cut`; return losses and offsets.

        The losses are at `cut`, and the offsets are the values of their tangents at scores of 0.
        They are computed as minus the conjugates of the losses. So large scores cancel nothing, and
        a plane of these gradients is always below the loss. Nothing is allocated: new memory costs
        more than the arithmetic.
        """
        return _histrs.svm_line_step(self.loss, start, end, self._rows(), best, cut, self.n_threads)

    def _rows(self) -> tuple[NDArray[np.int32], Array, NDArray[np.int32]]:
        return self.labels, self.weights, self.positive


@dataclass(frozen=True)
class Solution:
    """Models, and how good they are."""

    models: Array
    objective: Array
    dual_gap: Array
    n_iter: NDArray[np.intp]
    n_planes: NDArray[np.intp]
    squares: Array
    """`v^T K^+ v` of the models."""
    planes: tuple[Planes, ...] = ()
    """What is known of the losses, whatever the strength of the regulariser."""


class _Search:
    """The state of all problems, of which fewer and fewer are active."""

    def __init__(
        self, rows: Rows, targets: Targets, alpha: float, tol: float, start: Solution | None
    ) -> None:
        n_problems = len(targets.positive)
        self.rows, self.alpha, self.tol = rows, alpha, tol
        self.targets = targets
        self.planes = [Planes(rows.width, alpha) for _ in range(n_problems)]
        self.active = np.arange(n_problems)
        self.best = np.zeros((n_problems, rows.width))
        self.squares = np.zeros(n_problems)
        self.n_iter = np.zeros(n_problems, dtype=np.intp)
        self.scores = np.zeros((n_problems, len(rows)))
        # Scores of the minimisers of the planes, then gradients at the cut, and so on; with offsets
        # of the active problems.
        self.work = np.zeros((n_problems, len(rows)))
        nowhere = np.zeros(n_problems)
        self.losses, self.offsets = targets.step(self.scores, self.work, nowhere, nowhere)
        if start is not None:
            self._start_from(start)
        self.bounds = np.full(n_problems, -np.inf)
        self._least_gap = np.full(n_problems, np.inf)
        self._stale = np.zeros(n_problems, dtype=np.intp)

    def _start_from(self, start: Solution) -> None:
        """Begin with models, where they are better than none, and with planes below the losses."""
        scores = self.rows.scores(np.ascontiguousarray(start.models))
        work = scores.copy()
        nowhere = np.zeros(len(scores))
        losses, offsets = self.targets.step(scores, work, nowhere, nowhere)
        better = self.alpha / 2 * start.squares + losses < self.objective()
        self.scores[better], self.work[better] = scores[better], work[better]
        self.best[better] = start.models[better]
        self.squares[better], self.losses[better] = start.squares[better], losses[better]
        self.offsets[better] = offsets[better]
        for k, planes in enumerate(start.planes):
            self.planes[k] = planes.with_alpha(self.alpha)
            if not better[k]:
                planes.at_best = np.zeros(len(planes))

    def objective(self) -> Array:
        value: Array = self.alpha / 2 * self.squares + self.losses
        return value

    def iterate(self) -> None:
        """Add a plane to each active problem, and move towards the minimisers of the planes."""
        minimisers = self._add_planes()
        self.rows.scores(minimisers, out=self.work)
        active = self.active
        models = [self.planes[k] for k in active]
        square = np.array([planes.square() for planes in models])
        mixed = np.array([planes.with_best() for planes in models])
        start = self.squares[active]
        norms = (self.alpha * start, self.alpha * mixed, self.alpha * square)
        values = self.objective()[active]
        point, least = self.targets.minima(self.scores, self.work, norms, values)
        rest = 1 - point
        self.squares[active] = rest**2 * start + 2 * point * rest * mixed + point**2 * square
        self.losses[active] = least - self.alpha / 2 * self.squares[active]
        cut = point + np.minimum(_BEYOND * rest, self._reach(point))
        old = self.best[active]
        self.best[active] = old + point[:, None] * (minimisers - old)
        for planes, at_point in zip(models, point, strict=True):
            planes.at_best += at_point * (planes.at_model() - planes.at_best)
        self.n_iter[active] += 1
        check_steps(self.objective(), self.best)
        self._retire(point, cut)

    def _reach(self, point: Array) -> Array:
        """Return how far behind the best points planes may be; anywhere where none has moved."""
        return np.where(point > 0, _NEARBY[self.targets.loss] * point, np.inf)

    def _add_planes(self) -> Array:
        """Return the minimisers of the planes, of which there is one more for each problem."""
        a, products = self.rows.gradients(self.work)
        minimisers = np.empty((len(self.active), self.rows.width))
        objective = self.objective()
        for i, k in enumerate(self.active):
            planes = self.planes[k]
            # The paper's a is minus the gradient.
            planes.add(-a[i], -products[i], self.offsets[i], -(a[i] @ self.best[k]))
            tol = _DUAL_PART * self.tol * objective[k]
            bound = planes.solve(tol, self.targets.n_threads)
            self.bounds[k] = max(self.bounds[k], bound)
            planes.remove_idle()
            minimisers[i] = planes.model()
        return minimisers

    def _retire(self, point: Array, cut: Array) -> None:
        """Go on with the problems that are not solved and still get better."""
        gap = self.gaps()[self.active]
        progress = gap < (1 - _PROGRESS) * self._least_gap[self.active]
        self._stale[self.active] = np.where(progress, 0, self._stale[self.active] + 1)
        self._least_gap[self.active] = np.minimum(gap, self._least_gap[self.active])
        solved = gap <= self.tol * self.objective()[self.active]
        kept = np.flatnonzero(~solved & (self._stale[self.active] < _PATIENCE))
        if len(kept) < len(self.active):
            self.active, self.targets = self.active[kept], self.targets.some(kept)
            self.scores, self.work = self.scores[kept], self.work[kept]
        if len(kept):
            _, self.offsets = self.targets.step(self.scores, self.work, point[kept], cut[kept])

    def gaps(self) -> Array:
        gaps: Array = np.maximum(self.objective() - self.bounds, 0.0)
        return gaps


def solve(
    rows: Rows,
    targets: Targets,
    alpha: float,
    tol: float,
    max_iter: int,
    *,
    start: Solution | None = None,
    progress: SolverProgress | None = None,
) -> Solution:
    r"""Minimise :math:`\frac\lambda2 v^T K^+ v + \sum_i w_i l(y_i v^T \phi_i)` for all problems.

    An iteration adds to each problem a plane below its loss, and minimises the regulariser plus the
    largest plane. On the line from the best point so far to this minimiser, it goes to the best
    point, and takes the next plane a little behind it. The value of the dual is a lower bound of
    the objective, so that the gap to it is certified. `start` has models of the same features to
    begin with, and planes of the same rows and targets, or none.
    """
    state = _Search(rows, targets, alpha, tol, start)
    for _ in range(max_iter):
        if not len(state.active):
            break
        state.iterate()
        if progress is not None:
            gaps, objective = state.gaps(), state.objective()
            # As parts of the objective; none where it is 0.
            progress(np.divide(gaps, objective, out=np.zeros_like(gaps), where=objective > 0))
    n_planes = np.array([len(planes) for planes in state.planes])
    return Solution(
        *(state.best, state.objective(), state.gaps(), state.n_iter, n_planes, state.squares),
        tuple(state.planes),
    )


def solved_in_unit(
    rows: Rows, targets: Targets, alpha: float, tol: float, max_iter: int, **options: Any
) -> Solution:
    """Solve problems whose weights are in a unit, and return objectives in units of the user."""
    with overflow_says(
        f"alpha = {alpha:.3g} is too small beside class_weight and the squares of the features: "
        "models overflow. Raise alpha, or scale features or class_weight down."
    ):
        # A regulariser beyond all losses is one however large.
        scaled = min(alpha, float(np.ldexp(_LARGEST, min(targets.unit, 0))))
        scaled = float(np.ldexp(scaled, -targets.unit))
        found = solve(rows, targets, scaled, tol, max_iter, **options)
        objective, gap = (
            np.ldexp(values, targets.unit) for values in (found.objective, found.dual_gap)
        )
        check_steps(objective, gap, found.models)
    return replace(found, objective=objective, dual_gap=gap)


def solved(solution: Solution, tol: float) -> Any:
    """Say of each problem whether its gap is below the tolerance."""
    return solution.dual_gap <= tol * solution.objective
