"""The condensed nearest-neighbour rule, and the reduced one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.validation import check_random_state, count_threads
from histrs._estimator import documented
from histrs._progress import StepProgress
from histrs.prototypes._base import Indices, SelectedPrototypes, Training
from histrs.prototypes._docs import SELECTED_PROTOTYPES


class CondensingRule(SelectedPrototypes):
    """A rule that begins with samples in random order, and says how far it is."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SelectedPrototypes._parameter_constraints
    }

    def __init__(
        self,
        *,
        metric: str | Callable[..., NDArray[Any]] = "auto",
        metric_params: dict[str, Any] | None = None,
        n_neighbors: int = 1,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.metric_params = metric_params
        self.n_neighbors = n_neighbors
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose


@documented(SELECTED_PROTOTYPES)
class CondensedNN(CondensingRule):
    """Nearest-neighbour classifier on samples that classify the others right.

    Hart's condensed nearest neighbours [1]_: a sample that the prototypes so far misclassify
    becomes one, until none is left. Training samples are then all classified right, unless two
    of different classes are at distance 0. With "sinkhorn", the distance of a sample to itself may
    not be the smallest either. The number of prototypes is not chosen.

    Parameters
    ----------
    {neighbours}
    {random_state}
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {attributes}

    {see_also}

    References
    ----------
    .. [1] P. Hart, "The condensed nearest neighbor rule", IEEE Transactions on Information Theory
       14, 1968.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.prototypes import CondensedNN
    >>> X = np.concatenate([np.arange(0, 10), np.arange(20, 30)])[:, None]
    >>> y = np.repeat(["low", "high"], 10)
    >>> model = CondensedNN(metric="euclidean", random_state=0).fit(X, y)
    >>> model.score(X, y)
    1.0
    """

    def _select(self, training: Training) -> Indices:
        with StepProgress("CondensedNN", self.verbose) as progress:
            return condense(training, check_random_state(self.random_state), progress)


@documented(SELECTED_PROTOTYPES)
class ReducedNN(CondensingRule):
    """Nearest-neighbour classifier on a part of the condensed samples.

    Gates' reduced nearest neighbours [1]_: of the samples that
    :class:`~histrs.prototypes.CondensedNN` chooses those are left out, one after the other,
    without which no more training samples are misclassified.

    Parameters
    ----------
    {neighbours}
    {random_state}
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {attributes}

    {see_also}

    References
    ----------
    .. [1] G. Gates, "The reduced nearest neighbor rule", IEEE Transactions on Information Theory
       18, 1972.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.prototypes import ReducedNN
    >>> X = np.concatenate([np.arange(0, 10), np.arange(20, 30)])[:, None]
    >>> y = np.repeat(["low", "high"], 10)
    >>> model = ReducedNN(metric="euclidean", random_state=0).fit(X, y)
    >>> model.score(X, y)
    1.0
    """

    def _select(self, training: Training) -> Indices:
        with StepProgress("ReducedNN", self.verbose) as progress:
            return self._reduce(training, progress)

    def _reduce(self, training: Training, progress: StepProgress) -> Indices:
        chosen = condense(training, check_random_state(self.random_state), progress)
        labels = np.asarray(training.labels, dtype=np.int64)
        kept = _histrs.needed_prototypes(
            training.distances(chosen),
            labels,
            labels[chosen],
            training.weights,
            count_threads(self.n_jobs),
        )
        progress(f"{np.count_nonzero(kept)} of {len(chosen)} prototypes needed")
        return chosen[kept]


def condense(
    training: Training, random: np.random.RandomState, progress: Callable[[str], None] | None = None
) -> Indices:
    """Return indices of samples that classify all others right, in the order of their choice.

    After each, `progress` is told how many there are.
    """
    labels, n = training.labels, len(training.labels)
    order = random.permutation(n)
    nearest = np.full(n, np.inf)
    predicted = np.full(n, -1)
    chosen: list[int] = []
    is_chosen = np.zeros(n, dtype=bool)
    position = 0
    while True:
        wrong = (predicted != labels) & ~is_chosen
        # The next one in turn: after the last sample the first follows.
        ahead = np.flatnonzero(wrong[order])
        if len(ahead) == 0:
            return np.array(chosen, dtype=np.intp)
        at = ahead[np.searchsorted(ahead, position) % len(ahead)]
        i, position = order[at], at + 1
        chosen.append(i)
        is_chosen[i] = True
        D = training.distances(np.array([i]))[:, 0]
        nearer = nearest > D
        nearest[nearer], predicted[nearer] = D[nearer], labels[i]
        if progress is not None:
            n_right = np.count_nonzero(predicted == labels)
            progress(f"{len(chosen)} prototypes, {n_right}/{n} right")
