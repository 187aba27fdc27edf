"""Prototypes from their definitions, a sample and a distance at a time.

M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for covariance
and histogram descriptors", 2015, and the papers that it cites for the rules of selection.
`D[i, j]` is the distance of sample i to sample j as a prototype.
"""

import numpy as np

from tests.oracles import transport


def nearest_prototype(D, i, chosen):
    """The first of those at the least distance."""
    return min(range(len(chosen)), key=lambda k: (D[i, chosen[k]], k))


def prediction(D, y, i, chosen):
    """The class of the nearest prototype; none without prototypes."""
    return y[chosen[nearest_prototype(D, i, chosen)]] if chosen else None


def n_right(D, y, chosen):
    """How many of all samples are classified right."""
    return sum(prediction(D, y, i, chosen) == y[i] for i in range(len(y)))


def condensed(D, y, order):
    """Hart 1968: go through the samples until a whole round brings no new prototype."""
    chosen = []
    while True:
        before = len(chosen)
        for i in order:
            if i not in chosen and prediction(D, y, i, chosen) != y[i]:
                chosen.append(i)
        if len(chosen) == before:
            return chosen


def reduced(D, y, chosen):
    """Gates 1972: leave out each in turn, unless more samples are then misclassified."""
    kept = list(chosen)
    for j in chosen:
        without = [k for k in kept if k != j]
        if without and n_right(D, y, without) >= n_right(D, y, kept):
            kept = without
    return kept


def fast_condensed(D, y, centres):
    """Angiulli 2005, FCNN1: the nearest enemy in the Voronoi cell of each prototype, at once."""
    chosen, added = [], list(centres)
    while added:
        chosen += added
        cells = [nearest_prototype(D, i, chosen) for i in range(len(y))]
        added = []
        for k, p in enumerate(chosen):
            enemies = [
                i for i in range(len(y)) if cells[i] == k and y[i] != y[p] and i not in chosen
            ]
            if enemies:
                added.append(min(enemies, key=lambda i: (D[i, p], i)))
    return chosen


def hill_climbed(D, y, sample, mutations):
    """Skalak 1994, with the exchanges `(index, candidate)` given."""
    chosen = list(sample)
    for index, candidate in mutations:
        trial = list(chosen)
        trial[index] = candidate
        lost_a_class = {y[k] for k in chosen} - {y[k] for k in trial}
        if candidate in chosen or lost_a_class:
            continue
        if n_right(D, y, trial) >= n_right(D, y, chosen):
            chosen = trial
    return chosen


def sinkhorn_divergence(x, h, M, reg):
    """The regularised cost less half of that of each histogram with itself."""
    cost = transport.regularized_cost
    return cost(x, h, M, reg) - cost(x, x, M, reg) / 2 - cost(h, h, M, reg) / 2


def histogram_loss(X, y, H, labels, M, reg, gamma):
    """Equations 5, 6 and 9, one training histogram at a time."""
    cost = transport.regularized_cost
    own = [cost(h, h, M, reg) / 2 for h in H]
    loss = 0.0
    for x, label in zip(X, y, strict=True):
        # The cost of x with itself is the same for all prototypes, and drops out.
        D = [cost(x, h, M, reg) - half for h, half in zip(H, own, strict=True)]
        p = np.exp(-(gamma**2) * (np.array(D) - min(D)))
        loss -= np.log(p[np.asarray(labels) == label].sum() / p.sum())
    return loss
