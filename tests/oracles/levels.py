"""The additive kernel on levels of columns, as a matrix of all pairs of rows.

Between the knots of a column a function is linear, and its increments are independent: that of an
interval has a variance in proportion to its width, or to the rows around it, half of those at
either end.
"""

from itertools import pairwise

import numpy as np


def rounded(x, points):
    """Return the nearest point of each value."""
    return points[np.argmin(np.abs(x[:, None] - points), axis=1)]


def ramp(x, low, high):
    """Return a function that rises from 0 at `low` to 1 at `high`."""
    return np.minimum(np.maximum((x - low) / (high - low), 0.0), 1.0)


def hat_masses(x, knots, weights):
    """Return how much of values is at each knot, those between two being shared by nearness."""
    masses = np.zeros(len(knots))
    for value, weight in zip(x, weights, strict=True):
        for k in range(len(knots)):
            masses[k] += weight * np.interp(value, knots, np.eye(len(knots))[k])
    return masses


def increments(x, points, knots, weights):
    """Return the prior variances of increments by shares of rows, and of the line."""
    masses = hat_masses(rounded(x, points), knots, weights)
    of_rows = 0.5 * (masses[:-1] + masses[1:]) / masses.sum()
    on_line = [(high - low) / (knots[-1] - knots[0]) for low, high in pairwise(knots)]
    return np.maximum([of_rows, np.array(on_line)], 1e-6)


def kernel(X, Z, X_train, columns, level_weights, intercept_variance, weights):
    """Return the covariances of rows `X` and `Z`; `columns` are points and knots of each."""
    K = np.full((len(X), len(Z)), float(intercept_variance))
    for d, (points, knots) in enumerate(columns):
        variances = level_weights[d] @ increments(X_train[:, d], points, knots, weights)
        x, z = rounded(X[:, d], points), rounded(Z[:, d], points)
        for k, variance in enumerate(variances):
            K += variance * np.outer(ramp(x, *knots[k : k + 2]), ramp(z, *knots[k : k + 2]))
    return K


def pair_kernel(X, Z, X_train, grids, weights):
    """Return the covariances of a function of two columns: products of centred ramps.

    `grids` are the column, points and knots of both.
    """
    K = np.ones((len(X), len(Z)))
    for d, points, knots in grids:
        of_column = np.zeros_like(K)
        variances = increments(X_train[:, d], points, knots, weights)[0]
        for variance, (low, high) in zip(variances, pairwise(knots), strict=True):
            x, z, train = (ramp(rounded(T[:, d], points), low, high) for T in (X, Z, X_train))
            mean = np.average(train, weights=weights)
            of_column += variance * np.outer(x - mean, z - mean)
        K *= of_column
    return K
