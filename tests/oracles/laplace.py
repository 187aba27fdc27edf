"""Laplace's approximation for classes, dense: algorithms 3.1, 3.2 of Rasmussen and Williams."""

import numpy as np
from scipy.special import expit

from tests.oracles.leave_one_out import refits


def latent_covariance(K, amplitude):
    """Prior covariances of a latent function with a bias of variance 4."""
    return amplitude * K + 4.0


def climbed(f, value_of, newton):
    """Go from f where steps of Newton's, halved until the value grows, lead."""
    for _ in range(500):
        move, before = newton(f) - f, value_of(f)
        tried = (f + move / 2.0**k for k in range(40))
        better = next((new for new in tried if value_of(new) > before), None)
        if better is None:
            break
        f = better
    return f


def mode(C, t, w):
    """Mode of the posterior of f ~ N(0, C), with classes t in {0, 1} and weights w of rows."""

    def newton(f):
        p = expit(f)
        W = w * p * (1.0 - p)
        B = np.eye(len(t)) + np.sqrt(W)[:, None] * C * np.sqrt(W)
        b = W * f + w * (t - p)
        return C @ (b - np.sqrt(W) * np.linalg.solve(B, np.sqrt(W) * (C @ b)))

    return climbed(np.zeros(len(t)), lambda f: objective(C, f, t, w), newton)


def objective(C, f, t, w):
    """Log likelihood of the classes plus log prior of f, but for constants."""
    return -np.sum(w * np.logaddexp(0.0, np.where(t > 0, -f, f))) - 0.5 * f @ np.linalg.solve(C, f)


def log_evidence(C, f, t, w):
    """Eq. 3.32."""
    p = expit(f)
    W = np.sqrt(w * p * (1.0 - p))
    B = np.eye(len(t)) + W[:, None] * C * W
    return objective(C, f, t, w) - 0.5 * np.linalg.slogdet(B)[1]


def prediction(C, cross, prior, f, t, w):
    """Mean and variance of the latent function elsewhere, eqs. 3.21 and 3.24."""
    p = expit(f)
    noise = np.diag(1.0 / (w * p * (1.0 - p)))
    mean = cross @ (w * (t - p))
    return mean, prior - np.sum(cross * np.linalg.solve(C + noise, cross.T).T, axis=1)


def left_out(C, f, t, w):
    """Means of rows by fits without each, of the regression that is like the likelihood there."""
    p = expit(f)
    W = w * p * (1.0 - p)
    return refits(C + np.diag(1.0 / W), f + w * (t - p) / W)[0]


def softmax(f):
    """Probabilities of the classes of every row."""
    e = np.exp(f - f.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax_curvature(f, w):
    """`W` of eq. 3.38, times the weights of rows, over all rows and classes, by row first."""
    n, k = f.shape
    W = np.zeros((n, k, n, k))
    for i, p in enumerate(softmax(f)):
        W[i, :, i, :] = w[i] * (np.diag(p) - np.outer(p, p))
    return W.reshape(n * k, n * k)


def softmax_objective(C, f, t, w):
    """Log likelihood of the classes plus log prior of their functions, but for constants."""
    of_labels = np.log(softmax(f))[np.arange(len(t)), t]
    return np.sum(w * of_labels) - 0.5 * np.sum(f * np.linalg.solve(C, f))


def softmax_mode(C, t, w, n_classes):
    """Mode of functions `f_c ~ N(0, C)` of classes t in {0, ..., n_classes - 1}, eq. 3.39."""
    prior = np.kron(C, np.eye(n_classes))
    targets = np.eye(n_classes)[t]

    def newton(f):
        W = softmax_curvature(f, w)
        b = W @ f.ravel() + (w[:, None] * (targets - softmax(f))).ravel()
        return (prior @ np.linalg.solve(np.eye(len(b)) + W @ prior, b)).reshape(f.shape)

    start = np.zeros((len(t), n_classes))
    return climbed(start, lambda f: softmax_objective(C, f, t, w), newton)


def softmax_log_evidence(C, f, t, w):
    """Eq. 3.44."""
    n, n_classes = f.shape
    prior = np.kron(C, np.eye(n_classes))
    determinant = np.linalg.slogdet(np.eye(n * n_classes) + prior @ softmax_curvature(f, w))[1]
    return softmax_objective(C, f, t, w) - 0.5 * determinant


def softmax_left_out(C, f, t, w):
    """Means of each row by the regression that is like the likelihood, without the row."""
    n, n_classes = f.shape
    prior = np.kron(C, np.eye(n_classes))
    W, rows = softmax_curvature(f, w), np.arange(n * n_classes) // n_classes
    gradient = (w[:, None] * (np.eye(n_classes)[t] - softmax(f))).ravel()
    b = W @ f.ravel() + gradient
    means = []
    for i in range(n):
        kept = rows != i
        A = np.eye(kept.sum()) + W[np.ix_(kept, kept)] @ prior[np.ix_(kept, kept)]
        means.append(prior[np.ix_(~kept, kept)] @ np.linalg.solve(A, b[kept]))
    return np.array(means)
