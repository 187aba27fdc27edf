"""The Gaussian process: product, fit, growth, prediction, memory."""

from functools import cache, partial
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benches import _data, _peers
from benches._harness import Check, Figure, Measured, Side, Table, Target, Trial, exponent_of, row
from histrs import _histrs
from histrs._checks.validation import to_core
from histrs.gaussian_process import Bins, IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection
from histrs.metrics import intersection_kernel

THREADS = _peers.N_THREADS

STREAMING = ("streaming, NumPy sum", "streaming, BLAS dot")
COPY = "copy by the same index"

# The C++ of E. Rodner et al. (gp-hik-core, one thread), timed once on one core of a machine of the
# kind that the first results are from. A reference, not a side: it is not run here.
AUTHORS_PRODUCT_NS = 3.9
AUTHORS_FIT_SECONDS = {"dense": (32, 42), "sparse": (4, 5)}
AUTHORS_ROW_US = {"exact": (1400, 1400), "quantised": (51, 63)}
# Iterations stop early, as in the paper: labels settle long before weights do.
EARLY = 0.1
AUTHORS = "the authors' C++ (reference: one core, not measured in this run)"


# ---- K v ------------------------------------------------------------------------------------


def _product_data(kind: str, quick: bool) -> tuple[Any, str]:
    n, d = (500, 200) if quick else (10_000, 784)
    match kind:
        case "continuous":
            return _data.gamma_values(n, d), "gamma-distributed values, all different"
        case "pixels":
            return _data.pixels(n)
        case "sparse":
            return _data.sparse_values(n, d), "gamma-distributed values, 10% stored"
        case "sparse-large":
            return _data.sparse_values(10 * n, d), "gamma-distributed values, 10% stored"
    raise ValueError(kind)


def _values(X: Any) -> int:
    return int(X.nnz if sparse.issparse(X) else np.count_nonzero(X))


def kernel_product(quick: bool, *, kind: str) -> Trial:
    """K v on sorted columns, beside reading as many values of eight bytes."""
    X, source = _product_data(kind, quick)
    n = X.shape[0]
    columns = _histrs.SortedColumns(to_core(X), THREADS)
    stored = _values(X)
    V = np.random.default_rng(1).standard_normal((n, 10))
    v = np.ascontiguousarray(V[:, :1])
    values = np.ones(stored)
    index = _sorted_rows(X)
    some = np.random.default_rng(2).choice(n, size=4 if quick else 20, replace=False)
    K = np.array([_minimum_row(X, i) for i in some])

    def errors(results):
        found = {}
        for name, product in results.items():
            if isinstance(product, np.ndarray):
                right = V[:, : product.shape[1]]
                found[name] = np.max(np.abs(product[some] - K @ right) / (K @ np.abs(right)))
        return found

    def per_value(m: Measured, name: str) -> float:
        return m.median(name) / stored / (10 if "ten" in name else 1) * 1e9

    def streaming(m: Measured) -> float:
        return min(m.median(name) for name in STREAMING)

    targets = []
    for name in ("one", "ten"):
        # Ten right-hand sides share one pass, and each is compared with a reading of its own.
        share = 10 if name == "ten" else 1
        targets += [
            Target(
                f"{name}: time a right-hand side within 2x of streaming 8 B a value",
                lambda m, name=name, share=share: m.median(name) / streaming(m) / share,
                at_most=2,
            ),
            Target(
                f"{name}: time within 1.5x of copying by the same index",
                lambda m, name=name: m.median(name) / m.median(f"{name}, {COPY}"),
                at_most=1.5,
            ),
            Target(
                f"{name}: ns a stored value and right-hand side",
                partial(per_value, name=name),
                at_most=0.5,
                unit=" ns",
            ),
        ]

    def figures(m: Measured):
        names = ["one", "ten", "one, one thread", "ten, one thread"]
        names += [f"{name}, {COPY}" for name in ("one", "ten")]
        return [
            Figure("values that are not 0", stored),
            Figure("entries that a product passes over", columns.n_stored),
            *(Figure(f"{x}: a value and right-hand side", per_value(m, x), "ns") for x in names),
            Figure("streaming: a value", streaming(m) / stored * 1e9, "ns"),
            Figure("streaming: bandwidth", 8 * stored / streaming(m) / 1e9, "GB/s"),
            *(
                Figure(
                    f"one thread, {name}: time over that of copying by the same index",
                    m.median(f"{name}, one thread") / m.median(f"{name}, {COPY}, one thread"),
                    "x",
                )
                for name in ("one", "ten")
            ),
            Figure(
                f"one thread, faster than {AUTHORS}, {AUTHORS_PRODUCT_NS} ns",
                AUTHORS_PRODUCT_NS / per_value(m, "one, one thread"),
                "x",
            ),
        ]

    return Trial(
        sides=[
            Side("one", lambda _: columns.product(v, THREADS)),
            Side(STREAMING[0], lambda _: _peers.stream(values), peer=True),
            Side(f"one, {COPY}", lambda _: _peers.copy_by_index(index, v, THREADS), peer=True),
            Side("ten", lambda _: columns.product(V, THREADS)),
            Side(STREAMING[1], lambda _: _peers.stream_blas(values), peer=True),
            Side(f"ten, {COPY}", lambda _: _peers.copy_by_index(index, V, THREADS), peer=True),
            Side("one, one thread", lambda _: columns.product(v, 1)),
            Side(
                f"one, {COPY}, one thread", lambda _: _peers.copy_by_index(index, v, 1), peer=True
            ),
            Side("ten, one thread", lambda _: columns.product(V, 1)),
            Side(
                f"ten, {COPY}, one thread", lambda _: _peers.copy_by_index(index, V, 1), peer=True
            ),
        ],
        targets=targets,
        checks=[Check("error of some rows, relative to K |v|", errors, limit=1e-12)],
        figures=figures,
        note=f"{n:,} x {X.shape[1]}: {source}. 'one' and 'ten' are numbers of right-hand sides. "
        "Times are divided by the values that are not 0. 'streaming' reads an array of as many "
        "8-byte values in all threads; on small data both sides work in the cache. 'copy by the "
        "same index' is a compiled loop. For each of these values, in the order of a column, it "
        "only reads and writes a row of the right-hand sides.",
    )


def _sorted_rows(X: Any) -> np.ndarray:
    """Return the rows of the values that are not 0, column by column and sorted by the values."""
    columns = sparse.csc_array(X)
    column = np.repeat(np.arange(X.shape[1]), np.diff(columns.indptr))
    return columns.indices[np.lexsort((columns.data, column))].astype(np.uint32)


def _minimum_row(X: Any, i: int) -> np.ndarray:
    if sparse.issparse(X):
        x = X[[i]].toarray()[0]
        return np.concatenate(
            [np.minimum(X[j : j + 5000].toarray(), x).sum(1) for j in range(0, X.shape[0], 5000)]
        )
    return np.concatenate(
        [np.minimum(X[j : j + 500], X[i]).sum(axis=1) for j in range(0, len(X), 500)]
    )


for _kind, _title in [
    ("continuous", "K v, exact, 10,000 x 784 continuous"),
    ("pixels", "K v, exact, 10,000 x 784 pixels of 8 bits"),
    ("sparse", "K v, exact, 10,000 x 784 CSR, 10% stored"),
    ("sparse-large", "K v, exact, 100,000 x 784 CSR, 10% stored"),
]:
    row(f"kernel-product-{_kind}", _title)(partial(kernel_product, kind=_kind))


def column_memory(quick: bool) -> Trial:
    """Bytes a stored value of the sorted columns, and the time to sort them."""
    kinds = {kind: _product_data(kind, quick)[0] for kind in ("continuous", "pixels", "sparse")}
    stored = {kind: _values(X) for kind, X in kinds.items()}

    def make(X):
        return _histrs.SortedColumns(to_core(X), THREADS)

    def table(m: Measured) -> Table:
        header = ["kind", "values not 0", "bytes a value", "bytes a value, input", "ns a value"]
        rows = []
        for kind, X in kinds.items():
            arrays = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
            given = sum(array.nbytes for array in arrays)
            rows.append(
                [
                    kind,
                    stored[kind],
                    m.digests[kind]["bytes"] / stored[kind],
                    given / stored[kind],
                    m.median(kind) / stored[kind] * 1e9,
                ]
            )
        return Table(header, rows)

    return Trial(
        sides=[
            Side(
                kind,
                lambda _, X=X: make(X),
                digest=lambda columns: {"bytes": columns.n_bytes, "stored": columns.n_stored},
            )
            for kind, X in kinds.items()
        ],
        checks=[
            Check(
                "values that are not 0, but not stored",
                lambda results: {k: max(0, stored[k] - r["stored"]) for k, r in results.items()},
                limit=0,
            )
        ],
        table=table,
        note="The data of the products above, in float64. Times are those of sorting, in all "
        "threads. Values are those that are not 0; the memory of zeros is divided among them.",
    )


row("column-memory", "Memory of the sorted columns, and the time to make them")(column_memory)


# ---- fit ------------------------------------------------------------------------------------

TIGHT, LOOSE = "histrs, tol=1e-7", "histrs, default tol"
CHOLESKY, CHOLESKY_F32 = "Gram + Cholesky", "Gram + Cholesky, float32"
CHOLESKY_NUMPY, CHOLESKY_DENSE = "NumPy Gram + Cholesky", "Gram of dense + Cholesky"
NOISE = 0.1
TOLERANCES = {
    TIGHT: 1e-7,
    LOOSE: 1e-4,
    CHOLESKY: 1e-7,
    CHOLESKY_F32: 1e-4,
    CHOLESKY_NUMPY: 1e-7,
    CHOLESKY_DENSE: 1e-7,
}


def fit(quick: bool, *, kind: str) -> Trial:
    """Ten classes at once, beside the stored kernel matrix and its factor."""
    n, d, n_test = (400, 300, 100) if quick else (10_000, 784, 500)

    @cache
    def data() -> _data.Classes:
        return _data.named_classes(kind, n, d, n_test, quick)

    @cache
    def system() -> SimpleNamespace:
        return SimpleNamespace(
            columns=_histrs.SortedColumns(to_core(data().X), THREADS),
            K_test=intersection_kernel(data().X_test, data().X),
        )

    def residual(alpha: np.ndarray) -> float:
        product = system().columns.product(np.ascontiguousarray(alpha), THREADS)
        return float(np.max(np.abs(product + NOISE * alpha - data().targets)))

    def digest_model(model: IntersectionGPClassifier) -> dict[str, Any]:
        return {
            "residual": residual(model.dual_coef_),
            "scores": model.decision_function(data().X_test),
            "n_iter": int(np.max(model.n_iter_)),
            "accuracy": model.score(data().X_test, data().y_test),
        }

    def digest_weights(alpha: np.ndarray) -> dict[str, Any]:
        alpha = alpha.astype(np.float64)
        return {"residual": residual(alpha), "scores": system().K_test @ alpha}

    def histrs(**parameters: Any):
        return lambda data: IntersectionGPClassifier(
            optimizer=None, **_data.PAPER, noise=NOISE, **parameters, random_state=0
        ).fit(data.X, data.y)

    def cholesky(gram, convert=lambda X: X):
        return lambda data: _peers.cholesky_weights(gram(convert(data.X)), NOISE, data.targets)

    def peer(name: str, run, **options: Any) -> Side:
        return Side(name, run, data, digest_weights, peer=True, **options)

    sides = [
        Side(TIGHT, histrs(tol=1e-7, solver="cg"), data, digest_model, memory=True),
        peer(CHOLESKY, cholesky(intersection_kernel), memory=True),
        Side(LOOSE, histrs(solver="cg"), data, digest_model),
        peer(CHOLESKY_F32, cholesky(intersection_kernel, lambda X: X.astype(np.float32))),
    ]
    if kind == "continuous":
        sides.append(peer(CHOLESKY_NUMPY, cholesky(_peers.gram_by_rows)))
    if kind == "sparse":
        dense = cholesky(intersection_kernel, lambda X: X.toarray())
        sides.append(peer(CHOLESKY_DENSE, dense))
    exact = [side.name for side in sides if side.peer and side.name != CHOLESKY_F32]

    def residuals(results):
        return {name: r["residual"] / TOLERANCES[name] for name, r in results.items()}

    def differences(results):
        scores = results[CHOLESKY]["scores"]
        return {
            name: np.max(np.abs(r["scores"] - scores)) / TOLERANCES[name]
            for name, r in results.items()
        }

    low, high = AUTHORS_FIT_SECONDS["sparse" if kind == "sparse" else "dense"]

    def figures(m: Measured):
        speedup = m.median(CHOLESKY) / m.median(TIGHT)
        found = [
            Figure("iterations, tol=1e-7", m.digests[TIGHT]["n_iter"]),
            Figure("iterations, default tol", m.digests[LOOSE]["n_iter"]),
            Figure("accuracy on the test rows", 100 * m.digests[LOOSE]["accuracy"], "%"),
            Figure(f"{AUTHORS}: at least", low, "s"),
            Figure(f"{AUTHORS}: at most", high, "s"),
            Figure(f"{CHOLESKY} over {TIGHT}", speedup, "x"),
        ]
        if CHOLESKY_NUMPY in m.seconds:
            found.append(
                Figure(f"{CHOLESKY_NUMPY} over {TIGHT}", m.speedup(TIGHT, CHOLESKY_NUMPY), "x")
            )
        return found

    return Trial(
        sides,
        targets=[
            Target(
                "faster than Gram + Cholesky, residual 1e-7",
                lambda m: m.speedup(TIGHT, *exact),
                at_least=10,
            ),
            Target(
                "faster than Gram + Cholesky, residual 1e-4, float32 allowed",
                lambda m: m.speedup(LOOSE),
                at_least=10,
            ),
            Target(
                f"faster than the authors' C++ (reference: {low} to {high} s), residual 1e-7",
                # The reference is for the full size only.
                lambda m: np.nan if quick else low / m.median(TIGHT),
                at_least=50,
            ),
        ],
        checks=[
            Check("largest entry of Y - (K + noise I) alpha, in tolerances", residuals, limit=1.1),
            Check(
                f"largest difference of test scores to {CHOLESKY}, in tolerances",
                differences,
                limit=100,
            ),
        ],
        figures=figures,
        note=f"{n:,} x {data().X.shape[1]} in ten classes, noise {NOISE}, rows of sum 1: "
        f"{data().source}. The Gram matrix is histrs' own `intersection_kernel`, the fastest that "
        "we know; the factorisation is LAPACK's by `scipy.linalg.cho_factor` in all threads. The "
        "reference for the authors' C++ is for 10,000 x 784 on one core, from another run.",
    )


for _kind, _title in [
    ("continuous", "GP fit, 10,000 x 784, ten classes, continuous"),
    ("fashion", "GP fit, 10,000 x 784, ten classes, Fashion-MNIST"),
    ("sparse", "GP fit, 10,000 x 784, ten classes, CSR, 10% stored"),
]:
    row(f"fit-{_kind}", _title)(partial(fit, kind=_kind))


# ---- growth ---------------------------------------------------------------------------------


def growth(quick: bool) -> Trial:
    """Fits of more and more rows, on one function."""
    sizes = [200, 400, 800] if quick else [10**3, 3000, 10**4, 30_000, 10**5, 300_000, 10**6]
    function = _data.Additive(6 if quick else 30)
    X_test, _ = function.sample(2000 if quick else 20_000, seed=1)

    def digest(model: IntersectionGPRegressor, n: int) -> dict[str, float]:
        X, y = function.sample(n, seed=0)
        y = y - model.y_mean_
        product = _histrs.SortedColumns(X, THREADS).product(model.dual_coef_, THREADS)[:, 0]
        residual = np.max(np.abs(product + NOISE * model.dual_coef_[:, 0] - y))
        mean = model.predict(X_test)
        found = {
            "n_iter": int(model.n_iter_[0]),
            "rmse": float(np.sqrt(np.mean((mean - function(X_test)) ** 2))),
            "residual": float(residual / (model.tol * np.max(np.abs(y)))),
        }
        if n <= 3000:
            peer = IntersectionGPRegressor(
                optimizer=None, **_data.KERNEL, noise=NOISE, solver="cholesky", random_state=0
            )
            other = peer.fit(X, y + model.y_mean_).predict(X_test)
            found["difference"] = float(np.max(np.abs(mean - other)))
        return found

    def side(n: int) -> Side:
        return Side(
            f"{n:,} rows",
            lambda data: IntersectionGPRegressor(
                optimizer=None, **_data.KERNEL, noise=NOISE, solver="cg", random_state=0
            ).fit(*data),
            partial(function.sample, n, 0),
            lambda model: digest(model, n),
            memory=True,
        )

    sides = [side(n) for n in sizes]
    names = [side.name for side in sides]

    def exponent(m: Measured, first: int) -> float:
        chosen = [(n, m.median(name)) for n, name in zip(sizes, names, strict=True) if n >= first]
        return exponent_of(*zip(*chosen, strict=True))

    last_decade, reference = sizes[-1] // 10, min(sizes[-1] // 4, 10_000)

    def iterations(m: Measured) -> float:
        counts = {n: m.digests[name]["n_iter"] for n, name in zip(sizes, names, strict=True)}
        return max(c for n, c in counts.items() if n >= reference) / counts[reference]

    def of(key: str):
        return lambda results: {k: r[key] for k, r in results.items() if key in r}

    def table(m: Measured) -> Table:
        header = ["rows", "seconds", "us a row", "iterations", "peak memory, MB", "RMSE"]
        rows = [
            [
                n,
                m.median(name),
                m.median(name) / n * 1e6,
                m.digests[name]["n_iter"],
                m.peak_bytes[name] / 1e6 if name in m.peak_bytes else None,
                m.digests[name]["rmse"],
            ]
            for n, name in zip(sizes, names, strict=True)
        ]
        return Table(header, rows)

    return Trial(
        sides,
        targets=[
            Target(
                "exponent of the time in the rows, all sizes",
                partial(exponent, first=sizes[0]),
                at_most=1.1,
                unit="",
            ),
            Target(
                f"exponent of the time in the rows, from {last_decade:,} rows on",
                partial(exponent, first=last_decade),
                at_most=1.1,
                unit="",
            ),
            Target(
                f"iterations flat: most from {reference:,} rows on, over those at {reference:,}",
                iterations,
                at_most=1.5,
            ),
        ],
        checks=[
            Check("largest entry of the residual, in tolerances", of("residual"), limit=1.1),
            Check(
                "largest difference of predictions to a Cholesky solution, up to 3,000 rows",
                of("difference"),
                limit=0.02,
            ),
        ],
        table=table,
        note=f"A smooth additive function of {X_test.shape[1]} uniform features with noise of "
        f"standard deviation {function.noise}; `IntersectionGPRegressor(noise={NOISE}, "
        "solver='cg', optimizer=None)`, default tol. The RMSE is to the function without its "
        "noise. Peak memory is that of the whole process, with interpreter, libraries and data. "
        "The factorisation of the knots has a constant cost, which makes the exponent over all "
        "sizes smaller. It hardly matters in the last decade.",
    )


row("growth", "GP fit, regression on 30 columns, growth from 1,000 to 1,000,000 rows")(growth)


def boosting(quick: bool) -> Trial:
    """A million rows, beside gradient boosting."""
    n, d, n_test = (2000, 6, 2000) if quick else (1_000_000, 30, 100_000)
    function = _data.Additive(d)
    ours, levels, theirs = "histrs", "histrs, 64 levels, all learned", _peers.BOOSTING
    data = partial(function.sample, n, 0)

    def rmse(model: Any) -> dict[str, float]:
        X, _ = function.sample(n_test, seed=1)
        error = model.predict(X) - function(X)
        return {"rmse": float(np.sqrt(np.mean(error**2)))}

    def rmse_and_std(model: Any) -> dict[str, float]:
        X, _ = function.sample(n_test, seed=1)
        model.set_params(n_bins=100, variance="coarse-quantized")
        starts = [perf_counter()]
        for rows in (X[:1], X):
            mean, _ = model.predict(rows, return_std=True)
            starts.append(perf_counter())
        tables, prediction = np.diff(starts)
        error = float(np.sqrt(np.mean((mean - function(X)) ** 2)))
        return {"tables": tables, "row": prediction / n_test * 1e6, "tabulated": error} | rmse(
            model.set_params(n_bins=None)
        )

    def over_peer(name: str, m: Measured) -> float:
        return m.slowdown(name)

    def figures(m: Measured):
        found = m.digests[ours]
        return [
            *(
                Figure(f"{name}: RMSE to the function", m.digests[name]["rmse"])
                for name in (ours, levels, theirs)
            ),
            Figure(f"{ours}: RMSE to the function, 100 bins", found["tabulated"]),
            Figure(f"{ours}: tables of mean and variance", found["tables"], "s"),
            Figure(f"{ours}: mean and std of a row, tabulated", found["row"], "us"),
        ]

    return Trial(
        sides=[
            Side(
                ours,
                lambda data: IntersectionGPRegressor(
                    optimizer=None, **_data.KERNEL, noise=NOISE, random_state=0
                ).fit(*data),
                data,
                rmse_and_std,
                memory=True,
            ),
            Side(
                levels,
                lambda data: IntersectionGPRegressor(Intersection(levels=64), random_state=0).fit(
                    *data
                ),
                data,
                rmse,
            ),
            _peers.boosting(data, rmse),
        ],
        targets=[
            *(
                Target(f"{name}: time over that of {theirs}", partial(over_peer, name), at_most=1)
                for name in (ours, levels)
            ),
            Target("peak memory", lambda m: m.peak_bytes[ours] / 1e9, at_most=3, unit=" GB"),
        ],
        checks=[_peers.no_worse_than_boosting(ours), _peers.no_worse_than_boosting(levels)],
        figures=figures,
        note=f"{n:,} x {d}, the function of the benchmark above; both with their defaults "
        f"(ours with noise={NOISE} and optimizer=None).",
    )


row("boosting", "GP fit, 1,000,000 x 30 regression")(boosting)


def wide(quick: bool) -> Trial:
    """Far more columns than entries: the cost should be that of the entries."""
    n, d, n_stored = (50, 2000, 100) if quick else (200, 1_000_000, 2000)
    rng = np.random.default_rng(0)
    places = rng.integers(0, n, n_stored), rng.integers(0, d, n_stored)
    X = sparse.csr_array((rng.random(n_stored) + 0.1, places), shape=(n, d))
    y = rng.random(n)
    used = np.unique(X.indices)
    W, U = "all columns", "without the empty ones"

    def fit(X: Any) -> NDArray[np.float64]:
        model = IntersectionGPRegressor(optimizer=None, noise=NOISE, random_state=0)
        return np.asarray(model.fit(X, y).dual_coef_)

    def differences(results: dict[str, Any]) -> dict[str, float]:
        return {W: float(np.max(np.abs(results[W] - results[U])))}

    return Trial(
        sides=[
            Side(W, fit, lambda: X, memory=True),
            Side(U, fit, lambda: sparse.csr_array(X[:, used]), peer=True, memory=True),
        ],
        targets=[Target("time over that without the empty columns", lambda m: m.slowdown(W), 2)],
        checks=[Check("largest difference of a weight", differences, limit=1e-6)],
        note=f"{n} x {d:,} as CSR with {n_stored:,} entries; optimizer=None.",
    )


row("fit-wide", "GP fit, 200 x 1,000,000 CSR with 2,000 entries")(wide)


def many_classes(quick: bool) -> Trial:
    """A thousand classes of sparse bags of words, the size of the paper's run on ImageNet."""
    n, d, n_classes, n_test = (600, 60, 40, 50) if quick else (150_000, 1000, 1000, 1000)
    ours = "histrs"

    @cache
    def data() -> _data.Classes:
        return _data.bags_of_words(n, d, n_classes, n_test)

    def fit(data: _data.Classes) -> IntersectionGPClassifier:
        model = IntersectionGPClassifier(
            optimizer=None, **_data.PAPER, noise=NOISE, tol=EARLY, random_state=0
        )
        return model.fit(data.X, data.y)

    def digest(model: IntersectionGPClassifier) -> dict[str, float]:
        X, y = data().X_test, data().y_test
        found = {"n_iter": float(np.sum(model.n_iter_)) / n_classes, "accuracy": model.score(X, y)}
        for name, n_bins in (("exact", None), ("table", 100)):
            model.set_params(n_bins=n_bins).decision_function(X[:1])
            start = perf_counter()
            model.decision_function(X)
            found[name] = (perf_counter() - start) / n_test * 1e6
        return found

    def over_peer(name: str, m: Measured) -> float:
        return m.slowdown(name)

    def figures(m: Measured):
        found = m.digests[ours]
        return [
            Figure("stored fraction of the values", 100 * data().X.nnz / (n * d), "%"),
            Figure("iterations of a class", found["n_iter"]),
            Figure("an iteration, all classes", m.median(ours) / found["n_iter"], "s"),
            Figure("accuracy on the test rows", 100 * found["accuracy"], "%"),
            Figure("all scores of a row, exact", found["exact"], "us"),
            Figure("all scores of a row, tabulated", found["table"], "us"),
        ]

    return Trial(
        sides=[Side(ours, fit, data, digest, memory=True)],
        targets=[Target("peak memory", lambda m: m.peak_bytes[ours] / 1e9, at_most=8, unit=" GB")],
        figures=figures,
        note=f"{n:,} x {d} as CSR, {n_classes:,} classes, tol={EARLY}; one run. The time of an "
        "iteration is that of the fit, preparations included, over the iterations of a class.",
        once=True,
    )


row("many-classes", "GP fit, bags of words of 1,000 classes")(many_classes)


# ---- prediction -----------------------------------------------------------------------------


def prediction(quick: bool, *, kind: str) -> Trial:
    """Scores of ten classes, exact and quantised, beside a linear model's."""
    n, d, n_test = (300, 300, 300) if quick else (10_000, 784, 10_000)
    n_single = 20 if quick else 200
    data = _data.named_classes(kind, n, d, n_test, quick)
    X, X_test = data.X.astype(np.float32), np.ascontiguousarray(data.X_test.astype(np.float32))
    exact = IntersectionGPClassifier(
        optimizer=None, **_data.PAPER, noise=NOISE, random_state=0
    ).fit(X, data.y)
    quantised = IntersectionGPClassifier(
        optimizer=None, **_data.PAPER, noise=NOISE, n_bins=100, random_state=0
    ).fit(X, data.y)
    nearest = IntersectionGPClassifier(
        optimizer=None, **_data.PAPER, noise=NOISE, n_bins=Bins(100, "nearest"), random_state=0
    )
    nearest.fit(X, data.y)
    columns = _histrs.SortedColumns(X, THREADS)
    lookup = _histrs.LookupTable.compact(columns, quantised.dual_coef_, 100, None, THREADS)
    W = np.random.default_rng(0).standard_normal((X.shape[1], 10)).astype(np.float32)
    W_columns = np.asfortranarray(W)
    single = [X_test[i : i + 1] for i in range(n_single)]
    Q, E, N, T = "quantised", "exact", "quantised, nearest", "quantised, core alone"
    Q1, E1, T1 = f"{Q}, row by row", f"{E}, row by row", f"{T}, row by row"

    def each(run):
        return lambda _: np.concatenate([run(x) for x in single])

    def errors(results):
        right = results[E]
        found = {}
        for name, scores in results.items():
            if name.startswith("quantised"):
                model = nearest if name == N else quantised
                # Rounding apart, what the model certifies.
                bound = model.quantization_error_bound_ + 1e-5
                found[name] = np.max(np.abs(scores - right[: len(scores)]) / bound)
        return found

    def agreement(results):
        return {E1: np.max(np.abs(results[E1] - results[E][:n_single]))}

    def figures(m: Measured):
        rows = dict.fromkeys((E, Q, N, T), n_test) | dict.fromkeys((E1, Q1, T1), n_single)
        found = [
            Figure(f"{name}: a row", m.median(name) / count * 1e6, "us")
            for name, count in rows.items()
        ]
        for name, (low, high) in AUTHORS_ROW_US.items():
            found.append(Figure(f"{AUTHORS}, {name}: a row, at least", low, "us"))
            if high > low:
                found.append(Figure(f"{AUTHORS}, {name}: a row, at most", high, "us"))
        right = np.argmax(m.digests[E], axis=1)
        for name in (Q, N):
            same = 100 * np.mean(np.argmax(m.digests[name], axis=1) == right)
            found.append(Figure(f"{name}: same class as exact", same, "%"))
            largest = np.max(np.abs(m.digests[name] - m.digests[E]))
            found.append(Figure(f"{name}: largest error of a score", largest))
            found.append(Figure(f"{name}: RMS error over the scores' spread", spread(m, name)))
        found += [Figure(f"{x}: accuracy", 100 * accuracy(m, x), "%") for x in (E, Q, N)]
        return found

    def spread(m: Measured, name: str) -> float:
        exact = m.digests[E]
        return float(np.sqrt(np.mean((m.digests[name] - exact) ** 2)) / np.std(exact))

    def accuracy(m: Measured, name: str) -> float:
        return float(np.mean(exact.classes_[np.argmax(m.digests[name], axis=1)] == data.y_test))

    return Trial(
        sides=[
            Side(Q, lambda _: quantised.decision_function(X_test)),
            Side("X @ W", lambda _: X_test @ W, peer=True),
            Side(T, lambda _: lookup.evaluate(X_test, THREADS)),
            Side("X @ W, W by columns", lambda _: X_test @ W_columns, peer=True),
            Side(N, lambda _: nearest.decision_function(X_test)),
            Side(E, lambda _: exact.decision_function(X_test)),
            Side(Q1, each(quantised.decision_function)),
            Side(T1, each(lambda x: lookup.evaluate(x, 1))),
            Side(E1, each(exact.decision_function)),
        ],
        targets=[
            Target("time over that of X @ W in float32", lambda m: m.slowdown(Q), at_most=2.5),
            Target(
                "RMS error of the quantised scores over their spread",
                lambda m: spread(m, Q),
                at_most=0.01,
                unit="",
            ),
            Target(
                "accuracy lost by 100 bins",
                lambda m: 100 * (accuracy(m, E) - accuracy(m, Q)),
                at_most=0.05,
                unit=" %",
            ),
        ],
        checks=[
            Check("largest error to exact scores, in certified bounds", errors, limit=1.0),
            Check("largest difference of exact scores row by row", agreement, limit=1e-5),
        ],
        figures=figures,
        note=f"{n_test:,} rows of float32 and {X.shape[1]} columns, ten classes, {n:,} training "
        f"rows, n_bins=100: {data.source}. Times are those of `decision_function`, with validation "
        "of the input; 'core alone' is without validation. 'row by row' makes a call for each "
        "row; 'core alone' then uses one thread, and the estimator its default.",
    )


for _kind, _title in [
    ("continuous", "GP prediction, quantised, ten classes, continuous"),
    ("fashion", "GP prediction, quantised, ten classes, Fashion-MNIST"),
]:
    row(f"prediction-{_kind}", _title)(partial(prediction, kind=_kind))


def prediction_by_default(quick: bool) -> Trial:
    """Scores of small whole numbers by a model with its default weights, in two dtypes."""
    n, d, n_test = (300, 60, 300) if quick else (10_000, 784, 10_000)
    rng = np.random.default_rng(0)
    y = np.arange(n + n_test) % 10
    rates = 1.0 + 8.0 * rng.random((10, d))
    counts = np.minimum(rng.poisson(rates[y]), 60).astype(np.uint8)
    X_bytes = np.ascontiguousarray(counts[n:])
    X_single = X_bytes.astype(np.float32)
    model = IntersectionGPClassifier(optimizer=None, calibration=None, random_state=0).fit(
        counts[:n].astype(np.float32), y[:n]
    )
    exact = model.decision_function(X_single)
    model.set_params(n_bins=100)
    W = rng.standard_normal((d, 10)).astype(np.float32)
    F, B, L = "float32", "uint8", "X @ W"

    def error(scores: Any) -> float:
        return float(np.sqrt(np.mean((scores - exact) ** 2)) / np.std(exact))

    return Trial(
        sides=[
            Side(F, lambda _: model.decision_function(X_single)),
            Side(B, lambda _: model.decision_function(X_bytes)),
            Side(L, lambda _: X_single @ W, peer=True),
        ],
        targets=[
            Target("time over that of X @ W, rows of float32", lambda m: m.slowdown(F), 2.5),
            Target("time over that of X @ W, rows of uint8", lambda m: m.slowdown(B), 1.0),
        ],
        checks=[
            Check(
                "RMS error of the scores over their spread",
                lambda results: {name: error(results[name]) for name in (F, B)},
                limit=0.002,
            )
        ],
        figures=lambda m: [
            Figure(f"{name}: a row", m.median(name) / n_test * 1e6, "us") for name in (F, B, L)
        ],
        note=f"{n_test:,} rows of {d} counts up to 60, ten classes, {n:,} training rows, "
        "n_bins=100, features weighted by their scale, as by default. Compared: the public "
        "`decision_function`, and `X @ W` in float32.",
    )


row("prediction-counts", "GP prediction, quantised, ten classes, counts by default")(
    prediction_by_default
)


def variance(quick: bool) -> Trial:
    """Variances of test rows by every method, beside the tabulated mean of ten classes."""
    n, d, n_test, n_exact = (300, 300, 300, 20) if quick else (10_000, 784, 5_000, 64)
    data = _data.gamma_classes(n, d, n_test)
    X_test = data.X_test
    model = IntersectionGPClassifier(
        optimizer=None, **_data.PAPER, noise=NOISE, n_bins=100, random_state=0
    ).fit(data.X, data.y)
    MEAN, EXACT = "mean, quantised", "exact"
    BOUNDS = ["coarse-quantized", "coarse", "fine"]

    def by(name: str, X: Any) -> Any:
        # What does not depend on the test rows is made once, before the clock starts.
        model.set_params(variance=name).latent_mean_and_variance(X[:2])
        state = model._state()
        return lambda _: model.set_params(variance=name)._latent_variance(state, X)[:, 0]

    def below(results):
        exact = results[EXACT]
        return {
            name: np.max((exact - results[name][:n_exact]) / exact, initial=0.0)
            for name in BOUNDS
            if name in results
        }

    def figures(m: Measured):
        rows = dict.fromkeys([MEAN, *BOUNDS], n_test) | {EXACT: n_exact}
        return [
            *(Figure(f"{x}: a row", m.median(x) / k * 1e6, "us") for x, k in rows.items()),
            *(
                Figure(
                    f"{name}: mean of the variances over that of the exact ones",
                    float(np.mean(m.digests[name][:n_exact]) / np.mean(m.digests[EXACT])),
                    "x",
                )
                for name in BOUNDS
            ),
        ]

    return Trial(
        sides=[
            Side(MEAN, lambda _: model.decision_function(X_test), peer=True),
            *(Side(name, by(name, X_test)) for name in BOUNDS),
            Side(EXACT, by(EXACT, X_test[:n_exact])),
        ],
        targets=[
            Target(
                "time of q-CAPU over that of the mean",
                lambda m: m.slowdown("coarse-quantized", MEAN),
                at_most=1.5,
            )
        ],
        checks=[Check("how far a bound falls below, relatively", below, limit=1e-6)],
        figures=figures,
        note=f"{n_test:,} rows ({n_exact} for the exact variance) and {d} columns, {n:,} training "
        f"rows, ten classes, n_bins=100: {data.source}. Two eigenvectors for 'fine'.",
    )


row("variance", "GP variance: exact, and bounds without a solve")(variance)


def _friedman(n: int, d: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return normal columns and the targets of J. Friedman (1991) of five of them, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    U = 1.0 / (1.0 + np.exp(-X[:, :5]))
    f = 10.0 * np.sin(np.pi * U[:, 0] * U[:, 1]) + 20.0 * (U[:, 2] - 0.5) ** 2
    f += 10.0 * U[:, 3] + 5.0 * U[:, 4]
    return X, f / 2.3 + 0.25 * rng.standard_normal(n)


def cached_deviations(quick: bool) -> Trial:
    """Cached standard deviations, beside the mean and what is solved for."""
    n, d, n_test, n_exact = (2500, 5, 200, 20) if quick else (20_000, 10, 5000, 200)
    X, y = _friedman(n, d, 0)
    low = X.min(axis=0)
    rows = np.maximum(_friedman(n_test, d, 1)[0], low) - low
    MEAN, BOTH = "mean", "mean and standard deviation"
    model = IntersectionGPRegressor(variance="exact", random_state=0).fit(X - low, y)
    exact = model.predict(rows[:n_exact], return_std=True)[1]
    # What is cached is made here, before the clock starts.
    model.set_params(variance="cached").predict(rows[:1], return_std=True)

    def off(results: dict[str, Any], of: Any) -> dict[str, float]:
        return {BOTH: float(of(np.abs(results[BOTH] / exact - 1.0)))}

    return Trial(
        sides=[
            Side(MEAN, lambda _: model.predict(rows), peer=True),
            Side(
                BOTH,
                lambda _: model.predict(rows, return_std=True)[1],
                digest=lambda std: std[:n_exact],
            ),
        ],
        targets=[
            Target(
                "time of both over that of the mean", lambda m: m.slowdown(BOTH, MEAN), at_most=12
            )
        ],
        checks=[
            Check("mean relative error of a std", partial(off, of=np.mean), limit=0.015),
            Check(
                "99th percentile of it", partial(off, of=partial(np.quantile, q=0.99)), limit=0.06
            ),
        ],
        figures=lambda m: [
            *(Figure(f"{x}: a row", m.median(x) / n_test * 1e6, "us") for x in m.seconds),
            Figure("std_error_", model.std_error_),
        ],
        note=f"{n_test:,} rows of {d} normal columns, {n:,} training rows, the function of "
        f"J. Friedman (1991) with noise; exact standard deviations are computed for {n_exact} "
        "rows. IntersectionGPRegressor with its defaults, and variance='cached'.",
    )


row("variance-cached", "GP standard deviations, cached")(cached_deviations)
