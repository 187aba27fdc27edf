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


def objective(X, y, weights, w, margin, alpha):
    """Equation 7a for one class, with weights of the losses."""
    scores = np.array([score(w, x) for x in X])
    return alpha * np.abs(w).sum() + np.mean(weights * np.maximum(0.0, margin - y * scores))


def training(X, signs, weights, orders, margin, r, alpha, largest, averaged, early):
    """All passes for several classes: the weights, the number of passes, and the objective.

    The step drops to a tenth after half of the passes, or with `early` once the sum of the
    objectives has not fallen by a thousandth in 5 passes, after which the same ends it. The mean is
    over the passes after the drop; `t` falls from `largest` to 0 in the first half.
    """
    half = len(orders) // 2
    w, after = np.zeros((len(signs), X.shape[1])), []
    best, stale, dropped, passes = np.inf, 0, False, 0
    for order in orders:
        if passes == half and not dropped:
            r, dropped = r / 10, True
        t = largest * (1 - passes / half) if passes < half else 0.0
        w = np.array([
            one_pass(X, *s, order, v, margin, r, alpha, t)
            for *s, v in zip(signs, weights, w, strict=True)
        ])  # fmt: skip
        passes += 1
        after += [w] if dropped else []
        parts = zip(signs, weights, w, strict=True)
        value = sum(objective(X, *part, margin, alpha) for part in parts)
        if early and t == 0.0:
            stale = 0 if value < best * (1 - 1e-3) else stale + 1
            best = min(best, value)
            if stale == 5 and dropped:
                break
            if stale == 5:
                r, dropped, stale = r / 10, True, 0
    return np.mean(after, axis=0) if averaged and after else w, passes, best
