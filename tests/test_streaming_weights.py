"""Weights of rows: sums, and what is learned from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Lasso, Ridge, RidgeClassifier, RidgeCV

from histrs.streaming import MomentGroupLasso, MomentLasso, Moments, PCARidge, PCARidgeClassifier

PARTS = ("m", "H", "v", "y_sum", "y_squares")


@pytest.fixture
def rows(rng):
    X = rng.random((60, 5)) + np.arange(5)
    y = X @ np.arange(5.0) + rng.standard_normal(60)
    return X, y, rng.integers(0, 4, 60)


def assert_close(found, expected, rtol=1e-9):
    """Assert equality but for a part of the largest number."""
    atol = rtol * np.max(np.abs(expected))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol)


def assert_same_moments(one, other):
    assert one.n == pytest.approx(other.n)
    assert one.n_labelled == pytest.approx(other.n_labelled)
    assert one.n_rows == pytest.approx(other.n_rows)
    for name in PARTS:
        assert_close(getattr(one, name), getattr(other, name))


def repeated(counts, *arrays):
    return [np.repeat(array, counts, axis=0) for array in arrays]


# ---- sums ---------------------------------------------------------------------------------------


@given(
    n=st.sampled_from([1, 3, 4095, 4097, 9000]),
    scale=st.sampled_from([1e-200, 1e-3, 1.0, 1e100]),
    cut=st.integers(0, 9000),
    seed=st.integers(0, 20),
)
def test_moments_are_sums_of_rows_times_weights(n, scale, cut, seed):
    rng = np.random.default_rng(seed)
    Z, y = rng.standard_normal((n, 3)) + 5, rng.standard_normal((n, 2))
    relative = rng.random(n) + 0.01
    w = relative * scale
    parts = [slice(0, min(cut, n)), slice(min(cut, n), n)]
    moments = Moments(3, 2)
    for part in parts:
        moments.update(Z[part], y[part], w[part])
    total = relative.sum()
    mean = relative @ Z / total
    assert moments.n == pytest.approx(scale * total)
    assert moments.n_rows == pytest.approx(np.maximum(w, 1).sum())
    assert_close(moments.m / scale, relative @ Z, rtol=1e-10)
    assert_close(moments.H / scale, ((Z - mean) * relative[:, None]).T @ (Z - mean), rtol=1e-10)
    assert_close(moments.v / scale, (Z * relative[:, None]).T @ y, rtol=1e-10)
    assert_close(moments.y_squares / scale, relative @ y**2, rtol=1e-10)


def test_whole_weights_are_repeated_rows_and_zeros_are_not_there(rows):
    X, y, counts = rows
    weighted = Moments(5, 1).update(X, y, counts)
    assert_same_moments(weighted, Moments(5, 1).update(*repeated(counts, X, y)))
    used = counts > 0
    without = Moments(5, 1).update(X[used], y[used], counts[used])
    for name in PARTS:
        np.testing.assert_array_equal(getattr(weighted, name), getattr(without, name))


def test_weighted_moments_merge_and_are_taken_away(rows, rng):
    X, y, _ = rows
    w = rng.random(60) * 3
    whole = Moments(5, 1).update(X, y, w)
    first, last = Moments(5, 1).update(X[:20], y[:20], w[:20]), Moments(5, 1).update(X[20:], y[20:])
    weighted = Moments(5, 1).update(X[20:], y[20:], w[20:])
    assert_same_moments(first + weighted, whole)
    rest = whole - first
    assert rest.n == pytest.approx(weighted.n)
    assert rest.n_rows == pytest.approx(weighted.n_rows)
    assert_close(rest.H, weighted.H, rtol=1e-8)
    assert (whole - whole).n == 0
    with pytest.raises(ValueError, match="cannot subtract"):
        first - last


def test_sources_take_weights(rows, rng, tmp_path):
    X, y, _ = rows
    w = rng.random(60)
    expected = Moments(5, 1).update(X, y, w)
    np.save(tmp_path / "X.npy", X)
    triples = [(X[i : i + 7], y[i : i + 7], w[i : i + 7]) for i in range(0, 60, 7)]
    found = [
        Moments.of(X, y, sample_weight=w, chunk_size=7),
        Moments.of(sparse.csr_array(X), y, sample_weight=w),
        Moments.of(tmp_path / "X.npy", y, sample_weight=w, chunk_size=7),
        Moments.of(triples),
    ]
    for moments in found:
        assert_same_moments(moments, expected)


def test_dask_arrays_take_weights(rows, rng):
    array = pytest.importorskip("dask.array")
    X, y, counts = rows
    lazy = [array.from_array(part, chunks=17) for part in (y, counts)]
    X_lazy = array.from_array(X, chunks=(17, 5))
    expected = Moments(5, 1).update(X, y, counts)
    assert_same_moments(Moments.of(X_lazy, lazy[0], sample_weight=lazy[1]), expected)
    assert_same_moments(Moments.of(X_lazy, y, sample_weight=counts), expected)
    labels = (y > y.mean()).astype(int)
    model = PCARidgeClassifier(alphas=0.1, class_weight="balanced", calibrate=None)
    lazy_labels = array.from_array(labels, chunks=17)
    one = model.fit(X_lazy, lazy_labels, sample_weight=lazy[1]).coef_
    assert_close(one, model.fit(X, labels, sample_weight=counts).coef_)


def test_a_checkpoint_knows_the_weights(rows, rng, tmp_path):
    X, y, _ = rows
    w = rng.random(60)
    Moments.of(X, y, sample_weight=w, chunk_size=20, checkpoint=tmp_path / "c")
    again = Moments.of(X, y, sample_weight=w, chunk_size=20, checkpoint=tmp_path / "c")
    assert again.n == pytest.approx(w.sum())
    with pytest.raises(ValueError, match="not the one that was consumed"):
        Moments.of(X, y, sample_weight=2 * w, chunk_size=20, checkpoint=tmp_path / "c")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"sample_weight has shape \(3,\)"),
        (np.ones((60, 1)), r"sample_weight has shape \(60, 1\)"),
        (np.r_[np.ones(59), -1.0], r"sample_weight\[59\] = -1"),
        (np.r_[np.nan, np.ones(59)], r"sample_weight\[0\] = nan"),
        (np.full(60, 1e308), "overflows"),
    ],
)
def test_bad_weights_change_nothing(rows, weights, message):
    X, y, _ = rows
    moments = Moments(5, 1).update(X, y)
    before = moments.H.tobytes()
    with pytest.raises(ValueError, match=message):
        moments.update(X, y, weights)
    assert (moments.n, moments.H.tobytes()) == (60, before)


# ---- models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_by", ["fit", "partial_fit", "fit_rows"])
def test_ridge_is_scikit_learns(rows, rng, fit_by):
    X, y, _ = rows
    w = rng.random(60) * 4
    model = PCARidge(alphas=0.7)
    if fit_by == "partial_fit":
        model.partial_fit(X[:30], y[:30], w[:30]).partial_fit(X[30:], y[30:], w[30:])
    else:
        getattr(model, fit_by)(X, y, sample_weight=w)
    expected = Ridge(0.7).fit(X, y, sample_weight=w)
    assert_close(model.coef_, expected.coef_)
    assert_close(model.intercept_, expected.intercept_)


@pytest.mark.parametrize("group", [False, True])
def test_lasso_is_scikit_learns(rows, rng, group):
    X, y, _ = rows
    w = rng.random(60) * 4
    make = MomentGroupLasso if group else MomentLasso
    model = make(alpha=0.05, tol=1e-12, max_iter=100_000).fit(X, y, sample_weight=w)
    expected = Lasso(0.05, tol=1e-12, max_iter=100_000).fit(X, y, sample_weight=w)
    assert_close(model.coef_, expected.coef_, rtol=1e-6)
    assert_close(model.intercept_, expected.intercept_, rtol=1e-6)


@pytest.mark.parametrize("selection", ["loo", "gcv"])
@pytest.mark.parametrize("n_columns", [5, 90])
def test_the_penalty_is_chosen_as_for_repeated_rows(rng, selection, n_columns):
    X, counts = rng.random((60, n_columns)), rng.integers(0, 4, 60)
    y = X[:, 0] + 0.3 * rng.standard_normal(60)
    model = PCARidge(selection=selection).fit(X, y, sample_weight=counts)
    other = PCARidge(selection=selection).fit(*repeated(counts, X, y))
    used = counts > 0
    without = PCARidge(selection=selection).fit(X[used], y[used], counts[used])
    for expected in (other, without):
        assert_close(model.errors_, expected.errors_, rtol=1e-6)
        assert model.alpha_ == pytest.approx(expected.alpha_)
        assert_close(model.coef_, expected.coef_, rtol=1e-6)


def test_rows_of_small_weight_are_left_out_as_ridge_cv_does(rng):
    X = rng.random((40, 30))
    y, w = X[:, 0] + 0.3 * rng.standard_normal(40), rng.random(40)
    alphas = np.logspace(-4, 2, 13)
    model = PCARidge(alphas=alphas, selection="loo").fit(X, y, sample_weight=w)
    expected = [
        np.sum(
            [
                w[i]
                * (
                    y[i]
                    - Ridge(alpha)
                    .fit(np.delete(X, i, 0), np.delete(y, i), np.delete(w, i))
                    .predict(X[i : i + 1])[0]
                )
                ** 2
                for i in range(40)
            ]
        )
        / w.sum()
        for alpha in alphas
    ]
    assert_close(model.errors_, expected, rtol=1e-8)
    assert model.alpha_ == RidgeCV(alphas).fit(X, y, sample_weight=w).alpha_


@pytest.mark.parametrize("selection", ["loo", "gcv"])
def test_the_unit_of_small_weights_does_not_matter(rows, rng, selection):
    X, y, _ = rows
    w = rng.random(60)
    one, other = (
        PCARidge(selection=selection).fit(X, y, sample_weight=scale * w) for scale in (1.0, 1e-9)
    )
    assert_close(one.errors_, other.errors_, rtol=1e-6)
    assert_close(one.coef_, other.coef_, rtol=1e-6)


def test_blocks_have_weights(rng):
    X, counts = rng.random((60, 8)), rng.integers(0, 4, 60)
    y = X @ np.arange(8.0)
    model = PCARidge(3, blocks=[4, 4]).fit(X, y, sample_weight=counts)
    assert_close(model.coef_, PCARidge(3, blocks=[4, 4]).fit(*repeated(counts, X, y)).coef_)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 5.0}])
def test_classifiers_take_weights(rng, n_classes, class_weight):
    labels = np.minimum(rng.integers(0, 6, 120), n_classes - 1)
    X = rng.random((120, 6)) + np.eye(6)[labels] * 0.5
    counts = rng.integers(0, 4, 120)
    model = PCARidgeClassifier(class_weight=class_weight, calibrate=None)
    model.fit(X, labels, sample_weight=counts)
    coef, alpha = model.coef_, model.alpha_
    again = model.fit(*repeated(counts, X, labels))
    assert again.alpha_ == pytest.approx(alpha)
    assert_close(again.coef_, coef, rtol=1e-6)
    fixed = PCARidgeClassifier(alphas=0.5, class_weight=class_weight, calibrate=None).fit(X, labels)
    theirs = RidgeClassifier(0.5, class_weight=class_weight).fit(X, labels)
    assert_close(fixed.coef_, np.atleast_2d(theirs.coef_))


def test_equal_rates_count_weights(rng):
    labels, counts = np.arange(90) % 3, rng.integers(0, 4, 90)
    X = rng.random((90, 6)) + np.eye(6)[labels]
    model = PCARidgeClassifier(alphas=0.5, calibrate="equal-rate")
    found = model.fit(X, labels, sample_weight=counts).score_thresholds_
    assert_close(found, model.fit(*repeated(counts, X, labels)).score_thresholds_)


def test_class_weights_of_chunks(rng):
    X, labels = rng.random((60, 4)), np.arange(60) % 3
    expected = (
        PCARidgeClassifier(alphas=0.5, class_weight={0: 3.0}, calibrate=None).fit(X, labels).coef_
    )
    chunks = [(X[:25], labels[:25]), (X[25:], labels[25:])]
    model = PCARidgeClassifier(alphas=0.5, class_weight={0: 3.0}, calibrate=None)
    for chunk in chunks:
        model.partial_fit(*chunk, classes=[0, 1, 2])
    assert_close(model.coef_, expected)
    assert_close(model.fit_rows(chunks, classes=[0, 1, 2]).coef_, expected)
    balanced = PCARidgeClassifier(class_weight="balanced")
    assert not hasattr(balanced, "partial_fit")
    with pytest.raises(ValueError, match="needs all labels"):
        balanced.fit_rows(chunks, classes=[0, 1, 2])
    moments = Moments(4, 3).update(X, 2 * np.eye(3)[labels] - 1)
    with pytest.raises(ValueError, match="class_weight"):
        balanced.fit_moments(moments, [0, 1, 2])


def test_a_class_of_weight_zero_is_none(rng):
    X, labels = rng.random((30, 4)), np.arange(30) % 3
    weight = np.where(labels == 2, 0.0, 1.0)
    model = PCARidgeClassifier().fit(X, labels, sample_weight=weight)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    with pytest.raises(ValueError, match="zero everywhere"):
        PCARidgeClassifier().fit(X, labels, sample_weight=np.zeros(30))
