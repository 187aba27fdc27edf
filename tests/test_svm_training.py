"""The passes of the support vector machine in input space, all of them, and what is refused."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from histrs._calibration import likely_inverse_temperature
from histrs.svm import IntersectionSVC
from histrs.svm._held_out import folds
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


def test_the_intercept_is_learned_beside_an_enormous_entry(rows):
    X, y = rows
    X[0, 0] = 1000.0
    model = IntersectionSVC(scale="none", smoothing="none", max_iter=6, random_state=5).fit(X, y)
    w, _, _ = trained(X, y, model)
    np.testing.assert_allclose(model.coef_, w[:, :5], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, w[:, 5], rtol=1e-9, atol=1e-12)
    assert model.intercept_.any()


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


def test_passes_that_are_shown_are_all_made(rows, capsys):
    X, y = rows
    quiet = IntersectionSVC(smoothing="none", eta0=0.4, max_iter=60, random_state=5).fit(X, y)
    loud = clone(quiet).set_params(verbose=1).fit(X, y)
    assert quiet.n_iter_ == loud.n_iter_ == 60
    np.testing.assert_array_equal(loud.coef_, quiet.coef_)


def test_an_objective_of_zero_falls_no_more():
    X, y = np.tile(np.eye(2), (10, 1)), np.tile([0, 1], 10)
    model = IntersectionSVC(
        alpha=0.0, smoothing="none", early_stopping=True, max_iter=100, random_state=0
    ).fit(X, y)
    scores = np.where(y == 1, 1, -1) * model.decision_function(X)
    assert np.all(scores >= model.margin_)
    assert model.n_iter_ < 100


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_entries_whose_squares_overflow_get_units(rng, container):
    X = rng.random((50, 5)) * 1e200
    y = X[:, 0] > X[:, 1]
    model = IntersectionSVC(random_state=0).fit(container(X), y)
    assert np.all(model.scale_ > 1e199)
    assert model.score(container(X), y) > 0.8


# ---- further batches ----------------------------------------------------------------------------


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_batches_are_passes_that_go_on(rows, average, first):
    X, y = rows
    # The same units and lengths in each batch.
    X = np.vstack([X, X[::-1]])
    y = np.append(y, y[::-1])
    weights = np.random.default_rng(1).random(60) + 0.5
    model = IntersectionSVC(
        scale="none", fit_intercept=False, smoothing="none", average=average, max_iter=3,
        alpha=0.01, random_state=5, class_weight={1: 2.0},
    )  # fmt: skip
    signs = np.where(y == np.arange(3)[:, None], 1.0, -1.0)
    by_class = np.where(y == 1, 2.0, 1.0)
    random = np.random.RandomState(5)
    if first == "fit":
        model.fit(X, y)
        seed, w, kept = random.randint(np.iinfo(np.int32).max), None, []
        w = model._steps.last
        kept = [model.coef_] * 2 if average else []
    else:
        model.partial_fit(X, y, [0, 1, 2], weights)
        seed = random.randint(np.iinfo(np.int32).max)
        w = one_batch(model, X, signs, weights * by_class, random.permutation(60), np.zeros((3, 5)))
        kept = [w]
        expected = np.mean(kept, axis=0)
        np.testing.assert_allclose(model.coef_, expected, rtol=1e-9, atol=1e-12)
    for _ in range(2):
        model.partial_fit(X, y, sample_weight=weights)
        random = np.random.RandomState(seed)
        seed = random.randint(np.iinfo(np.int32).max)
        w = one_batch(model, X, signs, weights * by_class, random.permutation(60), w)
        kept.append(w)
        expected = np.mean(kept, axis=0) if average else w
        np.testing.assert_allclose(model.coef_, expected, rtol=1e-9, atol=1e-12)
    assert model.n_iter_ == (5 if first == "fit" else 3)


def one_batch(model, X, signs, weights, order, w):
    begin = np.where((X > 0).all(axis=0), X.min(axis=0), 0.0)
    steps = model.margin_, model.eta_, model.alpha
    return np.array(
        [
            oracle.one_pass(X - begin, s, weights, order, v, *steps)
            for s, v in zip(signs, w, strict=True)
        ]
    )


def test_what_partial_fit_refuses(rows):
    X, y = rows
    model = IntersectionSVC(random_state=0)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="number of classes has to be greater than one"):
        model.partial_fit(X[y == 1], y[y == 1], classes=[1])
    with pytest.raises(ValueError, match="y holds 2, which is not in classes; list it there"):
        model.partial_fit(X, y, classes=[0, 1])
    assert not hasattr(model, "coef_")
    model.partial_fit(X, y, classes=[2, 0, 1])
    model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"classes = \[0, 1\] differ from those before"):
        model.partial_fit(X[y < 2], y[y < 2], classes=[0, 1])
    assert model.n_iter_ == 2


def test_units_and_lengths_of_batches(rng):
    # A column varies for the first time in the second batch, and another one in the third.
    first = np.array([[1.0, 2.0, 0.0], [3.0, 2.0, 0.0]])
    second = np.array([[2.0, 5.0, 0.0], [2.0, 4.0, 0.0], [1.0, 2.0, 0.0]])
    third = np.array([[2.0, 3.0, 4.0], [9.0, 9.0, 0.0]])
    last = 100 * rng.random((4, 3))
    for container in (np.asarray, sparse.csr_array):
        model = IntersectionSVC(scale="spread", random_state=0)
        model.partial_fit(container(first), [0, 1], classes=[0, 1])
        assert model.scale_.tolist() == [1.0, 1.0, 1.0]
        model.partial_fit(container(second), [0, 1, 1])
        seen = np.vstack([first, second])
        np.testing.assert_allclose(model.scale_, [1.0, seen[:, 1].std(), 1.0], rtol=1e-9)
        assert model.offset_.tolist() == [1.0, 2.0, 0.0]
        model.partial_fit(container(third), [0, 1])
        spread = np.append(seen[:, 2], third[:, 2]).std()
        np.testing.assert_allclose(model.scale_, [1.0, seen[:, 1].std(), spread], rtol=1e-9)
        kept = model.scale_, model.offset_, model.eta_, model.margin_
        model.partial_fit(container(last), [0, 1, 1, 0])
        for a, b in zip(
            kept, (model.scale_, model.offset_, model.eta_, model.margin_), strict=True
        ):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_lengths_are_those_up_to_the_last_column_that_varied(rng, container):
    # In which batch each column varies for the first time, of which others stay as they are.
    first = np.array([0, 0, 2, 4])
    model = IntersectionSVC(scale="none", margin=0.5, eta0=0.25, random_state=0)
    seen = np.empty((0, 4))
    for batch in range(6):
        X = np.where(first <= batch, (1 + rng.random((5, 4))) * 3.0**batch, 2.0)
        model.partial_fit(container(X), [0, 1, 1, 0, 1], classes=[0, 1])
        seen = np.vstack([seen, np.maximum(X - model.offset_, 0.0)])
        if batch in first:
            expected = 0.5 * seen.sum(axis=1).mean(), 0.25 * seen[seen > 0].mean()
        np.testing.assert_allclose([model.margin_, model.eta_], expected, rtol=1e-12)


def test_columns_that_vary_later_get_the_units_that_others_needed(rng):
    X = np.column_stack([1e6 * rng.random(20), rng.random((20, 3))])
    X[:10, 3] = 0.0
    for scale in ("auto", "spread"):
        model = IntersectionSVC(scale=scale, random_state=0)
        model.partial_fit(X[:10], np.arange(10) % 2, classes=[0, 1])
        model.partial_fit(X[10:], np.arange(10) % 2)
        units = [*X[:10, :3].std(axis=0), X[:, 3].std()]
        np.testing.assert_allclose(model.scale_, units, rtol=1e-9)


# ---- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_a_softmax_of_scores(rows, n_classes):
    X, y = rows
    y = y % n_classes
    model = IntersectionSVC(probability=True, random_state=0).fit(X, y)
    scores = model.decision_function(X)
    logits = np.column_stack([np.zeros(30), scores]) if n_classes == 2 else scores
    P = np.exp(model.inverse_temperature_ * logits)
    np.testing.assert_allclose(model.predict_proba(X), P / P.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_array_equal(model.coef_, IntersectionSVC(random_state=0).fit(X, y).coef_)
    # They are those of this fit.
    assert not hasattr(model.set_params(probability=False).fit(X, y), "predict_proba")
    model.set_params(probability=True).fit(X, y)
    assert not hasattr(model.partial_fit(X, y), "predict_proba")
    assert hasattr(IntersectionSVC(probability=True), "predict_proba")
    assert not hasattr(IntersectionSVC(), "predict_proba")


def test_probabilities_need_rows_to_hold_out():
    with pytest.raises(ValueError, match="probability = True needs two rows of a class or more"):
        IntersectionSVC(probability=True).fit([[1.0, 2.0], [2.0, 1.0]], [0, 1])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_temperature_is_the_likeliest_for_rows_held_out(rows, n_classes):
    X, y = rows
    y = y % n_classes
    weight = np.random.default_rng(2).random(30) + 0.1
    model = IntersectionSVC(random_state=3, class_weight={0: 2.0}, probability=True)
    model.fit(X, y, weight)
    plain = clone(model).set_params(probability=False)
    logits = np.zeros((30, n_classes))
    for learned, others in folds(y, np.random.RandomState(3)):
        plain.fit(X[learned], y[learned], weight[learned])
        found = plain.decision_function(X[others])
        logits[others, 3 - n_classes :] = found.reshape(len(others), -1)
    total = weight * np.where(y == 0, 2.0, 1.0)
    distances = logits.max(axis=1, keepdims=True) - logits
    expected = likely_inverse_temperature(distances, y, total, weight)
    assert model.inverse_temperature_ == pytest.approx(expected, rel=1e-6)


def test_scores_in_single_precision_may_be_infinite(rows):
    X, y = rows
    model = IntersectionSVC(random_state=0).fit(X, y)
    model.intercept_[:] = [1e300, 0.0, -1e300]
    scores = model.decision_function(X.astype(np.float32))
    assert scores.dtype == np.float32
    assert np.all(scores[:, 0] == np.inf)
    assert np.isfinite(scores[:, 1]).all()
    assert np.all(scores[:, 2] == -np.inf)
    # In double precision, none of the differences of scores is above the range.
    model.inverse_temperature_ = 4.0
    model.intercept_[:] = [1.5e308, 0.0, -1.5e308]
    np.testing.assert_array_equal(model.predict_proba(X), np.tile([1.0, 0.0, 0.0], (30, 1)))


def test_weights_that_overflow_in_units_of_the_rows(rng):
    X = np.hstack([rng.random((20, 1)) * 1e300, rng.random((20, 1))])
    model = IntersectionSVC(scale="spread", eta0=1e20, random_state=0)
    with pytest.raises(ValueError, match="The weights overflow in units of X"):
        model.fit(X, np.arange(20) % 2)


def test_the_columns_are_those_of_the_fit(rows):
    X, y = rows
    model = IntersectionSVC(random_state=0)
    for call in (lambda: model.predict(X), model.sparsify, model.densify):
        with pytest.raises(NotFittedError):
            call()
    model.fit(X, y)
    for call in (model.predict, lambda X: model.partial_fit(X, y)):
        with pytest.raises(ValueError, match="X has 3 features, but Intersection"):
            call(X[:, :3])
    assert model.fit(X[:, :3], y).n_features_in_ == 3
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        model.fit(X, X[:, 0])


def test_passes_of_folds_are_not_shown(rows, capsys, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    IntersectionSVC(probability=True, max_iter=3, verbose=1, random_state=0).fit(*rows)
    assert len(capsys.readouterr().err.splitlines()) == 3
