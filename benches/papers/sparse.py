"""Sparse kernel approximations for classification and detection: figures 2 and 3."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from benches import bench_detection
from benches.bench_quantization import DELAYED, IMMEDIATE, _mean_average_precision
from benches.immediate import ImmediateSVC
from benches.papers import _images
from benches.papers._experiment import Claim, Panel, Points, Run, claim, experiment
from histrs.detection import PartDetector, average_precision
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC

PLAIN, LINEAR = "rows", "LinearSVC, rows"
SETTINGS: dict[str, Any] = {"alpha": 1e-5, "tol": 2e-2}


# ---- classification -------------------------------------------------------------------------


@experiment(
    "sparse-figure-2",
    "Figure 2: learning on codes of Fisher vectors",
    original="codes take 40 times less memory and lose 1% of mean average precision; delayed "
    "expansion trains 5 to 10 times faster than immediate expansion, more with larger blocks.",
    needs=("caltech101",),
    modules=("PIL",),
    minutes=7,
    x="memory, MB",
    log_x=True,
    panels=(
        Panel("mAP, %", "mean average precision, %"),
        Panel("seconds", "seconds to train", log=True),
    ),
    judge=lambda points: judge_codes(points),
)
def figure_2(run: Run) -> tuple[Points, str]:
    """Precision, memory and time against block size and number of codes."""
    data = _images.fisher_vectors(run, 32, 4 if run.quick else 15)
    n_train, n_test = (14, 8) if run.quick else (60, 25)
    columns = (4,) if run.quick else (2, 4, 8, 16)
    counts = (16,) if run.quick else (16, 64, 256)
    train, test = _images.per_class(data.y, n_train, n_test, seed=0)
    X, X_test = (np.ascontiguousarray(data.X[rows], dtype=np.float32) for rows in (train, test))
    y, y_test = data.y[train], data.y[test]
    points = Points()

    def add(series: str, model: Any, Z: Any, Z_test: Any, **more: float) -> None:
        start = time.perf_counter()
        model.fit(Z, y)
        seconds = time.perf_counter() - start
        precision = 100 * _mean_average_precision(model.decision_function(Z_test), y_test)
        found = {"mAP, %": precision, "seconds": seconds, **more}
        points.add(series, Z.nbytes / 1e6, **found)

    add(PLAIN, BundleSVC(**SETTINGS), X, X_test)
    add(LINEAR, LinearSVC(C=1 / (SETTINGS["alpha"] * len(X)), loss="hinge", tol=0.1), X, X_test)
    for k, width in enumerate(columns, start=1):
        for n_codes in counts:
            n_blocks = X.shape[1] // width
            start = time.perf_counter()
            pq = ProductQuantizer(n_blocks, n_codes, max_samples=4096, max_iter=8, random_state=0)
            codes = pq.fit_transform(X)
            encoding = time.perf_counter() - start
            codes_test = pq.transform(X_test)
            for name, model_class in ((DELAYED, BundleSVC), (IMMEDIATE, ImmediateSVC)):
                model = model_class(pq, input="features", **SETTINGS)
                more = {"columns a block": width, "codes": n_codes, "encoding, s": encoding}
                add(f"{name}, {n_codes} codes", model, codes, codes_test, **more)
        run.progress(k, len(columns), "block sizes")
    note = (
        f"{_images.CALTECH}; the {len(data.names)} largest classes, {len(y)} rows to train and "
        f"{len(y_test)} to test, Fisher vectors of {X.shape[1]:,} float32 numbers of the whole "
        "image and three stripes. BundleSVC to a certified gap of 2% of the objective, every class "
        "against the others; a code takes a byte."
    )
    return points, note


def _coded(points: Points, how: str) -> list[dict[str, Any]]:
    return [row for row in points.rows if row["series"].startswith(how)]


def _value(row: dict[str, Any], measure: str) -> float:
    return float(np.mean(row["values"][measure]))


def judge_codes(points: Points) -> list[Claim]:
    """Judge what codes lose, and what delaying their expansion gains."""
    (plain,) = (row for row in points.rows if row["series"] == PLAIN)
    delayed, immediate = _coded(points, DELAYED), _coded(points, IMMEDIATE)
    ratios = [
        _value(b, "seconds") / _value(a, "seconds") for a, b in zip(delayed, immediate, strict=True)
    ]
    widths = [_value(row, "columns a block") for row in delayed]
    by_width = {w: [r for r, v in zip(ratios, widths, strict=True) if v == w] for w in widths}
    small = [row for row in delayed if plain["x"] / row["x"] >= 16]
    best = max(small or delayed, key=lambda row: _value(row, "mAP, %"))
    lost = _value(plain, "mAP, %") - _value(best, "mAP, %")
    times = plain["x"] / best["x"]
    gains = ", ".join(f"{w:.0f}: {np.median(r):.1f}" for w, r in by_width.items())
    against_plain = _value(plain, "seconds") / _value(best, "seconds")
    return [
        claim(
            lost <= 1 and times >= 16,
            f"{times:.0f} times less memory costs {lost:.1f} points of mean average precision",
            f"{times:.0f} times less memory costs {lost:.1f} points of mean average precision",
        ),
        claim(
            max(ratios) >= 5,
            f"delayed expansion is up to {max(ratios):.1f} times faster than immediate",
            f"delayed expansion is only up to {max(ratios):.1f} times faster than immediate with "
            "so few rows",
        ),
        claim(
            len(by_width) == 1 or np.median(ratios[-3:]) > np.median(ratios[:3]),
            f"the gain grows with the block (columns: times, {gains})",
            f"the gain does not grow with the block (columns: times, {gains})",
        ),
        claim(
            against_plain > 1,
            f"it trains {against_plain:.1f} times as fast as on rows",
            f"it is no faster than on rows ({against_plain:.1f} times)",
        ),
    ]


# ---- detection ------------------------------------------------------------------------------


@experiment(
    "sparse-figure-3",
    "Figure 3: detection on codes",
    original="part models on codes lose 2.8 points of average precision (27.7 of 30.5%); hard "
    "negatives take 0.04 GB instead of 1.1 GB; mining is twice and the solver three times as fast.",
    needs=("penn_fudan",),
    modules=("PIL", "cv2"),
    minutes=4,
    panels=(
        Panel("AP, %", "average precision, %"),
        Panel("bytes a negative", "bytes a hard negative"),
        Panel("training, s", "seconds to train"),
        Panel("ms an image", "milliseconds an image"),
    ),
    judge=lambda points: judge_detection(points),
)
def figure_3(run: Run) -> tuple[Points, str]:
    """Pedestrians: the same detector on codes and on features, beside OpenCV's."""
    points = Points()
    if run.quick:
        images, boxes = zip(*(_scene(seed) for seed in range(10)), strict=True)
        data = bench_detection.Photographs(
            list(images[:8]), list(boxes[:8]), list(images[8:]), list(boxes[8:])
        )
    else:
        photographs = bench_detection._photographs(False)
        assert photographs is not None
        data = photographs
    for name in (bench_detection.CODES, bench_detection.FEATURES):
        detector = _detector(run.quick, name == bench_detection.FEATURES)
        start = time.perf_counter()
        detector.fit(data.images, data.boxes)
        fitted = time.perf_counter()
        found = detector.set_params(threshold=-1.0).predict(data.images_test)
        seconds = time.perf_counter() - fitted
        points.add(
            name,
            **{
                "AP, %": 100 * average_precision(*found, data.boxes_test),
                "training, s": fitted - start,
                "ms an image": 1e3 * seconds / len(data.images_test),
                "bytes a negative": detector.n_bytes_ / detector.n_negatives_.sum(),
            },
        )
        run.progress(len(points.series), 3, name)
    if not run.quick:
        start = time.perf_counter()
        found = bench_detection._opencv(data.images_test)
        seconds = time.perf_counter() - start
        points.add(
            bench_detection.PEER,
            **{
                "AP, %": 100 * average_precision(*found, data.boxes_test),
                "ms an image": 1e3 * seconds / len(data.images_test),
            },
        )
    note = (
        f"{bench_detection.SOURCE}: {len(data.images)} photographs to train, "
        f"{len(data.images_test)} to test. OpenCV's people detector was trained on other "
        "photographs."
    )
    return points, note


def _detector(quick: bool, floats: bool) -> PartDetector:
    settings: dict[str, Any] = {"random_state": 0}
    if quick:
        settings |= {
            "n_components": 1,
            "n_parts": 1,
            "cell_size": 4,
            "n_root_rounds": 1,
            "n_part_rounds": 1,
            "quantizer": ProductQuantizer(2, 16, random_state=0),
        }
    if floats:
        settings["quantizer"] = None
    return PartDetector(**settings)


def _scene(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return noise with a bright cross, and its box."""
    rng = np.random.default_rng(seed)
    image = 80 * rng.random((64, 72))
    y, x = rng.integers([2, 2], [28, 36])
    image[y : y + 32, x + 12 : x + 18] += 120
    image[y + 8 : y + 14, x + 2 : x + 30] += 120
    return np.clip(image, 0, 255).astype(np.uint8), np.array([[x, y, x + 32.0, y + 32.0]])


def judge_detection(points: Points) -> list[Claim]:
    """Judge what codes lose and save in detection."""
    codes, features = bench_detection.CODES, bench_detection.FEATURES
    lost = points.centre(features, "AP, %") - points.centre(codes, "AP, %")
    memory = points.centre(features, "bytes a negative") / points.centre(codes, "bytes a negative")
    training = points.centre(features, "training, s") / points.centre(codes, "training, s")
    claims = [
        claim(
            lost <= 2.8,
            f"codes lose {lost:.1f} points of average precision",
            f"codes lose {lost:.1f} points of average precision, more than in the paper",
        ),
        claim(
            memory >= 16,
            f"a hard negative takes {memory:.0f} times less memory",
            f"a hard negative takes only {memory:.1f} times less memory",
        ),
        claim(
            training > 1,
            f"training is {training:.1f} times as fast",
            f"training is not faster ({training:.2f} times)",
        ),
    ]
    peer = bench_detection.PEER
    if peer in points.series:
        gap = points.centre(codes, "AP, %") - points.centre(peer, "AP, %")
        claims.append(
            claim(
                gap >= 0,
                f"it is above OpenCV's people detector ({gap:+.1f} points)",
                f"it is below OpenCV's people detector ({gap:+.1f} points)",
            )
        )
    return claims
