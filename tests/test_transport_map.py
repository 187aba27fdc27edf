"""Maps between samples against the plan that they are means of.

scikit-learn's checks give `fit` labels, where the map is given the rows of the target.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from histrs.transport import TransportMap, sinkhorn


@pytest.fixture
def samples(rng):
    return rng.standard_normal((40, 3)), 2.0 * rng.random((31, 3)) + [5.0, 0.0, -300.0]


@pytest.mark.parametrize("reg", [0.02, 0.5])
def test_rows_of_the_fit_go_to_the_means_of_the_plan(samples, reg):
    X, Y = samples
    model = TransportMap(reg, tol=1e-10, max_iter=100_000).fit(X, Y)
    M = np.square(X[:, None] - Y).sum(axis=2)
    plan = sinkhorn(np.full(40, 1 / 40), np.full(31, 1 / 31), M=M, reg=model.reg_)
    np.testing.assert_allclose(model.transform(X), 40 * plan @ Y, atol=1e-6)


def test_new_rows_are_moved_as_their_neighbours_are(samples):
    X, Y = samples
    model = TransportMap().fit(X, Y)
    moved = model.transform(X)
    np.testing.assert_allclose(model.transform(X + 1e-9), moved, atol=1e-6)
    np.testing.assert_allclose(model.transform(X[3:4]), moved[3:4], rtol=1e-12)
    assert moved.min() >= Y.min()
    assert moved.max() <= Y.max()


def test_a_smooth_map_is_found(rng):
    X = rng.standard_normal((600, 2))
    A = np.array([[2.0, 0.5], [0.5, 1.0]])  # the gradient of a convex function
    model = TransportMap(0.01, max_iter=20_000).fit(X[:300], X[300:] @ A + [9.0, 0.0])
    new = rng.standard_normal((200, 2)) * 0.7
    error = model.transform(new) - (new @ A + [9.0, 0.0])
    assert np.sqrt(np.mean(error**2)) < 0.35


@pytest.mark.parametrize("unit", [2.0**-500, 2.0**500])
def test_units_do_not_matter(samples, unit):
    X, Y = samples
    moved = TransportMap().fit(X, Y).transform(X)
    np.testing.assert_allclose(
        TransportMap().fit(unit * X, unit * Y).transform(unit * X) / unit, moved
    )


def test_single_precision_and_equal_rows(samples):
    X, Y = (np.float32(Z) for Z in samples)
    assert TransportMap().fit(X, Y).transform(X).dtype == np.float32
    np.testing.assert_array_equal(TransportMap().fit(X[:1], Y[:1]).transform(X), Y[[0] * 40])


def test_bad_samples_are_refused(samples):
    X, Y = samples
    model = TransportMap().fit(X, Y)
    before = model.transform(X)
    with pytest.raises(ValueError, match="y has 2 columns but X has 3"):
        model.fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(X, np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match="reg"):
        clone(model).set_params(reg=0.0).fit(X, Y)
    with pytest.raises(ValueError, match="3 features"):
        model.transform(Y[:, :2])
    np.testing.assert_array_equal(model.transform(X), before)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        TransportMap(0.001, max_iter=1).fit(X, Y)
