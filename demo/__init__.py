"""The demonstration: our Gaussian processes beside the usual models, on what scikit-learn bundles.

`make demo`, or ``python -m demo`` in an environment in which `histrs` is installed. It needs no
network, and nothing besides what `histrs` itself needs.
"""
