"""Additive Gaussian processes of smooth functions, of targets and of classes."""

import numpy as np
import pytest
from scipy import sparse
from scipy.interpolate import make_smoothing_spline
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor, Solver
from histrs.gaussian_process._bound.splines import SmoothRows, SmoothScore, SmoothTerm
from histrs.gaussian_process.kernels import Splines
from tests.helpers import assert_slope, build, of_terms
from tests.oracles import laplace
from tests.oracles import smooth as oracle

KEPT = {"optimizer": None, "noise": 0.1, "amplitude": 0.7, "slope_weight": 2.0}
SOLVERS = [{"solver": "cholesky"}, {"solver": "cg", "tol": 1e-11, "variance": "exact"}]
KINDS = [("cubic", 0.0), ("both", 0.6)]
EACH_KIND = pytest.mark.parametrize(("smoothness", "rough"), KINDS)


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    # A column of few values, one of a large unit far from 0, and one that does not vary.
    X = np.column_stack(
        [
            rng.random(80),
            rng.integers(0, 3, 80),
            5e3 + 1e2 * rng.exponential(size=80),
            np.full(80, 2.0),
            rng.random(80),
        ]
    )
    X[::7, 0] = 0.0
    y = np.sin(6 * X[:, 0]) * 2 + X[:, 1] ** 2 + X[:, 4] + 0.1 * rng.standard_normal(80)
    # Some beyond the range of training, on either side.
    X_star = X[:13] * rng.uniform(0.9, 1.2, (13, 5))
    return X, y, X_star


def kernel(model, A, B, X, weights=None):
    """The kernel by definition."""
    w = model.feature_weights_
    slope, rough = model.slope_weight_, model.rough_weight_
    return oracle.kernel(A * w, B * w, X * w, slope, rough, weights)


def covariance(model, A, B, X, weights=None):
    """The prior covariance of standardised targets by definition."""
    return model.amplitude_ * kernel(model, A, B, X, weights)


def make(smoothness, rough, **options):
    extra = {"rough_weight": rough} if smoothness == "both" else {}
    return build(IntersectionGPRegressor, smoothness=smoothness, **extra, **{**KEPT, **options})


@pytest.mark.parametrize(("smoothness", "rough"), KINDS)
@pytest.mark.parametrize("options", SOLVERS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_the_posterior_is_that_of_the_dense_kernel(data, smoothness, rough, options, container):
    X, y, X_star = data
    model = make(smoothness, rough, **options).fit(container(X), y)
    K = covariance(model, X, X, X)
    solved = np.linalg.inv(K + 0.1 * np.eye(80))
    k = covariance(model, X, X_star, X)
    mean = y.mean() + k.T @ solved @ (y - y.mean())
    found, std = model.predict(container(X_star), return_std=True)
    np.testing.assert_allclose(found, mean, rtol=1e-7, atol=1e-7)
    left = y.var() * (covariance(model, X_star, X_star, X) - k.T @ solved @ k)
    np.testing.assert_allclose(std**2, np.diag(left) + 0.1 * y.var(), rtol=1e-6)
    _, both = model.predict(container(X_star), return_cov=True)
    np.testing.assert_allclose(both, left + 0.1 * y.var() * np.eye(13), atol=1e-5)
    lower, upper = model.std_bounds(container(X_star), rtol=1e-3)
    assert np.all((lower <= std * (1 + 1e-6)) & (std <= upper * (1 + 1e-6)))
    if options["solver"] == "cholesky":
        density = multivariate_normal(cov=K + 0.1 * np.eye(80)).logpdf((y - y.mean()) / y.std())
        assert model.log_marginal_likelihood() == pytest.approx(density, rel=1e-8)
        residual = y - y.mean() - model.predict_leave_one_out()[0] + y.mean()
        alpha = solved @ (y - y.mean())
        np.testing.assert_allclose(residual, alpha / np.diag(solved), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("smoothness", "rough"), KINDS)
@pytest.mark.parametrize("options", SOLVERS)
def test_functions_are_the_terms_of_the_mean(data, smoothness, rough, options):
    X, y, X_star = data
    model = make(smoothness, rough, shared_hyperparameters=True, **options)
    model.fit(X, np.column_stack([y, -y]))
    explained = model.explain(X_star)
    np.testing.assert_allclose(
        explained.values.sum(axis=1) + explained.offset, model.predict(X_star), atol=1e-7
    )
    # Functions have a mean of 0 over the training rows.
    np.testing.assert_allclose(model.explain(X).values.mean(axis=0), 0.0, atol=1e-9)
    w = model.feature_weights_
    solved = np.linalg.inv(covariance(model, X, X, X) + 0.1 * np.eye(80))
    for d in range(5):

        def of_feature(a, b, d=d):
            part = [(v * w[d])[:, None] for v in (a, b, X[:, d])]
            return 0.7 * oracle.kernel(*part, model.slope_weight_, model.rough_weight_)

        k = of_feature(X[:, d], X_star[:, d])
        prior = of_feature(X_star[:, d], X_star[:, d])
        np.testing.assert_allclose(
            explained.values[:, d, 0], k.T @ solved @ (y - y.mean()), rtol=1e-6, atol=1e-7
        )
        variance = np.diag(prior - k.T @ solved @ k) * y.var()
        np.testing.assert_allclose(explained.std[:, d, 0] ** 2, variance, rtol=1e-5, atol=1e-8)
    shape = model.shape_functions([4], return_std=True)[0]
    assert len(shape.knots) == 200
    assert (shape.knots[0], shape.knots[-1]) == pytest.approx((X[:, 4].min(), X[:, 4].max()))
    rows = np.tile(X[:1], (200, 1))
    rows[:, 4] = shape.knots
    explained = model.explain(rows)
    np.testing.assert_allclose(explained.values[:, 4], shape.values, atol=1e-9)
    np.testing.assert_allclose(explained.std[:, 4], shape.std, rtol=1e-5, atol=1e-8)
    assert len(model.shape_functions([0], max_knots=17)[0].knots) == 17
    # One value: a function of mean 0 is 0, whatever is certain.
    (constant,) = model.shape_functions([3], return_std=True)
    assert constant.knots.tolist() == [2.0]
    assert np.all(constant.values == 0.0)
    assert np.all(constant.std == 0.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_feature_is_a_smoothing_spline(weighted):
    rng = np.random.default_rng(0)
    x = np.sort(3.0 + rng.random(60) * 4)
    y = np.sin(2 * x) + 0.2 * rng.standard_normal(60)
    weights = rng.uniform(0.3, 2.0, 60) if weighted else None
    lam = 0.02
    spline = make_smoothing_spline(x, y, w=weights, lam=lam)
    # lam int f''^2 + sum w (y - f)^2, lines free: noise / amplitude = lam in the unit of x.
    model = IntersectionGPRegressor(
        1.0 * Splines(slope_weight=1e6, feature_weights=None),
        noise=lam,
        optimizer=None,
        solver="cholesky",
        random_state=0,
    ).fit(x[:, None], y, sample_weight=weights)
    # Beyond the range, both are lines.
    grid = np.linspace(2.0, 8.0, 300)
    natural = np.interp(grid, x, x)
    expected = spline(natural) + spline.derivative()(natural) * (grid - natural)
    np.testing.assert_allclose(model.predict(grid[:, None]), expected, atol=2e-6)


@pytest.mark.parametrize("smoothness", ["cubic", "both"])
@pytest.mark.parametrize("options", [{"solver": "cholesky"}, {"solver": "cg", "tol": 1e-10}])
def test_the_gradient_is_that_of_the_likelihood(data, smoothness, options):
    X, y, _ = data
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    model = make(smoothness, 0.5, **options).fit(X, y, sample_weight=weight)
    # Not kept: the hyper-parameters that a search would move.
    model.optimizer = "l-bfgs-b"
    theta = np.log([0.1, 0.7, 2.0, 0.5])[: 3 if smoothness == "cubic" else 4]
    assert_slope(model, theta, 1e-4 if options["solver"] == "cholesky" else 3e-3, 1e-4, step=1e-4)


@pytest.mark.parametrize("smoothness", ["cubic", "both"])
def test_iterations_are_few_and_deviations_right(smoothness):
    rng = np.random.default_rng(0)
    X = rng.random((2500, 4))
    f = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + np.exp(X[:, 2])
    y = f + 0.3 * rng.standard_normal(len(f))
    options = {"smoothness": smoothness, "rough_weight": 1e-3, "noise": 0.1, "amplitude": 5.0}
    fitted = build(IntersectionGPRegressor, **options, solver="cg", optimizer=None)
    fitted.fit(X[:2000], y[:2000])
    assert fitted.n_iter_.max() <= 20
    plain = (
        clone(fitted).set_params(solver=Solver("cg", preconditioner=None)).fit(X[:2000], y[:2000])
    )
    assert plain.n_iter_.max() > 3 * fitted.n_iter_.max()
    mean, std = fitted.predict(X[2000:], return_std=True)
    assert np.sqrt(np.mean((mean - f[2000:]) ** 2)) < 0.05
    assert 0.93 < np.mean(np.abs(mean - y[2000:]) < 1.96 * std) < 0.98
    exact = clone(fitted).set_params(solver="cholesky").fit(X[:2000], y[:2000])
    wanted, deviation = exact.predict(X[2000:], return_std=True)
    np.testing.assert_allclose(mean, wanted, atol=1e-3)
    np.testing.assert_allclose(std, deviation, rtol=1e-3)
    assert fitted.std_error_ < 1e-3


@pytest.mark.slow
def test_of_many_rows_some_tell_the_weights():
    rng = np.random.default_rng(0)
    X = rng.random((2100, 3))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(len(X))
    model = IntersectionGPRegressor(Splines(), random_state=0).fit(X, y)
    assert len(model.theta_) == 3
    assert model.noise_ * y.var() == pytest.approx(0.04, rel=0.1)
    values = np.log([model.noise_, model.amplitude_, model.slope_weight_])
    np.testing.assert_allclose(model.theta_, values)
    whole = IntersectionGPRegressor(Splines(), solver="cholesky", random_state=0).fit(X, y)
    gap = whole.log_marginal_likelihood() - whole.log_marginal_likelihood(model.theta_)
    assert -0.1 < gap < 2.0


def test_smooth_functions_need_fewer_rows_and_rough_ones_are_told_apart():
    rng = np.random.default_rng(0)
    X = rng.random((400, 3))
    smooth = np.sin(6 * X[:, 0]) + X[:, 1] ** 2
    steps = np.floor(4 * X[:, 0]) % 2 + X[:, 1]
    error = {}
    for name, f in (("smooth", smooth), ("steps", steps)):
        y = f + 0.1 * rng.standard_normal(400)
        for smoothness in ("linear", "cubic", "both"):
            model = IntersectionGPRegressor(**of_terms(smoothness=smoothness), random_state=0).fit(
                X[:200], y[:200]
            )
            error[name, smoothness] = np.sqrt(np.mean((model.predict(X[200:]) - f[200:]) ** 2))
    assert error["smooth", "cubic"] < 0.7 * error["smooth", "linear"]
    assert error["smooth", "both"] < 0.8 * error["smooth", "linear"]
    assert error["steps", "both"] < 1.05 * error["steps", "linear"]


@pytest.mark.parametrize("zeros", [[0], [0, 1, 2, 3, 4]])
def test_sparse_rows_are_as_dense_ones(data, zeros):
    """Whether zeros stand for the least value of every column, or of some."""
    X, y, X_star = data
    X[np.ix_(range(3, 80, 7), zeros)] = 0.0
    model = make("both", 0.6)
    expected = model.fit(X[:60], y[:60]).partial_fit(X[60:], y[60:]).forget([0, 7, 61])
    mean, std = expected.predict(X_star, return_std=True)
    rows, queries = sparse.csr_array(X), sparse.csr_array(X_star)
    found = clone(model).fit(rows[:60], y[:60]).partial_fit(rows[60:], y[60:]).forget([0, 7, 61])
    for one, other in zip(found.predict(queries, return_std=True), (mean, std), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def test_awkward_rows(data):
    X, y, _ = data
    one = IntersectionGPRegressor(Splines(rough_weight=1.0), optimizer=None, random_state=0).fit(
        X[:1], y[:1]
    )
    assert one.predict(X[:3]) == pytest.approx(y[0])
    model = IntersectionGPRegressor(Splines(feature_weights=None), optimizer=None, random_state=0)
    with pytest.raises(ValueError, match="Scale the features down"):
        model.fit(X * 1e150, y)
    scaled = clone(model).set_params(kernel=Splines(feature_weights="scale")).fit(X * 1e150, y)
    plain = clone(model).set_params(kernel=Splines(feature_weights="scale")).fit(X, y)
    np.testing.assert_allclose(scaled.predict(X * 1e150), plain.predict(X), rtol=1e-6)


@pytest.mark.parametrize(("smoothness", "rough"), KINDS)
def test_functions_of_features_that_have_no_weights(data, smoothness, rough):
    X, y, _ = data
    X = X / [1.0, 1.0, 1e3, 1.0, 1.0]
    functions = []
    for weights in (None, np.ones(5)):
        model = make(smoothness, rough, solver="cholesky", feature_weights=weights).fit(X, y)
        for shape in model.shape_functions(range(5), max_knots=9, return_std=True):
            column = X[:, shape.feature]
            ends = (shape.knots[0], shape.knots[-1])
            assert ends == pytest.approx((column.min(), column.max()))
            functions.append((shape.knots, shape.values, shape.std))
    for found, expected in zip(functions[:5], functions[5:], strict=True):
        for part, known in zip(found, expected, strict=True):
            np.testing.assert_allclose(part, known, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rough", [0.0, 0.3])
def test_few_knots_are_near_all(rough):
    rng = np.random.default_rng(0)
    X, V = rng.random((3000, 2)), rng.standard_normal((3000, 4))
    term = SmoothTerm(SmoothRows.of(X, np.full(3000, 1 / 3000), 1), 0.7, rough, 1)
    exact, near = (SmoothScore(term, V, n).evaluate(X[:200], 1) for n in (None, 1024))
    np.testing.assert_allclose(near, exact, atol=1e-3 * np.abs(exact).max())


def test_light_rows_are_centred_too(data):
    X, y, _ = data
    weight = np.full(80, 1e-6)
    weight[:2] = 1.0
    model = make("cubic", 0.0).fit(X, y, sample_weight=weight).forget([0, 1])
    kept = weight[2:] / weight[2:].sum()
    np.testing.assert_allclose(kept @ model.explain(X[2:]).values, 0.0, atol=1e-9)


def test_a_search_that_is_not_converged_says_so(data):
    X, y, _ = data
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        make("cubic", 0.0, solver="cg", max_iter=1, tol=1e-12).fit(X, y)


@pytest.mark.parametrize("smoothness", ["cubic", "both"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_rows_as_far_outside_as_there_are_numbers(rng, smoothness, container):
    X, y = rng.random((30, 3)), rng.normal(size=30)
    model = IntersectionGPRegressor(**of_terms(smoothness=smoothness), random_state=0).fit(X, y)
    std = [
        model.predict(container(X[:2] * scale), return_std=True)[1]
        for scale in (1.0, 1e50, 1e100, 1e160, 1e300)
    ]
    assert np.all(np.isfinite(std))
    assert np.all(np.diff(std[:3], axis=0) > 0.0)
    assert np.all(np.diff(std[2:], axis=0) >= 0.0)


# ---- smooth functions of classes -----------------------------------------------------------------

EACH_SOLVER = pytest.mark.parametrize("solver", ["cholesky", "cg"])


def sample(n_classes=2, n=60):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.random(n), rng.integers(0, 3, n), 50 + 9 * rng.exponential(size=n)])
    score = np.sin(6 * X[:, 0]) + X[:, 1] - 0.05 * X[:, 2] + 0.3 * rng.normal(size=n)
    y = np.searchsorted(np.quantile(score, [0.7] if n_classes == 2 else [0.3, 0.7]), score)
    return X, y, rng.choice([0.5, 1.0, 2.0], n), X[:11] * rng.uniform(0.9, 1.2, (11, 3))


def classifier(smoothness, rough, solver="cholesky", **given):
    extra = {"rough_weight": rough} if smoothness == "both" else {}
    given = {"optimizer": None, "slope_weight": 0.8, "amplitude": 0.7, "noise": 0.2, **given}
    return build(
        IntersectionGPClassifier,
        smoothness=smoothness,
        solver=solver,
        tol=1e-9,
        variance="exact",
        **extra,
        **given,
    )


@EACH_KIND
@EACH_SOLVER
@pytest.mark.parametrize("weighted", [False, True])
def test_is_laplaces_approximation(smoothness, rough, solver, weighted):
    X, t, w, others = sample()
    w = w / w.mean() if weighted else np.ones(len(X))
    model = classifier(smoothness, rough, solver, likelihood="bernoulli").fit(X, t, w)
    C, cross, prior = (
        laplace.latent_covariance(kernel(model, A, B, X, w), 0.7)
        for A, B in ((X, X), (others, X), (others, others))
    )
    f = laplace.mode(C, t, w)
    mean, variance = laplace.prediction(C, cross, np.diag(prior), f, t, w)
    found = model.latent_mean_and_variance(others)
    np.testing.assert_allclose(found[0], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], variance, rtol=1e-5, atol=1e-7)
    explained = model.explain(others)
    total = explained.values.sum(axis=1) + explained.offset
    np.testing.assert_allclose(total, mean, rtol=1e-5, atol=1e-6)
    if solver == "cholesky":
        evidence = model.log_marginal_likelihood()
        assert evidence == pytest.approx(laplace.log_evidence(C, f, t, w), rel=1e-8)
    # The term of a feature, whose posterior is told apart from the bias.
    d, noise = 0, np.diag(1.0 / (w * np.exp(f) / (1.0 + np.exp(f)) ** 2))
    part = [(A * model.feature_weights_)[:, [d]] for A in (X, others, X)]
    slope, of_min = model.slope_weight_, model.rough_weight_
    k = 0.7 * oracle.kernel(part[1], part[0], part[2], slope, of_min, w)
    own = 0.7 * oracle.kernel(part[1], part[1], part[2], slope, of_min, w)
    expected = np.diag(own) - np.sum(k * np.linalg.solve(C + noise, k.T).T, axis=1)
    np.testing.assert_allclose(explained.std[:, d] ** 2, expected, rtol=1e-4, atol=1e-7)


@EACH_KIND
@EACH_SOLVER
@pytest.mark.parametrize("n_classes", [2, 3])
def test_regression_of_labels_less_their_means(smoothness, rough, solver, n_classes):
    X, y, w, others = sample(n_classes)
    w = w / w.mean()
    model = classifier(smoothness, rough, solver, likelihood="gaussian").fit(X, y, w)
    Y = np.where(y[:, None] == ([1] if n_classes == 2 else np.arange(3)), 1.0, -1.0)
    level = np.average(Y, axis=0, weights=w)
    A = 0.7 * kernel(model, X, X, X, w) + 0.2 * np.diag(1.0 / w)
    k = 0.7 * kernel(model, others, X, X, w)
    mean, variance = model.latent_mean_and_variance(others)
    expected = level + k @ np.linalg.solve(A, Y - level)
    np.testing.assert_allclose(mean.reshape(expected.shape), expected, rtol=1e-6, atol=1e-7)
    if solver == "cholesky":
        squares = np.sum((Y - level) * np.linalg.solve(A, Y - level))
        constant = np.linalg.slogdet(A)[1] + len(Y) * np.log(2.0 * np.pi)
        evidence = -0.5 * (squares + Y.shape[1] * constant)
        assert model.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-8)
    prior = np.diag(0.7 * kernel(model, others, others, X, w))
    left = prior - np.sum(k * np.linalg.solve(A, k.T).T, axis=1)
    np.testing.assert_allclose(variance, left, rtol=1e-5, atol=1e-8)
    explained = model.explain(others)
    total = explained.values.sum(axis=1) + explained.offset
    np.testing.assert_allclose(total.reshape(expected.shape), expected, rtol=1e-6, atol=1e-7)
    (shape,) = model.shape_functions([0], max_knots=9, return_std=True)
    assert shape.values.shape[0] == len(shape.knots) == 9
    probabilities = model.predict_proba(others)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        model.classes_[probabilities.argmax(axis=1)], model.predict(others)
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_learns_how_smooth_functions_are(n_classes):
    X, y, w, others = sample(n_classes, n=150)
    model = IntersectionGPClassifier(Splines(rough_weight=1.0), random_state=0).fit(X, y, w)
    assert model.likelihood_ == ("bernoulli" if n_classes == 2 else "gaussian")
    assert model.smoothness_ == "both"
    assert model.slope_weight_ > 0.0
    assert model.rough_weight_ > 0.0
    assert model.score(X, y) > 0.8
    rows = sparse.csr_array(X)
    same = IntersectionGPClassifier(Splines(rough_weight=1.0), random_state=0).fit(rows, y, w)
    np.testing.assert_allclose(same.predict_proba(others), model.predict_proba(others), atol=1e-5)


def test_many_weighted_rows():
    """Some rows tell the variance of the logit, with their own weights."""
    rng = np.random.default_rng(0)
    X = rng.random((1300, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=1300) > 0.6).astype(int)
    model = IntersectionGPClassifier(Splines(), likelihood="bernoulli", random_state=0)
    assert model.fit(X, y, rng.choice([0.5, 2.0], 1300)).score(X, y) > 0.75


@pytest.mark.parametrize("model_class", [IntersectionGPRegressor, IntersectionGPClassifier])
def test_what_smooth_functions_do_not_go_with_is_refused(model_class):
    X, y, _, others = sample()
    for name, value in (
        *(("n_bins", 64), ("n_interactions", 1), ("solver", "coordinate-descent")),
        *(("feature_weights", "ard"), ("feature_weights", "relevance")),
        *(("variance", "fine"), ("variance", "coarse"), ("preconditioner", "knots")),
    ):
        model = build(model_class, smoothness="both", **{name: value})
        said = "can only choose pairs" if name == "n_interactions" else name
        with pytest.raises(ValueError, match=said):
            model.fit(X, y)
        assert not hasattr(model, "dual_coef_")
    model = model_class(Splines(rough_weight=1.0), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="those of Splines are smooth"):
        model.export_tables()
    with pytest.raises(ValueError, match="n_bins"):
        model.set_params(n_bins=20).predict(others)
    model.set_params(n_bins=None, variance="fine")
    with pytest.raises(ValueError, match="variance"):
        model.predict(X, return_std=True)
