"""From local features of images to one vector, or histogram, per image."""

from histrs.descriptors._fisher import FisherVector
from histrs.descriptors._shape_context import edge_points, shape_context
from histrs.descriptors._visual_words import BagOfVisualWords

__all__ = ["BagOfVisualWords", "FisherVector", "edge_points", "shape_context"]
