"""Random mutation hill climbing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from histrs._checks.validation import check_random_state
from histrs._estimator import documented
from histrs._progress import StepProgress
from histrs.prototypes._base import COMPRESSION_CONSTRAINTS, Indices, SelectedPrototypes, Training
from histrs.prototypes._docs import SELECTED_PROTOTYPES
from histrs.prototypes._sample import class_sample

# Candidates whose distances are computed together.
_TOGETHER = 32


@documented(SELECTED_PROTOTYPES)
class RandomMutationNN(SelectedPrototypes):
    """Nearest-neighbour classifier on a sample improved by random exchanges.

    Random mutation hill climbing [1]_ begins with a random sample. It exchanges one prototype after
    the other for a random training sample, and undoes the exchange if more training samples are
    misclassified than before. The last prototype of a class stays.

    Parameters
    ----------
    {compression}
    {neighbours}
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of the samples of each class.
    max_iter : int, default=500
        Number of exchanges that are tried.
    random_state : int, RandomState instance or None, default=None
        Draws the sample and the exchanges.
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {attributes}
    n_iter_ : int
        Exchanges tried.

    {see_also}

    References
    ----------
    .. [1] D. B. Skalak, "Prototype and feature selection by sampling and random mutation hill
       climbing algorithms", ICML 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.prototypes import RandomMutationNN
    >>> X = np.concatenate([np.arange(0, 10), np.arange(20, 30)])[:, None]
    >>> y = np.repeat(["low", "high"], 10)
    >>> model = RandomMutationNN(1, metric="euclidean", random_state=0).fit(X, y)
    >>> model.score(X, y)
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SelectedPrototypes._parameter_constraints,
        "compression": COMPRESSION_CONSTRAINTS,
    }

    def __init__(
        self,
        compression: float = 0.05,
        *,
        metric: str | Callable[..., NDArray[Any]] = "auto",
        metric_params: dict[str, Any] | None = None,
        n_neighbors: int = 1,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 500,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.compression = compression
        self.metric = metric
        self.metric_params = metric_params
        self.n_neighbors = n_neighbors
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _select(self, training: Training) -> Indices:
        random = check_random_state(self.random_state)
        sample = class_sample(training.labels, training.classes, self.compression, random)
        self.n_iter_ = self.max_iter
        n_blocks = -(-self.max_iter // _TOGETHER)
        with StepProgress("RandomMutationNN", self.verbose, n_blocks) as progress:
            return hill_climb(training, sample, self.max_iter, random, progress)


def hill_climb(
    training: Training,
    sample: Indices,
    max_iter: int,
    random: RandomState,
    progress: Callable[[str], None] | None = None,
) -> Indices:
    """Return a sample as large, that misclassifies no more training samples.

    `max_iter` exchanges are tried. `progress` is told now and then how many samples are right.
    """
    labels, n = training.labels, len(training.labels)
    chosen = sample.copy()
    # A row for each prototype.
    D = np.ascontiguousarray(training.distances(chosen).T)

    def n_right() -> float:
        return training.weight_of(labels[chosen[np.argmin(D, axis=0)]] == labels)

    best = n_right()
    for start in range(0, max_iter, _TOGETHER):
        size = min(_TOGETHER, max_iter - start)
        indices, candidates = random.randint(len(chosen), size=size), random.randint(n, size=size)
        columns = training.distances(candidates).T
        for index, candidate, column in zip(indices, candidates, columns, strict=True):
            before = chosen[index]
            only = np.sum(labels[chosen] == labels[before]) == 1
            if candidate in chosen or (only and labels[candidate] != labels[before]):
                continue
            kept = D[index].copy()
            chosen[index], D[index] = candidate, column
            right = n_right()
            if right >= best:
                best = right
            else:
                chosen[index], D[index] = before, kept
        if progress is not None:
            progress(f"{start + size}/{max_iter} exchanges, {best:g} right")
    return chosen
