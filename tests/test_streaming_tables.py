"""Files of CSV, Parquet and NumPy, and lazy frames: what is learned is that of the arrays."""

import gzip

import numpy as np
import pandas as pd
import polars
import pytest

from histrs.kernel_approximation import ExpChi2Sampler
from histrs.streaming import MomentLasso, Moments, PCARidge, PCARidgeClassifier

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


def test_tables_that_cannot_be_read(data, tmp_path):
    frame = frame_of(*data)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"rows.csv has no column 'label'; its columns are \['a'"):
        Moments.of(tmp_path / "rows.csv", "label")
    with pytest.raises(ValueError, match="files of one kind"):
        Moments.of([tmp_path / "rows.csv", tmp_path / "rows.parquet"], "y")
    with pytest.raises(FileNotFoundError, match="no such file"):
        Moments.of(str(tmp_path / "none-*.csv"), "y")
    frame.assign(a="text").to_csv(tmp_path / "text.csv", index=False)
    with pytest.raises(ValueError, match=r"Column 'a' of .*text.csv holds text .*such as 'text'"):
        Moments.of(tmp_path / "text.csv", "y")
    (tmp_path / "broken.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"broken.csv: .*Expected 2 columns"):
        Moments.of(tmp_path / "broken.csv")
    (tmp_path / "numbers.csv").write_text("1,2\n3,4\n")
    with pytest.raises(ValueError, match=r"numbers.csv begins with numbers, not with the names"):
        Moments.of(tmp_path / "numbers.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match=r"empty.csv"):
        Moments.of(tmp_path / "empty.csv")
    frame["a"] = frame["a"].where(frame["a"] > 0.1)
    frame.to_csv(tmp_path / "missing.csv", index=False)
    with pytest.raises(ValueError, match="NaN or infinity"):
        Moments.of(tmp_path / "missing.csv", "y")


def test_arrays_that_cannot_be_read(data, tmp_path):
    X, y, _ = data
    np.savez(tmp_path / "rows.npz", first=X, second=X, y=y)
    with pytest.raises(ValueError, match=r"arrays \['first', 'second'\]: the one of the rows is"):
        Moments.of(tmp_path / "rows.npz", "y")
    with pytest.raises(ValueError, match=r"has no array 'z'; its arrays are \['first'"):
        Moments.of(tmp_path / "rows.npz", "z")
    (tmp_path / "text.npz").write_text("text")
    with pytest.raises(ValueError, match=r"text.npz is not an .npz file"):
        Moments.of(tmp_path / "text.npz")
    np.savez(tmp_path / "one.npz", rows=X)
    assert Moments.of(tmp_path / "one.npz").n == 1000
