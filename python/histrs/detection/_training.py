"""How a detector learns: latent locations of objects, hard negatives, cutting planes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.detection._evaluation import non_maximum_suppression
from histrs.detection._examples import Examples, Image, Model, Settings, shared_boxes
from histrs.detection._images import Boxes
from histrs.detection._model import (
    N_DEFORMATIONS,
    Component,
    Placements,
    Tables,
    displacements_of,
    windows_of,
)
from histrs.detection._pyramid import Pyramid
from histrs.detection._rows import JointRows, window_rows
from histrs.svm._bundle_solver import Targets, solve
from histrs.svm._rows import FeatureRows, RowsWithIntercept

# What a displacement of a cell costs before anything is known.
_FIRST_DEFORMATION = (0.0, 0.1, 0.0, 0.1)
# Rows and columns of cells of a part.
_SHAPE = (6, 6)
# Overlap with the box of an object that a placement of it needs, and that none of a negative has.
_SAME = 0.7
_LEAST = 0.5
_OTHER = 0.3
# Negatives of an image that are drawn at first, and that are looked through in a round; which of
# them are kept overlap by no more than this.
_DRAWN = 100
_MOST = 300
_ALIKE = 0.7
# Curvatures of springs that training goes no lower than, in a squared cell.
_LEAST_CURVATURE = 0.01
# The intercept is hardly penalised.
_INTERCEPT_SCALE = 10.0
# Hard negatives of a component that are kept; of more the easier ones are forgotten.
_MAX_NEGATIVES = 20_000
# Largest gap of the cutting planes, as a part of the objective, and most of these.
TOL, MAX_PLANES = 0.02, 300


class Training:
    """Examples of all components, and the components that are learned from them."""

    def __init__(self, components: list[Component], settings: Settings, C: float) -> None:
        self.components = components
        self.settings, self.C = settings, C
        self.positives = [Examples() for _ in components]
        self.negatives = [Examples() for _ in components]
        self.progress: Callable[[str], None] | None = None
        """Is told of each round."""
        self.gap = 0.0
        """The largest certified gap of the last round, as a part of the objective."""
        self._learned = [False for _ in components]
        self._known: set[tuple[int, int, bytes]] = set()

    def begin(
        self,
        labelled_images: Iterable[tuple[Image, Boxes]],
        groups: Iterable[NDArray[np.intp]],
        rng: np.random.RandomState,
    ) -> None:
        """Take the placements nearest to the objects, and others drawn at random.

        `groups` are the aspects of the objects of each image: components whose roots are equal
        share objects by these. A component that has none is dropped.
        """
        model = Model(self.components, self.settings)
        for number, ((image, own), aspects) in enumerate(zip(labelled_images, groups, strict=True)):
            pyramid, found, shared = shared_boxes(image, own, model)
            if not len(found):
                # The image is too small for any of the roots.
                continue
            nearest = self._nearest(found, shared, aspects)
            nearest = nearest[shared[nearest, np.arange(len(own))] >= _LEAST]
            self._keep(self.positives, model, pyramid, found.some(nearest))
            others = np.flatnonzero(shared.max(axis=1, initial=0.0) < _OTHER)
            drawn = rng.choice(others, min(len(others), _DRAWN), replace=False)
            self._keep(self.negatives, model, pyramid, found.some(drawn), number)
        self._retain([c for c, own in enumerate(self.positives) if len(own)])

    def _nearest(
        self, found: Placements, shared: Boxes, aspects: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return the placement nearest to each object, of its own component among equal roots."""
        sizes = [component.root.shape[:2] for component in self.components]
        of_component = found.numbers[:, 0]
        nearest: NDArray[np.intp] = np.argmax(shared, axis=0)
        for j, aspect in enumerate(aspects):
            if sizes[of_component[nearest[j]]] == sizes[aspect]:
                own = np.flatnonzero(of_component == aspect)
                nearest[j] = own[np.argmax(shared[own, j])]
        return nearest

    def _retain(self, kept: list[int]) -> None:
        """Drop all other components."""
        new = {old: c for c, old in enumerate(kept)}
        self.components = [self.components[c] for c in kept]
        self.positives = [self.positives[c] for c in kept]
        self.negatives = [self.negatives[c] for c in kept]
        self._learned = [self._learned[c] for c in kept]
        self._known = {(image, new[c], at) for image, c, at in self._known if c in new}

    def drop_unlearned(self) -> None:
        """Drop components that never had examples of both kinds: their scores say nothing."""
        self._retain([c for c, learned in enumerate(self._learned) if learned])

    def short(self) -> list[int]:
        """Return the components that have fewer negatives than positives."""
        both = zip(self.positives, self.negatives, strict=True)
        return [c for c, (good, bad) in enumerate(both) if len(bad) < len(good)]

    def mine(self, labelled_images: Iterable[tuple[Image, Boxes]], easy: Sequence[int] = ()) -> int:
        """Find the best placements of the objects, and negatives beyond the margin; count these.

        Of the components in `easy` the best are negatives, whether beyond the margin or not.
        """
        least = np.full(len(self.components), -1.0)
        least[list(easy)] = -np.inf
        self.positives = [Examples() for _ in self.components]
        n_new = 0
        model = Model(self.components, self.settings)
        for number, (image, own) in enumerate(labelled_images):
            pyramid, found, shared = shared_boxes(image, own, model)
            best = []
            for column in shared.T:
                most = column.max(initial=0.0)
                if most >= _LEAST:
                    near = np.flatnonzero(column >= min(_SAME, most))
                    best.append(near[np.argmax(found.scores[near])])
            self._keep(self.positives, model, pyramid, found.some(np.array(best, dtype=np.intp)))
            hard = shared.max(axis=1, initial=0.0) < _OTHER
            wrong = found.some(np.flatnonzero(hard & (found.scores > least[found.numbers[:, 0]])))
            wrong = wrong.some(np.argsort(-wrong.scores, kind="stable")[:_MOST])
            kept = non_maximum_suppression(wrong.boxes, wrong.scores, overlap=_ALIKE)
            n_new += self._keep(self.negatives, model, pyramid, wrong.some(kept), number)
        return n_new

    def _keep(
        self,
        examples: list[Examples],
        model: Model,
        pyramid: Pyramid,
        found: Placements,
        number: int = -1,
    ) -> int:
        """Add placements to examples; with the number of an image, those that are new."""
        if number >= 0:
            keys = [(number, int(row[0]), row[1:].tobytes()) for row in found.numbers]
            new = [i for i, key in enumerate(keys) if key not in self._known]
            self._known.update(keys[i] for i in new)
            found = found.some(np.array(new, dtype=np.intp))
        for c, (component, own) in enumerate(zip(self.components, examples, strict=True)):
            mine = found.some(np.flatnonzero(found.numbers[:, 0] == c))
            if len(mine):
                own.add(
                    windows_of(component, mine, pyramid, model.octave),
                    displacements_of(component, mine),
                )
        return len(found)

    def learn(self) -> None:
        """Solve for every component that has examples of both kinds."""
        self.gap = 0.0
        for c in range(len(self.components)):
            if len(self.positives[c]) and len(self.negatives[c]):
                self._learn(c)
                self._learned[c] = True
        if self.progress is not None:
            n_hard = sum(map(len, self.negatives))
            self.progress(f"{n_hard} negatives, gap {self.gap:.2g} of the objective")

    def _learn(self, c: int) -> None:
        n_threads = self.settings.n_threads
        good, good_away = self.positives[c].stacked()
        bad, bad_away = self.negatives[c].stacked()
        labels = np.repeat([1, 0], [len(good), len(bad)]).astype(np.int32)
        cells = window_rows(np.concatenate([good, bad]), self.settings.quantizer, n_threads)
        kinds = [cells, FeatureRows(np.concatenate([good_away, bad_away]), None)]
        joint = JointRows(kinds)
        rows = RowsWithIntercept(joint, _INTERCEPT_SCALE)
        weights = np.full(len(labels), self.C)
        targets = Targets(labels, weights, np.array([1], dtype=np.int32), "hinge", n_threads)
        solution = solve(rows, targets, 1.0, TOL, MAX_PLANES)
        self.gap = max(self.gap, float((solution.dual_gap / solution.objective).max()))
        of_cells, deformations = joint.split(solution.models[:, :-1])
        coef, bias = cells.coef(of_cells)[0], float(solution.models[0, -1])
        self.components[c] = self._with(self.components[c], coef, deformations[0], bias)
        if len(bad) > _MAX_NEGATIVES:
            # The easiest make room for those of the next round.
            scores = rows.scores(solution.models)[0, len(good) :]
            hardest = np.argsort(-scores, kind="stable")[: _MAX_NEGATIVES // 2]
            hardest.sort()
            self.negatives[c] = Examples([bad[hardest]], [bad_away[hardest]])

    def _with(
        self, component: Component, coef: Array, deformations: Array, bias: float
    ) -> Component:
        cells = coef.reshape(-1, *self.settings.tail).astype(np.float32)
        n_root = int(np.prod(component.root.shape[:2]))
        springs = deformations.reshape(-1, N_DEFORMATIONS).copy()
        springs[:, 1::2] = np.maximum(springs[:, 1::2], _LEAST_CURVATURE)
        return replace(
            component,
            root=cells[:n_root].reshape(component.root.shape),
            bias=bias,
            parts=cells[n_root:].reshape(component.parts.shape),
            deformations=springs,
        )

    def add_parts(self, n_parts: int) -> None:
        """Give every component parts where its root is strongest; examples are of no more use."""
        quantizer = self.settings.quantizer
        shares = (
            None
            if quantizer is None
            else quantizer.counts_ / quantizer.counts_.sum(axis=1)[:, None]
        )
        self.components = [with_parts(component, n_parts, shares) for component in self.components]
        self.negatives = [Examples() for _ in self.components]
        self._learned = [False for _ in self.components]
        self._known.clear()


def with_parts(component: Component, n_parts: int, shares: Array | None) -> Component:
    """Return a component with parts that look as its root does there, twice as finely.

    `shares` says how frequent each codeword of each block is; None is for features.
    """
    fine = np.repeat(np.repeat(component.root, 2, axis=0), 2, axis=1)
    rows, columns = (min(pair) for pair in zip(_SHAPE, fine.shape[:2], strict=True))
    anchors = _strongest_locations(_energy(fine, shares), n_parts, (rows, columns))
    parts = [fine[y : y + rows, x : x + columns] for y, x in anchors]
    return replace(
        component,
        # Four cells of a part are where one of the root is.
        parts=(np.stack(parts) / 4).astype(np.float32),
        anchors=anchors,
        deformations=np.tile(_FIRST_DEFORMATION, (n_parts, 1)),
    )


def _energy(tables: Tables, shares: Array | None) -> Array:
    """Return the mean square of what each cell adds to a score where it is for the object."""
    squares = np.maximum(tables, 0.0).astype(np.float64) ** 2
    weighted = squares if shares is None else squares * shares
    return np.asarray(weighted.sum(axis=(2, 3)))


def _strongest_locations(energy: Array, n_parts: int, size: tuple[int, int]) -> NDArray[np.int64]:
    """Return corners of parts that cover most of the energy, one after the other."""
    energy = energy.copy()
    anchors = np.zeros((n_parts, 2), dtype=np.int64)
    h, w = size
    for anchor in anchors:
        sums = np.pad(energy.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        covered = sums[h:, w:] - sums[:-h, w:] - sums[h:, :-w] + sums[:-h, :-w]
        anchor[:] = np.unravel_index(np.argmax(covered), covered.shape)
        y, x = anchor
        energy[y : y + h, x : x + w] = 0.0
    return anchors
