"""Learning from moments, beside scikit-learn with all rows in memory."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import Lasso, LassoCV, RidgeCV

from benches._harness import Check, Figure, Measured, Side, Table, Target, Trial, row
from histrs.kernel_approximation import ExpChi2Sampler
from histrs.streaming import MomentLasso, MomentLassoCV, Moments, PCARidge, StreamingPCA

OURS = "StreamingPCA, chunks of 4096 rows"
PEER = 'PCA(svd_solver="covariance_eigh"), in memory'
CHUNK = 4096


@row("streaming-pca", "Principal components, out of core")
def streaming_pca(quick: bool) -> Trial:
    """The same components, of rows that are seen once."""
    n, d, k = (2_000, 50, 5) if quick else (60_000, 1_000, 100)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.linspace(1, 3, d) + 1
    # Uneven variances, so that the components are determined.
    X[:, :k] *= np.geomspace(20, 4, k)

    def ours(_):
        pca = StreamingPCA(k)
        for start in range(0, n, CHUNK):
            pca.partial_fit(X[start : start + CHUNK])
        return pca.components_, pca.explained_variance_

    def theirs(_):
        pca = PCA(k, svd_solver="covariance_eigh").fit(X)
        return pca.components_, pca.explained_variance_

    def differences(results):
        reference = results[PEER][1]
        return {name: np.max(np.abs(r[1] / reference - 1)) for name, r in results.items()}

    def figures(m: Measured):
        operations = n * d * (d + 1)
        return [
            Figure(f"{side}: a second, sums alone", operations / m.median(side) / 1e9, "GFLOP")
            for side in (OURS, PEER)
        ]

    return Trial(
        [Side(OURS, ours, memory=True), Side(PEER, theirs, peer=True, memory=True)],
        targets=[Target("no slower than in memory", lambda m: m.slowdown(OURS), at_most=1)],
        checks=[Check("largest relative difference of a variance", differences, limit=1e-9)],
        figures=figures,
        note=f"{n:,} x {d:,}, {k} components. The rows are in memory for both sides here, so that "
        "no disk is measured.",
    )


# ---- many outputs ---------------------------------------------------------------------------


@row("streaming-outputs", "`PCARidge`, 1,000 outputs beside one")
def streaming_outputs(quick: bool) -> Trial:
    """One decomposition serves all outputs."""
    n, d, t = (1_000, 60, 50) if quick else (20_000, 2_000, 1_000)
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, d), dtype=np.float32)
    Y = Z[:, :t] + rng.standard_normal((n, t), dtype=np.float32)
    many, one = f"{t:,} outputs", "one output"

    def fit(targets: Any) -> Any:
        return PCARidge(d // 4, alphas=np.logspace(-2, 4, 13)).fit(Z, targets).coef_

    return Trial(
        [
            Side(many, lambda _: fit(Y), digest=lambda coef: coef.shape),
            Side(one, lambda _: fit(Y[:, 0]), digest=lambda coef: coef.shape),
        ],
        targets=[
            Target(
                "time over that of one output", lambda m: m.median(many) / m.median(one), at_most=2
            )
        ],
        figures=lambda m: [
            Figure("an output more", (m.median(many) - m.median(one)) / (t - 1) * 1e3, "ms")
        ],
        note=f"{n:,} x {d:,} float32 rows in memory, {d // 4} components, 13 penalties.",
    )


# ---- from disk ------------------------------------------------------------------------------


@cache
def _rows_on_disk(n: int, d: int) -> tuple[tempfile.TemporaryDirectory[str], Path, Any]:
    """Write histograms to a folder that goes with the process; return it, the file, targets."""
    folder = tempfile.TemporaryDirectory(prefix="histrs-bench-")
    path = Path(folder.name) / "X.npy"
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
    rng = np.random.default_rng(0)
    y = np.empty(n)
    for start in range(0, n, 50_000):
        part = slice(start, min(start + 50_000, n))
        X = rng.standard_exponential((part.stop - part.start, d), dtype=np.float32) ** 3
        X /= X.sum(axis=1, keepdims=True)
        rows[part] = X
        y[part] = np.sqrt(X[:, :10]).sum(axis=1) + 10 * X[:, 0] * X[:, 1]
    rows.flush()
    return folder, path, y


@row("streaming-disk", "Histograms streamed from disk to a kernel model")
def streaming_disk(quick: bool) -> Trial:
    """Rows, features and products of a chunk are all that is in memory at a time."""
    n, d, D = (3_000, 20, 50) if quick else (1_000_000, 300, 2_000)
    name = f"ExpChi2Sampler({D:,}) + PCARidge"

    def fit(data: Any) -> Any:
        _, path, y = data
        X = np.load(path, mmap_mode="r")
        sampler = ExpChi2Sampler(D, gamma="median", random_state=0).fit(np.array(X[:2_000]))
        last = np.array(X[-n // 100 :])
        del X
        model = PCARidge(D // 2, alphas=np.logspace(-4, 2, 7))
        model.fit_rows(path, y, feature_map=sampler)
        return model.score(sampler.transform(last), y[-n // 100 :])

    return Trial(
        [Side(name, fit, prepare=lambda: _rows_on_disk(n, d), memory=True)],
        targets=[Target("peak memory", lambda m: m.peak_bytes[name] / 1e9, at_most=1, unit=" GB")],
        figures=lambda m: [
            Figure("rows a second", n / m.median(name)),
            Figure("the file", n * d * 4 / 1e9, "GB"),
            Figure("its features", n * D * 4 / 1e9, "GB"),
            Figure("R^2 on the last hundredth of the rows", m.digests[name]),
        ],
        note=f"{n:,} x {d} float32 rows of an .npy file, {D:,} random features, {D // 2:,} "
        "components, 7 penalties chosen by generalized cross-validation; one run.",
        once=True,
    )


# ---- the lasso ------------------------------------------------------------------------------


@row("moment-lasso", "The lasso, from moments")
def moment_lasso(quick: bool) -> Trial:
    """The same objective at the same duality gap, on correlated features."""
    n, d = (500, 40) if quick else (50_000, 1_000)
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.full(30, 0.3), size=n)
    Z = ExpChi2Sampler(d, random_state=0).fit_transform(X)
    y = np.sqrt(X[:, 0]) + X[:, 1] * X[:, 2] + 0.05 * rng.standard_normal(n)
    alpha = 0.02 * float(np.max(np.abs((Z - Z.mean(axis=0)).T @ (y - y.mean())))) / n
    options: dict[str, Any] = {"alpha": alpha, "tol": 1e-5, "max_iter": 10_000}
    moments = Moments.of(Z, y)
    names = {
        "MomentLasso, with the pass": lambda _: MomentLasso(**options).fit(Z, y),
        "MomentLasso, from moments": lambda _: MomentLasso(**options).fit_moments(moments),
        "Lasso": lambda _: Lasso(**options).fit(Z, y),
        "Lasso(precompute=True)": lambda _: Lasso(precompute=True, **options).fit(Z, y),
    }

    def digest(model: Any) -> Any:
        residual = y - model.predict(Z)
        objective = residual @ residual / (2 * n) + alpha * np.sum(np.abs(model.coef_))
        return {"objective": objective, "passes": model.n_iter_, "gap": model.dual_gap_}

    def excess(results: dict[str, Any]) -> dict[str, float]:
        least = min(r["objective"] for r in results.values())
        return {name: (r["objective"] - least) / np.var(y) for name, r in results.items()}

    def table(m: Measured) -> Table:
        header = ["side", "passes", "duality gap", "seconds"]
        rows = [
            [name, m.digests[name]["passes"], m.digests[name]["gap"], m.median(name)]
            for name in names
        ]
        return Table(header, rows)

    ours = "MomentLasso, with the pass"
    return Trial(
        [
            Side(name, run, digest=digest, peer=name.startswith("Lasso"))
            for name, run in names.items()
        ],
        targets=[Target("no slower than in memory", lambda m: m.slowdown(ours), at_most=1)],
        checks=[Check("objective above the least, over the variance of y", excess, limit=1e-4)],
        table=table,
        note=f"{n:,} x {d:,} random features, a fiftieth of the smallest penalty at which all "
        "coefficients are 0.",
    )


CV, ONE, CV_PEER = "MomentLassoCV.fit_rows", "MomentLasso.fit_rows", "LassoCV, in memory"


@cache
def _parquet_files(n: int, d: int) -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """Write eight files of columns and of targets to a folder that goes with the process."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = tempfile.TemporaryDirectory(prefix="histrs-bench-")
    rng = np.random.default_rng(0)
    coef = np.where(np.arange(d) < d // 10, rng.uniform(0.5, 1.5, d), 0.0)
    for k in range(8):
        # A common factor, so that columns are correlated.
        X = rng.standard_normal((n // 8, d)) + rng.standard_normal((n // 8, 1))
        y = X @ coef + 3 * rng.standard_normal(n // 8)
        columns = {f"x{j}": X[:, j] for j in range(d)} | {"y": y}
        parquet.write_table(pa.table(columns), Path(folder.name) / f"part-{k}.parquet")
    return folder, Path(folder.name)


@row("parquet-lasso-cv", "`MomentLassoCV`, from eight Parquet files, five folds")
def parquet_lasso_cv(quick: bool) -> Trial:
    """The rows are read once for all folds and penalties."""
    n, d = (800, 20) if quick else (400_000, 300)
    folds = np.arange(n) % 5
    splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(5)]

    def theirs(data: Any) -> Any:
        import pyarrow.dataset

        table = pyarrow.dataset.dataset(data[1]).to_table()
        X = np.column_stack([table[f"x{j}"].to_numpy() for j in range(d)])
        return LassoCV(cv=splits, tol=1e-5, n_jobs=-1).fit(X, table["y"].to_numpy())

    def digest(model: Any) -> Any:
        return getattr(model, "alpha_", None), model.coef_

    def differences(results: dict[str, Any]) -> dict[str, float]:
        reference = results[CV_PEER][1]
        scale = np.max(np.abs(reference))
        compared = {name: results[name][1] for name in (CV, CV_PEER)}
        return {k: np.max(np.abs(coef - reference)) / scale for k, coef in compared.items()}

    def files() -> Any:
        return _parquet_files(n, d)

    models = {CV: MomentLassoCV(tol=1e-5), ONE: MomentLasso(0.1, tol=1e-5)}
    return Trial(
        [
            *(
                Side(
                    name,
                    lambda data, model=model: model.fit_rows(data[1], "y"),
                    prepare=files,
                    digest=digest,
                    memory=True,
                )
                for name, model in models.items()
            ),
            Side(CV_PEER, theirs, prepare=files, digest=digest, peer=True, memory=True),
        ],
        targets=[
            Target("time over that of one fit", lambda m: m.median(CV) / m.median(ONE), at_most=2),
            Target("faster than in memory", lambda m: m.speedup(CV), at_least=1),
        ],
        checks=[Check("largest difference of a coefficient", differences, limit=1e-2)],
        figures=lambda m: [Figure(f"alpha, {name}", m.digests[name][0]) for name in (CV, CV_PEER)],
        note=f"{n:,} x {d} float64 rows in eight files, a tenth of the coefficients non-zero, 100 "
        "penalties. Row i is in fold i % 5 for both. The peer reads all files by pyarrow.",
    )


@row("pca-ridge-short", "`PCARidge`, 20 x 2,000")
def pca_ridge_short(quick: bool) -> Trial:
    """Fewer rows than features: the decomposition should be that of the rows."""
    n, d = (10, 100) if quick else (20, 2000)
    rng = np.random.default_rng(0)
    X = rng.random((n, d))
    y = X @ rng.random(d) + 0.1 * rng.standard_normal(n)
    alphas = [0.1, 1.0, 10.0]
    ours, peer = "PCARidge", "RidgeCV"

    def differences(results: dict[str, Any]) -> dict[str, float]:
        return {ours: float(np.max(np.abs(results[ours] - results[peer])))}

    return Trial(
        sides=[
            Side(ours, lambda _: PCARidge(alphas=alphas, selection="loo").fit(X, y).predict(X)),
            Side(peer, lambda _: RidgeCV(alphas).fit(X, y).predict(X), peer=True),
        ],
        targets=[Target("time over that of the peer", lambda m: m.slowdown(ours), at_most=1)],
        checks=[Check("largest difference of a prediction", differences, limit=1e-6)],
        note=f"{n} x {d:,}, three penalties, the best by leaving each row out.",
    )
