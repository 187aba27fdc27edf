"""Slow NumPy definitions, written straight from the papers' equations.

One module a paper's part. They share no code with the package, they loop where the equation sums,
and they are in double precision or better: what the package computes is compared with them.
"""
