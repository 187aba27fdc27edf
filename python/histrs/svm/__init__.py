"""Support vector machines at the cost of linear ones."""

from histrs.svm._bundle import BundleSVC
from histrs.svm._intersection import IntersectionSVC

__all__ = ["BundleSVC", "IntersectionSVC"]
