"""Gaussian processes against the exact solution by Cholesky factorisation, and scikit-learn's."""

import pickle
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from histrs import _progress
from histrs.gaussian_process import Bins, IntersectionGPClassifier, IntersectionGPRegressor, Solver
from histrs.gaussian_process._bound import scores as _score
from histrs.gaussian_process._systems import system as _system
from histrs.testing import count_matrices, histograms
from tests.helpers import (
    CONTAINERS,
    PLAIN,
    ExactGP,
    assert_close,
    awkward_histograms,
    build,
    build_plain,
    dense,
    of_terms,
    solvers,
    standardised,
)
from tests.oracles import intersection as oracle

pytestmark = pytest.mark.simd_paths

MODELS = [IntersectionGPClassifier, IntersectionGPRegressor]
SOLVERS = solvers()
each_model = pytest.mark.parametrize("model_class", MODELS)
each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


class Problem(NamedTuple):
    """A model class with data for it, and the exact solution."""

    model_class: Callable
    X: np.ndarray
    X_star: np.ndarray
    y: np.ndarray
    targets: np.ndarray  # (N, outputs), centred
    offset: np.ndarray  # what centring took away

    def exact(self, noise=0.1, amplitude=1.0):
        return ExactGP.of(self.X, self.targets, noise, amplitude)

    def as_output(self, means):
        """Outputs as the estimator shapes them: one for two classes, or for a single target."""
        single = self.y.ndim == 1 and means.shape[1] == 1
        return means[:, 0] if single else means

    def scores(self, model, X):
        name = "predict" if self.model_class is IntersectionGPRegressor else "decision_function"
        return getattr(model, name)(X)


# Products of many outputs are mostly in single precision.
TARGETS = {"target": 1, "targets": 3, "many targets": 11}


def make_problem(kind, rng, n_rows=60):
    X, X_star = awkward_histograms(rng, n_rows), awkward_histograms(rng, 25)
    X_star[1:4] = X[5:8]
    X_star[4] *= 3.0  # beyond the training values
    if kind in TARGETS:
        outputs = TARGETS[kind]
        Y = 5.0 + standardised(np.sin(3 * X[:, :1]) + 0.1 * rng.normal(size=(n_rows, outputs)))
        y = Y[:, 0] if kind == "target" else Y
        offset = Y.mean(axis=0)
        return Problem(IntersectionGPRegressor, X, X_star, y, Y - offset, offset)
    labels = ["ash", "oak"] if kind == "two classes" else ["ash", "birch", "oak", "yew"]
    y = rng.permutation(np.resize(labels, n_rows))
    y[: n_rows // 2] = np.take(labels, (X[: n_rows // 2, 0] > 1).astype(int))
    # Of equal rows of one class, one would be learned from.
    y[n_rows // 3] = labels[1] if y[0] == labels[0] else labels[0]
    _, targets = oracle.one_vs_all_targets(y)
    targets = targets[:, 1:] if kind == "two classes" else targets
    # The posterior itself decides.
    model_class = partial(IntersectionGPClassifier, calibration=None)
    return Problem(model_class, X, X_star, y, targets, np.zeros(targets.shape[1]))


@pytest.fixture(params=["two classes", "classes", *TARGETS])
def problem(request, rng):
    return make_problem(request.param, rng)


@pytest.fixture
def several_targets(rng):
    return make_problem("targets", rng)


# ---- the exact solution ------------------------------------------------------------------------


@each_solver
@pytest.mark.parametrize("container", ["C", "CSR array"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_the_exact_solution(problem, solver, container, dtype):
    X, X_star = (CONTAINERS[container](M.astype(dtype)) for M in (problem.X, problem.X_star))
    model = build_plain(problem.model_class, noise=0.2, amplitude=0.5, tol=1e-8, **solver).fit(
        X, problem.y
    )
    exact = problem.exact(noise=0.2, amplitude=0.5)

    assert_close(model.dual_coef_, exact.alpha, 1e-6)
    for M, name in [(X_star, "test rows"), (X, "training rows")]:
        mean = problem.as_output(exact.mean(dense(M)) + problem.offset)
        variance = exact.latent_variance(dense(M))
        assert_close(problem.scores(model, M), mean, 1e-6)

        latent_mean, latent_variance = model.latent_mean_and_variance(M)
        prediction, std = model.predict(M, return_std=True)
        if problem.model_class is IntersectionGPRegressor:
            variance = np.broadcast_to(variance[:, None], (*variance.shape, mean[0].size))
            variance = variance.reshape(mean.shape)
            assert_close(prediction, mean, 1e-6)
        np.testing.assert_array_equal(latent_mean, problem.scores(model, M), err_msg=name)
        assert_close(latent_variance, variance, 1e-6)
        assert_close(std, np.sqrt(variance + 0.2), 1e-6)
        np.testing.assert_array_equal(prediction, model.predict(M))


@each_solver
@given(data=st.data())
def test_agrees_with_the_exact_solution_on_any_histograms(solver, data):
    n_columns = data.draw(st.integers(1, 20))
    kinds = {"dtype": st.sampled_from([np.float32, np.float64]), "format": "any"}
    scale = data.draw(st.sampled_from([1.0, "tiny", "huge", "mixed"]))
    X = data.draw(histograms((1, 40), n_columns, normalize="max", scale=scale, **kinds))
    X_star = data.draw(histograms((1, 9), n_columns, normalize="l1", **kinds))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    y = rng.normal(size=(X.shape[0], 2))
    if len(y) > 1:
        y = 5.0 + standardised(y)

    model = build_plain(IntersectionGPRegressor, tol=1e-10, **solver).fit(X, y)
    exact = ExactGP.of(X, y - y.mean(axis=0), noise=0.1)
    mean, variance = model.latent_mean_and_variance(X_star)
    assert_close(mean, exact.mean(X_star) + y.mean(axis=0), 1e-6)
    prior = dense(X_star).astype(np.float64).sum(axis=1)
    # Of one row in the unit of rounding.
    variance = variance[:, 0] / model.y_std_[0] ** 2
    error = np.abs(variance - exact.latent_variance(X_star))
    assert (error <= 1e-6 * prior.max()).all()


@pytest.mark.parametrize("shape", [(30,), (30, 1), (30, 4)])
def test_regressor_keeps_the_shape_of_its_targets(rng, shape):
    X, y = rng.random((30, 2)), rng.normal(size=shape)
    model = build_plain(IntersectionGPRegressor).fit(X, y)
    mean, std = model.predict(X[:7], return_std=True)
    _, variance = model.latent_mean_and_variance(X[:7])
    assert mean.shape == std.shape == variance.shape == (7, *shape[1:])
    assert model.dual_coef_.shape == (30, *(shape[1:] or (1,)))
    assert model.n_iter_.shape == model.residual_.shape == model.y_mean_.shape
    assert 0.0 < model.score(X, y) < 1.0


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [3, -1, 7], [True, False], np.array(["a", "b", "c"], dtype=object), [0.0, 2.0]],
)
def test_classifier_takes_any_labels(rng, labels):
    X, y = rng.random((30, 2)), np.resize(labels, 30)
    # Labels that have nothing to do with the rows: only the posterior itself repeats them.
    parameters = {**PLAIN, "noise": 1e-3, "amplitude": 100.0, "calibration": None}
    model = build(IntersectionGPClassifier, **parameters).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    np.testing.assert_array_equal(model.predict(X), y)
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) == 1.0


# ---- the solver says what it did ---------------------------------------------------------------


def true_residual(problem, model):
    K = model.amplitude_ * oracle.intersection_kernel(problem.X)
    fitted = K @ model.dual_coef_ + model.noise * model.dual_coef_
    return np.abs(problem.targets - fitted).max(axis=0)


@each_solver
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e8, 1e16, 1e40])
def test_residual_is_the_true_one(several_targets, solver, scale):
    problem = several_targets._replace(X=scale * several_targets.X)
    model = build_plain(problem.model_class, **solver)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if solver == SOLVERS["cholesky"] and scale >= 1e16:
            # Noise that vanishes beside the kernel makes the matrix singular.
            with pytest.raises(ValueError, match=r"not positive definite.*[Rr]aise noise"):
                model.fit(problem.X, problem.y)
            return
        model.fit(problem.X, problem.y)
    limit = model.tol * np.abs(problem.targets).max(axis=0)
    residual = true_residual(problem, model)
    # The products of the oracle round too.
    rounding = 1e-14 * scale * np.abs(model.dual_coef_).sum(axis=0) * problem.X[0].size
    assert (np.abs(model.residual_ - residual) <= 1e-2 * residual + rounding).all()
    warned = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert bool(warned) == bool((model.residual_ > limit).any())


@pytest.mark.parametrize("max_iter", [1, 3])
def test_too_few_iterations_are_reported_with_the_residual(problem, max_iter):
    model = build_plain(
        problem.model_class, solver="cg", preconditioner=None, tol=1e-6, max_iter=max_iter
    )
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(problem.X, problem.y)
    (warning,) = caught
    assert warning.filename == __file__
    residual = true_residual(problem, model)
    worst = residual.argmax()
    words = str(warning.message)
    told = re.search(r"residual of (\S+) in output (\d+)", words)
    assert float(told[1]) == pytest.approx(residual[int(told[2])], rel=0.01)
    assert residual[int(told[2])] == pytest.approx(residual[worst], rel=0.2)
    assert f"{max_iter} iteration" in words
    assert "max_iter" in words
    assert (model.n_iter_ <= max_iter).all()
    assert (model.n_iter_ == max_iter).any()
    np.testing.assert_allclose(model.residual_, residual, rtol=1e-6)


def test_too_few_iterations_for_the_variance_are_reported(rng):
    problem = make_problem("target", rng)
    exact = problem.exact()
    model = build_plain(problem.model_class, solver="cg", preconditioner=None).fit(
        problem.X, problem.y
    )
    model.set_params(solver=Solver("cg", max_iter=1, preconditioner=None))
    results = {}
    for method, arguments in [("predict", {"return_std": True}), ("latent_mean_and_variance", {})]:
        # Loaded anew, the model solves with the parameters it has now.
        model = pickle.loads(pickle.dumps(model))
        with pytest.warns(ConvergenceWarning, match=r"variance of \d+ rows .* max_iter") as caught:
            results[method] = getattr(model, method)(problem.X_star, **arguments)
        assert [w.filename for w in caught] == [__file__]
    variance = results["latent_mean_and_variance"][1]
    assert (variance >= exact.latent_variance(problem.X_star) - 1e-9).all()


def test_a_tolerance_below_rounding_is_reported(problem):
    for solver in SOLVERS.values():
        model = build_plain(problem.model_class, tol=1e-18, max_iter=200, **solver)
        with pytest.warns(ConvergenceWarning, match="above the tolerance"):
            model.fit(problem.X, problem.y)
        assert_close(model.dual_coef_, problem.exact().alpha, 1e-9)


# ---- probabilities -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["two classes", "classes"])
@pytest.mark.parametrize("n_bins", [None, 50])
def test_probabilities_are_their_definition(rng, kind, n_bins):
    problem = make_problem(kind, rng)
    model = build_plain(problem.model_class, noise=0.3, n_bins=n_bins).fit(problem.X, problem.y)
    probabilities = model.predict_proba(problem.X_star)
    assert probabilities.shape == (len(problem.X_star), len(model.classes_))
    assert (probabilities > 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)

    mean, variance = model.latent_mean_and_variance(problem.X_star)
    mean = mean.reshape(len(mean), -1)
    std = np.sqrt(variance + 0.3)[:, None]
    targets = np.array([[-1.0], [1.0]]) if kind == "two classes" else 2 * np.eye(4) - 1
    # Density of the targets of each class, among the target vectors that can occur.
    density = np.array([stats.norm.pdf(t, loc=mean, scale=std).prod(axis=1) for t in targets]).T
    expected = density / density.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-9)
    np.testing.assert_array_equal(
        model.classes_[probabilities.argmax(axis=1)], model.predict(problem.X_star)
    )


# ---- look-up tables ----------------------------------------------------------------------------

each_interpolation = pytest.mark.parametrize("interpolation", ["linear", "nearest"])


@each_interpolation
@pytest.mark.parametrize("n_bins", [2, 10, 255, 256, 65535])
def test_tables_are_within_their_bound(problem, interpolation, n_bins):
    exact = build_plain(problem.model_class).fit(problem.X, problem.y)
    table = build_plain(problem.model_class, n_bins=n_bins, interpolation=interpolation)
    table.fit(problem.X, problem.y)
    np.testing.assert_array_equal(table.dual_coef_, exact.dual_coef_)
    bound = table.quantization_error_bound_
    assert bound.shape == (exact.dual_coef_.shape[1],)
    for X in (problem.X, problem.X_star, 10 * problem.X_star):
        for M in (X, sparse.csr_array(X)):
            error = np.abs(problem.scores(table, M) - problem.scores(exact, M))
            assert (error.reshape(len(X), -1) <= bound * (1 + 1e-12)).all()
            if problem.model_class is IntersectionGPRegressor:
                _, std = table.predict(M, return_std=True)
                np.testing.assert_array_equal(std, exact.predict(M, return_std=True)[1])


@each_interpolation
@given(data=st.data())
def test_tables_are_within_their_bound_on_any_histograms(interpolation, data):
    n_columns = data.draw(st.integers(1, 20))
    kinds = {"dtype": st.sampled_from([np.float32, np.float64]), "format": "any"}
    X = data.draw(histograms((2, 40), n_columns, **kinds))
    X_star = data.draw(histograms((1, 9), n_columns, **kinds))
    y = np.random.default_rng(0).normal(size=X.shape[0])
    model = build_plain(IntersectionGPRegressor, amplitude=0.01).fit(X, y)
    exact = model.predict(X_star)
    model.set_params(n_bins=Bins(data.draw(st.integers(2, 40)), interpolation)).fit(X, y)
    error = np.abs(model.predict(X_star) - exact)
    assert (error <= model.quantization_error_bound_[0] + 1e-12 * np.abs(exact).max()).all()


def test_nearest_is_the_papers_table(problem):
    # So many that no value is half way between two.
    model = build_plain(problem.model_class, n_bins=13, interpolation="nearest").fit(
        problem.X, problem.y
    )
    table = oracle.nearest_lookup_table(problem.X, model.dual_coef_, 13)
    expected = oracle.nearest_lookup(table, problem.X_star) + problem.offset
    assert_close(problem.scores(model, problem.X_star), problem.as_output(expected), 1e-5)
    largest = oracle.nearest_error_bound(table, model.dual_coef_, problem.X_star).max(axis=0)
    # Measured on the functions themselves, the bound is no larger than by the weights' norm.
    widths = (np.max(table.prototypes, axis=1) / 12 / 2).sum()
    worst = np.abs(model.dual_coef_).sum(axis=0) * widths
    assert (model.quantization_error_bound_ <= 1.0001 * worst).all()
    assert (largest <= worst).all()


@given(
    X=count_matrices((2, 40), (1, 12), max_count=9, format="any", dtype=np.float64),
    X_star=count_matrices((1, 9), 12, max_count=12, dtype=np.float64),
)
def test_linear_tables_are_exact_with_few_distinct_values(X, X_star):
    X_star = X_star[:, : X.shape[1]]
    y = np.random.default_rng(0).normal(size=X.shape[0])
    model = build_plain(IntersectionGPRegressor).fit(X, y)
    exact = model.predict(X_star)
    model.set_params(n_bins=10).fit(X, y)
    # Tables are in single precision; nothing is larger than the largest histogram's terms.
    largest = dense(X).max(axis=0)[None]
    rounding = 1e-5 * oracle.cross_product_scale(largest, X, model.dual_coef_).max()
    assert np.abs(model.predict(X_star) - exact).max() <= rounding
    assert model.quantization_error_bound_[0] <= rounding


def test_linear_tables_are_much_closer_than_nearest_ones(rng):
    X = rng.gamma(0.5, size=(400, 8))
    y = np.sin(X).sum(axis=1)
    exact = build_plain(IntersectionGPRegressor, noise=0.01).fit(X, y).predict(X)
    errors = {}
    for interpolation in ("linear", "nearest"):
        model = build_plain(
            IntersectionGPRegressor, noise=0.01, n_bins=50, interpolation=interpolation
        )
        errors[interpolation] = np.abs(model.fit(X, y).predict(X) - exact).mean()
    assert errors["linear"] < errors["nearest"] / 4


def rough_problem(rng):
    """Return few columns of many values, whose functions are rough: bytes are close enough."""
    X = rng.integers(0, 256, size=(300, 6))
    return X, rng.normal(size=(300, 3)), rng.integers(0, 256, size=(150, 6))


@pytest.mark.parametrize("feature_weights", [None, "scale"])
def test_tables_of_bytes_are_within_their_bound(rng, feature_weights):
    X, Y, X_star = rough_problem(rng)
    parameters = {"optimizer": None, "feature_weights": feature_weights, "noise": 0.01}
    exact = build(IntersectionGPRegressor, **parameters).fit(X, Y)
    model = build(IntersectionGPRegressor, **parameters, n_bins=64).fit(X, Y)
    score = model._state()["_posterior"].score("mean", 64)
    assert score.takes_features
    predicted = model.predict(X_star)
    error = np.abs(predicted - exact.predict(X_star))
    assert (error <= model.quantization_error_bound_ * (1 + 1e-9)).all()
    assert error.max() > 0
    as_bytes = X_star.astype(np.uint8)
    for rows in (as_bytes, np.asfortranarray(as_bytes), sparse.csr_array(X_star.astype(float))):
        np.testing.assert_array_equal(model.predict(rows), predicted)
    for row, expected in zip(as_bytes, predicted, strict=True):
        np.testing.assert_array_equal(model.predict(row[None]), expected[None])
    model.set_params(n_bins=65535)
    np.testing.assert_allclose(model.predict(as_bytes), exact.predict(X_star), rtol=1e-4, atol=1e-4)
    _, std = model.predict(as_bytes, return_std=True)
    np.testing.assert_array_equal(std, exact.predict(X_star, return_std=True)[1])


@pytest.mark.parametrize("divisor", [1.0, 16.0, 255.0])
def test_tables_of_default_models_of_pixels_are_of_bytes(divisor):
    X, y = load_digits(return_X_y=True)
    model = IntersectionGPClassifier(optimizer=None, calibration=None, random_state=0).fit(
        X[::3] / divisor, y[::3]
    )
    exact = model.decision_function(X / divisor)
    model.set_params(n_bins=100)
    scores = model.decision_function(X / divisor)
    table = model._state()["_posterior"].score(model._predicted, 100)
    assert table.takes_features
    error = np.abs(scores - exact)
    assert (error <= model.quantization_error_bound_ * (1 + 1e-9)).all()
    # The rule is about the training rows; one byte would be off by ten times as much.
    assert np.sqrt((error**2).mean()) < 1e-3 * exact.std()
    assert (model.quantization_error_bound_ < 0.2 * exact.std()).all()


def test_classes_are_predicted_from_bytes(rng):
    X, Y, X_star = rough_problem(rng)
    model = IntersectionGPClassifier(n_bins=64, optimizer=None, random_state=0).fit(
        X, np.argmax(Y, axis=1)
    )
    as_bytes = X_star.astype(np.uint8)
    for method in (model.predict, model.predict_proba, model.decision_function):
        np.testing.assert_array_equal(method(as_bytes), method(X_star))
    with pytest.raises(ValueError, match="features"):
        model.predict(as_bytes[:, 1:])
    # What needs variances is of numbers, and so are classes that are not read from a table.
    for ours, theirs in zip(
        model.predict(as_bytes, return_std=True),
        model.predict(X_star, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    model.set_params(calibration=None).fit(X, np.argmax(Y, axis=1))
    np.testing.assert_array_equal(model.predict_proba(as_bytes), model.predict_proba(X_star))


@pytest.mark.parametrize(
    "parameters",
    [{"feature_transform": "power", "exponent": 0.5}, {"feature_weights": [1.0, 0.5, 2.0]}],
)
def test_bytes_are_numbers_to_tables_of_what_is_made_of_them(rng, parameters):
    X, y = 0.1 + rng.integers(0, 200, size=(60, 3)), rng.normal(size=60)
    model = build(IntersectionGPRegressor, optimizer=None, **parameters, n_bins=5)
    model.fit(X, y)
    assert not model._state()["_posterior"].score("mean", 5).takes_features
    rows = rng.integers(0, 256, size=(20, 3))
    np.testing.assert_array_equal(model.predict(rows.astype(np.uint8)), model.predict(rows))


def test_the_bound_goes_with_the_table(rng):
    X, y = rng.random((20, 3)), rng.normal(size=20)
    model = build_plain(IntersectionGPRegressor, n_bins=5).fit(X, y)
    assert hasattr(model, "quantization_error_bound_")
    model.set_params(n_bins=None).fit(X, y)
    assert not hasattr(model, "quantization_error_bound_")
    assert not hasattr(IntersectionGPRegressor(n_bins=5), "quantization_error_bound_")


def test_large_score_tables_are_made_a_few_columns_at_a_time(problem, monkeypatch):
    expected = problem.scores(
        build_plain(problem.model_class).fit(problem.X, problem.y), problem.X_star
    )
    monkeypatch.setattr(_score, "_MAX_TABLE_BYTES", 0)
    model = build_plain(problem.model_class).fit(problem.X, problem.y)
    assert_close(problem.scores(model, problem.X_star), expected, 1e-12)


def test_many_outputs_are_solved_some_at_a_time(rng, monkeypatch, capsys):
    problem = make_problem("many targets", rng)
    monkeypatch.setattr(_system, "_WORK_BYTES", 0)
    monkeypatch.setattr(_system, "_MIN_OUTPUTS", 4)
    monkeypatch.setattr(_progress, "tqdm", None)
    model = build_plain(
        problem.model_class, noise=0.2, amplitude=0.5, tol=1e-8, solver="cg", verbose=1
    )
    alpha = problem.exact(noise=0.2, amplitude=0.5).alpha
    model.fit(problem.X, problem.y)
    assert_close(model.dual_coef_, alpha, 1e-6)
    assert model.n_iter_.shape == model.residual_.shape == (11,)
    assert "0/11 solved" in capsys.readouterr().err


# ---- what must not matter ----------------------------------------------------------------------


@each_solver
def test_histograms_without_entries_predict_the_mean(several_targets, solver):
    problem = several_targets
    zeros = np.zeros_like(problem.X)
    model = build_plain(problem.model_class, **solver).fit(zeros, problem.y)
    mean, variance = model.latent_mean_and_variance(problem.X_star)
    np.testing.assert_allclose(mean - problem.as_output(0 * mean + problem.offset), 0.0, atol=1e-14)
    expected = problem.X_star.sum(axis=1)
    np.testing.assert_allclose(variance.reshape(len(mean), -1)[:, 0], expected)


@each_solver
def test_equal_rows(several_targets, solver):
    problem = several_targets
    X = np.tile(problem.X[1], (len(problem.X), 1))
    model = build_plain(problem.model_class, tol=1e-8, **solver).fit(X, problem.y)
    exact = problem._replace(X=X).exact()
    assert_close(model.dual_coef_, exact.alpha, 1e-6)


@each_solver
def test_a_single_row_and_constant_targets(solver):
    model = build_plain(IntersectionGPRegressor, noise=0.5, **solver).fit([[1.0, 2.0]], [7.0])
    mean, std = model.predict([[1.0, 2.0], [0.0, 9.0]], return_std=True)
    np.testing.assert_array_equal(mean, 7.0)
    expected = [3 - 9 / 3.5 + 0.5, 9 - 4 / 3.5 + 0.5]
    np.testing.assert_allclose((std / model.y_std_) ** 2, expected, rtol=1e-4)
    # One value has no unit but that of its rounding.
    assert model.y_std_ == pytest.approx(7e-14)
    np.testing.assert_array_equal(model.residual_, 0.0)


# ---- hyper-parameters --------------------------------------------------------------------------


@each_solver
@pytest.mark.parametrize("amplitude", [1e-8, 1e-3, 1e3])
@pytest.mark.parametrize("noise", [1e-3, 1.0, 1e6])
def test_any_amplitude_and_noise(several_targets, solver, amplitude, noise):
    problem = several_targets
    model = build_plain(problem.model_class, noise=noise, amplitude=amplitude, tol=1e-8, **solver)
    model.fit(problem.X, problem.y)
    exact = problem.exact(noise, amplitude)
    mean, variance = model.latent_mean_and_variance(problem.X_star)
    assert_close(model.dual_coef_, exact.alpha, 1e-5)
    assert_close(mean, exact.mean(problem.X_star) + problem.offset, 1e-5)
    prior = amplitude * problem.X_star.sum(axis=1).max()
    error = variance[:, 0] - exact.latent_variance(problem.X_star)
    assert np.abs(error).max() <= 1e-6 * prior


@each_model
@pytest.mark.parametrize(
    ("noise", "amplitude"), [(1e300, 1e-300), (1e-300, 1e300)], ids=["overflow", "underflow"]
)
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_a_ratio_out_of_range_is_refused(rng, model_class, noise, amplitude, solver):
    X, y = rng.random((20, 3)), np.arange(20) % 2
    model = build_plain(model_class, noise=noise, amplitude=amplitude, solver=solver)
    with pytest.raises(ValueError, match=r"noise / amplitude = .* out of range.*(raise|lower)"):
        model.fit(X, y)
    assert not hasattr(model, "dual_coef_")


@each_model
@pytest.mark.parametrize("scale", [1e308, 1e299])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_features_whose_sum_overflows_are_refused(rng, model_class, scale, solver):
    X, y = scale * np.ones((20, 6)), np.arange(20) % 2
    with pytest.raises(ValueError, match=r"row \d+ of X .* overflow.*[Ss]cale"):
        build_plain(model_class, solver=solver).fit(X, y)


@pytest.mark.parametrize("y", [[1.7e308, 1.7e308, 0.0], [-1.7e308, -1.0, 1.7e308]])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_targets_that_overflow_are_refused(y, solver):
    with pytest.raises(ValueError, match=r"overflows?\. Scale y down"):
        build_plain(IntersectionGPRegressor, solver=solver).fit([[1.0], [2.0], [3.0]], y)


@pytest.mark.parametrize("preconditioner", ["auto", "knots", "pivoted-cholesky", None])
def test_iterating_without_noise_interpolates(rng, preconditioner):
    X = 10 * rng.random((30, 4))
    y = rng.normal(size=30)
    model = build_plain(
        IntersectionGPRegressor, noise=1e-13, solver="cg", preconditioner=preconditioner, tol=1e-6
    )
    np.testing.assert_allclose(model.fit(X, y).predict(X), y, atol=1e-4)


@each_solver
def test_changed_parameters_wait_for_the_next_fit(several_targets, solver):
    problem = several_targets
    model = build_plain(problem.model_class, noise=0.2, amplitude=0.5, **solver).fit(
        problem.X, problem.y
    )
    expected = model.latent_mean_and_variance(problem.X_star)
    _, expected_std = model.predict(problem.X_star, return_std=True)
    model.set_params(**of_terms(noise=5.0, amplitude=3.0))
    for fitted in (model, pickle.loads(pickle.dumps(model))):
        for actual, value in zip(
            fitted.latent_mean_and_variance(problem.X_star), expected, strict=True
        ):
            np.testing.assert_array_equal(actual, value)
        _, std = fitted.predict(problem.X_star, return_std=True)
        np.testing.assert_array_equal(std, expected_std)


def test_tables_can_be_changed_without_a_fit(several_targets):
    problem = several_targets
    model = build_plain(problem.model_class).fit(problem.X, problem.y)
    for n_bins in (4, 64):
        expected = build_plain(problem.model_class, n_bins=n_bins).fit(problem.X, problem.y)
        model.set_params(n_bins=n_bins)
        np.testing.assert_array_equal(
            model.predict(problem.X_star), expected.predict(problem.X_star)
        )
