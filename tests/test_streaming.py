"""Moments of streams, what is learned from them, and checkpoints."""

import itertools
import pickle
import signal
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.metrics import log_loss
from sklearn.preprocessing import FunctionTransformer
from sklearn.random_projection import SparseRandomProjection

from histrs.kernel_approximation import AdditiveChi2Map, ExpChi2Sampler
from histrs.streaming import Moments, PCARidge, PCARidgeClassifier, StreamingPCA, digest
from tests.helpers import CONTAINERS, assert_close, peak_of_memory, run_python, start_python
from tests.oracles import moments as oracle

BLOCK = 4096


def bits(moments):
    parts = [moments.m, moments.H, moments.v, moments.y_sum, moments.y_squares]
    return moments.n, moments.n_labelled, *(part.tobytes() for part in parts)


def data(rng, n, d=5, t=2):
    return rng.standard_normal((n, d)) @ rng.standard_normal((d, d)), rng.standard_normal((n, t))


# ---- sums ---------------------------------------------------------------------------------------


@given(
    n=st.sampled_from([1, 2, 7, 100, BLOCK - 1, BLOCK, BLOCK + 1]),
    d=st.sampled_from([1, 2, 5]),
    t=st.integers(1, 3),
    scale=st.sampled_from([1e-100, 1.0, 1e100]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 99),
)
def test_moments_are_their_definitions(n, d, t, scale, dtype, seed):
    Z, y = data(np.random.default_rng(seed), n, d, t)
    Z = Z.astype(dtype) * (scale if dtype == np.float64 else 1)
    moments = Moments(d, t).update(Z, y)
    n_rows, m, H, v = oracle.moments(Z, y)
    size = np.sqrt(np.sum(Z.astype(float) ** 2)) + np.finfo(float).tiny
    assert moments.n == moments.n_labelled == n_rows
    np.testing.assert_allclose(moments.m / size, m / size, atol=1e-12 * n)
    np.testing.assert_allclose(moments.H / size**2, H / size**2, atol=1e-13)
    np.testing.assert_allclose(moments.v / size, v / size, atol=1e-12 * n)
    np.testing.assert_allclose(moments.y_sum, y.sum(axis=0), atol=1e-12 * n)
    np.testing.assert_allclose(moments.y_squares, np.sum(y**2, axis=0), rtol=1e-12)


@given(cuts=st.lists(st.integers(0, 3000), max_size=5), seed=st.integers(0, 99))
def test_any_grouping_gives_the_same_moments(cuts, seed):
    rng = np.random.default_rng(seed)
    Z, y = data(rng, 3000)
    whole = Moments(5, 2).update(Z, y)
    edges = [0, *sorted(cuts), 3000]
    parts = [Moments(5, 2).update(Z[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]
    rng.shuffle(parts)
    merged = sum(parts[1:], parts[0])
    assert merged.n == 3000
    for name in ("m", "H", "v", "y_sum", "y_squares"):
        assert_close(getattr(merged, name), getattr(whole, name), 1e-11)


def test_merging_changes_neither_and_commutes(rng):
    Z, y = data(rng, 300)
    a, b = Moments(5, 2).update(Z[:100], y[:100]), Moments(5, 2).update(Z[100:])
    before = bits(a), bits(b)
    assert bits(a.merge(b)) == bits(b + a)
    assert (bits(a), bits(b)) == before
    empty = Moments(5, 2)
    assert bits(a + empty) == bits(empty + a) == before[0]
    (a + empty).update(Z)
    assert bits(a) == before[0]
    with pytest.raises(TypeError):
        a + 1
    with pytest.raises(TypeError):
        a - 1


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers(rng, container):
    Z = (rng.integers(0, 3, size=(40, 6)) * rng.random(6)).astype(np.float32).astype(float)
    expected = Moments(6).update(Z)
    assert bits(Moments(6).update(CONTAINERS[container](Z))) == bits(expected)


def test_no_cancellation_where_means_are_large(rng):
    Z = rng.standard_normal((5000, 3)) + 1e8
    assert_close(Moments(3).update(Z).H, 4999 * np.cov(Z.T), 1e-7)


def test_a_large_sparse_matrix_is_not_made_dense(rng):
    parts = rng.random(60_000), (rng.integers(200_000, size=60_000), rng.integers(300, size=60_000))
    Z = sparse.csr_array(parts, shape=(200_000, 300))
    assert peak_of_memory(lambda: Moments(300).update(Z)) < 200_000 * 300 * 8 / 10


@pytest.mark.parametrize(
    ("Z", "y", "message"),
    [
        (np.full((2, 5), np.nan), None, r"Z\[0, 0\] = NaN"),
        (sparse.csr_array([[0, 0, 1.0, 0, 0], [0, 0, 0, np.inf, 0]]), None, r"Z\[1, 3\] = inf"),
        (np.ones((2, 4)), None, "4 columns"),
        (np.ones(5), None, "2D"),
        (np.array([["a"] * 5]), None, "dtype"),
        (np.ones((2, 5)), np.ones(2), r"\(2, 2\) is needed"),
        (np.ones((2, 5)), [[1.0, 2.0], [3.0, np.nan]], r"Y\[1, 1\] = NaN"),
    ],
)
def test_bad_rows_change_nothing(rng, Z, y, message):
    moments = Moments(5, 2).update(*data(rng, 10))
    before = bits(moments)
    with pytest.raises(ValueError, match=message):
        moments.update(Z, y)
    assert bits(moments) == before


# ---- files --------------------------------------------------------------------------------------


def test_files_keep_all_bits(rng, tmp_path):
    Z, y = data(rng, 100)
    some, weighted = Moments(5, 2).update(Z, y), Moments(5, 2).update(Z, y, rng.random(100))
    for moments in (Moments(5), weighted, some, Moments(5, 2).update(Z, y).update(Z)):
        path = tmp_path / f"{moments.n}"
        moments.save(path)
        loaded = Moments.load(path)
        assert loaded.n_rows == moments.n_rows
        assert bits(loaded) == bits(moments) == bits(pickle.loads(pickle.dumps(moments)))
        assert bits(loaded.update(Z)) == bits(moments.update(Z))
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("place", [0, 20, 60, -1, "short", "empty"])
def test_damaged_files_are_refused_and_kept(rng, tmp_path, place):
    path = tmp_path / "moments"
    moments = Moments(5, 2).update(*data(rng, 10))
    moments.save(path)
    content = bytearray(path.read_bytes())
    if isinstance(place, int):
        content[place] ^= 1
    else:
        content = content[:-9] if place == "short" else b""
    path.write_bytes(content)
    for action in (
        lambda: Moments.load(path),
        lambda: moments.save(path),
        lambda: Moments.of(np.ones((3, 5)), checkpoint=path),
    ):
        with pytest.raises(ValueError, match="overwritten"):
            action()
        assert path.read_bytes() == content


def test_moments_that_do_not_belong_together_are_refused(rng, tmp_path):
    path = tmp_path / "moments"
    Moments(5, 2, digest="one").update(*data(rng, 10)).save(path)
    content = path.read_bytes()
    ours = Moments.load(path)
    for other, message in (
        (Moments(4, 2, digest="one"), "features"),
        (Moments(5, 1, digest="one"), "targets"),
        (Moments(5, 2, digest="two"), "another feature map"),
    ):
        with pytest.raises(ValueError, match=message):
            ours.merge(other)
        with pytest.raises(ValueError, match=message):
            other.save(path)
    assert path.read_bytes() == content


def test_a_failed_write_leaves_the_old_file(rng, tmp_path, monkeypatch):
    path = tmp_path / "moments"
    moments = Moments(5, 2).update(*data(rng, 10))
    moments.save(path)
    content = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        moments.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["moments"]
    assert path.read_bytes() == content


# ---- whole data sets ----------------------------------------------------------------------------


def test_sources_give_the_same_moments(rng, tmp_path):
    Z, y = data(rng, 3 * BLOCK + 5)
    np.save(tmp_path / "Z.npy", Z)
    expected = bits(Moments(5, 2).update(Z, y))
    options = {"chunk_size": BLOCK}
    for source in (Z, tmp_path / "Z.npy", str(tmp_path / "Z.npy"), sparse.csr_array(Z)):
        assert bits(Moments.of(source, y, **options)) == expected
    memmap = np.load(tmp_path / "Z.npy", mmap_mode="r")
    assert bits(Moments.of(memmap, y, **options)) == expected
    assert bits(Moments.of(pd.DataFrame(Z), pd.DataFrame(y), **options)) == expected
    pairs = ((Z[i : i + BLOCK], y[i : i + BLOCK]) for i in range(0, len(Z), BLOCK))
    assert bits(Moments.of(pairs)) == expected


def test_names_of_an_earlier_fit_are_forgotten(rng):
    Z, y = data(rng, 30, 3)
    frame, moments = pd.DataFrame(Z, columns=["a", "b", "c"]), Moments.of(Z, y)
    for model in (StreamingPCA(), PCARidge(), PCARidgeClassifier()):
        labels = np.arange(30) % 2 if isinstance(model, PCARidgeClassifier) else y
        assert model.fit(frame, labels).feature_names_in_.tolist() == ["a", "b", "c"]
        if isinstance(model, PCARidgeClassifier):
            model.fit_rows(Z, labels)
        else:
            model.fit_moments(moments)
        assert not hasattr(model, "feature_names_in_")
        # Without a warning of names that differ.
        (model.transform if isinstance(model, StreamingPCA) else model.predict)(Z)


def test_digests_tell_functions_and_sparse_maps_apart(rng):
    def scaled(factor):
        return lambda X: factor * X

    X = sparse.csr_array(np.eye(9))
    maps = [
        *(FunctionTransformer(f) for f in (np.sqrt, np.square, scaled(2.0), scaled(3.0))),
        *(FunctionTransformer(partial(np.multiply, k)) for k in (2.0, 3.0)),
        *(FunctionTransformer(f) for f in (lambda X: X + 1, lambda X: X + 2)),
        *(SparseRandomProjection(4, random_state=k).fit(X) for k in (0, 1)),
    ]
    names = [digest(map) for map in maps]
    assert len(set(names)) == len(maps)
    assert names == [digest(pickle.loads(pickle.dumps(m)) if k > 7 else clone(m))
                     for k, m in enumerate(maps)]  # fmt: skip


def test_digests_tell_feature_maps_apart(rng, tmp_path):
    X = rng.dirichlet(np.ones(6), size=50)
    sampler = ExpChi2Sampler(10, random_state=0).fit(X)
    again = ExpChi2Sampler(10, random_state=0, n_jobs=1).fit(X)
    others = [ExpChi2Sampler(10, random_state=1).fit(X), AdditiveChi2Map().fit(X)]
    assert digest(sampler) == digest(again)
    assert digest(sampler) == digest(pickle.loads(pickle.dumps(sampler)))
    assert len({digest(a) for a in [sampler, *others]}) == 3
    path = tmp_path / "checkpoint"
    moments = Moments.of(X, feature_map=sampler, checkpoint=path)
    assert moments.digest == digest(sampler)
    assert bits(moments) == bits(Moments(10).update(sampler.transform(X)))
    content = path.read_bytes()
    for other in (None, others[0]):
        with pytest.raises(ValueError, match="another feature map"):
            Moments.of(X, feature_map=other, checkpoint=path)
    with pytest.raises(ValueError, match="chunk_size"):
        Moments.of(X, feature_map=sampler, checkpoint=path, chunk_size=7)
    assert path.read_bytes() == content


RUN = """
import json, os, signal, sys
import numpy as np
from histrs.streaming import Moments

path, where, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def chunks():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        if where == "chunk" and seed == count:
            die()
        yield rng.standard_normal((50, 40)), rng.standard_normal(50)

calls = 0

def dying(function):
    def call(*arguments):
        global calls
        calls += 1
        return die() if calls == count else function(*arguments)
    return call

if where in ("fsync", "replace"):
    setattr(os, where, dying(getattr(os, where)))
moments = Moments.of(chunks(), checkpoint=path, checkpoint_every=3)
parts = (moments.H, moments.m, moments.v)
print(json.dumps([moments.n, *(part.tobytes().hex() for part in parts)]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_run_goes_on_and_ends_with_the_same_bits(tmp_path):
    expected = run_python(RUN, str(tmp_path / "whole"), "never", "0")
    path = tmp_path / "killed"
    for where, count in [("chunk", 5), ("replace", 3), ("fsync", 4)]:
        with start_python(RUN, str(path), where, str(count)) as process:
            process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
        assert 0 < Moments.load(path).n < 3000
    assert run_python(RUN, str(path), "never", "0") == expected
    assert run_python(RUN, str(path), "never", "0") == expected  # from the finished file


# ---- rows that are taken away -------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_what_is_left_are_the_moments_of_the_other_rows(n, n_left, d, seed):
    rng = np.random.default_rng(seed)
    removed, left = (5.0 + rng.normal(size=(k, d)) for k in (n, n_left))
    Y, Y_left = rng.normal(size=(n, 2)), rng.normal(size=(n_left, 2))
    whole = Moments(d, 2).update(removed, Y)
    if n_left:
        whole.update(left, Y_left)
        whole.update(left)
    rest = whole - Moments(d, 2).update(removed, Y)
    expected = Moments(d, 2)
    if n_left:
        expected.update(left, Y_left)
        expected.update(left)
    assert (rest.n, rest.n_labelled) == (expected.n, expected.n_labelled)
    for name in ("m", "H", "v", "y_sum", "y_squares"):
        np.testing.assert_allclose(
            getattr(rest, name), getattr(expected, name), atol=1e-9 * 36 * (n + 2 * n_left)
        )
    assert whole.n == n + 2 * n_left


def test_update_and_remove_change_moments(rng):
    Z, Y = rng.standard_normal((60, 4)), rng.standard_normal((60, 2))
    weights = rng.random(60)
    moments = Moments.of(Z, Y, sample_weight=weights)
    assert moments.remove(Z[:20], Y[:20], weights[:20]) is moments
    rest = Moments.of(Z[20:], Y[20:], sample_weight=weights[20:])
    assert_close(moments.H, rest.H, 1e-12)
    assert_close(moments.v, rest.v, 1e-12)
    before = bits(moments)
    with pytest.raises(ValueError, match="were added"):
        moments.remove(100 * Z, Y)
    assert bits(moments) == before
    moments.update(Z[:20], Y[:20], weights[:20])
    assert_close(moments.H, Moments.of(Z, Y, sample_weight=weights).H, 1e-12)


# ---- principal components -----------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [None, 2, 0.3, 0.8, 0.999999])
@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_shares_of_variance_whitening_and_the_way_back_are_those_of_scikit_learn(
    rng, n_components, whiten, dtype
):
    X = (rng.normal(size=(300, 5)) * [9.0, 5.0, 2.0, 1.0, 0.1] + 3.0).astype(dtype)
    ours = StreamingPCA(n_components, whiten=whiten).fit(X)
    theirs = PCA(n_components, whiten=whiten, svd_solver="full").fit(X.astype(np.float64))
    assert ours.n_components_ == theirs.n_components_
    assert_close(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, 1e-6)
    tolerance = 1e-9 if dtype is np.float64 else 1e-4
    signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
    T = ours.transform(X)
    assert T.dtype == dtype
    np.testing.assert_allclose(T * signs, theirs.transform(X), atol=10 * tolerance)
    back = ours.inverse_transform(T)
    assert back.dtype == dtype
    np.testing.assert_allclose(
        back, theirs.inverse_transform(theirs.transform(X)), atol=10 * tolerance
    )
    assert len(ours.get_feature_names_out()) == theirs.n_components_
    with pytest.raises(ValueError, match="columns, but StreamingPCA has"):
        ours.inverse_transform(np.ones((2, 6)))


def test_whitening_leaves_what_has_no_variance(rng):
    X = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 5))
    T = StreamingPCA(whiten=True).fit_transform(X)
    np.testing.assert_allclose(T[:, :3].std(axis=0, ddof=1), 1.0)
    assert np.abs(T[:, 3:]).max() < 1e-6
    np.testing.assert_allclose(StreamingPCA(whiten=True).fit(X).inverse_transform(T), X, atol=1e-9)
    same = np.ones((10, 2))
    assert StreamingPCA(0.5).fit(same).n_components_ == 1


def test_parts_moments_and_the_whole_agree_in_all_bits(rng):
    X, y = data(rng, 3 * BLOCK)
    whole = StreamingPCA(2).fit(X)
    parts = StreamingPCA(2)
    for start in range(0, len(X), BLOCK):
        parts.partial_fit(X[start : start + BLOCK])
    moments = StreamingPCA(2).fit_moments(Moments.of(X, y))
    for other in (parts, moments, clone(whole).fit(X), pickle.loads(pickle.dumps(parts))):
        np.testing.assert_array_equal(other.transform(X), whole.transform(X))
    assert parts.n_samples_seen_ == len(X)


# ---- regression ---------------------------------------------------------------------------------


@given(
    n=st.sampled_from([2, 5, 40, BLOCK + 1]),
    n_components=st.sampled_from([1, 3, 5]),
    t=st.integers(1, 3),
    alpha=st.sampled_from([1e-2, 1.0, 1e3]),
    seed=st.integers(0, 99),
)
def test_ridge_is_its_definition(n, n_components, t, alpha, seed):
    Z, y = data(np.random.default_rng(seed), n, 5, t)
    Z, y = Z + 2, y + 3
    model = PCARidge(n_components, alphas=alpha).fit(Z, y)
    U = oracle.principal_directions(Z, n_components)
    coefficients, intercept = oracle.ridge(Z, y, U, alpha)
    assert_close(model.predict(Z), Z @ coefficients + intercept, 1e-7)
    again = PCARidge(n_components, alphas=alpha).fit_moments(Moments.of(Z, y))
    if n < 5:  # Fewer rows than features are learned in a space of their own.
        assert_close(np.atleast_2d(again.coef_), model.coef_, 1e-9)
    else:
        np.testing.assert_array_equal(np.atleast_2d(again.coef_), model.coef_)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_leaving_out_rows_is_what_ridge_cv_does(rng, container):
    X, Y = data(rng, 60, 8, 2)
    Y += X[:, :2]
    alphas = np.logspace(-3, 4, 15)
    theirs = RidgeCV(alphas).fit(X, Y)
    ours = PCARidge(alphas=alphas, selection="loo").fit(container(X), Y)
    assert ours.alpha_ == theirs.alpha_
    assert_close(ours.coef_, theirs.coef_, 1e-9)
    assert_close(ours.intercept_, theirs.intercept_, 1e-9)
    one = PCARidge(alphas=alphas, selection="loo").fit(X, Y[:, 0])
    theirs = RidgeCV(alphas).fit(X, Y[:, 0])
    assert (one.alpha_, one.coef_.shape, np.ndim(one.intercept_)) == (theirs.alpha_, (8,), 0)
    assert_close(one.coef_, theirs.coef_, 1e-9)


@pytest.mark.parametrize("n_components", [2, 5])
def test_errors_of_penalties_are_their_definitions(rng, n_components):
    X, y = data(rng, 25)
    y += X[:, :2]
    alphas = [0.01, 1.0, 100.0]
    U = oracle.principal_directions(X, n_components)
    for selection, error in (
        ("loo", oracle.leave_one_out_error),
        ("gcv", oracle.generalized_error),
    ):
        model = PCARidge(n_components, alphas=alphas, selection=selection).fit(X, y)
        assert_close(model.errors_, [error(X, y, U, alpha) for alpha in alphas], 1e-9)
        assert model.alpha_ == alphas[np.argmin(model.errors_)]


def test_the_penalty_is_chosen_by_rows_left_out_where_they_are_at_hand(rng):
    X, Y = data(rng, 40, 6, 2)
    Y += X[:, :2]
    model = PCARidge().fit(X, Y)
    assert model.selection_ == "loo"
    again = PCARidge(alphas=model.alphas_, selection="loo").fit(X, Y)
    np.testing.assert_array_equal(model.errors_, again.errors_)
    assert PCARidge().fit_rows([(X, Y)]).selection_ == "loo"
    assert PCARidge().fit_rows(iter([(X, Y)])).selection_ == "gcv"
    assert PCARidge().fit_moments(Moments.of(X, Y)).selection_ == "gcv"
    assert PCARidge(alphas=1.0).fit(X, Y).selection_ == "gcv"


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_of_features_do_not_change_the_default_model(rng, scale):
    X, Y = data(rng, 40, 6, 2)
    Y += X[:, :2]
    model = PCARidge().fit(X, Y)
    scaled = PCARidge().fit(scale * X, Y)
    assert_close(scaled.predict(scale * X), model.predict(X), 1e-9)
    constant = PCARidge().fit(np.ones((5, 2)), np.arange(5.0))
    assert_close(constant.predict(np.ones((1, 2))), [2.0], 1e-12)


def test_penalties_that_end_too_early_are_told(rng):
    X, Y = data(rng, 60, 4, 1)
    y = X[:, 0] + 0.1 * Y[:, 0]
    for alphas in ([1e4, 1e3], [1e12, 1e11]):
        with pytest.warns(UserWarning, match=r"alpha = 1e\+\d+, the smallest.*add smaller"):
            PCARidge(alphas=alphas).fit(X, y)
    with pytest.warns(UserWarning, match=r"alpha = 10, the largest.*add larger"):
        PCARidge(alphas=[1e-3, 10.0]).fit(rng.standard_normal((20, 40)), rng.standard_normal(20))
    # One penalty is no choice, and an edge that is as good as its neighbour no matter.
    PCARidge(alphas=1e6).fit(X, y)
    model = PCARidge(alphas=[1e-9, 1e-12]).fit(X, y)
    assert model.alpha_ in (1e-9, 1e-12)


def test_interpolation_is_not_judged_by_moments(rng):
    X, y = rng.standard_normal((20, 40)), rng.standard_normal(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PCARidge(alphas=[1e-9, 1e3], selection="gcv").fit(X, y)
    np.testing.assert_array_equal(np.isfinite(model.errors_), [False, True])


def test_rows_without_targets_turn_the_directions(rng):
    X, y = data(rng, 300)
    labelled = slice(0, 40)
    moments = Moments(5, 2).update(X[labelled], y[labelled]).update(X[40:])
    model = PCARidge(2, alphas=0.5).fit_moments(moments)
    U = oracle.principal_directions(X, 2)
    coefficients, intercept = oracle.ridge(X[labelled], y[labelled], U, 0.5)
    assert_close(model.coef_, coefficients.T, 1e-9)
    assert_close(model.intercept_, intercept, 1e-9)
    assert not np.allclose(model.coef_, PCARidge(2, alphas=0.5).fit(X[:40], y[:40]).coef_)


# ---- classification -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
def test_classifier_is_ridge_classifier_cv(rng, n_classes):
    y = rng.integers(0, n_classes, 200)
    X = rng.standard_normal((200, 6)) + rng.standard_normal((n_classes, 6))[y]
    names = np.array(["a", "b", "c", "d"])
    alphas = [0.1, 1.0, 10.0, 100.0]
    ours = PCARidgeClassifier(alphas=alphas, selection="loo", calibrate=None).fit(X, names[y])
    theirs = RidgeClassifierCV(alphas).fit(X, names[y])
    assert ours.alpha_ == theirs.alpha_
    assert_close(ours.decision_function(X), theirs.decision_function(X), 1e-9)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    targets = 2.0 * (y[:, None] == np.arange(n_classes)) - 1
    moments = Moments.of(X, targets[:, 1:] if n_classes == 2 else targets)
    again = PCARidgeClassifier(alphas=ours.alpha_).fit_moments(moments, names[:n_classes])
    np.testing.assert_array_equal(again.predict(X), ours.predict(X))
    with pytest.raises(ValueError, match="targets for 3 classes"):
        again.fit_moments(moments, names[:3])


class _Rereading:
    """Rows of which each pass gives what is left of a list of passes."""

    def __init__(self, *passes):
        self._passes = iter(passes)

    def __iter__(self):
        return iter(next(self._passes, ()))


@pytest.mark.parametrize("n_again", [0, 30, 45])
def test_a_second_pass_over_other_rows_is_refused(rng, n_again):
    X, Y = data(rng, 60, 4, 1)
    again = [(X[:n_again], Y[:n_again])] if n_again else []
    first = [(X[:40], Y[:40])]
    model = PCARidge()
    with pytest.raises(ValueError, match=rf"second pass.* found {n_again} .* first found 40"):
        model.fit_rows(_Rereading(first, again))
    assert not hasattr(model, "alpha_")
    assert model.fit_rows(_Rereading(first, first)).selection_ == "loo"
    once = PCARidge(selection="gcv").fit_rows(_Rereading(first))
    assert np.isfinite(once.errors_).any()


def test_the_default_penalties_reach_low_enough():
    X, y = load_breast_cancer(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PCARidgeClassifier().fit(X, y)
    assert 0 < np.argmin(model.errors_) < len(model.errors_) - 1


def test_automatic_penalties_are_not_advised_to_those_who_have_them(rng):
    X = rng.standard_normal((60, 2)) * [1e9, 1e2]
    y = X[:, 1] + 1e-4 * rng.standard_normal(60)
    with pytest.warns(UserWarning, match="scale them") as record:
        PCARidge().fit(X, y)
    assert not any("add smaller" in str(warning.message) for warning in record)


@pytest.mark.parametrize("alphas", [[1e-9, 1e-8], 1e-9])
def test_penalties_that_are_all_too_small_ask_for_larger_ones(rng, alphas):
    X, y = rng.standard_normal((20, 50)), rng.standard_normal(20)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        PCARidge(alphas=alphas, selection="gcv").fit(X, y)
    assert len(record) == 1
    assert "Add larger penalties" in str(record[0].message)


def test_softmax_is_the_default_where_rows_can_be_read_again():
    X, y = load_digits(return_X_y=True)
    train, test = slice(0, 600), slice(600, 1200)
    default = PCARidgeClassifier(alphas=1.0).fit(X[train], y[train])
    plain = PCARidgeClassifier(alphas=1.0, calibrate=None).fit(X[train], y[train])
    softmax = PCARidgeClassifier(alphas=1.0, calibrate="softmax").fit(X[train], y[train])
    np.testing.assert_array_equal(default.coef_, softmax.coef_)
    assert default.score(X[test], y[test]) > plain.score(X[test], y[test]) + 0.01
    losses = [log_loss(y[test], m.predict_proba(X[test])) for m in (default, plain)]
    assert losses[0] < 0.8 * losses[1]
    # An iterator has one pass.
    once = PCARidgeClassifier(alphas=1.0).fit_rows(
        iter([(X[train], y[train])]), classes=np.arange(10)
    )
    assert_close(once.coef_, plain.coef_, 1e-6)


# ---- checkpoints ---------------------------------------------------------------------------------


def source(kind, tmp_path, Z, y, size=100):
    """Return rows and targets, given in one way."""
    match kind:
        case "array":
            return Z, y
        case "frame":
            return pd.DataFrame(Z), y
        case "file":
            np.save(tmp_path / "rows.npy", Z)
            return tmp_path / "rows.npy", y
        case "parquet":
            pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: histrs[parquet]")
            table = pd.DataFrame(Z).add_prefix("z").assign(y0=y[:, 0], y1=y[:, 1])
            table.to_parquet(tmp_path / "rows.parquet", row_group_size=130)
            return tmp_path / "rows.parquet", ["y0", "y1"]
        case "CSR":
            return sparse.csr_array(Z), y
    return [(Z[k : k + size], y[k : k + size]) for k in range(0, len(Z), size)], None


each_kind = pytest.mark.parametrize("kind", ["array", "frame", "file", "parquet", "CSR", "chunks"])


@each_kind
def test_other_data_are_refused_and_the_file_is_kept(rng, tmp_path, kind):
    Z, y = data(rng, 250)
    path = tmp_path / "moments"

    def run(Z, y):
        rows, targets = source(kind, tmp_path, Z, y)
        return Moments.of(rows, targets, chunk_size=100, checkpoint=path)

    expected = bits(run(Z, y))
    content = path.read_bytes()
    assert bits(run(Z, y)) == expected
    other_row, other_target = Z.copy(), y.copy()
    other_row[7, 2] += 1e-9
    other_target[120, 1] += 1e-9
    for rows, targets in (
        (other_row, y),
        (Z, other_target),
        (Z[::-1], y),
        (Z.astype(np.float32), y),
        (np.vstack([Z, Z]), np.vstack([y, y])),
        (Z[:240], y[:240]),
        (Z[:200], y[:200]),
    ):
        with pytest.raises(ValueError, match=r"checkpoint holds.*Moments\.load.*delete"):
            run(rows, targets)
        assert path.read_bytes() == content


@each_kind
def test_more_whole_chunks_go_on(rng, tmp_path, kind):
    Z, y = data(rng, 350)
    path = tmp_path / "moments"
    for n in (200, 350):
        rows, targets = source(kind, tmp_path, Z[:n], y[:n])
        moments = Moments.of(rows, targets, chunk_size=100, checkpoint=path)
    assert bits(moments) == bits(Moments.of(Z, y, chunk_size=100))
    assert bits(Moments.load(path)) == bits(moments)


def test_chunks_that_a_map_makes_rows_of(tmp_path):
    words = HashingVectorizer(n_features=8).fit([])
    chunks = [["a b", "b c"], ["c d", "a"]]
    path = tmp_path / "moments"
    moments = Moments.of(chunks, feature_map=words, checkpoint=path)
    assert bits(Moments.of(chunks, feature_map=words, checkpoint=path)) == bits(moments)
    with pytest.raises(ValueError, match="chunk 1 of these data"):
        Moments.of([["a b", "b c"], ["c d", "e"]], feature_map=words, checkpoint=path)
