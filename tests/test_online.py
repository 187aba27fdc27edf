"""Online updates, against the exact solution for the rows that there are."""

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from histrs._calibration import fit_calibration
from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import PivotedCholesky
from histrs.gaussian_process import (
    GPClassifier,
    GPRegressor,
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPClassifier,
    Solver,
    _classifier,
)
from histrs.gaussian_process.kernels import Interactions, Intersection, MinMax, Radial
from histrs.testing import histograms
from tests.helpers import (
    PLAIN,
    assert_close,
    awkward_histograms,
    build,
    build_plain,
    dense,
    solvers,
)
from tests.oracles import intersection as oracle

pytestmark = pytest.mark.simd_paths

SOLVERS = {"auto": {}, **solvers(tol=1e-10)}
KERNELS = {
    "plain": {},
    "power, weights": {
        "feature_transform": "power",
        "exponent": 0.5,
        "feature_weights": [2, 0.5, 1],
    },
}
MODELS = [IntersectionGPClassifier, IntersectionGPRegressor]
each_model = pytest.mark.parametrize("model_class", MODELS)
each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
NOISE, AMPLITUDE = 0.3, 0.7
ADD_FLAWS = {
    "nan": r"X\[1, 2\] = NaN",
    "negative": r"X\[1, 2\] = -1",
    "columns": "expecting 3 features",
    "labels": "numbers and strings|targets of earlier calls",
    "lengths": "inconsistent numbers of samples",
    "empty": "0 sample",
}


def make(model_class, **parameters):
    return build(model_class, **{**PLAIN, "noise": NOISE, "amplitude": AMPLITUDE, **parameters})


def features(X, kernel):
    """What the kernel takes minima of."""
    return np.asarray(kernel.get("feature_weights", 1.0)) * X ** kernel.get("exponent", 1.0)


def exact_weights(X, Y):
    K = AMPLITUDE * oracle.intersection_kernel(X) + NOISE * np.eye(len(X))
    return np.linalg.solve(K, Y)


def state(model):
    """Everything that the model holds, each thing by its identity."""
    return {name: id(value) for name, value in vars(model).items()}


def data(model_class, rng, n_rows):
    X = awkward_histograms(rng, n_rows)
    if model_class is IntersectionGPRegressor:
        return X, X[:, 0] + rng.normal(size=n_rows)
    return X, np.resize(["ash", "birch", "oak"], n_rows)


# ---- any sequence of adds and removes ----------------------------------------------------------


class Online(RuleBasedStateMachine):
    """A model that rows come to and go from, beside the list of its rows."""

    @initialize(
        model_class=st.sampled_from(MODELS),
        solver=st.sampled_from(list(SOLVERS)),
        kernel=st.sampled_from(list(KERNELS)),
        sparse_first=st.booleans(),
        n_targets=st.integers(0, 2),
        rows=histograms((2, 9), 3, format="dense", dtype=np.float64),
        seed=st.integers(0, 99),
    )
    def begin(self, model_class, solver, kernel, sparse_first, n_targets, rows, seed):
        self.rng = np.random.default_rng(seed)
        self.is_classifier = model_class is IntersectionGPClassifier
        self.n_targets = n_targets
        self.kernel = KERNELS[kernel]
        self.model = make(model_class, **SOLVERS[solver], **self.kernel)
        self.X = np.empty((0, 3))
        self.y = self.targets(0)
        y = self.targets(len(rows))
        if self.is_classifier:
            y[:2] = ["ash", "oak"]
        self.insert(sparse.csr_array(rows) if sparse_first else rows, y)

    def targets(self, n):
        if self.is_classifier:
            return self.rng.choice(["ash", "birch", "oak", "yew"], size=n).astype("U9")
        return self.rng.normal(3.0, size=(n, self.n_targets) if self.n_targets else n)

    def insert(self, X, y):
        assert self.model.partial_fit(X, y) is self.model
        self.X = np.concatenate([self.X, dense(X)])
        self.y = np.concatenate([self.y, y])

    def remove(self, rows):
        order = self.rng.permutation(rows)
        assert self.model.forget(order) is self.model
        self.X, self.y = np.delete(self.X, rows, axis=0), np.delete(self.y, rows, axis=0)

    @rule(rows=histograms((1, 6), 3, format="any", scale=st.sampled_from([0.01, 1.0, 20.0])))
    def add(self, rows):
        self.insert(rows, self.targets(rows.shape[0]))

    @rule(copies=st.integers(1, 3))
    def add_rows_again(self, copies):
        X = np.repeat(self.X[-1:], copies, axis=0)
        self.insert(X.astype(np.float32).astype(np.float64), self.targets(copies))

    @rule(part=st.sampled_from([0.0, 0.1, 0.5, 0.9]))
    def forget(self, part):
        rows = np.flatnonzero(self.rng.random(len(self.X)) < part)
        left = np.delete(self.y, rows, axis=0)
        if len(left) >= 1 and (not self.is_classifier or len(np.unique(left)) >= 2):
            self.remove(rows)

    @precondition(lambda self: self.is_classifier and len(np.unique(self.y)) > 2)
    @rule()
    def forget_a_class(self):
        label = self.rng.choice(np.unique(self.y))
        self.remove(np.flatnonzero(self.y == label))
        assert label not in self.model.classes_

    @rule()
    def pickle(self):
        self.model = pickle.loads(pickle.dumps(self.model))

    @rule(flaw=st.sampled_from(["nan", "negative", "columns", "labels", "lengths", "empty"]))
    def fail_to_add(self, flaw):
        X, y = np.ones((2, 3)), self.targets(2)
        match flaw:
            case "nan":
                X[1, 2] = np.nan
            case "negative":
                X[1, 2] = -1.0
            case "columns":
                X = np.ones((2, 4))
            case "labels":
                y = np.array([1, 2]) if self.is_classifier else np.ones((2, 7))
            case "lengths":
                y = y[:1]
            case "empty":
                X, y = X[:0], y[:0]
        before = state(self.model)
        with pytest.raises(ValueError, match=ADD_FLAWS[flaw]):
            self.model.partial_fit(X, y)
        assert state(self.model) == before

    @rule(flaw=st.sampled_from(["behind", "negative", "twice", "all", "float"]))
    def fail_to_forget(self, flaw):
        n = len(self.X)
        indices, message = {
            "behind": ([0, n], rf"indices\[1\] = {n} is not a training row"),
            "negative": ([-1], r"indices\[0\] = -1 is not a training row"),
            "twice": ([0, 0], "row 0 twice"),
            "all": (list(range(n)), "would be forgotten"),
            "float": ([0.0], "must be one integer or a sequence"),
        }[flaw]
        before = state(self.model)
        with pytest.raises(ValueError, match=message):
            self.model.forget(indices)
        assert state(self.model) == before

    @invariant()
    def equals_a_fit_on_the_same_rows(self):
        model = self.model
        # Rows that came together and are equal, targets too, are one.
        learned = model._given.learned
        np.testing.assert_array_equal(dense(model.X_fit_)[learned], self.X)
        if self.is_classifier:
            classes, Y = oracle.one_vs_all_targets(self.y)
            np.testing.assert_array_equal(model.classes_, classes)
            Y = Y[:, 1:] if len(classes) == 2 else Y
        else:
            Y = self.y.reshape(len(self.y), -1)
            assert_close(model.y_mean_, Y.mean(axis=0), 1e-12)
            Y = Y - Y.mean(axis=0)
        expected = exact_weights(features(self.X, self.kernel), Y)
        scale = np.max(np.abs(Y), initial=0.0) / NOISE
        together = np.zeros_like(model.dual_coef_)
        np.add.at(together, learned, expected)
        np.testing.assert_allclose(model.dual_coef_, together, rtol=0, atol=1e-6 * scale)


Online.TestCase.settings = settings(max_examples=25, stateful_step_count=10, deadline=None)
TestOnline = Online.TestCase


SMOOTH = {"smoothness": "both", "slope_weight": 2.0, "rough_weight": 0.6}
REGRESSIONS = {
    "functions": {"intercept_variance": 0.0},
    "intercept": {"intercept_variance": 2.5},
    "cubic": {"smoothness": "cubic", "slope_weight": 2.0},
    "cubic and rough": SMOOTH,
}
CLASSIFICATIONS = {
    "logits": {"likelihood": "bernoulli"},
    "softmax": {"likelihood": "softmax"},
    "smooth labels": {**SMOOTH, "likelihood": "gaussian"},
    "smooth logits": {**SMOOTH, "likelihood": "bernoulli"},
}
KINDS = REGRESSIONS | CLASSIFICATIONS


@pytest.mark.parametrize("weighted", ["none", "all", "further"])
@pytest.mark.parametrize(
    ("kind", "solver"),
    [("functions", solver) for solver in SOLVERS]
    + [(kind, solver) for kind in list(KINDS)[1:] for solver in ("cholesky", "cg")],
)
def test_rows_that_come_and_go_leave_a_fit_of_the_others(rng, kind, solver, weighted):
    if (kind, solver) == ("softmax", "cg"):
        pytest.skip("a softmax is factorised")
    model_class = MODELS[kind in REGRESSIONS]
    X, others = rng.random((60, 3)), rng.random((9, 3))
    X[::7, 0] = 0.0
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=60)
    if kind in CLASSIFICATIONS:
        y = np.digitize(y, np.quantile(y, [0.3, 0.7] if kind == "softmax" else [0.6]))
    kept = np.delete(np.arange(60), [3, 5, 50])
    w = np.ones(60) if weighted == "none" else rng.choice([0.05, 0.5, 1.0, 3.0], 60)
    w[:40] = w[:40] if weighted == "all" else 1.0
    # Weights count in the unit of the first fit, which is that of all rows.
    w[40:] *= (57 * w[:40].mean() - w[kept[:38]].sum()) / w[kept[38:]].sum()

    def made(unit=1.0):
        given = {**SOLVERS.get(solver, {"solver": solver}), **KINDS[kind], "variance": "exact"}
        given |= {"noise": unit * NOISE, "amplitude": unit * AMPLITUDE, "tol": 1e-10}
        return build(model_class, optimizer=None, feature_weights=[1.0, 0.5, 2.0], **given)

    model = made().fit(X[:40], y[:40], w[:40] if weighted == "all" else None)
    model.latent_mean_and_variance(others)
    model.partial_fit(X[40:], y[40:], sample_weight=None if weighted == "none" else w[40:])
    model.forget([3, 5, 50])
    unit = 1.0
    if kind in REGRESSIONS:
        # Noise and amplitude stay those of the first fit, in its unit.
        unit = model.y_std_[0] ** 2 / np.cov(y[kept], aweights=w[kept], ddof=0)
    expected = made(unit).fit(X[kept], y[kept], w[kept]).latent_mean_and_variance(others)
    for one in (model, pickle.loads(pickle.dumps(model))):
        for found, wanted in zip(one.latent_mean_and_variance(others), expected, strict=True):
            assert_close(found, wanted, 1e-5)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("kernel", [Intersection(levels=9), Intersection()], ids=str)
def test_rows_that_leave_again_change_nothing(rng, kernel, classes):
    X, y = rng.random((60, 5)), rng.normal(size=60)
    X[:, 1] = rng.integers(0, 3, 60)
    y = y > 0.5 if classes else y
    model = (GPClassifier if classes else GPRegressor)(
        kernel + Interactions([(0, 1), (3, 0)]), optimizer=None, tol=1e-9
    ).fit(X, y)
    before = model.latent_mean_and_variance(X)
    model.partial_fit(X[:7] + 0.01, y[:7])
    assert not np.allclose(model.latent_mean_and_variance(X)[1], before[1], rtol=1e-3)
    model.forget(np.arange(60, 67))
    for one in (model, pickle.loads(pickle.dumps(model))):
        for found, expected in zip(one.latent_mean_and_variance(X), before, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


# ---- what is carried over ----------------------------------------------------------------------


def remember(monkeypatch, *targets):
    calls = []
    for owner, name in targets:
        original = getattr(owner, name)

        def counted(*args, original=original, name=name, **kwargs):
            calls.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)
    return calls


@each_model
def test_factors_are_carried_over(model_class, rng, monkeypatch):
    X, y = data(model_class, rng, 120)
    model = make(model_class, solver="cholesky").fit(X[:100], y[:100])
    system = type(model._posterior.system)
    made = remember(monkeypatch, (system, "kernel_matrix"))
    model.partial_fit(X[100:], y[100:]).forget([3, 50, 119]).predict(X, return_std=True)
    assert made == []
    model.forget(np.arange(90)).predict(X, return_std=True)
    assert made == ["kernel_matrix"]


# ---- details -----------------------------------------------------------------------------------


@each_model
@each_solver
def test_the_first_call_is_fit(model_class, solver, rng):
    X, y = data(model_class, rng, 40)
    model = build(model_class, **solver)
    fitted = clone(model).fit(X, y)
    model.partial_fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, fitted.dual_coef_)
    assert model.noise_ == fitted.noise_ != 0.1
    learned = model.noise_, model.amplitude_
    model.set_params(noise=5.0).partial_fit(X, y).forget([1])
    assert (model.noise_, model.amplitude_) == learned


@each_model
def test_tables_and_variances_follow(model_class, rng):
    X, y = data(model_class, rng, 60)
    parameters = {"n_bins": 7, "tol": 1e-10}
    model = make(model_class, **parameters).fit(X[:40], y[:40])
    unit = 1.0
    if model_class is IntersectionGPRegressor:
        # Noise and amplitude stay those of the first fit, in its unit.
        unit = float(np.var(y[:40]) / np.var(y[10:]))
    parameters |= {"noise": unit * NOISE, "amplitude": unit * AMPLITUDE}
    expected = make(model_class, **parameters).fit(X[10:], y[10:])
    model.latent_mean_and_variance(X)
    model.partial_fit(X[40:], y[40:]).forget(range(10))
    for variance in ("exact", "fine", "coarse", "coarse-quantized"):
        model.set_params(variance=variance), expected.set_params(variance=variance)
        found = model.latent_mean_and_variance(X)
        for actual, value in zip(found, expected.latent_mean_and_variance(X), strict=True):
            assert_close(actual, value, 1e-6)
    assert_close(model.quantization_error_bound_, expected.quantization_error_bound_, 1e-6)


def test_declared_classes_stay_without_rows(rng):
    X, y = data(IntersectionGPClassifier, rng, 30)
    model = make(IntersectionGPClassifier).partial_fit(X, y, classes=["yew", "ash", "birch", "oak"])
    np.testing.assert_array_equal(model.classes_, ["ash", "birch", "oak", "yew"])
    assert np.all(model.decision_function(X)[:, 3] <= 0)
    model.forget(np.flatnonzero(y == "oak"))
    np.testing.assert_array_equal(model.classes_, ["ash", "birch", "oak", "yew"])
    with pytest.raises(ValueError, match=r"y\[0\] = 'elm' is neither in classes"):
        model.partial_fit(X[:1], ["elm"], classes=["fir"])
    model.partial_fit(X[:1], ["elm"])
    assert len(model.classes_) == 5
    model.forget([len(model.Y_fit_) - 1])
    assert len(model.classes_) == 4
    model.fit(X, y)
    np.testing.assert_array_equal(model.classes_, ["ash", "birch", "oak"])


CLASSIFIERS = {
    "factorised": lambda: make(IntersectionGPClassifier, solver="cholesky"),
    "by iterations": lambda: make(IntersectionGPClassifier, solver="cg", tol=1e-10),
    "softmax": lambda: latent("softmax"),
    "bernoulli": lambda: latent("bernoulli"),
    "radial": lambda: GPClassifier(Radial("gaussian", 1.0), optimizer=None),
    "counts": lambda: MinMaxGPClassifier(MinMax(0.0), optimizer=None),
}


def latent(likelihood):
    kernel = Intersection(feature_weights=None)
    return IntersectionGPClassifier(kernel, likelihood=likelihood, optimizer=None, tol=1e-10)


@pytest.mark.parametrize("classifier", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_rows_that_came_one_by_one_are_calibrated_as_those_of_a_fit(rng, classifier):
    X = np.floor(8.0 * rng.random((120, 6))) + np.arange(120)[:, None] / 1000.0
    y = np.resize(["ash", "birch", "oak"], 120)
    model = classifier().fit(X[:80], y[:80])
    for part in np.split(np.arange(80, 120), 8):
        model.partial_fit(X[part], y[part])
    logits = classifier().fit(X, y).decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), logits, rtol=0, atol=1e-6)
    model.forget(np.arange(90, 120))
    logits = classifier().fit(X[:90], y[:90]).decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), logits, rtol=0, atol=1e-6)


def test_a_calibration_is_learned_when_somebody_asks(rng, monkeypatch):
    made = []

    def calibrate(*arguments, **options):
        made.append(1)
        return fit_calibration(*arguments, **options)

    monkeypatch.setattr(_classifier, "fit_calibration", calibrate)
    X, y = data(IntersectionGPClassifier, rng, 120)
    model = make(IntersectionGPClassifier).fit(X[:100], y[:100])
    assert len(made) == 1
    for k in range(100, 120):
        model.partial_fit(X[k : k + 1], y[k : k + 1]).latent_mean_and_variance(X)
    assert len(made) == 1
    P = model.predict_proba(X)
    labels, matrix = model.predict(X), model.calibration_.matrix
    assert len(made) == 2
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), P)
    np.testing.assert_array_equal(copy.predict(X), labels)
    assert len(made) == 2
    # What was not asked for before is learned by a copy.
    later = pickle.loads(pickle.dumps(model.forget([0])))
    assert_close(later.calibration_.matrix, model.calibration_.matrix, 1e-9)
    assert not np.array_equal(model.calibration_.matrix, matrix)
    assert model.partial_fit(X[:1], ["yew"]).calibration_.matrix.shape == (4, 4)


def test_a_calibration_comes_and_goes_with_the_parameter(rng):
    X, y = data(IntersectionGPClassifier, rng, 60)
    model = make(IntersectionGPClassifier).fit(X[:50], y[:50])
    model.set_params(calibration=None).partial_fit(X[50:51], y[50:51])
    assert not hasattr(model, "calibration_")
    np.testing.assert_array_equal(model.decision_function(X), model.latent_mean_and_variance(X)[0])
    model.set_params(calibration="leave-one-out").partial_fit(X[51:52], y[51:52])
    anew = make(IntersectionGPClassifier).fit(X[:52], y[:52])
    assert_close(model.predict_proba(X), anew.predict_proba(X), 1e-6)


def test_new_classes_have_the_scales_of_the_last(rng):
    X, y = data(IntersectionGPClassifier, rng, 40)
    noise, amplitude = [0.1, 0.2, 0.3], [1.0, 2.0, 3.0]
    model = make(
        IntersectionGPClassifier, noise=noise, amplitude=amplitude, shared_hyperparameters=False
    ).fit(X, y)
    model.partial_fit(X[:2], ["yew", "zelkova"])
    assert model.noise_.tolist() == [*noise, 0.3, 0.3]
    assert model.amplitude_.tolist() == [*amplitude, 3.0, 3.0]
    model.forget(np.append(np.flatnonzero(y == "ash"), [40, 41]))
    assert (model.noise_, model.amplitude_) == (0.1, 1.0)


# ---- the unit of targets -------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 1e150, 1e300])
def test_targets_are_in_units_of_their_spread(rng, weighted, scale):
    X, Y = rng.random((30, 2)), rng.normal([1.0, 0.0, -2.0], size=(30, 3))
    Y[:, 1] = 0.3
    weights = rng.uniform(0.2, 3.0, 30) if weighted else None
    model = make(IntersectionGPRegressor).fit(X, scale * Y, weights)
    mean = np.average(Y, axis=0, weights=weights)
    std = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(model.y_mean_, scale * mean, rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_allclose(model.y_std_[[0, 2]], scale * std[[0, 2]], rtol=1e-12)
    # A target of one value has no spread, and is predicted as it is.
    assert model.y_std_[1] == pytest.approx(max(0.3e-14 * scale, np.finfo(float).tiny))
    assert model.y_mean_[1] == scale * 0.3
    np.testing.assert_array_equal(model.predict(X)[:, 1], scale * 0.3)


def test_one_class_can_come_first():
    model = build_plain(IntersectionGPClassifier)
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.partial_fit([[1.0]], [0])
    model.partial_fit([[1.0]], [0], classes=[0, 1])
    assert model.predict([[1.0]]) == 0
    model.partial_fit([[5.0]], [1])
    np.testing.assert_array_equal(model.predict([[1.0], [5.0]]), [0, 1])


@each_model
def test_rows_without_weights_behind_weighted_ones_weigh_one(model_class, rng):
    X, y = data(model_class, rng, 30)
    weights = rng.uniform(0.5, 2.0, 20)
    model, same = (make(model_class).fit(X[:20], y[:20], weights) for _ in range(2))
    model.partial_fit(X[20:], y[20:])
    same.partial_fit(X[20:], y[20:], sample_weight=np.ones(10))
    expected = np.append(weights, np.ones(10))
    for each in (model, same):
        np.testing.assert_allclose(each.sample_weight_fit_[each._given.learned], expected)
    np.testing.assert_array_equal(model.dual_coef_, same.dual_coef_)
    model.forget([4, 25])
    learned = model.sample_weight_fit_[model._given.learned]
    np.testing.assert_allclose(learned, np.delete(expected, [4, 25]))


@each_model
def test_stopping_early_warns(model_class, rng):
    X, y = data(model_class, rng, 60)
    model = make(model_class, solver="cg", preconditioner=None).fit(X[:50], y[:50])
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations") as record:
        model.set_params(
            tol=1e-12, solver=Solver("cg", max_iter=1, preconditioner=None)
        ).partial_fit(X[50:], y[50:])
    assert record[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations") as record:
        model.forget([0])
    assert record[0].filename == __file__


@each_model
@pytest.mark.parametrize("name", ["knots", "pivoted Cholesky"])
def test_preconditioners_are_carried_over(model_class, name, rng, monkeypatch):
    X, y = data(model_class, rng, 200)
    model = make(model_class, **SOLVERS[name]).fit(X[:150], y[:150])
    made = remember(monkeypatch, (Knots, "__init__"), (PivotedCholesky, "__init__"))
    for start in (150, 160, 170):
        model.partial_fit(X[start : start + 10], y[start : start + 10])
        model.forget([0, 7, 30])
    assert made == []
    batch = make(model_class, **SOLVERS[name]).fit(model.X_fit_, y_of(model))
    assert made == ["__init__"]
    # As good as a new one, nearly.
    assert np.max(model.n_iter_) <= np.max(batch.n_iter_) + 10
    # Half as many rows again, and other knots or pivots would suit better.
    model.partial_fit(X[:180], y[:180])
    assert len(made) == 2


def y_of(model):
    if isinstance(model, IntersectionGPRegressor):
        return model.Y_fit_[:, 0] + model.y_mean_
    return model.classes_[np.argmax(model.Y_fit_, axis=1)]


@pytest.mark.parametrize(
    ("first", "further"),
    [
        (np.array(["a", "b"], dtype=object), [7]),
        (["a", "b"], [7]),
        ([1, 2], np.array(["x"], dtype=object)),
        ([True, False], ["a"]),
    ],
)
def test_labels_of_another_kind_are_refused(rng, first, further):
    X = rng.random((20, 3))
    model = make(IntersectionGPClassifier).fit(X, np.resize(first, 20))
    before = state(model)
    with pytest.raises(ValueError, match="Labels are numbers and strings: give"):
        model.partial_fit(X[:1], further)
    assert state(model) == before
    model.partial_fit(X[:1], np.resize(first, 1))


# ---- what is refused -----------------------------------------------------------------------------

X, Y = np.random.default_rng(0).random((12, 2)), np.random.default_rng(1).normal(size=(12, 2))
REGRESSOR, CLASSIFIER = (partial(make, model_class) for model_class in MODELS[::-1])

REFUSED = [
    ("Scale y down", REGRESSOR().fit(X, 1e-200 * Y[:, 0]), "partial_fit", (X, 1e200 * Y[:, 0])),
    *[(rf"y has shape {shape}, .* earlier calls \(12, 2\)", REGRESSOR().fit(X, Y), "partial_fit",
       (X, wrong)) for wrong, shape in ((Y[:, 0], r"\(12,\)"), (Y[:, :1], r"\(12, 1\)"))],
    (r"y has shape \(5, 1\), .* earlier calls \(12,\)", REGRESSOR().fit(X, Y[:, 0]), "partial_fit",
     (X[:5], Y[:5, :1])),
    ("entries of row 12 of X sum to", REGRESSOR().fit(X, Y[:, 0]), "partial_fit",
     (np.full((1, 2), 1e300), [1.0])),
    ("balanced", CLASSIFIER(class_weight="balanced"), "partial_fit", (X, np.arange(12) % 2)),
    ("at least 2 classes", CLASSIFIER().fit([[1.0], [2.0], [3.0]], [0, 1, 1]), "forget", ([0],)),
    *[("not fitted", model(), "forget", ([0],)) for model in (REGRESSOR, CLASSIFIER)],
]  # fmt: skip


@pytest.mark.parametrize(("message", "model", "method", "arguments"), REFUSED)
def test_what_is_bad_is_named_and_changes_nothing(message, model, method, arguments):
    before = state(model)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(*arguments)
    assert state(model) == before
