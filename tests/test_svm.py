"""The support vector machine in input space: steps, passes, scores, and its contract."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from histrs._calibration import likely_inverse_temperature
from histrs.svm import IntersectionSVC
from histrs.svm._held_out import folds
from tests.oracles import svm as oracle

pytestmark = pytest.mark.simd_paths


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1000], y[:1000], X[1000:], y[1000:]


def test_where_columns_begin_does_not_matter(rng):
    X = rng.random((120, 6))
    y = np.where(X[:, 0] + X[:, 1] > X[:, 2] + X[:, 3], "more", "less")
    model = IntersectionSVC(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.93
    for container in (np.asarray, sparse.csr_array):
        shifted = IntersectionSVC(random_state=0).fit(container(X + 5.0), y)
        np.testing.assert_array_equal(shifted.predict(container(X + 5.0)), model.predict(X))
        # Below where a column began in training, nothing changes any more.
        below, end = np.full((1, 6), 4.0), shifted.offset_[None]
        np.testing.assert_array_equal(
            shifted.decision_function(container(below)), shifted.decision_function(end)
        )


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_columns_in_units_of_their_own(rng, container):
    X = rng.random((120, 6))
    y = X[:, 0] > X[:, 1]
    model = IntersectionSVC(scale="spread", random_state=0).fit(container(X), y)
    scaled = container(X * 2.0 ** np.array([0, 40, -40, 100, -100, 3]))
    expected = model.decision_function(container(X))
    for scale in ("spread", "auto"):
        again = IntersectionSVC(scale=scale, random_state=0).fit(scaled, y)
        np.testing.assert_array_equal(again.decision_function(scaled), expected)
    # Columns of about the same size are left as they are, in batches as well.
    plain = IntersectionSVC(scale="none", random_state=0).fit(container(X), y)
    auto = IntersectionSVC(random_state=0).fit(container(X), y)
    np.testing.assert_array_equal(auto.coef_, plain.coef_)
    for rows, size in (
        (X, "none"),
        (scaled.toarray() if sparse.issparse(scaled) else scaled, "spread"),
    ):
        batches = [
            IntersectionSVC(scale=s, random_state=0)
            .partial_fit(container(rows[:60]), y[:60], classes=[False, True])
            .partial_fit(container(rows[60:]), y[60:])
            for s in ("auto", size)
        ]
        np.testing.assert_array_equal(batches[0].coef_, batches[1].coef_)


@pytest.mark.parametrize("largest", [1e-300, 1.0, 1e150])
def test_one_column_of_another_unit_is_noticed(rng, largest):
    X = rng.random((50, 5)) * largest
    X[:, 0] *= 1e-4
    assert np.all(IntersectionSVC(random_state=0).fit(X, X[:, 1] > X[:, 2]).scale_ == 1.0)
    X[:, 0] *= 1e4
    X[:, 1:] *= 1e-3
    assert np.all(IntersectionSVC(random_state=0).fit(X, X[:, 1] > X[:, 2]).scale_ != 1.0)


def test_constant_columns_and_values_beyond_training(rng):
    X, y = rng.random((40, 3)), np.arange(40) % 2
    X[:, 1], X[:, 2] = 0.1, 0.0
    model = IntersectionSVC(max_iter=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_[:, 1:], 0.0)
    for dtype in (np.float32, np.float64):
        large = np.full((1, 3), np.finfo(dtype).max, dtype=dtype)
        assert np.isfinite(model.decision_function(large)).all()
    nothing = IntersectionSVC(max_iter=3, random_state=0).fit(np.ones((4, 2)), [0, 1, 1, 1])
    np.testing.assert_array_equal(nothing.predict(np.ones((2, 2))), 1)


@pytest.mark.parametrize("smoothing", ["none", "continuation"])
@pytest.mark.parametrize("average", [False, True])
def test_digits_at_any_scale_and_number_of_threads(digits, smoothing, average):
    X, y, X_test, y_test = digits
    model = IntersectionSVC(
        smoothing=smoothing, average=average, max_iter=20, random_state=0, n_jobs=1
    )
    coef = model.fit(X, y).coef_
    assert model.score(X_test, y_test) > 0.85
    np.testing.assert_array_equal(model.set_params(n_jobs=2).fit(X, y).coef_, coef)
    np.testing.assert_array_equal(model.fit(sparse.csr_matrix(X), y).coef_, coef)
    np.testing.assert_array_equal(model.fit(X / 2**30, y).coef_, coef / 2**30)
    assert model.intercept_.any()


def test_partial_fit_learns_and_asks_for_classes(digits):
    X, y, X_test, y_test = digits
    model = IntersectionSVC(random_state=0)
    for _ in range(5):
        model.partial_fit(X[:500], y[:500], classes=np.arange(10)).partial_fit(X[500:], y[500:])
    assert model.n_iter_ == 10
    assert model.score(X_test, y_test) > 0.8
    with pytest.raises(ValueError, match="balanced"):
        IntersectionSVC(class_weight="balanced").partial_fit(X, y, classes=np.arange(10))


def test_sparsify_and_pickle(digits):
    X, y, X_test, _ = digits
    model = IntersectionSVC(max_iter=3, random_state=0)
    with pytest.raises(NotFittedError):
        model.sparsify()
    scores = model.fit(X, y).decision_function(X_test)
    coef = model.coef_
    assert sparse.issparse(model.sparsify().coef_)
    model = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.decision_function(X_test), scores)
    np.testing.assert_array_equal(model.densify().densify().coef_, coef)


def test_a_large_penalty_leaves_nothing(digits):
    X, y, *_ = digits
    assert not IntersectionSVC(alpha=10.0, max_iter=2, random_state=0).fit(X, y).coef_.any()


@pytest.mark.parametrize("by", ["sample_weight", "class_weight"])
@pytest.mark.parametrize("factor", [1e-310, 1 / 150, 100.0])
def test_the_size_of_weights_is_that_of_the_penalty(by, factor):
    X, y = load_iris(return_X_y=True)
    model = IntersectionSVC(random_state=0)
    expected = clone(model).set_params(alpha=min(1e-4 / factor, 1e300)).fit(X, y)
    if by == "sample_weight":
        model.fit(X, y, np.full(150, factor))
    else:
        model.set_params(class_weight=dict.fromkeys(range(3), factor)).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), rtol=1e-6)
    assert factor < 1e-300 or model.score(X, y) > 0.9


def test_the_mean_weight_may_be_below_the_least_number():
    X, y = load_iris(return_X_y=True)
    model = IntersectionSVC(class_weight={0: 0.0, 1: 0.0}, random_state=0)
    expected = clone(model).set_params(alpha=1e300).fit(X, y)
    model.fit(X, y, np.full(150, 5e-324))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.intercept_, expected.intercept_)


@pytest.mark.parametrize("scale", ["spread", "none"])
@pytest.mark.parametrize("first", ["one row", "zeros"])
def test_a_first_batch_without_spread_leaves_the_units_open(first, scale):
    X, y = load_iris(return_X_y=True)
    X = 1e4 * X
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    begin = X[:1] if first == "one row" else np.zeros((1, 4))
    seen = np.vstack([begin, X])
    expected = IntersectionSVC(random_state=0, scale=scale)
    for _ in range(30):
        expected.partial_fit(seen, np.append(y[:1], y), classes=range(3))
    for convert in (np.asarray, sparse.csr_array):
        model = IntersectionSVC(random_state=0, scale=scale)
        model.partial_fit(convert(begin), y[:1], classes=range(3))
        assert not model.coef_.any()
        for _ in range(30):
            model.partial_fit(convert(X), y)
        np.testing.assert_allclose(
            [model.eta_, model.margin_], [expected.eta_, expected.margin_], 0.02
        )
        if scale == "spread":
            assert model.score(X, y) > expected.score(X, y) - 0.1
            np.testing.assert_allclose(model.scale_, seen.std(axis=0), rtol=1e-9)
        np.testing.assert_allclose(model.offset_, seen.min(axis=0), rtol=1e-12)


def test_the_intercept_stays_between_batches(rng):
    X, y = rng.random((20, 3)), np.arange(20) % 2
    model = IntersectionSVC(random_state=0).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(
        ValueError, match="fit_intercept = False, but the model was begun with True"
    ):
        model.set_params(fit_intercept=False).partial_fit(X, y)
    assert model.set_params(fit_intercept=True).partial_fit(X, y).n_iter_ == 2


# ---- passes --------------------------------------------------------------------------------------


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
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=r"classes = \[0, 1\] differ from those before"):
        model.partial_fit(X[y < 2], y[y < 2], classes=[0, 1])
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X[:2], [0, 11])
    np.testing.assert_array_equal(model.coef_, before)
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


def test_passes_of_folds_are_not_shown(rows, capsys, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    IntersectionSVC(probability=True, max_iter=3, verbose=1, random_state=0).fit(*rows)
    assert len(capsys.readouterr().err.splitlines()) == 3
