"""Covariance matrices, beside NumPy, SciPy, pyRiemann and JAX."""

import math
import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from benches import _peers, quality_spd
from benches._harness import Check, Figure, Measured, Side, Table, Target, Trial, row
from histrs.cluster import MetricKMeans
from histrs.metrics import airm_distances, jbld_distances
from histrs.prototypes._covariance_loss import make_loss
from histrs.spd import CSP, MDM, Covariances, TangentSpace, Whitening, airm_mean, jbld_mean

try:
    from pyriemann import classification as pyriemann_classification
    from pyriemann import clustering as pyriemann_clustering
    from pyriemann import estimation as pyriemann_estimation
    from pyriemann import spatialfilters as pyriemann_filters
    from pyriemann import tangentspace as pyriemann_tangent
    from pyriemann.geometry import distance as pyriemann
    from pyriemann.geometry import mean as pyriemann_mean
except ImportError:  # a peer less
    pyriemann = None
try:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
except ImportError:
    jax = None


def wishart(n: int, p: int):
    """Covariances of twice as many Gaussian samples as rows."""
    A = np.random.default_rng(0).standard_normal((n, p, 2 * p))
    return A @ A.transpose(0, 2, 1) / (2 * p)


# ---- peers -------------------------------------------------------------------------------------


def jbld_slogdet(X, Y):
    """Broadcast, the log-determinants of the inputs once; a row at a time stays in the cache."""
    own, others = np.linalg.slogdet(X)[1], np.linalg.slogdet(Y)[1]
    out = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        out[i] = np.linalg.slogdet((x + Y) / 2)[1] - (own[i] + others) / 2
    return out


def jbld_cholesky(X, Y):
    """As above by Cholesky factorisations."""

    def log_det(A):
        return 2 * np.log(np.linalg.cholesky(A).diagonal(axis1=-2, axis2=-1)).sum(axis=-1)

    own, others = log_det(X), log_det(Y)
    out = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        out[i] = log_det((x + Y) / 2) - (own[i] + others) / 2
    return out


def jbld_pyriemann(X, Y):
    """pyRiemann's function broadcasts over pairs of stacks; a row at a time."""
    return np.stack([pyriemann.distance_logdet(x[None], Y, squared=True) for x in X])


def airm_eigvalsh(X, Y):
    """Whitened once a row; broadcast eigenvalues."""
    out = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        root = np.linalg.inv(np.linalg.cholesky(x))
        values = np.linalg.eigvalsh(root @ Y @ root.T)
        out[i] = np.sqrt((np.log(values) ** 2).sum(axis=1))
    return out


def airm_scipy(X, Y):
    """Generalised eigenvalues, a pair at a time."""
    return np.array(
        [[np.linalg.norm(np.log(linalg.eigvalsh(y, x, check_finite=False))) for y in Y] for x in X]
    )


def airm_pyriemann(X, Y):
    """pyRiemann's function broadcasts over pairs of stacks; a row at a time."""
    return np.stack([pyriemann.distance_riemann(x[None], Y) for x in X])


PEERS = {
    jbld_distances: {"NumPy slogdet": jbld_slogdet, "NumPy Cholesky": jbld_cholesky},
    airm_distances: {"NumPy eigvalsh": airm_eigvalsh, "SciPy eigvalsh": airm_scipy},
}
if pyriemann is not None:
    PEERS[jbld_distances]["pyRiemann"] = jbld_pyriemann
    PEERS[airm_distances]["pyRiemann"] = airm_pyriemann


# ---- rows --------------------------------------------------------------------------------------


def all_pairs(
    quick: bool, *, distance, p: int, n: int, times: float, times_cholesky: float | None = None
) -> Trial:
    """All pairs of two stacks."""
    n = 24 if quick else n
    stack = wishart(2 * n, p)
    X, Y = stack[:n], stack[n:]
    ours = distance.__name__
    sides = [
        Side(ours, lambda _: distance(X, Y)),
        Side(f"{ours}, one thread", lambda _: distance(X, Y, n_jobs=1)),
        *(
            Side(name, lambda _, peer=peer: peer(X, Y), peer=True)
            for name, peer in PEERS[distance].items()
        ),
    ]
    expected = next(iter(PEERS[distance].values()))(X, Y)

    def figures(m: Measured):
        return [
            Figure(f"{side.name}: a pair", m.median(side.name) / n**2 * 1e6, "us") for side in sides
        ]

    broadcast = [name for name in PEERS[distance] if name != "NumPy Cholesky"]
    targets = [
        Target(
            f"at least {times:g}x faster than the fastest of {', '.join(broadcast)}",
            lambda m: m.speedup(ours, *broadcast),
            at_least=times,
        )
    ]
    if times_cholesky is not None:
        targets.append(
            Target(
                f"at least {times_cholesky:g}x faster than NumPy Cholesky",
                lambda m: m.speedup(ours, "NumPy Cholesky"),
                at_least=times_cholesky,
            )
        )
    return Trial(
        sides,
        targets=targets,
        checks=[
            Check(
                "largest error over the largest distance",
                lambda results: {
                    name: np.max(np.abs(D - expected)) / np.max(expected)
                    for name, D in results.items()
                },
                limit=1e-11,
            )
        ],
        figures=figures,
        note=f"{n} by {n} covariances of {p} x {p}, each of {2 * p} Gaussian samples, float64.",
    )


row("jbld-23", "`jbld_distances`, 23 x 23, all pairs")(
    partial(all_pairs, distance=jbld_distances, p=23, n=300, times=30, times_cholesky=15)
)
row("jbld-5", "`jbld_distances`, 5 x 5, all pairs")(
    partial(all_pairs, distance=jbld_distances, p=5, n=1000, times=10, times_cholesky=10)
)
row("airm-23", "`airm_distances`, 23 x 23, all pairs")(
    partial(all_pairs, distance=airm_distances, p=23, n=100, times=10)
)


# ---- compression -------------------------------------------------------------------------------


def numpy_loss(X, labels, own, gamma):
    """The objective and its gradient as one would write them: broadcast, in blocks of rows."""

    def loss(B):
        P = B.transpose(0, 2, 1) @ B
        log_det = np.linalg.slogdet(P)[1]
        value, gradient = 0.0, np.zeros_like(P)
        for start in range(0, len(X), 64):
            sums = X[start : start + 64, None] + P
            right = labels[start : start + 64, None] == own
            scores = -(gamma**2) * (np.linalg.slogdet(sums / 2)[1] - log_det / 2)
            of_right = np.where(right, scores, -np.inf)
            value += (logsumexp(scores, axis=1) - logsumexp(of_right, axis=1)).sum()
            weights = softmax(of_right, axis=1) - softmax(scores, axis=1)
            gradient += np.einsum("nm,nmij->mij", weights, np.linalg.inv(sums))
            gradient -= weights.sum(axis=0)[:, None, None] * np.linalg.inv(P) / 2
        return value / len(X), 2 * gamma**2 / len(X) * (B @ gradient)

    return loss


def jax_loss(X, labels, own, gamma):
    """The objective compiled by JAX in double precision, with its automatic gradient.

    Blocks of 50 rows are computed again for the gradient, so that they need not be kept.
    """
    X, labels, own = jnp.asarray(X), jnp.asarray(labels), jnp.asarray(own)
    size = math.gcd(len(X), 50)
    blocks = X.reshape(-1, size, *X.shape[1:]), labels.reshape(-1, size)

    def log_det(A):
        factor = jnp.linalg.cholesky(A)
        return 2 * jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)

    def value(B):
        P = B.transpose(0, 2, 1) @ B
        own_log_det = log_det(P)

        @jax.checkpoint
        def block(rows):
            x, label = rows
            scores = -(gamma**2) * (log_det((x[:, None] + P) / 2) - own_log_det / 2)
            of_right = jnp.where(label[:, None] == own, scores, -jnp.inf)
            logs = jax.scipy.special.logsumexp
            return (logs(scores, axis=1) - logs(of_right, axis=1)).sum()

        return jax.lax.map(block, blocks).sum() / len(X)

    compiled = jax.jit(jax.value_and_grad(value))

    def loss(B):
        value, gradient = compiled(B)
        return float(value), np.asarray(gradient)

    return loss


def compression(quick: bool) -> Trial:
    """One evaluation of the objective and its gradient, of which training makes hundreds."""
    n, m, p = (60, 10, 23) if quick else (5000, 100, 23)
    stack = wishart(n, p)
    labels = np.arange(n) % 10
    stack *= (1 + 0.1 * labels)[:, None, None]
    own = labels[:m]
    B = np.linalg.cholesky(stack[:m]).transpose(0, 2, 1)
    losses = {
        "CovarianceCompressor": make_loss(stack, labels, own, 1.0, _peers.N_THREADS),
        "NumPy": numpy_loss(stack, labels, own, 1.0),
    }
    if jax is not None:
        losses["JAX, jit"] = jax_loss(stack, labels, own, 1.0)
    upper = np.triu_indices(p)
    sides = [
        Side(
            name,
            lambda _, loss=loss: loss(B),
            digest=lambda result: np.append(result[1][:, *upper].ravel(), result[0]),
            peer=name != "CovarianceCompressor",
        )
        for name, loss in losses.items()
    ]
    value, gradient = losses["NumPy"](B)
    expected = np.append(gradient[:, *upper].ravel(), value)
    return Trial(
        sides,
        targets=[
            Target(
                "at least 20x faster than the fastest peer",
                lambda m: m.speedup("CovarianceCompressor"),
                at_least=20,
            )
        ],
        checks=[
            Check(
                "largest error of loss and gradient",
                lambda results: {
                    name: np.max(np.abs(result - expected)) for name, result in results.items()
                },
                # Prototypes are kept from being singular by 1e-8.
                limit=1e-6,
            )
        ],
        note=f"{n:,} training matrices of {p} x {p}, {m} prototypes, 10 classes: the loss and its "
        "gradient once. JAX runs on the processor in double precision and is compiled before.",
    )


row("scc-loss", "`CovarianceCompressor`, loss and gradient")(compression)


# ---- pipelines ---------------------------------------------------------------------------------


def trials(n: int, p: int):
    """Covariances of trials of four classes: mixed channels, of which one is louder in each."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((p, p)) * np.logspace(0, -1.5, p)[:, None]
    y = np.arange(n) % 4
    signals = rng.standard_normal((n, p, 4 * p)) * (1 + 0.3 * rng.random((n, p, 1)))
    signals[np.arange(n), y % p] *= 1.5
    signals = mixing @ signals
    return signals @ signals.transpose(0, 2, 1) / (4 * p), y


def _works(X, y):
    """Return each work: ours, and that of pyRiemann where it is installed."""
    if pyriemann is None:
        return {
            "mean": (lambda: airm_mean(X), None),
            "tangent-fit": (lambda: TangentSpace().fit(X).reference_, None),
            "tangent": (partial(TangentSpace().fit(X).transform, X), None),
            "mdm-fit": (lambda: MDM().fit(X, y).means_, None),
            "mdm": (partial(MDM().fit(X, y).transform, X), None),
        }
    ours, theirs = TangentSpace().fit(X), pyriemann_tangent.TangentSpace("riemann").fit(X)
    nearest, their_nearest = MDM().fit(X, y), pyriemann_classification.MDM("riemann").fit(X, y)
    return {
        "mean": (lambda: airm_mean(X), lambda: pyriemann_mean.mean_riemann(X)),
        "tangent-fit": (
            lambda: TangentSpace().fit(X).reference_,
            lambda: pyriemann_tangent.TangentSpace("riemann").fit(X).reference_,
        ),
        "tangent": (partial(ours.transform, X), partial(theirs.transform, X)),
        "mdm-fit": (
            lambda: MDM().fit(X, y).means_,
            lambda: pyriemann_classification.MDM("riemann").fit(X, y).covmeans_,
        ),
        "mdm": (partial(nearest.transform, X), partial(their_nearest.transform, X)),
    }


def pipeline(quick: bool, *, work: str, p: int, n: int, times: float) -> Trial:
    """One step of a pipeline, learned or answering."""
    n = 40 if quick else n
    mine, theirs = _works(*trials(n, p))[work]
    sides = [Side("histrs", lambda _: mine())]
    if theirs is not None:
        sides.append(Side("pyRiemann", lambda _: theirs(), peer=True))
    expected = mine()

    def figures(m: Measured):
        return [
            Figure(f"{side.name}: a trial", m.median(side.name) / n * 1e6, "us") for side in sides
        ]

    return Trial(
        sides,
        targets=[
            Target(
                f"at least {times:g}x faster than pyRiemann",
                lambda m: m.speedup("histrs"),
                at_least=times,
            )
        ]
        if theirs is not None
        else [],
        checks=[
            Check(
                "largest difference over the largest value",
                lambda results: {
                    name: np.max(np.abs(found - expected)) / np.max(np.abs(expected))
                    for name, found in results.items()
                },
                # pyRiemann ends where a step is below 1e-8.
                limit=1e-6,
            )
        ],
        figures=figures,
        note=f"{n:,} covariances of {p} x {p} in four classes, Riemannian metric.",
    )


WORKS = {
    "mean": ("`airm_mean`", 5),
    "tangent-fit": ("`TangentSpace.fit`", 5),
    "tangent": ("`TangentSpace.transform`", 10),
    "mdm-fit": ("`MDM.fit`", 5),
    "mdm": ("`MDM`, distances to the means", 10),
}
for _p, _n in ((8, 2000), (16, 2000), (32, 1000), (64, 400)):
    for _work, (_title, _times) in WORKS.items():
        row(f"spd-{_work}-{_p}", f"{_title}, {_p} channels")(
            partial(pipeline, work=_work, p=_p, n=_n, times=_times)
        )


# ---- filters, and clusters ---------------------------------------------------------------------


@row("spd-csp-24", "`CSP.fit`, 24 channels")
def common_spatial_patterns(quick: bool) -> Trial:
    """All filters of four classes."""
    X, y = trials(40 if quick else 800, 24)
    means = np.stack([X[y == c].mean(axis=0) for c in range(4)])
    sides = [Side("histrs", lambda _: CSP(24).fit(X, y).filters_)]
    if pyriemann is not None:
        fit = pyriemann_filters.CSP(24).fit
        sides.append(Side("pyRiemann", lambda _: fit(X, y).filters_, peer=True))

    def criterion(W):
        D = W @ means @ W.T
        logs = np.log(np.diagonal(D, axis1=1, axis2=2)).sum(axis=1)
        return float(np.mean(logs - np.linalg.slogdet(D)[1]))

    best = criterion(CSP(24).fit(X, y).filters_)

    def above(results):
        # pyRiemann ends earlier.
        return {"histrs": criterion(results["histrs"]) - best}

    return Trial(
        sides,
        targets=[Target("at least 3x faster", lambda m: m.speedup("histrs"), at_least=3)],
        checks=[Check("criterion above the best", above, limit=1e-9)],
        note=f"{len(X):,} covariances of 24 x 24 in four classes.",
    )


@row("spd-kmeans-16", "`MetricKMeans`, 16 channels")
def clusters(quick: bool) -> Trial:
    """Three starts of four clusters."""
    X, _ = trials(40 if quick else 400, 16)
    fit = MetricKMeans(4, metric="airm", n_init=3, random_state=0).fit
    sides = [Side("histrs", lambda _: fit(X).cluster_centers_)]
    if pyriemann is not None:
        theirs = pyriemann_clustering.Kmeans(4, n_init=3, random_state=0).fit
        sides.append(Side("pyRiemann", lambda _: np.stack(theirs(X).centroids()), peer=True))

    def inertia(centres):
        return float(np.sum(airm_distances(X, centres).min(axis=1) ** 2))

    best = inertia(fit(X).cluster_centers_)
    return Trial(
        sides,
        targets=[Target("at least 3x faster", lambda m: m.speedup("histrs"), at_least=3)],
        checks=[
            Check(
                "sum of squares beside ours",
                lambda results: {k: inertia(v) / best - 1.0 for k, v in results.items()},
                limit=0.05,
            )
        ],
        note=f"{len(X):,} covariances of 16 x 16, Riemannian metric, three starts each.",
    )


# ---- recordings --------------------------------------------------------------------------------

PIPELINES = {
    "subjects out": ("CSP(12, airm) + logistic", lambda: CSP(12, metric="airm")),
    "sessions out": ("CSP + logistic", CSP),
}


def _recordings(quick: bool, task: str) -> list[Any]:
    """Return training and test matrices and labels of each group left out, recentred."""
    if quick:
        X, y = trials(120, 6)
        train, test = np.arange(80), np.arange(80, 120)
        return [(X[train], y[train], X[test], y[test])]
    data = quality_spd.load()
    parts = []
    for name, train, test, domain in quality_spd.splits(data):
        if name == task:
            rows = np.concatenate([train, test])
            X = Whitening().fit_transform(data.X[rows], domain=domain[rows])
            parts.append((X[: len(train)], data.y[train], X[len(train) :], data.y[test]))
    return parts


def recordings(quick: bool, *, task: str) -> Trial:
    """Fits for all groups left out; scores are means over the groups."""
    parts = _recordings(quick, task)
    ours, filters = PIPELINES[task]

    def fit(make: Any) -> list[Any]:
        with warnings.catch_warnings():
            # Of the peers, whose diagonalisation may end early.
            warnings.filterwarnings("ignore", module="sklearn|pyriemann")
            return [make().fit(A, a) for A, a, _, _ in parts]

    def scores(models: list[Any]) -> dict[str, float]:
        found = [
            (model.score(B, b), log_loss(b, model.predict_proba(B), labels=model.classes_))
            for model, (_, _, B, b) in zip(models, parts, strict=True)
        ]
        return dict(zip(("accuracy", "log loss"), np.mean(found, axis=0), strict=True))

    def pipeline_of_ours() -> Any:
        return make_pipeline(filters(), LogisticRegression(max_iter=1000))

    sides = [Side(ours, lambda _: fit(pipeline_of_ours), digest=scores)]
    for name, make in quality_spd.peers().items():
        sides.append(Side(name, lambda _, make=make: fit(make), digest=scores, peer=True))

    def best(m: Measured) -> str:
        return max(m.peers, key=lambda name: m.digests[name]["accuracy"])

    def table(m: Measured) -> Table:
        rows = [[s.name, *m.digests[s.name].values(), m.median(s.name) / len(parts)] for s in sides]
        return Table(["pipeline", "accuracy", "log loss", "seconds a fit"], rows)

    targets = [
        Target(
            "3x faster than the most accurate pipeline of pyRiemann",
            lambda m: m.speedup(ours, best(m)),
            at_least=3,
        ),
        Target(
            "accuracy above the best of pyRiemann's, in points",
            lambda m: 100 * (m.digests[ours]["accuracy"] - m.digests[best(m)]["accuracy"]),
            at_least=0,
            unit=" points",
        ),
        Target(
            "log loss over the least of pyRiemann's",
            lambda m: m.digests[ours]["log loss"] / min(m.digests[p]["log loss"] for p in m.peers),
            at_most=1,
        ),
    ]
    return Trial(
        sides,
        targets=targets if len(sides) > 1 else [],
        table=table,
        note=f"Steady-state visual evoked potentials (Kalunga et al., 2016), {task}: {len(parts)} "
        "fits. Each subject or session is first recentred by its own mean, for all pipelines.",
    )


row("spd-recordings-subjects", "EEG recordings, subjects out: fits of pipelines")(
    partial(recordings, task="subjects out")
)
row("spd-recordings-sessions", "EEG recordings, sessions out: fits of pipelines")(
    partial(recordings, task="sessions out")
)


# ---- the mean divergence, and covariances of signals ------------------------------------------


@row("jbld-mean-23", "`jbld_mean`, 23 x 23")
def mean_divergence(quick: bool) -> Trial:
    """The mean in the log-det divergence, to one error of the mean."""
    n = 40 if quick else 1000
    X = wishart(n, 23)
    exact = jbld_mean(X, tol=1e-13)
    sides = [Side("jbld_mean", lambda _: jbld_mean(X, tol=1e-7))]
    if pyriemann is not None:
        mean = partial(pyriemann_mean.mean_logdet, X, tol=1e-7)
        sides.append(Side("pyRiemann", lambda _: mean(), peer=True))

    def errors(results):
        return {
            name: np.linalg.norm(found - exact) / np.linalg.norm(exact)
            for name, found in results.items()
        }

    return Trial(
        sides,
        targets=[Target("at least 3x faster", lambda m: m.speedup("jbld_mean"), at_least=3)]
        if pyriemann is not None
        else [],
        checks=[Check("relative error of the mean", errors, limit=1e-6)],
        note=f"{n:,} covariances of 23 x 23, each of 46 Gaussian samples.",
    )


@row("covariances-scm", "`Covariances`, without shrinkage")
def covariances(quick: bool) -> Trial:
    """Sample covariances of trials, as of EEG."""
    n, p, n_times = (20, 22, 100) if quick else (1000, 22, 500)
    trials = np.random.default_rng(0).standard_normal((n, p, n_times))

    def einsum(_):
        centred = trials - trials.mean(axis=2, keepdims=True)
        return np.einsum("ipt,iqt->ipq", centred, centred, optimize=True) / n_times

    def matmul(_):
        centred = trials - trials.mean(axis=2, keepdims=True)
        return centred @ centred.transpose(0, 2, 1) / n_times

    def loop(_):
        return np.array([np.cov(trial, bias=True) for trial in trials])

    ours = "Covariances"
    sides = [
        Side(ours, lambda _: Covariances("scm").fit_transform(trials)),
        Side("NumPy einsum", einsum, peer=True),
        Side("NumPy matmul", matmul, peer=True),
        Side("NumPy cov, a trial at a time", loop, peer=True),
    ]
    if pyriemann is not None:
        peer = pyriemann_estimation.Covariances("scm")
        sides.append(Side("pyRiemann", lambda _: peer.fit_transform(trials), peer=True))
    expected = matmul(None)

    def errors(results):
        return {name: np.max(np.abs(found - expected)) for name, found in results.items()}

    return Trial(
        sides,
        targets=[Target("at least 3x faster", lambda m: m.speedup(ours), at_least=3)],
        checks=[Check("largest difference", errors, limit=1e-10)],
        note=f"{n:,} trials of {p} channels and {n_times} times, float64.",
    )
