"""The reduced nearest-neighbour rule."""

from __future__ import annotations

import numpy as np

from histrs import _histrs
from histrs._checks.validation import check_random_state, count_threads
from histrs._estimator import documented
from histrs._progress import StepProgress
from histrs.prototypes._base import Indices, Training
from histrs.prototypes._condensed import CondensingRule, condense
from histrs.prototypes._docs import SELECTED_PROTOTYPES


@documented(SELECTED_PROTOTYPES)
class ReducedNN(CondensingRule):
    """Nearest-neighbour classifier on a part of the condensed samples.

    Gates' reduced nearest neighbours [1]_: of the samples that
    :class:`~histrs.prototypes.CondensedNN` chooses those are left out, one after the other,
    without which no more training samples are misclassified.


    Parameters
    ----------
    {metric}
    {metric_params}
    {n_neighbors}
    {random_state}
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {classes_}
    {metric_}
    {metric_params_}
    {prototypes_}
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
