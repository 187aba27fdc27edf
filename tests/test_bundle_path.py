"""Strengths chosen by rows held out, and fits that go on from the one before."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from histrs.kernel_approximation import SparseAdditiveMap
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC
from histrs.svm._bundle_solver import (
    _Search,
    solve,
)
from histrs.svm._held_out import folds

ALPHAS = [1e-2, 1e-1, 1.0, 1e-3]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    rows = y < 4
    return X[rows][:300] / 16, y[rows][:300]


MODELS = {
    "rows": BundleSVC(tol=1e-4),
    "logistic": BundleSVC(tol=1e-4, loss="logistic"),
    "map": BundleSVC(SparseAdditiveMap(n_knots=4), tol=1e-4),
    "codes": BundleSVC(ProductQuantizer(8, 8, metric="hellinger", random_state=0), tol=1e-4),
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@each_model
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_strength_is_chosen_by_rows_held_out(digits, model, n_classes):
    X, y = digits
    X, y = X[y < n_classes], y[y < n_classes]
    w = np.where(y == 0, 1.5, 1.0)
    chosen = clone(model).set_params(alpha=ALPHAS, cv=3, random_state=0)
    chosen.fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(chosen.alphas_, [1.0, 1e-1, 1e-2, 1e-3])
    expected = np.empty((4, 3))
    # The map of the folds is that of all rows.
    frozen = chosen.feature_map_
    features = X if frozen is None else frozen.transform(X)
    parts = list(folds(y, np.random.RandomState(0), 3))
    for j, (learned, others) in enumerate(parts):
        for i, alpha in enumerate(chosen.alphas_):
            one = clone(model).set_params(alpha=alpha)
            if frozen is not None:
                one.set_params(input="features").feature_map = frozen
            one.fit(features[learned], y[learned], sample_weight=w[learned])
            expected[i, j] = one.score(features[others], y[others], sample_weight=w[others])
    # Both are solved to a gap, within which a row or two may change sides.
    np.testing.assert_allclose(chosen.cv_scores_, expected, atol=0.04)
    mass = [w[others].sum() for _, others in parts]
    best = np.argmax(np.average(chosen.cv_scores_, axis=1, weights=mass))
    assert chosen.alpha_ == chosen.alphas_[best]
    plain = clone(model).set_params(alpha=chosen.alpha_).fit(X, y, sample_weight=w)
    gap = plain.dual_gap_ + chosen.dual_gap_
    assert np.all(np.abs(plain.objective_ - chosen.objective_) <= gap + 1e-12)
    assert np.all(chosen.dual_gap_ <= 1e-4 * chosen.objective_)


@each_model
def test_a_warm_start_takes_fewer_passes_to_the_same_minimum(digits, model):
    X, y = digits
    warm = clone(model).set_params(alpha=1e-2, warm_start=True).fit(X, y)
    kept = warm.feature_map_
    cold = clone(model).set_params(alpha=5e-3).fit(X, y)
    warm.set_params(alpha=5e-3).fit(X, y)
    assert warm.feature_map_ is kept
    gap = warm.dual_gap_ + cold.dual_gap_
    assert np.all(np.abs(warm.objective_ - cold.objective_) <= gap + 1e-12)
    assert warm.n_iter_ <= cold.n_iter_
    assert warm.alpha_ == 5e-3


def value_of(rows, targets, alpha, models):
    """Return the hinge objective of models whose inner product is the identity."""
    signs = np.where(targets.labels == targets.positive[:, None], 1.0, -1.0)
    losses = np.maximum(0.0, 1 - signs * rows.scores(models)) @ targets.weights
    return alpha / 2 * np.sum(models**2, axis=1) + losses


def test_a_start_counts_where_it_is_better_than_none(digits):
    X, y = digits
    model = BundleSVC(tol=1e-4, fit_intercept=False).fit(X, y)
    rows, targets = model._rows(X), model._targets(y, np.ones(len(y)))
    start = solve(rows, targets, 1e-2, 1e-4, 1000)
    # The penalty decides for one of the models, the losses for another.
    models = start.models * np.array([[1.0], [4.0], [-1.0], [0.0]])
    start = replace(start, models=models, squares=np.sum(models**2, axis=1), planes=())
    for alpha in np.geomspace(1e-2, 10.0, 20):
        begun = solve(rows, targets, alpha, 1e-4, 0, start=start)
        values = value_of(rows, targets, alpha, start.models)
        none = value_of(rows, targets, alpha, np.zeros_like(models))
        better = values < none
        np.testing.assert_array_equal(begun.models, np.where(better[:, None], models, 0.0))
        np.testing.assert_allclose(begun.objective, np.minimum(values, none), rtol=1e-12)
        np.testing.assert_allclose(begun.squares, np.sum(begun.models**2, axis=1), rtol=1e-12)
        for max_iter in (1, 2):
            after = solve(rows, targets, alpha, 1e-4, max_iter, start=start)
            assert np.all(after.objective <= begun.objective * (1 + 1e-12))
            np.testing.assert_allclose(
                after.objective, value_of(rows, targets, alpha, after.models), rtol=1e-9
            )


def test_planes_of_models_that_are_not_taken_are_below_the_loss(digits):
    X, y = digits
    model = BundleSVC(tol=1e-4, fit_intercept=False).fit(X, y)
    rows, targets = model._rows(X), model._targets(y, np.ones(len(y)))
    for alpha in (0.3, 3.0, 30.0):
        start = solve(rows, targets, 1e-4, 1e-3, 1000)
        one, other = (solve(rows, targets, alpha, 1e-6, 1000, start=s) for s in (start, None))
        value = value_of(rows, targets, alpha, one.models)
        np.testing.assert_allclose(one.objective, value, rtol=1e-9)
        np.testing.assert_allclose(one.squares, np.sum(one.models**2, axis=1), rtol=1e-6)
        gap = one.dual_gap + other.dual_gap
        assert np.all(one.dual_gap <= 1e-6 * one.objective)
        assert np.all(np.abs(one.objective - other.objective) <= gap + 1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_problem_without_progress_ends(monkeypatch):
    gaps = {}

    def note(self, place, cut):
        for k, gap in zip(self.active, self.gaps()[self.active], strict=True):
            gaps.setdefault(k, []).append(gap)
        retire(self, place, cut)

    retire = _Search._retire
    monkeypatch.setattr(_Search, "_retire", note)
    # Bounds that never get nearer than so much, as those that rounding holds back.
    floor, gaps_of = np.array([1e-3, 1e-6, 1e-9]), _Search.gaps
    monkeypatch.setattr(_Search, "gaps", lambda self: gaps_of(self) + floor)
    rng = np.random.RandomState(0)
    X, y = rng.rand(30, 3), rng.randint(0, 3, 30)
    model = BundleSVC(tol=0.0, alpha=1e-3, max_iter=10_000, loss="squared_hinge").fit(X, y)
    assert model.n_iter_ == max(map(len, gaps.values())) < 10_000
    assert sorted(gaps) == [0, 1, 2]
    for k, of_problem in gaps.items():
        least, stale = np.inf, 0
        for gap in of_problem[:-1]:
            stale = 0 if gap < 0.999 * least else stale + 1
            least = min(least, gap)
            assert stale < 100
        assert stale == 99
        assert floor[k] <= of_problem[-1] < 1.01 * floor[k]
        assert of_problem[-1] >= 0.999 * least


def test_no_gap_is_within_any_tolerance():
    # Eight losses of 1, whose mean has no rounding.
    model = BundleSVC(tol=0.0, alpha=0.1, fit_intercept=False)
    model.fit(np.zeros((8, 2)), [0, 1] * 4)
    assert (model.n_iter_, model.objective_, model.dual_gap_) == (1, 1.0, 0.0)


def test_what_is_no_start_is_refused(digits):
    X, y = digits
    model = BundleSVC(alpha=1e-2, warm_start=True).fit(X, y)
    before = model.coef_.copy()
    for change in ({"intercept_scaling": 2.0}, {"fit_intercept": False}):
        with pytest.raises(ValueError, match="warm_start = True, but"):
            _refit(model, X, y, change)
    with pytest.raises(ValueError, match="warm_start = True, but"):
        model.fit(X[:, :-1], y)
    with pytest.raises(ValueError, match="warm_start = True, but"):
        model.fit(X, y + 1)
    np.testing.assert_array_equal(model.coef_, before)
    model.set_params(warm_start=False).fit(X[:, :-1], y + 1)


def _refit(model, X, y, change):
    kept = {name: getattr(model, name) for name in change}
    try:
        model.set_params(**change).fit(X, y)
    finally:
        model.set_params(**kept)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": [0.1, -1.0]}, "expected positive"),
        ({"alpha": [0.1, 0.0]}, "expected positive"),
        ({"alpha": []}, "expected positive"),
        ({"alpha": [[0.1]]}, "expected positive"),
        ({"alpha": [np.inf]}, "expected positive"),
    ],
)
def test_bad_paths_are_refused(digits, parameters, message):
    with pytest.raises(ValueError, match=message):
        BundleSVC(**parameters).fit(*digits)


def test_a_path_needs_rows_to_hold_out():
    with pytest.raises(ValueError, match="several alpha need two rows of a class, of which one"):
        BundleSVC(alpha=[0.1]).fit([[0.0], [1.0]], [0, 1])
