"""Linear solvers for `(K + noise I) X = B`, apart from the models that use them."""
