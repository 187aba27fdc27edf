"""What Gaussian processes on projections are made of, each part against its definition."""

import pickle
from copy import copy
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import linalg
from scipy.stats import skew
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import PowerTransformer, StandardScaler
from sklearn.utils import get_tags

from histrs._calibration import fit_calibration, log_losses
from histrs._frames import columns_of
from histrs.gaussian_process import (
    GPClassifier,
    GPRegressor,
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    SlicedGPClassifier,
    SlicedGPRegressor,
    Solver,
)
from histrs.gaussian_process._kernels.projected import Projected
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process._sliced import (
    base,
    classes,
    classification_learning,
    fitting,
    interactions,
    learning,
    likelihood,
    metrics,
    regression_learning,
)
from histrs.gaussian_process._sliced import projection as projection_module
from histrs.gaussian_process._sliced.classes import (
    Candidate,
    LearnedClasses,
    learn_class_metric,
)
from histrs.gaussian_process._sliced.columns import (
    Columns,
    have_two_values,
    importances,
    mean_of_known,
    rows_of_powers,
)
from histrs.gaussian_process._sliced.likelihood import fit_of
from histrs.gaussian_process._sliced.matern import LearnedMatern, of_length
from histrs.gaussian_process._sliced.projection import Projection
from histrs.gaussian_process._sliced.projections import (
    Group,
    Projections,
    _size,
    kernel_matrix,
    matrix_root,
    outer_gradients,
    weights_and_kinds,
)
from histrs.gaussian_process._sliced.rows import (
    drawn_rows,
)
from histrs.gaussian_process._sliced.table import Table
from histrs.gaussian_process._tabular import numbers as columns_module
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
    assert mean_of_known(np.array([1.0, np.nan, 4.0])) == pytest.approx(2.5)
    assert mean_of_known(np.array([1e308, np.nan, 1.5e308])) == pytest.approx(1.25e308)
    assert mean_of_known(np.array([0.25, 0.5])) == pytest.approx(0.375)
    assert mean_of_known(np.array([0.0, np.nan])) == 0.0
    assert mean_of_known(np.array([np.nan])) == 0.0
    # A column of zeros, some of them missing, does not vary.
    numbers = np.zeros((9, 1))
    numbers[4] = np.nan
    found = Columns(numbers).apply(numbers)
    assert not found[:, 0].any()
    assert np.ptp(found[:, 1]) == pytest.approx(np.sqrt(2.0))


def test_columns_of_two_values_are_told_from_others():
    rows = np.array([[1.0, 0.0, 5.0, 1.0], [2.0, 1.0, 5.0, 1.0], [3.0, 0.0, 5.0, 9.0]])
    assert have_two_values(rows).tolist() == [False, True, True, True]


def test_exponents_are_learned_from_rows_with_the_ends_of_each_column(rng, monkeypatch):
    monkeypatch.setattr(columns_module, "_POWER_ROWS", 10)
    rows = rng.normal(size=(300, 3))
    some = rows_of_powers(rows)
    assert 10 <= len(some) == len(np.unique(some)) <= 16
    assert set(some) >= {*rows.argmin(axis=0), *rows.argmax(axis=0)}


def test_importances_are_shares_of_sums_by_feature():
    sources = np.array([2, 0, 0, 2, 1])
    diagonal = np.array([0.5, 0.25, 0.5, 0.75, -1e-17])
    for unit in (0.125, 1.0, 8.0):
        assert importances(sources, unit * diagonal, 4).tolist() == [0.375, 0.0, 0.625, 0.0]
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


@each("levels", [False, True])
def test_rows_are_projected_a_part_at_a_time(rng, monkeypatch, levels):
    numbers = rng.normal(size=(40, 4)) * [1.0, 5.0, 1.0, 0.1]
    columns = Columns(numbers)
    # Columns by themselves between directions of many columns, and one of none.
    W = rng.normal(size=(4, 9))
    W[:, 1:3] = np.eye(4)[:, [2, 0]] * [0.5, -2.0]
    W[:, 6], W[:, 8] = 0.0, np.eye(4)[3]
    low, weights = rng.normal(size=9) - 0.5, rng.uniform(0.5, 2.0, 9)
    projection = Projection(columns, W, low, weights)
    expected = oracle.projections(columns.apply(numbers), W, low) * weights
    if levels:
        projection = projection.rounding(numbers)
        assert projection.levels.shape == (9, 255)
        np.testing.assert_allclose(projection.levels[:, 0], expected.min(axis=0), atol=1e-12)
        np.testing.assert_allclose(projection.levels[:, -1], expected.max(axis=0))
        assert np.all(np.diff(projection.levels, axis=1) >= 0.0)
    found = projection.apply(numbers, 1)
    assert found.dtype == (np.float32 if levels else np.float64)
    if levels:
        nearest = np.abs(expected[:, :, None] - projection.levels).argmin(axis=2)
        expected = projection.levels[np.arange(9), nearest]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)
    monkeypatch.setattr(projection_module, "_ROWS", 7)
    np.testing.assert_allclose(projection.apply(numbers, 1), found, rtol=1e-6)
    # Columns alone.
    alone = Projection(columns, np.eye(4), low[:4], weights[:4]).apply(numbers, 1)
    expected = oracle.projections(columns.apply(numbers), np.eye(4), low[:4]) * weights[:4]
    np.testing.assert_allclose(alone, expected, atol=1e-12)


# ---- rows --------------------------------------------------------------------------------------


@each("n", [9, 10, 11])
def test_of_many_rows_some_are_drawn(n):
    rows = np.arange(n) * 3
    found = drawn_rows(rows, 10, np.random.RandomState(0))
    assert len(found) == len(np.unique(found)) == min(n, 10)
    assert set(found) <= set(rows)
    assert np.all(np.diff(found) > 0)
    if n <= 10:
        assert found is rows


# ---- classes -----------------------------------------------------------------------------------


def labels_of(rng, codes, n_classes, weighted):
    scale = rng.uniform(0.5, 1.5, len(codes)) if weighted else np.ones(len(codes))
    return classes._Labels(np.asarray(codes), n_classes, scale, np.zeros(len(scale)))


@each("n_classes", [2, 3])
@each("weighted", [False, True])
@each("with_level", [False, True])
def test_fits_of_classes_are_regressions_of_largest_likelihood(
    rng, n_classes, weighted, with_level
):
    A = rng.normal(size=(45, 3))
    codes = np.searchsorted([0.4] if n_classes == 2 else [-0.5, 0.8], A[:, 0] + 0.3 * A[:, 1])
    labels = labels_of(rng, codes, n_classes, weighted)
    K = Projections.of(A, np.eye(3), 1).K
    fit = classes._fit(K.copy(), labels, with_level=with_level)
    r, w = labels.scale, labels.scale**2
    Y = np.where(codes[:, None] == ([1] if n_classes == 2 else np.arange(3)), 1.0, -1.0)
    if with_level:
        Y = Y - np.average(Y, axis=0, weights=w)

    def cost(s):
        R = K + s * np.diag(1.0 / w)
        data = np.trace(Y.T @ np.linalg.solve(R, Y))
        return 45 * np.log(data) + np.linalg.slogdet(r[:, None] * R * r)[1]

    s = min(classes._RATIOS, key=cost)
    R = K + s * np.diag(1.0 / w)
    alpha = np.linalg.solve(R, Y)
    np.testing.assert_allclose(fit.alpha, alpha, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fit.noise, np.sum(Y * alpha, axis=0) / 45)
    Q, roots = fit.root
    np.testing.assert_allclose((Q * roots**2) @ Q.T, np.linalg.inv(R), rtol=1e-6, atol=1e-8)
    # Each row by the others.
    left_out = np.empty_like(Y)
    for i in range(45):
        others = np.arange(45) != i
        left_out[i] = K[i, others] @ np.linalg.solve(R[np.ix_(others, others)], Y[others])
    readout = fit_calibration(left_out, codes, weights=w)
    losses = log_losses(left_out @ readout.matrix + readout.offset, codes) * w / w.mean()
    np.testing.assert_allclose(fit.losses_left_out, losses, rtol=1e-4, atol=1e-6)
    # Others, with weights of their own.
    few = labels.of(np.arange(45) < 12)
    cross = K[:12]
    logits = cross @ alpha @ fit.readout.matrix + fit.readout.offset
    expected = np.average(log_losses(logits, codes[:12]), weights=w[:12])
    assert fit.loss_of(cross, few) == pytest.approx(expected)


def test_a_metric_of_gradients_is_part_isotropic(rng):
    A = rng.normal(size=(30, 4))
    candidate = Candidate(np.eye(4), [])
    columns = Projections.of(A, np.eye(4), 1)
    learned = LearnedClasses.of(A, candidate, columns, rng.normal(size=(4, 6)), 1)
    alpha = 1e-3 * rng.normal(size=(30, 2))
    G = classes._metric_of_gradients(learned, alpha)
    outer = outer_gradients([learned.slices], alpha)
    np.testing.assert_allclose(G, 0.7 * 4 / np.trace(outer) * outer + 0.3 * np.eye(4))
    assert classes._metric_of_gradients(learned, 0.0 * alpha) is None


def test_interactions_of_classes_are_as_many_as_there_may_be(rng, monkeypatch):
    A, codes = rng.normal(size=(30, 6)), rng.integers(0, 3, 30)
    fit = classes._fit(Projections.of(A, np.eye(6), 1).K, labels_of(rng, codes, 3, True))
    every, seen = [(0, 1), (0, 2), (1, 2), (3, 4)], []

    def effects(A, alpha, draws, importance, known, n_threads):
        seen.append((alpha, draws, importance))
        return [], every[len(known) :]

    monkeypatch.setattr(classes, "missing_effects", effects)

    def found(known, most):
        G = np.diag(np.arange(1.0, 7.0))
        return classes._found(A, fit, G, known, most, np.random.RandomState(0), 1)

    for known, most, n in (([], 0, 0), ([], 3, 3), (every[:1], 3, 2), (every[:3], 3, 0)):
        assert found(known, most) == every[len(known) : len(known) + n]
    assert len(seen) == 2
    alpha, draws, importance = seen[0]
    np.testing.assert_allclose(alpha, fit.alpha / np.sqrt(fit.noise))
    Q, roots = fit.root
    normal = np.random.RandomState(0).normal(size=(30, 16))
    np.testing.assert_allclose(draws, Q @ np.diag(roots) @ normal)
    assert importance.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@each(
    ("gains", "spread", "expected"),
    [
        ([0.02, 0.0], 0.0, 0),
        ([0.05, 0.0], 0.0, 1),
        ([0.05, 0.06], 0.0, 2),
        ([-0.5, -0.1], 0.0, 0),
        # What is clear is so by the first one's loss, however bad another one is.
        ([-9.0, 0.05], 0.0, 2),
        # A gain that is within its standard error is none.
        ([0.05, 0.0], 1.0, 0),
        ([0.2, 0.0], 1.0, 1),
    ],
)
@each("unit", [0.1, 1.0])
def test_few_rows_take_another_metric_where_it_is_clearly_better(
    rng, monkeypatch, gains, spread, expected, unit
):
    A = rng.normal(size=(64, 2))
    noise = spread * np.tile([-1.0, 1.0], 32)
    given = iter([unit * np.ones(64), *(unit * (1.0 - gain + noise) for gain in gains)])
    monkeypatch.setattr(classes, "_fit", lambda *_: SimpleNamespace(losses_left_out=next(given)))
    labels = labels_of(rng, np.arange(64) % 2, 2, False)
    recipe = classes._Recipe(A, labels, np.eye(2), 1)
    starts = [Candidate(np.diag([1.0, k]), []) for k in (1.0, 2.0, 3.0)]
    assert recipe.best_left_out(starts) is starts[expected]


def learned_of_steps(rng, monkeypatch, **options):
    """What steps lead to, and the candidates that were tried, with the rows that they had seen."""
    A = rng.normal(size=(90, 4))
    labels = (A[:, 0] * A[:, 1] > 0.3 * rng.normal(size=90)).astype(int) + 3
    weights = rng.uniform(0.5, 1.5, 90)
    monkeypatch.setattr(classes, "_MIN_ROWS", 90)
    monkeypatch.setattr(
        classes, "missing_effects", lambda *a: ([], [p for p in [(0, 1), (2, 3)] if p not in a[4]])
    )
    tried, of = [], LearnedClasses.of

    def watched(rows, candidate, columns, directions, n_threads):
        tried.append((rows, candidate, directions))
        return of(rows, candidate, columns, directions, n_threads)

    monkeypatch.setattr(LearnedClasses, "of", watched)
    given = {
        "metric": np.eye(4),
        "others": [np.diag([2.0, 1.0, 0.5, 0.5])],
        "n_directions": 12,
        "n_steps": 2,
        "n_interactions": 1,
        "n_threads": 1,
        "random": np.random.RandomState(0),
        "row_scale": np.sqrt(weights),
    }
    learned = learn_class_metric(A, labels, **{**given, **options})
    return A, labels, weights, tried, learned, of


def losses_of_steps(A, labels, weights, tried, of, kernel_of=None):
    """Of each candidate the loss of rows held out, and that of the others left out."""
    found = []
    for rows, candidate, directions in tried:
        seen = (A[:, None] == rows).all(axis=2).any(axis=1)
        codes, scale = labels - 3, np.sqrt(weights)
        columns = Projections.of(rows, np.eye(4), 1)
        learned = of(rows, candidate, columns, directions, 1)
        K, cross = learned.kernel(), learned.cross_kernel(A[~seen], 1)
        if kernel_of is not None:
            matern = kernel_of(rows, candidate.G)
            K, cross = matern.kernel(rows), matern.kernel(rows, A[~seen])
        fit = classes._fit(
            K,
            classes._Labels(codes[seen], 2, scale[seen], np.zeros(seen.sum())),
            with_level=kernel_of is not None,
        )
        held = fit.loss_of(
            cross, classes._Labels(codes[~seen], 2, scale[~seen], np.zeros((~seen).sum()))
        )
        found.append((held, fit.losses_left_out.mean(), seen))
    return found


def test_the_step_that_rows_held_out_like_best_is_kept(rng, monkeypatch):
    A, labels, weights, tried, learned, of = learned_of_steps(rng, monkeypatch)
    # The last one is of all rows.
    assert len(tried[-1][0]) == 90
    steps = tried[:-1]
    losses = losses_of_steps(A, labels, weights, steps, of)
    for *_, seen in losses:
        for label in (3, 4):
            n = np.sum(labels == label)
            assert abs(np.sum(seen & (labels == label)) - 2 * n / 3) < 2
    best = steps[int(np.argmin([held for held, *_ in losses]))][1]
    np.testing.assert_array_equal(learned.G, best.G)
    assert list(learned.interactions) == best.pairs
    # Both starts, each step without and with the pair that it found, which later ones have.
    assert [len(candidate.pairs) for _, candidate, _ in steps] == [0, 0, 0, 1, 1]
    np.testing.assert_array_equal(steps[2][1].G, steps[3][1].G)
    assert not np.array_equal(steps[2][1].G, steps[4][1].G)


@each("factor", [1.0 - 1e-7, 1.0 + 1e-7])
def test_the_other_kernel_is_taken_where_it_predicts_better(rng, monkeypatch, factor):
    A, labels, weights, tried, first, of = learned_of_steps(rng, monkeypatch)
    losses = losses_of_steps(A, labels, weights, tried[:-1], of)
    k = int(np.argmin([held for held, *_ in losses]))
    ((held, left_out, _),) = losses_of_steps(
        A, labels, weights, tried[k : k + 1], of, LearnedMatern.of
    )
    ratio = (losses[k][0] / 3 + 2 * losses[k][1] / 3) / (held / 3 + 2 * left_out / 3)
    monkeypatch.setattr(LearnedClasses, "of", of)
    options = {"kernel": "auto", "handicap": factor * ratio}
    learned = learned_of_steps(np.random.default_rng(0), monkeypatch, **options)[4]
    assert isinstance(learned, LearnedMatern if factor < 1.0 else LearnedClasses)
    np.testing.assert_array_equal(learned.G, first.G)


@each("kernel", ["auto", "sliced", "matern"])
@each("handicap", [1e-9, 1e9])
@each("n_steps", [0, 1])
def test_a_kernel_that_is_asked_for_is_taken(rng, monkeypatch, kernel, handicap, n_steps):
    options = {"kernel": kernel, "handicap": handicap, "n_steps": n_steps}
    *_, tried, learned, _ = learned_of_steps(rng, monkeypatch, **options)
    # Where one is to be chosen, and there are steps to choose by, it is the better one.
    is_matern = kernel == "matern" or (kernel == "auto" and handicap < 1.0 and n_steps > 0)
    assert isinstance(learned, LearnedMatern if is_matern else LearnedClasses)
    if n_steps == 0:
        np.testing.assert_array_equal(learned.G, np.eye(4))
        assert len(tried) == (not is_matern)
    else:
        # Two starts, and the metric of the gradients with the better one.
        assert len(tried) >= 3


# ---- metrics -----------------------------------------------------------------------------------


def test_components_are_kept_for_nearly_all_variance():
    assert metrics._n_kept(np.array([0.0, 0.0, 1.0])) == 1
    assert metrics._n_kept(np.array([0.02, 0.98])) == 2
    assert metrics._n_kept(np.array([0.005, 0.995])) == 1
    assert metrics._n_kept(np.array([0.001, 0.2, 2.0, 4.0])) == 3
    assert metrics._n_kept(np.array([1.0, 1.0, 1.0, 1.0])) == 4


@each(("n_bands", "expected"), [(1, True), (2, True), (3, False)])
def test_columns_are_collinear_where_a_fourth_of_components_says_all(rng, n_bands, expected):
    A = rng.normal(size=(400, n_bands)) @ np.linalg.qr(rng.normal(size=(8, n_bands)))[0].T
    assert metrics.are_collinear(A) == expected
    assert metrics.are_collinear(1e-3 * A) == expected


def test_one_column_that_varies_says_all_and_none_says_nothing():
    A = np.zeros((6, 8))
    assert not metrics.are_collinear(A)
    A[:, 3] = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0]
    assert metrics.are_collinear(A)


def test_the_identity_is_the_metric_of_rows_without_variance():
    assert metrics._of_trace(np.zeros((2, 2))).tolist() == np.eye(2).tolist()
    assert metrics._of_trace(np.diag([0.1, 0.3])).tolist() == [[0.5, 0.0], [0.0, 1.5]]


# ---- the metric of regressors --------------------------------------------------------------------


def recipe_of(rng, n=40, **options):
    """Rows of four columns with one target, and how much is learned from them."""
    A = rng.normal(size=(n, 4))
    given = {
        "Y": rng.normal(size=(n, 1)),
        "some": np.arange(n),
        "metric": np.diag([2.0, 1.0, 0.5, 0.5]),
        "n_directions": 3,
        "n_steps": 0,
        "n_interactions": 0,
        "random": np.random.RandomState(0),
        "n_threads": 1,
        "row_scale": None,
        "stays": None,
    }
    return learning._Recipe(A, **{**given, **options})


def given_effects(monkeypatch, *found):
    """Let each look for effects find these, if they are not known."""
    answers, asked = iter(found), []

    def missing(A, alpha, draws, importance, known, n_threads):
        asked.append((A, alpha, draws, importance, list(known)))
        columns, pairs = next(answers)
        return columns, [pair for pair in pairs if pair not in known]

    monkeypatch.setattr(learning, "missing_effects", missing)
    return asked


def given_variances(monkeypatch, *found):
    """Let these be the likeliest variances."""
    answers, asked = iter(found), []

    def likeliest(kernels, Y, start, n_repeats):
        assert n_repeats == 0.0
        asked.append((kernels, Y, start.tolist()))
        return np.array(next(answers))

    monkeypatch.setattr(learning, "likeliest", likeliest)
    return asked


def test_each_step_starts_where_the_last_one_ended(rng, monkeypatch):
    looked = given_effects(monkeypatch, ([(1,)], [(0, 1), (0, 2)]), ([], [(0, 2), (1, 2), (2, 3)]))
    asked = given_variances(
        monkeypatch, [1.0, 2.0], [1.5, 0.5, -4.0, 13.0, -5.0], [0.1, 0.2, 0.3, 0.4, 0.5]
    )
    recipe = recipe_of(rng, n_steps=2, n_interactions=2)
    learned = recipe.learn(smooth=False)
    starts = [start for *_, start in asked]
    assert starts[0][0] == starts[0][1]
    # What is new starts from one value between slices and columns.
    late = starts[1][1]
    assert starts[1] == [1.0, late, late, late, 2.0]
    # Signals far above or below the noise start nearer to it, and an effect without one is gone.
    lowest, highest = learning._WARM_BOUNDS
    assert starts[2] == [1.5, 0.5, highest, late, lowest]
    assert [known for *_, known in looked] == [[], [(1,), (0, 2)]]
    assert list(learned.effects) == [(1,), (0, 2), (1, 2)]
    assert learned.theta.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert learned.smoothness == "linear"
    assert len(learned.slices.sets) == 3
    # The kernels in the order of their variances.
    for group, kernel in zip(learned.groups, asked[2][0], strict=True):
        assert group.K is kernel
    for effect, group in learned.effects.items():
        W = interactions.effect_directions(4, effect)
        np.testing.assert_array_equal(group.sets[0].W, W)
    np.testing.assert_array_equal(learned.columns.sets[0].W, np.eye(4))
    np.testing.assert_array_equal(asked[2][1], recipe.Y)


def test_the_metric_of_a_step_is_that_of_the_gradients_of_the_slices(rng, monkeypatch):
    A = np.random.default_rng(0).normal(size=(40, 4))
    options = {"n_steps": 1, "n_directions": 8}
    recipe = recipe_of(rng, Y=A[:, :1] * A[:, 1:2], **options)
    np.testing.assert_array_equal(recipe.A, A)
    outer = []

    def watched(sets, alpha):
        outer.append(outer_gradients(sets, alpha))
        return outer[-1]

    monkeypatch.setattr(learning, "outer_gradients", watched)
    learned = recipe.learn(smooth=False)
    np.testing.assert_allclose(learned.G, 4.0 * outer[0] / np.trace(outer[0]))
    faint = recipe_of(np.random.default_rng(0), Y=1e-6 * recipe.Y, **options)
    np.testing.assert_allclose(faint.learn(smooth=False).G, learned.G, rtol=1e-4, atol=1e-6)
    # Directions of one length are turned by the roots of the metrics, first the given one.
    for part, G in zip(learned.slices.sets, (recipe.metric, learned.G), strict=True):
        directions = linalg.solve(matrix_root(G), part.W)
        np.testing.assert_allclose(np.linalg.norm(directions, axis=0), 1.0)


@each("smooth", [False, True])
def test_targets_of_one_value_leave_the_metric_as_it_is(rng, smooth):
    recipe = recipe_of(rng, Y=np.zeros((40, 1)), n_steps=2, n_interactions=3)
    learned = recipe.learn(smooth=smooth)
    np.testing.assert_array_equal(learned.G, recipe.metric)
    assert len(learned.slices.sets) == 1
    assert learned.effects == {}
    assert learned.smoothness == ("cubic" if smooth else "linear")


@each("weighted", [False, True])
def test_interactions_of_targets_are_as_many_as_there_may_be(rng, monkeypatch, weighted):
    scale = rng.uniform(0.5, 1.5, 40) if weighted else None
    recipe = recipe_of(rng, n_interactions=3, row_scale=scale)
    every = [(0, 1), (0, 2), (1, 2), (1, 3)]
    asked = given_effects(monkeypatch, *[([(3,)], every)] * 4)
    columns = Group.of(recipe._project(np.eye(4), False))
    fit = fit_of([columns], np.array([1.0]), recipe.Y, recipe.some, 1, scale)
    G = np.diag([4.0, 3.0, 2.0, 1.0])
    for known, found in (
        ([], every[:3]),
        ([(0,), (2,)], every[:3]),
        ([(0, 1), (1,), (1, 2)], [(0, 2)]),
    ):
        effects = dict.fromkeys(known, columns)
        assert recipe._found(effects, fit, G) == [(3,), *found]
    for known in (every[:3], every):
        assert recipe._found(dict.fromkeys(known, columns), fit, G) == []
    assert len(asked) == 3
    A, alpha, draws, importance, _ = asked[0]
    assert A is recipe.A
    np.testing.assert_allclose(alpha, fit.alpha / np.sqrt(fit.noise))
    assert importance.tolist() == [4.0, 3.0, 2.0, 1.0]
    # Of covariance R^-1 = L^-T L^-1, seen as unscaled rows.
    normal = np.random.RandomState(0).normal(size=(40, 16))
    expected = linalg.solve(np.tril(fit.L).T, normal)
    np.testing.assert_allclose(draws, expected if scale is None else scale[:, None] * expected)


def test_targets_without_noise_have_finite_weights(rng, monkeypatch):
    recipe = recipe_of(rng, Y=np.zeros((40, 1)), n_interactions=1)
    asked = given_effects(monkeypatch, ([], []))
    columns = Group.of(recipe._project(np.eye(4), False))
    fit = fit_of([columns], np.array([1.0]), recipe.Y, recipe.some, 1)
    assert fit.noise.tolist() == [0.0]
    recipe._found({}, fit, np.eye(4))
    assert not asked[0][1].any()


# Costs in units of the bounds beside which smooth kernels are hopeless, and a gain.
@each(
    ("smoothed", "own", "both", "expected"),
    [
        (1.01, -9.0, -9.0, "rough"),
        (0.99, -9.0, 9.0, "own"),
        (0.99, 9.0, -9.0, "both"),
        (-2.0, -1.0, -1.0, "smoothed"),
        (-2.0, -2.0, -2.0, "smoothed"),
        (-2.0, -3.0, -1.0, "own"),
        (-2.0, -3.0, -3.0, "own"),
        (-2.0, -3.0, -4.0, "both"),
        (-0.99, 0.0, 0.0, "rough"),
        (-1.01, 0.0, 0.0, "smoothed"),
        (0.0, -0.99, 0.0, "rough"),
        (0.0, 0.0, -1.01, "both"),
    ],
)
def test_kernels_that_predict_left_out_rows_best_are_kept(
    rng, monkeypatch, smoothed, own, both, expected
):
    recipe = recipe_of(rng)
    rough = recipe.learn(smooth=False)
    of_rough, asked = 5.0, []

    def cost(kernels, theta, Y):
        asked.append(len(kernels))
        # The four that may be asked for, in turn.
        given = (0.0, smoothed, own, both)[len(asked) - 1]
        return of_rough + given * (learning._HOPELESS if given > 0.0 else learning._GAIN)

    monkeypatch.setattr(learning, "leave_one_out_cost", cost)
    found = recipe.best_beside(rough)
    assert asked == ([2, 2] if smoothed > 1.0 else [2, 2, 2, 4])
    if expected == "rough":
        assert found is rough
        return
    assert found.smoothness == ("both" if expected == "both" else "cubic")
    assert found.others == ([rough.slices, rough.columns] if expected == "both" else [])
    assert found.columns.sets[0].smooth
    best_is_own = own < smoothed
    of_rough_directions = np.array_equal(found.slices.sets[0].W, rough.slices.sets[0].W)
    assert of_rough_directions != best_is_own


@each("weighted", [False, True])
def test_smooth_kernels_are_on_directions_that_were_learned_without(rng, monkeypatch, weighted):
    given_effects(monkeypatch, ([(1,)], [(0, 2)]))
    scale = rng.uniform(0.5, 1.5, 40) if weighted else None
    recipe = recipe_of(rng, n_steps=1, n_interactions=1, row_scale=scale, some=np.arange(3, 33))
    given_variances(monkeypatch, [1.0, 2.0], [1.0, 2.0, 3.0, 4.0])
    rough = recipe.learn(smooth=False)
    asked = given_variances(monkeypatch, [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    smooth = recipe.smoothed(rough)
    kernels, Y, start = asked[0]
    assert len(set(start)) == 1
    np.testing.assert_array_equal(Y, recipe.Y[3:33])
    assert list(smooth.effects) == [(1,), (0, 2)]
    assert smooth.theta.tolist() == [4.0, 3.0, 2.0, 1.0]
    r = np.ones(30) if scale is None else scale[3:33]
    for before, after, kernel in zip(rough.groups, smooth.groups, kernels, strict=True):
        assert kernel is after.K
        parts = []
        for rough_part, part in zip(before.sets, after.sets, strict=True):
            np.testing.assert_array_equal(part.T, rough_part.T)
            assert part.smooth
            K = oracle.cubic_spline_kernel(part.T[3:33], weights=np.ones(part.T.shape[1]))
            parts.append(K / part.scale)
        np.testing.assert_allclose(after.K, r[:, None] * np.mean(parts, axis=0) * r)
    # Others go behind those that there are.
    both = recipe.beside(smooth, [rough.slices, rough.columns])
    kernels, _, start = asked[1]
    assert start[:4] == [4.0, 3.0, 2.0, 1.0]
    assert start[4] == start[5]
    assert all(group.K is kernel for group, kernel in zip(both.groups, kernels, strict=True))
    assert both.others == [rough.slices, rough.columns]
    assert both.theta.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    # Of all rows, starting from there.
    every = replace(recipe, some=np.arange(40))
    asked = given_variances(monkeypatch, np.zeros(6))
    again = every.searched_again(both)
    kernels, Y, start = asked[0]
    assert start == both.theta.tolist()
    np.testing.assert_array_equal(Y, recipe.Y)
    for before, after, kernel in zip(both.groups, again.groups, kernels, strict=True):
        assert kernel is after.K
        np.testing.assert_allclose(after.K[3:33, 3:33], before.K)
        assert len(after.K) == 40
    assert again.smoothness == "both"
    assert again.theta.tolist() == [0.0] * 6


def test_an_interaction_has_the_variance_of_what_it_adds(rng, monkeypatch):
    given_effects(monkeypatch, ([(1,)], [(0, 2), (1, 3)]))
    Y = rng.normal(size=(40, 2))
    recipe = recipe_of(rng, Y=Y, n_steps=1, n_interactions=2)
    theta = [1.0, -0.5, 0.5, 1.5, 0.2]
    given_variances(monkeypatch, [1.0, 2.0], theta)
    learned = recipe.fitted(recipe.learn(smooth=False))
    assert learned.theta.tolist() == theta
    R = np.eye(40) + sum(np.exp(t) * g.K for t, g in zip(theta, learned.groups, strict=True))
    alpha = np.linalg.solve(R, Y)
    expected = {
        pair: np.mean((np.exp(theta[k]) * learned.effects[pair].K @ alpha).var(axis=0))
        for k, pair in ((2, (0, 2)), (3, (1, 3)))
    }
    assert learned.shares() == pytest.approx(expected)


def learned_without_steps(A, Y, n_searched):
    """Return what is learned of the metric that is given."""
    return learning.learn_metric(
        A,
        Y,
        metrics=[np.eye(4)],
        n_directions=3,
        n_steps=0,
        n_interactions=0,
        smoothness="linear",
        n_searched=n_searched,
        random=np.random.RandomState(0),
        n_threads=1,
    )


@each(("n_searched", "n_rows"), [(40, 40), (60, 40), (30, 30)])
def test_without_steps_variances_are_the_likeliest_of_the_searched_rows(
    rng, monkeypatch, n_searched, n_rows
):
    asked = given_variances(monkeypatch, [0.5, 1.5], [9.0, 9.0])
    A, Y = rng.normal(size=(40, 4)), rng.normal(size=(40, 1))
    learned = learned_without_steps(A, Y, n_searched)
    # Once: the rows of the steps are all that are searched.
    assert len(asked) == 1
    assert len(asked[0][1]) == n_rows
    assert learned.theta.tolist() == learned.fit.theta.tolist() == [0.5, 1.5]
    assert len(learned.fit.alpha) == 40


def test_where_more_rows_are_searched_than_by_the_steps_they_have_the_last_word(rng, monkeypatch):
    monkeypatch.setattr(learning, "_ROWS_OF_STEPS", 20)
    asked = given_variances(monkeypatch, [0.5, 1.5], [2.5, 3.5])
    A, Y = rng.normal(size=(40, 4)), rng.normal(size=(40, 1))
    learned = learned_without_steps(A, Y, 30)
    assert [len(targets) for _, targets, _ in asked] == [20, 30]
    assert asked[1][2] == [0.5, 1.5]
    assert learned.theta.tolist() == [2.5, 3.5]
    assert len(learned.fit.alpha) == 40


@each(("costs", "expected"), [([1.0, 2.0], 0), ([2.0, 1.0], 1), ([2.0, 3.0, 1.0], 2)])
@each("smoothness", ["linear", "cubic", "both"])
def test_kernels_are_learned_from_the_metric_that_predicts_best(
    rng, monkeypatch, costs, expected, smoothness
):
    recipes = [recipe_of(rng, metric=np.diag([2.0, 1.0, 0.5, 0.1 * k])) for k in range(len(costs))]
    # Beside the best, smooth kernels are hopeless.
    answers = iter([*costs, 0.0, 1e9])
    monkeypatch.setattr(learning, "leave_one_out_cost", lambda *_: next(answers))
    recipe, found = learning._likeliest_kind(recipes, smoothness)
    assert recipe is recipes[expected]
    assert found.G is recipe.metric
    assert found.smoothness == ("cubic" if smoothness == "cubic" else "linear")
    # Whether they were asked for.
    assert len(list(answers)) == (0 if smoothness == "both" else 2)


# ---- interactions --------------------------------------------------------------------------------


def slopes_of_evidence(A, alpha, draws, pairs):
    """Pull towards more signal over the push towards less, of dense kernels."""

    def forms(column):
        K = oracle.sliced_kernel((column - column.min())[:, None], weights=np.ones(1))
        return np.sum(alpha * (K @ alpha), axis=0).mean(), np.sum(
            draws * (K @ draws), axis=0
        ).mean()

    single = [forms(a) for a in A.T]
    both = {(i, j): np.add(forms(A[:, i] + A[:, j]), forms(A[:, i] - A[:, j])) for i, j in pairs}
    return [pull / push for pull, push in single], {p: f[0] / f[1] for p, f in both.items()}


@each("block", [2, 4, 512])
@each("known", [[], [(0,), (1, 2), (0, 3)]])
def test_effects_are_those_that_pull_more_than_they_push(rng, monkeypatch, block, known):
    monkeypatch.setattr(interactions, "_BLOCK", block)
    A = rng.normal(size=(30, 5))
    A[:, 4] = 2.5
    alpha, draws = rng.normal(size=(30, 2)), rng.normal(size=(30, 6))
    alpha += A[:, [0]] * A[:, [1]] + A[:, [3]]
    pairs = list(combinations(range(4), 2))
    single, of_pairs = slopes_of_evidence(A[:, :4], alpha, draws, pairs)
    # So that some columns and pairs are above the threshold and others are not.
    most = np.mean(sorted(single)[1:3])
    monkeypatch.setattr(interactions, "_EVIDENCE", most)
    columns, found = interactions.missing_effects(A, alpha, draws, np.ones(5), known, 1)
    wanted = [(c,) for c in np.argsort(single)[::-1] if single[c] > most and (c,) not in known]
    assert columns == wanted
    assert found == [
        p
        for p in sorted(of_pairs, key=lambda p: -of_pairs[p])
        if p not in known and of_pairs[p] > max(most, single[p[0]], single[p[1]])
    ]
    # The best of them, where they are many.
    monkeypatch.setattr(interactions, "EFFECTS_A_STEP", 1)
    few = interactions.missing_effects(A, alpha, draws, np.ones(5), known, 1)
    assert few == (columns[:1], found[:1])


def test_a_column_that_is_there_twice_does_not_interact_with_itself(rng, monkeypatch):
    monkeypatch.setattr(interactions, "_EVIDENCE", 0.0)
    A, V = rng.normal(size=(30, 1)), rng.normal(size=(30, 8))
    columns, found = interactions.missing_effects(
        A[:, [0, 0]], V[:, :2], V[:, 2:], np.ones(2), [], 1
    )
    assert columns == [(0,), (1,)]
    assert found == []


def test_of_many_columns_the_important_ones_have_effects(rng, monkeypatch):
    monkeypatch.setattr(interactions, "_MOST_COLUMNS", 3)
    monkeypatch.setattr(interactions, "_EVIDENCE", 0.0)
    A = 1e-3 * rng.normal(size=(30, 6))
    A[:, 5] = 1.0
    alpha, draws = rng.normal(size=(30, 1)), rng.normal(size=(30, 4))
    # A constant has none, however important.
    importance = np.array([0.1, 3.0, 0.2, 4.0, 2.0, 9.0])
    columns, found = interactions.missing_effects(A, alpha, draws, importance, [], 1)
    assert set(columns) == {(1,), (3,), (4,)}
    assert set(found) <= {(1, 3), (1, 4), (3, 4)}
    alone = interactions.missing_effects(A[:, [1, 3, 4]], alpha, draws, np.ones(3), [], 1)
    names = np.array([1, 3, 4])
    assert columns == [(names[c],) for (c,) in alone[0]]
    assert found == [(names[i], names[j]) for i, j in alone[1]]


def test_evidence_is_pull_over_push():
    forms = np.array([[1.0, 3.0, 0.5, 1.5], [0.0, 8.0, 2.0, 2.0], [2.0, 2.0, 8.0, 0.0]])
    assert interactions._evidence(forms, 2).tolist() == [2.0, 2.0, 0.5]
    assert interactions._evidence(forms, 1).tolist() == pytest.approx([0.6, 0.0, 0.6])
    assert interactions._evidence(forms[1:2], 2).tolist() == [2.0]
    # What is hardly pushed is no evidence without bounds, in any unit.
    forms[0, 2:] = 1e-9
    found = interactions._evidence(forms, 2)
    assert 1.0 < found[0] < 1e6
    for unit in (1e-6, 1e6):
        np.testing.assert_allclose(interactions._evidence(unit * forms, 2), found)
    assert interactions._evidence(np.zeros((2, 3)), 1).tolist() == [0.0, 0.0]
    assert interactions._evidence(np.zeros((0, 3)), 1).shape == (0,)


def test_quadratic_forms_are_of_the_kernel_of_each_column(rng):
    T, V = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    for p, column in enumerate(T.T):
        K = oracle.sliced_kernel((column - column.min())[:, None], weights=np.ones(1))
        found = interactions._forms(T, V, 1)
        np.testing.assert_allclose(found[p], np.sum(V * (K @ V), axis=0))


# ---- fits --------------------------------------------------------------------------------------


def test_sets_have_a_direction_at_least():
    model = SlicedGPRegressor(n_projections=2)
    assert [model._n_directions(10, n_sets) for n_sets in (1, 2, 3)] == [2, 1, 1]
    assert SlicedGPRegressor()._n_directions(1_000_000, 1000) == 1


def test_shares_of_pairs_are_summed_by_feature():
    # What columns of one feature do together is no interaction.
    shares = {(0, 3): 0.1, (3, 1): 0.2, (2, 3): 0.4, (0, 1): 0.25, (1, 2): 0.9}
    found = fitting._of_features(shares, np.array([0, 1, 1, 2]))
    assert [pair[:2] for pair in found] == [(1, 2), (0, 1), (0, 2)]
    assert [share for *_, share in found] == pytest.approx([0.6, 0.25, 0.1])
    assert fitting._of_features({}, np.arange(2)) == []


@each("weighted", [False, True])
def test_noise_and_amplitude_of_many_rows_are_those_of_some(rng, weighted):
    T, y = rng.random((60, 3)), rng.normal(size=60)
    weights = rng.uniform(0.5, 2.0, 60) if weighted else None
    inner = IntersectionGPRegressor(random_state=0)
    model = SlicedGPRegressor()

    def found(inner, y, most):
        return model._with_scales(inner, T, y, np.random.RandomState(0), most, weights)

    some = np.sort(np.random.RandomState(0).choice(60, 40, replace=False))
    few = clone(inner).fit(T[some], y[some], None if weights is None else weights[some])
    scaled = found(inner, y, 40)
    assert scaled.optimizer is None
    assert (scaled.noise, scaled._asked()[0].value) == (few.noise_, few.amplitude_)
    assert inner.optimizer is not None
    # Of so many, all tell them; and some of one value tell nothing.
    assert found(inner, y, 60) is inner
    assert found(inner, np.ones(60), 40) is inner
    given = IntersectionGPRegressor(optimizer=None)
    assert found(given, y, 40) is given


def test_of_many_rows_the_default_tells_noise_and_amplitude(rng, monkeypatch):
    monkeypatch.setattr(fitting, "_SCALE_ROWS", 20)
    T, y = rng.random((30, 2)), rng.integers(0, 2, 30)
    model, random = SlicedGPClassifier(), np.random.RandomState(0)
    inner = IntersectionGPClassifier(likelihood="gaussian", random_state=0)
    scaled = model._with_scales(inner, T, y, random)
    assert scaled.optimizer is None
    # Probabilities are asked of the model, if not of the fit of some rows.
    assert scaled.calibration == inner.calibration
    assert model._with_scales(inner, T[:20], y[:20], random) is inner


def test_what_is_kept_of_columns_is_by_their_feature(rng):
    X = rng.normal(size=(60, 3))
    X[::7, 0], X[::5, 2] = np.nan, np.nan
    y = np.nan_to_num(X[:, 0]) + np.isnan(X[:, 2])
    model = SlicedGPRegressor(n_projections=16, n_metric_steps=1, random_state=0).fit(X, y)
    diagonal = np.diag(model.metric_)
    assert len(diagonal) == 5
    # What is missing of a feature is its own.
    of_features = diagonal[:3] + np.array([diagonal[3], 0.0, diagonal[4]])
    np.testing.assert_allclose(model.feature_importances_, of_features / of_features.sum())


def test_projections_of_many_rows_are_rounded_to_quantiles_of_evenly_spaced_ones(rng, monkeypatch):
    X = rng.normal(size=(90, 2))
    monkeypatch.setattr(fitting, "EXACT_ROWS", 90)
    model = SlicedGPRegressor(
        n_projections=8, n_metric_steps=0, kernel="sliced", solver="cg", random_state=0
    )
    y = X[:, 0] + 0.1 * rng.normal(size=90)
    assert model.fit(X, y)._projection.levels is None
    monkeypatch.setattr(fitting, "EXACT_ROWS", 30)
    projection = model.fit(X, y)._projection
    # Answers are not rounded as rows are.
    assert model.predict(X).dtype == np.float64
    some = np.linspace(0, 89, 30).astype(int)
    expected = replace(projection, levels=None).rounding(X[some])
    np.testing.assert_array_equal(projection.levels, expected.levels)


# ---- regressors --------------------------------------------------------------------------------


def test_noise_of_targets_that_do_not_vary_is_that_of_the_others():
    both = np.array([True, False, True])
    scale = regression_learning._scale
    np.testing.assert_allclose(scale(np.array([0.5, 0.1]), both), [0.5, 0.3, 0.1])
    single = scale(np.array([0.5]), np.array([True]))
    assert (single, np.ndim(single)) == (0.5, 0)
    alone = scale(np.array([7.0]), np.array([False]))
    assert alone == regression_learning._NOISE_OF_CONSTANTS
    # Within the bounds, where a function has no noise.
    none = scale(np.array([0.0, 1.0]), np.array([True, True]))
    assert regression_learning._VARIANCES[0] < none[0] < 1e-10
    assert none[1] == 1.0


@each(
    ("parameters", "n_rows", "expected"),
    [
        ({}, 30, "auto"),
        ({}, 31, "sliced"),
        ({"kernel": "splines"}, 31, "splines"),
        ({"kernel": "sliced", "n_bins": 16, "solver": "cg"}, 30, "sliced"),
        ({"solver": "cholesky", "variance": "exact"}, 30, "auto"),
        ({"solver": "cg"}, 30, "sliced"),
        ({"variance": "coarse"}, 30, "sliced"),
        ({"n_bins": 16}, 30, "sliced"),
        ({"kernel": "splines", "solver": "cg"}, 30, None),
        ({"kernel": "splines", "variance": "cached"}, 30, None),
        ({"kernel": "splines", "n_bins": 16}, 30, None),
    ],
)
def test_smooth_kernels_are_tried_where_they_are_factorised(
    monkeypatch, parameters, n_rows, expected
):
    monkeypatch.setattr(regression_learning, "EXACT_ROWS", 30)
    model = SlicedGPRegressor(**parameters)
    if expected is None:
        with pytest.raises(ValueError, match="is solved by a Cholesky factor"):
            model._kernel_to_try(n_rows)
    else:
        assert model._kernel_to_try(n_rows) == expected


@each("n_steps", [1, 3])
def test_collinear_columns_are_also_learned_from_whitened(rng, n_steps):
    A = rng.normal(size=(60, 1)) @ np.ones((1, 8)) + 1e-3 * rng.normal(size=(60, 8))
    spreads = np.arange(1.0, 9.0)
    found = SlicedGPRegressor(n_metric_steps=n_steps)._first_metrics(A, spreads)
    assert len(found) == 2
    np.testing.assert_array_equal(found[0], np.eye(8))
    np.testing.assert_array_equal(found[1], metrics.first_metric("whitened", A, spreads))
    # Not where none is learned, nor where columns are none of the others'.
    for parameters, rows in (
        ({"n_metric_steps": 0}, A),
        ({"metric": "pca"}, A),
        ({}, rng.normal(size=(60, 8))),
    ):
        model = SlicedGPRegressor(**parameters)
        (only,) = model._first_metrics(rows, spreads)
        np.testing.assert_array_equal(only, metrics.first_metric(model.metric, rows, spreads))


@each("kernel", ["sliced", "splines"])
@each("n_targets", [1, 2])
def test_rows_without_weight_are_left_out_of_nothing(rng, kernel, n_targets):
    X, Y = rng.normal(size=(40, 2)), rng.normal(size=(40, n_targets))
    X[7], Y[7] = X[3], Y[3]
    weights = rng.uniform(0.5, 2.0, 40)
    weights[[5, 20]] = 0.0
    model = SlicedGPRegressor(n_projections=8, n_metric_steps=0, kernel=kernel, random_state=0).fit(
        X, Y, sample_weight=weights
    )
    mean, std = (found.reshape(40, -1) for found in model.predict_leave_one_out())
    for found in (mean, std):
        assert found.shape == (40, n_targets)
        assert np.flatnonzero(np.isnan(found).any(axis=1)).tolist() == [5, 20]
    # Equal rows are left out together, and have noise of their own.
    np.testing.assert_array_equal(mean[3], mean[7])
    assert np.all((std[3] < std[7]) == (weights[3] > weights[7]))


@each("n_rows", [30, 31])
def test_few_rows_have_the_noise_that_was_learned_with_the_metric(rng, monkeypatch, n_rows):
    monkeypatch.setattr(regression_learning, "SEARCHED_ROWS", 30)
    X = rng.normal(size=(n_rows, 2))
    learned, learn = [], regression_learning.learn_metric

    def watched(*args, **options):
        learned.append(learn(*args, **options))
        return learned[-1]

    monkeypatch.setattr(regression_learning, "learn_metric", watched)
    model = SlicedGPRegressor(n_projections=8, n_metric_steps=0, kernel="splines", random_state=0)
    model.fit(X, X[:, 0] + 0.5 * rng.normal(size=n_rows))
    # With more, all of them tell it again.
    assert (model.noise_ == learned[0].fit.noise[0]) == (n_rows == 30)


def test_a_regressor_learns_from_standardised_targets_and_weights(rng, monkeypatch):
    X, y = rng.normal(size=(40, 3)), rng.normal(3.0, 5.0, size=40)
    weights = rng.uniform(0.5, 2.0, 40)
    given, learn = [], regression_learning.learn_metric

    def watched(A, Y, **options):
        given.append((A, Y, options))
        return learn(A, Y, **options)

    monkeypatch.setattr(regression_learning, "learn_metric", watched)
    monkeypatch.setattr(regression_learning, "LEARNING_ROWS", 25)
    parameters = {"n_projections": 12, "n_metric_steps": 2, "n_interactions": 1, "n_jobs": 1}
    Y = np.column_stack([np.ones(40), y])
    SlicedGPRegressor(**parameters, random_state=0).fit(X, Y, sample_weight=weights)
    A, targets, options = given[0]
    rows = np.sort(np.random.RandomState(0).choice(40, 25, replace=False))
    np.testing.assert_allclose(A, Columns(X).apply(X)[rows])
    w = weights[rows] / weights[rows].mean()
    mean = np.average(y[rows], weights=w)
    expected = (y[rows] - mean) / np.sqrt(np.average((y[rows] - mean) ** 2, weights=w))
    np.testing.assert_allclose(targets, expected[:, None])
    np.testing.assert_allclose(options["row_scale"], np.sqrt(w))
    assert (options["n_directions"], options["n_steps"]) == (4, 2)
    assert options["n_interactions"] == 1


def test_further_targets_in_double_precision_make_answers_double(rng):
    X, y = rng.normal(size=(30, 2)).astype(np.float32), rng.normal(size=30).astype(np.float32)
    model = SlicedGPRegressor(n_projections=8, n_metric_steps=0, random_state=0).fit(X, y)
    model.partial_fit(X[:3] + 1, y[:3])
    assert model.predict(X).dtype == np.float32
    model.partial_fit(X[:3] + 2, y[:3].astype(np.float64))
    assert model.predict(X).dtype == np.float64
    model.partial_fit(X[:3] + 3, y[:3])
    assert model.predict(X).dtype == np.float64


@each("kernel", ["sliced", "splines"])
def test_the_first_rows_have_the_weights_that_come_with_them(rng, kernel):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    weights = rng.uniform(0.1, 5.0, 30)
    model = SlicedGPRegressor(n_projections=8, n_metric_steps=0, kernel=kernel, random_state=0)
    expected = clone(model).fit(X, y, weights).predict(X)
    np.testing.assert_array_equal(clone(model).partial_fit(X, y, weights).predict(X), expected)
    assert not np.allclose(clone(model).partial_fit(X, y).predict(X), expected)


# ---- answers -----------------------------------------------------------------------------------


@each("model", [SlicedGPRegressor(kernel="sliced"), SlicedGPRegressor(), SlicedGPClassifier()])
def test_answers_of_many_rows_are_those_of_some_at_a_time(rng, monkeypatch, model):
    X = rng.normal(size=(30, 2))
    y = X[:, 0] * X[:, 1] > 0.0 if isinstance(model, SlicedGPClassifier) else X[:, 0] * X[:, 1]
    model = clone(model).set_params(n_projections=8, n_metric_steps=0, random_state=0).fit(X, y)

    def answers():
        answers = [*model.predict(X, return_std=True), *model.latent_mean_and_variance(X)]
        if isinstance(model, SlicedGPClassifier):
            return [*answers, model.predict_proba(X), model.decision_function(X)]
        return [
            *answers,
            *model.predict(X, return_cov=True),
            *model.predict(X, return_quantiles=[0.1, 0.9]),
            *model.std_bounds(X),
            model.sample_y(X, 3, random_state=0),
        ]

    expected = answers()
    for block in (7, 30):
        monkeypatch.setattr(base, "_BLOCK", block)
        for found, known in zip(answers(), expected, strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-6, atol=1e-9)


@each("model", [SlicedGPRegressor(), SlicedGPClassifier()])
def test_projections_of_some_rows_are_in_memory_at_once(rng, monkeypatch, model):
    X = rng.normal(size=(30, 2))
    model = clone(model).set_params(n_projections=8, n_metric_steps=0, random_state=0)
    model.fit(X, X[:, 0] > 0.0)
    sizes, apply = [], Projection.apply

    def watched(projection, numbers, n_threads):
        sizes.append(len(numbers))
        return apply(projection, numbers, n_threads)

    monkeypatch.setattr(Projection, "apply", watched)
    monkeypatch.setattr(base, "_BLOCK", 13)
    model.predict(X, return_std=True)
    assert sizes == [13, 13, 4]


@each(
    ("model", "n_fits"),
    [
        (SlicedGPRegressor(kernel="sliced"), 1),
        (SlicedGPRegressor(kernel="sliced"), 2),
        (SlicedGPClassifier(), 1),
    ],
)
def test_the_posteriors_of_an_unpickled_model_are_made_once(rng, monkeypatch, model, n_fits):
    X = rng.normal(size=(30, 2))
    y = X[:, 0] > 0.0
    if n_fits > 1:
        # Targets that miss different rows.
        y = X.copy()
        y[:3, 0] = np.nan
    model = clone(model).set_params(n_projections=8, n_metric_steps=0, random_state=0)
    model = pickle.loads(pickle.dumps(model.fit(X, y)))
    made, make = [], GaussianProcess._posterior_of

    def watched(inner, state):
        made.append(inner)
        return make(inner, state)

    monkeypatch.setattr(GaussianProcess, "_posterior_of", watched)
    for _ in range(3):
        model.predict(X, return_std=True)
    assert len(made) == n_fits


@each("model", [SlicedGPRegressor(), SlicedGPClassifier()])
def test_missing_numbers_and_several_targets_are_announced(model):
    tags = get_tags(model)
    assert tags.input_tags.allow_nan
    assert tags.target_tags.multi_output == isinstance(model, SlicedGPRegressor)


def test_what_is_set_later_and_has_no_meaning_for_smooth_kernels_is_let_be(rng):
    X = rng.normal(size=(30, 2))
    model = SlicedGPRegressor(
        n_projections=8, n_metric_steps=0, kernel="splines", random_state=0
    ).fit(X, X[:, 0])
    expected = model.predict(X, return_std=True)
    model.set_params(variance="coarse", n_jobs=2)
    for found, known in zip(model.predict(X, return_std=True), expected, strict=True):
        np.testing.assert_array_equal(found, known)


# ---- classifiers -------------------------------------------------------------------------------


@each(
    ("n_rows", "n_classes", "handicap"),
    [(40, 2, 1.0), (41, 2, classification_learning._LIKE_MATERN),
     (40, 3, classification_learning._LIKE_MATERN)],
)  # fmt: skip
@each(("metric", "n_steps", "expected"), [("learned", 1, 1), ("learned", 9, 2), ("pca", 3, 0)])
def test_a_classifier_learns_by_what_it_is_asked_for(
    rng, monkeypatch, n_rows, n_classes, handicap, metric, n_steps, expected
):
    monkeypatch.setattr(classification_learning, "EXACT_ROWS", 40)
    given = {}

    def learned(A, codes, **options):
        given.update(options, A=A, codes=codes)
        return "learned"

    monkeypatch.setattr(classification_learning, "learn_class_metric", learned)
    X = rng.normal(size=(30, 8))
    X[:, 1:] = X[:, :1] + 1e-3 * X[:, 1:]
    columns = Columns(X)
    A, codes, scale = columns.apply(X), np.arange(30) % n_classes, np.ones(30)
    model = SlicedGPClassifier(metric=metric, n_metric_steps=n_steps, n_interactions=5)
    random = np.random.RandomState(0)
    found = model._learn_metric(columns, A, codes, scale, n_rows, n_classes, random)
    assert found == "learned"
    assert (given["handicap"], given["n_steps"]) == (handicap, expected)
    assert (given["kernel"], given["n_interactions"]) == ("auto", 5)
    assert given["n_directions"] == model._n_directions(n_rows, 1)
    assert given["A"] is A
    assert given["row_scale"] is scale
    names = ["pca", "whitened"] if expected > 0 else []
    for other, name in zip(given["others"], names, strict=True):
        expected_metric = metrics.first_metric(name, A, columns.spreads)
        np.testing.assert_array_equal(other, expected_metric)


def test_columns_that_tell_one_another_little_have_no_whitened_metric(rng, monkeypatch):
    given = {}
    monkeypatch.setattr(
        classification_learning, "learn_class_metric", lambda *_, **options: given.update(options)
    )
    X = rng.normal(size=(40, 8))
    model, columns = SlicedGPClassifier(), Columns(X)
    model._learn_metric(columns, columns.apply(X), np.arange(40) % 2, None, 40, 2, None)
    assert len(given["others"]) == 1


@each("n_rows", [20, 21])
@each(
    ("parameters", "possible"),
    [
        ({}, True),
        ({"solver": "cg", "variance": "exact"}, True),
        ({"n_bins": 9}, False),
        ({"solver": "greedy-block"}, False),
        ({"variance": "coarse"}, False),
        ({"n_projections": 9}, False),
    ],
)
def test_a_kernel_is_tried_where_it_can_do_what_is_asked_for(
    monkeypatch, n_rows, parameters, possible
):
    monkeypatch.setattr(classification_learning, "most_rows", lambda: 20)
    kernel = SlicedGPClassifier(**parameters)._kernel_to_try(n_rows)
    assert kernel == ("auto" if possible and n_rows == 20 else "sliced")
    assert SlicedGPClassifier(kernel="sliced", **parameters)._kernel_to_try(n_rows) == "sliced"
    asked = SlicedGPClassifier(kernel="matern", **parameters)
    if possible or "n_projections" in parameters:
        if n_rows > 20:
            with pytest.raises(MemoryError, match="of 20 rows at most, and there are 21"):
                asked._kernel_to_try(n_rows)
        else:
            assert asked._kernel_to_try(n_rows) == "matern"
    else:
        with pytest.raises(ValueError, match='kernel="matern" has n_bins=None'):
            asked._kernel_to_try(n_rows)


def test_another_fit_leaves_nothing_of_a_kernel_before(rng):
    X = rng.normal(size=(40, 3))
    y = X[:, 0] > 0.0
    model = SlicedGPClassifier(
        kernel="matern", random_state=0, n_jobs=1, solver=Solver(max_iter=77)
    ).fit(X, y)
    assert model.length_scale_ > 0.0
    assert model.offsets_.tolist() == [0.0] * 3
    inner = model._inner.get_params()
    assert (inner["n_jobs"], inner["solver"].max_iter, inner["tol"]) == (1, 77, model.tol)
    # Classes that are told apart keep some noise.
    assert inner["noise_bounds"] == classification_learning._NOISE_BOUNDS
    assert model._inner.noise_ >= inner["noise_bounds"][0] * (1 - 1e-12)
    model.set_params(kernel="sliced", n_projections=8).fit(X, y)
    assert model.kernel_ == "sliced"
    assert not hasattr(model, "length_scale_")


def test_one_class_is_learned_where_others_are_declared(rng):
    X = rng.normal(size=(20, 2))
    model = SlicedGPClassifier(n_projections=8, random_state=0)
    model.partial_fit(X, ["a"] * 20, classes=["a", "b"])
    assert model.classes_.tolist() == ["a", "b"]
    assert (model.predict(X) == "a").all()
    model.partial_fit(X + 5.0, ["b"] * 20)
    assert (model.predict(X + 5.0) == "b").all()


def test_one_class_alone_is_refused_by_the_model_that_was_asked(rng):
    weights = np.append(np.ones(19), 0.0)
    model = SlicedGPClassifier(n_projections=8, random_state=0)
    with pytest.raises(ValueError, match=r"^SlicedGPClassifier needs .* one class: 'a'\."):
        model.fit(rng.normal(size=(20, 2)), ["a"] * 19 + ["b"], weights)
    assert not hasattr(model, "classes_")


@each("kernel", ["matern", "sliced"])
def test_what_further_rows_change_is_kept(rng, kernel):
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] > 0.0, "b", "a")
    model = SlicedGPClassifier(kernel=kernel, n_projections=8, solver="cg", random_state=0)
    model.fit(X, y)
    weights = np.array([1.0, 0.0, 2.0])
    model.partial_fit(X[:3] + 1.0, ["c"] * 3, sample_weight=weights)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict_proba(X).shape == (40, 3)
    np.testing.assert_array_equal(model.n_iter_, model._inner.n_iter_)
    assert model._inner._given.learned.tolist() == [*range(40), 41, -1, 40]
    model.forget([40, 42])
    assert model.classes_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.n_iter_, model._inner.n_iter_)


# ---- likelihood --------------------------------------------------------------------------------


def test_more_noise_makes_any_matrix_definite(rng):
    """Of a matrix that is no kernel's, which stands for roundings of one."""
    Y = rng.normal(size=(5, 2))
    A = rng.normal(size=(5, 2))
    group = Group.of(replace(Projections.of(A, np.eye(2), 1), K=-np.eye(5)))
    theta, smaller = np.array([2.0]), np.array([-1.0])
    assert likelihood.leave_one_out_cost([group.K], theta, Y) == np.inf
    assert np.isfinite(likelihood.leave_one_out_cost([group.K], smaller, Y))
    fit = fit_of([group], theta, Y, np.arange(5), 1)
    assert fit.theta.tolist() == [-1.0]
    np.testing.assert_allclose(fit.alpha, Y / (1.0 - np.exp(-1.0)))
    # Where the likelihood is none, the search goes on.
    assert np.isfinite(likelihood.likeliest([group.K], Y, theta)).all()


def test_targets_that_are_fitted_without_error_have_a_finite_cost(rng):
    A = rng.normal(size=(6, 2))
    K = Projections.of(A, np.eye(2), 1).K
    zeros = np.zeros((6, 1))
    assert np.isfinite(likelihood.leave_one_out_cost([K], np.zeros(1), zeros))
    assert np.isfinite(likelihood.likeliest([K, K], zeros, np.zeros(2))).all()
    fit = fit_of([Group([], K)], np.zeros(1), zeros, np.arange(6), 1)
    assert fit.noise.tolist() == [0.0]


@each("n_threads", [1, 2])
@each("weighted", [False, True])
def test_the_fit_of_all_rows_is_that_of_the_weighted_kernel(rng, n_threads, weighted):
    A, Y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    some = np.array([0, 3, 5, 6, 10])
    r = rng.uniform(0.5, 2.0, 12) if weighted else None
    of_some = None if r is None else r[some]
    groups = [
        Group.of(Projections.of(A, rng.normal(size=(2, 3)), 1, some, of_some, smooth=smooth))
        for smooth in (True, False)
    ]
    theta = np.array([0.7, -0.4])
    scale = np.ones(12) if r is None else r
    fit = fit_of(groups, theta, scale[:, None] * Y, some, n_threads, r)
    K = sum(
        np.exp(t) * kernel(g.sets[0].T, weights=np.ones(3)) / g.sets[0].scale
        for t, g, kernel in zip(
            theta, groups, (oracle.cubic_spline_kernel, oracle.sliced_kernel), strict=True
        )
    )
    # Noise of a row is over its weight.
    alpha = np.linalg.solve(K + np.diag(1.0 / scale**2), Y)
    np.testing.assert_allclose(fit.alpha, alpha)
    np.testing.assert_allclose(fit.noise, np.sum(Y * alpha, axis=0) / 12)


# ---- what is not there -------------------------------------------------------------------------


@each("model", [SlicedGPRegressor(), SlicedGPClassifier()])
def test_a_model_without_a_fit_says_so(model):
    for ask in (
        lambda: model.partial_dependence(np.ones((3, 2)), 0),
        lambda: model.std_error_,
        lambda: model.quantization_error_bound_,
        lambda: model.forget([0]),
    ):
        with pytest.raises(NotFittedError):
            ask()


@each(
    "inner",
    [GPRegressor(Projected(np.ones(2), np.ones(2, dtype=bool))), GPClassifier(of_length(1.0))],
)
def test_inner_models_check_what_they_are_asked(rng, inner):
    inner = clone(inner)
    T = rng.random((12, 2))
    for ask in (inner.predict, inner.latent_mean_and_variance):
        with pytest.raises(NotFittedError):
            ask(T)
    inner.fit(T, np.arange(12) % 2)
    assert inner.predict(T).shape == (12,)
    with pytest.raises(ValueError, match="features"):
        inner.predict(T[:, :1])


def test_deviations_in_a_metric_are_exact_where_they_are_asked_to_be(rng):
    X, others = rng.normal(size=(200, 4)), rng.normal(size=(50, 4))
    options = {"noise": 0.05, "optimizer": None, "tol": 1e-10}
    model = GPClassifier(of_length(1.5), **options, random_state=0)

    def variance(**parameters):
        known = clone(model).set_params(**parameters).fit(X, X[:, 0] * X[:, 1] > 0.0)
        return known.latent_mean_and_variance(others)[1], known.std_error_

    expected, _ = variance(solver="cholesky")
    (exact, none), (cached, some) = (
        variance(solver="cg", variance=name) for name in ("exact", "cached")
    )
    errors = [np.abs(found / expected - 1.0).max() for found in (exact, cached)]
    assert none == 0.0 < some
    assert errors[0] < min(1e-3, 0.5 * errors[1])


def test_rows_that_are_asked_for_are_checked_as_those_of_the_fit(rng):
    X = rng.normal(size=(30, 3))
    model = SlicedGPRegressor(n_projections=8, n_metric_steps=0, random_state=0).fit(X, X[:, 0])
    infinite = np.where(np.eye(30, 3) > 0.0, np.inf, X)
    for rows, said in ((infinite, "infinity"), (X[0], "2D array"), (X[:0], "0 sample")):
        with pytest.raises(ValueError, match=said):
            model.predict(rows)


@each("model", [SlicedGPRegressor(), SlicedGPClassifier()])
@each("n", [29, 31])
def test_every_row_has_a_target_of_its_own(rng, model, n):
    X, y = rng.normal(size=(30, 2)), np.arange(31) % 2
    model = clone(model).set_params(n_projections=8, n_metric_steps=0, random_state=0)
    for known in (clone(model), model.fit(X, y[:30])):
        before = known.__dict__.copy()
        with pytest.raises(ValueError, match=f"inconsistent numbers of samples: .30, {n}"):
            known.partial_fit(X, y[:n])
        assert known.__dict__ == before


def test_dependence_is_of_rows_with_the_columns_of_the_fit(rng):
    X = rng.normal(size=(30, 3))
    model = SlicedGPRegressor(n_projections=8, n_metric_steps=0, random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="3 features"):
        model.partial_dependence(X[:, :2], 0)


def test_rows_of_all_classes_are_asked_for_where_they_are_balanced(rng):
    X = rng.normal(size=(20, 2))
    model = SlicedGPClassifier(class_weight="balanced", n_projections=8, random_state=0)
    with pytest.raises(ValueError, match="balanced"):
        model.partial_fit(X, X[:, 0] > 0.0)


# ---- tables ------------------------------------------------------------------------------------


def test_a_table_is_its_numbers_and_a_column_for_each_category(rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "kind": ["b", "a", "b", None],
            "size": [1, 2, 3, 4],
            "mixed": [3, "x", 2.5, 3],
            "old": [True, False, True, True],
            "height": [0.5, np.nan, 1.5, 2.0],
        }
    )
    known = Table.of(columns_of(frame))
    expected = [
        # Size and height; a, b and none; 2.5, 3 and x; not old, old.
        [1.0, 0.5, 0, 1, 0, 0, 1, 0, 0, 1],
        [2.0, np.nan, 1, 0, 0, 0, 0, 1, 1, 0],
        [3.0, 1.5, 0, 1, 0, 1, 0, 0, 0, 1],
        [4.0, 2.0, 0, 0, 1, 0, 1, 0, 0, 1],
    ]
    np.testing.assert_array_equal(known.read(columns_of(frame)), expected)
    assert known.sources.tolist() == [1, 4, 0, 0, 0, 2, 2, 2, 3, 3]
    # In any order of the rows; what the fit had not is none of them.
    again = Table.of(columns_of(frame.iloc[[3, 1, 0, 2]]))
    np.testing.assert_array_equal(again.read(columns_of(frame)), expected)
    new = frame.iloc[:2].assign(kind=["c", None], mixed=[None, 7])
    found = known.read(columns_of(new))
    assert found[:, 2:5].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert not found[:, 5:8].any()
    # All of them categories, and none.
    kind = columns_of(frame[["kind"]])
    assert Table.of(kind).read(kind).shape == (4, 3)
    assert not Table.of(kind).is_of_numbers
    numbers = frame[["size", "height"]]
    of_numbers = Table.of(columns_of(numbers))
    assert of_numbers == Table.of_numbers(2)
    assert of_numbers.is_of_numbers
    assert of_numbers.sources.tolist() == [0, 1]
    np.testing.assert_array_equal(of_numbers.read(columns_of(numbers)), numbers.to_numpy())


# ---- patterns of missing targets ---------------------------------------------------------------


def test_further_rows_of_patterns_are_counted_from_the_last(rng):
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    Y[::3, 0], Y[1::3, 1] = np.nan, np.nan
    # The last row of the first ones misses a target.
    model = SlicedGPRegressor(n_projections=8, n_metric_steps=0, solver="cg", random_state=0)
    model.fit(X[:22], Y[:22]).partial_fit(X[22:], Y[22:])
    assert [targets.tolist() for targets in model.pattern_targets_] == [[0], [1]]
    for rows, y, fit in zip(model.pattern_rows_, Y.T, model.pattern_fits_, strict=True):
        np.testing.assert_array_equal(rows, np.flatnonzero(~np.isnan(y)))
        assert len(fit._inner.Y_fit_) == len(rows)
    for further in (np.ones((2, 3)), np.ones(2), np.ones((2, 1))):
        with pytest.raises(ValueError, match="as many targets per row as before"):
            model.partial_fit(X[:2], further)
    draws = model.sample_y(X[:5], 4, random_state=0)
    assert draws.shape == (5, 2, 4)


def test_errors_of_targets_that_miss_different_rows_are_those_of_their_fits(rng):
    X = rng.normal(size=(60, 2))
    Y = np.column_stack([X[:, 0], X[:, 0] * X[:, 1]])
    Y[::3, 1] = np.nan
    model = SlicedGPRegressor(
        n_projections=8, n_metric_steps=0, n_bins=4, solver="cg", random_state=0
    ).fit(X, Y)
    assert model.std_error_ == max(fit.std_error_ for fit in model.pattern_fits_)
    bounds = np.concatenate([fit.quantization_error_bound_ for fit in model.pattern_fits_])
    assert bounds.shape == (2,)
    assert bounds[0] != bounds[1]
    order = np.concatenate(model.pattern_targets_)
    np.testing.assert_array_equal(model.quantization_error_bound_[order], bounds)


def test_targets_that_part_have_iterations_of_their_own(rng):
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    model = SlicedGPRegressor(
        n_projections=8, n_metric_steps=0, kernel="sliced", solver="cg", random_state=0
    ).fit(X, Y)
    whole = copy(model)
    model.partial_fit(X[:1] + 1.0, [[1.0, np.nan]])
    for fit in model.pattern_fits_:
        assert fit.n_iter_ is fit._inner.n_iter_
        assert np.shape(fit.n_iter_) == (1,)
    # A third one would have no fit, whether others are missed or not.
    for row in ([1.0, np.nan, 2.0], [1.0, 2.0, np.nan], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match="as many targets per row as before"):
            whole.partial_fit(X[:2], [row, [1.0, 2.0, 3.0]])
    # Of one target, none can be missed in a table of two.
    one = clone(model).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="as many targets per row as before"):
        one.partial_fit(X[:2], [[1.0, np.nan], [1.0, 2.0]])


def test_a_fit_of_whole_targets_has_one_model_with_the_weights_of_rows(rng):
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    weights = rng.uniform(0.5, 2.0, 30)
    model = SlicedGPRegressor(n_projections=8, n_metric_steps=0, random_state=0)
    model.fit(X, np.where(np.eye(30, 2) > 0.0, np.nan, Y)).fit(X, Y, weights)
    assert not hasattr(model, "pattern_fits_")
    np.testing.assert_allclose(model._inner.sample_weight_fit_, weights / weights.mean())


def test_what_further_targets_change_is_kept(rng):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    model = SlicedGPRegressor(
        n_projections=8, n_metric_steps=0, kernel="sliced", solver="cg", random_state=0
    ).fit(X, y)
    weights = np.array([0.0, 1.0, 2.0])
    model.partial_fit(X[:3] + 1.0, y[:3], sample_weight=weights)
    assert model.n_iter_ is model._inner.n_iter_
    assert model._inner._given.learned.tolist() == [*range(30), -1, 31, 30]
    model.forget([30, 31])
    assert model.n_iter_ is model._inner.n_iter_
    assert model._inner._given.learned.tolist() == [*range(30), 30]
    np.testing.assert_allclose(model._inner.X_fit_[30:], model._projection.apply(X[2:3] + 1.0, 1))


# ---- kernels of classes ------------------------------------------------------------------------


@each("n_pairs", [0, 1, 2])
def test_shares_of_a_kernel_of_classes_are_those_of_its_parts(rng, n_pairs):
    A = rng.normal(size=(20, 4))
    pairs = [(0, 2), (1, 3)][:n_pairs]
    columns = Projections.of(A, np.eye(4), 1)
    learned = LearnedClasses.of(A, Candidate(np.eye(4), pairs), columns, np.eye(4), 1)
    of_pairs = 0.5 * classes.SLICES if n_pairs > 0 else 0.0
    K = (classes.SLICES - of_pairs) * learned.slices.K + (1.0 - classes.SLICES) * columns.K
    for part in learned.interactions.values():
        K += of_pairs / n_pairs * part.K
    np.testing.assert_allclose(learned.kernel(), K)
    assert learned.shares() == dict.fromkeys(pairs, of_pairs / max(n_pairs, 1))


def test_rows_that_are_all_equal_tell_no_metric(monkeypatch):
    monkeypatch.setattr(classes, "_MIN_ROWS", 30)
    learned = learn_class_metric(
        np.zeros((30, 2)),
        np.arange(30) % 2,
        metric=np.eye(2),
        others=[],
        n_directions=4,
        n_steps=2,
        n_interactions=2,
        random=np.random.RandomState(0),
        n_threads=1,
    )
    np.testing.assert_array_equal(learned.G, np.eye(2))


@each("weighted", [False, True])
def test_some_rows_of_classes_tell_the_metric(rng, monkeypatch, weighted):
    monkeypatch.setattr(classification_learning, "SEARCHED_ROWS", 25)
    given, learn = [], classification_learning.learn_class_metric

    def watched(A, codes, **options):
        given.append((A, codes, options))
        return learn(A, codes, **options)

    monkeypatch.setattr(classification_learning, "learn_class_metric", watched)
    X = rng.normal(size=(40, 2))
    y = np.array(["b", "a"])[(X[:, 0] > 0.0).astype(int)]
    weights = rng.uniform(0.5, 2.0, 40) if weighted else None
    SlicedGPClassifier(n_projections=8, random_state=0).fit(X, y, sample_weight=weights)
    ((A, codes, options),) = given
    rows = np.sort(np.random.RandomState(0).choice(40, 25, replace=False))
    np.testing.assert_allclose(A, Columns(X).apply(X)[rows])
    np.testing.assert_array_equal(codes, (y == "b")[rows])
    if weighted:
        expected = np.sqrt(weights[rows] / weights[rows].mean())
        np.testing.assert_allclose(options["row_scale"], expected)
    else:
        assert options["row_scale"] is None


@each("weighted", [False, True])
def test_classes_are_told_by_a_process_of_the_kernel_that_was_learned(rng, weighted):
    X = rng.normal(size=(40, 2))
    y = X[:, 0] > 0.3 * rng.normal(size=40)
    weights = rng.uniform(0.5, 2.0, 40) if weighted else None
    model = SlicedGPClassifier(n_projections=8, solver="cholesky", random_state=0)
    model.fit(X, y, sample_weight=weights)
    T = oracle.projections(Columns(X).apply(X), model.directions_, model.offsets_)
    inner = model._inner
    K = inner.amplitude_ * oracle.sliced_kernel(T, weights=model._projection.weights)
    noise = inner.noise_ / (np.ones(40) if weights is None else weights / weights.mean())
    mean = K @ np.linalg.solve(K + np.diag(noise), np.where(y, 1.0, -1.0))
    np.testing.assert_allclose(model.latent_mean_and_variance(X)[0], mean, rtol=1e-5, atol=1e-7)


@each(("kernel", "from_some"), [("matern", True), ("sliced", False)])
def test_noise_of_the_dense_kernel_is_told_by_fewer_rows(rng, monkeypatch, kernel, from_some):
    monkeypatch.setattr(classification_learning, "LEARNING_ROWS", 30)
    monkeypatch.setattr(fitting, "_SCALE_ROWS", 60)
    X = rng.normal(size=(50, 2))
    model = SlicedGPClassifier(kernel=kernel, random_state=0).fit(X, X[:, 0] > 0.0)
    assert (model._inner.optimizer is None) == from_some


# ---- metrics in any unit -----------------------------------------------------------------------


@each("unit", [1e-3, 30.0])
def test_metrics_have_no_unit_nor_origin(rng, unit):
    A = rng.normal(size=(50, 1)) + 1e-2 * rng.normal(size=(50, 4))
    for name in ("whitened", "pca"):
        expected = metrics.first_metric(name, A, np.ones(4))
        found = metrics.first_metric(name, unit * (A + np.array([3.0, 0.0, -2.0, 5.0])), np.ones(4))
        np.testing.assert_allclose(found, expected)
    expected = LearnedMatern.of(A, np.eye(4)).length
    assert LearnedMatern.of(unit * A, np.eye(4)).length == pytest.approx(unit * expected)
