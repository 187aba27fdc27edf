"""Gaussian processes whose kernel matrix is stored: any kernel of rows, with parameters."""
