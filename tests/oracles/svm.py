"""Algorithm 1 of G. Sharma and F. Jurie (BMVC 2013), one row and one feature vector at a time."""

import numpy as np


def score(w, x, t=0.0):
    """f_t(w, x) = sum_d sign(w_d) x_d min(|w_d| / max(t, x_d), 1), features with x_d = 0 aside."""
    w, x = w[x > 0], x[x > 0]
    if t == 0.0:
        return np.sum(np.sign(w) * np.minimum(x, np.abs(w)))
    return np.sum(np.sign(w) * x * np.minimum(np.abs(w) / np.maximum(t, x), 1.0))


def one_pass(X, y, weights, order, w, margin, r, alpha, t=0.0):
    """Lines 4 to 7 of the algorithm, for one class with labels of -1 and 1."""
    w = w.copy()
    for i in order:
        x = X[i]
        if y[i] * score(w, x, t) < margin:
            reach = np.maximum(t, x)
            slope = np.divide(x, reach, out=np.zeros_like(x), where=reach > 0)
            w += r * weights[i] * y[i] * slope * (np.abs(w) < reach)
        w = np.sign(w) * np.maximum(0.0, np.abs(w) - r * alpha)
    return w
