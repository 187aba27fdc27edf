"""Kernels bound to their training rows: one file for each way in which a kernel is kept of them."""
