"""Dask arrays whose partitions workers keep, and what every estimator of them shares."""
