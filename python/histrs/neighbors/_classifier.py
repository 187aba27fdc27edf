"""The nearest-neighbour classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import Tags

from histrs._checks.validation import unchanged_on_error
from histrs._estimator import documented
from histrs._typing import Array, Matrix
from histrs._weights import (
    dense_targets,
    encode,
    product_of_weights,
    refuse_zeros,
    weights_of_classes,
)
from histrs.neighbors._base import BaseMetricKNN, WeightsName, votes
from histrs.neighbors._docs import NEIGHBORS


@documented(NEIGHBORS)
class MetricKNNClassifier(ClassifierMixin, BaseMetricKNN):
    """Nearest-neighbour classifier in the metrics of this package.

    The metrics "jbld" and "sinkhorn" are those of [1]_. The search is exact. Among neighbours at
    the same distance, the first training samples are taken. The search computes lower bounds,
    which are cheaper, and then skips most distances. For "airm", the bound is the divergence of
    :func:`~histrs.metrics.jbld_distances`. For "emd", and for "sinkhorn" with
    ``cost="transport"``, it is relaxed transport. If the cost matrix `M`
    is a metric, the triangle inequality gives further bounds of transport.

    Parameters
    ----------
    n_neighbors : int or "auto", default=1
        Number of neighbours that vote. "auto" tries numbers up to 56, and takes the one with the
        best leave-one-out accuracy. It computes the distances of all pairs.
    metric : str or callable, default="auto"
        "auto" takes "jbld" for a stack of matrices, of shape (n_samples, p, p), and "chi2" for
        rows, of shape (n_samples, n_features). Flattened matrices need the name of a metric. For
        covariance matrices, there are "jbld", "airm", "logeuclid" (Euclidean between logarithms)
        and "euclid"; for histograms "chi2", "minmax", "sinkhorn" and "emd", functions of
        `histrs.metrics`. The kernels "intersection", "hellinger", "jensen_shannon", "additive_chi2"
        and "exp_chi2" have the distance :math:`k(x, x) + k(y, y) - 2 k(x, y)`. For vectors, there
        is "euclidean". A callable is given ``(X, Y, n_jobs=...)`` and `metric_params`, and returns
        distances of shape (n_X, n_Y). With "precomputed", `X` holds distances: of all pairs of
        training samples in `fit`, and later of each query to all training samples.
    weights : {"uniform", "distance", "auto"}, default="uniform"
        Whether every neighbour has one vote, or the inverse of its distance; neighbours at distance
        0 then vote alone. "auto" takes the one with the best leave-one-out accuracy.
    {metric_params}
    class_weight : dict, "balanced" or None, default=None
        Factors of the votes of each class; not for several labels per row.
    {n_jobs}
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or a list of them
        The class labels; a list for several outputs.
    {n_neighbors_}
    {metric_}
    {metric_params_}
    {X_fit_}
    {sample_indices_}
    y_fit_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Indices of their labels in `classes_`.
    sample_weight_ : ndarray of shape (n_samples,) or None
        Factors of their votes; None if all are equal.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    MetricKNNRegressor : The same for real targets.
    histrs.prototypes.CovarianceCompressor : Learns a few matrices that stand for all.
    histrs.prototypes.HistogramCompressor : The same for histograms.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.neighbors import MetricKNNClassifier
    >>> X = np.stack([np.diag([1.0, 1.0]), np.diag([5.0, 1.0]), np.diag([1.0, 5.0])])
    >>> model = MetricKNNClassifier(metric="airm").fit(X, ["round", "wide", "tall"])
    >>> model.predict([np.diag([9.0, 2.0])])
    array(['wide'], dtype='<U5')
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseMetricKNN._parameter_constraints
    }

    classes_: Any

    def __init__(
        self,
        n_neighbors: int | Literal["auto"] = 1,
        *,
        metric: str | Callable[..., NDArray[Any]] = "auto",
        weights: WeightsName = "uniform",
        metric_params: dict[str, Any] | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_neighbors,
            metric=metric,
            weights=weights,
            metric_params=metric_params,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.class_weight = class_weight

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Keep the training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, p, p)
            Histograms, vectors or covariance matrices, as the metric asks.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their classes; several outputs, such as label indicators, have a column each.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of their votes; samples of weight 0 are left out. The number of
            neighbours counts samples, whatever they weigh.

        {self}
        """
        with unchanged_on_error(self):
            y = self._keep(X, dense_targets(y), sample_weight, multi_output=True)
            if np.ndim(y) == 2 and np.shape(y)[1] > 1:
                self._encode_outputs(y)
            else:
                self.classes_, self.y_fit_ = encode(y)
                self._weigh_classes()
            self._choose(self._error)
        return self

    def _encode_outputs(self, y: NDArray[Any]) -> None:
        if self.class_weight is not None:
            raise ValueError(
                f"class_weight = {self.class_weight!r} needs one label per row, but y has "
                f"{y.shape[1]}: leave it at None, or give sample_weight."
            )
        classes, codes = zip(*(encode(column) for column in y.T), strict=True)
        self.classes_, self.y_fit_ = list(classes), np.column_stack(codes)

    @property
    def _has_outputs(self) -> bool:
        return self.y_fit_.ndim == 2

    def _weigh_classes(self) -> None:
        """Multiply the weights of samples by those of their classes."""
        if self.class_weight is None:
            return
        before = self.sample_weight_
        labels = self.classes_[self.y_fit_]
        of_classes = weights_of_classes(self.class_weight, labels, before, self.classes_)
        weight = np.ones(len(labels)) if before is None else before
        weight = product_of_weights(weight, of_classes)
        refuse_zeros(weight, "class_weight")
        self.y_fit_ = self.y_fit_[self._keep_weights(weight)]

    def _error(self, counts: NDArray[Any], indices: NDArray[np.intp]) -> float:
        predicted = [np.argmax(shares, axis=1) for shares in self._shares(counts, indices)]
        wrong = np.column_stack(predicted) != self.y_fit_.reshape(len(self.y_fit_), -1)
        return float(np.average(wrong.mean(axis=1), weights=self.sample_weight_))

    def predict(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Predict classes; of classes with equal votes, the first in `classes_` is taken.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.

        Returns
        -------
        y : ndarray of shape (n_queries,) or (n_queries, n_outputs)
            Classes.
        """
        shares = self.predict_proba(X)
        if not self._has_outputs:
            return np.asarray(self.classes_[np.argmax(shares, axis=1)])
        outputs = zip(self.classes_, shares, strict=True)
        return np.column_stack([classes[np.argmax(part, axis=1)] for classes, part in outputs])

    def predict_proba(self, X: ArrayLike | Matrix) -> NDArray[Any] | list[NDArray[Any]]:
        """Return the fraction of the votes for every class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.

        Returns
        -------
        P : ndarray of shape (n_queries, n_classes), or a list of them
            Fractions of votes, in the order of `classes_`; for several outputs, a list with an
            array for each.
        """
        distances, indices = self.kneighbors(X)
        found = self._shares(votes(distances, self._settings()[1]), indices)
        shares = [part.astype(distances.dtype, copy=False) for part in found]
        return shares if self._has_outputs else shares[0]

    def _shares(self, counts: NDArray[Any], indices: NDArray[np.intp]) -> list[Array]:
        """Return the fractions of the classes of each output."""
        counts = self._weighed(counts, indices)
        codes = self.y_fit_.reshape(len(self.y_fit_), -1)
        all_classes = self.classes_ if self._has_outputs else [self.classes_]
        found = []
        for classes, of_output in zip(all_classes, codes.T, strict=True):
            shares = np.zeros((len(counts), len(classes)))
            np.add.at(shares, (np.arange(len(counts))[:, None], of_output[indices]), counts)
            shares /= shares.sum(axis=1, keepdims=True)
            found.append(shares)
        return found

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags
