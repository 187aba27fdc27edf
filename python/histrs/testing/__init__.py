"""Hypothesis strategies for histograms, counts, SPD matrices and cost matrices.

The strategies look for inputs that break code on histograms. Sizes are around the width of a vector
register. There are ties, zero rows and columns, duplicated rows, constant columns, and huge and
tiny scales. Memory layouts are unusual, and CSR matrices are legal but not canonical. Every example
is built from a few draws: sizes, a small pool of values, and one byte per cell. So generation is
fast, and failing examples shrink to small matrices of small numbers.

They need Hypothesis: ``pip install "histrs[testing]"``.

Examples
--------
Two matrices with the same number of columns share a strategy for it:

>>> import numpy as np
>>> from hypothesis import given, settings, strategies as st
>>> from histrs.testing import histograms
>>> n_columns = st.shared(st.integers(1, 9), key="n_columns")
>>> @settings(max_examples=20, database=None)
... @given(X=histograms(n_columns=n_columns), Y=histograms(n_columns=n_columns))
... def test_no_row_shares_more_mass_than_it_has(X, Y):
...     for x in X:
...         for y in Y:
...             assert np.minimum(x, y).sum() <= min(x.sum(), y.sum())
>>> test_no_row_shares_more_mass_than_it_has()
"""

from __future__ import annotations

try:
    import hypothesis as _hypothesis  # noqa: F401
except ImportError as error:
    raise ImportError(
        'histrs.testing needs Hypothesis, which is not installed: pip install "histrs[testing]"'
    ) from error

from histrs.testing._distances import ground_distances
from histrs.testing._matrices import count_matrices, histograms
from histrs.testing._spd import spd_matrices

__all__ = ["count_matrices", "ground_distances", "histograms", "spd_matrices"]
