"""Counts of fragments, as molecules have them: the MinMax kernel, and its Gaussian process."""

from typing import Any

import numpy as np
from scipy import sparse

from benches import _peers
from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.gaussian_process import MinMaxGPRegressor
from histrs.metrics import minmax_kernel

N_COLUMNS = 2048
FIT, STD = "MinMaxGPRegressor", "MinMaxGPRegressor, with the first standard deviations"


def fragments(n: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Return folded counts, sixty fragments a row in 200 groups, and a noisy target of them."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(N_COLUMNS, 0.15), size=200)
    mixed = 0.7 * shares + 0.3 * shares.mean(axis=0)
    X = np.array([rng.multinomial(60, mixed[group]) for group in rng.integers(0, 200, n)])
    of_fragment = rng.normal(size=N_COLUMNS) * (rng.random(N_COLUMNS) < 0.1)
    y = np.log1p(X) @ of_fragment
    y = (y - y.mean()) / y.std() + 0.3 * rng.normal(size=n)
    return sparse.csr_array(X.astype(np.float64)), y


def _minmax_by_minima(X: np.ndarray) -> np.ndarray:
    minima = _peers.gram_by_cdist(X)
    sums = X.sum(axis=1)
    return minima / (sums[:, None] + sums - minima)


@row("minmax-kernel", "`minmax_kernel` of folded counts of molecules")
def kernel(quick: bool) -> Trial:
    """All pairs of some rows."""
    X, _ = fragments(200 if quick else 2000)
    dense = X.toarray()
    ours, counts = "minmax_kernel, CSR", "minmax_kernel, uint8"
    exact = _minmax_by_minima(dense)

    def errors(results: dict[str, Any]) -> dict[str, float]:
        return {name: float(np.max(np.abs(K - exact))) for name, K in results.items()}

    return Trial(
        sides=[
            Side(ours, lambda _: minmax_kernel(X)),
            Side(counts, lambda _: minmax_kernel(dense.astype(np.uint8))),
            Side("SciPy cdist and sums", lambda _: _minmax_by_minima(dense), peer=True),
        ],
        targets=[Target("faster than the peer", lambda m: m.speedup(ours), at_least=10)],
        checks=[Check("largest error", errors, limit=1e-6)],
        note=f"{X.shape[0]:,} x {N_COLUMNS} counts, {X.nnz / X.shape[0]:.0f} entries a row.",
    )


@row("minmax-fit", "MinMaxGP fit, 30,000 x 2,048 counts")
def fit(quick: bool) -> Trial:
    """A fit with learned hyper-parameters, above the rows that are factorised."""
    n = 1500 if quick else 31_000
    X, y = fragments(n)
    train, test = slice(0, n - 1000), slice(n - 1000, n)

    def fitted(_: Any) -> Any:
        return MinMaxGPRegressor(random_state=0).fit(X[train], y[train])

    def with_std(_: Any) -> Any:
        model = fitted(_)
        model.predict(X[test], return_std=True)
        return model

    def digest(model: Any) -> dict[str, float]:
        mean, std = model.predict(X[test], return_std=True)
        return {
            "rmse": float(np.sqrt(np.mean((mean - y[test]) ** 2))),
            "coverage": float(np.mean(np.abs(mean - y[test]) < 1.96 * std)),
            "std_error": model.std_error_,
        }

    def figures(m: Measured) -> list[Figure]:
        found = m.digests[FIT]
        return [
            Figure("RMSE over the target's standard deviation", found["rmse"] / float(np.std(y))),
            Figure("fraction of rows in 95% intervals", found["coverage"]),
            Figure("mean error of standard deviations, as measured", found["std_error"]),
        ]

    return Trial(
        sides=[Side(FIT, fitted, digest=digest, memory=True), Side(STD, with_std, digest=digest)],
        targets=[
            Target("fit", lambda m: m.median(FIT), at_most=60, unit=" s"),
            Target("peak memory", lambda m: m.peak_bytes[FIT] / 1e9, at_most=4, unit=" GB"),
        ],
        figures=figures,
        once=True,
        note=f"{n - 1000:,} x {N_COLUMNS} counts in CSR, {X.nnz / n:.0f} entries a row; one run. "
        "Noise, amplitude and the weight of the intersection kernel are learned from 4,096 rows.",
    )
