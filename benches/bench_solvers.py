"""Solvers of one system, as in figure 6 of Rodner et al. (2016)."""

from typing import Any

import numpy as np

from benches import _data
from benches._harness import Check, Figure, Measured, Side, Table, Target, Trial, row
from histrs.gaussian_process import IntersectionGPRegressor, Solver

NOISE = 0.1
SOLVERS = {
    "conjugate gradients, preconditioned": Solver("cg", max_iter=10_000),
    "conjugate gradients, unpreconditioned": Solver("cg", max_iter=10_000, preconditioner=None),
    "coordinate descent (Wu)": Solver("coordinate-descent", max_iter=10_000),
    "greedy blocks (Bo and Sminchisescu)": Solver("greedy-block", max_iter=10_000),
    "Cholesky": Solver("cholesky"),
}


def solvers(quick: bool) -> Trial:
    """One binary task, until no entry of the residual is above 1e-6."""
    n, d = (30, 20) if quick else (500, 784)
    tol = 1e-6
    data = _data.gamma_classes(n, d, 200)
    y = data.targets[:, 0]
    first, *others = SOLVERS

    def digest(model: IntersectionGPRegressor) -> dict[str, Any]:
        return {
            "residual": float(model.residual_[0]) / (tol * np.max(np.abs(y - y.mean()))),
            "n_iter": int(model.n_iter_[0]),
            "scores": model.predict(data.X_test),
        }

    def fit(solver: Solver):
        return lambda _: IntersectionGPRegressor(
            optimizer=None, **_data.KERNEL, noise=NOISE, tol=tol, solver=solver, random_state=0
        ).fit(data.X, y)

    def differences(results):
        exact = results["Cholesky"]["scores"]
        return {k: np.max(np.abs(r["scores"] - exact)) / tol for k, r in results.items()}

    def table(m: Measured) -> Table:
        rows = [[name, m.median(name), m.digests[name]["n_iter"]] for name in SOLVERS]
        return Table(["solver", "seconds", "iterations or passes"], rows)

    return Trial(
        sides=[
            Side(name, fit(parameters), digest=digest, peer=name != first)
            for name, parameters in SOLVERS.items()
        ],
        targets=[
            Target(
                "conjugate gradients, preconditioned, faster than coordinate descent",
                lambda m: m.speedup(first, others[1], others[2]),
                at_least=8,
            )
        ],
        checks=[
            Check(
                "largest entry of the residual, in tolerances",
                lambda results: {k: r["residual"] for k, r in results.items()},
                limit=1.0,
            ),
            Check(
                "largest difference of scores to Cholesky, in tolerances", differences, limit=100
            ),
        ],
        table=table,
        figures=lambda m: [
            Figure(f"{name} over {first}", m.median(name) / m.median(first), "x") for name in others
        ],
        note=f"{n:,} x {d}, one class against nine, noise {NOISE}: {data.source}. Whole fits, with "
        "sorting and preconditioner. The paper reports 3.7 s for conjugate gradients, 32 s for "
        "coordinate descent and 16 minutes for greedy blocks, on its own data. The ratio of the "
        "first two is about 8. An iteration of conjugate gradients is one product, and one of the "
        "others is a step in every row.",
    )


row("solvers", "GP solvers: one system of 500 x 784 to 1e-6")(solvers)
