"""Nearest neighbours in the metrics of this package."""

from histrs.neighbors._classifier import MetricKNNClassifier
from histrs.neighbors._regressor import MetricKNNRegressor

__all__ = ["MetricKNNClassifier", "MetricKNNRegressor"]
