"""Hyper-parameters learned by marginal likelihood: what a step and a whole search cost."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy import linalg

from benches import _data
from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection
from histrs.metrics import intersection_kernel

NOISE = 0.1
GIVEN, LEARNED = "fit, hyper-parameters given", "fit, noise and amplitude learned"
STEP = "likelihood and gradient by all weights"
EXACT = "exact likelihood without gradient, Gram + Cholesky"


def learning(quick: bool) -> Trial:
    """Ten classes: a fit, a search, and one step of a search over all feature weights."""
    n, d = (400, 300) if quick else (10_000, 784)

    @cache
    def data() -> _data.Classes:
        return _data.fashion_classes(n, 500) or _data.gamma_classes(n, d, 500)

    def classifier(**parameters: Any) -> IntersectionGPClassifier:
        return IntersectionGPClassifier(
            **{**_data.PAPER, **parameters}, noise=NOISE, solver="cg", random_state=0
        )

    def fit(**parameters: Any):
        return lambda data: classifier(**parameters).fit(data.X, data.y)

    @cache
    def weighted() -> IntersectionGPClassifier:
        """Return a model at its start whose weights are free."""
        model = classifier(optimizer=None).fit(data().X, data().y)
        bounds = {"feature_weights": (1e-5, 1e5)}
        ones = np.ones(data().X.shape[1])
        model.kernel_ = replace(model.kernel_, weights=ones, bounds=bounds)
        return model

    def step(_: Any) -> tuple[float, float]:
        model = weighted()
        value, gradient, std = model.log_marginal_likelihood(eval_gradient=True, return_std=True)
        assert gradient.shape == (2 + data().X.shape[1],)
        return value, std

    def exact(data: _data.Classes) -> tuple[float, float]:
        K = intersection_kernel(data.X)
        K[np.diag_indices_from(K)] += NOISE
        L = linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        alpha = linalg.cho_solve((L, True), data.targets, check_finite=False)
        determinant = 2 * np.sum(np.log(np.diag(L))) + len(K) * np.log(2 * np.pi)
        quadratic = np.sum(data.targets * alpha)
        return float(-(quadratic + data.targets.shape[1] * determinant) / 2), 0.0

    def digest(model: IntersectionGPClassifier) -> dict[str, float]:
        return {
            "accuracy": model.score(data().X_test, data().y_test),
            "noise": model.noise_,
            "amplitude": model.amplitude_,
        }

    def errors(results):
        value, std = results[STEP]
        return {STEP: abs(value - results[EXACT][0]) / std}

    def figures(m: Measured):
        found = [
            Figure(f"{name}: accuracy on the test rows", 100 * m.digests[name]["accuracy"], "%")
            for name in (GIVEN, LEARNED)
        ]
        value, std = m.digests[STEP]
        return [
            *found,
            Figure("learned noise", m.digests[LEARNED]["noise"]),
            Figure("learned amplitude", m.digests[LEARNED]["amplitude"]),
            Figure("log likelihood, estimate", value),
            Figure("log likelihood, standard error", std),
            Figure("log likelihood, exact", m.digests[EXACT][0]),
        ]

    return Trial(
        sides=[
            Side(GIVEN, fit(optimizer=None), data, digest),
            Side(LEARNED, fit(), data, digest),
            Side(STEP, step, weighted),
            Side(EXACT, exact, data, peer=True),
        ],
        targets=[
            Target(
                "a fit with noise and amplitude learned, over one with both given",
                lambda m: m.median(LEARNED) / m.median(GIVEN),
                at_most=3,
            ),
            Target(
                "a step with the gradient by all weights, over a fit",
                lambda m: m.median(STEP) / m.median(GIVEN),
                at_most=3,
            ),
            Target(
                "a step with gradient faster than the exact likelihood alone",
                lambda m: m.speedup(STEP, EXACT),
                at_least=1,
            ),
        ],
        checks=[Check("error of the estimate, in standard errors", errors, limit=4.0)],
        figures=figures,
        note=f"{n:,} rows of {data().source}, noise {NOISE} and amplitude 1 at first, default tol. "
        "The step has no earlier solution to start from.",
    )


row("learning", "Learned hyper-parameters: a search and a step beside a fit")(learning)


def relevance(quick: bool) -> Trial:
    """Twenty features of many matter; all weights are learned, by steps or by a search."""
    n, d, k = (150, 60, 5) if quick else (600, 2000, 20)
    signs = np.resize([1.0, -1.0], k)
    equal, steps, search = "equal weights", "steps of relevance", "search by likelihood"

    def sample(n_rows: int, seed: int) -> tuple[Any, Any]:
        X = np.random.default_rng(seed).random((n_rows, d))
        return X, np.abs(X[:, :k] - 0.2) @ signs

    @cache
    def train() -> tuple[Any, Any]:
        X, y = sample(n, 0)
        return X, y / y.std() + 0.2 * np.random.default_rng(1).standard_normal(n)

    def fit(**parameters: Any):
        kernel = 1 / d * Intersection(**parameters)
        return lambda data: IntersectionGPRegressor(kernel, random_state=0).fit(*data)

    def digest(model: IntersectionGPRegressor) -> dict[str, float]:
        X, y = sample(2000, 2)
        order = np.argsort(-model.feature_weights_, kind="stable")
        history = getattr(model, "optimization_history_", {"noise": []})
        return {
            "r2": model.score(X, y / sample(n, 0)[1].std()),
            "found": float(np.sum(order[:k] < k)),
            "evaluated": len(history["noise"]),
        }

    def figures(m: Measured):
        return [
            *(Figure(f"{x}: R2 on test rows", m.digests[x]["r2"]) for x in (equal, steps, search)),
            Figure("likelihoods evaluated by the search", m.digests[search]["evaluated"]),
            Figure("a likelihood", m.median(search) / m.digests[search]["evaluated"], "s"),
        ]

    return Trial(
        sides=[
            Side(equal, fit(), train, digest),
            Side(steps, fit(feature_weights="relevance"), train, digest),
            Side(search, fit(feature_weights="ard"), train, digest),
        ],
        targets=[
            Target(
                f"of the {k} features that matter, ranked first by {steps}",
                lambda m: m.digests[steps]["found"],
                at_least=k,
                unit="",
            ),
            Target(
                f"R2 gained by {steps}",
                lambda m: m.digests[steps]["r2"] - m.digests[equal]["r2"],
                at_least=0.2,
                unit="",
            ),
            Target(
                f"{steps} faster than the {search}", lambda m: m.speedup(steps, search), at_least=1
            ),
        ],
        figures=figures,
        note=f"{n:,} rows of {d:,} uniform features, of which {k} matter, alternately up and down; "
        "noise of a fifth of the function's standard deviation.",
    )


row("relevance", "Feature relevance, 20 of 2,000 features")(relevance)
