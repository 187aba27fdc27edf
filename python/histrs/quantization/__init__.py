"""Product quantisation: rows as short codes, linear learning on the codes, and search in them."""

from histrs.quantization._neighbors import CodeNeighbors
from histrs.quantization._product import ProductQuantizer

__all__ = ["CodeNeighbors", "ProductQuantizer"]
