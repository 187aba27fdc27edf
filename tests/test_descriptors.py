"""Descriptors of images against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from histrs.descriptors import BagOfVisualWords, FisherVector, edge_points, shape_context
from tests.oracles import descriptors as oracle

ENCODERS = [FisherVector(3, random_state=0), BagOfVisualWords(5, random_state=0)]
every_encoder = pytest.mark.parametrize("encoder", ENCODERS, ids=["Fisher", "words"])


def images(rng, sizes=(7, 1, 12, 30), n_features=3, positions=False):
    sets = [rng.normal(size=(n, n_features)) * [3, 1, 0.2][:n_features] for n in sizes]
    return [np.hstack([rng.random((len(x), 2)), x]) if positions else x for x in sets]


# ---- what both encoders do with their input -----------------------------------------------------


@every_encoder
def test_forms_of_the_input_do_not_matter(rng, encoder):
    X = rng.normal(size=(6, 9, 3))
    expected = clone(encoder).fit_transform(X)
    objects = np.empty(6, dtype=object)
    objects[:] = list(X)
    for form in (
        list(X),
        tuple(X),
        objects,
        [x.tolist() for x in X],
        [np.asfortranarray(x) for x in X],
    ):
        np.testing.assert_allclose(clone(encoder).fit_transform(form), expected, rtol=1e-12)
    stacked = X.reshape(-1, 3)
    cut = np.split(stacked, np.flatnonzero(np.diff(np.repeat(np.arange(6), 9))) + 1)
    np.testing.assert_allclose(clone(encoder).fit_transform(cut), expected, rtol=1e-12)
    model = clone(encoder).fit(X)
    rows = model.transform(stacked)
    np.testing.assert_allclose(rows, model.transform(list(stacked[:, None])), rtol=1e-12)
    assert model.n_features_in_ == 3
    assert len(model.get_feature_names_out()) == expected.shape[1]


@every_encoder
def test_single_precision_stays(rng, encoder):
    X = [x.astype(np.float32) for x in images(rng)]
    model = clone(encoder).fit(X)
    single, double = model.transform(X), model.transform([x.astype(np.float64) for x in X])
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single, double, atol=2e-3)


@every_encoder
def test_blocks_of_images_do_not_matter(rng, encoder, monkeypatch):
    X = images(rng, sizes=(40, 0, 3, 25, 0, 0, 60, 1))
    model = clone(encoder).fit(X)
    expected = model.transform(X)
    for block in (1, 3, 30):
        monkeypatch.setattr("histrs.descriptors._local_features._BLOCK", block)
        np.testing.assert_allclose(model.transform(X), expected, rtol=1e-10, atol=1e-12)


@every_encoder
def test_an_image_without_features_is_all_zeros(rng, encoder):
    X = images(rng, sizes=(9, 0, 5))
    vectors = clone(encoder).fit_transform(X)
    np.testing.assert_array_equal(vectors[1], 0)
    assert vectors[0].any()
    model = clone(encoder).fit(X)
    np.testing.assert_array_equal(model.transform([np.empty((0, 3))]), vectors[1:2])


@every_encoder
def test_a_pyramid_joins_the_cells(rng, encoder):
    X = images(rng, sizes=(40, 3, 0, 25), positions=True)
    X[0][0, :2] = 1.0
    X[0][1, :2] = 0.0
    encoder = clone(encoder).set_params(positions=True)
    if isinstance(encoder, BagOfVisualWords):
        encoder.set_params(norm=None)
    model = clone(encoder).set_params(pyramid=(1, 2, (3, 1))).fit(X)
    vectors = model.transform(X)
    assert len(model.get_feature_names_out()) == vectors.shape[1]
    whole = clone(encoder).fit(X)
    cells = []
    for rows, columns in [(1, 1), (2, 2), (3, 1)]:
        for number in range(rows * columns):
            inside = [
                x[[oracle.cell(place, rows, columns) == number for place in x[:, :2]]] for x in X
            ]
            cells.append(whole.transform([x.reshape(-1, 5) for x in inside]))
    np.testing.assert_allclose(vectors, np.hstack(cells), rtol=1e-9, atol=1e-12)


@every_encoder
def test_errors_name_the_image_and_change_nothing(rng, encoder):
    X = images(rng)
    model = clone(encoder).fit(X)
    before = model.transform(X)
    with pytest.raises(ValueError, match=r"X\[1\] has shape \(1, 2\)"):
        model.fit([X[0], X[1][:, :2]])
    with pytest.raises(ValueError, match="4 features, but"):
        model.transform([np.ones((2, 4))])
    with pytest.raises(ValueError, match="positions=True"):
        clone(encoder).set_params(pyramid=(1, 2)).fit(X)
    with pytest.raises(ValueError, match="a level is a positive integer"):
        clone(encoder).set_params(pyramid=(0,)).fit(X)
    with pytest.raises(ValueError, match="at least one level"):
        clone(encoder).set_params(pyramid=()).fit(X)
    with pytest.raises(ValueError, match=r"X\[0\]\[\d+, \d\] = .*positions lie in \[0, 1\]"):
        clone(encoder).set_params(positions=True).fit(X)
    with pytest.raises(ValueError, match="the first two are"):
        clone(encoder).set_params(positions=True).fit([x[:, :2] for x in X])
    with pytest.raises(ValueError, match="n_samples"):
        clone(encoder).fit([np.ones((2, 3))])
    np.testing.assert_array_equal(model.transform(X), before)


@every_encoder
def test_stacks_of_images_are_no_local_features(rng, encoder):
    for shape in ((6, 8, 8), (6, 28, 28), (6, 48, 64), (6, 9, 9, 3)):
        images = rng.random(shape)
        with pytest.raises(ValueError, match=r"like a stack of images.*list\(X\)"):
            clone(encoder).fit(images)
    features = rng.random((6, 20, 16))
    model = clone(encoder).fit(list(features))
    with pytest.raises(ValueError, match="like a stack of images"):
        model.transform(features)
    for fine in ((6, 30, 8), (6, 16, 4), (6, 7, 7)):
        clone(encoder).fit(rng.random(fine))


# ---- Fisher vectors -----------------------------------------------------------------------------


def mixture_in_units(model):
    """Weights, means and variances of the features as they came."""
    mixture, scale = model.mixture_, model.scale_
    means, variances = model.mean_ + scale * mixture.means_, scale**2 * mixture.covariances_
    return mixture.weights_, means, variances


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    n_components=st.integers(1, 3),
    power=st.sampled_from([0.5, 1.0]),
    norm=st.sampled_from(["l2", None]),
    seed=st.integers(0, 2**32 - 1),
)
def test_fisher_vectors_are_their_definition(sizes, n_components, power, norm, seed):
    rng = np.random.default_rng(seed)
    train = rng.normal(size=(20, 2)) * [3, 1] + [5, 0]
    model = FisherVector(n_components, power=power, norm=norm, max_iter=1000, random_state=0)
    model.fit(train)
    X = [rng.normal(size=(n, 2)) * [3, 1] + [5, 0] for n in sizes]
    parts = mixture_in_units(model)
    expected = [oracle.fisher_vector(x, *parts, power, norm) for x in X]
    # The root magnifies rounding near zero.
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-6, atol=1e-6)


def test_units_of_the_columns_do_not_matter(rng):
    X = images(rng)
    expected = FisherVector(2, random_state=0).fit_transform(X)
    other = FisherVector(2, random_state=0).fit_transform([x * [1e-9, 2.0, 1e9] for x in X])
    np.testing.assert_allclose(other, expected, rtol=1e-6, atol=1e-6)


def test_far_features_lose_no_digits(rng):
    X = [1e6 + 1e-3 * rng.normal(size=(50, 2)) for _ in range(3)]
    model = FisherVector(1, power=1, norm=None).fit(X)
    parts = mixture_in_units(model)
    expected = [oracle.fisher_vector(x, *parts, 1, None) for x in X]
    # The features have nine digits before the first in which they differ.
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-5)


# ---- visual words -------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    n_words=st.integers(1, 5),
    soft=st.booleans(),
    bandwidth=st.sampled_from([None, 0.05, 2.0]),
    norm=st.sampled_from(["l1", "l2", None]),
    seed=st.integers(0, 2**32 - 1),
)
def test_words_are_counted(sizes, n_words, soft, bandwidth, norm, seed):
    rng = np.random.default_rng(seed)
    model = BagOfVisualWords(
        n_words,
        assignment="soft" if soft else "hard",
        bandwidth=bandwidth,
        norm=norm,
        random_state=0,
    ).fit(rng.normal(size=(20, 2)))
    X = [rng.normal(size=(n, 2)) for n in sizes]
    width = model.bandwidth_ if soft else None
    for histogram, x in zip(model.transform(X), X, strict=True):
        expected = oracle.word_counts(x, model.words_, width)
        length = {"l1": np.sum(expected), "l2": np.sqrt(np.sum(expected**2)), None: 1.0}[norm]
        np.testing.assert_allclose(histogram, expected / (length or 1), rtol=1e-8, atol=1e-10)


def test_the_bandwidth_is_the_spread_about_the_words(rng):
    rows = np.concatenate(images(rng))
    model = BagOfVisualWords(4, random_state=0).fit(rows)
    nearest = cdist(rows, model.words_).min(axis=1)
    assert model.bandwidth_ == pytest.approx(np.sqrt(np.mean(nearest**2)))


def test_fewer_distinct_features_than_words_are_told():
    x = np.repeat([[0.0, 1.0], [2.0, 0.0]], 5, axis=0)
    with pytest.warns(ConvergenceWarning, match="Only 2 of 4 words"):
        model = BagOfVisualWords(4, norm=None, random_state=0).fit(x[None])
    assert model.transform(x[None]).max() == 5
    with pytest.raises(ValueError, match="n_samples=10 local features should be >= n_words=11"):
        BagOfVisualWords(11).fit(x[None])


@pytest.mark.simd_paths
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_words", [1, 7, 64, 256, 257])
def test_many_words_are_counted(rng, n_words, dtype):
    rows = rng.normal(size=(300, 5)).astype(dtype)
    model = BagOfVisualWords(n_words, norm=None, random_state=0).fit(rows[None])
    X = [rng.normal(size=(n, 5)).astype(dtype) for n in (0, 1, 100)]
    for histogram, x in zip(model.transform(X), X, strict=True):
        expected = oracle.word_counts(x.astype(np.float64), model.words_.astype(np.float64))
        np.testing.assert_array_equal(histogram, expected)


def test_more_words_than_codes_of_16_bits_number(rng):
    model = BagOfVisualWords(3, norm=None, random_state=0).fit(rng.normal(size=(1, 9, 1)))
    model.words_ = np.arange(70_000.0)[:, None]
    counts = model.transform([[[69_999.2], [3.9], [4.1]]])
    np.testing.assert_array_equal(np.flatnonzero(counts), [4, 69_999])
    assert counts.sum() == 3


def test_level_weights_are_those_of_the_pyramid(rng):
    X = images(rng, positions=True)
    options = {"pyramid": (1, 2), "positions": True, "norm": None, "random_state": 0}
    plain = BagOfVisualWords(3, **options).fit_transform(X)
    weighted = BagOfVisualWords(3, level_weights=(0.25, 0.5), **options).fit_transform(X)
    np.testing.assert_allclose(weighted, plain * np.repeat([0.25, 0.5], [3, 12]))
    for bad in [(1,), (1, -1), (1, np.inf)]:
        with pytest.raises(ValueError, match="each of the 2 levels"):
            BagOfVisualWords(3, level_weights=bad, **options).fit(X)


def test_max_samples_are_drawn(rng):
    X = images(rng, sizes=(300, 200))
    model = BagOfVisualWords(40, max_samples=40, random_state=0).fit(X)
    # As many words as samples: each is one of the rows.
    rows = np.concatenate(X)
    assert np.isclose(model.words_[:, None], rows).all(axis=2).any(axis=1).all()
    assert model.bandwidth_ > 0
    parts = model.set_params(assignment="soft").transform(X)
    np.testing.assert_allclose(parts.sum(axis=1), 1)


# ---- shape contexts -----------------------------------------------------------------------------


def shape(rng, size=40):
    """Some overlapping discs."""
    rows, columns = np.indices((size, size))
    image = np.zeros((size, size), dtype=bool)
    for _ in range(4):
        i, j, r = rng.uniform(0.3, 0.7, size=3) * [size, size, size / 3]
        image |= (rows - i) ** 2 + (columns - j) ** 2 < r**2
    return image.astype(np.float64)


@pytest.mark.parametrize("rotation_invariant", [False, True])
@pytest.mark.parametrize("bins", [(5, 12), (2, 1), (3, 7)])
def test_shape_contexts_are_their_definition(rng, rotation_invariant, bins):
    images = [shape(rng, 28) for _ in range(2)]
    options = {"n_radii": bins[0], "n_angles": bins[1], "rotation_invariant": rotation_invariant}
    histograms = shape_context(images, n_points=10_000, **options)
    assert histograms.shape == (2, bins[0] * bins[1])
    np.testing.assert_allclose(histograms.sum(axis=1), 1)
    for image, histogram in zip(images, histograms, strict=True):
        points, tangents = edge_points(image)
        turn = tangents if rotation_invariant else np.zeros(len(points))
        h = oracle.shape_context(points, *bins, 0.125, 2.0, turn)
        np.testing.assert_allclose(histogram, h.mean(axis=0), atol=1e-12)
        n_points = len(points)
        every = shape_context([image], n_points=n_points, origin="points", **options)
        np.testing.assert_allclose(every[0], h, atol=1e-12)


def test_the_centroid_sees_every_point_once(rng):
    image = shape(rng)
    points, _ = edge_points(image)
    H = shape_context([image], n_points=10_000, origin="centroid", radii=(0.125, 10.0))
    np.testing.assert_allclose(H * len(points), np.round(H * len(points)), atol=1e-9)
    assert H.sum() == pytest.approx(1)


def test_edges_of_a_square_and_their_tangents():
    image = np.zeros((20, 20))
    image[5:15, 5:15] = 1.0
    points, tangents = edge_points(image)
    for (row, column), tangent in zip(points, tangents, strict=True):
        on_side = min(abs(row - 4.5), abs(row - 14.5), abs(column - 4.5), abs(column - 14.5))
        assert on_side < 1.01
        if 7 < row < 13:
            # The square is on the left: down its left side, up its right side.
            expected = -np.pi / 2 if column < 10 else np.pi / 2
            assert tangent == pytest.approx(expected, abs=0.1)
    sides = points[(points[:, 0] > 7) & (points[:, 0] < 13)]
    assert len(sides) == 2 * 5


def test_shape_contexts_do_not_see_place_contrast_or_size(rng):
    image = shape(rng)
    H = shape_context([image], n_points=10_000)
    moved = np.pad(image, ((3, 9), (11, 2)))
    np.testing.assert_allclose(shape_context([moved], n_points=10_000), H, atol=1e-12)
    np.testing.assert_allclose(shape_context([image * 1e-5], n_points=10_000), H, atol=1e-12)
    larger = np.kron(image, np.ones((3, 3)))
    other = shape_context([shape(np.random.default_rng(5))], n_points=10_000)
    same = np.abs(shape_context([larger], n_points=10_000, sigma=3.0) - H).sum()
    assert same < 0.4 * np.abs(other - H).sum()


def test_points_are_drawn_by_the_seed(rng):
    images = np.stack([shape(rng), shape(rng)])
    first = shape_context(images, n_points=20, random_state=1)
    np.testing.assert_array_equal(shape_context(images, n_points=20, random_state=1), first)
    assert (shape_context(images, n_points=20, random_state=2) != first).any()
    assert shape_context(images, n_points=20, origin="points").shape == (2, 20, 60)
    assert shape_context([]).shape == (0, 60)
    assert shape_context([], origin="points").shape == (0, 100, 60)


def test_errors_of_shape_contexts(rng):
    image = shape(rng)
    with pytest.raises(ValueError, match=r"images\[1\] has 0 edge point"):
        shape_context([image, np.full((9, 9), 7.0)])
    with pytest.raises(ValueError, match=r"images\[0\] has \d+ edge point\(s\), and 5000"):
        shape_context([image], origin="points", n_points=5000)
    bad = image.copy()
    bad[2, 5] = np.inf
    with pytest.raises(ValueError, match=r"images\[1\]\[2, 5\] = inf"):
        shape_context([image, bad])
    with pytest.raises(ValueError, match=r"images\[None\]"):
        shape_context(image)
    with pytest.raises(ValueError, match=r"images\[0\] has shape \(4, 4, 3\)"):
        shape_context([np.ones((4, 4, 3))])
    for options, message in [
        ({"n_points": 1}, "n_points = 1"),
        ({"n_radii": 0}, "n_radii = 0"),
        ({"n_angles": 0}, "n_angles = 0"),
        ({"radii": (2.0, 1.0)}, "radii"),
        ({"origin": "corner"}, "origin"),
        ({"origin": "centroid", "rotation_invariant": True}, 'origin="centroid" has none'),
        ({"sigma": 0.0}, "sigma"),
        ({"threshold": 1.0}, "threshold"),
    ]:
        with pytest.raises(ValueError, match=message):
            shape_context([image], **options)
