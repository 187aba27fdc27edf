"""Predictions from histogram prototypes whose costs are as exact as the probabilities need them."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from histrs.metrics import sinkhorn_distances
from histrs.prototypes import HistogramCompressor, _decisive
from histrs.transport import grid_ground_distance

pytestmark = pytest.mark.simd_paths


def shapes_of_two(rng, n, n_bins=24):
    """Peaks at places that depend on the class, with clutter."""
    y = np.arange(n) % 3
    bins = np.arange(n_bins)
    centre = 4 + 7 * y + rng.normal(scale=1.5, size=n)
    X = np.exp(-((bins - centre[:, None]) ** 2) / 8) + 0.1 * rng.gamma(0.5, size=(n, n_bins))
    X[rng.random(X.shape) < 0.2] = 0.0
    return X, y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("gamma", "unit"), [("scale", 1.0), (0.5, 1.0), (8.0, 1.0), (20.0, 1.0), (0.3, 100.0)]
)
def test_probabilities_of_histogram_prototypes_are_those_of_exact_costs(
    rng, gamma, unit, container, dtype
):
    X, y = shapes_of_two(rng, 700)
    M = unit * grid_ground_distance(24)
    model = HistogramCompressor(6, M=M, gamma=gamma, max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[:100], y[:100])
    queries = container(X[100:].astype(dtype))
    # More rows than are looked at at once, against costs that are all iterated to the end.
    exact = softmax(model._class_scores(queries), axis=1)
    found = model.predict_proba(queries)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact, atol=1e-6 if dtype is np.float64 else 2e-4)
    certain = np.sort(exact, axis=1)
    told = certain[:, -1] - certain[:, -2] > 1e-3
    np.testing.assert_array_equal(model.predict(queries)[told], exact.argmax(axis=1)[told])


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_most_costs_to_prototypes_are_not_iterated_to_the_end(rng, monkeypatch, unit):
    X, y = shapes_of_two(rng, 300)
    M = unit * grid_ground_distance(24)
    model = HistogramCompressor(8, M=M, gamma=6.0 / unit**0.5, max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[:100], y[:100])
    solved, solved_pairs = [], []
    pairs = _decisive.sinkhorn_of_pairs

    def counted(X, Y, rows, columns, **options):
        solved.append((len(rows), options["tol"]))
        solved_pairs.extend(zip(rows.tolist(), columns.tolist(), strict=True))
        return pairs(X, Y, rows, columns, **options)

    monkeypatch.setattr(_decisive, "sinkhorn_of_pairs", counted)
    model.predict(X[100:])
    n_pairs = 200 * len(model.prototypes_)
    assert sum(n for n, _ in solved) < 0.7 * n_pairs
    # The nearest of each row, and few more; none twice.
    assert 200 <= sum(n for n, tol in solved if tol < 1e-4) < 0.4 * n_pairs
    assert len(set(solved_pairs)) == len(solved_pairs)


@pytest.mark.parametrize("largest", [0.0, 3.0])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_what_is_taken_off_the_costs_decides_with_them(rng, container, largest):
    X, _ = shapes_of_two(rng, 170)
    X /= X.sum(axis=1, keepdims=True)
    queries, prototypes = X[:150], X[150:]
    # As much as the costs differ by: a prototype that is far may be the one that counts.
    own = rng.permutation(np.linspace(-largest, largest, len(prototypes)))
    options = {"M": grid_ground_distance(24), "reg": 0.5, "max_iter": 1000, "n_jobs": 1}
    exact = sinkhorn_distances(*(queries, prototypes), cost="regularized", tol=1e-8, **options)
    for inverse_temperature in (0.5, 16.0, 64.0):
        found = _decisive.decisive_costs(
            *(container(queries), prototypes, own),
            inverse_temperature=inverse_temperature,
            **options,
        )
        np.testing.assert_allclose(
            softmax(-inverse_temperature * found, axis=1),
            softmax(-inverse_temperature * (exact - own), axis=1),
            atol=1e-6,
        )
