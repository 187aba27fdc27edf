"""How good linear answers on histograms are: ``python -m benches.quality_svm``.

On nine real sets, with defaults alone: maps of `histrs` before a linear model, its support vector
machines, and what scikit-learn offers. Words are tested on later texts, the others on a quarter of
the rows drawn at random. Written are ``docs/quality_svm.md`` and
``benches/results/quality_svm.json``.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, LinearSVC

from benches._data import data_folder, fashion_images, newsgroups, numbers
from benches._harness import ROOT
from histrs.kernel_approximation import AdditiveChi2Map, ExpChi2Sampler, SparseAdditiveMap
from histrs.metrics import additive_chi2_kernel, intersection_kernel
from histrs.streaming import PCARidgeClassifier
from histrs.svm import BundleSVC, IntersectionSVC

PAGE = ROOT / "docs" / "quality_svm.md"
RESULTS = ROOT / "benches" / "results" / "quality_svm.json"
# Rows of a set, drawn at random where there are more, and words that are kept.
MOST_ROWS = 4000
WORDS = 2000

Model = Callable[[], Any]


class Split(NamedTuple):
    """Rows to learn from and rows to predict."""

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]


def divided(X: Any, y: NDArray[Any], seed: int = 0) -> Split:
    """Hold out a quarter of the rows, of each class its part."""
    rows = np.random.default_rng(seed).permutation(len(y))[:MOST_ROWS]
    parts = train_test_split(X[rows], y[rows], random_state=seed, stratify=y[rows])
    return Split(parts[0], parts[2], parts[1], parts[3])


def words() -> Split:
    """Return counts of the most frequent words of 20 Newsgroups, divided by date."""
    data = newsgroups()
    X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test
    frequent = np.sort(np.argsort(-np.asarray((X > 0).sum(axis=0)))[:WORDS])
    random = np.random.default_rng(0)
    train, test = (random.permutation(len(labels))[:MOST_ROWS] for labels in (y, y_test))
    parts = X[train][:, frequent], y[train], X_test[test[: MOST_ROWS // 3]][:, frequent]
    return Split(*parts, y_test[test[: MOST_ROWS // 3]])


def leaves(kind: str) -> Split:
    """Return histograms of the margin or the texture of leaves of 100 species."""
    path = data_folder() / "leaves100" / f"data_{kind}_64.txt"
    table = np.genfromtxt(path, delimiter=",", dtype=str)
    return divided(table[:, 1:].astype(float), np.unique(table[:, 0], return_inverse=True)[1])


def gradients() -> Split:
    """Return histograms of the directions of light in 4 x 4 parts of images of clothes."""
    images = fashion_images("t10k")
    if images is None:
        raise FileNotFoundError("fashion_mnist")
    pixels, y = images[0].astype(float).reshape(-1, 28, 28), images[1]
    along_y, along_x = np.gradient(pixels, axis=(1, 2))
    strength = np.hypot(along_x, along_y)
    turn = np.arctan2(along_y, along_x) / (2 * np.pi) % 1.0
    direction = np.minimum((8 * turn).astype(int), 7)
    found = [
        np.where(direction == k, strength, 0.0).reshape(-1, 4, 7, 4, 7).sum(axis=(2, 4))
        for k in range(8)
    ]
    return divided(np.stack(found, axis=-1).reshape(len(y), -1), y)


SETS: dict[str, Callable[[], Split]] = {
    "20 Newsgroups": words,
    "leaf margins": lambda: leaves("Mar"),
    "leaf textures": lambda: leaves("Tex"),
    "satimage": lambda: divided(*numbers("pmlb/satimage")),
    "mfeat_pixel": lambda: divided(*numbers("pmlb/mfeat_pixel")),
    "analcatdata_authorship": lambda: divided(*numbers("pmlb/analcatdata_authorship")),
    "letter": lambda: divided(*numbers("pmlb/letter")),
    "digits": lambda: divided(*datasets.load_digits(return_X_y=True)),
    "Fashion-MNIST, gradients": gradients,
}


def _roots() -> FunctionTransformer:
    return FunctionTransformer(np.sqrt, accept_sparse=True)


class MeanSum(TransformerMixin, BaseEstimator):
    """Divides rows by the mean sum of a training row, so that kernels are about 1."""

    def fit(self, X: Any, y: Any = None) -> "MeanSum":
        """Learn the mean sum."""
        self.mean_ = float(np.asarray(X.sum(axis=1)).mean())
        return self

    def transform(self, X: Any) -> Any:
        """Divide."""
        return X / self.mean_


class MeanEntry(MeanSum):
    """Divides entries by the mean entry of the training rows."""

    def fit(self, X: Any, y: Any = None) -> "MeanEntry":
        """Learn the mean entry."""
        self.mean_ = float(X.mean())
        return self


OURS: dict[str, Model] = {
    "IntersectionSVC": lambda: IntersectionSVC(random_state=0),
    'IntersectionSVC, scale="spread"': lambda: IntersectionSVC(scale="spread", random_state=0),
    "AdditiveChi2Map + LinearSVC": lambda: make_pipeline(MeanSum(), AdditiveChi2Map(), LinearSVC()),
    "AdditiveChi2Map(3) + LinearSVC": lambda: make_pipeline(
        MeanSum(), AdditiveChi2Map(3), LinearSVC()
    ),
    "BundleSVC, SparseAdditiveMap": lambda: make_pipeline(
        MeanSum(), BundleSVC(SparseAdditiveMap())
    ),
    "BundleSVC": lambda: make_pipeline(MeanSum(), BundleSVC()),
    "ExpChi2Sampler(1000) + PCARidge": lambda: make_pipeline(
        ExpChi2Sampler(1000, random_state=0), PCARidgeClassifier()
    ),
    'same, gamma="auto"': lambda: make_pipeline(
        ExpChi2Sampler(1000, gamma="auto", random_state=0), PCARidgeClassifier()
    ),
}
PEERS: dict[str, Model] = {
    "LinearSVC": LinearSVC,
    "square roots + LinearSVC": lambda: make_pipeline(_roots(), LinearSVC()),
    "AdditiveChi2Sampler + LinearSVC": lambda: make_pipeline(
        MeanSum(), AdditiveChi2Sampler(), LinearSVC()
    ),
    "SVC, intersection": lambda: make_pipeline(MeanSum(), SVC(kernel=intersection_kernel)),
    "SVC, chi-square": lambda: make_pipeline(MeanSum(), SVC(kernel=additive_chi2_kernel)),
}


# Those of the guides to support vector machines and to moments, and their data sets.
WITH_PROBABILITIES: dict[str, Model] = {
    "IntersectionSVC": lambda: IntersectionSVC(probability=True, random_state=0),
    "PCARidgeClassifier, calibrate=None": lambda: make_pipeline(
        _roots(), MeanEntry(), PCARidgeClassifier(calibrate=None)
    ),
    "PCARidgeClassifier": lambda: make_pipeline(_roots(), MeanEntry(), PCARidgeClassifier()),
    "logistic regression": lambda: make_pipeline(
        _roots(), MeanEntry(), LogisticRegression(max_iter=1000)
    ),
}
PROBABILITY_SETS = ["analcatdata_authorship", "digits", "satimage", "mfeat_pixel", "leaf margins"]


def probabilities(splits: Iterator[tuple[str, Split]]) -> list[str]:
    """Return a table of log losses and accuracies of models with probabilities."""
    lines = [
        f"| | {' | '.join(WITH_PROBABILITIES)} |",
        "|---" * (len(WITH_PROBABILITIES) + 1) + "|",
    ]
    for name, split in splits:
        cells = []
        for make in WITH_PROBABILITIES.values():
            P = (model := make().fit(split.X, split.y)).predict_proba(split.X_test)
            accuracy = np.mean(model.predict(split.X_test) == split.y_test)
            cells.append(f"{log_loss(split.y_test, P):.3f}, {accuracy:.1%}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def judge(model: Any, split: Split) -> dict[str, float]:
    """Return the accuracy and the times of a model."""
    start = time.perf_counter()
    model.fit(split.X, split.y)
    fitted = time.perf_counter()
    labels = model.predict(split.X_test)
    end = time.perf_counter()
    return {
        "accuracy": float(np.mean(labels == split.y_test)),
        "fit": fitted - start,
        "predict": (end - fitted) / len(labels),
    }


def measure(
    splits: Iterator[tuple[str, Split]], models: dict[str, Model], log: Callable[[str], None]
) -> dict[str, Any]:
    """Return the scores of every model on every set."""
    found: dict[str, Any] = {}
    for name, split in splits:
        found[name] = scores = {}
        for model, make in models.items():
            with warnings.catch_warnings():
                # Defaults of scikit-learn stop early on some sets, and ours at a certified gap.
                warnings.simplefilter("ignore", ConvergenceWarning)
                scores[model] = judge(make(), split)
        log(f"{name}: " + ", ".join(f"{k} {v['accuracy']:.3f}" for k, v in scores.items()))
    return found


def page(found: dict[str, Any]) -> str:
    """Return the page of all scores."""
    models = list(dict.fromkeys(model for scores in found.values() for model in scores))
    lines = [
        "# Quality of linear classifiers on histograms",
        "",
        "The table shows accuracies in percent, with default parameters, on raw counts, fractions "
        "or values. If the objective of a model depends on the units, rows are divided by their "
        "mean sum. The test rows of 20 Newsgroups are later texts. From each other data set, at "
        "most 4,000 rows are drawn, and a quarter of these are test rows. The time is the sum of "
        "the fits, on a machine that did other work as well. `python -m benches.quality_svm` "
        "measures all of this again.",
        "",
        "| | " + " | ".join(found) + " | mean | fit, s |",
        "|---" + "|--:" * (len(found) + 2) + "|",
    ]
    for model in models:
        runs = [scores.get(model) for scores in found.values()]
        cells = ["" if run is None else f"{100 * run['accuracy']:.1f}" for run in runs]
        there = [run for run in runs if run is not None]
        mean = 100 * np.mean([run["accuracy"] for run in there])
        seconds = sum(run["fit"] for run in there)
        lines.append(f"| {model} | " + " | ".join(cells) + f" | {mean:.1f} | {seconds:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true", help="make the page from the results")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    every = OURS | PEERS
    parser.add_argument("--models", nargs="+", choices=every, help="rows; others stay as they are")
    parser.add_argument("--probabilities", action="store_true", help="only print log losses")
    options = parser.parse_args()
    if options.probabilities:
        splits = ((name, SETS[name]()) for name in PROBABILITY_SETS)
        print("\n".join(probabilities(splits)))
        return
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if not options.render:
        for name in options.sets:
            split = iter([(name, SETS[name]())])
            models = {model: every[model] for model in options.models or every}
            new = measure(split, models, lambda line: print(line, flush=True))
            found[name] = found.get(name, {}) | new[name]
            RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
