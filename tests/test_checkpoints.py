"""A checkpoint goes on with the data that it was made of, and with no others."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from histrs.streaming import Moments
from tests.test_streaming import bits, data


def sources(tmp_path, Z, y, size=100):
    """Return ways to give rows and targets."""
    np.save(tmp_path / "rows.npy", Z)
    return {
        "array": (Z, y),
        "frame": (pd.DataFrame(Z), y),
        "file": (tmp_path / "rows.npy", y),
        "CSR": (sparse.csr_array(Z), y),
        "chunks": ([(Z[k : k + size], y[k : k + size]) for k in range(0, len(Z), size)], None),
    }


@pytest.mark.parametrize("kind", ["array", "frame", "file", "CSR", "chunks"])
def test_other_data_are_refused_and_the_file_is_kept(rng, tmp_path, kind):
    Z, y = data(rng, 250)
    path = tmp_path / "moments"

    def run(Z, y):
        rows, targets = sources(tmp_path, Z, y)[kind]
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


def test_more_whole_chunks_go_on(rng, tmp_path):
    Z, y = data(rng, 350)
    for kind in ("array", "file", "CSR", "chunks"):
        path = tmp_path / kind
        for n in (200, 350):
            rows, targets = sources(tmp_path, Z[:n], y[:n])[kind]
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


def test_saved_moments_are_no_checkpoint(rng, tmp_path):
    Z, _ = data(rng, 20)
    Moments(5).update(Z).save(tmp_path / "moments")
    with pytest.raises(ValueError, match=r"Moments\.load\(.*\)\.update"):
        Moments.of(Z, checkpoint=tmp_path / "moments")
