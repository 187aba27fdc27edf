"""A random sample as prototypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from numpy.typing import NDArray

from histrs._checks.validation import check_random_state
from histrs._estimator import documented
from histrs.prototypes._base import COMPRESSION_CONSTRAINTS, Indices, SelectedPrototypes, Training
from histrs.prototypes._docs import SELECTED_PROTOTYPES
from histrs.prototypes._sample import class_sample


@documented(SELECTED_PROTOTYPES)
class RandomSubset(SelectedPrototypes):
    """Nearest-neighbour classifier on a random sample of each class.

    The baseline of [1]_, from which its learned prototypes start.

    Parameters
    ----------
    {compression}
    {neighbours}
    random_state : int, RandomState instance or None, default=None
        Draws the sample.
    {n_jobs}

    Attributes
    ----------
    {attributes}

    {see_also}

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.prototypes import RandomSubset
    >>> X = np.concatenate([np.arange(0, 10), np.arange(20, 30)])[:, None]
    >>> y = np.repeat(["low", "high"], 10)
    >>> model = RandomSubset(2, metric="euclidean", random_state=0).fit(X, y)
    >>> model.predict([[4], [24]])
    array(['low', 'high'], dtype='<U4')
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
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.compression = compression
        self.metric = metric
        self.metric_params = metric_params
        self.n_neighbors = n_neighbors
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _select(self, training: Training) -> Indices:
        random = check_random_state(self.random_state)
        return class_sample(training.labels, training.classes, self.compression, random)
