"""Support vector machines with the intersection kernel."""

from histrs.svm._intersection import IntersectionSVC

__all__ = ["IntersectionSVC"]
