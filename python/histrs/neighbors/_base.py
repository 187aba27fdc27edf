"""What nearest-neighbour classifiers and regressors share."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._estimator import BaseEstimator
from histrs._progress import RowsProgress
from histrs._typing import Array, Matrix
from histrs._weights import of_finite_sum, positive_weights
from histrs.neighbors._search import check_count, in_precision
from histrs.neighbors._space import METRIC_CONSTRAINTS, Places, Space, chosen, set_input_tags

WeightsName: TypeAlias = Literal["uniform", "distance", "auto"]

# Numbers of neighbours that leaving one out chooses from.
_CANDIDATES = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56)


class BaseMetricKNN(BaseEstimator):
    """Nearest neighbours in the metrics of this package."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "metric": METRIC_CONSTRAINTS,
        "weights": [StrOptions({"uniform", "distance", "auto"})],
    }

    X_fit_: Any
    sample_indices_: NDArray[np.intp]
    sample_weight_: Array | None

    def __init__(
        self,
        n_neighbors: int | Literal["auto"] = 1,
        *,
        metric: str | Callable[..., NDArray[Any]] = "auto",
        weights: WeightsName = "uniform",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.weights = weights
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _keep(self, X: Any, y: ArrayLike, sample_weight: Any, **checks: Any) -> NDArray[Any]:
        """Check and keep the training data of positive weight; return their targets."""
        self.metric_ = chosen(self.metric, X)
        self.metric_params_ = dict(self.metric_params or {})
        space = self._space()
        # What a model keeps is its own.
        X, targets = space.check(self, X, y=y, copy=True, **checks)
        self.__dict__.pop("sample_indices_", None)
        if space.kind == "distances":
            self.sample_indices_ = np.arange(space.training(X).shape[0])
        else:
            # Refuses now what every prediction would refuse.
            space.distances(X, X[:1])
        self.X_fit_, self.sample_weight_ = X, None
        targets = np.array(targets)
        if sample_weight is not None:
            weight = of_finite_sum(positive_weights(sample_weight, X.shape[0]))
            targets = targets[self._keep_weights(weight)]
        return targets

    def _keep_weights(self, weight: Array) -> NDArray[np.intp]:
        """Keep the rows of positive weight, and the weights; return their indices."""
        used = np.flatnonzero(weight)
        if len(used) < len(weight):
            self.X_fit_ = self.X_fit_[used]
            if self._space().kind == "distances":
                self.sample_indices_ = self.sample_indices_[used]
        self.sample_weight_ = weight[used]
        return used

    def _weighed(self, counts: Array, indices: NDArray[np.intp]) -> Array:
        """Return votes times the weights of the neighbours."""
        if self.sample_weight_ is None:
            return counts
        weight = self.sample_weight_[indices]
        # Divided by the largest first, so that no vote overflows and not all underflow.
        shares: Array = weight / weight.max(axis=1, keepdims=True)
        return counts * shares

    def _choose(self, cost: Callable[[NDArray[Any], NDArray[np.intp]], float]) -> None:
        """Take what is given, or the number and the weights of least cost on left-out samples.

        `cost` is given the votes of the neighbours of every training sample, and their indices.
        """
        given = self.n_neighbors
        self.n_neighbors_ = 1 if given == "auto" else given
        self.weights_: str = "uniform" if self.weights == "auto" else self.weights
        if "auto" not in (self.n_neighbors, self.weights):
            return
        tried = [self.n_neighbors_] if given != "auto" else _CANDIDATES
        counts = [k for k in tried if k < self.X_fit_.shape[0]]
        if not counts:
            return
        rules: tuple[str, ...] = (
            ("uniform", "distance") if self.weights == "auto" else (self.weights_,)
        )
        with RowsProgress(type(self).__name__, None, self.verbose) as progress:
            distances, indices = self._space().nearest(
                self.X_fit_, self._fitted(), max(counts), others=True, progress=progress
            )
        distances = in_precision(distances, self.X_fit_.dtype)
        costs = {
            (k, rule): cost(votes(distances[:, :k], rule), indices[:, :k])
            for k in counts
            for rule in rules
        }
        self.n_neighbors_, self.weights_ = min(costs, key=lambda choice: costs[choice])

    @overload
    def kneighbors(
        self,
        X: ArrayLike | Matrix | None = None,
        n_neighbors: int | None = None,
        return_distance: Literal[True] = True,
    ) -> tuple[NDArray[Any], NDArray[np.intp]]: ...
    @overload
    def kneighbors(
        self,
        X: ArrayLike | Matrix | None = None,
        n_neighbors: int | None = None,
        *,
        return_distance: Literal[False],
    ) -> NDArray[np.intp]: ...
    @overload
    def kneighbors(
        self,
        X: ArrayLike | Matrix | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> NDArray[np.intp] | tuple[NDArray[Any], NDArray[np.intp]]: ...
    def kneighbors(
        self,
        X: ArrayLike | Matrix | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> NDArray[np.intp] | tuple[NDArray[Any], NDArray[np.intp]]:
        """Find the nearest training samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p), \
default=None
            Queries; None means the training samples, each without itself.
        n_neighbors : int, default=None
            Number of neighbours; None means `n_neighbors_`.
        return_distance : bool, default=True
            Whether to return distances.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances in ascending order, with `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors)
            Indices of the neighbours in `X_fit_`: in the training data, less rows of weight 0.
        """
        check_is_fitted(self)
        wanted = self._settings()[0] if n_neighbors is None else n_neighbors
        k = check_count(wanted, self.X_fit_.shape[0] - (X is None))
        space = self._space()
        queries = self.X_fit_ if X is None else space.check(self, X, reset=False)
        distances, indices = space.nearest(queries, self._fitted(), k, others=X is None)
        distances = in_precision(distances, queries.dtype)
        return (distances, indices) if return_distance else indices

    def kneighbors_graph(
        self,
        X: ArrayLike | Matrix | None = None,
        n_neighbors: int | None = None,
        mode: Literal["connectivity", "distance"] = "connectivity",
    ) -> sparse.csr_matrix:
        """Return the graph of nearest neighbours, as scikit-learn's estimators take it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p), \
default=None
            Queries; None means the training samples, each without itself.
        n_neighbors : int, default=None
            Number of neighbours; None means `n_neighbors_`.
        mode : {"connectivity", "distance"}, default="connectivity"
            Whether entries are 1 or distances.

        Returns
        -------
        graph : CSR matrix of shape (n_queries, n_samples_fit)
            Entry (i, j) is stored where training sample j is a neighbour of query i; samples of
            weight 0 are not counted.

        Raises
        ------
        ValueError
            If `mode` is unknown, or `n_neighbors` is larger than the number of training samples
            (less one if `X` is None).
        """
        if mode not in ("connectivity", "distance"):
            raise ValueError(f"mode = {mode!r}: choose 'connectivity' or 'distance'.")
        distances, indices = self.kneighbors(X, n_neighbors)
        n, k = indices.shape
        entries = distances.ravel() if mode == "distance" else np.ones(n * k)
        starts = np.arange(0, n * k + 1, k)
        return sparse.csr_matrix(
            (entries, indices.ravel(), starts), shape=(n, self.X_fit_.shape[0])
        )

    def _fitted(self) -> Any:
        """Return the training samples as neighbours."""
        if self._space().kind == "distances":
            return Places(self.X_fit_, self.sample_indices_)
        return self.X_fit_

    def _settings(self) -> tuple[int, str]:
        """Return number and weights: those of the fit where they are chosen, else what is set."""
        k = self.n_neighbors_ if isinstance(self.n_neighbors, str) else self.n_neighbors
        return k, self.weights_ if self.weights == "auto" else self.weights

    def _space(self) -> Space:
        return Space(self.metric_, self.metric_params_, self.n_jobs)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        return set_input_tags(super().__sklearn_tags__(), self.metric)


def votes(distances: NDArray[Any], weights: str) -> Array:
    """Return what each neighbour counts: all the same, or one over its distance."""
    if weights == "uniform":
        return np.ones_like(distances, dtype=np.float64)
    found: Array = (distances == distances[:, :1]).astype(np.float64)
    # One over a distance times the smallest, which cannot overflow; beside a distance of 0 others
    # count nothing.
    apart = found == 0.0
    nearest = np.broadcast_to(distances[:, :1], distances.shape)
    found[apart] = nearest[apart].astype(np.float64) / distances[apart]
    return found
