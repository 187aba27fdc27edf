"""Files, frames and dask arrays: what is learned is that of the arrays, and columns go by name."""

import gzip
import re

import numpy as np
import pandas as pd
import polars
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.datasets import dump_svmlight_file
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder

from histrs.kernel_approximation import ExpChi2Sampler
from histrs.streaming import (
    MomentGroupLasso,
    MomentLasso,
    Moments,
    PCARidge,
    PCARidgeClassifier,
    StreamingPCA,
    Table,
)
from tests.helpers import assert_close
from tests.test_streaming import bits
from tests.test_streaming import data as rows_and_targets

pytest.importorskip("pyarrow", reason="tables are read by pyarrow: histrs[parquet]")

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.random((1000, 4))
    # Whole numbers at first, so that types told from the first lines are wrong for the others.
    X[:900, 1] = np.arange(900) % 7
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.1 * rng.standard_normal(1000)
    return X, y, rng.integers(0, 3, 1000).astype(float)


def frame_of(X, y, w):
    # Targets and weights stand between the features.
    return pd.DataFrame({"a": X[:, 0], "y": y, "b": X[:, 1], "w": w, "c": X[:, 2], "d": X[:, 3]})


def sources(frame, folder):
    """The same rows, in every form of a table."""
    halves = [frame[:333], frame[333:]]
    (folder / "csv").mkdir()
    (folder / "parquet").mkdir()
    for k, half in enumerate(halves):
        half.to_csv(folder / "csv" / f"part-{k}.csv", index=False)
        half.to_parquet(folder / "parquet" / f"part-{k}.parquet")
    frame.to_csv(folder / "whole.csv", index=False)
    with gzip.open(folder / "whole.csv.gz", "wt") as file:
        frame.to_csv(file, index=False)
    frame.to_parquet(folder / "whole.pq")
    return {
        "csv": folder / "whole.csv",
        "gz": str(folder / "whole.csv.gz"),
        "csv folder": folder / "csv",
        "csv pattern": str(folder / "csv" / "part-*.csv"),
        "parquet": folder / "whole.pq",
        "parquet folder": folder / "parquet",
        "parquet pattern": str(folder / "**" / "part-*.parquet"),
        "list": [folder / "parquet" / f"part-{k}.parquet" for k in range(2)],
        "lazy": polars.from_pandas(frame).lazy(),
        "lazy file": polars.scan_csv(folder / "csv" / "part-*.csv"),
    }


def test_every_table_is_its_rows(data, tmp_path):
    X, y, w = data
    expected = Moments.of(X, y, sample_weight=w, chunk_size=128)
    for name, rows in sources(frame_of(*data), tmp_path).items():
        found = Moments.of(rows, "y", sample_weight="w", chunk_size=128)
        np.testing.assert_allclose(found.H, expected.H, rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(found.n, expected.n)
    arrays = tmp_path / "arrays.npz"
    np.savez(arrays, X=X, target=y, w=w)
    for given in (("target", "w"), (y, w)):
        found = Moments.of(arrays, given[0], sample_weight=given[1], chunk_size=128)
        np.testing.assert_array_equal(found.H, expected.H)
    # Arrays beside a table, which has the columns of the rows alone.
    frame_of(*data)[NAMES].to_csv(tmp_path / "rows.csv", index=False)
    found = Moments.of(tmp_path / "rows.csv", y, sample_weight=w, chunk_size=128)
    np.testing.assert_allclose(found.H, expected.H, rtol=1e-12)
    for wrong in (y[:-1], np.append(y, 0.0)):
        with pytest.raises(ValueError, match="a target for each row"):
            Moments.of(tmp_path / "parquet", wrong)
    with pytest.raises(ValueError, match="sample_weight has 999 rows"):
        Moments.of(tmp_path / "parquet", "y", sample_weight=w[1:], chunk_size=128)


@pytest.mark.parametrize("model", [PCARidge(alphas=0.1), MomentLasso(alpha=1e-3)])
def test_names_are_kept(model, data, tmp_path):
    X, y, w = data
    expected = model.fit(X, y, w).predict(X)
    for name, rows in sources(frame_of(*data), tmp_path).items():
        model.fit_rows(rows, "y", sample_weight="w")
        assert model.feature_names_in_.tolist() == NAMES, name
        features = pd.DataFrame(X, columns=NAMES)
        np.testing.assert_allclose(model.predict(features), expected, rtol=1e-9)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(features[NAMES[::-1]])
    # What a map makes of columns has other names.
    sampler = ExpChi2Sampler(6, random_state=0).fit(X)
    model.fit_rows(tmp_path / "csv", "y", sample_weight="w", feature_map=sampler)
    assert not hasattr(model, "feature_names_in_")


def test_labels_may_be_strings(data, tmp_path):
    X, y, w = data
    labels = np.where(y > 0, "up", "down")
    frame = frame_of(X, y, w).assign(y=labels)
    expected = PCARidgeClassifier().fit(X, labels, w).predict_proba(X)
    for rows in sources(frame, tmp_path).values():
        model = PCARidgeClassifier().fit_rows(rows, "y", classes=["up", "down"], sample_weight="w")
        assert model.classes_.tolist() == ["down", "up"]
        features = pd.DataFrame(X, columns=NAMES)
        np.testing.assert_allclose(model.predict_proba(features), expected, atol=1e-9)
    # An array of strings is one of labels, where its strings are no columns.
    frame[NAMES].to_csv(tmp_path / "rows.csv", index=False)
    model = PCARidgeClassifier().fit_rows(tmp_path / "rows.csv", labels, sample_weight=w)
    np.testing.assert_allclose(model.predict_proba(features), expected, atol=1e-9)


def test_several_targets_and_a_checkpoint(data, tmp_path):
    X, y, w = data
    frame = frame_of(X, y, w)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    first = Moments.of(
        tmp_path / "rows.csv", ["y", "w"], chunk_size=100, checkpoint=tmp_path / "kept"
    )
    np.testing.assert_allclose(first.H, Moments.of(X, np.column_stack([y, w])).H, rtol=1e-12)
    again = Moments.of(
        tmp_path / "rows.csv", ["y", "w"], chunk_size=100, checkpoint=tmp_path / "kept"
    )
    np.testing.assert_array_equal(again.H, first.H)


def test_columns_are_chosen_by_name(data, tmp_path):
    X, y, w = data
    frame = frame_of(X, y, w).assign(id=np.arange(len(X)), note="text that is no number")
    expected = PCARidge().fit(X[:, [3, 0]], y)
    (tmp_path / "parts").mkdir()
    frame[:400].to_parquet(tmp_path / "parts" / "a.parquet")
    frame[400:][frame.columns[::-1]].to_parquet(tmp_path / "parts" / "b.parquet")
    frame.to_csv(tmp_path / "rows.tsv", index=False, sep="\t")
    frame.to_csv(tmp_path / "rows.data", index=False, sep="|")
    wanted = ["d", "a"]
    others = ["b", "c", "w", "id", "note"]
    for table in (
        Table(tmp_path / "parts", columns=wanted),
        Table(tmp_path / "rows.tsv", columns=wanted),
        Table(tmp_path / "rows.data", columns=wanted, separator="|"),
        Table(polars.from_pandas(frame).lazy(), columns=wanted),
        Table(tmp_path / "rows.tsv", drop=others),
        Table(tmp_path / "parts", drop=others),
    ):
        model = PCARidge().fit_rows(table, "y")
        assert sorted(model.feature_names_in_) == ["a", "d"]
        known = model.feature_names_in_.tolist()
        order = [known.index(name) for name in wanted]
        np.testing.assert_allclose(model.coef_[order], expected.coef_, rtol=1e-9)
    with pytest.raises(ValueError, match="columns and drop are both given"):
        Table(tmp_path / "parts", columns=["a"], drop=["b"])
    for options in ({"columns": ["a", "z"]}, {"drop": ["z"]}):
        with pytest.raises(ValueError, match="has no column 'z'"):
            Moments.of(Table(tmp_path / "parts", **options))
    with pytest.raises(ValueError, match="is not a table: give Parquet"):
        Moments.of(Table(tmp_path / "rows.data"))


def test_predictions_of_what_is_not_in_memory(data, tmp_path):
    X, y, w = data
    frame = frame_of(X, y, w)
    labels = np.where(y > 0, "up", "down")
    model = PCARidge().fit(frame[NAMES], y)
    classifier = PCARidgeClassifier().fit(frame[NAMES], labels)
    expected = model.score(frame[NAMES], y, w), classifier.score(frame[NAMES], labels, w)
    for name, rows in sources(frame.assign(label=labels), tmp_path).items():
        np.testing.assert_allclose(model.predict(rows), model.predict(frame[NAMES]), err_msg=name)
        found = (
            model.score(rows, "y", sample_weight="w"),
            classifier.score(rows, "label", sample_weight="w"),
        )
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        np.testing.assert_allclose(
            classifier.predict_proba(rows), classifier.predict_proba(frame[NAMES]), atol=1e-12
        )
    np.save(tmp_path / "rows.npy", X)
    unnamed = PCARidge().fit(X, y)
    np.testing.assert_allclose(unnamed.score(tmp_path / "rows.npy", y, w), expected[0])
    chunks = [(X[i : i + 300], y[i : i + 300]) for i in range(0, 1000, 300)]
    np.testing.assert_allclose(unnamed.score(iter(chunks)), unnamed.score(X, y))
    sampler = ExpChi2Sampler(6, random_state=0).fit(frame[NAMES])
    mapped = PCARidge().fit_rows(
        Table(tmp_path / "csv", columns=NAMES), "y", feature_map=sampler, sample_weight="w"
    )
    np.testing.assert_allclose(
        mapped.score(tmp_path / "whole.pq", "y", feature_map=sampler),
        mapped.score(frame[NAMES], y, feature_map=sampler),
        rtol=1e-9,
    )
    with pytest.raises(ValueError, match="has no column 'd'"):
        model.predict(polars.from_pandas(frame[NAMES[:3]]).lazy())


def test_names_of_columns_of_frames(data, tmp_path):
    X, y, w = data
    frame = frame_of(X, y, w)
    expected = PCARidge().fit(frame[NAMES], y, w).coef_
    frame.to_csv(tmp_path / "rows.csv", index=False)
    reader = pd.read_csv(tmp_path / "rows.csv", chunksize=300)
    chunks = [polars.from_pandas(frame[i : i + 300]) for i in range(0, 1000, 300)]
    for rows in (reader, chunks, frame):
        model = PCARidge().fit_rows(rows, "y", sample_weight="w")
        assert model.feature_names_in_.tolist() == NAMES
        np.testing.assert_allclose(model.coef_, expected, rtol=1e-6)
    found = PCARidgeClassifier().fit_rows(chunks, "w")
    np.testing.assert_array_equal(found.classes_, [0, 1, 2])
    with pytest.raises(ValueError, match="no column 'z'"):
        Moments.of(frame, "z")
    with pytest.raises(ValueError, match="need frames"):
        Moments.of([X], "y")


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight_files_are_their_rows(rng, tmp_path, monkeypatch, zero_based):
    X = sparse.random_array((300, 12), density=0.3, format="csr", random_state=rng)
    X[0, 0] = 1.0
    # As scikit-learn 1.6 writes them.
    X = sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape)
    y, w = rng.integers(0, 3, 300), rng.random(300)
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=zero_based)
    # The file is cut anywhere.
    monkeypatch.setattr("histrs.streaming._readers._SVMLIGHT_BYTES", 1000)
    expected = Moments.of(X, y, sample_weight=w)
    for chunk_size in (7, 4096):
        found = Moments.of(tmp_path / "rows.svm", sample_weight=w, chunk_size=chunk_size)
        assert_close(found.H, expected.H, 1e-9)
        assert_close(found.v, expected.v, 1e-9)
    model = PCARidgeClassifier().fit_rows(tmp_path / "rows.svm")
    assert model.score(tmp_path / "rows.svm") == model.score(X, y)
    with pytest.raises(ValueError, match="targets of its own"):
        Moments.of(tmp_path / "rows.svm", y)
    with pytest.raises(ValueError, match="a weight for each row"):
        Moments.of(tmp_path / "rows.svm", sample_weight=w[:-1])
    for text, message in (("1 a:b\n", "not an svmlight file"), ("1\n2\n", "no entries")):
        (tmp_path / "bad.svm").write_text(text)
        with pytest.raises(ValueError, match=message):
            Moments.of(tmp_path / "bad.svm")


def test_sparse_arrays_of_files(rng, tmp_path):
    X = sparse.random_array((50, 6), density=0.3, format="coo", random_state=rng)
    sparse.save_npz(tmp_path / "rows.npz", X)
    found, expected = Moments.of(tmp_path / "rows.npz"), Moments.of(X.toarray())
    np.testing.assert_array_equal(found.H, expected.H)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "svm"])
def test_passes_over_files_say_how_long_they_take(kind, rng, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    frame, file = pd.DataFrame(rng.random((900, 3)), columns=list("abc")), tmp_path / f"rows.{kind}"
    if kind == "csv":
        frame.to_csv(file, index=False)
    elif kind == "parquet":
        frame.to_parquet(file)
    elif kind == "npy":
        np.save(file, frame.to_numpy())
    else:
        dump_svmlight_file(frame.to_numpy(), frame.a, str(file))
    Moments.of(file, chunk_size=100, verbose=1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 9
    assert re.search(r"rows, about \d+\.\d s left$", lines[0])
    assert lines[-1].endswith("900 rows")


def test_files_that_cannot_be_read(data, tmp_path):
    X, y, _ = data
    frame = frame_of(*data)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.assign(a="text").to_csv(tmp_path / "text.csv", index=False)
    frame.assign(a=frame["a"].where(frame["a"] > 0.1)).to_csv(tmp_path / "missing.csv", index=False)
    for name, text in (("broken", "a,b\n1,2\n3\n"), ("numbers", "1,2\n3,4\n"), ("empty", "")):
        (tmp_path / f"{name}.csv").write_text(text)
    np.savez(tmp_path / "rows.npz", first=X, second=X, y=y)
    (tmp_path / "text.npz").write_text("text")
    for name, target, message in (
        ("rows.csv", "label", r"rows.csv has no column 'label'; its columns are \['a'"),
        ("text.csv", "y", r"Column 'a' of .*text.csv holds text .*such as 'text'"),
        ("broken.csv", None, "broken.csv: .*Expected 2 columns"),
        ("numbers.csv", None, "numbers.csv begins with numbers, not with the names"),
        ("empty.csv", None, "empty.csv"),
        ("missing.csv", "y", "NaN or infinity"),
        ("rows.npz", "y", r"arrays \['first', 'second'\]: name the array of rows X"),
        ("rows.npz", "z", r"has no array 'z'; its arrays are \['first'"),
        ("text.npz", None, "text.npz is not an .npz file"),
    ):
        with pytest.raises(ValueError, match=message):
            Moments.of(tmp_path / name, target)
    with pytest.raises(ValueError, match="files of one kind"):
        Moments.of([tmp_path / "rows.csv", tmp_path / "rows.parquet"], "y")
    with pytest.raises(FileNotFoundError, match="no such file"):
        Moments.of(str(tmp_path / "none-*.csv"), "y")
    np.savez(tmp_path / "one.npz", rows=X)
    assert Moments.of(tmp_path / "one.npz").n == 1000


# ---- columns that have names ---------------------------------------------------------------------


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
    for of in (
        lambda rows: rows,
        polars.from_pandas,
        lambda rows: polars.from_pandas(rows).to_arrow(),
    ):
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
    for rows in (
        X,
        polars.from_pandas(X),
        polars.from_pandas(X).lazy(),
        polars.from_pandas(X).to_arrow(),
    ):
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
        for act in (a.merge, a.subtract):
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


# ---- dask arrays, and a cluster that loses a worker ----------------------------------------------

dask_array = pytest.importorskip("dask.array", reason="needs dask: histrs[dask]")


def test_dask_arrays_are_their_rows(rng):
    Z, y = rows_and_targets(rng, 1000, 6)
    labels = np.arange(1000) % 3
    rows = dask_array.from_array(Z, chunks=(300, 4))
    for targets in (y, dask_array.from_array(y, chunks=(450, 1))):
        moments = Moments.of(rows, targets)
        again = Moments.of(rows, targets)
        assert bits(moments) == bits(again)
        for name in ("m", "H", "v", "y_squares"):
            assert_close(getattr(moments, name), getattr(Moments.of(Z, y), name), 1e-12)
    column = dask_array.from_array(y[:, 0], chunks=300)
    for model in (
        PCARidge(3, selection="loo"),
        PCARidge([2, 3], blocks=[3, 3]),
        MomentLasso(0.1),
        MomentGroupLasso([0, 0, 1, 1, 1, 1], alpha=0.1),
    ):
        expected = model.fit(Z, y[:, 0]).coef_
        assert expected.shape == (6,)
        assert_close(model.fit(rows, column).coef_, expected, 1e-9)
        assert model.n_features_in_ == 6
    expected = StreamingPCA(2).fit(Z).components_
    assert_close(StreamingPCA(2).fit(rows).components_, expected, 1e-9)
    classifier = PCARidgeClassifier(3, calibrate="equal-rate")
    expected = classifier.fit(Z, labels).decision_function(Z)
    classifier.fit(rows, dask_array.from_array(labels, chunks=300))
    assert_close(classifier.decision_function(Z), expected, 1e-9)
    sampler = ExpChi2Sampler(10, random_state=0).fit(np.abs(Z))
    mapped = Moments.of(abs(rows), feature_map=sampler)
    assert mapped.digest == Moments.of(np.abs(Z), feature_map=sampler).digest


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        (dask_array.ones((20, 5), chunks=5), {"Y": np.ones(19)}, "Y has 19 rows and the data 20"),
        (
            dask_array.ones((20, 5), chunks=5),
            {"Y": dask_array.ones(21, chunks=5)},
            "Y has 21 rows and the data 20",
        ),
        (dask_array.ones(20, chunks=5), {}, "2D"),
        (dask_array.full((20, 5), np.nan, chunks=5), {}, "= NaN"),
        (dask_array.ones((20, 5), chunks=5), {"checkpoint": "a"}, "a cluster recomputes"),
    ],
)
def test_dask_arrays_that_are_refused(rows, given, message):
    with pytest.raises(ValueError, match=message):
        Moments.of(rows, **given)
