"""Descriptors of images, one local feature or one pair of points at a time."""

import numpy as np


def fisher_vector(x, weights, means, variances, power, norm):
    """Perronnin, Sánchez and Mensink, 2010, section 2: the gradients, then both normalisations."""
    n_components, n_features = means.shape
    first, second = np.zeros((2, n_components, n_features))
    if len(x) == 0:
        return np.zeros(2 * first.size)
    for point in x:
        densities = np.array(
            [
                w * np.prod(np.exp(-((point - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v))
                for w, m, v in zip(weights, means, variances, strict=True)
            ]
        )
        gamma = densities / densities.sum()
        for k in range(n_components):
            u = (point - means[k]) / np.sqrt(variances[k])
            first[k] += gamma[k] * u / (len(x) * np.sqrt(weights[k]))
            second[k] += gamma[k] * (u**2 - 1) / (len(x) * np.sqrt(2 * weights[k]))
    z = np.concatenate([first.ravel(), second.ravel()])
    z = np.sign(z) * np.abs(z) ** power
    return z / np.sqrt(np.sum(z**2)) if norm == "l2" and np.any(z) else z


def word_counts(x, words, bandwidth=None):
    """How much of the features belongs to each word; all to the nearest without a bandwidth."""
    counts = np.zeros(len(words))
    for point in x:
        distances = np.sqrt(np.sum((words - point) ** 2, axis=1))
        if bandwidth is None:
            counts[np.argmin(distances)] += 1
        else:
            # Extended precision holds the part of a word that is far.
            parts = np.exp(-np.square(distances, dtype=np.longdouble) / (2 * bandwidth**2))
            counts += (parts / parts.sum()).astype(np.float64)
    return counts


def cell(position, rows, columns):
    """The number of the cell that a position in [0, 1]^2 lies in, row by row."""
    i = min(int(position[0] * rows), rows - 1)
    return i * columns + min(int(position[1] * columns), columns - 1)


def shape_context(points, n_radii, n_angles, inner, outer, turn):
    """Belongie, Malik and Puzicha, 2002, equation 3, for every point, divided by the sums."""
    n = len(points)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    mean = np.mean([np.linalg.norm(points[i] - points[j]) for i, j in pairs])
    radii = [inner * (outer / inner) ** (k / (n_radii - 1)) for k in range(n_radii)]
    h = np.zeros((n, n_radii, n_angles))
    for i, j in pairs:
        down, right = points[j] - points[i]
        distance = np.hypot(down, right) / mean
        ring = next((k for k, radius in enumerate(radii) if distance <= radius), None)
        if ring is not None:
            angle = np.degrees(np.arctan2(-down, right) - turn[i])
            h[i, ring, int(np.floor(angle / (360 / n_angles) + 1e-9)) % n_angles] += 1
    h = h.reshape(n, -1)
    return h / np.maximum(h.sum(axis=1, keepdims=True), 1)
