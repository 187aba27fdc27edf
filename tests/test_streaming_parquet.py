"""Moments of Parquet files."""

import numpy as np
import pytest

from histrs.streaming import Moments, PCARidge
from tests.test_streaming import BLOCK, bits, data

pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: histrs[parquet]")
parquet = pytest.importorskip("pyarrow.parquet")


def write_parquet(path, Z, y, group_size=100):
    columns = {f"z{k}": column for k, column in enumerate(Z.T)}
    columns |= {f"y{k}": column for k, column in enumerate(y.T)}
    parquet.write_table(pyarrow.table(columns), path, row_group_size=group_size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parquet_files_and_folders_are_their_rows(rng, tmp_path, dtype):
    Z, y = data(rng, 3 * BLOCK + 5)
    Z = Z.astype(dtype)
    write_parquet(tmp_path / "all.parquet", Z, y)
    (tmp_path / "parts").mkdir()
    for k, (a, b) in enumerate([(0, 700), (700, 701), (701, len(Z))]):
        write_parquet(tmp_path / "parts" / f"{k}.parquet", Z[a:b], y[a:b])
    expected = bits(Moments.of(Z, y, chunk_size=BLOCK))
    for path in (tmp_path / "all.parquet", str(tmp_path / "parts")):
        assert bits(Moments.of(path, ["y0", "y1"], chunk_size=BLOCK)) == expected
    one = PCARidge().fit_rows(tmp_path / "all.parquet", "y1")
    assert one.coef_.shape == (6,)
    write_parquet(tmp_path / "rows.parquet", Z, y[:, :0])
    assert bits(Moments.of(tmp_path / "rows.parquet", y, chunk_size=BLOCK)) == expected
    for wrong in (y[:-1], np.vstack([y, y[:1]])):
        with pytest.raises(ValueError, match="a target for each row"):
            Moments.of(tmp_path / "rows.parquet", wrong)
    with pytest.raises(ValueError, match="no column 'label'"):
        Moments.of(tmp_path / "all.parquet", "label")


def test_a_parquet_pass_goes_on_from_its_checkpoint(rng, tmp_path):
    Z, y = data(rng, 1000)
    write_parquet(tmp_path / "all.parquet", Z, y, group_size=130)
    write_parquet(tmp_path / "first.parquet", Z[:600], y[:600])
    targets = ["y0", "y1"]
    Moments.of(tmp_path / "first.parquet", targets, chunk_size=200, checkpoint=tmp_path / "a")
    resumed = Moments.of(
        tmp_path / "all.parquet", targets, chunk_size=200, checkpoint=tmp_path / "a"
    )
    assert bits(resumed) == bits(Moments.of(Z, y, chunk_size=200))


def test_a_parquet_file_that_has_grown_within_a_chunk_is_refused(rng, tmp_path):
    Z, y = data(rng, 500)
    path = tmp_path / "rows.parquet"
    for n in (250, 500):
        write_parquet(path, Z[:n], y[:n])
        if n == 250:
            Moments.of(path, ["y0", "y1"], chunk_size=100, checkpoint=tmp_path / "a")
    with pytest.raises(ValueError, match="holds 250 rows in 3 chunks, and chunk 2 of these data"):
        Moments.of(path, ["y0", "y1"], chunk_size=100, checkpoint=tmp_path / "a")


def test_parquet_columns_that_are_not_numbers(tmp_path):
    table = pyarrow.table({"a": [1.0, 2.0], "b": ["x", "y"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"Column 'b' of .*t.parquet holds text .*such as 'x'"):
        Moments.of(tmp_path / "t.parquet")
    parquet.write_table(pyarrow.table({"a": [1.0, None]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"Z\[1, 0\] = NaN"):
        Moments.of(tmp_path / "t.parquet")
