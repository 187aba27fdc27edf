"""Object detection with deformable parts on codes of gradient histograms."""

from histrs.detection._detector import PartDetector
from histrs.detection._evaluation import average_precision, non_maximum_suppression
from histrs.detection._hog import HOGFeatures

__all__ = ["HOGFeatures", "PartDetector", "average_precision", "non_maximum_suppression"]
