"""Online updates, beside a new fit."""

from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone

from benches import _data
from benches._harness import Check, Figure, Side, Target, Trial, row
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process.kernels import Constant, Intersection

NOISE = 0.1


def _copy(model: Any) -> Any:
    """Return a model that may change, with all that this one has made."""
    copied = clone(model)
    vars(copied).update(vars(model))
    return copied


def online(quick: bool) -> Trial:
    """A hundredth of the rows comes or goes; ten classes, hyper-parameters given."""
    n, d = (400, 300) if quick else (10_000, 784)
    m = n // 100
    tol = 1e-4

    @cache
    def data() -> _data.Classes:
        return _data.fashion_classes(n + m, 500) or _data.gamma_classes(n + m, d, 500)

    @cache
    def fitted(solver: str) -> IntersectionGPClassifier:
        model = IntersectionGPClassifier(
            optimizer=None, **_data.PAPER, noise=NOISE, solver=solver, tol=tol, random_state=0
        )
        return model.fit(data().X[:n], data().y[:n])

    def refit(solver: str):
        return lambda _: clone(fitted(solver)).fit(data().X, data().y)

    def add(solver: str):
        return lambda _: _copy(fitted(solver)).partial_fit(data().X[n:], data().y[n:])

    def forget(solver: str):
        return lambda _: _copy(fitted(solver)).forget(np.arange(m))

    def digest(model: IntersectionGPClassifier) -> dict[str, Any]:
        rows = model.X_fit_
        same = clone(model).set_params(solver="cholesky")
        # The rows that a model has, fitted at once; those that stay are the same for two solvers.
        exact = reference(len(rows), same)
        scores = model.decision_function(data().X_test)
        return {
            "difference": float(np.max(np.abs(scores - exact))) / tol,
            "n_iter": int(np.max(model.n_iter_)),
        }

    references: dict[int, np.ndarray] = {}

    def reference(size: int, model: IntersectionGPClassifier) -> np.ndarray:
        if size not in references:
            rows = slice(None) if size > n else slice(m, n)
            model.fit(data().X[rows], data().y[rows])
            references[size] = model.decision_function(data().X_test)
        return references[size]

    def target(solver: str, what: str) -> Target:
        return Target(
            f"{what} 1%, {solver}: time over that of a fit",
            lambda m: m.median(f"{what} 1%, {solver}") / m.median(f"fit, {solver}"),
            at_most=0.1,
        )

    solvers = ["cholesky", "cg"]
    return Trial(
        sides=[
            side
            for solver in solvers
            for side in (
                Side(f"fit, {solver}", refit(solver), digest=digest, peer=True),
                Side(f"add 1%, {solver}", add(solver), digest=digest),
                Side(f"forget 1%, {solver}", forget(solver), digest=digest),
            )
        ],
        targets=[target(solver, what) for solver in solvers for what in ("add", "forget")],
        checks=[
            Check(
                "largest difference of test scores to a Cholesky fit on the same rows, "
                "in tolerances",
                lambda results: {name: r["difference"] for name, r in results.items()},
                limit=100,
            )
        ],
        figures=lambda m: [
            Figure(f"iterations: {name}", m.digests[name]["n_iter"])
            for name in m.digests
            if name.endswith("cg")
        ],
        note=f"{n:,} x {data().X.shape[1]} in ten classes and {m} rows more, noise {NOISE}, "
        f"default tol: {data().source}. Every side has optimizer=None, so that a fit learns no "
        "hyper-parameters. With 'cg', an update keeps the columns and the preconditioner. New "
        "rows change the weights of all rows, which takes nearly as many iterations as a fit.",
    )


row("online", "GP online: 1% of 10,000 x 784 rows come or go, ten classes")(online)


def online_learned(quick: bool) -> Trial:
    """A hundredth of the rows comes or goes, beside a fit as by default."""
    n, d = (400, 6) if quick else (10_000, 30)
    m = n // 100
    function = _data.Additive(d)
    X, y = function.sample(n + m, seed=0)
    X_test, _ = function.sample(2000, seed=1)
    FIT, GIVEN, ADD, FORGET = "fit", "fit, hyper-parameters given", "add 1%", "forget 1%"

    @cache
    def fitted() -> IntersectionGPRegressor:
        return IntersectionGPRegressor(
            Intersection(feature_weights=None), solver="cg", random_state=0
        ).fit(X[:n], y[:n])

    def given() -> IntersectionGPRegressor:
        before = fitted()
        return IntersectionGPRegressor(
            Constant(before.amplitude_)
            * Intersection(feature_weights=None, intercept_variance=before.intercept_variance_),
            solver="cg",
            optimizer=None,
            noise=before.noise_,
            random_state=0,
        )

    def digest(model: IntersectionGPRegressor) -> np.ndarray:
        return model.predict(X_test)

    def differences(results):
        shrunk = digest(given().set_params(tol=1e-8).fit(X[m:n], y[m:n]))
        grown = digest(given().set_params(tol=1e-8).fit(X, y))
        spread = float(np.std(grown))
        pairs = {ADD: grown, GIVEN: grown, FORGET: shrunk}
        return {
            name: np.max(np.abs(results[name] - right)) / spread for name, right in pairs.items()
        }

    def share(name: str, of: str) -> Target:
        return Target(
            f"{name}: time over that of '{of}'",
            lambda m: m.median(name) / m.median(of),
            at_most=0.1,
        )

    return Trial(
        sides=[
            Side(FIT, lambda _: clone(fitted()).fit(X, y), digest=digest, peer=True),
            Side(ADD, lambda _: _copy(fitted()).partial_fit(X[n:], y[n:]), digest=digest),
            Side(FORGET, lambda _: _copy(fitted()).forget(np.arange(m)), digest=digest),
            Side(GIVEN, lambda _: given().fit(X, y), digest=digest, peer=True),
        ],
        targets=[share(name, of) for of in (FIT, GIVEN) for name in (ADD, FORGET)],
        checks=[
            Check(
                "largest difference of predictions to a fit to 1e-8, over their spread",
                differences,
                limit=1e-2,
            )
        ],
        note=f"{n:,} x {d} and {m} rows more, the smooth additive function of the benchmark of "
        "growth; `IntersectionGPRegressor(solver='cg')`, whose fit learns noise and amplitude. "
        "Updates do not change them.",
    )


row("online-learned", "GP online: 1% of 10,000 x 30 rows come or go, regression")(online_learned)
