"""The descent of learned prototypes against one that keeps all it ever saw."""

import numpy as np
import pytest

from histrs.prototypes._descent import descend


def adam(gradients):
    """Return the step after all gradients since the moments began."""
    t = len(gradients)
    age = np.arange(t)[::-1].reshape(-1, *[1] * np.ndim(gradients[0]))
    history = np.array(gradients)
    mean = 0.1 * np.sum(0.9**age * history, axis=0) / (1 - 0.9**t)
    square = 0.01 * np.sum(0.99**age * history**2, axis=0) / (1 - 0.99**t)
    return mean / np.sqrt(np.maximum(square, np.finfo(float).tiny ** 2))


def slowly(loss, weights, rate, max_iter, tol, cuts):
    """Return the points of all passes, the best one, and whether the descent converged."""
    points, values, gradients = [], [], []
    begun, n_halvings = 0, 0
    for n in range(max_iter):
        value, slope = loss(weights, None)
        points.append(weights)
        values.append(value)
        best = points[int(np.argmin(values))]
        if n >= 10:
            before, now = min(values[:-10]), min(values)
            if before > now >= (1 - tol) * before:
                return points, best, True
        if n_halvings == 20 or not slope.any():
            return points, best, True
        # Passes since the best one, or since the rate was halved.
        if n - max(begun, int(np.argmin(values))) >= 5:
            rate, begun, n_halvings = rate / 2, n, n_halvings + 1
            weights, gradients = best, []
            slope = loss(weights, None)[1]
        for rows in cuts or [None]:
            gradients.append(slope if rows is None else loss(weights, rows)[1])
            weights = weights - rate * adam(gradients)
    return points, best, False


def squares(rng, n=12, d=3):
    """Return the mean of squared errors of a linear model."""
    A, b = rng.normal(size=(n, d)), rng.normal(size=n)

    def loss(w, rows):
        part = slice(None) if rows is None else rows
        error = A[part] @ w - b[part]
        return float(np.mean(error**2)), 2 * A[part].T @ error / len(error)

    return loss


def absolute(w, rows):
    """Return a loss whose slope never gets small."""
    return float(np.sum(np.abs(w - 0.3))), np.sign(w - 0.3)


@pytest.mark.parametrize("cuts", [None, [np.arange(5), np.arange(5, 12)]])
@pytest.mark.parametrize("rate", [0.03, 0.5, 8.0])
@pytest.mark.parametrize("tol", [0.0, 1e-3, 0.2])
def test_a_descent_is_its_definition(rng, cuts, rate, tol):
    loss, start = squares(rng), np.array([2.0, -1.0, 0.5])
    shown = []
    found = descend(
        *(loss, start),
        rate=rate,
        max_iter=120,
        tol=tol,
        batches=None if cuts is None else lambda: cuts,
        progress=shown.append,
    )
    points, best, converged = slowly(loss, start, rate, 120, tol, cuts)
    np.testing.assert_allclose(found.curve, [loss(w, None)[0] for w in points], rtol=1e-6)
    np.testing.assert_allclose(found.weights, best, rtol=1e-6)
    assert found.converged == converged
    assert shown == found.curve


def test_a_descent_whose_steps_bring_nothing_ends_after_twenty_halvings():
    start = np.array([1.0, -2.0])
    found = descend(
        *(absolute, start),
        rate=0.7,
        max_iter=5000,
        tol=0.0,
        batches=None,
        progress=lambda _: None,
    )
    points, best, converged = slowly(absolute, start, 0.7, 5000, 0.0, None)
    assert converged
    assert found.converged
    assert 100 < len(points) == len(found.curve) < 5000
    np.testing.assert_allclose(found.weights, best, rtol=1e-9)


@pytest.mark.parametrize("cuts", [None, [np.arange(5), np.arange(5, 12)]])
def test_a_pass_costs_a_look_at_all_rows_and_one_at_each_batch(rng, cuts):
    loss, seen = squares(rng), []

    def counted(w, rows):
        seen.append("all" if rows is None else len(rows))
        return loss(w, rows)

    found = descend(
        *(counted, np.zeros(3)),
        rate=0.01,
        max_iter=4,
        tol=0.0,
        batches=None if cuts is None else lambda: cuts,
        progress=lambda _: None,
    )
    assert len(found.curve) == 4
    assert seen == ["all", *(() if cuts is None else (5, 7))] * 4


def test_where_there_is_no_slope_there_is_no_pass():
    def flat(w, rows):
        return 1.0, np.zeros_like(w)

    start = np.ones(2)
    found = descend(
        *(flat, start), rate=1.0, max_iter=9, tol=0.0, batches=None, progress=lambda _: None
    )
    assert (found.curve, found.converged) == ([1.0], True)
    assert found.weights is start
