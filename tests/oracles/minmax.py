"""The MinMax kernel, one bin after the other (Ralaivola et al., 2005, section 2)."""

import numpy as np
from scipy import sparse


def minmax_kernel(X, Y=None):
    """Return sums of minima over sums of maxima, 1 for two empty rows."""
    X, Y = (Z.toarray() if sparse.issparse(Z) else Z for Z in (X, X if Y is None else Y))
    K = np.ones((len(X), len(Y)))
    for i, x in enumerate(X.astype(np.float64)):
        for j, y in enumerate(Y.astype(np.float64)):
            maxima = np.maximum(x, y).sum()
            if maxima > 0:
                K[i, j] = np.minimum(x, y).sum() / maxima
    return K


def minmax_distances(X, Y=None):
    """Return sums of differences over sums of maxima, 0 for two empty rows."""
    X, Y = (Z.toarray() if sparse.issparse(Z) else Z for Z in (X, X if Y is None else Y))
    D = np.zeros((len(X), len(Y)))
    for i, x in enumerate(X.astype(np.float64)):
        for j, y in enumerate(Y.astype(np.float64)):
            maxima = np.maximum(x, y).sum()
            if maxima > 0:
                D[i, j] = np.abs(x - y).sum() / maxima
    return D
