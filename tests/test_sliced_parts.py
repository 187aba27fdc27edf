"""What Gaussian processes on projections are made of, each part against its definition."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import linalg
from scipy.stats import skew
from sklearn.preprocessing import PowerTransformer, StandardScaler

from histrs._calibration import fit_calibration, log_losses
from histrs.gaussian_process._sliced import classes, metrics
from histrs.gaussian_process._sliced import columns as columns_module
from histrs.gaussian_process._sliced import projection as projection_module
from histrs.gaussian_process._sliced.classes import (
    Candidate,
    LearnedClasses,
    learn_class_metric,
)
from histrs.gaussian_process._sliced.columns import (
    Columns,
    _have_two_values,
    _mean,
    _rows_of_powers,
    importances,
)
from histrs.gaussian_process._sliced.matern import LearnedMatern
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
    distinct_rows,
    drawn_rows,
    learned_rows,
    without_rows,
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


@each("weighted", [False, True])
def test_of_equal_rows_one_is_kept_for_all(rng, weighted):
    A, Y = rng.integers(0, 2, (40, 2)).astype(float), rng.integers(0, 2, (40, 1)).astype(float)
    weights = rng.permutation(40) + 1.0 if weighted else None
    kept, groups = distinct_rows(A, Y, weights)
    rows = np.hstack([A, Y])
    assert np.all(np.diff(kept) > 0)
    assert len(np.unique(rows[kept], axis=0)) == len(kept) == len(np.unique(rows, axis=0))
    np.testing.assert_array_equal(rows[kept][groups], rows)
    for k, row in enumerate(kept):
        own = np.flatnonzero(groups == k)
        assert row == (own[np.argmax(weights[own])] if weighted else own[0])


def test_rows_without_weight_are_learned_by_none():
    learned = np.array([4, 0, 2])
    assert learned_rows(3, None, learned) is learned
    assert learned_rows(5, np.array([0, 2, 4]), learned).tolist() == [4, -1, 0, -1, 2]


def test_a_learned_row_goes_with_the_last_that_it_stands_for():
    learned = np.array([0, 1, 1, 2, -1, 0, 3, -1])
    rest, gone = without_rows(learned, np.array([0, 3, 4]))
    # Row 0 stands for another one still; 2 goes, and 3 takes its place.
    assert gone.tolist() == [2]
    assert rest.tolist() == [1, 1, 0, 2, -1]
    rest, gone = without_rows(learned, np.array([1, 2, 0, 5]))
    assert gone.tolist() == [0, 1]
    assert rest.tolist() == [0, -1, 1, -1]
    rest, gone = without_rows(learned, np.array([7]))
    assert (rest.tolist(), gone.tolist()) == (learned[:7].tolist(), [])


# ---- classes -----------------------------------------------------------------------------------


def labels_of(rng, codes, n_classes, weighted):
    scale = rng.uniform(0.5, 1.5, len(codes)) if weighted else np.ones(len(codes))
    return classes._Labels(np.asarray(codes), n_classes, scale)


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
        # A gain that is within its standard error is none.
        ([0.05, 0.0], 1.0, 0),
        ([0.2, 0.0], 1.0, 1),
    ],
)
def test_few_rows_take_another_metric_where_it_is_clearly_better(
    rng, monkeypatch, gains, spread, expected
):
    A = rng.normal(size=(64, 2))
    noise = spread * np.tile([-1.0, 1.0], 32)
    given = iter([np.ones(64), *(1.0 - gain + noise for gain in gains)])
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
            K, classes._Labels(codes[seen], 2, scale[seen]), with_level=kernel_of is not None
        )
        held = fit.loss_of(cross, classes._Labels(codes[~seen], 2, scale[~seen]))
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


@each("factor", [0.999, 1.001])
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


@each(
    ("kernel", "kind"),
    [("auto", LearnedClasses), ("sliced", LearnedClasses), ("matern", LearnedMatern)],
)
@each("n_steps", [0, 1])
def test_a_kernel_that_is_asked_for_is_taken(rng, monkeypatch, kernel, kind, n_steps):
    options = {"kernel": kernel, "handicap": 1e9, "n_steps": n_steps}
    *_, tried, learned, _ = learned_of_steps(rng, monkeypatch, **options)
    assert isinstance(learned, kind)
    if n_steps == 0:
        np.testing.assert_array_equal(learned.G, np.eye(4))
        assert len(tried) == (kind is LearnedClasses)


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


def test_the_identity_is_the_metric_of_rows_without_variance():
    assert metrics._of_trace(np.zeros((2, 2))).tolist() == np.eye(2).tolist()
    assert metrics._of_trace(np.diag([0.1, 0.3])).tolist() == [[0.5, 0.0], [0.0, 1.5]]
