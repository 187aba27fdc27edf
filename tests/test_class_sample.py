"""How many prototypes each class has, and which samples they are."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from histrs.prototypes._sample import class_counts, class_sample

sizes = st.lists(st.integers(1, 30), min_size=1, max_size=6)


@given(sizes=sizes, share=st.floats(1e-3, 1.0))
@example(sizes=[30, 1, 1, 1, 1, 1], share=0.5)
def test_prototypes_are_shared_out_by_size(sizes, share):
    labels, n = np.repeat(np.arange(len(sizes)), sizes), sum(sizes)
    found = class_counts(labels, np.arange(len(sizes)), share)
    wanted = max(1, round(share * n))
    counts = [max(1, wanted * size // n) for size in sizes]
    while sum(counts) < wanted:
        # The first of the classes with most samples a prototype, of which any is left.
        ratios = [
            Fraction(size, count) if count < size else Fraction(-1)
            for size, count in zip(sizes, counts, strict=True)
        ]
        counts[ratios.index(max(ratios))] += 1
    assert found.tolist() == counts
    assert np.all((found >= 1) & (found <= sizes))


@given(sizes=sizes, share=st.floats(1e-3, 1.0), seed=st.integers(0, 99))
def test_a_sample_has_what_each_class_is_to_have(sizes, share, seed):
    labels = np.random.RandomState(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    classes = np.arange(len(sizes))
    sample = class_sample(labels, classes, share, np.random.RandomState(seed))
    assert len(np.unique(sample)) == len(sample)
    counts = class_counts(labels, classes, share)
    np.testing.assert_array_equal(labels[sample], np.repeat(classes, counts))


def test_a_number_is_that_of_each_class():
    labels, classes = np.array([0, 1, 1, 0, 1, 1, 2, 2]), np.array(["a", "b", "c"])
    np.testing.assert_array_equal(class_counts(labels, classes, 1), [1, 1, 1])
    np.testing.assert_array_equal(class_counts(labels, classes, 2), [2, 2, 2])
    with pytest.raises(
        ValueError, match=r"compression = 3 .* a has 2 of 8 different training samples"
    ):
        class_counts(labels, classes, 3)
    with pytest.raises(ValueError, match=r"class b has 1 of 6 different training samples"):
        class_counts(np.array([0, 0, 0, 1, 2, 2]), classes, 3)
    with pytest.raises(ValueError, match=r"class c has 1 of 7 different training samples"):
        class_counts(np.array([0, 0, 0, 1, 1, 1, 2]), classes, 3)
