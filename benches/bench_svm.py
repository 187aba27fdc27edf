"""The intersection SVM, beside a linear model and beside a feature map with a linear model."""

import time
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benches import _data
from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.svm import BundleSVC, IntersectionSVC

# The margin is the better of 0.01 and 0.03 on 2,000 other training rows of Fashion-MNIST.
MARGIN, ETA0, MAX_ITER = 0.03, 0.1, 100
# Of the linear model on the map. With C = 10 and ten times the passes it is no more accurate.
C, PASSES = 1.0, 100
# Features of a value: sample_steps = 4 gives 7.
STEPS, INTERVAL = 4, 0.35
BUNDLE, LINEAR = 'BundleSVC(loss="logistic")', "LinearSVC"


def _model(coef: Any) -> IntersectionSVC:
    """Return a fitted model with these weights, as predicting is measured without training."""
    n_classes, d = coef.shape
    X = np.random.default_rng(1).random((max(2, n_classes), d))
    model = IntersectionSVC(max_iter=1, scale="none").fit(X, np.arange(len(X)))
    model.coef_, model.offset_ = coef, np.zeros(d)
    model.intercept_ = np.zeros(n_classes)
    return model


def scores(quick: bool, *, dtype: type, density: float, n_classes: int) -> Trial:
    """Scores of all classes beside the product with as many columns of weights."""
    n, d = (300, 100) if quick else (10_000, 784)
    if density < 1.0:
        X: Any = _data.sparse_values(n, d, density).astype(dtype)
    else:
        X = _data.gamma_values(n, d).astype(dtype)
    coef = np.random.default_rng(0).standard_normal((n_classes, d))
    model = _model(coef)
    W = np.ascontiguousarray(coef.T.astype(dtype))
    W = W[:, 0] if n_classes == 1 else W
    some = np.linspace(0, n - 1, 50, dtype=int)
    rows = np.asarray((X[some].toarray() if density < 1.0 else X[some]), dtype=np.float64)[:, None]
    expected = (np.sign(coef) * np.minimum(rows, np.abs(coef))).sum(axis=2)
    scale = np.minimum(rows, np.abs(coef)).sum(axis=2)
    ours = "decision_function"
    return Trial(
        sides=[
            Side(ours, lambda _: model.decision_function(X)),
            Side("X @ W", lambda _: X @ W, peer=True),
        ],
        targets=[Target("time over that of X @ W", lambda m: m.slowdown(ours), at_most=2)],
        checks=[
            Check(
                "error of some scores, relative to the sum of magnitudes",
                lambda results: {
                    ours: np.max(np.abs(results[ours].reshape(n, -1)[some] - expected) / scale)
                },
                limit=1e-12 if dtype is np.float64 else 1e-5,
            )
        ],
        figures=lambda m: [
            Figure(f"{name}: a row", m.median(name) / n * 1e6, "us") for name in (ours, "X @ W")
        ],
        note=f"{n:,} x {d}"
        + (f", {density:.0%} stored" if density < 1.0 else "")
        + f", {n_classes} weight vector{'s' if n_classes > 1 else ''}. The time of "
        "decision_function includes checks of the entries.",
    )


for _kind, _dtype, _density in (
    ("f64", np.float64, 1.0),
    ("f32", np.float32, 1.0),
    ("csr", np.float64, 0.1),
):
    for _n_classes in (1, 10):
        _title = {"f64": "dense, float64", "f32": "dense, float32", "csr": "CSR, 10% stored"}[_kind]
        row(
            f"svm-scores-{_kind}-{_n_classes}",
            f"`IntersectionSVC`, scores, {_title}, {_n_classes} class"
            + ("es" if _n_classes > 1 else ""),
        )(partial(scores, dtype=_dtype, density=_density, n_classes=_n_classes))


def beside_map(quick: bool) -> Trial:
    """Prediction, accuracy and size beside seven explicit features a value."""
    n, n_test = (300, 200) if quick else (4000, 10_000)
    data = _data.fashion_classes(n, n_test) or _data.gamma_classes(n, 784, n_test)
    fit_seconds = {}

    def fitted(name: str, model: Any) -> Any:
        start = time.perf_counter()
        model.fit(data.X, data.y)
        fit_seconds[name] = time.perf_counter() - start
        return model

    ours, theirs = "IntersectionSVC", "AdditiveChi2Sampler + LinearSVC"
    models = {
        ours: fitted(
            ours, IntersectionSVC(margin=MARGIN, eta0=ETA0, max_iter=MAX_ITER, random_state=0)
        ),
        theirs: fitted(
            theirs,
            make_pipeline(
                AdditiveChi2Sampler(sample_steps=STEPS, sample_interval=INTERVAL),
                LinearSVC(C=C, random_state=0, tol=0.1, max_iter=PASSES),
            ),
        ),
        "LinearSVC": fitted(
            "LinearSVC", make_pipeline(StandardScaler(), LinearSVC(C=0.01, random_state=0))
        ),
    }

    def accuracy(predicted: Any) -> float:
        return 100 * float(np.mean(predicted == data.y_test))

    sides = [
        Side(
            name,
            lambda _, model=model: model.predict(data.X_test),
            digest=accuracy,
            peer=name != ours,
        )
        for name, model in models.items()
    ]
    sizes = {ours: models[ours].coef_.size, theirs: models[theirs][-1].coef_.size}

    def figures(m: Measured) -> list[Figure]:
        return [
            *(Figure(f"{name}: accuracy", m.digests[name], "%") for name in models),
            *(Figure(f"{name}: fit", fit_seconds[name], "s") for name in models),
        ]

    return Trial(
        sides,
        targets=[
            Target(
                "faster than map and linear model", lambda m: m.speedup(ours, theirs), at_least=15
            ),
            Target(
                "weights stored, times fewer", lambda m: sizes[theirs] / sizes[ours], at_least=7
            ),
            Target(
                "accuracy below that with the map, in points",
                lambda m: m.digests[theirs] - m.digests[ours],
                at_most=1,
                unit=" points",
            ),
        ],
        figures=figures,
        note=f"{n:,} rows to train, {n_test:,} to test, of sum 1, {data.source}. margin = "
        f"{MARGIN} is the better of 0.01 and 0.03 on other training rows. The linear model on the "
        f"map has C = {C:g} and at most {PASSES} passes, and more passes do not help it.",
    )


row("svm-beside-map", "`IntersectionSVC` beside an explicit map of 7 features a value")(beside_map)


# ---- text -----------------------------------------------------------------------------------


@row("text", "20 Newsgroups by tf-idf, `BundleSVC` beside `LinearSVC`")
def text(quick: bool) -> Trial:
    """Fits of linear models of words; accuracies are of the later messages."""
    data = _data.gamma_classes(200, 50, 100, 0.3) if quick else _data.newsgroups()
    models = {BUNDLE: BundleSVC(alpha=1e-5, loss="logistic"), LINEAR: LinearSVC(C=0.5)}
    words = TfidfTransformer(sublinear_tf=True).fit(data.X)

    def side(name: str) -> Side:
        def run(_: Any) -> Any:
            return models[name].fit(words.transform(data.X), data.y)

        def accuracy(model: Any) -> float:
            return float(model.score(words.transform(data.X_test), data.y_test))

        return Side(name, run, digest=accuracy, peer=name == LINEAR)

    def figures(m: Measured) -> list[Figure]:
        return [Figure(f"{name}, accuracy", m.digests[name] * 100, "%") for name in models]

    return Trial([side(name) for name in models], figures=figures, note=data.source)


SQUARED = 'BundleSVC(loss="squared_hinge")'


def hashed_text(quick: bool, *, n_columns: int) -> Trial:
    """The same objective on rows whose columns are nearly all empty."""
    data = _data.gamma_classes(200, 50, 100, 0.3) if quick else _data.newsgroups()
    rng = np.random.default_rng(0)
    rows = rng.permutation(data.X.shape[0])[:2000]
    places = rng.permutation(n_columns)[: data.X.shape[1]]
    n = len(rows)
    words = TfidfTransformer(sublinear_tf=True).fit_transform(data.X[rows]).tocoo()
    entries = (words.data, (words.row, places[words.col]))
    X = sparse.csr_matrix(entries, shape=(n, n_columns))
    y = np.where(data.y[rows] < len(np.unique(data.y)) / 2, 1, -1)
    C = 1.0
    models = {
        SQUARED: BundleSVC(alpha=1 / (C * n), loss="squared_hinge", tol=1e-3),
        LINEAR: LinearSVC(C=C),
    }

    def objective(model: Any) -> float:
        margins = np.maximum(0.0, 1.0 - y * model.decision_function(X))
        penalty = np.sum(np.square(model.coef_)) + np.sum(np.square(model.intercept_))
        return float(0.5 * penalty + C * np.sum(np.square(margins)))

    def excess(results: dict[str, float]) -> dict[str, float]:
        return {name: value / min(results.values()) - 1 for name, value in results.items()}

    return Trial(
        [
            Side(
                name, lambda _, model=model: model.fit(X, y), digest=objective, peer=name == LINEAR
            )
            for name, model in models.items()
        ],
        targets=[Target("time over that of LinearSVC", lambda m: m.slowdown(SQUARED), at_most=5)],
        checks=[Check("objective over the least, minus 1", excess, limit=2e-3)],
        note=f"{n:,} messages of 20 Newsgroups by tf-idf, the first ten groups against the others; "
        f"columns are sent at random to {n_columns:,}. C = {C:g}.",
    )


for _bits in (17, 20):
    row(f"text-hashed-{_bits}", f"`BundleSVC`, words hashed to 2^{_bits} columns")(
        partial(hashed_text, n_columns=2**_bits)
    )
