"""The passes of the support vector machine in input space, all of them, and what is refused."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs.svm import IntersectionSVC
from tests.oracles import svm as oracle

pytestmark = pytest.mark.simd_paths


def trained(X, y, model, weights=None):
    """Return the oracle's weights, passes and best objective, in units of the columns."""
    n = len(X)
    begin = np.where((X > 0).all(axis=0), X.min(axis=0), 0.0)
    Z = X - begin
    largest = Z.max() if model.smoothing == "continuation" else 0.0
    margin, r = model.margin * Z.sum() / n, model.eta0 * Z[Z > 0].mean()
    if model.fit_intercept:
        Z = np.hstack([Z, np.full((n, 1), 10 * Z.sum() / n + Z.max())])
    random = np.random.RandomState(model.random_state)
    random.randint(np.iinfo(np.int32).max)
    orders = [random.permutation(n) for _ in range(model.max_iter)]
    classes = np.unique(y)[1 if len(np.unique(y)) == 2 else 0 :]
    signs = np.where(y == classes[:, None], 1.0, -1.0)
    weights = np.ones(n) if weights is None else weights
    mean = weights.mean()
    w, passes, best = oracle.training(
        *(Z, signs, np.tile(weights / mean, (len(signs), 1)), orders, margin, r),
        model.alpha / mean,
        largest=largest,
        averaged=model.average,
        early=model.early_stopping,
    )
    return w, passes, best * mean


@pytest.fixture
def rows(rng):
    X = rng.random((30, 5)) * (rng.random((30, 5)) < 0.8)
    X[:, 1] += 0.2
    return X, np.argmax(X[:, :3] + 0.4 * rng.random((30, 3)), axis=1)


@pytest.mark.parametrize("smoothing", ["none", "continuation"])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("max_iter", [1, 2, 7, 8])
@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 1: 0.5}])
def test_training_is_the_algorithm(rows, smoothing, average, max_iter, class_weight):
    X, y = rows
    model = IntersectionSVC(
        scale="none", smoothing=smoothing, average=average, max_iter=max_iter, random_state=5,
        class_weight=class_weight, alpha=0.01,
    ).fit(X, y)  # fmt: skip
    weights = np.array([(class_weight or {}).get(k, 1.0) for k in y])
    w, passes, _ = trained(X, y, model, weights)
    assert model.n_iter_ == passes == max_iter
    np.testing.assert_allclose(model.coef_, w[:, :5], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, w[:, 5], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("smoothing", ["none", "continuation"])
@pytest.mark.parametrize("eta0", [0.02, 0.1, 0.4])
def test_early_stopping_drops_the_step_and_then_ends(rows, smoothing, eta0):
    X, y = rows
    model = IntersectionSVC(
        scale="none", smoothing=smoothing, fit_intercept=False, early_stopping=True, max_iter=300,
        eta0=eta0, random_state=5,
    ).fit(X, y)  # fmt: skip
    w, passes, _ = trained(X, y, model)
    assert model.n_iter_ == passes < 300
    np.testing.assert_allclose(model.coef_, w, rtol=1e-9, atol=1e-12)
    assert not model.intercept_.any()


def test_the_warning_tells_the_objective(rows):
    X, y = rows
    model = IntersectionSVC(
        scale="none", smoothing="none", early_stopping=True, max_iter=4, random_state=5,
        class_weight={0: 4.0},
    )  # fmt: skip
    _, _, best = trained(X, y, model, np.where(y == 0, 4.0, 1.0))
    with pytest.warns(ConvergenceWarning, match=rf"The objective, {best:.3g}, was still falling"):
        model.fit(X, y)


def test_passes_are_shown_with_the_objective(rows, capsys, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    X, y = rows
    settings = {"smoothing": "none", "max_iter": 3, "random_state": 5, "class_weight": {0: 4.0}}
    quiet = IntersectionSVC(scale="none", **settings).fit(X, y)
    assert not capsys.readouterr().err
    loud = IntersectionSVC(scale="none", verbose=1, **settings).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    np.testing.assert_array_equal(loud.coef_, quiet.coef_)
    early = IntersectionSVC(scale="none", early_stopping=True, **settings)
    _, _, best = trained(X, y, early, np.where(y == 0, 4.0, 1.0))
    assert lines[-1].endswith(f"best {best:.6g}")


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_entries_whose_squares_overflow_get_units(rng, container):
    X = rng.random((50, 5)) * 1e200
    y = X[:, 0] > X[:, 1]
    model = IntersectionSVC(random_state=0).fit(container(X), y)
    assert np.all(model.scale_ > 1e199)
    assert model.score(container(X), y) > 0.8
