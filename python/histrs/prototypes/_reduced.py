"""The reduced nearest-neighbour rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._docs import documented
from histrs._progress import StepProgress
from histrs._validation import check_random_state, count_threads
from histrs.prototypes._base import Indices, SelectedPrototypes, Training
from histrs.prototypes._condensed import condense
from histrs.prototypes._docs import SELECTED_PROTOTYPES


@documented(SELECTED_PROTOTYPES)
class ReducedNN(SelectedPrototypes):
    """Nearest-neighbour classifier on what is needed of the condensed samples.

    Gates' reduced nearest neighbours [1]_: of the samples that
    :class:`~histrs.prototypes.CondensedNN` chooses those are left out, one after the other,
    without which no more training samples are misclassified.


    Parameters
    ----------
    {metric}
    {metric_params}
    {n_neighbors}
    random_state : int, RandomState instance or None, default=None
        Draws the order in which samples are looked at.
    {n_jobs}
    verbose : int, default=0
        Above 0, a progress bar (tqdm where installed, lines on stderr where not).

    Attributes
    ----------
    {classes_}
    {metric_}
    {metric_params_}
    prototypes_ : {ndarray, CSR matrix} of shape (n_prototypes, n_features) or \
(n_prototypes, p, p)
        The samples chosen, in the order in which they were.
    {prototype_labels_}
    {sample_indices_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    CovarianceCompressor, HistogramCompressor : Learn prototypes that are no samples.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SelectedPrototypes._parameter_constraints,
        "random_state": ["random_state"],
        "verbose": ["verbose"],
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
