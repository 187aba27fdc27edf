"""Models in files: the crate serves what Python fitted, with the same predictions."""

import io
import os
import pickle
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris

import histrs
from histrs.gaussian_process import (
    GPClassifier,
    GPRegressor,
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    TabularGPClassifier,
    TabularGPRegressor,
)
from histrs.gaussian_process.kernels import Interactions, Intersection, Radial, Splines

KERNELS = {
    "plain": Intersection(),
    "weights": Intersection(feature_weights=[0.2, 3.0, 1.0, 1e-3]),
    "power": Intersection(transform="power", exponent=0.4, feature_weights="scale"),
    "exponential": Intersection(transform="exponential", exponent=2.0, exponent_bounds="fixed"),
    "pairs": Intersection() + Interactions([(0, 1), (1, 3)]),
    "weighted pairs": Intersection(feature_weights="scale") + Interactions([(2, 3)]),
    "cubic": Splines(),
    "rough": Splines(rough_weight=0.5),
    "levels": Intersection(levels=8),
    "levels and pairs": Intersection(levels=16) + Interactions(2),
}


def data(rng, n=150, n_targets=None):
    X = rng.random((n, 4))
    X[:, 1] = rng.integers(0, 5, n)
    X[rng.random(n) < 0.3, 2] = 0.0
    f = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 3] + np.sqrt(X[:, 2]) + 30.0
    if n_targets is None:
        return X, f + 0.1 * rng.normal(size=n)
    return X, np.column_stack([f, 1e3 * X[:, 0], X[:, 1]])[:, :n_targets]


def beyond(rng, X):
    """Return rows between those of the fit, at them and beyond."""
    new = X.max(axis=0) * 1.5 * rng.random((60, X.shape[1]))
    return np.vstack([X[:40], new, np.zeros((1, X.shape[1])), 10.0 * new[:2]])


def saved(model, tmp_path):
    model.save(tmp_path / "model")
    return histrs.load(tmp_path / "model")


def assert_same(found, expected):
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    scale = max(1.0, float(np.max(np.abs(expected))))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("name", KERNELS)
def test_regressions_are_those_that_were_saved(rng, tmp_path, name):
    X, y = data(rng)
    model, new = GPRegressor(KERNELS[name]).fit(X, y), beyond(rng, X)
    assert_same(saved(model, tmp_path).predict(new), model.predict(new))


@pytest.mark.parametrize("name", KERNELS)
def test_probabilities_are_those_that_were_saved(rng, tmp_path, name):
    X, y = data(rng)
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    for of_rows in (labels, labels > 0):
        model = GPClassifier(KERNELS[name]).fit(X, of_rows)
        served, new = saved(model, tmp_path), beyond(rng, X)
        np.testing.assert_allclose(served.predict_proba(new), model.predict_proba(new), atol=1e-9)
        np.testing.assert_array_equal(served.predict(new), model.predict(new))
        assert served.classes_.dtype == model.classes_.dtype


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "softmax"])
def test_likelihoods_are_saved(rng, tmp_path, likelihood):
    X, y = data(rng, 300)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.6]))]
    model = IntersectionGPClassifier(likelihood=likelihood).fit(X, labels)
    np.testing.assert_allclose(
        saved(model, tmp_path).predict_proba(X), model.predict_proba(X), atol=1e-9
    )
    assert saved(model, tmp_path).predict(X[:9]).tolist() == model.predict(X[:9]).tolist()


def test_several_targets_and_their_shapes(rng, tmp_path):
    for n_targets in (1, 3):
        X, Y = data(rng, n_targets=n_targets)
        model = IntersectionGPRegressor().fit(X, Y)
        assert_same(saved(model, tmp_path).predict(X), model.predict(X))


def test_rows_in_every_form(rng, tmp_path):
    X, y = load_digits(return_X_y=True)
    model = IntersectionGPClassifier().fit(X[:500], y[:500])
    served, expected = saved(model, tmp_path), model.predict_proba(X[500:])
    for rows in (X[500:], X[500:].astype(np.uint8), sparse.csr_array(X[500:]), X[500:].tolist()):
        np.testing.assert_allclose(served.predict_proba(rows), expected, atol=1e-9)
    np.testing.assert_allclose(
        served.predict_proba(X[500:].astype(np.float32)), expected, atol=1e-9
    )
    again = pickle.loads(pickle.dumps(served))
    np.testing.assert_array_equal(again.predict_proba(X[500:]), served.predict_proba(X[500:]))


def test_names_are_kept(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = IntersectionGPClassifier().fit(X, y)
    served = saved(model, tmp_path)
    np.testing.assert_array_equal(served.feature_names_in_, model.feature_names_in_)
    np.testing.assert_array_equal(served.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        served.predict(X.rename(columns={X.columns[0]: "another"}))


def test_tables_of_bins_are_saved_exactly(rng, tmp_path):
    X, y = data(rng)
    exact = IntersectionGPRegressor().fit(X, y)
    binned = IntersectionGPRegressor(n_bins=16).fit(X, y)
    assert_same(saved(binned, tmp_path).predict(X), exact.predict(X))


def test_bad_rows_are_named(rng, tmp_path):
    X, y = data(rng)
    served = saved(IntersectionGPRegressor().fit(X, y), tmp_path)
    for bad, message in (
        (-1.0, r"X\[3, 1\] = -1: histograms are non-negative"),
        (np.nan, r"X\[3, 1\] = NaN"),
        (np.inf, "infinity"),
    ):
        rows = X.copy()
        rows[3, 1] = bad
        with pytest.raises(ValueError, match=message):
            served.predict(rows)
    with pytest.raises(ValueError, match="3 features"):
        served.predict(X[:, :3])
    with pytest.raises(AttributeError, match="predict_proba"):
        served.predict_proba(X)


def test_what_cannot_be_saved_is_said(rng, tmp_path):
    X, y = data(rng, 40)
    with pytest.raises(ValueError, match="not a sum of functions"):
        GPRegressor(Radial()).fit(X, y).save(tmp_path / "model")
    model = IntersectionGPClassifier(calibration=None, likelihood="gaussian")
    model.fit(X, y > np.median(y))
    with pytest.raises(ValueError, match="calibration"):
        model.save(tmp_path / "model")
    Y = np.column_stack([y, y])
    Y[0, 0] = np.nan
    with pytest.raises(ValueError, match="miss"):
        IntersectionGPRegressor().fit(X, Y).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_other_files_are_neither_read_nor_replaced(rng, tmp_path):
    X, y = data(rng, 40)
    model, path = IntersectionGPRegressor().fit(X, y), tmp_path / "file"
    histrs.streaming.Moments(3).save(path)
    for action in (lambda: histrs.load(path), lambda: model.save(path)):
        with pytest.raises(ValueError, match="holds no model of histrs"):
            action()
    path.unlink()
    model.save(path)
    model.save(path)
    with pytest.raises(FileNotFoundError):
        histrs.load(tmp_path / "nothing")


# ---- tables -------------------------------------------------------------------------------------


def table(rng, n=220):
    """Return a frame with all that columns hold, a target and classes."""
    size = rng.exponential(size=n) ** 2
    colour = rng.choice(["red", "green", "blue", "black"], n, p=[0.4, 0.3, 0.2, 0.1])
    X = pd.DataFrame(
        {
            "size": size,
            "colour": colour,
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(40.0, 9.0, n)),
            "good": rng.random(n) < 0.5,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )
    X.loc[rng.random(n) < 0.1, "colour"] = None
    f = np.sqrt(size) + (colour == "red") * X["good"] + 0.02 * X["age"].fillna(40.0)
    return X, np.asarray(f + 0.1 * rng.normal(size=n))


MEMBERS = pytest.mark.parametrize(
    "members", [["levels"], ["radial"], ["ranks"], ["levels", "radial", "ranks"]]
)


@MEMBERS
def test_tables_are_those_that_were_saved(rng, tmp_path, members):
    X, y = table(rng)
    new, _ = table(rng, 60)
    new.loc[0, "colour"] = "violet"
    given = {"members": members, "random_state": 0}
    model = TabularGPRegressor(target_transform="identity", **given).fit(X, y)
    assert_same(saved(model, tmp_path).predict(new), model.predict(new))
    for n_classes in (2, 3):
        labels = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
        model = TabularGPClassifier(**given).fit(X, labels)
        served = saved(model, tmp_path)
        np.testing.assert_allclose(served.predict_proba(new), model.predict_proba(new), atol=1e-9)
        np.testing.assert_array_equal(served.predict(new), model.predict(new))


@pytest.mark.parametrize("n", [60, 150])
@pytest.mark.parametrize("seed", range(3))
def test_the_members_of_few_rows_are_saved(seed, tmp_path, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 1e3, 1e-3]
    Y = np.column_stack([X[:, 0] + np.sin(X[:, 1]), 1e4 * X[:, 2]])
    new = 3.0 * rng.normal(size=(40, 3)) * [1.0, 1e3, 1e-3]
    for of_rows in (X, np.column_stack([X, np.where(X[:, 0] > 0, "a", "b")]).astype(object)):
        rows = new if of_rows is X else np.column_stack([new, ["a", "c"] * 20]).astype(object)
        model = TabularGPRegressor(target_transform="identity", random_state=0).fit(of_rows, Y)
        assert_same(saved(model, tmp_path).predict(rows), model.predict(rows))
    model = TabularGPClassifier(random_state=0).fit(X, Y[:, 0] > 0)
    np.testing.assert_allclose(
        saved(model, tmp_path).predict_proba(new), model.predict_proba(new), atol=1e-9
    )


def test_corrections_are_saved(rng, tmp_path):
    X = rng.normal(size=(700, 6))
    y = np.where(X.sum(axis=1) > 0.0, 1.0, 0.0) + 0.01 * rng.normal(size=700)
    Y = np.column_stack([y, 100.0 * y])
    model = TabularGPRegressor(members=["levels"], target_transform="identity").fit(X, Y)
    assert all(np.any(fit.blend.correction.added != 0.0) for fit in model._fits)
    new = rng.normal(size=(100, 6))
    assert_same(saved(model, tmp_path).predict(new), model.predict(new))


def test_updated_tables_are_saved(rng, tmp_path):
    X, y = table(rng, 300)
    model = TabularGPClassifier(random_state=0).fit(X[:200], y[:200] > 1.5)
    model.partial_fit(X[200:], y[200:] > 1.5)
    np.testing.assert_allclose(
        saved(model, tmp_path).predict_proba(X), model.predict_proba(X), atol=1e-9
    )


def test_what_tables_cannot_is_said(rng, tmp_path):
    X, y = table(rng)
    model = TabularGPRegressor(members=["levels"], target_transform="log").fit(X, y - y.min() + 1)
    with pytest.raises(ValueError, match='Fit with target_transform="identity"'):
        model.save(tmp_path / "model")
    model = TabularGPClassifier(members=["levels"]).fit(X, y > 1.5)
    served = saved(model, tmp_path)
    X.loc[3, "size"] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 0\] = NaN"):
        served.predict(X)
    with pytest.raises(ValueError, match="holds text"):
        served.predict(X.assign(size="large"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_a_crate_outside_the_workspace_serves_and_fits(tmp_path):
    X, y = load_digits(return_X_y=True)
    model = IntersectionGPClassifier().fit(X[:500], y[:500])
    model.save(tmp_path / "digits")
    root = Path(__file__).parents[1]
    manifest = root / "rust" / "outside" / "Cargo.toml"

    def run(name, *args, **kwargs):
        command = ["cargo", "run", "--quiet", "--manifest-path", manifest, "--bin", name]
        # Its packages are those of the workspace.
        shutil.copy(root / "Cargo.lock", manifest.parent)
        target = ["--target-dir", os.environ.get("CARGO_TARGET_DIR", root / "target")]
        done = subprocess.run(
            [*command, *target, "--", *args], check=True, capture_output=True, text=True, **kwargs
        )
        return done.stdout

    rows = "\n".join(",".join(map(str, row)) for row in X[500:520])
    found = np.loadtxt(io.StringIO(run("serve", tmp_path / "digits", input=rows)), delimiter=",")
    np.testing.assert_allclose(found, model.predict_proba(X[500:520]), atol=1e-9)
    assert float(run("fit")) < 0.02
