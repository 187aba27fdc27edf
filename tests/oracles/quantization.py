"""Product quantisation, one row, block and codeword at a time, and sums over codes."""

import numpy as np

KERNELS = {
    "euclidean": lambda x, z: x * z,
    "hellinger": lambda x, z: np.sqrt(x * z),
    "chi2": lambda x, z: 2 * x * z / (x + z) if x + z > 0 else 0.0,
    "intersection": min,
}


def kernel(x, z, metric):
    """sum_d k(x_d, z_d)."""
    return sum(KERNELS[metric](a, b) for a, b in zip(x, z, strict=True))


def distance(x, z, metric):
    """The squared distance of features of x and z: k(x, x) + k(z, z) - 2 k(x, z)."""
    return kernel(x, x, metric) + kernel(z, z, metric) - 2 * kernel(x, z, metric)


def distances(X, codebooks, offsets, metric):
    """The distance of each row's block from each codeword, of shape (n, M, D)."""
    out = np.empty((len(X), *codebooks.shape[:2]))
    for i, x in enumerate(X):
        for m, codebook in enumerate(codebooks):
            part = x[offsets[m] : offsets[m + 1]]
            out[i, m] = [distance(part, z[: len(part)], metric) for z in codebook]
    return out


def one_hot(codes, n_codes):
    """Phi: a row of M ones among M D entries for each row of codes."""
    n, n_blocks = codes.shape
    features = np.zeros((n, n_blocks, n_codes))
    for i in range(n):
        for m in range(n_blocks):
            features[i, m, codes[i, m]] = 1.0
    return features.reshape(n, -1)


def codeword_kernel(codebooks, metric):
    """K_ZZ, formed: codewords of different blocks have an inner product of 0."""
    n_blocks, n_codes, _ = codebooks.shape
    K = np.zeros((n_blocks, n_codes, n_blocks, n_codes))
    for m in range(n_blocks):
        for i in range(n_codes):
            for j in range(n_codes):
                K[m, i, m, j] = kernel(codebooks[m, i], codebooks[m, j], metric)
    return K.reshape(n_blocks * n_codes, -1)


def decoded(codes, codebooks, offsets, n_levels, rotation=None):
    """What codes stand for: sums over levels, side by side, times the rotation's transpose."""
    out = np.zeros((len(codes), offsets[-1]))
    for i, row in enumerate(codes):
        for book, code in enumerate(row):
            start, stop = offsets[book // n_levels], offsets[book // n_levels + 1]
            out[i, start:stop] += codebooks[book, code, : stop - start]
    return out if rotation is None else out @ rotation.T


def levels_of_codes(X, codebooks, offsets, n_levels):
    """Chen et al. 2010: each level's nearest codeword of what the levels before leave over."""
    codes = np.empty((len(X), len(codebooks)), dtype=int)
    left_over = np.array(X, dtype=float)
    for level in range(n_levels):
        books = codebooks[level::n_levels]
        codes[:, level::n_levels] = distances(left_over, books, offsets, "euclidean").argmin(axis=2)
        left_over -= decoded(codes[:, level::n_levels], books, offsets, 1)
    return codes


def neighbors(X, indexed, n_neighbors, metric):
    """The nearest rows of each query, with the first of equal ones first, and how near they are."""
    values = np.empty((len(X), n_neighbors))
    rows = np.empty((len(X), n_neighbors), dtype=int)
    for i, x in enumerate(X):
        squares = ((indexed - x) ** 2).sum(axis=1)
        found = -(indexed @ x) if metric == "inner_product" else squares
        rows[i] = np.argsort(found, kind="stable")[:n_neighbors]
        values[i] = found[rows[i]]
    if metric == "inner_product":
        return -values, rows
    return (np.sqrt(values) if metric == "euclidean" else values), rows
