"""Whether bands of functions of columns hold the truth: ``python -m benches.curves``.

Each draw is a table whose target is a sum of known functions, one of each column, and noise. A
function is judged at the training rows, less its mean over these. Bands reach 1.96 standard
deviations to either side. EBMs are left out where `interpret` is not installed.
"""

import argparse
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection

Array = NDArray[np.float64]
Curve = tuple[Array, Array]
"""Values and standard deviations at the training rows."""
TRUTHS: dict[str, Callable[[Array], Array]] = {
    "flat": np.zeros_like,
    "line": lambda x: x,
    "exponential": lambda x: np.exp(3 * x) / 20,
    "square root": np.sqrt,
    "kink": lambda x: np.maximum(2 * x - 1, 0.0),
    "steep": lambda x: np.tanh(8 * x - 4),
    "step": lambda x: (x > 0.5).astype(np.float64),
    "stairs": lambda x: np.floor(4 * x) / 4,
}
NOISE = 0.5


def ours(monotone: bool) -> Callable[[Array, Array], list[Curve]]:
    """Return what fits functions on levels, monotone ones if asked, and returns them."""

    def fit(X: Array, y: Array) -> list[Curve]:
        signs = np.ones(X.shape[1]) if monotone else None
        kernel = Intersection(levels="auto", monotonic_cst=signs)
        model = IntersectionGPRegressor(kernel, random_state=0).fit(X, y)
        explanation = model.explain(X)
        return list(zip(explanation.values.T, explanation.std.T, strict=True))

    return fit


def explainable(X: Array, y: Array) -> list[Curve]:
    """Fit an explainable boosting machine without interactions; return its functions."""
    from interpret.glassbox import ExplainableBoostingRegressor

    model: Any = ExplainableBoostingRegressor(interactions=0, random_state=0, n_jobs=1).fit(X, y)
    found = []
    for x, cuts, values, std in zip(
        X.T, model.bins_, model.term_scores_, model.standard_deviations_, strict=True
    ):
        # The first bin is of missing values.
        at = np.digitize(x, cuts[0]) + 1
        found.append((values[at], std[at]))
    return found


def judged(fit: Callable[[Array, Array], list[Curve]], n_rows: int, n_draws: int) -> Array:
    """Return coverage, error and width of each function, means over draws."""
    found = []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        X = rng.random((n_rows, len(TRUTHS)))
        truths = [truth(x) for truth, x in zip(TRUTHS.values(), X.T, strict=True)]
        curves = fit(X, np.sum(truths, axis=0) + NOISE * rng.standard_normal(n_rows))
        of_draw = []
        for truth, (values, std) in zip(truths, curves, strict=True):
            away = values - values.mean() - (truth - truth.mean())
            covered = np.mean(np.abs(away) <= 1.96 * std)
            of_draw.append((covered, np.sqrt(np.mean(away**2)), np.mean(3.92 * std)))
        found.append(of_draw)
    return np.asarray(np.mean(found, axis=0))


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    models = {"levels": ours(False), "levels, monotone": ours(True)}
    if importlib.util.find_spec("interpret") is not None:
        models["EBM"] = explainable
    print(f"| coverage (RMSE, width) | {' | '.join(models)} |", flush=True)
    print(f"|---|{'--:|' * len(models)}", flush=True)
    found = np.array([judged(fit, options.rows, options.draws) for fit in models.values()])
    of_truths = [*found.transpose(1, 0, 2), found.mean(axis=1)]
    for name, of_models in zip([*TRUTHS, "mean"], of_truths, strict=True):
        cells = [f"{cover:.3f} ({error:.3f}, {width:.2f})" for cover, error, width in of_models]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
