"""Gaussian processes on learned projections."""
