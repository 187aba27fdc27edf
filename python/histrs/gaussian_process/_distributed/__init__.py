"""The Gaussian process of a dask array, whose columns lie on the workers of a cluster."""
