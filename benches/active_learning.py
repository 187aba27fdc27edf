"""Which labels to ask for, by each strategy: ``python -m benches.active_learning``.

Printed is the table of ``docs/guide/active_learning.md``: accuracy on rows whose labels were not
asked for. It is the mean over 10, 20, ..., 100 labels and five runs, with its standard error.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from benches._data import CLASSES, fashion_images
from histrs.gaussian_process import IntersectionGPClassifier, active_learning

N_RUNS, N_LABELS, N_ROUNDS = 5, 10, 9
POOL, TEST = 1200, 1000

Images = tuple[NDArray[np.float64], NDArray[np.int64]]
Ask = Callable[[IntersectionGPClassifier, NDArray[np.float64], Images], NDArray[np.intp]]


def fashion() -> Images:
    """Return images of Fashion-MNIST, as many as are used."""
    images = fashion_images("train")
    if images is None:
        raise FileNotFoundError
    some = np.random.default_rng(0).permutation(len(images[0]))[: 2 * (POOL + TEST)]
    return images[0][some].astype(np.float64), images[1][some].astype(np.int64)


TABLES = {
    "scikit-learn's digits": CLASSES["digits"],
    "pixel counts of digits (mfeat)": CLASSES["mfeat_pixel"],
    "satimage": CLASSES["satimage"],
    "Fashion-MNIST": fashion,
}


def by(strategy: active_learning.Strategy) -> Ask:
    """Return a strategy of the package as a function of model, pool and what is labelled."""

    def ask(
        model: IntersectionGPClassifier, pool: NDArray[np.float64], labelled: Images
    ) -> NDArray[np.intp]:
        return active_learning.query(model, pool, strategy, n_instances=10, random_state=0)

    return ask


def margin(
    model: IntersectionGPClassifier, pool: NDArray[np.float64], labelled: Images
) -> NDArray[np.intp]:
    """Return the rows whose two most probable classes a logistic regression tells apart least."""
    peer = make_pipeline(MaxAbsScaler(), LogisticRegression(C=10.0, max_iter=2000))
    p = np.sort(peer.fit(*labelled).predict_proba(pool), axis=1)
    return np.argsort(p[:, -1] - p[:, -2])[:10]


WAYS: dict[str, Ask] = {
    "variance-reduction": by("variance-reduction"),
    "uncertainty": by("uncertainty"),
    "margin of a logistic regression": margin,
    "random": by("random"),
}


def run(X: NDArray[np.float64], y: NDArray[np.int64], ask: Ask, seed: int) -> float:
    """Return the mean accuracy along the way of one run."""
    order = np.random.default_rng(seed).permutation(len(X))
    pool, test = np.split(order[: POOL + TEST], [min(POOL, len(X) // 2)])
    labelled, rest = pool[:N_LABELS], pool[N_LABELS:]
    accuracies = []
    for step in range(N_ROUNDS + 1):
        model = IntersectionGPClassifier(noise=10.0, optimizer=None, random_state=0)
        model.fit(X[labelled], y[labelled])
        accuracies.append(model.score(X[test], y[test]))
        if step < N_ROUNDS:
            chosen = ask(model, X[rest], (X[labelled], y[labelled]))
            labelled = np.concatenate([labelled, rest[chosen]])
            rest = np.delete(rest, chosen)
    return float(100 * np.mean(accuracies))


def main() -> None:
    """Print a row for each data set."""
    print(f"| | {' | '.join(WAYS)} |")
    print(f"|---|{'--:|' * len(WAYS)}")
    for name, load in TABLES.items():
        try:
            X, y = load()
        except FileNotFoundError:
            print(f"{name}: not there (HISTRS_DATA)", flush=True)
            continue
        cells = []
        for ask in WAYS.values():
            means = [run(X, y, ask, seed) for seed in range(N_RUNS)]
            error = np.std(means, ddof=1) / np.sqrt(N_RUNS)
            cells.append(f"{np.mean(means):.1f} ± {error:.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
