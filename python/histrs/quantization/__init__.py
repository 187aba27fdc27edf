"""Product quantisation: rows as short codes, and linear learning on the codes."""

from histrs.quantization._product import ProductQuantizer

__all__ = ["ProductQuantizer"]
