"""The fast condensed nearest-neighbour rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from histrs._estimator import documented
from histrs._progress import StepProgress
from histrs.prototypes._base import Indices, SelectedPrototypes, Training
from histrs.prototypes._docs import SELECTED_PROTOTYPES


@documented(SELECTED_PROTOTYPES)
class FastCondensedNN(SelectedPrototypes):
    """Nearest-neighbour classifier on samples found at the borders of classes.

    Fast condensed nearest neighbours (FCNN1 of [1]_). The first prototypes are the samples nearest
    to the centroids of the classes. In each round, every prototype looks at the samples that are
    nearer to it than to other prototypes. It adds the nearest one of another class. Rounds end
    when there are none. Nothing is random; the order of the samples only decides ties.

    The centroids of [2]_ are :func:`~histrs.spd.jbld_mean` for "jbld" and "airm", and the mean of
    the metric for "logeuclid" and "euclid". For "sinkhorn" and "emd" they are
    :func:`~histrs.transport.sinkhorn_barycenter`, whose `reg` is at least a hundredth of the
    largest entry of `M`. Other metrics have the arithmetic mean.

    Parameters
    ----------
    {neighbours}
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {attributes}

    {see_also}

    References
    ----------
    .. [1] F. Angiulli, "Fast condensed nearest neighbor rule", ICML 2005.
    .. [2] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.prototypes import FastCondensedNN
    >>> X = np.concatenate([np.arange(0, 10), np.arange(20, 30)])[:, None]
    >>> y = np.repeat(["low", "high"], 10)
    >>> model = FastCondensedNN(metric="euclidean").fit(X, y)
    >>> model.sample_indices_
    array([14,  4])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SelectedPrototypes._parameter_constraints
    }

    def __init__(
        self,
        *,
        metric: str | Callable[..., NDArray[Any]] = "auto",
        metric_params: dict[str, Any] | None = None,
        n_neighbors: int = 1,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.metric_params = metric_params
        self.n_neighbors = n_neighbors
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _select(self, training: Training) -> Indices:
        with StepProgress("FastCondensedNN", self.verbose) as progress:
            return self._condense(training, progress)

    def _condense(self, training: Training, progress: StepProgress) -> Indices:
        labels, n = training.labels, len(training.labels)
        chosen = np.empty(0, dtype=np.intp)
        is_chosen = np.zeros(n, dtype=bool)
        nearest, cell = np.full(n, np.inf), np.zeros(n, dtype=np.intp)
        added = centres(training)
        while len(added) > 0:
            for j, D in enumerate(training.distances(added).T, len(chosen)):
                nearer = nearest > D
                nearest[nearer], cell[nearer] = D[nearer], j
            chosen = np.concatenate([chosen, added])
            is_chosen[added] = True
            enemies = np.flatnonzero((labels[chosen[cell]] != labels) & ~is_chosen)
            order = np.lexsort((nearest[enemies], cell[enemies]))
            _, first = np.unique(cell[enemies[order]], return_index=True)
            added = enemies[order[first]]
            progress(f"{len(chosen)} prototypes, {len(enemies)} samples wrong")
        return chosen


def centres(training: Training) -> Indices:
    """Return the index of the sample of each class that is nearest to the centroid."""
    space, X = training.space, training.X

    def centre(label: int) -> int:
        members = np.flatnonzero(training.labels == label)
        if space.kind == "distances":
            # There is no centroid, and the one in the middle is nearest to the others.
            return int(members[np.argmin(training.distances(members)[members].sum(axis=0))])
        D = space.distances(X[members], space.centroid(X[members]))
        return int(members[np.argmin(D[:, 0])])

    return np.array([centre(label) for label in range(len(training.classes))], dtype=np.intp)
