"""Detection: features, distance transforms, scores from codes, detectors of synthetic objects."""

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from histrs.detection import HOGFeatures, PartDetector, average_precision, non_maximum_suppression
from histrs.detection._evaluation import overlaps
from histrs.detection._rows import JointRows, window_rows
from histrs.quantization import ProductQuantizer
from histrs.svm._rows import FeatureRows
from tests.oracles import detection as oracle

SEEDS = st.integers(0, 2**32 - 1)


def random_image(seed, shape):
    return np.random.default_rng(seed).random(shape)


# ---- features -----------------------------------------------------------------------------------


@pytest.mark.simd_paths
@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(1, 21), st.integers(1, 21), st.sampled_from([1, 3])),
    st.integers(2, 8),
    SEEDS,
)
def test_features_are_those_of_the_definition(shape, cell, seed):
    image = random_image(seed, shape).astype(np.float32)
    (features,) = HOGFeatures(cell).cells([image[..., 0] if shape[2] == 1 else image])
    np.testing.assert_allclose(features, oracle.hog(image.astype(float), cell), atol=2e-5)


@pytest.mark.simd_paths
@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(2, 30), st.integers(2, 30), st.sampled_from([1, 3])),
    st.sampled_from([2.0, 1.3, 1.0, 0.8, 0.5, 0.37, 0.2]),
    SEEDS,
)
def test_a_level_is_the_image_at_its_scale(shape, scale, seed):
    image = random_image(seed, shape).astype(np.float32)
    smaller = oracle.resized(image.astype(float), scale)
    features = HOGFeatures(4).pyramid(image if shape[2] == 3 else image[..., 0], [1.0, scale])[1]
    # Cells are counted on the image, not on its rounded size.
    expected = [max(int(n * scale / 4 + 0.5), 1) for n in shape[:2]]
    assert features.shape == (*expected, 31)
    if [max(int(n / 4 + 0.5), 1) for n in smaller.shape[:2]] == expected:
        np.testing.assert_allclose(features, oracle.hog(smaller, 4), atol=2e-4)


def test_features_know_kinds_of_images():
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (24, 17), dtype=np.uint8)
    hog = HOGFeatures(cell_size=6)
    (expected,) = hog.fit([grey]).cells([grey])
    opaque = np.dstack([grey, grey, grey, np.full_like(grey, 255)])
    for image in (
        grey / 255,
        np.dstack([grey] * 3),
        opaque,
        np.float32(grey / 255),
        grey[..., None],
    ):
        np.testing.assert_allclose(hog.cells([image])[0], expected, atol=1e-4)
    clear = opaque.copy()
    clear[..., 3] = 0
    assert not hog.transform([clear])[0].any()
    stack = np.stack([grey, grey])
    np.testing.assert_array_equal(hog.cells(stack[..., None])[1], expected)
    assert hog.cells([np.zeros((1, 1))])[0].shape == (1, 1, 31)


def test_features_are_rows_that_a_pipeline_takes():
    rng = np.random.default_rng(0)
    upright = np.arange(40) % 2 == 0
    stripes = np.tile(np.arange(16) // 2 % 2, (16, 1))
    images = [0.5 * (stripes if up else stripes.T) + 0.1 * rng.random((16, 16)) for up in upright]
    model = make_pipeline(HOGFeatures(), LogisticRegression()).fit(images[:20], upright[:20])
    assert model.score(images[20:], upright[20:]) == 1.0
    hog = HOGFeatures()
    features = hog.fit_transform(images)
    assert features.shape == (40, 4 * 31)
    np.testing.assert_array_equal(features[3], hog.cells(images)[3].ravel())
    with pytest.raises(ValueError, match=r"images\[1\] has 1 x 3 cells, and images\[0\] 2 x 2"):
        hog.transform([images[0], np.zeros((8, 24))])


BAD_IMAGES = [
    (np.zeros((4, 4)), "one image"),
    ([], "at least one image"),
    ("photo.png", "list of arrays"),
    ([np.zeros(4)], r"images\[0\] has shape \(4,\)"),
    ([np.zeros((4, 4, 2))], r"images\[0\] has shape"),
    ([np.zeros((0, 4))], "no pixels"),
    ([np.zeros((4, 4)), np.full((4, 4), 2.0)], r"images\[1\]\[0, 0\] = 2.0.*divide by 255"),
    ([np.full((4, 4), -0.5)], r"images\[0\]\[0, 0\] = -0.5"),
    ([np.full((4, 4), np.nan)], "contains NaN"),
    ([np.zeros((4, 4), dtype=int)], "uint8, or floats"),
    ([np.array([["a"]])], "uint8, or floats"),
]


@pytest.mark.parametrize(("images", "message"), BAD_IMAGES, ids=[m for _, m in BAD_IMAGES])
def test_bad_images_are_refused(images, message):
    with pytest.raises(ValueError, match=message):
        HOGFeatures().transform(images)
    with pytest.raises(ValueError, match=message):
        PartDetector().fit(images, [[[0, 0, 2, 2]]])


# ---- evaluation ---------------------------------------------------------------------------------


def random_boxes(rng, n):
    corner = rng.integers(0, 20, (n, 2))
    return np.hstack([corner, corner + rng.integers(1, 20, (n, 2))]).astype(float)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.sampled_from([0.0, 0.3, 0.5]), SEEDS)
def test_average_precision_is_that_of_the_definition(n_images, least, seed):
    rng = np.random.default_rng(seed)
    boxes = [random_boxes(rng, rng.integers(0, 9)) for _ in range(n_images)]
    truth = [random_boxes(rng, rng.integers(0, 4)) for _ in range(n_images)]
    truth[0] = random_boxes(rng, 2)
    scores = [rng.permutation(100)[: len(own)] + i / 10 for i, own in enumerate(boxes)]
    found = average_precision(boxes, scores, truth, overlap=least)
    assert abs(found - oracle.average_precision(boxes, scores, truth, least)) < 1e-12
    assert average_precision(truth, [np.ones(len(own)) for own in truth], truth) > 0.9
    assert average_precision([[]] * n_images, [[]] * n_images, truth) == 0


@given(SEEDS, st.sampled_from([0.0, 0.4, 1.0]))
def test_what_is_kept_does_not_overlap_and_what_is_not_does(seed, overlap):
    rng = np.random.default_rng(seed)
    boxes, scores = random_boxes(rng, 12), rng.random(12)
    kept = non_maximum_suppression(boxes, scores, overlap=overlap)
    assert (np.diff(scores[kept]) <= 0).all()
    shared = overlaps(boxes, boxes)
    expected = [[oracle.overlap(a, b) for b in boxes] for a in boxes]
    np.testing.assert_allclose(shared, expected)
    assert (shared[np.ix_(kept, kept)] <= overlap + np.eye(len(kept))).all()
    for box in set(range(12)) - set(kept.tolist()):
        better = kept[scores[kept] > scores[box]]
        assert (shared[box, better] > overlap).any()


# ---- the detector -------------------------------------------------------------------------------


def scenes(n, seed=0, shape=(80, 96)):
    """Noise with crosses, one bar twice as long as the other, and squares between them."""
    rng = np.random.default_rng(seed)
    images, boxes = [], []
    for _ in range(n):
        image = rng.random(shape) * 0.3
        size = int(rng.integers(32, 44))
        y, x = rng.integers(2, [shape[0] - size - 2, shape[1] - size // 2 - 2])
        cross = np.zeros((size, size // 2))
        cross[:, size // 4 - 3 : size // 4 + 3] = 0.6
        cross[size // 4 - 3 : size // 4 + 3] = 0.6
        image[y : y + size, x : x + size // 2] += cross
        v, u = rng.integers(0, [shape[0] - 20, shape[1] - 20])
        if (
            overlaps(
                np.array([[x, y, x + size / 2, y + size]]), np.array([[u, v, u + 20.0, v + 20]])
            )
            == 0
        ):
            image[v : v + 20, u : u + 20] += 0.5
        images.append(np.clip(image, 0, 1))
        boxes.append([[x, y, x + size // 2, y + size]])
    return images, boxes


FAST = {
    "n_components": 1,
    "n_parts": 2,
    "quantizer": ProductQuantizer(2, 32, random_state=0),
    "cell_size": 4,
    "levels_per_octave": 3,
    "n_root_rounds": 1,
    "n_part_rounds": 1,
    "mirror": False,
    "C": 0.1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def fitted():
    images, boxes = scenes(16)
    return PartDetector(**FAST).fit(images, boxes)


@pytest.fixture(scope="module")
def unseen():
    return scenes(8, seed=1)


@pytest.mark.simd_paths
def test_objects_are_found(fitted, unseen):
    images, truth = unseen
    assert fitted.score(images, truth) > 0.9
    boxes, scores = fitted.predict(images)
    assert average_precision(boxes, scores, truth) > 0.8
    for image, own, score in zip(images, boxes, scores, strict=True):
        assert own.shape == (len(score), 4)
        assert (np.diff(score) <= 0).all()
        assert (score >= fitted.threshold).all()
        assert (own >= 0).all()
        assert (own[:, 2:] <= image.shape[::-1]).all()
        assert (overlaps(own, own) <= fitted.overlap + np.eye(len(own))).all()


def test_parts_are_in_and_about_their_objects(fitted, unseen):
    boxes, _ = fitted.predict(unseen[0])
    parts = fitted.predict_parts(unseen[0])
    for own, of_parts in zip(boxes, parts, strict=True):
        assert of_parts.shape == (len(own), 2, 4)
        centres = (of_parts[..., :2] + of_parts[..., 2:]) / 2
        size = (own[:, 2:] - own[:, :2])[:, None]
        assert (centres > own[:, None, :2] - size / 2).all()
        assert (centres < own[:, None, 2:] + size / 2).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"n_parts": 0},
        {"quantizer": None},
        {"n_components": 2},
        {"mirror": True},
        {"quantizer": ProductQuantizer(1, 300, random_state=0)},
        {"quantizer": ProductQuantizer(4, 16, "hellinger", random_state=0), "n_parts": 0},
    ],
    ids=str,
)
def test_every_kind_of_detector_finds_them(changes, unseen):
    images, boxes = scenes(16)
    detector = PartDetector(**{**FAST, **changes}).fit(images, boxes)
    assert detector.score(*unseen) > 0.8
    assert detector.anchors_.shape == (detector.n_components, detector.n_parts, 2)
    for root, parts in zip(detector.roots_, detector.parts_, strict=True):
        assert root.shape[2:] == parts.shape[3:]
    if detector.quantizer is None:
        assert detector.quantizer_ is None
        assert root.shape[2:] == (1, 31)


def squares(n):
    """Chequered squares of one size on noise: all are of one aspect."""
    rng = np.random.default_rng(0)
    images, boxes = [], []
    for _ in range(n):
        image = rng.random((96, 128)) * 0.2
        x, y = rng.integers(8, [80, 48])
        image[y : y + 40, x : x + 40] += 0.6 * (np.indices((40, 40)).sum(axis=0) // 10 % 2)
        images.append(image)
        boxes.append([[x, y, x + 40, y + 40]])
    return images, boxes


CODES = ProductQuantizer(2, 32, random_state=0)


def test_components_of_equal_roots_share_the_objects():
    images, boxes = squares(20)
    detector = PartDetector(2, 0, CODES, C=0.1, random_state=0).fit(images, boxes)
    assert len(detector.roots_) == 2
    assert all(root.any() for root in detector.roots_)
    assert (detector.n_negatives_ > 0).all()
    found, _ = detector.predict(images)
    assert max(map(len, found)) <= 2
    assert detector.score(images, boxes) == 1


def test_a_component_without_objects_is_left_out():
    # Boxes a pixel high: no placement of the root of their group overlaps with them by half.
    images, boxes = squares(8)
    flat = [[[0, 10, 128, 11]]] * 8
    own = [[*a, *b] for a, b in zip(boxes, flat, strict=True)]
    with pytest.warns(UserWarning, match="1 of 2 components were left out"):
        detector = PartDetector(2, 0, CODES, C=0.1, random_state=0).fit(images, own)
    assert detector.intercepts_.shape == (1,)
    assert len(detector.roots_) == len(detector.n_negatives_) == 1
    assert max(map(len, detector.predict(images)[0])) <= 2


@pytest.mark.parametrize("own", [np.empty((0, 4)), [[0, 0, 3, 3]]], ids=["none", "one"])
def test_images_too_small_for_a_root_are_skipped(own):
    images, boxes = squares(8)
    parameters = {"n_components": 1, "n_parts": 0, "quantizer": CODES, "C": 0.1}
    detector = PartDetector(**parameters, random_state=0)
    detector.fit([*images, np.zeros((4, 4))], [*boxes, own])
    assert detector.score(images, boxes) == 1


def test_parts_are_learned_where_no_location_is_beyond_the_margin():
    images, boxes = squares(8)
    detector = PartDetector(1, 4, CODES, C=1, n_part_rounds=1, random_state=0).fit(images, boxes)
    # As many as the objects and their mirror images.
    assert detector.n_negatives_[0] >= 16
    # All parts begin with the same springs, and with a quarter of what the root has there.
    springs = detector.deformations_[0]
    assert np.ptp(springs, axis=0).max() > 1e-3
    fine = detector.roots_[0].repeat(2, axis=0).repeat(2, axis=1)
    for part, (y, x) in zip(detector.parts_[0], detector.anchors_[0], strict=True):
        assert np.abs(part - fine[y : y + 6, x : x + 6] / 4).max() > 1e-3
    assert detector.score(images, boxes) == 1


def test_codes_take_a_part_of_the_memory(fitted):
    images, boxes = scenes(16)
    floats = PartDetector(**{**FAST, "quantizer": None}).fit(images, boxes)
    assert fitted.n_bytes_ / fitted.n_negatives_.sum() < (
        floats.n_bytes_ / floats.n_negatives_.sum() / 16
    )


def test_a_frozen_quantizer_is_taken_as_it_is(fitted):
    images, boxes = scenes(16)
    frozen = FrozenEstimator(fitted.quantizer_)
    detector = PartDetector(**{**FAST, "quantizer": frozen, "n_parts": 0}).fit(images, boxes)
    assert detector.quantizer_ is fitted.quantizer_
    wrong = FrozenEstimator(ProductQuantizer(1, 2).fit(np.eye(3)))
    with pytest.raises(ValueError, match="31 features"):
        PartDetector(quantizer=wrong).fit(images, boxes)


def test_images_of_all_kinds_and_sizes(fitted):
    rng = np.random.default_rng(0)
    images, _ = scenes(1, seed=5)
    colour = np.dstack([np.round(images[0] * 255).astype(np.uint8)] * 3)
    small = [rng.random((1, 1)), rng.random((5, 200)), np.zeros((2, 2, 4), dtype=np.uint8)]
    boxes, scores = fitted.predict([*images, colour, colour / 255, *small])
    for own in boxes[1:3]:
        np.testing.assert_allclose(own[:1], boxes[0][:1], atol=2)
    assert len(boxes) == len(scores) == 6


def test_boxes_over_the_border_and_images_without_objects():
    images, boxes = scenes(16)
    x, y, x2, y2 = boxes[0][0]
    images[0] = images[0][y + 4 :]
    boxes[0] = [[x, -4, x2, y2 - y - 4]]
    images.append(np.random.default_rng(3).random((40, 50)))
    boxes.append([])
    detector = PartDetector(**{**FAST, "n_parts": 0}).fit(images, boxes)
    assert detector.score(*scenes(8, seed=1)) > 0.8
    assert PartDetector(**FAST).fit(*scenes(16)).score(images, boxes) > 0.5


BAD_BOXES = [
    ([[]] * 3, "3 entries for 2 images"),
    (None, "NoneType entries"),
    ([[], []], "0 boxes for n_components = 1"),
    ([[[0, 0, 4]], []], r"boxes\[0\] has shape \(1, 3\)"),
    ([[], [[4, 4, 4, 8]]], r"boxes\[1\]\[0\] = .*xmin < xmax"),
    ([[[0, 0, np.nan, 4]], []], "NaN"),
    ([[[100, 0, 110, 4]], []], r"boxes\[0\]\[0\] = .*outside of its image of 30 x 20"),
    ([[[0, 0, 3, 2]], []], "no box is near"),
    ([["a"], []], "not an array of numbers"),
]


@pytest.mark.parametrize(("boxes", "message"), BAD_BOXES, ids=[m for _, m in BAD_BOXES])
def test_bad_boxes_are_refused_and_change_nothing(boxes, message, fitted):
    detector = pickle.loads(pickle.dumps(fitted))
    before = detector.__dict__.copy()
    images = [random_image(i, (20, 30)) for i in range(2)]
    with pytest.raises(ValueError, match=message):
        detector.fit(images, boxes)
    assert detector.__dict__ == before


def test_too_few_planes_are_told():
    images, boxes = scenes(4)
    with pytest.warns(ConvergenceWarning, match="certified gap"):
        PartDetector(**{**FAST, "n_parts": 0, "C": 1e9}).fit(images, boxes)


def test_windows_of_codes_are_learned_from_as_their_codewords():
    rng = np.random.default_rng(0)
    X = rng.random((200, 31)).astype(np.float32)
    quantizer = ProductQuantizer(3, 16, random_state=0).fit(X)
    codes = quantizer.transform(X).reshape(50, -1)
    away = rng.normal(size=(50, 4)).astype(np.float32)
    decoded = quantizer.inverse_transform(codes.reshape(200, -1)).reshape(50, -1)
    rows = JointRows([window_rows(codes, quantizer, 2), FeatureRows(away, None)])
    plain = np.hstack([decoded, away]).astype(float)
    G = rng.normal(size=(1, 50))
    a, product = rows.gradients(G)
    np.testing.assert_allclose(rows.scores(product)[0], plain @ (plain.T @ G[0]), rtol=1e-4)
    np.testing.assert_allclose(np.sum(a * product), np.sum((G @ plain) ** 2), rtol=1e-4)
    some = np.array([3, 7])
    np.testing.assert_allclose(rows.part(some).scores(product), rows.scores(product)[:, some])


# ---- what is refused ----------------------------------------------------------------------------

BOX, GOOD, SCORES = [[0, 0, 2, 2]], [[[0, 0, 10, 10]]], [[0.9]]
MATRIX, COMPLEX = sparse.csr_matrix(np.ones((1, 4))), [[[0, 0, 10 + 1j, 10]]]
SMALL = [np.zeros((4, 4))], [[[0, 0, 3, 3]]]
ROOTS = PartDetector(1, 0, CODES, random_state=0)

REFUSED = [
    ("scales is empty", lambda: HOGFeatures().pyramid(random_image(0, (16, 16)), [])),
    *[(message, partial(average_precision, *arguments)) for arguments, message in (
        (([BOX], [[1]], [BOX, BOX]), "1, 1 and 2 images"),
        (([BOX], [[1]], [[]]), "at least one object"),
        (([BOX], [[1, 2]], [BOX]), r"scores\[0\] has shape"),
        (([BOX], [[np.nan]], [BOX]), r"scores\[0\]\[0\] = nan"),
        ((MATRIX, SCORES, GOOD), "Sparse data was passed for boxes, but dense"),
        ((GOOD, SCORES, MATRIX), "Sparse data was passed for true_boxes, but dense"),
        ((GOOD, MATRIX, GOOD), "Sparse data was passed for scores, but dense"),
        (([MATRIX], SCORES, GOOD), r"Sparse data was passed for boxes\[0\], but dense"),
        ((COMPLEX, SCORES, GOOD), r"Complex data not supported: boxes\[0\]"),
        ((GOOD, SCORES, COMPLEX), r"Complex data not supported: true_boxes\[0\]"))],
    ("overlap = 2", partial(average_precision, [BOX], [[1]], [BOX], overlap=2)),
    (r"boxes\[0\] = .*xmin < xmax", partial(non_maximum_suppression, [[2, 0, 1, 1]], [1])),
    ("overlap = -1", partial(non_maximum_suppression, BOX, [1], overlap=-1)),
    ("no location in the images is away",
     partial(ROOTS.fit, [random_image(i, (63, 63)) for i in range(2)], [[[0, 0, 63, 63]]] * 2)),
    ("images are all too small", partial(ROOTS.fit, *SMALL)),
    ("no box is near", partial(PartDetector(1, 0, None, random_state=0).fit, *SMALL)),
    *[("boxes", partial(PartDetector().fit, [np.zeros((20, 20))], boxes))
      for boxes in (MATRIX, [MATRIX], COMPLEX)],
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_what_is_bad_is_named(message, call):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
    assert not hasattr(ROOTS, "roots_")
