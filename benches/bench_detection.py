"""Finding objects: look-ups of codes beside products of features, and OpenCV's people detector."""

import io
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benches._data import data_folder
from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from benches._peers import N_THREADS
from histrs import _histrs
from histrs.detection import PartDetector, average_precision, non_maximum_suppression
from histrs.quantization import ProductQuantizer

try:
    import cv2
    from PIL import Image
except ImportError:
    cv2 = None

CODES = "codes"
FEATURES = "features"
PEER = "OpenCV"
DATA = data_folder()
SOURCE = (
    "Penn-Fudan pedestrians (L. Wang, J. Shi, G. Song and I. Shen, 2007), from the folder that "
    "HISTRS_DATA names"
)
N_TEST = 50


class Photographs(NamedTuple):
    """Images and the boxes of their objects, to train and to test with."""

    images: list[NDArray[np.uint8]]
    boxes: list[NDArray[np.float64]]
    images_test: list[NDArray[np.uint8]]
    boxes_test: list[NDArray[np.float64]]


@cache
def _photographs(quick: bool) -> Photographs | None:
    """Return photographs of streets, the last 50 to test with; a few if quick."""
    path = DATA / "penn_fudan" / "pedestrians.npz"
    if cv2 is None or not path.is_file():
        return None
    with np.load(path) as stored:
        jpeg, offsets, boxes = (stored[name] for name in ("jpeg", "offsets", "boxes"))
    n = len(offsets) - 1
    numbers = [*range(6), n - 2, n - 1] if quick else list(range(n))
    images, own = [], []
    for i in numbers:
        file = io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes())
        images.append(np.asarray(Image.open(file).convert("RGB")))
        own.append(boxes[boxes[:, 0] == i, 1:].astype(float))
    n_train = len(numbers) - (2 if quick else N_TEST)
    return Photographs(images[:n_train], own[:n_train], images[n_train:], own[n_train:])


# ---- scores -------------------------------------------------------------------------------------


@row("part-scores", "Scores of a root and eight parts at every location of a pyramid")
def scores(quick: bool) -> Trial:
    """The same model on codes of seven bytes a cell, and on what they stand for."""
    rng = np.random.default_rng(0)
    image = rng.random((180, 240, 1) if quick else (360, 480, 1)).astype(np.float32)
    levels, padding = 6, 3
    scales = 2.0 ** (-np.arange(-levels, 3 * levels) / levels)
    cells, shapes = _histrs.hog_pyramid(image, 8, scales, padding, N_THREADS)
    quantizer = ProductQuantizer(7, 128, max_samples=4096, max_iter=5, random_state=0).fit(cells)
    codes = quantizer.transform(cells)
    offsets = quantizer.block_offsets_

    def model(look_up: bool) -> Any:
        draw = np.random.default_rng(1)

        def filter_of(size: tuple[int, int]) -> NDArray[np.float32]:
            weights = draw.normal(size=(*size, 31)).astype(np.float32)
            if not look_up:
                return weights[:, :, None]
            parts = [
                weights[..., start:stop] @ book[:, : stop - start].T
                for start, stop, book in zip(
                    offsets[:-1], offsets[1:], quantizer.codebooks_, strict=True
                )
            ]
            return np.stack(parts, axis=2)

        root = filter_of((16, 7))
        parts = [(filter_of((6, 6)), (3 * i, i), (0.0, 0.1, 0.0, 0.1)) for i in range(8)]
        return _histrs.PartModel([(root, 0.0, parts)])

    decoded = quantizer.inverse_transform(codes)

    def side(own: Any, of: NDArray[Any]) -> Any:
        return own.placements(of, (shapes, levels, padding), -np.inf, N_THREADS)[0]

    by_codes, by_features = model(True), model(False)

    def differences(found: dict[str, Any]) -> dict[str, float]:
        scale = np.abs(found[FEATURES]).max()
        return {name: float(np.abs(x - found[FEATURES]).max() / scale) for name, x in found.items()}

    return Trial(
        [
            Side(CODES, lambda _: side(by_codes, codes)),
            Side(FEATURES, lambda _: side(by_features, decoded), peer=True),
        ],
        targets=[
            Target(
                "2x faster than features, as in the paper", lambda m: m.speedup(CODES), at_least=2
            )
        ],
        checks=[Check("largest difference of a score, relative", differences, limit=1e-4)],
        figures=lambda m: [Figure("bytes of all codes", codes.nbytes)],
        note=f"{len(cells):,} cells at {len(scales)} scales of one image, seven codes "
        "or 31 numbers each; roots of 16 x 7 cells, parts of 6 x 6.",
    )


# ---- detection ----------------------------------------------------------------------------------


def _opencv(images: list[NDArray[np.uint8]]) -> Any:
    hog = cv2.HOGDescriptor()
    hog.setSVMDetector(cv2.HOGDescriptor_getDefaultPeopleDetector())
    boxes, scores = [], []
    for image in images:
        # The best of four settings, and so the margin around its windows that is cut off.
        found, weights = hog.detectMultiScale(
            np.ascontiguousarray(image[..., ::-1]),
            hitThreshold=-1.0,
            winStride=(8, 8),
            padding=(16, 16),
            scale=1.03,
            groupThreshold=0,
        )
        found = np.asarray(found, dtype=float).reshape(-1, 4)
        corner, size = found[:, :2], found[:, 2:]
        margin = size * [0.125, 0.05]
        own = np.hstack([corner + margin, corner + size - margin])
        kept = non_maximum_suppression(own, np.ravel(weights), overlap=0.4)
        boxes.append(own[kept])
        scores.append(np.ravel(weights)[kept])
    return boxes, scores


@cache
def _detector(quick: bool, floats: bool) -> PartDetector:
    data = _photographs(quick)
    assert data is not None
    settings: dict[str, Any] = {"n_jobs": N_THREADS, "random_state": 0}
    if quick:
        settings |= {"n_components": 1, "n_root_rounds": 0, "n_part_rounds": 1, "mirror": False}
    if floats:
        settings["quantizer"] = None
    return PartDetector(**settings).fit(data.images, data.boxes)


@row("people", "Pedestrians in photographs of streets")
def people(quick: bool) -> Trial:
    """Parts learned from 120 photographs, on codes and on features, beside OpenCV's detector."""
    data = _photographs(quick)
    if data is None:
        note = "Skipped: needs Penn-Fudan (HISTRS_DATA), opencv-python-headless and pillow."
        return Trial([Side(CODES, lambda _: None)], note=note)
    detectors = {CODES: _detector(quick, False), FEATURES: _detector(quick, True)}

    def find(name: str) -> Any:
        return detectors[name].set_params(threshold=-1.0).predict(data.images_test)

    def precision(found: Any) -> float:
        return average_precision(*found, data.boxes_test)

    def lost(m: Measured) -> float:
        return 100 * (m.digests[FEATURES] - m.digests[CODES])

    def bytes_of(name: str) -> float:
        detector = detectors[name]
        return float(detector.n_bytes_ / detector.n_negatives_.sum())

    return Trial(
        [
            Side(CODES, lambda _: find(CODES), digest=precision),
            Side(FEATURES, lambda _: find(FEATURES), digest=precision),
            Side(PEER, lambda _: _opencv(data.images_test), digest=precision, peer=True),
        ],
        targets=[
            Target("points of average precision lost by codes", lost, at_most=1.5, unit=""),
            Target(
                "hard negatives smaller, times",
                lambda m: bytes_of(FEATURES) / bytes_of(CODES),
                at_least=16,
            ),
            Target(
                "average precision, over that of OpenCV",
                lambda m: m.digests[CODES] / m.digests[PEER],
                at_least=1,
            ),
            Target(
                "an image in 100 ms",
                lambda m: 1e3 * m.median(CODES) / len(data.images_test),
                at_most=100,
                unit="ms",
            ),
        ],
        figures=lambda m: [
            Figure(f"average precision, {name}", m.digests[name]) for name in m.digests
        ],
        note=f"{SOURCE}. {len(data.images)} photographs to learn from, {len(data.images_test)} to "
        "test with, of 480 x 380 pixels in the middle. OpenCV's detector was trained on other "
        "photographs, of people of at least 96 pixels, and has the best of four strides and of "
        "seven margins.",
    )
