"""Columns that matter, and the rate of false ones among them."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning

from histrs.feature_selection import SelectRelevant
from histrs.feature_selection._inclusion import Chain, least_false, slab_variances
from histrs.feature_selection._shapes import N_SHAPES, shapes_of
from tests.oracles import inclusion as oracle


def quiet(_):
    """Show nothing."""


def additive(rng, n=120, d=12, noise=0.3):
    """Rows, and targets of columns 2 and 5, or the last."""
    X = rng.random((n, d))
    return X, np.abs(4 * X[:, 2] - 2) + np.sin(6 * X[:, min(5, d - 1)]) + noise * rng.normal(size=n)


def components(x):
    """Components of each row."""
    shapes, cells = shapes_of(x)
    return shapes[cells]


# ---- components of a column -------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 8, 9, 40, 64])
def test_components_are_those_of_the_centred_kernel(rng, n):
    x = rng.choice(rng.normal(size=n), n)
    x[:2] = -1.0, 2.0
    shapes, Z = components(x), oracle.components(x, N_SHAPES)
    np.testing.assert_allclose(shapes @ shapes.T, Z @ Z.T, atol=1e-10)
    assert np.mean(np.sum(shapes**2, axis=1)) == pytest.approx(1.0)
    np.testing.assert_allclose(shapes.mean(axis=0), 0.0, atol=1e-12)


def test_components_of_many_values_are_nearly_those_of_the_kernel(rng):
    x = rng.normal(size=1000)
    shapes, Z = components(x), oracle.components(x, N_SHAPES)
    gap = np.linalg.norm(shapes @ shapes.T - Z @ Z.T) / np.linalg.norm(Z @ Z.T)
    assert gap < 0.05


@pytest.mark.parametrize("share", [0.002, 0.01, 0.02, 0.05])
def test_a_value_of_nearly_all_rows_has_a_cell_of_its_own(rng, share):
    x = rng.random(20_000) * (rng.random(20_000) < share)
    for values in (x, 1.0 - x, -x):
        shapes, cells = shapes_of(values)
        assert len(shapes) <= 127
        assert len(np.unique(cells[x == 0.0])) == 1
        assert not np.any(cells[x > 0.0] == cells[x == 0.0][0])
        assert shapes.any()


# ---- the chain --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_probabilities_are_those_of_all_models(rng, n_outputs):
    n, d = 24, 3
    X = rng.random((n, d))
    X[:, 2] = 0.7 * X[:, 1] + 0.3 * X[:, 2]
    Y = 0.6 * X[:, [1]] + 0.25 * rng.normal(size=(n, n_outputs))
    Y -= Y.mean(axis=0)
    Zs = [oracle.components(x, N_SHAPES) for x in X.T]
    expected = oracle.inclusion_probabilities(Zs, Y, slab_variances(n))
    assert 0.01 < np.min(expected) < np.max(expected) < 0.97  # else the test could not fail
    shapes = np.stack([components(x) for x in X.T], axis=1)
    chain = Chain(shapes, Y, np.sum(Y**2), n, d, np.random.default_rng(0))
    np.testing.assert_allclose(chain.run(1500, 100, quiet), expected, atol=0.03)


def test_the_largest_set_below_the_rate():
    p = np.array([0.2, 0.99, 0.9, 0.0, 0.75])
    assert least_false(p, 0.1).tolist() == [False, True, True, False, False]
    assert least_false(p, 0.12).tolist() == [False, True, True, False, True]
    assert not least_false(p, 0.0).any()
    assert least_false(np.array([1.0, 0.5]), 0.0).tolist() == [True, False]
    assert least_false(p, 1.0).all()


# ---- the selector -----------------------------------------------------------------------------


def test_functions_that_are_not_monotone_are_found(rng):
    X, y = additive(rng)
    select = SelectRelevant(random_state=0).fit(X, y)
    assert select.get_support(indices=True).tolist() == [2, 5]
    assert select.transform(X).shape == (120, 2)
    assert 0.0 <= select.false_discovery_rate_ <= 0.1
    np.testing.assert_array_equal(select.inverse_transform(select.transform(X))[:, 5], X[:, 5])


@pytest.mark.slow
def test_the_rate_holds_and_probabilities_are_calibrated():
    probabilities, truth, false, chosen = [], [], 0, 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        n, d, k = 80, 15, int(rng.integers(0, 6))
        X = rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(n, 1))
        kinds = [np.abs, np.sin, lambda t: 1.0 * (t > 0), lambda t: t]
        f = [rng.uniform(0.3, 1.0) * kinds[rng.integers(4)](X[:, j]) for j in range(k)]
        y = np.sum(f, axis=0) + 0.5 * rng.normal(size=n)
        select = SelectRelevant(n_sweeps=20, random_state=seed).fit(X, y)
        probabilities.append(select.probabilities_)
        truth.append(np.arange(d) < k)
        support = select.get_support()
        false, chosen = false + np.sum(support[k:]), chosen + np.sum(support)
    p, t = np.concatenate(probabilities), np.concatenate(truth)
    assert chosen > 30
    assert false / chosen <= 0.12
    assert t[p > 0.9].mean() > 0.9 - 3 * 0.3 / np.sqrt(np.sum(p > 0.9))
    # Of several hundred columns, within three standard errors.
    assert t[p < 0.1].mean() < 0.1 + 3 * 0.3 / np.sqrt(np.sum(p < 0.1))
    assert abs(p.mean() - t.mean()) < 0.06


def test_noise_alone_has_no_columns(rng):
    X = rng.random((100, 40))
    select = SelectRelevant(random_state=0).fit(X, rng.normal(size=100))
    assert not select.get_support().any()
    assert select.false_discovery_rate_ == 0.0


def test_columns_that_tell_the_same_share_the_probability(rng):
    X, y = additive(rng)
    X[:, 0] = X[:, 2]
    select = SelectRelevant(n_sweeps=300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        p = select.fit(X, y).probabilities_
    assert 0.9 < p[0] + p[2] < 1.3
    assert p[5] > 0.95


def test_the_rate_may_be_set_anew(rng):
    X, y = additive(rng)
    select = SelectRelevant(random_state=0).fit(X, y)
    assert select.set_params(fdr=1.0).get_support().all()


def test_classes_of_any_kind_and_several_targets(rng):
    X, labels = load_iris(return_X_y=True)
    X = np.hstack([X, rng.permutation(X)])
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    select = SelectRelevant(random_state=0).fit(X, names)
    same = SelectRelevant(random_state=0, task="classification").fit(X, labels.astype(float))
    np.testing.assert_array_equal(select.probabilities_, same.probabilities_)
    assert set(select.get_support(indices=True)) <= {0, 1, 2, 3}
    assert select.get_support().any()
    Z, y = additive(rng)
    both = SelectRelevant(random_state=0).fit(Z, np.c_[1e9 * y, Z[:, 7] * 1e-9])
    assert both.get_support(indices=True).tolist() == [2, 5, 7]


def test_integers_are_classes_unless_said_otherwise(rng):
    X, y = additive(rng)
    counts = np.round(3 * y).astype(int)
    select = SelectRelevant(task="regression", random_state=0).fit(X, counts)
    assert select.get_support(indices=True).tolist() == [2, 5]
    with pytest.raises(ValueError, match="Unknown label type"):
        SelectRelevant(task="classification").fit(X, y)


@pytest.mark.parametrize("scale", [1e-290, 1e-12, 1e12, 1e290])
def test_rows_and_targets_have_no_unit(rng, scale):
    X, y = additive(rng, n=60, d=5)
    expected = SelectRelevant(n_sweeps=10, random_state=0).fit(X, y).probabilities_
    for rows, targets in ((X, scale * y), (scale * X, y)):
        found = SelectRelevant(n_sweeps=10, random_state=0).fit(rows, targets).probabilities_
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
def test_more_columns_than_the_chains_see(rng):
    X = rng.random((90, 1300))
    y = 3 * np.abs(X[:, 1234] - 0.5) + X[:, 3] + 0.1 * rng.normal(size=90)
    for rows in (X, sparse.csr_matrix(X)):
        select = SelectRelevant(n_sweeps=6, random_state=0).fit(rows, y)
        assert select.probabilities_.shape == (1300,)
        assert select.get_support(indices=True).tolist() == [3, 1234]
        assert np.all(select.probabilities_ > 0.0)


def test_more_rows_than_are_looked_at():
    rng = np.random.default_rng(0)
    X = rng.random((2200, 260))
    y = X[:, 5] + 0.2 * rng.normal(size=2200)
    select = SelectRelevant(n_sweeps=2, random_state=0).fit(X, y)
    assert select.get_support(indices=True).tolist() == [5]


def test_constant_targets_and_columns(rng):
    X, y = additive(rng, n=20, d=3)
    assert not SelectRelevant().fit(X, np.full(20, 0.5)).probabilities_.any()
    X[:, 1] = 4.0
    assert SelectRelevant(random_state=0).fit(X, y).probabilities_[1] == 0.0
    assert not SelectRelevant().fit(np.ones((20, 2)), y).probabilities_.any()


def test_targets_that_are_a_column(rng):
    X = rng.random((50, 4))
    select = SelectRelevant(random_state=0).fit(X, X[:, 1])
    assert select.get_support(indices=True).tolist() == [1]


def test_chains_that_disagree_are_told(rng, monkeypatch):
    X, y = additive(rng, n=20, d=3)
    answers = iter([np.array([0.1, 0.9, 0.2]), np.array([0.1, 0.2, 0.2])])
    monkeypatch.setattr(Chain, "run", lambda *_: next(answers))
    with pytest.warns(ConvergenceWarning, match=r"disagree about column 1.*0\.90 and 0\.20"):
        SelectRelevant().fit(X, y)


def test_whole_numbers_of_many_values_are_targets(rng):
    X, y = load_diabetes(return_X_y=True)
    assert np.all(y == np.round(y))
    select = SelectRelevant(n_sweeps=50, random_state=0).fit(X, y)
    same = SelectRelevant(n_sweeps=50, random_state=0, task="regression").fit(X, y)
    np.testing.assert_array_equal(select.probabilities_, same.probabilities_)
    assert select.get_support().any()
    with pytest.raises(ValueError, match="y has 1500 classes, more than 1000"):
        SelectRelevant(task="classification").fit(rng.random((3000, 2)), np.arange(3000) % 1500)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_few_of_many_columns_vary(rng, sparse_rows):
    X = np.zeros((300, 1100))
    X[:, ::100] = rng.random((300, 11))
    y = X[:, 300] + 0.1 * rng.normal(size=300)
    rows = sparse.csr_matrix(X) if sparse_rows else X
    select = SelectRelevant(n_sweeps=20, random_state=0).fit(rows, y)
    assert select.get_support(indices=True).tolist() == [300]
    assert np.all((select.probabilities_ > 0) == (np.arange(1100) % 100 == 0))


def test_a_rare_class_is_among_the_rows_that_are_looked_at():
    rng = np.random.default_rng(0)
    X = rng.random((6000, 260))
    y = np.zeros(6000, dtype=int)
    y[:4] = 1
    X[:4, 7] += 3.0
    select = SelectRelevant(n_sweeps=2, random_state=0).fit(X, y)
    assert np.argmax(select.probabilities_) == 7
    with pytest.raises(ValueError, match="rows that were drawn have the same y"):
        SelectRelevant(n_sweeps=2, random_state=0).fit(X, np.where(np.arange(6000) == 0, 0.5, 0.0))
