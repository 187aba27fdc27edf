"""Columns that have names are matched by them, wherever rows come from."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder

from histrs.streaming import (
    MomentGroupLasso,
    MomentLasso,
    Moments,
    PCARidge,
    PCARidgeClassifier,
    StreamingPCA,
)

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pytest.importorskip("pyarrow")

COEF = np.array([3.0, -1.0, 0.0])
MODELS = [PCARidge(alphas=1e-8), MomentLasso(1e-8), MomentGroupLasso(alpha=1e-8)]


@pytest.fixture
def parts():
    """Two tables of the same columns, in another order."""
    rng = np.random.default_rng(0)
    X = rng.random((200, 3)) * [1.0, 5.0, 20.0]
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=X @ COEF, w=1.0)
    return frame[:100], frame[100:][["w", "c", "y", "a", "b"]]


def written(parts, folder, kind):
    paths = [folder / f"{number}.{kind}" for number in range(len(parts))]
    for part, path in zip(parts, paths, strict=True):
        part.to_csv(path, index=False) if kind == "csv" else part.to_parquet(path, index=False)
    return paths


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_columns_of_files_are_matched_by_name(model, kind, parts, tmp_path):
    paths = written(parts, tmp_path, kind)
    model.fit_rows(paths, "y", sample_weight="w")
    np.testing.assert_allclose(model.coef_, COEF, atol=1e-4)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    # The names are those of the first file.
    model.fit_rows(paths[::-1], "y", sample_weight="w")
    np.testing.assert_allclose(model.coef_, COEF[[2, 0, 1]], atol=1e-4)
    assert model.feature_names_in_.tolist() == ["c", "a", "b"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_lacks_a_column_is_named(kind, parts, tmp_path):
    first, second = parts
    for bad, message in (
        (second.drop(columns="b"), r"1\.\w+ has no column 'b'"),
        (second.rename(columns={"b": "B"}), r"1\.\w+ has no column 'b'"),
        (second.assign(d=1.0), r"1\.\w+ has a column 'd', unlike"),
        (second.drop(columns="y"), r"1\.\w+ has no column 'y'"),
        (second.assign(b="VW"), r"Column 'b' of .*1\.\w+ holds text .*such as 'VW'"),
    ):
        paths = written((first, bad), tmp_path, kind)
        with pytest.raises(ValueError, match=message):
            PCARidge().fit_rows(paths, "y", sample_weight="w")


def test_chunks_of_frames_are_matched_by_name(parts):
    features = [part.drop(columns=["y", "w"]) for part in parts]
    targets = [part["y"].to_numpy() for part in parts]
    for of in (lambda rows: rows, pl.from_pandas, lambda rows: pl.from_pandas(rows).to_arrow()):
        chunks = [(of(rows), y) for rows, y in zip(features, targets, strict=True)]
        for rows in (chunks, iter(chunks)):
            model = PCARidge(alphas=1e-8).fit_rows(rows)
            np.testing.assert_allclose(model.coef_, COEF, atol=1e-4)
            assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        moments = Moments.of(chunks)
        assert moments.feature_names == ["a", "b", "c"]
        np.testing.assert_allclose(moments.H, Moments.of(pd.concat(features)).H)
    for bad, message in (
        (features[1].rename(columns={"b": "B"}), "chunk 1, counted from 0, has no column 'b'"),
        (features[1].assign(d=1.0), "chunk 1, counted from 0, has a column 'd'"),
        (features[1].assign(b="VW"), "Column 'b' of chunk 1, counted from 0, holds text"),
    ):
        with pytest.raises(ValueError, match=message):
            Moments.of([features[0], bad])


def test_a_frame_in_memory_keeps_its_names(parts):
    whole = pd.concat(parts)
    X = whole[["a", "b", "c"]]
    for rows in (X, pl.from_pandas(X), pl.from_pandas(X).lazy(), pl.from_pandas(X).to_arrow()):
        model = PCARidge(alphas=1e-8).fit_rows(rows, whole["y"])
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(model.predict(rows), whole["y"], atol=1e-3)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(X[["b", "a", "c"]])


def test_moments_are_matched_by_name(parts):
    first, second = (part.drop(columns=["y", "w"]) for part in parts)
    both = Moments.of(pd.concat([first, second]))
    a, b = Moments.of(first), Moments.of(second)
    assert b.feature_names == ["c", "a", "b"]
    for merged in (a + b, Moments(3).update(first).update(second)):
        assert merged.feature_names == ["a", "b", "c"]
        assert merged.n == 200
        np.testing.assert_allclose(merged.H, both.H)
        np.testing.assert_allclose(merged.m, both.m)
    np.testing.assert_allclose(((a + b) - b).H, a.H)
    # Those of the other order are those of the first of the two.
    np.testing.assert_allclose((b + a).H, both.H[np.ix_([2, 0, 1], [2, 0, 1])])
    labelled = [Moments.of(rows, rows["b"]) for rows in (first, second)]
    np.testing.assert_allclose(
        (labelled[0] + labelled[1]).v[:, 0], both.H[1] + both.m * both.m[1] / 200
    )
    for bad, message in (
        (second.rename(columns={"b": "B"}), "has no column 'b', unlike"),
        (second.drop(columns="b"), "has no column 'b'"),
        (second.assign(d=1.0), "has a column 'd', unlike"),
    ):
        for act in (a.merge, a.remove):
            with pytest.raises(ValueError, match=f"other {message}"):
                act(Moments.of(bad))
        before = a.H.copy()
        with pytest.raises(ValueError, match=f"Z {message}"):
            a.update(bad)
        np.testing.assert_array_equal(a.H, before)


def test_rows_without_names_are_matched_by_place(parts):
    first, second = (part[["a", "b", "c"]] for part in parts)
    both = Moments.of(pd.concat([first, second])).H
    for merged in (
        Moments.of(first) + Moments.of(second.to_numpy()),
        Moments.of(first.to_numpy()) + Moments.of(second),
        Moments.of(first).update(second.to_numpy()),
        Moments.of(first.to_numpy()).update(second),
        Moments(3, feature_names=list("abc")).update(first.to_numpy()).update(second),
    ):
        assert merged.feature_names == ["a", "b", "c"]
        np.testing.assert_allclose(merged.H, both)
    assert Moments.of(first.to_numpy()).feature_names is None
    # Numbers are no names.
    assert Moments.of(first.set_axis([0, 1, 2], axis=1)).feature_names is None
    with pytest.raises(ValueError, match="2 feature_names, but n_features = 3"):
        Moments(3, feature_names=["a", "b"])


def test_an_update_that_fails_leaves_the_names(parts):
    moments = Moments(3)
    bad = parts[0][["a", "b", "c"]].assign(b=np.inf)
    with pytest.raises(ValueError, match=r"Z\[0, 1\]"):
        moments.update(bad)
    assert moments.feature_names is None


def test_names_are_saved(parts, tmp_path):
    first, second = (part.drop(columns=["y", "w"]) for part in parts)
    path = tmp_path / "moments"
    Moments.of(first).save(path)
    loaded = Moments.load(path)
    assert loaded.feature_names == ["a", "b", "c"]
    with pytest.raises(ValueError, match="has no column 'B'"):
        Moments.of(second.rename(columns={"b": "B"})).save(path)
    # A run that was stopped goes on with rows whose columns have another order.
    chunks = [first[:50], first[50:], second]
    done = tmp_path / "checkpoint"
    Moments.of(chunks[:2], checkpoint=done)
    resumed = Moments.of([first[["b", "c", "a"]][:50], *chunks[1:]], checkpoint=done)
    np.testing.assert_array_equal(resumed.H, Moments.of(chunks).H)
    assert resumed.feature_names == ["a", "b", "c"]
    with pytest.raises(ValueError, match="chunk 0, counted from 0, has no column 'b'"):
        Moments.of([first.rename(columns={"b": "B"})], checkpoint=done)


def test_models_of_moments_keep_their_names(parts):
    whole = pd.concat(parts)
    X, y = whole[["a", "b", "c"]], whole["y"]
    other = X[["c", "b", "a"]]
    models = (
        StreamingPCA(2).fit_moments(Moments.of(X)),
        PCARidge().fit_moments(Moments.of(X, y)),
        MomentLasso(0.1).fit_moments(Moments.of(X, y)),
        PCARidgeClassifier(calibrate="equal-rate").fit_moments(
            Moments.of(X, np.sign(y - 1)), [-1, 1], calibration_rows=other
        ),
    )
    same = PCARidgeClassifier(calibrate="equal-rate").fit_moments(
        Moments.of(X, np.sign(y - 1)), [-1, 1], calibration_rows=X
    )
    np.testing.assert_allclose(models[-1].decision_function(X), same.decision_function(X))
    for model in models:
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert PCARidge().partial_fit(X, y).moments_.feature_names == ["a", "b", "c"]
    for pca in (StreamingPCA(2).partial_fit(X), StreamingPCA().fit(X)):
        assert pca.moments_.feature_names == ["a", "b", "c"]
        np.testing.assert_allclose((pca.moments_ + Moments.of(other)).H, 2 * Moments.of(X).H)


@pytest.mark.parametrize("kind", ["csv", "parquet", "frames"])
def test_a_feature_map_sees_its_own_columns(kind, parts, tmp_path):
    first, second = (part.drop(columns="w") for part in parts)
    scaler = MaxAbsScaler().fit(pd.concat([first, second])[["b", "a", "c"]])
    sources = {"frames": [(part[["a", "c", "b"]], part["y"]) for part in (first, second)]}
    rows = sources.get(kind) or written((first, second), tmp_path, kind)
    model = PCARidge(alphas=1e-8).fit_rows(
        rows, None if kind == "frames" else "y", feature_map=scaler
    )
    np.testing.assert_allclose(model.coef_ / scaler.scale_, COEF[[1, 0, 2]], atol=1e-4)
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="has no column 'b'"):
        Moments.of([first[["a", "c"]]], feature_map=scaler)


def test_a_feature_map_of_frames_sees_frames(parts):
    frame = parts[0][["a", "b"]].assign(make=["VW", "Opel"] * 50)
    encoder = ColumnTransformer([("make", OneHotEncoder(), ["make"])], remainder="passthrough")
    encoder.fit(frame)
    for rows in (frame, [frame[:30], frame[30:][["make", "b", "a"]]]):
        moments = Moments.of(rows, feature_map=encoder)
        np.testing.assert_allclose(moments.H, Moments.of(encoder.transform(frame)).H)
        assert moments.feature_names is None
