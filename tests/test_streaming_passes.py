"""Passes over rows: blocks of features, calibration, interrupts, progress."""

import signal

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from histrs.kernel_approximation import ExpChi2Sampler
from histrs.streaming import (
    MomentLasso,
    Moments,
    PCARidge,
    PCARidgeClassifier,
    StreamingPCA,
)
from tests.helpers import assert_close, peak_of_memory, start_python
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
        ({"blocks": [2, 2]}, "5 features, but the blocks 4"),
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


def test_what_needs_several_passes_refuses_iterators_and_moments(rng):
    Z, y = data(rng, 30, t=1)
    labels = np.arange(30) % 3
    for model in (PCARidge(blocks=[2, 3]), PCARidge(selection="loo")):
        with pytest.raises(ValueError, match="an iterator has one"):
            model.fit_rows(iter([(Z, y)]))
    with pytest.raises(ValueError, match="an iterator has one"):
        PCARidgeClassifier(calibrate="equal-rate").fit_rows(iter([(Z, labels)]), classes=[0, 1, 2])
    with pytest.raises(ValueError, match="blocks need the rows, twice"):
        PCARidge(blocks=[2, 3]).fit_moments(Moments.of(Z, y))
    assert PCARidge().fit_rows(iter([(Z, y)])).coef_.shape == (5,)


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
    with pytest.raises(ValueError, match="classes is needed"):
        parts.fit_rows(chunks)
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


def test_calibration_says_what_it_lacks(rng):
    Z, labels = rng.random((30, 2)), np.arange(30) % 2
    moments = Moments.of(Z, 2.0 * labels - 1)
    model = PCARidgeClassifier(calibrate="equal-rate", calibration_rank=31)
    with pytest.raises(ValueError, match="calibration_rank = 31, but there are 30 rows"):
        model.fit(Z, labels)
    with pytest.raises(ValueError, match="calibration_rows must be given"):
        model.fit_moments(moments, [0, 1])
    with pytest.raises(ValueError, match="calibration_rows must be given"):
        PCARidgeClassifier().fit_moments(moments, [0, 1], calibration_rows=Z)
    assert not hasattr(model, "coef_")


# ---- rows that do not fit -----------------------------------------------------------------------


def test_errors_name_the_chunk():
    good = np.ones((3, 2))
    bad = good.copy()
    bad[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"in chunk 1, counted from 0: Z\[2, 1\] = NaN"):
        Moments.of([good, bad])
    with pytest.raises(ValueError, match=r"in chunk 2.*the chunk has 3 features"):
        Moments.of([good, good, np.ones((1, 3))])


def test_exhausted_iterators_and_other_data_are_refused(rng, tmp_path):
    Z, _ = data(rng, 100)
    path = tmp_path / "moments"
    chunks = iter([Z[:50], Z[50:]])
    Moments.of(chunks, checkpoint=path)
    content = path.read_bytes()
    with pytest.raises(ValueError, match="end after 0 chunks, but the checkpoint holds 2"):
        Moments.of(chunks, checkpoint=path)
    path.unlink()
    Moments.of(Z, checkpoint=path, chunk_size=30)
    content = path.read_bytes()
    for other in (np.vstack([Z, Z]), Z[:50]):
        with pytest.raises(ValueError, match="the checkpoint holds 100 rows in 4 chunks"):
            Moments.of(other, checkpoint=path, chunk_size=30)
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


INTERRUPTED = """
import sys
import numpy as np
from histrs.streaming import Moments

def chunks():
    for seed in range(10**6):
        print(seed, flush=True)
        yield np.random.default_rng(seed).standard_normal((50, 40))

Moments.of(chunks(), checkpoint=sys.argv[1], checkpoint_every=3)
"""


def test_ctrl_c_leaves_the_last_checkpoint_whole(tmp_path):
    path = tmp_path / "moments"
    with start_python(INTERRUPTED, str(path)) as process:
        for line in process.stdout:
            if int(line) == 100:
                break
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    assert "KeyboardInterrupt" in err
    moments = Moments.load(path)
    assert moments.n_chunks % 3 == 0
    assert moments.n == 50 * moments.n_chunks >= 50 * 96
    assert [p.name for p in tmp_path.iterdir()] == ["moments"]
    rows = (
        np.random.default_rng(seed).standard_normal((50, 40)) for seed in range(moments.n_chunks)
    )
    assert_close(moments.H, Moments.of(rows).H, 1e-12)


def test_every_pass_shows_its_progress(rng, monkeypatch, capsys):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    Z, labels = rng.random((30, 4)), np.arange(30) % 3
    Moments.of(Z, chunk_size=10, verbose=1)
    err = capsys.readouterr().err
    assert err.splitlines()[-1] == "moments: iteration 3, 30 rows"
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


def test_one_thread_gives_the_same_numbers(rng):
    Z, y = data(rng, 3000, 40)
    for model in (PCARidge(5), StreamingPCA(5), MomentLasso(0.1)):
        one, all_ = (
            model.set_params(n_jobs=n_jobs).fit(Z, y).moments_.H
            if isinstance(model, StreamingPCA)
            else model.set_params(n_jobs=n_jobs).fit(Z, y).coef_
            for n_jobs in (1, None)
        )
        assert_close(one, all_, 1e-9)
    with pytest.raises(ValueError, match="n_jobs"):
        Moments.of(Z, n_jobs=0)
