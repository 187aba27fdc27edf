"""Gaussian processes with all interactions: standard deviations, and a million rows."""

from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches import _peers
from benches._harness import Check, Figure, Measured, Side, Table, Target, Trial, exponent_of, row
from histrs.gaussian_process import IntersectionGPRegressor, SlicedGPRegressor

Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


def _sample(n: int, d: int, seed: int) -> Rows:
    """Return normal columns and the targets of J. Friedman (1991) of five of them, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, _function(X) + 0.25 * rng.standard_normal(n)


def _function(X: NDArray[np.float64]) -> NDArray[np.float64]:
    U = 1.0 / (1.0 + np.exp(-X[:, :5]))
    f = 10.0 * np.sin(np.pi * U[:, 0] * U[:, 1]) + 20.0 * (U[:, 2] - 0.5) ** 2
    f += 10.0 * U[:, 3] + 5.0 * U[:, 4]
    return np.asarray(f / 2.3)


def standard_deviations(quick: bool) -> Trial:
    """Cached standard deviations, beside the mean and what is solved for."""
    n, d, n_test, n_exact = (2500, 5, 200, 20) if quick else (20_000, 10, 5000, 200)
    X, y = _sample(n, d, 0)
    low = X.min(axis=0)
    X_test = np.maximum(_sample(n_test, d, 1)[0], low)
    models: dict[str, Any] = {
        "SlicedGP": SlicedGPRegressor(random_state=0, variance="cached"),
        "IntersectionGP": IntersectionGPRegressor(variance="cached", random_state=0),
    }
    rows = X_test - low
    exact, sides, targets = {}, [], []
    for name, model in models.items():
        mean, both = f"{name}, mean", f"{name}, mean and standard deviation"
        model.fit(X - low, y).set_params(variance="exact")
        exact[both] = model.predict(rows[:n_exact], return_std=True)[1]
        # What is cached is made here, before the clock starts.
        model.set_params(variance="cached").predict(rows[:1], return_std=True)
        sides += [
            Side(mean, lambda _, model=model: model.predict(rows), peer=True),
            Side(
                both,
                lambda _, model=model: model.predict(rows, return_std=True)[1],
                digest=lambda std: std[:n_exact],
            ),
        ]
        targets.append(
            Target(
                f"{name}: time of both over that of the mean",
                lambda m, mean=mean, both=both: m.slowdown(both, mean),
                at_most=12,
            )
        )

    def off(results: dict[str, Any], of: Any) -> dict[str, float]:
        return {name: float(of(np.abs(results[name] / std - 1.0))) for name, std in exact.items()}

    return Trial(
        sides=sides,
        targets=targets,
        checks=[
            Check("mean relative error of a std", partial(off, of=np.mean), limit=0.015),
            Check(
                "99th percentile of it", partial(off, of=partial(np.quantile, q=0.99)), limit=0.06
            ),
        ],
        figures=lambda m: [
            *(Figure(f"{x}: a row", m.median(x) / n_test * 1e6, "us") for x in m.seconds),
            *(Figure(f"{x}: std_error_", model.std_error_) for x, model in models.items()),
        ],
        note=f"{n_test:,} rows of {d} normal columns, {n:,} training rows, the function of "
        f"J. Friedman (1991) with noise; {n_exact} rows are solved for. Both with "
        "their defaults, and variance='cached'.",
    )


row("interactions-std", "Standard deviations of the Gaussian processes, cached")(
    standard_deviations
)


def million(quick: bool) -> Trial:
    """A million rows with all interactions, mean and standard deviation."""
    n, d, n_test = (9000, 6, 500) if quick else (1_000_000, 30, 10_000)
    ours = "SlicedGPRegressor"
    data = partial(_sample, n, d, 0)

    def error(model: Any) -> dict[str, float]:
        X, _ = _sample(n_test, d, 1)
        return {"rmse": float(np.sqrt(np.mean((model.predict(X) - _function(X)) ** 2)))}

    def intervals(model: Any) -> dict[str, float]:
        X, y = _sample(n_test, d, 1)
        starts = [perf_counter()]
        for rows in (X[:1], X):
            mean, std = model.predict(rows, return_std=True)
            starts.append(perf_counter())
        first, others = np.diff(starts)
        covered = float(np.mean(np.abs(y - mean) < 1.96 * std))
        of_row = others / n_test * 1e6
        return {"first": first, "row": of_row, "covered": covered} | error(model)

    def figures(m: Measured) -> list[Figure]:
        found = m.digests[ours]
        return [
            *(
                Figure(f"{name}: RMSE to the function", m.digests[name]["rmse"])
                for name in (ours, _peers.BOOSTING)
            ),
            Figure(f"{ours}: the first standard deviation", found["first"], "s"),
            Figure(f"{ours}: mean and standard deviation of a row after it", found["row"], "us"),
            Figure(f"{ours}: coverage of its 95% intervals", found["covered"]),
        ]

    return Trial(
        sides=[
            Side(
                ours,
                lambda data: SlicedGPRegressor(random_state=0).fit(*data),
                data,
                intervals,
                memory=True,
            ),
            _peers.boosting(data, error),
        ],
        targets=[
            Target(
                "fit and the first standard deviation",
                lambda m: m.median(ours) + m.digests[ours]["first"],
                at_most=180,
                unit=" s",
            ),
            Target("peak memory", lambda m: m.peak_bytes[ours] / 1e9, at_most=8, unit=" GB"),
        ],
        checks=[_peers.no_worse_than_boosting(ours)],
        figures=figures,
        note=f"{n:,} x {d}, normal columns, the function of J. Friedman (1991) of five of them "
        "with noise; both with their defaults.",
        once=not quick,
    )


row("interactions-million", "SlicedGP fit, 1,000,000 x 30 regression")(million)


def growth(quick: bool) -> Trial:
    """Fits of more and more rows, on one function."""
    sizes = [300, 600] if quick else [10_000, 30_000, 100_000, 300_000, 1_000_000]
    d, n_test = (6, 500) if quick else (30, 10_000)
    names = [f"{n:,} rows" for n in sizes]
    X_test, _ = _sample(n_test, d, 1)

    def error(model: SlicedGPRegressor) -> float:
        return float(np.sqrt(np.mean((model.predict(X_test) - _function(X_test)) ** 2)))

    def exponent(m: Measured) -> float:
        return exponent_of(sizes, [m.median(name) for name in names])

    def table(m: Measured) -> Table:
        return Table(
            ["rows", "seconds", "us a row", "peak memory, MB", "RMSE"],
            [
                [n, m.median(x), m.median(x) / n * 1e6, m.peak_bytes.get(x, 0) / 1e6, m.digests[x]]
                for n, x in zip(sizes, names, strict=True)
            ],
        )

    return Trial(
        sides=[
            Side(
                name,
                lambda data: SlicedGPRegressor(n_projections=256, random_state=0).fit(*data),
                partial(_sample, n, d, 0),
                error,
                memory=True,
            )
            for n, name in zip(sizes, names, strict=True)
        ],
        targets=[
            Target("exponent of the time in the rows", exponent, at_most=1.15, unit=""),
        ],
        table=table,
        note=f"{d} normal columns, the function of J. Friedman (1991) of five of them with noise; "
        "256 projections, all else by default. The metric is learned from some of the rows, at "
        "most as many for each size: the rest grows. The RMSE is to the function without its "
        "noise.",
        once=not quick,
    )


row("interactions-growth", "SlicedGP fit, regression on 30 columns, growth from 10,000 rows")(
    growth
)
