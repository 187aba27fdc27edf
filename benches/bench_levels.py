"""Additive processes on levels of columns beside boosted trees: fits of frames and of many rows."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

from benches import _data, _peers
from benches._harness import Figure, Measured, Side, Target, Trial, exponent_of, row
from benches.bench_tabular import lightgbm, nothing, ratio, table, words
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    TabularGPRegressor,
)
from histrs.gaussian_process.kernels import Intersection

OURS, CLASSIFIER = "histrs, levels", "HistGradientBoostingClassifier"
LEVELS = 64
N_TEST = 100_000


def _explainable(X: Any, y: Any) -> Any:
    from interpret.glassbox import ExplainableBoostingRegressor

    X = X.astype(dict.fromkeys(words(X), object))
    return ExplainableBoostingRegressor(random_state=0).fit(X, y)


def frame(quick: bool) -> Trial:
    """A frame with words: functions of columns and of pairs, and their evidence."""
    n, d = (200, 6) if quick else (24_000, 14)
    X, y = table(n, d, mixed=True)
    model = TabularGPRegressor(members=["levels"], random_state=0, n_jobs=_peers.N_THREADS)
    sides = [Side(OURS, lambda _: model.fit(X, y), digest=nothing)]
    wanted = [Target("seconds", lambda m: m.median(OURS), at_most=2.5, unit="s")]
    for name, package, fit in [
        ("LightGBM", "lightgbm", lightgbm),
        ("EBM", "interpret", _explainable),
    ]:
        if find_spec(package):
            sides.append(Side(name, lambda _, f=fit: f(X, y), digest=nothing, peer=True))
    if find_spec("interpret"):
        wanted.append(Target("time over that of EBM", ratio(OURS, "EBM"), at_most=0.1))
    return Trial(
        sides,
        wanted,
        note=f"{n:,} x {d}, every third column words. Ours is "
        '`TabularGPRegressor(members=["levels"])`, with pairs, their evidence, and intervals.',
        once=not quick,
    )


row("levels-frame", "Levels: fit of a frame, 24,000 x 14 mixed")(frame)


def smooth(X: NDArray[Any]) -> NDArray[Any]:
    """Return sines of the columns."""
    return _data.Additive(X.shape[1])(X)


def jumps(X: NDArray[Any]) -> NDArray[Any]:
    """Return steps of the columns, of variance 1 together."""
    sizes = np.random.default_rng(0).standard_gamma(2.0, X.shape[1])
    steps = (np.floor(4 * X) % 2) - 0.5
    return np.asarray(steps @ (2.0 * sizes / np.linalg.norm(sizes)))


def sample(
    function: Callable[[NDArray[Any]], NDArray[Any]], n: int, d: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return uniform rows in single precision, and a function of them with noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d), dtype=np.float32)
    return X, function(X) + _data.Additive.noise * rng.standard_normal(n)


def _regressor() -> IntersectionGPRegressor:
    return IntersectionGPRegressor(Intersection(levels=LEVELS), random_state=0)


def million(
    quick: bool, *, function: Callable[[NDArray[Any]], NDArray[Any]], error: float | None
) -> Trial:
    """A million rows of numbers."""
    n, d, n_test = (2000, 6, 2000) if quick else (1_000_000, 30, N_TEST)
    data = partial(sample, function, n, d, 0)

    def rmse(model: Any) -> dict[str, float]:
        X, _ = sample(function, n_test, d, 1)
        return {"rmse": float(np.sqrt(np.mean((model.predict(X) - function(X)) ** 2)))}

    wanted = [
        Target("seconds", lambda m: m.median(OURS), at_most=2.5, unit="s"),
        Target("peak memory", lambda m: m.peak_bytes[OURS] / 1e9, at_most=1.5, unit=" GB"),
    ]
    if error is not None:
        wanted.append(Target("RMSE", lambda m: m.digests[OURS]["rmse"], at_most=error, unit=""))
    return Trial(
        [
            Side(OURS, lambda data: _regressor().fit(*data), data, rmse, memory=True),
            _peers.boosting(data, rmse),
        ],
        wanted,
        checks=[_peers.no_worse_than_boosting(OURS)],
        figures=lambda m: [
            Figure(f"{name}: RMSE to the function", m.digests[name]["rmse"]) for name in m.digests
        ],
        note=f"{n:,} x {d} in single precision, {LEVELS} levels, all learned.",
    )


row("levels-million", "Levels: fit, 1,000,000 x 30, sines")(
    partial(million, function=smooth, error=0.046)
)
row("levels-million-jumps", "Levels: fit, 1,000,000 x 30, jumps")(
    partial(million, function=jumps, error=None)
)


def classes(quick: bool) -> Trial:
    """A million rows of two classes."""
    n, d, n_test = (2000, 6, 2000) if quick else (1_000_000, 30, N_TEST)

    def labels(n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        X, scores = sample(smooth, n, d, seed)
        return X, scores > 0.0

    def loss(model: Any) -> float:
        X, y = labels(n_test, 1)
        return float(log_loss(y, model.predict_proba(X)))

    ours = IntersectionGPClassifier(Intersection(levels=LEVELS), random_state=0)
    data = partial(labels, n, 0)
    return Trial(
        [
            Side(OURS, lambda data: ours.fit(*data), data, loss),
            Side(
                CLASSIFIER,
                lambda data: HistGradientBoostingClassifier(random_state=0).fit(*data),
                data,
                loss,
                peer=True,
            ),
        ],
        [Target(f"time over that of {CLASSIFIER}", ratio(OURS, CLASSIFIER), at_most=1.0)],
        figures=lambda m: [Figure(f"{name}: log loss", m.digests[name]) for name in m.digests],
        note=f"{n:,} x {d} in single precision, {LEVELS} levels, all learned.",
    )


row("levels-classes", "Levels: fit, 1,000,000 x 30, two classes")(classes)


def growth(quick: bool) -> Trial:
    """The time of a fit in the rows."""
    sizes = (500, 2000) if quick else (10_000, 100_000, 1_000_000, 10_000_000)
    d = 6 if quick else 30
    sides = [
        Side(
            f"{n:,} rows",
            lambda data: _regressor().fit(*data),
            partial(sample, smooth, n, d, 0),
            nothing,
            memory=n == sizes[-1],
        )
        for n in sizes
    ]
    last = sides[-1].name

    def exponent(m: Measured) -> float:
        return exponent_of(sizes, [m.median(side.name) for side in sides])

    return Trial(
        sides,
        [
            Target("exponent of the time in the rows", exponent, at_most=1.0, unit=""),
            Target(f"{last}: seconds", lambda m: m.median(last), at_most=15.0, unit="s"),
            Target(f"{last}: peak", lambda m: m.peak_bytes[last] / 1e9, at_most=3.0, unit="GB"),
        ],
        note=f"{d} columns in single precision, {LEVELS} levels, all learned.",
        once=not quick,
    )


row("levels-growth", "Levels: fit, from 10,000 to 10,000,000 rows of 30 columns")(growth)


def left_out(quick: bool) -> Trial:
    """Every row predicted without itself, beside the fit that counts the rows."""
    n, d = (500, 6) if quick else (1_000_000, 30)
    X, y = sample(smooth, n, d, 0)
    model = _regressor().fit(X, y)
    return Trial(
        [
            Side(OURS, lambda _: model.predict_leave_one_out(), digest=nothing),
            Side("fit", lambda _: _regressor().fit(X, y), digest=nothing),
        ],
        [Target("time over that of the fit", ratio(OURS, "fit"), at_most=2.0)],
        note=f"{n:,} x {d} in single precision, {LEVELS} levels.",
    )


row("levels-left-out", "Levels: leave-one-out predictions of 1,000,000 rows")(left_out)
