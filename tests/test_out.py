"""Arrays of the caller that maps write into: the same object back, and never wrong rows."""

import numpy as np
import pytest

from histrs.kernel_approximation import ExpChi2Sampler, SlicedDistanceMap

MAPS = pytest.mark.parametrize(
    "make",
    [
        lambda n: ExpChi2Sampler(n, random_state=0),
        lambda n: SlicedDistanceMap(n, random_state=0),
    ],
    ids=["exp-chi2", "sliced"],
)
SIZES = pytest.mark.parametrize("n", [5, 6])


@MAPS
@SIZES
def test_a_memmap_comes_back_as_itself(make, n, rng, tmp_path):
    X = rng.random((40, 6))
    model = make(n).fit(X)
    out = np.memmap(tmp_path / "rows", np.float64, "w+", shape=(40, n))
    assert model.transform(X, out=out) is out
    np.testing.assert_array_equal(np.asarray(out), model.transform(X))


@MAPS
@SIZES
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_rows_may_be_written_over(make, n, shift, rng):
    # More rows than a block, of which later ones would be read after they were written.
    memory = rng.random(3000 * n + shift * n)
    X = memory[: 3000 * n].reshape(3000, n)
    out = memory[shift * n :].reshape(3000, n)
    model = make(n).fit(X)
    expected = model.transform(X)
    assert model.transform(X, out=out) is out
    np.testing.assert_array_equal(out, expected)


@MAPS
def test_memory_that_is_not_aligned_is_refused(make, rng):
    X = rng.random((40, 5))
    out = np.frombuffer(bytearray(40 * 6 * 8 + 1), np.uint8)[1:].view(np.float64).reshape(40, 6)
    with pytest.raises(ValueError, match=r"^out is .*, not aligned: give a writeable array"):
        make(6).fit(X).transform(X, out=out)
