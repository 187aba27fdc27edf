"""The support vector machine in input space: its steps, its scores, and its contract."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from histrs import _histrs
from histrs.svm import IntersectionSVC
from histrs.svm._input_space import Problem
from tests.helpers import awkward_histograms
from tests.oracles import svm as oracle

pytestmark = pytest.mark.simd_paths


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1000], y[:1000], X[1000:], y[1000:]


def parts(X):
    X = sparse.csr_matrix(X)
    return X.data, X.indices.astype(np.int32), X.indptr.astype(np.int64), X.shape[1]


@given(
    n=st.sampled_from([1, 2, 17]),
    n_features=st.sampled_from([1, 7, 8, 9, 33]),
    n_classes=st.integers(1, 3),
    alpha=st.sampled_from([0.0, 1e-3, 0.3]),
    t=st.sampled_from([0.0, 0.37, 1.0]),
    scale=st.sampled_from([2.0**-60, 1.0, 2.0**60]),
    seed=st.integers(0, 99),
)
def test_a_pass_is_the_algorithm(n, n_features, n_classes, alpha, t, scale, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n, n_features)) * (rng.random((n, n_features)) < 0.7) * scale
    signs = np.where(rng.random((n_classes, n)) < 0.5, -1.0, 1.0)
    weights = rng.uniform(0.5, 2.0, (n_classes, n))
    w = rng.normal(size=(n_classes, n_features)) * scale / 3
    order = np.tile(rng.permutation(n), 3)
    steps = (0.3 * n_features * scale, 0.0371 * scale, alpha, t * scale)
    expected = [
        oracle.one_pass(X, *p[:2], order, p[2], *steps) for p in zip(signs, weights, w, strict=True)
    ]
    for x in (X, parts(X)):
        actual = _histrs.svm_epoch(x, signs, weights, order, w, steps, 2)
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-11 * scale)


@given(
    n=st.sampled_from([0, 1, 63, 64, 65]),
    n_features=st.sampled_from([1, 7, 8, 9, 15, 17, 256, 257]),
    n_classes=st.integers(1, 4),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 99),
)
def test_scores_are_their_definition(n, n_features, n_classes, dtype, seed):
    rng = np.random.default_rng(seed)
    X = np.floor(rng.random((n, n_features)) * 5).astype(dtype)
    w = np.floor(rng.normal(size=(n_classes, n_features)) * 3)
    expected = np.array([[oracle.score(v, x) for v in w] for x in X.astype(float)])
    for x in (X, parts(X), np.asfortranarray(X)):
        actual = _histrs.svm_scores(x, w, None, 2)
        assert actual.dtype == dtype
        np.testing.assert_array_equal(actual, expected.reshape(n, n_classes))


@given(
    n=st.sampled_from([1, 4, 5, 65]),
    n_features=st.sampled_from([1, 7, 8, 9, 17, 257]),
    n_classes=st.sampled_from([1, 2, 6]),
    value=st.sampled_from([-1e-30, -1.0, np.inf, -np.inf, np.nan]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 9999),
)
def test_scores_name_the_first_bad_entry(n, n_features, n_classes, value, dtype, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n, n_features)).astype(dtype)
    w = rng.standard_normal((n_classes, n_features))
    row, column = rng.integers(n), rng.integers(n_features)
    X[row, column] = value
    for x in (X, parts(X), np.asfortranarray(X)):
        with pytest.raises(ValueError, match=rf"X\[{row}, {column}\]"):
            _histrs.svm_scores(x, w, None, 2)


PLAIN = {"scale": "none", "fit_intercept": False, "smoothing": "none", "average": False}


@pytest.mark.parametrize("options", [PLAIN, {**PLAIN, "scale": "spread", "fit_intercept": True}])
def test_fit_is_the_algorithm_with_the_drop_of_the_step(rng, options):
    X, y = awkward_histograms(rng, 30), np.arange(30) % 2
    X[:, 1] += 1e-3
    model = IntersectionSVC(max_iter=6, random_state=3, **options).fit(X, y)
    beyond = X - X.min(axis=0)
    spread = np.where(beyond.std(axis=0) > 0, beyond.std(axis=0), 1.0)
    unit = spread if options["scale"] == "spread" else np.ones(X.shape[1])
    Z = beyond / unit
    row, entry = Z.sum(axis=1).mean(), Z[Z > 0].mean()
    np.testing.assert_allclose(model.offset_, X.min(axis=0), rtol=1e-14)
    np.testing.assert_allclose(model.scale_, unit, rtol=1e-12)
    np.testing.assert_allclose([model.margin_, model.eta_], [0.03 * row, 0.1 * entry], rtol=1e-12)
    rows = Z
    if options["fit_intercept"]:
        rows = np.hstack([Z, np.full((30, 1), 10 * row + Z.max())])
    order = np.random.RandomState(3)
    order.randint(np.iinfo(np.int32).max)
    w, r = np.zeros(rows.shape[1]), model.eta_
    for iteration in range(6):
        r = r / 10 if iteration == 3 else r
        turn = order.permutation(30)
        w = oracle.one_pass(rows, 2 * y - 1, np.ones(30), turn, w, model.margin_, r, model.alpha)
    np.testing.assert_allclose(model.coef_[0], w[: X.shape[1]] * unit, rtol=1e-9, atol=1e-13)
    b = w[-1] if options["fit_intercept"] else 0.0
    np.testing.assert_allclose(model.intercept_, [b], rtol=1e-9)
    scores = [oracle.score(w[: X.shape[1]], z) + b for z in Z]
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-8, atol=1e-12)


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


def test_the_average_is_over_the_passes_after_the_drop(rng):
    X, y = rng.random((40, 5)), np.arange(40) % 2
    passes = np.empty((4, 1, 6))
    with pytest.MonkeyPatch.context() as patch:
        one_pass = Problem.after_pass
        kept = iter(passes)

        def keep(self, *arguments):
            w = next(kept)
            w[:] = one_pass(self, *arguments)
            return w

        patch.setattr(Problem, "after_pass", keep)
        model = IntersectionSVC(max_iter=4, random_state=0, average=True).fit(X, y)
    mean = passes[2:].mean(axis=0)
    np.testing.assert_allclose(model.coef_, mean[:, :5] * model.scale_, rtol=1e-14)
    np.testing.assert_allclose(model.intercept_, mean[:, 5], rtol=1e-14)


def test_partial_fit_learns_and_asks_for_classes(digits):
    X, y, X_test, y_test = digits
    model = IntersectionSVC(random_state=0)
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit(X, y)
    for _ in range(5):
        model.partial_fit(X[:500], y[:500], classes=np.arange(10)).partial_fit(X[500:], y[500:])
    assert model.n_iter_ == 10
    assert model.score(X_test, y_test) > 0.8
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X[:2], [0, 11])
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="balanced"):
        IntersectionSVC(class_weight="balanced").partial_fit(X, y, classes=np.arange(10))


def test_weights(rng):
    X, y = rng.random((40, 5)), np.arange(40) % 2
    model = IntersectionSVC(max_iter=10, random_state=0)
    weighted = model.fit(X, y, np.where(y == 1, 3.0, 1.0)).coef_
    by_class = model.set_params(class_weight={1: 3.0}).fit(X, y).coef_
    np.testing.assert_array_equal(weighted, by_class)
    assert not np.array_equal(weighted, model.set_params(class_weight=None).fit(X, y).coef_)
    without = model.fit(X[10:], y[10:]).coef_
    np.testing.assert_array_equal(model.fit(X, y, np.arange(40) >= 10).coef_, without)


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


def test_early_stopping(digits):
    X, y, X_test, y_test = digits
    model = IntersectionSVC(early_stopping=True, max_iter=200, random_state=0).fit(X, y)
    assert model.n_iter_ < 200
    assert model.score(X_test, y_test) > 0.85
    with pytest.warns(ConvergenceWarning, match="max_iter = 2"):
        IntersectionSVC(early_stopping=True, max_iter=2, random_state=0).fit(X, y)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_bad_input_leaves_the_model_as_it_was(rng, value):
    X, y = rng.random((20, 4)), np.arange(20) % 2
    model = IntersectionSVC(max_iter=2, random_state=0).fit(X, y)
    before = model.coef_.copy()
    X[3, 2] = value
    for call in (
        lambda: model.fit(X, y),
        lambda: model.predict(X),
        lambda: model.partial_fit(X, y),
    ):
        with pytest.raises(ValueError, match=r"X\[3, 2\]"):
            call()
    with pytest.raises(ValueError, match="one class"):
        model.fit(X[:3], [1, 1, 1])
    np.testing.assert_array_equal(model.coef_, before)


def test_the_objective_is_its_definition(rng):
    X = rng.random((30, 5))
    signs = np.where(rng.random((3, 30)) < 0.5, -1.0, 1.0)
    weights = rng.uniform(0.5, 2.0, (3, 30))
    coef = rng.normal(size=(3, 5))
    expected = 0.0
    for s, c, w in zip(signs, weights, coef, strict=True):
        scores = np.array([oracle.score(w, x) for x in X])
        losses = c * np.maximum(0.0, 0.7 - s * scores)
        expected += 0.3 * np.abs(w).sum() + losses.mean()
    for container in (np.asarray, sparse.csr_array):
        found = Problem(container(X), signs, weights, 0.7, 0.3, 2).objective(coef)
        assert found == pytest.approx(expected, rel=1e-12)


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
