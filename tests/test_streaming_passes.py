"""Linear models of streams: blocks, calibration, chunks, few rows, interrupts and progress."""

import itertools
import pickle
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from histrs.kernel_approximation import AdditiveChi2Map, ExpChi2Sampler
from histrs.streaming import (
    MomentGroupLasso,
    MomentLasso,
    MomentLassoCV,
    Moments,
    PCARidge,
    PCARidgeClassifier,
    StreamingPCA,
    _linear,
)
from tests.helpers import assert_close, peak_of_memory
from tests.oracles import moments as oracle
from tests.test_streaming import BLOCK, bits, data

# ---- blocks of features -------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize(
    ("sizes", "n_components"), [([3, 4], [2, 1]), ([7], [3]), ([1, 5, 1], [1, 5, 1])]
)
def test_blocks_are_algorithm_4(rng, container, sizes, n_components):
    Z, y = data(rng, 2 * BLOCK + 7, 7)
    Z = (Z + 2).astype(np.float32).astype(float)
    model = PCARidge(n_components, blocks=sizes, alphas=3.0).fit(container(Z), y)
    coefficients, intercept = oracle.block_ridge(Z, y, sizes, n_components, 3.0)
    assert_close(model.coef_, coefficients.T, 1e-5 if container is np.float32 else 1e-9)
    assert_close(model.intercept_, intercept, 1e-5 if container is np.float32 else 1e-9)
    assert model.n_components_ == sum(n_components)
    again = PCARidge(n_components, blocks=sizes, alphas=3.0)
    chunks = [(Z[i : i + 100], y[i : i + 100]) for i in range(0, len(Z), 100)]
    assert_close(again.fit_rows(chunks).coef_, coefficients.T, 1e-9)


def test_one_block_is_a_single_decomposition(rng):
    Z, y = data(rng, 500, 6)
    for selection in ("gcv", "loo"):
        options = {"alphas": [0.1, 10.0, 1e3], "selection": selection}
        one = PCARidge(3, blocks=[6], **options).fit(Z, y)
        single = PCARidge(3, **options).fit(Z, y)
        assert_close(one.coef_, single.coef_, 1e-9)
        assert_close(one.errors_, single.errors_, 1e-9)


def first_columns(X):
    return X[:, :8]


def last_columns(X):
    return X[:, 8:]


def test_blocks_of_a_feature_union(rng):
    X = np.hstack([rng.dirichlet(np.ones(8), 300), rng.dirichlet(np.ones(5), 300)])
    y = X[:, 0] ** 2 + X[:, 10]
    columns = [FunctionTransformer(part) for part in (first_columns, last_columns)]
    union = FeatureUnion(
        [
            (str(D), make_pipeline(part, ExpChi2Sampler(D, random_state=0)))
            for part, D in zip(columns, (20, 30), strict=True)
        ]
    ).fit(X)
    ours = PCARidge([4, 6], blocks="union", alphas=0.1).fit_rows(X, y, feature_map=union)
    named = PCARidge([4, 6], blocks=[20, 30], alphas=0.1).fit(union.transform(X), y)
    assert_close(ours.coef_, named.coef_, 1e-9)
    assert ours.n_features_in_ == 50
    with pytest.raises(ValueError, match="FeatureUnion"):
        PCARidge(4, blocks="union").fit(X, y)


def test_unlabelled_rows_turn_the_directions_of_blocks(rng):
    Z, y = data(rng, 300, 6)
    chunks = [(Z[:100], y[:100]), (Z[100:], None)]
    model = PCARidge([2, 2], blocks=[3, 3], alphas=1.0).fit_rows(chunks)
    U = np.zeros((6, 4))
    U[:3, :2] = oracle.principal_directions(Z[:, :3], 2)
    U[3:, 2:] = oracle.principal_directions(Z[:, 3:], 2)
    coefficients, intercept = oracle.ridge(Z[:100], y[:100], U, 1.0)
    assert_close(model.coef_, coefficients.T, 1e-9)
    assert_close(model.intercept_, intercept, 1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"blocks": [2, 2]}, "5 features, but blocks sum to 4"),
        ({"blocks": [2, 3], "n_components": [1]}, "one number for each"),
        ({"blocks": [2, 3], "n_components": 3}, "n_components=3 must be at most n_features=2"),
        ({"blocks": []}, "a number of features for each block"),
        ({"blocks": [0, 5]}, "a number of features for each block"),
        ({"n_components": [1, 2]}, "several numbers need blocks"),
    ],
)
def test_bad_blocks_leave_the_model_as_it_was(rng, parameters, message):
    Z, y = data(rng, 30)
    model = PCARidge(1, alphas=1.0).fit(Z, y)
    before = model.coef_
    with pytest.raises(ValueError, match=message):
        model.set_params(**parameters).fit(Z, y)
    assert model.coef_ is before


# ---- classes of streams, and their calibration ---------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_classes_of_chunks_are_those_of_all_rows(rng, n_classes):
    labels = rng.integers(0, n_classes, 300)
    names = np.array([f"class {k}" for k in range(n_classes)])
    Z = rng.standard_normal((300, 4)) + labels[:, None]
    whole = PCARidgeClassifier(2).fit(Z, names[labels])
    chunks = [(Z[i : i + 64], names[labels[i : i + 64]]) for i in range(0, 300, 64)]
    parts = PCARidgeClassifier(2).fit_rows(chunks, classes=names)
    # The softmax is found by iterations, which end at a tolerance.
    assert_close(parts.coef_, whole.coef_, 1e-7)
    np.testing.assert_array_equal(parts.predict(Z), whole.predict(Z))
    np.testing.assert_array_equal(
        PCARidgeClassifier(2).fit_rows(Z, names[labels]).coef_, whole.coef_
    )
    with pytest.raises(ValueError, match=r"in chunk|is not one of the"):
        parts.fit_rows(chunks, classes=names[:-1] if n_classes > 2 else ["class 0", "class 2"])
    found = PCARidgeClassifier(2).fit_rows(chunks)
    np.testing.assert_array_equal(found.classes_, names)
    assert_close(found.coef_, parts.coef_, 1e-7)
    for needs in ({"class_weight": {"class 0": 2.0}}, {"blocks": [2, 2]}):
        with pytest.raises(ValueError, match="classes is needed with"):
            PCARidgeClassifier(2, **needs).fit_rows(chunks)
    with pytest.raises(ValueError, match="greater than one"):
        parts.fit_rows(chunks, classes=["class 0"])


@pytest.mark.parametrize("rank", [None, 1, 40])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_calibrated_classes_exceed_a_score_at_the_same_rate(rng, n_classes, rank):
    labels = rng.permutation(np.arange(600) % n_classes)
    # Classes of different spread: the scores of some are seldom the highest.
    Z = rng.standard_normal((600, 5)) * (1 + labels[:, None]) + np.eye(6)[labels, :5]
    plain = PCARidgeClassifier(calibrate=None).fit(Z, labels)
    options = {"calibrate": "equal-rate", "calibration_rank": rank}
    model = PCARidgeClassifier(**options).fit(Z, labels)
    rank = rank or 600 // n_classes

    def highest(fitted):
        scores = fitted.decision_function(Z)
        scores = np.column_stack([-scores, scores]) if n_classes == 2 else scores
        return np.sort(scores, axis=0)[-rank]

    np.testing.assert_allclose(highest(model), highest(model)[0], atol=1e-12)
    np.testing.assert_allclose(model.score_thresholds_, highest(plain), atol=1e-12)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    if n_classes > 2:
        assert np.mean(model.intercept_) == pytest.approx(np.mean(plain.intercept_), abs=1e-12)
    # In chunks, and on rows of their own.
    chunks = [(Z[i : i + 7], labels[i : i + 7]) for i in range(0, 600, 7)]
    parts = PCARidgeClassifier(**options).fit_rows(chunks, classes=np.arange(n_classes))
    assert_close(parts.intercept_, model.intercept_, 1e-9)
    signs = 2.0 * (labels[:, None] == np.arange(n_classes)) - 1
    moments = Moments.of(Z, signs[:, 1:] if n_classes == 2 else signs)
    again = PCARidgeClassifier(**options)
    again.fit_moments(moments, np.arange(n_classes), calibration_rows=Z)
    assert_close(again.intercept_, model.intercept_, 1e-9)


# ---- rows that do not fit -----------------------------------------------------------------------


def test_exhausted_iterators_and_other_data_are_refused(rng, tmp_path):
    Z, _ = data(rng, 100)
    path = tmp_path / "moments"
    chunks = iter([Z[:50], Z[50:]])
    Moments.of(chunks, checkpoint=path)
    content = path.read_bytes()
    with pytest.raises(ValueError, match="end after 0 chunks, but the checkpoint holds 2"):
        Moments.of(chunks, checkpoint=path)
    assert path.read_bytes() == content
    with pytest.raises(ValueError, match="no rows"):
        Moments.of(iter([]))
    with pytest.raises(ValueError, match="chunk_size = 0"):
        Moments.of(Z, chunk_size=0)


def test_memory_is_that_of_the_products_and_of_a_chunk():
    d, chunk = 200, 1000

    def peak(n_chunks):
        rows = (np.ones((chunk, d)) * (k % 7) for k in range(n_chunks))
        pairs = ((Z, Z[:, 0]) for Z in rows)
        return peak_of_memory(lambda: Moments.of(pairs, chunk_size=chunk))

    few, many = peak(3), peak(60)
    assert many < 1.1 * few
    # The products, and a chunk as it comes, beside the next and about its mean.
    assert many < 8 * (3 * d * d + 4 * chunk * d)


# ---- interrupts, threads, progress --------------------------------------------------------------


@pytest.mark.parametrize("place", ["mean", "scatter", "cross", "y_squares", "y_mean", "n"])
def test_an_interrupted_update_adds_nothing(rng, monkeypatch, place):
    from histrs.streaming._sums import CentredSums

    Z, y = data(rng, 3 * BLOCK)
    moments = Moments(5, 2).update(Z, y).update(Z)
    before, n_chunks = bits(moments), moments.n_chunks
    count = 0

    def interrupted(self, name, value):
        nonlocal count
        object.__setattr__(self, name, value)
        if name == place:
            count += 1
            if count == 8:
                raise KeyboardInterrupt

    monkeypatch.setattr(CentredSums, "__setattr__", interrupted, raising=False)
    # Rows without targets have no products with them.
    for targets in (y,) if place == "cross" else (y, None):
        count = 0
        with pytest.raises(KeyboardInterrupt):
            moments.update(np.vstack([Z] * 4), None if targets is None else np.vstack([y] * 4))
        assert (bits(moments), moments.n_chunks) == (before, n_chunks)


def test_every_pass_shows_its_progress(rng, monkeypatch, capsys):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    Z, labels = rng.random((30, 4)), np.arange(30) % 3
    Moments.of(Z, chunk_size=10, verbose=1)
    err = capsys.readouterr().err
    assert err.splitlines()[-1] == "moments: iteration 3, 30 rows"
    # The first chunk tells how long a pass takes.
    assert re.match(r"moments: iteration 1, 10 rows, about \d+\.\d s left$", err.splitlines()[0])
    model = PCARidgeClassifier(
        2, blocks=[2, 2], calibrate="equal-rate", selection="loo", verbose=1, n_jobs=1
    )
    model.fit(Z, labels)
    names = [
        "directions of the blocks",
        "products of the components",
        "rows left out",
        "calibration",
        "probabilities",
    ]
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == names
    for quiet in (StreamingPCA(), MomentLasso(), PCARidge(alphas=1.0)):
        quiet.fit(Z, labels)
        assert capsys.readouterr().err == ""
        quiet.set_params(verbose=1).fit(Z, labels)
        assert capsys.readouterr().err == "moments: iteration 1, 30 rows\n"


# ---- a chunk at a time ---------------------------------------------------------------------------

REGRESSORS = [PCARidge(), PCARidge(2, alphas=0.1), MomentLasso(0.01), MomentGroupLasso(alpha=0.01)]


@pytest.fixture
def rows(rng):
    X = rng.random((90, 5))
    return X, X @ rng.standard_normal((5, 2)) + 0.1 * rng.standard_normal((90, 2))


def in_chunks(model, X, y, **first):
    for start in range(0, len(X), 30):
        model.partial_fit(X[start : start + 30], y[start : start + 30], **first)
        first = {}
    return model


@pytest.mark.parametrize("model", REGRESSORS, ids=repr)
@pytest.mark.parametrize("targets", [1, 2])
def test_regressors_learn_what_moments_tell(model, targets, rows):
    X, Y = rows
    y = Y if targets == 2 else Y[:, 0]
    chunked = in_chunks(clone(model), X, y)
    whole = clone(model).fit_moments(Moments.of(X, y))
    np.testing.assert_allclose(chunked.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    assert chunked.predict(X).shape == y.shape
    assert chunked.moments_.n == 90
    assert not hasattr(whole, "moments_")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_classifier_learns_what_a_whole_fit_does(n_classes, rows):
    X, _ = rows
    y = np.array(["a", "b", "c"])[np.arange(90) % n_classes]
    X = X + (y == "a")[:, None] * [1, 0, 0, 0, 0]
    chunked = in_chunks(PCARidgeClassifier(), X, y, classes=np.unique(y))
    whole = PCARidgeClassifier(selection="gcv", calibrate=None).fit(X, y)
    np.testing.assert_allclose(chunked.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(chunked.predict(X), whole.predict(X))


def test_classes_are_found_in_one_pass_in_any_order(rows):
    X, _ = rows
    y = np.repeat(["c", "b", "a"], 30)
    for labels in (y, np.where(y == "a", "b", y), np.repeat([7, -1, 3], 30)):
        weights = np.arange(90.0)
        whole = PCARidgeClassifier(selection="gcv", calibrate=None).fit(X, labels, weights)
        chunks = (
            (X[i : i + 20], labels[i : i + 20], weights[i : i + 20]) for i in range(0, 90, 20)
        )
        found = PCARidgeClassifier().fit_rows(chunks)
        np.testing.assert_array_equal(found.classes_, np.unique(labels))
        assert_close(found.coef_, whole.coef_, 1e-9)
    with pytest.raises(ValueError, match="no rows with classes"):
        PCARidgeClassifier().fit_rows([X[:50], X[50:]])
    with pytest.raises(ValueError, match="greater than one"):
        PCARidgeClassifier().fit_rows([(X, np.zeros(90))])


def test_labels_come_in_chunks(rows):
    X, _ = rows
    labels = np.column_stack([X[:, 0] > 0.5, X[:, 1] > 0.3]).astype(int)
    chunked = in_chunks(PCARidgeClassifier(), X, labels)
    whole = PCARidgeClassifier(selection="gcv", calibrate=None).fit(X, labels)
    assert_close(chunked.coef_, whole.coef_, 1e-7)
    np.testing.assert_array_equal(chunked.predict(X), whole.predict(X))
    for other in (np.arange(90) % 2, np.column_stack([labels, labels])):
        with pytest.raises(ValueError, match=r"classes is needed|has shape \(90, 4\)"):
            chunked.partial_fit(X, other)
    with pytest.raises(ValueError, match="must be None"):
        PCARidgeClassifier().partial_fit(X, labels, classes=[0, 1])


def test_dask_arrays_come_in_chunks(rows):
    dask_array = pytest.importorskip("dask.array")
    X, Y = rows
    parts = [dask_array.from_array(part, chunks=(20, *part.shape[1:])) for part in (X, Y, Y[:, 0])]
    for y, of_dask in ((Y, parts[1]), (Y[:, 0], parts[2])):
        expected = MomentLasso(0.01).partial_fit(X, y).partial_fit(X, 2 * y)
        found = MomentLasso(0.01).partial_fit(parts[0], of_dask).partial_fit(parts[0], 2 * of_dask)
        assert_close(found.coef_, expected.coef_, 1e-9)
    labels = np.arange(90) % 3
    expected = PCARidgeClassifier().partial_fit(X, labels, classes=[0, 1, 2])
    found = PCARidgeClassifier().partial_fit(
        parts[0], dask_array.from_array(labels, chunks=20), classes=[0, 1, 2]
    )
    assert_close(found.coef_, expected.coef_, 1e-9)


def test_what_does_not_fit_changes_nothing(rows):
    X, _ = rows
    y = np.arange(90) % 3
    model = PCARidgeClassifier()
    with pytest.raises(ValueError, match="classes is needed"):
        model.partial_fit(X, y)
    assert not hasattr(model, "n_features_in_")
    model.partial_fit(X, y, classes=[0, 1, 2])
    before = pickle.dumps(model)
    for bad_X, bad_y, classes in (
        (X[:, :2], y, None),
        (X, y, [0, 1]),
        (X, y + 1, None),
        (np.full_like(X, np.nan), y, None),
    ):
        with pytest.raises(ValueError, match=r"features|first call|not one of|NaN"):
            model.partial_fit(bad_X, bad_y, classes)
        assert pickle.dumps(model) == before


def test_a_fitted_classifier_knows_its_classes(rows):
    X, _ = rows
    model = PCARidgeClassifier().fit(X, np.arange(90) % 3)
    with pytest.warns(UserWarning, match="begins anew"):
        model.partial_fit(X, np.arange(90) % 2)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


def test_a_single_first_row_is_refused(rows):
    X, Y = rows
    model = PCARidge()
    with pytest.raises(ValueError, match="two rows"):
        model.partial_fit(X[:1], Y[:1])
    assert not hasattr(model, "moments_")
    model.partial_fit(X[:2], Y[:2]).partial_fit(X[2:3], Y[2:3])
    assert model.moments_.n == 3


@pytest.mark.parametrize("way", ["fit", "fit_rows", "fit_moments"])
def test_it_begins_anew_after_another_fit_and_says_so(way, rows):
    X, Y = rows
    model = PCARidge().partial_fit(X, Y)
    getattr(model, way)(*((Moments.of(X, Y),) if way == "fit_moments" else (X, Y)))
    assert not hasattr(model, "moments_")
    with pytest.warns(UserWarning, match="begins anew"):
        model.partial_fit(X[:10], Y[:10])
    assert model.moments_.n == 10


def test_a_failed_fit_forgets_nothing(rows):
    X, Y = rows
    model = PCARidge().partial_fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), Y)
    assert model.partial_fit(X, Y).moments_.n == 180


def test_a_refused_inverse_leaves_components_as_they_were(rng):
    model = StreamingPCA(2).fit(rng.random((20, 4)))
    # The decomposition of further rows is put off.
    model.partial_fit(rng.random((5, 4)))
    before = dict(vars(model))
    with pytest.raises(ValueError, match="X has 3 columns, but StreamingPCA has 2 components"):
        model.inverse_transform(np.ones((1, 3)))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


# ---- scores of rows whose features are never all there -------------------------------------------


def digits_as_histograms(dtype=np.float64):
    X, y = load_digits(return_X_y=True)
    return (X / X.sum(axis=1, keepdims=True)).astype(dtype), y


@pytest.mark.parametrize("container", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("n_components", [64, 65])
def test_models_of_features_predict_from_rows(container, n_components):
    X, y = digits_as_histograms()
    X = container(X)
    sampler = ExpChi2Sampler(n_components, random_state=0).fit(X)
    Z = sampler.transform(X)
    tolerance = 1e-3 if Z.dtype == np.float32 else 1e-9
    classifier = PCARidgeClassifier(alphas=1e-2).fit_rows(X, y, feature_map=sampler)
    for method in ("decision_function", "predict_proba", "predict"):
        found = getattr(classifier, method)(X, feature_map=sampler)
        expected = getattr(classifier, method)(Z)
        assert found.dtype == expected.dtype
        if method == "predict":
            assert np.mean(found == expected) > 0.998
        else:
            np.testing.assert_allclose(found, expected, atol=tolerance)
    for targets in (y.astype(float), np.column_stack([y, y**2]).astype(float)):
        for model in (PCARidge(alphas=1e-2), MomentLasso(1e-3)):
            model.fit_rows(X, targets, feature_map=sampler)
            found, expected = model.predict(X, feature_map=sampler), model.predict(Z)
            assert found.shape == targets.shape
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_any_feature_map_is_applied_to_some_rows_at_a_time(monkeypatch):
    X, y = digits_as_histograms()
    feature_map = make_pipeline(AdditiveChi2Map(3), StandardScaler()).fit(X)
    model = PCARidge(alphas=1e-2).fit_rows(X, y, feature_map=feature_map)
    expected = model.predict(feature_map.transform(X))
    seen = []
    transform = Pipeline.transform

    def watched(self, rows):
        seen.append(len(rows))
        return transform(self, rows)

    monkeypatch.setattr(_linear, "CHUNK_SIZE", 1000)
    monkeypatch.setattr(Pipeline, "transform", watched)
    np.testing.assert_allclose(model.predict(X, feature_map=feature_map), expected, rtol=1e-12)
    assert seen == [1000, 797]


def test_a_feature_map_with_other_features_is_refused():
    X, y = digits_as_histograms()
    sampler = ExpChi2Sampler(10, random_state=0).fit(X)
    model = PCARidge(alphas=1e-2).fit_rows(X, y, feature_map=sampler)
    other = ExpChi2Sampler(12, random_state=0).fit(X)
    with pytest.raises(ValueError, match="has 12 features, but PCARidge is expecting 10"):
        model.predict(X, feature_map=other)
    with pytest.raises(NotFittedError):
        model.predict(X, feature_map=ExpChi2Sampler(10))
    with pytest.raises(NotFittedError):
        PCARidge().predict(X, feature_map=sampler)
    with pytest.raises(ValueError, match="X has 3 features, but"):
        model.predict(X[:, :3], feature_map=sampler)


@pytest.mark.parametrize("sizes", [[100, 100, 97], [50, 200, 7, 40]])
def test_chunks_of_features_in_shared_memory_have_the_moments_of_their_own(sizes):
    X, y = digits_as_histograms()
    sampler = ExpChi2Sampler(30, random_state=0).fit(X)
    edges = np.cumsum([0, *sizes])
    parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
    dtypes = [np.float64, np.float32, np.float64, np.float64]
    chunks = [(X[p].astype(t), y[p]) for p, t in zip(parts, dtypes, strict=False)]
    mapped = [(sampler.transform(rows), targets) for rows, targets in chunks]
    assert bits(Moments.of(chunks, feature_map=sampler)) == bits(Moments.of(mapped))


# ---- fewer rows than features --------------------------------------------------------------------


def wide(seed, n, n_features, container=np.asarray, dtype=np.float64):
    """Return rows of which many entries, and some columns, are zero."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, n_features)) * (rng.random((n, n_features)) < 0.4)
    X[:, rng.random(n_features) < 0.3] = 0.0
    X[0, 0] = 1.0
    return container(X.astype(dtype)), X.astype(dtype).astype(np.float64), rng


cases = given(
    n=st.integers(2, 12),
    extra=st.sampled_from([1, 2, 17, 60]),
    container=st.sampled_from([np.asarray, sparse.csr_array, np.asfortranarray]),
    dtype=st.sampled_from([np.float64, np.float32]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)


@cases
def test_ridge_of_few_rows_is_that_of_moments(n, extra, container, dtype, weighted, seed):
    rows, X, rng = wide(seed, n, n + extra, container, dtype)
    y = rng.standard_normal((n, 2))
    weights = rng.integers(0, 4, n) + (np.arange(n) < 2) if weighted else None
    for n_components in (None, 2, n + extra):
        model = PCARidge(n_components, alphas=0.3, selection="gcv")
        few = model.fit(rows, y, weights)
        few = pickle.loads(pickle.dumps(few))
        whole = model.fit_moments(Moments.of(X, y, sample_weight=weights))
        assert few.n_components_ == whole.n_components_
        if n_components != 2 or not _has_ties(X, weights, 2):
            np.testing.assert_allclose(few.coef_, whole.coef_, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(few.intercept_, whole.intercept_, rtol=1e-8, atol=1e-10)


def _has_ties(X, weights, k):
    """Say whether the directions of the `k` largest eigenvalues are not unique."""
    w = np.ones(len(X)) if weights is None else weights
    centred = X - w @ X / w.sum()
    values = np.append(np.linalg.svd(np.sqrt(w)[:, None] * centred, compute_uv=False), 0.0)
    return values[k - 1] - values[k] < 1e-3 * values[0]


@cases
def test_directions_of_few_rows_are_those_of_moments(n, extra, container, dtype, weighted, seed):
    rows, X, rng = wide(seed, n, n + extra, container, dtype)
    weights = rng.integers(0, 4, n) + (np.arange(n) < 2) if weighted else None
    for n_components in (1, None, 0.7):
        model = StreamingPCA(n_components)
        few = model.fit(rows, sample_weight=weights)
        found = few.explained_variance_, few.explained_variance_ratio_, few.mean_, few.components_
        whole = StreamingPCA(n_components).fit_moments(Moments.of(X, sample_weight=weights))
        scale = max(whole.explained_variance_.max(), 1e-300)
        np.testing.assert_allclose(found[0], whole.explained_variance_, atol=1e-12 * scale)
        np.testing.assert_allclose(found[1], whole.explained_variance_ratio_, atol=1e-12)
        np.testing.assert_allclose(found[2], whole.mean_, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found[3] @ found[3].T, np.eye(len(found[3])), atol=1e-12)
        if n_components != 1 or not _has_ties(X, weights, 1):
            weighed = found[3].T * found[0] @ found[3]
            definition = whole.components_.T * whole.explained_variance_ @ whole.components_
            if not isinstance(n_components, float) or len(found[3]) == whole.n_components_:
                np.testing.assert_allclose(weighed, definition, atol=1e-10 * scale)


def test_rows_come_after_few_rows():
    _, X, _ = wide(2, 9, 40)
    X_after = wide(3, 50, 40)[1]
    model = StreamingPCA(3).fit(X[:8])
    first = model.components_.copy()
    X_before = X.copy()
    X[:8] = 7.0  # The rows of a fit are its own.
    model.partial_fit(X_before[8:]).partial_fit(X_after)
    expected = StreamingPCA(3).fit(np.vstack([X_before, X_after]))
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-10)
    assert model.n_samples_seen_ == 59
    assert not np.allclose(first, model.components_)


def test_classes_of_few_rows():
    rows, X, rng = wide(4, 30, 200, sparse.csr_array)
    y = np.where(X[:, 0] + rng.random(30) > 0.6, "a", "b")
    few = PCARidgeClassifier().fit(rows, y)
    assert few.coef_.shape == (1, 200)
    probabilities = few.predict_proba(rows)
    np.testing.assert_allclose(probabilities, few.predict_proba(X), atol=1e-12)
    # With as many rows as features each row is there as often, and nothing else changes.
    often = PCARidge(alphas=0.7 * 10).fit(np.tile(X, (10, 1)), np.tile(y == "a", 10))
    once = PCARidge(alphas=0.7).fit(X, y == "a")
    np.testing.assert_allclose(often.coef_, once.coef_, atol=1e-9)
    peer = Ridge(alpha=0.7).fit(X, y == "a")
    np.testing.assert_allclose(once.coef_, peer.coef_, atol=1e-9)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 1e5])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_rows_say_the_mean_of_their_targets(container, value, weighted):
    # Their coordinates once differed by rounding, which was learned from: 6e11 was predicted.
    X = container(np.full((20, 50), value))
    y = np.random.default_rng(0).standard_normal(20)
    labels = np.arange(20) % 2
    weights = None
    if weighted:
        X = container(np.vstack([X.toarray() if sparse.issparse(X) else X, np.zeros((1, 50))]))
        y, labels = np.append(y, 0.0), np.append(labels, 0)
        weights = np.append(np.ones(20), 0.0)
        X = X[::-1]
        y, labels, weights = y[::-1], labels[::-1], weights[::-1]
    model = PCARidge().fit(X, y, weights)
    mean = np.average(y, weights=weights)
    np.testing.assert_allclose(model.predict(X)[-20:], mean, rtol=1e-12)
    classifier = PCARidgeClassifier().fit(X, labels, weights)
    np.testing.assert_allclose(classifier.predict_proba(X)[-20:], 0.5, atol=0.02)
    pca = StreamingPCA().fit(X, sample_weight=weights)
    np.testing.assert_allclose(pca.explained_variance_, 0.0, atol=1e-25 * max(value, 1e-10) ** 2)
    np.testing.assert_allclose(pca.mean_, value, rtol=1e-14)


def test_a_class_without_weight_leaves_equal_rows():
    X = np.vstack([np.random.default_rng(0).random((5, 50)), np.full((15, 50), 0.1)])
    labels = np.array(["none"] * 5 + ["a", "b", "b"] * 5)
    model = PCARidgeClassifier(class_weight={"none": 0.0}).fit(X, labels)
    scores = model.decision_function(X[5:])
    np.testing.assert_array_equal(scores, np.broadcast_to(scores[0], scores.shape))
    # Nothing tells rows apart that are equal, so that no feature has a say.
    np.testing.assert_array_equal(model.coef_, 0.0)
    shares = np.exp(scores[0]) / np.exp(scores[0]).sum()
    np.testing.assert_allclose(shares, [1 / 3, 2 / 3, 0.0], atol=0.05)


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e6])
def test_rows_far_from_zero(shift):
    _, X, rng = wide(6, 20, 60)
    y = X @ rng.standard_normal(60)
    # What the shift takes of the last bits is gone in both.
    shifted = (X + shift) - shift
    expected = PCARidge(alphas=0.1).fit(shifted, y).predict(shifted)
    found = PCARidge(alphas=0.1).fit(X + shift, y).predict(X + shift)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * max(shift, 1.0))


def test_weights_of_few_rows_are_copied():
    _, X, _ = wide(2, 9, 40)
    weights = np.arange(1.0, 10.0)
    model = StreamingPCA(3).fit(X, sample_weight=weights)
    given = weights.copy()
    weights[:] = 1.0
    np.testing.assert_array_equal(model.moments_.H, Moments.of(X, sample_weight=given).H)


@pytest.mark.filterwarnings("ignore:no penalty up to")
def test_directions_without_variance_say_nothing():
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((30, 200)), rng.standard_normal((5, 200))
    y = X[:, 0]
    for scale, alpha in [(1.0, 1e-15), (1.0, 1e-9), (1e7, 1.0), (1e12, 1.0), (1e-12, 1e-30)]:
        found = PCARidge(alphas=alpha).fit(X * scale, y).predict(T * scale)
        # Penalties are so small that the coefficients are those of least squares and least norm.
        least = np.linalg.pinv(X - X.mean(axis=0)) @ (y - y.mean())
        np.testing.assert_allclose(found, y.mean() + (T - X.mean(axis=0)) @ least, atol=1e-8)
    # A column that is the sum of two others.
    X = rng.standard_normal((300, 20))
    X, y = np.column_stack([X, X[:, 0] + X[:, 1]]), X @ rng.standard_normal(20)
    T = rng.standard_normal((9, 20))
    T = np.column_stack([T, T[:, 0] + T[:, 1]])
    for alpha in (1e-15, 1e-12, 1e-6):
        found = PCARidge(alphas=alpha).fit(X, y).predict(T)
        expected = Ridge(alpha, solver="svd").fit(X, y).predict(T)
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_columns_of_little_variance_are_not_lost():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 5)) * [1.0, 1.0, 1.0, 1.0, 1e-5]
    y = 1e5 * X[:, 4]
    model = PCARidge(alphas=1e-14).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-3)


# ---- a fit that was interrupted --------------------------------------------------------------


def _broken(chunks, after):
    for number, chunk in enumerate(chunks):
        if number == after:
            raise KeyboardInterrupt
        yield chunk


def test_an_interrupt_leaves_the_last_checkpoint_whole(rows, tmp_path):
    chunks = np.split(rows[0], 45)
    with pytest.raises(KeyboardInterrupt):
        Moments.of(_broken(chunks, 40), checkpoint=tmp_path / "moments", checkpoint_every=3)
    moments = Moments.load(tmp_path / "moments")
    assert moments.n_chunks == 39
    assert_close(moments.H, Moments.of(chunks[:39]).H, 1e-12)
    assert [path.name for path in tmp_path.iterdir()] == ["moments"]


@pytest.mark.parametrize("model", [PCARidge(), PCARidgeClassifier(), MomentLasso(0.01)], ids=repr)
def test_an_interrupted_fit_goes_on(model, rows, tmp_path):
    X, Y = rows
    y = np.arange(90) % 3 if isinstance(model, PCARidgeClassifier) else Y[:, 0]
    given = {"classes": [0, 1, 2]} if isinstance(model, PCARidgeClassifier) else {}
    chunks = [(X[i : i + 2], y[i : i + 2]) for i in range(0, 90, 2)]
    file = tmp_path / "moments"
    with pytest.raises(KeyboardInterrupt):
        model.fit_rows(_broken(chunks, 40), checkpoint=file, **given)
    assert 0 < Moments.load(file).n < 80
    resumed = clone(model).fit_rows(iter(chunks), checkpoint=file, **given)
    np.testing.assert_array_equal(resumed.coef_, clone(model).fit_rows(iter(chunks), **given).coef_)
    assert Moments.load(file).n == 90
    with pytest.raises(ValueError, match="not the one that was consumed"):
        model.fit_rows([(X[2:4], y[2:4]), *chunks[1:]], checkpoint=file, **given)


# ---- what is refused -------------------------------------------------------------------------

Z, LABELS = np.random.default_rng(0).standard_normal((30, 5)), np.arange(30) % 3
Y = np.random.default_rng(1).standard_normal(30)
SMALL = Moments(1, 1).update([[1.0], [2.0]], [1, 2])
OF_Z = Moments.of(Z)
SIGNS = Moments.of(Z, 2.0 * (LABELS > 0) - 1)
EQUAL_RATE = PCARidgeClassifier(calibrate="equal-rate", calibration_rank=31)
FAR = np.vstack([np.zeros(5), np.full((2, 5), 1e308)])
VAST = sparse.csr_array(([1.0, 2.0], ([0, 1], [5, 10**6])), shape=(2, 2**21))

REFUSED = [
    *[(message, partial(Moments.of, rows, y)) for rows, y, message in (
        ([], None, "no rows"), (np.ones((3, 2)), np.ones(2), "2 rows and the data 3"),
        ([np.ones((3, 2)), np.ones((3, 3))], None, "3 features"),
        ([np.ones((3, 2))], np.ones(3), "yield pairs"),
        ([1.0, 2.0], None, r"shape \(\): expected rows and columns"),
        ([[1.0, 2.0]], None, r"shape \(2,\): expected rows and columns"),
        (np.ones(3), None, r"shape \(3,\): expected rows and columns"))],
    *[(message, partial(OF_Z.__sub__, other)) for other, message in (
        (Moments.of(np.vstack([Z, Z[:1]])), "cannot subtract 31 rows from 30"),
        (Moments.of(100.0 * Z[:10]), "that were not added"),
        (Moments.of(Z[:10, :2]), "features"), (Moments.of(Z[:10], Y[:10]), "targets"))],
    *[(message, partial(PCARidge(**parameters).fit_moments, moments))
      for parameters, moments, message in (
          ({"alphas": [1.0, 0.0]}, SMALL, "positive"), ({"alphas": []}, SMALL, "positive"),
          ({"selection": "loo"}, SMALL, "needs the rows"),
          ({}, Moments(1, 1).update([[1.0], [2.0]]), "a target"),
          ({"blocks": [2, 3]}, SIGNS, "blocks need the rows, twice"))],
    *[("n_components=6 must be at most n_features=5", partial(call, Z, LABELS))
      for call in (StreamingPCA(6).partial_fit, StreamingPCA(6).fit, PCARidge(6).fit,
                   PCARidgeClassifier(6).fit)],
    ("two rows", lambda: StreamingPCA(1).fit_moments(Moments(5).update(Z[:1]))),
    *[("an iterator has one", partial(model.fit_rows, iter([(Z, LABELS)]), **classes))
      for model, classes in (
          (PCARidge(blocks=[2, 3]), {}), (PCARidge(selection="loo"), {}),
          (PCARidgeClassifier(calibrate="equal-rate"), {"classes": [0, 1, 2]}))],
    ("calibration_rank = 31, but there are 30 rows", partial(EQUAL_RATE.fit, Z, LABELS)),
    ("calibration_rows must be given", partial(EQUAL_RATE.fit_moments, SIGNS, [0, 1])),
    ("calibration_rows must be given",
     partial(PCARidgeClassifier().fit_moments, SIGNS, [0, 1], calibration_rows=Z)),
    *[(r"range|large|overflow", partial(model.fit, FAR, np.arange(3.0)))
      for model in (PCARidge(), StreamingPCA())],
    (r"2,097,152 columns take .* GB.* at most [\d,]+ columns fit",
     partial(MomentLasso().fit, VAST, [0.0, 1.0])),
    ("blocks=None", partial(PCARidge(2, blocks=[2, 3]).fit_rows, Z, Y, checkpoint="a")),
    ("classes is needed with checkpoint",
     partial(PCARidgeClassifier().fit_rows, [(Z, LABELS)], checkpoint="a")),
    (r"Moments\.of\(rows, Y, checkpoint", partial(MomentLassoCV().fit_rows, Z, Y, checkpoint="a")),
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_what_is_bad_is_named(message, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (PCARidge(selection="loo"), "loo"),
        (PCARidge([1, 1], blocks=[2, 3]), "blocks"),
        (PCARidgeClassifier(selection="loo"), "loo"),
        (PCARidgeClassifier(calibrate="equal-rate"), "calibrate"),
    ],
    ids=repr,
)
def test_what_needs_the_rows_again_has_no_partial_fit(model, words):
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as error:
        model.partial_fit([[1.0], [2.0]], [0, 1])
    assert f"{words}" in str(error.value.__cause__)
    assert "needs the rows again" in str(error.value.__cause__)


def test_files_hold_few_rows_and_are_told_from_checkpoints(rows, tmp_path):
    X, Y = rows
    # The rows are fewer than the features, and a file is asked for nevertheless.
    PCARidge().fit_rows(X[:4], Y[:4, 0], checkpoint=tmp_path / "few")
    assert Moments.load(tmp_path / "few").n == 4
    Moments(5).update(X).save(tmp_path / "moments")
    with pytest.raises(ValueError, match=r"Moments\.load\(.*\)\.update"):
        Moments.of(X, checkpoint=tmp_path / "moments")
