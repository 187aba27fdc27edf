"""What Gaussian processes on projections are made of, each part against its definition."""

import numpy as np
import pytest
from scipy import linalg
from scipy.stats import skew
from sklearn.preprocessing import PowerTransformer, StandardScaler

from histrs.gaussian_process._sliced import columns as columns_module
from histrs.gaussian_process._sliced.columns import (
    Columns,
    _have_two_values,
    _mean,
    _rows_of_powers,
    importances,
)
from histrs.gaussian_process._sliced.projections import (
    Group,
    Projections,
    _size,
    kernel_matrix,
    matrix_root,
    weights_and_kinds,
)
from tests.oracles import sliced as oracle

each = pytest.mark.parametrize


# ---- columns -----------------------------------------------------------------------------------


def table_of_all_kinds(rng, n):
    """Numbers, of which some are missing, and two features of categories."""
    wild = rng.normal(size=n)
    wild[:2] = -60.0, 60.0
    numbers = np.column_stack(
        [
            rng.normal(3.0, 5.0, n),
            # One that leans, and one that leans as indicators of few rows do.
            np.exp(rng.normal(size=n)),
            (np.arange(n) % 20 == 0) * 4.0,
            wild,
            np.full(n, 2.5),
            rng.normal(size=n),
        ]
    )
    numbers[3:40:4, 5] = np.nan
    of_three, of_two = (
        np.eye(3)[rng.integers(0, 3, n)],
        np.eye(2)[(np.arange(n) % 9 == 0).astype(int)],
    )
    sources = np.array([0, 1, 2, 3, 4, 5, 6, 6, 6, 7, 7])
    return np.hstack([numbers, of_three, of_two]), sources


def standardised(numbers, sources, rows):
    """What becomes of rows by the tools of scikit-learn."""
    missing = np.isnan(numbers)
    marked = np.flatnonzero(missing.any(axis=0))

    def filled(rows):
        known = np.where(np.isnan(rows), np.nanmean(numbers, axis=0), rows)
        return np.hstack([known, np.isnan(rows)[:, marked]])

    first = StandardScaler().fit(filled(numbers))
    fitted, others = (first.transform(filled(part)) for part in (numbers, rows))
    with np.errstate(invalid="ignore"):
        values = [len(np.unique(column)) for column in fitted.T]
        leaning = (np.abs(skew(fitted * (fitted.std(axis=0) > 0.5))) > 1.0) & (np.array(values) > 2)
    power = PowerTransformer().fit(fitted[:, leaning])
    fitted[:, leaning], others[:, leaning] = (
        power.transform(part[:, leaning]) for part in (fitted, others)
    )
    n = numbers.shape[1]
    is_category = np.append(np.bincount(sources)[sources] > 1, np.zeros(len(marked), dtype=bool))
    most = np.where(is_category, np.inf, 6.0)
    most[n:] = np.inf
    last = StandardScaler().fit(np.clip(fitted, -most, most))
    scaled = last.transform(np.clip(others, -most, most))
    for source in np.unique(sources):
        own = np.flatnonzero(sources == source)
        if len(own) > 1:
            scaled[:, own] *= np.sqrt(
                numbers[:, own].var(axis=0) / numbers[:, own].var(axis=0).sum()
            )
    scaled[:, n:] *= np.sqrt(2.0 * missing[:, marked].var(axis=0))
    return scaled


def test_columns_are_standardised_straightened_and_clipped(rng):
    numbers, sources = table_of_all_kinds(rng, 200)
    others = numbers[:30].copy()
    others[:, :2] *= rng.uniform(-1.0, 3.0, (30, 2))
    others[3, 0] = np.nan
    others[4, 4] = 7.0
    for rows in (numbers, others, others[~np.isnan(others).any(axis=1)]):
        found = Columns(numbers, sources).apply(rows)
        expected = standardised(numbers, sources, rows)
        # What is constant says nothing of other rows.
        expected[:, 4] = 0.0
        np.testing.assert_allclose(found, expected, atol=1e-7)
    # Without sources, every column is of numbers.
    few = numbers[:, [0, 2]]
    found = Columns(few).apply(few)
    np.testing.assert_allclose(found, (few - few.mean(axis=0)) / few.std(axis=0), atol=1e-12)
    later = few[:3].copy()
    later[0, 0] = np.nan
    assert Columns(few).apply(later)[0, 0] == pytest.approx(0.0)


def test_categories_of_one_kind_say_nothing(rng):
    numbers = np.column_stack([rng.normal(size=20), np.ones(20), np.zeros(20)])
    found = Columns(numbers, np.array([0, 1, 1])).apply(numbers)
    assert not found[:, 1:].any()
    assert found[:, 0].std() == pytest.approx(1.0)


@each("unit", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_columns_have_no_unit(rng, unit):
    numbers = np.column_stack([rng.normal(size=40), rng.exponential(size=40), np.ones(40)])
    expected = Columns(numbers).apply(numbers)
    scaled = Columns(numbers * unit)
    np.testing.assert_allclose(scaled.apply(numbers * unit), expected, atol=1e-9)
    # Where numbers do not vary, they tell no unit.
    spreads = numbers.std(axis=0) / np.abs(numbers[:, :2]).max()
    np.testing.assert_allclose(scaled.spreads, spreads, atol=1e-12)
    assert np.all(np.isfinite(scaled.apply(np.full((1, 3), 1e308))))
    assert np.all(np.isfinite(scaled.apply(np.full((1, 3), -1e308))))


def test_what_varies_by_roundings_alone_is_constant(rng):
    column = 1e9 * (1.0 + 1e-15 * rng.integers(0, 3, 50))
    rows = np.column_stack([column, rng.normal(size=50)])
    found = Columns(rows)
    assert not found.apply(rows)[:, 0].any()
    assert found.spreads[0] == 0.0
    assert found.apply(rows * 2.0)[:, 0].tolist() == [0.0] * 50


def test_means_are_of_what_is_known():
    assert _mean(np.array([1.0, np.nan, 4.0])) == pytest.approx(2.5)
    assert _mean(np.array([1e308, np.nan, 1.5e308])) == pytest.approx(1.25e308)
    assert _mean(np.array([0.25, 0.5])) == pytest.approx(0.375)
    assert _mean(np.array([0.0, np.nan])) == 0.0
    assert _mean(np.array([np.nan])) == 0.0
    # A column of zeros, some of them missing, does not vary.
    numbers = np.zeros((9, 1))
    numbers[4] = np.nan
    found = Columns(numbers).apply(numbers)
    assert not found[:, 0].any()
    assert np.ptp(found[:, 1]) == pytest.approx(np.sqrt(2.0))


def test_columns_of_two_values_are_told_from_others():
    rows = np.array([[1.0, 0.0, 5.0, 1.0], [2.0, 1.0, 5.0, 1.0], [3.0, 0.0, 5.0, 9.0]])
    assert _have_two_values(rows).tolist() == [False, True, True, True]


def test_exponents_are_learned_from_rows_with_the_ends_of_each_column(rng, monkeypatch):
    monkeypatch.setattr(columns_module, "_POWER_ROWS", 10)
    rows = rng.normal(size=(300, 3))
    some = _rows_of_powers(rows)
    assert 10 <= len(some) == len(np.unique(some)) <= 16
    assert set(some) >= {*rows.argmin(axis=0), *rows.argmax(axis=0)}


def test_importances_are_shares_of_sums_by_feature():
    sources = np.array([2, 0, 0, 2, 1])
    diagonal = np.array([0.5, 0.25, 0.5, 0.75, -1e-17])
    assert importances(sources, diagonal, 4).tolist() == [0.375, 0.0, 0.625, 0.0]
    assert importances(sources, np.zeros(5), 4).tolist() == [0.0] * 4


# ---- projections -------------------------------------------------------------------------------


def test_projections_are_counted_from_what_is_subtracted(rng):
    A, W = rng.normal(size=(30, 3)), rng.normal(size=(3, 5))
    found = Projections.of(A, W, 1)
    np.testing.assert_allclose(found.T, A @ W - found.low, atol=1e-12)
    assert np.all(found.T >= 0.0)
    assert np.any(found.T < 1.0)
    assert (found.T.flags.c_contiguous, found.smooth) == (True, False)


@each("smooth", [False, True])
@each("weighted", [False, True])
def test_kernels_are_of_some_rows_at_their_own_size(rng, smooth, weighted):
    A, W = rng.normal(size=(30, 3)), rng.normal(size=(3, 5))
    some = np.array([1, 4, 5, 20, 29])
    r = rng.uniform(0.5, 2.0, 5) if weighted else None
    found = Projections.of(A, W, 1, some, r, smooth=smooth)
    other = Projections.of(A, W, 1, smooth=not smooth).smoothed(1, some, r) if smooth else found
    kernel = oracle.cubic_spline_kernel if smooth else oracle.sliced_kernel
    K = kernel(found.T, weights=np.ones(5))
    part = K[np.ix_(some, some)]
    size = np.trace(part) / 5 - part.mean()
    scales = np.ones(5) if r is None else r
    for projections in (found, other):
        assert projections.smooth == smooth
        assert projections.scale == pytest.approx(size)
        np.testing.assert_allclose(projections.K, scales[:, None] * part * scales / size)
    every = found.of_rows(1)
    assert every.scale == found.scale
    np.testing.assert_allclose(every.K, K / size)
    rows = np.array([0, 2])
    np.testing.assert_allclose(found.of_rows(1, rows).K, K[np.ix_(rows, rows)] / size)


@each("unit", [1e-20, 1.0, 1e20])
def test_the_size_of_a_kernel_is_that_of_what_varies(rng, unit):
    F = rng.normal(size=(6, 4))
    K = F @ F.T * unit
    size = np.mean(np.diag(K)) - K.mean()
    assert _size(K) == pytest.approx(size)
    # A constant says nothing, nor do its roundings.
    assert _size(K + 1e3 * unit) == pytest.approx(size, rel=1e-9)
    assert _size(np.full((6, 6), unit)) == 1.0
    assert _size(unit * (1.0 + 1e-15 * np.eye(6))) == 1.0
    assert _size(np.zeros((3, 3))) == 1.0


def test_sets_of_a_group_count_alike(rng):
    A = rng.normal(size=(20, 3))
    sets = [Projections.of(A, rng.normal(size=(3, n)), 1, smooth=n == 4) for n in (2, 4, 5)]
    group = Group.of(sets[0]).with_set(sets[1]).with_set(sets[2])
    np.testing.assert_allclose(group.K, sum(s.K for s in sets) / 3)
    single = Group.of(Projections.of(A, np.eye(3), 1))
    theta = np.array([1.5, -0.5])
    weights, smooth = weights_and_kinds([group, single], theta)
    assert smooth.tolist() == [False] * 2 + [True] * 4 + [False] * 8
    K = np.exp(1.5) * group.K + np.exp(-0.5) * single.K
    T = np.hstack([s.T for s in (*sets, *single.sets)])
    np.testing.assert_allclose(kernel_matrix(T, weights, smooth, 1), K)


def test_rows_without_projections_have_nothing_in_common():
    none = np.zeros(0), np.zeros(0, dtype=bool)
    assert kernel_matrix(np.zeros((3, 0)), *none, 1).tolist() == [[0.0] * 3] * 3
    others = kernel_matrix(np.zeros((3, 0)), *none, 1, np.zeros((2, 0)))
    assert others.tolist() == [[0.0] * 3] * 2


def test_roots_of_metrics_are_symmetric(rng):
    F = rng.normal(size=(4, 4))
    G = F @ F.T
    np.testing.assert_allclose(matrix_root(G), linalg.sqrtm(G), atol=1e-10)
    singular = matrix_root(np.outer(F[0], F[0]))
    np.testing.assert_allclose(singular @ singular, np.outer(F[0], F[0]), atol=1e-12)
