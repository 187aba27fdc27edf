"""Nearest neighbours in the metrics of this package."""

from histrs.neighbors._classifier import MetricKNNClassifier

__all__ = ["MetricKNNClassifier"]
