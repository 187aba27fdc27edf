"""A support vector machine learned in input space: figures 3 to 5, table 1."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, LinearSVC

from benches.papers import _images
from benches.papers._experiment import Claim, Panel, Points, Run, above, claim, experiment
from benches.quality_svm import MeanSum
from histrs.kernel_approximation import AdditiveChi2Map, SparseAdditiveMap
from histrs.metrics import intersection_kernel
from histrs.svm import BundleSVC, IntersectionSVC

OURS, AS_PRINTED = "IntersectionSVC", "IntersectionSVC, as printed"
MAP = "chi2 map (3) + linear"
PEERS: dict[str, Callable[[], Any]] = {
    MAP: lambda: make_pipeline(MeanSum(), AdditiveChi2Map(3), LinearSVC()),
    "AdditiveChi2Sampler + linear": lambda: make_pipeline(
        MeanSum(), AdditiveChi2Sampler(), LinearSVC()
    ),
    "square root + linear": lambda: make_pipeline(FunctionTransformer(np.sqrt), LinearSVC()),
    "linear": lambda: make_pipeline(MeanSum(), LinearSVC()),
    "SVC, intersection": lambda: make_pipeline(MeanSum(), SVC(kernel=intersection_kernel)),
    "BundleSVC, SparseAdditiveMap": lambda: make_pipeline(
        MeanSum(), BundleSVC(SparseAdditiveMap(n_knots=8), n_jobs=1)
    ),
}


def _ours(**options: Any) -> IntersectionSVC:
    # Bins of one histogram share a unit.
    return IntersectionSVC(scale="none", random_state=0, **options)


def _as_printed() -> IntersectionSVC:
    """Return algorithm 1: no relaxation, no mean of the weights, no intercept, 100 passes."""
    return _ours(smoothing="none", average=False, fit_intercept=False, max_iter=100)


MODELS = {OURS: _ours, AS_PRINTED: _as_printed, **PEERS}


def _pyramids(run: Run) -> _images.Described:
    return _images.largest(_images.words(run, 200, (1, 2, 4)), 4 if run.quick else 15)


@experiment(
    "nsvm-figure-3",
    "Figures 3 and 4: accuracy of each class",
    original="on 15 scenes the mean accuracy of classes is 84.0 ± 0.5% in input space and 84.7 ± "
    "0.4% by a feature map with a linear SVM; on PASCAL VOC 2007 mean average precision is 50.5 "
    "and 49.7%.",
    needs=("caltech101",),
    modules=("PIL",),
    minutes=3,
    panels=(
        Panel("accuracy", "mean accuracy of classes, %"),
        Panel("mean AP", "mean average precision, %"),
    ),
    judge=lambda points: judge_classes(points),
)
def figure_3(run: Run) -> tuple[Points, str]:
    """Spatial pyramids of visual words; mean over the classes, several splits."""
    data = _pyramids(run)
    n_train, n_test = (12, 8) if run.quick else (50, 30)
    n_splits = 2 if run.quick else 10
    points = Points()
    of_class: dict[str, list[Any]] = {name: [] for name in MODELS}
    for seed in range(n_splits):
        train, test = _images.per_class(data.y, n_train, n_test, seed)
        X, X_test = data.X[train].astype(float), data.X[test].astype(float)
        y, y_test = data.y[train], data.y[test]
        for name, make in MODELS.items():
            start = time.perf_counter()
            model = make().fit(X, y)
            seconds = time.perf_counter() - start
            right = model.predict(X_test) == y_test
            scores = model.decision_function(X_test)
            classes = np.unique(y)
            own = np.array([100 * right[y_test == k].mean() for k in classes])
            precision = [
                100 * average_precision_score(y_test == k, s)
                for k, s in zip(classes, scores.T, strict=True)
            ]
            of_class[name].append(own)
            points.add(
                name, accuracy=own.mean(), seconds=seconds, **{"mean AP": np.mean(precision)}
            )
        run.progress(seed + 1, n_splits, "splits")
    gaps = np.mean(of_class[OURS], axis=0) - np.mean(of_class[MAP], axis=0)
    listed = ", ".join(f"`{name} {gap:+.1f}`" for name, gap in zip(data.names, gaps, strict=True))
    for gap in gaps:
        points.add("classes: IntersectionSVC over map", difference=gap)
    note = (
        f"{_images.CALTECH}; the {len(data.names)} largest classes, {n_train} a class to train, up "
        f"to {n_test} to test, {n_splits} splits. Pyramids of 1, 4 and 16 cells of 200 visual "
        f"words, {data.X.shape[1]:,} columns. IntersectionSVC with its defaults but "
        'scale="none"; "as printed" is algorithm 1. IntersectionSVC less '
        f"the map for every class, in points of accuracy: {listed}."
    )
    return points, note


def judge_classes(points: Points) -> list[Claim]:
    """Judge whether input space is as good as the map, and what both are against others."""
    claims = []
    for measure in ("accuracy", "mean AP"):
        gap = points.centre(OURS, measure) - points.centre(MAP, measure)
        figures = f"{points.centre(OURS, measure):.1f} and {points.centre(MAP, measure):.1f}%"
        claims.append(
            claim(
                gap > -1,
                f"input space is within a point of the map or above in {measure} ({figures})",
                f"input space is {-gap:.1f} points below the map in {measure} ({figures})",
            )
        )
    claims.append(above(points, OURS, "linear"))
    return claims


# ---- test time and size ---------------------------------------------------------------------


@experiment(
    "nsvm-table-1",
    "Table 1: time of a prediction and size of the model",
    original="for one class the scores of the test set take 0.2 s; a feature map with a linear "
    "model takes 3.8 s, 19 times as long; the model takes 64 kB instead of 448 kB, 7 times less.",
    needs=("caltech101",),
    modules=("PIL",),
    minutes=0.1,
    panels=(
        Panel("ms", "ms for the test set", log=True),
        Panel("model, kB", "size of the model, kB", log=True),
    ),
    judge=lambda points: judge_cost(points),
)
def table_1(run: Run) -> tuple[Points, str]:
    """One class against the rest; map and inner product, as a user would call them."""
    data = _pyramids(run)
    train, test = _images.per_class(data.y, *((12, 8) if run.quick else (50, 30)), seed=0)
    X, X_test = data.X[train].astype(float), data.X[test].astype(float)
    y = data.y[train] == 0
    points = Points()
    n_runs = 3 if run.quick else 10
    for name in (OURS, *PEERS):
        model = MODELS[name]().fit(X, y)
        model.decision_function(X_test)
        kilobytes = _size(model) / 1000
        for _ in range(n_runs):
            start = time.perf_counter()
            model.decision_function(X_test)
            points.add(name, ms=1e3 * (time.perf_counter() - start))
        points.add(name, **{"model, kB": kilobytes})
    note = (
        f"{_images.CALTECH}; class {data.names[0]} against {len(data.names) - 1} others, "
        f"{len(X):,} rows to train, {len(X_test):,} to test, {X.shape[1]:,} columns, float64; "
        f"{n_runs} runs. The paper's map has 7 numbers a column, {MAP} has 3 (sampled 7 times: "
        "the paper counts 7d as well); SVC keeps its support vectors."
    )
    return points, note


def _size(model: Any) -> int:
    """Return the bytes of what a prediction needs."""
    last = model[-1] if hasattr(model, "steps") else model
    if isinstance(last, SVC):
        # A callable kernel needs the training rows that are support vectors.
        return int(len(last.support_) * last.shape_fit_[1] * 8 + last.dual_coef_.nbytes)
    return int(last.coef_.nbytes if hasattr(last.coef_, "nbytes") else last.coef_.data.nbytes)


def judge_cost(points: Points) -> list[Claim]:
    """Judge time and size against the map, and against the kernel."""
    ratio = float(np.median(points.values(MAP, "ms")) / np.median(points.values(OURS, "ms")))
    size = points.centre(MAP, "model, kB") / points.centre(OURS, "model, kB")
    kernel = "SVC, intersection"
    slow = float(np.median(points.values(kernel, "ms")) / np.median(points.values(OURS, "ms")))
    return [
        claim(
            ratio >= 19,
            f"scores take {ratio:.0f} times less time than the map's",
            f"scores take {ratio:.1f} times less time than the map's, not 19",
        ),
        claim(
            size >= 7,
            f"the model is {size:.1f} times smaller",
            f"the model is {size:.1f} times smaller, not 7, since today's maps need fewer features",
        ),
        claim(
            slow > ratio,
            f"a kernel machine takes {slow:.0f} times the time",
            f"a kernel machine takes only {slow:.1f} times the time",
        ),
    ]


# ---- sensitivity ----------------------------------------------------------------------------


@experiment(
    "nsvm-figure-5",
    "Figure 5: sensitivity to the margin and the regularisation",
    original="average precision of one class converges within 100 passes for a range of the "
    "regularisation and of the margin; it rises again if the step drops after half of the passes.",
    needs=("caltech101",),
    modules=("PIL",),
    minutes=1,
    x="passes",
    panels=(Panel("AP", "average precision, %"),),
    judge=lambda points: judge_sensitivity(points),
)
def figure_5(run: Run) -> tuple[Points, str]:
    """Average precision against passes, for several parameters."""
    data = _pyramids(run)
    n_train, n_test = (12, 8) if run.quick else (50, 30)
    passes = (4, 20) if run.quick else (4, 10, 20, 50, 100)
    n_splits = 2
    settings = {
        f"margin {margin:g}, alpha {alpha:g}": {"margin": margin, "alpha": alpha}
        for margin, alpha in (
            (0.03, 1e-3), (0.03, 1e-4), (0.03, 1e-5), (0.01, 1e-4), (0.1, 1e-4), (0.3, 1e-4),
        )
    }  # fmt: skip
    points = Points()
    for seed in range(n_splits):
        train, test = _images.per_class(data.y, n_train, n_test, seed)
        X, X_test = data.X[train].astype(float), data.X[test].astype(float)
        for series, parameters in settings.items():
            for n in passes:
                fit = partial(_ours, smoothing="none", average=False, fit_intercept=False)
                model = fit(max_iter=n, **parameters).fit(X, data.y[train])
                scores = model.decision_function(X_test)
                precision = [
                    100 * average_precision_score(data.y[test] == k, s)
                    for k, s in enumerate(scores.T)
                ]
                points.add(series, n, AP=np.mean(precision))
        run.progress(seed + 1, n_splits, "splits")
    note = (
        f"{_images.CALTECH}; mean average precision of the {len(data.names)} largest classes, "
        f"each against the rest, {n_splits} splits, algorithm 1 as printed. The step drops to a "
        "tenth after half of the passes, however many there are. Rows sum to 1."
    )
    return points, note


def judge_sensitivity(points: Points) -> list[Claim]:
    """Judge whether the passes suffice and whether the parameters matter."""
    last = points.at(points.series[0], "AP")[-2:]
    moves = [
        points.centre(s, "AP", last[1]) - points.centre(s, "AP", last[0]) for s in points.series
    ]
    ends = {s: points.centre(s, "AP", last[1]) for s in points.series}
    spread = max(ends.values()) - min(ends.values())
    best, worst = max(ends, key=ends.__getitem__), min(ends, key=ends.__getitem__)
    return [
        claim(
            max(map(abs, moves)) < 1,
            f"the last passes move the average precision by at most {max(map(abs, moves)):.1f} "
            "points",
            "the last passes still move the average precision by "
            f"{max(map(abs, moves)):.1f} points",
        ),
        claim(
            spread < 5,
            f"over the range of parameters, the average precision stays within {spread:.1f} points",
            f"the parameters matter: {ends[best]:.1f} with {best}, {ends[worst]:.1f} with {worst}",
        ),
    ]
