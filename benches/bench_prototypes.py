"""Learned prototypes: training of histograms beside JAX, and what predictions gain."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches import _peers
from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.metrics import sinkhorn_distances
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import RandomSubset
from histrs.prototypes._transport_loss import TransportLoss

try:
    import jax
    import jax.numpy as jnp
except ImportError:  # a peer less
    jax = None

REG, GAMMA, TOL, BINS = 0.1, 3.0, 1e-4, 60
COLD = "HistogramCompressor, first pass"
WARM = "HistogramCompressor, later passes"
PEER = "JAX, jit, float32"
FULL, FEW = "MetricKNNClassifier, all samples", "prototypes"


def _problem(n: int, m: int) -> tuple[NDArray[Any], ...]:
    """Return histograms of ten classes over words, labels, prototypes and the words' distances."""
    rng = np.random.default_rng(0)
    words = rng.standard_normal((BINS, 5))
    M = np.linalg.norm(words[:, None] - words, axis=2)
    labels = np.arange(n) % 10
    profile = rng.gamma(1.0, size=(10, BINS))
    X = rng.gamma(0.5 + profile[labels]) + 0.01
    X = (X / X.sum(axis=1, keepdims=True)).astype(np.float32)
    weights = np.log(X[:m].astype(np.float64))
    return X, labels, weights, labels[:m], M / np.median(M)


def jax_loss(X: Any, labels: Any, own: Any, M: Any) -> Any:
    """Return the same loss with unaccelerated Sinkhorn iterations, all pairs of 50 rows at a time.

    The gradient is that of the dual with its variables held, so that no iteration is
    differentiated.
    """
    X, labels, own = jnp.asarray(X), jnp.asarray(labels), jnp.asarray(own)
    K = jnp.exp(jnp.asarray(-M / REG, dtype=jnp.float32))
    size = 50
    n, m = len(X), len(own)

    def potentials(a: Any, b: Any) -> tuple[Any, Any]:
        """Of columns: iterate until the L1 error of every pair is below the tolerance."""

        def step(state: Any) -> Any:
            u, _, _, count = state
            v = b / (K @ u)
            forward = K @ v
            error = jnp.abs(u * forward - a).sum(axis=0).max()
            return a / forward, v, error, count + 1

        def goes_on(state: Any) -> Any:
            return (state[2] > TOL) & (state[3] < 5000)

        _, v, _, _ = jax.lax.while_loop(goes_on, step, (jnp.ones_like(a), b, jnp.inf, 0))
        return jnp.log(a / (K @ v)), jnp.log(v)

    def own_potential(h: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            return jnp.sqrt(u * h / (K @ u)), None

        u, _ = jax.lax.scan(step, jnp.ones_like(h), None, length=50)
        return jnp.log(u)

    def value(weights: Any) -> Any:
        H = jax.nn.softmax(weights, axis=1)
        held = jax.lax.stop_gradient(H)
        own_costs = REG * (H * jax.lax.stop_gradient(own_potential(held.T)).T).sum(axis=1)

        def block(rows: Any) -> Any:
            x, label = rows
            a = jnp.repeat(x, m, axis=0).T
            f, g = jax.lax.stop_gradient(potentials(a, jnp.tile(held, (size, 1)).T))
            f, g = f.T.reshape(size, m, -1), g.T.reshape(size, m, -1)
            costs = REG * (jnp.einsum("id,ijd->ij", x, f) + jnp.einsum("jd,ijd->ij", H, g))
            scores = -(GAMMA**2) * (costs - own_costs)
            of_right = jnp.where(label[:, None] == own, scores, -jnp.inf)
            logs = jax.scipy.special.logsumexp
            return (logs(scores, axis=1) - logs(of_right, axis=1)).sum()

        blocks = X.reshape(n // size, size, -1), labels.reshape(n // size, size)
        return jax.lax.map(block, blocks).sum() / n

    compiled = jax.jit(jax.value_and_grad(value))

    def loss(weights: Any, rows: None) -> tuple[float, NDArray[Any]]:
        found, gradient = compiled(jnp.asarray(weights, dtype=jnp.float32))
        return float(found), np.asarray(gradient)

    return loss


@row("shc-loss", "`HistogramCompressor`, loss and gradient")
def histogram_compression(quick: bool) -> Trial:
    """One evaluation of the objective and its gradient, cold and from where the last one ended."""
    n, m = (100, 10) if quick else (5000, 100)
    X, labels, weights, own, M = _problem(n, m)
    options = {"M": M, "reg": REG, "gamma": GAMMA, "tol": TOL, "n_threads": _peers.N_THREADS}
    warm = TransportLoss(X, labels, own, **options)
    # A step of the size that training takes.
    step = 0.1 * np.sign(np.random.default_rng(1).standard_normal(weights.shape))
    warm(weights - step, None)
    kept = warm._starts.copy()

    def later(_: Any) -> Any:
        warm._starts[:] = kept
        return warm(weights, None)

    losses = {COLD: lambda _: TransportLoss(X, labels, own, **options)(weights, None), WARM: later}
    if jax is not None:
        peer = jax_loss(X, labels, own, M)
        losses[PEER] = lambda _: peer(weights, None)
    value, gradient = TransportLoss(X.astype(np.float64), labels, own, **{**options, "tol": 1e-9})(
        weights, None
    )
    expected = np.append(gradient.ravel(), value)
    sides = [
        Side(
            name,
            loss,
            digest=lambda result: np.append(result[1].ravel(), result[0]),
            peer=name == PEER,
        )
        for name, loss in losses.items()
    ]

    def differences(results: Any) -> Any:
        largest = np.max(np.abs(expected[:-1]))
        return {
            name: max(
                np.max(np.abs(found[:-1] - expected[:-1])) / largest,
                abs(found[-1] / expected[-1] - 1),
            )
            for name, found in results.items()
        }

    targets = []
    if jax is not None:
        targets.append(Target("20x faster than JAX", lambda m: m.speedup(WARM), at_least=20))

    def figures(measured: Measured) -> Any:
        return [
            Figure(f"{side.name}: a pair", measured.median(side.name) / (n * m) * 1e6, "us")
            for side in sides
        ]

    return Trial(
        sides,
        targets=targets,
        checks=[Check("largest relative error of loss and gradient", differences, limit=2e-2)],
        figures=figures,
        note=f"{n:,} histograms of {BINS} bins, {m} prototypes, 10 classes; regularisation a tenth "
        f"of the median of the Euclidean cost matrix, marginals to {TOL:g}, single precision. "
        "In later passes, transport starts from the result before a step of 0.1.",
    )


@row("prototype-prediction", "Prediction by prototypes beside all samples")
def prediction(quick: bool) -> Trial:
    """Sinkhorn distances to all training samples, and to a fiftieth of them."""
    n, n_queries = (100, 5) if quick else (2000, 1000)
    X, labels, _, _, M = _problem(n + n_queries, 1)
    X, queries, y = X[:n], X[n:], labels[:n]
    params = {"M": M, "reg": REG, "tol": TOL, "max_iter": 5000}

    def metric(X: Any, Y: Any, *, n_jobs: int | None) -> Any:
        """The distance alone, without bounds that spare some."""
        return sinkhorn_distances(X, Y, **params, n_jobs=n_jobs)

    full = MetricKNNClassifier(metric=metric).fit(X, y)
    few = RandomSubset(1 / 50 if not quick else 0.1, metric=metric, random_state=0).fit(X, y)
    ratio = n / len(few.prototype_labels_)
    return Trial(
        [
            Side(FULL, lambda _: full.predict(queries), peer=True),
            Side(FEW, lambda _: few.predict(queries)),
        ],
        targets=[
            Target(
                "speed-up within 10% of the compression",
                lambda m: m.speedup(FEW) / ratio,
                at_least=0.9,
            )
        ],
        checks=[
            Check(
                "fraction of queries without a class",
                lambda results: {
                    name: float(np.mean(~np.isin(found, y))) for name, found in results.items()
                },
                limit=0.0,
            )
        ],
        figures=lambda m: [Figure("compression", ratio), Figure("speed-up", m.speedup(FEW))],
        note=f"{n_queries:,} queries, {n:,} training samples of {BINS} bins, Sinkhorn distances.",
    )
