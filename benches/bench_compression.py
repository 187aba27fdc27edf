"""Error against compression on real sets: learned prototypes beside those that are samples."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from benches._compression_data import (
    Sets,
    fashion_light,
    light_ground_distance,
    spoken_digits,
    synthetic_covariances,
    synthetic_light,
)
from benches._harness import Measured, Side, Table, Target, Trial, row
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import (
    CompressionCurve,
    CondensedNN,
    CovarianceCompressor,
    FastCondensedNN,
    HistogramCompressor,
    RandomMutationNN,
    RandomSubset,
    ReducedNN,
    compression_curve,
)

RATIOS = (0.02, 0.04, 0.08, 0.16)
FULL = "all samples"


class Comparison(NamedTuple):
    """A real set, the metric it is compared in, and the compressor that is on trial."""

    sets: Sets
    learned: Any
    space: dict[str, Any]
    ratios: tuple[float, ...]
    n_runs: int


def digits(quick: bool) -> Comparison:
    """Return covariances of spoken digits; a few of them when asked to be quick."""
    sets = _part(spoken_digits() or synthetic_covariances(), quick)
    learned = CovarianceCompressor(gamma="cv", tol=1e-3)
    return Comparison(sets, learned, {"metric": "jbld"}, *_size(quick, n_runs=5))


def light(quick: bool) -> Comparison:
    """Return images as histograms of light; a few of them when asked to be quick."""
    sets = _part(fashion_light(500, 1000) or synthetic_light(), quick)
    M = light_ground_distance()
    learned = HistogramCompressor(M=M, gamma="cv", batch_size=100, max_iter=8)
    space = {"metric": "sinkhorn", "metric_params": {"M": M, "reg": 0.1, "tol": 1e-5}}
    return Comparison(sets, learned, space, *_size(quick, n_runs=2))


def _part(sets: Sets, quick: bool) -> Sets:
    X, y, X_test, y_test, source = sets
    some = np.random.default_rng(0).permutation(len(y))[:100] if quick else slice(None)
    test = slice(0, 50) if quick else slice(None)
    return Sets(X[some], y[some], X_test[test], y_test[test], source)


def _size(quick: bool, n_runs: int) -> tuple[tuple[float, ...], int]:
    return ((0.2, 0.4), 1) if quick else (RATIOS, n_runs)


def curves(comparison: Comparison) -> dict[str, Callable[[], CompressionCurve]]:
    """Return how each method is measured."""
    sets, learned, space, ratios, n_runs = comparison
    data = sets.X, sets.y, sets.X_test, sets.y_test
    options = {"ratios": ratios, "random_states": range(n_runs)}

    def of_learned() -> CompressionCurve:
        # The inverse temperature is chosen once, on training samples left out.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # few passes suffice
            model = clone(learned).set_params(compression=ratios[1], random_state=0)
            gamma = model.fit(*data[:2]).gamma_
            return compression_curve(clone(learned).set_params(gamma=gamma), *data, **options)

    rules = [RandomMutationNN, RandomSubset, CondensedNN, ReducedNN, FastCondensedNN]
    return {type(learned).__name__: of_learned} | {
        rule.__name__: partial(compression_curve, rule(**space), *data, **options) for rule in rules
    }


def full_error(comparison: Comparison) -> float:
    """Return the test error with all training samples."""
    sets = comparison.sets
    model = MetricKNNClassifier(**comparison.space).fit(sets.X, sets.y)
    return 1.0 - float(model.score(sets.X_test, sets.y_test))


def error_at(curve: CompressionCurve, ratio: float) -> float:
    """Return the mean test error of sets of about this size, NaN where there are none."""
    at = int(np.argmin(np.abs(curve.ratios - ratio)))
    is_near = abs(curve.ratios[at] - ratio) <= 0.1 * ratio
    return float(curve.errors[at].mean()) if is_near else math.nan


def compression(quick: bool, *, build: Callable[[bool], Comparison]) -> Trial:
    """Test errors of every method, at several sizes and from several seeds."""
    comparison = build(quick)
    sets, learned, _, ratios, n_runs = comparison
    ours = type(learned).__name__
    runs = curves(comparison)
    sides = [Side(name, lambda _, run=run: run(), peer=name != ours) for name, run in runs.items()]
    sides.append(Side(FULL, lambda _: full_error(comparison), peer=True))

    def excess(m: Measured) -> float:
        """At the largest size, in standard errors of what is measured with all samples."""
        full = m.digests[FULL]
        noise = math.sqrt(max(full * (1.0 - full), 1e-9) / len(sets.y_test))
        return (error_at(m.digests[ours], ratios[-1]) - full) / noise

    def beside_the_best(m: Measured, ratio: float) -> float:
        others = [error_at(m.digests[name], ratio) for name in runs if name != ours]
        return error_at(m.digests[ours], ratio) / max(np.nanmin(others), 1e-9)

    def table(m: Measured) -> Table:
        rows = [
            [name, *cells] for name in runs for cells in zip(*_cells(m.digests[name]), strict=True)
        ]
        return Table(
            ["method", "prototypes, %", "test error, %", "standard deviation of runs, %"],
            [*rows, [FULL, 100.0, 100.0 * m.digests[FULL], None]],
        )

    return Trial(
        sides,
        targets=[
            Target(
                f"at {100 * ratios[-1]:g}%, error above that of all samples, in standard errors",
                excess,
                at_most=2.0,
                unit="",
            ),
            *(
                Target(
                    f"at {100 * ratio:g}%, error over that of the best other method",
                    partial(beside_the_best, ratio=ratio),
                    at_most=1.0,
                )
                for ratio in ratios[:2]
            ),
        ],
        table=table,
        note=f"{len(sets.y):,} training and {len(sets.y_test):,} test samples, "
        f"{len(np.unique(sets.y))} classes: {sets.source}. {n_runs} runs of each method; the "
        "times are those of all fits and tests. The inverse temperature of learned prototypes is "
        "chosen once, by cross-validation on training samples, within their time.",
        once=True,
    )


def _cells(curve: CompressionCurve) -> tuple[list[float], list[float], list[float]]:
    """Return sizes, errors and their spread, in per cent."""
    parts = curve.ratios, curve.errors.mean(axis=1), curve.errors.std(axis=1)
    size, error, spread = ([round(float(100 * value), 2) for value in part] for part in parts)
    return size, error, spread


row("compression-digits", "Error against compression, spoken digits")(
    partial(compression, build=digits)
)
row("compression-light", "Error against compression, images as histograms")(
    partial(compression, build=light)
)
