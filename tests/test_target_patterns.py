"""Tables of targets of which some are missing."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from histrs._weights import RowWeights
from histrs.gaussian_process._likelihoods.patterns import (
    Pattern,
    entries_of,
    filled,
    missing_targets,
    patterns_of,
    refuse_empty,
    with_targets,
)

each = pytest.mark.parametrize
nan = np.nan
TABLE = np.array([[1.0, nan, 3.0], [4.0, 5.0, nan], [nan, nan, nan], [7.0, nan, 9.0]])
MISSING = np.isnan(TABLE)


def objects(Y):
    return np.array([[None if np.isnan(v) else v for v in row] for row in Y], dtype=object)


def pandas_objects(Y):
    return np.array([[pd.NA if np.isnan(v) else v for v in row] for row in Y], dtype=object)


CONTAINERS = {
    "array": np.asarray,
    "single": lambda Y: Y.astype(np.float32),
    "list": lambda Y: Y.tolist(),
    "objects": pandas_objects,
    "frame": pd.DataFrame,
    "nullable frame": lambda Y: pd.DataFrame(Y).astype("Float64"),
    "frame of objects": lambda Y: pd.DataFrame(pandas_objects(Y)),
}
each_container = each("make", CONTAINERS.values(), ids=CONTAINERS)


@each_container
def test_what_is_missing_is_nan_whatever_the_table(make):
    np.testing.assert_array_equal(np.asarray(entries_of(make(TABLE)), dtype=float), TABLE)
    np.testing.assert_array_equal(missing_targets(make(TABLE)), MISSING)
    whole = np.where(MISSING, 2.0, TABLE)
    assert missing_targets(make(whole)) is None
    np.testing.assert_array_equal(np.asarray(entries_of(make(whole)), dtype=float), whole)
    np.testing.assert_array_equal(filled(make(TABLE), MISSING), np.where(MISSING, 0.0, TABLE))


@each(
    "y",
    [
        np.array([1.0, nan]),
        np.ones((2, 2, 2)) * nan,
        np.array([[1, 2]]),
        np.array([["a", "b"]]),
        np.array([["a", None]], dtype=object),
        sparse.csr_array([[nan, 1.0]]),
        [[1.0], [2.0, 3.0]],
    ],
    ids=str,
)
def test_what_is_no_table_of_numbers_is_not_looked_at(y):
    assert missing_targets(y) is None


@each("dtype", ["Int64", "Float32"])
def test_columns_that_may_lack_numbers_are_of_numbers_where_none_is_lacking(dtype):
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]}).astype(dtype)
    assert entries_of(frame).dtype == np.float64
    np.testing.assert_array_equal(entries_of(frame), [[1.0, 3.0], [2.0, 4.0]])


def test_words_stay_as_they_are():
    words = np.array(["a", "b"], dtype=object)
    assert entries_of(words) is words
    labels = pd.Series(["a", "b"])
    np.testing.assert_array_equal(entries_of(labels), words)
    # Of whole targets nothing is filled in, ...
    y = np.array([[1.0, 2.0]])
    assert filled(y, None) is y
    # ... and pandas' NA is NaN, which a check names.
    np.testing.assert_array_equal(filled(np.array([1.0, pd.NA], dtype=object), None), [1.0, nan])
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    assert filled(frame, None) is frame


def test_labels_that_spell_numbers_are_words_in_an_index():
    labels = pd.Index(["1", "2"], dtype=object)
    assert entries_of(labels).tolist() == ["1", "2"]
    np.testing.assert_array_equal(entries_of(pd.Index([1, 2])), [1, 2])


# ---- rows that have a target -------------------------------------------------------------------


@each("weights", [None, np.array([2.0, 0.5, 3.0, 4.0])])
def test_rows_without_any_target_are_left_out(weights):
    found = with_targets(RowWeights(None, weights), MISSING)
    np.testing.assert_array_equal(found.kept, [0, 1, 3])
    if weights is None:
        assert found.weights is None
    else:
        np.testing.assert_array_equal(found.weights, [2.0, 0.5, 4.0])
    # Of rows that have a weight already.
    kept = np.array([1, 2, 3])
    of_kept = None if weights is None else weights[kept]
    found = with_targets(RowWeights(kept, of_kept), MISSING)
    np.testing.assert_array_equal(found.kept, [1, 3])
    if weights is not None:
        np.testing.assert_array_equal(found.weights, [0.5, 4.0])


@each("kept", [None, np.array([0, 1])])
def test_rows_that_all_have_a_target_stay(kept):
    given = RowWeights(kept, None)
    assert with_targets(given, None) is given
    missing = np.array([[True, False], [False, True]])
    assert with_targets(given, missing) is given


def test_where_no_row_has_a_target_there_is_nothing_to_learn():
    with pytest.raises(ValueError, match="Every target of y is NaN in every row of positive"):
        with_targets(RowWeights(np.array([2]), None), MISSING)


# ---- targets that miss the same rows -----------------------------------------------------------


def test_patterns_are_of_targets_that_miss_the_same_rows():
    Y = TABLE[:, [0, 1, 0, 2, 1, 0]]
    found = patterns_of(Y)
    expected = [([0, 1, 3], [0, 2, 5]), ([1], [1, 4]), ([0, 3], [3])]
    assert len(found) == len(expected)
    for pattern, (rows, targets) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(pattern.rows, rows)
        np.testing.assert_array_equal(pattern.targets, targets)
    refuse_empty(found)


def test_a_target_that_misses_every_row_is_refused_by_its_place():
    Y = np.column_stack([TABLE[:, 0], np.full((4, 2), nan)])
    found = patterns_of(Y)
    np.testing.assert_array_equal(found[1].targets, [1, 2])
    with pytest.raises(ValueError, match=r"y\[:, 1\] is NaN in every row of positive weight"):
        refuse_empty(found)
    refuse_empty([Pattern(np.array([7]), np.array([0]))])
