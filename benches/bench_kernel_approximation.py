"""Feature maps of the chi-square kernels, beside scikit-learn's."""

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import SplineTransformer

from benches._harness import Check, Figure, Measured, Side, Table, Target, Trial, row
from histrs.kernel_approximation import AdditiveChi2Map, ExpChi2Sampler, SparseAdditiveMap
from histrs.metrics import additive_chi2_kernel, exp_chi2_kernel, intersection_kernel
from histrs.streaming import Moments
from histrs.svm import BundleSVC

GAMMA = 1.5
# Rows whose kernel matrix is compared.
_KERNEL_ROWS = 400


def _rows(n: int, d: int, dtype: type) -> Any:
    return np.random.default_rng(0).dirichlet(np.ones(d), size=n).astype(dtype)


# ---- the additive map -----------------------------------------------------------------------


def additive_map(quick: bool, *, dtype: type) -> Trial:
    """Nine features a value; the error is that of values from 1e-6 to 1."""
    n, d = (200, 50) if quick else (4000, 784)
    X = _rows(n, d, dtype)
    ours = AdditiveChi2Map(9, domain=(1e-6, 1.0)).fit(X)
    interval = AdditiveChi2Map(9, method="periodic", domain=(1e-6, 1.0)).fit(X).sample_interval_
    theirs = AdditiveChi2Sampler(sample_steps=5, sample_interval=interval).fit(X)
    x = np.geomspace(1e-6, 1, 300)[:, None]
    K = 2 * x * x.T / (x + x.T)

    def error(model: Any) -> float:
        c = model.transform(np.repeat(x, d, axis=1))[:, ::d]
        return float(np.max(np.abs(c @ c.T - K)))

    errors = {"ours": error(ours), "theirs": error(theirs)}
    return Trial(
        sides=[
            Side("AdditiveChi2Map(9)", lambda _: ours.transform(X), digest=np.shape),
            Side(
                "AdditiveChi2Sampler(5)", lambda _: theirs.transform(X), digest=np.shape, peer=True
            ),
        ],
        targets=[
            Target(
                "largest error, times smaller than at the peer's best interval",
                lambda m: errors["theirs"] / errors["ours"],
                at_least=20,
            ),
            Target("faster", lambda m: m.speedup("AdditiveChi2Map(9)"), at_least=1),
        ],
        figures=lambda m: [
            Figure("largest error, AdditiveChi2Map", errors["ours"]),
            Figure("largest error, AdditiveChi2Sampler", errors["theirs"]),
            Figure("a feature", m.median("AdditiveChi2Map(9)") / (9 * n * d) * 1e9, "ns"),
        ],
        note=f"{n:,} x {d} rows of sum 1. The interval of the peer, {interval:.3f}, is the one "
        "with the smallest error for values from 1e-6 to 1.",
    )


row("chi2-map-f64", "`AdditiveChi2Map`, 9 features a value, float64")(
    partial(additive_map, dtype=np.float64)
)
row("chi2-map-f32", "`AdditiveChi2Map`, 9 features a value, float32")(
    partial(additive_map, dtype=np.float32)
)


def sparse_map(quick: bool, *, kernel: str) -> Trial:
    """Sixteen knots a column; the error is that of the kernel of some rows."""
    n, d = (200, 50) if quick else (4000, 784)
    X = _rows(n, d, np.float64)
    exact = {"chi2": additive_chi2_kernel, "intersection": intersection_kernel}[kernel]
    K = exact(X[:_KERNEL_ROWS])
    name = f"SparseAdditiveMap({kernel})"
    ours = SparseAdditiveMap(kernel, 16, spacing="quantile").fit(X)
    # Hat functions on the same number of knots: the map of the intersection kernel.
    spline = SplineTransformer(
        16, degree=1, knots="quantile", include_bias=False, sparse_output=True
    ).fit(X)
    samples = AdditiveChi2Sampler(sample_steps=2).fit(X)

    def error(features: Any) -> float:
        features = features[: len(K)]
        product = ours.inner_product_.matmul(features.T.toarray())
        return float(np.sqrt(np.mean((features @ product - K) ** 2) / np.mean(K**2)))

    def stored(features: Any) -> float:
        return float(getattr(features, "nnz", features.size) / X.size)

    return Trial(
        sides=[
            Side(name, lambda _: ours.transform(X), digest=lambda f: (error(f), stored(f))),
            Side(
                "SplineTransformer, sparse",
                lambda _: spline.transform(X),
                digest=lambda f: (float("nan"), stored(f)),
                peer=True,
            ),
            Side(
                "AdditiveChi2Sampler(2), dense",
                lambda _: samples.transform(X),
                digest=lambda f: (float("nan"), stored(f)),
                peer=True,
            ),
        ],
        targets=[Target("faster", lambda m: m.speedup(name), at_least=1)],
        figures=lambda m: [
            Figure("a value", m.median(name) / (n * d) * 1e9, "ns"),
            Figure("RMS error of the kernel, relative", m.digests[name][0]),
            *(Figure(f"stored for a value, {side}", m.digests[side][1]) for side in m.digests),
        ],
        note=f"{n:,} x {d} rows of sum 1, 16 knots at quantiles. SplineTransformer has the hat "
        "functions of the intersection kernel's map; AdditiveChi2Sampler's three features a value "
        "approximate the chi-square kernel with the usual inner product.",
    )


row("sparse-map-intersection", "`SparseAdditiveMap`, intersection kernel, 16 knots")(
    partial(sparse_map, kernel="intersection")
)
row("sparse-map-chi2", "`SparseAdditiveMap`, chi-square kernel, 16 knots")(
    partial(sparse_map, kernel="chi2")
)


# ---- random features ------------------------------------------------------------------------


def _pipeline(steps: int, n_components: int) -> Any:
    return make_pipeline(
        AdditiveChi2Sampler(sample_steps=steps),
        RBFSampler(gamma=GAMMA, n_components=n_components, random_state=0),
    )


PAGES = "pages of the result alone"
TWO_SAMPLERS = "AdditiveChi2Sampler(2) + RBFSampler"


def _touched(Z: Any) -> Any:
    """Write to every page, so that the system provides it."""
    Z.reshape(-1)[:: 4096 // Z.itemsize] = 0
    return Z


def _rmse(Z: Any, K: Any) -> float:
    Z = np.asarray(Z[: len(K)], dtype=np.float64)
    return float(np.sqrt(np.mean(np.square(Z @ Z.T - K))))


def exp_chi2(quick: bool, *, dtype: type) -> Trial:
    """7,000 random features of 300 columns, beside the two steps of scikit-learn."""
    n, d, D = (100, 50, 500) if quick else (2000, 300, 7000)
    X = _rows(n, d, dtype)
    K = exp_chi2_kernel(X[:_KERNEL_ROWS].astype(np.float64), gamma=GAMMA)
    base_map = AdditiveChi2Map(3)
    ours = ExpChi2Sampler(D, gamma=GAMMA, base_map=base_map, random_state=0).fit(X)
    sides = [
        Side("ExpChi2Sampler", lambda _: ours.transform(X), digest=lambda Z: _rmse(Z, K)),
        # A touch of every page of a fresh array.
        Side(PAGES, lambda _: _touched(np.empty((n, D), dtype)), digest=np.shape),
    ]
    for steps in (2, 3):
        model = _pipeline(steps, D).fit(X)
        sides.append(
            Side(
                f"AdditiveChi2Sampler({steps}) + RBFSampler",
                lambda _, model=model: model.transform(X),
                digest=lambda Z: _rmse(Z, K),
                peer=True,
            )
        )

    def errors(digests: dict[str, Any]) -> dict[str, float]:
        return {name: error for name, error in digests.items() if name != PAGES}

    def ratio(m: Measured) -> float:
        return m.digests["ExpChi2Sampler"] / min(m.digests[peer] for peer in m.peers)

    return Trial(
        sides,
        targets=[
            Target("faster than the pipeline", lambda m: m.speedup("ExpChi2Sampler"), at_least=50),
            Target("kernel RMSE over that of the better pipeline", ratio, at_most=1),
        ],
        checks=[Check("kernel RMSE", errors, limit=0.2)],
        figures=lambda m: [
            Figure("a row", m.median("ExpChi2Sampler") / n * 1e6, "us"),
            Figure(f"a row, {PAGES}", m.median(PAGES) / n * 1e6, "us"),
            *(Figure(f"kernel RMSE, {name}", error) for name, error in errors(m.digests).items()),
        ],
        note=f"{n:,} x {d} rows of sum 1, gamma = {GAMMA}, {D:,} features; the kernel is compared "
        f"on {len(K)} rows. ExpChi2Sampler takes AdditiveChi2Map(3), as many features a value as "
        "AdditiveChi2Sampler(2). The system clears every page of a new result, which takes one "
        f"thread the time of '{PAGES}'.",
    )


row("exp-chi2-features-f64", "`ExpChi2Sampler`, d = 300, D = 7,000, float64")(
    partial(exp_chi2, dtype=np.float64)
)
row("exp-chi2-features-f32", "`ExpChi2Sampler`, d = 300, D = 7,000, float32")(
    partial(exp_chi2, dtype=np.float32)
)


@row("exp-chi2-features-csr", "`ExpChi2Sampler`, CSR, d = 16,384, 60 non-zeros a row")
def exp_chi2_csr(quick: bool) -> Trial:
    """100 random features of sparse rows; the matrix of the projection is there after the fit."""
    n, d, n_stored, D = (50, 200, 10, 20) if quick else (2000, 2**14, 60, 100)
    random = np.random.default_rng(0)
    columns = [np.sort(random.choice(d, n_stored, replace=False)) for _ in range(n)]
    starts = np.arange(0, n * n_stored + 1, n_stored)
    X = sparse.csr_matrix((random.random(n * n_stored), np.concatenate(columns), starts), (n, d))
    K = exp_chi2_kernel(X[:_KERNEL_ROWS], gamma=1.0 / n_stored)
    ours = ExpChi2Sampler(D, gamma=1.0 / n_stored, random_state=0).fit(X)
    cosines = RBFSampler(gamma=1.0 / n_stored, n_components=D, random_state=0)
    theirs = make_pipeline(AdditiveChi2Sampler(sample_steps=2), cosines).fit(X)

    def error(Z: Any) -> float:
        return _rmse(Z, K)

    return Trial(
        sides=[
            Side("ExpChi2Sampler", lambda _: ours.transform(X), digest=error),
            Side(TWO_SAMPLERS, lambda _: theirs.transform(X), digest=error, peer=True),
        ],
        targets=[
            Target("as fast as the pipeline", lambda m: m.speedup("ExpChi2Sampler"), at_least=1)
        ],
        checks=[Check("kernel RMSE", dict, limit=0.2)],
        note=f"{n:,} x {d:,} rows with {n_stored} uniform entries at random, {D} features.",
    )


SCORES = "BundleSVC, ExpChi2Sampler"
TWO_STEPS = "ExpChi2Sampler.transform(out=), then Z @ W"
LEARNED, LEARNED_PEER = "Moments.of, feature_map=ExpChi2Sampler", "the pipeline, then Moments.of"


def _linear(n_outputs: int, n_features: int) -> Any:
    random = np.random.default_rng(5)
    return random.standard_normal((n_outputs, n_features)), random.standard_normal(n_outputs)


def _relative(scores: Any, exact: Any) -> float:
    return float(np.abs(scores - exact).max() / np.std(exact))


def exp_chi2_scores(quick: bool, *, dtype: type, n_classes: int) -> Trial:
    """From rows to scores of a linear model of 7,000 features, without the features."""
    n, d, D = (100, 50, 500) if quick else (2000, 300, 7000)
    X = _rows(n, d, dtype)
    n_outputs = 1 if n_classes == 2 else n_classes
    coef, intercept = _linear(n_outputs, D)
    sampler = ExpChi2Sampler(D, gamma=GAMMA, base_map=AdditiveChi2Map(3), random_state=0).fit(X)
    # Predicting is measured without training: with coefficients that are given.
    model = BundleSVC(FrozenEstimator(sampler), max_iter=1, tol=1e9)
    model.fit(X[: 2 * n_classes], np.arange(2 * n_classes) % n_classes)
    model.coef_, model.intercept_ = coef, intercept
    peers = {
        f"AdditiveChi2Sampler({steps}) + RBFSampler + RidgeClassifier": _pipeline(steps, D).fit(X)
        for steps in (2, 3)
    }
    for name, pipeline in peers.items():
        last = RidgeClassifier().fit(np.zeros((n_classes, D), dtype), np.arange(n_classes))
        last.coef_, last.intercept_ = coef.astype(dtype), intercept.astype(dtype)
        peers[name] = Pipeline([*pipeline.steps, ("linear", last)])
    out = np.empty((n, D), dtype)
    exact = {SCORES: sampler.transform(X).astype(np.float64) @ coef.T + intercept}
    for name, pipeline in peers.items():
        exact[name] = pipeline[:-1].transform(X).astype(np.float64) @ coef.T + intercept
    exact[TWO_STEPS] = exact[SCORES]
    W = np.ascontiguousarray(coef.T.astype(dtype))
    return Trial(
        [
            Side(SCORES, lambda _: model.decision_function(X)),
            Side(TWO_STEPS, lambda _: sampler.transform(X, out=out) @ W + intercept.astype(dtype)),
            *(
                Side(name, lambda _, model=model: model.decision_function(X), peer=True)
                for name, model in peers.items()
            ),
        ],
        targets=[Target("faster than the pipeline", lambda m: m.speedup(SCORES), at_least=50)],
        checks=[
            Check(
                "largest error, over the standard deviation of the scores",
                lambda results: {
                    name: _relative(scores.reshape(n, -1), exact[name])
                    for name, scores in results.items()
                },
                limit=1e-10 if dtype is np.float64 else 1e-3,
            )
        ],
        figures=lambda m: [
            Figure(f"{name}: a row", m.median(name) / n * 1e6, "us") for name in (SCORES, TWO_STEPS)
        ],
        note=f"{n:,} x {d} rows of sum 1, {D:,} features, {n_outputs} weight "
        f"vector{'s' if n_outputs > 1 else ''}, the same for all sides. A score is that of the "
        "side's own features.",
    )


for _kind, _dtype in (("f64", np.float64), ("f32", np.float32)):
    for _n_classes in (2, 10):
        row(
            f"exp-chi2-scores-{_kind}-{_n_classes}",
            f"`ExpChi2Sampler` to scores, D = 7,000, {np.dtype(_dtype)}, {_n_classes} classes",
        )(partial(exp_chi2_scores, dtype=_dtype, n_classes=_n_classes))


def exp_chi2_moments(quick: bool) -> Trial:
    """From rows to the moments of 2,000 features and of targets."""
    n, d, D = (200, 50, 100) if quick else (16_384, 300, 2000)
    X = _rows(n, d, np.float64)
    y = X[:, 0] / X[:, 1].max()
    sampler = ExpChi2Sampler(D, gamma=GAMMA, base_map=AdditiveChi2Map(3), random_state=0).fit(X)
    pipeline = _pipeline(2, D).fit(X)
    Z = np.random.default_rng(0).standard_normal((min(n, 4096), D))
    products = "Z.T @ Z of given features, by BLAS"

    def multiplied() -> Any:
        C = np.zeros((D, D), order="F")
        for _ in range(0, n, len(Z)):
            C = blas.dsyrk(1.0, Z.T, beta=1.0, c=C, overwrite_c=1)
        return C.shape

    return Trial(
        [
            Side(LEARNED, lambda _: Moments.of(X, y, feature_map=sampler), digest=_n_rows),
            Side(products, lambda _: multiplied(), digest=lambda _: n),
            Side(
                LEARNED_PEER,
                lambda _: Moments.of(pipeline.transform(X), y),
                digest=_n_rows,
                peer=True,
            ),
        ],
        targets=[
            Target("faster than the pipeline", lambda m: m.speedup(LEARNED), at_least=1),
            Target(
                "time over that of the symmetric products alone",
                lambda m: m.median(LEARNED) / m.median(products),
                at_most=1.5,
            ),
        ],
        checks=[
            Check(
                "rows that are missing",
                lambda results: {name: n - found for name, found in results.items()},
                limit=0,
            )
        ],
        note=f"{n:,} x {d} rows of sum 1, {D:,} features, in chunks of 4,096 rows. Every method "
        "needs the symmetric products.",
    )


def _n_rows(moments: Any) -> int:
    return int(moments.n_rows)


row("exp-chi2-moments", "`ExpChi2Sampler` to moments, D = 2,000")(exp_chi2_moments)


def accuracy_for_cost(quick: bool) -> Trial:
    """Kernel error against time for growing D; each peer estimates the kernel that it can."""
    n, d = (100, 20) if quick else (2000, 300)
    counts = (64, 256) if quick else (250, 1000, 4000, 7000)
    X = _rows(n, d, np.float64)
    K = exp_chi2_kernel(X[:_KERNEL_ROWS], gamma=GAMMA)
    families = {
        "ExpChi2Sampler": lambda D: ExpChi2Sampler(D, gamma=GAMMA, random_state=0),
        "pipeline": lambda D: _pipeline(3, D),
        "Nystroem": lambda D: Nystroem("chi2", gamma=GAMMA, n_components=min(D, n), random_state=0),
        "SkewedChi2Sampler": lambda D: SkewedChi2Sampler(
            skewedness=0.01, n_components=D, random_state=0
        ),
    }
    sides = []
    for name, make in families.items():
        for D in counts if name != "Nystroem" else counts[:2]:
            model = make(D).fit(X)
            sides.append(
                Side(
                    f"{name}, {D}",
                    lambda _, model=model: model.transform(X),
                    digest=lambda Z: _rmse(Z, K),
                    peer=name != "ExpChi2Sampler",
                )
            )

    def table(m: Measured) -> Table:
        rows = [[side.name, m.median(side.name) / n * 1e6, m.digests[side.name]] for side in sides]
        return Table(["features", "us a row", "kernel RMSE"], rows)

    return Trial(
        sides,
        table=table,
        note=f"{n:,} x {d} rows of sum 1, gamma = {GAMMA}. Nystroem has landmarks among the rows "
        "that are compared, and kernel values to compute for each; SkewedChi2Sampler estimates "
        "another kernel, and its error here is its difference from this one.",
    )


row("exp-chi2-accuracy", "Accuracy for cost: random features of the exponential kernel")(
    accuracy_for_cost
)
