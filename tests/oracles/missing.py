"""Gaussian processes of targets of which some are missing: each one by itself, from its own rows.

The targets are independent given the inputs, and a missing one says nothing, so that its likelihood
is the density of those that are there (Rasmussen and Williams, 2006, eqs. 2.25, 2.26 and 5.8).
"""

import numpy as np
from scipy.stats import multivariate_normal


def each_target(K, K_star, prior, Y, noise, amplitude):
    """Means, standard deviations and covariances of other rows, and the summed log density.

    The last is that of standardised targets; `noise` and `amplitude` are in the same unit.
    """
    means, stds, covariances, total = [], [], [], 0.0
    for y in Y.T:
        rows = [i for i in range(len(y)) if not np.isnan(y[i])]
        level, unit = np.mean(y[rows]), np.std(y[rows])
        z = (y[rows] - level) / unit
        A = amplitude * K[np.ix_(rows, rows)] + noise * np.eye(len(rows))
        cross = amplitude * K_star[:, rows]
        inverse = np.linalg.inv(A)
        covariance = amplitude * prior - cross @ inverse @ cross.T + noise * np.eye(len(prior))
        means.append(level + unit * cross @ inverse @ z)
        covariances.append(unit**2 * covariance)
        stds.append(unit * np.sqrt(np.diag(covariance)))
        total += multivariate_normal(np.zeros(len(rows)), A).logpdf(z)
    return np.array(means).T, np.array(stds).T, np.stack(covariances, axis=2), total
